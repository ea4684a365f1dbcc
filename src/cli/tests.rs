use super::*;

fn run(args: &[&str]) -> Flags {
    match read(args) {
        Ok(Cli { command: Command::Run(flags) }) => *flags,
        other => panic!("{args:?}: {other:?}"),
    }
}

fn read(args: &[&str]) -> Result<Cli, clap::Error> {
    Cli::read(std::iter::once("ray-operator").chain(args.iter().copied()))
}

fn shown(flags: &Flags, flag: &str) -> String {
    let path = |p: &Option<PathBuf>| p.as_ref().map(|p| p.display().to_string());
    let text = match flag {
        "metrics-addr" => flags.metrics_addr.clone(),
        "health-probe-bind-address" => flags.health_probe_bind_address.clone(),
        "enable-leader-election" => flags.enable_leader_election.map(|b| b.to_string()),
        "leader-election-namespace" => flags.leader_election_namespace.clone(),
        "reconcile-concurrency" => flags.reconcile_concurrency.map(|n| n.to_string()),
        "watch-namespace" => flags.watch_namespace.clone(),
        "forced-cluster-upgrade" => flags.forced_cluster_upgrade.map(|b| b.to_string()),
        "log-file-path" => path(&flags.log_file_path),
        "log-file-encoder" => flags.log_file_encoder.clone(),
        "log-stdout-encoder" => flags.log_stdout_encoder.clone(),
        "enable-batch-scheduler" => flags.enable_batch_scheduler.map(|b| b.to_string()),
        "batch-scheduler" => flags.batch_scheduler.clone(),
        "config" => path(&flags.config),
        "use-kubernetes-proxy" => flags.use_kubernetes_proxy.map(|b| b.to_string()),
        "feature-gates" => flags.feature_gates.clone(),
        "enable-metrics" => flags.enable_metrics.map(|b| b.to_string()),
        "qps" => flags.qps.map(|n| n.to_string()),
        "burst" => flags.burst.map(|n| n.to_string()),
        "kubeconfig" => path(&flags.kubeconfig),
        "zap-devel" => flags.zap_devel.map(|b| b.to_string()),
        "zap-encoder" => flags.zap_encoder.clone(),
        "zap-log-level" => flags.zap_log_level.clone(),
        "zap-stacktrace-level" => flags.zap_stacktrace_level.clone(),
        "zap-time-encoding" => flags.zap_time_encoding.clone(),
        "worker-threads" => flags.worker_threads.map(|n| n.to_string()),
        "log-level" => flags.log_level.clone(),
        "manage-crds" => flags.manage_crds.map(|b| b.to_string()),
        other => panic!("{other} is not in the table"),
    };
    text.unwrap_or_else(|| "not given".to_string())
}

const VALUES: [(&str, &str); 19] = [
    ("metrics-addr", ":8080"),
    ("health-probe-bind-address", "127.0.0.1:8082"),
    ("leader-election-namespace", "ray-system"),
    ("reconcile-concurrency", "5"),
    ("watch-namespace", "a,b"),
    ("log-file-path", "/var/log/x"),
    ("log-file-encoder", "console"),
    ("log-stdout-encoder", "console"),
    ("batch-scheduler", "volcano"),
    ("config", "/etc/kuberay/config.yaml"),
    ("feature-gates", "RayCronJob=true,RayClusterMTLS=false"),
    ("qps", "12.5"),
    ("burst", "7"),
    ("kubeconfig", "/k"),
    ("zap-encoder", "json"),
    ("zap-log-level", "2"),
    ("zap-stacktrace-level", "error"),
    ("zap-time-encoding", "iso8601"),
    ("worker-threads", "4"),
];

const BOOLS: [&str; 7] = [
    "enable-leader-election",
    "forced-cluster-upgrade",
    "enable-batch-scheduler",
    "use-kubernetes-proxy",
    "enable-metrics",
    "zap-devel",
    "manage-crds",
];

#[test]
fn flags_with_values_in_four_forms() {
    for (flag, value) in VALUES {
        for dash in ["-", "--"] {
            let joined = format!("{dash}{flag}={value}");
            assert_eq!(shown(&run(&[&joined]), flag), value, "{joined}");
            let apart = format!("{dash}{flag}");
            assert_eq!(shown(&run(&[&apart, value]), flag), value, "{apart} {value}");
            assert_eq!(
                shown(&run(&["run", &apart, value, "-burst=9"]), flag),
                if flag == "burst" { "9" } else { value }
            );
        }
        assert_eq!(shown(&run(&[]), flag), "not given");
    }
}

#[test]
fn bools_in_gos_forms() {
    for flag in BOOLS {
        for dash in ["-", "--"] {
            assert_eq!(shown(&run(&[&format!("{dash}{flag}")]), flag), "true", "{dash}{flag}");
            for (value, wanted) in [("false", "false"), ("F", "false"), ("0", "false"), ("TRUE", "true"), ("1", "true")]
            {
                assert_eq!(shown(&run(&[&format!("{dash}{flag}={value}")]), flag), wanted, "{dash}{flag}={value}");
            }
            assert!(read(&[&format!("{dash}{flag}=yes")]).is_err());
        }
        assert!(read(&[&format!("--{flag}"), "false"]).is_err(), "Go stops reading flags here: refuse it");
    }
}

#[test]
fn every_flag_is_in_the_tables() {
    let command = Cli::command();
    let run = command.find_subcommand("run").unwrap();
    for arg in run.get_arguments().filter_map(|arg| arg.get_long()) {
        let known = VALUES.iter().any(|(flag, _)| *flag == arg) || BOOLS.contains(&arg) || arg == "log-level";
        assert!(known, "--{arg} is not tested");
    }
}

#[test]
fn what_charts_and_people_write() {
    let chart = run(&[
        "--feature-gates=RayClusterStatusConditions=true,RayJobDeletionPolicy=true",
        "",
        "--enable-leader-election=true",
        "--enable-metrics=true",
        "--qps=100",
        "--burst=200",
    ]);
    assert_eq!(chart.burst, Some(200));
    assert_eq!(chart.enable_metrics, Some(true));
    assert_eq!(run(&["-watch-namespace", "", "-qps", "-1"]).watch_namespace.as_deref(), Some(""));
    assert_eq!(run(&["-watch-namespace", "", "-qps", "-1"]).qps, Some(-1.0));
    assert_eq!(run(&["--qps=1", "--qps=2"]).qps, Some(2.0), "the last one wins");
    assert_eq!(run(&["--log-level", "debug,kube=info"]).log_filter().unwrap().unwrap(), "debug,kube=info");
    assert_eq!(run(&["--feature-gates="]).feature_gates.as_deref(), Some(""));
}

#[test]
fn refusals_are_clear() {
    let unknown = read(&["--metric-addr=:1"]).unwrap_err().to_string();
    assert!(unknown.contains("'--metric-addr'") && unknown.contains("--metrics-addr"), "{unknown}");
    let number = read(&["-reconcile-concurrency", "many"]).unwrap_err().to_string();
    assert!(number.contains("--reconcile-concurrency"), "{number}");
    assert!(read(&["walk"]).unwrap_err().to_string().contains("walk"));
}

#[test]
fn other_commands() {
    assert_eq!(read(&["--version"]).unwrap_err().kind(), clap::error::ErrorKind::DisplayVersion);
    assert_eq!(read(&["-version"]).unwrap_err().kind(), clap::error::ErrorKind::DisplayVersion);
    assert_eq!(read(&["--help"]).unwrap_err().kind(), clap::error::ErrorKind::DisplayHelp);
    assert_eq!(read(&["-metrics-addr=:1", "-h"]).unwrap_err().kind(), clap::error::ErrorKind::DisplayHelp);
    assert!(matches!(read(&["crd"]).unwrap().command, Command::Crd { out: None }));
    assert!(matches!(read(&["crd", "--out", "d"]).unwrap().command, Command::Crd { out: Some(_) }));
    match read(&["plan", "-f", "a.yaml", "dir", "-f", "-"]).unwrap().command {
        Command::Plan { paths, .. } => assert_eq!(paths, ["a.yaml", "dir", "-"].map(PathBuf::from)),
        other => panic!("{other:?}"),
    }
    assert!(read(&["plan"]).is_err());
}

#[test]
fn zap_levels() {
    for (args, wanted) in [
        (vec![], None),
        (vec!["--zap-devel"], Some("debug")),
        (vec!["--zap-devel=false"], None),
        (vec!["--zap-log-level=error", "--zap-devel"], Some("error")),
        (vec!["--zap-log-level=1"], Some("debug")),
        (vec!["--zap-log-level=5"], Some("trace")),
        (vec!["--zap-log-level=5", "--log-level=warn"], Some("warn")),
    ] {
        assert_eq!(run(&args).log_filter().unwrap().as_deref(), wanted, "{args:?}");
    }
    assert!(run(&["--zap-log-level=loud"]).log_filter().is_err());
    assert_eq!(run(&["--forced-cluster-upgrade", "--zap-time-encoding=iso8601"]).notices().len(), 1);
}

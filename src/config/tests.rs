use super::*;
use crate::cli::{Cli, Command};

fn flags(args: &[&str]) -> Flags {
    match Cli::read(std::iter::once("ray-operator").chain(args.iter().copied())).unwrap().command {
        Command::Run(flags) => *flags,
        other => panic!("{other:?}"),
    }
}

fn resolve(args: &[&str], file: &str) -> Result<Config, ConfigError> {
    let text = format!("apiVersion: config.ray.io/v1alpha1\nkind: Configuration\n{file}");
    Config::resolve(&flags(args), FileConfig::parse(&text).unwrap(), &|_| None)
}

#[test]
fn nothing_given_is_the_default() {
    assert_eq!(resolve(&[], "").unwrap(), Config::default());
}

#[test]
fn flags_win_over_the_file_and_the_file_over_defaults() {
    let file = "metricsAddr: \":1\"\nprobeAddr: \":2\"\nenableLeaderElection: false\nreconcileConcurrency: 3\nqps: 4\n\
                burst: 5\nwatchNamespace: \"a, b,\"\nlogStdoutEncoder: console\nbatchScheduler: yunikorn\n\
                defaultPodLabels: {team: x}\n";
    let config = resolve(&[], file).unwrap();
    assert_eq!(config.metrics_addr, ListenAddr::Every(1));
    assert_eq!(config.health_addr, ListenAddr::Every(2));
    assert!(!config.leader_election);
    assert_eq!((config.concurrency, config.qps, config.burst), (3, 4.0, 5));
    assert_eq!(config.namespaces, ["a", "b"]);
    assert_eq!(config.logs.stdout, LogEncoder::Console);
    assert_eq!(config.batch_scheduler, Some(BatchScheduler::YuniKorn));
    assert_eq!(config.plan().default_pod_labels["team"], "x");
    assert_eq!(config.notices, Vec::<String>::new());

    let args = [
        "-metrics-addr=0",
        "--health-probe-bind-address=",
        "--enable-leader-election",
        "--reconcile-concurrency=8",
        "--qps=-1",
        "--burst=9",
        "--watch-namespace=",
        "--log-stdout-encoder=json",
        "--enable-batch-scheduler",
    ];
    let config = resolve(&args, file).unwrap();
    assert_eq!((config.metrics_addr, config.health_addr), (ListenAddr::Off, ListenAddr::Off));
    assert!(config.leader_election);
    assert_eq!((config.concurrency, config.qps, config.burst), (8, -1.0, 9));
    assert!(config.namespaces.is_empty());
    assert_eq!(config.logs.stdout, LogEncoder::Json);
    assert_eq!(config.batch_scheduler, Some(BatchScheduler::Volcano));
}

#[test]
fn errors_say_what_to_change() {
    for (args, file, words) in [
        (vec!["--enable-batch-scheduler", "--batch-scheduler=yunikorn"], "", "both --enable-batch-scheduler and"),
        (vec![], "enableBatchScheduler: true\nbatchScheduler: volcano\n", "both --enable-batch-scheduler and"),
        (vec!["--batch-scheduler=slurm"], "", "Use volcano, yunikorn, kai-scheduler or scheduler-plugins"),
        (vec!["--log-stdout-encoder=xml"], "", "--log-stdout-encoder: \"xml\" is not an encoder. Use json or console"),
        (vec![], "logFileEncoder: xml\n", "--log-file-encoder: \"xml\""),
        (vec!["--reconcile-concurrency=0"], "", "--reconcile-concurrency is 0, but must be at least 1"),
        (vec![], "reconcileConcurrency: -2\n", "--reconcile-concurrency is -2"),
        (vec!["--worker-threads=0"], "", "--worker-threads is 0"),
        (vec!["--burst=0"], "", "--burst is 0"),
        (vec!["--qps=0"], "", "qps is 0, but must be above 0"),
        (vec!["--metrics-addr=8080"], "", "--metrics-addr: \"8080\" is not an address"),
        (vec![], "probeAddr: \"1.2.3.4\"\n", "--health-probe-bind-address: \"1.2.3.4\""),
        (vec!["--feature-gates=RayCronJobs=true"], "", "no gate \"RayCronJobs\". Known gates: "),
        (vec!["--zap-log-level=loud"], "", "--zap-log-level: \"loud\""),
    ] {
        let error = resolve(&args, file).expect_err(words).to_string();
        assert!(error.contains(words), "{args:?}: {error}");
    }
}

#[test]
fn notices() {
    let config = resolve(
        &["--forced-cluster-upgrade", "--feature-gates=AsyncJobInfoQuery=true"],
        "metricAddr: x\ndeleteRayJobAfterJobFinishes: true\n",
    )
    .unwrap();
    assert!(config.delete_finished_rayjobs);
    let all = config.notices.join("\n");
    for word in ["--forced-cluster-upgrade", "metricAddr", "deleteRayJobAfterJobFinishes", "AsyncJobInfoQuery"] {
        assert!(all.contains(word), "{word} in {all}");
    }
}

#[test]
fn the_variable_wins_over_the_files_dead_key() {
    let file = FileConfig { delete_ray_job_after_job_finishes: Some(true), ..FileConfig::default() };
    let get = |name: &str| (name == "DELETE_RAYJOB_CR_AFTER_JOB_FINISHES").then(|| "false".to_string());
    let config = Config::resolve(&flags(&[]), file, &get).unwrap();
    assert!(!config.delete_finished_rayjobs);
    assert_eq!(config.notices, Vec::<String>::new());
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = Config::load(&flags(&["--config=/does/not/exist.yaml"])).unwrap_err().to_string();
    assert!(error.contains("/does/not/exist.yaml"), "{error}");
}

//! The command line: subcommands, and KubeRay's flags in Go's dialect (one dash or two, `--flag=false`).

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::config::ConfigError;
use crate::config::gates::go_bool;

/// A Kubernetes operator for Ray: RayCluster, RayJob, RayService, RayCronJob.
#[derive(Debug, Parser)]
#[command(name = "ray-operator", version, about, subcommand_required = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator (the default when only flags or nothing are given)
    Run(Box<Flags>),
    /// Print the CRDs, or write them to a folder
    Crd {
        /// Folder to write one file per CRD to
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Print what the operator would do to objects of YAML files, without a cluster
    Plan {
        /// Files, folders, or - for standard input
        #[arg(short = 'f', long = "filename", value_name = "PATH", required = true, num_args = 1..)]
        paths: Vec<PathBuf>,
        /// Configuration file of the operator
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
}

/// What `run` was told on the command line. `None` means that the flag was not given.
#[derive(Args, Clone, Debug, Default)]
#[command(args_override_self = true)]
pub struct Flags {
    /// Address of /metrics; 0 switches it off [default: :8080]
    #[arg(long, value_name = "ADDR")]
    pub metrics_addr: Option<String>,
    /// Address of /healthz and /readyz; 0 switches them off [default: :8082]
    #[arg(long, value_name = "ADDR")]
    pub health_probe_bind_address: Option<String>,
    /// Work only while holding the Lease ray-operator-leader [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub enable_leader_election: Option<bool>,
    /// Namespace of the Lease [default: the pod's own, or the kubeconfig context's outside a pod]
    #[arg(long, value_name = "NAMESPACE")]
    pub leader_election_namespace: Option<String>,
    /// How many objects of one kind are worked on at once [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub reconcile_concurrency: Option<i64>,
    /// Namespaces to watch, comma separated [default: all]
    #[arg(long, value_name = "NAMESPACES")]
    pub watch_namespace: Option<String>,
    /// Has no effect (KubeRay removed it too)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub forced_cluster_upgrade: Option<bool>,
    /// A second copy of the log, rotated at 500 MB
    #[arg(long, value_name = "FILE")]
    pub log_file_path: Option<PathBuf>,
    /// json or console [default: json]
    #[arg(long, value_name = "ENCODER")]
    pub log_file_encoder: Option<String>,
    /// json or console [default: json]
    #[arg(long, value_name = "ENCODER")]
    pub log_stdout_encoder: Option<String>,
    /// Old name of --batch-scheduler=volcano
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub enable_batch_scheduler: Option<bool>,
    /// volcano, yunikorn, kai-scheduler or scheduler-plugins
    #[arg(long, value_name = "NAME")]
    pub batch_scheduler: Option<String>,
    /// Configuration file (config.ray.io/v1alpha1 Configuration); flags win over it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Talk to Ray through the API server's proxy
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub use_kubernetes_proxy: Option<bool>,
    /// Gates to switch, as Name=true,Other=false
    #[arg(long, value_name = "GATES")]
    pub feature_gates: Option<String>,
    /// Serve the kuberay_* metrics [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub enable_metrics: Option<bool>,
    /// Requests to the API server in a second; below 0: no limit [default: 100]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub qps: Option<f64>,
    /// Requests at once after a quiet time [default: 200]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub burst: Option<i64>,
    /// Kubeconfig file [default: $KUBECONFIG, the pod's service account, then ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Log level debug, unless another flag says otherwise
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub zap_devel: Option<bool>,
    /// json or console, if --log-stdout-encoder is not given
    #[arg(long, value_name = "ENCODER")]
    pub zap_encoder: Option<String>,
    /// debug, info, warn, error, or a number: 1 is debug, 2 and more is trace
    #[arg(long, value_name = "LEVEL", allow_negative_numbers = true)]
    pub zap_log_level: Option<String>,
    /// Has no effect
    #[arg(long, value_name = "LEVEL")]
    pub zap_stacktrace_level: Option<String>,
    /// Has no effect: times are ISO 8601
    #[arg(long, value_name = "ENCODING")]
    pub zap_time_encoding: Option<String>,
    /// Threads that run tasks [default: 2]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub worker_threads: Option<i64>,
    /// Log filter: a level, or RUST_LOG's form [default: $RUST_LOG, then info]
    #[arg(long, value_name = "FILTER")]
    pub log_level: Option<String>,
    /// Install and upgrade the CRDs at start [default: false]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = parse_bool)]
    pub manage_crds: Option<bool>,
}

impl Cli {
    /// Reads a command line, the program's name first. Errors and `--help` are clap's: print them and leave with
    /// their exit code.
    pub fn read<T: Into<OsString>>(args: impl IntoIterator<Item = T>) -> Result<Self, clap::Error> {
        let mut command = Self::command();
        let args = to_clap(&command, args.into_iter().map(Into::into).collect());
        let matches = command.try_get_matches_from_mut(args)?;
        Self::from_arg_matches(&matches)
    }
}

impl Flags {
    /// Flags that were given and change nothing, as lines for the log.
    pub fn notices(&self) -> Vec<String> {
        [
            ("--forced-cluster-upgrade", self.forced_cluster_upgrade.is_some()),
            ("--zap-stacktrace-level", self.zap_stacktrace_level.is_some()),
            (
                "--zap-time-encoding",
                self.zap_time_encoding.as_deref().is_some_and(|e| !e.eq_ignore_ascii_case("iso8601")),
            ),
        ]
        .into_iter()
        .filter(|(_, given)| *given)
        .map(|(flag, _)| format!("{flag} has no effect and can be removed"))
        .collect()
    }

    /// The log filter that the flags ask for: `--log-level`, else `--zap-log-level`, else `--zap-devel`.
    pub fn log_filter(&self) -> Result<Option<String>, ConfigError> {
        if let Some(filter) = self.log_level.as_ref().filter(|filter| !filter.is_empty()) {
            return Ok(Some(filter.clone()));
        }
        let level = match self.zap_log_level.as_deref() {
            Some("debug") => "debug",
            Some("info") => "info",
            Some("warn") => "warn",
            Some("error" | "panic" | "dpanic" | "fatal") => "error",
            Some(text) => match text.parse::<u8>() {
                Ok(1) => "debug",
                Ok(2..) => "trace",
                _ => return Err(ConfigError::ZapLevel(text.to_string())),
            },
            None if self.zap_devel == Some(true) => "debug",
            None => return Ok(None),
        };
        Ok(Some(level.to_string()))
    }
}

fn parse_bool(text: &str) -> Result<bool, String> {
    go_bool(text).ok_or_else(|| "use true or false".to_string())
}

/// Turns Go's dialect into clap's: names the default subcommand, doubles single dashes of `run`'s flags, and drops
/// empty arguments between flags (KubeRay's chart emits one for an empty list of gates).
fn to_clap(command: &clap::Command, mut args: Vec<OsString>) -> Vec<OsString> {
    let word = args.get(1).and_then(|arg| arg.to_str()).unwrap_or_default();
    let ours = matches!(word, "help" | "-h" | "-help" | "--help" | "-V" | "-version" | "--version");
    if ours {
        if word.len() > 2 && !word.starts_with("--") && word != "help" {
            args[1] = format!("-{word}").into();
        }
        return args;
    }
    let named = command.get_subcommands().any(|sub| sub.get_name() == word);
    if named && word != "run" {
        return args;
    }
    if !named && (word.is_empty() || word.starts_with('-')) {
        args.insert(1, "run".into());
    }
    let Some(run) = command.find_subcommand("run") else { return args };
    let rest = args.split_off(2.min(args.len()));
    let mut value_follows = false;
    for arg in rest {
        let Some(text) = arg.to_str() else {
            args.push(arg);
            value_follows = false;
            continue;
        };
        if std::mem::take(&mut value_follows) {
            args.push(arg);
            continue;
        }
        if text.is_empty() {
            continue;
        }
        let name = text.trim_start_matches('-');
        let dashes = text.len() - name.len();
        let flag = dashes == 1 && name.len() > 1 && name.starts_with(|c: char| c.is_ascii_alphabetic());
        let name = name.split('=').next().unwrap_or_default();
        let takes_value = run
            .get_arguments()
            .find(|a| a.get_long() == Some(name))
            .is_some_and(|a| matches!(a.get_action(), ArgAction::Set) && !a.is_require_equals_set());
        value_follows = dashes > 0 && takes_value && !text.contains('=');
        args.push(if flag { format!("-{text}").into() } else { arg });
    }
    args
}

#[cfg(test)]
mod tests;

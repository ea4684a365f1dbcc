//! How the operator is set up: command line over configuration file over defaults, plus the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, EnvVar};
use thiserror::Error;

use crate::cli::Flags;
use crate::plan::config::PlanConfig;

pub mod address;
pub mod env;
pub mod file;
pub mod gates;

pub use crate::plan::config::BatchScheduler;
pub use address::ListenAddr;
pub use env::EnvSettings;
pub use gates::FeatureGates;

use file::FileConfig;

/// Everything that is decided before the operator starts. Plain data; nothing changes it later.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where `/metrics` is served (`--metrics-addr`).
    pub metrics_addr: ListenAddr,
    /// Where `/healthz` and `/readyz` are served (`--health-probe-bind-address`).
    pub health_addr: ListenAddr,
    pub leader_election: bool,
    /// `None`: the pod's own namespace, or the kubeconfig context's outside a pod.
    pub leader_election_namespace: Option<String>,
    /// How many objects of one kind are worked on at once; at least 1.
    pub concurrency: usize,
    /// Namespaces to watch; empty means all.
    pub namespaces: Vec<String>,
    pub logs: LogConfig,
    pub batch_scheduler: Option<BatchScheduler>,
    /// Talk to Ray's heads through the API server's proxy.
    pub use_kubernetes_proxy: bool,
    /// Serve the `kuberay_*` metrics.
    pub kuberay_metrics: bool,
    /// Requests to the API server in a second, on average; below 0 means without limit. Watches do not count.
    pub qps: f64,
    /// Requests that may go out at once after a quiet time; at least 1.
    pub burst: u32,
    /// `--kubeconfig`; `None`: `KUBECONFIG`, then the pod's service account, then `~/.kube/config`.
    pub kubeconfig: Option<PathBuf>,
    pub gates: FeatureGates,
    pub env: EnvSettings,
    /// Threads that run tasks; at least 1.
    pub worker_threads: usize,
    /// Install and upgrade our CRDs at start.
    pub manage_crds: bool,
    /// Delete a RayJob that has finished and asks for shutdown.
    pub delete_finished_rayjobs: bool,
    /// From the configuration file only.
    pub head_sidecars: Vec<Container>,
    /// From the configuration file only.
    pub worker_sidecars: Vec<Container>,
    /// From the configuration file only.
    pub default_container_envs: Vec<EnvVar>,
    /// From the configuration file only.
    pub default_pod_annotations: BTreeMap<String, String>,
    /// From the configuration file only.
    pub default_pod_labels: BTreeMap<String, String>,
    /// What the log should say once at start: settings that have no effect, retired names.
    pub notices: Vec<String>,
}

/// Where the log goes and how it looks.
#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// Filter in `RUST_LOG`'s form (`info`, `debug`, `warn,ray_operator=debug`); `None` leaves it to `RUST_LOG`.
    pub filter: Option<String>,
    pub stdout: LogEncoder,
    /// A second copy of the log at level info.
    pub file: Option<PathBuf>,
    pub file_encoder: LogEncoder,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogEncoder {
    /// One JSON object in a line, keys as KubeRay has them.
    #[default]
    Json,
    /// Tab separated, for people.
    Console,
}

/// Why the operator does not start. Each text says what to change.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("cannot read the configuration file {path}: {problem}")]
    ReadFile { path: String, problem: String },
    #[error("configuration file {path}: {source}")]
    File { path: String, source: file::FileError },
    #[error("{setting}: {source}")]
    Address { setting: &'static str, source: address::AddressError },
    #[error(transparent)]
    Gates(#[from] gates::GateError),
    #[error("{setting}: {value:?} is not an encoder. Use json or console")]
    Encoder { setting: &'static str, value: String },
    #[error("{setting} is {value}, but must be at least 1")]
    TooSmall { setting: &'static str, value: i64 },
    #[error("qps is {0}, but must be above 0; a negative number switches the limit off")]
    Qps(f64),
    #[error("--batch-scheduler: {0:?} is not known. Use volcano, yunikorn, kai-scheduler or scheduler-plugins")]
    Scheduler(String),
    #[error(
        "both --enable-batch-scheduler and --batch-scheduler={0} are set. Keep --batch-scheduler: the other is an old name for --batch-scheduler=volcano"
    )]
    TwoSchedulers(String),
    #[error("--zap-log-level: {0:?} is not a level. Use debug, info, warn, error or a number from 1 up")]
    ZapLevel(String),
}

impl Default for Config {
    fn default() -> Self {
        Self {
            metrics_addr: ListenAddr::Every(8080),
            health_addr: ListenAddr::Every(8082),
            leader_election: true,
            leader_election_namespace: None,
            concurrency: 1,
            namespaces: Vec::new(),
            logs: LogConfig { filter: None, stdout: LogEncoder::Json, file: None, file_encoder: LogEncoder::Json },
            batch_scheduler: None,
            use_kubernetes_proxy: false,
            kuberay_metrics: false,
            qps: 100.0,
            burst: 200,
            kubeconfig: None,
            gates: FeatureGates::default(),
            env: EnvSettings::default(),
            worker_threads: 2,
            manage_crds: false,
            delete_finished_rayjobs: false,
            head_sidecars: Vec::new(),
            worker_sidecars: Vec::new(),
            default_container_envs: Vec::new(),
            default_pod_annotations: BTreeMap::new(),
            default_pod_labels: BTreeMap::new(),
            notices: Vec::new(),
        }
    }
}

impl Config {
    /// Reads the configuration file if `--config` names one, and puts everything together.
    pub fn load(flags: &Flags) -> Result<Self, ConfigError> {
        let file = match &flags.config {
            None => FileConfig::default(),
            Some(path) => {
                let shown = path.display().to_string();
                let text = std::fs::read_to_string(path)
                    .map_err(|error| ConfigError::ReadFile { path: shown.clone(), problem: error.to_string() })?;
                FileConfig::parse(&text).map_err(|source| ConfigError::File { path: shown, source })?
            }
        };
        Self::resolve(flags, file, &|name| std::env::var(name).ok())
    }

    /// Puts command line, file and environment together. A flag that was given wins over the file. (KubeRay ignores
    /// most flags once there is a file, and the file's encoders always.)
    pub fn resolve(flags: &Flags, file: FileConfig, env: &dyn Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let env = EnvSettings::read(env);
        let mut notices = flags.notices();
        for name in &file.unknown {
            notices.push(format!("the configuration file's field {name} is not known and has no effect"));
        }
        if file.delete_ray_job_after_job_finishes.is_some() && env.delete_finished_rayjobs.is_none() {
            notices.push(
                "deleteRayJobAfterJobFinishes of the configuration file is honoured; KubeRay only read the variable DELETE_RAYJOB_CR_AFTER_JOB_FINISHES"
                    .to_string(),
            );
        }
        let (gates, gate_notices) = FeatureGates::parse(flags.feature_gates.as_deref().unwrap_or_default())?;
        notices.extend(gate_notices);

        let metrics_addr = flags.metrics_addr.as_ref().or(file.metrics_addr.as_ref());
        let metrics_addr = address("--metrics-addr", metrics_addr, ":8080")?;
        // An empty probe address switches probes off, as controller-runtime has it.
        let probe_addr = match flags.health_probe_bind_address.as_deref() {
            Some("") => Some("0".to_string()),
            other => other.map(str::to_string).or(file.probe_addr),
        };
        let concurrency = flags.reconcile_concurrency.or(file.reconcile_concurrency).unwrap_or(1);
        let qps = flags.qps.or(file.qps).unwrap_or(100.0);
        if qps == 0.0 || qps.is_nan() {
            return Err(ConfigError::Qps(qps));
        }
        let namespaces = flags.watch_namespace.clone().or(file.watch_namespace).unwrap_or_default();
        let scheduler = if flags.enable_batch_scheduler.is_some() || flags.batch_scheduler.is_some() {
            scheduler(flags.enable_batch_scheduler, flags.batch_scheduler.as_deref())?
        } else {
            scheduler(file.enable_batch_scheduler, file.batch_scheduler.as_deref())?
        };
        let stdout = flags.log_stdout_encoder.clone().or(file.log_stdout_encoder).or(flags.zap_encoder.clone());
        let log_file = flags.log_file_path.clone().or(file.log_file.map(PathBuf::from));
        Ok(Self {
            metrics_addr,
            health_addr: address("--health-probe-bind-address", probe_addr.as_ref(), ":8082")?,
            leader_election: flags.enable_leader_election.or(file.enable_leader_election).unwrap_or(true),
            leader_election_namespace: flags
                .leader_election_namespace
                .clone()
                .or(file.leader_election_namespace)
                .filter(|namespace| !namespace.is_empty()),
            concurrency: at_least_one("--reconcile-concurrency", concurrency)?,
            namespaces: namespaces
                .split(',')
                .map(str::trim)
                .filter(|namespace| !namespace.is_empty())
                .map(str::to_string)
                .collect(),
            logs: LogConfig {
                filter: flags.log_filter()?,
                stdout: encoder("--log-stdout-encoder", stdout.as_deref())?,
                file: log_file.filter(|path| !path.as_os_str().is_empty()),
                file_encoder: encoder(
                    "--log-file-encoder",
                    flags.log_file_encoder.as_deref().or(file.log_file_encoder.as_deref()),
                )?,
            },
            batch_scheduler: scheduler,
            use_kubernetes_proxy: flags.use_kubernetes_proxy.or(file.use_kubernetes_proxy).unwrap_or(false),
            kuberay_metrics: flags.enable_metrics.or(file.enable_metrics).unwrap_or(false),
            qps,
            burst: at_least_one("--burst", flags.burst.or(file.burst).unwrap_or(200))?.try_into().unwrap_or(u32::MAX),
            kubeconfig: flags.kubeconfig.clone().filter(|path| !path.as_os_str().is_empty()),
            gates,
            worker_threads: at_least_one("--worker-threads", flags.worker_threads.unwrap_or(2))?,
            manage_crds: flags.manage_crds.unwrap_or(false),
            delete_finished_rayjobs: env
                .delete_finished_rayjobs
                .or(file.delete_ray_job_after_job_finishes)
                .unwrap_or(false),
            env,
            head_sidecars: file.head_sidecar_containers,
            worker_sidecars: file.worker_sidecar_containers,
            default_container_envs: file.default_container_envs,
            default_pod_annotations: file.default_pod_annotations,
            default_pod_labels: file.default_pod_labels,
            notices,
        })
    }

    /// What planners may know of the configuration. Whether the cluster is OpenShift's is not known here.
    pub fn plan(&self) -> PlanConfig {
        PlanConfig {
            cluster_domain: self.env.cluster_domain.clone(),
            inject_init_container: self.env.init_container_injection,
            inject_probes: self.env.probes_injection,
            head_cluster_ip_service: self.env.head_cluster_ip_service,
            deterministic_head_pod_name: self.env.deterministic_head_pod_name,
            login_shell: self.env.login_shell,
            redis_cleanup: self.env.redis_cleanup,
            batch_scheduler: self.batch_scheduler,
            version: concat!("ray-operator/", env!("CARGO_PKG_VERSION")).to_string(),
            operator_pods: self.env.operator_pods.clone(),
            openshift: false,
            ingress_on_openshift: self.env.ingress_on_openshift,
            head_sidecars: self.head_sidecars.clone(),
            worker_sidecars: self.worker_sidecars.clone(),
            default_container_envs: self.default_container_envs.clone(),
            default_pod_annotations: self.default_pod_annotations.clone(),
            default_pod_labels: self.default_pod_labels.clone(),
        }
    }
}

fn address(setting: &'static str, text: Option<&String>, default: &str) -> Result<ListenAddr, ConfigError> {
    let text = text.map(String::as_str).filter(|text| !text.is_empty()).unwrap_or(default);
    ListenAddr::parse(text).map_err(|source| ConfigError::Address { setting, source })
}

fn encoder(setting: &'static str, text: Option<&str>) -> Result<LogEncoder, ConfigError> {
    match text {
        None | Some("" | "json") => Ok(LogEncoder::Json),
        Some("console") => Ok(LogEncoder::Console),
        Some(other) => Err(ConfigError::Encoder { setting, value: other.to_string() }),
    }
}

fn at_least_one(setting: &'static str, value: i64) -> Result<usize, ConfigError> {
    usize::try_from(value).ok().filter(|n| *n >= 1).ok_or(ConfigError::TooSmall { setting, value })
}

fn scheduler(enable: Option<bool>, name: Option<&str>) -> Result<Option<BatchScheduler>, ConfigError> {
    let named = match name {
        None | Some("") => None,
        Some("volcano") => Some(BatchScheduler::Volcano),
        Some("yunikorn") => Some(BatchScheduler::YuniKorn),
        Some("kai-scheduler") => Some(BatchScheduler::Kai),
        Some("scheduler-plugins") => Some(BatchScheduler::SchedulerPlugins),
        Some(other) => return Err(ConfigError::Scheduler(other.to_string())),
    };
    match (enable, named) {
        (Some(true), Some(_)) => Err(ConfigError::TwoSchedulers(name.unwrap_or_default().to_string())),
        (Some(true), None) => Ok(Some(BatchScheduler::Volcano)),
        (_, named) => Ok(named),
    }
}

#[cfg(test)]
mod tests;

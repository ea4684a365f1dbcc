//! What a configuration file says: `config.ray.io/v1alpha1`, kind `Configuration`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use thiserror::Error;

/// The file's fields. `None` and empty mean that the file does not say; so do an empty string and a 0, as in KubeRay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileConfig {
    pub metrics_addr: Option<String>,
    pub probe_addr: Option<String>,
    pub enable_leader_election: Option<bool>,
    pub leader_election_namespace: Option<String>,
    pub reconcile_concurrency: Option<i64>,
    pub watch_namespace: Option<String>,
    pub log_file: Option<String>,
    pub log_file_encoder: Option<String>,
    pub log_stdout_encoder: Option<String>,
    pub enable_batch_scheduler: Option<bool>,
    pub batch_scheduler: Option<String>,
    pub use_kubernetes_proxy: Option<bool>,
    pub delete_ray_job_after_job_finishes: Option<bool>,
    pub enable_metrics: Option<bool>,
    pub qps: Option<f64>,
    pub burst: Option<i64>,
    pub head_sidecar_containers: Vec<Container>,
    pub worker_sidecar_containers: Vec<Container>,
    pub default_container_envs: Vec<EnvVar>,
    pub default_pod_annotations: BTreeMap<String, String>,
    pub default_pod_labels: BTreeMap<String, String>,
    /// Fields that are not known, for a notice.
    pub unknown: Vec<String>,
}

/// Why a configuration file was refused. The path is added by the caller.
#[derive(Debug, Error)]
pub enum FileError {
    #[error("it is not YAML: {0}")]
    Yaml(String),
    #[error("it must hold one object of apiVersion config.ray.io/v1alpha1, kind Configuration, but {0}")]
    Kind(String),
    #[error("field {field} has a wrong value: {problem}")]
    Field { field: &'static str, problem: String },
}

impl FileConfig {
    /// Reads the file's text. A field of a wrong type is an error that names it; a field that nobody knows is kept in
    /// [`FileConfig::unknown`].
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let value: Value = serde_saphyr::from_str(text).map_err(|error| FileError::Yaml(error.to_string()))?;
        let Value::Object(map) = value else {
            return Err(FileError::Kind("the file holds no object".to_string()));
        };
        let mut fields = Fields(map);
        let version: String = fields.take("apiVersion")?.unwrap_or_default();
        let kind: String = fields.take("kind")?.unwrap_or_default();
        if version != "config.ray.io/v1alpha1" || kind != "Configuration" {
            return Err(FileError::Kind(format!("it says apiVersion {version:?}, kind {kind:?}")));
        }
        fields.0.remove("metadata");
        Ok(Self {
            metrics_addr: fields.text("metricsAddr")?,
            probe_addr: fields.text("probeAddr")?,
            enable_leader_election: fields.take("enableLeaderElection")?,
            leader_election_namespace: fields.text("leaderElectionNamespace")?,
            reconcile_concurrency: fields.take("reconcileConcurrency")?.filter(|n| *n != 0),
            watch_namespace: fields.text("watchNamespace")?,
            log_file: fields.text("logFile")?,
            log_file_encoder: fields.text("logFileEncoder")?,
            log_stdout_encoder: fields.text("logStdoutEncoder")?,
            enable_batch_scheduler: fields.take("enableBatchScheduler")?,
            batch_scheduler: fields.text("batchScheduler")?,
            use_kubernetes_proxy: fields.take("useKubernetesProxy")?,
            delete_ray_job_after_job_finishes: fields.take("deleteRayJobAfterJobFinishes")?,
            enable_metrics: fields.take("enableMetrics")?,
            qps: fields.take("qps")?.filter(|n| *n != 0.0),
            burst: fields.take("burst")?.filter(|n| *n != 0),
            head_sidecar_containers: fields.take("headSidecarContainers")?.unwrap_or_default(),
            worker_sidecar_containers: fields.take("workerSidecarContainers")?.unwrap_or_default(),
            default_container_envs: fields.take("defaultContainerEnvs")?.unwrap_or_default(),
            default_pod_annotations: fields.take("defaultPodAnnotations")?.unwrap_or_default(),
            default_pod_labels: fields.take("defaultPodLabels")?.unwrap_or_default(),
            unknown: fields.0.into_iter().map(|(name, _)| name).collect(),
        })
    }
}

/// The fields that were not asked for yet.
struct Fields(Map<String, Value>);

impl Fields {
    fn take<T: DeserializeOwned>(&mut self, field: &'static str) -> Result<Option<T>, FileError> {
        match self.0.remove(field) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => serde_json::from_value(value)
                .map(Some)
                .map_err(|error| FileError::Field { field, problem: error.to_string() }),
        }
    }

    fn text(&mut self, field: &'static str) -> Result<Option<String>, FileError> {
        Ok(self.take::<String>(field)?.filter(|text| !text.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: config.ray.io/v1alpha1\nkind: Configuration\n";

    #[test]
    fn all_fields() {
        let text = format!(
            "{HEAD}metricsAddr: \":8383\"\nprobeAddr: \":8384\"\nenableLeaderElection: false\nleaderElectionNamespace: ns\n\
             reconcileConcurrency: 4\nwatchNamespace: a,b\nlogFile: /var/log/ray.log\nlogFileEncoder: console\n\
             logStdoutEncoder: console\nbatchScheduler: volcano\nuseKubernetesProxy: true\n\
             deleteRayJobAfterJobFinishes: true\nenableMetrics: true\nqps: 50.5\nburst: 70\n\
             headSidecarContainers:\n- name: log\n  image: fluent\nworkerSidecarContainers:\n- name: log\n\
             defaultContainerEnvs:\n- name: A\n  value: b\ndefaultPodAnnotations: {{k: v}}\ndefaultPodLabels: {{l: w}}\n\
             metricAddr: typo\n"
        );
        let file = FileConfig::parse(&text).unwrap();
        assert_eq!(file.metrics_addr.as_deref(), Some(":8383"));
        assert_eq!(file.enable_leader_election, Some(false));
        assert_eq!(file.reconcile_concurrency, Some(4));
        assert_eq!(file.qps, Some(50.5));
        assert_eq!(file.head_sidecar_containers[0].image.as_deref(), Some("fluent"));
        assert_eq!(file.default_container_envs[0].value.as_deref(), Some("b"));
        assert_eq!(file.default_pod_labels["l"], "w");
        assert_eq!(file.unknown, ["metricAddr"]);
    }

    #[test]
    fn empty_and_zero_say_nothing() {
        let text = format!("{HEAD}metricsAddr: \"\"\nreconcileConcurrency: 0\nqps: 0\nburst: 0\nenableMetrics: null\n");
        assert_eq!(FileConfig::parse(&text).unwrap(), FileConfig::default());
    }

    #[test]
    fn wrong_type_names_the_field() {
        for (line, field) in [
            ("reconcileConcurrency: many", "reconcileConcurrency"),
            ("enableMetrics: \"yes\"", "enableMetrics"),
            ("qps: [1]", "qps"),
            ("watchNamespace: [a, b]", "watchNamespace"),
            ("defaultPodLabels: {a: [1]}", "defaultPodLabels"),
            ("headSidecarContainers: {name: x}", "headSidecarContainers"),
        ] {
            let error = FileConfig::parse(&format!("{HEAD}{line}\n")).unwrap_err().to_string();
            assert!(error.starts_with(&format!("field {field} has a wrong value")), "{error}");
        }
        assert!(matches!(FileConfig::parse("kind: Pod\napiVersion: v1\n"), Err(FileError::Kind(_))));
        assert!(matches!(FileConfig::parse("a: [\n"), Err(FileError::Yaml(_))));
    }
}

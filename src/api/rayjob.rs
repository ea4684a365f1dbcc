//! `RayJob` (ray.io/v1), field by field as KubeRay v1.7 has it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::raycluster::{RayClusterSpec, RayClusterStatus};

/// One run of a program on Ray, on a cluster made for it or on one that is there.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[kube(
    group = "ray.io",
    version = "v1",
    kind = "RayJob",
    plural = "rayjobs",
    singular = "rayjob",
    namespaced,
    status = "RayJobStatus",
    category = "all",
    derive = "Default",
    derive = "PartialEq",
    attr = "cfg_attr(all(), serde(default))",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct RayJobSpec {
    /// Seconds that one attempt may take from its start to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i32>,
    /// Attempts after the first one fails, each with a new job id and a new cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// The cluster to make for this job. Needed unless `clusterSelector` names one that exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ray_cluster_spec: Option<RayClusterSpec>,
    /// The pod that submits the job in K8sJobMode; its first container is the submitter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitter_pod_template: Option<PodTemplateSpec>,
    /// Metadata that Ray keeps with the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// The existing cluster to use: `ray.io/cluster: <name>`, same namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_selector: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submitter_config: Option<SubmitterConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_strategy: Option<DeletionStrategy>,
    /// The command that Ray runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint: Option<String>,
    /// Ray's runtime environment, a YAML map as text.
    #[serde(rename = "runtimeEnvYAML", skip_serializing_if = "Option::is_none")]
    pub runtime_env_yaml: Option<String>,
    /// A fixed submission id. In InteractiveMode the user sets it once the job is submitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    /// Who submits: K8sJobMode (a batch Job, the default), HTTPMode (the operator), SidecarMode (a container beside the
    /// head) or InteractiveMode (the user).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub submission_mode: Option<String>,
    /// Custom resources of the entrypoint, a JSON object as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint_resources: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint_num_cpus: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entrypoint_num_gpus: Option<f64>,
    /// Seconds between the end of the job and the clean-up that `shutdownAfterJobFinishes` asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Seconds from the start of an attempt within which the job must be running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pre_running_deadline_seconds: Option<i32>,
    /// Deletes the cluster once the job has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shutdown_after_job_finishes: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct SubmitterConfig {
    /// Retries of the submitter pod within one attempt. Two when left out (KubeRay behaviour).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
}

/// What to delete once the job has ended: `deletionRules`, or the older pair `onSuccess` and `onFailure`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct DeletionStrategy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_success: Option<DeletionPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<DeletionPolicy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_rules: Option<Vec<DeletionRule>>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct DeletionPolicy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct DeletionRule {
    pub policy: String,
    pub condition: DeletionCondition,
}

/// When a rule applies: one of the two statuses, and how long after the end.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct DeletionCondition {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_deployment_status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<i32>,
}

/// What is, as last observed.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct RayJobStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ray_job_info: Option<RayJobInfo>,
    /// Ray's submission id of the present attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ray_cluster_name: Option<String>,
    /// Host and port of the dashboard, without a scheme.
    #[serde(rename = "dashboardURL", skip_serializing_if = "Option::is_none")]
    pub dashboard_url: Option<String>,
    /// Ray's word: empty, PENDING, RUNNING, STOPPED, SUCCEEDED or FAILED; others are kept as Ray sends them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_status: Option<String>,
    /// The operator's word: empty, Initializing, Waiting, Running, Complete, Failed, ValidationFailed, Suspending,
    /// Suspended or Retrying.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_deployment_status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Start of the present attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
    /// Attempts that succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
    /// Attempts that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ray_cluster_status: Option<RayClusterStatus>,
    /// Since when Ray has not answered questions about the job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_status_check_failure_start_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Start and end by Ray's own clock.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct RayJobInfo {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Time>,
}

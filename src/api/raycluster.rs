//! `RayCluster` (ray.io/v1), field by field as KubeRay v1.7 has it, plus the fields of ours.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, EnvVarSource, PodTemplateSpec, ResourceRequirements, SecurityContext, Service,
    VolumeMount,
};
use k8s_openapi::api::networking::v1::{IngressTLS, NetworkPolicyEgressRule, NetworkPolicyIngressRule};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

/// What a Ray cluster should be: one head and groups of workers.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[kube(
    group = "ray.io",
    version = "v1",
    kind = "RayCluster",
    plural = "rayclusters",
    singular = "raycluster",
    namespaced,
    status = "RayClusterStatus",
    category = "all",
    derive = "Default",
    derive = "PartialEq",
    attr = "cfg_attr(all(), serde(default))",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct RayClusterSpec {
    pub head_group_spec: HeadGroupSpec,
    /// Groups of workers. Their order matters to Ray's autoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_group_specs: Option<Vec<WorkerGroupSpec>>,
    /// The version of Ray in the images. It decides on probes, login and priorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ray_version: Option<String>,
    /// Runs Ray's autoscaler beside the head, which sets `replicas` of the groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_in_tree_autoscaling: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaler_options: Option<AutoscalerOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Who looks after this object. Immutable once set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
    /// Annotations of the head Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_service_annotations: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcs_fault_tolerance_options: Option<GcsFaultToleranceOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_strategy: Option<UpgradeStrategy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_options: Option<AuthOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicyOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_options: Option<TlsOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub history_server_options: Option<HistoryServerOptions>,
}

/// The head: Ray's control process, dashboard and driver host. Exactly one pod.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct HeadGroupSpec {
    pub template: PodTemplateSpec,
    /// Flags of `ray start`, without the leading dashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ray_start_params: Option<BTreeMap<String, String>>,
    /// Resources that Ray is told of, in place of what the container asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<BTreeMap<String, String>>,
    /// Ray node labels, also put on the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Type of the head Service: ClusterIP, NodePort or LoadBalancer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_type: Option<String>,
    /// What the head Service should look like: name, labels, annotations, type and ports are kept.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "service_template")]
    pub head_service: Option<Service>,
    /// Makes an Ingress for the dashboard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_ingress: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress_options: Option<IngressOptions>,
}

/// A group of like workers.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkerGroupSpec {
    pub group_name: String,
    pub template: PodTemplateSpec,
    /// Replicas wanted; one replica is `numOfHosts` pods. The API server fills 0 when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The fewest replicas, also when `replicas` says less.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// The most replicas, also when `replicas` says more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i32>,
    /// Pods per replica, made and removed together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_of_hosts: Option<i32>,
    /// Groups of higher priority are chosen first by Ray's autoscaler. Read by Ray, not by us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Seconds without work after which Ray's autoscaler gives a worker back. Read by Ray, not by us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_seconds: Option<i32>,
    /// Set by a RayJob's deletion rules: the group has no pods while true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Flags of `ray start`, without the leading dashes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ray_start_params: Option<BTreeMap<String, String>>,
    /// Resources that Ray is told of, in place of what the container asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<BTreeMap<String, String>>,
    /// Ray node labels, also put on the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_strategy: Option<ScaleStrategy>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ScaleStrategy {
    /// Pods that Ray's autoscaler has chosen to remove. Cleared by the autoscaler, never by us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers_to_delete: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct IngressOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<Vec<IngressTLS>>,
}

/// Options of Ray's own autoscaler, which runs beside the head.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoscalerOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upscaling_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<EnvVar>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env_from: Option<Vec<EnvFromSource>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume_mounts: Option<Vec<VolumeMount>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
}

/// Where Ray's control store keeps its state, so that a new head finds it again. Its presence turns it on.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct GcsFaultToleranceOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Host and port, or a redis:// or rediss:// address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_username: Option<RedisCredential>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redis_password: Option<RedisCredential>,
    /// Keeps this cluster's keys apart in Redis. The cluster's uid when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_storage_namespace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<GcsStorage>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct RedisCredential {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_from: Option<EnvVarSource>,
}

/// The claim behind the embedded (rocksdb) store.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct GcsStorage {
    /// A claim that exists. Left out, one is made from the fields below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_modes: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sub_path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct UpgradeStrategy {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct AuthOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    #[serde(rename = "enableK8sTokenAuth", skip_serializing_if = "Option::is_none")]
    pub enable_k8s_token_auth: Option<bool>,
    /// The Secret with the token under `auth_token`. Left out, one is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
}

impl AuthOptions {
    /// Whether callers must show a token: unless `mode` says `disabled`, which is the only word for it.
    pub fn wants_token(&self) -> bool {
        self.mode.as_deref() != Some("disabled")
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicyOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<NetworkPolicyRules>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<NetworkPolicyRules>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_groups: Option<Vec<WorkerGroupNetworkPolicy>>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicyRules {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress_rules: Option<Vec<NetworkPolicyIngressRule>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_rules: Option<Vec<NetworkPolicyEgressRule>>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkerGroupNetworkPolicy {
    pub group_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress_rules: Option<Vec<NetworkPolicyIngressRule>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress_rules: Option<Vec<NetworkPolicyEgressRule>>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryServerOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collector_options: Option<CollectorOptions>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct CollectorOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<EnvVar>>,
}

/// What is, as last observed.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct RayClusterStatus {
    /// `ready` when every wanted pod is Ready, `suspended` when suspended and without pods, else empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(rename = "desiredCPU", skip_serializing_if = "Option::is_none")]
    pub desired_cpu: Option<Quantity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_memory: Option<Quantity>,
    #[serde(rename = "desiredGPU", skip_serializing_if = "Option::is_none")]
    pub desired_gpu: Option<Quantity>,
    #[serde(rename = "desiredTPU", skip_serializing_if = "Option::is_none")]
    pub desired_tpu: Option<Quantity>,
    /// Worker pods that are Ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_worker_replicas: Option<i32>,
    /// Worker pods that are Running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub available_worker_replicas: Option<i32>,
    /// Worker pods that are wanted: replicas within their bounds, times hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_worker_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_worker_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_worker_replicas: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When each state was last entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_transition_times: Option<BTreeMap<String, Time>>,
    /// Port name of the head Service to the port to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<HeadInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct HeadInfo {
    #[serde(rename = "podIP", skip_serializing_if = "Option::is_none")]
    pub pod_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_name: Option<String>,
    #[serde(rename = "serviceIP", skip_serializing_if = "Option::is_none")]
    pub service_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_name: Option<String>,
    /// Address of the load balancer of `<cluster>-head-external`, when `serviceType` asks for one and it has come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_address: Option<String>,
}

/// Reads a Service that stands inside another object, where `apiVersion` and `kind` are optional and free text: an odd
/// value there must not make the whole kind unreadable.
pub(crate) fn service_template<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Service>, D::Error> {
    let mut value = Option::<serde_json::Map<String, serde_json::Value>>::deserialize(deserializer)?;
    if let Some(fields) = &mut value {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    value.map(|fields| serde_json::from_value(fields.into()).map_err(serde::de::Error::custom)).transpose()
}

/// The Ray container of a template: always the first, whatever it is called (KubeRay behaviour).
pub fn ray_container(template: &PodTemplateSpec) -> Option<&Container> {
    template.spec.as_ref().and_then(|s| s.containers.first())
}

impl RayClusterSpec {
    /// The worker groups in the order of the spec, which Ray's autoscaler relies on.
    pub fn groups(&self) -> &[WorkerGroupSpec] {
        self.worker_group_specs.as_deref().unwrap_or_default()
    }
}

impl WorkerGroupSpec {
    /// Pods per replica, at least one.
    pub fn hosts(&self) -> i32 {
        self.num_of_hosts.unwrap_or(1).max(1)
    }

    /// Replicas after the bounds are applied: `minReplicas` wins over a smaller or missing `replicas`, `maxReplicas`
    /// caps it, a suspended group has none.
    pub fn wanted_replicas(&self) -> i32 {
        if self.suspend == Some(true) {
            return 0;
        }
        let min = self.min_replicas.unwrap_or(0).max(0);
        let max = self.max_replicas.unwrap_or(i32::MAX).max(min);
        self.replicas.unwrap_or(min).clamp(min, max)
    }
}

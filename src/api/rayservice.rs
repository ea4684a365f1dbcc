//! `RayService` (ray.io/v1), field by field as KubeRay v1.7 has it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::raycluster::{RayClusterSpec, RayClusterStatus, service_template};

/// Ray Serve applications on a cluster of their own, replaced without a pause when its spec changes.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[kube(
    group = "ray.io",
    version = "v1",
    kind = "RayService",
    plural = "rayservices",
    singular = "rayservice",
    namespaced,
    status = "RayServiceStatus",
    category = "all",
    derive = "Default",
    derive = "PartialEq",
    attr = "cfg_attr(all(), serde(default))",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct RayServiceSpec {
    /// Seconds before a cluster that is no longer used is deleted. 60 when left out (KubeRay behaviour).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ray_cluster_deletion_delay_seconds: Option<i32>,
    /// Without effect; kept for old YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_unhealthy_second_threshold: Option<i32>,
    /// Without effect; kept for old YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_unhealthy_second_threshold: Option<i32>,
    /// What the serve Service should look like: name, labels, annotations, type and ports are kept.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "service_template")]
    pub serve_service: Option<Service>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade_strategy: Option<RayServiceUpgradeStrategy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
    /// Ray Serve's deployment config, YAML as text.
    #[serde(rename = "serveConfigV2", skip_serializing_if = "Option::is_none")]
    pub serve_config_v2: Option<String>,
    pub ray_cluster_config: RayClusterSpec,
    /// Keeps the head out of the serve Service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exclude_head_pod_from_serve_svc: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct RayServiceUpgradeStrategy {
    /// NewCluster (the default), NewClusterWithIncrementalUpgrade, or None for no upgrade.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_upgrade_options: Option<ClusterUpgradeOptions>,
}

/// How traffic moves in NewClusterWithIncrementalUpgrade. Percentages are of the whole.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterUpgradeOptions {
    /// Capacity that moves in one step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge_percent: Option<i32>,
    /// Traffic that moves in one step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_size_percent: Option<i32>,
    /// Seconds between two steps of traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway_class_name: Option<String>,
}

/// What is, as last observed.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct RayServiceStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Vec<Condition>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// `Running` while Ready, else empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_status: Option<String>,
    /// The cluster that serves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_service_status: Option<ServeClusterStatus>,
    /// The cluster that is to take over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_service_status: Option<ServeClusterStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_serve_endpoints: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// One of the clusters behind a RayService.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ServeClusterStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application_statuses: Option<BTreeMap<String, ServeApplicationStatus>>,
    /// Percent of its full capacity that the cluster is asked to hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_capacity: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic_routed_percent: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_traffic_migrated_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ray_cluster_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ray_cluster_status: Option<RayClusterStatus>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ServeApplicationStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serve_deployment_statuses: Option<BTreeMap<String, ServeDeploymentStatus>>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct ServeDeploymentStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

//! `RayCronJob` (ray.io/v1), field by field as KubeRay v1.7 has it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rayjob::RayJobSpec;

/// RayJobs by the clock.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[kube(
    group = "ray.io",
    version = "v1",
    kind = "RayCronJob",
    plural = "raycronjobs",
    singular = "raycronjob",
    namespaced,
    status = "RayCronJobStatus",
    category = "all",
    derive = "Default",
    derive = "PartialEq",
    attr = "cfg_attr(all(), serde(default))",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct RayCronJobSpec {
    /// The spec of each RayJob.
    pub job_template: RayJobSpec,
    /// Five fields of cron (minute, hour, day of month, month, day of week), or `@hourly` and its like.
    pub schedule: String,
    /// Name of the time zone that `schedule` is read in, such as `Asia/Taipei`. UTC when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// No new RayJob while true; those that run go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
}

/// What is, as last observed.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct RayCronJobStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
}

//! What the API server refuses of RayJob, RayService and RayCronJob; [`super::constraints`] lays it over the schemas.

use serde_json::{Value, json};

use super::messages as m;

/// What a deletion rule or policy may do.
pub(super) const DELETION_POLICIES: [&str; 4] = ["DeleteCluster", "DeleteWorkers", "DeleteSelf", "DeleteNone"];

fn rule(cel: &str, message: &str) -> Value {
    json!({"rule": cel, "message": message})
}

pub(super) fn ray_job_spec(managed_by: Value) -> Value {
    let shutdown = "(has(self.shutdownAfterJobFinishes) && self.shutdownAfterJobFinishes)";
    let suspended = "(has(self.suspend) && self.suspend)";
    let selects = "(has(self.clusterSelector) && size(self.clusterSelector) > 0)";
    let retries = "(has(self.backoffLimit) && self.backoffLimit > 0)";
    let sidecar = "self.submissionMode == 'SidecarMode'";
    json!({
        "properties": {
            "activeDeadlineSeconds": {"minimum": 1},
            "backoffLimit": {"default": 0, "minimum": 0},
            "preRunningDeadlineSeconds": {"minimum": 1},
            "ttlSecondsAfterFinished": {"default": 0, "minimum": 0},
            "submissionMode": {
                "default": "K8sJobMode",
                "enum": ["HTTPMode", "InteractiveMode", "K8sJobMode", "SidecarMode"],
            },
            "clusterSelector": {"maxProperties": 100},
            "managedBy": managed_by,
        },
        "x-kubernetes-validations": [
            rule(&format!("!{suspended} || {shutdown}"), m::SUSPEND_NEEDS_SHUTDOWN),
            rule(&format!("!{suspended} || !{selects}"), m::SUSPEND_WITH_SELECTOR),
            rule(&format!("self.ttlSecondsAfterFinished == 0 || {shutdown}"), m::TTL_NEEDS_SHUTDOWN),
            rule(&format!("has(self.rayClusterSpec) || {selects}"), m::NO_CLUSTER),
            rule(
                &format!(
                    "!{selects} || ('ray.io/cluster' in self.clusterSelector \
                     && size(self.clusterSelector['ray.io/cluster']) > 0)"
                ),
                m::SELECTOR_KEY,
            ),
            rule(&format!("!{selects} || self.submissionMode != 'SidecarMode'"), m::SELECTOR_WITH_SIDECAR),
            rule(&format!("!{selects} || !{retries}"), m::SELECTOR_WITH_RETRY),
            rule(&format!("self.submissionMode != 'InteractiveMode' || !{retries}"), m::INTERACTIVE_WITH_RETRY),
            rule(
                &format!("!({sidecar}) || !(has(self.submitterPodTemplate) || has(self.submitterConfig))"),
                m::SIDECAR_WITH_SUBMITTER,
            ),
            rule(
                &format!(
                    "!({sidecar}) || !has(self.rayClusterSpec) \
                     || !has(self.rayClusterSpec.headGroupSpec.template.spec) \
                     || !has(self.rayClusterSpec.headGroupSpec.template.spec.restartPolicy) \
                     || self.rayClusterSpec.headGroupSpec.template.spec.restartPolicy in ['', 'Never']"
                ),
                m::SIDECAR_RESTART_POLICY,
            ),
            rule(
                &format!(
                    "!{shutdown} || !has(self.deletionStrategy) || !has(self.deletionStrategy.deletionRules)"
                ),
                m::RULES_WITH_SHUTDOWN,
            ),
            rule(&k8s_token_free("rayClusterSpec"), m::SERVICE_K8S_TOKEN),
            rule(&upgrade_free("rayClusterSpec"), m::OWNED_UPGRADE_STRATEGY),
        ],
    })
}

/// Kubernetes tokens are for clusters that stand alone (KubeRay behaviour).
fn k8s_token_free(field: &str) -> String {
    format!(
        "!has(self.{field}) || !has(self.{field}.authOptions) || !has(self.{field}.authOptions.enableK8sTokenAuth) \
         || !self.{field}.authOptions.enableK8sTokenAuth"
    )
}

fn upgrade_free(field: &str) -> String {
    format!("!has(self.{field}) || !has(self.{field}.upgradeStrategy) || !has(self.{field}.upgradeStrategy.type)")
}

pub(super) fn deletion_strategy() -> Value {
    json!({
        "properties": {"deletionRules": {"minItems": 1, "maxItems": 100, "x-kubernetes-list-type": "atomic"}},
        "x-kubernetes-validations": [rule(
            "has(self.deletionRules) ? !(has(self.onSuccess) || has(self.onFailure)) \
             : has(self.onSuccess) && has(self.onSuccess.policy) && has(self.onFailure) && has(self.onFailure.policy)",
            m::RULES_WITH_LEGACY,
        )],
    })
}

pub(super) fn deletion_condition() -> Value {
    json!({
        "properties": {
            "jobStatus": {"enum": ["FAILED", "SUCCEEDED"]},
            "jobDeploymentStatus": {"enum": ["Failed"]},
            "ttlSeconds": {"default": 0, "minimum": 0},
        },
        "x-kubernetes-validations": [
            rule("has(self.jobStatus) != has(self.jobDeploymentStatus)", m::ONE_DELETION_CONDITION),
        ],
    })
}

pub(super) fn ray_service_spec(managed_by: Value) -> Value {
    let incremental = "(has(self.upgradeStrategy) && has(self.upgradeStrategy.type) \
                       && self.upgradeStrategy.type == 'NewClusterWithIncrementalUpgrade')";
    json!({
        "required": ["rayClusterConfig"],
        "properties": {
            "rayClusterDeletionDelaySeconds": {"minimum": 0},
            "managedBy": managed_by,
        },
        "x-kubernetes-validations": [
            rule(
                "!has(self.rayClusterConfig.headGroupSpec.headService) \
                 || !has(self.rayClusterConfig.headGroupSpec.headService.metadata) \
                 || !has(self.rayClusterConfig.headGroupSpec.headService.metadata.name) \
                 || self.rayClusterConfig.headGroupSpec.headService.metadata.name == ''",
                m::SERVICE_HEAD_NAME,
            ),
            rule(&k8s_token_free("rayClusterConfig"), m::SERVICE_K8S_TOKEN),
            rule(&upgrade_free("rayClusterConfig"), m::OWNED_UPGRADE_STRATEGY),
            rule(
                &format!(
                    "!{incremental} || (has(self.rayClusterConfig.enableInTreeAutoscaling) \
                     && self.rayClusterConfig.enableInTreeAutoscaling)"
                ),
                m::INCREMENTAL_NEEDS_AUTOSCALING,
            ),
            rule(
                &format!("!{incremental} || has(self.upgradeStrategy.clusterUpgradeOptions)"),
                m::INCREMENTAL_NEEDS_OPTIONS,
            ),
        ],
    })
}

pub(super) fn ray_service_upgrade() -> Value {
    json!({"properties": {"type": {"enum": ["NewCluster", "NewClusterWithIncrementalUpgrade", "None"]}}})
}

/// Steps of zero never end (seen on KubeRay), so the least is one.
pub(super) fn cluster_upgrade_options() -> Value {
    json!({
        "required": ["gatewayClassName", "intervalSeconds", "stepSizePercent"],
        "properties": {
            "maxSurgePercent": {"default": 100, "minimum": 1, "maximum": 100},
            "stepSizePercent": {"minimum": 1, "maximum": 100},
            "intervalSeconds": {"minimum": 1},
            "gatewayClassName": {"minLength": 1},
        },
        "x-kubernetes-validations": [rule("self.stepSizePercent <= self.maxSurgePercent", m::STEP_ABOVE_SURGE)],
    })
}

pub(super) fn ray_cron_job_spec() -> Value {
    json!({
        "required": ["jobTemplate", "schedule"],
        "properties": {
            "schedule": {
                "minLength": 1,
                "maxLength": 1000,
                "x-kubernetes-validations": [rule("!self.contains('TZ')", m::SCHEDULE_ZONE)],
            },
            "timeZone": {"minLength": 1},
        },
    })
}

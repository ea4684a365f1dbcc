//! What the API server refuses: bounds, defaults, enums and CEL rules, by the type that they belong to.
//!
//! The table is laid over the schemas that the types derive. Defaults, required fields and enums are KubeRay's; so
//! are the rules on `managedBy`, `backend` and `deletionStrategy`. The other rules are those that KubeRay's operator
//! checks after the fact, said at once, where CEL can see what is needed: not annotations, and not lists of unbounded
//! length such as a container's environment. [`super::validation`] has the rest.
//!
//! CEL's cost is estimated from the bounds of lists, maps and strings, so there are some, far above what anyone needs.

use serde_json::{Value, json};

use super::messages as m;

/// Bounds for the cost estimate. No real cluster comes near them. The budget allows about 550 groups: each name is
/// compared with each.
const MAX_GROUPS: u32 = 500;
const MAX_START_PARAMS: u32 = 200;
const MAX_START_PARAM_BYTES: u32 = 10_000;

const GROUP_NAME_PART: &str = "[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?";

/// Flags of `ray start` that take a number. A value may also be a shell expansion: the command runs in a shell.
pub const NUMERIC_START_PARAMS: [&str; 20] = [
    "dashboard-agent-grpc-port",
    "dashboard-agent-listen-port",
    "dashboard-grpc-port",
    "dashboard-port",
    "gcs-server-port",
    "max-worker-port",
    "memory",
    "metrics-export-port",
    "min-worker-port",
    "node-manager-port",
    "num-cpus",
    "num-gpus",
    "object-manager-port",
    "object-store-memory",
    "port",
    "ray-client-server-port",
    "redis-max-memory",
    "runtime-env-agent-port",
    "system-reserved-cpu",
    "system-reserved-memory",
];
/// Flags of `ray start` that are there or not: written as `true` or `false` (KubeRay behaviour).
pub const SWITCH_START_PARAMS: [&str; 7] = [
    "block",
    "disable-usage-stats",
    "enable-resource-isolation",
    "head",
    "no-monitor",
    "no-redirect-output",
    "ray-debugger-external",
];
/// Start parameters that the `resources` field of a group stands for.
pub const RESOURCE_START_PARAMS: [&str; 4] = ["memory", "num-cpus", "num-gpus", "resources"];
/// The longest names that leave room for what is appended to them: children, suffixes, times (KubeRay behaviour).
pub const MAX_RAYCLUSTER_NAME: usize = 53;
pub const MAX_RAYJOB_NAME: usize = 47;
pub const MAX_RAYSERVICE_NAME: usize = 47;
pub const MAX_RAYCRONJOB_NAME: usize = 36;

/// The rule on `metadata.name`, for the root of an object. Names never change, so only creation is checked: what is
/// stored under a bad name can still be edited and deleted.
pub fn name_rule(kind: &str, max: usize) -> Value {
    json!({
        "rule": format!(
            "oldSelf.hasValue() || (size(self.metadata.name) <= {max} \
             && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$'))"
        ),
        "message": m::object_name(kind, max),
        "fieldPath": ".metadata.name",
        "optionalOldSelf": true,
    })
}

fn rule(cel: &str, message: &str) -> Value {
    json!({"rule": cel, "message": message})
}

/// By type name: what to lay over its schema.
pub fn constraints() -> Value {
    let mut head_rules = group_rules();
    head_rules
        .push(rule("!has(self.rayStartParams) || !('redis-username' in self.rayStartParams)", m::REDIS_USERNAME_PARAM));
    let mut worker_rules = group_rules();
    worker_rules.push(rule("self.minReplicas <= self.maxReplicas", m::MIN_ABOVE_MAX));
    json!({
        "RayClusterSpec": {
            "required": ["headGroupSpec"],
            "properties": {
                "workerGroupSpecs": {
                    "maxItems": MAX_GROUPS,
                    "x-kubernetes-validations": [
                        rule("self.all(g, self.exists_one(h, h.groupName == g.groupName))", m::DUPLICATE_GROUP),
                    ],
                },
                "managedBy": managed_by(),
            },
            "x-kubernetes-validations": ray_cluster_rules(),
        },
        "HeadGroupSpec": {
            "required": ["template"],
            "properties": {"rayStartParams": start_params()},
            "x-kubernetes-validations": head_rules,
        },
        "WorkerGroupSpec": {
            "required": ["groupName", "maxReplicas", "minReplicas", "template"],
            "properties": {
                "groupName": {
                    "maxLength": 63,
                    "x-kubernetes-validations": [
                        rule(&format!("self.matches('^{GROUP_NAME_PART}([.]{GROUP_NAME_PART})*$')"), m::GROUP_NAME),
                        rule("self != 'headgroup'", m::GROUP_NAME_RESERVED),
                    ],
                },
                "replicas": {"default": 0, "minimum": 0},
                "minReplicas": {"default": 0, "minimum": 0},
                "maxReplicas": {"default": i32::MAX, "minimum": 0},
                "numOfHosts": {"default": 1, "minimum": 1},
                "priority": {"default": 0},
                "idleTimeoutSeconds": {"minimum": 0},
                "rayStartParams": start_params(),
            },
            "x-kubernetes-validations": worker_rules,
        },
        "IngressOptions": {"properties": {"pathType": {"enum": ["Exact", "ImplementationSpecific", "Prefix"]}}},
        "AutoscalerOptions": {
            "properties": {
                "version": {"enum": ["v1", "v2"]},
                "upscalingMode": {"enum": ["Aggressive", "Conservative", "Default"]},
                "idleTimeoutSeconds": {"minimum": 0},
            },
        },
        "GcsFaultToleranceOptions": {
            "properties": {
                "backend": {
                    "enum": ["redis", "rocksdb"],
                    "x-kubernetes-validations": [rule("self == oldSelf", m::BACKEND_IMMUTABLE)],
                },
            },
            "x-kubernetes-validations": [
                rule(
                    "!has(self.backend) || self.backend != 'rocksdb' || !(has(self.redisAddress) \
                     || has(self.redisUsername) || has(self.redisPassword) || has(self.externalStorageNamespace))",
                    m::ROCKSDB_WITH_REDIS,
                ),
                rule("!has(self.storage) || (has(self.backend) && self.backend == 'rocksdb')", m::REDIS_WITH_STORAGE),
            ],
        },
        "GcsStorage": {
            "properties": {"deletionPolicy": {"enum": ["DeleteWithCluster", "Retain"]}},
            "x-kubernetes-validations": [
                rule(
                    "!has(self.claimName) || self.claimName == '' \
                     || !(has(self.size) || has(self.storageClassName) || has(self.accessModes))",
                    m::CLAIM_WITH_SIZE,
                ),
            ],
        },
        "UpgradeStrategy": {"properties": {"type": {"enum": ["None", "Recreate"]}}},
        "AuthOptions": {
            "properties": {"mode": {"enum": ["disabled", "token"]}},
            "x-kubernetes-validations": [
                rule(
                    "!has(self.enableK8sTokenAuth) || !self.enableK8sTokenAuth \
                     || (has(self.mode) && self.mode == 'token')",
                    m::K8S_TOKEN_WITHOUT_MODE,
                ),
                rule(
                    "!has(self.enableK8sTokenAuth) || !self.enableK8sTokenAuth || !has(self.secretName) \
                     || self.secretName == ''",
                    m::K8S_TOKEN_WITH_SECRET,
                ),
            ],
        },
        "NetworkPolicyOptions": {
            "properties": {
                "mode": {"default": "DenyAll", "enum": ["DenyAll", "DenyAllEgress", "DenyAllIngress"]},
                "workerGroups": {
                    "maxItems": MAX_GROUPS,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["groupName"],
                },
            },
            "x-kubernetes-validations": [
                rule(&network_rules("DenyAllEgress", "ingressRules"), m::INGRESS_RULES_UNUSED),
                rule(&network_rules("DenyAllIngress", "egressRules"), m::EGRESS_RULES_UNUSED),
            ],
        },
        "WorkerGroupNetworkPolicy": {"required": ["groupName"]},
        "TlsOptions": {"properties": {"enabled": {"default": false}}},
        "RayClusterStatus": {
            "properties": {"lastUpdateTime": {"nullable": true}, "conditions": conditions()},
        },
        "RayJobSpec": super::constraints_jobs::ray_job_spec(managed_by()),
        "DeletionStrategy": super::constraints_jobs::deletion_strategy(),
        "DeletionPolicy": {"properties": {"policy": {"enum": super::constraints_jobs::DELETION_POLICIES}}},
        "DeletionRule": {
            "required": ["condition", "policy"],
            "properties": {"policy": {"enum": super::constraints_jobs::DELETION_POLICIES}},
        },
        "DeletionCondition": super::constraints_jobs::deletion_condition(),
        "RayJobStatus": {"properties": {"succeeded": {"default": 0}, "failed": {"default": 0}}},
        "RayServiceSpec": super::constraints_jobs::ray_service_spec(managed_by()),
        "RayServiceUpgradeStrategy": super::constraints_jobs::ray_service_upgrade(),
        "ClusterUpgradeOptions": super::constraints_jobs::cluster_upgrade_options(),
        "RayServiceStatus": {"properties": {"lastUpdateTime": {"nullable": true}, "conditions": conditions()}},
        "RayCronJobSpec": super::constraints_jobs::ray_cron_job_spec(),
        "io.k8s.apimachinery.pkg.apis.meta.v1.Condition": {
            "properties": {
                "message": {"maxLength": 32768},
                "reason": {
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "status": {"enum": ["True", "False", "Unknown"]},
                "type": {"maxLength": 316},
                "observedGeneration": {"minimum": 0},
            },
        },
    })
}

fn conditions() -> Value {
    json!({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]})
}

fn managed_by() -> Value {
    json!({
        "enum": ["kueue.x-k8s.io/multikueue", super::names::MANAGED_BY_US],
        "x-kubernetes-validations": [rule("self == oldSelf", m::MANAGED_BY_IMMUTABLE)],
    })
}

/// Rules that hold for the head and for each worker group.
fn group_rules() -> Vec<Value> {
    vec![
        rule("has(self.template.spec) && size(self.template.spec.containers) > 0", m::NO_CONTAINER),
        rule(
            "!has(self.resources) || size(self.resources) == 0 || !has(self.rayStartParams) \
             || !['memory', 'num-cpus', 'num-gpus', 'resources'].exists(k, k in self.rayStartParams)",
            m::RESOURCES_TWICE,
        ),
    ]
}

/// Bounds and rules of a `rayStartParams` map.
fn start_params() -> Value {
    let mut rules = vec![rule("!('labels' in self)", m::LABELS_PARAM)];
    for key in NUMERIC_START_PARAMS {
        // A regular expression would be a hundred times over the budget. `double` fails on `2Gi`, and the API server
        // then puts its own words before the message.
        let cel = format!(
            "!('{key}' in self) || self['{key}'].startsWith('$') \
             || (self['{key}'] >= '0' && self['{key}'] < ':' && double(self['{key}']) >= 0.0)"
        );
        rules.push(rule(&cel, &m::numeric_start_param(key)));
    }
    for key in SWITCH_START_PARAMS {
        let cel = format!("!('{key}' in self) || self['{key}'] in ['true', 'false', 'True', 'False', 'TRUE', 'FALSE']");
        rules.push(rule(&cel, &m::switch_start_param(key)));
    }
    json!({
        "maxProperties": MAX_START_PARAMS,
        "additionalProperties": {"maxLength": MAX_START_PARAM_BYTES},
        "x-kubernetes-validations": rules,
    })
}

fn ray_cluster_rules() -> Vec<Value> {
    let autoscaled = "(has(self.enableInTreeAutoscaling) && self.enableInTreeAutoscaling)";
    let v2 = format!(
        "({autoscaled} && has(self.autoscalerOptions) && has(self.autoscalerOptions.version) \
         && self.autoscalerOptions.version == 'v2')"
    );
    let free = |g: &str| {
        format!(
            "(!has({g}.template.spec) || !has({g}.template.spec.restartPolicy) \
             || {g}.template.spec.restartPolicy in ['', 'Never'])"
        )
    };
    vec![
        rule(
            &format!(
                "!{autoscaled} || !has(self.workerGroupSpecs) \
                 || self.workerGroupSpecs.all(g, !has(g.suspend) || !g.suspend)"
            ),
            m::SUSPENDED_GROUP_AUTOSCALED,
        ),
        rule(
            &format!(
                "!{v2} || ({} && (!has(self.workerGroupSpecs) || self.workerGroupSpecs.all(g, {})))",
                free("self.headGroupSpec"),
                free("g")
            ),
            m::V2_RESTART_POLICY,
        ),
        rule(
            "!has(self.gcsFaultToleranceOptions) || !has(self.headGroupSpec.rayStartParams) \
             || !('redis-password' in self.headGroupSpec.rayStartParams)",
            m::REDIS_PASSWORD_PARAM,
        ),
    ]
}

/// In `mode` no rules of the kind `field` stand anywhere.
fn network_rules(mode: &str, field: &str) -> String {
    let empty = |of: &str| format!("(!has({of}.{field}) || size({of}.{field}) == 0)");
    format!(
        "self.mode != '{mode}' || ((!has(self.head) || {}) && (!has(self.worker) || {}) \
         && (!has(self.workerGroups) || self.workerGroups.all(g, {})))",
        empty("self.head"),
        empty("self.worker"),
        empty("g")
    )
}

//! The words in which a spec is refused: the same at admission (CEL) and in condition `InvalidSpec`. Each says what is
//! wrong and what to change.

/// For `metadata.name`.
pub fn object_name(kind: &str, max: usize) -> String {
    format!(
        "the name of a {kind} must have at most {max} characters, start with a lower-case letter, end with a letter or \
         digit and hold only lower-case letters, digits and '-': what is made for it is named after it"
    )
}

pub fn numeric_start_param(key: &str) -> String {
    format!("rayStartParams {key} must be a number that is not negative, or a shell variable such as $VALUE")
}

pub fn switch_start_param(key: &str) -> String {
    format!("rayStartParams {key} is a switch: write \"true\" or \"false\"")
}

pub const NO_CONTAINER: &str = "template.spec.containers needs at least one container: the first one runs Ray";
pub const RESOURCES_TWICE: &str = "resources replaces rayStartParams num-cpus, num-gpus, memory and resources: remove those or remove resources";
pub const LABELS_PARAM: &str = "rayStartParams must not hold labels: use the field labels of the group";
pub const REDIS_USERNAME_PARAM: &str =
    "rayStartParams must not hold redis-username: use gcsFaultToleranceOptions.redisUsername";
pub const REDIS_PASSWORD_PARAM: &str = "rayStartParams of the head must not hold redis-password beside gcsFaultToleranceOptions: use gcsFaultToleranceOptions.redisPassword";
pub const DUPLICATE_GROUP: &str =
    "groupName must be unique among workerGroupSpecs: rename or merge the groups that share one";
pub const GROUP_NAME: &str = "groupName must have 1 to 63 letters, digits, '-' or '.', with a letter or digit first, last and around each '.': it becomes a label and part of pod names";
pub const GROUP_NAME_RESERVED: &str = "groupName headgroup is the head's: choose another";
pub const MIN_ABOVE_MAX: &str = "minReplicas must not be above maxReplicas: lower minReplicas or raise maxReplicas";
pub const SUSPENDED_GROUP_AUTOSCALED: &str = "workerGroupSpecs[].suspend cannot be used with enableInTreeAutoscaling: the autoscaler would start the group again; set one of them to false";
pub const V2_RESTART_POLICY: &str = "autoscalerOptions.version v2 needs restartPolicy Never in the templates of the head and all worker groups: set it to Never or leave it out";
pub const BACKEND_IMMUTABLE: &str =
    "gcsFaultToleranceOptions.backend cannot change once it is set: make a new RayCluster for another backend";
pub const ROCKSDB_WITH_REDIS: &str = "backend rocksdb keeps its state on a volume: remove redisAddress, redisUsername, redisPassword and externalStorageNamespace, or use backend redis";
pub const REDIS_WITH_STORAGE: &str = "storage is for backend rocksdb: set backend to rocksdb or remove storage";
pub const CLAIM_WITH_SIZE: &str =
    "storage.claimName names a claim that exists: remove size, storageClassName and accessModes, or remove claimName";
pub const K8S_TOKEN_WITHOUT_MODE: &str =
    "authOptions.enableK8sTokenAuth needs authOptions.mode token: set the mode or remove enableK8sTokenAuth";
pub const K8S_TOKEN_WITH_SECRET: &str =
    "authOptions.enableK8sTokenAuth uses no Secret: remove authOptions.secretName or enableK8sTokenAuth";
pub const INGRESS_RULES_UNUSED: &str = "networkPolicy.mode DenyAllEgress leaves ingress open, so ingressRules have no effect: remove them or use mode DenyAll";
pub const EGRESS_RULES_UNUSED: &str = "networkPolicy.mode DenyAllIngress leaves egress open, so egressRules have no effect: remove them or use mode DenyAll";
pub const MANAGED_BY_IMMUTABLE: &str = "managedBy cannot change once it is set";

// RayJob
pub const SUSPEND_NEEDS_SHUTDOWN: &str =
    "suspend deletes the job's cluster, so it needs shutdownAfterJobFinishes: true";
pub const SUSPEND_WITH_SELECTOR: &str =
    "suspend cannot be used with clusterSelector: the selected cluster is not this job's to stop";
pub const TTL_NEEDS_SHUTDOWN: &str = "ttlSecondsAfterFinished needs shutdownAfterJobFinishes: true";
pub const NO_CLUSTER: &str = "one of rayClusterSpec and clusterSelector is needed: the job has no cluster to run on";
pub const SELECTOR_KEY: &str =
    "clusterSelector needs the key ray.io/cluster with the name of a RayCluster in the same namespace";
pub const SELECTOR_WITH_SIDECAR: &str =
    "submissionMode SidecarMode adds a container to the head, which clusterSelector forbids: use another mode";
pub const SELECTOR_WITH_RETRY: &str =
    "backoffLimit makes a new cluster per attempt, which clusterSelector forbids: set it to 0 or use rayClusterSpec";
pub const INTERACTIVE_WITH_RETRY: &str = "submissionMode InteractiveMode has no retries: set backoffLimit to 0";
pub const SIDECAR_WITH_SUBMITTER: &str = "submissionMode SidecarMode has no submitter pod: remove submitterPodTemplate and submitterConfig, or use K8sJobMode";
pub const SIDECAR_RESTART_POLICY: &str = "submissionMode SidecarMode needs restartPolicy Never in the head's template: set it to Never or leave it out";
pub const RULES_WITH_SHUTDOWN: &str =
    "deletionStrategy.deletionRules replaces shutdownAfterJobFinishes: remove one of them";
pub const RULES_WITH_LEGACY: &str = "deletionStrategy takes deletionRules, or both onSuccess and onFailure with a policy each, never a mixture: remove what is too much or add what is missing";
pub const ONE_DELETION_CONDITION: &str =
    "condition needs exactly one of jobStatus and jobDeploymentStatus: split the rule in two for both";

// RayService
pub const SERVICE_HEAD_NAME: &str = "rayClusterConfig.headGroupSpec.headService.metadata.name must be left out: clusters of a RayService take turns and cannot share a name";
pub const SERVICE_K8S_TOKEN: &str =
    "authOptions.enableK8sTokenAuth works for a RayCluster only: use mode token with a Secret";
pub const OWNED_UPGRADE_STRATEGY: &str =
    "upgradeStrategy.type of the cluster must be left out: its owner decides when the cluster is replaced";
pub const INCREMENTAL_NEEDS_AUTOSCALING: &str = "upgradeStrategy.type NewClusterWithIncrementalUpgrade needs enableInTreeAutoscaling: true in rayClusterConfig, so that the new cluster grows with its share of the traffic";
pub const INCREMENTAL_NEEDS_OPTIONS: &str = "upgradeStrategy.type NewClusterWithIncrementalUpgrade needs clusterUpgradeOptions with stepSizePercent, intervalSeconds and gatewayClassName";
pub const STEP_ABOVE_SURGE: &str =
    "stepSizePercent must not be above maxSurgePercent: traffic cannot move faster than capacity";

// RayCronJob
pub const SCHEDULE_ZONE: &str = "schedule must not hold a time zone (TZ=): use the field timeZone";

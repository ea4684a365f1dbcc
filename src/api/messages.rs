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

/// For a number below zero. The API server says it in its own words.
pub fn negative(field: &str) -> String {
    format!("{field} must not be negative: set it to 0 or more")
}

pub fn label_key(key: &str) -> String {
    format!(
        "labels key {key:?} is not a label key: at most 63 letters, digits, '-', '_' or '.', a letter or digit first \
         and last, perhaps after a domain and '/'"
    )
}

pub fn label_value(key: &str, value: &str) -> String {
    format!(
        "labels value {value:?} of {key} is not a label value: at most 63 letters, digits, '-', '_' or '.', a letter \
         or digit first and last"
    )
}

pub fn collector_env(name: &str) -> String {
    format!("collectorOptions.env must not set {name}: the operator sets it")
}

pub fn collector_storage(name: &str) -> String {
    format!("collectorOptions.env needs {name} to know where to store what it collects")
}

pub const NO_CONTAINER: &str = "template.spec.containers needs at least one container: the first one runs Ray";
pub const RESOURCES_TWICE: &str =
    "resources replaces rayStartParams num-cpus, num-gpus, memory and resources: remove those or remove resources";
pub const LABELS_PARAM: &str = "rayStartParams must not hold labels: use the field labels of the group";
pub const REDIS_USERNAME_PARAM: &str =
    "rayStartParams must not hold redis-username: use gcsFaultToleranceOptions.redisUsername";
pub const REDIS_PASSWORD_PARAM: &str = "rayStartParams of the head must not hold redis-password beside gcsFaultToleranceOptions: use \
     gcsFaultToleranceOptions.redisPassword";
pub const REDIS_USERNAME_ENV: &str =
    "the head's environment must not hold REDIS_USERNAME: use gcsFaultToleranceOptions.redisUsername";
pub const REDIS_PASSWORD_ENV: &str = "the head's environment must not hold REDIS_PASSWORD beside gcsFaultToleranceOptions: use \
     gcsFaultToleranceOptions.redisPassword";
pub const REDIS_ADDRESS_ENV: &str = "the head's environment must not hold RAY_REDIS_ADDRESS beside gcsFaultToleranceOptions: use \
     gcsFaultToleranceOptions.redisAddress";
pub const REDIS_WITHOUT_FT: &str = "the head's environment holds RAY_REDIS_ADDRESS, but fault tolerance is off: add gcsFaultToleranceOptions with \
     redisAddress and remove the variable";
pub const FT_TWICE: &str =
    "annotation ray.io/ft-enabled and gcsFaultToleranceOptions say the same thing twice: remove the annotation";
pub const STORAGE_NAMESPACE_TWICE: &str = "annotation ray.io/external-storage-namespace cannot be used with gcsFaultToleranceOptions: use \
     gcsFaultToleranceOptions.externalStorageNamespace";
pub const DUPLICATE_GROUP: &str =
    "groupName must be unique among workerGroupSpecs: rename or merge the groups that share one";
pub const GROUP_NAME: &str = "groupName must have 1 to 63 letters, digits, '-' or '.', with a letter or digit first, last and around each \
     '.': it becomes a label and part of pod names";
pub const GROUP_NAME_RESERVED: &str = "groupName headgroup is the head's: choose another";
pub const MIN_ABOVE_MAX: &str = "minReplicas must not be above maxReplicas: lower minReplicas or raise maxReplicas";
pub const NO_HOSTS: &str = "numOfHosts must be at least 1: it is the number of pods of one replica";
pub const IDLE_TIMEOUT_NEEDS_V2: &str = "idleTimeoutSeconds of a group is read by autoscaler v2 only: set autoscalerOptions.version to v2, or use \
     autoscalerOptions.idleTimeoutSeconds";
pub const PRIORITY_NEEDS_VERSION: &str =
    "priority needs Ray 2.56.0 or newer: set rayVersion to the version in the image, or remove priority";
pub const PRIORITY_NEEDS_V2: &str =
    "priority is read by autoscaler v2 only: set autoscalerOptions.version to v2, or remove priority";
pub const V2_ENV_WITHOUT_AUTOSCALING: &str = "the head's environment turns on RAY_enable_autoscaler_v2, but the autoscaler is off: set \
     enableInTreeAutoscaling to true or remove the variable";
pub const V2_TWICE: &str = "autoscalerOptions.version and the head's variable RAY_enable_autoscaler_v2 say the same thing twice: remove the \
     variable";
pub const AUTOSCALER_NAME: &str =
    "the name autoscaler belongs to the container that enableInTreeAutoscaling adds: rename the container";
pub const AUTOSCALER_COMMAND_ENV: &str =
    "autoscalerOptions.env must not set KUBERAY_GEN_AUTOSCALER_START_CMD: use autoscalerOptions.command and args";
pub const SUSPENDED_GROUP_AUTOSCALED: &str = "workerGroupSpecs[].suspend cannot be used with enableInTreeAutoscaling: the autoscaler would start the group \
     again; set one of them to false";
pub const V2_RESTART_POLICY: &str = "autoscalerOptions.version v2 needs restartPolicy Never in the templates of the head and all worker groups: set \
     it to Never or leave it out";
pub const BACKEND_IMMUTABLE: &str =
    "gcsFaultToleranceOptions.backend cannot change once it is set: make a new RayCluster for another backend";
pub const BACKEND: &str = "gcsFaultToleranceOptions.backend must be redis or rocksdb";
pub const ROCKSDB_ENV: &str =
    "backend rocksdb sets RAY_gcs_storage and RAY_gcs_storage_path on the head: remove them from its environment";
pub const ROCKSDB_VOLUME: &str =
    "backend rocksdb mounts the volume gcs-storage at /data/gcs: rename or move the head's own volume or mount";
pub const ROCKSDB_WITH_REDIS: &str = "backend rocksdb keeps its state on a volume: remove redisAddress, redisUsername, redisPassword and \
     externalStorageNamespace, or use backend redis";
pub const REDIS_WITH_STORAGE: &str = "storage is for backend rocksdb: set backend to rocksdb or remove storage";
pub const CLAIM_WITH_SIZE: &str =
    "storage.claimName names a claim that exists: remove size, storageClassName and accessModes, or remove claimName";
pub const K8S_TOKEN_WITHOUT_MODE: &str =
    "authOptions.enableK8sTokenAuth needs authOptions.mode token: set the mode or remove enableK8sTokenAuth";
pub const K8S_TOKEN_WITH_SECRET: &str =
    "authOptions.enableK8sTokenAuth uses no Secret: remove authOptions.secretName or enableK8sTokenAuth";
pub const TOKEN_NEEDS_VERSION: &str = "authOptions (mode token, also when mode is left out) needs Ray 2.52.0 or newer: set rayVersion to the version in the image, or \
     mode to disabled";
pub const K8S_TOKEN_NEEDS_VERSION: &str = "authOptions.enableK8sTokenAuth needs Ray 2.55.0 or newer: set rayVersion to the version in the image, or remove \
     enableK8sTokenAuth";
pub const POLICY_GROUP_NAME: &str = "groupName must hold only lower-case letters, digits and '-' where networkPolicy is used: policies are named \
     after groups";
pub const POLICY_UNKNOWN_GROUP: &str =
    "networkPolicy.workerGroups names a group that is not in workerGroupSpecs: correct or remove the entry";
pub const TLS_ENV: &str =
    "tlsOptions.enabled sets RAY_USE_TLS and RAY_TLS_ variables: remove them from this environment";
pub const TLS_MOUNT: &str = "tlsOptions.enabled mounts the volume ray-tls at /etc/ray/tls: rename or move this mount";
pub const COLLECTOR_IMAGE: &str = "historyServerOptions needs collectorOptions.image";
pub const COLLECTOR_NAME: &str =
    "the container name ray-history-collector is taken by historyServerOptions: rename the container in the template";
pub const UPGRADE_TYPE: &str = "upgradeStrategy.type must be Recreate or None";
pub const INGRESS_RULES_UNUSED: &str = "networkPolicy.mode DenyAllEgress leaves ingress open, so ingressRules have no effect: remove them or use mode \
     DenyAll";
pub const EGRESS_RULES_UNUSED: &str = "networkPolicy.mode DenyAllIngress leaves egress open, so egressRules have no effect: remove them or use mode \
     DenyAll";
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
pub const SIDECAR_WITH_SUBMITTER: &str = "submissionMode SidecarMode has no submitter pod: remove submitterPodTemplate and submitterConfig, or use \
     K8sJobMode";
pub const SIDECAR_RESTART_POLICY: &str =
    "submissionMode SidecarMode needs restartPolicy Never in the head's template: set it to Never or leave it out";
pub const RULES_WITH_SHUTDOWN: &str =
    "deletionStrategy.deletionRules replaces shutdownAfterJobFinishes: remove one of them";
pub const RULES_WITH_LEGACY: &str = "deletionStrategy takes deletionRules, or both onSuccess and onFailure with a policy each, never a mixture: \
     remove what is too much or add what is missing";
pub const ONE_DELETION_CONDITION: &str =
    "condition needs exactly one of jobStatus and jobDeploymentStatus: split the rule in two for both";

// RayService
pub const SERVICE_HEAD_NAME: &str = "rayClusterConfig.headGroupSpec.headService.metadata.name must be left out: clusters of a RayService take turns \
     and cannot share a name";
pub const SERVICE_K8S_TOKEN: &str =
    "authOptions.enableK8sTokenAuth works for a RayCluster only: use mode token with a Secret";
pub const OWNED_UPGRADE_STRATEGY: &str =
    "upgradeStrategy.type of the cluster must be left out: its owner decides when the cluster is replaced";
pub const INCREMENTAL_NEEDS_AUTOSCALING: &str = "upgradeStrategy.type NewClusterWithIncrementalUpgrade needs enableInTreeAutoscaling: true in rayClusterConfig, \
     so that the new cluster grows with its share of the traffic";
pub const INCREMENTAL_NEEDS_OPTIONS: &str = "upgradeStrategy.type NewClusterWithIncrementalUpgrade needs clusterUpgradeOptions with stepSizePercent, \
     intervalSeconds and gatewayClassName";
pub const STEP_ABOVE_SURGE: &str =
    "stepSizePercent must not be above maxSurgePercent: traffic cannot move faster than capacity";

// RayCronJob
pub const SCHEDULE_ZONE: &str = "schedule must not hold a time zone (TZ=): use the field timeZone";

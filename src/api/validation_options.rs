//! What is wrong with the options of a RayCluster: autoscaler, fault tolerance, history, login, network, TLS.

use k8s_openapi::api::core::v1::{EnvVar, PodTemplateSpec, VolumeMount};

use super::messages as m;
use super::raycluster::{GcsFaultToleranceOptions, RayClusterSpec};
use super::syntax;
use super::validation::{Faults, env, env_at, ray_env, ray_mounts};
use super::version::RayVersion;

const V2_SWITCH: &str = "RAY_enable_autoscaler_v2";
const AUTOSCALER: &str = "autoscaler";
const COLLECTOR: &str = "ray-history-collector";
/// Set by the operator in the history collector.
const COLLECTOR_ENV: [&str; 8] = [
    "POD_IP",
    "FQ_RAY_IP",
    "RAY_CLUSTER_NAME",
    "RAY_CLUSTER_NAMESPACE",
    "RAY_ROLE",
    "OWNER_KIND",
    "OWNER_NAME",
    "EVENTS_PORT",
];

/// Whether the second generation of Ray's autoscaler is asked for: by option or by environment (KubeRay behaviour).
pub(super) fn autoscaler_v2(spec: &RayClusterSpec) -> bool {
    option_version(spec) == Some("v2") || v2_by_env(spec)
}

fn option_version(spec: &RayClusterSpec) -> Option<&str> {
    spec.autoscaler_options.as_ref()?.version.as_deref()
}

fn v2_by_env(spec: &RayClusterSpec) -> bool {
    env(&spec.head_group_spec.template, V2_SWITCH)
        .and_then(|e| e.value.as_deref())
        .is_some_and(|v| v == "1" || v.eq_ignore_ascii_case("true"))
}

pub(super) fn autoscaler(faults: &mut Faults, spec: &RayClusterSpec) {
    let on = spec.enable_in_tree_autoscaling == Some(true);
    let head_env = env_at("spec.headGroupSpec");
    faults.when(!on && v2_by_env(spec), head_env.as_str(), m::V2_ENV_WITHOUT_AUTOSCALING);
    if on {
        let suspended = spec.groups().iter().position(|g| g.suspend == Some(true));
        let at = format!("spec.workerGroupSpecs[{}].suspend", suspended.unwrap_or(0));
        faults.when(suspended.is_some(), at, m::SUSPENDED_GROUP_AUTOSCALED);
        let by_env = env(&spec.head_group_spec.template, V2_SWITCH).is_some();
        faults.when(option_version(spec).is_some() && by_env, head_env, m::V2_TWICE);
        if option_version(spec) == Some("v2") {
            let restarts = |t: &PodTemplateSpec| {
                let policy = t.spec.as_ref().and_then(|s| s.restart_policy.as_deref());
                !matches!(policy, None | Some("" | "Never"))
            };
            let any = restarts(&spec.head_group_spec.template) || spec.groups().iter().any(|g| restarts(&g.template));
            faults.when(any, "spec.autoscalerOptions.version", m::V2_RESTART_POLICY);
        }
    }
    let head = spec.head_group_spec.template.spec.iter().flat_map(|s| &s.containers);
    let taken = on && head.into_iter().any(|c| c.name == AUTOSCALER);
    faults.when(taken, "spec.headGroupSpec.template.spec.containers", m::AUTOSCALER_NAME);
    let Some(options) = &spec.autoscaler_options else { return };
    let at = "spec.autoscalerOptions";
    let negative = options.idle_timeout_seconds.is_some_and(|s| s < 0);
    faults.when(negative, format!("{at}.idleTimeoutSeconds"), m::negative("idleTimeoutSeconds"));
    let taken = names(&options.env, |n| n == "KUBERAY_GEN_AUTOSCALER_START_CMD");
    faults.when(taken.is_some(), format!("{at}.env"), m::AUTOSCALER_COMMAND_ENV);
}

/// The first variable whose name `wanted` picks.
fn names(env: &Option<Vec<EnvVar>>, wanted: impl Fn(&str) -> bool) -> Option<&str> {
    env.iter().flatten().map(|e| e.name.as_str()).find(|n| wanted(n))
}

pub(super) fn gcs_storage(faults: &mut Faults, options: &GcsFaultToleranceOptions, head: &PodTemplateSpec) {
    let at = "spec.gcsFaultToleranceOptions";
    match options.backend.as_deref() {
        None | Some("" | "redis") => {
            faults.when(options.storage.is_some(), format!("{at}.storage"), m::REDIS_WITH_STORAGE);
            return;
        }
        Some("rocksdb") => {}
        Some(_) => {
            faults.when(true, format!("{at}.backend"), m::BACKEND);
            return;
        }
    }
    let redis = options.redis_address.is_some()
        || options.redis_username.is_some()
        || options.redis_password.is_some()
        || options.external_storage_namespace.is_some();
    faults.when(redis, format!("{at}.backend"), m::ROCKSDB_WITH_REDIS);
    if let Some(storage) = &options.storage {
        let named = storage.claim_name.as_deref().is_some_and(|n| !n.is_empty());
        let sized = storage.size.is_some() || storage.storage_class_name.is_some() || storage.access_modes.is_some();
        faults.when(named && sized, format!("{at}.storage.claimName"), m::CLAIM_WITH_SIZE);
    }
    let head_at = "spec.headGroupSpec";
    let by_env = ["RAY_gcs_storage", "RAY_gcs_storage_path"].iter().any(|n| env(head, n).is_some());
    faults.when(by_env, env_at(head_at), m::ROCKSDB_ENV);
    let volumes = head.spec.as_ref().and_then(|s| s.volumes.as_deref()).unwrap_or_default();
    let taken = volumes.iter().any(|v| v.name == "gcs-storage");
    let taken = taken || mounted(ray_mounts(head), "gcs-storage", "/data/gcs");
    faults.when(taken, format!("{head_at}.template.spec"), m::ROCKSDB_VOLUME);
}

fn mounted(mounts: &[VolumeMount], name: &str, path: &str) -> bool {
    mounts.iter().any(|v| v.name == name || v.mount_path.trim_end_matches('/') == path)
}

pub(super) fn history(faults: &mut Faults, spec: &RayClusterSpec) {
    let Some(options) = &spec.history_server_options else { return };
    let at = "spec.historyServerOptions.collectorOptions";
    let image = options.collector_options.as_ref().and_then(|c| c.image.as_deref()).unwrap_or_default();
    faults.when(image.is_empty(), format!("{at}.image"), m::COLLECTOR_IMAGE);
    let variables = options.collector_options.as_ref().map(|c| &c.env);
    if let Some(name) = variables.and_then(|e| names(e, |n| COLLECTOR_ENV.contains(&n))) {
        faults.when(true, format!("{at}.env"), m::collector_env(name));
    }
    if let Some(missing) = variables.and_then(|e| missing_storage_env(e.as_deref().unwrap_or_default())) {
        faults.when(true, format!("{at}.env"), m::collector_storage(missing));
    }
    let templates = std::iter::once(&spec.head_group_spec.template).chain(spec.groups().iter().map(|g| &g.template));
    let taken = templates.flat_map(|t| t.spec.iter()).flat_map(|s| &s.containers).any(|c| c.name == COLLECTOR);
    faults.when(taken, at, m::COLLECTOR_NAME);
}

/// Where the collector writes is told by environment; what is missing for the chosen backend, if anything.
fn missing_storage_env(env: &[EnvVar]) -> Option<&'static str> {
    let literal = |name: &str| env.iter().find(|e| e.name == name).and_then(|e| e.value.as_deref()).unwrap_or_default();
    let has = |name: &str| env.iter().any(|e| e.name == name);
    let needed: &[&'static str] = match literal("STORAGE_BACKEND") {
        "" => return Some("STORAGE_BACKEND"),
        "GCS" => &["GCS_BUCKET"],
        "S3" => &["S3_REGION"],
        "ALIYUNOSS" => &["OSS_BUCKET", "OSS_ENDPOINT", "OSS_REGION"],
        "AZUREBLOB" => match literal("AZURE_STORAGE_AUTH_MODE") {
            "connection_string" => &["AZURE_STORAGE_CONNECTION_STRING"],
            "workload_identity" | "default" => &["AZURE_STORAGE_ACCOUNT_URL"],
            _ if has("AZURE_STORAGE_CONNECTION_STRING") => &[],
            _ => &["AZURE_STORAGE_ACCOUNT_URL"],
        },
        _ => &[],
    };
    needed.iter().copied().find(|name| !has(name))
}

pub(super) fn auth(faults: &mut Faults, spec: &RayClusterSpec, version: Option<RayVersion>) {
    let Some(options) = &spec.auth_options else { return };
    let token = options.wants_token();
    let kubernetes = options.enable_k8s_token_auth == Some(true);
    let at = "spec.authOptions";
    faults.when(token && version.is_none_or(|v| v < (2, 52, 0)), "spec.rayVersion", m::TOKEN_NEEDS_VERSION);
    if kubernetes {
        let unsaid = options.mode.as_deref() != Some("token");
        faults.when(unsaid, format!("{at}.enableK8sTokenAuth"), m::K8S_TOKEN_WITHOUT_MODE);
        let old = version.is_some_and(|v| ((2, 52, 0)..(2, 55, 0)).contains(&v));
        faults.when(old, "spec.rayVersion", m::K8S_TOKEN_NEEDS_VERSION);
        let secret = options.secret_name.as_deref().is_some_and(|s| !s.is_empty());
        faults.when(secret, format!("{at}.secretName"), m::K8S_TOKEN_WITH_SECRET);
    }
}

pub(super) fn network_policy(faults: &mut Faults, spec: &RayClusterSpec) {
    let Some(policy) = &spec.network_policy else { return };
    let at = "spec.networkPolicy";
    fn some<T>(rules: &Option<Vec<T>>) -> bool {
        rules.as_ref().is_some_and(|r| !r.is_empty())
    }
    let groups = policy.worker_groups.as_deref().unwrap_or_default();
    let rules = || [&policy.head, &policy.worker].into_iter().flatten();
    let ingress = rules().any(|r| some(&r.ingress_rules)) || groups.iter().any(|g| some(&g.ingress_rules));
    let egress = rules().any(|r| some(&r.egress_rules)) || groups.iter().any(|g| some(&g.egress_rules));
    let mode = policy.mode.as_deref();
    faults.when(mode == Some("DenyAllEgress") && ingress, at, m::INGRESS_RULES_UNUSED);
    faults.when(mode == Some("DenyAllIngress") && egress, at, m::EGRESS_RULES_UNUSED);
    for (i, group) in spec.groups().iter().enumerate() {
        let wrong = !syntax::is_dns_1123_label(&group.group_name);
        faults.when(wrong, format!("spec.workerGroupSpecs[{i}].groupName"), m::POLICY_GROUP_NAME);
    }
    for (i, group) in groups.iter().enumerate() {
        let known = spec.groups().iter().any(|g| g.group_name == group.group_name);
        faults.when(!known, format!("{at}.workerGroups[{i}].groupName"), m::POLICY_UNKNOWN_GROUP);
    }
}

pub(super) fn tls(faults: &mut Faults, spec: &RayClusterSpec) {
    if spec.tls_options.as_ref().and_then(|t| t.enabled) != Some(true) {
        return;
    }
    let ours = |env: &[EnvVar]| env.iter().any(|e| e.name == "RAY_USE_TLS" || e.name.starts_with("RAY_TLS_"));
    let mut check = |at: String, env: &[EnvVar], mounts: &[VolumeMount]| {
        faults.when(ours(env), format!("{at}.env"), m::TLS_ENV);
        faults.when(mounted(mounts, "ray-tls", "/etc/ray/tls"), format!("{at}.volumeMounts"), m::TLS_MOUNT);
    };
    let container = |group: &str| format!("{group}.template.spec.containers[0]");
    let head = &spec.head_group_spec.template;
    check(container("spec.headGroupSpec"), ray_env(head), ray_mounts(head));
    for (i, group) in spec.groups().iter().enumerate() {
        let at = container(&format!("spec.workerGroupSpecs[{i}]"));
        check(at, ray_env(&group.template), ray_mounts(&group.template));
    }
    if let Some(o) = &spec.autoscaler_options {
        let (env, mounts) = (o.env.as_deref().unwrap_or_default(), o.volume_mounts.as_deref().unwrap_or_default());
        check("spec.autoscalerOptions".into(), env, mounts);
    }
}

//! Which environment variables the containers of a Ray pod get.
//!
//! Each name is set once. What describes the pod itself (`RAY_CLUSTER_NAME`, `FQ_RAY_IP`, ...) is ours: KubeRay appends
//! it, so that it beats a user's variable of that name; here it takes the user's place in the list, where the user's
//! other variables may refer to it. Everything else yields to the user.

use k8s_openapi::api::core::v1::{Container, EnvVar, EnvVarSource, ObjectFieldSelector};

use super::address::HeadAddress;
use super::{Group, collector, command, creator, fault_tolerance, login};
use crate::api::names::labels;
use crate::plan::config::PlanConfig;

/// Variables of the Ray container, in KubeRay's order. `start_command` is what it would run if it has no command of its
/// own; images rely on finding it in `KUBERAY_GEN_RAY_START_CMD`.
pub(crate) fn on_ray_container(
    ray: &mut Container,
    group: Group,
    address: &HeadAddress,
    start_command: String,
    config: &PlanConfig,
) {
    if group.is_head() {
        let env = ray.env.get_or_insert_default();
        match command::autoscaler_version(group.cluster) {
            Some("v2") => set(env, literal("RAY_enable_autoscaler_v2", "true")),
            Some("v1") => set(env, literal("RAY_enable_autoscaler_v2", "false")),
            _ => {}
        }
    }
    fault_tolerance::env(ray, group);
    login::add(ray, group.cluster);
    let env = ray.env.get_or_insert_default();
    for var in &config.default_container_envs {
        set_default(env, var.clone());
    }
    if !group.is_head() {
        set_head_names(env, address);
    }
    set(env, field("RAY_CLUSTER_NAME", &format!("metadata.labels['{}']", labels::CLUSTER)));
    set(env, field("RAY_CLUSTER_NAMESPACE", "metadata.namespace"));
    set(env, field("RAY_CLOUD_INSTANCE_ID", "metadata.name"));
    set(env, field("RAY_NODE_TYPE_NAME", &format!("metadata.labels['{}']", labels::GROUP)));
    set(env, literal("KUBERAY_GEN_RAY_START_CMD", &start_command));
    set_default(env, literal("RAY_PORT", &address.port));
    if creator(group.cluster) == "RayService" {
        set_default(env, literal("RAY_timeout_ms_task_wait_for_death_info", "0"));
        set_default(env, literal("RAY_gcs_server_request_timeout_seconds", "5"));
        set_default(env, literal("RAY_SERVE_KV_TIMEOUT_S", "5"));
    }
    if group.is_head() {
        set_default(env, literal("RAY_ADDRESS", &format!("127.0.0.1:{}", address.port)));
    } else {
        set_head_addresses(env, address);
    }
    set_default(env, literal("RAY_USAGE_STATS_KUBERAY_IN_USE", "1"));
    if group.is_head() {
        let tags = format!("kuberay_version={};kuberay_crd={}", config.version, creator(group.cluster));
        set(env, literal("RAY_USAGE_STATS_EXTRA_TAGS", &tags));
    }
    set_default(env, literal("RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "1"));
    collector::on_ray_container(env, group.cluster);
}

/// Every init container, the user's too, knows the head's name; on workers also its address.
pub(crate) fn on_init_containers<'a>(
    containers: impl Iterator<Item = &'a mut Container>,
    group: Group,
    address: &HeadAddress,
) {
    for container in containers {
        let env = container.env.get_or_insert_default();
        set_head_names(env, address);
        if !group.is_head() {
            set_head_addresses(env, address);
        }
    }
}

/// Every other container of a worker pod knows the head's address.
pub(crate) fn on_other_containers<'a>(
    containers: impl Iterator<Item = &'a mut Container>,
    group: Group,
    address: &HeadAddress,
) {
    if group.is_head() {
        return;
    }
    for container in containers {
        set_head_addresses(container.env.get_or_insert_default(), address);
    }
}

fn set_head_names(env: &mut Vec<EnvVar>, address: &HeadAddress) {
    set(env, literal("FQ_RAY_IP", &address.fqdn));
    set(env, literal("RAY_IP", &address.service));
}

/// `RAY_ADDRESS` is Ray's own variable; `RAY_HEAD_ADDRESS` is the one that users' own scripts read. Both hold the
/// fully qualified name, which resolves under every search list.
fn set_head_addresses(env: &mut Vec<EnvVar>, address: &HeadAddress) {
    set_default(env, literal("RAY_ADDRESS", &address.gcs()));
    set_default(env, literal("RAY_HEAD_ADDRESS", &address.gcs()));
}

/// Sets a variable, in the place of one of that name if there is one.
pub fn set(env: &mut Vec<EnvVar>, var: EnvVar) {
    match env.iter_mut().find(|v| v.name == var.name) {
        Some(place) => *place = var,
        None => env.push(var),
    }
}

/// Sets a variable that the user has not set.
pub fn set_default(env: &mut Vec<EnvVar>, var: EnvVar) {
    if env.iter().all(|v| v.name != var.name) {
        env.push(var);
    }
}

/// A variable with a value.
pub fn literal(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

/// A variable with a field of the pod.
pub fn field(name: &str, path: &str) -> EnvVar {
    let selector = ObjectFieldSelector { api_version: None, field_path: path.to_owned() };
    let source = EnvVarSource { field_ref: Some(selector), ..EnvVarSource::default() };
    EnvVar { name: name.to_owned(), value: None, value_from: Some(source) }
}

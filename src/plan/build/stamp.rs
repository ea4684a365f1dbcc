//! What a pod was made from, written on it: so that it can be said later what has changed since, and whether
//! `upgradeStrategy: Recreate` has to replace it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use serde::Serialize;
use serde_json::json;

use super::{Group, recreate_hash};
use crate::api::names::{annotations, fnv1a};

/// The annotations that say what a pod was made from: a hash of the whole spec, and one for each part of its template.
pub(crate) fn annotations(group: Group) -> [(&'static str, String); 2] {
    let parts: Vec<String> = parts(group).iter().map(|(name, hash)| format!("{name}={hash}")).collect();
    [
        (annotations::RECREATE_HASH, recreate_hash::of(&group.cluster.spec)),
        (annotations::TEMPLATE_PARTS, parts.join(",")),
    ]
}

/// Names of the parts that differ between what a pod says it was made from and what it would be made from today.
pub(crate) fn changed_parts(made_from: &str, group: Group) -> Vec<&'static str> {
    let before: BTreeMap<&str, &str> = made_from.split(',').filter_map(|p| p.split_once('=')).collect();
    let now = parts(group);
    now.iter().filter(|(name, hash)| before.get(**name) != Some(&hash.as_str())).map(|(name, _)| *name).collect()
}

/// Tolerations and scheduling gates are left out: queue controllers write them.
fn parts(group: Group) -> BTreeMap<&'static str, String> {
    let template = group.template();
    let mut spec = template.spec.clone().unwrap_or_default();
    spec.tolerations = None;
    spec.scheduling_gates = None;
    let mut containers = std::mem::take(&mut spec.containers).into_iter();
    let mut ray = containers.next().unwrap_or_default();
    let others: Vec<Container> = containers.collect();
    let scheduling = PodSpec {
        node_selector: spec.node_selector.take(),
        affinity: spec.affinity.take(),
        topology_spread_constraints: spec.topology_spread_constraints.take(),
        priority_class_name: spec.priority_class_name.take(),
        scheduler_name: spec.scheduler_name.take(),
        runtime_class_name: spec.runtime_class_name.take(),
        ..PodSpec::default()
    };
    let meta = template.metadata.as_ref();
    let labels =
        json!([meta.and_then(|m| m.labels.as_ref()), meta.and_then(|m| m.annotations.as_ref()), group.labels()]);
    let whole = &group.cluster.spec;
    let settings = json!([
        whole.ray_version,
        whole.auth_options,
        whole.gcs_fault_tolerance_options,
        whole.tls_options,
        whole.history_server_options,
        group.is_head().then_some((&whole.enable_in_tree_autoscaling, &whole.autoscaler_options)),
    ]);
    BTreeMap::from([
        ("image", hash(&ray.image.take())),
        ("command", hash(&(ray.command.take(), ray.args.take()))),
        ("env", hash(&(ray.env.take(), ray.env_from.take()))),
        ("resources", hash(&(ray.resources.take(), group.resources()))),
        ("rayContainer", hash(&ray)),
        ("otherContainers", hash(&others)),
        ("initContainers", hash(&spec.init_containers.take())),
        ("volumes", hash(&spec.volumes.take())),
        ("scheduling", hash(&scheduling)),
        ("podSpec", hash(&spec)),
        ("labels", hash(&labels)),
        ("rayStartParams", hash(&group.params().filter(|p| !p.is_empty()))),
        ("clusterSettings", hash(&settings)),
    ])
}

fn hash(part: &impl Serialize) -> String {
    format!("{:04x}", fnv1a(json!(part).to_string().as_bytes()) & 0xffff)
}

//! Labels, annotations and the rest of a pod's metadata, except its name.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::fault_tolerance::{Store, storage_namespace};
use super::{Group, Identity, command, creator, owner, stamp};
use crate::api::names::{self, annotations, labels};
use crate::plan::config::PlanConfig;

/// Labels that `template` and `labels` of a group cannot change: Ray's autoscaler and we find pods by them.
const FIXED: [&str; 3] = [labels::CLUSTER, labels::NODE_TYPE, labels::GROUP];

pub(crate) fn metadata(group: Group, identity: Identity, config: &PlanConfig) -> ObjectMeta {
    let template = group.template().metadata.clone().unwrap_or_default();
    ObjectMeta {
        namespace: group.cluster.metadata.namespace.clone(),
        labels: Some(pod_labels(group, identity, config)),
        annotations: Some(pod_annotations(group, identity, config)).filter(|a| !a.is_empty()),
        finalizers: template.finalizers,
        owner_references: Some(vec![owner(group.cluster)]),
        ..ObjectMeta::default()
    }
}

/// Labels of a pod: KubeRay's base, over it the template's, over that the group's `labels`; then the ones that say
/// which pod of its group it is, which nobody can change.
pub(crate) fn pod_labels(group: Group, identity: Identity, config: &PlanConfig) -> BTreeMap<String, String> {
    let cluster = group.cluster.metadata.name.as_deref().unwrap_or_default();
    let mut all = base_labels(cluster, group.node_type(), group.name());
    let template = group.template().metadata.as_ref().and_then(|m| m.labels.as_ref());
    for (key, value) in template.into_iter().flatten().chain(group.labels().into_iter().flatten()) {
        if !FIXED.contains(&key.as_str()) {
            all.insert(key.clone(), value.clone());
        }
    }
    if let Some(worker) = group.worker {
        all.insert(labels::REPLICA_INDEX.to_owned(), identity.slot.to_string());
        if worker.hosts() > 1 {
            let uid = group.cluster.metadata.uid.as_deref().unwrap_or_default();
            all.insert(labels::REPLICA_NAME.to_owned(), names::replica_name(uid, &worker.group_name, identity.slot));
            all.insert(labels::HOST_INDEX.to_owned(), identity.host.to_string());
        }
    }
    for (key, value) in &config.default_pod_labels {
        all.entry(key.clone()).or_insert_with(|| value.clone());
    }
    if creator(group.cluster) == "RayService" {
        all.insert(labels::SERVE.to_owned(), (!group.is_head()).to_string());
    }
    all
}

/// What KubeRay puts on every Ray pod.
pub(crate) fn base_labels(cluster: &str, node_type: &str, group: &str) -> BTreeMap<String, String> {
    [
        (labels::IS_RAY_NODE, "yes".to_owned()),
        (labels::CLUSTER, cluster.to_owned()),
        (labels::NODE_TYPE, node_type.to_owned()),
        (labels::GROUP, group.to_owned()),
        (labels::IDENTIFIER, names::label_value(&format!("{cluster}-{node_type}"))),
        (labels::APP_NAME, "kuberay".to_owned()),
        (labels::CREATED_BY, "kuberay-operator".to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn pod_annotations(group: Group, identity: Identity, config: &PlanConfig) -> BTreeMap<String, String> {
    let template = group.template().metadata.as_ref().and_then(|m| m.annotations.clone());
    let mut all = template.unwrap_or_default();
    // A template pasted from a living pod carries that pod's history.
    all.remove(annotations::INCARNATION);
    all.remove(annotations::QUICK_FAILURES);
    all.remove(annotations::LOST);
    let mut set = |key: &str, value: String| _ = all.insert(key.to_owned(), value);

    if command::overwrites_command(group) {
        set(annotations::OVERWRITE_CONTAINER_CMD, "true".to_owned());
    }
    if group.is_head() {
        let store = Store::of(group.cluster);
        set(annotations::FT_ENABLED, (store != Store::Memory).to_string());
        if matches!(store, Store::Redis(_)) {
            set(annotations::EXTERNAL_STORAGE_NAMESPACE, storage_namespace(group.cluster).to_owned());
        }
        set(annotations::KUBERAY_VERSION, config.version.clone());
    }
    for (key, value) in stamp::annotations(group) {
        set(key, value);
    }
    if identity.incarnation > 0 {
        set(annotations::INCARNATION, identity.incarnation.to_string());
    }
    if identity.quick_failures > 0 {
        set(annotations::QUICK_FAILURES, identity.quick_failures.to_string());
    }
    for (key, value) in &config.default_pod_annotations {
        all.entry(key.clone()).or_insert_with(|| value.clone());
    }
    all
}

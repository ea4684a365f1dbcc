//! Metadata of children that are not pods or head Services.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde_json::json;

use super::owner;
use crate::api::RayCluster;
use crate::api::children::Kind;
use crate::api::names::{annotations, fnv1a, labels};
use crate::plan::Manifest;

/// The labels of every child: KubeRay's three.
pub(crate) fn child_labels(cluster: &RayCluster) -> BTreeMap<String, String> {
    [
        (labels::CLUSTER, cluster.metadata.name.as_deref().unwrap_or_default()),
        (labels::APP_NAME, "kuberay"),
        (labels::CREATED_BY, "kuberay-operator"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

/// A child with the cluster as its controller and, in an annotation, a hash of all that is wished of it. `body` is
/// everything beside `metadata`.
pub(crate) fn child(
    cluster: &RayCluster,
    kind: Kind,
    name: String,
    labels: BTreeMap<String, String>,
    own_annotations: BTreeMap<String, String>,
    body: impl Serialize,
) -> Manifest {
    let meta = ObjectMeta {
        name: Some(name),
        namespace: cluster.metadata.namespace.clone(),
        labels: Some(labels),
        annotations: Some(own_annotations),
        owner_references: Some(vec![owner(cluster)]),
        ..ObjectMeta::default()
    };
    stamped(Manifest::new(kind, meta, body))
}

/// Adds the hash of the wish.
pub(crate) fn stamped(mut manifest: Manifest) -> Manifest {
    let hash = format!("{:016x}", fnv1a(manifest.value.to_string().as_bytes()));
    manifest.value["metadata"]["annotations"][annotations::APPLIED_HASH] = json!(hash);
    manifest
}

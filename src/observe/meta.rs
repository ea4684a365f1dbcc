//! Metadata as the API server sends it, and what the views keep of it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::seen::Meta;
use crate::api::names::FIELD_MANAGER;

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SlimMeta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
    deletion_timestamp: Option<Time>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
    owner_references: Option<Vec<OwnerReference>>,
}

/// Skips what no view keeps.
pub(super) fn slim<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    let slim = SlimMeta::deserialize(deserializer)?;
    Ok(ObjectMeta {
        name: slim.name,
        namespace: slim.namespace,
        uid: slim.uid,
        resource_version: slim.resource_version,
        creation_timestamp: slim.creation_timestamp,
        deletion_timestamp: slim.deletion_timestamp,
        labels: slim.labels,
        annotations: slim.annotations,
        owner_references: slim.owner_references,
        ..ObjectMeta::default()
    })
}

/// The controlling RayCluster is the owner; without one, uid and name of the owner are empty.
pub(super) fn view(meta: ObjectMeta) -> Meta {
    let owner = meta
        .owner_references
        .iter()
        .flatten()
        .find(|o| o.controller == Some(true) && o.kind == "RayCluster" && o.api_version.starts_with("ray.io/"));
    let (owner_uid, owner_name) = owner.map(|o| (o.uid.clone(), o.name.clone())).unwrap_or_default();
    let annotations = meta.annotations.unwrap_or_default();
    Meta {
        name: meta.name.unwrap_or_default(),
        namespace: meta.namespace.unwrap_or_default(),
        uid: meta.uid.unwrap_or_default(),
        resource_version: meta.resource_version.unwrap_or_default(),
        owner_uid,
        owner_name,
        created: meta.creation_timestamp.map(|t| t.0),
        deleting: meta.deletion_timestamp.map(|t| t.0),
        labels: meta.labels.unwrap_or_default(),
        annotations: annotations.into_iter().filter(|(k, _)| k.starts_with("ray.io/")).collect(),
    }
}

/// Whether no owner of whatever kind controls the object.
pub(super) fn is_uncontrolled(meta: &ObjectMeta) -> bool {
    !meta.owner_references.iter().flatten().any(|o| o.controller == Some(true))
}

/// Keys of labels and annotations that we wrote, by the API server's own account.
pub(super) fn written(fields: Option<&Vec<ManagedFieldsEntry>>) -> Vec<String> {
    let mut keys = BTreeSet::new();
    for entry in fields.into_iter().flatten().filter(|e| is_ours(e)) {
        let Some(Value::Object(meta)) = entry.fields_v1.as_ref().and_then(|f| f.0.get("f:metadata")) else { continue };
        for part in ["f:labels", "f:annotations"] {
            let names = meta.get(part).and_then(Value::as_object).into_iter().flat_map(|m| m.keys());
            keys.extend(names.filter_map(|k| k.strip_prefix("f:")).map(|k| format!("{}/{k}", &part[2..])));
        }
    }
    keys.into_iter().collect()
}

/// Whether anybody else wrote to more than metadata and status.
pub(super) fn touched(fields: Option<&Vec<ManagedFieldsEntry>>) -> bool {
    fields.into_iter().flatten().filter(|e| !is_ours(e)).any(|e| {
        let parts = e.fields_v1.as_ref().and_then(|f| f.0.as_object());
        parts.is_some_and(|p| p.keys().any(|k| k != "f:metadata" && k != "f:status"))
    })
}

fn is_ours(entry: &ManagedFieldsEntry) -> bool {
    entry.manager.as_deref() == Some(FIELD_MANAGER)
}

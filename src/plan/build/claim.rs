//! The claim of the embedded store (`gcsFaultToleranceOptions.backend: rocksdb`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::child::child_labels;
use super::fault_tolerance::Store;
use super::owner;
use crate::api::RayCluster;
use crate::api::children::Kind;
use crate::api::raycluster::GcsStorage;
use crate::plan::Manifest;

const SIZE: &str = "1Gi";
const MODE: &str = "ReadWriteOnce";

/// The user's own claim, else `<cluster>-gcs-pvc`.
pub(crate) fn name(cluster: &RayCluster) -> String {
    let own = storage(cluster).and_then(|s| s.claim_name.clone()).filter(|n| !n.is_empty());
    own.unwrap_or_else(|| format!("{}-gcs-pvc", cluster.metadata.name.as_deref().unwrap_or_default()))
}

fn storage(cluster: &RayCluster) -> Option<&GcsStorage> {
    let options = cluster.spec.gcs_fault_tolerance_options.as_ref()?;
    options.storage.as_ref()
}

/// Whether the claim stays when the cluster goes.
pub(crate) fn is_retained(cluster: &RayCluster) -> bool {
    storage(cluster).and_then(|s| s.deletion_policy.as_deref()) == Some("Retain")
}

/// What the claim asks for.
pub(crate) fn wish(cluster: &RayCluster) -> PersistentVolumeClaimSpec {
    let storage = storage(cluster).cloned().unwrap_or_default();
    let size = storage.size.unwrap_or_else(|| Quantity(SIZE.to_owned()));
    PersistentVolumeClaimSpec {
        access_modes: Some(storage.access_modes.filter(|m| !m.is_empty()).unwrap_or_else(|| vec![MODE.to_owned()])),
        resources: Some(VolumeResourceRequirements {
            requests: Some(BTreeMap::from([("storage".to_owned(), size)])),
            ..VolumeResourceRequirements::default()
        }),
        storage_class_name: storage.storage_class_name,
        ..PersistentVolumeClaimSpec::default()
    }
}

/// The claim that we make: none when the user names one, or when the state is elsewhere.
pub(crate) fn claim(cluster: &RayCluster) -> Option<Manifest> {
    let named = storage(cluster).and_then(|s| s.claim_name.as_deref()).is_some_and(|n| !n.is_empty());
    if named || !matches!(Store::of(cluster), Store::Volume(_)) {
        return None;
    }
    let meta = ObjectMeta {
        name: Some(name(cluster)),
        namespace: cluster.metadata.namespace.clone(),
        labels: Some(child_labels(cluster)),
        owner_references: (!is_retained(cluster)).then(|| vec![owner(cluster)]),
        ..ObjectMeta::default()
    };
    let claim = PersistentVolumeClaim { spec: Some(wish(cluster)), ..PersistentVolumeClaim::default() };
    Some(Manifest::new(Kind::PersistentVolumeClaim, meta, claim))
}

//! The claim of the embedded store: made before the head, kept or let go as `deletionPolicy` says, never changed.

use k8s_openapi::api::core::v1::PersistentVolumeClaimSpec;
use serde_json::json;

use super::{Part, Scene};
use crate::api::children::Kind;
use crate::observe::seen::ChildView;
use crate::plan::build::{claim, owner};
use crate::plan::quantity::Amount;
use crate::plan::{Action, Manifest, Object, Stage, Step};

pub(super) fn plan(scene: &Scene<'_>) -> Part {
    let mut part = Part::default();
    let Some(wanted) = claim::claim(scene.cluster) else { return part };
    let scope = wanted.name.clone();
    let Some(there) = scene.seen.other(Kind::PersistentVolumeClaim, &wanted.name) else {
        part.steps.push(Step {
            stage: Stage::Guard,
            reason: "CreatedPVC",
            why: "the head keeps Ray's state on it".to_owned(),
            scope,
            tell: true,
            action: Action::Create(Object::Other(wanted)),
        });
        return part;
    };
    let retained = claim::is_retained(scene.cluster);
    if there.meta.deleting.is_none() && retained != there.is_uncontrolled() {
        let (owners, why) = if retained {
            (json!(null), "deletionPolicy is Retain: it stays when the cluster is deleted")
        } else {
            (json!([owner(scene.cluster)]), "deletionPolicy is DeleteWithCluster: it goes when the cluster is deleted")
        };
        let value = json!({ "metadata": { "uid": there.meta.uid, "ownerReferences": owners } });
        let Manifest { kind, namespace, name, .. } = wanted;
        part.steps.push(Step {
            stage: Stage::Others,
            reason: "UpdatedPVC",
            why: why.to_owned(),
            scope,
            tell: true,
            action: Action::Patch(Manifest { kind, namespace, name, value }),
        });
    }
    part
}

/// What a claim that is there has otherwise than the spec asks for. Most of it cannot be changed after its creation.
pub(super) fn drift(scene: &Scene<'_>) -> Option<String> {
    let wanted = claim::claim(scene.cluster)?;
    let there = scene.seen.other(Kind::PersistentVolumeClaim, &wanted.name)?;
    let differences = differences(there, &claim::wish(scene.cluster));
    (!differences.is_empty()).then(|| {
        format!(
            "PersistentVolumeClaim {} is kept as it is, although the spec asks for something else: {}. To have it otherwise, \
             delete the cluster and the claim, which loses Ray's state",
            wanted.name,
            differences.join(", ")
        )
    })
}

fn differences(there: &ChildView, wanted: &PersistentVolumeClaimSpec) -> Vec<String> {
    let has: PersistentVolumeClaimSpec =
        there.body.get("spec").and_then(|s| serde_json::from_value(s.clone()).ok()).unwrap_or_default();
    let size = |claim: &PersistentVolumeClaimSpec| claim.resources.as_ref()?.requests.as_ref()?.get("storage").cloned();
    let modes = |claim: &PersistentVolumeClaimSpec| {
        let mut modes = claim.access_modes.clone().unwrap_or_default();
        modes.sort_unstable();
        modes.join("+")
    };
    let class = |claim: &PersistentVolumeClaimSpec| claim.storage_class_name.clone().unwrap_or_default();
    let text =
        |size: Option<k8s_openapi::apimachinery::pkg::api::resource::Quantity>| size.map_or_else(String::new, |q| q.0);
    let amount = |of| size(of).as_ref().and_then(Amount::of);
    let mut all = Vec::new();
    if amount(&has) != amount(wanted) {
        all.push(format!("size {} instead of {}", text(size(&has)), text(size(wanted))));
    }
    if wanted.storage_class_name.is_some() && class(&has) != class(wanted) {
        all.push(format!("storage class {:?} instead of {:?}", class(&has), class(wanted)));
    }
    if modes(&has) != modes(wanted) {
        all.push(format!("access modes {} instead of {}", modes(&has), modes(wanted)));
    }
    all
}

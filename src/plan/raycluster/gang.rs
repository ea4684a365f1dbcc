//! The PodGroup of a batch scheduler: there before the pods, in step with the spec, and gone while there are no pods, so
//! that it holds no room in a queue.

use serde_json::Value;

use super::children::Wish;
use super::{Part, Scene};
use crate::api::children::Kind;
use crate::api::validation::Fault;
use crate::observe::seen::ChildView;
use crate::plan::build::pod_group::{self, TOPOLOGY_TIER, VOLCANO_FIELDS, pod_group_kind};
use crate::plan::build::scheduling::label;
use crate::plan::config::BatchScheduler;
use crate::plan::{Action, Object, Stage};

pub(super) fn plan(scene: &Scene<'_>) -> Part {
    let mut part = Part::default();
    let Some(kind) = kind(scene) else { return part };
    let wanted = pod_group::pod_group(scene.cluster, scene.config);
    let names: Vec<String> = wanted.iter().map(|group| group.name.clone()).collect();
    if let Some(group) = wanted {
        let there = scene.seen.other(kind, &group.name);
        let step = scene.fulfil(Wish {
            object: Object::Other(group),
            stage: Stage::Guard,
            created: "CreatedPodGroup",
            updated: "UpdatedPodGroup",
            tell: false,
        });
        part.steps.extend(step.map(|mut step| {
            if let (Action::Patch(patch), Some(there)) = (&mut step.action, there) {
                take_out_unwished(&mut patch.value["spec"], there);
            }
            step
        }));
    }
    for group in scene.beside(kind, &names) {
        let why = "the cluster does not ask for a gang any more";
        part.steps.extend(scene.drop_child(group, "DeletedPodGroup", why));
    }
    part
}

/// For a cluster that is to have no pods.
pub(super) fn remove(scene: &Scene<'_>) -> Part {
    let mut part = Part::default();
    let Some(kind) = kind(scene) else { return part };
    for group in scene.beside(kind, &[]) {
        part.steps.extend(scene.drop_child(group, "DeletedPodGroup", "the cluster is suspended"));
    }
    part
}

/// A label that Volcano's PodGroup cannot be made from.
pub(super) fn refused(scene: &Scene<'_>) -> Option<Fault> {
    let tier = label(scene.cluster, TOPOLOGY_TIER).filter(|t| t.parse::<i64>().is_err())?;
    (scene.config.batch_scheduler == Some(BatchScheduler::Volcano)).then(|| Fault {
        field: format!("metadata.labels[{TOPOLOGY_TIER}]"),
        message: format!("{tier:?} is not a whole number"),
    })
}

fn kind(scene: &Scene<'_>) -> Option<Kind> {
    scene.config.batch_scheduler.and_then(pod_group_kind)
}

/// A merge patch leaves what it does not name: a resource that no pod asks for any more, a queue whose label was taken
/// away.
fn take_out_unwished(wish: &mut Value, there: &ChildView) {
    let gone = VOLCANO_FIELDS
        .iter()
        .filter(|(label, field)| there.meta.labels.contains_key(*label) && wish.pointer(field).is_none());
    for (_, field) in gone.collect::<Vec<_>>() {
        let (parent, key) = field.rsplit_once('/').unwrap_or_default();
        // With a parent that goes as a whole there is nothing more to say.
        if let Some(parent) = wish.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.insert(key.to_owned(), Value::Null);
        }
    }
    let known = there.body.pointer("/spec/minResources").and_then(Value::as_object);
    if let Some(wished) = wish.get_mut("minResources").and_then(Value::as_object_mut) {
        for key in known.into_iter().flat_map(|k| k.keys()) {
            wished.entry(key).or_insert(Value::Null);
        }
    }
}

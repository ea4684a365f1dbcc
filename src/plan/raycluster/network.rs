//! Network policies: there before the pods that they shield, and gone after them.

use super::children::Wish;
use super::{Part, Scene};
use crate::api::children::Kind;
use crate::api::names::labels;
use crate::plan::build::network_policies;
use crate::plan::{Object, Stage};

pub(super) fn plan(scene: &Scene<'_>) -> Part {
    let mut part = Part::default();
    let wanted = network_policies(scene.cluster, scene.config);
    let names: Vec<String> = wanted.iter().map(|policy| policy.name.clone()).collect();
    for policy in wanted {
        part.steps.extend(scene.fulfil(Wish {
            object: Object::Other(policy),
            stage: Stage::Guard,
            created: "CreatedNetworkPolicy",
            updated: "UpdatedNetworkPolicy",
            tell: true,
        }));
    }
    for policy in scene.beside(Kind::NetworkPolicy, &names) {
        let group = policy.meta.label(labels::GROUP);
        let why = if names.is_empty() {
            "the spec has no networkPolicy any more"
        } else if scene.workers().any(|pod| pod.label(labels::GROUP) == group) {
            // Pods of a removed group stay shielded until the last of them is gone.
            continue;
        } else {
            "its worker group is no longer in the spec"
        };
        part.steps.extend(scene.drop_child(policy, "DeletedNetworkPolicy", why));
    }
    part
}

//! The Secret with the token that Ray's login asks for: made once, never changed, never read.

use super::children::Wish;
use super::{Part, Scene};
use crate::plan::build::login;
use crate::plan::{Object, Stage};

pub(super) fn plan(scene: &Scene<'_>) -> Part {
    let mut part = Part::default();
    let Some(secret) = login::secret(scene.cluster) else { return part };
    let step = scene.fulfil(Wish {
        object: Object::Token(secret, login::KEY),
        stage: Stage::Guard,
        created: "CreatedAuthSecret",
        updated: "UpdatedAuthSecret",
        tell: true,
    });
    part.steps.extend(step.map(|mut step| {
        if scene.pods.iter().any(|p| p.meta.deleting.is_none()) {
            step.why.push_str(
                ", so it has a new token; pods that run keep the old one, and new workers cannot join them: delete the \
                 cluster's pods, or suspend and resume it",
            );
        }
        step
    }));
    part
}

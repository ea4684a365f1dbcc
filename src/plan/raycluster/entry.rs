//! The Ingress or Route to the dashboard: there while it is asked for, and nobody waits for it.

use super::children::Wish;
use super::{Part, Scene};
use crate::api::children::Kind;
use crate::plan::build::dashboard_entry;
use crate::plan::{Object, Stage};

pub(super) fn plan(scene: &Scene<'_>) -> Part {
    let mut part = Part::default();
    let wanted = dashboard_entry(scene.cluster, scene.config);
    for (kind, created, updated, deleted) in [
        (Kind::Ingress, "CreatedIngress", "UpdatedIngress", "DeletedIngress"),
        (Kind::Route, "CreatedRoute", "UpdatedRoute", "DeletedRoute"),
    ] {
        let wanted = wanted.iter().find(|manifest| manifest.kind == kind);
        let names: Vec<String> = wanted.iter().map(|manifest| manifest.name.clone()).collect();
        part.steps.extend(wanted.and_then(|manifest| {
            let object = Object::Other(manifest.clone());
            let wish = Wish { object, stage: Stage::Others, created, updated, tell: true };
            scene.fulfil(wish).or_else(|| scene.mark_child(manifest.clone(), updated))
        }));
        let why = "the spec no longer asks for it";
        part.steps.extend(scene.beside(kind, &names).filter_map(|there| scene.drop_child(there, deleted, why)));
    }
    part
}

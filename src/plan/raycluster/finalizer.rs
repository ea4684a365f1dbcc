//! The finalizer that keeps a deleted cluster until Redis is cleaned up: on from before its first head until there is
//! nothing to clean any more.

use serde_json::json;

use super::{Part, Scene};
use crate::api::children::Kind;
use crate::api::names::{REDIS_FINALIZER, annotations};
use crate::observe::seen::PodView;
use crate::plan::build::fault_tolerance::{Store, storage_namespace};
use crate::plan::{Action, Manifest, Object, Stage, Step};

const SCOPE: &str = "finalizer";

/// For a cluster that lives. `steps`: what else is about to be done. A cluster that never ran a head gets no finalizer.
pub(super) fn plan(scene: &Scene<'_>, steps: &[Step]) -> Part {
    let mut part = Part::default();
    match (scene.cleans_redis(), scene.has_finalizer()) {
        (true, false) if steps.iter().any(makes_head) || scene.heads().any(writes_to_redis) => {
            let why = "Redis has to be cleaned up when the cluster is deleted".to_owned();
            part.steps.push(Step { tell: false, ..scene.set_finalizer(true, "UpdatedFinalizer", Stage::Guard, why) });
        }
        (false, true) => part.steps.push(scene.let_go_of_redis()),
        _ => {}
    }
    part
}

fn makes_head(step: &Step) -> bool {
    step.stage == Stage::Head && matches!(step.action, Action::Create(Object::Pod(_)))
}

fn writes_to_redis(head: &PodView) -> bool {
    head.annotation(annotations::FT_ENABLED) == "true" && !matches!(head.phase.as_str(), "Failed" | "Succeeded")
}

impl Scene<'_> {
    /// Whether heads of this cluster leave something in Redis that we are to remove.
    pub(super) fn cleans_redis(&self) -> bool {
        self.config.redis_cleanup && Store::of(self.cluster).is_in_redis()
    }

    pub(super) fn has_finalizer(&self) -> bool {
        self.cluster.metadata.finalizers.iter().flatten().any(|f| f == REDIS_FINALIZER)
    }

    /// Adds our finalizer, or takes it off. The patch is for exactly the version that is known, so that finalizers of
    /// others, which come and go meanwhile, are never lost or brought back.
    pub(super) fn set_finalizer(&self, on: bool, reason: &'static str, stage: Stage, why: String) -> Step {
        let meta = &self.cluster.metadata;
        let mut all: Vec<&str> = meta.finalizers.iter().flatten().map(String::as_str).collect();
        all.retain(|f| *f != REDIS_FINALIZER);
        all.extend(on.then_some(REDIS_FINALIZER));
        let value = json!({
            "metadata": { "uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": all }
        });
        let (namespace, name) = (self.namespace().to_owned(), self.name().to_owned());
        let action = Action::Patch(Manifest { kind: Kind::RayCluster, namespace, name, value });
        Step { stage, reason, scope: SCOPE.to_owned(), why, tell: true, action }
    }

    /// Takes the finalizer off because nobody asks for a cleanup.
    pub(super) fn let_go_of_redis(&self) -> Step {
        let cause = if !self.config.redis_cleanup {
            "the operator's settings switch the cleanup of Redis off"
        } else if self.cleans_redis() {
            "the cluster was deleted without its pods, which live on"
        } else {
            "the spec no longer keeps Ray's state in Redis"
        };
        let why = format!("{cause}; {}", self.left_behind());
        self.set_finalizer(false, "RedisCleanupNotWanted", Stage::Others, why)
    }

    /// What a person has to do in our place.
    pub(super) fn left_behind(&self) -> String {
        let by_head = self.heads().map(|p| p.annotation(annotations::EXTERNAL_STORAGE_NAMESPACE));
        let namespace = by_head.into_iter().find(|n| !n.is_empty()).unwrap_or_else(|| storage_namespace(self.cluster));
        format!("keys of storage namespace {namespace} may be left in Redis and have to be removed by hand")
    }
}

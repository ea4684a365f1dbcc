//! The head: exactly one pod, and never two that live.

use super::standing::{Standing, given_up_at, is_waited_for, standing};
use super::{Part, Scene, pace};
use crate::api::names::{HEAD_GROUP, annotations};
use crate::observe::seen::{Place, PodView};
use crate::plan::build::{self, Identity};
use crate::plan::{Action, Object, Stage, Step};

pub(super) fn plan(scene: &Scene<'_>) -> Part {
    let mut part = Part::default();
    let mut live: Vec<&PodView> = Vec::new();
    let mut dead = Vec::new();
    let mut leaving = Vec::new();
    for pod in scene.heads() {
        match standing(pod, scene.now) {
            Standing::Live => live.push(pod),
            Standing::Dead { why, at } => dead.push((pod, why, at)),
            Standing::Leaving if is_lost(scene, pod) => {}
            Standing::Leaving => leaving.push(pod),
        }
    }
    // The oldest that is Ready stays, else the oldest: workers are connected to it.
    live.sort_by_key(|p| (!p.is_ready(), p.meta.created, p.meta.name.clone()));
    for extra in live.iter().skip(1) {
        let why = format!("a cluster has one head, and {} is it", live[0].meta.name);
        part.steps.push(scene.delete_pod(extra, "DeletedHeadPod", why));
    }
    for (pod, why, died) in &dead {
        let wait_until = pace::replaced_at(scene, pod, *died);
        if live.is_empty() && wait_until > scene.now {
            part.look_again = super::earliest(part.look_again, Some(wait_until));
            continue;
        }
        part.steps.push(scene.delete_pod(pod, "DeletedHeadPod", format!("it is dead ({why})")));
    }
    // Two heads at one address would split the cluster: the new one waits until the old one is gone.
    let place = Place { group: HEAD_GROUP.to_owned(), slot: 0, host: 0 };
    let others = scene.other_heads();
    let until = others.iter().filter_map(|p| given_up_at(p)).min();
    part.look_again = super::earliest(part.look_again, until);
    if live.is_empty() && dead.is_empty() && leaving.is_empty() && others.is_empty() && may_restart(scene) {
        let departed = scene.departed(&place);
        let (incarnation, quick_failures) = departed.map_or((0, 0), |gone| pace::after(&gone.pod, gone.at));
        let incarnation = scene.seen.attempted.get(&place).copied().unwrap_or(incarnation);
        let mut identity = Identity { slot: 0, host: 0, incarnation, quick_failures };
        let why = match departed {
            Some(gone) => format!("to replace {}, which is gone", gone.pod.meta.name),
            None => "the cluster has no head".to_owned(),
        };
        let taken = scene.taken_names();
        let mut pod = build::head_pod(scene.cluster, identity, scene.config).pod;
        while taken.contains(pod.metadata.name.as_deref().unwrap_or_default())
            && !scene.config.deterministic_head_pod_name
        {
            identity.incarnation += 1;
            pod = build::head_pod(scene.cluster, identity, scene.config).pod;
        }
        part.steps.push(Step {
            stage: Stage::Head,
            reason: "CreatedHeadPod",
            scope: HEAD_GROUP.to_owned(),
            why,
            tell: true,
            action: Action::Create(Object::Pod(Box::new(pod))),
        });
    }
    part
}

/// It hangs on a node that does not answer. Where its name has to be used again there is nothing to do but wait.
fn is_lost(scene: &Scene<'_>, pod: &PodView) -> bool {
    !is_waited_for(pod, scene.now) && !scene.config.deterministic_head_pod_name
}

/// A RayJob in sidecar mode forbids a second head once its cluster was up: the job died with the first.
fn may_restart(scene: &Scene<'_>) -> bool {
    let forbidden = scene
        .cluster
        .metadata
        .annotations
        .as_ref()
        .and_then(|a| a.get(annotations::DISABLE_HEAD_RESTART))
        .is_some_and(|v| v == "true");
    let was_up = scene
        .cluster
        .status
        .as_ref()
        .and_then(|s| s.conditions.as_ref())
        .is_some_and(|c| c.iter().any(|c| c.type_ == "RayClusterProvisioned" && c.status == "True"));
    !(forbidden && was_up)
}

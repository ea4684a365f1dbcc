//! Is what is said true? Of each status that is written, and of the one that is left as it is.

use k8s_openapi::jiff::Timestamp;
use ray_operator::api::names::labels;
use ray_operator::api::{RayCluster, RayClusterStatus};
use ray_operator::observe::seen::{Failure, FailureKind, PodView, Seen};
use ray_operator::plan::Plan;

use super::{condition, is_head, is_suspended, is_true, is_worker, of_group, property};
use crate::world::World;

pub fn check(world: &mut World, known: &RayCluster, seen: &Seen, plan: &Plan<RayClusterStatus>, failures: &[Failure]) {
    if known.metadata.deletion_timestamp.is_some() {
        return;
    }
    let mut said = known.clone();
    if let Some(status) = &plan.status {
        said.status = Some(status.clone());
        check_difference(world, known, status);
        check_numbers(world, &said, seen);
    }
    let now = world.server.now;
    let ready_pods = seen.pods.values().filter(|p| is_worker(p) && p.is_ready()).count() as i32;
    let lags = said.status.as_ref().is_none_or(|s| s.ready_worker_replicas != Some(ready_pods));
    let waits = plan.look_again.is_some_and(|at| at > now);
    world.require(!lags || waits, property::TOLD, || format!("{ready_pods} ready workers, and no time to say it"));
    let both = is_true(&said, "RayClusterSuspending") && is_true(&said, "RayClusterSuspended");
    world.require(!both, property::SUSPENSION, || "suspending and suspended".to_owned());
    let Some(ready) = condition(&said, "Ready").cloned() else {
        return world.broke(property::TOLD, "no condition Ready");
    };
    let explained = !ready.reason.is_empty() && (ready.status == "True" || !ready.message.trim().is_empty());
    world.require(explained, property::TOLD, || format!("{ready:?}"));
    if ready.status == "True" {
        let truth = is_ready(&said, seen);
        world.require(truth, property::TOLD, || format!("Ready, but it is not: {ready:?}"));
    }
    let valid = world.valid;
    let refused = ready.reason == "InvalidSpec" && ready.status == "False";
    world.require(valid || refused, property::TOLD, || format!("invalid, but {ready:?}"));
    if valid && !refused && !is_suspended(known) {
        let stands = |f: &&Failure| plan.steps.iter().any(|s| s.reason == f.step && s.scope == f.scope);
        let standing: Vec<&Failure> = failures.iter().filter(stands).collect();
        // With the reason said already, the words alone may wait.
        let told = |f: &&Failure| {
            ready.reason == reason_of(f.kind) && (plan.status.is_none() || ready.message.contains(f.what.as_str()))
        };
        let told = standing.is_empty() || (ready.status == "False" && standing.iter().any(told));
        world.require(told, property::TOLD, || format!("{standing:?} stand, but {ready:?}"));
    }
}

fn reason_of(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::Forbidden => "Forbidden",
        FailureKind::QuotaExceeded => "QuotaExceeded",
        FailureKind::AdmissionDenied => "AdmissionDenied",
        FailureKind::NoServiceAccount => "NoServiceAccount",
        FailureKind::Invalid => "InvalidSpec",
        FailureKind::NamespaceTerminating => "NamespaceTerminating",
        FailureKind::NameTaken => "NameTaken",
        FailureKind::Unavailable => "APIServerUnavailable",
    }
}

/// Whether all that is wanted is Ready, as far as it is seen.
fn is_ready(cluster: &RayCluster, seen: &Seen) -> bool {
    let enough = |pods: &mut dyn Iterator<Item = &PodView>, wanted: i32| {
        pods.filter(|p| p.is_ready()).count() as i64 >= i64::from(wanted)
    };
    let heads = seen.pods.values().map(|p| &**p).filter(|p| is_head(p));
    let groups = cluster.spec.groups().iter();
    !is_suspended(cluster)
        && enough(&mut { heads }, 1)
        && groups.into_iter().all(|g| enough(&mut of_group(seen, &g.group_name), g.wanted_replicas() * g.hosts()))
}

fn check_numbers(world: &mut World, said: &RayCluster, seen: &Seen) {
    let status = said.status.clone().unwrap_or_default();
    let current = status.observed_generation == said.metadata.generation
        && status.conditions.iter().flatten().all(|c| c.observed_generation == said.metadata.generation);
    world.require(current, property::TOLD, || format!("observedGeneration: {status:?}"));
    let count = |holds: &dyn Fn(&PodView) -> bool| seen.pods.values().filter(|p| is_worker(p) && holds(p)).count();
    let ready = count(&|p| p.is_ready()) as i32;
    world.require(status.ready_worker_replicas == Some(ready), property::TOLD, || {
        format!("{ready} are ready: {status:?}")
    });
    let head = status.head.as_ref().and_then(|h| h.pod_name.as_ref());
    let exists = head.is_none_or(|name| seen.pods.get(name).is_some_and(|p| p.label(labels::NODE_TYPE) == "head"));
    world.require(exists, property::TOLD, || format!("head {head:?}"));
    if !world.valid || condition(said, "Ready").is_some_and(|c| c.reason == "InvalidSpec") {
        return;
    }
    let clamped = |g: &ray_operator::api::raycluster::WorkerGroupSpec| {
        let (min, max) = (g.min_replicas.unwrap_or(0), g.max_replicas.unwrap_or(i32::MAX));
        let wanted = if g.suspend == Some(true) { 0 } else { g.replicas.unwrap_or(0).clamp(min, max) };
        wanted * g.num_of_hosts.unwrap_or(1)
    };
    let suspended = is_true(said, "RayClusterSuspending") || is_true(said, "RayClusterSuspended");
    let wanted = if suspended { 0 } else { said.spec.groups().iter().map(clamped).sum() };
    world.require(status.desired_worker_replicas == Some(wanted), property::TOLD, || {
        format!("{wanted} are wanted: {status:?}")
    });
}

fn check_difference(world: &mut World, known: &RayCluster, new: &RayClusterStatus) {
    let mut old = known.status.clone().unwrap_or_default();
    old.last_update_time.clone_from(&new.last_update_time);
    world.require(old != *new, property::DIFFERENCE, || "a status that differs in nothing but its time".to_owned());
    for condition in new.conditions.iter().flatten() {
        let before = old.conditions.iter().flatten().find(|c| c.type_ == condition.type_);
        let moved = |at: &Timestamp| condition.last_transition_time.0 != *at;
        let same = before.filter(|b| b.status == condition.status).is_some_and(|b| moved(&b.last_transition_time.0));
        world.require(!same, property::TOLD, || format!("a transition that was none: {condition:?}"));
    }
}

/// From Suspending the only way on is Suspended.
pub fn suspension_runs_to_its_end(world: &mut World, before: Option<&RayClusterStatus>, now: &RayCluster) {
    let begun = before
        .and_then(|s| s.conditions.as_ref())
        .is_some_and(|all| all.iter().any(|c| c.type_ == "RayClusterSuspending" && c.status == "True"));
    let goes_on = is_true(now, "RayClusterSuspending") || is_true(now, "RayClusterSuspended");
    world.require(!begun || goes_on || world.status_landed_late, property::SUSPENSION, || {
        "a suspension that began was given up".to_owned()
    });
}

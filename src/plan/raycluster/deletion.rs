//! A deleted cluster that keeps its state in Redis: pods go, the head is waited for, one Job removes the keys, and the
//! finalizer is taken off. All of it has an end: what is left behind then is said.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::ready::{self, Verdict};
use super::standing::{given_up_at, is_waited_for};
use super::suspend;
use super::{Scene, earliest, status};
use crate::api::children::Kind;
use crate::api::names::annotations;
use crate::api::raycluster::RayClusterStatus;
use crate::observe::seen::{ChildView, FailureKind, JobEnd, PodView, uncontrolled};
use crate::plan::build::fault_tolerance::storage_namespace;
use crate::plan::build::redis_cleanup;
use crate::plan::{Action, Object, Plan, Stage, Step};

/// Unless the annotation says otherwise.
const LIMIT: SignedDuration = SignedDuration::from_secs(300);
const CREATED_JOB: &str = "CreatedRedisCleanupJob";

/// Without our finalizer there is nothing to do: owner references do the rest.
pub(super) fn plan(scene: &Scene<'_>) -> Plan<RayClusterStatus> {
    let mut plan = Plan::nothing();
    let Some(asked) = scene.cluster.metadata.deletion_timestamp.as_ref().filter(|_| scene.has_finalizer()) else {
        return plan;
    };
    let limit = asked.0.saturating_add(limit(scene)).unwrap_or(asked.0 + LIMIT);
    let next = next(scene, asked.0, limit);
    let ends = next.ends;
    plan.steps = next.steps;
    let refused = ready::refused(scene, &plan.steps);
    // A cluster that is about to go says nothing any more, unless it cannot go.
    if !ends || refused.is_some() {
        let (reason, message) = refused.unwrap_or(("Deleting", next.waits_for));
        let verdict = Verdict::no(reason, message);
        let suspension = suspend::stand(scene, false);
        let written = status::compute(scene, suspension, &verdict, &plan.steps, false);
        plan.status = written.status;
        plan.look_again = written.look_again;
    }
    plan.look_again = earliest(plan.look_again, earliest(next.look_again, Some(limit).filter(|t| *t > scene.now)));
    plan
}

fn limit(scene: &Scene<'_>) -> SignedDuration {
    let said = scene.cluster.metadata.annotations.as_ref().and_then(|a| a.get(annotations::FT_DELETION_TIMEOUT));
    let seconds = said.and_then(|text| text.trim().parse::<u32>().ok()).filter(|seconds| *seconds > 0);
    seconds.map_or(LIMIT, |seconds| SignedDuration::from_secs(seconds.into()))
}

#[derive(Default)]
struct Next {
    steps: Vec<Step>,
    waits_for: String,
    look_again: Option<Timestamp>,
    /// The step takes the finalizer off.
    ends: bool,
}

impl Next {
    fn end(step: Step) -> Next {
        Next { steps: vec![step], ends: true, ..Next::default() }
    }
}

fn next(scene: &Scene<'_>, asked: Timestamp, limit: Timestamp) -> Next {
    if !scene.cleans_redis() || lives_on(scene) {
        return Next::end(scene.let_go_of_redis());
    }
    let jobs = jobs(scene);
    let job = jobs.iter().copied().find(|job| job.meta.deleting.is_none());
    if let Some(JobEnd { succeeded, message }) = jobs.iter().find_map(|job| job.ended.as_ref()) {
        return Next::end(if *succeeded {
            let why = "Redis is cleaned up".to_owned();
            Step { tell: false, ..scene.set_finalizer(false, "RedisCleanedUp", Stage::Others, why) }
        } else {
            let why = format!("The Job that cleans Redis up failed: {message}; {}", scene.left_behind());
            scene.set_finalizer(false, "RedisCleanupFailed", Stage::Others, why)
        });
    }
    if scene.now >= limit {
        let waited = limit.duration_since(asked).as_secs();
        let why = format!(
            "Redis was not cleaned up within {waited} s ({}); {}. Annotation {} sets how long this may take",
            waiting(scene, job),
            scene.left_behind(),
            annotations::FT_DELETION_TIMEOUT,
        );
        return Next::end(scene.set_finalizer(false, "ForceDeletedStuckCluster", Stage::Others, why));
    }
    let refused = scene.seen.failures.iter().find(|f| f.step == CREATED_JOB);
    if refused.is_some_and(|f| f.kind == FailureKind::NamespaceTerminating) {
        let why = format!("The namespace is being deleted, so that no Job can clean Redis up; {}", scene.left_behind());
        return Next::end(scene.set_finalizer(false, "ForceDeletedStuckCluster", Stage::Others, why));
    }
    let mut next = Next {
        waits_for: format!(
            "Redis is cleaned up before the RayCluster goes, by {} at the latest: {}",
            ready::at(limit),
            waiting(scene, job)
        ),
        ..Next::default()
    };
    for pod in scene.pods.iter().filter(|p| p.meta.deleting.is_none()) {
        let why = "the RayCluster is deleted, and Redis is cleaned up once its head is gone".to_owned();
        next.steps.push(scene.delete_pod(pod, "DeletedPod", why));
    }
    next.look_again = heads(scene).filter_map(given_up_at).min();
    let orphan = in_foreground(scene);
    let name = redis_cleanup::name(scene.cluster, orphan);
    // One that is being deleted holds the name until it is gone.
    if heads(scene).next().is_none() && job.is_none() && jobs.iter().all(|job| job.meta.name != name) {
        next.steps.push(Step {
            stage: Stage::Others,
            reason: CREATED_JOB,
            scope: name,
            why: "it removes the deleted cluster's keys from Redis".to_owned(),
            tell: true,
            action: Action::Create(Object::Other(redis_cleanup::redis_cleanup(scene.cluster, orphan, scene.config))),
        });
    }
    next
}

fn waiting(scene: &Scene<'_>, job: Option<&ChildView>) -> String {
    match (heads(scene).next(), job) {
        (Some(head), _) => format!("waiting for head pod {} to be gone", head.meta.name),
        (None, Some(job)) => format!("Job {} runs", job.meta.name),
        (None, None) => "the Job is not made yet".to_owned(),
    }
}

/// Heads that may still write to Redis. One that hangs on a lost node is given up.
fn heads<'a>(scene: &'a Scene<'_>) -> impl Iterator<Item = &'a PodView> {
    let alive = |p: &&PodView| !matches!(p.phase.as_str(), "Failed" | "Succeeded");
    let now = scene.now;
    scene.heads().filter(alive).filter(move |p| is_waited_for(p, now))
}

/// The Jobs of this deletion: one, or two when it became one in the foreground half way.
fn jobs<'a>(scene: &'a Scene<'_>) -> Vec<&'a ChildView> {
    let names = [false, true].map(|orphan| redis_cleanup::name(scene.cluster, orphan));
    names.iter().filter_map(|name| scene.seen.other(Kind::Job, name)).collect()
}

/// Deleted with `--cascade=orphan`: its head, which nobody owns any more, goes on with what it has in Redis.
fn lives_on(scene: &Scene<'_>) -> bool {
    let orphan = uncontrolled(scene.namespace(), scene.name());
    let same = |head: &&PodView| {
        head.meta.owner_uid == orphan
            && head.annotation(annotations::EXTERNAL_STORAGE_NAMESPACE) == storage_namespace(scene.cluster)
    };
    scene.cluster.metadata.finalizers.iter().flatten().any(|f| f == "orphan") || scene.other_heads().iter().any(same)
}

/// The garbage collector deletes what the cluster owns before the cluster: a Job with an owner would never run.
fn in_foreground(scene: &Scene<'_>) -> bool {
    scene.cluster.metadata.finalizers.iter().flatten().any(|f| f == "foregroundDeletion")
}

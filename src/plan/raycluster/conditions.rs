//! The conditions: KubeRay's five, and ours.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::Scene;
use super::ready::Verdict;
use super::standing::{Standing, standing};
use super::status::transition;
use super::suspend::Suspension;
use super::{accelerators, numbers, stamps, symptoms};
use crate::api::raycluster::RayClusterStatus;
use crate::observe::seen::{ContainerState, Failure};

pub(super) fn find<'a>(status: &'a RayClusterStatus, type_: &str) -> Option<&'a Condition> {
    status.conditions.iter().flatten().find(|c| c.type_ == type_)
}

impl Scene<'_> {
    pub(super) fn old_condition(&self, type_: &str) -> Option<&Condition> {
        self.cluster.status.as_ref().and_then(|s| find(s, type_))
    }

    /// Whether `Ready` was True for the spec as it is now.
    pub(super) fn was_ready(&self) -> bool {
        self.old_condition("Ready")
            .is_some_and(|c| c.status == "True" && c.observed_generation == self.cluster.metadata.generation)
    }
}

pub(super) fn all<'a>(
    scene: &Scene<'_>,
    suspension: Suspension,
    verdict: &Verdict,
    failures: impl Iterator<Item = &'a Failure>,
) -> Vec<Condition> {
    let mut list = Vec::new();
    let mut put = |type_: &str, status: &str, reason: &str, message: &str| {
        list.push(Condition {
            type_: type_.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: symptoms::clip(message, LONGEST_MESSAGE).to_owned(),
            last_transition_time: transition(scene.old_condition(type_), status, scene.now),
            observed_generation: scene.cluster.metadata.generation,
        });
    };
    if let Some((reason, failure)) = failures.filter_map(|f| Some((replica_failure(f)?, f))).next() {
        put("ReplicaFailure", "True", reason, &failure.message);
    }
    let (status, reason, message) = head_pod_ready(scene);
    put("HeadPodReady", &status, &reason, &message);
    let (status, reason, message) = provisioned(scene, suspension);
    put("RayClusterProvisioned", status, reason, message);
    let status = |yes: bool| if yes { "True" } else { "False" };
    put("RayClusterSuspended", status(suspension == Suspension::Suspended), "RayClusterSuspended", "");
    put("RayClusterSuspending", status(suspension == Suspension::Suspending), "RayClusterSuspending", "");
    match stamps::drift(scene) {
        Some(message) => put("TemplateDrift", "True", "NotApplied", &message),
        // Said until it was said once that it is over.
        None if scene.old_condition("TemplateDrift").is_some() => {
            put("TemplateDrift", "False", "UpToDate", "All pods are made from the template as it is");
        }
        None => {}
    }
    if let Some(found) = accelerators::find(scene) {
        put("AcceleratorsAvailable", &found.status, &found.reason, &found.message);
    }
    put("Ready", status(verdict.ready), verdict.reason, &verdict.message);
    // Conditions of others (a queue's, a person's) are theirs.
    let old = scene.cluster.status.iter().flat_map(|s| s.conditions.iter().flatten());
    list.extend(old.filter(|c| !OURS.contains(&c.type_.as_str())).cloned());
    list
}

/// In bytes; the API server's bound is 32 kB for each.
const LONGEST_MESSAGE: usize = 4096;

const OURS: [&str; 8] = [
    "AcceleratorsAvailable",
    "ReplicaFailure",
    "HeadPodReady",
    "RayClusterProvisioned",
    "RayClusterSuspended",
    "RayClusterSuspending",
    "TemplateDrift",
    "Ready",
];

/// KubeRay's name for a failed effect on a pod.
fn replica_failure(failure: &Failure) -> Option<&'static str> {
    match failure.step.as_str() {
        "CreatedHeadPod" => Some("FailedCreateHeadPod"),
        "DeletedHeadPod" => Some("FailedDeleteHeadPod"),
        "CreatedWorkerPod" => Some("FailedCreateWorkerPod"),
        "DeletedWorkerPod" => Some("FailedDeleteWorkerPod"),
        "DeletedPod" => Some("FailedDeleteAllPods"),
        _ => None,
    }
}

/// The head pod's own Ready condition, with the reason of the container that keeps it back.
fn head_pod_ready(scene: &Scene<'_>) -> (String, String, String) {
    let Some(head) = scene.heads().find(|p| standing(p, scene.now) == Standing::Live).or_else(|| scene.heads().next())
    else {
        return ("False".to_owned(), "HeadPodNotFound".to_owned(), "There is no head pod".to_owned());
    };
    let Some(ready) = &head.ready else {
        return ("False".to_owned(), "Unknown".to_owned(), "The head pod has not said whether it is Ready".to_owned());
    };
    if ready.status == "True" && head.is_ready() {
        return ("True".to_owned(), "HeadPodRunningAndReady".to_owned(), ready.message.clone());
    }
    let held_back = head.containers.iter().find_map(|c| match &c.state {
        ContainerState::Waiting { reason, message } => Some((c, reason, message)),
        ContainerState::Terminated(end) => Some((c, &end.reason, &end.message)),
        _ => None,
    });
    // A pod that is going away keeps its Ready condition for a while; it is no head any more.
    let status = if ready.status == "True" { "False" } else { &ready.status };
    match held_back {
        Some((container, reason, message)) if ready.reason == "ContainersNotReady" && !reason.is_empty() => {
            (status.to_owned(), reason.clone(), format!("{}; {}: {message}", ready.message, container.name))
        }
        _ => {
            let reason = if ready.reason.is_empty() { "HeadPodNotReady".to_owned() } else { ready.reason.clone() };
            (status.to_owned(), reason, ready.message.clone())
        }
    }
}

/// True from the first time that all wanted pods were Ready, until the cluster is suspended. KubeRay does not count
/// the pods, so a lone head can make it True there; ours must all be there.
fn provisioned(scene: &Scene<'_>, suspension: Suspension) -> (&'static str, &'static str, &'static str) {
    const WAITING: (&str, &str, &str) =
        ("False", "RayClusterPodsProvisioning", "Pods are being provisioned for the first time");
    if suspension == Suspension::Suspended {
        return ("False", "RayClusterPodsProvisioning", "The cluster is suspended");
    }
    let latched = scene.old_condition("RayClusterProvisioned").is_some_and(|c| c.status == "True");
    let workers = numbers::workers(scene);
    let complete = scene.heads().any(|p| p.is_ready()) && workers.ready_of_wanted == workers.wanted;
    if latched || (suspension == Suspension::No && complete) {
        ("True", "AllPodRunningAndReadyFirstTime", "All Ray pods were ready at least once")
    } else {
        WAITING
    }
}

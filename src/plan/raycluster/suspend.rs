//! Suspension: once begun it runs to its end, also when the user changes their mind half way.

use k8s_openapi::jiff::Timestamp;

use super::standing::{given_up_at, is_waited_for};
use super::{Part, Scene};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspension {
    No,
    /// Pods are on their way out.
    Suspending,
    /// No pod is left.
    Suspended,
}

impl Suspension {
    pub(super) fn wants_no_pods(self) -> bool {
        self != Suspension::No
    }
}

/// Where the cluster stands. A suspension that has begun (condition `RayClusterSuspending`) ends in `Suspended`, for
/// one status at least; from there a `suspend` that is false or left out resumes. An invalid spec begins none.
pub(super) fn stand(scene: &Scene<'_>, valid: bool) -> Suspension {
    let begun = scene.old_condition("RayClusterSuspending").is_some_and(|c| c.status == "True");
    let was = scene.old_condition("RayClusterSuspended").is_some_and(|c| c.status == "True");
    let wanted = scene.cluster.spec.suspend == Some(true);
    let empty = !scene.pods.iter().any(|p| is_waited_for(p, scene.now));
    match (begun || (wanted && (valid || was)), empty) {
        (false, _) => Suspension::No,
        (true, false) => Suspension::Suspending,
        (true, true) => Suspension::Suspended,
    }
}

/// When a pod that is leaving is waited for no longer.
pub(super) fn patience(scene: &Scene<'_>) -> Option<Timestamp> {
    scene.pods.iter().filter_map(|p| given_up_at(p)).filter(|t| *t > scene.now).min()
}

pub(super) fn remove_pods(scene: &Scene<'_>) -> Part {
    let mut part = Part::default();
    for pod in scene.pods.iter().filter(|p| p.meta.deleting.is_none()) {
        part.steps.push(scene.delete_pod(pod, "DeletedPod", "the cluster is suspended".to_owned()));
    }
    part
}

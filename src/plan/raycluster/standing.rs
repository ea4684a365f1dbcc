//! Does a pod still count? Live, dead (to be replaced), or leaving.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::observe::seen::{ContainerState, PodView};

/// A pod that is this long past its deletion deadline hangs on a lost node; nothing waits for it.
const LATE: SignedDuration = SignedDuration::from_secs(60);

/// When a pod that is being deleted is waited for no longer.
pub(super) fn given_up_at(pod: &PodView) -> Option<Timestamp> {
    pod.meta.deleting.map(|deadline| deadline + LATE)
}

/// Whether a pod counts as there: it is not being deleted, or not for too long yet.
pub(super) fn is_waited_for(pod: &PodView, now: Timestamp) -> bool {
    given_up_at(pod).is_none_or(|at| now < at)
}

/// How a pod counts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Standing {
    Live,
    /// It will never serve again by itself.
    Dead {
        why: String,
        at: Timestamp,
    },
    /// Somebody deleted it already.
    Leaving,
}

/// A pod is dead when its phase is Failed or Succeeded, whatever its restart policy (an evicted pod never restarts),
/// or when it runs but its Ray container has ended and may not restart. Anything else can still recover (KubeRay
/// behaviour).
pub(super) fn standing(pod: &PodView, now: Timestamp) -> Standing {
    if pod.meta.deleting.is_some() {
        return Standing::Leaving;
    }
    let end = pod.ray().and_then(|c| match &c.state {
        ContainerState::Terminated(end) => Some(end),
        _ => None,
    });
    let at = end
        .and_then(|e| e.finished)
        .or_else(|| pod.ready.as_ref().and_then(|c| c.since))
        .or(pod.meta.created)
        .unwrap_or(now);
    match pod.phase.as_str() {
        "Failed" | "Succeeded" => {
            let cause = match (pod.reason.as_str(), end) {
                ("", Some(end)) => format!("its Ray container ended with exit code {}", end.exit_code),
                ("", None) => "no reason given".to_owned(),
                (reason, _) if pod.message.is_empty() => reason.to_owned(),
                (reason, _) => format!("{reason}: {}", pod.message.trim()),
            };
            Standing::Dead { why: format!("phase {}, {cause}", pod.phase), at }
        }
        "Running" if pod.restart_policy == "Never" && end.is_some() => {
            let code = end.map_or(0, |e| e.exit_code);
            Standing::Dead {
                why: format!("its Ray container ended with exit code {code} and restartPolicy is Never"),
                at,
            }
        }
        _ => Standing::Live,
    }
}

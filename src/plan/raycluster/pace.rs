//! How soon a dead pod is replaced: at once the first time, then with a delay that grows while its successors keep
//! dying soon after they started.

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::Scene;
use super::standing::{Standing, standing};
use crate::api::names::{annotations, labels};
use crate::observe::seen::PodView;
use crate::plan::build::{autoscaler, command};

/// A pod that lived this long was healthy once: its end starts the count anew.
const HEALTHY: SignedDuration = SignedDuration::from_mins(10);
const FIRST_DELAY_SECONDS: i64 = 10;
const LONGEST_DELAY_SECONDS: i64 = 300;
/// Ray's autoscaler v2 ends an idle worker's Ray first and names the pod some seconds later. Were it replaced before, the
/// autoscaler would find nobody to name, and the group would never shrink.
const TURN_OF_THE_AUTOSCALER: SignedDuration = SignedDuration::from_secs(30);

/// Failures in a row soon after start, counting this pod's.
pub(super) fn quick_failures(pod: &PodView, died: Timestamp) -> u32 {
    match pod.meta.created {
        Some(created) if died.duration_since(created) >= HEALTHY => 0,
        _ => carried(pod).saturating_add(1),
    }
}

/// Failures in a row before this pod.
pub(super) fn carried(pod: &PodView) -> u32 {
    pod.annotation(annotations::QUICK_FAILURES).parse().unwrap_or(0)
}

/// What the successor of a pod that leaves or is gone carries on: its incarnation, and the failures in a row if it died.
pub(super) fn after(gone: &PodView, at: Timestamp) -> (u32, u32) {
    let mut last_seen = gone.clone();
    last_seen.meta.deleting = None;
    let quick = match standing(&last_seen, at) {
        Standing::Dead { at, .. } => quick_failures(gone, at),
        Standing::Live | Standing::Leaving => 0,
    };
    (incarnation(gone) + 1, quick)
}

/// How many pods stood in this pod's place before it.
pub(super) fn incarnation(pod: &PodView) -> u32 {
    pod.annotation(annotations::INCARNATION).parse().unwrap_or(0)
}

/// How long a place whose pod died stays as it is: nothing after the first quick failure, then 10 s doubling to 5 min.
pub(super) fn delay(quick_failures: u32) -> SignedDuration {
    match quick_failures {
        0 | 1 => SignedDuration::ZERO,
        n => {
            let doubled = FIRST_DELAY_SECONDS << (n - 2).min(10);
            SignedDuration::from_secs(doubled.min(LONGEST_DELAY_SECONDS))
        }
    }
}

/// When a dead pod may be replaced.
pub(super) fn replaced_at(scene: &Scene<'_>, pod: &PodView, died: Timestamp) -> Timestamp {
    let autoscaled = autoscaler::is_on(scene.cluster) && command::autoscaler_version(scene.cluster) != Some("v1");
    let turn = match autoscaled && pod.label(labels::NODE_TYPE) == "worker" {
        true => TURN_OF_THE_AUTOSCALER,
        false => SignedDuration::ZERO,
    };
    died + delay(quick_failures(pod, died)).max(turn)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_starts_at_nothing_and_is_bounded() {
        let seconds: Vec<i64> = (0..9).map(|n| delay(n).as_secs()).collect();
        assert_eq!(seconds, [0, 0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(delay(u32::MAX).as_secs(), 300);
    }
}

//! Worker counts for the status, in pods.

use super::Scene;
use crate::api::names::labels;

/// Worker pods: wanted by the spec, and there.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Workers {
    /// Replicas within their bounds, times hosts, over all groups.
    pub wanted: i32,
    pub min: i32,
    pub max: i32,
    /// Running.
    pub available: i32,
    pub ready: i32,
    /// Ready, counted no higher than each group wants.
    pub ready_of_wanted: i32,
    /// Live pods that no group wants.
    pub surplus: i32,
}

pub(super) fn workers(scene: &Scene<'_>) -> Workers {
    let mut sum = Workers::default();
    for group in scene.cluster.spec.groups() {
        if group.suspend == Some(true) {
            continue;
        }
        let hosts = group.hosts();
        let wanted = group.wanted_replicas().saturating_mul(hosts);
        sum.wanted = sum.wanted.saturating_add(wanted);
        sum.min = sum.min.saturating_add(group.min_replicas.unwrap_or(0).max(0).saturating_mul(hosts));
        sum.max = sum.max.saturating_add(group.max_replicas.unwrap_or(i32::MAX).max(0).saturating_mul(hosts));
        let of_group = scene.workers().filter(|p| p.label(labels::GROUP) == group.group_name);
        let ready = of_group.filter(|p| p.is_ready()).count() as i32;
        sum.ready_of_wanted = sum.ready_of_wanted.saturating_add(ready.min(wanted));
    }
    sum.available = scene.workers().filter(|p| p.is_running()).count() as i32;
    sum.ready = scene.workers().filter(|p| p.is_ready()).count() as i32;
    let live = scene.workers().filter(|p| p.meta.deleting.is_none()).count() as i32;
    sum.surplus = live.saturating_sub(sum.wanted).max(0);
    sum
}

//! What must hold: of each decision, of what is said, and at rest.

pub mod decisions;
pub mod rest;
pub mod words;

use ray_operator::api::RayCluster;
use ray_operator::api::names::labels;
use ray_operator::observe::seen::{PodView, Seen};

/// Names of the properties, as a finding tells them.
pub mod property {
    pub const TWO_HEADS: &str = "never two live heads";
    pub const ABOVE_MAX: &str = "never above the maximum, never two in one place";
    pub const FOREIGN: &str = "nothing of others is touched";
    pub const UID: &str = "each delete names a uid";
    pub const CAUSE: &str = "each deletion has a cause, and says it";
    pub const VICTIMS: &str = "with the autoscaler on only its victims and dead pods go";
    pub const WHOLE: &str = "hosts of one replica live and go together";
    pub const IDLE: &str = "no pod is made or removed when none is to be";
    pub const REPEATED: &str = "what was answered is not done again";
    pub const TOLD: &str = "what is said is true, and has a reason";
    pub const SUSPENSION: &str = "a suspension that began ends in Suspended";
    pub const DIFFERENCE: &str = "no write without a difference";
    pub const SETTLES: &str = "it settles";
    pub const WANTED: &str = "at rest there is what is wanted";
    pub const QUIET: &str = "at rest nothing is written";
}

pub fn is_head(pod: &PodView) -> bool {
    pod.label(labels::NODE_TYPE) == "head"
}

pub fn is_worker(pod: &PodView) -> bool {
    pod.label(labels::NODE_TYPE) == "worker"
}

fn of_group<'a>(seen: &'a Seen, group: &'a str) -> impl Iterator<Item = &'a PodView> + Clone {
    seen.pods.values().map(|p| &**p).filter(move |p| is_worker(p) && p.label(labels::GROUP) == group)
}

fn condition<'a>(
    cluster: &'a RayCluster,
    type_: &str,
) -> Option<&'a k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition> {
    cluster.status.as_ref()?.conditions.as_ref()?.iter().find(|c| c.type_ == type_)
}

pub fn is_true(cluster: &RayCluster, type_: &str) -> bool {
    condition(cluster, type_).is_some_and(|c| c.status == "True")
}

/// Whether the cluster is being suspended or is suspended, by spec and status as the operator knows them.
fn is_suspended(cluster: &RayCluster) -> bool {
    cluster.spec.suspend == Some(true) || is_true(cluster, "RayClusterSuspending")
}

pub fn autoscales(cluster: &RayCluster) -> bool {
    cluster.spec.enable_in_tree_autoscaling == Some(true)
}

//! The PodGroup that tells a batch scheduler how many pods must start together, and what they need.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::child::{child, child_labels};
use super::creator;
use super::scheduling::{self, VOLCANO_QUEUE, label};
use crate::api::RayCluster;
use crate::api::children::Kind;
use crate::api::names::labels;
use crate::plan::Manifest;
use crate::plan::config::{BatchScheduler, PlanConfig};
use crate::plan::resources::{Gang, gang};

/// Labels of a RayCluster that say something of its PodGroup, and the field that each becomes. The PodGroup bears those that
/// it was made from, so that it can be told later what Volcano put there by itself.
pub(crate) const VOLCANO_FIELDS: [(&str, &str); 4] = [
    (VOLCANO_QUEUE, "/queue"),
    (labels::PRIORITY_CLASS, "/priorityClassName"),
    (TOPOLOGY_MODE, "/networkTopology"),
    (TOPOLOGY_TIER, "/networkTopology/highestTierAllowed"),
];
const TOPOLOGY_MODE: &str = "volcano.sh/network-topology-mode";
pub(crate) const TOPOLOGY_TIER: &str = "volcano.sh/network-topology-highest-tier-allowed";
/// kubectl's own note on what was applied to the RayCluster; on a PodGroup it would be a lie.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The kind of PodGroup that a scheduler reads, if it reads one.
pub fn pod_group_kind(scheduler: BatchScheduler) -> Option<Kind> {
    match scheduler {
        BatchScheduler::Volcano => Some(Kind::VolcanoPodGroup),
        BatchScheduler::SchedulerPlugins => Some(Kind::PluginsPodGroup),
        BatchScheduler::YuniKorn | BatchScheduler::Kai => None,
    }
}

/// `None` where the cluster needs none, or has that of its RayJob.
pub fn pod_group(cluster: &RayCluster, config: &PlanConfig) -> Option<Manifest> {
    match config.batch_scheduler? {
        BatchScheduler::Volcano if creator(cluster) != "RayJob" => Some(volcano(cluster, config)),
        BatchScheduler::SchedulerPlugins if scheduling::wants_gang(cluster) => Some(plugins(cluster, config)),
        _ => None,
    }
}

fn volcano(cluster: &RayCluster, config: &PlanConfig) -> Manifest {
    let mut spec = members(cluster, config);
    if let Some(queue) = label(cluster, VOLCANO_QUEUE) {
        spec["queue"] = json!(queue);
    }
    if let Some(class) = label(cluster, labels::PRIORITY_CLASS) {
        spec["priorityClassName"] = json!(class);
    }
    if let Some(mode) = label(cluster, TOPOLOGY_MODE) {
        spec["networkTopology"] = json!({"mode": mode});
        if let Some(tier) = label(cluster, TOPOLOGY_TIER).and_then(|t| t.parse::<i64>().ok()) {
            spec["networkTopology"]["highestTierAllowed"] = json!(tier);
        }
    }
    // Volcano reads annotations of its own, such as its preemption rules.
    let mut copied = cluster.metadata.annotations.clone().unwrap_or_default();
    copied.remove(LAST_APPLIED);
    let name = scheduling::volcano_group(cluster);
    let said = VOLCANO_FIELDS.iter().filter_map(|(key, _)| Some(((*key).to_owned(), label(cluster, key)?.to_owned())));
    let labels = child_labels(cluster).into_iter().chain(said).collect();
    child(cluster, Kind::VolcanoPodGroup, name, labels, copied, json!({"spec": spec}))
}

fn plugins(cluster: &RayCluster, config: &PlanConfig) -> Manifest {
    let name = cluster.metadata.name.clone().unwrap_or_default();
    let body = json!({"spec": members(cluster, config)});
    child(cluster, Kind::PluginsPodGroup, name, child_labels(cluster), BTreeMap::new(), body)
}

fn members(cluster: &RayCluster, config: &PlanConfig) -> Value {
    let Gang { members, resources } = gang(cluster, config);
    json!({"minMember": members, "minResources": resources})
}

//! How many of which pods a worker group wants: whom to remove, whom to replace, which places to fill.
//!
//! A group has replicas; a replica stands in a slot and has one pod per host. How the pods are made is `build`'s.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use super::standing::{Standing, standing};
use super::{Part, Scene, pace};
use crate::api::names::labels;
use crate::api::raycluster::WorkerGroupSpec;
use crate::observe::seen::{Place, PodView};
use crate::plan::build::{self, Identity};
use crate::plan::{Action, Object, Stage, Step};

/// New replicas that one plan makes at most, and hosts of each: the rest follow in the next, so that a typo in `replicas`
/// costs no memory.
const REPLICAS_PER_PLAN: usize = 100;
const HOSTS_PER_PLAN: u32 = 1000;

/// A pod that still takes up its place.
struct Member<'a> {
    pod: &'a PodView,
    /// Why and when it died, if it did.
    dead: Option<(String, Timestamp)>,
}

type Slots<'a> = BTreeMap<u32, BTreeMap<u32, Member<'a>>>;

pub(super) fn plan(scene: &Scene<'_>, group: &WorkerGroupSpec) -> Part {
    let mut part = Part::default();
    let hosts = group.hosts() as u32;
    let wanted = group.wanted_replicas() as usize;
    let named: BTreeSet<&str> =
        group.scale_strategy.iter().flat_map(|s| s.workers_to_delete.iter().flatten()).map(String::as_str).collect();

    let mut members = Vec::new();
    let mut leaving: BTreeMap<Place, &PodView> = BTreeMap::new();
    for pod in scene.workers().filter(|p| p.label(labels::GROUP) == group.group_name) {
        let dead = match standing(pod, scene.now) {
            Standing::Leaving => {
                if let Some(place) = pod.place() {
                    leaving.insert(place, pod);
                }
                continue;
            }
            Standing::Live => None,
            Standing::Dead { why, at } => Some((why, at)),
        };
        members.push(Member { pod, dead });
    }
    let mut slots = seat(members, hosts);

    // A replica goes as a whole: a host of it without the others would only be filled up again.
    let chosen: Vec<u32> = slots
        .iter()
        .filter(|(_, s)| s.values().any(|m| named.contains(m.pod.meta.name.as_str())))
        .map(|(n, _)| *n)
        .collect();
    for slot in chosen {
        for member in slots.remove(&slot).into_iter().flat_map(BTreeMap::into_values) {
            let why = "Ray's autoscaler chose it (scaleStrategy.workersToDelete)".to_owned();
            part.steps.push(scene.delete_pod(member.pod, "DeletedWorkerPod", why));
        }
    }

    let there = slots.len();
    for slot in surplus(&slots, wanted, autoscaler_decides(scene)) {
        for member in slots.remove(&slot).into_iter().flat_map(BTreeMap::into_values) {
            let why = format!(
                "group {} wants {wanted} of its {} replicas{}",
                group.group_name,
                there,
                member.dead.map(|(why, _)| format!("; it was dead ({why})")).unwrap_or_default()
            );
            part.steps.push(scene.delete_pod(member.pod, "DeletedWorkerPod", why));
        }
    }

    let before = slots.len();
    let mut free = (0..)
        .filter(|slot| !slots.contains_key(slot))
        .take(wanted.saturating_sub(before).min(REPLICAS_PER_PLAN))
        .collect::<Vec<u32>>();
    free.extend(slots.keys());
    free.sort_unstable();
    let mut taken = scene.taken_names();
    for slot in free {
        for host in 0..hosts.min(HOSTS_PER_PLAN) {
            let place = Place { group: group.group_name.clone(), slot, host };
            let member = slots.get(&slot).and_then(|hosts| hosts.get(&host));
            let mut identity = Identity { slot, host, incarnation: 0, quick_failures: 0 };
            let mut told = true;
            let why = match member {
                Some(Member { dead: None, .. }) => continue,
                Some(Member { pod, dead: Some((why, died)) }) => {
                    let quick = pace::quick_failures(pod, *died);
                    let wait_until = *died + pace::delay(quick);
                    if wait_until > scene.now {
                        part.look_again = super::earliest(part.look_again, Some(wait_until));
                        continue;
                    }
                    part.steps.push(scene.delete_pod(
                        pod,
                        "DeletedWorkerPod",
                        format!("it was dead ({why}); a new pod takes its place"),
                    ));
                    identity.incarnation = pace::incarnation(pod) + 1;
                    identity.quick_failures = quick;
                    told = false;
                    format!("to replace {}, which was dead", pod.meta.name)
                }
                None => match (leaving.get(&place), scene.departed(&place)) {
                    (Some(pod), _) => {
                        (identity.incarnation, identity.quick_failures) = pace::after(pod, scene.now);
                        format!("to replace {}, which is being deleted", pod.meta.name)
                    }
                    (None, Some(gone)) => {
                        (identity.incarnation, identity.quick_failures) = pace::after(&gone.pod, gone.at);
                        format!(
                            "group {} wants {wanted} replicas and had {before}; {} stood there before",
                            group.group_name, gone.pod.meta.name
                        )
                    }
                    (None, None) => format!("group {} wants {wanted} replicas and had {before}", group.group_name),
                },
            };
            if let Some(attempted) = scene.seen.attempted.get(&place) {
                identity.incarnation = *attempted;
            }
            let pod = loop {
                let pod = build::worker_pod(scene.cluster, group, identity, scene.config).pod;
                if taken.insert(pod.metadata.name.clone().unwrap_or_default()) {
                    break pod;
                }
                identity.incarnation += 1;
            };
            part.steps.push(Step {
                stage: Stage::Workers,
                reason: "CreatedWorkerPod",
                scope: group.group_name.clone(),
                why,
                tell: told,
                action: Action::Create(Object::Pod(Box::new(pod))),
            });
        }
    }
    part
}

/// Pods of groups that the spec no longer has.
pub(super) fn removed(scene: &Scene<'_>) -> Part {
    let groups: BTreeSet<&str> = scene.cluster.spec.groups().iter().map(|g| g.group_name.as_str()).collect();
    let mut part = Part::default();
    for pod in scene.workers().filter(|p| p.meta.deleting.is_none() && !groups.contains(p.label(labels::GROUP))) {
        let why = format!("group {} is no longer in the spec", pod.label(labels::GROUP));
        part.steps.push(scene.delete_pod(pod, "DeletedWorkerPod", why));
    }
    part
}

/// With Ray's autoscaler on, only it chooses which live worker goes (KubeRay behaviour).
fn autoscaler_decides(scene: &Scene<'_>) -> bool {
    scene.cluster.spec.enable_in_tree_autoscaling == Some(true)
}

/// Gives every pod a place: the one on its labels, or the lowest free one when it has none (made by an older
/// KubeRay), an impossible one, or one that an older pod holds.
fn seat(members: Vec<Member<'_>>, hosts: u32) -> Slots<'_> {
    let mut slots: Slots<'_> = BTreeMap::new();
    let mut homeless = Vec::new();
    for member in members {
        match member.pod.place() {
            Some(place)
                if place.host < hosts && !slots.get(&place.slot).is_some_and(|s| s.contains_key(&place.host)) =>
            {
                slots.entry(place.slot).or_default().insert(place.host, member);
            }
            _ => homeless.push(member),
        }
    }
    for member in homeless {
        let free = (0..)
            .flat_map(|slot| (0..hosts).map(move |host| (slot, host)))
            .find(|(slot, host)| !slots.get(slot).is_some_and(|s| s.contains_key(host)));
        if let Some((slot, host)) = free {
            slots.entry(slot).or_default().insert(host, member);
        }
    }
    slots
}

/// The slots to give up, least harm first: dead, unscheduled, not running, not Ready, newest, highest.
fn surplus(slots: &Slots<'_>, wanted: usize, only_dead: bool) -> Vec<u32> {
    let mut ranked: Vec<u32> = slots.keys().copied().collect();
    let harm = |slot: &u32| {
        let members = &slots[slot];
        let worst = members
            .values()
            .map(|m| match m {
                Member { dead: Some(_), .. } => 0,
                Member { pod, .. } if pod.node.is_none() => 1,
                Member { pod, .. } if !pod.is_running() => 2,
                Member { pod, .. } if !pod.is_ready() => 3,
                _ => 4,
            })
            .min()
            .unwrap_or(0);
        (worst, Reverse(members.values().filter_map(|m| m.pod.meta.created).max()), Reverse(*slot))
    };
    ranked.sort_by_key(harm);
    if only_dead {
        ranked.retain(|slot| slots[slot].values().any(|m| m.dead.is_some()));
    }
    ranked.truncate(slots.len().saturating_sub(wanted));
    ranked
}

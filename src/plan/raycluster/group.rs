//! How many of which pods a worker group wants: whom to remove, whom to replace, which places to fill.
//!
//! A group has replicas; a replica stands in a slot and has one pod per host. How the pods are made is `build`'s.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use super::replica::{Member, Replica, Slots};
use super::standing::{Standing, standing};
use super::{Part, Scene, pace};
use crate::api::names::labels;
use crate::api::raycluster::WorkerGroupSpec;
use crate::observe::seen::{Place, PodView};

/// New replicas that one plan makes at most, and hosts of each: the rest follow in the next, so that a typo in `replicas`
/// costs no memory.
const REPLICAS_PER_PLAN: usize = 100;
const HOSTS_PER_PLAN: u32 = 1000;

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
    let (mut slots, doubles) = seat(members, hosts);
    for double in doubles {
        part.steps.push(scene.delete_pod(double, "DeletedWorkerPod", "another pod has its place".to_owned()));
    }

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
    let mut taken = scene.taken_names();
    // Victims stay on the list for a while after they are gone; a new pod must not bear the name of one.
    taken.extend(named.iter().map(|name| (*name).to_owned()));
    let replica = |slot, before| Replica {
        scene,
        group,
        slot,
        hosts: hosts.min(HOSTS_PER_PLAN),
        wanted,
        before,
        leaving: &leaving,
    };
    let broken: BTreeSet<u32> = slots
        .iter()
        .filter(|(slot, seats)| replica(**slot, there).is_broken(seats, &taken))
        .map(|(slot, _)| *slot)
        .collect();
    for slot in surplus(&slots, wanted, autoscaler_decides(scene), &broken) {
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
    for slot in free {
        part.add(replica(slot, before).plan(slots.get(&slot), &mut taken));
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

/// Gives every pod a place: the one on its labels, or the lowest free one when it has none (made by an older KubeRay).
/// Of two in one place the later incarnation, else the older pod, has it; the second list holds the others. With one
/// host to a replica they can stand elsewhere instead.
fn seat(members: Vec<Member<'_>>, hosts: u32) -> (Slots<'_>, Vec<&PodView>) {
    let mut slots: Slots<'_> = BTreeMap::new();
    let (mut homeless, mut doubles) = (Vec::new(), Vec::new());
    for member in members {
        let Some(place) = member.pod.place() else {
            homeless.push(member);
            continue;
        };
        match slots.entry(place.slot).or_default().entry(place.host) {
            Entry::Vacant(free) => _ = free.insert(member),
            Entry::Occupied(_) if hosts == 1 => homeless.push(member),
            Entry::Occupied(mut taken) => {
                let later = pace::incarnation(member.pod) > pace::incarnation(taken.get().pod);
                let double = if later { taken.insert(member) } else { member };
                doubles.push(double.pod);
            }
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
    (slots, doubles)
}

/// The slots to give up, least harm first: broken (they would have to be replaced), unscheduled, not running, not Ready,
/// newest, highest.
fn surplus(slots: &Slots<'_>, wanted: usize, only_broken: bool, broken: &BTreeSet<u32>) -> Vec<u32> {
    let mut ranked: Vec<u32> = slots.keys().copied().collect();
    let harm = |slot: &u32| {
        let members = &slots[slot];
        let worst = members
            .values()
            .map(|m| match m {
                _ if broken.contains(slot) => 0,
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
    if only_broken {
        ranked.retain(|slot| broken.contains(slot));
    }
    ranked.truncate(slots.len().saturating_sub(wanted));
    ranked
}

//! Is each step of a plan justified by what was known? Answered from the spec, the view and the pods' histories, without
//! the planner's own reasoning.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;
use ray_operator::api::children::Kind;
use ray_operator::api::names::{REDIS_FINALIZER, labels};
use ray_operator::api::raycluster::WorkerGroupSpec;
use ray_operator::api::{RayCluster, RayClusterStatus};
use ray_operator::observe::seen::{PodView, Seen};
use ray_operator::plan::{Action, Object, Plan, Step, Target};

use super::{autoscales, is_head, is_suspended, is_true, is_worker, of_group, property};
use crate::pods::{incarnation, is_dead};
use crate::server::era;
use crate::world::World;

pub fn check(world: &mut World, known: &RayCluster, seen: &Seen, plan: &Plan<RayClusterStatus>) {
    for step in &plan.steps {
        world.require(!step.why.trim().is_empty(), property::CAUSE, || format!("no reason: {step:?}"));
        match &step.action {
            Action::Delete(target) => check_delete(world, known, seen, plan, step, target),
            Action::Create(Object::Pod(pod)) => check_create(world, known, seen, plan, pod),
            Action::Create(_) | Action::Patch(_) => {}
        }
    }
    for group in known.spec.groups() {
        check_numbers(world, known, seen, plan, group);
    }
}

fn check_delete(
    world: &mut World,
    known: &RayCluster,
    seen: &Seen,
    plan: &Plan<RayClusterStatus>,
    step: &Step,
    target: &Target,
) {
    world.require(!target.uid.is_empty(), property::UID, || format!("delete {}", target.name));
    let repeated = world.operator.deleted.contains(&target.uid);
    world.require(!repeated, property::REPEATED, || format!("delete {} again", target.name));
    if target.kind != Kind::Pod {
        let owned = match target.kind {
            Kind::Service => seen.services.get(&target.name).map(|s| s.meta.uid.clone()),
            kind => seen.other(kind, &target.name).map(|o| o.meta.uid.clone()),
        };
        world.require(owned.as_deref() == Some(&target.uid), property::FOREIGN, || format!("delete {}", target.name));
        return;
    }
    let twice = plan.steps.iter().filter(|s| matches!(&s.action, Action::Delete(t) if t.uid == target.uid)).count() > 1;
    world.require(!twice, property::REPEATED, || format!("delete {} twice in one plan", target.name));
    let Some(pod) = seen.pods.get(&target.name).filter(|p| p.meta.uid == target.uid) else {
        return world.broke(property::FOREIGN, format!("delete {}, which is not ours", target.name));
    };
    let idle = match known.metadata.deletion_timestamp {
        Some(_) => !holds(known),
        None => !world.valid,
    };
    world.require(!idle, property::IDLE, || format!("delete {}", target.name));
    let causes = causes(world, known, seen, plan, pod);
    if !causes.iter().any(|cause| step.why.contains(cause)) {
        let named = autoscales(known) && is_worker(pod) && causes.is_empty();
        let property = if named { property::VICTIMS } else { property::CAUSE };
        world.broke(property, format!("delete {} ({}); causes: {causes:?}", target.name, step.why));
    }
}

/// Whether our finalizer keeps the cluster that is being deleted.
fn holds(known: &RayCluster) -> bool {
    known.metadata.finalizers.iter().flatten().any(|f| f == REDIS_FINALIZER)
}

/// Words for all that may have made a plan delete this pod.
fn causes(
    world: &World,
    known: &RayCluster,
    seen: &Seen,
    plan: &Plan<RayClusterStatus>,
    pod: &PodView,
) -> Vec<&'static str> {
    let life = |p: &PodView| world.server.lives.get(&p.meta.uid).cloned().unwrap_or_default();
    let mut causes = Vec::new();
    let mut add = |holds: bool, word: &'static str| causes.extend(holds.then_some(word));
    let recreates = known.spec.upgrade_strategy.as_ref().and_then(|u| u.type_.as_deref()) == Some("Recreate");
    let outdated = seen.pods.values().any(|p| life(p).era != era(known));
    if known.metadata.deletion_timestamp.is_some() {
        add(true, "the RayCluster is deleted");
        return causes;
    }
    add(is_suspended(known), "suspended");
    let stuck = pod.phase == "Pending" && pod.unscheduled.is_some() && life(pod).era != era(known);
    add(stuck, "could not start");
    add(recreates && outdated, "upgradeStrategy");
    add(life(pod).was_dead, "dead");
    if is_head(pod) {
        let other = |p: &PodView| is_head(p) && p.meta.uid != pod.meta.uid && p.meta.deleting.is_none() && !is_dead(p);
        add(seen.pods.values().any(|p| other(p)), "one head");
        return causes;
    }
    let name = pod.label(labels::GROUP);
    let Some(group) = known.spec.groups().iter().find(|g| g.group_name == name) else {
        add(true, "no longer in the spec");
        return causes;
    };
    let replica = replica(seen, pod, group.hosts());
    add(replica.iter().any(|p| named(group).contains(p.meta.name.as_str())), "autoscaler");
    add(replica.iter().any(|p| p.meta.uid != pod.meta.uid && p.place() == pod.place()), "place");
    add(is_torn(world, group, &replica), "together");
    let room = !autoscales(known) || is_torn(world, group, &replica);
    add(room && surplus(seen, group) > 0 && !remade(plan, pod), "wants");
    causes
}

/// The pods of a pod's replica that are not on their way out, with itself.
fn replica<'a>(seen: &'a Seen, pod: &'a PodView, hosts: i32) -> Vec<&'a PodView> {
    let slot = pod.place().map(|p| p.slot);
    let all = of_group(seen, pod.label(labels::GROUP)).filter(|p| p.meta.deleting.is_none());
    // Pods of KubeRay's that have no number may share replicas with any other, once these have several hosts.
    if hosts > 1 && all.clone().any(|p| p.place().is_none()) {
        return all.collect();
    }
    all.filter(|p| p.meta.uid == pod.meta.uid || (slot.is_some() && p.place().map(|p| p.slot) == slot)).collect()
}

fn named(group: &WorkerGroupSpec) -> BTreeSet<&str> {
    let lists = group.scale_strategy.iter().flat_map(|s| s.workers_to_delete.iter().flatten());
    lists.map(String::as_str).collect()
}

/// Whether a replica has lost a host, or is made of hosts that do not belong together.
fn is_torn(world: &World, group: &WorkerGroupSpec, replica: &[&PodView]) -> bool {
    let hosts = group.hosts() as u32;
    let there: BTreeSet<u32> = replica.iter().filter_map(|p| p.place()).map(|p| p.host).collect();
    let missing = (0..hosts).any(|host| !there.contains(&host));
    let lost = |p: &PodView| {
        let place = p.place().unwrap_or_default();
        world.server.torn.contains(&(place.group, place.slot, incarnation(p)))
    };
    replica.iter().any(|p| world.server.lives.get(&p.meta.uid).is_some_and(|l| l.was_dead))
        || there.iter().any(|host| *host >= hosts)
        || (hosts > 1 && replica.iter().any(|p| p.place().is_none()))
        || replica.iter().map(|p| incarnation(p)).collect::<BTreeSet<_>>().len() > 1
        || (missing && replica.iter().any(|p| p.is_ready() || lost(p)))
}

/// Replicas of a group that stay when those named are gone; a pod without a place is one of its own.
fn slots(seen: &Seen, group: &WorkerGroupSpec) -> BTreeMap<String, Vec<String>> {
    let mut slots: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let named = named(group);
    let mut places = BTreeSet::new();
    for pod in of_group(seen, &group.group_name).filter(|p| p.meta.deleting.is_none()) {
        let place = pod.place().filter(|place| group.hosts() > 1 || places.insert(place.clone()));
        let key = place.map_or_else(|| pod.meta.name.clone(), |place| format!("slot {}", place.slot));
        slots.entry(key).or_default().push(pod.meta.name.clone());
    }
    slots.retain(|_, pods| !pods.iter().any(|p| named.contains(p.as_str())));
    slots
}

fn surplus(seen: &Seen, group: &WorkerGroupSpec) -> usize {
    slots(seen, group).len().saturating_sub(group.wanted_replicas() as usize)
}

/// Whether the plan makes a pod in the same place.
fn remade(plan: &Plan<RayClusterStatus>, pod: &PodView) -> bool {
    let place = pod.place();
    place.is_some() && plan.steps.iter().any(|s| s.action.place().map(|(place, _)| place) == place)
}

/// How many replicas of a group go for good, and how many come.
fn check_numbers(
    world: &mut World,
    known: &RayCluster,
    seen: &Seen,
    plan: &Plan<RayClusterStatus>,
    group: &WorkerGroupSpec,
) {
    // Pods of KubeRay's that have no number stand together as they come, once a replica has several hosts.
    if group.hosts() > 1 && of_group(seen, &group.group_name).any(|p| p.place().is_none()) {
        return;
    }
    let deleted: BTreeSet<&str> = plan
        .steps
        .iter()
        .filter(|s| matches!(s.action, Action::Delete(_)) && s.reason == "DeletedWorkerPod")
        .map(|s| s.action.name())
        .collect();
    let stuck: BTreeSet<&str> =
        plan.steps.iter().filter(|s| s.why.contains("could not start")).map(|s| s.action.name()).collect();
    let slots = slots(seen, group);
    let mut places: BTreeSet<String> = slots.keys().cloned().collect();
    let mut given_up = 0;
    for (key, pods) in &slots {
        let healthy = |name: &String| {
            let pod = &seen.pods[name];
            !stuck.contains(name.as_str())
                && !is_dead(pod)
                && !is_torn(world, group, &replica(seen, pod, group.hosts()))
        };
        let gone = pods.iter().filter(|name| deleted.contains(name.as_str())).count();
        let comes_back = pods.iter().any(|name| remade(plan, &seen.pods[name]));
        if gone > 0 && !comes_back {
            places.remove(key);
            given_up += usize::from(pods.iter().all(healthy));
        }
        // Partners of a pod that could not start follow in the next pass.
        let follows = pods.iter().any(|name| stuck.contains(name.as_str()));
        let partly = group.hosts() > 1 && gone > 0 && gone < pods.len() && !follows;
        let double = pods.iter().filter_map(|p| seen.pods[p].place()).collect::<BTreeSet<_>>().len() < pods.len();
        world.require(!partly || double, property::WHOLE, || format!("{gone} of {pods:?} go"));
    }
    if given_up > surplus(seen, group) {
        let property = if autoscales(known) { property::VICTIMS } else { property::CAUSE };
        world.broke(property, format!("{given_up} healthy replicas of {} go", group.group_name));
    }
    let made = plan.steps.iter().filter_map(|s| s.action.place()).filter(|(p, _)| p.group == group.group_name);
    let before = places.len();
    places.extend(made.map(|(place, _)| format!("slot {}", place.slot)));
    let most = before.max(group.wanted_replicas() as usize);
    world.require(places.len() <= most, property::ABOVE_MAX, || {
        format!("group {} wants {} replicas and gets {}", group.group_name, group.wanted_replicas(), places.len())
    });
}

fn check_create(world: &mut World, known: &RayCluster, seen: &Seen, plan: &Plan<RayClusterStatus>, pod: &Pod) {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let idle = known.metadata.deletion_timestamp.is_some()
        || is_suspended(known)
        || (is_true(known, "RayClusterSuspended") && known.spec.suspend == Some(true))
        || !world.valid;
    world.require(!idle, property::IDLE, || format!("create {name}"));
    let repeated = world.operator.created.contains_key(&name);
    world.require(!repeated, property::REPEATED, || format!("create {name} again"));
    let Some((place, new)) = Action::Create(Object::Pod(Box::new(pod.clone()))).place() else {
        return world.broke(property::WHOLE, format!("{name} has no place"));
    };
    let Some(group) = known.spec.groups().iter().find(|g| g.group_name == place.group).filter(|g| g.hosts() > 1) else {
        return;
    };
    let deleted =
        |p: &PodView| plan.steps.iter().any(|s| matches!(&s.action, Action::Delete(t) if t.uid == p.meta.uid));
    let in_slot = of_group(seen, &group.group_name).filter(|p| p.place().is_some_and(|at| at.slot == place.slot));
    for partner in in_slot.filter(|p| p.meta.deleting.is_none() && !deleted(p)) {
        let unknown = seen.attempted.contains_key(&place);
        let fits = !is_dead(partner) && !partner.is_ready() && incarnation(partner) == new;
        world.require(fits || unknown, property::WHOLE, || format!("{name} joins {}", partner.meta.name));
    }
}

/// What must hold right after a pod was made. Pods that landed late do not count: that gap is known.
pub fn check_made(world: &mut World, known: &RayCluster, name: &str) {
    let made = &world.server.pods[name];
    let owner = made.meta.owner_uid.clone();
    let counts = |p: &&PodView| {
        p.meta.owner_uid == owner && !is_dead(p) && (!world.landed_late.contains(&p.meta.uid) || p.meta.name == name)
    };
    let mine: Vec<&PodView> = world.server.pods.values().filter(counts).collect();
    if is_head(made) {
        // One that hangs on a lost node does not count, once no Service can find it.
        let found = |p: &&PodView| is_head(p) && !p.label(labels::CLUSTER).is_empty();
        let mut heads: Vec<String> = mine.into_iter().filter(found).map(|p| p.meta.name.clone()).collect();
        let others = world.operator.index.seen(&crate::operator::Operator::owner(known)).other_heads;
        let alive = |p: &PodView| !is_dead(p) && p.meta.deleting.is_none_or(|d| world.server.now < d);
        heads.extend(others.iter().filter(|p| alive(p)).map(|p| p.meta.name.clone()));
        world.require(heads.len() <= 1, property::TWO_HEADS, || format!("{heads:?}"));
        return;
    }
    let group = made.label(labels::GROUP).to_owned();
    let spec = known.spec.groups().iter().find(|g| g.group_name == group);
    let hosts = spec.map_or(1, |g| g.hosts());
    let live = mine.into_iter().filter(|p| p.label(labels::GROUP) == group && p.meta.deleting.is_none());
    let (mut places, mut replicas, mut twins) = (BTreeSet::new(), BTreeSet::new(), None);
    let mut opens = true;
    for pod in live {
        opens &= pod.meta.name == name || pod.place().map(|p| p.slot) != made.place().map(|p| p.slot);
        match pod.place() {
            Some(place) => {
                replicas.insert(place.slot.to_string());
                if !places.insert(place.clone()) && made.place() == Some(place) {
                    twins = Some(pod.meta.name.clone());
                }
            }
            // Those that have no number share replicas once these have several hosts.
            None if hosts == 1 => _ = replicas.insert(pod.meta.name.clone()),
            None => {}
        }
    }
    let most = spec.and_then(|g| g.max_replicas).unwrap_or(i32::MAX).max(0) as usize;
    world.require(twins.is_none(), property::ABOVE_MAX, || format!("twins in one place: {name}, {twins:?}"));
    world.require(replicas.len() <= most || !opens, property::ABOVE_MAX, || {
        format!("group {group} has {} replicas, more than its maximum {most}", replicas.len())
    });
}

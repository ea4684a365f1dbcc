//! When faults stop: does it come to rest, with what is wanted, and stay quiet?

use std::collections::BTreeSet;

use k8s_openapi::jiff::SignedDuration;
use ray_operator::api::children::Kind;
use ray_operator::api::names::{REDIS_FINALIZER, labels};
use ray_operator::api::raycluster::WorkerGroupSpec;
use ray_operator::api::{RayCluster, validation};
use ray_operator::observe::seen::PodView;

use super::{autoscales, condition, is_head, is_true, is_worker, property};
use crate::happenings::mend;
use crate::operator::Head;
use crate::pods::{incarnation, is_dead};
use crate::server::{era, image_for, merge};
use crate::world::{World, earliest};

const MOST_PASSES: usize = 150;
const LONGEST: SignedDuration = SignedDuration::from_hours(2);

impl World {
    /// The faults are over. What is left of them (lost nodes, an invalid spec, a suspension) ends one after the other, and
    /// each time all must come to rest in the right state.
    pub fn end(&mut self) {
        self.fates.clear();
        self.head = Head::Well;
        self.server.refusals.clear();
        self.land(self.in_flight.len() + self.statuses_in_flight.len());
        let squatters = self.server.pods.values().filter(|p| p.label(labels::GROUP) == "squatter");
        for name in squatters.map(|p| p.meta.name.clone()).collect::<Vec<_>>() {
            self.server.vanish(&name);
        }
        self.settle("as it is");
        if let Some(name) = self.server.nth(self.passes) {
            self.server.fail(&name, "Failed");
            self.settle("one more pod failed");
        }
        if self.server.remove_lost_nodes() {
            self.settle("lost nodes removed");
        }
        let invalid = |c: &RayCluster| condition(c, "Ready").is_some_and(|r| r.reason == "InvalidSpec");
        if self.server.cluster.as_ref().is_some_and(invalid) {
            self.server.edit(mend);
            self.settle("spec mended");
        }
        if self.server.cluster.as_ref().is_some_and(|c| c.spec.suspend == Some(true)) {
            self.server.edit(|c| c.spec.suspend = None);
            self.settle("resumed");
        }
        if self.server.cluster.is_some() {
            self.server.delete_cluster(false);
            self.settle("deleted");
        }
    }

    pub fn settle(&mut self, when: &'static str) {
        if self.broken.is_some() {
            return;
        }
        self.note(|| format!("--- at rest? {when}"));
        let (began, passes) = (self.server.now, self.passes);
        loop {
            self.server.collect();
            self.operator.receive(&mut self.server, usize::MAX);
            self.operator.ask(&self.server, Head::Well);
            if self.passes - passes > MOST_PASSES || self.server.now.duration_since(began) > LONGEST {
                return self.broke(property::SETTLES, format!("{when}: it never comes to rest"));
            }
            if self.operator.awake {
                self.pass();
                continue;
            }
            if self.work() {
                continue;
            }
            let asks = self.operator.question.as_ref().map(|q| q.not_before.unwrap_or(self.server.now));
            match earliest(self.operator.alarm, asks) {
                Some(at) => {
                    self.server.now = at.max(self.server.now);
                    self.operator.awake |= self.operator.alarm.is_some_and(|alarm| alarm <= self.server.now);
                }
                None => break,
            }
        }
        self.check_rest(when);
        self.check_quiet(when);
    }

    /// Kubelets and controllers do theirs, some seconds later. Says whether there was anything to do.
    fn work(&mut self) -> bool {
        let mut busy = !self.server.news.values().all(|q| q.is_empty());
        let waiting: Vec<String> = self
            .server
            .pods
            .values()
            .filter(|p| p.meta.owner_name == crate::server::NAME && !p.is_ready() && p.meta.deleting.is_none())
            .filter(|p| !is_dead(p) && !self.server.hung.contains(&p.meta.uid))
            .map(|p| p.meta.name.clone())
            .collect();
        busy |= !waiting.is_empty();
        if busy || self.server.pods.values().any(|p| p.meta.deleting.is_some()) {
            self.server.now += SignedDuration::from_secs(3);
        }
        waiting.iter().for_each(|name| self.server.make_ready(name));
        busy |= self.server.reap();
        busy |= self.server.finish_jobs(true);
        let before = self.server.pods.values().filter(|p| p.meta.deleting.is_some()).count();
        self.server.evict_hung();
        busy | (before != self.server.pods.values().filter(|p| p.meta.deleting.is_some()).count())
    }

    /// Nothing is written by somebody who looks again, much later or with a fresh mind.
    fn check_quiet(&mut self, when: &'static str) {
        let (writes, statuses) = (self.server.writes, self.status_writes);
        for restart in [false, true] {
            self.server.now += SignedDuration::from_mins(61);
            if restart {
                self.restart();
            }
            self.operator.receive(&mut self.server, usize::MAX);
            self.pass();
            self.operator.ask(&self.server, Head::Well);
            self.pass();
        }
        let (writes, statuses) = (self.server.writes - writes, self.status_writes - statuses);
        self.require(writes + statuses == 0, property::QUIET, || {
            format!("{when}: {writes} writes and {statuses} of the status although nothing happened")
        });
    }

    fn check_rest(&mut self, when: &'static str) {
        if let Err(detail) = self.rest() {
            self.broke(property::WANTED, format!("{when}: {detail}"));
        }
    }

    fn rest(&self) -> Result<(), String> {
        let dead = &self.server.dead_owners;
        let orphans =
            self.server.pods.values().filter(|p| dead.contains(&p.meta.owner_uid) && p.meta.deleting.is_none());
        equal("pods of a cluster that is gone", orphans.count(), 0)?;
        let Some(cluster) = &self.server.cluster else { return Ok(()) };
        if cluster.metadata.deletion_timestamp.is_some() {
            // A pod on a lost node may hold it; we do not.
            let finalizers = cluster.metadata.finalizers.iter().flatten();
            return equal("our finalizer", finalizers.filter(|f| *f == REDIS_FINALIZER).count(), 0);
        }
        let status = cluster.status.clone().unwrap_or_default();
        equal("observedGeneration", status.observed_generation, cluster.metadata.generation)?;
        let ready = condition(cluster, "Ready").ok_or("no condition Ready")?;
        let faults = validation::raycluster(cluster);
        if !faults.is_empty() || ready.reason == "InvalidSpec" {
            equal("InvalidSpec", ready.reason.as_str(), "InvalidSpec")?;
            return if faults.is_empty() { Err(format!("it is valid: {ready:?}")) } else { Ok(()) };
        }
        let suspended = cluster.spec.suspend == Some(true);
        equal("RayClusterSuspended", is_true(cluster, "RayClusterSuspended"), suspended)?;
        equal("RayClusterSuspending", is_true(cluster, "RayClusterSuspending"), false)?;
        let live: Vec<&PodView> = self
            .server
            .pods
            .values()
            .filter(|p| p.meta.owner_uid == self.server.uid() && p.meta.deleting.is_none())
            .collect();
        equal("heads", live.iter().filter(|p| is_head(p)).count(), usize::from(!suspended))?;
        let workers = live.iter().filter(|p| is_worker(p)).count();
        let mut of_groups = 0;
        for group in cluster.spec.groups() {
            let pods: Vec<&PodView> =
                live.iter().copied().filter(|p| is_worker(p) && p.label(labels::GROUP) == group.group_name).collect();
            of_groups += pods.len();
            rest_of_group(cluster, group, &pods, suspended)?;
        }
        equal("workers of no group", workers - of_groups, 0)?;
        equal("Ready", ready.status.as_str(), if suspended { "False" } else { "True" })?;
        equal("readyWorkerReplicas", status.ready_worker_replicas, Some(workers as i32))?;
        self.templates(cluster, &live)?;
        self.children(cluster)
    }

    /// Who is made from what.
    fn templates(&self, cluster: &RayCluster, live: &[&PodView]) -> Result<(), String> {
        let outdated: Vec<&str> = live
            .iter()
            .filter(|p| self.server.lives.get(&p.meta.uid).is_some_and(|l| l.image != image_for(cluster, p)))
            .map(|p| p.meta.name.as_str())
            .collect();
        let recreates = cluster.spec.upgrade_strategy.as_ref().and_then(|u| u.type_.as_deref()) == Some("Recreate");
        if recreates {
            return equal("outdated pods under Recreate", outdated, Vec::new());
        }
        let changed = live.iter().any(|p| self.server.lives.get(&p.meta.uid).is_some_and(|l| l.era != era(cluster)));
        match is_true(cluster, "TemplateDrift") {
            false => equal("outdated pods without TemplateDrift", outdated, Vec::new()),
            true => equal("TemplateDrift", changed, true),
        }
    }

    fn children(&self, cluster: &RayCluster) -> Result<(), String> {
        let service = self.server.others.get(&(Kind::Service, format!("{}-head-svc", crate::server::NAME)));
        let suspended = cluster.spec.suspend == Some(true);
        let Some(service) = service else { return if suspended { Ok(()) } else { Err("no head Service".to_owned()) } };
        let hosts = cluster.spec.groups().iter().any(|g| g.hosts() > 1);
        // It stays for pods that may still use it, also for one that hangs on a lost node.
        let used = self.server.pods.values().any(|p| is_worker(p) && !p.label(labels::HOST_INDEX).is_empty());
        let outwards = cluster.spec.head_group_spec.service_type.as_deref() == Some("NodePort");
        for (name, wanted, may_be) in
            [("head-external", outwards, outwards), ("head-svc", true, true), ("headless", hosts, hosts || used)]
        {
            let there = self.server.others.contains_key(&(Kind::Service, format!("{}-{name}", crate::server::NAME)));
            let fits = suspended || (there && may_be) || (!there && !wanted);
            equal(&format!("Service {name} is there ({there}) as it is wanted ({wanted})"), fits, true)?;
        }
        // The Service for people outside has them when there is one.
        let outside = self.server.others.get(&(Kind::Service, format!("{}-head-external", crate::server::NAME)));
        for (key, value) in cluster.spec.head_service_annotations.iter().flatten().filter(|_| !suspended) {
            let annotations = &outside.unwrap_or(service)["metadata"]["annotations"];
            equal("an annotation of the head Service", annotations[key].as_str(), Some(value.as_str()))?;
        }
        for ((kind, name), value) in &self.server.others {
            let wished = self.wishes.get(&(*kind, name.clone()));
            let Some(wished) = wished.filter(|_| is_asked_for(cluster, *kind) && !suspended) else { continue };
            let (mut mended, mut wished) = (value.clone(), wished.clone());
            wished.as_object_mut().into_iter().for_each(|w| _ = w.remove("metadata"));
            merge(&mut mended, &wished);
            equal(&format!("{kind:?} {name} is as it was wished"), mended == *value, true)?;
        }
        Ok(())
    }
}

/// Whether the spec asks for children of a kind whose content is kept as it was wished.
fn is_asked_for(cluster: &RayCluster, kind: Kind) -> bool {
    match kind {
        Kind::ServiceAccount | Kind::Role | Kind::RoleBinding => autoscales(cluster),
        Kind::NetworkPolicy => cluster.spec.network_policy.is_some(),
        Kind::Ingress => cluster.spec.head_group_spec.enable_ingress == Some(true),
        _ => false,
    }
}

fn rest_of_group(
    cluster: &RayCluster,
    group: &WorkerGroupSpec,
    pods: &[&PodView],
    suspended: bool,
) -> Result<(), String> {
    let (name, hosts) = (&group.group_name, group.hosts() as usize);
    let wanted = if suspended { 0 } else { group.wanted_replicas() as usize * hosts };
    // With the autoscaler on, nobody but it takes away what is too much.
    let kept = autoscales(cluster) && pods.len() > wanted && pods.len().is_multiple_of(hosts) && !suspended;
    if !kept {
        equal(&format!("pods of group {name}"), pods.len(), wanted)?;
    }
    let places: BTreeSet<_> = pods.iter().filter_map(|p| p.place()).collect();
    let unplaced = pods.iter().filter(|p| p.place().is_none()).count();
    let doubles = pods.len() - unplaced - places.len();
    // Pods of single hosts can stand anywhere; a double only bears another's number.
    if hosts > 1 && unplaced == 0 {
        equal(&format!("two in one place of group {name}"), doubles, 0)?;
        for slot in places.iter().map(|p| p.slot).collect::<BTreeSet<_>>() {
            let in_slot = pods.iter().filter(|p| p.place().is_some_and(|place| place.slot == slot));
            let makings: BTreeSet<u32> = in_slot.clone().map(|p| incarnation(p)).collect();
            equal(&format!("hosts of replica {slot} of group {name}"), in_slot.count(), hosts)?;
            equal(&format!("makings of replica {slot} of group {name}"), makings.len(), 1)?;
        }
    }
    Ok(())
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, is: T, should: T) -> Result<(), String> {
    if is == should { Ok(()) } else { Err(format!("{what}: {is:?}, not {should:?}")) }
}

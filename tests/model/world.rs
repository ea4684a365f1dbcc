//! A small model of what surrounds the planner: an API server, kubelets, users, and an operator whose view is behind,
//! whose answers get lost and whose process dies between any two writes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use ray_operator::api::RayCluster;
use ray_operator::api::children::Kind;
use ray_operator::api::names::labels;
use ray_operator::observe::index::{FOR_EVER, Index, Listed, Owner};
use ray_operator::observe::seen::{
    ContainerState, ContainerView, Failure, FailureKind, HeadFacts, PodCondition, PodView, RayNode, ServiceView,
    Terminated,
};
use ray_operator::observe::wire::{PodWire, ServiceWire};
use ray_operator::plan::config::PlanConfig;
use ray_operator::plan::raycluster::plan;
use ray_operator::plan::{Action, Manifest, Object, Stage, Step, Target};
use serde::Deserialize;
use serde_json::Value;

pub const UID: &str = "c0ffee00-0000-4000-8000-000000000001";

fn owner() -> Owner {
    Owner { namespace: "default".to_owned(), name: "model".to_owned(), uid: UID.to_owned() }
}

/// What a watch tells: a child as it is now, or that it is gone.
#[derive(Clone, Debug)]
enum News {
    Pod(PodView),
    PodGone(PodView),
    Service(ServiceView),
    ServiceGone(ServiceView),
    Cluster(Box<RayCluster>),
}

/// How the next write of the operator ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Answered,
    /// It takes effect, but the answer never comes.
    AnswerLost,
    /// It does not take effect.
    Refused,
    /// It takes effect, then the process dies.
    DiesAfter,
    /// The process dies before it.
    DiesBefore,
}

/// How the planner is run: the real one, or one with a planted defect.
pub type Planner = fn(
    &RayCluster,
    &ray_operator::observe::seen::Seen,
    Timestamp,
    &PlanConfig,
) -> ray_operator::plan::Plan<ray_operator::api::RayClusterStatus>;

pub struct World {
    pub now: Timestamp,
    pub cluster: RayCluster,
    pub pods: BTreeMap<String, PodView>,
    pub services: BTreeMap<String, ServiceView>,
    pub history: Vec<String>,
    version: u64,
    uids: u64,
    /// Not yet delivered to the operator, oldest first. One queue per kind, as watches are.
    pod_news: VecDeque<News>,
    other_news: VecDeque<News>,
    index: Arc<Index>,
    /// The cluster as the operator knows it.
    known: RayCluster,
    /// A list of all pods that was taken but has not reached the operator yet.
    relist: Option<(Listed, Vec<PodView>)>,
    pub fates: VecDeque<Fate>,
    /// Writes since they were last counted.
    pub writes: usize,
    pub status_writes: usize,
    planner: Planner,
    config: PlanConfig,
    look_again: Option<Timestamp>,
}

impl World {
    pub fn new(cluster: RayCluster) -> Self {
        Self::with_planner(cluster, plan)
    }

    pub fn with_planner(mut cluster: RayCluster, planner: Planner) -> Self {
        cluster.metadata.uid = Some(UID.to_owned());
        cluster.metadata.generation = Some(1);
        cluster.metadata.resource_version = Some("1".to_owned());
        let index = Arc::new(Index::default());
        index.welcome(UID);
        World {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            known: cluster.clone(),
            cluster,
            pods: BTreeMap::new(),
            services: BTreeMap::new(),
            history: Vec::new(),
            version: 1,
            uids: 0,
            pod_news: VecDeque::new(),
            other_news: VecDeque::new(),
            index,
            relist: None,
            fates: VecDeque::new(),
            writes: 0,
            status_writes: 0,
            planner,
            config: PlanConfig::default(),
            look_again: None,
        }
    }

    fn note(&mut self, text: String) {
        self.history.push(format!("{} {text}", self.now));
    }

    pub fn pass_time(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    // The user.

    pub fn edit(&mut self, change: impl FnOnce(&mut RayCluster)) {
        change(&mut self.cluster);
        self.cluster.metadata.generation = self.cluster.metadata.generation.map(|g| g + 1);
        self.cluster.metadata.resource_version = Some(self.next_version());
        self.other_news.push_back(News::Cluster(Box::new(self.cluster.clone())));
    }

    // The kubelets and the rest of the cluster.

    /// The n-th pod, by name, counted round.
    pub fn nth(&self, n: usize) -> Option<String> {
        let len = self.pods.len();
        if len == 0 { None } else { self.pods.keys().nth(n % len).cloned() }
    }

    pub fn change(&mut self, name: &str, change: impl FnOnce(&mut PodView)) {
        let version = self.next_version();
        let Some(pod) = self.pods.get_mut(name) else { return };
        change(pod);
        pod.meta.resource_version = version;
        let pod = pod.clone();
        self.pod_news.push_back(News::Pod(pod));
    }

    pub fn make_ready(&mut self, name: &str) {
        let now = self.now;
        let number = self.version % 250;
        self.change(name, |pod| {
            if pod.meta.deleting.is_some() || pod.phase == "Failed" || pod.phase == "Succeeded" {
                return;
            }
            pod.node = Some("n1".to_owned());
            pod.phase = "Running".to_owned();
            pod.ip.get_or_insert_with(|| format!("10.0.0.{number}"));
            pod.ready = Some(PodCondition { status: "True".to_owned(), since: Some(now), ..PodCondition::default() });
            pod.containers = vec![ContainerView {
                name: pod.ray_container.clone(),
                ready: true,
                state: ContainerState::Running { since: Some(now) },
                ..ContainerView::default()
            }];
        });
    }

    pub fn fail(&mut self, name: &str, phase: &str) {
        let now = self.now;
        self.change(name, |pod| {
            pod.node.get_or_insert_with(|| "n1".to_owned());
            pod.phase = phase.to_owned();
            pod.ready = Some(PodCondition { status: "False".to_owned(), since: Some(now), ..PodCondition::default() });
            for container in &mut pod.containers {
                container.ready = false;
                container.state = ContainerState::Terminated(Terminated {
                    exit_code: 1,
                    finished: Some(now),
                    ..Terminated::default()
                });
            }
        });
    }

    pub fn unready(&mut self, name: &str) {
        let now = self.now;
        self.change(name, |pod| {
            if let Some(ready) = &mut pod.ready {
                *ready = PodCondition { status: "False".to_owned(), since: Some(now), ..PodCondition::default() };
            }
        });
    }

    /// Somebody deletes a pod; it stays until the kubelet lets go.
    pub fn user_deletes(&mut self, name: &str) {
        let gone_by = self.now + SignedDuration::from_secs(30);
        self.change(name, |pod| {
            pod.meta.deleting.get_or_insert(gone_by);
        });
    }

    /// A pod disappears without a word, as when its node is removed.
    pub fn vanish(&mut self, name: &str) {
        if let Some(mut pod) = self.pods.remove(name) {
            pod.meta.resource_version = self.next_version();
            self.pod_news.push_back(News::PodGone(pod));
        }
    }

    /// Kubelets let go of what is being deleted.
    pub fn reap(&mut self) {
        let leaving: Vec<String> =
            self.pods.values().filter(|p| p.meta.deleting.is_some()).map(|p| p.meta.name.clone()).collect();
        for name in leaving {
            self.vanish(&name);
        }
    }

    /// A pod with our labels that somebody else owns.
    pub fn stranger(&mut self, name: &str, group: &str) {
        let mut pod = PodView::default();
        pod.meta.name = name.to_owned();
        pod.meta.namespace = "default".to_owned();
        pod.meta.uid = format!("stranger-{name}");
        pod.meta.labels.insert(labels::CLUSTER.to_owned(), self.cluster.metadata.name.clone().unwrap_or_default());
        pod.meta.labels.insert(labels::GROUP.to_owned(), group.to_owned());
        pod.meta.labels.insert(labels::NODE_TYPE.to_owned(), "worker".to_owned());
        pod.meta.owner_uid = "another-owner".to_owned();
        pod.meta.resource_version = self.next_version();
        self.pods.insert(name.to_owned(), pod.clone());
        self.pod_news.push_back(News::Pod(pod));
    }

    // The operator.

    /// The pod watch broke: a list is taken now, in place of all news that were under way. What happens from here on
    /// comes after it.
    pub fn relist(&mut self) {
        self.pod_news.clear();
        let pods: Vec<PodView> = self.pods.values().cloned().collect();
        let listed = Listed {
            keys: pods.iter().map(|p| (p.meta.namespace.clone(), p.meta.name.clone())).collect(),
            newest: pods.iter().filter_map(|p| p.meta.resource_version.parse().ok()).max().unwrap_or(0),
            known: self.index.known::<PodView>(|_| true),
        };
        self.relist = Some((listed, pods));
    }

    /// Delivers at most `n` items of news of each kind.
    pub fn deliver(&mut self, n: usize) {
        if let Some((listed, pods)) = self.relist.take() {
            for pod in pods {
                self.index.apply(pod);
            }
            self.index.retain::<PodView>(|_| true, &listed, self.now);
        }
        for _ in 0..n.min(self.pod_news.len().max(self.other_news.len())) {
            for news in [self.pod_news.pop_front(), self.other_news.pop_front()].into_iter().flatten() {
                match news {
                    News::Pod(pod) => drop(self.index.apply(pod)),
                    News::PodGone(pod) => {
                        let version = pod.meta.resource_version.parse().unwrap_or(0);
                        self.index.remove::<PodView>(
                            &pod.meta.namespace,
                            &pod.meta.name,
                            &pod.meta.uid,
                            version,
                            self.now,
                        );
                    }
                    News::Service(service) => drop(self.index.apply(service)),
                    News::ServiceGone(gone) => {
                        let version = gone.meta.resource_version.parse().unwrap_or(0);
                        self.index.remove::<ServiceView>("default", &gone.meta.name, &gone.meta.uid, version, self.now);
                    }
                    News::Cluster(cluster) => self.learn(*cluster),
                }
            }
        }
    }

    fn learn(&mut self, cluster: RayCluster) {
        let version =
            |c: &RayCluster| c.metadata.resource_version.as_deref().and_then(|v| v.parse::<u64>().ok()).unwrap_or(0);
        if version(&cluster) > version(&self.known) {
            self.known = cluster;
        }
    }

    /// The process is gone; another one starts with a complete, fresh list.
    pub fn restart(&mut self) {
        self.note("operator restarts".to_owned());
        self.pod_news.clear();
        self.other_news.clear();
        self.relist = None;
        self.index = Arc::new(Index::default());
        self.index.welcome(UID);
        for pod in self.pods.values() {
            self.index.apply(pod.clone());
        }
        for service in self.services.values() {
            self.index.apply(service.clone());
        }
        self.known = self.cluster.clone();
    }

    /// One pass of the operator. Says whether it did or wrote anything.
    pub fn pass(&mut self) -> bool {
        let known = self.known.clone();
        let mut planned = (self.planner)(&known, &self.index.seen(&owner()), self.now, &self.config);
        let mut busy = false;
        if !planned.steps.is_empty() {
            busy = true;
            if !self.carry_out(std::mem::take(&mut planned.steps)) {
                self.restart();
                return true;
            }
            planned = (self.planner)(&known, &self.index.seen(&owner()), self.now, &self.config);
        } else {
            self.index.keep_failures(UID, |_| false);
        }
        if let Some(status) = planned.status {
            busy = true;
            self.status_writes += 1;
            match self.fates.pop_front().unwrap_or(Fate::Answered) {
                Fate::Refused => {}
                Fate::DiesBefore => {
                    self.restart();
                    return true;
                }
                fate => {
                    self.cluster.status = Some(status);
                    self.cluster.metadata.resource_version = Some(self.next_version());
                    self.other_news.push_back(News::Cluster(Box::new(self.cluster.clone())));
                    match fate {
                        Fate::Answered => self.learn(self.cluster.clone()),
                        Fate::DiesAfter => self.restart(),
                        _ => {}
                    }
                }
            }
        }
        if let Some(question) = planned.ask {
            let alive = self.pods.values().filter(|p| p.is_ready() && p.meta.owner_uid == UID);
            let nodes = alive.filter_map(|p| p.ip.clone()).map(|ip| RayNode { ip, alive: true }).collect();
            self.index.head_said(UID, HeadFacts { at: self.now, fingerprint: question.fingerprint, answer: Ok(nodes) });
        }
        self.look_again = planned.look_again;
        busy
    }

    /// When the operator wants to run again by itself.
    pub fn alarm(&self) -> Option<Timestamp> {
        self.look_again
    }

    fn carry_out(&mut self, mut steps: Vec<Step>) -> bool {
        steps.sort_by_key(|s| s.stage);
        let held = self.index.seen(&owner()).failures;
        let mut stopped: Vec<(Stage, &'static str, String)> = Vec::new();
        for step in steps {
            assert!(!step.why.trim().is_empty(), "a step without a reason: {step:?}");
            let waits = held.iter().any(|f| f.step == step.reason && f.scope == step.scope && f.retry_at > self.now);
            let blocked = stopped.iter().any(|(at, _, scope)| {
                (*at < step.stage && (*at == Stage::Services || *scope == step.scope))
                    || (*at == step.stage && *scope == step.scope)
            });
            if waits || blocked {
                stopped.push((step.stage, step.reason, step.scope));
                continue;
            }
            let fate = self.fates.pop_front().unwrap_or(Fate::Answered);
            if fate == Fate::DiesBefore {
                return false;
            }
            let attempt = step.action.place();
            if let Some((place, incarnation)) = attempt.clone() {
                self.index.attempt(UID, place, incarnation);
            }
            if fate != Fate::Refused {
                self.effect(&step, fate == Fate::Answered);
            }
            if let Some((place, _)) = attempt.filter(|_| matches!(fate, Fate::Refused | Fate::Answered)) {
                self.index.settled(UID, &place);
            }
            if fate == Fate::DiesAfter {
                return false;
            }
            if matches!(fate, Fate::AnswerLost | Fate::Refused) {
                let failure = Failure {
                    kind: FailureKind::Unavailable,
                    verb: "write".to_owned(),
                    what: step.scope.clone(),
                    step: step.reason.to_owned(),
                    scope: step.scope.clone(),
                    message: "no answer".to_owned(),
                    since: self.now,
                    times: 1,
                    retry_at: self.now,
                };
                self.index.failed(UID, failure, self.now, |_| SignedDuration::from_secs(1));
                stopped.push((step.stage, step.reason, step.scope));
            }
        }
        self.index.keep_failures(UID, |f| stopped.iter().any(|(_, r, s)| *r == f.step && *s == f.scope));
        true
    }

    fn effect(&mut self, step: &Step, answered: bool) {
        self.writes += 1;
        match &step.action {
            Action::Create(Object::Pod(pod)) => self.create_pod(pod, &step.why, answered),
            Action::Delete(Target { kind: Kind::Pod, name, uid, .. }) => {
                self.delete_pod(name, uid, &step.why, answered)
            }
            Action::Create(Object::Service(service)) => {
                let name = service.metadata.name.clone().unwrap_or_default();
                self.uids += 1;
                let mut view: ServiceView =
                    ServiceWire::deserialize(serde_json::to_value(service).unwrap()).unwrap().into();
                view.meta.uid = format!("service-{}", self.uids);
                view.meta.resource_version = self.next_version();
                let view = self.services.entry(name).or_insert(view).clone();
                self.other_news.push_back(News::Service(view.clone()));
                if answered {
                    self.index.apply(view);
                }
            }
            Action::Delete(Target { kind: Kind::Service, name, uid, .. }) => {
                let Some(mut gone) = self.services.get(name).filter(|s| s.meta.uid == *uid).cloned() else { return };
                self.services.remove(name);
                gone.meta.resource_version = self.next_version();
                self.other_news.push_back(News::ServiceGone(gone));
                if answered {
                    self.index.remove::<ServiceView>("default", name, uid, FOR_EVER, self.now);
                }
            }
            Action::Patch(Manifest { kind: Kind::Pod, name, value, .. }) => {
                self.patch_pod(name, &value["metadata"], answered)
            }
            other => panic!("the model knows no {other:?}"),
        }
    }

    fn patch_pod(&mut self, name: &str, change: &Value, answered: bool) {
        let version = self.next_version();
        let Some(pod) = self.pods.get_mut(name).filter(|p| change["uid"] == *p.meta.uid) else { return };
        pod.meta.resource_version = version;
        for (part, map) in [("labels", &mut pod.meta.labels), ("annotations", &mut pod.meta.annotations)] {
            for (key, value) in change[part].as_object().into_iter().flatten() {
                match value.as_str() {
                    Some(value) => _ = map.insert(key.clone(), value.to_owned()),
                    None => _ = map.remove(key),
                }
            }
        }
        let pod = pod.clone();
        self.pod_news.push_back(News::Pod(pod.clone()));
        if answered {
            self.index.apply(pod);
        }
    }

    fn create_pod(&mut self, pod: &Pod, why: &str, answered: bool) {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let exists = self.pods.contains_key(&name);
        self.note(format!("create {name} ({why}){}", if exists { ": already exists" } else { "" }));
        if !exists {
            self.uids += 1;
            let mut view: PodView = PodWire::deserialize(serde_json::to_value(pod).unwrap()).unwrap().into();
            view.meta.uid = format!("pod-{}", self.uids);
            view.meta.created = Some(self.now);
            view.phase = "Pending".to_owned();
            view.meta.resource_version = self.next_version();
            self.pods.insert(name.clone(), view.clone());
            self.pod_news.push_back(News::Pod(view));
            self.check_safety(&name);
        }
        let existing = self.pods[&name].clone();
        if answered && existing.meta.owner_uid == UID {
            self.index.apply(existing);
        }
    }

    fn delete_pod(&mut self, name: &str, uid: &str, why: &str, answered: bool) {
        self.note(format!("delete {name} ({why})"));
        assert!(!uid.is_empty(), "a delete without a uid hits whoever bears the name");
        let Some(pod) = self.pods.get(name).filter(|p| p.meta.uid == uid).cloned() else {
            if answered {
                self.index.remove::<PodView>("default", name, uid, FOR_EVER, self.now);
            }
            return;
        };
        assert_eq!(pod.meta.owner_uid, UID, "a pod of somebody else was deleted: {name}\n{}", self.history.join("\n"));
        if pod.node.is_none() {
            self.vanish(name);
            if answered {
                self.index.remove::<PodView>("default", name, uid, FOR_EVER, self.now);
            }
        } else {
            self.user_deletes(name);
            if answered {
                self.index.apply(self.pods[name].clone());
            }
        }
    }

    /// What must hold right after a pod was created.
    fn check_safety(&self, created: &str) {
        let mine = || self.pods.values().filter(|p| p.meta.owner_uid == UID);
        let dead = |p: &PodView| p.phase == "Failed" || p.phase == "Succeeded";
        // One that hangs on a lost node does not count, once no Service can find it.
        let found = |p: &PodView| p.label(labels::NODE_TYPE) == "head" && !p.label(labels::CLUSTER).is_empty();
        let heads: Vec<&str> = mine().filter(|p| found(p) && !dead(p)).map(|p| p.meta.name.as_str()).collect();
        assert!(heads.len() <= 1, "two live heads {heads:?}\n{}", self.history.join("\n"));
        for group in self.known.spec.groups() {
            let members =
                mine().filter(|p| p.label(labels::GROUP) == group.group_name && p.meta.deleting.is_none() && !dead(p));
            let count = members.count();
            let max = group.max_replicas.unwrap_or(i32::MAX) as i64 * i64::from(group.hosts());
            let is_new = self.pods[created].label(labels::GROUP) == group.group_name;
            assert!(
                !is_new || count as i64 <= max,
                "group {} has {count} live pods, more than its maximum {max}\n{}",
                group.group_name,
                self.history.join("\n")
            );
            let mut places = std::collections::BTreeSet::new();
            for pod in
                mine().filter(|p| p.label(labels::GROUP) == group.group_name && p.meta.deleting.is_none() && !dead(p))
            {
                assert!(
                    places.insert(pod.place()),
                    "twins in one place: {}\n{}",
                    pod.meta.name,
                    self.history.join("\n")
                );
            }
        }
    }

    /// The faults are over: news arrive, kubelets work, the operator runs until it has nothing to do. Panics when it
    /// does not come to rest, or not in the right state.
    pub fn settle(&mut self) {
        self.fates.clear();
        let mut idle = 0;
        for _ in 0..400 {
            self.pass_time(5);
            self.deliver(usize::MAX);
            let busy = self.pass();
            self.deliver(usize::MAX);
            self.reap();
            let names: Vec<String> = self
                .pods
                .values()
                .filter(|p| p.meta.owner_uid == UID && !p.is_ready())
                .map(|p| p.meta.name.clone())
                .collect();
            for name in &names {
                self.make_ready(name);
            }
            let at_rest = !busy && names.is_empty() && self.pod_news.is_empty() && self.alarm().is_none();
            idle = if at_rest { idle + 1 } else { 0 };
            if idle >= 3 {
                self.check_settled();
                return;
            }
        }
        panic!("it never comes to rest\n{}", self.history.join("\n"));
    }

    fn check_settled(&mut self) {
        let suspended = self.cluster.spec.suspend == Some(true);
        let mine = || self.pods.values().filter(|p| p.meta.owner_uid == UID);
        let heads = mine().filter(|p| p.label(labels::NODE_TYPE) == "head").count();
        assert_eq!(heads, usize::from(!suspended), "heads\n{}", self.history.join("\n"));
        let mut wanted_total = 0;
        for group in self.cluster.spec.groups() {
            let wanted = if suspended { 0 } else { (group.wanted_replicas() * group.hosts()) as usize };
            wanted_total += wanted;
            let there = mine().filter(|p| p.label(labels::GROUP) == group.group_name).count();
            assert_eq!(there, wanted, "pods of group {}\n{}", group.group_name, self.history.join("\n"));
        }
        let services: Vec<&String> = self.services.keys().collect();
        let hosts = self.cluster.spec.groups().iter().any(|g| g.hosts() > 1);
        assert!(
            services.len() == 1 + usize::from(hosts && !suspended) || suspended,
            "{services:?}\n{}",
            self.history.join("\n")
        );
        let workers = mine().filter(|p| p.label(labels::NODE_TYPE) == "worker").count();
        assert_eq!(workers, wanted_total, "workers of no group\n{}", self.history.join("\n"));
        let status = self.cluster.status.clone().unwrap_or_default();
        let ready = status.conditions.iter().flatten().find(|c| c.type_ == "Ready").expect("condition Ready");
        assert_eq!(ready.status, if suspended { "False" } else { "True" }, "{ready:?}\n{}", self.history.join("\n"));
        assert_eq!(status.observed_generation, self.cluster.metadata.generation);
        assert_eq!(status.ready_worker_replicas, Some(workers as i32));
    }
}

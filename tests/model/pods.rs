//! Pods and their lives: kubelets, nodes that are lost, people who delete, and pods that are nobody's.

use ray_operator::api::children::Kind;
use ray_operator::api::names::{annotations, labels};
use ray_operator::observe::seen::{ContainerState, ContainerView, PodCondition, PodView, Terminated};
use serde_json::json;

use super::server::{Biography, NAME, NAMESPACE, Server, Stored, era, image_for};

impl Server {
    /// The n-th pod that is its cluster's, by name, counted round.
    pub fn nth(&self, n: usize) -> Option<String> {
        let ours: Vec<&PodView> = self.pods.values().filter(|p| p.meta.owner_name == NAME).collect();
        (!ours.is_empty()).then(|| ours[n % ours.len()].meta.name.clone())
    }

    pub fn change(&mut self, name: &str, change: impl FnOnce(&mut PodView)) {
        let version = self.next_version();
        let Some(pod) = self.pods.get_mut(name) else { return };
        change(pod);
        pod.meta.resource_version = version;
        let pod = Box::new(pod.clone());
        self.tell(Stored::Pod(pod), false);
    }

    /// Whether its kubelet still acts on it.
    fn runs(&self, name: &str) -> bool {
        self.pods.get(name).is_some_and(|p| {
            p.meta.deleting.is_none()
                && !self.hung.contains(&p.meta.uid)
                && p.phase != "Failed"
                && p.phase != "Succeeded"
        })
    }

    pub fn make_ready(&mut self, name: &str) {
        if !self.runs(name) {
            return;
        }
        let now = self.now;
        self.change(name, |pod| {
            let number = pod.meta.uid.bytes().rev().take(4).fold(0u32, |n, b| n * 7 + u32::from(b));
            pod.node = Some("n1".to_owned());
            pod.phase = "Running".to_owned();
            pod.unscheduled = None;
            pod.ip.get_or_insert_with(|| format!("10.0.{}.{}", number / 250 % 250, number % 250));
            pod.ready = Some(condition("True", now));
            let restarts = pod.ray().map_or(0, |c| c.restarts);
            pod.containers = vec![ContainerView {
                name: pod.ray_container.clone(),
                ready: true,
                restarts,
                state: ContainerState::Running { since: Some(now) },
                last_end: None,
            }];
        });
    }

    pub fn fail(&mut self, name: &str, phase: &str) {
        if !self.runs(name) {
            return;
        }
        let now = self.now;
        self.change(name, |pod| {
            pod.node.get_or_insert_with(|| "n1".to_owned());
            pod.phase = phase.to_owned();
            pod.ready = Some(condition("False", now));
            for container in &mut pod.containers {
                container.ready = false;
                container.state = ended(now);
            }
        });
        let uid = self.pods[name].meta.uid.clone();
        self.lives.entry(uid).or_default().was_dead = true;
        self.tear(name);
    }

    pub fn unready(&mut self, name: &str) {
        let now = self.now;
        self.change(name, |pod| {
            if pod.ready.is_some() {
                pod.ready = Some(condition("False", now));
            }
        });
    }

    /// The Ray container ended and was started again.
    pub fn restart_container(&mut self, name: &str) {
        if !self.runs(name) {
            return;
        }
        let now = self.now;
        self.change(name, |pod| {
            for container in &mut pod.containers {
                container.restarts += 1;
                container.ready = false;
                container.last_end = Some(Terminated { exit_code: 1, finished: Some(now), ..Terminated::default() });
                pod.ready = Some(condition("False", now));
            }
        });
    }

    /// No node fits.
    pub fn unschedulable(&mut self, name: &str) {
        let now = self.now;
        self.change(name, |pod| {
            if pod.node.is_none() {
                let said = PodCondition { reason: "Unschedulable".to_owned(), ..condition("False", now) };
                pod.unscheduled = Some(said);
            }
        });
    }

    /// The pod's node is lost: from now on nothing is heard of it, and nothing ends it.
    pub fn hang(&mut self, name: &str) {
        if !self.runs(name) || self.pods[name].node.is_none() {
            return;
        }
        self.hung.insert(self.pods[name].meta.uid.clone());
        self.unready(name);
    }

    /// The control plane gives up on pods of lost nodes: they are deleted, and stay.
    pub fn evict_hung(&mut self) {
        let hung = self.pods.values().filter(|p| p.meta.deleting.is_none() && self.hung.contains(&p.meta.uid));
        for name in hung.map(|p| p.meta.name.clone()).collect::<Vec<_>>() {
            self.begin_deletion(&name);
        }
    }

    /// Lost nodes are removed, and their pods with them.
    pub fn remove_lost_nodes(&mut self) -> bool {
        let hung = std::mem::take(&mut self.hung);
        let names: Vec<String> =
            self.pods.values().filter(|p| hung.contains(&p.meta.uid)).map(|p| p.meta.name.clone()).collect();
        names.iter().for_each(|name| self.vanish(name));
        !names.is_empty()
    }

    /// A pod disappears without a word.
    pub fn vanish(&mut self, name: &str) {
        self.tear(name);
        if let Some(mut pod) = self.pods.remove(name) {
            pod.meta.resource_version = self.next_version();
            self.tell(Stored::Pod(Box::new(pod)), true);
        }
    }

    /// Kubelets let go of what is being deleted, unless they hang.
    pub fn reap(&mut self) -> bool {
        let leaving = self.pods.values().filter(|p| p.meta.deleting.is_some() && !self.hung.contains(&p.meta.uid));
        let names: Vec<String> = leaving.map(|p| p.meta.name.clone()).collect();
        names.iter().for_each(|name| self.vanish(name));
        !names.is_empty()
    }

    /// Its replica has lost a host.
    pub fn tear(&mut self, name: &str) {
        if let Some(place) = self.pods.get(name).and_then(PodView::place) {
            self.torn.insert((place.group, place.slot, incarnation(&self.pods[name])));
        }
    }

    /// A pod that somebody else owns: with our labels, or with a name that we want.
    pub fn stranger(&mut self, name: &str, node_type: &str, group: &str) {
        if self.pods.contains_key(name) {
            return;
        }
        let mut pod = PodView::default();
        pod.meta.name = name.to_owned();
        pod.meta.namespace = NAMESPACE.to_owned();
        pod.meta.uid = self.next_uid();
        for (key, value) in [(labels::CLUSTER, NAME), (labels::GROUP, group), (labels::NODE_TYPE, node_type)] {
            pod.meta.labels.insert(key.to_owned(), value.to_owned());
        }
        pod.meta.owner_uid = "another-owner".to_owned();
        pod.meta.owner_name = "another".to_owned();
        pod.meta.resource_version = self.next_version();
        pod.phase = "Running".to_owned();
        self.pods.insert(name.to_owned(), pod.clone());
        self.tell(Stored::Pod(Box::new(pod)), false);
    }

    /// Pods as KubeRay leaves them behind: named by chance, without our marks; before v1.5 without an index.
    pub fn made_by_kuberay(&mut self, indexed: bool) {
        let Some(cluster) = self.cluster.clone() else { return };
        let mut made = vec![("head".to_owned(), "headgroup".to_owned(), None)];
        for group in cluster.spec.groups() {
            let (replicas, hosts) = (group.wanted_replicas(), group.hosts());
            if hosts > 1 && !indexed {
                continue;
            }
            for (slot, host) in (0..replicas).flat_map(|slot| (0..hosts).map(move |host| (slot, host))) {
                let place = indexed.then_some((slot, (hosts > 1).then_some(host)));
                made.push(("worker".to_owned(), group.group_name.clone(), place));
            }
        }
        for (n, (node_type, group, place)) in made.into_iter().enumerate() {
            let name = format!("{NAME}-{node_type}-kube{n}");
            self.stranger(&name, &node_type, &group);
            let (uid, now) = (cluster.metadata.uid.clone().unwrap_or_default(), self.now);
            self.change(&name, |pod| {
                pod.meta.owner_uid = uid;
                pod.meta.owner_name = NAME.to_owned();
                pod.meta.created = Some(now);
                pod.ray_container = "ray".to_owned();
                pod.phase = "Pending".to_owned();
                pod.meta.annotations.insert(annotations::KUBERAY_VERSION.to_owned(), "v1.7.0".to_owned());
                if let Some((slot, host)) = place {
                    pod.meta.labels.insert(labels::REPLICA_INDEX.to_owned(), slot.to_string());
                    if let Some(host) = host {
                        pod.meta.labels.insert(labels::HOST_INDEX.to_owned(), host.to_string());
                    }
                }
            });
            let life = Biography { era: era(&cluster), image: image_for(&cluster, &self.pods[&name]), was_dead: false };
            self.lives.insert(self.pods[&name].meta.uid.clone(), life);
            self.make_ready(&name);
        }
    }

    /// Jobs run to their end.
    pub fn finish_jobs(&mut self, succeeded: bool) -> bool {
        let jobs = self.others.iter().filter(|(k, o)| k.0 == Kind::Job && o["status"].is_null());
        let keys: Vec<_> = jobs.map(|(k, _)| k.clone()).collect();
        for key in &keys {
            let version = self.next_version();
            let job = self.others.get_mut(key).expect("the Job");
            let end = if succeeded { "Complete" } else { "Failed" };
            job["status"] = json!({"conditions": [{"type": end, "status": "True"}]});
            job["metadata"]["resourceVersion"] = json!(version);
            let job = job.clone();
            self.tell(Stored::Other(key.0, job), false);
        }
        !keys.is_empty()
    }
}

pub fn is_dead(pod: &PodView) -> bool {
    pod.phase == "Failed" || pod.phase == "Succeeded"
}

pub fn incarnation(pod: &PodView) -> u32 {
    pod.annotation(annotations::INCARNATION).parse().unwrap_or(0)
}

fn condition(status: &str, now: k8s_openapi::jiff::Timestamp) -> PodCondition {
    PodCondition { status: status.to_owned(), since: Some(now), ..PodCondition::default() }
}

fn ended(now: k8s_openapi::jiff::Timestamp) -> ContainerState {
    ContainerState::Terminated(Terminated { exit_code: 1, finished: Some(now), ..Terminated::default() })
}

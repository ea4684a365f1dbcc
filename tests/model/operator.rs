//! The operator's side of the model: what its watches have told it so far, and what a new process knows.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use ray_operator::api::RayCluster;
use ray_operator::api::children::Kind;
use ray_operator::observe::child::ChildWire;
use ray_operator::observe::index::{Child, FOR_EVER, Index, Listed, Owner, version};
use ray_operator::observe::seen::{ChildView, HeadFacts, PodView, RayNode, ServiceView, Unreachable};
use ray_operator::observe::wire::ServiceWire;
use ray_operator::plan::{AskHead, Target};
use serde::Deserialize;

use super::server::{NAME, NAMESPACE, News, Server, Stored};

/// How Ray's head answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    Well,
    Silent,
    /// It lists no node but itself.
    Lonely,
}

pub struct Operator {
    pub index: Index,
    /// The cluster as the operator knows it.
    pub known: Option<Arc<RayCluster>>,
    /// Something happened that a pass has to look at.
    pub awake: bool,
    /// When a pass is due by itself.
    pub alarm: Option<Timestamp>,
    pub question: Option<AskHead>,
    /// Counts processes.
    pub life: u32,
    /// Pods by name whose creation was answered, and uids whose deletion was: what this process cannot but know.
    pub created: BTreeMap<String, String>,
    pub deleted: BTreeSet<String>,
    /// Lists that were taken but have not arrived yet.
    lists: BTreeMap<Kind, (Listed, Vec<Stored>)>,
}

impl Operator {
    pub fn new() -> Self {
        Operator {
            index: Index::default(),
            known: None,
            awake: true,
            alarm: None,
            question: None,
            life: 0,
            created: BTreeMap::new(),
            deleted: BTreeSet::new(),
            lists: BTreeMap::new(),
        }
    }

    /// The process is gone; another one starts with complete, fresh lists.
    pub fn restart(&mut self, server: &mut Server) {
        *self = Operator { life: self.life + 1, ..Operator::new() };
        server.news.clear();
        for kind in server.kinds() {
            self.relist(server, kind);
        }
        self.receive(server, usize::MAX);
    }

    /// A watch broke: a list is taken now, in place of all news that were under way. What happens from here on comes
    /// after it.
    pub fn relist(&mut self, server: &mut Server, kind: Kind) {
        server.news.remove(&kind);
        let objects = server.list(kind);
        let listed = Listed {
            keys: objects.iter().map(|o| (NAMESPACE.to_owned(), o.name())).collect(),
            newest: objects.iter().map(Stored::version).max().unwrap_or(0),
            known: match kind {
                Kind::Pod => self.index.known::<PodView>(|_| true),
                Kind::Service => self.index.known::<ServiceView>(|_| true),
                Kind::RayCluster => HashSet::new(),
                _ => self.index.known::<ChildView>(|v| v.kind == kind),
            },
        };
        self.lists.insert(kind, (listed, objects));
    }

    /// Takes in at most `most` pieces of news of each kind.
    pub fn receive(&mut self, server: &mut Server, most: usize) {
        let kinds: BTreeSet<Kind> = server.kinds().into_iter().chain(self.lists.keys().copied()).collect();
        for kind in kinds {
            self.receive_of(server, kind, most);
        }
    }

    pub fn receive_of(&mut self, server: &mut Server, kind: Kind, most: usize) {
        if let Some((listed, objects)) = self.lists.remove(&kind) {
            objects.into_iter().for_each(|what| self.take_in(what));
            self.complete(kind, &listed, server.now);
        }
        for _ in 0..most {
            let Some(news) = server.news.get_mut(&kind).and_then(|q| q.pop_front()) else { return };
            self.hear(news, server.now);
        }
    }

    fn complete(&mut self, kind: Kind, listed: &Listed, now: Timestamp) {
        let owners = match kind {
            Kind::Pod => {
                self.created.clear();
                self.index.retain::<PodView>(|_| true, listed, now)
            }
            Kind::Service => self.index.retain::<ServiceView>(|_| true, listed, now),
            Kind::RayCluster => {
                let gone = self.known.take_if(|_| listed.keys.is_empty());
                gone.iter().for_each(|c| self.index.forget(c.metadata.uid.as_deref().unwrap_or_default()));
                Vec::new()
            }
            _ => self.index.retain::<ChildView>(|v| v.kind == kind, listed, now),
        };
        self.wake(owners);
    }

    fn hear(&mut self, news: News, now: Timestamp) {
        if !news.gone {
            return self.take_in(news.what);
        }
        match news.what {
            Stored::Pod(pod) => {
                self.created.retain(|_, uid| *uid != pod.meta.uid);
                self.lose(&*pod, now);
            }
            Stored::Cluster(cluster) => {
                self.index.forget(cluster.metadata.uid.as_deref().unwrap_or_default());
                self.known.take_if(|k| k.metadata.uid == cluster.metadata.uid);
            }
            Stored::Other(Kind::Service, value) => {
                self.lose(&ServiceView::from(ServiceWire::deserialize(value).expect("a Service")), now);
            }
            Stored::Other(kind, value) => {
                self.lose(&ChildWire::deserialize(value).expect("a child").view(kind), now);
            }
        }
    }

    fn lose<V: Child>(&mut self, gone: &V, now: Timestamp) {
        let owner = self.index.remove::<V>(NAMESPACE, &gone.key(), &gone.meta().uid, gone.version(), now);
        self.wake(owner.into_iter().collect());
    }

    /// From a watch, or from the answer to a write.
    pub fn take_in(&mut self, what: Stored) {
        let owners = match what {
            Stored::Pod(pod) => self.index.apply(*pod),
            Stored::Cluster(cluster) => return self.learn(*cluster),
            Stored::Other(Kind::Service, value) => {
                self.index.apply(ServiceView::from(ServiceWire::deserialize(value).expect("a Service")))
            }
            Stored::Other(kind, value) => self.index.apply(ChildWire::deserialize(value).expect("a child").view(kind)),
        };
        self.wake(owners);
    }

    /// A delete was answered.
    pub fn dismiss(&mut self, target: &Target, left: Option<Stored>, now: Timestamp) {
        match (target.kind, left) {
            (_, Some(Stored::Pod(pod))) => self.index.leaves(*pod),
            (_, Some(other)) => self.take_in(other),
            (Kind::Pod, None) => {
                _ = self.index.remove::<PodView>(NAMESPACE, &target.name, &target.uid, FOR_EVER, now);
            }
            (Kind::Service, None) => {
                _ = self.index.remove::<ServiceView>(NAMESPACE, &target.name, &target.uid, FOR_EVER, now);
            }
            (kind, None) => {
                let key = ChildView::key_of(kind, &target.name);
                _ = self.index.remove::<ChildView>(NAMESPACE, &key, &target.uid, FOR_EVER, now);
            }
        }
    }

    pub fn learn(&mut self, cluster: RayCluster) {
        let version_of = |c: &RayCluster| version(c.metadata.resource_version.as_deref().unwrap_or_default());
        self.index.welcome(cluster.metadata.uid.as_deref().unwrap_or_default());
        match &self.known {
            Some(known) if known.metadata.uid != cluster.metadata.uid => {
                self.index.forget(known.metadata.uid.as_deref().unwrap_or_default());
            }
            Some(known) if version_of(known) >= version_of(&cluster) => return,
            _ => {}
        }
        self.known = Some(Arc::new(cluster));
        self.awake = true;
    }

    fn wake(&mut self, owners: Vec<Owner>) {
        self.awake |= owners.iter().any(|o| o.name == NAME);
    }

    pub fn owner(cluster: &RayCluster) -> Owner {
        Owner {
            namespace: NAMESPACE.to_owned(),
            name: NAME.to_owned(),
            uid: cluster.metadata.uid.clone().unwrap_or_default(),
        }
    }

    /// The head answers, if it was asked and the question's time has come.
    pub fn ask(&mut self, server: &Server, head: Head) {
        let due = |q: &mut AskHead| q.not_before.is_none_or(|at| at <= server.now);
        let Some(question) = self.question.take_if(due) else { return };
        let Some(uid) = self.known.as_ref().and_then(|k| k.metadata.uid.clone()) else { return };
        let before = self.index.head(&uid).filter(|h| h.fingerprint == question.fingerprint);
        let since = before.and_then(|h| h.answer.err()).map_or(server.now, |b| b.since);
        let ready = server.pods.values().filter(|p| p.is_ready() && p.meta.owner_uid == uid);
        let nodes = ready.filter(|p| head == Head::Well || p.place().is_none_or(|place| place.group == "headgroup"));
        let answer = match head {
            Head::Silent => Err(Unreachable { layer: "port".to_owned(), message: "no answer".to_owned(), since }),
            _ => Ok(nodes.filter_map(|p| p.ip.clone()).map(|ip| RayNode { ip, alive: true }).collect()),
        };
        self.index.head_said(&uid, HeadFacts { at: server.now, fingerprint: question.fingerprint, answer });
        self.awake = true;
    }
}

impl Server {
    /// Kinds of which there is anything to tell, or ever was.
    pub fn kinds(&self) -> Vec<Kind> {
        let fixed = [Kind::RayCluster, Kind::Pod, Kind::Service];
        let mut kinds: BTreeSet<Kind> = fixed.into_iter().collect();
        kinds.extend(self.news.keys());
        kinds.extend(self.others.keys().map(|(kind, _)| *kind));
        kinds.into_iter().collect()
    }

    fn list(&self, kind: Kind) -> Vec<Stored> {
        match kind {
            Kind::Pod => self.pods.values().map(|p| Stored::Pod(Box::new(p.clone()))).collect(),
            Kind::RayCluster => self.cluster.iter().map(|c| Stored::Cluster(Box::new(c.clone()))).collect(),
            _ => {
                let of_kind = self.others.iter().filter(|((k, _), _)| *k == kind);
                of_kind.map(|(_, value)| Stored::Other(kind, value.clone())).collect()
            }
        }
    }
}

impl Stored {
    fn name(&self) -> String {
        match self {
            Stored::Pod(pod) => pod.meta.name.clone(),
            Stored::Cluster(_) => NAME.to_owned(),
            Stored::Other(_, value) => value["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        }
    }

    fn version(&self) -> u64 {
        match self {
            Stored::Pod(pod) => version(&pod.meta.resource_version),
            Stored::Cluster(cluster) => version(cluster.metadata.resource_version.as_deref().unwrap_or_default()),
            Stored::Other(_, value) => version(value["metadata"]["resourceVersion"].as_str().unwrap_or_default()),
        }
    }
}

//! The API server of the model: what is stored, how writes change it, what they answer, what the watches will tell.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use ray_operator::api::children::Kind;
use ray_operator::api::names::{FIELD_MANAGER, annotations};
use ray_operator::api::{RayCluster, RayClusterSpec};
use ray_operator::observe::seen::{FailureKind, PodView};
use ray_operator::observe::wire::PodWire;
use ray_operator::plan::{Action, Manifest, Object, Target};
use serde::Deserialize;
use serde_json::{Map, Value, json};

pub const NAMESPACE: &str = "default";
pub const NAME: &str = "model";
/// Counts changes of the spec that mean new pods under `upgradeStrategy: Recreate`.
pub const ERA: &str = "model/era";

/// An object as it is stored. Pods are kept as the operator sees them: nothing else of them matters here.
#[derive(Clone, Debug)]
pub enum Stored {
    Pod(Box<PodView>),
    Cluster(Box<RayCluster>),
    Other(Kind, Value),
}

/// What a watch tells.
#[derive(Clone, Debug)]
pub struct News {
    pub what: Stored,
    pub gone: bool,
}

/// What is remembered of a pod for as long as the history lasts.
#[derive(Clone, Debug, Default)]
pub struct Biography {
    pub was_dead: bool,
    /// What its cluster's spec was when it was made, or adopted.
    pub era: u64,
    pub image: String,
}

pub struct Server {
    pub now: Timestamp,
    pub cluster: Option<RayCluster>,
    pub pods: BTreeMap<String, PodView>,
    pub others: BTreeMap<(Kind, String), Value>,
    /// Not yet told to the operator, oldest first: a queue per kind, as watches are.
    pub news: BTreeMap<Kind, VecDeque<News>>,
    /// Kinds whose creates (or deletes, when true) are refused, and how.
    pub refusals: BTreeMap<(Kind, bool), FailureKind>,
    /// Uids of pods whose node does not answer.
    pub hung: BTreeSet<String>,
    pub lives: BTreeMap<String, Biography>,
    /// Replicas (group, slot, incarnation) that lost a host at some time.
    pub torn: BTreeSet<(String, u32, u32)>,
    /// Uids of clusters that are gone.
    pub dead_owners: BTreeSet<String>,
    /// Writes that changed something.
    pub writes: usize,
    version: u64,
    uids: u64,
}

impl Server {
    pub fn new() -> Self {
        Server {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            cluster: None,
            pods: BTreeMap::new(),
            others: BTreeMap::new(),
            news: BTreeMap::new(),
            refusals: BTreeMap::new(),
            hung: BTreeSet::new(),
            lives: BTreeMap::new(),
            torn: BTreeSet::new(),
            dead_owners: BTreeSet::new(),
            writes: 0,
            version: 1,
            uids: 0,
        }
    }

    pub fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub fn next_uid(&mut self) -> String {
        self.uids += 1;
        format!("c0ffee00-0000-4000-8000-{:012}", self.uids)
    }

    pub fn tell(&mut self, what: Stored, gone: bool) {
        let kind = match &what {
            Stored::Pod(_) => Kind::Pod,
            Stored::Cluster(_) => Kind::RayCluster,
            Stored::Other(kind, _) => *kind,
        };
        self.news.entry(kind).or_default().push_back(News { what, gone });
    }

    pub fn uid(&self) -> &str {
        self.cluster.as_ref().and_then(|c| c.metadata.uid.as_deref()).unwrap_or_default()
    }

    // Writes of the operator.

    /// What a write does, and answers: the object as it is now, or `None` when a delete left nothing.
    pub fn write(&mut self, action: &Action, owner: &RayCluster) -> Result<Option<Stored>, FailureKind> {
        let deletes = matches!(action, Action::Delete(_));
        if let Some(refusal) = self.refusals.get(&(action.kind(), deletes)) {
            return Err(*refusal);
        }
        match action {
            Action::Create(object) => self.create(object, owner).map(Some),
            Action::Patch(manifest) => self.patch(manifest, owner).map(Some),
            Action::Delete(target) => Ok(self.delete(target)),
        }
    }

    fn create(&mut self, object: &Object, owner: &RayCluster) -> Result<Stored, FailureKind> {
        let ours = |uid: &str| Some(uid) == owner.metadata.uid.as_deref();
        let value = match object {
            Object::Pod(pod) => {
                if let Some(there) = self.pods.get(object.name()) {
                    let there = Stored::Pod(Box::new(there.clone()));
                    return if ours(there.owner()) { Ok(there) } else { Err(FailureKind::NameTaken) };
                }
                let value = json!(pod);
                let image = value["spec"]["containers"][0]["image"].as_str().unwrap_or_default().to_owned();
                let mut view: PodView = PodWire::deserialize(value).expect("a pod").into();
                view.meta.uid = self.next_uid();
                view.meta.created = Some(self.now);
                view.meta.resource_version = self.next_version();
                view.phase = "Pending".to_owned();
                let life = Biography { image, era: era(owner), ..Biography::default() };
                self.lives.insert(view.meta.uid.clone(), life);
                self.pods.insert(view.meta.name.clone(), view.clone());
                self.writes += 1;
                let made = Stored::Pod(Box::new(view));
                self.tell(made.clone(), false);
                return Ok(made);
            }
            Object::Service(service) => {
                let mut value = json!(service);
                let spec = value["spec"].as_object_mut().expect("a Service's spec");
                spec.entry("clusterIP").or_insert_with(|| json!("10.96.0.7"));
                value
            }
            Object::Other(manifest) => manifest.value.clone(),
            Object::Token(manifest, key) => {
                let mut value = manifest.value.clone();
                value["data"] = json!({ *key: "dG9rZW4=" });
                value
            }
        };
        let key = (object.kind(), object.name().to_owned());
        if let Some(there) = self.others.get(&key) {
            let there = Stored::Other(key.0, there.clone());
            let free = there.owner().is_empty() && key.0 == Kind::PersistentVolumeClaim;
            return if free || ours(there.owner()) { Ok(there) } else { Err(FailureKind::NameTaken) };
        }
        Ok(self.store(key, value))
    }

    /// Stores a new object that is no pod.
    pub fn store(&mut self, key: (Kind, String), mut value: Value) -> Stored {
        let (uid, version) = (self.next_uid(), self.next_version());
        let meta = &mut value["metadata"];
        meta["uid"] = json!(uid);
        meta["resourceVersion"] = json!(version);
        meta["creationTimestamp"] = json!(self.now.to_string());
        let wrote = meta.clone();
        note_fields(meta, &wrote);
        self.writes += 1;
        self.others.insert(key.clone(), value.clone());
        let made = Stored::Other(key.0, value);
        self.tell(made.clone(), false);
        made
    }

    fn patch(&mut self, manifest: &Manifest, owner: &RayCluster) -> Result<Stored, FailureKind> {
        let change = &manifest.value;
        let uid = change["metadata"]["uid"].as_str();
        match manifest.kind {
            Kind::Pod => {
                let there = self.pods.get(&manifest.name).filter(|p| uid.is_none_or(|u| u == p.meta.uid));
                let before = there.cloned().ok_or(FailureKind::Unavailable)?;
                if change["metadata"]["annotations"][annotations::TEMPLATE_PARTS].is_string() {
                    let life = self.lives.entry(before.meta.uid.clone()).or_default();
                    (life.era, life.image) = (era(owner), image_for(owner, &before));
                }
                self.change(&manifest.name, |pod| {
                    merge_strings(&mut pod.meta.labels, &change["metadata"]["labels"]);
                    merge_strings(&mut pod.meta.annotations, &change["metadata"]["annotations"]);
                });
                self.writes += 1;
                Ok(Stored::Pod(Box::new(self.pods[&manifest.name].clone())))
            }
            Kind::RayCluster => {
                let version = change["metadata"]["resourceVersion"].as_str();
                let same = |c: &&RayCluster| {
                    uid.is_none_or(|u| Some(u) == c.metadata.uid.as_deref())
                        && version.is_none_or(|v| Some(v) == c.metadata.resource_version.as_deref())
                };
                let there = self.cluster.as_ref().filter(same);
                let mut value = json!(there.ok_or(FailureKind::Unavailable)?);
                merge(&mut value, change);
                let mut cluster: RayCluster = serde_json::from_value(value).expect("a RayCluster");
                cluster.metadata.resource_version = Some(self.next_version());
                self.writes += 1;
                self.cluster = Some(cluster.clone());
                let made = Stored::Cluster(Box::new(cluster));
                self.tell(made.clone(), false);
                self.release();
                Ok(made)
            }
            kind => {
                let key = (kind, manifest.name.clone());
                let there = self.others.get(&key).filter(|o| uid.is_none_or(|u| o["metadata"]["uid"] == u));
                let before = there.cloned().ok_or(FailureKind::Unavailable)?;
                let mut after = before.clone();
                merge(&mut after, change);
                note_fields(&mut after["metadata"], &change["metadata"]);
                if after != before {
                    self.writes += 1;
                    after["metadata"]["resourceVersion"] = json!(self.next_version());
                    self.others.insert(key, after.clone());
                    self.tell(Stored::Other(kind, after.clone()), false);
                }
                Ok(Stored::Other(kind, after))
            }
        }
    }

    fn delete(&mut self, target: &Target) -> Option<Stored> {
        if target.kind == Kind::Pod {
            let pod = self.pods.get(&target.name).filter(|p| target.uid.is_empty() || p.meta.uid == target.uid)?;
            self.writes += 1;
            if pod.node.is_none() {
                self.vanish(&target.name);
                return None;
            }
            self.begin_deletion(&target.name);
            return Some(Stored::Pod(Box::new(self.pods[&target.name].clone())));
        }
        let key = (target.kind, target.name.clone());
        let same = |o: &Value| target.uid.is_empty() || o["metadata"]["uid"] == *target.uid;
        if self.others.get(&key).is_some_and(same) {
            self.writes += 1;
            self.remove(&key);
        }
        None
    }

    /// The status as a merge patch, as the operator sends it.
    pub fn patch_status(&mut self, uid: &str, difference: &Value) -> Result<Option<RayCluster>, FailureKind> {
        let Some(there) = self.cluster.as_mut().filter(|c| c.metadata.uid.as_deref() == Some(uid)) else {
            return Ok(None);
        };
        let mut status = json!(there.status.clone().unwrap_or_default());
        merge(&mut status, difference);
        there.status = Some(serde_json::from_value(status).expect("a status"));
        let version = self.next_version();
        let there = self.cluster.as_mut().expect("the cluster");
        there.metadata.resource_version = Some(version);
        let now = there.clone();
        self.tell(Stored::Cluster(Box::new(now.clone())), false);
        Ok(Some(now))
    }

    // The user.

    /// Stores a new RayCluster.
    pub fn apply(&mut self, mut cluster: RayCluster) {
        cluster.metadata.uid = Some(self.next_uid());
        cluster.metadata.generation = Some(1);
        cluster.metadata.resource_version = Some(self.next_version());
        self.cluster = Some(cluster.clone());
        self.tell(Stored::Cluster(Box::new(cluster)), false);
    }

    pub fn edit(&mut self, change: impl FnOnce(&mut RayCluster)) {
        let version = self.next_version();
        let Some(cluster) = &mut self.cluster else { return };
        let before = cluster.spec.clone();
        change(cluster);
        if cluster.spec == before {
            return;
        }
        let era = era(cluster) + u64::from(lasting(&before) != lasting(&cluster.spec));
        cluster.metadata.annotations.get_or_insert_default().insert(ERA.to_owned(), era.to_string());
        cluster.metadata.generation = cluster.metadata.generation.map(|g| g + 1);
        cluster.metadata.resource_version = Some(version);
        let cluster = cluster.clone();
        self.tell(Stored::Cluster(Box::new(cluster)), false);
    }

    /// Somebody deletes the cluster. With `foreground` it stays until its children are gone.
    pub fn delete_cluster(&mut self, foreground: bool) {
        let (version, now) = (self.next_version(), self.now);
        let Some(cluster) = self.cluster.as_mut().filter(|c| c.metadata.deletion_timestamp.is_none()) else { return };
        cluster.metadata.deletion_timestamp = Some(Time(now));
        cluster.metadata.resource_version = Some(version);
        if foreground {
            cluster.metadata.finalizers.get_or_insert_default().push("foregroundDeletion".to_owned());
        }
        let cluster = cluster.clone();
        self.tell(Stored::Cluster(Box::new(cluster)), false);
        self.release();
    }

    /// A cluster that is being deleted goes when nothing holds it any more.
    fn release(&mut self) {
        let version = self.next_version();
        let held = |c: &RayCluster| {
            c.metadata.deletion_timestamp.is_none() || c.metadata.finalizers.as_ref().is_some_and(|f| !f.is_empty())
        };
        if let Some(mut gone) = self.cluster.take_if(|c| !held(c)) {
            gone.metadata.resource_version = Some(version);
            self.dead_owners.extend(gone.metadata.uid.clone());
            self.tell(Stored::Cluster(Box::new(gone)), true);
        }
    }

    // The garbage collector.

    pub fn collect(&mut self) {
        let foreground = |c: &RayCluster| c.metadata.finalizers.iter().flatten().any(|f| f == "foregroundDeletion");
        let mut owners = self.dead_owners.clone();
        let waiting = self.cluster.as_ref().filter(|c| foreground(c)).and_then(|c| c.metadata.uid.clone());
        owners.extend(waiting.clone());
        let pods: Vec<String> =
            self.pods.values().filter(|p| owners.contains(&p.meta.owner_uid)).map(|p| p.meta.name.clone()).collect();
        for name in &pods {
            match self.pods[name].node {
                None => self.vanish(name),
                Some(_) => self.begin_deletion(name),
            }
        }
        let others: Vec<(Kind, String)> =
            self.others.iter().filter(|(_, o)| owners.contains(owner_uid(o))).map(|(k, _)| k.clone()).collect();
        for key in &others {
            self.remove(key);
        }
        if waiting.is_some_and(|uid| self.pods.values().all(|p| p.meta.owner_uid != uid))
            && let Some(cluster) = &mut self.cluster
        {
            cluster.metadata.finalizers.iter_mut().for_each(|f| f.retain(|f| f != "foregroundDeletion"));
            self.release();
        }
    }

    pub fn remove(&mut self, key: &(Kind, String)) {
        if let Some(mut gone) = self.others.remove(key) {
            gone["metadata"]["resourceVersion"] = json!(self.next_version());
            self.tell(Stored::Other(key.0, gone), true);
        }
    }

    pub fn begin_deletion(&mut self, name: &str) {
        let gone_by = self.now + SignedDuration::from_secs(30);
        if self.pods.get(name).is_some_and(|p| p.meta.deleting.is_none()) {
            self.change(name, |pod| pod.meta.deleting = Some(gone_by));
            self.tear(name);
        }
    }
}

impl Stored {
    pub fn owner(&self) -> &str {
        match self {
            Stored::Pod(pod) => &pod.meta.owner_uid,
            Stored::Cluster(cluster) => cluster.metadata.uid.as_deref().unwrap_or_default(),
            Stored::Other(_, value) => owner_uid(value),
        }
    }
}

pub fn era(cluster: &RayCluster) -> u64 {
    let text = cluster.metadata.annotations.as_ref().and_then(|a| a.get(ERA));
    text.and_then(|e| e.parse().ok()).unwrap_or(0)
}

/// What of a spec means new pods when it changes under `upgradeStrategy: Recreate`.
fn lasting(spec: &RayClusterSpec) -> RayClusterSpec {
    let mut spec = RayClusterSpec { suspend: None, upgrade_strategy: None, ..spec.clone() };
    for group in spec.worker_group_specs.iter_mut().flatten() {
        (group.replicas, group.min_replicas, group.max_replicas) = (None, None, None);
        (group.suspend, group.scale_strategy) = (None, None);
    }
    spec
}

/// The image that a pod would have if it were made today.
pub fn image_for(cluster: &RayCluster, pod: &PodView) -> String {
    let group = pod.label(ray_operator::api::names::labels::GROUP);
    let worker = cluster.spec.groups().iter().find(|g| g.group_name == group).map(|g| &g.template);
    let template = worker.unwrap_or(&cluster.spec.head_group_spec.template);
    let container = template.spec.as_ref().and_then(|s| s.containers.first());
    container.and_then(|c| c.image.clone()).unwrap_or_default()
}

fn owner_uid(value: &Value) -> &str {
    value["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default()
}

/// RFC 7386.
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Value::Object(fields) = target else { return };
    for (key, change) in changes {
        if change.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key).or_insert(Value::Null), change);
        }
    }
}

/// As [`merge`], on labels or annotations as views have them.
fn merge_strings(map: &mut BTreeMap<String, String>, change: &Value) {
    for (key, value) in change.as_object().into_iter().flatten() {
        match value.as_str() {
            Some(value) => _ = map.insert(key.clone(), value.to_owned()),
            None => _ = map.remove(key),
        }
    }
}

/// Keeps account of the labels and annotations that the operator wrote.
fn note_fields(meta: &mut Value, wrote: &Value) {
    let mut entries: Vec<Value> = meta["managedFields"].as_array().cloned().unwrap_or_default();
    if !entries.iter().any(|e| e["manager"] == FIELD_MANAGER) {
        entries.push(json!({"manager": FIELD_MANAGER, "fieldsV1": {"f:metadata": {}}}));
    }
    let ours = entries.iter_mut().find(|e| e["manager"] == FIELD_MANAGER).expect("our entry");
    for part in ["labels", "annotations"] {
        let fields = &mut ours["fieldsV1"]["f:metadata"][format!("f:{part}")];
        let mut keys: Map<String, Value> = fields.as_object().cloned().unwrap_or_default();
        for (key, value) in wrote[part].as_object().into_iter().flatten() {
            match value {
                Value::Null => _ = keys.remove(&format!("f:{key}")),
                _ => _ = keys.insert(format!("f:{key}"), json!({})),
            }
        }
        *fields = Value::Object(keys);
    }
    meta["managedFields"] = Value::Array(entries);
}

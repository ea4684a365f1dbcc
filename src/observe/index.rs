//! Children by owner, kept current by the watches and by the answers to our own writes, so that a pass never decides
//! on less than this process has done already.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::api::names::labels;

use super::seen::{
    ChildView, Departed, Failure, HeadFacts, Meta, NodesSeen, Place, PodView, Seen, ServiceView, uncontrolled,
};

/// How long a uid that went is remembered, so that a late answer to a write cannot bring it back.
const TOMBSTONE: SignedDuration = SignedDuration::from_mins(2);
/// How long a place remembers who stood there.
const MEMORY: SignedDuration = SignedDuration::from_mins(15);

/// Something that a RayCluster can own.
pub trait Child: Clone + PartialEq + Send + Sync + 'static {
    fn meta(&self) -> &Meta;
    fn meta_mut(&mut self) -> &mut Meta;
    /// Unique among its family in a namespace: the name, with the kind before it where a family has several.
    fn key(&self) -> Cow<'_, str> {
        self.meta().name.as_str().into()
    }
    /// The cluster whose head Service finds it.
    fn head_of(&self) -> Option<&str> {
        None
    }
    fn family(inner: &mut Inner) -> &mut Family<Self>;
    /// Called when one is gone for good.
    fn departed(_inner: &mut Inner, _gone: &Arc<Self>, _now: Timestamp) {}

    /// Its resource version as a number.
    fn version(&self) -> u64 {
        version(&self.meta().resource_version)
    }
    /// Nothing that matters differs: at most the resource version.
    fn same(&self, other: &Self) -> bool {
        let mut other = other.clone();
        other.meta_mut().resource_version.clone_from(&self.meta().resource_version);
        *self == other
    }
}

/// All children of one kind.
#[derive(Debug)]
pub struct Family<V> {
    owner_of: HashMap<(String, String), String>,
    by_owner: HashMap<String, BTreeMap<String, Arc<V>>>,
    /// Names by namespace and cluster, of those that a cluster's head Service finds.
    heads: HashMap<(String, String), BTreeSet<String>>,
}

impl<V> Default for Family<V> {
    fn default() -> Self {
        Family { owner_of: HashMap::new(), by_owner: HashMap::new(), heads: HashMap::new() }
    }
}

impl<V: Child> Family<V> {
    fn find(&self, namespace: &str, name: &str) -> Option<&Arc<V>> {
        let owner = self.owner_of.get(&(namespace.to_owned(), name.to_owned()))?;
        self.by_owner.get(owner)?.get(name)
    }

    fn insert(&mut self, view: Arc<V>) {
        let key = (view.meta().namespace.clone(), view.key().into_owned());
        self.take(&key);
        if let Some(cluster) = view.head_of() {
            self.heads.entry((key.0.clone(), cluster.to_owned())).or_default().insert(key.1.clone());
        }
        self.owner_of.insert(key, view.meta().owner_uid.clone());
        self.by_owner.entry(view.meta().owner_uid.clone()).or_default().insert(view.key().into_owned(), view);
    }

    fn take(&mut self, key: &(String, String)) -> Option<Arc<V>> {
        let owner = self.owner_of.remove(key)?;
        let siblings = self.by_owner.get_mut(&owner)?;
        let gone = siblings.remove(&key.1);
        if siblings.is_empty() {
            self.by_owner.remove(&owner);
        }
        if let Some(cluster) = gone.as_ref().and_then(|g| g.head_of()) {
            let shelf = (key.0.clone(), cluster.to_owned());
            if let Some(names) = self.heads.get_mut(&shelf) {
                names.remove(&key.1);
                if names.is_empty() {
                    self.heads.remove(&shelf);
                }
            }
        }
        gone
    }

    fn of(&self, owner: &str) -> BTreeMap<String, Arc<V>> {
        self.by_owner.get(owner).cloned().unwrap_or_default()
    }
}

/// What is kept about one owner beside its children.
#[derive(Debug, Default)]
struct Memory {
    failures: Vec<Failure>,
    head: Option<HeadFacts>,
    departed: BTreeMap<Place, Departed>,
    attempted: BTreeMap<Place, u32>,
}

/// The maps, under one lock that is held for the length of a lookup only.
#[derive(Debug, Default)]
pub struct Inner {
    pods: Family<PodView>,
    services: Family<ServiceView>,
    others: Family<ChildView>,
    memory: HashMap<String, Memory>,
    tombstones: HashMap<String, Tombstone>,
    /// When each tombstone was set, oldest first.
    buried: VecDeque<(Timestamp, String)>,
}

/// The version in which a child went from our sight. An older view of it is late news; that version itself or a newer
/// one is not: a child can lose the label that a watch selects by, and live on.
#[derive(Clone, Copy, Debug)]
struct Tombstone {
    version: u64,
}

/// The version of a child that is gone for certain: the API server said so.
pub const FOR_EVER: u64 = u64::MAX;

/// What a complete list showed.
#[derive(Debug, Default)]
pub struct Listed {
    /// Namespace and name of each.
    pub keys: HashSet<(String, String)>,
    /// The newest version among them: the list is no older.
    pub newest: u64,
    /// Uids that were known when the list began.
    pub known: HashSet<String>,
}

/// Who is to be looked at again: namespace, name and uid of an owner.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

#[derive(Debug, Default)]
pub struct Index {
    inner: Mutex<Inner>,
}

impl Index {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Every change is complete before the lock is let go, so a panic elsewhere leaves nothing half done.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a child from a watch or from the answer to a write. Says whose it is, and was, if anything that matters
    /// changed; an older version than the one held, or than the one in which it went, changes nothing.
    pub fn apply<V: Child>(&self, view: V) -> Vec<Owner> {
        let mut inner = self.lock();
        if inner.tombstones.get(&view.meta().uid).is_some_and(|t| view.version() < t.version) {
            return Vec::new();
        }
        let family = V::family(&mut inner);
        let known = family.find(&view.meta().namespace, &view.key()).cloned();
        // Also when it bears another uid: then it is late news of an earlier one of that name.
        if known.as_ref().is_some_and(|k| k.version() > view.version()) {
            return Vec::new();
        }
        if view.meta().owner_uid.is_empty() {
            let key = (view.meta().namespace.clone(), view.key().into_owned());
            return family.take(&key).map(|gone| owner_of(&*gone)).into_iter().collect();
        }
        let news = known.as_ref().is_none_or(|k| !k.same(&view));
        let mut owners: Vec<Owner> = Vec::new();
        owners.extend(known.filter(|k| k.meta().owner_uid != view.meta().owner_uid).map(|k| owner_of(&*k)));
        owners.extend(news.then(|| owner_of(&view)));
        family.insert(Arc::new(view));
        owners
    }

    /// Takes in the answer to a delete: the child as it leaves. If the watch has said already that it is gone, it is.
    pub fn leaves<V: Child>(&self, view: V) {
        let gone = self.lock().tombstones.contains_key(&view.meta().uid);
        if !gone {
            self.apply(view);
        }
    }

    /// Takes out a child that went in `version` ([`FOR_EVER`] when the API server said that it is gone). `uid` guards
    /// against a successor of the same name.
    pub fn remove<V: Child>(
        &self,
        namespace: &str,
        key: &str,
        uid: &str,
        version: u64,
        now: Timestamp,
    ) -> Option<Owner> {
        let mut inner = self.lock();
        inner.bury(uid, version, now);
        let family = V::family(&mut inner);
        if family.find(namespace, key).is_none_or(|v| v.meta().uid != uid) {
            return None;
        }
        let gone = family.take(&(namespace.to_owned(), key.to_owned()))?;
        V::departed(&mut inner, &gone, now);
        Some(owner_of(&*gone))
    }

    /// Uids of all known children that `within` says yes to.
    pub fn known<V: Child>(&self, within: impl Fn(&V) -> bool) -> HashSet<String> {
        let mut inner = self.lock();
        let all = V::family(&mut inner).by_owner.values().flat_map(BTreeMap::values);
        all.filter(|v| within(v)).map(|v| v.meta().uid.clone()).collect()
    }

    /// Takes out the children `within` the list's scope that a complete list did not show. A child that came to be known while the list
    /// was read, by the answer to our own create, is younger than the list and stays.
    pub fn retain<V: Child>(&self, within: impl Fn(&V) -> bool, listed: &Listed, now: Timestamp) -> Vec<Owner> {
        let absent: Vec<(String, String, String)> = {
            let mut inner = self.lock();
            let all = V::family(&mut inner).by_owner.values().flat_map(BTreeMap::values);
            all.filter(|v| within(v))
                .filter(|v| !listed.keys.contains(&(v.meta().namespace.clone(), v.meta().name.clone())))
                .filter(|v| listed.known.contains(&v.meta().uid) || v.version() <= listed.newest)
                .map(|v| (v.meta().namespace.clone(), v.key().into_owned(), v.meta().uid.clone()))
                .collect()
        };
        let gone = |(namespace, key, uid): &(String, String, String)| {
            self.remove::<V>(namespace, key, uid, listed.newest, now)
        };
        absent.iter().filter_map(gone).collect()
    }

    /// All that is known about an owner and its children. Nodes are nobody's children.
    pub fn seen(&self, owner: &Owner) -> Seen {
        let inner = self.lock();
        let owner_uid = owner.uid.as_str();
        let memory = inner.memory.get(owner_uid);
        let heads = inner.pods.heads.get(&(owner.namespace.clone(), owner.name.clone())).into_iter().flatten();
        let heads = heads.filter_map(|name| inner.pods.find(&owner.namespace, name));
        Seen {
            other_heads: heads
                .filter(|p| p.meta.owner_uid != owner_uid && p.meta.owner_name == owner.name)
                .cloned()
                .collect(),
            pods: inner.pods.of(owner_uid),
            services: inner.services.of(owner_uid),
            others: inner
                .others
                .of(owner_uid)
                .into_values()
                .chain(inner.others.of(&uncontrolled(&owner.namespace, &owner.name)).into_values())
                .map(|c| ((c.kind, c.meta.name.clone()), c))
                .collect(),
            nodes: NodesSeen::NotYet,
            failures: memory.map(|m| m.failures.clone()).unwrap_or_default(),
            head: memory.and_then(|m| m.head.clone()),
            departed: memory.map(|m| m.departed.clone()).unwrap_or_default(),
            attempted: memory.map(|m| m.attempted.clone()).unwrap_or_default(),
        }
    }

    /// Remembers a failed effect. A failure of the same step and scope keeps its first time; it counts up, and its
    /// delay grows, only if the last delay was waited for. Returns it as kept, and whether a person should hear of it
    /// (it is new, or of another kind).
    pub fn failed(
        &self,
        owner_uid: &str,
        mut failure: Failure,
        now: Timestamp,
        delay: impl Fn(u32) -> SignedDuration,
    ) -> (Failure, bool) {
        let mut inner = self.lock();
        failure.retry_at = now + delay(1);
        let Some(memory) = inner.memory.get_mut(owner_uid) else { return (failure, true) };
        let list = &mut memory.failures;
        let known = list.iter_mut().find(|f| f.step == failure.step && f.scope == failure.scope);
        let mut news = true;
        if let Some(known) = known {
            failure.since = known.since;
            (failure.times, failure.retry_at) = if known.retry_at > now {
                (known.times, known.retry_at)
            } else {
                (known.times.saturating_add(1), now + delay(known.times.saturating_add(1)))
            };
            news = known.kind != failure.kind;
            *known = failure.clone();
        } else {
            list.push(failure.clone());
        }
        (failure, news)
    }

    /// Forgets the failures that `still` does not hold on to.
    pub fn keep_failures(&self, owner_uid: &str, still: impl Fn(&Failure) -> bool) {
        if let Some(memory) = self.lock().memory.get_mut(owner_uid) {
            memory.failures.retain(still);
        }
    }

    /// A create for this place is on its way.
    pub fn attempt(&self, owner_uid: &str, place: Place, incarnation: u32) {
        if let Some(memory) = self.lock().memory.get_mut(owner_uid) {
            memory.attempted.insert(place, incarnation);
        }
    }

    /// The create for this place was answered: it is known what came of it. A watch does not tell as much: what it shows
    /// may be an earlier pod of that name.
    pub fn settled(&self, owner_uid: &str, place: &Place) {
        if let Some(memory) = self.lock().memory.get_mut(owner_uid) {
            memory.attempted.remove(place);
        }
    }

    /// Failures that stand, oldest first.
    pub fn failures(&self, owner_uid: &str) -> Vec<Failure> {
        self.lock().memory.get(owner_uid).map(|m| m.failures.clone()).unwrap_or_default()
    }

    /// What the head said last.
    pub fn head(&self, owner_uid: &str) -> Option<HeadFacts> {
        self.lock().memory.get(owner_uid).and_then(|m| m.head.clone())
    }

    pub fn head_said(&self, owner_uid: &str, facts: HeadFacts) {
        if let Some(memory) = self.lock().memory.get_mut(owner_uid) {
            memory.head = Some(facts);
        }
    }

    /// Begins to remember things about an owner. Nothing is remembered about owners that were never welcomed, or that
    /// are gone, so nothing leaks.
    pub fn welcome(&self, owner_uid: &str) {
        self.lock().memory.entry(owner_uid.to_owned()).or_default();
    }

    /// Drops what is remembered about an owner that is gone. Its children leave when the watch says so.
    pub fn forget(&self, owner_uid: &str) {
        self.lock().memory.remove(owner_uid);
    }
}

impl Inner {
    fn bury(&mut self, uid: &str, version: u64, now: Timestamp) {
        while self.buried.front().is_some_and(|(at, _)| now.duration_since(*at) >= TOMBSTONE) {
            if let Some((_, old)) = self.buried.pop_front() {
                self.tombstones.remove(&old);
            }
        }
        self.buried.push_back((now, uid.to_owned()));
        let stone = self.tombstones.entry(uid.to_owned()).or_insert(Tombstone { version });
        stone.version = stone.version.max(version);
    }
}

fn owner_of<V: Child>(view: &V) -> Owner {
    Owner {
        namespace: view.meta().namespace.clone(),
        name: view.meta().owner_name.clone(),
        uid: view.meta().owner_uid.clone(),
    }
}

/// Resource versions of one resource can be compared as numbers (Kubernetes API, since v1.35 by contract).
pub fn version(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}

impl Child for PodView {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }
    fn head_of(&self) -> Option<&str> {
        (self.label(labels::NODE_TYPE) == "head").then(|| self.label(labels::CLUSTER))
    }
    fn family(inner: &mut Inner) -> &mut Family<Self> {
        &mut inner.pods
    }
    fn departed(inner: &mut Inner, gone: &Arc<Self>, now: Timestamp) {
        let Some(place) = gone.place() else { return };
        if let Some(memory) = inner.memory.get_mut(&gone.meta.owner_uid) {
            memory.departed.retain(|_, d| now.duration_since(d.at) < MEMORY);
            memory.departed.insert(place, Departed { pod: Arc::clone(gone), at: now });
        }
    }
}

impl Child for ServiceView {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }
    fn family(inner: &mut Inner) -> &mut Family<Self> {
        &mut inner.services
    }
}

impl Child for ChildView {
    fn meta(&self) -> &Meta {
        &self.meta
    }
    fn meta_mut(&mut self) -> &mut Meta {
        &mut self.meta
    }
    fn key(&self) -> Cow<'_, str> {
        ChildView::key_of(self.kind, &self.meta.name).into()
    }
    fn family(inner: &mut Inner) -> &mut Family<Self> {
        &mut inner.others
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, version: &str) -> PodView {
        let meta = Meta {
            name: "worker".to_owned(),
            namespace: "team".to_owned(),
            uid: uid.to_owned(),
            owner_uid: "cluster".to_owned(),
            resource_version: version.to_owned(),
            ..Meta::default()
        };
        PodView { meta, ..PodView::default() }
    }

    #[test]
    fn late_news_of_an_earlier_bearer_of_the_name_changes_nothing() {
        let index = Index::default();
        let owner = Owner { namespace: "team".to_owned(), name: "c".to_owned(), uid: "cluster".to_owned() };
        let uid = || index.seen(&owner).pods.get("worker").map(|p| p.meta.uid.clone());
        // Our create was answered; only now the watch tells how an earlier pod came and went.
        index.apply(pod("second", "7"));
        assert_eq!(uid().as_deref(), Some("second"), "it is there");
        index.apply(pod("first", "5"));
        index.remove::<PodView>("team", "worker", "first", 6, Timestamp::UNIX_EPOCH);
        assert_eq!(uid().as_deref(), Some("second"));
        index.apply(pod("third", "9"));
        assert_eq!(uid().as_deref(), Some("third"), "newer news does");
    }
}

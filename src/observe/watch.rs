//! One watch task per kind and namespace. Each has its own back-off, so a sick one slows nobody else.

use std::collections::HashSet;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::jiff::Timestamp;
use kube::api::Api;
use kube::core::{DeserializeGuard, DynamicResourceScope, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::reflector::{Store, store::Writer};
use kube::runtime::watcher::{self, Event, InitialListStrategy, watcher};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use std::sync::{Mutex, PoisonError};

use super::child::ChildWire;
use super::index::{Child, Index, Listed, Owner, version};
use super::nodes::Nodes;
use super::seen::{ChildView, PodView, Seen, ServiceView};
use super::triggers::Triggers;
use super::unreadable::Complaints;
use super::wire::{PodWire, ServiceWire};
use crate::api::RayCluster;
use crate::api::accelerators::asked_for;
use crate::api::children::Kind;

/// Pods that any Ray controller cares for; the rest of the cluster's pods never reach us (KubeRay's selector).
const POD_SELECTOR: &str = "ray.io/node-type in (head,worker,redis-cleanup)";
const SERVICE_SELECTOR: &str = "ray.io/cluster";
/// A watch that was refused is tried again within this time, so that granted rights take effect soon.
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The RayClusters, and the lock under which both the watch and the answers to our own status writes update them.
pub struct Clusters {
    writer: Mutex<Writer<RayCluster>>,
    pub store: Store<RayCluster>,
}

impl Default for Clusters {
    fn default() -> Self {
        let mut writer = Writer::<RayCluster>::new(());
        let store = writer.as_reader();
        // kube's applier holds all passes until the store has had one complete list. Passes begin after all caches are
        // full anyway, and lists come in one by one here, so it is told at once.
        writer.apply_watcher_event(&Event::Init);
        writer.apply_watcher_event(&Event::InitDone);
        Clusters { writer: Mutex::new(writer), store }
    }
}

impl Clusters {
    /// Takes in what the watch says; an older version changes nothing. Says whether it was news, and the uid of another
    /// cluster that bore the name before.
    fn apply(&self, cluster: RayCluster) -> (bool, Option<String>) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.store.get(&ObjectRef::from_obj(&cluster));
        let (same, other): (Vec<_>, Vec<_>) = known.into_iter().partition(|k| k.metadata.uid == cluster.metadata.uid);
        let stale = same.iter().any(|k| version_of(k) >= version_of(&cluster));
        if !stale {
            writer.apply_watcher_event(&Event::Apply(cluster));
        }
        (!stale, other.into_iter().find_map(|k| k.metadata.uid.clone()))
    }

    /// Takes in the answer to a write of ours, unless the cluster is gone meanwhile or another one bears its name.
    pub fn answered(&self, cluster: RayCluster) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.store.get(&ObjectRef::from_obj(&cluster));
        let current = |k: &RayCluster| k.metadata.uid == cluster.metadata.uid && version_of(k) < version_of(&cluster);
        if known.as_deref().is_some_and(current) {
            writer.apply_watcher_event(&Event::Apply(cluster));
        }
    }

    fn remove(&self, cluster: &RayCluster) {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if self.store.get(&ObjectRef::from_obj(cluster)).is_some_and(|k| k.metadata.uid == cluster.metadata.uid) {
            writer.apply_watcher_event(&Event::Delete(cluster.clone()));
        }
    }
}

fn version_of(cluster: &RayCluster) -> u64 {
    version(cluster.metadata.resource_version.as_deref().unwrap_or_default())
}

/// What the watch tasks share.
#[derive(Clone, Default)]
pub struct Observed {
    pub index: Arc<Index>,
    pub clusters: Arc<Clusters>,
    pub nodes: Arc<Nodes>,
    pub triggers: Arc<Triggers>,
    pub complaints: Arc<Complaints>,
}

impl Observed {
    /// All that a planner may know about an owner's surroundings.
    pub fn seen(&self, owner: &Owner) -> Seen {
        Seen { nodes: self.nodes.seen(), ..self.index.seen(owner) }
    }
}

/// Told of every complete picture (`Ok`) and of every trouble on the way, with what is watched.
pub type Report = Arc<dyn Fn(&str, Result<(), &watcher::Error>) + Send + Sync>;

/// Without these a planner would decide on nothing: all must have been listed before the first pass.
const NEEDED: [Kind; 3] = [Kind::RayCluster, Kind::Pod, Kind::Service];
/// Kinds that every cluster has and that some RayClusters use.
pub const OTHERS: [Kind; 8] = [
    Kind::ServiceAccount,
    Kind::Role,
    Kind::RoleBinding,
    Kind::Secret,
    Kind::PersistentVolumeClaim,
    Kind::NetworkPolicy,
    Kind::Ingress,
    Kind::Job,
];

/// What is watched: namespaces (all when `None`), and kinds beside the needed ones.
#[derive(Clone, Debug)]
pub struct Scope {
    pub namespace: Option<String>,
    pub others: Vec<Kind>,
}

impl Scope {
    fn name(&self, kind: Kind) -> String {
        let at = self.namespace.as_ref().map(|n| format!(" in namespace {n}")).unwrap_or_default();
        format!("{}{at}", kind.plural())
    }

    /// What the watches that passes cannot do without are called in reports.
    pub fn needed(&self) -> impl Iterator<Item = String> + '_ {
        NEEDED.into_iter().map(|kind| self.name(kind))
    }

    /// What the others are called. They may be refused: that costs their kind only.
    pub fn others(&self) -> impl Iterator<Item = String> + '_ {
        self.others.iter().map(|kind| self.name(*kind))
    }

    fn api<K>(&self, client: &Client) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(client.clone(), namespace),
            None => Api::all(client.clone()),
        }
    }

    fn api_of<K>(&self, client: &Client, kind: Kind) -> Api<K>
    where
        K: Resource<DynamicType = Kind, Scope = DynamicResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
            None => Api::all_with(client.clone(), &kind),
        }
    }
}

/// Runs all watches of a scope, until dropped.
pub async fn run(client: Client, scope: Scope, observed: Observed, report: Report) {
    let clusters = ClusterSink { observed: observed.clone(), scope: scope.namespace.clone() };
    let config = watcher::Config::default();
    let labelled = config.clone().labels(SERVICE_SELECTOR);
    let whole = scope.others.iter().copied().filter(|kind| *kind != Kind::Secret);
    let others = whole.map(|kind| {
        let sink =
            ChildSink::new(&observed, &scope, move |v: &ChildView| v.kind == kind, move |w: ChildWire| w.view(kind));
        follow(scope.api_of::<ChildWire>(&client, kind), labelled.clone(), scope.name(kind), sink, &report)
    });
    // Of Secrets the metadata alone: what is in them never comes here.
    let secrets = ChildSink::new(
        &observed,
        &scope,
        |v: &ChildView| v.kind == Kind::Secret,
        |w: PartialObjectMeta<ChildWire>| ChildWire::from(w).view(Kind::Secret),
    );
    let secret_api = scope.api_of::<PartialObjectMeta<ChildWire>>(&client, Kind::Secret);
    let pods = ChildSink::new(&observed, &scope, |_: &PodView| true, |w: PodWire| w.into());
    let services = ChildSink::new(&observed, &scope, |_: &ServiceView| true, |w: ServiceWire| w.into());
    let cluster_api = scope.api::<DeserializeGuard<RayCluster>>(&client);
    let (pod_api, service_api) = (scope.api::<PodWire>(&client), scope.api::<ServiceWire>(&client));
    tokio::join!(
        follow(cluster_api, config.clone(), scope.name(Kind::RayCluster), clusters, &report),
        follow(pod_api, config.labels(POD_SELECTOR), scope.name(Kind::Pod), pods, &report),
        follow(service_api, labelled.clone(), scope.name(Kind::Service), services, &report),
        follow(secret_api, labelled.clone(), scope.name(Kind::Secret), secrets, &report),
        join_all(others),
    );
}

/// Where the objects of one watch go.
pub(super) trait Sink<K> {
    fn apply(&mut self, object: K);
    fn remove(&mut self, object: K);
    /// Uids that are known as a list begins.
    fn known(&self) -> HashSet<String>;
    /// A complete list has been read; what it did not show is gone.
    fn complete(&mut self, listed: Listed);
}

/// One watch, with its back-off, for ever.
pub(super) async fn follow<K, S>(api: Api<K>, config: watcher::Config, what: String, mut sink: S, report: &Report)
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
    S: Sink<K>,
{
    let mut config = config.streaming_lists();
    let mut listed = Listed::default();
    loop {
        let pause = watcher::DefaultBackoff::default();
        let mut events = pin!(watcher(api.clone(), config.clone()).backoff(Bounded(pause)));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed = Listed { known: sink.known(), ..Listed::default() },
                Ok(Event::InitApply(object)) => {
                    listed.keys.insert((object.namespace().unwrap_or_default(), object.name_any()));
                    listed.newest = listed.newest.max(version(&object.resource_version().unwrap_or_default()));
                    sink.apply(object);
                }
                Ok(Event::InitDone) => {
                    sink.complete(std::mem::take(&mut listed));
                    report(&what, Ok(()));
                }
                Ok(Event::Apply(object)) => sink.apply(object),
                Ok(Event::Delete(object)) => sink.remove(object),
                Err(error) if streaming(&config) && refuses_streaming(&error) => {
                    config.initial_list_strategy = InitialListStrategy::ListWatch;
                    break;
                }
                Err(error) => report(&what, Err(&error)),
            }
        }
    }
}

fn streaming(config: &watcher::Config) -> bool {
    config.initial_list_strategy == InitialListStrategy::StreamingList
}

/// A server without streaming lists says 400 or 422 to them, and kube has no fallback of its own.
fn refuses_streaming(error: &watcher::Error) -> bool {
    code(error).is_some_and(|code| matches!(code, 400 | 422))
}

/// With which code the API server refused, if it did.
pub(super) fn code(error: &watcher::Error) -> Option<u16> {
    match error {
        watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::InitialListFailed(kube::Error::Api(status)) => Some(status.code),
        watcher::Error::WatchError(status) => Some(status.code),
        _ => None,
    }
}

/// What went wrong, in the words of the API server where it spoke.
pub fn words(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// kube's default back-off, capped.
struct Bounded(watcher::DefaultBackoff);

impl Iterator for Bounded {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.0.next().unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE))
    }
}

impl kube::runtime::utils::Backoff for Bounded {
    fn reset(&mut self) {
        self.0.reset();
    }
}

/// Children of one kind. `mine` tells them from the others of their family.
struct ChildSink<V, M, F> {
    observed: Observed,
    namespace: Option<String>,
    mine: M,
    view: F,
    family: PhantomData<V>,
}

impl<V: Child, M: Fn(&V) -> bool, F> ChildSink<V, M, F> {
    fn new(observed: &Observed, scope: &Scope, mine: M, view: F) -> Self {
        ChildSink { observed: observed.clone(), namespace: scope.namespace.clone(), mine, view, family: PhantomData }
    }

    fn is_within(&self, child: &V) -> bool {
        (self.mine)(child) && self.namespace.as_ref().is_none_or(|n| *n == child.meta().namespace)
    }
}

impl<W, V: Child, M: Fn(&V) -> bool, F: Fn(W) -> V> Sink<W> for ChildSink<V, M, F> {
    fn apply(&mut self, object: W) {
        for owner in self.observed.index.apply::<V>((self.view)(object)) {
            self.observed.triggers.pull(Some(owner));
        }
    }

    fn remove(&mut self, object: W) {
        let gone = (self.view)(object);
        let meta = gone.meta();
        let now = Timestamp::now();
        let owner = self.observed.index.remove::<V>(&meta.namespace, &gone.key(), &meta.uid, gone.version(), now);
        self.observed.triggers.pull(owner);
    }

    fn known(&self) -> HashSet<String> {
        self.observed.index.known::<V>(|v| self.is_within(v))
    }

    fn complete(&mut self, listed: Listed) {
        for owner in self.observed.index.retain::<V>(|v| self.is_within(v), &listed, Timestamp::now()) {
            self.observed.triggers.pull(Some(owner));
        }
    }
}

struct ClusterSink {
    observed: Observed,
    scope: Option<String>,
}

/// A cluster as the owner of its children.
pub fn owner(cluster: &RayCluster) -> Owner {
    Owner {
        namespace: cluster.namespace().unwrap_or_default(),
        name: cluster.name_any(),
        uid: cluster.uid().unwrap_or_default(),
    }
}

impl ClusterSink {
    fn gone(&self, cluster: &RayCluster) {
        self.observed.clusters.remove(cluster);
        let owner = owner(cluster);
        self.observed.index.forget(&owner.uid);
        self.observed.complaints.withdraw(&owner.uid);
        self.observed.triggers.pull(Some(owner));
    }
}

impl Sink<DeserializeGuard<RayCluster>> for ClusterSink {
    fn apply(&mut self, object: DeserializeGuard<RayCluster>) {
        match object.0 {
            Ok(mut cluster) => {
                cluster.metadata.managed_fields = None;
                if asked_for(&cluster) {
                    self.observed.nodes.want();
                }
                let owner = owner(&cluster);
                self.observed.index.welcome(&owner.uid);
                self.observed.complaints.withdraw(&owner.uid);
                let (news, other) = self.observed.clusters.apply(cluster);
                // Deleted and made again while the watch was away.
                other.iter().for_each(|uid| self.observed.index.forget(uid));
                if news {
                    self.observed.triggers.pull(Some(owner));
                }
            }
            Err(bad) => {
                tracing::error!(
                    namespace = bad.metadata.namespace.as_deref().unwrap_or_default(),
                    name = bad.metadata.name.as_deref().unwrap_or_default(),
                    error = %bad.error,
                    "this version of the RayCluster cannot be read; the last readable one stays in force"
                );
                self.observed.complaints.add(&bad.metadata, bad.error);
            }
        }
    }

    fn remove(&mut self, object: DeserializeGuard<RayCluster>) {
        self.gone(&RayCluster { metadata: object.meta().clone(), ..RayCluster::default() });
    }

    fn known(&self) -> HashSet<String> {
        HashSet::new()
    }

    fn complete(&mut self, listed: Listed) {
        for cluster in self.observed.clusters.store.state() {
            let key = (cluster.namespace().unwrap_or_default(), cluster.name_any());
            if self.scope.as_ref().is_none_or(|s| *s == key.0) && !listed.keys.contains(&key) {
                self.gone(&cluster);
            }
        }
    }
}

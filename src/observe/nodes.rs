//! The nodes that have accelerators. They are watched from the moment that some RayCluster asks for one; nodes without
//! accelerators are let go while they are read, and heartbeats change nothing that is kept.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher;
use kube::{Api, Client};
use serde::Deserialize;
use tokio::sync::Notify;

use super::index::Listed;
use super::seen::{NodeView, NodesSeen, TaintView};
use super::watch::{self, Observed, Report, Sink};
use crate::api::accelerators::{asked_for, is_accelerator};

/// News of nodes come in bursts: clusters are looked at again at most this often for them.
const BREATH: Duration = Duration::from_secs(1);

/// What is known, and who waits for what.
#[derive(Debug, Default)]
pub struct Nodes {
    seen: Mutex<NodesSeen>,
    /// Filled while a list is read for the first time, and after a refusal.
    listing: Mutex<BTreeMap<String, Arc<NodeView>>>,
    wanted: Notify,
    news: Notify,
}

impl Nodes {
    fn lock(&self) -> MutexGuard<'_, NodesSeen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listing(&self) -> MutexGuard<'_, BTreeMap<String, Arc<NodeView>>> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn seen(&self) -> NodesSeen {
        self.lock().clone()
    }

    /// Somebody asks for an accelerator: the watch begins, if it has not yet.
    pub fn want(&self) {
        self.wanted.notify_one();
    }

    /// Takes in a node; one without accelerators is as good as none.
    fn apply(&self, node: NodeView) {
        if node.allocatable.is_empty() {
            return self.remove(&node.name);
        }
        match &mut *self.lock() {
            NodesSeen::Known(nodes) => {
                if nodes.get(&node.name).is_none_or(|known| **known != node) {
                    Arc::make_mut(nodes).insert(node.name.clone(), Arc::new(node));
                    self.news.notify_one();
                }
            }
            NodesSeen::NotYet | NodesSeen::Refused(_) => _ = self.listing().insert(node.name.clone(), Arc::new(node)),
        }
    }

    fn remove(&self, name: &str) {
        match &mut *self.lock() {
            NodesSeen::Known(nodes) if nodes.contains_key(name) => {
                Arc::make_mut(nodes).remove(name);
                self.news.notify_one();
            }
            NodesSeen::Known(_) => {}
            NodesSeen::NotYet | NodesSeen::Refused(_) => _ = self.listing().remove(name),
        }
    }

    /// A complete list has been read.
    fn listed(&self, names: &BTreeSet<String>) {
        let mut seen = self.lock();
        let gone = |name: &String| !names.contains(name);
        if let NodesSeen::Known(nodes) = &mut *seen {
            if nodes.keys().any(gone) {
                Arc::make_mut(nodes).retain(|name, _| !gone(name));
                self.news.notify_one();
            }
            return;
        }
        let mut nodes = std::mem::take(&mut *self.listing());
        nodes.retain(|name, _| !gone(name));
        *seen = NodesSeen::Known(Arc::new(nodes));
        self.news.notify_one();
    }

    /// The watch ran into trouble. What is known already stands unless the API server denies it. Says whether this is news.
    fn trouble(&self, words: String, denied: bool) -> bool {
        let mut seen = self.lock();
        let refused = NodesSeen::Refused(words);
        if *seen == refused || (matches!(*seen, NodesSeen::Known(_)) && !denied) {
            return false;
        }
        *seen = refused;
        self.news.notify_one();
        true
    }
}

/// Waits until nodes matter, then watches them and has the clusters looked at that ask for accelerators. Until dropped.
pub async fn run(client: Client, observed: Observed) {
    let nodes = Arc::clone(&observed.nodes);
    nodes.wanted.notified().await;
    let told = Arc::clone(&nodes);
    let report: Report = Arc::new(move |what, outcome| {
        let Err(error) = outcome else { return };
        let words = watch::words(error);
        if told.trouble(words.clone(), denied(error)) {
            tracing::warn!(
                "{what} cannot be listed and watched, so condition AcceleratorsAvailable is Unknown for clusters that ask for accelerators: {words}"
            );
        }
    });
    let sink = NodeSink(Arc::clone(&nodes));
    let watching =
        watch::follow(Api::<NodeWire>::all(client), watcher::Config::default(), "nodes".into(), sink, &report);
    let telling = async {
        loop {
            nodes.news.notified().await;
            for cluster in observed.clusters.store.state() {
                if asked_for(&cluster) {
                    observed.triggers.pull(Some(watch::owner(&cluster)));
                }
            }
            tokio::time::sleep(BREATH).await;
        }
    };
    tokio::join!(watching, telling);
}

fn denied(error: &watcher::Error) -> bool {
    watch::code(error).is_some_and(|code| matches!(code, 401 | 403))
}

struct NodeSink(Arc<Nodes>);

impl Sink<NodeWire> for NodeSink {
    fn apply(&mut self, node: NodeWire) {
        self.0.apply(node.into());
    }

    fn remove(&mut self, node: NodeWire) {
        self.0.remove(node.metadata.name.as_deref().unwrap_or_default());
    }

    fn known(&self) -> HashSet<String> {
        HashSet::new()
    }

    fn complete(&mut self, listed: Listed) {
        self.0.listed(&listed.keys.into_iter().map(|(_, name)| name).collect());
    }
}

/// A node on its way to becoming a [`NodeView`].
#[derive(kube::Resource, Clone, Debug, Deserialize)]
#[resource(inherit = Node)]
pub struct NodeWire {
    #[serde(deserialize_with = "super::meta::slim")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    taints: Vec<Taint>,
    unschedulable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Taint {
    key: String,
    value: String,
    effect: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    allocatable: BTreeMap<String, Quantity>,
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
}

impl From<NodeWire> for NodeView {
    fn from(wire: NodeWire) -> Self {
        let taints = wire.spec.taints.into_iter();
        NodeView {
            name: wire.metadata.name.unwrap_or_default(),
            labels: wire.metadata.labels.unwrap_or_default(),
            taints: taints.map(|t| TaintView { key: t.key, value: t.value, effect: t.effect }).collect(),
            allocatable: wire.status.allocatable.into_iter().filter(|(name, _)| is_accelerator(name)).collect(),
            ready: wire.status.conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True"),
            unschedulable: wire.spec.unschedulable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, gpus: &str, heartbeat: &str) -> NodeView {
        let text = format!(
            "{{metadata: {{name: {name}, resourceVersion: '{heartbeat}'}}, spec: {{taints: [{{key: a, effect: NoSchedule}}]}}, status: {{
               allocatable: {{cpu: '8', {gpus}}}, images: [{{names: [x]}}],
               conditions: [{{type: Ready, status: 'True', lastHeartbeatTime: '2026-01-01T00:00:{heartbeat}Z'}}]}}}}"
        );
        serde_saphyr::from_str::<NodeWire>(&text).unwrap().into()
    }

    /// Whether clusters would be looked at again.
    async fn news(nodes: &Nodes) -> bool {
        tokio::time::timeout(Duration::from_millis(1), nodes.news.notified()).await.is_ok()
    }

    #[tokio::test]
    async fn only_what_matters_is_news() {
        let nodes = Nodes::default();
        nodes.apply(node("a", "nvidia.com/gpu: '1'", "01"));
        nodes.apply(node("b", "memory: 1Gi", "01"));
        assert!(!news(&nodes).await, "half a list says nothing");
        assert_eq!(nodes.seen(), NodesSeen::NotYet);
        nodes.listed(&BTreeSet::from(["a".into(), "b".into()]));
        assert!(news(&nodes).await);
        let NodesSeen::Known(known) = nodes.seen() else { panic!("a list was complete") };
        let a = &known["a"];
        assert_eq!(known.len(), 1, "a node without accelerators is not kept");
        assert!(a.ready && a.taints[0].key == "a" && a.allocatable.keys().eq(["nvidia.com/gpu"]), "{a:?}");

        nodes.apply(node("a", "nvidia.com/gpu: '1'", "59"));
        nodes.apply(node("b", "memory: 2Gi", "59"));
        nodes.remove("b");
        assert!(!news(&nodes).await, "heartbeats, and nodes without accelerators");
        nodes.apply(node("a", "nvidia.com/gpu: '2'", "59"));
        assert!(news(&nodes).await);
        nodes.apply(node("a", "memory: 1Gi", "59"));
        assert!(news(&nodes).await, "its device plugin is gone");
        nodes.apply(node("a", "nvidia.com/gpu: '2'", "59"));
        nodes.listed(&BTreeSet::new());
        assert!(news(&nodes).await);
        assert_eq!(nodes.seen(), NodesSeen::Known(Arc::default()));
        assert_eq!(known.len(), 1, "a view that was given out stays as it was");
    }

    #[tokio::test]
    async fn a_denial_stands_until_a_list_is_read() {
        let nodes = Nodes::default();
        assert!(nodes.trouble("no".into(), true));
        assert!(news(&nodes).await);
        assert!(!nodes.trouble("no".into(), true), "it was said already");
        nodes.apply(node("a", "nvidia.com/gpu: '1'", "01"));
        nodes.listed(&BTreeSet::from(["a".into()]));
        assert!(news(&nodes).await && matches!(nodes.seen(), NodesSeen::Known(_)));
        assert!(!nodes.trouble("broken connection".into(), false), "what is known stands");
        assert!(matches!(nodes.seen(), NodesSeen::Known(_)));
        assert!(nodes.trouble("no".into(), true));
        assert_eq!(nodes.seen(), NodesSeen::Refused("no".into()));
    }
}

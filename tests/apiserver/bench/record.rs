//! Everything that happens to the objects of one namespace, in the order in which the watches told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::{StreamExt, pin_mut};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{Config, Event, watcher};
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::objects;

const WATCHED: [(&str, &str); 9] = [
    ("ray.io/v1", "RayCluster"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "Secret"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("networking.k8s.io/v1", "Ingress"),
    ("v1", "PersistentVolumeClaim"),
    ("batch/v1", "Job"),
    ("events.k8s.io/v1", "Event"),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    Added,
    Modified,
    Deleted,
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Moment {
    pub kind: &'static str,
    pub turn: Turn,
    pub object: Arc<Value>,
}

impl Moment {
    pub fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }
}

#[derive(Default)]
struct Inner {
    moments: Vec<Moment>,
    now: Now,
    complete: BTreeSet<&'static str>,
}

/// The objects as they are, by kind and name.
#[derive(Clone, Default)]
pub struct Now(BTreeMap<(&'static str, String), Arc<Value>>);

pub struct Record {
    inner: Mutex<Inner>,
    /// Counts changes, to wait for the next.
    news: watch::Sender<u64>,
}

impl Record {
    /// Begins to record; `watches` ends it when dropped.
    pub async fn begin(client: &Client, namespace: &str, watches: &mut JoinSet<()>) -> Arc<Record> {
        let record = Arc::new(Record { inner: Mutex::default(), news: watch::Sender::new(0) });
        for (api_version, kind) in WATCHED {
            let api = objects::kind(client, namespace, api_version, kind);
            let record = Arc::clone(&record);
            watches.spawn(async move {
                let events = watcher(api, Config::default()).default_backoff();
                pin_mut!(events);
                while let Some(event) = events.next().await {
                    match event {
                        Ok(Event::Apply(o) | Event::InitApply(o)) => record.note(kind, o, false),
                        Ok(Event::Delete(o)) => record.note(kind, o, true),
                        Ok(Event::InitDone) => {
                            record.inner.lock().expect("the record").complete.insert(kind);
                            record.news.send_modify(|n| *n += 1);
                        }
                        Ok(Event::Init) | Err(_) => {}
                    }
                }
            });
        }
        let mut news = record.news();
        while record.inner.lock().expect("the record").complete.len() < WATCHED.len() {
            let _ = news.changed().await;
        }
        record
    }

    fn note(&self, kind: &'static str, mut object: kube::api::DynamicObject, gone: bool) {
        object.managed_fields_mut().clear();
        let name = object.name_any();
        let object = Arc::new(serde_json::to_value(object).expect("JSON"));
        let mut inner = self.inner.lock().expect("the record");
        let key = (kind, name);
        let turn = match (gone, inner.now.0.contains_key(&key)) {
            (true, _) => Turn::Deleted,
            (false, true) => Turn::Modified,
            (false, false) => Turn::Added,
        };
        if gone {
            inner.now.0.remove(&key);
        } else {
            inner.now.0.insert(key, Arc::clone(&object));
        }
        inner.moments.push(Moment { kind, turn, object });
        drop(inner);
        self.news.send_modify(|n| *n += 1);
    }

    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    pub fn now(&self) -> Now {
        self.inner.lock().expect("the record").now.clone()
    }

    pub fn moments(&self) -> Vec<Moment> {
        self.inner.lock().expect("the record").moments.clone()
    }

    /// Names and uids of the pods of a cluster that were ever seen.
    pub fn all_pods(&self, cluster: &str) -> BTreeSet<(String, String)> {
        let of_cluster = |m: &Moment| m.kind == "Pod" && m.object["metadata"]["labels"]["ray.io/cluster"] == cluster;
        self.moments().iter().filter(|m| of_cluster(m)).map(|m| (m.name().to_owned(), m.uid().to_owned())).collect()
    }
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl Now {
    pub fn all(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|((k, _), _)| *k == kind).map(|(_, o)| &**o).collect()
    }

    pub fn get(&self, kind: &'static str, name: &str) -> Option<&Value> {
        self.0.get(&(kind, name.to_owned())).map(|o| &**o)
    }

    /// Pods that bear the cluster's label, by name.
    pub fn pods(&self, cluster: &str) -> Vec<&Value> {
        self.all("Pod").into_iter().filter(|p| text(p, "/metadata/labels/ray.io~1cluster") == cluster).collect()
    }

    pub fn workers(&self, cluster: &str) -> Vec<&Value> {
        self.pods(cluster).into_iter().filter(|p| text(p, "/metadata/labels/ray.io~1node-type") == "worker").collect()
    }

    pub fn heads(&self, cluster: &str) -> Vec<&Value> {
        self.pods(cluster).into_iter().filter(|p| text(p, "/metadata/labels/ray.io~1node-type") == "head").collect()
    }

    /// Uids of a cluster's pods that are not on their way out.
    pub fn uids(&self, cluster: &str) -> BTreeSet<String> {
        let staying = self.pods(cluster).into_iter().filter(|p| p["metadata"]["deletionTimestamp"].is_null());
        staying.map(|p| text(p, "/metadata/uid").to_owned()).collect()
    }

    pub fn condition(&self, cluster: &str, type_: &str) -> Condition {
        let cluster = self.get("RayCluster", cluster);
        let list = cluster.and_then(|c| c.pointer("/status/conditions")).and_then(Value::as_array);
        let found = list.into_iter().flatten().find(|c| c["type"] == type_);
        let text = |key: &str| found.and_then(|c| c[key].as_str()).unwrap_or_default().to_owned();
        Condition { status: text("status"), reason: text("reason"), message: text("message") }
    }

    /// `Ready` of the spec as it is now.
    pub fn is_ready(&self, cluster: &str) -> bool {
        let observed = self
            .get("RayCluster", cluster)
            .is_some_and(|c| c.pointer("/status/observedGeneration") == c.pointer("/metadata/generation"));
        observed && self.condition(cluster, "Ready").status == "True"
    }

    /// Texts of the events with that reason.
    pub fn events(&self, reason: &str) -> Vec<String> {
        let matching = self.all("Event").into_iter().filter(|e| text(e, "/reason") == reason);
        matching.map(|e| text(e, "/note").to_owned()).collect()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    pub status: String,
    pub reason: String,
    pub message: String,
}

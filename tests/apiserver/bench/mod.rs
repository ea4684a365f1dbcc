//! The test bench: a namespace of one's own on the shared API server, with a kubelet, a record of all that happens, and
//! operators.

pub mod audit;
pub mod call;
pub mod clusters;
pub mod head;
mod install;
pub mod kubelet;
pub mod objects;
pub mod operator;
pub mod proxy;
pub mod record;
pub mod rights;
pub mod server;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};
use tokio::task::JoinSet;

pub use clusters::cluster;
pub use head::Mood;
pub use install::repository;
pub use operator::Operator;
pub use proxy::Fate;
pub use server::run;

use head::Head;
use kubelet::Kubelet;
use proxy::Proxy;
use record::{Now, Record};
use server::Server;

/// How long a test waits for something to happen, generously.
const PATIENCE: Duration = Duration::from_secs(45);

pub struct Bench {
    pub namespace: String,
    pub server: &'static Server,
    pub record: Arc<Record>,
    pub kubelet: Arc<Kubelet>,
    pub head: Arc<Head>,
    operators: Mutex<Vec<(PathBuf, Arc<Proxy>)>>,
    _tasks: JoinSet<()>,
}

impl Bench {
    /// A namespace with that name, in which nothing is yet.
    pub async fn new(namespace: &str) -> Bench {
        let server = server::server().await;
        let client = &server.client;
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        objects::apply(client, "", &object).await;
        let mut tasks = JoinSet::new();
        let record = Record::begin(client, namespace, &mut tasks).await;
        let kubelet = Arc::new(Kubelet::new(client, namespace, Arc::clone(&record)));
        tasks.spawn(Arc::clone(&kubelet).live());
        Bench {
            namespace: namespace.to_owned(),
            server,
            kubelet,
            head: Arc::new(Head::new(Arc::clone(&record))),
            record,
            operators: Mutex::default(),
            _tasks: tasks,
        }
    }

    pub fn client(&self) -> &Client {
        &self.server.client
    }

    /// The user that operators of this bench are.
    pub fn user(&self) -> String {
        format!("operator-{}", self.namespace)
    }

    /// An operator with the chart's rights.
    pub async fn operator(&self) -> Operator {
        self.operator_with(&[]).await
    }

    pub async fn operator_with(&self, arguments: &[&str]) -> Operator {
        for role in [rights::ROLE, rights::LEASE_ROLE] {
            rights::grant(self.client(), &self.namespace, role, &self.user()).await;
        }
        self.operator_without_rights(arguments).await
    }

    /// An operator that may do nothing beyond what was granted already.
    pub async fn operator_without_rights(&self, arguments: &[&str]) -> Operator {
        let operator =
            Operator::start(self.server, &self.namespace, &self.user(), Arc::clone(&self.head), arguments).await;
        let known = (operator.log.clone(), Arc::clone(operator.proxy()));
        self.operators.lock().expect("the operators").push(known);
        operator
    }

    pub async fn apply(&self, object: &Value) -> Value {
        objects::apply(self.client(), &self.namespace, object).await
    }

    pub fn clusters(&self) -> Api<DynamicObject> {
        objects::kind(self.client(), &self.namespace, "ray.io/v1", "RayCluster")
    }

    pub fn pods(&self) -> Api<DynamicObject> {
        objects::kind(self.client(), &self.namespace, "v1", "Pod")
    }

    /// A merge patch of a RayCluster.
    pub async fn edit(&self, cluster: &str, patch: Value) -> Value {
        objects::edit(&self.clusters(), cluster, &patch).await
    }

    /// Sets `replicas` of one group.
    pub async fn scale(&self, cluster: &str, group: usize, replicas: i32) {
        let patch =
            json!([{"op": "replace", "path": format!("/spec/workerGroupSpecs/{group}/replicas"), "value": replicas}]);
        let patch: kube::api::Patch<Value> =
            kube::api::Patch::Json(serde_json::from_value(patch).expect("a JSON patch"));
        self.clusters().patch(cluster, &Default::default(), &patch).await.expect("to scale");
    }

    /// The cluster is applied, and Ready with so many pods.
    pub async fn ready_cluster(&self, object: &Value, pods: usize) {
        self.apply(object).await;
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        self.until(&format!("{name} is Ready with {pods} pods"), |now| {
            now.is_ready(&name) && now.pods(&name).len() == pods
        })
        .await;
    }

    /// Waits until the objects are as wanted.
    pub async fn until(&self, what: &str, mut holds: impl FnMut(&Now) -> bool) -> Now {
        let limit = Instant::now() + PATIENCE;
        let mut news = self.record.news();
        loop {
            let now = self.record.now();
            if holds(&now) {
                return now;
            }
            assert!(Instant::now() < limit, "waited {PATIENCE:?} in vain: {what}");
            let _ = tokio::time::timeout(Duration::from_millis(50), news.changed()).await;
        }
    }

    /// Waits until something that is not in the record holds.
    pub async fn eventually(&self, what: &str, mut holds: impl FnMut() -> bool) {
        self.until(what, |_| holds()).await;
    }

    /// Waits until no operator has asked for anything for two seconds.
    pub async fn settle(&self) {
        let window = Duration::from_secs(2);
        self.eventually("the operators come to rest", || {
            Instant::now().checked_sub(window).is_some_and(|then| self.calls_since(then).is_empty())
        })
        .await;
    }

    fn calls_since(&self, then: Instant) -> Vec<call::Call> {
        let operators: Vec<Arc<Proxy>> =
            self.operators.lock().expect("the operators").iter().map(|(_, p)| Arc::clone(p)).collect();
        operators.iter().flat_map(|p| p.since(then)).collect()
    }

    /// Nothing is requested for so long: by no operator of this bench, but for watches and the Lease.
    pub async fn quiet_for(&self, window: Duration) {
        let start = Instant::now();
        tokio::time::sleep(window).await;
        let calls: Vec<String> = self.calls_since(start).iter().map(ToString::to_string).collect();
        assert!(calls.is_empty(), "requests within {window:?} of quiet: {calls:#?}");
    }

    /// Everything one needs to understand a failure.
    fn report(&self) -> String {
        let mut out = String::new();
        let now = self.record.now();
        for cluster in now.all("RayCluster") {
            let _ = writeln!(
                out,
                "RayCluster {} spec generation {} status {}",
                cluster["metadata"]["name"], cluster["metadata"]["generation"], cluster["status"]
            );
        }
        for pod in now.all("Pod") {
            let meta = &pod["metadata"];
            let _ = writeln!(
                out,
                "Pod {} {} phase {} deleted {}",
                meta["name"], meta["uid"], pod["status"]["phase"], meta["deletionTimestamp"]
            );
        }
        for event in now.all("Event") {
            let _ = writeln!(out, "Event {} {}", event["reason"], event["note"]);
        }
        for (log, proxy) in self.operators.lock().expect("the operators").iter() {
            let _ = writeln!(out, "requests, the last of them:");
            let calls = proxy.calls();
            for call in &calls[calls.len().saturating_sub(40)..] {
                let _ = writeln!(out, "  {:?} {call}", call.at);
            }
            let _ = writeln!(out, "log of {}:\n{}", log.display(), server::tail(log, 30));
        }
        out
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("=== {} ===\n{}", self.namespace, self.report());
        }
    }
}

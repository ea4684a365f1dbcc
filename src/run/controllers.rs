//! Start order of the controllers: all caches first, then the lead, then passes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::Timestamp;
use kube::{Client, Resource, ResourceExt};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::driver::{self, CONTROLLER, Driver};
use super::health::Readiness;
use super::leader::{Leadership, identity};
use super::metrics::{ClusterSample, Metrics};
use crate::act::events::Herald;
use crate::act::hands::Hands;
use crate::api::RayCluster;
use crate::api::children::Kind;
use crate::api::names::labels;
use crate::config::Config;
use crate::observe::nodes;
use crate::observe::watch::{self, Observed, Report, Scope};
use crate::plan::Note;
use crate::plan::build::pod_group::pod_group_kind;
use crate::plan::config::PlanConfig;
use crate::ray::head::Route;
use crate::ray::poller::Poller;

/// How long running passes may take to end when the process stops.
const LAST_PASSES: Duration = Duration::from_secs(15);

/// Everything that watches and acts.
pub struct Controllers {
    watches: Vec<JoinHandle<()>>,
    passes: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl Controllers {
    /// Starts the watches at once, and passes when every cache is full and this process leads.
    ///
    /// # Errors
    /// Two metrics of one name: a defect.
    pub fn start(
        config: &Config,
        openshift: bool,
        client: &Client,
        leadership: Leadership,
        readiness: &Readiness,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, prometheus::Error> {
        let observed = Observed::default();
        if config.kuberay_metrics {
            let clusters = observed.clusters.clone();
            metrics.watch_clusters(move || clusters.store.state().iter().map(|c| sample(c)).collect())?;
        }
        let namespaces: Vec<Option<String>> = match config.namespaces.as_slice() {
            [] => vec![None],
            some => some.iter().cloned().map(Some).collect(),
        };
        let route = openshift.then_some(Kind::Route);
        let pod_groups = config.batch_scheduler.and_then(pod_group_kind);
        let others: Vec<Kind> = watch::OTHERS.into_iter().chain(route).chain(pod_groups).collect();
        let scope = |namespace| Scope { namespace, others: others.clone() };
        let scopes: Vec<Scope> = namespaces.into_iter().map(scope).collect();
        let mut expected: BTreeSet<String> = scopes.iter().flat_map(Scope::needed).collect();
        expected.iter().for_each(|what| readiness.wait_for(what));
        let optional: BTreeSet<String> = scopes.iter().flat_map(Scope::others).collect();
        expected.extend(optional.iter().cloned());
        let (synced, mut complete) = mpsc::unbounded_channel();
        let report = report(readiness.clone(), synced, optional);
        let mut watches: Vec<_> = scopes
            .into_iter()
            .map(|scope| tokio::spawn(watch::run(client.clone(), scope, observed.clone(), Arc::clone(&report))))
            .collect();
        watches.push(tokio::spawn(nodes::run(client.clone(), observed.clone())));

        let route = if config.use_kubernetes_proxy { Route::Proxy(client.clone()) } else { Route::Direct };
        let driver = Arc::new(Driver {
            hands: Hands {
                client: client.clone(),
                index: Arc::clone(&observed.index),
                clusters: Arc::clone(&observed.clusters),
            },
            herald: Herald { client: client.clone(), controller: "raycluster-controller", instance: identity() },
            poller: Poller::new(route, observed.clone()),
            observed,
            config: PlanConfig { openshift, ..config.plan() },
            metrics: Arc::clone(metrics),
            failed_passes: Mutex::default(),
            waiting: Mutex::default(),
        });
        let concurrency = u16::try_from(config.concurrency).unwrap_or(u16::MAX);
        let (stop, stopped) = oneshot::channel::<()>();
        let passes = tokio::spawn(async move {
            let mut stopped = stopped;
            let ready = async {
                while !expected.is_empty() {
                    match complete.recv().await {
                        Some(what) => expected.remove(&what),
                        None => std::future::pending().await,
                    };
                }
                leadership.won().await;
            };
            tokio::select! {
                () = ready => {}
                _ = &mut stopped => return,
            }
            let Some(triggers) = driver.observed.triggers.listen() else { return };
            tracing::info!(
                controller = CONTROLLER,
                concurrency,
                "caches are full and this process leads: passes begin"
            );
            for cluster in driver.observed.clusters.store.state() {
                driver.observed.triggers.pull(Some(watch::owner(&cluster)));
            }
            let telling = tokio::spawn(tell_of_unreadable(Arc::clone(&driver)));
            driver::run(driver, triggers, concurrency, async move { drop(stopped.await) }).await;
            telling.abort();
        });
        Ok(Controllers { watches, passes, stop: Some(stop) })
    }

    /// Lets running passes end, begins no new ones, and ends the watches.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        if timeout(LAST_PASSES, &mut self.passes).await.is_err() {
            tracing::warn!("passes did not end within {} s and are given up", LAST_PASSES.as_secs());
            self.passes.abort();
        }
        self.watches.iter().for_each(JoinHandle::abort);
    }
}

/// An event for each RayCluster that cannot be decoded: no pass can speak for it.
async fn tell_of_unreadable(driver: Arc<Driver>) {
    loop {
        for object in driver.observed.complaints.take().await {
            let about = ObjectReference {
                api_version: Some(RayCluster::api_version(&()).into_owned()),
                kind: Some(RayCluster::kind(&()).into_owned()),
                namespace: Some(object.namespace),
                name: Some(object.name),
                uid: Some(object.uid),
                ..ObjectReference::default()
            };
            let text = format!(
                "This RayCluster cannot be read, and the last version that could be stays in force: {}. Correct that field, or apply the CRD of this release",
                object.error
            );
            let note = Note { warning: true, reason: "UnreadableRayCluster".into(), action: "Validate", text };
            driver.herald.tell(&about, &note, Timestamp::now()).await;
        }
    }
}

/// Logs what is wrong with a watch, in the words of the API server, and tells when one has its first picture. A watch
/// that passes can do without is not waited for once it has failed.
fn report(readiness: Readiness, synced: mpsc::UnboundedSender<String>, optional: BTreeSet<String>) -> Report {
    // Nobody listens any more once passes have begun.
    let heard = move |what: &str| drop(synced.send(what.to_owned()));
    Arc::new(move |what, outcome| match outcome {
        Ok(()) => {
            readiness.done(what);
            heard(what);
        }
        Err(error) => {
            tracing::error!("error syncing {what}: failed to list and watch {what}: {}", watch::words(error));
            if optional.contains(what) {
                heard(what);
            }
        }
    })
}

fn sample(cluster: &RayCluster) -> ClusterSample {
    let provisioned = cluster
        .status
        .iter()
        .flat_map(|s| s.conditions.iter().flatten())
        .find(|c| c.type_ == "RayClusterProvisioned" && c.status == "True");
    let age = |at: Timestamp| {
        let created = cluster.metadata.creation_timestamp.as_ref()?.0;
        Some(at.duration_since(created).as_secs_f64())
    };
    ClusterSample {
        name: cluster.name_any(),
        namespace: cluster.namespace().unwrap_or_default(),
        uid: cluster.uid().unwrap_or_default(),
        owner_kind: match cluster.labels().get(labels::ORIGINATED_FROM_CRD).map(String::as_str) {
            Some(kind @ ("RayJob" | "RayService")) => kind.to_owned(),
            _ => "None".to_owned(),
        },
        provisioned: provisioned.is_some(),
        provisioned_seconds: provisioned.and_then(|c| age(c.last_transition_time.0)),
    }
}

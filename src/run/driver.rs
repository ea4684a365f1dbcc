//! One pass over one RayCluster: see, plan, act, see again, say.

use std::collections::HashMap;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::{FutureExt, Stream, StreamExt};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::runtime::controller::{self, Action, ReconcileReason, ReconcileRequest, applier};
use kube::runtime::reflector::ObjectRef;
use kube::{Resource, ResourceExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_stream::wrappers::UnboundedReceiverStream;

use crate::act::events::{self, Herald};
use crate::act::hands::{Hands, any_ready};
use crate::act::status;
use crate::api::RayCluster;
use crate::observe::index::Owner;
use crate::observe::seen::FailureKind;
use crate::observe::watch::{self, Observed};
use crate::plan::config::PlanConfig;
use crate::plan::{self, Plan, Step};
use crate::ray::poller::Poller;
use crate::run::metrics::{Metrics, Outcome};

pub const CONTROLLER: &str = "raycluster";
/// Events of one burst lead to one pass.
const DEBOUNCE: Duration = Duration::from_millis(25);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// An object whose pass fails is tried again at least this often, so that it heals soon after its cause is gone.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What every pass needs.
pub struct Driver {
    pub observed: Observed,
    pub hands: Hands,
    pub herald: Herald,
    pub poller: Arc<Poller>,
    pub config: PlanConfig,
    pub metrics: Arc<Metrics>,
    /// Failed passes in a row, by namespace and name. Gone with success and with the object.
    pub failed_passes: Mutex<HashMap<String, u32>>,
    /// Since when an object waits for its pass, by namespace and name.
    pub waiting: Mutex<HashMap<String, Instant>>,
}

/// A pass that could not finish.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    #[error("{0}")]
    Refused(#[from] crate::act::refusal::Refusal),
    #[error("the pass panicked; this is a defect of ray-operator")]
    Panicked,
}

/// Runs passes for the owners that `triggers` names, `concurrency` at a time and never two for one object. Once `stop`
/// is done no pass begins any more; returns when the last one has ended.
pub async fn run(
    driver: Arc<Driver>,
    triggers: UnboundedReceiver<Owner>,
    concurrency: u16,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let store = driver.observed.clusters.store.clone();
    driver.metrics.concurrency(CONTROLLER, concurrency.into());
    let waiting = Arc::clone(&driver);
    let queue = UnboundedReceiverStream::new(triggers).take_until(Box::pin(stop)).map(move |owner| {
        waiting.queued(&owner);
        Ok::<_, Infallible>(ReconcileRequest::<RayCluster> {
            obj_ref: ObjectRef::new(&owner.name).within(&owner.namespace),
            reason: ReconcileReason::Unknown,
        })
    });
    let config = controller::Config::default().debounce(DEBOUNCE).concurrency(concurrency);
    let passes = applier(
        |cluster, driver: Arc<Driver>| {
            // A task of its own: one long pass must not hold up the polling of the others.
            let pass = tokio::spawn(guarded(driver, cluster));
            async move { pass.await.unwrap_or(Err(PassError::Panicked)) }.boxed()
        },
        |cluster, _error, driver| Action::requeue(driver.pause(&cluster)),
        Arc::clone(&driver),
        store,
        queue,
        config,
    );
    drain(passes, &driver).await;
}

async fn drain<E>(
    passes: impl Stream<Item = Result<(ObjectRef<RayCluster>, Action), controller::Error<PassError, E>>>,
    driver: &Driver,
) where
    E: std::error::Error + 'static,
{
    let mut passes = std::pin::pin!(passes);
    while let Some(outcome) = passes.next().await {
        // Normal after a deletion: a last trigger for an object that is no more.
        if let Err(controller::Error::ObjectNotFound(object)) = outcome {
            let name = key(object.namespace.as_deref().unwrap_or_default(), &object.name);
            lock(&driver.failed_passes).remove(&name);
            driver.taken(&name);
        }
    }
}

async fn guarded(driver: Arc<Driver>, cluster: Arc<RayCluster>) -> Result<Action, PassError> {
    let name = key(&cluster.namespace().unwrap_or_default(), &cluster.name_any());
    let measured = driver.metrics.begin(CONTROLLER, driver.taken(&name));
    let outcome = AssertUnwindSafe(driver.pass(&cluster)).catch_unwind().await.unwrap_or(Err(PassError::Panicked));
    let result = match &outcome {
        Ok(action) if *action == Action::await_change() => Outcome::Success,
        Ok(_) => Outcome::RequeueAfter,
        Err(error) => {
            tracing::error!(object = name, %error, "pass failed");
            if matches!(error, PassError::Panicked) {
                driver.metrics.panicked(CONTROLLER);
            }
            driver.metrics.retried(CONTROLLER);
            Outcome::Error
        }
    };
    driver.metrics.reconciled(CONTROLLER, result, measured.seconds());
    if outcome.is_ok() {
        lock(&driver.failed_passes).remove(&name);
    }
    outcome
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    fn queued(&self, owner: &Owner) {
        self.metrics.queued(CONTROLLER);
        let mut waiting = lock(&self.waiting);
        waiting.entry(key(&owner.namespace, &owner.name)).or_insert_with(Instant::now);
        self.metrics.depth(CONTROLLER, waiting.len());
    }

    /// The object waits no longer; says how long it did.
    fn taken(&self, name: &str) -> Duration {
        let mut waiting = lock(&self.waiting);
        let waited = waiting.remove(name).map_or(Duration::ZERO, |since| since.elapsed());
        self.metrics.depth(CONTROLLER, waiting.len());
        waited
    }

    async fn pass(&self, cluster: &Arc<RayCluster>) -> Result<Action, PassError> {
        let mut cluster = Arc::clone(cluster);
        let owner = watch::owner(&cluster);
        let index = &self.observed.index;
        let now = Timestamp::now();
        let mut plan = plan::raycluster::plan(&cluster, &self.observed.seen(&owner), now, &self.config);
        let mut more = false;
        let mut unheard = Vec::new();
        if !plan.steps.is_empty() {
            let done = self.hands.carry_out(&owner, std::mem::take(&mut plan.steps), now).await;
            index.keep_failures(&owner.uid, |f| done.stopped.iter().any(|(r, s)| *r == f.step && *s == f.scope));
            for step in &done.done {
                let (namespace, name, reason, why) = (&owner.namespace, &owner.name, step.reason, &step.why);
                if step.is_warning() {
                    tracing::warn!(namespace, name, reason, why, "done");
                } else {
                    tracing::info!(namespace, name, reason, why, "done");
                }
            }
            for failure in &done.news {
                tracing::error!("{}", events::sentence(&owner.namespace, &owner.name, failure));
            }
            unheard.extend(events::of_steps(&done.done));
            // Nothing can be recorded in a namespace that is going away.
            let heard = done.news.iter().filter(|f| f.kind != FailureKind::NamespaceTerminating);
            unheard.extend(heard.map(|f| events::of_failure(&owner.namespace, &owner.name, f)));
            more = done.more;
            plan = match self.current(&cluster) {
                Some(current) => {
                    cluster = current;
                    plan::raycluster::plan(&cluster, &self.observed.seen(&owner), Timestamp::now(), &self.config)
                }
                None => Plan::nothing(),
            };
        } else {
            index.keep_failures(&owner.uid, |_| false);
        }
        let mut written = Ok(());
        if let Some(status) = &plan.status {
            match status::write(&self.hands.client, &cluster, status).await {
                Ok(Some(current)) => {
                    unheard.append(&mut plan.notes);
                    // The watch is silent about what this answer has told already: what the new status leads to (a
                    // complete suspension can be lifted), and what somebody changed just before it was written.
                    self.observed.clusters.answered(current);
                    self.observed.triggers.pull(Some(owner.clone()));
                }
                Ok(None) => {}
                Err(refusal) => written = Err(refusal),
            }
        }
        match plan.ask {
            Some(question) => self.poller.ask(owner.clone(), question),
            None => self.poller.drop_question(&owner.uid),
        }
        let about = reference(&cluster);
        for note in &unheard {
            self.herald.tell(&about, note, Timestamp::now()).await;
        }
        written?;
        Ok(self.next(&owner, more, plan.steps, plan.look_again))
    }

    /// The cluster as it is known now; `None` when it is gone.
    fn current(&self, cluster: &RayCluster) -> Option<Arc<RayCluster>> {
        let known = self.observed.clusters.store.get(&ObjectRef::from_obj(cluster))?;
        (known.metadata.uid == cluster.metadata.uid).then_some(known)
    }

    /// When to come back: at once for steps that can be carried out, at their time for failed ones, else when the
    /// planner says.
    fn next(&self, owner: &Owner, more: bool, left: Vec<Step>, look_again: Option<Timestamp>) -> Action {
        let now = Timestamp::now();
        let failures = self.observed.index.failures(&owner.uid);
        // A failure whose time has come but that another one holds up is no reason to look again.
        let retry = failures.iter().map(|f| f.retry_at).filter(|at| *at > now).min();
        let soon = match left.is_empty() {
            _ if more => Some(now),
            true => None,
            false if any_ready(left, &failures, now) => Some(now),
            false => retry,
        };
        let Some(at) = soon.into_iter().chain(look_again).min() else { return Action::await_change() };
        let wait = at.duration_since(now).max(SignedDuration::from_millis(100));
        Action::requeue(Duration::try_from(wait).unwrap_or_default())
    }

    fn pause(&self, cluster: &RayCluster) -> Duration {
        let mut failed = lock(&self.failed_passes);
        let times = failed.entry(key(&cluster.namespace().unwrap_or_default(), &cluster.name_any())).or_default();
        *times = times.saturating_add(1);
        FIRST_PAUSE.saturating_mul(1 << (*times - 1).min(5)).min(LONGEST_PAUSE)
    }
}

fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

fn reference(cluster: &RayCluster) -> ObjectReference {
    ObjectReference { resource_version: None, ..cluster.object_ref(&()) }
}

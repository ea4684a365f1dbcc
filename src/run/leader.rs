//! Whether this process may write: the election, run against a real Lease.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, Error};
use thiserror::Error as ThisError;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tracing::{info, warn};

use super::metrics::Metrics;

pub mod election;

use election::{Election, LossReason, Moment, Next, Record, Timings, WriteFailure};

/// The Lease's name. It is KubeRay's too, so that the two operators never act at once from one namespace.
pub const LEASE_NAME: &str = "ray-operator-leader";

/// How this process takes part in the election.
#[derive(Clone, Debug)]
pub struct LeaderConfig {
    pub namespace: String,
    pub name: String,
    /// Unlike that of any other process, an earlier one of the same pod included: see [`identity`].
    pub identity: String,
    pub timings: Timings,
}

/// Why the lead was lost. There is no way back within the process: whoever led has state that another leader outdates,
/// so the process ends and comes back as a candidate.
#[derive(Debug, ThisError)]
pub enum LeaderError {
    #[error("the Lease {lease} could not be renewed within {deadline:?}: {problem}")]
    Deadline { lease: String, deadline: Duration, problem: String },
    #[error("the Lease {lease} is held by {holder} now")]
    Taken { lease: String, holder: String },
    #[error("the election task ended: {0}")]
    Task(String),
}

/// The right to write, as every effect and the client ask for it. Cheap to clone and to ask.
///
/// It ends by itself when its time is over: a process that was stopped and wakes up late finds it closed, whichever of
/// its tasks runs first.
#[derive(Clone, Debug)]
pub struct Leadership(Arc<Right>);

#[derive(Debug)]
struct Right {
    start: Instant,
    /// Milliseconds after `start`; 0 is never, `u64::MAX` always.
    until: AtomicU64,
    /// The same end by our own wall clock, in milliseconds since 1970: the monotonic clock stands still while a machine
    /// is suspended. A wall clock that jumps closes the right until the next renewal at worst.
    wall_until: AtomicU64,
    changed: watch::Sender<bool>,
}

impl Leadership {
    /// Nobody's yet.
    pub fn none() -> Self {
        Self::with(0)
    }

    /// Without an election: may always write.
    pub fn always() -> Self {
        Self::with(u64::MAX)
    }

    fn with(until: u64) -> Self {
        Self(Arc::new(Right {
            start: Instant::now(),
            until: AtomicU64::new(until),
            wall_until: AtomicU64::new(until),
            changed: watch::Sender::new(until > 0),
        }))
    }

    /// Whether this process leads at this very moment. To be asked before each write.
    pub fn may_write(&self) -> bool {
        self.now() < Moment::from_millis(self.0.until.load(Ordering::Acquire))
            && wall_millis() < self.0.wall_until.load(Ordering::Acquire)
    }

    /// Tells of a lead won, lost or given back. For waking up; whether to write is [`Leadership::may_write`]'s to say.
    pub fn changes(&self) -> watch::Receiver<bool> {
        self.0.changed.subscribe()
    }

    /// Returns when this process leads.
    pub async fn won(&self) {
        let mut changes = self.changes();
        // The sender lives in `self`, so the wait cannot fail.
        let _ = changes.wait_for(|leads| *leads).await;
    }

    fn now(&self) -> Moment {
        self.0.start.elapsed()
    }

    /// The right lasts until that moment, by both clocks.
    pub(super) fn set(&self, until: Option<Moment>, wall_until: u64) {
        self.0.wall_until.store(wall_until, Ordering::Release);
        self.0.until.store(until.map_or(0, millis), Ordering::Release);
        self.0.changed.send_if_modified(|leads| std::mem::replace(leads, until.is_some()) != until.is_some());
    }
}

/// A running election.
pub struct Elector {
    leadership: Leadership,
    release: Option<oneshot::Sender<()>>,
    task: JoinHandle<Result<(), LeaderError>>,
}

impl Elector {
    /// Starts to compete. `client` should serve nothing else, so that renewals do not queue behind other requests.
    pub fn start(client: Client, config: LeaderConfig, leadership: Leadership, metrics: Arc<Metrics>) -> Self {
        let (release, released) = oneshot::channel();
        let candidate = Candidate::new(client, config, leadership.clone(), metrics);
        Self { leadership, release: Some(release), task: tokio::spawn(candidate.compete(released)) }
    }

    /// Returns when the lead that this process had is lost. Never returns while it competes or leads.
    pub async fn lost(&mut self) -> LeaderError {
        match (&mut self.task).await {
            Ok(Err(error)) => error,
            Ok(Ok(())) => LeaderError::Task("it was released".to_string()),
            Err(error) => LeaderError::Task(error.to_string()),
        }
    }

    /// Gives the lead back, so that another candidate has it within seconds. Call it when all effects have ended; the
    /// right to write is closed first in any case.
    pub async fn release(mut self) {
        if let Some(release) = self.release.take() {
            let _ = release.send(());
        }
        let _ = (&mut self.task).await;
        self.leadership.set(None, 0);
    }
}

struct Candidate {
    api: Api<Lease>,
    config: LeaderConfig,
    leadership: Leadership,
    metrics: Arc<Metrics>,
    election: Election,
    /// The Lease as it was last seen: what others wrote into it (labels, annotations) is kept.
    lease: Lease,
    /// When the right to write ends by our wall clock, in milliseconds since 1970.
    wall_until: u64,
    /// The last thing that went wrong and has not gone right since.
    problem: Option<String>,
}

impl Candidate {
    fn new(client: Client, config: LeaderConfig, leadership: Leadership, metrics: Arc<Metrics>) -> Self {
        let api = Api::namespaced(client, &config.namespace);
        let election = Election::new(config.identity.clone(), config.timings);
        Self { api, config, leadership, metrics, election, lease: Lease::default(), wall_until: 0, problem: None }
    }

    async fn compete(mut self, mut released: oneshot::Receiver<()>) -> Result<(), LeaderError> {
        let lease = format!("{}/{}", self.config.namespace, self.config.name);
        info!(lease, identity = self.config.identity, "competing for the lead");
        loop {
            let leads = self.election.may_write_until().is_some();
            if leads != *self.leadership.0.changed.borrow() && leads {
                info!(lease, identity = self.config.identity, "leading");
            }
            self.leadership.set(self.election.may_write_until(), self.wall_until);
            self.metrics.leading(&self.config.name, leads);
            if !matches!(released.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
                self.give_back(&lease).await;
                return Ok(());
            }
            let now = self.leadership.now();
            match self.election.next(now, wall()) {
                Next::Read => self.read(leads).await,
                Next::Write { record, replace } => self.write(record, replace).await,
                Next::Sleep(until) => {
                    tokio::select! {
                        () = sleep(until.saturating_sub(now)) => {}
                        _ = &mut released => {
                            self.give_back(&lease).await;
                            return Ok(());
                        }
                    }
                }
                Next::Lost(reason) => {
                    self.leadership.set(None, 0);
                    self.metrics.leading(&self.config.name, false);
                    let problem =
                        self.problem.take().unwrap_or_else(|| "the process was stopped meanwhile".to_string());
                    return Err(match reason {
                        LossReason::Deadline => {
                            LeaderError::Deadline { lease, deadline: self.config.timings.deadline, problem }
                        }
                        LossReason::Taken(holder) => LeaderError::Taken { lease, holder },
                    });
                }
            }
        }
    }

    async fn read(&mut self, leads: bool) {
        if leads {
            self.metrics.lease_read_while_leading(&self.config.name);
        }
        let sent = self.leadership.now();
        let answer = timeout(self.election.patience(sent), self.api.get_opt(&self.config.name)).await;
        let answer = match answer {
            Ok(Ok(lease)) => {
                self.problem = None;
                self.lease = lease.clone().unwrap_or_default();
                Ok(lease.map(|lease| (record_of(&lease), lease.metadata.resource_version.unwrap_or_default())))
            }
            Ok(Err(error)) => {
                self.went_wrong("get", &super::client::words(&error));
                Err(())
            }
            Err(_) => {
                self.went_wrong("get", "no answer in time");
                Err(())
            }
        };
        self.election.was_read(answer, sent, self.leadership.now(), random_unit());
    }

    async fn write(&mut self, record: Record, replace: Option<String>) {
        let body = self.body(&record, replace.clone());
        let verb = if replace.is_some() { "update" } else { "create" };
        let (sent, sent_wall) = (self.leadership.now(), wall_millis());
        let patience = self.election.patience(sent);
        let params = PostParams::default();
        let answer = match replace {
            Some(_) => timeout(patience, self.api.replace(&self.config.name, &params, &body)).await,
            None => timeout(patience, self.api.create(&params, &body)).await,
        };
        let answer = match answer {
            Ok(Ok(lease)) => {
                self.problem = None;
                let version = lease.metadata.resource_version.clone().unwrap_or_default();
                self.lease = lease;
                self.wall_until = sent_wall + millis(self.config.timings.deadline);
                Ok(version)
            }
            // Someone else was quicker: that is what the version is for.
            Ok(Err(Error::Api(status))) if status.code == 409 => Err(WriteFailure::Changed),
            Ok(Err(error)) => {
                self.went_wrong(verb, &super::client::words(&error));
                let gone = matches!(&error, Error::Api(status) if status.code == 404);
                Err(if gone { WriteFailure::Changed } else { WriteFailure::Unknown })
            }
            Err(_) => {
                self.went_wrong(verb, "no answer in time");
                Err(WriteFailure::Unknown)
            }
        };
        self.election.was_written(record, answer, sent, self.leadership.now(), random_unit());
    }

    async fn give_back(&mut self, lease: &str) {
        let given = self.election.release(wall());
        self.leadership.set(None, 0);
        self.metrics.leading(&self.config.name, false);
        let Some((record, version)) = given else { return };
        let body = self.body(&record, Some(version));
        let patience = self.config.timings.request;
        match timeout(patience, self.api.replace(&self.config.name, &PostParams::default(), &body)).await {
            Ok(Ok(_)) => info!(lease, "gave the lead back"),
            Ok(Err(error)) => {
                warn!(lease, error = super::client::words(&error), "could not give the lead back: it ends by itself")
            }
            Err(_) => warn!(lease, "could not give the lead back in time: it ends by itself"),
        }
    }

    fn body(&self, record: &Record, version: Option<String>) -> Lease {
        let mut metadata = match version {
            Some(_) => self.lease.metadata.clone(),
            None => ObjectMeta::default(),
        };
        metadata.name = Some(self.config.name.clone());
        metadata.namespace = Some(self.config.namespace.clone());
        metadata.resource_version = version;
        metadata.managed_fields = None;
        let spec = LeaseSpec {
            holder_identity: Some(record.holder.clone()).filter(|holder| !holder.is_empty()),
            lease_duration_seconds: Some(record.lease_seconds),
            acquire_time: record.acquired.map(MicroTime),
            renew_time: record.renewed.map(MicroTime),
            lease_transitions: Some(record.transitions),
            ..self.lease.spec.clone().unwrap_or_default()
        };
        Lease { metadata, spec: Some(spec) }
    }

    /// Logs a problem once, however often it repeats.
    fn went_wrong(&mut self, verb: &str, words: &str) {
        let problem = format!("failed to {verb} lease {}/{}: {words}", self.config.namespace, self.config.name);
        if self.problem.as_ref() != Some(&problem) {
            warn!("{problem}");
        }
        self.problem = Some(problem);
    }
}

fn record_of(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    Record {
        holder: spec.holder_identity.unwrap_or_default(),
        lease_seconds: spec.lease_duration_seconds.unwrap_or_default(),
        acquired: spec.acquire_time.map(|time| time.0),
        renewed: spec.renew_time.map(|time| time.0),
        transitions: spec.lease_transitions.unwrap_or_default(),
    }
}

/// An identity for this process: the host's name (in a pod, the pod's) and a random tail.
pub fn identity() -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let host = host.or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let host = host.as_deref().map_or("ray-operator", str::trim).to_string();
    format!("{host}_{:016x}{:016x}", random(), random())
}

/// The standard library's hash keys are the system's randomness.
fn random() -> u64 {
    RandomState::new().hash_one(wall_millis())
}

/// From 0 to 1, for jitter.
pub(super) fn random_unit() -> f64 {
    f64::from(u32::try_from(random() >> 32).unwrap_or_default()) / f64::from(u32::MAX)
}

/// Now, in the microseconds that a Lease can hold.
fn wall() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

fn wall_millis() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, millis)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_right_to_write_ends_by_itself() {
        let leadership = Leadership::none();
        assert!(!leadership.may_write());
        leadership.set(Some(leadership.now() + Duration::from_millis(80)), u64::MAX);
        assert!(leadership.may_write());
        leadership.won().await;
        // Nothing runs in between: a stopped process has no task that could close it.
        std::thread::sleep(Duration::from_millis(100));
        assert!(!leadership.may_write());
        assert!(*leadership.changes().borrow());
        leadership.set(None, 0);
        assert!(!*leadership.changes().borrow());
        assert!(Leadership::always().may_write());
    }

    #[tokio::test]
    async fn a_suspended_machine_is_noticed_by_the_wall_clock() {
        let leadership = Leadership::none();
        leadership.set(Some(leadership.now() + Duration::from_secs(10)), wall_millis() + 10_000);
        assert!(leadership.may_write());
        leadership.set(Some(leadership.now() + Duration::from_secs(10)), wall_millis() - 1);
        assert!(!leadership.may_write());
    }

    #[test]
    fn identities_differ() {
        assert_ne!(identity(), identity());
        let unit = random_unit();
        assert!((0.0..=1.0).contains(&unit));
    }
}

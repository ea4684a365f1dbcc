//! Carries out the steps of a plan: in stages, side by side within a stage, slowly at first, each with a deadline.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::refusal::Refusal;
use crate::observe::index::{Child, FOR_EVER, Index, Owner};
use crate::observe::seen::{Failure, FailureKind, PodView, ServiceView};
use crate::observe::wire::{PodWire, ServiceWire};
use crate::plan::{Action, Stage, Step};

/// Our name as an owner of fields.
pub const FIELD_MANAGER: &str = "ray-operator";
/// Above the client's own bound for one request with its retries.
const DEADLINE: Duration = Duration::from_secs(30);
/// Steps of one pass at most; the rest follow in the next, so that a large cluster does not keep others waiting.
pub const STEPS_PER_PASS: usize = 100;
/// Requests in flight for one object at most.
const WIDEST: usize = 16;
const FIRST_RETRY_SECONDS: i64 = 1;
const LONGEST_RETRY_SECONDS: i64 = 30;

/// Writes children, and tells the index what came of it. The client refuses to write while this process does not lead.
#[derive(Clone)]
pub struct Hands {
    pub client: Client,
    pub index: Arc<Index>,
}

/// What a pass did.
#[derive(Debug, Default)]
pub struct Done {
    /// Steps that took effect.
    pub done: Vec<Step>,
    /// Failures that a person has not heard of yet.
    pub news: Vec<Failure>,
    /// Reason and scope of all that failed, or was held back by a failure.
    pub stopped: Vec<(&'static str, String)>,
    /// Steps were left for the next pass.
    pub more: bool,
}

impl Hands {
    /// Carries out the steps in order of their stages, [`STEPS_PER_PASS`] at most. A failed step ends its scope for this
    /// pass; without the head Service nothing that follows makes sense. Steps that failed lately wait for their time.
    pub async fn carry_out(&self, owner: &Owner, steps: Vec<Step>, now: Timestamp) -> Done {
        let Sorted { mut ready, mut stopped } = sort_out(steps, &self.index.failures(&owner.uid), now);
        let mut done = Done { more: ready.len() > STEPS_PER_PASS, ..Done::default() };
        ready.truncate(STEPS_PER_PASS);
        while !ready.is_empty() {
            let stage = ready[0].stage;
            let later = ready.split_off(ready.partition_point(|s| s.stage == stage));
            let (blocked, mut current): (Vec<_>, Vec<_>) =
                std::mem::replace(&mut ready, later).into_iter().partition(|s| is_blocked(s, &stopped));
            stopped.extend(blocked.into_iter().map(Stopped::from));
            let (mut width, mut silent) = (1, false);
            while !current.is_empty() {
                let batch: Vec<Step> = current.drain(..width.min(current.len())).collect();
                let outcomes = join_all(batch.into_iter().map(|step| self.one(owner, step, now))).await;
                for (step, outcome) in outcomes {
                    match outcome {
                        Ok(()) => done.done.push(step),
                        Err((failure, news)) => {
                            silent |= failure.kind == FailureKind::Unavailable;
                            current.retain(|s| s.scope != step.scope);
                            stopped.push(Stopped::from(step));
                            if news && !done.news.iter().any(|f| f.step == failure.step && f.scope == failure.scope) {
                                done.news.push(failure);
                            }
                        }
                    }
                }
                width = (width * 2).min(WIDEST);
                if silent {
                    // What does not answer here would hold the pass for as long each time: the rest has its turn later.
                    done.more = true;
                    ready.clear();
                    break;
                }
            }
        }
        done.stopped = stopped.into_iter().map(|s| (s.reason, s.scope)).collect();
        done
    }

    async fn one(&self, owner: &Owner, mut step: Step, now: Timestamp) -> (Step, Result<(), (Failure, bool)>) {
        let attempt = step.action.place();
        if let Some((place, incarnation)) = attempt.clone() {
            self.index.attempt(&owner.uid, place, incarnation);
        }
        let effect = tokio::time::timeout(DEADLINE, self.effect(&owner.uid, &step.action));
        let outcome = effect.await.unwrap_or_else(|_| {
            Err(Refusal::new(FailureKind::Unavailable, format!("no answer within {} s", DEADLINE.as_secs())))
        });
        let unknown = matches!(&outcome, Err(refusal) if refusal.kind == FailureKind::Unavailable);
        if let Some((place, _)) = attempt.filter(|_| !unknown) {
            self.index.settled(&owner.uid, &place);
        }
        let result = outcome.map(|made| step.tell &= made).map_err(|refusal| {
            let (verb, what) = describe(&step.action);
            let failure = Failure {
                kind: refusal.kind,
                verb: verb.to_owned(),
                what,
                step: step.reason.to_owned(),
                scope: step.scope.clone(),
                message: refusal.message,
                since: now,
                times: 1,
                retry_at: now,
            };
            self.index.failed(&owner.uid, failure, Timestamp::now(), retry_delay)
        });
        (step, result)
    }

    /// Says whether it changed anything.
    async fn effect(&self, owner: &str, action: &Action) -> Result<bool, Refusal> {
        match action {
            Action::CreatePod(pod) => self.create::<Pod, PodWire, PodView>(owner, "pods", pod, &pod.metadata).await,
            Action::CreateService(service) => {
                self.create::<Service, ServiceWire, ServiceView>(owner, "services", service, &service.metadata).await
            }
            Action::PatchService(service) => self.patch_service(service).await,
            Action::DeletePod { namespace, name, uid } => {
                self.delete::<PodWire, PodView>("pods", namespace, name, uid).await
            }
            Action::DeleteService { namespace, name, uid } => {
                self.delete::<ServiceWire, ServiceView>("services", namespace, name, uid).await
            }
        }
    }

    /// Creates a child. "Already exists" is success when the one that exists is ours: an earlier create whose answer
    /// was lost, or a view that was behind.
    async fn create<K, W, V>(
        &self,
        owner: &str,
        plural: &str,
        object: &K,
        meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta,
    ) -> Result<bool, Refusal>
    where
        K: Serialize,
        W: DeserializeOwned + Into<V>,
        V: Child,
    {
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let name = meta.name.as_deref().unwrap_or_default();
        let request = Request::new(path(plural, namespace));
        let body = serde_json::to_vec(object).map_err(|e| Refusal::new(FailureKind::Invalid, e.to_string()))?;
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match self.call::<W>(request.create(&params, body)).await {
            Ok(made) => {
                self.index.apply::<V>(made.into());
                Ok(true)
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let existing: V = self.call::<W>(request.get(name, &Default::default())).await?.into();
                if existing.owner_uid() == owner {
                    self.index.apply::<V>(existing);
                    Ok(false)
                } else {
                    let message = format!("{plural} {name} exists and belongs to somebody else");
                    Err(Refusal::new(FailureKind::NameTaken, message))
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A merge patch: lists of ours (ports) are replaced as a whole, so that one taken out goes; node ports and the
    /// annotations of others stay. Server-side apply would keep ports of the first, plain create.
    async fn patch_service(&self, service: &Service) -> Result<bool, Refusal> {
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let request = Request::new(path("services", namespace)).patch(name, &params, &Patch::Merge(service));
        let made: ServiceView = self.call::<ServiceWire>(request).await?.into();
        self.index.apply(made);
        Ok(true)
    }

    /// Deletes exactly that object. One that is gone already, or whose name a successor bears, is success.
    async fn delete<W, V>(&self, plural: &str, namespace: &str, name: &str, uid: &str) -> Result<bool, Refusal>
    where
        W: DeserializeOwned + Into<V>,
        V: Child,
    {
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        let request = Request::new(path(plural, namespace)).delete(name, &params);
        match self.call::<Deleted<W>>(request).await {
            Ok(Deleted::Object(object)) => {
                let view: V = object.into();
                if view.is_leaving() {
                    self.index.leaves(view);
                    return Ok(true);
                }
            }
            Ok(Deleted::Gone(_)) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(kube::Error::Api(status))
                if status.is_conflict() && !self.is_there::<W, V>(plural, namespace, name, uid).await? => {}
            Err(error) => return Err(error.into()),
        }
        self.index.remove::<V>(namespace, name, uid, FOR_EVER, Timestamp::now());
        Ok(true)
    }

    /// Whether exactly that object still exists. A conflict over a delete can mean a successor of the same name, or
    /// nothing but a race in the API server.
    async fn is_there<W, V>(&self, plural: &str, namespace: &str, name: &str, uid: &str) -> Result<bool, Refusal>
    where
        W: DeserializeOwned + Into<V>,
        V: Child,
    {
        match self.call::<W>(Request::new(path(plural, namespace)).get(name, &Default::default())).await {
            Ok(found) => Ok(found.into().uid() == uid),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn call<T: DeserializeOwned>(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> impl Future<Output = Result<T, kube::Error>> {
        let client = self.client.clone();
        async move { client.request::<T>(request.map_err(kube::Error::BuildRequest)?).await }
    }
}

/// A step that is not carried out now.
struct Stopped {
    stage: Stage,
    reason: &'static str,
    scope: String,
}

impl From<Step> for Stopped {
    fn from(step: Step) -> Self {
        Stopped { stage: step.stage, reason: step.reason, scope: step.scope }
    }
}

struct Sorted {
    ready: Vec<Step>,
    stopped: Vec<Stopped>,
}

/// Sorts steps by stage and puts aside what failed lately and what such a failure holds up.
fn sort_out(mut steps: Vec<Step>, failures: &[Failure], now: Timestamp) -> Sorted {
    steps.sort_by_key(|s| s.stage);
    let mut sorted = Sorted { ready: Vec::new(), stopped: Vec::new() };
    for step in steps {
        let waits = failures.iter().any(|f| f.step == step.reason && f.scope == step.scope && f.retry_at > now);
        if waits || is_blocked(&step, &sorted.stopped) {
            sorted.stopped.push(Stopped::from(step));
        } else {
            sorted.ready.push(step);
        }
    }
    sorted
}

/// Whether any of the steps could be carried out now.
pub fn any_ready(steps: Vec<Step>, failures: &[Failure], now: Timestamp) -> bool {
    !sort_out(steps, failures, now).ready.is_empty()
}

/// Whether an earlier stage stopped what this step builds on: its own scope, or the head Service.
fn is_blocked(step: &Step, stopped: &[Stopped]) -> bool {
    stopped.iter().any(|s| s.stage < step.stage && (s.stage == Stage::Services || s.scope == step.scope))
}

/// The answer to a delete: the object, as it leaves or as it last was, or a bare Status.
#[derive(Deserialize)]
#[serde(untagged)]
enum Deleted<W> {
    Object(W),
    Gone(#[allow(dead_code)] serde::de::IgnoredAny),
}

fn path(plural: &str, namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/{plural}")
}

/// 1 s doubling to 30 s: granted rights take effect within that time.
fn retry_delay(times: u32) -> SignedDuration {
    SignedDuration::from_secs((FIRST_RETRY_SECONDS << (times.saturating_sub(1)).min(6)).min(LONGEST_RETRY_SECONDS))
}

fn describe(action: &Action) -> (&'static str, String) {
    let name =
        |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| meta.name.clone().unwrap_or_default();
    match action {
        Action::CreatePod(pod) => ("create", format!("pods {}", name(&pod.metadata))),
        Action::CreateService(service) => ("create", format!("services {}", name(&service.metadata))),
        Action::PatchService(service) => ("patch", format!("services {}", name(&service.metadata))),
        Action::DeletePod { name, .. } => ("delete", format!("pods {name}")),
        Action::DeleteService { name, .. } => ("delete", format!("services {name}")),
    }
}

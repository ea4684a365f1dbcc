//! Carries out the steps of a plan: in stages, side by side within a stage, slowly at first, each with a deadline.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::Request;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::refusal::Refusal;
use super::token;
use super::view::View;
use crate::api::children::Kind;
use crate::api::names::FIELD_MANAGER;
use crate::observe::index::{FOR_EVER, Index, Owner};
use crate::observe::seen::{ChildView, Failure, FailureKind, PodView, ServiceView};
use crate::observe::watch::Clusters;
use crate::plan::{Action, Object, Stage, Step};

/// Above the client's own bound for one request with its retries.
const DEADLINE: Duration = Duration::from_secs(30);
/// Steps of one pass at most; the rest follow in the next, so that a large cluster does not keep others waiting.
pub const STEPS_PER_PASS: usize = 100;
/// Requests in flight for one object at most.
const WIDEST: usize = 16;
/// A create can be answered `namespaces "x" not found`, or so of a Role that is to be bound; else it is the kind that the
/// API server does not find.
const NO_SUCH_OBJECT: &str = "\" not found";
const FIRST_RETRY_SECONDS: i64 = 1;
const LONGEST_RETRY_SECONDS: i64 = 30;

/// Writes children, and tells the index what came of it. The client refuses to write while this process does not lead.
#[derive(Clone)]
pub struct Hands {
    pub client: Client,
    pub index: Arc<Index>,
    pub clusters: Arc<Clusters>,
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

/// What a request came to that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Made,
    /// It was so already.
    Found,
    /// The plan was made for an earlier version of the object. `newer`: the present one is known now.
    Outdated {
        newer: bool,
    },
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
                        Ok(Effect::Outdated { newer }) => {
                            done.more |= newer;
                            current.retain(|s| s.scope != step.scope);
                            stopped.push(Stopped::from(step));
                        }
                        Ok(Effect::Made | Effect::Found) => done.done.push(step),
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

    async fn one(&self, owner: &Owner, mut step: Step, now: Timestamp) -> (Step, Result<Effect, (Failure, bool)>) {
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
        let result = outcome.inspect(|effect| step.tell &= *effect == Effect::Made).map_err(|refusal| {
            let failure = Failure {
                kind: refusal.kind,
                verb: step.action.verb().to_owned(),
                what: format!("{} {}", step.action.kind().plural(), step.action.name()),
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

    async fn effect(&self, owner: &str, action: &Action) -> Result<Effect, Refusal> {
        match action {
            Action::Create(object) => {
                let body = match object {
                    Object::Pod(pod) => serde_json::to_vec(pod),
                    Object::Service(service) => serde_json::to_vec(service),
                    Object::Other(manifest) => serde_json::to_vec(&manifest.value),
                    Object::Token(manifest, key) => {
                        let filled = token::filled(manifest, key);
                        let filled = filled.map_err(|e| Refusal::new(FailureKind::Unavailable, e.to_string()))?;
                        serde_json::to_vec(&filled)
                    }
                };
                let body = body.map_err(|e| Refusal::new(FailureKind::Invalid, e.to_string()))?;
                self.create(owner, action, body).await
            }
            Action::Patch(manifest) if manifest.kind == Kind::RayCluster => {
                super::own::patch(&self.client, &self.clusters, manifest).await
            }
            Action::Patch(manifest) => self.patch(action, &manifest.value).await,
            Action::Delete(target) => self.delete(action, &target.uid).await,
        }
    }

    /// Creates a child. "Already exists" is success when the one that exists is ours: an earlier create whose answer
    /// was lost, or a view that was behind.
    async fn create(&self, owner: &str, action: &Action, body: Vec<u8>) -> Result<Effect, Refusal> {
        let request = Request::new(action.kind().path(action.namespace()));
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        match self.call::<Value>(request.create(&params, body)).await {
            Ok(made) => {
                self.take_in(action.kind(), made)?;
                Ok(Effect::Made)
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let existing = self.call::<Value>(request.get(action.name(), &Default::default())).await?;
                let view = View::of(action.kind(), existing)?;
                let theirs = view.meta().owner_uid != owner && !view.is_uncontrolled();
                if theirs {
                    let message =
                        format!("{} {} exists and belongs to somebody else", action.kind().plural(), action.name());
                    return Err(Refusal::new(FailureKind::NameTaken, message));
                }
                view.apply(&self.index);
                Ok(Effect::Found)
            }
            Err(kube::Error::Api(status)) if status.code == 404 && !status.message.contains(NO_SUCH_OBJECT) => {
                let kind = action.kind();
                let message = format!(
                    "the API server does not know {} {}: install what it belongs to, or its CRD",
                    kind.api_version(),
                    kind.kind()
                );
                Err(Refusal::new(FailureKind::Unavailable, message))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A merge patch: lists of ours (ports) are replaced as a whole, so that one taken out goes; node ports and the
    /// annotations of others stay. Server-side apply would keep ports of the first, plain create.
    async fn patch(&self, action: &Action, value: &Value) -> Result<Effect, Refusal> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let request = Request::new(action.kind().path(action.namespace()));
        let made = self.call::<Value>(request.patch(action.name(), &params, &Patch::Merge(value))).await?;
        self.take_in(action.kind(), made)?;
        Ok(Effect::Made)
    }

    /// Deletes exactly that object. One that is gone already, or whose name a successor bears, is success.
    async fn delete(&self, action: &Action, uid: &str) -> Result<Effect, Refusal> {
        let (kind, namespace, name) = (action.kind(), action.namespace(), action.name());
        let params = DeleteParams {
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            // What a Job or a claim has made goes with it.
            propagation_policy: Some(PropagationPolicy::Background),
            ..DeleteParams::default()
        };
        let request = Request::new(kind.path(namespace)).delete(name, &params);
        match self.call::<Value>(request).await {
            // The object as it leaves, or a bare Status.
            Ok(answer) if answer["metadata"]["deletionTimestamp"].is_string() => {
                View::of(kind, answer)?.leaves(&self.index);
                return Ok(Effect::Made);
            }
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(kube::Error::Api(status)) if status.is_conflict() && !self.is_there(action, uid).await? => {}
            Err(error) => return Err(error.into()),
        }
        let now = Timestamp::now();
        match kind {
            Kind::Pod => self.index.remove::<PodView>(namespace, name, uid, FOR_EVER, now),
            Kind::Service => self.index.remove::<ServiceView>(namespace, name, uid, FOR_EVER, now),
            _ => self.index.remove::<ChildView>(namespace, &ChildView::key_of(kind, name), uid, FOR_EVER, now),
        };
        Ok(Effect::Made)
    }

    /// Whether exactly that object still exists. A conflict over a delete can mean a successor of the same name, or
    /// nothing but a race in the API server.
    async fn is_there(&self, action: &Action, uid: &str) -> Result<bool, Refusal> {
        let request = Request::new(action.kind().path(action.namespace()));
        match self.call::<Value>(request.get(action.name(), &Default::default())).await {
            Ok(found) => Ok(found["metadata"]["uid"] == uid),
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the answer to a write into the index.
    fn take_in(&self, kind: Kind, answer: Value) -> Result<(), Refusal> {
        View::of(kind, answer)?.apply(&self.index);
        Ok(())
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

/// Whether an earlier stage stopped what this step builds on: its own scope, or what every pod needs.
fn is_blocked(step: &Step, stopped: &[Stopped]) -> bool {
    let needed = |stage| matches!(stage, Stage::Guard | Stage::Services);
    stopped.iter().any(|s| s.stage < step.stage && (needed(s.stage) || s.scope == step.scope))
}

/// 1 s doubling to 30 s: granted rights take effect within that time.
fn retry_delay(times: u32) -> SignedDuration {
    SignedDuration::from_secs((FIRST_RETRY_SECONDS << (times.saturating_sub(1)).min(6)).min(LONGEST_RETRY_SECONDS))
}

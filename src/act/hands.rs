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
use crate::observe::index::{Child, Index, Owner};
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
    /// Carries out the steps in order of their stages. A failed step ends its stage and all later ones, but not what
    /// stands beside it in another scope. Steps that failed lately wait for their time.
    pub async fn carry_out(&self, owner: &Owner, steps: Vec<Step>, now: Timestamp) -> Done {
        let held = self.index.seen(&owner.uid).failures;
        let mut done = Done { more: steps.len() > STEPS_PER_PASS, ..Done::default() };
        let mut stopped: Vec<(Stage, &'static str, String)> = Vec::new();
        let mut queue: Vec<Step> = steps.into_iter().take(STEPS_PER_PASS).collect();
        queue.sort_by_key(|s| s.stage);
        while !queue.is_empty() {
            let stage = queue[0].stage;
            let rest = queue.split_off(queue.partition_point(|s| s.stage == stage));
            let mut width = 1;
            let mut ready: Vec<Step> = Vec::new();
            for step in std::mem::replace(&mut queue, rest) {
                let waits = held.iter().any(|f| f.step == step.reason && f.scope == step.scope && f.retry_at > now);
                let blocked = stopped
                    .iter()
                    .any(|(at, _, scope)| *at < stage && (*at == Stage::Services || *scope == step.scope));
                if waits || blocked {
                    stopped.push((stage, step.reason, step.scope));
                } else {
                    ready.push(step);
                }
            }
            while !ready.is_empty() {
                let batch: Vec<Step> = ready.drain(..width.min(ready.len())).collect();
                let outcomes = join_all(batch.into_iter().map(|step| self.one(owner, step, now))).await;
                for (step, outcome) in outcomes {
                    match outcome {
                        Ok(()) => done.done.push(step),
                        Err((failure, news)) => {
                            ready.retain(|s| s.scope != step.scope);
                            stopped.push((stage, step.reason, step.scope));
                            if news && !done.news.iter().any(|f| f.step == failure.step && f.scope == failure.scope) {
                                done.news.push(failure);
                            }
                        }
                    }
                }
                width = (width * 2).min(WIDEST);
            }
        }
        done.stopped = stopped.into_iter().map(|(_, reason, scope)| (reason, scope)).collect();
        done
    }

    async fn one(&self, owner: &Owner, step: Step, now: Timestamp) -> (Step, Result<(), (Failure, bool)>) {
        let effect = tokio::time::timeout(DEADLINE, self.effect(&owner.uid, &step.action));
        let outcome = effect.await.unwrap_or_else(|_| {
            Err(Refusal::new(FailureKind::Unavailable, format!("no answer within {} s", DEADLINE.as_secs())))
        });
        let result = outcome.map_err(|refusal| {
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

    async fn effect(&self, owner: &str, action: &Action) -> Result<(), Refusal> {
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
    ) -> Result<(), Refusal>
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
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let existing: V = self.call::<W>(request.get(name, &Default::default())).await?.into();
                if existing.owner_uid() == owner {
                    self.index.apply::<V>(existing);
                    Ok(())
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
    async fn patch_service(&self, service: &Service) -> Result<(), Refusal> {
        let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
        let name = service.metadata.name.as_deref().unwrap_or_default();
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let request = Request::new(path("services", namespace)).patch(name, &params, &Patch::Merge(service));
        let made: ServiceView = self.call::<ServiceWire>(request).await?.into();
        self.index.apply(made);
        Ok(())
    }

    /// Deletes exactly that object. One that is gone already, or whose name a successor bears, is success.
    async fn delete<W, V>(&self, plural: &str, namespace: &str, name: &str, uid: &str) -> Result<(), Refusal>
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
            Ok(Deleted::Leaving(object)) => {
                let view: V = object.into();
                self.index.apply(view);
                Ok(())
            }
            Ok(Deleted::Gone(_)) => {
                self.index.remove::<V>(namespace, name, uid, Timestamp::now());
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                self.index.remove::<V>(namespace, name, uid, Timestamp::now());
                Ok(())
            }
            Err(kube::Error::Api(status))
                if status.is_conflict() && !self.is_there::<W, V>(plural, namespace, name, uid).await? =>
            {
                self.index.remove::<V>(namespace, name, uid, Timestamp::now());
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
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

/// The answer to a delete: the object when it takes time, a bare Status when it was gone at once.
#[derive(Deserialize)]
#[serde(untagged)]
enum Deleted<W> {
    Leaving(W),
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

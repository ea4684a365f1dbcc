//! Asks heads the questions of planners, one at a time per cluster, a bounded number in all. It has no clock of its
//! own: a cluster whose planner asks nothing is not polled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::head::{Route, Trouble};
use super::nodes;
use crate::observe::index::Owner;
use crate::observe::seen::{HeadFacts, Unreachable};
use crate::observe::watch::Observed;
use crate::plan::AskHead;

/// Answers read at once: bounds memory, whatever heads send.
const BODIES: usize = 8;

pub struct Poller {
    route: Route,
    observed: Observed,
    bodies: Semaphore,
    under_way: Mutex<HashMap<String, (AskHead, AbortHandle)>>,
}

impl Poller {
    pub fn new(route: Route, observed: Observed) -> Arc<Self> {
        Arc::new(Poller { route, observed, bodies: Semaphore::new(BODIES), under_way: Mutex::default() })
    }

    /// Asks when the question's time has come, and triggers a pass with the answer. The same question under way is
    /// left alone; another one about the same cluster is replaced.
    pub fn ask(self: &Arc<Self>, owner: Owner, question: AskHead) {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((earlier, task)) = under_way.get(&owner.uid) {
            if *earlier == question && !task.is_finished() {
                return;
            }
            task.abort();
        }
        let (me, uid, asked) = (Arc::clone(self), owner.uid.clone(), question.clone());
        let task = tokio::spawn(async move {
            let facts = me.facts(&owner.uid, &asked).await;
            me.observed.index.head_said(&owner.uid, facts);
            let mut under_way = me.under_way.lock().unwrap_or_else(PoisonError::into_inner);
            if under_way.get(&owner.uid).is_some_and(|(q, _)| *q == asked) {
                under_way.remove(&owner.uid);
            }
            drop(under_way);
            me.observed.triggers.pull(Some(owner));
        });
        under_way.insert(uid, (question, task.abort_handle()));
    }

    /// Drops a question that nobody needs answered any more.
    pub fn drop_question(&self, uid: &str) {
        if let Some((_, task)) = self.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(uid) {
            task.abort();
        }
    }

    async fn facts(&self, uid: &str, question: &AskHead) -> HeadFacts {
        if let Some(wait) = question.not_before.map(|at| at.duration_since(Timestamp::now())) {
            tokio::time::sleep(Duration::try_from(wait).unwrap_or_default()).await;
        }
        let answer = self.route.get(question, nodes::PATH, &self.bodies).await.and_then(|body| {
            nodes::parse(&body)
                .map_err(|e| Trouble { layer: "HTTP", message: format!("not the answer of a Ray dashboard: {e}") })
        });
        let at = Timestamp::now();
        let answer = answer.map_err(|trouble| {
            let before = self.observed.index.head(uid).filter(|h| h.fingerprint == question.fingerprint);
            let before = before.and_then(|h| h.answer.err());
            let since = before.map_or(at, |b| b.since);
            Unreachable { layer: trouble.layer.to_owned(), message: trouble.message, since }
        });
        HeadFacts { at, fingerprint: question.fingerprint, answer }
    }
}

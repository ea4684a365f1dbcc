//! Plays the dashboard of Ray's heads: answers which nodes Ray knows.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::combinators::UnsyncBoxBody;
use serde_json::json;

use super::proxy::{refusal, whole};
use super::record::Record;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// Every running pod of the cluster is a node.
    #[default]
    Honest,
    /// Leaves out so many of the workers.
    Misses(usize),
    /// Nobody listens on the port.
    Refuses,
    /// Takes longer than anybody waits.
    Hangs,
    /// Tells those only who show its token.
    WantsToken,
}

pub struct Head {
    record: Arc<Record>,
    mood: Mutex<Mood>,
    asked: Mutex<usize>,
}

impl Head {
    pub fn new(record: Arc<Record>) -> Self {
        Head { record, mood: Mutex::default(), asked: Mutex::default() }
    }

    pub fn mood(&self, mood: Mood) {
        *self.mood.lock().expect("the mood") = mood;
    }

    /// How many questions were asked.
    pub fn asked(&self) -> usize {
        *self.asked.lock().expect("a count")
    }

    /// `service` as in the API server's proxy path: `<cluster>-head-svc:<port>`.
    pub async fn answer(&self, service: &str) -> Response<UnsyncBoxBody<Bytes, io::Error>> {
        *self.asked.lock().expect("a count") += 1;
        let mood = *self.mood.lock().expect("the mood");
        let cluster = service.split("-head-svc").next().unwrap_or_default();
        let missing = match mood {
            Mood::Refuses => return refusal(503, None),
            Mood::WantsToken => return refusal(401, None),
            Mood::Hangs => {
                tokio::time::sleep(Duration::from_secs(300)).await;
                return refusal(504, None);
            }
            Mood::Misses(n) => n,
            Mood::Honest => 0,
        };
        let now = self.record.now();
        let head = now.pods(cluster).into_iter().filter(|p| p["metadata"]["labels"]["ray.io/node-type"] == "head");
        let workers = now.pods(cluster).into_iter().filter(|p| p["metadata"]["labels"]["ray.io/node-type"] == "worker");
        let nodes: Vec<_> = head
            .chain(workers.skip(missing))
            .filter(|p| p["status"]["phase"] == "Running" && p["metadata"]["deletionTimestamp"].is_null())
            .map(|p| json!({"raylet": {"nodeManagerAddress": p["status"]["podIP"], "state": "ALIVE"}}))
            .collect();
        let body = json!({"result": true, "msg": "", "data": {"summary": nodes}});
        Response::builder().header("content-type", "application/json").body(whole(body.to_string())).expect("an answer")
    }
}

//! Plays scheduler and kubelet of one namespace: binds pods, runs them, takes away those that were deleted.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, Preconditions};
use kube::client::Body;
use serde_json::{Value, json};

use super::objects;
use super::record::Record;

/// What the kubelet does by itself.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Makes every new pod Ready.
    pub runs: bool,
    /// Takes away pods that were deleted.
    pub reaps: bool,
}

pub struct Kubelet {
    client: Client,
    namespace: String,
    api: Api<DynamicObject>,
    record: Arc<Record>,
    habits: Mutex<Habits>,
}

static ADDRESSES: AtomicU32 = AtomicU32::new(1);

impl Kubelet {
    pub fn new(client: &Client, namespace: &str, record: Arc<Record>) -> Self {
        Kubelet {
            client: client.clone(),
            namespace: namespace.to_owned(),
            api: objects::kind(client, namespace, "v1", "Pod"),
            record,
            habits: Mutex::new(Habits { runs: true, reaps: true }),
        }
    }

    pub fn runs(&self, yes: bool) {
        self.habits.lock().expect("habits").runs = yes;
    }

    pub fn reaps(&self, yes: bool) {
        self.habits.lock().expect("habits").reaps = yes;
    }

    /// Lives by its habits until dropped.
    pub async fn live(self: Arc<Self>) {
        let mut news = self.record.news();
        let mut done: BTreeSet<(String, &'static str)> = BTreeSet::new();
        loop {
            let habits = *self.habits.lock().expect("habits");
            let mut work = Vec::new();
            for pod in self.record.now().all("Pod") {
                let (name, uid) = (text(pod, "name"), text(pod, "uid"));
                let leaving = !pod["metadata"]["deletionTimestamp"].is_null();
                if leaving && habits.reaps && done.insert((uid.clone(), "reaped")) {
                    work.push(Work::Reap(name, uid));
                } else if !leaving && habits.runs && done.insert((uid, "run")) {
                    work.push(Work::Run(pod.clone()));
                }
            }
            let work = work.into_iter().map(|w| async {
                match w {
                    Work::Reap(name, uid) => self.reap(&name, &uid).await,
                    Work::Run(pod) => self.run(&pod).await,
                }
            });
            futures::future::join_all(work).await;
            let _ = tokio::time::timeout(Duration::from_millis(50), news.changed()).await;
        }
    }

    async fn reap(&self, name: &str, uid: &str) {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions { uid: Some(uid.to_owned()), resource_version: None }),
            ..DeleteParams::default()
        };
        let _ = self.api.delete(name, &params).await;
    }

    /// Binds a pod and makes it Ready. One that is gone meanwhile is none of our business.
    pub async fn run(&self, pod: &Value) {
        self.bind(pod).await;
        let address = ADDRESSES.fetch_add(1, Ordering::Relaxed);
        let ip = format!("10.{}.{}.{}", 100 + (address >> 16), (address >> 8) & 255, address & 255);
        let now = now();
        let running = |c: &Value| {
            json!({
                "name": c["name"], "image": c["image"], "imageID": "fake", "restartCount": 0, "ready": true,
                "started": true, "state": {"running": {"startedAt": now}},
            })
        };
        let finished = |c: &Value| {
            let end = json!({"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now});
            json!({
                "name": c["name"], "image": c["image"], "imageID": "fake", "restartCount": 0, "ready": true,
                "state": {"terminated": end},
            })
        };
        let list = |key: &str, make: &dyn Fn(&Value) -> Value| -> Vec<Value> {
            pod["spec"][key].as_array().into_iter().flatten().map(make).collect()
        };
        let status = json!({
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}], "hostIP": "10.99.0.1", "startTime": now,
            "conditions": conditions("True", "", ""),
            "initContainerStatuses": list("initContainers", &finished),
            "containerStatuses": list("containers", &running),
        });
        self.say(&text(pod, "name"), &status).await;
    }

    pub async fn bind(&self, pod: &Value) {
        if pod["spec"]["nodeName"].is_string() {
            return;
        }
        let name = text(pod, "name");
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": text(pod, "uid")},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "nowhere"},
        });
        let request = http::Request::post(format!("/api/v1/namespaces/{}/pods/{name}/binding", self.namespace))
            .header("content-type", "application/json")
            .body(Body::from(binding.to_string().into_bytes()))
            .expect("a request");
        let _ = self.client.send(request).await;
    }

    /// Merges something into a pod's status.
    async fn say(&self, name: &str, status: &Value) {
        let patch = Patch::Merge(json!({"status": status}));
        let _ = self.api.patch_subresource("status", name, &PatchParams::default(), &patch).await;
    }

    /// The pod ends in a phase (`Failed`, `Succeeded`), for a reason.
    pub async fn end(&self, name: &str, phase: &str, reason: &str) {
        let status = json!({
            "phase": phase, "reason": reason, "message": "said by the test",
            "conditions": conditions("False", "PodFailed", ""),
        });
        self.say(name, &status).await;
    }

    /// The Ray container has ended; the pod stays in phase Running.
    pub async fn ray_ends(&self, pod: &Value, exit_code: i32) {
        let end = json!({"exitCode": exit_code, "reason": "Error", "message": "boom", "startedAt": now(), "finishedAt": now()});
        self.first_container(pod, 0, &json!({"terminated": end}), &json!({})).await;
    }

    /// The image of the first container cannot be had.
    pub async fn image_missing(&self, pod: &Value) {
        let image = text(&pod["spec"]["containers"][0], "image");
        let wait = json!({"waiting": {"reason": "ImagePullBackOff", "message": format!("Back-off pulling image \"{image}\"")}});
        self.bind(pod).await;
        self.say(&text(pod, "name"), &json!({"phase": "Pending"})).await;
        self.first_container(pod, 0, &wait, &json!({})).await;
    }

    /// The first container has crashed a few times and is held back.
    pub async fn crash_loop(&self, pod: &Value, restarts: u32) {
        let end = json!({"exitCode": 137, "reason": "OOMKilled", "message": "last words", "startedAt": now(), "finishedAt": now()});
        let wait = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting"}});
        self.bind(pod).await;
        self.say(&text(pod, "name"), &json!({"phase": "Running"})).await;
        self.first_container(pod, restarts, &wait, &json!({"terminated": end})).await;
    }

    /// No node fits.
    pub async fn unschedulable(&self, name: &str, says: &str) {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": says, "lastTransitionTime": now()});
        self.say(name, &json!({"phase": "Pending", "conditions": [condition]})).await;
    }

    /// A Job of this name succeeds, or fails with that message. The API server wants to hear first what will be.
    pub async fn job_ends(&self, name: &str, failure: Option<&str>) {
        let now = now();
        let conditions = |types: [&str; 2]| -> Vec<Value> {
            let one = |type_: &str| {
                let message = failure.unwrap_or_default();
                json!({"type": type_, "status": "True", "reason": "Test", "message": message, "lastTransitionTime": now})
            };
            types.into_iter().map(one).collect()
        };
        let mut status = json!({"startTime": now});
        match failure {
            None => {
                status["conditions"] = json!(conditions(["SuccessCriteriaMet", "Complete"]));
                status["completionTime"] = json!(now);
                status["succeeded"] = json!(1);
            }
            Some(_) => {
                status["conditions"] = json!(conditions(["FailureTarget", "Failed"]));
                status["failed"] = json!(1);
            }
        }
        let jobs = objects::kind(&self.client, &self.namespace, "batch/v1", "Job");
        let patch = Patch::Merge(json!({"status": status}));
        jobs.patch_subresource("status", name, &PatchParams::default(), &patch).await.expect("the Job to end");
    }

    async fn first_container(&self, pod: &Value, restarts: u32, state: &Value, last: &Value) {
        let container = &pod["spec"]["containers"][0];
        let status = json!({
            "name": container["name"], "image": container["image"], "imageID": "fake", "ready": false, "started": false,
            "restartCount": restarts, "state": state, "lastState": last,
        });
        let status = json!({
            "conditions": conditions("False", "ContainersNotReady", "containers with unready status"),
            "containerStatuses": [status],
        });
        self.say(&text(pod, "name"), &status).await;
    }
}

enum Work {
    Reap(String, String),
    Run(Value),
}

fn now() -> String {
    Timestamp::from_second(Timestamp::now().as_second()).expect("a time").to_string()
}

/// A pod's conditions with that readiness.
fn conditions(ready: &str, reason: &str, message: &str) -> Value {
    let list: Vec<Value> = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
        .iter()
        .map(|type_| {
            let (status, reason, message) = match *type_ {
                "Ready" | "ContainersReady" => (ready, reason, message),
                _ => ("True", "", ""),
            };
            json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": now()})
        })
        .collect();
    Value::Array(list)
}

/// A text field of an object's metadata, or of the object itself.
fn text(object: &Value, key: &str) -> String {
    object["metadata"][key].as_str().or_else(|| object[key].as_str()).unwrap_or_default().to_owned()
}

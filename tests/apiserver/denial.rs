//! A policy of the cluster denies our pods: is it said, is it bounded, does it heal?

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::{Bench, cluster, objects, run};

/// Denies every pod with label `deny=yes` in a namespace.
fn policy(namespace: &str) -> [Value; 2] {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": namespace},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
            ]},
            "validations": [{
                "expression": "!has(object.metadata.labels) || !('deny' in object.metadata.labels)",
                "message": "the label deny is not wanted here",
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": namespace},
        "spec": {
            "policyName": namespace, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}},
        },
    });
    [policy, binding]
}

/// Applies the policy and waits until the API server has taken it in.
async fn enforce(bench: &Bench) {
    for object in policy(&bench.namespace) {
        bench.apply(&object).await;
    }
    let probe = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "probe-", "labels": {"deny": "yes"}},
        "spec": {"containers": [{"name": "c", "image": "registry.test/ray:a"}]},
    });
    let limit = Instant::now() + Duration::from_secs(30);
    while let Ok(made) = objects::create(bench.client(), &bench.namespace, &probe).await {
        assert!(Instant::now() < limit, "the policy takes no effect");
        objects::delete(&bench.pods(), made["metadata"]["name"].as_str().expect("a name")).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn denied() -> Value {
    let mut object = cluster("one", &[("w", 3)]);
    object["spec"]["workerGroupSpecs"][0]["template"]["metadata"] = json!({"labels": {"deny": "yes"}});
    object
}

async fn until_denied(bench: &Bench) {
    let now =
        bench.until("it says who denies what", |now| now.condition("one", "Ready").reason == "AdmissionDenied").await;
    let message = now.condition("one", "Ready").message;
    assert!(message.contains("the label deny is not wanted here"), "{message}");
    assert_eq!(now.condition("one", "ReplicaFailure").reason, "FailedCreateWorkerPod");
    let now = bench.until("an event says so", |now| !now.events("FailedToCreateWorkerPod").is_empty()).await;
    let note = &now.events("FailedToCreateWorkerPod")[0];
    let start = format!("error syncing '{}/one': failed to create pods one-w-worker-", bench.namespace);
    assert!(note.starts_with(&start) && note.contains("the label deny is not wanted here"), "{note}");
}

#[test]
fn denied_pods_are_tried_ever_more_rarely_and_made_once_the_policy_goes() {
    run(async {
        let bench = Bench::new("denial").await;
        enforce(&bench).await;
        let operator = bench.operator().await;
        bench.apply(&denied()).await;
        until_denied(&bench).await;
        bench.until("the head is made all the same", |now| now.heads("one").len() == 1).await;
        assert_eq!(bench.record.now().workers("one").len(), 0);

        let (start, statuses) = (Instant::now(), operator.proxy().count("patch", "rayclusters/status"));
        tokio::time::sleep(Duration::from_secs(15)).await;
        let calls = operator.proxy().since(start);
        let tries = calls.iter().filter(|c| c.is("create", "pods")).count();
        assert!((1..=5).contains(&tries), "{tries} tries in 15 s");
        assert!(calls.iter().filter(|c| c.is("create", "events")).count() <= 1, "{calls:#?}");
        assert!(operator.proxy().count("patch", "rayclusters/status") <= statuses + 2, "{calls:#?}");

        let [policy, binding] = policy(&bench.namespace);
        for object in [binding, policy] {
            let api = objects::api(bench.client(), "", &object);
            objects::delete(&api, &bench.namespace).await;
        }
        bench.until("it heals by itself", |now| now.is_ready("one") && now.pods("one").len() == 4).await;
        assert_eq!(bench.record.now().condition("one", "ReplicaFailure").status, "", "the failure is taken back");
    });
}

#[test]
fn a_mended_spec_recovers() {
    run(async {
        let bench = Bench::new("denial-mended").await;
        enforce(&bench).await;
        let _operator = bench.operator().await;
        bench.apply(&denied()).await;
        until_denied(&bench).await;
        bench.apply(&cluster("one", &[("w", 3)])).await;
        bench.until("it recovers", |now| now.is_ready("one") && now.pods("one").len() == 4).await;
    });
}

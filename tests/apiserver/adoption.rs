//! Clusters as KubeRay v1.7 left them are taken over alive.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::{Bench, objects, run};

const PLAIN: &str = include_str!("../fixtures/kuberay-1.7/plain.yaml");
/// With Ray's autoscaler: ServiceAccount, Role and RoleBinding beside it.
const SCALED: &str = include_str!("../fixtures/kuberay-1.7/scaled.yaml");
/// Two hosts per replica and token login: a Secret and a headless Service beside it.
const SLICES: &str = include_str!("../fixtures/kuberay-1.7/slices.yaml");
/// State in Redis, with the finalizer.
const DURABLE: &str = include_str!("../fixtures/kuberay-1.7/durable.yaml");

/// Creates the objects of a fixture as they were: owner references and labels, names and hashes.
async fn restore(bench: &Bench, fixture: &str) -> String {
    let documents: Vec<Value> = serde_saphyr::from_multiple(fixture).expect("YAML");
    let mut owner = Value::Null;
    let mut name = String::new();
    for mut object in documents {
        let meta = object["metadata"].as_object_mut().expect("metadata");
        meta.insert("namespace".to_owned(), json!(bench.namespace));
        for key in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "generateName"] {
            meta.remove(key);
        }
        for reference in meta.get_mut("ownerReferences").and_then(Value::as_array_mut).into_iter().flatten() {
            reference["uid"] = owner.clone();
        }
        for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
            subject["namespace"] = json!(bench.namespace);
        }
        let status = object["status"].take();
        if object["kind"] == "Pod" {
            object["spec"].as_object_mut().expect("a spec").remove("nodeName");
        }
        let made = objects::create(bench.client(), &bench.namespace, &object).await.expect("to restore");
        if object["kind"] == "RayCluster" {
            owner = made["metadata"]["uid"].clone();
            name = made["metadata"]["name"].as_str().expect("a name").to_owned();
            let patch = kube::api::Patch::Merge(json!({"status": status}));
            bench.clusters().patch_status(&name, &Default::default(), &patch).await.expect("its status");
        }
    }
    name
}

/// Specs by kind and name: what runs and what traffic goes through.
fn specs(bench: &Bench, cluster: &str) -> BTreeMap<String, Value> {
    let now = bench.record.now();
    let pods = now.pods(cluster).into_iter().chain(now.all("Service"));
    pods.map(|o| (format!("{}/{}", o["kind"], o["metadata"]["uid"]), o["spec"].clone())).collect()
}

/// What else there is, and is not to change: by kind and uid, without what marks do not touch.
const OTHERS: [(&str, &str); 4] = [
    ("v1", "ServiceAccount"),
    ("v1", "Secret"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
];

async fn others(bench: &Bench) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (version, kind) in OTHERS {
        let api = objects::kind(bench.client(), &bench.namespace, version, kind);
        let of_the_cluster = kube::api::ListParams::default().labels("ray.io/cluster");
        for object in api.list(&of_the_cluster).await.expect("a list") {
            all.insert(
                format!("{kind}/{:?}", object.metadata.name),
                object.metadata.resource_version.unwrap_or_default(),
            );
        }
    }
    all
}

/// Takes a fixture over and sees that nothing that runs, and nothing that traffic goes through, was touched.
async fn take_over(bench: &Bench, fixture: &str) -> (crate::bench::Operator, String, usize) {
    let name = restore(bench, fixture).await;
    let running = |p: &Value| p["status"]["phase"] == "Running";
    let count = bench.record.now().pods(&name).len();
    assert!(count > 1, "the fixture has pods");
    bench.until("its pods run", |now| now.pods(&name).into_iter().filter(|p| running(p)).count() == count).await;
    let (before, beside) = (specs(bench, &name), others(bench).await);
    let start = Instant::now();
    let operator = bench.operator().await;
    let now = bench.until("it is Ready", |now| now.is_ready(&name)).await;
    bench.settle().await;
    assert_eq!(specs(bench, &name), before, "something that runs was touched");
    assert_eq!(others(bench).await, beside, "something beside it was touched");
    let calls = operator.proxy().since(start);
    // KubeRay's headless Service lacks the label that we watch by: it is found by its name, which is taken.
    let writes = |c: &&crate::bench::call::Call| {
        c.is_write() && c.code != 409 && !c.is("create", "events") && !c.is("patch", "rayclusters/status")
    };
    let marks = |c: &&crate::bench::call::Call| c.is("patch", "pods") || c.is("patch", "services");
    assert!(calls.iter().filter(writes).all(|c| marks(&c)), "{calls:#?}");
    assert_eq!(calls.iter().filter(|c| c.is("patch", "pods")).count(), count, "each is marked once: {calls:#?}");
    let told = now.events("AdoptedPod");
    assert!(told.iter().any(|e| e.contains("KubeRay v1.7.0")), "{told:?}");
    (operator, name, count)
}

#[test]
fn a_cluster_of_kuberays_lives_on_as_it_is() {
    run(async {
        let bench = Bench::new("adoption-plain").await;
        let (_operator, name, count) = take_over(&bench, PLAIN).await;

        // From here on it is a cluster like any other.
        bench.scale(&name, 0, 3).await;
        let grown = bench.until("it grows", |now| now.is_ready(&name) && now.pods(&name).len() == count + 1).await;
        let worker = grown.workers(&name)[0]["metadata"]["name"].as_str().expect("a name").to_owned();
        objects::delete(&bench.pods(), &worker).await;
        bench
            .until("it replaces what is lost", |now| {
                now.is_ready(&name) && now.pods(&name).len() == count + 1 && now.get("Pod", &worker).is_none()
            })
            .await;
        bench.settle().await;
        bench.quiet_for(Duration::from_secs(3)).await;
    });
}

#[test]
fn one_with_an_autoscaler_keeps_its_rights() {
    run(async {
        let bench = Bench::new("adoption-scaled").await;
        let _taken = take_over(&bench, SCALED).await;
    });
}

#[test]
fn one_of_slices_with_login_keeps_its_token_and_its_replicas() {
    run(async {
        let bench = Bench::new("adoption-slices").await;
        let (_operator, name, count) = take_over(&bench, SLICES).await;
        let before = bench.record.now().uids(&name);
        bench.scale(&name, 0, 1).await;
        let fewer =
            bench.until("one replica goes", |now| now.is_ready(&name) && now.pods(&name).len() == count - 2).await;
        assert!(fewer.uids(&name).is_subset(&before), "the other was replaced");
    });
}

#[test]
fn one_with_its_state_in_redis_keeps_its_finalizer() {
    run(async {
        let bench = Bench::new("adoption-durable").await;
        let (_operator, name, _) = take_over(&bench, DURABLE).await;
        let finalizers = bench.record.now().get("RayCluster", &name).expect("it")["metadata"]["finalizers"].clone();
        assert_eq!(finalizers, json!(["ray.io/gcs-ft-redis-cleanup-finalizer"]));
        bench.clusters().delete(&name, &Default::default()).await.expect("to delete");
        bench.until("its keys are removed first", |now| !now.events("CreatedRedisCleanupJob").is_empty()).await;
    });
}

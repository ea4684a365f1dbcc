//! Clusters as KubeRay v1.7 left them are taken over alive.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::{Bench, objects, run};

const PLAIN: &str = include_str!("../fixtures/kuberay-1.7/plain.yaml");

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

#[test]
fn a_cluster_of_kuberays_lives_on_as_it_is() {
    run(async {
        let bench = Bench::new("adoption-plain").await;
        let name = restore(&bench, PLAIN).await;
        let running = |p: &Value| p["status"]["phase"] == "Running";
        let count = bench.record.now().pods(&name).len();
        bench.until("its pods run", |now| now.pods(&name).into_iter().filter(|p| running(p)).count() == count).await;
        let before = specs(&bench, &name);
        assert!(before.len() > 3, "pods and a Service");
        let start = Instant::now();
        let operator = bench.operator().await;
        let now = bench.until("it is Ready", |now| now.is_ready(&name)).await;
        bench.settle().await;
        assert_eq!(specs(&bench, &name), before, "something that runs was touched");
        let calls = operator.proxy().since(start);
        let forbidden = |c: &&crate::bench::call::Call| {
            c.is("create", "pods") || c.is("delete", "pods") || c.is("create", "services")
        };
        assert!(calls.iter().all(|c| !forbidden(&c)), "{calls:#?}");
        assert_eq!(calls.iter().filter(|c| c.is("patch", "pods")).count(), count, "each is marked once: {calls:#?}");
        let told = now.events("AdoptedPod");
        assert!(told.iter().any(|e| e.contains("KubeRay v1.7.0")), "{told:?}");

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

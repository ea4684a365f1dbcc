//! Suspend and resume, also when the user changes their mind half way.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::record::Turn;
use crate::bench::{Bench, cluster, objects, run};

fn condition<'a>(cluster: &'a Value, type_: &str) -> &'a str {
    let list = cluster["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().find(|c| c["type"] == type_).and_then(|c| c["status"].as_str()).unwrap_or_default()
}

#[test]
fn all_pods_go_once_and_come_back_once() {
    run(async {
        let bench = Bench::new("suspension").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("a", 2), ("b", 1)]), 4).await;
        let before = bench.record.now().uids("one");
        bench.edit("one", json!({"spec": {"suspend": true}})).await;
        let now = bench
            .until("it is suspended", |now| {
                now.condition("one", "RayClusterSuspended").status == "True" && now.pods("one").is_empty()
            })
            .await;
        assert_eq!(now.condition("one", "Ready").reason, "Suspended");
        assert_eq!(now.get("RayCluster", "one").expect("it")["status"]["state"], "suspended");
        bench.settle().await;
        assert_eq!(operator.proxy().count("delete", "pods"), 4);
        assert_eq!(operator.proxy().count("create", "pods"), 4);

        bench.edit("one", json!({"spec": {"suspend": null}})).await;
        let after = bench.until("it is back", |now| now.is_ready("one") && now.pods("one").len() == 4).await;
        assert!(before.is_disjoint(&after.uids("one")));
        assert_eq!(after.get("RayCluster", "one").expect("it")["spec"]["workerGroupSpecs"][0]["replicas"], 2);
        bench.settle().await;
        assert_eq!(operator.proxy().count("create", "pods"), 8);
        assert_eq!(operator.proxy().count("delete", "pods"), 4);
    });
}

#[test]
fn a_suspension_once_begun_runs_to_its_end() {
    run(async {
        let bench = Bench::new("suspension-flip").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("a", 2), ("b", 2)]), 5).await;
        let before = bench.record.now();
        let held = before.workers("one")[1]["metadata"]["name"].as_str().expect("a name").to_owned();
        objects::edit(&bench.pods(), &held, &json!({"metadata": {"finalizers": ["tests.example.com/hold"]}})).await;
        bench.edit("one", json!({"spec": {"suspend": true}})).await;
        bench.until("it is being suspended", |now| now.condition("one", "RayClusterSuspending").status == "True").await;
        bench.edit("one", json!({"spec": {"suspend": false}})).await;
        bench.until("only the held pod is left", |now| now.pods("one").len() == 1).await;
        let creates = operator.proxy().count("create", "pods");
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(operator.proxy().count("create", "pods"), creates, "nothing is made while the held pod lives");
        objects::edit(&bench.pods(), &held, &json!({"metadata": {"finalizers": null}})).await;
        let after = bench.until("it is back", |now| now.is_ready("one") && now.pods("one").len() == 5).await;
        assert!(before.uids("one").is_disjoint(&after.uids("one")));

        let history: Vec<Value> = bench
            .record
            .moments()
            .iter()
            .filter(|m| m.kind == "RayCluster" && m.turn != Turn::Deleted)
            .map(|m| (*m.object).clone())
            .collect();
        let ever = |type_: &str, status: &str| history.iter().any(|c| condition(c, type_) == status);
        assert!(ever("RayClusterSuspended", "True"), "Suspended was said at least once");
        let both =
            |c: &Value| condition(c, "RayClusterSuspending") == "True" && condition(c, "RayClusterSuspended") == "True";
        assert!(!history.iter().any(both), "never both at once");
        let last_true =
            history.iter().position(|c| condition(c, "RayClusterProvisioned") == "True").expect("it was provisioned");
        assert!(
            history[last_true..].iter().any(|c| condition(c, "RayClusterProvisioned") == "False"),
            "provisioned went False"
        );
        assert_eq!(after.get("RayCluster", "one").expect("it")["status"]["state"], "ready");
    });
}

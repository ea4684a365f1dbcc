//! The template of a running cluster changes.

use std::time::Duration;

use serde_json::json;

use crate::bench::{Bench, cluster, run};

#[test]
fn without_a_strategy_it_says_what_differs_and_new_pods_have_it() {
    run(async {
        let bench = Bench::new("upgrade-none").await;
        let _operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("a", 1), ("b", 1)]), 3).await;
        bench.settle().await;
        let before = bench.record.now().uids("one");
        let mut changed = cluster("one", &[("a", 1), ("b", 1)]);
        changed["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["image"] =
            json!("registry.test/ray:b");
        bench.apply(&changed).await;
        let now = bench.until("it says so", |now| now.condition("one", "TemplateDrift").status == "True").await;
        let message = now.condition("one", "TemplateDrift").message;
        assert!(message.contains("group a (1 pod): image"), "{message}");
        assert!(!message.contains("group b") && !message.contains("the head"), "{message}");
        bench.settle().await;
        assert_eq!(bench.record.now().uids("one"), before, "nothing is replaced");
        assert!(bench.record.now().is_ready("one"));

        let group_a = |p: &&&serde_json::Value| p["metadata"]["labels"]["ray.io/group"] == "a";
        let now = bench.record.now();
        let old = now.workers("one").iter().find(group_a).expect("a worker")["metadata"]["name"].clone();
        crate::bench::objects::delete(&bench.pods(), old.as_str().expect("a name")).await;
        let now = bench
            .until("the change is applied by hand", |now| {
                now.is_ready("one") && now.condition("one", "TemplateDrift").status == "False"
            })
            .await;
        let new = now.workers("one").into_iter().find(|p| group_a(&p)).expect("a worker");
        assert_eq!(new["spec"]["containers"][0]["image"], "registry.test/ray:b");
    });
}

#[test]
fn recreate_replaces_every_pod_once() {
    run(async {
        let bench = Bench::new("upgrade-recreate").await;
        let _operator = bench.operator().await;
        let mut object = cluster("one", &[("a", 2)]);
        object["spec"]["upgradeStrategy"] = json!({"type": "Recreate"});
        bench.ready_cluster(&object, 3).await;
        bench.settle().await;
        let before = bench.record.all_pods("one");
        assert_eq!(before.len(), 3);

        object["spec"]["workerGroupSpecs"][0]["replicas"] = json!(3);
        object["spec"]["workerGroupSpecs"][0]["maxReplicas"] = json!(5);
        bench.ready_cluster(&object, 4).await;
        bench.settle().await;
        assert_eq!(bench.record.all_pods("one").len(), 4, "numbers of replicas are no upgrade");

        object["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = json!("registry.test/ray:b");
        bench.apply(&object).await;
        bench.until("it begins", |now| now.condition("one", "Ready").reason == "UpgradeInProgress").await;
        let after = bench
            .until("all pods are new", |now| {
                now.is_ready("one")
                    && now.pods("one").len() == 4
                    && now.uids("one").iter().all(|u| !before.iter().any(|(_, b)| b == u))
            })
            .await;
        assert_eq!(after.heads("one")[0]["spec"]["containers"][0]["image"], "registry.test/ray:b");
        bench.settle().await;
        assert_eq!(bench.record.all_pods("one").len(), 8, "each was replaced once");
        bench.quiet_for(Duration::from_secs(3)).await;
    });
}

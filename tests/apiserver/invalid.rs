//! A spec that the API server lets through but that cannot run: said once, nothing harmed, and never a grave.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::{Bench, cluster, run};

/// Admission cannot see it: CEL costs too much over all environment variables.
fn invalid() -> Value {
    let mut object = cluster("one", &[("w", 3)]);
    object["spec"]["tlsOptions"] = json!({"enabled": true});
    object["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "RAY_USE_TLS", "value": "1"}]);
    object
}

#[test]
fn an_invalid_change_harms_nobody_and_a_mended_one_goes_on() {
    run(async {
        let bench = Bench::new("invalid").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 2)]), 3).await;
        bench.settle().await;
        let before = bench.record.now().uids("one");
        let writes = operator.proxy().writes().len();
        bench.apply(&invalid()).await;
        let now =
            bench.until("it says what is wrong", |now| now.condition("one", "Ready").reason == "InvalidSpec").await;
        assert!(now.condition("one", "Ready").message.contains("RAY_USE_TLS"), "{:?}", now.condition("one", "Ready"));
        bench.settle().await;
        let now = bench.record.now();
        assert_eq!(now.events("InvalidRayClusterSpec").len(), 1);
        assert_eq!(now.uids("one"), before);
        assert_eq!(operator.proxy().writes().len(), writes + 2, "one status, one event");
        bench.quiet_for(Duration::from_secs(5)).await;

        bench.apply(&cluster("one", &[("w", 3)])).await;
        let now = bench.until("it goes on", |now| now.is_ready("one") && now.pods("one").len() == 4).await;
        assert!(before.is_subset(&now.uids("one")));
    });
}

#[test]
fn an_object_that_is_invalid_from_the_start_makes_nothing_until_it_is_mended() {
    run(async {
        let bench = Bench::new("invalid-first").await;
        let operator = bench.operator().await;
        bench.apply(&invalid()).await;
        bench.until("it says what is wrong", |now| now.condition("one", "Ready").reason == "InvalidSpec").await;
        bench.settle().await;
        assert_eq!(operator.proxy().count("create", "pods") + operator.proxy().count("create", "services"), 0);
        bench.apply(&cluster("one", &[("w", 1)])).await;
        bench.until("it is made", |now| now.is_ready("one") && now.pods("one").len() == 2).await;
    });
}

#[test]
fn one_that_cannot_be_read_gets_an_event_and_recovers() {
    run(async {
        let bench = Bench::new("invalid-unreadable").await;
        let _operator = bench.operator().await;
        let mut object = cluster("one", &[("w", 1)]);
        let probe = json!({"httpGet": {"port": 99_999_999_999_i64}});
        object["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["livenessProbe"] = probe;
        bench.apply(&object).await;
        let now = bench.until("an event says so", |now| !now.events("UnreadableRayCluster").is_empty()).await;
        assert!(
            now.events("UnreadableRayCluster")[0].contains("99999999999"),
            "{:?}",
            now.events("UnreadableRayCluster")
        );
        bench.ready_cluster(&cluster("other", &[("w", 1)]), 2).await;
        bench.edit("one", json!({"spec": cluster("one", &[("w", 1)])["spec"]})).await;
        bench.until("it recovers", |now| now.is_ready("one")).await;
        assert_eq!(bench.record.now().events("UnreadableRayCluster").len(), 1);
    });
}

//! Pods that hang in Terminating on a node that does not answer.

use std::time::{Duration, Instant};

use kube::api::DeleteParams;

use crate::bench::{Bench, cluster, run};

#[test]
fn a_hanging_head_is_waited_for_then_replaced_and_reported() {
    run(async {
        let bench = Bench::new("lost-head").await;
        let _operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 1)]), 2).await;
        bench.settle().await;
        let before = bench.record.now();
        let old = before.heads("one")[0].clone();
        let name = old["metadata"]["name"].as_str().expect("a name");
        bench.kubelet.reaps(false);
        let params = DeleteParams { grace_period_seconds: Some(1), ..DeleteParams::default() };
        bench.pods().delete(name, &params).await.expect("to delete");
        let start = Instant::now();
        bench
            .until("it says what it waits for", |now| {
                let ready = now.condition("one", "Ready");
                ready.reason == "HeadNotReady" && ready.message.contains("going away")
            })
            .await;
        while start.elapsed() < Duration::from_secs(50) {
            assert_eq!(bench.record.now().heads("one").len(), 1, "a second head while the first may still answer");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let after = bench.until("another head has its place", |now| now.is_ready("one")).await;
        let (heads, hung) = (after.heads("one"), after.get("Pod", name).expect("the hung one is left to its node"));
        assert_eq!(heads.len(), 1, "the head Service finds one head only");
        assert_ne!(heads[0]["metadata"]["uid"], old["metadata"]["uid"]);
        assert!(hung["metadata"]["labels"]["ray.io/cluster"].is_null());
        let events = after.events("LostPod");
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(events[0].contains(name) && events[0].contains("nowhere"), "{events:?}");
        bench.settle().await;
        bench.kubelet.reaps(true);
        bench.until("the node came back", |now| now.get("Pod", name).is_none()).await;
        bench.settle().await;
        assert!(bench.record.now().is_ready("one"));
    });
}

#[test]
fn a_hanging_worker_is_replaced_at_once_and_reported_once() {
    run(async {
        let bench = Bench::new("lost-worker").await;
        let _operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 1)]), 2).await;
        bench.settle().await;
        let old = bench.record.now().workers("one")[0].clone();
        let name = old["metadata"]["name"].as_str().expect("a name");
        bench.kubelet.reaps(false);
        let params = DeleteParams { grace_period_seconds: Some(1), ..DeleteParams::default() };
        bench.pods().delete(name, &params).await.expect("to delete");
        bench.until("it is replaced", |now| now.is_ready("one") && now.workers("one").len() == 2).await;
        let quiet = Instant::now();
        while quiet.elapsed() < Duration::from_secs(45) {
            assert!(bench.record.now().events("LostPod").is_empty(), "too early to give it up");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        let now = bench.until("it is given up", |now| !now.events("LostPod").is_empty()).await;
        assert!(now.is_ready("one"), "it does without");
        bench.settle().await;
        bench.quiet_for(Duration::from_secs(5)).await;
        assert_eq!(bench.record.now().events("LostPod").len(), 1);
    });
}

//! One step down is one deletion and nothing else, however slowly things are told.

use std::time::Duration;

use serde_json::json;

use crate::bench::{Bench, cluster, objects, run};
use crate::full;

const FINALIZER: &str = "tests.example.com/hold";

/// Goes 5 -> 4 -> 5 so many times; `down` is done after each step down.
async fn steps(bench: &Bench, delay: Duration, times: usize, hold: bool) {
    let operator = bench.operator().await;
    bench.ready_cluster(&cluster("one", &[("w", 5)]), 6).await;
    let start = bench.record.now().uids("one");
    operator.proxy().delay_watches(delay);
    // Those that stay all the time: known after the first step down.
    let mut core = None;
    let count = |verb| operator.proxy().count(verb, "pods");
    for n in 0..times {
        let (creates, deletes) = (count("create"), count("delete"));
        if hold {
            for pod in bench.record.now().workers("one").iter().filter(|p| p["metadata"]["deletionTimestamp"].is_null())
            {
                let name = pod["metadata"]["name"].as_str().expect("a name");
                objects::edit(&bench.pods(), name, &json!({"metadata": {"finalizers": [FINALIZER]}})).await;
            }
        }
        bench.scale("one", 0, 4).await;
        let now = bench.until("one worker less", |now| now.uids("one").len() == 5).await;
        tokio::time::sleep(delay + Duration::from_millis(500)).await;
        assert_eq!((count("create"), count("delete")), (creates, deletes + 1), "step down {n}");
        let core = core.get_or_insert_with(|| now.uids("one"));
        assert_eq!(bench.record.now().uids("one"), *core, "step down {n}: the same five stay");

        bench.scale("one", 0, 5).await;
        bench.until("one worker more", |now| now.uids("one").len() == 6).await;
        tokio::time::sleep(delay + Duration::from_millis(500)).await;
        assert_eq!((count("create"), count("delete")), (creates + 1, deletes + 1), "step up {n}");
        assert!(core.is_subset(&bench.record.now().uids("one")), "step up {n}: nobody else goes");
        if hold {
            for pod in bench.record.now().pods("one").iter().filter(|p| !p["metadata"]["deletionTimestamp"].is_null()) {
                let name = pod["metadata"]["name"].as_str().expect("a name");
                objects::edit(&bench.pods(), name, &json!({"metadata": {"finalizers": null}})).await;
            }
        }
    }
    assert!(core.is_some_and(|c| c.is_subset(&start)));
    operator.proxy().delay_watches(Duration::ZERO);
    bench.until("it is Ready in the end", |now| now.is_ready("one") && now.pods("one").len() == 6).await;
}

#[test]
fn twenty_steps() {
    run(async {
        let bench = Bench::new("steps").await;
        steps(&bench, Duration::ZERO, 20, false).await;
    });
}

#[test]
fn steps_under_watches_that_lag_by_three_seconds() {
    run(async {
        let bench = Bench::new("steps-lag").await;
        steps(&bench, Duration::from_secs(3), if full() { 20 } else { 4 }, false).await;
    });
}

#[test]
fn steps_while_deleted_pods_hang_on_a_finalizer() {
    run(async {
        let bench = Bench::new("steps-held").await;
        steps(&bench, Duration::ZERO, if full() { 20 } else { 5 }, true).await;
    });
}

#[test]
fn steps_faster_than_anybody_can_follow() {
    run(async {
        let bench = Bench::new("steps-fast").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 5)]), 6).await;
        let start = bench.record.now().uids("one");
        operator.proxy().delay_watches(Duration::from_secs(1));
        for _ in 0..20 {
            bench.scale("one", 0, 4).await;
            bench.scale("one", 0, 5).await;
        }
        bench.scale("one", 0, 4).await;
        operator.proxy().delay_watches(Duration::ZERO);
        let end = bench.until("it is Ready with four", |now| now.is_ready("one") && now.pods("one").len() == 5).await;
        bench.settle().await;
        let (creates, deletes) =
            (operator.proxy().count("create", "pods") - 6, operator.proxy().count("delete", "pods"));
        assert_eq!(deletes, creates + 1);
        assert!(end.uids("one").intersection(&start).count() >= 4, "at most two were ever touched");
    });
}

//! The operator dies at any write of a cluster's creation: is the outcome what it would have been?

use futures::StreamExt;

use crate::bench::{Bench, Fate, cluster, run};

const PODS: usize = 4;

fn small() -> serde_json::Value {
    cluster("one", &[("a", 2), ("b", 1)])
}

#[derive(Clone, Copy, Debug)]
enum When {
    /// The API server never sees the write.
    Before,
    /// It takes effect, but nobody hears of it.
    After,
}

/// Says whether the operator died at that write.
async fn dies_at(nth: usize, when: When) -> bool {
    let bench = Bench::new(&format!("crash-{}-{nth}", format!("{when:?}").to_lowercase())).await;
    let first = bench.operator().await;
    let mut killer = Some(first.killer());
    first.proxy().rule(move |call| match killer.take_if(|_| call.nth_write == nth) {
        None => Fate::Forward,
        Some(kill) => match when {
            When::Before => {
                kill();
                Fate::Drop
            }
            When::After => Fate::TakeEffectThen(Box::new(kill)),
        },
    });
    bench.apply(&small()).await;
    bench.until("it died, or needed fewer writes", |now| !first.is_running() || now.is_ready("one")).await;
    let died = first.proxy().writes().iter().any(|c| c.nth_write == nth);
    if died {
        bench.eventually("the killed process ends", || !first.is_running()).await;
    }
    drop(first);

    let second = bench.operator().await;
    bench
        .until("the second operator finishes the work", |now| now.is_ready("one") && now.pods("one").len() == PODS)
        .await;
    bench.settle().await;
    let now = bench.record.now();
    assert_eq!(bench.record.all_pods("one").len(), PODS, "no pod was ever there twice");
    let places: std::collections::BTreeSet<String> = now
        .pods("one")
        .iter()
        .map(|p| {
            let labels = &p["metadata"]["labels"];
            format!("{} {}", labels["ray.io/group"], labels["ray.io/worker-group-replica-index"])
        })
        .collect();
    assert_eq!(places.len(), PODS, "each has a place of its own: {places:?}");
    assert_eq!(now.all("Service").len(), 1);
    let status = &now.get("RayCluster", "one").expect("the cluster")["status"];
    assert_eq!(status["readyWorkerReplicas"], 3, "{status}");
    assert_eq!(status["desiredWorkerReplicas"], 3, "{status}");
    assert_eq!(status["state"], "ready", "{status}");
    assert!(second.is_running());
    died
}

#[test]
fn a_crash_at_any_write_changes_nothing() {
    run(async {
        let bench = Bench::new("crash-none").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&small(), PODS).await;
        bench.settle().await;
        let writes = operator.proxy().writes().len();
        assert!(writes > PODS, "{writes}");
        drop(operator);
        drop(bench);

        let cases = (1..=writes).flat_map(|n| [(n, When::Before), (n, When::After)]);
        let died: Vec<bool> =
            futures::stream::iter(cases).map(|(n, when)| dies_at(n, when)).buffer_unordered(6).collect().await;
        let deaths = died.iter().filter(|d| **d).count();
        // How many status writes it takes may differ by one or two from run to run.
        assert!(deaths + 4 >= 2 * writes, "only {deaths} of {} cases came to their write", 2 * writes);
    });
}

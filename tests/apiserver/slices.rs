//! Several hosts per replica: they live and go together.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::record::Now;
use crate::bench::{Bench, cluster, objects, run};

fn slices(name: &str, replicas: i32) -> Value {
    let mut object = cluster(name, &[("tpu", replicas)]);
    object["spec"]["workerGroupSpecs"][0]["numOfHosts"] = json!(2);
    object
}

/// Uids of the live hosts of one replica.
fn hosts(now: &Now, name: &str, slot: &str) -> BTreeSet<String> {
    now.workers(name)
        .into_iter()
        .filter(|p| p["metadata"]["labels"]["ray.io/worker-group-replica-index"] == slot)
        .filter(|p| p["metadata"]["deletionTimestamp"].is_null())
        .map(|p| p["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
        .collect()
}

fn a_host(now: &Now, name: &str, slot: &str) -> String {
    let workers = now.workers(name);
    let host = workers.into_iter().find(|p| p["metadata"]["labels"]["ray.io/worker-group-replica-index"] == slot);
    host.expect("a host of that replica")["metadata"]["name"].as_str().expect("a name").to_owned()
}

#[test]
fn a_dead_host_takes_its_replica_with_it_and_no_other() {
    run(async {
        let bench = Bench::new("slices-dead").await;
        let _operator = bench.operator().await;
        bench.ready_cluster(&slices("one", 2), 5).await;
        let before = bench.record.now();
        assert_eq!(before.get("RayCluster", "one").expect("it")["status"]["desiredWorkerReplicas"], 4);
        assert_eq!(before.get("RayCluster", "one").expect("it")["status"]["desiredCPU"], "5");
        let (sick, well) = (hosts(&before, "one", "0"), hosts(&before, "one", "1"));
        bench.kubelet.end(&a_host(&before, "one", "0"), "Failed", "Evicted").await;
        let after = bench
            .until("both hosts of the replica are new", |now| {
                now.is_ready("one") && hosts(now, "one", "0").len() == 2 && hosts(now, "one", "0").is_disjoint(&sick)
            })
            .await;
        assert_eq!(hosts(&after, "one", "1"), well, "the other replica was touched");
        let shared: BTreeSet<&str> = after
            .workers("one")
            .into_iter()
            .filter(|p| p["metadata"]["labels"]["ray.io/worker-group-replica-index"] == "0")
            .filter_map(|p| p["metadata"]["labels"]["ray.io/worker-group-replica-name"].as_str())
            .collect();
        assert_eq!(shared.len(), 1, "hosts of one replica share a name: {shared:?}");
        bench.settle().await;

        bench.scale("one", 0, 1).await;
        let fewer =
            bench.until("one replica is left", |now| now.is_ready("one") && now.workers("one").len() == 2).await;
        let left = [hosts(&fewer, "one", "0"), hosts(&fewer, "one", "1")];
        assert!(left.iter().any(BTreeSet::is_empty), "two hosts of one replica are left: {left:?}");
    });
}

#[test]
fn a_deleted_host_takes_its_replica_with_it_also_when_nobody_saw_it_go() {
    run(async {
        let bench = Bench::new("slices-gone").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&slices("one", 2), 5).await;
        bench.settle().await;
        let before = bench.record.now();
        let (sick, well) = (hosts(&before, "one", "1"), hosts(&before, "one", "0"));
        operator.kill();
        objects::delete(&bench.pods(), &a_host(&before, "one", "1")).await;
        bench.until("the host is gone", |now| hosts(now, "one", "1").len() == 1).await;
        let _successor = bench.operator().await;
        let after = bench
            .until("both hosts of the replica are new", |now| {
                now.is_ready("one") && hosts(now, "one", "1").len() == 2 && hosts(now, "one", "1").is_disjoint(&sick)
            })
            .await;
        assert_eq!(hosts(&after, "one", "0"), well, "the other replica was touched");
        bench.settle().await;
        bench.quiet_for(Duration::from_secs(3)).await;
    });
}

#[test]
fn a_replica_that_is_half_made_is_completed() {
    run(async {
        let bench = Bench::new("slices-half").await;
        bench.kubelet.runs(false);
        let operator = bench.operator().await;
        let mut pods = 0;
        operator.proxy().rule(move |call| {
            pods += usize::from(call.is("create", "pods"));
            if call.is("create", "pods") && pods > 2 {
                crate::bench::Fate::Answer(500, None)
            } else {
                crate::bench::Fate::Forward
            }
        });
        bench.apply(&slices("one", 1)).await;
        let half = bench.until("the head and one host are there", |now| now.pods("one").len() == 2).await;
        let first = half.uids("one");
        operator.kill();
        let _successor = bench.operator().await;
        let whole = bench.until("the replica is complete", |now| now.pods("one").len() == 3).await;
        assert!(first.is_subset(&whole.uids("one")), "what was there has been replaced");
        bench.kubelet.runs(true);
        bench.until("it is Ready", |now| now.is_ready("one")).await;
    });
}

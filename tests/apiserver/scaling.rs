//! Replicas change: who comes, who goes?

use std::time::{Duration, Instant};

use crate::bench::{Bench, Fate, cluster, run};

#[test]
fn two_to_three_to_one_touches_nobody_else() {
    run(async {
        let bench = Bench::new("scaling").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 2), ("other", 1)]), 4).await;
        let two = bench.record.now().uids("one");

        bench.scale("one", 0, 3).await;
        // Ready is False for the new spec until the third is there.
        bench.until("it says that it scales up", |now| now.condition("one", "Ready").reason == "ScalingUp").await;
        let three =
            bench.until("three are Ready", |now| now.is_ready("one") && now.uids("one").len() == 5).await.uids("one");
        assert!(two.is_subset(&three));
        assert_eq!(operator.proxy().count("create", "pods"), 5);
        assert_eq!(operator.proxy().count("delete", "pods"), 0);

        bench.scale("one", 0, 1).await;
        let one = bench.until("one is left", |now| now.is_ready("one") && now.pods("one").len() == 3).await.uids("one");
        assert!(one.is_subset(&three));
        bench.settle().await;
        assert_eq!(operator.proxy().count("create", "pods"), 5);
        assert_eq!(operator.proxy().count("delete", "pods"), 2);
        let status = bench.record.now().get("RayCluster", "one").expect("it")["status"].clone();
        assert_eq!(
            (&status["desiredWorkerReplicas"], &status["readyWorkerReplicas"]),
            (&2.into(), &2.into()),
            "{status}"
        );
    });
}

#[test]
fn replicas_outside_of_their_bounds_are_held_within() {
    run(async {
        let bench = Bench::new("scaling-bounds").await;
        let operator = bench.operator().await;
        let mut object = cluster("one", &[("w", 9)]);
        object["spec"]["workerGroupSpecs"][0]["maxReplicas"] = 2.into();
        bench.ready_cluster(&object, 3).await;
        object["spec"]["workerGroupSpecs"][0]["replicas"] = 0.into();
        object["spec"]["workerGroupSpecs"][0]["minReplicas"] = 1.into();
        bench.apply(&object).await;
        bench.until("the lower bound holds", |now| now.is_ready("one") && now.pods("one").len() == 2).await;
        bench.settle().await;
        assert_eq!(operator.proxy().count("create", "pods"), 3);
        assert_eq!(operator.proxy().count("delete", "pods"), 1);
    });
}

#[test]
fn a_group_that_is_taken_out_of_the_spec_goes_and_others_stay() {
    run(async {
        let bench = Bench::new("scaling-group").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("a", 2), ("b", 2)]), 5).await;
        let before = bench.record.now().uids("one");
        bench.apply(&cluster("one", &[("b", 2)])).await;
        let after = bench.until("group a is gone", |now| now.is_ready("one") && now.pods("one").len() == 3).await;
        assert!(after.uids("one").is_subset(&before));
        assert!(after.workers("one").iter().all(|p| p["metadata"]["labels"]["ray.io/group"] == "b"));
        assert_eq!(operator.proxy().count("create", "pods"), 5);
    });
}

#[test]
fn a_change_that_races_with_a_status_write_is_not_lost() {
    run(async {
        let bench = std::sync::Arc::new(Bench::new("scaling-race").await);
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 1)]), 2).await;
        bench.settle().await;
        // The answer to the status write comes before the watch tells of the change, and shows the change already. Pods
        // that do nothing give no other reason to look again.
        bench.kubelet.runs(false);
        operator.proxy().delay_watches(Duration::from_secs(2));
        let mut user = Some(std::sync::Arc::clone(&bench));
        operator.proxy().rule(move |call| match user.take_if(|_| call.is("patch", "rayclusters/status")) {
            Some(bench) => Fate::After(Box::pin(async move { bench.scale("one", 0, 3).await })),
            None => Fate::Forward,
        });
        bench.scale("one", 0, 2).await;
        let start = Instant::now();
        bench.until("it has the three that were asked for last", |now| now.pods("one").len() == 4).await;
        assert!(start.elapsed() < Duration::from_secs(10), "it took {:?}", start.elapsed());
        bench.settle().await;
        assert_eq!(operator.proxy().count("create", "pods"), 4);
    });
}

#[test]
fn pods_that_no_node_has_go_with_one_delete_each() {
    run(async {
        let bench = Bench::new("scaling-pending").await;
        bench.kubelet.runs(false);
        let operator = bench.operator().await;
        bench.apply(&cluster("one", &[("w", 4)])).await;
        bench.until("the pods are made", |now| now.pods("one").len() == 5).await;
        bench.settle().await;
        // The API server takes such a pod away at once; the watch tells of it later.
        operator.proxy().delay_watches(Duration::from_secs(2));
        bench.scale("one", 0, 1).await;
        bench.until("three are gone", |now| now.pods("one").len() == 2).await;
        bench.settle().await;
        assert_eq!(operator.proxy().count("delete", "pods"), 3);
        assert_eq!(operator.proxy().count("create", "pods"), 5);
    });
}

//! Pods are lost: which come back, and at what cost?

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::{Bench, cluster, objects, run};

fn name(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

fn uid(pod: &Value) -> String {
    pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn replacing_a_deleted_worker_costs_a_create_an_event_and_two_status_writes() {
    run(async {
        let bench = Bench::new("loss-user").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 3)]), 4).await;
        bench.settle().await;
        let before = bench.record.now();
        let victim = before.workers("one")[1].clone();
        let start = Instant::now();
        objects::delete(&bench.pods(), &name(&victim)).await;
        let after = bench
            .until("the lost worker is replaced", |now| {
                now.is_ready("one") && now.uids("one").len() == 4 && !now.uids("one").contains(&uid(&victim))
            })
            .await;
        bench.settle().await;
        let stayed = before.uids("one").intersection(&after.uids("one")).count();
        assert_eq!(stayed, 3, "nobody else was touched");

        let calls = operator.proxy().since(start);
        let count = |verb: &str, resource: &str| calls.iter().filter(|c| c.is(verb, resource)).count();
        assert_eq!(count("create", "pods"), 1, "{calls:#?}");
        assert!(count("create", "events") <= 1, "{calls:#?}");
        // False when it is lost, True when it is back.
        assert!(count("patch", "rayclusters/status") <= 2, "{calls:#?}");
        assert!(calls.iter().filter(|c| c.is_write()).count() <= 4, "{calls:#?}");
    });
}

/// What happens to a pod, and how its template must be for that.
struct Case {
    restart_policy: &'static str,
    /// Phase that the pod ends in; none: its Ray container ends and the pod runs on.
    phase: Option<&'static str>,
    reason: &'static str,
}

const REPLACED: [Case; 4] = [
    Case { restart_policy: "Always", phase: Some("Failed"), reason: "Evicted" },
    Case { restart_policy: "Always", phase: Some("Succeeded"), reason: "" },
    Case { restart_policy: "Never", phase: None, reason: "" },
    Case { restart_policy: "Never", phase: Some("Failed"), reason: "NodeLost" },
];

fn with_policy(name: &str, policy: &str) -> Value {
    let mut object = cluster(name, &[("w", 2)]);
    object["spec"]["headGroupSpec"]["template"]["spec"]["restartPolicy"] = json!(policy);
    object["spec"]["workerGroupSpecs"][0]["template"]["spec"]["restartPolicy"] = json!(policy);
    object
}

async fn strike(bench: &Bench, pod: &Value, case: &Case) {
    match case.phase {
        Some(phase) => bench.kubelet.end(&name(pod), phase, case.reason).await,
        None => bench.kubelet.ray_ends(pod, 1).await,
    }
}

#[test]
fn a_dead_head_comes_back_once_and_workers_stay() {
    run(async {
        for (n, case) in REPLACED.iter().enumerate() {
            let bench = Bench::new(&format!("loss-head-{n}")).await;
            let operator = bench.operator().await;
            bench.ready_cluster(&with_policy("one", case.restart_policy), 3).await;
            let before = bench.record.now();
            let head = before.heads("one")[0].clone();
            let service = uid(before.all("Service")[0]);
            strike(&bench, &head, case).await;
            bench.until("the head is seen as lost", |now| now.condition("one", "HeadPodReady").status == "False").await;
            let after = bench
                .until("a new head is Ready", |now| {
                    let heads = now.heads("one");
                    heads.len() == 1 && uid(heads[0]) != uid(&head) && now.is_ready("one")
                })
                .await;
            assert_eq!(after.condition("one", "HeadPodReady").status, "True");
            let workers =
                |now: &crate::bench::record::Now| -> Vec<String> { now.workers("one").into_iter().map(uid).collect() };
            assert_eq!(workers(&before), workers(&after), "case {n}: the workers stay");
            assert_eq!(uid(after.all("Service")[0]), service, "case {n}: the Service stays");
            assert_eq!(operator.proxy().count("create", "pods"), 4, "case {n}: one head more");
            assert_eq!(operator.proxy().count("delete", "pods"), 1, "case {n}: the dead head goes");
        }
    });
}

#[test]
fn a_dead_worker_is_replaced_in_its_place() {
    run(async {
        for (n, case) in REPLACED.iter().enumerate() {
            let bench = Bench::new(&format!("loss-worker-{n}")).await;
            let operator = bench.operator().await;
            bench.ready_cluster(&with_policy("one", case.restart_policy), 3).await;
            let before = bench.record.now();
            let victim = before.workers("one")[0].clone();
            strike(&bench, &victim, case).await;
            let after = bench
                .until("another worker is Ready", |now| {
                    now.is_ready("one") && now.uids("one").len() == 3 && !now.uids("one").contains(&uid(&victim))
                })
                .await;
            assert_eq!(before.uids("one").intersection(&after.uids("one")).count(), 2, "case {n}: others stay");
            let index = |pod: &Value| pod["metadata"]["labels"]["ray.io/worker-group-replica-index"].clone();
            assert!(after.workers("one").iter().any(|p| index(p) == index(&victim)), "case {n}: the place is filled");
            assert_eq!(operator.proxy().count("create", "pods"), 4, "case {n}");
            assert_eq!(operator.proxy().count("delete", "pods"), 1, "case {n}");
        }
    });
}

#[test]
fn a_container_that_may_restart_is_left_alone() {
    run(async {
        let bench = Bench::new("loss-restarts").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&with_policy("one", "Always"), 3).await;
        let before = bench.record.now();
        bench.kubelet.ray_ends(before.heads("one")[0], 1).await;
        bench.kubelet.ray_ends(before.workers("one")[0], 1).await;
        bench
            .until("the head is seen as not Ready", |now| now.condition("one", "HeadPodReady").status == "False")
            .await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let after = bench.record.now();
        assert_eq!(before.uids("one"), after.uids("one"));
        assert_eq!(operator.proxy().count("delete", "pods"), 0);
        assert_eq!(operator.proxy().count("create", "pods"), 3);
    });
}

#[test]
fn a_worker_on_a_lost_node_is_replaced_at_once_and_a_head_only_when_it_is_gone() {
    run(async {
        let bench = Bench::new("loss-node").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 2)]), 3).await;
        bench.settle().await;
        let before = bench.record.now();
        let (head, worker) = (before.heads("one")[0].clone(), before.workers("one")[0].clone());
        // Nobody on the node confirms a deletion any more.
        bench.kubelet.reaps(false);
        objects::delete(&bench.pods(), &name(&worker)).await;
        bench
            .until("another worker runs beside the one that hangs", |now| {
                now.is_ready("one") && now.workers("one").len() == 3
            })
            .await;
        objects::delete(&bench.pods(), &name(&head)).await;
        bench.until("the head is seen as lost", |now| now.condition("one", "Ready").reason == "HeadNotReady").await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(bench.record.now().heads("one").len(), 1, "never two heads");
        assert_eq!(operator.proxy().count("create", "pods"), 4);
        assert_eq!(operator.proxy().count("delete", "pods"), 0, "somebody else's deletion is not repeated");
        bench.kubelet.reaps(true);
        let after = bench.until("a new head follows", |now| now.is_ready("one") && now.pods("one").len() == 3).await;
        assert_ne!(uid(after.heads("one")[0]), uid(&head));
        assert_eq!(operator.proxy().count("create", "pods"), 5);
    });
}

//! Pods do not get to run: does the cluster say why, in words that help?

use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::record::Now;
use crate::bench::{Bench, cluster, run};

fn name(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// A cluster whose pods are there, and do nothing yet.
async fn pending(namespace: &str) -> (Bench, crate::bench::Operator, Now) {
    let bench = Bench::new(namespace).await;
    bench.kubelet.runs(false);
    let operator = bench.operator().await;
    bench.apply(&cluster("one", &[("w", 1)])).await;
    let now = bench.until("the pods are made", |now| now.pods("one").len() == 2).await;
    (bench, operator, now)
}

async fn says(bench: &Bench, reason: &str, words: &[&str]) {
    let now = bench.until(&format!("it says {reason}"), |now| now.condition("one", "Ready").reason == reason).await;
    let message = now.condition("one", "Ready").message;
    assert_eq!(now.condition("one", "Ready").status, "False");
    for word in words {
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
    let now = bench.until("an event says so too", |now| !now.events(reason).is_empty()).await;
    assert_eq!(now.events(reason), [message]);
    bench.settle().await;
    assert_eq!(bench.record.now().events(reason).len(), 1, "said once");
}

#[test]
fn an_image_that_cannot_be_pulled_is_named() {
    run(async {
        let (bench, _operator, now) = pending("symptoms-image").await;
        let worker = now.workers("one")[0].clone();
        bench.kubelet.run(now.heads("one")[0]).await;
        bench.kubelet.image_missing(&worker).await;
        says(&bench, "ImagePull", &["registry.test/ray:a", &name(&worker)]).await;

        // The spec is mended: a pod that never ran makes room for one with the right image.
        let mut mended = cluster("one", &[("w", 1)]);
        mended["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["image"] =
            "registry.test/ray:b".into();
        let head = now.heads("one")[0]["metadata"]["uid"].clone();
        bench.apply(&mended).await;
        let has_new_image = |p: &Value| p["spec"]["containers"][0]["image"] == "registry.test/ray:b";
        let now = bench
            .until("another pod takes its place", |now| {
                now.workers("one").iter().filter(|p| has_new_image(p)).count() == 1
            })
            .await;
        bench.kubelet.run(now.workers("one")[0]).await;
        let now = bench.until("it recovers", |now| now.is_ready("one") && !now.uids("one").is_empty()).await;
        assert_eq!(now.workers("one")[0]["spec"]["containers"][0]["image"], "registry.test/ray:b");
        assert_eq!(now.heads("one")[0]["metadata"]["uid"], head, "the head had nothing to do with it");
        assert!(now.events("DeletedWorkerPod").iter().any(|e| e.contains("template has changed since (image)")));
    });
}

#[test]
fn a_crash_loop_says_how_the_container_ended() {
    run(async {
        let (bench, operator, now) = pending("symptoms-crash").await;
        let worker = now.workers("one")[0].clone();
        bench.kubelet.run(now.heads("one")[0]).await;
        bench.kubelet.crash_loop(&worker, 3).await;
        says(&bench, "CrashLoop", &["137", "OOMKilled", "last words", &name(&worker)]).await;
        // Restarts alone are not worth a write each.
        let writes = operator.proxy().writes().len();
        for restarts in 4..8 {
            bench.kubelet.crash_loop(&worker, restarts).await;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        assert!(operator.proxy().writes().len() <= writes + 1, "a write for each restart");
        bench.kubelet.run(&worker).await;
        bench.until("it recovers", |now| now.is_ready("one")).await;
        assert_eq!(operator.proxy().count("delete", "pods"), 0);
    });
}

#[test]
fn a_pod_that_fits_nowhere_says_what_the_scheduler_said() {
    run(async {
        let (bench, _operator, now) = pending("symptoms-fit").await;
        let worker = now.workers("one")[0].clone();
        bench.kubelet.run(now.heads("one")[0]).await;
        bench.kubelet.unschedulable(&name(&worker), "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.").await;
        says(&bench, "Unschedulable", &["3 Insufficient nvidia.com/gpu", &name(&worker)]).await;
        bench.kubelet.run(&worker).await;
        bench.until("it recovers", |now| now.is_ready("one")).await;
    });
}

#[test]
fn a_head_that_never_lives_long_is_remade_ever_more_slowly() {
    run(async {
        let bench = Bench::new("symptoms-remade").await;
        bench.kubelet.runs(false);
        let operator = bench.operator().await;
        let mut object = cluster("one", &[]);
        object["spec"]["headGroupSpec"]["template"]["spec"]["restartPolicy"] = json!("Never");
        bench.apply(&object).await;
        let start = std::time::Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            for head in bench.record.now().heads("one") {
                if head["status"]["phase"] == "Pending" {
                    bench.kubelet.bind(head).await;
                    bench.kubelet.end(&name(head), "Failed", "StartError").await;
                }
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let creates = operator.proxy().count("create", "pods");
        assert!((2..=4).contains(&creates), "{creates} heads in 20 s");
        let writes = operator.proxy().writes().len();
        assert!(writes <= 30, "{writes} writes in 20 s");
        says_crash_loop(&bench).await;
        bench.kubelet.runs(true);
        bench.until("it recovers", |now| now.is_ready("one")).await;
    });
}

async fn says_crash_loop(bench: &Bench) {
    bench.until("it says that the head keeps dying", |now| now.condition("one", "Ready").reason == "CrashLoop").await;
}

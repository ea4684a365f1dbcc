//! The claim of the embedded store: who owns it, who outlives whom.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::bench::record::Turn;
use crate::bench::{Bench, cluster, run};

const CLAIM: &str = "one-gcs-pvc";

fn with_claim(policy: &str, size: &str) -> Value {
    let mut object = cluster("one", &[("w", 1)]);
    object["spec"]["gcsFaultToleranceOptions"] =
        json!({"backend": "rocksdb", "storage": {"deletionPolicy": policy, "size": size}});
    object
}

#[test]
fn it_is_made_before_the_head_and_goes_with_the_cluster() {
    run(async {
        let bench = Bench::new("claim").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&with_claim("DeleteWithCluster", "2Gi"), 2).await;
        bench.settle().await;
        let moments = bench.record.moments();
        let first = |kind: &str| moments.iter().position(|m| m.kind == kind).expect("it was made");
        assert!(first("PersistentVolumeClaim") < first("Pod"));
        let now = bench.record.now();
        assert_eq!(now.events("CreatedPVC").len(), 1);
        assert_eq!(
            now.get("PersistentVolumeClaim", CLAIM).expect("it")["spec"]["resources"]["requests"]["storage"],
            "2Gi"
        );
        assert_eq!(operator.proxy().count("patch", "rayclusters"), 0, "no finalizer");

        bench.apply(&with_claim("DeleteWithCluster", "3Gi")).await;
        bench.until("what is not applied is said", |now| now.events("FailedToCreatePVC").len() == 1).await;
        bench.settle().await;
        let now = bench.record.now();
        assert!(
            now.events("FailedToCreatePVC")[0].contains("size 2Gi instead of 3Gi"),
            "{:?}",
            now.events("FailedToCreatePVC")
        );
        assert_eq!(operator.proxy().count("patch", "persistentvolumeclaims"), 0, "it is not touched");
        bench.clusters().delete("one", &DeleteParams::background()).await.expect("to delete it");
        let leaves = |now: &crate::bench::record::Now| {
            now.get("PersistentVolumeClaim", CLAIM).is_none_or(|c| c["metadata"]["deletionTimestamp"].is_string())
        };
        bench.until("the claim goes too", leaves).await;
    });
}

#[test]
fn a_retained_claim_is_taken_up_by_the_next_cluster_of_the_name() {
    run(async {
        let bench = Bench::new("claim-retained").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&with_claim("DeleteWithCluster", "1Gi"), 2).await;
        bench.apply(&with_claim("Retain", "1Gi")).await;
        let owners = |now: &crate::bench::record::Now| {
            now.get("PersistentVolumeClaim", CLAIM)
                .map_or(0, |c| c["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len))
        };
        let now = bench.until("nobody owns it", |now| owners(now) == 0).await;
        let uid = now.get("PersistentVolumeClaim", CLAIM).expect("it")["metadata"]["uid"].clone();
        bench.clusters().delete("one", &DeleteParams::background()).await.expect("to delete it");
        bench.until("the cluster is gone", |now| now.all("RayCluster").is_empty() && now.all("Pod").is_empty()).await;

        bench.ready_cluster(&with_claim("Retain", "1Gi"), 2).await;
        bench.settle().await;
        assert_eq!(operator.proxy().count("create", "persistentvolumeclaims"), 1, "it is found by its label");
        bench.apply(&with_claim("DeleteWithCluster", "1Gi")).await;
        let now = bench.until("it is owned again", |now| owners(now) == 1).await;
        assert_eq!(now.get("PersistentVolumeClaim", CLAIM).expect("it")["metadata"]["uid"], uid);
        let made = bench.record.moments();
        assert_eq!(made.iter().filter(|m| m.kind == "PersistentVolumeClaim" && m.turn == Turn::Added).count(), 1);
        bench.settle().await;
        bench.quiet_for(std::time::Duration::from_secs(2)).await;
    });
}

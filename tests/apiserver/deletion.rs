//! A RayCluster is deleted: is anything left, and does the operator keep its hands still?

use kube::api::{DeleteParams, PropagationPolicy};

use crate::bench::{Bench, cluster, run};

async fn deleted(namespace: &str, how: PropagationPolicy) {
    let bench = Bench::new(namespace).await;
    let operator = bench.operator().await;
    bench.ready_cluster(&cluster("one", &[("w", 3)]), 4).await;
    bench.settle().await;
    let creates = operator.proxy().count("create", "pods") + operator.proxy().count("create", "services");
    assert_eq!(creates, 5);
    let params = DeleteParams { propagation_policy: Some(how), ..DeleteParams::default() };
    bench.clusters().delete("one", &params).await.expect("to delete it");
    bench
        .until("everything is gone", |now| {
            now.all("RayCluster").is_empty() && now.all("Pod").is_empty() && now.all("Service").is_empty()
        })
        .await;
    bench.settle().await;
    let after = operator.proxy().count("create", "pods") + operator.proxy().count("create", "services");
    assert_eq!(after, creates, "nothing is made on the way out");
    assert!(operator.is_running());

    // The same name anew is another cluster.
    bench.ready_cluster(&cluster("one", &[("w", 1)]), 2).await;
}

#[test]
fn owner_first() {
    run(deleted("deletion-background", PropagationPolicy::Background));
}

#[test]
fn children_first() {
    run(deleted("deletion-foreground", PropagationPolicy::Foreground));
}

#[test]
fn while_it_is_being_made() {
    run(async {
        let bench = Bench::new("deletion-early").await;
        let operator = bench.operator().await;
        bench.apply(&cluster("one", &[("w", 10)])).await;
        bench.until("its first pod is there", |now| !now.all("Pod").is_empty()).await;
        bench.clusters().delete("one", &DeleteParams::background()).await.expect("to delete it");
        bench
            .until("everything is gone", |now| {
                now.all("RayCluster").is_empty() && now.all("Pod").is_empty() && now.all("Service").is_empty()
            })
            .await;
        bench.settle().await;
        assert!(operator.is_running());
    });
}

//! Objects of others that look like ours are never touched.

use serde_json::json;

use crate::bench::{Bench, cluster, objects, run};

#[test]
fn pods_of_others_with_our_labels_do_not_count_and_are_not_touched() {
    run(async {
        let bench = Bench::new("strangers-pods").await;
        bench.kubelet.runs(false);
        let pod = |name: &str, owners: serde_json::Value| {
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": name, "ownerReferences": owners,
                    "labels": {
                        "ray.io/cluster": "one", "ray.io/group": "w", "ray.io/node-type": "worker", "ray.io/is-ray-node": "yes",
                        "ray.io/worker-group-replica-index": "0",
                    },
                },
                "spec": {"containers": [{"name": "ray", "image": "registry.test/ray:a"}]},
            })
        };
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
        let owner = objects::apply(bench.client(), &bench.namespace, &owner).await;
        let owners = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "controller": true}]);
        let lonely = bench.apply(&pod("lonely", json!([]))).await;
        let owned = bench.apply(&pod("owned", owners.clone())).await;
        let another_head = {
            let mut head = pod("another-head", owners);
            head["metadata"]["labels"]["ray.io/node-type"] = "head".into();
            bench.apply(&head).await
        };
        let operator = bench.operator().await;
        bench.kubelet.runs(true);
        bench.apply(&cluster("one", &[("w", 2)])).await;
        bench.until("the cluster has pods of its own", |now| now.is_ready("one") && now.pods("one").len() == 6).await;
        bench.kubelet.end("lonely", "Failed", "Evicted").await;
        bench.kubelet.end("owned", "Failed", "Evicted").await;
        bench.edit("one", json!({"spec": {"suspend": true}})).await;
        let now = bench
            .until("ours are gone and theirs are not", |now| {
                now.pods("one").len() == 3 && now.condition("one", "RayClusterSuspended").status == "True"
            })
            .await;
        for stranger in [lonely, owned, another_head] {
            let name = stranger["metadata"]["name"].as_str().expect("a name");
            assert_eq!(now.get("Pod", name).expect("the stranger")["metadata"]["uid"], stranger["metadata"]["uid"]);
            let touched = operator.proxy().writes().into_iter().filter(|c| c.name == name).count();
            assert_eq!(touched, 0, "{name} was written to");
        }
    });
}

#[test]
fn a_head_that_an_orphaning_deletion_left_is_waited_for_and_named() {
    run(async {
        let bench = Bench::new("strangers-head").await;
        let _operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 1)]), 2).await;
        let params = kube::api::DeleteParams {
            propagation_policy: Some(kube::api::PropagationPolicy::Orphan),
            ..Default::default()
        };
        bench.clusters().delete("one", &params).await.expect("to delete");
        // The garbage collector takes the owner out; none runs here.
        let free = json!({"metadata": {"ownerReferences": null, "finalizers": null}});
        for pod in bench.record.now().pods("one") {
            objects::edit(&bench.pods(), pod["metadata"]["name"].as_str().expect("a name"), &free).await;
        }
        // A try that took effect and is tried again (a status write came between) finds nothing any more.
        let patch = kube::api::Patch::Merge(json!({"metadata": {"finalizers": null}}));
        let _ = bench.clusters().patch("one", &Default::default(), &patch).await;
        bench.until("the cluster is gone", |now| now.get("RayCluster", "one").is_none()).await;
        let services = objects::kind(bench.client(), &bench.namespace, "v1", "Service");
        objects::delete(&services, "one-head-svc").await;
        let old = bench.record.now().heads("one")[0]["metadata"]["name"].as_str().expect("a name").to_owned();
        bench.apply(&cluster("one", &[("w", 1)])).await;
        let now =
            bench.until("it says whom it waits for", |now| now.condition("one", "Ready").message.contains(&old)).await;
        assert_eq!(now.condition("one", "Ready").reason, "HeadNotReady");
        assert_eq!(now.heads("one").len(), 1, "two heads would split the cluster");
        objects::delete(&bench.pods(), &old).await;
        bench.until("it goes on", |now| now.is_ready("one") && now.heads("one").len() == 1).await;
    });
}

#[test]
fn a_service_that_holds_the_heads_name_is_left_alone_and_named() {
    run(async {
        let bench = Bench::new("strangers-service").await;
        let operator = bench.operator().await;
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "one-head-svc"},
            "spec": {"ports": [{"port": 80}], "selector": {"app": "mine"}},
        });
        let before = bench.apply(&service).await;
        bench.apply(&cluster("one", &[("w", 1)])).await;
        let now =
            bench.until("it says who is in the way", |now| now.condition("one", "Ready").reason == "NameTaken").await;
        let message = now.condition("one", "Ready").message;
        assert!(message.contains("one-head-svc"), "{message}");
        assert_eq!(now.get("Service", "one-head-svc").expect("theirs")["metadata"]["uid"], before["metadata"]["uid"]);
        assert_eq!(now.get("Service", "one-head-svc").expect("theirs")["spec"]["selector"]["app"], "mine");
        let touched = operator.proxy().writes().into_iter().filter(|c| c.name == "one-head-svc").count();
        assert_eq!(touched, 0);

        let api = objects::kind(bench.client(), &bench.namespace, "v1", "Service");
        objects::delete(&api, "one-head-svc").await;
        bench.until("it goes on once the name is free", |now| now.is_ready("one") && now.pods("one").len() == 2).await;
        bench.settle().await;
    });
}

//! PodGroups of batch schedulers on a real API server. The schedulers themselves cannot be had here: their CRDs are reduced to
//! what matters, and the test writes what they would write.

use std::time::{Duration, Instant};

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::bench::{Bench, cluster, objects, run};

/// A CRD of PodGroups. Fields that it does not know are refused by strict checks and dropped by others.
async fn install_crd(bench: &Bench, group: &str, version: &str, spec: Value, subresources: Value) {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": spec},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("podgroups.{group}"), "annotations": {"api-approved.kubernetes.io": "for a test"}},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": subresources,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    bench.apply(&crd).await;
}

fn fields(more: &[(&str, Value)]) -> Value {
    let quantity = json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true});
    let mut all = json!({
        "minMember": {"type": "integer", "format": "int32"},
        "minResources": {"type": "object", "additionalProperties": quantity},
    });
    for (name, schema) in more {
        all[*name] = schema.clone();
    }
    all
}

/// Waits until the PodGroup is as wanted (`None`: there is none).
async fn until(api: &Api<DynamicObject>, name: &str, what: &str, holds: impl Fn(Option<&Value>) -> bool) -> Value {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        // As long as its kind is not known there is none either.
        let found = api.get_opt(name).await.ok().flatten().map(|o| serde_json::to_value(o).expect("JSON"));
        if holds(found.as_ref()) {
            return found.unwrap_or_default();
        }
        assert!(Instant::now() < limit, "waited in vain: {what}; there is {found:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn members(n: i32) -> impl Fn(Option<&Value>) -> bool {
    move |group| group.is_some_and(|g| g["spec"]["minMember"] == n)
}

#[test]
fn volcano_gets_its_pod_group_before_any_pod() {
    run(async {
        let bench = Bench::new("volcano").await;
        let operator = bench.operator_with(&["--batch-scheduler=volcano"]).await;
        let mut one = cluster("one", &[("w", 2)]);
        one["metadata"]["labels"] = json!({"volcano.sh/queue-name": "research"});
        bench.apply(&one).await;
        let now = bench
            .until("it says that Volcano is missing", |now| {
                now.condition("one", "Ready").message.contains("scheduling.volcano.sh/v1beta1 PodGroup")
            })
            .await;
        assert_eq!(now.pods("one").len(), 0, "no pod without its group");
        assert!(operator.log_text().contains("podgroups"));

        let topology = json!({"type": "object", "properties": {"mode": {"type": "string"}, "highestTierAllowed": {"type": "integer"}}});
        let text = || json!({"type": "string"});
        let spec = fields(&[("queue", text()), ("priorityClassName", text()), ("networkTopology", topology)]);
        install_crd(&bench, "scheduling.volcano.sh", "v1beta1", spec, json!({})).await;
        bench.until("it goes on", |now| now.is_ready("one") && now.pods("one").len() == 3).await;
        let groups = objects::kind(bench.client(), &bench.namespace, "scheduling.volcano.sh/v1beta1", "PodGroup");
        let group = until(&groups, "ray-one-pg", "the group", members(3)).await;
        assert_eq!(
            group["spec"],
            json!({"minMember": 3, "minResources": {"cpu": "3", "memory": "3Gi"}, "queue": "research"})
        );
        let first = operator.proxy().calls().into_iter().filter(|c| c.verb == "create" && c.code == 201);
        let first: Vec<_> = first.filter(|c| c.resource == "pods" || c.resource == "podgroups").collect();
        assert_eq!(first[0].resource, "podgroups");
        for pod in bench.record.now().pods("one") {
            assert_eq!(pod["spec"]["schedulerName"], "volcano");
            assert_eq!(pod["metadata"]["annotations"]["scheduling.k8s.io/group-name"], "ray-one-pg");
        }

        // Volcano writes the status, and its webhook fills in what is not set.
        let volcano = Patch::Merge(json!({"status": {"phase": "Running"}, "spec": {"priorityClassName": "default"}}));
        groups
            .patch(
                "ray-one-pg",
                &PatchParams { field_manager: Some("vc-scheduler".into()), ..Default::default() },
                &volcano,
            )
            .await
            .expect("Volcano's write");
        bench.settle().await;
        bench.quiet_for(Duration::from_secs(3)).await;

        bench.scale("one", 0, 4).await;
        let group = until(&groups, "ray-one-pg", "it grows", members(5)).await;
        assert_eq!(
            (&group["spec"]["minResources"]["cpu"], &group["status"]["phase"]),
            (&json!("5"), &json!("Running"))
        );
        objects::delete(&groups, "ray-one-pg").await;
        until(&groups, "ray-one-pg", "it comes back", members(5)).await;

        bench.edit("one", json!({"spec": {"suspend": true}})).await;
        until(&groups, "ray-one-pg", "it goes with the pods", |g| g.is_none()).await;
        bench.until("suspended", |now| now.condition("one", "RayClusterSuspended").status == "True").await;
        bench.edit("one", json!({"spec": {"suspend": false}})).await;
        until(&groups, "ray-one-pg", "it comes with the pods", members(5)).await;
        bench.until("it is Ready again", |now| now.is_ready("one") && now.pods("one").len() == 5).await;
        bench.settle().await;
        bench.quiet_for(Duration::from_secs(3)).await;
    });
}

#[test]
fn scheduler_plugins_gets_a_pod_group_where_one_is_asked_for() {
    run(async {
        let bench = Bench::new("scheduler-plugins").await;
        let spec = fields(&[("scheduleTimeoutSeconds", json!({"type": "integer"}))]);
        install_crd(&bench, "scheduling.x-k8s.io", "v1alpha1", spec, json!({"status": {}})).await;
        let operator = bench.operator_with(&["--batch-scheduler=scheduler-plugins"]).await;
        bench.ready_cluster(&cluster("plain", &[("w", 1)]), 2).await;
        let mut gang = cluster("gang", &[("w", 1)]);
        gang["metadata"]["labels"] = json!({"ray.io/gang-scheduling-enabled": "true"});
        let groups = objects::kind(bench.client(), &bench.namespace, "scheduling.x-k8s.io/v1alpha1", "PodGroup");

        // One that KubeRay made: no labels, and an owner that is no controller.
        bench.kubelet.runs(false);
        let uid = bench.apply(&gang).await["metadata"]["uid"].as_str().expect("a uid").to_owned();
        let group = until(&groups, "gang", "the group", members(2)).await;
        assert_eq!(group["spec"]["minResources"], json!({"cpu": "2", "memory": "2Gi"}));
        operator.kill();
        bench.eventually("it is gone", || !operator.is_running()).await;
        objects::delete(&groups, "gang").await;
        let theirs = json!({
            "apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
            "metadata": {"name": "gang", "ownerReferences": [{"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "gang", "uid": uid}]},
            "spec": {"minMember": 9, "minResources": {"cpu": "9", "nvidia.com/gpu": "1"}},
        });
        objects::create(bench.client(), &bench.namespace, &theirs).await.expect("KubeRay's group");
        bench.kubelet.runs(true);
        let operator = bench.operator_with(&["--batch-scheduler=scheduler-plugins"]).await;
        let group = until(&groups, "gang", "it is adopted and brought in step", members(2)).await;
        assert_eq!(group["spec"]["minResources"], json!({"cpu": "2", "memory": "2Gi"}));
        assert_eq!(group["metadata"]["labels"]["ray.io/cluster"], "gang");
        assert_eq!(group["metadata"]["ownerReferences"][0]["controller"], true);
        bench.until("both are Ready", |now| now.is_ready("gang") && now.is_ready("plain")).await;

        bench.scale("gang", 0, 3).await;
        until(&groups, "gang", "it grows", members(4)).await;
        let now = bench.until("it is Ready", |now| now.is_ready("gang") && now.pods("gang").len() == 4).await;
        assert!(now.pods("gang").iter().all(|p| p["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "gang"));
        assert!(now.pods("plain").iter().all(|p| p["spec"]["schedulerName"] == "scheduler-plugins-scheduler"));
        until(&groups, "plain", "who did not ask has none", |g| g.is_none()).await;
        bench.settle().await;
        bench.quiet_for(Duration::from_secs(3)).await;

        bench.edit("gang", json!({"metadata": {"labels": {"ray.io/gang-scheduling-enabled": null}}})).await;
        until(&groups, "gang", "it goes with the label", |g| g.is_none()).await;
        assert_eq!(operator.proxy().count("delete", "podgroups"), 1);
    });
}

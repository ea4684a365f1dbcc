//! Accelerators that no node offers: is it said, does it follow the nodes, and do nodes cost nothing otherwise?

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::bench::{Bench, cluster, objects, run};

fn asking(name: &str, gpus: u32) -> Value {
    let mut cluster = cluster(name, &[("w", 1)]);
    let container = &mut cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0];
    container["resources"]["limits"]["nvidia.com/gpu"] = json!(gpus);
    cluster
}

/// Merges something into the status of the test's node.
async fn say(bench: &Bench, status: Value) {
    let nodes = objects::kind(bench.client(), "", "v1", "Node");
    let patch = Patch::Merge(json!({"status": status}));
    nodes.patch_subresource("status", NODE, &PatchParams::default(), &patch).await.expect("the node's status");
}

fn ready(heartbeat: u32) -> Value {
    let time = format!("2026-01-01T00:00:{heartbeat:02}Z");
    json!([{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": time, "lastTransitionTime": "2026-01-01T00:00:00Z"}])
}

async fn until_reason(bench: &Bench, status: &str, reason: &str) -> String {
    let now = bench
        .until(&format!("AcceleratorsAvailable is {status}/{reason}"), |now| {
            let said = now.condition("one", "AcceleratorsAvailable");
            said.status == status && said.reason == reason
        })
        .await;
    now.condition("one", "AcceleratorsAvailable").message
}

const NODE: &str = "accelerators-1";

#[test]
fn it_follows_the_nodes_and_never_holds_back_a_pod() {
    run(async {
        let bench = Bench::new("accelerators").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("plain", &[("w", 1)]), 2).await;
        bench.settle().await;
        let node_calls = || operator.proxy().calls().iter().filter(|c| c.resource == "nodes").count();
        assert_eq!(node_calls(), 0, "nobody asks for an accelerator, nobody looks at nodes");

        bench.kubelet.runs(false);
        bench.apply(&asking("one", 8)).await;
        let words = format!("User \"{}\" cannot", bench.user());
        let message = until_reason(&bench, "Unknown", "NodesNotListed").await;
        assert!(message.contains(&words) && message.contains("resource \"nodes\""), "{message}");
        assert!(node_calls() > 0);
        bench.until("pods are made all the same", |now| now.pods("one").len() == 2).await;
        tokio::time::sleep(Duration::from_secs(4)).await;
        assert_eq!(
            operator.log_text().matches("nodes cannot be listed").count(),
            1,
            "said once: {}",
            operator.log_tail()
        );

        let rule = json!([{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]}]);
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "accelerators-nodes"}, "rules": rule});
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "accelerators-nodes"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "accelerators-nodes"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": bench.user()}],
        });
        bench.apply(&role).await;
        bench.apply(&binding).await;
        let message = until_reason(&bench, "False", "NoSuchNode").await;
        assert!(message.contains("group w asks for 8 nvidia.com/gpu"), "{message}");
        bench.until("Ready says so", |now| now.condition("one", "Ready").reason == "NoMatchingAccelerator").await;
        bench.until("an event says so", |now| now.events("NoMatchingAccelerator").len() == 1).await;

        bench.apply(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})).await;
        say(&bench, json!({"allocatable": {"cpu": "64", "nvidia.com/gpu": "8"}, "conditions": ready(0)})).await;
        // The API server gives every new node a taint that somebody takes away once it is Ready.
        let message = until_reason(&bench, "False", "Tainted").await;
        assert!(message.contains("not Ready"), "{message}");
        let nodes = objects::kind(bench.client(), "", "v1", "Node");
        objects::edit(&nodes, NODE, &json!({"spec": {"taints": []}})).await;
        until_reason(&bench, "True", "NodesOffer").await;
        bench.until("Ready goes on", |now| now.condition("one", "Ready").reason == "HeadNotReady").await;
        assert_eq!(bench.record.now().condition("plain", "AcceleratorsAvailable").status, "");

        bench.settle().await;
        let writes = operator.proxy().writes().len();
        for heartbeat in 1..6 {
            say(&bench, json!({"conditions": ready(heartbeat)})).await;
        }
        bench.quiet_for(Duration::from_secs(4)).await;
        assert_eq!(operator.proxy().writes().len(), writes);

        objects::delete(&nodes, NODE).await;
        until_reason(&bench, "False", "NoSuchNode").await;
        bench.settle().await;
        bench.quiet_for(Duration::from_secs(2)).await;
        let news: Vec<_> = operator.proxy().writes().split_off(writes);
        assert!(
            news.iter().all(|c| c.is("patch", "rayclusters/status") && c.name == "one" || c.resource == "events"),
            "{news:?}"
        );
    });
}

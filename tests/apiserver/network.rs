//! Network policies: there before the pods, changed and taken away with the spec, never over somebody else's.

use serde_json::{Value, json};

use crate::bench::{Bench, cluster, objects, run};

fn shielded(name: &str, groups: &[(&str, i32)]) -> Value {
    let mut object = cluster(name, groups);
    object["spec"]["networkPolicy"] = json!({"worker": {"ingressRules": [{"ports": [{"port": 8080}]}]}});
    object
}

#[test]
fn policies_are_there_before_pods_and_follow_the_spec() {
    run(async {
        let bench = Bench::new("network").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&shielded("one", &[("a", 1), ("b", 1)]), 3).await;
        bench.settle().await;
        let order: Vec<String> = operator.proxy().writes().iter().map(|c| c.title()).collect();
        let policies: Vec<usize> = (0..order.len()).filter(|n| order[*n] == "create networkpolicies").collect();
        let first_pod = order.iter().position(|t| t == "create pods").expect("pods");
        assert_eq!(policies.len(), 3, "{order:?}");
        assert!(policies.iter().all(|n| *n < first_pod), "{order:?}");
        let before = bench.record.now();
        assert_eq!(before.events("CreatedNetworkPolicy").len(), 1, "one event for the three");
        let spec = |now: &crate::bench::record::Now, name: &str| {
            now.all("NetworkPolicy").into_iter().find(|p| p["metadata"]["name"] == name).map(|p| p["spec"].clone())
        };
        assert_eq!(spec(&before, "one-workers-a").expect("a policy")["ingress"].as_array().map(Vec::len), Some(2));

        bench.edit("one", json!({"spec": {"networkPolicy": {"mode": "DenyAllEgress", "worker": null}}})).await;
        let now = bench
            .until("ingress is open", |now| {
                ["one-head", "one-workers-a", "one-workers-b"].iter().all(|n| {
                    spec(now, n).is_some_and(|s| s["policyTypes"] == json!(["Egress"]) && s["ingress"].is_null())
                })
            })
            .await;
        assert_eq!(now.uids("one"), before.uids("one"), "no pod is touched");
        bench.until("it is told", |now| !now.events("UpdatedNetworkPolicy").is_empty()).await;

        bench.edit("one", json!({"spec": {"networkPolicy": null}})).await;
        bench.until("they are gone", |now| now.all("NetworkPolicy").is_empty()).await;
        bench.until("it is told", |now| !now.events("DeletedNetworkPolicy").is_empty()).await;
        bench.settle().await;
        let count = |verb: &str| operator.proxy().count(verb, "networkpolicies");
        assert_eq!((count("create"), count("patch"), count("delete")), (3, 3, 3));
    });
}

#[test]
fn somebody_elses_edit_is_taken_back() {
    run(async {
        let bench = Bench::new("network-edited").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&shielded("one", &[("a", 1)]), 2).await;
        bench.settle().await;
        let api = objects::kind(bench.client(), &bench.namespace, "networking.k8s.io/v1", "NetworkPolicy");
        let wanted = api.get("one-head").await.expect("the policy").data["spec"].clone();
        assert_eq!(wanted["ingress"].as_array().map(Vec::len), Some(1));
        objects::edit(&api, "one-head", &json!({"spec": {"ingress": [{}]}})).await;
        let restored = |now: &crate::bench::record::Now| {
            now.get("NetworkPolicy", "one-head").is_some_and(|p| p["spec"] == wanted)
                && operator.proxy().count("patch", "networkpolicies") == 1
        };
        bench.until("the hole is closed", restored).await;
    });
}

#[test]
fn the_policy_of_a_removed_group_goes_after_its_pods() {
    run(async {
        let bench = Bench::new("network-group").await;
        let _operator = bench.operator().await;
        bench.ready_cluster(&shielded("one", &[("a", 1), ("b", 1)]), 3).await;
        bench
            .edit(
                "one",
                json!({"spec": {"workerGroupSpecs": [shielded("one", &[("a", 1)])["spec"]["workerGroupSpecs"][0]]}}),
            )
            .await;
        bench
            .until("group and policy are gone", |now| {
                now.pods("one").len() == 2 && now.get("NetworkPolicy", "one-workers-b").is_none()
            })
            .await;
        let moments = bench.record.moments();
        let gone = |kind: &str, of: &str| {
            moments.iter().position(|m| {
                m.kind == kind && m.turn == crate::bench::record::Turn::Deleted && m.name().starts_with(of)
            })
        };
        let (pod, policy) = (gone("Pod", "one-b-worker"), gone("NetworkPolicy", "one-workers-b"));
        assert!(pod.is_some() && pod < policy, "pod {pod:?}, policy {policy:?}");
        assert!(bench.record.now().get("NetworkPolicy", "one-workers-a").is_some());
    });
}

#[test]
fn a_policy_of_somebody_else_is_left_alone_and_nothing_starts_without_ours() {
    run(async {
        let bench = Bench::new("network-taken").await;
        let operator = bench.operator().await;
        let theirs = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "one-head", "labels": {"ray.io/cluster": "one"}}, "spec": {"podSelector": {}},
        });
        let theirs = bench.apply(&theirs).await;
        bench.apply(&shielded("one", &[("a", 1)])).await;
        let now = bench.until("it says so", |now| !now.events("NetworkPolicyNameCollision").is_empty()).await;
        assert!(now.events("NetworkPolicyNameCollision")[0].contains("networkpolicies one-head"));
        let now = bench
            .until("Ready says so", |now| {
                now.condition("one", "Ready").reason == "NameTaken" && now.pods("one").is_empty()
            })
            .await;
        assert_eq!(now.get("NetworkPolicy", "one-head").expect("theirs")["spec"], theirs["spec"]);
        assert_eq!(operator.proxy().count("create", "pods"), 0);
        let api = objects::kind(bench.client(), &bench.namespace, "networking.k8s.io/v1", "NetworkPolicy");
        objects::delete(&api, "one-head").await;
        bench.until("it goes on once the name is free", |now| now.is_ready("one") && now.pods("one").len() == 2).await;
    });
}

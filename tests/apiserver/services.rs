//! Ray's own traffic stays inside; people outside get a Service of their own.

use serde_json::{Value, json};

use crate::bench::record::Now;
use crate::bench::{Bench, cluster, run};

const INSIDE: &str = "one-head-svc";
const OUTSIDE: &str = "one-head-external";

fn endpoint(now: &Now, port: &str) -> String {
    now.get("RayCluster", "one")
        .map(|c| c["status"]["endpoints"][port].clone())
        .and_then(|e| e.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn uid(now: &Now, service: &str) -> Value {
    now.get("Service", service).map(|s| s["metadata"]["uid"].clone()).unwrap_or_default()
}

#[test]
fn a_node_port_is_a_second_service_that_comes_and_goes() {
    run(async {
        let bench = Bench::new("services").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 1)]), 2).await;
        bench.settle().await;
        let before = bench.record.now();
        assert_eq!(endpoint(&before, "dashboard"), "8265");

        bench.edit("one", json!({"spec": {"headGroupSpec": {"serviceType": "NodePort"}}})).await;
        let now = bench
            .until("there is a Service for people outside", |now| {
                now.get("Service", OUTSIDE).is_some() && endpoint(now, "dashboard") != "8265"
            })
            .await;
        let outside = now.get("Service", OUTSIDE).expect("it");
        assert_eq!(outside["spec"]["type"], "NodePort");
        let ports = outside["spec"]["ports"].as_array().expect("ports");
        let dashboard = ports.iter().find(|p| p["name"] == "dashboard").expect("the dashboard's port");
        assert_eq!(endpoint(&now, "dashboard"), dashboard["nodePort"].to_string());
        let inside = now.get("Service", INSIDE).expect("it");
        assert_eq!(inside["spec"]["type"], "ClusterIP");
        assert_eq!(uid(&now, INSIDE), uid(&before, INSIDE));
        assert_eq!(now.uids("one"), before.uids("one"), "no pod is touched");

        bench.edit("one", json!({"spec": {"headGroupSpec": {"serviceType": "ClusterIP"}}})).await;
        bench
            .until("it goes again", |now| now.get("Service", OUTSIDE).is_none() && endpoint(now, "dashboard") == "8265")
            .await;
        bench.settle().await;
        let count = |verb: &str| operator.proxy().count(verb, "services");
        assert_eq!((count("create"), count("delete")), (2, 1));
    });
}

#[test]
fn a_head_service_that_somebody_deletes_comes_back() {
    run(async {
        let bench = Bench::new("services-deleted").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 1)]), 2).await;
        bench.settle().await;
        let before = bench.record.now();
        let api = crate::bench::objects::kind(bench.client(), &bench.namespace, "v1", "Service");
        crate::bench::objects::delete(&api, INSIDE).await;
        bench
            .until("it is back", |now| now.get("Service", INSIDE).is_some() && uid(now, INSIDE) != uid(&before, INSIDE))
            .await;
        bench.settle().await;
        assert_eq!(operator.proxy().count("create", "services"), 2);
        assert_eq!(bench.record.now().uids("one"), before.uids("one"), "no pod is touched");
    });
}

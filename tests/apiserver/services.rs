//! Ray's own traffic stays inside; people outside get a Service of their own.

use serde_json::{Value, json};

use crate::bench::record::Now;
use crate::bench::{Bench, cluster, objects, run};

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
        let api = objects::kind(bench.client(), &bench.namespace, "v1", "Service");
        objects::delete(&api, INSIDE).await;
        bench
            .until("it is back", |now| now.get("Service", INSIDE).is_some() && uid(now, INSIDE) != uid(&before, INSIDE))
            .await;
        bench.settle().await;
        assert_eq!(operator.proxy().count("create", "services"), 2);
        assert_eq!(bench.record.now().uids("one"), before.uids("one"), "no pod is touched");
    });
}

fn annotations(now: &Now, service: &str) -> Value {
    now.get("Service", service).map(|s| s["metadata"]["annotations"].clone()).unwrap_or_default()
}

#[test]
fn an_annotation_that_is_taken_out_goes_and_those_of_others_stay() {
    run(async {
        let bench = Bench::new("services-annotations").await;
        let operator = bench.operator().await;
        let mut object = cluster("one", &[("w", 1)]);
        object["spec"]["headServiceAnnotations"] = json!({"a.test/x": "1", "a.test/y": "1"});
        bench.ready_cluster(&object, 2).await;
        let api = objects::kind(bench.client(), &bench.namespace, "v1", "Service");
        objects::edit(&api, INSIDE, &json!({"metadata": {"annotations": {"theirs.test/z": "1"}}})).await;
        bench.settle().await;
        let before = bench.record.now();
        assert_eq!(annotations(&before, INSIDE)["a.test/x"], "1");

        bench.edit("one", json!({"spec": {"headServiceAnnotations": {"a.test/x": null, "a.test/y": "2"}}})).await;
        let now = bench.until("the other is changed", |now| annotations(now, INSIDE)["a.test/y"] == "2").await;
        let left = annotations(&now, INSIDE);
        assert!(left["a.test/x"].is_null(), "{left}");
        assert_eq!(left["theirs.test/z"], "1", "{left}");
        assert_eq!(uid(&now, INSIDE), uid(&before, INSIDE));
        bench.settle().await;
        assert_eq!(operator.proxy().count("patch", "services"), 1);
    });
}

/// A Service as KubeRay makes it, owned by cluster `one`.
fn of_kuberay(owner: &Value, name: &str, labels: Value, spec: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": name, "labels": labels,
            "ownerReferences": [{
                "apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "one", "uid": owner["metadata"]["uid"],
                "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": spec,
    })
}

#[test]
fn services_of_kuberays_are_marked_only_and_follow_the_spec_from_then_on() {
    run(async {
        let bench = Bench::new("services-kuberay").await;
        let mut object = cluster("one", &[("w", 1)]);
        object["spec"]["headGroupSpec"]["serviceType"] = json!("NodePort");
        object["spec"]["workerGroupSpecs"][0]["numOfHosts"] = json!(2);
        object["metadata"]["annotations"] = json!({"ray.io/enable-serve-service": "true"});
        let owner = bench.apply(&object).await;
        let labels = json!({"ray.io/cluster": "one", "ray.io/node-type": "head", "ray.io/identifier": "one-head"});
        let ports = json!([{"name": "dashboard", "port": 8265}, {"name": "mine", "port": 7777}]);
        let selector = json!({"ray.io/cluster": "one", "ray.io/node-type": "head"});
        for service in [
            of_kuberay(&owner, INSIDE, labels, json!({"type": "NodePort", "ports": ports, "selector": selector})),
            of_kuberay(
                &owner,
                "one-headless",
                json!({"ray.io/headless-worker-svc": "one"}),
                json!({"clusterIP": "None", "selector": {"ray.io/cluster": "one", "ray.io/node-type": "worker"}}),
            ),
            of_kuberay(
                &owner,
                "one-serve-svc",
                json!({"ray.io/serve": "one-serve"}),
                json!({"type": "NodePort", "ports": [{"name": "serve", "port": 8000}], "selector": {"ray.io/cluster": "one"}}),
            ),
        ] {
            objects::create(bench.client(), &bench.namespace, &service).await.expect("to create");
        }
        let before = bench.until("all three are there", |now| now.all("Service").len() == 3).await;
        let specs = |now: &Now| -> Vec<Value> { now.all("Service").iter().map(|s| s["spec"].clone()).collect() };
        let operator = bench.operator().await;
        let now = bench.until("it is Ready", |now| now.is_ready("one")).await;
        bench.settle().await;
        assert_eq!(
            specs(&now),
            specs(&before),
            "nothing changes under traffic, and no second Service is open to people"
        );
        for service in [INSIDE, "one-headless", "one-serve-svc"] {
            assert!(annotations(&now, service)["ray.io/applied-hash"].is_string(), "{service} is marked");
            assert_eq!(now.get("Service", service).expect("it")["metadata"]["labels"]["ray.io/cluster"], "one");
        }
        assert_eq!(operator.proxy().count("patch", "services"), 3);
        assert!(now.events("UpdatedService").is_empty(), "nothing to tell");

        // Another start finds them by their label.
        drop(operator);
        let second = bench.operator().await;
        bench.settle().await;
        assert_eq!(second.proxy().count("create", "services"), 0);

        let ports = json!([{"containerPort": 8265, "name": "dashboard"}, {"containerPort": 8888, "name": "more"}]);
        let mut template = object["spec"]["headGroupSpec"]["template"].clone();
        template["spec"]["containers"][0]["ports"] = ports;
        bench.edit("one", json!({"spec": {"headGroupSpec": {"template": template}}})).await;
        let has = |now: &Now, number: i32| {
            let ports =
                now.get("Service", INSIDE).expect("it")["spec"]["ports"].as_array().cloned().unwrap_or_default();
            ports.iter().any(|p| p["port"] == number)
        };
        let now = bench.until("it follows the spec", |now| has(now, 8888)).await;
        assert!(!has(&now, 7777));
        assert_eq!(now.get("Service", INSIDE).expect("it")["spec"]["type"], "NodePort", "never narrowed");
        assert_eq!(uid(&now, INSIDE), uid(&before, INSIDE));
    });
}

#[test]
fn services_for_workers_come_and_go() {
    run(async {
        let bench = Bench::new("services-workers").await;
        let operator = bench.operator().await;
        let mut object = cluster("one", &[("w", 1)]);
        object["spec"]["workerGroupSpecs"][0]["numOfHosts"] = json!(2);
        object["metadata"]["annotations"] = json!({"ray.io/enable-serve-service": "true"});
        bench.ready_cluster(&object, 3).await;
        let both = |now: &Now| ["one-headless", "one-serve-svc"].map(|s| now.get("Service", s).is_some());
        bench.until("both are there", |now| both(now) == [true, true]).await;

        bench.edit("one", json!({"metadata": {"annotations": {"ray.io/enable-serve-service": null}}})).await;
        bench.until("Serve's goes", |now| both(now) == [true, false]).await;
        let single = cluster("one", &[("w", 1)])["spec"]["workerGroupSpecs"].clone();
        bench.edit("one", json!({"spec": {"workerGroupSpecs": single}})).await;
        bench.until("the hosts' goes", |now| both(now) == [false, false]).await;
        bench.until("the cluster is whole", |now| now.is_ready("one")).await;
        bench.settle().await;
        assert_eq!(operator.proxy().count("delete", "services"), 2);
    });
}

#[test]
fn a_renamed_head_service_stays_until_no_worker_uses_it() {
    run(async {
        let bench = Bench::new("services-renamed").await;
        let _operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 1)]), 2).await;
        bench.edit("one", json!({"spec": {"headGroupSpec": {"headService": {"metadata": {"name": "mine"}}}}})).await;
        bench.until("the new one is there", |now| now.get("Service", "mine").is_some()).await;
        bench.settle().await;
        let now = bench.record.now();
        assert!(now.get("Service", INSIDE).is_some(), "the worker holds this address");
        let worker = now.workers("one")[0]["metadata"]["name"].as_str().expect("a name").to_owned();
        objects::delete(&bench.pods(), &worker).await;
        let gone = |now: &Now| now.get("Service", INSIDE).is_none() && now.workers("one").len() == 1;
        let now = bench.until("the old one goes with the last worker that used it", gone).await;
        let env = now.workers("one")[0]["spec"]["containers"][0]["env"].as_array().expect("an environment").clone();
        assert!(env.iter().any(|e| e["name"] == "RAY_IP" && e["value"] == "mine"));
    });
}

//! An Ingress comes, follows the spec and goes, and keeps what others wrote on it.

use serde_json::{Value, json};

use crate::bench::record::Now;
use crate::bench::{Bench, cluster, objects, run};

const NAME: &str = "one-head-ingress";

fn with_ingress() -> Value {
    let mut object = cluster("one", &[("w", 1)]);
    object["metadata"]["annotations"] = json!({"a.test/x": "1", "kubernetes.io/ingress.class": "none.test"});
    object["spec"]["headGroupSpec"]["enableIngress"] = json!(true);
    object["spec"]["headGroupSpec"]["ingressOptions"] = json!({"host": "a.test", "tls": [{"hosts": ["a.test"]}]});
    object
}

fn annotations(now: &Now) -> Value {
    now.get("Ingress", NAME).map(|i| i["metadata"]["annotations"].clone()).unwrap_or_default()
}

#[test]
fn it_comes_follows_the_spec_and_goes() {
    run(async {
        let bench = Bench::new("ingress").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&with_ingress(), 2).await;
        let now = bench.until("it is there", |now| now.get("Ingress", NAME).is_some()).await;
        let made = now.get("Ingress", NAME).expect("it");
        assert_eq!(made["spec"]["ingressClassName"], "none.test");
        assert_eq!(annotations(&now)["a.test/x"], "1");
        let api = objects::kind(bench.client(), &bench.namespace, "networking.k8s.io/v1", "Ingress");
        objects::edit(&api, NAME, &json!({"metadata": {"annotations": {"theirs.test/z": "1"}}})).await;
        bench.settle().await;
        assert_eq!(operator.proxy().count("patch", "ingresses"), 0, "an annotation of others is no difference");

        let change = json!({
            "metadata": {"annotations": {"a.test/x": null}},
            "spec": {"headGroupSpec": {"ingressOptions": {"host": "b.test", "tls": null}}},
        });
        bench.edit("one", change).await;
        let now = bench
            .until("it follows", |now| {
                now.get("Ingress", NAME).is_some_and(|i| i["spec"]["rules"][0]["host"] == "b.test")
                    && annotations(now)["a.test/x"].is_null()
            })
            .await;
        assert!(now.get("Ingress", NAME).expect("it")["spec"]["tls"].is_null());
        assert_eq!(annotations(&now)["theirs.test/z"], "1");

        bench.edit("one", json!({"spec": {"headGroupSpec": {"enableIngress": false}}})).await;
        bench.until("it goes", |now| now.get("Ingress", NAME).is_none()).await;
        bench.until("and it is told", |now| now.events("DeletedIngress").len() == 1).await;
        bench.settle().await;
        assert_eq!(bench.record.now().uids("one"), now.uids("one"), "no pod is touched");
    });
}

#[test]
fn one_of_somebody_else_is_left_alone_and_the_cluster_runs() {
    run(async {
        let bench = Bench::new("ingress-taken").await;
        let operator = bench.operator().await;
        let theirs = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
            "metadata": {"name": NAME, "labels": {"ray.io/cluster": "one"}},
            "spec": {"defaultBackend": {"service": {"name": "mine", "port": {"number": 80}}}},
        });
        let theirs = bench.apply(&theirs).await;
        bench.ready_cluster(&with_ingress(), 2).await;
        let now = bench.until("it is told", |now| !now.events("FailedToCreateIngress").is_empty()).await;
        assert!(now.events("FailedToCreateIngress")[0].contains("belongs to somebody else"));
        assert_eq!(now.events("FailedToCreateIngress").len(), 1);
        assert_eq!(now.get("Ingress", NAME).expect("theirs")["spec"], theirs["spec"]);
        assert!(bench.record.now().is_ready("one"), "people are kept out, and Ray runs");
        let touched = operator.proxy().writes().into_iter().filter(|c| c.is("patch", "ingresses")).count();
        assert_eq!(touched, 0);
        let api = objects::kind(bench.client(), &bench.namespace, "networking.k8s.io/v1", "Ingress");
        objects::delete(&api, NAME).await;
        bench
            .until("ours comes once the name is free", |now| annotations(now)["ray.io/applied-hash"].is_string())
            .await;
    });
}

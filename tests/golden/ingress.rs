//! The way in for people: Ingress and Route.

use crate::common::{cluster, config, snapshot};
use ray_operator::api::names::check_route_name;
use ray_operator::plan::build::dashboard_entry;
use ray_operator::plan::config::PlanConfig;
use serde_json::{Value, json};

const GIVEN: &str = "
metadata:
  name: c
  annotations:
    kubernetes.io/ingress.class: nginx
    kubectl.kubernetes.io/last-applied-configuration: '{}'
    nginx.ingress.kubernetes.io/rewrite-target: /$1
spec:
  headGroupSpec:
    enableIngress: true
    ingressOptions: {host: ray.test, path: /(.*), pathType: Exact, tls: [{hosts: [ray.test], secretName: cert}]}
    template: {spec: {containers: [{name: ray, ports: [{name: dashboard, containerPort: 8266}]}]}}
";
const PLAIN: &str = "
metadata: {name: c}
spec:
  headGroupSpec:
    enableIngress: true
    headService: {metadata: {name: my-head}}
    template: {spec: {containers: [{name: ray}]}}
";

fn made(text: &str, config: &PlanConfig) -> Option<Value> {
    dashboard_entry(&cluster(text), config).map(|m| m.value)
}

#[test]
fn an_ingress_to_the_dashboard() {
    snapshot("ingress", GIVEN, &json!(made(GIVEN, &config())));
    let plain = made(PLAIN, &config()).unwrap();
    let backend = json!({"service": {"name": "my-head", "port": {"number": 8265}}});
    let rules = json!([{"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}]);
    assert_eq!(plain["spec"], json!({"rules": rules, "tls": null}), "no class: the cluster's default stays");
    assert!(made(&PLAIN.replace("enableIngress: true", "enableIngress: false"), &config()).is_none());
}

#[test]
fn a_route_on_openshift() {
    let openshift = PlanConfig { openshift: true, ..config() };
    snapshot("route", GIVEN, &json!(made(GIVEN, &openshift)));
    let ingress = PlanConfig { ingress_on_openshift: true, ..openshift };
    assert_eq!(made(GIVEN, &ingress), made(GIVEN, &config()));
}

#[test]
fn long_names_are_clipped_as_kuberay_clips_them() {
    let long = "a23456789-b23456789-c23456789-d23456789-e23456789-f23";
    let name = |config: &PlanConfig| {
        made(&PLAIN.replace("name: c}", &format!("name: {long}}}")), config).unwrap()["metadata"]["name"].clone()
    };
    assert_eq!(name(&config()), "r89-c23456789-d23456789-e23456789-f23-head-ingress");
    assert_eq!(name(&PlanConfig { openshift: true, ..config() }), "a23456789-b23456789-c23456789-d23456789-e23456789");
    assert_eq!(check_route_name("short-head-route", "ns"), "short-head-route");
    assert_eq!(check_route_name("short-head-route", &"n".repeat(63)), "short-he");
}

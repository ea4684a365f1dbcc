//! Shared by the golden tests of what is made of a RayCluster: the cluster stands at the top of each snapshot, what comes
//! of it below.

// Each test binary uses its own part of this.
#![allow(dead_code)]

use ray_operator::api::RayCluster;
use ray_operator::plan::build::{self, Built, Identity};
use ray_operator::plan::config::PlanConfig;
use serde_json::{Value, json};

pub fn cluster(text: &str) -> RayCluster {
    let mut cluster: RayCluster = serde_saphyr::from_str(text).unwrap();
    cluster.metadata.namespace = Some("ns".to_owned());
    cluster.metadata.uid = Some("6f1c".to_owned());
    cluster
}

/// Settings whose version does not change with ours.
pub fn config() -> PlanConfig {
    PlanConfig { version: "ray-operator/test".to_owned(), ..PlanConfig::default() }
}

pub fn head(cluster: &RayCluster) -> Value {
    head_with(cluster, &config())
}

pub fn head_with(cluster: &RayCluster, config: &PlanConfig) -> Value {
    value(build::head_pod(cluster, Identity::default(), config))
}

pub fn worker(cluster: &RayCluster, identity: Identity) -> Value {
    value(build::worker_pod(cluster, &cluster.spec.groups()[0], identity, &config()))
}

pub fn first_worker(cluster: &RayCluster) -> Value {
    worker(cluster, Identity::default())
}

/// The pod, with the remarks beside it when there are any.
pub fn value(built: Built) -> Value {
    let mut pod = json!(built.pod);
    // They change with every field that a type gains.
    for mark in ["ray.io/template-parts", "ray.io/upgrade-strategy-recreate-hash"] {
        assert!(pod["metadata"]["annotations"][mark].as_str().is_some_and(|m| !m.is_empty()));
        pod["metadata"]["annotations"][mark] = json!("(by the spec)");
    }
    let remarks: Vec<String> = built.remarks.iter().map(build::Remark::text).collect();
    if !remarks.is_empty() {
        pod["remarks"] = json!(remarks);
    }
    pod
}

pub fn ray(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]
}

/// `NAME=value` or `NAME <- where from`, in order.
pub fn env(container: &Value) -> Vec<String> {
    let line = |e: &Value| {
        let name = e["name"].as_str().unwrap();
        match e["value"].as_str() {
            Some(value) => format!("{name}={value}"),
            None => format!("{name} <- {}", e["valueFrom"]),
        }
    };
    container["env"].as_array().into_iter().flatten().map(line).collect()
}

pub fn args(pod: &Value) -> &Value {
    &ray(pod)["args"]
}

pub fn snapshot(name: &str, given: &str, made: &Value) {
    let given: Value = serde_saphyr::from_str(given).unwrap();
    insta::with_settings!({ info => &given, omit_expression => true, prepend_module_to_snapshot => false, snapshot_path => "snapshots" }, {
        insta::assert_yaml_snapshot!(name, made);
    });
}

pub const MINIMAL: &str = "
metadata: {name: mini}
spec:
  headGroupSpec:
    template: {spec: {containers: [{name: ray, image: 'rayproject/ray:2.52.0'}]}}
  workerGroupSpecs:
  - groupName: w
    template: {spec: {containers: [{name: ray, image: 'rayproject/ray:2.52.0'}]}}
";

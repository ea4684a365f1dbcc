//! The container that keeps a cluster's history.

use crate::common::{cluster, env, first_worker, head, ray, snapshot};
use serde_json::{Value, json};

const GIVEN: &str = "
metadata: {name: kept, labels: {ray.io/originated-from-crd: RayJob, ray.io/originated-from-cr-name: nightly}}
spec:
  historyServerOptions:
    collectorOptions:
      image: registry.test/collector:1
      env: [{name: STORAGE_BACKEND, value: S3}, {name: S3_REGION, value: eu}]
  headGroupSpec:
    rayStartParams: {dashboard-port: '8266'}
    template: {spec: {containers: [{name: ray, image: 'rayproject/ray:2.52.0'}]}}
  workerGroupSpecs:
  - groupName: w
    template: {spec: {containers: [{name: ray, image: 'rayproject/ray:2.52.0'}, {name: own, image: side}]}}
";

fn of_pod(pod: &Value) -> Value {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let collector = containers.iter().find(|c| c["name"] == "ray-history-collector").expect("a collector");
    let names: Vec<&Value> = containers.iter().map(|c| &c["name"]).collect();
    json!({
        "containers": names, "collector": collector, "volumes": pod["spec"]["volumes"],
        "mounts of Ray": ray(pod)["volumeMounts"],
        "environment of Ray": env(ray(pod)).iter().rev().take(5).rev().collect::<Vec<_>>(),
    })
}

#[test]
fn beside_the_head() {
    snapshot("collector_head", GIVEN, &of_pod(&head(&cluster(GIVEN))));
}

#[test]
fn beside_every_worker() {
    snapshot("collector_worker", GIVEN, &of_pod(&first_worker(&cluster(GIVEN))));
}

#[test]
fn what_the_user_says_wins() {
    let given = "
metadata: {name: kept}
spec:
  enableInTreeAutoscaling: true
  historyServerOptions:
    collectorOptions:
      image: registry.test/collector:1
      imagePullPolicy: Always
      resources: {requests: {cpu: 10m}}
      env: [{name: STORAGE_BACKEND, value: local}, {name: RAY_DASHBOARD_ADDRESS, value: 'http://elsewhere:1'}]
  headGroupSpec:
    template: {spec: {containers: [{name: ray, env: [{name: RAY_enable_ray_event, value: 'false'}]}]}}
";
    let made = of_pod(&head(&cluster(given)));
    let collector = &made["collector"];
    assert_eq!(made["containers"], json!(["ray", "autoscaler", "ray-history-collector"]));
    assert_eq!(collector["imagePullPolicy"], "Always");
    assert_eq!(collector["resources"], json!({"requests": {"cpu": "10m"}}));
    let variables = env(collector);
    assert!(variables.contains(&"RAY_DASHBOARD_ADDRESS=http://elsewhere:1".to_owned()), "{variables:?}");
    assert!(variables.iter().all(|v| !v.starts_with("OWNER_")), "nobody made the cluster: {variables:?}");
    assert!(env(ray(&head(&cluster(given)))).contains(&"RAY_enable_ray_event=false".to_owned()));
}

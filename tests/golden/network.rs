//! Network policies of a cluster.

use crate::common::{cluster, config, snapshot};
use ray_operator::plan::build::network_policies;
use ray_operator::plan::config::{OperatorPods, PlanConfig};
use serde_json::{Value, json};

const GIVEN: &str = "
metadata: {name: c}
spec:
  rayVersion: 2.55.0
  enableInTreeAutoscaling: true
  networkPolicy:
    head:
      ingressRules: [{from: [{podSelector: {matchLabels: {app: client}}}], ports: [{port: 10001}]}]
      egressRules: [{to: [{ipBlock: {cidr: 10.1.0.0/16}}]}]
    worker:
      ingressRules: [{ports: [{port: 8080}]}]
    workerGroups:
    - groupName: gpu
      egressRules: [{ports: [{protocol: TCP, port: 5432}]}]
  headGroupSpec: {rayStartParams: {dashboard-port: '8266'}, template: {spec: {containers: [{name: ray}]}}}
  workerGroupSpecs:
  - groupName: cpu
    template: {spec: {containers: [{name: ray}]}}
  - groupName: gpu
    template: {spec: {containers: [{name: ray}]}}
";

fn in_a_pod() -> PlanConfig {
    let operator = OperatorPods { namespace: "ray-system".to_owned(), app_name: "kuberay-operator".to_owned() };
    PlanConfig { operator_pods: Some(operator), ..config() }
}

fn specs(text: &str, config: &PlanConfig) -> Vec<Value> {
    network_policies(&cluster(text), config).into_iter().map(|p| p.value["spec"].clone()).collect()
}

#[test]
fn head_and_workers() {
    let all = network_policies(&cluster(GIVEN), &in_a_pod());
    let all: Vec<Value> = all.into_iter().map(|p| p.value).collect();
    snapshot("network_policies", GIVEN, &json!(all));
}

#[test]
fn a_mode_leaves_one_side_open() {
    let plain = GIVEN.split("    head:").next().unwrap().to_owned()
        + "    mode: M\n  headGroupSpec"
        + GIVEN.split("  headGroupSpec").nth(1).unwrap();
    for (mode, types, open) in
        [("DenyAllIngress", json!(["Ingress"]), "egress"), ("DenyAllEgress", json!(["Egress"]), "ingress")]
    {
        let made = specs(&plain.replace("mode: M", &format!("mode: {mode}")), &in_a_pod());
        assert_eq!(made.len(), 3);
        for spec in made {
            assert_eq!((&spec["policyTypes"], &spec[open]), (&types, &Value::Null));
            assert_eq!(spec.as_object().unwrap().len(), 4, "null takes it out of what is there: {spec}");
        }
    }
}

#[test]
fn only_those_who_ask_it_reach_the_api_server() {
    let asks = |spec: &Value| spec["egress"].as_array().unwrap().iter().any(|r| r["ports"][0]["port"] == 443);
    let which = |text: &str| -> Vec<bool> { specs(text, &config()).iter().map(asks).collect() };
    assert_eq!(which(GIVEN), [true, false, false], "the head, for the autoscaler");
    let off = GIVEN.replace("enableInTreeAutoscaling: true", "enableInTreeAutoscaling: false");
    assert_eq!(which(&off), [false; 3]);
    let login =
        off.replace("  networkPolicy:", "  authOptions: {mode: token, enableK8sTokenAuth: true}\n  networkPolicy:");
    assert_eq!(which(&login), [true; 3], "everybody, to learn whose a token is");
}

#[test]
fn the_dashboard_is_for_the_operator_and_a_jobs_submitter() {
    let visitors = |text: &str, config: &PlanConfig| -> Vec<Value> {
        let rules = specs(text, config).remove(0)["ingress"].as_array().unwrap().clone();
        let at_dashboard = |r: &&Value| r["ports"] == json!([{"protocol": "TCP", "port": 8266}]);
        rules.iter().filter(at_dashboard).flat_map(|r| r["from"].as_array().unwrap().clone()).collect()
    };
    assert_eq!(visitors(GIVEN, &config()), Vec::<Value>::new());
    let operator = json!({
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ray-system"}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": "kuberay-operator"}},
    });
    assert_eq!(visitors(GIVEN, &in_a_pod()), [operator]);
    let owned = "metadata:\n  name: c\n  labels: {ray.io/job-submission-mode: K8sJobMode}\n  ownerReferences: [{apiVersion: ray.io/v1, kind: RayJob, name: job, uid: j, controller: true}]";
    let of_job = GIVEN.replace("metadata: {name: c}", owned);
    let submitter = json!({"podSelector": {"matchLabels": {
        "ray.io/originated-from-cr-name": "job", "ray.io/originated-from-crd": "RayJob",
    }}});
    assert_eq!(visitors(&of_job, &config()), [submitter]);
    for other in [of_job.replace("K8sJobMode", "HTTPMode"), of_job.replace("kind: RayJob", "kind: RayService")] {
        assert_eq!(visitors(&other, &config()), Vec::<Value>::new());
    }
}

#[test]
fn dns_of_openshift_listens_elsewhere() {
    let openshift = PlanConfig { openshift: true, ..config() };
    let ports = specs(GIVEN, &openshift)[1]["egress"][1]["ports"].clone();
    let port = |protocol: &str, port: i32| json!({"protocol": protocol, "port": port});
    assert_eq!(ports, json!([port("UDP", 53), port("UDP", 5353), port("TCP", 53), port("TCP", 5353)]));
}

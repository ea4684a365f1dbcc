//! Who may reach the pods of a cluster, and whom they may reach (`networkPolicy`).
//!
//! One policy for the head, one for each worker group. Beside the user's rules they hold what a Ray cluster cannot do
//! without: its own pods, cluster DNS, the operator at the dashboard, a RayJob's submitter there, and the API server for
//! those pods that ask it.

use serde_json::{Value, json};

use super::address::head_port;
use super::child::{child, child_labels};
use super::{autoscaler, login};
use crate::api::RayCluster;
use crate::api::children::Kind;
use crate::api::names::{HEAD_GROUP, PORT_DASHBOARD, labels};
use crate::api::raycluster::{NetworkPolicyOptions, WorkerGroupSpec};
use crate::plan::Manifest;
use crate::plan::config::PlanConfig;

/// By which every namespace can be told (Kubernetes sets it).
const NAMESPACE: &str = "kubernetes.io/metadata.name";
const JOB_SUBMISSION_MODE: &str = "ray.io/job-submission-mode";
/// Where API servers listen: behind the Service `kubernetes` most CNIs see the server's own port.
const API_SERVER_PORTS: [i32; 2] = [443, 6443];

/// The policies that the spec asks for, the head's first.
pub fn network_policies(cluster: &RayCluster, config: &PlanConfig) -> Vec<Manifest> {
    let Some(options) = &cluster.spec.network_policy else { return Vec::new() };
    let workers = cluster.spec.groups().iter().map(|group| worker_policy(cluster, options, group, config));
    std::iter::once(head_policy(cluster, options, config)).chain(workers).collect()
}

fn head_policy(cluster: &RayCluster, options: &NetworkPolicyOptions, config: &PlanConfig) -> Manifest {
    let mut ingress = vec![own_pods(cluster, "from")];
    let dashboard = head_port(cluster, "dashboard-port", PORT_DASHBOARD);
    let mut visitors = Vec::new();
    if let Some(operator) = &config.operator_pods {
        visitors.push(json!({
            "namespaceSelector": matching(&[(NAMESPACE, &operator.namespace)]),
            "podSelector": matching(&[(labels::APP_NAME, &operator.app_name)]),
        }));
    }
    if let Some(job) = submitting_job(cluster) {
        let submitter = [(labels::ORIGINATED_FROM_CR_NAME, job), (labels::ORIGINATED_FROM_CRD, "RayJob")];
        visitors.push(json!({"podSelector": matching(&submitter)}));
    }
    if !visitors.is_empty() {
        ingress.push(json!({"from": visitors, "ports": ports("TCP", &[dashboard])}));
    }
    let mut egress = vec![own_pods(cluster, "to"), dns(config)];
    if autoscaler::is_on(cluster) || login::asks_kubernetes(cluster) {
        egress.push(api_server());
    }
    let rules = options.head.as_ref();
    ingress.extend(rules.iter().flat_map(|r| r.ingress_rules.iter().flatten()).map(|r| json!(r)));
    egress.extend(rules.iter().flat_map(|r| r.egress_rules.iter().flatten()).map(|r| json!(r)));
    let name = format!("{}-head", cluster_name(cluster));
    let selected = [(labels::CLUSTER, cluster_name(cluster)), (labels::NODE_TYPE, "head")];
    policy(cluster, options, name, HEAD_GROUP, &selected, ingress, egress)
}

fn worker_policy(
    cluster: &RayCluster,
    options: &NetworkPolicyOptions,
    group: &WorkerGroupSpec,
    config: &PlanConfig,
) -> Manifest {
    let mut ingress = vec![own_pods(cluster, "from")];
    let mut egress = vec![own_pods(cluster, "to"), dns(config)];
    if login::asks_kubernetes(cluster) {
        egress.push(api_server());
    }
    // Rules for the group stand in place of those for all workers (KubeRay behaviour).
    let own = options.worker_groups.iter().flatten().find(|g| g.group_name == group.group_name);
    let (ingress_rules, egress_rules) = match own {
        Some(own) => (own.ingress_rules.as_ref(), own.egress_rules.as_ref()),
        None => {
            let all = options.worker.as_ref();
            (all.and_then(|r| r.ingress_rules.as_ref()), all.and_then(|r| r.egress_rules.as_ref()))
        }
    };
    ingress.extend(ingress_rules.into_iter().flatten().map(|r| json!(r)));
    egress.extend(egress_rules.into_iter().flatten().map(|r| json!(r)));
    let name = format!("{}-workers-{}", cluster_name(cluster), group.group_name);
    let selected = [
        (labels::CLUSTER, cluster_name(cluster)),
        (labels::NODE_TYPE, "worker"),
        (labels::GROUP, group.group_name.as_str()),
    ];
    policy(cluster, options, name, &group.group_name, &selected, ingress, egress)
}

/// What `mode` leaves open is written as null, so that an update takes it out.
fn policy(
    cluster: &RayCluster,
    options: &NetworkPolicyOptions,
    name: String,
    group: &str,
    selected: &[(&str, &str)],
    ingress: Vec<Value>,
    egress: Vec<Value>,
) -> Manifest {
    let mode = options.mode.as_deref().unwrap_or_default();
    let (ingress_too, egress_too) = (mode != "DenyAllEgress", mode != "DenyAllIngress");
    let types = [("Ingress", ingress_too), ("Egress", egress_too)];
    let types: Vec<&str> = types.into_iter().filter_map(|(type_, denied)| denied.then_some(type_)).collect();
    let spec = json!({
        "podSelector": matching(selected),
        "policyTypes": types,
        "ingress": ingress_too.then_some(ingress),
        "egress": egress_too.then_some(egress),
    });
    let mut all_labels = child_labels(cluster);
    all_labels.insert(labels::GROUP.to_owned(), group.to_owned());
    child(cluster, Kind::NetworkPolicy, name, all_labels, Default::default(), json!({ "spec": spec }))
}

fn cluster_name(cluster: &RayCluster) -> &str {
    cluster.metadata.name.as_deref().unwrap_or_default()
}

/// Ray's processes use many ports, some of them chosen at start.
fn own_pods(cluster: &RayCluster, side: &str) -> Value {
    json!({side: [{"podSelector": matching(&[(labels::CLUSTER, cluster_name(cluster))])}]})
}

/// To anywhere: DNS may be pods, a cache on the node or a process beside the cluster. OpenShift's pods listen on 5353.
fn dns(config: &PlanConfig) -> Value {
    let numbers: &[i32] = if config.openshift { &[53, 5353] } else { &[53] };
    let both = [ports("UDP", numbers), ports("TCP", numbers)].concat();
    json!({ "ports": both })
}

/// To anywhere, at the ports of API servers: no selector finds a server that is not a pod, and addresses change.
fn api_server() -> Value {
    json!({"ports": ports("TCP", &API_SERVER_PORTS)})
}

fn ports(protocol: &str, numbers: &[i32]) -> Vec<Value> {
    numbers.iter().map(|number| json!({"protocol": protocol, "port": number})).collect()
}

fn matching(pairs: &[(&str, &str)]) -> Value {
    let all: serde_json::Map<String, Value> =
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).into())).collect();
    json!({"matchLabels": all})
}

/// The RayJob whose submitter pod must reach the dashboard (submission mode K8sJobMode).
fn submitting_job(cluster: &RayCluster) -> Option<&str> {
    let mode = cluster.metadata.labels.as_ref()?.get(JOB_SUBMISSION_MODE)?;
    let owners = cluster.metadata.owner_references.as_deref().unwrap_or_default();
    let job = owners
        .iter()
        .find(|o| o.controller == Some(true) && o.kind == "RayJob" && o.api_version.starts_with("ray.io/"))?;
    (mode == "K8sJobMode").then_some(&job.name)
}

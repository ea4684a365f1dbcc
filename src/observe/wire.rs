//! Pods and Services as they come from the API server, decoded slim: what no view keeps is skipped while reading, and
//! a field of an unexpected shape never loses the object.

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;

use super::meta;
use super::seen::{ContainerState, ContainerView, PodCondition, PodView, ServicePortView, ServiceView, Terminated};
use super::seen::{Meta, uncontrolled};
use crate::api::names::labels;

/// A pod on its way to becoming a [`PodView`].
#[derive(kube::Resource, Clone, Debug, Deserialize)]
#[resource(inherit = Pod)]
pub struct PodWire {
    #[serde(deserialize_with = "super::meta::slim")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

/// A Service on its way to becoming a [`ServiceView`].
#[derive(kube::Resource, Clone, Debug, Deserialize)]
#[resource(inherit = Service)]
pub struct ServiceWire {
    pub metadata: ObjectMeta,
    #[serde(default)]
    spec: ServiceSpec,
    #[serde(default)]
    status: ServiceStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    containers: Vec<ContainerSpec>,
    node_name: Option<String>,
    restart_policy: String,
    service_account_name: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerSpec {
    name: String,
    env: Vec<Variable>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Variable {
    name: String,
    value: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodStatus {
    phase: String,
    reason: String,
    message: String,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    conditions: Vec<ConditionWire>,
    container_statuses: Vec<ContainerStatus>,
    init_container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ConditionWire {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    reason: String,
    message: String,
    last_transition_time: Option<Time>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    name: String,
    ready: bool,
    restart_count: i32,
    state: State,
    last_state: State,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct State {
    waiting: Option<Waiting>,
    running: Option<Running>,
    terminated: Option<End>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: String,
    message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Running {
    started_at: Option<Time>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct End {
    exit_code: i32,
    reason: String,
    message: String,
    finished_at: Option<Time>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceSpec {
    #[serde(rename = "type")]
    type_: String,
    #[serde(rename = "clusterIP")]
    cluster_ip: String,
    ports: Vec<Port>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Port {
    name: String,
    port: i32,
    target_port: Option<IntOrString>,
    node_port: Option<i32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceStatus {
    load_balancer: LoadBalancer,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LoadBalancer {
    ingress: Vec<Address>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    ip: String,
    hostname: String,
}

fn time(t: Option<Time>) -> Option<Timestamp> {
    t.map(|t| t.0)
}

impl From<PodWire> for PodView {
    fn from(wire: PodWire) -> Self {
        let mut conditions = wire.status.conditions;
        let mut take = |type_: &str| {
            let at = conditions.iter().position(|c| c.type_ == type_)?;
            let c = conditions.swap_remove(at);
            Some(PodCondition {
                status: c.status,
                reason: c.reason,
                message: c.message,
                since: time(c.last_transition_time),
            })
        };
        let ray = wire.spec.containers.into_iter().next().unwrap_or_default();
        let meta = pod_meta(wire.metadata);
        PodView {
            ready: take("Ready"),
            unscheduled: take("PodScheduled").filter(|c| c.status == "False"),
            service_account: wire.spec.service_account_name.filter(|_| meta.label(labels::NODE_TYPE) == "head"),
            meta,
            node: wire.spec.node_name.filter(|n| !n.is_empty()),
            restart_policy: wire.spec.restart_policy,
            ray_container: ray.name,
            head_service: ray.env.into_iter().find(|v| v.name == "RAY_IP").and_then(|v| v.value),
            phase: wire.status.phase,
            reason: wire.status.reason,
            message: wire.status.message,
            ip: wire.status.pod_ip.filter(|ip| !ip.is_empty()),
            init_containers: wire.status.init_container_statuses.into_iter().map(container).collect(),
            containers: wire.status.container_statuses.into_iter().map(container).collect(),
        }
    }
}

/// A head pod that nobody controls is found by every head Service of its cluster's name (`--cascade=orphan` leaves
/// such): it counts as one of an earlier cluster.
fn pod_meta(meta: ObjectMeta) -> Meta {
    let free = meta::is_uncontrolled(&meta);
    let mut view = meta::view(meta);
    if free && view.label(labels::NODE_TYPE) == "head" && !view.label(labels::CLUSTER).is_empty() {
        view.owner_name = view.label(labels::CLUSTER).to_owned();
        view.owner_uid = uncontrolled(&view.namespace, &view.owner_name);
    }
    view
}

fn container(status: ContainerStatus) -> ContainerView {
    let state = match status.state {
        State { terminated: Some(end), .. } => ContainerState::Terminated(ended(end)),
        State { running: Some(run), .. } => ContainerState::Running { since: time(run.started_at) },
        State { waiting: Some(wait), .. } => ContainerState::Waiting { reason: wait.reason, message: wait.message },
        _ => ContainerState::Unknown,
    };
    ContainerView {
        name: status.name,
        ready: status.ready,
        restarts: status.restart_count,
        state,
        last_end: status.last_state.terminated.map(ended),
    }
}

fn ended(end: End) -> Terminated {
    Terminated { exit_code: end.exit_code, reason: end.reason, message: end.message, finished: time(end.finished_at) }
}

impl From<ServiceWire> for ServiceView {
    fn from(wire: ServiceWire) -> Self {
        let written = meta::written(wire.metadata.managed_fields.as_ref());
        ServiceView {
            meta: meta::view(wire.metadata),
            written,
            type_: wire.spec.type_,
            cluster_ip: Some(wire.spec.cluster_ip).filter(|ip| !ip.is_empty() && ip != "None"),
            ports: wire.spec.ports.into_iter().map(port).collect(),
            load_balancer: wire
                .status
                .load_balancer
                .ingress
                .into_iter()
                .map(|a| if a.ip.is_empty() { a.hostname } else { a.ip })
                .filter(|a| !a.is_empty())
                .collect(),
        }
    }
}

fn port(port: Port) -> ServicePortView {
    let target_port = match port.target_port {
        Some(IntOrString::Int(n)) if n != 0 => n.to_string(),
        Some(IntOrString::String(name)) if !name.is_empty() => name,
        _ => port.port.to_string(),
    };
    ServicePortView { name: port.name, port: port.port, target_port, node_port: port.node_port }
}

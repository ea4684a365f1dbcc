//! The container beside Ray that keeps a cluster's history: it collects logs and events and stores them elsewhere.

use k8s_openapi::api::core::v1::{Container, EnvVar, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::Group;
use super::address::{HeadAddress, head_port};
use super::env::{field, literal, set, set_default};
use super::login;
use crate::api::RayCluster;
use crate::api::names::{self, labels};
use crate::api::raycluster::CollectorOptions;

const NAME: &str = "ray-history-collector";
/// Where the collector takes events from Ray.
const EVENTS_PORT: &str = "8084";
/// The events that Ray sends it.
const EVENTS: &str = "TASK_DEFINITION_EVENT,TASK_LIFECYCLE_EVENT,ACTOR_TASK_DEFINITION_EVENT,TASK_PROFILE_EVENT,\
                      DRIVER_JOB_DEFINITION_EVENT,DRIVER_JOB_LIFECYCLE_EVENT,ACTOR_DEFINITION_EVENT,\
                      ACTOR_LIFECYCLE_EVENT,NODE_DEFINITION_EVENT,NODE_LIFECYCLE_EVENT";

fn options(cluster: &RayCluster) -> Option<&CollectorOptions> {
    cluster.spec.history_server_options.as_ref()?.collector_options.as_ref()
}

/// The container, when the cluster has a collector.
pub(crate) fn container(group: Group, address: &HeadAddress) -> Option<Container> {
    let options = options(group.cluster)?;
    let amounts = |cpu: &str, memory: &str| {
        Some([("cpu", cpu), ("memory", memory)].map(|(k, v)| (k.to_owned(), Quantity(v.to_owned()))).into())
    };
    let resources = ResourceRequirements {
        limits: amounts("200m", "256Mi"),
        requests: amounts("50m", "64Mi"),
        ..ResourceRequirements::default()
    };
    let mut container = Container {
        name: NAME.to_owned(),
        image: options.image.clone(),
        image_pull_policy: options.image_pull_policy.clone().or_else(|| Some("IfNotPresent".to_owned())),
        resources: options.resources.clone().or(Some(resources)),
        env: Some(own_env(group, address)),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        ..Container::default()
    };
    for var in options.env.iter().flatten() {
        set(container.env.get_or_insert_default(), var.clone());
    }
    // It asks the dashboard, as Ray's own tools do.
    login::add(&mut container, group.cluster);
    Some(container)
}

fn own_env(group: Group, address: &HeadAddress) -> Vec<EnvVar> {
    let meta = &group.cluster.metadata;
    let mut env = vec![
        field("POD_IP", "status.podIP"),
        literal("RAY_CLUSTER_NAME", meta.name.as_deref().unwrap_or_default()),
        literal("RAY_CLUSTER_NAMESPACE", meta.namespace.as_deref().unwrap_or_default()),
        literal("RAY_ROLE", if group.is_head() { "Head" } else { "Worker" }),
        literal("EVENTS_PORT", EVENTS_PORT),
        literal("FQ_RAY_IP", &address.fqdn),
    ];
    let label = |key: &str| meta.labels.as_ref().and_then(|l| l.get(key)).filter(|v| !v.is_empty());
    for (name, key) in [("OWNER_KIND", labels::ORIGINATED_FROM_CRD), ("OWNER_NAME", labels::ORIGINATED_FROM_CR_NAME)] {
        env.extend(label(key).map(|value| literal(name, value)));
    }
    if group.is_head() {
        let port = head_port(group.cluster, "dashboard-port", names::PORT_DASHBOARD);
        env.push(literal("RAY_DASHBOARD_ADDRESS", &format!("http://localhost:{port}")));
    }
    env
}

/// Makes Ray send its events to the collector, unless the user says otherwise.
pub(crate) fn on_ray_container(env: &mut Vec<EnvVar>, cluster: &RayCluster) {
    if options(cluster).is_none() {
        return;
    }
    set_default(env, literal("RAY_enable_ray_event", "true"));
    set_default(env, literal("RAY_enable_core_worker_ray_event_to_aggregator", "true"));
    let address = format!("http://localhost:{EVENTS_PORT}/v1/events");
    set_default(env, literal("RAY_DASHBOARD_AGGREGATOR_AGENT_EVENTS_EXPORT_ADDR", &address));
    // Ray 2.52 reads the first, later versions the second.
    set_default(env, literal("RAY_DASHBOARD_AGGREGATOR_AGENT_EXPOSABLE_EVENT_TYPES", EVENTS));
    set_default(env, literal("RAY_DASHBOARD_AGGREGATOR_AGENT_PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES", EVENTS));
}

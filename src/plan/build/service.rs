//! The Services through which the head is reached.
//!
//! `<cluster>-head-svc` is for Ray's own traffic and of type ClusterIP, whatever `serviceType` says: a load balancer in
//! front of the control store would carry every worker's traffic. `serviceType: NodePort` or `LoadBalancer` makes a
//! second one, `<cluster>-head-external`. Only the first carries the labels by which KubeRay's tools look the head
//! Service up, since they expect exactly one.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::address::HeadAddress;
use super::metadata::base_labels;
use super::owner;
use super::ports::{is_redirected, service_ports};
use crate::api::RayCluster;
use crate::api::names::{self, annotations, labels};
use crate::plan::config::PlanConfig;

/// Labels of the head pod that its Services select.
const SELECTED: [&str; 5] =
    [labels::CLUSTER, labels::NODE_TYPE, labels::IDENTIFIER, labels::APP_NAME, labels::CREATED_BY];

/// The Service inside the cluster, always of type ClusterIP. It is headless, and lists the head before it is ready,
/// unless the settings ask for an address, the user's own `headService` names one, or one of its ports leads to
/// another number of the pod (DNS cannot do that).
pub fn head_service(cluster: &RayCluster, config: &PlanConfig) -> Service {
    let custom = custom(cluster);
    let own = custom.spec.unwrap_or_default();
    let own_ports: Vec<ServicePort> =
        own.ports.iter().flatten().map(|p| ServicePort { node_port: None, ..p.clone() }).collect();
    let headless = match own.cluster_ip.as_deref().filter(|ip| !ip.is_empty()) {
        Some(ip) => ip == "None",
        None => !config.head_cluster_ip_service && !own_ports.iter().any(is_redirected),
    };
    let address = HeadAddress::of(cluster, config);
    let spec = ServiceSpec {
        type_: Some("ClusterIP".to_owned()),
        cluster_ip: if headless { Some("None".to_owned()) } else { own.cluster_ip },
        cluster_ips: own.cluster_ips,
        publish_not_ready_addresses: own.publish_not_ready_addresses.or(headless.then_some(true)),
        selector: Some(selector(cluster)),
        ports: Some(service_ports(cluster, &address, &own_ports, headless)),
        ip_families: own.ip_families,
        ip_family_policy: own.ip_family_policy,
        internal_traffic_policy: own.internal_traffic_policy,
        session_affinity: own.session_affinity,
        session_affinity_config: own.session_affinity_config,
        traffic_distribution: own.traffic_distribution,
        ..ServiceSpec::default()
    };
    let mut all_labels = custom.metadata.labels.unwrap_or_default();
    all_labels.extend(service_labels(cluster));
    // Annotations are for whoever serves people outside, where there is such a Service.
    let annotations = if is_external(cluster) { BTreeMap::new() } else { user_annotations(cluster) };
    service(cluster, address.service, all_labels, annotations, spec)
}

/// The Service for people outside the cluster, when `serviceType` or `headService.spec.type` is NodePort or
/// LoadBalancer.
pub fn head_external_service(cluster: &RayCluster, config: &PlanConfig) -> Option<Service> {
    let type_ = external_type(cluster)?;
    let custom = custom(cluster);
    let own = custom.spec.unwrap_or_default();
    let ports =
        service_ports(cluster, &HeadAddress::of(cluster, config), own.ports.as_deref().unwrap_or_default(), false);
    let spec = ServiceSpec {
        type_: Some(type_),
        selector: Some(selector(cluster)),
        ports: Some(ports),
        // Addresses of the user's Service belong to the one inside.
        cluster_ip: None,
        cluster_ips: None,
        ..own
    };
    let mut all_labels = custom.metadata.labels.unwrap_or_default();
    all_labels.extend(service_labels(cluster));
    all_labels.remove(labels::NODE_TYPE);
    all_labels.remove(labels::IDENTIFIER);
    let name = names::head_external_service_name(cluster.metadata.name.as_deref().unwrap_or_default());
    Some(service(cluster, name, all_labels, user_annotations(cluster), spec))
}

fn external_type(cluster: &RayCluster) -> Option<String> {
    let head = &cluster.spec.head_group_spec;
    let custom = head.head_service.as_ref().and_then(|s| s.spec.as_ref()?.type_.as_ref());
    let type_ = custom.filter(|t| !t.is_empty()).or(head.service_type.as_ref())?;
    matches!(type_.as_str(), "NodePort" | "LoadBalancer").then(|| type_.clone())
}

fn is_external(cluster: &RayCluster) -> bool {
    external_type(cluster).is_some()
}

fn custom(cluster: &RayCluster) -> Service {
    cluster.spec.head_group_spec.head_service.clone().unwrap_or_default()
}

/// `headServiceAnnotations` over those of `headService`.
fn user_annotations(cluster: &RayCluster) -> BTreeMap<String, String> {
    let mut all = custom(cluster).metadata.annotations.unwrap_or_default();
    all.extend(cluster.spec.head_service_annotations.clone().unwrap_or_default());
    all
}

/// The labels by which a head Service is found, `app.kubernetes.io/name` as the head's template has it.
fn service_labels(cluster: &RayCluster) -> BTreeMap<String, String> {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let mut all = base_labels(name, "head", names::HEAD_GROUP);
    let template = cluster.spec.head_group_spec.template.metadata.as_ref().and_then(|m| m.labels.as_ref());
    if let Some(app) = template.and_then(|l| l.get(labels::APP_NAME)) {
        all.insert(labels::APP_NAME.to_owned(), app.clone());
    }
    all.retain(|key, _| SELECTED.contains(&key.as_str()));
    all
}

/// What every head pod carries, whatever its template says: a changed template must not cut off the head that runs.
fn selector(cluster: &RayCluster) -> BTreeMap<String, String> {
    let name = cluster.metadata.name.clone().unwrap_or_default();
    [(labels::CLUSTER.to_owned(), name), (labels::NODE_TYPE.to_owned(), "head".to_owned())].into()
}

/// Stamps the object with a hash of itself, so that a later pass sees whether the wish has changed without comparing
/// what the API server filled in.
pub(super) fn service(
    cluster: &RayCluster,
    name: String,
    labels: BTreeMap<String, String>,
    user_annotations: BTreeMap<String, String>,
    spec: ServiceSpec,
) -> Service {
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: cluster.metadata.namespace.clone(),
        labels: Some(labels),
        annotations: Some(user_annotations),
        owner_references: Some(vec![owner(cluster)]),
        ..ObjectMeta::default()
    };
    let mut service = Service { metadata, spec: Some(spec), status: None };
    let hash = names::fnv1a(&serde_json::to_vec(&service).unwrap_or_default());
    let all = service.metadata.annotations.get_or_insert_default();
    all.insert(annotations::APPLIED_HASH.to_owned(), format!("{hash:016x}"));
    service
}

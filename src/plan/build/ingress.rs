//! The way in for people: an Ingress to the dashboard, or a Route on OpenShift.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::address::{HeadAddress, head_port};
use super::child::{child, child_labels};
use crate::api::RayCluster;
use crate::api::children::Kind;
use crate::api::names::{self, PORT_DASHBOARD, labels};
use crate::plan::Manifest;
use crate::plan::config::PlanConfig;

const CLASS: &str = "kubernetes.io/ingress.class";
/// `kubectl apply`'s own note about the RayCluster: on another object it would be a lie.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// What the spec asks for, if anything: an Ingress, or on OpenShift a Route.
pub fn dashboard_entry(cluster: &RayCluster, config: &PlanConfig) -> Option<Manifest> {
    let asked = cluster.spec.head_group_spec.enable_ingress == Some(true);
    asked.then(|| match config.openshift && !config.ingress_on_openshift {
        true => route(cluster, config),
        false => ingress(cluster, config),
    })
}

fn ingress(cluster: &RayCluster, config: &PlanConfig) -> Manifest {
    let options = cluster.spec.head_group_spec.ingress_options.clone().unwrap_or_default();
    let given = |text: Option<String>| text.filter(|t| !t.is_empty());
    let mut rule = json!({"http": {"paths": [{
        "path": given(options.path).unwrap_or_else(|| "/".to_owned()),
        "pathType": given(options.path_type).unwrap_or_else(|| "Prefix".to_owned()),
        "backend": {"service": {
            "name": HeadAddress::of(cluster, config).service,
            "port": {"number": dashboard_port(cluster)},
        }},
    }]}});
    if let Some(host) = given(options.host) {
        rule["host"] = host.into();
    }
    // Null takes out what an earlier spec asked for. A class that nobody asks for is the cluster's default, and stays.
    let mut spec = json!({"rules": [rule], "tls": options.tls});
    if let Some(class) = cluster.metadata.annotations.as_ref().and_then(|a| a.get(CLASS)) {
        spec["ingressClassName"] = class.as_str().into();
    }
    let name = names::check_name(&format!("{}-head-ingress", cluster_name(cluster)));
    entry(cluster, Kind::Ingress, name, spec)
}

fn route(cluster: &RayCluster, config: &PlanConfig) -> Manifest {
    let spec = json!({
        "to": {"kind": "Service", "name": HeadAddress::of(cluster, config).service, "weight": 100},
        "port": {"targetPort": dashboard_port(cluster)},
        "wildcardPolicy": "None",
    });
    let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
    let name = names::check_route_name(&format!("{}-head-route", cluster_name(cluster)), namespace);
    entry(cluster, Kind::Route, name, spec)
}

/// With the cluster's annotations: controllers of Ingresses are told by them what to do.
fn entry(cluster: &RayCluster, kind: Kind, name: String, spec: Value) -> Manifest {
    let mut all_labels = child_labels(cluster);
    let identifier = names::label_value(&format!("{}-head", cluster_name(cluster)));
    all_labels.insert(labels::IDENTIFIER.to_owned(), identifier);
    let mut annotations: BTreeMap<String, String> = cluster.metadata.annotations.clone().unwrap_or_default();
    annotations.retain(|key, _| key != CLASS && key != LAST_APPLIED);
    child(cluster, kind, name, all_labels, annotations, json!({ "spec": spec }))
}

/// The number of the head's port named `dashboard`, else where the dashboard listens.
fn dashboard_port(cluster: &RayCluster) -> i32 {
    let container = crate::api::raycluster::ray_container(&cluster.spec.head_group_spec.template);
    let named = container.iter().flat_map(|c| c.ports.iter().flatten());
    let named = named.filter(|p| p.name.as_deref() == Some("dashboard")).map(|p| p.container_port).next();
    named.unwrap_or_else(|| head_port(cluster, "dashboard-port", PORT_DASHBOARD))
}

fn cluster_name(cluster: &RayCluster) -> &str {
    cluster.metadata.name.as_deref().unwrap_or_default()
}

//! Which ports the Ray container and the head's Services have, and what they are called.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerPort, ServicePort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::address::{HeadAddress, head_port, port_number};
use super::start_params::effective;
use crate::api::RayCluster;
use crate::api::names::{PORT_CLIENT, PORT_DASHBOARD, PORT_GCS, PORT_METRICS, PORT_SERVE};
use crate::api::raycluster::ray_container;

const METRICS: &str = "metrics";
/// What runs where under Ray's defaults.
const WELL_KNOWN: [(&str, i32); 5] = [
    ("client", PORT_CLIENT),
    ("dashboard", PORT_DASHBOARD),
    ("gcs-server", PORT_GCS),
    (METRICS, PORT_METRICS),
    ("serve", PORT_SERVE),
];

/// Gives the Ray container the port named `metrics` that monitors look for (KubeRay's rule), at
/// `metrics-export-port`. Not when the number is in the list already: it belongs to whatever the user says it does,
/// and the same number twice is what the API server refuses in a Service.
pub fn add_metrics_port(ray: &mut Container, params: &BTreeMap<String, String>) {
    let number = effective(params, ray, "metrics-export-port").and_then(|p| port_number(&p)).unwrap_or(PORT_METRICS);
    let ports = ray.ports.get_or_insert_default();
    let taken = |p: &ContainerPort| {
        p.name.as_deref() == Some(METRICS) || (p.container_port == number && is_tcp(p.protocol.as_deref()))
    };
    if !ports.iter().any(taken) {
        ports.push(ContainerPort {
            name: Some(METRICS.to_owned()),
            container_port: number,
            ..ContainerPort::default()
        });
    }
}

/// Ports of a head Service: the user's own (`headService.spec.ports`), then those of the head's Ray container or, if
/// it lists none, Ray's. Each name and each number once, the earlier one winning; sorted by name.
///
/// Without `headless` the Service's own address only knows the ports listed, so the port of the control store is
/// added if it is missing.
pub fn service_ports(
    cluster: &RayCluster,
    address: &HeadAddress,
    own: &[ServicePort],
    headless: bool,
) -> Vec<ServicePort> {
    let mut ports: Vec<ServicePort> = Vec::new();
    for port in own {
        add(&mut ports, port.clone());
    }
    let container = ray_container(&cluster.spec.head_group_spec.template);
    let mut listed: Vec<&ContainerPort> = container.iter().flat_map(|c| c.ports.iter().flatten()).collect();
    // Unnamed ports come last, so that none takes a name that the user gave to another.
    listed.sort_by_key(|p| p.name.is_none());
    for port in &listed {
        let protocol = port.protocol.clone().filter(|p| p != "TCP");
        add(
            &mut ports,
            ServicePort { name: port.name.clone(), port: port.container_port, protocol, ..ServicePort::default() },
        );
    }
    let ray_ports = |name: &str, default| match name {
        "gcs-server" => address.port_number(),
        "dashboard" => head_port(cluster, "dashboard-port", default),
        "client" => head_port(cluster, "ray-client-server-port", default),
        METRICS => head_port(cluster, "metrics-export-port", default),
        _ => default,
    };
    for (name, default) in WELL_KNOWN {
        let needed = listed.is_empty() || name == METRICS || (name == "gcs-server" && !headless);
        if needed {
            add(
                &mut ports,
                ServicePort { name: Some(name.to_owned()), port: ray_ports(name, default), ..ServicePort::default() },
            );
        }
    }
    ports.sort_by(|a, b| a.name.cmp(&b.name));
    ports
}

/// Adds a port unless its number (per protocol) or its name is taken. A port without a name gets one.
fn add(ports: &mut Vec<ServicePort>, mut port: ServicePort) {
    let taken = |name: &str| ports.iter().any(|p| p.name.as_deref() == Some(name));
    let same_number = |p: &ServicePort| p.port == port.port && protocol(p) == protocol(&port);
    if ports.iter().any(same_number) {
        return;
    }
    match port.name.as_deref() {
        Some(name) if !name.is_empty() => {
            if taken(name) {
                return;
            }
        }
        _ => port.name = Some(free_name(&port, taken)),
    }
    if is_tcp(port.protocol.as_deref()) {
        port.app_protocol.get_or_insert_with(|| "tcp".to_owned());
    }
    ports.push(port);
}

/// The well-known name of the number, else `port-<n>`, else `port-<n>-<protocol>`.
fn free_name(port: &ServicePort, taken: impl Fn(&str) -> bool) -> String {
    let well_known = WELL_KNOWN.iter().find(|(_, n)| *n == port.port && is_tcp(port.protocol.as_deref()));
    let plain = format!("port-{}", port.port);
    let name = well_known.map(|(name, _)| (*name).to_owned()).into_iter().chain([plain.clone()]).find(|n| !taken(n));
    name.unwrap_or_else(|| format!("{plain}-{}", protocol(port).to_ascii_lowercase()))
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

fn is_tcp(protocol: Option<&str>) -> bool {
    protocol.is_none_or(|p| p == "TCP")
}

/// Whether a port of the Service leads to another number of the pod, which only a Service with an address can do.
pub fn is_redirected(port: &ServicePort) -> bool {
    match &port.target_port {
        None => false,
        Some(IntOrString::Int(target)) => *target != port.port,
        Some(IntOrString::String(_)) => true,
    }
}

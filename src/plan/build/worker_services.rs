//! The Services that lead to workers: one by which the hosts of a replica find each other, one for Serve.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};

use super::service::service;
use crate::api::RayCluster;
use crate::api::names::{self, PORT_SERVE, annotations, labels};
use crate::api::raycluster::ray_container;

/// The headless Service under which hosts of one replica find each other, when any group has several hosts. What sets
/// hostname and subdomain of the pods (GKE's TPU webhook does) relies on its name.
pub fn headless_service(cluster: &RayCluster) -> Option<Service> {
    cluster.spec.groups().iter().any(|group| group.hosts() > 1).then(|| {
        let name = cluster_name(cluster);
        let all_labels = [(labels::HEADLESS_WORKERS, name), (labels::CLUSTER, name)];
        let spec = ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some(map(&[(labels::CLUSTER, name), (labels::NODE_TYPE, "worker")])),
            ..ServiceSpec::default()
        };
        service(cluster, names::headless_service_name(name), map(&all_labels), BTreeMap::new(), spec)
    })
}

/// The Service for requests to Serve on the head and all workers, when an annotation of the cluster asks for it. Its
/// ports are those of the head named `serve` or `serve-...`, or Serve's own where the head names none.
pub fn serve_service(cluster: &RayCluster) -> Option<Service> {
    let asked = cluster.metadata.annotations.as_ref()?.get(annotations::ENABLE_SERVE_SERVICE)? == "true";
    asked.then(|| {
        let name = cluster_name(cluster);
        let serve = format!("{name}-serve");
        let all_labels = [
            (labels::ORIGINATED_FROM_CR_NAME, name),
            (labels::ORIGINATED_FROM_CRD, "RayCluster"),
            (labels::SERVE, &serve),
            (labels::CLUSTER, name),
        ];
        let spec = ServiceSpec {
            type_: Some(cluster.spec.head_group_spec.service_type.clone().unwrap_or_else(|| "ClusterIP".to_owned())),
            selector: Some(map(&[(labels::CLUSTER, name)])),
            ports: Some(serve_ports(cluster)),
            ..ServiceSpec::default()
        };
        service(cluster, names::serve_service_name(name), map(&all_labels), BTreeMap::new(), spec)
    })
}

fn serve_ports(cluster: &RayCluster) -> Vec<ServicePort> {
    let container = ray_container(&cluster.spec.head_group_spec.template);
    let listed = container.iter().flat_map(|c| c.ports.iter().flatten());
    let mut ports: Vec<ServicePort> = listed
        .filter_map(|port| {
            let name = port.name.as_deref().filter(|name| *name == "serve" || name.starts_with("serve-"))?;
            Some(ServicePort { name: Some(name.to_owned()), port: port.container_port, ..ServicePort::default() })
        })
        .collect();
    if ports.is_empty() {
        ports.push(ServicePort { name: Some("serve".to_owned()), port: PORT_SERVE, ..ServicePort::default() });
    }
    ports.sort_by(|a, b| a.name.cmp(&b.name));
    ports
}

fn cluster_name(cluster: &RayCluster) -> &str {
    cluster.metadata.name.as_deref().unwrap_or_default()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

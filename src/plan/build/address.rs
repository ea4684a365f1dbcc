//! Where the head is found.

use super::own_start;
use crate::api::RayCluster;
use crate::api::names;
use crate::api::raycluster::ray_container;
use crate::plan::config::PlanConfig;

/// Name and port under which the head's control store (GCS) is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadAddress {
    /// Name of the head Service.
    pub service: String,
    /// `<service>.<namespace>.svc.<domain>`: resolves from every namespace and under every DNS search list.
    pub fqdn: String,
    /// As the user wrote it, so it may be a variable of the container (`$GCS_PORT`).
    pub port: String,
}

impl HeadAddress {
    /// The port is, in this order: `--port` of the head's own `ray start`, `rayStartParams.port`, 6379.
    pub fn of(cluster: &RayCluster, config: &PlanConfig) -> HeadAddress {
        let head = &cluster.spec.head_group_spec;
        let custom = head.head_service.as_ref().and_then(|s| s.metadata.name.as_deref());
        let service = names::head_service_name(cluster.metadata.name.as_deref().unwrap_or_default(), custom);
        let namespace = cluster.metadata.namespace.as_deref().unwrap_or("default");
        let fqdn = format!("{service}.{namespace}.svc.{}", config.cluster_domain);
        let param = head.ray_start_params.as_ref().and_then(|p| p.get("port")).map(|p| p.trim().to_owned());
        let port = own_flag(cluster, "port").or(param.filter(|p| !p.is_empty()));
        HeadAddress { service, fqdn, port: port.unwrap_or_else(|| names::PORT_GCS.to_string()) }
    }

    /// `<fqdn>:<port>`.
    pub fn gcs(&self) -> String {
        format!("{}:{}", self.fqdn, self.port)
    }

    /// The port as a number; Ray's default when it is known only inside the container.
    pub fn port_number(&self) -> i32 {
        port_number(&self.port).unwrap_or(names::PORT_GCS)
    }
}

/// A port of the head: a number given in its own `ray start`, else in `rayStartParams`, else `default`.
pub fn head_port(cluster: &RayCluster, flag: &str, default: i32) -> i32 {
    let params = cluster.spec.head_group_spec.ray_start_params.as_ref();
    let param = params.and_then(|p| p.get(flag)).and_then(|p| port_number(p));
    own_flag(cluster, flag).and_then(|p| port_number(&p)).or(param).unwrap_or(default)
}

/// A port number, with or without blanks around it.
pub fn port_number(text: &str) -> Option<i32> {
    text.trim().parse().ok().filter(|p| (1..=65535).contains(p))
}

fn own_flag(cluster: &RayCluster, flag: &str) -> Option<String> {
    let starts = own_start::own_starts(ray_container(&cluster.spec.head_group_spec.template)?);
    own_start::head_start(&starts)?.flag(flag).map(str::to_owned)
}

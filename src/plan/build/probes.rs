//! How the kubelet asks whether Ray is alive and ready.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ExecAction, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::address::{head_port, port_number};
use super::own_start::OwnStart;
use super::{Group, creator};
use crate::api::names::{PORT_DASHBOARD, PORT_DASHBOARD_AGENT, PORT_SERVE};
use crate::api::version;

/// Adds the probes that the Ray container lacks. From Ray 2.53 on the dashboard agent answers for the whole node; before,
/// a shell command asks the raylet and, on the head, the control store.
pub(crate) fn add(ray: &mut Container, group: Group, params: &BTreeMap<String, String>, own_starts: &[OwnStart]) {
    let seconds = if group.is_head() { 5 } else { 2 };
    let agent = own_starts.iter().find_map(|s| s.flag("dashboard-agent-listen-port"));
    let agent = agent.or(params.get("dashboard-agent-listen-port").map(String::as_str));
    let agent = agent.and_then(port_number).unwrap_or(PORT_DASHBOARD_AGENT);
    let raylet = ask(agent, "api/local_raylet_healthz", 2);

    let healthy = if version::at_least(group.cluster.spec.ray_version.as_deref(), 2, 53) {
        let http =
            HTTPGetAction { path: Some("/api/healthz".into()), port: IntOrString::Int(agent), ..Default::default() };
        Probe { http_get: Some(http), ..Probe::default() }
    } else if group.is_head() {
        let dashboard = head_port(group.cluster, "dashboard-port", PORT_DASHBOARD);
        shell(&[raylet.clone(), ask(dashboard, "api/gcs_healthz", seconds)])
    } else {
        shell(std::slice::from_ref(&raylet))
    };

    if ray.liveness_probe.is_none() {
        ray.liveness_probe = Some(timed(healthy.clone(), 30, 120, seconds));
    }
    if ray.readiness_probe.is_none() {
        // A worker of a RayService also has to serve, and leaves the Service at the first miss.
        ray.readiness_probe = Some(if creator(group.cluster) == "RayService" && !group.is_head() {
            let serve = ray.ports.iter().flatten().find(|p| p.name.as_deref() == Some("serve"));
            let serve = serve.map_or(PORT_SERVE, |p| p.container_port);
            timed(shell(&[raylet, ask(serve, "-/healthz", seconds)]), 10, 1, seconds)
        } else {
            timed(healthy, 10, 10, seconds)
        });
    }
}

fn timed(probe: Probe, initial_delay: i32, failures: i32, timeout: i32) -> Probe {
    Probe {
        initial_delay_seconds: Some(initial_delay),
        period_seconds: Some(5),
        success_threshold: Some(1),
        failure_threshold: Some(failures),
        timeout_seconds: Some(timeout),
        ..probe
    }
}

fn shell(questions: &[String]) -> Probe {
    let command = vec!["bash".to_owned(), "-c".to_owned(), questions.join(" && ")];
    Probe { exec: Some(ExecAction { command: Some(command) }), ..Probe::default() }
}

/// No question may take longer than the whole probe, or the kubelet's time-out leaves it behind (KubeRay allows 10 s
/// in probes of 2 s and 5 s).
fn ask(port: i32, path: &str, seconds: i32) -> String {
    format!("wget --tries 1 -T {seconds} -q -O- http://localhost:{port}/{path} | grep success")
}

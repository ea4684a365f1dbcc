//! The whole new status, and whether it is worth a write now.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::numbers::{self, Workers};
use super::ready::{NO_AUTOSCALER_ACCOUNT, Verdict, standing_failures};
use super::standing::{Standing, standing};
use super::suspend::Suspension;
use super::{Scene, autoscaling, claim, conditions};
use crate::api::raycluster::{HeadInfo, RayClusterStatus};
use crate::observe::seen::{PodView, ServiceView};
use crate::plan::build::address::HeadAddress;
use crate::plan::build::{self, Identity, Remark};
use crate::plan::resources::desired_resources;
use crate::plan::{Note, Step};

/// Counts and words alone (3 of 5 workers running, another line from the scheduler) wait at least this long after
/// the last write, and longer the longer the cluster has stood as it stands. What a person or pipeline waits for
/// (a condition's status, `Ready`'s reason, the state, what is desired) never waits.
const QUIET_AT_LEAST: SignedDuration = SignedDuration::from_secs(30);
const QUIET_AT_MOST: SignedDuration = SignedDuration::from_mins(10);

#[derive(Default)]
pub(super) struct Written {
    pub status: Option<RayClusterStatus>,
    pub notes: Vec<Note>,
    pub look_again: Option<Timestamp>,
}

pub(super) fn compute(
    scene: &Scene<'_>,
    suspension: Suspension,
    verdict: &Verdict,
    steps: &[Step],
    valid: bool,
) -> Written {
    let old = scene.cluster.status.clone().unwrap_or_default();
    let mut new = old.clone();
    let workers = numbers::workers(scene);
    // An invalid spec says nothing that could be counted.
    if valid {
        wishes(&mut new, scene, &workers, suspension);
    }
    new.ready_worker_replicas = Some(workers.ready);
    new.available_worker_replicas = Some(workers.available);
    let service = head_service(scene);
    new.endpoints = endpoints(scene).or(new.endpoints);
    new.head = Some(head_info(scene, service));
    new.observed_generation = scene.cluster.metadata.generation;
    new.conditions = Some(conditions::all(scene, suspension, verdict, standing_failures(scene, steps)));
    // KubeRay's `state` sticks at ready; ours is ready as long as it is true.
    let state = match (suspension, verdict.ready) {
        (Suspension::Suspended, _) => "suspended",
        (_, true) => "ready",
        _ => "",
    };
    new.state = Some(state).filter(|s| !s.is_empty()).map(str::to_owned);
    new.reason = None;
    let now = Time(Timestamp::from_second(scene.now.as_second()).unwrap_or(scene.now));
    if new.state != old.state
        && let Some(state) = &new.state
    {
        new.state_transition_times.get_or_insert_with(BTreeMap::new).insert(state.clone(), now.clone());
    }

    if new == old {
        return Written::default();
    }
    if let Some(wait_until) = quiet_until(&old, &new).filter(|t| *t > scene.now) {
        return Written { look_again: Some(wait_until), ..Written::default() };
    }
    new.last_update_time = Some(now);
    Written { notes: notes(scene, &old, verdict, valid), status: Some(new), look_again: None }
}

/// Until when the difference may wait; `None` when it may not.
fn quiet_until(old: &RayClusterStatus, new: &RayClusterStatus) -> Option<Timestamp> {
    let last = old.last_update_time.as_ref()?.0;
    if loud(old) != loud(new) {
        return None;
    }
    let turned = conditions::find(old, "Ready").map_or(last, |c| c.last_transition_time.0);
    Some(last + last.duration_since(turned).clamp(QUIET_AT_LEAST, QUIET_AT_MOST))
}

/// The part of a status whose change is written at once.
fn loud(status: &RayClusterStatus) -> RayClusterStatus {
    let mut loud = status.clone();
    loud.ready_worker_replicas = None;
    loud.available_worker_replicas = None;
    loud.head =
        status.head.as_ref().map(|h| HeadInfo { external_address: h.external_address.clone(), ..HeadInfo::default() });
    loud.last_update_time = None;
    // It turns True a moment before `Ready` does, and goes with that.
    loud.conditions.iter_mut().for_each(|all| all.retain(|c| c.type_ != "RayClusterProvisioned"));
    for condition in loud.conditions.iter_mut().flatten() {
        condition.message.clear();
        if condition.type_ != "Ready" {
            condition.reason.clear();
        }
    }
    loud
}

fn wishes(status: &mut RayClusterStatus, scene: &Scene<'_>, workers: &Workers, suspension: Suspension) {
    let desired = desired_resources(scene.cluster, scene.config);
    status.desired_cpu = Some(desired.cpu);
    status.desired_memory = Some(desired.memory);
    status.desired_gpu = Some(desired.gpu);
    status.desired_tpu = Some(desired.tpu);
    let suspended = suspension != Suspension::No;
    status.desired_worker_replicas = Some(if suspended { 0 } else { workers.wanted });
    status.min_worker_replicas = Some(workers.min);
    status.max_worker_replicas = Some(workers.max);
}

fn head_service<'a>(scene: &'a Scene<'_>) -> Option<&'a ServiceView> {
    scene.seen.services.get(&HeadAddress::of(scene.cluster, scene.config).service).map(|s| &**s)
}

fn external_service<'a>(scene: &'a Scene<'_>) -> Option<&'a ServiceView> {
    let name = crate::api::names::head_external_service_name(scene.name());
    scene.seen.services.get(&name).map(|s| &**s)
}

/// Port name to the port to use: a node port when the Service for people outside has one, else the target port
/// (KubeRay behaviour).
fn endpoints(scene: &Scene<'_>) -> Option<BTreeMap<String, String>> {
    let internal = head_service(scene)?;
    let mut ports = BTreeMap::new();
    for port in internal.ports.iter().filter(|p| !p.name.is_empty()) {
        let number = match port.node_port {
            Some(node_port) if node_port != 0 => node_port.to_string(),
            _ => port.target_port.clone(),
        };
        ports.insert(port.name.clone(), number);
    }
    for port in external_service(scene).iter().flat_map(|s| &s.ports) {
        if let Some(node_port) = port.node_port.filter(|n| *n != 0) {
            ports.insert(port.name.clone(), node_port.to_string());
        }
    }
    Some(ports)
}

fn head_info(scene: &Scene<'_>, service: Option<&ServiceView>) -> HeadInfo {
    let head: Option<&PodView> = scene.heads().find(|p| standing(p, scene.now) == Standing::Live);
    let pod_ip = head.and_then(|p| p.ip.clone());
    HeadInfo {
        pod_name: head.map(|p| p.meta.name.clone()),
        service_ip: service.and_then(|s| s.cluster_ip.clone().or(pod_ip.clone())),
        pod_ip,
        service_name: service.map(|s| s.meta.name.clone()),
        external_address: external_service(scene).or(service).and_then(|s| s.load_balancer.first().cloned()),
    }
}

/// What the user hears of when this status is written: turns for the worse that the steps do not already tell.
fn notes(scene: &Scene<'_>, old: &RayClusterStatus, verdict: &Verdict, valid: bool) -> Vec<Note> {
    let before = conditions::find(old, "Ready").map(|c| (c.reason.as_str(), c.message.as_str()));
    let said_before = before.is_some_and(|(reason, _)| reason == verdict.reason);
    let mut notes = Vec::new();
    match verdict.reason {
        "InvalidSpec" if !valid && before != Some(("InvalidSpec", verdict.message.as_str())) => {
            notes.push(Note {
                warning: true,
                reason: "InvalidRayClusterSpec".into(),
                action: "Validate",
                text: verdict.message.clone(),
            });
        }
        "Unschedulable"
        | "NoMatchingAccelerator"
        | "ImagePull"
        | "CrashLoop"
        | "HeadUnreachable"
        | "WorkersNotJoined"
            if !said_before =>
        {
            notes.push(Note {
                warning: true,
                reason: verdict.reason.into(),
                action: "Wait",
                text: verdict.message.clone(),
            });
        }
        NO_AUTOSCALER_ACCOUNT if !said_before => notes.push(Note {
            warning: true,
            reason: NO_AUTOSCALER_ACCOUNT.into(),
            action: "Validate",
            text: verdict.message.clone(),
        }),
        _ => {}
    }
    if scene.old_condition("Ready").is_none() {
        notes.extend(remarks(scene).iter().map(|remark| Note {
            warning: true,
            reason: remark.reason().into(),
            action: "Create",
            text: remark.text(),
        }));
        notes.extend(autoscaling::advice(scene).map(|text| Note {
            warning: true,
            reason: "InvalidRayClusterSpec".into(),
            action: "Validate",
            text,
        }));
    }
    if valid && old.observed_generation != scene.cluster.metadata.generation {
        notes.extend(claim::drift(scene).map(|text| Note {
            warning: true,
            reason: "FailedToCreatePVC".into(),
            action: "Update",
            text,
        }));
    }
    notes
}

/// What the user should hear of how the pods are made.
fn remarks(scene: &Scene<'_>) -> BTreeSet<Remark> {
    let mut all: BTreeSet<Remark> =
        build::head_pod(scene.cluster, Identity::default(), scene.config).remarks.into_iter().collect();
    for group in scene.cluster.spec.groups() {
        all.extend(build::worker_pod(scene.cluster, group, Identity::default(), scene.config).remarks);
    }
    all
}

/// The transition time moves only when the status of a condition does (Kubernetes API convention).
pub(super) fn transition(old: Option<&Condition>, status: &str, now: Timestamp) -> Time {
    match old {
        Some(c) if c.status == status => c.last_transition_time.clone(),
        _ => Time(Timestamp::from_second(now.as_second()).unwrap_or(now)),
    }
}

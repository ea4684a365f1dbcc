//! How pods and Services of a RayCluster are made: pure functions from the user's spec to whole objects.
//!
//! One file per question: [`pod`] says in which order a pod is put together, every other file answers for one part
//! of it. How many pods there should be, and which, is decided elsewhere.

pub mod accelerators;
pub mod address;
pub(crate) mod autoscaler;
pub mod child;
pub mod claim;
pub(crate) mod collector;
pub mod command;
pub mod env;
pub mod fault_tolerance;
pub mod ingress;
pub mod login;
pub mod metadata;
pub mod network_policy;
pub mod own_start;
pub mod pod;
pub mod pod_group;
pub mod ports;
pub mod probes;
pub mod quote;
pub mod rbac;
pub mod recreate_hash;
pub mod redis_cleanup;
pub mod scheduling;
pub mod service;
pub mod shell;
pub(crate) mod stamp;
pub mod start_params;
pub mod stay;
pub mod volumes;
pub mod wait_gcs;
pub mod worker_services;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::api::RayCluster;
use crate::api::names::{HEAD_GROUP, labels};
use crate::api::raycluster::{WorkerGroupSpec, ray_container};

pub use ingress::dashboard_entry;
pub use network_policy::network_policies;
pub use pod::{head_pod, worker_pod, worker_pod_name};
pub use service::{head_external_service, head_service};
pub use worker_services::{headless_service, serve_service};

/// Which pod of its group a pod is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Replica index in the group; 0 for the head.
    pub slot: u32,
    /// Host index in the replica; 0 unless `numOfHosts` is above 1.
    pub host: u32,
    /// How many pods stood here before this one.
    pub incarnation: u32,
    /// How many pods in a row failed here soon after they started.
    pub quick_failures: u32,
}

/// A pod, and what its user should hear about how it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct Built {
    pub pod: Pod,
    pub remarks: Vec<Remark>,
}

/// Something that was done for the user, or could not be done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Remark {
    /// The container's script starts Ray without `--block`; a wait was added to it.
    KeptAlive { container: String },
    /// The container runs `ray start` without `--block` and without a shell that stays, so it ends once Ray is in the
    /// background.
    EndsAfterStart { container: String },
    /// Fault tolerance is asked for, and no Redis is named.
    NoRedis,
    /// `rayStartParams.resources` is no JSON object of numbers, so the accelerator found was not added to it.
    UnreadableResources { accelerator: String },
}

impl Remark {
    /// The event's reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Remark::KeptAlive { .. } => "RayStartKeptAlive",
            Remark::EndsAfterStart { .. } => "RayStartEnds",
            Remark::NoRedis => "NoRedisAddress",
            Remark::UnreadableResources { .. } => "UnreadableResources",
        }
    }

    /// In a sentence, for an event.
    pub fn text(&self) -> String {
        match self {
            Remark::KeptAlive { container } => format!(
                "Container {container} starts Ray without --block, so its script would have ended while Ray runs on in \
                 the background; a wait was added to it. Add --block to `ray start` to have Ray itself in charge."
            ),
            Remark::EndsAfterStart { container } => format!(
                "Container {container} runs `ray start` without --block and will end as soon as Ray is in the \
                 background. Add --block to its command."
            ),
            Remark::NoRedis => {
                "gcsFaultToleranceOptions names no redisAddress, so the head keeps its state in memory and a \
                                new head starts empty. Set redisAddress, or remove the options."
                    .to_owned()
            }
            Remark::UnreadableResources { accelerator } => format!(
                "rayStartParams.resources is not a JSON object of numbers, so {accelerator} could not be added to it. \
                 Ray gets the value as it is."
            ),
        }
    }
}

/// A head or worker group, seen alike.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    pub(crate) cluster: &'a RayCluster,
    /// `None` for the head.
    pub(crate) worker: Option<&'a WorkerGroupSpec>,
}

impl<'a> Group<'a> {
    pub(crate) fn head(cluster: &'a RayCluster) -> Self {
        Group { cluster, worker: None }
    }

    pub(crate) fn worker(cluster: &'a RayCluster, group: &'a WorkerGroupSpec) -> Self {
        Group { cluster, worker: Some(group) }
    }

    pub(crate) fn is_head(self) -> bool {
        self.worker.is_none()
    }

    /// The value of `ray.io/group`.
    pub(crate) fn name(self) -> &'a str {
        self.worker.map_or(HEAD_GROUP, |g| &g.group_name)
    }

    /// The value of `ray.io/node-type`.
    pub(crate) fn node_type(self) -> &'static str {
        if self.is_head() { "head" } else { "worker" }
    }

    pub(crate) fn template(self) -> &'a PodTemplateSpec {
        self.worker.map_or(&self.cluster.spec.head_group_spec.template, |g| &g.template)
    }

    pub(crate) fn params(self) -> Option<&'a BTreeMap<String, String>> {
        self.worker.map_or(self.cluster.spec.head_group_spec.ray_start_params.as_ref(), |g| g.ray_start_params.as_ref())
    }

    pub(crate) fn resources(self) -> Option<&'a BTreeMap<String, String>> {
        self.worker.map_or(self.cluster.spec.head_group_spec.resources.as_ref(), |g| g.resources.as_ref())
    }

    pub(crate) fn labels(self) -> Option<&'a BTreeMap<String, String>> {
        self.worker.map_or(self.cluster.spec.head_group_spec.labels.as_ref(), |g| g.labels.as_ref())
    }
}

/// The kind that the user wrote and that this cluster was made for: `RayCluster`, `RayJob` or `RayService`
/// (label `ray.io/originated-from-crd`; anything else counts as `RayCluster`).
pub(crate) fn creator(cluster: &RayCluster) -> &'static str {
    let label = cluster.metadata.labels.as_ref().and_then(|l| l.get(labels::ORIGINATED_FROM_CRD));
    match label.map(String::as_str) {
        Some("RayJob") => "RayJob",
        Some("RayService") => "RayService",
        _ => "RayCluster",
    }
}

/// Whether the head has a dashboard that can be asked: not when `include-dashboard` is false, in `rayStartParams` or in the
/// head's own `ray start`, nor when its port is known inside the container only.
pub fn has_dashboard(cluster: &RayCluster) -> bool {
    let none = BTreeMap::new();
    let head = &cluster.spec.head_group_spec;
    let params = head.ray_start_params.as_ref().unwrap_or(&none);
    let ray = ray_container(&head.template);
    let said = |flag: &str| ray.and_then(|ray| start_params::effective(params, ray, flag));
    let off = said("include-dashboard").is_some_and(|v| v.trim().eq_ignore_ascii_case("false"));
    let hidden = said("dashboard-port").is_some_and(|v| address::port_number(&v).is_none());
    !off && !hidden
}

/// Makes the cluster the controller of a child, so that the child is deleted with it.
pub(crate) fn owner(cluster: &RayCluster) -> OwnerReference {
    OwnerReference {
        api_version: "ray.io/v1".to_owned(),
        kind: "RayCluster".to_owned(),
        name: cluster.metadata.name.clone().unwrap_or_default(),
        uid: cluster.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// Whether an annotation of a RayCluster or template says `true`, in any case.
pub(crate) fn says_true(annotations: Option<&BTreeMap<String, String>>, key: &str) -> bool {
    annotations.and_then(|a| a.get(key)).is_some_and(|v| v.eq_ignore_ascii_case("true"))
}

//! In which order a pod is put together.
//!
//! The order decides where things stand in lists, and which of two settings wins. It is KubeRay's:
//! template → init container that waits (worker) → labels, start parameters, annotations → autoscaler (head) → fault
//! tolerance → metrics port → login token → TLS → history collector → sidecars from the settings → default metadata →
//! shared memory → command → environment → probes → owner → batch scheduler.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use super::address::HeadAddress;
use super::rbac::Account;
use super::start_params::{self, StartParams};
use super::{
    Built, Group, Identity, Remark, autoscaler, collector, command, env, fault_tolerance, login, metadata, own_start,
    ports, probes, scheduling, volumes, wait_gcs,
};
use crate::api::RayCluster;
use crate::api::names;
use crate::api::raycluster::WorkerGroupSpec;
use crate::plan::config::PlanConfig;

/// A pod in the making: its Ray container (the first, whatever it is called) taken out of the rest.
struct Draft {
    ray: Container,
    /// Containers after the Ray container. `spec.containers` is empty meanwhile.
    others: Vec<Container>,
    spec: PodSpec,
}

impl Draft {
    fn of(group: Group) -> Draft {
        let mut spec = group.template().spec.clone().unwrap_or_default();
        let mut containers = std::mem::take(&mut spec.containers).into_iter();
        // A template without containers never gets here: validation refuses it. The API server would too.
        Draft { ray: containers.next().unwrap_or_default(), others: containers.collect(), spec }
    }

    fn into_spec(self) -> PodSpec {
        let containers = std::iter::once(self.ray).chain(self.others).collect();
        PodSpec { containers, ..self.spec }
    }
}

/// The head pod of a cluster. `identity.slot` and `identity.host` are 0.
pub fn head_pod(cluster: &RayCluster, identity: Identity, config: &PlanConfig) -> Built {
    let group = Group::head(cluster);
    let mut draft = Draft::of(group);
    if let Some(account) = Account::of(cluster) {
        draft.spec.service_account_name = Some(account.name);
        draft.spec.service_account = None;
    }
    build(group, draft, identity, config)
}

/// A worker pod of `group`, which is one of the cluster's.
pub fn worker_pod(cluster: &RayCluster, group: &WorkerGroupSpec, identity: Identity, config: &PlanConfig) -> Built {
    let group = Group::worker(cluster, group);
    let mut draft = Draft::of(group);
    if config.inject_init_container {
        let address = HeadAddress::of(cluster, config);
        if let Some(waiting) = wait_gcs::inject(&mut draft.spec, &draft.ray, &address, config) {
            login::add(waiting, cluster);
        }
    }
    build(group, draft, identity, config)
}

/// Containers that we add after those of the template.
pub(crate) struct Added<'a> {
    /// Ours: autoscaler, history collector.
    pub(crate) own: Vec<Container>,
    /// Those of the operator's settings, as they are.
    pub(crate) sidecars: &'a [Container],
}

/// `ray` is the Ray container as the user wrote it.
pub(crate) fn added<'a>(group: Group, ray: &Container, address: &HeadAddress, config: &'a PlanConfig) -> Added<'a> {
    let autoscaler = if group.is_head() { autoscaler::container(group.cluster, ray, config) } else { None };
    Added {
        own: autoscaler.into_iter().chain(collector::container(group, address)).collect(),
        sidecars: if group.is_head() { &config.head_sidecars } else { &config.worker_sidecars },
    }
}

fn build(group: Group, mut draft: Draft, identity: Identity, config: &PlanConfig) -> Built {
    let address = HeadAddress::of(group.cluster, config);
    let mut remarks = Vec::new();

    let StartParams { params, unread_accelerator } = start_params::resolve(group, &draft.ray, &address);
    remarks.extend(unread_accelerator.map(|accelerator| Remark::UnreadableResources { accelerator }));
    let mut meta = metadata::metadata(group, identity, config);
    let Added { mut own, sidecars } = added(group, &draft.ray, &address, config);

    fault_tolerance::add_volume(&mut draft.spec, &mut draft.ray, group);
    if group.is_head() && fault_tolerance::lacks_redis(group.cluster) {
        remarks.push(Remark::NoRedis);
    }
    ports::add_metrics_port(&mut draft.ray, &params);
    if command::autoscaler_is_v2(group.cluster) {
        // Autoscaler v2 replaces nodes; a container that began again would be a node that it does not know.
        draft.spec.restart_policy = Some("Never".to_owned());
    }
    login::add_volume(&mut draft.spec, group.cluster);
    volumes::add_shared_memory(&mut draft.spec, &mut draft.ray, &params);
    volumes::share_logs(&mut draft.spec, &mut draft.ray, &mut own);
    draft.others.extend(own);
    draft.others.extend(sidecars.iter().cloned());

    let own_starts = own_start::own_starts(&draft.ray);
    let start = command::start_command(group.is_head(), &params);
    if command::keeps_its_command(group, &draft.ray) {
        remarks.extend(super::stay::keep_alive(&mut draft.ray));
    } else {
        command::replace(&mut draft.ray, &start, config);
    }
    // The last lines of a container that ended reach `Ready`'s message this way, without anybody reading its log.
    draft.ray.termination_message_policy.get_or_insert_with(|| "FallbackToLogsOnError".to_owned());
    env::on_init_containers(draft.spec.init_containers.iter_mut().flatten(), group, &address);
    env::on_ray_container(&mut draft.ray, group, &address, start, config);
    env::on_other_containers(draft.others.iter_mut(), group, &address);
    if config.inject_probes {
        probes::add(&mut draft.ray, group, &params, &own_starts);
    }

    meta.name = Some(name(group, identity, config));
    let mut spec = draft.into_spec();
    scheduling::apply(group, &mut meta, &mut spec, config);
    Built { pod: Pod { metadata: meta, spec: Some(spec), status: None }, remarks }
}

/// Deterministic, so that a repeated create meets its first. A name in the template is ignored: all pods of a group
/// would get it.
fn name(group: Group, identity: Identity, config: &PlanConfig) -> String {
    let cluster = group.cluster.metadata.name.as_deref().unwrap_or_default();
    let uid = group.cluster.metadata.uid.as_deref().unwrap_or_default();
    match group.worker {
        None if config.deterministic_head_pod_name => names::fixed_head_pod_name(cluster),
        None => names::pod_name(cluster, "head", uid, names::HEAD_GROUP, 0, 0, identity.incarnation),
        Some(worker) => worker_pod_name(group.cluster, worker, identity),
    }
}

/// The name that a worker has.
pub fn worker_pod_name(cluster: &RayCluster, group: &WorkerGroupSpec, identity: Identity) -> String {
    let Identity { slot, host, incarnation, .. } = identity;
    let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
    let prefix = format!("{}-{}", cluster.metadata.name.as_deref().unwrap_or_default(), group.group_name);
    names::pod_name(&prefix, "worker", uid, &group.group_name, slot, host, incarnation)
}

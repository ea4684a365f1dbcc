//! How much a cluster asks for when all that is wanted runs.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::build::Group;
use super::build::address::HeadAddress;
use super::build::pod::{Added, added};
use super::config::PlanConfig;
use super::quantity::Amount;
use crate::api::RayCluster;
use crate::api::accelerators::is_gpu;
use crate::api::raycluster::WorkerGroupSpec;

/// Sums for `status.desired*`; `0` where nothing is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    pub cpu: Quantity,
    pub memory: Quantity,
    /// All GPUs and slices of them, whoever makes them.
    pub gpu: Quantity,
    pub tpu: Quantity,
}

/// The head and every wanted worker, by all containers that their pods will have: the template's, Ray's autoscaler, the
/// history collector, the settings' sidecars; of each the request, else the limit. Replicas count within their bounds. So
/// the sums agree with `desiredWorkerReplicas` and with what quotas count. KubeRay multiplies by `replicas` as written,
/// and counts the template's containers only. Init containers count in neither.
pub fn desired_resources(cluster: &RayCluster, config: &PlanConfig) -> Desired {
    let address = HeadAddress::of(cluster, config);
    let groups = cluster.spec.groups().iter().map(|g| (Group::worker(cluster, g), wanted_pods(g)));
    let groups: Vec<(Vec<Container>, u32)> = std::iter::once((Group::head(cluster), 1))
        .chain(groups)
        .map(|(group, pods)| (containers(group, &address, config), pods))
        .collect();
    let total = |counts: &dyn Fn(&str) -> bool| {
        groups.iter().fold(Amount::default(), |sum, (all, pods)| sum.plus(pod_sum(all, counts).times(*pods))).quantity()
    };
    Desired {
        cpu: total(&|name| name == "cpu"),
        memory: total(&|name| name == "memory"),
        gpu: total(&is_gpu),
        tpu: total(&|name| name == "google.com/tpu"),
    }
}

/// Pods that a batch scheduler starts together or not at all, and what they need.
pub(crate) struct Gang {
    pub(crate) members: u32,
    pub(crate) resources: BTreeMap<String, Quantity>,
}

/// The head and all wanted workers; with an autoscaler, as many as there always are. Suspended groups are left out.
pub(crate) fn gang(cluster: &RayCluster, config: &PlanConfig) -> Gang {
    let autoscaled = cluster.spec.enable_in_tree_autoscaling == Some(true);
    let workers = cluster.spec.groups().iter().map(|g| {
        let pods = if autoscaled { pods_at_least(g) } else { wanted_pods(g) };
        (Group::worker(cluster, g), pods)
    });
    let (mut members, mut sum) = (0_u32, BTreeMap::<String, Amount>::new());
    for (group, pods) in std::iter::once((Group::head(cluster), 1)).chain(workers).filter(|(_, pods)| *pods > 0) {
        members = members.saturating_add(pods);
        for (name, amount) in pod_requests(group, config) {
            let so_far = sum.entry(name).or_default();
            *so_far = so_far.plus(amount.times(pods));
        }
    }
    Gang { members, resources: sum.into_iter().map(|(name, amount)| (name, amount.quantity())).collect() }
}

/// What one pod of a group asks for, by resource.
pub(crate) fn pod_requests(group: Group, config: &PlanConfig) -> BTreeMap<String, Amount> {
    let containers = containers(group, &HeadAddress::of(group.cluster, config), config);
    let resources = containers.iter().filter_map(|c| c.resources.as_ref());
    let names: BTreeSet<&String> =
        resources.flat_map(|r| r.requests.iter().chain(&r.limits).flat_map(|m| m.keys())).collect();
    names.into_iter().map(|name| (name.clone(), pod_sum(&containers, &|n| n == name))).collect()
}

/// What the scheduler reserves of one resource for a pod: the sum over its containers and the init containers that stay,
/// or what the most demanding of the other init containers needs at its time, if that is more.
pub fn pod_amount(pod: &PodSpec, resource: &str) -> Amount {
    let of = |c: &Container| amounts(c, &|name| name == resource).fold(Amount::default(), Amount::plus);
    let (mut staying, mut most) = (Amount::default(), Amount::default());
    for init in pod.init_containers.iter().flatten() {
        let mut at_its_time = of(init).plus(staying);
        if init.restart_policy.as_deref() == Some("Always") {
            staying = at_its_time;
        }
        if !most.covers(at_its_time) {
            std::mem::swap(&mut most, &mut at_its_time);
        }
    }
    let sum = pod.containers.iter().map(of).fold(staying, Amount::plus);
    if sum.covers(most) { sum } else { most }
}

fn containers(group: Group, address: &HeadAddress, config: &PlanConfig) -> Vec<Container> {
    let mut all: Vec<Container> = group.template().spec.iter().flat_map(|s| &s.containers).cloned().collect();
    let Added { own, sidecars } = added(group, &all.first().cloned().unwrap_or_default(), address, config);
    all.extend(own);
    all.extend(sidecars.iter().cloned());
    all
}

fn wanted_pods(group: &WorkerGroupSpec) -> u32 {
    group.wanted_replicas().saturating_mul(group.hosts()).max(0).unsigned_abs()
}

/// As many as a group has when it is as small as it may be.
pub(crate) fn pods_at_least(group: &WorkerGroupSpec) -> u32 {
    let replicas = if group.suspend == Some(true) { 0 } else { group.min_replicas.unwrap_or(0) };
    replicas.saturating_mul(group.hosts()).max(0).unsigned_abs()
}

fn pod_sum(containers: &[Container], counts: &dyn Fn(&str) -> bool) -> Amount {
    containers.iter().flat_map(|c| amounts(c, counts)).fold(Amount::default(), Amount::plus)
}

fn amounts<'a>(container: &'a Container, counts: &'a dyn Fn(&str) -> bool) -> impl Iterator<Item = Amount> + 'a {
    let resources = container.resources.iter();
    resources.flat_map(move |r| {
        let requests = r.requests.iter().flatten();
        let limits = r.limits.iter().flatten();
        let only_limits = limits.filter(|(name, _)| r.requests.as_ref().is_none_or(|q| !q.contains_key(*name)));
        requests.chain(only_limits).filter(|(name, _)| counts(name)).filter_map(|(_, q)| Amount::of(q))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desired(spec: &str) -> [String; 4] {
        desired_with(spec, &PlanConfig::default())
    }

    fn desired_with(spec: &str, config: &PlanConfig) -> [String; 4] {
        let cluster: RayCluster = serde_saphyr::from_str(&format!("metadata: {{name: c}}\nspec:\n{spec}")).unwrap();
        let Desired { cpu, memory, gpu, tpu } = desired_resources(&cluster, config);
        [cpu.0, memory.0, gpu.0, tpu.0]
    }

    #[test]
    fn replicas_count_within_bounds_and_times_hosts() {
        let template = "{spec: {containers: [{name: r, resources: {limits: {cpu: 1, memory: 2Gi}}}]}}";
        let spec = |group: &str| {
            format!(
                "  headGroupSpec: {{template: {template}}}\n  workerGroupSpecs: [{{groupName: w, template: {template}, {group}}}]"
            )
        };
        for (group, cpu, memory) in [
            ("replicas: 2", "3", "6Gi"),
            ("replicas: 9, maxReplicas: 3", "4", "8Gi"),
            ("minReplicas: 2", "3", "6Gi"),
            ("replicas: 2, numOfHosts: 2", "5", "10Gi"),
            ("replicas: 2, suspend: true", "1", "2Gi"),
            ("replicas: -1", "1", "2Gi"),
        ] {
            assert_eq!(desired(&spec(group)), [cpu, memory, "0", "0"], "{group}");
        }
    }

    #[test]
    fn init_containers_count_at_their_time() {
        let gpus = |n: u32| format!("resources: {{limits: {{nvidia.com/gpu: {n}}}}}");
        for (containers, inits, sum) in [
            (vec![1, 2], vec![], "3"),
            (vec![1], vec![(4, false)], "4"),
            (vec![2], vec![(1, false)], "2"),
            (vec![2], vec![(1, true)], "3"),
            (vec![1], vec![(1, true), (3, false)], "4"),
            (vec![1], vec![(3, false), (1, true)], "3"),
        ] {
            let list = |of: Vec<String>| of.join(", ");
            let containers = list(containers.into_iter().map(|n| format!("{{name: c, {}}}", gpus(n))).collect());
            let stays = |yes| if yes { ", restartPolicy: Always" } else { "" };
            let inits = list(inits.into_iter().map(|(n, s)| format!("{{name: i, {}{}}}", gpus(n), stays(s))).collect());
            let text = format!("{{containers: [{containers}], initContainers: [{inits}]}}");
            let pod: PodSpec = serde_saphyr::from_str(&text).unwrap();
            assert_eq!(pod_amount(&pod, "nvidia.com/gpu").to_string(), sum, "{text}");
        }
    }

    #[test]
    fn requests_come_before_limits_and_every_container_counts() {
        let spec = "
  headGroupSpec:
    template:
      spec:
        initContainers: [{name: i, resources: {requests: {cpu: 64}}}]
        containers:
        - {name: r, resources: {requests: {cpu: 500m}, limits: {cpu: 4, memory: 4Gi, nvidia.com/gpu: 1}}}
        - {name: s, resources: {requests: {cpu: 9, memory: 9G}, limits: {nvidia.com/mig-1g.5gb: 2, google.com/tpu: 4}}}";
        assert_eq!(desired(spec), ["9500m", "13294967296", "3", "4"]);
        assert_eq!(desired("  headGroupSpec: {template: {spec: {containers: [{name: r}]}}}"), ["0", "0", "0", "0"]);
    }

    #[test]
    fn what_is_added_counts() {
        let template = "{spec: {containers: [{name: r, resources: {requests: {cpu: 1, memory: 1Gi}}}]}}";
        let base = format!(
            "  headGroupSpec: {{template: {template}}}\n  workerGroupSpecs: [{{groupName: w, replicas: 2, template: {template}}}]\n"
        );
        let sidecar = serde_json::json!({"name": "s", "resources": {"limits": {"cpu": "10m"}}});
        let worker_sidecars = vec![serde_json::from_value(sidecar).unwrap()];
        let (plain, with_sidecar) = (PlanConfig::default(), PlanConfig { worker_sidecars, ..PlanConfig::default() });
        for (more, config, cpu, memory) in [
            ("", &plain, "3", "3Gi"),
            ("  enableInTreeAutoscaling: false", &plain, "3", "3Gi"),
            ("  enableInTreeAutoscaling: true", &plain, "3500m", "3584Mi"),
            (
                "  enableInTreeAutoscaling: true\n  autoscalerOptions: {resources: {requests: {cpu: 100m}}}",
                &plain,
                "3100m",
                "3Gi",
            ),
            ("  historyServerOptions: {collectorOptions: {image: i}}", &plain, "3150m", "3264Mi"),
            ("", &with_sidecar, "3020m", "3Gi"),
        ] {
            let [sum_cpu, sum_memory, ..] = desired_with(&format!("{base}{more}"), config);
            assert_eq!([sum_cpu.as_str(), &sum_memory], [cpu, memory], "{more}");
        }
    }
}

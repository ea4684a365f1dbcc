//! How much a cluster asks for when all that is wanted runs.

use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::build::accelerators::is_gpu;
use super::quantity::Amount;
use crate::api::RayCluster;

/// Sums for `status.desired*`; `0` where nothing is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    pub cpu: Quantity,
    pub memory: Quantity,
    /// All GPUs and slices of them, whoever makes them.
    pub gpu: Quantity,
    pub tpu: Quantity,
}

/// The head and every wanted worker, by the containers of their templates: the request, else the limit. Init
/// containers and what operators add do not count (KubeRay's rule). Replicas count within their bounds, so that the
/// sums agree with `desiredWorkerReplicas` (KubeRay multiplies by `replicas` as written).
pub fn desired_resources(cluster: &RayCluster) -> Desired {
    let head = (&cluster.spec.head_group_spec.template, 1);
    let groups = cluster.spec.groups().iter().map(|g| (&g.template, wanted_pods(g.wanted_replicas(), g.hosts())));
    let groups: Vec<_> = std::iter::once(head).chain(groups).collect();
    let total = |counts: &dyn Fn(&str) -> bool| {
        groups
            .iter()
            .fold(Amount::default(), |sum, (t, pods)| sum.plus(template_sum(t, counts).times(*pods)))
            .quantity()
    };
    Desired {
        cpu: total(&|name| name == "cpu"),
        memory: total(&|name| name == "memory"),
        gpu: total(&is_gpu),
        tpu: total(&|name| name == "google.com/tpu"),
    }
}

fn wanted_pods(replicas: i32, hosts: i32) -> u32 {
    replicas.saturating_mul(hosts).max(0).unsigned_abs()
}

fn template_sum(template: &PodTemplateSpec, counts: &dyn Fn(&str) -> bool) -> Amount {
    let containers = template.spec.iter().flat_map(|s| &s.containers);
    containers.flat_map(|c| amounts(c, counts)).fold(Amount::default(), Amount::plus)
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
        let cluster: RayCluster = serde_saphyr::from_str(&format!("metadata: {{name: c}}\nspec:\n{spec}")).unwrap();
        let Desired { cpu, memory, gpu, tpu } = desired_resources(&cluster);
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
}

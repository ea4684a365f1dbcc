//! Which resources of Kubernetes are accelerators, and who asks for them.

use k8s_openapi::api::core::v1::{Container, PodSpec};

use super::RayCluster;

/// Accelerators beside GPUs: Google's, and Amazon's by core, by chip and by device.
const OTHERS: [&str; 4] =
    ["google.com/tpu", "aws.amazon.com/neuroncore", "aws.amazon.com/neuron", "aws.amazon.com/neurondevice"];

/// Whether a resource is a GPU: its name ends in `gpu`, or it is a slice of one (`nvidia.com/mig-1g.5gb`).
pub fn is_gpu(resource: &str) -> bool {
    let name = resource.to_ascii_lowercase();
    name.ends_with("gpu") || name.rsplit_once("nvidia.com/mig-").is_some_and(|(_, slice)| is_mig_slice(slice))
}

/// `<digits>g.<digits>gb`
fn is_mig_slice(slice: &str) -> bool {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let parts = slice.split_once("g.").and_then(|(count, memory)| Some((count, memory.strip_suffix("gb")?)));
    parts.is_some_and(|(count, memory)| digits(count) && digits(memory))
}

/// Whether nodes that have this resource are special. GPUs in every cut count, also those that Ray is not told of.
pub fn is_accelerator(resource: &str) -> bool {
    let cut = resource.starts_with("nvidia.com/mig-") || resource == "nvidia.com/gpu.shared";
    cut || is_gpu(resource) || OTHERS.contains(&resource)
}

/// Whether any pod of the cluster would ask for an accelerator.
pub fn asked_for(cluster: &RayCluster) -> bool {
    let head = &cluster.spec.head_group_spec.template;
    let workers = cluster.spec.groups().iter().map(|g| &g.template);
    std::iter::once(head).chain(workers).filter_map(|t| t.spec.as_ref()).flat_map(containers).any(asks)
}

fn containers(pod: &PodSpec) -> impl Iterator<Item = &Container> {
    pod.init_containers.iter().flatten().chain(&pod.containers)
}

fn asks(container: &Container) -> bool {
    let resources = container.resources.iter();
    resources.flat_map(|r| r.requests.iter().chain(&r.limits).flat_map(|m| m.keys())).any(|name| is_accelerator(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accelerators_are_known_by_name() {
        for (resource, gpu, accelerator) in [
            ("nvidia.com/gpu", true, true),
            ("amd.com/gpu", true, true),
            ("GPU", true, true),
            ("nvidia.com/mig-1g.5gb", true, true),
            ("nvidia.com/mig-3g.20gb", true, true),
            ("nvidia.com/mig-1g.5gb.me", false, true),
            ("nvidia.com/mig-g.5gb", false, true),
            ("nvidia.com/mig-1g.gb", false, true),
            ("google.com/tpu", false, true),
            ("aws.amazon.com/neuroncore", false, true),
            ("aws.amazon.com/neuron", false, true),
            ("nvidia.com/gpu.shared", false, true),
            ("nvidia.com/gpumem", false, false),
            ("rdma/hca", false, false),
            ("cpu", false, false),
        ] {
            assert_eq!((is_gpu(resource), is_accelerator(resource)), (gpu, accelerator), "{resource}");
        }
    }

    #[test]
    fn every_container_of_every_group_can_ask() {
        for (head, worker, asked) in [
            ("{containers: [{name: r}]}", "{containers: [{name: r}]}", false),
            ("{containers: [{name: r, resources: {limits: {google.com/tpu: 4}}}]}", "{containers: [{name: r}]}", true),
            (
                "{containers: [{name: r}]}",
                "{containers: [{name: r}, {name: s, resources: {requests: {amd.com/gpu: 1}}}]}",
                true,
            ),
            (
                "{containers: [{name: r}]}",
                "{containers: [{name: r}], initContainers: [{name: i, resources: {limits: {nvidia.com/gpu: 1}}}]}",
                true,
            ),
        ] {
            let text = format!(
                "spec: {{headGroupSpec: {{template: {{spec: {head}}}}}, workerGroupSpecs: [{{groupName: w, template: {{spec: {worker}}}}}]}}"
            );
            let cluster: RayCluster = serde_saphyr::from_str(&format!("metadata: {{name: c}}\n{text}")).unwrap();
            assert_eq!(asked_for(&cluster), asked, "{text}");
        }
    }
}

//! Did the part of the spec change that `upgradeStrategy: Recreate` answers to?

use crate::api::RayClusterSpec;
use crate::api::names::fnv1a;

/// A hash of the spec without what may change under a running cluster: the numbers of replicas, the autoscaler's
/// victims, the upgrade strategy itself, and tolerations and scheduling gates, which queue controllers inject.
///
/// That is KubeRay's rule, but for `suspend`, which counts there: writing out `suspend: false` would replace a running
/// cluster. The hash is ours. It never meets KubeRay's: a head stamped by another version gets a new stamp before
/// hashes are compared.
pub fn of(spec: &RayClusterSpec) -> String {
    let mut spec = spec.clone();
    spec.upgrade_strategy = None;
    spec.suspend = None;
    let mut templates = vec![&mut spec.head_group_spec.template];
    spec.head_group_spec.ray_start_params.get_or_insert_default();
    for group in spec.worker_group_specs.iter_mut().flatten() {
        group.replicas = None;
        group.min_replicas = None;
        group.max_replicas = None;
        group.suspend = None;
        if let Some(strategy) = &mut group.scale_strategy {
            strategy.workers_to_delete = None;
        }
        // An empty strategy is what is left of the autoscaler's list.
        group.scale_strategy = group.scale_strategy.take().filter(|s| *s != Default::default());
        group.ray_start_params.get_or_insert_default();
        templates.push(&mut group.template);
    }
    for pod in templates.into_iter().filter_map(|t| t.spec.as_mut()) {
        pod.tolerations = None;
        pod.scheduling_gates = None;
    }
    let text = serde_json::to_vec(&spec).unwrap_or_default();
    format!("{:016x}", fnv1a(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> RayClusterSpec {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn only_what_needs_new_pods_counts() {
        let base = r#"{"headGroupSpec": {"template": {"spec": {"containers": [{"name": "ray", "image": "a"}]}}},
                       "workerGroupSpecs": [{"groupName": "w", "replicas": 1}]}"#;
        let hash = of(&spec(base));
        assert_eq!(hash.len(), 16);
        for (from, to, same) in [
            (r#""replicas": 1"#, r#""replicas": 5, "minReplicas": 2, "maxReplicas": 9"#, true),
            (r#""replicas": 1"#, r#""scaleStrategy": {"workersToDelete": ["a"]}"#, true),
            (r#""replicas": 1"#, r#""scaleStrategy": {}"#, true),
            (r#""replicas": 1"#, r#""rayStartParams": {}"#, true),
            (r#""containers""#, r#""tolerations": [{"operator": "Exists"}], "containers""#, true),
            (r#""containers""#, r#""schedulingGates": [{"name": "g"}], "containers""#, true),
            (r#"{"headGroupSpec""#, r#"{"upgradeStrategy": {"type": "Recreate"}, "headGroupSpec""#, true),
            (r#"{"headGroupSpec""#, r#"{"suspend": false, "headGroupSpec""#, true),
            (r#""image": "a""#, r#""image": "b""#, false),
            (r#""replicas": 1"#, r#""suspend": false"#, true),
            (r#""replicas": 1"#, r#""rayStartParams": {"num-cpus": "1"}"#, false),
        ] {
            let changed = base.replace(from, to);
            assert_ne!(changed, base);
            assert_eq!(of(&spec(&changed)) == hash, same, "{to}");
        }
    }
}

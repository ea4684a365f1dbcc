//! RayClusters to test with.

use serde_json::{Value, json};

pub fn template(image: &str) -> Value {
    json!({"spec": {"containers": [{
        "name": "ray", "image": image,
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    }]}})
}

/// A head and groups of so many workers: `[("w", 2)]`.
pub fn cluster(name: &str, groups: &[(&str, i32)]) -> Value {
    let groups: Vec<Value> = groups
        .iter()
        .map(|(group, replicas)| {
            json!({
                "groupName": group, "replicas": replicas, "minReplicas": 0, "maxReplicas": 10, "rayStartParams": {},
                "template": template("registry.test/ray:a"),
            })
        })
        .collect();
    json!({
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name},
        "spec": {
            "rayVersion": "2.52.0",
            "headGroupSpec": {"rayStartParams": {}, "template": template("registry.test/ray:a")},
            "workerGroupSpecs": groups,
        },
    })
}

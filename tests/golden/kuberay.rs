//! Our pods and head Services beside those that KubeRay v1.7 left on an API server for the same RayCluster
//! (`tests/fixtures/kuberay-1.7/`). Every difference is listed here and meant.

use ray_operator::api::RayCluster;
use ray_operator::plan::build::{Identity, head_pod, head_service, headless_service, rbac, worker_pod};
use ray_operator::plan::config::PlanConfig;
use ray_operator::plan::resources::desired_resources;
use serde_json::{Map, Value, json};

/// On every head: `theirs -> ours` by path.
const HEAD: &[&str] = &[
    // Stamps: our own version, and a hash that only we compare.
    "metadata.annotations.ray.io/kuberay-version: \"v1.7.0\" -> \"ray-operator/0.1.0\"",
    "metadata.annotations.ray.io/upgrade-strategy-recreate-hash: * -> *",
    "metadata.annotations.ray.io/template-parts: none -> set",
    "spec.containers.ray.env.RAY_USAGE_STATS_EXTRA_TAGS.value: \"kuberay_version=v1.7.0;kuberay_crd=RayCluster\" -> \
     \"kuberay_version=ray-operator/0.1.0;kuberay_crd=RayCluster\"",
    // A container that ended leaves its last lines in its status, for `Ready` to quote.
    "spec.containers.ray.terminationMessagePolicy: none -> set",
    // No question takes longer than the probe that asks it.
    "spec.containers.ray.livenessProbe.exec.command.2: \"wget … | grep success && wget --tries 1 -T 10 …\" -> \
     \"wget … | grep success && wget --tries 1 -T 5 …\"",
    "spec.containers.ray.readinessProbe.exec.command.2: \"wget … | grep success && wget --tries 1 -T 10 …\" -> \
     \"wget … | grep success && wget --tries 1 -T 5 …\"",
];

/// On every worker.
const WORKER: &[&str] = &[
    // What it was made from, as on the head.
    "metadata.annotations: none -> set",
    "spec.containers.ray.terminationMessagePolicy: none -> set",
    // Scripts of users find the head by this name, in every container.
    "spec.containers.ray.env.RAY_HEAD_ADDRESS: none -> set",
    "spec.initContainers.wait-gcs-ready.env.RAY_ADDRESS: none -> set",
    "spec.initContainers.wait-gcs-ready.env.RAY_HEAD_ADDRESS: none -> set",
];

/// A hash of the wish.
const RIGHTS: &[&str] = &["metadata.annotations: none -> set"];

const SERVICE: &[&str] = &[
    "metadata.annotations: none -> set",
    // Only what no template can change.
    "spec.selector.app.kubernetes.io/created-by: set -> none",
    "spec.selector.app.kubernetes.io/name: set -> none",
    "spec.selector.ray.io/identifier: set -> none",
];

/// Our watch selects by the label.
const HEADLESS: &[&str] = &["metadata.annotations: none -> set", "metadata.labels.ray.io/cluster: none -> set"];

/// Ray's autoscaler leaves its last lines too.
const AUTOSCALER: &[&str] = &["spec.containers.autoscaler.terminationMessagePolicy: none -> set"];
/// Names of replicas end in a hash of the slot, not in random letters.
const SLICES: &[&str] = &["metadata.labels.ray.io/worker-group-replica-name: * -> *"];

#[test]
fn plain() {
    compare(include_str!("../fixtures/kuberay-1.7/plain.yaml"), HEAD, WORKER);
}

#[test]
fn scaled() {
    let compared = compare(include_str!("../fixtures/kuberay-1.7/scaled.yaml"), &[HEAD, AUTOSCALER].concat(), WORKER);
    assert_eq!(compared, 6, "two pods, a Service, and three objects of rights");
}

#[test]
fn slices() {
    let worker = [WORKER, SLICES].concat();
    compare(include_str!("../fixtures/kuberay-1.7/slices.yaml"), HEAD, &worker);
}

#[test]
fn durable() {
    compare(include_str!("../fixtures/kuberay-1.7/durable.yaml"), HEAD, WORKER);
}

fn cluster_name(cluster: &RayCluster) -> String {
    cluster.metadata.name.clone().unwrap()
}

fn compare(fixture: &str, head: &[&str], worker: &[&str]) -> usize {
    let objects: Vec<Value> = serde_saphyr::from_multiple(fixture).unwrap();
    let config = PlanConfig { version: "ray-operator/0.1.0".to_owned(), ..PlanConfig::default() };
    let cluster: RayCluster = serde_json::from_value(objects[0].clone()).unwrap();
    let desired = desired_resources(&cluster, &config);
    let sums = json!({
        "desiredCPU": desired.cpu, "desiredMemory": desired.memory, "desiredGPU": desired.gpu, "desiredTPU": desired.tpu
    });
    let mut theirs = objects[0]["status"].clone();
    if cluster.spec.enable_in_tree_autoscaling == Some(true) {
        // Half a CPU and 512Mi for the autoscaler, which they do not count.
        assert_eq!([&theirs["desiredCPU"], &theirs["desiredMemory"]], ["2", "4Gi"]);
        theirs["desiredCPU"] = json!("2500m");
        theirs["desiredMemory"] = json!("4608Mi");
    }
    for (field, sum) in sums.as_object().unwrap() {
        assert_eq!(sum, &theirs[field], "{field}");
    }

    let mut compared = 0;
    for theirs in &objects {
        let label = |key: &str| theirs["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned();
        let number = |key: &str| label(key).parse().unwrap_or(0);
        let identity = Identity {
            slot: number("ray.io/worker-group-replica-index"),
            host: number("ray.io/replica-host-index"),
            ..Identity::default()
        };
        let (ours, expected) = match (theirs["kind"].as_str().unwrap(), label("ray.io/node-type").as_str()) {
            ("Pod", "head") => (json!(head_pod(&cluster, identity, &config).pod), head),
            ("Pod", _) => {
                let group = cluster.spec.groups().iter().find(|g| g.group_name == label("ray.io/group")).unwrap();
                (json!(worker_pod(&cluster, group, identity, &config).pod), worker)
            }
            ("Service", "head") => (json!(head_service(&cluster, &config)), SERVICE),
            ("Service", _) => (json!(headless_service(&cluster).expect("several hosts")), HEADLESS),
            ("ServiceAccount", _) => (rbac::service_account(&cluster).unwrap().value, RIGHTS),
            ("Role", _) => (rbac::role(&cluster).value, RIGHTS),
            ("RoleBinding", _) => (rbac::role_binding(&cluster, &[cluster_name(&cluster)].into()).value, RIGHTS),
            _ => continue,
        };
        compared += 1;
        let name = theirs["metadata"]["name"].as_str().unwrap();
        same_form(&theirs["metadata"], &ours["metadata"]);
        in_order(&theirs["spec"], &ours["spec"]);
        let mut found = Vec::new();
        differences("", &as_written(theirs), &as_written(&ours), &mut found);
        let mut expected: Vec<&str> = expected.to_vec();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "{name}");
    }
    assert!(compared > 2, "the fixture has pods and a Service");
    compared
}

/// `generateName` plus five letters, or the same name.
fn same_form(theirs: &Value, ours: &Value) {
    let name = ours["name"].as_str().unwrap();
    match theirs["generateName"].as_str() {
        Some(prefix) => assert!(name.strip_prefix(prefix).is_some_and(|s| s.len() == 5), "{name} for {prefix}"),
        None => assert_eq!(theirs["name"], name),
    }
}

/// Variables that both set come in the same order.
fn in_order(theirs: &Value, ours: &Value) {
    for list in ["containers", "initContainers"] {
        for (a, b) in theirs[list].as_array().into_iter().flatten().zip(ours[list].as_array().into_iter().flatten()) {
            let names = |c: &Value| -> Vec<String> {
                c["env"].as_array().into_iter().flatten().map(|e| e["name"].as_str().unwrap().to_owned()).collect()
            };
            let (a, b) = (names(a), names(b));
            let common = |of: &[String], with: &[String]| -> Vec<String> {
                of.iter().filter(|n| with.contains(n)).cloned().collect()
            };
            assert_eq!(common(&a, &b), common(&b, &a));
        }
    }
}

/// The object without what the API server, the kubelet and the scheduler filled in, lists turned into maps by name.
fn as_written(object: &Value) -> Value {
    let mut object = object.clone();
    let top = object.as_object_mut().unwrap();
    top.retain(|key, _| !["apiVersion", "kind", "status"].contains(&key.as_str()));
    let metadata = top["metadata"].as_object_mut().unwrap();
    for key in ["creationTimestamp", "generateName", "generation", "name", "resourceVersion", "uid"] {
        metadata.remove(key);
    }
    let Some(spec) = top.get_mut("spec").and_then(Value::as_object_mut) else { return object };
    let defaults = json!({
        "dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority", "priority": 0,
        "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {},
        "serviceAccountName": "default", "terminationGracePeriodSeconds": 30, "clusterIPs": ["None"],
        "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None"
    });
    drop_defaults(spec, &defaults);
    spec.remove("tolerations");
    spec.remove("serviceAccount");
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            container_as_written(container.as_object_mut().unwrap());
        }
        by_key(spec, list, "name");
    }
    without_token(spec, "volumes");
    by_key(spec, "volumes", "name");
    if let Some(Value::Array(ports)) = spec.get_mut("ports") {
        for port in ports.iter_mut().filter_map(Value::as_object_mut) {
            let target = json!({"protocol": "TCP", "targetPort": port["port"].clone()});
            drop_defaults(port, &target);
        }
    }
    object
}

fn container_as_written(container: &mut Map<String, Value>) {
    drop_defaults(
        container,
        &json!({
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent"
        }),
    );
    if container["name"] == "wait-gcs-ready" {
        // The fixture leaves out KubeRay's script, ours is our own.
        container.remove("command");
        container.remove("args");
    }
    for var in container.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(field) = var.pointer_mut("/valueFrom/fieldRef").and_then(Value::as_object_mut) {
            field.remove("apiVersion");
        }
    }
    for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        drop_defaults(port.as_object_mut().unwrap(), &json!({"protocol": "TCP"}));
    }
    if let Some(resources) = container.get_mut("resources").and_then(Value::as_object_mut) {
        let limits = resources.get("limits").cloned();
        resources.entry("requests").or_insert_with(|| limits.unwrap_or_default());
    }
    without_token(container, "volumeMounts");
    by_key(container, "env", "name");
    by_key(container, "volumeMounts", "mountPath");
}

fn drop_defaults(object: &mut Map<String, Value>, defaults: &Value) {
    object.retain(|key, value| defaults.get(key) != Some(value));
}

/// Drops the service account's token, which the API server mounts.
fn without_token(object: &mut Map<String, Value>, list: &str) {
    if let Some(Value::Array(items)) = object.get_mut(list) {
        items.retain(|i| !i["name"].as_str().unwrap_or_default().starts_with("kube-api-access-"));
        if items.is_empty() {
            object.remove(list);
        }
    }
}

fn by_key(object: &mut Map<String, Value>, list: &str, key: &str) {
    if let Some(Value::Array(items)) = object.get(list) {
        let map: Map<_, _> = items.iter().map(|i| (i[key].as_str().unwrap().to_owned(), i.clone())).collect();
        assert_eq!(map.len(), items.len(), "{list} has each {key} once");
        object.insert(list.to_owned(), Value::Object(map));
    }
}

fn differences(path: &str, theirs: &Value, ours: &Value, found: &mut Vec<String>) {
    let at = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match (theirs, ours) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|k| !a.contains_key(*k))) {
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => differences(&at(key), a, b, found),
                    (Some(_), None) => found.push(format!("{}: set -> none", at(key))),
                    _ => found.push(format!("{}: none -> set", at(key))),
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                differences(&at(&i.to_string()), a, b, found);
            }
        }
        _ if theirs == ours => {}
        _ if path.ends_with("-hash") || path.ends_with("-replica-name") => found.push(format!("{path}: * -> *")),
        _ => found.push(format!("{path}: {} -> {}", shortened(theirs), shortened(ours))),
    }
}

/// A probe's command with its constant parts left out.
fn shortened(value: &Value) -> String {
    let text = value.to_string();
    let raylet = "wget --tries 1 -T 2 -q -O- http://localhost:52365/api/local_raylet_healthz | grep success";
    let gcs = "-q -O- http://localhost:8265/api/gcs_healthz | grep success";
    text.replace(raylet, "wget … | grep success").replace(gcs, "…")
}

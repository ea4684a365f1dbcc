//! What `validation` says of a RayCluster: one case per rule, and the same words as at admission.

use std::path::Path;

use ray_operator::api::RayCluster;
use ray_operator::api::validation::raycluster;
use serde_json::{Value, json};

const BASE: &str = "
metadata: {name: c}
spec:
  headGroupSpec: {template: {spec: {containers: [{name: head}]}}}
  workerGroupSpecs:
  - {groupName: g, template: {spec: {containers: [{name: worker}]}}}
";

/// Overrides of [`BASE`], one per line: paths (`H` the head, `G` the group) and values. Each is to break one rule.
const CASES: &str = r#"
metadata.name: Upper
metadata.name: a-name-of-more-than-fifty-three-letters-is-refused-here
H.template: {}
H.template: {spec: {containers: []}}
H.resources: {CPU: "1"}, H.rayStartParams: {num-cpus: "1"}
H.rayStartParams: {labels: a=b}
H.labels: {"a b": c}
H.labels: {a: "c d"}
H.rayStartParams: {port: http}
H.rayStartParams: {num-cpus: "-1"}
H.rayStartParams: {memory: 2Gi}
H.rayStartParams: {block: maybe}
H.rayStartParams: {redis-username: u}
H.template.spec.containers.0.env: [{name: REDIS_USERNAME, value: u}]
G.template: {}
G.groupName: ""
G.groupName: gpu_large
G.groupName: a-.b
G.groupName: headgroup
spec.workerGroupSpecs.1: {groupName: g, template: {spec: {containers: [{name: worker}]}}}
G.replicas: -1
G.minReplicas: -1
G.maxReplicas: -1
G.minReplicas: 3, G.maxReplicas: 2
G.numOfHosts: 0
G.resources: {CPU: "1"}, G.rayStartParams: {resources: "{}"}
G.idleTimeoutSeconds: 5
G.idleTimeoutSeconds: -5, spec.autoscalerOptions: {version: v2}
G.priority: 5, spec.rayVersion: 2.55.0, spec.autoscalerOptions: {version: v2}
G.priority: 5, spec.rayVersion: 2.56.0
metadata.annotations: {ray.io/ft-enabled: "true"}, spec.gcsFaultToleranceOptions: {redisAddress: "r:1"}
H.template.spec.containers.0.env: [{name: RAY_REDIS_ADDRESS, value: "r:1"}]
spec.gcsFaultToleranceOptions: {}, H.rayStartParams: {redis-password: p}
spec.gcsFaultToleranceOptions: {}, H.template.spec.containers.0.env: [{name: REDIS_PASSWORD, value: p}]
spec.gcsFaultToleranceOptions: {}, H.template.spec.containers.0.env: [{name: RAY_REDIS_ADDRESS, value: "r:1"}]
spec.gcsFaultToleranceOptions: {}, metadata.annotations: {ray.io/external-storage-namespace: mine}
spec.gcsFaultToleranceOptions: {backend: etcd}
spec.gcsFaultToleranceOptions: {backend: rocksdb, redisPassword: {value: p}}
spec.gcsFaultToleranceOptions: {backend: rocksdb, storage: {claimName: c, size: 1Gi}}
spec.gcsFaultToleranceOptions: {backend: rocksdb}, H.template.spec.containers.0.env: [{name: RAY_gcs_storage, value: x}]
spec.gcsFaultToleranceOptions: {backend: rocksdb}, H.template.spec.containers.0.volumeMounts: [{name: v, mountPath: /data/gcs/}]
spec.gcsFaultToleranceOptions: {backend: rocksdb}, H.template.spec.volumes: [{name: gcs-storage}]
spec.gcsFaultToleranceOptions: {storage: {size: 1Gi}}
H.template.spec.containers.0.env: [{name: RAY_enable_autoscaler_v2, value: "1"}]
spec.enableInTreeAutoscaling: true, G.suspend: true
spec.enableInTreeAutoscaling: true, spec.autoscalerOptions: {version: v1}, H.template.spec.containers.0.env: [{name: RAY_enable_autoscaler_v2, value: "true"}]
spec.enableInTreeAutoscaling: true, spec.autoscalerOptions: {version: v2}, H.template.spec.restartPolicy: Always
spec.enableInTreeAutoscaling: true, spec.autoscalerOptions: {version: v2}, G.template.spec.restartPolicy: OnFailure
spec.autoscalerOptions: {idleTimeoutSeconds: -1}
spec.autoscalerOptions: {env: [{name: KUBERAY_GEN_AUTOSCALER_START_CMD}]}
spec.enableInTreeAutoscaling: true, H.template.spec.containers.1: {name: autoscaler}
spec.historyServerOptions: {}
spec.historyServerOptions: {collectorOptions: {image: i, env: [{name: STORAGE_BACKEND, value: X}, {name: RAY_ROLE, value: Head}]}}
spec.historyServerOptions: {collectorOptions: {image: i}}
spec.historyServerOptions: {collectorOptions: {image: i, env: [{name: STORAGE_BACKEND, value: S3}]}}
spec.historyServerOptions: {collectorOptions: {image: i, env: [{name: STORAGE_BACKEND, value: AZUREBLOB}]}}
spec.historyServerOptions: {collectorOptions: {image: i, env: [{name: STORAGE_BACKEND, value: X}]}}, G.template.spec.containers.1: {name: ray-history-collector}
spec.authOptions: {mode: token}
spec.authOptions: {mode: token}, spec.rayVersion: 2.51.9
spec.authOptions: {secretName: s}
spec.authOptions: {enableK8sTokenAuth: true}
spec.authOptions: {mode: token, enableK8sTokenAuth: true}, spec.rayVersion: 2.54.0
spec.authOptions: {mode: token, enableK8sTokenAuth: true, secretName: s}, spec.rayVersion: 2.55.0
spec.networkPolicy: {mode: DenyAllEgress, head: {ingressRules: [{}]}}
spec.networkPolicy: {mode: DenyAllIngress, workerGroups: [{groupName: g, egressRules: [{}]}]}
spec.networkPolicy: {mode: DenyAll}, G.groupName: Upper
spec.networkPolicy: {mode: DenyAll, workerGroups: [{groupName: other}]}
spec.tlsOptions: {enabled: true}, H.template.spec.containers.0.env: [{name: RAY_USE_TLS, value: "1"}]
spec.tlsOptions: {enabled: true}, G.template.spec.containers.0.volumeMounts: [{name: ray-tls, mountPath: /x}]
spec.tlsOptions: {enabled: true}, spec.autoscalerOptions: {env: [{name: RAY_TLS_CA_CERT, value: x}]}
spec.upgradeStrategy: {type: Replace}
spec.upgradeStrategy: {type: Recreate}, metadata.labels: {ray.io/originated-from-crd: RayJob}
"#;

fn put(target: &mut Value, path: &str, value: Value) {
    let (key, rest) = path.split_once('.').unwrap_or((path, ""));
    let slot = match key.parse::<usize>() {
        Ok(i) => {
            let list = target.as_array_mut().unwrap();
            if i == list.len() {
                list.push(Value::Null);
            }
            &mut list[i]
        }
        Err(_) => target.as_object_mut().unwrap().entry(key).or_insert_with(|| json!({})),
    };
    if rest.is_empty() { *slot = value } else { put(slot, rest, value) }
}

fn cluster(case: &str) -> RayCluster {
    let mut object: Value = serde_saphyr::from_str(BASE).unwrap();
    let overrides: serde_json::Map<String, Value> = serde_saphyr::from_str(&format!("{{{case}}}")).unwrap();
    for (path, value) in overrides {
        let path = match path.split_once('.') {
            Some(("H", rest)) => format!("spec.headGroupSpec.{rest}"),
            Some(("G", rest)) => format!("spec.workerGroupSpecs.0.{rest}"),
            _ => path,
        };
        put(&mut object, &path, value);
    }
    read(object)
}

fn read(mut object: Value) -> RayCluster {
    object["apiVersion"] = "ray.io/v1".into();
    object["kind"] = "RayCluster".into();
    serde_json::from_value(object).unwrap()
}

#[test]
fn each_rule_says_what_to_change() {
    let mut text = String::new();
    for case in CASES.trim().lines() {
        let faults = raycluster(&cluster(case));
        assert!(!faults.is_empty(), "nothing is wrong with {case}");
        text += &format!("{case}\n");
        for fault in faults {
            text += &format!("    {}: {}\n", fault.field, fault.message);
        }
    }
    insta::assert_snapshot!(text);
}

#[test]
fn what_is_right_is_not_refused() {
    for case in [
        "",
        "G.replicas: 9, G.minReplicas: 0, G.maxReplicas: 3",
        "G.groupName: Gpu-Large.A",
        r#"H.rayStartParams: {num-cpus: "$CPUS", memory: "1000000", block: "TRUE", include-dashboard: "no", other: thing}"#,
        "spec.enableInTreeAutoscaling: true, spec.autoscalerOptions: {version: v2}, G.template.spec.restartPolicy: Never",
        "spec.enableInTreeAutoscaling: true, spec.autoscalerOptions: {version: v1}, G.template.spec.restartPolicy: Always",
        "metadata.annotations: {ray.io/ft-enabled: 'true'}, H.template.spec.containers.0.env: [{name: RAY_REDIS_ADDRESS, value: r}]",
        "spec.authOptions: {mode: token}, spec.rayVersion: v2.52.0",
        "spec.networkPolicy: {}, spec.tlsOptions: {}, spec.gcsFaultToleranceOptions: {}",
        "spec.upgradeStrategy: {type: Recreate}",
    ] {
        assert_eq!(raycluster(&cluster(case)), [], "{case}");
    }
}

fn yaml_in(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    files.iter().map(|p| (p.display().to_string(), std::fs::read_to_string(p).unwrap())).collect()
}

#[test]
fn what_admission_refuses_is_refused_here_in_the_same_words() {
    // Where the API server speaks for itself, or where only a change is wrong.
    let not_ours = [
        "in body",
        "supported values",
        "Required value",
        "Too long",
        "not declared",
        "duplicate entries",
        "cannot change",
    ];
    let mut compared = 0;
    for (path, text) in yaml_in("admission/refused") {
        let wanted = text.lines().next().unwrap().strip_prefix("# refused: ").unwrap();
        let document: Value = serde_saphyr::from_multiple::<Value>(&text).unwrap().pop().unwrap();
        if document["kind"] != "RayCluster" || not_ours.iter().any(|n| wanted.contains(n)) {
            continue;
        }
        let faults = raycluster(&read(document));
        assert!(faults.iter().any(|f| f.message.contains(wanted)), "{path}: {faults:#?}");
        compared += 1;
    }
    assert!(compared > 25, "only {compared} cases were compared");
}

#[test]
fn what_admission_accepts_is_accepted_here() {
    for folder in ["admission/accepted", "samples", "fixtures/kuberay-1.7"] {
        for (path, text) in yaml_in(folder) {
            for document in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
                if document["kind"] == "RayCluster" {
                    assert_eq!(raycluster(&read(document)), [], "{path}");
                }
            }
        }
    }
}

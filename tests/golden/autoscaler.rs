//! Ray's autoscaler beside the head, and what it may do.

use crate::common::{cluster, config, env, first_worker, head, head_with, ray, snapshot};
use ray_operator::plan::build::rbac;
use ray_operator::plan::config::PlanConfig;
use serde_json::{Value, json};

fn autoscaler(pod: &Value) -> Option<&Value> {
    pod["spec"]["containers"].as_array().unwrap().iter().find(|c| c["name"] == "autoscaler")
}

/// What of a head pod has to do with the autoscaler.
fn of_head(pod: &Value) -> Value {
    let names: Vec<&Value> = pod["spec"]["containers"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    json!({
        "containers": names, "autoscaler": autoscaler(pod), "volumes": pod["spec"]["volumes"],
        "mounts of Ray": ray(pod)["volumeMounts"], "serviceAccountName": pod["spec"]["serviceAccountName"],
    })
}

#[test]
fn minimal() {
    let given = "
metadata: {name: scaled}
spec:
  enableInTreeAutoscaling: true
  headGroupSpec:
    template: {spec: {containers: [{name: ray, image: 'rayproject/ray:2.52.0'}, {name: own, image: side}]}}
";
    snapshot("autoscaler_minimal", given, &of_head(&head(&cluster(given))));
}

#[test]
fn all_options() {
    let given = "
metadata: {name: scaled}
spec:
  enableInTreeAutoscaling: true
  autoscalerOptions:
    version: v2
    resources: {requests: {cpu: 100m}, limits: {memory: 1Gi}}
    image: registry.test/autoscaler:1
    imagePullPolicy: Always
    securityContext: {runAsUser: 1000}
    env: [{name: RAY_HEAD_POD_NAME, value: mine}, {name: LOG_LEVEL, value: debug}]
    envFrom: [{configMapRef: {name: settings}}]
    volumeMounts: [{name: settings, mountPath: /etc/settings}]
    command: [/bin/sh, -c]
    args: ['sleep 1; $KUBERAY_GEN_AUTOSCALER_START_CMD']
    idleTimeoutSeconds: 20
    upscalingMode: Conservative
  headGroupSpec:
    template:
      spec:
        volumes: [{name: settings, configMap: {name: settings}}]
        containers: [{name: ray, image: 'rayproject/ray:2.52.0', imagePullPolicy: Never}]
";
    snapshot("autoscaler_all_options", given, &of_head(&head(&cluster(given))));
}

#[test]
fn empty_options_leave_the_defaults() {
    let made = |options: &str| {
        head(&cluster(&format!(
            "
metadata: {{name: scaled}}
spec:
  enableInTreeAutoscaling: true
  autoscalerOptions: {options}
  headGroupSpec: {{template: {{spec: {{containers: [{{name: ray, image: r}}]}}}}}}
"
        )))
    };
    let plain = made("{}");
    assert_eq!(autoscaler(&plain).unwrap()["image"], "r");
    for options in ["{image: ''}", "{command: [], args: []}", "{env: [], imagePullPolicy: ''}"] {
        assert_eq!(autoscaler(&made(options)), autoscaler(&plain), "{options}");
    }
}

#[test]
fn what_is_added_can_log_in() {
    let given = "
metadata: {name: c}
spec:
  rayVersion: 2.52.0
  enableInTreeAutoscaling: true
  authOptions: {mode: token}
  autoscalerOptions: {env: [{name: LAST, value: $(RAY_AUTH_TOKEN)}]}
  historyServerOptions: {collectorOptions: {image: i, env: [{name: STORAGE_BACKEND, value: local}]}}
  headGroupSpec: {template: {spec: {containers: [{name: ray}]}}}
";
    let pod = head(&cluster(given));
    for (place, name) in [(1, "autoscaler"), (2, "ray-history-collector")] {
        let container = &pod["spec"]["containers"][place];
        assert_eq!(container["name"], name);
        let all = env(container);
        assert!(all.iter().any(|v| v == "RAY_AUTH_MODE=token"), "{name}: {all:?}");
        assert!(all.iter().any(|v| v.starts_with("RAY_AUTH_TOKEN <- ")), "{name}: {all:?}");
    }
    let own = env(autoscaler(&pod).unwrap());
    assert_eq!(own.last().unwrap(), "LAST=$(RAY_AUTH_TOKEN)", "the user's may refer to it");
}

#[test]
fn under_a_login_shell() {
    let given = "
metadata: {name: scaled}
spec: {enableInTreeAutoscaling: true, headGroupSpec: {template: {spec: {containers: [{name: ray}]}}}}
";
    let pod = head_with(&cluster(given), &PlanConfig { login_shell: true, ..config() });
    assert_eq!(autoscaler(&pod).unwrap()["command"], json!(["/bin/bash", "-cl", "--"]));
}

#[test]
fn only_the_head_and_only_when_it_is_on() {
    for (switch, has) in [("true", true), ("false", false)] {
        let c = cluster(&format!(
            "
metadata: {{name: c}}
spec:
  enableInTreeAutoscaling: {switch}
  autoscalerOptions: {{image: i}}
  headGroupSpec: {{template: {{spec: {{serviceAccountName: mine, containers: [{{name: ray}}]}}}}}}
  workerGroupSpecs: [{{groupName: w, template: {{spec: {{containers: [{{name: ray}}]}}}}}}]
"
        ));
        assert_eq!(autoscaler(&head(&c)).is_some(), has);
        assert_eq!(head(&c)["spec"]["serviceAccountName"], "mine");
        let worker = first_worker(&c);
        assert!(autoscaler(&worker).is_none() && worker["spec"]["serviceAccountName"].is_null());
    }
}

/// Where the user keeps Ray's logs, the autoscaler reads them.
#[test]
fn a_volume_of_the_user_for_logs() {
    let mut made = serde_json::Map::new();
    for (case, mount) in [
        ("a claim", "{name: mine, mountPath: /tmp/ray/}"),
        ("a part of it", "{name: mine, mountPath: /tmp/ray, subPath: logs}"),
        ("a part known inside only", "{name: mine, mountPath: /tmp/ray, subPathExpr: $(POD_NAME)}"),
        ("a volume of our name", "{name: ray-logs, mountPath: /tmp/ray}"),
    ] {
        let pod = head(&cluster(&format!(
            "
metadata: {{name: c}}
spec:
  enableInTreeAutoscaling: true
  headGroupSpec:
    template:
      spec:
        volumes: [{{name: mine, persistentVolumeClaim: {{claimName: logs}}}}, {{name: shared-mem, emptyDir: {{}}}}]
        containers: [{{name: ray, volumeMounts: [{mount}]}}]
"
        )));
        let names: Vec<&Value> = pod["spec"]["volumes"].as_array().unwrap().iter().map(|v| &v["name"]).collect();
        let (of_ray, of_autoscaler) = (&ray(&pod)["volumeMounts"], &autoscaler(&pod).unwrap()["volumeMounts"]);
        made.insert(case.to_owned(), json!({"volumes": names, "Ray": of_ray, "autoscaler": of_autoscaler}));
    }
    snapshot("autoscaler_logs", "{}", &Value::Object(made));
}

fn rights(given: &str) -> Value {
    let c = cluster(given);
    let account = rbac::Account::of(&c).unwrap();
    json!({
        "account": rbac::service_account(&c).map(|m| m.value), "role": rbac::role(&c).value,
        "binding": rbac::role_binding(&c, &[account.name].into()).value,
        "head runs as": head(&c)["spec"]["serviceAccountName"],
    })
}

#[test]
fn rights_of_an_account_of_ours() {
    let given = "
metadata: {name: scaled}
spec: {enableInTreeAutoscaling: true, headGroupSpec: {template: {spec: {containers: [{name: ray}]}}}}
";
    snapshot("autoscaler_rights", given, &rights(given));
}

#[test]
fn rights_of_an_account_of_the_user() {
    let long = format!("account-{}", "x".repeat(60));
    for field in ["serviceAccountName", "serviceAccount"] {
        let made = rights(&format!(
            "
metadata: {{name: scaled}}
spec: {{enableInTreeAutoscaling: true, headGroupSpec: {{template: {{spec: {{{field}: {long}, containers: [{{name: ray}}]}}}}}}}}
"
        ));
        assert_eq!(made["account"], Value::Null, "it is not ours to make");
        assert_eq!(made["head runs as"], json!(long), "whole, as the user wrote it");
        assert_eq!(made["binding"]["subjects"], json!([{"kind": "ServiceAccount", "name": long, "namespace": "ns"}]));
        assert_eq!(made["binding"]["roleRef"]["name"], "scaled");
    }
}

#[test]
fn clusters_whose_names_end_alike_share_nothing() {
    let made = |start: &str| {
        let name = format!("{start}-b23456789-c23456789-d23456789-e23456789-f23456789");
        assert_eq!(name.len(), 53);
        rights(&format!(
            "
metadata: {{name: {name}}}
spec: {{enableInTreeAutoscaling: true, headGroupSpec: {{template: {{spec: {{containers: [{{name: ray}}]}}}}}}}}
"
        ))
    };
    let (one, other) = (made("abc"), made("xyz"));
    for object in ["account", "role", "binding"] {
        assert_ne!(one[object]["metadata"]["name"], other[object]["metadata"]["name"], "{object}");
    }
    assert_eq!(one["head runs as"], one["account"]["metadata"]["name"]);
    assert_eq!(one["binding"]["roleRef"]["name"], one["role"]["metadata"]["name"]);
}

#[test]
fn variables_stay_in_order() {
    let given = "
metadata: {name: c}
spec:
  enableInTreeAutoscaling: true
  autoscalerOptions: {env: [{name: A, value: $(RAY_CLUSTER_NAME)}, {name: RAY_CLUSTER_NAME, value: mine}]}
  headGroupSpec: {template: {spec: {containers: [{name: ray}]}}}
";
    let pod = head(&cluster(given));
    let all = env(autoscaler(&pod).unwrap());
    assert_eq!(all[0], "RAY_CLUSTER_NAME=mine", "the user's wins, where others may refer to it");
    assert_eq!(all.last().unwrap(), "A=$(RAY_CLUSTER_NAME)");
    assert_eq!(all.len(), 6);
}

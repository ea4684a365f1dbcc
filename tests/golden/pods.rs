//! Names, metadata, environment, probes and volumes of pods.

use crate::common::{MINIMAL, cluster, config, env, first_worker, head, head_with, ray, snapshot, value, worker};
use ray_operator::plan::build::{self, Identity, head_external_service, head_service};
use ray_operator::plan::config::PlanConfig;
use serde_json::{Value, json};

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

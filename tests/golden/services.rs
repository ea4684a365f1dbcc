//! Through which Services and addresses the head is reached.

use crate::common::{MINIMAL, cluster, config, env, first_worker, head, ray, snapshot};
use ray_operator::plan::build::{head_external_service, head_service, headless_service, serve_service};
use ray_operator::plan::config::PlanConfig;
use serde_json::{Value, json};

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

#[test]
fn each_number_stands_once_in_a_service() {
    let given = "
metadata: {name: c}
spec:
  headGroupSpec:
    headService: {spec: {ports: [{name: web, port: 8265}]}}
    template: {spec: {containers: [{name: ray, ports: [{name: http, containerPort: 8080}, {name: dashboard, containerPort: 8265}]}]}}
";
    let c = cluster(given);
    let ports = head_service(&c, &config()).spec.unwrap().ports.unwrap();
    let listed: Vec<_> = ports.iter().map(|p| (p.name.as_deref().unwrap(), p.port)).collect();
    assert_eq!(listed, [("http", 8080), ("web", 8265)]);
    assert_eq!(ray(&head(&c))["ports"].as_array().unwrap().len(), 2, "no second 8080 in the pod");
}

#[test]
fn services_that_lead_to_workers() {
    let given = "
metadata: {name: c, annotations: {ray.io/enable-serve-service: 'true'}}
spec:
  headGroupSpec:
    serviceType: NodePort
    template: {spec: {containers: [{name: ray, ports: [{name: serve-grpc, containerPort: 9000}, {name: serve, containerPort: 8001}, {name: dashboard, containerPort: 8265}]}]}}
  workerGroupSpecs:
  - groupName: tpu
    numOfHosts: 2
    template: {spec: {containers: [{name: ray}]}}
";
    let c = cluster(given);
    snapshot("worker_services", given, &json!({"hosts": headless_service(&c), "serve": serve_service(&c)}));

    let plain = cluster(MINIMAL);
    assert_eq!((headless_service(&plain), serve_service(&plain)), (None, None));
    assert_eq!(serve_service(&cluster(&given.replace("'true'", "'yes'"))), None);
    let unnamed = serve_service(&cluster(&given.replace("name: serve", "name: http"))).unwrap().spec.unwrap();
    let ports: Vec<_> = unnamed.ports.iter().flatten().map(|p| (p.name.as_deref().unwrap(), p.port)).collect();
    assert_eq!(ports, [("serve", 8000)], "Serve's own port when the head names none");
}

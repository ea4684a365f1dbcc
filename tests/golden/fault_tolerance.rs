//! What keeps Ray's state over the loss of a head: Redis with its cleanup, or a claim.

use crate::common::{args, cluster, config, env, first_worker, head, ray, snapshot};
use k8s_openapi::jiff::Timestamp;
use ray_operator::api::RayCluster;
use ray_operator::api::children::Kind;
use ray_operator::observe::seen::Seen;
use ray_operator::plan::config::PlanConfig;
use ray_operator::plan::raycluster::plan;
use ray_operator::plan::{Action, Object, Stage, Step};
use serde_json::{Value, json};

/// A cluster with these options and annotations; `more` stands in the head's Ray container.
fn given(annotations: &str, spec: &str, params: &str, more: &str) -> String {
    format!(
        "
metadata: {{name: c, annotations: {annotations}}}
spec:
  {spec}
  headGroupSpec:
    rayStartParams: {params}
    template:
      metadata: {{labels: {{team: a}}, finalizers: [example.com/hold]}}
      spec:
        serviceAccountName: mine
        nodeSelector: {{disk: ssd}}
        initContainers: [{{name: prepare, image: busybox}}]
        containers:
        - {{name: ray, image: 'rayproject/ray:2.52.0', lifecycle: {{preStop: {{exec: {{command: [ray, stop]}}}}}}{more}}}
        - {{name: logs, image: logs}}
  workerGroupSpecs:
  - groupName: w
    replicas: 1
    template: {{spec: {{containers: [{{name: ray, image: 'rayproject/ray:2.52.0'}}]}}}}
"
    )
}

/// What bears on fault tolerance in a pod.
fn shown(pod: &Value) -> Value {
    let about = |e: &String| ["REDIS", "storage", "reconnect"].iter().any(|word| e.contains(word));
    let marks = pod["metadata"]["annotations"].as_object().into_iter().flatten();
    let marks: Vec<String> = marks
        .filter(|(k, _)| k.contains("ft-enabled") || k.contains("storage"))
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap()))
        .collect();
    let text = args(pod)[0].as_str().unwrap();
    let params: Vec<&str> = text.split_whitespace().filter(|w| w.contains("redis")).collect();
    let list =
        |of: &Value| of.as_array().into_iter().flatten().filter(|v| v["name"] == "gcs-storage").cloned().collect();
    let (mounts, volumes): (Vec<Value>, Vec<Value>) = (list(&ray(pod)["volumeMounts"]), list(&pod["spec"]["volumes"]));
    json!({
        "annotations": marks, "env": env(ray(pod)).into_iter().filter(about).collect::<Vec<_>>(), "ray start": params,
        "mounts": mounts, "volumes": volumes,
    })
}

fn pods(text: &str) -> Value {
    let c = cluster(text);
    json!({"head": shown(&head(&c)), "worker": shown(&first_worker(&c))})
}

fn steps(c: &RayCluster, now: Timestamp) -> Vec<Step> {
    plan(c, &Seen::default(), now, &config()).steps
}

const OPTIONS: &str = "gcsFaultToleranceOptions: {redisAddress: 'redis:6379', redisUsername: {value: me}, redisPassword: {valueFrom: \
                       {secretKeyRef: {name: redis, key: password}}}}";

#[test]
fn redis_by_options() {
    let text = given("{}", OPTIONS, "{}", "");
    snapshot("redis_by_options", &text, &pods(&text));
}

#[test]
fn redis_with_a_storage_namespace_of_the_user() {
    let options = "gcsFaultToleranceOptions: {redisAddress: 'rediss://redis:6380', externalStorageNamespace: team-a}";
    let text = given("{}", options, "{}", "");
    snapshot("redis_namespace", &text, &pods(&text));
}

#[test]
fn redis_by_the_older_annotation() {
    let marks = "{ray.io/ft-enabled: 'true', ray.io/external-storage-namespace: old}";
    let more = ", env: [{name: RAY_REDIS_ADDRESS, value: 'redis:6379'}]";
    let text = given(marks, "rayVersion: 2.52.0", "{redis-password: secret}", more);
    snapshot("redis_by_annotation", &text, &pods(&text));
}

#[test]
fn options_without_an_address_are_told_of() {
    let c = cluster(&given("{}", "gcsFaultToleranceOptions: {}", "{}", ""));
    let remarks = head(&c)["remarks"].clone();
    assert!(remarks[0].as_str().unwrap().contains("redisAddress"), "{remarks}");
    assert!(steps(&c, Timestamp::UNIX_EPOCH).iter().all(|s| s.action.kind() != Kind::RayCluster), "nothing to clean");
}

#[test]
fn the_cleanup_job() {
    for (name, deleted) in
        [("redis_cleanup_job", "[]"), ("redis_cleanup_job_in_the_foreground", "[foregroundDeletion]")]
    {
        let marks = "{ray.io/redis-cleanup-resources: 'cpu=500m, memory=nonsense'}";
        let mut c = cluster(&given(marks, OPTIONS, "{}", ""));
        c.metadata.deletion_timestamp = serde_json::from_value(json!("1970-01-01T00:00:00Z")).unwrap();
        let mut finalizers: Vec<String> = serde_saphyr::from_str(deleted).unwrap();
        finalizers.push("ray.io/gcs-ft-redis-cleanup-finalizer".to_owned());
        c.metadata.finalizers = Some(finalizers);
        let made = steps(&c, Timestamp::UNIX_EPOCH);
        let [Step { action: Action::Create(Object::Other(job)), reason: "CreatedRedisCleanupJob", .. }] = &made[..]
        else {
            panic!("{made:?}")
        };
        let mut job = job.value.clone();
        let hash = job["metadata"]["annotations"].as_object_mut().unwrap().remove("ray.io/applied-hash");
        assert!(hash.is_some());
        snapshot(name, &json!(c).to_string(), &job);
    }
}

#[test]
fn finalizers_of_others_stay_as_they_are() {
    let mut c = cluster(&given("{}", OPTIONS, "{}", ""));
    c.metadata.resource_version = Some("7".to_owned());
    c.metadata.finalizers = Some(vec!["example.com/a".to_owned(), "example.com/b".to_owned()]);
    let patch = |c: &RayCluster, config: &PlanConfig| {
        let steps = plan(c, &Seen::default(), Timestamp::UNIX_EPOCH, config).steps;
        steps.into_iter().find_map(|step| match step.action {
            Action::Patch(own) if own.kind == Kind::RayCluster => Some((step.stage, own.value)),
            _ => None,
        })
    };
    let of = |all: &[&str]| json!({"metadata": {"uid": "6f1c", "resourceVersion": "7", "finalizers": all}});
    let ours = "ray.io/gcs-ft-redis-cleanup-finalizer";
    let added = of(&["example.com/a", "example.com/b", ours]);
    assert_eq!(patch(&c, &config()), Some((Stage::Guard, added)));

    let off = PlanConfig { redis_cleanup: false, ..config() };
    assert_eq!(patch(&c, &off), None);
    c.metadata.finalizers = Some(vec!["example.com/a".to_owned(), ours.to_owned(), "example.com/b".to_owned()]);
    assert_eq!(patch(&c, &off), Some((Stage::Others, of(&["example.com/a", "example.com/b"]))));
    assert_eq!(patch(&c, &config()), None, "it is there");
}

fn with_claim(storage: &str) -> (String, Value) {
    let text = given("{}", &format!("gcsFaultToleranceOptions: {{backend: rocksdb, storage: {storage}}}"), "{}", "");
    let c = cluster(&text);
    let made = steps(&c, Timestamp::UNIX_EPOCH);
    assert!(made.iter().all(|s| s.action.kind() != Kind::RayCluster), "there is nothing to clean");
    let claim = made.iter().find(|s| s.action.kind() == Kind::PersistentVolumeClaim).map(|step| match &step.action {
        Action::Create(Object::Other(claim)) if step.stage == Stage::Guard => claim.value.clone(),
        other => panic!("{other:?}"),
    });
    let mut made = pods(&text);
    made["claim"] = json!(claim);
    (text, made)
}

#[test]
fn a_claim_by_default() {
    let (text, made) = with_claim("{}");
    snapshot("rocksdb", &text, &made);
}

#[test]
fn a_claim_that_stays() {
    let storage =
        "{size: 5Gi, storageClassName: fast, accessModes: [ReadWriteOncePod], subPath: ray, deletionPolicy: Retain}";
    let (text, made) = with_claim(storage);
    snapshot("rocksdb_retained", &text, &made);
}

#[test]
fn a_claim_of_the_user() {
    let (_, made) = with_claim("{claimName: theirs}");
    assert_eq!(made["claim"], Value::Null);
    assert_eq!(made["head"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "theirs");
}

//! Batch schedulers: what is on the pods beside what is always there, and what PodGroup stands by them.

use std::path::Path;

use ray_operator::api::RayCluster;
use ray_operator::observe::seen::Seen;
use ray_operator::offline::Given;
use ray_operator::plan::build::pod_group::pod_group;
use ray_operator::plan::build::{Identity, head_pod, worker_pod};
use ray_operator::plan::config::{BatchScheduler, PlanConfig};
use ray_operator::plan::{Action, Object, raycluster};
use serde_json::{Map, Value, json};

use super::common::{cluster, config, snapshot};

const CLUSTER: &str = "
metadata:
  name: train
  labels:
    ray.io/gang-scheduling-enabled: 'true'
    ray.io/priority-class-name: high
    volcano.sh/queue-name: research
    volcano.sh/network-topology-mode: hard
    volcano.sh/network-topology-highest-tier-allowed: '2'
    yunikorn.apache.org/app-id: app-1
    yunikorn.apache.org/queue: root.research
    kai.scheduler/queue: research
  annotations:
    volcano.sh/preemptable: 'true'
    kubectl.kubernetes.io/last-applied-configuration: '{}'
spec:
  headGroupSpec:
    template: {spec: {containers: [{name: ray, image: i, resources: {requests: {cpu: 500m}, limits: {cpu: 2, memory: 4G}}}]}}
  workerGroupSpecs:
  - groupName: gpu
    replicas: 3
    minReplicas: 1
    maxReplicas: 2
    numOfHosts: 2
    template:
      spec:
        schedulerName: mine
        nodeSelector: {pool: gpu}
        tolerations: [{key: nvidia.com/gpu, operator: Exists}]
        containers: [{name: ray, image: i, resources: {limits: {cpu: 1500m, memory: 1Gi, nvidia.com/gpu: 4}}}]
  - groupName: idle
    replicas: 5
    minReplicas: 5
    maxReplicas: 5
    suspend: true
    template: {spec: {containers: [{name: ray, image: i, resources: {limits: {cpu: 64}}}]}}
";

fn with(scheduler: BatchScheduler) -> PlanConfig {
    let sidecar = json!({"name": "log", "resources": {"requests": {"cpu": "100m"}}});
    let worker_sidecars = vec![serde_json::from_value(sidecar).unwrap()];
    PlanConfig { batch_scheduler: Some(scheduler), worker_sidecars, ..config() }
}

/// What the scheduler's choice adds to a pod. Text that is JSON is shown as such.
fn added(made: &Value, plain: &Value) -> Value {
    let mut all = Map::new();
    for part in ["labels", "annotations"] {
        let (made, plain) = (&made["metadata"][part], &plain["metadata"][part]);
        let new = made.as_object().into_iter().flatten().filter(|(k, v)| plain.get(k) != Some(v));
        let shown =
            |v: &Value| serde_json::from_str(v.as_str().unwrap()).ok().filter(Value::is_array).unwrap_or(v.clone());
        all.insert(part.to_owned(), new.map(|(k, v)| (k.clone(), shown(v))).collect());
    }
    all.insert("schedulerName".to_owned(), made["spec"]["schedulerName"].clone());
    let rest = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        spec["schedulerName"] = Value::Null;
        spec
    };
    assert_eq!(rest(made), rest(plain), "nothing else changes");
    Value::Object(all)
}

fn made(cluster: &RayCluster, config: &PlanConfig) -> Value {
    let plain = PlanConfig { batch_scheduler: None, ..config.clone() };
    let head = |c: &PlanConfig| json!(head_pod(cluster, Identity::default(), c).pod);
    let worker = |c: &PlanConfig| json!(worker_pod(cluster, &cluster.spec.groups()[0], Identity::default(), c).pod);
    let mut group = pod_group(cluster, config).map(|m| m.value);
    if let Some(group) = &mut group {
        let hash = group["metadata"]["annotations"].as_object_mut().unwrap().remove("ray.io/applied-hash");
        assert!(hash.is_some());
    }
    json!({"head": added(&head(config), &head(&plain)), "worker": added(&worker(config), &worker(&plain)), "podGroup": group})
}

#[test]
fn one_snapshot_for_each_scheduler() {
    for (name, scheduler) in [
        ("volcano", BatchScheduler::Volcano),
        ("yunikorn", BatchScheduler::YuniKorn),
        ("kai", BatchScheduler::Kai),
        ("scheduler_plugins", BatchScheduler::SchedulerPlugins),
    ] {
        let cluster = cluster(CLUSTER);
        snapshot(&format!("scheduling_{name}"), CLUSTER, &made(&cluster, &with(scheduler)));
    }
}

#[test]
fn an_autoscaled_gang_is_as_large_as_it_always_is() {
    let text = format!("{CLUSTER}  enableInTreeAutoscaling: true\n");
    for scheduler in [BatchScheduler::Volcano, BatchScheduler::SchedulerPlugins] {
        let wanted = pod_group(&cluster(CLUSTER), &with(scheduler)).unwrap().value;
        let least = pod_group(&cluster(&text), &with(scheduler)).unwrap().value;
        assert_eq!(wanted["spec"]["minMember"], 5);
        assert_eq!(least["spec"]["minMember"], 3);
        assert_eq!(least["spec"]["minResources"]["nvidia.com/gpu"], "8");
    }
}

#[test]
fn without_labels_there_is_only_the_scheduler() {
    let text = CLUSTER.split("  labels:").next().unwrap().to_owned()
        + CLUSTER.split_once("  annotations:").unwrap().1.split_once("spec:").unwrap().1;
    let text = text.replacen("  name: train\n", "  name: train\nspec:", 1);
    for (scheduler, name) in [
        (BatchScheduler::YuniKorn, "yunikorn"),
        (BatchScheduler::Kai, "kai-scheduler"),
        (BatchScheduler::SchedulerPlugins, "scheduler-plugins-scheduler"),
    ] {
        let made = made(&cluster(&text), &with(scheduler));
        let bare = json!({"labels": {}, "annotations": {}, "schedulerName": name});
        assert_eq!(made, json!({"head": bare, "worker": bare, "podGroup": null}));
    }
}

#[test]
fn the_cluster_of_a_job_is_in_the_jobs_group() {
    let labels = "    ray.io/originated-from-crd: RayJob\n    ray.io/originated-from-cr-name: nightly\n";
    let text = CLUSTER.replacen("  labels:\n", &format!("  labels:\n{labels}"), 1);
    let made = made(&cluster(&text), &with(BatchScheduler::Volcano));
    assert_eq!(made["head"]["annotations"]["scheduling.k8s.io/group-name"], "ray-nightly-pg");
    assert_eq!(made["podGroup"], Value::Null);
}

#[test]
fn task_groups_of_the_users_own_are_taken() {
    let text = CLUSTER.replacen(
        "  annotations:\n",
        "  annotations:\n    yunikorn.apache.org/task-groups: '[{\"name\": \"mine\"}]'\n",
        1,
    );
    let made = made(&cluster(&text), &with(BatchScheduler::YuniKorn));
    assert_eq!(made["worker"]["annotations"]["yunikorn.apache.org/task-groups"], json!([{"name": "mine"}]));
    assert_eq!(made["worker"]["annotations"]["yunikorn.apache.org/task-group-name"], "gpu");
}

#[test]
fn the_job_that_cleans_up_redis_is_in_no_gang() {
    let text = format!("{CLUSTER}  gcsFaultToleranceOptions: {{redisAddress: 'redis:6379'}}\n");
    let mut leaving = cluster(&text);
    leaving.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:59:00Z")).unwrap());
    leaving.metadata.finalizers = Some(vec!["ray.io/gcs-ft-redis-cleanup-finalizer".to_owned()]);
    for scheduler in [BatchScheduler::Volcano, BatchScheduler::YuniKorn, BatchScheduler::SchedulerPlugins] {
        let plan =
            raycluster::plan(&leaving, &Seen::default(), "2026-01-01T01:00:00Z".parse().unwrap(), &with(scheduler));
        let [step] = <[_; 1]>::try_from(plan.steps).unwrap();
        let Action::Create(Object::Other(job)) = step.action else { panic!("{step:?}") };
        assert_eq!(job.kind.kind(), "Job");
        let template = &job.value["spec"]["template"];
        assert_eq!(template["spec"].get("schedulerName"), None);
        let text = template["metadata"].to_string();
        for word in ["volcano.sh", "yunikorn", "group-name", "pod-group"] {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }
}

/// What is done about PodGroups, given the cluster and one as it is there.
fn steps(cluster: &str, there: Option<Value>, scheduler: BatchScheduler) -> Vec<(String, Value)> {
    let mut given = Given::default();
    let mut object: Value = serde_saphyr::from_str(cluster).unwrap();
    object["apiVersion"] = json!("ray.io/v1");
    object["kind"] = json!("RayCluster");
    object["metadata"]["uid"] = json!("6f1c");
    object["metadata"]["namespace"] = json!("ns");
    let list = json!({"items": std::iter::once(object).chain(there).collect::<Vec<_>>()});
    given.read(Path::new("-"), &list.to_string()).unwrap();
    let cluster = &given.clusters[0];
    let now = "2026-01-01T01:00:00Z".parse().unwrap();
    let plan = raycluster::plan(cluster, &given.around(cluster), now, &with(scheduler));
    let ours = plan.steps.into_iter().filter(|s| s.action.kind().kind() == "PodGroup");
    ours.map(|s| {
        let value = match s.action {
            Action::Create(Object::Other(made)) | Action::Patch(made) => made.value,
            _ => Value::Null,
        };
        (s.reason.to_owned(), value)
    })
    .collect()
}

/// The wish of a cluster, as the API server would show it.
fn standing(cluster: &str, scheduler: BatchScheduler) -> Value {
    let [(reason, mut made)] = steps(cluster, None, scheduler).try_into().unwrap();
    assert_eq!(reason, "CreatedPodGroup");
    made["metadata"]["uid"] = json!("pg-1");
    made["metadata"]["managedFields"] = json!([{"manager": "ray-operator", "fieldsV1": {"f:spec": {}}}]);
    made
}

#[test]
fn a_pod_group_keeps_in_step() {
    for scheduler in [BatchScheduler::Volcano, BatchScheduler::SchedulerPlugins] {
        let there = standing(CLUSTER, scheduler);
        assert_eq!(steps(CLUSTER, Some(there.clone()), scheduler), []);

        let grown = CLUSTER.replace("maxReplicas: 2", "maxReplicas: 3");
        let [(reason, patch)] = steps(&grown, Some(there.clone()), scheduler).try_into().unwrap();
        assert_eq!(
            (reason.as_str(), &patch["spec"]["minMember"], &patch["metadata"]["uid"]),
            ("UpdatedPodGroup", &json!(7), &json!("pg-1"))
        );

        let lighter = CLUSTER.replace(", nvidia.com/gpu: 4", "");
        let [(_, patch)] = steps(&lighter, Some(there.clone()), scheduler).try_into().unwrap();
        assert_eq!(patch["spec"]["minResources"]["nvidia.com/gpu"], Value::Null);
        assert!(patch["spec"]["minResources"].as_object().unwrap().contains_key("nvidia.com/gpu"), "it is taken out");

        let suspended = format!("{CLUSTER}  suspend: true\n");
        assert_eq!(steps(&suspended, Some(there), scheduler), [("DeletedPodGroup".to_owned(), Value::Null)]);
        assert_eq!(steps(&suspended, None, scheduler), []);
    }
}

#[test]
fn labels_that_were_taken_away_are_taken_out() {
    let there = standing(CLUSTER, BatchScheduler::Volcano);
    let less = CLUSTER
        .replace("    volcano.sh/queue-name: research\n", "")
        .replace("    volcano.sh/network-topology-highest-tier-allowed: '2'\n", "");
    let [(_, patch)] = steps(&less, Some(there.clone()), BatchScheduler::Volcano).try_into().unwrap();
    assert_eq!(patch["spec"]["queue"], Value::Null);
    assert!(patch["spec"].as_object().unwrap().contains_key("queue"));
    assert_eq!(patch["spec"]["networkTopology"], json!({"mode": "hard", "highestTierAllowed": null}));
    let bare = less
        .replace("    volcano.sh/network-topology-mode: hard\n", "")
        .replace("    ray.io/priority-class-name: high\n", "");
    let [(_, patch)] = steps(&bare, Some(there), BatchScheduler::Volcano).try_into().unwrap();
    let spec = patch["spec"].as_object().unwrap();
    for field in ["queue", "priorityClassName", "networkTopology"] {
        assert_eq!(spec.get(field), Some(&Value::Null), "{field}");
    }
    // What Volcano chose by itself stays.
    let mut there = standing(&bare, BatchScheduler::Volcano);
    there["spec"]["queue"] = json!("default");
    let grown = bare.replace("maxReplicas: 2", "maxReplicas: 3");
    let [(_, patch)] = steps(&grown, Some(there), BatchScheduler::Volcano).try_into().unwrap();
    assert_eq!(patch["spec"].get("queue"), None);
    let there = standing(CLUSTER, BatchScheduler::SchedulerPlugins);
    let no_gang = CLUSTER.replace("    ray.io/gang-scheduling-enabled: 'true'\n", "");
    let dropped = steps(&no_gang, Some(there), BatchScheduler::SchedulerPlugins);
    assert_eq!(dropped, [("DeletedPodGroup".to_owned(), Value::Null)]);
}

#[test]
fn what_kuberay_made_is_adopted_once() {
    for (scheduler, controller) in [(BatchScheduler::Volcano, true), (BatchScheduler::SchedulerPlugins, false)] {
        let mut theirs = standing(CLUSTER, scheduler);
        let meta = theirs["metadata"].as_object_mut().unwrap();
        meta.remove("labels");
        meta.remove("annotations");
        meta.insert("managedFields".into(), json!([{"manager": "manager", "fieldsV1": {"f:spec": {}}}]));
        let mut owner = json!({"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "train", "uid": "6f1c"});
        if controller {
            owner["controller"] = json!(true);
        }
        meta.insert("ownerReferences".into(), json!([owner]));
        let [(reason, patch)] = steps(CLUSTER, Some(theirs.clone()), scheduler).try_into().unwrap();
        assert_eq!(
            (reason.as_str(), &patch["metadata"]["labels"]["ray.io/cluster"]),
            ("UpdatedPodGroup", &json!("train"))
        );
        for part in ["labels", "annotations", "ownerReferences"] {
            theirs["metadata"][part] = patch["metadata"][part].clone();
        }
        assert_eq!(steps(CLUSTER, Some(theirs), scheduler), []);
    }
}

#[test]
fn a_tier_that_is_no_number_is_refused_by_volcano_only() {
    let text = CLUSTER.replace("highest-tier-allowed: '2'", "highest-tier-allowed: two");
    assert_eq!(steps(&text, None, BatchScheduler::Volcano), []);
    assert_eq!(steps(&text, None, BatchScheduler::SchedulerPlugins).len(), 1);
}

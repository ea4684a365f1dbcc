//! A cluster that keeps its state in Redis is deleted: its keys go, or it is said that they stay, and it always ends.

use std::time::{Duration, Instant};

use kube::api::{DeleteParams, PropagationPolicy};
use serde_json::{Value, json};

use crate::bench::operator::Operator;
use crate::bench::record::{Now, Turn};
use crate::bench::{Bench, Fate, cluster, objects, run};

const OURS: &str = "ray.io/gcs-ft-redis-cleanup-finalizer";
const THEIRS: &str = "example.com/theirs";
const JOB: &str = "one-redis-cleanup";

fn with_redis(seconds: u32) -> Value {
    let mut object = cluster("one", &[("w", 1)]);
    object["metadata"]["annotations"] = json!({"ray.io/gcs-ft-deletion-timeout": seconds.to_string()});
    object["spec"]["gcsFaultToleranceOptions"] = json!({"redisAddress": "redis.test:6379"});
    object
}

fn finalizers(now: &Now) -> Vec<String> {
    let cluster = now.get("RayCluster", "one").expect("the cluster");
    let list = cluster["metadata"]["finalizers"].as_array();
    list.into_iter().flatten().map(|f| f.as_str().expect("text").to_owned()).collect()
}

fn is_gone(now: &Now) -> bool {
    now.get("RayCluster", "one").is_none()
}

/// The cluster is Ready, bears the finalizer, and is deleted. Says when.
async fn deleted(bench: &Bench, object: &Value) -> Instant {
    bench.ready_cluster(object, 2).await;
    assert!(finalizers(&bench.record.now()).contains(&OURS.to_owned()));
    bench.settle().await;
    let start = Instant::now();
    bench.clusters().delete("one", &DeleteParams::background()).await.expect("to delete it");
    start
}

/// Gone between so many seconds after the deletion; the event that tells why names what is left behind.
async fn gone_within(bench: &Bench, start: Instant, seconds: std::ops::RangeInclusive<u64>, reason: &str) -> String {
    let uid = bench.record.moments().iter().rev().find(|m| m.kind == "RayCluster").map(|m| m.uid().to_owned());
    bench.until("the cluster is gone", is_gone).await;
    let took = start.elapsed().as_secs();
    assert!(seconds.contains(&took), "it took {took} s");
    let now = bench.until("an event says why", |now| now.events(reason).len() == 1).await;
    let text = now.events(reason).remove(0);
    assert!(text.contains(&format!("storage namespace {}", uid.expect("a uid"))), "{text}");
    text
}

#[test]
fn the_finalizer_is_there_before_the_head_and_costs_one_request() {
    run(async {
        let bench = Bench::new("redis-first").await;
        let operator = bench.operator().await;
        let mut object = with_redis(20);
        object["metadata"]["finalizers"] = json!([THEIRS]);
        bench.ready_cluster(&object, 2).await;
        bench.settle().await;
        let moments = bench.record.moments();
        let marked = moments.iter().position(|m| {
            m.kind == "RayCluster" && m.object["metadata"]["finalizers"].as_array().is_some_and(|f| f.len() == 2)
        });
        let pod = moments.iter().position(|m| m.kind == "Pod");
        let writes: Vec<String> = operator.proxy().writes().iter().map(|c| c.title()).collect();
        assert!(marked.is_some() && pod.is_some());
        assert_eq!(finalizers(&bench.record.now()), [THEIRS, OURS]);
        assert_eq!(writes[0], "patch rayclusters", "before anything else: {writes:?}");
        assert_eq!(operator.proxy().count("patch", "rayclusters"), 1);
        assert!(operator.proxy().writes().iter().all(|c| c.code < 300), "{:?}", operator.proxy().writes());
        bench.quiet_for(Duration::from_secs(3)).await;
        bench.edit("one", json!({"metadata": {"finalizers": null}})).await;
        bench.until("taken off by hand, it comes back", |now| finalizers(now) == [OURS]).await;
    });
}

#[test]
fn a_suspended_cluster_that_never_ran_has_none() {
    run(async {
        let bench = Bench::new("redis-never").await;
        let _operator = bench.operator().await;
        let mut object = with_redis(20);
        object["spec"]["suspend"] = json!(true);
        bench.apply(&object).await;
        bench.until("it is suspended", |now| now.condition("one", "RayClusterSuspended").status == "True").await;
        assert_eq!(finalizers(&bench.record.now()), Vec::<String>::new());
        bench.clusters().delete("one", &DeleteParams::background()).await.expect("to delete it");
        bench.until("it is gone at once", is_gone).await;
        assert!(bench.record.moments().iter().all(|m| m.kind != "Job"));
    });
}

#[test]
fn somebody_else_changes_the_cluster_just_before() {
    run(async {
        let bench = Bench::new("redis-conflict").await;
        let operator = bench.operator().await;
        let clusters = bench.clusters();
        let mut once = Some(());
        operator.proxy().rule(move |call| {
            if !call.is("patch", "rayclusters") || once.take().is_none() {
                return Fate::Forward;
            }
            let clusters = clusters.clone();
            Fate::After(Box::pin(async move {
                objects::edit(&clusters, "one", &json!({"metadata": {"finalizers": [THEIRS]}})).await;
            }))
        });
        bench.ready_cluster(&with_redis(20), 2).await;
        bench.settle().await;
        assert_eq!(finalizers(&bench.record.now()), [THEIRS, OURS], "nobody's finalizer is lost");
        let codes: Vec<u16> =
            operator.proxy().writes().iter().filter(|c| c.is("patch", "rayclusters")).map(|c| c.code).collect();
        assert_eq!(codes, [409, 200]);
        assert_eq!(operator.proxy().count("create", "pods"), 2);
        assert!(bench.record.now().all("Event").iter().all(|e| e["type"] == "Normal"), "nobody hears of it");
    });
}

#[test]
fn pods_go_first_then_the_job_runs_and_the_cluster_is_gone() {
    run(async {
        let bench = Bench::new("redis-done").await;
        let operator = bench.operator().await;
        let mut object = with_redis(300);
        object["metadata"]["finalizers"] = json!([THEIRS]);
        deleted(&bench, &object).await;
        bench.until("the Job is there", |now| now.get("Job", JOB).is_some()).await;
        bench.settle().await;
        let now = bench.record.now();
        assert_eq!(now.condition("one", "Ready").reason, "Deleting");
        assert_eq!(now.events("CreatedRedisCleanupJob").len(), 1);
        let moments = bench.record.moments();
        let at =
            |kind: &str, turn: Turn| moments.iter().rposition(|m| m.kind == kind && m.turn == turn).expect("it was");
        assert!(at("Pod", Turn::Deleted) < at("Job", Turn::Added), "the head is gone before its keys are");
        assert_eq!(operator.proxy().count("create", "pods"), 2, "nothing is made on the way out");
        assert!(operator.proxy().count("patch", "rayclusters/status") <= 7, "{:?}", operator.proxy().writes());
        bench.quiet_for(Duration::from_secs(5)).await;

        bench.kubelet.job_ends(JOB, None).await;
        bench.until("our finalizer is off", |now| finalizers(now) == [THEIRS]).await;
        bench.settle().await;
        let now = bench.record.now();
        assert!(now.all("Event").iter().all(|e| e["type"] == "Normal"), "all went well: {:?}", now.all("Event"));
        bench.edit("one", json!({"metadata": {"finalizers": null}})).await;
        bench.until("all is gone", |now| is_gone(now) && now.all("Job").is_empty()).await;
        assert!(operator.is_running());
    });
}

#[test]
fn deleted_in_the_foreground_the_job_is_not_swept_away() {
    run(async {
        let bench = Bench::new("redis-foreground").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&with_redis(300), 2).await;
        let worker = bench.record.now().workers("one")[0]["metadata"]["name"].as_str().expect("a name").to_owned();
        objects::edit(&bench.pods(), &worker, &json!({"metadata": {"finalizers": [THEIRS]}})).await;
        bench.clusters().delete("one", &DeleteParams::foreground()).await.expect("to delete it");
        let now = bench.until("the Job is there", |now| now.all("Job").len() == 1).await;
        // When a child goes, the garbage collector looks at all the others of its owner.
        objects::edit(&bench.pods(), &worker, &json!({"metadata": {"finalizers": null}})).await;
        bench.until("the worker is gone", |now| now.all("Pod").is_empty()).await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        let jobs = bench.record.now();
        let name = jobs.all("Job")[0]["metadata"]["name"].as_str().expect("a name");
        assert_eq!(jobs.all("Job")[0]["metadata"]["uid"], now.all("Job")[0]["metadata"]["uid"], "the same Job");
        assert_eq!(operator.proxy().count("create", "jobs"), 1);
        bench.kubelet.job_ends(name, None).await;
        bench.until("the cluster is gone", is_gone).await;
    });
}

#[test]
fn deleted_without_its_pods_it_leaves_them_what_they_have() {
    run(async {
        let bench = Bench::new("redis-orphans").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&with_redis(300), 2).await;
        bench.settle().await;
        let before = bench.record.now().uids("one");
        let params = DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() };
        bench.clusters().delete("one", &params).await.expect("to delete it");
        let now = bench
            .until("it is gone, and said", |now| is_gone(now) && now.events("RedisCleanupNotWanted").len() == 1)
            .await;
        assert!(
            now.events("RedisCleanupNotWanted")[0].contains("live on"),
            "{:?}",
            now.events("RedisCleanupNotWanted")
        );
        bench.settle().await;
        assert_eq!(bench.record.now().uids("one"), before, "its pods live on");
        assert_eq!(operator.proxy().count("create", "jobs") + operator.proxy().count("delete", "pods"), 0);
    });
}

#[test]
fn a_failed_job_is_told_of_and_holds_nobody() {
    run(async {
        let bench = Bench::new("redis-failed").await;
        let _operator = bench.operator().await;
        let start = deleted(&bench, &with_redis(300)).await;
        bench.until("the Job is there", |now| now.get("Job", JOB).is_some()).await;
        bench.kubelet.job_ends(JOB, Some("no route to Redis")).await;
        let text = gone_within(&bench, start, 0..=15, "RedisCleanupFailed").await;
        assert!(text.contains("no route to Redis"), "{text}");
    });
}

#[test]
fn a_job_that_never_ends_is_given_up() {
    run(async {
        let bench = Bench::new("redis-hangs").await;
        let _operator = bench.operator().await;
        let start = deleted(&bench, &with_redis(20)).await;
        let text = gone_within(&bench, start, 19..=30, "ForceDeletedStuckCluster").await;
        assert!(text.contains(JOB), "{text}");
    });
}

#[test]
fn a_head_on_a_lost_node_is_given_up() {
    run(async {
        let bench = Bench::new("redis-lost").await;
        let operator = bench.operator().await;
        bench.kubelet.reaps(false);
        let start = deleted(&bench, &with_redis(20)).await;
        let text = gone_within(&bench, start, 19..=30, "ForceDeletedStuckCluster").await;
        assert!(text.contains("waiting for head pod one-head-"), "{text}");
        assert_eq!(operator.proxy().count("create", "jobs"), 0, "keys are not removed while the head may write");
    });
}

/// Denies the cleanup Jobs of a namespace.
fn policy(namespace: &str) -> [Value; 2] {
    let name = format!("{namespace}-jobs");
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [
                {"apiGroups": ["batch"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["jobs"]},
            ]},
            "validations": [{"expression": "!has(object.metadata.labels) || !('ray.io/node-type' in object.metadata.labels)",
                             "message": "no cleanup here"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": {
            "policyName": name, "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}},
        },
    });
    [policy, binding]
}

async fn enforce(bench: &Bench) {
    for object in policy(&bench.namespace) {
        bench.apply(&object).await;
    }
    let probe = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"generateName": "probe-", "labels": {"ray.io/node-type": "x"}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "registry.test/ray:a"}]}}},
    });
    let limit = Instant::now() + Duration::from_secs(30);
    let api = objects::api(bench.client(), &bench.namespace, &probe);
    while let Ok(made) = objects::create(bench.client(), &bench.namespace, &probe).await {
        assert!(Instant::now() < limit, "the policy takes no effect");
        objects::delete(&api, made["metadata"]["name"].as_str().expect("a name")).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[test]
fn a_denied_job_is_tried_ever_more_rarely_and_given_up() {
    run(async {
        let bench = Bench::new("redis-denied").await;
        enforce(&bench).await;
        let operator = bench.operator().await;
        let start = deleted(&bench, &with_redis(20)).await;
        let now = bench.until("an event says who", |now| !now.events("FailedToCreateRedisCleanupJob").is_empty()).await;
        let note = &now.events("FailedToCreateRedisCleanupJob")[0];
        assert!(note.contains("no cleanup here"), "{note}");
        assert_eq!(
            bench.record.now().workers("one").len() + bench.record.now().heads("one").len(),
            0,
            "pods went first"
        );
        bench.until("the status says so", |now| now.condition("one", "Ready").reason == "AdmissionDenied").await;
        gone_within(&bench, start, 19..=40, "ForceDeletedStuckCluster").await;
        let tries: Vec<Instant> =
            operator.proxy().calls().iter().filter(|c| c.is("create", "jobs")).map(|c| c.at).collect();
        assert!((2..=20).contains(&tries.len()), "{} tries", tries.len());
        let soonest = tries.windows(2).map(|pair| pair[1] - pair[0]).min().expect("two tries");
        assert!(soonest >= Duration::from_millis(900), "{soonest:?} between two tries");
        assert_eq!(bench.record.now().events("FailedToCreateRedisCleanupJob").len(), 1);
    });
}

#[test]
fn a_namespace_that_goes_takes_its_cluster_along() {
    run(async {
        let bench = Bench::new("redis-namespace").await;
        // Rights that live in the namespace would go with it.
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": bench.user()},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "ray-operator"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": bench.user()}],
        });
        bench.apply(&binding).await;
        let operator = bench.operator_without_rights(&[]).await;
        bench.ready_cluster(&with_redis(300), 2).await;
        bench.settle().await;
        let start = Instant::now();
        let namespaces = objects::kind(bench.client(), "", "v1", "Namespace");
        objects::delete(&namespaces, &bench.namespace).await;
        bench.until("the cluster is gone", is_gone).await;
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}", start.elapsed());
        let says = |log: String| log.contains("ForceDeletedStuckCluster") && log.contains("namespace is being deleted");
        bench.eventually("the log says why, as no event can", || says(operator.log_text())).await;
        assert!(operator.proxy().count("create", "jobs") <= 3, "it is not tried on and on");
        assert!(operator.is_running());
    });
}

#[test]
fn taken_out_of_the_spec_it_holds_nobody() {
    run(async {
        let bench = Bench::new("redis-out").await;
        let _operator = bench.operator().await;
        let mut object = with_redis(300);
        object["metadata"]["finalizers"] = json!([THEIRS]);
        bench.ready_cluster(&object, 2).await;
        assert_eq!(finalizers(&bench.record.now()), [THEIRS, OURS]);
        bench.edit("one", json!({"spec": {"gcsFaultToleranceOptions": null}})).await;
        let now = bench
            .until("it is off, and said", |now| {
                finalizers(now) == [THEIRS] && now.events("RedisCleanupNotWanted").len() == 1
            })
            .await;
        let uid = now.get("RayCluster", "one").expect("it")["metadata"]["uid"].as_str().expect("a uid").to_owned();
        assert!(now.events("RedisCleanupNotWanted")[0].contains(&uid), "{:?}", now.events("RedisCleanupNotWanted"));
        assert_eq!(now.uids("one").len(), 2, "its pods stay");
    });
}

#[test]
fn taken_out_and_deleted_while_nobody_looked() {
    run(async {
        let bench = Bench::new("redis-out-unseen").await;
        let first = bench.operator().await;
        bench.ready_cluster(&with_redis(300), 2).await;
        drop(first);
        bench.edit("one", json!({"spec": {"gcsFaultToleranceOptions": null}})).await;
        bench.clusters().delete("one", &DeleteParams::background()).await.expect("to delete it");
        assert!(!is_gone(&bench.record.now()), "the finalizer holds it");
        let second = bench.operator().await;
        bench.until("it is gone", is_gone).await;
        assert_eq!(second.proxy().count("create", "jobs"), 0);
    });
}

#[test]
fn a_broken_spec_holds_nobody() {
    run(async {
        let bench = Bench::new("redis-broken").await;
        let _operator = bench.operator().await;
        bench.ready_cluster(&with_redis(300), 2).await;
        let mut broken = with_redis(300);
        broken["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["env"] =
            json!([{"name": "REDIS_PASSWORD", "value": "p"}]);
        bench.apply(&broken).await;
        bench.until("the spec is refused", |now| now.condition("one", "Ready").reason == "InvalidSpec").await;
        assert!(finalizers(&bench.record.now()).contains(&OURS.to_owned()));
        bench.clusters().delete("one", &DeleteParams::background()).await.expect("to delete it");
        bench.until("the Job is there", |now| now.get("Job", JOB).is_some()).await;
        bench.kubelet.job_ends(JOB, None).await;
        bench.until("it is gone", is_gone).await;
    });
}

/// The operator dies at the `nth` request of a kind, before it takes effect or without hearing of it. Says whether it did.
async fn dies_at(name: &str, title: &'static str, nth: usize, heard: bool) {
    let bench = Bench::new(name).await;
    let first = bench.operator().await;
    let mut killer = Some(first.killer());
    let mut count = 0;
    first.proxy().rule(move |call| {
        count += usize::from(call.title() == title);
        match killer.take_if(|_| call.title() == title && count == nth) {
            None => Fate::Forward,
            Some(kill) if heard => Fate::TakeEffectThen(Box::new(kill)),
            Some(kill) => {
                kill();
                Fate::Drop
            }
        }
    });
    bench.apply(&with_redis(300)).await;
    let works = |operator: &Operator| operator.is_running();
    bench.until("it is Ready, or the operator died", |now| now.is_ready("one") || !works(&first)).await;
    let mut second = None;
    if !works(&first) {
        assert!(bench.record.now().all("Pod").is_empty(), "no head before the finalizer");
        second = Some(bench.operator().await);
        bench.until("it is Ready", |now| now.is_ready("one") && now.pods("one").len() == 2).await;
    }
    assert_eq!(finalizers(&bench.record.now()), [OURS]);
    bench.clusters().delete("one", &DeleteParams::background()).await.expect("to delete it");
    bench.until("the Job is there, or the operator died", |now| now.get("Job", JOB).is_some() || !works(&first)).await;
    if second.is_none() && !works(&first) {
        second = Some(bench.operator().await);
    }
    bench.until("the Job is there", |now| now.get("Job", JOB).is_some()).await;
    bench.kubelet.job_ends(JOB, None).await;
    bench.until("it is gone, or the operator died", |now| is_gone(now) || !works(&first)).await;
    if second.is_none() {
        bench.eventually("the operator died", || !works(&first)).await;
        second = Some(bench.operator().await);
    }
    bench.until("it is gone", is_gone).await;
    assert!(second.is_some_and(|s| s.is_running()), "{name}");
    let jobs = bench.record.moments();
    assert_eq!(jobs.iter().filter(|m| m.kind == "Job" && m.turn == Turn::Added).count(), 1, "one Job");
    let pods = bench.record.all_pods("one");
    assert_eq!(pods.len(), 2, "no pod was made on the way out: {pods:?}");
}

#[test]
fn a_crash_at_any_of_its_writes_changes_nothing() {
    run(async {
        let cases = [
            ("redis-crash-add", "patch rayclusters", 1),
            ("redis-crash-job", "create jobs", 1),
            ("redis-crash-remove", "patch rayclusters", 2),
        ];
        let both =
            cases.iter().flat_map(|(name, title, nth)| [(name, *title, *nth, false), (name, *title, *nth, true)]);
        futures::future::join_all(both.map(|(name, title, nth, heard)| async move {
            dies_at(&format!("{name}-{heard}"), title, nth, heard).await;
        }))
        .await;
    });
}

//! Ray's autoscaler is on: it alone chooses who goes, and it has the rights that it needs, no more.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::call::Call;
use crate::bench::record::Now;
use crate::bench::{Bench, Fate, Operator, cluster, objects, run};

fn scaled(replicas: i32) -> Value {
    let mut object = cluster("one", &[("w", replicas)]);
    object["spec"]["enableInTreeAutoscaling"] = true.into();
    object
}

fn counts(operator: &Operator) -> (usize, usize) {
    (operator.proxy().count("create", "pods"), operator.proxy().count("delete", "pods"))
}

fn worker_names(now: &Now) -> BTreeSet<String> {
    now.workers("one").iter().filter_map(|p| p["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// What the autoscaler does: one request for the number and the names.
async fn choose(bench: &Bench, replicas: i32, victims: &[&str]) {
    let patch = json!([
        {"op": "replace", "path": "/spec/workerGroupSpecs/0/replicas", "value": replicas},
        {"op": "replace", "path": "/spec/workerGroupSpecs/0/scaleStrategy", "value": {"workersToDelete": victims}},
    ]);
    let patch = kube::api::Patch::<Value>::Json(serde_json::from_value(patch).expect("a JSON patch"));
    bench.clusters().patch("one", &Default::default(), &patch).await.expect("to scale");
}

/// The operator has taken in the spec as it is, and come to rest.
async fn settled(bench: &Bench) {
    bench
        .until("the spec is taken in", |now| {
            now.get("RayCluster", "one")
                .is_some_and(|c| c["status"]["observedGeneration"] == c["metadata"]["generation"])
        })
        .await;
    bench.settle().await;
}

#[test]
fn a_named_victim_and_the_count_are_one_request() {
    run(async {
        let bench = Bench::new("autoscaling-victim").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&scaled(3), 4).await;
        bench.settle().await;
        let before = bench.record.now();
        let names: Vec<String> = worker_names(&before).into_iter().collect();
        let victim = names[1].clone();

        choose(&bench, 2, &[&victim]).await;
        bench.until("the victim is gone", |now| now.get("Pod", &victim).is_none()).await;
        settled(&bench).await;
        let now = bench.record.now();
        assert_eq!(counts(&operator), (4, 1), "one delete in all, and no new worker");
        assert_eq!(worker_names(&now), [names[0].clone(), names[2].clone()].into());
        assert!(now.uids("one").is_subset(&before.uids("one")));
        bench.until("it is Ready again", |now| now.is_ready("one")).await;

        bench.scale("one", 0, 1).await;
        settled(&bench).await;
        assert_eq!(counts(&operator), (4, 1), "nobody is named, so nobody goes");

        bench.scale("one", 0, 2).await;
        settled(&bench).await;
        assert_eq!(counts(&operator), (4, 1), "two live already");

        // The list still names the one that went.
        bench.scale("one", 0, 3).await;
        bench.until("a third comes", |now| now.is_ready("one") && now.workers("one").len() == 3).await;
        bench.settle().await;
        assert_eq!(counts(&operator), (5, 1));
        assert!(!worker_names(&bench.record.now()).contains(&victim));

        let specs: Vec<Call> = operator.proxy().writes().into_iter().filter(|c| c.resource == "rayclusters").collect();
        assert!(specs.is_empty(), "the operator never writes a spec: {specs:?}");
        let list = bench.record.now().get("RayCluster", "one").expect("it")["spec"]["workerGroupSpecs"][0].clone();
        assert_eq!(list["scaleStrategy"]["workersToDelete"], json!([victim]), "nor clears the list");
    });
}

/// An operator that knows of no earlier pods must not give a new one the name of a victim.
#[test]
fn a_new_pod_never_bears_the_name_of_a_victim() {
    run(async {
        let bench = Bench::new("autoscaling-names").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&scaled(2), 3).await;
        let victim = worker_names(&bench.record.now()).pop_first().expect("a worker");
        choose(&bench, 1, &[&victim]).await;
        bench.until("the victim is gone", |now| now.get("Pod", &victim).is_none()).await;
        settled(&bench).await;
        operator.kill();

        let operator = bench.operator().await;
        bench.scale("one", 0, 2).await;
        bench.until("a second comes", |now| now.is_ready("one") && now.workers("one").len() == 2).await;
        bench.settle().await;
        assert_eq!(counts(&operator), (1, 0));
        assert!(!worker_names(&bench.record.now()).contains(&victim));
    });
}

#[test]
fn a_worker_that_ended_waits_for_the_autoscaler_to_name_it() {
    run(async {
        let bench = Bench::new("autoscaling-drained").await;
        let operator = bench.operator().await;
        let mut object = scaled(2);
        object["spec"]["autoscalerOptions"] = json!({"version": "v2"});
        bench.ready_cluster(&object, 3).await;
        let drained = bench.record.now().workers("one")[0].clone();
        let name = drained["metadata"]["name"].as_str().expect("a name");
        bench.kubelet.ray_ends(&drained, 0).await;
        bench
            .until("its end is seen", |now| {
                now.get("RayCluster", "one").is_some_and(|c| c["status"]["readyWorkerReplicas"] == 1)
            })
            .await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(counts(&operator), (3, 0), "the autoscaler has its turn");
        choose(&bench, 1, &[name]).await;
        bench.until("it goes", |now| now.is_ready("one") && now.workers("one").len() == 1).await;
        bench.settle().await;
        assert_eq!(counts(&operator), (3, 1), "and nobody comes for it");
    });
}

/// Asks the API server what a ServiceAccount of the bench may do.
async fn may(bench: &Bench, account: &str, verb: &str, group: &str, resource: &str) -> bool {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let namespace = &bench.namespace;
    let attributes = json!({
        "namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": subresource,
    });
    let question = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": format!("system:serviceaccount:{namespace}:{account}"), "resourceAttributes": attributes},
    });
    let request = http::Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews")
        .header("content-type", "application/json")
        .body(question.to_string().into_bytes())
        .expect("a request");
    let answer: Value = bench.client().request(request).await.expect("an answer");
    answer["status"]["allowed"].as_bool().expect("yes or no")
}

fn rights(bench: &Bench, kind: &str) -> kube::Api<kube::api::DynamicObject> {
    let version = if kind == "ServiceAccount" { "v1" } else { "rbac.authorization.k8s.io/v1" };
    objects::kind(bench.client(), &bench.namespace, version, kind)
}

async fn read(bench: &Bench, kind: &str) -> Option<Value> {
    let found = rights(bench, kind).get_opt("one").await.expect("an answer");
    found.map(|o| serde_json::to_value(o).expect("JSON"))
}

async fn subjects(bench: &Bench) -> BTreeSet<String> {
    let binding = read(bench, "RoleBinding").await.expect("a RoleBinding");
    let all = binding["subjects"].as_array().expect("subjects").iter();
    all.map(|s| s["name"].as_str().expect("a name").to_owned()).collect()
}

#[test]
fn the_autoscaler_gets_its_rights_before_the_head_and_no_others() {
    run(async {
        let bench = Bench::new("autoscaling-rights").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&scaled(1), 2).await;
        let writes: Vec<String> = operator.proxy().writes().iter().map(Call::title).collect();
        let at = |title: &str| writes.iter().position(|w| w == title).unwrap_or_else(|| panic!("{title}: {writes:?}"));
        for kind in ["serviceaccounts", "roles", "rolebindings"] {
            assert!(at(&format!("create {kind}")) < at("create pods"), "{kind}: {writes:?}");
        }
        let head = bench.record.now().heads("one")[0].clone();
        assert_eq!(head["spec"]["serviceAccountName"], "one");
        assert!(head["spec"]["containers"].as_array().expect("containers").iter().any(|c| c["name"] == "autoscaler"));

        for (verb, group, resource, yes) in [
            ("get", "", "pods", true),
            ("list", "", "pods", true),
            ("watch", "", "pods", true),
            ("patch", "", "pods/resize", true),
            ("get", "ray.io", "rayclusters", true),
            ("patch", "ray.io", "rayclusters", true),
            ("create", "", "pods", false),
            ("delete", "", "pods", false),
            ("list", "ray.io", "rayclusters", false),
            ("delete", "ray.io", "rayclusters", false),
            ("patch", "ray.io", "rayclusters/status", false),
            ("get", "", "secrets", false),
            ("create", "rbac.authorization.k8s.io", "rolebindings", false),
        ] {
            assert_eq!(may(&bench, "one", verb, group, resource).await, yes, "{verb} {resource}");
        }
        assert!(bench.record.now().events("CreatedRole").is_empty(), "the head's event tells of all that came with it");
    });
}

#[test]
fn rights_follow_the_wish_and_outlive_the_autoscaler() {
    run(async {
        let bench = Bench::new("autoscaling-follow").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&scaled(1), 2).await;
        bench.settle().await;

        objects::edit(&rights(&bench, "Role"), "one", &json!({"rules": []})).await;
        bench.until("the Role is put right", |now| !now.events("UpdatedRole").is_empty()).await;
        assert!(may(&bench, "one", "list", "", "pods").await);
        objects::delete(&rights(&bench, "RoleBinding"), "one").await;
        bench.until("the RoleBinding is made again", |now| !now.events("CreatedRoleBinding").is_empty()).await;
        assert!(may(&bench, "one", "list", "", "pods").await);

        // Another account for heads to come; the one that runs is still the old one.
        let account = json!({"headGroupSpec": {"template": {"spec": {"serviceAccountName": "scaler"}}}});
        bench.edit("one", json!({"spec": account})).await;
        bench.until("the RoleBinding follows", |now| !now.events("UpdatedRoleBinding").is_empty()).await;
        assert_eq!(subjects(&bench).await, ["one".to_owned(), "scaler".to_owned()].into());

        let head = bench.record.now().heads("one")[0]["metadata"]["name"].as_str().expect("a name").to_owned();
        objects::delete(&bench.pods(), &head).await;
        bench
            .until("the next head runs as the other account", |now| {
                now.heads("one").len() == 1 && now.heads("one")[0]["spec"]["serviceAccountName"] == "scaler"
            })
            .await;
        bench.settle().await;
        assert_eq!(subjects(&bench).await, ["scaler".to_owned()].into(), "the old one keeps nothing");

        bench.edit("one", json!({"spec": {"enableInTreeAutoscaling": false}})).await;
        settled(&bench).await;
        assert!(
            may(&bench, "scaler", "patch", "ray.io", "rayclusters").await,
            "the running head has its autoscaler yet"
        );
        assert_eq!(operator.proxy().count("delete", "roles") + operator.proxy().count("delete", "rolebindings"), 0);

        bench.clusters().delete("one", &Default::default()).await.expect("to delete");
        let limit = std::time::Instant::now() + Duration::from_secs(30);
        for kind in ["ServiceAccount", "Role", "RoleBinding"] {
            while read(&bench, kind).await.is_some() {
                assert!(std::time::Instant::now() < limit, "{kind} goes with its cluster");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    });
}

#[test]
fn an_account_of_the_users_own_is_never_made() {
    run(async {
        let bench = Bench::new("autoscaling-own").await;
        let operator = bench.operator().await;
        let mut object = scaled(1);
        object["spec"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"] = "mine".into();
        bench.ready_cluster(&object, 2).await;
        assert_eq!(operator.proxy().count("create", "serviceaccounts"), 0);
        assert_eq!(operator.proxy().count("create", "roles"), 1);
        assert_eq!(subjects(&bench).await, ["mine".to_owned()].into());
    });
}

#[test]
fn an_account_of_somebody_else_is_left_alone_and_named() {
    run(async {
        let bench = Bench::new("autoscaling-taken").await;
        bench.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "one"}})).await;
        let _operator = bench.operator().await;
        bench.apply(&scaled(1)).await;
        let now = bench.until("it says so", |now| now.condition("one", "Ready").reason == "NameTaken").await;
        let message = now.condition("one", "Ready").message;
        assert!(message.contains("serviceaccounts one") && message.contains("serviceAccountName"), "{message}");
        assert!(now.heads("one").is_empty());
        let account = json!({"headGroupSpec": {"template": {"spec": {"serviceAccountName": "one"}}}});
        bench.edit("one", json!({"spec": account})).await;
        bench.until("it is used once it is named", |now| now.is_ready("one")).await;
    });
}

/// The bench's API server does not look up ServiceAccounts; this is what one that does says.
#[test]
fn an_account_that_is_missing_is_named_and_heals() {
    run(async {
        let bench = Bench::new("autoscaling-missing").await;
        let operator = bench.operator().await;
        let words = format!(
            "pods \"one-head-abcde\" is forbidden: error looking up service account {}/mine: serviceaccount \"mine\" not found",
            bench.namespace
        );
        operator.proxy().rule(move |call| match call.is("create", "pods") {
            true => Fate::Refuse(403, words.clone()),
            false => Fate::Forward,
        });
        let mut object = scaled(0);
        object["spec"]["headGroupSpec"]["template"]["spec"]["serviceAccountName"] = "mine".into();
        bench.apply(&object).await;
        let reason = "AutoscalerServiceAccountNotFound";
        let now = bench.until("it says so", |now| now.condition("one", "Ready").reason == reason).await;
        let message = now.condition("one", "Ready").message;
        assert!(message.contains("serviceaccount \"mine\" not found") && message.contains("create it"), "{message}");
        bench.until("an event says so", |now| !now.events(reason).is_empty()).await;
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert_eq!(bench.record.now().events(reason).len(), 1, "once");
        operator.proxy().no_rule();
        bench.until("it heals", |now| now.is_ready("one")).await;
    });
}

#[test]
fn advice_is_given_once() {
    run(async {
        let bench = Bench::new("autoscaling-advice").await;
        let _operator = bench.operator().await;
        let mut object = scaled(1);
        object["spec"]["autoscalerOptions"] = json!({"version": "v1"});
        object["spec"]["workerGroupSpecs"][0]["template"]["spec"]["restartPolicy"] = "Always".into();
        bench.ready_cluster(&object, 2).await;
        bench.until("the advice", |now| !now.events("InvalidRayClusterSpec").is_empty()).await;
        for replicas in [2, 3] {
            bench.scale("one", 0, replicas).await;
            bench.until("it grows", |now| now.is_ready("one") && now.workers("one").len() == replicas as usize).await;
        }
        bench.settle().await;
        let said = bench.record.now().events("InvalidRayClusterSpec");
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("Workers of w") && said[0].contains("Never"), "{said:?}");
    });
}

//! Rights are missing: is it said plainly, and does it heal once they are granted?

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::bench::rights::{LEASE_ROLE, ROLE, grant, revoke, rules};
use crate::bench::{Bench, cluster, run};

/// The chart's rules without one verb on one resource.
fn without(verb: &str, resource: &str) -> Value {
    let mut rules = rules();
    for rule in rules.as_array_mut().expect("rules") {
        if rule["resources"] == json!([resource]) {
            rule["verbs"].as_array_mut().expect("verbs").retain(|v| v != verb);
        }
    }
    rules
}

#[test]
fn a_missing_right_is_named_and_heals_within_thirty_seconds() {
    run(async {
        let bench = Bench::new("rights").await;
        let role = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "ray-operator-less"},
            "rules": without("create", "pods"),
        });
        bench.apply(&role).await;
        grant(bench.client(), &bench.namespace, "ray-operator-less", &bench.user()).await;
        let operator = bench.operator_without_rights(&[]).await;
        bench.apply(&cluster("one", &[("w", 1)])).await;
        let now =
            bench.until("it says what is forbidden", |now| now.condition("one", "Ready").reason == "Forbidden").await;
        let message = now.condition("one", "Ready").message;
        for word in ["create", "pods", &bench.user(), "rbac.create"] {
            assert!(message.contains(word), "{word:?} is not in {message:?}");
        }
        let now = bench.until("an event says so", |now| !now.events("FailedToCreateHeadPod").is_empty()).await;
        let note = &now.events("FailedToCreateHeadPod")[0];
        let start = format!("error syncing '{}/one': failed to create pods one-head-", bench.namespace);
        assert!(note.starts_with(&start), "{note}");
        assert!(note.contains(&format!("User \"{}\" cannot create resource \"pods\"", bench.user())), "{note}");
        assert!(operator.log_text().contains(&start), "the log has the same words");

        tokio::time::sleep(Duration::from_secs(10)).await;
        grant(bench.client(), &bench.namespace, ROLE, &bench.user()).await;
        let granted = Instant::now();
        bench.until("it heals", |now| now.is_ready("one")).await;
        assert!(granted.elapsed() < Duration::from_secs(32), "it took {:?}", granted.elapsed());
    });
}

#[test]
fn all_rights_taken_away_and_given_back() {
    run(async {
        let bench = Bench::new("rights-revoked").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 1)]), 2).await;
        bench.settle().await;
        for role in [ROLE, LEASE_ROLE] {
            revoke(bench.client(), &bench.namespace, role, &bench.user()).await;
        }
        bench.scale("one", 0, 2).await;
        let sentence = format!("error syncing '{}/one': failed to create pods one-w-worker-", bench.namespace);
        bench.eventually("the log says what is forbidden", || operator.log_text().contains(&sentence)).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(operator.is_running());
        assert!(operator.proxy().writes().len() < 60, "{} writes", operator.proxy().writes().len());
        grant(bench.client(), &bench.namespace, ROLE, &bench.user()).await;
        let granted = Instant::now();
        bench.until("it heals", |now| now.is_ready("one") && now.pods("one").len() == 3).await;
        assert!(granted.elapsed() < Duration::from_secs(32), "it took {:?}", granted.elapsed());
        assert_eq!(bench.record.all_pods("one").len(), 3);
    });
}

#[test]
fn an_operator_without_any_rights_waits_for_them_and_says_so() {
    run(async {
        let bench = Bench::new("rights-none").await;
        let operator = bench.operator_without_rights(&[]).await;
        bench.apply(&cluster("one", &[("w", 1)])).await;
        let words = format!("User \\\"{}\\\" cannot list resource \\\"rayclusters\\\"", bench.user());
        let other = format!("User \\\"{}\\\" cannot watch resource \\\"rayclusters\\\"", bench.user());
        bench
            .eventually("the log says what is forbidden", || {
                let log = operator.log_text();
                log.contains("error syncing") && (log.contains(&words) || log.contains(&other))
            })
            .await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(operator.is_running(), "it waits: {}", operator.log_tail());
        let asked = operator.proxy().calls().len();
        assert!(asked < 100, "{asked} requests in the meantime");
        grant(bench.client(), &bench.namespace, ROLE, &bench.user()).await;
        let granted = Instant::now();
        bench.until("it heals", |now| now.is_ready("one")).await;
        assert!(granted.elapsed() < Duration::from_secs(32), "it took {:?}", granted.elapsed());
    });
}

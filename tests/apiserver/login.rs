//! Token login: one Secret, made once, and its token nowhere but in it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::bench::record::Now;
use crate::bench::{Bench, Mood, cluster, objects, run};

fn with_login(name: &str) -> Value {
    let mut object = cluster(name, &[("w", 2)]);
    object["spec"]["authOptions"] = json!({});
    object
}

fn decoded(text: &str) -> String {
    String::from_utf8(STANDARD.decode(text).expect("base64")).expect("text")
}

/// The token as the Secret holds it, and as Ray reads it.
fn tokens(now: &Now, secret: &str) -> [String; 2] {
    let held =
        now.get("Secret", secret).expect("the Secret")["data"]["auth_token"].as_str().expect("a token").to_owned();
    let token = decoded(&held);
    [held, token]
}

#[test]
fn the_token_is_made_once_and_stays_in_its_secret() {
    run(async {
        let bench = Bench::new("login").await;
        bench.head.mood(Mood::WantsToken);
        let first = bench.operator().await;
        bench.ready_cluster(&with_login("one"), 3).await;
        bench.settle().await;
        let before = bench.record.now();
        let [held, token] = tokens(&before, "one");
        assert_eq!(STANDARD.decode(&token).expect("base64 of random bytes").len(), 32);
        for pod in before.pods("one") {
            let env = pod["spec"]["containers"][0]["env"].as_array().expect("an environment");
            let from = env.iter().find(|e| e["name"] == "RAY_AUTH_TOKEN").expect("a token");
            assert_eq!(from["valueFrom"]["secretKeyRef"], json!({"name": "one", "key": "auth_token"}));
        }
        assert_eq!(before.events("CreatedAuthSecret").len(), 1);
        let order: Vec<String> = first.proxy().writes().iter().map(|c| c.title()).collect();
        let at = |title: &str| order.iter().position(|t| t == title).unwrap_or_else(|| panic!("{title} in {order:?}"));
        assert!(at("create secrets") < at("create pods"), "{order:?}");
        let log = first.log_text();
        drop(first);

        let second = bench.operator().await;
        bench.scale("one", 0, 3).await;
        let now = bench.until("a third worker", |now| now.is_ready("one") && now.pods("one").len() == 4).await;
        bench.settle().await;
        assert_eq!(now.get("Secret", "one"), before.get("Secret", "one"), "the Secret is as it was");
        let asked: Vec<String> = second.proxy().calls().iter().map(|c| c.title()).collect();
        let about: Vec<&String> = asked.iter().filter(|t| t.ends_with(" secrets")).collect();
        assert!(about.iter().all(|t| *t == "watch secrets" || *t == "list secrets"), "{about:?}");

        let logs = format!("{log}{}", second.log_text());
        assert!(logs.contains("CreatedAuthSecret"), "the log tells of it");
        let told: String = ["RayCluster", "Pod", "Event", "Service"]
            .iter()
            .flat_map(|kind| now.all(kind))
            .map(Value::to_string)
            .collect();
        for secret in [held, token] {
            assert!(!logs.contains(&secret) && !told.contains(&secret), "the token is told");
        }
    });
}

#[test]
fn a_lost_secret_is_made_anew_and_the_user_hears_what_to_do() {
    run(async {
        let bench = Bench::new("login-lost").await;
        bench.head.mood(Mood::WantsToken);
        let _operator = bench.operator().await;
        bench.ready_cluster(&with_login("one"), 3).await;
        bench.settle().await;
        let before = bench.record.now();
        let api = objects::kind(bench.client(), &bench.namespace, "v1", "Secret");
        objects::delete(&api, "one").await;
        let now = bench
            .until("it is back and told", |now| {
                now.get("Secret", "one").is_some() && now.events("CreatedAuthSecret").len() == 2
            })
            .await;
        assert_ne!(tokens(&now, "one"), tokens(&before, "one"), "a token that is lost is not known to us");
        assert!(now.events("CreatedAuthSecret").iter().any(|e| e.contains("suspend and resume")));
        assert_eq!(now.uids("one"), before.uids("one"), "no pod is touched");
    });
}

#[test]
fn a_secret_of_somebody_else_is_left_alone_and_named() {
    run(async {
        let bench = Bench::new("login-taken").await;
        bench.head.mood(Mood::WantsToken);
        let _operator = bench.operator().await;
        let theirs = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one", "labels": {"ray.io/cluster": "one"}},
            "stringData": {"auth_token": "theirs"},
        });
        let theirs = bench.apply(&theirs).await;
        bench.apply(&with_login("one")).await;
        let now = bench.until("it says so", |now| now.condition("one", "Ready").reason == "NameTaken").await;
        let message = now.condition("one", "Ready").message;
        assert!(message.contains("secrets one"), "{message}");
        assert!(now.pods("one").is_empty() && now.all("Service").is_empty(), "nothing starts without its login");
        let left = now.get("Secret", "one").expect("theirs");
        assert_eq!((&left["metadata"]["uid"], &left["data"]), (&theirs["metadata"]["uid"], &theirs["data"]));

        bench.edit("one", json!({"spec": {"authOptions": {"secretName": "one"}}})).await;
        bench.until("named, it is used", |now| now.is_ready("one") && now.pods("one").len() == 3).await;
    });
}

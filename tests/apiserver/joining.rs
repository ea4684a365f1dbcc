//! Pods are Ready, but does Ray know them?

use std::time::{Duration, Instant};

use crate::bench::{Bench, Mood, cluster, run};

#[test]
fn workers_that_ray_does_not_list_are_named_after_a_grace() {
    run(async {
        let bench = Bench::new("joining").await;
        let _operator = bench.operator().await;
        bench.head.mood(Mood::Misses(1));
        bench.apply(&cluster("one", &[("w", 3)])).await;
        bench
            .until("all pods are Ready", |now| {
                let conditions =
                    |p: &serde_json::Value| p["status"]["conditions"].as_array().cloned().unwrap_or_default();
                let ready =
                    |p: &serde_json::Value| conditions(p).iter().any(|c| c["type"] == "Ready" && c["status"] == "True");
                now.pods("one").into_iter().filter(|p| ready(p)).count() == 4
            })
            .await;
        let ready_at = Instant::now();
        let now = bench
            .until("it says who is missing", |now| now.condition("one", "Ready").reason == "WorkersNotJoined")
            .await;
        assert!(ready_at.elapsed() > Duration::from_secs(10), "not before the grace is over");
        let missing = now.workers("one")[0]["metadata"]["name"].as_str().expect("a name").to_owned();
        let message = now.condition("one", "Ready").message;
        assert!(message.contains(&missing), "{missing} is not named: {message}");
        let now = bench.until("an event says so too", |now| !now.events("WorkersNotJoined").is_empty()).await;
        assert_eq!(now.events("WorkersNotJoined").len(), 1);
        assert!(now.events("WorkersNotJoined")[0].contains(&missing));

        bench.head.mood(Mood::Honest);
        bench.until("it recovers", |now| now.is_ready("one")).await;
        let asked = bench.head.asked();
        bench.quiet_for(Duration::from_secs(10)).await;
        assert_eq!(bench.head.asked(), asked, "a head that said yes is not asked again");
    });
}

#[test]
fn a_head_that_does_not_answer_is_said_to_be_unreachable() {
    run(async {
        let bench = Bench::new("joining-refused").await;
        let operator = bench.operator().await;
        bench.head.mood(Mood::Refuses);
        bench.apply(&cluster("one", &[("w", 1)])).await;
        bench.until("it says so", |now| now.condition("one", "Ready").reason == "HeadUnreachable").await;
        let now = bench.until("an event says so too", |now| !now.events("HeadUnreachable").is_empty()).await;
        assert_eq!(now.events("HeadUnreachable").len(), 1);
        let start = Instant::now();
        tokio::time::sleep(Duration::from_secs(10)).await;
        let calls = operator.proxy().since(start);
        assert!(calls.iter().all(|c| !c.is_write()), "nothing is written while nothing changes: {calls:#?}");
        assert!(calls.len() < 30, "{} questions in 10 s", calls.len());
        bench.head.mood(Mood::Honest);
        bench.until("it recovers", |now| now.is_ready("one")).await;
    });
}

#[test]
fn a_slow_head_holds_up_nobody_else() {
    run(async {
        let bench = Bench::new("joining-slow").await;
        let _operator = bench.operator().await;
        bench.head.mood(Mood::Hangs);
        bench.apply(&cluster("slow", &[("w", 1)])).await;
        bench.eventually("the slow head is asked", || bench.head.asked() > 0).await;
        bench.head.mood(Mood::Honest);
        let start = Instant::now();
        bench.ready_cluster(&cluster("quick", &[("w", 1)]), 2).await;
        assert!(start.elapsed() < Duration::from_secs(8), "with one slot, it took {:?}", start.elapsed());
        bench.until("the slow one is asked again in the end", |now| now.is_ready("slow")).await;
    });
}

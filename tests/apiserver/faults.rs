//! Answers get lost, the API server refuses, watches break: does it end with exactly the wanted pods?

use std::time::Duration;

use crate::bench::call::Call;
use crate::bench::{Bench, Fate, cluster, run};

/// Creation, a step up and a step down under a rule for writes.
async fn survives(namespace: &str, rule: impl FnMut(&Call) -> Fate + Send + 'static) {
    survives_with_lag(namespace, Duration::ZERO, rule).await;
}

/// The same while watches lag: the operator has nothing but its memory and the names of its pods.
async fn survives_with_lag(namespace: &str, lag: Duration, mut rule: impl FnMut(&Call) -> Fate + Send + 'static) {
    let bench = Bench::new(namespace).await;
    let operator = bench.operator().await;
    operator.proxy().delay_watches(lag);
    let struck = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = std::sync::Arc::clone(&struck);
    operator.proxy().rule(move |call| {
        let fate = rule(call);
        if !matches!(fate, Fate::Forward) {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        fate
    });
    bench.apply(&cluster("one", &[("w", 5)])).await;
    bench.until("it is made", |now| now.is_ready("one") && now.pods("one").len() == 6).await;
    bench.scale("one", 0, 7).await;
    bench.until("it grows", |now| now.is_ready("one") && now.pods("one").len() == 8).await;
    bench.scale("one", 0, 4).await;
    let now = bench.until("it shrinks", |now| now.is_ready("one") && now.pods("one").len() == 5).await;
    let struck = struck.load(std::sync::atomic::Ordering::Relaxed);
    assert!(struck >= 4, "the fault struck {struck} times only");
    operator.proxy().no_rule();
    operator.proxy().delay_watches(Duration::ZERO);
    bench.settle().await;
    assert_eq!(bench.record.all_pods("one").len(), 8, "no pod too many was ever made");
    assert_eq!(bench.record.now().uids("one"), now.uids("one"));
    assert_eq!(now.all("Service").len(), 1);
    assert!(operator.is_running());
}

fn every(n: usize, fate: impl Fn() -> Fate + Send + 'static) -> impl FnMut(&Call) -> Fate + Send + 'static {
    move |call| if call.is_write() && call.nth_write % n == 0 { fate() } else { Fate::Forward }
}

#[test]
fn lost_answers() {
    run(survives("faults-lost", every(2, || Fate::TakeEffectThen(Box::new(|| ())))));
}

#[test]
fn lost_answers_while_watches_lag() {
    run(survives_with_lag(
        "faults-lost-lag",
        Duration::from_secs(3),
        every(2, || Fate::TakeEffectThen(Box::new(|| ()))),
    ));
}

#[test]
fn lost_requests() {
    run(survives("faults-dropped", every(2, || Fate::Drop)));
}

#[test]
fn conflicts() {
    run(survives("faults-conflict", every(2, || Fate::Answer(409, None))));
}

#[test]
fn too_many_requests() {
    run(survives("faults-throttled", every(2, || Fate::Answer(429, Some(1)))));
}

#[test]
fn server_errors() {
    run(survives("faults-error", every(3, || Fate::Answer(500, None))));
}

#[test]
fn nothing_but_server_errors_for_a_while() {
    run(async {
        let bench = Bench::new("faults-outage").await;
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 1)]), 2).await;
        operator.proxy().rule(|_| Fate::Answer(503, Some(1)));
        operator.proxy().cut_watches();
        bench.scale("one", 0, 3).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        let calls = operator.proxy().calls().len();
        assert!(calls < 200, "{calls} requests while nothing works");
        assert!(operator.is_running());
        operator.proxy().no_rule();
        bench.until("it recovers", |now| now.is_ready("one") && now.pods("one").len() == 4).await;
        assert_eq!(bench.record.all_pods("one").len(), 4);
    });
}

#[test]
fn watches_that_break_all_the_time() {
    run(async {
        let bench = Bench::new("faults-watches").await;
        let operator = bench.operator().await;
        let proxy = std::sync::Arc::clone(operator.proxy());
        let cutter = tokio::spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_millis(100)).await;
                proxy.cut_watches();
            }
        });
        let started = || operator.proxy().calls().iter().filter(|c| c.verb == "watch").count();
        bench.apply(&cluster("one", &[("w", 5)])).await;
        for (replicas, pods) in [(5, 6), (7, 8), (4, 5)] {
            let before = started();
            bench.scale("one", 0, replicas).await;
            bench.until("it is as wanted", |now| now.is_ready("one") && now.pods("one").len() == pods).await;
            bench.eventually("watches were cut and began again", || started() >= before + 3).await;
        }
        cutter.abort();
        bench.settle().await;
        assert_eq!(bench.record.all_pods("one").len(), 8);
        assert_eq!(bench.record.now().pods("one").len(), 5);
    });
}

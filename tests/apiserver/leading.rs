//! Two operators: one leads. What happens when it dies, leaves, or sleeps through its lease?

use std::time::{Duration, Instant};

use crate::bench::{Bench, Operator, cluster, run};

async fn candidate(bench: &Bench) -> Operator {
    let namespace = format!("--leader-election-namespace={}", bench.namespace);
    bench.operator_with(&["--enable-leader-election=true", &namespace]).await
}

/// Writes beyond the Lease.
fn work(operator: &Operator) -> usize {
    operator.proxy().writes().iter().filter(|c| c.resource != "leases").count()
}

/// Two candidates: the one that leads, which made the cluster `first`, and the other, which did nothing.
async fn pair(bench: &Bench) -> (Operator, Operator) {
    let (a, b) = (candidate(bench).await, candidate(bench).await);
    bench.ready_cluster(&cluster("first", &[("w", 1)]), 2).await;
    bench.settle().await;
    let (leader, other) = if work(&a) > 0 { (a, b) } else { (b, a) };
    assert!(work(&leader) > 0);
    assert_eq!(work(&other), 0, "one leads");
    (leader, other)
}

#[test]
fn the_other_takes_over_when_the_leader_is_killed() {
    run(async {
        let bench = Bench::new("leading-killed").await;
        let (leader, other) = pair(&bench).await;
        leader.kill();
        let killed = Instant::now();
        bench.ready_cluster(&cluster("second", &[("w", 1)]), 2).await;
        let took = killed.elapsed();
        assert!(took > Duration::from_secs(5), "not before the lease expired: {took:?}");
        assert!(took < Duration::from_secs(30), "{took:?}");
        assert!(work(&other) > 0);
        bench.settle().await;
        assert_eq!(bench.record.all_pods("first").len(), 2, "the first cluster is left as it was");
    });
}

#[test]
fn the_lead_is_handed_over_quickly_on_a_friendly_end() {
    run(async {
        let bench = Bench::new("leading-term").await;
        let (leader, other) = pair(&bench).await;
        leader.signal("TERM");
        let told = Instant::now();
        bench.ready_cluster(&cluster("second", &[("w", 1)]), 2).await;
        let took = told.elapsed();
        assert!(took < Duration::from_secs(8), "{took:?}");
        assert!(work(&other) > 0);
        bench.eventually("the old leader ends", || !leader.is_running()).await;
        bench.settle().await;
        assert_eq!(bench.record.all_pods("first").len(), 2);
    });
}

#[test]
fn a_leader_that_slept_through_its_lease_writes_nothing_more() {
    run(async {
        let bench = Bench::new("leading-slept").await;
        let (sleeper, other) = pair(&bench).await;
        sleeper.signal("STOP");
        bench.ready_cluster(&cluster("second", &[("w", 1)]), 2).await;
        // Temptations: what it would do something about, were it still leading.
        bench.apply(&cluster("third", &[("w", 1)])).await;
        bench.scale("first", 0, 2).await;
        bench
            .until("the other does it", |now| {
                now.is_ready("third") && now.is_ready("first") && now.pods("first").len() == 3
            })
            .await;
        let done = sleeper.proxy().writes().len();
        let before = work(&sleeper);
        sleeper.signal("CONT");
        bench.scale("second", 0, 2).await;
        bench.until("the other goes on", |now| now.is_ready("second") && now.pods("second").len() == 3).await;
        bench
            .eventually("the old leader ends, or asks for the lead again", || {
                !sleeper.is_running() || sleeper.proxy().calls().iter().skip(done).any(|c| c.resource == "leases")
            })
            .await;
        bench.settle().await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(work(&sleeper), before, "the old leader wrote after it woke: {:#?}", sleeper.proxy().writes());
        assert!(work(&other) > 0);
        for (name, pods) in [("first", 3), ("second", 3), ("third", 2)] {
            assert_eq!(bench.record.all_pods(name).len(), pods, "{name} never had another pod");
        }
    });
}

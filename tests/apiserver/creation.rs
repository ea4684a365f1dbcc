//! What does making a cluster cost?

use crate::bench::call::Call;
use crate::bench::{Bench, audit, cluster, run};

/// Titles of writes with their number.
fn tally(writes: &[Call]) -> std::collections::BTreeMap<String, usize> {
    let mut tally = std::collections::BTreeMap::new();
    for call in writes {
        *tally.entry(call.title()).or_default() += 1;
    }
    tally
}

#[test]
fn six_pods_cost_one_create_each_and_few_words() {
    run(async {
        let bench = Bench::new("creation").await;
        let mark = audit::mark(&bench.server.dir);
        let operator = bench.operator().await;
        bench.ready_cluster(&cluster("one", &[("w", 5)]), 6).await;
        bench.settle().await;

        let writes = operator.proxy().writes();
        let count = tally(&writes);
        assert_eq!(count["create pods"], 6, "{count:?}");
        assert_eq!(count["create services"], 1, "{count:?}");
        assert!(count["patch rayclusters/status"] <= 4, "{count:?}");
        assert!(count["create events"] <= 2, "{count:?}");
        assert_eq!(count.len(), 4, "nothing else is written: {count:?}");
        assert!(writes.iter().all(|c| c.code < 300), "every write succeeds at once: {writes:#?}");

        // The API server's own book agrees with the proxy's.
        let is_write = |t: &String| ["create ", "update ", "patch ", "delete "].iter().any(|verb| t.starts_with(verb));
        let mut audited: Vec<String> =
            audit::since(&bench.server.dir, mark, &bench.user()).into_iter().filter(is_write).collect();
        let mut counted: Vec<String> = writes.iter().map(Call::title).collect();
        audited.sort();
        counted.sort();
        assert_eq!(audited, counted);
    });
}

#[test]
fn ten_clusters_at_once_cost_ten_times_as_much_and_no_more() {
    run(async {
        let bench = Bench::new("creation-ten").await;
        let operator = bench.operator_with(&["--reconcile-concurrency=10"]).await;
        let names: Vec<String> = (0..10).map(|n| format!("c{n}")).collect();
        let objects: Vec<_> = names.iter().map(|name| cluster(name, &[("w", 5)])).collect();
        futures::future::join_all(objects.iter().map(|c| bench.apply(c))).await;
        bench.until("ten clusters are Ready", |now| names.iter().all(|n| now.is_ready(n))).await;
        bench.settle().await;

        let writes = operator.proxy().writes();
        let count = tally(&writes);
        assert_eq!(count["create pods"], 60, "{count:?}");
        assert_eq!(count["create services"], 10, "{count:?}");
        assert!(count["patch rayclusters/status"] <= 40, "{count:?}");
        assert!(count["create events"] <= 20, "{count:?}");
        assert!(writes.iter().all(|c| c.code < 300), "every write succeeds at once");
        for name in &names {
            assert_eq!(bench.record.all_pods(name).len(), 6, "{name} never had another pod");
        }
    });
}

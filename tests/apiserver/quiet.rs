//! Does a settled fleet cost anything?

use std::time::Duration;

use crate::bench::{Bench, audit, cluster, run};
use crate::full;

#[test]
fn a_settled_fleet_costs_nothing_but_the_lease() {
    run(async {
        let bench = Bench::new("quiet").await;
        let election = ["--enable-leader-election=true", "--leader-election-namespace=quiet"];
        let operator = bench.operator_with(&election).await;
        let names: Vec<String> = (0..5).map(|n| format!("c{n}")).collect();
        for name in &names {
            bench.apply(&cluster(name, &[("a", 2), ("b", 1)])).await;
        }
        bench.until("five clusters are Ready", |now| names.iter().all(|n| now.is_ready(n))).await;
        bench.settle().await;

        let mark = audit::mark(&bench.server.dir);
        bench.quiet_for(Duration::from_secs(if full() { 120 } else { 20 })).await;
        let requests = audit::since(&bench.server.dir, mark, &bench.user());
        let (lease, other): (Vec<_>, Vec<_>) = requests.into_iter().partition(|r| r.ends_with(" leases"));
        assert!(!lease.is_empty(), "the operator was alive and renewed its lease");
        // A watch ends now and then and begins again.
        let other: Vec<_> = other.into_iter().filter(|r| !r.starts_with("watch ")).collect();
        assert_eq!(other, Vec::<String>::new());
        assert!(operator.is_running());
    });
}

use super::*;

fn metrics() -> Arc<Metrics> {
    Arc::new(Metrics::new().unwrap())
}

/// Metric lines that begin with one of the words, without those of buckets.
fn lines(metrics: &Metrics, words: &[&str]) -> Vec<String> {
    let text = metrics.text().unwrap();
    text.lines()
        .filter(|line| words.iter().any(|word| line.starts_with(word)) && !line.contains("_bucket{"))
        .map(str::to_string)
        .collect()
}

#[test]
fn names_types_labels_and_buckets() {
    let metrics = metrics();
    metrics
        .watch_clusters(|| vec![ClusterSample { provisioned_seconds: Some(1.0), ..ClusterSample::default() }])
        .unwrap();
    metrics.leading("ray-operator-leader", true);
    metrics.lease_read_while_leading("ray-operator-leader");
    metrics.requested("GET", "h", "200", 0.1);
    metrics.request_retried("GET", "h", "429");
    metrics.held_back("GET", "h", 0.1);
    metrics.sent_bytes("GET", "h", 1);
    metrics.received_bytes("GET", "h", 1);
    metrics.text().unwrap();
    let mut shapes = Vec::new();
    for family in metrics.registry.gather() {
        let Some(first) = family.get_metric().first() else { continue };
        let labels: Vec<&str> = first.get_label().iter().map(|label| label.name()).collect();
        let buckets: Vec<f64> = first.get_histogram().get_bucket().iter().map(|bucket| bucket.upper_bound()).collect();
        let buckets = if buckets.is_empty() { String::new() } else { format!(" {buckets:?}") };
        let kind = format!("{:?}", family.get_field_type()).to_lowercase();
        shapes.push(format!("{} {kind} {{{}}}{buckets}", family.name(), labels.join(",")));
    }
    insta::assert_snapshot!(shapes.join("\n"));
}

#[test]
fn a_fresh_process_shows_zeros() {
    let zeros = lines(&metrics(), &["controller_runtime_reconcile_total", "workqueue_depth"]);
    assert_eq!(zeros.len(), 4 * 4 + 4);
    assert!(zeros.iter().all(|line| line.ends_with(" 0")), "{zeros:?}");
}

#[test]
fn a_pass_is_counted() {
    let metrics = metrics();
    metrics.queued("raycluster");
    metrics.depth("raycluster", 3);
    metrics.concurrency("raycluster", 5);
    let pass = metrics.begin("raycluster", Duration::from_millis(20));
    std::thread::sleep(Duration::from_millis(5));
    let words = ["controller_runtime_active_workers{controller=\"raycluster\"}"];
    assert_eq!(lines(&metrics, &words), [format!("{} 1", words[0])]);
    let spent = lines(
        &metrics,
        &[
            "workqueue_unfinished_work_seconds{controller=\"raycluster\"",
            "workqueue_longest_running_processor_seconds{controller=\"raycluster\"",
        ],
    );
    assert!(spent.len() == 2 && spent.iter().all(|line| line.contains("} 0.0")), "{spent:?}");
    metrics.reconciled("raycluster", Outcome::Error, pass.seconds());
    metrics.retried("raycluster");
    metrics.panicked("raycluster");
    drop(pass);
    let counted: Vec<String> = lines(&metrics, &["controller_runtime", "workqueue"])
        .into_iter()
        .filter(|line| line.contains("controller=\"raycluster\"") && !line.ends_with(" 0") && !line.contains("_sum{"))
        .collect();
    insta::assert_snapshot!(counted.join("\n"));
}

#[test]
fn clusters_are_computed_when_asked_for() {
    let metrics = metrics();
    let known = Arc::new(Mutex::new(Vec::new()));
    let source = known.clone();
    metrics.watch_clusters(move || source.lock().unwrap().clone()).unwrap();
    assert!(lines(&metrics, &["kuberay_"]).is_empty());
    known.lock().unwrap().push(ClusterSample {
        name: "a".into(),
        namespace: "ns".into(),
        uid: "u1".into(),
        owner_kind: "RayJob".into(),
        provisioned: true,
        provisioned_seconds: Some(21.5),
    });
    known.lock().unwrap().push(ClusterSample {
        name: "b".into(),
        owner_kind: "None".into(),
        ..ClusterSample::default()
    });
    insta::assert_snapshot!(lines(&metrics, &["kuberay_"]).join("\n"));
    known.lock().unwrap().clear();
    assert!(lines(&metrics, &["kuberay_"]).is_empty(), "no series outlives its object");
}

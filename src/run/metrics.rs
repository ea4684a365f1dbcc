//! What is counted and measured, under the names that controller-runtime, client-go and KubeRay gave it, so that
//! dashboards made for KubeRay go on working. One registry per process run, handed around; there is no global one.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus::process_collector::ProcessCollector;
use prometheus::{
    Encoder, Error, GaugeVec, HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, TextEncoder,
};

pub mod clusters;

pub use clusters::ClusterSample;

/// The kinds that have a controller, as the label `controller` has them.
pub const CONTROLLERS: [&str; 4] = ["raycluster", "rayjob", "rayservice", "raycronjob"];

/// controller-runtime's buckets of reconcile times, in seconds.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
    1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
];
/// client-go's buckets of request times, in seconds.
const REQUEST_BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// client-go's buckets of sizes, in bytes.
const SIZE_BUCKETS: [f64; 11] =
    [64.0, 256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0];
/// The workqueue's buckets, in seconds: 10 ns to 1,000 s by tens.
const QUEUE_BUCKETS: [f64; 12] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0];

/// How a pass ended, as the label `result` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do until something changes.
    Success,
    Error,
    /// To be run again at once.
    Requeue,
    /// To be run again after a time.
    RequeueAfter,
}

impl Outcome {
    const ALL: [Self; 4] = [Self::Success, Self::Error, Self::Requeue, Self::RequeueAfter];

    fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Error => "error",
            Self::Requeue => "requeue",
            Self::RequeueAfter => "requeue_after",
        }
    }
}

/// All metrics of this process.
pub struct Metrics {
    registry: Registry,
    reconcile_total: IntCounterVec,
    reconcile_errors: IntCounterVec,
    reconcile_panics: IntCounterVec,
    reconcile_timeouts: IntCounterVec,
    reconcile_terminal_errors: IntCounterVec,
    reconcile_seconds: HistogramVec,
    max_concurrent: IntGaugeVec,
    active_workers: IntGaugeVec,
    queue_depth: IntGaugeVec,
    queue_adds: IntCounterVec,
    queue_retries: IntCounterVec,
    queue_waited: HistogramVec,
    queue_worked: HistogramVec,
    queue_unfinished: GaugeVec,
    queue_longest: GaugeVec,
    leader: IntGaugeVec,
    leader_slowpath: IntCounterVec,
    requests: IntCounterVec,
    request_retries: IntCounterVec,
    request_seconds: HistogramVec,
    limiter_seconds: HistogramVec,
    request_bytes: HistogramVec,
    response_bytes: HistogramVec,
    running: Running,
}

/// When each pass that runs now began, by controller and number.
#[derive(Default)]
struct Running {
    passes: Mutex<BTreeMap<(&'static str, u64), Instant>>,
    next: AtomicU64,
}

/// A pass under way. Dropping it says that the pass is over.
pub struct Pass {
    metrics: Arc<Metrics>,
    controller: &'static str,
    number: u64,
    began: Instant,
}

impl Metrics {
    /// Registers everything and makes the series of [`CONTROLLERS`], so that a fresh process shows zeros. Fails only if
    /// two metrics have one name.
    pub fn new() -> Result<Self, Error> {
        let r = &Registry::new();
        let metrics = Self {
            registry: r.clone(),
            reconcile_total: counter(
                r,
                "controller_runtime_reconcile_total",
                "Passes by controller and result",
                &["controller", "result"],
            )?,
            reconcile_errors: counter(
                r,
                "controller_runtime_reconcile_errors_total",
                "Passes that failed",
                &["controller"],
            )?,
            reconcile_panics: counter(
                r,
                "controller_runtime_reconcile_panics_total",
                "Passes that panicked",
                &["controller"],
            )?,
            reconcile_timeouts: counter(
                r,
                "controller_runtime_reconcile_timeouts_total",
                "Passes that took too long",
                &["controller"],
            )?,
            reconcile_terminal_errors: counter(
                r,
                "controller_runtime_terminal_reconcile_errors_total",
                "Passes that failed and are not tried again until something changes",
                &["controller"],
            )?,
            reconcile_seconds: histogram(
                r,
                "controller_runtime_reconcile_time_seconds",
                "How long passes took",
                &RECONCILE_BUCKETS,
                &["controller"],
            )?,
            max_concurrent: gauge(
                r,
                "controller_runtime_max_concurrent_reconciles",
                "How many passes may run at once",
                &["controller"],
            )?,
            active_workers: gauge(r, "controller_runtime_active_workers", "How many passes run now", &["controller"])?,
            queue_depth: gauge(
                r,
                "workqueue_depth",
                "Objects that wait for a pass",
                &["controller", "name", "priority"],
            )?,
            queue_adds: counter(r, "workqueue_adds_total", "Objects that were queued", &["controller", "name"])?,
            queue_retries: counter(
                r,
                "workqueue_retries_total",
                "Objects that were queued again after a failure",
                &["controller", "name"],
            )?,
            queue_waited: histogram(
                r,
                "workqueue_queue_duration_seconds",
                "How long objects waited for a pass",
                &QUEUE_BUCKETS,
                &["controller", "name"],
            )?,
            queue_worked: histogram(
                r,
                "workqueue_work_duration_seconds",
                "How long passes took",
                &QUEUE_BUCKETS,
                &["controller", "name"],
            )?,
            queue_unfinished: float_gauge(
                r,
                "workqueue_unfinished_work_seconds",
                "Time spent so far by passes that run now",
                &["controller", "name"],
            )?,
            queue_longest: float_gauge(
                r,
                "workqueue_longest_running_processor_seconds",
                "Time spent so far by the oldest pass that runs now",
                &["controller", "name"],
            )?,
            leader: gauge(r, "leader_election_master_status", "1 on the leader, 0 on a candidate", &["name"])?,
            leader_slowpath: counter(
                r,
                "leader_election_slowpath_total",
                "Times that a leader had to read its Lease again",
                &["name"],
            )?,
            requests: counter(
                r,
                "rest_client_requests_total",
                "Requests to the API server",
                &["code", "host", "method"],
            )?,
            request_retries: counter(
                r,
                "rest_client_request_retries_total",
                "Requests that were sent again",
                &["code", "host", "verb"],
            )?,
            request_seconds: histogram(
                r,
                "rest_client_request_duration_seconds",
                "How long requests took; for watches until they began",
                &REQUEST_BUCKETS,
                &["host", "verb"],
            )?,
            limiter_seconds: histogram(
                r,
                "rest_client_rate_limiter_duration_seconds",
                "How long requests were held back by --qps",
                &REQUEST_BUCKETS,
                &["host", "verb"],
            )?,
            request_bytes: histogram(
                r,
                "rest_client_request_size_bytes",
                "Bodies sent",
                &SIZE_BUCKETS,
                &["host", "verb"],
            )?,
            response_bytes: histogram(
                r,
                "rest_client_response_size_bytes",
                "Bodies received, watches apart",
                &SIZE_BUCKETS,
                &["host", "verb"],
            )?,
            running: Running::default(),
        };
        #[cfg(target_os = "linux")]
        r.register(Box::new(ProcessCollector::for_self()))?;
        metrics.show_zeros();
        Ok(metrics)
    }

    fn show_zeros(&self) {
        for controller in CONTROLLERS {
            for outcome in Outcome::ALL {
                self.reconcile_total.with_label_values(&[controller, outcome.label()]);
            }
            for vec in [
                &self.reconcile_errors,
                &self.reconcile_panics,
                &self.reconcile_timeouts,
                &self.reconcile_terminal_errors,
            ] {
                vec.with_label_values(&[controller]);
            }
            self.reconcile_seconds.with_label_values(&[controller]);
            self.max_concurrent.with_label_values(&[controller]);
            self.active_workers.with_label_values(&[controller]);
            self.queue_depth.with_label_values(&[controller, controller, "0"]);
            for vec in [&self.queue_adds, &self.queue_retries] {
                vec.with_label_values(&[controller, controller]);
            }
            for vec in [&self.queue_waited, &self.queue_worked] {
                vec.with_label_values(&[controller, controller]);
            }
        }
    }

    /// Adds KubeRay's `kuberay_cluster_*`, computed by `clusters` at each scrape: no series outlives its object.
    pub fn watch_clusters(
        &self,
        clusters: impl Fn() -> Vec<ClusterSample> + Send + Sync + 'static,
    ) -> Result<(), Error> {
        self.registry.register(Box::new(clusters::ClusterCollector::new(clusters)?))
    }

    /// Says how many passes of a controller may run at once.
    pub fn concurrency(&self, controller: &'static str, passes: usize) {
        self.max_concurrent.with_label_values(&[controller]).set(as_i64(passes));
    }

    /// An object was queued.
    pub fn queued(&self, controller: &'static str) {
        self.queue_adds.with_label_values(&[controller, controller]).inc();
    }

    /// An object was queued again because its pass failed. Counts beside [`Metrics::queued`].
    pub fn retried(&self, controller: &'static str) {
        self.queue_retries.with_label_values(&[controller, controller]).inc();
    }

    /// How many objects wait now.
    pub fn depth(&self, controller: &'static str, waiting: usize) {
        self.queue_depth.with_label_values(&[controller, controller, "0"]).set(as_i64(waiting));
    }

    /// A pass begins for an object that was queued for `waited`. Keep the answer until the pass is over.
    pub fn begin(self: &Arc<Self>, controller: &'static str, waited: Duration) -> Pass {
        self.queue_waited.with_label_values(&[controller, controller]).observe(waited.as_secs_f64());
        self.active_workers.with_label_values(&[controller]).inc();
        let began = Instant::now();
        let number = self.running.next.fetch_add(1, Ordering::Relaxed);
        self.running.lock().insert((controller, number), began);
        Pass { metrics: self.clone(), controller, number, began }
    }

    /// A pass ended after `seconds`.
    pub fn reconciled(&self, controller: &'static str, outcome: Outcome, seconds: f64) {
        self.reconcile_total.with_label_values(&[controller, outcome.label()]).inc();
        self.reconcile_seconds.with_label_values(&[controller]).observe(seconds);
        if outcome == Outcome::Error {
            self.reconcile_errors.with_label_values(&[controller]).inc();
        }
    }

    /// A pass panicked. Counts beside [`Metrics::reconciled`].
    pub fn panicked(&self, controller: &'static str) {
        self.reconcile_panics.with_label_values(&[controller]).inc();
    }

    /// Whether this process leads the election of that name.
    pub fn leading(&self, lease: &str, leads: bool) {
        self.leader.with_label_values(&[lease]).set(i64::from(leads));
    }

    /// A leader had to read its Lease again.
    pub fn lease_read_while_leading(&self, lease: &str) {
        self.leader_slowpath.with_label_values(&[lease]).inc();
    }

    /// A request was answered, or was not: then `code` is `<error>`, as client-go has it.
    pub fn requested(&self, method: &str, host: &str, code: &str, seconds: f64) {
        self.requests.with_label_values(&[code, host, method]).inc();
        self.request_seconds.with_label_values(&[host, method]).observe(seconds);
    }

    /// A request is sent again after an answer with that code.
    pub fn request_retried(&self, verb: &str, host: &str, code: &str) {
        self.request_retries.with_label_values(&[code, host, verb]).inc();
    }

    /// A request was held back by the limit on requests.
    pub fn held_back(&self, verb: &str, host: &str, seconds: f64) {
        self.limiter_seconds.with_label_values(&[host, verb]).observe(seconds);
    }

    /// Bytes that went out with a request.
    pub fn sent_bytes(&self, verb: &str, host: &str, bytes: u64) {
        self.request_bytes.with_label_values(&[host, verb]).observe(bytes as f64);
    }

    /// Bytes that came back with an answer.
    pub fn received_bytes(&self, verb: &str, host: &str, bytes: u64) {
        self.response_bytes.with_label_values(&[host, verb]).observe(bytes as f64);
    }

    /// Everything, in Prometheus' text format.
    pub fn text(&self) -> Result<String, Error> {
        self.measure_running();
        let mut text = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The content type of [`Metrics::text`].
    pub fn content_type() -> &'static str {
        prometheus::TEXT_FORMAT
    }

    fn measure_running(&self) {
        let now = Instant::now();
        let mut spent: BTreeMap<&str, (f64, f64)> = CONTROLLERS.iter().map(|c| (*c, (0.0, 0.0))).collect();
        for ((controller, _), began) in self.running.lock().iter() {
            let seconds = now.saturating_duration_since(*began).as_secs_f64();
            let (sum, longest) = spent.entry(controller).or_default();
            *sum += seconds;
            *longest = longest.max(seconds);
        }
        for (controller, (sum, longest)) in spent {
            self.queue_unfinished.with_label_values(&[controller, controller]).set(sum);
            self.queue_longest.with_label_values(&[controller, controller]).set(longest);
        }
    }
}

impl Running {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<(&'static str, u64), Instant>> {
        self.passes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass {
    /// Seconds since the pass began.
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let metrics = &self.metrics;
        metrics.running.lock().remove(&(self.controller, self.number));
        metrics.active_workers.with_label_values(&[self.controller]).dec();
        metrics.queue_worked.with_label_values(&[self.controller, self.controller]).observe(self.seconds());
    }
}

fn as_i64(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn counter(r: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
    let vec = IntCounterVec::new(Opts::new(name, help), labels)?;
    r.register(Box::new(vec.clone()))?;
    Ok(vec)
}

fn gauge(r: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, Error> {
    let vec = IntGaugeVec::new(Opts::new(name, help), labels)?;
    r.register(Box::new(vec.clone()))?;
    Ok(vec)
}

fn float_gauge(r: &Registry, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, Error> {
    let vec = GaugeVec::new(Opts::new(name, help), labels)?;
    r.register(Box::new(vec.clone()))?;
    Ok(vec)
}

fn histogram(r: &Registry, name: &str, help: &str, buckets: &[f64], labels: &[&str]) -> Result<HistogramVec, Error> {
    let vec = HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels)?;
    r.register(Box::new(vec.clone()))?;
    Ok(vec)
}

#[cfg(test)]
mod tests;

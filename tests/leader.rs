//! Real processes fight for a real Lease: killed, asked to end, stopped and woken up late.
//!
//! Needs an API server: set `TEST_KUBECONFIG` to a kubeconfig that may make namespaces and Leases; skipped without it.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, ObjectMeta, PostParams};
use ray_operator::run::client::find_cluster;

struct Operator {
    name: &'static str,
    child: Child,
    port: u16,
}

impl Operator {
    fn start(name: &'static str, kubeconfig: &PathBuf, namespace: &str) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(env!("CARGO_BIN_EXE_ray-operator"))
            .arg("-kubeconfig")
            .arg(kubeconfig)
            .arg(format!("-metrics-addr=127.0.0.1:{port}"))
            .arg("--health-probe-bind-address=0")
            .arg(format!("--leader-election-namespace={namespace}"))
            .env("HOSTNAME", name)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { name, child, port }
    }

    fn signal(&self, signal: &str) {
        let done = Command::new("kill").arg(signal).arg(self.child.id().to_string()).status().unwrap();
        assert!(done.success(), "kill {signal} {}", self.name);
    }

    /// What its metrics say; `None` when it does not answer.
    fn leads(&self) -> Option<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(Duration::from_millis(500))).ok()?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        Some(text.contains("leader_election_master_status{name=\"ray-operator-leader\"} 1"))
    }

    fn exit_code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        // An end of the test must leave nothing behind, a stopped process included.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the one that leads is among `operators`, and sees all the while that at most one does.
async fn leader(operators: &[&Operator], within: Duration) -> &'static str {
    let began = Instant::now();
    loop {
        let leading: Vec<_> = operators.iter().filter(|o| o.leads() == Some(true)).map(|o| o.name).collect();
        assert!(leading.len() <= 1, "{leading:?} lead at once");
        if let Some(name) = leading.first() {
            return name;
        }
        assert!(began.elapsed() < within, "nobody leads after {within:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[tokio::test]
async fn at_most_one_leads_through_kill_term_and_stop() {
    let Some(kubeconfig) = std::env::var_os("TEST_KUBECONFIG").map(PathBuf::from) else {
        eprintln!("skipped: TEST_KUBECONFIG is not set");
        return;
    };
    let client = kube::Client::try_from(find_cluster(Some(&kubeconfig)).await.unwrap()).unwrap();
    let namespace = format!("lease-{}", std::process::id());
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let metadata = ObjectMeta { name: Some(namespace.clone()), ..ObjectMeta::default() };
    namespaces.create(&PostParams::default(), &Namespace { metadata, ..Namespace::default() }).await.unwrap();
    let leases: Api<Lease> = Api::namespaced(client, &namespace);
    let holder = || async {
        let lease = leases.get("ray-operator-leader").await.unwrap();
        lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
    };

    let a = Operator::start("a", &kubeconfig, &namespace);
    assert_eq!(leader(&[&a], seconds(10)).await, "a");
    let b = Operator::start("b", &kubeconfig, &namespace);
    let c = Operator::start("c", &kubeconfig, &namespace);
    assert_eq!(leader(&[&a, &b, &c], seconds(5)).await, "a", "newcomers wait");

    // Killed: nobody gives the lead back, so it has to run out.
    let killed = Instant::now();
    a.signal("-KILL");
    assert_eq!(a.exit_code(), None);
    let second = leader(&[&b, &c], seconds(25)).await;
    assert!(killed.elapsed() > seconds(9), "the lead was taken while it could have been held");
    assert!(holder().await.starts_with(&format!("{second}_")));

    // Asked to end: it gives the lead back, and the next one is quick.
    let (ended, left) = if second == "b" { (b, c) } else { (c, b) };
    ended.signal("-TERM");
    assert_eq!(ended.exit_code(), Some(0));
    assert_eq!(leader(&[&left], seconds(6)).await, left.name);

    // Stopped: another one takes over. Woken up late, it must not touch the Lease but end.
    let d = Operator::start("d", &kubeconfig, &namespace);
    left.signal("-STOP");
    assert_eq!(leader(&[&d], seconds(25)).await, "d");
    left.signal("-CONT");
    assert_eq!(left.exit_code(), Some(1));
    assert!(holder().await.starts_with("d_"));
    assert_eq!(leader(&[&d], seconds(1)).await, "d");

    namespaces.delete(&namespace, &DeleteParams::default()).await.unwrap();
}

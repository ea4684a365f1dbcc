//! One operator process under test, behind its own proxy.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::head::Head;
use super::proxy::{self, Proxy};
use super::server::{Server, kubeconfig, tail};

static STARTED: AtomicUsize = AtomicUsize::new(1);

/// Killed when it is dropped.
pub struct Operator {
    process: Arc<Mutex<Child>>,
    pub log: PathBuf,
    running: proxy::Running,
}

impl Operator {
    /// Starts an operator that counts as that user and watches that namespace. Leader election is off unless the
    /// arguments switch it on; later arguments win.
    pub async fn start(server: &Server, namespace: &str, user: &str, head: Arc<Head>, arguments: &[&str]) -> Operator {
        let running = proxy::start(server.client.clone(), user, head).await;
        let name = format!("operator-{}-{}", namespace, STARTED.fetch_add(1, Ordering::Relaxed));
        let config = server.dir.join(format!("{name}.kubeconfig"));
        let url = format!("http://127.0.0.1:{}", running.proxy.port);
        std::fs::write(&config, kubeconfig(&url, None, namespace)).expect("a kubeconfig");
        let mut command = Command::new(env!("CARGO_BIN_EXE_ray-operator"));
        command
            .env_clear()
            .arg("--kubeconfig")
            .arg(&config)
            .arg(format!("--watch-namespace={namespace}"))
            .args(["--enable-leader-election=false", "--metrics-addr=0", "--health-probe-bind-address=0"])
            .args(["--use-kubernetes-proxy=true", "--log-level=info"])
            .args(arguments);
        let process = Arc::new(Mutex::new(server.spawn(&name, command)));
        Operator { process, log: server.dir.join(format!("{name}.log")), running }
    }

    pub fn proxy(&self) -> &Arc<Proxy> {
        &self.running.proxy
    }

    /// Kills it at once, like a lost node; safe to call from a proxy's rule.
    pub fn killer(&self) -> impl FnOnce() + Send + use<> {
        let process = Arc::clone(&self.process);
        move || {
            let mut process = process.lock().expect("the process");
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub fn kill(&self) {
        self.killer()();
    }

    pub fn is_running(&self) -> bool {
        self.process.lock().expect("the process").try_wait().is_ok_and(|ended| ended.is_none())
    }

    /// Sends a signal by name: TERM, STOP, CONT.
    pub fn signal(&self, signal: &str) {
        let id = self.process.lock().expect("the process").id();
        let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {id}")]).status();
        assert!(sent.is_ok_and(|s| s.success()), "kill -{signal} {id}");
    }

    pub fn log_text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn log_tail(&self) -> String {
        tail(&self.log, 30)
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.kill();
    }
}

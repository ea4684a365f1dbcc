//! One etcd, API server and garbage collector for the whole run. They end with this process, whatever ends it.

use std::fs::{self, File};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use kube::config::{AuthInfo, Config};
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use super::{install, rights};

/// All tests share one runtime: the connections of a client live on the runtime that opened them.
static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().expect("a runtime")
});
static SERVER: OnceCell<Server> = OnceCell::const_new();

/// Runs a test.
pub fn run(test: impl Future<Output = ()>) {
    RUNTIME.block_on(test);
}

pub async fn server() -> &'static Server {
    SERVER.get_or_init(Server::start).await
}

pub struct Server {
    /// Of an administrator, without retries of its own.
    pub client: Client,
    pub dir: PathBuf,
    guardian: Mutex<ChildStdin>,
    _processes: Vec<Child>,
}

/// Kills, once its standard input ends, the processes whose ids it read there. A pipe ends with the process that holds
/// its other end, so this works after a panic, a ctrl-c and a kill -9 alike. The command line must name our folder, as
/// a process id may have gone to somebody else since.
const GUARDIAN: &str = r#"
trap "" INT TERM HUP
while read -r pid; do pids="$pids $pid"; done
for pid in $pids; do
  case $(tr '\0' ' ' 2>/dev/null </proc/"$pid"/cmdline) in *"$1"*) kill -9 "$pid" ;; esac
done
rm -rf "$1"
"#;

const AUDIT_POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata}]
";

impl Server {
    async fn start() -> Server {
        let localkube = localkube();
        let dir = std::env::temp_dir().join(format!("ray-operator-apiserver-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder for the API server");
        let mut guardian = Command::new("sh")
            .args(["-c", GUARDIAN, "guardian"])
            .arg(&dir)
            .stdin(Stdio::piped())
            .spawn()
            .expect("sh, to clean up after us");
        let pipe = Mutex::new(guardian.stdin.take().expect("a pipe"));
        let mut processes = vec![guardian];
        let guardian = pipe;
        let token = fs::read_to_string("/proc/sys/kernel/random/uuid").expect("a random token").trim().to_owned();
        keys(&dir);
        fs::write(dir.join("tokens.csv"), format!("{token},admin,admin,system:masters\n")).expect("tokens.csv");
        fs::write(dir.join("audit.yaml"), AUDIT_POLICY).expect("audit.yaml");

        let path = |name: &str| dir.join(name).display().to_string();
        let (store, peers) = (format!("unix://{}", path("c.sock")), format!("unix://{}", path("p.sock")));
        let nobody = "http://127.0.0.1:1"; // the one member has no other to tell its address
        let mut etcd = Command::new(&localkube);
        etcd.args(["etcd", "--name", "only", "--unsafe-no-fsync", "--log-level", "error"])
            .args(["--data-dir", &path("etcd"), "--initial-cluster", &format!("only={nobody}")])
            .args(["--listen-client-urls", &store, "--advertise-client-urls", nobody])
            .args(["--listen-peer-urls", &peers, "--initial-advertise-peer-urls", nobody]);
        processes.push(spawn(&guardian, &dir, "etcd", etcd));
        let socket = dir.join("c.sock");
        wait_for("etcd's socket", &dir, "etcd", || socket.exists()).await;

        for attempt in 1.. {
            let port = free_port();
            let mut apiserver = Command::new(&localkube);
            apiserver
                .args(["kube-apiserver", "--etcd-servers", &store, "--bind-address", "127.0.0.1"])
                .args(["--secure-port", &port.to_string(), "--cert-dir", &path("certs")])
                .args(["--service-account-issuer", "https://kubernetes.default.svc"])
                .args(["--service-account-key-file", &path("sa.pub")])
                .args(["--service-account-signing-key-file", &path("sa.key")])
                .args(["--authorization-mode", "RBAC", "--token-auth-file", &path("tokens.csv")])
                .args(["--audit-policy-file", &path("audit.yaml"), "--audit-log-path", &path("audit.log")])
                .args(["--disable-admission-plugins", "ServiceAccount", "--service-cluster-ip-range", "10.0.0.0/16"])
                .args(["--enable-priority-and-fairness=false", "--endpoint-reconciler-type=none"]);
            let mut process = spawn(&guardian, &dir, "apiserver", apiserver);
            let client = client(port, &token);
            let is_ready = ready(&client, &mut process).await;
            processes.push(process);
            if is_ready {
                install::crds(&client).await;
                rights::define(&client).await;
                processes.push(start_garbage_collector(&guardian, &dir, &localkube, port, &token));
                return Server { client, dir, guardian, _processes: processes };
            }
            assert!(attempt < 3, "the API server does not start:\n{}", tail(&dir.join("apiserver.log"), 20));
        }
        unreachable!()
    }

    /// Starts a process whose command line names our folder; its output goes to `<name>.log` there.
    pub fn spawn(&self, name: &str, command: Command) -> Child {
        spawn(&self.guardian, &self.dir, name, command)
    }
}

/// Where the binary is that plays etcd, API server and controllers: `LOCALKUBE`, else the newest that `localcluster/`
/// has in its cache.
fn localkube() -> PathBuf {
    let how = "build it with localcluster/up (once, ten minutes), or set LOCALKUBE to its path";
    if let Some(path) = std::env::var_os("LOCALKUBE").map(PathBuf::from) {
        assert!(path.is_file(), "LOCALKUBE is {}, which is no file: {how}", path.display());
        return path;
    }
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = var("RAY_OPERATOR_CACHE")
        .or_else(|| Some(var("XDG_CACHE_HOME").or_else(|| Some(var("HOME")?.join(".cache")))?.join("ray-operator")));
    let built = cache.and_then(|c| fs::read_dir(c.join("localcluster")).ok()).into_iter().flatten();
    built
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("localkube-")))
        .map(|p| p.join("localkube"))
        .filter(|p| p.is_file())
        .max_by_key(|p| p.metadata().and_then(|m| m.modified()).ok())
        .unwrap_or_else(|| panic!("these tests need a real API server, and there is none to start: {how}"))
}

fn keys(dir: &Path) {
    let script = "openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out sa.key && openssl pkey -in sa.key -pubout -out sa.pub";
    let made = Command::new("sh").args(["-c", script]).current_dir(dir).output().expect("sh");
    assert!(made.status.success(), "these tests need openssl: {}", String::from_utf8_lossy(&made.stderr));
}

fn spawn(guardian: &Mutex<ChildStdin>, dir: &Path, name: &str, mut command: Command) -> Child {
    let log = File::options().create(true).append(true).open(dir.join(format!("{name}.log"))).expect("a log file");
    let twin = log.try_clone().expect("a log file");
    let child = command.stdin(Stdio::null()).stdout(log).stderr(twin).spawn();
    let child = child.unwrap_or_else(|e| panic!("cannot start {name}: {e}"));
    writeln!(guardian.lock().expect("the guardian"), "{}", child.id()).expect("the guardian lives");
    child
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("its address").port()
}

fn client(port: u16, token: &str) -> Client {
    let mut config = Config::new(format!("https://127.0.0.1:{port}").parse().expect("a URL"));
    config.accept_invalid_certs = true;
    config.disable_compression = true;
    config.default_retry = false;
    config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
    Client::try_from(config).expect("a client")
}

async fn ready(client: &Client, process: &mut Child) -> bool {
    let limit = Instant::now() + Duration::from_secs(60);
    while Instant::now() < limit && process.try_wait().is_ok_and(|ended| ended.is_none()) {
        let request = http::Request::get("/readyz").body(Body::empty()).expect("a request");
        if client.send(request).await.is_ok_and(|r| r.status().is_success()) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

fn start_garbage_collector(
    guardian: &Mutex<ChildStdin>,
    dir: &Path,
    localkube: &Path,
    port: u16,
    token: &str,
) -> Child {
    let config = dir.join("controllers.kubeconfig");
    fs::write(&config, kubeconfig(&format!("https://127.0.0.1:{port}"), Some(token), "default")).expect("a kubeconfig");
    let mut controllers = Command::new(localkube);
    controllers
        .args(["kube-controller-manager", "--controllers=garbage-collector-controller,namespace-controller"])
        .args(["--leader-elect=false", "--secure-port=0", "--kubeconfig"])
        .arg(config);
    spawn(guardian, dir, "controllers", controllers)
}

pub fn kubeconfig(server: &str, token: Option<&str>, namespace: &str) -> String {
    let user = token.map_or_else(|| json!({}), |t| json!({"token": t}));
    let config: Value = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": server, "insecure-skip-tls-verify": token.is_some()}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": namespace}}],
    });
    config.to_string()
}

async fn wait_for(what: &str, dir: &Path, log: &str, mut there: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(30);
    while !there() {
        assert!(Instant::now() < limit, "no {what}:\n{}", tail(&dir.join(format!("{log}.log")), 20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The last lines of a file.
pub fn tail(file: &Path, lines: usize) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

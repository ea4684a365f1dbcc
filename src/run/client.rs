//! How this process talks to the API server: which one, how often, how long, how many times, and whether it may write.

use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, poll_fn};
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config, Error};
use thiserror::Error as ThisError;
use tokio::time::{Instant, sleep, timeout_at};
use tower::buffer::Buffer;
use tower::layer::layer_fn;
use tower::util::BoxService;
use tower::{BoxError, Service};

use super::leader::{Leadership, random_unit};
use super::metrics::Metrics;

pub mod limit;
pub mod retry;

use limit::Bucket;
use retry::{Answer, Call};

/// A request that needs more than this has failed, retries included. Watches and streams only must begin in time.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// A watch ends by itself after 290 s (kube-runtime's `timeoutSeconds`); a connection that is silent for longer is dead.
const SILENCE: Duration = Duration::from_secs(300);
const CONNECT: Duration = Duration::from_secs(10);

/// What carries requests, at the bottom.
pub type Transport = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;
/// Puts something between us and the API server, to lose, delay or answer requests in tests.
pub type Faults = Arc<dyn Fn(Transport) -> Transport + Send + Sync>;

/// How a client behaves.
#[derive(Clone)]
pub struct ClientOptions {
    /// Requests in a second on average; 0 or less: no limit.
    pub qps: f64,
    /// Requests at once after a quiet time.
    pub burst: u32,
    /// How many times a request is sent at most.
    pub tries: u32,
    /// Writes are sent only while this says so; looked at again before each try.
    pub right: Option<Leadership>,
    pub faults: Option<Faults>,
}

/// Why a request was not sent, or not waited for any longer. Found inside `kube::Error::Service`.
#[derive(Debug, ThisError, PartialEq, Eq)]
pub enum CallError {
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
    #[error("not sent: this process does not lead any more")]
    NotLeading,
}

/// Why there is no client.
#[derive(Debug, ThisError)]
pub enum ConnectError {
    #[error("--kubeconfig={path}: {source}")]
    Flag { path: String, source: KubeconfigError },
    #[error("KUBECONFIG={path}: {source}")]
    Variable { path: String, source: KubeconfigError },
    #[error(
        "there is no cluster to work with: this is not a pod ({in_cluster}), and there is no usable ~/.kube/config ({home}). Give --kubeconfig or set KUBECONFIG"
    )]
    Nothing { in_cluster: String, home: String },
    #[error("cannot set up the client: {0}")]
    Client(#[from] Error),
}

/// Finds out which cluster to work with: `--kubeconfig`, else `KUBECONFIG`, else the pod's service account, else
/// `~/.kube/config` (controller-runtime's order). Its default namespace is the pod's own or the context's.
pub async fn find_cluster(kubeconfig: Option<&Path>) -> Result<Config, ConnectError> {
    let options = KubeConfigOptions::default();
    let mut config = if let Some(path) = kubeconfig {
        let fail = |source| ConnectError::Flag { path: path.display().to_string(), source };
        let file = Kubeconfig::read_from(path).map_err(fail)?;
        Config::from_custom_kubeconfig(file, &options).await.map_err(fail)?
    } else if let Some(path) = std::env::var("KUBECONFIG").ok().filter(|path| !path.is_empty()) {
        Config::from_kubeconfig(&options).await.map_err(|source| ConnectError::Variable { path, source })?
    } else {
        match Config::incluster() {
            Ok(config) => config,
            Err(in_cluster) => Config::from_kubeconfig(&options)
                .await
                .map_err(|home| ConnectError::Nothing { in_cluster: in_cluster.to_string(), home: home.to_string() })?,
        }
    };
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = Some(SILENCE);
    config.reset_reader_on_write = true;
    config.default_retry = false;
    let agent = HeaderValue::from_static(concat!("ray-operator/", env!("CARGO_PKG_VERSION")));
    config.headers.push((header::USER_AGENT, agent));
    Ok(config)
}

/// Makes a client with its own connections. Must be called within the tokio runtime.
pub fn build(config: Config, options: ClientOptions, metrics: Arc<Metrics>) -> Result<Client, Error> {
    let host = config.cluster_url.authority().map_or_else(String::new, ToString::to_string);
    let layer = layer_fn(move |transport: Transport| {
        let transport = match &options.faults {
            Some(faults) => faults(transport),
            None => transport,
        };
        Calls(Arc::new(Shared {
            transport: Buffer::new(transport, 1024),
            bucket: Bucket::new(options.qps, options.burst),
            tries: options.tries.max(1),
            right: options.right.clone(),
            metrics: metrics.clone(),
            host: host.clone(),
        }))
    });
    Ok(ClientBuilder::<Transport>::try_from(config)?.with_layer(&layer).build())
}

/// An error in the API server's own words, or the library's where it has none.
pub fn words(error: &Error) -> String {
    match error {
        Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        // Ours say all there is to say; the library's wrapping would only repeat it.
        Error::Service(inner) => inner.to_string(),
        other => other.to_string(),
    }
}

/// Whether a request was not sent because this process does not lead.
pub fn is_not_leading(error: &Error) -> bool {
    matches!(error, Error::Service(inner) if inner.downcast_ref() == Some(&CallError::NotLeading))
}

struct Shared {
    transport: Buffer<Request<Body>, <Transport as Service<Request<Body>>>::Future>,
    bucket: Bucket,
    tries: u32,
    right: Option<Leadership>,
    metrics: Arc<Metrics>,
    host: String,
}

/// The layer around the transport.
struct Calls(Arc<Shared>);

impl Service<Request<Body>> for Calls {
    type Response = Response<Box<DynBody>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = self.0.clone();
        Box::pin(async move { shared.call(request).await })
    }
}

impl Shared {
    async fn call(&self, mut request: Request<Body>) -> Result<Response<Box<DynBody>>, BoxError> {
        let call = Call::of(&request);
        let method = request.method().clone();
        let writes = !matches!(method, Method::GET | Method::HEAD | Method::OPTIONS);
        if let Some(bytes) = http_body::Body::size_hint(request.body()).exact().filter(|bytes| *bytes > 0) {
            self.metrics.sent_bytes(method.as_str(), &self.host, bytes);
        }
        if call != Call::Watch {
            let pause = self.bucket.take();
            sleep(pause).await;
            self.metrics.held_back(method.as_str(), &self.host, pause.as_secs_f64());
        }
        let first = Instant::now();
        for tried in 1.. {
            if writes && self.right.as_ref().is_some_and(|right| !right.may_write()) {
                return Err(Box::new(CallError::NotLeading));
            }
            let again = if tried < self.tries { copy(&request) } else { None };
            let began = Instant::now();
            let result = match timeout_at(first + PATIENCE, self.send(request, call)).await {
                Ok(result) => result,
                Err(_) => Err(CallError::NoAnswer(PATIENCE).into()),
            };
            let code = match &result {
                Ok(response) => response.status().as_str().to_string(),
                Err(_) => "<error>".to_string(),
            };
            self.metrics.requested(method.as_str(), &self.host, &code, began.elapsed().as_secs_f64());
            let answer = Answer::of(&result);
            let pause = retry::pause(call, &method, &answer, tried, first.elapsed(), random_unit());
            let (Some(pause), Some(next)) = (pause, again) else { return result };
            self.metrics.request_retried(method.as_str(), &self.host, &code);
            tracing::debug!(%method, path = next.uri().path(), code, ?pause, "sending a request again");
            sleep(pause).await;
            request = next;
        }
        Err(Box::new(CallError::NoAnswer(PATIENCE)))
    }

    /// Sends once. Answers are taken in whole, so that one whose end does not come counts as none; streams are not.
    async fn send(&self, request: Request<Body>, call: Call) -> Result<Response<Box<DynBody>>, BoxError> {
        let method = request.method().clone();
        let mut transport = self.transport.clone();
        poll_fn(|cx| transport.poll_ready(cx)).await?;
        let response = transport.call(request).await?;
        if call != Call::Plain {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        self.metrics.received_bytes(method.as_str(), &self.host, bytes.len() as u64);
        Ok(Response::from_parts(parts, whole(bytes)))
    }
}

fn whole(bytes: Bytes) -> Box<DynBody> {
    Box::new(Full::new(bytes).map_err(|never| match never {}))
}

/// The same request once more; `None` when its body is a stream.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copied = Request::new(request.body().try_clone()?);
    copied.method_mut().clone_from(request.method());
    copied.uri_mut().clone_from(request.uri());
    *copied.version_mut() = request.version();
    copied.headers_mut().clone_from(request.headers());
    copied.extensions_mut().clone_from(request.extensions());
    Some(copied)
}

#[cfg(test)]
mod tests;

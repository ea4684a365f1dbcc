//! A proxy between one operator and the API server, that counts and can do harm: refuse a write, lose its answer, hold
//! back watch events, cut watches, or do something at exactly one write.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube::Client;
use kube::client::Body;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_stream::wrappers::UnboundedReceiverStream;

use super::call::Call;
use super::head::Head;

/// What becomes of a request.
pub enum Fate {
    Forward,
    /// The API server never sees it; this status is the answer, with `Retry-After` if given.
    Answer(u16, Option<u32>),
    /// The API server never sees it; this status with these words is the answer.
    Refuse(u16, String),
    /// The API server never sees it; the connection breaks.
    Drop,
    /// This is done first, then it is forwarded.
    After(futures::future::BoxFuture<'static, ()>),
    /// It takes effect; then this is done, and the connection breaks in place of an answer.
    TakeEffectThen(Box<dyn FnOnce() + Send>),
}

pub type Rule = Box<dyn FnMut(&Call) -> Fate + Send>;

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

pub struct Proxy {
    pub port: u16,
    upstream: Client,
    user: HeaderValue,
    calls: Mutex<Vec<Call>>,
    rule: Mutex<Rule>,
    watch_delay: Arc<Mutex<Duration>>,
    /// Raised to cut all watches that stand.
    cuts: watch::Sender<u64>,
    head: Arc<Head>,
}

/// A proxy that listens until this is dropped.
pub struct Running {
    pub proxy: Arc<Proxy>,
    listener: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// Starts a proxy whose requests count as the user's.
pub async fn start(upstream: Client, user: &str, head: Arc<Head>) -> Running {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port for the proxy");
    let proxy = Arc::new(Proxy {
        port: listener.local_addr().expect("its address").port(),
        upstream,
        user: HeaderValue::from_str(user).expect("a user name"),
        calls: Mutex::default(),
        rule: Mutex::new(Box::new(|_| Fate::Forward)),
        watch_delay: Arc::default(),
        cuts: watch::Sender::new(0),
        head,
    });
    let listener = tokio::spawn(listen(listener, Arc::clone(&proxy)));
    Running { proxy, listener }
}

async fn listen(listener: TcpListener, proxy: Arc<Proxy>) {
    // Ends its connections when it is aborted.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                if let Ok((stream, _)) = accepted {
                    connections.spawn(serve(stream, Arc::clone(&proxy)));
                }
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, proxy: Arc<Proxy>) {
    let service = service_fn(move |request| {
        let proxy = Arc::clone(&proxy);
        async move { proxy.handle(request).await }
    });
    // An error here is a connection that the operator or a fate broke.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

impl Proxy {
    /// Sets what becomes of requests from now on.
    pub fn rule(&self, rule: impl FnMut(&Call) -> Fate + Send + 'static) {
        *self.rule.lock().expect("the rule") = Box::new(rule);
    }

    pub fn no_rule(&self) {
        self.rule(|_| Fate::Forward);
    }

    pub fn delay_watches(&self, by: Duration) {
        *self.watch_delay.lock().expect("the delay") = by;
    }

    pub fn cut_watches(&self) {
        self.cuts.send_modify(|n| *n += 1);
    }

    /// All requests so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().expect("the calls").clone()
    }

    pub fn writes(&self) -> Vec<Call> {
        self.calls().into_iter().filter(Call::is_write).collect()
    }

    /// How many requests of a verb on a resource there were.
    pub fn count(&self, verb: &str, resource: &str) -> usize {
        self.calls().iter().filter(|c| c.is(verb, resource)).count()
    }

    /// The requests since then, but for watches and the Lease.
    pub fn since(&self, then: Instant) -> Vec<Call> {
        let noise = |c: &Call| c.verb == "watch" || c.resource == "leases";
        self.calls().into_iter().filter(|c| c.at >= then && !noise(c)).collect()
    }

    fn note(&self, mut call: Call) -> (usize, Call) {
        let mut calls = self.calls.lock().expect("the calls");
        if call.is_write() {
            call.nth_write = calls.iter().filter(|c| c.is_write()).count() + 1;
        }
        calls.push(call.clone());
        (calls.len() - 1, call)
    }

    async fn handle(&self, request: Request<Incoming>) -> Result<Answer, io::Error> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let (at, call) = self.note(Call::new(&parts.method, &parts.uri));
        let fate = (self.rule.lock().expect("the rule"))(&call);
        let after = match fate {
            Fate::Forward => None,
            Fate::Drop => return Err(io::Error::other("dropped by the test")),
            Fate::Answer(code, retry_after) => {
                self.calls.lock().expect("the calls")[at].code = code;
                return Ok(refusal(code, retry_after));
            }
            Fate::Refuse(code, words) => {
                self.calls.lock().expect("the calls")[at].code = code;
                return Ok(refusal_in_words(code, None, &words));
            }
            Fate::After(first) => {
                first.await;
                None
            }
            Fate::TakeEffectThen(then) => Some(then),
        };
        let answer = if call.resource == "services/proxy" {
            self.head.answer(&call.name).await
        } else {
            let mut forwarded =
                Request::builder().method(parts.method).uri(parts.uri).header("impersonate-user", &self.user);
            for name in [ACCEPT, CONTENT_TYPE] {
                if let Some(value) = parts.headers.get(&name) {
                    forwarded = forwarded.header(name, value);
                }
            }
            let forwarded = forwarded.body(Body::from(body.to_vec())).map_err(io::Error::other)?;
            let answer = self.upstream.send(forwarded).await.map_err(io::Error::other)?;
            self.pass_on(answer, call.verb == "watch").await?
        };
        self.calls.lock().expect("the calls")[at].code = answer.status().as_u16();
        match after {
            None => Ok(answer),
            Some(then) => {
                then();
                Err(io::Error::other("the answer is lost by the test"))
            }
        }
    }

    async fn pass_on(&self, answer: Response<Body>, watch: bool) -> Result<Answer, io::Error> {
        let (mut parts, body) = answer.into_parts();
        parts.headers.remove("transfer-encoding");
        parts.headers.remove("content-length");
        if !watch || !parts.status.is_success() {
            let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
            return Ok(Response::from_parts(parts, whole(body)));
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(self.watch_events(body, sender));
        // Each event is held back until its time; the order stays.
        let frames = futures::StreamExt::then(UnboundedReceiverStream::new(receiver), |(due, frame)| async move {
            tokio::time::sleep_until(tokio::time::Instant::from_std(due)).await;
            frame
        });
        Ok(Response::from_parts(parts, StreamBody::new(frames).boxed_unsync()))
    }

    fn watch_events(
        &self,
        mut body: Body,
        sender: mpsc::UnboundedSender<(Instant, Result<Frame<Bytes>, io::Error>)>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let mut cuts = self.cuts.subscribe();
        cuts.mark_unchanged();
        let delay = Arc::clone(&self.watch_delay);
        async move {
            loop {
                let frame = tokio::select! {
                    frame = body.frame() => frame.map(|f| f.map_err(io::Error::other)),
                    _ = cuts.changed() => Some(Err(io::Error::other("cut by the test"))),
                    () = sender.closed() => return,
                };
                let Some(frame) = frame else { return };
                let ends = frame.is_err();
                let due = Instant::now() + *delay.lock().expect("the delay");
                if sender.send((due, frame)).is_err() || ends {
                    return;
                }
            }
        }
    }
}

pub fn whole(body: impl Into<Bytes>) -> UnsyncBoxBody<Bytes, io::Error> {
    Full::new(body.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A Status as the API server would send it.
pub fn refusal(code: u16, retry_after: Option<u32>) -> Answer {
    refusal_in_words(code, retry_after, "refused by the test")
}

fn refusal_in_words(code: u16, retry_after: Option<u32>, words: &str) -> Answer {
    let reason = match code {
        403 => "Forbidden",
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "metadata": {},
        "message": words, "reason": reason, "code": code,
    });
    let mut answer = Response::builder().status(code).header(CONTENT_TYPE, "application/json");
    if let Some(seconds) = retry_after {
        answer = answer.header(RETRY_AFTER, seconds);
    }
    answer.body(whole(status.to_string())).expect("an answer")
}

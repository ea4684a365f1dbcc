//! One bounded GET to a head's dashboard, directly or through the API server, that says which layer failed.

use std::net::SocketAddr;
use std::time::Duration;

use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use kube::Client;
use tokio::net::{TcpStream, lookup_host};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::plan::AskHead;

const CONNECT: Duration = Duration::from_secs(3);
const ANSWER: Duration = Duration::from_secs(10);
/// A summary of a thousand nodes takes some 10 MB.
const LARGEST_BODY: usize = 16 << 20;

/// How to reach heads.
#[derive(Clone)]
pub enum Route {
    /// By the head Service's name: for an operator that runs in the cluster.
    Direct,
    /// Through the API server's service proxy (`--use-kubernetes-proxy`): for one that runs outside.
    Proxy(Client),
}

/// The layer that failed (`DNS`, `address`, `port`, `HTTP`, `login`), and how.
#[derive(Debug, thiserror::Error)]
#[error("{layer}: {message}")]
pub struct Trouble {
    pub layer: &'static str,
    pub message: String,
}

impl Trouble {
    fn new(layer: &'static str, message: impl std::fmt::Display) -> Self {
        Trouble { layer, message: message.to_string() }
    }
}

impl Route {
    /// Gets a path of the head's dashboard: 3 s each for name and connection, 10 s for the answer, 16 MiB at most. `bodies`
    /// bounds how many answers are read at once; a head that says nothing holds none of its permits.
    ///
    /// # Errors
    /// The layer that failed: name, connection, HTTP status or login.
    pub async fn get(&self, head: &AskHead, path: &str, bodies: &Semaphore) -> Result<Vec<u8>, Trouble> {
        match self {
            Route::Direct => direct(head, path, bodies).await,
            Route::Proxy(client) => proxied(client, head, path, bodies).await,
        }
    }
}

async fn direct(head: &AskHead, path: &str, bodies: &Semaphore) -> Result<Vec<u8>, Trouble> {
    let target = format!("{}:{}", head.host, head.port);
    let addresses: Vec<_> = timeout(CONNECT, lookup_host(&target))
        .await
        .map_err(|_| Trouble::new("DNS", format!("{} was not resolved in time", head.host)))?
        .map_err(|e| Trouble::new("DNS", format!("{}: {e}", head.host)))?
        .collect();
    let stream = connect(&addresses).await?;
    let http = |e: hyper::Error| Trouble::new("HTTP", format!("{target}: {e}"));
    let exchange = async {
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(http)?;
        let request = Request::get(path)
            .header(header::HOST, &target)
            .body(Empty::<bytes::Bytes>::new())
            .map_err(|e| Trouble::new("HTTP", e))?;
        let answer = async {
            let response = sender.send_request(request).await.map_err(http)?;
            let status = response.status();
            let _permit = bodies.acquire().await;
            let body = Limited::new(response.into_body(), LARGEST_BODY).collect().await;
            let body = body.map_err(|e| Trouble::new("HTTP", format!("{target}: {e}")))?.to_bytes().to_vec();
            checked(status, body)
        };
        let mut answer = std::pin::pin!(answer);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            answer = &mut answer => answer,
            ended = &mut connection => match ended {
                Ok(()) => answer.await,
                Err(e) => Err(http(e)),
            },
        }
    };
    timeout(ANSWER, exchange)
        .await
        .unwrap_or_else(|_| Err(Trouble::new("HTTP", format!("{target} did not answer within {} s", ANSWER.as_secs()))))
}

/// Connects to the first address that takes the connection: after a change of head, cluster DNS may name the old one too.
async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, Trouble> {
    let mut last = Trouble::new("DNS", "the head's name has no address");
    for address in addresses {
        last = match timeout(CONNECT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(e)) if e.kind() == std::io::ErrorKind::ConnectionRefused => {
                Trouble::new("port", format!("{address}: {e}"))
            }
            Ok(Err(e)) => Trouble::new("address", format!("{address}: {e}")),
            Err(_) => Trouble::new("address", format!("no connection to {address} within {} s", CONNECT.as_secs())),
        };
    }
    Err(last)
}

async fn proxied(client: &Client, head: &AskHead, path: &str, bodies: &Semaphore) -> Result<Vec<u8>, Trouble> {
    let uri = format!("/api/v1/namespaces/{}/services/{}:{}/proxy{path}", head.namespace, head.service, head.port);
    let request = Request::get(uri).body(kube::client::Body::empty()).map_err(|e| Trouble::new("HTTP", e))?;
    let exchange = async {
        let response = client.send(request).await.map_err(|e| Trouble::new("HTTP", e))?;
        let status = response.status();
        let _permit = bodies.acquire().await;
        let body = Limited::new(response.into_body(), LARGEST_BODY).collect().await;
        let body = body.map_err(|e| Trouble::new("HTTP", e))?.to_bytes().to_vec();
        checked(status, body)
    };
    timeout(ANSWER, exchange).await.unwrap_or_else(|_| {
        Err(Trouble::new("HTTP", format!("the API server's proxy did not answer within {} s", ANSWER.as_secs())))
    })
}

fn checked(status: StatusCode, body: Vec<u8>) -> Result<Vec<u8>, Trouble> {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            Err(Trouble::new("login", format!("the head answers {status}")))
        }
        status if status.is_success() => Ok(body),
        status => {
            let text = String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned();
            Err(Trouble::new("HTTP", format!("the head answers {status} {text}")))
        }
    }
}

//! What probes and Prometheus ask over HTTP: `/healthz`, `/readyz`, `/metrics`.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use thiserror::Error;
use tokio::net::TcpListener;

use super::metrics::Metrics;
use crate::config::ListenAddr;

/// What the process still waits for before it is ready. Cheap to clone. A candidate that does not lead is ready too: a
/// rollout must not wait for a lead that the old pod still has.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<BTreeSet<String>>>);

impl Readiness {
    /// Not ready until [`Readiness::done`] was called for `what` (`rayclusters`, `pods`, ...).
    pub fn wait_for(&self, what: &str) {
        self.lock().insert(what.to_string());
    }

    /// `what` is there.
    pub fn done(&self, what: &str) {
        self.lock().remove(what);
    }

    /// What is still waited for; empty means ready.
    pub fn missing(&self) -> Vec<String> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an address cannot be served.
#[derive(Debug, Error)]
pub enum ListenError {
    #[error("{flag}={address}: the port is taken by another process. Choose another address or end that process")]
    Taken { flag: &'static str, address: ListenAddr },
    #[error("{flag}={address}: cannot listen: {source}")]
    Bind { flag: &'static str, address: ListenAddr, source: std::io::Error },
}

/// `/metrics`, and the probes as well: KubeRay's chart probes this port.
pub fn metrics_router(metrics: Arc<Metrics>, readiness: Readiness) -> Router {
    let text = move || async move {
        match metrics.text() {
            Ok(text) => ([(header::CONTENT_TYPE, Metrics::content_type())], text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
        }
    };
    probes_router(readiness).route("/metrics", get(text))
}

/// `/healthz` and `/readyz`.
pub fn probes_router(readiness: Readiness) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(move || async move { ready(&readiness) }))
}

fn ready(readiness: &Readiness) -> Response {
    let missing = readiness.missing();
    if missing.is_empty() {
        return "ok".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("waiting for: {}\n", missing.join(", "))).into_response()
}

/// Opens the socket of an address; `None` when it is off. `flag` is named in errors.
pub async fn listen(flag: &'static str, address: &ListenAddr) -> Result<Option<TcpListener>, ListenError> {
    let bound = match address {
        ListenAddr::Off => return Ok(None),
        ListenAddr::Ip(ip, port) => TcpListener::bind(SocketAddr::new(*ip, *port)).await,
        ListenAddr::Host(host, port) => TcpListener::bind((host.as_str(), *port)).await,
        // A socket on [::] takes IPv4 too; where there is no IPv6 it cannot be opened.
        ListenAddr::Every(port) => {
            match TcpListener::bind(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), *port)).await {
                Err(error) if !matches!(error.kind(), ErrorKind::AddrInUse | ErrorKind::PermissionDenied) => {
                    TcpListener::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), *port)).await
                }
                other => other,
            }
        }
    };
    bound.map(Some).map_err(|source| match source.kind() {
        ErrorKind::AddrInUse => ListenError::Taken { flag, address: address.clone() },
        _ => ListenError::Bind { flag, address: address.clone(), source },
    })
}

/// Serves for as long as the future is driven.
pub async fn serve(listener: TcpListener, router: Router) -> std::io::Result<()> {
    axum::serve(listener, router).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn ask(to: SocketAddr, path: &str) -> (u16, String) {
        let mut stream = tokio::net::TcpStream::connect(to).await.unwrap();
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
    }

    #[tokio::test]
    async fn probes_and_metrics_on_both_families() {
        let readiness = Readiness::default();
        readiness.wait_for("pods");
        readiness.wait_for("rayclusters");
        let listener = listen("--metrics-addr", &ListenAddr::Every(0)).await.unwrap().unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(serve(listener, metrics_router(Arc::new(Metrics::new().unwrap()), readiness.clone())));
        let v4 = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let v6 = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port);

        assert_eq!(ask(v4, "/healthz").await, (200, "ok".to_string()));
        assert_eq!(ask(v4, "/readyz").await, (503, "waiting for: pods, rayclusters\n".to_string()));
        readiness.done("pods");
        readiness.done("rayclusters");
        assert_eq!(ask(v4, "/readyz").await.0, 200);
        assert!(ask(v4, "/metrics").await.1.contains("controller_runtime_reconcile_total"));
        assert_eq!(ask(v4, "/other").await.0, 404);
        // Where there is no IPv6 at all, there is nothing to see here.
        if tokio::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await.is_ok() {
            assert_eq!(ask(v6, "/healthz").await.0, 200);
        }
    }

    #[tokio::test]
    async fn a_taken_port_is_named() {
        let first = listen("--metrics-addr", &ListenAddr::Every(0)).await.unwrap().unwrap();
        let port = first.local_addr().unwrap().port();
        for address in [ListenAddr::Every(port), ListenAddr::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST), port)] {
            let error = listen("--health-probe-bind-address", &address).await.unwrap_err();
            assert!(matches!(error, ListenError::Taken { .. }), "{error}");
            assert!(error.to_string().starts_with(&format!("--health-probe-bind-address={address}: ")), "{error}");
        }
        assert!(listen("--metrics-addr", &ListenAddr::Off).await.unwrap().is_none());
        let nowhere = ListenAddr::Ip("192.0.2.1".parse().unwrap(), 0);
        assert!(matches!(listen("--metrics-addr", &nowhere).await, Err(ListenError::Bind { .. })));
    }
}

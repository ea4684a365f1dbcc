use super::*;
use std::sync::atomic::{AtomicU32, Ordering};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, PostParams, WatchParams};
use tower::service_fn;

/// A client whose server is `answer`, called with the number of the request and the request.
fn client<F>(options: ClientOptions, metrics: &Arc<Metrics>, answer: F) -> (Client, Arc<AtomicU32>)
where
    F: Fn(u32, Request<Body>) -> BoxFuture<'static, Result<Response<Box<DynBody>>, BoxError>> + Send + Sync + 'static,
{
    let calls = Arc::new(AtomicU32::new(0));
    let (counted, answer) = (calls.clone(), Arc::new(answer));
    let faults: Faults = Arc::new(move |_| {
        let (counted, answer) = (counted.clone(), answer.clone());
        BoxService::new(service_fn(move |request| answer(counted.fetch_add(1, Ordering::SeqCst), request)))
    });
    let config = Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = build(config, ClientOptions { faults: Some(faults), ..options }, metrics.clone()).unwrap();
    (client, calls)
}

fn options() -> ClientOptions {
    ClientOptions { qps: 0.0, burst: 1, tries: retry::TRIES, right: None, faults: None }
}

fn answer(code: u16, body: &str) -> BoxFuture<'static, Result<Response<Box<DynBody>>, BoxError>> {
    let response = Response::builder().status(code).body(whole(Bytes::copy_from_slice(body.as_bytes())));
    Box::pin(async move { Ok(response?) })
}

const OBJECT: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#;

fn metrics() -> Arc<Metrics> {
    Arc::new(Metrics::new().unwrap())
}

fn maps(client: Client) -> Api<ConfigMap> {
    Api::namespaced(client, "ns")
}

#[tokio::test(start_paused = true)]
async fn busy_servers_are_asked_again_and_all_is_counted() {
    let metrics = metrics();
    let (client, calls) = client(options(), &metrics, |n, _| answer(if n < 2 { 503 } else { 201 }, OBJECT));
    maps(client).create(&PostParams::default(), &ConfigMap::default()).await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 3);
    let text = metrics.text().unwrap();
    for line in [
        r#"rest_client_requests_total{code="503",host="127.0.0.1:1",method="POST"} 2"#,
        r#"rest_client_requests_total{code="201",host="127.0.0.1:1",method="POST"} 1"#,
        r#"rest_client_request_retries_total{code="503",host="127.0.0.1:1",verb="POST"} 2"#,
        r#"rest_client_request_duration_seconds_count{host="127.0.0.1:1",verb="POST"} 3"#,
    ] {
        assert!(text.contains(line), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_busy_is_given_up_within_the_budget() {
    let (client, calls) = client(options(), &metrics(), |_, _| answer(429, r#"{"message":"later","code":429}"#));
    let began = Instant::now();
    let error = maps(client).get("a").await.unwrap_err();
    assert_eq!(words(&error), "later");
    assert_eq!(calls.load(Ordering::SeqCst), retry::TRIES);
    assert!(began.elapsed() <= retry::BUDGET);
}

#[tokio::test(start_paused = true)]
async fn silence_ends() {
    let (client, calls) = client(options(), &metrics(), |_, _| Box::pin(futures::future::pending()));
    let began = Instant::now();
    let error = maps(client).get("a").await.unwrap_err();
    assert_eq!(words(&error), "no answer within 30s");
    assert_eq!((calls.load(Ordering::SeqCst), began.elapsed().as_secs()), (1, 30));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_is_silence_too() {
    let (client, _) = client(options(), &metrics(), |_, _| {
        let body: Box<DynBody> = Box::new(http_body_util::StreamBody::new(futures::stream::pending::<
            Result<http_body::Frame<Bytes>, BoxError>,
        >()));
        Box::pin(async move { Ok(Response::new(body)) })
    });
    let maps = maps(client);
    let answer = tokio::time::timeout(2 * PATIENCE, maps.get("a")).await.expect("it waits for ever");
    assert_eq!(words(&answer.unwrap_err()), "no answer within 30s");
}

#[tokio::test(start_paused = true)]
async fn watches_live_on() {
    let (client, _) = client(options(), &metrics(), |_, _| {
        let lines = futures::stream::once(async {
            sleep(Duration::from_secs(200)).await;
            let line = format!("{{\"type\":\"ADDED\",\"object\":{OBJECT}}}\n");
            Ok::<_, BoxError>(http_body::Frame::data(Bytes::from(line)))
        });
        let body: Box<DynBody> = Box::new(http_body_util::StreamBody::new(lines.boxed()));
        Box::pin(async move { Ok(Response::new(body)) })
    });
    let events = maps(client).watch(&WatchParams::default(), "0").await.unwrap();
    let first = events.boxed().next().await.unwrap();
    assert!(first.is_ok(), "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_lead_reads_but_does_not_write() {
    let right = Leadership::none();
    let gated = ClientOptions { right: Some(right.clone()), ..options() };
    let (client, calls) = client(gated, &metrics(), |_, _| answer(200, OBJECT));
    let maps = maps(client);
    let error = maps.create(&PostParams::default(), &ConfigMap::default()).await.unwrap_err();
    assert!(is_not_leading(&error), "{error}");
    assert_eq!(calls.load(Ordering::SeqCst), 0);
    maps.get("a").await.unwrap();
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_write_is_not_sent_again_once_the_lead_is_lost() {
    let right = Leadership::none();
    right.set(Some(Duration::from_secs(3600)), u64::MAX);
    let gated = ClientOptions { right: Some(right.clone()), ..options() };
    let (client, calls) = client(gated, &metrics(), move |_, _| {
        right.set(None, 0);
        answer(503, OBJECT)
    });
    let error = maps(client).create(&PostParams::default(), &ConfigMap::default()).await.unwrap_err();
    assert!(is_not_leading(&error), "{error}");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn requests_are_spread_but_watches_pass() {
    let slow = ClientOptions { qps: 10.0, burst: 2, ..options() };
    let (client, _) = client(slow, &metrics(), |_, _| answer(200, OBJECT));
    let began = Instant::now();
    for _ in 0..5 {
        maps(client.clone()).get("a").await.unwrap();
    }
    assert_eq!(began.elapsed().as_millis() / 10, 30);
    let began = Instant::now();
    let _ = maps(client).watch(&WatchParams::default(), "0").await;
    assert_eq!(began.elapsed().as_millis(), 0);
}

#[tokio::test]
async fn a_refused_connection_is_tried_again_even_for_a_write() {
    let metrics = metrics();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut config = Config::new(format!("http://127.0.0.1:{port}").parse().unwrap());
    config.default_retry = false;
    let client = build(config, ClientOptions { tries: 2, ..options() }, metrics.clone());
    let error = maps(client.unwrap()).create(&PostParams::default(), &ConfigMap::default()).await.unwrap_err();
    let text = metrics.text().unwrap();
    let line = format!("rest_client_requests_total{{code=\"<error>\",host=\"127.0.0.1:{port}\",method=\"POST\"}} 2");
    assert!(text.contains(&line), "{error}\n{text}");
}

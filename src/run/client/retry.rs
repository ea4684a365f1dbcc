//! How many times: which failed requests are sent again, and when.

use std::error::Error as StdError;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode, header};
use hyper_util::client::legacy;
use kube::client::Body;
use tower::BoxError;

/// All pauses of one call together end here.
pub const BUDGET: Duration = Duration::from_secs(5);
/// How many times a request is sent at most.
pub const TRIES: u32 = 4;

/// What sort of request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Plain,
    /// Lives long, and its caller starts it again by itself.
    Watch,
    /// Goes through the API server to somebody else (a Ray head, a container's log), who may stream, and whose refusals
    /// are not the API server's. An eviction is one too: its 429 is a budget's word.
    Passed,
}

/// How a try ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    /// 429, 503, 504 with the server's `Retry-After`.
    Busy(Option<Duration>),
    /// The connection was not made, so nothing was sent.
    NotSent,
    /// The connection broke, or the answer did: it may have happened or not.
    Broken,
    /// Given up by us.
    GivenUp,
}

impl Call {
    pub fn of(request: &Request<Body>) -> Self {
        let path = request.uri().path();
        let mut query = request.uri().query().unwrap_or_default().split('&');
        let passed = path.contains("/proxy/") || path.ends_with("/proxy") || path.ends_with("/eviction");
        if passed || path.ends_with("/log") {
            Self::Passed
        } else if query.any(|pair| matches!(pair, "watch=true" | "watch=1")) {
            Self::Watch
        } else {
            Self::Plain
        }
    }
}

impl Answer {
    pub fn of<B>(result: &Result<Response<B>, BoxError>) -> Self {
        let response = match result {
            Ok(response) => response,
            Err(error) if error.is::<super::CallError>() => return Self::GivenUp,
            Err(error) if never_connected(error.as_ref()) => return Self::NotSent,
            Err(_) => return Self::Broken,
        };
        match response.status() {
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {
                let after = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
                Self::Busy(after.and_then(|seconds| seconds.trim().parse().ok()).map(Duration::from_secs))
            }
            _ => Self::Done,
        }
    }
}

/// How long to wait before sending again after the `tried`th try, `spent` after the first one; `None`: do not. Pauses
/// are about 0.2, 0.6 and 1.8 s, or what the server asks for; a pause that would end beyond [`BUDGET`] is not begun.
pub fn pause(
    call: Call,
    method: &Method,
    answer: &Answer,
    tried: u32,
    spent: Duration,
    jitter: f64,
) -> Option<Duration> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let wanted = match answer {
        _ if call != Call::Plain => return None,
        Answer::Busy(after) => after.unwrap_or_default(),
        Answer::NotSent => Duration::ZERO,
        Answer::Broken if reads => Duration::ZERO,
        _ => return None,
    };
    let own = 0.2 * 3f64.powi(i32::try_from(tried).unwrap_or(i32::MAX).saturating_sub(1).min(10));
    let pause = wanted.max(Duration::from_secs_f64(own * (0.8 + 0.4 * jitter)));
    (spent.saturating_add(pause) <= BUDGET).then_some(pause)
}

fn never_connected(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref::<legacy::Error>().is_some_and(legacy::Error::is_connect) {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_are_sent_again() {
        let s = Duration::from_secs;
        let busy = Answer::Busy(None);
        for (why, call, method, answer, tried, spent, wanted) in [
            ("busy", Call::Plain, Method::POST, busy, 1, 0, Some(200)),
            ("busy again", Call::Plain, Method::POST, busy, 2, 0, Some(600)),
            ("and again", Call::Plain, Method::POST, busy, 3, 1, Some(1800)),
            ("the server's word", Call::Plain, Method::GET, Answer::Busy(Some(s(2))), 1, 0, Some(2000)),
            ("a short word", Call::Plain, Method::GET, Answer::Busy(Some(s(0))), 1, 0, Some(200)),
            ("a word too long", Call::Plain, Method::GET, Answer::Busy(Some(s(60))), 1, 0, None),
            ("a word beyond time", Call::Plain, Method::GET, Answer::Busy(Some(s(u64::MAX))), 1, 1, None),
            ("no time left", Call::Plain, Method::GET, busy, 3, 4, None),
            ("nothing sent", Call::Plain, Method::POST, Answer::NotSent, 1, 0, Some(200)),
            ("a broken read", Call::Plain, Method::GET, Answer::Broken, 1, 0, Some(200)),
            ("a broken write may have happened", Call::Plain, Method::POST, Answer::Broken, 1, 0, None),
            ("a broken delete too", Call::Plain, Method::DELETE, Answer::Broken, 1, 0, None),
            ("given up", Call::Plain, Method::GET, Answer::GivenUp, 1, 0, None),
            ("done", Call::Plain, Method::GET, Answer::Done, 1, 0, None),
            ("watches start themselves", Call::Watch, Method::GET, busy, 1, 0, None),
            ("a head that is not up", Call::Passed, Method::GET, busy, 1, 0, None),
        ] {
            let got = pause(call, &method, &answer, tried, s(spent), 0.5);
            assert_eq!(got.map(|pause| pause.as_millis()), wanted, "{why}");
        }
    }

    #[test]
    fn sorts_of_calls() {
        for (uri, wanted) in [
            ("/api/v1/namespaces/a/pods?limit=500", Call::Plain),
            ("/api/v1/pods?&watch=true&timeoutSeconds=290", Call::Watch),
            ("/api/v1/namespaces/watch=true/pods", Call::Plain),
            ("/api/v1/namespaces/a/pods/b/log?follow=true", Call::Passed),
            ("/api/v1/namespaces/a/services/b:8265/proxy/api/jobs/", Call::Passed),
            ("/api/v1/namespaces/a/services/b/proxy", Call::Passed),
            ("/api/v1/namespaces/a/pods/b/eviction", Call::Passed),
        ] {
            let request = Request::get(uri).body(Body::empty()).unwrap();
            assert_eq!(Call::of(&request), wanted, "{uri}");
        }
    }
}

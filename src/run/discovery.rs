//! What the cluster is, asked once at start.

use std::time::Duration;

use kube::Client;

/// Groups of which OpenShift has at least one (KubeRay's test).
const OPENSHIFT: [&str; 3] = ["route.openshift.io", "security.openshift.io", "config.openshift.io"];
const PAUSE: Duration = Duration::from_secs(5);

/// Whether the cluster is OpenShift's: one request, again every few seconds until the API server answers. One that
/// refuses to say is none.
pub async fn openshift(client: &Client) -> bool {
    loop {
        match client.list_api_groups().await {
            Ok(list) => return list.groups.iter().any(|group| OPENSHIFT.contains(&group.name.as_str())),
            Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => {
                tracing::warn!(
                    "cannot list API groups, so this is taken for a cluster without OpenShift: {}",
                    status.message
                );
                return false;
            }
            Err(error) => tracing::error!("cannot list API groups, trying again: {error}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::Response;
    use kube::client::Body;
    use serde_json::json;
    use tower::service_fn;

    use super::*;

    /// What is made of a server's answers, and how often it was asked.
    async fn asked(answers: &'static [(u16, &'static str)]) -> (bool, usize) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let server = service_fn(move |_: http::Request<Body>| {
            let (code, group) = answers[counted.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1)];
            let version = json!({"groupVersion": format!("{group}/v1"), "version": "v1"});
            let group = json!({"name": group, "versions": [version], "preferredVersion": version});
            let body = match code {
                200 => json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]}),
                _ => json!({"kind": "Status", "status": "Failure", "message": "no", "reason": "x", "code": code}),
            };
            let response = Response::builder().status(code).body(Body::from(body.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(response.unwrap()) }
        });
        (openshift(&Client::new(server, "default")).await, count.load(Ordering::SeqCst))
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_of_openshifts_tells() {
        assert_eq!(asked(&[(200, "apps")]).await, (false, 1));
        assert_eq!(asked(&[(200, "config.openshift.io")]).await, (true, 1));
        assert_eq!(asked(&[(403, "")]).await, (false, 1));
        assert_eq!(asked(&[(503, ""), (500, ""), (200, "route.openshift.io")]).await, (true, 3));
    }
}

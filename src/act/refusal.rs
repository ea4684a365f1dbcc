//! What kind of no the API server said.

use kube::core::Status;

use crate::observe::seen::FailureKind;

/// A write that did not succeed: its kind, and the server's (or the network's) words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    pub kind: FailureKind,
    pub message: String,
}

impl Refusal {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Refusal { kind, message: message.into() }
    }
}

impl From<kube::Error> for Refusal {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Refusal::new(kind(&status), status.message),
            // Ours (no lead, no answer in time) say all there is to say.
            kube::Error::Service(inner) => Refusal::new(FailureKind::Unavailable, inner.to_string()),
            other => Refusal::new(FailureKind::Unavailable, other.to_string()),
        }
    }
}

/// RBAC, quota, admission plugins and policies all answer 403; their words tell them apart.
fn kind(status: &Status) -> FailureKind {
    let says = |text: &str| status.message.contains(text);
    let terminating = says("because it is being terminated");
    match status.code {
        403 | 409 | 404 if terminating => FailureKind::NamespaceTerminating,
        403 if says("exceeded quota") || says("must specify") && says("quota") => FailureKind::QuotaExceeded,
        401 => FailureKind::Forbidden,
        403 if says("error looking up service account") => FailureKind::NoServiceAccount,
        403 if says("User \"") && says("cannot ") => FailureKind::Forbidden,
        // Admission plugins say "forbidden" too, but never which user may not do what.
        400 | 403 if says("admission webhook") || says("ValidatingAdmissionPolicy") || status.code == 403 => {
            FailureKind::AdmissionDenied
        }
        500 if says("failed calling webhook") => FailureKind::AdmissionDenied,
        400 | 422 if says("denied") => FailureKind::AdmissionDenied,
        400 | 422 => FailureKind::Invalid,
        409 if says("already exists") => FailureKind::NameTaken,
        _ => FailureKind::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u16, message: &str) -> FailureKind {
        Refusal::from(kube::Error::Api(Status::failure(message, "").with_code(code).boxed())).kind
    }

    #[test]
    fn the_words_of_the_api_server_tell_refusals_apart() {
        use FailureKind::*;
        let table = [
            (
                403,
                r#"pods is forbidden: User "system:serviceaccount:ray:op" cannot create resource "pods" in API group "" in the namespace "x""#,
                Forbidden,
            ),
            (401, "Unauthorized", Forbidden),
            (
                403,
                r#"pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"#,
                QuotaExceeded,
            ),
            (403, r#"pods "a" is forbidden: failed quota: q: must specify limits.cpu for: ray"#, QuotaExceeded),
            (
                403,
                r#"pods "a" is forbidden: error looking up service account x/scaler: serviceaccount "scaler" not found"#,
                NoServiceAccount,
            ),
            (
                403,
                r#"pods "a" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true"#,
                AdmissionDenied,
            ),
            (400, r#"admission webhook "deny.example.com" denied the request: no"#, AdmissionDenied),
            (
                422,
                r#"pods "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"#,
                AdmissionDenied,
            ),
            (
                403,
                r#"pods "a" is forbidden: unable to create new content in namespace x because it is being terminated"#,
                NamespaceTerminating,
            ),
            (422, r#"Pod "a" is invalid: spec.containers[0].image: Required value"#, Invalid),
            (409, r#"pods "a" already exists"#, NameTaken),
            (409, r#"Operation cannot be fulfilled on pods "a": the object has been modified"#, Unavailable),
            (500, "etcdserver: request timed out", Unavailable),
            (
                500,
                r#"Internal error occurred: failed calling webhook "w.example.com": context deadline exceeded"#,
                AdmissionDenied,
            ),
            (429, "too many requests", Unavailable),
        ];
        for (code, message, kind) in table {
            assert_eq!(of(code, message), kind, "{code} {message}");
        }
    }
}

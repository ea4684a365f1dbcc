//! What one request to the API server asks for, read from its method and path.

use std::time::Instant;

use http::{Method, Uri};

#[derive(Clone, Debug)]
pub struct Call {
    pub at: Instant,
    /// As in RBAC: get, list, watch, create, update, patch, delete, deletecollection; `other` outside of the resources.
    pub verb: &'static str,
    /// With its subresource, as in RBAC: `pods`, `rayclusters/status`.
    pub resource: String,
    pub name: String,
    /// Counts the writes of this process, the first is 1; 0 for what is no write.
    pub nth_write: usize,
    /// Status of the answer; 0 as long as there is none.
    pub code: u16,
}

impl Call {
    pub fn new(method: &Method, uri: &Uri) -> Self {
        let parts: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
        let rest = match parts.as_slice() {
            ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
            _ => &[],
        };
        let rest = match rest {
            ["namespaces", _, inner @ ..] if !inner.is_empty() => inner,
            other => other,
        };
        let (resource, name) = match rest {
            [] => (uri.path().to_owned(), ""),
            [resource] => ((*resource).to_owned(), ""),
            [resource, name] => ((*resource).to_owned(), *name),
            [resource, name, sub, ..] => (format!("{resource}/{sub}"), *name),
        };
        let watch = uri.query().is_some_and(|q| q.split('&').any(|p| p == "watch=true" || p == "watch=1"));
        let verb = match (method.as_str(), rest.is_empty(), name.is_empty()) {
            (_, true, _) => "other",
            ("GET", ..) if watch => "watch",
            ("GET", _, true) => "list",
            ("GET", ..) => "get",
            ("POST", ..) => "create",
            ("PUT", ..) => "update",
            ("PATCH", ..) => "patch",
            ("DELETE", _, true) => "deletecollection",
            ("DELETE", ..) => "delete",
            _ => "other",
        };
        Call { at: Instant::now(), verb, resource, name: name.to_owned(), nth_write: 0, code: 0 }
    }

    pub fn is_write(&self) -> bool {
        matches!(self.verb, "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    pub fn is(&self, verb: &str, resource: &str) -> bool {
        self.verb == verb && self.resource == resource
    }

    /// `create pods`, `patch rayclusters/status`.
    pub fn title(&self) -> String {
        format!("{} {}", self.verb, self.resource)
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {} -> {}", self.verb, self.resource, self.name, self.code)
    }
}

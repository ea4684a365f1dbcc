//! The kinds of objects that we make for a Ray object.

/// A kind, with what the API server calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Pod,
    Service,
    ServiceAccount,
    Role,
    RoleBinding,
    Secret,
    PersistentVolumeClaim,
    NetworkPolicy,
    Ingress,
    Job,
    /// OpenShift's.
    Route,
    /// Volcano's.
    VolcanoPodGroup,
    /// The scheduler-plugins project's.
    PluginsPodGroup,
    /// Not a child: the object itself, whose finalizers we set.
    RayCluster,
}

impl Kind {
    /// API group and version, kind, resource.
    const fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Kind::Pod => ("", "v1", "Pod", "pods"),
            Kind::Service => ("", "v1", "Service", "services"),
            Kind::ServiceAccount => ("", "v1", "ServiceAccount", "serviceaccounts"),
            Kind::Role => ("rbac.authorization.k8s.io", "v1", "Role", "roles"),
            Kind::RoleBinding => ("rbac.authorization.k8s.io", "v1", "RoleBinding", "rolebindings"),
            Kind::Secret => ("", "v1", "Secret", "secrets"),
            Kind::PersistentVolumeClaim => ("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
            Kind::NetworkPolicy => ("networking.k8s.io", "v1", "NetworkPolicy", "networkpolicies"),
            Kind::Ingress => ("networking.k8s.io", "v1", "Ingress", "ingresses"),
            Kind::Job => ("batch", "v1", "Job", "jobs"),
            Kind::Route => ("route.openshift.io", "v1", "Route", "routes"),
            Kind::VolcanoPodGroup => ("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups"),
            Kind::PluginsPodGroup => ("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups"),
            Kind::RayCluster => ("ray.io", "v1", "RayCluster", "rayclusters"),
        }
    }

    pub const fn group(self) -> &'static str {
        self.names().0
    }

    pub const fn version(self) -> &'static str {
        self.names().1
    }

    /// `apps/v1`, or `v1` for the core group.
    pub fn api_version(self) -> String {
        match self.group() {
            "" => self.version().to_owned(),
            group => format!("{group}/{}", self.version()),
        }
    }

    /// The kind in CamelCase.
    pub const fn kind(self) -> &'static str {
        self.names().2
    }

    /// The resource, as in URLs and RBAC rules.
    pub const fn plural(self) -> &'static str {
        self.names().3
    }

    /// As a person says it in a sentence.
    pub const fn noun(self) -> &'static str {
        match self {
            Kind::Pod => "pod",
            other => other.kind(),
        }
    }

    /// Where objects of this kind are in the API.
    pub fn path(self, namespace: &str) -> String {
        let prefix = if self.group().is_empty() { "/api" } else { "/apis" };
        format!("{prefix}/{}/namespaces/{namespace}/{}", self.api_version(), self.plural())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_the_api_server() {
        assert_eq!(Kind::Pod.path("x"), "/api/v1/namespaces/x/pods");
        assert_eq!(Kind::Role.path("x"), "/apis/rbac.authorization.k8s.io/v1/namespaces/x/roles");
    }
}

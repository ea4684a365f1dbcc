//! What the operator's environment says. Names and defaults are KubeRay's, odd spellings included; `POD_` variables are
//! the chart's.

use crate::plan::config::OperatorPods;

/// Settings that KubeRay takes from environment variables and nowhere else. Read once, at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvSettings {
    /// `ENABLE_INIT_CONTAINER_INJECTION`: workers get the init container that waits for the head.
    pub init_container_injection: bool,
    /// `ENABLE_PROBES_INJECTION`: pods get default probes.
    pub probes_injection: bool,
    /// `ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE`: the head Service is not headless.
    pub head_cluster_ip_service: bool,
    /// `CLUSTER_DOMAIN`: the end of fully qualified Service names.
    pub cluster_domain: String,
    /// `USE_INGRESS_ON_OPENSHIFT`: an Ingress instead of a Route.
    pub ingress_on_openshift: bool,
    /// `RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV`, in seconds.
    pub cluster_requeue_seconds: u64,
    /// `ENABLE_GCS_FT_REDIS_CLEANUP`: a finalizer and a Job clean Redis up.
    pub redis_cleanup: bool,
    /// `ENABLE_ZERO_DOWNTIME`: a RayService may prepare a second cluster.
    pub zero_downtime: bool,
    /// `DELETE_RAYJOB_CR_AFTER_JOB_FINISHES`; `None` when the variable is not set.
    pub delete_finished_rayjobs: Option<bool>,
    /// `ENABLE_DETERMINISTIC_HEAD_POD_NAME`: `<cluster>-head` without a tail.
    pub deterministic_head_pod_name: bool,
    /// `ENABLE_LOGIN_SHELL`: `bash -lc`.
    pub login_shell: bool,
    /// `ENABLE_RANDOM_POD_DELETE`: the operator may pick workers to delete although the autoscaler is on.
    pub random_pod_delete: bool,
    /// `RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS`, in seconds.
    pub rayjob_transition_grace_seconds: u64,
    /// `RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS`, in seconds.
    pub rayjob_status_check_timeout_seconds: u64,
    /// `ENABLE_WEBHOOKS`: exactly `true`.
    pub webhooks: bool,
    /// `POD_NAMESPACE` and `POD_APP_NAME`: where this pod is, and its label `app.kubernetes.io/name`.
    pub operator_pods: Option<OperatorPods>,
}

impl Default for EnvSettings {
    fn default() -> Self {
        Self::read(&|_| None)
    }
}

impl EnvSettings {
    /// Reads the variables through `get`. Booleans are compared without regard to case; what is neither `true` nor
    /// `false`, and a number that cannot be read, is the default.
    pub fn read(get: &dyn Fn(&str) -> Option<String>) -> Self {
        let is = |name: &str, word: &str| get(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
        let on_unless_false = |name: &str| !is(name, "false");
        let off_unless_true = |name: &str| is(name, "true");
        let seconds = |name: &str| get(name).and_then(|value| value.trim().parse().ok()).unwrap_or(300);
        Self {
            init_container_injection: on_unless_false("ENABLE_INIT_CONTAINER_INJECTION"),
            probes_injection: on_unless_false("ENABLE_PROBES_INJECTION"),
            head_cluster_ip_service: off_unless_true("ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE"),
            cluster_domain: get("CLUSTER_DOMAIN")
                .filter(|domain| !domain.is_empty())
                .unwrap_or_else(|| "cluster.local".to_string()),
            ingress_on_openshift: off_unless_true("USE_INGRESS_ON_OPENSHIFT"),
            cluster_requeue_seconds: seconds("RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV"),
            redis_cleanup: on_unless_false("ENABLE_GCS_FT_REDIS_CLEANUP"),
            zero_downtime: on_unless_false("ENABLE_ZERO_DOWNTIME"),
            delete_finished_rayjobs: get("DELETE_RAYJOB_CR_AFTER_JOB_FINISHES")
                .map(|value| value.eq_ignore_ascii_case("true")),
            deterministic_head_pod_name: off_unless_true("ENABLE_DETERMINISTIC_HEAD_POD_NAME"),
            login_shell: off_unless_true("ENABLE_LOGIN_SHELL"),
            random_pod_delete: off_unless_true("ENABLE_RANDOM_POD_DELETE"),
            rayjob_transition_grace_seconds: seconds("RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS"),
            rayjob_status_check_timeout_seconds: seconds("RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS"),
            webhooks: get("ENABLE_WEBHOOKS").as_deref() == Some("true"),
            operator_pods: get("POD_NAMESPACE").filter(|namespace| !namespace.is_empty()).map(|namespace| {
                let app_name = get("POD_APP_NAME").filter(|name| !name.is_empty());
                OperatorPods { namespace, app_name: app_name.unwrap_or_else(|| "kuberay-operator".to_string()) }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> EnvSettings {
        EnvSettings::read(&|asked| (asked == name).then(|| value.to_string()))
    }

    #[test]
    fn defaults_that_are_on_fall_to_false_only() {
        type Read = fn(&EnvSettings) -> bool;
        let on: [(&str, Read); 4] = [
            ("ENABLE_INIT_CONTAINER_INJECTION", |e| e.init_container_injection),
            ("ENABLE_PROBES_INJECTION", |e| e.probes_injection),
            ("ENABLE_GCS_FT_REDIS_CLEANUP", |e| e.redis_cleanup),
            ("ENABLE_ZERO_DOWNTIME", |e| e.zero_downtime),
        ];
        for (name, read) in on {
            for (value, wanted) in [("", true), ("no", true), ("true", true), ("false", false), ("FALSE", false)] {
                assert_eq!(read(&with(name, value)), wanted, "{name}={value}");
            }
        }
    }

    #[test]
    fn defaults_that_are_off_rise_to_true_only() {
        type Read = fn(&EnvSettings) -> bool;
        let off: [(&str, Read); 6] = [
            ("ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE", |e| e.head_cluster_ip_service),
            ("USE_INGRESS_ON_OPENSHIFT", |e| e.ingress_on_openshift),
            ("DELETE_RAYJOB_CR_AFTER_JOB_FINISHES", |e| e.delete_finished_rayjobs == Some(true)),
            ("ENABLE_DETERMINISTIC_HEAD_POD_NAME", |e| e.deterministic_head_pod_name),
            ("ENABLE_LOGIN_SHELL", |e| e.login_shell),
            ("ENABLE_RANDOM_POD_DELETE", |e| e.random_pod_delete),
        ];
        for (name, read) in off {
            for (value, wanted) in [("", false), ("1", false), ("false", false), ("true", true), ("True", true)] {
                assert_eq!(read(&with(name, value)), wanted, "{name}={value}");
            }
        }
        assert!(with("ENABLE_WEBHOOKS", "true").webhooks);
        assert!(!with("ENABLE_WEBHOOKS", "True").webhooks);
    }

    #[test]
    fn numbers_and_domain() {
        type Read = fn(&EnvSettings) -> u64;
        let numbers: [(&str, Read); 3] = [
            ("RAYCLUSTER_DEFAULT_REQUEUE_SECONDS_ENV", |e| e.cluster_requeue_seconds),
            ("RAYJOB_DEPLOYMENT_STATUS_TRANSITION_GRACE_PERIOD_SECONDS", |e| e.rayjob_transition_grace_seconds),
            ("RAYJOB_STATUS_CHECK_TIMEOUT_SECONDS", |e| e.rayjob_status_check_timeout_seconds),
        ];
        for (name, read) in numbers {
            assert_eq!(read(&with(name, "7")), 7, "{name}");
            assert_eq!(read(&with(name, "soon")), 300, "{name}");
            assert_eq!(read(&EnvSettings::default()), 300, "{name}");
        }
        assert_eq!(with("CLUSTER_DOMAIN", "corp.example").cluster_domain, "corp.example");
        assert_eq!(with("CLUSTER_DOMAIN", "").cluster_domain, "cluster.local");
        let pods = |namespace: &str, app_name: &str| {
            Some(OperatorPods { namespace: namespace.to_string(), app_name: app_name.to_string() })
        };
        assert_eq!(with("POD_NAMESPACE", "ray").operator_pods, pods("ray", "kuberay-operator"));
        assert_eq!(EnvSettings::read(&|_| Some("x".to_string())).operator_pods, pods("x", "x"));
        assert_eq!(EnvSettings::default().operator_pods, None);
    }
}

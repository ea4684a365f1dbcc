//! What the operator's own settings say about the objects that it makes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, EnvVar};

/// Operator-wide settings that planners read. Plain data: where they come from (environment, flags, file) is
/// not known here.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanConfig {
    /// DNS domain of the cluster (KubeRay's `CLUSTER_DOMAIN`).
    pub cluster_domain: String,
    /// Workers wait for the head in an init container (KubeRay's `ENABLE_INIT_CONTAINER_INJECTION`).
    pub inject_init_container: bool,
    /// Ray containers without probes get some (KubeRay's `ENABLE_PROBES_INJECTION`).
    pub inject_probes: bool,
    /// The head Service has an address of its own in place of being headless (KubeRay's
    /// `ENABLE_RAY_HEAD_CLUSTER_IP_SERVICE`).
    pub head_cluster_ip_service: bool,
    /// The head pod is called `<cluster>-head`, without a suffix (KubeRay's `ENABLE_DETERMINISTIC_HEAD_POD_NAME`). A new
    /// head can then be made only once the old one is gone.
    pub deterministic_head_pod_name: bool,
    /// Who schedules the pods of all clusters; `None`: whoever the templates name.
    pub batch_scheduler: Option<BatchScheduler>,
    /// Ray starts under a login shell (KubeRay's `ENABLE_LOGIN_SHELL`).
    pub login_shell: bool,
    /// Redis is cleaned up after deleted clusters (KubeRay's `ENABLE_GCS_FT_REDIS_CLEANUP`).
    pub redis_cleanup: bool,
    /// Stamped on heads as `ray.io/kuberay-version`. Never a version of KubeRay: a head that says another version is
    /// stamped anew instead of being recreated, by KubeRay and by us.
    pub version: String,
    /// Where the operator's own pods are found, for network policies; `None` when it does not run as a pod.
    pub operator_pods: Option<OperatorPods>,
    /// The cluster is OpenShift's.
    pub openshift: bool,
    /// An Ingress is made on OpenShift too, in place of a Route (KubeRay's `USE_INGRESS_ON_OPENSHIFT`).
    pub ingress_on_openshift: bool,
    /// Containers added to every head pod, as they are.
    pub head_sidecars: Vec<Container>,
    /// Containers added to every worker pod, as they are but for the head's addresses.
    pub worker_sidecars: Vec<Container>,
    /// Variables of every Ray container that does not set them itself.
    pub default_container_envs: Vec<EnvVar>,
    /// Annotations of every pod that does not set them itself.
    pub default_pod_annotations: BTreeMap<String, String>,
    /// Labels of every pod that does not set them itself.
    pub default_pod_labels: BTreeMap<String, String>,
}

/// Which batch scheduler gets the pods of all clusters (`--batch-scheduler`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchScheduler {
    Volcano,
    YuniKorn,
    Kai,
    SchedulerPlugins,
}

/// How a network policy knows the operator's pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorPods {
    pub namespace: String,
    /// Their label `app.kubernetes.io/name`.
    pub app_name: String,
}

impl Default for PlanConfig {
    fn default() -> Self {
        PlanConfig {
            cluster_domain: "cluster.local".to_owned(),
            inject_init_container: true,
            inject_probes: true,
            head_cluster_ip_service: false,
            deterministic_head_pod_name: false,
            batch_scheduler: None,
            login_shell: false,
            redis_cleanup: true,
            version: concat!("ray-operator/", env!("CARGO_PKG_VERSION")).to_owned(),
            operator_pods: None,
            openshift: false,
            ingress_on_openshift: false,
            head_sidecars: Vec::new(),
            worker_sidecars: Vec::new(),
            default_container_envs: Vec::new(),
            default_pod_annotations: BTreeMap::new(),
            default_pod_labels: BTreeMap::new(),
        }
    }
}

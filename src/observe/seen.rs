//! The small views that planners decide on. A view holds only what some planner reads; everything else of a pod or
//! Service is dropped while it is decoded.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::jiff::Timestamp;

use serde_json::Value;

use crate::api::children::Kind;
use crate::api::names::{HEAD_GROUP, labels};

/// All that is known about one object's surroundings when its planner runs.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Pods that the object controls, by name. Pods of others that bear its labels are not among them.
    pub pods: BTreeMap<String, Arc<PodView>>,
    /// Head pods that an earlier cluster of the same name owns: the head Service would find them as well.
    pub other_heads: Vec<Arc<PodView>>,
    /// Services that the object controls, by name.
    pub services: BTreeMap<String, Arc<ServiceView>>,
    /// Everything else that it controls, and claims that bear its label, by kind and name.
    pub others: BTreeMap<(Kind, String), Arc<ChildView>>,
    /// Nodes that have accelerators: looked at once some RayCluster asks for one.
    pub nodes: NodesSeen,
    /// Effects of this object that failed and have not succeeded since, oldest first.
    pub failures: Vec<Failure>,
    /// What the head itself said, if it was asked since these pods came up.
    pub head: Option<HeadFacts>,
    /// Who stood in a place before, for places whose pod went away lately. Known to this process only: it sets names
    /// and delays, never what is wanted.
    pub departed: BTreeMap<Place, Departed>,
    /// Incarnations that were sent off to be created and of which nothing was heard since. They may exist, so the next
    /// try in such a place is that one again.
    pub attempted: BTreeMap<Place, u32>,
}

/// Where a pod stands in its cluster: group, replica and host of the replica. The head is at `headgroup`, 0, 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub group: String,
    pub slot: u32,
    pub host: u32,
}

impl Place {
    /// From a pod's labels. KubeRay's workers carry the replica index too (since v1.5); older ones do not. The head needs
    /// no label for it.
    pub fn from_labels(of: &BTreeMap<String, String>) -> Option<Place> {
        let label = |key: &str| of.get(key).map_or("", String::as_str);
        if label(labels::NODE_TYPE) == "head" {
            return Some(Place { group: HEAD_GROUP.to_owned(), slot: 0, host: 0 });
        }
        let slot = label(labels::REPLICA_INDEX).parse().ok()?;
        let host = match label(labels::HOST_INDEX) {
            "" => 0,
            text => text.parse().ok()?,
        };
        Some(Place { group: label(labels::GROUP).to_owned(), slot, host })
    }
}

/// A pod that is gone, as it was last seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Departed {
    pub pod: Arc<PodView>,
    pub at: Timestamp,
}

/// What a view keeps of an object's metadata.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    /// Uid and name of the RayCluster that controls it, empty when there is none.
    pub owner_uid: String,
    pub owner_name: String,
    pub created: Option<Timestamp>,
    /// When it must be gone (deletion time stamp), if it is being deleted.
    pub deleting: Option<Timestamp>,
    pub labels: BTreeMap<String, String>,
    /// Only the annotations under `ray.io/`.
    pub annotations: BTreeMap<String, String>,
}

/// A pod, as far as we care.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodView {
    pub meta: Meta,
    pub node: Option<String>,
    pub restart_policy: String,
    /// What it runs as at the API server; of heads only.
    pub service_account: Option<String>,
    /// Name of `spec.containers[0]`: the Ray container, whatever it is called.
    pub ray_container: String,
    /// The head Service that the Ray container was told of (`RAY_IP`).
    pub head_service: Option<String>,
    pub phase: String,
    /// Why the pod as a whole is in its phase (`Evicted`, `NodeLost`, ...).
    pub reason: String,
    pub message: String,
    pub ip: Option<String>,
    /// Condition `Ready`: status, reason, message; `None` while the kubelet has not said.
    pub ready: Option<PodCondition>,
    /// Condition `PodScheduled` when it is False: what the scheduler says.
    pub unscheduled: Option<PodCondition>,
    pub init_containers: Vec<ContainerView>,
    pub containers: Vec<ContainerView>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodCondition {
    pub status: String,
    pub reason: String,
    pub message: String,
    pub since: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerView {
    pub name: String,
    pub ready: bool,
    pub restarts: i32,
    pub state: ContainerState,
    /// How the previous run ended, if there was one.
    pub last_end: Option<Terminated>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub enum ContainerState {
    #[default]
    Unknown,
    Waiting {
        reason: String,
        message: String,
    },
    Running {
        since: Option<Timestamp>,
    },
    Terminated(Terminated),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terminated {
    pub exit_code: i32,
    pub reason: String,
    /// The termination message: the container's last lines, when it left any.
    pub message: String,
    pub finished: Option<Timestamp>,
}

/// A Service, as far as we care.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceView {
    pub meta: Meta,
    /// Keys of labels and annotations that we wrote.
    pub written: Vec<String>,
    pub type_: String,
    /// `None` means headless.
    pub cluster_ip: Option<String>,
    pub ports: Vec<ServicePortView>,
    /// Addresses that the load balancer got.
    pub load_balancer: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServicePortView {
    pub name: String,
    pub port: i32,
    /// Number or name, as text.
    pub target_port: String,
    pub node_port: Option<i32>,
}

/// Any other child, as far as we care.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildView {
    pub meta: Meta,
    pub kind: Kind,
    /// Keys of labels and annotations that we wrote.
    pub written: Vec<String>,
    /// Somebody else wrote to more than metadata and status.
    pub touched: bool,
    /// Everything beside metadata and status. Nothing of a Secret or a Job.
    pub body: Value,
    /// How a Job stands; `None` while it runs, and for every other kind.
    pub ended: Option<JobEnd>,
}

/// How a Job ended.
#[derive(Clone, Debug, PartialEq)]
pub struct JobEnd {
    pub succeeded: bool,
    pub message: String,
}

/// What is known of the nodes that have accelerators.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodesSeen {
    /// Nothing yet.
    #[default]
    NotYet,
    /// They cannot be listed: the API server's words.
    Refused(String),
    /// By name.
    Known(Arc<BTreeMap<String, Arc<NodeView>>>),
}

/// A node that has accelerators, as far as it matters for who may stand on it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<TaintView>,
    /// What pods may ask for, accelerators only.
    pub allocatable: BTreeMap<String, Quantity>,
    pub ready: bool,
    /// Cordoned.
    pub unschedulable: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaintView {
    pub key: String,
    pub value: String,
    pub effect: String,
}

/// An effect that the API server refused, or that did not answer in time.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub kind: FailureKind,
    /// `create`, `delete`, `patch`, ...
    pub verb: String,
    /// Resource and name, as a person would say it: `pods my-cluster-head-x7k2m`.
    pub what: String,
    /// The step's reason (`CreatedHeadPod`, ...) and scope, to tell one failed effect from another.
    pub step: String,
    pub scope: String,
    /// The API server's words.
    pub message: String,
    pub since: Timestamp,
    /// How many times in a row.
    pub times: u32,
    /// Not to be tried again before this time.
    pub retry_at: Timestamp,
}

/// Ordered by what a person should hear of first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FailureKind {
    /// RBAC: 403 without quota or admission words.
    Forbidden,
    QuotaExceeded,
    /// The pod names a ServiceAccount that does not exist.
    NoServiceAccount,
    /// An admission plugin, policy or webhook said no.
    AdmissionDenied,
    /// 422: the object that we made is not acceptable.
    Invalid,
    /// The namespace is going away: nothing can be created in it.
    NamespaceTerminating,
    /// A name that we need is taken by an object that is not ours.
    NameTaken,
    /// No answer in time, a server error or a broken connection.
    Unavailable,
}

/// What Ray's head said about its nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadFacts {
    /// When it was asked.
    pub at: Timestamp,
    /// Which pods it was asked about: equal to the planner's own fingerprint as long as no pod came, went or restarted.
    pub fingerprint: u64,
    pub answer: Result<Vec<RayNode>, Unreachable>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RayNode {
    pub ip: String,
    pub alive: bool,
}

/// Which layer between us and the head failed, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Unreachable {
    /// `DNS`, `address`, `port`, `HTTP` or `login`.
    pub layer: String,
    pub message: String,
    pub since: Timestamp,
}

impl Seen {
    pub fn other(&self, kind: Kind, name: &str) -> Option<&ChildView> {
        self.others.get(&(kind, name.to_owned())).map(|c| &**c)
    }
}

/// What marks the owner of children that nobody controls.
const UNCONTROLLED: &str = "label/";

/// The owner of children that nobody controls, by the cluster that their label names.
pub fn uncontrolled(namespace: &str, cluster: &str) -> String {
    format!("{UNCONTROLLED}{namespace}/{cluster}")
}

impl ChildView {
    /// Its name among all children of a namespace, of whatever kind.
    pub fn key_of(kind: Kind, name: &str) -> String {
        format!("{}/{name}", kind.plural())
    }

    /// No RayCluster controls it; it is found by its label.
    pub fn is_uncontrolled(&self) -> bool {
        self.meta.owner_uid.starts_with(UNCONTROLLED)
    }
}

impl Meta {
    pub fn label(&self, key: &str) -> &str {
        self.labels.get(key).map_or("", String::as_str)
    }

    pub fn annotation(&self, key: &str) -> &str {
        self.annotations.get(key).map_or("", String::as_str)
    }
}

impl ContainerView {
    /// Reason and message of a container that waits for something other than its turn to start.
    pub fn held_back(&self) -> Option<(&str, &str)> {
        match &self.state {
            ContainerState::Waiting { reason, message }
                if !matches!(reason.as_str(), "" | "PodInitializing" | "ContainerCreating") =>
            {
                Some((reason, message))
            }
            _ => None,
        }
    }
}

impl PodView {
    pub fn label(&self, key: &str) -> &str {
        self.meta.label(key)
    }

    pub fn annotation(&self, key: &str) -> &str {
        self.meta.annotation(key)
    }

    pub fn is_ready(&self) -> bool {
        self.phase == "Running"
            && self.meta.deleting.is_none()
            && self.ready.as_ref().is_some_and(|c| c.status == "True")
    }

    pub fn is_running(&self) -> bool {
        self.phase == "Running" && self.meta.deleting.is_none()
    }

    /// Where the pod says it stands.
    pub fn place(&self) -> Option<Place> {
        Place::from_labels(&self.meta.labels)
    }

    /// The Ray container's status, matched by the name of `spec.containers[0]`.
    pub fn ray(&self) -> Option<&ContainerView> {
        self.containers.iter().find(|c| c.name == self.ray_container)
    }
}

//! What a batch scheduler wants to read on a pod. Which scheduler it is holds for the whole operator.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::{Group, creator};
use crate::api::RayCluster;
use crate::api::names::labels;
use crate::plan::config::{BatchScheduler, PlanConfig};
use crate::plan::resources::{pod_requests, pods_at_least};

/// Volcano's queue, on RayClusters and pods alike.
pub(crate) const VOLCANO_QUEUE: &str = "volcano.sh/queue-name";
const VOLCANO_GROUP: &str = "scheduling.k8s.io/group-name";
const VOLCANO_TASK: &str = "volcano.sh/task-spec";
const YUNIKORN_APP: &str = "yunikorn.apache.org/app-id";
const YUNIKORN_QUEUE: &str = "yunikorn.apache.org/queue";
const YUNIKORN_TASK: &str = "yunikorn.apache.org/task-group-name";
const YUNIKORN_TASKS: &str = "yunikorn.apache.org/task-groups";
const PLUGINS_GROUP: &str = "scheduling.x-k8s.io/pod-group";
const KAI_QUEUE: &str = "kai.scheduler/queue";

/// Labels, annotations and `schedulerName`; the template's own are overwritten (KubeRay behaviour).
pub(crate) fn apply(group: Group, meta: &mut ObjectMeta, pod: &mut PodSpec, config: &PlanConfig) {
    let Some(scheduler) = config.batch_scheduler else { return };
    pod.scheduler_name = Some(name(scheduler).to_owned());
    let cluster = group.cluster;
    let mut said = Said { cluster, labels: BTreeMap::new(), annotations: BTreeMap::new() };
    match scheduler {
        BatchScheduler::Volcano => {
            said.copy(VOLCANO_QUEUE, VOLCANO_QUEUE);
            said.copy(labels::PRIORITY_CLASS, labels::PRIORITY_CLASS);
            said.annotate(VOLCANO_GROUP, volcano_group(cluster));
            said.annotate(VOLCANO_TASK, group.name().to_owned());
        }
        BatchScheduler::YuniKorn => {
            said.copy(YUNIKORN_APP, "applicationId");
            said.copy(YUNIKORN_QUEUE, "queue");
            if wants_gang(cluster) {
                said.annotate(YUNIKORN_TASK, group.name().to_owned());
                let given = cluster.metadata.annotations.as_ref().and_then(|a| a.get(YUNIKORN_TASKS)).cloned();
                said.annotate(YUNIKORN_TASKS, given.unwrap_or_else(|| task_groups(cluster, config)));
            }
        }
        BatchScheduler::SchedulerPlugins if wants_gang(cluster) => {
            said.label(PLUGINS_GROUP, cluster.metadata.name.clone().unwrap_or_default());
        }
        BatchScheduler::SchedulerPlugins => {}
        BatchScheduler::Kai => said.copy(KAI_QUEUE, KAI_QUEUE),
    }
    meta.labels.get_or_insert_default().append(&mut said.labels);
    if !said.annotations.is_empty() {
        meta.annotations.get_or_insert_default().append(&mut said.annotations);
    }
}

/// What pods of this scheduler bear as `schedulerName`.
fn name(scheduler: BatchScheduler) -> &'static str {
    match scheduler {
        BatchScheduler::Volcano => "volcano",
        BatchScheduler::YuniKorn => "yunikorn",
        BatchScheduler::Kai => "kai-scheduler",
        BatchScheduler::SchedulerPlugins => "scheduler-plugins-scheduler",
    }
}

/// Whether the cluster asks for all of its pods or none: the label counts, not its value (KubeRay's rule).
pub(crate) fn wants_gang(cluster: &RayCluster) -> bool {
    label(cluster, labels::GANG).is_some()
}

/// Volcano's PodGroup for the pods: the RayJob's, if the cluster is one's.
pub(crate) fn volcano_group(cluster: &RayCluster) -> String {
    let own = cluster.metadata.name.as_deref().unwrap_or_default();
    let job = label(cluster, labels::ORIGINATED_FROM_CR_NAME).filter(|_| creator(cluster) == "RayJob");
    format!("ray-{}-pg", job.unwrap_or(own))
}

pub(crate) fn label<'a>(cluster: &'a RayCluster, key: &str) -> Option<&'a str> {
    cluster.metadata.labels.as_ref().and_then(|l| l.get(key)).map(String::as_str)
}

/// Who belongs to YuniKorn's gang, in the order of the spec: the head, and of each group as many as there always are. What
/// is asked for counts as in `status.desired*`, so that what YuniKorn holds free is large enough for the pods that come.
fn task_groups(cluster: &RayCluster, config: &PlanConfig) -> String {
    let workers = cluster.spec.groups().iter().filter(|g| g.suspend != Some(true));
    let workers = workers.map(|g| (Group::worker(cluster, g), pods_at_least(g)));
    let all = std::iter::once((Group::head(cluster), 1)).chain(workers);
    let all: Vec<Value> = all.map(|(group, members)| task_group(group, members, config)).collect();
    Value::from(all).to_string()
}

fn task_group(group: Group, members: u32, config: &PlanConfig) -> Value {
    let spec = group.template().spec.clone().unwrap_or_default();
    let requests = pod_requests(group, config).into_iter();
    let mut fields = Map::new();
    fields.insert("name".to_owned(), json!(group.name()));
    fields.insert("minMember".to_owned(), json!(members));
    let requests: BTreeMap<String, Value> = requests.map(|(name, amount)| (name, json!(amount.quantity()))).collect();
    fields.insert("minResource".to_owned(), json!(requests));
    for (name, value) in [
        ("nodeSelector", json!(spec.node_selector)),
        ("tolerations", json!(spec.tolerations)),
        ("affinity", json!(spec.affinity)),
        ("topologySpreadConstraints", json!(spec.topology_spread_constraints)),
    ] {
        if !value.is_null() {
            fields.insert(name.to_owned(), value);
        }
    }
    Value::Object(fields)
}

/// What is to be written on the pod.
struct Said<'a> {
    cluster: &'a RayCluster,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

impl Said<'_> {
    /// A label of the RayCluster, under another name perhaps.
    fn copy(&mut self, from: &str, to: &str) {
        if let Some(value) = label(self.cluster, from) {
            self.label(to, value.to_owned());
        }
    }

    fn label(&mut self, key: &str, value: String) {
        self.labels.insert(key.to_owned(), value);
    }

    fn annotate(&mut self, key: &str, value: String) {
        self.annotations.insert(key.to_owned(), value);
    }
}

//! The Job that removes a deleted cluster's keys from Redis.
//!
//! Its pod is the head's without Ray: same image, environment, volumes and node, so that it reaches Redis the way the
//! head did. What the head needs only to run Ray is left out.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::child::child;
use super::command::shell;
use super::env::{literal, set};
use super::{Identity, head_pod};
use crate::api::RayCluster;
use crate::api::children::Kind;
use crate::api::names::{annotations, child_name, hash_suffix, labels};
use crate::plan::Manifest;
use crate::plan::config::PlanConfig;
use crate::plan::quantity::Amount;

/// The value of `ray.io/node-type` on the Job and its pod.
const NODE_TYPE: &str = "redis-cleanup";
const DEADLINE_SECONDS: i64 = 300;
/// For how long a Job that nobody owns stays after its end.
const TTL_SECONDS: i32 = 600;
const RESOURCES: [(&str, &str); 2] = [("cpu", "200m"), ("memory", "256Mi")];
/// Variables that serve Ray's login. Their Secret may be gone already.
const LOGIN: [&str; 3] = ["RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ENABLE_K8S_TOKEN_AUTH"];

/// Deletes every key of the storage namespace by Ray's own function. The user name goes along only where one is set: older
/// Rays know no such argument.
const SCRIPT: &str = r#"echo "Removing the keys of storage namespace $RAY_external_storage_namespace from Redis."
python=$(command -v python || command -v python3) || { echo "This image has no Python."; exit 1; }
exec "$python" -c '
import os, sys
from urllib.parse import urlparse
from ray._private.gcs_utils import cleanup_redis_storage

address = os.environ.get("RAY_REDIS_ADDRESS", "").split(",")[0].strip()
if not address:
    sys.exit("RAY_REDIS_ADDRESS is not set: it is not known where Redis is.")
url = urlparse(address if "://" in address else "redis://" + address)
more = {}
if "REDIS_USERNAME" in os.environ:
    more["username"] = os.environ["REDIS_USERNAME"] or url.username or ""
done = cleanup_redis_storage(
    host=url.hostname,
    port=url.port or 6379,
    password=os.environ.get("REDIS_PASSWORD") or url.password or "",
    use_ssl=url.scheme == "rediss",
    storage_namespace=os.environ["RAY_external_storage_namespace"],
    **more,
)
if not done:
    sys.exit("Ray could not remove the keys.")
print("Done.")
'
"#;

/// The Job's name. `orphan`: it has no owner, so it may meet one of an earlier cluster.
pub(crate) fn name(cluster: &RayCluster, orphan: bool) -> String {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    let tail = match cluster.metadata.uid.as_deref() {
        Some(uid) if orphan => format!("-{}", hash_suffix(uid)),
        _ => String::new(),
    };
    child_name(&format!("{name}-redis-cleanup{tail}"))
}

/// The Job. As an `orphan` it has no owner and goes by itself some time after its end: what a cluster owns is deleted
/// before it when it is deleted in the foreground.
pub(crate) fn redis_cleanup(cluster: &RayCluster, orphan: bool, config: &PlanConfig) -> Manifest {
    // No gang waits for it, and it waits for no gang.
    let alone = PlanConfig { batch_scheduler: None, ..config.clone() };
    let head = head_pod(cluster, Identity::default(), &alone).pod;
    let mut marks = head.metadata.annotations.unwrap_or_default();
    marks.retain(|key, _| key != annotations::TEMPLATE_PARTS && key != annotations::RECREATE_HASH);
    let mut all = head.metadata.labels.unwrap_or_default();
    all.insert(labels::NODE_TYPE.to_owned(), NODE_TYPE.to_owned());
    let meta = ObjectMeta { labels: Some(all.clone()), annotations: Some(marks.clone()), ..ObjectMeta::default() };
    let template = PodTemplateSpec { metadata: Some(meta), spec: Some(pod(cluster, head.spec, config)) };
    let job = Job {
        spec: Some(JobSpec {
            backoff_limit: Some(0),
            active_deadline_seconds: Some(DEADLINE_SECONDS),
            ttl_seconds_after_finished: orphan.then_some(TTL_SECONDS),
            template,
            ..JobSpec::default()
        }),
        ..Job::default()
    };
    let mut manifest = child(cluster, Kind::Job, name(cluster, orphan), all, marks, job);
    if orphan && let Some(meta) = manifest.value["metadata"].as_object_mut() {
        meta.remove("ownerReferences");
    }
    manifest
}

fn pod(cluster: &RayCluster, head: Option<PodSpec>, config: &PlanConfig) -> PodSpec {
    let mut spec = head.unwrap_or_default();
    spec.containers.truncate(1);
    for ray in &mut spec.containers {
        *ray = container(cluster, std::mem::take(ray), config);
    }
    spec.restart_policy = Some("Never".to_owned());
    // It belongs to no gang, and nobody would lift its gates.
    spec.scheduling_gates = None;
    // The account that Ray's autoscaler gets from us may be gone already.
    let template = cluster.spec.head_group_spec.template.spec.as_ref();
    spec.service_account_name = template.and_then(|t| t.service_account_name.clone());
    spec
}

fn container(cluster: &RayCluster, mut ray: Container, config: &PlanConfig) -> Container {
    let env = ray.env.get_or_insert_default();
    env.retain(|var| !LOGIN.contains(&var.name.as_str()));
    set(env, literal("RAY_redis_db_connect_retries", "120"));
    set(env, literal("RAY_redis_db_connect_wait_milliseconds", "500"));
    let amounts = resources(cluster);
    Container {
        command: Some(shell(config)),
        args: Some(vec![SCRIPT.to_owned()]),
        resources: Some(ResourceRequirements {
            limits: Some(amounts.clone()),
            requests: Some(amounts),
            ..ResourceRequirements::default()
        }),
        liveness_probe: None,
        readiness_probe: None,
        startup_probe: None,
        lifecycle: None,
        ports: None,
        ..ray
    }
}

/// 200m of CPU and 256Mi, or what the annotation says instead: `cpu=500m,memory=512Mi`. Some clusters admit no pod that
/// small.
fn resources(cluster: &RayCluster) -> BTreeMap<String, Quantity> {
    let said = cluster.metadata.annotations.as_ref().and_then(|a| a.get(annotations::REDIS_CLEANUP_RESOURCES));
    let said = said.into_iter().flat_map(|text| text.split(',')).filter_map(|item| item.split_once('='));
    let said = said.map(|(name, amount)| (name.trim(), amount.trim())).filter(|(_, a)| Amount::parse(a).is_some());
    let all = RESOURCES.into_iter().chain(said);
    all.map(|(name, amount)| (name.to_owned(), Quantity(amount.to_owned()))).collect()
}

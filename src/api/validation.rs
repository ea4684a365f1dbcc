//! What is wrong with a spec.
//!
//! The API server refuses most of this already ([`super::constraints`], in the same words), but not what CEL cannot
//! see, and objects may have been stored under KubeRay's CRDs. KubeRay's checks, and some where KubeRay lets a cluster
//! start that can never run; feature gates are not asked.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{EnvVar, PodTemplateSpec, VolumeMount};

use super::constraints::{MAX_RAYCLUSTER_NAME, NUMERIC_START_PARAMS, RESOURCE_START_PARAMS, SWITCH_START_PARAMS};
use super::messages as m;
use super::names::{HEAD_GROUP, annotations, labels};
use super::names::{head_external_service_name, headless_service_name, serve_service_name};
use super::raycluster::{RayCluster, WorkerGroupSpec, ray_container};
use super::{syntax, validation_options, version};

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where, as in `spec.workerGroupSpecs[0].minReplicas`.
    pub field: String,
    /// What is wrong and what to change.
    pub message: String,
}

/// Collects faults in the order in which they are found.
#[derive(Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    /// Notes `message` about `field` if `wrong`.
    pub(super) fn when(&mut self, wrong: bool, field: impl Into<String>, message: impl Into<String>) {
        if wrong {
            self.0.push(Fault { field: field.into(), message: message.into() });
        }
    }
}

/// All faults of a RayCluster, in the order of the spec; empty if it can run.
pub fn raycluster(object: &RayCluster) -> Vec<Fault> {
    let mut faults = Faults::default();
    let spec = &object.spec;
    let name = object.metadata.name.as_deref().unwrap_or_default();
    faults.when(
        !syntax::is_dns_1035_label(name) || name.len() > MAX_RAYCLUSTER_NAME,
        "metadata.name",
        m::object_name("RayCluster", MAX_RAYCLUSTER_NAME),
    );

    let head = &spec.head_group_spec;
    let at = "spec.headGroupSpec";
    group(&mut faults, at, &head.template, &head.ray_start_params, &head.resources, &head.labels);
    faults.when(has_key(&head.ray_start_params, "redis-username"), params_at(at), m::REDIS_USERNAME_PARAM);
    faults.when(env(&head.template, "REDIS_USERNAME").is_some(), env_at(at), m::REDIS_USERNAME_ENV);

    let service = head.head_service.as_ref().and_then(|s| s.metadata.name.as_deref());
    let others = [head_external_service_name(name), headless_service_name(name), serve_service_name(name)];
    faults.when(
        service.is_some_and(|service| others.iter().any(|other| other == service)),
        "spec.headGroupSpec.headService.metadata.name",
        "this is the name of another Service of the cluster (for people outside, for hosts of a replica, or for Serve): choose another",
    );

    let autoscaler_v2 = validation_options::autoscaler_v2(spec);
    let version = spec.ray_version.as_deref().and_then(version::parse);
    let mut seen = BTreeSet::new();
    for (i, worker) in spec.groups().iter().enumerate() {
        let at = format!("spec.workerGroupSpecs[{i}]");
        faults.when(!seen.insert(&worker.group_name), format!("{at}.groupName"), m::DUPLICATE_GROUP);
        worker_group(&mut faults, &at, worker);
        group(&mut faults, &at, &worker.template, &worker.ray_start_params, &worker.resources, &worker.labels);
        let priority = worker.priority.unwrap_or(0) != 0;
        faults.when(
            worker.idle_timeout_seconds.is_some() && !autoscaler_v2,
            format!("{at}.idleTimeoutSeconds"),
            m::IDLE_TIMEOUT_NEEDS_V2,
        );
        faults.when(
            priority && version.is_none_or(|v| v < (2, 56, 0)),
            format!("{at}.priority"),
            m::PRIORITY_NEEDS_VERSION,
        );
        faults.when(priority && !autoscaler_v2, format!("{at}.priority"), m::PRIORITY_NEEDS_V2);
    }

    fault_tolerance(&mut faults, object);
    validation_options::autoscaler(&mut faults, spec);
    validation_options::history(&mut faults, spec);
    validation_options::auth(&mut faults, spec, version);
    validation_options::network_policy(&mut faults, spec);
    validation_options::tls(&mut faults, spec);

    let upgrade = spec.upgrade_strategy.as_ref().and_then(|u| u.type_.as_deref());
    let owner = object.metadata.labels.as_ref().and_then(|l| l.get(labels::ORIGINATED_FROM_CRD)).map(String::as_str);
    let at = "spec.upgradeStrategy.type";
    faults.when(!matches!(upgrade, None | Some("Recreate" | "None")), at, m::UPGRADE_TYPE);
    faults.when(upgrade.is_some() && matches!(owner, Some("RayJob" | "RayService")), at, m::OWNED_UPGRADE_STRATEGY);
    faults.0
}

/// What holds for the head and for each worker group.
fn group(
    faults: &mut Faults,
    at: &str,
    template: &PodTemplateSpec,
    params: &Option<BTreeMap<String, String>>,
    resources: &Option<BTreeMap<String, String>>,
    labels: &Option<BTreeMap<String, String>>,
) {
    faults.when(ray_container(template).is_none(), format!("{at}.template.spec.containers"), m::NO_CONTAINER);
    let twice = RESOURCE_START_PARAMS.iter().any(|k| has_key(params, k));
    let given = resources.as_ref().is_some_and(|r| !r.is_empty());
    faults.when(twice && given, format!("{at}.resources"), m::RESOURCES_TWICE);
    faults.when(has_key(params, "labels"), params_at(at), m::LABELS_PARAM);
    for (key, value) in params.iter().flatten() {
        let key = key.as_str();
        let wrong = NUMERIC_START_PARAMS.contains(&key) && !syntax::is_number_or_expansion(value);
        faults.when(wrong, params_at(at), m::numeric_start_param(key));
        let wrong = SWITCH_START_PARAMS.contains(&key) && !["true", "false"].contains(&value.to_lowercase().as_str());
        faults.when(wrong, params_at(at), m::switch_start_param(key));
    }
    for (key, value) in labels.iter().flatten() {
        faults.when(!syntax::is_qualified_name(key), format!("{at}.labels"), m::label_key(key));
        faults.when(!syntax::is_label_value(value), format!("{at}.labels"), m::label_value(key, value));
    }
}

fn worker_group(faults: &mut Faults, at: &str, worker: &WorkerGroupSpec) {
    faults.when(!syntax::is_group_name(&worker.group_name), format!("{at}.groupName"), m::GROUP_NAME);
    faults.when(worker.group_name == HEAD_GROUP, format!("{at}.groupName"), m::GROUP_NAME_RESERVED);
    for (field, value) in [
        ("replicas", worker.replicas),
        ("minReplicas", worker.min_replicas),
        ("maxReplicas", worker.max_replicas),
        ("idleTimeoutSeconds", worker.idle_timeout_seconds),
    ] {
        faults.when(value.is_some_and(|v| v < 0), format!("{at}.{field}"), m::negative(field));
    }
    let crossed = worker.min_replicas.unwrap_or(0) > worker.max_replicas.unwrap_or(i32::MAX);
    faults.when(crossed, format!("{at}.minReplicas"), m::MIN_ABOVE_MAX);
    faults.when(worker.num_of_hosts.is_some_and(|n| n < 1), format!("{at}.numOfHosts"), m::NO_HOSTS);
}

fn fault_tolerance(faults: &mut Faults, object: &RayCluster) {
    let annotation = |key| object.metadata.annotations.as_ref().and_then(|a| a.get(key)).map_or("", String::as_str);
    let head = &object.spec.head_group_spec;
    let at = "spec.headGroupSpec";
    let options = object.spec.gcs_fault_tolerance_options.as_ref();
    let legacy = annotation(annotations::FT_ENABLED);
    faults.when(!legacy.is_empty() && options.is_some(), "metadata.annotations", m::FT_TWICE);
    let redis = env(&head.template, "RAY_REDIS_ADDRESS").is_some();
    let off = options.is_none() && !legacy.eq_ignore_ascii_case("true");
    faults.when(off && redis, env_at(at), m::REDIS_WITHOUT_FT);
    let Some(options) = options else { return };
    faults.when(has_key(&head.ray_start_params, "redis-password"), params_at(at), m::REDIS_PASSWORD_PARAM);
    faults.when(env(&head.template, "REDIS_PASSWORD").is_some(), env_at(at), m::REDIS_PASSWORD_ENV);
    faults.when(redis, env_at(at), m::REDIS_ADDRESS_ENV);
    let legacy = !annotation(annotations::EXTERNAL_STORAGE_NAMESPACE).is_empty();
    faults.when(legacy, "metadata.annotations", m::STORAGE_NAMESPACE_TWICE);
    validation_options::gcs_storage(faults, options, &head.template);
}

/// The variable `name` of the Ray container.
pub(super) fn env<'a>(template: &'a PodTemplateSpec, name: &str) -> Option<&'a EnvVar> {
    ray_env(template).iter().find(|e| e.name == name)
}

pub(super) fn ray_env(template: &PodTemplateSpec) -> &[EnvVar] {
    ray_container(template).and_then(|c| c.env.as_deref()).unwrap_or_default()
}

pub(super) fn ray_mounts(template: &PodTemplateSpec) -> &[VolumeMount] {
    ray_container(template).and_then(|c| c.volume_mounts.as_deref()).unwrap_or_default()
}

pub(super) fn env_at(group: &str) -> String {
    format!("{group}.template.spec.containers[0].env")
}

fn params_at(group: &str) -> String {
    format!("{group}.rayStartParams")
}

fn has_key(map: &Option<BTreeMap<String, String>>, key: &str) -> bool {
    map.as_ref().is_some_and(|m| m.contains_key(key))
}

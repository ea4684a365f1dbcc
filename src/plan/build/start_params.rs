//! Which parameters `ray start` gets.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::accelerators::{CUSTOM, parse_resources, render_resources};
use super::address::HeadAddress;
use super::own_start::own_starts;
use super::{Group, fault_tolerance};
use crate::api::accelerators::is_gpu;
use crate::api::names::{PORT_DASHBOARD_AGENT, PORT_METRICS};
use crate::plan::quantity::Amount;

/// The parameters, without leading dashes.
#[derive(Clone, Debug, PartialEq)]
pub struct StartParams {
    pub params: BTreeMap<String, String>,
    /// Ray's name of an accelerator that could not be added because the user's `resources` is unreadable.
    pub unread_accelerator: Option<String>,
}

/// The user's `rayStartParams` after the group's `resources` and `labels`, the defaults, and what the Ray container
/// asks of Kubernetes. Rules and order are KubeRay's; amounts come from limits, and for CPUs from requests when there
/// is no limit.
pub(crate) fn resolve(group: Group, ray: &Container, address: &HeadAddress) -> StartParams {
    let mut params = group.params().cloned().unwrap_or_default();
    apply_resources(&mut params, group.resources());
    apply_labels(&mut params, group.labels());
    apply_defaults(&mut params, group, address);
    let unread_accelerator = apply_container(&mut params, ray);
    StartParams { params, unread_accelerator }
}

fn set_default(params: &mut BTreeMap<String, String>, key: &str, value: impl ToString) {
    params.entry(key.to_owned()).or_insert_with(|| value.to_string());
}

/// The group's `resources`, which win over `rayStartParams`. A quantity that is none is left out.
fn apply_resources(params: &mut BTreeMap<String, String>, resources: Option<&BTreeMap<String, String>>) {
    let mut custom = BTreeMap::new();
    let mut gpus = None;
    for (name, amount) in resources.into_iter().flatten() {
        let Some(amount) = Amount::parse(amount.trim()) else { continue };
        match name.to_ascii_lowercase().as_str() {
            "cpu" => _ = params.insert("num-cpus".to_owned(), amount.rounded_up().to_string()),
            "memory" => _ = params.insert("memory".to_owned(), amount.rounded_up().to_string()),
            key if is_gpu(key) => _ = gpus.get_or_insert(amount.rounded_up()),
            _ => _ = custom.insert(name.clone(), amount.as_f64()),
        }
    }
    if let Some(gpus) = gpus {
        params.insert("num-gpus".to_owned(), gpus.to_string());
    }
    if !custom.is_empty() {
        params.insert("resources".to_owned(), render_resources(&custom));
    }
}

/// The group's `labels`, which Ray knows a node by.
fn apply_labels(params: &mut BTreeMap<String, String>, labels: Option<&BTreeMap<String, String>>) {
    let pairs: Vec<String> = labels.into_iter().flatten().map(|(k, v)| format!("{k}={v}")).collect();
    if !pairs.is_empty() {
        params.insert("labels".to_owned(), pairs.join(","));
    }
}

fn apply_defaults(params: &mut BTreeMap<String, String>, group: Group, address: &HeadAddress) {
    if group.is_head() {
        set_default(params, "dashboard-host", "0.0.0.0");
        if group.cluster.spec.enable_in_tree_autoscaling == Some(true) {
            params.insert("no-monitor".to_owned(), "true".to_owned());
        }
        for (key, value) in fault_tolerance::start_params(group) {
            params.insert(key.to_owned(), value.to_owned());
        }
    } else {
        set_default(params, "address", address.gcs());
    }
    set_default(params, "metrics-export-port", PORT_METRICS);
    set_default(params, "dashboard-agent-listen-port", PORT_DASHBOARD_AGENT);
    params.insert("block".to_owned(), "true".to_owned());
}

/// What the container asks of Kubernetes, where the user has not said otherwise. Ray's name of an accelerator that
/// found no place, if any.
fn apply_container(params: &mut BTreeMap<String, String>, ray: &Container) -> Option<String> {
    let resources = ray.resources.as_ref()?;
    let amount = |of: &Option<BTreeMap<String, Quantity>>, name: &str| {
        of.as_ref()?.get(name).and_then(Amount::of).filter(|a| !a.is_zero()).map(Amount::rounded_up)
    };
    let limit = |name: &str| amount(&resources.limits, name);
    if let Some(cpus) = limit("cpu").or_else(|| amount(&resources.requests, "cpu")) {
        set_default(params, "num-cpus", cpus);
    }
    if let Some(bytes) = limit("memory") {
        set_default(params, "memory", bytes);
    }
    let mut names = resources.limits.iter().flatten().map(|(name, _)| name.as_str());
    if let Some(gpus) = names.find_map(|name| is_gpu(name).then(|| limit(name)).flatten()) {
        set_default(params, "num-gpus", gpus);
    }
    let (name, count) = CUSTOM.iter().find_map(|(resource, name)| Some((*name, limit(resource)?)))?;
    let Some(mut custom) = parse_resources(params.get("resources").map_or("", String::as_str)) else {
        return Some(name.to_owned());
    };
    if !CUSTOM.iter().any(|(_, name)| custom.contains_key(*name)) {
        custom.insert(name.to_owned(), count as f64);
        params.insert("resources".to_owned(), render_resources(&custom));
    }
    None
}

/// A parameter as Ray will get it: from the container's own `ray start` when that is what runs, else from `params`.
pub fn effective<'a>(
    params: &'a BTreeMap<String, String>,
    ray: &Container,
    name: &str,
) -> Option<std::borrow::Cow<'a, str>> {
    let own = own_starts(ray).iter().find_map(|s| s.flag(name).map(str::to_owned));
    own.map(Into::into).or_else(|| params.get(name).map(|v| v.as_str().into()))
}

//! `plan -f`: what the operator would do to a folder of YAML, without a cluster.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::api::children::Kind;
use crate::api::names::labels;
use crate::api::{RayCluster, RayClusterStatus};
use crate::observe::child::ChildWire;
use crate::observe::nodes::NodeWire;
use crate::observe::seen::{ChildView, NodeView, NodesSeen, PodView, Seen, ServiceView, uncontrolled};
use crate::observe::watch::OTHERS;
use crate::observe::wire::{PodWire, ServiceWire};
use crate::plan::config::PlanConfig;
use crate::plan::{Action, Plan};

/// Why a folder of YAML could not be planned.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("{path}, document {number}: {message}")]
    Parse { path: PathBuf, number: usize, message: String },
    #[error("no RayCluster among what was given")]
    NothingToPlan,
}

/// Objects given in place of a cluster's.
#[derive(Debug, Default)]
pub struct Given {
    pub clusters: Vec<RayCluster>,
    pub pods: Vec<PodView>,
    pub services: Vec<ServiceView>,
    /// Of all other kinds.
    pub others: Vec<ChildView>,
    /// `None`: nothing is known of nodes.
    pub nodes: Option<BTreeMap<String, Arc<NodeView>>>,
}

/// Reads files and folders (`*.yaml`, `*.yml`, `*.json`; `-` is standard input), plans every RayCluster in them
/// against the children in them, and prints the plans.
///
/// # Errors
/// A path that cannot be read, a document that is not YAML or not what its kind says.
pub fn plan_files(paths: &[PathBuf], config: &PlanConfig, now: Timestamp) -> Result<String, OfflineError> {
    let mut given = Given::default();
    for path in paths {
        for (path, text) in texts(path)? {
            given.read(&path, &text)?;
        }
    }
    if given.clusters.is_empty() {
        return Err(OfflineError::NothingToPlan);
    }
    Ok(plan_given(&given, config, now))
}

/// Plans every given RayCluster and prints the plans.
pub fn plan_given(given: &Given, config: &PlanConfig, now: Timestamp) -> String {
    let mut out = String::new();
    for cluster in &given.clusters {
        let plan = crate::plan::raycluster::plan(cluster, &given.around(cluster), now, config);
        print(&mut out, cluster, &plan);
    }
    out
}

fn texts(path: &Path) -> Result<Vec<(PathBuf, String)>, OfflineError> {
    let failed = |source| OfflineError::Read { path: path.to_owned(), source };
    if path == Path::new("-") {
        return Ok(vec![(path.to_owned(), std::io::read_to_string(std::io::stdin()).map_err(failed)?)]);
    }
    if !path.is_dir() {
        return Ok(vec![(path.to_owned(), std::fs::read_to_string(path).map_err(failed)?)]);
    }
    let mut files: Vec<PathBuf> = std::fs::read_dir(path)
        .map_err(failed)?
        .filter_map(|entry| entry.ok().map(|e| e.path()))
        .filter(|p| p.extension().and_then(|e| e.to_str()).is_some_and(|e| matches!(e, "yaml" | "yml" | "json")))
        .collect();
    files.sort();
    let mut all = Vec::new();
    for file in files {
        all.extend(texts(&file)?);
    }
    Ok(all)
}

impl Given {
    /// Takes in every document of a YAML text. Objects without a namespace or uid get one, as an API server would give.
    ///
    /// # Errors
    /// A document that is not YAML, or not what its kind says.
    pub fn read(&mut self, path: &Path, text: &str) -> Result<(), OfflineError> {
        let bad = |number: usize, message: String| OfflineError::Parse { path: path.to_owned(), number, message };
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|e| bad(0, e.to_string()))?;
        for (number, document) in documents.into_iter().enumerate() {
            let items = match document.get("items") {
                Some(Value::Array(items)) => items.clone(),
                _ => vec![document],
            };
            for item in items {
                self.take(item).map_err(|e| bad(number + 1, e.to_string()))?;
            }
        }
        Ok(())
    }

    fn take(&mut self, mut object: Value) -> Result<(), serde_json::Error> {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
        let group = object.get("apiVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.entry("namespace").or_insert_with(|| "default".into());
            meta.entry("uid").or_insert_with(|| format!("uid-of-{}-{name}", kind.to_lowercase()).into());
            meta.entry("generation").or_insert_with(|| 1.into());
        }
        match (group.as_str(), kind.as_str()) {
            ("ray.io/v1" | "ray.io/v1alpha1", "RayCluster") => self.clusters.push(RayCluster::deserialize(object)?),
            ("v1", "Pod") => self.pods.push(PodWire::deserialize(object)?.into()),
            ("v1", "Service") => self.services.push(ServiceWire::deserialize(object)?.into()),
            ("v1", "Node") => {
                let node = NodeView::from(NodeWire::deserialize(object)?);
                self.nodes.get_or_insert_default().insert(name, Arc::new(node));
            }
            (version, kind) => {
                let known = OTHERS.into_iter().chain([Kind::Route, Kind::VolcanoPodGroup, Kind::PluginsPodGroup]);
                if let Some(kind) = known.into_iter().find(|k| k.kind() == kind && k.api_version() == version) {
                    self.others.push(ChildWire::deserialize(object)?.view(kind));
                }
            }
        }
        Ok(())
    }

    /// What the planner of a cluster would see of the given objects.
    pub fn around(&self, cluster: &RayCluster) -> Seen {
        let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
        let pods =
            self.pods.iter().filter(|p| p.meta.owner_uid == uid).map(|p| (p.meta.name.clone(), Arc::new(p.clone())));
        let services = self
            .services
            .iter()
            .filter(|s| s.meta.owner_uid == uid)
            .map(|s| (s.meta.name.clone(), Arc::new(s.clone())));
        let name = cluster.metadata.name.as_deref().unwrap_or_default();
        let other_heads = self
            .pods
            .iter()
            .filter(|p| p.meta.owner_uid != uid && p.meta.owner_name == name && p.label(labels::NODE_TYPE) == "head");
        let unowned = uncontrolled(cluster.metadata.namespace.as_deref().unwrap_or_default(), name);
        let others = self.others.iter().filter(|c| c.meta.owner_uid == uid || c.meta.owner_uid == unowned);
        let others = others.map(|c| ((c.kind, c.meta.name.clone()), Arc::new(c.clone()))).collect();
        let other_heads = other_heads.map(|p| Arc::new(p.clone())).collect();
        let nodes = self.nodes.clone().map_or(NodesSeen::NotYet, |n| NodesSeen::Known(Arc::new(n)));
        Seen { nodes, other_heads, pods: pods.collect(), services: services.collect(), others, ..Seen::default() }
    }
}

fn print(out: &mut String, cluster: &RayCluster, plan: &Plan<RayClusterStatus>) {
    let meta = &cluster.metadata;
    let _ = writeln!(
        out,
        "RayCluster {}/{}",
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default()
    );
    if plan.steps.is_empty() {
        let _ = writeln!(out, "  nothing to do");
    }
    for step in &plan.steps {
        let sign = match &step.action {
            Action::Create(_) => "+",
            Action::Patch(_) => "~",
            Action::Delete(_) => "-",
        };
        let _ = writeln!(out, "  {sign} {} {}: {}", step.action.kind().noun(), step.action.name(), step.why);
    }
    let conditions = || plan.status.iter().flat_map(|s| s.conditions.iter().flatten());
    for said in conditions().filter(|c| {
        matches!(c.type_.as_str(), "Ready" | "AcceleratorsAvailable")
            || (c.type_ == "TemplateDrift" && c.status == "True")
    }) {
        let _ = writeln!(out, "  {} {} ({}): {}", said.type_, said.status, said.reason, said.message);
    }
    for note in &plan.notes {
        let _ = writeln!(out, "  {}: {}", note.reason, note.text);
    }
}

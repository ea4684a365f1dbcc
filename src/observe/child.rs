//! Children of the kinds that have no view of their own: one wire type for all, told apart by [`Kind`].

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{DynamicResourceScope, PartialObjectMeta};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::meta;
use super::seen::{ChildView, JobEnd, uncontrolled};
use crate::api::children::Kind;
use crate::api::names::labels;

/// A child on its way to becoming a [`ChildView`].
#[derive(Clone, Debug, Deserialize)]
pub struct ChildWire {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

impl Resource for ChildWire {
    type DynamicType = Kind;
    type Scope = DynamicResourceScope;

    fn kind(kind: &Kind) -> Cow<'_, str> {
        kind.kind().into()
    }
    fn group(kind: &Kind) -> Cow<'_, str> {
        kind.group().into()
    }
    fn version(kind: &Kind) -> Cow<'_, str> {
        kind.version().into()
    }
    fn plural(kind: &Kind) -> Cow<'_, str> {
        kind.plural().into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl From<PartialObjectMeta<ChildWire>> for ChildWire {
    fn from(meta: PartialObjectMeta<ChildWire>) -> Self {
        ChildWire { metadata: meta.metadata, rest: Map::new() }
    }
}

impl ChildWire {
    pub fn view(mut self, kind: Kind) -> ChildView {
        let ended = (kind == Kind::Job).then(|| ended(&self.rest)).flatten();
        for key in ["apiVersion", "kind", "status"] {
            self.rest.remove(key);
        }
        if matches!(kind, Kind::Secret | Kind::Job) {
            self.rest = Map::new();
        }
        let fields = self.metadata.managed_fields.take();
        let free = meta::is_uncontrolled(&self.metadata);
        // KubeRay's PodGroups for scheduler-plugins name their cluster, but do not call it their controller.
        if kind == Kind::PluginsPodGroup && free {
            self.metadata.owner_references.iter_mut().flatten().for_each(|o| o.controller = Some(true));
        }
        let mut meta = meta::view(self.metadata);
        // A claim that is to outlive its cluster has no owner, nor has a Job that a deleted cluster waits for; the label says
        // whose it is.
        if matches!(kind, Kind::PersistentVolumeClaim | Kind::Job)
            && free
            && let Some(cluster) = meta.labels.get(labels::CLUSTER)
        {
            meta.owner_uid = uncontrolled(&meta.namespace, cluster);
            meta.owner_name.clone_from(cluster);
        }
        ChildView {
            meta,
            kind,
            written: meta::written(fields.as_ref()),
            touched: meta::touched(fields.as_ref()),
            body: Value::Object(self.rest),
            ended,
        }
    }
}

/// A Job on its way to failure counts as failed (its pods may still be ending).
fn ended(job: &Map<String, Value>) -> Option<JobEnd> {
    let conditions = job.get("status")?.get("conditions")?.as_array()?;
    let text = |c: &Value, key: &str| c.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is = |c: &&Value, types: &[&str]| types.contains(&text(c, "type").as_str()) && text(c, "status") == "True";
    let failed = conditions.iter().find(|c| is(c, &["Failed", "FailureTarget"]));
    let done = failed.or_else(|| conditions.iter().find(|c| is(c, &["Complete"])))?;
    Some(JobEnd { succeeded: failed.is_none(), message: text(done, "message") })
}

//! Children other than pods and head Services: is each as it is wished?

use serde_json::{Map, Value, json};

use super::Scene;
use crate::api::children::Kind;
use crate::api::names::{annotations, labels};
use crate::observe::seen::ChildView;
use crate::plan::{Action, Manifest, Object, Stage, Step, Target};

/// A child as it should be.
pub(super) struct Wish {
    pub object: Object,
    pub stage: Stage,
    /// Event reasons: what it was that was made, brought up to date.
    pub created: &'static str,
    pub updated: &'static str,
    /// Whether its creation gets an event of its own.
    pub tell: bool,
}

impl Scene<'_> {
    /// The step that brings a child to what is wished; `None` when it is so already.
    ///
    /// A child of ours bears a hash of the wish that it was made from: another hash is another wish. One that KubeRay
    /// made, or that somebody else wrote to, is compared by content; what is there beside our wish stays.
    pub(super) fn fulfil(&self, wish: Wish) -> Option<Step> {
        let (kind, name) = (wish.object.kind(), wish.object.name().to_owned());
        let Some(there) = self.seen.other(kind, &name) else {
            return Some(Step {
                stage: wish.stage,
                reason: wish.created,
                why: format!("{} {name} was missing", kind.noun()),
                scope: name,
                tell: wish.tell,
                action: Action::Create(wish.object),
            });
        };
        let Object::Other(wanted) = wish.object else { return None };
        if there.meta.deleting.is_some() || !differs(there, &wanted.value) {
            return None;
        }
        Some(Step {
            stage: wish.stage,
            reason: wish.updated,
            why: "what the RayCluster or the operator's settings say about it changed".to_owned(),
            scope: name,
            tell: true,
            action: Action::Patch(patch(wanted, there)),
        })
    }

    /// Marks a child that KubeRay made, and that is as it should be, with the wish: later changes show by that, also of
    /// labels and annotations.
    pub(super) fn mark_child(&self, wanted: Manifest, reason: &'static str) -> Option<Step> {
        let there = self.seen.other(wanted.kind, &wanted.name)?;
        let unmarked = there.meta.deleting.is_none() && !there.meta.annotations.contains_key(annotations::APPLIED_HASH);
        unmarked.then(|| Step {
            stage: Stage::Others,
            reason,
            why: "KubeRay made it, and it is marked to follow the spec from now on".to_owned(),
            scope: wanted.name.clone(),
            tell: false,
            action: Action::Patch(patch(wanted, there)),
        })
    }

    /// Takes away a child of ours that is wished no more.
    pub(super) fn drop_child(&self, there: &ChildView, reason: &'static str, why: &str) -> Option<Step> {
        let ours = there.meta.deleting.is_none() && !there.is_uncontrolled();
        ours.then(|| Step {
            stage: Stage::Others,
            reason,
            why: why.to_owned(),
            scope: there.meta.name.clone(),
            tell: true,
            action: Action::Delete(Target::of(there.kind, &there.meta)),
        })
    }

    /// Children of a kind that bear none of these names.
    pub(super) fn beside<'a>(&'a self, kind: Kind, names: &'a [String]) -> impl Iterator<Item = &'a ChildView> {
        let all = self.seen.others.values().map(|c| &**c);
        all.filter(move |c| c.kind == kind && !names.contains(&c.meta.name))
    }
}

fn differs(there: &ChildView, wanted: &Value) -> bool {
    let hash = wanted.pointer("/metadata/annotations").and_then(|a| a.get(annotations::APPLIED_HASH));
    let made_as = there.meta.annotations.get(annotations::APPLIED_HASH);
    // Without the label the watch does not see it.
    if !there.meta.labels.contains_key(labels::CLUSTER) {
        return true;
    }
    if let (Some(made_as), Some(hash)) = (made_as, hash)
        && hash != made_as.as_str()
    {
        return true;
    }
    let fields = wanted.as_object().into_iter().flatten();
    let mut body = fields.filter(|(key, _)| !matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
    (made_as.is_none() || there.touched) && body.any(|(key, value)| !covers(there.body.get(key), value))
}

/// Whether all that is wanted is there. Lists must be of one length; what stands beside the wanted in a map does not
/// count: defaults of the API server, and what others wrote.
pub(super) fn covers(there: Option<&Value>, wanted: &Value) -> bool {
    match (there, wanted) {
        (there, Value::Object(wanted)) if wanted.is_empty() => there.is_none_or(|t| t.is_object() || t.is_null()),
        (Some(Value::Object(there)), Value::Object(wanted)) => wanted.iter().all(|(k, v)| covers(there.get(k), v)),
        (Some(Value::Array(there)), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(t, w)| covers(Some(t), w))
        }
        (None, Value::Array(wanted)) => wanted.is_empty(),
        (None, Value::Null) => true,
        (Some(there), wanted) => there == wanted,
        (None, _) => false,
    }
}

/// For exactly the child that is there; labels and annotations that we wrote and wish no more are taken out.
fn patch(mut wanted: Manifest, there: &ChildView) -> Manifest {
    if let Some(meta) = wanted.value.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.insert("uid".to_owned(), json!(there.meta.uid));
        drop_unwished(meta, &there.written);
    }
    wanted
}

/// `written` as `labels/<key>` and `annotations/<key>`.
pub(super) fn drop_unwished(meta: &mut Map<String, Value>, written: &[String]) {
    for (part, key) in written.iter().filter_map(|w| w.split_once('/')) {
        let map = meta.entry(part).or_insert_with(|| json!({}));
        if let Some(map) = map.as_object_mut() {
            map.entry(key).or_insert(Value::Null);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_beside_the_wish_does_not_count() {
        for (there, wanted, yes) in [
            (json!({"a": 1, "b": 2}), json!({"a": 1}), true),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!([{"port": 1, "protocol": "TCP"}]), json!([{"port": 1}]), true),
            (json!([{"port": 1}, {"port": 2}]), json!([{"port": 1}]), false),
            (json!({"a": {}}), json!({"a": {}, "c": {}, "d": []}), true),
            (json!({"a": "x"}), json!({"a": {}}), false),
        ] {
            assert_eq!(covers(Some(&there), &wanted), yes, "{there} {wanted}");
        }
    }
}

//! Pods and the template that they were made from: which ones are outdated, who replaces them, and what is said of it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::standing::{Standing, given_up_at, is_waited_for, standing};
use super::{Part, Scene};
use crate::api::children::Kind;
use crate::api::names::{HEAD_GROUP, annotations, labels};
use crate::observe::seen::PodView;
use crate::plan::build::{Group, recreate_hash, stamp};
use crate::plan::{Action, Manifest, Stage, Step};

impl<'a> Scene<'a> {
    fn group_of(&self, pod: &PodView) -> Option<Group<'a>> {
        if pod.label(labels::NODE_TYPE) == "head" {
            return Some(Group::head(self.cluster));
        }
        let name = pod.label(labels::GROUP);
        let group = self.cluster.spec.groups().iter().find(|g| g.group_name == name)?;
        Some(Group::worker(self.cluster, group))
    }

    fn recreates(&self) -> bool {
        self.cluster.spec.upgrade_strategy.as_ref().and_then(|u| u.type_.as_deref()) == Some("Recreate")
    }
}

/// Whether the pod says what it was made from. KubeRay's pods do not: heads bear a hash of its own form, workers none.
fn is_stamped(pod: &PodView) -> bool {
    !pod.annotation(annotations::TEMPLATE_PARTS).is_empty()
}

/// Pods of ours that were made by KubeRay, or by hand, get the marks of the template as it is today. It changes their
/// metadata only.
pub(super) fn adopt(scene: &Scene<'_>) -> Part {
    let mut part = Part::default();
    for pod in scene.pods.iter().filter(|p| p.meta.deleting.is_none() && !is_stamped(p)) {
        let Some(group) = scene.group_of(pod) else { continue };
        let mut marks: Map<String, Value> =
            stamp::annotations(group).into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        let by = pod.annotation(annotations::KUBERAY_VERSION);
        let by = if by.is_empty() { "another operator".to_owned() } else { format!("KubeRay {by}") };
        if group.is_head() {
            marks.insert(annotations::KUBERAY_VERSION.to_owned(), json!(scene.config.version));
        }
        part.steps.push(scene.mark(
            pod,
            Stage::Others,
            "AdoptedPod",
            format!("made by {by}, and kept as it is; changes of the template count from now on"),
            json!({ "annotations": marks }),
        ));
    }
    part
}

/// How far `upgradeStrategy: Recreate` has come.
#[derive(Debug, PartialEq)]
pub(super) enum Recreation {
    /// Nothing is outdated, or the strategy leaves outdated pods alone.
    None,
    /// Outdated pods are still going away: no worker is made that could join the old head.
    Under,
    /// Outdated pods have to go first.
    Due,
}

pub(super) fn recreation(scene: &Scene<'_>) -> Recreation {
    if !scene.recreates() {
        return Recreation::None;
    }
    let hash = recreate_hash::of(&scene.cluster.spec);
    let outdated = |p: &&PodView| is_stamped(p) && p.annotation(annotations::RECREATE_HASH) != hash;
    let mut any = Recreation::None;
    for pod in scene.pods.iter().copied().filter(outdated) {
        match given_up_at(pod) {
            None => return Recreation::Due,
            Some(at) if scene.now < at => any = Recreation::Under,
            Some(_) => {}
        }
    }
    any
}

/// Deletes every pod, all of one mind: a head and workers of different templates may not understand each other.
pub(super) fn recreate(scene: &Scene<'_>) -> Part {
    let mut part = Part::default();
    for pod in scene.pods.iter().filter(|p| p.meta.deleting.is_none()) {
        let why = "the spec changed and upgradeStrategy is Recreate".to_owned();
        part.steps.push(scene.delete_pod(pod, "DeletedPod", why));
    }
    part
}

/// Pods that cannot get anywhere and whose template has been changed since: the change is meant to help them, and
/// nothing that runs is lost with them. Their successors come in the next pass. `steps`: what is about to be done; pods
/// that go anyway are left out.
pub(super) fn replace_stuck(scene: &Scene<'_>, steps: &[Step]) -> Part {
    let mut part = Part::default();
    let goes = |pod: &PodView| steps.iter().any(|s| matches!(&s.action, Action::Delete(t) if t.uid == pod.meta.uid));
    for pod in scene.pods.iter().filter(|p| standing(p, scene.now) == Standing::Live && is_stamped(p)) {
        let Some(group) = scene.group_of(pod).filter(|_| is_stuck(pod) && !goes(pod)) else { continue };
        let changed = stamp::changed_parts(pod.annotation(annotations::TEMPLATE_PARTS), group);
        if changed.is_empty() {
            continue;
        }
        let reason = if group.is_head() { "DeletedHeadPod" } else { "DeletedWorkerPod" };
        let why = format!("it could not start, and its template has changed since ({})", changed.join(", "));
        part.steps.push(scene.delete_pod(pod, reason, why));
    }
    part
}

/// It does not serve, and waits for something that only another template can give: a node, an image, a container that
/// does not end.
fn is_stuck(pod: &PodView) -> bool {
    let unscheduled = pod.phase == "Pending" && pod.unscheduled.is_some();
    !pod.is_ready()
        && (unscheduled || pod.init_containers.iter().chain(&pod.containers).any(|c| c.held_back().is_some()))
}

/// What differs, by group, between live pods and the template of today; `None` when nothing does, or when it is being
/// applied.
pub(super) fn drift(scene: &Scene<'_>) -> Option<String> {
    if scene.recreates() {
        return None;
    }
    let mut by_group: BTreeMap<(bool, &str), (usize, Vec<&'static str>)> = BTreeMap::new();
    // Most pods of a group are made from the same.
    let mut makings: BTreeMap<(&str, &str), Vec<&'static str>> = BTreeMap::new();
    for pod in scene.pods.iter().filter(|p| is_stamped(p) && standing(p, scene.now) == Standing::Live) {
        let Some(group) = scene.group_of(pod) else { continue };
        let made_from = pod.annotation(annotations::TEMPLATE_PARTS);
        let changed =
            makings.entry((group.name(), made_from)).or_insert_with(|| stamp::changed_parts(made_from, group));
        if !changed.is_empty() {
            let entry = by_group.entry((!group.is_head(), group.name())).or_default();
            entry.0 += 1;
            entry.1.extend(changed.iter());
        }
    }
    if by_group.is_empty() {
        return None;
    }
    let groups: Vec<String> = by_group
        .into_iter()
        .map(|((_, name), (pods, mut parts))| {
            parts.sort_unstable();
            parts.dedup();
            let who = match name {
                HEAD_GROUP => "the head".to_owned(),
                _ => format!("group {name} ({pods} {})", if pods == 1 { "pod" } else { "pods" }),
            };
            format!("{who}: {}", parts.join(", "))
        })
        .collect();
    Some(format!(
        "Changed since these pods were made: {}. They keep what they were made from until they are replaced: delete them one by one, or set upgradeStrategy.type to Recreate",
        groups.join("; ")
    ))
}

/// Pods that are long past their deadline hang on a node that does not answer. Others have their places; so that the
/// head Service finds one head only, they lose the label that it selects by.
pub(super) fn report_lost(scene: &Scene<'_>) -> Part {
    let mut part = Part::default();
    for pod in &scene.pods {
        let Some(deadline) = pod.meta.deleting else { continue };
        if !pod.annotation(annotations::LOST).is_empty() {
            continue;
        }
        if is_waited_for(pod, scene.now) {
            part.look_again = super::earliest(part.look_again, given_up_at(pod));
            continue;
        }
        let node = pod.node.as_deref().unwrap_or("unknown");
        let mut change = json!({ "annotations": { annotations::LOST: deadline.to_string() } });
        if pod.label(labels::NODE_TYPE) == "head" {
            change["labels"] = json!({ labels::CLUSTER: null });
        }
        let why = format!(
            "it should have been gone since {} and node {node} does not confirm it; another pod takes its place. Remove the node or delete the pod by force once it is certain that it no longer runs",
            super::ready::at(deadline)
        );
        part.steps.push(scene.mark(pod, Stage::Delete, "LostPod", why, change));
    }
    part
}

impl Scene<'_> {
    /// A change of a pod's labels or annotations.
    fn mark(&self, pod: &PodView, stage: Stage, reason: &'static str, why: String, mut metadata: Value) -> Step {
        metadata["uid"] = json!(pod.meta.uid);
        let manifest = Manifest {
            kind: Kind::Pod,
            namespace: pod.meta.namespace.clone(),
            name: pod.meta.name.clone(),
            value: json!({ "metadata": metadata }),
        };
        Step {
            stage,
            reason,
            scope: pod.label(labels::GROUP).to_owned(),
            why,
            tell: true,
            action: Action::Patch(manifest),
        }
    }
}

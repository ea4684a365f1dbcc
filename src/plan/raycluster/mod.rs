//! What a RayCluster needs next, and what to say about it.

mod accelerators;
mod autoscaling;
mod children;
mod claim;
mod conditions;
mod deletion;
mod entry;
mod finalizer;
mod gang;
mod group;
mod head;
mod later;
mod login;
mod network;
mod numbers;
mod pace;
mod ready;
mod replica;
mod services;
mod stamps;
mod standing;
mod status;
mod suspend;
mod symptoms;

use std::collections::BTreeSet;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use self::stamps::Recreation;
use crate::api::children::Kind;
use crate::api::names::{self, labels};
use crate::api::raycluster::{RayCluster, RayClusterStatus};
use crate::api::validation;
use crate::observe::seen::{Departed, FailureKind, Place, PodView, Seen};
use crate::plan::build::address::{HeadAddress, head_port};
use crate::plan::config::PlanConfig;
use crate::plan::{Action, AskHead, Plan, Stage, Step, Target};

/// What every part of the planner looks at.
struct Scene<'a> {
    cluster: &'a RayCluster,
    seen: &'a Seen,
    now: Timestamp,
    config: &'a PlanConfig,
    /// Pods by name, sorted by creation, then name: the order in which duplicates are judged.
    pods: Vec<&'a PodView>,
}

impl<'a> Scene<'a> {
    fn new(cluster: &'a RayCluster, seen: &'a Seen, now: Timestamp, config: &'a PlanConfig) -> Self {
        let mut pods: Vec<&PodView> = seen.pods.values().map(|p| &**p).collect();
        pods.sort_by(|a, b| (a.meta.created, &a.meta.name).cmp(&(b.meta.created, &b.meta.name)));
        Scene { cluster, seen, now, config, pods }
    }

    fn name(&self) -> &str {
        self.cluster.metadata.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &str {
        self.cluster.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn heads(&self) -> impl Iterator<Item = &'a PodView> + '_ {
        self.pods.iter().copied().filter(|p| p.label(labels::NODE_TYPE) == "head")
    }

    fn workers(&self) -> impl Iterator<Item = &'a PodView> + '_ {
        self.pods.iter().copied().filter(|p| p.label(labels::NODE_TYPE) == "worker")
    }

    /// Names that a new pod cannot have: those of our pods, and those that turned out to be somebody else's.
    fn taken_names(&self) -> BTreeSet<String> {
        let refused = self.seen.failures.iter().filter(|f| f.kind == FailureKind::NameTaken);
        let refused = refused.filter_map(|f| f.what.strip_prefix("pods ").map(str::to_owned));
        self.seen.pods.keys().cloned().chain(refused).collect()
    }

    /// Living head pods that an earlier cluster of this name left; one that hangs on a lost node counts no more.
    fn other_heads(&self) -> Vec<&'a PodView> {
        let alive =
            |p: &&PodView| p.phase != "Failed" && p.phase != "Succeeded" && standing::is_waited_for(p, self.now);
        self.seen.other_heads.iter().map(|p| &**p).filter(alive).collect()
    }

    /// Who stood in a place before, if that was lately.
    fn departed(&self, place: &Place) -> Option<&'a Departed> {
        self.seen.departed.get(place).filter(|d| self.now.duration_since(d.at) < LATELY)
    }

    fn delete_pod(&self, pod: &PodView, reason: &'static str, why: String) -> Step {
        Step {
            stage: Stage::Delete,
            reason,
            scope: pod.label(labels::GROUP).to_owned(),
            why,
            tell: true,
            action: Action::Delete(Target::of(Kind::Pod, &pod.meta)),
        }
    }
}

/// For how long it matters who stood in a place before.
const LATELY: SignedDuration = SignedDuration::from_mins(15);

/// What the parts of the planner hand back: effects, and when to look again.
#[derive(Default)]
struct Part {
    steps: Vec<Step>,
    look_again: Option<Timestamp>,
}

impl Part {
    fn add(&mut self, other: Part) {
        self.steps.extend(other.steps);
        self.look_again = earliest(self.look_again, other.look_again);
    }
}

fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// Decides the next steps for a cluster and its whole new status.
///
/// An object that `spec.managedBy` gives to somebody else gets an empty plan (KubeRay behaviour).
pub fn plan(cluster: &RayCluster, seen: &Seen, now: Timestamp, config: &PlanConfig) -> Plan<RayClusterStatus> {
    let mut plan = Plan::nothing();
    if !is_ours(cluster) {
        return plan;
    }
    let scene = Scene::new(cluster, seen, now, config);
    if cluster.metadata.deletion_timestamp.is_some() {
        return deletion::plan(&scene);
    }
    let mut faults = validation::raycluster(cluster);
    faults.extend(later::refused(cluster));
    faults.extend(gang::refused(&scene));
    let mut part = Part::default();
    let suspension = suspend::stand(&scene, faults.is_empty());
    if faults.is_empty() {
        if suspension.wants_no_pods() {
            part.add(suspend::remove_pods(&scene));
            part.add(gang::remove(&scene));
        } else {
            part.add(autoscaling::plan(&scene));
            part.add(gang::plan(&scene));
            part.add(login::plan(&scene));
            part.add(network::plan(&scene));
            part.add(claim::plan(&scene));
            part.add(services::plan(&scene));
            part.add(entry::plan(&scene));
            part.add(stamps::adopt(&scene));
            part.add(stamps::report_lost(&scene));
            match stamps::recreation(&scene) {
                Recreation::Due => part.add(stamps::recreate(&scene)),
                Recreation::Under => part.add(head::plan(&scene)),
                Recreation::None => {
                    part.add(head::plan(&scene));
                    for group in cluster.spec.groups() {
                        part.add(group::plan(&scene, group));
                    }
                    part.add(group::removed(&scene));
                }
            }
            let stuck = stamps::replace_stuck(&scene, &part.steps);
            part.add(stuck);
        }
    }
    if suspension.wants_no_pods() {
        part.look_again = earliest(part.look_again, suspend::patience(&scene));
    }
    if faults.is_empty() {
        let finalizer = finalizer::plan(&scene, &part.steps);
        part.add(finalizer);
    }
    part.steps.sort_by_key(|s| s.stage);
    let verdict = ready::judge(&scene, &faults, suspension, &part.steps);
    plan.ask = if verdict.ask { Some(ask_head(&scene, verdict.not_before)) } else { None };
    let written = status::compute(&scene, suspension, &verdict, &part.steps, faults.is_empty());
    plan.notes = written.notes;
    plan.status = written.status;
    plan.look_again = earliest(part.look_again, earliest(written.look_again, verdict.look_again));
    plan.steps = part.steps;
    plan
}

fn is_ours(cluster: &RayCluster) -> bool {
    cluster.spec.managed_by.as_deref().is_none_or(|m| m.is_empty() || m == names::MANAGED_BY_US)
}

/// Which pods a head's answer is about: changes when one comes, goes, or restarts its Ray container.
fn fingerprint(scene: &Scene<'_>) -> u64 {
    let mut text = String::new();
    for pod in scene.seen.pods.values().filter(|p| p.meta.deleting.is_none()) {
        let restarts = pod.ray().map_or(0, |c| c.restarts);
        text.push_str(&format!("{}/{restarts};", pod.meta.uid));
    }
    names::fnv1a(text.as_bytes())
}

fn ask_head(scene: &Scene<'_>, not_before: Option<Timestamp>) -> AskHead {
    let address = HeadAddress::of(scene.cluster, scene.config);
    AskHead {
        fingerprint: fingerprint(scene),
        namespace: scene.namespace().to_owned(),
        service: address.service,
        host: address.fqdn,
        port: head_port(scene.cluster, "dashboard-port", names::PORT_DASHBOARD),
        not_before,
    }
}

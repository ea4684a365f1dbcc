//! Condition `Ready`: is the cluster as wanted now, and if not, the first reason that holds, from the outside in.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::net::IpAddr;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::stamps::{self, Recreation};
use super::standing::{Standing, given_up_at, standing};
use super::suspend::Suspension;
use super::{Scene, accelerators, fingerprint, numbers, symptoms};
use crate::api::validation::Fault;
use crate::observe::seen::{Failure, FailureKind, HeadFacts, PodView};
use crate::plan::Step;
use crate::plan::build::{autoscaler, has_dashboard};
use crate::plan::words::some_of;

/// The ServiceAccount that the user names for the head and its autoscaler does not exist (KubeRay's reason).
pub(super) const NO_AUTOSCALER_ACCOUNT: &str = "AutoscalerServiceAccountNotFound";

/// Ray lists a node a moment after its pod is Ready; before this much time has passed nothing is said of it.
const JOIN_GRACE: SignedDuration = SignedDuration::from_secs(15);
const ASK_AGAIN_AT_LEAST: SignedDuration = SignedDuration::from_secs(1);
const ASK_AGAIN_AT_MOST: SignedDuration = SignedDuration::from_secs(30);

/// The condition, and whether Ray's head has to be asked to be sure of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Verdict {
    pub ready: bool,
    pub reason: &'static str,
    pub message: String,
    pub ask: bool,
    pub not_before: Option<Timestamp>,
    pub look_again: Option<Timestamp>,
}

impl Verdict {
    pub(super) fn no(reason: &'static str, message: String) -> Self {
        Verdict { reason, message, ..Verdict::default() }
    }
}

pub(super) fn judge(scene: &Scene<'_>, faults: &[Fault], suspension: Suspension, steps: &[Step]) -> Verdict {
    if !faults.is_empty() {
        let mut all: Vec<String> = faults.iter().take(5).map(|f| format!("{}: {}", f.field, f.message)).collect();
        if faults.len() > 5 {
            all.push(format!("and {} more", faults.len() - 5));
        }
        return Verdict::no(
            "InvalidSpec",
            format!("{}. Existing pods are left as they are until it is mended", all.join("; ")),
        );
    }
    match suspension {
        Suspension::Suspended => {
            return Verdict::no(
                "Suspended",
                "The cluster is suspended; set spec.suspend to false to resume it".to_owned(),
            );
        }
        Suspension::Suspending => {
            let message = format!("The cluster is being suspended; {} of its pods are still there", scene.pods.len());
            return Verdict::no("Suspended", message);
        }
        Suspension::No => {}
    }
    refused(scene, steps)
        .or_else(|| unplaced(scene))
        .or_else(|| symptoms::image_pull(scene))
        .or_else(|| symptoms::crash_loop(scene))
        .map(|(reason, message)| Verdict::no(reason, message))
        .or_else(|| recreating(scene))
        .or_else(|| head_not_ready(scene))
        .unwrap_or_else(|| workers(scene))
}

/// Failures that the steps of this plan ran into and that still stand.
pub(super) fn standing_failures<'a>(scene: &'a Scene<'_>, steps: &'a [Step]) -> impl Iterator<Item = &'a Failure> {
    scene.seen.failures.iter().filter(|f| steps.iter().any(|s| s.reason == f.step && s.scope == f.scope))
}

/// What the API server refuses that this plan needs.
pub(super) fn refused(scene: &Scene<'_>, steps: &[Step]) -> Option<(&'static str, String)> {
    // An Ingress of somebody else's keeps people out, and the cluster runs; an event says so.
    let beside =
        |f: &&Failure| f.kind == FailureKind::NameTaken && matches!(f.step.as_str(), "CreatedIngress" | "CreatedRoute");
    let failure = standing_failures(scene, steps).filter(|f| !beside(f)).min_by_key(|f| (f.kind, f.since))?;
    let (reason, next) = match failure.kind {
        FailureKind::Forbidden => ("Forbidden", "grant the operator this right (chart value rbac.create)"),
        FailureKind::QuotaExceeded => ("QuotaExceeded", "raise the namespace's quota or ask for less"),
        FailureKind::NoServiceAccount => {
            let reason = match failure.step.as_str() {
                "CreatedHeadPod" if autoscaler::is_on(scene.cluster) => NO_AUTOSCALER_ACCOUNT,
                _ => "ServiceAccountNotFound",
            };
            (reason, "create it, or name another one in the pod template's serviceAccountName")
        }
        FailureKind::AdmissionDenied => ("AdmissionDenied", "change the spec so that the policy admits it"),
        FailureKind::Invalid => ("InvalidSpec", "mend the part of the spec that is named"),
        FailureKind::NamespaceTerminating => {
            ("NamespaceTerminating", "nothing can be created in a namespace that is being deleted")
        }
        FailureKind::NameTaken if failure.step == "CreatedServiceAccount" => {
            ("NameTaken", "remove it, or name it in the head template's serviceAccountName to use it as it is")
        }
        FailureKind::NameTaken => ("NameTaken", "remove or rename the object that holds the name"),
        FailureKind::Unavailable => ("APIServerUnavailable", "it is tried again by itself"),
    };
    let message =
        format!("Failed to {} {} since {}: {}; {next}", failure.verb, failure.what, at(failure.since), failure.message);
    Some((reason, message))
}

/// No node for a pod: what the scheduler says of it, and what is known of accelerators beside that.
fn unplaced(scene: &Scene<'_>) -> Option<(&'static str, String)> {
    match (symptoms::unschedulable(scene), accelerators::waiting(scene)) {
        (Some((reason, said)), Some((_, lack))) => Some((reason, format!("{said}. In short: {lack}"))),
        (said, None) => said,
        (None, Some((pod, lack))) => {
            let name = &pod.meta.name;
            let text = format!("No node fits pod {name}: {lack}; ask for what there is, or add nodes that fit");
            Some(("NoMatchingAccelerator", text))
        }
    }
}

fn recreating(scene: &Scene<'_>) -> Option<Verdict> {
    let message = match stamps::recreation(scene) {
        Recreation::None => return None,
        Recreation::Due => "The spec changed and upgradeStrategy is Recreate: all pods are being replaced",
        Recreation::Under => {
            "All pods are being replaced (upgradeStrategy Recreate); the old ones are still going away"
        }
    };
    Some(Verdict::no("UpgradeInProgress", message.to_owned()))
}

fn head_not_ready(scene: &Scene<'_>) -> Option<Verdict> {
    let head = live(scene.heads(), scene).next();
    let message = match head {
        None if !scene.other_heads().is_empty() => {
            let other = scene.other_heads()[0];
            format!(
                "Head pod {} of an earlier RayCluster {} is still there, and two heads would split the cluster: it is waited for. Delete it if nobody needs it",
                other.meta.name,
                scene.name()
            )
        }
        None => match scene.heads().find_map(|p| Some((p, given_up_at(p)?)).filter(|(_, until)| scene.now < *until)) {
            Some((old, until)) => {
                format!("The old head pod {} is still going away, until {} at the latest", old.meta.name, at(until))
            }
            None => "There is no head pod".to_owned(),
        },
        Some(head) if head.is_ready() => return None,
        Some(head) => format!("Head pod {} is not Ready: {}", head.meta.name, symptoms::state_of(head)),
    };
    Some(Verdict::no("HeadNotReady", message))
}

fn live<'a>(pods: impl Iterator<Item = &'a PodView>, scene: &Scene<'_>) -> impl Iterator<Item = &'a PodView> {
    let now = scene.now;
    pods.filter(move |p| standing(p, now) == Standing::Live)
}

fn workers(scene: &Scene<'_>) -> Verdict {
    let count = numbers::workers(scene);
    let leaving = leaving_surplus(scene);
    let autoscaled = scene.cluster.spec.enable_in_tree_autoscaling == Some(true);
    if count.ready_of_wanted < count.wanted {
        let waiting = live(scene.workers(), scene)
            .find(|p| !p.is_ready())
            .map(|p| format!("; {} is not Ready: {}", p.meta.name, symptoms::state_of(p)))
            .unwrap_or_default();
        let message = format!("{} of {} workers ready{waiting}{}", count.ready_of_wanted, count.wanted, held(scene));
        return Verdict::no("ScalingUp", message);
    }
    if !leaving.is_empty() || (count.surplus > 0 && !autoscaled) {
        let message = format!(
            "{} workers wanted; {} more are still going away",
            count.wanted,
            leaving.len() + count.surplus as usize
        );
        let look_again = leaving.into_iter().min();
        return Verdict { look_again, ..Verdict::no("ScalingDown", message) };
    }
    let good = Verdict {
        ready: true,
        reason: "AllPodsReady",
        message: format!("The head and {} of {} workers are ready{}", count.ready_of_wanted, count.wanted, held(scene)),
        ..Verdict::default()
    };
    if !has_dashboard(scene.cluster) {
        return good;
    }
    match joined(scene) {
        Joined::Yes => good,
        Joined::Unknown => {
            let message = "All pods are ready; asking Ray whether they joined".to_owned();
            let verdict = if scene.was_ready() { good } else { Verdict::no("ScalingUp", message) };
            Verdict { ask: true, not_before: None, ..verdict }
        }
        Joined::No { missing, since } => {
            let verdict = if scene.now.duration_since(since) < JOIN_GRACE {
                if scene.was_ready() {
                    good
                } else {
                    Verdict::no("ScalingUp", "All pods are ready; Ray does not list all of them yet".to_owned())
                }
            } else {
                Verdict::no(
                    "WorkersNotJoined",
                    format!(
                        "Pods are Ready but Ray's head does not list them as alive nodes: {missing}; look at the raylet's log in the pod (/tmp/ray/session_latest/logs/raylet.out)"
                    ),
                )
            };
            Verdict { ask: true, not_before: ask_again(scene), ..verdict }
        }
        Joined::Unreachable { since, message } => {
            // A head that was well and is busy for a moment is not down.
            let verdict = if scene.was_ready() && scene.now.duration_since(since) < JOIN_GRACE {
                good
            } else {
                Verdict::no("HeadUnreachable", message)
            };
            Verdict { ask: true, not_before: ask_again(scene), ..verdict }
        }
    }
}

/// Which groups want another number than `replicas` says, because of their bounds.
fn held(scene: &Scene<'_>) -> String {
    let mut text = String::new();
    for group in scene.cluster.spec.groups().iter().filter(|g| g.suspend != Some(true)) {
        let (Some(said), wanted) = (group.replicas, group.wanted_replicas()) else { continue };
        let bound = match said.cmp(&wanted) {
            Ordering::Less => "minReplicas",
            Ordering::Equal => continue,
            Ordering::Greater => "maxReplicas",
        };
        text.push_str(&format!("; group {}: replicas {said} is held at {bound} {wanted}", group.group_name));
    }
    text
}

/// Until when the cluster waits for each worker pod that is being deleted and that nobody replaced: a while past its
/// deadline. A pod that stays longer hangs on a lost node.
fn leaving_surplus(scene: &Scene<'_>) -> Vec<Timestamp> {
    let kept: BTreeSet<_> = live(scene.workers(), scene).map(PodView::place).collect();
    scene
        .workers()
        .filter(|p| !kept.contains(&p.place()))
        .filter_map(given_up_at)
        .filter(|until| *until > scene.now)
        .collect()
}

enum Joined {
    Yes,
    Unknown,
    No { missing: String, since: Timestamp },
    Unreachable { since: Timestamp, message: String },
}

/// What the head said of exactly these pods.
fn joined(scene: &Scene<'_>) -> Joined {
    let Some(HeadFacts { fingerprint: about, answer, .. }) = &scene.seen.head else {
        return Joined::Unknown;
    };
    if *about != fingerprint(scene) {
        return Joined::Unknown;
    }
    let nodes = match answer {
        Ok(nodes) => nodes,
        // It lives, and tells only those who have its token.
        Err(trouble) if trouble.layer == "login" => return Joined::Yes,
        Err(trouble) => {
            return Joined::Unreachable {
                since: trouble.since,
                message: format!(
                    "The head does not answer on its dashboard port since {} ({}): {}; check network policies and the head's log",
                    at(trouble.since),
                    trouble.layer,
                    trouble.message
                ),
            };
        }
    };
    let alive: BTreeSet<IpAddr> = nodes.iter().filter(|n| n.alive).filter_map(|n| n.ip.parse().ok()).collect();
    let pods: Vec<&PodView> = live(scene.pods.iter().copied(), scene).collect();
    // With an address of the user's own choosing, nodes and pods can only be counted.
    if own_addresses(scene) && nodes.iter().filter(|n| n.alive).count() >= pods.len() {
        return Joined::Yes;
    }
    let absent: Vec<&PodView> = pods
        .into_iter()
        .filter(|p| !p.ip.as_deref().and_then(|ip| ip.parse().ok()).is_some_and(|ip: IpAddr| alive.contains(&ip)))
        .collect();
    if absent.is_empty() {
        return Joined::Yes;
    }
    let since = absent.iter().filter_map(|p| p.ready.as_ref().and_then(|c| c.since)).max().unwrap_or(scene.now);
    let names: Vec<&str> = absent.iter().map(|p| p.meta.name.as_str()).collect();
    Joined::No { missing: some_of(&names, 5), since }
}

fn own_addresses(scene: &Scene<'_>) -> bool {
    let spec = &scene.cluster.spec;
    let head = spec.head_group_spec.ray_start_params.iter();
    let workers = spec.groups().iter().flat_map(|g| g.ray_start_params.iter());
    head.chain(workers).any(|params| params.contains_key("node-ip-address"))
}

/// The longer it has been so, the less often it is asked.
fn ask_again(scene: &Scene<'_>) -> Option<Timestamp> {
    let facts = scene.seen.head.as_ref()?;
    let since = match &facts.answer {
        Err(trouble) => trouble.since,
        Ok(_) => scene.pods.iter().filter_map(|p| p.ready.as_ref().and_then(|c| c.since)).max().unwrap_or(facts.at),
    };
    let waited = facts.at.duration_since(since) / 2;
    Some(facts.at + waited.clamp(ASK_AGAIN_AT_LEAST, ASK_AGAIN_AT_MOST))
}

/// A time as people read it, to the second.
pub(super) fn at(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

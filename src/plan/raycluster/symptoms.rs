//! What pods and their containers say about why they do not serve.

use k8s_openapi::jiff::SignedDuration;

use super::Scene;
use super::pace;
use super::ready::at;
use super::standing::{Standing, standing};
use crate::observe::seen::{ContainerState, ContainerView, PodView, Terminated};

/// A container that ended this long ago and has not become Ready since still counts as crash-looping.
const RECENT_END: SignedDuration = SignedDuration::from_mins(10);

type Symptom = Option<(&'static str, String)>;

fn in_order<'a>(scene: &'a Scene<'_>) -> impl Iterator<Item = &'a PodView> {
    scene.heads().chain(scene.workers()).filter(|p| p.meta.deleting.is_none())
}

pub(super) fn unschedulable(scene: &Scene<'_>) -> Symptom {
    let pending: Vec<&PodView> = in_order(scene)
        .filter(|p| p.phase == "Pending" && p.unscheduled.as_ref().is_some_and(|c| c.reason == "Unschedulable"))
        .collect();
    let first = pending.first()?;
    let said = first.unscheduled.as_ref()?;
    let others = match pending.len() {
        1 => String::new(),
        n => format!(" (and {} more pods)", n - 1),
    };
    let since = said.since.map(|t| format!(" since {}", at(t))).unwrap_or_default();
    let message = format!(
        "No node fits pod {}{others}{since}: {}; ask for less, or add nodes that fit",
        first.meta.name, said.message
    );
    Some(("Unschedulable", message))
}

pub(super) fn image_pull(scene: &Scene<'_>) -> Symptom {
    for pod in in_order(scene) {
        for container in pod.init_containers.iter().chain(&pod.containers) {
            let ContainerState::Waiting { reason, message } = &container.state else { continue };
            if matches!(reason.as_str(), "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull")
            {
                let text = format!(
                    "Pod {} cannot pull the image of container {}: {}; check the image's name and the pull secrets",
                    pod.meta.name,
                    container.name,
                    first_line(message)
                );
                return Some(("ImagePull", text));
            }
        }
    }
    None
}

pub(super) fn crash_loop(scene: &Scene<'_>) -> Symptom {
    for pod in in_order(scene) {
        if let Standing::Dead { why, at: died } = standing(pod, scene.now) {
            let quick = pace::quick_failures(pod, died);
            if quick < 2 {
                continue;
            }
            let text = format!(
                "Pod {} died soon after its start, {quick} in a row in its place ({why}{}); the next one comes at {}",
                pod.meta.name,
                pod.ray().map(last_words).unwrap_or_default(),
                at(pace::replaced_at(scene, pod, died)),
            );
            return Some(("CrashLoop", text));
        }
        for container in pod.init_containers.iter().chain(&pod.containers) {
            if container.ready {
                continue;
            }
            let Some(end) = crashed(container, scene) else { continue };
            let text = format!(
                "Container {} of pod {} keeps ending: {} restarts, last {}{}; see kubectl logs {} -c {} --previous",
                container.name,
                pod.meta.name,
                container.restarts,
                how(end),
                last_words(container),
                pod.meta.name,
                container.name
            );
            return Some(("CrashLoop", text));
        }
    }
    None
}

/// How the container last ended, if it ended lately and is being restarted.
fn crashed<'a>(container: &'a ContainerView, scene: &Scene<'_>) -> Option<&'a Terminated> {
    let end = match &container.state {
        ContainerState::Terminated(end) if end.exit_code != 0 => Some(end),
        _ => container.last_end.as_ref(),
    }?;
    let backing_off =
        matches!(&container.state, ContainerState::Waiting { reason, .. } if reason == "CrashLoopBackOff");
    let recent = end.finished.is_none_or(|t| scene.now.duration_since(t) < RECENT_END);
    // One restart is no loop: workers have one when their head was replaced.
    (backing_off || (container.restarts > 1 && recent)).then_some(end)
}

fn how(end: &Terminated) -> String {
    match end.reason.as_str() {
        "" | "Error" | "Completed" => format!("with exit code {}", end.exit_code),
        reason => format!("{reason} with exit code {}", end.exit_code),
    }
}

/// The last line that the container left, if it left one.
fn last_words(container: &ContainerView) -> String {
    let end = match &container.state {
        ContainerState::Terminated(end) => Some(end),
        _ => container.last_end.as_ref(),
    };
    let lines = end.map(|e| without_colours(&e.message)).unwrap_or_default();
    let line = lines.lines().rev().find(|l| !l.trim().is_empty());
    line.map(|l| format!(", last line: {}", clip(l.trim(), 200))).unwrap_or_default()
}

/// Without the escape sequences that colour a terminal.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |plain, part| {
        plain + part.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest)
    })
}

/// One line on where a pod that is not Ready stands.
pub(super) fn state_of(pod: &PodView) -> String {
    let waiting = pod.init_containers.iter().chain(&pod.containers).find_map(|c| {
        let (reason, message) = c.held_back()?;
        Some(format!("container {} waits: {reason} {}", c.name, first_line(message)))
    });
    if let Some(text) = waiting {
        return text.trim_end().to_owned();
    }
    if let Some(text) = ended_for_good(pod) {
        return text;
    }
    let init = pod.init_containers.iter().find(|c| matches!(c.state, ContainerState::Running { .. }));
    match (pod.phase.as_str(), init) {
        ("Pending", Some(c)) => format!("init container {} is running", c.name),
        ("Pending", None) if pod.node.is_none() => "it is not scheduled yet".to_owned(),
        ("Pending", None) => "its containers are starting".to_owned(),
        ("Running", _) => "its containers run but its readiness probe has not passed".to_owned(),
        ("", _) => "it was just created".to_owned(),
        (phase, _) => format!("its phase is {phase}"),
    }
}

/// A container beside Ray has ended in a pod whose containers do not restart: Ray runs on, the pod never becomes Ready.
fn ended_for_good(pod: &PodView) -> Option<String> {
    let (container, end) = pod.containers.iter().find_map(|c| match &c.state {
        ContainerState::Terminated(end) if pod.restart_policy == "Never" => Some((c, end)),
        _ => None,
    })?;
    Some(format!(
        "container {} ended {}{}, and restartPolicy Never keeps it from starting again; delete the pod to have a new one",
        container.name,
        how(end),
        last_words(container)
    ))
}

fn first_line(text: &str) -> &str {
    clip(text.lines().next().unwrap_or_default().trim(), 300)
}

pub(super) fn clip(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

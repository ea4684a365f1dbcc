//! Events (events.k8s.io/v1): what was done and why, what was refused, what is waited for.
//!
//! Written here and not by kube's Recorder, which keeps the first text of a repeated reason and drops the others.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::api::children::Kind;
use crate::api::names;
use crate::observe::seen::{Failure, FailureKind};
use crate::plan::words::some_of;
use crate::plan::{Action, Note, Step};

/// The API server's bound for a note, in bytes.
const LONGEST_NOTE: usize = 1024;
const DEADLINE: Duration = Duration::from_secs(10);

/// Who speaks: `raycluster-controller`, and this process.
#[derive(Clone)]
pub struct Herald {
    pub client: Client,
    pub controller: &'static str,
    /// Host name of this process.
    pub instance: String,
}

impl Herald {
    /// Records a note about an object. A note that cannot be written is logged and let go: what it says is in the
    /// status too.
    pub async fn tell(&self, regarding: &ObjectReference, note: &Note, now: Timestamp) {
        let namespace = regarding.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let identity = format!("{:?}/{}/{}/{}", regarding.uid, note.reason, note.text, now.as_nanosecond());
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!(
                    "{}.{:016x}",
                    regarding.name.as_deref().unwrap_or_default(),
                    names::fnv1a(identity.as_bytes())
                )),
                namespace: Some(namespace.clone()),
                ..ObjectMeta::default()
            },
            action: Some(note.action.to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(clip(&note.text, LONGEST_NOTE)),
            reason: Some(note.reason.clone().into_owned()),
            regarding: Some(regarding.clone()),
            reporting_controller: Some(self.controller.to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
            ..Event::default()
        };
        let api = Api::<Event>::namespaced(self.client.clone(), &namespace);
        let outcome = tokio::time::timeout(DEADLINE, api.create(&PostParams::default(), &event)).await;
        match outcome {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, reason = &*note.reason, "event not recorded"),
            Err(_) => tracing::warn!(reason = &*note.reason, "event not recorded: no answer in time"),
        }
    }
}

/// One note per reason for all steps of a pass.
pub fn of_steps(steps: &[Step]) -> Vec<Note> {
    let mut by_reason: BTreeMap<&'static str, Vec<&Step>> = BTreeMap::new();
    for step in steps.iter().filter(|s| s.tell) {
        by_reason.entry(step.reason).or_default().push(step);
    }
    by_reason.into_iter().map(|(reason, steps)| note(reason, &steps)).collect()
}

fn note(reason: &'static str, steps: &[&Step]) -> Note {
    let (done, action) = match &steps[0].action {
        Action::Create(_) => ("Created", "Create"),
        Action::Patch(manifest) if manifest.kind == Kind::RayCluster => ("Updated", "Cleanup"),
        Action::Patch(_) => ("Updated", "Update"),
        Action::Delete(_) => ("Deleted", "Delete"),
    };
    let kind = steps[0].action.kind();
    let mut by_why: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for step in steps {
        by_why.entry(&step.why).or_default().push(step.action.name());
    }
    let parts: Vec<String> = by_why
        .into_iter()
        .map(|(why, targets)| {
            let plural = if targets.len() == 1 { "" } else { "s" };
            let shown = some_of(&targets, 8);
            match kind {
                // It is what the event is about.
                Kind::RayCluster => why.to_owned(),
                kind => format!("{done} {}{plural} {shown}: {why}", kind.noun()),
            }
        })
        .collect();
    let warning = steps.iter().any(|s| s.is_warning());
    Note { warning, reason: reason.into(), action, text: parts.join("; ") }
}

/// The note on a refused effect: `error syncing '<ns>/<name>': failed to <verb> <what>: <the API server's words>`.
pub fn of_failure(namespace: &str, name: &str, failure: &Failure) -> Note {
    let step = failure.step.as_str();
    let forms = [("Created", "Create"), ("Updated", "Update"), ("Deleted", "Delete")];
    let (what, action) = match step {
        "DeletedPod" => ("PodCollection", "Delete"),
        _ => forms.iter().find_map(|(done, verb)| Some((step.strip_prefix(done)?, *verb))).unwrap_or((step, "Update")),
    };
    let (reason, action) = match (failure.kind, step) {
        _ if failure.what.starts_with(Kind::RayCluster.plural()) => ("FailedToUpdateFinalizer".into(), "Update"),
        (FailureKind::NameTaken, "CreatedNetworkPolicy") => ("NetworkPolicyNameCollision".into(), "Validate"),
        _ => (format!("FailedTo{action}{what}").into(), action),
    };
    Note { warning: true, reason, action, text: sentence(namespace, name, failure) }
}

/// The same words for the event and the log.
pub fn sentence(namespace: &str, name: &str, failure: &Failure) -> String {
    format!("error syncing '{namespace}/{name}': failed to {} {}: {}", failure.verb, failure.what, failure.message)
}

fn clip(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let mut end = max - '…'.len_utf8();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

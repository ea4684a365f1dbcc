//! What should be: pure functions. No client, no clock, no randomness, no tokio.

pub mod action;
pub mod build;
pub mod config;
pub mod placing;
pub mod quantity;
pub mod raycluster;
pub mod resources;
pub mod words;

use std::borrow::Cow;

use k8s_openapi::jiff::Timestamp;

pub use action::{Action, Manifest, Object, Target};

/// What to do about one object, what to say about it, and when to look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<S> {
    /// In order of their stages. A step is not carried out while an earlier one of its scope fails, or while one of
    /// stage `Guard` or `Services` does.
    pub steps: Vec<Step>,
    /// The whole new status; `None` leaves what is there.
    pub status: Option<S>,
    /// Said once the steps are done, whether or not there are any.
    pub notes: Vec<Note>,
    /// When to run again although nothing happened. `None`: only when something changes.
    pub look_again: Option<Timestamp>,
    /// A question for Ray's head, to be asked outside the pass.
    pub ask: Option<AskHead>,
}

impl<S> Plan<S> {
    /// Nothing to do and nothing to say.
    pub fn nothing() -> Self {
        Plan { steps: Vec::new(), status: None, notes: Vec::new(), look_again: None, ask: None }
    }
}

/// One effect with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Steps of one stage may run side by side.
    pub stage: Stage,
    /// CamelCase, as in events: `CreatedHeadPod`, `DeletedWorkerPod`, ...
    pub reason: &'static str,
    /// What it is about, within the reason: a group's name, a Service's name. A failure holds back the steps of its reason
    /// and scope, and later stages of its scope.
    pub scope: String,
    /// Why, in a sentence that a user understands. Goes to the event, the log and `plan -f`.
    pub why: String,
    /// Whether it gets an event; false when another step of the plan tells of both.
    pub tell: bool,
    pub action: Action,
}

/// Reasons of steps that leave something for a person to look into. Other steps tell what was done.
const WARNINGS: [&str; 2] = ["ForceDeletedStuckCluster", "RedisCleanupFailed"];

impl Step {
    pub fn is_warning(&self) -> bool {
        WARNINGS.contains(&self.reason)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Delete,
    /// What must be there before pods: who may reach them, the rights and secrets that they start with.
    Guard,
    /// The head Service: nothing else is made without it.
    Services,
    Head,
    Workers,
    /// What no pod waits for.
    Others,
}

/// An event for the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    pub warning: bool,
    pub reason: Cow<'static, str>,
    /// events.k8s.io `action`: Create, Delete, Validate, ...
    pub action: &'static str,
    pub text: String,
}

/// Ask the head which nodes it knows.
#[derive(Clone, Debug, PartialEq)]
pub struct AskHead {
    /// Which pods the answer will be about.
    pub fingerprint: u64,
    pub namespace: String,
    pub service: String,
    /// Fully qualified name of the head Service.
    pub host: String,
    pub port: i32,
    /// Not before this time (back-off after a failure).
    pub not_before: Option<Timestamp>,
}

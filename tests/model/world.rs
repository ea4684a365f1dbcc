//! The model as a whole, and one pass of the operator in it: see, plan, act, see again, say. Its answers get lost, and its
//! process dies between any two writes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use ray_operator::act::status::difference;
use ray_operator::api::children::Kind;
use ray_operator::api::{RayCluster, RayClusterStatus, validation};
use ray_operator::observe::seen::{Failure, FailureKind, Seen};
use ray_operator::plan::config::PlanConfig;
use ray_operator::plan::{Action, Manifest, Object, Plan, Stage, Step};
use serde_json::{Value, json};

use super::checks;
use super::operator::{Head, Operator};
use super::server::{Server, Stored, merge};

/// The index remembers what went for two minutes.
const LONGEST_LAG: SignedDuration = SignedDuration::from_secs(110);

/// How the next write of the operator ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Answered,
    /// It takes effect, but the answer never comes.
    AnswerLost,
    /// It does not take effect, and nothing is heard.
    Lost,
    /// It takes effect later, and nothing is heard.
    Late,
    /// It takes effect, then the process dies.
    DiesAfter,
    /// The process dies before it.
    DiesBefore,
    /// The process dies, and it takes effect later.
    DiesLate,
    /// Somebody else has just made a pod of the name that is to be created.
    Squatted,
}

/// How the planner is run: the real one, or one with a planted defect.
pub type Planner = fn(&RayCluster, &Seen, Timestamp, &PlanConfig) -> Plan<RayClusterStatus>;

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub property: &'static str,
    pub detail: String,
}

pub struct World {
    pub server: Server,
    pub operator: Operator,
    pub planner: Planner,
    /// Whether answers to writes reach the index (a planted defect when false).
    pub hears_answers: bool,
    pub config: PlanConfig,
    pub fates: VecDeque<Fate>,
    /// Writes under way in the API server, for which nobody waits any more.
    pub in_flight: VecDeque<(Action, Arc<RayCluster>)>,
    /// Uids of pods that came to be in that way: what they are too many is known and documented.
    pub landed_late: BTreeSet<String>,
    /// The status came from a write that landed late, so it may be older than the one before.
    pub status_landed_late: bool,
    pub head: Head,
    pub status_writes: usize,
    pub passes: usize,
    /// Whether the spec that the pass is about is valid.
    pub valid: bool,
    /// What happened, when somebody wants to read it.
    pub history: Option<Vec<String>>,
    pub broken: Option<Broken>,
    /// Children that are no pods, as they were last wished for.
    pub wishes: BTreeMap<(Kind, String), Value>,
    /// When the operator last had heard all news.
    heard_at: Timestamp,
    /// Statuses under way, as `in_flight`.
    pub statuses_in_flight: VecDeque<(String, Value)>,
}

impl World {
    pub fn new(cluster: RayCluster, planner: Planner) -> Self {
        let mut server = Server::new();
        server.apply(cluster);
        World {
            heard_at: server.now,
            server,
            operator: Operator::new(),
            planner,
            hears_answers: true,
            config: PlanConfig::default(),
            fates: VecDeque::new(),
            in_flight: VecDeque::new(),
            landed_late: BTreeSet::new(),
            status_landed_late: false,
            head: Head::Well,
            status_writes: 0,
            passes: 0,
            valid: true,
            history: None,
            broken: None,
            wishes: BTreeMap::new(),
            statuses_in_flight: VecDeque::new(),
        }
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(history) = &mut self.history {
            history.push(format!("{} {}", self.server.now, text()));
        }
    }

    /// A property does not hold; only the first such finding counts.
    pub fn broke(&mut self, property: &'static str, detail: impl Into<String>) {
        if self.broken.is_none() {
            self.broken = Some(Broken { property, detail: detail.into() });
        }
    }

    pub fn require(&mut self, holds: bool, property: &'static str, detail: impl FnOnce() -> String) {
        if !holds {
            self.broke(property, detail());
        }
    }

    pub fn restart(&mut self) {
        self.note(|| "the operator restarts".to_owned());
        self.operator.restart(&mut self.server);
    }

    /// No watch is behind, and no write under way, by more than a minute or two.
    pub fn pass_time(&mut self, seconds: i64) {
        let later = self.server.now + SignedDuration::from_secs(seconds);
        if later.duration_since(self.heard_at) > LONGEST_LAG {
            self.land(self.in_flight.len() + self.statuses_in_flight.len());
            self.operator.receive(&mut self.server, usize::MAX);
            self.heard_at = later;
        }
        self.server.now = later;
    }

    /// Writes for which nobody waits any more take effect.
    pub fn land(&mut self, most: usize) {
        for _ in 0..most {
            if let Some((action, owner)) = self.in_flight.pop_front() {
                let before: BTreeSet<String> = self.server.pods.values().map(|p| p.meta.uid.clone()).collect();
                let outcome = self.server.write(&action, &owner);
                self.note(|| format!("late: {} {} ({})", action.verb(), action.name(), outcome.is_ok()));
                let made = self.server.pods.values().map(|p| p.meta.uid.clone()).filter(|uid| !before.contains(uid));
                self.landed_late.extend(made);
            }
            if let Some((uid, difference)) = self.statuses_in_flight.pop_front() {
                self.status_landed_late = true;
                _ = self.server.patch_status(&uid, &difference);
            }
        }
    }

    fn plan(&mut self, known: &Arc<RayCluster>) -> (Plan<RayClusterStatus>, Seen) {
        let seen = self.operator.index.seen(&Operator::owner(known));
        let plan = (self.planner)(known, &seen, self.server.now, &self.config);
        (plan, seen)
    }

    /// One pass. Says whether it did or wrote anything.
    pub fn pass(&mut self) -> bool {
        self.operator.awake = false;
        self.operator.alarm = None;
        let Some(mut known) = self.operator.known.clone() else { return false };
        self.passes += 1;
        self.valid = validation::raycluster(&known).is_empty();
        let uid = known.metadata.uid.clone().unwrap_or_default();
        let (mut plan, mut seen) = self.plan(&known);
        checks::decisions::check(self, &known, &seen, &plan);
        let busy = !plan.steps.is_empty();
        let mut more = false;
        if busy {
            let Some((stopped, rest)) = self.carry_out(&known, std::mem::take(&mut plan.steps)) else {
                self.restart();
                return true;
            };
            more = rest;
            self.operator
                .index
                .keep_failures(&uid, |f| stopped.iter().any(|s| s.reason == f.step && s.scope == f.scope));
            match self.operator.known.clone().filter(|k| k.metadata.uid == known.metadata.uid) {
                Some(current) => known = current,
                None => return true,
            }
            (plan, seen) = self.plan(&known);
        } else {
            self.operator.index.keep_failures(&uid, |_| false);
        }
        let failures = self.operator.index.failures(&uid);
        checks::words::check(self, &known, &seen, &plan, &failures);
        let wrote = plan.status.is_some();
        let mut alarm = plan.look_again;
        if let Some(status) = &plan.status
            && let Some(difference) = difference(&json!(known.status.clone().unwrap_or_default()), &json!(status))
        {
            self.status_writes += 1;
            match self.write_status(&uid, &difference) {
                Ok(true) => {}
                Ok(false) => alarm = earliest(alarm, Some(self.server.now + SignedDuration::from_secs(1))),
                Err(()) => {
                    self.restart();
                    return true;
                }
            }
        }
        self.operator.question = plan.ask;
        self.operator.awake |= more || any_ready(&plan.steps, &failures, self.server.now);
        if !plan.steps.is_empty() {
            alarm = earliest(alarm, failures.iter().map(|f| f.retry_at).filter(|at| *at > self.server.now).min());
        }
        self.operator.alarm = alarm;
        busy || wrote
    }

    /// Whether it was answered; an error when the process died.
    fn write_status(&mut self, uid: &str, difference: &Value) -> Result<bool, ()> {
        let fate = self.fates.pop_front().unwrap_or(Fate::Answered);
        self.note(|| format!("status ({fate:?}) {}", words(difference)));
        match fate {
            Fate::Answered | Fate::AnswerLost | Fate::DiesAfter | Fate::Squatted => {
                let before = self.server.cluster.as_ref().and_then(|c| c.status.clone());
                let now = self.server.patch_status(uid, difference).ok().flatten();
                if let Some(now) = &now {
                    checks::words::suspension_runs_to_its_end(self, before.as_ref(), now);
                    self.status_landed_late = false;
                }
                match (fate, now) {
                    (Fate::DiesAfter, _) => Err(()),
                    (Fate::AnswerLost, _) => Ok(false),
                    (_, Some(now)) => {
                        self.operator.learn(now);
                        Ok(true)
                    }
                    (_, None) => Ok(true),
                }
            }
            Fate::Late | Fate::DiesLate => {
                self.statuses_in_flight.push_back((uid.to_owned(), difference.clone()));
                if fate == Fate::Late { Ok(false) } else { Err(()) }
            }
            Fate::Lost => Ok(false),
            Fate::DiesBefore => Err(()),
        }
    }

    /// What was not carried out, and whether more should be tried at once; `None` when the process died.
    fn carry_out(&mut self, known: &Arc<RayCluster>, steps: Vec<Step>) -> Option<(Vec<Stopped>, bool)> {
        let uid = known.metadata.uid.clone().unwrap_or_default();
        let (mut ready, mut stopped) = sort_out(steps, &self.operator.index.failures(&uid), self.server.now);
        ready.reverse();
        let mut more = false;
        while let Some(step) = ready.pop() {
            let held = |s: &Stopped| s.stage == step.stage && s.scope == step.scope && s.failed;
            if is_blocked(&step, &stopped) || stopped.iter().any(held) {
                stopped.push(Stopped::of(&step));
                continue;
            }
            let fate = self.fates.pop_front().unwrap_or(Fate::Answered);
            let attempt = step.action.place();
            if let (Some((place, incarnation)), true) = (attempt.clone(), fate != Fate::DiesBefore) {
                self.operator.index.attempt(&uid, place, incarnation);
            }
            let outcome = self.effect(known, &step, fate)?;
            if outcome == Ok(Effect::Outdated) {
                stopped.push(Stopped { failed: true, ..Stopped::of(&step) });
                more = true;
                continue;
            }
            if let Some((place, _)) = attempt.filter(|_| outcome != Err(FailureKind::Unavailable)) {
                self.operator.index.settled(&uid, &place);
            }
            if let Err(kind) = outcome {
                let failure = Failure {
                    kind,
                    verb: step.action.verb().to_owned(),
                    what: format!("{} {}", step.action.kind().plural(), step.action.name()),
                    step: step.reason.to_owned(),
                    scope: step.scope.clone(),
                    message: "no".to_owned(),
                    since: self.server.now,
                    times: 1,
                    retry_at: self.server.now,
                };
                self.operator.index.failed(&uid, failure, self.server.now, retry_delay);
                stopped.push(Stopped { failed: true, ..Stopped::of(&step) });
                if kind == FailureKind::Unavailable {
                    return Some((stopped, true));
                }
            }
        }
        Some((stopped, more))
    }

    fn effect(&mut self, known: &Arc<RayCluster>, step: &Step, fate: Fate) -> Option<Result<Effect, FailureKind>> {
        let action = &step.action;
        self.note(|| format!("{} {} ({}) {fate:?}", action.verb(), action.name(), step.why));
        match fate {
            Fate::DiesBefore => return None,
            Fate::Lost => return Some(Err(FailureKind::Unavailable)),
            Fate::Late | Fate::DiesLate => {
                self.in_flight.push_back((action.clone(), Arc::clone(known)));
                return (fate == Fate::Late).then_some(Err(FailureKind::Unavailable));
            }
            Fate::Squatted => self.squat(action),
            _ => {}
        }
        if let Some(newer) = self.is_outdated(action) {
            newer.into_iter().for_each(|c| self.operator.learn(c));
            return Some(Ok(Effect::Outdated));
        }
        let new = matches!(action, Action::Create(Object::Pod(_))) && !self.server.pods.contains_key(action.name());
        let outcome = self.server.write(action, known);
        self.remember(action, outcome.is_ok());
        if new && outcome.is_ok() {
            checks::decisions::check_made(self, known, action.name());
        }
        match (outcome, fate) {
            (_, Fate::DiesAfter) => None,
            (_, Fate::AnswerLost) => Some(Err(FailureKind::Unavailable)),
            (Err(kind), _) => {
                self.note(|| format!("  refused: {kind:?}"));
                Some(Err(kind))
            }
            (Ok(answer), _) => {
                self.answered(action, answer);
                Some(Ok(Effect::Done))
            }
        }
    }

    /// The RayCluster as it is now (or nothing), when a patch of it was planned for an earlier version.
    fn is_outdated(&self, action: &Action) -> Option<Option<RayCluster>> {
        let Action::Patch(Manifest { kind: Kind::RayCluster, value, .. }) = action else { return None };
        let there = self.server.cluster.clone().filter(|c| value["metadata"]["uid"] == json!(c.metadata.uid));
        let Some(there) = there else { return Some(None) };
        let same = value["metadata"]["resourceVersion"] == json!(there.metadata.resource_version);
        (!same).then_some(Some(there))
    }

    fn answered(&mut self, action: &Action, answer: Option<Stored>) {
        if !self.hears_answers {
            return;
        }
        match (action, answer) {
            (Action::Delete(target), left) => {
                self.operator.deleted.insert(target.uid.clone());
                if left.is_none() {
                    self.operator.created.retain(|_, uid| *uid != target.uid);
                }
                self.operator.dismiss(target, left, self.server.now);
            }
            (Action::Create(_), Some(made)) => {
                if let Stored::Pod(pod) = &made {
                    self.operator.created.insert(pod.meta.name.clone(), pod.meta.uid.clone());
                }
                self.operator.take_in(made);
            }
            (_, Some(made)) => self.operator.take_in(made),
            (_, None) => {}
        }
    }

    /// What the operator wished a child to be, for the end.
    fn remember(&mut self, action: &Action, done: bool) {
        let wish = match action {
            Action::Create(Object::Other(manifest)) | Action::Patch(manifest) if done => manifest,
            _ => return,
        };
        if !matches!(wish.kind, Kind::Pod | Kind::RayCluster) {
            let all = self.wishes.entry((wish.kind, wish.name.clone())).or_insert_with(|| json!({}));
            merge(all, &wish.value);
        }
    }

    fn squat(&mut self, action: &Action) {
        let Action::Create(Object::Pod(_)) = action else { return };
        if let Some((place, incarnation)) = action.place() {
            self.server.torn.insert((place.group, place.slot, incarnation));
        }
        self.server.stranger(action.name(), "none", "squatter");
    }
}

/// What a write came to that was not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Done,
    /// It was planned for an earlier version of the object.
    Outdated,
}

/// A step that was not carried out.
pub struct Stopped {
    stage: Stage,
    pub reason: &'static str,
    pub scope: String,
    failed: bool,
}

impl Stopped {
    fn of(step: &Step) -> Self {
        Stopped { stage: step.stage, reason: step.reason, scope: step.scope.clone(), failed: false }
    }
}

fn sort_out(mut steps: Vec<Step>, failures: &[Failure], now: Timestamp) -> (Vec<Step>, Vec<Stopped>) {
    steps.sort_by_key(|s| s.stage);
    let (mut ready, mut stopped) = (Vec::new(), Vec::new());
    for step in steps {
        let waits = failures.iter().any(|f| f.step == step.reason && f.scope == step.scope && f.retry_at > now);
        if waits || is_blocked(&step, &stopped) {
            stopped.push(Stopped::of(&step));
        } else {
            ready.push(step);
        }
    }
    (ready, stopped)
}

fn any_ready(steps: &[Step], failures: &[Failure], now: Timestamp) -> bool {
    !sort_out(steps.to_vec(), failures, now).0.is_empty()
}

fn is_blocked(step: &Step, stopped: &[Stopped]) -> bool {
    let needed = |stage| matches!(stage, Stage::Guard | Stage::Services);
    stopped.iter().any(|s| s.stage < step.stage && (needed(s.stage) || s.scope == step.scope))
}

fn retry_delay(times: u32) -> SignedDuration {
    SignedDuration::from_secs((1 << times.saturating_sub(1).min(6)).min(30))
}

pub fn earliest(a: Option<Timestamp>, b: Option<Timestamp>) -> Option<Timestamp> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// A status write in short: what is said of `Ready`, and of suspension.
fn words(difference: &Value) -> String {
    let conditions = difference["conditions"].as_array().into_iter().flatten();
    let shown = conditions.map(|c| format!("{}={} {}", c["type"], c["status"], c["reason"]));
    shown.filter(|c| c.contains("\"Ready\"") || c.contains("Suspend")).collect::<Vec<_>>().join(", ")
}

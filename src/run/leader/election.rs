//! Who leads: client-go's algorithm over a Lease, without I/O and without a clock of its own.
//!
//! A candidate never compares its clock with another's. It remembers *when it saw the record change last*, on its own
//! monotonic clock, and takes over when the record stood still for the whole lease duration. A holder counts from the
//! moment it *sent* its last successful renewal, and stops writing after the shorter renew deadline. The others saw that
//! renewal no earlier than it was sent, so the holder is silent before anyone else may start, whatever the clocks say.
//! Two writers of the record are told apart by its resourceVersion.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// A moment on this process' monotonic clock, counted from an arbitrary start.
pub type Moment = Duration;

/// The times of the algorithm. Their order is what makes it safe: retry < renew < deadline < lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    /// How long a record must stand still before others take it.
    pub lease: Duration,
    /// How long a holder may write after it sent its last successful renewal.
    pub deadline: Duration,
    /// Time between two renewals that succeed.
    pub renew: Duration,
    /// Time between two looks of a candidate, and after a failure.
    pub retry: Duration,
    /// How long one request may take.
    pub request: Duration,
}

impl Default for Timings {
    /// client-go's 15 s, 10 s and 2 s. It renews every 2 s; we do so every 5 s (12 writes a minute instead of 30), which
    /// leaves room for a renewal that hangs for 3 s and one more before the deadline.
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            deadline: Duration::from_secs(10),
            renew: Duration::from_secs(5),
            retry: Duration::from_secs(2),
            request: Duration::from_secs(3),
        }
    }
}

/// What stands in the Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Empty: nobody.
    pub holder: String,
    pub lease_seconds: i32,
    pub acquired: Option<Timestamp>,
    pub renewed: Option<Timestamp>,
    pub transitions: i32,
}

/// What this process knows of the Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// `None`: there is no Lease.
    pub record: Option<Record>,
    /// Version to replace; empty when there is no Lease.
    pub version: String,
    /// Who held it when it was last seen; kept when the Lease itself was deleted.
    pub holder: String,
    /// Until when, at least, the holder must be left alone.
    pub protected_until: Moment,
}

/// What to do about the Lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseAction {
    /// There is none: make it.
    Create,
    /// Ours: renew it.
    Renew,
    /// Nobody's, or its holder was silent for too long: take it.
    Take,
    /// Somebody else's until this moment, or longer if it is renewed.
    WaitUntil(Moment),
}

impl Seen {
    /// Takes in an answer that arrived at `now`. A record that is the same as before does not prolong anything.
    pub fn note(&mut self, record: Option<Record>, version: String, now: Moment, lease: Duration) {
        if self.record != record
            && let Some(record) = &record
        {
            // A holder that says it needs longer gets it; a shorter word (a release says 1 s) concerns nobody.
            let said = Duration::from_secs(u64::try_from(record.lease_seconds).unwrap_or(0));
            self.holder.clone_from(&record.holder);
            self.protected_until = now + lease.max(said);
        }
        self.record = record;
        self.version = version;
    }
}

/// The heart of it: what `me` does at `now` about the Lease as it was last seen.
pub fn decide(seen: &Seen, now: Moment, me: &str) -> LeaseAction {
    // A Lease that somebody deleted does not shorten its holder's time.
    let held_by_other = !seen.holder.is_empty() && seen.holder != me && now < seen.protected_until;
    match &seen.record {
        _ if held_by_other => LeaseAction::WaitUntil(seen.protected_until),
        None => LeaseAction::Create,
        Some(record) if record.holder == me => LeaseAction::Renew,
        Some(_) => LeaseAction::Take,
    }
}

/// What the caller should do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Read the Lease, then call [`Election::was_read`].
    Read,
    /// Create the Lease, or replace the version given, then call [`Election::was_written`].
    Write { record: Record, replace: Option<String> },
    /// Nothing before this moment.
    Sleep(Moment),
    /// The lead is lost. For good: the process should end.
    Lost(LossReason),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// No renewal succeeded within the deadline.
    Deadline,
    /// Another process holds the Lease.
    Taken(String),
}

/// Why a write did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailure {
    /// The Lease is not what it was: changed, deleted or created by someone else.
    Changed,
    /// Refused, broken or not answered: it may have happened or not.
    Unknown,
}

/// One process' part in the election.
#[derive(Clone, Debug)]
pub struct Election {
    me: String,
    timings: Timings,
    seen: Seen,
    /// Whether `seen` is fresh enough to write without reading first.
    fresh: bool,
    /// When the last successful renewal was sent, while this process leads.
    renewed: Option<Moment>,
    /// When to act next.
    next: Moment,
}

impl Election {
    /// `me` must be unlike any other process' identity, also an earlier one's of the same pod.
    pub fn new(me: String, timings: Timings) -> Self {
        Self { me, timings, seen: Seen::default(), fresh: false, renewed: None, next: Moment::ZERO }
    }

    /// What to do at `now`; `wall` is written into the Lease for people to read and decides nothing.
    pub fn next(&self, now: Moment, wall: Timestamp) -> Next {
        if let Some(renewed) = self.renewed {
            if now >= renewed + self.timings.deadline {
                return Next::Lost(LossReason::Deadline);
            }
            if self.fresh && !self.seen.holder.is_empty() && self.seen.holder != self.me {
                return Next::Lost(LossReason::Taken(self.seen.holder.clone()));
            }
        }
        if now < self.next {
            return Next::Sleep(self.may_write_until().map_or(self.next, |until| self.next.min(until)));
        }
        if !self.fresh {
            return Next::Read;
        }
        match decide(&self.seen, now, &self.me) {
            LeaseAction::WaitUntil(_) => Next::Read,
            LeaseAction::Create => Next::Write { record: self.record(wall), replace: None },
            LeaseAction::Renew | LeaseAction::Take => {
                Next::Write { record: self.record(wall), replace: Some(self.seen.version.clone()) }
            }
        }
    }

    /// A read that was sent at `sent` and ended at `now`: the record and its version, `None` when there is no Lease, an
    /// error when nobody can tell. `jitter` is from 0 to 1.
    pub fn was_read(&mut self, answer: Result<Option<(Record, String)>, ()>, sent: Moment, now: Moment, jitter: f64) {
        let Ok(answer) = answer else {
            self.next = now.max(sent + self.pause(jitter));
            return;
        };
        let (record, version) = answer.map_or((None, String::new()), |(record, version)| (Some(record), version));
        self.seen.note(record, version, now, self.timings.lease);
        self.fresh = true;
        if let LeaseAction::WaitUntil(_) = decide(&self.seen, now, &self.me) {
            // A candidate's next look is at the server, not at what it remembers; who led sees that it is over.
            self.fresh = self.renewed.is_some();
            self.next = now + self.pause(jitter);
        }
    }

    /// A write that was sent at `sent` and ended at `now`, with the new version if it succeeded.
    pub fn was_written(
        &mut self,
        record: Record,
        answer: Result<String, WriteFailure>,
        sent: Moment,
        now: Moment,
        jitter: f64,
    ) {
        match answer {
            Ok(version) => {
                self.seen.note(Some(record), version, now, self.timings.lease);
                self.renewed = Some(sent);
                self.fresh = true;
                self.next = sent + self.timings.renew;
            }
            Err(failure) => {
                self.fresh = false;
                // Who leads must know at once whether it still does.
                let at_once = failure == WriteFailure::Changed && self.renewed.is_some();
                self.next = if at_once { now } else { now.max(sent + self.pause(jitter)) };
            }
        }
    }

    /// Until when this process may write; `None` when it does not lead.
    pub fn may_write_until(&self) -> Option<Moment> {
        self.renewed.map(|renewed| renewed + self.timings.deadline)
    }

    /// How long a request that starts at `now` may take.
    pub fn patience(&self, now: Moment) -> Duration {
        let left = self.may_write_until().map_or(Duration::MAX, |until| until.saturating_sub(now));
        self.timings.request.min(left)
    }

    /// The record that gives the lead back, and the version to replace; `None` when there is nothing to give.
    pub fn release(&mut self, wall: Timestamp) -> Option<(Record, String)> {
        self.renewed.take()?;
        let held = self.seen.record.as_ref().filter(|record| record.holder == self.me)?;
        let record = Record {
            holder: String::new(),
            lease_seconds: 1,
            acquired: Some(wall),
            renewed: Some(wall),
            transitions: held.transitions,
        };
        Some((record, self.seen.version.clone()))
    }

    fn record(&self, wall: Timestamp) -> Record {
        let old = self.seen.record.as_ref();
        let ours = old.filter(|record| record.holder == self.me);
        Record {
            holder: self.me.clone(),
            lease_seconds: i32::try_from(self.timings.lease.as_secs()).unwrap_or(i32::MAX),
            acquired: ours.map_or(Some(wall), |record| record.acquired),
            renewed: Some(wall),
            transitions: match (ours, old) {
                (Some(ours), _) => ours.transitions,
                (None, Some(old)) => old.transitions.saturating_add(1),
                (None, None) => 0,
            },
        }
    }

    /// client-go's jitter for candidates: from one retry period to 2.2 of them. Who leads does not dawdle.
    fn pause(&self, jitter: f64) -> Duration {
        if self.renewed.is_some() {
            return self.timings.retry;
        }
        self.timings.retry.mul_f64(1.0 + 1.2 * jitter.clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests;

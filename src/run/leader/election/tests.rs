use super::*;
use std::collections::BTreeMap;

use proptest::prelude::*;

fn s(seconds: u64) -> Moment {
    Moment::from_secs(seconds)
}

fn record(holder: &str, seconds: i32) -> Record {
    Record { holder: holder.to_string(), lease_seconds: seconds, ..Record::default() }
}

fn seen(records: &[(Option<Record>, u64)]) -> Seen {
    let mut seen = Seen::default();
    for (record, at) in records {
        seen.note(record.clone(), "1".into(), s(*at), s(15));
    }
    seen
}

#[test]
fn decisions() {
    let other = |seconds| Some(record("other", seconds));
    for (why, seen, now, wanted) in [
        ("nothing there", seen(&[(None, 0)]), 0, LeaseAction::Create),
        ("released", seen(&[(Some(record("", 1)), 0)]), 0, LeaseAction::Take),
        ("released by whom we watched", seen(&[(other(15), 0), (Some(record("", 1)), 1)]), 1, LeaseAction::Take),
        ("ours", seen(&[(Some(record("me", 15)), 0)]), 60, LeaseAction::Renew),
        ("just seen, however old it is", seen(&[(other(15), 100)]), 100, LeaseAction::WaitUntil(s(115))),
        ("almost silent for long enough", seen(&[(other(15), 100)]), 114, LeaseAction::WaitUntil(s(115))),
        ("silent for long enough", seen(&[(other(15), 100)]), 115, LeaseAction::Take),
        ("seen again, unchanged", seen(&[(other(15), 100), (other(15), 114)]), 115, LeaseAction::Take),
        ("seen again, renewed", seen(&[(other(15), 100), (other(16), 114)]), 115, LeaseAction::WaitUntil(s(130))),
        ("asks for less than we give", seen(&[(other(1), 100)]), 102, LeaseAction::WaitUntil(s(115))),
        ("asks for more", seen(&[(other(60), 100)]), 120, LeaseAction::WaitUntil(s(160))),
        ("nonsense counts as nothing", seen(&[(other(-5), 100)]), 115, LeaseAction::Take),
        ("deleted under its holder", seen(&[(other(15), 100), (None, 101)]), 102, LeaseAction::WaitUntil(s(115))),
        ("deleted, and its holder silent", seen(&[(other(15), 100), (None, 101)]), 115, LeaseAction::Create),
        ("ours deleted", seen(&[(Some(record("me", 15)), 0), (None, 1)]), 2, LeaseAction::Create),
    ] {
        assert_eq!(decide(&seen, s(now), "me"), wanted, "{why}");
    }
}

#[test]
fn what_is_written() {
    let wall = Timestamp::from_second(1_000).unwrap();
    let later = Timestamp::from_second(2_000).unwrap();
    let mut election = Election::new("me".into(), Timings::default());
    let old = Record { transitions: 4, ..record("", 1) };
    election.was_read(Ok(Some((old, "7".into()))), s(0), s(0), 0.0);
    let Next::Write { record, replace } = election.next(s(0), wall) else { panic!() };
    assert_eq!(replace.as_deref(), Some("7"));
    assert_eq!((record.transitions, record.lease_seconds, record.acquired), (5, 15, Some(wall)));

    election.was_written(record, Ok("8".into()), s(0), s(1), 0.0);
    assert_eq!(election.next(s(1), wall), Next::Sleep(s(5)), "renewals are counted from when the last one was sent");
    let Next::Write { record, replace } = election.next(s(5), later) else { panic!("a leader does not read") };
    assert_eq!(replace.as_deref(), Some("8"));
    assert_eq!((record.transitions, record.acquired, record.renewed), (5, Some(wall), Some(later)));

    let (given, version) = election.release(later).unwrap();
    assert_eq!((given.holder.as_str(), given.lease_seconds, given.transitions, version.as_str()), ("", 1, 5, "8"));
    assert_eq!(election.may_write_until(), None);
    assert_eq!(election.release(later), None);
}

/// A leader at moment 0, before its renewal at 5.
fn leader() -> Election {
    let mut election = Election::new("me".into(), Timings::default());
    election.was_read(Ok(None), s(0), s(0), 0.0);
    let Next::Write { record, replace: None } = election.next(s(0), Timestamp::UNIX_EPOCH) else { panic!() };
    election.was_written(record, Ok("1".into()), s(0), s(0), 0.0);
    election
}

#[test]
fn a_leader_that_cannot_renew_tries_on_and_then_is_lost() {
    let wall = Timestamp::UNIX_EPOCH;
    let mut election = leader();
    assert_eq!(election.may_write_until(), Some(s(10)));
    assert_eq!(election.patience(s(5)), s(3));
    assert_eq!(election.patience(s(9)), s(1));
    let Next::Write { record, .. } = election.next(s(5), wall) else { panic!() };
    election.was_written(record, Err(WriteFailure::Unknown), s(5), s(8), 0.0);
    assert_eq!(election.next(s(8), wall), Next::Read, "after a request that hung the next one goes at once");
    election.was_read(Err(()), s(8), s(8), 0.0);
    assert_eq!(election.next(s(8), wall), Next::Sleep(s(10)));
    assert_eq!(election.next(s(10), wall), Next::Lost(LossReason::Deadline));
    assert_eq!(leader().next(s(11), wall), Next::Lost(LossReason::Deadline), "woken up late");
}

#[test]
fn a_refused_renewal_is_not_repeated_in_a_tight_loop() {
    let wall = Timestamp::UNIX_EPOCH;
    let mut election = leader();
    let Next::Write { record, .. } = election.next(s(5), wall) else { panic!() };
    election.was_written(record, Err(WriteFailure::Unknown), s(5), s(5), 0.0);
    assert_eq!(election.next(s(5), wall), Next::Sleep(s(7)));
}

#[test]
fn a_changed_lease_is_looked_at_at_once() {
    let wall = Timestamp::UNIX_EPOCH;
    let mut election = leader();
    let Next::Write { record: mine, .. } = election.next(s(5), wall) else { panic!() };
    election.was_written(mine.clone(), Err(WriteFailure::Changed), s(5), s(5), 0.0);
    assert_eq!(election.next(s(5), wall), Next::Read);

    let mut labelled = election.clone();
    labelled.was_read(Ok(Some((mine, "9".into()))), s(5), s(5), 0.0);
    assert!(matches!(labelled.next(s(5), wall), Next::Write { replace: Some(v), .. } if v == "9"));

    election.was_read(Ok(Some((record("other", 15), "9".into()))), s(5), s(5), 0.0);
    assert_eq!(election.next(s(5), wall), Next::Lost(LossReason::Taken("other".into())));
}

/// A small random source: the same seed, the same race.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.roll(100) < percent
    }

    fn unit(&mut self) -> f64 {
        self.roll(1000) as f64 / 1000.0
    }
}

enum Call {
    Read,
    Write(Record, Option<String>),
}

/// A request under way: when it reaches the server, when its answer arrives, and the answer once it is known.
struct Flight {
    call: Call,
    sent: u64,
    reaches: u64,
    returns: u64,
    read: Option<Result<Option<(Record, String)>, ()>>,
    written: Option<Result<String, WriteFailure>>,
    arrived: bool,
}

struct Process {
    election: Election,
    /// Milliseconds that its monotonic clock is behind the world's, and seconds that its wall clock is off.
    base: u64,
    skew: i64,
    flight: Option<Flight>,
    wakes: u64,
    stopped_until: u64,
    term: u64,
}

/// Three processes and a server, in milliseconds. Requests and answers are slow or lost, reads may be stale, processes
/// stop and go on, end and come back. Returns the greatest number of processes that could write at once, and how long
/// after `calm` (when all faults end) the first leader was there.
fn race(seed: u64, timings: Timings, calm: u64, end: u64) -> (usize, Option<u64>) {
    let mut dice = Dice(seed | 1);
    let mut history: Vec<(u64, Option<(Record, u64)>)> = vec![(0, None)];
    let mut version = 0;
    let mut processes: Vec<Process> = (0..3).map(|n| process(n, 0, 0, &mut dice, timings)).collect();
    let (mut most, mut led_after) = (0, None);
    for now in (0..end).step_by(50) {
        let faults = now < calm;
        #[expect(clippy::needless_range_loop, reason = "a process is replaced in its place")]
        for n in 0..processes.len() {
            let p = &mut processes[n];
            let local = Moment::from_millis(now - p.base);
            // The server works although the sender may be stopped or gone.
            if let Some(flight) = p.flight.as_mut().filter(|f| !f.arrived && now >= f.reaches) {
                flight.arrived = true;
                let current = history.last().and_then(|(_, state)| state.clone());
                match &flight.call {
                    Call::Read => {
                        let back = if faults && dice.chance(10) { dice.roll(20_000) } else { 0 };
                        let then = now.saturating_sub(back);
                        let state =
                            history.iter().rev().find(|(at, _)| *at <= then).and_then(|(_, state)| state.clone());
                        let lost = faults && dice.chance(10);
                        flight.read = Some(if lost { Err(()) } else { Ok(state.map(|(r, v)| (r, v.to_string()))) });
                    }
                    Call::Write(record, replace) => {
                        let matches = match (&current, replace) {
                            (None, None) => true,
                            (Some((_, v)), Some(wanted)) => v.to_string() == *wanted,
                            _ => false,
                        };
                        let refused = faults && dice.chance(5);
                        let lost = faults && dice.chance(10);
                        if matches && !refused {
                            version += 1;
                            history.push((now, Some((record.clone(), version))));
                        }
                        flight.written = Some(match (matches && !refused, lost || refused) {
                            (_, true) => Err(WriteFailure::Unknown),
                            (true, false) => Ok(version.to_string()),
                            (false, false) => Err(WriteFailure::Changed),
                        });
                    }
                }
            }
            if now < p.stopped_until {
                continue;
            }
            if faults && dice.roll(4_000) == 0 {
                p.stopped_until = now + dice.roll(40_000);
                continue;
            }
            if faults && dice.roll(6_000) == 0 {
                // Killed, or asked to end: then it gives the lead back first.
                if dice.chance(50)
                    && p.flight.is_none()
                    && let Some((record, held)) = p.election.release(Timestamp::UNIX_EPOCH)
                    && history.last().and_then(|(_, s)| s.as_ref()).is_some_and(|(_, v)| v.to_string() == held)
                {
                    version += 1;
                    history.push((now, Some((record, version))));
                }
                let term = p.term + 1;
                processes[n] = process(n as u64, term, now, &mut dice, timings);
                continue;
            }
            let p = &mut processes[n];
            let timeout = p.flight.as_ref().is_some_and(|f| {
                let sent = Moment::from_millis(f.sent - p.base);
                local >= sent + p.election.patience(sent)
            });
            if timeout || p.flight.as_ref().is_some_and(|f| f.arrived && now >= f.returns) {
                let flight = p.flight.take().unwrap();
                let answered = flight.arrived && now >= flight.returns;
                let sent = Moment::from_millis(flight.sent - p.base);
                match flight.call {
                    Call::Read => {
                        let answer = flight.read.filter(|_| answered).unwrap_or(Err(()));
                        p.election.was_read(answer, sent, local, dice.unit());
                    }
                    Call::Write(record, _) => {
                        let answer = flight.written.filter(|_| answered).unwrap_or(Err(WriteFailure::Unknown));
                        p.election.was_written(record, answer, sent, local, dice.unit());
                    }
                }
            }
            if p.flight.is_some() || now < p.wakes {
                continue;
            }
            let wall = Timestamp::from_second(1_000_000 + p.skew + (now / 1000) as i64).unwrap();
            let slow = if faults && dice.chance(20) { 8_000 } else { 300 };
            let reaches = now + dice.roll(slow);
            let returns = reaches + dice.roll(slow);
            let flight = |call| Flight { call, sent: now, reaches, returns, read: None, written: None, arrived: false };
            match p.election.next(local, wall) {
                Next::Read => p.flight = Some(flight(Call::Read)),
                Next::Write { record, replace } => p.flight = Some(flight(Call::Write(record, replace))),
                Next::Sleep(until) => p.wakes = p.base + until.as_millis() as u64,
                Next::Lost(_) => processes[n] = process(n as u64, p.term + 1, now, &mut dice, timings),
            }
        }
        let writers = processes
            .iter()
            .filter(|p| p.election.may_write_until().is_some_and(|until| Moment::from_millis(now - p.base) < until))
            .count();
        most = most.max(writers);
        if writers > 0 && now >= calm && led_after.is_none() {
            led_after = Some(now - calm);
        }
    }
    (most, led_after)
}

fn process(n: u64, term: u64, now: u64, dice: &mut Dice, timings: Timings) -> Process {
    Process {
        election: Election::new(format!("p{n}-{term}"), timings),
        base: now.saturating_sub(dice.roll(1_000)),
        skew: dice.roll(7_200) as i64 - 3_600,
        flight: None,
        wakes: now + dice.roll(2_000),
        stopped_until: 0,
        term,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    /// Slow and lost requests, stale reads, stopped processes, wall clocks an hour apart: never two writers; and once
    /// the world is calm there is one.
    #[test]
    fn never_two_writers(seed in any::<u64>()) {
        let (most, led_after) = race(seed, Timings::default(), 400_000, 480_000);
        prop_assert!(most <= 1, "{most} processes could write at once");
        prop_assert!(led_after.is_some_and(|ms| ms < 65_000), "nobody led: {led_after:?}");
    }
}

/// The race is wild enough to find a wrong algorithm: a deadline beyond the lease makes two writers.
#[test]
fn the_race_finds_wrong_timings() {
    let wrong = Timings { deadline: s(25), ..Timings::default() };
    let found = (0..150).filter(|seed| race(seed * 7_919 + 13, wrong, 400_000, 400_000).0 > 1).count();
    assert!(found > 10, "{found} of 150 races had two writers");
}

#[test]
fn the_order_of_times_is_safe() {
    let t = Timings::default();
    assert!(t.retry < t.renew && t.renew + t.request < t.deadline && t.deadline < t.lease);
    assert_eq!(
        BTreeMap::from([(t.lease, 15), (t.deadline, 10), (t.retry, 2)]).into_values().collect::<Vec<_>>(),
        [2, 10, 15]
    );
}

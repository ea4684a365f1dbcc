//! One replica of a worker group: a pod per host. Its hosts belong together (a slice of a TPU, the ranks of a job): they
//! are made at one time, and when one is lost all are replaced.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::jiff::Timestamp;

use super::{Part, Scene, pace};
use crate::api::raycluster::WorkerGroupSpec;
use crate::observe::seen::{Place, PodView};
use crate::plan::build::{self, Identity};
use crate::plan::{Action, Object, Stage, Step};

/// A pod that still takes up its place.
pub(super) struct Member<'a> {
    pub pod: &'a PodView,
    /// Why and when it died, if it did.
    pub dead: Option<(String, Timestamp)>,
}

/// Members by slot and host.
pub(super) type Slots<'a> = BTreeMap<u32, BTreeMap<u32, Member<'a>>>;

/// A replica that the group wants.
pub(super) struct Replica<'a> {
    pub scene: &'a Scene<'a>,
    pub group: &'a WorkerGroupSpec,
    pub slot: u32,
    pub hosts: u32,
    /// Replicas that the group wants, and had.
    pub wanted: usize,
    pub before: usize,
    /// Pods of the group that are on their way out.
    pub leaving: &'a BTreeMap<Place, &'a PodView>,
}

/// What new pods carry on from those before them.
#[derive(Clone, Copy, Default)]
struct Heritage {
    incarnation: u32,
    quick_failures: u32,
}

impl Heritage {
    fn at_least(&mut self, (incarnation, quick_failures): (u32, u32)) {
        self.incarnation = self.incarnation.max(incarnation);
        self.quick_failures = self.quick_failures.max(quick_failures);
    }
}

impl Replica<'_> {
    pub(super) fn plan(&self, seats: Option<&BTreeMap<u32, Member<'_>>>, taken: &mut BTreeSet<String>) -> Part {
        let Some(seats) = seats.filter(|s| !s.is_empty()) else { return self.fill(&BTreeMap::new(), taken) };
        let deaths = seats.values().filter_map(|m| Some((m.pod, m.dead.as_ref()?)));
        let ready_at = deaths.clone().map(|(pod, (_, died))| pace::replaced_at(self.scene, pod, *died)).max();
        match ready_at {
            Some(at) if at > self.scene.now => Part { look_again: Some(at), ..Part::default() },
            Some(_) => self.replace(seats, "a host of its replica is dead, and they are replaced together", taken),
            None => match self.torn(seats, taken) {
                Some(why) => self.replace(seats, why, taken),
                None => self.fill(seats, taken),
            },
        }
    }

    /// Whether it cannot stay as it is.
    pub(super) fn is_broken(&self, seats: &BTreeMap<u32, Member<'_>>, taken: &BTreeSet<String>) -> bool {
        seats.values().any(|m| m.dead.is_some()) || self.torn(seats, taken).is_some()
    }

    /// Why a replica whose pods all live has to be replaced nevertheless. One that is still being made is not torn: its
    /// missing hosts have never been there, and none of the others has been Ready.
    fn torn(&self, seats: &BTreeMap<u32, Member<'_>>, taken: &BTreeSet<String>) -> Option<&'static str> {
        if seats.keys().any(|host| *host >= self.hosts) {
            return Some("its replica has more hosts than numOfHosts says, and they are replaced together");
        }
        let current = current(seats);
        if seats.values().any(|m| pace::incarnation(m.pod) != current) {
            return Some("the hosts of its replica are not of one making, and they are replaced together");
        }
        let mut missing = (0..self.hosts).filter(|host| !seats.contains_key(host)).peekable();
        missing.peek()?;
        let was_up = seats.values().any(|m| m.pod.is_ready());
        let gone = |host| {
            let before = self.before_it(host).is_some_and(|pod| pace::incarnation(pod) >= current);
            before || taken.contains(&self.name(host, current))
        };
        (was_up || missing.any(gone)).then_some("a host of its replica is gone, and they are replaced together")
    }

    /// Removes what is there and makes all hosts anew.
    fn replace(&self, seats: &BTreeMap<u32, Member<'_>>, why: &str, taken: &mut BTreeSet<String>) -> Part {
        let mut part = Part::default();
        let mut heritage = Heritage { incarnation: current(seats) + 1, quick_failures: 0 };
        for member in seats.values() {
            let why = match &member.dead {
                Some((cause, died)) => {
                    heritage.at_least((0, pace::quick_failures(member.pod, *died)));
                    format!("it was dead ({cause}); a new pod takes its place")
                }
                None => why.to_owned(),
            };
            part.steps.push(self.scene.delete_pod(member.pod, "DeletedWorkerPod", why));
        }
        let tell = seats.len() < self.hosts as usize;
        let reasons = |host: u32| match seats.get(&host) {
            Some(Member { pod, dead: Some(_) }) => format!("to replace {}, which was dead", pod.meta.name),
            Some(Member { pod, dead: None }) => format!("to replace {} together with its replica", pod.meta.name),
            None => self.reason(host),
        };
        part.add(self.make((0..self.hosts).collect(), heritage, reasons, tell, taken));
        part
    }

    /// Makes the hosts that are missing.
    fn fill(&self, seats: &BTreeMap<u32, Member<'_>>, taken: &mut BTreeSet<String>) -> Part {
        let missing: Vec<u32> = (0..self.hosts).filter(|host| !seats.contains_key(host)).collect();
        let mut heritage = Heritage { incarnation: current(seats), quick_failures: 0 };
        for member in seats.values() {
            heritage.at_least((0, pace::carried(member.pod)));
        }
        if seats.is_empty() {
            for host in &missing {
                if let Some((pod, at)) = self.last_at(*host) {
                    heritage.at_least(pace::after(pod, at));
                }
            }
        }
        self.make(missing, heritage, |host| self.reason(host), true, taken)
    }

    fn make(
        &self,
        hosts: Vec<u32>,
        mut heritage: Heritage,
        why: impl Fn(u32) -> String,
        tell: bool,
        taken: &mut BTreeSet<String>,
    ) -> Part {
        // A pod that was sent off and not heard of since may exist: it is asked for again, alone, before anything else
        // is made in its replica.
        let attempted: Vec<(u32, u32)> =
            hosts.iter().filter_map(|host| Some((*host, self.attempted(*host, taken)?))).collect();
        let unknown: Vec<u32> =
            attempted.iter().filter(|(_, at)| *at != heritage.incarnation).map(|(host, _)| *host).collect();
        let hosts = if unknown.is_empty() { hosts } else { unknown };
        let incarnation_of = |host| attempted.iter().find(|(h, _)| *h == host).map(|(_, at)| *at);
        while hosts
            .iter()
            .any(|host| incarnation_of(*host).is_none() && taken.contains(&self.name(*host, heritage.incarnation)))
        {
            heritage.incarnation += 1;
        }
        let mut part = Part::default();
        for host in hosts {
            let identity = Identity {
                slot: self.slot,
                host,
                incarnation: incarnation_of(host).unwrap_or(heritage.incarnation),
                quick_failures: heritage.quick_failures,
            };
            let pod = build::worker_pod(self.scene.cluster, self.group, identity, self.scene.config).pod;
            taken.insert(pod.metadata.name.clone().unwrap_or_default());
            part.steps.push(Step {
                stage: Stage::Workers,
                reason: "CreatedWorkerPod",
                scope: self.group.group_name.clone(),
                why: why(host),
                tell,
                action: Action::Create(Object::Pod(Box::new(pod))),
            });
        }
        part
    }

    /// The incarnation that was sent off for a host and of which nothing was heard.
    fn attempted(&self, host: u32, taken: &BTreeSet<String>) -> Option<u32> {
        let incarnation = *self.scene.seen.attempted.get(&self.place(host))?;
        (!taken.contains(&self.name(host, incarnation))).then_some(incarnation)
    }

    fn reason(&self, host: u32) -> String {
        let Replica { group, wanted, before, .. } = self;
        let grown = format!("group {} wants {wanted} replicas and had {before}", group.group_name);
        match (self.leaving.get(&self.place(host)), self.scene.departed(&self.place(host))) {
            (Some(pod), _) => format!("to replace {}, which is being deleted", pod.meta.name),
            (None, Some(gone)) => format!("{grown}; {} stood there before", gone.pod.meta.name),
            (None, None) => grown,
        }
    }

    /// The pod that stood at this host before, on its way out or gone, and when.
    fn last_at(&self, host: u32) -> Option<(&PodView, Timestamp)> {
        let place = self.place(host);
        let leaving = self.leaving.get(&place).map(|pod| (*pod, self.scene.now));
        leaving.or_else(|| self.scene.departed(&place).map(|gone| (&*gone.pod, gone.at)))
    }

    fn before_it(&self, host: u32) -> Option<&PodView> {
        self.last_at(host).map(|(pod, _)| pod)
    }

    fn place(&self, host: u32) -> Place {
        Place { group: self.group.group_name.clone(), slot: self.slot, host }
    }

    fn name(&self, host: u32, incarnation: u32) -> String {
        let identity = Identity { slot: self.slot, host, incarnation, quick_failures: 0 };
        build::worker_pod_name(self.scene.cluster, self.group, identity)
    }
}

/// The incarnation of a replica: the latest of its pods'.
fn current(seats: &BTreeMap<u32, Member<'_>>) -> u32 {
    seats.values().map(|m| pace::incarnation(m.pod)).max().unwrap_or(0)
}

//! Made-up recordings, for tests and demonstrations: a small manager that releases jobs by events.
//!
//! The units are given with their own times and their order; what comes out is what a manager
//! would have recorded that takes `latency_us` for each release. What must not be here: anything
//! that the analysis uses, because the tests compare the two.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::event::{Event, NO_UNIT, What};
use crate::record::{Anchor, Head, Recording, Unit};
use crate::words::{
    Active, Asked, Command, Counter, Ending, Exit, Phase, Reading, Release, Sub, Subject, Work,
};

/// Wall clock of the samples: 2026-11-22 00:00:00 UTC, in µs since 1970.
const REALTIME_US: u64 = 1_795_305_600_000_000;

/// How often the manager's CPU time is recorded, in µs.
const CPU_APART_US: u64 = 20_000;

/// Releases and ends that cost the manager one µs.
const JOBS_PER_US: u64 = 4;

/// Clients that wait while the jobs are queued.
const CLIENTS: u64 = 3;

/// The first process id of the samples.
const FIRST_PID: u32 = 1000;

/// Reason codes of the samples: brought up, taken down, exit code, did not stop in time.
const STARTED: (u16, &str) = (10, "started by a start job");
const STOPPED: (u16, &str) = (20, "stopped by a stop job");
const STOP_TIMEOUT: (u16, &str) = (44, "killed: it did not stop within TimeoutStopSec=");

/// A unit of a sample.
#[derive(Clone, Debug, Default)]
pub struct SampleUnit {
    /// Its name.
    pub name: String,
    /// The position of its slice.
    pub slice: Option<usize>,
    /// How long its job takes, in µs.
    pub own_us: u64,
    /// Positions of the units that it starts after.
    pub after: Vec<usize>,
    /// It is ended by SIGKILL when it stops.
    pub killed: bool,
}

/// What is to be recorded.
#[derive(Clone, Debug)]
pub struct Sample {
    /// [`Subject::Shutdown`] stops all units, against their order; any other starts them.
    pub subject: Subject,
    /// The units.
    pub units: Vec<SampleUnit>,
    /// What the manager takes before it has queued the jobs, in µs.
    pub plan_us: u64,
    /// What it takes from the end of a job to the release of another, in µs.
    pub latency_us: u64,
    /// When it begins, in µs.
    pub begin_us: u64,
}

impl Sample {
    /// What would have been recorded. The order of the units must have no circle.
    pub fn record(&self) -> Recording {
        let mut run = Run::new(self);
        run.all();
        let unit = |(id, unit): (usize, &SampleUnit)| Unit {
            id: id as u32,
            slice: unit.slice.map_or(NO_UNIT, |slice| slice as u32),
            name: unit.name.clone(),
        };
        let edges = |(unit, sample): (usize, &SampleUnit)| -> Vec<(u32, u32)> {
            sample.after.iter().map(|after| (unit as u32, *after as u32)).collect()
        };
        Recording {
            head: self.head(),
            units: self.units.iter().enumerate().map(unit).collect(),
            reasons: [STARTED, STOPPED, STOP_TIMEOUT]
                .map(|(code, text)| (code, text.into()))
                .into(),
            edges: self.units.iter().enumerate().flat_map(edges).collect(),
            events: run.events,
        }
    }

    fn head(&self) -> Head {
        let clock = |offset_us| self.begin_us + offset_us;
        Head {
            subject: self.subject,
            anchor: Anchor {
                monotonic_us: self.begin_us,
                realtime_us: clock(REALTIME_US),
                boottime_us: self.begin_us,
            },
            host: "sample".into(),
            kernel: "6.18.0".into(),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }

    fn is_stop(&self) -> bool {
        self.subject == Subject::Shutdown
    }

    /// For each unit those whose end it waits for.
    fn waits(&self) -> Vec<Vec<usize>> {
        if !self.is_stop() {
            return self.units.iter().map(|unit| unit.after.clone()).collect();
        }
        let mut out = vec![Vec::new(); self.units.len()];
        for (index, unit) in self.units.iter().enumerate() {
            unit.after.iter().for_each(|after| out[*after].push(index));
        }
        out
    }
}

/// A job that is about to run or to end, ordered by time.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Release(usize, Option<usize>),
    End(usize),
}

struct Run<'a> {
    sample: &'a Sample,
    events: Vec<Event>,
    due: BinaryHeap<Reverse<(u64, u64, Due)>>,
    /// Numbers the due things, so that equal times keep their order.
    order: u64,
}

impl<'a> Run<'a> {
    fn new(sample: &'a Sample) -> Run<'a> {
        Run { sample, events: Vec::new(), due: BinaryHeap::new(), order: 0 }
    }

    fn all(&mut self) {
        let sample = self.sample;
        let whole = Phase::of(sample.subject).unwrap_or(Phase::Boot);
        let stage = if sample.is_stop() { Phase::StopUnits } else { Phase::StartUnits };
        let (begin_us, queued_us) = (sample.begin_us, sample.begin_us + sample.plan_us);
        let mut end_us = queued_us;
        self.manager(begin_us, What::PhaseBegin { phase: whole, detail: 0 });
        self.manager(begin_us, What::PhaseBegin { phase: Phase::Plan, detail: 0 });
        let detail = sample.units.len() as u64;
        self.manager(queued_us, What::PhaseEnd { phase: Phase::Plan, detail });
        self.manager(queued_us, What::PhaseBegin { phase: stage, detail });
        self.cpu(queued_us);
        self.manager(queued_us, What::BusQueue { depth: CLIENTS });
        self.manager(queued_us + sample.latency_us, What::BusQueue { depth: 0 });
        let mut held = self.queue(queued_us);
        let dependents = dependents(&sample.waits());
        while let Some(Reverse((time_us, _, due))) = self.due.pop() {
            if time_us / CPU_APART_US != end_us / CPU_APART_US {
                self.cpu(time_us);
            }
            end_us = time_us;
            match due {
                Due::Release(unit, by) => self.release(time_us, unit, by),
                Due::End(unit) => {
                    self.end(time_us, unit);
                    for dependent in &dependents[unit] {
                        held[*dependent] -= 1;
                        if held[*dependent] == 0 {
                            let due = Due::Release(*dependent, Some(unit));
                            self.later(time_us + sample.latency_us, due);
                        }
                    }
                }
            }
        }
        self.cpu(end_us);
        self.manager(end_us, What::PhaseEnd { phase: stage, detail });
        self.manager(end_us, What::PhaseEnd { phase: whole, detail });
    }

    /// Queues all jobs; how many each waits for.
    fn queue(&mut self, time_us: u64) -> Vec<usize> {
        let work = if self.sample.is_stop() { Work::Stop } else { Work::Start };
        let held: Vec<usize> = self.sample.waits().iter().map(Vec::len).collect();
        for (unit, held) in held.iter().enumerate() {
            let (job, asked, uid, pid) = (unit as u32, Asked::Manager, 0, 0);
            self.push(time_us, unit, None, What::JobQueued { job, work, asked, uid, pid });
            if *held == 0 {
                self.later(time_us + self.sample.latency_us, Due::Release(unit, None));
            }
        }
        held
    }

    fn release(&mut self, time_us: u64, unit: usize, by: Option<usize>) {
        let kind = if by.is_some() { Release::Unit } else { Release::AtOnce };
        self.push(time_us, unit, by, What::JobReleased { job: unit as u32, by: kind });
        let stop = self.sample.is_stop();
        let (active, sub, command) = match stop {
            true => (Active::Deactivating, Sub::StopSigterm, Command::Stop),
            false => (Active::Activating, Sub::Start, Command::Start),
        };
        let reason = if stop { STOPPED.0 } else { STARTED.0 };
        self.push(time_us, unit, None, What::State { active, sub, reason });
        let pid = FIRST_PID + unit as u32;
        if stop {
            self.push(time_us, unit, None, What::Signal { signal: 15, pid, count: 1 });
        } else {
            self.push(time_us, unit, None, What::Exec { pid, command, main: true });
        }
        self.later(time_us + self.sample.units[unit].own_us, Due::End(unit));
    }

    fn end(&mut self, time_us: u64, unit: usize) {
        let (job, pid) = (unit as u32, FIRST_PID + unit as u32);
        let sample = &self.sample.units[unit];
        let mut reason = if self.sample.is_stop() { STOPPED.0 } else { STARTED.0 };
        let (mut active, mut sub) = (Active::Active, Sub::Running);
        if self.sample.is_stop() {
            (active, sub) = (Active::Inactive, Sub::Dead);
            let (exit, status) = if sample.killed { (Exit::Killed, 9) } else { (Exit::Exited, 0) };
            if sample.killed {
                reason = STOP_TIMEOUT.0;
                (active, sub) = (Active::Failed, Sub::Failed);
                self.push(time_us, unit, None, What::Signal { signal: 9, pid: 0, count: 1 });
            }
            self.push(time_us, unit, None, What::Exit { pid, exit, status, main: true });
            self.push(time_us, unit, None, What::GroupEmpty { last_pid: pid });
            let (counter, reading) = (Counter::CpuUs, Reading::Stop);
            self.push(time_us, unit, None, What::Counter { counter, reading, value: 1_500 });
        }
        self.push(time_us, unit, None, What::State { active, sub, reason });
        let ending = if active == Active::Failed { Ending::Timeout } else { Ending::Done };
        self.push(time_us, unit, None, What::JobEnded { job, ending, reason });
    }

    /// The manager's CPU time: the plan, and a little for each release and each end.
    fn cpu(&mut self, time_us: u64) {
        let cpu_us = self.sample.plan_us + self.order / JOBS_PER_US;
        self.manager(time_us, What::OwnCpu { cpu_us });
    }

    fn later(&mut self, time_us: u64, due: Due) {
        self.order += 1;
        self.due.push(Reverse((time_us, self.order, due)));
    }

    fn manager(&mut self, time_us: u64, what: What) {
        self.events.push(Event::new(time_us, NO_UNIT, NO_UNIT, what));
    }

    fn push(&mut self, time_us: u64, unit: usize, cause: Option<usize>, what: What) {
        let cause = cause.map_or(NO_UNIT, |cause| cause as u32);
        self.events.push(Event::new(time_us, unit as u32, cause, what));
    }
}

fn dependents(waits: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut out = vec![Vec::new(); waits.len()];
    for (unit, before) in waits.iter().enumerate() {
        before.iter().for_each(|before| out[*before].push(unit));
    }
    out
}

/// The same numbers for the same seed.
#[derive(Clone, Debug)]
pub struct Numbers(
    /// The seed.
    pub u64,
);

impl Numbers {
    /// The next number, below `bound`; 0 when that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let Numbers(state) = self;
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % bound.max(1)
    }
}

/// A host with `sets` sockets, mounts, automounts and services in slices of 100 sets, and a few
/// units that the rest waits for.
pub fn host(subject: Subject, sets: usize, seed: u64) -> Sample {
    let mut numbers = Numbers(seed);
    let mut units = vec![
        unit("local-fs.target", 400, &[]),
        unit("network.service", 180_000, &[0]),
        unit("database.service", 640_000, &[1]),
        unit("sockets.target", 300, &[0]),
        unit("multi-user.target", 500, &[2, 3]),
    ];
    units[2].killed = true;
    for set in 0..sets {
        if set % 100 == 0 {
            units.push(unit(&format!("test-{}.slice", set / 100), 200, &[]));
        }
        let slice = 5 + set / 100 * 401;
        let spread = |numbers: &mut Numbers, floor: u64| {
            let slow = if numbers.below(50) == 0 { 20 } else { 1 };
            (floor + numbers.below(floor * 3)) * slow
        };
        let first = units.len();
        let socket = spread(&mut numbers, 300);
        units.push(unit(&format!("test-nginx-{set}.socket"), socket, &[slice]));
        units.push(unit(&format!("test-{set}.mount"), spread(&mut numbers, 1_500), &[0]));
        units.push(unit(&format!("test-{set}.automount"), spread(&mut numbers, 200), &[0]));
        let service = spread(&mut numbers, 4_000);
        let after = [first, first + 1, 1];
        units.push(unit(&format!("test-nginx-{set}.service"), service, &after));
        units[first + 3].slice = Some(slice);
        units[first + 3].killed = numbers.below(400) == 0;
        units[4].after.push(first + 3);
    }
    Sample { subject, units, plan_us: 12_000, latency_us: 15, begin_us: 3_000_000 }
}

fn unit(name: &str, own_us: u64, after: &[usize]) -> SampleUnit {
    let name = name.to_owned();
    SampleUnit { name, slice: None, own_us, after: after.to_vec(), killed: false }
}

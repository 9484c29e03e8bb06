//! How long the end had to take: the longest chain of stops, and of starts that are a part of the end, each
//! released by the one before it.
//!
//! Made of what the machine says happened, not of the order that files state: a unit that nobody
//! waited for is on no chain.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use warren_core::happening::{Happening, What};
use warren_core::ids::{JobId, UnitId};
use warren_core::job::JobKind;
use warren_core::time::Monotonic;
use warren_trace::event::{Event, NO_UNIT, What as Recorded};
use warren_trace::words::Work;

/// SIGKILL's number, as it is recorded.
const SIGKILL: u8 = 9;

/// The stops so far, and the starts.
#[derive(Debug, Default)]
pub struct Stops {
    runs: BTreeMap<JobId, Run>,
    /// The last of each unit.
    last: BTreeMap<UnitId, JobId>,
    stopped: BTreeSet<UnitId>,
    killed: BTreeSet<UnitId>,
}

#[derive(Clone, Copy, Debug)]
struct Run {
    unit: UnitId,
    began: Monotonic,
    ended: Option<Monotonic>,
    released_by: Option<JobId>,
}

/// What the end came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Units that were stopped.
    pub units: usize,
    /// Time on the longest chain that was spent by the units themselves, stopped or started.
    pub critical: Duration,
    /// The unit that took longest, and how long.
    pub longest: Option<(UnitId, Duration)>,
    /// Units of which processes were killed.
    pub killed: usize,
}

impl Stops {
    /// Hears what happened.
    pub fn hear(&mut self, happenings: &[Happening]) {
        for happening in happenings {
            let (unit, at) = (happening.unit, happening.at);
            match happening.what {
                What::JobBegan { job, kind, released_by } if counts(kind) => {
                    self.begin(unit, job, kind == JobKind::Stop, at, released_by);
                }
                What::JobEnded { job, .. } => self.end(job, at),
                _ => {}
            }
        }
    }

    fn begin(
        &mut self,
        unit: UnitId,
        job: JobId,
        is_stop: bool,
        began: Monotonic,
        released_by: Option<UnitId>,
    ) {
        let released_by = released_by.and_then(|other| self.last.get(&other).copied());
        self.runs.insert(job, Run { unit, began, ended: None, released_by });
        self.last.insert(unit, job);
        if is_stop {
            self.stopped.insert(unit);
        }
    }

    fn end(&mut self, job: JobId, at: Monotonic) {
        if let Some(run) = self.runs.get_mut(&job) {
            run.ended = Some(at);
        }
    }

    /// SIGKILL has met processes of a unit.
    pub fn killed(&mut self, unit: UnitId) {
        self.killed.insert(unit);
    }

    /// Takes up what an earlier manager recorded of the same end.
    pub fn recall(&mut self, events: &[Event]) {
        let mut jobs = BTreeMap::new();
        for event in events {
            let (unit, at) = (UnitId(event.unit), Monotonic(event.time_us));
            match event.what() {
                Some(Recorded::JobQueued {
                    job, work: work @ (Work::Stop | Work::Start), ..
                }) => {
                    jobs.insert(job, work == Work::Stop);
                }
                Some(Recorded::JobReleased { job, .. }) => {
                    if let Some(&is_stop) = jobs.get(&job) {
                        let released_by = (event.cause != NO_UNIT).then_some(UnitId(event.cause));
                        self.begin(unit, JobId(job), is_stop, at, released_by);
                    }
                }
                Some(Recorded::JobEnded { job, .. }) => self.end(JobId(job), at),
                Some(Recorded::Signal { signal: SIGKILL, .. }) if event.unit != NO_UNIT => {
                    self.killed(unit);
                }
                _ => {}
            }
        }
    }

    /// What it came to.
    pub fn summary(&self) -> Summary {
        let took = |run: &Run| run.ended.map(|at| at.since(run.began));
        let longest = self.runs.values().filter_map(|run| Some((run.unit, took(run)?)));
        Summary {
            units: self.stopped.len(),
            critical: self.critical(),
            longest: longest.max_by_key(|&(unit, time)| (time, std::cmp::Reverse(unit))),
            killed: self.killed.len(),
        }
    }

    /// Back from the one that ended last, along who released whom. Each counts until the next one began.
    fn critical(&self) -> Duration {
        let ended = |(job, run): (&JobId, &Run)| Some((run.ended?, run.unit, *job));
        let mut at = self.runs.iter().filter_map(ended).max().map(|(_, _, job)| job);
        let (mut sum, mut until) = (Duration::ZERO, Monotonic(u64::MAX));
        // Each is released by one that began before it; the count is a bound all the same.
        for _ in 0..self.runs.len() {
            let Some(run) = at.and_then(|job| self.runs.get(&job)) else { break };
            sum += run.ended.map_or(Duration::ZERO, |end| end.min(until).since(run.began));
            until = until.min(run.began);
            at = run.released_by;
        }
        sum
    }
}

/// Whether the end takes as long as such a job: a stop, or a start that is a part of it.
fn counts(kind: JobKind) -> bool {
    matches!(kind, JobKind::Stop | JobKind::Start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_core::job::JobResult;
    use warren_core::reason::Reason;
    use warren_trace::words::{Asked, Ending, Release};

    /// The same, as the ring has it, among what never began.
    fn recorded(of: &Of, began_us: u64, ended_us: u64, released_by: Option<u32>) -> [Event; 5] {
        let (asked, by, ending) = (Asked::Manager, Release::AtOnce, Ending::Done);
        let queued = |job, work| Recorded::JobQueued { job, work, asked, uid: 0, pid: 0 };
        let event = |time_us, cause: Option<u32>, what| {
            Event::new(time_us, of.unit, cause.unwrap_or(NO_UNIT), what)
        };
        let work = if of.is_stop { Work::Stop } else { Work::Start };
        [
            event(began_us, None, queued(of.job, work)),
            event(began_us, None, queued(of.job + 100, Work::Start)),
            event(began_us, released_by, Recorded::JobReleased { job: of.job, by }),
            event(ended_us, None, Recorded::JobEnded { job: of.job, ending, reason: 90 }),
            event(ended_us + 1, None, Recorded::JobEnded { job: of.job + 100, ending, reason: 10 }),
        ]
    }

    struct Of {
        unit: u32,
        job: u32,
        is_stop: bool,
    }

    /// `UNIT BEGAN ENDED RELEASED-BY` in milliseconds; of a start, 1000 more than the unit.
    fn check(jobs: &[(u32, u64, u64, Option<u32>)], want: (usize, u64, Option<(u32, u64)>)) {
        let (mut heard, mut recalled) = (Stops::default(), Stops::default());
        let of = |number: u32| (UnitId(number % 1000), number < 1000);
        for (&(number, began, ended, released_by), id) in jobs.iter().zip(1..) {
            let released_by = released_by.map(|other| of(other).0);
            let (unit, is_stop) = of(number);
            let kind = if is_stop { JobKind::Stop } else { JobKind::Start };
            let (of, cause) = (Of { unit: unit.0, job: id, is_stop }, released_by.map(|by| by.0));
            recalled.recall(&recorded(&of, began * 1000, ended * 1000, cause));
            let job = JobId(id);
            let (result, reason) = (JobResult::Done, Reason::default());
            let at = |ms: u64| Monotonic(ms * 1000);
            heard.hear(&[
                Happening { at: at(began), unit, what: What::JobBegan { job, kind, released_by } },
                Happening {
                    at: at(ended),
                    unit,
                    what: What::JobEnded { job, kind, result, reason },
                },
            ]);
        }
        let summary = heard.summary();
        assert_eq!(recalled.summary(), summary, "{jobs:?}");
        let ms = |time: Duration| time.as_millis() as u64;
        let longest = summary.longest.map(|(unit, time)| (unit.0, ms(time)));
        assert_eq!((summary.units, ms(summary.critical), longest), want, "{jobs:?}");
    }

    #[test]
    fn a_unit_that_is_killed_twice_counts_once_and_stragglers_are_none() {
        let kill = |unit| {
            let what = Recorded::Signal { signal: SIGKILL, pid: 0, count: 1 };
            Event::new(1, unit, NO_UNIT, what)
        };
        let mut stops = Stops::default();
        stops.killed(UnitId(3));
        stops.recall(&[kill(3), kill(4), kill(4), kill(NO_UNIT)]);
        assert_eq!(stops.summary().killed, 2);
    }

    #[test]
    fn the_chain_is_that_of_releases() {
        check(&[], (0, 0, None));
        check(&[(1, 0, 40, None), (2, 0, 30, None)], (2, 40, Some((1, 40))));
        // The manager took 5 ms between the two: that is not the units' own time.
        check(&[(1, 0, 40, None), (2, 45, 75, Some(1)), (3, 0, 60, None)], (3, 70, Some((3, 60))));
        // No moment counts twice.
        check(&[(1, 0, 40, None), (2, 30, 60, Some(1))], (2, 60, Some((1, 40))));
    }
    #[test]
    fn what_is_started_as_a_part_of_the_end_counts_for_its_time() {
        let stop_and_start =
            [(1, 0, 40, None), (1002, 41, 141, Some(1)), (1003, 141, 141, Some(2))];
        check(&stop_and_start, (1, 140, Some((2, 100))));
        // Of a unit that was stopped and is started again, each is a link of its own.
        let both = [(1, 0, 40, None), (2, 40, 50, Some(1)), (1001, 50, 60, Some(2))];
        check(&both, (2, 60, Some((1, 40))));
    }
}

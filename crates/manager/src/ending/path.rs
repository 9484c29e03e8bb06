//! How long the end had to take: the longest chain of stops, each released by the one before it.
//!
//! Made of what the machine says happened, not of the order that files state: a unit that nobody
//! waited for is on no chain.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use warren_core::happening::{Happening, What};
use warren_core::ids::UnitId;
use warren_core::job::JobKind;
use warren_core::time::Monotonic;
use warren_trace::event::{Event, NO_UNIT, What as Recorded};
use warren_trace::words::Work;

/// SIGKILL's number, as it is recorded.
const SIGKILL: u8 = 9;

/// The stops so far.
#[derive(Debug, Default)]
pub struct Stops {
    stops: BTreeMap<UnitId, Stop>,
    killed: BTreeSet<UnitId>,
}

#[derive(Clone, Copy, Debug)]
struct Stop {
    began: Monotonic,
    ended: Option<Monotonic>,
    released_by: Option<UnitId>,
}

/// What the end came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Units that were stopped.
    pub units: usize,
    /// Time on the longest chain that was spent by the units themselves.
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
                What::JobBegan { kind: JobKind::Stop, released_by, .. } => {
                    self.stops.insert(unit, Stop { began: at, ended: None, released_by });
                }
                What::JobEnded { kind: JobKind::Stop, .. } => {
                    if let Some(stop) = self.stops.get_mut(&unit) {
                        stop.ended = Some(at);
                    }
                }
                _ => {}
            }
        }
    }

    /// SIGKILL has met processes of a unit.
    pub fn killed(&mut self, unit: UnitId) {
        self.killed.insert(unit);
    }

    /// Takes up what an earlier manager recorded of the same end.
    pub fn recall(&mut self, events: &[Event]) {
        let mut stop_jobs = BTreeSet::new();
        for event in events {
            let (unit, at) = (UnitId(event.unit), Monotonic(event.time_us));
            match event.what() {
                Some(Recorded::JobQueued { job, work: Work::Stop, .. }) => {
                    stop_jobs.insert(job);
                }
                Some(Recorded::JobReleased { job, .. }) if stop_jobs.contains(&job) => {
                    let released_by = (event.cause != NO_UNIT).then_some(UnitId(event.cause));
                    self.stops.insert(unit, Stop { began: at, ended: None, released_by });
                }
                Some(Recorded::JobEnded { job, .. }) if stop_jobs.contains(&job) => {
                    if let Some(stop) = self.stops.get_mut(&unit) {
                        stop.ended = Some(at);
                    }
                }
                Some(Recorded::Signal { signal: SIGKILL, .. }) if event.unit != NO_UNIT => {
                    self.killed(unit);
                }
                _ => {}
            }
        }
    }

    /// What it came to.
    pub fn summary(&self) -> Summary {
        let took = |stop: &Stop| stop.ended.map(|at| at.since(stop.began));
        let longest = self.stops.iter().filter_map(|(&unit, stop)| Some((unit, took(stop)?)));
        Summary {
            units: self.stops.len(),
            critical: self.critical(),
            longest: longest.max_by_key(|&(unit, time)| (time, std::cmp::Reverse(unit))),
            killed: self.killed.len(),
        }
    }

    /// Back from the stop that ended last, along who released whom. Each counts until the next one began.
    fn critical(&self) -> Duration {
        let ended = |(unit, stop): (&UnitId, &Stop)| Some((stop.ended?, *unit));
        let mut at = self.stops.iter().filter_map(ended).max().map(|(_, unit)| unit);
        let (mut sum, mut until) = (Duration::ZERO, Monotonic(u64::MAX));
        // Each is released by one that ended before it began; the count is a bound all the same.
        for _ in 0..self.stops.len() {
            let Some(stop) = at.and_then(|unit| self.stops.get(&unit)) else { break };
            sum += stop.ended.map_or(Duration::ZERO, |end| end.min(until).since(stop.began));
            until = until.min(stop.began);
            at = stop.released_by;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_core::ids::JobId;
    use warren_core::job::JobResult;
    use warren_core::reason::Reason;
    use warren_trace::words::{Asked, Ending, Release};

    /// The same, as the ring has it, among what is no stop.
    fn recorded(unit: u32, began_us: u64, ended_us: u64, released_by: Option<u32>) -> [Event; 5] {
        let (asked, by, ending) = (Asked::Manager, Release::AtOnce, Ending::Done);
        let queued = |job, work| Recorded::JobQueued { job, work, asked, uid: 0, pid: 0 };
        let event = |time_us, cause: Option<u32>, what| {
            Event::new(time_us, unit, cause.unwrap_or(NO_UNIT), what)
        };
        [
            event(began_us, None, queued(unit, Work::Stop)),
            event(began_us, None, queued(unit + 100, Work::Start)),
            event(began_us, released_by, Recorded::JobReleased { job: unit, by }),
            event(ended_us, None, Recorded::JobEnded { job: unit, ending, reason: 90 }),
            event(ended_us + 1, None, Recorded::JobEnded { job: unit + 100, ending, reason: 10 }),
        ]
    }

    /// `UNIT BEGAN ENDED RELEASED-BY` in milliseconds.
    fn check(stops: &[(u32, u64, u64, Option<u32>)], want: (usize, u64, Option<(u32, u64)>)) {
        let (mut heard, mut recalled) = (Stops::default(), Stops::default());
        for &(unit, began, ended, released_by) in stops {
            recalled.recall(&recorded(unit, began * 1000, ended * 1000, released_by));
            let (unit, job) = (UnitId(unit), JobId(unit));
            let released_by = released_by.map(UnitId);
            let kind = JobKind::Stop;
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
        assert_eq!(recalled.summary(), summary, "{stops:?}");
        let ms = |time: Duration| time.as_millis() as u64;
        let longest = summary.longest.map(|(unit, time)| (unit.0, ms(time)));
        assert_eq!((summary.units, ms(summary.critical), longest), want, "{stops:?}");
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
}

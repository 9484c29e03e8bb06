//! Jobs that were there when a stretch of the record began: what queued and released them lies before it,
//! and is put in front with the time of its begin, so that each of them has a bar.

use std::collections::{BTreeMap, BTreeSet};

use warren_core::happening::{Happening, What as Happened};
use warren_core::job::Job;
use warren_core::time::Monotonic;
use warren_trace::event::{Event, What};

use crate::recorder::event;

/// What is put in front of a stretch, and what is still to be looked for before it.
#[derive(Debug)]
pub struct JobsBefore {
    began: Monotonic,
    found: Vec<Event>,
    /// Jobs that went on or ended in the stretch, and were queued in none that was looked through.
    sought: BTreeSet<u32>,
    /// Their releases before the stretch.
    released: BTreeMap<u32, Event>,
}

impl JobsBefore {
    /// Of a stretch with these events that began then; `jobs` are there now, or were a moment ago.
    pub fn new<'a>(
        began: Monotonic,
        events: &[Event],
        jobs: impl IntoIterator<Item = &'a Job>,
    ) -> JobsBefore {
        let [mut queued, mut released, mut sought] = <[BTreeSet<u32>; 3]>::default();
        for event in events {
            match event.what() {
                Some(What::JobQueued { job, .. }) => _ = queued.insert(job),
                Some(What::JobReleased { job, .. }) if !queued.contains(&job) => {
                    released.insert(job);
                    sought.insert(job);
                }
                Some(What::JobEnded { job, .. }) if !queued.contains(&job) => {
                    sought.insert(job);
                }
                _ => {}
            }
        }
        let mut found = Vec::new();
        let is_before = |job: &&Job| job.since <= began && !queued.contains(&job.id.0);
        for job in jobs.into_iter().filter(is_before) {
            let (unit, id, kind) = (job.unit, job.id, job.kind);
            let at = |what| event(&Happening { at: began, unit, what });
            found.push(at(Happened::JobQueued { job: id, kind, reason: job.reason }));
            if job.running && !released.contains(&id.0) {
                let released_by = job.released_by;
                found.push(at(Happened::JobBegan { job: id, kind, released_by }));
            }
            sought.remove(&id.0);
        }
        JobsBefore { began, found, sought, released: BTreeMap::new() }
    }

    /// Whether nothing is to be looked for any more.
    pub fn is_complete(&self) -> bool {
        self.sought.is_empty()
    }

    /// Looks through the events that come before all that were looked through.
    pub fn look(&mut self, earlier: &[Event]) {
        for event in earlier.iter().rev() {
            let mut event = *event;
            event.time_us = self.began.0;
            match event.what() {
                Some(What::JobReleased { job, .. }) if self.sought.contains(&job) => {
                    self.released.insert(job, event);
                }
                Some(What::JobQueued { job, .. }) if self.sought.remove(&job) => {
                    self.found.push(event);
                    self.found.extend(self.released.remove(&job));
                }
                _ => {}
            }
        }
    }

    /// What is put in front.
    pub fn events(self) -> Vec<Event> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use warren_core::ids::{JobId, UnitId};
    use warren_core::job::JobKind;
    use warren_core::reason::Reason;
    use warren_trace::event::NO_UNIT;
    use warren_trace::words::{Asked, Ending, Release, Work};

    use super::*;

    fn queued(time_us: u64, job: u32) -> Event {
        let (work, asked) = (Work::Start, Asked::Unknown);
        Event::new(time_us, job, NO_UNIT, What::JobQueued { job, work, asked, uid: 0, pid: 0 })
    }

    fn released(time_us: u64, job: u32) -> Event {
        Event::new(time_us, job, NO_UNIT, What::JobReleased { job, by: Release::AtOnce })
    }

    fn ended(time_us: u64, job: u32) -> Event {
        let what = What::JobEnded { job, ending: Ending::Done, reason: 0 };
        Event::new(time_us, job, NO_UNIT, what)
    }

    /// A job of the unit of the same number.
    fn job(number: u32, since_us: u64, running: bool) -> Job {
        Job {
            id: JobId(number),
            unit: UnitId(number),
            kind: JobKind::Start,
            running,
            irreversible: false,
            ignore_order: false,
            blockers: 0,
            released_by: None,
            since: Monotonic(since_us),
            deadline: None,
            reason: Reason::default(),
        }
    }

    #[test]
    fn what_is_there_comes_first_unless_the_stretch_has_its_begin() {
        let jobs = [job(1, 10, true), job(2, 20, false), job(3, 50, true), job(4, 30, true)];
        let events = [queued(50, 3), released(51, 3), released(60, 4)];
        let before = JobsBefore::new(Monotonic(50), &events, &jobs);
        assert!(before.is_complete());
        let expect = [queued(50, 1), released(50, 1), queued(50, 2), queued(50, 4)];
        assert_eq!(before.events(), expect);
    }

    #[test]
    fn what_ended_meanwhile_is_looked_for_before_the_stretch() {
        let events = [ended(55, 1), released(56, 2), ended(57, 2), ended(58, 9), queued(60, 5)];
        let mut before = JobsBefore::new(Monotonic(50), &events, []);
        before.look(&[queued(30, 2), released(31, 1), queued(40, 6)]);
        assert!(!before.is_complete());
        // Begun anew: its number was given before.
        before.look(&[queued(1, 1), released(2, 1), ended(3, 1), queued(3, 1), queued(9, 9)]);
        assert!(before.is_complete());
        let expect = [queued(50, 2), queued(50, 9), queued(50, 1), released(50, 1)];
        assert_eq!(before.events(), expect);
    }
}

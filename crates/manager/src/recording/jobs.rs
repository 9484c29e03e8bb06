//! Jobs that were there when a stretch of the record began: what queued and released them lies before it,
//! and is put in front with the time of its begin, so that each of them has a bar.

use std::collections::{BTreeMap, BTreeSet};

use warren_core::model::job::Job;
use warren_core::model::time::Monotonic;
use warren_core::protocol::trace_event::{Happening, What as Happened};
use warren_trace::event::{Event, What};

use crate::recording::recorder::event;

/// What is put in front of a stretch, and what is still to be looked for before it. All events since its
/// begin are followed first, then the jobs of now are told, then what came before is looked through.
#[derive(Debug)]
pub struct JobsBefore {
    began: Monotonic,
    found: Vec<Event>,
    /// Jobs that were queued since the stretch began.
    queued: BTreeSet<u32>,
    /// Others that were released since.
    let_go: BTreeSet<u32>,
    /// Jobs that went on or ended since, and were queued in nothing that was looked through.
    sought: BTreeSet<u32>,
    /// Their releases before the stretch.
    released: BTreeMap<u32, Event>,
}

impl JobsBefore {
    /// Of a stretch that began then.
    pub fn new(began: Monotonic) -> JobsBefore {
        let [queued, let_go, sought] = <[BTreeSet<u32>; 3]>::default();
        JobsBefore { began, found: Vec::new(), queued, let_go, sought, released: BTreeMap::new() }
    }

    /// Follows the next events since the stretch began: its own, then those that came after it.
    pub fn follow(&mut self, events: &[Event]) {
        for event in events {
            match event.what() {
                Some(What::JobQueued { job, .. }) => _ = self.queued.insert(job),
                Some(What::JobReleased { job, .. }) if !self.queued.contains(&job) => {
                    self.let_go.insert(job);
                    self.sought.insert(job);
                }
                Some(What::JobEnded { job, .. }) if !self.queued.contains(&job) => {
                    self.sought.insert(job);
                }
                _ => {}
            }
        }
    }

    /// Takes the jobs that are there now, or were a moment ago: who is as old as the stretch was then what it
    /// is now, but for its release.
    pub fn take_present<'a>(&mut self, jobs: impl IntoIterator<Item = &'a Job>) {
        for job in jobs {
            let (unit, id, kind) = (job.unit, job.id, job.kind);
            if job.since > self.began || self.queued.contains(&id.0) {
                continue;
            }
            let at = |what| event(&Happening { at: self.began, unit, what });
            self.found.push(at(Happened::JobQueued { job: id, kind, reason: job.reason }));
            if job.running && !self.let_go.contains(&id.0) {
                let released_by = job.released_by;
                self.found.push(at(Happened::JobBegan { job: id, kind, released_by }));
            }
            self.sought.remove(&id.0);
        }
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
    use warren_core::model::ids::{JobId, UnitId};
    use warren_core::model::job::JobKind;
    use warren_core::model::reason::Reason;
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
            ignores: warren_core::model::job::Ignores::default(),
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
        let mut before = JobsBefore::new(Monotonic(50));
        before.follow(&events);
        before.take_present(&jobs);
        assert!(before.is_complete());
        let expect = [queued(50, 1), released(50, 1), queued(50, 2), queued(50, 4)];
        assert_eq!(before.events(), expect);
    }

    #[test]
    fn what_came_after_a_stretch_tells_who_was_there_and_who_still_waited() {
        let mut before = JobsBefore::new(Monotonic(50));
        before.follow(&[]);
        // After the stretch: 1 ends, 2 is let go, 3 ends and begins anew.
        before.follow(&[ended(70, 1), released(71, 2), ended(72, 3), queued(72, 3)]);
        before.take_present(&[job(2, 20, true), job(3, 72, true)]);
        assert!(!before.is_complete());
        before.look(&[queued(10, 1), released(11, 1), queued(12, 3), released(13, 3)]);
        assert!(before.is_complete());
        let expect =
            [queued(50, 2), queued(50, 3), released(50, 3), queued(50, 1), released(50, 1)];
        assert_eq!(before.events(), expect);
    }

    #[test]
    fn what_ended_meanwhile_is_looked_for_before_the_stretch() {
        let events = [ended(55, 1), released(56, 2), ended(57, 2), ended(58, 9), queued(60, 5)];
        let mut before = JobsBefore::new(Monotonic(50));
        before.follow(&events);
        before.look(&[queued(30, 2), released(31, 1), queued(40, 6)]);
        assert!(!before.is_complete());
        // Begun anew: its number was given before.
        before.look(&[queued(1, 1), released(2, 1), ended(3, 1), queued(3, 1), queued(9, 9)]);
        assert!(before.is_complete());
        let expect = [queued(50, 2), queued(50, 9), queued(50, 1), released(50, 1)];
        assert_eq!(before.events(), expect);
    }
}

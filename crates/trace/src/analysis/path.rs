//! The critical path: which unit waited for which, from the end back to the beginning.
//!
//! Walked over recorded releases. Every µs between the beginning and the end falls to exactly one
//! part: a unit's own time, a wait for something outside, nothing to do, or the manager. So the
//! parts of the headline add up to the total, whatever was recorded. A job that nothing recorded held
//! before it was asked for may have been asked for by what was under way then (a service that connects
//! to a socket): the path goes on with that, and only time in which nothing was under way belongs to no unit.
//! A stretch of time has no such beginning: its path ends there, and what was under way before is a part of
//! its own.

use super::links::Links;
use super::timeline::{Bar, Timeline};
use crate::words::{Release, Subject, Work};

/// One bar of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The bar.
    pub bar: u32,
    /// When it ran, in µs.
    pub from_us: u64,
    /// Until when, in µs.
    pub until_us: u64,
    /// Between what held it, or its request, and `from_us`.
    pub gap_us: u64,
    /// What it waited for last.
    pub by: Release,
}

impl Step {
    /// The unit's own time.
    pub fn own_us(&self) -> u64 {
        self.until_us - self.from_us
    }
}

/// Where the total went, in µs. The parts add up to the total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Units of the path, while they ran.
    pub units_us: u64,
    /// Pauses before restarts, and other waits that neither a unit nor the manager could hasten.
    pub outside_us: u64,
    /// Before the path of a stretch of time began, other work was in progress.
    pub before_us: u64,
    /// Nothing that was asked for was under way.
    pub idle_us: u64,
    /// The rest: the manager.
    pub manager_us: u64,
}

impl Parts {
    /// All of it.
    pub fn total_us(&self) -> u64 {
        self.units_us + self.outside_us + self.before_us + self.idle_us + self.manager_us
    }

    /// The critical path: what of it would be left with a manager that costs nothing.
    pub fn path_us(&self) -> u64 {
        self.units_us + self.outside_us
    }
}

/// The critical path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// From the first to the last.
    pub steps: Vec<Step>,
    /// Where the total went.
    pub parts: Parts,
}

impl Path {
    /// The path of a recording of `subject`.
    pub fn of(subject: Subject, timeline: &Timeline, links: &Links) -> Path {
        let mut walk = Walk::new(subject, timeline);
        // What is still under way at the end of a stretch of time is what it is about; and what a shutdown
        // did not wait for any more has held it up.
        let is_open = |bar: &u32| timeline.bars[*bar as usize].is_under_way();
        let open = walk.under_way().filter(is_open);
        let mut next = open.or_else(|| goal(subject, timeline));
        // A holder ended before the bar that it held began, and what is under way began before the
        // moment that is looked at, so this ends by itself.
        while let Some(bar) = next {
            walk.unasked_to(timeline.bars[bar as usize].went_on_until_us(timeline.end_us));
            let holder = links.holder[bar as usize];
            walk.step(bar, holder);
            // What went on before in a stretch of time was for other reasons.
            walk.is_before |= holder.is_none() && subject == Subject::Live;
            next = holder.or_else(|| walk.under_way());
        }
        walk.finish()
    }

    /// The bar that ended last, or is still under way.
    pub fn goal(&self) -> Option<u32> {
        self.steps.last().map(|step| step.bar)
    }

    /// Whether the bar is on the path.
    pub fn has(&self, bar: u32) -> bool {
        self.steps.iter().any(|step| step.bar == bar)
    }
}

/// The bar that the whole waited for: the last one that ran and ended within the recording.
fn goal(subject: Subject, timeline: &Timeline) -> Option<u32> {
    let bars = timeline.bars.iter().enumerate();
    let within = bars.filter(|(_, bar)| counts(subject, timeline, bar));
    let ended = within.filter_map(|(index, bar)| Some((bar.until?, index as u32)));
    ended.max().map(|(_, index)| index)
}

/// Whether the whole waits for such a bar: a shutdown waits for stops and for starts that are a part of it, a
/// boot for everything but stops, and all for what ran within the recording, also if it was given up after it had begun.
pub(super) fn counts(subject: Subject, timeline: &Timeline, bar: &Bar) -> bool {
    let is_waited_for = match subject {
        Subject::Boot => !bar.work.is_stopping(),
        Subject::Shutdown => bar.work.is_stopping() || bar.work == Work::Start,
        Subject::Reload | Subject::Live => true,
    };
    let inside = timeline.begin_us..=timeline.end_us;
    is_waited_for && bar.until.is_some_and(|until| inside.contains(&until.time_us))
}

/// Goes back in time; what lies behind `cursor_us` is accounted for.
struct Walk<'a> {
    timeline: &'a Timeline,
    subject: Subject,
    cursor_us: u64,
    /// The path is complete; what was under way before is counted.
    is_before: bool,
    path: Path,
    /// By their begin, which bar of those that had begun until then lasted longest.
    lasting: Vec<(u64, u32)>,
}

/// See [`Walk::lasting`].
fn lasting(subject: Subject, timeline: &Timeline) -> Vec<(u64, u32)> {
    let bars = timeline.bars.iter().zip(0..);
    let bars = bars.filter(|(bar, _)| counts(subject, timeline, bar));
    let mut begun: Vec<(u64, u32)> = bars.map(|(bar, index)| (bar.start_us(), index)).collect();
    begun.sort_unstable();
    let end_us = |bar: u32| timeline.bars[bar as usize].went_on_until_us(timeline.end_us);
    let mut longest = None;
    for (_, bar) in &mut begun {
        let had = *longest.get_or_insert(*bar);
        longest = Some(if end_us(*bar) > end_us(had) { *bar } else { had });
        *bar = longest.unwrap_or(*bar);
    }
    begun
}

impl<'a> Walk<'a> {
    fn new(subject: Subject, timeline: &'a Timeline) -> Walk<'a> {
        let cursor_us = timeline.end_us.max(timeline.begin_us);
        let lasting = lasting(subject, timeline);
        Walk { timeline, subject, cursor_us, is_before: false, path: Path::default(), lasting }
    }

    /// The bar that was under way at the cursor, or the last one before it. Of several the one that lasted
    /// longest.
    fn under_way(&self) -> Option<u32> {
        if self.cursor_us <= self.timeline.begin_us {
            return None;
        }
        let before = self.lasting.partition_point(|&(start_us, _)| start_us < self.cursor_us);
        self.lasting[..before].last().map(|&(_, bar)| bar)
    }

    /// Moves back to `to_us`, not past the beginning; how far that was.
    fn back_to(&mut self, to_us: u64) -> u64 {
        let to_us = to_us.clamp(self.timeline.begin_us, self.cursor_us);
        let moved = self.cursor_us - to_us;
        self.cursor_us = to_us;
        moved
    }

    /// Takes the time back to there in which no job of the path was under way: within a boot, a
    /// reload or a shutdown the manager must have had its reasons, unless it says what it waited for.
    fn unasked_to(&mut self, to_us: u64) {
        let until_us = self.cursor_us;
        let moved = self.back_to(to_us);
        let outside = self.outside_us(self.cursor_us, until_us).min(moved);
        self.path.parts.outside_us += outside;
        match self.subject {
            Subject::Live => self.path.parts.idle_us += moved - outside,
            _ => self.path.parts.manager_us += moved - outside,
        }
    }

    /// How long the manager waited meanwhile for what is no unit's.
    fn outside_us(&self, from_us: u64, until_us: u64) -> u64 {
        let spans = self.timeline.spans.iter().filter(|span| span.phase.is_outside());
        let within =
            spans.map(|span| span.until_us.min(until_us).saturating_sub(span.from_us.max(from_us)));
        within.fold(0, u64::saturating_add)
    }

    /// Takes one bar: its own time, then the gap back to what held it or to its request.
    fn step(&mut self, index: u32, holder: Option<u32>) {
        let bar = &self.timeline.bars[index as usize];
        let by = bar.start.map_or(Release::AtOnce, |start| start.by);
        let until_us = self.cursor_us;
        let own_us = self.back_to(bar.ran_from_us(until_us));
        let from_us = self.cursor_us;
        let held_until = match holder {
            Some(holder) => self.timeline.bars[holder as usize].end_us(from_us),
            // It was given up while it waited: for what was under way then.
            None if bar.start.is_none() => from_us,
            None => bar.queued.time_us,
        };
        let gap_us = self.back_to(held_until);
        let parts = &mut self.path.parts;
        if by.is_outside() && !self.is_before {
            parts.outside_us += gap_us;
        } else if by.is_outside() {
            parts.before_us += gap_us;
        } else {
            parts.manager_us += gap_us;
        }
        if self.is_before {
            parts.before_us += own_us;
            return;
        }
        parts.units_us += own_us;
        self.path.steps.push(Step { bar: index, from_us, until_us, gap_us, by });
    }

    fn finish(mut self) -> Path {
        self.unasked_to(self.timeline.begin_us);
        self.path.steps.reverse();
        self.path
    }
}

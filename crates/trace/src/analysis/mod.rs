//! What can be learned from a recording.
//!
//! [`timeline`] makes bars of events: one for every job and every change that a unit made by
//! itself. [`links`] finds which bar waited for which, [`path`] the critical path and the headline,
//! [`float`] how late each bar could have been and what would be without a unit, [`blockers`] who
//! cost most, [`compare`] what differs between two recordings, [`repeat`] how much times differ
//! between many.
//!
//! Everything is a function of the recording alone. What must not be here: a guess from the order
//! of unit files about who waited for whom; a wait is what was recorded as one.

pub mod blockers;
pub mod compare;
pub mod float;
pub mod links;
pub mod path;
pub mod repeat;
#[cfg(test)]
mod tests;
pub mod timeline;

use crate::record::{Damage, Recording};
use float::Float;
use links::Links;
use path::Path;
use timeline::Timeline;

/// A recording and all that follows from it.
#[derive(Debug)]
pub struct Analysis<'a> {
    /// The recording.
    pub recording: &'a Recording,
    /// What of it could not be read.
    pub damage: Damage,
    /// Its bars.
    pub timeline: Timeline,
    /// Which bar waited for which.
    pub links: Links,
    /// The critical path.
    pub path: Path,
    /// How late each bar could have ended.
    pub float: Float,
}

impl<'a> Analysis<'a> {
    /// Analyses a recording: linear in events and edges, but for sorting.
    pub fn of(recording: &'a Recording) -> Analysis<'a> {
        let timeline = Timeline::of(recording);
        let links = Links::of(recording, &timeline);
        let path = Path::of(recording.head.subject, &timeline, &links);
        let float = Float::of(&timeline, &links, path.goal());
        let damage = Damage::default();
        Analysis { recording, damage, timeline, links, path, float }
    }

    /// The same of a recording that was read from a file.
    pub fn of_file((recording, damage): &'a (Recording, Damage)) -> Analysis<'a> {
        Analysis { damage: *damage, ..Analysis::of(recording) }
    }

    /// Whether it came to its end, that was recorded, and all of it could be read.
    pub fn is_whole(&self) -> bool {
        let came_to_its_end = self.timeline.is_over && !self.timeline.is_given_up;
        came_to_its_end && self.damage == Damage::default()
    }

    /// The name of a row.
    pub fn name(&self, row: u32) -> &str {
        self.timeline.rows.get(row as usize).map_or("", |row| row.name.as_str())
    }

    /// What would be saved without a unit's own time, in µs: how much earlier the last of all that
    /// was waited for would have ended.
    pub fn saved_without_us(&self, row: u32) -> u64 {
        float::saved_us(self.recording.head.subject, &self.timeline, &self.links, row)
    }
}

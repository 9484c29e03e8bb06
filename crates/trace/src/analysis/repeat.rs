//! How much times differ between many recordings of one subject: for the whole and for each unit
//! the least, the median and the most.
//!
//! How long all took is known of whole recordings only, as of a shutdown whose end could not be written;
//! what a unit did that came to an end counts in any.
//!
//! Recordings are taken in one by one, so that only one of them need be in memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Analysis;
use super::compare::{own_times, path_names};
use super::timeline::Bar;

/// The least, the median and the most of some times, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// The least.
    pub min_us: u64,
    /// The one in the middle; of an even number the mean of the two in the middle.
    pub median_us: u64,
    /// The most.
    pub max_us: u64,
}

impl Spread {
    /// Of no times all are 0.
    fn of(times_us: &[u64]) -> Spread {
        let mut sorted = times_us.to_vec();
        sorted.sort_unstable();
        let at = |index: usize| sorted.get(index).copied().unwrap_or(0);
        let (lower, upper) = (at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2));
        let max_us = at(sorted.len().saturating_sub(1));
        Spread { min_us: at(0), median_us: lower + upper.saturating_sub(lower) / 2, max_us }
    }

    /// From the least to the most, in µs.
    pub fn range_us(self) -> u64 {
        self.max_us - self.min_us
    }
}

/// One unit in all recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitSpread {
    /// Its own time, where it ran and what it did came to an end.
    pub own: Spread,
    /// In how many recordings that was so.
    pub runs: usize,
    /// In how many it was on the critical path.
    pub on_path: usize,
}

/// Times of many recordings.
#[derive(Clone, Debug, Default)]
pub struct Repeats {
    count: usize,
    totals_us: Vec<u64>,
    paths_us: Vec<u64>,
    managers_us: Vec<u64>,
    own_us: BTreeMap<String, Vec<u64>>,
    on_path: BTreeMap<String, usize>,
}

impl Repeats {
    /// Takes one recording in.
    pub fn add(&mut self, analysis: &Analysis<'_>) {
        self.count += 1;
        if analysis.is_whole() {
            let parts = analysis.path.parts;
            self.totals_us.push(parts.total_us());
            self.paths_us.push(parts.path_us());
            self.managers_us.push(parts.manager_us);
        }
        for (name, own_us) in own_times(analysis, Bar::has_run) {
            self.own_us.entry(name.to_owned()).or_default().push(own_us);
        }
        let mut names = path_names(analysis);
        names.dedup();
        for name in names {
            *self.on_path.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// How many were taken in.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many of them are whole.
    pub fn whole(&self) -> usize {
        self.totals_us.len()
    }

    /// From begin to end, of those that are whole; so are the next two.
    pub fn total(&self) -> Spread {
        Spread::of(&self.totals_us)
    }

    /// The critical path.
    pub fn path(&self) -> Spread {
        Spread::of(&self.paths_us)
    }

    /// The manager's part.
    pub fn manager(&self) -> Spread {
        Spread::of(&self.managers_us)
    }

    /// What is known of a unit; none if nothing that it did came to an end in any of them.
    pub fn unit(&self, name: &str) -> Option<UnitSpread> {
        let own_us = self.own_us.get(name)?;
        let on_path = self.on_path.get(name).copied().unwrap_or(0);
        Some(UnitSpread { own: Spread::of(own_us), runs: own_us.len(), on_path })
    }

    /// All units, by how far their times lie apart, then by name.
    pub fn units(&self) -> Vec<(&str, UnitSpread)> {
        let names = self.own_us.keys().map(String::as_str);
        let mut units: Vec<_> = names.filter_map(|name| Some((name, self.unit(name)?))).collect();
        units.sort_by_key(|(_, unit)| Reverse(unit.own.range_us()));
        units
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::What;
    use crate::record::Damage;
    use crate::sample::host;
    use crate::words::Subject;

    #[test]
    fn of_times_the_least_the_middle_and_the_most_are_told() {
        for (times, want) in [
            (&[][..], (0, 0, 0)),
            (&[7], (7, 7, 7)),
            (&[9, 1], (1, 5, 9)),
            (&[9, 1, 2], (1, 2, 9)),
            (&[u64::MAX, u64::MAX - 2], (u64::MAX - 2, u64::MAX - 1, u64::MAX)),
        ] {
            let Spread { min_us, median_us, max_us } = Spread::of(times);
            assert_eq!((min_us, median_us, max_us), want, "{times:?}");
        }
    }

    #[test]
    fn a_unit_counts_where_it_did_something() {
        let mut repeats = Repeats::default();
        for (own_us, sets) in [(640_000, 0), (100_000, 1), (300_000, 0)] {
            let mut sample = host(Subject::Boot, sets, 1);
            sample.units[2].own_us = own_us;
            repeats.add(&Analysis::of(&sample.record()));
        }
        let database = repeats.unit("database.service").expect("it is in all");
        let own = Spread { min_us: 100_000, median_us: 300_000, max_us: 640_000 };
        assert_eq!(database, UnitSpread { own, runs: 3, on_path: 3 });
        assert_eq!(repeats.unit("test-0.mount").map(|unit| unit.runs), Some(1));
        assert_eq!(repeats.unit("other.service"), None);
        assert_eq!(repeats.units()[0], ("database.service", database));
        assert_eq!((repeats.count(), repeats.whole()), (3, 3));
        assert_eq!(repeats.total().range_us(), 540_000);
    }

    #[test]
    fn a_unit_that_never_ran_or_was_not_over_has_no_time_of_nothing() {
        let mut repeats = Repeats::default();
        let recording = host(Subject::Boot, 0, 1).record();
        repeats.add(&Analysis::of(&recording));
        for lacks in [
            |what: What| matches!(what, What::JobReleased { job: 2, .. }),
            |what: What| matches!(what, What::JobEnded { job: 2, .. }),
        ] {
            let mut recording = recording.clone();
            recording.events.retain(|event| !event.what().is_some_and(lacks));
            repeats.add(&Analysis::of(&recording));
        }
        let own = Spread { min_us: 640_000, median_us: 640_000, max_us: 640_000 };
        let database = repeats.unit("database.service").expect("it ran once");
        assert_eq!((database.own, database.runs), (own, 1));
        assert_eq!(repeats.unit("network.service").map(|unit| unit.runs), Some(3));
    }

    #[test]
    fn how_long_all_took_is_of_whole_recordings_only() {
        let mut repeats = Repeats::default();
        let recording = host(Subject::Shutdown, 0, 1).record();
        let whole = Analysis::of(&recording);
        repeats.add(&whole);
        repeats.add(&Analysis { damage: Damage { blocks: 1, ..Damage::default() }, ..whole });
        let mut cut = recording.clone();
        let half = cut.events.len() / 2;
        cut.events.truncate(half);
        repeats.add(&Analysis::of(&cut));
        assert_eq!((repeats.count(), repeats.whole()), (3, 1));
        let spreads = [repeats.total(), repeats.path(), repeats.manager()];
        assert_eq!(spreads.map(Spread::range_us), [0, 0, 0]);
        assert!(repeats.total().min_us > 0);
        let runs = |name| repeats.unit(name).map(|unit| unit.runs);
        assert_eq!(runs("multi-user.target"), Some(3), "it was down before the cut");
        assert_eq!(runs("local-fs.target"), Some(2));
    }
}

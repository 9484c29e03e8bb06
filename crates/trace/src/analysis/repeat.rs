//! How much times differ between many recordings of one subject: for the whole and for each unit
//! the least, the median and the most.
//!
//! Recordings are taken in one by one, so that only one of them need be in memory.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Analysis;
use super::compare::{own_times, path_names};

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
    /// Its own time, where it did something.
    pub own: Spread,
    /// In how many recordings it did something.
    pub runs: usize,
    /// In how many it was on the critical path.
    pub on_path: usize,
}

/// Times of many recordings.
#[derive(Clone, Debug, Default)]
pub struct Repeats {
    totals_us: Vec<u64>,
    paths_us: Vec<u64>,
    managers_us: Vec<u64>,
    own_us: BTreeMap<String, Vec<u64>>,
    on_path: BTreeMap<String, usize>,
}

impl Repeats {
    /// Takes one recording in.
    pub fn add(&mut self, analysis: &Analysis<'_>) {
        let parts = analysis.path.parts;
        self.totals_us.push(parts.total_us());
        self.paths_us.push(parts.path_us());
        self.managers_us.push(parts.manager_us);
        for (name, own_us) in own_times(analysis) {
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
        self.totals_us.len()
    }

    /// From begin to end.
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

    /// What is known of a unit; none if it did nothing in any of them.
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
        assert_eq!(repeats.count(), 3);
        assert_eq!(repeats.total().range_us(), 540_000);
    }
}

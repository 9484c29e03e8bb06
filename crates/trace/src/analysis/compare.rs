//! What differs between two recordings: phase by phase, and unit by unit, the largest difference first.

use std::collections::BTreeMap;

use super::Analysis;
use super::timeline::Bar;
use crate::words::Phase;

/// One unit in both recordings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The unit's name.
    pub name: String,
    /// Its own time in the first recording, in µs; none when nothing was asked of it there.
    pub a_us: Option<u64>,
    /// Its own time in the second recording, in µs; none when nothing was asked of it there.
    pub b_us: Option<u64>,
    /// On the critical path of the first, of the second.
    pub on_path: (bool, bool),
}

impl Difference {
    /// How much longer it took in the second recording, in µs. A unit that is not in a recording
    /// took no time there.
    pub fn delta_us(&self) -> i64 {
        self.b_us.unwrap_or(0) as i64 - self.a_us.unwrap_or(0) as i64
    }
}

/// One phase in both recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseDifference {
    /// The phase.
    pub phase: Phase,
    /// How long it took in the first recording, all its turns together, in µs.
    pub a_us: Option<u64>,
    /// The same of the second recording.
    pub b_us: Option<u64>,
}

impl PhaseDifference {
    /// How much longer it took in the second recording, in µs.
    pub fn delta_us(&self) -> i64 {
        self.b_us.unwrap_or(0) as i64 - self.a_us.unwrap_or(0) as i64
    }
}

/// The phases of both, in the order in which they begin in the first, then what only the second has.
pub fn phases(a: &Analysis<'_>, b: &Analysis<'_>) -> Vec<PhaseDifference> {
    let spans = |analysis: &Analysis<'_>| analysis.timeline.spans.clone();
    let mut out: Vec<PhaseDifference> = Vec::new();
    for (span, is_b) in
        spans(a).iter().map(|s| (s, false)).chain(spans(b).iter().map(|s| (s, true)))
    {
        let at = out.iter().position(|known| known.phase == span.phase).unwrap_or_else(|| {
            out.push(PhaseDifference { phase: span.phase, a_us: None, b_us: None });
            out.len() - 1
        });
        let sum = if is_b { &mut out[at].b_us } else { &mut out[at].a_us };
        let took_us = span.until_us.saturating_sub(span.from_us);
        *sum = Some(sum.unwrap_or(0).saturating_add(took_us));
    }
    out
}

/// All units of both, by the size of their difference, then by name.
pub fn differences(a: &Analysis<'_>, b: &Analysis<'_>) -> Vec<Difference> {
    let (mut first, mut second) = (own_times(a, |_| true), own_times(b, |_| true));
    let (path_a, path_b) = (path_names(a), path_names(b));
    let mut names: Vec<&str> = first.keys().chain(second.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let difference = |name: &str| Difference {
        name: name.to_owned(),
        a_us: first.remove(name),
        b_us: second.remove(name),
        on_path: (path_a.binary_search(&name).is_ok(), path_b.binary_search(&name).is_ok()),
    };
    let mut out: Vec<Difference> = names.into_iter().map(difference).collect();
    out.sort_by_key(|difference| std::cmp::Reverse(difference.delta_us().unsigned_abs()));
    out
}

/// Own time of all bars of each unit that count, by name.
pub(super) fn own_times<'a>(
    analysis: &'a Analysis<'_>,
    counts: impl Fn(&Bar) -> bool,
) -> BTreeMap<&'a str, u64> {
    let mut out = BTreeMap::new();
    for bar in analysis.timeline.bars.iter().filter(|bar| counts(bar)) {
        let own_us: &mut u64 = out.entry(analysis.name(bar.row)).or_default();
        *own_us = own_us.saturating_add(bar.own_us());
    }
    out
}

pub(super) fn path_names<'a>(analysis: &'a Analysis<'_>) -> Vec<&'a str> {
    let row = |bar: u32| analysis.timeline.bars[bar as usize].row;
    let steps = analysis.path.steps.iter();
    let mut names: Vec<&str> = steps.map(|step| analysis.name(row(step.bar))).collect();
    names.sort_unstable();
    names
}

//! Which bar waited for which.
//!
//! Two sources. The recorded release of a bar names the unit that held it last: that is the bar's
//! *holder*, and the critical path uses nothing else. The order between units tells who else held
//! it: a bar waited for another when the order says so and the other ended while it waited. What-if
//! and float need both, because without its holder a bar would have run when the next to last let
//! it go.

use super::timeline::{Bar, Timeline};
use crate::record::Recording;
use crate::words::Work;

/// Bars with the bars that they waited for.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// For each bar the bar that held it last, as recorded.
    pub holder: Vec<Option<u32>>,
    /// For each bar all that it waited for, ascending, its holder among them.
    pub waited_for: Vec<Vec<u32>>,
}

impl Links {
    /// Finds them: for each bar, its holder and the bars of units that the order names.
    pub fn of(recording: &Recording, timeline: &Timeline) -> Links {
        let bars_of = bars_by_row(timeline);
        let (after, before) = neighbours(recording);
        let holder = timeline.bars.iter().map(|bar| holder(timeline, &bars_of, bar));
        let holder: Vec<Option<u32>> = holder.collect();
        let waited_for = timeline.bars.iter().zip(&holder).map(|(bar, holder)| {
            let mut found: Vec<u32> = holder.iter().copied().collect();
            let mut add = |row: &u32, only_stops: bool| {
                let others = bars_of[*row as usize].iter().copied();
                found.extend(others.filter(|other| {
                    let other = &timeline.bars[*other as usize];
                    (!only_stops || other.work.is_stopping()) && ended_while_waiting(other, bar)
                }));
            };
            let row = bar.row as usize;
            if !bar.work.is_stopping() {
                after[row].iter().for_each(|row| add(row, false));
            }
            before[row].iter().for_each(|row| add(row, true));
            found.sort_unstable();
            found.dedup();
            found
        });
        let waited_for = waited_for.collect();
        Links { holder, waited_for }
    }
}

fn bars_by_row(timeline: &Timeline) -> Vec<Vec<u32>> {
    let mut out = vec![Vec::new(); timeline.rows.len()];
    for (index, bar) in timeline.bars.iter().enumerate() {
        out[bar.row as usize].push(index as u32);
    }
    out
}

/// For each row the rows that it starts after, and the rows that start after it.
fn neighbours(recording: &Recording) -> (Vec<Vec<u32>>, Vec<Vec<u32>>) {
    let row_of = |id: &u32| recording.units.binary_search_by_key(id, |unit| unit.id).ok();
    let mut after = vec![Vec::new(); recording.units.len()];
    let mut before = after.clone();
    for (unit, other) in &recording.edges {
        if let (Some(unit), Some(other)) = (row_of(unit), row_of(other)) {
            after[unit].push(other as u32);
            before[other].push(unit as u32);
        }
    }
    (after, before)
}

/// The bar of the releasing unit that ended last before the release. Who failed with another was held by
/// that one.
fn holder(timeline: &Timeline, bars_of: &[Vec<u32>], bar: &Bar) -> Option<u32> {
    let (let_go, edge) = bar.let_go()?;
    let candidates = bars_of[edge? as usize].iter().copied();
    let ended = candidates.filter_map(|other| {
        let end = timeline.bars[other as usize].end?.at;
        (end.event < let_go.event && end.time_us <= let_go.time_us).then_some((end, other))
    });
    ended.max().map(|(_, other)| other)
}

fn ended_while_waiting(other: &Bar, bar: &Bar) -> bool {
    let (Some(end), Some((let_go, _))) = (other.end, bar.let_go()) else { return false };
    other.work != Work::Own
        && end.at.event > bar.queued.event
        && end.at.event < let_go.event
        && end.at.time_us <= let_go.time_us
}

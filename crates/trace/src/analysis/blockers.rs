//! Who cost most: one row for each unit that others waited for or that ran long.

use super::Analysis;

/// Units of the path for which is computed what would be without them: those with most time on it.
/// Each costs a walk over all bars, and a path may have as many units as there are bars. Without a
/// unit no more can be saved than its time on the path, so that those left out count least.
pub const SAVED_MAX: usize = 100;

/// What one unit cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocker {
    /// Its row.
    pub row: u32,
    /// Its own time on the critical path, in µs.
    pub path_us: u64,
    /// What would be saved without it, in µs; 0 for units that are not on the path, or not among the
    /// first [`SAVED_MAX`].
    pub saved_us: u64,
    /// Its own time in all its bars, in µs.
    pub own_us: u64,
    /// Bars that it released last, or that failed with it.
    pub released: u32,
    /// How long those waited, taken together, in µs.
    pub waited_us: u64,
    /// The smallest slack of its bars, in µs.
    pub slack_us: Option<u64>,
    /// SIGKILLs that it got.
    pub kills: u32,
    /// What it did goes on where the recording ends.
    pub is_under_way: bool,
}

/// All units that did something, those that cost most first: time on the path, then own time, then
/// name.
pub fn blockers(analysis: &Analysis<'_>) -> Vec<Blocker> {
    let rows = analysis.timeline.rows.len() as u32;
    let mut table: Vec<Blocker> =
        (0..rows).map(|row| Blocker { row, ..Blocker::default() }).collect();
    let mut has_bar = vec![false; table.len()];
    for (index, bar) in analysis.timeline.bars.iter().enumerate() {
        has_bar[bar.row as usize] = true;
        let entry = &mut table[bar.row as usize];
        entry.own_us = entry.own_us.saturating_add(bar.own_us());
        entry.kills += bar.kills;
        entry.is_under_way |= bar.is_under_way();
        let slack = [entry.slack_us, analysis.float.slack_us[index]];
        entry.slack_us = slack.into_iter().flatten().min();
        if let Some((let_go, Some(edge))) = bar.let_go() {
            table[edge as usize].released += 1;
            let waited_us = &mut table[edge as usize].waited_us;
            let waited = let_go.time_us.saturating_sub(bar.queued.time_us);
            *waited_us = waited_us.saturating_add(waited);
        }
    }
    for step in &analysis.path.steps {
        let row = analysis.timeline.bars[step.bar as usize].row;
        table[row as usize].path_us += step.own_us();
    }
    table.retain(|entry| has_bar[entry.row as usize]);
    table.sort_by(|a, b| {
        let cost = |entry: &Blocker| (entry.path_us, entry.own_us);
        let by_name = || analysis.name(a.row).cmp(analysis.name(b.row));
        cost(b).cmp(&cost(a)).then_with(by_name)
    });
    for entry in table.iter_mut().take(SAVED_MAX).filter(|entry| entry.path_us > 0) {
        entry.saved_us = analysis.saved_without_us(entry.row);
    }
    table
}

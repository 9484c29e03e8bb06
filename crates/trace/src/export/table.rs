//! The text: headline, where the time went, the critical path, who cost most. What one greps.

use super::json::put;
use super::show::{self, time};
use crate::analysis::Analysis;
use crate::analysis::blockers::{Blocker, blockers};
use crate::analysis::compare::{Difference, differences, phases as phases_of_both};
use crate::analysis::path::Step;
use crate::analysis::repeat::{Repeats, Spread};
use crate::words::{Ending, Release};

/// Rows of the tables of blockers and differences.
const ROWS_MAX: usize = 40;

/// Phases that are listed; of more, the longest.
const SPANS_MAX: usize = 100;

/// Phases within each other that are told apart; a width is a number of 16 bits.
const DEPTH_MAX: u32 = 32;

/// Steps of the critical path that are listed; of a longer path, the last.
const STEPS_MAX: usize = 100;

/// A recording as text.
pub fn table(analysis: &Analysis<'_>) -> String {
    let mut out = show::headline(analysis);
    out.push('\n');
    remarks(&mut out, analysis);
    parts(&mut out, analysis);
    phases(&mut out, analysis);
    steps(&mut out, analysis);
    worst(&mut out, analysis);
    out
}

/// A recording as text, and then how its times differ from those of others of its subject. It is one of
/// `repeats` itself.
pub fn repeated(analysis: &Analysis<'_>, repeats: &Repeats) -> String {
    let mut out = table(analysis);
    let (subject, count) = (analysis.recording.head.subject.text(), repeats.count());
    put(&mut out, format_args!("\nThe last {subject}s, {} of them\n", show::count(count as u64)));
    show::not_whole(repeats).iter().for_each(|text| put(&mut out, format_args!("{text}\n")));
    let [least, median, most] = ["least", "median", "most"];
    if repeats.whole() > 0 {
        put(&mut out, format_args!("{least:>12} {median:>11} {most:>11}\n"));
        for (spread, name) in [
            (repeats.total(), "total"),
            (repeats.path(), "critical path"),
            (repeats.manager(), "the manager"),
        ] {
            out.push_str(&spread_text(spread));
            put(&mut out, format_args!("  {name}\n"));
        }
    }
    let units = repeats.units();
    if units.is_empty() {
        return out;
    }
    let [ran, path] = ["ran in", "on path"];
    put(&mut out, format_args!("\n{least:>12} {median:>11} {most:>11} {ran:>9} {path:>9}  unit\n"));
    for (name, unit) in units.iter().take(ROWS_MAX) {
        let (ran, path) = (unit.runs, unit.on_path);
        let own = spread_text(unit.own);
        put(&mut out, format_args!("{own} {ran:>9} {path:>9}  {name}\n"));
    }
    more_units(&mut out, units.len());
    out
}

fn spread_text(spread: Spread) -> String {
    let (least, median, most) = (time(spread.min_us), time(spread.median_us), time(spread.max_us));
    format!("{least:>12} {median:>11} {most:>11}")
}

/// How many of a table are left out.
fn more_units(out: &mut String, all: usize) {
    if all > ROWS_MAX {
        let rest = show::count((all - ROWS_MAX) as u64);
        put(out, format_args!("{:>12} {rest} more units\n", "..."));
    }
}

/// Two recordings as text: both headlines, phases, then units by the size of their difference.
pub fn compared(a: &Analysis<'_>, b: &Analysis<'_>) -> String {
    let mut out = String::new();
    for (letter, analysis) in [("A", a), ("B", b)] {
        put(&mut out, format_args!("{letter}: {}\n", show::headline(analysis)));
        remarks(&mut out, analysis);
    }
    let (total_a, total_b) = (a.path.parts.total_us(), b.path.parts.total_us());
    let delta = total_b as i64 - total_a as i64;
    put(&mut out, format_args!("B took {} A.\n", longer(delta)));
    let phases = phases_of_both(a, b);
    if !phases.is_empty() {
        heading(&mut out, "phase");
        phases.iter().for_each(|row| {
            difference(&mut out, (row.a_us, row.b_us), row.delta_us(), row.phase.text());
        });
    }
    // One that was cut may have none, which nobody left.
    let have_paths = [a, b].iter().all(|one| !one.path.steps.is_empty());
    let all = differences(a, b);
    if all.is_empty() {
        return out;
    }
    heading(&mut out, "unit");
    for row in all.iter().filter(|row| row.a_us != row.b_us).take(ROWS_MAX) {
        let name = format!("{}{}", row.name, note(row, have_paths));
        difference(&mut out, (row.a_us, row.b_us), row.delta_us(), &name);
    }
    let same = all.iter().filter(|row| row.a_us == row.b_us).count();
    put(&mut out, format_args!("{same} of {} units took the same time.\n", all.len()));
    out
}

fn heading(out: &mut String, of: &str) {
    put(out, format_args!("\n{:>12} {:>11} {:>11}  {of}\n", "difference", "A", "B"));
}

fn longer(delta_us: i64) -> String {
    let took = time(delta_us.unsigned_abs());
    match delta_us {
        ..0 => format!("{took} shorter than"),
        0 => "as long as".to_owned(),
        1.. => format!("{took} longer than"),
    }
}

/// What became of a unit between two recordings; of the critical path, if both have one.
fn note(row: &Difference, have_paths: bool) -> &'static str {
    match (row.a_us, row.b_us, row.on_path) {
        (None, _, _) => "  new",
        (_, None, _) => "  vanished",
        (_, _, (false, true)) if have_paths => "  now on the critical path",
        (_, _, (true, false)) if have_paths => "  no longer on the critical path",
        _ => "",
    }
}

fn difference(
    out: &mut String,
    (a_us, b_us): (Option<u64>, Option<u64>),
    delta_us: i64,
    name: &str,
) {
    let shown = |us: Option<u64>| us.map_or("-".to_owned(), time);
    let (a, b, delta) = (shown(a_us), shown(b_us), signed(delta_us));
    put(out, format_args!("{delta:>12} {a:>11} {b:>11}  {name}\n"));
}

fn signed(delta_us: i64) -> String {
    let sign = match delta_us {
        ..0 => "-",
        0 => "",
        1.. => "+",
    };
    format!("{sign}{}", time(delta_us.unsigned_abs()))
}

fn parts(out: &mut String, analysis: &Analysis<'_>) {
    let parts = analysis.path.parts;
    let all = [
        (parts.units_us, "units of the critical path"),
        (parts.outside_us, show::outside(analysis.recording.head.subject)),
        (parts.before_us, show::BEFORE),
        (parts.idle_us, "no unit was requested"),
        (parts.manager_us, "the manager"),
    ];
    let total = parts.total_us().max(1);
    for (us, name) in all.into_iter().filter(|(us, _)| *us > 0) {
        let percent = us as f64 * 100.0 / total as f64;
        put(out, format_args!("{:>12}  {percent:>5.1} %  {name}\n", time(us)));
    }
}

fn remarks(out: &mut String, analysis: &Analysis<'_>) {
    show::remarks(analysis).iter().for_each(|text| put(out, format_args!("{text}\n")));
}

fn phases(out: &mut String, analysis: &Analysis<'_>) {
    let timeline = &analysis.timeline;
    if timeline.spans.is_empty() {
        return;
    }
    let shown = show::spans(analysis, SPANS_MAX);
    match timeline.spans.len() - shown.len() {
        0 => out.push_str("\nPhases of the manager\n"),
        _ => {
            let all = show::count(timeline.spans.len() as u64);
            put(out, format_args!("\nPhases of the manager, the longest {SPANS_MAX} of {all}\n"));
        }
    }
    for span in shown {
        let indent = span.depth.min(DEPTH_MAX) as usize * 2;
        let at = time(span.from_us.saturating_sub(timeline.begin_us));
        let took = time(span.until_us.saturating_sub(span.from_us));
        let name = span.phase.text();
        put(out, format_args!("{at:>12} {took:>11}  {:indent$}{name}", ""));
        if span.detail > 0 {
            put(out, format_args!(" ({})", show::count(span.detail)));
        }
        out.push('\n');
    }
}

fn steps(out: &mut String, analysis: &Analysis<'_>) {
    let steps = &analysis.path.steps;
    if steps.is_empty() {
        return;
    }
    out.push_str("\nCritical path\n");
    let (at, waited, own) = ("at", "before", "own time");
    put(out, format_args!("{at:>12} {waited:>11} {own:>11}  unit\n"));
    let left_out = steps.len().saturating_sub(STEPS_MAX);
    if left_out > 0 {
        put(out, format_args!("{:>12} {left_out} steps before these are not shown\n", "..."));
    }
    steps[left_out..].iter().for_each(|one| step(out, analysis, one));
}

fn step(out: &mut String, analysis: &Analysis<'_>, step: &Step) {
    let bar = &analysis.timeline.bars[step.bar as usize];
    let at = time(step.from_us - analysis.timeline.begin_us);
    let (gap, own) = (time(step.gap_us), time(step.own_us()));
    let (name, work) = (analysis.name(bar.row), bar.work.text());
    put(out, format_args!("{at:>12} {gap:>11} {own:>11}  {name} {work}"));
    if step.by != Release::Unit && step.by != Release::AtOnce {
        put(out, format_args!(", waited for {}", step.by.text()));
    }
    if let Some(end) = bar.end.filter(|_| show::has_failed(bar)) {
        let reason = analysis.recording.reason(end.reason);
        let ending = if show::is_failure(end.ending) { end.ending } else { Ending::Failed };
        put(out, format_args!(", {}: {reason}", ending.text()));
    }
    match (bar.kills, bar.last_pid) {
        (0, _) => {}
        // Not known, or the kernel holds it.
        (_, 0) => out.push_str(", KILLED"),
        (_, pid) => put(out, format_args!(", KILLED (last process {pid})")),
    }
    if bar.is_under_way() {
        out.push_str(", still under way");
    }
    out.push('\n');
}

fn worst(out: &mut String, analysis: &Analysis<'_>) {
    let table = blockers(analysis);
    if table.is_empty() {
        return;
    }
    out.push_str("\nWho cost most\n");
    let heads = ["without it", "own time", "slack", "released", "waited"];
    let [saved, own, slack, released, waited] = heads;
    put(out, format_args!("{saved:>12} {own:>11} {slack:>11} {released:>9} {waited:>11}  unit\n"));
    table.iter().take(ROWS_MAX).for_each(|row| blocker(out, analysis, row));
    more_units(out, table.len());
}

fn blocker(out: &mut String, analysis: &Analysis<'_>, row: &Blocker) {
    let saved = match row.path_us {
        0 => "-".to_owned(),
        _ => signed(-(row.saved_us as i64)),
    };
    let slack = row.slack_us.map_or("-".to_owned(), time);
    let (own, waited, name) = (time(row.own_us), time(row.waited_us), analysis.name(row.row));
    let released = show::count(row.released.into());
    let killed = if row.kills > 0 { "  KILLED" } else { "" };
    let open = if row.is_under_way { "  still under way" } else { "" };
    put(
        out,
        format_args!(
            "{saved:>12} {own:>11} {slack:>11} {released:>9} {waited:>11}  {name}{killed}{open}\n"
        ),
    );
}

//! A picture of fixed size for reports: phases, the critical path, the longest units, and how much
//! of all others ran at each time.
//!
//! Every text has a place of its own: names left of the plot, one row each; lengths right of the last
//! bar of a row, for which there is room behind the plot; who let a bar go on its waiting part, where
//! that is long enough. The font is monospaced, so that widths are known. A unit has one row, however
//! often it was started.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::show::{self, time};
use crate::analysis::Analysis;
use crate::analysis::timeline::Bar;
use crate::words::{Release, Subject, Work};

/// Width of the picture, in pixels.
const WIDTH: f64 = 1200.0;

/// Where the plot begins and ends, in pixels.
const PLOT: (f64, f64) = (330.0, 1070.0);

/// Height of a row, in pixels.
const ROW: f64 = 18.0;

/// Height of the band of the others, in pixels.
const BAND: f64 = 48.0;

/// Width of a character of the font of 11 pixels.
const CHARACTER: f64 = 6.7;

/// Characters of a name that fit left of the plot.
const NAME_CHARACTERS: usize = 46;

/// Rows of the critical path that are shown; of a longer one, the last.
const STEPS_MAX: usize = 40;

/// Rows of the longest units that are not on the path.
const LONGEST_MAX: usize = 25;

/// Rows of phases; of more, the longest.
const SPANS_MAX: usize = 25;

/// Columns of the band of the others.
const COLUMNS: usize = 170;

const STYLE: &str = "\
text{font:11px ui-monospace,'DejaVu Sans Mono',monospace;fill:#1c2024}\
.bg{fill:#fff}.h{font-size:13px;font-weight:bold}.m{fill:#5d6672}.g{stroke:#e3e6ea}\
.w{fill:#c6ccd3}.r{fill:#3b7dd8}.c{fill:#e07b00}.f{fill:#d1242f}.s{fill:#8a63d2}.p{fill:#1a9b8e}\
.o{fill:#b58900}\
@media(prefers-color-scheme:dark){text{fill:#e3e6ea}.bg{fill:#15181c}.m{fill:#9aa4b0}\
.g{stroke:#2b3138}.w{fill:#4a525c}.r{fill:#5b9bf0}.c{fill:#ff9d2e}.f{fill:#ff6b6b}.s{fill:#a98cf0}.p{fill:#3ec3b4}\
.o{fill:#d9b440}}";

/// A recording as a picture.
pub fn svg(analysis: &Analysis<'_>) -> String {
    let timeline = &analysis.timeline;
    let total_us = timeline.end_us.saturating_sub(timeline.begin_us).max(1);
    let mut picture = Picture {
        body: String::new(),
        y: ROW / 2.0,
        begin_us: timeline.begin_us,
        per_us: (PLOT.1 - PLOT.0) / total_us as f64,
    };
    picture.head(analysis);
    picture.legend();
    let axis = picture.y;
    picture.y += ROW;
    picture.spans(analysis);
    let shown = picture.path(analysis);
    let shown = picture.longest(analysis, shown);
    picture.others(analysis, &shown);
    picture.axis(axis, total_us);
    picture.finish()
}

struct Picture {
    body: String,
    /// Where the next row begins, in pixels.
    y: f64,
    begin_us: u64,
    /// Pixels for each µs.
    per_us: f64,
}

impl Picture {
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.body.write_fmt(text).expect("a string grows");
        self.body.push('\n');
    }

    fn x(&self, us: u64) -> f64 {
        (PLOT.0 + us.saturating_sub(self.begin_us) as f64 * self.per_us).min(PLOT.1)
    }

    fn text(&mut self, x: f64, class: &str, text: &str) {
        let (y, text) = (self.y + ROW - 5.0, escaped(text));
        self.put(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>"));
    }

    fn rect(&mut self, class: &str, (from, until): (f64, f64), (top, height): (f64, f64)) {
        let (y, width) = (self.y + top, (until - from).max(1.0));
        self.put(format_args!(
            "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             class=\"{class}\"/>"
        ));
    }

    fn head(&mut self, analysis: &Analysis<'_>) {
        let headline = show::headline(analysis);
        for line in wrapped(&headline, ((WIDTH - 40.0) / 8.0) as usize) {
            self.text(20.0, "h", &line);
            self.y += ROW;
        }
        let head = &analysis.recording.head;
        let host = format!("{}, Linux {}, Warrener {}", head.host, head.kernel, head.version);
        self.text(20.0, "m", &host);
        self.y += ROW;
        for remark in show::remarks(analysis) {
            self.text(20.0, "h", &remark);
            self.y += ROW;
        }
    }

    fn legend(&mut self) {
        let mut x = 20.0;
        let entries = [
            ("w", "waits"),
            ("c", "runs, critical path"),
            ("r", "runs"),
            ("s", "stops"),
            ("o", "by itself"),
            ("f", "failed or killed"),
            ("p", "the manager"),
        ];
        for (class, text) in entries {
            self.rect(class, (x, x + 12.0), (4.0, 10.0));
            self.text(x + 17.0, "m", text);
            x += 17.0 + (text.len() as f64 + 3.0) * CHARACTER;
        }
        self.y += ROW * 1.5;
    }

    /// A line of its own above rows.
    fn title(&mut self, text: &str) {
        self.y += ROW / 2.0;
        self.text(20.0, "h", text);
        self.y += ROW;
    }

    /// A name left of the plot, further in by `depth`.
    fn name(&mut self, depth: usize, name: &str) {
        let most = NAME_CHARACTERS.saturating_sub(depth * 2).max(1);
        let shown = match name.char_indices().nth(most - 1) {
            Some((end, last)) if name.len() > end + last.len_utf8() => format!("{}…", &name[..end]),
            _ => name.to_owned(),
        };
        self.text(20.0 + depth as f64 * 2.0 * CHARACTER, "", &shown);
    }

    /// A text behind the end of a row's last bar; there is room for it behind the plot.
    fn note(&mut self, until: f64, text: &str) {
        self.text(until + 4.0, "m", text);
    }

    /// Who let a bar go, on the part in which it waited; false where there is no room.
    fn released(&mut self, (from, until): (f64, f64), text: &str) -> bool {
        let left = until - 4.0 - text.chars().count() as f64 * CHARACTER;
        if left - 6.0 < from {
            return false;
        }
        self.rect("bg", (left - 3.0, until - 2.0), (2.0, 14.0));
        self.text(left, "m", text);
        true
    }

    /// Phases in the order in which they began: all, or the longest of many.
    fn spans(&mut self, analysis: &Analysis<'_>) {
        let spans = &analysis.timeline.spans;
        if spans.is_empty() {
            return;
        }
        let shown = show::spans(analysis, SPANS_MAX);
        self.title(&match spans.len() - shown.len() {
            0 => "Phases".to_owned(),
            _ => format!("Phases, the longest {SPANS_MAX} of {}", show::count(spans.len() as u64)),
        });
        for span in shown {
            let (from, until) = (self.x(span.from_us), self.x(span.until_us));
            self.name(span.depth as usize, span.phase.text());
            self.rect("p", (from, until), (4.0, 10.0));
            self.note(until, &time(span.until_us.saturating_sub(span.from_us)));
            self.y += ROW;
        }
    }

    /// Rows of the critical path; the bars shown.
    fn path(&mut self, analysis: &Analysis<'_>) -> Vec<u32> {
        let steps = &analysis.path.steps;
        let from = steps.len().saturating_sub(STEPS_MAX);
        if steps.is_empty() {
            return Vec::new();
        }
        self.title(&match from {
            0 => "Critical path".to_owned(),
            _ => format!("Critical path, its last {STEPS_MAX} of {} steps", steps.len()),
        });
        let shown: Vec<u32> = steps[from..].iter().map(|step| step.bar).collect();
        shown.iter().for_each(|bar| self.row(analysis, &[*bar]));
        shown
    }

    /// Rows of the units that took longest in bars that are not yet shown; all bars shown.
    fn longest(&mut self, analysis: &Analysis<'_>, mut shown: Vec<u32>) -> Vec<u32> {
        let bars = &analysis.timeline.bars;
        let mut of_row: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for bar in (0..bars.len() as u32).filter(|bar| !shown.contains(bar)) {
            of_row.entry(bars[bar as usize].row).or_default().push(bar);
        }
        let mut rest: Vec<Vec<u32>> = of_row.into_values().collect();
        rest.sort_by_key(|of| std::cmp::Reverse(own_us(analysis, of)));
        rest.truncate(LONGEST_MAX);
        if rest.is_empty() {
            return shown;
        }
        rest.sort_by_key(|of| bars[of[0] as usize].start_us());
        self.title("Longest of the others");
        rest.iter().for_each(|of| self.row(analysis, of));
        shown.extend(rest.into_iter().flatten());
        shown
    }

    /// The row of a unit with these of its bars. Of what lies within a pixel the first is drawn, and
    /// what failed or was killed.
    fn row(&mut self, analysis: &Analysis<'_>, of: &[u32]) {
        let bars = &analysis.timeline.bars;
        let end_us = analysis.timeline.end_us;
        let Some(first) = of.first().map(|bar| &bars[*bar as usize]) else { return };
        self.name(0, analysis.name(first.row));
        let (mut drawn, mut drawn_failed) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
        let mut last = PLOT.0;
        for index in of {
            let bar = &bars[*index as usize];
            let queued = self.x(bar.queued.time_us);
            let (from, until) = (self.x(bar.ran_from_us(end_us)), self.x(bar.end_us(end_us)));
            last = last.max(until);
            let class = class(analysis, *index, bar);
            let before = if class == "f" { &mut drawn_failed } else { &mut drawn };
            if until < *before + 1.0 {
                continue;
            }
            *before = until;
            if from > queued {
                self.rect("w", (queued, from), (7.0, 4.0));
            }
            if bar.start.is_some() || class == "f" {
                self.rect(class, (from, until), (3.0, 12.0));
            }
        }
        let mut note = took(analysis, of);
        let held = first.start.filter(|start| of.len() == 1 && start.by != Release::AtOnce);
        if let Some(start) = held {
            let text = format!("after {}", show::held_by(analysis, &start));
            let waited = (self.x(first.queued.time_us), self.x(start.at.time_us));
            if !self.released(waited, &text) {
                // Where the wait is short there may be room behind the bar.
                let both = format!("{note}, {text}");
                let fits = last + 8.0 + both.chars().count() as f64 * CHARACTER < WIDTH;
                note = if fits { both } else { note };
            }
        }
        self.note(last, &note);
        self.y += ROW;
    }

    /// How many of the bars that have no row ran at each time.
    fn others(&mut self, analysis: &Analysis<'_>, shown: &[u32]) {
        let mut shown = shown.to_vec();
        shown.sort_unstable();
        let bars = analysis.timeline.bars.iter().enumerate();
        let others: Vec<&Bar> = bars
            .filter(|(index, _)| shown.binary_search(&(*index as u32)).is_err())
            .map(|(_, bar)| bar)
            .collect();
        if others.is_empty() {
            return;
        }
        let total = show::count(others.len() as u64);
        let running = self.running(&others, analysis.timeline.end_us);
        let most = running.iter().copied().max().unwrap_or(0).max(1);
        let at_once = show::count(most.into());
        self.title(&format!("{total} others: how many ran (at most {at_once} at once)"));
        let step = (PLOT.1 - PLOT.0) / COLUMNS as f64;
        let is_shutdown = analysis.recording.head.subject == Subject::Shutdown;
        let running_class = if is_shutdown { "s" } else { "r" };
        for (column, count) in running.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            let from = PLOT.0 + column as f64 * step;
            let height = BAND * count as f64 / most as f64;
            self.rect(running_class, (from, from + step), (BAND - height, height));
        }
        self.y += BAND + ROW / 2.0;
    }

    /// How many of the bars ran at once at most within each column. What ends at a moment does not run beside
    /// what begins then, and what took no time was over before the next began.
    fn running(&self, bars: &[&Bar], end_us: u64) -> Vec<u32> {
        let column = |us| {
            let at = (self.x(us) - PLOT.0) / (PLOT.1 - PLOT.0) * COLUMNS as f64;
            (at as usize).min(COLUMNS - 1)
        };
        // By how many more run then: at the same moment ends come first, then what took no time.
        let ran = bars.iter().filter(|bar| bar.start.is_some());
        let spans = ran.map(|bar| (bar.start_us(), bar.end_us(end_us)));
        let mut changes: Vec<(u64, i32)> = spans
            .flat_map(|(from_us, until_us)| match from_us == until_us {
                true => [Some((from_us, 0)), None],
                false => [Some((from_us, 1)), Some((until_us, -1))],
            })
            .flatten()
            .collect();
        changes.sort_unstable();
        let mut out = vec![0; COLUMNS];
        let (mut running, mut last) = (0, 0);
        for (us, change) in changes {
            let at = column(us).max(last);
            out[last + 1..=at].fill(running);
            running += change;
            let passes = i32::from(change == 0);
            out[at] = out[at].max(running + passes);
            last = at;
        }
        out.into_iter().map(|count| count.max(0) as u32).collect()
    }

    /// Times above and lines through all rows that were drawn.
    fn axis(&mut self, top: f64, total_us: u64) {
        let step = step_us(total_us);
        let bottom = std::mem::replace(&mut self.y, top);
        for tick in (0..=total_us / step).map(|n| n * step) {
            let x = PLOT.0 + tick as f64 * self.per_us;
            let label = if tick == 0 { "0".to_owned() } else { tick_label(tick) };
            let width = label.len() as f64 * CHARACTER;
            self.text((x - width / 2.0).min(WIDTH - width), "m", &label);
            self.put(format_args!(
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\" class=\"g\"/>",
                top + ROW
            ));
        }
        self.y = bottom;
    }

    /// Lines lie below everything that was drawn before them.
    fn finish(self) -> String {
        let height = self.y + 20.0;
        let (lines, rest): (Vec<&str>, Vec<&str>) =
            self.body.lines().partition(|line| line.starts_with("<line"));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {WIDTH} {height:.0}\">\n<style>{STYLE}</style>\n\
             <rect width=\"100%\" height=\"100%\" class=\"bg\"/>\n{}\n{}\n</svg>\n",
            lines.join("\n"),
            rest.join("\n")
        )
    }
}

/// The own times of bars together, in µs.
fn own_us(analysis: &Analysis<'_>, of: &[u32]) -> u64 {
    let own_us = of.iter().map(|bar| analysis.timeline.bars[*bar as usize].own_us());
    own_us.fold(0, u64::saturating_add)
}

/// What stands behind a row: how long its bars took, together, and what became of them.
fn took(analysis: &Analysis<'_>, of: &[u32]) -> String {
    let bars = || of.iter().map(|bar| &analysis.timeline.bars[*bar as usize]);
    let own_us = own_us(analysis, of);
    let took = match of {
        [_] if bars().all(|bar| bar.start.is_none()) => "never ran".to_owned(),
        [_] if bars().all(|bar| bar.is_under_way()) => format!("{}, not over", time(own_us)),
        [_] if bars().all(|bar| bar.end.is_none()) => "not over".to_owned(),
        [_] => time(own_us),
        _ => format!("{} in {}", time(own_us), show::count(of.len() as u64)),
    };
    let killed = if bars().any(|bar| bar.kills > 0) { " KILLED" } else { "" };
    format!("{took}{killed}")
}

fn class(analysis: &Analysis<'_>, index: u32, bar: &Bar) -> &'static str {
    if bar.kills > 0 || show::has_failed(bar) {
        "f"
    } else if analysis.path.has(index) {
        "c"
    } else if bar.work.is_stopping() {
        "s"
    } else if bar.work == Work::Own {
        "o"
    } else {
        "r"
    }
}

/// A step of 1, 2 or 5 times a power of ten that makes at most ten ticks.
fn step_us(total_us: u64) -> u64 {
    let steps = (0..19).flat_map(|power| [1, 2, 5].map(|n| n * 10u64.pow(power)));
    steps.into_iter().find(|step| total_us / step <= 10).unwrap_or(u64::MAX)
}

/// A time of the axis, without digits that are all zero.
fn tick_label(us: u64) -> String {
    let (unit, scale) = match us {
        0..1_000 => ("us", 1.0),
        1_000..1_000_000 => ("ms", 1e3),
        _ => ("s", 1e6),
    };
    format!("{} {unit}", us as f64 / scale)
}

/// Lines of at most so many characters, broken at spaces.
fn wrapped(text: &str, characters: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("one line at least");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > characters {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

/// Text within XML; characters that XML does not have are left out.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c if c < ' ' || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

//! What the page of the HTML chart reads: columns of numbers, written as JSON.
//!
//! `crates/trace/src/html/model.js` is the other side; both must change together. Times are in µs
//! from the begin of the recording; queued times are differences from one bar to the next, starts
//! and ends are lengths from what was before them. None is -1.

use super::json::{numbers, object, quoted, strings};
use super::show;
use crate::analysis::Analysis;
use crate::analysis::repeat::{Repeats, Spread};
use crate::analysis::timeline::{Bar, Row, Sample};
use crate::words::{Asked, Ending, Release, Work};

/// One recording, or two that are compared; of one, how its times differ from those of others.
pub fn data(runs: &[&Analysis<'_>], repeats: Option<&Repeats>) -> String {
    let runs = runs.iter().map(|analysis| run(analysis, repeats));
    let words = object(&[
        ("work", texts(Work::ALL.iter().map(|word| (word.number(), word.text())))),
        ("release", texts(Release::ALL.iter().map(|word| (word.number(), word.text())))),
        ("asked", texts(Asked::ALL.iter().map(|word| (word.number(), word.text())))),
        ("ending", texts(Ending::ALL.iter().map(|word| (word.number(), word.text())))),
    ]);
    object(&[("runs", numbers(runs)), ("words", words)])
}

/// Texts by number, from 0.
fn texts(words: impl Iterator<Item = (u8, &'static str)>) -> String {
    let mut out: Vec<&str> = Vec::new();
    for (number, text) in words {
        out.resize(usize::from(number), "");
        out.push(text);
    }
    strings(out)
}

fn run(analysis: &Analysis<'_>, repeats: Option<&Repeats>) -> String {
    let head = &analysis.recording.head;
    let timeline = &analysis.timeline;
    let parts = analysis.path.parts;
    let host = format!("{}, Linux {}, Warrener {}", head.host, head.kernel, head.version);
    let parts =
        [parts.units_us, parts.outside_us, parts.before_us, parts.idle_us, parts.manager_us];
    let rows = &timeline.rows;
    let open_until_us = timeline.open_until_us.map(|us| us.saturating_sub(timeline.begin_us));
    object(&[
        ("subject", quoted(head.subject.text())),
        ("headline", quoted(&show::headline(analysis))),
        ("host", quoted(&host)),
        ("total", timeline.end_us.saturating_sub(timeline.begin_us).to_string()),
        ("remarks", strings(show::remarks(analysis).iter().map(String::as_str))),
        ("parts", numbers(parts)),
        ("outside", quoted(show::outside(head.subject))),
        ("before", quoted(show::BEFORE)),
        ("inTheMidst", timeline.is_in_the_midst(head.subject).to_string()),
        ("openUntil", open_until_us.map_or(-1, |us| us as i64).to_string()),
        ("names", strings(rows.iter().map(|row| row.name.as_str()))),
        ("slices", numbers(rows.iter().map(|row| row.slice.map_or(-1, i64::from)))),
        ("counters", counters(analysis)),
        ("reasons", reasons(analysis)),
        ("bars", bars(analysis)),
        ("ups", ups(analysis)),
        ("path", numbers(analysis.path.steps.iter().map(|step| step.bar))),
        ("gaps", numbers(analysis.path.steps.iter().map(|step| step.gap_us))),
        ("spans", spans(analysis)),
        ("repeats", repeats.map_or("null".to_owned(), |repeats| spread(analysis, repeats))),
        (
            "queue",
            samples(analysis, |sample| match sample {
                Sample::BusQueue(depth) => Some(depth),
                Sample::OwnCpu(_) => None,
            }),
        ),
        (
            "cpu",
            samples(analysis, |sample| match sample {
                Sample::OwnCpu(cpu_us) => Some(cpu_us),
                Sample::BusQueue(_) => None,
            }),
        ),
    ])
}

fn bars(analysis: &Analysis<'_>) -> String {
    let bars = &analysis.timeline.bars;
    let begin_us = analysis.timeline.begin_us as i64;
    let queued = |bar: &Bar| bar.queued.time_us as i64;
    let before = std::iter::once(begin_us).chain(bars.iter().map(queued));
    let queued = bars.iter().zip(before).map(|(bar, before)| queued(bar) - before);
    let column = |value: &dyn Fn(&Bar) -> i64| numbers(bars.iter().map(value));
    let links = &analysis.links;
    let waited = links.waited_for.iter().enumerate();
    let waited = waited.flat_map(|(bar, all)| all.iter().map(move |b| bar as i64 - i64::from(*b)));
    let ran = |bar: &Bar| bar.end.map(|end| end.at.time_us.saturating_sub(bar.start_us()) as i64);
    object(&[
        ("row", column(&|bar| bar.row.into())),
        ("work", column(&|bar| bar.work.number().into())),
        ("queued", numbers(queued)),
        ("wait", column(&|bar| bar.start.map_or(-1, |_| bar.waited_us() as i64))),
        ("own", column(&|bar| ran(bar).unwrap_or(-1))),
        ("by", column(&|bar| bar.start.map_or(0, |start| start.by.number().into()))),
        ("edge", column(&|bar| bar.start.and_then(|start| start.edge).map_or(-1, i64::from))),
        ("asked", column(&|bar| bar.asked.number().into())),
        ("cause", column(&|bar| bar.cause.map_or(-1, i64::from))),
        ("ending", column(&|bar| bar.end.map_or(0, |end| end.ending.number().into()))),
        ("leftFailed", column(&|bar| bar.left_failed.into())),
        ("reason", column(&|bar| bar.end.map_or(0, |end| end.reason.into()))),
        ("kills", column(&|bar| bar.kills.into())),
        ("pid", column(&|bar| bar.last_pid.into())),
        ("holder", numbers(links.holder.iter().map(|holder| holder.map_or(-1, i64::from)))),
        ("slack", numbers(analysis.float.slack_us.iter().map(|us| us.map_or(-1, |us| us as i64)))),
        ("waitedCount", numbers(links.waited_for.iter().map(Vec::len))),
        ("waited", numbers(waited)),
    ])
}

/// `[row, cpu, memory, read, written, tasks]` for rows that have any.
fn counters(analysis: &Analysis<'_>) -> String {
    let rows = analysis.timeline.rows.iter().enumerate();
    let rows = rows.filter(|(_, row)| row.counters.iter().any(Option::is_some));
    numbers(rows.map(|(index, row)| {
        let values = row.counters.iter().map(|value| value.map_or(-1, |value| value as i64));
        numbers(std::iter::once(index as i64).chain(values))
    }))
}

/// How many recordings there are, the spreads of those that are whole, and for each row its spread with in how many
/// recordings it ran to an end and was on the critical path: `[least, median, most, ran, path]`.
fn spread(analysis: &Analysis<'_>, repeats: &Repeats) -> String {
    let three = |spread: Spread| [spread.min_us, spread.median_us, spread.max_us];
    let row = |row: &Row| match repeats.unit(&row.name) {
        Some(unit) => {
            let counts = [unit.runs as u64, unit.on_path as u64];
            numbers(three(unit.own).into_iter().chain(counts))
        }
        None => "null".to_owned(),
    };
    object(&[
        ("count", repeats.count().to_string()),
        ("whole", repeats.whole().to_string()),
        ("remark", quoted(&show::not_whole(repeats).unwrap_or_default())),
        ("total", numbers(three(repeats.total()))),
        ("path", numbers(three(repeats.path()))),
        ("manager", numbers(three(repeats.manager()))),
        ("rows", numbers(analysis.timeline.rows.iter().map(row))),
    ])
}

fn reasons(analysis: &Analysis<'_>) -> String {
    let reasons = &analysis.recording.reasons;
    let fields: Vec<(String, String)> =
        reasons.iter().map(|(code, text)| (code.to_string(), quoted(text))).collect();
    let fields: Vec<(&str, String)> =
        fields.iter().map(|(code, text)| (code.as_str(), text.clone())).collect();
    object(&fields)
}

fn ups(analysis: &Analysis<'_>) -> String {
    let ups = &analysis.timeline.ups;
    let begin_us = analysis.timeline.begin_us as i64;
    let until =
        ups.iter().map(|up| up.until_us.map_or(-1, |us| us.saturating_sub(up.from_us) as i64));
    object(&[
        ("row", numbers(ups.iter().map(|up| up.row))),
        ("from", numbers(ups.iter().map(|up| up.from_us as i64 - begin_us))),
        ("length", numbers(until)),
    ])
}

/// `[text, depth, from, until, detail]`
fn spans(analysis: &Analysis<'_>) -> String {
    let begin_us = analysis.timeline.begin_us as i64;
    numbers(analysis.timeline.spans.iter().map(|span| {
        let (from, until) = (span.from_us as i64 - begin_us, span.until_us as i64 - begin_us);
        let text = quoted(span.phase.text());
        format!("[{text},{},{from},{until},{}]", span.depth, span.detail)
    }))
}

/// `[time, value]`
fn samples(analysis: &Analysis<'_>, value: impl Fn(Sample) -> Option<u64>) -> String {
    let begin_us = analysis.timeline.begin_us as i64;
    let samples = analysis.timeline.samples.iter();
    numbers(samples.filter_map(|(time_us, sample)| {
        Some(numbers([*time_us as i64 - begin_us, value(*sample)? as i64]))
    }))
}

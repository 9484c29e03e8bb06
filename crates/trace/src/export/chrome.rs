//! Chrome's trace format, as Perfetto and chrome://tracing open it.
//!
//! A process is a slice, a thread is a slot of it: bars are packed into slots so that no two of
//! one thread overlap, because a reader puts complete events (`X`) of one thread into each other; phases
//! that cross are on several threads too.
//! Waiting is an asynchronous event (`b`, `e`) with the bar's number as id; what never ran has nothing
//! else but a mark without length at its end. A release is a flow
//! arrow (`s`, `f`) from the end of the holder to the begin of the bar; both ends lie on complete
//! events, which flows need. Events come in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::json::{object, put, quoted};
use super::show;
use crate::analysis::Analysis;
use crate::analysis::repeat::{Repeats, UnitSpread};
use crate::analysis::timeline::{Bar, Sample, Span};

/// The process of the manager.
const MANAGER: u32 = 1;

/// The process of units without a slice; those of slices follow it.
const NO_SLICE: u32 = 2;

/// A recording in Chrome's trace format.
pub fn chrome(analysis: &Analysis<'_>) -> String {
    trace(analysis, None)
}

/// The same, where each bar has the least, the median and the most of its unit's own times in many
/// recordings.
pub fn repeated(analysis: &Analysis<'_>, repeats: &Repeats) -> String {
    trace(analysis, Some(repeats))
}

fn trace(analysis: &Analysis<'_>, repeats: Option<&Repeats>) -> String {
    let places = places(analysis);
    let mut events = Events { begin_us: analysis.timeline.begin_us, lines: Vec::new() };
    names(&mut events, analysis, &places);
    spans(&mut events, analysis);
    for (index, bar) in analysis.timeline.bars.iter().enumerate() {
        waiting(&mut events, analysis, index, bar, places[index]);
        let unit = repeats.and_then(|repeats| repeats.unit(analysis.name(bar.row)));
        running(&mut events, analysis, index, unit, places[index]);
    }
    flows(&mut events, analysis, &places);
    samples(&mut events, analysis);
    events.finish(analysis, repeats)
}

/// Where a bar is shown: process and thread.
type Place = (u32, u32);

/// When each slot of a slice becomes free, in µs, and its number, the first first.
type Slots = BinaryHeap<Reverse<(u64, u32)>>;

/// Lines with what they are ordered by: time in ns, then the order within one time.
struct Events {
    begin_us: u64,
    lines: Vec<(u64, String)>,
}

impl Events {
    fn add(&mut self, kind: char, at_ns: u64, (pid, tid): Place, fields: &[(&str, String)]) {
        let ts = format!("{}.{:03}", at_ns / 1_000, at_ns % 1_000);
        let head = [
            ("ph", quoted(&kind.to_string())),
            ("ts", ts),
            ("pid", pid.to_string()),
            ("tid", tid.to_string()),
        ];
        self.lines.push((at_ns, object(&[&head, fields].concat())));
    }

    /// From µs of the recording to ns since its begin; what was before is shown at the begin.
    fn ns(&self, us: u64) -> u64 {
        us.saturating_sub(self.begin_us).saturating_mul(1_000)
    }

    fn finish(mut self, analysis: &Analysis<'_>, repeats: Option<&Repeats>) -> String {
        self.lines.sort_by_key(|(at_ns, _)| *at_ns);
        let lines: Vec<String> = self.lines.into_iter().map(|(_, line)| line).collect();
        let mut out = String::from("{\"displayTimeUnit\":\"ms\",\"otherData\":");
        let remarks = show::remarks(analysis).join(" ");
        let repeats = repeats.and_then(show::not_whole).unwrap_or_default();
        let other = [
            ("headline", show::headline(analysis)),
            ("remarks", remarks),
            ("remarks_on_all", repeats),
        ];
        let other = other.into_iter().filter(|(_, text)| !text.is_empty());
        let other: Vec<(&str, String)> = other.map(|(name, text)| (name, quoted(&text))).collect();
        let other = object(&other);
        put(&mut out, format_args!("{other},\"traceEvents\":[\n{}\n]}}\n", lines.join(",\n")));
        out
    }
}

/// A place for each bar: within its slice the slot that became free first, or a new one.
fn places(analysis: &Analysis<'_>) -> Vec<Place> {
    let timeline = &analysis.timeline;
    let mut order: Vec<usize> = (0..timeline.bars.len()).collect();
    order.sort_by_key(|bar| timeline.bars[*bar].ran_from_us(timeline.end_us));
    let mut slots: Vec<Slots> = Vec::new();
    slots.resize_with(timeline.rows.len() + 1, Slots::new);
    let mut places = vec![(NO_SLICE, 1); timeline.bars.len()];
    for index in order {
        let bar = &timeline.bars[index];
        let from_us = bar.ran_from_us(timeline.end_us);
        let slice = timeline.rows[bar.row as usize].slice.map_or(0, |row| row as usize + 1);
        let slots = &mut slots[slice];
        let free = slots.peek().filter(|Reverse((free_us, _))| *free_us <= from_us);
        let slot = match free {
            Some(Reverse((_, slot))) => *slot,
            None => slots.len() as u32 + 1,
        };
        if free.is_some() {
            slots.pop();
        }
        // A bar without a length still takes its place, or a flow to it would find two.
        let free_us = bar.end_us(timeline.end_us).max(from_us.saturating_add(1));
        slots.push(Reverse((free_us, slot)));
        places[index] = (NO_SLICE + slice as u32, slot);
    }
    places
}

fn names(events: &mut Events, analysis: &Analysis<'_>, places: &[Place]) {
    let mut name = |(pid, tid), text: &str| {
        let args = object(&[("name", quoted(text))]);
        let what = if tid == 0 { "process_name" } else { "thread_name" };
        events.add('M', 0, (pid, tid), &[("name", quoted(what)), ("args", args)]);
    };
    name((MANAGER, 0), "manager");
    let lanes = lanes(&analysis.timeline.spans).into_iter().max().unwrap_or(1);
    (1..=lanes).for_each(|lane| name((MANAGER, lane), "phases"));
    let mut pids: Vec<u32> = places.iter().map(|(pid, _)| *pid).collect();
    pids.sort_unstable();
    pids.dedup();
    for pid in pids {
        match pid.checked_sub(NO_SLICE + 1) {
            None => name((pid, 0), "units"),
            Some(row) => name((pid, 0), analysis.name(row)),
        }
    }
    let mut slots = places.to_vec();
    slots.sort_unstable();
    slots.dedup();
    for (pid, slot) in slots {
        name((pid, slot), &format!("at once: {slot}"));
    }
}

fn spans(events: &mut Events, analysis: &Analysis<'_>) {
    let spans = &analysis.timeline.spans;
    for (span, lane) in spans.iter().zip(lanes(spans)) {
        let (from, until) = (events.ns(span.from_us), events.ns(span.until_us));
        let args = object(&[("count", span.detail.to_string())]);
        let name = ("name", quoted(span.phase.text()));
        let dur = ("dur", (until.saturating_sub(from) / 1_000).to_string());
        events.add('X', from, (MANAGER, lane), &[name, dur, ("args", args)]);
    }
}

/// For each phase a thread in which all others lie within it, around it or beside it.
fn lanes(spans: &[Span]) -> Vec<u32> {
    // Of each thread, the ends of what is under way.
    let mut lanes: Vec<Vec<u64>> = Vec::new();
    let lane = |span: &Span| {
        lanes.iter_mut().for_each(|ends| ends.retain(|end| *end > span.from_us));
        let fits = |ends: &Vec<u64>| ends.last().is_none_or(|end| *end >= span.until_us);
        let lane = lanes.iter().position(fits).unwrap_or_else(|| {
            lanes.push(Vec::new());
            lanes.len() - 1
        });
        lanes[lane].push(span.until_us);
        lane as u32 + 1
    };
    spans.iter().map(lane).collect()
}

fn waiting(events: &mut Events, analysis: &Analysis<'_>, index: usize, bar: &Bar, place: Place) {
    let until_us = bar.ran_from_us(analysis.timeline.end_us);
    if until_us <= bar.queued.time_us {
        return;
    }
    let (from, until) = (events.ns(bar.queued.time_us), events.ns(until_us));
    let held = match bar.start {
        Some(start) => show::held_by(analysis, &start),
        None => "nothing: it did not run",
    };
    let name = format!("{} waits", analysis.name(bar.row));
    let args = ("args", object(&[("released by", quoted(held))]));
    let fields = [("name", quoted(&name)), ("cat", quoted("waiting")), ("id", index.to_string())];
    events.add('b', from, place, &[&fields[..], &[args]].concat());
    events.add('e', until, place, &fields);
}

fn running(
    events: &mut Events,
    analysis: &Analysis<'_>,
    index: usize,
    unit: Option<UnitSpread>,
    place: Place,
) {
    let bar = &analysis.timeline.bars[index];
    let from = events.ns(bar.ran_from_us(analysis.timeline.end_us));
    let until = events.ns(bar.end_us(analysis.timeline.end_us));
    let name = format!("{} {}", analysis.name(bar.row), bar.work.text());
    let ending = bar.end.map_or("unfinished", |end| end.ending.text());
    let reason = bar.end.map_or("", |end| analysis.recording.reason(end.reason));
    let mut args = vec![
        ("ending", quoted(ending)),
        ("reason", quoted(reason)),
        ("asked", quoted(bar.asked.text())),
        ("critical", analysis.path.has(index as u32).to_string()),
        ("killed", bar.kills.to_string()),
        ("slack_us", analysis.float.slack_us[index].map_or("null".into(), |us| us.to_string())),
    ];
    args.extend(unit.into_iter().flat_map(spread));
    let args = object(&args);
    let dur = (until.saturating_sub(from) / 1_000).to_string();
    let fields = [("name", quoted(&name)), ("cat", quoted("unit")), ("dur", dur), ("args", args)];
    events.add('X', from, place, &fields);
}

/// A unit's own times in many recordings.
fn spread(unit: UnitSpread) -> [(&'static str, String); 5] {
    [
        ("least_us", unit.own.min_us),
        ("median_us", unit.own.median_us),
        ("most_us", unit.own.max_us),
        ("ran_in", unit.runs as u64),
        ("on_path_in", unit.on_path as u64),
    ]
    .map(|(name, value)| (name, value.to_string()))
}

/// Arrows from holders to what they released. One ns before the holder's end, because a flow binds
/// to the event that lies around its time.
fn flows(events: &mut Events, analysis: &Analysis<'_>, places: &[Place]) {
    let bars = &analysis.timeline.bars;
    for (index, bar) in bars.iter().enumerate() {
        let Some(holder) = analysis.links.holder[index] else { continue };
        let before = &bars[holder as usize];
        let end = events.ns(before.end_us(analysis.timeline.end_us));
        let begin = events.ns(before.ran_from_us(analysis.timeline.end_us));
        let from = begin.max(end.saturating_sub(1));
        let until = events.ns(bar.start_us());
        // A clock that went back: an arrow cannot.
        if until < from {
            continue;
        }
        let fields =
            [("name", quoted("release")), ("cat", quoted("release")), ("id", index.to_string())];
        events.add('s', from, places[holder as usize], &fields);
        let enclosing = ("bp", quoted("e"));
        events.add('f', until, places[index], &[&fields[..], &[enclosing]].concat());
    }
}

fn samples(events: &mut Events, analysis: &Analysis<'_>) {
    for (time_us, sample) in &analysis.timeline.samples {
        let (name, value) = match sample {
            Sample::BusQueue(depth) => ("bus queue", depth),
            Sample::OwnCpu(cpu_us) => ("manager CPU, us", cpu_us),
        };
        let args = object(&[("value", value.to_string())]);
        let at = events.ns(*time_us);
        events.add('C', at, (MANAGER, 1), &[("name", quoted(name)), ("args", args)]);
    }
}

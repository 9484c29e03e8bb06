//! How late each bar could have ended, and what would be without a unit.
//!
//! Both recompute the recording as a network: a bar begins when the last of what it waited for has
//! ended, plus the time that the manager took then; it lasts as long as it lasted. Requests stay
//! where they were.

use super::links::Links;
use super::path;
use super::timeline::{Bar, Mark, Timeline};
use crate::words::Subject;

/// For each bar, how much later it could have ended without making the whole later, in µs.
#[derive(Clone, Debug, Default)]
pub struct Float {
    /// By bar; none for bars that neither ran nor failed with another, or ended after the whole.
    pub slack_us: Vec<Option<u64>>,
}

impl Float {
    /// Goes backwards over the links, from the end of `goal`.
    pub fn of(timeline: &Timeline, links: &Links, goal: Option<u32>) -> Float {
        let last_us = goal.and_then(|goal| ended_us(timeline, goal)).unwrap_or(0);
        let mut order = order(timeline);
        order.retain(|bar| ended_us(timeline, *bar).is_some_and(|end| end <= last_us));
        let mut latest: Vec<u64> = vec![last_us; timeline.bars.len()];
        for bar in order.iter().rev() {
            let own = timeline.bars[*bar as usize].own_us();
            let wait = latency_us(timeline, links, *bar);
            let needed = latest[*bar as usize].saturating_sub(own.saturating_add(wait));
            for before in &links.waited_for[*bar as usize] {
                let latest = &mut latest[*before as usize];
                *latest = needed.min(*latest);
            }
        }
        let mut slack_us = vec![None; timeline.bars.len()];
        for bar in order {
            let end = ended_us(timeline, bar).unwrap_or(last_us);
            slack_us[bar as usize] = Some(latest[bar as usize].saturating_sub(end));
        }
        Float { slack_us }
    }
}

/// How much earlier the last of the bars that the whole of `subject` waits for would have ended if no
/// bar of `row` had taken any time, in µs.
pub fn saved_us(subject: Subject, timeline: &Timeline, links: &Links, row: u32) -> u64 {
    let all = 0..timeline.bars.len() as u32;
    let mut ends: Vec<Option<u64>> = all.map(|bar| ended_us(timeline, bar)).collect();
    for bar in order(timeline) {
        let own = &timeline.bars[bar as usize];
        let before = links.waited_for[bar as usize].iter();
        let released = before.filter_map(|before| ends[*before as usize]).max();
        let begin = match released {
            Some(released) if is_outside(own) => released.max(let_go_us(own)),
            Some(released) => released.saturating_add(latency_us(timeline, links, bar)),
            None => let_go_us(own),
        };
        let takes = if own.row == row { 0 } else { own.own_us() };
        ends[bar as usize] = Some(begin.saturating_add(takes));
    }
    let waited_for = |bar: &usize| path::counts(subject, timeline, &timeline.bars[*bar]);
    let waited_for: Vec<usize> = (0..timeline.bars.len()).filter(waited_for).collect();
    let last =
        |end: &dyn Fn(usize) -> Option<u64>| waited_for.iter().filter_map(|bar| end(*bar)).max();
    let now = last(&|bar| ended_us(timeline, bar as u32)).unwrap_or(0);
    now.saturating_sub(last(&|bar| ends[bar]).unwrap_or(now))
}

/// Bars that ran and ended or are under way at the end, and those that failed with another, each after
/// all that it waited for.
fn order(timeline: &Timeline) -> Vec<u32> {
    let bars = timeline.bars.iter().enumerate();
    let mut order: Vec<(u32, u32)> = bars
        .filter(|(_, bar)| bar.let_go().is_some())
        .filter_map(|(index, bar)| Some((ended(bar)?.event, index as u32)))
        .collect();
    order.sort_unstable();
    order.into_iter().map(|(_, bar)| bar).collect()
}

fn ended(bar: &Bar) -> Option<Mark> {
    bar.until.or_else(|| bar.end.map(|end| end.at))
}

fn ended_us(timeline: &Timeline, bar: u32) -> Option<u64> {
    ended(&timeline.bars[bar as usize]).map(|end| end.time_us)
}

/// When what it waited for let it go, in µs.
fn let_go_us(bar: &Bar) -> u64 {
    bar.let_go().map_or(bar.start_us(), |(at, _)| at.time_us)
}

/// What the bar waited for last was not another bar.
fn is_outside(bar: &Bar) -> bool {
    bar.start.is_some_and(|start| start.by.is_outside())
}

/// From the last end of what the bar waited for to its begin, in µs: what the manager took. 0 when
/// it waited for no bar, or for something else longer.
fn latency_us(timeline: &Timeline, links: &Links, bar: u32) -> u64 {
    let own = &timeline.bars[bar as usize];
    let before = links.waited_for[bar as usize].iter();
    match before.filter_map(|before| ended_us(timeline, *before)).max() {
        Some(released) if !is_outside(own) => let_go_us(own).saturating_sub(released),
        _ => 0,
    }
}

//! The last events, in bounded memory: what the manager writes into as it goes.
//!
//! Events are numbered from 0; the number of an event never changes. When the ring is full the
//! oldest go, and whoever cuts a stretch out of it is told how many of that stretch are gone.

use std::collections::VecDeque;

use crate::event::{Event, NO_UNIT, What};

/// Keeps the newest events. Grows as it fills, up to its bound.
#[derive(Debug)]
pub struct Ring {
    events: VecDeque<Event>,
    events_max: usize,
    /// How many were ever pushed.
    pushed: u64,
}

impl Ring {
    /// A ring that keeps at most `events_max` events of [`crate::event::EVENT_BYTES`] bytes each;
    /// at least one.
    pub fn new(events_max: usize) -> Ring {
        Ring { events: VecDeque::new(), events_max: events_max.max(1), pushed: 0 }
    }

    /// Writes one event down, over the oldest when the ring is full.
    pub fn push(&mut self, event: Event) {
        if self.events.len() == self.events_max {
            self.events.pop_front();
        }
        self.events.push_back(event);
        self.pushed += 1;
    }

    /// Sets another bound; the oldest events beyond it go, and their memory with them.
    pub fn set_max(&mut self, events_max: usize) {
        self.events_max = events_max.max(1);
        let beyond = self.events.len().saturating_sub(self.events_max);
        if beyond > 0 {
            self.events.drain(..beyond);
            self.events.shrink_to_fit();
        }
    }

    /// The number that the next event will have: where a stretch begins.
    pub fn next(&self) -> u64 {
        self.pushed
    }

    /// The number of the oldest event that is still there; as many were lost before it.
    pub fn oldest(&self) -> u64 {
        self.pushed - self.events.len() as u64
    }

    /// The events with numbers from `first` up to but not including `end`. When some of them are
    /// gone, an event that counts them comes first, with the time of the first that is left.
    pub fn cut(&self, first: u64, end: u64) -> Vec<Event> {
        let end = end.min(self.pushed);
        let begin = first.max(self.oldest()).min(end);
        let mut out = Vec::with_capacity((end - begin) as usize + 1);
        let lost = begin - first.min(begin);
        let part = self.events.range(self.slot(begin)..self.slot(end));
        if lost > 0 {
            let time_us = part.clone().next().map_or(0, |event| event.time_us);
            out.push(Event::new(time_us, NO_UNIT, NO_UNIT, What::Lost { count: lost }));
        }
        out.extend(part);
        out
    }

    /// The number of the first event at or after `time_us`, counting on times that do not fall.
    pub fn since(&self, time_us: u64) -> u64 {
        let before = self.events.partition_point(|event| event.time_us < time_us);
        self.oldest() + before as u64
    }

    /// Where the event of a number is; the begin for numbers of events that are gone.
    fn slot(&self, number: u64) -> usize {
        number.saturating_sub(self.oldest()) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_us: u64) -> Event {
        Event::new(time_us, 0, NO_UNIT, What::BusQueue { depth: 0 })
    }

    /// Pushes events with times 0, 10, 20... and cuts; what was cut as times, `-n` for n lost.
    fn check(events_max: usize, pushed: u64, (first, end): (u64, u64), expect: &[i64]) {
        let mut ring = Ring::new(events_max);
        (0..pushed).for_each(|n| ring.push(event(n * 10)));
        let shown: Vec<i64> = ring
            .cut(first, end)
            .iter()
            .map(|event| match event.what() {
                Some(What::Lost { count }) => -(count as i64),
                _ => event.time_us as i64,
            })
            .collect();
        assert_eq!(shown, expect);
    }

    #[test]
    fn a_stretch_is_cut_and_what_is_gone_is_counted() {
        check(4, 0, (0, 9), &[]);
        check(4, 3, (0, 9), &[0, 10, 20]);
        check(4, 3, (1, 2), &[10]);
        check(4, 4, (0, 4), &[0, 10, 20, 30]);
        check(4, 6, (0, 6), &[-2, 20, 30, 40, 50]);
        check(4, 6, (3, 5), &[30, 40]);
        check(4, 99, (0, 10), &[-10]);
        check(1, 5, (4, 5), &[40]);
        check(4, 3, (7, 9), &[]);
    }

    #[test]
    fn another_bound_keeps_the_newest() {
        let mut ring = Ring::new(8);
        (0..8).for_each(|n| ring.push(event(n)));
        ring.set_max(3);
        let times = |ring: &Ring, from| -> Vec<u64> {
            ring.cut(from, u64::MAX).iter().map(|event| event.time_us).collect()
        };
        assert_eq!((ring.oldest(), times(&ring, 5)), (5, vec![5, 6, 7]));
        ring.set_max(5);
        (8..11).for_each(|n| ring.push(event(n)));
        assert_eq!((ring.oldest(), times(&ring, 6)), (6, vec![6, 7, 8, 9, 10]));
    }

    #[test]
    fn a_time_leads_to_its_event() {
        let mut ring = Ring::new(4);
        assert_eq!(ring.since(0), 0);
        (0..7).for_each(|n| ring.push(event(n * 10)));
        let found: Vec<u64> = [0, 30, 31, 60, 61].iter().map(|t| ring.since(*t)).collect();
        assert_eq!(found, [3, 3, 4, 6, 7]);
    }
}

//! The last events, in bounded memory: what the manager writes into as it goes.
//!
//! Events are numbered from 0; the number of an event never changes. When the ring is full the
//! oldest go, and whoever cuts a stretch out of it is told how many of that stretch are gone.

use crate::event::{Event, NO_UNIT, What};

/// Keeps the newest events. Grows as it fills, up to its bound.
#[derive(Debug)]
pub struct Ring {
    events: Vec<Event>,
    events_max: usize,
    /// How many were ever pushed.
    pushed: u64,
}

impl Ring {
    /// A ring that keeps at most `events_max` events of [`crate::event::EVENT_BYTES`] bytes each;
    /// at least one.
    pub fn new(events_max: usize) -> Ring {
        Ring { events: Vec::new(), events_max: events_max.max(1), pushed: 0 }
    }

    /// Writes one event down, over the oldest when the ring is full.
    pub fn push(&mut self, event: Event) {
        if self.events.len() < self.events_max {
            self.events.push(event);
        } else {
            let slot = self.slot(self.pushed);
            self.events[slot] = event;
        }
        self.pushed += 1;
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
        if lost > 0 {
            let time_us = if begin < end { self.at(begin).time_us } else { 0 };
            out.push(Event::new(time_us, NO_UNIT, NO_UNIT, What::Lost { count: lost }));
        }
        out.extend((begin..end).map(|number| *self.at(number)));
        out
    }

    /// The number of the first event at or after `time_us`, counting on times that do not fall.
    pub fn since(&self, time_us: u64) -> u64 {
        let (mut low, mut high) = (self.oldest(), self.pushed);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.at(middle).time_us < time_us {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    fn slot(&self, number: u64) -> usize {
        (number % self.events_max as u64) as usize
    }

    fn at(&self, number: u64) -> &Event {
        &self.events[self.slot(number)]
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
    fn a_time_leads_to_its_event() {
        let mut ring = Ring::new(4);
        assert_eq!(ring.since(0), 0);
        (0..7).for_each(|n| ring.push(event(n * 10)));
        let found: Vec<u64> = [0, 30, 31, 60, 61].iter().map(|t| ring.since(*t)).collect();
        assert_eq!(found, [3, 3, 4, 6, 7]);
    }
}

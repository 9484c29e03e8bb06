//! The last events, in bounded memory that outlives the manager: a memfd that init keeps.
//!
//! Events are numbered from 0; the number of an event never changes. When the ring is full the
//! oldest go, and a stretch that is cut out of it says how many of its events are gone.
//!
//! The file is mapped: writing an event is four stores and one more that makes it count, and no
//! system call. A manager that is killed at any instruction leaves whole events behind. The place
//! that is written next holds none, because it may be half written.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use warren_sys::memfd::{self, SharedWords};
use warren_trace::event::{EVENT_BYTES, Event, NO_UNIT, What};

/// The first word of a ring that can be gone on with.
const MAGIC: u64 = u64::from_le_bytes(*b"WARRING1");

const EVENT_WORDS: usize = EVENT_BYTES / 8;

/// Words before the first event.
const HEAD_WORDS: usize = 16;

/// What the words of the head are.
mod head {
    pub const MAGIC: usize = 0;
    pub const MAX: usize = 1;
    pub const PUSHED: usize = 2;
    /// The number of the event whose place is the first.
    pub const ORIGIN: usize = 3;
    /// Words that the recorder keeps here.
    pub const NOTES: usize = 4;
}

/// Words for the recorder's own state.
pub const NOTES_MAX: usize = HEAD_WORDS - head::NOTES;

/// Keeps the newest events.
#[derive(Debug)]
pub struct RecordRing {
    fd: OwnedFd,
    memory: SharedWords,
    places: usize,
}

impl RecordRing {
    /// An empty ring for at most `events_max` events, at least two.
    pub fn create(events_max: usize) -> warren_sys::Result<RecordRing> {
        let places = events_max.max(2);
        let bytes = (HEAD_WORDS + places * EVENT_WORDS) * 8;
        let ring = RecordRing::over(memfd::fixed_size("warren-record", bytes as u64)?)?;
        ring.set(head::MAX, places as u64);
        ring.set(head::MAGIC, MAGIC);
        Ok(ring)
    }

    /// The ring of an earlier manager; none if it cannot be gone on with.
    pub fn go_on(fd: OwnedFd) -> Option<RecordRing> {
        let ring = RecordRing::over(fd).ok()?;
        let (max, origin) = (ring.get(head::MAX), ring.get(head::ORIGIN));
        let fits = max >= 2 && max <= ring.places as u64 && origin <= ring.next();
        (ring.get(head::MAGIC) == MAGIC && fits).then_some(ring)
    }

    fn over(fd: OwnedFd) -> warren_sys::Result<RecordRing> {
        let memory = SharedWords::map(fd.as_fd())?;
        let places = memory.as_slice().len().saturating_sub(HEAD_WORDS) / EVENT_WORDS;
        Ok(RecordRing { fd, memory, places })
    }

    /// The memfd, for init's store.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        &self.memory.as_slice()[at]
    }

    fn get(&self, at: usize) -> u64 {
        self.word(at).load(Relaxed)
    }

    fn set(&self, at: usize, value: u64) {
        self.word(at).store(value, Release);
    }

    /// A word that the recorder keeps here; 0 at first.
    pub fn note(&self, index: usize) -> u64 {
        assert!(index < NOTES_MAX, "the head has room for {NOTES_MAX} notes");
        self.get(head::NOTES + index)
    }

    /// Keeps a word of the recorder.
    pub fn set_note(&self, index: usize, value: u64) {
        assert!(index < NOTES_MAX, "the head has room for {NOTES_MAX} notes");
        self.set(head::NOTES + index, value);
    }

    /// Where the event of a number is.
    fn place(&self, number: u64) -> usize {
        let turn = number.wrapping_sub(self.get(head::ORIGIN)) % self.get(head::MAX).max(1);
        HEAD_WORDS + turn as usize * EVENT_WORDS
    }

    fn read(&self, number: u64) -> Event {
        let at = self.place(number);
        let mut bytes = [0; EVENT_BYTES];
        for (word, bytes) in bytes.chunks_exact_mut(8).enumerate() {
            bytes.copy_from_slice(&self.get(at + word).to_le_bytes());
        }
        Event::from_bytes(&bytes)
    }

    /// Writes one event down, over the oldest when the ring is full.
    pub fn push(&mut self, event: Event) {
        let number = self.next();
        let at = self.place(number);
        for (word, bytes) in event.to_bytes().chunks_exact(8).enumerate() {
            let value = u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
            self.word(at + word).store(value, Relaxed);
        }
        self.set(head::PUSHED, number + 1);
    }

    /// Sets another bound, at most that of the beginning; the oldest events beyond it go, and their
    /// memory with them. Nothing can be gone on with while it is done.
    pub fn set_max(&mut self, events_max: usize) {
        let max = events_max.clamp(2, self.places) as u64;
        if max == self.get(head::MAX) {
            return;
        }
        // Before it has come round, every event has the same place in a larger one.
        let is_round = self.next() - self.get(head::ORIGIN) >= self.get(head::MAX);
        if max > self.get(head::MAX) && !is_round {
            return self.set(head::MAX, max);
        }
        let first = self.oldest().max(self.next().saturating_sub(max - 1));
        let kept = self.cut(first, self.next());
        self.set(head::MAGIC, 0);
        self.set(head::MAX, max);
        self.set(head::ORIGIN, first);
        self.set(head::PUSHED, first);
        kept.into_iter().for_each(|event| self.push(event));
        let end = (HEAD_WORDS + max as usize * EVENT_WORDS) * 8;
        // What cannot be given back is only memory.
        let _ = memfd::release_from(self.fd.as_fd(), end as u64);
        self.set(head::MAGIC, MAGIC);
    }

    /// The number that the next event will have: where a stretch begins.
    pub fn next(&self) -> u64 {
        self.get(head::PUSHED)
    }

    /// The number of the oldest event that is still there; as many were lost before it.
    pub fn oldest(&self) -> u64 {
        let kept = self.get(head::MAX).saturating_sub(1);
        self.get(head::ORIGIN).max(self.next().saturating_sub(kept))
    }

    /// The events with numbers from `first` up to but not including `end`. When some of them are
    /// gone, an event that counts them comes first, with the time of the oldest that is left of all.
    pub fn cut(&self, first: u64, end: u64) -> Vec<Event> {
        let end = end.min(self.next());
        let begin = first.max(self.oldest()).min(end);
        let mut out = Vec::with_capacity((end - begin) as usize + 1);
        let lost = begin - first.min(begin);
        if lost > 0 {
            let time_us = self.first_time_us().unwrap_or(0);
            out.push(Event::new(time_us, NO_UNIT, NO_UNIT, What::Lost { count: lost }));
        }
        out.extend((begin..end).map(|number| self.read(number)));
        out
    }

    /// The number of the first event at or after `time_us`, counting on times that do not fall: where
    /// begins of jobs were told late, it is that of one a little later.
    pub fn since(&self, time_us: u64) -> u64 {
        let (mut low, mut high) = (self.oldest(), self.next());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.read(middle).time_us < time_us {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }

    /// The oldest event's time; none if there is none.
    pub fn first_time_us(&self) -> Option<u64> {
        (self.oldest() < self.next()).then(|| self.read(self.oldest()).time_us)
    }

    /// The newest event's time; none if there is none.
    pub fn last_time_us(&self) -> Option<u64> {
        (self.oldest() < self.next()).then(|| self.read(self.next() - 1).time_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(time_us: u64) -> Event {
        Event::new(time_us, 0, NO_UNIT, What::BusQueue { depth: 0 })
    }

    fn ring(events_max: usize, pushed: u64) -> RecordRing {
        let mut ring = RecordRing::create(events_max).expect("a memfd can be made");
        (0..pushed).for_each(|n| ring.push(event(n * 10)));
        ring
    }

    /// The times of what is cut, `-n` for n lost.
    fn times(ring: &RecordRing, first: u64, end: u64) -> Vec<i64> {
        let shown = |event: &Event| match event.what() {
            Some(What::Lost { count }) => -(count as i64),
            _ => event.time_us as i64,
        };
        ring.cut(first, end).iter().map(shown).collect()
    }

    #[test]
    fn a_stretch_is_cut_and_what_is_gone_is_counted() {
        let check = |max, pushed, (first, end), expect: &[i64]| {
            assert_eq!(times(&ring(max, pushed), first, end), expect);
        };
        check(5, 0, (0, 9), &[]);
        check(5, 3, (0, 9), &[0, 10, 20]);
        check(5, 3, (1, 2), &[10]);
        check(5, 4, (0, 4), &[0, 10, 20, 30]);
        check(5, 6, (0, 6), &[-2, 20, 30, 40, 50]);
        check(5, 6, (3, 5), &[30, 40]);
        check(5, 99, (0, 10), &[-10]);
        check(2, 5, (4, 5), &[40]);
        check(5, 3, (7, 9), &[]);
    }

    #[test]
    fn what_counts_those_that_are_gone_has_the_time_of_the_oldest_that_is_there() {
        let ring = ring(5, 99);
        let time_us = |first, end| ring.cut(first, end)[0].time_us;
        assert_eq!((time_us(0, 10), time_us(0, 97)), (950, 950));
    }

    #[test]
    fn another_bound_keeps_the_newest() {
        let mut ring = ring(9, 8);
        ring.set_max(4);
        assert_eq!((ring.oldest(), times(&ring, 5, 99)), (5, vec![50, 60, 70]));
        ring.set_max(6);
        (8..11).for_each(|n| ring.push(event(n * 10)));
        assert_eq!((ring.oldest(), times(&ring, 6, 99)), (6, vec![60, 70, 80, 90, 100]));
        let found: Vec<u64> = [0, 70, 71, 100, 101].iter().map(|t| ring.since(*t)).collect();
        assert_eq!(found, [6, 7, 8, 10, 11]);
    }

    #[test]
    fn a_larger_bound_keeps_all_there_are() {
        let check = |first, pushed, expect: &[i64]| {
            let mut ring = ring(9, 0);
            ring.set_max(first);
            (0..pushed).for_each(|n| ring.push(event(n * 10)));
            ring.set_max(6);
            assert_eq!(times(&ring, 0, 99), expect);
            (pushed..pushed + 2).for_each(|n| ring.push(event(n * 10)));
            assert_eq!(ring.last_time_us(), Some((pushed + 1) * 10));
            assert_eq!(ring.cut(ring.oldest(), ring.next()).len() as u64, ring.next().min(5));
        };
        check(4, 0, &[]);
        check(4, 3, &[0, 10, 20]);
        // The place that is written next may be half written.
        check(4, 4, &[-1, 10, 20, 30]);
        check(4, 7, &[-4, 40, 50, 60]);
    }

    #[test]
    fn another_manager_goes_on_with_it() {
        let first = ring(4, 5);
        first.set_note(NOTES_MAX - 1, 7);
        let fd = first.fd().try_clone_to_owned().expect("dup");
        drop(first);
        let mut second = RecordRing::go_on(fd).expect("it is whole");
        second.push(event(50));
        assert_eq!((times(&second, 3, 9), second.note(NOTES_MAX - 1)), (vec![30, 40, 50], 7));
        assert_eq!(second.last_time_us(), Some(50));
    }

    #[test]
    fn what_is_no_ring_is_not_gone_on_with() {
        let other = memfd::fixed_size("other", 4096).expect("a memfd can be made");
        assert!(RecordRing::go_on(other).is_none());
        let damaged = ring(4, 2);
        damaged.set(head::MAX, 1000);
        let fd = damaged.fd().try_clone_to_owned().expect("dup");
        assert!(RecordRing::go_on(fd).is_none());
    }
}

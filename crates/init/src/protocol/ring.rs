//! Channel 3: the exit ring.
//!
//! One writer (init), one reader (the warrend of the moment), in a sealed memfd that both map.
//! The reader's position is in the mapping, so a killed warrend's successor goes on where it
//! was. Records are never overwritten: when the ring is full init stops reaping, the zombies
//! keep their status, and the reader tells init through an eventfd when there is room again.
//!
//! All fields are 64-bit words accessed atomically, so a torn record cannot be seen.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use warren_sys::memfd::SharedWords;
use warren_sys::process::{Exit, ExitKind};

/// Records in the ring that init makes unless told otherwise.
pub const CAPACITY: u64 = 32_768;

/// Most records of any ring.
pub const CAPACITY_MAX: u64 = 1 << 22;

const MAGIC: u64 = 0x7761_7272_656e_0001;
const WORDS_PER_RECORD: u64 = 8;
const HEADER_WORDS: u64 = 8;

/// Positions of the header's words. Writer and reader positions count records for ever.
const AT_MAGIC: usize = 0;
const AT_CAPACITY: usize = 1;
const AT_WRITTEN: usize = 2;
const AT_READ: usize = 3;
const AT_WRITER_WAITS: usize = 4;

/// One reaped process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExitRecord {
    /// Number of this record, from 0, without gaps.
    pub seq: u64,
    /// When it was reaped, CLOCK_MONOTONIC, nanoseconds.
    pub time_ns: u64,
    /// The process and its resource usage.
    pub exit: Exit,
}

/// The ring, mapped by either side.
#[derive(Debug)]
pub struct Ring {
    words: SharedWords,
    capacity: u64,
}

/// Bytes of memory a ring of this many records needs.
pub fn bytes_for(capacity: u64) -> u64 {
    (HEADER_WORDS + capacity * WORDS_PER_RECORD) * 8
}

/// The memory handed over is not a ring of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotARing;

impl Ring {
    /// Makes fresh, zeroed memory a ring of `capacity` records. Writer's side, once.
    pub fn create(words: SharedWords, capacity: u64) -> Result<Ring, NotARing> {
        let ring = Ring { words, capacity };
        if capacity == 0 || (ring.words.as_slice().len() as u64) * 8 < bytes_for(capacity) {
            return Err(NotARing);
        }
        ring.word(AT_CAPACITY).store(capacity, Relaxed);
        ring.word(AT_MAGIC).store(MAGIC, Release);
        Ok(ring)
    }

    /// Attaches to an existing ring.
    pub fn attach(words: SharedWords) -> Result<Ring, NotARing> {
        let slice = words.as_slice();
        let header = |at: usize| slice.get(at).map(|w| w.load(Acquire)).ok_or(NotARing);
        let capacity = header(AT_CAPACITY)?;
        let fits = capacity > 0
            && capacity <= CAPACITY_MAX
            && (slice.len() as u64) * 8 >= bytes_for(capacity);
        if header(AT_MAGIC)? != MAGIC || !fits {
            return Err(NotARing);
        }
        Ok(Ring { words, capacity })
    }

    /// Records that it has room for.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Records that are written and not yet released by the reader.
    pub fn pending(&self) -> u64 {
        let read = self.word(AT_READ).load(Acquire);
        self.word(AT_WRITTEN).load(Acquire).saturating_sub(read)
    }

    /// Writer: room for one more? When not, notes that the writer waits, so that the reader's
    /// next [`Ring::release`] says so.
    pub fn has_room(&self) -> bool {
        if self.pending() < self.capacity {
            return true;
        }
        self.word(AT_WRITER_WAITS).store(1, SeqCst);
        self.word(AT_WRITTEN).load(SeqCst) - self.word(AT_READ).load(SeqCst) < self.capacity
    }

    /// Writer: appends a record. The caller has seen [`Ring::has_room`].
    pub fn push(&self, time_ns: u64, exit: &Exit) {
        let seq = self.word(AT_WRITTEN).load(Relaxed);
        let values = [
            seq,
            time_ns,
            pack(exit.pid as u32, exit.uid),
            pack(exit.kind.code() as u32, exit.kind.status() as u32),
            exit.user_us,
            exit.system_us,
            exit.max_rss_kib,
            0,
        ];
        for (word, value) in self.record(seq).iter().zip(values) {
            word.store(value, Relaxed);
        }
        self.word(AT_WRITTEN).store(seq + 1, SeqCst);
    }

    /// Reader: the record at `seq`, if it is written and not yet released. A new reader starts
    /// at [`Ring::read_position`].
    pub fn get(&self, seq: u64) -> Option<ExitRecord> {
        let written = self.word(AT_WRITTEN).load(Acquire);
        if seq >= written || written - seq > self.capacity {
            return None;
        }
        let mut v = [0u64; WORDS_PER_RECORD as usize];
        for (value, word) in v.iter_mut().zip(self.record(seq)) {
            *value = word.load(Relaxed);
        }
        let [at, time_ns, who, how, user_us, system_us, max_rss_kib, _] = v;
        let (pid, uid) = unpack(who);
        let (code, status) = unpack(how);
        let kind = ExitKind::from_wait(code as i32, status as i32)?;
        let exit = Exit { pid: pid as i32, uid, kind, user_us, system_us, max_rss_kib };
        (at == seq).then_some(ExitRecord { seq, time_ns, exit })
    }

    /// Reader: the first record not yet released.
    pub fn read_position(&self) -> u64 {
        self.word(AT_READ).load(Acquire)
    }

    /// Reader: everything before `seq` is handled and stored. True when init waits for room:
    /// then write to its eventfd.
    #[must_use = "when true, init must be woken through the room eventfd"]
    pub fn release(&self, seq: u64) -> bool {
        let written = self.word(AT_WRITTEN).load(Acquire);
        self.word(AT_READ).store(seq.min(written), SeqCst);
        self.word(AT_WRITER_WAITS).swap(0, SeqCst) != 0
    }

    fn word(&self, at: usize) -> &std::sync::atomic::AtomicU64 {
        &self.words.as_slice()[at]
    }

    fn record(&self, seq: u64) -> &[std::sync::atomic::AtomicU64] {
        let at = (HEADER_WORDS + (seq % self.capacity) * WORDS_PER_RECORD) as usize;
        &self.words.as_slice()[at..at + WORDS_PER_RECORD as usize]
    }
}

fn pack(high: u32, low: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

fn unpack(word: u64) -> (u32, u32) {
    ((word >> 32) as u32, word as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn pair(capacity: u64) -> (Ring, Ring) {
        let fd = warren_sys::memfd::fixed_size("ring", bytes_for(capacity)).expect("memfd");
        let map = || SharedWords::map(fd.as_fd()).expect("sealed memory can be mapped");
        let writer = Ring::create(map(), capacity).expect("the size fits");
        (writer, Ring::attach(map()).expect("it is a ring"))
    }

    fn exit(pid: i32) -> Exit {
        let kind = ExitKind::Killed(9);
        Exit { pid, uid: 5, kind, user_us: 1, system_us: 2, max_rss_kib: 3 }
    }

    /// Runs `w` (write), `r` (release one record) and says what happened: a digit for the
    /// pending records after each, `F` for full, `!` when the reader must wake the writer.
    #[track_caller]
    fn check(capacity: u64, script: &str, expected: &str) {
        let (writer, reader) = pair(capacity);
        let mut out = String::new();
        let mut next = 0;
        for op in script.chars() {
            match op {
                'w' if writer.has_room() => {
                    writer.push(77, &exit(next));
                    next += 1;
                }
                'w' => out.push('F'),
                _ => {
                    let seq = reader.read_position();
                    let record = reader.get(seq).expect("the script reads what is there");
                    assert_eq!((record.seq, record.exit), (seq, exit(seq as i32)));
                    if reader.release(seq + 1) {
                        out.push('!');
                    }
                }
            }
            out.push_str(&reader.pending().to_string());
        }
        assert_eq!(out, expected);
    }

    #[test]
    fn records_come_in_order_and_are_never_overwritten() {
        check(2, "wrwrwr", "101010");
        check(2, "wwwr", "12F2!1");
        check(2, "wwwrwwrr", "12F2!12F2!10");
        check(1, "wrwrww", "10101F1");
    }

    #[test]
    fn a_second_reader_goes_on_where_the_first_was() {
        let (writer, first) = pair(4);
        writer.push(1, &exit(1));
        writer.push(2, &exit(2));
        assert!(!first.release(1));
        assert_eq!(first.get(first.read_position()).map(|r| r.exit.pid), Some(2));
        assert_eq!(first.get(2), None);
    }

    #[test]
    fn other_memory_is_no_ring() {
        let fd = warren_sys::memfd::fixed_size("ring", 4096).expect("memfd");
        let words = SharedWords::map(fd.as_fd()).expect("sealed memory can be mapped");
        assert_eq!(Ring::attach(words).map(|_| ()), Err(NotARing));
    }
}

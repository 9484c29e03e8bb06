//! The memory in which [`crate::input::pending`]'s records outlive this process: a memfd that
//! the manager keeps. Without a manager there is none, and a killed daemon loses what it took in
//! the last [`crate::daemon::bounds::FLUSH_US`].
//!
//! The first 8 bytes say where the records begin. Records that are void are left behind by writing
//! the new ones elsewhere and then pointing there, so that at every moment one of both counts.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use warren_sys::{file, memfd};

use crate::input::pending::{PendingContent, Writer, read};
use warren_log_store::entry::{Fields, Stamp};

/// What is kept at most, bytes. What a disk that refuses lets come together beyond it is lost with
/// a killed daemon.
const PENDING_BYTES_MAX: u64 = 64 << 20;

/// Where the first records begin.
const FIRST: u64 = 8;

/// Behind the last record: no record.
const END: [u8; 8] = [0; 8];

/// The records since the last write to a file.
pub struct Pending {
    memory: Option<OwnedFd>,
    writer: Writer,
    /// Where the records that count begin, and where the next one goes.
    begin: u64,
    end: u64,
    /// What the last daemon said besides entries.
    besides: PendingContent,
}

impl Pending {
    /// Keeps nothing.
    pub fn none() -> Pending {
        let (writer, besides) = (Writer::default(), PendingContent::default());
        Pending { memory: None, writer, begin: FIRST, end: FIRST, besides }
    }

    /// Goes on in this memory, and what the last daemon kept there, which stays until
    /// [`Pending::begin_anew`].
    pub fn over(memory: OwnedFd) -> (Pending, PendingContent) {
        // What cannot be read cannot be saved.
        let bytes = memfd::read_all(memory.as_fd(), 2 * PENDING_BYTES_MAX as usize);
        let bytes = bytes.unwrap_or_default();
        let begin = bytes.first_chunk().map_or(FIRST, |at| u64::from_le_bytes(*at)).max(FIRST);
        let records = usize::try_from(begin).ok().and_then(|begin| bytes.get(begin..));
        let (found, length) = read(records.unwrap_or_default());
        let mut pending = Pending { memory: Some(memory), ..Pending::none() };
        (pending.begin, pending.end) = (begin, begin + length as u64);
        let PendingContent { lines, looked_at, next, .. } = &found;
        pending.besides = PendingContent {
            lines: lines.clone(),
            looked_at: looked_at.clone(),
            next: next.clone(),
            entries: Vec::new(),
        };
        (pending, found)
    }

    /// Adds an entry.
    pub fn entry(
        &mut self,
        (class, seqnum): (&str, u64),
        stamp: &Stamp,
        context: &Arc<Fields>,
        fields: &Fields,
    ) {
        if self.memory.is_some() {
            self.writer.class(class);
            self.writer.entry(seqnum, stamp, context, fields);
        }
    }

    /// Where to add other records; `None` when nothing is kept.
    pub fn writer(&mut self) -> Option<&mut Writer> {
        self.memory.as_ref().map(|_| &mut self.writer)
    }

    /// Puts what was added where it outlives this process.
    pub fn write(&mut self) {
        if self.memory.is_some() && !self.writer.is_empty() {
            let records = self.writer.take();
            self.put(self.end, records);
        }
    }

    /// Everything is in files but what `keep` adds.
    pub fn begin_anew(&mut self, keep: impl FnOnce(&mut Writer)) {
        if self.memory.is_none() {
            return;
        }
        self.writer = Writer::default();
        keep(&mut self.writer);
        self.put_anew();
    }

    /// The entries that were added stand for all that the last daemon kept, under the numbers that they have now: a
    /// daemon that ends while they are written leaves no doubt which of them came to a file. What it kept besides
    /// entries stays.
    pub fn renumber(&mut self) {
        if self.memory.is_none() {
            return;
        }
        let besides = std::mem::take(&mut self.besides);
        besides.lines.iter().for_each(|(stream, begun)| self.writer.line(stream, begun));
        besides.looked_at.iter().for_each(|(stream, bytes)| self.writer.looked_at(stream, *bytes));
        besides.next.iter().for_each(|(source, number)| self.writer.next(source, *number));
        self.put_anew();
    }

    /// What was added is not kept.
    pub fn drop_added(&mut self) {
        self.writer = Writer::default();
    }

    /// Puts what was added elsewhere, and has it count in place of what was before.
    fn put_anew(&mut self) {
        let records = self.writer.take();
        let room = self.begin - FIRST;
        let fits_before = (records.len() + END.len()) as u64 <= room;
        let begin = if fits_before { FIRST } else { self.end + END.len() as u64 };
        self.put(begin, records);
        let Some(memory) = &self.memory else { return };
        if file::write_at(memory.as_fd(), &begin.to_le_bytes(), 0).is_ok() {
            self.begin = begin;
        }
        if fits_before {
            // What is behind counts no more; should it stay, it only takes room.
            let _ = file::set_length(memory.as_fd(), self.end + END.len() as u64);
        }
    }

    fn put(&mut self, at: u64, mut records: Vec<u8>) {
        let Some(memory) = &self.memory else { return };
        let length = records.len() as u64;
        records.extend_from_slice(&END);
        // Without memory for it, the daemon is as safe as one without a manager.
        let fits = length <= PENDING_BYTES_MAX && at <= PENDING_BYTES_MAX;
        if fits && file::write_at(memory.as_fd(), &records, at).is_ok() {
            self.end = at + length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_log_store::entry::Id128;

    #[test]
    fn what_has_other_numbers_stands_for_what_was_kept() {
        let (mut pending, _) = Pending::over(memfd::create("test").expect("a memfd"));
        add(&mut pending, 7);
        pending.writer().expect("there is memory").line("s", b"begun");
        pending.write();
        let memory = pending.memory.take().expect("there is memory");
        let (mut next, found) = Pending::over(memory);
        assert_eq!(found.entries.len(), 1);
        add(&mut next, 70);
        next.renumber();
        add(&mut next, 71);
        next.write();
        assert_eq!(super::tests::found(&next), (vec![70, 71], vec!["s".to_owned()]));
    }

    fn add(pending: &mut Pending, seqnum: u64) {
        let stamp = Stamp { realtime_us: 1, monotonic_us: 1, boot: Id128([1; 16]) };
        let fields: Fields =
            [("MESSAGE", "x".repeat(seqnum as usize).as_str())].into_iter().collect();
        pending.entry(("system", seqnum), &stamp, &Arc::new(Fields::new()), &fields);
    }

    /// What the next daemon would find.
    fn found(pending: &Pending) -> (Vec<u64>, Vec<String>) {
        let memory = pending.memory.as_ref().expect("there is one");
        let (_, found) = Pending::over(memory.try_clone().expect("dup"));
        let numbers = found.entries.iter().map(|taken| taken.entry.seqnum).collect();
        (numbers, found.lines.into_keys().collect())
    }

    #[test]
    fn what_counts_is_found_after_any_number_of_new_beginnings() {
        let (mut pending, _) = Pending::over(memfd::create("test").expect("a memfd"));
        for round in 0..40u64 {
            let expected: Vec<u64> = (round..round + 1 + round % 5).collect();
            for number in &expected {
                add(&mut pending, *number);
                pending.write();
            }
            let kept: Vec<String> = if round > 0 { vec!["s".to_owned()] } else { vec![] };
            assert_eq!(found(&pending), (expected, kept), "round {round}");
            pending.begin_anew(|writer| writer.line("s", &vec![b'y'; (round % 7) as usize * 50]));
            assert_eq!(found(&pending), (vec![], vec!["s".to_owned()]), "round {round}");
        }
        assert!(pending.end < 1 << 14, "room is used again: {}", pending.end);
    }

    #[test]
    fn nothing_is_kept_without_memory() {
        let mut pending = Pending::none();
        add(&mut pending, 1);
        pending.write();
        pending.begin_anew(|_| panic!("nobody asks for it"));
        assert!(pending.writer().is_none());
    }
}

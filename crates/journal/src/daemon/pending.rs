//! The memory in which [`crate::input::pending`]'s records outlive this process: a memfd that
//! the manager keeps. Without a manager there is none, and a killed daemon loses what it took in
//! the last [`super::FLUSH_US`].

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use warren_sys::{file, memfd};

use crate::entry::{Fields, Stamp};
use crate::input::pending::{Found, Writer, read};

/// What is kept at most, bytes. What a disk that refuses lets come together beyond it is lost with
/// a killed daemon.
const PENDING_BYTES_MAX: u64 = 64 << 20;

/// The records since the last write to a file.
#[derive(Default)]
pub struct Pending {
    memory: Option<OwnedFd>,
    writer: Writer,
    written: u64,
    /// How often the memory was emptied.
    generation: u64,
}

impl Pending {
    /// Goes on in this memory, and what the last daemon kept there. It stays until
    /// [`Pending::clear`].
    pub fn over(memory: OwnedFd) -> (Pending, Found) {
        // What cannot be read cannot be saved.
        let bytes = memfd::read_all(memory.as_fd(), PENDING_BYTES_MAX as usize);
        let bytes = bytes.unwrap_or_default();
        let written = bytes.len() as u64;
        (Pending { memory: Some(memory), written, ..Pending::default() }, read(&bytes))
    }

    /// Counts how often the memory was emptied: what is to stay in it is put in again then.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Adds an entry.
    pub fn entry(&mut self, seqnum: u64, stamp: &Stamp, context: &Arc<Fields>, fields: &Fields) {
        if self.memory.is_some() {
            self.writer.entry(seqnum, stamp, context, fields);
        }
    }

    /// Adds the beginning of a line.
    pub fn line(&mut self, stream: &str, begun: &[u8]) {
        if self.memory.is_some() {
            self.writer.line(stream, begun);
        }
    }

    /// Puts what was added where it outlives this process.
    pub fn write(&mut self) {
        let Some(memory) = &self.memory else { return };
        if self.writer.is_empty() {
            return;
        }
        let bytes = self.writer.take();
        let fits = self.written + bytes.len() as u64 <= PENDING_BYTES_MAX;
        // Without memory for it, the daemon is as safe as one without a manager.
        if fits && file::write_at(memory.as_fd(), &bytes, self.written).is_ok() {
            self.written += bytes.len() as u64;
        }
    }

    /// Everything is in files.
    pub fn clear(&mut self) {
        self.writer = Writer::default();
        self.generation += 1;
        let Some(memory) = self.memory.as_ref().filter(|_| self.written > 0) else { return };
        // Should it stay, its entries are known by their numbers.
        let _ = file::set_length(memory.as_fd(), 0);
        self.written = 0;
    }
}

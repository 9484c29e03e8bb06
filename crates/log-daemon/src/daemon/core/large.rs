//! Large messages: those that come as files, and the memory that they leave.
//! Must not: wait for a file that is not at hand, which `offered` reads. Runs on the receiving thread.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use warren_sys::heap;

use crate::daemon::clock::Moment;
use crate::daemon::core::{Core, LARGE_BYTES};
use crate::daemon::message_file;
use crate::daemon::offered;
use crate::daemon::sender::Origin;
use crate::input::loss::Kind;
use warren_log_store::entry::Fields;

impl Core {
    /// Takes a message that came as a file: at once, or when it was read. How many bytes were read at once.
    pub fn message_file(
        &mut self,
        uid: u32,
        fd: OwnedFd,
        origin: Arc<Origin>,
        now: Moment,
    ) -> usize {
        if !message_file::is_at_hand(&fd) {
            self.offered.read(uid, fd, origin);
            return 0;
        }
        let content = message_file::read(&fd, origin.is_root());
        let bytes = content.as_ref().map_or(0, Vec::len);
        self.content(content, &origin, now);
        bytes
    }

    fn content(
        &mut self,
        content: std::result::Result<Vec<u8>, String>,
        origin: &Origin,
        now: Moment,
    ) {
        match content {
            Ok(data) => self.native(&data, origin, now),
            Err(text) => self.lose(origin, (Kind::File, &text, 1)),
        }
    }

    /// Takes messages in files that were read.
    pub(super) fn take_files(&mut self, files: Vec<offered::FileMessage>) {
        for (origin, content) in files {
            self.content(content, &origin, Moment::now());
        }
    }

    /// The same at the end, with those that are being read.
    pub fn take_last_files(&mut self) {
        let files = self.offered.take_last();
        self.take_files(files);
    }

    /// Much memory is not used any more.
    pub fn note_large(&mut self) {
        self.is_swollen = true;
    }

    /// Gives back what large entries have left, when they are in segments.
    pub fn give_back_memory(&mut self) {
        let Some(keep) = self.keep.as_ref().filter(|_| self.is_swollen) else { return };
        if keep.store.waiting_bytes() < LARGE_BYTES && !keep.store.has_ended() {
            (self.is_swollen, self.fields) = (false, Fields::new());
            keep.upkeep.when_done(heap::trim);
        }
    }
}

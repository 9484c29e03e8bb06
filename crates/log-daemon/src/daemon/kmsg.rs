//! The kernel's log. Where the last daemon stopped is kept with its pending entries, and in a file
//! when it ends in order, so that no record is taken twice in a boot.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::daemon::core::Core;
use crate::input::kmsg::parse;
use crate::input::loss::Kind;
use warren_log_store::entry::Id128;

/// Where it is.
const PATH: &str = "/dev/kmsg";

/// Largest record, bytes; the kernel's own bound.
const RECORD_BYTES_MAX: usize = 8192;

/// So much is shown of a record that is not understood, bytes.
const SHOWN_BYTES: usize = 64;

/// Most records in a turn.
const TURN_RECORDS_MAX: usize = 256;

/// The number of a record under this name is kept with pending entries.
pub const NAME: &str = "kmsg";

/// The reader.
pub struct Kmsg {
    file: File,
    /// The number of the next record that is wanted.
    next: Option<u64>,
    /// Where it is kept when the daemon ends, with the boot that it is of.
    kept: PathBuf,
    boot: Id128,
}

impl Kmsg {
    /// Opens the kernel's log. `pending` is the number that was kept with pending entries.
    pub fn open(directory: &Path, boot: Id128, pending: Option<u64>) -> std::io::Result<Kmsg> {
        let nonblocking = OFlags::NONBLOCK.bits() as i32;
        let file = File::options().read(true).custom_flags(nonblocking).open(PATH)?;
        let kept = directory.join("kernel-seqnum");
        let text = std::fs::read_to_string(&kept).unwrap_or_default();
        let of_boot = text.trim().strip_prefix(&format!("{boot} "));
        let number = of_boot.and_then(|number| number.parse().ok());
        Ok(Kmsg { file, next: pending.max(number), kept, boot })
    }

    /// To be watched.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The number of the next record.
    pub fn next(&self) -> Option<u64> {
        self.next
    }

    /// Takes what is there, up to the bound of a turn; true when there may be more.
    pub fn read(&mut self, core: &mut Core) -> bool {
        let mut room = [0; RECORD_BYTES_MAX];
        for _ in 0..TURN_RECORDS_MAX {
            if core.is_full() {
                return true;
            }
            match self.file.read(&mut room) {
                Ok(0) => return false,
                Ok(bytes) => self.take(&room[..bytes], core),
                // Records were overwritten before they were read; the next one tells how many.
                Err(e) if e.kind() == ErrorKind::BrokenPipe => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn take(&mut self, record: &[u8], core: &mut Core) {
        let Some(record) = parse(record) else {
            let begin = record[..record.len().min(SHOWN_BYTES)].escape_ascii().to_string();
            return core.lose_of(b"the kernel", None, (Kind::Record, &begin, 1));
        };
        if let Some(next) = self.next {
            if record.sequence < next {
                return;
            }
            if record.sequence > next {
                core.note(&format!("Missed {} kernel messages", record.sequence - next));
            }
        }
        core.kernel(&record.fields);
        self.next = Some(record.sequence + 1);
    }

    /// Keeps the place for a daemon that is started anew.
    pub fn finish(&self) {
        let Some(next) = self.next else { return };
        if let Err(e) = std::fs::write(&self.kept, format!("{} {next}\n", self.boot)) {
            warren_sys::tell!("warren-journald: {}: {e}", self.kept.display());
        }
    }
}

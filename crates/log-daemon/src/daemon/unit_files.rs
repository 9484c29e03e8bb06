//! What the manager says of units in a namespace: its daemon has no link, so each unit's settings are
//! a file in the directory [`NAME`] beside its sockets, named as the unit, with what a packet of
//! [`crate::input::handover`] would have. A file is there before the unit's first process, and a new
//! one is put in its place by rename(2).

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use warren_sys::inotify::{Inotify, WatchFor};

use crate::daemon::core::Core;
use crate::input::handover::{Packet, parse};

/// The directory, below that of the sockets; the manager's `log_link` has the same.
const NAME: &str = "units";

/// Largest file that is read, bytes.
const FILE_BYTES_MAX: u64 = 128 << 10;

/// The files.
pub struct UnitFiles {
    directory: PathBuf,
    inotify: Inotify,
    begun: bool,
}

impl UnitFiles {
    /// Watches the directory beside these sockets; makes it if it is not there.
    ///
    /// # Errors
    /// When it cannot be made or watched.
    pub fn watch(sockets: &Path) -> std::io::Result<UnitFiles> {
        let directory = sockets.join(NAME);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let system = |e: warren_sys::Error| std::io::Error::from_raw_os_error(e.errno);
        let inotify = Inotify::new().map_err(system)?;
        inotify.add(&directory, WatchFor::Entries).map_err(system)?;
        Ok(UnitFiles { directory, inotify, begun: false })
    }

    /// Takes what is new since the last call; at the first, everything.
    pub fn learn(&mut self, core: &mut Core) {
        let mut changes = Vec::new();
        let lost = self.inotify.drain(&mut changes).unwrap_or(true);
        if lost || !std::mem::replace(&mut self.begun, true) {
            let entries = std::fs::read_dir(&self.directory).into_iter().flatten().flatten();
            entries.for_each(|entry| take(&entry.path(), core));
            return;
        }
        // The last one made of a name counts, and all show it.
        changes.sort_by(|a, b| a.name.cmp(&b.name));
        changes.dedup_by(|a, b| a.name == b.name);
        changes.iter().for_each(|change| take(&self.directory.join(&change.name), core));
    }
}

/// Takes a file, unless it is gone or was not put in its place yet.
fn take(path: &Path, core: &mut Core) {
    let is_placed = path.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."));
    let Some(file) = File::open(path).ok().filter(|_| is_placed) else { return };
    let mut packet = Vec::new();
    if file.take(FILE_BYTES_MAX).read_to_end(&mut packet).is_err() {
        return;
    }
    let (packets, faults) = parse(&packet);
    faults.iter().for_each(|fault| core.note(fault));
    for packet in packets {
        if let Packet::Unit(unit) = packet {
            core.learn(unit);
        }
    }
}

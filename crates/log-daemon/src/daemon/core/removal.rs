//! When somebody removes the files or the directory of the store that is open, moves them away, or mounts something over
//! them: what is written would be nowhere to be read. It is noticed at the next sync, and the store is opened anew.
//!
//! What came since the last sync that was good goes to the new one; what was durable is gone with its file, as was wanted.
//! Must not: look at the files; the thread that syncs does.

use std::time::Duration;

use crate::daemon::core::Core;
use crate::daemon::mirrors::Mirrors;
use crate::daemon::places::Place;
use warren_log_store::error::{Error, Result};
use warren_log_store::files::Disk;
use warren_log_store::store::LeftLog;

/// How it stands with files that somebody has removed.
#[derive(Debug, Default)]
pub struct Removal {
    /// What is gone, of the store that is open.
    found: Option<String>,
    /// Another store was opened: what is kept for the next daemon has numbers of the old one.
    is_anew: bool,
}

impl Core {
    /// Takes notice of an error of the store that is open.
    pub(super) fn judge_removal(&mut self, error: &Error) {
        if self.keep.is_some() && error.is_of_removal() {
            self.removal.found = Some(error.to_string());
        }
    }

    /// Opens the store anew when its files are gone; true when that was done.
    pub(super) fn leave_removed_store(&mut self) -> bool {
        let Some(why) = self.removal.found.take() else { return false };
        // What fails now is about files that are gone.
        let _ = self.wait_for_disk();
        if !self.forget_syncs() {
            return false;
        }
        self.removal.found = None;
        self.mirror.iter_mut().for_each(Mirrors::flush);
        let Some(old) = self.keep.take() else { return false };
        let (place, patience) = match old.place {
            Place::Persistent => (Place::Persistent, self.config.disk_patience()),
            other => (other, Duration::MAX),
        };
        // Its lock may be in the directory that is opened next.
        let left = old.end(patience);
        self.cut_emptied(place, &left.logs);
        let opened = self.open_anew(place);
        self.take_again(left);
        match opened {
            Ok(()) => self
                .warn(&format!("Files of the log were removed; continuing with new ones: {why}")),
            Err(e) => self.trouble(&e),
        }
        self.removal.is_anew = true;
        self.flush_or_say();
        true
    }

    /// Removes from files that somebody has emptied or put there what is taken again.
    fn cut_emptied(&self, place: Place, logs: &[LeftLog]) {
        let (places, logs) = (self.places.clone(), logs.to_vec());
        let cut = self.door.run(("cut", "logs"), move || {
            let Some(directory) = places.path(place) else { return Ok(()) };
            let disk = Disk::new(directory);
            logs.iter().try_for_each(|log| log.cut(&disk))
        });
        if let Err(e) = cut {
            // Then it is there twice.
            warren_sys::tell!("warren-journald: {e}");
        }
    }

    /// Opens the place again; the one in memory when there is no directory on the disk any more and none is to be made.
    fn open_anew(&mut self, place: Place) -> Result<()> {
        let places = self.places.clone();
        let stays = place != Place::Persistent
            || !places.has_volatile()
            || self.door.run(("open", "log"), move || Ok(places.may_persist())).unwrap_or(false);
        let opened = if stays {
            self.opening().open(place).map(|opened| opened.map(|it| it.0))
        } else {
            Ok(None)
        };
        match opened {
            Ok(Some(keep)) => self.keep = Some(keep),
            Ok(None) | Err(_) if self.places.has_volatile() => {
                self.open_memory()?;
                self.try_again();
            }
            Ok(None) => {}
            Err(e) => {
                self.try_again();
                return Err(e);
            }
        }
        Ok(())
    }

    /// Whether another store was opened since the last call.
    pub(super) fn take_anew(&mut self) -> bool {
        std::mem::take(&mut self.removal.is_anew)
    }
}

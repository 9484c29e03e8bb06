//! Which store is open: the first one, and going to the disk and back.

use warren_sys::eventfd::EventFd;

use crate::daemon::core::Core;
use crate::daemon::keep::Opening;
use crate::daemon::pending::Pending;
use crate::daemon::places::Place;
use crate::entry::Entry;
use crate::error::Result;
use crate::store::Recovery;
use crate::store::carry::Carried;

impl Core {
    fn opening(&self) -> Opening<'_> {
        let Core { places, config, machine, event, .. } = self;
        Opening { places, config, machine: *machine, event }
    }

    /// Opens the store that this boot is at; the one in memory when the disk cannot be had.
    pub(super) fn open_first(&mut self, old: Vec<Entry>) -> Result<()> {
        let first = self.places.first();
        if first == Place::Persistent && self.places.has_volatile() {
            match self.opening().open_and_carry() {
                Ok(opened) => {
                    let Some((keep, recovery, carried)) = opened else { return Ok(()) };
                    self.keep = Some(keep);
                    self.recover(&recovery, old);
                    self.note_carried(&carried);
                    return Ok(());
                }
                Err(e) => self.trouble(&e),
            }
            // What the last daemon had not written has numbers of the store on disk.
            let unknown = Recovery::default();
            self.places.remember(Place::Volatile)?;
            let opened = self.opening().open(Place::Volatile)?;
            self.keep = opened.map(|(keep, _)| keep);
            self.recover(&unknown, old);
            return Ok(());
        }
        if let Some((keep, recovery)) = self.opening().open(first)? {
            self.keep = Some(keep);
            self.recover(&recovery, old);
        }
        Ok(())
    }

    /// Goes to the disk, with all that was kept in memory. Everything was written and nothing is
    /// pending when this is called; entries wait in their sockets meanwhile.
    ///
    /// # Errors
    /// When the disk cannot be had or has no room: all stays in memory, as it was.
    pub fn go_to_disk(&mut self) -> Result<()> {
        if !self.has_place(Place::Volatile) || !self.places.may_persist() {
            return Ok(());
        }
        self.places.directory(Place::Persistent)?;
        self.places.remember(Place::Persistent)?;
        self.close();
        match self.opening().open_and_carry() {
            Ok(opened) => {
                let Some((keep, recovery, carried)) = opened else { return Ok(()) };
                self.keep = Some(keep);
                self.note_recovery(&recovery);
                self.note_carried(&carried);
                Ok(())
            }
            Err(e) => {
                self.places.remember(Place::Volatile)?;
                let opened = self.opening().open(Place::Volatile)?;
                self.keep = opened.map(|(keep, _)| keep);
                self.note(&format!("Messages stay in memory: {e}"));
                Err(e)
            }
        }
    }

    /// Goes back to memory, until the next flush; `smart`: unless the disk is never unmounted.
    pub fn leave_disk(&mut self, smart: bool) -> Result<()> {
        let is_at_disk = self.has_place(Place::Persistent) && self.places.has_volatile();
        if !is_at_disk || (smart && self.places.is_on_root()) {
            return Ok(());
        }
        self.places.remember(Place::Volatile)?;
        let opened = self.opening().open(Place::Volatile);
        if opened.is_err() {
            self.places.remember(Place::Persistent)?;
        }
        let opened = opened?;
        self.close();
        self.keep = opened.map(|(keep, _)| keep);
        Ok(())
    }

    fn has_place(&self, place: Place) -> bool {
        self.keep.as_ref().is_some_and(|keep| keep.place == place)
    }

    /// Readable when the upkeep reports.
    pub fn event(&self) -> &EventFd {
        &self.event
    }

    /// Ends the upkeep when all is done that it was given, and lets go of the directory.
    pub fn close(&mut self) {
        self.wait_for_disk();
        if let Some(mut keep) = self.keep.take() {
            keep.upkeep.finish();
            keep.upkeep.reports().iter().for_each(|report| eprintln!("warren-journald: {report}"));
        }
    }

    /// Entries that the last daemon had taken and that are in no file are taken again.
    fn recover(&mut self, recovery: &Recovery, old: Vec<Entry>) {
        // They are in the memory for the next daemon already.
        let pending = std::mem::replace(&mut self.pending, Pending::none());
        let lost = |entry: &Entry| entry.seqnum > recovery.last_seqnum;
        for entry in old.into_iter().filter(lost) {
            self.append_at(&entry.stamp, &entry.context, &entry.fields);
        }
        self.pending = pending;
        self.note("Journal started");
        self.note_recovery(recovery);
        self.flush_or_say();
    }

    fn note_recovery(&mut self, recovery: &Recovery) {
        self.note_lost(&recovery.lost);
    }

    fn note_lost(&mut self, lost: &[(String, std::ops::Range<u64>)]) {
        for (name, bytes) in lost {
            self.note(&format!("{name} is damaged from byte {} to {}", bytes.start, bytes.end));
        }
    }

    fn note_carried(&mut self, carried: &Carried) {
        self.note_lost(&carried.lost);
        if !carried.made.is_empty() {
            self.note("What was kept in memory is on the disk now");
        }
    }
}

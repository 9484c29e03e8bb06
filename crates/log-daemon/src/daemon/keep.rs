//! The store that is written to now, with the thread that looks after it; and going from one to
//! another.

use std::sync::Arc;
use std::time::Duration;

use warren_sys::eventfd::EventFd;

use crate::config::{Config, FILES_DEFAULT};
use crate::daemon::places::{Place, Places, limits, merge_bounds, trust_us};
use crate::daemon::upkeep::{Bounds, Upkeep, room_bytes};
use warren_log_store::entry::Id128;
use warren_log_store::error::{Error, Result};
use warren_log_store::files::patient::{Door, Patient};
use warren_log_store::files::{Disk, Files, Space};
use warren_log_store::ledger::KEY_NAME;
use warren_log_store::ledger::book::Book;
use warren_log_store::store::age::Clock;
use warren_log_store::store::carry::{Copied, Since, copy};
use warren_log_store::store::names::FileName;
use warren_log_store::store::vacuum::{Limits, vacuum};
use warren_log_store::store::{Recovery, Remains, Setup, Store};

/// A store and its upkeep.
pub struct Keep {
    pub(super) store: Store,
    pub(super) upkeep: Upkeep,
    pub(super) place: Place,
    /// The devices of what its file system is mounted on.
    pub(super) beneath: Vec<u64>,
}

impl Keep {
    /// Ends a store that is written no more; gives what of it may be on no device.
    pub fn end(mut self, patience: Duration) -> Remains {
        self.upkeep.finish(patience);
        self.upkeep
            .reports()
            .iter()
            .for_each(|report| warren_sys::tell!("warren-journald: {report}"));
        self.store.give_up()
    }
}

/// What opening a store needs to know.
pub struct Opening<'a> {
    /// Where the stores are.
    pub places: &'a Places,
    /// Their limits.
    pub config: &'a Config,
    /// Of the files.
    pub machine: Id128,
    /// The boot that runs.
    pub boot: Id128,
    /// Readable when the upkeep reports.
    pub event: &'a Arc<EventFd>,
    /// Behind which a disk is that may not answer.
    pub door: &'a Arc<Door>,
}

/// A store that is open and not looked after yet.
struct Opened {
    files: Arc<Disk>,
    /// The directory itself, for the thread that looks after it: it never goes on in another one that came to the path.
    held: Arc<Disk>,
    /// As `files`, for who must not wait without end.
    patient: Arc<dyn Files>,
    lock: std::fs::File,
    store: Store,
    recovery: Recovery,
    /// What file system that is, and what it is mounted on.
    device: Option<u64>,
    beneath: Vec<u64>,
}

impl Opening<'_> {
    /// Opens the store of a place; `None` where nothing is kept.
    pub fn open(&self, place: Place) -> Result<Option<(Keep, Recovery)>> {
        let Some(opened) = self.open_store(place, &[])? else { return Ok(None) };
        self.look_after(opened, place).map(Some)
    }

    /// Opens the store on disk, moves there what is in memory, and remembers that it is at the disk. Logs that were
    /// left there are cut first, each to so many bytes: what was behind them is in memory.
    pub fn open_and_carry(
        &self,
        left: &[(FileName, u64)],
    ) -> Result<Option<(Keep, Recovery, Copied)>> {
        let Some(mut opened) = self.open_store(Place::Persistent, left)? else { return Ok(None) };
        let copied = match self.carry(&mut opened) {
            Ok(copied) => copied,
            Err(e) => {
                // Closing may hang as well.
                self.door.post(move || drop(opened));
                return Err(e);
            }
        };
        let (keep, recovery) = self.look_after(opened, Place::Persistent)?;
        Ok(Some((keep, recovery, copied)))
    }

    /// Asks for something of a place. Memory always answers.
    fn ask<T: Send + 'static>(
        &self,
        place: Place,
        what: (&'static str, &str),
        task: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if place == Place::Persistent { self.door.run(what, task) } else { task() }
    }

    /// Nothing is removed before it is remembered that all is copied, and that is not before it is.
    fn carry(&self, opened: &mut Opened) -> Result<Copied> {
        let Some(volatile) = self.places.directory(Place::Volatile)? else {
            self.places.remember(Place::Persistent)?;
            return Ok(Copied::default());
        };
        let from = Disk::new(volatile);
        let _lock = from.lock()?;
        let bytes = from.list()?.iter().map(|file| file.bytes).sum();
        // What fails in it does so again when the copy is written.
        let _ = self.make_room(&*opened.patient, bytes);
        let to = (&*opened.patient, &mut opened.store);
        let since = if self.places.was_at_disk() { Since::Copied } else { Since::Nothing };
        let copied = copy(&from, to, self.machine, since)?;
        self.check_disk(opened)?;
        self.places.remember(Place::Persistent)?;
        if let Err(e) = copied.remove(&from) {
            // The next start removes them.
            warren_sys::tell!("warren-journald: {e}");
        }
        Ok(copied)
    }

    /// Whether all was done in one file system: somebody may have mounted or unmounted one meanwhile, and then the logs
    /// were cut in one and the messages came to another.
    fn check_disk(&self, opened: &Opened) -> Result<()> {
        let (places, device) = (self.places.clone(), opened.device);
        let name = opened.files.directory().display().to_string();
        self.ask(Place::Persistent, ("stat", "log"), move || {
            if places.device() == device { Ok(()) } else { Err(Error::OtherDisk(name)) }
        })
    }

    /// Removes from the disk what would be too much with so many bytes more, whatever its age.
    fn make_room(&self, to: &dyn Files, bytes: u64) -> Result<()> {
        let proves = to.list()?.iter().any(|file| file.name == KEY_NAME);
        let mut limits = self.limits(Place::Persistent, to.space()?, proves);
        limits.bytes_max = limits.bytes_max.map(|max| max.saturating_sub(bytes));
        limits.other.age_max_us = None;
        limits.classes.values_mut().for_each(|class| class.age_max_us = None);
        vacuum(to, &limits, &Clock::of_wall(0)).map(drop)
    }

    /// What a place may keep, with a ledger or without.
    fn limits(&self, place: Place, space: Space, proves: bool) -> Limits {
        let mut limits = limits(self.config, place, space);
        if proves && limits.files_max == Some(FILES_DEFAULT as usize) {
            // One for each epoch: bytes and age are what counts.
            limits.files_max = None;
        }
        limits
    }

    fn open_store(&self, place: Place, left: &[(FileName, u64)]) -> Result<Option<Opened>> {
        let (places, left) = (self.places.clone(), left.to_vec());
        let locked = self.ask(place, ("open", "lock"), move || {
            let Some(directory) = places.directory(place)? else { return Ok(None) };
            let (device, beneath) = match place {
                Place::Persistent => (places.device(), places.devices_beneath()),
                _ => (None, Vec::new()),
            };
            let held = Arc::new(Disk::hold(directory)?);
            let disk = Disk::new(directory);
            let lock = held.lock()?;
            left.iter().try_for_each(|(name, durable)| disk.cut(&name.to_string(), *durable))?;
            Ok(Some(((Arc::new(disk), held), lock, (device, beneath))))
        })?;
        let Some(((files, held), lock, (device, beneath))) = locked else { return Ok(None) };
        let (patient, written): (Arc<dyn Files>, Arc<dyn Files>) = match place {
            Place::Persistent => {
                let (disk, door) = (files.clone(), self.door.clone());
                let written = Patient::but_for_syncs(disk.clone(), door.clone());
                (Arc::new(Patient::new(disk, door)), Arc::new(written))
            }
            _ => (files.clone(), files.clone()),
        };
        let new_id = || Id128(warren_sys::random::u128().to_le_bytes());
        let setup = Setup { machine: self.machine, new_id: Box::new(new_id) };
        let (store, recovery) = Store::open(written, setup)?;
        Ok(Some(Opened { files, held, patient, lock, store, recovery, device, beneath }))
    }

    fn look_after(&self, opened: Opened, place: Place) -> Result<(Keep, Recovery)> {
        let Opened { held, lock, mut store, recovery, beneath, .. } = opened;
        let disk = held.clone();
        let asked = move || Ok((disk.space()?, Book::open(disk.way())?));
        let (space, book) = self.ask(place, ("statvfs", "log"), asked)?;
        let proves = book.is_some();
        let limits = self.limits(place, space, proves);
        let (disk, of_room) = (held.clone(), limits.clone());
        let room_bytes = self.ask(place, ("list", "log"), move || room_bytes(&*disk, &of_room))?;
        let bounds = Bounds {
            limits,
            room_bytes,
            merge: merge_bounds(self.config, place, space),
            trust_us: trust_us(self.config),
        };
        let event = self.event.clone();
        let upkeep = Upkeep::start(held, lock, (self.machine, self.boot), bounds, book, event)?;
        let logs = store.take_sealable();
        // A ledger is told of the time when there was no daemon.
        if !logs.is_empty() || proves {
            upkeep.seal(logs);
        }
        Ok((Keep { store, upkeep, place, beneath }, recovery))
    }
}

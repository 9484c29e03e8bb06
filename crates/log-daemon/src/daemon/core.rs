//! What every input ends in: limits and filters, the store, and when to write and sync.

mod aging;
mod large;
mod losing;
mod mark;
mod moving;
mod refuge;
mod removal;
mod tally;

use std::collections::BTreeSet;
use std::sync::Arc;

use warren_sys::eventfd::EventFd;
use warren_sys::fdpass::Credentials;
use warren_sys::letting_go::LettingGo;

use crate::config::Config;
use crate::daemon::bounds::{FLUSH_URGENT_US, FLUSH_US, SYNC_PRIORITY_MAX, URGENT_PRIORITY_MAX};
use crate::daemon::clock::{Moment, now_us};
use crate::daemon::core::refuge::Refuge;
use crate::daemon::core::removal::Removal;
use crate::daemon::core::tally::Tally;
use crate::daemon::forward::{Came, Forwarder, level_of};
use crate::daemon::keep::Keep;
use crate::daemon::mirror;
use crate::daemon::mirrors::Mirrors;
use crate::daemon::offered::MessageFiles;
use crate::daemon::options::Options;
use crate::daemon::pending::Pending;
use crate::daemon::places::Places;
use crate::daemon::sender::known::held_max;
use crate::daemon::sender::{self, Origin, Senders, Transport};
use crate::daemon::syncer::Syncer;
use crate::daemon::tails::Tails;
use crate::daemon::units::Units;
use crate::input::handover::UnitLog;
use crate::input::limit::{Limiter, Rate, Verdict};
use crate::input::loss::Losses;
use crate::input::pending::PendingEntry;
use crate::input::stream::Copies;
use crate::input::{native, syslog};
use warren_log_store::entry::{Fields, Id128, Stamp};
use warren_log_store::error::{Error, Result, system};
use warren_log_store::files::patient::Door;
use warren_log_store::host::Host;
use warren_log_store::store::{CLASSES_MAX, DEFAULT_CLASS, Synced};

/// With more than this not on the device, the receiving thread waits for it, bytes.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// Memory of an entry that has more is given back, bytes: few senders have such, and none is to cost it for good.
const LARGE_BYTES: usize = 1 << 20;

/// Store, limits and what is known of senders.
pub struct Core {
    /// `None` where nothing is kept.
    keep: Option<Keep>,
    places: Places,
    config: Config,
    machine: Id128,
    /// Readable when the upkeep reports.
    event: Arc<EventFd>,
    forwarder: Forwarder,
    /// Where the disk is.
    door: Arc<Door>,
    syncer: Syncer,
    pub(super) offered: MessageFiles,
    pub(super) letting_go: LettingGo,
    pub(super) senders: Senders,
    pub(super) units: Units,
    pub(super) tails: Tails,
    limiter: Limiter,
    /// What was told of what is not in the log.
    losses: Losses,
    mirror: Option<Mirrors>,
    /// Classes of units that there are no settings for, and that it was said of.
    unknown_classes: BTreeSet<String>,
    boot: Id128,
    pending: Pending,
    /// When the oldest entry that is not written came, monotonic µs.
    unwritten_us: Option<u64>,
    /// When something was written the last time, monotonic µs.
    written_us: u64,
    /// Something urgent is not written.
    is_urgent: bool,
    /// When the oldest entry that is not synced came, monotonic µs.
    unsynced_us: Option<u64>,
    /// When the epoch of the ledger ends, monotonic µs.
    epoch_due_us: Option<u64>,
    /// When the ages of files were looked at, monotonic µs.
    looked_us: u64,
    pub(super) sync_now: bool,
    /// A log is still to be closed.
    rotating: bool,
    /// A large entry came, or many lines that did not end, whose memory was not given back.
    is_swollen: bool,
    /// Reused: the fields of the entry that is being taken.
    fields: Fields,
    /// The last trouble, so that it is logged once and not each turn.
    trouble: Option<String>,
    /// Entries that there was no memory for while the disk refused.
    unkept: u64,
    tally: Tally,
    refuge: Refuge,
    removal: Removal,
}

impl Core {
    /// Takes over the store. `old` is what the last daemon had taken and maybe not written; there are so
    /// many descriptors.
    pub fn start(
        options: &Options,
        (pending, old): (Pending, Vec<PendingEntry>),
        descriptors: usize,
    ) -> Result<Core> {
        let host = Host::read();
        let forwarder = Forwarder::new(&options.config, &options.socket_directory, host.name());
        let event = Arc::new(EventFd::new().map_err(system)?);
        let mut core = Core {
            keep: None,
            door: Door::start(options.config.disk_patience())?,
            syncer: Syncer::start(event.clone())?,
            offered: MessageFiles::new(event.clone()),
            letting_go: LettingGo::new(),
            places: options.places.clone(),
            config: options.config.clone(),
            machine: host.machine,
            event,
            forwarder,
            boot: host.boot,
            senders: Senders::new(host, options.namespace.clone(), held_max(descriptors)),
            units: Units::default(),
            tails: Tails::default(),
            limiter: Limiter::default(),
            losses: Losses::default(),
            mirror: None,
            unknown_classes: BTreeSet::new(),
            pending,
            unwritten_us: None,
            written_us: 0,
            is_urgent: false,
            unsynced_us: None,
            epoch_due_us: None,
            looked_us: now_us(),
            sync_now: false,
            rotating: false,
            is_swollen: false,
            fields: Fields::new(),
            trouble: None,
            unkept: 0,
            tally: Tally::default(),
            refuge: Refuge::default(),
            removal: Removal::default(),
        };
        core.open_mirror(options);
        core.open_first(old)?;
        Ok(core)
    }

    fn open_mirror(&mut self, options: &Options) {
        let bytes_max = self.config.mirror_bytes(options.is_of_system);
        if bytes_max == 0 {
            return;
        }
        let namespace = options.namespace.as_deref();
        let directory = mirror::directory(&options.mirror_root, self.machine, namespace);
        let bounds =
            mirror::Bounds { bytes_max, keep_free_bytes: self.config.runtime.keep_free_bytes };
        match Mirrors::open(&directory, bounds, self.machine, self.places.readers()) {
            Ok(mirror) => self.mirror = Some(mirror),
            Err(e) => warren_sys::tell!(
                "warren-journald: cannot keep systemd's journal files beside the log: {e}"
            ),
        }
    }

    /// Says in the mirror that nobody writes any more.
    pub fn finish_mirror(&mut self) {
        self.mirror.iter_mut().for_each(Mirrors::finish);
    }

    /// Takes a datagram.
    pub fn datagram(&mut self, transport: Transport, data: &[u8], origin: &Origin, now: Moment) {
        if transport == Transport::Journal {
            return self.native(data, origin, now);
        }
        if data.is_empty() {
            return;
        }
        let mut fields = std::mem::take(&mut self.fields);
        syslog::parse_into(data, &mut fields);
        let came = Came { syslog: Some(data), ..Came::default() };
        self.take_and_forward(origin, &fields, came, now);
        self.fields = fields;
    }

    /// Takes a datagram of the native protocol.
    fn native(&mut self, data: &[u8], origin: &Origin, now: Moment) {
        let mut fields = std::mem::take(&mut self.fields);
        let left = native::each(data, &mut fields, |fields| {
            match fields.get("OBJECT_PID").filter(|_| origin.is_root()) {
                Some(pid) => {
                    let mut fields = fields.clone();
                    sender::put_object(pid, &mut fields);
                    self.take(origin, &fields, now);
                }
                None => self.take(origin, fields, now),
            }
            // One message may be more than the store keeps in memory.
            if self.is_full() {
                self.flush_or_say();
            }
        });
        self.fields = fields;
        left.iter().for_each(|lost| self.lose(origin, lost));
    }

    /// Takes an entry of a client, unless its unit does not want it or logs too much.
    pub fn take(&mut self, origin: &Origin, fields: &Fields, now: Moment) {
        self.take_and_forward(origin, fields, Came::default(), now);
    }

    /// The same of a line of a stream, which `copies` get as well.
    pub fn line(&mut self, origin: &Origin, fields: &Fields, copies: Copies, now: Moment) {
        let came = Came { copies, ..Came::default() };
        self.take_and_forward(origin, fields, came, now);
    }

    /// The same.
    fn take_and_forward(&mut self, origin: &Origin, fields: &Fields, came: Came<'_>, now: Moment) {
        let Origin { context, unit, .. } = origin;
        if unit.as_ref().is_some_and(|unit| !unit.keeps(fields)) {
            return;
        }
        let rate = unit.as_ref().map_or(self.config.rate, |unit| Rate {
            interval_us: unit.rate_interval_us.unwrap_or(self.config.rate.interval_us),
            burst: unit.rate_burst.unwrap_or(self.config.rate.burst),
        });
        let room = self.keep.as_ref().map_or(0, |keep| keep.upkeep.room_bytes());
        let who = origin.counted_as();
        match self.limiter.check(&who, rate.with_room(room), now.monotonic_us) {
            Verdict::Drop => {
                self.tally.suppressed += 1;
                return;
            }
            Verdict::DropFirst => {
                self.tally.suppressed += 1;
                return self.say_suppressing(&who);
            }
            Verdict::Keep => {}
            Verdict::KeepAfter(count) => self.say_suppressed(&who, count),
        }
        if level_of(fields) <= self.config.store_level_max {
            let class = unit.as_ref().and_then(|unit| unit.class.as_deref());
            self.append(class.unwrap_or(DEFAULT_CLASS), context, fields, now);
        }
        self.forward((fields, context), came, now.realtime_us);
        self.tails.put(origin.who(), now.realtime_us, context, fields);
    }

    /// Takes what is said of a unit. A class that there are no settings for is none.
    pub fn learn(&mut self, mut unit: UnitLog) -> Arc<UnitLog> {
        let known = |class: &str| self.config.classes.contains_key(class);
        if let Some(class) =
            unit.class.take_if(|class| !known(class)).filter(|c| c != DEFAULT_CLASS)
        {
            let said = self.unknown_classes.len() >= CLASSES_MAX
                || !self.unknown_classes.insert(class.clone());
            if !said {
                self.note(&format!("{}: LogClass={class}: no such class is configured", unit.name));
            }
        }
        self.units.put(unit)
    }

    /// Takes a message of the manager. Of a unit it tells with the unit's own extra fields.
    pub fn manager(&mut self, sender: Credentials, time_us: Option<u64>, mut fields: Fields) {
        let now = Moment::now();
        let about = fields.get("UNIT").and_then(|unit| self.units.get(unit));
        about.into_iter().for_each(|unit| unit.put_extra(&mut fields));
        if let Some(time_us) = time_us {
            fields.push(b"_SOURCE_REALTIME_TIMESTAMP", time_us.to_string().as_bytes());
        }
        let context = self.senders.of_manager(sender, &self.units, now.monotonic_us);
        self.append(DEFAULT_CLASS, &context, &fields, now);
        self.forward((&fields, &context), Came::default(), now.realtime_us);
        if let Some(unit) = fields.get("UNIT") {
            self.tails.put(unit, now.realtime_us, &context, &fields);
        }
    }

    /// Takes a message of the kernel.
    pub fn kernel(&mut self, fields: &Fields) {
        let context = self.senders.kernel();
        self.append(DEFAULT_CLASS, &context, fields, Moment::now());
    }

    /// Takes a record of the audit system.
    pub fn audit(&mut self, fields: &Fields) {
        let context = self.senders.audit();
        self.append(DEFAULT_CLASS, &context, fields, Moment::now());
    }

    fn append(&mut self, class: &str, context: &Arc<Fields>, fields: &Fields, now: Moment) {
        let Moment { monotonic_us, realtime_us } = now;
        let stamp = Stamp { realtime_us, monotonic_us, boot: self.boot };
        self.append_at(class, &stamp, context, fields);
    }

    fn append_at(&mut self, class: &str, stamp: &Stamp, context: &Arc<Fields>, fields: &Fields) {
        if self.is_without_store() {
            self.lose_unkept();
        }
        let Some(keep) = &mut self.keep else { return };
        match keep.store.append(class, stamp, context, fields) {
            Ok(seqnum) => {
                self.tally.entries += 1;
                self.tally.bytes += fields.bytes_len() as u64;
                self.mirror.iter_mut().for_each(|mirror| mirror.append(stamp, context, fields));
                self.pending.entry((class, seqnum), stamp, context, fields);
                self.is_swollen |= fields.bytes_len() > LARGE_BYTES;
                let now = stamp.monotonic_us;
                self.unwritten_us.get_or_insert(now);
                self.unsynced_us.get_or_insert(now);
                if let Some([priority]) = fields.get("PRIORITY") {
                    self.sync_now |= *priority <= SYNC_PRIORITY_MAX;
                    self.is_urgent |= *priority <= URGENT_PRIORITY_MAX;
                }
            }
            Err(Error::Backlog) => self.lose_unkept(),
            Err(e @ Error::TooLarge { .. }) => self.lose_entry(context, &e),
            Err(e) => self.trouble(&e),
        }
    }

    /// There was room for an entry nowhere.
    fn lose_unkept(&mut self) {
        self.unkept += 1;
        self.tally.unkept += 1;
    }

    /// So much waits to be written that the turn should end. While the disk refuses, this is left
    /// to the clock.
    pub fn is_full(&self) -> bool {
        let waits = self.keep.as_ref().is_some_and(|keep| keep.store.wants_flush());
        self.trouble.is_none() && waits
    }

    /// Says on stderr what is wrong, once for as long as it is the same, and asks for room.
    fn trouble(&mut self, error: &Error) {
        self.judge_disk(error);
        self.judge_removal(error);
        let text = error.to_string();
        if self.trouble.as_ref() != Some(&text) {
            warren_sys::tell!("warren-journald: {text}");
            self.keep.iter().for_each(|keep| keep.upkeep.make_room());
            self.trouble = Some(text);
        }
    }

    /// Whether an epoch of the ledger has ended since it was asked last.
    pub fn epoch_has_ended(&mut self) -> bool {
        let interval_us = self.keep.as_ref().and_then(|keep| keep.upkeep.interval_us());
        let now = now_us();
        let ended = self.epoch_due_us.is_some_and(|due| now >= due);
        if ended || self.epoch_due_us.is_some() != interval_us.is_some() {
            self.epoch_due_us = interval_us.map(|interval| now + interval);
        }
        ended
    }

    /// Has the ledger say that an epoch has ended, whether there are new files or not.
    pub fn write_ledger(&self) {
        self.keep.iter().for_each(|keep| keep.upkeep.make_room());
    }

    /// When something must be written or synced, monotonic µs.
    pub fn due_us(&self) -> Option<u64> {
        let due = [
            self.epoch_due_us,
            self.look_due_us(),
            self.refuge.due_us(),
            self.limiter.due_us(),
            self.losses.due_us(),
            self.write_due_us(),
            self.unsynced_us.map(|at| at + self.config.sync_us),
        ];
        due.into_iter().flatten().min()
    }

    /// When what waits is to be written, monotonic µs.
    fn write_due_us(&self) -> Option<u64> {
        let between = if self.is_urgent { FLUSH_URGENT_US } else { FLUSH_US };
        self.unwritten_us.map(|_| self.written_us + between)
    }

    /// Writes and syncs what is due; true when everything is in files.
    pub fn end_turn(&mut self) -> bool {
        // Both, whatever the first one does.
        if self.leave_dead_disk() | self.leave_removed_store() | self.take_anew() {
            return self.unwritten_us.is_none();
        }
        let now = now_us();
        if self.is_behind() {
            // Who writes more than the disk takes waits for it, unless it does not answer: then there is room
            // until there is none, and what is lost is counted.
            let _ = self.wait_for_disk();
            self.flush_or_say();
        } else if self.sync_now
            || self.unsynced_us.is_some_and(|at| now >= at + self.config.sync_us)
        {
            self.begin_sync();
        } else if self.is_full() || self.write_due_us().is_some_and(|due| now >= due) {
            self.flush_or_say();
        } else {
            return false;
        }
        self.unwritten_us.is_none()
    }

    /// What is kept for the next daemon.
    pub fn pending(&mut self) -> &mut Pending {
        &mut self.pending
    }

    /// Writes everything that was taken. What fails is said, and tried again by the clock.
    pub fn flush(&mut self) -> Result<()> {
        let waited = self.wait_for_disk();
        match self.write().and(waited) {
            Err(_) if self.leave_removed_store() => self.write(),
            written => written,
        }
    }

    /// Writes what may be written now: not what follows a log that is still on its way to the disk.
    fn write(&mut self) -> Result<()> {
        (self.written_us, self.is_urgent) = (now_us(), false);
        let Some(keep) = &mut self.keep else {
            self.unwritten_us = None;
            return Ok(());
        };
        let flushed = keep.store.flush();
        self.mirror.iter_mut().for_each(Mirrors::flush);
        let left = keep.store.has_unwritten();
        self.unwritten_us = left.then(now_us);
        match &flushed {
            // What waits for a log before it may have no room.
            Ok(()) if left => {}
            Ok(()) => self.end_trouble(),
            Err(e) => self.trouble(e),
        }
        let begun = self.sync_in_thread(false);
        self.hand_over();
        flushed.and(begun)
    }

    /// Has logs made durable by the other thread: those that have ended, or all.
    fn sync_in_thread(&mut self, all: bool) -> Result<()> {
        let Some(keep) = &mut self.keep else { return Ok(()) };
        let (jobs, begun) = keep.store.begin_syncs(all);
        self.syncer.give(jobs);
        begun.inspect_err(|e| {
            self.unsynced_us.get_or_insert(now_us());
            self.trouble(e);
        })
    }

    /// Writes everything, and has it made durable by the other thread.
    fn begin_sync(&mut self) {
        self.flush_or_say();
        self.sync_now = false;
        self.unsynced_us = None;
        // What fails is tried again by the clock.
        let _ = self.sync_in_thread(true);
    }

    /// Waits for what the other thread was given.
    ///
    /// # Errors
    /// The first of what was done, and [`Error::NoAnswer`] when the disk hangs: something is still
    /// under way.
    fn wait_for_disk(&mut self) -> Result<()> {
        let done = self.syncer.wait(self.config.disk_patience());
        let synced = self.take_synced(done);
        match self.syncer.is_idle() {
            true => synced,
            false => Err(Error::NoAnswer).inspect_err(|e| self.trouble(e)),
        }
    }

    /// What fails is tried again by the clock. Gives the first error.
    fn take_synced(&mut self, done: Vec<Synced>) -> Result<()> {
        let mut result = Ok(());
        for synced in done {
            let Some(keep) = &mut self.keep else { break };
            if let Err(e) = keep.store.end_sync(synced) {
                self.unsynced_us.get_or_insert(now_us());
                self.unwritten_us.get_or_insert(now_us());
                self.trouble(&e);
                result = result.and(Err(e));
            }
        }
        self.hand_over();
        result
    }

    /// More comes than the disk takes.
    fn is_behind(&self) -> bool {
        let store = self.keep.as_ref().map(|keep| &keep.store);
        store.is_some_and(|store| store.waiting_bytes() > WAITING_BYTES_MAX || store.is_crowded())
    }

    /// What is wrong was said, and the clock tries again.
    fn flush_or_say(&mut self) {
        let _ = self.write();
    }

    /// Makes everything that was taken durable. What fails is tried again by the clock.
    pub fn sync(&mut self) -> Result<()> {
        match self.sync_all() {
            Err(_) if self.leave_removed_store() => self.sync_all(),
            synced => synced,
        }
    }

    fn sync_all(&mut self) -> Result<()> {
        self.wait_for_disk()?;
        // A log that follows one which is closing comes after it.
        for _ in 0..2 {
            self.write()?;
            self.sync_in_thread(true)?;
            self.wait_for_disk()?;
        }
        self.sync_now = false;
        self.unsynced_us = None;
        Ok(())
    }

    /// Closes the logs that are open, so that they are sealed.
    pub fn rotate(&mut self) -> Result<()> {
        match self.rotate_all() {
            Err(_) if self.leave_removed_store() => self.rotate_all(),
            rotated => rotated,
        }
    }

    fn rotate_all(&mut self) -> Result<()> {
        self.wait_for_disk()?;
        for _ in 0..2 {
            let ended = self.keep.as_mut().map_or(Ok(true), |keep| keep.store.end_logs());
            ended.inspect_err(|e| self.trouble(e))?;
            self.write()?;
            self.wait_for_disk()?;
        }
        Ok(())
    }

    /// Closes the logs that are open without waiting for the disk: another thread makes them durable,
    /// and then they are sealed. One that has to wait for the one before it is closed after that.
    pub fn begin_rotation(&mut self) {
        let Some(keep) = &mut self.keep else { return };
        let ended = keep.store.end_logs();
        self.rotating = !matches!(ended, Ok(true));
        if let Err(e) = ended {
            self.trouble(&e);
        }
        self.flush_or_say();
    }

    /// Gives closed logs to the other thread.
    fn hand_over(&mut self) {
        let Some(keep) = &mut self.keep else { return };
        let logs = keep.store.take_sealable();
        if !logs.is_empty() {
            keep.upkeep.seal(logs);
        }
    }

    /// Calls back when the logs that were closed before are sealed, or cannot be now, from whatever thread.
    pub fn when_sealed(&self, then: impl FnOnce() + Send + 'static) {
        match &self.keep {
            Some(keep) => keep.upkeep.when_done(then),
            None => then(),
        }
    }

    /// Takes what the other threads report.
    pub fn hear_upkeep(&mut self) {
        self.event.clear();
        let files = self.offered.take_read();
        self.take_files(files);
        let done = self.syncer.take_done();
        if !done.is_empty() {
            // What fails is said, and tried again.
            let _ = self.take_synced(done);
            // What waited for it.
            match self.rotating {
                true => self.begin_rotation(),
                false => self.flush_or_say(),
            }
        }
        let reports = self.keep.as_ref().map(|keep| keep.upkeep.reports()).unwrap_or_default();
        reports.iter().for_each(|report| self.note(report));
    }
}

//! Which store is open: the first one, and going to the disk and back.

use std::time::Duration;

use warren_sys::eventfd::EventFd;

use crate::daemon::core::Core;
use crate::daemon::keep::Opening;
use crate::daemon::mirrors::Mirrors;
use crate::daemon::places::Place;
use crate::input::pending::PendingEntry;
use warren_log_store::error::{Error, Result};
use warren_log_store::store::Recovery;
use warren_log_store::store::carry::Copied;

impl Core {
    pub(super) fn opening(&self) -> Opening<'_> {
        let Core { places, config, machine, boot, event, door, .. } = self;
        Opening { places, config, machine: *machine, boot: *boot, event, door }
    }

    /// Opens the store that this boot is at; the one in memory when the disk cannot be had.
    pub(super) fn open_first(&mut self, old: Vec<PendingEntry>) -> Result<()> {
        self.take_up_mark();
        let first = self.places.first();
        if first == Place::Persistent && self.places.has_volatile() {
            return match self.opening().open_and_carry(self.left_logs()) {
                Ok(Some((keep, recovery, carried))) => {
                    self.keep = Some(keep);
                    self.end_refuge();
                    self.recover(&recovery, old);
                    self.note_carried(&carried);
                    Ok(())
                }
                Ok(None) => Ok(()),
                Err(e) => self.open_instead(&e, old),
            };
        }
        if let Some((keep, recovery)) = self.opening().open(first)? {
            self.keep = Some(keep);
            self.recover(&recovery, old);
        }
        Ok(())
    }

    /// Opens the store in memory instead of the one on disk, which is tried again by the clock.
    fn open_instead(&mut self, error: &Error, old: Vec<PendingEntry>) -> Result<()> {
        self.trouble(error);
        self.try_again();
        self.places.remember(Place::Volatile)?;
        let opened = self.opening().open(Place::Volatile)?;
        self.keep = opened.map(|(keep, _)| keep);
        // What the last daemon had not written has numbers of the store on disk.
        self.recover(&Recovery::default(), old);
        self.note(&format!("Cannot open the log on disk; keeping messages in memory: {error}"));
        Ok(())
    }

    /// Goes to the disk, with all that was kept in memory. Everything was written and nothing is
    /// pending when this is called; entries wait in their sockets meanwhile.
    ///
    /// # Errors
    /// When the disk cannot be had or has no room: all stays in memory, as it was, and that is tried again by the clock.
    pub fn go_to_disk(&mut self) -> Result<()> {
        self.try_to_go().inspect_err(|_| self.try_again())
    }

    fn try_to_go(&mut self) -> Result<()> {
        let places = self.places.clone();
        let may = self.has_place(Place::Volatile)
            && self.door.run(("open", "log"), move || {
                let may = places.may_persist();
                if may {
                    places.directory(Place::Persistent)?;
                }
                Ok(may)
            })?;
        if !may {
            return Ok(());
        }
        self.close();
        match self.opening().open_and_carry(self.left_logs()) {
            Ok(opened) => {
                let Some((keep, recovery, carried)) = opened else { return Ok(()) };
                self.keep = Some(keep);
                self.end_refuge();
                self.note_recovery(&recovery);
                self.note_carried(&carried);
                Ok(())
            }
            Err(e) => {
                self.open_memory()?;
                self.note_refusal(&e);
                Err(e)
            }
        }
    }

    /// Opens the store in memory. Should it not be had, that is tried again by the clock, and what comes
    /// meanwhile is counted.
    pub(super) fn open_memory(&mut self) -> Result<()> {
        let remembered = self.places.remember(Place::Volatile);
        match remembered.and_then(|()| self.opening().open(Place::Volatile)) {
            Ok(opened) => {
                self.keep = opened.map(|(keep, _)| keep);
                Ok(())
            }
            Err(e) => {
                self.trouble(&e);
                self.try_again();
                Err(e)
            }
        }
    }

    /// Opens the store when it could not be had before and it is time to try again.
    pub fn reopen(&mut self) {
        if self.is_without_store() && self.is_due() {
            // What fails is said.
            let _ = match self.places.has_volatile() {
                true => self.open_memory(),
                false => self.open_only_place(),
            };
        }
    }

    /// Opens the one directory of a daemon by hand.
    fn open_only_place(&mut self) -> Result<()> {
        match self.opening().open(Place::Persistent) {
            Ok(opened) => {
                self.keep = opened.map(|(keep, _)| keep);
                self.leave_alone();
                // What was lost meanwhile is said.
                self.end_trouble();
                Ok(())
            }
            Err(e) => {
                self.trouble(&e);
                self.try_again();
                Err(e)
            }
        }
    }

    /// There should be a store and there is none.
    pub(super) fn is_without_store(&self) -> bool {
        self.keep.is_none() && self.places.first() != Place::Nowhere
    }

    /// Goes back to memory, until the next flush; `smart`: unless the disk is never unmounted.
    pub fn leave_disk(&mut self, smart: bool) -> Result<()> {
        let is_at_disk = self.has_place(Place::Persistent) && self.places.has_volatile();
        if smart && self.places.is_on_root() {
            return Ok(());
        }
        self.leave_alone();
        if !is_at_disk {
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

    pub(super) fn has_place(&self, place: Place) -> bool {
        self.keep.as_ref().is_some_and(|keep| keep.place == place)
    }

    /// Readable when the upkeep reports.
    pub fn event(&self) -> &EventFd {
        &self.event
    }

    /// Ends the upkeep when all is done that it was given, and lets go of the directory.
    pub fn close(&mut self) {
        // What it does not say in time, the next start finds out.
        let _ = self.wait_for_disk();
        self.mirror.iter_mut().for_each(Mirrors::flush);
        if let Some(mut keep) = self.keep.take() {
            // Memory always answers; who opens it next needs its lock.
            let patience = match keep.place {
                Place::Persistent => self.config.disk_patience(),
                _ => Duration::MAX,
            };
            keep.upkeep.finish(patience);
            keep.upkeep
                .reports()
                .iter()
                .for_each(|report| warren_sys::tell!("warren-journald: {report}"));
        }
    }

    /// Entries that the last daemon had taken and that are in no file are taken again.
    fn recover(&mut self, recovery: &Recovery, old: Vec<PendingEntry>) {
        let (unkept, had_some) = (self.unkept, !old.is_empty());
        for PendingEntry { class, entry } in old {
            let last = recovery.last_seqnums.get(&class);
            if last.is_none_or(|last| entry.seqnum > *last) {
                self.append_at(&class, &entry.stamp, &entry.context, &entry.fields);
            }
        }
        match self.unkept == unkept && self.trouble.is_none() {
            _ if !had_some => {}
            true => self.pending.renumber(),
            // They are in the memory for the next daemon already.
            false => self.pending.drop_added(),
        }
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

    fn note_carried(&mut self, carried: &Copied) {
        self.note_lost(&carried.lost);
        if !carried.made.is_empty() {
            self.note("Moved the messages kept in memory to disk");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::config::{ClassRoom, Config};
    use crate::daemon::bounds::{FLUSH_URGENT_US, FLUSH_US};
    use crate::daemon::core::Core;
    use crate::daemon::options::Options;
    use crate::daemon::pending::Pending;
    use crate::daemon::places::Places;
    use crate::input::pending::PendingEntry;
    use warren_log_store::entry::{Entry, Fields, Id128, Stamp};
    use warren_log_store::files::Disk;
    use warren_log_store::query::{Direction, Journal, Query};
    use warren_log_store::store::{Setup, Store};

    fn fields(text: &str) -> Fields {
        [("MESSAGE", text)].into_iter().collect()
    }

    fn options(directory: &std::path::Path) -> Options {
        let classes = [("web".to_owned(), ClassRoom::default())].into();
        Options {
            places: Places::by_hand(directory.to_owned()),
            socket_directory: directory.to_owned(),
            config: Config { classes, ..Config::default() },
            faults: Vec::new(),
            kmsg: false,
            audit: false,
            is_of_system: false,
            mirror_root: directory.to_owned(),
            namespace: None,
        }
    }

    /// Who is killed loses little: what comes after a pause is written in its turn, and errors soon.
    #[test]
    fn what_comes_after_a_pause_and_what_is_urgent_is_written_soon() {
        let name = format!("warren-soon-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        let options = options(&directory);
        let mut core = Core::start(&options, (Pending::none(), Vec::new()), 0).expect("empty");
        core.written_us = 0;
        core.note("after a pause");
        assert!(core.end_turn(), "it is in a file");
        let written_us = u64::MAX / 2;
        core.written_us = written_us;
        assert_eq!(core.write_due_us(), None);
        core.note("one more");
        assert!(!core.end_turn(), "it waits for others");
        assert_eq!(core.write_due_us(), Some(written_us + FLUSH_US));
        core.say("3", "an error", b"", &[]);
        assert_eq!(core.write_due_us(), Some(written_us + FLUSH_URGENT_US));
        core.written_us = 0;
        assert!(core.end_turn(), "all is in a file");
        core.note("another");
        assert_eq!(core.write_due_us(), Some(core.written_us + FLUSH_US), "no more urgent");
        core.close();
        std::fs::remove_dir_all(&directory).expect("it was made");
    }

    /// What the last daemon had taken: of each class the numbers that came to a file, and all.
    fn check(written: [&[u64]; 2], taken: [&[u64]; 2]) {
        const CLASSES: [&str; 2] = ["system", "web"];
        let name = format!("warren-recover-{}-{written:?}", std::process::id());
        let directory = std::env::temp_dir().join(name.replace([' ', '[', ']', ','], "_"));
        std::fs::create_dir_all(&directory).expect("a directory");
        let setup = Setup { machine: Id128([1; 16]), new_id: Box::new(|| Id128([2; 16])) };
        let (mut store, _) = Store::open(Arc::new(Disk::new(&directory)), setup).expect("empty");
        let mut all: Vec<(u64, &str)> = Vec::new();
        for (class, numbers) in CLASSES.iter().zip(written) {
            all.extend(numbers.iter().map(|number| (*number, *class)));
        }
        all.sort_unstable();
        for (number, class) in all {
            store.reserve(number - store.next_seqnum());
            let text = format!("{class} {number}");
            let stamp = Stamp::default();
            store.append(class, &stamp, &Arc::default(), &fields(&text)).expect("in bounds");
        }
        store.flush().expect("written");
        drop(store);
        let of_class = |(class, numbers): (&&str, &[u64])| {
            let one = |number: &u64| PendingEntry {
                class: (*class).to_owned(),
                entry: Entry {
                    sequence: Id128::default(),
                    seqnum: *number,
                    stamp: Stamp::default(),
                    context: Arc::default(),
                    fields: fields(&format!("{class} {number}")),
                },
            };
            numbers.iter().map(one).collect::<Vec<PendingEntry>>()
        };
        let old: Vec<PendingEntry> = CLASSES.iter().zip(taken).flat_map(of_class).collect();
        let mut expected: Vec<String> = Vec::new();
        for (class, numbers) in CLASSES.iter().zip(taken) {
            expected.extend(numbers.iter().map(|number| format!("{class} {number}")));
        }
        let options = options(&directory);
        let mut core = Core::start(&options, (Pending::none(), old), 0).expect("it recovers");
        core.sync().expect("written");
        core.close();
        let journal = Journal::open(Arc::new(Disk::new(&directory))).expect("it is there");
        let query = Query::default();
        let texts = journal.entries(&query, Direction::Forward, None).filter_map(|entry| {
            let entry = entry.expect("whole");
            let text = String::from_utf8_lossy(entry.get("MESSAGE")?).into_owned();
            CLASSES.iter().any(|class| text.starts_with(&format!("{class} "))).then_some(text)
        });
        let mut texts: Vec<String> = texts.collect();
        texts.sort();
        expected.sort();
        assert_eq!(texts, expected, "{written:?} of {taken:?}");
        std::fs::remove_dir_all(&directory).expect("it was made");
    }

    #[test]
    fn what_came_to_no_file_is_taken_again_whichever_class_was_written_first() {
        check([&[1, 2, 5], &[3, 4]], [&[1, 2, 5], &[3, 4]]);
        check([&[1, 5], &[]], [&[1, 5], &[3, 4]]);
        check([&[], &[3, 4, 6]], [&[1, 2, 5], &[3, 4, 6]]);
        check([&[1], &[3]], [&[1, 5], &[3, 4]]);
        check([&[], &[]], [&[1], &[2]]);
    }
}

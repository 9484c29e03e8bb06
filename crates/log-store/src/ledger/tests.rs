//! A ledger over a real directory: whatever is changed is found, and old keys are gone.

use std::path::PathBuf;
use std::sync::Arc;

use super::audit::{Report, audit};
use super::book::{Book, read_state, set_up};
use super::keys::State;
use super::*;
use crate::entry::{Fields, Id128, Stamp};
use crate::files::{Disk, File, Files, Listed, Space};
use crate::store::upkeep::seal;
use crate::store::{Setup, Store};
use warren_testkit::Scratch;

const START_US: u64 = 1_700_000_000_000_000;
const INTERVAL_US: u64 = 10_000_000;

/// A store with a ledger.
struct Lab {
    directory: Scratch,
    store: Store,
    key: State,
}

impl Lab {
    fn new(name: &str) -> Lab {
        let directory = Scratch::new(&format!("ledger-{name}"));
        let setup = Setup { machine: Id128::default(), new_id: Box::new(|| Id128([1; 16])) };
        let (store, _) = Store::open(Arc::new(Disk::new(&directory)), setup).expect("empty");
        let key = State::new([7; 32], START_US, INTERVAL_US);
        set_up(&directory, &key, false).expect("written");
        Lab { directory, store, key }
    }

    /// Makes a segment.
    fn segment(&mut self) {
        let fields: Fields = [("MESSAGE", "a text"), ("PRIORITY", "6")].into_iter().collect();
        self.store
            .append("system", &Stamp::default(), &Arc::default(), &fields)
            .expect("in bounds");
        self.store.rotate().expect("a rotation");
        for log in self.store.take_sealable() {
            seal(&Disk::new(&self.directory), &log, Id128::default(), Id128([9; 16]))
                .expect("sealed");
        }
    }

    /// A daemon that begins and looks, so many epochs after the start.
    fn follow(&self, epoch: u64) {
        let mut book = Book::open(&self.directory).expect("readable").expect("a key");
        let now_us = START_US + epoch * INTERVAL_US;
        book.follow(&Disk::new(&self.directory), now_us).expect("written");
    }

    fn audit(&self) -> Report {
        audit(&self.directory, &self.key).expect("readable")
    }

    fn segments(&self) -> Vec<PathBuf> {
        let names = std::fs::read_dir(&self.directory).expect("listed").flatten();
        let mut paths: Vec<PathBuf> = names.map(|entry| entry.path()).collect();
        paths.retain(|path| path.extension().is_some_and(|e| e == "seg"));
        paths.sort();
        paths
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Three segments in epochs 0, 2 and 5.
    fn sample(name: &str) -> Lab {
        let mut lab = Lab::new(name);
        for epoch in [0, 2, 5] {
            lab.segment();
            lab.follow(epoch);
        }
        let report = lab.audit();
        assert_eq!((report.faults.as_slice(), report.proved), (&[][..], 3));
        assert_eq!(report.until_us, Some(START_US + 6 * INTERVAL_US));
        lab
    }

    /// Changes a file, looks for the fault, and puts the file back.
    #[track_caller]
    fn check(&self, name: &str, change: impl FnOnce(&mut Vec<u8>), fault: &str) {
        let path = self.path(name);
        let old = std::fs::read(&path).expect("readable");
        let mut new = old.clone();
        change(&mut new);
        std::fs::write(&path, new).expect("writable");
        let faults = self.audit().faults;
        assert!(faults.iter().any(|found| found.contains(fault)), "{fault}: {faults:?}");
        std::fs::write(&path, old).expect("writable");
    }
}

#[test]
fn a_changed_byte_of_a_segment_is_found() {
    let lab = Lab::sample("bytes");
    let segment = lab.segments().remove(0);
    let name = segment.file_name().and_then(|name| name.to_str()).expect("ASCII").to_owned();
    let bytes = std::fs::read(&segment).expect("readable").len();
    for at in 0..bytes {
        lab.check(&name, |content| content[at] ^= 1 << (at % 8), "changed since it was recorded");
    }
    lab.check(&name, |content| content.push(0), "changed since it was recorded");
    lab.check(&name, |content| content.truncate(bytes - 1), "changed since it was recorded");
}

#[test]
fn a_changed_byte_of_the_ledger_is_found() {
    let lab = Lab::sample("lines");
    let bytes = std::fs::read(lab.path(LEDGER_NAME)).expect("readable").len();
    for at in 0..bytes {
        lab.check(LEDGER_NAME, |content| content[at] ^= 1, "");
    }
}

#[test]
fn what_is_left_out_or_put_elsewhere_is_found() {
    let lab = Lab::sample("order");
    let lines: Vec<String> = std::fs::read_to_string(lab.path(LEDGER_NAME))
        .expect("readable")
        .lines()
        .map(|line| format!("{line}\n"))
        .collect();
    let with = |lines: &[String]| lines.concat().into_bytes();
    for at in 0..lines.len() {
        let mut fewer = lines.clone();
        fewer.remove(at);
        lab.check(LEDGER_NAME, |content| *content = with(&fewer), "");
        if at + 1 < lines.len() {
            let mut turned = lines.clone();
            turned.swap(at, at + 1);
            lab.check(LEDGER_NAME, |content| *content = with(&turned), "line");
        }
        // A cut end: the current key is further than that, or segments are not in it.
        lab.check(LEDGER_NAME, |content| *content = with(&lines[..at]), "");
    }
    let segments = lab.segments();
    std::fs::rename(&segments[0], lab.path("kept")).expect("moved");
    assert_eq!(lab.audit().faults.len(), 1, "one is missing");
    std::fs::copy(&segments[1], lab.path("system-0000000000000999-0000000000000999.seg"))
        .expect("copied");
    assert_eq!(lab.audit().faults.len(), 2, "and one is not known");
    std::fs::rename(lab.path("kept"), &segments[0]).expect("moved");
    std::fs::remove_file(lab.path(KEY_NAME)).expect("removed");
    assert!(lab.audit().faults.iter().any(|fault| fault.contains("key is missing")));
}

#[test]
fn a_segment_that_was_vacuumed_is_no_fault_and_stays_told() {
    let lab = Lab::sample("gone");
    std::fs::remove_file(&lab.segments()[0]).expect("removed");
    lab.follow(6);
    let report = lab.audit();
    assert_eq!((report.faults.as_slice(), report.proved), (&[][..], 2));
    let text = std::fs::read_to_string(lab.path(LEDGER_NAME)).expect("readable");
    assert_eq!(text.matches("\ngone 6 ").count(), 1);
}

#[test]
fn who_has_today_s_key_cannot_change_yesterday() {
    let lab = Lab::sample("forged");
    let stolen = read_state(&lab.directory).expect("readable").expect("a key");
    assert_eq!(stolen.key.epoch, 5);
    let text = std::fs::read_to_string(lab.path(KEY_NAME)).expect("readable");
    assert!(!text.contains(&lab.key.to_string()[..64]), "the first key is not in it");
    // The ledger up to epoch 4, and today's lines written anew over it: as a daemon would.
    let ledger = std::fs::read_to_string(lab.path(LEDGER_NAME)).expect("readable");
    let lines: Vec<&str> = ledger.lines().collect();
    let first_of_2 = lines.iter().position(|line| line.starts_with("mark 2 ")).expect("there");
    std::fs::remove_file(&lab.segments()[1]).expect("removed");
    std::fs::write(lab.path(LEDGER_NAME), lines[..first_of_2].join("\n") + "\n").expect("written");
    lab.follow(5);
    let faults = lab.audit().faults;
    assert!(faults[0].contains("an epoch is missing"), "{faults:?}");
}

#[test]
fn a_crash_at_any_line_leaves_what_can_be_gone_on_with() {
    let lab = Lab::sample("crash");
    let ledger = std::fs::read(lab.path(LEDGER_NAME)).expect("readable");
    let begin = ledger.iter().rposition(|&byte| byte == b'm').expect("the last mark");
    for cut in begin..ledger.len() {
        // The key was not overwritten yet: it is of epoch 2.
        let mut state = lab.key.clone();
        state.key = state.key.next().next();
        set_up(&lab.directory, &state, true).expect("written");
        std::fs::write(lab.path(LEDGER_NAME), &ledger[..cut]).expect("written");
        lab.follow(5);
        assert_eq!(lab.audit().faults, Vec::<String>::new(), "cut at {cut}");
        assert_eq!(read_state(&lab.directory).expect("readable").expect("a key").key.epoch, 5);
    }
    assert!(set_up(&lab.directory, &lab.key, false).is_err(), "a key is not replaced unasked");
}

/// A directory that lists a segment which is not there.
struct Ghost(Disk);

impl Files for Ghost {
    fn list(&self) -> crate::error::Result<Vec<Listed>> {
        let name = "system-0000000000000999-0000000000000999.seg".to_owned();
        let mut all = self.0.list()?;
        all.push(Listed { name, bytes: 1 });
        Ok(all)
    }
    fn open(&self, name: &str) -> crate::error::Result<Box<dyn File>> {
        self.0.open(name)
    }
    fn create(&self, name: &str) -> crate::error::Result<Box<dyn File>> {
        self.0.create(name)
    }
    fn rename(&self, from: &str, to: &str) -> crate::error::Result<()> {
        self.0.rename(from, to)
    }
    fn unlink(&self, name: &str) -> crate::error::Result<()> {
        self.0.unlink(name)
    }
    fn sync_directory(&self) -> crate::error::Result<()> {
        self.0.sync_directory()
    }
    fn space(&self) -> crate::error::Result<Space> {
        self.0.space()
    }
}

/// Whatever fails, and half-way: the next call goes on from what is written.
#[test]
fn what_could_not_be_written_is_no_fault_later() {
    let mut lab = Lab::new("failing");
    lab.segment();
    let disk = Disk::new(&lab.directory);
    let mut book = Book::open(&lab.directory).expect("readable").expect("a key");
    let at = |epoch: u64| START_US + epoch * INTERVAL_US;
    book.follow(&disk, at(0)).expect("written");
    lab.segment();
    assert!(book.follow(&Ghost(disk.clone()), at(2)).is_err(), "it cannot be summed");
    assert_eq!(lab.audit().until_us, Some(at(1)), "nothing of it is written");
    book.follow(&disk, at(3)).expect("written");
    assert_eq!(lab.audit().faults, Vec::<String>::new());
    // As a disk leaves it that became full in the middle of a line.
    let ledger = std::fs::read_to_string(lab.path(LEDGER_NAME)).expect("readable");
    std::fs::write(lab.path(LEDGER_NAME), format!("{ledger}mark 4 17000")).expect("written");
    book.follow(&disk, at(4)).expect("written");
    assert_eq!(lab.audit().faults, Vec::<String>::new());
    // The key cannot be replaced now: that is done later.
    let in_its_place = lab.path(KEY_NAME).with_added_extension("tmp");
    std::fs::create_dir(&in_its_place).expect("made");
    assert!(book.follow(&disk, at(5)).is_err());
    std::fs::remove_dir(&in_its_place).expect("removed");
    book.follow(&disk, at(5)).expect("written");
    assert_eq!(read_state(&lab.directory).expect("readable").expect("a key").key.epoch, 5);
    let report = lab.audit();
    assert_eq!((report.faults, report.proved), (Vec::new(), 2));
}

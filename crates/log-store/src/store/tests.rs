//! The store against crashes, failing disks, cuts and flipped bits.
//!
//! [`read_all`] is the oracle: it reads every file from front to back and uses no index. The
//! model remembers what was appended and what was synced.
//! `crash` stops the machine or fails a change, `damage` cuts and flips what is on the disk.

mod ages;
mod crash;
mod damage;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::fault::{Fault, Memory, Numbers};
use super::names::{Catalogue, FileName};
use super::upkeep::{MERGE_BYTES_MAX, MergeBounds, merge, merge_all, plan_merge, seal};
use super::*;
use crate::block::Kind;
use crate::query::{Direction, Journal, Query};
use crate::segment::read::Segment;
use crate::segment::scan::read_block;

/// By class: sequence number and text of every entry, in order.
type Contents = BTreeMap<String, Vec<(u64, String)>>;

/// Reads everything that counts in a directory.
pub fn read_all(files: &dyn Files) -> Contents {
    let mut all = Contents::new();
    for file in Catalogue::of(files.list().expect("a listing")).files {
        let entries = read_file(files, &file.name);
        all.entry(file.name.class().to_owned()).or_default().extend(entries);
    }
    all.retain(|_, entries| !entries.is_empty());
    all
}

fn read_file(files: &dyn Files, name: &FileName) -> Vec<(u64, String)> {
    match name {
        FileName::Log { .. } => read_log(files, &name.to_string()),
        FileName::Segment(_) => read_segment(files, &name.to_string()),
    }
}

fn read_log(files: &dyn Files, name: &str) -> Vec<(u64, String)> {
    let file = files.open(name).expect("listed");
    let header = read_header(&*file, name).expect("no read fails");
    let mut walk = Walk::new(header.map(|header| header.identity));
    walk.advance(&*file).expect("no read fails");
    let kept = &walk.blocks[..walk.salvage().count];
    let blocks = kept.iter().filter(|block| block.kind == Kind::Entries);
    blocks.flat_map(|header| texts(&read_block(&*file, name, header).expect("verified"))).collect()
}

fn read_segment(files: &dyn Files, name: &str) -> Vec<(u64, String)> {
    let segment = Segment::open(files, name).expect("no read fails");
    let blocks = (0..segment.directory().blocks.len()).filter_map(|at| segment.block(at).ok());
    blocks.filter(|block| block.check().is_ok()).flat_map(|block| texts(&block)).collect()
}

fn texts(block: &crate::block::Block) -> Vec<(u64, String)> {
    let entry = |row| block.entry(row).expect("a checked block");
    let text = |entry: &crate::Entry| {
        String::from_utf8(entry.get("MESSAGE").expect("all have one").to_vec()).expect("ASCII")
    };
    (0..block.rows().len()).map(entry).map(|entry| (entry.seqnum, text(&entry))).collect()
}

fn setup(seed: u64) -> Setup {
    let mut numbers = Numbers(seed);
    let mut id = move || {
        let mut bytes = [0; 16];
        bytes.iter_mut().for_each(|byte| *byte = numbers.below(256) as u8);
        Id128(bytes)
    };
    Setup { machine: id(), new_id: Box::new(id) }
}

/// A writer under test and what must be true of its directory.
struct Life {
    memory: Memory,
    store: Store,
    sealable: Vec<FileName>,
    /// Given to another thread, which has not come to it; with how many entries each is about.
    jobs: Vec<(SyncJob, usize)>,
    appended: Contents,
    /// Of each class: how many entries are durable.
    synced: BTreeMap<String, usize>,
    numbers: Numbers,
    ids: u64,
}

const CLASSES: [&str; 2] = ["system", "noisy"];

impl Life {
    /// Opens a directory that holds `before`, all of it durable.
    fn begin(memory: Memory, before: Contents, numbers: Numbers) -> Result<Life> {
        let ids = numbers.0;
        let (store, _) = Store::open(Arc::new(memory.clone()), setup(ids))?;
        let synced = before.iter().map(|(class, entries)| (class.clone(), entries.len())).collect();
        let (sealable, jobs) = (Vec::new(), Vec::new());
        Ok(Life { memory, store, sealable, jobs, appended: before, synced, numbers, ids })
    }

    fn step(&mut self) -> Result<()> {
        match self.numbers.below(18) {
            0..=4 => self.append(),
            5 | 6 => self.store.flush(),
            7 | 8 => self.sync(),
            9 => self.rotate(),
            10 | 11 => self.upkeep(),
            12 => self.end_early(),
            13 | 14 => self.begin_syncs(),
            _ => self.run_job(),
        }
    }

    fn append(&mut self) -> Result<()> {
        let class = CLASSES[usize::from(self.numbers.below(4) == 0)];
        for _ in 0..self.numbers.below(20) {
            let length = [10, 100, 3000][self.numbers.below(3)];
            let text = format!("{:>length$}", self.numbers.below(1 << 30));
            let time = 1_700_000_000_000_000 + self.numbers.below(1 << 30) as u64;
            let stamp = Stamp { realtime_us: time, monotonic_us: time / 2, boot: Id128([3; 16]) };
            let unit = format!("u{}.service", self.numbers.below(5));
            let context = [("_SYSTEMD_UNIT", &*unit), ("_PID", "7")].into_iter().collect();
            let fields = [("MESSAGE", &*text), ("PRIORITY", "6")].into_iter().collect();
            let seqnum = self.store.append(class, &stamp, &Arc::new(context), &fields)?;
            self.appended.entry(class.to_owned()).or_default().push((seqnum, text));
        }
        Ok(())
    }

    /// As a log that is long enough ends.
    fn end_early(&mut self) -> Result<()> {
        match CLASSES.get(self.numbers.below(3)) {
            None => self.store.end_logs().map(|_| ()),
            Some(class) => self.store.end_those(|other, _| other == *class).map(|_| ()),
        }
    }

    /// Gives another thread all that is written.
    fn begin_syncs(&mut self) -> Result<()> {
        self.store.flush()?;
        let (jobs, begun) = self.store.begin_syncs(true);
        for job in jobs {
            let class = job.log.class();
            // Of a log that has ended it is not known here how much was in it.
            let all = self.appended.get(class).map_or(0, Vec::len);
            let count = if self.store.closing.contains_key(class) { 0 } else { all };
            self.jobs.push((job, count));
        }
        begun
    }

    /// The other thread comes to it.
    fn run_job(&mut self) -> Result<()> {
        if self.jobs.is_empty() {
            return Ok(());
        }
        let (job, count) = self.jobs.remove(0);
        let class = job.log.class().to_owned();
        self.store.end_sync(job.run())?;
        let synced = self.synced.entry(class).or_default();
        *synced = count.max(*synced);
        Ok(())
    }

    fn run_jobs(&mut self) -> Result<()> {
        while !self.jobs.is_empty() {
            self.run_job()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.run_jobs()?;
        let last = self.store.sync()?;
        let newest = self.appended.values().flatten().map(|entry| entry.0).max();
        assert!(newest.unwrap_or(0) <= last, "a sync covers all that was appended");
        self.note_synced();
        Ok(())
    }

    fn note_synced(&mut self) {
        let counts = self.appended.iter().map(|(class, entries)| (class.clone(), entries.len()));
        self.synced = counts.collect();
    }

    fn rotate(&mut self) -> Result<()> {
        self.run_jobs()?;
        self.store.rotate()?;
        self.note_synced();
        Ok(())
    }

    fn upkeep(&mut self) -> Result<()> {
        self.sealable.extend(self.store.take_sealable());
        while let Some(log) = self.sealable.first() {
            self.ids += 1;
            let sealed = seal(&self.memory, log, Id128::default(), Id128([self.ids as u8; 16]))?;
            assert_eq!(sealed.lost, [], "nothing is damaged here");
            self.sealable.remove(0);
        }
        let plan = plan_merge(
            &Catalogue::of(self.memory.list()?),
            &MergeBounds::bytes(MERGE_BYTES_MAX),
            &Default::default(),
            &Default::default(),
        );
        if !plan.is_empty() {
            self.ids += 1;
            merge(&self.memory, &plan, Id128::default(), Id128([self.ids as u8; 16]))?;
        }
        Ok(())
    }

    /// Runs until the plan stops the machine, or so many steps.
    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            if self.step().is_err() {
                return;
            }
        }
    }

    /// What a reader sees who goes on later: each entry that was given a number not above the last
    /// one that he sees.
    fn check_settled(&self) {
        let mut journal = Journal::open(Arc::new(self.memory.clone())).expect("no read fails");
        journal.keep_to_settled().expect("no read fails");
        let query = Query::default();
        let seen = journal.entries(&query, Direction::Forward, None);
        let seen: Vec<u64> = seen.map(|entry| entry.expect("no read fails").seqnum).collect();
        let last = seen.last().copied().unwrap_or(0);
        let numbers = self.appended.values().flatten().map(|entry| entry.0);
        let mut appended: Vec<u64> = numbers.filter(|number| *number <= last).collect();
        appended.sort_unstable();
        assert_eq!(seen, appended, "{}", self.numbers.0);
        if !self.store.has_unwritten() {
            assert_eq!(last, self.store.last_appended, "all is written, and all shows");
        }
    }

    /// Checks what a directory holds against the model, and gives it.
    fn check(&self, memory: &Memory, what: &str) -> Contents {
        let found = read_all(memory);
        for (class, appended) in &self.appended {
            let found = found.get(class).map_or(&[][..], Vec::as_slice);
            let synced = self.synced.get(class).copied().unwrap_or(0);
            assert!(found.len() >= synced, "{what}: {class}: {} of {synced} synced", found.len());
            assert!(appended.starts_with(found), "{what}: {class}: not what was appended");
        }
        assert!(found.keys().all(|class| self.appended.contains_key(class)), "{what}");
        found
    }
}

/// Recovers, seals, merges; the contents must not change by it.
fn recover(memory: &Memory, expected: &Contents, numbers: &Numbers, what: &str) -> Life {
    let life = Life::begin(memory.clone(), expected.clone(), numbers.clone());
    let mut life = life.unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(&life.check(memory, what), expected, "{what}: opening changes nothing");
    life.upkeep().unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!(&life.check(memory, what), expected, "{what}: upkeep changes nothing");
    life
}

/// A directory with merged segments, a segment, and a log of several synced blocks.
fn sample() -> Memory {
    let memory = Memory::new();
    let mut life = Life::begin(memory.clone(), Contents::new(), Numbers(5)).expect("empty");
    for round in 0..7 {
        for _ in 0..6 {
            life.append().expect("no faults");
            life.store.flush().expect("no faults");
        }
        life.sync().expect("no faults");
        if round < 6 {
            life.rotate().expect("no faults");
            life.upkeep().expect("no faults");
        }
    }
    assert_eq!(life.check(&memory, "sample"), life.appended);
    memory
}

/// How many entries of `before` are missing in `after`, of which nothing else may have changed.
fn missing(before: &[(u64, String)], after: &[(u64, String)]) -> usize {
    let mut left = after.iter().peekable();
    let missing = before.iter().filter(|entry| left.next_if_eq(entry).is_none()).count();
    assert_eq!(left.next(), None, "an entry that was never written, or out of order");
    missing
}

#[test]
fn bounds_are_kept() {
    let memory = Memory::new();
    let (mut store, _) = Store::open(Arc::new(memory), setup(1)).expect("empty");
    let mut append = |class: &str, fields: &Fields| {
        store.append(class, &Stamp::default(), &Arc::default(), fields)
    };
    let one: Fields = [("A", "b")].into_iter().collect();
    assert_eq!(append("No", &one), Err(Error::BadClass("No".into())));
    assert!(append("ok", &[("a", "b")].into_iter().collect()).is_err(), "a bad name");
    let many: Fields = std::iter::repeat_n(("A", "b"), ENTRY_FIELDS_MAX + 1).collect();
    assert!(append("ok", &many).is_err(), "too many fields");
    for number in 0..CLASSES_MAX {
        assert!(append(&format!("c{number}"), &one).is_ok());
    }
    assert!(matches!(append("one_more", &one), Err(Error::BadClass(_))));
}

/// Who writes what is wanted would do so again and again, and take nothing meanwhile.
#[test]
fn a_full_log_wants_nothing_while_another_class_waits_for_its_sync() {
    let memory = Memory::new();
    let (mut store, _) = Store::open(Arc::new(memory.clone()), setup(1)).expect("empty");
    let append = |store: &mut Store, class: &str, bytes: usize| {
        let text = "x".repeat(bytes);
        let fields = [("MESSAGE", &*text)].into_iter().collect();
        store.append(class, &Stamp::default(), &Arc::default(), &fields).expect("in bounds");
    };
    append(&mut store, "noisy", 10);
    assert!(store.end_logs().expect("no faults"));
    let (jobs, begun) = store.begin_syncs(false);
    begun.expect("no faults");
    append(&mut store, "noisy", 10);
    for _ in 0..2 * log::LOG_RAW_BYTES / 100_000 {
        append(&mut store, "system", 100_000);
        store.flush().expect("no faults");
        assert!(!store.wants_flush(), "all that can be written is");
    }
    assert!(store.has_unwritten(), "the next log of the class waits");
    let [job] = <[SyncJob; 1]>::try_from(jobs).ok().expect("one log has ended");
    store.end_sync(job.run()).expect("no faults");
    assert!(store.wants_flush(), "the full log is to be ended");
    store.flush().expect("no faults");
    assert!(store.closing.contains_key("system") && !store.wants_flush());
}

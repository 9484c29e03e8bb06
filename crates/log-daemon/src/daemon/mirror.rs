//! `Mirror=`: a copy of what came last, as `.journal` files in memory, for programs that read systemd's
//! files through its library.
//!
//! A few files of a bounded size each; the oldest goes, sooner where others leave too little free in the file system. Names begin as those of systemd's daemon do and go on
//! as its own never do, so that both can write to the directory. The mirror is a copy and no more: what
//! cannot be written is said once and left out, and a daemon that begins begins another file. What a
//! daemon that was killed left may be half of a flush: all that it had before is there to be read, but
//! its tables are not of one piece. The next one makes it anew.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::daemon::bounds::PARTS_OF_RETENTION;
use crate::daemon::places::keep_free;
use crate::daemon::readers::Readers;
use warren_log_store::entry::{Fields, Id128, Stamp};
use warren_log_store::error::{Error, Result};
use warren_log_store::files::{Disk, File, Files, Space};
use warren_log_store::places::MIRROR_NAME;
use warren_log_store::query::union::Reader;
use warren_log_store::query::{Direction, Query};
use warren_log_store::systemd::SystemdFile;
use warren_log_store::systemd::write::{ID_END, Ids, State, Writer, id_of, is_online};

/// Endings of the file that is written to, and of one on the way to being it.
const ENDING: &str = ".journal";
const ENDING_ANEW: &str = ".anew";

/// The bytes of the one of everything are those of so many files.
const FILES: usize = 4;

/// A file has at least so many bytes.
pub const FILE_BYTES_MIN: u64 = 512 << 10;

/// A file has at most so many bytes: all of it is in this process's memory too.
pub const FILE_BYTES_MAX: u64 = 16 << 20;

/// Times that go back by more begin another file, as readers look for an entry by halves; by less, the
/// time of the entry before counts, µs.
const BACK_US: u64 = 1_000_000;

/// What a mirror may take.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of all its files.
    pub bytes_max: u64,
    /// Bytes to leave free in the file system; by default as the store in memory does.
    pub keep_free_bytes: Option<u64>,
}

/// What a mirror is.
#[derive(Debug, Clone)]
pub struct Kind {
    /// How its names begin.
    pub stem: String,
    /// Most files.
    pub files: usize,
    /// The user whose entries alone are in it, who may read it.
    pub owner: Option<u32>,
}

impl Kind {
    /// The one of everything.
    pub fn of_system() -> Kind {
        Kind { stem: MIRROR_NAME.to_owned(), files: FILES, owner: None }
    }

    fn active(&self) -> String {
        format!("{}{ENDING}", self.stem)
    }

    fn anew(&self) -> String {
        format!("{}{ENDING_ANEW}", self.stem)
    }

    /// The number of a file that is not written to.
    fn number(&self, name: &str) -> Option<u64> {
        let digits = name.strip_prefix(&*self.stem)?.strip_prefix('-')?.strip_suffix(ENDING)?;
        u64::from_str_radix(digits, 16).ok()
    }

    fn is_own(&self, name: &str) -> bool {
        name == self.active() || name == self.anew() || self.number(name).is_some()
    }
}

/// The mirror.
pub struct Mirror {
    files: Disk,
    kind: Kind,
    ids: Ids,
    file_bytes_max: usize,
    keep_free_bytes: u64,
    readers: Readers,
    active: Option<(Box<dyn File>, Writer)>,
    /// When its first entry came, monotonic µs.
    begun_us: u64,
    next_seqnum: u64,
    /// The last trouble, so that it is said once.
    trouble: Option<String>,
    /// Something failed since the last flush: nothing is tried before the next one.
    waits: bool,
    /// So many entries came meanwhile.
    left_out: u64,
    /// What is to be said in the log.
    said: Vec<String>,
}

/// The directory of the mirror, where programs look for files of the machine or of a namespace.
pub fn directory(root: &Path, machine: Id128, namespace: Option<&str>) -> PathBuf {
    let name = match namespace {
        Some(namespace) => format!("{machine}.{namespace}"),
        None => machine.to_string(),
    };
    root.join("run/log/journal").join(name)
}

fn new_id() -> Id128 {
    Id128(warren_sys::random::u128().to_le_bytes())
}

impl Mirror {
    /// A mirror of so many bytes. What the last daemon left stays for as long as there is room.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn open(
        directory: &Path,
        bounds: Bounds,
        (machine, kind): (Id128, Kind),
        readers: &Readers,
    ) -> Result<Mirror> {
        let files = Disk::new(directory);
        make_directory(&files, readers)?;
        let own: u64 = files
            .list()?
            .iter()
            .filter(|file| kind.is_own(&file.name))
            .map(|file| file.bytes)
            .sum();
        let space = files.space()?;
        let keep_free_bytes = keep_free(bounds.keep_free_bytes, space);
        let room = (space.free_bytes + own).saturating_sub(keep_free_bytes);
        let bytes = bounds.bytes_max.min(room) / kind.files.max(1) as u64;
        Ok(Mirror {
            files,
            kind,
            ids: Ids { file: new_id(), machine, sequence: new_id() },
            file_bytes_max: bytes.clamp(FILE_BYTES_MIN, FILE_BYTES_MAX) as usize,
            keep_free_bytes,
            readers: readers.clone(),
            active: None,
            begun_us: 0,
            next_seqnum: 1,
            trouble: None,
            waits: false,
            left_out: 0,
            said: Vec::new(),
        })
    }

    /// What is to be said in the log, each once.
    pub fn take_said(&mut self) -> Vec<String> {
        std::mem::take(&mut self.said)
    }

    /// Removes all files.
    ///
    /// # Errors
    /// Those of the directory.
    pub fn remove(mut self) -> Result<()> {
        self.active = None;
        let listing = self.files.list()?;
        let own = listing.iter().filter(|file| self.kind.is_own(&file.name));
        own.map(|file| self.files.unlink(&file.name)).fold(Ok(()), Result::and)
    }

    /// Takes an entry; what does not fit into a file is left out.
    pub fn append(&mut self, stamp: &Stamp, context: &Arc<Fields>, fields: &Fields) {
        if self.waits {
            self.left_out += 1;
            return;
        }
        let of_unit = said_of_unit(context, fields);
        let appended = self.try_append(*stamp, context, of_unit.as_ref().unwrap_or(fields));
        self.note(appended);
    }

    fn try_append(
        &mut self,
        mut stamp: Stamp,
        context: &Arc<Fields>,
        fields: &Fields,
    ) -> Result<()> {
        if let Some((_, writer)) = &self.active
            && (!writer.has_room(context, fields) || falls(writer.last(), &stamp))
        {
            self.archive()?;
        }
        if self.active.is_none() {
            self.begin()?;
            self.begun_us = stamp.monotonic_us;
        }
        let Some((_, writer)) = &mut self.active else { return Ok(()) };
        if writer.has_room(context, fields) {
            if let Some(last) = writer.last() {
                // Who follows goes on behind a moment when a file gets another name, and would show
                // again what a batch has of the same one.
                stamp.realtime_us = stamp.realtime_us.max(last.realtime_us + 1);
                stamp.monotonic_us = stamp.monotonic_us.max(last.monotonic_us + 1);
            }
            writer.append(self.next_seqnum, &stamp, context, fields);
            self.next_seqnum += 1;
        }
        Ok(())
    }

    /// Removes what is older than messages are kept, µs, and begins another file in time for that. By the wall clock of
    /// the file system: should it be wrong, it is a copy that goes.
    pub fn forget(&mut self, retention_us: u64, now_us: u64) {
        let forgotten = self.try_forget(retention_us, now_us);
        self.note(forgotten);
    }

    fn try_forget(&mut self, retention_us: u64, now_us: u64) -> Result<()> {
        let is_due = now_us.saturating_sub(self.begun_us) >= retention_us / PARTS_OF_RETENTION;
        if self.active.is_some() && is_due {
            self.archive()?;
        }
        if self.active.is_none() {
            self.put_away(&self.kind.active())?;
        }
        for name in self.numbered()? {
            let path = self.files.directory().join(&name);
            let written = path.metadata().and_then(|stat| stat.modified()).ok();
            let age = written.and_then(|time| time.elapsed().ok());
            if age.is_some_and(|age| age.as_micros() > u128::from(retention_us)) {
                self.files.unlink(&name)?;
            }
        }
        Ok(())
    }

    /// Puts what was taken into the file.
    pub fn flush(&mut self) {
        if self.active.is_none() {
            self.waits = false;
            return;
        }
        let flushed = self.find_file().and_then(|()| self.find_room()).and_then(|()| self.write());
        self.note(flushed);
    }

    fn write(&mut self) -> Result<()> {
        let Some((file, writer)) = &mut self.active else { return Ok(()) };
        writer.flush(&**file)
    }

    /// Makes the file again when somebody has removed it: all of it is in memory.
    fn find_file(&mut self) -> Result<()> {
        let Some((file, writer)) = &mut self.active else { return Ok(()) };
        let active = self.kind.active();
        match self.files.beginning(&active, ID_END) {
            Ok((beginning, 1..)) if id_of(&beginning) != Some(writer.id()) => {}
            // Before the first flush it has no bytes.
            Ok(_) => return Ok(()),
            Err(e) if e.is_gone() => {}
            Err(e) => return Err(e),
        }
        make_directory(&self.files, &self.readers)?;
        self.files.unlink(&active)?;
        *file = create(&self.files, &self.kind, &self.readers, &active)?;
        writer.begin_anew();
        Ok(())
    }

    /// Removes the oldest files until the next flush leaves enough free.
    fn find_room(&mut self) -> Result<()> {
        let Some((_, writer)) = &self.active else { return Ok(()) };
        // Once it was too little, something to spare is wanted: else it would go on and wait by turns.
        let spare = if self.trouble.is_some() { FILE_BYTES_MIN } else { 0 };
        let wanted = self.keep_free_bytes.saturating_add(spare + writer.growth() as u64);
        let has_room = |space: Space| space.free_bytes >= wanted || self.keep_free_bytes == 0;
        let mut gone = 0;
        while !has_room(self.files.space()?) {
            let Some(oldest) = self.numbered()?.into_iter().next() else { break };
            self.files.unlink(&oldest)?;
            gone += 1;
        }
        let is_short = !has_room(self.files.space()?);
        if gone > 0 {
            self.said.push(format!(
                "Removed the oldest {gone} journal files in systemd's format: the file system has less free space \
                 than RuntimeKeepFree="
            ));
        }
        if is_short { Err(Error::NoRoom) } else { Ok(()) }
    }

    /// Writes everything and says that nobody writes any more.
    pub fn finish(&mut self) {
        if let Some((_, writer)) = &mut self.active {
            writer.set_state(State::Offline);
        }
        self.flush();
    }

    fn note(&mut self, done: Result<()>) {
        self.waits = done.is_err();
        let text = done.err().map(|e| e.to_string());
        if let Some(text) = &text
            && self.trouble.as_ref() != Some(text)
        {
            warren_sys::tell!("warren-journald: the mirror: {text}");
            self.said.push(format!("Cannot write journal files in systemd's format: {text}"));
        }
        if text.is_none() && self.left_out > 0 {
            let left_out = std::mem::take(&mut self.left_out);
            self.said.push(format!(
                "Writing journal files in systemd's format again; they lack {left_out} messages"
            ));
            self.trouble = None;
        }
        self.trouble = text.or(self.trouble.take());
    }

    fn begin(&mut self) -> Result<()> {
        make_directory(&self.files, &self.readers)?;
        let active = self.kind.active();
        make_anew((&self.files, &self.kind, &self.readers), self.ids, self.file_bytes_max)?;
        self.put_away(&active)?;
        self.make_room()?;
        let file = create(&self.files, &self.kind, &self.readers, &active)?;
        self.ids.file = new_id();
        self.active = Some((file, Writer::new(self.ids, self.file_bytes_max)));
        Ok(())
    }

    /// Closes the file; the next entry begins another.
    fn archive(&mut self) -> Result<()> {
        self.find_file()?;
        self.find_room()?;
        let Some((file, mut writer)) = self.active.take() else { return Ok(()) };
        writer.set_state(State::Archived);
        writer.flush(&*file)
    }

    /// Gives a file that was written to its own name.
    fn put_away(&self, name: &str) -> Result<()> {
        let listing = self.files.list()?;
        if listing.iter().any(|file| file.name == name) {
            let numbers = listing.iter().filter_map(|file| self.kind.number(&file.name));
            let next = numbers.max().unwrap_or(0) + 1;
            self.files.rename(name, &format!("{}-{next:016x}{ENDING}", self.kind.stem))?;
        }
        Ok(())
    }

    /// Removes the oldest files, so that there is room for one more.
    fn make_room(&self) -> Result<()> {
        let numbered = self.numbered()?;
        let gone = numbered.len().saturating_sub(self.kind.files - 1);
        numbered.iter().take(gone).try_for_each(|name| self.files.unlink(name))
    }

    /// Files that nobody writes to any more, the oldest first.
    fn numbered(&self) -> Result<Vec<String>> {
        let listing = self.files.list()?.into_iter();
        let mut numbered: Vec<(u64, String)> =
            listing.filter_map(|file| Some((self.kind.number(&file.name)?, file.name))).collect();
        numbered.sort_unstable();
        Ok(numbered.into_iter().map(|(_, name)| name).collect())
    }
}

fn make_directory(files: &Disk, readers: &Readers) -> Result<()> {
    let directory = files.directory();
    std::fs::create_dir_all(directory)
        .map_err(|e| Error::io("mkdir", &directory.display().to_string(), &e))?;
    readers.admit(directory)
}

/// Makes a file, which its owner may read besides those who may read the log.
fn create(files: &Disk, kind: &Kind, readers: &Readers, name: &str) -> Result<Box<dyn File>> {
    let file = files.create(name)?;
    match kind.owner {
        Some(uid) => readers.admit_owner(&files.directory().join(name), uid).map(|()| file),
        None => Ok(file),
    }
}

/// What the manager says of a unit, so that Debian's journalctl finds it by the unit: it looks for `UNIT=`
/// in messages of process 1 alone, and for this field in those of root.
fn said_of_unit(context: &Fields, fields: &Fields) -> Option<Fields> {
    let is_manager = context.get("_COMM") == Some(b"warrend") && context.get("_UID") == Some(b"0");
    let unit = fields.get("UNIT").filter(|_| is_manager)?;
    let mut all = fields.clone();
    all.push(b"OBJECT_SYSTEMD_UNIT", unit);
    Some(all)
}

/// Puts a file with the same entries in the place of one to which somebody wrote when he was killed.
/// One that cannot be read stays as it is.
fn make_anew(
    (files, kind, readers): (&Disk, &Kind, &Readers),
    ids: Ids,
    bytes_max: usize,
) -> Result<()> {
    let (active, anew) = (kind.active(), kind.anew());
    let Some(listed) = files.list()?.into_iter().find(|file| file.name == active) else {
        return Ok(());
    };
    let file = files.open(&active)?;
    if !is_online(&*file)? {
        return Ok(());
    }
    let Ok(old) = SystemdFile::of(&active, file) else { return Ok(()) };
    // Its numbers are those of the old one: who follows goes on behind what he has seen.
    let ids = Ids { file: new_id(), sequence: old.header().sequence, ..ids };
    let mut writer = Writer::new(ids, bytes_max.max(listed.bytes as usize));
    let query = Query::default();
    let mut entries = old.entries(&query, Direction::Forward, None);
    while let Some(entry) = entries.try_next()? {
        if writer.has_room(&entry.context, &entry.fields) {
            writer.append(entry.seqnum, &entry.stamp, &entry.context, &entry.fields);
        }
    }
    writer.set_state(State::Archived);
    files.unlink(&anew)?;
    writer.flush(&*create(files, kind, readers, &anew)?)?;
    files.rename(&anew, &active)
}

/// Whether an entry came so long before the last one that it cannot be behind it.
fn falls(last: Option<Stamp>, stamp: &Stamp) -> bool {
    last.is_some_and(|last| {
        let wall = last.realtime_us > stamp.realtime_us.saturating_add(BACK_US);
        let uptime = last.monotonic_us > stamp.monotonic_us.saturating_add(BACK_US);
        wall || uptime || last.boot != stamp.boot
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Where a writer was killed after so many writes, in the middle of the next one.
    struct Cut {
        file: Box<dyn File>,
        writes_left: AtomicUsize,
    }

    impl File for Cut {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
            self.file.read_at(buffer, offset)
        }

        fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
            let left = self.writes_left.load(Ordering::Relaxed);
            if left > 0 {
                self.writes_left.store(left - 1, Ordering::Relaxed);
                return self.file.write_at(bytes, offset);
            }
            self.file.write_at(&bytes[..bytes.len() / 2], offset)?;
            Err(Error::Io { op: "write", name: "killed".to_owned(), errno: 5 })
        }

        fn sync(&self) -> Result<()> {
            self.file.sync()
        }

        fn len(&self) -> Result<u64> {
            self.file.len()
        }
    }

    const BOUNDS: Bounds = Bounds { bytes_max: FILE_BYTES_MIN, keep_free_bytes: Some(0) };

    const ACTIVE: &str = "system@warren.journal";

    const BEFORE: u64 = 400;
    const AFTER: u64 = 480;

    /// The file of a daemon that was killed in its second flush; true: it was through with it.
    fn killed(files: &Disk, ids: Ids, writes: usize) -> bool {
        let _ = files.unlink(ACTIVE);
        let file = files.create(ACTIVE).expect("a file");
        let mut writer = Writer::new(ids, 1 << 20);
        for number in 0..AFTER {
            if number == BEFORE {
                writer.flush(&*file).expect("written");
            }
            let (realtime_us, boot) = (1_700_000_000_000_000 + number, Id128([1; 16]));
            let stamp = Stamp { realtime_us, monotonic_us: 1 + number, boot };
            let (few, text) = (format!("{}", number % 7), format!("text {number}"));
            let fields =
                [("FEW", &*few), ("MESSAGE", &*text), (["A", "B"][number as usize % 2], "x")];
            writer.append(number + 1, &stamp, &Arc::default(), &fields.into_iter().collect());
        }
        writer.flush(&Cut { file, writes_left: AtomicUsize::new(writes) }).is_ok()
    }

    /// What Debian's journalctl prints; `None` where there is none.
    fn journalctl(directory: &Path, options: &[&str]) -> Option<(bool, usize)> {
        let mut command = std::process::Command::new("journalctl");
        let output = command.args(["-q", "--no-pager", "-D"]).arg(directory).args(options).output();
        let output = output.ok()?;
        Some((output.status.success(), output.stdout.split(|&byte| byte == b'\n').count() - 1))
    }

    #[test]
    fn what_the_manager_says_of_a_unit_is_found_by_the_unit() {
        let context = |comm| [("_COMM", comm), ("_UID", "0")].into_iter().collect();
        let fields: Fields = [("MESSAGE", "Started"), ("UNIT", "a.service")].into_iter().collect();
        let all = said_of_unit(&context("warrend"), &fields).expect("one field more");
        assert_eq!(all.get("OBJECT_SYSTEMD_UNIT"), Some(&b"a.service"[..]));
        assert!(said_of_unit(&context("other"), &fields).is_none());
        assert!(said_of_unit(&context("warrend"), &Fields::new()).is_none());
    }

    #[test]
    fn what_a_killed_daemon_left_is_made_anew() {
        let root = std::env::temp_dir().join(format!("warren-anew-{}", std::process::id()));
        std::fs::create_dir_all(&root).expect("a directory");
        let files = Disk::new(&root);
        let ids = Ids { file: Id128([5; 16]), machine: Id128([6; 16]), sequence: Id128([7; 16]) };
        for writes in 0.. {
            let whole = killed(&files, ids, writes);
            let found = journalctl(&root, &["-o", "cat"]);
            make_anew(
                (&files, &Kind::of_system(), &Readers::default()),
                ids,
                FILE_BYTES_MIN as usize,
            )
            .expect("readable");
            let old = SystemdFile::of(ACTIVE, files.open(ACTIVE).expect("it is there"));
            let old = old.expect("a file of ours");
            let query = Query::default();
            let mut entries = old.entries(&query, Direction::Forward, None);
            let mut count = 0;
            while let Some(entry) = entries.try_next().expect("readable") {
                count += 1;
                assert_eq!(entry.get("MESSAGE"), Some(format!("text {}", count - 1).as_bytes()));
            }
            assert!(entries.damage().is_empty());
            assert!(count == BEFORE || count == AFTER, "{writes} writes: {count}");
            match found {
                None => {
                    warren_testkit::not_run("journalctl of systemd is not installed");
                }
                Some(found) => {
                    assert_eq!(found, (true, count as usize), "as it was left, {writes} writes");
                    assert_eq!(journalctl(&root, &["--verify"]).map(|it| it.0), Some(true));
                    let shown = journalctl(&root, &["-o", "cat"]);
                    assert_eq!(shown, Some((true, count as usize)), "{writes} writes");
                }
            }
            if whole {
                break;
            }
        }
        std::fs::remove_dir_all(&root).expect("ours to remove");
    }

    /// journalctl -f shows an entry again, behind a file that got another name, when one before it is of
    /// the same moment.
    #[test]
    fn no_two_entries_are_of_one_moment() {
        let root = std::env::temp_dir().join(format!("warren-moment-{}", std::process::id()));
        let machine = Id128([6; 16]);
        let mut mirror =
            Mirror::open(&root, BOUNDS, (machine, Kind::of_system()), &Readers::default())
                .expect("a directory");
        let boot = Id128([1; 16]);
        let stamp = Stamp { realtime_us: 1_700_000_000_000_000, monotonic_us: 7, boot };
        for _ in 0..100 {
            let fields = [("MESSAGE", "one batch")].into_iter().collect();
            mirror.append(&stamp, &Arc::default(), &fields);
        }
        mirror.finish();
        let files = Disk::new(&root);
        let file = SystemdFile::of(ACTIVE, files.open(ACTIVE).expect("it is there")).expect("ours");
        let query = Query::default();
        let mut entries = file.entries(&query, Direction::Forward, None);
        let mut stamps = Vec::new();
        while let Some(entry) = entries.try_next().expect("readable") {
            stamps.push((entry.stamp.realtime_us, entry.stamp.monotonic_us));
        }
        assert_eq!(stamps.len(), 100);
        assert_eq!(stamps[0], (stamp.realtime_us, stamp.monotonic_us));
        assert!(stamps.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1), "{stamps:?}");
        std::fs::remove_dir_all(&root).expect("ours to remove");
    }

    #[test]
    fn clocks_that_go_back_begin_another_file() {
        let stamp = |realtime_us, monotonic_us, boot| Stamp {
            realtime_us,
            monotonic_us,
            boot: Id128([boot; 16]),
        };
        let last = Some(stamp(10_000_000, 5_000_000, 1));
        assert!(!falls(None, &stamp(0, 0, 1)));
        assert!(!falls(last, &stamp(10_000_000, 5_000_000, 1)));
        assert!(!falls(last, &stamp(9_000_000, 4_000_000, 1)));
        assert!(falls(last, &stamp(8_999_999, 5_000_000, 1)));
        assert!(falls(last, &stamp(10_000_000, 3_999_999, 1)));
        assert!(falls(last, &stamp(10_000_000, 5_000_000, 2)));
    }

    #[test]
    fn names_of_old_files_have_numbers() {
        let number = |name| Kind::of_system().number(name);
        assert_eq!(number("system@warren-00000000000000ff.journal"), Some(255));
        for other in [ACTIVE, "system.journal", "system@warren-x.journal"] {
            assert_eq!(number(other), None, "{other}");
        }
    }
}

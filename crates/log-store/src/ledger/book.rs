//! The daemon's side: the ledger follows what is in the directory.
//!
//! Lines of past epochs are written and synced before their key is overwritten: a crash between
//! leaves an older key than could be, and nothing that cannot be signed any more.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::files::{Files, read_small};
use crate::ledger::keys::{Bytes32, State};
use crate::ledger::record::{Record, What};
use crate::ledger::{KEY_NAME, LEDGER_BYTES_MAX, LEDGER_NAME};
use crate::store::names::{Catalogue, SegmentName};

/// Read at a time while a file is summed, bytes.
const PIECE_BYTES: usize = 1 << 20;

/// Mode of the key: the owner alone.
const KEY_MODE: u32 = 0o600;

/// Mode of the ledger, as of all files of the store.
const LEDGER_MODE: u32 = 0o640;

/// An open ledger.
pub struct Book {
    directory: PathBuf,
    /// What is signed with, and what of it is on the disk.
    state: State,
    kept: State,
    file: File,
    /// Bytes of the lines that count: what is behind them is cut off before more is written.
    whole: u64,
    /// Signature of the last line.
    last: Bytes32,
    /// The last epoch that has a line.
    marked: Option<u64>,
    /// Segments that are there by what the lines say.
    held: BTreeSet<SegmentName>,
}

/// Writes a first state, if there is none yet or it is to be replaced with its ledger.
///
/// # Errors
/// When there is one, or the directory cannot be written to.
pub fn set_up(directory: &Path, state: &State, replace: bool) -> Result<()> {
    use warren_sys::errno::EEXIST;
    if directory.join(KEY_NAME).exists() && !replace {
        return Err(Error::Io { op: "create", name: KEY_NAME.to_owned(), errno: EEXIST });
    }
    match std::fs::remove_file(directory.join(LEDGER_NAME)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io("unlink", LEDGER_NAME, &e));
        }
        _ => {}
    }
    write_state(directory, state)
}

/// Replaces the state on the disk.
fn write_state(directory: &Path, state: &State) -> Result<()> {
    let new = directory.join(KEY_NAME).with_added_extension("tmp");
    let write = || -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(KEY_MODE);
        let mut file = options.open(&new)?;
        file.write_all(format!("{state}\n").as_bytes())?;
        file.sync_data()?;
        std::fs::rename(&new, directory.join(KEY_NAME))?;
        File::open(directory)?.sync_all()
    };
    write().map_err(|e| Error::io("write", KEY_NAME, &e))
}

/// More than a key has, bytes.
const KEY_BYTES_MAX: u64 = 4096;

/// The state in a directory; `None` where segments are not proved.
pub fn read_state(directory: &Path) -> Result<Option<State>> {
    match read_small(&directory.join(KEY_NAME), KEY_BYTES_MAX) {
        Ok(bytes) => State::parse(&String::from_utf8_lossy(&bytes)).map(Some).ok_or_else(|| {
            Error::Damaged { name: KEY_NAME.to_owned(), offset: 0, what: "not a key" }
        }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::io("read", KEY_NAME, &e)),
    }
}

/// All of the ledger; empty where there is none yet.
pub fn read_ledger(directory: &Path) -> Result<String> {
    match read_small(&directory.join(LEDGER_NAME), LEDGER_BYTES_MAX) {
        Err(e) if e.kind() == std::io::ErrorKind::FileTooLarge => {
            Err(Error::TooLarge { what: "the ledger", max: LEDGER_BYTES_MAX as usize })
        }
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(e) => Err(Error::io("read", LEDGER_NAME, &e)),
    }
}

impl Book {
    /// Opens the ledger of a directory, if it has a key. A line that a crash cut is cut off.
    pub fn open(directory: &Path) -> Result<Option<Book>> {
        let Some(state) = read_state(directory)? else { return Ok(None) };
        let text = read_ledger(directory)?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let failed = |e: std::io::Error| Error::io("open", LEDGER_NAME, &e);
        let mut options = OpenOptions::new();
        options.append(true).create(true).mode(LEDGER_MODE);
        let file = options.open(directory.join(LEDGER_NAME)).map_err(failed)?;
        if whole < text.len() {
            file.set_len(whole as u64).map_err(failed)?;
        }
        let mut book = Book {
            directory: directory.to_owned(),
            kept: state.clone(),
            state,
            file,
            whole: whole as u64,
            last: Bytes32::ZERO,
            marked: None,
            held: BTreeSet::new(),
        };
        text[..whole].lines().for_each(|line| book.remember(line));
        Ok(Some(book))
    }

    /// Length of an epoch, µs.
    pub fn interval_us(&self) -> u64 {
        self.state.interval_us
    }

    /// Takes up a line of an earlier daemon. Whether it is signed well is for [`super::audit`].
    fn remember(&mut self, line: &str) {
        let Some((record, _, signature)) = Record::parse(line) else { return };
        self.last = signature;
        self.marked = self.marked.max(Some(record.epoch));
        match record.what {
            What::Mark => {}
            What::Have { name, .. } => _ = self.held.insert(name),
            What::Gone { name } => _ = self.held.remove(&name),
        }
    }

    /// Writes what is new: the epochs up to now, and segments that came and went.
    ///
    /// # Errors
    /// All is as it was, and is written with the next call.
    pub fn follow(&mut self, files: &dyn Files, now_us: u64) -> Result<()> {
        let there: BTreeSet<SegmentName> =
            Catalogue::of(files.list()?).segments().map(|(name, _)| name.clone()).collect();
        let mut draft = Draft::of(self);
        draft.advance(now_us);
        for name in self.held.difference(&there) {
            draft.sign(What::Gone { name: name.clone() }, now_us);
        }
        for name in there.difference(&self.held) {
            let (bytes, sum) = sum_of(files, &name.to_string())?;
            draft.sign(What::Have { name: name.clone(), bytes, sum }, now_us);
        }
        let Draft { state, lines, .. } = draft;
        self.put(&lines)?;
        lines.lines().for_each(|line| self.remember(line));
        self.state = state;
        if self.kept != self.state {
            write_state(&self.directory, &self.state)?;
            self.kept = self.state.clone();
        }
        Ok(())
    }

    /// Adds lines, all of them or none.
    fn put(&mut self, lines: &str) -> Result<()> {
        let failed = |e: std::io::Error| Error::io("write", LEDGER_NAME, &e);
        self.cut().map_err(failed)?;
        let put = self.file.write_all(lines.as_bytes()).and_then(|()| self.file.sync_data());
        if let Err(e) = put {
            // What cannot be cut off now is cut off before more is written.
            let _ = self.cut();
            return Err(failed(e));
        }
        self.whole += lines.len() as u64;
        Ok(())
    }

    /// Cuts off what is behind the lines that count.
    fn cut(&self) -> std::io::Result<()> {
        match self.file.metadata()?.len() > self.whole {
            true => self.file.set_len(self.whole),
            false => Ok(()),
        }
    }
}

/// Lines that are signed and not written.
struct Draft {
    state: State,
    last: Bytes32,
    marked: Option<u64>,
    lines: String,
}

impl Draft {
    fn of(book: &Book) -> Draft {
        let Book { state, last, marked, .. } = book;
        Draft { state: state.clone(), last: *last, marked: *marked, lines: String::new() }
    }

    /// One mark for each epoch that has begun.
    fn advance(&mut self, now_us: u64) {
        let now = self.state.epoch_at(now_us);
        loop {
            let epoch = self.state.key.epoch;
            if self.marked.is_none_or(|marked| marked < epoch) {
                let begin_us = self.state.begin_us(epoch);
                self.sign(What::Mark, begin_us);
            }
            if epoch >= now {
                return;
            }
            self.state.key = self.state.key.next();
        }
    }

    fn sign(&mut self, what: What, time_us: u64) {
        let record = Record { epoch: self.state.key.epoch, time_us, what };
        let (line, signature) = record.signed(&self.state.key, &self.last);
        self.last = signature;
        self.lines.push_str(&line);
    }
}

/// Size and SHA-256 of a file.
pub fn sum_of(files: &dyn Files, name: &str) -> Result<(u64, Bytes32)> {
    let file = files.open(name)?;
    let (mut sum, mut at, mut piece) = (Sha256::new(), 0, vec![0; PIECE_BYTES]);
    loop {
        let count = file.read_at(&mut piece, at)?;
        if count == 0 {
            return Ok((at, Bytes32(sum.finalize().into())));
        }
        sum.update(&piece[..count]);
        at += count as u64;
    }
}

//! The entries of a `.journal` file as those of a store.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::entry::{ENTRY_BYTES_MAX, Entry, Fields, Id128, is_valid_name};
use crate::error::{Damage, Error, Result};
use crate::files::{Disk, Files};
use crate::query::union::{Boots, Reader, Stream, Values};
use crate::query::{Direction, Query};
use crate::segment::directory::BootSpan;
use crate::systemd::file::{Fault, Header, JournalFile};

/// Most data objects that are remembered: most entries have most values in common.
const KNOWN_MAX: usize = 1 << 14;

/// Longest value that is remembered, bytes.
const KNOWN_BYTES_MAX: usize = 1 << 10;

/// Name and value.
type Field = Arc<(Vec<u8>, Vec<u8>)>;

/// A file.
pub struct SystemdFile {
    file: JournalFile,
    /// Offsets of the entries, and where they end too early.
    entries: OnceCell<(Vec<u64>, Option<Error>)>,
    known: RefCell<BTreeMap<u64, Field>>,
}

impl SystemdFile {
    /// Opens a file and reads its header.
    pub fn open(path: &Path) -> Result<SystemdFile> {
        let name = path.display().to_string();
        let directory = path.parent().unwrap_or(Path::new("."));
        let base = path.file_name().map(|base| base.to_string_lossy().into_owned());
        let file = Disk::new(directory).open(&base.unwrap_or_default())?;
        SystemdFile::of(&name, file)
    }

    /// Over any file.
    pub fn of(name: &str, file: Box<dyn crate::files::File>) -> Result<SystemdFile> {
        let file = JournalFile::open(name, file)?;
        Ok(SystemdFile { file, entries: OnceCell::new(), known: RefCell::default() })
    }

    /// What the header says.
    pub fn header(&self) -> &Header {
        self.file.header()
    }

    /// What of it cannot be read.
    pub fn verify(&self) -> Result<Vec<Error>> {
        self.each(|_| {})
    }

    fn entries(&self) -> Result<&(Vec<u64>, Option<Error>)> {
        if let Some(entries) = self.entries.get() {
            return Ok(entries);
        }
        let entries = self.file.entries()?;
        Ok(self.entries.get_or_init(|| entries))
    }

    /// An entry with what of it can be read; the damage of the rest.
    fn entry(&self, at: u64, damage: &mut Vec<Error>) -> Result<Option<Entry>> {
        let object = match self.file.entry(at) {
            Ok(object) => object,
            Err(fault) => return self.note(at, fault, damage).map(|()| None),
        };
        let mut fields = Fields::new();
        for offset in object.data {
            match self.field(offset) {
                // What a boot is, the stamp says.
                Ok(field) if field.0 == b"_BOOT_ID" || !is_valid_name(&field.0) => {}
                Ok(field)
                    if fields.bytes_len() + field.0.len() + field.1.len() > ENTRY_BYTES_MAX =>
                {
                    self.note(offset, Damage("an entry is too large").into(), damage)?;
                }
                Ok(field) => fields.push(&field.0, &field.1),
                Err(fault) => self.note(offset, fault, damage)?,
            }
        }
        Ok(Some(Entry {
            sequence: self.file.header().sequence,
            seqnum: object.seqnum,
            stamp: object.stamp,
            context: Arc::default(),
            fields,
        }))
    }

    fn note(&self, at: u64, fault: Fault, damage: &mut Vec<Error>) -> Result<()> {
        /// Most faults of one file that are kept.
        const DAMAGE_MAX: usize = 100;
        match self.file.fault(at, fault) {
            error if error.leaves_the_rest() => {
                if damage.len() < DAMAGE_MAX {
                    damage.push(error);
                }
                Ok(())
            }
            error => Err(error),
        }
    }

    fn field(&self, at: u64) -> std::result::Result<Field, Fault> {
        if let Some(field) = self.known.borrow().get(&at) {
            return Ok(field.clone());
        }
        let field = Arc::new(self.file.data(at)?);
        if field.1.len() <= KNOWN_BYTES_MAX {
            let mut known = self.known.borrow_mut();
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            known.insert(at, field.clone());
        }
        Ok(field)
    }

    /// Does it for each entry.
    fn each(&self, mut each: impl FnMut(&Entry)) -> Result<Vec<Error>> {
        let query = Query::default();
        let mut stream = Reader::entries(self, &query, Direction::Forward, None);
        while let Some(entry) = stream.try_next()? {
            each(&entry);
        }
        Ok(stream.damage().to_vec())
    }
}

impl Reader for SystemdFile {
    /// A picture is what the header said when the file was opened.
    fn refresh(&mut self) -> Result<()> {
        Ok(())
    }

    fn span_us(&self) -> Option<(u64, u64)> {
        let header = self.file.header();
        (header.count > 0).then_some(header.realtime_us)
    }

    fn entries<'a>(
        &'a self,
        query: &'a Query,
        direction: Direction,
        position: Option<u64>,
    ) -> Box<dyn Stream + 'a> {
        Box::new(Walk { file: self, query, direction, position, next: 0, damage: Vec::new() })
    }

    fn values(&self, field: &[u8]) -> Result<Values> {
        let mut values = BTreeSet::new();
        let damage = self.each(|entry| {
            let named = entry.fields.iter().filter(|(name, _)| *name == field);
            values.extend(named.map(|(_, value)| value.to_vec()));
            if field == b"_BOOT_ID" {
                values.insert(entry.stamp.boot.to_string().into_bytes());
            }
        })?;
        Ok((values, damage))
    }

    fn field_names(&self) -> Result<Values> {
        let mut names = BTreeSet::new();
        let damage =
            self.each(|entry| names.extend(entry.fields.iter().map(|(name, _)| name.to_vec())))?;
        Ok((names, damage))
    }

    fn boots(&self) -> Result<Boots> {
        let (offsets, fault) = self.entries()?;
        let (mut spans, mut damage) = (Vec::new(), fault.iter().cloned().collect());
        for at in offsets {
            let object = match self.file.entry(*at) {
                Ok(object) => object,
                Err(fault) => {
                    self.note(*at, fault, &mut damage)?;
                    continue;
                }
            };
            let realtime = object.stamp.realtime_us;
            let span = BootSpan {
                boot: object.stamp.boot,
                realtime_min_us: realtime,
                realtime_max_us: realtime,
                first_seqnum: object.seqnum,
            };
            BootSpan::join(&mut spans, span);
        }
        Ok((spans, damage))
    }

    fn has_sequence(&self, sequence: Id128) -> Result<bool> {
        Ok(self.file.header().sequence == sequence)
    }
}

/// Entries one after the other.
struct Walk<'a> {
    file: &'a SystemdFile,
    query: &'a Query,
    direction: Direction,
    position: Option<u64>,
    /// How many offsets were looked at.
    next: usize,
    damage: Vec<Error>,
}

impl Walk<'_> {
    fn wants(&self, entry: &Entry) -> bool {
        let query = self.query;
        let time = entry.stamp.realtime_us;
        let in_time = query.since_us.is_none_or(|since| time >= since)
            && query.until_us.is_none_or(|until| time <= until);
        let behind = self.position.is_none_or(|position| match self.direction {
            Direction::Forward => entry.seqnum > position,
            Direction::Backward => entry.seqnum < position,
        });
        if let Some(pulse) = &query.pulse {
            (pulse.0)(time);
        }
        let fits = |text: &[u8]| query.grep.as_ref().is_none_or(|grep| grep.matches(text));
        let texts = || entry.fields.iter().filter(|(name, _)| *name == b"MESSAGE");
        in_time
            && behind
            && query.expr.holds(entry)
            && (query.grep.is_none() || texts().any(|(_, text)| fits(text)))
    }
}

impl Stream for Walk<'_> {
    fn try_next(&mut self) -> Result<Option<Entry>> {
        let (offsets, fault) = self.file.entries()?;
        if self.next == 0 {
            self.damage.extend(fault.clone());
        }
        while self.next < offsets.len() {
            let place = match self.direction {
                Direction::Forward => self.next,
                Direction::Backward => offsets.len() - 1 - self.next,
            };
            self.next += 1;
            let entry = self.file.entry(offsets[place], &mut self.damage)?;
            if let Some(entry) = entry.filter(|entry| self.wants(entry)) {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }

    fn damage(&self) -> &[Error] {
        &self.damage
    }
}

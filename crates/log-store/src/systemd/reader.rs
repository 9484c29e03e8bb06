//! The entries of a `.journal` file as those of a store.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::entry::{ENTRY_BYTES_MAX, Entry, Fields, Id128, is_valid_name};
use crate::error::{Damage, Error, Result};
use crate::files::{Disk, Files};
use crate::query::DistinctValues;
use crate::query::union::{Boots, Reader, Stream, Values};
use crate::query::{BOOT_FIELD, Direction, Query};
use crate::segment::directory::BootSpan;
use crate::systemd::file::{EntryList, EntryObject, Fault, Header, JournalFile};

/// Most data objects that are remembered: most entries have most values in common.
const KNOWN_MAX: usize = 1 << 14;

/// Longest value that is remembered, bytes.
const KNOWN_BYTES_MAX: usize = 1 << 10;

/// Name and value.
type Field = Arc<(Vec<u8>, Vec<u8>)>;

/// A file.
pub struct SystemdFile {
    file: JournalFile,
    entries: OnceCell<EntryList>,
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

    /// What of it cannot be read, up to a bound.
    pub fn verify(&self) -> Result<Vec<Error>> {
        Ok(self.each(|_| {})?.all)
    }

    fn entries(&self) -> Result<&EntryList> {
        if let Some(entries) = self.entries.get() {
            return Ok(entries);
        }
        let mut entries = EntryList::default();
        self.file.extend(&mut entries)?;
        Ok(self.entries.get_or_init(|| entries))
    }

    /// An entry with what of it can be read; the damage of the rest.
    fn entry(
        &self,
        at: u64,
        is_wanted: impl Fn(&EntryObject) -> bool,
        damage: &mut Faults,
    ) -> Result<Option<Entry>> {
        let object = match self.file.entry(at) {
            Ok(object) if !is_wanted(&object) => return Ok(None),
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

    fn note(&self, at: u64, fault: Fault, damage: &mut Faults) -> Result<()> {
        match self.file.fault(at, fault) {
            error if error.leaves_the_rest() => {
                damage.add(error);
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
    fn each(&self, mut each: impl FnMut(&Entry)) -> Result<Faults> {
        let query = Query::default();
        let mut walk = Walk::new(self, &query, Direction::Forward, None);
        while let Some(entry) = walk.try_next()? {
            each(&entry);
        }
        Ok(walk.damage)
    }

    /// The boots as the index has them: the data object of each leads to its first entry and its last one.
    fn indexed_boots(&self) -> Option<Vec<BootSpan>> {
        let mut spans = Vec::new();
        for value in self.file.indexed_values(BOOT_FIELD)? {
            let (first, last) = self.file.ends_of(BOOT_FIELD, &value)?;
            for at in [first, last] {
                let object = self.file.entry(at).ok()?;
                BootSpan::join(&mut spans, span_of(&object));
            }
        }
        spans.sort_by_key(|span| span.first_seqnum);
        (!spans.is_empty()).then_some(spans)
    }
}

fn span_of(object: &EntryObject) -> BootSpan {
    let realtime = object.stamp.realtime_us;
    BootSpan {
        boot: object.stamp.boot,
        realtime_min_us: realtime,
        realtime_max_us: realtime,
        first_seqnum: object.seqnum,
    }
}

/// Faults of a file: the first ones, and in one line.
#[derive(Debug, Default)]
struct Faults {
    all: Vec<Error>,
    count: usize,
    /// One that stands for all, or none.
    said: Vec<Error>,
}

impl Faults {
    fn add(&mut self, error: Error) {
        /// Most faults of one file that are kept.
        const KEPT_MAX: usize = 100;
        self.count += 1;
        if self.all.len() < KEPT_MAX {
            self.all.push(error);
        }
        self.said = match &self.all[..] {
            [Error::Damaged { name, offset, what }, _, ..] => vec![Error::DamagedParts {
                name: name.clone(),
                count: self.count,
                offset: *offset,
                what,
            }],
            [first, ..] => vec![first.clone()],
            [] => Vec::new(),
        };
    }
}

impl Reader for SystemdFile {
    fn refresh(&mut self) -> Result<()> {
        if self.file.refresh()?
            && let Some(mut entries) = self.entries.take()
        {
            self.file.extend(&mut entries)?;
            self.entries = OnceCell::from(entries);
        }
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
        Box::new(Walk::new(self, query, direction, position))
    }

    fn values(&self, field: &[u8], bytes_max: usize) -> Result<Values> {
        let mut values = DistinctValues::new(bytes_max);
        match self.file.indexed_values(field) {
            // Of the boot each entry has its stamp.
            Some(indexed) if field != BOOT_FIELD || !indexed.is_empty() => {
                indexed.iter().for_each(|value| values.insert(value));
                return Ok((values.into_set()?, Vec::new()));
            }
            _ => {}
        }
        let damage = self.each(|entry| {
            let named = entry.fields.iter().filter(|(name, _)| *name == field);
            named.for_each(|(_, value)| values.insert(value));
            if field == BOOT_FIELD {
                values.insert(entry.stamp.boot.to_string().as_bytes());
            }
        })?;
        Ok((values.into_set()?, damage.said))
    }

    fn field_names(&self) -> Result<Values> {
        // Every entry has it, by its stamp.
        let mut names = BTreeSet::from([BOOT_FIELD.to_vec()]);
        if let Some(indexed) = self.file.indexed_fields() {
            names.extend(indexed.into_iter().filter(|name| is_valid_name(name)));
            return Ok((names, Vec::new()));
        }
        let damage =
            self.each(|entry| names.extend(entry.fields.iter().map(|(name, _)| name.to_vec())))?;
        Ok((names, damage.said))
    }

    fn boots(&self) -> Result<Boots> {
        if let Some(spans) = self.indexed_boots() {
            return Ok((spans, Vec::new()));
        }
        let list = self.entries()?;
        let (mut spans, mut damage) = (Vec::new(), Faults::default());
        list.fault.iter().cloned().for_each(|fault| damage.add(fault));
        for at in &list.offsets {
            match self.file.entry(*at) {
                Ok(object) => BootSpan::join(&mut spans, span_of(&object)),
                Err(fault) => self.note(*at, fault, &mut damage)?,
            }
        }
        Ok((spans, damage.said))
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
    /// Those that may be wanted, as far as the index says; it is asked with the first one.
    candidates: Option<Option<Vec<u64>>>,
    /// How many were looked at.
    next: usize,
    damage: Faults,
}

impl<'a> Walk<'a> {
    fn new(
        file: &'a SystemdFile,
        query: &'a Query,
        direction: Direction,
        position: Option<u64>,
    ) -> Walk<'a> {
        let (candidates, damage) = (None, Faults::default());
        Walk { file, query, direction, position, candidates, next: 0, damage }
    }

    /// The header says that no entry is of a time that is wanted.
    fn is_out_of_time(&self) -> bool {
        let (a, b) = self.file.header().realtime_us;
        self.query.since_us.is_some_and(|since| since > a.max(b))
            || self.query.until_us.is_some_and(|until| until < a.min(b))
    }

    /// Asks the index, and goes behind the position.
    fn begin(&mut self) -> Result<()> {
        if self.candidates.is_some() {
            return Ok(());
        }
        let candidates = self.file.file.candidates(&self.query.expr);
        let offsets = match &candidates {
            Some(candidates) => candidates,
            None => {
                let list = self.file.entries()?;
                list.fault.iter().cloned().for_each(|fault| self.damage.add(fault));
                &list.offsets
            }
        };
        self.next = self.position.and_then(|position| self.behind(offsets, position)).unwrap_or(0);
        self.candidates = Some(candidates);
        Ok(())
    }

    /// How many are not behind a position, found by halves; `None` where one of them cannot be read.
    fn behind(&self, offsets: &[u64], position: u64) -> Option<usize> {
        let (mut low, mut high) = (0, offsets.len());
        let is_behind = |at: u64| {
            let seqnum = self.file.file.entry(at).ok()?.seqnum;
            Some(match self.direction {
                Direction::Forward => seqnum > position,
                Direction::Backward => seqnum < position,
            })
        };
        while low < high {
            let middle = low + (high - low) / 2;
            match is_behind(*offsets.get(self.place(offsets, middle))?)? {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        Some(low)
    }

    /// Which of them is the next one after so many.
    fn place(&self, offsets: &[u64], count: usize) -> usize {
        match self.direction {
            Direction::Forward => count,
            Direction::Backward => offsets.len() - 1 - count,
        }
    }

    /// Whether place and time are right: to be asked before fields are read.
    fn is_there(&self, object: &EntryObject) -> bool {
        let (query, time) = (self.query, object.stamp.realtime_us);
        if let Some(pulse) = &query.pulse {
            (pulse.0)(time);
        }
        let behind = self.position.is_none_or(|position| match self.direction {
            Direction::Forward => object.seqnum > position,
            Direction::Backward => object.seqnum < position,
        });
        behind
            && query.since_us.is_none_or(|since| time >= since)
            && query.until_us.is_none_or(|until| time <= until)
    }

    fn wants(&self, entry: &Entry) -> bool {
        let query = self.query;
        let fits = |text: &[u8]| query.grep.as_ref().is_none_or(|grep| grep.matches(text));
        let texts = || entry.fields.iter().filter(|(name, _)| *name == b"MESSAGE");
        query.expr.holds(entry) && (query.grep.is_none() || texts().any(|(_, text)| fits(text)))
    }
}

impl Stream for Walk<'_> {
    fn try_next(&mut self) -> Result<Option<Entry>> {
        if self.is_out_of_time() {
            return Ok(None);
        }
        self.begin()?;
        let file = self.file;
        loop {
            let offsets = match &self.candidates {
                Some(Some(candidates)) => candidates,
                _ => &file.entries()?.offsets,
            };
            if self.next >= offsets.len() {
                return Ok(None);
            }
            let at = offsets[self.place(offsets, self.next)];
            self.next += 1;
            let mut damage = std::mem::take(&mut self.damage);
            let entry = file.entry(at, |object| self.is_there(object), &mut damage);
            self.damage = damage;
            if let Some(entry) = entry?.filter(|entry| self.wants(entry)) {
                return Ok(Some(entry));
            }
        }
    }

    fn damage(&self) -> &[Error] {
        &self.damage.said
    }
}

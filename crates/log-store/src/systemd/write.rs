//! Writes a `.journal` file of bounded size: for programs that read systemd's files and know no others.
//!
//! The layout is that of systemd's published JOURNAL_FILE_FORMAT document, without compression, keyed
//! hashes and compact items, which every version reads. The file is made in memory; [`Writer::flush`]
//! writes the pages that changed: first those that are new, last the header, so that who reads
//! meanwhile follows no reference to what is not there.
//!
//! Pure but for [`crate::files::File`].

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::entry::{Fields, Id128, Stamp};
use crate::error::Result;
use crate::files::File;
use crate::systemd::jenkins::hash64;

/// Whether somebody writes to the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nobody, and somebody may.
    Offline = 0,
    /// Somebody does.
    Online = 1,
    /// Nobody will.
    Archived = 2,
}

/// Whether a file says that somebody writes to it.
///
/// # Errors
/// The file's.
pub fn is_online(file: &dyn File) -> Result<bool> {
    let mut state = [0];
    Ok(file.read_at(&mut state, at::STATE as u64)? == 1 && state == [State::Online as u8])
}

/// The id of a file that begins so; `None` of one that is too short.
pub fn id_of(beginning: &[u8]) -> Option<&[u8]> {
    beginning.get(at::FILE_ID..at::MACHINE)
}

/// So many bytes of a file have its id.
pub const ID_END: usize = at::MACHINE;

const HEADER_BYTES: usize = 264;
const OBJECT_BYTES: usize = 16;
const PAGE_BYTES: usize = 4096;

const DATA: u8 = 1;
const FIELD: u8 = 2;
const ENTRY: u8 = 3;
const DATA_HASH_TABLE: u8 = 4;
const FIELD_HASH_TABLE: u8 = 5;
const ENTRY_ARRAY: u8 = 6;

/// Places in the header.
mod at {
    pub const STATE: usize = 16;
    pub const FILE_ID: usize = 24;
    pub const MACHINE: usize = 40;
    pub const BOOT: usize = 56;
    pub const SEQUENCE: usize = 72;
    pub const HEADER_SIZE: usize = 88;
    pub const ARENA: usize = 96;
    pub const DATA_TABLE: usize = 104;
    pub const FIELD_TABLE: usize = 120;
    pub const TAIL_OBJECT: usize = 136;
    pub const OBJECTS: usize = 144;
    pub const ENTRIES: usize = 152;
    pub const TAIL_SEQNUM: usize = 160;
    pub const HEAD_SEQNUM: usize = 168;
    pub const ENTRY_ARRAY: usize = 176;
    pub const HEAD_REALTIME: usize = 184;
    pub const TAIL_REALTIME: usize = 192;
    pub const TAIL_MONOTONIC: usize = 200;
    pub const DATAS: usize = 208;
    pub const FIELDS: usize = 216;
    pub const ENTRY_ARRAYS: usize = 232;
    pub const DATA_DEPTH: usize = 240;
    pub const FIELD_DEPTH: usize = 248;
}

/// Places in objects.
const HASH: usize = 16;
const NEXT_HASH: usize = 24;
const DATA_NEXT_FIELD: usize = 32;
const DATA_ENTRY: usize = 40;
const DATA_ARRAY: usize = 48;
const DATA_ENTRIES: usize = 56;
const DATA_PAYLOAD: usize = 64;
const FIELD_HEAD: usize = 32;
const FIELD_PAYLOAD: usize = 40;
const ENTRY_ITEMS: usize = 64;
const ARRAY_NEXT: usize = 16;
const ARRAY_ITEMS: usize = 24;

/// Items of the first array of a chain; each further one has twice as many, up to a bound, so that
/// the room that an entry may need is not much of a small file.
const ARRAY_FIRST: usize = 4;
const ARRAY_LARGEST: usize = 1 << 8;

/// Buckets of the table of field names, and bytes of the file for each bucket of that of data.
const FIELD_BUCKETS: usize = 333;
const BYTES_PER_BUCKET: usize = 768;

/// With so many objects in a bucket the file takes no entry more: its readers walk over all of them, and who knows the
/// hash can have his values in one.
const BUCKET_OBJECTS_MAX: u32 = 100;

/// Most contexts of which it is remembered where their data are: a few senders send most.
const CONTEXTS_MAX: usize = 32;

/// Ids of a file.
#[derive(Debug, Clone, Copy)]
pub struct Ids {
    /// Of the file.
    pub file: Id128,
    /// Of the machine.
    pub machine: Id128,
    /// What its numbers count in.
    pub sequence: Id128,
}

/// A file in the making.
pub struct Writer {
    image: Vec<u8>,
    /// For each page, whether it changed since the last flush.
    dirty: Vec<bool>,
    /// How much was written of the file.
    written: usize,
    bytes_max: usize,
    /// Data objects, their numbers by payload, and fields by name.
    data: Vec<Data>,
    numbers: BTreeMap<Vec<u8>, usize>,
    fields: BTreeMap<Vec<u8>, usize>,
    /// Numbers of the data of contexts, the one that came last first.
    contexts: VecDeque<(Arc<Fields>, Vec<usize>)>,
    /// The boot of the last entry, and the number of its data.
    boot: Option<(Id128, usize)>,
    /// Reused: a payload.
    payload: Vec<u8>,
    tables: [Table; 2],
    entries: Chain,
    last: Option<Stamp>,
}

/// A data object.
#[derive(Debug, Clone, Copy)]
struct Data {
    offset: usize,
    hash: u64,
    entries: u64,
    chain: Chain,
}

/// A chain of entry arrays: its last one, what that can hold and holds.
#[derive(Debug, Clone, Copy, Default)]
struct Chain {
    offset: usize,
    capacity: usize,
    count: usize,
}

/// A hash table: where its buckets are, how many objects each has, and how many the fullest.
#[derive(Debug, Default)]
struct Table {
    offset: usize,
    buckets: Vec<u32>,
    fullest: u32,
    depth_at: usize,
}

impl Writer {
    /// An empty file that will not pass so many bytes.
    pub fn new(ids: Ids, bytes_max: usize) -> Writer {
        let mut writer = Writer {
            image: vec![0; HEADER_BYTES],
            dirty: Vec::new(),
            written: 0,
            bytes_max,
            data: Vec::new(),
            numbers: BTreeMap::new(),
            fields: BTreeMap::new(),
            contexts: VecDeque::new(),
            boot: None,
            payload: Vec::new(),
            tables: [Table::default(), Table::default()],
            entries: Chain::default(),
            last: None,
        };
        writer.put(0, b"LPKSHHRH");
        writer.put(at::FILE_ID, &ids.file.0);
        writer.put(at::MACHINE, &ids.machine.0);
        writer.put(at::SEQUENCE, &ids.sequence.0);
        writer.put_number(at::HEADER_SIZE, HEADER_BYTES as u64);
        let buckets = (bytes_max / BYTES_PER_BUCKET).max(FIELD_BUCKETS);
        writer.tables = [
            writer.table(DATA_HASH_TABLE, buckets, at::DATA_TABLE, at::DATA_DEPTH),
            writer.table(FIELD_HASH_TABLE, FIELD_BUCKETS, at::FIELD_TABLE, at::FIELD_DEPTH),
        ];
        writer.set_state(State::Online);
        writer
    }

    fn table(&mut self, kind: u8, buckets: usize, place: usize, depth_at: usize) -> Table {
        let bytes = 16 * buckets;
        let offset = self.object(kind, OBJECT_BYTES + bytes) + OBJECT_BYTES;
        self.put_number(place, offset as u64);
        self.put_number(place + 8, bytes as u64);
        Table { offset, buckets: vec![0; buckets], fullest: 0, depth_at }
    }

    /// When its last entry came.
    pub fn last(&self) -> Option<Stamp> {
        self.last
    }

    /// Whether an entry of these fields surely fits, and readers find it soon.
    pub fn has_room(&self, context: &Fields, fields: &Fields) -> bool {
        /// What a field may cost beside its payload: a data object, a field object, an item, an
        /// array, and what fills up to the next object.
        const FIELD_BYTES: usize =
            DATA_PAYLOAD + FIELD_PAYLOAD + 16 + ARRAY_ITEMS + 8 * ARRAY_LARGEST + 3 * 8;
        /// The boot, which is a field too, and the array of all entries.
        const MORE_FIELDS: usize = 2;
        let count = context.len() + fields.len() + MORE_FIELDS;
        // A name may be in both objects.
        let payload = 2 * (context.bytes_len() + fields.bytes_len()) + 64;
        let more = count * FIELD_BYTES + payload + ENTRY_ITEMS + PAGE_BYTES;
        let is_deep = self.tables.iter().any(|table| table.fullest >= BUCKET_OBJECTS_MAX);
        !is_deep && self.image.len() + more <= self.bytes_max
    }

    fn entry_count(&self) -> usize {
        self.number(at::ENTRIES) as usize
    }

    /// Adds an entry; the caller asked whether there is room, and times do not fall.
    pub fn append(&mut self, seqnum: u64, stamp: &Stamp, context: &Arc<Fields>, fields: &Fields) {
        let mut items: Vec<usize> = Vec::with_capacity(fields.len() + context.len() + 1);
        items.extend(fields.iter().map(|(name, value)| self.data_of(name, value)));
        self.add_context(context, &mut items);
        items.push(self.data_of_boot(stamp.boot));
        items.sort_unstable_by_key(|number| self.data[*number].offset);
        items.dedup();
        let entry = self.object(ENTRY, ENTRY_ITEMS + 16 * items.len());
        self.put_number(entry + 16, seqnum);
        self.put_number(entry + 24, stamp.realtime_us);
        self.put_number(entry + 32, stamp.monotonic_us);
        self.put(entry + 40, &stamp.boot.0);
        let hashes = items.iter().map(|number| self.data[*number].hash);
        self.put_number(entry + 56, hashes.fold(0, |all, hash| all ^ hash));
        for (at, number) in items.iter().enumerate() {
            let Data { offset, hash, .. } = self.data[*number];
            self.put_number(entry + ENTRY_ITEMS + 16 * at, offset as u64);
            self.put_number(entry + ENTRY_ITEMS + 16 * at + 8, hash);
        }
        let entries = self.entries;
        self.entries = self.link(entries, at::ENTRY_ARRAY, entry);
        items.into_iter().for_each(|number| self.link_data(number, entry));
        self.note_entry(seqnum, stamp);
    }

    /// Adds the numbers of the data of a context, which senders have in common with what they sent before.
    fn add_context(&mut self, context: &Arc<Fields>, items: &mut Vec<usize>) {
        let known = self.contexts.iter().position(|(known, _)| Arc::ptr_eq(known, context));
        if let Some((_, numbers)) = known.and_then(|at| self.contexts.get(at)) {
            items.extend_from_slice(numbers);
            return;
        }
        let numbers: Vec<usize> =
            context.iter().map(|(name, value)| self.data_of(name, value)).collect();
        items.extend_from_slice(&numbers);
        self.contexts.truncate(CONTEXTS_MAX - 1);
        self.contexts.push_front((context.clone(), numbers));
    }

    fn data_of_boot(&mut self, boot: Id128) -> usize {
        match self.boot {
            Some((known, number)) if known == boot => number,
            _ => {
                let number = self.data_of(b"_BOOT_ID", boot.to_string().as_bytes());
                self.boot = Some((boot, number));
                number
            }
        }
    }

    fn note_entry(&mut self, seqnum: u64, stamp: &Stamp) {
        if self.entry_count() == 0 {
            self.put_number(at::HEAD_SEQNUM, seqnum);
            self.put_number(at::HEAD_REALTIME, stamp.realtime_us);
        }
        self.add(at::ENTRIES, 1);
        self.put_number(at::TAIL_SEQNUM, seqnum);
        self.put_number(at::TAIL_REALTIME, stamp.realtime_us);
        self.put_number(at::TAIL_MONOTONIC, stamp.monotonic_us);
        self.put(at::BOOT, &stamp.boot.0);
        self.last = Some(*stamp);
    }

    /// The number of the data object of a field, which is made if there is none.
    fn data_of(&mut self, name: &[u8], value: &[u8]) -> usize {
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        [name, b"=", value].iter().for_each(|part| payload.extend_from_slice(part));
        let known = self.numbers.get(&payload).copied();
        let number = known.unwrap_or_else(|| self.make_data(&payload, name));
        self.payload = payload;
        number
    }

    fn make_data(&mut self, payload: &[u8], name: &[u8]) -> usize {
        let hash = hash64(payload);
        let offset = self.object(DATA, DATA_PAYLOAD + payload.len());
        self.put_number(offset + HASH, hash);
        self.put(offset + DATA_PAYLOAD, payload);
        self.add(at::DATAS, 1);
        self.put_in_table(0, offset, hash);
        let field = self.field_of(name);
        let head = self.number(field + FIELD_HEAD);
        self.put_number(offset + DATA_NEXT_FIELD, head);
        self.put_number(field + FIELD_HEAD, offset as u64);
        let number = self.data.len();
        self.data.push(Data { offset, hash, entries: 0, chain: Chain::default() });
        self.numbers.insert(payload.to_vec(), number);
        number
    }

    fn field_of(&mut self, name: &[u8]) -> usize {
        if let Some(offset) = self.fields.get(name) {
            return *offset;
        }
        let hash = hash64(name);
        let offset = self.object(FIELD, FIELD_PAYLOAD + name.len());
        self.put_number(offset + HASH, hash);
        self.put(offset + FIELD_PAYLOAD, name);
        self.add(at::FIELDS, 1);
        self.put_in_table(1, offset, hash);
        self.fields.insert(name.to_vec(), offset);
        offset
    }

    /// Puts an object behind the last one of its bucket.
    fn put_in_table(&mut self, table: usize, object: usize, hash: u64) {
        let Table { offset, buckets, fullest, depth_at } = &mut self.tables[table];
        let number = (hash % buckets.len() as u64) as usize;
        let before = buckets[number];
        buckets[number] += 1;
        let is_fullest = before + 1 > *fullest;
        *fullest = (*fullest).max(before + 1);
        let (bucket, depth_at) = (*offset + 16 * number, *depth_at);
        match self.number(bucket + 8) as usize {
            0 => self.put_number(bucket, object as u64),
            tail => self.put_number(tail + NEXT_HASH, object as u64),
        }
        self.put_number(bucket + 8, object as u64);
        if is_fullest {
            self.put_number(depth_at, before.into());
        }
    }

    /// Says in a data object that an entry has it: the first one in the object, all others in its
    /// arrays.
    fn link_data(&mut self, number: usize, entry: usize) {
        let mut data = self.data[number];
        match data.entries {
            0 => self.put_number(data.offset + DATA_ENTRY, entry as u64),
            _ => data.chain = self.link(data.chain, data.offset + DATA_ARRAY, entry),
        }
        data.entries += 1;
        self.put_number(data.offset + DATA_ENTRIES, data.entries);
        self.data[number] = data;
    }

    /// Adds an entry to a chain of arrays, whose first one is named at `head`.
    fn link(&mut self, mut chain: Chain, head: usize, entry: usize) -> Chain {
        if chain.count == chain.capacity {
            let capacity = (2 * chain.capacity).clamp(ARRAY_FIRST, ARRAY_LARGEST);
            let offset = self.object(ENTRY_ARRAY, ARRAY_ITEMS + 8 * capacity);
            self.add(at::ENTRY_ARRAYS, 1);
            let name = if chain.offset == 0 { head } else { chain.offset + ARRAY_NEXT };
            self.put_number(name, offset as u64);
            chain = Chain { offset, capacity, count: 0 };
        }
        self.put_number(chain.offset + ARRAY_ITEMS + 8 * chain.count, entry as u64);
        chain.count += 1;
        chain
    }

    /// A new object at the end.
    fn object(&mut self, kind: u8, bytes: usize) -> usize {
        let offset = self.image.len().next_multiple_of(8);
        self.image.resize(offset + bytes, 0);
        self.put(offset, &[kind]);
        self.put_number(offset + 8, bytes as u64);
        self.add(at::OBJECTS, 1);
        self.put_number(at::TAIL_OBJECT, offset as u64);
        offset
    }

    fn put(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        self.image[offset..end].copy_from_slice(bytes);
        let pages = offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        if self.dirty.len() < pages.end {
            self.dirty.resize(pages.end, false);
        }
        self.dirty[pages].fill(true);
    }

    fn put_number(&mut self, offset: usize, number: u64) {
        self.put(offset, &number.to_le_bytes());
    }

    fn number(&self, offset: usize) -> u64 {
        let bytes = self.image[offset..].first_chunk().expect("of an object that was put there");
        u64::from_le_bytes(*bytes)
    }

    fn add(&mut self, offset: usize, more: u64) {
        self.put_number(offset, self.number(offset) + more);
    }

    /// Says whether somebody writes, with the next flush.
    pub fn set_state(&mut self, state: State) {
        self.put(at::STATE, &[state as u8]);
    }

    /// The id of the file.
    pub fn id(&self) -> &[u8] {
        &self.image[at::FILE_ID..at::MACHINE]
    }

    /// Bytes that the next flush adds to the file.
    pub fn growth(&self) -> usize {
        self.image.len().saturating_sub(self.written)
    }

    /// Nothing of it is in a file any more: the next flush writes all of it.
    pub fn begin_anew(&mut self) {
        self.written = 0;
        self.dirty = vec![true; self.image.len().div_ceil(PAGE_BYTES)];
    }

    /// Writes what changed.
    ///
    /// # Errors
    /// The file's; the next flush writes all of it again.
    pub fn flush(&mut self, file: &dyn File) -> Result<()> {
        if !self.dirty.contains(&true) {
            return Ok(());
        }
        let bytes = self.image.len().next_multiple_of(PAGE_BYTES);
        self.put_number(at::ARENA, (bytes - HEADER_BYTES) as u64);
        let pages = (0..self.dirty.len()).filter(|page| self.dirty[*page]);
        let is_new = |page: &usize| page * PAGE_BYTES >= self.written;
        let (new, old): (Vec<usize>, Vec<usize>) = pages.partition(is_new);
        if let Some(first) = new.first() {
            // With what fills the last page.
            let mut fresh = self.image[first * PAGE_BYTES..].to_vec();
            fresh.resize(bytes - first * PAGE_BYTES, 0);
            file.write_at(&fresh, (first * PAGE_BYTES) as u64)?;
        }
        for page in old.into_iter().rev() {
            let begin = page * PAGE_BYTES;
            let end = self.image.len().min(begin + PAGE_BYTES);
            file.write_at(&self.image[begin..end], begin as u64)?;
        }
        self.dirty.fill(false);
        self.written = bytes;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who knows the hash makes as many values of one bucket as he likes.
    #[test]
    fn a_file_takes_no_entry_more_when_a_bucket_is_full() {
        const BYTES: usize = 512 << 10;
        let id = Id128([1; 16]);
        let mut writer = Writer::new(Ids { file: id, machine: id, sequence: id }, BYTES);
        let buckets = (BYTES / BYTES_PER_BUCKET) as u64;
        let is_of_bucket =
            |text: &String| hash64(format!("MESSAGE={text}").as_bytes()) % buckets == 7;
        let mut texts = (0..).map(|number: u64| number.to_string()).filter(is_of_bucket);
        let (empty, mut count) = (Arc::<Fields>::default(), 0);
        while writer.has_room(&empty, &empty) {
            let text = texts.next().expect("there is always another");
            let fields = [("MESSAGE", &*text)].into_iter().collect();
            let stamp = Stamp { realtime_us: count, monotonic_us: count, boot: id };
            writer.append(count + 1, &stamp, &empty, &fields);
            count += 1;
        }
        // The boot or another one may be of the same bucket.
        assert!(count.abs_diff(BUCKET_OBJECTS_MAX.into()) <= 1, "{count}");
        assert_eq!(writer.number(at::DATA_DEPTH), u64::from(BUCKET_OBJECTS_MAX) - 1);
        assert!(writer.image.len() < BYTES / 2, "there is room for more");
    }
}

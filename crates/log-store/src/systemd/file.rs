//! The layout of a `.journal` file.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::bytes::Input;
use crate::entry::{ENTRY_BYTES_MAX, ENTRY_FIELDS_MAX, Id128, Stamp};
use crate::error::{Damage, Error, Result};
use crate::files::File;
use crate::systemd::unpack::unpack;

/// First bytes of a file.
const SIGNATURE: &[u8; 8] = b"LPKSHHRH";

/// What of the header every version has, bytes.
const HEADER_BYTES: usize = 208;

/// Incompatible features; those that this reader knows.
const KEYED_HASH: u32 = 1 << 2;
const ZSTD: u32 = 1 << 3;
const COMPACT: u32 = 1 << 4;
const XZ: u32 = 1 << 0;
const LZ4: u32 = 1 << 1;
const KNOWN: u32 = XZ | LZ4 | KEYED_HASH | ZSTD | COMPACT;

/// The state of a file that is written no more.
const ARCHIVED: u8 = 2;

/// Types of objects.
pub(super) const DATA: u8 = 1;
const ENTRY: u8 = 3;
const ENTRY_ARRAY: u8 = 6;

/// Size of what every object begins with.
const OBJECT_HEADER_BYTES: usize = 16;

/// Where the items of an entry begin, and those of an array.
const ENTRY_ITEMS_AT: usize = 64;
const ARRAY_ITEMS_AT: usize = 24;

/// Where the payload of a data object begins, and in a compact file.
const PAYLOAD_AT: usize = 64;
const COMPACT_PAYLOAD_AT: usize = 72;

/// Most entries of a file: more do not fit into the largest file that is written.
const ENTRIES_MAX: usize = 1 << 27;

/// Largest entry or array object, bytes.
const LIST_BYTES_MAX: usize = 1 << 28;

/// A part of the file that is read at once, bytes, and how many of them are kept.
const PAGE_BYTES: usize = 64 << 10;
const PAGES_MAX: usize = 256;

/// What the header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Id of the file, whatever its name is.
    pub file: Id128,
    /// Nobody writes to it any more.
    is_archived: bool,
    /// Hashes are keyed by the id of the file.
    pub(super) is_keyed: bool,
    /// Hash tables of data and of fields: where they begin, and their sizes, bytes.
    pub(super) data_table: (u64, u64),
    pub(super) field_table: (u64, u64),
    /// Which sequence its numbers count in.
    pub sequence: Id128,
    /// Offset of the first entry array; 0: there are no entries.
    entries_at: u64,
    /// How many entries.
    pub count: u64,
    /// Wall clock of the first and the last entry, µs.
    pub realtime_us: (u64, u64),
    pub(super) is_compact: bool,
    header_bytes: u64,
}

/// Offsets of entries, as far as they are known.
#[derive(Debug, Default)]
pub struct EntryList {
    /// In the order of the file.
    pub offsets: Vec<u64>,
    /// Damage that ends the list too early.
    pub fault: Option<Error>,
    /// The last array, and how many offsets are from those before it.
    last: (u64, usize),
}

/// What an entry object says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryObject {
    /// Its number.
    pub seqnum: u64,
    /// When it came in.
    pub stamp: Stamp,
    /// Offsets of its data objects.
    pub data: Vec<u64>,
}

/// An open file.
pub struct JournalFile {
    name: String,
    file: Box<dyn File>,
    file_bytes: u64,
    header: Header,
    pages: RefCell<BTreeMap<u64, Vec<u8>>>,
}

pub(super) type FileResult<T> = std::result::Result<T, Fault>;

/// Why an object could not be read.
#[derive(Debug)]
pub enum Fault {
    /// The system refused.
    Failed(Error),
    /// It is not what it should be.
    Damaged(Damage),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Failed(error)
    }
}

impl From<Damage> for Fault {
    fn from(damage: Damage) -> Fault {
        Fault::Damaged(damage)
    }
}

impl JournalFile {
    /// Reads the header.
    ///
    /// # Errors
    /// For a file that is none, or of features that are not known here.
    pub fn open(name: &str, file: Box<dyn File>) -> Result<JournalFile> {
        let header = read_header(name, &*file)?;
        let file_bytes = file.len()?;
        let pages = RefCell::new(BTreeMap::new());
        Ok(JournalFile { name: name.to_owned(), file, file_bytes, header, pages })
    }

    /// Takes what was written since; true when there is something.
    pub fn refresh(&mut self) -> Result<bool> {
        if self.header.is_archived {
            return Ok(false);
        }
        let header = read_header(&self.name, &*self.file)?;
        let file_bytes = self.file.len()?;
        let has_news = header != self.header || file_bytes != self.file_bytes;
        if has_news {
            (self.header, self.file_bytes) = (header, file_bytes);
            self.pages.borrow_mut().clear();
        }
        Ok(has_news)
    }

    /// What its header said.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// An error about a place in it.
    pub fn fault(&self, offset: u64, fault: Fault) -> Error {
        match fault {
            Fault::Failed(error) => error,
            Fault::Damaged(Damage(what)) => {
                Error::Damaged { name: self.name.clone(), offset, what }
            }
        }
    }

    /// Adds the offsets of entries that are not in the list yet. Damage ends it: it is kept with what there is.
    pub fn extend(&self, list: &mut EntryList) -> Result<()> {
        list.fault = None;
        list.offsets.truncate(list.last.1);
        let mut at = if list.last.0 == 0 { self.header.entries_at } else { list.last.0 };
        while at != 0 && (list.offsets.len() as u64) < self.header.count {
            list.last = (at, list.offsets.len());
            match self.array(at, &mut list.offsets) {
                // Arrays are written one behind the other, so this ends.
                Ok(next) if next == 0 || next > at => at = next,
                Ok(_) => {
                    list.fault = Some(self.fault(at, Damage("an array points backwards").into()));
                    break;
                }
                Err(Fault::Failed(error)) if !error.is_of_device() => return Err(error),
                Err(fault) => {
                    list.fault = Some(self.fault(at, fault));
                    break;
                }
            }
        }
        list.offsets.truncate(usize::try_from(self.header.count).unwrap_or(usize::MAX));
        Ok(())
    }

    /// Appends the offsets of an array, and gives where the next one is.
    pub(super) fn array(&self, at: u64, all: &mut Vec<u64>) -> FileResult<u64> {
        let (_, size) = self.object(at, ENTRY_ARRAY)?;
        let bytes = self.read(at, size.min(LIST_BYTES_MAX))?;
        let mut input = Input::new(&bytes);
        input.take(OBJECT_HEADER_BYTES)?;
        let next = input.u64()?;
        let items = bytes.get(ARRAY_ITEMS_AT..).ok_or(Damage("an array is cut short"))?;
        for offset in self.offsets(items, self.item_bytes()) {
            // What is not used yet is zero.
            if offset == 0 || all.len() >= ENTRIES_MAX {
                break;
            }
            all.push(offset);
        }
        Ok(next)
    }

    /// Bytes of an item of an array.
    fn item_bytes(&self) -> usize {
        if self.header.is_compact { 4 } else { 8 }
    }

    /// Offsets at the head of items of so many bytes.
    fn offsets<'a>(&self, items: &'a [u8], item_bytes: usize) -> impl Iterator<Item = u64> + 'a {
        let width = self.item_bytes();
        items.chunks_exact(item_bytes).map(move |item| {
            let mut number = [0; 8];
            number[..width].copy_from_slice(&item[..width]);
            u64::from_le_bytes(number)
        })
    }

    /// Reads an entry.
    pub fn entry(&self, at: u64) -> FileResult<EntryObject> {
        /// An item of a file that is not compact: an offset and a hash.
        const ITEM_BYTES: usize = 16;
        let (_, size) = self.object(at, ENTRY)?;
        let bytes = self.read(at, size.min(LIST_BYTES_MAX))?;
        let mut input = Input::new(&bytes);
        input.take(OBJECT_HEADER_BYTES)?;
        let (seqnum, realtime_us, monotonic_us) = (input.u64()?, input.u64()?, input.u64()?);
        let boot = Id128(input.array()?);
        let items = bytes.get(ENTRY_ITEMS_AT..).ok_or(Damage("an entry is cut short"))?;
        let item_bytes = if self.header.is_compact { 4 } else { ITEM_BYTES };
        let data: Vec<u64> = self.offsets(items, item_bytes).take(ENTRY_FIELDS_MAX).collect();
        Ok(EntryObject { seqnum, stamp: Stamp { realtime_us, monotonic_us, boot }, data })
    }

    /// Reads a data object: name and value.
    pub fn data(&self, at: u64) -> FileResult<(Vec<u8>, Vec<u8>)> {
        let (flags, size) = self.object(at, DATA)?;
        let begin = if self.header.is_compact { COMPACT_PAYLOAD_AT } else { PAYLOAD_AT };
        let length = size.checked_sub(begin).ok_or(Damage("a data object is cut short"))?;
        if length > ENTRY_BYTES_MAX {
            return Err(Damage("a value is too large").into());
        }
        let stored = self.read(at + begin as u64, length)?;
        let payload = unpack(flags, stored)?;
        let equals = memchr::memchr(b'=', &payload).ok_or(Damage("a value has no name"))?;
        let value = payload.get(equals + 1..).unwrap_or_default().to_vec();
        Ok((payload[..equals].to_vec(), value))
    }

    /// Checks what an object begins with; gives its flags and size.
    pub(super) fn object(&self, at: u64, wanted: u8) -> FileResult<(u8, usize)> {
        if !at.is_multiple_of(8) || at < self.header.header_bytes || at >= self.file_bytes {
            return Err(Damage("an offset points nowhere").into());
        }
        let bytes = self.read(at, OBJECT_HEADER_BYTES)?;
        let (kind, flags) = (bytes[0], bytes[1]);
        let size = Input::new(&bytes[8..]).u64()?;
        if kind != wanted {
            return Err(Damage("wrong kind of object").into());
        }
        if size < OBJECT_HEADER_BYTES as u64 || size > self.file_bytes - at {
            return Err(Damage("an object has an impossible size").into());
        }
        Ok((flags, usize::try_from(size).unwrap_or(usize::MAX)))
    }

    /// Bytes of the file; all of them or damage.
    pub(super) fn read(&self, at: u64, count: usize) -> FileResult<Vec<u8>> {
        if count > PAGE_BYTES {
            let mut bytes = vec![0; count];
            let got = self.file.read_at(&mut bytes, at)?;
            return if got == count {
                Ok(bytes)
            } else {
                Err(Damage("the file is cut short").into())
            };
        }
        let mut bytes = Vec::with_capacity(count);
        while bytes.len() < count {
            let from = at + bytes.len() as u64;
            let inside = (from % PAGE_BYTES as u64) as usize;
            let taken = self.with_page(from / PAGE_BYTES as u64, |page| {
                let part = page.get(inside..).unwrap_or_default();
                let part = &part[..part.len().min(count - bytes.len())];
                bytes.extend_from_slice(part);
                part.len()
            })?;
            if taken == 0 {
                return Err(Damage("the file is cut short").into());
            }
        }
        Ok(bytes)
    }

    fn with_page(&self, number: u64, mut take: impl FnMut(&[u8]) -> usize) -> Result<usize> {
        let mut pages = self.pages.borrow_mut();
        if let Some(page) = pages.get(&number) {
            return Ok(take(page));
        }
        let mut page = vec![0; PAGE_BYTES];
        let count = self.file.read_at(&mut page, number * PAGE_BYTES as u64)?;
        page.truncate(count);
        if pages.len() >= PAGES_MAX {
            pages.clear();
        }
        let taken = take(&page);
        pages.insert(number, page);
        Ok(taken)
    }
}

fn read_header(name: &str, file: &dyn File) -> Result<Header> {
    let mut bytes = [0; HEADER_BYTES];
    let count = file.read_at(&mut bytes, 0)?;
    let damaged = |Damage(what)| Error::Damaged { name: name.to_owned(), offset: 0, what };
    match parse_header(&bytes[..count]).map_err(damaged)? {
        (header, 0) => Ok(header),
        (_, flags) => Err(Error::Unsupported { name: name.to_owned(), flags }),
    }
}

/// The header, and the features in it that are not known here.
fn parse_header(bytes: &[u8]) -> std::result::Result<(Header, u32), Damage> {
    let mut input = Input::new(bytes);
    if input.array()? != *SIGNATURE {
        return Err(Damage("not a journal file"));
    }
    let _compatible = input.u32()?;
    let incompatible = input.u32()?;
    let is_archived = input.take(8)?.first() == Some(&ARCHIVED);
    let file = Id128(input.array()?);
    // Machine id, boot id.
    input.take(16 + 16)?;
    let sequence = Id128(input.array()?);
    let (header_bytes, _arena) = (input.u64()?, input.u64()?);
    let data_table = (input.u64()?, input.u64()?);
    let field_table = (input.u64()?, input.u64()?);
    let (_tail, _objects) = (input.u64()?, input.u64()?);
    let count = input.u64()?;
    let _numbers = (input.u64()?, input.u64()?);
    let entries_at = input.u64()?;
    let realtime_us = (input.u64()?, input.u64()?);
    let has = |feature| incompatible & feature != 0;
    let (is_compact, is_keyed) = (has(COMPACT), has(KEYED_HASH));
    let header = Header {
        file,
        is_archived,
        is_keyed,
        data_table,
        field_table,
        sequence,
        entries_at,
        count,
        realtime_us,
        is_compact,
        header_bytes,
    };
    Ok((header, incompatible & !KNOWN))
}

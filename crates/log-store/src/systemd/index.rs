//! The index of a `.journal` file: hash tables that lead to data and fields, and the entries that have a value. What of
//! it is damaged says nothing: then every entry is looked at.

use std::hash::Hasher;

use crate::bytes::Input;
use crate::entry::Id128;
use crate::error::Damage;
use crate::query::{BOOT_FIELD, Expr};
use crate::systemd::file::{DATA, Fault, FileResult, JournalFile};
use crate::systemd::jenkins::hash64;

const FIELD: u8 = 2;

/// A bucket of a table: offsets of its first and its last object.
const BUCKET_BYTES: u64 = 16;

/// Places in objects of data and of fields.
const HASH_AT: usize = 16;
const NEXT_HASH_AT: usize = 24;
const NEXT_OF_FIELD_AT: usize = 32;
const ENTRY_AT: usize = 40;
const ARRAY_AT: usize = 48;
const COUNT_AT: usize = 56;
const HEAD_DATA_AT: usize = 32;
const FIELD_NAME_AT: usize = 40;

/// Bytes of what data and fields begin with.
const DATA_BYTES: usize = 64;
const FIELD_BYTES: usize = 40;

/// Most objects of a bucket, and most values of a field: more are looked for in the entries.
const CHAIN_MAX: usize = 1 << 20;

fn number(bytes: &[u8], at: usize) -> FileResult<u64> {
    let rest = bytes.get(at..).ok_or(Damage("an object is cut short"))?;
    Ok(Input::new(rest).u64()?)
}

impl JournalFile {
    /// The offsets of entries that may be wanted, in their order; `None`: all of them.
    pub fn candidates(&self, expr: &Expr) -> Option<Vec<u64>> {
        match expr {
            Expr::All(all) => {
                let mut found: Option<Vec<u64>> = None;
                for expr in all {
                    if found.as_ref().is_some_and(Vec::is_empty) {
                        break;
                    }
                    found = intersect(found, self.candidates(expr));
                }
                found
            }
            Expr::Any(any) => {
                let mut found = Vec::new();
                for expr in any {
                    found.extend(self.candidates(expr)?);
                }
                found.sort_unstable();
                found.dedup();
                Some(found)
            }
            // What a boot is, the stamp says; there may be no data of it.
            Expr::Field { name, .. } if name == BOOT_FIELD && !self.has_field(name) => None,
            Expr::Field { name, value } => {
                let payload = [name, &b"="[..], value].concat();
                let data = self.find_data(&payload).ok()?;
                data.map_or(Some(Vec::new()), |at| self.entries_of(at).ok())
            }
        }
    }

    /// Every value of a field; `None` where the index does not say.
    pub fn indexed_values(&self, field: &[u8]) -> Option<Vec<Vec<u8>>> {
        let Some(at) = self.find_field(field).ok()? else { return Some(Vec::new()) };
        let offsets = self.data_of(at).ok()?;
        let value = |at: u64| self.data(at).ok().filter(|data| data.0 == field).map(|data| data.1);
        offsets.into_iter().map(value).collect()
    }

    /// The name of every field; `None` where the index does not say.
    pub fn indexed_fields(&self) -> Option<Vec<Vec<u8>>> {
        let (begin, bytes) = self.header().field_table;
        let mut names = Vec::new();
        for number in 0..bytes / BUCKET_BYTES {
            let bucket = begin.checked_add(number * BUCKET_BYTES)?;
            self.each_of(bucket, FIELD, |_, at, size| {
                names.push(self.field_name(at, size)?);
                Ok(names.len() < CHAIN_MAX)
            })
            .ok()?;
        }
        (bytes >= BUCKET_BYTES).then_some(names)
    }

    /// First and last entry that have a value of a field; `None` where the index does not say.
    pub fn ends_of(&self, field: &[u8], value: &[u8]) -> Option<(u64, u64)> {
        let at = self.find_data(&[field, b"=", value].concat()).ok()??;
        let entries = self.entries_of(at).ok()?;
        Some((*entries.first()?, *entries.last()?))
    }

    fn has_field(&self, name: &[u8]) -> bool {
        matches!(self.find_field(name), Ok(Some(_)))
    }

    fn hash(&self, payload: &[u8]) -> u64 {
        if !self.header().is_keyed {
            return hash64(payload);
        }
        let Id128(key) = self.header().file;
        let half = |at: usize| {
            let bytes = key[at..].first_chunk().expect("an id has 16 bytes");
            u64::from_le_bytes(*bytes)
        };
        #[expect(deprecated, reason = "it is SipHash-2-4, which the files use")]
        let mut hasher = std::hash::SipHasher::new_with_keys(half(0), half(8));
        hasher.write(payload);
        hasher.finish()
    }

    fn find_data(&self, payload: &[u8]) -> FileResult<Option<u64>> {
        self.find(self.header().data_table, DATA, payload, |at, _| {
            let (name, value) = self.data(at)?;
            Ok([&name[..], b"=", &value].concat())
        })
    }

    fn find_field(&self, name: &[u8]) -> FileResult<Option<u64>> {
        self.find(self.header().field_table, FIELD, name, |at, size| self.field_name(at, size))
    }

    fn field_name(&self, at: u64, size: usize) -> FileResult<Vec<u8>> {
        const NAME_BYTES_MAX: usize = 4096;
        let length = size.checked_sub(FIELD_BYTES).filter(|length| *length <= NAME_BYTES_MAX);
        self.read(at + FIELD_NAME_AT as u64, length.ok_or(Damage("a field has no size"))?)
    }

    /// The object of a table that has this content.
    fn find(
        &self,
        (begin, bytes): (u64, u64),
        kind: u8,
        wanted: &[u8],
        content: impl Fn(u64, usize) -> FileResult<Vec<u8>>,
    ) -> FileResult<Option<u64>> {
        let buckets = bytes / BUCKET_BYTES;
        let hash = self.hash(wanted);
        let number = hash.checked_rem(buckets).ok_or(Damage("a table is missing"))?;
        let bucket =
            begin.checked_add(number * BUCKET_BYTES).ok_or(Damage("a table points nowhere"))?;
        let mut found = None;
        self.each_of(bucket, kind, |said, at, size| {
            if said == hash && content(at, size)? == wanted {
                found = Some(at);
            }
            Ok(found.is_none())
        })?;
        Ok(found)
    }

    /// Goes over the objects of a bucket, with hash, offset and size of each, while it is told to.
    fn each_of(
        &self,
        bucket: u64,
        kind: u8,
        mut act: impl FnMut(u64, u64, usize) -> FileResult<bool>,
    ) -> FileResult<()> {
        let mut at = number(&self.read(bucket, BUCKET_BYTES as usize)?, 0)?;
        let mut count = 0;
        while at != 0 {
            let (_, size) = self.object(at, kind)?;
            let bytes = self.read(at, NEXT_HASH_AT + 8)?;
            if !act(number(&bytes, HASH_AT)?, at, size)? {
                return Ok(());
            }
            let next = number(&bytes, NEXT_HASH_AT)?;
            count += 1;
            // Objects come behind those of their bucket, so this ends.
            if next != 0 && next <= at || count > CHAIN_MAX {
                return Err(Damage("a bucket points backwards").into());
            }
            at = next;
        }
        Ok(())
    }

    /// The data of a field: the newest comes first.
    fn data_of(&self, field: u64) -> FileResult<Vec<u64>> {
        let mut at = number(&self.read(field, FIELD_BYTES)?, HEAD_DATA_AT)?;
        let mut all = Vec::new();
        while at != 0 {
            self.object(at, DATA)?;
            all.push(at);
            let next = number(&self.read(at, DATA_BYTES)?, NEXT_OF_FIELD_AT)?;
            if next >= at || all.len() > CHAIN_MAX {
                return Err(Damage("the values of a field do not end").into());
            }
            at = next;
        }
        Ok(all)
    }

    /// The entries that have a data object, in their order.
    fn entries_of(&self, data: u64) -> FileResult<Vec<u64>> {
        let bytes = self.read(data, DATA_BYTES)?;
        let (first, count) = (number(&bytes, ENTRY_AT)?, number(&bytes, COUNT_AT)?);
        let mut at = number(&bytes, ARRAY_AT)?;
        let mut all = if first == 0 { Vec::new() } else { vec![first] };
        while at != 0 && (all.len() as u64) < count {
            let next = self.array(at, &mut all)?;
            if next != 0 && next <= at {
                return Err(Damage("an array points backwards").into());
            }
            at = next;
        }
        if (all.len() as u64) < count || !all.is_sorted() {
            return Err(Fault::from(Damage("a value has fewer entries than it says")));
        }
        all.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        Ok(all)
    }
}

fn intersect(a: Option<Vec<u64>>, b: Option<Vec<u64>>) -> Option<Vec<u64>> {
    match (a, b) {
        (Some(mut a), Some(b)) => {
            a.retain(|at| b.binary_search(at).is_ok());
            Some(a)
        }
        (a, b) => a.or(b),
    }
}

//! Which values occur in which blocks.
//!
//! For each field name a sorted list of values, cut into chunks of about 8 KiB that are packed on
//! their own; the directory has the first value of each chunk, so a look-up reads one chunk.
//! Block numbers of a value are a short rising list: nearly all values occur in a few blocks, and
//! a segment has some dozens, which leaves nothing for a general bitmap to win.

use std::collections::BTreeMap;

use crate::block::TEXT_FIELD;
use crate::bytes::{Input, put_bytes, put_varint};
use crate::entry::NAME_BYTES_MAX;
use crate::error::Damage;
use crate::segment::layout::Place;

/// Longest value that is indexed, bytes.
pub const VALUE_BYTES_MAX: usize = 256;

/// Most different values of a trusted or well-known field in the index of one segment.
const VALUES_MAX: usize = 1 << 16;

/// Most different values of any other field: identifiers of requests are found by reading.
const OTHER_VALUES_MAX: usize = 1 << 10;

/// A chunk is closed when it has so many bytes before packing.
const CHUNK_BYTES: usize = 8 << 10;

/// Fields that clients may set and that queries by unit, identifier and message id need.
const WELL_KNOWN: [&[u8]; 8] = [
    b"COREDUMP_UNIT",
    b"COREDUMP_USER_UNIT",
    b"MESSAGE_ID",
    b"OBJECT_SYSTEMD_UNIT",
    b"PRIORITY",
    b"SYSLOG_IDENTIFIER",
    b"UNIT",
    b"USER_UNIT",
];

/// How far the index of a field can be trusted to name every block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coverage {
    /// Every value is in it.
    All,
    /// Values over [`VALUE_BYTES_MAX`] are missing.
    Short,
    /// The field occurs but has too many values: it has no index.
    Nothing,
}

/// Where the values of one field are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldIndex {
    /// Field name.
    pub name: Box<[u8]>,
    /// What is missing.
    pub coverage: Coverage,
    /// By first value.
    pub chunks: Vec<Chunk>,
}

/// Some values of a field in a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Its first value.
    pub first: Box<[u8]>,
    /// Where it is packed.
    pub place: Place,
}

/// What the index says about a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// It does not occur.
    Absent,
    /// If it occurs, this chunk names the blocks.
    In(&'a Chunk),
    /// The index cannot say.
    Unknown,
}

impl FieldIndex {
    /// Where to look for a value.
    pub fn lookup(&self, value: &[u8]) -> Lookup<'_> {
        let indexed = match self.coverage {
            Coverage::All => true,
            Coverage::Short => value.len() <= VALUE_BYTES_MAX,
            Coverage::Nothing => false,
        };
        if !indexed {
            return Lookup::Unknown;
        }
        match self.chunks.partition_point(|chunk| &*chunk.first <= value).checked_sub(1) {
            Some(at) => Lookup::In(&self.chunks[at]),
            None => Lookup::Absent,
        }
    }

    /// Appends everything but the name.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.push(self.coverage as u8);
        put_varint(out, self.chunks.len() as u64);
        for chunk in &self.chunks {
            put_bytes(out, &chunk.first);
            chunk.place.put(out);
        }
    }

    /// Reads name and index of a field.
    pub fn read(input: &mut Input<'_>, blocks: usize) -> Result<FieldIndex, Damage> {
        let name: Box<[u8]> = input.bytes()?.into();
        if name.len() > NAME_BYTES_MAX || blocks == 0 {
            return Err(Damage("not a valid field"));
        }
        let coverage = match input.take(1)?[0] {
            0 => Coverage::All,
            1 => Coverage::Short,
            2 => Coverage::Nothing,
            _ => return Err(Damage("unknown coverage of an index")),
        };
        let count = input.count()?;
        let chunks: Vec<Chunk> = (0..count)
            .map(|_| Ok(Chunk { first: input.bytes()?.into(), place: Place::read(input)? }))
            .collect::<Result<_, Damage>>()?;
        match chunks.is_sorted_by(|a, b| a.first < b.first) {
            true => Ok(FieldIndex { name, coverage, chunks }),
            false => Err(Damage("index chunks out of order")),
        }
    }
}

/// Block numbers, rising.
pub type Blocks = Vec<u32>;

/// Reads an unpacked chunk: each value with its blocks, in order.
pub fn each_value(
    raw: &[u8],
    blocks: usize,
    mut each: impl FnMut(&[u8], &[u32]),
) -> Result<(), Damage> {
    let (mut input, mut value, mut numbers) = (Input::new(raw), Vec::new(), Vec::new());
    while !input.rest().is_empty() {
        let shared = input.bounded(value.len())?;
        value.truncate(shared);
        value.extend_from_slice(input.bytes()?);
        read_numbers(&mut input, blocks, &mut numbers)?;
        each(&value, &numbers);
    }
    Ok(())
}

fn read_numbers(input: &mut Input<'_>, blocks: usize, out: &mut Blocks) -> Result<(), Damage> {
    out.clear();
    let mut next = 0;
    for _ in 0..input.bounded(blocks)? {
        let number = next + input.bounded(blocks)?;
        if number >= blocks {
            return Err(Damage("a block number beyond the end"));
        }
        out.push(number as u32);
        next = number + 1;
    }
    Ok(())
}

/// Collects the values of all blocks of a segment.
#[derive(Debug, Default)]
pub struct IndexBuilder {
    fields: BTreeMap<Box<[u8]>, Collected>,
}

#[derive(Debug)]
struct Collected {
    coverage: Coverage,
    values_max: usize,
    values: BTreeMap<Box<[u8]>, Blocks>,
}

impl IndexBuilder {
    /// Notes that a field has a value in a block. Blocks come in rising order.
    pub fn add(&mut self, name: &[u8], value: &[u8], block: u32) {
        let field = self.field(name);
        if value.len() > VALUE_BYTES_MAX {
            field.coverage = field.coverage.max(Coverage::Short);
        }
        if value.len() > VALUE_BYTES_MAX || field.coverage == Coverage::Nothing {
            return;
        }
        if let Some(blocks) = field.values.get_mut(value) {
            if blocks.last() != Some(&block) {
                blocks.push(block);
            }
        } else if field.values.len() >= field.values_max {
            field.give_up();
        } else {
            field.values.insert(value.into(), vec![block]);
        }
    }

    /// Notes that a field occurs, and how far another index of it went.
    pub fn add_coverage(&mut self, name: &[u8], coverage: Coverage) {
        let field = self.field(name);
        field.coverage = field.coverage.max(coverage);
        if field.coverage == Coverage::Nothing {
            field.give_up();
        }
    }

    fn field(&mut self, name: &[u8]) -> &mut Collected {
        if !self.fields.contains_key(name) {
            self.fields.insert(name.into(), Collected::new(name));
        }
        self.fields.get_mut(name).expect("it was put there if it was missing")
    }

    /// Packs all chunks behind `offset` of the file and gives what the directory needs.
    pub fn finish(self, offset: u64, out: &mut Vec<u8>) -> Vec<FieldIndex> {
        let begin = out.len();
        let place = |out: &Vec<u8>| offset + (out.len() - begin) as u64;
        let mut fields = Vec::new();
        for (name, field) in self.fields {
            let (mut chunks, mut raw, mut last) = (Vec::new(), Vec::new(), &[][..]);
            let mut first: &[u8] = &[];
            for (value, blocks) in &field.values {
                if raw.is_empty() {
                    (first, last) = (value, &[]);
                }
                put_value(&mut raw, last, value, blocks);
                last = value;
                if raw.len() >= CHUNK_BYTES {
                    chunks.push(Chunk {
                        first: first.into(),
                        place: Place::pack(&raw, place(out), out),
                    });
                    raw.clear();
                }
            }
            if !raw.is_empty() {
                chunks
                    .push(Chunk { first: first.into(), place: Place::pack(&raw, place(out), out) });
            }
            fields.push(FieldIndex { name, coverage: field.coverage, chunks });
        }
        fields
    }
}

impl Collected {
    fn new(name: &[u8]) -> Collected {
        let trusted = name.starts_with(b"_") || WELL_KNOWN.contains(&name);
        let unique = name == TEXT_FIELD || name.ends_with(b"_TIMESTAMP");
        Collected {
            coverage: if unique { Coverage::Nothing } else { Coverage::All },
            values_max: if trusted { VALUES_MAX } else { OTHER_VALUES_MAX },
            values: BTreeMap::new(),
        }
    }

    fn give_up(&mut self) {
        self.coverage = Coverage::Nothing;
        self.values.clear();
    }
}

fn put_value(out: &mut Vec<u8>, last: &[u8], value: &[u8], blocks: &[u32]) {
    let shared = last.iter().zip(value).take_while(|(a, b)| a == b).count();
    put_varint(out, shared as u64);
    put_bytes(out, &value[shared..]);
    put_varint(out, blocks.len() as u64);
    let mut next = 0;
    for &block in blocks {
        put_varint(out, u64::from(block - next));
        next = block + 1;
    }
}

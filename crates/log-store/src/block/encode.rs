//! Entries to a block.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::block::columns::Values;
use crate::block::header::{BLOCK_HEADER_BYTES, Header, Identity, Kind, SECTIONS, SectionInfo};
use crate::block::{BLOCK_ENTRIES_MAX, TEXT_FIELD};
use crate::bytes::{put_bytes, put_delta, put_varint};
use crate::entry::{Fields, Id128, Stamp};

/// Sections smaller than this are stored as they are, in bytes.
const COMPRESS_BYTES_MIN: usize = 512;

/// Level of zstd. On text of logs higher ones take twice the time and save a hundredth.
pub const COMPRESSION_LEVEL: i32 = 1;

/// A name and what was collected under it.
#[derive(Debug)]
struct Name {
    name: Box<[u8]>,
    values: Values,
}

/// Collects entries; [`Builder::finish`] makes a block of them and begins anew.
pub struct Builder {
    compressor: zstd::bulk::Compressor<'static>,
    names: Vec<Name>,
    name_ids: BTreeMap<Box<[u8]>, u32>,
    shapes: Vec<Vec<u32>>,
    shape_ids: BTreeMap<Vec<u32>, u32>,
    boots: Vec<Id128>,
    contexts: Vec<Arc<Fields>>,
    context_ids: BTreeMap<Arc<Fields>, u32>,
    rows: Rows,
    raw_bytes: usize,
    /// Reused: the shape of the entry being added.
    shape: Vec<u32>,
}

/// Stamps and table indices, one of each for an entry.
#[derive(Debug, Default)]
struct Rows {
    seqnum: Vec<u64>,
    realtime: Vec<u64>,
    monotonic: Vec<u64>,
    boot: Vec<u32>,
    context: Vec<u32>,
    shape: Vec<u32>,
}

impl Default for Builder {
    /// An empty block.
    fn default() -> Builder {
        let compressor = zstd::bulk::Compressor::new(COMPRESSION_LEVEL);
        Builder {
            compressor: compressor.expect("zstd takes its own levels, and memory is there"),
            names: Vec::new(),
            name_ids: BTreeMap::new(),
            shapes: Vec::new(),
            shape_ids: BTreeMap::new(),
            boots: Vec::new(),
            contexts: Vec::new(),
            context_ids: BTreeMap::new(),
            rows: Rows::default(),
            raw_bytes: 0,
            shape: Vec::new(),
        }
    }
}

impl Builder {
    /// Entries so far.
    pub fn len(&self) -> usize {
        self.rows.seqnum.len()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// No more entries fit.
    pub fn is_full(&self) -> bool {
        self.len() >= BLOCK_ENTRIES_MAX
    }

    /// About how many bytes the sections have before compression.
    pub fn raw_bytes(&self) -> usize {
        self.raw_bytes
    }

    /// Adds an entry. Sequence numbers must rise.
    ///
    /// # Panics
    /// If they do not, or the block is full.
    pub fn push(&mut self, seqnum: u64, stamp: &Stamp, context: &Arc<Fields>, fields: &Fields) {
        /// What the columns of stamps and table indices take for an entry, about, in bytes.
        const ROW_BYTES: usize = 8;
        assert!(!self.is_full(), "callers finish a full block first");
        assert!(self.rows.seqnum.last().is_none_or(|&last| last < seqnum), "seqnums rise");
        let (boot, context) = (self.boot(stamp.boot), self.context(context));
        let shape = self.fields(fields);
        self.rows.seqnum.push(seqnum);
        self.rows.realtime.push(stamp.realtime_us);
        self.rows.monotonic.push(stamp.monotonic_us);
        self.rows.boot.push(boot);
        self.rows.context.push(context);
        self.rows.shape.push(shape);
        self.raw_bytes += ROW_BYTES + fields.len();
    }

    fn boot(&mut self, boot: Id128) -> u32 {
        position_or_push(&mut self.boots, boot)
    }

    fn context(&mut self, context: &Arc<Fields>) -> u32 {
        /// So many are compared by their address first.
        const NEAR: usize = 16;
        if let Some(&last) = self.rows.context.last()
            && Arc::ptr_eq(&self.contexts[last as usize], context)
        {
            return last;
        }
        let near = self.contexts.iter().rev().take(NEAR).position(|c| Arc::ptr_eq(c, context));
        if let Some(back) = near {
            return (self.contexts.len() - 1 - back) as u32;
        }
        if let Some(&id) = self.context_ids.get(context) {
            return id;
        }
        let id = self.contexts.len() as u32;
        context.iter().for_each(|(name, _)| {
            self.name(name);
        });
        self.raw_bytes += context.bytes_len();
        self.contexts.push(context.clone());
        self.context_ids.insert(context.clone(), id);
        id
    }

    fn name(&mut self, name: &[u8]) -> u32 {
        if let Some(&id) = self.name_ids.get(name) {
            return id;
        }
        let id = self.names.len() as u32;
        self.name_ids.insert(name.into(), id);
        self.names.push(Name { name: name.into(), values: Values::default() });
        id
    }

    /// Adds the values to their columns; the same names as in the entry before are found at once.
    fn fields(&mut self, fields: &Fields) -> u32 {
        let (row, last) = (self.len() as u32, self.rows.shape.last().copied());
        self.shape.clear();
        for (place, (name, value)) in fields.iter().enumerate() {
            let guess = last.and_then(|last| self.shapes[last as usize].get(place).copied());
            let id = match guess {
                Some(id) if *self.names[id as usize].name == *name => id,
                _ => self.name(name),
            };
            self.names[id as usize].values.push(value, row);
            self.shape.push(id);
            self.raw_bytes += value.len();
        }
        match last {
            Some(last) if self.shapes[last as usize] == self.shape => last,
            _ => self.shape_id(),
        }
    }

    fn shape_id(&mut self) -> u32 {
        if let Some(&id) = self.shape_ids.get(&self.shape) {
            return id;
        }
        let id = self.shapes.len() as u32;
        self.shapes.push(self.shape.clone());
        self.shape_ids.insert(self.shape.clone(), id);
        id
    }

    /// Every boot with the earliest and latest wall clock that an entry has in it, µs.
    pub fn boots(&self) -> impl Iterator<Item = (Id128, u64, u64)> {
        (0..self.boots.len()).map(|at| {
            let of_boot = self.rows.boot.iter().zip(&self.rows.realtime);
            let times = || of_boot.clone().filter(|(boot, _)| **boot == at as u32).map(|(_, t)| *t);
            let range = times().min().zip(times().max()).expect("a boot is listed for an entry");
            (self.boots[at], range.0, range.1)
        })
    }

    /// Every different value of each of the entries' own fields but the text.
    pub fn each_value(&self, mut each: impl FnMut(&[u8], &[u8])) {
        for name in self.names.iter().filter(|name| *name.name != *TEXT_FIELD) {
            name.values.distinct().into_iter().for_each(|value| each(&name.name, value));
        }
    }

    /// Sequence number of the first entry.
    ///
    /// # Panics
    /// Without entries.
    pub fn first_seqnum(&self) -> u64 {
        self.rows.seqnum[0]
    }

    /// The contexts so far.
    pub fn contexts(&self) -> &[Arc<Fields>] {
        &self.contexts
    }

    /// True when an entry has a text, be it empty; not so a context.
    pub fn has_text(&self) -> bool {
        self.text_name().is_some_and(|id| !self.names[id].values.ends.is_empty())
    }

    /// All texts so far, end to end.
    pub fn text(&self) -> &[u8] {
        self.text_name().map_or(&[], |id| &self.names[id].values.bytes)
    }

    /// Appends the block to `out` and begins a new one; `offset` is where it will be in the file,
    /// `durable` and `settled` as in [`Header`].
    ///
    /// # Panics
    /// If it has no entries.
    pub fn finish(
        &mut self,
        out: &mut Vec<u8>,
        identity: Identity,
        offset: u64,
        (durable, settled): (u64, u64),
    ) -> Header {
        assert!(!self.is_empty(), "a block has entries");
        let begin = out.len();
        out.resize(begin + BLOCK_HEADER_BYTES, 0);
        let (rows, fields) = (self.rows_section(), self.fields_section());
        let text = self.take_text();
        let sections: [SectionInfo; SECTIONS] =
            [rows, fields, text].map(|raw| self.put_section(&raw, out));
        let header = Header { durable, settled, ..self.header(sections, identity, offset) };
        out[begin..begin + BLOCK_HEADER_BYTES].copy_from_slice(&header.to_bytes());
        out.resize(begin + BLOCK_HEADER_BYTES + header.body_bytes() as usize, 0);
        self.clear();
        header
    }

    fn header(&self, sections: [SectionInfo; SECTIONS], identity: Identity, offset: u64) -> Header {
        let rows = &self.rows;
        let in_block = "the block has entries";
        Header {
            identity,
            offset,
            first_seqnum: rows.seqnum[0],
            last_seqnum: *rows.seqnum.last().expect(in_block),
            realtime_min_us: *rows.realtime.iter().min().expect(in_block),
            realtime_max_us: *rows.realtime.iter().max().expect(in_block),
            durable: 0,
            settled: 0,
            count: rows.seqnum.len() as u32,
            kind: Kind::Entries,
            sections,
        }
    }

    fn rows_section(&self) -> Vec<u8> {
        let (mut out, rows) = (Vec::new(), &self.rows);
        put_varint(&mut out, self.boots.len() as u64);
        self.boots.iter().for_each(|boot| out.extend_from_slice(&boot.0));
        put_varint(&mut out, self.names.len() as u64);
        self.names.iter().for_each(|name| put_bytes(&mut out, &name.name));
        put_varint(&mut out, self.shapes.len() as u64);
        for shape in &self.shapes {
            put_varint(&mut out, shape.len() as u64);
            shape.iter().for_each(|&name| put_varint(&mut out, u64::from(name)));
        }
        self.put_contexts(&mut out);
        put_differences(&mut out, &rows.seqnum, rows.seqnum[0]);
        put_differences(&mut out, &rows.realtime, 0);
        put_differences(&mut out, &rows.monotonic, 0);
        for indices in [&rows.boot, &rows.context, &rows.shape] {
            indices.iter().for_each(|&index| put_varint(&mut out, u64::from(index)));
        }
        if let Some(text) = self.text_name() {
            self.names[text].values.put_lengths(&mut out);
        }
        out
    }

    fn put_contexts(&self, out: &mut Vec<u8>) {
        put_varint(out, self.contexts.len() as u64);
        for context in &self.contexts {
            put_varint(out, context.len() as u64);
            for (name, value) in context.iter() {
                let id = self.name_ids[name];
                put_varint(out, u64::from(id));
                put_bytes(out, value);
            }
        }
    }

    fn text_name(&self) -> Option<usize> {
        self.name_ids.get(TEXT_FIELD).map(|&id| id as usize)
    }

    fn fields_section(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for name in self.names.iter().filter(|name| *name.name != *TEXT_FIELD) {
            if !name.values.ends.is_empty() {
                name.values.put(&mut out, &self.rows.realtime);
            }
        }
        out
    }

    fn take_text(&mut self) -> Vec<u8> {
        self.text_name()
            .map(|id| std::mem::take(&mut self.names[id].values.bytes))
            .unwrap_or_default()
    }

    fn put_section(&mut self, raw: &[u8], out: &mut Vec<u8>) -> SectionInfo {
        let begin = out.len();
        let smaller = (raw.len() >= COMPRESS_BYTES_MIN)
            .then(|| self.compressor.compress(raw).ok())
            .flatten()
            .filter(|packed| packed.len() < raw.len());
        out.extend_from_slice(smaller.as_deref().unwrap_or(raw));
        let stored = &out[begin..];
        SectionInfo {
            stored: stored.len() as u32,
            raw: raw.len() as u32,
            crc: crc32fast::hash(stored),
        }
    }

    fn clear(&mut self) {
        self.names.clear();
        self.name_ids.clear();
        self.shapes.clear();
        self.shape_ids.clear();
        self.boots.clear();
        self.contexts.clear();
        self.context_ids.clear();
        self.rows = Rows::default();
        self.raw_bytes = 0;
    }
}

fn put_differences(out: &mut Vec<u8>, values: &[u64], mut before: u64) {
    for &value in values {
        put_delta(out, value, before);
        before = value;
    }
}

fn position_or_push(all: &mut Vec<Id128>, wanted: Id128) -> u32 {
    let found = all.iter().rposition(|id| *id == wanted);
    found.unwrap_or_else(|| {
        all.push(wanted);
        all.len() - 1
    }) as u32
}

//! A block to entries, section by section as they are asked for. Nothing in it is trusted.

use std::cell::OnceCell;
use std::sync::Arc;

use crate::block::columns::Column;
use crate::block::columns::read_ends;
use crate::block::header::{BLOCK_HEADER_BYTES, Header, Kind, Section};
use crate::block::{SECTION_RAW_BYTES_MAX, TEXT_FIELD};
use crate::bytes::Input;
use crate::entry::{ENTRY_FIELDS_MAX, Entry, Fields, Id128, NAME_BYTES_MAX, Stamp};
use crate::error::Damage;

/// Stamps of an entry and its places in the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Sequence number.
    pub seqnum: u64,
    /// Wall clock, µs.
    pub realtime_us: u64,
    /// Monotonic clock of the boot, µs.
    pub monotonic_us: u64,
    /// Which of [`Block::boots`].
    pub boot: u32,
    /// Which of [`Block::contexts`].
    pub context: u32,
    shape: u32,
    /// Where the places of its values begin in `Layout::places`.
    places: u32,
}

/// A block whose rows are unpacked; fields and text follow when asked for.
#[derive(Debug)]
pub struct Block {
    header: Header,
    body: Vec<u8>,
    boots: Vec<Id128>,
    names: Vec<Box<[u8]>>,
    shapes: Vec<Vec<u32>>,
    contexts: Vec<Arc<Fields>>,
    rows: Vec<Row>,
    layout: Layout,
    /// One for each name that has values other than texts.
    columns: OnceCell<Vec<Option<Column>>>,
    text: OnceCell<Vec<u8>>,
}

/// Where each value of each entry is in the column of its name.
#[derive(Debug, Default)]
struct Layout {
    /// Entry by entry, in the order of its shape.
    places: Vec<u32>,
    /// Of each name: the rows of its values.
    rows_of_name: Vec<Vec<u32>>,
    /// Where each text ends in the text section.
    text_ends: Vec<u32>,
}

impl Block {
    /// Unpacks the rows of a block of entries. `body` is what follows the header.
    pub fn open(header: Header, body: Vec<u8>) -> Result<Block, Damage> {
        if header.kind != Kind::Entries {
            return Err(Damage("a mark has no entries"));
        }
        let raw = unpack(&header, &body, Section::Rows)?;
        let mut input = Input::new(&raw);
        let boots = read_boots(&mut input)?;
        let names = read_names(&mut input)?;
        let shapes = read_shapes(&mut input, names.len())?;
        let contexts = read_contexts(&mut input, &names)?;
        let mut rows = read_stamps(&mut input, &header)?;
        read_indices(&mut input, &mut rows, [boots.len(), contexts.len(), shapes.len()])?;
        let mut layout = lay_out(&mut rows, &shapes, names.len())?;
        let texts = text_name(&names).map_or(0, |name| layout.rows_of_name[name].len());
        let (text_ends, total) = read_ends(&mut input, texts)?;
        if total != header.sections[Section::Text as usize].raw as usize {
            return Err(Damage("the text does not have the length of its parts"));
        }
        layout.text_ends = text_ends;
        let (columns, text) = (OnceCell::new(), OnceCell::new());
        Ok(Block { header, body, boots, names, shapes, contexts, rows, layout, columns, text })
    }

    /// The same with the text that [`Block::unpack_text`] gave.
    pub fn open_with_text(header: Header, body: Vec<u8>, text: Vec<u8>) -> Result<Block, Damage> {
        let block = Block::open(header, body)?;
        block.text.get_or_init(|| text);
        Ok(block)
    }

    /// Unpacks the texts of a block, end to end, and nothing else: for a search.
    pub fn unpack_text(header: &Header, body: &[u8]) -> Result<Vec<u8>, Damage> {
        unpack(header, body, Section::Text)
    }

    /// Reads a whole block, header and body, that lies at `offset` of its file.
    pub fn parse(bytes: &[u8], offset: u64) -> Result<Block, Damage> {
        let header = Header::parse(bytes, offset)?;
        let body = &bytes[BLOCK_HEADER_BYTES..];
        let body =
            body.get(..header.body_bytes() as usize).ok_or(Damage("a block is cut short"))?;
        Block::open(header, body.to_vec())
    }

    /// Its header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Stamps of all entries.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The boots that occur.
    pub fn boots(&self) -> &[Id128] {
        &self.boots
    }

    /// The contexts that occur.
    pub fn contexts(&self) -> &[Arc<Fields>] {
        &self.contexts
    }

    /// Names of all fields, of entries and contexts.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|name| &**name)
    }

    /// The rows that the values of a name belong to; empty when no entry has it as its own.
    pub fn rows_of(&self, name: &[u8]) -> &[u32] {
        let found = self.names.iter().position(|n| **n == *name);
        found.map_or(&[], |name| &self.layout.rows_of_name[name])
    }

    /// The column of a field other than the text.
    pub fn column(&self, name: &[u8]) -> Result<Option<&Column>, Damage> {
        let found = self.names.iter().position(|n| **n == *name);
        let columns = self.unpacked_columns()?;
        Ok(found.and_then(|name| columns[name].as_ref()))
    }

    /// All texts end to end, and where each ends.
    pub fn text(&self) -> Result<(&[u8], &[u32]), Damage> {
        Ok((self.unpacked_text()?, &self.layout.text_ends))
    }

    /// Unpacks everything and proves that every entry can be read.
    pub fn check(&self) -> Result<(), Damage> {
        self.unpacked_columns()?;
        self.unpacked_text()?;
        Ok(())
    }

    /// An entry by its row.
    ///
    /// # Panics
    /// If there are not so many rows.
    pub fn entry(&self, row: usize) -> Result<Entry, Damage> {
        let mut fields = Fields::new();
        self.each_field(row, |name, value| fields.push(name, value))?;
        let row = &self.rows[row];
        let context = self.contexts[row.context as usize].clone();
        let sequence = self.header.identity.sequence;
        Ok(Entry { sequence, seqnum: row.seqnum, stamp: self.stamp(row), context, fields })
    }

    /// The stamps of a row of this block.
    pub fn stamp(&self, row: &Row) -> Stamp {
        let Row { realtime_us, monotonic_us, boot, .. } = *row;
        Stamp { realtime_us, monotonic_us, boot: self.boots[boot as usize] }
    }

    /// The entry's own fields, without copying them.
    ///
    /// # Panics
    /// If there are not so many rows.
    pub fn each_field(&self, row: usize, mut each: impl FnMut(&[u8], &[u8])) -> Result<(), Damage> {
        let (columns, text) = (self.unpacked_columns()?, self.unpacked_text()?);
        let Row { shape, places, .. } = self.rows[row];
        let shape = &self.shapes[shape as usize];
        let places = &self.layout.places[places as usize..][..shape.len()];
        for (&name, &place) in shape.iter().zip(places) {
            let (name, place) = (name as usize, place as usize);
            match &columns[name] {
                Some(column) => each(&self.names[name], &column.get(place)),
                None => each(&self.names[name], &text[self.text_range(place)]),
            }
        }
        Ok(())
    }

    fn text_range(&self, place: usize) -> std::ops::Range<usize> {
        let begin = if place == 0 { 0 } else { self.layout.text_ends[place - 1] };
        begin as usize..self.layout.text_ends[place] as usize
    }

    fn unpacked_columns(&self) -> Result<&[Option<Column>], Damage> {
        if let Some(columns) = self.columns.get() {
            return Ok(columns);
        }
        let raw = unpack(&self.header, &self.body, Section::Fields)?;
        let mut input = Input::new(&raw);
        let realtime = |row: u32| self.rows[row as usize].realtime_us;
        let mut columns = Vec::with_capacity(self.names.len());
        for (name, rows) in self.names.iter().zip(&self.layout.rows_of_name) {
            let is_column = !rows.is_empty() && **name != *TEXT_FIELD;
            let column = is_column.then(|| Column::read(&mut input, rows, &realtime));
            columns.push(column.transpose()?);
        }
        Ok(self.columns.get_or_init(|| columns))
    }

    fn unpacked_text(&self) -> Result<&[u8], Damage> {
        if let Some(text) = self.text.get() {
            return Ok(text);
        }
        let text = unpack(&self.header, &self.body, Section::Text)?;
        Ok(self.text.get_or_init(|| text))
    }
}

fn unpack(header: &Header, body: &[u8], section: Section) -> Result<Vec<u8>, Damage> {
    let info = header.sections[section as usize];
    let stored = body.get(header.section_range(section)).ok_or(Damage("a block is cut short"))?;
    if crc32fast::hash(stored) != info.crc {
        return Err(Damage("a section fails its checksum"));
    }
    if info.raw == info.stored {
        return Ok(stored.to_vec());
    }
    if info.raw as usize > SECTION_RAW_BYTES_MAX {
        return Err(Damage("section longer than allowed"));
    }
    let raw = zstd::bulk::decompress(stored, info.raw as usize);
    let raw = raw.map_err(|_| Damage("a section cannot be decompressed"))?;
    if raw.len() != info.raw as usize {
        return Err(Damage("a section decompresses to the wrong length"));
    }
    Ok(raw)
}

fn text_name(names: &[Box<[u8]>]) -> Option<usize> {
    names.iter().position(|name| **name == *TEXT_FIELD)
}

fn read_boots(input: &mut Input<'_>) -> Result<Vec<Id128>, Damage> {
    let count = input.count()?;
    (0..count).map(|_| Ok(Id128(input.array()?))).collect()
}

fn read_names(input: &mut Input<'_>) -> Result<Vec<Box<[u8]>>, Damage> {
    let count = input.count()?;
    let names: Vec<Box<[u8]>> =
        (0..count).map(|_| Ok(input.bytes()?.into())).collect::<Result<_, Damage>>()?;
    if names.iter().any(|name| name.len() > NAME_BYTES_MAX) {
        return Err(Damage("field name longer than allowed"));
    }
    if names.iter().filter(|name| ***name == *TEXT_FIELD).count() > 1 {
        return Err(Damage("the text has two names"));
    }
    Ok(names)
}

fn read_shapes(input: &mut Input<'_>, names: usize) -> Result<Vec<Vec<u32>>, Damage> {
    let count = input.count()?;
    let mut shapes = Vec::with_capacity(count);
    for _ in 0..count {
        let fields = input.bounded(ENTRY_FIELDS_MAX)?;
        let name = |_| index(input, names);
        shapes.push((0..fields).map(name).collect::<Result<_, Damage>>()?);
    }
    Ok(shapes)
}

fn read_contexts(input: &mut Input<'_>, names: &[Box<[u8]>]) -> Result<Vec<Arc<Fields>>, Damage> {
    let count = input.count()?;
    let mut contexts = Vec::with_capacity(count);
    for _ in 0..count {
        let mut fields = Fields::new();
        for _ in 0..input.bounded(ENTRY_FIELDS_MAX)? {
            let name = index(input, names.len())?;
            fields.push(&names[name as usize], input.bytes()?);
        }
        contexts.push(Arc::new(fields));
    }
    Ok(contexts)
}

fn index(input: &mut Input<'_>, length: usize) -> Result<u32, Damage> {
    let last = length.checked_sub(1).ok_or(Damage("an index into an empty table"))?;
    Ok(input.bounded(last)? as u32)
}

fn read_stamps(input: &mut Input<'_>, header: &Header) -> Result<Vec<Row>, Damage> {
    let count = header.count as usize;
    let (mut rows, mut seqnum) = (Vec::with_capacity(count), header.first_seqnum);
    for place in 0..count {
        let before = seqnum;
        seqnum = input.delta(before)?;
        let rises = if place == 0 { seqnum == before } else { seqnum > before };
        if !rises {
            return Err(Damage("sequence numbers are not increasing"));
        }
        let (realtime_us, monotonic_us, boot, context, shape, places) = (0, 0, 0, 0, 0, 0);
        rows.push(Row { seqnum, realtime_us, monotonic_us, boot, context, shape, places });
    }
    if seqnum != header.last_seqnum {
        return Err(Damage("wrong last sequence number"));
    }
    let mut before = 0;
    for row in &mut rows {
        row.realtime_us = input.delta(before)?;
        before = row.realtime_us;
    }
    before = 0;
    for row in &mut rows {
        row.monotonic_us = input.delta(before)?;
        before = row.monotonic_us;
    }
    Ok(rows)
}

fn read_indices(
    input: &mut Input<'_>,
    rows: &mut [Row],
    [boots, contexts, shapes]: [usize; 3],
) -> Result<(), Damage> {
    for row in rows.iter_mut() {
        row.boot = index(input, boots)?;
    }
    for row in rows.iter_mut() {
        row.context = index(input, contexts)?;
    }
    for row in rows.iter_mut() {
        row.shape = index(input, shapes)?;
    }
    Ok(())
}

fn lay_out(rows: &mut [Row], shapes: &[Vec<u32>], names: usize) -> Result<Layout, Damage> {
    /// Most values of one block: shapes are bounded, but a hostile file may repeat the longest.
    const VALUES_MAX: usize = 1 << 24;
    let mut layout = Layout { rows_of_name: vec![Vec::new(); names], ..Layout::default() };
    for (at, row) in rows.iter_mut().enumerate() {
        row.places = layout.places.len() as u32;
        for &name in &shapes[row.shape as usize] {
            let of_name = &mut layout.rows_of_name[name as usize];
            layout.places.push(of_name.len() as u32);
            of_name.push(at as u32);
        }
        if layout.places.len() > VALUES_MAX {
            return Err(Damage("too many values in a block"));
        }
    }
    Ok(layout)
}

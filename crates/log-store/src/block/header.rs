//! The fixed part of a block: who, where, how much, and the checksums of all of it.

use crate::block::{BLOCK_ENTRIES_MAX, SECTION_RAW_BYTES_MAX};
use crate::bytes::Input;
use crate::entry::Id128;
use crate::error::Damage;

/// Size of a header, bytes.
pub const BLOCK_HEADER_BYTES: usize = 144;

/// How many sections follow a header.
pub const SECTIONS: usize = 3;

/// First bytes of a block; the digit is the version of the block's layout.
pub(crate) const MAGIC: [u8; 8] = *b"WARRENB1";

/// Sections begin and blocks end at multiples of this many bytes.
const ALIGN: u64 = 8;

/// The file and the sequence that a block belongs to; a block found in another file is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Identity {
    /// Random, new for each file, never printed: an entry's text cannot imitate a block.
    pub file: Id128,
    /// Of the whole store: sequence numbers count within it.
    pub sequence: Id128,
}

/// What a block is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Entries.
    Entries,
    /// No entries: says that everything before `Header::durable` is on the device.
    Mark,
    /// A mark that ends the log: the writer left in order.
    End,
}

/// Which section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Tables and stamps.
    Rows = 0,
    /// Columns of all fields but the text.
    Fields = 1,
    /// Values of `MESSAGE`.
    Text = 2,
}

/// One section as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SectionInfo {
    /// Bytes in the file.
    pub stored: u32,
    /// Bytes when unpacked; the same as `stored` means that it is not compressed.
    pub raw: u32,
    /// CRC-32 of the stored bytes.
    pub crc: u32,
}

/// A block's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// File and sequence.
    pub identity: Identity,
    /// Where in the file this header is, in bytes.
    pub offset: u64,
    /// Sequence number of the first entry; in a mark, of the last one before it.
    pub first_seqnum: u64,
    /// Sequence number of the last entry.
    pub last_seqnum: u64,
    /// Earliest wall clock, µs.
    pub realtime_min_us: u64,
    /// Latest wall clock, µs.
    pub realtime_max_us: u64,
    /// In a log: how much of the file was known to be on the device when this was written, bytes.
    pub durable: u64,
    /// In a log: no entry with a lower number than this will be written any more, to any file of the
    /// directory; 0: not known.
    pub settled: u64,
    /// Entries.
    pub count: u32,
    /// What it is for.
    pub kind: Kind,
    /// Rows, fields, text.
    pub sections: [SectionInfo; SECTIONS],
}

impl Header {
    /// The header as stored.
    pub fn to_bytes(self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut out = Vec::with_capacity(BLOCK_HEADER_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.identity.file.0);
        out.extend_from_slice(&self.identity.sequence.0);
        for number in [
            self.offset,
            self.first_seqnum,
            self.last_seqnum,
            self.realtime_min_us,
            self.realtime_max_us,
            self.durable,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&(self.kind as u32).to_le_bytes());
        for section in self.sections {
            for number in [section.stored, section.raw, section.crc] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        out.extend_from_slice(&self.settled.to_le_bytes());
        out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
        out.try_into().expect("the fields above fill the header")
    }

    /// Reads a header and proves its checksum, its bounds and that it lies where it says.
    pub fn parse(bytes: &[u8], offset: u64) -> Result<Header, Damage> {
        let whole = bytes.get(..BLOCK_HEADER_BYTES).ok_or(Damage("block header cut short"))?;
        let (body, crc) = whole.split_at(BLOCK_HEADER_BYTES - 4);
        let mut input = Input::new(body);
        if input.array::<8>()? != MAGIC {
            return Err(Damage("no block begins here"));
        }
        if crc32fast::hash(body).to_le_bytes() != crc {
            return Err(Damage("a block header fails its checksum"));
        }
        let header = Header::parse_body(&mut input)?;
        if header.offset != offset {
            return Err(Damage("block of another file or place"));
        }
        header.check()?;
        Ok(header)
    }

    fn parse_body(input: &mut Input<'_>) -> Result<Header, Damage> {
        Ok(Header {
            identity: Identity { file: Id128(input.array()?), sequence: Id128(input.array()?) },
            offset: input.u64()?,
            first_seqnum: input.u64()?,
            last_seqnum: input.u64()?,
            realtime_min_us: input.u64()?,
            realtime_max_us: input.u64()?,
            durable: input.u64()?,
            count: input.u32()?,
            kind: match input.u32()? {
                0 => Kind::Entries,
                1 => Kind::Mark,
                2 => Kind::End,
                _ => return Err(Damage("unknown kind of block")),
            },
            sections: [section(input)?, section(input)?, section(input)?],
            settled: input.u64()?,
        })
    }

    fn check(&self) -> Result<(), Damage> {
        let entries = self.kind == Kind::Entries;
        let sane = self.sections.iter().all(|section| {
            section.raw as usize <= SECTION_RAW_BYTES_MAX && section.stored <= section.raw
        });
        let counted = self.count as usize <= BLOCK_ENTRIES_MAX && (self.count > 0) == entries;
        if sane && counted && self.first_seqnum <= self.last_seqnum {
            return Ok(());
        }
        Err(Damage("block header out of bounds"))
    }

    /// Bytes that follow the header.
    pub fn body_bytes(&self) -> u64 {
        let stored: u64 = self.sections.iter().map(|section| u64::from(section.stored)).sum();
        stored.next_multiple_of(ALIGN)
    }

    /// Where the next block may begin, bytes from the start of the file.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(BLOCK_HEADER_BYTES as u64).saturating_add(self.body_bytes())
    }

    /// Where a section's stored bytes are in what follows the header.
    pub fn section_range(&self, section: Section) -> std::ops::Range<usize> {
        let before = &self.sections[..section as usize];
        let begin: usize = before.iter().map(|info| info.stored as usize).sum();
        begin..begin + self.sections[section as usize].stored as usize
    }

    /// Bytes of all sections when unpacked.
    pub fn raw_bytes(&self) -> u64 {
        self.sections.iter().map(|section| u64::from(section.raw)).sum()
    }
}

fn section(input: &mut Input<'_>) -> Result<SectionInfo, Damage> {
    Ok(SectionInfo { stored: input.u32()?, raw: input.u32()?, crc: input.u32()? })
}

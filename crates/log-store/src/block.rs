//! A block: some entries in a row, readable without anything around them.
//!
//! A header of fixed size names the file, the place and the sequence numbers; three sections
//! follow, each with its own checksum and compressed on its own, so that a text search need not
//! unpack the fields and a query by unit need not unpack the text:
//!
//! 1. rows: tables of boots, names, shapes and contexts, then one column for each stamp,
//! 2. fields: one column for each field name,
//! 3. text: the values of `MESSAGE`, end to end.
//!
//! Logs and segments are both made of blocks. A block knows nothing of either. Start at
//! `header`; `encode` and `decode` are each other's inverse.

mod columns;
mod decode;
mod encode;
mod header;
#[cfg(test)]
mod tests;

pub use decode::{Block, Row};
pub use encode::{Builder, COMPRESSION_LEVEL};
pub(crate) use header::MAGIC;
pub use header::{BLOCK_HEADER_BYTES, Header, Identity, Kind, SECTIONS, Section, SectionInfo};

/// Most entries of one block.
pub const BLOCK_ENTRIES_MAX: usize = 1 << 16;

/// Largest unpacked section, in bytes: an entry of the largest size and what describes it.
pub const SECTION_RAW_BYTES_MAX: usize = crate::entry::ENTRY_BYTES_MAX + (16 << 20);

/// The field whose values make the text section.
pub const TEXT_FIELD: &[u8] = b"MESSAGE";

//! The fixed ends of a file: its header, and the trailer of a segment.

use crate::block::Identity;
use crate::bytes::Input;
use crate::entry::Id128;
use crate::error::{Damage, Error, Result};

/// Size of a file header, bytes; the first block follows.
pub const FILE_HEADER_BYTES: u64 = 128;

/// Size of a trailer, bytes; the last bytes of a segment.
pub const TRAILER_BYTES: usize = 112;

/// Longest name of a class, bytes.
pub const CLASS_BYTES_MAX: usize = 32;

/// Features without which a file cannot be read rightly: none yet.
const INCOMPATIBLE_KNOWN: u32 = 0;

const LOG_MAGIC: [u8; 8] = *b"WARRENL1";
const SEGMENT_MAGIC: [u8; 8] = *b"WARRENS1";
const TRAILER_MAGIC: [u8; 8] = *b"WARRENT1";

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Written to, block by block.
    Log,
    /// Sealed.
    Segment,
}

/// First bytes of a log or a segment. A file whose header is lost can still be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    /// Log or segment.
    pub kind: FileKind,
    /// Of this file and its store; every block repeats it.
    pub identity: Identity,
    /// The machine that wrote it.
    pub machine: Id128,
    /// The class, padded with zero bytes.
    pub class: [u8; CLASS_BYTES_MAX],
}

impl FileHeader {
    /// A header for a class whose name was checked.
    pub fn new(kind: FileKind, identity: Identity, machine: Id128, class: &str) -> FileHeader {
        let mut padded = [0; CLASS_BYTES_MAX];
        padded.iter_mut().zip(class.bytes()).for_each(|(to, from)| *to = from);
        FileHeader { kind, identity, machine, class: padded }
    }

    /// The header as stored.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(FILE_HEADER_BYTES as usize);
        out.extend_from_slice(match self.kind {
            FileKind::Log => &LOG_MAGIC,
            FileKind::Segment => &SEGMENT_MAGIC,
        });
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&self.identity.file.0);
        out.extend_from_slice(&self.identity.sequence.0);
        out.extend_from_slice(&self.machine.0);
        out.extend_from_slice(&self.class);
        out.resize(FILE_HEADER_BYTES as usize - 4, 0);
        out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
        out
    }

    /// Reads a header. A damaged one is `Ok(None)`: the blocks say the same.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a file with features that this version does not know.
    pub fn parse(bytes: &[u8], name: &str) -> Result<Option<FileHeader>> {
        let Some((body, crc)) = split_checked(bytes, FILE_HEADER_BYTES as usize) else {
            return Ok(None);
        };
        if crc32fast::hash(body) != crc {
            return Ok(None);
        }
        let mut input = Input::new(body);
        let Ok((header, flags)) = FileHeader::parse_body(&mut input) else { return Ok(None) };
        match flags & !INCOMPATIBLE_KNOWN {
            0 => Ok(Some(header)),
            flags => Err(Error::Unsupported { name: name.to_owned(), flags }),
        }
    }

    fn parse_body(input: &mut Input<'_>) -> std::result::Result<(FileHeader, u32), Damage> {
        let kind = match input.array::<8>()? {
            LOG_MAGIC => FileKind::Log,
            SEGMENT_MAGIC => FileKind::Segment,
            _ => return Err(Damage("not a log or segment file")),
        };
        let (incompatible, _compatible) = (input.u32()?, input.u32()?);
        let identity = Identity { file: Id128(input.array()?), sequence: Id128(input.array()?) };
        let (machine, class) = (Id128(input.array()?), input.array()?);
        Ok((FileHeader { kind, identity, machine, class }, incompatible))
    }
}

/// The first `len - 4` bytes and the checksum behind them.
fn split_checked(bytes: &[u8], len: usize) -> Option<(&[u8], u32)> {
    let (body, crc) = bytes.get(..len)?.split_last_chunk::<4>()?;
    Some((body, u32::from_le_bytes(*crc)))
}

/// A compressed and checksummed piece of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Where it begins, bytes from the start of the file.
    pub offset: u64,
    /// Bytes in the file.
    pub stored: u32,
    /// Bytes when unpacked.
    pub raw: u32,
    /// CRC-32 of the stored bytes.
    pub crc: u32,
}

impl Place {
    /// Largest piece when unpacked, bytes.
    pub const RAW_BYTES_MAX: usize = 256 << 20;

    /// Packs a piece for `offset` and appends it.
    pub fn pack(raw: &[u8], offset: u64, out: &mut Vec<u8>) -> Place {
        let packed = zstd::bulk::compress(raw, crate::block::COMPRESSION_LEVEL);
        let packed = packed.expect("zstd takes any bytes, and memory is there");
        out.extend_from_slice(&packed);
        let (stored, crc) = (packed.len() as u32, crc32fast::hash(&packed));
        Place { offset, stored, raw: raw.len() as u32, crc }
    }

    /// Unpacks what was read from the place.
    pub fn unpack(&self, stored: &[u8]) -> std::result::Result<Vec<u8>, Damage> {
        if stored.len() != self.stored as usize || crc32fast::hash(stored) != self.crc {
            return Err(Damage("a piece of the index fails its checksum"));
        }
        if self.raw as usize > Place::RAW_BYTES_MAX {
            return Err(Damage("a piece of the index is longer than allowed"));
        }
        match zstd::bulk::decompress(stored, self.raw as usize) {
            Ok(raw) if raw.len() == self.raw as usize => Ok(raw),
            _ => Err(Damage("a piece of the index cannot be decompressed")),
        }
    }

    /// Appends the place.
    pub fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        for number in [self.stored, self.raw, self.crc] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }

    /// Reads what [`Place::put`] wrote.
    pub fn read(input: &mut Input<'_>) -> std::result::Result<Place, Damage> {
        let offset = input.u64()?;
        Ok(Place { offset, stored: input.u32()?, raw: input.u32()?, crc: input.u32()? })
    }
}

/// Last bytes of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// Of this file and its store.
    pub identity: Identity,
    /// Where the directory is.
    pub directory: Place,
    /// Length of the file, bytes: a trailer in a file of another length is not believed.
    pub file_bytes: u64,
    /// Unpacked bytes of all blocks.
    pub raw_bytes: u64,
}

impl Trailer {
    /// The trailer as stored.
    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(TRAILER_BYTES);
        out.extend_from_slice(&TRAILER_MAGIC);
        out.extend_from_slice(&self.identity.file.0);
        out.extend_from_slice(&self.identity.sequence.0);
        self.directory.put(&mut out);
        out.extend_from_slice(&self.file_bytes.to_le_bytes());
        out.extend_from_slice(&self.raw_bytes.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.resize(TRAILER_BYTES - 4, 0);
        out.extend_from_slice(&crc32fast::hash(&out).to_le_bytes());
        out
    }

    /// Reads the trailer of a file of so many bytes from the end of `bytes`, and the features
    /// that it needs and this version does not know.
    pub fn parse(bytes: &[u8], file_bytes: u64) -> std::result::Result<(Trailer, u32), Damage> {
        let begin = bytes.len().checked_sub(TRAILER_BYTES).ok_or(Damage("no trailer"))?;
        let split = split_checked(&bytes[begin..], TRAILER_BYTES);
        let (body, crc) = split.ok_or(Damage("no trailer"))?;
        let mut input = Input::new(body);
        if input.array::<8>()? != TRAILER_MAGIC {
            return Err(Damage("no trailer"));
        }
        if crc32fast::hash(body) != crc {
            return Err(Damage("the trailer fails its checksum"));
        }
        let trailer = Trailer {
            identity: Identity { file: Id128(input.array()?), sequence: Id128(input.array()?) },
            directory: Place::read(&mut input)?,
            file_bytes: input.u64()?,
            raw_bytes: input.u64()?,
        };
        let unknown = input.u32()? & !INCOMPATIBLE_KNOWN;
        match trailer.file_bytes == file_bytes {
            true => Ok((trailer, unknown)),
            false => Err(Damage("the trailer does not match the length of the file")),
        }
    }
}

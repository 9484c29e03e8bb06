//! A metadata area: a header of one sector, then a ring in which texts follow each other.

use super::label::Area;
use super::{SECTOR_BYTES, checksum};
use crate::bytes::{has, le32, le64};
use crate::read::{Image, ReadError};

/// What the header of an area begins with, after its checksum.
pub const MAGIC: &[u8; 16] = b" LVM2 x[5A%r0N*>";

/// Longest text that is read, in bytes: a group of 1,015 disks has 0.4 MB, one of 40,000 volumes
/// about 20 MB.
pub const TEXT_BYTES_MAX: u64 = 64 << 20;

/// Bit of a location's flags: the text may be stale and must not be used
/// (`pvchange --metadataignore y`).
const FLAG_IGNORED: u32 = 1;

/// What a text is known by without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextKey {
    /// [`checksum`] of the text.
    pub checksum: u32,
    /// Its length in bytes, with the NUL at its end.
    pub bytes: u64,
}

/// Where the committed text of an area is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    /// The area.
    pub area: Area,
    /// First byte of the text, from the start of the area.
    pub offset: u64,
    /// Length and checksum.
    pub key: TextKey,
}

/// What the header of an area says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AreaState {
    /// No text: the PV is in no group, or the group keeps its metadata elsewhere.
    Empty,
    /// There is one, but it may be stale.
    Ignored,
    /// The committed text.
    Text(Location),
}

/// Why an area or its text cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AreaFault {
    /// It does not lie on the device.
    OffDevice,
    /// Its header has another magic, version or place.
    Header,
    /// The checksum of the header is wrong.
    HeaderChecksum,
    /// The text does not lie in the area, or is longer than [`TEXT_BYTES_MAX`].
    Location,
    /// The checksum of the text is wrong.
    TextChecksum,
    /// The device did not answer.
    Read(ReadError),
}

impl From<ReadError> for AreaFault {
    fn from(error: ReadError) -> AreaFault {
        AreaFault::Read(error)
    }
}

/// Reads the header of an area and finds the committed text.
pub fn state(image: &mut Image<'_>, area: Area) -> Result<AreaState, AreaFault> {
    let end = area.offset.checked_add(area.bytes).ok_or(AreaFault::OffDevice)?;
    if end > image.size_bytes() || area.bytes < 2 * SECTOR_BYTES as u64 {
        return Err(AreaFault::OffDevice);
    }
    let mut header = Vec::with_capacity(SECTOR_BYTES);
    image.append(area.offset, SECTOR_BYTES, &mut header)?;
    parse_header(&header, area)
}

fn parse_header(header: &[u8], area: Area) -> Result<AreaState, AreaFault> {
    let summed = header.get(4..SECTOR_BYTES).ok_or(AreaFault::Header)?;
    let right = has(header, 4, MAGIC)
        && le32(header, 20) == Some(1)
        && le64(header, 24) == Some(area.offset)
        && le64(header, 32) == Some(area.bytes);
    if !right {
        return Err(AreaFault::Header);
    }
    if le32(header, 0) != Some(checksum(&[summed])) {
        return Err(AreaFault::HeaderChecksum);
    }
    committed(header, area).ok_or(AreaFault::Location)
}

/// Slot 0 is the committed text; slot 1, a text that is being written, is nobody's business here.
fn committed(header: &[u8], area: Area) -> Option<AreaState> {
    let (offset, bytes) = (le64(header, 40)?, le64(header, 48)?);
    let (checksum, flags) = (le32(header, 56)?, le32(header, 60)?);
    if flags & FLAG_IGNORED != 0 {
        return Some(AreaState::Ignored);
    }
    if offset == 0 || bytes == 0 {
        return Some(AreaState::Empty);
    }
    let ring_bytes = area.bytes - SECTOR_BYTES as u64;
    let fits = offset >= SECTOR_BYTES as u64 && offset < area.bytes;
    if !fits || bytes > ring_bytes.min(TEXT_BYTES_MAX) {
        return None;
    }
    Some(AreaState::Text(Location { area, offset, key: TextKey { checksum, bytes } }))
}

/// Reads a text, in one read or, where it goes round the end of the ring, in two, and checks it.
pub fn read_text(image: &mut Image<'_>, at: Location) -> Result<Vec<u8>, AreaFault> {
    let first = at.key.bytes.min(at.area.bytes - at.offset);
    let mut text = Vec::with_capacity(at.key.bytes as usize);
    image.append(at.area.offset + at.offset, first as usize, &mut text)?;
    if first < at.key.bytes {
        let ring = at.area.offset + SECTOR_BYTES as u64;
        image.append(ring, (at.key.bytes - first) as usize, &mut text)?;
    }
    let whole = text.len() as u64 == at.key.bytes;
    match whole && checksum(&[&text]) == at.key.checksum {
        true => Ok(text),
        false => Err(AreaFault::TextChecksum),
    }
}

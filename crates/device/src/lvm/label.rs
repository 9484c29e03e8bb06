//! The label in one of the first four sectors, and the PV header behind it.

use super::{LvmId, SECTOR_BYTES, checksum};
use crate::bytes::{array, has, le32, le64};

/// Sectors in which a label may stand.
pub const LABEL_SECTORS: usize = 4;

/// Areas of one kind that a header may list: a sector has room for 28.
const AREAS_MAX: usize = 32;

/// What a label begins with.
pub const MAGIC: &[u8; 8] = b"LABELONE";

/// The only kind of label there is.
pub const KIND: &[u8; 8] = b"LVM2 001";

/// Bit of the extension's flags: the PV belongs to a volume group.
pub const FLAG_USED: u32 = 1;

/// A part of the device, in bytes from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Area {
    /// First byte.
    pub offset: u64,
    /// Length; 0 for a data area means up to the end.
    pub bytes: u64,
}

/// What the PV header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PvHeader {
    /// Identifier of the physical volume (PVID).
    pub id: LvmId,
    /// Size in bytes that the device had when the header was written.
    pub device_bytes: u64,
    /// Where extents are.
    pub data_areas: Vec<Area>,
    /// Where metadata is; none is legal (`pvcreate --metadatacopies 0`).
    pub metadata_areas: Vec<Area>,
    /// Version of the extension, 0 without one.
    pub extension_version: u32,
    /// Flags of the extension, see [`FLAG_USED`].
    pub flags: u32,
}

impl PvHeader {
    /// False when the header says that the PV is in no volume group. Only version 2 of the
    /// extension knows; older ones are taken as used.
    pub fn maybe_used(&self) -> bool {
        self.extension_version < 2 || self.flags & FLAG_USED != 0
    }
}

/// Why something that begins like a label is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LabelFault {
    /// The sector number in it is another sector's.
    OtherSector,
    /// Its checksum is wrong.
    Checksum,
    /// It is of another kind than `LVM2 001`.
    Kind,
    /// The header behind it leaves the sector or holds what cannot be.
    Header,
}

/// Looks for a label in the first [`LABEL_SECTORS`] sectors of `head`. The first good one counts;
/// a fault is told only when there is no good one.
pub fn find(head: &[u8]) -> Result<Option<PvHeader>, LabelFault> {
    let mut fault = None;
    for (number, sector) in head.chunks_exact(SECTOR_BYTES).take(LABEL_SECTORS).enumerate() {
        if !has(sector, 0, MAGIC) {
            continue;
        }
        match parse(sector, number as u64) {
            Ok(header) => return Ok(Some(header)),
            Err(f) => fault = fault.or(Some(f)),
        }
    }
    fault.map_or(Ok(None), Err)
}

fn parse(sector: &[u8], number: u64) -> Result<PvHeader, LabelFault> {
    if le64(sector, 8) != Some(number) {
        return Err(LabelFault::OtherSector);
    }
    let summed = sector.get(20..).ok_or(LabelFault::Header)?;
    if le32(sector, 16) != Some(checksum(&[summed])) {
        return Err(LabelFault::Checksum);
    }
    if !has(sector, 24, KIND) {
        return Err(LabelFault::Kind);
    }
    header(sector).ok_or(LabelFault::Header)
}

fn header(sector: &[u8]) -> Option<PvHeader> {
    let mut at = usize::try_from(le32(sector, 20)?).ok()?;
    let id = LvmId::new(array(sector, at)?)?;
    let device_bytes = le64(sector, at.checked_add(32)?)?;
    at += 40;
    let data_areas = areas(sector, &mut at)?;
    let metadata_areas = areas(sector, &mut at)?;
    // Labels of lvm2 before 2.02.99 end here, and what follows is zero.
    let extension_version = le32(sector, at).unwrap_or(0);
    let flags = if extension_version >= 2 { le32(sector, at + 4)? } else { 0 };
    Some(PvHeader { id, device_bytes, data_areas, metadata_areas, extension_version, flags })
}

/// A list of areas that ends with a pair of zeros; leaves `at` behind it.
fn areas(sector: &[u8], at: &mut usize) -> Option<Vec<Area>> {
    let mut out = Vec::new();
    loop {
        let area = Area { offset: le64(sector, *at)?, bytes: le64(sector, *at + 8)? };
        *at += 16;
        if area.offset == 0 && area.bytes == 0 {
            return Some(out);
        }
        if out.len() == AREAS_MAX {
            return None;
        }
        out.push(area);
    }
}

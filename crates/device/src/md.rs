//! Superblocks of Linux software RAID (MD), versions 0.90, 1.0, 1.1 and 1.2; md(4).
//!
//! 1.1 is at the start, 1.2 at 4 KiB, 1.0 near the end, 0.90 in the last aligned 64 KiB. A member
//! whose superblock is at the end looks, at its start, like whatever the array holds: the tail
//! must be asked before the head is believed.

use std::collections::BTreeSet;

use crate::bytes::{array, has, le16, le32, le64, text};
use crate::read::Image;
use crate::uuid::Uuid;

/// What every superblock begins with, in the order of its version.
pub const MAGIC: u32 = 0xa92b_4efc;

/// Bytes of a superblock of either kind, at most.
pub const SUPERBLOCK_BYTES: usize = 4096;

/// Bytes of a version 1 superblock before its table of roles.
const V1_FIXED_BYTES: usize = 256;

/// Roles that fit behind them.
const V1_ROLES_MAX: u32 = ((SUPERBLOCK_BYTES - V1_FIXED_BYTES) / 2) as u32;

/// Where a superblock is and how it is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 0.90: the old layout, at the end.
    V090,
    /// 1.0: at the end.
    V10,
    /// 1.1: at the start.
    V11,
    /// 1.2: 4 KiB from the start.
    V12,
}

impl Version {
    /// As mdadm(8) writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::V090 => "0.90",
            Version::V10 => "1.0",
            Version::V11 => "1.1",
            Version::V12 => "1.2",
        }
    }

    /// Byte at which the superblock of a device of this size begins. `None` when the device is
    /// too small.
    pub fn offset(self, device_bytes: u64) -> Option<u64> {
        let sectors = device_bytes / 512;
        let sector = match self {
            Version::V090 => (sectors & !127).checked_sub(128)?,
            Version::V10 => sectors.checked_sub(16)? & !7,
            Version::V11 => 0,
            Version::V12 => 8,
        };
        Some(sector * 512)
    }
}

/// What a device is in its array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Holds data, at this place.
    Active(u32),
    /// Stands by.
    Spare,
    /// Thrown out.
    Faulty,
    /// The journal of a raid4/5/6.
    Journal,
}

/// A member of an array.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MdMember {
    /// Layout.
    pub version: Version,
    /// Identifier of the array.
    pub array: Uuid,
    /// Name, often with the host before a colon. Version 0.90 has a number for it, which is that of
    /// its node.
    pub name: String,
    /// RAID level; -1 is linear, -4 multipath, -5 faulty, -6 container.
    pub level: i32,
    /// Devices that a whole array has.
    pub raid_disks: u32,
    /// Devices that were at work when this was written: fewer than a whole array has once some were
    /// thrown out, and nobody waits for those.
    pub working: u32,
    /// Counts changes of the array; members that lag behind are out of date.
    pub events: u64,
    /// What this device is in it.
    pub role: Role,
}

impl MdMember {
    /// The level, as mdadm(8) writes it.
    pub fn level_name(&self) -> String {
        match self.level {
            -1 => "linear".to_owned(),
            -4 => "multipath".to_owned(),
            -5 => "faulty".to_owned(),
            -6 => "container".to_owned(),
            level => format!("raid{level}"),
        }
    }
}

/// Why something that begins like a superblock is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MdFault {
    /// The checksum is wrong.
    Checksum,
    /// It was written for another place: of a partition at the end of a disk, or of a device
    /// that has grown or shrunk.
    OtherPlace,
    /// A number in it cannot be.
    Header,
}

/// Looks at the four places. The first good superblock counts, those at the end first; a fault is
/// told only when there is no good one.
pub fn find(image: &Image<'_>) -> Result<Option<MdMember>, (Version, MdFault)> {
    let mut fault = None;
    for version in [Version::V10, Version::V090, Version::V11, Version::V12] {
        let Some(block) = version.offset(image.size_bytes()).and_then(|at| block(image, at)) else {
            continue;
        };
        let found = match version {
            Version::V090 => parse_090(block),
            _ => parse_1(block, version, image.size_bytes()),
        };
        match found {
            Some(Ok(member)) => return Ok(Some(member)),
            Some(Err(f)) => fault = fault.or(Some((version, f))),
            None => {}
        }
    }
    fault.map_or(Ok(None), Err)
}

/// A superblock's bytes, or as many of them as the device has (1.0 may be 8 KiB before the end).
fn block<'a>(image: &Image<'a>, offset: u64) -> Option<&'a [u8]> {
    let left = image.size_bytes().checked_sub(offset)?;
    image.get(offset, left.min(SUPERBLOCK_BYTES as u64) as usize)
}

/// 32-bit words, summed and folded once: `words` yields them with the checksum's own as 0.
fn fold(words: impl Iterator<Item = u32>) -> u32 {
    let sum: u64 = words.map(u64::from).sum();
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

/// The checksum of a version 1 superblock that has `roles` roles; [`crate::image`] needs it, too.
pub fn checksum_1(block: &[u8], roles: u32) -> Option<u32> {
    let used = block.get(..V1_FIXED_BYTES + 2 * roles as usize)?;
    let words = used.chunks_exact(4);
    let odd = le16(words.remainder(), 0).map(u32::from);
    let numbers = words.map(|w| le32(w, 0).expect("chunks of four"));
    let blanked = numbers.enumerate().map(|(i, w)| if i == 216 / 4 { 0 } else { w });
    Some(fold(blanked.chain(odd)))
}

/// The checksum of a version 0.90 superblock, in the host's order.
pub fn checksum_090(block: &[u8]) -> Option<u32> {
    let used = block.get(..SUPERBLOCK_BYTES)?;
    let numbers = (0..SUPERBLOCK_BYTES).step_by(4).map(|at| ne32(used, at).expect("inside"));
    Some(fold(numbers.enumerate().map(|(i, w)| if i == 38 { 0 } else { w })))
}

fn parse_1(block: &[u8], version: Version, size: u64) -> Option<Result<MdMember, MdFault>> {
    if le32(block, 0) != Some(MAGIC) || le32(block, 4) != Some(1) {
        return None;
    }
    Some(check_1(block, version, size).and_then(|()| body_1(block, version).ok_or(MdFault::Header)))
}

fn check_1(block: &[u8], version: Version, size: u64) -> Result<(), MdFault> {
    let roles = le32(block, 220).filter(|&n| n <= V1_ROLES_MAX).ok_or(MdFault::Header)?;
    if le32(block, 216).ok_or(MdFault::Header)?
        != checksum_1(block, roles).ok_or(MdFault::Header)?
    {
        return Err(MdFault::Checksum);
    }
    let place = le64(block, 144).and_then(|sectors| sectors.checked_mul(512));
    match place == version.offset(size) {
        true => Ok(()),
        false => Err(MdFault::OtherPlace),
    }
}

fn body_1(block: &[u8], version: Version) -> Option<MdMember> {
    let number = le32(block, 160)?;
    let in_table = number < le32(block, 220)?;
    let role = if in_table { le16(block, V1_FIXED_BYTES + 2 * number as usize)? } else { 0xffff };
    let raid_disks = le32(block, 92)?;
    let roles = le32(block, 220)? as usize;
    let filled = (0..roles).filter_map(|at| le16(block, V1_FIXED_BYTES + 2 * at).map(u32::from));
    let filled: BTreeSet<u32> = filled.filter(|&place| place < raid_disks).collect();
    Some(MdMember {
        version,
        working: filled.len() as u32,
        array: Uuid(array(block, 16)?),
        name: text(block, 32, 32),
        level: le32(block, 72)? as i32,
        raid_disks,
        events: le64(block, 200)?,
        role: match role {
            0xffff => Role::Spare,
            0xfffe => Role::Faulty,
            0xfffd => Role::Journal,
            place if u32::from(place) < raid_disks => Role::Active(place.into()),
            _ => Role::Spare,
        },
    })
}

fn ne32(block: &[u8], at: usize) -> Option<u32> {
    array(block, at).map(u32::from_ne_bytes)
}

fn parse_090(block: &[u8]) -> Option<Result<MdMember, MdFault>> {
    if !has(block, 0, &MAGIC.to_ne_bytes()) || ne32(block, 4) != Some(0) {
        return None;
    }
    let right = ne32(block, 4 * 38) == checksum_090(block);
    Some(if right { body_090(block).ok_or(MdFault::Header) } else { Err(MdFault::Checksum) })
}

fn body_090(block: &[u8]) -> Option<MdMember> {
    const THIS_DISK: usize = 992;
    const ACTIVE_DISKS: usize = 34;
    const PREFERRED_MINOR: usize = 11;
    let word = |number: usize| ne32(block, 4 * number);
    let (raid_disks, place, state) = (word(10)?, word(THIS_DISK + 3)?, word(THIS_DISK + 4)?);
    let (faulty, in_sync) = (state & 1 != 0, state & 0b110 == 0b110);
    Some(MdMember {
        version: Version::V090,
        working: word(ACTIVE_DISKS)?.min(raid_disks),
        array: uuid_090([word(5)?, word(13)?, word(14)?, word(15)?]),
        name: word(PREFERRED_MINOR)?.to_string(),
        level: word(7)? as i32,
        raid_disks,
        events: events_090(block)?,
        role: match place {
            _ if faulty => Role::Faulty,
            place if in_sync && place < raid_disks => Role::Active(place),
            _ => Role::Spare,
        },
    })
}

/// The counter is one 64-bit number in the host's order.
fn events_090(block: &[u8]) -> Option<u64> {
    array(block, 4 * 39).map(u64::from_ne_bytes)
}

/// As mdadm(8) shows it: each word as a number.
fn uuid_090(words: [u32; 4]) -> Uuid {
    let mut out = [0; 16];
    for (four, word) in out.chunks_exact_mut(4).zip(words) {
        four.copy_from_slice(&word.to_be_bytes());
    }
    Uuid(out)
}

//! What a fuzzer calls: everything that reads bytes from a disk or a socket, with what must hold.
//!
//! `fuzz_target!(|data: &[u8]| warren_device::fuzz::device(data));` is a whole target.

use crate::lvm::{group, text};
use crate::read::Scratch;
use crate::scan::{Content, Scan, scan};
use crate::udev::Record;
use crate::uevent::Uevent;

/// Scans bytes as a device.
///
/// # Panics
/// If two scans of the same bytes differ, if one reads more often than the format needs, or if
/// knowing a text changes anything but that it is not read.
pub fn device(data: &[u8]) {
    let mut scratch = Scratch::default();
    let mut run =
        |known: bool| scan(&data, &mut scratch, &mut |_| known).expect("memory can always be read");
    let first = run(false);
    assert_eq!(first, run(false), "same bytes, same scan");
    let areas = match &first.content {
        Content::Lvm(member) => member.header.metadata_areas.len(),
        _ => 0,
    };
    let far = match &first.content {
        Content::Nothing | Content::Luks(_) => 6,
        _ => 0,
    };
    let bound = 2 + 3 * areas + far;
    assert!(first.reads as usize <= bound, "head, tail, three for each area, six on empty disks");
    let second = run(true);
    assert!(second.reads <= first.reads, "what is known is not read");
    let _ = first.faults.iter().map(ToString::to_string).collect::<String>();
    standings(&first);
}

/// The same as [`device`], once as it is and once with checksums made right wherever a label begins.
pub fn mended_device(data: &[u8]) {
    device(data);
    let mut bytes = data.to_vec();
    for block in bytes.chunks_mut(crate::lvm::SECTOR_BYTES) {
        mend(block);
    }
    if let Some(block) = bytes.get_mut(BTRFS.0..BTRFS.1) {
        let sum = crate::btrfs::checksum(block).to_le_bytes();
        block[..sum.len()].copy_from_slice(&sum);
    }
    if bytes != data {
        device(&bytes);
    }
}

/// Where the superblock of btrfs is.
const BTRFS: (usize, usize) = (64 << 10, (64 << 10) + 4096);

/// Makes the checksums of a sector right, if it is of a kind that has some.
fn mend(block: &mut [u8]) {
    if block.len() < crate::lvm::SECTOR_BYTES {
        return;
    }
    match () {
        () if block.starts_with(b"LABELONE") => {
            let sum = crate::lvm::checksum(&[&block[20..]]).to_le_bytes();
            block[16..20].copy_from_slice(&sum);
        }
        () if block[4..].starts_with(b" LVM2 x[5A%r0N*>") => {
            let sum = crate::lvm::checksum(&[&block[4..]]).to_le_bytes();
            block[..4].copy_from_slice(&sum);
        }
        () if block.starts_with(b"EFI PART") => {
            let length = u32::from_le_bytes([block[12], block[13], block[14], block[15]]) as usize;
            block[16..20].fill(0);
            let summed = &block[..length.min(block.len())];
            let sum = crc32fast::hash(summed).to_le_bytes();
            block[16..20].copy_from_slice(&sum);
        }
        () if block.starts_with(b"\xde\x11\xde\x11") => {
            let sum = crate::firmware::ddf_checksum(block).to_be_bytes();
            block[4..8].copy_from_slice(&sum);
        }
        () => {}
    }
}

/// Every group that was found can be asked how it stands with all, none and half of its members.
fn standings(scan: &Scan) {
    let Content::Lvm(member) = &scan.content else { return };
    for group in member.texts.iter().filter_map(|text| text.group.as_ref()) {
        let all = group.standings(&|_| true);
        let half = group.standings(&|number| number % 2 == 0);
        let none = group.standings(&|_| false);
        let ordered =
            |a: &[group::Standing], b: &[group::Standing]| a.iter().zip(b).all(|(a, b)| a <= b);
        assert!(ordered(&none, &half) && ordered(&half, &all), "a member more never harms");
    }
}

/// Parses bytes as a metadata text.
pub fn metadata(data: &[u8]) {
    let _ = (text::parse(data), group::from_text(data));
}

/// Parses bytes as a datagram of the kernel or of udev, and as a file of udev's database.
///
/// # Panics
/// If an event is let through whose path leads out of `/sys`.
pub fn event(data: &[u8]) {
    if let Ok(event) = Uevent::parse(data) {
        assert!(event.path.starts_with('/') && !event.path.contains("/../"));
        let _ = (event.number(), event.sequence_number(), event.is_block());
        assert!(!matches!(event.name(), "" | "." | ".."));
    }
    let record = Record::parse(&String::from_utf8_lossy(data));
    assert!(record.links.iter().all(|link| !link.starts_with('/')));
}

#[cfg(test)]
mod tests;

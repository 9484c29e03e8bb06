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

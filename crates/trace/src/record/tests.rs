//! What was written is read; what was cut or damaged is read as far as it is whole.

use super::*;
use crate::event::{EVENT_BYTES, NO_UNIT, What};
use proptest::prelude::*;

/// What the page that describes the format says of bytes.
#[test]
fn the_page_about_the_format_tells_of_each_byte() {
    let page = include_str!("../../../../docs/src/design/trace-format.md");
    let tables = page.split("| at | bytes | what |\n|--|--|--|\n").skip(1);
    let ends: Vec<usize> = tables
        .map(|table| {
            let rows = table.lines().take_while(|line| line.starts_with('|'));
            rows.fold(0, |end, row| {
                let number =
                    |at| row.split('|').nth(at).and_then(|cell| cell.trim().parse::<usize>().ok());
                assert_eq!(number(1), Some(end), "{row}");
                end + number(2).expect("how many bytes")
            })
        })
        .collect();
    assert_eq!(ends, [BLOCK_HEADER_BYTES, EVENT_BYTES]);
}

/// A recording with `units` units and `events` events.
fn recording(units: u32, events: u64) -> Recording {
    let name = |id| Unit { id, slice: NO_UNIT, name: format!("unit-{id}.service") };
    let event = |n| Event::new(n, n as u32 % units, NO_UNIT, What::BusQueue { depth: n });
    Recording {
        head: Head {
            subject: Subject::Boot,
            anchor: Anchor { monotonic_us: 1_000, realtime_us: 2_000, boottime_us: 3_000 },
            host: "hare".into(),
            kernel: "6.18.0".into(),
            version: "0.1.0".into(),
        },
        units: (0..units).map(name).collect(),
        reasons: vec![(10, "started by a start job".into()), (60, "é".repeat(127))],
        edges: (1..units).map(|unit| (unit, unit - 1)).collect(),
        events: (0..events).map(event).collect(),
    }
}

/// The file of a recording with so many events in each block.
fn in_blocks_of(events: usize, whole: &Recording) -> Vec<u8> {
    let mut writer = Writer::new(&whole.head);
    writer.units(&whole.units);
    writer.reasons(&whole.reasons);
    writer.edges(&whole.edges);
    whole.events.chunks(events).for_each(|chunk| writer.events(chunk));
    writer.end();
    writer.take()
}

/// Whether `part` has nothing that `whole` has not, in the same order.
fn is_prefix(part: &Recording, whole: &Recording) -> bool {
    whole.head == part.head
        && whole.units.starts_with(&part.units)
        && whole.reasons.starts_with(&part.reasons)
        && whole.edges.starts_with(&part.edges)
        && whole.events.starts_with(&part.events)
}

#[test]
fn a_whole_file_is_read_as_it_was_written() {
    for (units, events) in [(1, 0), (3, 5), (40_000, 100_000)] {
        let whole = recording(units, events);
        assert_eq!(read(&write(&whole)), Ok((whole, Damage::default())));
    }
}

#[test]
fn a_boot_of_32_000_units_fits_into_16_mb() {
    const FILE_BYTES_MAX: usize = 16 << 20;
    let mut boot = recording(32_000, 32_000 * 12);
    boot.edges = (0..32_000 * 5).map(|n| (n, n / 5)).collect();
    let bytes = write(&boot).len();
    assert!(bytes <= FILE_BYTES_MAX, "{bytes} bytes");
}

#[test]
fn a_file_cut_anywhere_keeps_what_is_whole_before_the_cut() {
    let whole = recording(3, 100);
    let bytes = in_blocks_of(10, &whole);
    let mut events_before = 0;
    for length in 0..bytes.len() {
        match read(&bytes[..length]) {
            Err(error) => {
                assert!(matches!(error, ReadError::NotARecording | ReadError::NoHead));
                assert!(length < 100, "unreadable at {length}");
            }
            Ok((part, damage)) => {
                assert!(is_prefix(&part, &whole) && damage.cut, "cut at {length}");
                assert!(part.events.len() >= events_before, "fewer events at {length}");
                events_before = part.events.len();
            }
        }
    }
    assert_eq!(events_before, 100, "the last block of events was whole");
}

#[test]
fn a_flipped_bit_costs_one_block_of_events() {
    let whole = recording(3, 5_000);
    let mut bytes = write(&whole);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    let (part, damage) = read(&bytes).expect("the head is whole");
    assert_eq!(damage, Damage { blocks: 1, ..Damage::default() });
    assert_eq!(part.events.len(), 5_000 - BLOCK_EVENTS_MAX);
}

#[test]
fn pieces_make_the_same_recording() {
    let whole = recording(4, 3_000);
    let mut writer = Writer::new(&whole.head);
    let mut bytes = writer.take();
    for piece in [0..1_500, 1_500..3_000] {
        writer.units(&whole.units);
        writer.events(&whole.events[piece]);
        bytes.extend(writer.take());
        let (part, damage) = read(&bytes).expect("the head is whole");
        assert!(damage.cut && is_prefix(&part, &whole));
    }
    writer.reasons(&whole.reasons);
    writer.edges(&whole.edges);
    writer.end();
    bytes.extend(writer.take());
    assert_eq!(read(&bytes), Ok((whole, Damage::default())));
}

#[test]
fn long_texts_are_cut_at_a_character() {
    let mut whole = recording(1, 0);
    whole.head.host = "é".repeat(200);
    let (read, _) = read(&write(&whole)).expect("whole");
    assert_eq!(read.head.host, "é".repeat(127));
}

#[test]
fn other_files_are_refused() {
    assert_eq!(read(b""), Err(ReadError::NotARecording));
    assert_eq!(read(b"WARRENL1 and more"), Err(ReadError::NotARecording));
    assert_eq!(read(b"WARRENT1"), Err(ReadError::NoHead));
    assert_eq!(read(b"WARRENT2 and more"), Err(ReadError::OtherVersion));
    assert_eq!(read(b"WARRENT"), Err(ReadError::NotARecording));
}

proptest! {
    #[test]
    fn no_damage_makes_events_that_were_not_written(
        hurts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let whole = recording(20, 300);
        let mut bytes = in_blocks_of(50, &whole);
        for (at, byte) in hurts {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok((part, _)) = read(&bytes) {
            prop_assert!(part.events.iter().all(|event| whole.events.contains(event)));
            prop_assert!(part.units.iter().all(|unit| whole.units.contains(unit)));
        }
    }

    #[test]
    fn rubbish_is_survived(rubbish in prop::collection::vec(any::<u8>(), 0..4096)) {
        let mut bytes = write(&recording(2, 10));
        let whole = bytes.len();
        bytes.truncate(whole - 32);
        bytes.extend(rubbish);
        prop_assert!(read(&bytes).is_ok());
    }
}

//! What one program leaves for another in memory or in a file, with checksums that are made right.

use warren_core::persist::run_state;
use warren_trace::analysis::Analysis;
use warren_trace::export::{chrome::chrome, html::html, table::table};
use warren_trace::record;

/// Reads bytes as a state file, and as the frames of one.
///
/// # Panics
/// If it is read beyond its end, or reads otherwise when it is cut where it was read to.
pub fn run_state(data: &[u8]) {
    let _ = run_state::read(data).is_ok();
    let mut file = run_state::header();
    file.extend_from_slice(&frames(data));
    let restored = run_state::read(&file).expect("it begins as a state file does");
    let end = restored.valid_bytes;
    assert!(end <= file.len());
    let again = run_state::read(&file[..end]).expect("it begins as a state file does");
    assert_eq!((again.valid_bytes, again.runs), (end, restored.runs), "the same up to there");
}

/// A frame for each length and payload: two bytes and so many that follow.
fn frames(mut data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    while let Some((length, rest)) = data.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (payload, after) = rest.split_at(length);
        out.extend((length as u32).to_le_bytes());
        out.extend(crc32fast::hash(payload).to_le_bytes());
        out.extend_from_slice(payload);
        data = after;
    }
    out
}

/// Reads bytes as a recording, and as the blocks of one; what is left is drawn.
pub fn recording(data: &[u8]) {
    let _ = record::read(data).is_ok();
    let Ok((recording, _)) = record::read(&blocks(data)) else { return };
    let analysis = Analysis::of(&recording);
    let _ = (html(&analysis).len(), chrome(&analysis).len(), table(&analysis).len());
}

/// A block for each kind, count, length and payload: five bytes and so many that follow.
fn blocks(mut data: &[u8]) -> Vec<u8> {
    let mut out = record::MAGIC.to_vec();
    while let Some(([kind, a, b, c, d], rest)) = data.split_first_chunk::<5>() {
        let count = u32::from(u16::from_le_bytes([*a, *b]));
        let length = usize::from(u16::from_le_bytes([*c, *d])).min(rest.len());
        let (payload, after) = rest.split_at(length);
        let at = out.len();
        out.extend(record::BLOCK_MAGIC);
        for number in [u32::from(*kind), count, length as u32, crc32fast::hash(payload)] {
            out.extend(number.to_le_bytes());
        }
        out.extend(crc32fast::hash(&out[at..]).to_le_bytes());
        out.extend_from_slice(payload);
        data = after;
    }
    out
}

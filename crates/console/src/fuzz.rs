//! What a fuzzer calls: what reads the terminal, with the properties that must hold.

use crate::keys::Reader;

/// Reads bytes as what a terminal sends, at once and one by one.
///
/// # Panics
/// If pieces change what is read, more is read than was sent, or something is waited for for ever.
pub fn keys(data: &[u8]) {
    let read = |piece: usize| {
        let mut reader = Reader::default();
        let mut all = Vec::new();
        data.chunks(piece.max(1)).for_each(|part| all.extend(reader.push(part)));
        all.extend(reader.nothing_follows());
        assert_eq!(reader.patience(), None);
        all
    };
    let whole = read(data.len());
    assert_eq!(whole, read(1), "pieces change nothing");
    assert!(whole.len() <= data.len());
}

//! Values that are compressed. What comes out is bounded, whatever the value says of itself. Pure.

use std::io::Read;

use crate::entry::ENTRY_BYTES_MAX;
use crate::error::Damage;

/// Flags of a data object that say how.
pub const XZ: u8 = 1 << 0;
/// lz4.
pub const LZ4: u8 = 1 << 1;
/// zstd.
pub const ZSTD: u8 = 1 << 2;

/// Most memory for the dictionary of xz, KiB; what a value needs is bounded by its size.
const XZ_MEMORY_KIB_MAX: u32 = 2 * (ENTRY_BYTES_MAX >> 10) as u32;

const TOO_LARGE: Damage = Damage("a value is too large");
const BROKEN: Damage = Damage("a value cannot be decompressed");

/// The payload of a data object with these flags.
pub fn unpack(flags: u8, stored: Vec<u8>) -> Result<Vec<u8>, Damage> {
    match flags & (XZ | LZ4 | ZSTD) {
        0 => Ok(stored),
        XZ => unpack_xz(&stored),
        LZ4 => unpack_lz4(&stored),
        ZSTD => zstd::bulk::decompress(&stored, zstd_bytes(&stored)?).map_err(|_| BROKEN),
        _ => Err(Damage("a value has an unknown compression")),
    }
}

/// How large a value is when it is unpacked, as its frame says, within bounds.
fn zstd_bytes(stored: &[u8]) -> Result<usize, Damage> {
    let said = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
    // A frame need not say it.
    let bytes = said.map_or(Some(ENTRY_BYTES_MAX), |bytes| usize::try_from(bytes).ok());
    bytes.filter(|bytes| *bytes <= ENTRY_BYTES_MAX).ok_or(TOO_LARGE)
}

/// A stream of xz.
fn unpack_xz(stored: &[u8]) -> Result<Vec<u8>, Damage> {
    let reader = lzma_rust2::XzReader::new_mem_limit(stored, false, XZ_MEMORY_KIB_MAX);
    let mut bytes = Vec::new();
    reader.take(ENTRY_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(|_| BROKEN)?;
    if bytes.len() > ENTRY_BYTES_MAX { Err(TOO_LARGE) } else { Ok(bytes) }
}

/// A block of lz4 behind its unpacked size in 64 bits.
fn unpack_lz4(stored: &[u8]) -> Result<Vec<u8>, Damage> {
    /// No byte of lz4 makes more than so many.
    const GROWTH_MAX: u64 = 255;
    let (said, block) = stored.split_first_chunk().ok_or(BROKEN)?;
    let said = u64::from_le_bytes(*said);
    if said > ENTRY_BYTES_MAX as u64 {
        return Err(TOO_LARGE);
    }
    if said > GROWTH_MAX * block.len() as u64 {
        return Err(BROKEN);
    }
    let mut bytes = vec![0; said as usize];
    match lz4_flex::block::decompress_into(block, &mut bytes) {
        Ok(count) if count == bytes.len() => Ok(bytes),
        _ => Err(BROKEN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::fault::Numbers;

    /// `xz --check=none` of [`TEXT`].
    const XZ_OF_TEXT: &[u8] = include_bytes!("text.xz");

    const TEXT: &str = "MESSAGE=a value, a value, a value, a value, and another value\n";

    fn lz4(text: &[u8]) -> Vec<u8> {
        let size = (text.len() as u64).to_le_bytes();
        [&size[..], &lz4_flex::block::compress(text)].concat()
    }

    fn samples() -> [(u8, Vec<u8>); 4] {
        let text = TEXT.as_bytes();
        let zstd = zstd::bulk::compress(text, 1).expect("memory is there");
        [(0, text.to_vec()), (XZ, XZ_OF_TEXT.to_vec()), (LZ4, lz4(text)), (ZSTD, zstd)]
    }

    #[test]
    fn every_kind_comes_back() {
        for (flags, stored) in samples() {
            assert_eq!(unpack(flags, stored), Ok(TEXT.as_bytes().to_vec()), "{flags}");
        }
        assert!(unpack(XZ | LZ4, Vec::new()).is_err());
    }

    #[test]
    fn changed_and_cut_values_do_no_harm() {
        let mut numbers = Numbers(16);
        for (flags, stored) in samples().into_iter().skip(1) {
            for cut in 0..stored.len() {
                // Nothing is nothing, and what xz has behind the text is not needed to unpack it.
                let found = unpack(flags, stored[..cut].to_vec()).unwrap_or_default();
                assert!(found.is_empty() || found == TEXT.as_bytes(), "{flags} {cut}");
            }
            for _ in 0..2000 {
                let mut bytes = stored.clone();
                let at = numbers.below(bytes.len());
                bytes[at] ^= 1 + numbers.below(255) as u8;
                let found = unpack(flags, bytes).unwrap_or_default();
                assert!(found.len() <= ENTRY_BYTES_MAX);
            }
        }
    }

    #[test]
    fn what_unpacks_to_too_much_is_refused() {
        let large = vec![b'a'; ENTRY_BYTES_MAX + 1];
        assert_eq!(unpack(LZ4, lz4(&large)), Err(TOO_LARGE));
        let lies = [&u64::MAX.to_le_bytes()[..], b"x"].concat();
        assert_eq!(unpack(LZ4, lies), Err(TOO_LARGE));
        let lies = [&(ENTRY_BYTES_MAX as u64).to_le_bytes()[..], b"x"].concat();
        assert_eq!(unpack(LZ4, lies), Err(BROKEN), "and nothing is reserved for it");
        // 100 MB of zeros in some kilobytes, packed once and for all.
        assert_eq!(unpack(XZ, include_bytes!("zeros.xz").to_vec()), Err(TOO_LARGE));
    }
}

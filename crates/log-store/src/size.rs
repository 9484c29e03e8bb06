//! Sizes as people write them: bytes with a suffix.
//! What must not be here: how sizes are printed, which each program does as its peer does.
//! Pure: runs on any thread.

/// Bytes, with K, M, G, T, P or E for powers of 1,024.
pub fn parse(text: &str) -> Option<u64> {
    const SUFFIXES: &str = "KMGTPE";
    let last = text.chars().next_back()?;
    let (digits, shift) = match SUFFIXES.find(last) {
        Some(place) => (text.strip_suffix(last)?, 10 * (place as u32 + 1)),
        None => (text, 0),
    };
    digits.trim_end().parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let sizes = [("0", Some(0)), ("5", Some(5)), ("2K", Some(2048)), ("1E", Some(1 << 60))];
        for (text, expected) in sizes {
            assert_eq!(parse(text), expected, "{text}");
        }
        for bad in ["", "K", "-1", "1.5G", "1k", "99E", "1KK"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}

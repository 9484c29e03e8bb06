//! Sizes as people write them: bytes with a suffix.
//! What must not be here: how sizes are printed, which each program does as its peer does.
//! Pure: runs on any thread.

/// Bytes, with K, M, G, T, P or E for powers of 1,024, also with a fraction and in parts, the largest first: `1.5G`,
/// `1G 500M`. Where systemd 252 ends a part was found by asking it.
pub fn parse(text: &str) -> Option<u64> {
    const SUFFIXES: &str = "BKMGTPE";
    let text = text.trim();
    let (mut rest, mut total, mut before) =
        (text.strip_prefix('+').unwrap_or(text), 0u64, SUFFIXES.len());
    loop {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, after) = rest.split_at(rest.len() - rest.trim_start_matches(is_number).len());
        let after = after.trim_start();
        let suffix = after.chars().next();
        let place = suffix.and_then(|suffix| SUFFIXES.find(suffix));
        rest = if place.is_some() { after.get(1..)?.trim_start() } else { after };
        let unit = place.unwrap_or(0);
        // The parts become smaller.
        if unit >= before {
            return None;
        }
        before = unit;
        total = total.checked_add(part(number, 1 << (10 * unit))?)?;
        if rest.is_empty() {
            return Some(total);
        }
    }
}

/// So many of a unit, rounded down to bytes.
fn part(number: &str, unit: u64) -> Option<u64> {
    /// More digits are of no byte.
    const DIGITS_MAX: usize = 18;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let kept = &fraction[..fraction.len().min(DIGITS_MAX)];
    let digits: u128 = if kept.is_empty() { 0 } else { kept.parse().ok()? };
    let more = digits * u128::from(unit) / 10u128.pow(kept.len() as u32);
    whole.checked_add(u64::try_from(more).ok()?)
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
        let parts = [
            ("1.5G", 3 << 29),
            ("1G500M", (1 << 30) + 500 * (1 << 20)),
            ("1G 500M", (1 << 30) + 500 * (1 << 20)),
            (" 2 K", 2048),
            ("5B", 5),
            ("+5", 5),
            ("1.", 1),
            ("1.5", 1),
            ("1K 5B", 1029),
            ("5K5", 5125),
            ("1.9999999999999999999G", 2147483647),
        ];
        for (text, expected) in parts {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for bad in [
            "", "K", "-1", "1k", "99E", "16E", "1KK", "1M1G", "1G1G", "5b", ".5G", "1..5G", "1GB",
            "1e3", "1T.5G",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}

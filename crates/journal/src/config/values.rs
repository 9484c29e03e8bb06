//! Values of settings: text to numbers. Errors say what is wanted.

use crate::show::when;

/// Names of levels, by number; syslog(3).
const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Bytes, with K, M, G, T, P or E for powers of 1,024.
pub fn parse_size(text: &str) -> Option<u64> {
    const SUFFIXES: &str = "KMGTPE";
    let last = text.chars().next_back()?;
    let (digits, shift) = match SUFFIXES.find(last) {
        Some(place) => (text.strip_suffix(last)?, 10 * (place as u32 + 1)),
        None => (text, 0),
    };
    digits.trim_end().parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Bytes.
pub fn size(text: &str) -> Result<u64, &'static str> {
    parse_size(text).ok_or("bytes are wanted, with K, M, G, T, P or E")
}

/// A time span, µs.
pub fn span(text: &str) -> Result<u64, &'static str> {
    when::parse_span(text).ok_or("a time span is wanted")
}

/// A number.
pub fn number(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "a number is wanted")
}

/// Yes or no.
pub fn boolean(text: &str) -> Result<bool, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Ok(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Ok(false),
        _ => Err("yes or no is wanted"),
    }
}

/// A level, by name or number.
pub fn level(text: &str) -> Result<u8, &'static str> {
    let named = LEVELS.iter().position(|name| *name == text).map(|at| at as u8);
    let number = || text.parse().ok().filter(|&level: &u8| usize::from(level) < LEVELS.len());
    named.or_else(number).ok_or("a level is wanted: emerg to debug, or 0 to 7")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_levels() {
        let sizes = [("0", Some(0)), ("5", Some(5)), ("2K", Some(2048)), ("1E", Some(1 << 60))];
        for (text, expected) in sizes {
            assert_eq!(parse_size(text), expected, "{text}");
        }
        for bad in ["", "K", "-1", "1.5G", "1k", "99E", "1KK"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
        assert_eq!([level("err"), level("7")], [Ok(3), Ok(7)]);
        assert!(level("8").is_err() && level("bad").is_err());
        assert_eq!([boolean("Yes"), boolean("off")], [Ok(true), Ok(false)]);
    }
}

//! Values of settings: text to numbers. Errors say what is wanted.

use warren_log_store::time;

/// Names of levels, by number; syslog(3).
const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Bytes.
pub fn size(text: &str) -> Result<u64, &'static str> {
    warren_log_store::size::parse(text).ok_or("expected a size in bytes, with K, M, G, T, P or E")
}

/// A time span, µs.
pub fn span(text: &str) -> Result<u64, &'static str> {
    time::parse_span(text).ok_or("expected a time span")
}

/// A number.
pub fn number(text: &str) -> Result<u64, &'static str> {
    text.parse().map_err(|_| "expected a number")
}

/// Yes or no.
pub fn boolean(text: &str) -> Result<bool, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Ok(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Ok(false),
        _ => Err("expected yes or no"),
    }
}

/// A level, by name or number.
pub fn level(text: &str) -> Result<u8, &'static str> {
    let named = LEVELS.iter().position(|name| *name == text).map(|at| at as u8);
    let number = || text.parse().ok().filter(|&level: &u8| usize::from(level) < LEVELS.len());
    named.or_else(number).ok_or("expected a level: emerg to debug, or 0 to 7")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_booleans() {
        assert_eq!([level("err"), level("7")], [Ok(3), Ok(7)]);
        assert!(level("8").is_err() && level("bad").is_err());
        assert_eq!([boolean("Yes"), boolean("off")], [Ok(true), Ok(false)]);
    }
}

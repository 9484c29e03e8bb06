//! Text as it is printed.

/// The version of the JSON that is printed.
pub(super) const JSON_VERSION: u32 = 2;

/// How long ago a moment was, µs since 1970.
pub(super) fn time(us: u64) -> String {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_micros(us);
    match at.elapsed() {
        Ok(ago) => format!("{} ago", span(ago.as_secs())),
        Err(_) => "in the future".to_owned(),
    }
}

fn span(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Prints it, as far as anybody reads it.
pub(super) fn print(text: &str) {
    // A reader that has seen enough closes the pipe.
    let _ = is_printed(text);
}

/// Prints it; false if the reader of standard output is gone.
pub(super) fn is_printed(text: &str) -> bool {
    use std::io::Write as _;
    std::io::stdout().write_all(text.as_bytes()).is_ok()
}

/// Text of others is not to move a terminal's cursor.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// `1 host`, `3 hosts`
pub(super) fn count_of(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_and_spans_of_time_are_short_and_harmless() {
        assert_eq!(clean("a\x1b[31mb\n"), "a?[31mb?");
        assert_eq!([5, 125, 7_300, 200_000].map(span), ["5 s", "2 min", "2 h", "2 d"]);
    }
}

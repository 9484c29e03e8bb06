//! Text as it is printed.

/// Prints it, as far as anybody reads it.
pub(super) fn print(text: &str) {
    use std::io::Write as _;
    // A reader that has seen enough closes the pipe.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Text of others is not to move a terminal's cursor.
pub(super) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// `1 host`, `3 hosts`
pub(super) fn count_of(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

//! Words about logging (systemd.exec(5), "LogLevelMax="; systemd(1), "--log-target=").

use super::fault::Fault;

/// Levels of syslog(3) by number.
const LEVELS: [&str; 8] = ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// Names of where a manager's messages go, and which of `auto`, `journal`, `console` and `null` each is here.
const TARGETS: [(&str, &str); 6] = [
    ("auto", "auto"),
    ("journal-or-kmsg", "auto"),
    ("journal", "journal"),
    ("console", "console"),
    ("console-prefixed", "console"),
    ("null", "null"),
];

/// A level of syslog(3), by name or number.
pub fn log_level(text: &str) -> Result<u8, Fault> {
    by_name(&LEVELS, text)
}

/// Where a manager's own messages go: `auto`, `journal`, `console` or `null`.
pub fn log_target(text: &str) -> Result<&'static str, Fault> {
    let known = TARGETS.iter().find(|(word, _)| *word == text);
    known.map(|(_, target)| *target).ok_or_else(|| {
        let words: Vec<&str> = TARGETS.iter().map(|(word, _)| *word).collect();
        Fault::new(0, format!("'{text}' is not one of: {}", words.join(", ")))
    })
}

/// The place of a name in a list, or a number of such a place.
pub fn by_name(names: &[&str], text: &str) -> Result<u8, Fault> {
    let number = text.parse().ok().filter(|&n: &usize| n < names.len());
    let found = number.or_else(|| names.iter().position(|n| *n == text));
    let found = found.and_then(|n| u8::try_from(n).ok());
    found.ok_or_else(|| Fault::new(0, format!("'{text}' is not one of: {}", names.join(", "))))
}

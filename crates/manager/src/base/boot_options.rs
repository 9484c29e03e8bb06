//! What the kernel was started with (kernel-command-line(7)).

use std::fs;

/// The kernel's command line, or that of process 1 in a container.
pub(crate) fn command_line() -> String {
    match warren_sys::process::in_container() {
        true => fs::read("/proc/1/cmdline")
            .map(|b| String::from_utf8_lossy(&b).replace('\0', " "))
            .unwrap_or_default(),
        false => warren_sys::text::read("/proc/cmdline").unwrap_or_default(),
    }
}

/// Its words. Double quotes hold together what is between them, and are no part of it.
pub(crate) fn words(command_line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut is_quoted) = (String::new(), false);
    for c in command_line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            c if c.is_ascii_whitespace() && !is_quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// What is said last of an option: nothing behind its name is a yes. Its name may have `-` for `_`
/// (kernel-command-line(7)).
pub(crate) fn said<'w>(words: &'w [String], option: &str) -> Option<Said<'w>> {
    let value = |word: &'w String| {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Said::Value(value)),
            None => (word.as_str(), Said::Name),
        };
        (name.replace('-', "_") == option).then_some(value)
    };
    words.iter().rev().find_map(value)
}

/// What a word of the command line says of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said<'w> {
    /// Its name alone.
    Name,
    /// What stands behind `=`.
    Value(&'w str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        let words = words("quiet  a=\"b c\" \"d=e f\"\tg=\"\" \"h\n");
        assert_eq!(words, ["quiet", "a=b c", "d=e f", "g=", "h\n"]);
    }

    #[test]
    fn the_last_word_counts_and_a_dash_is_an_underscore() {
        let said = |text: &str| format!("{:?}", said(&words(text), "systemd.log_time"));
        assert_eq!(said("quiet systemd.log_times=1 log_time"), "None");
        assert_eq!(said("systemd.log_time=no systemd.log-time"), "Some(Name)");
        assert_eq!(
            said("systemd.log_time systemd.log-time=0 a=systemd.log_time"),
            "Some(Value(\"0\"))"
        );
        assert_eq!(said("systemd.log_time="), "Some(Value(\"\"))");
    }
}

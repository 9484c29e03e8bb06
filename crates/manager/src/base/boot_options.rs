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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_words_together() {
        let words = words("quiet  a=\"b c\" \"d=e f\"\tg=\"\" \"h\n");
        assert_eq!(words, ["quiet", "a=b c", "d=e f", "g=", "h\n"]);
    }
}

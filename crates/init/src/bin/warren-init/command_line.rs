//! Options on the command line of the kernel, or of process 1 of a container.

/// What the kernel, or who made the container, was told.
pub fn asked_for<'t>(command_line: &'t str, option: &str) -> Option<&'t str> {
    let words = command_line.split_ascii_whitespace();
    words.filter_map(|word| word.strip_prefix(option)?.strip_prefix('=')).next_back()
}

/// Whether a switch is on: its name alone is a yes, and the last word counts.
pub fn is_asked_for(command_line: &str, option: &str) -> bool {
    const YES: [&str; 6] = ["1", "yes", "y", "true", "t", "on"];
    let value = |word: &str| match word.strip_prefix(option)? {
        "" => Some(true),
        rest => Some(YES.contains(&&*rest.strip_prefix('=')?.to_ascii_lowercase())),
    };
    command_line.split_ascii_whitespace().filter_map(value).next_back().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_on_by_its_name() {
        for (text, is_on) in [
            ("a", true),
            ("a=YES b", true),
            ("a a=off", false),
            ("a=0 a", true),
            ("aa ba=1", false),
        ] {
            assert_eq!(is_asked_for(text, "a"), is_on, "{text}");
        }
    }
}

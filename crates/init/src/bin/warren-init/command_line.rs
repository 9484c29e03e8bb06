//! Options on the command line of the kernel, or of process 1 of a container.

/// What the kernel, or who made the container, was told.
pub fn asked_for<'t>(command_line: &'t str, option: &str) -> Option<&'t str> {
    let words = command_line.split_ascii_whitespace();
    words.filter_map(|word| word.strip_prefix(option)?.strip_prefix('=')).next_back()
}

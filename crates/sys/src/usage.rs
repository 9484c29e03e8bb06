//! What programs that read their arguments by hand say of themselves, in the form of those that have
//! a parser for it: `--version`, and why arguments were refused.

/// Exit status for arguments that were refused.
pub const EXIT_USAGE: u8 = 2;

/// The words of this program's command line, its name first. What is not UTF-8 in them is replaced: it comes
/// from the kernel's command line, and must not be the end of process 1, which is the end of the machine.
pub fn words() -> impl Iterator<Item = String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned())
}

/// The answer to `--version`.
pub fn version(program: &str) -> String {
    format!("{program} {}\n", env!("CARGO_PKG_VERSION"))
}

/// That nobody knows this argument.
pub fn unexpected(argument: &str) -> String {
    format!("unexpected argument '{argument}' found")
}

/// Why arguments were refused, and how they are written: the first line of `help`.
pub fn refusal(fault: &str, help: &str) -> String {
    let usage = help.lines().next().unwrap_or_default();
    format!("error: {fault}\n\n{usage}\n\nFor more information, try '--help'.\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_the_line_of_usage() {
        let said = refusal(&unexpected("--x"), "Usage: program [OPTION]...\n\n  --y  why\n");
        let expected = "error: unexpected argument '--x' found\n\nUsage: program [OPTION]...\n\n\
                        For more information, try '--help'.\n";
        assert_eq!(said, expected);
    }
}

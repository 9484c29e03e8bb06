//! Tests that cannot run here, which `cargo xtask test` counts.
//! Must not: end the test; the caller returns.
//! Runs on the thread of the test.

use std::fs::OpenOptions;
use std::io::Write;

/// Names the file that [`not_run`] appends to.
pub const NOT_RUN_VARIABLE: &str = "WARREN_NOT_RUN";

/// Says that this test, or the rest of it, does not run, and what it needs: on standard error, past what libtest
/// hides, and as a line `PACKAGE TEST<tab>WHY` in the file that `WARREN_NOT_RUN` names. In a thread that is not
/// the test's own, the file of the caller stands for the test: use [`not_run_of`] there.
///
/// # Panics
/// When that file cannot be written: the test would count as one that ran.
#[track_caller]
pub fn not_run(why: &str) {
    let caller = std::panic::Location::caller().file();
    let thread = std::thread::current();
    not_run_of(thread.name().unwrap_or(caller), why);
}

/// Says the same of a test that is named.
///
/// # Panics
/// When the file cannot be written.
pub fn not_run_of(test: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "NOT RUN: {test}: {why}");
    let Some(path) = std::env::var_os(NOT_RUN_VARIABLE) else { return };
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let file = OpenOptions::new().append(true).create(true).open(path);
    let written = file.and_then(|mut file| file.write_all(line(&package, test, why).as_bytes()));
    written.expect("the list of tests that do not run can be written");
}

/// One line, in one piece: tests of several programs append at a time.
fn line(package: &str, test: &str, why: &str) -> String {
    format!("{package} {test}\t{}\n", why.replace(['\n', '\t'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_several_lines_is_one_line_of_the_list() {
        let line = line("warren-sys", "a::test", "no mkfs:\n\tnot found");
        assert_eq!(line, "warren-sys a::test\tno mkfs:  not found\n");
    }
}

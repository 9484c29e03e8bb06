//! Tests that cannot run here, which `cargo xtask test` counts.
//! Must not: end the test; the caller returns.
//! Runs on the thread of the test.

use std::fs::OpenOptions;
use std::io::Write;

/// Names the file that [`not_run`] appends to.
pub const NOT_RUN_VARIABLE: &str = "WARREN_NOT_RUN";

/// Says that this test, or the rest of it, does not run, and what it needs: on standard error, past what libtest
/// hides, and as a line `PACKAGE TEST<tab>WHY` in the file that `WARREN_NOT_RUN` names.
///
/// # Panics
/// When that file cannot be written: the test would count as one that ran.
#[track_caller]
pub fn not_run(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("of a thread without a name");
    let _ = writeln!(std::io::stderr(), "NOT RUN: {test}: {why}");
    let Some(path) = std::env::var_os(NOT_RUN_VARIABLE) else { return };
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let file = OpenOptions::new().append(true).create(true).open(path);
    // One write: tests of several programs append at a time.
    let line = format!("{package} {test}\t{}\n", why.replace(['\n', '\t'], " "));
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.expect("the list of tests that do not run can be written");
}

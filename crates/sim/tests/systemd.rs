//! Transactions beside those of the installed systemd.

use std::io::Write;
use std::process::Command;

/// How the binary says that there is nothing to compare with.
const NOT_RUN: i32 = 3;

#[test]
fn transactions_are_those_of_systemd_or_differ_for_a_reason_that_is_written_down() {
    let program = env!("CARGO_BIN_EXE_warren-sim");
    let output = Command::new(program).args(["--differential", "100"]).output();
    let output = output.expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(NOT_RUN) {
        // Past the test runner's capture.
        let _ = write!(std::io::stderr(), "{said}");
        return;
    }
    assert!(output.status.success(), "{said}");
}

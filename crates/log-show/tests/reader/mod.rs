//! warren-journalctl for the tests of other packages: cargo builds for a test only the programs of
//! the test's own package.

use std::process::Command;
use std::sync::OnceLock;

/// The reader's path; built when a test asks for it first.
pub fn journalctl() -> &'static str {
    static BUILT: OnceLock<String> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        cargo.args(["build", "--quiet", "--package=warren-log-show", "--bin=warren-journalctl"]);
        if !cfg!(debug_assertions) {
            cargo.arg("--release");
        }
        assert!(cargo.status().is_ok_and(|status| status.success()), "cargo builds the reader");
        let test = std::env::current_exe().expect("the path of this test");
        // target/PROFILE/deps/TEST
        let programs = test.ancestors().nth(2).expect("target/PROFILE");
        programs.join("warren-journalctl").to_str().expect("the path is text").to_owned()
    })
}

//! One target under libFuzzer: `WARREN_FUZZ_TARGET` names it, the rest is libFuzzer's own command line.
#![no_main]

use std::sync::LazyLock;

use warren_fuzz::{TARGETS, Target, memory};

/// Which target this process runs.
static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("WARREN_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("WARREN_FUZZ_TARGET={name} is not a target"))
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| memory::run(&TARGET, data));

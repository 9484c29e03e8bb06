//! What tests with a real manager share.

use std::path::Path;
use std::process::Command;

/// What this machine lacks for a real manager, if anything.
pub fn lacks() -> Option<&'static str> {
    let own = Path::new(env!("CARGO_BIN_EXE_warren"));
    let beside = |name: &str| own.with_file_name(name).exists();
    if !["warren-init", "warren-exec", "warrend"].into_iter().all(beside) {
        return Some("the manager is not built (cargo build --workspace)");
    }
    let probe = Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]).output();
    match warren_sys::process::own_ids().0 == 0 && probe.is_ok_and(|p| p.status.success()) {
        true => None,
        false => Some("it needs root and the right to make namespaces"),
    }
}

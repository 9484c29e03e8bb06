//! What lvm2 itself says on this host, by running it: its settings, and how the host is called in
//! metadata. Nothing here looks at a disk.

use std::process::{Command, Stdio};

use super::config::parse_system_id;

/// Runs `lvm` with these arguments; what it printed, or what went wrong.
pub fn ask(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new("lvm").args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("lvm: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("lvm {}: {}", arguments.join(" "), output.status)),
    }
}

/// This host's name in metadata, lvmsystemid(7); none without lvm2 or when it is told not to have
/// one.
pub fn system_id() -> Option<String> {
    ask(&["systemid"]).ok().and_then(|answer| parse_system_id(&answer))
}

//! Which manager the flags mean, and where its control socket is.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::args::Global;
use crate::client::CallError;
use crate::machine::{self, Machine};
use crate::output::clean;

/// The control socket that the flags name.
pub(crate) fn control_socket(global: &Global) -> Result<PathBuf> {
    if let Some(path) = &global.socket {
        return Ok(path.clone());
    }
    if let Some(name) = &global.machine {
        return Ok(find_machine(name, global)?.control);
    }
    if global.user {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").context("XDG_RUNTIME_DIR is not set")?;
        return Ok(PathBuf::from(runtime).join("warren/control"));
    }
    Ok(PathBuf::from("/run/warren/control"))
}

/// Says whose the machine is if it is not this user's.
pub(crate) fn find_machine(name: &str, global: &Global) -> Result<Machine> {
    let Some(found) = machine::find(name) else {
        if name.parse().is_ok_and(machine::is_closed) {
            bail!(
                "process {name} belongs to another user: only that user and root may connect to that machine"
            );
        }
        bail!("this user runs no nested manager named {name}");
    };
    if let (Some(uid), false) = (found.stranger, global.quiet) {
        complain!("warren: process {} is a machine of user {uid}", found.pid);
    }
    Ok(found)
}

/// A machine that may be entered. Another user's is refused: its programs and libraries are that user's, and a
/// root that enters owns the host's files there.
pub(crate) fn own_machine(name: &str, global: &Global) -> Result<Machine> {
    let machine = find_machine(name, global)?;
    if let Some(uid) = machine.stranger {
        bail!(
            "refusing: commands inside run under the control of user {uid}; run this as that user"
        );
    }
    Ok(machine)
}

/// Says which nested managers there are when the usual one does not answer.
pub(crate) fn with_hint(error: CallError) -> anyhow::Error {
    let names: Vec<String> = machine::all().iter().map(|m| clean(&m.name)).collect();
    let hint = match names.is_empty() {
        true => String::new(),
        false => format!("; nested managers (-M NAME): {}", names.join(", ")),
    };
    anyhow::anyhow!("{error}{hint}")
}

/// The command for a hint to the same manager.
pub(crate) fn command(machine: Option<&str>) -> String {
    machine.map_or_else(|| "warren".to_owned(), |name| format!("warren -M {name}"))
}

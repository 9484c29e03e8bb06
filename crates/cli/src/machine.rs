//! Nested managers, found by their process 1: what `warren run` starts carries its name in its
//! environment. No file on the host says so, and none can be stale.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Environment variable of process 1 with the machine's name.
pub const NAME_VARIABLE: &str = "WARREN_MACHINE";

/// Environment variable of process 1 with the control socket's path inside.
pub const CONTROL_VARIABLE: &str = "WARREN_CONTROL";

/// One nested manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// Its process 1, as seen from here.
    pub pid: i32,
    /// Its control socket, as seen from here.
    pub control: PathBuf,
}

/// All that this user may look into, by pid.
pub fn all() -> Vec<Machine> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    let mut machines: Vec<Machine> = pids.filter_map(of_process).collect();
    machines.sort_by_key(|m| m.pid);
    machines
}

/// The machine of this name or pid.
pub fn find(name: &str) -> Option<Machine> {
    match name.parse::<i32>() {
        Ok(pid) => of_process(pid),
        Err(_) => all().into_iter().find(|m| m.name == name),
    }
}

/// A machine's process 1 is warren-init; its helpers have the same environment, not the name.
fn of_process(pid: i32) -> Option<Machine> {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    if comm.trim_end() != "warren-init" {
        return None;
    }
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let variables = parse_environment(&environment);
    let control = variables.get(CONTROL_VARIABLE)?.trim_start_matches('/').to_owned();
    let control = PathBuf::from(format!("/proc/{pid}/root")).join(control);
    Some(Machine { name: variables.get(NAME_VARIABLE)?.clone(), pid, control })
}

fn parse_environment(bytes: &[u8]) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(bytes);
    let pairs = text.split('\0').filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environments_are_read() {
        let got = parse_environment(b"WARREN_MACHINE=a=b\0rubbish\0X=\0");
        assert_eq!(got.get("WARREN_MACHINE").map(String::as_str), Some("a=b"));
        assert_eq!(got.len(), 2);
    }
}

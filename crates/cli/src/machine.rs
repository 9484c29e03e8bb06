//! Nested managers, found by their process 1: what `warren run` starts carries its name in its
//! environment. No file on the host says so, and none can be stale.
//!
//! Anybody can start a process that claims a name. By name only machines of this user count, one
//! level below this pid namespace and made by `warren run`: the root of a container has root's user
//! id, too. Another user's machine is found by its pid alone, and says whose it is.

use std::collections::BTreeMap;
use std::path::PathBuf;

use warren_sys::process;

/// Environment variable of process 1 with the machine's name.
pub const NAME_VARIABLE: &str = "WARREN_MACHINE";

/// Environment variable of process 1 with the control socket's path inside.
pub const CONTROL_VARIABLE: &str = "WARREN_CONTROL";

/// How the command line of process 1's parent begins.
const PARENT_COMMAND: &[u8] = b"warren\0nest-outer\0";

/// One nested manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Its name, as its process 1 says it: not fit for a terminal.
    pub name: String,
    /// Its process 1, as seen from here.
    pub pid: i32,
    /// Its control socket, as seen from here.
    pub control: PathBuf,
    /// The user it belongs to, if that is not this one.
    pub stranger: Option<u32>,
}

/// This user's, by pid.
pub fn all() -> Vec<Machine> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    let own = pids.filter(|&pid| is_own(pid));
    let mut machines: Vec<Machine> = own.filter_map(of_process).collect();
    machines.sort_by_key(|m| m.pid);
    machines
}

/// This user's machine of this name, or anybody's of this pid.
pub fn find(name: &str) -> Option<Machine> {
    match name.parse::<i32>() {
        Ok(pid) => of_process(pid),
        Err(_) => all().into_iter().find(|m| m.name == name),
    }
}

/// Whether a process may be the first one of a machine that this user may not look into.
pub fn is_closed(pid: i32) -> bool {
    Process::read(pid).is_some_and(|process| {
        process.name == "warren-init" && process.stranger_to(process::own_ids().0).is_some()
    })
}

impl Machine {
    /// Whether its pid has not come to name something else.
    pub fn is_there(&self) -> bool {
        of_process(self.pid).as_ref() == Some(self)
    }
}

/// What `/proc/PID/status` says of a process (proc_pid_status(5)).
#[derive(Debug, PartialEq, Eq)]
struct Process {
    name: String,
    parent: i32,
    /// Real, effective, saved and of file access. The owner of `/proc/PID` is no such word: it is
    /// root for any process that must not be dumped.
    uids: Vec<u32>,
    /// Its number in this pid namespace and in each below, down to its own.
    numbers: Vec<i32>,
}

impl Process {
    fn read(pid: i32) -> Option<Process> {
        Process::parse(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
    }

    fn parse(status: &str) -> Option<Process> {
        let field = |key: &str| {
            let mut lines = status.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(name, _)| *name == key).map(|(_, value)| value.trim())
        };
        Some(Process {
            name: field("Name")?.to_owned(),
            parent: field("PPid")?.parse().ok()?,
            uids: numbers(field("Uid")?)?,
            numbers: numbers(field("NSpid")?)?,
        })
    }

    /// A user who is not `uid` and whose process it is, too.
    fn stranger_to(&self, uid: u32) -> Option<u32> {
        self.uids.iter().copied().find(|other| *other != uid)
    }
}

fn numbers<T: std::str::FromStr>(text: &str) -> Option<Vec<T>> {
    text.split_whitespace().map(|word| word.parse().ok()).collect()
}

fn is_own(pid: i32) -> bool {
    let Some(init) = Process::read(pid).filter(|it| it.name == "warren-init") else { return false };
    let command = std::fs::read(format!("/proc/{}/cmdline", init.parent)).unwrap_or_default();
    let parent = Process::read(init.parent);
    parent.is_some_and(|parent| is_made_here(&init, &parent, &command, process::own_ids().0))
}

/// Whether a `warren run` of this user made this process 1. `command` is its parent's command line.
fn is_made_here(init: &Process, parent: &Process, command: &[u8], uid: u32) -> bool {
    let is_of_user = |process: &Process| process.stranger_to(uid).is_none();
    is_of_user(init)
        && is_of_user(parent)
        && matches!(init.numbers[..], [_, 1])
        && parent.numbers.len() == 1
        && command.starts_with(PARENT_COMMAND)
}

/// A machine's process 1 is warren-init; its helpers have the same environment, not the name.
fn of_process(pid: i32) -> Option<Machine> {
    let process = Process::read(pid).filter(|process| process.name == "warren-init")?;
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let variables = parse_environment(&environment);
    let control = variables.get(CONTROL_VARIABLE)?.trim_start_matches('/').to_owned();
    let control = PathBuf::from(format!("/proc/{pid}/root")).join(control);
    let stranger = process.stranger_to(process::own_ids().0);
    Some(Machine { name: variables.get(NAME_VARIABLE)?.clone(), pid, control, stranger })
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

    fn process(name: &str, uids: [u32; 4], numbers: &[i32]) -> Process {
        Process { name: name.to_owned(), parent: 3, uids: uids.to_vec(), numbers: numbers.to_vec() }
    }

    #[test]
    fn statuses_of_processes_are_read() {
        let status = "Name:\twarren-init\nPPid:\t3\nUid:\t0\t0\t7\t0\nNSpid:\t40\t1\n";
        let read = Process::parse(status).expect("it is whole");
        assert_eq!(read, process("warren-init", [0, 0, 7, 0], &[40, 1]));
        assert_eq!((read.stranger_to(0), read.stranger_to(7)), (Some(7), Some(0)));
        assert_eq!(Process::parse("Name:\tx\nPPid:\t3\nUid:\tx\nNSpid:\t4\n"), None);
    }

    #[test]
    fn a_name_counts_only_if_the_users_own_run_made_the_machine() {
        const COMMAND: &[u8] = b"warren\0nest-outer\0--name\0a\0";
        let check = |uids, numbers: &[i32], parent_uids, levels: &[i32], command, expected| {
            let init = process("warren-init", uids, numbers);
            let parent = process("exe", parent_uids, levels);
            let got = is_made_here(&init, &parent, command, 0);
            assert_eq!(got, expected, "{init:?} {parent:?}");
        };
        check([0; 4], &[40, 1], [0; 4], &[39], COMMAND, true);
        // Another user's, and a program that is set-user-ID.
        check([9; 4], &[40, 1], [0; 4], &[39], COMMAND, false);
        check([9, 0, 0, 0], &[40, 1], [0; 4], &[39], COMMAND, false);
        check([0; 4], &[40, 1], [9; 4], &[39], COMMAND, false);
        // No process 1, process 1 of a container, and what a container's root has started.
        check([0; 4], &[40], [0; 4], &[39], COMMAND, false);
        check([0; 4], &[40, 1], [0; 4], &[39], b"containerd-shim\0", false);
        check([0; 4], &[40, 8, 1], [0; 4], &[39, 7], COMMAND, false);
        check([0; 4], &[40, 1], [0; 4], &[39, 7], COMMAND, false);
    }
}

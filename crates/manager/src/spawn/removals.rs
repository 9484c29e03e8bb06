//! Removes what a run of a service has left in the file system. It owns nothing, decides nothing about units, and
//! runs on the threads of `base::worker_pool`.
//!
//! What a directory holds is a service's user's choice. So a worker looks at a few entries; where there are more,
//! another warrend removes them, whose end is no loss.

use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, parent_id};
use std::path::Path;
use std::process::{Command, Stdio};
use warren_sys::signal::SIGKILL;

use warren_core::model::leftover::{TerminalLeft, Trace};
use warren_sys::removal::{self, ENTRIES_MAX, Removal};
use warren_sys::{ipc, passwd, process, terminal};

use crate::base::say::say;

/// Argument of the other warrend: `--remove-directory=PARENT:PATH`, with the process id of the manager.
pub const REMOVE_DIRECTORY: &str = "--remove-directory";

/// Entries that a worker looks at itself.
const WORKER_ENTRIES_MAX: u64 = 256;

/// Bytes of what the other warrend says.
const REASON_BYTES_MAX: u64 = 16 << 10;

/// Characters of a path in the log: a user may make it as long as he likes.
const PATH_CHARS_MAX: usize = 256;

/// Removes one thing that a run has left, and says what cannot be removed.
pub(crate) fn clear_away(trace: &Trace) {
    let (path, removed) = match trace {
        Trace::File(path) => (path, removal::remove_file(Path::new(path))),
        Trace::Link(path) => (path, removal::remove_link(Path::new(path))),
        Trace::Directory(path) => return clear_directory(path),
        Trace::Terminal(left) => return clear_terminal(left),
        Trace::Ipc(user) => return clear_ipc(user),
    };
    if let Some(e) = removed.err().filter(|e| !e.is_gone()) {
        say!("cannot remove {path}: {}", e.message());
    }
}

fn clear_terminal(left: &TerminalLeft) {
    let path = Path::new(&left.path);
    let clear = terminal::Clear {
        hangup: left.hangup,
        reset: left.reset,
        disallocate: left.disallocate,
        ..terminal::Clear::default()
    };
    // It may be gone, as the line of a modem.
    let _ = terminal::clear(path, clear);
    if left.is_given {
        terminal::take_back(path);
    }
}

/// Removes objects of a user's who is not root. One that nobody knows has none.
fn clear_ipc(user: &str) {
    let database = match passwd::Database::read() {
        Ok(database) => database,
        Err(e) => return say!("cannot remove IPC objects of {user}: {}", e.message()),
    };
    let Some(user) = database.find_user(user).filter(|user| user.uid != 0) else { return };
    for (what, e) in ipc::remove_all_of(user.uid) {
        say!("cannot remove {what} of {}: {}", user.name, e.message());
    }
}

fn clear_directory(path: &str) {
    let why = match removal::remove_directory(Path::new(path), WORKER_ENTRIES_MAX) {
        Ok(Removal::TooMuch) => remove_apart(path),
        other => why_it_stays(other),
    };
    if let Some(why) = why {
        say!("cannot remove all of {path}: {why}");
    }
}

/// Has another process remove the directory, and waits for it. Returns what it says of what stays.
fn remove_apart(path: &str) -> Option<String> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("warrend").arg(format!("{REMOVE_DIRECTORY}={}:{path}", std::process::id()));
    let Ok(mut child) = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() else {
        // Without a process to be had this thread goes on.
        return why_it_stays(removal::remove_directory(Path::new(path), ENTRIES_MAX));
    };
    let mut why = String::new();
    if let Some(said) = &mut child.stdout {
        // Without a reason, the status is one.
        let _ = said.take(REASON_BYTES_MAX).read_to_string(&mut why);
    }
    match child.wait() {
        Ok(status) if status.success() => None,
        Ok(status) if why.is_empty() => Some(format!("the process that removes it: {status}")),
        Ok(_) => Some(why),
        Err(e) => Some(e.to_string()),
    }
}

/// Is the other warrend; returns its exit status.
pub fn remove_for(argument: &str) -> i32 {
    let Some((parent, path)) = argument.split_once(':') else { return 1 };
    // The next manager begins anew, and nothing is to be removed then that a new run has made.
    let is_bound = process::set_parent_death_signal(SIGKILL).is_ok();
    if !is_bound || parent.parse() != Ok(parent_id()) {
        return 1;
    }
    match why_it_stays(removal::remove_directory(Path::new(path), ENTRIES_MAX)) {
        None => 0,
        Some(why) => {
            print!("{why}");
            1
        }
    }
}

fn why_it_stays(removal: warren_sys::Result<Removal>) -> Option<String> {
    let error = match removal {
        Ok(Removal::Done) => return None,
        Ok(Removal::TooMuch) => {
            return Some(format!(
                "more than {ENTRIES_MAX} entries were removed, and there are more"
            ));
        }
        Ok(Removal::Left(e)) | Err(e) => e,
    };
    let why = if error.is_other_mount() {
        "something is mounted there".to_owned()
    } else {
        error.message()
    };
    let path = error.path.unwrap_or_default().to_string_lossy().into_owned();
    let path: String = path.escape_debug().take(PATH_CHARS_MAX).collect();
    Some(format!("{path}: {why}"))
}

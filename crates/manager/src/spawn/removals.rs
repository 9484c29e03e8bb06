//! Removes what a run of a service has left in the file system. It owns nothing, decides nothing about units, and
//! runs on the threads of `base::worker_pool`.
//!
//! What a directory holds is a service's user's choice. So a worker looks at a few entries; where there are more,
//! another warrend removes them, whose end is no loss.

use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::process::{CommandExt as _, parent_id};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use warren_sys::signal::SIGKILL;

use warren_core::features::ephemeral_root;
use warren_core::model::leftover::{TerminalLeft, Trace};
use warren_core::protocol::event::Done;
use warren_sys::removal::{self, ENTRIES_MAX, Removal};
use warren_sys::{fdpass, ipc, passwd, process, terminal};

use crate::base::say::say;

/// Argument of the other warrend: `--remove-directory=PARENT:PATH`, with the process id of the manager.
pub const REMOVE_DIRECTORY: &str = "--remove-directory";

/// Entries that a worker looks at itself.
const WORKER_ENTRIES_MAX: u64 = 256;

/// Bytes of what the other warrend says.
const REASON_BYTES_MAX: u64 = 16 << 10;

/// Characters of a path in the log: a user may make it as long as he likes.
const PATH_CHARS_MAX: usize = 256;

/// Removes what a run has left, and says what cannot be removed.
pub(crate) fn clear_all(traces: &[Trace], limit: Option<Duration>) -> Done {
    let until = limit.map(|limit| Instant::now() + limit);
    for trace in traces {
        if !clear_away(trace, until) {
            let error = "Not all is removed: the time of TimeoutCleanSec= is over.".to_owned();
            say!("{error}");
            return Done::Failed { error };
        }
    }
    Done::Ok
}

/// Removes one thing that a run has left. False: the time was over before it was.
fn clear_away(trace: &Trace, until: Option<Instant>) -> bool {
    let (path, removed) = match trace {
        Trace::File(path) => (path, removal::remove_file(Path::new(path))),
        Trace::Link(path) => (path, removal::remove_link(Path::new(path))),
        Trace::Directory(path) => return clear_directory(path, until),
        Trace::OfEarlierBoots { directory, boot } => return clear_earlier_boots(directory, boot),
        Trace::Terminal(left) => {
            clear_terminal(left);
            return true;
        }
        Trace::Ipc(user) => {
            clear_ipc(user);
            return true;
        }
    };
    if let Some(e) = removed.err().filter(|e| !e.is_gone()) {
        say!("cannot remove {path}: {}", e.message());
    }
    true
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

/// Copies of roots that were left where the machine went down at once.
fn clear_earlier_boots(directory: &str, boot: &str) -> bool {
    let names = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    for name in names.filter(|name| ephemeral_root::is_of_another_boot(name, boot)) {
        clear_directory(&format!("{directory}/{name}"), None);
    }
    true
}

/// Removes a directory with all that is in it. False: the time was over before it was.
fn clear_directory(path: &str, until: Option<Instant>) -> bool {
    if until.is_some_and(|until| until <= Instant::now()) {
        return false;
    }
    let why = match removal::remove_directory(Path::new(path), WORKER_ENTRIES_MAX) {
        Ok(Removal::TooMuch) => match remove_apart(path, until) {
            Apart::Ended(why) => why,
            Apart::TimeOver => return false,
        },
        other => why_it_stays(other),
    };
    if let Some(why) = why {
        say!("cannot remove all of {path}: {why}");
    }
    true
}

/// How another process has removed a directory.
enum Apart {
    /// It has ended, and says this of what stays.
    Ended(Option<String>),
    /// It was ended.
    TimeOver,
}

/// Has another process remove the directory, and waits for it.
fn remove_apart(path: &str, until: Option<Instant>) -> Apart {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("warrend").arg(format!("{REMOVE_DIRECTORY}={}:{path}", std::process::id()));
    let Ok(mut child) = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() else {
        // Without a process to be had this thread goes on.
        return Apart::Ended(why_it_stays(removal::remove_directory(Path::new(path), ENTRIES_MAX)));
    };
    let mut why = String::new();
    if let Some(said) = &mut child.stdout {
        let is_over = |until: Instant| {
            let left = until.saturating_duration_since(Instant::now());
            matches!(fdpass::wait_readable(said.as_fd(), left), Ok(false))
        };
        if until.is_some_and(is_over) {
            // It may have ended by itself meanwhile.
            let _ = child.kill();
            let _ = child.wait();
            return Apart::TimeOver;
        }
        // Without a reason, the status is one.
        let _ = said.take(REASON_BYTES_MAX).read_to_string(&mut why);
    }
    Apart::Ended(match child.wait() {
        Ok(status) if status.success() => None,
        Ok(status) if why.is_empty() => Some(format!("the process that removes it: {status}")),
        Ok(_) => Some(why),
        Err(e) => Some(e.to_string()),
    })
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

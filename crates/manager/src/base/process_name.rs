//! Processes and clients as log lines name them.

use warren_core::protocol::request::Asker;

/// `pid 12 bash`; the number alone where the name cannot be read.
pub(crate) fn process(pid: u32) -> String {
    let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("pid {pid} {}", command.trim()).trim_end().to_owned()
}

/// `root (pid 12 bash)`, or `user 7 from outside` for a client of another pid namespace.
pub(crate) fn client(asker: Asker) -> String {
    let user = match asker.uid {
        0 => "root".to_owned(),
        uid => format!("user {uid}"),
    };
    match asker.pid {
        0 => "the manager".to_owned(),
        Asker::OUTSIDE => format!("{user} from outside"),
        pid => format!("{user} ({})", process(pid)),
    }
}

//! What init keeps of helpers from manager to manager, so that what one could not tell is known to the
//! next manager, too.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

use warren_init::protocol::birth::Birth;

/// By pid.
#[derive(Default)]
pub struct KeptHelpers(pub(super) BTreeMap<i32, KeptHelper>);

/// What is kept of one.
#[derive(Default)]
pub(super) struct KeptHelper {
    /// How far it was with the last spawns.
    pub(super) birth: Option<Birth>,
    /// What it is heard by, and what is heard of processes that it made: see [`super::held`].
    pub(super) socket: Option<OwnedFd>,
}

/// Beginning of the names that init keeps it by.
const KEPT_PREFIX: &str = "helper/";

const MEMORY: &str = "memory";

const SOCKET: &str = "socket";

impl KeptHelpers {
    /// The names by which init keeps the memory and the socket of a helper.
    pub fn names(pid: i32) -> [String; 2] {
        [MEMORY, SOCKET].map(|what| format!("{KEPT_PREFIX}{pid}/{what}"))
    }

    /// Takes what is kept by such a name; else it comes back.
    pub fn take(&mut self, name: String, fd: OwnedFd) -> Option<(String, OwnedFd)> {
        let parsed = name.strip_prefix(KEPT_PREFIX).and_then(|rest| rest.split_once('/'));
        let Some((Ok(pid), what)) = parsed.map(|(pid, what)| (pid.parse(), what)) else {
            return Some((name, fd));
        };
        let kept = self.0.entry(pid).or_default();
        match what {
            MEMORY => kept.birth = Birth::attach(fd.as_fd()).ok(),
            SOCKET => kept.socket = Some(fd),
            _ => return Some((name, fd)),
        }
        None
    }
}

//! Processes that outlived their units: one SIGTERM for all, one grace for all, then SIGKILL.
//!
//! They are found by their cgroups, not by a walk over all processes of the machine. When there is
//! none, which is the rule, nothing is waited for. Some are left alone, by their cgroups too.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use warren_sys::cgroup::Tree;
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::process;

use super::look;
use crate::say;

/// How long those that are left may take to end after SIGTERM, all together.
const GRACE: Duration = Duration::from_secs(5);

/// How long the kernel may take to end them after SIGKILL.
const KILL_WAIT_MAX: Duration = Duration::from_secs(10);

/// Processes that are named.
const NAMED_MAX: usize = 20;

/// Processes may fork while they are asked: the look is repeated so often within the grace.
const LOOKS_MAX: usize = 3;

/// Where Warrener's own processes live.
const OWN_GROUP: &str = "init.scope";

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;

/// What was found and what it came to.
#[derive(Debug, Default)]
pub struct Ended {
    /// Processes that were there.
    pub found: usize,
    /// Processes that SIGTERM did not end.
    pub killed: usize,
}

struct Straggler {
    pid: i32,
    pidfd: OwnedFd,
    group: String,
}

/// Whom to look for.
#[derive(Debug)]
pub struct Hunt {
    /// Cgroups whose processes are left alone.
    pub spared: Vec<String>,
    /// Who does not end by SIGTERM is left, and nobody waits for it
    /// (systemd-soft-reboot.service(8)).
    pub soft: bool,
}

impl Hunt {
    /// Ends every process below `root` that is not Warrener's own and not spared.
    pub fn end_all(&self, root: &Path) -> Ended {
        let tree = match Tree::open(root) {
            Ok(tree) => tree,
            Err(e) => {
                say!("cannot look for processes that are left: {e}");
                return Ended::default();
            }
        };
        let mut ended = Ended::default();
        let end_of_grace = Instant::now() + GRACE;
        for _ in 0..LOOKS_MAX {
            let left = self.stragglers(&tree);
            if left.is_empty() {
                return ended;
            }
            ended.found += left.len();
            name(&left, "left when all units are down");
            for straggler in &left {
                let _ = process::pidfd_signal(straggler.pidfd.as_fd(), SIGTERM);
                let _ = process::pidfd_signal(straggler.pidfd.as_fd(), SIGCONT);
            }
            if self.soft {
                return ended;
            }
            if !wait_for(&left, end_of_grace) {
                break;
            }
        }
        self.kill(&tree, &mut ended);
        ended
    }

    fn kill(&self, tree: &Tree, ended: &mut Ended) {
        let left = self.stragglers(tree);
        if left.is_empty() {
            return;
        }
        ended.killed = left.len();
        name(&left, "to be killed, as SIGTERM was not enough");
        for group in groups(tree).iter().filter(|group| !self.is_over_spared(group)) {
            // The root of the whole hierarchy has no such file; its processes are killed one by one.
            let _ = tree.kill(group);
        }
        for straggler in &left {
            let _ = process::pidfd_signal(straggler.pidfd.as_fd(), SIGKILL);
        }
        if !wait_for(&left, Instant::now() + KILL_WAIT_MAX) {
            name(&self.stragglers(tree), "held by the kernel");
        }
    }

    fn is_over_spared(&self, group: &str) -> bool {
        let mut below = self.spared.iter().filter_map(|spared| spared.strip_prefix(group));
        below.any(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    fn stragglers(&self, tree: &Tree) -> Vec<Straggler> {
        let mut out = stragglers(tree);
        // Looked at afterwards: a child that was made meanwhile is in the second list if in the first.
        let spared = self.spared.iter().filter_map(|group| tree.procs_below(group).ok());
        let spared: BTreeSet<i32> = spared.flatten().collect();
        out.retain(|straggler| !spared.contains(&straggler.pid));
        out
    }
}

/// Whether there may be somebody to be ended. Nothing is looked at that could hold the caller up, as
/// a process's own files could.
pub fn may_be_left(root: &Path) -> bool {
    let Ok(tree) = Tree::open(root) else { return true };
    let is_populated = |group: &String| tree.events(group).map_or(true, |events| events.populated);
    groups(&tree).iter().any(is_populated) || tree.procs("").map_or(true, |pids| !pids.is_empty())
}

/// The groups directly below the root, but Warrener's own.
fn groups(tree: &Tree) -> Vec<String> {
    let all = tree.children("").unwrap_or_default();
    all.into_iter().filter(|group| group != OWN_GROUP).collect()
}

fn stragglers(tree: &Tree) -> Vec<Straggler> {
    // Groups of units that have ended are still there: who is alone in none of them is soon said.
    let is_populated = |group: &String| tree.events(group).map_or(true, |events| events.populated);
    let below = groups(tree).into_iter().filter(is_populated).map(|group| {
        let pids = tree.procs_below(&group).unwrap_or_default();
        (group, pids)
    });
    let at_the_root = (String::new(), tree.procs("").unwrap_or_default());
    let all: Vec<(i32, String)> = below
        .chain(std::iter::once(at_the_root))
        .flat_map(|(group, pids)| pids.into_iter().map(move |pid| (pid, group.clone())))
        .collect();
    let pids: Vec<i32> = all.iter().map(|(pid, _)| *pid).collect();
    let mut to_end = Vec::new();
    look::each(&pids, is_to_be_ended, |_, answer| {
        // Kernel threads have no memory that could be locked: it is a process.
        to_end.push(answer.unwrap_or(true));
        ControlFlow::Continue(())
    });
    let mut out = Vec::new();
    for ((pid, group), _) in all.into_iter().zip(to_end).filter(|(_, is_to_end)| *is_to_end) {
        // Gone meanwhile, else.
        if let Ok(pidfd) = process::pidfd_open(pid) {
            out.push(Straggler { pid, pidfd, group });
        }
    }
    out
}

/// Not process 1, kernel threads, and those that storage depends on and that say so by an `@` at
/// the beginning of their command line (systemd, "Root Storage Daemons").
fn is_to_be_ended(pid: i32) -> bool {
    if pid <= 1 || pid as u32 == std::process::id() {
        return false;
    }
    let first = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default().first().copied();
    first.is_some_and(|byte| byte != b'@')
}

/// True when all are gone; false when the time is over first.
fn wait_for(left: &[Straggler], until: Instant) -> bool {
    let Ok(epoll) = Epoll::new() else { return false };
    let mut alive = 0;
    for (index, straggler) in left.iter().enumerate() {
        alive += usize::from(epoll.add(&straggler.pidfd, index as u64, Interest::READ).is_ok());
    }
    let mut events = Events::with_capacity(64);
    while alive > 0 {
        let time = until.saturating_duration_since(Instant::now());
        // Nothing ready before the time is over: stopped, and waked again.
        if epoll.wait(&mut events, Some(time)).is_err() || time.is_zero() && events.is_empty() {
            return false;
        }
        for event in events.iter() {
            if let Some(straggler) = left.get(event.token as usize) {
                alive -= usize::from(epoll.remove(&straggler.pidfd).is_ok());
            }
        }
    }
    true
}

fn name(left: &[Straggler], what: &str) {
    let named: Vec<String> = left.iter().take(NAMED_MAX).map(describe).collect();
    let more = left.len().saturating_sub(NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let count = match left.len() {
        1 => "1 process".to_owned(),
        count => format!("{count} processes"),
    };
    say!("{count} {what}: {}{more}", named.join(", "));
}

fn describe(straggler: &Straggler) -> String {
    let pid = straggler.pid;
    let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    let path = process::cgroup_path(pid).unwrap_or_else(|_| straggler.group.clone());
    let group = path.rsplit('/').next().unwrap_or_default();
    format!("{} (pid {pid}, {group})", command.trim())
}

//! What units leave behind that is taken away off the loop: automount points always, what sockets were
//! known by where the way there may take a moment, cgroups at the end, when thousands go at once and nobody
//! can want them back, and before that those with many groups below.
//!
//! What may meet an automount point or socket that is still going (a mount, another trap) waits for it, and what begins
//! in a cgroup for that. Last steps are taken when everything has gone ([`Daemon::is_swept`]).

use crate::base::batch_worker::Aside;
use crate::cgroup::tree;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use warren_core::model::ids::UnitId;
use warren_core::protocol::event::Effect;
use warren_sys::cgroup::Tree;
use warren_sys::eventfd::EventFd;
use warren_sys::process;
use warren_unit::UnitName;

/// Processes of one unit that are named, left over or killed.
pub(crate) const NAMED_MAX: usize = 10;

/// It is never unmounted.
pub(crate) const ROOT_MOUNT: &str = "-.mount";

/// A group that is to go.
pub(crate) struct Group {
    pub(crate) tree: Arc<Tree>,
    pub(crate) path: String,
    pub(crate) unit: UnitName,
    pub(crate) invocation: u128,
}

/// What is under way and what waits.
pub struct Sweep {
    pub(crate) groups: Aside<Group>,
    pub(crate) held: Vec<DelayedEffect>,
    /// Groups below which there are many, by the units that they were of, with their paths: a thread removes them.
    pub(crate) cleared: BTreeMap<UnitId, String>,
    /// What is to be begun in one of those.
    pub(crate) held_for_groups: Vec<DelayedEffect>,
}

/// An effect that waits.
pub(crate) struct DelayedEffect {
    pub(crate) effect: Effect,
    /// It was asked for by the last manager already.
    pub(crate) resuming: bool,
}

impl Sweep {
    /// Nothing is under way. The loop is woken through `wake`.
    pub fn new(wake: Arc<EventFd>) -> Sweep {
        Sweep {
            groups: Aside::new("groups", wake, remove),
            held: Vec::new(),
            cleared: BTreeMap::new(),
            held_for_groups: Vec::new(),
        }
    }

    /// This effect waits until all that is to go has gone; it may be one that the
    /// last manager asked for already.
    pub fn hold(&mut self, effect: Effect, resuming: bool) {
        self.held.push(DelayedEffect { effect, resuming });
    }

    /// The effects that wait.
    pub fn held(&self) -> impl Iterator<Item = &Effect> {
        self.held.iter().chain(&self.held_for_groups).map(|held| &held.effect)
    }

    /// Whether a group, by its path, is being removed, or one that it lies in.
    pub fn is_cleared(&self, path: &str) -> bool {
        let is_within = |above: &String| Path::new(path).starts_with(above);
        self.cleared.values().any(is_within)
    }
}

pub(crate) fn remove(all: Vec<Group>) {
    for group in all {
        let left = tree::remove(&group.tree, &group.path);
        name_left_over(&group.unit, group.invocation, &left);
    }
}

/// What `KillMode=` spared, or the kernel holds, is named: nobody looks after it any more.
pub(crate) fn name_left_over(unit: &UnitName, invocation: u128, pids: &[i32]) {
    if pids.is_empty() {
        return;
    }
    let (count, named) = (pids.len(), left_over(pids).join(", "));
    let processes = if count == 1 { "process" } else { "processes" };
    let text = format!("{unit}: {count} leftover {processes}: {named}");
    crate::base::say::warn_named(unit, invocation, &text);
}

/// The first of these processes of a unit that is down, for people.
pub(crate) fn left_over(pids: &[i32]) -> Vec<String> {
    let one = |&pid: &i32| {
        let is_held = process::is_ending(pid as u32);
        let held = if is_held { ", in uninterruptible sleep" } else { "" };
        format!("{} (pid {pid}{held})", command(pid))
    };
    pids.iter().take(NAMED_MAX).map(one).collect()
}

/// The name of a process (proc_pid_comm(5)).
pub(crate) fn command(pid: i32) -> String {
    let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    command.trim().to_owned()
}

//! Processes that outlived their units: one SIGTERM for all, one grace for all, then SIGKILL.
//!
//! They are found by their cgroups, not by a walk over all processes of the machine; where there are no
//! cgroups and the machine is ours, by that walk. When there is none, which is the rule, nothing is waited
//! for. Some are left alone, by their cgroups too.
//!
//! The console names the processes, and a key there ends the wait.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use warren_sys::signal::{SIGCONT, SIGKILL, SIGTERM};

use warren_sys::cgroup::Tree;
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::process;

use crate::base::console::{Console, SKIP};
use crate::base::say::say;
use crate::last_steps::holders::all_pids;
use crate::last_steps::left_over::{LeftOver, LeftoverWait, take_killed};
use crate::last_steps::look;
use crate::last_steps::own::{OWN_GROUP, is_own};
use crate::last_steps::progress::Progress;
use crate::last_steps::report::Wait;

/// How long the kernel may take to end them after SIGKILL.
const KILL_WAIT_MAX: Duration = Duration::from_secs(10);

/// The same of those who were killed before the last steps, and waited for.
const HELD_WAIT_MAX: Duration = Duration::from_secs(1);

/// Processes that are named.
const NAMED_MAX: usize = 20;

/// Processes may fork while they are asked: the look is repeated so often within the grace.
const LOOKS_MAX: usize = 3;

/// Those that are named while they are waited for.
const TOLD_MAX: usize = 3;

/// So far up it is looked who has made a process.
const ANCESTORS_MAX: usize = 64;

/// Of the console, among the places of processes in a list.
const CONSOLE: u64 = u64::MAX;

/// What was found and what it came to.
#[derive(Debug, Default)]
pub struct LeftoverReport {
    /// Processes that were there.
    pub found: usize,
    /// Processes that SIGTERM did not end.
    pub killed: usize,
    /// How they were waited for.
    pub wait: Wait,
}

struct Straggler {
    pid: i32,
    /// It was killed before, by who waited for its end already.
    is_held: bool,
    pidfd: OwnedFd,
    /// None where there are no groups.
    group: Option<PathBuf>,
}

/// What a look at the groups found.
struct Scan {
    left: Vec<Straggler>,
    /// Processes that are left alone.
    kept: BTreeSet<i32>,
}

/// Whom to look for.
#[derive(Debug)]
pub struct Hunt {
    /// Cgroups whose processes are left alone; where there are none, the numbers of such processes.
    pub spared: Vec<String>,
    /// Who does not end by SIGTERM is left, and nobody waits for it
    /// (systemd-soft-reboot.service(8)).
    pub soft: bool,
    /// How long those that are left may take to end after SIGTERM, all together.
    pub grace: Duration,
    /// Where a key ends that.
    pub console: Option<PathBuf>,
    /// Where the manager finds who is waited for.
    pub told: Option<PathBuf>,
}

impl Hunt {
    /// Ends every process that is not Warrener's own and not spared: those below this root of cgroups,
    /// without one all that there are.
    pub fn end_all(&self, root: Option<&Path>) -> LeftoverReport {
        let tree = match root.map(Tree::open).transpose() {
            Ok(tree) => tree,
            Err(e) => {
                say!("cannot look for leftover processes: {e}");
                return LeftoverReport::default();
            }
        };
        let mut ended = LeftoverReport::default();
        ended.wait.from_us = now_us();
        self.end(tree.as_ref(), &mut ended);
        ended.wait.until_us = now_us();
        ended
    }

    fn end(&self, tree: Option<&Tree>, ended: &mut LeftoverReport) {
        let are_gone = self.ask(tree, ended);
        if let Some(path) = &self.told {
            // None is there if nobody was waited for.
            let _ = std::fs::remove_file(path);
            ended.killed += take_killed(path);
        }
        // Who does not end by SIGTERM, or is held by the kernel, is left.
        if !self.soft && !are_gone {
            self.kill(tree, ended);
        }
    }

    /// Asks all to end, and waits for them; whether nobody is left.
    fn ask(&self, tree: Option<&Tree>, ended: &mut LeftoverReport) -> bool {
        let mut grace: Option<Grace> = None;
        for _ in 0..LOOKS_MAX {
            let left = self.look(tree).left;
            if left.is_empty() {
                return true;
            }
            let (held, left): (Vec<_>, Vec<_>) = left.into_iter().partition(|one| one.is_held);
            if left.is_empty() {
                // Nobody to ask.
                ended.found = ended.found.max(held.len());
                break;
            }
            ended.found += left.len();
            name(&left, "still running after all units have stopped");
            for straggler in &left {
                let _ = process::pidfd_signal(straggler.pidfd.as_fd(), SIGTERM);
                let _ = process::pidfd_signal(straggler.pidfd.as_fd(), SIGCONT);
            }
            if self.soft {
                break;
            }
            // A look may take long, where processes do not let themselves be looked at.
            let grace = grace.get_or_insert_with(|| Grace::begin(self));
            self.publish(grace, &left);
            if !wait_for(&left, grace.until, Some(grace)) {
                break;
            }
        }
        false
    }

    /// Says to the manager who is waited for.
    fn publish(&self, grace: &Grace, left: &[Straggler]) {
        let Some(path) = &self.told else { return };
        let us = |at: Instant| now_us().saturating_add_signed(since_now_us(at));
        let processes = left.iter().map(|it| LeftOver::of(it.pid, &it.pidfd)).collect();
        LeftoverWait { from_us: us(grace.began), until_us: us(grace.until), processes }.write(path);
    }

    fn kill(&self, tree: Option<&Tree>, ended: &mut LeftoverReport) {
        let Scan { left, kept } = self.look(tree);
        if left.is_empty() {
            return;
        }
        let held = left.iter().filter(|straggler| straggler.is_held).count();
        let to_kill = left.len() - held;
        ended.killed += to_kill;
        match to_kill {
            0 => name(&left, "killed earlier and still running"),
            _ => name(&left, "did not exit after SIGTERM; killing"),
        }
        let time = if to_kill == 0 { HELD_WAIT_MAX } else { KILL_WAIT_MAX };
        for (tree, group) in
            tree.iter().flat_map(|tree| groups(tree).into_iter().map(move |it| (tree, it)))
        {
            self.kill_group(tree, &group, &kept);
        }
        for straggler in &left {
            let _ = process::pidfd_signal(straggler.pidfd.as_fd(), SIGKILL);
        }
        ended.wait.killed_us = now_us();
        if !wait_for(&left, Instant::now() + time, None) {
            let held = self.look(tree).left;
            name(&held, "in uninterruptible sleep");
            ended.wait.held = held.len();
        }
    }

    /// Kills the group as a whole, so that nobody gets away by forking; of one that holds somebody who
    /// is left alone, those groups below it that do not.
    fn kill_group(&self, tree: &Tree, group: &Path, kept: &BTreeSet<i32>) {
        if self.spared.iter().any(|spared| Path::new(spared) == group) {
            return;
        }
        let holds_kept = || {
            // Not known who is in it: they are killed one by one.
            let pids = tree.procs_below(group);
            pids.map_or(true, |pids| pids.iter().any(|pid| kept.contains(pid)))
        };
        if !self.is_over_spared(group) && !holds_kept() {
            let _ = tree.kill(group);
            return;
        }
        for child in tree.children(group).unwrap_or_default() {
            self.kill_group(tree, &group.join(child), kept);
        }
    }

    fn is_over_spared(&self, group: &Path) -> bool {
        self.spared.iter().any(|spared| Path::new(spared).starts_with(group))
    }

    fn look(&self, tree: Option<&Tree>) -> Scan {
        let Some(tree) = tree else { return look_at(self.all_but_own()) };
        let mut found = look_at(in_groups(tree));
        // Looked at afterwards: a child that was made meanwhile is in the second list if in the first.
        let spared = self.spared.iter().filter_map(|group| tree.procs_below(group).ok());
        let spared: BTreeSet<i32> = spared.flatten().collect();
        found.left.retain(|straggler| !spared.contains(&straggler.pid));
        found.kept.extend(spared);
        found
    }
}

impl Hunt {
    /// All processes of the machine, but Warrener's own and those that are left alone with what they have made.
    fn all_but_own(&self) -> Vec<(i32, Option<PathBuf>)> {
        let spared: BTreeSet<i32> = self.spared.iter().filter_map(|pid| pid.parse().ok()).collect();
        let parent = |&pid: &i32| process::parent(pid).ok().filter(|&parent| parent > 1);
        let is_spared = |pid: i32| {
            let mut line = std::iter::successors(Some(pid), parent).take(ANCESTORS_MAX);
            !spared.is_empty() && line.any(|pid| spared.contains(&pid))
        };
        let all = all_pids().into_iter().filter(|&pid| !is_own(pid) && !is_spared(pid));
        all.map(|pid| (pid, None)).collect()
    }
}

/// Whether there may be somebody to be ended. Nothing is looked at that could hold the caller up, as
/// a process's own files could.
pub fn may_be_left(root: &Path) -> bool {
    let Ok(tree) = Tree::open(root) else { return true };
    let is_populated = |group: &PathBuf| tree.events(group).map_or(true, |events| events.populated);
    groups(&tree).iter().any(is_populated) || tree.procs("").map_or(true, |pids| !pids.is_empty())
}

/// The groups directly below the root, but Warrener's own.
fn groups(tree: &Tree) -> Vec<PathBuf> {
    let all = tree.children("").unwrap_or_default();
    all.into_iter().filter(|group| group != OWN_GROUP).map(PathBuf::from).collect()
}

/// Processes by what the groups below this root say, but Warrener's own.
fn in_groups(tree: &Tree) -> Vec<(i32, Option<PathBuf>)> {
    // Groups of units that have ended are still there: who is alone in none of them is soon said.
    let is_populated = |group: &PathBuf| tree.events(group).map_or(true, |events| events.populated);
    let below = groups(tree).into_iter().filter(is_populated).map(|group| {
        let pids = tree.procs_below(&group).unwrap_or_default();
        (group, pids)
    });
    let at_the_root = (PathBuf::new(), tree.procs("").unwrap_or_default());
    below
        .chain(std::iter::once(at_the_root))
        .flat_map(|(group, pids)| pids.into_iter().map(move |pid| (pid, Some(group.clone()))))
        .collect()
}

fn look_at(all: Vec<(i32, Option<PathBuf>)>) -> Scan {
    let pids: Vec<i32> = all.iter().map(|(pid, _)| *pid).collect();
    let mut to_end = Vec::new();
    look::each(&pids, is_to_be_ended, |_, answer| {
        // Kernel threads have no memory that could be locked: it is a process.
        to_end.push(answer.unwrap_or(true));
        ControlFlow::Continue(())
    });
    let mut found = Scan { left: Vec::new(), kept: BTreeSet::new() };
    for ((pid, group), is_to_end) in all.into_iter().zip(to_end) {
        if !is_to_end {
            found.kept.insert(pid);
        } else if let Ok(pidfd) = process::pidfd_open(pid) {
            let is_held = process::is_ending(pid as u32);
            found.left.push(Straggler { pid, is_held, pidfd, group });
        }
    }
    found
}

/// Not process 1, kernel threads, and those of root's that storage depends on and that say so by an `@` at
/// the beginning of their command line (systemd, "Root Storage Daemons").
fn is_to_be_ended(pid: i32) -> bool {
    const ROOT: u32 = 0;
    if pid <= 1 || pid as u32 == std::process::id() {
        return false;
    }
    // What does not say is no thread of the kernel, and none of root's. What any user's says is his choice, and
    // so is that it says nothing.
    let line = warren_sys::arguments::of(pid, 1);
    line.is_none_or(|line| line.first().is_some_and(|&byte| byte != b'@'))
        || !process::runs_as(pid as u32, ROOT)
}

fn now_us() -> u64 {
    warren_sys::time::monotonic_ns() / 1000
}

/// From now until then, or back to it.
fn since_now_us(at: Instant) -> i64 {
    let now = Instant::now();
    let us = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
    us(at.saturating_duration_since(now)) - us(now.saturating_duration_since(at))
}

/// The time in which those that were asked may end, and what is told of it.
struct Grace {
    began: Instant,
    until: Instant,
    progress: Progress,
    /// Not opened yet.
    path: Option<PathBuf>,
    console: Option<Console>,
}

impl Grace {
    fn begin(hunt: &Hunt) -> Grace {
        let began = Instant::now();
        let (until, progress) = (began + hunt.grace, Progress::new(began));
        Grace { began, until, progress, path: hunt.console.clone(), console: None }
    }

    /// From the first line that names somebody on, a key can answer it.
    fn tell(&mut self, left: &[&Straggler], now: Instant, epoll: &Epoll) {
        if let Some(path) = self.path.take() {
            self.console = Console::open(&path);
            self.watch_console(epoll);
        }
        let named: Vec<String> = left.iter().take(TOLD_MAX).map(|one| describe(one)).collect();
        let more = match left.len().saturating_sub(TOLD_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let so_far = now.saturating_duration_since(self.began).as_secs_f64();
        let time = self.until.saturating_duration_since(now).as_secs_f64();
        let key = match &self.console {
            Some(_) => format!("; press {} twice to skip the wait", char::from(SKIP)),
            None => String::new(),
        };
        say!("waiting for {}{more} ({so_far:.1} s, {time:.1} s left){key}", named.join(", "));
    }

    fn watch_console(&self, epoll: &Epoll) {
        if let Some(console) = &self.console {
            let _ = epoll.add(console.fd(), CONSOLE, Interest::READ);
        }
    }

    /// Whether the key was typed.
    fn is_over(&mut self, epoll: &Epoll) -> bool {
        let typed = self.console.as_mut().map(Console::is_skip_typed);
        if typed == Some(None)
            && let Some(console) = self.console.take()
        {
            let _ = epoll.remove(console.fd());
        }
        let is_over = typed.flatten() == Some(true);
        if is_over {
            say!("not waiting for them any longer");
        }
        is_over
    }
}

/// True when all are gone; false when the time is over first, or somebody at the console says so.
fn wait_for(left: &[Straggler], until: Instant, mut grace: Option<&mut Grace>) -> bool {
    let Ok(epoll) = Epoll::new() else { return false };
    let mut there: BTreeSet<usize> = BTreeSet::new();
    for (index, straggler) in left.iter().enumerate() {
        if epoll.add(&straggler.pidfd, index as u64, Interest::READ).is_ok() {
            there.insert(index);
        }
    }
    grace.iter().for_each(|grace| grace.watch_console(&epoll));
    let mut events = Events::with_capacity(64);
    while !there.is_empty() {
        let due = grace.as_ref().map(|grace| grace.progress.due());
        let next = due.map_or(until, |due| due.min(until));
        let time = next.saturating_duration_since(Instant::now());
        // Nothing ready before the time is over: stopped, and waked again.
        if epoll.wait(&mut events, Some(time)).is_err() {
            return false;
        }
        for event in events.iter() {
            match left.get(event.token as usize) {
                Some(straggler) if epoll.remove(&straggler.pidfd).is_ok() => {
                    there.remove(&(event.token as usize));
                }
                Some(_) => {}
                None if grace.as_mut().is_some_and(|grace| grace.is_over(&epoll)) => return false,
                None => {}
            }
        }
        let now = Instant::now();
        if now >= until && events.is_empty() {
            return false;
        }
        if let Some(grace) = grace.as_mut().filter(|_| !there.is_empty())
            && grace.progress.take_due(now)
        {
            let left: Vec<_> = there.iter().filter_map(|&index| left.get(index)).collect();
            grace.tell(&left, now, &epoll);
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
    let Some(group) = &straggler.group else { return format!("{} (pid {pid})", command.trim()) };
    let known = || group.to_string_lossy().into_owned();
    let path = process::cgroup_path(pid).unwrap_or_else(|_| known());
    let group = path.rsplit('/').next().unwrap_or_default();
    format!("{} (pid {pid}, {group})", command.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command};

    struct Groups(Tree, String);

    impl Groups {
        /// Groups of this test's own; nothing where there can be none.
        fn new(name: &str) -> Option<Groups> {
            let top = Tree::open(warren_sys::cgroup::mount_point().ok()??).ok()?;
            let group = format!("warren-stragglers-{name}-{}", std::process::id());
            top.make(&group).ok()?;
            Some(Groups(top, group))
        }

        /// A process in a group below them, whose command line begins so.
        fn add(&self, group: &str, first: &str) -> Child {
            self.add_of(0, group, first)
        }

        /// The same of a user's.
        fn add_of(&self, uid: u32, group: &str, first: &str) -> Child {
            let mut sleep = Command::new("/bin/sleep");
            let child = sleep.arg0(first).arg("1000").uid(uid).spawn().expect("sleep");
            let group = format!("{}/{group}", self.1);
            self.0.make(&group).expect("groups can be made");
            self.0.attach(&group, child.id() as i32).expect("a child can be moved");
            child
        }
    }

    impl Drop for Groups {
        fn drop(&mut self) {
            let _ = self.0.kill(&self.1);
            let _ = self.0.prune(&self.1);
        }
    }

    #[test]
    fn who_is_left_alone_outlives_the_groups_around_it() {
        let Some(groups) = Groups::new("kept") else {
            return warren_testkit::not_run("needs root and cgroup2");
        };
        let mut kept = [
            groups.add("system.slice/store.service", "@store"),
            groups.add("system.slice/spared.service", "spared"),
            groups.add("machine.slice/box/inner", "@inner"),
        ];
        let mut left = [
            groups.add("system.slice/store.service", "helper"),
            groups.add("system.slice/other.service", "other"),
            groups.add("machine.slice/box", "box"),
            groups.add("user.slice", "user"),
            groups.add_of(12345, "user.slice/session-1.scope", "@user"),
        ];
        let spared = vec!["system.slice/spared.service".to_owned()];
        let hunt = Hunt { spared, soft: false, grace: Duration::ZERO, console: None, told: None };
        let tree = Tree::open(groups.0.path().join(&groups.1)).expect("the groups are there");
        let mut ended = LeftoverReport::default();
        hunt.kill(Some(&tree), &mut ended);
        assert_eq!(ended.killed, left.len());
        for child in &mut left {
            child.wait().expect("our child");
        }
        for child in &mut kept {
            assert!(child.try_wait().expect("our child").is_none(), "it goes on");
            child.kill().and_then(|()| child.wait()).expect("our child");
        }
    }
}

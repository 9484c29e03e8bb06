//! Storage, taken apart: unmounts in parallel by tree, swap, then loop devices and MD arrays, then
//! the root file system read-only and everything written out.
//!
//! [`Plan`] decides, [`run_all`] does: each step is a child process with a bound. Those that take
//! long are told ([`Progress`]).

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::mount::{self, Mount};
use warren_sys::process;

use super::holders::holders;
use super::progress::{self, Progress, UnderWay};
use super::steps::{EXIT_BUSY, Step};
use crate::kernel_mounts::stays;
use crate::say;

/// Steps that run at the same time.
const RUNNING_MAX: usize = 16;

/// How long an unmount may take.
const UNMOUNT_MAX: Duration = Duration::from_secs(10);

/// How long it may take to write or to read back what memory held.
const WRITE_MAX: Duration = Duration::from_secs(60);

/// Loop devices lie on file systems on loop devices: so often the look is repeated.
const ROUNDS_MAX: usize = 4;

/// Takes everything apart; returns how many things could not be.
pub fn take_apart() -> usize {
    let mounts = mount::table().unwrap_or_default();
    let mut progress = Progress::new(Instant::now());
    let mut plan = Plan::of_mounts(&mounts);
    swap_areas().into_iter().for_each(|area| plan.add(Step::SwapOff(area)));
    used_loops().into_iter().for_each(|path| plan.add_loop(path, &mounts));
    let mut failed = run_all(plan, &mut progress);
    for _ in 0..ROUNDS_MAX {
        let mut plan = Plan::default();
        used_loops().into_iter().for_each(|path| plan.add(Step::Loop(path)));
        running_arrays().into_iter().for_each(|path| plan.add(Step::Array(path)));
        if plan.items.is_empty() {
            break;
        }
        let count = plan.items.len();
        let failed_now = run_all(plan, &mut progress);
        if failed_now == count {
            failed += failed_now;
            break;
        }
    }
    let mut plan = Plan::default();
    plan.add(Step::ReadOnly("/".to_owned()));
    failed += run_all(plan, &mut progress);
    let mut plan = Plan::default();
    plan.add(Step::Sync("/".to_owned()));
    failed + run_all(plan, &mut progress)
}

/// Steps in the order that mounts on mounts ask for.
#[derive(Debug, Default)]
pub struct Plan {
    items: Vec<Item>,
    ready: Vec<usize>,
    /// Unmounts of what is in use: a swap file or the file behind a loop device may lie on it, so
    /// they are tried again when another step is over.
    busy: Vec<usize>,
    under_way: usize,
    failed: usize,
}

#[derive(Debug)]
struct Item {
    step: Step,
    /// Steps that must be over first.
    waits_for: usize,
    /// The steps that wait for this one.
    holds_up: Vec<usize>,
}

/// How a step ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was done.
    Done,
    /// Somebody uses it.
    Busy,
    /// It could not be done.
    Failed,
    /// It took longer than it may.
    TooLong,
}

impl Plan {
    /// Unmounts everything but what is needed to the last.
    pub fn of_mounts(mounts: &[Mount]) -> Plan {
        let mut plan = Plan::default();
        let by_id: BTreeMap<u64, &Mount> = mounts.iter().map(|m| (m.id, m)).collect();
        let mut places: BTreeMap<u64, usize> = BTreeMap::new();
        // The table has a mount after the one that it is on.
        for mount in mounts.iter().filter(|m| !stays(&m.mount_point)) {
            let below = nearest_below(mount, &by_id, &places);
            places.insert(mount.id, plan.items.len());
            let step = Step::Unmount(mount.mount_point.clone());
            plan.items.push(Item { step, waits_for: 0, holds_up: Vec::new() });
            if let Some(below) = below {
                plan.wait(below, plan.items.len() - 1);
            }
        }
        plan.ready = (0..plan.items.len()).filter(|&i| plan.items[i].waits_for == 0).collect();
        plan
    }

    /// One more step, which waits for none.
    pub fn add(&mut self, step: Step) {
        self.ready.push(self.items.len());
        self.items.push(Item { step, waits_for: 0, holds_up: Vec::new() });
    }

    /// Detaches a loop device when what is mounted from it is unmounted. The mount that its file
    /// lies on is in use until then.
    fn add_loop(&mut self, path: String, mounts: &[Mount]) {
        let from_it = mounts.iter().filter(|mount| is_on_device(&mount.source, &path));
        let points: Vec<&str> = from_it.map(|mount| mount.mount_point.as_str()).collect();
        let unmounts = |item: &Item| matches!(&item.step, Step::Unmount(point) if points.contains(&point.as_str()));
        let first: Vec<usize> =
            (0..self.items.len()).filter(|&i| unmounts(&self.items[i])).collect();
        let step = Step::Loop(path);
        if first.is_empty() {
            return self.add(step);
        }
        self.items.push(Item { step, waits_for: 0, holds_up: Vec::new() });
        first.into_iter().for_each(|index| self.wait(self.items.len() - 1, index));
    }

    /// One step waits for another.
    fn wait(&mut self, waits: usize, first: usize) {
        self.items[waits].waits_for += 1;
        self.items[first].holds_up.push(waits);
    }

    /// The next step that may begin.
    pub fn next(&mut self) -> Option<(usize, Step)> {
        if self.ready.is_empty() && self.under_way == 0 {
            self.give_up_busy();
        }
        let index = self.ready.pop()?;
        self.under_way += 1;
        Some((index, self.items[index].step.clone()))
    }

    /// Nothing is left that could free what is in use: it is taken out of sight.
    fn give_up_busy(&mut self) {
        for index in std::mem::take(&mut self.busy) {
            let path = self.items[index].step.path().to_owned();
            self.items[index].step = Step::Detach(path);
            self.ready.push(index);
        }
    }

    /// A step is over. What hangs, or is in use to the last, is taken out of sight instead, once.
    pub fn ended(&mut self, index: usize, outcome: Outcome) {
        self.under_way -= 1;
        if outcome == Outcome::Done {
            self.ready.append(&mut self.busy);
        }
        let item = &mut self.items[index];
        match (&item.step, outcome) {
            (Step::Unmount(_), Outcome::Busy) => return self.busy.push(index),
            (Step::Unmount(path), Outcome::TooLong) => {
                item.step = Step::Detach(path.clone());
                return self.ready.push(index);
            }
            _ => {}
        }
        self.failed += usize::from(outcome != Outcome::Done);
        for index in std::mem::take(&mut item.holds_up) {
            let next = &mut self.items[index];
            next.waits_for -= 1;
            if next.waits_for == 0 {
                self.ready.push(index);
            }
        }
    }
}

/// Whether a source of a mount is this device or a partition of it.
fn is_on_device(source: &str, device: &str) -> bool {
    let rest = source.strip_prefix(device);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('p'))
}

/// The mount to go that this one is on, past those that stay.
fn nearest_below(
    mount: &Mount,
    by_id: &BTreeMap<u64, &Mount>,
    places: &BTreeMap<u64, usize>,
) -> Option<usize> {
    let mut at = mount;
    while at.parent != at.id {
        if let Some(&place) = places.get(&at.parent) {
            return Some(place);
        }
        at = by_id.get(&at.parent)?;
    }
    None
}

struct Running {
    index: usize,
    step: Step,
    child: Child,
    pidfd: OwnedFd,
    began: Instant,
    until: Instant,
}

/// Takes all steps of a plan; returns how many failed.
fn run_all(plan: Plan, progress: &mut Progress) -> usize {
    run_each(plan, progress, begin, |line| say!("{line}"))
}

/// The same, where `begin` starts the processes and `say` is told what takes long.
fn run_each(
    mut plan: Plan,
    progress: &mut Progress,
    begin: impl Fn(usize, Step, &Epoll) -> Result<Running, String>,
    mut say: impl FnMut(String),
) -> usize {
    let Ok(epoll) = Epoll::new() else { return plan.items.len() };
    let mut running: Vec<Running> = Vec::new();
    loop {
        while running.len() < RUNNING_MAX
            && let Some((index, step)) = plan.next()
        {
            match begin(index, step, &epoll) {
                Ok(one) => running.push(one),
                Err(text) => {
                    say!("{text}");
                    plan.ended(index, Outcome::Failed);
                }
            }
        }
        let Some(until) = running.iter().map(|one| one.until).min() else { return plan.failed };
        let mut events = Events::with_capacity(RUNNING_MAX);
        let time = until.min(progress.due()).saturating_duration_since(Instant::now());
        if epoll.wait(&mut events, Some(time)).is_err() {
            return plan.failed + running.len();
        }
        let over = |one: &mut Running| outcome(one).map(|outcome| (one.index, outcome));
        let ended: Vec<(usize, Outcome)> = running.iter_mut().filter_map(over).collect();
        for (index, outcome) in ended {
            if let Some(at) = running.iter().position(|one| one.index == index) {
                let one = running.swap_remove(at);
                let _ = epoll.remove(&one.pidfd);
            }
            plan.ended(index, outcome);
        }
        let now = Instant::now();
        if progress.take_due(now)
            && let Some(line) = told(&running, now)
        {
            say(line);
        }
    }
}

/// What is said of the steps that are under way.
fn told(running: &[Running], now: Instant) -> Option<String> {
    let under_way = running.iter().map(|one| UnderWay {
        step: &one.step,
        so_far: now.saturating_duration_since(one.began),
        left: one.until.saturating_duration_since(now),
    });
    progress::line(under_way.collect(), warren_sys::storage::dirty_bytes())
}

fn begin(index: usize, step: Step, epoll: &Epoll) -> Result<Running, String> {
    if let Step::Detach(path) = &step {
        let who = holders(path);
        let who =
            if who.is_empty() { "nobody that can be seen".to_owned() } else { who.join(", ") };
        say!("{path} is in use by {who}");
    }
    let child = Command::new("/proc/self/exe").arg(step.to_command()).spawn();
    child
        .map_err(|e| format!("{}: {e}", step.path()))
        .and_then(|child| watch(index, step, child, epoll))
}

/// A process that takes a step, from its beginning on.
fn watch(index: usize, step: Step, child: Child, epoll: &Epoll) -> Result<Running, String> {
    let text = |e: warren_sys::Error| format!("{}: {e}", step.path());
    let pidfd = process::pidfd_open(child.id() as i32).map_err(text)?;
    epoll.add(&pidfd, index as u64, Interest::READ).map_err(text)?;
    let bound = match step {
        Step::Unmount(_) | Step::Detach(_) | Step::Loop(_) | Step::Array(_) => UNMOUNT_MAX,
        Step::ReadOnly(_) | Step::Sync(_) | Step::SyncAll(_) | Step::SwapOff(_) => WRITE_MAX,
    };
    let began = Instant::now();
    Ok(Running { index, step, child, pidfd, began, until: began + bound })
}

/// How a step ended, if it did or its time is over.
fn outcome(one: &mut Running) -> Option<Outcome> {
    match one.child.try_wait() {
        Ok(Some(status)) if status.success() => Some(Outcome::Done),
        Ok(Some(status)) if status.code() == Some(EXIT_BUSY) => Some(Outcome::Busy),
        Ok(Some(_)) | Err(_) => Some(Outcome::Failed),
        Ok(None) if Instant::now() < one.until => None,
        Ok(None) => {
            say!("{} takes too long and is left behind", one.step.to_argument());
            let _ = one.child.kill();
            Some(Outcome::TooLong)
        }
    }
}

/// Swap areas in use, from proc(5), `/proc/swaps`.
fn swap_areas() -> Vec<String> {
    let text = std::fs::read_to_string("/proc/swaps").unwrap_or_default();
    let areas = text.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    areas.map(|path| path.replace("\\040", " ")).collect()
}

/// Loop devices with a file behind them.
fn used_loops() -> Vec<String> {
    block_devices("loop", |dir| dir.join("loop/backing_file").exists())
}

/// MD arrays that run.
fn running_arrays() -> Vec<String> {
    block_devices("md", |dir| {
        let state = std::fs::read_to_string(dir.join("md/array_state")).unwrap_or_default();
        !matches!(state.trim(), "" | "clear" | "inactive")
    })
}

fn block_devices(prefix: &str, used: impl Fn(&std::path::Path) -> bool) -> Vec<String> {
    let all = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let named = all.filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let mut paths: Vec<String> = named
        .filter(|entry| used(&entry.path()))
        .map(|entry| format!("/dev/{}", entry.file_name().to_string_lossy()))
        .collect();
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// `ID PARENT PATH` a line → the steps in rounds of what may run side by side, where those
    /// named in `ends` do not end well.
    fn check(mounts: &str, ends: &[(&str, Outcome)], want: &str) {
        let parse = |line: &str| {
            let mut words = line.split_whitespace();
            let mut next = || words.next().expect("three words");
            let (id, parent) = (next().parse().expect("a number"), next().parse().expect("one"));
            let mount_point = next().to_owned();
            Mount { id, parent, mount_point, source: String::new(), fstype: String::new() }
        };
        let mounts: Vec<Mount> = mounts.lines().map(parse).collect();
        let mut plan = Plan::of_mounts(&mounts);
        let mut rounds = Vec::new();
        loop {
            let mut round = Vec::new();
            while let Some(next) = plan.next() {
                round.push(next);
            }
            if round.is_empty() {
                break;
            }
            round.sort();
            let names: Vec<String> = round.iter().map(|(_, step)| step.to_argument()).collect();
            for (index, step) in round {
                let argument = step.to_argument();
                let end = ends.iter().find(|(name, _)| *name == argument);
                plan.ended(index, end.map_or(Outcome::Done, |(_, outcome)| *outcome));
            }
            rounds.push(names.join(" "));
        }
        rounds.push(plan.failed.to_string());
        assert_eq!(rounds.join("\n"), want);
    }

    #[test]
    fn mounts_on_mounts_go_first() {
        check(
            "1 1 /\n2 1 /proc\n3 1 /a\n4 3 /a/b\n5 3 /a/c\n6 4 /a/b\n7 1 /devices\n8 1 /dev\n9 8 /dev/shm",
            &[],
            "unmount:/a/c unmount:/a/b unmount:/devices\nunmount:/a/b\nunmount:/a\n0",
        );
    }

    #[test]
    fn what_is_in_use_is_tried_again_when_something_else_is_over() {
        let mut plan = Plan::of_mounts(&[mount(2, "/a", "")]);
        plan.add(Step::SwapOff("/a/swap".to_owned()));
        let (swap, _) = plan.next().expect("the swap area");
        let (mount, _) = plan.next().expect("the mount");
        plan.ended(mount, Outcome::Busy);
        assert_eq!(plan.next(), None);
        plan.ended(swap, Outcome::Done);
        assert_eq!(plan.next(), Some((mount, Step::Unmount("/a".to_owned()))));
        plan.ended(mount, Outcome::Busy);
        assert_eq!(plan.next(), Some((mount, Step::Detach("/a".to_owned()))));
    }

    fn mount(id: u64, point: &str, source: &str) -> Mount {
        let (mount_point, source) = (point.to_owned(), source.to_owned());
        Mount { id, parent: 1, mount_point, source, fstype: String::new() }
    }

    #[test]
    fn a_loop_device_goes_before_the_mount_that_its_file_lies_on() {
        let mounts = [mount(2, "/a", "/dev/vda"), mount(3, "/b", "/dev/loop0p1")];
        let mut plan = Plan::of_mounts(&mounts);
        plan.add_loop("/dev/loop0".to_owned(), &mounts);
        let (b, _) = plan.next().expect("what is on the loop device");
        let (a, _) = plan.next().expect("what its file is on");
        plan.ended(a, Outcome::Busy);
        assert_eq!(plan.next(), None);
        plan.ended(b, Outcome::Done);
        let (detach, step) = plan.next().expect("the loop device");
        assert_eq!(step, Step::Loop("/dev/loop0".to_owned()));
        assert_eq!(plan.next(), Some((a, Step::Unmount("/a".to_owned()))));
        plan.ended(a, Outcome::Busy);
        plan.ended(detach, Outcome::Done);
        assert_eq!(plan.next(), Some((a, Step::Unmount("/a".to_owned()))));
        assert!(!is_on_device("/dev/loop01", "/dev/loop0"));
    }

    #[test]
    fn what_stays_does_not_keep_what_is_below_it_from_going() {
        check("1 1 /\n2 1 /mnt\n3 2 /run\n4 3 /run/x", &[], "unmount:/run/x\nunmount:/mnt\n0");
    }

    #[test]
    fn what_is_in_use_is_detached_and_nothing_waits_for_it() {
        check(
            "1 1 /\n2 1 /a\n3 2 /a/b",
            &[("unmount:/a/b", Outcome::Busy)],
            "unmount:/a/b\ndetach:/a/b\nunmount:/a\n0",
        );
        check(
            "1 1 /\n2 1 /a\n3 2 /a/b",
            &[("unmount:/a/b", Outcome::TooLong), ("detach:/a/b", Outcome::TooLong)],
            "unmount:/a/b\ndetach:/a/b\nunmount:/a\n1",
        );
    }

    #[test]
    fn a_step_that_takes_long_is_told_while_it_is_waited_for() {
        let mut plan = Plan::default();
        plan.add(Step::Sync("/a".to_owned()));
        // Each ends when its input does: when it was told, and by nothing else.
        let input = std::cell::RefCell::new(None);
        let begin = |index, step, epoll: &Epoll| {
            let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat(1)");
            *input.borrow_mut() = child.stdin.take();
            watch(index, step, child, epoll)
        };
        let mut lines = Vec::new();
        // Long enough ago for the first line to be due.
        let mut progress = Progress::new(Instant::now() - UNMOUNT_MAX);
        let failed = run_each(plan, &mut progress, begin, |line| {
            lines.push(line);
            *input.borrow_mut() = None;
        });
        assert_eq!(failed, 0);
        let first = lines.first().expect("it was told");
        assert!(first.starts_with("waiting for sync:/a ("), "{first}");
        assert!(first.ends_with(" MiB to be written"), "{first}");
    }
}

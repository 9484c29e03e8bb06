//! Storage, taken apart: unmounts, swap, loop devices, MD arrays and what the device-mapper made, each
//! as soon as nothing lies on it any more ([`crate::last_steps::stack`]), then what stays read-only, the root last, and
//! everything written out.
//!
//! [`Plan`] decides, [`run_all`] does: each step is a child process with a bound. Those that take
//! long are told ([`Progress`]).

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::mount;
use warren_sys::process;

use crate::base::say::{say, style_arguments};
use crate::last_steps::holders::{are_kept_by_us, holders, writers};
use crate::last_steps::programs;
use crate::last_steps::programs::Programs;
use crate::last_steps::progress;
use crate::last_steps::progress::{Progress, UnderWay};
use crate::last_steps::stack::{Ordered, ROOT, Stack};
use crate::last_steps::steps::{EXIT_BUSY, Step};

/// Steps that run at the same time.
const RUNNING_MAX: usize = 16;

/// How long an unmount may take.
const UNMOUNT_MAX: Duration = Duration::from_secs(10);

/// How long it may take to write or to read back what memory held; again and again, as long as less
/// and less is left to write.
const WRITE_MAX: Duration = Duration::from_secs(60);

/// How long a program of others may run.
const PROGRAM_MAX: Duration = Duration::from_secs(90);

/// Takes everything apart; returns how many things could not be.
pub fn take_apart() -> usize {
    let mut progress = Progress::new(Instant::now());
    let stack = Stack::find(mount::table().unwrap_or_default());
    let mut failed = run_all(Plan::of(stack.steps()), &mut progress);
    let kept = stack.kept();
    let root = Step::ReadOnly(ROOT.to_owned());
    let places = kept.iter().chain([&root]).map(|step| step.path().to_owned()).collect();
    let mut writable = run_all(Plan::side_by_side(kept), &mut progress);
    writable += run_all(Plan::side_by_side([root]), &mut progress);
    if writable > 0 && are_kept_by_us(places, mount_points()) {
        say!("its programs were replaced: process 1 makes it read-only when they have exited");
        writable = 0;
    }
    failed += writable;
    failed + run_all(write_out(), &mut progress)
}

fn mount_points() -> Vec<String> {
    let table = mount::table().unwrap_or_default();
    table.into_iter().map(|mount| mount.mount_point).collect()
}

/// Runs these programs, with all that is written; what they wrote is written as well where the disks are
/// ours. Returns how many there were.
pub fn run_programs(programs: &Programs, writes: bool) -> usize {
    let paths = programs.paths();
    let count = paths.len();
    let steps = paths.iter().map(|path| Step::Program(path.to_string_lossy().into_owned()));
    let mut progress = Progress::new(Instant::now());
    let begin = |index, step: Step, epoll: &Epoll| {
        let child = programs::start(Path::new(step.path()), &programs.word);
        child
            .map_err(|e| format!("{}: {e}", step.path()))
            .and_then(|child| watch(index, step, child, epoll))
    };
    run_each(Plan::side_by_side(steps), &mut progress, begin, |line| say!("{line}"));
    if writes && count > 0 {
        run_all(write_out(), &mut progress);
    }
    count
}

/// What was taken out of sight is written by the second only, which a dead server may hold up.
fn write_out() -> Plan {
    Plan::side_by_side([Step::Sync(ROOT.to_owned()), Step::SyncAll(ROOT.to_owned())])
}

/// Steps in the order that mounts on mounts ask for.
#[derive(Debug, Default)]
pub struct Plan {
    items: Vec<Item>,
    ready: Vec<usize>,
    /// What is in use though nothing lies on it that is known of: tried again when another step is
    /// over and nothing else may begin.
    busy: Vec<usize>,
    /// Mounts that could not be unmounted, which may be covered by a later one: tried again likewise.
    failing: Vec<usize>,
    /// A step is over that may have freed some of it.
    has_freed: bool,
    under_way: usize,
    failed: usize,
    /// Steps that were given up and of which nobody was told yet.
    given_up: Vec<Step>,
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
    /// Steps in this order.
    pub fn of(steps: Vec<Ordered>) -> Plan {
        let mut plan = Plan::default();
        let item = |ordered: &Ordered| Item {
            step: ordered.step.clone(),
            waits_for: 0,
            holds_up: Vec::new(),
        };
        plan.items = steps.iter().map(item).collect();
        for (at, ordered) in steps.iter().enumerate() {
            ordered.after.iter().for_each(|&first| plan.wait(at, first));
        }
        plan.ready = (0..plan.items.len()).filter(|&i| plan.items[i].waits_for == 0).collect();
        plan
    }

    /// Steps of which none waits for another.
    pub fn side_by_side(steps: impl IntoIterator<Item = Step>) -> Plan {
        let alone = |step| Ordered { step, after: BTreeSet::new() };
        Plan::of(steps.into_iter().map(alone).collect())
    }

    /// One step waits for another.
    fn wait(&mut self, waits: usize, first: usize) {
        self.items[waits].waits_for += 1;
        self.items[first].holds_up.push(waits);
    }

    /// The next step that may begin.
    pub fn next(&mut self) -> Option<(usize, Step)> {
        if self.ready.is_empty() && std::mem::take(&mut self.has_freed) {
            self.ready.append(&mut self.busy);
            self.ready.append(&mut self.failing);
        }
        while self.ready.is_empty() && self.under_way == 0 && self.gives_up() {}
        let index = self.ready.pop()?;
        self.under_way += 1;
        Some((index, self.items[index].step.clone()))
    }

    /// Nothing is left that could free anything: what is in use is given up, which may free what could not
    /// be unmounted, then that. False if there is nothing to give up.
    fn gives_up(&mut self) -> bool {
        if !self.busy.is_empty() {
            self.give_up_busy();
            return true;
        }
        let failing = std::mem::take(&mut self.failing);
        self.failed += failing.len();
        failing.iter().for_each(|&index| self.release(index));
        !failing.is_empty()
    }

    /// Mounts are taken out of sight; then, and if there are none, the rest is given up.
    fn give_up_busy(&mut self) {
        let is_mount =
            |plan: &Plan, index: usize| matches!(plan.items[index].step, Step::Unmount(_));
        let busy = std::mem::take(&mut self.busy);
        let (mounts, rest): (Vec<usize>, Vec<usize>) =
            busy.into_iter().partition(|&index| is_mount(self, index));
        if mounts.is_empty() {
            return rest.into_iter().for_each(|index| self.give_up(index));
        }
        for index in mounts {
            let path = self.items[index].step.path().to_owned();
            self.items[index].step = Step::Detach(path);
            self.ready.push(index);
        }
        self.busy = rest;
    }

    /// It failed: what it lies on is tried nevertheless.
    fn give_up(&mut self, index: usize) {
        self.failed += 1;
        self.given_up.push(self.items[index].step.clone());
        self.release(index);
    }

    fn release(&mut self, index: usize) {
        for index in std::mem::take(&mut self.items[index].holds_up) {
            let next = &mut self.items[index];
            next.waits_for -= 1;
            if next.waits_for == 0 {
                self.ready.push(index);
            }
        }
    }

    /// A step is over. What hangs, or is in use to the last, is taken out of sight instead, once.
    pub fn ended(&mut self, index: usize, outcome: Outcome) {
        self.under_way -= 1;
        self.has_freed |= outcome == Outcome::Done;
        let item = &mut self.items[index];
        match (&item.step, outcome) {
            (step, Outcome::Busy) if !matches!(step, Step::Detach(_) | Step::ReadOnly(_)) => {
                return self.busy.push(index);
            }
            (step @ Step::ReadOnly(_), Outcome::Busy) => self.given_up.push(step.clone()),
            (Step::Unmount(_), Outcome::Failed) => return self.failing.push(index),
            (Step::Unmount(path), Outcome::TooLong) => {
                item.step = Step::Detach(path.clone());
                return self.ready.push(index);
            }
            _ => {}
        }
        self.failed += usize::from(outcome != Outcome::Done);
        self.release(index);
    }
}

struct Running {
    index: usize,
    step: Step,
    child: Child,
    pidfd: OwnedFd,
    began: Instant,
    until: Instant,
    /// How much was to be written when its bound was set.
    unwritten: u64,
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
        for step in std::mem::take(&mut plan.given_up) {
            say(match &step {
                Step::ReadOnly(path) => stays_writable(path),
                step => in_use(step.path()),
            });
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
        say!("{}", in_use(path));
    }
    let mut command = Command::new("/proc/self/exe");
    let child = command.args(style_arguments()).arg(step.to_command()).spawn();
    child
        .map_err(|e| format!("{}: {e}", step.path()))
        .and_then(|child| watch(index, step, child, epoll))
}

/// Who holds what could not be had.
fn in_use(path: &str) -> String {
    format!("{path} is in use by {}", named(&holders(path)))
}

/// Who keeps a file system from being made read-only.
fn stays_writable(path: &str) -> String {
    let who = named(&writers(path, mount_points()));
    format!("cannot make {path} read-only: in use by {who}")
}

fn named(who: &[String]) -> String {
    if who.is_empty() { "no visible process".to_owned() } else { who.join(", ") }
}

/// A process that takes a step, from its beginning on.
fn watch(index: usize, step: Step, child: Child, epoll: &Epoll) -> Result<Running, String> {
    let text = |e: warren_sys::Error| format!("{}: {e}", step.path());
    let pidfd = process::pidfd_open(child.id() as i32).map_err(text)?;
    epoll.add(&pidfd, index as u64, Interest::READ).map_err(text)?;
    let began = Instant::now();
    let until = began + time_of(&step);
    let unwritten = warren_sys::storage::dirty_bytes();
    Ok(Running { index, step, child, pidfd, began, until, unwritten })
}

/// How long a step may take.
fn time_of(step: &Step) -> Duration {
    match step {
        Step::Unmount(_) | Step::Detach(_) | Step::Loop(_) | Step::Array(_) | Step::Mapped(_) => {
            UNMOUNT_MAX
        }
        Step::ReadOnly(_) | Step::Sync(_) | Step::SyncAll(_) | Step::SwapOff(_) => WRITE_MAX,
        Step::Program(_) => PROGRAM_MAX,
    }
}

/// Whether a step gets its time again: it writes, and less is left to write than when it got its
/// time last. A disk may be slow; one that does not go on is not waited for.
fn goes_on(step: &Step, unwritten_before: u64, unwritten: u64) -> bool {
    let writes = matches!(
        step,
        Step::Unmount(_) | Step::Detach(_) | Step::ReadOnly(_) | Step::Sync(_) | Step::SyncAll(_)
    );
    writes && unwritten < unwritten_before
}

/// How a step ended, if it did or its time is over.
fn outcome(one: &mut Running) -> Option<Outcome> {
    match one.child.try_wait() {
        Ok(Some(status)) if status.success() => Some(Outcome::Done),
        Ok(Some(status)) if matches!(one.step, Step::Program(_)) => {
            say!("{} failed: {status}", one.step.path());
            Some(Outcome::Failed)
        }
        Ok(Some(status)) if status.code() == Some(EXIT_BUSY) => Some(Outcome::Busy),
        Ok(Some(_)) | Err(_) => Some(Outcome::Failed),
        Ok(None) if Instant::now() < one.until => None,
        Ok(None) => {
            let unwritten = warren_sys::storage::dirty_bytes();
            if goes_on(&one.step, one.unwritten, unwritten) {
                (one.unwritten, one.until) = (unwritten, Instant::now() + time_of(&one.step));
                return None;
            }
            say!("{} takes too long: leaving it running", one.step.to_argument());
            match one.step {
                Step::Program(_) => programs::kill(&one.child),
                _ => _ = one.child.kill(),
            }
            Some(Outcome::TooLong)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// `STEP [POSITION...]` a line: what is to be done, after which of the lines.
    fn plan(steps: &str) -> Plan {
        let ordered = |line: &str| {
            let mut words = line.split(' ');
            let step = words.next().and_then(Step::parse).expect("a step");
            let after = words.map(|word| word.parse().expect("a number")).collect();
            Ordered { step, after }
        };
        Plan::of(steps.lines().map(ordered).collect())
    }

    /// Steps as for [`plan`] → what is done in rounds of what may run side by side, where those
    /// named in `ends` do not end well.
    fn check(steps: &str, ends: &[(&str, Outcome)], want: &str) {
        let mut plan = plan(steps);
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
    fn what_is_in_use_is_tried_again_when_something_else_is_over() {
        let mut plan = plan("unmount:/a\nswapoff:/a/swap");
        let (swap, _) = plan.next().expect("the swap area");
        let (mount, _) = plan.next().expect("the mount");
        plan.ended(mount, Outcome::Busy);
        assert_eq!(plan.next(), None);
        plan.ended(swap, Outcome::Done);
        assert_eq!(plan.next(), Some((mount, Step::Unmount("/a".to_owned()))));
        plan.ended(mount, Outcome::Busy);
        assert_eq!(plan.next(), Some((mount, Step::Detach("/a".to_owned()))));
    }

    #[test]
    fn what_is_in_use_is_tried_again_when_all_others_have_had_their_turn() {
        let mut plan = plan("unmount:/a\nunmount:/b\nunmount:/c\nunmount:/d");
        let mut tries = Vec::new();
        while let Some((index, step)) = plan.next() {
            let is_busy = step.path() == "/d" && tries.len() < 4;
            tries.push(step.path().to_owned());
            plan.ended(index, if is_busy { Outcome::Busy } else { Outcome::Done });
        }
        assert_eq!(tries, ["/d", "/c", "/b", "/a", "/d"]);
    }

    #[test]
    fn what_is_in_use_is_detached_and_nothing_waits_for_it() {
        let steps = "unmount:/a 1\nunmount:/a/b";
        check(
            steps,
            &[("unmount:/a/b", Outcome::Busy)],
            "unmount:/a/b\ndetach:/a/b\nunmount:/a\n0",
        );
        check(
            steps,
            &[("unmount:/a/b", Outcome::TooLong), ("detach:/a/b", Outcome::TooLong)],
            "unmount:/a/b\ndetach:/a/b\nunmount:/a\n1",
        );
    }

    #[test]
    fn what_another_mount_covers_is_tried_again_when_that_is_gone() {
        let mut plan = plan("unmount:/mnt/a\nunmount:/mnt\nloop:/dev/loop0 0");
        let (_, upper) = plan.next().expect("what covers");
        let (covered, _) = plan.next().expect("what is covered");
        assert_eq!(upper, Step::Unmount("/mnt".to_owned()));
        plan.ended(covered, Outcome::Failed);
        assert_eq!(plan.next(), None, "not before something is over");
        plan.ended(1, Outcome::Done);
        assert_eq!(plan.next(), Some((covered, Step::Unmount("/mnt/a".to_owned()))));
        plan.ended(covered, Outcome::Done);
        assert_eq!(plan.next(), Some((2, Step::Loop("/dev/loop0".to_owned()))));
        assert_eq!(plan.failed, 0);
        check(
            "unmount:/mnt/a\nunmount:/mnt\nloop:/dev/loop0 0",
            &[("unmount:/mnt/a", Outcome::Failed)],
            "unmount:/mnt/a unmount:/mnt\nunmount:/mnt/a\nloop:/dev/loop0\n1",
        );
        // What covers is in use to the last.
        check(
            "unmount:/mnt/a\nunmount:/mnt",
            &[("unmount:/mnt/a", Outcome::Failed), ("unmount:/mnt", Outcome::Busy)],
            "unmount:/mnt/a unmount:/mnt\ndetach:/mnt\nunmount:/mnt/a\n1",
        );
    }

    #[test]
    fn a_device_in_use_is_given_up_when_nothing_else_is_left_and_what_it_lies_on_is_tried() {
        check(
            "mapped:x 1\nunmount:/a\nloop:/dev/loop0 0",
            &[("mapped:x", Outcome::Busy)],
            "unmount:/a\nmapped:x\nloop:/dev/loop0\n1",
        );
        // Its mount was only taken out of sight.
        check(
            "loop:/dev/loop0 1\nunmount:/a",
            &[("unmount:/a", Outcome::Busy), ("loop:/dev/loop0", Outcome::Busy)],
            "unmount:/a\ndetach:/a\nloop:/dev/loop0\n1",
        );
    }

    #[test]
    fn what_cannot_be_made_read_only_is_told_and_not_tried_again() {
        check("read-only:/usr", &[("read-only:/usr", Outcome::Busy)], "read-only:/usr\n1");
        let mut plan = plan("read-only:/usr");
        let (usr, _) = plan.next().expect("one step");
        plan.ended(usr, Outcome::Busy);
        assert_eq!(plan.given_up, [Step::ReadOnly("/usr".to_owned())]);
    }

    #[test]
    fn what_writes_goes_on_as_long_as_less_and_less_is_left() {
        for (step, before, now, want) in [
            ("sync-all:/", 9, 8, true),
            ("sync-all:/", 9, 9, false),
            ("unmount:/a", 9, 0, true),
            ("unmount:/a", 8, 9, false),
            ("swapoff:/a", 9, 8, false),
            ("array:/dev/md0", 9, 8, false),
            ("loop:/dev/loop0", 9, 8, false),
        ] {
            let step = Step::parse(step).expect("a step");
            assert_eq!(goes_on(&step, before, now), want, "{step:?} {before} {now}");
        }
    }

    #[test]
    fn a_step_that_takes_long_is_told_while_it_is_waited_for() {
        let plan = Plan::side_by_side([Step::Sync("/a".to_owned())]);
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
        assert!(first.ends_with(" MiB of unwritten data"), "{first}");
    }
}

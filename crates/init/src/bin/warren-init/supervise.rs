//! The loop: reap, start what is due, tell the manager, wait.
//!
//! Every turn does the same four things in the same order; only what was not said to be ready is
//! not read.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;
use warren_sys::signal::{
    SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGPWR, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH,
};

use warren_init::protocol::control::{
    BEGAN_ENV, CGROUP_ROOT_ENV, CONTROL_FD, CONTROL_FD_ENV, EXIT_RESTART, HELPERS_MAX, PowerAction,
    SOFT_REBOOTS_ENV, StartReason,
};
use warren_init::protocol::ring::{self, Ring};
use warren_sys::clone::Stack;
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::eventfd::{Clock, EventFd, TimerFd};
use warren_sys::memfd::{self, SharedWords};
use warren_sys::process::{self, Exit, ExitKind, Wait};
use warren_sys::signal::{SIGRTMIN, SignalFd, SignalSet};
use warren_sys::usage::EXIT_USAGE;
use warren_sys::{Result, fdpass, time};

use crate::again::{self, Before};
use crate::backoff::Backoff;
use crate::control::{Inbox, Link};
use crate::environment::environment;
use crate::finish::finish_argument;
use crate::helper::Helper;
use crate::looks::{Found, Looks};
use crate::options::{OnExit, Options};
use crate::place::Place;
use crate::program::Program;
use crate::say::say;
use crate::shared::Shared;
use crate::{initramfs, power};

/// Signals taken in one turn, of which each may be the end of a child: the manager is to hear of
/// them. The others are still ready in the next.
const SIGNALS_PER_TURN_MAX: usize = 256;

/// Has the C library ask for huge pages for the manager's heap (the GNU C Library's manual, "Memory Allocation
/// Tunables"): the manager sleeps between events and finds its addresses gone from the processor's tables each time.
/// Other libraries, and kernels without such pages, take no notice. The manager of a user gets none: its heap is smaller
/// than one of them, and a machine may have hundreds of these.
const TUNABLES: &str = "GLIBC_TUNABLES=";
const HUGE_PAGES: &str = "glibc.malloc.hugetlb=1";

const TOKEN_SIGNALS: u64 = 0;
const TOKEN_TIMER: u64 = 1;
const TOKEN_ROOM: u64 = 2;
const TOKEN_CONTROL: u64 = 3;

/// A manager that is ending is reaped within this time, or the kernel holds a thread of it, as in a
/// look at a path whose server does not answer: it runs no more, and the next one is started.
const DYING_NS_MAX: u64 = 5_000_000_000;

/// The manager that runs now.
struct Manager {
    pid: i32,
    pidfd: OwnedFd,
    started_ns: u64,
    /// Killed by us for its silence.
    hung: bool,
    /// Since when it is ending: it has closed its socket, or was killed.
    dying_ns: Option<u64>,
}

/// Everything init knows. Made once; nothing in it grows.
pub struct Init {
    options: Options,
    place: Place,
    epoll: Epoll,
    timer: TimerFd,
    /// What the timer is set to.
    armed_ns: Option<u64>,
    looks: Looks,
    signal_fd: SignalFd,
    stack: Stack,
    ring: Ring,
    manager_program: Program,
    helper_program: Program,
    shared: Shared,
    manager: Option<Manager>,
    link: Option<Link>,
    /// For the next link.
    inbox: Option<Inbox>,
    manager_at_ns: Option<u64>,
    manager_backoff: Backoff,
    /// A manager has called: there may be services.
    was_served: bool,
    ending: Option<Ending>,
}

/// What epoll said is to be read.
#[derive(Clone, Copy, Default)]
struct Ready {
    signals: bool,
    timer: bool,
    room: bool,
    control: bool,
}

impl Ready {
    const ALL: Ready = Ready { signals: true, timer: true, room: true, control: true };

    fn of(events: &Events) -> Ready {
        let has = |token| events.iter().any(|event| event.token == token);
        Ready {
            signals: has(TOKEN_SIGNALS),
            timer: has(TOKEN_TIMER),
            room: has(TOKEN_ROOM),
            control: has(TOKEN_CONTROL),
        }
    }
}

/// Why the loop is left.
enum Ending {
    Power(PowerAction),
    Stop(i32),
}

/// The signals that systemd(1) gives a meaning, and SIGCHLD. The rest keep their default, which
/// the kernel does not apply to process 1.
fn handled_signals() -> SignalSet {
    let plain = [SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGCHLD, SIGWINCH, SIGPWR];
    plain.into_iter().chain(SIGRTMIN..=SIGRTMIN + 30).fold(SignalSet::EMPTY, SignalSet::with)
}

/// Signals of systemd(1) by which somebody has the machine end, and which may be told twice.
fn ends_machine(signal: i32) -> bool {
    signal == SIGINT || matches!(signal - SIGRTMIN, 3..=6 | 13..=16 | 24)
}

/// Signals that end a machine in which nothing runs yet.
fn ends_empty_machine(signal: i32) -> bool {
    signal == SIGTERM || ends_machine(signal)
}

/// The status of one that such a signal has ended: of those without a number that shells know, a failure.
fn status_of_signal(signal: i32) -> i32 {
    if signal < SIGRTMIN { 128 + signal } else { 1 }
}

impl Init {
    /// Makes every table and the helpers' places; starts nothing yet.
    /// Goes on with what one before it kept.
    pub fn new(options: Options, place: Place, before: Option<Before>) -> Result<Init> {
        let signal_fd = SignalFd::new(handled_signals())?;
        let epoll = Epoll::new()?;
        let timer = TimerFd::new(Clock::Monotonic)?;
        let reason = before.as_ref().map_or(StartReason::First, |_| StartReason::SoftReboot);
        let before = before.unwrap_or_else(Before::nothing);
        let (ring_fd, ring) = match before.ring.and_then(attach_ring) {
            Some(ring) => ring,
            None => make_ring(options.ring_records)?,
        };
        let room = EventFd::new()?;
        epoll.add(&signal_fd, TOKEN_SIGNALS, Interest::READ)?;
        epoll.add(&timer, TOKEN_TIMER, Interest::READ)?;
        epoll.add(&room, TOKEN_ROOM, Interest::READ)?;
        let mut helpers = Vec::with_capacity(HELPERS_MAX);
        let backoff = Backoff::new(u64::from(options.healthy_ms) * 1_000_000);
        for _ in 0..options.helpers {
            helpers.push(Helper::new(backoff)?);
        }
        let now = time::monotonic_ns();
        let shared = Shared {
            store: before.store,
            helpers,
            ring_fd,
            wake: EventFd::new()?,
            room,
            signals: SignalSet::EMPTY,
            incarnation: before.incarnation,
            reason,
            instance: before.instance.unwrap_or_else(random_id),
            soft_reboots: before.soft_reboots,
            started_ns: now,
            heartbeat_ms: options.heartbeat_s.saturating_mul(1000),
        };
        Ok(Init {
            manager_program: manager_program(&options, &place, before.soft_reboots)?,
            helper_program: helper_program(&options, &place)?,
            stack: Stack::new()?,
            manager: None,
            link: None,
            inbox: Some(Inbox::new()),
            manager_at_ns: Some(now),
            manager_backoff: backoff,
            was_served: reason == StartReason::SoftReboot,
            ending: None,
            options,
            place,
            epoll,
            timer,
            armed_ns: None,
            looks: Looks::due(),
            signal_fd,
            ring,
            shared,
        })
    }

    /// Runs until the end; the exit status.
    pub fn run(&mut self) -> i32 {
        let mut events = Events::with_capacity(8);
        let mut ready = Ready::ALL;
        loop {
            self.reap(ready);
            if let Some(ending) = self.ending.take() {
                return self.end(ending);
            }
            self.start_due();
            self.talk(ready.control);
            if self.ending.is_some() {
                ready = Ready::default();
                continue;
            }
            self.arm();
            ready = match self.epoll.wait(&mut events, None) {
                Ok(()) => Ready::of(&events),
                Err(error) => {
                    say(&error.to_string());
                    Ready::ALL
                }
            };
        }
    }

    // ---- reaping ----

    /// Who a signal names, and at times a look at all children: see [`Looks`].
    fn reap(&mut self, ready: Ready) {
        let mut reaped = ready.signals && self.take_signals();
        if ready.timer {
            let _ = self.timer.read();
            self.armed_ns = None;
        }
        if ready.room {
            self.shared.room.clear();
        }
        if !self.ring.has_room() {
            // A full ring must not keep the manager dead.
            self.reap_own();
        } else if self.looks.is_due(time::monotonic_ns()) {
            let began = time::monotonic_ns();
            let (found, news) = self.reap_all();
            reaped |= news;
            self.looks.looked(began, time::monotonic_ns(), found);
        }
        if reaped {
            self.shared.wake.notify();
        }
    }

    /// As long as there is room; and whether there is news for the manager.
    fn reap_all(&mut self) -> (Found, bool) {
        let (mut found, mut news) = (Found::default(), false);
        while self.ring.has_room() {
            match process::wait(Wait::Any, false) {
                Ok(Some(exit)) => {
                    found.somebody = true;
                    news |= self.reaped(exit);
                }
                // ECHILD: no children at all.
                Ok(None) | Err(_) => {
                    found.to_the_end = true;
                    break;
                }
            }
        }
        (found, news)
    }

    /// Whether it is news for the manager.
    fn reaped(&mut self, exit: Exit) -> bool {
        if self.shared.store.closing.ended(exit.pid) {
            return false;
        }
        let is_own = self.is_own(exit.pid);
        match is_own {
            true => self.own_ended(exit),
            false => self.ring.push(time::monotonic_ns(), &exit),
        }
        !is_own
    }

    fn is_own(&self, pid: i32) -> bool {
        self.manager.as_ref().is_some_and(|m| m.pid == pid)
            || self.shared.helpers.iter().any(|h| h.pid == pid)
    }

    fn reap_own(&mut self) {
        if let Some(pid) = self.manager.as_ref().map(|m| m.pid) {
            self.reap_one(pid);
        }
        for index in 0..self.shared.helpers.len() {
            match self.shared.helpers[index].pid {
                0 => {}
                pid => self.reap_one(pid),
            }
        }
    }

    fn reap_one(&mut self, pid: i32) {
        if let Ok(Some(exit)) = process::wait(Wait::Pid(pid), false) {
            self.own_ended(exit);
        }
    }

    fn own_ended(&mut self, exit: Exit) {
        let now = time::monotonic_ns();
        match self.shared.helpers.iter_mut().find(|h| h.pid == exit.pid) {
            Some(helper) => {
                if !helper.was_killed() {
                    say(&format!("exec helper {} exited: {:?}", exit.pid, exit.kind));
                }
                helper.ended(now, exit.kind == ExitKind::Exited(0));
            }
            None => self.manager_ended(exit, now),
        }
    }

    fn manager_ended(&mut self, exit: Exit, now: u64) {
        if let Some(mut link) = self.link.take() {
            // What it sent before its end is still in the socket, and still counts.
            if let Some(action) = link.drain(&mut self.shared) {
                self.ending.get_or_insert(Ending::Power(action));
            }
            self.was_served |= link.is_welcomed();
            let unheeded = link.unheeded().iter().filter(|&signal| self.ends_all(signal));
            self.shared.signals = unheeded.fold(self.shared.signals, SignalSet::with);
            self.inbox = Some(link.into_inbox());
        }
        let Some(manager) = self.manager.take() else { return };
        let reason = match exit.kind {
            ExitKind::Exited(EXIT_RESTART) => StartReason::Asked,
            _ if manager.hung => StartReason::Hung,
            ExitKind::Exited(status) => StartReason::Exited(status),
            ExitKind::Killed(signal) | ExitKind::Dumped(signal) => StartReason::Killed(signal),
        };
        if let Some(status) = self.gives_up(exit.kind).filter(|_| reason != StartReason::Asked) {
            self.ending.get_or_insert(Ending::Stop(status));
            return;
        }
        self.shared.reason = reason;
        let delay = match reason {
            StartReason::Asked => 0,
            _ => self.manager_backoff.delay_ns(now.saturating_sub(manager.started_ns)),
        };
        if reason == StartReason::Asked {
            self.shared.helpers.iter_mut().for_each(Helper::is_to_go);
        } else {
            say(&format!("manager exited ({reason:?}), restarting it in {} ms", delay / 1_000_000));
        }
        self.manager_at_ns = Some(now + delay);
    }

    /// Whether by this signal somebody has everything end. A user's manager is asked to by SIGTERM, which may
    /// have met itself as well, as one of a process group.
    fn ends_all(&self, signal: i32) -> bool {
        let is_users = || self.options.manager_args.iter().any(|argument| argument == "--user");
        ends_machine(signal) || signal == SIGTERM && is_users()
    }

    /// The status to end with when a manager has ended so, if no other is to be started: as the options say,
    /// or because the first one takes no arguments such as ours, or somebody has asked for the end and no
    /// manager ever came to hear of it.
    fn gives_up(&self, end: ExitKind) -> Option<i32> {
        let asked = self.shared.signals.iter().find(|&signal| ends_empty_machine(signal));
        match end {
            ExitKind::Exited(status) if self.options.on_exit == OnExit::Stop => Some(status),
            ExitKind::Exited(status)
                if status == i32::from(EXIT_USAGE) && self.never_had_a_manager() =>
            {
                Some(status)
            }
            _ => asked.filter(|_| self.never_had_a_manager()).map(status_of_signal),
        }
    }

    // ---- starting ----

    fn start_due(&mut self) {
        let now = time::monotonic_ns();
        self.shared.helpers.iter_mut().for_each(|helper| helper.leave_if_held(now));
        for index in 0..self.shared.helpers.len() {
            if self.shared.helpers[index].start_at_ns.is_some_and(|at| at <= now) {
                self.start_helper(index, now);
            }
        }
        self.leave_held_manager(now);
        if self.manager_at_ns.is_some_and(|at| at <= now) {
            self.start_manager(now);
        }
        self.check_heartbeat(now);
    }

    /// A new process and a new socket: what the old one had not answered must not be executed
    /// by the new one without the manager knowing.
    fn start_helper(&mut self, index: usize, now: u64) {
        let result = fdpass::seqpacket_pair(false).and_then(|(ours, theirs)| {
            let mut fds = [theirs.as_fd(); 2];
            let mut count = 1;
            if let Some(tree) = &self.place.tree {
                fds[1] = tree.root();
                count = 2;
            }
            let child = self.helper_program.start(&mut self.stack, &fds[..count])?;
            Ok((ours, child.pid))
        });
        let helper = &mut self.shared.helpers[index];
        match result {
            Ok((socket, pid)) => {
                helper.started(pid, socket, now);
                if let Some(link) = &mut self.link {
                    link.tell_of_helper(index);
                }
            }
            Err(error) => {
                say(&format!("exec helper: {error}"));
                helper.ended(now, false);
            }
        }
    }

    fn start_manager(&mut self, now: u64) {
        self.manager_at_ns = None;
        match self.try_start_manager(now) {
            Ok(()) => self.shared.incarnation += 1,
            Err(error) => {
                say(&format!("manager: {error}"));
                self.manager_at_ns = Some(now + self.manager_backoff.delay_ns(0));
            }
        }
    }

    fn try_start_manager(&mut self, now: u64) -> Result<()> {
        let (ours, theirs) = fdpass::seqpacket_pair(false)?;
        self.epoll.add(&ours, TOKEN_CONTROL, Interest::READ)?;
        let child = self.manager_program.start(&mut self.stack, &[theirs.as_fd()])?;
        let inbox = self.inbox.take().unwrap_or_else(Inbox::new);
        self.link = Some(Link::new(ours, inbox));
        self.manager = Some(Manager {
            pid: child.pid,
            pidfd: child.pidfd,
            started_ns: now,
            hung: false,
            dying_ns: None,
        });
        Ok(())
    }

    /// Waits no longer for a manager of which the kernel holds a thread. Its record, whenever it comes,
    /// is that of a process that nobody knows.
    fn leave_held_manager(&mut self, now: u64) {
        let Some(manager) = &self.manager else { return };
        if manager.dying_ns.is_none_or(|since| now < since + DYING_NS_MAX) {
            return;
        }
        say(&format!(
            "manager {} does not exit (uninterruptible sleep): starting another one",
            manager.pid
        ));
        let kind = ExitKind::Killed(SIGKILL);
        let exit =
            Exit { pid: manager.pid, uid: 0, kind, user_us: 0, system_us: 0, max_rss_kib: 0 };
        self.manager_ended(exit, now);
    }

    // ---- talking ----

    fn talk(&mut self, ready: bool) {
        let Some(link) = &mut self.link else { return };
        if let Some(action) = link.exchange(&mut self.shared, ready) {
            self.ending.get_or_insert(Ending::Power(action));
        }
        self.was_served |= link.is_welcomed();
        if let Some(interest) = link.new_interest() {
            let _ = self.epoll.modify(link.socket(), TOKEN_CONTROL, interest);
        }
        if link.ended {
            self.hung_up();
        }
    }

    /// The manager has closed its socket: it is ending, or it is of no use any more. The link
    /// stays until it is reaped, unwatched, because a closed socket is always ready.
    fn hung_up(&mut self) {
        if let (Some(link), Some(manager)) = (&self.link, &mut self.manager) {
            manager.dying_ns.get_or_insert_with(time::monotonic_ns);
            let _ = self.epoll.remove(link.socket());
            let _ = process::pidfd_signal(manager.pidfd.as_fd(), SIGKILL);
        }
    }

    /// Whether a child was reaped that is news for the manager.
    fn take_signals(&mut self) -> bool {
        let mut reaped = false;
        for _ in 0..SIGNALS_PER_TURN_MAX {
            let Ok(Some(info)) = self.signal_fd.read() else { break };
            match info.signal {
                SIGCHLD => {
                    self.looks.ask();
                    if self.ring.has_room()
                        && let Ok(Some(exit)) = process::wait(Wait::Pid(info.pid), false)
                    {
                        reaped |= self.reaped(exit);
                    }
                }
                signal
                    if ends_empty_machine(signal)
                        && self.manager.is_none()
                        && self.never_had_a_manager() =>
                {
                    self.ending.get_or_insert(Ending::Stop(status_of_signal(signal)));
                }
                signal => self.shared.signals = self.shared.signals.with(signal),
            }
        }
        reaped
    }

    /// Not once has a manager called, so nothing else was started: there is nothing to be stopped. A host is
    /// not left all the same.
    fn never_had_a_manager(&self) -> bool {
        !self.was_served && !self.place.is_host
    }

    // ---- time ----

    /// A manager that once sent a heartbeat and then none for the bound is killed; one that is
    /// being debugged is left alone.
    fn check_heartbeat(&mut self, now: u64) {
        let Some(due) = self.heartbeat_due_ns() else { return };
        let Some(manager) = &mut self.manager else { return };
        if now < due || manager.hung {
            return;
        }
        if process::tracer(manager.pid).unwrap_or(0) != 0 {
            if let Some(link) = &mut self.link {
                link.last_ping_ns = Some(now);
            }
            return;
        }
        say("manager does not respond: killing it");
        manager.hung = true;
        manager.dying_ns.get_or_insert(now);
        let _ = process::pidfd_signal(manager.pidfd.as_fd(), SIGKILL);
    }

    fn heartbeat_due_ns(&self) -> Option<u64> {
        let bound_ns = u64::from(self.shared.heartbeat_ms) * 1_000_000;
        let hung = self.manager.as_ref().is_none_or(|m| m.hung);
        let ping = self.link.as_ref()?.last_ping_ns.filter(|_| bound_ns > 0 && !hung)?;
        Some(ping + bound_ns)
    }

    fn arm(&mut self) {
        let helpers = self.shared.helpers.iter().filter_map(Helper::due_ns);
        // Without room a look would find nobody; new room wakes us.
        let look = self.looks.due_ns().filter(|_| self.ring.has_room());
        let dying = self.manager.as_ref().and_then(|manager| manager.dying_ns);
        let dying = dying.map(|since| since + DYING_NS_MAX);
        let manager = self.manager_at_ns.into_iter().chain(self.heartbeat_due_ns()).chain(dying);
        // One that is due is sent when there is room for it.
        let now = time::monotonic_ns();
        let pong = self.link.as_ref().and_then(Link::pong_held_until_ns).filter(|&at| at > now);
        let next = helpers.chain(manager).chain(look).chain(pong).min();
        if next == self.armed_ns {
            return;
        }
        match self.timer.set(next) {
            Ok(()) => self.armed_ns = next,
            Err(error) => say(&error.to_string()),
        }
    }

    // ---- the end ----

    fn end(&mut self, ending: Ending) -> i32 {
        let pids = self.manager.iter().map(|m| m.pid);
        let pids = pids.chain(self.shared.helpers.iter().map(|h| h.pid)).filter(|&pid| pid > 0);
        let pids: Vec<i32> = pids.collect();
        // The last steps could not make the root read-only while these files were run.
        let own = std::process::id() as i32;
        let is_replaced = again::is_replaced(own);
        let keeps_root =
            self.place.is_host && (is_replaced || pids.iter().any(|&pid| again::is_replaced(pid)));
        let has_last_word = |action: &PowerAction| initramfs::has_last_word(*action, &self.place);
        let left_to_it = match ending {
            Ending::Power(action) => Some(action).filter(has_last_word),
            Ending::Stop(_) => None,
        };
        pids.iter().for_each(|&pid| drop(process::kill(pid, SIGKILL)));
        // Process 1 takes all with it. Of a session's root that is waited for: who stops it would
        // find its helpers in its group, and take them for left over.
        if !self.place.is_pid_1 || keeps_root || left_to_it.is_some() {
            reap_killed(&pids);
        }
        if let Some(action) = left_to_it {
            say(&initramfs::give_last_word(action).to_string());
        }
        match ending {
            Ending::Power(PowerAction::SoftReboot) => {
                let tree = self.place.tree.as_ref().map(|tree| tree.path());
                say(&again::start_over(&self.shared, &self.place, tree).to_string());
                // The last steps before a soft reboot leave storage alone.
                if self.place.is_host {
                    power::sync();
                }
                power::end(PowerAction::SoftReboot, &self.place)
            }
            Ending::Power(action) if keeps_root => {
                if is_replaced {
                    let argument = finish_argument(action);
                    say(&again::execute_from_memory(&self.shared, &argument).to_string());
                }
                power::finish(action, &self.place)
            }
            Ending::Power(action) => power::end(action, &self.place),
            Ending::Stop(status) if self.place.is_host => {
                say(&format!("manager exited with status {status}"));
                power::end(PowerAction::PowerOff, &self.place)
            }
            Ending::Stop(status) => status,
        }
    }
}

/// Reaps our own after SIGKILL, as far as they end in [`DYING_NS_MAX`]. Of the others the kernel holds a
/// thread, or a tracer has them: nothing that we could do would end them.
fn reap_killed(pids: &[i32]) {
    let until = time::monotonic_ns() + DYING_NS_MAX;
    // Each is our child that nobody has reaped: its number is its own.
    let mut left: Vec<(i32, OwnedFd)> =
        pids.iter().filter_map(|&pid| Some((pid, process::pidfd_open(pid).ok()?))).collect();
    let Ok(epoll) = Epoll::new() else { return };
    let token = |pid: i32| u64::from(pid.unsigned_abs());
    left.retain(|(pid, pidfd)| epoll.add(pidfd, token(*pid), Interest::READ).is_ok());
    let mut events = Events::with_capacity(HELPERS_MAX);
    while !left.is_empty() {
        let time = until.saturating_sub(time::monotonic_ns());
        let waited = epoll.wait(&mut events, Some(Duration::from_nanos(time)));
        if waited.is_err() || time == 0 {
            let pids: Vec<String> = left.iter().map(|(pid, _)| pid.to_string()).collect();
            return say(&format!(
                "leftover processes in uninterruptible sleep: {}",
                pids.join(", ")
            ));
        }
        left.retain(|(pid, pidfd)| {
            let has_ended = events.iter().any(|event| event.token == token(*pid));
            if has_ended {
                let _ = epoll.remove(pidfd);
                // One that is traced is its tracer's to reap first: no waiting here.
                let _ = process::wait(Wait::PidFd(pidfd.as_fd()), false);
            }
            !has_ended
        });
    }
}

/// The ring of one before us; none if it cannot be used.
fn attach_ring(fd: OwnedFd) -> Option<(OwnedFd, Ring)> {
    let words = SharedWords::map(fd.as_fd()).ok()?;
    Some((fd, Ring::attach(words).ok()?))
}

fn make_ring(records: u64) -> Result<(OwnedFd, Ring)> {
    let fd = memfd::fixed_size("warren-exit-ring", ring::bytes_for(records))?;
    let words = SharedWords::map(fd.as_fd())?;
    Ok((fd, Ring::create(words, records).expect("the memory was sized for it")))
}

/// The manager gets our whole environment (NOTIFY_SOCKET and all) and what it needs to find us.
fn manager_program(options: &Options, place: &Place, soft_reboots: u32) -> Result<Program> {
    let root = place.tree.as_ref().map(|t| t.path().to_string_lossy().into_owned());
    let own =
        [CONTROL_FD_ENV, CGROUP_ROOT_ENV, SOFT_REBOOTS_ENV, BEGAN_ENV, again::HANDED_OVER_ENV];
    let mut env = environment(&own);
    env.push(format!("{SOFT_REBOOTS_ENV}={soft_reboots}"));
    let (realtime, monotonic) = (time::realtime_ns() / 1000, time::monotonic_ns() / 1000);
    env.push(format!("{BEGAN_ENV}={realtime} {monotonic}"));
    env.push(format!("{CONTROL_FD_ENV}={CONTROL_FD}"));
    env.push(format!("{CGROUP_ROOT_ENV}={}", root.unwrap_or_default()));
    let is_of_user = process::own_ids().0 != 0;
    if !is_of_user && !env.iter().any(|variable| variable.starts_with(TUNABLES)) {
        env.push(format!("{TUNABLES}{HUGE_PAGES}"));
    }
    Program::new(&options.manager, &options.manager_args, &env)
}

/// Helpers get nothing that is meant for the manager.
fn helper_program(options: &Options, place: &Place) -> Result<Program> {
    let mut args = vec!["--socket=3".to_owned()];
    if place.tree.is_some() {
        args.push("--cgroup-root=4".to_owned());
    }
    let mut env = environment(&[]);
    env.retain(|e| e.starts_with("PATH=") || e.starts_with("HOME=") || e.starts_with("LANG="));
    Program::new(&options.exec, &args, &env)
}

fn random_id() -> [u8; 16] {
    use std::io::Read;
    let mut id = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut id));
    if read.is_err() {
        let seed = time::realtime_ns() ^ u64::from(std::process::id()).rotate_left(40);
        id[..8].copy_from_slice(&seed.to_le_bytes());
    }
    id
}

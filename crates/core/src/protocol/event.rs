//! What goes into the machine and what comes out of it.
//!
//! An effect with an id is answered by one [`Event::Done`]; until then the state that asked for it
//! names the id, so it can be asked for again after a crash. Effects without an id are either
//! harmless to lose (a reply to a client that is gone) or harmless to repeat (a signal that is
//! followed by a timeout).

use crate::graph::{Delta, Graph};
use crate::model::device_news::DeviceNews;
use crate::model::dynamic_user::DynamicUser;
use crate::model::ids::{ClientId, EffectId, UnitId};
use crate::model::leftover::Trace;
use crate::model::process::{CommandList, ExitStatus};
use crate::model::state::Tested;
use crate::model::time::Monotonic;
use crate::protocol::request::{Asker, Notice, Reply, Request};
use crate::settings::Compiled;
use std::sync::Arc;
use std::time::Duration;
use warren_calendar::Zone;
use warren_unit::Defaults;
use warren_unit::config::{Condition, EmergencyAction, UnitSection};

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Time has passed; due deadlines are looked at with every event anyway.
    Tick,
    /// A client wants something.
    Request {
        /// Whom to answer.
        client: ClientId,
        /// Who asks.
        asker: Asker,
        /// What for.
        request: Request,
    },
    /// An effect was carried out, or could not be.
    Done {
        /// Which one.
        effect: EffectId,
        /// What came of it.
        result: Done,
    },
    /// A child of init ended.
    Exited {
        /// Its pid.
        pid: u32,
        /// How.
        status: ExitStatus,
    },
    /// A datagram on the notify socket, from a process of `unit` (sd_notify(3)).
    Notify {
        /// The unit whose cgroup the sender is in.
        unit: UnitId,
        /// The sender.
        pid: u32,
        /// The fields that the core acts on.
        message: Notify,
    },
    /// The runner keeps so many file descriptors for a unit now (`FDSTORE=1`, sd_notify(3)).
    FdsStored {
        /// The unit.
        unit: UnitId,
        /// All of them.
        count: u32,
    },
    /// The last process of a unit's cgroup is gone.
    CgroupEmpty {
        /// The unit.
        unit: UnitId,
        /// CPU time of all that were in it, in µs, where it is known.
        cpu_us: Option<u64>,
    },
    /// Processes of the unit were killed by the kernel for want of memory.
    OutOfMemory {
        /// The unit.
        unit: UnitId,
    },
    /// A socket that is watched became readable.
    Incoming {
        /// The socket unit.
        unit: UnitId,
    },
    /// A connection was accepted (`Accept=yes`); the instance that serves it is loaded.
    Connection {
        /// The socket unit.
        socket: UnitId,
        /// The instance.
        instance: UnitId,
        /// The number in the instance's name.
        number: u64,
    },
    /// A connection was closed because of `MaxConnections=`.
    ConnectionRefused {
        /// The socket unit.
        socket: UnitId,
    },
    /// A connection was closed because there is no service to serve it.
    ConnectionUnserved {
        /// The socket unit.
        socket: UnitId,
    },
    /// Sockets of a unit are not kept for the next manager, or were not: the text says why, for people.
    SocketsLost {
        /// The socket unit.
        unit: UnitId,
        /// The reason.
        why: String,
    },
    /// The mount table has a mount at the unit's path now, or that of swap areas its area.
    Mounted {
        /// The mount or swap unit.
        unit: UnitId,
    },
    /// The table has none any more.
    Unmounted {
        /// The mount or swap unit.
        unit: UnitId,
    },
    /// A process walked into an automount and waits.
    TrapHit {
        /// The automount unit.
        unit: UnitId,
        /// The kernel's wait-queue token.
        token: u32,
    },
    /// The mount behind an automount was idle long enough; the kernel asks for its unmount.
    TrapIdle {
        /// The automount unit.
        unit: UnitId,
        /// The kernel's wait-queue token.
        token: u32,
    },
    /// The trap is gone: its file system was unmounted by somebody.
    TrapGone {
        /// The automount unit.
        unit: UnitId,
    },
    /// The name of a `Type=dbus` service was taken or given up, or there is no bus to ask.
    BusName {
        /// The service.
        unit: UnitId,
        /// What is known.
        state: BusName,
    },
    /// The wall clock was set, or the machine slept.
    ClockSet {
        /// For how long it slept since the last such event.
        slept: Duration,
    },
    /// The time zone of the host may be another one.
    ZoneSet(Zone),
    /// Something happened where a path unit watches, and it was looked at again.
    PathTouched {
        /// The path unit.
        unit: UnitId,
        /// How things look.
        look: PathLook,
    },
    /// Devices came or went, or what is known of them at all changed.
    Devices(DeviceNews),
    /// Everything is to be stopped, but for what outlasts the end; nothing can be started any more. Told
    /// again it is for an end that outlasts less: stops that are under way go on.
    StopEverything {
        /// The same kernel goes on with another user space.
        soft: bool,
    },
    /// Nothing can be started or stopped by jobs any more: what is left is ended by other means.
    GiveUp,
    /// A new generation takes effect.
    Commit {
        /// The generation.
        graph: Arc<Graph>,
        /// What differs from the current one.
        delta: Box<Delta>,
    },
    /// What unit files leave open is this from now on (systemd-system.conf(5)).
    Defaults(Arc<Defaults>),
    /// Whether service watchdogs, and what limits ask for, are acted on (systemctl(1), `service-watchdogs`).
    ServiceWatchdogs(bool),
}

/// What is known of a bus name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BusName {
    /// Somebody has it.
    Owned,
    /// Nobody has it.
    Free,
    /// There is no bus.
    NoBus,
}

/// The answer to an effect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Done {
    /// It was done.
    Ok,
    /// A process was started.
    Spawned {
        /// Its pid.
        pid: u32,
    },
    /// A process could not be started; `exit_code` is what systemd.exec(5) gives this step.
    SpawnFailed {
        /// 200 to 243.
        exit_code: u8,
        /// The step and the error, for people.
        error: String,
    },
    /// A process was not started because nobody wants it any more ([`Core::is_unwanted`]).
    ///
    /// [`Core::is_unwanted`]: crate::machine::Core::is_unwanted
    NeverBegun,
    /// Conditions and assertions were looked at.
    Conditions {
        /// Of the conditions.
        conditions: Verdict,
        /// Of the assertions.
        asserts: Verdict,
    },
    /// Names were looked up in the user database.
    Names(NamesFound),
    /// Sockets are open.
    Listening {
        /// How many file descriptors.
        fds: u16,
    },
    /// The signal was sent to this many processes.
    Killed {
        /// Number of processes.
        processes: u32,
    },
    /// The main process, or that it cannot be told.
    MainProcess {
        /// Its pid.
        pid: Option<u32>,
    },
    /// The files that a timer needs were read.
    TimerFiles(TimerFiles),
    /// The paths of a path unit were looked at, and are watched.
    Paths(PathLook),
    /// It was unmounted, and something else is mounted there still.
    StillMounted,
    /// There is no file descriptor left for it; the text is for people.
    NoDescriptors {
        /// The limit, and what of it is kept.
        error: String,
    },
    /// It could not be done; the text is for people.
    Failed {
        /// The error.
        error: String,
    },
}

/// What files say that a timer needs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TimerFiles {
    /// When the timer last elapsed, in µs since 1970; none if there is no stamp file.
    pub stamp_us: Option<u64>,
    /// The zones that were asked for; none where there is no such zone.
    pub zones: Vec<(Box<str>, Option<Zone>)>,
}

/// How the paths of a path unit look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PathLook {
    /// What `PathExists=`, `PathExistsGlob=` or `DirectoryNotEmpty=` waits for is there.
    pub is_met: bool,
    /// Something that `PathChanged=` or `PathModified=` is for was seen to change.
    pub is_changed: bool,
    /// A checksum of what is watched for changes: another one is another look. 0 where that was not looked at.
    pub print: u64,
}

/// What came of a list of conditions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Whether the list as a whole holds.
    pub holds: bool,
    /// What came of each, in the order of the list.
    pub each: Box<[Tested]>,
}

impl Verdict {
    /// Looks at conditions in their order (systemd.unit(5), "CONDITIONS AND ASSERTS"): every one
    /// without `|` must hold, and of those with `|` at least one if there are any. What decides
    /// nothing any more is not looked at, since looking may have a price: a path may be an
    /// automount's.
    pub fn of(conditions: &[Condition], mut is_met: impl FnMut(&Condition) -> bool) -> Verdict {
        let mut each = vec![Tested::Untested; conditions.len()].into_boxed_slice();
        let mut any_of = None;
        let mut all_of = true;
        for (condition, tested) in conditions.iter().zip(&mut each) {
            if condition.trigger && any_of == Some(true) {
                continue;
            }
            let met = is_met(condition);
            *tested = if met { Tested::Met } else { Tested::Unmet };
            match condition.trigger {
                true => any_of = Some(met),
                false => all_of = met,
            }
            if !all_of {
                break;
            }
        }
        Verdict { holds: all_of && any_of != Some(false), each }
    }
}

/// What a service says on the notify socket (sd_notify(3)).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Notify {
    /// READY=1
    pub ready: bool,
    /// RELOADING=1
    pub reloading: bool,
    /// STOPPING=1
    pub stopping: bool,
    /// CLEAN=1 or CLEAN=0: whether it may be killed at shutdown without being asked. Not of
    /// systemd.
    pub clean: Option<bool>,
    /// STATUS=
    pub status: Option<String>,
    /// ERRNO=
    pub errno: Option<i32>,
    /// MAINPID=
    pub main_pid: Option<u32>,
    /// WATCHDOG=1
    pub watchdog: bool,
    /// WATCHDOG=trigger
    pub watchdog_trigger: bool,
    /// WATCHDOG_USEC=
    pub watchdog_us: Option<u64>,
    /// EXTEND_TIMEOUT_USEC=
    pub extend_timeout_us: Option<u64>,
    /// MONOTONIC_USEC=: when the message was made
    pub made: Option<Monotonic>,
}

/// Whom a signal is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KillTarget {
    /// One process of the unit.
    Process(u32),
    /// Every process of the unit's cgroup.
    Group,
}

/// What a process is spawned for.
#[derive(Clone, PartialEq, Debug)]
pub struct Spawn {
    /// The unit whose cgroup it joins.
    pub unit: UnitId,
    /// Which list the command is in.
    pub list: CommandList,
    /// Its index in the list.
    pub index: u16,
    /// The main process rather than a control process.
    pub main: bool,
    /// The unit's settings.
    pub settings: Arc<Compiled>,
    /// Environment that follows from the state (`MAINPID`, `SERVICE_RESULT`, ...).
    pub environment: Vec<(&'static str, String)>,
    /// Socket units whose file descriptors are handed over.
    pub sockets: Vec<UnitId>,
    /// The unit's current run.
    pub invocation: u128,
    /// Who it runs as, with `DynamicUser=`.
    pub dynamic_user: Option<Box<DynamicUser>>,
}

/// What the user database has of the names and numbers of a dynamic user.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NamesFound {
    /// Names that it has.
    pub known: Vec<Box<str>>,
    /// Numbers that it has for other names.
    pub taken: Vec<u32>,
    /// Why the unit cannot run by these names, for people.
    pub refused: Option<Box<str>>,
}

/// Something to be done.
#[derive(Clone, PartialEq, Debug)]
pub enum Effect {
    /// Look at conditions and assertions → [`Done::Conditions`].
    CheckConditions {
        /// The effect's id.
        id: EffectId,
        /// The unit.
        unit: UnitId,
        /// What to look at.
        section: Arc<UnitSection>,
    },
    /// Look up who a unit is to run as → [`Done::Names`].
    LookUpNames {
        /// The effect's id.
        id: EffectId,
        /// The unit.
        unit: UnitId,
        /// Its names and the numbers that were given to them.
        user: Box<DynamicUser>,
    },
    /// Start a process → [`Done::Spawned`] or [`Done::SpawnFailed`].
    Spawn(EffectId, Box<Spawn>),
    /// Make a slice's cgroup → [`Done::Ok`] or [`Done::Failed`].
    MakeCgroup {
        /// The effect's id.
        id: EffectId,
        /// The slice.
        unit: UnitId,
        /// Its settings.
        settings: Arc<Compiled>,
    },
    /// Make a scope's cgroup and move processes into it → [`Done::Ok`], or [`Done::Failed`] if none is there.
    AttachProcesses {
        /// The effect's id.
        id: EffectId,
        /// The scope.
        unit: UnitId,
        /// The processes.
        pids: Box<[u32]>,
        /// Its settings.
        settings: Arc<Compiled>,
    },
    /// Write limits to the group of a unit that is up, and take back those of before that are no more.
    LimitGroup {
        /// The unit.
        unit: UnitId,
        /// By what it was limited; none if nothing was ever written.
        before: Option<Arc<Compiled>>,
        /// By what it is to be.
        settings: Arc<Compiled>,
    },
    /// Open a socket unit's sockets → [`Done::Listening`] or [`Done::Failed`].
    Listen {
        /// The effect's id.
        id: EffectId,
        /// The socket unit.
        unit: UnitId,
        /// Its settings.
        settings: Arc<Compiled>,
    },
    /// Mount or remount → [`Done::Ok`] or [`Done::Failed`].
    Mount {
        /// The effect's id.
        id: EffectId,
        /// The mount unit.
        unit: UnitId,
        /// Its settings.
        settings: Arc<Compiled>,
        /// Change the options of the mount that is there.
        remount: bool,
    },
    /// Unmount everything that is mounted on the unit's path → [`Done::Ok`] or [`Done::Failed`].
    Unmount {
        /// The effect's id.
        id: EffectId,
        /// The mount unit.
        unit: UnitId,
        /// Its settings.
        settings: Arc<Compiled>,
    },
    /// Set an automount's trap → [`Done::Ok`] or [`Done::Failed`].
    SetTrap {
        /// The effect's id.
        id: EffectId,
        /// The automount unit.
        unit: UnitId,
        /// Its settings.
        settings: Arc<Compiled>,
    },
    /// Send a signal → [`Done::Killed`].
    Kill {
        /// The effect's id.
        id: EffectId,
        /// The unit.
        unit: UnitId,
        /// Whom.
        target: KillTarget,
        /// The signal's number.
        signal: i32,
        /// Send SIGCONT after it, so that stopped processes see it, and SIGHUP if asked.
        then: FollowUp,
    },
    /// Find the main process of a forking service → [`Done::MainProcess`]. With a PID file that is
    /// waited for, the answer comes when the file is there and names a process of the unit's; the
    /// core gives up waiting by itself. Without one, it is the only process of the cgroup, if there
    /// is only one.
    FindMain {
        /// The effect's id.
        id: EffectId,
        /// The service.
        unit: UnitId,
        /// `PIDFile=`.
        pid_file: Option<Box<str>>,
        /// It is waited for; else it is looked at once.
        waits: bool,
    },
    /// Freeze or thaw all processes of a unit → [`Done::Ok`] when they are, or [`Done::Failed`].
    Freeze {
        /// The effect's id.
        id: EffectId,
        /// The unit.
        unit: UnitId,
        /// Which of both.
        frozen: bool,
    },
    /// Kill every process of the unit's cgroup at once (`cgroup.kill`).
    KillGroup {
        /// The unit.
        unit: UnitId,
    },
    /// Remove the unit's cgroup and what the runner keeps for one run.
    CleanUp {
        /// The unit.
        unit: UnitId,
        /// Its settings.
        settings: Arc<Compiled>,
        /// It is to come again, by `Restart=` or by a job that is there.
        restarting: bool,
    },
    /// Remove what a run has left in the file system → [`Done::Ok`], also if some of it cannot be; [`Done::Failed`] when
    /// the time was over first.
    ClearAway {
        /// The effect's id.
        id: EffectId,
        /// The service.
        unit: UnitId,
        /// What, in order.
        traces: Vec<Trace>,
        /// How long it may take; without one, as long as it takes.
        limit: Option<Duration>,
    },
    /// Close a socket unit's sockets.
    CloseSockets {
        /// The socket unit.
        unit: UnitId,
        /// With `RemoveOnStop=`: its settings, which say what is removed with them.
        remove: Option<Arc<Compiled>>,
    },
    /// Watch a socket unit's sockets for traffic, or stop it.
    WatchSockets {
        /// The socket unit.
        unit: UnitId,
        /// On or off.
        on: bool,
        /// `Accept=yes`: accept connections.
        accept: bool,
    },
    /// Read what a timer needs → [`Done::TimerFiles`], or [`Done::Failed`] if its stamp file cannot be read.
    LookUpTimer {
        /// The effect's id.
        id: EffectId,
        /// The timer.
        unit: UnitId,
        /// The stamp file is read, and made if there is none.
        has_stamp: bool,
        /// Names of zones, as in [`warren_calendar::is_zone_name`].
        zones: Vec<Box<str>>,
    },
    /// Note in the stamp file when a timer last elapsed.
    StampTimer {
        /// The timer.
        unit: UnitId,
        /// µs since 1970.
        at_us: u64,
    },
    /// Watch the paths of a path unit, instead of those that were watched before, and look at them →
    /// [`Done::Paths`] or [`Done::Failed`].
    WatchPaths {
        /// The effect's id.
        id: EffectId,
        /// The path unit.
        unit: UnitId,
        /// Its settings.
        settings: Arc<Compiled>,
        /// `MakeDirectory=` counts.
        makes: bool,
    },
    /// Check again the paths a path unit waits for → [`Done::Paths`] with checksum 0: changes are reported by
    /// [`Event::PathTouched`].
    LookAtPaths {
        /// The effect's id.
        id: EffectId,
        /// The path unit.
        unit: UnitId,
    },
    /// Watch the paths of a path unit no longer.
    UnwatchPaths {
        /// The path unit.
        unit: UnitId,
    },
    /// Say whether something is mounted at the unit's path now.
    LookAtMount {
        /// The mount unit.
        unit: UnitId,
    },
    /// Close the connection that an instance was to serve: it will not.
    DropConnection {
        /// The instance.
        unit: UnitId,
    },
    /// Throw away what waits in a socket unit's sockets: FlushPending=, or it is to be stopped.
    FlushSockets {
        /// The socket unit.
        unit: UnitId,
    },
    /// Let the processes that wait in an automount go on, or fail them.
    AnswerTrap {
        /// The automount unit.
        unit: UnitId,
        /// The kernel's tokens.
        tokens: Vec<u32>,
        /// Whether what they wait for is there.
        ok: bool,
    },
    /// Begin or end to watch the bus name of a `Type=dbus` service.
    WatchBusName {
        /// The service.
        unit: UnitId,
        /// `BusName=`
        name: Box<str>,
        /// On or off.
        on: bool,
    },
    /// Begin or end to look for idleness behind an automount.
    WatchIdle {
        /// The automount unit.
        unit: UnitId,
        /// On or off.
        on: bool,
    },
    /// Take the trap away.
    CloseTrap {
        /// The automount unit.
        unit: UnitId,
    },
    /// Tell a client.
    Reply {
        /// Whom.
        client: ClientId,
        /// What.
        reply: Reply,
    },
    /// Tell subscribers and the log.
    Tell(Notice),
    /// FailureAction= and its relatives.
    Emergency {
        /// What is to be done.
        action: EmergencyAction,
        /// The unit that asks for it.
        unit: UnitId,
        /// What the manager exits with, if the unit has a say in it: `FailureActionExitStatus=` or
        /// `SuccessActionExitStatus=`, else the exit status of its main process (systemd.unit(5)).
        status: Option<u8>,
        /// What a restart is to tell the firmware: `RebootArgument=`, for a job that took too long
        /// `JobTimeoutRebootArgument=`.
        argument: Option<Box<str>>,
    },
}

/// What goes after a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FollowUp {
    /// SIGHUP (SendSIGHUP=).
    pub hangup: bool,
    /// SIGCONT.
    pub resume: bool,
}

impl Effect {
    /// Whether it makes a process, or may.
    pub fn makes_process(&self) -> bool {
        matches!(self, Effect::Spawn(..) | Effect::Mount { .. } | Effect::Unmount { .. })
    }

    /// The id, for effects that are answered.
    pub fn id(&self) -> Option<EffectId> {
        match self {
            Effect::CheckConditions { id, .. }
            | Effect::LookUpNames { id, .. }
            | Effect::Spawn(id, _)
            | Effect::MakeCgroup { id, .. }
            | Effect::AttachProcesses { id, .. }
            | Effect::Listen { id, .. }
            | Effect::Mount { id, .. }
            | Effect::Unmount { id, .. }
            | Effect::SetTrap { id, .. }
            | Effect::Kill { id, .. }
            | Effect::Freeze { id, .. }
            | Effect::ClearAway { id, .. }
            | Effect::LookUpTimer { id, .. }
            | Effect::WatchPaths { id, .. }
            | Effect::LookAtPaths { id, .. }
            | Effect::FindMain { id, .. } => Some(*id),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_unit::config::ConditionKind;

    /// Conditions as letters: `y` is met, `n` is not, `|` before one says that any of those will do.
    /// What came of each: met `+`, unmet `-`, not looked at `.`.
    fn check(list: &str, holds: bool, expected: &str) {
        let conditions = list.split_whitespace().map(|word| Condition {
            kind: ConditionKind::PathExists,
            trigger: word.starts_with('|'),
            negate: false,
            parameter: word.trim_start_matches('|').into(),
        });
        let conditions: Vec<_> = conditions.collect();
        let verdict = Verdict::of(&conditions, |condition| &*condition.parameter == "y");
        let letter = |tested: &Tested| match tested {
            Tested::Untested => '.',
            Tested::Met => '+',
            Tested::Unmet => '-',
        };
        let each: String = verdict.each.iter().map(letter).collect();
        assert_eq!((verdict.holds, &*each), (holds, expected), "{list}");
    }

    #[test]
    fn conditions_are_looked_at_until_they_decide() {
        check("", true, "");
        check("y y", true, "++");
        check("y n y n", false, "+-..");
        check("|n |y |n", true, "-+.");
        check("|n |n y", false, "--+");
        check("|n |y n |n y", false, "-+-..");
        check("n |y", false, "-.");
        check("y |n", false, "+-");
    }
}

//! Run state: what a unit is doing now, apart from what its files say.
//!
//! These types are small for a unit that does nothing, and each state owns the data that only it
//! has. They are what is written to the state file after each batch (see [`crate::persist::run_state`]), so a
//! field added here is a new record version.

use crate::model::admin_marks::{Marked, Markers, Notes, Remark};
use crate::model::command_line::CommandLine;
use crate::model::dynamic_user::DynamicUser;
use crate::model::ids::{EffectId, JobId, UnitId};
use crate::model::job::{Job, JobKind, JobResult};
use crate::model::part::Part;
use crate::model::process::*;
use crate::model::reason::Reason;
use crate::model::time::{Moment, Monotonic};
use serde::{Deserialize, Serialize};

/// The phases of a service; the names are systemd's sub-states.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum ServicePhase {
    Condition,
    StartPre,
    Start,
    StartPost,
    Running,
    Exited,
    Reload,
    ReloadSignal,
    ReloadNotify,
    Stop,
    StopWatchdog,
    StopSigterm,
    StopSigkill,
    StopPost,
    FinalWatchdog,
    FinalSigterm,
    FinalSigkill,
    AutoRestart,
}

impl ServicePhase {
    /// Whether the phase has sent a signal and waits for what follows from it.
    pub(crate) fn is_signalled(self) -> bool {
        use ServicePhase::*;
        matches!(
            self,
            StopWatchdog | StopSigterm | StopSigkill | FinalWatchdog | FinalSigterm | FinalSigkill
        )
    }
}

/// A service that is doing something. How it is written down is in `persist::service`.
#[derive(Clone, PartialEq, Debug)]
pub struct ServiceRun {
    /// Where it is.
    pub phase: ServicePhase,
    /// The main process.
    pub main: MainProcess,
    /// The control process: commands other than the main one.
    pub control: Option<Control>,
    /// Which command of the current list runs.
    pub command: (CommandList, u16),
    /// The phase's deadline.
    pub deadline: Option<Monotonic>,
    /// When all of its stop is to be over, once that has begun.
    pub stop_by: Option<Monotonic>,
    /// `CLEAN=1` was said: it holds nothing to save.
    pub clean: bool,
    /// It was killed without being asked: that its processes end by it is no failure.
    pub sudden: bool,
    /// `RuntimeMaxSec=`.
    pub runtime_deadline: Option<Monotonic>,
    /// When the watchdog must have been fed.
    pub watchdog_deadline: Option<Monotonic>,
    /// `WATCHDOG_USEC=` as last set by the service, in µs.
    pub watchdog_override_us: Option<u64>,
    /// The first thing that went wrong.
    pub outcome: Outcome,
    /// What went wrong while reloading; does not end the service.
    pub reload_outcome: Outcome,
    /// `READY=1` was said.
    pub ready: bool,
    /// `STOPPING=1` was said, and nobody has told it to go.
    pub stopping: bool,
    /// `RELOADING=1` was said and `READY=1` has not followed.
    pub notify_reloading: bool,
    /// `Restart=` does not apply to this run: it was stopped by a request.
    pub stop_requested: bool,
    /// The unit's cgroup has no processes, as far as is known.
    pub group_empty: bool,
    /// The signal that is being sent.
    pub kill_asked: Option<EffectId>,
    /// The search for the main process that is under way.
    pub main_search: Option<EffectId>,
    /// Spawns of control processes that came to nothing meanwhile: killed as soon as they are
    /// there.
    pub doomed: Vec<EffectId>,
    /// File descriptors in the store.
    pub fds_stored: u32,
}

/// The state of a service.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub enum Service {
    /// Nothing runs.
    #[default]
    Dead,
    /// Nothing runs, and the last run went wrong.
    Failed(Outcome),
    /// Something of it is under way.
    Up(Part<ServiceRun>),
}

/// The phases of a socket; the names are systemd's sub-states.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum SocketPhase {
    StartPre,
    StartChown,
    StartPost,
    Listening,
    Running,
    StopPre,
    StopPreSigterm,
    StopPreSigkill,
    StopPost,
    FinalSigterm,
    FinalSigkill,
}

/// A socket unit that is doing something.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SocketRun {
    /// Where it is.
    pub phase: SocketPhase,
    /// The effect that opens the sockets, while it is under way.
    pub listen_asked: Option<EffectId>,
    /// How many file descriptors are open for it.
    pub fds: u16,
    /// The control process.
    pub control: Option<Control>,
    /// Which command of the current list runs.
    pub command: (CommandList, u16),
    /// The phase's deadline.
    pub deadline: Option<Monotonic>,
    /// The first thing that went wrong.
    pub outcome: Outcome,
    /// Instances of `Accept=yes` that run now.
    pub connections: Vec<UnitId>,
    /// Start of the current interval of `TriggerLimitIntervalSec=` and the starts in it.
    pub triggers: RateWindow,
}

impl SocketRun {
    /// Whether its sockets are open or being opened: after a restart of the manager, sockets of
    /// others are closed.
    pub fn holds_sockets(&self) -> bool {
        self.fds > 0 || self.listen_asked.is_some()
    }
}

/// The state of a socket unit.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub enum Socket {
    /// Not listening.
    #[default]
    Dead,
    /// Not listening, and the last run went wrong.
    Failed(Outcome),
    /// Something of it is under way.
    Up(Part<SocketRun>),
}

/// The phases of a mount; the names are systemd's sub-states.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum MountPhase {
    Mounting,
    /// Written by versions before; none is entered any more.
    MountingDone,
    Mounted,
    Remounting,
    RemountingSigterm,
    RemountingSigkill,
    Unmounting,
    /// An unmount is being ended.
    UnmountingSigterm,
    UnmountingSigkill,
    /// A mount or remount is being ended, because it took too long or its unit is to go down.
    MountingSigterm,
    MountingSigkill,
}

/// A mount that is up or under way.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MountRun {
    /// Where it is.
    pub phase: MountPhase,
    /// The mount, remount or unmount that is under way.
    pub asked: Option<EffectId>,
    /// The kernel's mount table has it.
    pub in_table: bool,
    /// The table said that nothing is mounted there while it was being mounted, or that something is
    /// while it was being unmounted: before or after, the words do not tell.
    pub doubtful: bool,
    /// The phase's deadline.
    pub deadline: Option<Monotonic>,
    /// The first thing that went wrong.
    pub outcome: Outcome,
    /// What went wrong while remounting; the mount stays.
    pub reload_outcome: Outcome,
}

/// The state of a mount unit.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub enum Mount {
    /// Not mounted.
    #[default]
    Dead,
    /// Not mounted, and the last try went wrong.
    Failed(Outcome),
    /// Mounted or under way.
    Up(Part<MountRun>),
}

impl Mount {
    /// A mount that the kernel has and no job made.
    pub(crate) fn found() -> Mount {
        Mount::Up(Part::new(MountRun {
            phase: MountPhase::Mounted,
            asked: None,
            in_table: true,
            doubtful: false,
            deadline: None,
            outcome: Outcome::Success,
            reload_outcome: Outcome::Success,
        }))
    }
}

/// An automount unit that is up or under way.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct AutomountRun {
    /// The effect that makes the trap, while it is under way.
    pub asked: Option<EffectId>,
    /// Whether the mount behind it is there.
    pub running: bool,
    /// Kernel requests (wait-queue tokens) that processes are blocked on, waiting for the mount.
    pub missing: Vec<u32>,
    /// Kernel requests that wait for the unmount.
    pub expiring: Vec<u32>,
    /// The last answers to the kernel. One that was lost with the manager leaves a process waiting
    /// for ever, so the next incarnation gives them again; the kernel ignores those it had.
    pub answered: Vec<(u32, bool)>,
    /// It is to go, with this outcome, as soon as the trap that is being made is there.
    pub closing: Option<Outcome>,
}

/// The state of an automount unit.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub enum Automount {
    /// No trap is set.
    #[default]
    Dead,
    /// No trap is set, and the last try went wrong.
    Failed(Outcome),
    /// The trap is set or being set.
    Up(Part<AutomountRun>),
}

/// The state of a slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Slice {
    /// No cgroup.
    #[default]
    Dead,
    /// The cgroup is being made.
    Asked(EffectId),
    /// The cgroup exists.
    Active,
}

/// The state of a device (systemd.device(5)); in this order a state file of a version that knew no
/// `Tentative` reads the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub enum Device {
    /// Nobody told of it, or it went.
    #[default]
    Dead,
    /// The device daemon told of it, and that it is ready.
    Plugged,
    /// Nobody told of it, but something of it is mounted.
    Tentative,
}

/// What a timer does while it is active; the names are systemd's sub-states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum TimerPhase {
    /// It waits for what comes next.
    Waiting,
    /// It has elapsed, and the unit that it started is not down again.
    Running,
    /// Nothing is to come.
    Elapsed,
}

/// A timer that is active.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TimerRun {
    /// Where it is.
    pub phase: TimerPhase,
    /// The look at its stamp file and zones that is under way.
    pub asked: Option<EffectId>,
    /// Calendar expressions count after this, in µs since 1970.
    pub calendar_from_us: u64,
    /// `OnActiveSec=`, `OnBootSec=` and `OnStartupSec=` count after this.
    pub spans_from: Monotonic,
    /// `RandomizedDelaySec=` as drawn for what comes next, in µs.
    pub delay_us: Option<u64>,
    /// When it elapses by the calendar, with the delay, in µs since 1970.
    pub next_realtime_us: Option<u64>,
    /// When it elapses by a span, with the delay.
    pub next_monotonic: Option<Monotonic>,
    /// When it is looked at: the earlier of both, moved by `AccuracySec=`.
    pub due: Option<Monotonic>,
    /// `AccuracySec=`, in µs.
    pub accuracy_us: u64,
    /// `WakeSystem=`: a machine that sleeps then is woken.
    pub wakes: bool,
}

/// The state of a timer.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub enum Timer {
    /// Nothing is waited for.
    #[default]
    Dead,
    /// Nothing is waited for, because something went wrong.
    Failed(Outcome),
    /// It is active.
    Up(Part<TimerRun>),
}

/// What is remembered of a timer, also while it is not active.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TimerMemory {
    /// When it last elapsed and started its unit. From a stamp file only the wall clock is known.
    pub last_trigger: Moment,
    /// Elapses by the calendar that started nothing, since another one came for them: the unit ran, the machine
    /// slept or was off.
    pub missed: u32,
}

/// What a path unit does while it is up; the names are systemd's sub-states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum PathPhase {
    /// Its paths are not watched yet.
    Starting,
    /// It waits for something to happen at its paths.
    Waiting,
    /// The unit that it started is not down again.
    Running,
}

/// A path unit that is up or on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PathRun {
    /// Where it is.
    pub phase: PathPhase,
    /// The order to watch its paths, or to look at them, that is under way.
    pub asked: Option<EffectId>,
    /// Something was changed while the unit ran: it is started once more.
    pub is_changed: bool,
    /// How what is watched for changes looked when it was last looked at: another number is another look.
    pub print: u64,
    /// Start of the current interval of `TriggerLimitIntervalSec=` and the starts in it.
    pub triggers: RateWindow,
}

/// The state of a path unit.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub enum Path {
    /// Nothing is watched.
    #[default]
    Dead,
    /// Nothing is watched, because something went wrong.
    Failed(Outcome),
    /// It is up or on its way.
    Up(Part<PathRun>),
}

/// The phases of a scope; the names are systemd's sub-states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ScopePhase {
    /// Its processes are being moved into its cgroup.
    Starting,
    /// It has processes.
    Running,
    /// The same, and the program that made it looks after it no longer.
    Abandoned,
    /// Its processes, or its controller, were asked to end.
    StopSigterm,
    /// Its processes were killed.
    StopSigkill,
}

/// A scope that has processes, or is to have some.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ScopeRun {
    /// Where it is.
    pub phase: ScopePhase,
    /// The processes that are to be moved into its cgroup; none once they are there.
    pub pids: Box<[u32]>,
    /// The move that is under way.
    pub asked: Option<EffectId>,
    /// The phase's deadline.
    pub deadline: Option<Monotonic>,
    /// `RuntimeMaxSec=`.
    pub runtime_deadline: Option<Monotonic>,
    /// The first thing that went wrong.
    pub outcome: Outcome,
    /// Its cgroup became empty while processes were being moved into it.
    pub group_empty: bool,
    /// It has no controller any more.
    pub abandoned: bool,
}

/// The state of a scope; in this order a state file of a version that knew only whether one is there reads the same.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub enum Scope {
    /// It has no processes.
    #[default]
    Dead,
    /// The scope of process 1, which is always there.
    Perpetual,
    /// It has no processes, and the last run went wrong.
    Failed(Outcome),
    /// It has no processes; its next start takes these in.
    Awaiting(Box<[u32]>),
    /// It has processes, or is to have some.
    Up(Part<ScopeRun>),
}

/// What a unit is doing, by type.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum TypeState {
    /// A service.
    Service(Service),
    /// A socket.
    Socket(Socket),
    /// A mount.
    Mount(Mount),
    /// An automount.
    Automount(Automount),
    /// A slice.
    Slice(Slice),
    /// A target: reached or not.
    Target(bool),
    /// A device: there or not.
    Device(Device),
    /// A scope.
    Scope(Scope),
    /// Of a type that the version did not run that wrote it down; none is entered any more.
    Unsupported,
    /// A swap area, which comes and goes as a mount does.
    Swap(Mount),
    /// A timer.
    Timer(Timer),
    /// A path unit.
    Path(Path),
}

/// How a job ended that did not do what it was for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LostJob {
    /// What it was for.
    pub kind: JobKind,
    /// How it ended.
    pub result: JobResult,
    /// Why.
    pub reason: Reason,
    /// When.
    pub at: Moment,
}

/// A count within an interval, for start and trigger limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RateWindow {
    /// Start of the interval; 0 when none has begun.
    pub begin: Monotonic,
    /// Events in it.
    pub count: u32,
}

/// The end of a run that `Restart=` answered with another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Relapse {
    /// Why it ended.
    pub reason: Reason,
    /// How its main process ended, if it had one.
    pub ended: Option<Ended>,
    /// When it was down.
    pub at: Moment,
}

/// What came of one condition or assertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Tested {
    /// What was tested before it decided.
    #[default]
    Untested,
    /// It holds.
    Met,
    /// It does not hold.
    Unmet,
}

/// The end of one command of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CommandEnd {
    /// The list.
    pub list: CommandList,
    /// Its place in the list.
    pub index: u16,
    /// How it ended.
    pub ended: Ended,
}

/// How the last start and the last run went, for those who ask.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Account {
    /// What came of each condition, in the order of the files; none if all are met.
    pub conditions: Box<[Tested]>,
    /// The same of the assertions.
    pub asserts: Box<[Tested]>,
    /// How control processes ended, and the commands of `ExecStart=` but the last, since the unit was
    /// last started.
    pub commands: Vec<CommandEnd>,
    /// CPU time of all processes of the last run, in µs.
    pub cpu_us: Option<u64>,
    /// How often its `OnFailure=` and `OnSuccess=` were answered for what counts as no start.
    pub answers: RateWindow,
}

impl Account {
    /// Keeps the end of a command; that of an earlier run of the same is forgotten.
    pub(crate) fn keep(&mut self, end: CommandEnd) {
        self.commands.retain(|kept| (kept.list, kept.index) != (end.list, end.index));
        if self.commands.len() == COMMAND_ENDS_MAX {
            self.commands.remove(0);
        }
        self.commands.push(end);
    }
}

/// The removal of what a run left in the file system, under way ([`crate::features::cleanup`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Clearing {
    /// The effect.
    pub id: EffectId,
    /// What stays for a restart is not removed.
    pub restarting: bool,
    /// But is afterwards, since there will be no restart.
    pub again: bool,
    /// The stop of the unit waits for it until then.
    pub until: Option<Monotonic>,
    /// Managers that ended while it was under way; a record of its own.
    #[serde(skip)]
    pub managers_ended: u8,
}

/// Whether the processes of a unit get a processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Freezer {
    /// They do.
    #[default]
    Running,
    /// They are to stand still; the effect is not done yet.
    Freezing(EffectId),
    /// They stand still.
    Frozen,
    /// They are to go on; the effect is not done yet.
    Thawing(EffectId),
}

impl Freezer {
    /// The word that clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            Freezer::Running => "running",
            Freezer::Freezing(_) => "freezing",
            Freezer::Frozen => "frozen",
            Freezer::Thawing(_) => "thawing",
        }
    }

    /// The effect that is under way.
    pub fn asked(self) -> Option<EffectId> {
        match self {
            Freezer::Freezing(id) | Freezer::Thawing(id) => Some(id),
            Freezer::Running | Freezer::Frozen => None,
        }
    }
}

/// When the steps of the boot began and were over; never where it did not come to that.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BootTimes {
    /// Process 1, or the root process of the manager, had prepared the ground.
    pub userspace: Moment,
    /// systemd.generator(7).
    pub generators: (Moment, Moment),
    /// Unit files were read.
    pub load: (Moment, Moment),
    /// The first transaction was worked off.
    pub finish: Moment,
}

/// What is kept of a unit that has been active at some time.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct History {
    /// Last time it left `inactive` or `failed`.
    pub inactive_exit: Moment,
    /// Last time it became active.
    pub active_enter: Moment,
    /// Last time it stopped being active.
    pub active_exit: Moment,
    /// Last time it became inactive or failed.
    pub inactive_enter: Moment,
    /// Last change of state.
    pub state_change: Moment,
    /// Id of the current or last run: 128 random bits.
    pub invocation: u128,
    /// The check of conditions that is under way.
    pub checking: Option<EffectId>,
    /// When the conditions were last checked, and what came of it.
    pub conditions: Option<(Moment, bool)>,
    /// The same for the assertions.
    pub asserts: Option<(Moment, bool)>,
    /// Restarts by `Restart=` since it was last started by request.
    pub restarts: u32,
    /// What the last of them answered; a record of its own (see [`crate::persist::run_state`]).
    #[serde(skip)]
    pub relapse: Option<Box<Relapse>>,
    /// The last start of it that was refused, since the last one that was not; a record of its own.
    #[serde(skip)]
    pub refusal: Option<Box<Remark>>,
    /// How its last start and run went; a record of its own.
    #[serde(skip)]
    pub account: Option<Box<Account>>,
    /// The commands that were run since it was last started; a record of its own.
    #[serde(skip)]
    pub lines: Box<[CommandLine]>,
    /// Whether its processes run; a record of its own unless they do.
    #[serde(skip)]
    pub freezer: Freezer,
    /// Why a rule of `[X-Warren]` is to stop it, if jobs stood against that; a record of its own.
    #[serde(skip)]
    pub owed_stop: Option<Reason>,
    /// The removal of what its last run left in the file system; a record of its own.
    #[serde(skip)]
    pub clearing: Option<Clearing>,
    /// Who its processes are, with `DynamicUser=`; a record of its own.
    #[serde(skip)]
    pub dynamic_user: Option<Box<DynamicUser>>,
    /// Starts, for `StartLimitBurst=`.
    pub starts: RateWindow,
    /// How the last run ended.
    pub outcome: Outcome,
    /// Why it is in the state it is in.
    pub reason: Reason,
    /// The unit's last job, unless it was done.
    pub lost_job: Option<LostJob>,
    /// The main process of the last run.
    pub last_main: Option<Ended>,
    /// The last control process, and what it was for.
    pub last_control: Option<(CommandList, Ended)>,
    /// `STATUS=` of the service, last said.
    pub status_text: String,
    /// `ERRNO=` of the service, last said.
    pub status_errno: i32,
    /// The last start was skipped because of a condition, and the log knows.
    pub skipped: bool,
    /// The cgroup was made and not yet removed.
    pub has_cgroup: bool,
    /// Numbers given to connections of an `Accept=yes` socket. No number is given twice: an
    /// instance may outlive a restart of its socket.
    pub accepted: u64,
    /// Connections of a socket refused because of `MaxConnections=`.
    pub refused: u64,
    /// What administrators said of it; a record of its own (see [`crate::persist::run_state`]).
    #[serde(skip)]
    pub notes: Option<Box<Notes>>,
    /// What others have noted that it needs; a record of its own.
    #[serde(skip)]
    pub markers: Markers,
    /// Of a timer, when it last elapsed; a record of its own.
    #[serde(skip)]
    pub timer: Option<TimerMemory>,
}

impl History {
    pub(crate) fn notes_mut(&mut self) -> &mut Notes {
        self.notes.get_or_insert_default()
    }

    pub(crate) fn drop_empty_notes(&mut self) {
        self.notes.take_if(|notes| notes.is_empty());
    }

    /// A run begins: nothing has ended and nothing was used in it.
    pub(crate) fn begin_account(&mut self) {
        self.last_control = None;
        self.lines = Box::default();
        if let Some(account) = &mut self.account {
            account.commands.clear();
            account.cpu_us = None;
        }
        self.drop_empty_account();
    }

    /// Keeps how a control process ended.
    pub(crate) fn keep_control(&mut self, list: CommandList, index: u16, ended: Ended) {
        self.last_control = Some((list, ended));
        self.account_mut().keep(CommandEnd { list, index, ended });
    }

    pub(crate) fn account_mut(&mut self) -> &mut Account {
        self.account.get_or_insert_default()
    }

    pub(crate) fn drop_empty_account(&mut self) {
        self.account.take_if(|account| **account == Account::default());
    }

    /// How a command ended that was run since the unit was last started.
    pub fn command_end(&self, list: CommandList, index: u16) -> Option<Ended> {
        let ends = self.account.as_ref()?.commands.iter();
        ends.rev().find(|end| (end.list, end.index) == (list, index)).map(|end| end.ended)
    }
}

/// The run state of one unit.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct UnitRun {
    /// What it is doing.
    pub state: TypeState,
    /// The job that is installed for it.
    pub job: Option<Part<Job>>,
    /// What is remembered of it; none if it never did anything.
    pub history: Option<Part<History>>,
}

impl UnitRun {
    /// What administrators said of it.
    pub fn notes(&self) -> Option<&Notes> {
        self.history.as_ref()?.notes.as_deref()
    }

    /// How it is marked.
    pub fn marked(&self) -> Option<Marked> {
        Some(self.notes()?.mark.as_ref()?.0)
    }

    /// The job's id, if one is installed.
    pub fn job_id(&self) -> Option<JobId> {
        self.job.as_ref().map(|job| job.id)
    }
}

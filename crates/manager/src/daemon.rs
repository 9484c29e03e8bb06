//! The loop: waits, feeds events to the machine, writes down what changed, carries out effects,
//! publishes the view.
//!
//! Owns: [`Daemon`], the state of the manager, and everything that changes it; one file for each source
//! of events. Run state is written before effects are carried out, and the exit ring is released after
//! its records are written, so that nothing is lost if this process ends at any instruction.
//! Must not: decide what is to become of a unit (that is the core), or wait for anybody.
//! Thread: the loop.

mod accept;
mod devices;
mod effects;
mod environment_files;
mod exits;
pub(crate) mod foreign_mains;
mod group_kills;
mod heartbeat;
mod log_link;
mod log_wait;
mod names;
mod notify;
mod planned_shutdown;
mod presets;
pub(crate) mod requests;
mod resume;
mod shutdown;
mod signals;
mod sockets;
mod spawns;
pub mod start;
mod start_times;
mod stored_fds;
mod sweep;
mod unit_faults;
mod unit_gc;
pub(crate) mod unit_log;
mod unreported_exits;

use crate::base::answers::AnswerTo;
use crate::base::clock::now;
use crate::base::environment::Environment;
use crate::base::fair_queue::Questions;
use crate::base::heartbeat::HEARTBEAT;
use crate::base::host::is_nested;
use crate::base::patience::Patient;
use crate::base::say::say;
use crate::base::token::{self, NOBODY};
use crate::base::worker_pool::Workers;
use crate::cgroup::tree::Groups;
use crate::control::server::Control;
use crate::daemon::requests::AfterLoad;
use crate::daemon::start::{soft_reboot_mark, soft_reboots};
use crate::mount::automounts::{Asked, Traps};
use crate::mount::table::MountTable;
use crate::options::Options;
use crate::peer::unit_log_file::UnitLogFiles;
use crate::process::early_exits::EarlyExits;
use crate::process::init_link::{FromInit, InitLink};
use crate::process::notify_messages::EarlyNotice;
use crate::process::notify_socket::NotifySocket;
use crate::process::pid_file::searches::Searches;
use crate::process::start_times::Since;
use crate::process::unreported_exits::Missing;
use crate::published::orders::{Ended, LoaderOrder, Order};
use crate::published::shared::Shared;
use crate::recording::state_file::StateFile;
use crate::shutdown::words::AskedBy;
use crate::socket::sockets::Sockets;
use crate::spawn::environment_files::Reads;
use crate::spawn::helpers::{Answered, Helpers};
use crate::spawn::users::Names;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};
use warren_bus::Bus;
use warren_bus::backend::{Backend, Call, ReplySender};
use warren_core::machine::Core;
use warren_core::model::ids::{ClientId, EffectId, JobId, UnitId};
use warren_core::model::job::{JobMode, JobType};
use warren_core::model::state::BootTimes;
use warren_core::model::time::{Moment, Monotonic};
use warren_core::persist::run_state::Late;
use warren_core::protocol::event::{Done, Effect, Event};
use warren_core::protocol::request::{Asker, Notice, Reply, Request};
use warren_init::protocol::control::{EXIT_RESTART, PowerAction};
use warren_sys::epoll::{Epoll, Events};
use warren_sys::eventfd::EventFd;
use warren_sys::mount::Now;
use warren_unit::config::EmergencyAction;
use warren_unit::{LoadState, UnitName};

/// Messages of init read in one turn.
const INIT_MESSAGES_PER_TURN_MAX: usize = 64;

/// More than so many Ctrl-Alt-Del ...
const CTRL_ALT_DELS_MAX: usize = 7;

/// ... within so long start the machine again at once, as in systemd(1).
const CTRL_ALT_DEL_WITHIN: Duration = Duration::from_secs(2);

/// How the process is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaving {
    /// A new manager takes over.
    Restart,
    /// Everything ends.
    Power(PowerAction),
}

/// Whom a reply of the machine is for.
pub(crate) enum Client {
    /// The bus, at once.
    Bus(ReplySender),
    /// Somebody who waits for the end of the job.
    Waiter(AnswerTo<Ended>),
}

/// Who waits for the end of a job.
pub(crate) struct JobWaiters {
    unit: UnitId,
    answers: Vec<AnswerTo<Ended>>,
}

/// The manager.
pub struct Daemon {
    pub(crate) core: Core,
    pub(crate) options: Options,
    pub(crate) shared: Arc<Shared>,
    pub(crate) init: InitLink,
    pub(crate) helpers: Helpers,
    pub(crate) log_link: crate::peer::log_link::LogLink,
    pub(crate) devices: crate::peer::devices::Devices,
    pub(crate) groups: Groups,
    /// Groups whose main process was signalled, and others are to be.
    pub(crate) others: crate::process::signals::Others,
    /// Groups all of which were signalled at once in this turn.
    pub(crate) told_at_once: usize,
    /// Units whose processes are to be killed in this turn.
    pub(crate) dying: Vec<UnitId>,
    pub(crate) sockets: Sockets,
    pub(crate) traps: Traps,
    pub(crate) notify: NotifySocket,
    pub(crate) log_files: UnitLogFiles,
    pub(crate) workers: Workers,
    /// Those who kill large groups, which waits for nobody.
    pub(crate) killers: Workers,
    pub(crate) pid_files: Searches,
    pub(crate) mounts: MountTable,
    pub(crate) recorder: crate::recording::recorder::Recorder,
    pub(crate) state: StateFile,
    pub(crate) bus: Option<Bus>,
    pub(crate) control: Option<Control>,
    /// What the last manager listened at for clients.
    pub(crate) listeners: crate::daemon::start::Listeners,
    pub(crate) epoll: Epoll,
    pub(crate) loader: Sender<LoaderOrder>,
    pub(crate) orders: Receiver<Order>,
    pub(crate) wake: Arc<EventFd>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) pidfds: BTreeMap<u32, OwnedFd>,
    /// Parents of main processes that are no children of init.
    pub(crate) parents: BTreeMap<u32, OwnedFd>,
    /// Since when processes are there.
    pub(crate) since: BTreeMap<u32, Since>,
    pub(crate) clients: BTreeMap<ClientId, Client>,
    pub(crate) next_client: u64,
    pub(crate) job_waiters: BTreeMap<JobId, JobWaiters>,
    /// Jobs that somebody began to wait for in this turn.
    pub(crate) new_waits: Vec<JobId>,
    pub(crate) tools: crate::spawn::tools::Tools,
    pub(crate) connections: BTreeMap<UnitId, crate::socket::accept::Connection>,
    /// Instances whose process has its connection.
    pub(crate) handed_over: Vec<UnitId>,
    pub(crate) stored_fds: crate::process::stored_fds::FdStore,
    pub(crate) environment: Environment,
    /// Units that are being frozen or thawed, and which of both.
    pub(crate) freezing: BTreeMap<UnitId, (EffectId, bool)>,
    /// Commands that wait for their environment files.
    pub(crate) environments: Reads,
    /// Who commands run as that no file says.
    pub(crate) names: Names,
    /// Conditions to be looked at at the end of the turn.
    pub(crate) checks: Vec<(EffectId, Arc<warren_unit::config::UnitSection>)>,
    pub(crate) name_watcher: Option<warren_bus::names::NameWatcher>,
    /// Services of `Type=dbus` by the name that they are to take.
    pub(crate) bus_names: BTreeMap<Box<str>, Vec<UnitId>>,
    pub(crate) loads: BTreeMap<u64, crate::daemon::requests::AfterLoad>,
    pub(crate) next_load: u64,
    /// What strangers ask of the loader.
    pub(crate) questions: Questions<(Call, ReplySender)>,
    pub(crate) leaving: Option<Leaving>,
    /// Readiness was told to whoever started this manager.
    pub(crate) ready_told: bool,
    /// Clients can connect: only then is readiness told.
    pub(crate) serving: bool,
    /// The first transaction was asked for.
    pub(crate) first_unit_asked: bool,
    /// The effects that are carried out now were asked for by the last incarnation already.
    pub(crate) resuming: bool,
    /// Processes that have ended, of which no record was there yet.
    pub(crate) missing: Missing,
    /// Counts the managers of this init.
    pub(crate) incarnation: u64,
    /// What is done when everything is stopped, once the manager is going down.
    pub(crate) ending: Option<crate::shutdown::stages::Ending>,
    /// An end that is to come.
    pub(crate) planned: crate::shutdown::plan::Planned,
    /// When Ctrl-Alt-Del was typed of late.
    pub(crate) ctrl_alt_dels: Vec<Monotonic>,
    /// What is taken away off the loop, and what waits for it.
    pub(crate) sweep: crate::shutdown::sweep::Sweep,
    /// Units that may be forgotten.
    pub(crate) collector: crate::daemon::unit_gc::Collector,
    /// `Accept=yes` sockets.
    pub(crate) doors: crate::socket::accept::Doors,
    pub(crate) pings: crate::base::heartbeat::Pings,
    pub(crate) started: Moment,
    /// Ends of processes that no helper has told of yet.
    pub(crate) early_exits: EarlyExits,
    /// What processes said before the helper that made them, where their cgroup does not tell their unit.
    pub(crate) early_notices: Vec<EarlyNotice>,
    /// Wrong values of units that were said.
    pub(crate) faults_said: BTreeMap<UnitId, Box<[warren_unit::Diagnostic]>>,
    /// Processes of spawns that were answered in this turn and are not known to the core yet, with
    /// their units.
    pub(crate) fresh_pids: BTreeMap<u32, Option<UnitId>>,
    /// Processes that units named as their main ones in this turn, or that were found to be.
    pub(crate) named_mains: Vec<(UnitId, u32)>,
    /// It was said that no helper that is held up is replaced any more.
    pub(crate) too_many_held_told: bool,
    /// What helpers answered to the last incarnation.
    pub(crate) answered: Answered,
    /// What may have been begun by it, until all helpers have answered.
    pub(crate) unsettled: Vec<Effect>,
    /// Spawns that the last incarnation may have asked for, and that were given up before this one did: they are
    /// answered when all helpers have told what they did then.
    pub(crate) given_up: BTreeSet<EffectId>,
}

impl Daemon {
    /// Serves until it is told to leave; returns the exit status.
    pub fn run(mut self) -> i32 {
        let mut ready = Events::with_capacity(256);
        // From now on init misses it when it is silent, also in its first turn.
        self.heartbeat();
        loop {
            self.turn();
            self.heartbeat();
            self.settle_held();
            self.load_mounts();
            self.go_on_planned();
            if let Some(leaving) = self.leaving {
                return self.leave(leaving);
            }
            let timeout = self.timeout();
            if let Err(e) = self.epoll.wait(&mut ready, Some(timeout)) {
                say!("cannot wait for events: {e}");
                return 1;
            }
            ready.iter().for_each(|source| self.source_ready(source.token));
            self.told_at_once = 0;
            if !self.others.is_empty() {
                self.turn();
                self.signal_others();
            }
            // What was taken in while there was no room for a request makes no socket readable.
            if self.init.has_early() {
                self.read_init();
            }
            self.tell_missing();
            self.try_doors_again();
            self.collect();
            self.end_held_up();
            let moment = Instant::now();
            self.patients().for_each(|patient| patient.relieve(moment));
            self.look_for_pid_files();
            self.go_on_hearing();
            self.leave_late_traps();
            self.leave_late_sockets();
            self.leave_late_environments();
            self.events.push_back(Event::Tick);
        }
    }

    fn timeout(&self) -> Duration {
        // What came up after the turn, as the beginning of an end that was planned, makes no source
        // ready.
        let is_due = !self.events.is_empty();
        if is_due || self.init.has_early() || !self.others.is_empty() || self.core.is_behind() {
            return Duration::ZERO;
        }
        let (monotonic, moment) = (now().monotonic, Instant::now());
        let deadline = self.patients().filter_map(Patient::deadline).min();
        let patience = self.patients().filter_map(|patient| patient.patience_left(moment)).min();
        let left = deadline.map(|at| at.since(monotonic));
        left.into_iter().chain(patience).chain([HEARTBEAT]).min().unwrap_or(HEARTBEAT)
    }

    /// All that is due at some time: the loop waits until the first of them is.
    fn patients(&self) -> impl Iterator<Item = &dyn Patient> {
        let all: [&dyn Patient; 16] = [
            &self.core,
            &self.missing,
            &self.doors,
            &self.collector,
            &self.ending,
            &self.planned,
            &self.helpers,
            &self.workers,
            &self.pid_files,
            &self.notify,
            &self.traps,
            &self.sockets,
            &self.environments,
            &self.names,
            &self.log_link,
            &self.bus,
        ];
        all.into_iter()
    }

    // ---- sources ----

    fn source_ready(&mut self, token: u64) {
        let number = (token & !token::KIND) as u32;
        match token & token::KIND {
            token::INIT => self.read_init(),
            token::EXITS => self.read_exits(),
            token::HELPER => self.read_helper(number as usize),
            token::WAKE => self.read_wake(),
            token::NOTIFY => self.read_notify(),
            token::GROUPS => self.read_groups(),
            token::TRAPS => {
                for asked in self.traps.read() {
                    self.events.push_back(match asked {
                        Asked::Missing(unit, token) => Event::TrapHit { unit, token },
                        Asked::Idle(unit, token) => Event::TrapIdle { unit, token },
                    });
                }
            }
            token::LOG => self.read_log_link(),
            token::DEVICES => self.read_devices(),
            token::CONSOLE => self.read_console(),
            token::SOCKET => self.socket_ready(UnitId(number)),
            token::STRANGER => self.stranger_ended(number),
            token::HELD => self.held_hung_up(number as usize),
            token::STORED => self.stored_fd_hung_up(number),
            token::CLOCK => self.clock_changed(),
            token::PID_FILES => self.pid_files.changed(),
            _ => {}
        }
    }

    fn read_init(&mut self) {
        // Each connection that is taken asks for the next: others are to have their turn.
        for _ in 0..INIT_MESSAGES_PER_TURN_MAX {
            let Some(message) = self.init.receive() else { return };
            match message {
                FromInit::Helper { index, socket } => self.take_helper(index, socket),
                FromInit::Signal(signal) => self.signal(signal),
                FromInit::Refused(why, name) => self.not_kept(why, &name),
                FromInit::Stored { listed, last } => self.take_listed(listed, last),
                FromInit::Pong(number) => {
                    self.pings.answered();
                    self.helpers.take_back(number);
                    self.listen_where_closed(number);
                }
                FromInit::Accepted { token, connection } => self.accepted(token, connection),
                FromInit::Gone => {
                    say!("init is gone");
                    self.leaving = Some(Leaving::Restart);
                    return;
                }
            }
        }
    }

    fn read_wake(&mut self) {
        let results: Vec<(EffectId, Done)> = self
            .workers
            .results()
            .chain(self.killers.results())
            .chain(self.pid_files.hear())
            .collect();
        for (effect, result) in results {
            if self.group_killed(effect, &result)
                || self.environment_read(effect)
                || self.own_effect_done(effect, &result)
            {
                continue;
            }
            self.done(effect, result);
        }
        let orders: Vec<Order> = self.orders.try_iter().collect();
        let asked = orders.iter().filter(|order| order.is_asked()).count();
        self.recorder.asked(now().monotonic, asked);
        orders.into_iter().for_each(|order| self.take_order(order));
        self.recorder.answered(now().monotonic, asked);
        let graph = self.core.graph().clone();
        let changes = self.mounts.take(&graph);
        self.take_mount_changes(changes);
        let gone = self.mounts.take_gone_traps(&graph);
        gone.into_iter().for_each(|unit| self.traps.look(unit));
        self.events.extend(self.traps.hear());
        self.hear_spill();
        self.hear_of_sockets();
        self.hear_of_names();
    }

    /// Has the units of mounts loaded that no file is for. What goes at the end needs no new
    /// generation.
    fn load_mounts(&mut self) {
        if self.ending.is_some() {
            return;
        }
        let core = &self.core;
        let is_busy = |name: &warren_unit::UnitName| {
            let run = core.graph().lookup(name).map(|unit| core.unit_run(unit));
            run.is_some_and(|run| run.job.is_some() || !run.active_state().is_down())
        };
        let binds = |device: &warren_unit::UnitName| self.devices.binds_mounts(device);
        if let Some(changes) = self.mounts.take_to_load(is_busy, binds) {
            self.load(|token| LoaderOrder::Mounts { changes, token }, AfterLoad::Mounts);
        }
    }

    /// What the mount table's thread tells lags behind what the manager itself does meanwhile: if
    /// it does not go with the unit's state, the kernel is asked.
    pub(crate) fn take_mount_changes(&mut self, changes: Vec<Event>) {
        let mut now = Now::default();
        for change in changes {
            let (unit, mounted) = match change {
                Event::Mounted { unit } => (unit, true),
                Event::Unmounted { unit } => (unit, false),
                _ => continue,
            };
            let expected = self.core.unit_run(unit).active_state().is_down() != mounted;
            let name = self.core.graph().name(unit);
            if mounted && self.collector.holds_mounted(unit, name) {
                continue;
            }
            let mut is_there = || {
                crate::spawn::mount_commands::is_mounted_now(name, &mut now)
                    && !self.mounts.is_given_away(name)
            };
            if expected || is_there() == mounted {
                self.events.push_back(change);
            }
        }
    }

    /// Signals of systemd(1) that are acted on.
    fn signal(&mut self, signal: i32) {
        const RTMIN: i32 = 34;
        let by = AskedBy::Signal(signal);
        match signal {
            1 => self.reload_by_signal(),
            15 if self.options.scope == warren_unit::Scope::System => self.reexecute(),
            15 => self.begin_end(PowerAction::Exit(0), by),
            // Ctrl-C where `warren run` was typed; to a user's manager the same as SIGTERM.
            2 if self.options.scope == warren_unit::Scope::System && !is_nested() => {
                self.ctrl_alt_del(by);
            }
            2 => self.begin_end(PowerAction::Exit(0), by),
            28 => self.start_if_there("kbrequest.target", JobMode::Replace),
            30 => self.start_if_there("sigpwr.target", JobMode::Replace),
            s if s == RTMIN => self.start_if_there("default.target", JobMode::Isolate),
            s if s == RTMIN + 1 => self.start_if_there("rescue.target", JobMode::Isolate),
            s if s == RTMIN + 2 => self.start_if_there("emergency.target", JobMode::Isolate),
            s if s == RTMIN + 3 => self.begin_end(PowerAction::Halt, by),
            s if s == RTMIN + 4 => self.begin_end(PowerAction::PowerOff, by),
            s if s == RTMIN + 5 => self.begin_end(PowerAction::Reboot, by),
            s if s == RTMIN + 6 => self.begin_end(PowerAction::Kexec, by),
            // At once means without stops, not without what the last steps save.
            s if s == RTMIN + 13 => self.end_without_stopping(PowerAction::Halt, by),
            s if s == RTMIN + 14 => self.end_without_stopping(PowerAction::PowerOff, by),
            s if s == RTMIN + 15 => self.end_without_stopping(PowerAction::Reboot, by),
            s if s == RTMIN + 16 => self.end_without_stopping(PowerAction::Kexec, by),
            s if s == RTMIN + 24 && self.options.scope == warren_unit::Scope::User => {
                self.begin_end(PowerAction::Exit(0), by);
            }
            s if s == RTMIN + 25 => self.reexecute(),
            _ => {}
        }
    }

    /// Ctrl-Alt-Del was typed: what files say is done, and by more than a few in a short time what
    /// `CtrlAltDelBurstAction=` says, whatever they do (systemd-system.conf(5)).
    fn ctrl_alt_del(&mut self, by: AskedBy) {
        let moment = now().monotonic;
        self.ctrl_alt_dels.retain(|&at| moment.since(at) < CTRL_ALT_DEL_WITHIN);
        self.ctrl_alt_dels.push(moment);
        let action = self.core.settings().defaults.ctrl_alt_del_burst;
        if self.ctrl_alt_dels.len() > CTRL_ALT_DELS_MAX && action != EmergencyAction::None {
            let action_name = action.as_str();
            say!("Ctrl-Alt-Del was typed more than {CTRL_ALT_DELS_MAX} times: {action_name}");
            self.ctrl_alt_dels.clear();
            let status = self.shared_exit_code();
            self.end_by(action, status, by);
        } else if !self.start_by_signal("ctrl-alt-del.target", JobMode::ReplaceIrreversibly) {
            self.begin_end(PowerAction::Reboot, by);
        }
    }

    fn start_if_there(&mut self, name: &str, mode: JobMode) {
        if !self.start_by_signal(name, mode) {
            say!("{name} does not exist: the signal is ignored");
        }
    }

    /// Has a unit started that systemd(1) names for a signal; false if there is none of that name. That it
    /// is refused, as one that is masked, the log says.
    fn start_by_signal(&mut self, name: &str, mode: JobMode) -> bool {
        let name = UnitName::parse(name).expect("a valid name");
        let graph = self.core.graph();
        let is_there = |unit: &UnitId| graph.definition(*unit).load_state != LoadState::NotFound;
        let Some(unit) = graph.lookup(&name).filter(is_there) else { return false };
        let (client, job_type) = (NOBODY, JobType::Start);
        let request = Request::Enqueue { unit, job_type, mode, reload_if_possible: false };
        self.events.push_back(Event::Request { client, asker: Asker::default(), request });
        true
    }

    // ---- one turn ----

    /// Steps through everything that has happened, until nothing is left to do at once.
    pub(crate) fn turn(&mut self) {
        // Waking a thread costs more than what it is told.
        let held = self.bus.as_ref().map(|bus| bus.hold());
        while !self.events.is_empty() {
            let mut effects = Vec::new();
            let moment = now();
            for event in self.events.drain(..) {
                effects.extend(self.core.step(moment, event));
            }
            self.fresh_pids.clear();
            self.take_in_named();
            self.finish_turn(effects);
        }
        drop(held);
    }

    /// Writes down, publishes, carries out, tells.
    pub(crate) fn finish_turn(&mut self, effects: Vec<Effect>) {
        // Events that were read and wait to be stepped through are not in what is written now.
        let all_stepped = self.events.is_empty();
        let (changed, renamed) = (self.core.take_changed(), self.core.take_renamed());
        let rearmed = self.core.take_rearmed();
        let (happenings, lost) = self.core.take_happenings();
        self.hear(&happenings);
        self.recorder.take(&happenings, lost);
        self.recorder.seen(now().monotonic);
        let mut late: Vec<Late> = effects.iter().filter_map(Late::of).collect();
        late.extend(self.still_late());
        self.compact(&late);
        let written = changed.iter().copied().chain(rearmed.iter().copied());
        match self.state.append(&self.core, written, &renamed, late) {
            Ok(()) if all_stepped => self.forget_sources(),
            Ok(()) => {}
            Err(e) => say!("cannot write run state: {e}"),
        }
        // Who sees what is done, as a process that begins, finds the state that had it done.
        let is_as_before = changed.is_empty() && rearmed.is_empty() && effects.is_empty();
        if !is_as_before || !self.core.totals().are_those_of(&self.shared.view().totals) {
            self.shared.publish(Arc::new(self.core.view()));
        }
        let mut notices = Vec::new();
        let mut replies = Vec::new();
        self.carry_out_held();
        for effect in effects {
            match effect {
                Effect::Tell(notice) => notices.push(notice),
                Effect::Reply { client, reply } => replies.push((client, reply)),
                other => self.carry_out(other),
            }
        }
        self.drop_kept_in_vain(&changed);
        self.kill_groups();
        self.traps.begin();
        self.sockets.begin();
        self.read_environments();
        self.tell_refused_spawns();
        self.leave_unwanted_environments(&changed);
        self.leave_unwanted_names(&changed);
        self.check_conditions();
        if !self.ending.as_ref().is_some_and(|ending| ending.is_for_good()) {
            self.note_idle(&changed);
        }
        self.look_at_log_daemon(&changed);
        self.look_for_device_daemon();
        self.tell(changed, notices, replies);
        self.go_on_ending();
        self.send_outgoing();
    }

    /// What led to this batch is written down: it need not be told again to the next incarnation.
    fn forget_sources(&mut self) {
        self.init.release(self.early_exits.first_record());
        self.forget_notices();
        self.forget_births();
        self.forget_plan_that_began();
        self.traps.release();
        for unit in std::mem::take(&mut self.handed_over) {
            self.drop_connection(unit);
        }
    }

    fn compact(&mut self, late: &[Late]) {
        if self.state.wants_compaction(self.ending.is_some()) {
            self.write_state_anew(late);
        }
    }

    /// Puts another state file in the place of this one, with nothing in it that is no longer so.
    pub(crate) fn write_state_anew(&mut self, late: &[Late]) {
        match self.state.compacted(&self.core, late.to_vec()) {
            Ok(new) => {
                if self.init.store(warren_init::protocol::control::STATE_NAME, new.fd()).is_ok() {
                    self.state = new;
                }
            }
            Err(e) => {
                say!("cannot compact run state: {e}");
                self.state.put_compaction_off();
            }
        }
    }

    /// Logs, answers and signals, in this order: who is answered finds what was said about it in the log.
    fn tell(
        &mut self,
        changed: BTreeSet<UnitId>,
        notices: Vec<Notice>,
        replies: Vec<(ClientId, Reply)>,
    ) {
        if changed.is_empty() && notices.is_empty() && replies.is_empty() {
            return;
        }
        let view = self.shared.view();
        for notice in &notices {
            crate::daemon::unit_log::notice(&view, self.core.settings(), notice);
        }
        self.send_outgoing();
        for (client, reply) in replies {
            self.answer(client, reply);
        }
        self.tell_job_waiters(&notices);
        self.tell_who_waits_in_vain(&changed);
        // Whoever came in after a restart has seen everything as it is now.
        if let Some(bus) = self.bus.as_ref().filter(|_| !self.resuming) {
            bus.publish(&view, changed.into_iter().collect(), notices);
        }
        self.tell_readiness();
    }

    fn tell_job_waiters(&mut self, notices: &[Notice]) {
        if self.job_waiters.is_empty() {
            return;
        }
        for notice in notices {
            if let Notice::JobRemoved { job, result, .. } = notice {
                for waiter in self.job_waiters.remove(job).into_iter().flat_map(|w| w.answers) {
                    waiter.send(Ended::Job(*result));
                }
            }
        }
    }

    /// Whoever waits for what only a person can bring about is told so; the job waits on.
    ///
    /// A wait becomes vain when a device's job begins to wait, or when somebody begins to wait for
    /// one that does: in all other turns nobody's way through the jobs is walked.
    fn tell_who_waits_in_vain(&mut self, changed: &BTreeSet<UnitId>) {
        if self.job_waiters.is_empty() {
            return self.new_waits.clear();
        }
        let view = self.shared.view();
        let new = std::mem::take(&mut self.new_waits);
        let jobs = match changed.iter().any(|&unit| view.graph.is_device(unit)) {
            true => self.job_waiters.keys().copied().collect(),
            false => new,
        };
        for job in jobs {
            let unit = self.job_waiters.get(&job).map(|waiters| waiters.unit);
            let Some(device) = unit.and_then(|unit| view.waits_in_vain_for(unit)) else { continue };
            for waiter in self.job_waiters.remove(&job).into_iter().flat_map(|w| w.answers) {
                waiter.send(Ended::InVain(view.graph.name(device).clone()));
            }
        }
    }

    /// `READY=1` to whoever started this manager, once the first transaction is worked off.
    pub(crate) fn tell_readiness(&mut self) {
        let is_starting = !self.serving || !self.first_unit_asked || self.core.totals().jobs > 0;
        if self.ready_told || is_starting || self.ending.is_some() {
            return;
        }
        self.ready_told = true;
        if !self.core.totals().startup_finished {
            self.core.set_startup_finished();
            let finished = now();
            let boot = BootTimes { finish: finished, ..self.core.boot_times() };
            self.core.set_boot_times(boot);
            self.shared.change_facts(|facts| facts.boot = boot);
            self.shared.publish(Arc::new(self.core.view()));
            self.recorder.boot_ended(finished, self.core.graph());
            let took = finished.monotonic.since(self.started.monotonic);
            say!("startup finished in {:.3} s", took.as_secs_f64());
            // What the start of thousands of units took goes back to the kernel; if no thread can
            // be had, it stays.
            let _ = std::thread::Builder::new().spawn(warren_sys::heap::trim);
        }
        crate::base::readiness::tell("READY=1\nSTATUS=Ready.");
    }

    fn leave(mut self, leaving: Leaving) -> i32 {
        match leaving {
            Leaving::Restart => {
                // Before the bus ends, which answers who asked for this there.
                self.control.iter().for_each(Control::leave_others_to_the_next);
                self.bus.iter_mut().for_each(Bus::leave_socket);
                // Init takes a link that is closed before the process has ended for a fault.
                std::mem::forget(self.init);
                EXIT_RESTART
            }
            Leaving::Power(action) => {
                if action == PowerAction::SoftReboot {
                    let mark = soft_reboot_mark(soft_reboots());
                    let _ = self.init.store(&mark, self.state.fd());
                }
                if let Err(e) = self.init.power(action) {
                    say!("cannot reach init: {e}");
                }
                // Init ends this process; until then there is nothing left to do.
                let _ = warren_sys::fdpass::recv(
                    self.init.socket(),
                    &mut [0; 64],
                    &mut Vec::new(),
                    true,
                );
                0
            }
        }
    }

    /// Remembers a client until the machine replies to it.
    pub(crate) fn remember(&mut self, client: Client) -> ClientId {
        let id = ClientId(self.next_client);
        self.next_client += 1;
        self.clients.insert(id, client);
        id
    }

    fn answer(&mut self, client: ClientId, reply: Reply) {
        match self.clients.remove(&client) {
            Some(Client::Bus(sender)) => sender.send(crate::daemon::requests::bus_answer(reply)),
            Some(Client::Waiter(waiter)) => match reply {
                // A job that ended in the step that made it is among this turn's notices, which
                // are looked at after the replies.
                Reply::Job { job, unit, .. } => {
                    let none = || JobWaiters { unit, answers: Vec::new() };
                    let answers = &mut self.job_waiters.entry(job).or_insert_with(none).answers;
                    answers.retain(|waiter| !waiter.is_in_vain());
                    answers.push(waiter);
                    self.new_waits.push(job);
                }
                Reply::Done => waiter.send(Ended::Nothing),
                Reply::Refused(refusal) => {
                    let (text, about) = (refusal.to_string(), refusal.unit().cloned());
                    waiter.send(Ended::Refused { text, about });
                }
            },
            None => {}
        }
    }
}

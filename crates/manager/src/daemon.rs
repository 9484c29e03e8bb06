//! The loop: waits, feeds events to the machine, writes down what changed, carries out effects,
//! publishes the view.
//!
//! Owns: [`Daemon`], the state of the manager, and everything that changes it; one file for each source
//! of events. Run state is written before effects are carried out, and the exit ring is released after
//! its records are written, so that nothing is lost if this process ends at any instruction.
//! Must not: decide what is to become of a unit (that is the core), or wait for anybody.
//! Thread: the loop.

mod accept;
mod by_client;
mod clients;
mod collector;
mod crash;
mod devices;
mod effects;
mod environment_files;
mod event_loop;
mod exits;
pub(crate) mod foreign_mains;
mod group_kills;
mod heartbeat;
mod loads;
mod log_link;
mod log_wait;
mod login_records;
mod mounts_into;
mod names;
mod namespaces;
mod nft_sets;
mod notify;
mod oomd;
mod planned_shutdown;
mod presets;
mod recovery;
pub(crate) mod requests;
mod resume;
mod servers;
mod shutdown;
mod signals;
mod sockets;
mod spawn_queue;
mod spawns;
mod stages;
pub mod start;
mod startup;
mod stored_fds;
mod sweep;
pub(crate) mod tasks;
mod timers;
mod transient;
mod triggers;
mod turn;
mod unit_faults;
mod unit_gc;
pub(crate) mod unit_log;
mod unreported_exits;
mod watchdog;

pub use event_loop::Leaving;

use crate::base::clock::now;
use crate::base::heartbeat::HEARTBEAT;
use crate::base::host::is_nested;
use crate::base::patience::Patient;
use crate::base::say::say;
use crate::base::token::{self, NOBODY};
use crate::cgroup::state::CgroupState;
use crate::control::server::Control;
use crate::daemon::clients::Clients;
use crate::daemon::event_loop::EventLoop;
use crate::daemon::loads::{AfterLoad, Loads};
use crate::daemon::stages::Stages;
use crate::daemon::start::{soft_reboot_mark, soft_reboots};
use crate::daemon::startup::{Startup, is_ready};
use crate::daemon::tasks::Task;
use crate::daemon::triggers::Triggers;
use crate::mount::automounts::AutofsRequest;
use crate::options::Options;
use crate::peer::state::Peers;
use crate::process::init_link::FromInit;
use crate::process::state::ProcessState;
use crate::published::orders::{LoaderOrder, Order};
use crate::published::shared::Shared;
use crate::recording::state::Recording;
use crate::shutdown::ctrl_alt_del::PRESSES_MAX;
use crate::shutdown::words::AskedBy;
use crate::spawn::state::Spawning;
use std::sync::Arc;
use std::time::{Duration, Instant};
use warren_bus::Bus;
use warren_core::machine::Core;
use warren_core::model::active_state::ActiveState;
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::model::job::{JobMode, JobType};
use warren_core::model::state::BootTimes;
use warren_core::protocol::event::{Done, Event};
use warren_core::protocol::request::{Asker, Request};
use warren_init::protocol::control::{EXIT_RESTART, PowerAction};
use warren_sys::epoll::Events;
use warren_sys::mount::Now;
use warren_unit::config::EmergencyAction;
use warren_unit::{LoadState, UnitName};

/// Messages of init read in one turn.
const INIT_MESSAGES_PER_TURN_MAX: usize = 64;

/// The manager.
pub struct Daemon {
    pub(crate) core: Core,
    pub(crate) options: Options,
    pub(crate) shared: Arc<Shared>,
    pub(crate) stages: Stages,
    pub(crate) recording: Recording,
    pub(crate) clients: Clients,
    pub(crate) loads: Loads,
    pub(crate) peers: Peers,
    pub(crate) process: ProcessState,
    pub(crate) cgroup: CgroupState,
    pub(crate) spawning: Spawning,
    pub(crate) triggers: Triggers,
    pub(crate) event_loop: EventLoop,
}

impl Daemon {
    /// Serves until it is told to leave; returns the exit status.
    pub fn run(mut self) -> i32 {
        let mut ready = Events::with_capacity(256);
        self.turn();
        // From now on init misses it when it is silent.
        self.heartbeat();
        self.follow_watchdog();
        self.follow_crash_settings();
        let mut woken = Instant::now();
        loop {
            self.turn();
            self.heartbeat();
            self.tell_watchdog();
            self.settle_held();
            self.load_mounts();
            self.go_on_planned();
            if let Some(leaving) = self.event_loop.leaving {
                return self.leave(leaving);
            }
            self.arm_alarm();
            let timeout = self.timeout();
            self.shared.counters.turn_took(woken.elapsed());
            if let Err(e) = self.event_loop.epoll.wait(&mut ready, Some(timeout)) {
                say!("cannot wait for events: {e}");
                return 1;
            }
            woken = Instant::now();
            let tokens = || ready.iter().map(|source| source.token);
            let is_late = |token: &u64| token::is_of_process(*token);
            tokens().filter(|token| !is_late(token)).for_each(|token| self.source_ready(token));
            if tokens().any(|token| is_late(&token)) {
                // Helpers have said which processes there are: the core is to know them before their news.
                self.turn();
                tokens().filter(is_late).for_each(|token| self.source_ready(token));
            }
            self.process.kills.signalled_at_once = 0;
            if !self.process.kills.other_processes.is_empty() {
                self.turn();
                self.signal_others();
            }
            // What was taken in while there was no room for a request makes no socket readable.
            if self.process.init.has_early() {
                self.read_init();
            }
            self.tell_missing();
            self.try_doors_again();
            self.end_pauses();
            self.collect();
            self.end_held_up();
            let moment = Instant::now();
            self.patients().for_each(|patient| patient.relieve(moment));
            self.look_for_pid_files();
            self.triggers.paths.look_again(moment);
            self.go_on_hearing();
            self.ask_for_strangers();
            self.leave_late_traps();
            self.leave_late_sockets();
            self.leave_late_environments();
            self.event_loop.events.push_back(Event::Tick);
        }
    }

    fn timeout(&self) -> Duration {
        // What came up after the turn, as the beginning of an end that was planned, makes no source
        // ready.
        let is_due = !self.event_loop.events.is_empty();
        if is_due
            || self.process.init.has_early()
            || !self.process.kills.other_processes.is_empty()
            || self.core.is_behind()
        {
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
        let all: [&dyn Patient; 21] = [
            &self.core,
            &self.process.table.unreported,
            &self.cgroup.unwatched_groups,
            &self.triggers.accepting.doors,
            &self.loads.collector,
            &self.loads.questions,
            &self.stages.shutdown.under_way,
            &self.stages.shutdown.planned,
            &self.spawning.helpers,
            &self.event_loop.workers,
            &self.process.pid_files,
            &self.triggers.paths,
            &self.process.notify,
            &self.triggers.traps,
            &self.triggers.sockets,
            &self.triggers.sockets.poll_limits,
            &self.spawning.environment_files,
            &self.spawning.users,
            &self.peers.log_link,
            &self.clients.servers.bus,
            &self.process.watchdog,
        ];
        all.into_iter()
    }

    // ---- sources ----

    fn source_ready(&mut self, token: u64) {
        let number = token as u32;
        match token & token::KIND {
            token::INIT => self.read_init(),
            token::EXITS => self.read_exits(),
            token::HELPER => self.read_helper(number as usize),
            token::WAKE => self.read_wake(),
            token::NOTIFY => self.read_notify(),
            token::GROUPS => self.read_groups(),
            token::TRAPS => {
                for asked in self.triggers.traps.read() {
                    self.event_loop.events.push_back(match asked {
                        AutofsRequest::Missing(unit, token) => Event::TrapHit { unit, token },
                        AutofsRequest::Idle(unit, token) => Event::TrapIdle { unit, token },
                    });
                }
            }
            token::LOG => self.read_log_link(),
            token::DEVICES => self.read_devices(),
            token::CONSOLE => self.read_console(),
            token::SOCKET => self.socket_ready(UnitId(number), token::socket_index(token)),
            token::STRANGER => self.stranger_ended(number),
            token::HELD => self.held_hung_up(number),
            token::STORED => self.stored_fd_hung_up(number),
            token::CLOCK => self.clock_changed(),
            token::WALL_CLOCK => self.wall_clock_tells(),
            token::PATHS => self.triggers.paths.changed(),
            token::PID_FILES => self.process.pid_files.changed(),
            _ => {}
        }
    }

    fn read_init(&mut self) {
        // Each connection that is taken asks for the next: others are to have their turn.
        for _ in 0..INIT_MESSAGES_PER_TURN_MAX {
            let Some(message) = self.process.init.receive() else { return };
            match message {
                FromInit::Helper { index, socket } => self.take_helper(index, socket),
                FromInit::Signal(signal) => self.signal(signal),
                FromInit::Refused(why, name) => self.not_kept(why, &name),
                FromInit::Stored { listed, last } => self.take_listed(listed, last),
                FromInit::Pong(number) => {
                    self.event_loop.pings.answered();
                    self.spawning.helpers.take_back(number);
                    self.listen_where_closed(number);
                }
                FromInit::Accepted { token, connection } => self.accepted(token, connection),
                FromInit::Gone => {
                    say!("lost the connection to init");
                    self.event_loop.leaving = Some(Leaving::Restart);
                    return;
                }
            }
        }
    }

    fn read_wake(&mut self) {
        let results: Vec<(EffectId, Done)> = self
            .event_loop
            .workers
            .results()
            .chain(self.process.kills.killers.results())
            .chain(self.process.pid_files.hear())
            .collect();
        for (effect, result) in results {
            if self.group_killed(effect, &result)
                || self.group_cleared(effect, &result)
                || self.environment_read(effect)
                || self.own_effect_done(effect, &result)
            {
                continue;
            }
            self.done(effect, result);
        }
        let orders: Vec<Order> = self.event_loop.orders.try_iter().collect();
        let asked = orders.iter().filter(|order| order.is_asked()).count();
        self.recording.recorder.asked(now().monotonic, asked);
        for order in orders {
            // Each finds done what the one before it asked for.
            match self.event_loop.tasks.is_empty() {
                true => self.take_order(order),
                false => self.event_loop.tasks.do_last(Task::of(order)),
            }
        }
        self.recording.recorder.answered(now().monotonic, asked);
        let graph = self.core.graph().clone();
        let changes = self.triggers.mounts.take(&graph);
        self.take_mount_changes(changes);
        let gone = self.triggers.mounts.take_gone_traps(&graph);
        gone.into_iter().for_each(|unit| self.triggers.traps.look(unit));
        self.event_loop.events.extend(self.triggers.traps.hear());
        self.event_loop.events.extend(self.triggers.paths.hear());
        self.say_unwatched();
        self.hear_spill();
        self.hear_of_sockets();
        self.hear_of_names();
    }

    /// Has the units of mounts loaded that no file is for. What goes at the end needs no new
    /// generation.
    fn load_mounts(&mut self) {
        if self.stages.shutdown.under_way.is_some() {
            return;
        }
        let core = &self.core;
        let is_busy = |name: &warren_unit::UnitName| {
            let run = core.graph().lookup(name).map(|unit| core.unit_run(unit));
            run.is_some_and(|run| run.job.is_some() || !run.active_state().is_down())
        };
        let binds = |device: &warren_unit::UnitName| self.peers.devices.binds_mounts(device);
        if let Some(changes) = self.triggers.mounts.take_to_load(is_busy, binds) {
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
            if mounted && self.loads.collector.holds_mounted(unit, name) {
                continue;
            }
            let mut is_there = || {
                crate::spawn::mount_commands::is_mounted_now(name, &mut now)
                    && !self.triggers.mounts.is_given_away(name)
            };
            if expected || is_there() == mounted {
                self.event_loop.events.push_back(change);
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
            s => self.set_by_signal(s - RTMIN),
        }
    }

    /// Ctrl-Alt-Del was typed: what files say is done, and by more than a few in a short time what
    /// `CtrlAltDelBurstAction=` says, whatever they do (systemd-system.conf(5)).
    fn ctrl_alt_del(&mut self, by: AskedBy) {
        let moment = now().monotonic;
        let is_burst = self.stages.shutdown.ctrl_alt_dels.press(moment);
        let action = self.core.settings().defaults.ctrl_alt_del_burst;
        if is_burst && action != EmergencyAction::None {
            let action_name = action.as_str();
            say!("Ctrl-Alt-Del was pressed more than {PRESSES_MAX} times: {action_name}");
            self.stages.shutdown.ctrl_alt_dels.clear();
            let status = self.shared_exit_code();
            self.end_by(action, status, by);
        } else if !self.start_by_signal("ctrl-alt-del.target", JobMode::ReplaceIrreversibly) {
            self.begin_end(PowerAction::Reboot, by);
        }
    }

    fn start_if_there(&mut self, name: &str, mode: JobMode) {
        if !self.start_by_signal(name, mode) {
            say!("{name} does not exist: ignoring the signal");
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
        self.event_loop.events.push_back(Event::Request {
            client,
            asker: Asker::default(),
            request,
        });
        true
    }

    /// `READY=1` to whoever started this manager, and the end of the startup once the first transaction is worked off.
    pub(crate) fn tell_readiness(&mut self) {
        let Startup { is_ready_announced, .. } = self.stages.startup;
        let is_finished = self.core.totals().startup_finished;
        let is_over = is_ready_announced && is_finished;
        if is_over || !self.stages.startup.has_begun() || self.stages.shutdown.under_way.is_some() {
            return;
        }
        let has_jobs = self.core.totals().jobs != 0;
        if !has_jobs && !is_finished {
            self.finish_startup();
        }
        if !is_ready_announced
            && is_ready(self.options.scope, has_jobs, self.is_basic_target_active())
        {
            self.stages.startup.is_ready_announced = true;
            crate::base::readiness::tell("READY=1\nSTATUS=Ready.");
        }
    }

    fn is_basic_target_active(&self) -> bool {
        let name = UnitName::parse("basic.target").expect("a valid name");
        let unit = self.core.graph().lookup(&name);
        unit.is_some_and(|unit| self.core.unit_run(unit).active_state() == ActiveState::Active)
    }

    fn finish_startup(&mut self) {
        self.core.set_startup_finished();
        let finished = now();
        let boot = BootTimes { finish: finished, ..self.core.boot_times() };
        self.core.set_boot_times(boot);
        self.shared.change_facts(|facts| facts.boot = boot);
        self.shared.publish(Arc::new(self.core.view()));
        self.recording.recorder.boot_ended(finished, self.core.graph());
        let took = finished.monotonic.since(self.stages.startup.began.monotonic);
        say!("startup finished in {:.3} s", took.as_secs_f64());
        // What the start of thousands of units took goes back to the kernel; if no thread can
        // be had, it stays.
        let _ = std::thread::Builder::new().spawn(warren_sys::heap::trim);
    }

    fn leave(mut self, leaving: Leaving) -> i32 {
        match leaving {
            Leaving::Failed => {
                std::mem::forget(self.process.init);
                1
            }
            Leaving::Restart => {
                // Before the bus ends, which answers who asked for this there.
                let servers = &self.clients.servers;
                let threads = servers.control.iter().chain(&servers.varlink);
                threads.for_each(Control::leave_others_to_the_next);
                self.clients.servers.bus.iter_mut().for_each(Bus::leave_socket);
                // Init takes a link that is closed before the process has ended for a fault.
                std::mem::forget(self.process.init);
                EXIT_RESTART
            }
            Leaving::Power(action) => {
                if action == PowerAction::SoftReboot {
                    let mark = soft_reboot_mark(soft_reboots());
                    let _ = self.process.init.store(&mark, self.recording.state.fd());
                }
                if let Err(e) = self.process.init.power(action) {
                    say!("cannot reach init: {e}");
                }
                // Init ends this process; until then there is nothing left to do.
                let _ = warren_sys::fdpass::recv(
                    self.process.init.socket(),
                    &mut [0; 64],
                    &mut Vec::new(),
                    true,
                );
                0
            }
        }
    }
}

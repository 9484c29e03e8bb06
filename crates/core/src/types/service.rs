//! Services, the way up: from the start job to `running` (systemd.service(5)).
//!
//! The phases are systemd's sub-states. The way down is in `service_stop`, what processes and the
//! notify socket say is in `service_events`.

pub(crate) mod edited_times;
pub(crate) mod events;
pub(crate) mod stop;

use crate::features::{cleanup, command_lines, runtime_limit};
use crate::graph::Graph;
use crate::machine::Core;
use crate::model::ids::{EffectId, UnitId};
use crate::model::job::JobKind;
use crate::model::part::Part;
use crate::model::process::*;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::model::time::Monotonic;
use crate::parts::unit_settings;
use crate::protocol::event::{Done, Effect, Spawn};
use crate::protocol::request::Notice;
use crate::protocol::trace_event::What;
use crate::settings::{Compiled, TypeSettings};
use crate::state_change;
use std::sync::Arc;
use std::time::Duration;
use warren_unit::config::{ExitType, ServiceConfig, ServiceType, TimeoutFailureMode};
use warren_unit::settings::{Group, Id};
use warren_unit::{LoadState, Relation};

/// How long `Type=idle` waits for other jobs at most (systemd.service(5)).
const IDLE_WAIT_MAX: Duration = Duration::from_secs(5);

impl ServiceRun {
    fn new() -> ServiceRun {
        ServiceRun {
            phase: ServicePhase::StartPre,
            main: None,
            main_asked: None,
            control: None,
            command: (CommandList::StartPre, 0),
            deadline: None,
            stop_by: None,
            clean: false,
            sudden: false,
            runtime_deadline: None,
            watchdog_deadline: None,
            watchdog_override_us: None,
            outcome: Outcome::Success,
            reload_outcome: Outcome::Success,
            ready: false,
            stopping: false,
            notify_reloading: false,
            stop_requested: false,
            group_empty: true,
            kill_asked: None,
            main_search: None,
            doomed: Vec::new(),
            fds_stored: 0,
        }
    }
}

const BUS_NAME: Id = Id::of(Group::Service, "BusName");

impl Core {
    pub(crate) fn set_service_phase(&mut self, unit: UnitId, phase: ServicePhase) {
        state_change::transit(self, unit, false, |run| {
            if let TypeState::Service(Service::Up(service)) = &mut run.state {
                service.phase = phase;
            }
        });
    }

    // ---- start ----

    pub(crate) fn service_start(&mut self, unit: UnitId) {
        let settings = unit_settings::compiled(self, unit);
        let config = settings.service();
        let mut run = Part::new(ServiceRun::new());
        let conditions = !config.exec_condition.is_empty();
        run.phase = if conditions { ServicePhase::Condition } else { ServicePhase::StartPre };
        let history = self.units.history_mut(unit);
        history.outcome = Outcome::Success;
        history.status_text = String::new();
        history.status_errno = 0;
        history.last_main = None;
        history.begin_account();
        history.has_cgroup = true;
        if conditions {
            state_change::transit(self, unit, false, |u| {
                u.state = TypeState::Service(Service::Up(run))
            });
            self.run_command(unit, CommandList::Condition, 0);
        } else if !config.exec_start_pre.is_empty() {
            state_change::transit(self, unit, false, |u| {
                u.state = TypeState::Service(Service::Up(run))
            });
            self.run_command(unit, CommandList::StartPre, 0);
        } else {
            run.phase = ServicePhase::Start;
            state_change::transit(self, unit, false, |u| {
                u.state = TypeState::Service(Service::Up(run))
            });
            self.enter_start(unit);
        }
    }

    pub(crate) fn enter_start_pre(&mut self, unit: UnitId) {
        if unit_settings::compiled(self, unit).service().exec_start_pre.is_empty() {
            return self.enter_start(unit);
        }
        self.set_service_phase(unit, ServicePhase::StartPre);
        self.run_command(unit, CommandList::StartPre, 0);
    }

    pub(crate) fn enter_start(&mut self, unit: UnitId) {
        self.set_service_phase(unit, ServicePhase::Start);
        // What was said before was said by a command that came before it.
        self.units.service_mut(unit).ready = false;
        let settings = unit_settings::compiled(self, unit);
        let config = settings.service();
        match config.service_type {
            _ if config.exec_start.is_empty() => self.enter_start_post(unit),
            ServiceType::Forking => self.run_command(unit, CommandList::Start, 0),
            ServiceType::Idle if self.totals.jobs > 1 => self.wait_idly(unit, None),
            _ => self.run_main(unit, 0),
        }
    }

    /// `Type=idle` runs from the begin of its wait on, as with systemd, whose process waits itself: nobody
    /// waits for its job meanwhile. `since_before` is until when it waits already.
    fn wait_idly(&mut self, unit: UnitId, since_before: Option<Monotonic>) {
        let until = since_before.unwrap_or(self.times.now.monotonic.after(IDLE_WAIT_MAX));
        self.set_service_phase(unit, ServicePhase::Running);
        self.units.service_mut(unit).deadline = Some(until);
        self.queues.idle_services.insert(unit);
    }

    /// `Type=idle` has waited for the other jobs, or long enough.
    pub(crate) fn service_idle_over(&mut self, unit: UnitId) {
        self.queues.idle_services.remove(&unit);
        if !self.has_no_main(unit) || cleanup::waits_for_clearing(self, unit) {
            return;
        }
        let is_to_stop =
            self.units.run(unit).job.as_ref().is_some_and(|job| job.kind == JobKind::Stop);
        match is_to_stop || self.totals.stopping {
            // As long as nobody cancels that, or the end that it outlasts goes on.
            true => {
                let later = self.times.now.monotonic.after(IDLE_WAIT_MAX);
                self.units.service_mut(unit).deadline = Some(later);
            }
            false => self.run_main(unit, 0),
        }
    }

    /// Whether the time is over for which `Type=idle` waits for others.
    pub(crate) fn has_idled_enough(&self, unit: UnitId) -> bool {
        self.units.service(unit).is_some_and(|run| run.deadline.is_none())
    }

    /// Whether it is a service of `Type=idle` that waits, and whose program is not asked for yet.
    pub(crate) fn waits_idly(&mut self, unit: UnitId) -> bool {
        match self.units.service(unit) {
            // So managers of before have written it.
            Some(run) if run.phase == ServicePhase::Start => {
                run.main.is_none() && run.main_asked.is_none()
            }
            Some(run) => run.phase == ServicePhase::Running && self.is_yet_to_run(unit),
            None => false,
        }
    }

    /// The same, whatever it does meanwhile. What runs has no deadline but that of its wait, also if it was
    /// edited and is of another type.
    fn is_yet_to_run(&mut self, unit: UnitId) -> bool {
        let until = |run: &ServiceRun| run.phase == ServicePhase::Running && run.deadline.is_some();
        self.has_no_main(unit)
            && (self.units.service(unit).is_some_and(until)
                || unit_settings::compiled(self, unit).service().service_type == ServiceType::Idle)
    }

    /// Whether it has had no main process since its start, and none is under way.
    fn has_no_main(&self, unit: UnitId) -> bool {
        let had_main = self.units.run(unit).history.as_ref().is_some_and(|h| h.last_main.is_some());
        let has_main = |run: &ServiceRun| {
            run.main.is_some() || run.main_asked.is_some() || run.main_search.is_some()
        };
        !had_main && self.units.service(unit).is_some_and(|run| !has_main(run))
    }

    /// Whether its main process was not there yet, though it runs.
    pub(crate) fn is_to_come(&mut self, unit: UnitId) -> bool {
        let is_asked = self.units.service(unit).is_some_and(|run| run.main_asked.is_some());
        is_asked || self.is_yet_to_run(unit)
    }

    pub(crate) fn enter_start_post(&mut self, unit: UnitId) {
        self.arm_watchdog(unit);
        if unit_settings::compiled(self, unit).service().exec_start_post.is_empty() {
            return self.enter_running(unit, true);
        }
        self.set_service_phase(unit, ServicePhase::StartPost);
        self.run_command(unit, CommandList::StartPost, 0);
    }

    /// The service is as it should be while it does its work, or has done it. `first` when it
    /// gets there by a start.
    pub(crate) fn enter_running(&mut self, unit: UnitId, first: bool) {
        let settings = unit_settings::compiled(self, unit);
        let config = settings.service();
        let is_yet_to_run = self.is_yet_to_run(unit);
        let run = self.units.service_mut(unit);
        let until = run.deadline.take().filter(|_| run.phase == ServicePhase::Running);
        if run.outcome != Outcome::Success && !self.outlives_its_main(unit, config) {
            return self.enter_signal(unit, ServicePhase::StopSigterm);
        }
        if first {
            runtime_limit::begin_runtime_limit(self, unit, config);
        }
        let run = self.units.service_mut(unit);
        let (stops, reloads) = (run.stopping, run.notify_reloading);
        if run.phase != ServicePhase::Start && config.service_type == ServiceType::Dbus {
            // It may have lost its name meanwhile: then it is told so.
            self.watch_bus_name(unit, true);
        }
        if is_yet_to_run {
            self.wait_idly(unit, until);
        } else if self.is_alive(unit, config) {
            match (stops, reloads) {
                (true, _) => self.goes_by_itself(unit, config),
                (false, true) => self.reloads_by_itself(unit, config),
                (false, false) => self.set_service_phase(unit, ServicePhase::Running),
            }
        } else if config.remain_after_exit {
            // What has exited does not run for too long.
            self.units.service_mut(unit).runtime_deadline = None;
            self.set_service_phase(unit, ServicePhase::Exited);
        } else {
            self.enter_stop(unit);
        }
    }

    /// Whether something of it runs that keeps it up.
    fn is_alive(&self, unit: UnitId, config: &ServiceConfig) -> bool {
        let Some(run) = self.units.service(unit) else { return false };
        let had_main = self.units.run(unit).history.as_ref().is_some_and(|h| h.last_main.is_some());
        let by_group = match config.exit_type {
            ExitType::Cgroup => true,
            ExitType::Main => config.service_type == ServiceType::Forking && !had_main,
        };
        run.main.is_some()
            || run.main_asked.is_some()
            || run.main_search.is_some()
            || by_group && !run.group_empty && !self.resources.without_cgroups
    }

    /// Whether it goes on until the last of its processes has ended, and some are left
    /// (systemd.service(5), `ExitType=cgroup`).
    pub(crate) fn outlives_its_main(&self, unit: UnitId, config: &ServiceConfig) -> bool {
        let is_empty = self.units.service(unit).is_none_or(|run| run.group_empty);
        config.exit_type == ExitType::Cgroup && !is_empty && !self.resources.without_cgroups
    }

    pub(crate) fn arm_watchdog(&mut self, unit: UnitId) {
        let settings = unit_settings::compiled(self, unit);
        let now = self.times.now.monotonic;
        let run = self.units.service_to_rearm(unit);
        let interval = match run.watchdog_override_us {
            Some(0) => None,
            Some(us) => Some(Duration::from_micros(us)),
            None => settings.service().watchdog,
        };
        run.watchdog_deadline = interval.map(|interval| now.after(interval));
    }

    // ---- spawning ----

    /// Asks for the main process.
    pub(crate) fn run_main(&mut self, unit: UnitId, index: u16) {
        let settings = unit_settings::compiled(self, unit);
        let timeout = settings.service().timeout_start;
        let id = self.outbox.new_effect(unit);
        let deadline = timeout.map(|t| self.times.now.monotonic.after(t));
        let run = self.units.service_mut(unit);
        run.main_asked = Some(id);
        // The process is told it, and an edit tells it nothing else.
        run.watchdog_override_us.get_or_insert_with(|| {
            let told = settings.service().watchdog.unwrap_or_default();
            u64::try_from(told.as_micros()).unwrap_or(u64::MAX)
        });
        run.command = (CommandList::Start, index);
        run.deadline = deadline;
        self.watch_bus_name(unit, true);
        self.spawn(id, unit, CommandList::Start, index, true, settings);
    }

    /// `Type=dbus`: begins or ends to watch `BusName=`.
    pub(crate) fn watch_bus_name(&mut self, unit: UnitId, on: bool) {
        let definition = self.graph.definition(unit);
        // Whose file is gone has its settings at hand, as long as this manager lives.
        if definition.load_state == LoadState::Loaded && !definition.mentions(BUS_NAME) {
            return;
        }
        let settings = unit_settings::compiled(self, unit);
        if let Some(name) = name_to_take(&settings) {
            self.outbox.effects.push(Effect::WatchBusName { unit, name: name.into(), on });
        }
    }

    /// The service was edited, and `before` is the generation before that. A name that it is not to have any more says
    /// nothing of it. What runs is not asked for the new one.
    pub(crate) fn unwatch_name_of_before(&mut self, unit: UnitId, before: &Graph) {
        let Some(run) = self.units.service(unit) else { return };
        let phase = run.phase;
        let was = before.get(unit).filter(|was| was.mentions(BUS_NAME));
        let Some(was) = was.filter(|was| was.load_state == LoadState::Loaded) else { return };
        let was: Option<Box<str>> =
            name_to_take(&self.settings().compile_running(was)).map(Box::from);
        let settings = self.settings().compile_running(self.graph.definition(unit));
        let is = name_to_take(&settings);
        let Some(name) = was.filter(|was| is != Some(&**was)) else { return };
        let is_awaited = is.is_some() && phase == ServicePhase::Start;
        self.outbox.effects.push(Effect::WatchBusName { unit, name, on: false });
        if is_awaited {
            self.watch_bus_name(unit, true);
        }
    }

    /// Asks for the control process that runs command `index` of `list`.
    pub(crate) fn run_command(&mut self, unit: UnitId, list: CommandList, index: u16) {
        let settings = unit_settings::compiled(self, unit);
        let config = settings.service();
        let deadline = match list {
            CommandList::Stop | CommandList::StopPost => {
                self.stop_command_deadline(unit, config, list)
            }
            _ => config.timeout_start.map(|t| self.times.now.monotonic.after(t)),
        };
        let id = self.outbox.new_effect(unit);
        let run = self.units.service_mut(unit);
        run.control = Some(Control::Asked(id));
        run.command = (list, index);
        run.deadline = deadline;
        self.spawn(id, unit, list, index, false, settings);
    }

    fn spawn(
        &mut self,
        id: EffectId,
        unit: UnitId,
        list: CommandList,
        index: u16,
        main: bool,
        settings: Arc<Compiled>,
    ) {
        let spawn = Spawn {
            unit,
            list,
            index,
            main,
            environment: self.service_environment(unit, list),
            sockets: self.sockets_for(unit, list, main, &settings),
            invocation: self.units.run(unit).history.as_ref().map_or(0, |h| h.invocation),
            settings,
        };
        command_lines::note_line(self, unit, list, index, &spawn.settings);
        self.units.service_mut(unit).group_empty = false;
        self.outbox.effects.push(Effect::Spawn(id, Box::new(spawn)));
    }

    /// The environment that follows from the state (systemd.exec(5), "ENVIRONMENT VARIABLES SET").
    pub(crate) fn service_environment(
        &self,
        unit: UnitId,
        list: CommandList,
    ) -> Vec<(&'static str, String)> {
        let mut out = Vec::new();
        let Some(run) = self.units.service(unit) else { return out };
        if let Some(main) = run.main {
            out.push(("MAINPID", main.pid.to_string()));
        }
        if matches!(list, CommandList::Stop | CommandList::StopPost) {
            out.push(("SERVICE_RESULT", run.outcome.as_str().to_owned()));
            let last = self.units.run(unit).history.as_ref().and_then(|h| h.last_main);
            if let Some(ended) = last {
                let (code, status) = exit_words(ended.status);
                out.push(("EXIT_CODE", code.to_owned()));
                out.push(("EXIT_STATUS", status));
            }
        }
        if matches!(list, CommandList::StartPre | CommandList::Start) {
            out.extend(self.monitored(unit));
        }
        out
    }

    /// What a service that `OnFailure=` or `OnSuccess=` starts is told of the service whose end that
    /// was; nothing if it is there for several.
    fn monitored(&self, unit: UnitId) -> Vec<(&'static str, String)> {
        let ways = [Relation::OnFailureOf, Relation::OnSuccessOf];
        let mut all = ways.into_iter().flat_map(|way| self.graph.related(unit, way));
        let (Some(other), None) = (all.next(), all.next()) else { return Vec::new() };
        let history = match (&self.units.run(other).state, &self.units.run(other).history) {
            (TypeState::Service(_), Some(history)) => history,
            _ => return Vec::new(),
        };
        let mut out =
            vec![("MONITOR_SERVICE_RESULT", self.units.outcome(other).as_str().to_owned())];
        if let Some(ended) = history.last_main {
            let (code, status) = exit_words(ended.status);
            out.push(("MONITOR_EXIT_CODE", code.to_owned()));
            out.push(("MONITOR_EXIT_STATUS", status));
        }
        out.push(("MONITOR_INVOCATION_ID", format!("{:032x}", history.invocation)));
        out.push(("MONITOR_UNIT", self.graph.name(other).to_string()));
        out
    }

    /// The socket units whose file descriptors a command gets: one of `ExecStart=`, whether it becomes
    /// the main process or makes it, and each that has a socket as a standard stream.
    pub(crate) fn sockets_for(
        &self,
        unit: UnitId,
        list: CommandList,
        main: bool,
        settings: &Compiled,
    ) -> Vec<UnitId> {
        let by_stream = match &settings.own {
            TypeSettings::Service(config) => config.exec.takes_socket(),
            _ => false,
        };
        match main || list == CommandList::Start || by_stream {
            true => self.sockets_of(unit),
            false => Vec::new(),
        }
    }

    /// The socket units whose file descriptors the service gets: those that trigger it, as one does
    /// whose file is gone, and those of `Sockets=` (which are relations of the same kind), as far as
    /// they are open.
    fn sockets_of(&self, unit: UnitId) -> Vec<UnitId> {
        let open = |&socket: &UnitId| match &self.units.run(socket).state {
            TypeState::Socket(Socket::Up(run)) => run.fds > 0,
            _ => false,
        };
        self.triggers_of(unit).into_iter().filter(open).collect()
    }

    /// Whether this effect is the spawn of the unit's main process.
    pub fn is_main_asked(&self, unit: UnitId, effect: EffectId) -> bool {
        self.units.service(unit).is_some_and(|run| run.main_asked == Some(effect))
    }

    pub(crate) fn service_done(&mut self, unit: UnitId, effect: EffectId, result: Done) {
        if self.freezer_done(unit, effect, &result) || self.clearing_done(unit, effect, &result) {
            return;
        }
        let Some(run) = self.units.service(unit) else { return };
        let signalled = Some(run.phase).filter(|phase| phase.is_signalled());
        let has_failed = !matches!(result, Done::Spawned { .. });
        if run.main_asked == Some(effect) {
            self.units.service_mut(unit).main_asked = None;
            match result {
                Done::Spawned { pid } => self.main_spawned(unit, pid),
                Done::SpawnFailed { exit_code, error } => {
                    self.main_not_spawned(unit, exit_code, error)
                }
                Done::NeverBegun if signalled.is_some() => {}
                _ => self.main_not_spawned(unit, 0, "the request was lost".to_owned()),
            }
            if let Some(phase) = signalled.filter(|_| has_failed) {
                self.latecomer_missing(unit, phase);
            }
        } else if run.control == Some(Control::Asked(effect)) {
            match result {
                Done::Spawned { pid } => self.control_spawned(unit, pid),
                Done::SpawnFailed { exit_code, error } => {
                    self.control_not_spawned(unit, exit_code, error)
                }
                _ => self.control_not_spawned(unit, 0, "the request was lost".to_owned()),
            }
            if let Some(phase) = signalled.filter(|_| has_failed) {
                self.latecomer_missing(unit, phase);
            }
        } else if run.kill_asked == Some(effect) {
            self.units.service_mut(unit).kill_asked = None;
            // Said of the moment of the signal: processes that come later are not in it. For one
            // that came since, the signal was sent again, so this is after it, and it is gone too.
            let run = self.units.service_mut(unit);
            let since = run.main_asked.is_some() || matches!(run.control, Some(Control::Asked(_)));
            if matches!(result, Done::Killed { processes: 0 }) && !since {
                run.group_empty = true;
            }
            self.advance_if_stopped(unit);
        } else if run.doomed.contains(&effect) {
            self.doomed_done(unit, effect, result);
        } else if run.main_search == Some(effect) {
            self.units.service_mut(unit).main_search = None;
            let pid = if let Done::MainProcess { pid } = result { pid } else { None };
            self.main_found(unit, pid);
        }
    }

    fn main_spawned(&mut self, unit: UnitId, pid: u32) {
        let started = self.times.now;
        self.outbox.happened(
            self.times.now.monotonic,
            unit,
            What::ProcessStarted { pid, list: CommandList::Start, main: true },
        );
        let run = self.units.service_mut(unit);
        run.group_empty = false;
        // It may have named another one before it was known itself.
        if run.main.is_none_or(|named| named.pid == pid) {
            run.main = Some(Process { pid, started });
            self.pids.own(pid, unit);
        }
        match self.units.service_mut(unit).phase {
            // `Type=idle` runs already.
            ServicePhase::Start | ServicePhase::Running => {}
            ServicePhase::Reload => return,
            _ => {
                self.signal_latecomer(unit);
                // With `KillMode=none` nobody is waited for.
                return self.advance_if_stopped(unit);
            }
        }
        match unit_settings::compiled(self, unit).service().service_type {
            ServiceType::Simple | ServiceType::Idle | ServiceType::Exec => {
                self.enter_start_post(unit);
            }
            ServiceType::Oneshot | ServiceType::Forking => {}
            ServiceType::Notify | ServiceType::NotifyReload | ServiceType::Dbus => {
                if self.units.service(unit).is_some_and(|run| run.ready) {
                    self.enter_start_post(unit);
                }
            }
        }
    }

    /// The main process could not be executed. To the outside a `Type=simple` service counts as
    /// started before that is known (systemd.service(5)): its start job succeeds, then it fails.
    fn main_not_spawned(&mut self, unit: UnitId, exit_code: u8, error: String) {
        let now = self.times.now;
        let settings = unit_settings::compiled(self, unit);
        let config = settings.service();
        // `Type=idle` runs already.
        let phase = self.units.service_phase(unit);
        let in_start = matches!(phase, Some(ServicePhase::Start | ServicePhase::Running));
        let code = if exit_code == 0 { Code::Resources } else { Code::ExecFailed };
        let index = self.main_index(unit, config);
        let command = config.exec_start.get(index);
        let ignored = command.is_some_and(|c| c.ignore_failure) && exit_code != 0;
        self.note_not_spawned(unit, code, error, ignored);
        let status =
            ExitStatus::Exited(if ignored { without_program(exit_code) } else { exit_code });
        if exit_code != 0 {
            let ended = Ended { pid: 0, started: now, ended: now, status };
            self.units.history_mut(unit).last_main = Some(ended);
        }
        if !ignored {
            let outcome = if exit_code == 0 { Outcome::Resources } else { Outcome::ExitCode };
            let simple = matches!(config.service_type, ServiceType::Simple | ServiceType::Idle);
            if in_start && simple && exit_code != 0 {
                self.set_service_phase(unit, ServicePhase::Running);
            }
            self.units.set_outcome(unit, outcome);
        }
        if in_start {
            match (self.units.service_mut(unit).outcome, config.service_type) {
                (Outcome::Success, ServiceType::Oneshot) => self.oneshot_over(unit, index, true),
                (Outcome::Success, ServiceType::Notify | ServiceType::NotifyReload) => {
                    self.fail_service(unit, Outcome::Protocol, Code::Protocol);
                    self.enter_signal(unit, ServicePhase::StopSigterm);
                }
                (Outcome::Success, _) => self.enter_start_post(unit),
                _ => self.enter_signal(unit, ServicePhase::StopSigterm),
            }
        }
    }

    /// The parent of a forking service has left: who is the main process now?
    pub(crate) fn search_main(&mut self, unit: UnitId) {
        let settings = unit_settings::compiled(self, unit);
        let config = settings.service();
        if config.pid_file.is_none() && !config.guess_main_pid {
            return self.enter_start_post(unit);
        }
        // `ExecStartPost=` may be what writes the file.
        self.find_main(unit, config, config.exec_start_post.is_empty());
    }

    /// The last command after the start is over. Now a file has to say who the main process is.
    pub(crate) fn start_post_over(&mut self, unit: UnitId) {
        let settings = unit_settings::compiled(self, unit);
        let config = settings.service();
        let by_file = config.service_type == ServiceType::Forking && config.pid_file.is_some();
        match by_file && self.has_no_main_yet(unit) {
            true => self.find_main(unit, config, true),
            false => self.enter_running(unit, true),
        }
    }

    pub(crate) fn has_no_main_yet(&self, unit: UnitId) -> bool {
        let has_none = self.units.service(unit).is_some_and(|run| run.main.is_none());
        has_none && self.units.run(unit).history.as_ref().is_none_or(|h| h.last_main.is_none())
    }

    /// Has the main process looked for, and waits for a file to name it or not.
    pub(crate) fn find_main(&mut self, unit: UnitId, config: &ServiceConfig, waits: bool) {
        let id = self.outbox.new_effect(unit);
        self.units.service_mut(unit).main_search = Some(id);
        let pid_file = config.pid_file.clone();
        self.outbox.effects.push(Effect::FindMain { id, unit, pid_file, waits });
    }

    /// The main process of a service with `PIDFile=` has ended: the file may name another one by now, as when
    /// a daemon puts a newer version of itself in its place. False if nobody can be left.
    pub(crate) fn search_successor(&mut self, unit: UnitId, config: &ServiceConfig) -> bool {
        use ServicePhase::{Reload, ReloadNotify, ReloadSignal, Running, StartPost};
        let run = self.units.service(unit).expect("its main process has just ended");
        let works = matches!(run.phase, StartPost | Running | Reload | ReloadSignal | ReloadNotify);
        let by_file = config.service_type == ServiceType::Forking && config.pid_file.is_some();
        let is_left = works && !run.stopping && run.outcome == Outcome::Success;
        let may_be_there =
            is_left && by_file && (!run.group_empty || self.resources.without_cgroups);
        if may_be_there {
            self.find_main(unit, config, false);
        }
        may_be_there
    }

    pub(crate) fn main_found(&mut self, unit: UnitId, pid: Option<u32>) {
        let settings = unit_settings::compiled(self, unit);
        let asked_by_file = settings.service().pid_file.is_some();
        let phase = self.units.service_phase(unit);
        let is_last_look = phase == Some(ServicePhase::StartPost) && self.has_no_main_yet(unit);
        let in_start = phase == Some(ServicePhase::Start) || is_last_look;
        let last = self.units.run(unit).history.as_ref().and_then(|history| history.last_main);
        // It may have named itself meanwhile. And a file may be left behind by who has ended.
        let is_known = !in_start && self.units.service(unit).is_some_and(|run| run.main.is_some());
        if is_known {
            return;
        }
        let pid = pid.filter(|&pid| in_start || last.is_none_or(|last| last.pid != pid));
        if let Some(pid) = pid {
            self.adopt_main(unit, pid);
        }
        if !in_start {
            // It was looked for in the place of one that had ended.
            return last
                .filter(|_| pid.is_none())
                .into_iter()
                .for_each(|last| self.main_gone(unit, last));
        }
        let comes_later = !is_last_look && !settings.service().exec_start_post.is_empty();
        if pid.is_none() && asked_by_file && !comes_later {
            self.fail_service(unit, Outcome::Protocol, Code::Protocol);
            return self.enter_signal(unit, ServicePhase::StopSigterm);
        }
        match is_last_look {
            true => self.enter_running(unit, true),
            false => self.enter_start_post(unit),
        }
    }

    /// Takes a process of the unit as its main process.
    pub(crate) fn adopt_main(&mut self, unit: UnitId, pid: u32) {
        let started = self.times.now;
        if let Some(old) = self.units.service_mut(unit).main {
            self.pids.disown(old.pid);
        }
        self.pids.own(pid, unit);
        self.outbox.happened(
            self.times.now.monotonic,
            unit,
            What::ProcessStarted { pid, list: CommandList::Start, main: true },
        );
        self.units.service_mut(unit).main = Some(Process { pid, started });
    }

    // ---- reload ----

    pub(crate) fn service_reload(&mut self, unit: UnitId) {
        let settings = unit_settings::compiled(self, unit);
        let config = settings.service();
        self.units.service_mut(unit).reload_outcome = Outcome::Success;
        if config.service_type == ServiceType::NotifyReload {
            return self.reload_by_signal(unit, config);
        }
        self.set_service_phase(unit, ServicePhase::Reload);
        self.run_command(unit, CommandList::Reload, 0);
    }

    fn reload_by_signal(&mut self, unit: UnitId, config: &ServiceConfig) {
        let now = self.times.now.monotonic;
        self.set_service_phase(unit, ServicePhase::ReloadSignal);
        let run = self.units.service_mut(unit);
        run.notify_reloading = false;
        run.ready = false;
        run.deadline = config.timeout_start.map(|t| now.after(t));
        // Of one that has exited and remains nobody is left to be told.
        let Some(main) = run.main else { return self.enter_running(unit, false) };
        let id = self.outbox.new_effect(unit);
        self.outbox.forget_effect(id);
        self.outbox.effects.push(Effect::Kill {
            id,
            unit,
            target: crate::protocol::event::KillTarget::Process(main.pid),
            signal: config.reload_signal.number(),
            then: crate::protocol::event::FollowUp::default(),
        });
    }

    // ---- deadlines ----

    pub(crate) fn service_deadline(&mut self, unit: UnitId) {
        let now = self.times.now.monotonic;
        let due = |at: Option<Monotonic>| at.is_some_and(|at| at <= now);
        let Some(run) = self.units.service(unit) else { return };
        let (phase, runtime, watchdog) =
            (due(run.deadline), due(run.runtime_deadline), due(run.watchdog_deadline));
        if phase {
            self.units.service_mut(unit).deadline = None;
            self.phase_timeout(unit);
        } else if watchdog {
            self.units.service_mut(unit).watchdog_deadline = None;
            self.watchdog_missed(unit);
        } else if runtime {
            self.units.service_mut(unit).runtime_deadline = None;
            self.ran_too_long(unit);
        }
    }

    /// Whether it is in a phase in which a watchdog guards it.
    pub(crate) fn is_guarded(&self, unit: UnitId) -> bool {
        use ServicePhase::{Reload, ReloadNotify, ReloadSignal, Running, StartPost};
        let phase = self.units.service_phase(unit);
        matches!(phase, Some(StartPost | Running | Reload | ReloadSignal | ReloadNotify))
    }

    /// It says that something is wrong with it (sd_notify(3), `WATCHDOG=trigger`), be it before it is ready.
    pub(crate) fn watchdog_triggered(&mut self, unit: UnitId) {
        let starts = self.units.service_phase(unit) == Some(ServicePhase::Start);
        if starts || self.is_guarded(unit) {
            self.bitten(unit);
        }
    }

    pub(crate) fn watchdog_missed(&mut self, unit: UnitId) {
        if self.is_guarded(unit) {
            self.bitten(unit);
        }
    }

    fn bitten(&mut self, unit: UnitId) {
        self.fail_service(unit, Outcome::Watchdog, Code::WatchdogTimeout);
        self.enter_signal(unit, ServicePhase::StopWatchdog);
    }

    fn phase_timeout(&mut self, unit: UnitId) {
        use ServicePhase::*;
        let settings = unit_settings::compiled(self, unit);
        let config = settings.service();
        match self.units.service_phase(unit).expect("the deadline is of a run") {
            Start if config.service_type == ServiceType::Idle && self.waits_idly(unit) => {
                self.service_idle_over(unit)
            }
            Running => self.service_idle_over(unit),
            Condition | StartPre | Start | StartPost => {
                self.say_what_was_missing(unit, config);
                self.fail_service(unit, Outcome::Timeout, Code::StartTimeout);
                self.end_in_mode(unit, config, config.timeout_start_failure_mode);
            }
            Reload | ReloadSignal | ReloadNotify => {
                self.units.service_mut(unit).reload_outcome = Outcome::Timeout;
                self.units.service_mut(unit).notify_reloading = false;
                self.kill_control(unit);
                self.enter_running(unit, false);
            }
            AutoRestart => self.restart_now(unit),
            Exited => {}
            _ => self.stop_timeout(unit, config),
        }
    }

    /// Has it end as the file says of timeouts. Whom nobody may kill (systemd.kill(5), `SendSIGKILL=`) is left
    /// alone until what comes after a stop is run.
    pub(crate) fn end_in_mode(
        &mut self,
        unit: UnitId,
        config: &ServiceConfig,
        mode: TimeoutFailureMode,
    ) {
        match mode {
            TimeoutFailureMode::Kill if !config.kill.send_sigkill => self.enter_stop_post(unit),
            _ => self.enter_signal(unit, stop_phase(mode)),
        }
    }

    /// What a start that took too long did not come to, unless the service tells by itself where it
    /// was.
    fn say_what_was_missing(&mut self, unit: UnitId, config: &ServiceConfig) {
        let run = self.units.service(unit).expect("its start has just timed out");
        let (phase, is_searched) = (run.phase, run.main_search.is_some());
        let missing = match (phase, config.service_type) {
            (ServicePhase::Condition, _) => "ExecCondition= did not end".to_owned(),
            (ServicePhase::StartPre, _) => "ExecStartPre= did not end".to_owned(),
            (ServicePhase::StartPost, _) => "ExecStartPost= did not end".to_owned(),
            (_, ServiceType::Notify | ServiceType::NotifyReload) => {
                "READY=1 was not heard".to_owned()
            }
            (_, ServiceType::Dbus) => "BusName= was not taken".to_owned(),
            (_, ServiceType::Forking) if is_searched => {
                let path = config.pid_file.as_deref().unwrap_or_default();
                format!("PIDFile={path} named no process of it")
            }
            (_, ServiceType::Forking) => "its first process did not leave".to_owned(),
            _ => "ExecStart= did not end".to_owned(),
        };
        let text = &mut self.units.history_mut(unit).status_text;
        if text.is_empty() {
            *text = missing;
        }
    }

    /// Notes the first thing that went wrong, on the run and for the log.
    pub(crate) fn fail_service(&mut self, unit: UnitId, outcome: Outcome, code: Code) {
        // What fails on the way down is the consequence of what failed before.
        if self.units.service_mut(unit).outcome == Outcome::Success {
            state_change::note(self, unit, code, Cause::Kernel, String::new());
        } else {
            let reason = Reason::new(code, Cause::Kernel);
            self.outbox.tell(Notice::Log { unit, reason, detail: String::new() });
        }
        self.units.set_outcome(unit, outcome);
    }
}

/// The phase that a timeout leads to, where nobody stands in the way.
fn stop_phase(mode: TimeoutFailureMode) -> ServicePhase {
    match mode {
        TimeoutFailureMode::Terminate => ServicePhase::StopSigterm,
        TimeoutFailureMode::Abort => ServicePhase::StopWatchdog,
        TimeoutFailureMode::Kill => ServicePhase::StopSigkill,
    }
}

/// `EXIT_CODE` and `EXIT_STATUS` (systemd.exec(5)).
pub(crate) fn exit_words(status: ExitStatus) -> (&'static str, String) {
    let signal = |n: u8| {
        let name = warren_unit::Signal::new(i32::from(n)).map_or(n.to_string(), |s| s.to_string());
        name.trim_start_matches("SIG").to_owned()
    };
    match status {
        ExitStatus::Exited(code) => ("exited", code.to_string()),
        ExitStatus::Killed(n) => ("killed", signal(n)),
        ExitStatus::Dumped(n) => ("dumped", signal(n)),
        ExitStatus::Unknown => ("exited", String::new()),
    }
}

/// What the process of a command that may fail counts as, if it could not become its program: one
/// that is not there has nothing to fail (systemd.service(5), "ExecStart=", `-`).
fn without_program(exit_code: u8) -> u8 {
    const EXIT_EXEC: u8 = 203;
    if exit_code == EXIT_EXEC { 0 } else { exit_code }
}

/// The name on the message bus by which a service of `Type=dbus` counts as started.
fn name_to_take(settings: &Compiled) -> Option<&str> {
    let config = settings.service();
    config.bus_name.as_deref().filter(|_| config.service_type == ServiceType::Dbus)
}

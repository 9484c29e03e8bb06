//! Services, the way up: from the start job to `running` (systemd.service(5)).
//!
//! The phases are systemd's sub-states. The way down is in `stop`, what processes and the notify socket say is in
//! `events`, answers to effects are in `effects`.

pub(crate) mod edited_times;
pub(crate) mod effects;
pub(crate) mod events;
pub(crate) mod stop;

use crate::features::{cleanup, command_lines, restart_mode, runtime_limit};
use crate::graph::Graph;
use crate::model::ids::{EffectId, UnitId};
use crate::model::job::JobKind;
use crate::model::part::Part;
use crate::model::process::*;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::model::time::Monotonic;
use crate::parts::outbox::Outbox;
use crate::parts::resources::Resources;
use crate::parts::units::Units;
use crate::parts::{Core, unit_settings};
use crate::protocol::event::{Effect, Spawn};
use crate::protocol::request::Notice;
use crate::protocol::trace_event::What;
use crate::relations::triggers;
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
    /// Whether its main process was started and it is not on the way down.
    fn works(&self) -> bool {
        use ServicePhase::{Reload, ReloadNotify, ReloadSignal, Running, StartPost};
        matches!(self.phase, StartPost | Running | Reload | ReloadSignal | ReloadNotify)
    }

    fn new() -> ServiceRun {
        ServiceRun {
            phase: ServicePhase::StartPre,
            main: MainProcess::None,
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

fn set_phase(core: &mut Core, unit: UnitId, phase: ServicePhase) {
    state_change::transit(core, unit, false, |run| {
        if let TypeState::Service(Service::Up(service)) = &mut run.state {
            service.phase = phase;
        }
    });
}

// ---- start ----

pub(crate) fn start(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    let mut run = Part::new(ServiceRun::new());
    let conditions = !config.exec_condition.is_empty();
    run.phase = if conditions { ServicePhase::Condition } else { ServicePhase::StartPre };
    let history = core.units.history_mut(unit);
    history.outcome = Outcome::Success;
    history.status_text = String::new();
    history.status_errno = 0;
    history.last_main = None;
    history.begin_account();
    history.has_cgroup = true;
    if conditions {
        state_change::transit(core, unit, false, |u| {
            u.state = TypeState::Service(Service::Up(run))
        });
        run_command(core, unit, CommandList::Condition, 0);
    } else if !config.exec_start_pre.is_empty() {
        state_change::transit(core, unit, false, |u| {
            u.state = TypeState::Service(Service::Up(run))
        });
        run_command(core, unit, CommandList::StartPre, 0);
    } else {
        run.phase = ServicePhase::Start;
        state_change::transit(core, unit, false, |u| {
            u.state = TypeState::Service(Service::Up(run))
        });
        enter_start(core, unit);
    }
}

fn enter_start_pre(core: &mut Core, unit: UnitId) {
    if unit_settings::compiled(core, unit).service().exec_start_pre.is_empty() {
        return enter_start(core, unit);
    }
    set_phase(core, unit, ServicePhase::StartPre);
    run_command(core, unit, CommandList::StartPre, 0);
}

fn enter_start(core: &mut Core, unit: UnitId) {
    set_phase(core, unit, ServicePhase::Start);
    // What was said before was said by a command that came before it.
    core.units.service_mut(unit).ready = false;
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    match config.service_type {
        _ if config.exec_start.is_empty() => enter_start_post(core, unit),
        ServiceType::Forking => run_command(core, unit, CommandList::Start, 0),
        ServiceType::Idle if core.totals.jobs > 1 => wait_idly(core, unit, None),
        _ => run_main(core, unit, 0),
    }
}

/// `Type=idle` runs from the begin of its wait on, as with systemd, whose process waits itself: nobody
/// waits for its job meanwhile. `since_before` is until when it waits already.
fn wait_idly(core: &mut Core, unit: UnitId, since_before: Option<Monotonic>) {
    let until = since_before.unwrap_or(core.times.now.monotonic.after(IDLE_WAIT_MAX));
    set_phase(core, unit, ServicePhase::Running);
    core.units.service_mut(unit).deadline = Some(until);
    core.queues.idle_services.insert(unit);
}

/// `Type=idle` has waited for the other jobs, or long enough.
pub(crate) fn idle_over(core: &mut Core, unit: UnitId) {
    core.queues.idle_services.remove(&unit);
    if !has_no_main(&core.units, unit) || cleanup::waits_for_clearing(core, unit) {
        return;
    }
    let is_to_stop = core.units.run(unit).job.as_ref().is_some_and(|job| job.kind == JobKind::Stop);
    match is_to_stop || core.totals.stopping {
        // As long as nobody cancels that, or the end that it outlasts goes on.
        true => {
            let later = core.times.now.monotonic.after(IDLE_WAIT_MAX);
            core.units.service_mut(unit).deadline = Some(later);
        }
        false => run_main(core, unit, 0),
    }
}

/// Whether the time is over for which `Type=idle` waits for others.
fn has_idled_enough(units: &Units, unit: UnitId) -> bool {
    units.service(unit).is_some_and(|run| run.deadline.is_none())
}

/// Whether it is a service of `Type=idle` that waits, and whose program is not asked for yet.
pub(crate) fn waits_idly(core: &mut Core, unit: UnitId) -> bool {
    match core.units.service(unit) {
        // So managers of before have written it.
        Some(run) if run.phase == ServicePhase::Start => {
            run.main.process().is_none() && run.main.asked().is_none()
        }
        Some(run) => run.phase == ServicePhase::Running && is_yet_to_run(core, unit),
        None => false,
    }
}

/// The same, whatever it does meanwhile. What runs has no deadline but that of its wait, also if it was
/// edited and is of another type.
fn is_yet_to_run(core: &mut Core, unit: UnitId) -> bool {
    let until = |run: &ServiceRun| run.phase == ServicePhase::Running && run.deadline.is_some();
    has_no_main(&core.units, unit)
        && (core.units.service(unit).is_some_and(until)
            || unit_settings::compiled(core, unit).service().service_type == ServiceType::Idle)
}

/// Whether it has had no main process since its start, and none is under way.
fn has_no_main(units: &Units, unit: UnitId) -> bool {
    let had_main = units.run(unit).history.as_ref().is_some_and(|h| h.last_main.is_some());
    let has_main = |run: &ServiceRun| {
        run.main.process().is_some() || run.main.asked().is_some() || run.main_search.is_some()
    };
    !had_main && units.service(unit).is_some_and(|run| !has_main(run))
}

/// Whether its main process was not there yet, though it runs.
fn is_to_come(core: &mut Core, unit: UnitId) -> bool {
    let is_asked = core.units.service(unit).is_some_and(|run| run.main.asked().is_some());
    is_asked || is_yet_to_run(core, unit)
}

fn enter_start_post(core: &mut Core, unit: UnitId) {
    arm_watchdog(core, unit);
    if unit_settings::compiled(core, unit).service().exec_start_post.is_empty() {
        return enter_running(core, unit, true);
    }
    set_phase(core, unit, ServicePhase::StartPost);
    run_command(core, unit, CommandList::StartPost, 0);
}

/// The service is as it should be while it does its work, or has done it. `first` when it
/// gets there by a start.
fn enter_running(core: &mut Core, unit: UnitId, first: bool) {
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    let is_yet_to_run = is_yet_to_run(core, unit);
    let run = core.units.service_mut(unit);
    let until = run.deadline.take().filter(|_| run.phase == ServicePhase::Running);
    if run.outcome != Outcome::Success
        && !outlives_its_main(&core.units, &core.resources, unit, config)
    {
        return stop::enter_signal(core, unit, ServicePhase::StopSigterm);
    }
    if first {
        runtime_limit::begin_runtime_limit(&mut core.units, core.times.now, unit, config);
    }
    let run = core.units.service_mut(unit);
    let (stops, reloads) = (run.stopping, run.notify_reloading);
    if run.phase != ServicePhase::Start && config.service_type == ServiceType::Dbus {
        // It may have lost its name meanwhile: then it is told so.
        watch_bus_name(core, unit, true);
    }
    if is_yet_to_run {
        wait_idly(core, unit, until);
    } else if is_alive(&core.units, &core.resources, unit, config) {
        match (stops, reloads) {
            (true, _) => events::goes_by_itself(core, unit, config),
            (false, true) => events::reloads_by_itself(core, unit, config),
            (false, false) => set_phase(core, unit, ServicePhase::Running),
        }
    } else if config.remain_after_exit {
        // What has exited does not run for too long.
        core.units.service_mut(unit).runtime_deadline = None;
        set_phase(core, unit, ServicePhase::Exited);
    } else {
        stop::enter_stop(core, unit);
    }
}

/// Whether something of it runs that keeps it up.
fn is_alive(units: &Units, resources: &Resources, unit: UnitId, config: &ServiceConfig) -> bool {
    let Some(run) = units.service(unit) else { return false };
    let had_main = units.run(unit).history.as_ref().is_some_and(|h| h.last_main.is_some());
    let by_group = match config.exit_type {
        ExitType::Cgroup => true,
        ExitType::Main => config.service_type == ServiceType::Forking && !had_main,
    };
    run.main.process().is_some()
        || run.main.asked().is_some()
        || run.main_search.is_some()
        || by_group && !run.group_empty && !resources.without_cgroups
}

/// Whether it goes on until the last of its processes has ended, and some are left
/// (systemd.service(5), `ExitType=cgroup`).
fn outlives_its_main(
    units: &Units,
    resources: &Resources,
    unit: UnitId,
    config: &ServiceConfig,
) -> bool {
    let is_empty = units.service(unit).is_none_or(|run| run.group_empty);
    config.exit_type == ExitType::Cgroup && !is_empty && !resources.without_cgroups
}

pub(crate) fn arm_watchdog(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    let now = core.times.now.monotonic;
    let run = core.units.service_to_rearm(unit);
    let interval = match run.watchdog_override_us {
        Some(0) => None,
        Some(us) => Some(Duration::from_micros(us)),
        None => settings.service().watchdog,
    };
    run.watchdog_deadline = interval.map(|interval| now.after(interval));
}

// ---- spawning ----

/// Asks for the main process.
fn run_main(core: &mut Core, unit: UnitId, index: u16) {
    let settings = unit_settings::compiled(core, unit);
    let timeout = settings.service().timeout_start;
    let id = core.outbox.new_effect(unit);
    let deadline = timeout.map(|t| core.times.now.monotonic.after(t));
    let run = core.units.service_mut(unit);
    run.main.ask(id);
    // The process is told it, and an edit tells it nothing else.
    run.watchdog_override_us.get_or_insert_with(|| {
        let told = settings.service().watchdog.unwrap_or_default();
        u64::try_from(told.as_micros()).unwrap_or(u64::MAX)
    });
    run.command = (CommandList::Start, index);
    run.deadline = deadline;
    watch_bus_name(core, unit, true);
    spawn(core, id, unit, CommandList::Start, index, true, settings);
}

/// `Type=dbus`: begins or ends to watch `BusName=`.
pub(crate) fn watch_bus_name(core: &mut Core, unit: UnitId, on: bool) {
    let definition = core.graph.definition(unit);
    // Whose file is gone has its settings at hand, as long as this manager lives.
    if definition.load_state == LoadState::Loaded && !definition.mentions(BUS_NAME) {
        return;
    }
    let settings = unit_settings::compiled(core, unit);
    if let Some(name) = name_to_take(&settings) {
        core.outbox.effects.push(Effect::WatchBusName { unit, name: name.into(), on });
    }
}

/// The service was edited, and `before` is the generation before that. A name that it is not to have any more says
/// nothing of it. What runs is not asked for the new one.
pub(crate) fn unwatch_name_of_before(core: &mut Core, unit: UnitId, before: &Graph) {
    let Some(run) = core.units.service(unit) else { return };
    let phase = run.phase;
    let was = before.get(unit).filter(|was| was.mentions(BUS_NAME));
    let Some(was) = was.filter(|was| was.load_state == LoadState::Loaded) else { return };
    let was: Option<Box<str>> =
        name_to_take(&core.settings.common.compile_running(was)).map(Box::from);
    let settings = core.settings.common.compile_running(core.graph.definition(unit));
    let is = name_to_take(&settings);
    let Some(name) = was.filter(|was| is != Some(&**was)) else { return };
    let is_awaited = is.is_some() && phase == ServicePhase::Start;
    core.outbox.effects.push(Effect::WatchBusName { unit, name, on: false });
    if is_awaited {
        watch_bus_name(core, unit, true);
    }
}

/// Asks for the control process that runs command `index` of `list`.
fn run_command(core: &mut Core, unit: UnitId, list: CommandList, index: u16) {
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    let deadline = match list {
        CommandList::Stop | CommandList::StopPost => {
            stop::stop_command_deadline(&mut core.units, core.times.now, unit, config, list)
        }
        _ => config.timeout_start.map(|t| core.times.now.monotonic.after(t)),
    };
    let id = core.outbox.new_effect(unit);
    let run = core.units.service_mut(unit);
    run.control = Some(Control::Asked(id));
    run.command = (list, index);
    run.deadline = deadline;
    spawn(core, id, unit, list, index, false, settings);
}

fn spawn(
    core: &mut Core,
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
        environment: environment(core, unit, list, &settings),
        sockets: sockets_for(core, unit, list, main, &settings),
        invocation: core.units.run(unit).history.as_ref().map_or(0, |h| h.invocation),
        dynamic_user: core.units.dynamic_user(unit),
        settings,
    };
    command_lines::note_line(&mut core.units, unit, list, index, &spawn.settings);
    core.units.service_mut(unit).group_empty = false;
    core.outbox.effects.push(Effect::Spawn(id, Box::new(spawn)));
}

/// The environment that follows from the state (systemd.exec(5), "ENVIRONMENT VARIABLES SET").
pub(crate) fn environment(
    core: &Core,
    unit: UnitId,
    list: CommandList,
    settings: &Compiled,
) -> Vec<(&'static str, String)> {
    let mut out = Vec::new();
    let Some(run) = core.units.service(unit) else { return out };
    if restart_mode::is_for_debugging(core.units.run(unit), settings) {
        out.push(("DEBUG_INVOCATION", "1".to_owned()));
    }
    if let Some(main) = run.main.process() {
        out.push(("MAINPID", main.pid.to_string()));
    }
    if matches!(list, CommandList::Stop | CommandList::StopPost) {
        out.push(("SERVICE_RESULT", run.outcome.as_str().to_owned()));
        let last = core.units.run(unit).history.as_ref().and_then(|h| h.last_main);
        if let Some(ended) = last {
            let (code, status) = exit_words(ended.status);
            out.push(("EXIT_CODE", code.to_owned()));
            out.push(("EXIT_STATUS", status));
        }
    }
    if matches!(list, CommandList::StartPre | CommandList::Start) {
        out.extend(monitored(core, unit));
    }
    out.extend(trigger(core, unit));
    out
}

/// What a service is told of the timer or path unit that started it (systemd.exec(5), `$TRIGGER_UNIT`).
fn trigger(core: &Core, unit: UnitId) -> Vec<(&'static str, String)> {
    let history = core.units.run(unit).history.as_ref();
    let Some(Cause::Trigger(trigger)) = history.map(|history| history.reason.cause) else {
        return Vec::new();
    };
    let memory = core.units.run(trigger).history.as_ref().and_then(|history| history.timer);
    if memory.is_none() && core.units.path(trigger).is_none() {
        return Vec::new();
    }
    let mut out = vec![("TRIGGER_UNIT", core.graph.name(trigger).to_string())];
    if let Some(memory) = memory {
        let at = memory.last_trigger;
        out.push(("TRIGGER_TIMER_REALTIME_USEC", at.realtime_us.to_string()));
        out.push(("TRIGGER_TIMER_MONOTONIC_USEC", at.monotonic.0.to_string()));
    }
    out
}

/// What a service that `OnFailure=` or `OnSuccess=` starts is told of the service whose end that
/// was; nothing if it is there for several.
fn monitored(core: &Core, unit: UnitId) -> Vec<(&'static str, String)> {
    let ways = [Relation::OnFailureOf, Relation::OnSuccessOf];
    let mut all = ways.into_iter().flat_map(|way| core.graph.related(unit, way));
    let (Some(other), None) = (all.next(), all.next()) else { return Vec::new() };
    let history = match (&core.units.run(other).state, &core.units.run(other).history) {
        (TypeState::Service(_), Some(history)) => history,
        _ => return Vec::new(),
    };
    let mut out = vec![("MONITOR_SERVICE_RESULT", core.units.outcome(other).as_str().to_owned())];
    if let Some(ended) = history.last_main {
        let (code, status) = exit_words(ended.status);
        out.push(("MONITOR_EXIT_CODE", code.to_owned()));
        out.push(("MONITOR_EXIT_STATUS", status));
    }
    out.push(("MONITOR_INVOCATION_ID", format!("{:032x}", history.invocation)));
    out.push(("MONITOR_UNIT", core.graph.name(other).to_string()));
    out
}

/// The socket units whose file descriptors a command gets: one of `ExecStart=`, whether it becomes
/// the main process or makes it, and each that has a socket as a standard stream.
pub(crate) fn sockets_for(
    core: &Core,
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
        true => sockets_of(core, unit),
        false => Vec::new(),
    }
}

/// The socket units whose file descriptors the service gets: those that trigger it, as one does
/// whose file is gone, and those of `Sockets=` (which are relations of the same kind), as far as
/// they are open.
fn sockets_of(core: &Core, unit: UnitId) -> Vec<UnitId> {
    let open = |&socket: &UnitId| match &core.units.run(socket).state {
        TypeState::Socket(Socket::Up(run)) => run.fds > 0,
        _ => false,
    };
    triggers::triggers_of(core, unit).into_iter().filter(open).collect()
}

/// Whether this effect is the spawn of the unit's main process.
pub(crate) fn is_main_asked(units: &Units, unit: UnitId, effect: EffectId) -> bool {
    units.service(unit).is_some_and(|run| run.main.asked() == Some(effect))
}

fn main_spawned(core: &mut Core, unit: UnitId, pid: u32) {
    let started = core.times.now;
    core.outbox.happened(
        core.times.now.monotonic,
        unit,
        What::ProcessStarted { pid, list: CommandList::Start, main: true },
    );
    let run = core.units.service_mut(unit);
    run.group_empty = false;
    // It may have named another one before it was known itself.
    if run.main.process().is_none_or(|named| named.pid == pid) {
        run.main.set(Process { pid, started });
        core.pids.own(pid, unit);
    }
    match core.units.service_mut(unit).phase {
        // `Type=idle` runs already.
        ServicePhase::Start | ServicePhase::Running => {}
        ServicePhase::Reload => return,
        phase => {
            stop::signal_latecomer(core, unit, phase);
            // With `KillMode=none` nobody is waited for.
            return stop::advance_if_stopped(core, unit);
        }
    }
    match unit_settings::compiled(core, unit).service().service_type {
        ServiceType::Simple | ServiceType::Idle | ServiceType::Exec => {
            enter_start_post(core, unit);
        }
        ServiceType::Oneshot | ServiceType::Forking => {}
        ServiceType::Notify | ServiceType::NotifyReload | ServiceType::Dbus => {
            if core.units.service(unit).is_some_and(|run| run.ready) {
                enter_start_post(core, unit);
            }
        }
    }
}

/// The main process could not be executed. To the outside a `Type=simple` service counts as
/// started before that is known (systemd.service(5)): its start job succeeds, then it fails.
fn main_not_spawned(core: &mut Core, unit: UnitId, exit_code: u8, error: String) {
    let now = core.times.now;
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    // `Type=idle` runs already.
    let phase = core.units.service_phase(unit);
    let in_start = matches!(phase, Some(ServicePhase::Start | ServicePhase::Running));
    let code = if exit_code == 0 { Code::Resources } else { Code::ExecFailed };
    let index = events::main_index(&core.units, unit, config);
    let command = config.exec_start.get(index);
    let ignored = command.is_some_and(|c| c.ignore_failure) && exit_code != 0;
    events::note_not_spawned(core, unit, code, error, ignored);
    let status = ExitStatus::Exited(if ignored { without_program(exit_code) } else { exit_code });
    if exit_code != 0 {
        let ended = Ended { pid: 0, started: now, ended: now, status };
        core.units.history_mut(unit).last_main = Some(ended);
    }
    if !ignored {
        let outcome = if exit_code == 0 { Outcome::Resources } else { Outcome::ExitCode };
        let simple = matches!(config.service_type, ServiceType::Simple | ServiceType::Idle);
        if in_start && simple && exit_code != 0 {
            set_phase(core, unit, ServicePhase::Running);
        }
        core.units.set_outcome(unit, outcome);
    }
    if in_start {
        match (core.units.service_mut(unit).outcome, config.service_type) {
            (Outcome::Success, ServiceType::Oneshot) => {
                events::oneshot_over(core, unit, index, true)
            }
            (Outcome::Success, ServiceType::Notify | ServiceType::NotifyReload) => {
                fail(core, unit, Outcome::Protocol, Code::Protocol);
                stop::enter_signal(core, unit, ServicePhase::StopSigterm);
            }
            (Outcome::Success, _) => enter_start_post(core, unit),
            _ => stop::enter_signal(core, unit, ServicePhase::StopSigterm),
        }
    }
}

/// The parent of a forking service has left: who is the main process now?
fn search_main(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    if config.pid_file.is_none() && !config.guess_main_pid {
        return enter_start_post(core, unit);
    }
    // `ExecStartPost=` may be what writes the file.
    find_main(&mut core.units, &mut core.outbox, unit, config, config.exec_start_post.is_empty());
}

/// The last command after the start is over. Now a file has to say who the main process is.
fn start_post_over(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    let by_file = config.service_type == ServiceType::Forking && config.pid_file.is_some();
    match by_file && has_no_main_yet(&core.units, unit) {
        true => find_main(&mut core.units, &mut core.outbox, unit, config, true),
        false => enter_running(core, unit, true),
    }
}

pub(crate) fn has_no_main_yet(units: &Units, unit: UnitId) -> bool {
    let has_none = units.service(unit).is_some_and(|run| run.main.process().is_none());
    has_none && units.run(unit).history.as_ref().is_none_or(|h| h.last_main.is_none())
}

/// Has the main process looked for, and waits for a file to name it or not.
fn find_main(
    units: &mut Units,
    outbox: &mut Outbox,
    unit: UnitId,
    config: &ServiceConfig,
    waits: bool,
) {
    let id = outbox.new_effect(unit);
    units.service_mut(unit).main_search = Some(id);
    let pid_file = config.pid_file.clone();
    outbox.effects.push(Effect::FindMain { id, unit, pid_file, waits });
}

/// The main process of a service with `PIDFile=` has ended: the file may name another one by now, as when
/// a daemon puts a newer version of itself in its place. False if nobody can be left.
fn search_successor(core: &mut Core, unit: UnitId, config: &ServiceConfig) -> bool {
    let by_file = config.service_type == ServiceType::Forking && config.pid_file.is_some();
    let without_cgroups = core.resources.without_cgroups;
    let is_left = |run: &ServiceRun| {
        let works = run.works() && !run.stopping && run.outcome == Outcome::Success;
        works && (!run.group_empty || without_cgroups)
    };
    let may_be_there = by_file && core.units.service(unit).is_some_and(is_left);
    if may_be_there {
        find_main(&mut core.units, &mut core.outbox, unit, config, false);
    }
    may_be_there
}

fn main_found(core: &mut Core, unit: UnitId, pid: Option<u32>) {
    let settings = unit_settings::compiled(core, unit);
    let asked_by_file = settings.service().pid_file.is_some();
    let Some(phase) = core.units.service_phase(unit) else { return };
    let is_last_look = phase == ServicePhase::StartPost && has_no_main_yet(&core.units, unit);
    let in_start = phase == ServicePhase::Start || is_last_look;
    let last = core.units.run(unit).history.as_ref().and_then(|history| history.last_main);
    // It may have named itself meanwhile. And a file may be left behind by who has ended.
    let is_known =
        !in_start && core.units.service(unit).is_some_and(|run| run.main.process().is_some());
    if is_known {
        return;
    }
    let pid = pid.filter(|&pid| in_start || last.is_none_or(|last| last.pid != pid));
    if let Some(pid) = pid {
        adopt_main(core, unit, pid);
    }
    if !in_start {
        // It was looked for in the place of one that had ended.
        return last
            .filter(|_| pid.is_none())
            .into_iter()
            .for_each(|last| events::main_gone(core, unit, phase, last));
    }
    let comes_later = !is_last_look && !settings.service().exec_start_post.is_empty();
    if pid.is_none() && asked_by_file && !comes_later {
        fail(core, unit, Outcome::Protocol, Code::Protocol);
        return stop::enter_signal(core, unit, ServicePhase::StopSigterm);
    }
    match is_last_look {
        true => enter_running(core, unit, true),
        false => enter_start_post(core, unit),
    }
}

/// Takes a process of the unit as its main process.
fn adopt_main(core: &mut Core, unit: UnitId, pid: u32) {
    let started = core.times.now;
    if let Some(old) = core.units.service_mut(unit).main.process() {
        core.pids.disown(old.pid);
    }
    core.pids.own(pid, unit);
    core.outbox.happened(
        core.times.now.monotonic,
        unit,
        What::ProcessStarted { pid, list: CommandList::Start, main: true },
    );
    core.units.service_mut(unit).main.set(Process { pid, started });
}

// ---- reload ----

pub(crate) fn reload(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    core.units.service_mut(unit).reload_outcome = Outcome::Success;
    if config.service_type == ServiceType::NotifyReload {
        return reload_by_signal(core, unit, config);
    }
    set_phase(core, unit, ServicePhase::Reload);
    run_command(core, unit, CommandList::Reload, 0);
}

fn reload_by_signal(core: &mut Core, unit: UnitId, config: &ServiceConfig) {
    let now = core.times.now.monotonic;
    set_phase(core, unit, ServicePhase::ReloadSignal);
    let run = core.units.service_mut(unit);
    run.notify_reloading = false;
    run.ready = false;
    run.deadline = config.timeout_start.map(|t| now.after(t));
    // Of one that has exited and remains nobody is left to be told.
    let Some(main) = run.main.process() else { return enter_running(core, unit, false) };
    let id = core.outbox.new_effect(unit);
    core.outbox.forget_effect(id);
    core.outbox.effects.push(Effect::Kill {
        id,
        unit,
        target: crate::protocol::event::KillTarget::Process(main.pid),
        signal: config.reload_signal.number(),
        then: crate::protocol::event::FollowUp::default(),
    });
}

// ---- deadlines ----

pub(crate) fn deadline(core: &mut Core, unit: UnitId) {
    let now = core.times.now.monotonic;
    let due = |at: Option<Monotonic>| at.is_some_and(|at| at <= now);
    let Some(run) = core.units.service(unit) else { return };
    let phase = run.phase;
    let (is_over, runtime, watchdog) =
        (due(run.deadline), due(run.runtime_deadline), due(run.watchdog_deadline));
    if is_over {
        core.units.service_mut(unit).deadline = None;
        phase_timeout(core, unit, phase);
    } else if watchdog {
        core.units.service_mut(unit).watchdog_deadline = None;
        watchdog_missed(core, unit);
    } else if runtime {
        core.units.service_mut(unit).runtime_deadline = None;
        ran_too_long(core, unit);
    }
}

/// Whether it is in a phase in which a watchdog guards it.
fn is_guarded(units: &Units, unit: UnitId) -> bool {
    units.service(unit).is_some_and(ServiceRun::works)
}

/// It says that something is wrong with it (sd_notify(3), `WATCHDOG=trigger`), be it before it is ready.
fn watchdog_triggered(core: &mut Core, unit: UnitId) {
    let starts = core.units.service_phase(unit) == Some(ServicePhase::Start);
    if starts || is_guarded(&core.units, unit) {
        bitten(core, unit);
    }
}

fn watchdog_missed(core: &mut Core, unit: UnitId) {
    if is_guarded(&core.units, unit) {
        bitten(core, unit);
    }
}

fn bitten(core: &mut Core, unit: UnitId) {
    if core.outbox.ignores_watchdogs {
        let detail = "WatchdogSec=".to_owned();
        return state_change::note(core, unit, Code::WatchdogIgnored, Cause::None, detail);
    }
    fail(core, unit, Outcome::Watchdog, Code::WatchdogTimeout);
    stop::enter_signal(core, unit, ServicePhase::StopWatchdog);
}

fn phase_timeout(core: &mut Core, unit: UnitId, phase: ServicePhase) {
    use ServicePhase::*;
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    match phase {
        Start if config.service_type == ServiceType::Idle && waits_idly(core, unit) => {
            idle_over(core, unit)
        }
        Running => idle_over(core, unit),
        Condition | StartPre | Start | StartPost => {
            say_what_was_missing(&mut core.units, unit, phase, config);
            fail(core, unit, Outcome::Timeout, Code::StartTimeout);
            end_in_mode(core, unit, config, config.timeout_start_failure_mode);
        }
        Reload | ReloadSignal | ReloadNotify => {
            core.units.service_mut(unit).reload_outcome = Outcome::Timeout;
            core.units.service_mut(unit).notify_reloading = false;
            stop::kill_control(core, unit);
            enter_running(core, unit, false);
        }
        AutoRestart => stop::restart_now(core, unit),
        Exited => {}
        _ => stop::stop_timeout(core, unit, phase, config),
    }
}

/// Has it end as the file says of timeouts. Whom nobody may kill (systemd.kill(5), `SendSIGKILL=`) is left
/// alone until what comes after a stop is run.
fn end_in_mode(core: &mut Core, unit: UnitId, config: &ServiceConfig, mode: TimeoutFailureMode) {
    match mode {
        TimeoutFailureMode::Kill if !config.kill.send_sigkill => stop::enter_stop_post(core, unit),
        _ => stop::enter_signal(core, unit, stop_phase(mode)),
    }
}

/// What a start that took too long did not come to, unless the service tells by itself where it
/// was.
fn say_what_was_missing(
    units: &mut Units,
    unit: UnitId,
    phase: ServicePhase,
    config: &ServiceConfig,
) {
    let is_searched = units.service(unit).is_some_and(|run| run.main_search.is_some());
    let missing = match (phase, config.service_type) {
        (ServicePhase::Condition, _) => "ExecCondition= did not end".to_owned(),
        (ServicePhase::StartPre, _) => "ExecStartPre= did not end".to_owned(),
        (ServicePhase::StartPost, _) => "ExecStartPost= did not end".to_owned(),
        (_, ServiceType::Notify | ServiceType::NotifyReload) => "READY=1 was not heard".to_owned(),
        (_, ServiceType::Dbus) => "BusName= was not taken".to_owned(),
        (_, ServiceType::Forking) if is_searched => {
            let path = config.pid_file.as_deref().unwrap_or_default();
            format!("PIDFile={path} named no process of it")
        }
        (_, ServiceType::Forking) => "its first process did not leave".to_owned(),
        _ => "ExecStart= did not end".to_owned(),
    };
    let text = &mut units.history_mut(unit).status_text;
    if text.is_empty() {
        *text = missing;
    }
}

/// Notes the first thing that went wrong, on the run and for the log.
fn fail(core: &mut Core, unit: UnitId, outcome: Outcome, code: Code) {
    // What fails on the way down is the consequence of what failed before.
    if core.units.service_mut(unit).outcome == Outcome::Success {
        state_change::note(core, unit, code, Cause::Kernel, String::new());
    } else {
        let reason = Reason::new(code, Cause::Kernel);
        core.outbox.tell(Notice::Log { unit, reason, detail: String::new() });
    }
    core.units.set_outcome(unit, outcome);
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

/// Its time is over: it is stopped as somebody would stop it, by `ExecStop=` first, as with systemd 252.
fn ran_too_long(core: &mut Core, unit: UnitId) {
    if core.units.active_state(unit).is_up() {
        fail(core, unit, Outcome::Timeout, Code::RuntimeTimeout);
        stop::enter_stop(core, unit);
    }
}

//! Services: what their processes and their notify socket tell.

use crate::features::command_lines;
use crate::model::ids::{EffectId, UnitId};
use crate::model::process::*;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::model::time::Moment;
use crate::model::time::Monotonic;
use crate::parts::resources::Resources;
use crate::parts::units::Units;
use crate::parts::{Core, unit_settings};
use crate::protocol::event::{BusName, Done, Notify};
use crate::protocol::request::Notice;
use crate::protocol::trace_event::What;
use crate::settings::{Compiled, TypeSettings};
use crate::state_change;
use crate::types::service;
use crate::types::service::stop;
use std::time::Duration;
use warren_unit::Signal;
use warren_unit::config::{
    ExitStatusSet, ExitType, NotifyAccess, OomPolicy, ServiceConfig, ServiceType,
};

/// Longest `STATUS=` text that is kept, in bytes.
const STATUS_TEXT_MAX: usize = 512;

// ---- processes ----

pub(crate) fn control_spawned(core: &mut Core, unit: UnitId, pid: u32) {
    let started = core.times.now;
    core.pids.own(pid, unit);
    let run = core.units.service_mut(unit);
    // It called itself the main process before it was known for what it is.
    if run.main.process().is_some_and(|main| main.pid == pid) {
        run.main.take_process();
    }
    run.control = Some(Control::Running(Process { pid, started }));
    run.group_empty = false;
    let (list, phase) = (run.command.0, run.phase);
    core.outbox.happened(
        core.times.now.monotonic,
        unit,
        What::ProcessStarted { pid, list, main: false },
    );
    match in_list(&core.units, unit, list) {
        true => stop::stop_command_began(core, unit, list),
        false => stop::signal_latecomer(core, unit, phase),
    }
}

/// A process whose time was over before it began is there now.
pub(crate) fn doomed_done(core: &mut Core, unit: UnitId, effect: EffectId, result: Done) {
    core.units.service_mut(unit).doomed.retain(|&id| id != effect);
    if let Done::Spawned { pid } = result {
        core.units.service_mut(unit).group_empty = false;
        stop::kill_process(&mut core.units, &mut core.outbox, unit, pid);
        // Its end is nobody's news.
        stop::advance_if_stopped(core, unit);
    } else if let Some(phase) = core.units.service_phase(unit).filter(|phase| phase.is_signalled())
    {
        stop::latecomer_missing(core, unit, phase);
    }
}

/// No process of the command came to be (`exit_code` 0), or it is not its program. A `-` before the
/// command excuses the program alone, and what a reload wants is no reason to stop what runs.
pub(crate) fn control_not_spawned(core: &mut Core, unit: UnitId, exit_code: u8, error: String) {
    let now = core.times.now;
    let (list, _) = core.units.service_mut(unit).command;
    let excused = exit_code != 0 && may_fail(core, unit);
    let code = if exit_code == 0 { Code::Resources } else { Code::ExecFailed };
    note_not_spawned(core, unit, code, error, excused || list == CommandList::Reload);
    let run = core.units.service_mut(unit);
    run.control = None;
    match list {
        _ if exit_code != 0 => {}
        CommandList::Reload => run.reload_outcome = Outcome::Resources,
        _ => core.units.set_outcome(unit, Outcome::Resources),
    }
    let status = ExitStatus::Exited(exit_code.max(1));
    command_over(core, unit, Ended { pid: 0, started: now, ended: now, status }, excused);
}

/// What does not end the run is told in the log, and is no reason for the state that the unit is in.
pub(crate) fn note_not_spawned(
    core: &mut Core,
    unit: UnitId,
    code: Code,
    error: String,
    goes_on: bool,
) {
    if goes_on {
        let reason = Reason::new(code, Cause::Kernel);
        return core.outbox.tell(Notice::Log { unit, reason, detail: error });
    }
    state_change::note(core, unit, code, Cause::Kernel, error.clone());
    core.units.history_mut(unit).status_text = error;
}

/// Whether the command of now has a `-`.
fn may_fail(core: &mut Core, unit: UnitId) -> bool {
    let settings = unit_settings::compiled(core, unit);
    let (list, index) = core.units.service_mut(unit).command;
    let place = command_lines::place_now(&core.units, unit, list, index, &settings);
    let command = place.and_then(|place| settings.commands(list).get(usize::from(place)));
    command.is_some_and(|c| c.ignore_failure)
}

pub(crate) fn service_process_ended(core: &mut Core, unit: UnitId, pid: u32, status: ExitStatus) {
    let Some(run) = core.units.service(unit) else { return };
    if let Some(main) = run.main.process().filter(|main| main.pid == pid) {
        let ended = main.ended(core.times.now, status);
        main_over(core, unit, ended);
    } else if let Some(Control::Running(control)) = run.control
        && control.pid == pid
    {
        let ended = control.ended(core.times.now, status);
        core.units.service_mut(unit).control = None;
        control_over(core, unit, ended);
    }
}

/// The main process has ended.
fn main_over(core: &mut Core, unit: UnitId, ended: Ended) {
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    let run = core.units.service_mut(unit);
    run.main.take_process();
    let phase = run.phase;
    core.units.history_mut(unit).last_main = Some(ended);
    if !service::search_successor(core, unit, config) {
        main_gone(core, unit, phase, ended);
    }
}

/// The main process has ended in this phase, and has no successor.
pub(crate) fn main_gone(core: &mut Core, unit: UnitId, phase: ServicePhase, ended: Ended) {
    use ServicePhase::*;
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    if core.resources.without_cgroups {
        core.units.service_mut(unit).group_empty = true;
    }
    let index = main_index(&core.units, unit, config);
    let place =
        command_lines::place_now(&core.units, unit, CommandList::Start, index as u16, &settings);
    let own = place.and_then(|place| config.exec_start.get(usize::from(place)));
    let ignored = own.is_some_and(|c| c.ignore_failure);
    let is_sudden = core.units.service(unit).is_some_and(|run| run.sudden);
    let clean = ignored || is_sudden || is_clean(ended.status, config);
    if !clean {
        note_end(core, unit, ended);
    }
    match phase {
        Start | Running | ReloadSignal | ReloadNotify
            if service::outlives_its_main(&core.units, &core.resources, unit, config) => {}
        Start if config.service_type == ServiceType::Oneshot => {
            oneshot_over(core, unit, index, clean)
        }
        // The other types begin with their process: an edit has made it one of them since.
        Start if clean && waits_for_a_word(config.service_type) => {
            service::fail(core, unit, Outcome::Protocol, Code::Protocol);
            stop::enter_signal(core, unit, StopSigterm);
        }
        Start => stop::enter_signal(core, unit, StopSigterm),
        StartPost | Reload => {}
        Running | ReloadSignal | ReloadNotify => service::enter_running(core, unit, false),
        Stop if core.units.service(unit).is_some_and(|run| run.control.is_none()) => {
            stop::enter_signal(core, unit, StopSigterm)
        }
        // Of those whom it has left nobody was told to go.
        StopSigterm if core.units.service_mut(unit).stopping => {
            stop::enter_signal(core, unit, StopSigterm)
        }
        _ => stop::advance_if_stopped(core, unit),
    }
}

/// Which command of `ExecStart=` the main process is: the one that was asked for last, or, when others
/// were run since, the last one.
pub(crate) fn main_index(units: &Units, unit: UnitId, config: &ServiceConfig) -> usize {
    match units.service(unit).map(|run| run.command) {
        Some((CommandList::Start, index)) => usize::from(index),
        _ => config.exec_start.len().saturating_sub(1),
    }
}

pub(crate) fn oneshot_over(core: &mut Core, unit: UnitId, index: usize, clean: bool) {
    if !clean {
        stop::enter_signal(core, unit, ServicePhase::StopSigterm);
    } else if let Some(next) =
        command_lines::next_place(core, unit, CommandList::Start, index as u16)
    {
        keep_earlier_main(&mut core.units, unit, index as u16);
        service::run_main(core, unit, next);
    } else {
        service::enter_start_post(core, unit);
    }
}

/// Another command of `ExecStart=` takes the place of this one as the main process.
fn keep_earlier_main(units: &mut Units, unit: UnitId, index: u16) {
    let history = units.history_mut(unit);
    if let Some(ended) = history.last_main {
        history.account_mut().keep(CommandEnd { list: CommandList::Start, index, ended });
    }
}

/// Notes how a process that should not have ended like this did end.
fn note_end(core: &mut Core, unit: UnitId, ended: Ended) {
    let (outcome, code, detail) = match ended.status {
        ExitStatus::Exited(code) => {
            (Outcome::ExitCode, Code::ExitCode, format!("exit code {code}"))
        }
        ExitStatus::Killed(n) => (Outcome::Signal, Code::Signal, signal_name(n)),
        ExitStatus::Dumped(n) => (Outcome::CoreDump, Code::CoreDump, signal_name(n)),
        ExitStatus::Unknown => (Outcome::ExitCode, Code::ExitCode, "unknown".to_owned()),
    };
    if core.units.service(unit).is_some_and(|run| run.outcome == Outcome::Success) {
        // Of what an administrator did not want to wait for any more that is no news.
        let is_hurried = core.units.history_mut(unit).reason.code == Code::Hurried;
        if !is_hurried {
            state_change::note(core, unit, code, Cause::Kernel, detail);
        }
        core.units.set_outcome(unit, outcome);
    }
}

/// A control process has ended.
fn control_over(core: &mut Core, unit: UnitId, ended: Ended) {
    let settings = unit_settings::compiled(core, unit);
    let clean = |set| !matches!(ended.status, ExitStatus::Dumped(_)) && in_set(ended.status, set);
    // What `ExecStart=` of a forking service begins is a daemon, not a command that comes to its end.
    let is_daemon = core.units.service_mut(unit).command.0 == CommandList::Start;
    let success = may_fail(core, unit)
        || ended.status == ExitStatus::Exited(0)
        || is_daemon && is_clean(ended.status, settings.service())
        || clean(&settings.service().success_exit_status);
    command_over(core, unit, ended, success);
}

/// A command is over: the next of its list has its turn, or what comes after the list.
fn command_over(core: &mut Core, unit: UnitId, ended: Ended, success: bool) {
    let (list, index) = core.units.service_mut(unit).command;
    core.units.history_mut(unit).keep_control(list, index, ended);
    let next = command_lines::next_place(core, unit, list, index);
    if core.resources.without_cgroups && core.units.service_mut(unit).main.process().is_none() {
        core.units.service_mut(unit).group_empty = true;
    }
    if is_searched_in_vain(&core.units, &core.resources, unit) {
        stop::drop_searches(&mut core.units, &mut core.outbox, unit);
        service::main_found(core, unit, None);
    }
    if let Some(next) = next.filter(|_| success && in_list(&core.units, unit, list)) {
        return service::run_command(core, unit, list, next);
    }
    list_over(core, unit, list, ended, success);
}

/// Whether the phase is still the one that runs this list: a timeout may have moved on.
fn in_list(units: &Units, unit: UnitId, list: CommandList) -> bool {
    use ServicePhase::*;
    let phase = units.service_phase(unit);
    match list {
        CommandList::Condition => phase == Some(Condition),
        CommandList::StartPre => phase == Some(StartPre),
        CommandList::Start => phase == Some(Start),
        CommandList::StartPost => phase == Some(StartPost),
        CommandList::Reload => phase == Some(Reload),
        CommandList::Stop => phase == Some(Stop),
        CommandList::StopPost => phase == Some(StopPost),
    }
}

/// A list of commands is through, or one of them failed.
fn list_over(core: &mut Core, unit: UnitId, list: CommandList, ended: Ended, success: bool) {
    use ServicePhase::*;
    if !in_list(&core.units, unit, list) {
        return stop::advance_if_stopped(core, unit);
    }
    match (list, success) {
        (CommandList::Condition, true) => service::enter_start_pre(core, unit),
        (CommandList::Condition, false) => condition_said_no(core, unit, ended),
        (CommandList::StartPre, true) => service::enter_start(core, unit),
        (CommandList::Start, true) => service::search_main(core, unit),
        (CommandList::StartPost, true) => service::start_post_over(core, unit),
        (CommandList::Reload, _) => {
            let run = core.units.service_mut(unit);
            if !success && run.reload_outcome == Outcome::Success {
                run.reload_outcome = outcome_of(ended.status);
            }
            service::enter_running(core, unit, false);
        }
        (CommandList::Stop, _) => {
            if !success {
                note_end(core, unit, ended);
            }
            stop::enter_signal(core, unit, StopSigterm);
        }
        (CommandList::StopPost, _) => {
            if !success {
                note_end(core, unit, ended);
            }
            stop::enter_signal(core, unit, FinalSigterm);
        }
        (CommandList::StartPre | CommandList::Start | CommandList::StartPost, false) => {
            note_end(core, unit, ended);
            stop::enter_signal(core, unit, StopSigterm);
        }
    }
}

/// `ExecCondition=`: exit codes 1 to 254 mean 'not now', anything else is a failure.
fn condition_said_no(core: &mut Core, unit: UnitId, ended: Ended) {
    match ended.status {
        // Nobody was asked.
        _ if core.units.service_mut(unit).outcome != Outcome::Success => {}
        ExitStatus::Exited(1..=254) => {
            service::fail(core, unit, Outcome::ExecCondition, Code::ConditionFailed);
        }
        _ => note_end(core, unit, ended),
    }
    stop::enter_signal(core, unit, ServicePhase::StopSigterm);
}

/// The cgroup has no processes any more.
pub(crate) fn service_group_empty(core: &mut Core, unit: UnitId) {
    use ServicePhase::*;
    let Some(run) = core.units.service(unit) else { return };
    let nothing_coming =
        run.main.asked().is_none() && !matches!(run.control, Some(Control::Asked(_)));
    if !nothing_coming {
        return;
    }
    let run = core.units.service_mut(unit);
    run.group_empty = true;
    if run.main.process().is_some() || run.control.is_some() {
        return;
    }
    let (phase, is_searched) = (run.phase, run.main_search.is_some());
    // Without PIDFile= the answer to the search says the same.
    let is_searched =
        is_searched && unit_settings::compiled(core, unit).service().pid_file.is_some();
    let last = core.units.run(unit).history.as_ref().and_then(|history| history.last_main);
    let by_group = unit_settings::compiled(core, unit).service().exit_type == ExitType::Cgroup;
    match phase {
        // It was its main process for which nobody was left to stand in.
        Start | Running | ReloadSignal | ReloadNotify if by_group && last.is_some() => {
            last.into_iter().for_each(|last| main_gone(core, unit, phase, last));
        }
        // Whom the file names now is in another group, or nobody.
        Start | StartPost if is_searched && last.is_none() => {
            stop::drop_searches(&mut core.units, &mut core.outbox, unit);
            let settings = unit_settings::compiled(core, unit);
            service::find_main(&mut core.units, &mut core.outbox, unit, settings.service(), false);
        }
        // Nobody is left whom the file could name.
        _ if is_searched => {
            stop::drop_searches(&mut core.units, &mut core.outbox, unit);
            service::main_found(core, unit, None);
        }
        Running | ReloadSignal | ReloadNotify => service::enter_running(core, unit, false),
        _ => stop::advance_if_stopped(core, unit),
    }
}

/// Whether a successor is looked for in a file, and nobody is left whom it could name: that was told while
/// a command was there.
fn is_searched_in_vain(units: &Units, resources: &Resources, unit: UnitId) -> bool {
    let is_vain = |run: &ServiceRun| {
        let is_known = run.main.process().is_some() || run.control.is_some();
        run.main_search.is_some() && run.group_empty && !is_known
    };
    !resources.without_cgroups && units.service(unit).is_some_and(is_vain)
}

/// The kernel killed a process of the unit for want of memory (`OOMPolicy=`).
pub(crate) fn service_out_of_memory(core: &mut Core, unit: UnitId) {
    if core.units.service(unit).is_none() {
        return;
    }
    let policy = unit_settings::compiled(core, unit).service().oom_policy;
    // Its end may have been told before.
    let runs =
        core.units.active_state(unit).is_up_or_coming() && !core.units.waits_to_restart(unit);
    match policy {
        OomPolicy::Continue => {}
        OomPolicy::Stop | OomPolicy::Kill if runs => {
            service::fail(core, unit, Outcome::OomKill, Code::OomKilled);
            match policy {
                OomPolicy::Kill => stop::enter_signal(core, unit, ServicePhase::StopSigkill),
                _ if core.units.active_state(unit).is_up() => stop::enter_stop(core, unit),
                _ => stop::enter_signal(core, unit, ServicePhase::StopSigterm),
            }
        }
        _ => core.units.set_outcome(unit, Outcome::OomKill),
    }
}

// ---- the bus name of Type=dbus ----

pub(crate) fn service_bus_name(core: &mut Core, unit: UnitId, state: BusName) {
    if core.units.known(unit).is_none() || core.units.service(unit).is_none() {
        return;
    }
    match (core.units.service_phase(unit), state) {
        (Some(ServicePhase::Start), BusName::Owned) => {
            core.units.service_mut(unit).ready = true;
            if core.units.service(unit).is_some_and(|run| run.main.asked().is_none()) {
                service::enter_start_post(core, unit);
            }
        }
        (Some(ServicePhase::Start), BusName::NoBus) => {
            let error = "there is no message bus to acquire BusName= on".to_owned();
            core.units.history_mut(unit).status_text = error;
            service::fail(core, unit, Outcome::Protocol, Code::Protocol);
            stop::enter_signal(core, unit, ServicePhase::StopSigterm);
        }
        (Some(ServicePhase::Running), BusName::Free) => stop::enter_stop(core, unit),
        // What runs now is to be over first: then it is asked for again.
        _ => {}
    }
}

// ---- the notify socket (sd_notify(3)) ----

pub(crate) fn service_notify(core: &mut Core, unit: UnitId, pid: u32, message: Notify) {
    if core.units.known(unit).is_none() || core.units.service(unit).is_none() {
        return;
    }
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    if !may_notify(&core.units, unit, pid, config.notify_access) {
        return;
    }
    if let Some(main) = message.main_pid.filter(|&main| core.pids.unit_of(main).is_none()) {
        service::adopt_main(core, unit, main);
    }
    notify_texts(&mut core.units, unit, &message);
    notify_watchdog(core, unit, &message);
    let is_clean = core.units.service(unit).is_some_and(|run| run.clean);
    if let Some(clean) = message.clean.filter(|&clean| clean != is_clean) {
        core.units.service_mut(unit).clean = clean;
    }
    if let Some(us) = message.extend_timeout_us {
        extend_timeout(&mut core.units, core.times.now, unit, Duration::from_micros(us));
    }
    type Change = fn(&mut Core, UnitId, &ServiceConfig);
    let changes: [(bool, Change); 4] = [
        (message.watchdog_trigger, |core, unit, _| service::watchdog_triggered(core, unit)),
        (
            message.reloading && !is_of_a_reload_before(&core.units, unit, message.made),
            notify_reloading,
        ),
        (message.ready, notify_ready),
        (message.stopping, notify_stopping),
    ];
    for (_, change) in changes.into_iter().filter(|(is_said, _)| *is_said) {
        // The one before may have been the end of it.
        if core.units.service(unit).is_some() {
            change(core, unit, config);
        }
    }
}

pub(crate) fn service_fds_stored(units: &mut Units, unit: UnitId, count: u32) {
    if units.known(unit).is_some() && units.service(unit).is_some() {
        units.service_mut(unit).fds_stored = count;
    }
}

/// Whether what a process of the unit says counts: `NotifyAccess=`.
pub(crate) fn hears(units: &Units, unit: UnitId, pid: u32, access: NotifyAccess) -> bool {
    units.known(unit).is_some()
        && units.service(unit).is_some()
        && may_notify(units, unit, pid, access)
}

fn may_notify(units: &Units, unit: UnitId, pid: u32, access: NotifyAccess) -> bool {
    let main = units.run(unit).main_process().is_some_and(|main| main.pid == pid);
    // The reply that names the main process may still be on its way when it speaks first.
    let starting = units.service(unit).is_some_and(|run| run.main.asked().is_some());
    let control = units.run(unit).control_pid() == Some(pid);
    match access {
        NotifyAccess::None => false,
        NotifyAccess::Main => main || starting,
        NotifyAccess::Exec => main || control || starting,
        NotifyAccess::All => true,
    }
}

/// What is said again as it was is no change.
fn notify_texts(units: &mut Units, unit: UnitId, message: &Notify) {
    let history = units.run(unit).history.as_ref();
    let (text, errno) = history.map_or(("", 0), |h| (&*h.status_text, h.status_errno));
    let new_text = message.status.as_deref().map(shown).filter(|&new| new != text);
    let new_errno = message.errno.filter(|&new| new != errno);
    if let Some(text) = new_text {
        units.history_mut(unit).status_text = text.to_owned();
    }
    if let Some(errno) = new_errno {
        units.history_mut(unit).status_errno = errno;
    }
}

fn notify_watchdog(core: &mut Core, unit: UnitId, message: &Notify) {
    if let Some(us) = message.watchdog_us {
        core.units.service_mut(unit).watchdog_override_us = Some(us);
    }
    let is_armed = core.units.service(unit).is_some_and(|run| run.watchdog_deadline.is_some());
    let begins = message.watchdog_us.is_some() && service::is_guarded(&core.units, unit);
    if begins || is_armed && message.watchdog {
        service::arm_watchdog(core, unit);
    }
}

/// `EXTEND_TIMEOUT_USEC=`: the phase's deadline is moved, never brought nearer. That of a restart is
/// no timeout.
fn extend_timeout(units: &mut Units, now: Moment, unit: UnitId, by: Duration) {
    if units.waits_to_restart(unit) {
        return;
    }
    let until = now.monotonic.after(by);
    let run = units.service_to_rearm(unit);
    let ends = [&mut run.deadline, &mut run.stop_by, &mut run.runtime_deadline];
    for deadline in ends.into_iter().flatten() {
        *deadline = (*deadline).max(until);
    }
}

/// Whether `RELOADING=1` was said before the signal of the reload that is under way: the service
/// had begun another one by itself, and its `READY=1` ends that one (sd_notify(3),
/// `MONOTONIC_USEC=`).
fn is_of_a_reload_before(units: &Units, unit: UnitId, made: Option<Monotonic>) -> bool {
    let is_signalled = units.service_phase(unit) == Some(ServicePhase::ReloadSignal);
    let since = units.run(unit).history.as_ref().map(|history| history.state_change.monotonic);
    is_signalled && made.zip(since).is_some_and(|(made, since)| made < since)
}

fn notify_reloading(core: &mut Core, unit: UnitId, config: &ServiceConfig) {
    core.units.service_mut(unit).notify_reloading = true;
    core.units.service_mut(unit).ready = false;
    let phase = core.units.service_phase(unit);
    if matches!(phase, Some(ServicePhase::Running | ServicePhase::ReloadSignal)) {
        reloads_by_itself(core, unit, config);
    }
}

/// It says that it reloads, and will say when it has.
pub(crate) fn reloads_by_itself(core: &mut Core, unit: UnitId, config: &ServiceConfig) {
    service::set_phase(core, unit, ServicePhase::ReloadNotify);
    let limit = config.timeout_start.map(|limit| core.times.now.monotonic.after(limit));
    core.units.service_mut(unit).deadline = limit;
}

fn notify_ready(core: &mut Core, unit: UnitId, config: &ServiceConfig) {
    let run = core.units.service_mut(unit);
    // Of `Type=dbus` it is the name that says so.
    let is_by_name = config.service_type == ServiceType::Dbus;
    run.ready |= !(is_by_name && run.phase == ServicePhase::Start);
    run.notify_reloading = false;
    // Who is ready again has not ended: a reload may replace the main process.
    run.stopping &= run.phase.is_signalled();
    let by_notify = matches!(config.service_type, ServiceType::Notify | ServiceType::NotifyReload);
    match run.phase {
        ServicePhase::Start if by_notify && run.main.asked().is_none() => {
            service::enter_start_post(core, unit);
        }
        ServicePhase::ReloadNotify => service::enter_running(core, unit, false),
        _ => {}
    }
}

fn notify_stopping(core: &mut Core, unit: UnitId, config: &ServiceConfig) {
    let phase = core.units.service_phase(unit);
    core.units.service_mut(unit).stopping |= !phase.is_some_and(ServicePhase::is_signalled);
    if phase == Some(ServicePhase::Running) {
        goes_by_itself(core, unit, config);
    }
}

/// It says that it ends: nobody needs to tell it.
pub(crate) fn goes_by_itself(core: &mut Core, unit: UnitId, config: &ServiceConfig) {
    service::set_phase(core, unit, ServicePhase::StopSigterm);
    let deadline = stop::stop_deadline(
        &mut core.units,
        core.times.now,
        unit,
        config,
        ServicePhase::StopSigterm,
    );
    core.units.service_mut(unit).deadline = deadline;
}

/// Whether this end of the main process is a success: code 0, for daemons also the signals HUP,
/// INT, TERM and PIPE, and what `SuccessExitStatus=` adds (systemd.service(5)).
fn is_clean(status: ExitStatus, config: &ServiceConfig) -> bool {
    // Without a command there is no file any more: the type is not known then.
    let daemon = config.service_type != ServiceType::Oneshot || config.exec_start.is_empty();
    match status {
        ExitStatus::Exited(code) => code == 0 || config.success_exit_status.has_code(code),
        ExitStatus::Killed(n) => {
            let Some(signal) = Signal::new(i32::from(n)) else { return false };
            let usual = [Signal::HUP, Signal::INT, Signal::TERM, Signal::PIPE].contains(&signal);
            daemon && usual || config.success_exit_status.has_signal(signal)
        }
        ExitStatus::Dumped(_) => false,
        ExitStatus::Unknown => true,
    }
}

/// Whether a status is in a set of `SuccessExitStatus=` and its relatives.
pub(crate) fn in_set(status: ExitStatus, set: &ExitStatusSet) -> bool {
    match status {
        ExitStatus::Exited(code) => set.has_code(code),
        ExitStatus::Killed(n) | ExitStatus::Dumped(n) => {
            Signal::new(i32::from(n)).is_some_and(|signal| set.has_signal(signal))
        }
        ExitStatus::Unknown => false,
    }
}

impl History {
    /// How the processes ended that made the last run what it came to: the main process, and the first
    /// command beside it that failed, unless the main process had failed before. Of a unit whose reload
    /// failed, the command of that.
    pub fn telling_ends(&self, settings: &Compiled) -> (Option<Ended>, Option<CommandEnd>) {
        use CommandList::{Condition, Reload, Start, StartPre};
        let ends = self.account.iter().flat_map(|account| &account.commands);
        let mut failed = ends.filter(|end| self.has_failed(end, settings));
        let main = self.last_main.filter(|main| !ended_well(main.status, settings));
        let is_first = |end: &&CommandEnd| match end.list {
            Start => false,
            Reload => self.last_control == Some((end.list, end.ended)),
            // There was no main process yet in this run.
            Condition | StartPre => true,
            _ => main.is_none_or(|main| end.ended.ended < main.ended),
        };
        let command = failed.find(is_first).copied();
        let main = match command {
            None => self.last_main,
            Some(end) if matches!(end.list, Condition | StartPre) => None,
            Some(_) => main,
        };
        (main, command)
    }

    fn has_failed(&self, end: &CommandEnd, settings: &Compiled) -> bool {
        let status = end.ended.status;
        let is_success = match &settings.own {
            TypeSettings::Service(config) if !matches!(status, ExitStatus::Dumped(_)) => {
                in_set(status, &config.success_exit_status)
            }
            _ => false,
        };
        let command = settings.commands(end.list).get(usize::from(end.index));
        let may_fail = command.is_some_and(|command| {
            command.ignore_failure && !self.ran_another(end.list, end.index, command)
        });
        status != ExitStatus::Exited(0) && !is_success && !may_fail
    }
}

/// Whether a main process ended as it may.
fn ended_well(status: ExitStatus, settings: &Compiled) -> bool {
    match &settings.own {
        TypeSettings::Service(config) => is_clean(status, config),
        _ => true,
    }
}

/// Whether there is more to a start than that the process is there.
fn waits_for_a_word(service_type: ServiceType) -> bool {
    !matches!(service_type, ServiceType::Simple | ServiceType::Exec | ServiceType::Idle)
}

fn outcome_of(status: ExitStatus) -> Outcome {
    match status {
        ExitStatus::Exited(_) | ExitStatus::Unknown => Outcome::ExitCode,
        ExitStatus::Killed(_) => Outcome::Signal,
        ExitStatus::Dumped(_) => Outcome::CoreDump,
    }
}

fn signal_name(n: u8) -> String {
    Signal::new(i32::from(n)).map_or_else(|| format!("signal {n}"), |signal| signal.to_string())
}

/// As much of `STATUS=` as is kept.
fn shown(text: &str) -> &str {
    let is_end = |&i: &usize| text.is_char_boundary(i);
    &text[..(0..=text.len().min(STATUS_TEXT_MAX)).rev().find(is_end).unwrap_or(0)]
}

//! Services, the way down: stop commands, signals, the end, and what comes after it
//! (systemd.service(5), systemd.kill(5)).

use crate::features::stop_budget::{SHARE_MAX, SPAWN_WAIT_MIN, share_of};
use crate::features::{cleanup, restart_mode, shutdown_state};
use crate::jobs::{halves, install};
use crate::model::admin_marks::Markers;
use crate::model::ids::UnitId;
use crate::model::job::{Job, JobKind, JobMode, JobType};
use crate::model::part::Part;
use crate::model::process::*;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::model::time::{Moment, Monotonic};
use crate::parts::outbox::Outbox;
use crate::parts::resources::Resources;
use crate::parts::units::Units;
use crate::parts::{Core, unit_settings};
use crate::protocol::event::{Effect, FollowUp, KillTarget};
use crate::state_change;
use crate::types::service;
use crate::types::service::events::in_set;
use crate::view::Totals;
use std::time::Duration;
use warren_unit::Signal;
use warren_unit::config::{
    KillMode, Restart, RestartMode, ServiceConfig, StopBudget, StopPolicy, TimeoutFailureMode,
};

/// How long processes may take to go after SIGKILL: only the kernel holds them then. What is left
/// after it is left over.
pub(crate) const KILL_WAIT_MAX: Duration = Duration::from_secs(10);

/// The phase of the way down that runs these commands.
fn phase_of(list: CommandList) -> Option<ServicePhase> {
    match list {
        CommandList::Stop => Some(ServicePhase::Stop),
        CommandList::StopPost => Some(ServicePhase::StopPost),
        _ => None,
    }
}

/// A request or a dependency wants it down.
pub(crate) fn service_stop(core: &mut Core, unit: UnitId) {
    use ServicePhase::*;
    let Some(phase) = core.units.service_phase(unit) else { return };
    core.units.service_mut(unit).stop_requested = true;
    core.queues.idle_services.remove(&unit);
    match phase {
        // What went wrong was to be answered by the restart; nobody wants that any more.
        AutoRestart => {
            let run = core.units.service_mut(unit);
            let ended = std::mem::replace(&mut run.outcome, Outcome::Success);
            enter_dead(core, unit);
            // But it stays the result of the last run.
            core.units.history_mut(unit).outcome = ended;
        }
        Condition | StartPre | Start | StartPost => enter_signal(core, unit, StopSigterm),
        // With `Type=idle` the program may not have been executed yet: there is nothing to ask.
        Running | Reload if service::is_to_come(core, unit) => {
            enter_signal(core, unit, StopSigterm)
        }
        Running | Exited if may_be_killed(core, unit) => kill_suddenly(core, unit),
        Running | Exited | Reload | ReloadSignal | ReloadNotify => enter_stop(core, unit),
        _ => {}
    }
}

/// Whether it is to end by SIGKILL at once: at shutdown, if it or its file says that there is
/// nothing to save.
fn may_be_killed(core: &mut Core, unit: UnitId) -> bool {
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    let says_so = core.units.service(unit).is_some_and(|run| run.clean)
        || config.stop_policy == StopPolicy::Sudden;
    says_so && config.kill.send_sigkill && shutdown_state::is_going_down(core)
}

fn kill_suddenly(core: &mut Core, unit: UnitId) {
    state_change::note(core, unit, Code::Sudden, Cause::Manager, String::new());
    core.units.service_mut(unit).sudden = true;
    enter_signal(core, unit, ServicePhase::StopSigkill);
}

/// When a phase of the way down is over at the latest.
///
/// `TimeoutStopSec=` is for the whole stop, from its beginning to the last signal. What is
/// still to come keeps a share of it: the stop signal after `ExecStop=`, and `ExecStopPost=`.
/// An abort has a time of its own, because a core dump takes long (systemd.service(5),
/// `TimeoutAbortSec=`), and so has SIGKILL, which only the kernel can hold up. Whose time is
/// over, because it was used up or because nobody waits any more, has one share for what is
/// still to be run.
pub(crate) fn stop_deadline(
    units: &mut Units,
    now: Moment,
    unit: UnitId,
    config: &ServiceConfig,
    phase: ServicePhase,
) -> Option<Monotonic> {
    use ServicePhase::*;
    let afresh = match phase {
        StopWatchdog | FinalWatchdog => config.timeout_abort,
        _ => config.timeout_stop,
    };
    let is_overdue = is_overdue(units, now, unit);
    let now = now.monotonic;
    let by_phase = config.stop_budget == StopBudget::PerPhase && !is_overdue;
    if by_phase || matches!(phase, StopWatchdog) {
        return afresh.map(|timeout| now.after(timeout));
    }
    if matches!(phase, StopSigkill | FinalSigkill) {
        return Some(now.after(KILL_WAIT_MAX));
    }
    if is_overdue {
        return Some(now.after(config.timeout_stop.map_or(SHARE_MAX, share_of)));
    }
    let budget = config.timeout_stop?;
    let end = *units.service_mut(unit).stop_by.get_or_insert(now.after(budget));
    let share = share_of(budget);
    let post = u32::from(!config.exec_stop_post.is_empty());
    let shares = match phase {
        Stop => 1 + post,
        StopSigterm => post,
        _ => 0,
    };
    Some(end.before(share * shares).max(now.after(share)))
}

/// The same of a command that was just asked for. One whose process is not there yet has not had
/// any time: where thousands end at once, helpers have others before it.
pub(crate) fn stop_command_deadline(
    units: &mut Units,
    now: Moment,
    unit: UnitId,
    config: &ServiceConfig,
    list: CommandList,
) -> Option<Monotonic> {
    let phase = phase_of(list)?;
    let until = stop_deadline(units, now, unit, config, phase)?;
    Some(until.max(now.monotonic.after(SPAWN_WAIT_MIN)))
}

/// The process of a command of the stop is there: its time begins.
pub(crate) fn stop_command_began(core: &mut Core, unit: UnitId, list: CommandList) {
    let Some(phase) = phase_of(list) else { return };
    let settings = unit_settings::compiled(core, unit);
    let deadline = stop_deadline(&mut core.units, core.times.now, unit, settings.service(), phase);
    core.units.service_mut(unit).deadline = deadline;
}

/// It has been up: `ExecStop=` first, in the place of what a reload still runs.
pub(crate) fn enter_stop(core: &mut Core, unit: UnitId) {
    kill_control(core, unit);
    core.units.service_mut(unit).watchdog_deadline = None;
    core.units.service_mut(unit).runtime_deadline = None;
    let settings = unit_settings::compiled(core, unit);
    if settings.service().exec_stop.is_empty() {
        return enter_signal(core, unit, ServicePhase::StopSigterm);
    }
    service::set_phase(core, unit, ServicePhase::Stop);
    service::run_command(core, unit, CommandList::Stop, 0);
}

/// Whether nothing is left that the unit waits for before it goes on.
fn is_stopped(units: &Units, resources: &Resources, unit: UnitId, config: &ServiceConfig) -> bool {
    let Some(run) = units.service(unit) else { return true };
    let nothing_coming = run.main.asked().is_none() && run.doomed.is_empty();
    if config.kill.mode == KillMode::None {
        return run.control.is_none() && nothing_coming;
    }
    let known_gone = run.main.process().is_none() && run.control.is_none() && nothing_coming;
    let group_matters = matches!(config.kill.mode, KillMode::ControlGroup | KillMode::Mixed);
    known_gone && (run.group_empty || resources.without_cgroups || !group_matters)
}

/// Enters a phase that sends a signal, or the one after it if nobody is left.
pub(crate) fn enter_signal(core: &mut Core, unit: UnitId, phase: ServicePhase) {
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    drop_searches(&mut core.units, &mut core.outbox, unit);
    core.units.service_mut(unit).stopping = false;
    let is_spared = rest_is_spared(&core.units, unit, config)
        && !asks_who_is_left(&core.units, &core.totals, unit, config, phase);
    if is_spared || is_stopped(&core.units, &core.resources, unit, config) {
        return next_after_signal(core, unit, phase);
    }
    service::set_phase(core, unit, phase);
    let deadline = stop_deadline(&mut core.units, core.times.now, unit, config, phase);
    core.units.service_mut(unit).deadline = deadline;
    send_for(core, unit, config, phase);
}

/// Sends what a phase of the way down sends.
fn send_for(core: &mut Core, unit: UnitId, config: &ServiceConfig, phase: ServicePhase) {
    use ServicePhase::*;
    match phase {
        StopSigkill | FinalSigkill => send_final(core, unit, config),
        StopWatchdog | FinalWatchdog => {
            send(core, unit, config, config.kill.watchdog_signal, false)
        }
        StopSigterm | FinalSigterm => {
            let signal = stop_signal(&core.units, unit, config);
            send(core, unit, config, signal, true)
        }
        _ => {}
    }
}

/// A process that was asked for before the signal is there after it: it gets the signal too.
pub(crate) fn signal_latecomer(core: &mut Core, unit: UnitId, phase: ServicePhase) {
    let settings = unit_settings::compiled(core, unit);
    drop_signal(&mut core.units, &mut core.outbox, unit);
    send_for(core, unit, settings.service(), phase);
}

/// A process that was asked for before the signal does not come. The group may have become
/// empty while it was waited for, so whether anybody is left is asked anew.
pub(crate) fn latecomer_missing(core: &mut Core, unit: UnitId, phase: ServicePhase) {
    advance_if_stopped(core, unit);
    let still = core.units.service(unit).is_some_and(|run| {
        run.phase == phase && run.main.asked().is_none() && run.doomed.is_empty()
    });
    if still {
        signal_latecomer(core, unit, phase);
    }
}

pub(crate) fn drop_searches(units: &mut Units, outbox: &mut Outbox, unit: UnitId) {
    drop_signal(units, outbox, unit);
    let run = units.service_mut(unit);
    let dropped = run.main_search.take();
    run.watchdog_deadline = None;
    dropped.into_iter().for_each(|id| outbox.forget_effect(id));
}

/// A signal that is still being sent has met all that it was for: it would meet what is run next.
fn drop_signal(units: &mut Units, outbox: &mut Outbox, unit: UnitId) {
    let dropped = units.service_mut(unit).kill_asked.take();
    dropped.into_iter().for_each(|id| outbox.forget_effect(id));
}

/// `RestartKillSignal=` when it goes down to come up again, else `KillSignal=`.
fn stop_signal(units: &Units, unit: UnitId, config: &ServiceConfig) -> Signal {
    let restarts = units.run(unit).job.as_ref().is_some_and(|job| job.kind == JobKind::Restart);
    match config.kill.restart_signal {
        Some(signal) if restarts => signal,
        _ => config.kill.signal,
    }
}

/// Sends the stop signal to whom `KillMode=` says. A process that is still being made gets it when it
/// comes ([`signal_latecomer`]). SIGHUP and SIGCONT come after the stop signal alone, `stops`
/// (systemd.kill(5), "SendSIGHUP="): after another, SIGHUP would be what a process ends by.
fn send(core: &mut Core, unit: UnitId, config: &ServiceConfig, signal: Signal, stops: bool) {
    let run = core.units.service(unit).expect("its phase was just set");
    let control = match run.control {
        Some(Control::Running(process)) => Some(process.pid),
        _ => None,
    };
    let main = run.main.process().map(|main| main.pid);
    let is_one_coming =
        run.main.asked().is_some() || matches!(run.control, Some(Control::Asked(_)));
    let then = FollowUp { hangup: stops && config.kill.send_sighup, resume: stops };
    match config.kill.mode {
        KillMode::ControlGroup => {
            send_to(&mut core.units, &mut core.outbox, unit, KillTarget::Group, signal, then, true)
        }
        KillMode::Mixed if main.is_none() && control.is_none() && !is_one_coming => {
            match config.kill.send_sigkill {
                true => send_final(core, unit, config),
                false => ask_who_is_left(&mut core.units, &mut core.outbox, unit),
            }
        }
        KillMode::Mixed | KillMode::Process => {
            for pid in [main, control].into_iter().flatten() {
                send_to(
                    &mut core.units,
                    &mut core.outbox,
                    unit,
                    KillTarget::Process(pid),
                    signal,
                    then,
                    false,
                );
            }
        }
        KillMode::None => {
            if let Some(pid) = control {
                send_to(
                    &mut core.units,
                    &mut core.outbox,
                    unit,
                    KillTarget::Process(pid),
                    signal,
                    then,
                    false,
                );
            }
        }
    }
}

fn send_to(
    units: &mut Units,
    outbox: &mut Outbox,
    unit: UnitId,
    target: KillTarget,
    signal: Signal,
    then: FollowUp,
    wait: bool,
) {
    let id = outbox.new_effect(unit);
    if wait {
        units.service_mut(unit).kill_asked = Some(id);
    } else {
        outbox.forget_effect(id);
    }
    outbox.effects.push(Effect::Kill { id, unit, target, signal: signal.number(), then });
}

/// kill(2): signal 0 reaches nobody, and tells who is there.
fn ask_who_is_left(units: &mut Units, outbox: &mut Outbox, unit: UnitId) {
    let id = outbox.new_effect(unit);
    units.service_mut(unit).kill_asked = Some(id);
    let (target, then) = (KillTarget::Group, FollowUp::default());
    outbox.effects.push(Effect::Kill { id, unit, target, signal: 0, then });
}

/// `FinalKillSignal=`; for SIGKILL the kernel kills the whole group at once.
fn send_final(core: &mut Core, unit: UnitId, config: &ServiceConfig) {
    let by_group = matches!(config.kill.mode, KillMode::ControlGroup | KillMode::Mixed);
    if by_group && config.kill.final_signal == Signal::KILL && !core.resources.without_cgroups {
        core.outbox.effects.push(Effect::KillGroup { unit });
    } else if by_group {
        let then = FollowUp::default();
        send_to(
            &mut core.units,
            &mut core.outbox,
            unit,
            KillTarget::Group,
            config.kill.final_signal,
            then,
            true,
        );
    } else {
        send(core, unit, config, config.kill.final_signal, false);
    }
}

/// Ends the control process at once, because its phase is over.
pub(crate) fn kill_control(core: &mut Core, unit: UnitId) {
    let run = core.units.service_mut(unit);
    match run.control.take() {
        Some(Control::Running(process)) => {
            core.pids.disown(process.pid);
            kill_process(&mut core.units, &mut core.outbox, unit, process.pid);
        }
        Some(Control::Asked(id)) => run.doomed.push(id),
        None => {}
    }
}

pub(crate) fn kill_process(units: &mut Units, outbox: &mut Outbox, unit: UnitId, pid: u32) {
    let target = KillTarget::Process(pid);
    send_to(units, outbox, unit, target, Signal::KILL, FollowUp::default(), false);
}

/// A process that came too late was killed: it may have made others by then.
pub(crate) fn kill_its_children(core: &mut Core, unit: UnitId) {
    if !matches!(core.units.run(unit).state, TypeState::Service(_))
        || !core.units.active_state(unit).is_down()
    {
        return;
    }
    let settings = unit_settings::compiled(core, unit);
    let kill = &settings.service().kill;
    let by_group = matches!(kill.mode, KillMode::ControlGroup | KillMode::Mixed);
    // Whom nobody may kill may have been left there.
    if by_group && kill.send_sigkill && !core.resources.without_cgroups {
        core.outbox.effects.push(Effect::KillGroup { unit });
    }
    if core.units.run(unit).job.is_none() {
        core.settings.forget(unit);
    }
}

/// A process ended or the cgroup became empty while the unit goes down: on, if that was the
/// last of it.
pub(crate) fn advance_if_stopped(core: &mut Core, unit: UnitId) {
    use ServicePhase::*;
    let Some(phase) = core.units.service_phase(unit).filter(|phase| phase.is_signalled()) else {
        return;
    };
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    if is_stopped(&core.units, &core.resources, unit, config)
        || rest_is_spared(&core.units, unit, config)
    {
        next_after_signal(core, unit, phase);
    } else if rest_is_killed(&core.units, unit, settings.service()) {
        match phase {
            StopSigterm | StopWatchdog => enter_signal(core, unit, StopSigkill),
            FinalSigterm | FinalWatchdog => enter_signal(core, unit, FinalSigkill),
            _ => {}
        }
    }
}

/// `KillMode=mixed`: SIGTERM was for the main process; when that is gone the rest of the
/// cgroup is killed at once, as systemd 252 does it.
fn rest_is_killed(units: &Units, unit: UnitId, config: &ServiceConfig) -> bool {
    config.kill.send_sigkill && has_only_the_rest(units, unit, config)
}

/// The same with `SendSIGKILL=no`: the rest is not told to go, and nobody waits for it.
fn rest_is_spared(units: &Units, unit: UnitId, config: &ServiceConfig) -> bool {
    let is_asked = units.service(unit).is_some_and(|run| run.kill_asked.is_some());
    !config.kill.send_sigkill && !is_asked && has_only_the_rest(units, unit, config)
}

/// Whether it is to be known before the end if there is a rest: the service is not restarted beside it.
fn asks_who_is_left(
    units: &Units,
    totals: &Totals,
    unit: UnitId,
    config: &ServiceConfig,
    phase: ServicePhase,
) -> bool {
    let is_last = matches!(phase, ServicePhase::FinalSigterm | ServicePhase::FinalWatchdog);
    is_last && units.service(unit).is_some_and(|run| will_restart(units, totals, unit, config, run))
}

/// Whether those are gone that `KillMode=mixed` has signalled, or there were none.
fn has_only_the_rest(units: &Units, unit: UnitId, config: &ServiceConfig) -> bool {
    let gone = |run: &ServiceRun| {
        run.main.process().is_none()
            && run.control.is_none()
            && run.main.asked().is_none()
            && run.doomed.is_empty()
    };
    config.kill.mode == KillMode::Mixed && units.service(unit).is_some_and(gone)
}

fn next_after_signal(core: &mut Core, unit: UnitId, phase: ServicePhase) {
    use ServicePhase::*;
    drop_signal(&mut core.units, &mut core.outbox, unit);
    match phase {
        StopWatchdog | StopSigterm | StopSigkill => enter_stop_post(core, unit),
        _ => enter_dead(core, unit),
    }
}

/// Whether the unit is down as soon as nobody is left in its cgroup: it is being stopped, and
/// nothing is to be run any more.
pub(crate) fn is_down_when_empty(core: &Core, unit: UnitId) -> bool {
    use ServicePhase::*;
    match core.units.service_phase(unit) {
        Some(StopSigterm | StopSigkill | StopWatchdog) => {
            let settings = core.settings.at_hand(unit);
            settings.is_some_and(|settings| settings.service().exec_stop_post.is_empty())
        }
        Some(FinalSigterm | FinalSigkill | FinalWatchdog) => true,
        _ => false,
    }
}

/// SIGKILL was not enough: only the kernel holds who is left. They are left over, and what is
/// to be run after them is run; without it another round of signals has nobody to meet.
fn leave_to_kernel(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    match settings.service().exec_stop_post.is_empty() {
        true => enter_dead(core, unit),
        false => enter_stop_post(core, unit),
    }
}

pub(crate) fn enter_stop_post(core: &mut Core, unit: UnitId) {
    drop_searches(&mut core.units, &mut core.outbox, unit);
    let settings = unit_settings::compiled(core, unit);
    if settings.service().exec_stop_post.is_empty() {
        return enter_signal(core, unit, ServicePhase::FinalSigterm);
    }
    service::set_phase(core, unit, ServicePhase::StopPost);
    // A command before it that nobody waits for any more may still be about to begin.
    let run = core.units.service_mut(unit);
    if let Some(Control::Asked(id)) = run.control {
        run.doomed.push(id);
    }
    service::run_command(core, unit, CommandList::StopPost, 0);
}

/// A phase of the way down has taken too long.
pub(crate) fn stop_timeout(
    core: &mut Core,
    unit: UnitId,
    phase: ServicePhase,
    config: &ServiceConfig,
) {
    use ServicePhase::*;
    let kills = config.kill.send_sigkill;
    let code = match phase {
        Stop | StopPost => Code::StopCommandTimeout,
        StopSigkill | FinalSigkill => Code::KernelHolds,
        // An abort is a chance more.
        StopSigterm if config.timeout_stop_failure_mode == TimeoutFailureMode::Abort => {
            Code::StopTimeout
        }
        StopSigterm | StopWatchdog | FinalSigterm | FinalWatchdog if !kills => Code::StopLeft,
        _ => Code::StopTimeout,
    };
    tell_stop_timeout(core, unit, code);
    let last = match config.timeout_stop_failure_mode {
        TimeoutFailureMode::Terminate => Some(FinalSigterm),
        TimeoutFailureMode::Abort => Some(FinalWatchdog),
        TimeoutFailureMode::Kill => kills.then_some(FinalSigkill),
    };
    match phase {
        Stop => service::end_in_mode(core, unit, config, config.timeout_stop_failure_mode),
        StopSigterm if config.timeout_stop_failure_mode == TimeoutFailureMode::Abort => {
            enter_signal(core, unit, StopWatchdog)
        }
        StopSigterm | StopWatchdog if kills => enter_signal(core, unit, StopSigkill),
        StopSigterm | StopWatchdog => enter_stop_post(core, unit),
        StopSigkill => leave_to_kernel(core, unit),
        StopPost if kills && is_overdue(&core.units, core.times.now, unit) => {
            enter_signal(core, unit, FinalSigkill)
        }
        StopPost => match last {
            Some(last) => enter_signal(core, unit, last),
            None => enter_dead(core, unit),
        },
        FinalSigterm | FinalWatchdog if kills => enter_signal(core, unit, FinalSigkill),
        _ => enter_dead(core, unit),
    }
}

/// That nobody may or can kill it is said once, however many phases it outlasts. What the kernel holds
/// counts before what it was killed for.
fn tell_stop_timeout(core: &mut Core, unit: UnitId, code: Code) {
    let history = core.units.run(unit).history.as_ref();
    let stays = matches!(code, Code::StopLeft | Code::KernelHolds);
    let is_said = stays && history.is_some_and(|told| told.reason.code == code);
    match code {
        _ if is_said => {}
        Code::KernelHolds => state_change::note(core, unit, code, Cause::Kernel, String::new()),
        _ => return service::fail(core, unit, Outcome::Timeout, code),
    }
    core.units.set_outcome(unit, Outcome::Timeout);
}

/// An administrator waits no longer: what asks is over, what kills begins. A start has failed then.
///
/// `ExecStopPost=` still runs, as it may have something to clear away, but the time for the
/// whole stop is over: it has its share, whatever the file says.
pub(crate) fn hurry_service(core: &mut Core, unit: UnitId) {
    use ServicePhase::*;
    let Some(phase) = core.units.service_phase(unit) else { return };
    core.units.service_mut(unit).stop_by = Some(core.times.now.monotonic);
    match phase {
        Stop | StopWatchdog | StopSigterm => enter_signal(core, unit, StopSigkill),
        StopPost | FinalWatchdog | FinalSigterm => enter_signal(core, unit, FinalSigkill),
        StopSigkill => leave_to_kernel(core, unit),
        FinalSigkill => enter_dead(core, unit),
        Condition | StartPre | Start | StartPost => {
            // Nor is it to be tried again.
            core.units.service_mut(unit).stop_requested = true;
            core.queues.idle_services.remove(&unit);
            core.units.set_outcome(unit, Outcome::Timeout);
            enter_signal(core, unit, StopSigkill);
        }
        _ => {}
    }
}

/// Whether the time for the whole stop is over.
fn is_overdue(units: &Units, now: Moment, unit: UnitId) -> bool {
    let end = units.service(unit).and_then(|run| run.stop_by);
    end.is_some_and(|end| end <= now.monotonic)
}

/// Nothing of the run is left. Comes to rest, or waits to be started again.
fn enter_dead(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    let config = settings.service();
    let mut run = core.units.service(unit).expect("it is ending").clone();
    drop_effects(core, unit, &run);
    service::watch_bus_name(core, unit, false);
    let restarts = will_restart(&core.units, &core.totals, unit, config, &run)
        && !is_in_the_way(core, unit, config, &mut run);
    let bad = !matches!(run.outcome, Outcome::Success | Outcome::ExecCondition);
    // One that ExecCondition= kept from running tells that instead.
    if run.outcome == Outcome::Success && !run.stop_requested {
        finished(core, unit, restarts);
    }
    let history = core.units.history_mut(unit);
    history.outcome = run.outcome;
    history.has_cgroup = false;
    let restarting = restarts || is_to_come_again(&core.units, unit);
    core.outbox.effects.push(Effect::CleanUp { unit, settings: settings.clone(), restarting });
    cleanup::clear_away(core, unit, &settings, restarting);
    let comes_again = restarts || is_restarted(&core.units, unit, &run);
    if restarts && config.restart_mode == RestartMode::Direct {
        // The next run has a group where the files say, and nothing of what was noted of this one.
        core.resources.strays.remove(&unit);
        core.units.history_mut(unit).markers = Markers::default();
    } else {
        state_change::transit(core, unit, comes_again, |u| {
            u.state =
                TypeState::Service(if bad { Service::Failed(run.outcome) } else { Service::Dead });
        });
    }
    if restarts {
        wait_to_restart(core, unit, config, run);
    }
}

/// Whether the restart has come for which it waited: that is no end of its own.
fn is_restarted(units: &Units, unit: UnitId, run: &ServiceRun) -> bool {
    let job = units.run(unit).job.as_ref();
    run.phase == ServicePhase::AutoRestart
        && job.is_some_and(|job| job.kind == JobKind::Restart && job.reason.cause == Cause::Restart)
}

/// Whether a job brings it up again. That which restarts it after `RestartSec=` is there at its end, too; a start
/// that is under way is that of the run which is over.
fn is_to_come_again(units: &Units, unit: UnitId) -> bool {
    let waits = |job: &Job| job.kind != JobKind::Stop && !job.running;
    units.run(unit).job.as_deref().is_some_and(|job| job.kind == JobKind::Restart || waits(job))
}

/// It left as it should. The log need not have that of each run of many.
fn finished(core: &mut Core, unit: UnitId, restarts: bool) {
    match restarts {
        true => core.units.history_mut(unit).reason = Reason::new(Code::Finished, Cause::Kernel),
        false => state_change::note(core, unit, Code::Finished, Cause::Kernel, String::new()),
    }
}

fn drop_effects(core: &mut Core, unit: UnitId, run: &ServiceRun) {
    let asked = match run.control {
        Some(Control::Asked(id)) => Some(id),
        Some(Control::Running(process)) => {
            core.pids.disown(process.pid);
            None
        }
        None => None,
    };
    if let Some(main) = run.main.process() {
        core.pids.disown(main.pid);
    }
    let spawns = asked.into_iter().chain(run.main.asked()).chain(run.doomed.iter().copied());
    for id in spawns {
        core.outbox.come_too_late(id, unit);
    }
    for id in run.kill_asked.into_iter().chain(run.main_search) {
        core.outbox.forget_effect(id);
    }
    core.queues.idle_services.remove(&unit);
}

// ---- Restart= ----

/// The table of systemd.service(5), `Restart=`.
fn will_restart(
    units: &Units,
    totals: &Totals,
    unit: UnitId,
    config: &ServiceConfig,
    run: &ServiceRun,
) -> bool {
    let stop_comes = units
        .run(unit)
        .job
        .as_ref()
        .is_some_and(|job| matches!(job.kind, JobKind::Stop | JobKind::Restart));
    if run.stop_requested || stop_comes || totals.stopping || run.phase == ServicePhase::AutoRestart
    {
        return false;
    }
    let last = units.run(unit).history.as_ref().and_then(|h| h.last_main).map(|e| e.status);
    let in_set = |set| last.is_some_and(|status| in_set(status, set));
    if in_set(&config.restart_prevent_exit_status) {
        return false;
    }
    if in_set(&config.restart_force_exit_status) {
        return true;
    }
    restarts_after(config.restart, run.outcome)
}

/// Whether processes are left in its cgroup that nobody may kill: beside them it is not started again by
/// itself (systemd.kill(5), `SendSIGKILL=`), and that is why it is down.
fn is_in_the_way(
    core: &mut Core,
    unit: UnitId,
    config: &ServiceConfig,
    run: &mut ServiceRun,
) -> bool {
    let by_group = matches!(config.kill.mode, KillMode::ControlGroup | KillMode::Mixed);
    let may_be_left = by_group && !config.kill.send_sigkill && !core.resources.without_cgroups;
    if !may_be_left || run.group_empty {
        return false;
    }
    if run.outcome == Outcome::Success {
        run.outcome = Outcome::Resources;
    }
    match config.kill.mode {
        KillMode::Mixed => {
            state_change::note(core, unit, Code::StopLeft, Cause::Kernel, String::new())
        }
        // The log has it from the stop.
        _ => core.units.history_mut(unit).reason = Reason::new(Code::StopLeft, Cause::Kernel),
    }
    true
}

/// `auto-restart`: down, and up again after `RestartSec=` or more.
fn wait_to_restart(core: &mut Core, unit: UnitId, config: &ServiceConfig, mut run: ServiceRun) {
    let restarts = core.units.history_mut(unit).restarts;
    let deadline = core.times.now.monotonic.after(config.restart_delay_after(restarts));
    run.phase = ServicePhase::AutoRestart;
    run.main = MainProcess::None;
    run.control = None;
    run.kill_asked = None;
    run.main_search = None;
    run.doomed.clear();
    run.deadline = Some(deadline);
    run.stop_by = None;
    run.runtime_deadline = None;
    run.watchdog_deadline = None;
    state_change::transit(core, unit, false, |u| {
        u.state = TypeState::Service(Service::Up(Part::new(run)))
    });
}

/// The job that was to restart it is gone, cancelled or refused: it stays down. If it was a stop, which
/// stood against the restart when that was due, nobody wants it down any more.
pub(crate) fn restart_given_up(core: &mut Core, unit: UnitId, at: Moment) {
    let over = core.units.service(unit).is_some_and(|run| run.deadline.is_none());
    if !over || !core.units.waits_to_restart(unit) {
        return;
    }
    let lost = core.units.run(unit).history.as_ref().and_then(|history| history.lost_job);
    let was_stop = lost.is_some_and(|lost| lost.at == at && lost.kind == JobKind::Stop);
    match was_stop && !core.totals.stopping {
        true => restart_if_due(&mut core.units, core.times.now, unit),
        false => enter_dead(core, unit),
    }
}

/// The restart is due now, as it could not be had when it was.
pub(crate) fn restart_if_due(units: &mut Units, now: Moment, unit: UnitId) {
    let now = now.monotonic;
    units.service_mut(unit).deadline.get_or_insert(now);
}

pub(crate) fn restart_now(core: &mut Core, unit: UnitId) {
    if core.units.run(unit).job.as_ref().is_some_and(|job| job.kind == JobKind::Stop) {
        return;
    }
    let history = core.units.history_mut(unit);
    history.restarts += 1;
    core.totals.restarts.add(history.reason.code);
    let is_direct = restart_mode::is_direct(core, unit);
    // What the job does next makes the unit forget it.
    let history = core.units.history_mut(unit);
    let at = if is_direct { history.state_change } else { history.inactive_enter };
    let (reason, ended) = (history.reason, history.last_main);
    history.relapse = Some(Box::new(Relapse { reason, ended, at }));
    let job_type = if is_direct { JobType::Start } else { JobType::Restart };
    if !install::enqueue_quietly(core, unit, job_type, JobMode::Replace, Cause::Restart) {
        return enter_dead(core, unit);
    }
    // A start that waited for this went into the same job, and is no reason to count from 0.
    if let Some(job) = core.units.run_mut(unit).job.as_mut() {
        job.reason.cause = Cause::Restart;
    }
    // It may be the start of the run that failed, or have waited for this.
    if is_direct {
        if core.units.run(unit).job.as_ref().is_some_and(|job| job.running) {
            halves::wait_again(core, unit);
        }
        core.queues.queue_job(&core.units, unit);
    }
}

fn restarts_after(restart: Restart, outcome: Outcome) -> bool {
    use Outcome::*;
    match (restart, outcome) {
        (_, StartLimitHit | ExecCondition) | (Restart::No, _) => false,
        (Restart::Always, _) => true,
        (Restart::OnSuccess, outcome) => outcome == Success,
        (_, Success) => false,
        (Restart::OnFailure, _) => true,
        (Restart::OnAbnormal, outcome) => outcome != ExitCode,
        (Restart::OnAbort, outcome) => matches!(outcome, Signal | CoreDump),
        (Restart::OnWatchdog, outcome) => outcome == Watchdog,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of the manual: columns are the ends, rows the settings.
    #[test]
    fn restart_follows_the_table_of_the_manual() {
        use Outcome::*;
        let ends = [Success, ExitCode, Signal, Timeout, Watchdog];
        let table = [
            (Restart::No, "....."),
            (Restart::Always, "xxxxx"),
            (Restart::OnSuccess, "x...."),
            (Restart::OnFailure, ".xxxx"),
            (Restart::OnAbnormal, "..xxx"),
            (Restart::OnAbort, "..x.."),
            (Restart::OnWatchdog, "....x"),
        ];
        for (restart, row) in table {
            let got: String =
                ends.iter().map(|&e| if restarts_after(restart, e) { 'x' } else { '.' }).collect();
            assert_eq!(got, row, "{restart:?}");
        }
    }
}

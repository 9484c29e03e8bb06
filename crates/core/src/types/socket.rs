//! Sockets: open, watch, start the service when traffic comes (systemd.socket(5)).

use crate::features::stop_budget::{SIGNAL_WAIT_MIN, SPAWN_WAIT_MIN, share_of};
use crate::features::{command_lines, connections, start_limit};
use crate::graph::{Definition, Graph};
use crate::jobs::install;
use crate::model::active_state::ActiveState;
use crate::model::ids::{EffectId, UnitId};
use crate::model::job::{Job, JobKind, JobMode, JobType};
use crate::model::part::Part;
use crate::model::process::*;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::parts::Core;
use crate::parts::outbox::Outbox;
use crate::parts::unit_settings;
use crate::parts::unit_settings::UnitSettings;
use crate::parts::units::Units;
use crate::protocol::event::{Done, Effect, FollowUp, KillTarget, Spawn};
use crate::relations::triggers;
use crate::settings::Compiled;
use crate::state_change;
use std::sync::Arc;
use warren_unit::config::{KillMode, Listen, ListenKind, SocketConfig, TriggerLimit};
use warren_unit::settings::{Group, Id};
use warren_unit::{LoadState, Relation, Signal, UnitType};

const ACCEPT: Id = Id::of(Group::Socket, "Accept");
const FLUSH_PENDING: Id = Id::of(Group::Socket, "FlushPending");
const REMOVE_ON_STOP: Id = Id::of(Group::Socket, "RemoveOnStop");
const EXEC_STOP_PRE: Id = Id::of(Group::Socket, "ExecStopPre");
const EXEC_STOP_POST: Id = Id::of(Group::Socket, "ExecStopPost");

fn set_phase(core: &mut Core, unit: UnitId, phase: SocketPhase) {
    state_change::transit(core, unit, false, |run| {
        if let TypeState::Socket(Socket::Up(socket)) = &mut run.state {
            socket.phase = phase;
        }
    });
}

// ---- the way up ----

pub(crate) fn start(core: &mut Core, unit: UnitId) {
    let run = SocketRun {
        phase: SocketPhase::StartPre,
        listen_asked: None,
        fds: 0,
        control: None,
        command: (CommandList::StartPre, 0),
        deadline: None,
        outcome: Outcome::Success,
        connections: core.resources.outliving.remove(&unit).unwrap_or_default(),
        triggers: RateWindow::default(),
    };
    let history = core.units.history_mut(unit);
    history.outcome = Outcome::Success;
    history.status_text = String::new();
    history.begin_account();
    state_change::transit(core, unit, false, |u| {
        u.state = TypeState::Socket(Socket::Up(Part::new(run)))
    });
    run_list(core, unit, CommandList::StartPre);
}

/// With `Accept=no` the service must not run before its sockets are opened.
/// A socket whose service could not take it over is not opened: it stays as it is.
pub(crate) fn refused_to_start(core: &mut Core, unit: UnitId) -> bool {
    let detail = if let Some(service) = busy_service(core, unit) {
        format!("{} is active already", core.graph.name(service))
    } else if let Some(service) = missing_service(core, unit) {
        format!("{} is not there", core.graph.name(service))
    } else {
        return false;
    };
    core.units.history_mut(unit).status_text.clone_from(&detail);
    state_change::refuse_to_start(core, unit, Code::ListenFailed, detail);
    true
}

fn busy_service(core: &mut Core, unit: UnitId) -> Option<UnitId> {
    if unit_settings::compiled(core, unit).socket().accept {
        return None;
    }
    core.graph.stated(unit, Relation::Triggers).find(|&service| {
        core.units.active_state(service) != ActiveState::Failed
            && !core.units.active_state(service).is_down()
            && !core.units.waits_to_restart(service)
    })
}

/// Nobody could answer what comes.
fn missing_service(core: &mut Core, unit: UnitId) -> Option<UnitId> {
    if unit_settings::compiled(core, unit).socket().accept {
        return None;
    }
    let mut services = core.graph.stated(unit, Relation::Triggers);
    services.find(|&service| core.graph.definition(service).load_state != LoadState::Loaded)
}

fn open_sockets(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    let id = core.outbox.new_effect(unit);
    set_phase(core, unit, SocketPhase::StartChown);
    core.units.socket_mut(unit).listen_asked = Some(id);
    core.outbox.effects.push(Effect::Listen { id, unit, settings });
}

fn enter_listening(core: &mut Core, unit: UnitId) {
    let accept = accepts(core, unit);
    if !accept && flag(core, unit, FLUSH_PENDING, |config| config.flush_pending) {
        core.outbox.effects.push(Effect::FlushSockets { unit });
    }
    core.units.socket_mut(unit).deadline = None;
    set_phase(core, unit, SocketPhase::Listening);
    // At the end nothing is started for traffic. A socket that outlasts it is watched by the
    // manager that comes, and one whose stop waits for others refuses new connections.
    let waits = |job: &Job| job.kind == JobKind::Stop && job.blockers > 0;
    let is_held = core.units.run(unit).job.as_deref().is_some_and(waits);
    if !core.totals.stopping || is_held && has_connections_only(core, unit) {
        core.outbox.effects.push(Effect::WatchSockets { unit, on: true, accept });
    }
}

/// The socket was edited, and `before` is the generation before that: who comes from now on is its business by
/// the `Accept=` of now.
pub(crate) fn watch_anew_if_edited(core: &mut Core, unit: UnitId, before: &Graph) {
    let listens = |run: &SocketRun| run.phase == SocketPhase::Listening;
    if !core.units.socket(unit).is_some_and(listens) || core.totals.stopping {
        return;
    }
    let accepts = |definition: &std::sync::Arc<Definition>| {
        definition.load_state == LoadState::Loaded
            && definition.mentions(ACCEPT)
            && core.settings.common.compile_running(definition).socket().accept
    };
    let was = before.get(unit).is_some_and(accepts);
    let is = accepts(core.graph.definition(unit));
    if was != is && triggers::lets_nobody_in(&core.graph, unit).is_none() {
        core.outbox.effects.push(Effect::WatchSockets { unit, on: false, accept: was });
        core.outbox.effects.push(Effect::WatchSockets { unit, on: true, accept: is });
    }
}

/// `Accept=`.
pub(crate) fn accepts(core: &mut Core, unit: UnitId) -> bool {
    flag(core, unit, ACCEPT, |config| config.accept)
}

/// A setting that is off where no file speaks of it: a socket whose service ends is not worth
/// being compiled for it.
fn flag(core: &mut Core, unit: UnitId, flag: Id, of: fn(&SocketConfig) -> bool) -> bool {
    may_say(&core.graph, &core.settings, unit, flag)
        && of(unit_settings::compiled(core, unit).socket())
}

fn may_say(graph: &Graph, settings: &UnitSettings, unit: UnitId, setting: Id) -> bool {
    settings.at_hand(unit).is_some() || graph.definition(unit).mentions(setting)
}

// ---- commands ----

/// Runs the first command of a list, or goes on if it is empty.
fn run_list(core: &mut Core, unit: UnitId, list: CommandList) {
    let may_have = match list {
        CommandList::Stop => may_say(&core.graph, &core.settings, unit, EXEC_STOP_PRE),
        CommandList::StopPost => may_say(&core.graph, &core.settings, unit, EXEC_STOP_POST),
        _ => true,
    };
    if !may_have || unit_settings::compiled(core, unit).commands(list).is_empty() {
        return list_over(core, unit, list, true);
    }
    // Who comes from now on waits unheard.
    if list == CommandList::Stop {
        let accept = accepts(core, unit);
        core.outbox.effects.push(Effect::WatchSockets { unit, on: false, accept });
    }
    let phase = match list {
        CommandList::StartPost => SocketPhase::StartPost,
        CommandList::Stop => SocketPhase::StopPre,
        CommandList::StopPost => SocketPhase::StopPost,
        _ => SocketPhase::StartPre,
    };
    set_phase(core, unit, phase);
    run_command(core, unit, list, 0);
}

fn run_command(core: &mut Core, unit: UnitId, list: CommandList, index: u16) {
    let settings = unit_settings::compiled(core, unit);
    let id = core.outbox.new_effect(unit);
    let deadline = settings.socket().timeout.map(|t| core.times.now.monotonic.after(t));
    let run = core.units.socket_mut(unit);
    run.control = Some(Control::Asked(id));
    run.command = (list, index);
    run.deadline = deadline;
    core.units.history_mut(unit).has_cgroup = true;
    spawn(&mut core.units, &mut core.outbox, id, unit, list, index, settings);
}

/// The socket units whose descriptors a command of this one gets: its own, where they are open
/// (`PassFileDescriptorsToExec=`).
pub(crate) fn sockets_for(
    units: &Units,
    unit: UnitId,
    list: CommandList,
    config: &SocketConfig,
) -> Vec<UnitId> {
    let is_open = units.socket(unit).is_some_and(|run| run.fds > 0);
    let passes = config.pass_fds_to_exec && list != CommandList::StartPre && is_open;
    if passes { vec![unit] } else { Vec::new() }
}

fn spawn(
    units: &mut Units,
    outbox: &mut Outbox,
    id: EffectId,
    unit: UnitId,
    list: CommandList,
    index: u16,
    settings: Arc<Compiled>,
) {
    let invocation = units.run(unit).history.as_ref().map_or(0, |h| h.invocation);
    let spawn = Spawn {
        unit,
        list,
        index,
        main: false,
        sockets: sockets_for(units, unit, list, settings.socket()),
        settings,
        environment: Vec::new(),
        invocation,
        dynamic_user: units.dynamic_user(unit),
    };
    command_lines::note_line(units, unit, list, index, &spawn.settings);
    outbox.effects.push(Effect::Spawn(id, Box::new(spawn)));
}

fn list_over(core: &mut Core, unit: UnitId, list: CommandList, success: bool) {
    match (list, success) {
        (CommandList::StartPre, true) => open_sockets(core, unit),
        (CommandList::StartPost, true) => enter_listening(core, unit),
        // Nothing is open: there is nothing to stop.
        (CommandList::StartPre, false) => {
            set_outcome(&mut core.units, unit, Outcome::ExitCode);
            let outcome = core.units.socket_mut(unit).outcome;
            enter_dead(core, unit, outcome);
        }
        (CommandList::StartPost, false) => {
            set_outcome(&mut core.units, unit, Outcome::ExitCode);
            run_list(core, unit, CommandList::Stop);
        }
        (CommandList::Stop, _) => go_down(core, unit),
        _ => {
            let outcome = core.units.socket(unit).map_or(Outcome::Success, |run| run.outcome);
            enter_dead(core, unit, outcome);
        }
    }
}

fn set_outcome(units: &mut Units, unit: UnitId, outcome: Outcome) {
    let run = units.socket_mut(unit);
    if run.outcome == Outcome::Success {
        run.outcome = outcome;
    }
}

pub(crate) fn process_ended(core: &mut Core, unit: UnitId, pid: u32, status: ExitStatus) {
    let Some(run) = core.units.socket(unit) else { return };
    let (list, index) = run.command;
    let Some(Control::Running(process)) = run.control else { return };
    if process.pid != pid {
        return;
    }
    let ended = process.ended(core.times.now, status);
    core.units.socket_mut(unit).control = None;
    core.units.history_mut(unit).keep_control(list, index, ended);
    if is_leaving(&core.units, unit) {
        return leaves_if_free(core, unit);
    }
    command_over(core, unit, list, index, status == ExitStatus::Exited(0));
}

fn command_over(core: &mut Core, unit: UnitId, list: CommandList, index: u16, success: bool) {
    let settings = unit_settings::compiled(core, unit);
    let all = settings.commands(list);
    let ignored = all.get(usize::from(index)).is_some_and(|c| c.ignore_failure);
    if !success && !ignored {
        state_change::note(core, unit, Code::ExitCode, Cause::Kernel, String::new());
        set_outcome(&mut core.units, unit, Outcome::ExitCode);
        return list_over(core, unit, list, false);
    }
    if usize::from(index) + 1 < all.len() {
        return run_command(core, unit, list, index + 1);
    }
    list_over(core, unit, list, true);
}

pub(crate) fn done(core: &mut Core, unit: UnitId, effect: EffectId, result: Done) {
    let Some(run) = core.units.socket(unit) else { return };
    if run.listen_asked == Some(effect) {
        core.units.socket_mut(unit).listen_asked = None;
        return listen_done(core, unit, result);
    }
    if run.control == Some(Control::Asked(effect)) {
        spawn_done(core, unit, result);
    }
}

fn spawn_done(core: &mut Core, unit: UnitId, result: Done) {
    let (list, index) = core.units.socket_mut(unit).command;
    if let Done::Spawned { pid } = result {
        let started = core.times.now;
        core.pids.own(pid, unit);
        core.units.socket_mut(unit).control = Some(Control::Running(Process { pid, started }));
        if is_leaving(&core.units, unit) {
            signal_control(core, unit);
        }
        return;
    }
    core.units.socket_mut(unit).control = None;
    if let Done::SpawnFailed { error, .. } | Done::Failed { error } = result {
        core.units.history_mut(unit).status_text = error;
    }
    match is_leaving(&core.units, unit) {
        true => leaves_if_free(core, unit),
        false => command_over(core, unit, list, index, false),
    }
}

fn listen_done(core: &mut Core, unit: UnitId, result: Done) {
    if let Done::Listening { fds } = result {
        core.units.socket_mut(unit).fds = fds;
    }
    match result {
        _ if is_leaving(&core.units, unit) => leaves_if_free(core, unit),
        Done::NoDescriptors { error } => {
            state_change::note(core, unit, Code::Resources, Cause::Kernel, error.clone());
            core.units.history_mut(unit).status_text = error;
            set_outcome(&mut core.units, unit, Outcome::Resources);
            go_down(core, unit);
        }
        Done::Failed { error } => {
            state_change::note(core, unit, Code::ListenFailed, Cause::Kernel, error.clone());
            core.units.history_mut(unit).status_text = error;
            set_outcome(&mut core.units, unit, Outcome::Resources);
            go_down(core, unit);
        }
        _ => run_list(core, unit, CommandList::StartPost),
    }
}

// ---- the way down ----

pub(crate) fn stop(core: &mut Core, unit: UnitId) {
    match core.units.socket(unit).map(|run| run.phase) {
        Some(SocketPhase::Listening | SocketPhase::Running) => {
            run_list(core, unit, CommandList::Stop);
        }
        Some(SocketPhase::StartPre | SocketPhase::StartChown | SocketPhase::StartPost) => {
            leave(core, unit, SocketPhase::StopPreSigterm);
        }
        _ => {}
    }
}

/// Whether it waits for what was under way when it was given up.
pub(crate) fn is_leaving(units: &Units, unit: UnitId) -> bool {
    use SocketPhase::*;
    let leaving = [StopPreSigterm, StopPreSigkill, FinalSigterm, FinalSigkill];
    units.socket(unit).is_some_and(|run| leaving.contains(&run.phase))
}

/// Gives up what is under way: its process is told to go, and killed when it has not gone after a part
/// of the time (systemd.socket(5), `TimeoutSec=`). Nothing is closed before that has ended: sockets
/// that are being opened would stay open, a process that is being spawned would outlive its unit.
fn leave(core: &mut Core, unit: UnitId, phase: SocketPhase) {
    let timeout = unit_settings::compiled(core, unit).socket().timeout;
    // Sockets that are being opened cannot be told to go.
    let run = core.units.socket_mut(unit);
    let is_opening = run.listen_asked.is_some();
    let least = match run.control {
        Some(Control::Asked(_)) => SPAWN_WAIT_MIN,
        _ => SIGNAL_WAIT_MIN,
    };
    let phase = if is_opening { SocketPhase::StopPreSigkill } else { phase };
    set_phase(core, unit, phase);
    let share = |timeout| share_of(timeout).max(least);
    let wait = timeout.map(|timeout| if is_opening { timeout } else { share(timeout) });
    core.units.socket_mut(unit).deadline = wait.map(|wait| core.times.now.monotonic.after(wait));
    signal_control(core, unit);
    leaves_if_free(core, unit);
}

fn leaves_if_free(core: &mut Core, unit: UnitId) {
    let Some(run) = core.units.socket(unit) else { return };
    if run.listen_asked.is_some() || run.control.is_some() {
        return;
    }
    let (phase, outcome) = (run.phase, run.outcome);
    core.units.socket_mut(unit).deadline = None;
    match phase {
        SocketPhase::FinalSigterm | SocketPhase::FinalSigkill => {
            enter_dead(core, unit, outcome);
        }
        _ => go_down(core, unit),
    }
}

/// Signals the process of a command, and those with it, as the phase and systemd.kill(5) say.
pub(crate) fn signal_control(core: &mut Core, unit: UnitId) {
    use SocketPhase::*;
    let run = core.units.socket_mut(unit);
    let Some(Control::Running(process)) = run.control else { return };
    let kills = matches!(run.phase, StopPreSigkill | FinalSigkill);
    let settings = unit_settings::compiled(core, unit);
    let kill = &settings.socket().kill;
    let whole_group = match kill.mode {
        KillMode::None => return,
        KillMode::Process => false,
        KillMode::Mixed => kills,
        KillMode::ControlGroup => true,
    };
    let target = match whole_group && !core.resources.without_cgroups {
        true => KillTarget::Group,
        false => KillTarget::Process(process.pid),
    };
    let signal = if kills { kill.final_signal } else { kill.signal };
    if target == KillTarget::Group && kills && signal == Signal::KILL {
        return core.outbox.effects.push(Effect::KillGroup { unit });
    }
    let id = core.outbox.new_effect(unit);
    core.outbox.forget_effect(id);
    core.outbox.effects.push(Effect::Kill {
        id,
        unit,
        target,
        signal: signal.number(),
        then: FollowUp { hangup: kill.send_sighup && !kills, resume: !kills },
    });
}

/// Somebody is tired of waiting: what is under way is killed, or not waited for any longer. False if
/// nothing is.
pub(crate) fn hurry(core: &mut Core, unit: UnitId) -> bool {
    use SocketPhase::*;
    let is_under_way = |run: &&SocketRun| run.listen_asked.is_some() || run.control.is_some();
    let Some(run) = core.units.socket(unit).filter(is_under_way) else { return false };
    match run.phase {
        StopPreSigkill | FinalSigkill => {
            abandon_control(core, unit);
            leaves_if_free(core, unit);
        }
        StopPost | FinalSigterm => leave(core, unit, FinalSigkill),
        _ => leave(core, unit, StopPreSigkill),
    }
    true
}

/// Not even SIGKILL ended it in time: it is left behind.
fn abandon_control(core: &mut Core, unit: UnitId) {
    if let Some(id) = core.units.socket_mut(unit).listen_asked.take() {
        core.outbox.forget_effect(id);
    }
    match core.units.socket_mut(unit).control.take() {
        Some(Control::Running(process)) => core.pids.disown(process.pid),
        Some(Control::Asked(id)) => core.outbox.come_too_late(id, unit),
        None => {}
    }
}

/// Closes everything and runs what comes after that.
fn go_down(core: &mut Core, unit: UnitId) {
    close_sockets(core, unit);
    if core.units.socket(unit).is_some_and(|run| run.phase != SocketPhase::StopPost) {
        set_phase(core, unit, SocketPhase::StopPost);
    }
    run_list(core, unit, CommandList::StopPost);
}

fn close_sockets(core: &mut Core, unit: UnitId) {
    let accept = accepts(core, unit);
    core.outbox.effects.push(Effect::WatchSockets { unit, on: false, accept });
    let removes = flag(core, unit, REMOVE_ON_STOP, |config| config.remove_on_stop);
    let remove = removes.then(|| unit_settings::compiled(core, unit));
    core.outbox.effects.push(Effect::CloseSockets { unit, remove });
    core.units.socket_mut(unit).fds = 0;
}

fn enter_dead(core: &mut Core, unit: UnitId, outcome: Outcome) {
    let left = core.units.socket(unit).map(|run| run.connections.clone()).unwrap_or_default();
    if !left.is_empty() {
        core.resources.outliving.insert(unit, left);
    }
    core.units.history_mut(unit).outcome = outcome;
    if std::mem::take(&mut core.units.history_mut(unit).has_cgroup) {
        kill_group(core, unit);
        let settings = unit_settings::compiled(core, unit);
        core.outbox.effects.push(Effect::CleanUp { unit, settings, restarting: false });
    }
    let state = if outcome == Outcome::Success { Socket::Dead } else { Socket::Failed(outcome) };
    state_change::transit(core, unit, false, |u| u.state = TypeState::Socket(state));
}

/// Ends what its commands left behind, if `KillMode=` allows.
pub(crate) fn kill_group(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    let kill = &settings.socket().kill;
    if kill.send_sigkill && matches!(kill.mode, KillMode::ControlGroup | KillMode::Mixed) {
        core.outbox.effects.push(Effect::KillGroup { unit });
    }
}

/// Fails while it listens.
fn give_up(core: &mut Core, unit: UnitId, outcome: Outcome, reason: Reason) {
    state_change::note(core, unit, reason.code, reason.cause, String::new());
    set_outcome(&mut core.units, unit, outcome);
    run_list(core, unit, CommandList::Stop);
}

/// It would be taken for listening where nobody listens any more, at the next manager's at the latest.
pub(crate) fn sockets_lost(core: &mut Core, unit: UnitId, why: String) {
    use SocketPhase::{Listening, Running, StartPost};
    let Some(phase) = core.units.socket(unit).map(|run| run.phase) else { return };
    if !matches!(phase, Listening | Running | StartPost) {
        return;
    }
    state_change::note(core, unit, Code::ListenFailed, Cause::None, why.clone());
    core.units.history_mut(unit).status_text = why;
    set_outcome(&mut core.units, unit, Outcome::Resources);
    match phase {
        StartPost => leave(core, unit, SocketPhase::StopPreSigterm),
        _ => run_list(core, unit, CommandList::Stop),
    }
}

pub(crate) fn deadline(core: &mut Core, unit: UnitId) {
    use SocketPhase::*;
    let now = core.times.now.monotonic;
    let Some(run) = core.units.socket(unit) else { return };
    if run.deadline.is_none_or(|at| at > now) {
        return;
    }
    let phase = run.phase;
    core.units.socket_mut(unit).deadline = None;
    set_outcome(&mut core.units, unit, Outcome::Timeout);
    let code = match phase {
        StartPre | StartChown | StartPost => Code::StartTimeout,
        _ => Code::StopTimeout,
    };
    state_change::note(core, unit, code, Cause::None, String::new());
    let kills = unit_settings::compiled(core, unit).socket().kill.send_sigkill;
    match phase {
        StopPreSigterm if kills => leave(core, unit, StopPreSigkill),
        FinalSigterm if kills => leave(core, unit, FinalSigkill),
        _ if is_leaving(&core.units, unit) => {
            abandon_control(core, unit);
            leaves_if_free(core, unit);
        }
        StopPost => leave(core, unit, FinalSigterm),
        _ => leave(core, unit, StopPreSigterm),
    }
}

/// The service that a socket with `Accept=no` starts; others that get its file descriptors are not
/// started for traffic (systemd.service(5), `Sockets=`). One whose file is gone names nobody any more,
/// but it listens: who waits there is let in by the service of its name.
fn service_behind(graph: &Graph, unit: UnitId) -> Option<UnitId> {
    let named = graph.stated(unit, Relation::Triggers).next();
    named.or_else(|| graph.namesake(unit, UnitType::Service))
}

/// Another service is behind a socket than the one that has taken it over, as files were edited: it is
/// that one's state that counts from now on.
pub(crate) fn look_behind(core: &mut Core, unit: UnitId) {
    let is_taken = |run: &SocketRun| run.phase == SocketPhase::Running;
    if !core.units.socket(unit).is_some_and(is_taken) {
        return;
    }
    match service_behind(&core.graph, unit) {
        Some(service) => {
            let state = core.units.active_state(service);
            service_changed(core, unit, service, state);
        }
        None => {
            let reason = Reason::new(Code::NotLoaded, Cause::None);
            give_up(core, unit, Outcome::Resources, reason);
        }
    }
}

// ---- traffic ----

/// Traffic on a watched socket (`Accept=no`): the service is started.
pub(crate) fn incoming(core: &mut Core, unit: UnitId) {
    if core.units.known(unit).is_none() {
        return;
    }
    let Some(run) = core.units.socket(unit) else { return };
    if run.phase != SocketPhase::Listening {
        return;
    }
    if is_to_stop(&core.units, unit) {
        return core.outbox.effects.push(Effect::FlushSockets { unit });
    }
    let service = match triggers::lets_nobody_in(&core.graph, unit) {
        Some(code) => Err(code),
        None => service_behind(&core.graph, unit).ok_or(Code::NotLoaded),
    };
    let service = match service {
        Ok(service) => service,
        Err(code) => {
            let reason = Reason::new(code, Cause::None);
            return give_up(core, unit, Outcome::Resources, reason);
        }
    };
    if trigger_limit_hit(core, unit) {
        refused(&mut core.units, unit);
        return give_up(
            core,
            unit,
            Outcome::TriggerLimitHit,
            Reason::new(Code::TriggerLimit, Cause::None),
        );
    }
    core.outbox.effects.push(Effect::WatchSockets { unit, on: false, accept: false });
    set_phase(core, unit, SocketPhase::Running);
    let cause = Cause::Trigger(unit);
    let started = install::enqueue_quietly(core, service, JobType::Start, JobMode::Replace, cause);
    if !started && !core.totals.stopping {
        let reason = Reason::new(Code::DependencyFailed, Cause::Dependency(service));
        give_up(core, unit, Outcome::Resources, reason);
    }
}

/// Then nobody is started for who comes, and who waited until the socket is closed could be what that waits for.
fn is_to_stop(units: &Units, unit: UnitId) -> bool {
    units.run(unit).job.as_ref().is_some_and(|job| job.kind == JobKind::Stop)
}

/// Whether who comes to its sockets is a connection, which can be rejected, and no message.
fn has_connections_only(core: &mut Core, unit: UnitId) -> bool {
    let is_connected =
        |one: &Listen| matches!(one.kind, ListenKind::Stream | ListenKind::SequentialPacket);
    unit_settings::compiled(core, unit).socket().listen.iter().all(is_connected)
}

/// `TriggerLimitIntervalSec=`, `TriggerLimitBurst=`
fn trigger_limit_hit(core: &mut Core, unit: UnitId) -> bool {
    // The rest of its settings is for its own start and stop.
    let TriggerLimit { interval, burst } = match core.settings.at_hand(unit) {
        Some(settings) => settings.socket().trigger_limit,
        None => core.settings.common.trigger_limit(core.graph.definition(unit)),
    };
    let now = core.times.now.monotonic;
    !interval.is_zero()
        && burst > 0
        && core.units.socket_mut(unit).triggers.count_one(now, interval, burst)
}

/// A connection was accepted: its instance is started.
pub(crate) fn connection(core: &mut Core, socket: UnitId, instance: UnitId, number: u64) {
    let listens = |run: &SocketRun| run.phase == SocketPhase::Listening;
    let is_heard =
        core.units.known(socket).is_some() && core.units.socket(socket).is_some_and(listens);
    if !is_heard || is_to_stop(&core.units, socket) {
        return core.outbox.effects.push(Effect::DropConnection { unit: instance });
    }
    if let Some(code) = triggers::lets_nobody_in(&core.graph, socket) {
        core.outbox.effects.push(Effect::DropConnection { unit: instance });
        let reason = Reason::new(code, Cause::None);
        return give_up(core, socket, Outcome::Resources, reason);
    }
    let history = core.units.history_mut(socket);
    history.accepted = history.accepted.max(number + 1);
    if trigger_limit_hit(core, socket) {
        refused(&mut core.units, socket);
        core.outbox.effects.push(Effect::DropConnection { unit: instance });
        return give_up(
            core,
            socket,
            Outcome::TriggerLimitHit,
            Reason::new(Code::TriggerLimit, Cause::None),
        );
    }
    core.units.socket_mut(socket).connections.push(instance);
    core.resources.connections.insert(instance, socket);
    let cause = Cause::Trigger(socket);
    if !install::enqueue_quietly(core, instance, JobType::Start, JobMode::Replace, cause) {
        connections::connection_ended(core, instance);
        if !core.totals.stopping {
            let reason = Reason::new(Code::DependencyFailed, Cause::Dependency(instance));
            give_up(core, socket, Outcome::Resources, reason);
        }
    }
}

/// A connection was accepted, and there is no template of its service: who comes is to hear at once that nobody
/// is there.
pub(crate) fn unserved(core: &mut Core, socket: UnitId) {
    let listens = |run: &SocketRun| run.phase == SocketPhase::Listening;
    if core.units.known(socket).is_some() && core.units.socket(socket).is_some_and(listens) {
        let reason = Reason::new(Code::NotLoaded, Cause::None);
        give_up(core, socket, Outcome::Resources, reason);
    }
}

pub(crate) fn refused(units: &mut Units, socket: UnitId) {
    if units.socket(socket).is_some() {
        units.history_mut(socket).refused += 1;
    }
}

/// A service that gets the file descriptors of a socket has changed its state, be it the one that the
/// socket starts or another. While one of them is up who comes is its business, as with systemd 252.
pub(crate) fn service_changed(core: &mut Core, unit: UnitId, service: UnitId, new: ActiveState) {
    let Some(run) = core.units.socket(unit) else { return };
    let phase = run.phase;
    if !matches!(phase, SocketPhase::Listening | SocketPhase::Running) || accepts(core, unit) {
        return;
    }
    let at_rest = new.is_down() || core.units.waits_to_restart(service);
    let is_behind = service_behind(&core.graph, unit) == Some(service);
    match phase {
        SocketPhase::Running
            if at_rest && is_behind && start_limit::hit_start_limit(&core.units, service) =>
        {
            let reason = Reason::new(Code::ServiceLimit, Cause::Dependency(service));
            give_up(core, unit, Outcome::ServiceStartLimitHit, reason);
        }
        SocketPhase::Running if at_rest && !is_taken(&core.graph, &core.units, unit) => {
            enter_listening(core, unit)
        }
        SocketPhase::Listening if new.is_up_or_coming() && !at_rest => {
            core.outbox.effects.push(Effect::WatchSockets { unit, on: false, accept: false });
            set_phase(core, unit, SocketPhase::Running);
        }
        _ => {}
    }
}

/// Whether somebody who gets its file descriptors is up, or has a job that may bring him up.
fn is_taken(graph: &Graph, units: &Units, unit: UnitId) -> bool {
    let named = graph.related(unit, Relation::Triggers);
    named.chain(service_behind(graph, unit)).any(|service| {
        let at_rest = units.active_state(service).is_down() || units.waits_to_restart(service);
        !at_rest || units.run(service).job.is_some()
    })
}

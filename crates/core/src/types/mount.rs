//! Mounts (systemd.mount(5)), and swap areas (systemd.swap(5)), which come and go in the same way but
//! are in a table of their own and are not reloaded.

use crate::features::stop_budget::{SIGNAL_WAIT_MIN, share_of};
use crate::graph::Graph;
use crate::model::ids::{EffectId, UnitId};
use crate::model::part::Part;
use crate::model::process::*;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::parts::Core;
use crate::parts::outbox::Outbox;
use crate::parts::unit_settings;
use crate::protocol::event::{Done, Effect, FollowUp, KillTarget};
use crate::protocol::request::Notice;
use crate::state_change;
use warren_unit::config::KillMode;
use warren_unit::settings::{Group, Id};
use warren_unit::{Signal, UnitType};

/// Why something is not mounted, remounted or swapped to.
const NO_FILE: &str = "no unit file says how";

/// What says what to mount or to swap to.
const WHAT: [Id; 2] = [Id::of(Group::Mount, "What"), Id::of(Group::Swap, "What")];

/// The state as one of the unit's type.
fn of_type(graph: &Graph, unit: UnitId, state: Mount) -> TypeState {
    match graph.definition(unit).unit_type() {
        UnitType::Swap => TypeState::Swap(state),
        _ => TypeState::Mount(state),
    }
}

fn set_phase(core: &mut Core, unit: UnitId, phase: MountPhase) {
    state_change::transit(core, unit, false, |run| {
        if let TypeState::Mount(Mount::Up(mount)) | TypeState::Swap(Mount::Up(mount)) =
            &mut run.state
        {
            mount.phase = phase;
        }
    });
}

// ---- mount, remount, unmount ----

pub(crate) fn start(core: &mut Core, unit: UnitId) {
    let run = MountRun {
        phase: MountPhase::Mounting,
        asked: None,
        in_table: false,
        doubtful: false,
        deadline: None,
        outcome: Outcome::Success,
        reload_outcome: Outcome::Success,
    };
    let history = core.units.history_mut(unit);
    history.outcome = Outcome::Success;
    history.status_text = String::new();
    let state = of_type(&core.graph, unit, Mount::Up(Part::new(run)));
    state_change::transit(core, unit, false, |u| u.state = state);
    if is_unknown_how(&core.graph, unit) {
        state_change::note(core, unit, Code::MountFailed, Cause::None, NO_FILE.to_owned());
        core.units.history_mut(unit).status_text = NO_FILE.to_owned();
        return enter_dead(core, unit, Outcome::Resources);
    }
    ask_mount(core, unit, false);
}

/// What is mounted or swapped to is there, and no file says how that would be done: the kernel's table does not
/// have all of it.
fn is_unknown_how(graph: &Graph, unit: UnitId) -> bool {
    let definition = graph.definition(unit);
    let mut by_dropins = definition.files.dropins().iter().flat_map(|file| file.entries());
    definition.is_of_kernel() && !by_dropins.any(|entry| WHAT.contains(&entry.setting))
}

fn ask_mount(core: &mut Core, unit: UnitId, remount: bool) {
    let settings = unit_settings::compiled(core, unit);
    let id = core.outbox.new_effect(unit);
    let deadline = settings.mount().timeout.map(|t| core.times.now.monotonic.after(t));
    let run = core.units.mount_mut(unit);
    run.asked = Some(id);
    run.deadline = deadline;
    core.outbox.effects.push(Effect::Mount { id, unit, settings, remount });
}

fn ask_unmount(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    let id = core.outbox.new_effect(unit);
    let deadline = settings.mount().timeout.map(|t| core.times.now.monotonic.after(t));
    let run = core.units.mount_mut(unit);
    run.doubtful = false;
    let old = run.asked.replace(id);
    run.deadline = deadline;
    old.into_iter().for_each(|id| core.outbox.forget_effect(id));
    core.outbox.effects.push(Effect::Unmount { id, unit, settings });
}

pub(crate) fn stop(core: &mut Core, unit: UnitId) {
    let Some(run) = core.units.mount(unit) else { return };
    match run.phase {
        MountPhase::Mounting | MountPhase::MountingDone | MountPhase::Remounting => {
            end_mounting(core, unit, MountPhase::MountingSigterm);
        }
        // It has had that signal already.
        MountPhase::RemountingSigterm => {
            set_phase(core, unit, MountPhase::MountingSigterm);
        }
        MountPhase::RemountingSigkill => {
            set_phase(core, unit, MountPhase::MountingSigkill);
        }
        MountPhase::Mounted => begin_unmount(core, unit),
        _ => {}
    }
}

fn begin_unmount(core: &mut Core, unit: UnitId) {
    core.units.history_mut(unit).status_text = String::new();
    set_phase(core, unit, MountPhase::Unmounting);
    ask_unmount(core, unit);
}

/// False if it cannot be reloaded: it stays as it is.
pub(crate) fn reload(core: &mut Core, unit: UnitId) -> bool {
    if is_unknown_how(&core.graph, unit) {
        tell_reload_failed(&mut core.outbox, unit, NO_FILE.to_owned());
        return false;
    }
    core.units.mount_mut(unit).reload_outcome = Outcome::Success;
    core.units.history_mut(unit).status_text = String::new();
    set_phase(core, unit, MountPhase::Remounting);
    ask_mount(core, unit, true);
    true
}

pub(crate) fn done(core: &mut Core, unit: UnitId, effect: EffectId, result: Done) {
    let Some(run) = core.units.mount(unit).filter(|run| run.asked == Some(effect)) else {
        return;
    };
    let phase = run.phase;
    let is_left = result == Done::StillMounted;
    let error = match result {
        Done::Failed { error } => Some(error),
        _ => None,
    };
    let run = core.units.mount_mut(unit);
    run.asked = None;
    run.deadline = None;
    match phase {
        MountPhase::Mounting | MountPhase::MountingDone => mounted(core, unit, error),
        MountPhase::Remounting => remounted(core, unit, error),
        MountPhase::RemountingSigterm | MountPhase::RemountingSigkill => {
            stays_mounted(core, unit);
        }
        MountPhase::MountingSigterm | MountPhase::MountingSigkill => {
            mounting_ended(core, unit, error.is_none());
        }
        MountPhase::UnmountingSigterm | MountPhase::UnmountingSigkill => {
            unmounting_ended(core, unit, error.is_none() && !is_left);
        }
        // All of it is to go.
        MountPhase::Unmounting if is_left => ask_unmount(core, unit),
        _ => unmounted(core, unit, error),
    }
}

fn mounted(core: &mut Core, unit: UnitId, error: Option<String>) {
    match error {
        None => {
            let run = core.units.mount_mut(unit);
            run.in_table = true;
            let doubtful = std::mem::take(&mut run.doubtful);
            set_phase(core, unit, MountPhase::Mounted);
            if doubtful {
                core.outbox.effects.push(Effect::LookAtMount { unit });
            }
        }
        Some(error) => {
            state_change::note(core, unit, Code::MountFailed, Cause::Kernel, error.clone());
            core.units.history_mut(unit).status_text = error;
            // Somebody else, or an earlier try that was given up, has mounted it meanwhile.
            match core.units.mount_mut(unit).in_table {
                true => set_phase(core, unit, MountPhase::Mounted),
                false => enter_dead(core, unit, Outcome::ExitCode),
            }
        }
    }
}

fn remounted(core: &mut Core, unit: UnitId, error: Option<String>) {
    if let Some(error) = error {
        tell_reload_failed(&mut core.outbox, unit, error.clone());
        core.units.history_mut(unit).status_text = error;
        core.units.mount_mut(unit).reload_outcome = Outcome::ExitCode;
    }
    set_phase(core, unit, MountPhase::Mounted);
}

/// What was asked for is over, and the mount is as it was, unless somebody has unmounted it meanwhile.
fn stays_mounted(core: &mut Core, unit: UnitId) {
    let run = core.units.mount_mut(unit);
    run.outcome = Outcome::Success;
    if !run.in_table {
        return vanish(core, unit);
    }
    set_phase(core, unit, MountPhase::Mounted);
}

/// A mount or remount that was told to end is over, or its process is left to the kernel.
fn mounting_ended(core: &mut Core, unit: UnitId, is_mounted: bool) {
    let stops = core.units.run(unit).job.as_ref().is_some_and(|job| job.kind.is_stopping());
    let stops = stops || core.totals.stopping;
    let run = core.units.mount_mut(unit);
    run.in_table |= is_mounted;
    let took_too_long = run.outcome != Outcome::Success;
    match (run.in_table, run.outcome) {
        (true, _) if took_too_long && !stops => stays_mounted(core, unit),
        (true, _) => begin_unmount(core, unit),
        (false, outcome) => {
            enter_dead(core, unit, outcome);
            kill_what_mounts(core, unit);
        }
    }
}

/// mount(8) has gone when it was told to, its helper may have not: it could still mount.
fn kill_what_mounts(core: &mut Core, unit: UnitId) {
    let settings = unit_settings::compiled(core, unit);
    let kill = &settings.mount().kill;
    if kill.send_sigkill && kill.mode != KillMode::None {
        core.outbox.effects.push(Effect::KillGroup { unit });
    }
}

/// The same of an unmount.
fn unmounting_ended(core: &mut Core, unit: UnitId, is_unmounted: bool) {
    let run = core.units.mount_mut(unit);
    if is_unmounted {
        run.outcome = Outcome::Success;
        return unmounted(core, unit, None);
    }
    match (run.in_table, run.outcome) {
        (true, _) => stays_mounted(core, unit),
        (false, outcome) => enter_dead(core, unit, outcome),
    }
}

// ---- what takes too long ----

/// Tells the processes of a mount, remount or unmount to go, or kills them, as the phase says
/// (systemd.mount(5), `TimeoutSec=`). The unit has one budget: they are not given it again.
pub(crate) fn end_mounting(core: &mut Core, unit: UnitId, phase: MountPhase) {
    use MountPhase::*;
    set_phase(core, unit, phase);
    let settings = unit_settings::compiled(core, unit);
    let config = settings.mount();
    let wait = config.timeout.map(|timeout| share_of(timeout).max(SIGNAL_WAIT_MIN));
    core.units.mount_mut(unit).deadline = wait.map(|wait| core.times.now.monotonic.after(wait));
    let kills = matches!(phase, MountingSigkill | RemountingSigkill | UnmountingSigkill);
    let kill = &config.kill;
    if kill.mode == KillMode::None {
        return;
    }
    if kills && kill.final_signal == Signal::KILL && !core.resources.without_cgroups {
        return core.outbox.effects.push(Effect::KillGroup { unit });
    }
    let signal = if kills { kill.final_signal } else { kill.signal };
    let id = core.outbox.new_effect(unit);
    core.outbox.forget_effect(id);
    core.outbox.effects.push(Effect::Kill {
        id,
        unit,
        target: KillTarget::Group,
        signal: signal.number(),
        then: FollowUp { hangup: kill.send_sighup && !kills, resume: !kills },
    });
}

/// Its processes did not go when they were told to.
fn kill_mounting(core: &mut Core, unit: UnitId, phase: MountPhase) {
    match unit_settings::compiled(core, unit).mount().kill.send_sigkill {
        true => end_mounting(core, unit, phase),
        false => leave_mounting(core, unit),
    }
}

/// Somebody is tired of waiting: its processes are killed. A server that does not answer may keep them.
pub(crate) fn hurry(core: &mut Core, unit: UnitId) {
    use MountPhase::*;
    let Some(run) = core.units.mount(unit).filter(|run| run.asked.is_some()) else { return };
    match run.phase {
        Mounting | MountingDone | MountingSigterm => end_mounting(core, unit, MountingSigkill),
        Remounting | RemountingSigterm => end_mounting(core, unit, RemountingSigkill),
        Unmounting | UnmountingSigterm => end_mounting(core, unit, UnmountingSigkill),
        Mounted | MountingSigkill | RemountingSigkill | UnmountingSigkill => {}
    }
}

/// Only the kernel holds its processes: nobody waits for them any longer.
fn leave_mounting(core: &mut Core, unit: UnitId) {
    if let Some(id) = core.units.mount_mut(unit).asked.take() {
        core.outbox.forget_effect(id);
    }
    match core.units.mount_mut(unit).phase {
        MountPhase::MountingSigterm | MountPhase::MountingSigkill => {
            mounting_ended(core, unit, false);
        }
        MountPhase::UnmountingSigterm | MountPhase::UnmountingSigkill => {
            unmounting_ended(core, unit, false);
        }
        _ => stays_mounted(core, unit),
    }
}

/// The mount stays, and stays for the reason that it had: what was found is still not ours.
fn tell_reload_failed(outbox: &mut Outbox, unit: UnitId, detail: String) {
    let reason = Reason::new(Code::ReloadFailed, Cause::Kernel);
    outbox.tell(Notice::Log { unit, reason, detail });
}

fn unmounted(core: &mut Core, unit: UnitId, error: Option<String>) {
    let run = core.units.mount_mut(unit);
    match error {
        None => {
            let (outcome, doubtful) = (run.outcome, run.doubtful);
            enter_dead(core, unit, outcome);
            if doubtful {
                core.outbox.effects.push(Effect::LookAtMount { unit });
            }
        }
        Some(error) => {
            state_change::note(core, unit, Code::UnmountFailed, Cause::Kernel, error.clone());
            core.units.history_mut(unit).status_text = error;
            if core.units.mount_mut(unit).in_table {
                set_phase(core, unit, MountPhase::Mounted);
            } else {
                enter_dead(core, unit, Outcome::ExitCode);
            }
        }
    }
}

fn enter_dead(core: &mut Core, unit: UnitId, outcome: Outcome) {
    if let Some(id) = core.units.mount_mut(unit).asked.take() {
        core.outbox.forget_effect(id);
    }
    core.units.history_mut(unit).outcome = outcome;
    let state = if outcome == Outcome::Success { Mount::Dead } else { Mount::Failed(outcome) };
    let state = of_type(&core.graph, unit, state);
    state_change::transit(core, unit, false, |u| u.state = state);
}

pub(crate) fn deadline(core: &mut Core, unit: UnitId) {
    let now = core.times.now.monotonic;
    let Some(run) = core.units.mount(unit).filter(|r| r.deadline.is_some_and(|at| at <= now))
    else {
        return;
    };
    let phase = run.phase;
    let run = core.units.mount_mut(unit);
    run.deadline = None;
    match phase {
        MountPhase::Mounting | MountPhase::MountingDone => {
            run.outcome = Outcome::Timeout;
            state_change::note(core, unit, Code::StartTimeout, Cause::None, String::new());
            end_mounting(core, unit, MountPhase::MountingSigterm);
        }
        MountPhase::Remounting => {
            run.reload_outcome = Outcome::Timeout;
            tell_reload_failed(&mut core.outbox, unit, "not within TimeoutSec=".to_owned());
            end_mounting(core, unit, MountPhase::RemountingSigterm);
        }
        MountPhase::Unmounting => {
            run.outcome = Outcome::Timeout;
            state_change::note(core, unit, Code::UnmountTimeout, Cause::None, String::new());
            end_mounting(core, unit, MountPhase::UnmountingSigterm);
        }
        MountPhase::MountingSigterm => kill_mounting(core, unit, MountPhase::MountingSigkill),
        MountPhase::RemountingSigterm => {
            kill_mounting(core, unit, MountPhase::RemountingSigkill);
        }
        MountPhase::UnmountingSigterm => {
            kill_mounting(core, unit, MountPhase::UnmountingSigkill);
        }
        _ => leave_mounting(core, unit),
    }
}

// ---- the kernel's mount table ----

/// Something is mounted at the unit's path now, by whomever.
pub(crate) fn appeared(core: &mut Core, unit: UnitId) {
    match core.units.known(unit).map(|run| &run.state) {
        Some(TypeState::Mount(Mount::Up(run)) | TypeState::Swap(Mount::Up(run))) => {
            let unmounts = run.phase == MountPhase::Unmounting;
            let again = unmounts && !run.in_table;
            let run = core.units.mount_mut(unit);
            run.in_table = true;
            // Before it was unmounted or again since, the words do not tell.
            run.doubtful |= unmounts && !again;
            // Mounted by somebody else after what was there had gone: that is to go too.
            if again {
                ask_unmount(core, unit);
            }
        }
        Some(TypeState::Mount(_) | TypeState::Swap(_)) => {
            state_change::note(core, unit, Code::Discovered, Cause::Kernel, String::new());
            let state = of_type(&core.graph, unit, Mount::found());
            state_change::transit(core, unit, false, |u| u.state = state);
        }
        _ => {}
    }
}

/// Nothing is mounted there any more.
pub(crate) fn vanished(core: &mut Core, unit: UnitId) {
    if core.units.known(unit).is_none() {
        return;
    }
    let Some(run) = core.units.mount(unit) else { return };
    let phase = run.phase;
    let run = core.units.mount_mut(unit);
    run.in_table = false;
    run.doubtful = phase == MountPhase::Mounting;
    if matches!(phase, MountPhase::Mounted | MountPhase::Remounting) {
        vanish(core, unit);
    }
}

fn vanish(core: &mut Core, unit: UnitId) {
    state_change::note(core, unit, Code::Vanished, Cause::Kernel, String::new());
    enter_dead(core, unit, Outcome::Success);
}

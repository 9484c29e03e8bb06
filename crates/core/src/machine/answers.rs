//! What comes back: answers to effects, ends of processes, empty cgroups.

use crate::model::ids::{EffectId, UnitId};
use crate::model::process::*;
use crate::model::state::*;
use crate::parts::Core;
use crate::parts::outbox::Outbox;
use crate::parts::pids::Pids;
use crate::protocol::event::Done;
use crate::protocol::trace_event::What;
use crate::types::service::{effects, events, stop};
use crate::types::{automount, mount, orders, path, scope, simple, socket, timer};

pub(crate) fn effect_done(core: &mut Core, effect: EffectId, result: Done) {
    let Some(unit) = core.outbox.take_pending(effect) else {
        return kill_latecomer(core, effect, &result);
    };
    let named = match result {
        Done::Spawned { pid } | Done::MainProcess { pid: Some(pid) } => Some(pid),
        _ => None,
    };
    serve_answer(core, unit, effect, result);
    if let Some(pid) = named
        && let Some(status) = core.pids.take_early_exit(pid, effect)
    {
        process_ended(core, pid, status);
    }
}

fn kill_latecomer(core: &mut Core, effect: EffectId, result: &Done) {
    if let Some(unit) = core.outbox.take_too_late(effect)
        && let Done::Spawned { pid } = *result
    {
        stop::kill_process(&mut core.units, &mut core.outbox, unit, pid);
        stop::kill_its_children(core, unit);
    }
}

fn serve_answer(core: &mut Core, unit: UnitId, effect: EffectId, result: Done) {
    if orders::conditions_done(core, unit, effect, &result) {
        return;
    }
    match &core.units.run(unit).state {
        TypeState::Service(_) => effects::done(core, unit, effect, result),
        TypeState::Socket(_) => socket::done(core, unit, effect, result),
        TypeState::Mount(_) | TypeState::Swap(_) => mount::done(core, unit, effect, result),
        TypeState::Automount(_) => automount::done(core, unit, effect, result),
        TypeState::Timer(_) => timer::done(core, unit, effect, result),
        TypeState::Path(_) => path::done(core, unit, effect, result),
        TypeState::Scope(_) => scope::done(core, unit, effect, result),
        TypeState::Slice(_) => simple::slice_done(core, unit, effect, result),
        _ => {}
    }
}

pub(crate) fn process_ended(core: &mut Core, pid: u32, status: ExitStatus) {
    let Some(unit) = core.pids.take_owner(pid) else {
        return remember_exit(&mut core.pids, &core.outbox, pid, status);
    };
    // A main process that named itself before the answer to its spawn, which will name it again.
    if core.units.service(unit).is_some_and(|run| run.main.asked().is_some()) {
        remember_exit(&mut core.pids, &core.outbox, pid, status);
    }
    core.outbox.happened(core.times.now.monotonic, unit, What::ProcessEnded { pid, status });
    match &core.units.run(unit).state {
        TypeState::Service(_) => events::service_process_ended(core, unit, pid, status),
        TypeState::Socket(_) => socket::process_ended(core, unit, pid, status),
        _ => {}
    }
}

/// While effects are under way the answer of one may name the process.
fn remember_exit(pids: &mut Pids, outbox: &Outbox, pid: u32, status: ExitStatus) {
    if outbox.pending_count() > 0 {
        pids.remember_exit(pid, status, outbox.next_id());
    }
}

/// The kernel killed a process of the unit for want of memory.
pub(crate) fn out_of_memory(core: &mut Core, unit: UnitId) {
    match core.units.known(unit).map(|run| &run.state) {
        Some(TypeState::Service(_)) => events::service_out_of_memory(core, unit),
        Some(TypeState::Scope(_)) => scope::out_of_memory(core, unit),
        _ => {}
    }
}

pub(crate) fn group_empty(core: &mut Core, unit: UnitId, cpu_us: Option<u64>) {
    core.outbox.happened(core.times.now.monotonic, unit, What::GroupEmpty);
    if core.units.known(unit).is_some() && cpu_us.is_some() {
        core.units.history_mut(unit).account_mut().cpu_us = cpu_us;
    }
    // Control processes of a socket end by their exit; what they leave behind goes with the
    // clean-up.
    match core.units.known(unit).map(|run| &run.state) {
        Some(TypeState::Service(_)) => events::service_group_empty(core, unit),
        Some(TypeState::Scope(_)) => scope::group_empty(core, unit),
        _ => {}
    }
}

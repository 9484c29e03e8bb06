//! Freezing services and scopes: their processes stay as they are and get no processor (cgroup-v2.rst,
//! `cgroup.freeze`; systemctl(1), `freeze`).
//!
//! What changes the state of a frozen unit thaws it first: stop commands and what a reload runs would
//! wait in its group for ever, and so would processes that are asked to end.

use crate::model::ids::{ClientId, EffectId, UnitId};
use crate::model::state::{Freezer, TypeState};
use crate::parts::Core;
use crate::parts::outbox::Outbox;
use crate::parts::units::Units;
use crate::protocol::event::Effect;
use crate::protocol::request::{Refusal, Reply};

/// A client wants a unit frozen or thawed. The answer comes when the kernel has done so, or now if
/// it is so already.
pub(crate) fn freeze_request(
    core: &mut Core,
    client: ClientId,
    unit: UnitId,
    frozen: bool,
) -> Result<Option<Reply>, Refusal> {
    let name = || core.graph.name(unit).clone();
    if !matches!(core.units.run(unit).state, TypeState::Service(_) | TypeState::Scope(_))
        || core.resources.without_cgroups
    {
        return Err(Refusal::CannotFreeze(name()));
    }
    if core.units.active_state(unit).is_down() {
        return Err(Refusal::Inactive);
    }
    if core.units.run(unit).job.is_some() {
        return Err(Refusal::HasJob(name()));
    }
    match (core.units.freezer(unit), frozen) {
        (Freezer::Frozen, true) | (Freezer::Running, false) => return Ok(Some(Reply::Done)),
        (Freezer::Freezing(_) | Freezer::Thawing(_), _) => {
            return Err(Refusal::FreezerBusy(name()));
        }
        (Freezer::Running, true) | (Freezer::Frozen, false) => {}
    }
    let id = core.outbox.new_effect(unit);
    let freezer = if frozen { Freezer::Freezing(id) } else { Freezer::Thawing(id) };
    core.units.history_mut(unit).freezer = freezer;
    core.outbox.effects.push(Effect::Freeze { id, unit, frozen });
    core.outbox.waiting_clients.insert(id, client);
    Ok(None)
}

/// The state of a frozen unit changes: it is to run again, and who waited for it to be frozen hears
/// of that. It counts as frozen until the kernel has thawed it; a unit that is down has no
/// process left to thaw.
pub(crate) fn thaw_first(core: &mut Core, unit: UnitId) {
    let (freezer, is_down) = (core.units.freezer(unit), core.units.active_state(unit).is_down());
    let is_thawing = matches!(freezer, Freezer::Thawing(_));
    if freezer == Freezer::Running || is_thawing && !is_down {
        return;
    }
    if let Some(asked) = freezer.asked() {
        core.outbox.forget_effect(asked);
        let reply = match is_thawing {
            true => Reply::Done,
            false => Reply::Refused(Refusal::FreezerBusy(core.graph.name(unit).clone())),
        };
        answer_freezer(&mut core.outbox, asked, reply);
    }
    core.units.history_mut(unit).freezer = Freezer::Running;
    if is_thawing {
        return;
    }
    let id = core.outbox.new_effect(unit);
    match is_down {
        true => core.outbox.forget_effect(id),
        false => core.units.history_mut(unit).freezer = Freezer::Thawing(id),
    }
    core.outbox.effects.push(Effect::Freeze { id, unit, frozen: false });
}

pub(crate) fn answer_freezer(outbox: &mut Outbox, effect: EffectId, reply: Reply) {
    if let Some(client) = outbox.waiting_clients.remove(&effect) {
        outbox.effects.push(Effect::Reply { client, reply });
    }
}

/// What was under way when the last manager ended is asked for again.
pub(crate) fn resume_freezer(units: &Units, outbox: &mut Outbox, unit: UnitId) {
    let freezer = units.freezer(unit);
    if let Some(id) = freezer.asked() {
        let frozen = matches!(freezer, Freezer::Freezing(_));
        outbox.expect_effect(id, unit);
        outbox.effects.push(Effect::Freeze { id, unit, frozen });
    }
}

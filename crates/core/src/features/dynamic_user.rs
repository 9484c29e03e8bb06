//! `DynamicUser=`: a run has its user from before its first process until what it left behind is removed.

use crate::model::dynamic_user::{DynamicName, DynamicUser, Number};
use crate::model::ids::UnitId;
use crate::model::state::History;
use crate::parts::Core;
use crate::parts::unit_settings;
use crate::protocol::event::{Effect, NamesFound};
use crate::settings::{Compiled, TypeSettings};
use warren_unit::Scope;
use warren_unit::config::ExecConfig;
use warren_unit::settings::{Group, Id};

const DYNAMIC_USER: Id = Id::of(Group::Exec, "DynamicUser");

fn exec(settings: &Compiled) -> Option<&ExecConfig> {
    match &settings.own {
        TypeSettings::Service(config) => Some(&config.exec),
        TypeSettings::Socket(config) => Some(&config.exec),
        _ => None,
    }
}

/// Whether the start of a unit has to wait until it is known who it runs as; then that is asked for.
pub(crate) fn look_up(core: &mut Core, unit: UnitId) -> bool {
    let names = match core.graph.definition(unit).mentions(DYNAMIC_USER) {
        true => names(core, unit),
        false => None,
    };
    let Some((user, group)) = names else {
        release(core, unit);
        return false;
    };
    let held = core.units.run(unit).history.as_ref().and_then(|h| h.dynamic_user.as_deref());
    let is_held = held.is_some_and(|held| {
        let other = held.group.as_ref().map(|group| &*group.name);
        (&*held.user.name, other) == (&*user, group.as_deref())
    });
    if !is_held {
        release(core, unit);
    }
    give(core, unit, &user, group.as_deref());
    ask(core, unit);
    true
}

/// The names of the user and of a group that is another.
fn names(core: &mut Core, unit: UnitId) -> Option<(Box<str>, Option<Box<str>>)> {
    let settings = unit_settings::compiled(core, unit);
    let is_system = core.settings.common.context.scope == Scope::System;
    let exec = exec(&settings).filter(|exec| exec.dynamic_user && is_system)?;
    let user = exec.user.clone()?;
    let group = exec.group.clone().filter(|group| *group != user);
    Some((user, group))
}

fn give(core: &mut Core, unit: UnitId, user: &str, group: Option<&str>) {
    let mut refused = None;
    let mut given = |name: &str| {
        let number = match is_number(name) {
            true => Number::Static,
            false => match core.resources.dynamic_users.take(name, unit) {
                Some(number) => Number::Given(number),
                None => {
                    let text = "no free UID is left for it";
                    refused = Some(format!("dynamic user {name}: {text}").into());
                    Number::Static
                }
            },
        };
        DynamicName { name: name.into(), number }
    };
    let (user, group) = (given(user), group.map(given));
    let user = DynamicUser { user, group, refused };
    core.units.history_mut(unit).dynamic_user = Some(Box::new(user));
}

/// A number stands for itself.
fn is_number(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit())
}

/// Asks whether the user database has names and numbers of the unit's.
pub(crate) fn ask(core: &mut Core, unit: UnitId) {
    let user = core.units.run(unit).history.as_ref().and_then(|h| h.dynamic_user.clone());
    let Some(user) = user else { return };
    let id = core.outbox.new_effect(unit);
    core.units.history_mut(unit).checking = Some(id);
    core.outbox.effects.push(Effect::LookUpNames { id, unit, user });
}

/// Takes what the user database has; false if it has a number that was given, so that others are asked for.
pub(crate) fn found(core: &mut Core, unit: UnitId, found: &NamesFound) -> bool {
    let user = core.units.run(unit).history.as_ref().and_then(|h| h.dynamic_user.as_deref());
    let Some(mut user) = user.cloned() else { return true };
    let is_taken = |name: &DynamicName| name.given().is_some_and(|n| found.taken.contains(&n));
    if user.names().any(is_taken) {
        release(core, unit);
        found.taken.iter().for_each(|&number| core.resources.dynamic_users.refuse(number));
        give(core, unit, &user.user.name, user.group.as_ref().map(|group| &*group.name));
        ask(core, unit);
        return false;
    }
    for name in [&mut user.user].into_iter().chain(&mut user.group) {
        if found.known.contains(&name.name) {
            core.resources.dynamic_users.release(&name.name, unit);
            name.number = Number::Static;
        }
    }
    user.refused = user.refused.or_else(|| found.refused.clone());
    core.units.history_mut(unit).dynamic_user = Some(Box::new(user));
    true
}

/// The unit runs by no name any more.
pub(crate) fn release(core: &mut Core, unit: UnitId) {
    let has = |h: &History| h.dynamic_user.is_some();
    if !core.units.run(unit).history.as_ref().is_some_and(|history| has(history)) {
        return;
    }
    if let Some(user) = core.units.history_mut(unit).dynamic_user.take() {
        user.names().for_each(|name| core.resources.dynamic_users.release(&name.name, unit));
    }
}

/// Whether a unit may have a user: it is up, or being started, or what it left behind is being removed.
pub(crate) fn may_hold(core: &Core, unit: UnitId) -> bool {
    let run = core.units.run(unit);
    let is_looked_at =
        run.history.as_ref().is_some_and(|h| h.checking.is_some() || h.clearing.is_some());
    is_looked_at || !run.active_state().is_down()
}

/// The same, at once, if it is down and nothing of it is being removed.
pub(crate) fn release_if_over(core: &mut Core, unit: UnitId) {
    if !may_hold(core, unit) {
        release(core, unit);
    }
}

/// Takes up what the last manager has given.
pub(crate) fn restore(core: &mut Core, unit: UnitId) {
    let Some(user) = core.units.dynamic_user(unit) else { return };
    if !may_hold(core, unit) {
        core.units.history_mut(unit).dynamic_user = None;
        return;
    }
    for name in user.names() {
        if let Some(number) = name.given() {
            core.resources.dynamic_users.hold(&name.name, number, unit);
        }
    }
}

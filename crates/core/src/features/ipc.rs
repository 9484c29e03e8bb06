//! `RemoveIPC=`: objects of interprocess communication go with the last unit of their user.

use crate::model::ids::UnitId;
use crate::model::leftover::Trace;
use crate::parts::{Core, unit_settings};
use crate::settings::{Compiled, TypeSettings};
use warren_unit::Scope;
use warren_unit::config::ExecConfig;
use warren_unit::settings::{Group, Id};

/// What names a user in a unit's files.
const USER_SETTINGS: [Id; 2] = [Id::of(Group::Exec, "User"), Id::of(Group::Exec, "DynamicUser")];

fn exec(settings: &Compiled) -> Option<&ExecConfig> {
    match &settings.own {
        TypeSettings::Service(config) => Some(&config.exec),
        _ => None,
    }
}

/// Notes who a service runs as.
pub(crate) fn begin(core: &mut Core, unit: UnitId) {
    let definition = core.graph.definition(unit);
    if !USER_SETTINGS.into_iter().any(|setting| definition.mentions(setting)) {
        return;
    }
    let settings = unit_settings::compiled(core, unit);
    if let Some(user) = exec(&settings).and_then(|exec| exec.user.as_deref()) {
        core.resources.ipc_users.begin(unit, user);
    }
}

/// What is to be removed at the end of a run.
pub(crate) fn end(core: &mut Core, unit: UnitId, settings: &Compiled) -> Option<Trace> {
    let is_system = core.settings.common.context.scope == Scope::System;
    let removes = is_system && exec(settings).is_some_and(|exec| exec.remove_ipc);
    let user = core.resources.ipc_users.end(unit, removes)?;
    Some(Trace::Ipc(owner(core, unit, &user)))
}

/// The same of a run that ended under the last manager.
pub(crate) fn end_again(core: &Core, unit: UnitId, settings: &Compiled) -> Option<Trace> {
    let is_system = core.settings.common.context.scope == Scope::System;
    let exec = exec(settings).filter(|exec| is_system && exec.remove_ipc)?;
    let user = exec.user.as_deref().filter(|user| !core.resources.ipc_users.is_in_use(user))?;
    Some(Trace::Ipc(owner(core, unit, user)))
}

/// A user that was made for the run is known by its number alone.
fn owner(core: &Core, unit: UnitId, user: &str) -> String {
    let dynamic = core.units.dynamic_user(unit);
    let number = dynamic.and_then(|dynamic| dynamic.user.given());
    number.map_or_else(|| user.to_owned(), |number| number.to_string())
}

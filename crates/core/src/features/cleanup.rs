//! What a run of a service leaves in the file system and nobody is to find afterwards: `PIDFile=`
//! (systemd.service(5)), `RuntimeDirectory=` and `PrivateTmp=` (systemd.exec(5)); a terminal that its user was given
//! is taken back.
//!
//! It is removed by an effect that is awaited, for a path may lie where nobody answers. The unit is
//! down meanwhile, but the job that stops it is over when its traces are, and so do starts wait that
//! would have the same paths, of this unit or of another: nothing that a new run has made is removed
//! for the sake of an old one. A stop waits for it no longer than `WAIT_MAX`; a start has to.

use crate::features::{dynamic_user, ephemeral_root, ipc, private_tmp, runtime_limit};
use crate::model::active_state::ActiveState;
use crate::model::ids::{ClientId, UnitId};
use crate::model::job::{Job, JobKind};
use crate::model::leftover::{TerminalLeft, Trace};
use crate::model::state::{Clearing, TypeState};
use crate::parts::Core;
use crate::parts::resources::Resources;
use crate::parts::unit_settings;
use crate::parts::units::Units;
use crate::protocol::event::Effect;
use crate::protocol::request::{CleanKind, Notice, Refusal, Reply};
use crate::settings::{Compiled, TypeSettings};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use warren_unit::config::{ExecConfig, Preserve, ServiceConfig, TEMPORARY};
use warren_unit::{Context, Scope};

/// How long the stop of a unit waits for the removal of what it has left.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// A removal during which so many managers ended is not begun by the next: it may be what ends them.
const MANAGERS_MAX: u8 = 2;

/// What of a run of a service with these settings is to be removed. `restarting`: it is about to run
/// again.
fn traces(settings: &Compiled, context: &Context, restarting: bool) -> Vec<Trace> {
    match &settings.own {
        TypeSettings::Service(config) => {
            traces_of(config, context, !keeps_directories(config, restarting))
        }
        _ => Vec::new(),
    }
}

/// What a run of a service has, the directories only if they are asked for.
fn traces_of(config: &ServiceConfig, context: &Context, directories: bool) -> Vec<Trace> {
    let base = Path::new(&*context.runtime_dir);
    let below = |path: &str| base.join(path).to_string_lossy().into_owned();
    let mut out = Vec::new();
    for directory in config.exec.runtime_directory.paths.iter().filter(|_| directories) {
        let place = config.exec.runtime_directory_place(&directory.path);
        out.push(Trace::Directory(below(&place)));
        if *place != *directory.path {
            out.push(Trace::Link(below(&directory.path)));
        }
        out.extend(directory.symlinks.iter().map(|link| Trace::Link(below(link))));
    }
    out.extend(config.pid_file.iter().map(|path| Trace::File(path.to_string())));
    out.extend(terminal(&config.exec, context.scope));
    out
}

/// The temporary files of a run (PrivateTmp=) and the copy of its root (RootEphemeral=). No other run has them, so no
/// start waits for their removal.
fn temporary_files(core: &Core, unit: UnitId, settings: &Compiled) -> Vec<Trace> {
    let TypeSettings::Service(config) = &settings.own else { return Vec::new() };
    let run = runtime_limit::invocation(&core.units, unit);
    let (context, name) = (&core.settings.common.context, core.graph.name(unit).as_str());
    let mut traces = Vec::new();
    if let Some(root) = ephemeral_root::directory(&config.exec, context, name, run) {
        let directory = format!("{}/{}", context.state_dir, ephemeral_root::DIRECTORY);
        traces.push(Trace::Directory(root));
        traces.push(Trace::OfEarlierBoots { directory, boot: (&*context.boot_id).into() });
    }
    if private_tmp::is_asked_for(&config.exec) {
        let name = private_tmp::name(&context.boot_id, name, run);
        traces.extend(TEMPORARY.map(|parent| Trace::Directory(format!("{parent}/{name}"))));
    }
    traces
}

/// The terminal of a service belongs to its user while it runs, and is as its settings say before and after it.
fn terminal(exec: &ExecConfig, scope: Scope) -> Option<Trace> {
    let is_given = exec.user.is_some() && scope == Scope::System && exec.input_terminal().is_some();
    let ExecConfig {
        tty_vhangup: hangup, tty_reset: reset, tty_vt_disallocate: disallocate, ..
    } = *exec;
    let is_cleared = exec.terminal().is_some() && (hangup || reset || disallocate);
    let path = exec.terminal().filter(|_| is_given || is_cleared)?.to_owned();
    Some(Trace::Terminal(TerminalLeft { path, is_given, hangup, reset, disallocate }))
}

/// `RuntimeDirectoryPreserve=`
fn keeps_directories(config: &ServiceConfig, restarting: bool) -> bool {
    match config.exec.runtime_directory_preserve {
        Preserve::Yes => true,
        Preserve::Restart => restarting,
        Preserve::No => false,
    }
}

/// Whether a start of a unit with these settings can wait for a removal at all: it has something that a
/// run may leave.
pub fn may_meet(own: &Compiled, context: &Context) -> bool {
    matches!(&own.own, TypeSettings::Service(config) if !traces_of(config, context, true).is_empty())
}

/// What is met by a start of a unit with the settings `own` of that which is being removed of one with the
/// settings `removed`, the same or another: the path of the latter.
pub fn met(own: &Compiled, removed: &Compiled, context: &Context) -> Option<PathBuf> {
    let TypeSettings::Service(config) = &own.own else { return None };
    let own = traces_of(config, context, true);
    let meets = |path: &Path| {
        let mut own = own.iter().filter_map(Trace::path);
        own.any(|own| own.starts_with(path) || path.starts_with(own))
    };
    let removed = traces(removed, context, false);
    removed.iter().filter_map(Trace::path).find(|path| meets(path)).map(Path::to_owned)
}

/// Has the traces of a run removed that has ended; a unit without any pays nothing.
pub(crate) fn clear_away(core: &mut Core, unit: UnitId, settings: &Compiled, restarting: bool) {
    let mut traces = traces(settings, &core.settings.common.context, restarting);
    traces.append(&mut temporary_files(core, unit, settings));
    traces.extend(ipc::end(core, unit, settings));
    if traces.is_empty() {
        return;
    }
    // Nothing has run since: only what was to stay for a restart is left to be removed.
    if let Some(clearing) = &mut core.units.history_mut(unit).clearing {
        clearing.again |= clearing.restarting && !restarting;
        return;
    }
    let id = core.outbox.new_effect(unit);
    let until = Some(core.times.now.monotonic.after(WAIT_MAX));
    core.units.history_mut(unit).clearing =
        Some(Clearing { id, restarting, again: false, until, managers_ended: 0 });
    note_removal(core, unit, settings);
    core.outbox.effects.push(Effect::ClearAway { id, unit, traces, limit: None });
}

/// Removes directories of a service that is down, for a client, who hears when they are gone. No start of the service
/// comes in between.
pub(crate) fn clean(
    core: &mut Core,
    client: ClientId,
    unit: UnitId,
    kinds: &[CleanKind],
) -> Result<Option<Reply>, Refusal> {
    let is_clearing = core.units.clearing(unit).is_some();
    if core.units.active_state(unit) != ActiveState::Inactive
        || core.units.run(unit).job.is_some()
        || is_clearing
    {
        return Err(Refusal::NotAtRest);
    }
    let settings = unit_settings::compiled(core, unit);
    let TypeSettings::Service(config) = &settings.own else { return Err(Refusal::NothingToClean) };
    let context = core.settings.common.context.clone();
    let traces: Vec<Trace> =
        kinds.iter().flat_map(|kind| directories(&config.exec, &context, *kind)).collect();
    if traces.is_empty() {
        return Err(Refusal::NothingToClean);
    }
    let id = core.outbox.new_effect(unit);
    let (restarting, until) = (false, None);
    core.units.history_mut(unit).clearing =
        Some(Clearing { id, restarting, again: false, until, managers_ended: 0 });
    core.resources.removals.insert(unit, &traces);
    let limit = config.exec.timeout_clean;
    core.outbox.effects.push(Effect::ClearAway { id, unit, traces, limit });
    core.outbox.waiting_clients.insert(id, client);
    Ok(None)
}

/// The directories of one kind, those that only users get to who are made for a run, and links that lead there.
fn directories(exec: &ExecConfig, context: &Context, kind: CleanKind) -> Vec<Trace> {
    let (base, of) = match kind {
        CleanKind::Runtime => (&context.runtime_dir, &exec.runtime_directory),
        CleanKind::State => (&context.state_dir, &exec.state_directory),
        CleanKind::Cache => (&context.cache_dir, &exec.cache_directory),
        CleanKind::Logs => (&context.log_dir, &exec.logs_directory),
        CleanKind::Configuration => (&context.config_dir, &exec.configuration_directory),
    };
    let mut out = Vec::new();
    for directory in &of.paths {
        // A link there is removed, and not what it leads to.
        out.push(Trace::Directory(format!("{base}/{}", directory.path)));
        if kind != CleanKind::Configuration {
            out.push(Trace::Directory(format!("{base}/private/{}", directory.path)));
        }
        out.extend(directory.symlinks.iter().map(|link| Trace::Link(format!("{base}/{link}"))));
    }
    out
}

/// Has removed what stayed for a job that was there when its unit went down, and that is over now without having
/// brought it up again.
pub(crate) fn clear_what_was_kept(core: &mut Core, unit: UnitId, job: &Job) {
    let went_down = core.units.run(unit).history.as_ref().map(|h| h.inactive_enter.monotonic);
    let is_service = matches!(core.units.run(unit).state, TypeState::Service(_));
    if !is_service || job.kind == JobKind::Stop || went_down.is_none_or(|at| at < job.since) {
        return;
    }
    let settings = unit_settings::compiled(core, unit);
    let TypeSettings::Service(config) = &settings.own else { return };
    if config.exec.runtime_directory_preserve == Preserve::Restart {
        clear_away(core, unit, &settings, false);
    }
}

/// Whether the stop of a unit that is down waits for what it has left to be removed.
pub(crate) fn is_stop_held(units: &Units, unit: UnitId) -> bool {
    units.clearing(unit).is_some_and(|clearing| clearing.until.is_some())
}

/// What stays for a restart may be removed after all: starts of others wait for all of it.
fn note_removal(core: &mut Core, unit: UnitId, settings: &Compiled) {
    let traces = traces(settings, &core.settings.common.context, false);
    core.resources.removals.insert(unit, &traces);
}

/// Whether a start has to wait because something is being removed that it would have; it is
/// looked at again when that is done.
pub(crate) fn waits_for_clearing(core: &mut Core, unit: UnitId) -> bool {
    let met = match core.units.clearing(unit) {
        Some(_) => Some(unit),
        None => meets_clearing(core, unit),
    };
    match met {
        Some(other) => core.resources.removals.wait(unit, other),
        None => core.resources.removals.stop_waiting(unit),
    }
    met.is_some()
}

fn meets_clearing(core: &mut Core, unit: UnitId) -> Option<UnitId> {
    if core.resources.removals.units.is_empty() {
        return None;
    }
    let settings = unit_settings::compiled(core, unit);
    let TypeSettings::Service(config) = &settings.own else { return None };
    let own = traces_of(config, &core.settings.common.context, true);
    own.iter().filter_map(Trace::path).find_map(|path| core.resources.removals.met_by(path))
}

/// Whether the job of the unit waits for a removal.
pub(crate) fn is_clearing_waiter(resources: &Resources, unit: UnitId) -> bool {
    resources.removals.waiting.contains_key(&unit)
}

/// What was being removed when the last manager ended is removed by this one, unless managers ended during the
/// same removal before.
///
/// False: it was given up, and what waits for it has to be told (`relations::held_stops`).
pub(crate) fn resume_clearing(core: &mut Core, unit: UnitId) -> bool {
    let Some(mut clearing) = core.units.clearing(unit) else { return true };
    let settings = Arc::new(core.settings.common.compile_running(core.graph.definition(unit)));
    let mut traces = traces(&settings, &core.settings.common.context, clearing.restarting);
    traces.append(&mut temporary_files(core, unit, &settings));
    traces.extend(ipc::end_again(core, unit, &settings));
    clearing.managers_ended = clearing.managers_ended.saturating_add(1);
    if clearing.managers_ended > MANAGERS_MAX {
        core.units.history_mut(unit).clearing = None;
        dynamic_user::release_if_over(core, unit);
        let paths = traces.iter().filter_map(|trace| trace.path().map(Path::to_owned)).collect();
        core.outbox.tell(Notice::RemovalGivenUp { unit, paths });
        return false;
    }
    core.units.history_mut(unit).clearing = Some(clearing);
    core.outbox.expect_effect(clearing.id, unit);
    note_removal(core, unit, &settings);
    let id = clearing.id;
    core.outbox.effects.push(Effect::ClearAway { id, unit, traces, limit: None });
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_unit::config::Input;

    #[test]
    fn a_terminal_is_taken_back_from_whom_it_was_given_to() {
        let left = |user: Option<&str>, input: Input, scope: Scope| {
            let user = user.map(Into::into);
            let exec = ExecConfig { user, standard_input: input, ..ExecConfig::default() };
            terminal(&exec, scope)
        };
        let console = Some(Trace::Terminal(TerminalLeft {
            path: "/dev/console".to_owned(),
            is_given: true,
            hangup: false,
            reset: false,
            disallocate: false,
        }));
        assert_eq!(left(Some("a"), Input::TtyForce, Scope::System), console);
        assert_eq!(left(None, Input::TtyForce, Scope::System), None);
        assert_eq!(left(Some("a"), Input::Null, Scope::System), None);
        assert_eq!(left(Some("a"), Input::Tty, Scope::User), None);
    }
}

//! What must hold. Each check has a name, which begins the line it reports.
//!
//! `after_step` looks after every step of the core; `at_rest` when faults and requests are over and
//! everything had time to settle. Checks are written against the manual and the kernel's view, not
//! against how the core does it.

use std::collections::BTreeSet;

use warren_core::graph::{Definition, Graph};
use warren_core::machine::Core;
use warren_core::model::active_state::ActiveState;
use warren_core::model::ids::UnitId;
use warren_core::model::job::{JobKind, JobResult};
use warren_core::model::process::*;
use warren_core::model::reason::{Cause, Code, Reason};
use warren_core::model::state::*;
use warren_core::persist::run_state::Restored;
use warren_core::protocol::event::Effect;
use warren_core::protocol::trace_event::{Happening, What};
use warren_core::settings::TypeSettings;
use warren_unit::config::{Preserve, ServiceType, StopBudget};
use warren_unit::{Relation, UnitType};

use crate::restarts;
use crate::slices;
use crate::states::{Owed, States, states};
use crate::units::{UnitTexts, graph_of, meaning};
use crate::world::World;

/// Nothing that somebody else does takes longer, µs.
const SLOW_US: u64 = 6_000_000;

/// What a check needs to know of the moment before a step.
#[derive(Debug, Default)]
pub struct Before {
    jobs_ever: u32,
    /// The units' states.
    pub states: States,
}

impl Before {
    /// The moment now.
    pub fn of(core: &Core) -> Before {
        Before { jobs_ever: core.totals().jobs_ever, states: states(core) }
    }

    /// See [`crate::groups::owed`].
    pub fn owed(&self, world: &World) -> Vec<Owed> {
        crate::groups::owed(world, &self.states)
    }
}

/// Looks at everything that must hold after each step.
pub fn after_step(world: &World, before: &Before, happenings: &[Happening]) -> Vec<String> {
    let mut wrong = at_any_time(world);
    wrong.extend(needed(world, before, happenings));
    wrong.extend(crate::groups::after_step(world, &before.states));
    let totals = world.core.totals();
    if totals.jobs_ever < before.jobs_ever {
        wrong.push("view-monotonic: the count of jobs went back".to_owned());
    }
    wrong
}

/// What holds at any time, whatever was before.
pub fn at_any_time(world: &World) -> Vec<String> {
    let core = &world.core;
    let mut wrong: Vec<String> = core.check().into_iter().map(|w| format!("core: {w}")).collect();
    // Those of jobs without a plan are broken when those that wait for nobody have begun.
    if !core.is_behind() {
        wrong.extend(no_circle(core));
    }
    wrong.extend(stops_in_time(world));
    // Of an end without stops nobody waits for what was asked.
    if !world.given_up {
        wrong.extend(effects_are_wanted(core));
    }
    wrong.extend(processes_are_real(world));
    wrong
}

/// `nothing-made-up`: a manager that takes over knows nothing of a unit that is down and of which nothing was written;
/// a connection for which there is no service yet would be taken for one that was served.
pub fn nothing_made_up(world: &World, written: &BTreeSet<UnitId>) -> Vec<String> {
    let core = &world.core;
    let graph = core.graph();
    let unwritten = graph.names().filter(|(_, unit)| !written.contains(unit));
    let made_up = unwritten.filter(|&(_, unit)| {
        let run = core.unit_run(unit);
        run.job.is_none() && run.active_state().is_down() && run.history.is_some()
    });
    made_up.map(|(name, _)| format!("nothing-made-up: {name} has a history")).collect()
}

/// `needed`: nothing is stopped as unneeded while a unit that needs it is up or coming and would stay so.
fn needed(world: &World, before: &Before, happenings: &[Happening]) -> Vec<String> {
    let (core, view) = (&world.core, world.core.view());
    let was_up = |unit: &UnitId| before.states.get(unit).is_some_and(|state| state.is_up());
    let job_stops = |unit: &UnitId| {
        let is_stop = |what: &What| matches!(what, What::JobQueued { kind: JobKind::Stop, .. });
        happenings.iter().any(|happening| happening.unit == *unit && is_stop(&happening.what))
    };
    let goes = |happening: &Happening| {
        let What::State { active, reason, .. } = happening.what else { return None };
        (reason.code == Code::Unneeded && active.is_down_or_going()).then_some(happening.unit)
    };
    let jobs = view.jobs().into_iter().filter(|job| job.reason.code == Code::Unneeded);
    let mut units: BTreeSet<UnitId> = jobs.map(|job| job.unit).collect();
    units.extend(happenings.iter().filter_map(goes));
    units.retain(|unit| was_up(unit) && job_stops(unit));
    // But for this stop, which may stop it along.
    let stays = |unit: UnitId, other: UnitId| {
        let (run, was) = (core.unit_run(other), before.states.get(&other));
        let along = |reason: Reason| {
            reason.cause == Cause::Dependency(unit) && reason.code == Code::StoppedWithDependency
        };
        let gone_along = run.history.as_ref().is_some_and(|history| along(history.reason));
        match run.job.as_ref() {
            Some(job) if job.kind.is_stopping() => along(job.reason) && job_stops(&other),
            Some(job) if job.kind == JobKind::Start => job.since.0 < world.kernel.now,
            _ => {
                let gone_along = gone_along && job_stops(&other);
                // It may have gone, and have come back in the same step.
                let went = job_stops(&other);
                let stays = run.active_state().is_up_or_coming() && !went || gone_along;
                stays && was.is_some_and(|was| was.is_up_or_coming())
            }
        }
    };
    let in_vain = units.into_iter().filter_map(|unit| {
        let other = needed_by(core.graph(), unit).find(|&other| stays(unit, other))?;
        let (unit, other) = (world.name(unit), world.name(other));
        Some(format!("needed: {unit} is stopped as unneeded, {other} needs it"))
    });
    in_vain.collect()
}

/// Units for whose sake `unit` is kept up (systemd.unit(5), `StopWhenUnneeded=`: it is stopped "if no
/// other active unit requires it"), whether they require it or only want it.
fn needed_by(graph: &Graph, unit: UnitId) -> impl Iterator<Item = UnitId> {
    const NEEDS: &[Relation] = &[
        Relation::Requires,
        Relation::Requisite,
        Relation::Wants,
        Relation::BindsTo,
        Relation::Upholds,
        Relation::MountsFor,
        Relation::RequireAny,
    ];
    NEEDS.iter().flat_map(move |tie| graph.related(unit, tie.inverse()))
}

/// `circle`: the installed jobs that wait for others do not wait for each other. What a unit names in
/// `RequireAny=` or `OptionalAll=` comes before it as by `After=` where one of the two is stopped; what
/// a start waits for by them is looked at when its turn has come. Of two stops that are ordered both
/// ways neither waits.
fn no_circle(core: &Core) -> Vec<String> {
    let (graph, view) = (core.graph(), core.view());
    let mut left: Vec<_> = view.jobs();
    loop {
        let waits_for_left = |job: &&&warren_core::model::job::Job| {
            !job.ignores_order()
                && !job.running
                && left.iter().any(|other| {
                    let stops = job.kind.is_stopping() || other.kind.is_stopping();
                    let comes_first = |one, two| {
                        graph.is_before(one, two) || stops && is_in_group_of(graph, one, two)
                    };
                    let first = comes_first(other.unit, job.unit);
                    let tied = first || comes_first(job.unit, other.unit);
                    tied && warren_core::model::job::must_wait(job.kind, other.kind, first)
                })
        };
        let next: Vec<_> = left.iter().filter(waits_for_left).copied().collect();
        if next.len() == left.len() {
            break;
        }
        left = next;
    }
    if left.is_empty() {
        return Vec::new();
    }
    let names: Vec<_> = left.iter().map(|j| graph.name(j.unit).to_string()).collect();
    vec![format!("circle: jobs wait for each other: {}", names.join(" "))]
}

fn is_in_group_of(graph: &Graph, member: UnitId, unit: UnitId) -> bool {
    let groups = [Relation::RequireAny, Relation::OptionalAll];
    groups.iter().any(|&group| graph.is_related(unit, group, member))
}

/// Effects that a run state still names.
fn named_effects(run: &UnitRun) -> usize {
    let control = |c: Option<Control>| usize::from(matches!(c, Some(Control::Asked(_))));
    let checking = run.history.as_ref().is_some_and(|h| h.checking.is_some());
    let freezer = run.history.as_ref().and_then(|h| h.freezer.asked());
    let clearing = run.history.as_ref().is_some_and(|h| h.clearing.is_some());
    usize::from(checking)
        + usize::from(freezer.is_some())
        + usize::from(clearing)
        + match &run.state {
            TypeState::Service(Service::Up(s)) => {
                let asked = [s.main.asked(), s.kill_asked, s.main_search];
                asked.iter().flatten().count() + control(s.control) + s.doomed.len()
            }
            TypeState::Socket(Socket::Up(s)) => {
                usize::from(s.listen_asked.is_some()) + control(s.control)
            }
            TypeState::Mount(Mount::Up(s)) | TypeState::Swap(Mount::Up(s)) => {
                usize::from(s.asked.is_some())
            }
            TypeState::Automount(Automount::Up(s)) => usize::from(s.asked.is_some()),
            TypeState::Timer(Timer::Up(s)) => usize::from(s.asked.is_some()),
            TypeState::Path(Path::Up(s)) => usize::from(s.asked.is_some()),
            TypeState::Scope(Scope::Up(s)) => usize::from(s.asked.is_some()),
            TypeState::Slice(Slice::Asked(_)) => 1,
            _ => 0,
        }
}

/// `effect-leak`: every effect that the core waits for is named by a unit.
fn effects_are_wanted(core: &Core) -> Vec<String> {
    let named: usize = core.graph().definitions().map(|d| named_effects(core.unit_run(d.id))).sum();
    let pending = core.pending_effects();
    match named == pending {
        true => Vec::new(),
        false => vec![format!("effect-leak: {pending} effects pending, {named} named")],
    }
}

/// `process-owner`: no process is the main or control process of two units.
fn processes_are_real(world: &World) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for definition in world.core.graph().definitions() {
        let run = world.core.unit_run(definition.id);
        let pids = run.main_process().map(|p| p.pid).into_iter().chain(run.control_pid());
        for pid in pids {
            if !seen.insert(pid) {
                wrong.push(format!("process-owner: {pid} is claimed twice"));
            }
        }
    }
    wrong
}

/// `round-trip`: what is read back is what was written.
pub fn same_state(core: &Core, restored: &Restored) -> Vec<String> {
    let mut wrong = Vec::new();
    for definition in core.graph().definitions() {
        let written = core.unit_run(definition.id);
        let read = restored.runs.get(&definition.id);
        let same = match read {
            Some(read) => read == written,
            None => *written == UnitRun::idle(definition.unit_type()),
        };
        if !same {
            wrong.push(format!("round-trip: {} was not written as it is", definition.name));
        }
    }
    if restored.manager != Some(core.manager_record()) {
        wrong.push("round-trip: the manager's own record differs".to_owned());
    }
    wrong
}

/// `incremental`: the graph is what the same files make from nothing.
pub fn same_from_scratch(graph: &Graph, texts: &UnitTexts) -> Vec<String> {
    match meaning(graph) == meaning(&graph_of(texts)) {
        true => Vec::new(),
        false => vec!["incremental: the graph differs from one made from nothing".to_owned()],
    }
}

// ---- at rest ----

/// Looks at everything that must hold once nothing is under way.
pub fn at_rest(world: &World) -> Vec<String> {
    if world.given_up {
        return nothing_goes_on(world);
    }
    let mut wrong = settled(world);
    if wrong.is_empty() {
        wrong.extend(kernel_agrees(world));
        wrong.extend(relations_hold(world));
        wrong.extend(crate::groups::at_rest(world));
        wrong.extend(crate::devices::known(world));
        wrong.extend(world.heard.watchdogs.at_rest(world));
        wrong.extend(crate::timers::in_time(&world.core, &world.kernel));
        wrong.extend(crate::timers::stamps_are_true(&world.core, &world.kernel));
        wrong.extend(crate::timers::no_change_is_lost(&world.core, &world.kernel));
        wrong.extend(all_is_down(world));
    }
    wrong
}

/// `given-up`: when the machine ends without stops, no job is left, and none comes.
fn nothing_goes_on(world: &World) -> Vec<String> {
    let jobs = world.core.totals().jobs;
    let wrong = (jobs > 0).then(|| format!("given-up: there are {jobs} jobs"));
    wrong.into_iter().collect()
}

/// How long a job may take when nothing disturbs it, in µs: chains of timeouts add up.
const JOB_MAX: u64 = 40 * 60 * 1_000_000;

/// `liveness`: every job came to an end and every unit to rest.
fn settled(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    let now = world.kernel.now;
    let goes_on = something_goes_on(world);
    for definition in world.core.graph().definitions() {
        let run = world.core.unit_run(definition.id);
        let name = &definition.name;
        let is_held_up = || slices::is_held_up(&world.core, definition.id);
        // A start that is begun anew again and again.
        let is_tried_again = goes_on
            && restarts::is_direct(&world.core, definition.id)
            && run.history.as_ref().is_some_and(|history| history.restarts > 0);
        let stuck = |job: &warren_core::model::job::Job| {
            now - job.since.0 > JOB_MAX
                && (job.running && !is_tried_again || !job.running && !goes_on && !is_held_up())
        };
        if let Some(job) = run.job.as_ref().filter(|job| stuck(job)) {
            wrong.push(format!("liveness: the {} job of {name} never ends", job.kind.as_str()));
        }
        let moving = matches!(
            run.active_state(),
            ActiveState::Activating | ActiveState::Deactivating | ActiveState::Reloading
        );
        let since = run.history.as_ref().map_or(0, |h| h.state_change.monotonic.0);
        let waits = world.core.graph().is_device(definition.id);
        if moving && !waits && now - since > JOB_MAX {
            wrong.push(format!("liveness: {name} stays {}", run.sub_state()));
        }
    }
    wrong
}

/// Whether anything has changed lately. Files can be written so that a unit starts another one
/// for ever (`OnSuccess=` of what it waits for): jobs that wait for those wait for a live reason.
fn something_goes_on(world: &World) -> bool {
    let recent = world.kernel.now.saturating_sub(JOB_MAX / 4);
    world.core.graph().definitions().any(|definition| {
        let run = world.core.unit_run(definition.id);
        let changed = run.history.as_ref().map_or(0, |h| h.state_change.monotonic.0);
        changed > recent
    })
}

/// `shutdown`: when everything was to be stopped, nothing is up but what was there before the
/// manager, what may outlast a soft reboot, and mounts that could not be unmounted.
fn all_is_down(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    if !world.core.totals().stopping {
        return wrong;
    }
    // Nothing conflicts with a target of any end here but by default dependencies. A file may have been edited
    // since.
    let survives = |definition: &Definition| {
        let flags = definition.flags;
        definition.unit_type() == UnitType::Service
            && (flags.survive_final_kill_signal() || world.lawless)
            && !flags.default_dependencies()
    };
    let somebody_survives = world.core.graph().definitions().any(|d| survives(d));
    for definition in world.core.graph().definitions().filter(|d| !d.flags.perpetual()) {
        let run = world.core.unit_run(definition.id);
        let code = run.history.as_ref().map_or(Code::NeverStarted, |h| h.reason.code);
        let stays = matches!(code, Code::Discovered | Code::UnmountFailed | Code::UnmountTimeout);
        let stays = stays || world.core.graph().is_device(definition.id);
        let holds_one = definition.name.unit_type() == UnitType::Slice;
        let may_outlast = holds_one || !definition.flags.default_dependencies();
        let stays = stays || world.soft && may_outlast || survives(definition);
        let stays = stays || holds_one && somebody_survives;
        if !run.active_state().is_down() && !stays {
            wrong.push(format!("shutdown: {} is still {}", definition.name, run.sub_state()));
        }
    }
    wrong
}

/// `no-start`: once everything is to be stopped, only what helps stopping is run.
pub fn nothing_starts(world: &World, effects: &[Effect]) -> Vec<String> {
    if !world.core.totals().stopping {
        return Vec::new();
    }
    let stops = |list| matches!(list, CommandList::Stop | CommandList::StopPost);
    let starts = |effect: &Effect| match effect {
        Effect::Spawn(_, spawn) if !stops(spawn.list) => Some(spawn.unit),
        Effect::Listen { unit, .. } | Effect::Mount { unit, .. } | Effect::SetTrap { unit, .. } => {
            Some(*unit)
        }
        _ => None,
    };
    let started = effects.iter().filter_map(starts);
    started.map(|unit| format!("no-start: {} is started", world.name(unit))).collect()
}

/// `stop-budget`: the phases that ask a service to end are over when its time for the whole stop
/// is.
fn stops_in_time(world: &World) -> Vec<String> {
    // What was late already when the manager came back gets its share all the same.
    const LATE_MAX: u64 = 6_000_000;
    // Its file may have got another budget since the stop began.
    let by_phase = |unit: UnitId| {
        let compiled = world.core.settings().compile(world.core.graph().definition(unit));
        matches!(&compiled.own, TypeSettings::Service(c) if c.stop_budget == StopBudget::PerPhase)
    };
    let late = |run: &UnitRun| match &run.state {
        TypeState::Service(Service::Up(service)) => {
            let asks = matches!(service.phase, ServicePhase::Stop | ServicePhase::StopSigterm);
            asks && service.stop_by.is_some_and(|by| by.0 + LATE_MAX < world.kernel.now)
        }
        _ => false,
    };
    let core = &world.core;
    let all = core.graph().definitions().filter(|d| late(core.unit_run(d.id)) && !by_phase(d.id));
    all.map(|d| format!("stop-budget: {} stops for too long", d.name)).collect()
}

/// `stop-nobody`: a service whose processes are asked to end has some, when nothing is to come
/// before `until` µs but the end of a time.
pub fn stops_wait_for_somebody(world: &World, until: u64) -> Vec<String> {
    use ServicePhase::*;
    if until < world.kernel.now + SLOW_US {
        return Vec::new();
    }
    let waits_for_nobody = |unit: UnitId| {
        let run = world.core.unit_run(unit);
        let TypeState::Service(Service::Up(service)) = &run.state else { return false };
        let asks = matches!(
            service.phase,
            StopWatchdog | StopSigterm | StopSigkill | FinalWatchdog | FinalSigterm | FinalSigkill
        );
        let mut known = run.main_process().map(|p| p.pid).into_iter().chain(run.control_pid());
        let awaits_an_answer = service.main.asked().is_some()
            || service.kill_asked.is_some()
            || !service.doomed.is_empty()
            || matches!(service.control, Some(Control::Asked(_)));
        asks && !awaits_an_answer
            && world.kernel.members(unit).is_empty()
            && !known.any(|pid| world.kernel.processes.contains_key(&pid))
    };
    let all = world.core.graph().definitions().filter(|d| waits_for_nobody(d.id));
    all.map(|d| format!("stop-nobody: {} waits for processes that are gone", d.name)).collect()
}

/// What the core believes is what the kernel has.
fn kernel_agrees(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    if !world.is_at_rest() {
        return wrong;
    }
    for definition in world.core.graph().definitions() {
        let (unit, name) = (definition.id, &definition.name);
        let run = world.core.unit_run(unit);
        let down = run.active_state().is_down();
        let pids = run.main_process().map(|p| p.pid).into_iter().chain(run.control_pid());
        for pid in pids.filter(|pid| !world.kernel.processes.contains_key(pid)) {
            wrong.push(format!("ghost: process {pid} of {name} is long gone"));
        }
        let members = world.kernel.members(unit);
        if down && !members.is_empty() && !may_leave_processes(world, unit) {
            wrong.push(format!("left-over: {name} is down, {members:?} still run"));
        }
        let freezer = run.history.as_ref().map(|h| h.freezer).unwrap_or_default();
        if !down && world.kernel.frozen.contains_key(&unit) != (freezer == Freezer::Frozen) {
            let state = freezer.as_str();
            wrong.push(format!("freezer: {name} is {state}, the kernel has it otherwise"));
        }
        let pairs = [
            (
                "mount",
                matches!(run.state, TypeState::Mount(_) | TypeState::Swap(_)),
                world.kernel.mounts.contains(&unit),
            ),
            (
                "trap",
                matches!(run.state, TypeState::Automount(_)),
                world.kernel.traps.contains_key(&unit),
            ),
            (
                "socket",
                matches!(run.state, TypeState::Socket(_)),
                world.kernel.sockets.contains_key(&unit),
            ),
        ];
        for (what, is_type, there) in pairs {
            if is_type && there == down && !definition.flags.perpetual() {
                let state = run.active_state().as_str();
                wrong.push(format!("{what}: {name} is {state}, the kernel says {there}"));
            }
        }
        if down && world.kernel.connections.contains(&unit) {
            wrong.push(format!("connection: {name} is down, and has a connection"));
        }
        wrong.extend(left_directory(world, definition));
        wrong.extend(has_its_name(world, definition));
        wrong.extend(watch_agrees(world, unit));
        wrong.extend(nobody_waits(world, unit));
    }
    wrong
}

/// `directory`: a service that is down has left no runtime directory, but one that it is to leave, or
/// that another unit has made, too.
fn left_directory(world: &World, definition: &Definition) -> Option<String> {
    let unit = definition.id;
    let compiled = world.core.settings().compile(definition);
    let TypeSettings::Service(config) = &compiled.own else { return None };
    let run = world.core.unit_run(unit);
    let keeps = match config.exec.runtime_directory_preserve {
        Preserve::Yes => true,
        Preserve::Restart => run.job.is_some(),
        Preserve::No => false,
    };
    if keeps || !run.active_state().is_down() {
        return None;
    }
    let paths = config.exec.runtime_directory.paths.iter();
    let place = |path: &str| config.exec.runtime_directory_place(path);
    let mut left = paths.map(|directory| format!("/run/{}", place(&directory.path)));
    let is_left = |path: &String| {
        let makers = world.kernel.directories.get(path);
        makers.is_some_and(|makers| makers.keys().eq([&unit]))
    };
    let left = left.find(is_left)?;
    Some(format!("directory: {} is down and has left {left}", definition.name))
}

/// `bus-name`: a service of `Type=dbus` that works has its name (systemd.service(5), `Type=`).
fn has_its_name(world: &World, definition: &Definition) -> Option<String> {
    let compiled = world.core.settings().compile(definition);
    let TypeSettings::Service(config) = &compiled.own else { return None };
    let name = config.bus_name.as_deref().filter(|_| config.service_type == ServiceType::Dbus)?;
    let runs = world.core.unit_run(definition.id).sub_state() == "running";
    let is_wrong = runs && !world.lawless && !world.kernel.is_owned(name);
    is_wrong.then(|| format!("bus-name: {} is up without {name}", definition.name))
}

/// `KillMode=process` and `none` leave processes by intent; the file may have said so before.
fn may_leave_processes(world: &World, unit: UnitId) -> bool {
    world.leavers.contains(&unit)
}

/// Whether a unit file allows processes to outlive the unit.
pub fn allows_left_overs(text: &str) -> bool {
    ["KillMode=process", "KillMode=none", "SendSIGKILL=no"].iter().any(|line| text.contains(line))
}

/// `watch`: a socket is watched if and only if it listens; at the end one that listens need not be.
fn watch_agrees(world: &World, unit: UnitId) -> Option<String> {
    let TypeState::Socket(Socket::Up(run)) = &world.core.unit_run(unit).state else { return None };
    let watched = world.kernel.sockets.get(&unit).is_some_and(|s| s.watched.is_some());
    let wants = run.phase == SocketPhase::Listening;
    let name = world.name(unit);
    let agrees = watched == wants || !watched && world.core.totals().stopping;
    if !agrees {
        return Some(format!("watch: {name} is {}, watched: {watched}", run.phase.as_str()));
    }
    if run.phase == SocketPhase::Running && !world.core.totals().stopping {
        return nobody_answers(world, unit);
    }
    None
}

/// `deaf`: a socket that is taken over is so by somebody.
fn nobody_answers(world: &World, socket: UnitId) -> Option<String> {
    let graph = world.core.graph();
    let by_name = || graph.lookup(&graph.name(socket).change_type(UnitType::Service).ok()?);
    let stated = graph.stated(socket, Relation::Triggers).next();
    let behind = stated.or_else(by_name)?;
    let mut all = graph.related(socket, Relation::Triggers).chain([behind]);
    let is_there = all.any(|service| {
        let service = world.core.unit_run(service);
        !service.active_state().is_down() || service.job.is_some()
    });
    (!is_there).then(|| format!("deaf: {} is running, nobody has it", world.name(socket)))
}

/// `waiter`: nobody is left waiting in a trap.
fn nobody_waits(world: &World, unit: UnitId) -> Option<String> {
    let trap = world.kernel.traps.get(&unit)?;
    let name = world.name(unit);
    (!trap.unanswered.is_empty())
        .then(|| format!("waiter: {:?} of {name} have no answer", trap.unanswered))
}

/// What the manual promises about active units, unless somebody asked to ignore it. What cannot be
/// stopped, as a mount that is busy, stays up beside what it conflicts with; what is bound with
/// `RestartOn=none` stays up alone, as it says.
fn relations_hold(world: &World) -> Vec<String> {
    let mut wrong = Vec::new();
    if world.lawless || world.core.totals().stopping || !world.is_at_rest() {
        return wrong;
    }
    let graph = world.core.graph();
    let up = |unit: UnitId| is_up(world, unit);
    for definition in graph.definitions().filter(|d| up(d.id)) {
        let (unit, name) = (definition.id, &definition.name);
        let missing = |other| {
            !up(other)
                && !crate::devices::may_be_missing(world, other, unit)
                && !graph.is_related(unit, Relation::RestartOnNone, other)
        };
        for other in graph.related(unit, Relation::BindsTo).filter(|&o| missing(o)) {
            wrong.push(format!("binds-to: {name} is up, {} is not", graph.name(other)));
        }
        let cannot_go = |unit| {
            let lost = world.core.unit_run(unit).history.as_ref().and_then(|h| h.lost_job);
            lost.is_some_and(|lost| {
                let failed = matches!(lost.result, JobResult::Failed | JobResult::Timeout);
                lost.kind.is_stopping() && failed
            })
        };
        let stays =
            |&o: &UnitId| up(o) && !gave_way(world, unit, o) && !cannot_go(unit) && !cannot_go(o);
        for other in graph.related(unit, Relation::Conflicts).filter(stays) {
            wrong.push(format!("conflicts: {name} and {} are both up", graph.name(other)));
        }
        for other in graph.related(unit, Relation::Upholds).filter(|&o| !up(o)) {
            if should_be_upheld(world, other) {
                wrong.push(format!("upholds: {name} is up, {} is not", graph.name(other)));
            }
            if is_forgotten(world, other) {
                let other = graph.name(other);
                wrong.push(format!("upholds: {name} is up, {other} is not tried again"));
            }
        }
        if definition.flags.stop_when_unneeded() && !is_needed(world, unit) {
            wrong.push(format!("unneeded: {name} is up though nobody needs it"));
        }
    }
    wrong
}

fn is_up(world: &World, unit: UnitId) -> bool {
    world.core.unit_run(unit).active_state().is_up()
}

/// Whether the files contradict themselves, so that a conflict gave way: `started` came up while `unit`
/// was up, and the stop of `unit` would have been the stop of `started`, of a unit that cannot be
/// without it, or of one that is started with it. A stop for the sake of somebody else's `Conflicts=`
/// gives way to a start; systemd 252 has both up then, too.
fn gave_way(world: &World, unit: UnitId, started: UnitId) -> bool {
    const STOPPED_WITH: &[Relation] = &[
        Relation::RequiredBy,
        Relation::BoundBy,
        Relation::RequisiteOf,
        Relation::ConsistsOf,
        Relation::MountsForOf,
        Relation::PropagatesStopTo,
        Relation::RestartOnRestartOf,
        Relation::RestartOnRefreshOf,
    ];
    const NEEDED_BY: &[Relation] =
        &[Relation::RequiredBy, Relation::BoundBy, Relation::RequisiteOf, Relation::MountsForOf];
    const PULLED_IN: &[Relation] = &[
        Relation::Requires,
        Relation::BindsTo,
        Relation::MountsFor,
        Relation::Wants,
        Relation::Upholds,
        Relation::RequireAny,
    ];
    let since = |unit: UnitId| {
        let history = world.core.unit_run(unit).history.as_ref();
        history.map_or(0, |history| history.active_enter.monotonic.0)
    };
    let mut comes = reached(world.core.graph(), started, NEEDED_BY);
    comes.append(&mut reached(world.core.graph(), started, PULLED_IN));
    let goes = reached(world.core.graph(), unit, STOPPED_WITH);
    since(unit) <= since(started) && !goes.is_disjoint(&comes)
}

/// The unit, and all that these relations lead to from it.
fn reached(graph: &Graph, unit: UnitId, relations: &[Relation]) -> BTreeSet<UnitId> {
    let (mut seen, mut left) = (BTreeSet::from([unit]), vec![unit]);
    while let Some(unit) = left.pop() {
        let others = relations.iter().flat_map(|&relation| graph.related(unit, relation));
        left.extend(others.filter(|&other| seen.insert(other)));
    }
    seen
}

/// A unit whose last start came to nothing for want of what it needs, and that nobody will start again
/// though the next one was not refused.
fn is_forgotten(world: &World, unit: UnitId) -> bool {
    let run = world.core.unit_run(unit);
    let history = run.history.as_ref().filter(|history| history.refusal.is_none());
    let lost = history.and_then(|history| history.lost_job);
    let is_due = lost
        .is_some_and(|lost| lost.kind == JobKind::Start && lost.result == JobResult::Dependency);
    is_due && run.job.is_none() && world.core.upheld_again_at(unit).is_none()
}

/// A unit that nothing stands against: no limit, no conflict, no requirement that may fail. What it
/// requires for a path is required like anything else: its start may be refused, because of a circle
/// among others.
fn should_be_upheld(world: &World, unit: UnitId) -> bool {
    let graph = world.core.graph();
    let definition = graph.definition(unit);
    let run = world.core.unit_run(unit);
    let limited = run.history.as_ref().is_some_and(|h| h.outcome != Outcome::Success)
        || world.core.upheld_again_at(unit).is_some();
    let in_the_way = [
        Relation::Conflicts,
        Relation::ConflictedBy,
        Relation::Requisite,
        Relation::BindsTo,
        Relation::RequireAny,
        Relation::ExcludeAll,
        Relation::ExcludeAllOf,
    ];
    let free = in_the_way.iter().all(|&r| graph.related(unit, r).next().is_none());
    let required = [Relation::Requires, Relation::MountsFor].into_iter();
    let simple = required
        .flat_map(|relation| graph.related(unit, relation))
        .all(|o| graph.name(o).unit_type() == UnitType::Slice || is_up(world, o));
    let skipped = run.history.as_ref().is_some_and(|h| h.conditions.is_some())
        || run.active_state() == ActiveState::Maintenance;
    definition.load_state == warren_unit::LoadState::Loaded
        && !limited
        && free
        && simple
        && !skipped
}

fn is_needed(world: &World, unit: UnitId) -> bool {
    let up = |other: UnitId| !world.core.unit_run(other).active_state().is_down();
    needed_by(world.core.graph(), unit).any(up)
}

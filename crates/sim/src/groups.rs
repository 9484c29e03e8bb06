//! `[X-Warren]` groups, rules and marks: how they are drawn, and what must hold of them.

use warren_core::graph::Definition;
use warren_core::machine::Core;
use warren_core::model::active_state::ActiveState;
use warren_core::model::admin_marks::Marked;
use warren_core::model::ids::UnitId;
use warren_core::model::job::{JobKind, JobMode, JobResult};
use warren_core::model::reason::{Cause, Code};
use warren_core::model::time::Moment;
use warren_unit::{Relation, UnitName, UnitType};

use crate::random::Random;
use crate::restarts;
use crate::script::{Action, Plan};
use crate::states::{Owed, States};
use crate::world::World;

/// Units with lines of their own section, of 1000.
const WITH_LINES_PER_MILLE: u32 = 350;

/// Adds lines of the own section to some units of a plan, and marks to its actions.
pub fn draw(plan: &mut Plan) {
    let mut random = Random::new(plan.seed ^ 0x6772_6f75_7073);
    if !random.chance(400) {
        return;
    }
    let names: Vec<UnitName> = plan.units.names().cloned().collect();
    for name in &names {
        if random.chance(WITH_LINES_PER_MILLE) {
            let text = plan.units.text(name).unwrap_or_default().to_owned();
            let lines = draw_lines(&mut random, &names);
            plan.units.set(name.clone(), format!("{text}[X-Warren]\n{lines}"));
        }
    }
    let end = plan.actions.last().map_or(1000, |(at, _)| *at) + 1;
    for _ in 0..random.below(6) {
        let name = random.pick(&names).to_string();
        let action = match random.below(6) {
            0..=1 => Action::Mark(name, Marked::Maintenance),
            2 => Action::Mark(name, Marked::Degraded),
            3..=4 => Action::Mend(name),
            _ => Action::Job("start".to_owned(), name, JobMode::Replace),
        };
        plan.actions.push((random.below(end), action));
    }
    plan.actions.sort_by_key(|(at, _)| *at);
}

fn draw_lines(random: &mut Random, names: &[UnitName]) -> String {
    let mut lines = String::new();
    for _ in 0..1 + random.below(3) {
        let (one, two) = (random.pick(names).clone(), random.pick(names).clone());
        lines += &match random.below(10) {
            0..=2 => format!("RequireAny={one} {two}\n"),
            3 => format!("OptionalAll={one}\n"),
            4 => format!("ExcludeAll={one}\n"),
            5 => format!("RestartOn=error {one} {two}\n"),
            6..=7 => format!("RestartOn=restart {one}\n"),
            8 => format!("RestartOn=refresh {one}\n"),
            _ => "Maintenance=failure\n".to_owned(),
        };
        if random.chance(100) {
            lines += &format!("RestartOn=none {two}\n");
        }
    }
    lines
}

/// Looks at what must hold after each step.
pub fn after_step(world: &World, before: &States) -> Vec<String> {
    let mut wrong = Vec::new();
    for definition in world.core.graph().definitions() {
        wrong.extend(put_aside_stays(world, definition, before));
        wrong.extend(started_rightly(world, definition, before));
        wrong.extend(stopped_rightly(world, definition, before));
    }
    wrong
}

/// `put-aside`: what is in maintenance does not come up; but what somebody mounts by hand is mounted, and
/// swap areas likewise.
fn put_aside_stays(world: &World, definition: &Definition, before: &States) -> Option<String> {
    let state = world.core.unit_run(definition.id).active_state();
    let was = before.get(&definition.id).copied();
    let rises = was == Some(ActiveState::Maintenance)
        && world.core.unit_run(definition.id).marked() == Some(Marked::Maintenance)
        && !matches!(definition.unit_type(), UnitType::Mount | UnitType::Swap)
        && !state.is_down();
    rises.then(|| format!("put-aside: {} comes up", definition.name))
}

/// `groups`: what came up had what its groups ask for, before this step or after it.
fn started_rightly(world: &World, definition: &Definition, before: &States) -> Option<String> {
    let (core, unit) = (&world.core, definition.id);
    let state = core.unit_run(unit).active_state();
    let was = before.get(&unit).copied().unwrap_or(ActiveState::Inactive);
    let by_job = core
        .unit_run(unit)
        .job
        .as_ref()
        .is_some_and(|job| job.kind == JobKind::Start && job.running && !job.ignores_order());
    // A check of conditions comes between the look at the groups and the start.
    let checked = definition.flags.has_conditions();
    if !definition.flags.has_groups() || !was.is_down() || state.is_down() || !by_job || checked {
        return None;
    }
    // It may have come up and begun to go within the step.
    let now = core.totals().now.monotonic;
    let up = |other: UnitId| {
        let run = core.unit_run(other);
        run.active_state().is_up()
            || run.history.as_ref().is_some_and(|history| history.active_enter.monotonic == now)
            || before.get(&other).is_some_and(|state| state.is_up())
    };
    let graph = core.graph();
    let section = core.settings().compile(definition).section;
    for group in section.require_any.iter() {
        let mut members = group.iter().filter_map(|name| graph.lookup(name)).peekable();
        if members.peek().is_some() && !members.any(up) {
            return Some(format!("groups: {} has none of {group:?}", definition.name));
        }
    }
    let stays = |other: &UnitId| {
        core.unit_run(*other).active_state().is_up()
            && before.get(other).is_some_and(|state| state.is_up())
    };
    let beside = graph.related(unit, Relation::ExcludeAll).find(stays)?;
    Some(format!("excludes: {} comes up beside {}", definition.name, graph.name(beside)))
}

/// It was restarted with the other one, and waits for nobody on its way up.
fn came_up_in_this_step(core: &Core, unit: UnitId) -> bool {
    let history = core.unit_run(unit).history.as_ref();
    history.is_some_and(|history| history.active_enter == core.totals().now)
}

/// One transaction restarts both, and `unit`, which no order ties to the `other`, has been restarted
/// already: it came up for the sake of others after the other's restart was asked for.
fn was_restarted_first(core: &Core, unit: UnitId, other: UnitId) -> bool {
    let (job, history) = (&core.unit_run(other).job, &core.unit_run(unit).history);
    let (Some(job), Some(history)) = (job, history) else { return false };
    job.kind == JobKind::Restart
        && history.active_enter.monotonic >= job.since
        && matches!(history.reason.cause, Cause::Dependency(_))
}

fn up_since(core: &Core, unit: UnitId) -> Moment {
    core.unit_run(unit).history.as_ref().map_or(Moment::default(), |history| history.active_enter)
}

/// Units whose stop by a rule was refused in this step, or may have been: jobs that are irreversible
/// let nothing come that contradicts them, and for no longer than they last (`owed_in_vain`).
pub fn owed(world: &World, before: &States) -> Vec<Owed> {
    let definitions = world.core.graph().definitions();
    let staying = definitions.flat_map(|definition| {
        let staying = staying(world, definition, before).into_iter();
        staying.map(|stays| (stays, up_since(&world.core, stays), definition.id))
    });
    if is_irreversible(&world.core) { staying.collect() } else { Vec::new() }
}

fn is_irreversible(core: &Core) -> bool {
    core.view().jobs().iter().any(|job| job.irreversible)
}

/// `restart-on`: what an irreversible job kept up longer is stopped when nothing is under way any more.
fn owed_in_vain(world: &World) -> Vec<String> {
    let core = &world.core;
    let is_tied = |unit, other| {
        let rules = [Relation::RestartOnRestart, Relation::RestartOnRefresh];
        rules.iter().any(|&rule| core.graph().is_related(unit, rule, other))
    };
    let stays = |&&(unit, since, other): &&Owed| {
        let is_up = core.unit_run(unit).active_state().is_up();
        is_up && up_since(core, unit) == since && is_tied(unit, other)
    };
    let name = |unit: UnitId| core.graph().name(unit);
    let all = world.heard.owed.iter().filter(stays);
    all.map(|&(unit, _, other)| {
        format!("restart-on: {} is up since before {} went", name(unit), name(other))
    })
    .collect()
}

/// `restart-on`: when a unit goes down, what is to go with it does not stay up, unless a job that is
/// irreversible may stand against that.
fn stopped_rightly(world: &World, definition: &Definition, before: &States) -> Option<String> {
    let stays = *staying(world, definition, before).first()?;
    let name = world.core.graph().name(stays);
    (!is_irreversible(&world.core))
        .then(|| format!("restart-on: {name} stays up without {}", definition.name))
}

/// Units that are to go down with this one, which goes down in this step, and stay up.
fn staying(world: &World, definition: &Definition, before: &States) -> Vec<UnitId> {
    let (core, unit) = (&world.core, definition.id);
    let (was, is) = (before.get(&unit).copied(), core.unit_run(unit).active_state());
    // Of the end of what may restart directly others hear when it is down.
    let goes = match restarts::is_direct(core, unit) {
        true => was.is_some_and(|state| !state.is_down()) && is.is_down(),
        false => was.is_some_and(|state| state.is_up()) && is.is_down_or_going(),
    };
    if !goes || world.lawless || core.totals().stopping {
        return Vec::new();
    }
    let graph = core.graph();
    let rules = [Relation::RestartOnRestartOf, Relation::RestartOnRefreshOf];
    let tied = rules.iter().flat_map(|&rule| graph.related(unit, rule));
    // Those that have a rule for each other are restarted once, in whichever order.
    let back = [Relation::RestartOnError, Relation::RestartOnRestart, Relation::RestartOnRefresh];
    let stays = |&other: &UnitId| {
        before.get(&other).is_some_and(|state| state.is_up())
            && core.unit_run(other).active_state().is_up()
            && core.unit_run(other).job.is_none()
            && !came_up_in_this_step(core, other)
            && !was_restarted_first(core, other, unit)
            && !could_not_stop(core, other)
            && !back.iter().any(|&rule| graph.is_related(unit, rule, other))
            && !graph.is_related(other, Relation::RequireAny, unit)
    };
    tied.filter(stays).collect()
}

/// It was told to go and did not: what is mounted there is busy.
fn could_not_stop(core: &Core, unit: UnitId) -> bool {
    let lost = core.unit_run(unit).history.as_ref().and_then(|history| history.lost_job);
    let failed = |result| matches!(result, JobResult::Failed | JobResult::Timeout);
    lost.is_some_and(|lost| lost.kind.is_stopping() && failed(lost.result))
}

/// `returns`: when nothing is under way, what waits for another unit to return does so in vain.
pub fn at_rest(world: &World) -> Vec<String> {
    let core = &world.core;
    let graph = core.graph();
    let mut wrong = Vec::new();
    if world.lawless || core.totals().stopping || !world.is_at_rest() {
        return wrong;
    }
    wrong.extend(owed_in_vain(world));
    let ties =
        [Relation::BindsTo, Relation::Requisite, Relation::Conflicts, Relation::ConflictedBy];
    for definition in graph.definitions().filter(|d| d.load_state == warren_unit::LoadState::Loaded)
    {
        let run = core.unit_run(definition.id);
        let Some(reason) = run.history.as_ref().map(|history| history.reason) else { continue };
        let Cause::Dependency(other) = reason.cause else { continue };
        let free = ties.iter().all(|&tie| graph.related(definition.id, tie).next().is_none())
            && graph
                .related(definition.id, Relation::Requires)
                .all(|o| core.unit_run(o).active_state().is_up());
        let limited = core.upheld_again_at(definition.id).is_some();
        let waits = run.active_state().is_down() && run.marked().is_none() && free && !limited;
        let up = core.unit_run(other).active_state().is_up();
        let in_vain = match reason.code {
            Code::DependencyEnded => up,
            Code::GaveWay => !graph
                .related(definition.id, Relation::ExcludeAll)
                .any(|o| core.unit_run(o).active_state().is_up()),
            _ => false,
        };
        if waits && in_vain {
            wrong.push(format!(
                "returns: {} waits for {} in vain",
                definition.name,
                graph.name(other)
            ));
        }
    }
    wrong
}

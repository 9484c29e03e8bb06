//! `[X-Warren]`: groups of dependencies that a start waits for, in the sense of smf(5).
//!
//! `RequireAny=` and `OptionalAll=` are looked at when the start of a unit is due: it waits while a
//! unit that counts is about to come up, and is looked at again when that unit's state or job
//! changes. What the end of another unit does to this one is in `relations::rules`.

use crate::graph::Graph;
use crate::jobs::waits;
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobResult, comes_up};
use crate::model::reason::{Cause, Code, Reason};
use crate::parts::Core;
use crate::parts::job_queue::Turn;
use crate::parts::unit_settings;
use crate::parts::units::Units;
use warren_unit::Relation;

/// What stands against the start of a unit whose turn it is: a wait, or the end of its job.
pub(crate) fn groups_against(core: &mut Core, unit: UnitId) -> Option<Turn> {
    if !core.graph.flags(unit).has_groups() {
        return None;
    }
    let refuse = |code, other| {
        Some(Turn::Over(JobResult::Dependency, Reason::new(code, Cause::Dependency(other))))
    };
    if let Some(other) = excluder(&core.graph, &core.units, unit) {
        return refuse(Code::Excluded, other);
    }
    let waits = !core.units.run(unit).job.as_ref().is_some_and(|job| job.ignores_order());
    let graph = core.graph.clone();
    if waits
        && graph.related(unit, Relation::OptionalAll).any(|other| is_coming(&core.units, other))
    {
        return Some(Turn::Wait);
    }
    for group in any_groups(core, unit) {
        if group.iter().any(|&other| core.units.active_state(other).is_up()) {
            continue;
        }
        if waits && group.iter().any(|&other| is_coming(&core.units, other)) {
            return Some(Turn::Wait);
        }
        if let Some(&first) = group.first() {
            return refuse(Code::NoneOfGroup, first);
        }
    }
    None
}

/// Whether a start of it has a unit to wait for that a group of it names.
pub(crate) fn waits_for_group(graph: &Graph, units: &Units, unit: UnitId) -> bool {
    let groups = [Relation::RequireAny, Relation::OptionalAll];
    let starts = units.run(unit).job.as_ref().is_some_and(|job| job.kind == JobKind::Start);
    starts && groups.iter().any(|&r| graph.related(unit, r).any(|o| is_coming(units, o)))
}

/// A unit that this one must not run beside, and that is up or about to be.
pub(crate) fn excluder(graph: &Graph, units: &Units, unit: UnitId) -> Option<UnitId> {
    let mut excluded = graph.related(unit, Relation::ExcludeAll);
    excluded.find(|&other| units.active_state(other).is_up() || is_coming(units, other))
}

/// Whether a unit is on its way up, or has a job that leads there.
fn is_coming(units: &Units, unit: UnitId) -> bool {
    let kind = units.run(unit).job.as_ref().map(|job| job.kind);
    comes_up(kind, units.active_state(unit))
}

/// The units of each line of `RequireAny=`.
fn any_groups(core: &Core, unit: UnitId) -> Vec<Vec<UnitId>> {
    let section = unit_settings::section(core, unit);
    let lines = section.require_any.iter();
    let members = lines.map(|names| names.iter().filter_map(|name| core.graph.lookup(name)));
    members.map(|members| members.collect()).collect()
}

/// Whether each line of `RequireAny=` that names `other` has another unit that is up.
pub(crate) fn does_without(core: &Core, unit: UnitId, other: UnitId) -> bool {
    let groups = any_groups(core, unit);
    let up = |&member: &UnitId| member != other && core.units.active_state(member).is_up();
    groups.iter().filter(|group| group.contains(&other)).all(|group| group.iter().any(up))
}

/// Starts that wait for a group with this unit in it are looked at again.
pub(crate) fn look_at_group_waiters(core: &mut Core, unit: UnitId) {
    let graph = core.graph.clone();
    for relation in [Relation::RequireAnyOf, Relation::OptionalAllOf] {
        for other in graph.related(unit, relation) {
            if core.units.run(other).job.as_ref().is_some_and(|job| !job.running) {
                waits::release(&mut core.units, &mut core.queues, other, unit);
            }
        }
    }
}

/// Jobs of these units that wait for no job are looked at again: the graph is another one, and may not
/// have the group any more that one of them waits for.
pub(crate) fn look_at_group_waiters_among(core: &mut Core, units: &[UnitId]) {
    for &unit in units {
        let job = core.units.run(unit).job.as_ref();
        if job.is_some_and(|job| !job.running && job.blockers == 0) {
            core.queues.queue_job(&core.units, unit);
        }
    }
}

/// Whether it is down for the sake of a unit that it must not run beside.
pub(crate) fn gave_way(units: &Units, unit: UnitId) -> bool {
    units.run(unit).history.as_ref().is_some_and(|h| h.reason.code == Code::GaveWay)
}

/// Whether it is down by a rule that starts it again when what stopped it allows it.
pub(crate) fn may_return(units: &Units, unit: UnitId) -> bool {
    let reason = units.run(unit).history.as_ref().map(|history| history.reason);
    reason.is_some_and(|reason| {
        matches!(reason.code, Code::GaveWay | Code::DependencyEnded)
            && matches!(reason.cause, Cause::Dependency(_))
    })
}

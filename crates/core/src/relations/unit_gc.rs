//! Which units may be forgotten (systemd.unit(5), "UNIT GARBAGE COLLECTION").
//!
//! A unit stays while another one names it. Those that only name each other, as the socket and the
//! service of a template do, are forgotten together.

use crate::graph::Graph;
use crate::jobs::dependency_groups;
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::parts::units::Units;
use warren_unit::LoadState;
use warren_unit::search::is_transient;

/// The most units that are forgotten for each other's sake; who is named by more stays.
const GROUP_UNITS_MAX: usize = 64;

/// The unit and all that name it, directly or through others, if nothing would be lost without them.
/// `is_kept`: that the unit is to stay has a reason that is not known here. Looks at 64 units at most,
/// and at none beside a unit that is not at rest.
pub(crate) fn forgotten_with(
    graph: &Graph,
    units: &Units,
    unit: UnitId,
    is_kept: impl Fn(UnitId) -> bool,
) -> Option<Vec<UnitId>> {
    let may_go = |unit: UnitId| leaves_nothing(graph, units, unit) && !is_kept(unit);
    let mut group = vec![unit];
    let mut looked_at = 0;
    may_go(unit).then_some(())?;
    while let Some(&one) = group.get(looked_at) {
        looked_at += 1;
        for other in graph.named_by(one) {
            if group.contains(&other) {
                continue;
            }
            if group.len() == GROUP_UNITS_MAX || !may_go(other) {
                return None;
            }
            group.push(other);
        }
    }
    Some(group)
}

/// Whether it does nothing, has no file of its own, and no other unit can be named by it alone.
fn leaves_nothing(graph: &Graph, units: &Units, unit: UnitId) -> bool {
    let Some(definition) = graph.get(unit) else { return false };
    let run = units.run(unit);
    // That of an instance can be its template's, and that of a unit which a client made goes with it.
    let own_file = || {
        let fragment = definition.files.fragment.as_ref();
        fragment.is_some_and(|file| {
            file.path().ends_with(definition.name.as_str()) && !is_transient(file.path())
        })
    };
    let at_rest = match run.active_state() {
        ActiveState::Inactive => true,
        // It is there whether it has a unit or not.
        _ if graph.is_device(unit) => true,
        ActiveState::Failed => definition.flags.collect_failed(),
        _ => false,
    };
    at_rest
        && run.job.is_none()
        && units.clearing(unit).is_none()
        && definition.load_state != LoadState::Stub
        && !definition.flags.perpetual()
        && !own_file()
        && !dependency_groups::may_return(units, unit)
        && graph.has_its_name(unit)
        && !graph.displaced_by(unit).any(|other| is_busy(units, other))
}

/// Whether it is not down, or has a job.
fn is_busy(units: &Units, unit: UnitId) -> bool {
    !units.active_state(unit).is_down() || units.run(unit).job.is_some()
}

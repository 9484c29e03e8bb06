//! `ConcurrencyHardMax=` and `ConcurrencySoftMax=` of slices (systemd.slice(5)): how many units may be active at a time.
//!
//! A unit counts from when its start is let through, before conditions are looked at, until it is down again. What comes
//! up without a job, as a mount that somebody made, counts and is not stopped.

use crate::graph::{Delta, Graph};
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobResult};
use crate::model::reason::{Cause, Code, Reason};
use crate::parts::Core;
use crate::parts::job_queue::Turn;
use crate::parts::slice_limits::{Bounds, Entry};
use crate::parts::units::Units;
use crate::settings::Settings;
use warren_unit::settings::{Group, Id};
use warren_unit::{LoadState, UnitType};

const HARD_MAX: Id = Id::of(Group::Slice, "ConcurrencyHardMax");
const SOFT_MAX: Id = Id::of(Group::Slice, "ConcurrencySoftMax");

/// What stands against a start now; nothing if the unit counts from now on.
pub(crate) fn slices_against(core: &mut Core, unit: UnitId) -> Option<Turn> {
    match core.resources.slice_limits.enter(&core.graph, unit) {
        Entry::Admitted => None,
        Entry::Waits(_) => Some(Turn::Wait),
        Entry::Refused(slice) => {
            let reason = Reason::new(Code::SliceFull, Cause::Dependency(slice));
            Some(Turn::Over(JobResult::Failed, reason))
        }
    }
}

/// The unit came up or went down.
pub(crate) fn follow_state(core: &mut Core, unit: UnitId) {
    match core.units.active_state(unit).is_down() {
        true => release_if_idle(core, unit),
        false => core.resources.slice_limits.count(&core.graph, unit),
    }
}

/// The unit does not count any more, if nothing of it runs and no start of it is under way. What is restarted keeps the
/// place that it has.
pub(crate) fn release_if_idle(core: &mut Core, unit: UnitId) {
    let job = core.units.run(unit).job.as_ref();
    let is_restarted = job.is_some_and(|job| job.kind == JobKind::Restart);
    if core.resources.slice_limits.counts(unit) && !is_restarted && !occupies(&core.units, unit) {
        core.resources.slice_limits.uncount(unit);
    }
}

/// Whether a unit takes a place in its slice.
pub(crate) fn occupies(units: &Units, unit: UnitId) -> bool {
    let job = units.run(unit).job.as_ref();
    let is_starting = job.is_some_and(|job| job.running && job.kind == JobKind::Start);
    is_starting || !units.active_state(unit).is_down()
}

/// The start of this unit is not waited for any more.
pub(crate) fn leave(core: &mut Core, unit: UnitId) {
    core.resources.slice_limits.leave(&core.graph, unit);
}

/// What a slice says; nothing of units of other types.
fn bounds(graph: &Graph, settings: &Settings, unit: UnitId) -> Bounds {
    let Some(definition) = graph.get(unit) else { return Bounds::default() };
    let says = |setting| definition.mentions(setting);
    let is_slice = definition.unit_type() == UnitType::Slice;
    if !is_slice
        || definition.load_state != LoadState::Loaded
        || !(says(HARD_MAX) || says(SOFT_MAX))
    {
        return Bounds::default();
    }
    let compiled = settings.compile_running(definition);
    let slice = compiled.slice();
    Bounds { soft: slice.concurrency_soft_max, hard: slice.concurrency_hard_max }
}

/// Another generation is in force: slices may have other bounds, and units be in other slices.
pub(crate) fn renew(core: &mut Core, delta: &Delta) {
    let had_any = !core.resources.slice_limits.is_empty();
    let changed = delta.added.iter().chain(&delta.changed).chain(&delta.removed);
    for &unit in changed.chain(&delta.forgotten).chain(&delta.reused) {
        let bounds = bounds(&core.graph, &core.settings.common, unit);
        core.resources.slice_limits.set(unit, bounds);
    }
    if had_any || !core.resources.slice_limits.is_empty() {
        count_anew(core);
    }
}

/// The same for the first generation of a manager, over the units that it takes over.
pub(crate) fn adopt(core: &mut Core) {
    for unit in core.units.ids() {
        let bounds = bounds(&core.graph, &core.settings.common, unit);
        core.resources.slice_limits.set(unit, bounds);
    }
    if !core.resources.slice_limits.is_empty() {
        count_anew(core);
    }
}

/// Looks at all units: what a reload costs where a slice has bounds.
fn count_anew(core: &mut Core) {
    let waited = core.resources.slice_limits.clear();
    for unit in core.units.ids() {
        if occupies(&core.units, unit) {
            core.resources.slice_limits.count(&core.graph, unit);
        }
    }
    waited.into_iter().for_each(|unit| core.queues.queue_job(&core.units, unit));
}

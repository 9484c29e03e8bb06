//! Generations: what putting another one in force does to units.

use super::Core;
use crate::features::{cgroup_place, limits, runtime_limit, slice_limits, start_limit};
use crate::graph::{Delta, Graph};
use crate::jobs::circles;
use crate::model::ids::UnitId;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::{Mount, Scope, Slice, TypeState, UnitRun};
use crate::protocol::request::Notice;
use crate::settings::Settings;
use crate::state_change;
use crate::types::service::edited_times;
use crate::types::{orders, path, scope, service, socket, timer};
use std::sync::Arc;
use warren_unit::{Defaults, LoadState};

/// Puts a generation in force. Run state stays where it is; only what changed is touched.
pub(crate) fn commit(core: &mut Core, graph: Arc<Graph>, delta: &Delta) {
    cgroup_place::keep_places(core, &graph, delta);
    let before = std::mem::replace(&mut core.graph, graph);
    core.units.add_idle(&core.graph);
    for &unit in delta.forgotten.iter().chain(&delta.reused) {
        begin_anew(core, unit);
    }
    for &unit in delta.added.iter().chain(&delta.changed).chain(&delta.removed) {
        core.settings.forget(unit);
        core.units.note_changed(unit);
    }
    for &unit in &delta.changed {
        start_limit::forget_starts_of_edited(&core.graph, &mut core.units, unit);
        core.queues.unneeded.insert(unit);
    }
    let settings = core.settings().clone();
    // The file of what runs may have been away.
    for &unit in delta.added.iter().chain(&delta.changed) {
        runtime_limit::renew_runtime_limit(core, unit, &before);
        edited_times::renew_times(core, unit, &before, &settings);
        socket::watch_anew_if_edited(core, unit, &before);
        timer::plan_anew_if_edited(core, unit, &before);
        path::watch_anew_if_edited(core, unit, &before);
        scope::renew_runtime_limit(core, unit, &before);
        service::unwatch_name_of_before(core, unit, &before);
        limits::renew_limits(core, unit, &before);
        orders::forget_tests_of_others(core, unit, &before);
    }
    for &unit in &delta.added {
        core.outbox.tell(Notice::UnitNew(unit));
        raise_perpetual(core, unit);
    }
    for &unit in &delta.removed {
        if core.units.active_state(unit).is_down() && core.units.run(unit).job.is_none() {
            core.outbox.tell(Notice::UnitRemoved(unit));
        }
    }
    slice_limits::renew(core, delta);
    circles::look_at_rewired_jobs(core, &delta.rewired);
    for &unit in &delta.rewired {
        socket::look_behind(core, unit);
        core.queues.queue_relations(unit);
    }
}

/// Puts other defaults in force, also for what is up or under way: as an edit of each file that leaves open
/// what they say.
pub(crate) fn set_defaults(core: &mut Core, defaults: Arc<Defaults>) {
    let now = Settings { defaults, ..core.settings.common.clone() };
    let before = std::mem::replace(&mut core.settings.common, now);
    core.settings.compiled.clear();
    let graph = core.graph.clone();
    for unit in core.units.ids() {
        if core.units.active_state(unit).is_down() {
            continue;
        }
        edited_times::renew_times(core, unit, &graph, &before);
        limits::renew_default_limits(core, unit, &before);
    }
}

/// Puts the generation of the last incarnation in force, before its run state is restored: nothing
/// is new to anybody.
pub(crate) fn adopt(core: &mut Core, graph: Arc<Graph>) {
    core.graph = graph;
    core.units.add_idle(&core.graph);
    for unit in core.units.ids() {
        raise_perpetual(core, unit);
    }
    core.outbox.effects.clear();
}

/// The id means another unit now, or none.
fn begin_anew(core: &mut Core, unit: UnitId) {
    let is_device = matches!(core.units.run(unit).state, TypeState::Device(_));
    let at_rest = is_device || core.units.run(unit).active_state().is_down();
    let idle = at_rest && core.units.run(unit).job.is_none();
    assert!(idle, "only what does nothing is forgotten: {}", core.graph.name(unit));
    let definition = core.graph.definition(unit).clone();
    if definition.load_state == LoadState::Stub {
        core.outbox.tell(Notice::UnitRemoved(unit));
    }
    let idle = UnitRun::idle(definition.unit_type());
    core.totals.failed -= u32::from(core.units.active_state(unit).as_str() == "failed");
    *core.units.run_mut(unit) = idle;
    core.settings.forget(unit);
    core.units.note_renamed(unit);
}

/// `-.slice`, `system.slice` and their like are there from the beginning.
fn raise_perpetual(core: &mut Core, unit: UnitId) {
    if !core.graph.flags(unit).perpetual() || !core.units.active_state(unit).is_down() {
        return;
    }
    state_change::transit(core, unit, false, |run| match &mut run.state {
        TypeState::Slice(state) => *state = Slice::Active,
        TypeState::Scope(state) => *state = Scope::Perpetual,
        TypeState::Mount(state) => *state = Mount::found(),
        _ => {}
    });
    core.units.history_mut(unit).reason = Reason::new(Code::Discovered, Cause::Manager);
    limits::limit_perpetual(core, unit);
}

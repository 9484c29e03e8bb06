//! Generations: what putting another one in force does to units.

use super::Core;
use crate::features::{cgroup_place, limits, runtime_limit, start_limit};
use crate::graph::{Delta, Graph};
use crate::jobs::circles;
use crate::model::ids::UnitId;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::{Mount, Slice, TypeState, UnitRun};
use crate::protocol::request::Notice;
use crate::settings::Settings;
use crate::state_change;
use crate::types::service::edited_times;
use crate::types::{orders, service, socket};
use std::sync::Arc;
use warren_unit::{Defaults, LoadState};

impl Core {
    /// Puts a generation in force. Run state stays where it is; only what changed is touched.
    pub(crate) fn commit(&mut self, graph: Arc<Graph>, delta: &Delta) {
        cgroup_place::keep_places(self, &graph, delta);
        let before = std::mem::replace(&mut self.graph, graph);
        self.units.add_idle(&self.graph);
        for &unit in delta.forgotten.iter().chain(&delta.reused) {
            self.begin_anew(unit);
        }
        for &unit in delta.added.iter().chain(&delta.changed).chain(&delta.removed) {
            self.settings.forget(unit);
            self.units.note_changed(unit);
        }
        for &unit in &delta.changed {
            start_limit::forget_starts_of_edited(self, unit);
            self.queues.unneeded.insert(unit);
        }
        let settings = self.settings().clone();
        // The file of what runs may have been away.
        for &unit in delta.added.iter().chain(&delta.changed) {
            runtime_limit::renew_runtime_limit(self, unit, &before);
            edited_times::renew_times(self, unit, &before, &settings);
            socket::watch_anew_if_edited(self, unit, &before);
            service::unwatch_name_of_before(self, unit, &before);
            limits::renew_limits(self, unit, &before);
            orders::forget_tests_of_others(self, unit, &before);
        }
        for &unit in &delta.added {
            self.outbox.tell(Notice::UnitNew(unit));
            self.raise_perpetual(unit);
        }
        for &unit in &delta.removed {
            if self.units.active_state(unit).is_down() && self.units.run(unit).job.is_none() {
                self.outbox.tell(Notice::UnitRemoved(unit));
            }
        }
        circles::look_at_rewired_jobs(self, &delta.rewired);
        for &unit in &delta.rewired {
            socket::look_behind(self, unit);
            self.queues.queue_relations(unit);
        }
    }

    /// Puts other defaults in force, also for what is up or under way: as an edit of each file that leaves open
    /// what they say.
    pub(crate) fn set_defaults(&mut self, defaults: Arc<Defaults>) {
        let now = Settings { defaults, ..self.settings.common.clone() };
        let before = std::mem::replace(&mut self.settings.common, now);
        self.settings.compiled.clear();
        let graph = self.graph.clone();
        for unit in self.units.ids() {
            if self.units.active_state(unit).is_down() {
                continue;
            }
            edited_times::renew_times(self, unit, &graph, &before);
            limits::renew_default_limits(self, unit, &before);
        }
    }

    /// Puts the generation of the last incarnation in force, before its run state is restored: nothing
    /// is new to anybody.
    pub(crate) fn adopt(&mut self, graph: Arc<Graph>) {
        self.graph = graph;
        self.units.add_idle(&self.graph);
        for unit in self.units.ids() {
            self.raise_perpetual(unit);
        }
        self.outbox.effects.clear();
    }

    /// The id means another unit now, or none.
    fn begin_anew(&mut self, unit: UnitId) {
        let is_device = matches!(self.units.run(unit).state, TypeState::Device(_));
        let at_rest = is_device || self.units.run(unit).active_state().is_down();
        let idle = at_rest && self.units.run(unit).job.is_none();
        assert!(idle, "only what does nothing is forgotten: {}", self.graph.name(unit));
        let definition = self.graph.definition(unit).clone();
        if definition.load_state == LoadState::Stub {
            self.outbox.tell(Notice::UnitRemoved(unit));
        }
        let idle = UnitRun::idle(definition.unit_type());
        self.totals.failed -= u32::from(self.units.active_state(unit).as_str() == "failed");
        *self.units.run_mut(unit) = idle;
        self.settings.forget(unit);
        self.units.note_renamed(unit);
    }

    /// `-.slice`, `system.slice` and their like are there from the beginning.
    fn raise_perpetual(&mut self, unit: UnitId) {
        if !self.graph.flags(unit).perpetual() || !self.units.active_state(unit).is_down() {
            return;
        }
        state_change::transit(self, unit, false, |run| match &mut run.state {
            TypeState::Slice(state) => *state = Slice::Active,
            TypeState::Scope(alive) => *alive = true,
            TypeState::Mount(state) => *state = Mount::found(),
            _ => {}
        });
        self.units.history_mut(unit).reason = Reason::new(Code::Discovered, Cause::Manager);
        limits::limit_perpetual(self, unit);
    }
}

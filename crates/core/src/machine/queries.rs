//! What the runner asks the machine, and the few things that it sets.
//!
//! Owns: the interface of [`Core`] that is no event.
//! Must not: change the state of a unit.

use crate::features::{cgroup_place, shutdown_state, survival};
use crate::graph::Graph;
use crate::model::device_news::Sight;
use crate::model::ids::{EffectId, UnitId};
use crate::model::state::UnitRun;
use crate::model::time::Monotonic;
use crate::parts::Core;
use crate::protocol::trace_event::Happening;
use crate::relations::unit_gc;
use crate::settings::Settings;
use crate::types::service::{self, events, stop};
use crate::view::{Totals, View};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use warren_unit::config::NotifyAccess;

impl Core {
    /// When the machine wants to be stepped next even if nothing happens.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.deadlines.next()
    }

    /// When a machine that sleeps is to be woken (`WakeSystem=`, systemd.timer(5)).
    pub fn next_waking(&self) -> Option<Monotonic> {
        self.deadlines.next_waking()
    }

    /// When a unit that is upheld is started again, if its start limit stands against it now.
    pub fn upheld_again_at(&self, unit: UnitId) -> Option<Monotonic> {
        self.deadlines.upheld_again.get(&unit).copied()
    }

    /// The picture for readers; cheap.
    pub fn view(&self) -> View {
        View {
            graph: self.graph.clone(),
            units: self.units.snapshot(),
            strays: self.resources.strays.clone(),
            slice_waiters: self.resources.slice_limits.waiting().clone(),
            dynamic_users: self.resources.dynamic_users.numbers().clone(),
            totals: self.totals.clone(),
        }
    }

    /// The units whose run state changed since the last call: what has to be written down and
    /// signalled.
    pub fn take_changed(&mut self) -> BTreeSet<UnitId> {
        self.units.take_changed()
    }

    /// The units of which only what nobody is told was written since the last call, as the deadline that
    /// `WATCHDOG=1` moves: it is written down, and seen by who looks.
    pub fn take_rearmed(&mut self) -> Vec<UnitId> {
        self.units.take_rearmed()
    }

    /// Ids that mean another unit, or none, since the last call.
    pub fn take_renamed(&mut self) -> BTreeSet<UnitId> {
        self.units.take_renamed()
    }

    /// The run state of a unit.
    pub fn unit_run(&self, unit: UnitId) -> &UnitRun {
        self.units.run(unit)
    }

    /// Counts.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The boot transaction has been worked off.
    pub fn set_startup_finished(&mut self) {
        self.totals.startup_finished = true;
    }

    /// What units are compiled with.
    pub fn settings(&self) -> &Settings {
        &self.settings.common
    }

    /// The generation in force.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The unit that an effect under way belongs to.
    pub fn effect_unit(&self, effect: EffectId) -> Option<UnitId> {
        self.outbox.unit_of(effect)
    }

    /// Effects under way.
    pub fn pending_effects(&self) -> usize {
        self.outbox.pending_count()
    }

    /// There are no cgroups: groups are taken for empty when their known processes are gone.
    pub fn set_without_cgroups(&mut self, without: bool) {
        self.resources.without_cgroups = without;
    }

    /// There are no swap areas to come to: in a container they are the host's.
    pub fn set_without_swaps(&mut self, without: bool) {
        self.totals.without_swaps = without;
    }

    /// Keeps the settings of so many units at rest, besides those of units that something is done
    /// with: with 0 it shows soonest who relies on what was thrown away.
    pub fn set_settings_at_rest_max(&mut self, max: usize) {
        self.settings.compiled.resting_max = max;
    }

    /// Looks at so many jobs in a step, at least one: few show soonest who relies on a step that
    /// works everything off.
    pub fn set_jobs_per_step_max(&mut self, max: usize) {
        self.queues.jobs_per_step_max = max.max(1);
    }

    /// Whether the last step left jobs that are to be looked at: it is to be stepped again when
    /// what follows from it was carried out, whether something happens or not.
    pub fn is_behind(&self) -> bool {
        !self.queues.turns.is_empty()
    }

    /// The unit that a process belongs to as main or control process.
    pub fn unit_of_pid(&self, pid: u32) -> Option<UnitId> {
        self.pids.unit_of(pid)
    }

    /// What happened since the last call, in order, and how many events were dropped because the
    /// queue was full.
    pub fn take_happenings(&mut self) -> (Vec<Happening>, u64) {
        self.outbox.trace.take()
    }

    /// The path of a unit's group below the root of the tree, or where it is to be made.
    pub fn group_path(&self, unit: UnitId) -> Cow<'_, str> {
        cgroup_place::group_path(self, unit)
    }

    /// The same, if there may be one and its place has to be written down.
    pub fn placed_at(&self, unit: UnitId) -> Option<Cow<'_, str>> {
        cgroup_place::placed_at(self, unit)
    }

    /// The unit whose group has this path, though its definition says otherwise. Looks at all such units.
    pub fn stray_at(&self, path: &str) -> Option<UnitId> {
        cgroup_place::stray_at(&self.resources, path)
    }

    /// Whether nothing would be lost if this unit were forgotten, alone or together with those that
    /// name it.
    pub fn is_forgettable(&self, unit: UnitId) -> bool {
        self.forgotten_with(unit, |_| false).is_some()
    }

    /// The unit and all that name it, directly or through others, if nothing would be lost without them.
    /// `is_kept`: that the unit is to stay has a reason that is not known here. Looks at 64 units at most,
    /// and at none beside a unit that is not at rest.
    pub fn forgotten_with(
        &self,
        unit: UnitId,
        is_kept: impl Fn(UnitId) -> bool,
    ) -> Option<Vec<UnitId>> {
        unit_gc::forgotten_with(&self.graph, &self.units, unit, is_kept)
    }

    /// Units that the end leaves up, with the slices that they are in: services that say so and that
    /// conflict with no target of the end; if it is a soft reboot, sockets and file systems that
    /// conflict with none too. What leans on a unit that is stopped is stopped with it.
    pub fn outlasting(&self, soft: bool) -> BTreeSet<UnitId> {
        survival::outlasting(self, soft)
    }

    /// See [`View::is_going_down`].
    pub fn is_going_down(&self) -> bool {
        shutdown_state::is_going_down(self)
    }

    /// Whether this effect is the spawn of the unit's main process.
    pub fn is_main_asked(&self, unit: UnitId, effect: EffectId) -> bool {
        service::is_main_asked(&self.units, unit, effect)
    }

    /// Whether what a process of the unit says counts: `NotifyAccess=`.
    pub fn hears(&self, unit: UnitId, pid: u32, access: NotifyAccess) -> bool {
        events::hears(&self.units, unit, pid, access)
    }

    /// Whether the unit is down as soon as its cgroup is empty: it is being stopped, and nothing is to be
    /// run any more.
    pub fn is_down_when_empty(&self, unit: UnitId) -> bool {
        stop::is_down_when_empty(self, unit)
    }

    /// What is known of devices at all.
    pub fn sight(&self) -> Sight {
        self.totals.sight
    }

    /// The same for a machine that takes up another's work, before it recovers.
    pub fn set_sight(&mut self, sight: Sight) {
        self.totals.sight = sight;
    }
}

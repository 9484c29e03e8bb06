//! What the loop has removed beside it.

use crate::base::say::say;
use crate::daemon::Daemon;
use crate::mount::automounts::{GOES_WITHIN, Going, SET_WITHIN};
use crate::shutdown::sweep::{DelayedEffect, Group, ROOT_MOUNT, name_left_over};
use std::path::Path;
use std::time::Instant;
use warren_core::model::ids::UnitId;
use warren_core::persist::run_state::Late;
use warren_core::protocol::event::{Done, Effect, Event};
use warren_sys::cgroup::Tree;
use warren_unit::{Relation, UnitName, UnitType};

impl Daemon {
    /// Removes the group of a unit that is down.
    pub(crate) fn remove_group(&mut self, unit: UnitId) {
        let for_good =
            self.stages.shutdown.under_way.as_ref().is_some_and(|ending| ending.is_for_good());
        let name = self.core.graph().name(unit);
        let history = self.core.unit_run(unit).history.as_ref();
        let invocation = history.map_or(0, |history| history.invocation);
        match self.cgroup.groups.tree().cloned() {
            Some(tree) if for_good => {
                let Some(path) = self.cgroup.groups.forget(unit) else { return };
                self.stages
                    .shutdown
                    .sweep
                    .groups
                    .begin(unit, Group { tree, path, unit: name.clone(), invocation });
            }
            tree => {
                let path = self.cgroup.groups.path(unit).map(str::to_owned);
                name_left_over(name, invocation, &self.cgroup.groups.remove(unit));
                if let (Some(tree), Some(path)) = (tree, path) {
                    self.remove_slices_above(&tree, &path);
                }
            }
        }
    }

    /// A slice that went down while a unit's group was still in it, as is possible where the unit's `Slice=` was
    /// edited, goes with the last of them.
    fn remove_slices_above(&self, tree: &Tree, path: &str) {
        for slice in Path::new(path).ancestors().skip(1) {
            let name = slice.file_name().and_then(|name| UnitName::parse(name.to_str()?).ok());
            let Some(name) = name.filter(|name| name.unit_type() == UnitType::Slice) else {
                return;
            };
            let unit = self.core.graph().lookup(&name);
            let is_down = unit.is_none_or(|unit| self.core.unit_run(unit).active_state().is_down());
            if !is_down || tree.remove(slice).is_err() {
                return;
            }
        }
    }

    /// Closes an automount point.
    pub(crate) fn close_trap(&mut self, unit: UnitId) {
        let going = match &self.stages.shutdown.under_way {
            Some(ending) if ending.takes_mounts() && !self.lies_on_a_mount(unit) => {
                Going::WithTheRest
            }
            _ => Going::Soon,
        };
        self.triggers.traps.close(unit, going);
    }

    /// Whether something that is still to be unmounted could not be while this is mounted on it.
    fn lies_on_a_mount(&self, unit: UnitId) -> bool {
        let graph = self.core.graph();
        let is_up = |&other: &UnitId| !self.core.unit_run(other).active_state().is_down();
        let mut below = graph.related(unit, Relation::MountsFor).filter(is_up);
        below.any(|other| graph.name(other).as_str() != ROOT_MOUNT)
    }

    /// What earlier batches left to do and is not done yet; the next manager does it again.
    pub(crate) fn still_late(&mut self) -> Vec<Late> {
        let groups =
            self.stages.shutdown.sweep.groups.under_way().map(|unit| Late::CleanUp(unit, false));
        let traps = self.triggers.traps.going().map(|trap| Late::CloseTrap(trap.unit));
        groups
            .chain(traps)
            .chain(self.triggers.sockets.removing().map(Late::CloseSockets))
            .collect()
    }

    /// Whether an effect is to wait until automount points, and what sockets were known by, have gone.
    pub(crate) fn must_wait(&mut self, effect: &Effect) -> bool {
        let meets = matches!(
            effect,
            Effect::Mount { .. } | Effect::Unmount { .. } | Effect::SetTrap { .. }
        );
        meets && (!self.stages.shutdown.sweep.held.is_empty() || !self.has_gone())
    }

    /// Whether all automount points have gone that were to go, and all that sockets were known by.
    fn has_gone(&mut self) -> bool {
        self.triggers.traps.have_gone() && self.triggers.sockets.removing().next().is_none()
    }

    /// Carries out what waited, if it need not wait any more and is not given up.
    pub(crate) fn carry_out_held(&mut self) {
        if !self.stages.shutdown.sweep.held.is_empty() && self.has_gone() {
            let resumes = self.stages.recovery.is_resuming;
            let core = &self.core;
            let is_wanted =
                |held: &DelayedEffect| held.effect.id().and_then(|id| core.effect_unit(id));
            let held = std::mem::take(&mut self.stages.shutdown.sweep.held);
            let held: Vec<DelayedEffect> =
                held.into_iter().filter(|held| is_wanted(held).is_some()).collect();
            for held in held {
                self.stages.recovery.is_resuming = held.resuming;
                self.carry_out(held.effect);
            }
            self.stages.recovery.is_resuming = resumes;
        }
    }

    /// Waits no longer for automount points that cannot be taken away in time: the way to them leads
    /// past a server that does not answer.
    pub(crate) fn leave_late_traps(&mut self) {
        for (effect, path) in self.triggers.traps.give_up_late(Instant::now()) {
            let seconds = SET_WITHIN.as_secs();
            let error = format!("{path}: the file system has not responded within {seconds} s");
            self.event_loop
                .events
                .push_back(Event::Done { effect, result: Done::Failed { error } });
        }
        for trap in self.triggers.traps.leave_late(Instant::now()) {
            let name = self.core.graph().name(trap.unit);
            let seconds = GOES_WITHIN.as_secs();
            say!(
                "{name}: could not remove automount point {} within {seconds} s; leaving it",
                trap.path
            );
        }
    }

    /// Whether everything that was to be taken away has gone. If not, the loop is woken when more
    /// has.
    pub(crate) fn is_swept(&mut self) -> bool {
        let groups = self.stages.shutdown.sweep.groups.is_idle();
        self.has_gone() && groups && self.stages.shutdown.sweep.held.is_empty()
    }
}

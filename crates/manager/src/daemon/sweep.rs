//! What the loop has removed beside it.

use crate::base::say::say;
use crate::cgroup::tree::Removed;
use crate::daemon::Daemon;
use crate::mount::automounts::{GOES_WITHIN, Going, SET_WITHIN};
use crate::shutdown::sweep::{self, DelayedEffect, Group, ROOT_MOUNT, name_left_over};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::persist::run_state::Late;
use warren_core::protocol::event::{Done, Effect, Event};
use warren_sys::cgroup::Tree;
use warren_unit::{Relation, UnitName, UnitType};

/// Workers answer for a group that they removed under this bit and the unit's id.
const CLEARED: u64 = 1 << 59;

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
            Some(tree) => {
                let name = name.clone();
                let path = self.cgroup.groups.path(unit).map(str::to_owned);
                match (self.cgroup.groups.remove(unit), path) {
                    (Removed::All { left }, path) => {
                        name_left_over(&name, invocation, &left);
                        path.iter().for_each(|path| self.remove_slices_above(&tree, path));
                    }
                    (Removed::Some(path), _) => {
                        self.clear_beside(unit, Group { tree, path, unit: name, invocation });
                    }
                }
            }
            None => {}
        }
    }

    /// Has a thread remove a group below which there are many.
    fn clear_beside(&mut self, unit: UnitId, group: Group) {
        self.stages.shutdown.sweep.cleared.insert(unit, group.path.clone());
        let id = EffectId(CLEARED | u64::from(unit.0));
        self.event_loop.workers.run(id, move || match Tree::open(group.tree.path()) {
            Ok(tree) => {
                sweep::remove(vec![Group { tree: Arc::new(tree), ..group }]);
                Done::Ok
            }
            Err(e) => Done::Failed { error: e.to_string() },
        });
    }

    /// A thread has removed a group; false if the effect is another one.
    pub(crate) fn group_cleared(&mut self, effect: EffectId, result: &Done) -> bool {
        if effect.0 & CLEARED == 0 {
            return false;
        }
        let unit = UnitId(effect.0 as u32);
        let Some(path) = self.stages.shutdown.sweep.cleared.remove(&unit) else { return true };
        if let Done::Failed { error } = result {
            say!("cannot remove the cgroups below {path}: {error}");
        }
        if let Some(tree) = self.cgroup.groups.tree().cloned() {
            self.remove_slices_above(&tree, &path);
        }
        true
    }

    /// Holds what is to begin in a group that is being removed, or has to be first; nothing else.
    pub(crate) fn hold_for_group(&mut self, effect: Effect) -> Option<Effect> {
        let unit = match &effect {
            Effect::Spawn(_, spawn) => spawn.unit,
            Effect::MakeCgroup { unit, .. }
            | Effect::AttachProcesses { unit, .. }
            | Effect::Listen { unit, .. }
            | Effect::Mount { unit, .. } => *unit,
            _ => return Some(effect),
        };
        // It is made anew at the same path: at a shutdown, too, it is not to go beside that.
        if self.cgroup.groups.is_outdated(unit)
            && let Removed::Some(path) = self.cgroup.groups.remove(unit)
            && let Some(tree) = self.cgroup.groups.tree().cloned()
        {
            let name = self.core.graph().name(unit).clone();
            let history = self.core.unit_run(unit).history.as_ref();
            let invocation = history.map_or(0, |history| history.invocation);
            self.clear_beside(unit, Group { tree, path, unit: name, invocation });
        }
        let sweep = &mut self.stages.shutdown.sweep;
        if sweep.cleared.is_empty() || !sweep.is_cleared(&self.core.group_path(unit)) {
            return Some(effect);
        }
        let resuming = self.stages.recovery.is_resuming;
        sweep.held_for_groups.push(DelayedEffect { effect, resuming });
        None
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
        let cleared = self.stages.shutdown.sweep.cleared.keys();
        let cleared: Vec<Late> = cleared.map(|&unit| Late::CleanUp(unit, false)).collect();
        groups
            .chain(traps)
            .chain(cleared)
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
            let held = std::mem::take(&mut self.stages.shutdown.sweep.held);
            self.carry_out_wanted(held);
        }
        if !self.stages.shutdown.sweep.held_for_groups.is_empty() {
            // Those whose groups have not gone are held again.
            let held = std::mem::take(&mut self.stages.shutdown.sweep.held_for_groups);
            self.carry_out_wanted(held);
        }
    }

    fn carry_out_wanted(&mut self, mut held: Vec<DelayedEffect>) {
        let resumes = self.stages.recovery.is_resuming;
        let core = &self.core;
        held.retain(|held| held.effect.id().and_then(|id| core.effect_unit(id)).is_some());
        for held in held {
            self.stages.recovery.is_resuming = held.resuming;
            self.carry_out(held.effect);
        }
        self.stages.recovery.is_resuming = resumes;
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
        let sweep = &mut self.stages.shutdown.sweep;
        let groups = sweep.groups.is_idle() && sweep.cleared.is_empty();
        let is_held = sweep.held().next().is_some();
        self.has_gone() && groups && !is_held
    }
}

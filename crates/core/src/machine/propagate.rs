//! What a change of one unit's state does to its job, to the units tied to it and to whoever
//! waits.

use crate::features::{connections, device_sight, start_limit};
use crate::jobs::{dependency_groups, halves, install, outcomes};
use crate::machine::Core;
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobMode, JobResult, JobType};
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::model::time::Moment;
use crate::parts::deadlines::AGAIN_AFTER;
use crate::parts::queues::Transition;
use crate::settings::{Compiled, TypeSettings};
use crate::transaction::Anchor;
use warren_unit::{LoadState, Relation, UnitName, UnitType};

impl Core {
    /// Propagates one transition.
    pub(crate) fn ripple(&mut self, transition: Transition) {
        let Transition { unit, old, new, by, .. } = transition;
        halves::job_after_change(self, unit, new);
        if !old.is_up_or_coming()
            && new.is_up_or_coming()
            && by.is_none()
            && !self.units.waits_to_restart(unit)
        {
            self.start_afterwards(unit);
        }
        let told = by.filter(|kind| kind.is_stopping());
        if !old.is_down_or_going() && new.is_down_or_going() && told.is_none() {
            self.stop_afterwards(unit);
        }
        self.ripple_by_rules(transition, told);
        dependency_groups::look_at_group_waiters(self, unit);
        self.tell_triggers(unit, old, new);
        outcomes::fire_outcome(self, transition);
        self.requeue_waiters(unit);
        self.look_at_devices(unit);
        self.look_at_neighbours(unit, old, new);
        if new.is_down() && self.units.run(unit).job.is_none() {
            self.settings.forget(unit);
            start_limit::look_whom_it_held(self, unit);
        }
    }

    /// A unit came up without a job of its own (a mount found in the kernel's table, a service that
    /// restarts): what it requires is started now, what conflicts is stopped.
    fn start_afterwards(&mut self, unit: UnitId) {
        let by = |code| Reason::new(code, Cause::Dependency(unit));
        let wanted = match self.graph.is_device(unit) {
            true => by(Code::WantedByDevice),
            false => by(Code::Started),
        };
        let missing = |core: &Core, relations: &[Relation], after: bool| -> Vec<UnitId> {
            let idle = |&u: &UnitId| {
                core.units.run(u).job.is_none() && !core.units.active_state(u).is_up_or_coming()
            };
            let ordered = |&u: &UnitId| after || !core.graph.is_before(u, unit);
            core.graph
                .related_by_any(unit, relations)
                .into_iter()
                .filter(idle)
                .filter(ordered)
                .collect()
        };
        for other in missing(self, &[Relation::Requires, Relation::BindsTo], false) {
            install::enqueue_because(self, other, JobType::Start, JobMode::Replace, wanted);
        }
        for other in missing(self, &[Relation::Wants, Relation::Upholds], false) {
            install::enqueue_because(self, other, JobType::Start, JobMode::Fail, wanted);
        }
        for other in self.graph.related_by_any(unit, &[Relation::Conflicts, Relation::ConflictedBy])
        {
            if !self.units.active_state(other).is_down_or_going() {
                let reason = by(Code::StoppedByConflict);
                install::enqueue_because(self, other, JobType::Stop, JobMode::Replace, reason);
            }
        }
    }

    /// A unit went down without a job of its own: what is bound to it follows (`BindsTo=`), and what its
    /// stop is passed on to.
    fn stop_afterwards(&mut self, unit: UnitId) {
        for other in self.graph.related_by_any(unit, &[Relation::PropagatesStopTo]) {
            if !self.units.active_state(other).is_down_or_going() {
                let reason = Reason::new(Code::StoppedWithDependency, Cause::Dependency(unit));
                install::enqueue_because(self, other, JobType::Stop, JobMode::Replace, reason);
            }
        }
        for other in self.graph.related_by_any(unit, &[Relation::BoundBy]) {
            let stays = self.graph.is_related(other, Relation::RestartOnNone, unit);
            if !stays && !self.units.active_state(other).is_down_or_going() {
                let reason = Reason::new(Code::BoundUnitGone, Cause::Dependency(unit));
                if !install::enqueue_because(self, other, JobType::Stop, JobMode::Replace, reason) {
                    // A job that may not be replaced stands against it now.
                    self.queues.stands_off.insert(other);
                }
            }
        }
    }

    /// Units that start this one when something happens.
    pub(crate) fn triggers_of(&self, unit: UnitId) -> Vec<UnitId> {
        let mut all = self.graph.related_by_any(unit, &[Relation::TriggeredBy]);
        let before = match self.graph.definition(unit).unit_type() {
            UnitType::Service => UnitType::Socket,
            UnitType::Mount => UnitType::Automount,
            _ => return all,
        };
        let definition = self.graph.definition(unit);
        let names = definition.aliases.iter().chain([&definition.name]);
        all.extend(names.filter_map(|name| self.orphan(name, before)));
        all
    }

    /// A socket or an automount that is up and whose file is gone, or its name another one's: who has that name
    /// otherwise is behind it.
    fn orphan(&self, name: &UnitName, unit_type: UnitType) -> Option<UnitId> {
        let trigger = self.graph.lookup_own(&name.change_type(unit_type).ok()?)?;
        // Whatever else is the matter with its file: then nothing is known of what it starts, either.
        let is_orphaned = self.graph.definition(trigger).load_state != LoadState::Loaded;
        let is_orphaned = is_orphaned && !self.units.active_state(trigger).is_down();
        // Behind one that takes connections are their instances.
        let accepts =
            |all: &Compiled| matches!(&all.own, TypeSettings::Socket(config) if config.accept);
        let is_before = is_orphaned && !self.settings.at_hand(trigger).is_some_and(accepts);
        is_before.then_some(trigger)
    }

    /// Why nobody is let in by a socket or an automount though it is up, as with systemd 252: it is masked, or its
    /// file says no longer what it is to be. One whose file is gone does what it did.
    pub(crate) fn lets_nobody_in(&self, unit: UnitId) -> Option<Code> {
        match self.graph.definition(unit).load_state {
            LoadState::Loaded | LoadState::NotFound => None,
            LoadState::Masked => Some(Code::Masked),
            _ => Some(Code::BadSetting),
        }
    }

    /// Sockets and automounts follow the state of what they start.
    fn tell_triggers(&mut self, unit: UnitId, old: ActiveState, new: ActiveState) {
        for trigger in self.triggers_of(unit) {
            match self.graph.definition(trigger).unit_type() {
                UnitType::Socket => self.socket_service_changed(trigger, unit, new),
                UnitType::Automount => self.automount_mount_changed(trigger, unit, old, new),
                _ => {}
            }
        }
        if new.is_down() && !old.is_down() {
            self.resources.unmounted_unheard.remove(&unit);
            connections::connection_ended(self, unit);
        }
    }

    /// A unit has no job any more, perhaps without having changed its state: a start that failed
    /// for want of a dependency, a stop that was cancelled. Who waits behind a socket or in an
    /// automount must not wait for ever.
    pub(crate) fn tell_triggers_of_job_end(&mut self, unit: UnitId, at: Moment) {
        if self.units.run(unit).job.is_some() {
            return;
        }
        self.restart_given_up(unit, at);
        let state = self.units.active_state(unit);
        if state.is_down() {
            start_limit::look_whom_it_held(self, unit);
            self.start_again_if_lost(unit, at);
            // What gave way to it waited for its job too, which may have ended without a start.
            self.return_without(unit);
        }
        for trigger in self.triggers_of(unit) {
            match self.graph.definition(trigger).unit_type() {
                UnitType::Socket if state.is_down() => {
                    self.socket_service_changed(trigger, unit, state);
                }
                UnitType::Automount => self.automount_job_ended(trigger, state),
                _ => {}
            }
        }
    }

    /// A client, or the job of another unit, has taken away the start of a unit that stays down: it is
    /// looked at again whether a unit upholds it or a rule has it return. systemd 252 starts again at
    /// once what is upheld, after `systemctl cancel` and after `--job-mode=flush`. Where what it needs
    /// has failed, or has kept it waiting for too long, that is done after a while; systemd 252 tries
    /// 17 times at once, and never again.
    fn start_again_if_lost(&mut self, unit: UnitId, at: Moment) {
        let lost = self.units.run(unit).history.as_ref().and_then(|history| history.lost_job);
        // Of a unit that is down a restart is a start.
        let starts = |lost: &LostJob| matches!(lost.kind, JobKind::Start | JobKind::Restart);
        let is_start = |lost: &LostJob| lost.at == at && starts(lost);
        let Some(lost) = lost.filter(is_start) else { return };
        match lost.result {
            JobResult::Dependency | JobResult::Timeout if self.upholders(unit).next().is_some() => {
                self.deadlines.try_later(&mut self.units, unit, self.times.now.monotonic);
            }
            // It is as it was, and nothing else tells that it is tried again when the limit is over.
            _ if lost.reason.code == Code::StartLimit => _ = self.queues.upheld.insert(unit),
            // What was cancelled for the sake of a circle would be in it again.
            JobResult::Canceled if lost.reason.cause != Cause::Manager => {
                self.queues.upheld.insert(unit);
                self.return_if_allowed(unit);
            }
            _ => {}
        }
    }

    /// The unit's own job may have waited for its state rather than for another job.
    fn requeue_waiters(&mut self, unit: UnitId) {
        if self.units.run(unit).job.is_some() {
            self.queues.queue_job(&self.units, unit);
        }
    }

    /// Who may be unneeded now, who is to be kept up.
    fn look_at_neighbours(&mut self, unit: UnitId, old: ActiveState, new: ActiveState) {
        let goes = new.is_down_or_going() && !old.is_down_or_going();
        if goes || new.is_down() && !old.is_down() {
            self.queues.queue_what_may_go(&self.graph, unit);
        }
        if new.is_up() && !old.is_up() {
            self.queues.unneeded.insert(unit);
            self.queues.bound.insert(unit);
            let upheld = self.graph.related_by_any(unit, &[Relation::Upholds]);
            self.queues.upheld.extend(upheld);
        }
        if new.is_down() && !old.is_down() {
            self.queues.upheld.insert(unit);
        }
    }

    /// `StopWhenUnneeded=`: stops the unit if no unit that needs it is up or has a job.
    pub(crate) fn stop_if_unneeded(&mut self, unit: UnitId) {
        let idle = self.units.run(unit).job.is_none() && self.units.active_state(unit).is_up();
        if !idle || !self.graph.flags(unit).stop_when_unneeded() || self.puts_off_stop(unit) {
            return;
        }
        const NEEDED_BY: &[Relation] = &[
            Relation::RequiredBy,
            Relation::RequisiteOf,
            Relation::WantedBy,
            Relation::BoundBy,
            Relation::UpheldBy,
            Relation::RequireAnyOf,
            Relation::MountsForOf,
        ];
        let needs_it = |other: UnitId| {
            self.units.run(other).job.is_some() || !self.units.active_state(other).is_down()
        };
        if self.graph.related_by_any(unit, NEEDED_BY).into_iter().any(needs_it) {
            return;
        }
        let anchor = Anchor { unit, job_type: JobType::Stop, mode: JobMode::Fail };
        install::enqueue_for(self, anchor, Reason::new(Code::Unneeded, Cause::None));
    }

    /// Whether a stop of the unit failed so recently that nothing is to be expected of another, which is
    /// then made later.
    fn puts_off_stop(&mut self, unit: UnitId) -> bool {
        let failed = |lost: &LostJob| {
            let is_stop = lost.kind == JobKind::Stop && self.units.active_state(unit).is_up();
            is_stop && matches!(lost.result, JobResult::Failed | JobResult::Timeout)
        };
        let lost = self.units.run(unit).history.as_ref().and_then(|history| history.lost_job);
        let Some(lost) = lost.filter(failed) else { return false };
        let again = lost.at.monotonic.after(AGAIN_AFTER);
        let is_early = again > self.times.now.monotonic;
        // Nobody may have it planned, after a restart of the manager.
        if is_early && !self.deadlines.upheld_again.contains_key(&unit) {
            self.deadlines.upheld_again.insert(unit, again);
            self.units.note_touched(unit);
        }
        is_early
    }

    /// `BindsTo=` without `After=`: what it is bound to may have ended, or never have begun, before
    /// this unit came up.
    pub(crate) fn stop_if_unbound(&mut self, unit: UnitId) {
        if self.puts_off_stop(unit) || self.stop_if_owed(unit) {
            return;
        }
        if self.units.run(unit).job.is_some() || !self.units.active_state(unit).is_up() {
            return;
        }
        let gone = |other: &UnitId| {
            self.units.run(*other).job.is_none()
                && !self.graph.is_related(unit, Relation::RestartOnNone, *other)
                && self.units.active_state(*other).is_down_or_going()
                && (!self.graph.is_device(*other) || device_sight::has_gone(self, *other))
        };
        let Some(bound) = self.graph.related(unit, Relation::BindsTo).find(gone) else { return };
        let anchor = Anchor { unit, job_type: JobType::Stop, mode: JobMode::Replace };
        install::enqueue_for(
            self,
            anchor,
            Reason::new(Code::BoundUnitGone, Cause::Dependency(bound)),
        );
    }

    /// A unit that is up, and to stay so, and upholds this one.
    fn upholder(&self, unit: UnitId) -> Option<UnitId> {
        self.upholders(unit).find(|&other| self.units.run(other).job.is_none())
    }

    /// Units that are up and uphold this one.
    fn upholders(&self, unit: UnitId) -> impl Iterator<Item = UnitId> + '_ {
        let related = self.graph.related(unit, Relation::UpheldBy);
        related.filter(|&other| self.units.active_state(other).is_up())
    }

    /// `Upholds=`: starts the unit again if an active unit upholds it.
    pub(crate) fn start_if_upheld(&mut self, unit: UnitId) {
        if self.totals.stopping
            || self.units.run(unit).job.is_some()
            || !self.units.active_state(unit).is_down()
        {
            return;
        }
        let Some(upholder) = self.upholder(unit) else {
            // One that has a job now may be there when that is over.
            if self.upholders(unit).next().is_some() {
                self.deadlines.try_later(&mut self.units, unit, self.times.now.monotonic);
            }
            return;
        };
        if let Some(at) = start_limit::start_limit_ends(self, unit) {
            self.deadlines.upheld_again.insert(unit, at);
            return self.units.note_touched(unit);
        }
        start_limit::count_upheld(self, unit);
        let anchor = Anchor { unit, job_type: JobType::Start, mode: JobMode::Fail };
        install::enqueue_for(self, anchor, Reason::new(Code::Upheld, Cause::Dependency(upholder)));
    }
}

//! `[X-Warren]`: groups of dependencies, and what the end of another unit does to this one, in the
//! sense of smf(5).
//!
//! `RequireAny=` and `OptionalAll=` are looked at when the start of a unit is due: it waits while a
//! unit that counts is about to come up, and is looked at again when that unit's state or job
//! changes. `ExcludeAll=` and `RestartOn=` act when the other unit changes. A unit that was stopped
//! by one of them starts again when the other allows it; its reason is the memory of that.

use crate::features::start_limit;
use crate::jobs::{install, waits};
use crate::machine::Core;
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobMode, JobResult, JobType, comes_up};
use crate::model::process::Outcome;
use crate::model::reason::{Cause, Code, Reason};
use crate::parts::job_queue::Turn;
use crate::parts::queues::Transition;
use crate::parts::unit_settings;
use crate::transaction::Anchor;
use warren_unit::Relation;

/// All ties of `RestartOn=` that do something.
const ENDED_WITH: [Relation; 3] =
    [Relation::RestartOnErrorOf, Relation::RestartOnRestartOf, Relation::RestartOnRefreshOf];

/// What stands against the start of a unit whose turn it is: a wait, or the end of its job.
pub(crate) fn groups_against(core: &mut Core, unit: UnitId) -> Option<Turn> {
    if !core.graph.flags(unit).has_groups() {
        return None;
    }
    let refuse = |code, other| {
        Some(Turn::Over(JobResult::Dependency, Reason::new(code, Cause::Dependency(other))))
    };
    if let Some(other) = excluder(core, unit) {
        return refuse(Code::Excluded, other);
    }
    let waits = !core.units.run(unit).job.as_ref().is_some_and(|job| job.ignores_order());
    let graph = core.graph.clone();
    if waits && graph.related(unit, Relation::OptionalAll).any(|other| is_coming(core, other)) {
        return Some(Turn::Wait);
    }
    for group in any_groups(core, unit) {
        if group.iter().any(|&other| core.units.active_state(other).is_up()) {
            continue;
        }
        if waits && group.iter().any(|&other| is_coming(core, other)) {
            return Some(Turn::Wait);
        }
        if let Some(&first) = group.first() {
            return refuse(Code::NoneOfGroup, first);
        }
    }
    None
}

/// Whether a start of it has a unit to wait for that a group of it names.
pub(crate) fn waits_for_group(core: &Core, unit: UnitId) -> bool {
    let groups = [Relation::RequireAny, Relation::OptionalAll];
    let starts = core.units.run(unit).job.as_ref().is_some_and(|job| job.kind == JobKind::Start);
    starts && groups.iter().any(|&r| core.graph.related(unit, r).any(|o| is_coming(core, o)))
}

/// A unit that this one must not run beside, and that is up or about to be.
fn excluder(core: &Core, unit: UnitId) -> Option<UnitId> {
    let mut excluded = core.graph.related(unit, Relation::ExcludeAll);
    excluded.find(|&other| core.units.active_state(other).is_up() || is_coming(core, other))
}

/// Whether a unit is on its way up, or has a job that leads there.
fn is_coming(core: &Core, unit: UnitId) -> bool {
    let kind = core.units.run(unit).job.as_ref().map(|job| job.kind);
    comes_up(kind, core.units.active_state(unit))
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
                waits::release(core, other, unit);
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

impl Core {
    /// What a change of one unit's state does over `RestartOn=` and `ExcludeAll=`. `told` is the job
    /// that stops or restarts it, with what the transaction found.
    pub(crate) fn ripple_by_rules(&mut self, transition: Transition, told: Option<JobKind>) {
        let Transition { unit, old, new, .. } = transition;
        if old.is_down() && !new.is_down() {
            self.make_room(unit);
        }
        if !old.is_down_or_going() && new.is_down_or_going() {
            self.stop_with(unit, told);
        }
        if !old.is_up() && new.is_up() {
            self.return_with(unit);
        }
        if !old.is_down() && new.is_down() {
            self.return_without(unit);
            self.return_if_allowed(unit);
        }
    }

    /// What excludes a unit that comes up gives way.
    fn make_room(&mut self, unit: UnitId) {
        let graph = self.graph.clone();
        for other in graph.related(unit, Relation::ExcludeAllOf) {
            if self.units.active_state(other).is_up_or_coming() {
                self.stop_by_rule(other, Reason::new(Code::GaveWay, Cause::Dependency(unit)));
            }
        }
    }

    /// A unit ends: those whose rule says so end with it. Where a transaction restarts it, that has
    /// the others' restarts too, in whichever order, but for groups of which one suffices. A
    /// transaction that stops it has the stops of those that were up then; who came up while the stop
    /// waited for its turn ends now.
    fn stop_with(&mut self, unit: UnitId, told: Option<JobKind>) {
        let graph = self.graph.clone();
        let is_fault = told.is_none() && self.units.outcome(unit) != Outcome::Success;
        let are_told = told == Some(JobKind::Restart);
        for relation in ENDED_WITH {
            if relation == Relation::RestartOnErrorOf && !is_fault {
                continue;
            }
            for other in graph.related(unit, relation) {
                let one_of = graph.is_related(other, Relation::RequireAny, unit);
                let is_done = are_told && !one_of || one_of && does_without(self, other, unit);
                if !is_done && self.units.active_state(other).is_up_or_coming() {
                    let reason = Reason::new(Code::DependencyEnded, Cause::Dependency(unit));
                    self.stop_by_rule(other, reason);
                }
            }
        }
    }

    /// What stands against it now, it is owed: a job that is irreversible keeps it up for no longer
    /// than that job lasts.
    fn stop_by_rule(&mut self, unit: UnitId, reason: Reason) {
        let stops = |kind: JobKind| kind.is_stopping();
        if !self.units.run(unit).job.as_ref().is_some_and(|job| stops(job.kind)) {
            let anchor = Anchor { unit, job_type: JobType::Stop, mode: JobMode::Replace };
            install::enqueue_for(self, anchor, reason);
        }
        let owed = self.queues.stands_off.contains(&unit).then_some(reason);
        if owed.is_some() || self.owed_stop(unit).is_some() {
            self.units.history_mut(unit).owed_stop = owed;
        }
    }

    /// The stop by a rule that jobs stood against.
    fn owed_stop(&self, unit: UnitId) -> Option<Reason> {
        self.units.run(unit).history.as_ref()?.owed_stop
    }

    /// Tries again to stop a unit by a rule, if its files still say so; whether it was tried.
    pub(crate) fn stop_if_owed(&mut self, unit: UnitId) -> bool {
        let Some(reason) = self.owed_stop(unit) else { return false };
        let Cause::Dependency(other) = reason.cause else { return false };
        let is_due = match reason.code {
            Code::GaveWay => excluder(self, unit).is_some(),
            _ => ENDED_WITH.iter().any(|&rule| self.graph.is_related(other, rule, unit)),
        };
        match is_due && self.units.active_state(unit).is_up_or_coming() {
            true => self.stop_by_rule(unit, reason),
            false => self.units.history_mut(unit).owed_stop = None,
        }
        is_due
    }

    /// A unit is up: those that had ended with it, or with another one of its group, come back.
    fn return_with(&mut self, unit: UnitId) {
        let graph = self.graph.clone();
        let tied = ENDED_WITH.into_iter().chain([Relation::RequireAnyOf]);
        for other in tied.flat_map(|relation| graph.related(unit, relation)) {
            self.return_if_allowed(other);
        }
    }

    /// A unit is down: those that had given way to it come back.
    pub(crate) fn return_without(&mut self, unit: UnitId) {
        let graph = self.graph.clone();
        for other in graph.related(unit, Relation::ExcludeAllOf) {
            self.return_if_allowed(other);
        }
    }

    /// Starts a unit again that a rule had stopped, if what stopped it allows it now.
    pub(crate) fn return_if_allowed(&mut self, unit: UnitId) {
        let idle = self.units.run(unit).job.is_none() && self.units.active_state(unit).is_down();
        let reason = self.units.run(unit).history.as_ref().map_or(Reason::default(), |h| h.reason);
        let Cause::Dependency(other) = reason.cause else { return };
        if !idle || self.totals.stopping {
            return;
        }
        let allowed = match reason.code {
            Code::GaveWay => excluder(self, unit).is_none(),
            Code::DependencyEnded => self.is_back(unit, other),
            _ => false,
        };
        if !allowed {
            return;
        }
        if let Some(at) = start_limit::count_return(self, unit) {
            self.deadlines.upheld_again.insert(unit, at);
            self.units.note_touched(unit);
        } else {
            let anchor = Anchor { unit, job_type: JobType::Start, mode: JobMode::Fail };
            install::enqueue_for(
                self,
                anchor,
                Reason::new(Code::Returned, Cause::Dependency(other)),
            );
        }
    }

    /// Whether a unit that `unit` ended with is up and stays so, or another one that will do.
    fn is_back(&self, unit: UnitId, other: UnitId) -> bool {
        let stops = self.units.run(other).job.as_ref().is_some_and(|job| job.kind.is_stopping());
        let one_of = self.graph.is_related(unit, Relation::RequireAny, other);
        self.units.active_state(other).is_up() && !stops
            || one_of && does_without(self, unit, other)
    }
}

/// Whether it is down for the sake of a unit that it must not run beside.
pub(crate) fn gave_way(core: &Core, unit: UnitId) -> bool {
    core.units.run(unit).history.as_ref().is_some_and(|h| h.reason.code == Code::GaveWay)
}

/// Whether it is down by a rule that starts it again when what stopped it allows it.
pub(crate) fn may_return(core: &Core, unit: UnitId) -> bool {
    let reason = core.units.run(unit).history.as_ref().map(|history| history.reason);
    reason.is_some_and(|reason| {
        matches!(reason.code, Code::GaveWay | Code::DependencyEnded)
            && matches!(reason.cause, Cause::Dependency(_))
    })
}

impl Core {
    /// An administrator stops what is down already: it does not come back by a rule any more.
    pub(crate) fn stays_down(&mut self, unit: UnitId, reason: Reason) {
        let by_rule = |code| matches!(code, Code::GaveWay | Code::DependencyEnded);
        if self.units.run(unit).history.as_ref().is_some_and(|h| by_rule(h.reason.code)) {
            self.units.history_mut(unit).reason = reason;
        }
    }
}

//! Installed jobs: how they come, what they wait for, and how they end.
//!
//! Owns: `install`, which makes a plan's jobs installed ones; `waits`, which counts for each how many it waits for;
//! `halves`, which is what a change of the unit does to its job; and `ends`. Start at [`install`].
//! Must not: know how a unit of one type starts or stops; `machine::perform` has units do their jobs.

pub(crate) mod circles;
pub(crate) mod dependency_groups;
pub(crate) mod ends;
pub(crate) mod halves;
pub(crate) mod install;
pub(crate) mod outcomes;
pub(crate) mod waits;

use crate::features::{cleanup, device_sight, remarks};
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobResult};
use crate::model::reason::{Cause, Code, Reason};
use crate::parts::job_queue::Turn;
use crate::parts::{Core, unit_settings};
use crate::protocol::trace_event::What;
use crate::relations::rules;
use crate::types::orders;
use crate::types::service::stop;
use warren_unit::{LoadState, Relation};

impl Core {
    /// Has the next unit do its job whose turn has come; false if there is none.
    pub(crate) fn run_next_job(&mut self) -> bool {
        while let Some(unit) = self.queues.next_turn(self.totals.stopping) {
            let job = self.units.run(unit).job.as_ref();
            if job.is_some_and(|job| !job.running && job.blockers == 0) {
                self.run_job(unit);
                return true;
            }
        }
        false
    }

    /// Nothing holds it any more, and its turn has come.
    fn run_job(&mut self, unit: UnitId) {
        let Some(job) = self.units.run(unit).job.as_ref() else { return };
        let (kind, reason) = (job.kind, job.reason);
        let was_so = kind.is_redundant(self.units.active_state(unit));
        self.jobs.performing = Some((unit, kind));
        let turn = self.perform(unit, kind, reason);
        self.jobs.performing = None;
        match turn {
            Turn::Wait => {}
            Turn::Begun => {
                self.begin(unit);
                self.note_begun(unit);
            }
            Turn::Over(result, reason) => {
                self.note_begun(unit);
                ends::end_job(self, unit, result, reason, !was_so);
            }
        }
    }

    fn note_begun(&mut self, unit: UnitId) {
        if let Some(job) = self.units.run(unit).job.as_deref() {
            let (job, kind, released_by) = (job.id, job.kind, job.released_by);
            self.outbox.happened(
                self.times.now.monotonic,
                unit,
                What::JobBegan { job, kind, released_by },
            );
        }
    }

    fn begin(&mut self, unit: UnitId) {
        let now = self.times.now.monotonic;
        let running_timeout = self
            .graph
            .flags(unit)
            .has_job_settings()
            .then(|| unit_settings::compiled(self, unit).section.job_running_timeout)
            .flatten();
        if let Some(job) = self.units.run_mut(unit).job.as_mut() {
            let begun_before = std::mem::replace(&mut job.running, true);
            let limit = running_timeout.map(|timeout| now.after(timeout));
            job.deadline = [job.deadline, limit].into_iter().flatten().min();
            self.jobs.running += u32::from(!begun_before);
        }
    }

    fn perform(&mut self, unit: UnitId, kind: JobKind, reason: Reason) -> Turn {
        let state = self.units.active_state(unit);
        // A stop stood against the restart when it was due, and this job took its place: the restart
        // that is about to come takes this one over, or is waited for by it.
        if self.units.waits_to_restart(unit) && !kind.is_stopping() && kind != JobKind::Nop {
            stop::restart_if_due(self, unit);
            return Turn::Wait;
        }
        match kind {
            JobKind::Nop => Turn::Over(JobResult::Done, reason),
            JobKind::VerifyActive => match state {
                s if s.is_up() => Turn::Over(JobResult::Done, reason),
                ActiveState::Activating => Turn::Wait,
                _ => Turn::Over(
                    JobResult::Skipped,
                    Reason::new(Code::RequisiteMissing, reason.cause),
                ),
            },
            JobKind::Start => self.perform_start(unit, state, reason),
            JobKind::Stop | JobKind::Restart => self.perform_stop(unit, state, kind, reason),
            JobKind::Reload => self.perform_reload(unit, state, reason),
        }
    }

    fn perform_start(&mut self, unit: UnitId, state: ActiveState, reason: Reason) -> Turn {
        match state {
            s if s.is_up() => return Turn::Over(JobResult::Done, reason),
            // It is on its way already: the job ends with it.
            ActiveState::Activating => return Turn::Begun,
            ActiveState::Deactivating => return Turn::Wait,
            _ => {}
        }
        let refused = |result, code| Turn::Over(result, Reason::new(code, reason.cause));
        match &self.graph.definition(unit).load_state {
            LoadState::Loaded => {}
            LoadState::Masked => return refused(JobResult::Invalid, Code::Masked),
            LoadState::NotFound => return refused(JobResult::Invalid, Code::NotLoaded),
            _ => return refused(JobResult::Invalid, Code::BadSetting),
        }
        if remarks::is_put_aside(self, unit) {
            return refused(JobResult::Invalid, Code::Maintenance);
        }
        if let Some((code, missing)) = self.missing_bound(unit) {
            let reason = Reason::new(code, Cause::Dependency(missing));
            return Turn::Over(JobResult::Dependency, reason);
        }
        if cleanup::waits_for_clearing(self, unit) {
            return Turn::Wait;
        }
        match dependency_groups::groups_against(self, unit) {
            Some(turn) => turn,
            None => orders::start_unit(self, unit, reason),
        }
    }

    /// A unit that this one is bound to and ordered after, and that is not up (systemd.unit(5),
    /// `BindsTo=` with `After=`, and `Requisite=`, which a job may ignore).
    fn missing_bound(&self, unit: UnitId) -> Option<(Code, UnitId)> {
        let down = |other: UnitId| {
            !self.units.active_state(other).is_up() && !device_sight::is_unseen(self, other)
        };
        let ordered = |other: UnitId| self.graph.is_before(other, unit);
        let mut bound = self.graph.related(unit, Relation::BindsTo);
        if let Some(gone) = bound.find(|&other| ordered(other) && down(other)) {
            return Some((Code::BoundUnitGone, gone));
        }
        if self.units.run(unit).job.as_ref().is_some_and(|job| job.ignores_requirements()) {
            return None;
        }
        let mut needed = self.graph.related(unit, Relation::Requisite);
        let is_missing = |other: UnitId| {
            self.units.active_state(other).is_down_or_going()
                && !device_sight::is_unseen(self, other)
        };
        needed.find(|&other| is_missing(other)).map(|missing| (Code::RequisiteMissing, missing))
    }

    fn perform_stop(
        &mut self,
        unit: UnitId,
        state: ActiveState,
        kind: JobKind,
        reason: Reason,
    ) -> Turn {
        if state.is_down() {
            if kind == JobKind::Restart {
                return halves::turn_into_start(self, unit);
            }
            rules::stays_down(self, unit, reason);
            return match cleanup::is_stop_held(self, unit) {
                true => Turn::Begun,
                false => Turn::Over(JobResult::Done, reason),
            };
        }
        if state != ActiveState::Deactivating {
            orders::stop_unit(self, unit, reason);
        }
        match self.units.run(unit).active_state() {
            s if s.is_down() && kind == JobKind::Stop && cleanup::is_stop_held(self, unit) => {
                Turn::Begun
            }
            s if s.is_down() && kind == JobKind::Restart => halves::turn_into_start(self, unit),
            s if s.is_down() => Turn::Over(JobResult::Done, reason),
            _ => Turn::Begun,
        }
    }

    fn perform_reload(&mut self, unit: UnitId, state: ActiveState, reason: Reason) -> Turn {
        match state {
            ActiveState::Active => orders::reload_unit(self, unit, reason),
            ActiveState::Reloading | ActiveState::Activating => Turn::Wait,
            // As a start waits for what is going again.
            ActiveState::Deactivating if self.jobs.has_a_start(&self.units, unit) => Turn::Wait,
            _ => self.start_ended(unit).unwrap_or(Turn::Over(JobResult::Invalid, reason)),
        }
    }

    /// What came of the start whose job was made into a reload while it was under way, if the unit is
    /// down again.
    fn start_ended(&self, unit: UnitId) -> Option<Turn> {
        let since = self.units.run(unit).job.as_ref()?.since;
        let history = self.units.run(unit).history.as_ref()?;
        if history.state_change.monotonic < since || !self.jobs.has_a_start(&self.units, unit) {
            return None;
        }
        Some(match halves::ended_well(self, unit) {
            true => Turn::Over(JobResult::Done, history.reason),
            false => Turn::Over(JobResult::Failed, history.reason),
        })
    }
}

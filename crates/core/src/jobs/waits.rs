//! Who waits for whom.
//!
//! A job waits while `blockers` > 0: the number of installed jobs of units that it is ordered
//! against and that must go first ([`crate::model::job::must_wait`]). The number is kept up to date at
//! every change of a job, so that finding the next job looks at nobody who waits.

use crate::graph::Graph;
use crate::model::ids::UnitId;
use crate::model::job::{Ignores, Job, JobKind};
use crate::model::part::Part;
use crate::parts::Core;
use crate::parts::queues::Queues;
use crate::parts::units::Units;
use std::collections::BTreeSet;

/// Distinct units with a job that are ordered against `unit`; two units can be ordered both
/// ways.
pub(crate) fn job_neighbours(graph: &Graph, units: &Units, unit: UnitId) -> Vec<UnitId> {
    let has_job = |&other: &UnitId| units.run(other).job.is_some();
    let mut others: Vec<UnitId> = graph.ordered_with(unit).filter(has_job).collect();
    others.sort_unstable();
    others.dedup();
    others
}

/// Adds (or takes away) what the job of `unit` means to the waiting of its neighbours and of
/// itself.
fn weigh_job(core: &mut Core, unit: UnitId, add: bool) {
    let Some(job) = core.units.run(unit).job.as_ref() else { return };
    let (kind, ignores) = (job.kind, job.ignores_order());
    let mut own = 0;
    for other in job_neighbours(&core.graph, &core.units, unit) {
        let other_job = core.units.run(other).job.as_ref().expect("neighbours have jobs");
        let (other_kind, other_ignores) = (other_job.kind, other_job.ignores_order());
        own += u32::from(!ignores && core.graph.waits(unit, kind, other, other_kind));
        if !other_ignores && core.graph.waits(other, other_kind, unit, kind) {
            let job = core.units.run_mut(other).job.as_mut().expect("neighbours have jobs");
            job.blockers = if add { job.blockers + 1 } else { job.blockers.saturating_sub(1) };
            job.released_by = (job.blockers == 0).then_some(unit);
            if job.blockers == 0 {
                core.queues.queue_job(&core.units, other);
            }
        }
    }
    core.units.run_mut(unit).job.as_mut().expect("looked at above").blockers =
        if add { own } else { 0 };
}

pub(crate) fn link_job(core: &mut Core, unit: UnitId) {
    weigh_job(core, unit, true);
}

pub(crate) fn unlink_job(core: &mut Core, unit: UnitId) {
    weigh_job(core, unit, false);
}

pub(crate) fn change_job(core: &mut Core, unit: UnitId, change: impl FnOnce(&mut Job)) {
    unlink_job(core, unit);
    if let Some(job) = core.units.run_mut(unit).job.as_mut() {
        change(job);
    }
    link_job(core, unit);
}

/// What a job may have waited for that is no other job has come about by a change of `by`: if nothing
/// else holds the job it is looked at. A change of its own unit is not what let go a job whose turn
/// was to come anyhow.
pub(crate) fn release(units: &mut Units, queues: &mut Queues, unit: UnitId, by: UnitId) {
    if by == unit && queues.turns.contains(unit) {
        return;
    }
    let job = units.run(unit).job.as_ref();
    if job.is_some_and(|job| !job.running && job.blockers == 0 && job.released_by != Some(by)) {
        units.run_mut(unit).job.as_mut().expect("looked at above").released_by = Some(by);
    }
    queues.queue_job(units, unit);
}

/// How many jobs the job of `unit` waits for, counted afresh.
pub(crate) fn count_blockers(core: &Core, unit: UnitId) -> u32 {
    count_waits(core, unit, Graph::waits)
}

fn count_waits(
    core: &Core,
    unit: UnitId,
    waits: fn(&Graph, UnitId, JobKind, UnitId, JobKind) -> bool,
) -> u32 {
    let Some(job) = core.units.run(unit).job.as_ref().filter(|job| !job.ignores_order()) else {
        return 0;
    };
    let is_waited_for = |&&other: &&UnitId| {
        let other_kind = core.units.run(other).job.as_ref().map(|job| job.kind);
        other_kind.is_some_and(|kind| waits(&core.graph, unit, job.kind, other, kind))
    };
    job_neighbours(&core.graph, &core.units, unit).iter().filter(is_waited_for).count() as u32
}

/// Counts the blockers of these units' jobs again, after a change of the graph.
pub(crate) fn recount_blockers(core: &mut Core, units: &[UnitId]) {
    for &unit in units {
        let blockers = count_blockers(core, unit);
        if let Some(job) = &core.units.run(unit).job
            && job.blockers != blockers
        {
            core.units.run_mut(unit).job.as_mut().expect("seen").blockers = blockers;
            core.queues.queue_job(&core.units, unit);
        }
    }
}

/// The job waits for nobody from now on.
pub(crate) fn let_out_of_turn(core: &mut Core, unit: UnitId) {
    change_job(core, unit, |job| _ = job.ignores.add(Ignores::ORDER));
    core.queues.queue_job(&core.units, unit);
}

/// Whether the job of `unit` waits, directly or through others, for itself: a circle that has come
/// about by a change of this job goes through it. Looks at those that it waits for and no others.
pub(crate) fn waits_for_itself(graph: &Graph, units: &Units, unit: UnitId) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![unit]);
    while let Some(one) = next.pop().filter(|_| !seen.contains(&unit)) {
        let kind = kind(units, one);
        if ignores_order(units, one) {
            continue;
        }
        for other in job_neighbours(graph, units, one) {
            let job = units.run(other).job.as_ref().filter(|job| !job.running);
            let waits = |job: &Part<Job>| graph.may_wait(one, kind, other, job.kind);
            if job.is_some_and(waits) && seen.insert(other) {
                next.push(other);
            }
        }
    }
    seen.contains(&unit)
}

pub(crate) fn kind(units: &Units, unit: UnitId) -> JobKind {
    units.run(unit).job.as_ref().map_or(JobKind::Nop, |job| job.kind)
}

pub(crate) fn ignores_order(units: &Units, unit: UnitId) -> bool {
    units.run(unit).job.as_ref().is_some_and(|job| job.ignores_order())
}

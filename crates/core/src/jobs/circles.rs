//! Installed jobs that wait for each other in a circle, and how one of them is let out.

use crate::graph::Graph;
use crate::jobs::{dependency_groups, ends, install, waits};
use crate::model::ids::UnitId;
use crate::model::job::{JobKind, JobResult};
use crate::model::reason::{Cause, Code, Reason};
use crate::parts::Core;
use crate::parts::units::Units;
use crate::protocol::request::Notice;
use std::collections::BTreeMap;

/// The jobs of these units, whose relations differ from now on, may wait for others than before. No
/// other job does, so that one more unit costs nothing where thousands are being started.
pub(crate) fn look_at_rewired_jobs(core: &mut Core, rewired: &[UnitId]) {
    core.jobs.circles_possible |= core.totals.jobs > 0 && !rewired.is_empty();
    let has_job = |unit: &UnitId| core.units.run(*unit).job.is_some();
    let units: Vec<UnitId> = rewired.iter().copied().filter(has_job).collect();
    if units.is_empty() {
        return;
    }
    waits::recount_blockers(core, &units);
    break_circles(core);
    dependency_groups::look_at_group_waiters_among(core, &units);
}

/// Installed jobs that wait for each other, which only a change of the graph can bring about
/// (at once, or when a restart has come to its second half): as [`crate::transaction`] does it, one of the circle
/// is cancelled, or, of stops, does not wait. At the end of the manager all are done: nothing may stay up.
pub(crate) fn break_circles(core: &mut Core) {
    while let Some(units) = circle_of_jobs(&core.graph, &core.units) {
        let last = |units: &mut dyn Iterator<Item = UnitId>| {
            units.max_by_key(|&unit| core.graph.name(unit))
        };
        let all = || units.iter().copied();
        let stop = last(&mut all().filter(|&unit| waits::kind(&core.units, unit) == JobKind::Stop));
        let at = stop.or_else(|| last(&mut all())).expect("a circle has a unit");
        let is_kept = stop.is_some() || core.totals.stopping;
        if is_kept {
            waits::let_out_of_turn(core, at);
        } else {
            let reason = Reason::new(Code::Circle, Cause::Manager);
            ends::finish_job(core, at, JobResult::Canceled, reason);
            install::note_circle(
                &core.graph,
                &mut core.units,
                core.times.now,
                at,
                &units,
                Cause::Manager,
            );
        }
        core.outbox.tell(Notice::CycleBroken { units, at, is_kept });
    }
}

/// The units of a circle of jobs, if there is one; each waits for the next, the last for the first. Whoever is left
/// when those that wait for nobody, and then those that waited for them only, are taken away, waits for somebody who is
/// left: so that from one to the next it goes into a circle. Of those that wait for nobody nothing need be looked
/// at.
fn circle_of_jobs(graph: &Graph, units: &Units) -> Option<Vec<UnitId>> {
    let waits = |&unit: &UnitId| {
        let job = units.run(unit).job.as_ref().filter(|job| !job.running);
        job.is_some_and(|job| job.blockers > 0 || graph.flags(unit).has_groups())
    };
    let waiting: BTreeMap<UnitId, JobKind> = units
        .busy()
        .into_iter()
        .filter(waits)
        .map(|unit| (unit, waits::kind(units, unit)))
        .collect();
    let neighbours = |unit: UnitId| {
        let others = waits::job_neighbours(graph, units, unit).into_iter();
        others.filter_map(|other| Some((other, *waiting.get(&other)?)))
    };
    let mut blockers = BTreeMap::new();
    let mut free = Vec::new();
    for (&unit, &kind) in &waiting {
        let is_waited_for = |&(other, other_kind): &(UnitId, JobKind)| {
            graph.may_wait(unit, kind, other, other_kind)
        };
        match waits::ignores_order(units, unit) {
            true => free.push(unit),
            false => match neighbours(unit).filter(is_waited_for).count() {
                0 => free.push(unit),
                count => _ = blockers.insert(unit, count),
            },
        }
    }
    while let Some(unit) = free.pop() {
        let kind = waits::kind(units, unit);
        for (other, waiting) in neighbours(unit) {
            let Some(count) = blockers.get_mut(&other) else { continue };
            *count -= usize::from(graph.may_wait(other, waiting, unit, kind));
            if *count == 0 {
                blockers.remove(&other);
                free.push(other);
            }
        }
    }
    let by_name = |unit: &UnitId| graph.name(*unit);
    let next = |unit: UnitId| {
        let kind = waiting[&unit];
        let others = neighbours(unit).filter(|(other, _)| blockers.contains_key(other));
        let others = others.filter(|&(other, waiting)| graph.may_wait(unit, kind, other, waiting));
        others.map(|(other, _)| other).min_by_key(by_name)
    };
    let mut path = vec![blockers.keys().copied().min_by_key(by_name)?];
    loop {
        let unit = next(*path.last().expect("it has a first"))?;
        match path.iter().position(|&one| one == unit) {
            Some(at) => return Some(path.split_off(at)),
            None => path.push(unit),
        }
    }
}

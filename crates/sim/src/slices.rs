//! `ConcurrencyHardMax=` and `ConcurrencySoftMax=` of slices (systemd.slice(5)): what must hold.

use std::collections::BTreeSet;

use warren_core::machine::Core;
use warren_core::model::ids::{JobId, UnitId};
use warren_core::model::job::JobKind;
use warren_core::model::reason::{Cause, Code};
use warren_core::protocol::trace_event::{Happening, What};
use warren_core::settings::TypeSettings;
use warren_unit::{LoadState, UnitType};

use crate::states::States;

/// Soft and hard bound of a slice.
fn bounds(core: &Core, slice: UnitId) -> [Option<u32>; 2] {
    let definition = core.graph().definition(slice);
    if definition.unit_type() != UnitType::Slice || definition.load_state != LoadState::Loaded {
        return [None; 2];
    }
    match core.settings().compile(definition).own {
        TypeSettings::Slice(slice) => [slice.concurrency_soft_max, slice.concurrency_hard_max],
        _ => [None; 2],
    }
}

/// Units in a slice, and below it, that are not down.
fn active(core: &Core, slice: UnitId) -> u32 {
    let members = core.graph().members(slice).into_iter();
    members.filter(|&unit| !core.unit_run(unit).active_state().is_down()).count() as u32
}

/// Which units are restarted: they keep the place that they have, also if there are fewer by now.
#[derive(Debug, Clone, Default)]
pub struct Places {
    restarting: BTreeSet<JobId>,
}

impl Places {
    /// `slice-limit`: what a start brings up finds room in its slices. What comes up without a job counts, and so does
    /// what was there before an edit, but neither ends anybody.
    pub fn check(&mut self, core: &Core, before: &States, happenings: &[Happening]) -> Vec<String> {
        let mut begun = BTreeSet::new();
        for happening in happenings {
            match happening.what {
                What::JobBegan { kind: JobKind::Restart, job, .. } => {
                    self.restarting.insert(job);
                }
                // What is down at once is not told of as being restarted.
                What::JobQueued { job, reason, .. } if reason.cause == Cause::Restart => {
                    self.restarting.insert(job);
                }
                What::JobBegan { kind: JobKind::Start, job, .. }
                    if !self.restarting.contains(&job) =>
                {
                    begun.insert(happening.unit);
                }
                _ => {}
            }
        }
        check_begun(core, before, begun)
    }
}

fn check_begun(core: &Core, before: &States, begun: BTreeSet<UnitId>) -> Vec<String> {
    let graph = core.graph();
    let came_up = |unit: &UnitId| {
        let run = core.unit_run(*unit);
        let reason = run.history.as_ref().map(|history| history.reason.code);
        before.get(unit).is_none_or(|state| state.is_down())
            && !run.active_state().is_down()
            && reason != Some(Code::Discovered)
    };
    let slices: BTreeSet<UnitId> =
        begun.into_iter().filter(came_up).flat_map(|unit| graph.slices_above(unit)).collect();
    let over = slices.into_iter().filter_map(|slice| {
        let most = bounds(core, slice).into_iter().flatten().min()?;
        let active = active(core, slice);
        let name = graph.name(slice);
        (active > most).then(|| format!("slice-limit: {active} units of {name}, {most} allowed"))
    });
    over.collect()
}

/// Whether the job of this unit waits for a start, maybe its own, that waits for a place in a slice that has none.
pub fn is_held_up(core: &Core, unit: UnitId) -> bool {
    let view = core.view();
    let (mut seen, mut next) = (BTreeSet::new(), vec![unit]);
    while let Some(unit) = next.pop() {
        if waits_for_place(core, unit) {
            return true;
        }
        let all = view.blockers(unit).chain(view.waited_for(unit));
        next.extend(all.filter(|&other| seen.insert(other)));
    }
    false
}

fn waits_for_place(core: &Core, unit: UnitId) -> bool {
    let is_full = |slice| {
        let [soft, _] = bounds(core, slice);
        soft.is_some_and(|soft| active(core, slice) >= soft)
    };
    let job = core.unit_run(unit).job.as_deref();
    let may_wait = job.is_some_and(|job| job.kind == JobKind::Start && !job.running);
    may_wait && core.graph().slices_above(unit).any(is_full)
}

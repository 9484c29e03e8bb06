//! Reloads: one that cannot be had leaves its service as it is; a start has each of what it wants begin once.

use std::collections::BTreeMap;

use warren_core::machine::Core;
use warren_core::model::ids::UnitId;
use warren_core::model::job::{JobKind, JobResult};
use warren_core::model::process::{CommandList, Control, Outcome};
use warren_core::model::reason::{Cause, Code};
use warren_core::model::state::{Service, ServicePhase, TypeState};
use warren_core::protocol::event::{Done, Event};
use warren_core::protocol::trace_event::{Happening, What};
use warren_unit::Relation;

/// A service that works, and whose reload is answered with the news that it has no process.
pub fn unspawned(core: &Core, event: &Event) -> Option<UnitId> {
    let Event::Done { effect, result: Done::SpawnFailed { .. } } = event else { return None };
    let is_it = |&unit: &UnitId| {
        let TypeState::Service(Service::Up(run)) = &core.unit_run(unit).state else { return false };
        run.control == Some(Control::Asked(*effect))
            && run.command.0 == CommandList::Reload
            && run.phase == ServicePhase::Reload
            && run.outcome == Outcome::Success
            && run.main.process().is_some()
            && !run.stopping
    };
    core.view().jobs().into_iter().map(|job| job.unit).find(is_it)
}

/// `reload`: it works on, unless a job stops it.
pub fn goes_on(core: &Core, unit: Option<UnitId>) -> Option<String> {
    let unit = unit?;
    let run = core.unit_run(unit);
    let is_told = run.job.as_ref().is_some_and(|job| job.kind.is_stopping());
    let wrong = !is_told && run.active_state().is_down_or_going();
    wrong.then(|| format!("reload: {} ends as its reload had no process", core.graph().name(unit)))
}

/// Whether `unit` wants the other when it starts, and has no reason to start it later.
fn wants_only(core: &Core, unit: UnitId, other: UnitId) -> bool {
    const WANTS: [Relation; 3] = [Relation::Wants, Relation::Requires, Relation::BindsTo];
    const LATER: [Relation; 6] = [
        Relation::Upholds,
        Relation::RestartOnErrorOf,
        Relation::RestartOnRestartOf,
        Relation::RestartOnRefreshOf,
        Relation::RequireAnyOf,
        Relation::ExcludeAllOf,
    ];
    let is_one = |relation: &Relation| core.graph().is_related(unit, *relation, other);
    WANTS.iter().any(is_one) && !LATER.iter().any(is_one)
}

/// `twice`: what a unit wants is started with it, and not again when it has come up.
pub fn starts_once(core: &Core, happenings: &[Happening]) -> Vec<String> {
    let mut started: BTreeMap<UnitId, Vec<UnitId>> = BTreeMap::new();
    for happening in happenings {
        match happening.what {
            What::JobEnded { kind: JobKind::Start, result: JobResult::Done, .. } => {
                started.insert(happening.unit, Vec::new());
            }
            What::JobQueued { reason, .. } => {
                // It is itself started again.
                started.remove(&happening.unit);
                if let (Code::Started, Cause::Dependency(by)) = (reason.code, reason.cause)
                    && let Some(again) = started.get_mut(&by)
                    && wants_only(core, by, happening.unit)
                {
                    again.push(happening.unit);
                }
            }
            _ => {}
        }
    }
    let name = |unit: UnitId| core.graph().name(unit);
    let of = |(by, again): (UnitId, Vec<UnitId>)| {
        let told = move |unit| format!("twice: {} is started again for {}", name(unit), name(by));
        again.into_iter().map(told)
    };
    started.into_iter().flat_map(of).collect()
}

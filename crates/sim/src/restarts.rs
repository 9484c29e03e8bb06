//! `restart`: a service with `Restart=always` that nobody stopped comes up again.
//!
//! systemd.service(5), `Restart=`: it is restarted whether it exited cleanly or not, was ended by a
//! signal, or hit a timeout; not when the manager has stopped it.

use std::collections::BTreeSet;

use warren_core::graph::Definition;
use warren_core::machine::Core;
use warren_core::model::active_state::ActiveState;
use warren_core::model::ids::UnitId;
use warren_core::model::job::{JobKind, JobResult};
use warren_core::model::process::Outcome;
use warren_core::model::reason::{Cause, Code};
use warren_core::model::state::UnitRun;
use warren_core::protocol::trace_event::{Happening, What};
use warren_core::settings::TypeSettings;
use warren_unit::config::{Restart, RestartMode};
use warren_unit::{LoadState, UnitType};

use crate::states::States;

/// What a listener knows of who is to stay down.
#[derive(Clone, Debug, Default)]
pub struct Restarts {
    /// Units that were told to stop, or whose start came to nothing, since they last began one.
    stopped: BTreeSet<UnitId>,
}

impl Restarts {
    /// Hears what happened.
    pub fn hear(&mut self, happenings: &[Happening]) {
        for Happening { unit, what, .. } in happenings {
            match what {
                What::JobBegan { kind: JobKind::Stop | JobKind::Restart, .. } => {
                    self.stopped.insert(*unit);
                }
                What::JobBegan { kind: JobKind::Start, .. } => _ = self.stopped.remove(unit),
                What::JobEnded { kind, result, reason, .. }
                    if is_given_up(*kind, *result, reason.code) =>
                {
                    self.stopped.insert(*unit);
                }
                _ => {}
            }
        }
    }

    /// Looks at what happened in a step and was heard; the lines are what should not have.
    pub fn check(&self, core: &Core, before: &States, happenings: &[Happening]) -> Vec<String> {
        let changed = happenings.iter().filter(|h| matches!(h.what, What::State { .. }));
        let units: BTreeSet<UnitId> = changed.map(|happening| happening.unit).collect();
        let stays = |&unit: &UnitId| {
            let run = core.unit_run(unit);
            let went = before.get(&unit).is_some_and(|state| !state.is_down());
            let definition = core.graph().get(unit)?;
            let is_wrong = went
                && run.active_state().is_down()
                && run.job.is_none()
                && !self.stopped.contains(&unit)
                && !core.totals().stopping
                && is_always_restarted(core, definition)
                && !may_stay_down(core, run);
            is_wrong.then(|| format!("restart: {} stays down", definition.name))
        };
        units.iter().filter_map(stays).collect()
    }
}

/// `restart-seen`: with `RestartMode=direct` (systemd.service(5)) a service that is to come again is not down between two
/// runs, nothing is started for its end, and no unit is stopped for it.
pub fn seen(core: &Core, happenings: &[Happening]) -> Vec<String> {
    let comes_again = |unit: UnitId| {
        let run = core.unit_run(unit);
        let is_between = run.sub_state() == "auto-restart" || {
            run.active_state() == ActiveState::Deactivating && run.job.is_none()
        };
        is_between && is_direct(core, unit)
    };
    // A start that was not tried, or not waited for, is an end of its own.
    let is_given_up = |unit: UnitId| {
        happenings.iter().any(|happening| {
            let What::JobEnded { result, .. } = happening.what else { return false };
            let untold = matches!(result, JobResult::Dependency | JobResult::Timeout);
            happening.unit == unit && untold
        })
    };
    let mut wrong = Vec::new();
    for Happening { unit, what, .. } in happenings {
        let of = match what {
            What::State { active, .. } if active.is_down() => Some(*unit),
            What::JobQueued { reason, .. } => match (reason.cause, reason.code) {
                (Cause::Outcome(of), _) if !is_given_up(of) => Some(of),
                (Cause::Dependency(of), Code::BoundUnitGone | Code::DependencyEnded) => Some(of),
                _ => None,
            },
            _ => None,
        };
        if let Some(of) = of.filter(|&of| comes_again(of)) {
            let name = |unit| core.graph().name(unit);
            wrong.push(format!("restart-seen: {} is told of {}: {what:?}", name(*unit), name(of)));
        }
    }
    wrong
}

/// Whether it is a service with `RestartMode=direct`.
pub fn is_direct(core: &Core, unit: UnitId) -> bool {
    let definition = core.graph().definition(unit);
    if definition.unit_type() != UnitType::Service || definition.load_state != LoadState::Loaded {
        return false;
    }
    match core.settings().compile(definition).own {
        TypeSettings::Service(config) => config.restart_mode == RestartMode::Direct,
        _ => false,
    }
}

/// The unit is to be down, or what would have it come up is not to be done, or was done too often. A
/// start that fails is answered by a restart.
fn is_given_up(kind: JobKind, result: JobResult, code: Code) -> bool {
    match kind {
        JobKind::Stop => true,
        JobKind::Start | JobKind::Restart if code == Code::StartLimit => true,
        // It waited for others for longer than `JobTimeoutSec=`.
        JobKind::Restart if result == JobResult::Timeout => true,
        JobKind::Start | JobKind::Restart => {
            !matches!(result, JobResult::Done | JobResult::Failed | JobResult::Timeout)
        }
        _ => false,
    }
}

fn is_always_restarted(core: &Core, definition: &Definition) -> bool {
    if definition.unit_type() != UnitType::Service || definition.load_state != LoadState::Loaded {
        return false;
    }
    let compiled = core.settings().compile(definition);
    let TypeSettings::Service(config) = &compiled.own else { return false };
    config.restart == Restart::Always && config.restart_prevent_exit_status.is_empty()
}

/// It was not to be started now, or is put aside; or its restart was refused, or was not to meet who is left.
fn may_stay_down(core: &Core, run: &UnitRun) -> bool {
    let Some(history) = run.history.as_ref() else { return true };
    let refused = history.refusal.as_ref().is_some_and(|refusal| refusal.at == core.totals().now);
    let is_left = history.reason.code == Code::StopLeft;
    history.outcome == Outcome::ExecCondition || is_left || run.marked().is_some() || refused
}

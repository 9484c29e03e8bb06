//! What always holds: the invariants of the machine, looked at by the simulator after every step.

use crate::features::{cleanup, dynamic_user, slice_limits};
use crate::jobs::{dependency_groups, waits};
use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::model::process::*;
use crate::model::state::*;
use crate::parts::Core;

impl Core {
    /// Checks every invariant; returns one line for each that does not hold. Looks at everything:
    /// for tests and the simulator.
    pub fn check(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut jobs = 0;
        let mut running = 0;
        let mut failed = 0;
        for unit in self.units.ids() {
            let run = self.units.run(unit);
            failed += u32::from(run.active_state().as_str() == "failed");
            jobs += u32::from(run.job.is_some());
            running += u32::from(run.job.as_ref().is_some_and(|job| job.running));
            check_job(self, unit, &mut wrong);
            check_effects(self, unit, &mut wrong);
            check_dynamic_user(self, unit, &mut wrong);
        }
        if jobs != self.totals.jobs {
            wrong.push(format!("{jobs} jobs are installed, {} are counted", self.totals.jobs));
        }
        if running != self.jobs.running {
            wrong.push(format!("{running} jobs run, {} are counted", self.jobs.running));
        }
        if failed != self.totals.failed {
            wrong.push(format!("{failed} units failed, {} are counted", self.totals.failed));
        }
        for unit in self.resources.dynamic_users.holders() {
            if self.units.dynamic_user(unit).is_none() {
                wrong.push(format!("{}: a number is given to it in vain", self.graph.name(unit)));
            }
        }
        for &unit in self.resources.strays.keys().filter(|&&unit| !self.units.run(unit).is_placed())
        {
            wrong.push(format!("{}: it has no group that stays", self.graph.name(unit)));
        }
        let occupying = self.units.ids().filter(|&unit| slice_limits::occupies(&self.units, unit));
        wrong.extend(self.resources.slice_limits.check(&self.graph, occupying));
        if !self.queues.transitions.is_empty() {
            wrong.push("a step ended with work left".to_owned());
        }
        wrong
    }
}

fn check_job(core: &Core, unit: UnitId, wrong: &mut Vec<String>) {
    let Some(job) = &core.units.run(unit).job else { return };
    let name = core.graph.name(unit);
    let blockers = waits::count_blockers(core, unit);
    if job.unit != unit {
        wrong.push(format!("{name}: its job is for {:?}", job.unit));
    }
    if job.blockers != blockers {
        wrong.push(format!("{name}: waits for {blockers} jobs, {} are counted", job.blockers));
    }
    let is_passed = !job.running && job.blockers == 0;
    let waits_for_state = is_passed && !core.queues.turns.contains(unit);
    let state = core.units.active_state(unit);
    let moving = matches!(
        state,
        ActiveState::Activating | ActiveState::Deactivating | ActiveState::Reloading
    );
    let waits = dependency_groups::waits_for_group(&core.graph, &core.units, unit)
        || cleanup::is_clearing_waiter(&core.resources, unit)
        || core.resources.slice_limits.waiting().contains_key(&unit);
    if waits_for_state && !moving && !waits {
        wrong.push(format!("{name}: its {} job waits for nothing", job.kind.as_str()));
    }
}

/// Who a unit runs as is its own for as long as it may hold it, and no longer.
fn check_dynamic_user(core: &Core, unit: UnitId, wrong: &mut Vec<String>) {
    let Some(user) = core.units.dynamic_user(unit) else { return };
    let name = core.graph.name(unit);
    if !dynamic_user::may_hold(core, unit) {
        wrong.push(format!("{name}: it is down and has a user"));
    }
    for of in user.names() {
        let is_held = |n| core.resources.dynamic_users.holds(&of.name, n, unit);
        if !of.given().is_none_or(is_held) {
            wrong.push(format!("{name}: the number of {} is not its own", of.name));
        }
    }
}

/// An effect that a state names is pending, so that its answer will be taken.
fn check_effects(core: &Core, unit: UnitId, wrong: &mut Vec<String>) {
    let run = core.units.run(unit);
    let mut named = vec![run.history.as_ref().and_then(|h| h.checking)];
    named.push(core.units.freezer(unit).asked());
    named.push(core.units.clearing(unit).map(|clearing| clearing.id));
    if core.units.freezer(unit) != Freezer::Running && run.active_state().is_down() {
        wrong.push(format!("{}: it is down and frozen", core.graph.name(unit)));
    }
    match &run.state {
        TypeState::Service(Service::Up(s)) => {
            named.extend([s.main.asked(), s.kill_asked, s.main_search, asked(s.control)]);
            named.extend(s.doomed.iter().map(|&id| Some(id)));
            // It would meet what is run next.
            if s.kill_asked.is_some() && !s.phase.is_signalled() {
                let phase = s.phase.as_str();
                wrong.push(format!("{}: a signal is still sent in {phase}", core.graph.name(unit)));
            }
        }
        TypeState::Socket(Socket::Up(s)) => named.extend([s.listen_asked, asked(s.control)]),
        TypeState::Mount(Mount::Up(s)) | TypeState::Swap(Mount::Up(s)) => named.push(s.asked),
        TypeState::Automount(Automount::Up(s)) => named.push(s.asked),
        TypeState::Timer(Timer::Up(s)) => {
            named.push(s.asked);
            let is_listed = core.resources.timers.contains(&unit);
            if !is_listed {
                wrong.push(format!("{}: it would not hear of the clock", core.graph.name(unit)));
            }
            let waits = s.asked.is_some() || s.due.is_some() || core.totals.stopping;
            if s.phase == TimerPhase::Waiting && !waits && !has_stop_job(run) {
                wrong.push(format!("{}: it waits for nothing", core.graph.name(unit)));
            }
        }
        TypeState::Path(Path::Up(s)) => {
            named.push(s.asked);
            if s.phase == PathPhase::Starting && s.asked.is_none() {
                wrong.push(format!("{}: it waits for nothing", core.graph.name(unit)));
            }
        }
        TypeState::Scope(Scope::Up(s)) => {
            named.push(s.asked);
            if s.phase == ScopePhase::Starting && s.asked.is_none() {
                wrong.push(format!("{}: it waits for nothing", core.graph.name(unit)));
            }
        }
        TypeState::Slice(Slice::Asked(id)) => named.push(Some(*id)),
        _ => {}
    }
    for id in named.into_iter().flatten() {
        if core.effect_unit(id) != Some(unit) {
            wrong.push(format!("{}: nobody waits for {id:?}", core.graph.name(unit)));
        }
    }
    for pid in run.main_process().map(|p| p.pid).into_iter().chain(run.control_pid()) {
        if core.unit_of_pid(pid) != Some(unit) {
            wrong.push(format!("{}: process {pid} is not its own", core.graph.name(unit)));
        }
    }
}

fn has_stop_job(run: &UnitRun) -> bool {
    run.job.as_ref().is_some_and(|job| job.kind == crate::model::job::JobKind::Stop)
}

fn asked(control: Option<Control>) -> Option<crate::model::ids::EffectId> {
    match control {
        Some(Control::Asked(id)) => Some(id),
        _ => None,
    }
}

//! Going on after a restart of the manager: restores the run state and asks again for every effect
//! that was under way.
//!
//! The runner knows which of them were carried out meanwhile: replies of the exec helpers wait in
//! their sockets, open sockets are in init's store. What happened in the kernel while nobody
//! looked is fed in afterwards as ordinary events.

use crate::features::{cgroup_place, cleanup, freezer, runtime_limit};
use crate::graph::Graph;
use crate::jobs::{circles, dependency_groups, waits};
use crate::model::ids::{EffectId, Serial, UnitId};
use crate::model::process::*;
use crate::model::state::*;
use crate::model::time::Moment;
use crate::parts::ids::Ids;
use crate::parts::{Core, unit_settings};
use crate::persist::run_state::{Manager, Restored};
use crate::protocol::event::{Effect, Spawn};
use crate::relations::{held_stops, rules};
use crate::types::service::stop;
use crate::types::{automount, mount, service, socket};
use std::sync::Arc;
use std::time::Duration;
use warren_unit::Relation;

/// Nothing is late sooner than this after a restart of the manager.
const GRACE: Duration = Duration::from_secs(1);

impl Core {
    /// The manager's own state, to be written down.
    pub fn manager_record(&self) -> Manager {
        Manager {
            serial: Serial {
                job: self.ids.job,
                effect: self.outbox.next_id().0,
                invocation: self.ids.invocation,
            },
            startup_finished: self.totals.startup_finished,
            stopping: self.totals.stopping,
            jobs_ever: self.totals.jobs_ever,
            failed_jobs_ever: self.totals.failed_jobs_ever,
            generation: self.graph.generation(),
            ending: self.totals.ending,
        }
    }

    /// Notes what the runner does when everything is stopped, in its own words, for the next
    /// incarnation.
    pub fn set_ending(&mut self, ending: u16) {
        self.totals.ending = ending;
    }

    /// Notes when the boot was at what, for the next incarnation.
    pub fn set_boot_times(&mut self, boot: BootTimes) {
        self.times.boot = boot;
    }

    /// When the boot was at what.
    pub fn boot_times(&self) -> BootTimes {
        self.times.boot
    }

    /// Puts `graph` (whose ids are those of `restored`) and the restored run state in force, and
    /// returns the effects that were under way.
    pub fn recover(&mut self, now: Moment, graph: Arc<Graph>, restored: Restored) -> Vec<Effect> {
        self.times.now = now;
        self.totals.now = now;
        if let Some(manager) = restored.manager {
            self.ids = Ids { job: manager.serial.job, invocation: manager.serial.invocation };
            self.outbox.set_next_id(EffectId(manager.serial.effect));
            self.totals.startup_finished = manager.startup_finished;
            self.totals.stopping = manager.stopping;
            self.totals.jobs_ever = manager.jobs_ever;
            self.totals.failed_jobs_ever = manager.failed_jobs_ever;
            self.totals.ending = manager.ending;
        }
        self.adopt(graph);
        for (unit, run) in restored.runs {
            if self.units.known(unit).is_some() {
                self.restore(unit, run);
            }
        }
        for (unit, path) in restored.groups {
            if self.units.known(unit).is_some() {
                cgroup_place::restore_place(self, unit, &path);
            }
        }
        // Of an end with stops that is as far no unit is up that has commands.
        self.outbox.given_up = self.totals.stopping && self.totals.jobs == 0;
        let busy = self.units.busy();
        waits::recount_blockers(self, &busy);
        self.jobs.guess_starting_reloads(&self.units);
        self.jobs.circles_possible = true;
        circles::break_circles(self);
        let mut given_up = Vec::new();
        for unit in self.units.ids() {
            self.clear_dead_socket(unit);
            if !cleanup::resume_clearing(self, unit) {
                given_up.push(unit);
            }
        }
        let busy = self.units.busy();
        for &unit in &busy {
            self.resume(unit);
            self.queues.upheld.extend(self.graph.related(unit, Relation::Upholds));
        }
        // What stood off, or waited for a start limit, is not written down.
        for queue in [&mut self.queues.unneeded, &mut self.queues.bound] {
            queue.append(&mut busy.iter().copied().collect());
        }
        busy.iter().for_each(|&unit| self.queues.queue_job(&self.units, unit));
        self.look_back(&busy);
        given_up.into_iter().for_each(|unit| held_stops::end_held_stop(self, unit));
        self.settle();
        self.outbox.take_effects()
    }

    /// What was to follow from the end of a job, or from the return of a unit, and was not reached: it
    /// is looked at again whether it is due.
    fn look_back(&mut self, busy: &[UnitId]) {
        for &unit in busy {
            let triggered = self.graph.related(unit, Relation::Triggers);
            self.queues.job_ends.extend(triggered.chain([unit]).map(|unit| (unit, self.times.now)));
        }
        for unit in self.units.ids() {
            if dependency_groups::may_return(self, unit) {
                rules::return_if_allowed(self, unit);
            }
        }
    }

    /// Spawns that were given up while they were under way: they are not asked for again, but
    /// their answers are waited for.
    pub fn given_up(&self) -> Vec<EffectId> {
        let busy = self.units.busy();
        let doomed = busy.into_iter().filter_map(|unit| match &self.units.run(unit).state {
            TypeState::Service(Service::Up(run)) => Some(run.doomed.iter().copied()),
            _ => None,
        });
        doomed.flatten().collect()
    }

    /// Whether the process of a spawn that is under way would be ended as soon as it is there: its time is
    /// over, or its unit is on the way down. If it has not begun, the answer is
    /// [`NeverBegun`](crate::protocol::event::Done::NeverBegun).
    pub fn is_unwanted(&self, spawn: EffectId) -> bool {
        match self.outbox.unit_of(spawn).map(|unit| &self.units.run(unit).state) {
            Some(TypeState::Service(Service::Up(run))) => {
                let is_late = run.main_asked == Some(spawn) && run.phase.is_signalled();
                is_late || run.doomed.contains(&spawn)
            }
            _ => false,
        }
    }

    fn resume(&mut self, unit: UnitId) {
        if let Some(id) = self.units.run(unit).history.as_ref().and_then(|h| h.checking) {
            let section = unit_settings::compiled(self, unit).section.clone();
            self.again(id, unit, Effect::CheckConditions { id, unit, section });
        }
        freezer::resume_freezer(self, unit);
        match self.units.run(unit).state.clone() {
            TypeState::Service(Service::Up(run)) => self.resume_service(unit, &run),
            TypeState::Socket(Socket::Up(run)) => self.resume_socket(unit, &run),
            TypeState::Mount(Mount::Up(run)) | TypeState::Swap(Mount::Up(run)) => {
                self.resume_mount(unit, &run);
            }
            TypeState::Automount(Automount::Up(run)) => self.resume_automount(unit, &run),
            TypeState::Slice(Slice::Asked(id)) => {
                let settings = unit_settings::compiled(self, unit);
                self.again(id, unit, Effect::MakeCgroup { id, unit, settings });
            }
            _ => {}
        }
    }

    fn again(&mut self, id: EffectId, unit: UnitId, effect: Effect) {
        self.outbox.expect_effect(id, unit);
        self.outbox.effects.push(effect);
    }

    /// What a service said and what its processes did while the manager was away is heard before
    /// it is called late.
    fn grace(&mut self, unit: UnitId, run: &ServiceRun) {
        let soonest = self.times.now.monotonic.after(GRACE);
        if run.phase != ServicePhase::AutoRestart {
            let deadline = &mut self.units.service_mut(unit).deadline;
            *deadline = deadline.map(|at| at.max(soonest));
        }
        if run.watchdog_deadline.is_some() {
            service::arm_watchdog(self, unit);
        }
    }

    fn resume_service(&mut self, unit: UnitId, run: &ServiceRun) {
        self.grace(unit, run);
        let (list, index) = run.command;
        if let Some(id) = run.main_asked {
            let spawn = self.spawn_again(unit, CommandList::Start, index, true);
            self.again(id, unit, Effect::Spawn(id, spawn));
        }
        if let Some(Control::Asked(id)) = run.control {
            let spawn = self.spawn_again(unit, list, index, false);
            self.again(id, unit, Effect::Spawn(id, spawn));
        }
        service::watch_bus_name(self, unit, true);
        if let Some(id) = run.main_search {
            let pid_file = unit_settings::compiled(self, unit).service().pid_file.clone();
            let is_last_look =
                run.phase == ServicePhase::StartPost && service::has_no_main_yet(self, unit);
            let waits = run.phase == ServicePhase::Start || is_last_look;
            self.again(id, unit, Effect::FindMain { id, unit, pid_file, waits });
        }
        for &id in &run.doomed {
            self.outbox.expect_effect(id, unit);
        }
        let kills = matches!(run.phase, ServicePhase::StopSigkill | ServicePhase::FinalSigkill);
        if kills || run.kill_asked.is_some() {
            stop::signal_latecomer(self, unit);
        }
        let may_idle = run.control.is_none() && run.main_search.is_none();
        if may_idle && service::waits_idly(self, unit) {
            self.queues.idle_services.insert(unit);
        }
    }

    fn spawn_again(
        &mut self,
        unit: UnitId,
        list: CommandList,
        index: u16,
        main: bool,
    ) -> Box<Spawn> {
        let settings = unit_settings::compiled(self, unit);
        let sockets = service::sockets_for(self, unit, list, main, &settings);
        let invocation = runtime_limit::invocation(self, unit);
        let environment = service::environment(self, unit, list);
        Box::new(Spawn { unit, list, index, main, settings, environment, sockets, invocation })
    }

    fn resume_socket(&mut self, unit: UnitId, run: &SocketRun) {
        if let Some(Control::Asked(id)) = run.control {
            let (list, index) = run.command;
            let spawn = self.spawn_again(unit, list, index, false);
            self.again(id, unit, Effect::Spawn(id, spawn));
        }
        if let Some(id) = run.listen_asked {
            let settings = unit_settings::compiled(self, unit);
            self.again(id, unit, Effect::Listen { id, unit, settings });
        }
        if socket::is_leaving(self, unit) {
            socket::signal_control(self, unit);
        }
        if run.phase == SocketPhase::Listening {
            let accept = socket::accepts(self, unit);
            self.outbox.effects.push(Effect::WatchSockets { unit, on: true, accept });
        }
    }

    /// The order to kill what the commands of a socket left behind may have been lost.
    fn clear_dead_socket(&mut self, unit: UnitId) {
        let run = self.units.run(unit);
        let dead = matches!(run.state, TypeState::Socket(Socket::Dead | Socket::Failed(_)));
        if dead && run.history.as_ref().is_some_and(|h| h.last_control.is_some()) {
            socket::kill_group(self, unit);
            self.settings.forget(unit);
        }
    }

    fn resume_mount(&mut self, unit: UnitId, run: &MountRun) {
        use MountPhase::*;
        let Some(id) = run.asked else { return };
        let settings = unit_settings::compiled(self, unit);
        let remount = matches!(run.phase, Remounting | RemountingSigterm | RemountingSigkill);
        let effect = match run.phase {
            Mounted | Unmounting | UnmountingSigterm | UnmountingSigkill => {
                Effect::Unmount { id, unit, settings }
            }
            _ => Effect::Mount { id, unit, settings, remount },
        };
        self.again(id, unit, effect);
        if !matches!(run.phase, Mounting | MountingDone | Mounted | Remounting | Unmounting) {
            mount::end_mounting(self, unit, run.phase);
        }
    }

    fn resume_automount(&mut self, unit: UnitId, run: &AutomountRun) {
        automount::answer_again(self, unit);
        if let Some(id) = run.asked {
            let settings = unit_settings::compiled(self, unit);
            self.again(id, unit, Effect::SetTrap { id, unit, settings });
        }
        if run.running && unit_settings::compiled(self, unit).automount().timeout_idle.is_some() {
            self.outbox.effects.push(Effect::WatchIdle { unit, on: true });
        }
    }
}

//! Going on after a restart of the manager: restores the run state and asks again for every effect
//! that was under way.
//!
//! The runner knows which of them were carried out meanwhile: replies of the exec helpers wait in
//! their sockets, open sockets are in init's store. What happened in the kernel while nobody
//! looked is fed in afterwards as ordinary events.

use crate::features::{
    cgroup_place, cleanup, dynamic_user, freezer, ipc, runtime_limit, slice_limits,
};
use crate::graph::Graph;
use crate::jobs::{circles, dependency_groups, waits};
use crate::machine;
use crate::machine::generations;
use crate::model::ids::{EffectId, Serial, UnitId};
use crate::model::process::*;
use crate::model::state::*;
use crate::model::time::{Moment, Monotonic};
use crate::parts::ids::Ids;
use crate::parts::outbox::Outbox;
use crate::parts::{Core, unit_settings};
use crate::persist::run_state::{Manager, Restored};
use crate::protocol::event::{Effect, Spawn};
use crate::relations::{held_stops, rules};
use crate::settings::TypeSettings;
use crate::types::service::stop;
use crate::types::{automount, mount, path, scope, service, socket, timer};
use std::sync::Arc;
use std::time::Duration;
use warren_calendar::Zone;
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

    /// Sets when the machine began to run, of a container when its manager did, and the time zone of the host.
    pub fn set_place_in_time(&mut self, machine_begin: Monotonic, local: Zone) {
        self.times.machine_begin = machine_begin;
        self.times.zones.local = local;
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
        generations::adopt(self, graph);
        for (unit, run) in restored.runs {
            if self.units.known(unit).is_some() {
                restore(self, unit, run);
            }
        }
        for unit in self.units.ids() {
            dynamic_user::restore(self, unit);
            if !self.units.run(unit).active_state().is_down() {
                ipc::begin(self, unit);
            }
        }
        for (unit, path) in restored.groups {
            if self.units.known(unit).is_some() {
                cgroup_place::restore_place(self, unit, &path);
            }
        }
        slice_limits::adopt(self);
        // Of an end with stops that is as far no unit is up that has commands.
        self.outbox.given_up = self.totals.stopping && self.totals.jobs == 0;
        let busy = self.units.busy();
        waits::recount_blockers(self, &busy);
        self.jobs.guess_starting_reloads(&self.units);
        self.jobs.circles_possible = true;
        circles::break_circles(self);
        let mut given_up = Vec::new();
        for unit in self.units.ids() {
            clear_dead_socket(self, unit);
            if !cleanup::resume_clearing(self, unit) {
                given_up.push(unit);
            }
        }
        let busy = self.units.busy();
        for &unit in &busy {
            resume(self, unit);
            self.queues.upheld.extend(self.graph.related(unit, Relation::Upholds));
        }
        // What stood off, or waited for a start limit, is not written down.
        for queue in [&mut self.queues.unneeded, &mut self.queues.bound] {
            queue.append(&mut busy.iter().copied().collect());
        }
        busy.iter().for_each(|&unit| self.queues.queue_job(&self.units, unit));
        look_back(self, &busy);
        given_up.into_iter().for_each(|unit| held_stops::end_held_stop(self, unit));
        machine::settle(self);
        self.outbox.take_effects()
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
                let is_late = run.main.asked() == Some(spawn) && run.phase.is_signalled();
                is_late || run.doomed.contains(&spawn)
            }
            _ => false,
        }
    }
}

/// What was to follow from the end of a job, or from the return of a unit, and was not reached: it
/// is looked at again whether it is due.
fn look_back(core: &mut Core, busy: &[UnitId]) {
    for &unit in busy {
        let triggered = core.graph.related(unit, Relation::Triggers);
        core.queues.job_ends.extend(triggered.chain([unit]).map(|unit| (unit, core.times.now)));
    }
    for unit in core.units.ids() {
        if dependency_groups::may_return(&core.units, unit) {
            rules::return_if_allowed(core, unit);
        }
    }
}

fn resume(core: &mut Core, unit: UnitId) {
    if let Some(id) = core.units.run(unit).history.as_ref().and_then(|h| h.checking) {
        // A user is given when conditions have been met.
        let effect = match core.units.dynamic_user(unit) {
            Some(user) => Effect::LookUpNames { id, unit, user },
            None => {
                let section = unit_settings::compiled(core, unit).section.clone();
                Effect::CheckConditions { id, unit, section }
            }
        };
        again(&mut core.outbox, id, unit, effect);
    }
    freezer::resume_freezer(&core.units, &mut core.outbox, unit);
    match core.units.run(unit).state.clone() {
        TypeState::Service(Service::Up(run)) => resume_service(core, unit, &run),
        TypeState::Socket(Socket::Up(run)) => resume_socket(core, unit, &run),
        TypeState::Mount(Mount::Up(run)) | TypeState::Swap(Mount::Up(run)) => {
            resume_mount(core, unit, &run);
        }
        TypeState::Automount(Automount::Up(run)) => resume_automount(core, unit, &run),
        TypeState::Timer(Timer::Up(run)) => timer::resume(core, unit, &run),
        TypeState::Path(Path::Up(_)) => path::resume(core, unit),
        TypeState::Scope(Scope::Up(run)) => scope::resume(core, unit, &run),
        TypeState::Slice(Slice::Asked(id)) => {
            let settings = unit_settings::compiled(core, unit);
            again(&mut core.outbox, id, unit, Effect::MakeCgroup { id, unit, settings });
        }
        _ => {}
    }
}

fn again(outbox: &mut Outbox, id: EffectId, unit: UnitId, effect: Effect) {
    outbox.expect_effect(id, unit);
    outbox.effects.push(effect);
}

/// What a service said and what its processes did while the manager was away is heard before
/// it is called late.
fn grace(core: &mut Core, unit: UnitId, run: &ServiceRun) {
    let soonest = core.times.now.monotonic.after(GRACE);
    if run.phase != ServicePhase::AutoRestart {
        let deadline = &mut core.units.service_mut(unit).deadline;
        *deadline = deadline.map(|at| at.max(soonest));
    }
    if run.watchdog_deadline.is_some() {
        service::arm_watchdog(core, unit);
    }
}

fn resume_service(core: &mut Core, unit: UnitId, run: &ServiceRun) {
    grace(core, unit, run);
    let (list, index) = run.command;
    if let Some(id) = run.main.asked() {
        let spawn = spawn_again(core, unit, CommandList::Start, index, true);
        again(&mut core.outbox, id, unit, Effect::Spawn(id, spawn));
    }
    if let Some(Control::Asked(id)) = run.control {
        let spawn = spawn_again(core, unit, list, index, false);
        again(&mut core.outbox, id, unit, Effect::Spawn(id, spawn));
    }
    service::watch_bus_name(core, unit, true);
    if let Some(id) = run.main_search {
        let pid_file = unit_settings::compiled(core, unit).service().pid_file.clone();
        let is_last_look =
            run.phase == ServicePhase::StartPost && service::has_no_main_yet(&core.units, unit);
        let waits = run.phase == ServicePhase::Start || is_last_look;
        again(&mut core.outbox, id, unit, Effect::FindMain { id, unit, pid_file, waits });
    }
    for &id in &run.doomed {
        core.outbox.expect_effect(id, unit);
    }
    let kills = matches!(run.phase, ServicePhase::StopSigkill | ServicePhase::FinalSigkill);
    if kills || run.kill_asked.is_some() {
        stop::signal_latecomer(core, unit, run.phase);
    }
    let may_idle = run.control.is_none() && run.main_search.is_none();
    if may_idle && service::waits_idly(core, unit) {
        core.queues.idle_services.insert(unit);
    }
}

fn spawn_again(
    core: &mut Core,
    unit: UnitId,
    list: CommandList,
    index: u16,
    main: bool,
) -> Box<Spawn> {
    let settings = unit_settings::compiled(core, unit);
    let sockets = match &settings.own {
        TypeSettings::Socket(config) => socket::sockets_for(&core.units, unit, list, config),
        _ => service::sockets_for(core, unit, list, main, &settings),
    };
    let invocation = runtime_limit::invocation(&core.units, unit);
    let environment = service::environment(core, unit, list, &settings);
    let dynamic_user = core.units.dynamic_user(unit);
    Box::new(Spawn {
        unit,
        list,
        index,
        main,
        settings,
        environment,
        sockets,
        invocation,
        dynamic_user,
    })
}

fn resume_socket(core: &mut Core, unit: UnitId, run: &SocketRun) {
    if let Some(Control::Asked(id)) = run.control {
        let (list, index) = run.command;
        let spawn = spawn_again(core, unit, list, index, false);
        again(&mut core.outbox, id, unit, Effect::Spawn(id, spawn));
    }
    if let Some(id) = run.listen_asked {
        let settings = unit_settings::compiled(core, unit);
        again(&mut core.outbox, id, unit, Effect::Listen { id, unit, settings });
    }
    if socket::is_leaving(&core.units, unit) {
        socket::signal_control(core, unit);
    }
    if run.phase == SocketPhase::Listening {
        let accept = socket::accepts(core, unit);
        core.outbox.effects.push(Effect::WatchSockets { unit, on: true, accept });
    }
}

/// The order to kill what the commands of a socket left behind may have been lost.
fn clear_dead_socket(core: &mut Core, unit: UnitId) {
    let run = core.units.run(unit);
    let dead = matches!(run.state, TypeState::Socket(Socket::Dead | Socket::Failed(_)));
    if dead && run.history.as_ref().is_some_and(|h| h.last_control.is_some()) {
        socket::kill_group(core, unit);
        core.settings.forget(unit);
    }
}

fn resume_mount(core: &mut Core, unit: UnitId, run: &MountRun) {
    use MountPhase::*;
    let Some(id) = run.asked else { return };
    let settings = unit_settings::compiled(core, unit);
    let remount = matches!(run.phase, Remounting | RemountingSigterm | RemountingSigkill);
    let effect = match run.phase {
        Mounted | Unmounting | UnmountingSigterm | UnmountingSigkill => {
            Effect::Unmount { id, unit, settings }
        }
        _ => Effect::Mount { id, unit, settings, remount },
    };
    again(&mut core.outbox, id, unit, effect);
    if !matches!(run.phase, Mounting | MountingDone | Mounted | Remounting | Unmounting) {
        mount::end_mounting(core, unit, run.phase);
    }
}

fn resume_automount(core: &mut Core, unit: UnitId, run: &AutomountRun) {
    automount::answer_again(&core.units, &mut core.outbox, unit);
    if let Some(id) = run.asked {
        let settings = unit_settings::compiled(core, unit);
        again(&mut core.outbox, id, unit, Effect::SetTrap { id, unit, settings });
    }
    if run.running && unit_settings::compiled(core, unit).automount().timeout_idle.is_some() {
        core.outbox.effects.push(Effect::WatchIdle { unit, on: true });
    }
}

/// Restores one unit's run state as the last incarnation wrote it down: it need not be written
/// again.
fn restore(core: &mut Core, unit: UnitId, mut run: UnitRun) {
    // By a version that did not run units of this type.
    if run.state == TypeState::Unsupported {
        run.state = UnitRun::idle(core.graph.definition(unit).unit_type()).state;
    }
    for pid in run.main_process().map(|p| p.pid).into_iter().chain(run.control_pid()) {
        core.pids.own(pid, unit);
    }
    if let TypeState::Socket(Socket::Up(socket)) = &run.state {
        core.resources
            .connections
            .extend(socket.connections.iter().map(|&instance| (instance, unit)));
    }
    core.totals.jobs += u32::from(run.job.is_some());
    core.jobs.running += u32::from(run.job.as_ref().is_some_and(|job| job.running));
    core.totals.failed += u32::from(run.active_state().as_str() == "failed");
    core.units.restore(unit, run);
    core.deadlines.arm(&core.units, unit);
}

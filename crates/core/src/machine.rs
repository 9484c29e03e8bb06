//! The machine: [`Core::step`] takes one event and returns the effects that follow from it.
//!
//! One step runs until nothing more follows, or until it has looked at many jobs: it propagates
//! transitions, runs jobs that became free and serves due deadlines.
//!
//! Owns: [`Core`] and its queues. `propagate` is what a change of one unit does to others,
//! `deadlines` says when units want to be looked at, `generations` puts another generation in force.
//! Must not: know what a service or a socket is; that is in `types`.

use crate::features::start_limit;
use crate::jobs::circles;
use crate::model::ids::{EffectId, UnitId};
use crate::model::job::{JobKind, JobResult};
use crate::model::process::*;
use crate::model::state::*;
use crate::model::time::Moment;
use crate::parts::Times;
use crate::parts::deadlines::Deadlines;
use crate::parts::ids::Ids;
use crate::parts::jobs::Jobs;
use crate::parts::outbox::Outbox;
use crate::parts::pids::Pids;
use crate::parts::queues::Queues;
use crate::parts::resources::Resources;
use crate::parts::unit_settings::UnitSettings;
use crate::parts::units::Units;
use crate::protocol::event::{Done, Effect, Event};
use crate::protocol::request::Notice;
use crate::protocol::trace_event::What;
use crate::relations::standing;
use crate::settings::Settings;
use crate::types::service::{effects, events, stop};
use crate::types::{automount, device, mount, orders, service, simple, socket};
use crate::view::Totals;
use std::sync::Arc;

pub use crate::parts::Core;

mod admin_marks;
mod answers;
mod check;
mod deadlines;
mod generations;
mod perform;
mod propagate;
mod queries;
mod recover;
mod requests;
mod world;

impl Core {
    /// A machine without units. `seed` makes invocation ids unpredictable; the simulator passes
    /// its own.
    pub fn new(settings: Settings, seed: u128) -> Core {
        Core {
            graph: Arc::default(),
            settings: UnitSettings::new(settings),
            units: Units::default(),
            queues: Queues::default(),
            jobs: Jobs::default(),
            pids: Pids::default(),
            deadlines: Deadlines::default(),
            outbox: Outbox::default(),
            ids: Ids::new(seed),
            totals: Totals::default(),
            times: Times::default(),
            resources: Resources::default(),
        }
    }

    /// Takes one event at `now` and returns what is to be done, in order.
    pub fn step(&mut self, now: Moment, event: Event) -> Vec<Effect> {
        self.times.now = now;
        self.totals.now = now;
        self.handle(event);
        self.serve_deadlines();
        self.settle();
        if self.totals.jobs == 0 {
            self.settings.tidy_up(&self.units, true);
        }
        let effects = self.outbox.take_effects();
        self.outbox.note_signals(now.monotonic, &effects);
        effects
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Tick => {}
            Event::Request { client, asker, request } => self.request(client, asker, request),
            Event::Done { effect, result } => self.effect_done(effect, result),
            Event::Exited { pid, status } => self.process_ended(pid, status),
            Event::Notify { unit, pid, message } => {
                events::service_notify(self, unit, pid, message)
            }
            Event::FdsStored { unit, count } => events::service_fds_stored(self, unit, count),
            Event::CgroupEmpty { unit, cpu_us } => self.group_empty(unit, cpu_us),
            Event::OutOfMemory { unit } => events::service_out_of_memory(self, unit),
            Event::Incoming { unit } => socket::incoming(self, unit),
            Event::Connection { socket, instance, number } => {
                socket::connection(self, socket, instance, number)
            }
            Event::ConnectionRefused { socket } => socket::refused(self, socket),
            Event::SocketsLost { unit, why } => socket::sockets_lost(self, unit, why),
            Event::ConnectionUnserved { socket } => socket::unserved(self, socket),
            Event::Mounted { unit } => mount::appeared(self, unit),
            Event::Unmounted { unit } => mount::vanished(self, unit),
            Event::TrapHit { unit, token } => automount::trap_hit(self, unit, token),
            Event::TrapIdle { unit, token } => automount::trap_idle(self, unit, token),
            Event::TrapGone { unit } => automount::trap_gone(self, unit),
            Event::BusName { unit, state } => events::service_bus_name(self, unit, state),
            Event::Devices(news) => device::hear_of_devices(self, news),
            Event::StopEverything { soft } => self.stop_everything(soft),
            Event::GiveUp => self.give_up(),
            Event::Commit { graph, delta } => self.commit(graph, &delta),
            Event::Defaults(defaults) => self.set_defaults(defaults),
        }
    }

    /// Works off what follows from what was done, until nothing is left, or many jobs were looked at
    /// ([`Core::is_behind`]).
    pub(crate) fn settle(&mut self) {
        let mut looked_at = 0;
        loop {
            if let Some((job, unit)) = self.queues.passing.pop() {
                let (kind, result) = (JobKind::Nop, JobResult::Done);
                self.outbox.tell(Notice::JobRemoved { job, unit, kind, result, changed: false });
            } else if let Some(transition) = self.queues.transitions.pop_front() {
                self.ripple(transition);
            } else if looked_at == self.queues.jobs_per_step_max && self.is_behind() {
                break;
            } else if self.run_next_job() {
                looked_at += 1;
            } else if std::mem::take(&mut self.jobs.circles_unchecked) {
                circles::break_circles(self);
            } else if let Some((unit, at)) = self.queues.job_ends.pop_first() {
                self.tell_triggers_of_job_end(unit, at);
            } else if let Some(unit) = self.queues.bound.pop_first() {
                standing::stop_if_unbound(self, unit);
            } else if let Some(unit) = self.queues.unneeded.pop_first() {
                standing::stop_if_unneeded(self, unit);
            } else if let Some(unit) = self.queues.upheld.pop_first() {
                standing::start_if_upheld(self, unit);
            } else if self.jobs.running == 0
                && let Some(unit) = self.queues.idle_services.pop_first()
            {
                service::idle_over(self, unit);
            } else if let Some(unit) = self.queues.unheld.pop_first() {
                start_limit::forget_starts_if_unheld(self, unit);
            } else {
                break;
            }
        }
        self.deadlines.arm_changed(&mut self.units);
        if self.outbox.pending_count() == 0 {
            self.pids.forget_early_exits();
        }
        self.jobs.circles_possible &= self.totals.jobs > 0;
    }

    fn effect_done(&mut self, effect: EffectId, result: Done) {
        let Some(unit) = self.outbox.take_pending(effect) else {
            return self.kill_latecomer(effect, &result);
        };
        let named = match result {
            Done::Spawned { pid } | Done::MainProcess { pid: Some(pid) } => Some(pid),
            _ => None,
        };
        self.serve_answer(unit, effect, result);
        if let Some(pid) = named
            && let Some(status) = self.pids.take_early_exit(pid, effect)
        {
            self.process_ended(pid, status);
        }
    }

    fn kill_latecomer(&mut self, effect: EffectId, result: &Done) {
        if let Some(unit) = self.outbox.take_too_late(effect)
            && let Done::Spawned { pid } = *result
        {
            stop::kill_process(self, unit, pid);
            stop::kill_its_children(self, unit);
        }
    }

    fn serve_answer(&mut self, unit: UnitId, effect: EffectId, result: Done) {
        if orders::conditions_done(self, unit, effect, &result) {
            return;
        }
        match &self.units.run(unit).state {
            TypeState::Service(_) => effects::done(self, unit, effect, result),
            TypeState::Socket(_) => socket::done(self, unit, effect, result),
            TypeState::Mount(_) | TypeState::Swap(_) => mount::done(self, unit, effect, result),
            TypeState::Automount(_) => automount::done(self, unit, effect, result),
            TypeState::Slice(_) => simple::slice_done(self, unit, effect, result),
            _ => {}
        }
    }

    fn process_ended(&mut self, pid: u32, status: ExitStatus) {
        let Some(unit) = self.pids.take_owner(pid) else {
            return self.remember_exit(pid, status);
        };
        // A main process that named itself before the answer to its spawn, which will name it again.
        if self.units.service(unit).is_some_and(|run| run.main_asked.is_some()) {
            self.remember_exit(pid, status);
        }
        self.outbox.happened(self.times.now.monotonic, unit, What::ProcessEnded { pid, status });
        match &self.units.run(unit).state {
            TypeState::Service(_) => events::service_process_ended(self, unit, pid, status),
            TypeState::Socket(_) => socket::process_ended(self, unit, pid, status),
            _ => {}
        }
    }

    /// While effects are under way the answer of one may name the process.
    fn remember_exit(&mut self, pid: u32, status: ExitStatus) {
        if self.outbox.pending_count() > 0 {
            self.pids.remember_exit(pid, status, self.outbox.next_id());
        }
    }

    fn group_empty(&mut self, unit: UnitId, cpu_us: Option<u64>) {
        self.outbox.happened(self.times.now.monotonic, unit, What::GroupEmpty);
        if self.units.known(unit).is_some() && cpu_us.is_some() {
            self.units.history_mut(unit).account_mut().cpu_us = cpu_us;
        }
        // Control processes of a socket end by their exit; what they leave behind goes with the
        // clean-up.
        if matches!(self.units.known(unit).map(|run| &run.state), Some(TypeState::Service(_))) {
            events::service_group_empty(self, unit);
        }
    }

    // ---- restart of the manager ----

    /// Restores one unit's run state as the last incarnation wrote it down: it need not be written
    /// again.
    pub(crate) fn restore(&mut self, unit: UnitId, mut run: UnitRun) {
        // By a version that did not run units of this type.
        if run.state == TypeState::Unsupported {
            run.state = UnitRun::idle(self.graph.definition(unit).unit_type()).state;
        }
        for pid in run.main_process().map(|p| p.pid).into_iter().chain(run.control_pid()) {
            self.pids.own(pid, unit);
        }
        if let TypeState::Socket(Socket::Up(socket)) = &run.state {
            self.resources
                .connections
                .extend(socket.connections.iter().map(|&instance| (instance, unit)));
        }
        self.totals.jobs += u32::from(run.job.is_some());
        self.jobs.running += u32::from(run.job.as_ref().is_some_and(|job| job.running));
        self.totals.failed += u32::from(run.active_state().as_str() == "failed");
        self.units.restore(unit, run);
        self.deadlines.arm(&self.units, unit);
    }
}

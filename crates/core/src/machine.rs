//! The machine: [`Core::step`] takes one event and returns the effects that follow from it.
//!
//! One step runs until nothing more follows, or until it has looked at many jobs: it propagates
//! transitions, runs jobs that became free and serves due deadlines.
//!
//! Owns: the methods of [`Core`], which are all that its users see, and which room serves which event. `propagate`
//! is what a change of one unit does to others, `perform` has units do their jobs, `generations` puts another
//! generation in force, `recover` goes on from written run state.
//! Must not: decide what an event means to a unit of one type; that is in `types`. No room below calls this one.

use crate::features::start_limit;
use crate::jobs::circles;
use crate::model::job::{JobKind, JobResult};
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
use crate::protocol::event::{Effect, Event};
use crate::protocol::request::Notice;
use crate::relations::standing;
use crate::settings::Settings;
use crate::types::service::events;
use crate::types::{automount, device, mount, path, service, socket, timer};
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
        self.step_all(now, [event])
    }

    /// The same for several that came together: no job that one of them makes begins before all are taken.
    pub fn step_all(
        &mut self,
        now: Moment,
        events: impl IntoIterator<Item = Event>,
    ) -> Vec<Effect> {
        self.times.now = now;
        self.totals.now = now;
        events.into_iter().for_each(|event| handle(self, event));
        deadlines::serve_deadlines(self);
        settle(self);
        if self.totals.jobs == 0 {
            self.settings.tidy_up(&self.units, true);
        }
        let effects = self.outbox.take_effects();
        self.outbox.note_signals(now.monotonic, &effects);
        effects
    }
}

fn handle(core: &mut Core, event: Event) {
    match event {
        Event::Tick => {}
        Event::Request { client, asker, request } => {
            requests::request(core, client, asker, request)
        }
        Event::Done { effect, result } => answers::effect_done(core, effect, result),
        Event::Exited { pid, status } => answers::process_ended(core, pid, status),
        Event::Notify { unit, pid, message } => events::service_notify(core, unit, pid, message),
        Event::FdsStored { unit, count } => {
            events::service_fds_stored(&mut core.units, unit, count)
        }
        Event::CgroupEmpty { unit, cpu_us } => answers::group_empty(core, unit, cpu_us),
        Event::OutOfMemory { unit } => answers::out_of_memory(core, unit),
        Event::Incoming { unit } => socket::incoming(core, unit),
        Event::Connection { socket, instance, number } => {
            socket::connection(core, socket, instance, number)
        }
        Event::ConnectionRefused { socket } => socket::refused(&mut core.units, socket),
        Event::SocketsLost { unit, why } => socket::sockets_lost(core, unit, why),
        Event::ConnectionUnserved { socket } => socket::unserved(core, socket),
        Event::Mounted { unit } => mount::appeared(core, unit),
        Event::Unmounted { unit } => mount::vanished(core, unit),
        Event::TrapHit { unit, token } => automount::trap_hit(core, unit, token),
        Event::TrapIdle { unit, token } => automount::trap_idle(core, unit, token),
        Event::TrapGone { unit } => automount::trap_gone(core, unit),
        Event::BusName { unit, state } => events::service_bus_name(core, unit, state),
        Event::ClockSet { slept } => timer::clock_was_set(core, slept),
        Event::ZoneSet(zone) => timer::zone_was_set(core, zone),
        Event::PathTouched { unit, look } => path::touched(core, unit, look),
        Event::Devices(news) => device::hear_of_devices(core, news),
        Event::StopEverything { soft } => requests::stop_everything(core, soft),
        Event::GiveUp => requests::give_up(core),
        Event::Commit { graph, delta } => generations::commit(core, graph, &delta),
        Event::Defaults(defaults) => generations::set_defaults(core, defaults),
        Event::ServiceWatchdogs(on) => core.outbox.ignores_watchdogs = !on,
    }
}

/// Works off what follows from what was done, until nothing is left, or many jobs were looked at
/// ([`Core::is_behind`]).
fn settle(core: &mut Core) {
    let mut looked_at = 0;
    loop {
        if let Some((job, unit)) = core.queues.passing.pop() {
            let (kind, result) = (JobKind::Nop, JobResult::Done);
            core.outbox.tell(Notice::JobRemoved { job, unit, kind, result, changed: false });
        } else if let Some(transition) = core.queues.transitions.pop_front() {
            propagate::ripple(core, transition);
        } else if looked_at == core.queues.jobs_per_step_max && core.is_behind() {
            break;
        } else if perform::run_next_job(core) {
            looked_at += 1;
        } else if let Some(unit) = core.resources.slice_limits.call(&core.graph) {
            core.queues.queue_job(&core.units, unit);
        } else if std::mem::take(&mut core.jobs.circles_unchecked) {
            circles::break_circles(core);
        } else if let Some((unit, at)) = core.queues.job_ends.pop_first() {
            propagate::tell_triggers_of_job_end(core, unit, at);
        } else if let Some(unit) = core.queues.bound.pop_first() {
            standing::stop_if_unbound(core, unit);
        } else if let Some(unit) = core.queues.unneeded.pop_first() {
            standing::stop_if_unneeded(core, unit);
        } else if let Some(unit) = core.queues.upheld.pop_first() {
            standing::start_if_upheld(core, unit);
        } else if core.jobs.running == 0
            && let Some(unit) = core.queues.idle_services.pop_first()
        {
            service::idle_over(core, unit);
        } else if let Some(unit) = core.queues.unheld.pop_first() {
            start_limit::forget_starts_if_unheld(&core.graph, &mut core.units, unit);
        } else {
            break;
        }
    }
    core.deadlines.arm_changed(&mut core.units);
    if core.outbox.pending_count() == 0 {
        core.pids.forget_early_exits();
    }
    core.jobs.circles_possible &= core.totals.jobs > 0;
}

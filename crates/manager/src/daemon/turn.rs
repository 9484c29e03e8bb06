//! One turn: everything that has happened is stepped through, written down, published, carried out and told.
//!
//! Owns: the order of these. Start at [`Daemon::turn`].
//! Must not: be entered from anywhere but the loop: sources push events, and tasks for what has to wait until their
//! events are stepped through.
//! Thread: the loop.

use crate::base::clock::now;
use crate::base::say::say;
use crate::daemon::Daemon;
use crate::daemon::clients::Client;
use crate::daemon::tasks::Task;
use crate::published::orders::JobOutcome;
use std::collections::BTreeSet;
use std::sync::Arc;
use warren_bus::backend::Backend;
use warren_core::model::ids::{ClientId, UnitId};
use warren_core::persist::run_state::Late;
use warren_core::protocol::event::{Effect, Event};
use warren_core::protocol::request::{Notice, Reply, Request};

/// Whether a client asks for a job by it.
fn makes_job(event: &Event) -> bool {
    matches!(event, Event::Request { request: Request::Enqueue { .. }, .. })
}

impl Daemon {
    /// Steps through everything that has happened, and does the tasks that wait for it, until nothing is left to do
    /// at once.
    pub(super) fn turn(&mut self) {
        // Waking a thread costs more than what it is told.
        let held = self.clients.servers.bus.as_ref().map(|bus| bus.hold());
        loop {
            if !self.event_loop.events.is_empty() {
                self.step();
            } else if let Some(task) = self.event_loop.tasks.next() {
                self.run_task(task);
            } else {
                break;
            }
        }
        drop(held);
    }

    fn step(&mut self) {
        let mut effects = Vec::new();
        let moment = now();
        while let Some(event) = self.event_loop.events.pop_front() {
            let mut together = vec![event];
            // Jobs that are asked for at once keep the order of their units, whichever is named first.
            while together.last().is_some_and(makes_job)
                && let Some(next) = self.event_loop.events.pop_front_if(|next| makes_job(next))
            {
                together.push(next);
            }
            effects.extend(self.core.step_all(moment, together));
        }
        let named = self.process.table.core_was_told();
        self.take_in_named(named);
        self.finish_turn(effects);
    }

    /// Does a task; everything that was read before it is stepped through.
    fn run_task(&mut self, task: Task) {
        match task {
            Task::Order(order) => self.take_order(order),
            Task::Install(answer) => self.install(answer),
            Task::AfterInstall(installed) => self.installed(*installed),
            Task::AnswerUnit { name, reply } => self.answer_unit(&name, reply),
            Task::Reply(reply, outcome) => reply.send(outcome),
            Task::ChangeSettings(call, reply) => {
                let outcome = self.take_question(call);
                // It is written down before it is promised.
                self.finish_turn(Vec::new());
                reply.send(outcome);
            }
            Task::Settle(given_up) => self.settled(given_up),
            Task::Resume(effects) => {
                self.stages.recovery.is_resuming = true;
                self.finish_turn(effects);
                self.stages.recovery.is_resuming = false;
                self.settle();
            }
            Task::ReadExits => self.read_exits(),
            Task::FindEmptyGroups => self.find_empty_groups(),
            Task::FindMounts { vanished } => self.find_mounts(vanished),
            Task::StartFirstUnit => self.start_first_unit(),
            Task::Serve => self.serve_or_leave(),
            Task::Recovered { after_soft_reboot } => self.recovered(after_soft_reboot),
            Task::Begun => {
                self.note_all_idle();
                self.tell_readiness();
            }
        }
    }

    /// Writes down, publishes, carries out, tells.
    fn finish_turn(&mut self, effects: Vec<Effect>) {
        // Events that were read and wait to be stepped through are not in what is written now.
        let all_stepped = self.event_loop.events.is_empty();
        let (changed, renamed) = (self.core.take_changed(), self.core.take_renamed());
        let rearmed = self.core.take_rearmed();
        let (happenings, lost) = self.core.take_happenings();
        self.hear(&happenings);
        self.recording.recorder.take(&happenings, lost);
        self.recording.recorder.seen(now().monotonic);
        let mut late: Vec<Late> = effects.iter().filter_map(Late::of).collect();
        late.extend(self.still_late());
        self.compact(&late);
        let written = changed.iter().copied().chain(rearmed.iter().copied());
        match self.recording.state.append(&self.core, written, &renamed, late) {
            Ok(()) if all_stepped => self.forget_sources(),
            Ok(()) => {}
            Err(e) => say!("cannot write run state: {e}"),
        }
        // Who sees what is done, as a process that begins, finds the state that had it done.
        let is_as_before = changed.is_empty() && rearmed.is_empty() && effects.is_empty();
        if !is_as_before || !self.core.totals().are_those_of(&self.shared.view().totals) {
            self.shared.publish(Arc::new(self.core.view()));
        }
        let mut notices = Vec::new();
        let mut replies = Vec::new();
        self.carry_out_held();
        self.follow_phase();
        for effect in effects {
            match effect {
                Effect::Tell(notice) => notices.push(notice),
                Effect::Reply { client, reply } => replies.push((client, reply)),
                other => self.carry_out(other),
            }
        }
        self.drop_kept_in_vain(&changed);
        self.kill_groups();
        self.triggers.traps.begin();
        self.triggers.sockets.begin();
        self.prepare_queued_spawns();
        self.read_environments();
        self.tell_refused_spawns();
        self.leave_unwanted_environments(&changed);
        self.leave_unwanted_names(&changed);
        self.check_conditions();
        if !self.stages.shutdown.under_way.as_ref().is_some_and(|ending| ending.is_for_good()) {
            self.note_idle(&changed);
        }
        self.publish_for_oomd();
        self.look_at_log_daemon(&changed);
        self.look_for_device_daemon();
        self.tell(changed, notices, replies);
        self.go_on_ending();
        self.send_outgoing();
    }

    /// What led to this batch is written down: it need not be told again to the next incarnation.
    fn forget_sources(&mut self) {
        self.process.init.release(self.process.table.early_exits.first_record());
        self.forget_notices();
        self.forget_births();
        self.forget_plan_that_began();
        self.triggers.traps.release();
        for unit in std::mem::take(&mut self.triggers.accepting.handed_over) {
            self.drop_connection(unit);
        }
    }

    fn compact(&mut self, late: &[Late]) {
        if self.recording.state.wants_compaction(self.stages.shutdown.under_way.is_some()) {
            self.write_state_anew(late);
        }
    }

    /// Puts another state file in the place of this one, with nothing in it that is no longer so.
    pub(crate) fn write_state_anew(&mut self, late: &[Late]) {
        match self.recording.state.compacted(&self.core, late.to_vec()) {
            Ok(new) => {
                if self
                    .process
                    .init
                    .store(warren_init::protocol::control::STATE_NAME, new.fd())
                    .is_ok()
                {
                    self.recording.state = new;
                }
            }
            Err(e) => {
                say!("cannot compact run state: {e}");
                self.recording.state.put_compaction_off();
            }
        }
    }

    /// Logs, answers and signals, in this order: who is answered finds what was said about it in the log.
    fn tell(
        &mut self,
        changed: BTreeSet<UnitId>,
        notices: Vec<Notice>,
        replies: Vec<(ClientId, Reply)>,
    ) {
        if changed.is_empty() && notices.is_empty() && replies.is_empty() {
            return;
        }
        let view = self.shared.view();
        for notice in &notices {
            crate::daemon::unit_log::notice(&view, self.core.settings(), notice);
        }
        self.send_outgoing();
        for (client, reply) in replies {
            self.answer(client, reply);
        }
        self.tell_job_waiters(&notices);
        self.tell_who_waits_in_vain(&changed);
        // Whoever came in after a restart has seen everything as it is now.
        if let Some(bus) =
            self.clients.servers.bus.as_ref().filter(|_| !self.stages.recovery.is_resuming)
        {
            bus.publish(&view, changed.into_iter().collect(), notices);
        }
        self.tell_of_shortage();
        self.tell_readiness();
    }

    fn tell_job_waiters(&mut self, notices: &[Notice]) {
        let noted = if self.clients.wait_for_jobs() { notices } else { &[] };
        for notice in noted {
            if let Notice::JobRemoved { job, result, .. } = notice {
                self.clients.job_ended(*job, *result);
            }
        }
    }

    /// Clients that wait for what only a person can bring about are told so; the job waits on.
    ///
    /// A wait becomes vain when a device's job begins to wait, or when a client begins to wait for
    /// one that does: in all other turns the way through the jobs is not walked.
    fn tell_who_waits_in_vain(&mut self, changed: &BTreeSet<UnitId>) {
        if !self.clients.wait_for_jobs() {
            return self.clients.forget_new_waits();
        }
        let view = self.shared.view();
        let all = changed.iter().any(|&unit| view.graph.is_device(unit));
        for job in self.clients.take_waited_for(all) {
            let unit = self.clients.unit_of(job);
            let Some(device) = unit.and_then(|unit| view.waits_in_vain_for(unit)) else { continue };
            self.clients
                .answer_waiters(job, || JobOutcome::InVain(view.graph.name(device).clone()));
        }
    }

    fn answer(&mut self, client: ClientId, reply: Reply) {
        match self.clients.take(client) {
            Some(Client::Bus(sender)) => sender.send(crate::daemon::requests::bus_answer(reply)),
            Some(Client::BusAndWaiter(sender, waiter)) => {
                if let Reply::Job { job, unit, .. } = reply {
                    self.clients.wait_for_job(job, unit, waiter);
                }
                sender.send(crate::daemon::requests::bus_answer(reply));
            }
            Some(Client::Waiter(waiter)) => match reply {
                // A job that ended in the step that made it is among this turn's notices, which
                // are looked at after the replies.
                Reply::Job { job, unit, .. } => self.clients.wait_for_job(job, unit, waiter),
                Reply::Jobs(_) | Reply::JobsOf(_) | Reply::Done => waiter.send(JobOutcome::Nothing),
                Reply::Refused(refusal) => {
                    let (text, about) = (refusal.to_string(), refusal.unit().cloned());
                    waiter.send(JobOutcome::Refused { text, about });
                }
            },
            None => {}
        }
    }
}

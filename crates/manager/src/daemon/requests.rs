//! Orders of other threads: calls of bus clients, of `warren`, and what the loader made.

use std::sync::Arc;
use std::time::Instant;
use warren_bus::Backend;

use warren_bus::backend::{
    Answer, Call, Facts, LOG_LEVELS, Leave, ManagerSetting, WatchdogProperty,
};
use warren_bus::names::NameState;
use warren_bus::{Announcement, BusError, Outcome, ReplySender};
use warren_core::graph::{Delta, Graph};
use warren_core::model::active_state::ActiveState;
use warren_core::model::ids::UnitId;
use warren_core::model::job::{JobMode, JobType};
use warren_core::model::time::{Moment, Monotonic};
use warren_core::persist::run_state::{ClientLog, ClientSettings};
use warren_core::protocol::event::{BusName, Event};
use warren_core::protocol::request::{Asker, Reply, Request};
use warren_init::protocol::control::PowerAction;
use warren_trace::words::Phase;
use warren_unit::config::ShowStatus;
use warren_unit::{LoadState, UnitName, UnitType};

use crate::base::answers::AnswerTo;
use crate::base::clock::now;
use crate::base::say::{DEBUG, Target, restrict, say, set_show_status, set_style};
use crate::config::unit_files::Question;
use crate::control::caller::is_privileged;
use crate::daemon::clients::Client;
use crate::daemon::loads::AfterLoad;
use crate::daemon::tasks::{Installed, Task};
use crate::daemon::{Daemon, Leaving};
use crate::published::orders::{
    ChangedUp, JobOutcome, LoaderAnswer, LoaderOrder, Order, Reload, Report, Stretch,
};
use crate::recording::recorder::Done;
use crate::shutdown::words::AskedBy;

/// The machine's reply in the bus's terms.
pub fn bus_answer(reply: Reply) -> Outcome {
    match reply {
        Reply::Job { job, unit, kind, affected } => Ok(Answer::Job { job, unit, kind, affected }),
        Reply::Jobs(jobs) => Ok(Answer::Jobs(jobs)),
        Reply::JobsOf(jobs) => Ok(Answer::JobsOf(jobs)),
        Reply::Done => Ok(Answer::Done),
        Reply::Refused(refusal) => Err(refusal.into()),
    }
}

impl Daemon {
    pub(crate) fn take_order(&mut self, order: Order) {
        match order {
            Order::Call { asker, call, reply } => self.take_call(asker, call, reply),
            Order::CallAndWait { asker, call, reply } => {
                self.take_job_call(asker, call, Client::Waiter(reply));
            }
            Order::StartTransient { asker, made, reply, end } => {
                self.start_transient(asker, *made, reply, end);
            }
            Order::Together(orders) => orders.into_iter().for_each(|order| self.take_order(order)),
            Order::Ask { asker, request, reply } => {
                self.ask(asker, request, Client::Waiter(reply));
            }
            // Who no longer waits needs no answer.
            Order::Plan { asker, scheduled, reply } => {
                drop(reply.send(self.plan_end(asker, scheduled)));
            }
            Order::CancelPlan(asker, reply) => drop(reply.send(self.cancel_end(asker))),
            Order::Unlocked => self.look_at_plan(),
            Order::Reload { how, reply } => {
                let after = AfterLoad::Report { reply, ordered: Instant::now() };
                self.load(|token| LoaderOrder::Reload { how, token }, after);
            }
            Order::BusName(name, state) => {
                let state = match state {
                    NameState::Owned => BusName::Owned,
                    NameState::Free => BusName::Free,
                    NameState::NoBus => BusName::NoBus,
                };
                if let Some(&unit) =
                    self.peers.bus_names.units.get(name.as_str()).and_then(|units| units.first())
                {
                    self.event_loop.events.push_back(Event::BusName { unit, state });
                }
            }
            Order::ZoneSet(zone) => self.event_loop.events.push_back(Event::ZoneSet(zone)),
            Order::Refer(unit, on) => self.refer(unit, on),
            // Who no longer waits needs no answer.
            Order::Stretch { from, until, reply } => {
                let (kept, began) = self.recording.recorder.kept_since(from.min(now().monotonic));
                drop(reply.send(Stretch {
                    head: self.recording.recorder.live_head(now()),
                    numbers: self.recording.recorder.between(from, until),
                    kept,
                    began,
                    graph: self.core.graph().clone(),
                    formers: self.recording.recorder.formers(),
                }));
            }
            Order::UnderWay(reply) => drop(reply.send(self.recording.recorder.being_recorded())),
            Order::Cut { numbers, reply } => {
                drop(reply.send(self.recording.recorder.piece(numbers)))
            }
            Order::Answered => {
                self.loads.questions.end();
                self.ask_for_strangers();
            }
            Order::Loaded(answer) => self.event_loop.tasks.do_next(Task::Install(answer)),
            Order::FilesChanged => self.announce(Announcement::UnitFilesChanged),
        }
    }

    /// Sends an order to the loader.
    pub(crate) fn load(&mut self, order: impl FnOnce(u64) -> LoaderOrder, after: AfterLoad) {
        let token = self.loads.add(after);
        self.publish_reload();
        self.send_to_loader(order(token));
    }

    /// Says whether a reload is under way.
    fn publish_reload(&self) {
        self.shared.publish_reload(self.loads.is_reloading(), now().monotonic);
    }

    /// The loader answers the client itself.
    fn ask_of_files(&mut self, question: Question, reply: ReplySender) {
        self.send_to_loader(LoaderOrder::Files { question, reply });
    }

    fn send_to_loader(&mut self, order: LoaderOrder) {
        if self.loads.send(order).is_err() {
            say!("the loader thread has exited");
            self.event_loop.leaving = Some(Leaving::Restart);
        }
    }

    // ---- calls ----

    fn take_call(&mut self, asker: Asker, call: Call, reply: ReplySender) {
        match call {
            Call::Enqueue { .. } => self.take_job_call(asker, call, Client::Bus(reply)),
            Call::LoadUnit(_) | Call::GetUnitFileLinks { .. } | Call::LookAtUnitFiles(_) => {
                match is_privileged(asker) {
                    true => self.ask_loader(call, true, reply),
                    false => self.take_stranger(asker, call, reply),
                }
            }
            Call::CancelJob(job) => self.ask(asker, Request::CancelJob(job), Client::Bus(reply)),
            Call::ClearJobs => self.ask(asker, Request::ClearJobs, Client::Bus(reply)),
            Call::ResetFailed(unit) => {
                self.ask(asker, Request::ResetFailed(unit), Client::Bus(reply));
            }
            Call::Kill { unit, whom, signal } => {
                self.ask(asker, Request::Kill { unit, whom, signal }, Client::Bus(reply));
            }
            Call::EnqueueMany { units, job_type, mode, reload_if_possible } => {
                let units = units.into();
                let many = Request::EnqueueMany { units, job_type, mode, reload_if_possible };
                self.ask(asker, many, Client::Bus(reply));
            }
            Call::QueueSignal { unit, whom, signal, value } => {
                reply.send(self.queue_signal(unit, whom, (signal, value)));
            }
            Call::KillSubgroup { unit, subgroup, signal, must_hit } => {
                reply.send(self.kill_subgroup(unit, &subgroup, (signal, must_hit)));
            }
            Call::RemoveSubgroup { unit, subgroup } => {
                reply.send(self.remove_subgroup(unit, &subgroup));
            }
            Call::DumpStoredFds(unit) => reply.send(self.dump_stored(unit)),
            Call::Freeze { unit, frozen } => {
                self.ask(asker, Request::Freeze { unit, frozen }, Client::Bus(reply));
            }
            Call::StartTransient(made) => {
                self.start_transient(asker, *made, reply, AnswerTo::nobody());
            }
            Call::SetMarkers { unit, change } => {
                self.ask(asker, Request::SetMarkers { unit, change }, Client::Bus(reply));
            }
            Call::EnqueueMarked => self.ask(asker, Request::EnqueueMarked, Client::Bus(reply)),
            Call::SetProperties { unit, runtime, dropins } => {
                let after = AfterLoad::Done(reply);
                let order = |token| LoaderOrder::SetProperties { unit, runtime, dropins, token };
                self.load(order, after);
            }
            Call::AbandonScope(unit) => {
                self.ask(asker, Request::AbandonScope(unit), Client::Bus(reply));
            }
            Call::Attach { unit, subgroup, pids } => {
                self.attach_by_call(unit, &subgroup, &pids, reply);
            }
            Call::MountInto { unit, mount } => self.mount_into(unit, &mount, reply),
            Call::ForgetStamp(unit) => self.forget_stamp(unit, reply),
            Call::Clean { unit, kinds } => {
                self.ask(asker, Request::Clean { unit, kinds }, Client::Bus(reply));
            }
            Call::ReloadConfiguration => {
                self.announce(Announcement::Reloading(true));
                let how = Reload::ALL;
                let after = AfterLoad::BusReload(reply);
                self.load(|token| LoaderOrder::Reload { how, token }, after);
            }
            Call::Reexecute => {
                reply.send(Ok(Answer::Done));
                self.reexecute();
            }
            Call::UnitFiles(operation) => self.ask_of_files(Question::Do(operation), reply),
            Call::Leave(how) => {
                // Of these the manual says nothing like it.
                let in_order = matches!(how, Leave::Exit | Leave::SoftReboot);
                self.leave_and_answer(asker, how, in_order, reply);
            }
            Call::LeaveInOrder(how) => self.leave_and_answer(asker, how, true, reply),
            Call::Environment { .. } | Call::SetExitCode(_) | Call::SetProperty(_) => {
                self.event_loop.tasks.do_next(Task::ChangeSettings(call, reply));
            }
        }
    }

    /// Asks what may be for the loader to answer, who goes behind links to servers only if told to.
    fn ask_loader(&mut self, call: Call, goes_far: bool, reply: ReplySender) {
        match call {
            Call::LoadUnit(name) => match self.loaded(&name) {
                Some(unit) => reply.send(Ok(Answer::Unit(unit))),
                None => {
                    let after = AfterLoad::Unit { name: name.clone(), reply };
                    self.load(|token| LoaderOrder::LoadOne { name, goes_far, token }, after);
                }
            },
            Call::GetUnitFileLinks { file, runtime } => {
                self.ask_of_files(Question::Links { file, runtime }, reply);
            }
            Call::LookAtUnitFiles(unit) => {
                self.ask_of_files(Question::Look { unit, goes_far }, reply);
            }
            other => reply.send(self.take_question(other)),
        }
    }

    /// What somebody who may change nothing asks of the loader waits for its turn.
    fn take_stranger(&mut self, asker: Asker, call: Call, reply: ReplySender) {
        if let Err((_, reply)) = self.loads.questions.add(asker.uid, (call, reply)) {
            let text = "Too many questions about unit files at once.";
            reply.send(Err(BusError::limits_exceeded(text)));
        }
        self.ask_for_strangers();
    }

    /// Asks the next question of theirs that somebody still waits for.
    pub(crate) fn ask_for_strangers(&mut self) {
        while let Some((call, reply)) = self.loads.questions.begin(Instant::now()) {
            if reply.is_in_vain() {
                self.loads.questions.end();
                continue;
            }
            let shared = self.shared.clone();
            let reply = ReplySender::new(move |outcome| {
                reply.send(outcome);
                shared.order(Order::Answered);
            });
            self.ask_loader(call, false, reply);
        }
    }

    pub(super) fn take_question(&mut self, call: Call) -> Outcome {
        match call {
            Call::Environment { unset, set } => self.change_environment(&unset, &set),
            Call::SetExitCode(exit_code) => {
                let settings = self.recording.state.client_settings().clone();
                self.set_client_settings(ClientSettings { exit_code, ..settings });
                Ok(Answer::Done)
            }
            Call::SetProperty(setting) => self.set_by_client(setting),
            // The rest is answered where it was taken.
            _ => Err(BusError::not_supported("This version does not support this.")),
        }
    }

    fn set_by_client(&mut self, setting: ManagerSetting) -> Outcome {
        let mut settings = self.recording.state.client_settings().clone();
        match setting {
            ManagerSetting::LogLevel(level) => settings.log.level = level,
            ManagerSetting::LogTarget(word) => {
                if !word.is_empty() && Target::parse(&word).is_none() {
                    let text = "The manager logs to auto, console, journal or null.";
                    return Err(BusError::invalid_args(text));
                }
                settings.log.target = Some(word).filter(|word| !word.is_empty()).map(Into::into);
            }
            ManagerSetting::ServiceWatchdogs(on) => settings.service_watchdogs = Some(on),
            ManagerSetting::ShowStatus(shown) => settings.show_status = shown,
            ManagerSetting::WatchdogTime(property, time) => {
                let place = match property {
                    WatchdogProperty::Runtime => &mut settings.watchdog.runtime_us,
                    WatchdogProperty::Pre => &mut settings.watchdog.pre_us,
                    WatchdogProperty::Reboot => &mut settings.watchdog.reboot_us,
                    WatchdogProperty::Kexec => &mut settings.watchdog.kexec_us,
                };
                *place = Some(time.usec());
            }
            ManagerSetting::WatchdogGovernor(name) => {
                settings.watchdog.governor = Some(name.into())
            }
        }
        self.set_client_settings(settings);
        Ok(Answer::Done)
    }

    /// A signal of systemd(1) that says how the manager tells of what it does, counted from SIGRTMIN. Others are ignored.
    pub(crate) fn set_by_signal(&mut self, real_time: i32) {
        let target = |word: &str| ManagerSetting::LogTarget(word.to_owned());
        let setting = match real_time {
            20 => ManagerSetting::ShowStatus(Some(ShowStatus::Yes)),
            21 => ManagerSetting::ShowStatus(Some(ShowStatus::No)),
            22 => ManagerSetting::LogLevel(Some(DEBUG)),
            23 => ManagerSetting::LogLevel(None),
            26 => target(""),
            27 => target(Target::Console.as_str()),
            28 => return say!("the manager has no log target kmsg: ignoring SIGRTMIN+28"),
            _ => return,
        };
        self.set_by_client(setting).expect("these words are known");
    }

    /// It is written down before it is promised: the next manager goes on with it.
    fn leave_and_answer(&mut self, asker: Asker, how: Leave, in_order: bool, reply: ReplySender) {
        let outcome = self.leave_by_call(asker, how, in_order);
        self.event_loop.tasks.do_next(Task::Reply(reply, outcome));
    }

    fn leave_by_call(&mut self, asker: Asker, how: Leave, in_order: bool) -> Outcome {
        let action = match how {
            Leave::Exit => PowerAction::Exit(self.shared_exit_code()),
            Leave::Reboot => PowerAction::Reboot,
            Leave::PowerOff => PowerAction::PowerOff,
            Leave::Halt => PowerAction::Halt,
            Leave::KExec => PowerAction::Kexec,
            Leave::SoftReboot => PowerAction::SoftReboot,
        };
        if let Some(why) = self.cannot_overtake(action) {
            return Err(BusError::failed(why));
        }
        match crate::base::power_action::cannot_follow(action, self.options.scope) {
            // Once everything is down something must follow: init boots again then.
            Some(why) if self.stages.shutdown.under_way.is_none() => Err(BusError::failed(why)),
            _ => {
                let by = AskedBy::Client(asker);
                match in_order {
                    true => self.begin_end(action, by),
                    false => self.end_without_stopping(action, by),
                }
                Ok(Answer::Done)
            }
        }
    }

    pub(crate) fn shared_exit_code(&self) -> u8 {
        use warren_bus::backend::Backend;
        self.shared.facts().exit_code
    }

    pub(super) fn ask(&mut self, asker: Asker, request: Request, client: Client) {
        if let Request::Enqueue { unit, job_type: JobType::Start, .. } = request {
            self.look_where_it_is(unit);
        }
        let client = self.clients.add(client);
        self.event_loop.events.push_back(Event::Request { client, asker, request });
    }

    /// A call that makes a job: its unit is loaded first if nothing has led to it yet.
    fn take_job_call(&mut self, asker: Asker, call: Call, client: Client) {
        let Call::Enqueue { unit, job_type, mode, reload_if_possible } = &call else {
            if let Client::Waiter(reply) = client {
                let text = "only jobs can be waited for".to_owned();
                reply.send(JobOutcome::Refused { text, about: None });
            }
            return;
        };
        match self.loaded(unit) {
            Some(unit) => {
                let request = Request::Enqueue {
                    unit,
                    job_type: *job_type,
                    mode: *mode,
                    reload_if_possible: *reload_if_possible,
                };
                self.ask(asker, request, client);
            }
            None => {
                let name = unit.clone();
                let after = AfterLoad::Enqueue { asker, call, client };
                self.load(|token| LoaderOrder::LoadOne { name, goes_far: true, token }, after);
            }
        }
    }

    /// The unit of that name, unless it is about to be forgotten.
    fn known(&self, name: &UnitName) -> Option<UnitId> {
        self.core.graph().lookup(name).filter(|&unit| !self.loads.collector.is_leaving(unit))
    }

    /// The same, but for a name that is only mentioned somewhere: it may have got a file since.
    pub(super) fn loaded(&self, name: &UnitName) -> Option<UnitId> {
        self.known(name).filter(|&unit| {
            let definition = self.core.graph().definition(unit);
            definition.load_state != LoadState::NotFound
                || !self.core.unit_run(unit).active_state().is_down()
        })
    }

    // ---- what the loader made ----

    /// Puts what the loader made in force. What was asked before is of the generation before: a start that
    /// overtook the news that a mount of the new one is there would mount over it.
    pub(super) fn install(&mut self, answer: Box<LoaderAnswer>) {
        let (began, commit_began) = (Instant::now(), now().monotonic);
        let before = self.core.graph().clone();
        let is_other = |graph: &Graph| {
            graph.generation() != before.generation() || graph.len() != before.len()
        };
        let is_committed = !answer.dry_run && is_other(&answer.loading.graph);
        if let Some(defaults) = answer.defaults.as_ref().filter(|_| !answer.dry_run) {
            let defaults = Arc::new(self.options.at_this_boot((**defaults).clone()));
            self.shared.set_defaults(defaults.clone());
            self.follow_crash_settings();
            let stated_by_clients = self.recording.state.client_settings().clone();
            self.follow_client_settings(&stated_by_clients);
            self.follow_watchdog();
            self.event_loop.events.push_back(Event::Defaults(defaults));
        }
        if is_committed {
            let (graph, delta) = (&answer.loading.graph, &answer.loading.delta);
            // To what has no history nothing ever happened.
            let happened = |unit: &&UnitId| self.core.unit_run(**unit).history.is_some();
            let forgotten: Vec<UnitId> = delta.forgotten.iter().filter(happened).copied().collect();
            self.recording.recorder.forgotten(now().monotonic, &forgotten, &before);
            let (graph, delta) = (graph.clone(), Box::new(delta.clone()));
            self.event_loop.events.push_back(Event::Commit { graph, delta });
        }
        let installed = Installed { began, commit_began, is_committed, before, answer };
        self.event_loop.tasks.do_next(Task::AfterInstall(Box::new(installed)));
    }

    /// What follows once a generation is in force.
    pub(super) fn installed(&mut self, installed: Installed) {
        let Installed { began, commit_began, is_committed, before, answer } = installed;
        let LoaderAnswer { token, loading, dry_run, error, done, cpu_us, states, .. } = *answer;
        let delta = loading.delta;
        if is_committed {
            // Also what nothing follows from, such as a unit that is not there.
            self.shared.publish(Arc::new(self.core.view()));
            self.tell_new_devices(&loading.graph, &delta);
            let units = delta.added.iter().chain(&delta.changed).chain(&delta.removed).copied();
            self.triggers.mounts.tell_again(&loading.graph, units);
            let changes = self.triggers.mounts.take(&loading.graph);
            self.take_mount_changes(changes);
        }
        if !dry_run {
            // What lost its file, and what nothing names any more.
            let less = [&delta.changed, &delta.removed, &delta.rewired];
            self.note_idle(less.into_iter().flatten());
            self.record_reload(done, cpu_us, commit_began);
        }
        if let Some(begun) = answer.environment {
            self.spawning.environment.set_begun(begun);
            let all = self.spawning.environment.texts();
            self.shared.change_facts(|facts| facts.environment = all);
        }
        if let Some(states) = states {
            self.shared.publish_states(states);
        }
        if let Some(rules) = loading.rules.as_ref().filter(|_| !dry_run) {
            self.shared.publish_rules(rules.after.clone());
        }
        if !self.loads.is_reported(token) {
            crate::daemon::unit_log::diagnostics(&loading.diagnostics);
        }
        let after = self.loads.take(token);
        if after.as_ref().is_some_and(AfterLoad::is_reload) && !dry_run {
            self.refill_nft_sets();
            if is_committed {
                self.shared.reloads.add(now(), &loading.graph, &delta);
            }
        }
        self.publish_reload();
        match after {
            Some(AfterLoad::Enqueue { asker, call, client }) => {
                self.enqueue_loaded(asker, call, client)
            }
            // The client is to see what is known of the unit, not what it was made as.
            Some(AfterLoad::Unit { name, reply }) => {
                self.event_loop.tasks.do_next(Task::AnswerUnit { name, reply });
            }
            Some(AfterLoad::BusReload(reply)) => {
                self.announce(Announcement::Reloading(false));
                reply.send(error.map_or(Ok(Answer::Done), |text| Err(BusError::failed(text))));
            }
            Some(AfterLoad::SignalReload) => {
                self.announce(Announcement::Reloading(false));
                if let Some(error) = error {
                    say!("SIGHUP: reload failed: {error}");
                }
            }
            Some(AfterLoad::Report { reply, ordered }) => {
                let mut report = Report {
                    work: loading.work,
                    diagnostics: loading.diagnostics,
                    error,
                    ..Report::default()
                };
                report.name(&loading.graph, &delta);
                report.rules = loading.rules.clone();
                let graphs = Some([before, loading.graph.clone()]);
                report.changed_up = ChangedUp { units: self.changed_up(&delta), graphs };
                report.loop_us = began.elapsed().as_micros() as u64;
                report.took_us = ordered.elapsed().as_micros() as u64;
                reply.send(report);
            }
            Some(AfterLoad::Transient(started)) => self.transient_loaded(*started, error),
            Some(AfterLoad::Done(reply)) => {
                reply.send(error.map_or(Ok(Answer::Done), |text| Err(BusError::failed(text))));
            }
            Some(AfterLoad::Connection(waiting)) => self.connection_loaded(*waiting),
            Some(AfterLoad::Forgotten(asked)) => self.forgotten(&asked, &delta),
            Some(AfterLoad::Mounts) => {
                self.triggers.mounts.loaded();
            }
            Some(AfterLoad::Wanted(device)) => self.wanted_loaded(device),
            Some(AfterLoad::Nothing) | None => {}
        }
    }

    /// Keeps a recording of what the loader did, if that was a reload, and of what followed; `cpu_us` is the
    /// manager's CPU time when it began.
    fn record_reload(&mut self, mut done: Vec<Done>, cpu_us: u64, commit_began: Monotonic) {
        let Some(first) = done.first().copied() else { return };
        let at = now();
        self.shared.change_facts(|facts| facts.units_load = at);
        // What was made lies there until the loop has a moment for it.
        if let Some(began) = done.last().map(|last| last.ended) {
            done.push(Done { phase: Phase::Loop, began, ended: commit_began, detail: 0 });
        }
        let linked = done.iter().find(|done| done.phase == Phase::Link);
        let detail = linked.map_or(0, |linked| linked.detail);
        let apply = Done { phase: Phase::Apply, began: commit_began, ended: at.monotonic, detail };
        done.push(apply);
        let whole = Done { phase: Phase::Reload, began: first.began, ..apply };
        done.insert(0, whole);
        let took_us = at.monotonic.0.saturating_sub(first.began.0);
        let realtime_us = at.realtime_us.saturating_sub(took_us);
        let began = Moment { monotonic: first.began, realtime_us };
        let loop_us = at.monotonic.0.saturating_sub(commit_began.0);
        self.shared.counters.reloaded(took_us, loop_us);
        self.recording.recorder.reloaded(began, cpu_us, &done, self.core.graph());
    }

    /// Answers which unit a client asked for.
    pub(super) fn answer_unit(&mut self, name: &UnitName, reply: ReplySender) {
        let unit = self.core.graph().lookup(name);
        // Nothing but this question may have led to it.
        self.note_idle(&unit.into_iter().collect::<Vec<_>>());
        let not_found = || BusError::no_such_unit(format!("Unit {name} not found."));
        reply.send(unit.map(Answer::Unit).ok_or_else(not_found));
    }

    /// A mount that is to be started may not be where it was: then it is told of before.
    fn look_where_it_is(&mut self, unit: UnitId) {
        let graph = self.core.graph().clone();
        let name = graph.name(unit);
        if name.unit_type() == UnitType::Mount && self.triggers.mounts.is_mounted(name) {
            self.triggers.mounts.look_again(name);
            let changes = self.triggers.mounts.take(&graph);
            self.take_mount_changes(changes);
        }
    }

    fn enqueue_loaded(&mut self, asker: Asker, call: Call, client: Client) {
        let Call::Enqueue { unit, job_type, mode, reload_if_possible } = call else { return };
        match self.core.graph().lookup(&unit) {
            Some(unit) => {
                // If it is refused, nothing else leads to it.
                self.note_idle(&[unit]);
                let request = Request::Enqueue { unit, job_type, mode, reload_if_possible };
                self.ask(asker, request, client);
            }
            None => {
                let text = format!("Unit {unit} not found.");
                match client {
                    Client::Bus(reply) | Client::BusAndWaiter(reply, _) => {
                        reply.send(Err(BusError::no_such_unit(text)));
                    }
                    Client::Waiter(reply) => {
                        reply.send(JobOutcome::Refused { text, about: Some(unit) });
                    }
                }
            }
        }
    }

    /// Active units whose files changed.
    fn changed_up(&self, delta: &Delta) -> Vec<UnitId> {
        let is_up = |unit: &UnitId| {
            let state = self.core.unit_run(*unit).active_state();
            matches!(state, ActiveState::Active | ActiveState::Reloading)
        };
        delta.changed.iter().copied().filter(is_up).collect()
    }

    pub(crate) fn announce(&self, what: Announcement) {
        if let Some(bus) = &self.clients.servers.bus {
            bus.announce(what);
        }
    }

    pub(crate) fn reload_by_signal(&mut self) {
        self.announce(Announcement::Reloading(true));
        let how = Reload::ALL;
        self.load(|token| LoaderOrder::Reload { how, token }, AfterLoad::SignalReload);
    }

    /// A new manager takes over; everything it needs is written down already.
    pub(crate) fn reexecute(&mut self) {
        self.announce(Announcement::Reloading(true));
        self.event_loop.leaving = Some(Leaving::Restart);
    }

    // ---- the environment, references, the first unit ----

    fn change_environment(&mut self, unset: &[String], set: &[String]) -> Outcome {
        let environment =
            self.spawning.environment.changed(unset, set).map_err(BusError::invalid_args)?;
        let settings = self.recording.state.client_settings().clone();
        let environment = Some(environment);
        self.set_client_settings(ClientSettings { environment, ..settings });
        Ok(Answer::Done)
    }

    fn set_client_settings(&mut self, settings: ClientSettings) {
        self.follow_client_settings(&settings);
        self.follow_watchdog();
        self.recording.state.set_client_settings(settings);
    }

    /// Follows what clients set, of this manager or of the one before it.
    pub(crate) fn follow_client_settings(&mut self, settings: &ClientSettings) {
        if let Some(environment) = &settings.environment {
            self.spawning.environment.set_clients(environment.clone());
        }
        let all = self.spawning.environment.texts();
        let ClientLog { level, target } = &settings.log;
        let target = target.as_deref().and_then(Target::parse);
        let stated = self.shared.facts().defaults.clone();
        let level = level.or_else(|| self.options.log_level(&stated));
        let target = target.unwrap_or_else(|| self.options.log_target(&stated));
        restrict(level, Some(target));
        let show_status = settings.show_status.or(stated.show_status);
        set_show_status(show_status);
        set_style(stated.line_style);
        let at_boot = || self.options.service_watchdogs();
        let service_watchdogs = settings.service_watchdogs.or_else(at_boot).unwrap_or(true);
        if self.shared.facts().service_watchdogs != service_watchdogs {
            self.event_loop.events.push_back(Event::ServiceWatchdogs(service_watchdogs));
        }
        let watchdog = Daemon::watchdog_with(&stated.watchdog, &settings.watchdog);
        self.shared.change_facts(|facts| {
            let word = level.and_then(|level| LOG_LEVELS.get(usize::from(level)));
            facts.log_level =
                word.map_or_else(|| Facts::default().log_level, |word| (*word).to_owned());
            facts.log_target = target.as_str().to_owned();
            facts.environment = all;
            facts.exit_code = settings.exit_code;
            facts.service_watchdogs = service_watchdogs;
            facts.show_status = show_status;
            facts.watchdog = watchdog;
        });
    }

    /// The first transaction: what the manager is started for.
    pub(crate) fn start_first_unit(&mut self) {
        self.stages.startup.is_first_unit_requested = true;
        self.recording.recorder.first_unit_asked(now());
        let name = self.options.unit.clone().unwrap_or_else(|| "default.target".to_owned());
        let Ok(unit) = UnitName::parse(&name) else {
            return say!("--unit={name}: not a valid unit name");
        };
        if self
            .core
            .graph()
            .lookup(&unit)
            .is_none_or(|unit| self.core.graph().definition(unit).load_state == LoadState::NotFound)
        {
            return say!("{unit} does not exist: starting nothing");
        }
        let call = Call::Enqueue {
            unit,
            job_type: JobType::Start,
            mode: JobMode::Replace,
            reload_if_possible: false,
        };
        self.take_job_call(Asker::default(), call, Client::Waiter(AnswerTo::nobody()));
    }
}

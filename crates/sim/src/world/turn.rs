//! The loop: takes what happens next, steps the core, hands its effects to the kernel, and kills
//! the manager now and then.
//!
//! As the real manager does, the run state of the units that changed is written down after each
//! batch of steps and before any effect of them is carried out. A crash drops the core and makes a new
//! one from what was written.

use std::collections::BTreeSet;
use std::sync::Arc;

use warren_core::graph::Graph;
use warren_core::model::ids::{ClientId, EffectId, UnitId};
use warren_core::model::time::Monotonic;
use warren_core::persist::generation;
use warren_core::persist::generation::Reader;
use warren_core::persist::run_state;
use warren_core::persist::run_state::Restored;
use warren_core::protocol::event::{Effect, Event};
use warren_core::protocol::request::{Asker, Notice, Request};
use warren_unit::{UnitName, UnitType};

use super::{World, new_core};
use crate::batches;
use crate::checks;
use crate::kernel::{Happening, MS};
use crate::reloads;
use crate::restarts;
use crate::timers;
use crate::told::Told;
use crate::units::UnitTexts;
use crate::watchdogs;

/// Events that one run may take: a manager that is busier than this without time passing is in a
/// loop.
const EVENTS_MAX: u64 = 200_000;

impl World {
    /// Has an effect carried out. What is mounted over an automount point goes with it.
    fn accept(&mut self, effect: Effect) {
        if let Effect::CloseTrap { unit } = effect {
            let graph = self.core.graph();
            let mount = graph.name(unit).change_type(warren_unit::UnitType::Mount);
            if let Some(mount) = mount.ok().and_then(|name| graph.lookup(&name)) {
                self.kernel.mount_by_hand(mount, false);
            }
        }
        self.kernel.accept(effect);
    }

    fn note(&mut self, line: String) {
        let ms = self.kernel.now / MS;
        self.log.push(format!("{:>6}.{:03} {line}", ms / 1000, ms % 1000));
    }

    /// Does what comes next, if it comes before `until` µs; false if nothing does.
    pub fn turn(&mut self, until: u64) -> bool {
        let now = self.kernel.now;
        if self.kernel.next_time().is_none_or(|at| at > now || at > until) {
            self.write_batch();
        }
        let deadline = self.core.next_deadline().map(|at| at.0);
        let planned = self.kernel.next_time();
        match (deadline, planned) {
            (Some(at), next) if at <= until && next.is_none_or(|next| at < next) => {
                self.wrong.extend(checks::stops_wait_for_somebody(self, at));
                self.kernel.now = self.kernel.now.max(at);
                self.step(Event::Tick);
            }
            (_, Some(at)) if at <= until => {
                let what = self.kernel.take_next().expect("it was just looked at");
                self.happen(what);
            }
            _ => {
                self.kernel.now = self.kernel.now.max(until);
                return false;
            }
        }
        true
    }

    /// Goes on until `until` µs, or until something is wrong.
    pub fn run_until(&mut self, until: u64) {
        while self.wrong.is_empty() && self.turn(until) {
            if self.events > EVENTS_MAX {
                self.wrong.push("endless: the manager never comes to rest".to_owned());
            }
        }
    }

    /// Sockets that were opened for nobody are closed by the manager when it hears of them.
    fn close_unwanted(&mut self, id: EffectId) {
        let Some(unit) = self.kernel.take_opened(id) else { return };
        if self.core.effect_unit(id).is_none() && !self.core.unit_run(unit).holds_sockets() {
            self.kernel.sockets.remove(&unit);
        }
    }

    fn happen(&mut self, what: Happening) {
        match what {
            Happening::Carry(effect) => {
                let is_unwanted = |id| self.core.is_unwanted(id);
                match &effect {
                    Effect::Spawn(id, _) if is_unwanted(*id) => self.kernel.spawn_unwanted(effect),
                    _ => self.kernel.carry(effect),
                }
                self.wrong.append(&mut self.kernel.wrong);
            }
            Happening::Answer(id) => {
                if let Some(result) = self.kernel.take_answer(id) {
                    self.close_unwanted(id);
                    self.step(Event::Done { effect: id, result });
                }
            }
            Happening::Tell(mut event) => {
                self.look_at_main_pid(&mut event);
                let again = self.kernel.random.chance(self.kernel.faults.repeat);
                if again && is_repeatable(&event) {
                    self.kernel.later(2 * MS, Happening::Tell(event.clone()));
                }
                self.step(event);
            }
            Happening::Exit(index) => {
                let (pid, status) = self.kernel.take_exit(index);
                self.step(Event::Exited { pid, status });
            }
            Happening::Step(pid) => self.kernel.step(pid),
            Happening::LookAtGroup(unit) => {
                if self.kernel.members(unit).is_empty() {
                    self.step(Event::CgroupEmpty { unit, cpu_us: Some(1) });
                }
            }
            Happening::LookAtMemory(unit, run) => {
                if self.kernel.run_of(unit) == run {
                    self.step(Event::OutOfMemory { unit });
                }
            }
            Happening::LookAtMount(unit) => {
                let there = self.kernel.mounts.contains(&unit);
                self.step(if there { Event::Mounted { unit } } else { Event::Unmounted { unit } });
            }
            Happening::LookAtSocket(unit) => self.look_at_socket(unit),
            Happening::Drain(units) => self.kernel.drain(&units),
            Happening::Ask(verb, name) => {
                self.order(verb, &name, warren_core::model::job::JobMode::Replace);
            }
            Happening::Workload => {}
        }
    }

    /// The runner passes on the name of a main process only if there is such a process.
    fn look_at_main_pid(&self, event: &mut Event) {
        if let Event::Notify { message, .. } = event {
            message.main_pid = message.main_pid.filter(|p| self.kernel.processes.contains_key(p));
        }
    }

    fn look_at_socket(&mut self, unit: UnitId) {
        let Some(socket) = self.kernel.sockets.get(&unit) else { return };
        match socket.watched.filter(|_| socket.waiting > 0) {
            Some(false) => self.step(Event::Incoming { unit }),
            Some(true) => self.connect(unit),
            None => {}
        }
    }

    /// A connection is accepted: its instance is loaded, then the core is told.
    fn connect(&mut self, socket: UnitId) {
        self.kernel.drain(&[socket]);
        let number = self.instances;
        self.instances += 1;
        let prefix = self.core.graph().name(socket).prefix().to_owned();
        let text = format!("{prefix}@{}.service", self.instances);
        let Ok(name) = UnitName::parse(&text) else { return };
        let mut texts = self.texts.clone();
        if !texts.set_instance(name.clone()) {
            return self.step(Event::ConnectionUnserved { socket });
        }
        self.connected.insert(name.clone());
        self.load(texts);
        if let Some(instance) = self.core.graph().lookup(&name) {
            self.kernel.connections.insert(instance);
            self.step(Event::Connection { socket, instance, number });
        }
    }

    /// Steps the core and everything that belongs to a step.
    pub fn step(&mut self, event: Event) {
        self.events += 1;
        self.note(format!("> {}", self.describe_event(&event)));
        self.begin(&event);
        self.heard.repeats.hear(self.kernel.now, &event);
        let before = checks::Before::of(&self.core);
        self.heard.watchdogs.hear(&self.core, self.kernel.now, &event);
        let triggered = watchdogs::triggered(&self.core, &event);
        let unspawned = reloads::unspawned(&self.core, &event);
        let effects = self.core.step(self.moment(), event);
        self.wrong.extend(watchdogs::ends_by_trigger(&self.core, triggered));
        self.wrong.extend(reloads::goes_on(&self.core, unspawned));
        self.after_step(&before, effects);
    }

    /// An event is about to be taken.
    fn begin(&mut self, event: &Event) {
        self.given_up |= matches!(event, Event::GiveUp);
        if self.kernel.faults.batch > 0 {
            self.batch.begin(event, &self.heard);
        }
    }

    fn after_step(&mut self, before: &checks::Before, effects: Vec<Effect>) {
        for effect in &effects {
            self.listen_to(effect);
            self.look_for_repeats(effect);
        }
        self.wrong.extend(checks::nothing_starts(self, &effects));
        self.wrong.extend(crate::devices::mounts_have_devices(self, &effects));
        self.hear(before);
        let owed = before.owed(self);
        self.heard.owed.extend(owed);
        self.batch.add(effects);
        let more = self.kernel.faults.batch;
        let takes_more = more > 0 && !self.core.is_behind() && self.kernel.random.chance(more);
        if !takes_more || !self.wrong.is_empty() {
            self.write_out();
        }
        self.go_on_behind();
    }

    /// Ends a batch, if there is one.
    fn write_batch(&mut self) {
        if !self.batch.is_empty() {
            self.write_out();
            self.go_on_behind();
        }
    }

    /// Writes down what a batch of steps changed and has its effects carried out, unless the manager is
    /// killed before the one, or in the middle of the other.
    fn write_out(&mut self) {
        if !self.batch.is_empty() && self.wrong.is_empty() {
            let crash = self.kernel.faults.crash;
            if self.kernel.random.chance(crash) {
                return self.lose_batch();
            }
        }
        self.write_down();
        let effects = self.batch.written();
        let crashes = self.kernel.random.chance(self.kernel.faults.crash);
        let carried = match crashes {
            true => self.kernel.random.index(effects.len() + 1),
            false => effects.len(),
        };
        let mut effects = effects.into_iter();
        for effect in effects.by_ref().take(carried) {
            self.accept(effect);
        }
        if crashes && self.wrong.is_empty() {
            self.crash();
            // The head of the batch names them, with others (`run_state::Late`): the next manager gives them
            // again.
            let answers = effects.filter(|effect| {
                matches!(effect, Effect::AnswerTrap { .. } | Effect::StampTimer { .. })
            });
            answers.for_each(|effect| self.kernel.accept(effect));
        }
    }

    /// The manager is killed before it has written what it took last.
    fn lose_batch(&mut self) {
        let (heard, events) = self.batch.lost();
        self.heard = heard;
        self.note(format!("{} events are lost", events.len()));
        batches::keep_answers(&mut self.kernel, &events);
        self.begin_again();
        batches::tell_again(&mut self.kernel, events);
    }

    /// What a step has left to do is done in the next one.
    fn go_on_behind(&mut self) {
        if !self.core.is_behind() {
            self.steps_behind = 0;
        } else if self.wrong.is_empty() {
            self.steps_behind += 1;
            if self.steps_behind > STEPS_BEHIND_MAX {
                self.wrong.push("endless: one event is never worked off".to_owned());
            }
            self.step(Event::Tick);
        }
    }

    /// What the core tells of the step is looked at, and what is after it.
    fn hear(&mut self, before: &checks::Before) {
        let (happenings, lost) = self.core.take_happenings();
        self.wrong.extend(checks::after_step(self, before, &happenings));
        self.wrong.extend(self.heard.told.hear(&self.core, &happenings, lost));
        self.wrong.extend(self.heard.jobs.hear(&self.core, &happenings));
        self.wrong.extend(reloads::starts_once(&self.core, &happenings));
        self.heard.restarts.hear(&happenings);
        self.wrong.extend(self.heard.restarts.check(&self.core, &before.states, &happenings));
        self.wrong.extend(restarts::seen(&self.core, &happenings));
        self.wrong.extend(self.heard.places.check(&self.core, &before.states, &happenings));
    }

    fn look_for_repeats(&mut self, effect: &Effect) {
        let Some((id, what)) = effect.id().zip(self.describe_effect(effect)) else { return };
        self.wrong.extend(self.heard.repeats.ask(self.kernel.now, id, what));
    }

    /// Notes what the core says.
    fn listen_to(&mut self, effect: &Effect) {
        match effect {
            Effect::Reply { client, reply } => {
                self.replies.insert(*client, reply.clone());
            }
            Effect::Tell(Notice::JobRemoved { job, unit, result, .. }) => {
                self.results.push((*job, *unit, *result));
            }
            Effect::Tell(Notice::RequestStop(unit)) => self.kernel.ask_controller(*unit),
            Effect::Tell(Notice::RemovalGivenUp { unit, paths }) => {
                self.kernel.leave_directories(*unit, paths);
            }
            _ => {}
        }
        let line = self.describe_effect(effect);
        if let Some(line) = line {
            self.note(format!("  {line}"));
        }
    }

    // ---- files and requests ----

    /// Puts other unit files in force.
    pub fn load(&mut self, texts: UnitTexts) {
        let old = self.core.graph().clone();
        let old = Graph::clone(&old).with_resting_min(0);
        let (graph, delta) = old.apply(texts.changes_from(&self.texts));
        self.texts = texts;
        self.wrong.extend(checks::same_from_scratch(&graph, &self.texts));
        let empty = delta.is_empty();
        self.heard.repeats.forget();
        let before = checks::Before::of(&self.core);
        let event = Event::Commit { graph: Arc::new(graph), delta: Box::new(delta) };
        self.begin(&event);
        let effects = self.core.step(self.moment(), event);
        self.note_leavers();
        if empty && !effects.is_empty() {
            self.wrong.push(format!("reload-empty: an empty change did {}", effects.len()));
        }
        self.after_step(&before, effects);
        self.tell_of_devices();
    }

    /// Forgets the instances of connections that are over, with those that name each other with them.
    pub fn forget(&mut self) {
        let mut texts = self.texts.clone();
        let graph = self.core.graph();
        let over = |name: &UnitName| self.core.forgotten_with(graph.lookup(name)?, |_| false);
        let groups = self.connected.iter().filter_map(over).flatten();
        let names: Vec<UnitName> = groups.map(|unit| graph.name(unit).clone()).collect();
        let (graph, delta) = graph.forget(&names);
        for &unit in &delta.forgotten {
            let name = self.core.graph().name(unit).clone();
            self.leavers.remove(&unit);
            self.connected.remove(&name);
            texts.remove(&name);
        }
        texts.note_lingering(&graph);
        self.texts = texts;
        self.wrong.extend(checks::same_from_scratch(&graph, &self.texts));
        let before = checks::Before::of(&self.core);
        let event = Event::Commit { graph: Arc::new(graph), delta: Box::new(delta) };
        self.begin(&event);
        let effects = self.core.step(self.moment(), event);
        self.after_step(&before, effects);
    }

    fn note_leavers(&mut self) {
        for definition in self.core.graph().definitions() {
            let name = &definition.name;
            let text = self.texts.text(name).or_else(|| self.texts.text(&name.template()?));
            if text.is_some_and(checks::allows_left_overs) {
                self.leavers.insert(definition.id);
            }
        }
    }

    /// Asks for a job by systemctl's verb. Unknown names are refused by the loader, not here.
    pub fn order(&mut self, verb: &str, name: &str, mode: warren_core::model::job::JobMode) {
        use warren_core::model::job::{JobMode, JobType};
        let Some(unit) = self.unit(name) else { return };
        let (job_type, reload_if_possible) = match verb {
            "reload-or-restart" => (JobType::Restart, true),
            "try-reload-or-restart" => (JobType::TryRestart, true),
            "isolate" => (JobType::Start, false),
            _ => match JobType::from_word(verb) {
                Some(job_type) => (job_type, false),
                None => return,
            },
        };
        let mode = if verb == "isolate" { JobMode::Isolate } else { mode };
        self.lawless |= matches!(mode, JobMode::IgnoreDependencies | JobMode::IgnoreRequirements);
        self.heard.jobs.requirements_ignored |= mode == JobMode::IgnoreRequirements;
        self.heard.jobs.order_ignored = mode == JobMode::IgnoreDependencies;
        self.request(Request::Enqueue { unit, job_type, mode, reload_if_possible });
    }

    /// Sends a request as a client of its own; returns the client.
    pub fn request(&mut self, request: Request) -> ClientId {
        self.clients += 1;
        let client = ClientId(self.clients);
        self.step(Event::Request { client, asker: Asker { uid: 0, pid: 1 }, request });
        client
    }

    /// The files as they are on disk now, without one more change.
    pub fn reload_nothing(&mut self) {
        let texts = self.texts.clone();
        let before = timers::plans(&self.core);
        self.load(texts);
        self.wrong.extend(timers::reload_changes_nothing(&self.core, &before));
    }

    // ---- the state file ----

    fn write_down(&mut self) {
        let graph = self.core.graph().clone();
        for unit in self.core.take_renamed() {
            if unit.index() < self.names_written {
                run_state::write_name(&mut self.file, &graph, unit);
            }
        }
        run_state::write_names(&mut self.file, &graph, self.names_written);
        self.names_written = graph.len();
        for unit in self.core.take_changed().into_iter().chain(self.core.take_rearmed()) {
            self.write_unit(unit);
        }
        run_state::write_manager(&mut self.file, self.core.manager_record());
    }

    fn write_unit(&mut self, unit: UnitId) {
        let group = self.core.placed_at(unit);
        run_state::write_unit(&mut self.file, unit, self.core.unit_run(unit), group.as_deref());
    }

    /// Kills the manager and starts another one.
    pub fn crash(&mut self) {
        if !self.batch.is_empty() {
            return self.lose_batch();
        }
        let written = run_state::read(&self.file);
        let same = written.map(|restored| checks::same_state(&self.core, &restored));
        self.wrong.extend(same.unwrap_or_default());
        self.begin_again();
    }

    /// The manager is killed, and another one starts with what was written.
    fn begin_again(&mut self) {
        self.crashes += 1;
        self.note("the manager is killed".to_owned());
        self.kernel.manager_died();
        let restored = match run_state::read(&self.file) {
            Ok(restored) => restored,
            Err(error) => return self.wrong.push(format!("state-file: {error:?}")),
        };
        if restored.valid_bytes != self.file.len() {
            self.wrong.push("state-file: it has a frame that cannot be read".to_owned());
        }
        let graph = self.generation_after_kill(&restored);
        let without_swaps = self.core.totals().without_swaps;
        self.core = new_core(self.seed);
        self.core.set_without_swaps(without_swaps);
        self.core.set_sight(self.devices.sight);
        self.core.set_place_in_time(Monotonic(0), self.kernel.wall.zone.clone());
        let written: BTreeSet<UnitId> = restored.runs.keys().copied().collect();
        let effects = self.core.recover(self.moment(), Arc::new(graph), restored);
        self.wrong.extend(checks::nothing_made_up(self, &written));
        self.heard.told = Told::of(&self.core);
        self.heard.jobs.begin_anew(&self.core);
        let (happenings, _) = self.core.take_happenings();
        self.heard.restarts.hear(&happenings);
        self.start_file_again();
        for effect in &effects {
            self.listen_to(effect);
        }
        self.wrong.extend(checks::at_any_time(self));
        effects.into_iter().for_each(|effect| self.accept(effect));
        self.reconcile();
        self.tell_of_devices();
    }

    /// The generation that was in force, as it was written down. That is lost sometimes, or does not go with what
    /// else was: then it is what the files say.
    fn generation_after_kill(&self, restored: &Restored) -> Graph {
        let (in_force, names) = (self.core.graph(), &restored.names);
        let is_in_force = restored.manager.is_some_and(|m| m.generation == in_force.generation());
        let mut reader = Reader::new(names.clone(), in_force.generation());
        let mut pieces = generation::write_batch(None, in_force);
        let is_kept = is_in_force && !self.crashes.is_multiple_of(3);
        let is_read = is_kept && pieces.all(|piece| reader.take(&piece).is_ok());
        let read = is_read.then(|| reader.finish().ok()).flatten();
        read.unwrap_or_else(|| {
            let names = Graph::with_names(names.clone());
            names.apply(self.texts.changes_from(&UnitTexts::default())).0
        })
    }

    /// The new manager's file: a compaction of the old one.
    fn start_file_again(&mut self) {
        self.file = run_state::header();
        self.names_written = 0;
        let graph = self.core.graph().clone();
        run_state::write_names(&mut self.file, &graph, 0);
        self.names_written = graph.len();
        for index in 0..graph.len() {
            let unit = UnitId(index as u32);
            self.write_unit(unit);
        }
        self.core.take_changed();
        self.core.take_rearmed();
        self.core.take_renamed();
        run_state::write_manager(&mut self.file, self.core.manager_record());
    }

    /// What the new manager finds in the kernel and in init, as events.
    fn reconcile(&mut self) {
        self.kernel.tell_exits_again();
        for unit_type in [UnitType::Mount, UnitType::Swap] {
            for unit in self.units_of(unit_type) {
                self.kernel.later(MS, Happening::LookAtMount(unit));
            }
        }
        for unit in self.units_of(UnitType::Service) {
            self.kernel.later(2 * MS, Happening::LookAtGroup(unit));
        }
        self.take_up_connections();
        let down = |unit: &UnitId| self.core.unit_run(*unit).active_state().is_down();
        let closed = |unit: &UnitId| !self.core.unit_run(*unit).holds_sockets();
        let unused: Vec<UnitId> = self.kernel.sockets.keys().copied().filter(closed).collect();
        for unit in unused {
            self.kernel.sockets.remove(&unit);
        }
        let unused: Vec<UnitId> = self.kernel.traps.keys().copied().filter(down).collect();
        for unit in unused {
            self.kernel.traps.remove(&unit);
        }
    }

    /// Connections that init keeps: of an instance that is through with it none is left.
    fn take_up_connections(&mut self) {
        let run = |unit: &UnitId| self.core.unit_run(*unit);
        let is_through = |unit: &UnitId| {
            let run = run(unit);
            run.history.is_some() && run.job.is_none() && run.active_state().is_down()
        };
        let through: Vec<UnitId> =
            self.kernel.connections.iter().copied().filter(is_through).collect();
        for unit in through {
            self.kernel.connections.remove(&unit);
        }
    }
}

/// Steps that one event may take: of a few dozen units each has a few jobs.
const STEPS_BEHIND_MAX: u32 = 1000;

/// Events that the kernel or init may say twice.
fn is_repeatable(event: &Event) -> bool {
    matches!(
        event,
        Event::CgroupEmpty { .. }
            | Event::Exited { .. }
            | Event::Mounted { .. }
            | Event::Unmounted { .. }
    )
}

//! A kernel, an init and an effect runner that exist in memory only: carries out every effect of
//! the core and tells what follows from it.
//!
//! Time passes only by the queue: (time, serial number, what happens). Nothing here looks into the
//! core; what the two believe of each other is compared by `checks`. Where the real kernel leaves
//! the order of two messages open (an exit and 'the cgroup is empty', an answer and a message of
//! the new process), the order is drawn.

mod bus;
pub mod clock;
mod mounts;
pub mod paths;
mod scopes;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use warren_core::model::dynamic_user::DynamicUser;
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::model::leftover::Trace;
use warren_core::model::process::ExitStatus;
use warren_core::protocol::event::{
    Done, Effect, Event, KillTarget, NamesFound, Notify, Spawn, Verdict,
};
use warren_core::settings::TypeSettings;
use warren_unit::config::{Command, Condition, UnitSection};

use crate::faults::Faults;
use crate::program::{self, Step};
use crate::random::Random;
use mounts::Hanging;

/// Microseconds of a millisecond.
pub const MS: u64 = 1000;

/// Records of the exit ring that a new manager reads although its predecessor has seen them.
const EXITS_AGAIN: usize = 64;

/// Orders that the programs of one unit give in a run. Files may have a program start its own unit for
/// ever, with nothing of the manager's in between: such a plan comes to rest when the program has had
/// enough, and what the manager does for ever by itself still does not.
const ORDERS_MAX: u32 = 100;

const SIGHUP: i32 = 1;
const SIGTERM: i32 = 15;
const SIGSEGV: u8 = 11;
const SIGKILL: i32 = 9;
const SIGCONT: i32 = 18;

/// Something that happens at its time.
#[derive(Clone, Debug)]
pub enum Happening {
    /// An effect is carried out.
    Carry(Effect),
    /// The answer to an effect reaches the manager.
    Answer(EffectId),
    /// Something else reaches the manager.
    Tell(Event),
    /// A record of init's exit ring reaches the manager.
    Exit(usize),
    /// A process takes its next step.
    Step(u32),
    /// Somebody looks whether the unit's cgroup is empty.
    LookAtGroup(UnitId),
    /// Somebody looks whether the kernel has killed a process of this run of the unit for want of memory.
    LookAtMemory(UnitId, u64),
    /// Somebody looks whether the unit is in the mount table.
    LookAtMount(UnitId),
    /// Traffic that waits in a watched socket is noticed.
    LookAtSocket(UnitId),
    /// A service takes what waits in its sockets.
    Drain(Vec<UnitId>),
    /// A process asks the manager for a job: verb and unit.
    Ask(&'static str, String),
    /// The workload goes on.
    Workload,
}

/// A process.
#[derive(Clone, Debug)]
pub struct Process {
    /// The unit whose cgroup it is in.
    pub unit: UnitId,
    steps: Vec<Step>,
    next: usize,
    stubborn: bool,
    held: bool,
    reloads: bool,
    /// Who it runs as, if that was made for the run.
    user: Option<Box<DynamicUser>>,
}

/// A socket unit's open sockets.
#[derive(Clone, Debug, Default)]
pub struct OpenSocket {
    /// Whether the manager watches them, and whether it accepts connections.
    pub watched: Option<bool>,
    /// Messages or connections that wait.
    pub waiting: u32,
}

/// What waits for a frozen process to go on.
#[derive(Clone, Copy, Debug)]
pub enum Held {
    /// Its next step.
    Step(u32),
    /// A signal to it.
    Signal(u32, i32),
}

/// An automount's trap.
#[derive(Clone, Debug, Default)]
pub struct Trap {
    /// Tokens of requests that have no answer yet.
    pub unanswered: BTreeSet<u32>,
    /// Whether idleness is looked for.
    pub watch_idle: bool,
}

/// The machine underneath the manager.
#[derive(Debug)]
pub struct Kernel {
    /// Now, in µs.
    pub now: u64,
    /// What may go wrong.
    pub faults: Faults,
    /// Chance of the kernel's own.
    pub random: Random,
    /// Living processes.
    pub processes: BTreeMap<u32, Process>,
    /// Open sockets by unit.
    pub sockets: BTreeMap<UnitId, OpenSocket>,
    /// Units that the mount table has.
    pub mounts: BTreeSet<UnitId>,
    /// Traps by unit.
    pub traps: BTreeMap<UnitId, Trap>,
    /// Units whose groups are frozen, with what waits for them to be thawed.
    pub frozen: BTreeMap<UnitId, Vec<Held>>,
    /// What is told nobody yet: lines for the timeline.
    pub log: Vec<String>,
    queue: BTreeMap<(u64, u64), Happening>,
    serial: u64,
    last_pid: u32,
    last_token: u32,
    pid_files: BTreeMap<UnitId, u32>,
    searches: BTreeMap<EffectId, UnitId>,
    /// Units whose sockets were opened for effects that are not answered yet.
    opened: BTreeMap<EffectId, UnitId>,
    hanging: BTreeMap<EffectId, Hanging>,
    /// Units whose mount is busy or is not, as far as that was asked.
    busy: BTreeMap<UnitId, bool>,
    under_way: BTreeSet<EffectId>,
    answers: BTreeMap<EffectId, Done>,
    /// Who has which name on the bus.
    names: BTreeMap<String, u32>,
    /// The names that the manager watches, by service.
    watched_names: BTreeMap<UnitId, String>,
    exits: Vec<(u32, ExitStatus)>,
    exits_told: usize,
    /// The unit of every process that ever was.
    groups_of: BTreeMap<u32, UnitId>,
    /// Processes of other programs that no scope has taken in yet.
    outside: BTreeMap<u32, Vec<Step>>,
    /// How often programs of a unit have given orders.
    orders: BTreeMap<UnitId, u32>,
    /// Runtime directories that are there, with the units that made them and the run of each.
    pub directories: BTreeMap<String, BTreeMap<UnitId, u64>>,
    /// When the first process of a unit's run was asked for, by the count of effects.
    runs: BTreeMap<UnitId, u64>,
    /// Accepted connections that no process has yet, by the instance that is to serve each.
    pub connections: BTreeSet<UnitId>,
    /// When removals were asked for that are under way.
    removals: BTreeMap<EffectId, u64>,
    accepted: u64,
    /// The wall clock.
    pub wall: clock::WallClock,
    /// What path units watch.
    pub paths: BTreeMap<UnitId, paths::Watched>,
    /// Numbers of users that nobody else had when units asked.
    pub free_numbers: BTreeMap<UnitId, BTreeSet<u32>>,
    /// What was found wrong, by the name of the check.
    pub wrong: Vec<String>,
}

impl Kernel {
    /// A machine on which nothing runs.
    pub fn new(random: Random, faults: Faults) -> Kernel {
        Kernel {
            now: 1000 * MS,
            faults,
            random,
            processes: BTreeMap::new(),
            sockets: BTreeMap::new(),
            mounts: BTreeSet::new(),
            traps: BTreeMap::new(),
            frozen: BTreeMap::new(),
            log: Vec::new(),
            queue: BTreeMap::new(),
            serial: 0,
            last_pid: 100,
            last_token: 0,
            pid_files: BTreeMap::new(),
            searches: BTreeMap::new(),
            opened: BTreeMap::new(),
            under_way: BTreeSet::new(),
            hanging: BTreeMap::new(),
            busy: BTreeMap::new(),
            answers: BTreeMap::new(),
            names: BTreeMap::new(),
            watched_names: BTreeMap::new(),
            exits: Vec::new(),
            exits_told: 0,
            groups_of: BTreeMap::new(),
            outside: BTreeMap::new(),
            orders: BTreeMap::new(),
            directories: BTreeMap::new(),
            runs: BTreeMap::new(),
            connections: BTreeSet::new(),
            removals: BTreeMap::new(),
            accepted: 0,
            wall: clock::WallClock::default(),
            paths: BTreeMap::new(),
            free_numbers: BTreeMap::new(),
            wrong: Vec::new(),
        }
    }

    // ---- the queue ----

    /// Plans something `delay` µs from now.
    pub fn later(&mut self, delay: u64, what: Happening) {
        self.serial += 1;
        self.queue.insert((self.now + delay, self.serial), what);
    }

    /// The time of the next happening.
    pub fn next_time(&self) -> Option<u64> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next happening and moves the clock to it.
    pub fn take_next(&mut self) -> Option<Happening> {
        let ((at, _), what) = self.queue.pop_first()?;
        self.now = at;
        Some(what)
    }

    /// Whether anything but the workload is planned before `until`.
    pub fn is_busy_until(&self, until: u64) -> bool {
        self.queue.range(..(until, 0)).any(|(_, what)| !matches!(what, Happening::Workload))
    }

    /// How long something takes that is done by somebody else.
    fn pace(&mut self) -> u64 {
        let slow = self.random.chance(self.faults.slow);
        let most = if slow { 5000 } else { 3 };
        (1 + self.random.below(most)) * MS
    }

    /// A short moment, which may be none.
    fn moment(&mut self) -> u64 {
        if self.faults.overtake > 0 { self.random.below(3) * MS } else { 0 }
    }

    // ---- effects ----

    /// Takes one effect over from the manager. Those that the runner does by itself are done at
    /// once, the others take their time.
    pub fn accept(&mut self, effect: Effect) {
        if let Some(id) = effect.id() {
            if self.answers.contains_key(&id) {
                return self.later(MS, Happening::Answer(id));
            }
            if !self.under_way.insert(id) {
                return;
            }
        }
        self.accepted += 1;
        if let Effect::ClearAway { id, .. } = effect {
            self.removals.entry(id).or_insert(self.accepted);
        }
        if let Effect::Spawn(_, spawn) = &effect {
            self.runs.entry(spawn.unit).or_insert(self.accepted);
        }
        let own = !matches!(
            effect,
            Effect::CheckConditions { .. }
                | Effect::ClearAway { .. }
                | Effect::Spawn(..)
                | Effect::MakeCgroup { .. }
                | Effect::AttachProcesses { .. }
                | Effect::Listen { .. }
                | Effect::Mount { .. }
                | Effect::Unmount { .. }
                | Effect::SetTrap { .. }
                | Effect::LookUpNames { .. }
                | Effect::LookUpTimer { .. }
                | Effect::WatchPaths { .. }
                | Effect::LookAtPaths { .. }
        );
        if own {
            return self.carry(effect);
        }
        let delay = self.pace();
        self.later(delay, Happening::Carry(effect));
    }

    /// A spawn whose process nobody wants any more: it is begun nevertheless, unless the runner looks.
    pub fn spawn_unwanted(&mut self, spawn: Effect) {
        match spawn.id() {
            Some(id) if self.random.chance(self.faults.unbegun) => {
                self.answer(id, Done::NeverBegun)
            }
            _ => self.carry(spawn),
        }
    }

    /// Carries out one effect.
    pub fn carry(&mut self, effect: Effect) {
        match effect {
            Effect::CheckConditions { id, section, .. } => {
                let done = self.conditions(&section);
                self.answer(id, done);
            }
            Effect::LookUpNames { id, unit, user } => {
                let found = self.look_up_names(unit, &user);
                self.answer(id, Done::Names(found));
            }
            Effect::Spawn(id, spawn) => self.spawn(id, *spawn),
            Effect::MakeCgroup { id, .. } => {
                let done = self.works(self.faults.cgroup);
                self.answer(id, done);
            }
            Effect::AttachProcesses { id, unit, pids, .. } => self.attach(id, unit, &pids),
            Effect::Listen { id, unit, .. } => self.listen(id, unit),
            Effect::Mount { id, unit, remount, .. } => self.mount(id, unit, remount),
            Effect::Unmount { id, unit, .. } => self.unmount(id, unit),
            Effect::SetTrap { id, unit, .. } => {
                let done = self.works(self.faults.mount);
                if done == Done::Ok {
                    self.traps.entry(unit).or_default();
                }
                self.answer(id, done);
            }
            Effect::Kill { id, unit, target, signal, then } => {
                let mut sent = self.kill(unit, target, signal);
                if then.hangup {
                    sent = sent.max(self.kill(unit, target, SIGHUP));
                }
                self.answer(id, Done::Killed { processes: sent });
            }
            Effect::FindMain { id, unit, pid_file, waits } => {
                self.find_main(id, unit, pid_file.is_some(), waits)
            }
            Effect::KillGroup { unit } => {
                self.kill(unit, KillTarget::Group, SIGKILL);
                // The runner looks afterwards, whether somebody was there or not.
                let delay = self.moment();
                self.later(delay, Happening::LookAtGroup(unit));
            }
            Effect::Freeze { id, unit, frozen } => {
                let done = self.works(self.faults.cgroup);
                if done == Done::Ok {
                    self.freeze(unit, frozen);
                }
                self.answer(id, done);
            }
            Effect::CleanUp { unit, .. } => {
                self.frozen.remove(&unit);
                self.runs.remove(&unit);
                self.connections.remove(&unit);
            }
            Effect::ClearAway { id, unit, traces, .. } => {
                traces.iter().for_each(|trace| self.remove(id, unit, trace));
                self.removals.remove(&id);
                self.answer(id, Done::Ok);
            }
            Effect::CloseSockets { unit, .. } => {
                self.sockets.remove(&unit);
            }
            Effect::WatchSockets { unit, on, accept } => self.watch(unit, on.then_some(accept)),
            Effect::FlushSockets { unit } => {
                if let Some(socket) = self.sockets.get_mut(&unit) {
                    socket.waiting = 0;
                }
            }
            Effect::AnswerTrap { unit, tokens, .. } => {
                if let Some(trap) = self.traps.get_mut(&unit) {
                    trap.unanswered.retain(|token| !tokens.contains(token));
                }
            }
            Effect::WatchIdle { unit, on } => {
                if let Some(trap) = self.traps.get_mut(&unit) {
                    trap.watch_idle = on;
                }
            }
            Effect::CloseTrap { unit } => {
                self.traps.remove(&unit);
            }
            Effect::LookAtMount { unit } => self.later(MS, Happening::LookAtMount(unit)),
            Effect::WatchBusName { unit, name, on } => self.watch_name(unit, &name, on),
            Effect::DropConnection { unit } => _ = self.connections.remove(&unit),
            Effect::LookUpTimer { id, unit, has_stamp, zones } => {
                self.look_up_timer(id, unit, has_stamp, zones);
            }
            Effect::StampTimer { unit, at_us } => _ = self.wall.stamps.insert(unit, at_us),
            Effect::WatchPaths { id, unit, .. } => self.watch_paths(id, unit),
            Effect::LookAtPaths { id, unit } => self.look_at_paths(id, unit),
            Effect::UnwatchPaths { unit } => self.unwatch_paths(unit),
            Effect::Reply { .. }
            | Effect::Tell(_)
            | Effect::Emergency { .. }
            | Effect::LimitGroup { .. } => {}
        }
    }

    fn answer(&mut self, id: EffectId, done: Done) {
        self.under_way.remove(&id);
        self.answers.insert(id, done);
        let delay = self.moment();
        self.later(delay, Happening::Answer(id));
    }

    /// The manager has not written down what it was told: the answer is kept for the next one.
    pub fn keep_answer(&mut self, id: EffectId, done: Done) {
        self.answers.entry(id).or_insert(done);
    }

    /// The manager has the answer now.
    pub fn take_answer(&mut self, id: EffectId) -> Option<Done> {
        let answer = self.answers.remove(&id)?;
        // The runner looks at the group when it hears of a process that has ended already.
        if let Done::Spawned { pid } = answer
            && let Some(&unit) = self.groups_of.get(&pid)
            && self.members(unit).is_empty()
        {
            self.later(MS, Happening::LookAtGroup(unit));
        }
        Some(answer)
    }

    fn works(&mut self, fault: u32) -> Done {
        match self.random.chance(fault) {
            true => Done::Failed { error: "it was to fail".to_owned() },
            false => Done::Ok,
        }
    }

    fn conditions(&mut self, section: &UnitSection) -> Done {
        let flipped = self.random.chance(self.faults.condition);
        let holds = |c: &Condition| (&*c.parameter != "/no") != c.negate;
        Done::Conditions {
            conditions: Verdict::of(&section.conditions, |c| holds(c) && !flipped),
            asserts: Verdict::of(&section.asserts, holds),
        }
    }

    /// The user database has some of the names, and some of the numbers for others.
    fn look_up_names(&mut self, unit: UnitId, user: &DynamicUser) -> NamesFound {
        let mut found = NamesFound::default();
        let mut free = BTreeSet::new();
        for of in user.names() {
            if self.random.chance(self.faults.condition) {
                found.taken.extend(of.given());
            } else if self.random.chance(self.faults.condition) {
                found.known.push(of.name.clone());
            } else {
                free.extend(of.given());
            }
        }
        self.free_numbers.insert(unit, free);
        found
    }

    // ---- processes ----

    /// `dynamic-user`: a number is of one name at a time, and of nobody else's.
    fn check_user(&mut self, spawn: &Spawn) {
        let is_asked = match &spawn.settings.own {
            TypeSettings::Service(config) => config.exec.dynamic_user,
            _ => false,
        };
        if is_asked && spawn.dynamic_user.is_none() {
            self.wrong.push("dynamic-user: a unit runs as nobody".to_owned());
        }
        let Some(user) = &spawn.dynamic_user else { return };
        for of in user.names() {
            let Some(number) = of.given() else { continue };
            let is_other = |process: &Process| {
                let others = process.user.iter().flat_map(|other| other.names());
                let mut same = others.filter(|other| other.given() == Some(number));
                same.any(|other| other.name != of.name)
            };
            let free = self.free_numbers.get(&spawn.unit);
            let is_free = free.is_some_and(|free| free.contains(&number));
            if !is_free || self.processes.values().any(is_other) {
                self.wrong.push(format!("dynamic-user: {number} is not {} alone", of.name));
            }
        }
    }

    fn spawn(&mut self, id: EffectId, spawn: Spawn) {
        let command = command_of(&spawn);
        let begins = command.is_none_or(program::can_begin);
        if self.random.chance(self.faults.spawn) || !begins {
            let error = "no memory for it".to_owned();
            return self.answer(id, Done::SpawnFailed { exit_code: 0, error });
        }
        let runs = command.is_some_and(program::can_execute);
        if !runs || self.random.chance(self.faults.exec) {
            let error = "no such program".to_owned();
            return self.answer(id, Done::SpawnFailed { exit_code: 203, error });
        }
        let steps = command.map(program::steps).unwrap_or_default();
        self.make_directories(&spawn);
        self.check_user(&spawn);
        let pid = self.new_process(spawn.unit, steps);
        if let Some(process) = self.processes.get_mut(&pid) {
            process.user = spawn.dynamic_user.clone();
        }
        if spawn.main {
            self.connections.remove(&spawn.unit);
        }
        self.answer(id, Done::Spawned { pid });
        if !spawn.sockets.is_empty() {
            self.later(2 * MS, Happening::Drain(spawn.sockets));
        }
    }

    /// Removes one thing that a run left. `cleared-late`: it is not what a later run has made, of the
    /// same unit or of another one. It may be a unit's that ran all the time, as in systemd.
    fn remove(&mut self, id: EffectId, unit: UnitId, trace: &Trace) {
        let path = match trace {
            Trace::Directory(path) => path,
            Trace::Terminal(_) | Trace::Ipc(_) | Trace::OfEarlierBoots { .. } => return,
            Trace::File(_) | Trace::Link(_) => {
                self.pid_files.remove(&unit);
                return;
            }
        };
        let asked = self.removals.get(&id).copied().unwrap_or_default();
        let makers = self.directories.remove(path).unwrap_or_default();
        for (maker, run) in makers {
            if run > asked && self.runs.get(&maker) == Some(&run) {
                self.wrong.push(format!("cleared-late: {path} is a new run's"));
            }
        }
    }

    /// Several managers ended over their removal: they stay, and nobody is to blame.
    pub fn leave_directories(&mut self, unit: UnitId, paths: &[PathBuf]) {
        for path in paths.iter().filter_map(|path| path.to_str()) {
            if let Some(makers) = self.directories.get_mut(path) {
                makers.remove(&unit);
            }
        }
    }

    /// The first process of a run finds its runtime directories made.
    fn make_directories(&mut self, spawn: &Spawn) {
        let TypeSettings::Service(config) = &spawn.settings.own else { return };
        let run = self.run_of(spawn.unit);
        for directory in &config.exec.runtime_directory.paths {
            let place = config.exec.runtime_directory_place(&directory.path);
            let makers = self.directories.entry(format!("/run/{place}")).or_default();
            makers.insert(spawn.unit, run);
        }
    }

    fn new_process(&mut self, unit: UnitId, steps: Vec<Step>) -> u32 {
        self.last_pid += 1;
        let pid = self.last_pid;
        self.begin_process(pid, unit, steps);
        pid
    }

    fn begin_process(&mut self, pid: u32, unit: UnitId, steps: Vec<Step>) {
        let process = Process {
            unit,
            steps,
            next: 0,
            stubborn: false,
            held: false,
            reloads: false,
            user: None,
        };
        self.processes.insert(pid, process);
        self.groups_of.insert(pid, unit);
        let delay = if self.random.chance(self.faults.overtake) { 0 } else { MS };
        self.later(delay, Happening::Step(pid));
    }

    fn freeze(&mut self, unit: UnitId, frozen: bool) {
        if frozen {
            self.frozen.entry(unit).or_default();
            return;
        }
        for held in self.frozen.remove(&unit).unwrap_or_default() {
            match held {
                Held::Step(pid) => self.later(MS, Happening::Step(pid)),
                Held::Signal(pid, signal) => self.signal(pid, signal),
            }
        }
    }

    /// A process takes its next step.
    pub fn step(&mut self, pid: u32) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let unit = process.unit;
        if let Some(held) = self.frozen.get_mut(&unit) {
            return held.push(Held::Step(pid));
        }
        let step = process.steps.get(process.next).cloned().unwrap_or(Step::Exit(0));
        process.next += 1;
        let mut pause = 0;
        let says = |message: Notify| Event::Notify { unit, pid, message };
        let none = Notify::default;
        match step {
            Step::Run => return,
            Step::Exit(code) => return self.end(pid, ExitStatus::Exited(code)),
            Step::Crash => return self.end(pid, ExitStatus::Dumped(SIGSEGV)),
            Step::Sleep(ms) => pause = ms * MS,
            Step::Stubborn => process.stubborn = true,
            Step::Held => process.held = true,
            Step::Reloads => process.reloads = true,
            Step::Ready => self.say(says(Notify { ready: true, ..none() })),
            Step::Reloading => self.say(says(Notify { reloading: true, ..none() })),
            Step::Clean => self.say(says(Notify { clean: Some(true), ..none() })),
            Step::Stopping => self.say(says(Notify { stopping: true, ..none() })),
            Step::Watchdog => self.say(says(Notify { watchdog: true, ..none() })),
            Step::MainPid => self.say(says(Notify { main_pid: Some(pid), ..none() })),
            Step::Extend(ms) => {
                self.say(says(Notify { extend_timeout_us: Some(ms * MS), ..none() }));
            }
            Step::Say(message) => self.say(says(*message)),
            Step::Own(name, on) => self.own(pid, &name, on),
            Step::Daemon => return self.daemonise(pid),
            Step::Orphan => {
                self.new_process(unit, vec![Step::Run]);
            }
            Step::Stop(name) => self.ask(unit, "stop", name),
            Step::Start(name) => self.ask(unit, "start", name),
            Step::OutOfMemory => return self.kill_for_memory(pid, unit),
        }
        self.later(pause, Happening::Step(pid));
    }

    /// The kernel counts the kill in the group, and the count is read before the end of the process is
    /// heard of, with it or after it, as long as there is the group.
    fn kill_for_memory(&mut self, pid: u32, unit: UnitId) {
        let told = Happening::Tell(Event::OutOfMemory { unit });
        let delay = match self.faults.overtake {
            0 => Some(0),
            _ => [None, Some(0), Some(MS), Some(50 * MS)][self.random.index(4)],
        };
        if delay.is_none() {
            self.later(0, told.clone());
        }
        self.end(pid, ExitStatus::Killed(SIGKILL as u8));
        match delay {
            Some(0) => self.later(0, told),
            Some(delay) => self.later(delay, Happening::LookAtMemory(unit, self.run_of(unit))),
            None => {}
        }
    }

    /// The number of a unit's run, which has a group of its own; 0 if it has none.
    pub fn run_of(&self, unit: UnitId) -> u64 {
        self.runs.get(&unit).copied().unwrap_or_default()
    }

    fn say(&mut self, event: Event) {
        let delay = self.moment();
        self.later(delay, Happening::Tell(event));
    }

    /// A program of `unit` gives an order, if it has not had enough of that.
    fn ask(&mut self, unit: UnitId, verb: &'static str, name: String) {
        let given = self.orders.entry(unit).or_default();
        *given += 1;
        if *given <= ORDERS_MAX {
            self.later(MS, Happening::Ask(verb, name));
        }
    }

    fn daemonise(&mut self, pid: u32) {
        let parent = self.processes.get(&pid).expect("it has just taken a step").clone();
        let rest = parent.steps[parent.next.min(parent.steps.len())..].to_vec();
        let child = self.new_process(parent.unit, rest);
        self.pid_files.insert(parent.unit, child);
        self.end(pid, ExitStatus::Exited(0));
        self.answer_searches();
    }

    fn end(&mut self, pid: u32, status: ExitStatus) {
        let Some(process) = self.processes.remove(&pid) else { return };
        self.exits.push((pid, status));
        self.leave_names(pid);
        let delay = self.moment();
        self.later(delay, Happening::Exit(self.exits.len() - 1));
        if self.members(process.unit).is_empty() {
            let delay = self.moment();
            self.later(delay, Happening::LookAtGroup(process.unit));
        }
    }

    /// The living processes of a unit's cgroup.
    pub fn members(&self, unit: UnitId) -> Vec<u32> {
        self.processes.iter().filter(|(_, p)| p.unit == unit).map(|(pid, _)| *pid).collect()
    }

    /// A record of the exit ring.
    pub fn take_exit(&mut self, index: usize) -> (u32, ExitStatus) {
        self.exits_told = self.exits_told.max(index + 1);
        self.exits[index]
    }

    fn kill(&mut self, unit: UnitId, target: KillTarget, signal: i32) -> u32 {
        let victims = match target {
            KillTarget::Process(pid) if self.processes.contains_key(&pid) => vec![pid],
            KillTarget::Process(_) => Vec::new(),
            KillTarget::Group => {
                self.end_hanging(unit, signal);
                self.members(unit)
            }
        };
        for &pid in &victims {
            self.signal(pid, signal);
        }
        victims.len() as u32
    }

    fn signal(&mut self, pid: u32, signal: i32) {
        // kill(2): it tells who is there.
        if signal == 0 {
            return;
        }
        let Some(process) = self.processes.get(&pid) else { return };
        let (unit, deaf) = (process.unit, process.stubborn);
        // cgroup-v2.rst: a frozen process can be killed.
        if let Some(held) = self.frozen.get_mut(&unit).filter(|_| signal != SIGKILL) {
            return held.push(Held::Signal(pid, signal));
        }
        if signal == SIGHUP && process.reloads {
            self.say(Event::Notify {
                unit,
                pid,
                message: Notify { reloading: true, ..Notify::default() },
            });
            let ready =
                Event::Notify { unit, pid, message: Notify { ready: true, ..Notify::default() } };
            return self.later(3 * MS, Happening::Tell(ready));
        }
        if process.held || signal == SIGCONT || deaf && [SIGHUP, SIGTERM].contains(&signal) {
            return;
        }
        self.end(pid, ExitStatus::Killed(signal as u8));
    }

    fn find_main(&mut self, id: EffectId, unit: UnitId, by_file: bool, waits: bool) {
        if by_file && !waits {
            let pid = self.named_by_file(unit);
            return self.answer(id, Done::MainProcess { pid });
        }
        if by_file {
            self.searches.insert(id, unit);
            return self.answer_searches();
        }
        let members = self.members(unit);
        let pid = members.first().copied().filter(|_| members.len() == 1);
        self.answer(id, Done::MainProcess { pid });
    }

    /// PID files that name a living process answer those who wait for them.
    fn answer_searches(&mut self) {
        for (id, unit) in self.searches.clone() {
            let pid = self.named_by_file(unit);
            if pid.is_some() {
                self.searches.remove(&id);
                self.answer(id, Done::MainProcess { pid });
            }
        }
    }

    /// The living process that a unit's PID file names.
    fn named_by_file(&self, unit: UnitId) -> Option<u32> {
        let pid = self.pid_files.get(&unit).copied();
        pid.filter(|pid| self.processes.contains_key(pid))
    }

    // ---- sockets, traps ----

    fn listen(&mut self, id: EffectId, unit: UnitId) {
        let done = match self.random.chance(self.faults.listen) {
            true => Done::Failed { error: "address in use".to_owned() },
            false => Done::Listening { fds: 1 },
        };
        if matches!(done, Done::Listening { .. }) {
            self.sockets.entry(unit).or_default();
            self.opened.insert(id, unit);
        }
        self.answer(id, done);
    }

    /// The unit whose sockets were opened for an effect, once.
    pub fn take_opened(&mut self, id: EffectId) -> Option<UnitId> {
        self.opened.remove(&id)
    }

    fn watch(&mut self, unit: UnitId, how: Option<bool>) {
        if let Some(socket) = self.sockets.get_mut(&unit) {
            socket.watched = how;
            self.later(MS, Happening::LookAtSocket(unit));
        }
    }

    /// Traffic arrives at a unit's sockets; false if none are open.
    pub fn traffic(&mut self, unit: UnitId) -> bool {
        let Some(socket) = self.sockets.get_mut(&unit) else { return false };
        socket.waiting += 1;
        self.later(MS, Happening::LookAtSocket(unit));
        true
    }

    /// Services take what waits for them.
    pub fn drain(&mut self, units: &[UnitId]) {
        for unit in units {
            if let Some(socket) = self.sockets.get_mut(unit) {
                socket.waiting = 0;
            }
        }
    }

    /// A process walks into a trap (`behind`: what is mounted there), or the mount behind it was
    /// idle; false if there is no trap that would notice.
    pub fn spring(&mut self, unit: UnitId, behind: Option<UnitId>, idle: bool) -> bool {
        let mounted = behind.is_some_and(|mount| self.mounts.contains(&mount));
        let Some(trap) = self.traps.get_mut(&unit) else { return false };
        if mounted != idle || idle && !trap.watch_idle {
            return false;
        }
        self.last_token += 1;
        let token = self.last_token;
        trap.unanswered.insert(token);
        self.say(match idle {
            true => Event::TrapIdle { unit, token },
            false => Event::TrapHit { unit, token },
        });
        true
    }

    // ---- the end of the manager ----

    /// The manager was killed. What was on its way to it is lost, but for what waits in init, in
    /// the exec helpers and in sockets that init holds.
    pub fn manager_died(&mut self) {
        let queue = std::mem::take(&mut self.queue);
        for (key, what) in queue {
            let stays = match &what {
                Happening::Tell(event) => matches!(
                    event,
                    Event::Notify { .. }
                        | Event::TrapHit { .. }
                        | Event::TrapIdle { .. }
                        | Event::StopEverything { .. }
                        | Event::GiveUp
                ),
                Happening::Carry(effect) => self.helper_has_it(effect),
                Happening::Step(_) | Happening::Drain(_) | Happening::Workload => true,
                _ => false,
            };
            if stays {
                self.queue.insert(key, what);
            } else if let Happening::Carry(effect) = &what
                && let Some(id) = effect.id()
            {
                self.under_way.remove(&id);
            }
        }
        for id in std::mem::take(&mut self.searches).into_keys() {
            self.under_way.remove(&id);
        }
        self.watched_names.clear();
        self.sockets.values_mut().for_each(|socket| socket.watched = None);
        self.traps.values_mut().for_each(|trap| trap.watch_idle = false);
        self.paths.values_mut().for_each(|paths| paths.is_watched = false);
    }

    /// A spawn that the manager asked for may be in a helper's hands already.
    fn helper_has_it(&mut self, effect: &Effect) -> bool {
        matches!(effect, Effect::Spawn(..) | Effect::Mount { .. } | Effect::Unmount { .. })
            && self.random.chance(500)
    }

    /// What the new manager reads from init: the exits that its predecessor may not have seen.
    pub fn tell_exits_again(&mut self) {
        let seen = self.exits_told.saturating_sub(EXITS_AGAIN);
        for index in seen..self.exits.len() {
            self.later(MS, Happening::Exit(index));
        }
    }
}

/// The command that a spawn is for.
fn command_of(spawn: &Spawn) -> Option<&Command> {
    spawn.settings.commands(spawn.list).get(usize::from(spawn.index))
}

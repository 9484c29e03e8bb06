//! The machine: [`Core::step`] takes one event and returns the effects that follow from it.
//!
//! One step runs until nothing more follows, or until it has looked at many jobs: it propagates
//! transitions, runs jobs that became free and serves due deadlines.
//!
//! Owns: [`Core`] and its queues. `propagate` is what a change of one unit does to others,
//! `deadlines` says when units want to be looked at, `generations` puts another generation in force.
//! Must not: know what a service or a socket is; that is in `types`.

use crate::graph::cgroup_path::Strays;
use crate::graph::{Definition, Graph};
use crate::machine::job_queue::{JOBS_PER_STEP_MAX, Turns};
use crate::machine::removals::Removals;
use crate::machine::trace_queue::Untaken;
use crate::model::active_state::ActiveState;
use crate::model::chunked::Chunked;
use crate::model::ids::Serial;
use crate::model::ids::{ClientId, EffectId, JobId, UnitId};
use crate::model::job::{JobKind, JobResult};
use crate::model::part::Part;
use crate::model::process::*;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::model::time::{Moment, Monotonic};
use crate::protocol::event::{Done, Effect, Event};
use crate::protocol::request::Notice;
use crate::protocol::trace_event::What;
use crate::settings::{AtHand, Compiled, Settings};
use crate::view::{Totals, View};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use warren_unit::config::UnitSection;
use warren_unit::{UnitFlags, UnitType};

mod check;
mod deadlines;
mod generations;
pub(crate) mod job_queue;
mod propagate;
pub(crate) mod removals;
pub(crate) mod stop_budget;
pub(crate) mod trace_queue;

/// A change of a unit's state that has not been propagated yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transition {
    pub unit: UnitId,
    pub old: ActiveState,
    pub new: ActiveState,
    /// `Restart=` will start it again: nothing that waits for its end fires.
    pub will_restart: bool,
    /// What job brought it about, if one was at work.
    pub by: Option<JobKind>,
}

/// All units, their jobs, and what is under way.
#[derive(Debug)]
pub struct Core {
    pub(crate) graph: Arc<Graph>,
    pub(crate) units: Chunked<Arc<UnitRun>>,
    /// What units that never did anything share, by type.
    idle: BTreeMap<UnitType, Arc<UnitRun>>,
    pub(crate) settings: Settings,
    pub(crate) now: Moment,
    pub(crate) out: Vec<Effect>,
    pub(crate) turns: Turns,
    jobs_per_step_max: usize,
    pub(crate) transitions: VecDeque<Transition>,
    /// The job that a unit is being told of: it may be over before it counts as running.
    pub(crate) performing: Option<(UnitId, JobKind)>,
    /// The machine ends by other means than jobs: no command of a unit begins any more. Mounts may still go.
    pub(crate) given_up: bool,
    /// Reloads into which a start went.
    pub(crate) starting_reloads: BTreeSet<JobId>,
    /// Jobs without anything to do that were made beside another one, which are over when this is told.
    pub(crate) passing: Vec<(JobId, UnitId)>,
    pub(crate) unneeded_queue: BTreeSet<UnitId>,
    pub(crate) upheld_queue: BTreeSet<UnitId>,
    pub(crate) bound_queue: BTreeSet<UnitId>,
    /// Units whose cgroup lies elsewhere than their definition says.
    pub(crate) strays: Strays,
    /// Units whose relations ask for a job that other jobs stand against.
    pub(crate) stands_off: BTreeSet<UnitId>,
    /// Units that standing relations are looked at again for: to be upheld, or to return by a rule,
    /// once their start limit allows it; to be stopped once more because the last stop failed.
    pub(crate) upheld_again: BTreeMap<UnitId, Monotonic>,
    /// Units whose job ended: those that trigger them may have waited for that.
    pub(crate) job_end_queue: BTreeMap<UnitId, Moment>,
    /// Units whose starts may be forgotten, as nothing holds them in memory any more.
    pub(crate) unheld_queue: BTreeSet<UnitId>,
    pub(crate) totals: Totals,
    /// Counters that must never repeat.
    pub(crate) serial: Serial,
    /// No cgroup tracking: a group is empty when the processes that the core knows are gone.
    pub(crate) without_cgroups: bool,
    /// Who waits for a unit to be frozen or thawed, by the effect.
    pub(crate) freeze_waiters: BTreeMap<EffectId, ClientId>,
    /// What runs have left and is being removed.
    pub(crate) removals: Removals,
    /// See [`Core::set_boot_times`].
    pub(crate) boot: BootTimes,
    /// Services of `Type=idle` that wait for the other jobs to end.
    pub(crate) idle_queue: BTreeSet<UnitId>,
    /// Jobs that have begun.
    pub(crate) running_jobs: u32,
    /// Instances of `Accept=yes` that are under way, and the socket that each belongs to.
    pub(crate) connections: BTreeMap<UnitId, UnitId>,
    /// Those of sockets that are down: they count again when the socket listens again.
    pub(crate) outliving: BTreeMap<UnitId, Vec<UnitId>>,
    /// Mounts that go with their automount point and count as up until the mount table says so.
    pub(crate) unmounted_unheard: BTreeSet<UnitId>,
    /// The graph changed while jobs were installed: their order was not checked as a whole.
    pub(crate) circles_possible: bool,
    /// Jobs were installed without a plan. What waits for nobody need not wait for the check.
    pub(crate) circles_unchecked: bool,
    pub(crate) untaken: Untaken,
    compiled: AtHand,
    effects: BTreeMap<EffectId, UnitId>,
    pids: BTreeMap<u32, UnitId>,
    deadlines: BTreeSet<(Monotonic, UnitId)>,
    armed: BTreeMap<UnitId, Monotonic>,
    /// Units written to since it was last asked; a unit may be there several times.
    changed: Vec<UnitId>,
    /// Those of which only what nobody is told was written.
    rearmed: Vec<UnitId>,
    renamed: BTreeSet<UnitId>,
    /// Units written to in this step, whose deadlines may differ.
    pub(crate) touched: Vec<UnitId>,
    /// Spawns whose unit is down already, because nobody waited for them any longer: a process that
    /// comes of one is killed. One of them is forgotten when it is answered.
    too_late: BTreeMap<EffectId, UnitId>,
    /// Ends of processes that nobody has claimed yet: the answer to a spawn, which names the
    /// process, may come after its end. Kept only while effects are under way.
    early_exits: BTreeMap<u32, EarlyExit>,
}

/// The end of a process that nobody knows yet.
#[derive(Clone, Copy, Debug)]
struct EarlyExit {
    status: ExitStatus,
    /// The first effect that was not asked for yet: its process, and those of later ones, only have the
    /// same number.
    before: EffectId,
}

/// Ends of unknown processes that are remembered; the oldest pids go first.
const EARLY_EXITS_MAX: usize = 4096;

impl Core {
    /// A machine without units. `seed` makes invocation ids unpredictable; the simulator passes
    /// its own.
    pub fn new(settings: Settings, seed: u128) -> Core {
        Core {
            graph: Arc::default(),
            units: Chunked::default(),
            idle: BTreeMap::new(),
            settings,
            now: Moment::default(),
            out: Vec::new(),
            turns: Turns::default(),
            jobs_per_step_max: JOBS_PER_STEP_MAX,
            transitions: VecDeque::new(),
            performing: None,
            given_up: false,
            starting_reloads: BTreeSet::new(),
            passing: Vec::new(),
            unneeded_queue: BTreeSet::new(),
            upheld_queue: BTreeSet::new(),
            unheld_queue: BTreeSet::new(),
            bound_queue: BTreeSet::new(),
            strays: Strays::new(),
            stands_off: BTreeSet::new(),
            upheld_again: BTreeMap::new(),
            job_end_queue: BTreeMap::new(),
            totals: Totals::default(),
            serial: Serial { job: 1, effect: 1, invocation: seed },
            without_cgroups: false,
            freeze_waiters: BTreeMap::new(),
            removals: Removals::default(),
            boot: BootTimes::default(),
            idle_queue: BTreeSet::new(),
            running_jobs: 0,
            connections: BTreeMap::new(),
            outliving: BTreeMap::new(),
            unmounted_unheard: BTreeSet::new(),
            circles_possible: false,
            circles_unchecked: false,
            untaken: Untaken::default(),
            compiled: AtHand::default(),
            effects: BTreeMap::new(),
            pids: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            armed: BTreeMap::new(),
            changed: Vec::new(),
            rearmed: Vec::new(),
            renamed: BTreeSet::new(),
            touched: Vec::new(),
            too_late: BTreeMap::new(),
            early_exits: BTreeMap::new(),
        }
    }

    /// Takes one event at `now` and returns what is to be done, in order.
    pub fn step(&mut self, now: Moment, event: Event) -> Vec<Effect> {
        self.now = now;
        self.totals.now = now;
        self.handle(event);
        self.serve_deadlines();
        self.settle();
        if self.totals.jobs == 0 {
            self.tidy_up_settings(true);
        }
        let effects = self.take_effects();
        self.note_signals(&effects);
        effects
    }

    /// What is to be done. Once the machine ends without stops, nothing is run, opened or mounted any more.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        let begins = |effect: &Effect| {
            use Effect::{Listen, Mount, SetTrap, Spawn};
            matches!(effect, Spawn(..) | Listen { .. } | Mount { .. } | SetTrap { .. })
        };
        let mut effects = std::mem::take(&mut self.out);
        if self.given_up {
            effects.retain(|effect| !begins(effect));
        }
        effects
    }

    /// When the machine wants to be stepped next even if nothing happens.
    pub fn next_deadline(&self) -> Option<Monotonic> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// When a unit that is upheld is started again, if its start limit stands against it now.
    pub fn upheld_again_at(&self, unit: UnitId) -> Option<Monotonic> {
        self.upheld_again.get(&unit).copied()
    }

    /// The picture for readers; cheap.
    pub fn view(&self) -> View {
        View {
            graph: self.graph.clone(),
            units: self.units.clone(),
            strays: self.strays.clone(),
            totals: self.totals.clone(),
        }
    }

    /// The units whose run state changed since the last call: what has to be written down and
    /// signalled.
    pub fn take_changed(&mut self) -> BTreeSet<UnitId> {
        std::mem::take(&mut self.changed).into_iter().collect()
    }

    /// The units of which only what nobody is told was written since the last call, as the deadline that
    /// `WATCHDOG=1` moves: it is written down, and seen by who looks.
    pub fn take_rearmed(&mut self) -> Vec<UnitId> {
        std::mem::take(&mut self.rearmed)
    }

    /// Ids that mean another unit, or none, since the last call.
    pub fn take_renamed(&mut self) -> BTreeSet<UnitId> {
        std::mem::take(&mut self.renamed)
    }

    /// The run state of a unit.
    pub fn unit_run(&self, unit: UnitId) -> &UnitRun {
        self.run(unit)
    }

    /// Counts.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The boot transaction has been worked off.
    pub fn set_startup_finished(&mut self) {
        self.totals.startup_finished = true;
    }

    /// What units are compiled with.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The generation in force.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// The unit that an effect under way belongs to.
    pub fn effect_unit(&self, effect: EffectId) -> Option<UnitId> {
        self.effects.get(&effect).copied()
    }

    /// Effects under way.
    pub fn pending_effects(&self) -> usize {
        self.effects.len()
    }

    /// There are no cgroups: groups are taken for empty when their known processes are gone.
    pub fn set_without_cgroups(&mut self, without: bool) {
        self.without_cgroups = without;
    }

    /// There are no swap areas to come to: in a container they are the host's.
    pub fn set_without_swaps(&mut self, without: bool) {
        self.totals.without_swaps = without;
    }

    /// Keeps the settings of so many units at rest, besides those of units that something is done
    /// with: with 0 it shows soonest who relies on what was thrown away.
    pub fn set_settings_at_rest_max(&mut self, max: usize) {
        self.compiled.resting_max = max;
    }

    /// Looks at so many jobs in a step, at least one: few show soonest who relies on a step that
    /// works everything off.
    pub fn set_jobs_per_step_max(&mut self, max: usize) {
        self.jobs_per_step_max = max.max(1);
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Tick => {}
            Event::Request { client, asker, request } => self.request(client, asker, request),
            Event::Done { effect, result } => self.effect_done(effect, result),
            Event::Exited { pid, status } => self.process_ended(pid, status),
            Event::Notify { unit, pid, message } => self.service_notify(unit, pid, message),
            Event::FdsStored { unit, count } => self.service_fds_stored(unit, count),
            Event::CgroupEmpty { unit, cpu_us } => self.group_empty(unit, cpu_us),
            Event::OutOfMemory { unit } => self.service_out_of_memory(unit),
            Event::Incoming { unit } => self.socket_incoming(unit),
            Event::Connection { socket, instance, number } => {
                self.socket_connection(socket, instance, number)
            }
            Event::ConnectionRefused { socket } => self.socket_refused(socket),
            Event::SocketsLost { unit, why } => self.sockets_lost(unit, why),
            Event::ConnectionUnserved { socket } => self.socket_unserved(socket),
            Event::Mounted { unit } => self.mount_appeared(unit),
            Event::Unmounted { unit } => self.mount_vanished(unit),
            Event::TrapHit { unit, token } => self.trap_hit(unit, token),
            Event::TrapIdle { unit, token } => self.trap_idle(unit, token),
            Event::TrapGone { unit } => self.trap_gone(unit),
            Event::BusName { unit, state } => self.service_bus_name(unit, state),
            Event::Devices(news) => self.hear_of_devices(news),
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
            if let Some((job, unit)) = self.passing.pop() {
                let (kind, result) = (JobKind::Nop, JobResult::Done);
                self.tell(Notice::JobRemoved { job, unit, kind, result, changed: false });
            } else if let Some(transition) = self.transitions.pop_front() {
                self.ripple(transition);
            } else if looked_at == self.jobs_per_step_max && self.is_behind() {
                break;
            } else if self.run_next_job() {
                looked_at += 1;
            } else if std::mem::take(&mut self.circles_unchecked) {
                self.break_circles();
            } else if let Some((unit, at)) = self.job_end_queue.pop_first() {
                self.tell_triggers_of_job_end(unit, at);
            } else if let Some(unit) = self.bound_queue.pop_first() {
                self.stop_if_unbound(unit);
            } else if let Some(unit) = self.unneeded_queue.pop_first() {
                self.stop_if_unneeded(unit);
            } else if let Some(unit) = self.upheld_queue.pop_first() {
                self.start_if_upheld(unit);
            } else if self.running_jobs == 0
                && let Some(unit) = self.idle_queue.pop_first()
            {
                self.service_idle_over(unit);
            } else if let Some(unit) = self.unheld_queue.pop_first() {
                self.forget_starts_if_unheld(unit);
            } else {
                break;
            }
        }
        self.arm_changed();
        if self.effects.is_empty() {
            self.early_exits.clear();
        }
        self.circles_possible &= self.totals.jobs > 0;
    }

    fn effect_done(&mut self, effect: EffectId, result: Done) {
        let Some(unit) = self.effects.remove(&effect) else {
            return self.kill_latecomer(effect, &result);
        };
        let named = match result {
            Done::Spawned { pid } | Done::MainProcess { pid: Some(pid) } => Some(pid),
            _ => None,
        };
        self.serve_answer(unit, effect, result);
        if let Some(pid) = named
            && let Some(status) = self.take_early_exit(pid, effect)
        {
            self.process_ended(pid, status);
        }
    }

    fn take_early_exit(&mut self, pid: u32, effect: EffectId) -> Option<ExitStatus> {
        let early = self.early_exits.remove(&pid)?;
        (effect < early.before).then_some(early.status)
    }

    /// Nobody waits for this spawn any more, as its unit is down.
    pub(crate) fn come_too_late(&mut self, id: EffectId, unit: UnitId) {
        self.forget_effect(id);
        self.too_late.insert(id, unit);
    }

    fn kill_latecomer(&mut self, effect: EffectId, result: &Done) {
        if let Some(unit) = self.too_late.remove(&effect)
            && let Done::Spawned { pid } = *result
        {
            self.kill_process(unit, pid);
            self.kill_its_children(unit);
        }
    }

    fn serve_answer(&mut self, unit: UnitId, effect: EffectId, result: Done) {
        match &self.run(unit).state {
            TypeState::Service(_) => self.service_done(unit, effect, result),
            TypeState::Socket(_) => self.socket_done(unit, effect, result),
            TypeState::Mount(_) | TypeState::Swap(_) => self.mount_done(unit, effect, result),
            TypeState::Automount(_) => self.automount_done(unit, effect, result),
            TypeState::Slice(_) => self.slice_done(unit, effect, result),
            TypeState::Target(_) => self.target_done(unit, effect, result),
            _ => {}
        }
    }

    fn process_ended(&mut self, pid: u32, status: ExitStatus) {
        let Some(unit) = self.pids.remove(&pid) else {
            return self.remember_exit(pid, status);
        };
        // A main process that named itself before the answer to its spawn, which will name it again.
        if self.service(unit).is_some_and(|run| run.main_asked.is_some()) {
            self.remember_exit(pid, status);
        }
        self.happened(unit, What::ProcessEnded { pid, status });
        match &self.run(unit).state {
            TypeState::Service(_) => self.service_process_ended(unit, pid, status),
            TypeState::Socket(_) => self.socket_process_ended(unit, pid, status),
            _ => {}
        }
    }

    fn remember_exit(&mut self, pid: u32, status: ExitStatus) {
        if self.effects.is_empty() {
            return;
        }
        let before = EffectId(self.serial.effect);
        self.early_exits.insert(pid, EarlyExit { status, before });
        if self.early_exits.len() > EARLY_EXITS_MAX {
            self.early_exits.pop_first();
        }
    }

    fn group_empty(&mut self, unit: UnitId, cpu_us: Option<u64>) {
        self.happened(unit, What::GroupEmpty);
        if self.known(unit).is_some() && cpu_us.is_some() {
            self.history_mut(unit).account_mut().cpu_us = cpu_us;
        }
        // Control processes of a socket end by their exit; what they leave behind goes with the
        // clean-up.
        if matches!(self.known(unit).map(|run| &run.state), Some(TypeState::Service(_))) {
            self.service_group_empty(unit);
        }
    }

    // ---- small tools that all rooms use ----

    /// A unit that an event from outside names: the id may be stale.
    pub(crate) fn known(&self, unit: UnitId) -> Option<&UnitRun> {
        self.units.get(unit.index()).map(|run| &**run)
    }

    pub(crate) fn run(&self, unit: UnitId) -> &UnitRun {
        &self.units[unit.index()]
    }

    /// The run state for writing; notes the unit as changed.
    pub(crate) fn run_mut(&mut self, unit: UnitId) -> &mut UnitRun {
        note_write([&mut self.changed, &mut self.touched], unit);
        self.run_to_write(unit)
    }

    /// The same for what nobody is told: a deadline, a count of starts.
    pub(crate) fn run_to_rearm(&mut self, unit: UnitId) -> &mut UnitRun {
        note_write([&mut self.rearmed, &mut self.touched], unit);
        self.run_to_write(unit)
    }

    fn run_to_write(&mut self, unit: UnitId) -> &mut UnitRun {
        let run = self.units.get_mut(unit.index());
        Arc::make_mut(run.expect("ids of this generation have a run state"))
    }

    pub(crate) fn history_mut(&mut self, unit: UnitId) -> &mut History {
        self.run_mut(unit).history.get_or_insert_default()
    }

    pub(crate) fn active_state(&self, unit: UnitId) -> ActiveState {
        self.run(unit).active_state()
    }

    pub(crate) fn definition(&self, unit: UnitId) -> &Arc<Definition> {
        self.graph.definition(unit)
    }

    pub(crate) fn flags(&self, unit: UnitId) -> UnitFlags {
        self.graph.definition(unit).flags
    }

    /// The unit's typed settings, compiled once while something is done with it.
    pub(crate) fn compiled(&mut self, unit: UnitId) -> Arc<Compiled> {
        if let Some(settings) = self.compiled.get(unit) {
            return settings.clone();
        }
        let settings = Arc::new(self.compile(unit));
        self.compiled.insert(unit, settings.clone());
        self.tidy_up_settings(false);
        settings
    }

    /// The same as far as something was done with the unit just now.
    pub(crate) fn compiled_at_hand(&self, unit: UnitId) -> Option<&Compiled> {
        self.compiled.get(unit).map(|settings| &**settings)
    }

    /// `[Unit]` and what all types share of `[X-Warren]`, whether it is at hand or not.
    pub(crate) fn section(&self, unit: UnitId) -> Arc<UnitSection> {
        match self.compiled.get(unit) {
            Some(settings) => settings.section.clone(),
            None => self.compile(unit).section,
        }
    }

    /// What runs without a file any more is ended by the settings that it was started with.
    fn compile(&self, unit: UnitId) -> Compiled {
        let definition = self.graph.definition(unit);
        match self.active_state(unit).is_down() {
            true => self.settings.compile(definition),
            false => self.settings.compile_running(definition),
        }
    }

    /// See [`AtHand::tidy_up`].
    fn tidy_up_settings(&mut self, all_rest: bool) {
        let units = &self.units;
        self.compiled.tidy_up(all_rest, |unit| {
            let run = &units[unit.index()];
            let is_moving = matches!(
                run.active_state(),
                ActiveState::Activating | ActiveState::Deactivating | ActiveState::Reloading
            );
            run.job.is_some() || is_moving
        });
    }

    /// A new effect of `unit`, pending until it is done.
    pub(crate) fn new_effect(&mut self, unit: UnitId) -> EffectId {
        let id = EffectId(self.serial.effect);
        self.serial.effect += 1;
        self.effects.insert(id, unit);
        id
    }

    /// The answer to this effect no longer matters.
    pub(crate) fn forget_effect(&mut self, id: EffectId) {
        self.effects.remove(&id);
    }

    /// The same effect again, after a restart of the manager.
    pub(crate) fn expect_effect(&mut self, id: EffectId, unit: UnitId) {
        self.effects.insert(id, unit);
    }

    pub(crate) fn own_pid(&mut self, pid: u32, unit: UnitId) {
        self.pids.insert(pid, unit);
    }

    pub(crate) fn disown_pid(&mut self, pid: u32) {
        self.pids.remove(&pid);
    }

    /// The unit that a process belongs to as main or control process.
    pub fn unit_of_pid(&self, pid: u32) -> Option<UnitId> {
        self.pids.get(&pid).copied()
    }

    pub(crate) fn new_job_id(&mut self) -> JobId {
        let id = JobId(self.serial.job);
        self.serial.job = self.serial.job.checked_add(1).unwrap_or(1);
        id
    }

    /// 128 bits that do not repeat: one step of a splitmix-like permutation over the seed.
    pub(crate) fn new_invocation(&mut self) -> u128 {
        self.serial.invocation =
            self.serial.invocation.wrapping_add(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        let mut x = self.serial.invocation;
        x = (x ^ (x >> 67)).wrapping_mul(0xbf58_476d_1ce4_e5b9_94d0_49bb_1331_11eb);
        x = (x ^ (x >> 61)).wrapping_mul(0x2545_f491_4f6c_dd1d_da3e_39cb_94b9_5bdb);
        x ^ (x >> 64)
    }

    pub(crate) fn tell(&mut self, notice: Notice) {
        self.out.push(Effect::Tell(notice));
    }

    /// Notes why the unit is as it is, and tells the log.
    pub(crate) fn note(&mut self, unit: UnitId, code: Code, cause: Cause, detail: String) {
        let reason = Reason::new(code, cause);
        self.history_mut(unit).reason = reason;
        self.tell(Notice::Log { unit, reason, detail });
    }

    /// Changes a unit's state through `change`; if its active state differs afterwards, the
    /// transition is stamped and queued for propagation.
    pub(crate) fn transit(
        &mut self,
        unit: UnitId,
        will_restart: bool,
        change: impl FnOnce(&mut UnitRun),
    ) {
        let run = self.run_mut(unit);
        let old = run.active_state();
        let old_sub = run.sub_state();
        change(run);
        let fails = run.active_state() == ActiveState::Failed && old != ActiveState::Failed;
        if fails && !will_restart && self.gives_up(unit) {
            self.give_it_up(unit);
        }
        let run = self.run(unit);
        let (new, sub) = (run.active_state(), run.sub_state());
        if old == new && old_sub == sub {
            return;
        }
        let reason = run.history.as_ref().map_or_else(Reason::default, |history| history.reason);
        self.thaw_first(unit);
        self.happened(unit, What::State { active: new, sub, reason });
        self.forget_remarks(unit, old, new);
        self.stamp(unit, old, new);
        let by = self.job_at_work(unit);
        self.transitions.push_back(Transition { unit, old, new, will_restart, by });
    }

    fn stamp(&mut self, unit: UnitId, old: ActiveState, new: ActiveState) {
        let now = self.now;
        let failed = |state: ActiveState| u32::from(state.as_str() == "failed");
        self.totals.failed = (self.totals.failed + failed(new)).saturating_sub(failed(old));
        if new.is_down() {
            self.strays.remove(&unit);
        }
        let history = self.history_mut(unit);
        history.state_change = now;
        if old.is_down() && !new.is_down() {
            history.inactive_exit = now;
        }
        if !old.is_down() && new.is_down() {
            history.owed_stop = None;
            history.inactive_enter = now;
        }
        if !old.is_up() && new.is_up() {
            history.active_enter = now;
        }
        if old.is_up() && !new.is_up() {
            history.active_exit = now;
        }
    }

    // ---- restart of the manager ----

    /// Restores one unit's run state as the last incarnation wrote it down: it need not be written
    /// again.
    pub(crate) fn restore(&mut self, unit: UnitId, mut run: UnitRun) {
        // By a version that did not run units of this type.
        if run.state == TypeState::Unsupported {
            run.state = UnitRun::idle(self.definition(unit).unit_type()).state;
        }
        for pid in run.main_process().map(|p| p.pid).into_iter().chain(run.control_pid()) {
            self.own_pid(pid, unit);
        }
        if let TypeState::Socket(Socket::Up(socket)) = &run.state {
            self.connections.extend(socket.connections.iter().map(|&instance| (instance, unit)));
        }
        self.totals.jobs += u32::from(run.job.is_some());
        self.running_jobs += u32::from(run.job.as_ref().is_some_and(|job| job.running));
        self.totals.failed += u32::from(run.active_state().as_str() == "failed");
        let place = self.units.get_mut(unit.index());
        *place.expect("ids of this generation have a run state") = Arc::new(run);
        self.arm(unit);
    }

    /// Every unit that is not down or has a job.
    pub(crate) fn busy(&self) -> Vec<UnitId> {
        let busy = |run: &UnitRun| !run.active_state().is_down() || run.job.is_some();
        self.units
            .iter()
            .enumerate()
            .filter(|(_, run)| busy(run))
            .map(|(i, _)| UnitId(u32::try_from(i).expect("ids are 32 bits")))
            .collect()
    }
}

impl Mount {
    /// A mount that the kernel has and nobody asked for.
    pub(crate) fn found() -> Mount {
        Mount::Up(Part::new(MountRun {
            phase: MountPhase::Mounted,
            asked: None,
            in_table: true,
            doubtful: false,
            deadline: None,
            outcome: Outcome::Success,
            reload_outcome: Outcome::Success,
        }))
    }
}

/// Most writes are to the unit that was last written to.
fn note_write(lists: [&mut Vec<UnitId>; 2], unit: UnitId) {
    for list in lists {
        if list.last() != Some(&unit) {
            list.push(unit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pids come again while one effect takes for ever.
    #[test]
    fn the_end_of_an_unknown_process_is_not_that_of_one_asked_for_later() {
        let context = Arc::new(warren_unit::Context::system());
        let defaults = Arc::new(warren_unit::Defaults::default());
        let mut core = Core::new(Settings { context, defaults }, 1);
        let status = ExitStatus::Exited(3);
        let pending = core.new_effect(UnitId(0));
        core.process_ended(7, status);
        let later = core.new_effect(UnitId(0));
        assert_eq!(core.take_early_exit(7, later), None);
        core.process_ended(7, status);
        assert_eq!(core.take_early_exit(7, pending), Some(status));
        assert_eq!(core.take_early_exit(7, pending), None);
    }
}

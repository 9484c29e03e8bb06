//! Effects carried out: each a system call or two, a request to a helper, or a task for a worker.

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use warren_bus::backend::Backend;
use warren_bus::names::{NameState, NameWatcher};
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::{BusName, Done, Effect, Event, Verdict};
use warren_core::settings::{Compiled, TypeSettings};
use warren_init::protocol::control::REBOOT_ARGUMENT;
use warren_init::protocol::exec::StdOutput;
use warren_sys::process;
use warren_trace::words::Reading;
use warren_unit::Scope;
use warren_unit::config::{Condition, EmergencyAction, Preserve, UnitSection};

use crate::base::clock::now;
use crate::base::conditions;
use crate::base::replace_file::replace;
use crate::base::say::say;
use crate::cgroup::controllers::NotApplied;
use crate::cgroup::limits::{Phase, cgroup_config};
use crate::cgroup::programs::{self, Allowed};
use crate::cgroup::slices::{Above, FromSlices};
use crate::daemon::Daemon;
use crate::peer::log_link::exec_of;
use crate::process::pid_file::PidFileSearch;
use crate::published::orders::Order;
use crate::shutdown::words::AskedBy;
use crate::spawn::helpers::Passed;
use crate::spawn::{dynamic_names, mount_commands, removals};

/// The daemon among the processes that a forking service has left: whoever forks one leaves it to init, and what
/// it forks itself is its own. Nobody if there are several.
fn only_child_of_init(processes: &[i32]) -> Option<u32> {
    let init = std::os::unix::process::parent_id().cast_signed();
    let mut left = processes.iter().filter(|&&pid| process::parent(pid) == Ok(init));
    let only = left.next().filter(|_| left.next().is_none());
    only.map(|pid| pid.cast_unsigned())
}

impl Daemon {
    /// Does what the machine asks. Answers come as events, some at once.
    pub(crate) fn carry_out(&mut self, effect: Effect) {
        if self.must_wait(&effect) {
            return self.stages.shutdown.sweep.hold(effect, self.stages.recovery.is_resuming);
        }
        let Some(effect) = self.hold_for_group(effect) else { return };
        if let Some((id, error)) = self.lacks_protection(&effect) {
            return self.done(id, Done::Failed { error });
        }
        self.catch_up_before(&effect);
        self.tell_of_settings(&effect);
        match effect {
            Effect::CheckConditions { id, section, .. } => {
                self.event_loop.checks.push((id, section))
            }
            Effect::Spawn(id, spawn) => self.start_spawn(id, &spawn),
            Effect::LookUpNames { id, user, .. } => {
                self.event_loop.workers.run(id, move || Done::Names(dynamic_names::look_up(&user)));
            }
            Effect::MakeCgroup { id, unit, settings } => {
                let result = self.make_group(unit, &settings);
                match result {
                    Done::Ok if self.has_nft_sets(unit, &settings) => {
                        self.tell_nft_sets_beside(unit, &settings, Some(id));
                    }
                    result => self.done(id, result),
                }
            }
            Effect::AttachProcesses { id, unit, pids, settings } => {
                self.attach_to_scope(id, unit, &pids, &settings);
            }
            Effect::LimitGroup { unit, before, settings } => {
                self.limit_group(unit, before.as_deref(), &settings);
            }
            Effect::Listen { id, unit, settings } => self.listen(id, unit, settings),
            Effect::Mount { id, unit, settings, remount } => {
                self.start_mount(id, unit, settings, remount);
            }
            Effect::Unmount { id, unit, settings } => self.start_unmount(id, unit, settings),
            Effect::SetTrap { id, unit, settings } => {
                if self.triggers.traps.set(id, unit, settings.automount()) {
                    self.done(id, Done::Ok);
                }
            }
            Effect::Kill { id, unit, target, signal, then } => {
                self.signal_for(id, unit, target, signal, then);
            }
            Effect::Freeze { id, unit, frozen } => self.freeze(id, unit, frozen),
            Effect::FindMain { id, unit, pid_file, waits } => {
                self.find_main(id, unit, pid_file, waits)
            }
            Effect::KillGroup { unit } => self.process.kills.dying.push(unit),
            Effect::CleanUp { unit, settings, restarting } => {
                self.clean_up(unit, &settings, restarting);
            }
            Effect::ClearAway { id, traces, limit, .. } => {
                self.event_loop.workers.run(id, move || removals::clear_all(&traces, limit));
            }
            Effect::CloseSockets { unit, remove } => self.close_sockets(unit, remove),
            Effect::WatchSockets { unit, on: true, accept: true } => self.open_door(unit),
            Effect::WatchSockets { unit, on: false, accept: true } => self.close_door(unit),
            Effect::WatchSockets { unit, on, accept: false } => self.watch_sockets(unit, on),
            Effect::LookAtMount { unit } => {
                let mounted = mount_commands::is_mounted(self.core.graph().name(unit));
                self.event_loop.events.push_back(match mounted {
                    true => Event::Mounted { unit },
                    false => Event::Unmounted { unit },
                });
            }
            Effect::LookUpTimer { id, unit, has_stamp, zones } => {
                self.look_up_timer(id, unit, has_stamp, zones);
            }
            Effect::StampTimer { unit, at_us } => self.stamp_timer(unit, at_us),
            Effect::WatchPaths { id, unit, settings, makes } => {
                self.triggers.paths.watch(id, unit, settings, makes);
            }
            Effect::LookAtPaths { id, unit } => {
                if !self.triggers.paths.look_at(id, unit) {
                    self.done(id, Done::Failed { error: "cannot watch its paths".to_owned() });
                }
            }
            Effect::UnwatchPaths { unit } => self.triggers.paths.unwatch(unit),
            Effect::DropConnection { unit } => self.drop_connection(unit),
            Effect::FlushSockets { unit } => self.flush_sockets(unit),
            Effect::WatchBusName { unit, name, on } => self.watch_bus_name(unit, name, on),
            Effect::AnswerTrap { unit, tokens, ok } => {
                self.triggers.traps.answer(unit, &tokens, ok)
            }
            Effect::WatchIdle { unit, on } => self.triggers.traps.watch_idle(unit, on),
            Effect::CloseTrap { unit } => self.close_trap(unit),
            Effect::Emergency { action, unit, status, argument } => {
                if let Some(argument) = argument.filter(|_| action.restarts()) {
                    self.tell_firmware(&argument);
                }
                self.emergency(action, unit, status);
            }
            Effect::Reply { .. } | Effect::Tell(_) => {}
        }
    }

    /// With `MissingProtection=refuse`, why a slice or a mount is not begun. Others are asked when their processes are.
    fn lacks_protection(&self, effect: &Effect) -> Option<(EffectId, String)> {
        let (id, settings) = match effect {
            Effect::MakeCgroup { id, settings, .. } => (*id, settings),
            Effect::Mount { id, settings, remount: false, .. } => (*id, settings),
            _ => return None,
        };
        let refuses = self.core.settings().defaults.refuses_missing_protection;
        let missing = settings.sandbox().first().filter(|_| refuses)?;
        Some((id, format!("{}= is not applied", missing.setting)))
    }

    /// What is done for many units at once is done before what may meet it.
    fn catch_up_before(&mut self, effect: &Effect) {
        if matches!(
            effect,
            Effect::Mount { .. }
                | Effect::Unmount { .. }
                | Effect::Spawn(..)
                | Effect::MakeCgroup { .. }
                | Effect::AttachProcesses { .. }
                | Effect::CleanUp { .. }
        ) {
            self.kill_groups();
        }
    }

    /// Has one worker look at all conditions that this turn asked for.
    pub(crate) fn check_conditions(&mut self) {
        let checks = std::mem::take(&mut self.event_loop.checks);
        if checks.is_empty() {
            return;
        }
        let facts = self.shared.facts();
        let piece = |(id, section): (EffectId, Arc<UnitSection>)| {
            let (shared, facts) = (self.shared.clone(), facts.clone());
            let look = move || {
                let host = shared.host(&facts);
                let is_met = |condition: &Condition| conditions::holds(condition, &host);
                let conditions = Verdict::of(&section.conditions, is_met);
                // systemd.unit(5): assertions are looked at when conditions have been met.
                let asserts = if conditions.holds { &section.asserts[..] } else { &[] };
                Done::Conditions { conditions, asserts: Verdict::of(asserts, is_met) }
            };
            (id, Box::new(look) as Box<_>)
        };
        self.event_loop.workers.run_all(checks.into_iter().map(piece).collect());
    }

    pub(crate) fn done(&mut self, effect: EffectId, result: Done) {
        if let Done::MainProcess { pid: Some(pid) } = result
            && let Some(unit) = self.core.effect_unit(effect)
        {
            self.process.table.name_main(unit, pid);
        }
        self.event_loop.events.push_back(Event::Done { effect, result });
    }

    pub(crate) fn unit_name(&self, unit: UnitId) -> String {
        self.core.graph().name(unit).to_string()
    }

    pub(crate) fn make_group(&mut self, unit: UnitId, settings: &Compiled) -> Done {
        let graph = self.core.graph().clone();
        let path = self.core.group_path(unit).into_owned();
        let completed = self.limits_of_slices(unit).completed(settings);
        let limits = completed.as_ref().unwrap_or(settings);
        match self.cgroup.groups.make(&graph, unit, &path, limits) {
            Ok(not_applied) => {
                self.warn_of_limits(unit, not_applied);
                self.note_for_oomd(unit, settings);
                self.allow_group(unit, &path, None, settings)
            }
            Err(e) => Done::Failed { error: e.to_string() },
        }
    }

    /// What the slices above a unit say for it.
    fn limits_of_slices(&mut self, unit: UnitId) -> Rc<FromSlices> {
        let (graph, settings) = (self.core.graph(), self.core.settings());
        let compile = |slice| settings.compile_running(graph.definition(slice));
        self.cgroup.of_slices.above(graph, unit, &compile)
    }

    /// Has the group use no more devices and addresses than its settings allow.
    fn allow_group(
        &mut self,
        unit: UnitId,
        path: &str,
        before: Option<&Compiled>,
        settings: &Compiled,
    ) -> Done {
        let before = before.map(|before| self.allowed(unit, before));
        let allowed = self.allowed(unit, settings);
        let missing = self.cgroup.groups.allow(path, before.as_ref(), &allowed);
        let refuses = self.core.settings().defaults.refuses_missing_protection;
        if let Some(first) = missing.first().filter(|_| refuses) {
            return Done::Failed {
                error: format!("{}= is not applied: {}", first.setting, first.why),
            };
        }
        self.warn_of_limits(unit, missing);
        Done::Ok
    }

    /// What a unit's group may use; the slices above it are asked only if it says something of packets.
    fn allowed(&self, unit: UnitId, settings: &Compiled) -> Allowed {
        let says = cgroup_config(settings).is_some_and(|c| {
            let says = !c.ip_address_allow.is_empty() || !c.ip_address_deny.is_empty();
            says || c.network_interfaces.is_some() || c.ip_accounting
        });
        let mut slices = Vec::new();
        if says {
            let graph = self.core.graph();
            let compile = |slice| self.core.settings().compile_running(graph.definition(slice));
            slices.extend(graph.slices_above(unit).map(compile));
        }
        Allowed::of(settings, &slices)
    }

    /// Writes the limits of a group that is there, or of a slice's.
    fn limit_group(&mut self, unit: UnitId, before: Option<&Compiled>, settings: &Compiled) {
        let is_slice = self.core.graph().name(unit).unit_type() == warren_unit::UnitType::Slice;
        let path = match self.cgroup.groups.path(unit) {
            Some(path) => path.to_owned(),
            None if is_slice => self.core.group_path(unit).into(),
            None => return,
        };
        let of_slices = self.limits_of_slices(unit);
        let completed = [before, Some(settings)].map(|s| s.and_then(|s| of_slices.completed(s)));
        let (old, new) = (completed[0].as_ref().or(before), completed[1].as_ref());
        let not_applied = self.cgroup.groups.limit(&path, old, new.unwrap_or(settings));
        self.warn_of_limits(unit, not_applied);
        self.note_for_oomd(unit, settings);
        if let Done::Failed { error } = self.allow_group(unit, &path, before, settings) {
            say!("{}: {error}", self.core.graph().name(unit));
        }
        if self.has_nft_sets(unit, settings) {
            self.tell_nft_sets_beside(unit, settings, None);
        }
        if let Some(before) = before.filter(|_| is_slice) {
            self.limit_members(unit, before, settings);
        }
    }

    /// Has what a slice says for the units in it hold for those that are up, where it says something else than before.
    fn limit_members(&mut self, slice: UnitId, before: &Compiled, settings: &Compiled) {
        let said = |settings: &Compiled| {
            let config = cgroup_config(settings)?;
            Some((FromSlices::default().within(config), programs::said_of_packets(config)))
        };
        if said(before) == said(settings) {
            return;
        }
        let graph = self.core.graph();
        let now = |unit| self.core.settings().compile_running(graph.definition(unit));
        let then = |unit| if unit == slice { before.clone() } else { now(unit) };
        // Units of one slice have the same slices above them.
        let mut known = BTreeMap::new();
        for unit in graph.members(slice) {
            let Some(path) = self.cgroup.groups.path(unit).map(str::to_owned) else { continue };
            let above = known.entry(graph.slices_above(unit).next());
            let above = above
                .or_insert_with(|| [Above::of(graph, unit, &then), Above::of(graph, unit, &now)]);
            let own = now(unit);
            let completed = above.each_ref().map(|above| above.said.completed(&own));
            let [old, new] = completed.each_ref().map(|c| c.as_ref().unwrap_or(&own));
            let not_applied = self.cgroup.groups.limit(&path, Some(old), new);
            self.warn_of_limits(unit, not_applied);
            let [old, new] = above.each_ref().map(|above| Allowed::of(&own, &above.slices));
            let missing = self.cgroup.groups.allow(&path, Some(&old), &new);
            self.warn_of_limits(unit, missing);
        }
    }

    /// Has limits hold that are those of the system's start and shutdown, or of the time between.
    pub(crate) fn follow_phase(&mut self) {
        let totals = self.core.totals();
        let phase = match totals.startup_finished && !totals.stopping {
            true => Phase::Running,
            false => Phase::Passing,
        };
        for unit in self.cgroup.groups.enter_phase(phase) {
            let settings = self.core.settings().compile_running(self.core.graph().definition(unit));
            let Some(path) = self.cgroup.groups.path(unit).map(str::to_owned) else { continue };
            let settings = self.limits_of_slices(unit).completed(&settings).unwrap_or(settings);
            let not_applied = self.cgroup.groups.follow_phase(&path, &settings);
            self.warn_of_limits(unit, not_applied);
        }
    }

    fn warn_of_limits(&self, unit: UnitId, not_applied: Vec<NotApplied>) {
        for NotApplied { setting, why } in not_applied {
            let name = self.core.graph().name(unit);
            let text = format!("{name}: {setting}= is not applied: {why}");
            crate::daemon::unit_log::warn(&self.core.view(), self.core.settings(), unit, &text);
        }
    }

    fn find_main(&mut self, id: EffectId, unit: UnitId, pid_file: Option<Box<str>>, waits: bool) {
        let tracked = self.cgroup.groups.exist();
        match pid_file {
            None => {
                let listed = self.cgroup.groups.listed(unit).filter(|listed| listed.is_all);
                let pid = listed.and_then(|listed| only_child_of_init(&listed.pids));
                self.done(id, Done::MainProcess { pid });
            }
            Some(path) => {
                let group = self.shared.tree_path().zip(self.cgroup.groups.path(unit));
                let group = group.map(|(root, group)| root.join(group));
                let path = Path::new(&*path).into();
                self.process.pid_files.begin(id, PidFileSearch { path, group, tracked, waits });
            }
        }
    }

    /// Goes on with searches for main processes that units wait for, and ends others.
    pub(crate) fn look_for_pid_files(&mut self) {
        let now = Instant::now();
        if self.process.pid_files.is_due(now) {
            for id in self.process.pid_files.effects() {
                let unit = self.core.effect_unit(id);
                if unit.is_none_or(|unit| !self.core.unit_run(unit).searches_main(id)) {
                    self.process.pid_files.leave(id);
                    self.done(id, Done::Failed { error: String::new() });
                }
            }
        }
        self.process.pid_files.look_again(now);
    }

    /// The bus does not say whose a name is, so one unit at a time is told of it: of several, the one that was
    /// first. The others are when it is down.
    fn watch_bus_name(&mut self, unit: UnitId, name: Box<str>, on: bool) {
        let graph = self.core.graph().clone();
        let units = self.peers.bus_names.units.entry(name.clone()).or_default();
        let first = units.first().copied();
        if on && first != Some(unit) && units.contains(&unit) {
            return;
        }
        units.retain(|&other| other != unit);
        match first.filter(|&first| first != unit) {
            Some(_) if !on => return,
            Some(first) => {
                units.push(unit);
                let (own, other) = (graph.name(unit), graph.name(first));
                return say!(
                    "{own}: BusName={name} is also used by {other}; it takes effect when {other} is inactive"
                );
            }
            None if on => units.insert(0, unit),
            None => {}
        }
        let next = units.first().copied();
        if let Some(watcher) = self.peers.bus_names.watcher.as_ref().filter(|_| !on) {
            watcher.leave(&name);
        }
        match next {
            Some(next) => self.begin_to_watch(next, &name),
            None => _ = self.peers.bus_names.units.remove(&name),
        }
    }

    /// The watcher is started with the first name.
    fn begin_to_watch(&mut self, unit: UnitId, name: &str) {
        if self.peers.bus_names.watcher.is_none() {
            let shared = self.shared.clone();
            let tell = move |name: &str, state: NameState| {
                shared.order(Order::BusName(name.to_owned(), state));
            };
            match NameWatcher::start(&self.options.bus_socket(), tell) {
                Ok(watcher) => self.peers.bus_names.watcher = Some(watcher),
                Err(e) => {
                    say!(
                        "{}: cannot watch the owner of bus name {name}: {e}",
                        self.core.graph().name(unit)
                    );
                    self.event_loop
                        .events
                        .push_back(Event::BusName { unit, state: BusName::NoBus });
                }
            }
        }
        if let Some(watcher) = &self.peers.bus_names.watcher {
            watcher.watch(name);
        }
    }

    // ---- mounts ----

    fn start_mount(&mut self, id: EffectId, unit: UnitId, settings: Arc<Compiled>, remount: bool) {
        let config = settings.mount();
        if crate::mount::kind::is_swap(self.core.graph().name(unit)) {
            return self.start_swap(id, unit, &settings, true);
        }
        let was_mounted = self.stages.recovery.is_resuming
            && !remount
            && self.triggers.mounts.is_mounted(self.core.graph().name(unit));
        if mount_commands::is_quick(config) {
            return match was_mounted {
                // The last incarnation may not have got any further.
                true => self
                    .event_loop
                    .workers
                    .run(id, move || mount_commands::finish(settings.mount())),
                false => self
                    .event_loop
                    .workers
                    .run(id, move || mount_commands::mount(settings.mount(), remount)),
            };
        }
        if !remount {
            self.spawning.tools.mounts(id, self.core.graph().name(unit));
        }
        // What is mounted may have its server in the unit's cgroup.
        let is_tool = |pid| !was_mounted || mount_commands::is_mount_tool(pid);
        if self.stages.recovery.is_resuming && self.take_up_tool(id, unit, is_tool) {
            return;
        }
        if was_mounted {
            self.spawning.tools.forget(id);
            return self.done(id, Done::Ok);
        }
        if let Err(error) =
            self.run_tool(id, unit, &settings, mount_commands::mount_command(config, remount))
        {
            self.spawning.tools.forget(id);
            self.done(id, Done::Failed { error });
        }
    }

    fn start_unmount(&mut self, id: EffectId, unit: UnitId, settings: Arc<Compiled>) {
        let config = settings.mount();
        if crate::mount::kind::is_swap(self.core.graph().name(unit)) {
            return self.start_swap(id, unit, &settings, false);
        }
        self.recording.recorder.before_unmount(&config.where_, self.core.graph());
        if mount_commands::is_quick(config) {
            return self
                .event_loop
                .workers
                .run(id, move || mount_commands::unmount(settings.mount()));
        }
        let is_of_kernel = self.core.graph().definition(unit).is_of_kernel();
        let step = Some(config).filter(|_| is_of_kernel).and_then(mount_commands::unmount_step);
        self.spawning.tools.unmounts(id, &config.where_);
        if step.is_some() {
            self.spawning.tools.takes_step(id);
        }
        if self.stages.recovery.is_resuming && self.take_up_tool(id, unit, |_| true) {
            return;
        }
        let command = step.unwrap_or_else(|| mount_commands::unmount_command(config));
        if let Err(error) = self.run_tool(id, unit, &settings, command) {
            self.spawning.tools.forget(id);
            self.done(id, Done::Failed { error });
        }
    }

    /// Begins to swap to a device or file, or gives it up; nothing is run for what is so already.
    fn start_swap(&mut self, id: EffectId, unit: UnitId, settings: &Arc<Compiled>, on: bool) {
        if self.stages.recovery.is_resuming && self.take_up_tool(id, unit, |_| true) {
            return;
        }
        let config = settings.mount();
        let command = match on {
            _ if mount_commands::is_swapped_to(&config.what) == on => {
                return self.done(id, Done::Ok);
            }
            true => mount_commands::swap_on_command(config),
            false => mount_commands::swap_off_command(config),
        };
        if let Err(error) = self.run_tool(id, unit, settings, command) {
            self.done(id, Done::Failed { error });
        }
    }

    /// A tool that the last incarnation ran for this effect: told by the helper's answer, or a process in the
    /// unit's cgroup that nobody knows, that is no older than what the unit is at, and that may be one. False if there
    /// is none.
    fn take_up_tool(
        &mut self,
        id: EffectId,
        unit: UnitId,
        may_be_one: impl Fn(i32) -> bool,
    ) -> bool {
        if let Some((reply, pidfd)) = self
            .stages
            .recovery
            .answered
            .replies
            .remove(&EffectId(id.0 | crate::spawn::tools::TOOL))
        {
            self.spawned(reply, pidfd);
            return true;
        }
        if let Some(is_there) = self.take_up_untold(EffectId(id.0 | crate::spawn::tools::TOOL)) {
            return is_there;
        }
        let first = self.unknown_processes(unit).find(|&pid| may_be_one(pid));
        match first {
            Some(pid) => self.spawning.tools.take_up(pid as u32, id),
            None => return false,
        }
        true
    }

    /// Runs a command of the manager's own in the unit's cgroup; its exit answers the effect.
    fn run_tool(
        &mut self,
        id: EffectId,
        unit: UnitId,
        settings: &Arc<Compiled>,
        argv: Vec<String>,
    ) -> Result<(), String> {
        if let Done::Failed { error } = self.make_group(unit, settings) {
            return Err(error);
        }
        let name = self.unit_name(unit);
        let program = mount_commands::tool_name(&argv);
        let invocation = self.core.unit_run(unit).history.as_ref().map_or(0, |h| h.invocation);
        let copies = exec_of(settings).and_then(|exec| exec.standard_output.copies());
        let named = (program, copies.unwrap_or_default());
        let stream = self.open_stream(unit, settings, invocation, named);
        let (output, fds) = match stream {
            Some(stream) => (StdOutput::Fd(0), vec![Passed::Own(stream.fd)]),
            None => (StdOutput::Append(self.log_file(&name)), Vec::new()),
        };
        let path = self.cgroup.groups.path(unit).map(str::to_owned);
        let cgroup = crate::spawn::request::cgroup_place(path, self.cgroup.groups.is_killed(unit));
        let (spawn_id, spec) = self.spawning.tools.spec(id, argv, cgroup, output);
        self.spawning.helpers.spawn(spawn_id, Box::new(spec), fds)
    }

    // ---- the end of a run ----

    fn clean_up(&mut self, unit: UnitId, settings: &Compiled, restarting: bool) {
        let is_slice = matches!(settings.own, TypeSettings::Slice(_));
        if self.stages.shutdown.under_way.as_mut().is_none_or(|ending| ending.counts(is_slice)) {
            let counters = self.cgroup.groups.counters(unit);
            self.recording.recorder.counted(now().monotonic, unit, Reading::Stop, &counters);
        }
        let leaves =
            self.stages.shutdown.under_way.as_ref().and_then(|ending| ending.leaves_groups());
        self.leave_nft_sets(unit, settings);
        self.cgroup.oomd.forget(unit);
        if leaves.is_none_or(|for_good| !self.cgroup.groups.leave(unit, is_slice, for_good)) {
            self.remove_group(unit);
        }
        self.forget_log_settings(unit);
        self.drop_connection(unit);
        self.forget_namespaces(unit);
        if !restarting {
            self.drop_passed(unit);
        }
        if let TypeSettings::Service(config) = &settings.own
            && !restarting
            && config.fd_store_preserve != Preserve::Yes
        {
            self.drop_stored(unit);
        }
    }

    /// `FailureAction=` and its relatives. Where the unit has no say in what to exit with, it is what the end under
    /// way says, or `systemctl exit STATUS` has set.
    fn emergency(&mut self, action: EmergencyAction, unit: UnitId, status: Option<u8>) {
        say!("{}: {} was requested", self.core.graph().name(unit), action.as_str());
        let of_ending =
            self.stages.shutdown.under_way.as_ref().and_then(|ending| ending.exit_status());
        let status = status.or(of_ending).unwrap_or_else(|| self.shared_exit_code());
        self.end_by(action, status, AskedBy::Unit(unit));
    }

    /// As `systemctl reboot --reboot-argument=` does: process 1 reads it as the last thing.
    fn tell_firmware(&self, argument: &str) {
        if self.options.scope != Scope::System {
            return;
        }
        let path = Path::new(REBOOT_ARGUMENT);
        let made = std::fs::create_dir_all(path.parent().expect("it is below a directory"));
        if let Err(error) = made.and_then(|()| replace(path, &format!("{argument}\n"))) {
            say!("cannot pass '{argument}' to the firmware: {REBOOT_ARGUMENT}: {error}");
        }
    }

    /// Ends the machine as an action says (systemd.unit(5), "FailureAction="), with this exit status where it exits.
    pub(crate) fn end_by(&mut self, action: EmergencyAction, status: u8, by: AskedBy) {
        use warren_init::protocol::control::PowerAction;
        let immediate = matches!(
            action,
            EmergencyAction::RebootImmediate
                | EmergencyAction::PoweroffImmediate
                | EmergencyAction::HaltImmediate
        );
        let (power, orderly) = match action {
            EmergencyAction::None => return,
            // Who outlasts it is decided by stops: without them nobody would be asked to go.
            EmergencyAction::SoftReboot | EmergencyAction::SoftRebootForce => {
                (PowerAction::SoftReboot, true)
            }
            EmergencyAction::Reboot => (PowerAction::Reboot, true),
            EmergencyAction::Poweroff => (PowerAction::PowerOff, true),
            EmergencyAction::Exit => (PowerAction::Exit(status), true),
            EmergencyAction::Kexec => (PowerAction::Kexec, true),
            EmergencyAction::Halt => (PowerAction::Halt, true),
            EmergencyAction::RebootForce | EmergencyAction::RebootImmediate => {
                (PowerAction::Reboot, false)
            }
            EmergencyAction::PoweroffForce | EmergencyAction::PoweroffImmediate => {
                (PowerAction::PowerOff, false)
            }
            EmergencyAction::ExitForce => (PowerAction::Exit(status), false),
            EmergencyAction::KexecForce => (PowerAction::Kexec, false),
            EmergencyAction::HaltForce | EmergencyAction::HaltImmediate => {
                (PowerAction::Halt, false)
            }
        };
        match orderly {
            true => match crate::base::power_action::cannot_follow(power, self.options.scope) {
                Some(why) if power == PowerAction::SoftReboot => say!("{why}"),
                _ => self.begin_end(power, by),
            },
            false if immediate => {
                self.event_loop.leaving = Some(crate::daemon::Leaving::Power(power))
            }
            false => self.end_without_stopping(power, by),
        }
    }
}

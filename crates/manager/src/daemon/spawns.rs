//! Processes of units: what the core wants run becomes a request to an exec helper, and what comes
//! of it goes back, also when the helper ends over it. What a request says is decided in
//! [`crate::spawn::request`].

use crate::base::say::say;
use crate::base::token;
use crate::cgroup::limits::cgroup_config;
use crate::cgroup::programs;
use crate::daemon::Daemon;
use crate::peer::devices::DEVICE_DAEMON;
use crate::peer::log_link::{LINK_FD_NAME, LOG_DAEMON};
use crate::socket::accept::is_for_later;
use crate::spawn::helpers::held::{self, HELD_MAX, Unborn};
use crate::spawn::helpers::{FOREIGN, KeptHelpers, Lost, Passed, Said};
use crate::spawn::request::{
    LogOutput, LogOutputs, SpawnHost, add_dynamic_user, cgroup_place, command_of, exec_spec,
    logged_but,
};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::model::process::{CommandList, ExitStatus};
use warren_core::protocol::event::{Done, Spawn};
use warren_core::settings::TypeSettings;
use warren_init::protocol::ExecStep;
use warren_init::protocol::birth::{Birth, Phase};
use warren_init::protocol::exec::{ExecSpec, Missing, Served, SpawnError, SpawnReply, Spawned};
use warren_sys::descriptors::Allowance;
use warren_sys::epoll::Interest;
use warren_sys::process;
use warren_sys::signal::SIGKILL;
use warren_unit::config::{Copies, ExecConfig, Input};

/// Replies of one helper taken in one turn. A helper repeats more than these to a new manager,
/// so that what this one took and did not write down is not lost.
const REPLIES_PER_TURN_MAX: usize = 64;

/// ENOMEM, EAGAIN (processes), EMFILE, ENFILE, ENOSPC (cgroups): what can be had again later.
const SHORTAGES: [i32; 5] = [12, 11, 24, 23, 28];

/// Whether there is no process because the system has no room for one: no fault of the unit's. What a
/// step of the unit's own finds wanting, as room for its directories, is told as that step.
fn is_shortage(error: &SpawnError) -> bool {
    let is_own = !matches!(error.step, ExecStep::Cgroup | ExecStep::Fds);
    error.pid.is_none() && !is_own && SHORTAGES.contains(&error.errno)
}

/// What a process is to read with `StandardInput=data`: each gets its own, at its beginning.
fn input_data(spawn: &Spawn) -> Option<warren_sys::Result<OwnedFd>> {
    let (_, exec) = command_of(&spawn.settings, spawn.list, spawn.index)?;
    let is_read = exec.standard_input == Input::Data;
    is_read.then(|| warren_sys::memfd::sealed("warren-input", &exec.standard_input_data))
}

impl Daemon {
    /// A new helper. What the old one said last may not have been read yet.
    pub(crate) fn take_helper(&mut self, index: usize, socket: OwnedFd) {
        while let Some(said) = self.spawning.helpers.receive(index) {
            self.helper_said(said);
        }
        let lost = self.spawning.helpers.replace(index, socket);
        lost.into_iter().for_each(|lost| self.helper_lost(lost));
        self.watch_helper(index);
    }

    pub(crate) fn watch_helper(&mut self, index: usize) {
        if let Some(socket) = self.spawning.helpers.socket(index) {
            let _ = self.event_loop.epoll.add(socket, token::HELPER | index as u64, Interest::READ);
        }
    }

    pub(crate) fn read_helper(&mut self, index: usize) {
        for _ in 0..REPLIES_PER_TURN_MAX {
            let Some(said) = self.spawning.helpers.receive(index) else { return };
            self.helper_said(said);
            if self.spawning.helpers.is_idle(index) {
                return;
            }
        }
    }

    fn helper_said(&mut self, said: Said) {
        match said {
            Said::Spawned(reply, pidfd) => self.spawned(reply, pidfd),
            Said::Earlier(reply, pidfd) => {
                let replies = &mut self.stages.recovery.answered.replies;
                replies.entry(EffectId(reply.id)).or_insert((reply, pidfd));
                self.settle();
            }
            Said::Keep => self.keep_births(),
            Said::Settled => {
                self.keep_births();
                self.settle();
            }
            Said::Foreign(left) => self.helper_is_foreign(left),
            Said::Lost(lost) => self.helper_lost(lost),
        }
    }

    /// Has init keep for the next manager how far helpers are, before they are asked for anything.
    pub(crate) fn keep_births(&mut self) {
        for (index, pid, fd) in self.spawning.helpers.take_to_keep() {
            let [memory, socket] = KeptHelpers::names(pid);
            let kept = self.process.init.store(&memory, fd.as_fd()).and_then(|()| {
                let end = self.spawning.helpers.socket(index);
                end.map_or(Ok(()), |end| self.process.init.store(&socket, end))
            });
            if let Err(e) = kept {
                say!("cannot save the progress of an exec helper with init: {e}");
            }
            self.spawning.helpers.is_kept(index);
        }
        self.spawning.helpers.send_waiting();
    }

    /// What helpers that are gone have done is written down.
    pub(crate) fn forget_births(&mut self) {
        if self.stages.recovery.unsettled.is_empty()
            && self.stages.recovery.answered.births.is_empty()
        {
            let unneeded = self.spawning.helpers.take_unneeded();
            for name in unneeded.into_iter().flat_map(KeptHelpers::names) {
                let _ = self.process.init.drop_stored(&name);
            }
        }
    }

    /// Forgets ends of processes that nobody will ask for: every spawn that was under way when
    /// they were seen has been answered. While what the last incarnation asked for is gone through, nobody
    /// knows that of the rest.
    pub(crate) fn forget_orphans(&mut self) {
        if self.stages.recovery.is_resuming {
            return;
        }
        let oldest = self.spawning.helpers.oldest_under_way();
        self.process.table.forget_orphans(oldest);
    }

    pub(crate) fn start_spawn(&mut self, id: EffectId, spawn: &Spawn) {
        // Sent by the last incarnation and answered meanwhile.
        if let Some((reply, pidfd)) = self.stages.recovery.answered.replies.remove(&id) {
            return self.spawned(reply, pidfd);
        }
        match self.take_up_untold(id) {
            Some(true) => return,
            Some(false) => {}
            None if self.stages.recovery.is_resuming && self.may_be_untold(spawn.unit) => {
                self.kill_unknown(id)
            }
            None => {}
        }
        if let Some(why) = spawn.dynamic_user.as_ref().and_then(|user| user.refused.as_deref()) {
            let (step, error) = (ExecStep::User, format!("step USER failed: {why}"));
            return self.done(id, Done::SpawnFailed { exit_code: step.exit_code() as u8, error });
        }
        if self.read_environment(id, spawn) {
            return;
        }
        if let Err(error) = self.spawn_as_named(id, spawn, &[]) {
            self.done(id, Done::SpawnFailed { exit_code: 0, error });
        }
    }

    /// Opens what a process is handed, and asks a helper for it.
    pub(super) fn prepare_spawn(
        &mut self,
        id: EffectId,
        spawn: &Spawn,
        file_variables: &[(String, String)],
        mut served: Served,
    ) -> Result<(), String> {
        if let Done::Failed { error } = self.make_group(spawn.unit, &spawn.settings) {
            return Err(format!("cgroup: {error}"));
        }
        if spawn.main && spawn.index == 0 {
            self.warn_of_sandbox(spawn.unit, &spawn.settings);
        }
        let unit = self.unit_name(spawn.unit);
        let command = command_of(&spawn.settings, spawn.list, spawn.index);
        let by_stream = command.is_some_and(|(_, exec)| exec.takes_socket());
        let starts = spawn.main || spawn.list == CommandList::Start;
        let non_blocking = match &spawn.settings.own {
            TypeSettings::Service(config) => config.non_blocking,
            _ => false,
        };
        let mut fds: Vec<(String, Passed)> = Vec::new();
        let mut connection_environment = Vec::new();
        if let Some(connection) = self.triggers.accepting.connections.get_mut(&spawn.unit) {
            connection.is_kept = is_for_later(&spawn.settings);
            connection_environment = connection.environment.clone();
            if starts || by_stream {
                // As its standard input it waits, as with systemd 252.
                let waits = by_stream || !non_blocking;
                warren_sys::file::set_nonblocking(connection.fd.as_fd(), !waits)
                    .map_err(|e| e.to_string())?;
                let fd = connection.fd.try_clone().map_err(|e| e.to_string())?;
                fds.push(("connection".to_owned(), Passed::Own(fd)));
            }
        }
        for (name, fd) in self.triggers.sockets.for_service(&spawn.sockets) {
            warren_sys::file::set_nonblocking(fd, non_blocking).map_err(|e| e.to_string())?;
            let fd = fd.try_clone_to_owned().map_err(|e| e.to_string())?;
            fds.push((name, Passed::Own(fd)));
        }
        if starts && !by_stream {
            let stored = self.process.stored_fds.for_unit(spawn.unit);
            fds.extend(stored.map(|(name, fd)| (name, Passed::Stored(fd))));
        }
        if starts {
            self.tell_stored(spawn.unit);
        }
        if spawn.main && unit == LOG_DAEMON {
            let end = self.peers.log_link.daemon_end().map_err(|e| e.to_string())?;
            fds.push((LINK_FD_NAME.to_owned(), Passed::Own(end)));
        }
        if spawn.main && unit == DEVICE_DAEMON {
            let end = self.peers.devices.daemon_end().map_err(|e| e.to_string())?;
            fds.push((warren_wire::device_link::LINK_FD_NAME.to_owned(), Passed::Own(end)));
        }
        let passed = self.process.stored_fds.standard_streams(spawn.unit);
        let are_passed = [passed[1].is_some(), passed[2].is_some()];
        let (log, streams) = self.log_outputs(spawn, &unit, (fds.len(), are_passed));
        let input = input_data(spawn).transpose().map_err(|e| e.to_string())?;
        let notify_socket = self.options.notify_socket().to_string_lossy().into_owned();
        let place = self.cgroup.groups.place(spawn.unit, &spawn.settings, starts);
        let (path, delegated) = place.map_err(|e| e.to_string())?;
        let cgroup = cgroup_place(path, self.cgroup.groups.is_killed(spawn.unit));
        let filter = command.map(|(_, exec)| self.spawning.filters.program(exec)).transpose()?;
        let filter = filter.unwrap_or_default();
        let watch = cgroup_config(&spawn.settings).and_then(|config| config.memory_pressure_watch);
        let memory_pressure = watch.and_then(|_| self.cgroup.groups.memory_pressure(spawn.unit));
        let defaults = self.core.settings().defaults.clone();
        let architecture_filter =
            self.spawning.filters.of_architectures(&defaults.bounds.architectures)?;
        let plan = command.map(|(_, exec)| self.spawning.views.plan(exec)).unwrap_or_default();
        let store = self.namespace_store(spawn, &plan)?;
        let store_at = fds.len() + streams.len() + input.iter().len();
        let mut passed_at = store_at + store.len();
        let standard = passed.each_ref().map(|fd| {
            let at = fd.as_ref().map(|_| passed_at as u16);
            passed_at += fd.iter().len();
            at
        });
        let restricts = command.is_some_and(|(_, exec)| programs::restricts_file_systems(exec));
        let marks = self.cgroup.groups.marks().filter(|_| restricts);
        let marks = marks.map(|map| map.try_clone_to_owned()).transpose();
        let marks = marks.map_err(|e| e.to_string())?;
        let nft_sets = self.tell_nft_sets(spawn);
        let host = SpawnHost {
            unit: &unit,
            context: &self.core.settings().context,
            environment: self.spawning.environment.all(),
            file_variables,
            notify_socket: &notify_socket,
            cgroup,
            delegated,
            log,
            fd_names: fds.iter().map(|(name, _)| name.clone()).collect(),
            connection_environment,
            input_data: input.as_ref().map(|_| (fds.len() + streams.len()) as u16),
            system_call_filter: &filter,
            plan: &plan,
            standard,
            namespace_store: (!store.is_empty()).then_some([store_at as u16, store_at as u16 + 1]),
            marks: marks.as_ref().map(|_| passed_at as u16),
            must_hold: defaults.refuses_missing_protection,
            nft_sets,
            memory_pressure,
            defaults: &defaults,
            architecture_filter: &architecture_filter,
        };
        add_dynamic_user(spawn, &mut served);
        let spec = ExecSpec { served, ..exec_spec(spawn, &host)? };
        let own = streams.into_iter().chain(input).map(Passed::Own);
        let passed = passed.into_iter().flatten().map(Passed::Stored);
        let marks = marks.into_iter().map(Passed::Own);
        let fds = fds.into_iter().map(|(_, fd)| fd).chain(own).chain(store).chain(passed);
        let fds = fds.chain(marks).collect();
        self.spawning.helpers.spawn(id, Box::new(spec), fds)
    }

    /// Where the output of a process goes if it goes to the log, and the streams, which come after so many fds:
    /// two if others get a copy of the one than of the other.
    fn log_outputs(
        &mut self,
        spawn: &Spawn,
        unit: &str,
        (fds, passed): (usize, [bool; 2]),
    ) -> (LogOutputs, Vec<OwnedFd>) {
        let command = command_of(&spawn.settings, spawn.list, spawn.index);
        let logged = |(_, exec): (&_, &ExecConfig)| logged_but(exec, passed);
        let [out, err] = command.map_or([None; 2], logged);
        let program = command.and_then(|(command, _)| command.path.rsplit('/').next());
        let program = program.unwrap_or_default().to_owned();
        if out.or(err).is_none() && spawn.main {
            self.tell_log_settings(spawn.unit, &spawn.settings, spawn.invocation);
        }
        let mut streams = Vec::new();
        let mut open = |daemon: &mut Daemon, copies: Option<Copies>| {
            let exec = command.map(|(_, exec)| exec);
            if let (Some(exec), Some(copies)) = (exec, copies)
                && let Some((stream, header)) = daemon.own_stream(unit, exec, (&program, copies))
            {
                streams.push(stream.fd);
                let fd = (fds + streams.len() - 1) as u16;
                let file = daemon.log_file(unit);
                return LogOutput::Journal { name: stream.name, fd, header, file };
            }
            let stream = copies.and_then(|copies| {
                let (unit, settings) = (spawn.unit, &spawn.settings);
                daemon.open_stream(unit, settings, spawn.invocation, (&program, copies))
            });
            match stream {
                Some(stream) => {
                    streams.push(stream.fd);
                    let fd = (fds + streams.len() - 1) as u16;
                    LogOutput::Stream { name: stream.name, fd }
                }
                None => LogOutput::File(daemon.log_file(unit)),
            }
        };
        let log = open(self, out.or(err));
        let err = if err.is_some() && out.is_some() && err != out {
            open(self, err)
        } else {
            log.clone()
        };
        (LogOutputs { out: log, err }, streams)
    }

    pub(crate) fn log_file(&self, unit: &str) -> String {
        self.peers.log_files.file(unit)
    }

    pub(crate) fn spawned(&mut self, reply: SpawnReply, pidfd: Option<OwnedFd>) {
        let id = EffectId(reply.id);
        let since_ns = reply.result.as_ref().map_or(0, |spawned| spawned.started_ns);
        let result = match reply.result {
            Ok(spawned) => {
                let pid = spawned.pid as u32;
                let pidfd = pidfd.or_else(|| process::pidfd_open(spawned.pid).ok());
                // A process can be followed without; the doors cannot be opened without.
                let allowance = Allowance::of_process();
                let pidfd = pidfd.filter(|pidfd| allowance.covers(pidfd.as_fd()));
                self.process.table.made(pid, pidfd, since_ns, self.core.effect_unit(id));
                self.warn_of_missing(id, spawned.missing);
                Done::Spawned { pid }
            }
            Err(error) => {
                let errno = match error.errno {
                    0 => String::new(),
                    errno => format!(": {}", warren_sys::error::errno_text(errno)),
                };
                if let (Some(unit), Some(pid)) = (self.core.effect_unit(id), error.pid) {
                    let status = ExitStatus::Exited(error.step.exit_code() as u8);
                    self.record_end(unit, pid as u32, status);
                }
                let exit_code = if is_shortage(&error) { 0 } else { error.step.exit_code() as u8 };
                let step = error.step.name();
                let text = format!("step {step} failed: {}{errno}", error.message);
                Done::SpawnFailed { exit_code, error: text }
            }
        };
        if let Some(unit) = self.core.effect_unit(id)
            && self.core.is_main_asked(unit, id)
            && self
                .triggers
                .accepting
                .connections
                .get(&unit)
                .is_some_and(|connection| !connection.is_kept)
        {
            self.triggers.accepting.handed_over.push(unit);
        }
        let pid = match &result {
            Done::Spawned { pid } => Some(*pid),
            _ => None,
        };
        // The unit's own, or a tool's that is run for it.
        if let Some(unit) = self.core.effect_unit(EffectId(id.0 & !crate::spawn::tools::TOOL)) {
            self.cgroup.groups.note_use(unit);
        }
        let unit = self.core.effect_unit(id);
        self.spawn_answered(id, result);
        if let (Some(unit), Some(pid)) = (unit, pid) {
            self.take_early_notices(unit, pid, since_ns);
        }
        match pid {
            Some(pid) => self.take_early_exit(unit, pid, since_ns),
            None => self.look_after_failure(id),
        }
        self.forget_orphans();
    }

    /// Hands on what became of a spawn: to the machine, or to who runs the tool that it was of.
    fn spawn_answered(&mut self, id: EffectId, result: Done) {
        match self.spawning.tools.spawned(id, &result) {
            Some(Some((effect, result))) if self.own_effect_done(effect, &result) => {}
            Some(Some((effect, result))) => self.done(effect, result),
            Some(None) => {}
            None => self.done(id, result),
        }
    }

    /// A process is known now: how it has ended, if it has.
    fn take_early_exit(&mut self, unit: Option<UnitId>, pid: u32, since_ns: u64) {
        if let Some(status) = self.process.table.early_exits.take(pid, since_ns) {
            self.process_ended(pid, status);
        } else if !self.process.table.is_held(pid)
            || self.process.table.early_exits.has_dropped(since_ns)
        {
            self.await_record(unit, pid);
        }
    }

    /// A process may have been made and have ended before it became the program; it is none that
    /// the machine knows, so its end says nothing.
    fn look_after_failure(&mut self, id: EffectId) {
        let unit = self.core.effect_unit(EffectId(id.0 & !crate::spawn::tools::TOOL));
        if let Some(unit) = unit.filter(|&unit| self.cgroup.groups.emptied(unit)) {
            self.group_emptied(unit);
        }
        self.await_groups();
    }

    /// A helper is gone. The process that it was at goes on alone if it is its program or on the way
    /// to it; else the spawn is done once more, but for one over which too many helpers ended.
    pub(crate) fn helper_lost(&mut self, lost: Lost) {
        let slot = lost.socket.map(|socket| {
            let _ = self.event_loop.epoll.remove(&socket);
            self.spawning.helpers.held.take_socket(socket)
        });
        if let Some(begun) = lost.begun
            && !lost.birth.is_some_and(|birth| self.take_up(begun.id(), begun.number(), &birth))
            && let Some((id, why)) = self.spawning.helpers.again(begun, lost.held_up)
        {
            self.not_spawned(id, why);
        }
        if lost.owed {
            self.stages.recovery.answered.is_partial = true;
            self.settle();
        }
        slot.into_iter().for_each(|slot| self.watch_held(slot));
        self.close_unneeded();
        self.spawning.helpers.send_waiting();
        self.forget_orphans();
    }

    /// Watches what a helper that is gone was heard by.
    pub(crate) fn watch_held(&mut self, slot: u32) {
        let Some(socket) = self.spawning.helpers.held.socket(slot) else { return };
        if let Err(e) =
            self.event_loop.epoll.add(socket, token::HELD | u64::from(slot), Interest::READ)
        {
            say!("cannot watch a stalled process of an exec helper: {e}");
            self.held_hung_up(slot);
        }
    }

    /// Closes what helpers that are gone were heard by, if nobody is left to be waited for.
    pub(crate) fn close_unneeded(&mut self) {
        let held = &self.spawning.helpers.held;
        if held.count() == 0 && !self.spawning.helpers.owe() {
            held.slots().into_iter().for_each(|slot| self.held_hung_up(slot));
        }
    }

    /// Processes of helpers that are gone may be their programs now.
    pub(crate) fn held_hung_up(&mut self, slot: u32) {
        if let Some(socket) = self.spawning.helpers.held.socket(slot) {
            let _ = self.event_loop.epoll.remove(socket);
        }
        let (born, killed) = self.spawning.helpers.held.hung_up(slot);
        killed.into_iter().for_each(|(id, pid)| self.say_killed(id, pid));
        born.into_iter().for_each(|unborn| self.born(unborn));
        self.forget_orphans();
    }

    /// A process of a helper that is gone is its program, or has ended.
    pub(crate) fn born(&mut self, unborn: Unborn) {
        self.became_program(unborn.id, unborn.pid, unborn.seen_ns, Some(unborn.pidfd));
    }

    /// The process was there at `seen_ns`; 0 where that is not known.
    fn became_program(&mut self, id: EffectId, pid: i32, seen_ns: u64, pidfd: Option<OwnedFd>) {
        let spawned = Spawned {
            pid,
            started_ns: seen_ns,
            moved_to_cgroup: false,
            missing: Missing::default(),
        };
        self.spawned(SpawnReply { id: id.0, result: Ok(spawned) }, pidfd);
    }

    fn hold(&mut self, unborn: Unborn) {
        let unit = self.core.effect_unit(EffectId(unborn.id.0 & !crate::spawn::tools::TOOL));
        let name = unit.map(|unit| self.unit_name(unit)).unwrap_or_default();
        let pid = unborn.pid;
        let what = match held::opens_session(pid) {
            true => "has not opened its session of PAM yet",
            false => "is stuck in execve(2) on an unresponsive file system",
        };
        say!("{name}: process {pid} {what}; other units are unaffected");
        self.spawning.helpers.held.take(unborn);
    }

    /// Takes up the process that a helper which is gone was at. False if there will be none: it may
    /// not become its program any more.
    fn take_up(&mut self, id: EffectId, number: u64, birth: &Birth) -> bool {
        while let Some(phase) = birth.phase(id.0) {
            let unborn = match phase {
                Phase::Made(pid) | Phase::Executes(pid) => Unborn::of(id, number, pid),
                Phase::Begun | Phase::Revoked => None,
            };
            match (phase, unborn) {
                (_, Some(unborn)) if self.spawning.helpers.held.is_listening() => {
                    self.hold(unborn);
                    return true;
                }
                // Nobody would hear of it that it is its program.
                (Phase::Executes(pid), Some(unborn)) => {
                    self.say_killed(id, pid);
                    let _ = process::pidfd_signal(unborn.pidfd.as_fd(), SIGKILL);
                    birth.killed(id.0);
                    return false;
                }
                // Its end, if it has ended, is told as that of any other.
                (Phase::Executes(pid), None) => {
                    self.became_program(id, pid, 0, process::pidfd_open(pid).ok());
                    return true;
                }
                _ if birth.revoke(id.0, phase) || phase == Phase::Revoked => return false,
                // It has gone on meanwhile.
                _ => {}
            }
        }
        false
    }

    fn say_killed(&self, id: EffectId, pid: i32) {
        let unit = self.core.effect_unit(EffectId(id.0 & !crate::spawn::tools::TOOL));
        let name = unit.map_or_else(|| "a unit that is gone".to_owned(), |u| self.unit_name(u));
        say!("{name}: killing process {pid}, whose exec helper exited before it reported it");
    }

    /// The same of what a helper of the last incarnation has told nobody; nothing if none of them
    /// had begun with it.
    pub(crate) fn take_up_untold(&mut self, id: EffectId) -> Option<bool> {
        // One that may not become its program was asked for again, perhaps of another helper.
        let knows =
            |birth: &&Rc<Birth>| birth.phase(id.0).is_some_and(|phase| phase != Phase::Revoked);
        let birth = self.stages.recovery.answered.births.iter().find(knows)?.clone();
        Some(self.take_up(id, 0, &birth))
    }

    /// Has helpers replaced that are held up while others wait behind them.
    pub(crate) fn end_held_up(&mut self) {
        let now = Instant::now();
        let mut is_asked = false;
        for (index, spawn) in self.spawning.helpers.late(now) {
            is_asked |= self.end_if_held_up(index, spawn, now);
        }
        if is_asked {
            let number = self.ask_init();
            self.spawning.helpers.killed_by(number);
        }
    }

    /// Whether init was asked to end the helper. What one made that only wants for a processor would be
    /// its program before the helper is ended: it would be run twice.
    fn end_if_held_up(&mut self, index: usize, spawn: Option<EffectId>, now: Instant) -> bool {
        let is_busy = |id| self.is_process_busy(id);
        if self.spawning.helpers.is_busy(index) || spawn.is_some_and(is_busy) {
            self.spawning.helpers.go_on(index, now);
            return false;
        }
        let goes_on = self.spawning.helpers.goes_on(index);
        if goes_on && self.spawning.helpers.may_take_long(index) {
            self.spawning.helpers.go_on(index, now);
            return false;
        }
        if !self.spawning.helpers.give_up(index, goes_on, now) {
            self.say_too_many_held();
            return false;
        }
        self.spawning.is_limit_reported = false;
        let asked = self.process.init.end_helper(index);
        if let Err(e) = &asked {
            self.spawning.helpers.go_on(index, now);
            say!("an exec helper is stalled and cannot be replaced: {e}");
        }
        asked.is_ok()
    }

    /// Once for each time that it is so.
    fn say_too_many_held(&mut self) {
        if !std::mem::replace(&mut self.spawning.is_limit_reported, true) {
            say!(
                "{HELD_MAX} processes are stuck in execve(2) on unresponsive file systems: further starts may have to wait"
            );
        }
    }

    fn is_process_busy(&self, id: EffectId) -> bool {
        let unit = self.core.effect_unit(EffectId(id.0 & !crate::spawn::tools::TOOL));
        unit.is_some_and(|unit| self.unknown_processes(unit).any(process::is_runnable))
    }

    /// A helper is of another program. If ours is no longer on the disk, the one that is there
    /// takes over; else they were not installed together.
    pub(crate) fn helper_is_foreign(&mut self, left: Vec<EffectId>) {
        let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        if program.to_string_lossy().ends_with(" (deleted)") {
            say!("programs on disk have changed: re-executing the manager");
            return self.reexecute();
        }
        say!("{FOREIGN}: install matching versions of all programs, then run `warren reexec`");
        left.into_iter().for_each(|id| self.not_spawned(id, FOREIGN));
        self.forget_orphans();
    }

    /// Tells of spawns that could not be sent to a helper.
    pub(crate) fn tell_refused_spawns(&mut self) {
        for (id, why) in self.spawning.helpers.take_refused() {
            self.not_spawned(id, &why);
        }
    }

    fn not_spawned(&mut self, id: EffectId, why: &str) {
        self.spawn_answered(id, Done::SpawnFailed { exit_code: 0, error: why.to_owned() });
        self.look_after_failure(id);
    }

    /// Whether a helper of the last incarnation may have made a process of the unit and told nobody.
    fn may_be_untold(&self, unit: UnitId) -> bool {
        let history = self.core.unit_run(unit).history.as_ref();
        let since = history.map_or(0, |history| history.state_change.monotonic.0);
        self.stages.recovery.answered.is_partial || self.spawning.helpers.is_replaced_since(since)
    }

    /// Kills what a helper may have made for an effect without anybody being told.
    fn kill_unknown(&mut self, id: EffectId) {
        let Some(unit) = self.core.effect_unit(id) else { return };
        for pid in self.unknown_processes(unit) {
            self.say_killed(id, pid);
            let _ = process::kill(pid, SIGKILL);
        }
    }

    /// Children of init in the unit's group that nobody knows and that are no older than its state.
    pub(crate) fn unknown_processes(&self, unit: UnitId) -> impl Iterator<Item = i32> {
        let history = self.core.unit_run(unit).history.as_ref();
        let since = history.map_or(0, |history| history.state_change.monotonic.0);
        let init = std::os::unix::process::parent_id() as i32;
        self.cgroup.groups.processes(unit).into_iter().filter(move |&pid| {
            let is_known = self.core.unit_of_pid(pid as u32).is_some()
                || self.spawning.tools.knows(pid as u32)
                || self.spawning.helpers.held.knows(pid);
            !is_known && process::parent(pid) == Ok(init) && process::is_younger(pid, since)
        })
    }
}

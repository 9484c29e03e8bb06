//! Sockets: open, watch, start the service when traffic comes (systemd.socket(5)).

use crate::features::stop_budget::{SIGNAL_WAIT_MIN, SPAWN_WAIT_MIN, share_of};
use crate::features::{command_lines, connections, start_limit};
use crate::graph::{Definition, Graph};
use crate::jobs::install;
use crate::machine::Core;
use crate::model::active_state::ActiveState;
use crate::model::ids::{EffectId, UnitId};
use crate::model::job::{Job, JobKind, JobMode, JobType};
use crate::model::part::Part;
use crate::model::process::*;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::parts::unit_settings;
use crate::protocol::event::{Done, Effect, FollowUp, KillTarget, Spawn};
use crate::settings::Compiled;
use crate::state_change;
use std::sync::Arc;
use warren_unit::config::{KillMode, Listen, ListenKind, SocketConfig, TriggerLimit};
use warren_unit::settings::{Group, Id};
use warren_unit::{LoadState, Relation, Signal, UnitType};

const ACCEPT: Id = Id::of(Group::Socket, "Accept");
const FLUSH_PENDING: Id = Id::of(Group::Socket, "FlushPending");
const REMOVE_ON_STOP: Id = Id::of(Group::Socket, "RemoveOnStop");
const EXEC_STOP_PRE: Id = Id::of(Group::Socket, "ExecStopPre");
const EXEC_STOP_POST: Id = Id::of(Group::Socket, "ExecStopPost");

impl Core {
    fn set_socket_phase(&mut self, unit: UnitId, phase: SocketPhase) {
        state_change::transit(self, unit, false, |run| {
            if let TypeState::Socket(Socket::Up(socket)) = &mut run.state {
                socket.phase = phase;
            }
        });
    }

    // ---- the way up ----

    pub(crate) fn socket_start(&mut self, unit: UnitId) {
        let run = SocketRun {
            phase: SocketPhase::StartPre,
            listen_asked: None,
            fds: 0,
            control: None,
            command: (CommandList::StartPre, 0),
            deadline: None,
            outcome: Outcome::Success,
            connections: self.resources.outliving.remove(&unit).unwrap_or_default(),
            triggers: RateWindow::default(),
        };
        let history = self.units.history_mut(unit);
        history.outcome = Outcome::Success;
        history.status_text = String::new();
        history.begin_account();
        state_change::transit(self, unit, false, |u| {
            u.state = TypeState::Socket(Socket::Up(Part::new(run)))
        });
        self.run_socket_list(unit, CommandList::StartPre);
    }

    /// With `Accept=no` the service must not run before its sockets are opened.
    /// A socket whose service could not take it over is not opened: it stays as it is.
    pub(crate) fn socket_refused_to_start(&mut self, unit: UnitId) -> bool {
        let detail = if let Some(service) = self.busy_service(unit) {
            format!("{} is active already", self.graph.name(service))
        } else if let Some(service) = self.missing_service(unit) {
            format!("{} is not there", self.graph.name(service))
        } else {
            return false;
        };
        self.units.history_mut(unit).status_text.clone_from(&detail);
        state_change::refuse_to_start(self, unit, Code::ListenFailed, detail);
        true
    }

    fn busy_service(&mut self, unit: UnitId) -> Option<UnitId> {
        if unit_settings::compiled(self, unit).socket().accept {
            return None;
        }
        self.graph.stated(unit, Relation::Triggers).find(|&service| {
            self.units.active_state(service) != ActiveState::Failed
                && !self.units.active_state(service).is_down()
                && !self.units.waits_to_restart(service)
        })
    }

    /// Nobody could answer what comes.
    fn missing_service(&mut self, unit: UnitId) -> Option<UnitId> {
        if unit_settings::compiled(self, unit).socket().accept {
            return None;
        }
        let mut services = self.graph.stated(unit, Relation::Triggers);
        services.find(|&service| self.graph.definition(service).load_state != LoadState::Loaded)
    }

    fn open_sockets(&mut self, unit: UnitId) {
        let settings = unit_settings::compiled(self, unit);
        let id = self.outbox.new_effect(unit);
        self.set_socket_phase(unit, SocketPhase::StartChown);
        self.units.socket_mut(unit).listen_asked = Some(id);
        self.outbox.effects.push(Effect::Listen { id, unit, settings });
    }

    fn enter_listening(&mut self, unit: UnitId) {
        let accept = self.accepts(unit);
        if !accept && self.socket_flag(unit, FLUSH_PENDING, |config| config.flush_pending) {
            self.outbox.effects.push(Effect::FlushSockets { unit });
        }
        self.units.socket_mut(unit).deadline = None;
        self.set_socket_phase(unit, SocketPhase::Listening);
        // At the end nothing is started for traffic. A socket that outlasts it is watched by the
        // manager that comes, and one whose stop waits for others tells who comes that nobody is there.
        let waits = |job: &Job| job.kind == JobKind::Stop && job.blockers > 0;
        let is_held = self.units.run(unit).job.as_deref().is_some_and(waits);
        if !self.totals.stopping || is_held && self.has_connections_only(unit) {
            self.outbox.effects.push(Effect::WatchSockets { unit, on: true, accept });
        }
    }

    /// The socket was edited, and `before` is the generation before that: who comes from now on is its business by
    /// the `Accept=` of now.
    pub(crate) fn watch_anew_if_edited(&mut self, unit: UnitId, before: &Graph) {
        let listens = |run: &SocketRun| run.phase == SocketPhase::Listening;
        if !self.units.socket(unit).is_some_and(listens) || self.totals.stopping {
            return;
        }
        let accepts = |definition: &std::sync::Arc<Definition>| {
            definition.load_state == LoadState::Loaded
                && definition.mentions(ACCEPT)
                && self.settings().compile_running(definition).socket().accept
        };
        let was = before.get(unit).is_some_and(accepts);
        let is = accepts(self.graph.definition(unit));
        if was != is && self.lets_nobody_in(unit).is_none() {
            self.outbox.effects.push(Effect::WatchSockets { unit, on: false, accept: was });
            self.outbox.effects.push(Effect::WatchSockets { unit, on: true, accept: is });
        }
    }

    /// `Accept=`.
    pub(crate) fn accepts(&mut self, unit: UnitId) -> bool {
        self.socket_flag(unit, ACCEPT, |config| config.accept)
    }

    /// A setting that is off where no file speaks of it: a socket whose service ends is not worth
    /// being compiled for it.
    fn socket_flag(&mut self, unit: UnitId, flag: Id, of: fn(&SocketConfig) -> bool) -> bool {
        self.may_say(unit, flag) && of(unit_settings::compiled(self, unit).socket())
    }

    fn may_say(&self, unit: UnitId, setting: Id) -> bool {
        self.settings.at_hand(unit).is_some() || self.graph.definition(unit).mentions(setting)
    }

    // ---- commands ----

    /// Runs the first command of a list, or goes on if it is empty.
    fn run_socket_list(&mut self, unit: UnitId, list: CommandList) {
        let may_have = match list {
            CommandList::Stop => self.may_say(unit, EXEC_STOP_PRE),
            CommandList::StopPost => self.may_say(unit, EXEC_STOP_POST),
            _ => true,
        };
        if !may_have || unit_settings::compiled(self, unit).commands(list).is_empty() {
            return self.socket_list_over(unit, list, true);
        }
        // Who comes from now on waits unheard.
        if list == CommandList::Stop {
            let accept = self.accepts(unit);
            self.outbox.effects.push(Effect::WatchSockets { unit, on: false, accept });
        }
        let phase = match list {
            CommandList::StartPost => SocketPhase::StartPost,
            CommandList::Stop => SocketPhase::StopPre,
            CommandList::StopPost => SocketPhase::StopPost,
            _ => SocketPhase::StartPre,
        };
        self.set_socket_phase(unit, phase);
        self.run_socket_command(unit, list, 0);
    }

    fn run_socket_command(&mut self, unit: UnitId, list: CommandList, index: u16) {
        let settings = unit_settings::compiled(self, unit);
        let id = self.outbox.new_effect(unit);
        let deadline = settings.socket().timeout.map(|t| self.times.now.monotonic.after(t));
        let run = self.units.socket_mut(unit);
        run.control = Some(Control::Asked(id));
        run.command = (list, index);
        run.deadline = deadline;
        self.units.history_mut(unit).has_cgroup = true;
        self.spawn_for_socket(id, unit, list, index, settings);
    }

    fn spawn_for_socket(
        &mut self,
        id: EffectId,
        unit: UnitId,
        list: CommandList,
        index: u16,
        settings: Arc<Compiled>,
    ) {
        let invocation = self.units.run(unit).history.as_ref().map_or(0, |h| h.invocation);
        let spawn = Spawn {
            unit,
            list,
            index,
            main: false,
            settings,
            environment: Vec::new(),
            sockets: Vec::new(),
            invocation,
        };
        command_lines::note_line(self, unit, list, index, &spawn.settings);
        self.outbox.effects.push(Effect::Spawn(id, Box::new(spawn)));
    }

    fn socket_list_over(&mut self, unit: UnitId, list: CommandList, success: bool) {
        match (list, success) {
            (CommandList::StartPre, true) => self.open_sockets(unit),
            (CommandList::StartPost, true) => self.enter_listening(unit),
            // Nothing is open: there is nothing to stop.
            (CommandList::StartPre, false) => {
                self.socket_failed(unit, Outcome::ExitCode);
                let outcome = self.units.socket_mut(unit).outcome;
                self.socket_dead(unit, outcome);
            }
            (CommandList::StartPost, false) => {
                self.socket_failed(unit, Outcome::ExitCode);
                self.run_socket_list(unit, CommandList::Stop);
            }
            (CommandList::Stop, _) => self.socket_down(unit),
            _ => {
                let outcome = self.units.socket(unit).map_or(Outcome::Success, |run| run.outcome);
                self.socket_dead(unit, outcome);
            }
        }
    }

    fn socket_failed(&mut self, unit: UnitId, outcome: Outcome) {
        let run = self.units.socket_mut(unit);
        if run.outcome == Outcome::Success {
            run.outcome = outcome;
        }
    }

    pub(crate) fn socket_process_ended(&mut self, unit: UnitId, pid: u32, status: ExitStatus) {
        let Some(run) = self.units.socket(unit) else { return };
        let (list, index) = run.command;
        let Some(Control::Running(process)) = run.control else { return };
        if process.pid != pid {
            return;
        }
        let ended = process.ended(self.times.now, status);
        self.units.socket_mut(unit).control = None;
        self.units.history_mut(unit).keep_control(list, index, ended);
        if self.is_leaving(unit) {
            return self.socket_leaves_if_free(unit);
        }
        self.socket_command_over(unit, list, index, status == ExitStatus::Exited(0));
    }

    fn socket_command_over(&mut self, unit: UnitId, list: CommandList, index: u16, success: bool) {
        let settings = unit_settings::compiled(self, unit);
        let all = settings.commands(list);
        let ignored = all.get(usize::from(index)).is_some_and(|c| c.ignore_failure);
        if !success && !ignored {
            state_change::note(self, unit, Code::ExitCode, Cause::Kernel, String::new());
            self.socket_failed(unit, Outcome::ExitCode);
            return self.socket_list_over(unit, list, false);
        }
        if usize::from(index) + 1 < all.len() {
            return self.run_socket_command(unit, list, index + 1);
        }
        self.socket_list_over(unit, list, true);
    }

    pub(crate) fn socket_done(&mut self, unit: UnitId, effect: EffectId, result: Done) {
        let Some(run) = self.units.socket(unit) else { return };
        if run.listen_asked == Some(effect) {
            self.units.socket_mut(unit).listen_asked = None;
            return self.listen_done(unit, result);
        }
        if run.control == Some(Control::Asked(effect)) {
            self.socket_spawn_done(unit, result);
        }
    }

    fn socket_spawn_done(&mut self, unit: UnitId, result: Done) {
        let (list, index) = self.units.socket_mut(unit).command;
        if let Done::Spawned { pid } = result {
            let started = self.times.now;
            self.pids.own(pid, unit);
            self.units.socket_mut(unit).control = Some(Control::Running(Process { pid, started }));
            if self.is_leaving(unit) {
                self.signal_socket_control(unit);
            }
            return;
        }
        self.units.socket_mut(unit).control = None;
        if let Done::SpawnFailed { error, .. } | Done::Failed { error } = result {
            self.units.history_mut(unit).status_text = error;
        }
        match self.is_leaving(unit) {
            true => self.socket_leaves_if_free(unit),
            false => self.socket_command_over(unit, list, index, false),
        }
    }

    fn listen_done(&mut self, unit: UnitId, result: Done) {
        if let Done::Listening { fds } = result {
            self.units.socket_mut(unit).fds = fds;
        }
        match result {
            _ if self.is_leaving(unit) => self.socket_leaves_if_free(unit),
            Done::Failed { error } => {
                state_change::note(self, unit, Code::ListenFailed, Cause::Kernel, error.clone());
                self.units.history_mut(unit).status_text = error;
                self.socket_failed(unit, Outcome::Resources);
                self.socket_down(unit);
            }
            _ => self.run_socket_list(unit, CommandList::StartPost),
        }
    }

    // ---- the way down ----

    pub(crate) fn socket_stop(&mut self, unit: UnitId) {
        match self.units.socket(unit).map(|run| run.phase) {
            Some(SocketPhase::Listening | SocketPhase::Running) => {
                self.run_socket_list(unit, CommandList::Stop);
            }
            Some(SocketPhase::StartPre | SocketPhase::StartChown | SocketPhase::StartPost) => {
                self.socket_leave(unit, SocketPhase::StopPreSigterm);
            }
            _ => {}
        }
    }

    /// Whether it waits for what was under way when it was given up.
    pub(crate) fn is_leaving(&self, unit: UnitId) -> bool {
        use SocketPhase::*;
        let leaving = [StopPreSigterm, StopPreSigkill, FinalSigterm, FinalSigkill];
        self.units.socket(unit).is_some_and(|run| leaving.contains(&run.phase))
    }

    /// Gives up what is under way: its process is told to go, and killed when it has not gone after a part
    /// of the time (systemd.socket(5), `TimeoutSec=`). Nothing is closed before that has ended: sockets
    /// that are being opened would stay open, a process that is being spawned would outlive its unit.
    fn socket_leave(&mut self, unit: UnitId, phase: SocketPhase) {
        let timeout = unit_settings::compiled(self, unit).socket().timeout;
        // Sockets that are being opened cannot be told to go.
        let run = self.units.socket_mut(unit);
        let is_opening = run.listen_asked.is_some();
        let least = match run.control {
            Some(Control::Asked(_)) => SPAWN_WAIT_MIN,
            _ => SIGNAL_WAIT_MIN,
        };
        let phase = if is_opening { SocketPhase::StopPreSigkill } else { phase };
        self.set_socket_phase(unit, phase);
        let share = |timeout| share_of(timeout).max(least);
        let wait = timeout.map(|timeout| if is_opening { timeout } else { share(timeout) });
        self.units.socket_mut(unit).deadline =
            wait.map(|wait| self.times.now.monotonic.after(wait));
        self.signal_socket_control(unit);
        self.socket_leaves_if_free(unit);
    }

    fn socket_leaves_if_free(&mut self, unit: UnitId) {
        let Some(run) = self.units.socket(unit) else { return };
        if run.listen_asked.is_some() || run.control.is_some() {
            return;
        }
        let (phase, outcome) = (run.phase, run.outcome);
        self.units.socket_mut(unit).deadline = None;
        match phase {
            SocketPhase::FinalSigterm | SocketPhase::FinalSigkill => {
                self.socket_dead(unit, outcome);
            }
            _ => self.socket_down(unit),
        }
    }

    /// Signals the process of a command, and those with it, as the phase and systemd.kill(5) say.
    pub(crate) fn signal_socket_control(&mut self, unit: UnitId) {
        use SocketPhase::*;
        let run = self.units.socket_mut(unit);
        let Some(Control::Running(process)) = run.control else { return };
        let kills = matches!(run.phase, StopPreSigkill | FinalSigkill);
        let settings = unit_settings::compiled(self, unit);
        let kill = &settings.socket().kill;
        let whole_group = match kill.mode {
            KillMode::None => return,
            KillMode::Process => false,
            KillMode::Mixed => kills,
            KillMode::ControlGroup => true,
        };
        let target = match whole_group && !self.resources.without_cgroups {
            true => KillTarget::Group,
            false => KillTarget::Process(process.pid),
        };
        let signal = if kills { kill.final_signal } else { kill.signal };
        if target == KillTarget::Group && kills && signal == Signal::KILL {
            return self.outbox.effects.push(Effect::KillGroup { unit });
        }
        let id = self.outbox.new_effect(unit);
        self.outbox.forget_effect(id);
        self.outbox.effects.push(Effect::Kill {
            id,
            unit,
            target,
            signal: signal.number(),
            then: FollowUp { hangup: kill.send_sighup && !kills, resume: !kills },
        });
    }

    /// Somebody is tired of waiting: what is under way is killed, or not waited for any longer. False if
    /// nothing is.
    pub(crate) fn hurry_socket(&mut self, unit: UnitId) -> bool {
        use SocketPhase::*;
        let is_under_way = |run: &&SocketRun| run.listen_asked.is_some() || run.control.is_some();
        let Some(run) = self.units.socket(unit).filter(is_under_way) else { return false };
        match run.phase {
            StopPreSigkill | FinalSigkill => {
                self.abandon_socket_control(unit);
                self.socket_leaves_if_free(unit);
            }
            StopPost | FinalSigterm => self.socket_leave(unit, FinalSigkill),
            _ => self.socket_leave(unit, StopPreSigkill),
        }
        true
    }

    /// Not even SIGKILL ended it in time: it is left behind.
    fn abandon_socket_control(&mut self, unit: UnitId) {
        if let Some(id) = self.units.socket_mut(unit).listen_asked.take() {
            self.outbox.forget_effect(id);
        }
        match self.units.socket_mut(unit).control.take() {
            Some(Control::Running(process)) => self.pids.disown(process.pid),
            Some(Control::Asked(id)) => self.outbox.come_too_late(id, unit),
            None => {}
        }
    }

    /// Closes everything and runs what comes after that.
    fn socket_down(&mut self, unit: UnitId) {
        self.close_sockets(unit);
        if self.units.socket(unit).is_some_and(|run| run.phase != SocketPhase::StopPost) {
            self.set_socket_phase(unit, SocketPhase::StopPost);
        }
        self.run_socket_list(unit, CommandList::StopPost);
    }

    fn close_sockets(&mut self, unit: UnitId) {
        let accept = self.accepts(unit);
        self.outbox.effects.push(Effect::WatchSockets { unit, on: false, accept });
        let removes = self.socket_flag(unit, REMOVE_ON_STOP, |config| config.remove_on_stop);
        let remove = removes.then(|| unit_settings::compiled(self, unit));
        self.outbox.effects.push(Effect::CloseSockets { unit, remove });
        self.units.socket_mut(unit).fds = 0;
    }

    fn socket_dead(&mut self, unit: UnitId, outcome: Outcome) {
        let left = self.units.socket(unit).map(|run| run.connections.clone()).unwrap_or_default();
        if !left.is_empty() {
            self.resources.outliving.insert(unit, left);
        }
        self.units.history_mut(unit).outcome = outcome;
        if std::mem::take(&mut self.units.history_mut(unit).has_cgroup) {
            self.kill_socket_group(unit);
            let settings = unit_settings::compiled(self, unit);
            self.outbox.effects.push(Effect::CleanUp { unit, settings, restarting: false });
        }
        let state =
            if outcome == Outcome::Success { Socket::Dead } else { Socket::Failed(outcome) };
        state_change::transit(self, unit, false, |u| u.state = TypeState::Socket(state));
    }

    /// Ends what its commands left behind, if `KillMode=` allows.
    pub(crate) fn kill_socket_group(&mut self, unit: UnitId) {
        let settings = unit_settings::compiled(self, unit);
        let kill = &settings.socket().kill;
        if kill.send_sigkill && matches!(kill.mode, KillMode::ControlGroup | KillMode::Mixed) {
            self.outbox.effects.push(Effect::KillGroup { unit });
        }
    }

    /// Fails while it listens.
    fn socket_broken(&mut self, unit: UnitId, outcome: Outcome, reason: Reason) {
        state_change::note(self, unit, reason.code, reason.cause, String::new());
        self.socket_failed(unit, outcome);
        self.run_socket_list(unit, CommandList::Stop);
    }

    /// It would be taken for listening where nobody listens any more, at the next manager's at the latest.
    pub(crate) fn sockets_lost(&mut self, unit: UnitId, why: String) {
        use SocketPhase::{Listening, Running, StartPost};
        let Some(phase) = self.units.socket(unit).map(|run| run.phase) else { return };
        if !matches!(phase, Listening | Running | StartPost) {
            return;
        }
        state_change::note(self, unit, Code::ListenFailed, Cause::None, why.clone());
        self.units.history_mut(unit).status_text = why;
        self.socket_failed(unit, Outcome::Resources);
        match phase {
            StartPost => self.socket_leave(unit, SocketPhase::StopPreSigterm),
            _ => self.run_socket_list(unit, CommandList::Stop),
        }
    }

    pub(crate) fn socket_deadline(&mut self, unit: UnitId) {
        use SocketPhase::*;
        let now = self.times.now.monotonic;
        let Some(run) = self.units.socket(unit) else { return };
        if run.deadline.is_none_or(|at| at > now) {
            return;
        }
        let phase = run.phase;
        self.units.socket_mut(unit).deadline = None;
        self.socket_failed(unit, Outcome::Timeout);
        let code = match phase {
            StartPre | StartChown | StartPost => Code::StartTimeout,
            _ => Code::StopTimeout,
        };
        state_change::note(self, unit, code, Cause::None, String::new());
        let kills = unit_settings::compiled(self, unit).socket().kill.send_sigkill;
        match phase {
            StopPreSigterm if kills => self.socket_leave(unit, StopPreSigkill),
            FinalSigterm if kills => self.socket_leave(unit, FinalSigkill),
            _ if self.is_leaving(unit) => {
                self.abandon_socket_control(unit);
                self.socket_leaves_if_free(unit);
            }
            StopPost => self.socket_leave(unit, FinalSigterm),
            _ => self.socket_leave(unit, StopPreSigterm),
        }
    }

    /// The service that a socket with `Accept=no` starts; others that get its file descriptors are not
    /// started for traffic (systemd.service(5), `Sockets=`). One whose file is gone names nobody any more,
    /// but it listens: who waits there is let in by the service of its name.
    fn service_behind(&self, unit: UnitId) -> Option<UnitId> {
        let named = self.graph.stated(unit, Relation::Triggers).next();
        named.or_else(|| self.graph.namesake(unit, UnitType::Service))
    }

    /// Another service is behind a socket than the one that has taken it over, as files were edited: it is
    /// that one's state that counts from now on.
    pub(crate) fn look_behind_socket(&mut self, unit: UnitId) {
        let is_taken = |run: &SocketRun| run.phase == SocketPhase::Running;
        if !self.units.socket(unit).is_some_and(is_taken) {
            return;
        }
        match self.service_behind(unit) {
            Some(service) => {
                let state = self.units.active_state(service);
                self.socket_service_changed(unit, service, state);
            }
            None => {
                let reason = Reason::new(Code::NotLoaded, Cause::None);
                self.socket_broken(unit, Outcome::Resources, reason);
            }
        }
    }

    // ---- traffic ----

    /// Traffic on a watched socket (`Accept=no`): the service is started.
    pub(crate) fn socket_incoming(&mut self, unit: UnitId) {
        if self.units.known(unit).is_none() {
            return;
        }
        let Some(run) = self.units.socket(unit) else { return };
        if run.phase != SocketPhase::Listening {
            return;
        }
        if self.is_to_stop(unit) {
            return self.outbox.effects.push(Effect::FlushSockets { unit });
        }
        let service = match self.lets_nobody_in(unit) {
            Some(code) => Err(code),
            None => self.service_behind(unit).ok_or(Code::NotLoaded),
        };
        let service = match service {
            Ok(service) => service,
            Err(code) => {
                let reason = Reason::new(code, Cause::None);
                return self.socket_broken(unit, Outcome::Resources, reason);
            }
        };
        if self.trigger_limit_hit(unit) {
            self.socket_refused(unit);
            return self.socket_broken(
                unit,
                Outcome::TriggerLimitHit,
                Reason::new(Code::TriggerLimit, Cause::None),
            );
        }
        self.outbox.effects.push(Effect::WatchSockets { unit, on: false, accept: false });
        self.set_socket_phase(unit, SocketPhase::Running);
        let cause = Cause::Trigger(unit);
        let started =
            install::enqueue_quietly(self, service, JobType::Start, JobMode::Replace, cause);
        if !started && !self.totals.stopping {
            let reason = Reason::new(Code::DependencyFailed, Cause::Dependency(service));
            self.socket_broken(unit, Outcome::Resources, reason);
        }
    }

    /// Then nobody is started for who comes, and who waited until the socket is closed could be what that waits for.
    fn is_to_stop(&self, unit: UnitId) -> bool {
        self.units.run(unit).job.as_ref().is_some_and(|job| job.kind == JobKind::Stop)
    }

    /// Whether who comes to its sockets is a connection, which can be rejected, and no message.
    fn has_connections_only(&mut self, unit: UnitId) -> bool {
        let is_connected =
            |one: &Listen| matches!(one.kind, ListenKind::Stream | ListenKind::SequentialPacket);
        unit_settings::compiled(self, unit).socket().listen.iter().all(is_connected)
    }

    /// `TriggerLimitIntervalSec=`, `TriggerLimitBurst=`
    fn trigger_limit_hit(&mut self, unit: UnitId) -> bool {
        // The rest of its settings is for its own start and stop.
        let TriggerLimit { interval, burst } = match self.settings.at_hand(unit) {
            Some(settings) => settings.socket().trigger_limit,
            None => self.settings.common.trigger_limit(self.graph.definition(unit)),
        };
        let now = self.times.now.monotonic;
        !interval.is_zero()
            && burst > 0
            && self.units.socket_mut(unit).triggers.count_one(now, interval, burst)
    }

    /// A connection was accepted: its instance is started.
    pub(crate) fn socket_connection(&mut self, socket: UnitId, instance: UnitId, number: u64) {
        let listens = |run: &SocketRun| run.phase == SocketPhase::Listening;
        let is_heard =
            self.units.known(socket).is_some() && self.units.socket(socket).is_some_and(listens);
        if !is_heard || self.is_to_stop(socket) {
            return self.outbox.effects.push(Effect::DropConnection { unit: instance });
        }
        if let Some(code) = self.lets_nobody_in(socket) {
            self.outbox.effects.push(Effect::DropConnection { unit: instance });
            let reason = Reason::new(code, Cause::None);
            return self.socket_broken(socket, Outcome::Resources, reason);
        }
        let history = self.units.history_mut(socket);
        history.accepted = history.accepted.max(number + 1);
        if self.trigger_limit_hit(socket) {
            self.socket_refused(socket);
            self.outbox.effects.push(Effect::DropConnection { unit: instance });
            return self.socket_broken(
                socket,
                Outcome::TriggerLimitHit,
                Reason::new(Code::TriggerLimit, Cause::None),
            );
        }
        self.units.socket_mut(socket).connections.push(instance);
        self.resources.connections.insert(instance, socket);
        let cause = Cause::Trigger(socket);
        if !install::enqueue_quietly(self, instance, JobType::Start, JobMode::Replace, cause) {
            connections::connection_ended(self, instance);
            if !self.totals.stopping {
                let reason = Reason::new(Code::DependencyFailed, Cause::Dependency(instance));
                self.socket_broken(socket, Outcome::Resources, reason);
            }
        }
    }

    /// A connection was accepted, and there is no template of its service: who comes is to hear at once that nobody
    /// is there.
    pub(crate) fn socket_unserved(&mut self, socket: UnitId) {
        let listens = |run: &SocketRun| run.phase == SocketPhase::Listening;
        if self.units.known(socket).is_some() && self.units.socket(socket).is_some_and(listens) {
            let reason = Reason::new(Code::NotLoaded, Cause::None);
            self.socket_broken(socket, Outcome::Resources, reason);
        }
    }

    pub(crate) fn socket_refused(&mut self, socket: UnitId) {
        if self.units.socket(socket).is_some() {
            self.units.history_mut(socket).refused += 1;
        }
    }

    /// A service that gets the file descriptors of a socket has changed its state, be it the one that the
    /// socket starts or another. While one of them is up who comes is its business, as with systemd 252.
    pub(crate) fn socket_service_changed(
        &mut self,
        unit: UnitId,
        service: UnitId,
        new: ActiveState,
    ) {
        let Some(run) = self.units.socket(unit) else { return };
        let phase = run.phase;
        if !matches!(phase, SocketPhase::Listening | SocketPhase::Running) || self.accepts(unit) {
            return;
        }
        let at_rest = new.is_down() || self.units.waits_to_restart(service);
        let is_behind = self.service_behind(unit) == Some(service);
        match phase {
            SocketPhase::Running
                if at_rest && is_behind && start_limit::hit_start_limit(self, service) =>
            {
                let reason = Reason::new(Code::ServiceLimit, Cause::Dependency(service));
                self.socket_broken(unit, Outcome::ServiceStartLimitHit, reason);
            }
            SocketPhase::Running if at_rest && !self.is_taken(unit) => self.enter_listening(unit),
            SocketPhase::Listening if new.is_up_or_coming() && !at_rest => {
                self.outbox.effects.push(Effect::WatchSockets { unit, on: false, accept: false });
                self.set_socket_phase(unit, SocketPhase::Running);
            }
            _ => {}
        }
    }

    /// Whether somebody who gets its file descriptors is up, or has a job that may bring him up.
    fn is_taken(&self, unit: UnitId) -> bool {
        let named = self.graph.related(unit, Relation::Triggers);
        named.chain(self.service_behind(unit)).any(|service| {
            let at_rest =
                self.units.active_state(service).is_down() || self.units.waits_to_restart(service);
            !at_rest || self.units.run(service).job.is_some()
        })
    }
}

//! Services: what their processes and their notify socket tell.

use crate::features::command_lines;
use crate::machine::Core;
use crate::model::ids::{EffectId, UnitId};
use crate::model::process::*;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::model::time::Monotonic;
use crate::parts::unit_settings;
use crate::protocol::event::{BusName, Done, Notify};
use crate::protocol::request::Notice;
use crate::protocol::trace_event::What;
use crate::settings::{Compiled, TypeSettings};
use crate::state_change;
use std::time::Duration;
use warren_unit::Signal;
use warren_unit::config::{
    ExitStatusSet, ExitType, NotifyAccess, OomPolicy, ServiceConfig, ServiceType,
};

/// Longest `STATUS=` text that is kept, in bytes.
const STATUS_TEXT_MAX: usize = 512;

impl Core {
    // ---- processes ----

    pub(crate) fn control_spawned(&mut self, unit: UnitId, pid: u32) {
        let started = self.times.now;
        self.pids.own(pid, unit);
        let run = self.units.service_mut(unit);
        // It called itself the main process before it was known for what it is.
        run.main.take_if(|main| main.pid == pid);
        run.control = Some(Control::Running(Process { pid, started }));
        run.group_empty = false;
        let list = run.command.0;
        self.outbox.happened(
            self.times.now.monotonic,
            unit,
            What::ProcessStarted { pid, list, main: false },
        );
        match self.in_list(unit, list) {
            true => self.stop_command_began(unit, list),
            false => self.signal_latecomer(unit),
        }
    }

    /// A process whose time was over before it began is there now.
    pub(crate) fn doomed_done(&mut self, unit: UnitId, effect: EffectId, result: Done) {
        self.units.service_mut(unit).doomed.retain(|&id| id != effect);
        if let Done::Spawned { pid } = result {
            self.units.service_mut(unit).group_empty = false;
            self.kill_process(unit, pid);
            // Its end is nobody's news.
            self.advance_if_stopped(unit);
        } else if let Some(phase) =
            self.units.service_phase(unit).filter(|phase| phase.is_signalled())
        {
            self.latecomer_missing(unit, phase);
        }
    }

    /// No process of the command came to be (`exit_code` 0), or it is not its program. A `-` before the
    /// command excuses the program alone, and what a reload wants is no reason to stop what runs.
    pub(crate) fn control_not_spawned(&mut self, unit: UnitId, exit_code: u8, error: String) {
        let now = self.times.now;
        let (list, _) = self.units.service_mut(unit).command;
        let excused = exit_code != 0 && self.may_fail(unit);
        let code = if exit_code == 0 { Code::Resources } else { Code::ExecFailed };
        self.note_not_spawned(unit, code, error, excused || list == CommandList::Reload);
        let run = self.units.service_mut(unit);
        run.control = None;
        match list {
            _ if exit_code != 0 => {}
            CommandList::Reload => run.reload_outcome = Outcome::Resources,
            _ => self.units.set_outcome(unit, Outcome::Resources),
        }
        let status = ExitStatus::Exited(exit_code.max(1));
        self.command_over(unit, Ended { pid: 0, started: now, ended: now, status }, excused);
    }

    /// What does not end the run is told in the log, and is no reason for the state that the unit is in.
    pub(crate) fn note_not_spawned(
        &mut self,
        unit: UnitId,
        code: Code,
        error: String,
        goes_on: bool,
    ) {
        if goes_on {
            let reason = Reason::new(code, Cause::Kernel);
            return self.outbox.tell(Notice::Log { unit, reason, detail: error });
        }
        state_change::note(self, unit, code, Cause::Kernel, error.clone());
        self.units.history_mut(unit).status_text = error;
    }

    /// Whether the command of now has a `-`.
    fn may_fail(&mut self, unit: UnitId) -> bool {
        let settings = unit_settings::compiled(self, unit);
        let (list, index) = self.units.service_mut(unit).command;
        let place = command_lines::place_now(self, unit, list, index, &settings);
        let command = place.and_then(|place| settings.commands(list).get(usize::from(place)));
        command.is_some_and(|c| c.ignore_failure)
    }

    pub(crate) fn service_process_ended(&mut self, unit: UnitId, pid: u32, status: ExitStatus) {
        let Some(run) = self.units.service(unit) else { return };
        if let Some(main) = run.main.filter(|main| main.pid == pid) {
            let ended = main.ended(self.times.now, status);
            self.main_over(unit, ended);
        } else if let Some(Control::Running(control)) = run.control
            && control.pid == pid
        {
            let ended = control.ended(self.times.now, status);
            self.units.service_mut(unit).control = None;
            self.control_over(unit, ended);
        }
    }

    /// The main process has ended.
    fn main_over(&mut self, unit: UnitId, ended: Ended) {
        let settings = unit_settings::compiled(self, unit);
        let config = settings.service();
        self.units.service_mut(unit).main = None;
        self.units.history_mut(unit).last_main = Some(ended);
        if !self.search_successor(unit, config) {
            self.main_gone(unit, ended);
        }
    }

    /// The main process has ended, and has no successor.
    pub(crate) fn main_gone(&mut self, unit: UnitId, ended: Ended) {
        use ServicePhase::*;
        let settings = unit_settings::compiled(self, unit);
        let config = settings.service();
        if self.resources.without_cgroups {
            self.units.service_mut(unit).group_empty = true;
        }
        let run = self.units.service(unit).expect("its main process has just ended");
        let (phase, index) = (run.phase, self.main_index(unit, config));
        let place =
            command_lines::place_now(self, unit, CommandList::Start, index as u16, &settings);
        let own = place.and_then(|place| config.exec_start.get(usize::from(place)));
        let ignored = own.is_some_and(|c| c.ignore_failure);
        let clean = ignored || run.sudden || is_clean(ended.status, config);
        if !clean {
            self.note_end(unit, ended);
        }
        match phase {
            Start | Running | ReloadSignal | ReloadNotify
                if self.outlives_its_main(unit, config) => {}
            Start if config.service_type == ServiceType::Oneshot => {
                self.oneshot_over(unit, index, clean)
            }
            // The other types begin with their process: an edit has made it one of them since.
            Start if clean && waits_for_a_word(config.service_type) => {
                self.fail_service(unit, Outcome::Protocol, Code::Protocol);
                self.enter_signal(unit, StopSigterm);
            }
            Start => self.enter_signal(unit, StopSigterm),
            StartPost | Reload => {}
            Running | ReloadSignal | ReloadNotify => self.enter_running(unit, false),
            Stop if self.units.service(unit).is_some_and(|run| run.control.is_none()) => {
                self.enter_signal(unit, StopSigterm)
            }
            // Of those whom it has left nobody was told to go.
            StopSigterm if self.units.service_mut(unit).stopping => {
                self.enter_signal(unit, StopSigterm)
            }
            _ => self.advance_if_stopped(unit),
        }
    }

    /// Which command of `ExecStart=` the main process is: the one that was asked for last, or, when others
    /// were run since, the last one.
    pub(crate) fn main_index(&self, unit: UnitId, config: &ServiceConfig) -> usize {
        match self.units.service(unit).map(|run| run.command) {
            Some((CommandList::Start, index)) => usize::from(index),
            _ => config.exec_start.len().saturating_sub(1),
        }
    }

    pub(crate) fn oneshot_over(&mut self, unit: UnitId, index: usize, clean: bool) {
        if !clean {
            self.enter_signal(unit, ServicePhase::StopSigterm);
        } else if let Some(next) =
            command_lines::next_place(self, unit, CommandList::Start, index as u16)
        {
            self.keep_earlier_main(unit, index as u16);
            self.run_main(unit, next);
        } else {
            self.enter_start_post(unit);
        }
    }

    /// Another command of `ExecStart=` takes the place of this one as the main process.
    fn keep_earlier_main(&mut self, unit: UnitId, index: u16) {
        let history = self.units.history_mut(unit);
        if let Some(ended) = history.last_main {
            history.account_mut().keep(CommandEnd { list: CommandList::Start, index, ended });
        }
    }

    /// Notes how a process that should not have ended like this did end.
    fn note_end(&mut self, unit: UnitId, ended: Ended) {
        let (outcome, code, detail) = match ended.status {
            ExitStatus::Exited(code) => {
                (Outcome::ExitCode, Code::ExitCode, format!("exit code {code}"))
            }
            ExitStatus::Killed(n) => (Outcome::Signal, Code::Signal, signal_name(n)),
            ExitStatus::Dumped(n) => (Outcome::CoreDump, Code::CoreDump, signal_name(n)),
            ExitStatus::Unknown => (Outcome::ExitCode, Code::ExitCode, "unknown".to_owned()),
        };
        if self.units.service(unit).is_some_and(|run| run.outcome == Outcome::Success) {
            // Of what an administrator did not want to wait for any more that is no news.
            let is_hurried = self.units.history_mut(unit).reason.code == Code::Hurried;
            if !is_hurried {
                state_change::note(self, unit, code, Cause::Kernel, detail);
            }
            self.units.set_outcome(unit, outcome);
        }
    }

    /// A control process has ended.
    fn control_over(&mut self, unit: UnitId, ended: Ended) {
        let settings = unit_settings::compiled(self, unit);
        let clean =
            |set| !matches!(ended.status, ExitStatus::Dumped(_)) && in_set(ended.status, set);
        // What `ExecStart=` of a forking service begins is a daemon, not a command that comes to its end.
        let is_daemon = self.units.service_mut(unit).command.0 == CommandList::Start;
        let success = self.may_fail(unit)
            || ended.status == ExitStatus::Exited(0)
            || is_daemon && is_clean(ended.status, settings.service())
            || clean(&settings.service().success_exit_status);
        self.command_over(unit, ended, success);
    }

    /// A command is over: the next of its list has its turn, or what comes after the list.
    fn command_over(&mut self, unit: UnitId, ended: Ended, success: bool) {
        let (list, index) = self.units.service_mut(unit).command;
        self.units.history_mut(unit).keep_control(list, index, ended);
        let next = command_lines::next_place(self, unit, list, index);
        if self.resources.without_cgroups && self.units.service_mut(unit).main.is_none() {
            self.units.service_mut(unit).group_empty = true;
        }
        if self.is_searched_in_vain(unit) {
            self.drop_searches(unit);
            self.main_found(unit, None);
        }
        if let Some(next) = next.filter(|_| success && self.in_list(unit, list)) {
            return self.run_command(unit, list, next);
        }
        self.list_over(unit, list, ended, success);
    }

    /// Whether the phase is still the one that runs this list: a timeout may have moved on.
    fn in_list(&self, unit: UnitId, list: CommandList) -> bool {
        use ServicePhase::*;
        let phase = self.units.service_phase(unit);
        match list {
            CommandList::Condition => phase == Some(Condition),
            CommandList::StartPre => phase == Some(StartPre),
            CommandList::Start => phase == Some(Start),
            CommandList::StartPost => phase == Some(StartPost),
            CommandList::Reload => phase == Some(Reload),
            CommandList::Stop => phase == Some(Stop),
            CommandList::StopPost => phase == Some(StopPost),
        }
    }

    /// A list of commands is through, or one of them failed.
    fn list_over(&mut self, unit: UnitId, list: CommandList, ended: Ended, success: bool) {
        use ServicePhase::*;
        if !self.in_list(unit, list) {
            return self.advance_if_stopped(unit);
        }
        match (list, success) {
            (CommandList::Condition, true) => self.enter_start_pre(unit),
            (CommandList::Condition, false) => self.condition_said_no(unit, ended),
            (CommandList::StartPre, true) => self.enter_start(unit),
            (CommandList::Start, true) => self.search_main(unit),
            (CommandList::StartPost, true) => self.start_post_over(unit),
            (CommandList::Reload, _) => {
                let run = self.units.service_mut(unit);
                if !success && run.reload_outcome == Outcome::Success {
                    run.reload_outcome = outcome_of(ended.status);
                }
                self.enter_running(unit, false);
            }
            (CommandList::Stop, _) => {
                if !success {
                    self.note_end(unit, ended);
                }
                self.enter_signal(unit, StopSigterm);
            }
            (CommandList::StopPost, _) => {
                if !success {
                    self.note_end(unit, ended);
                }
                self.enter_signal(unit, FinalSigterm);
            }
            (CommandList::StartPre | CommandList::Start | CommandList::StartPost, false) => {
                self.note_end(unit, ended);
                self.enter_signal(unit, StopSigterm);
            }
        }
    }

    /// `ExecCondition=`: exit codes 1 to 254 mean 'not now', anything else is a failure.
    fn condition_said_no(&mut self, unit: UnitId, ended: Ended) {
        match ended.status {
            // Nobody was asked.
            _ if self.units.service_mut(unit).outcome != Outcome::Success => {}
            ExitStatus::Exited(1..=254) => {
                self.fail_service(unit, Outcome::ExecCondition, Code::ConditionFailed);
            }
            _ => self.note_end(unit, ended),
        }
        self.enter_signal(unit, ServicePhase::StopSigterm);
    }

    /// The cgroup has no processes any more.
    pub(crate) fn service_group_empty(&mut self, unit: UnitId) {
        use ServicePhase::*;
        let Some(run) = self.units.service(unit) else { return };
        let nothing_coming =
            run.main_asked.is_none() && !matches!(run.control, Some(Control::Asked(_)));
        if !nothing_coming {
            return;
        }
        self.units.service_mut(unit).group_empty = true;
        let run = self.units.service(unit).expect("looked at above");
        if run.main.is_some() || run.control.is_some() {
            return;
        }
        let (phase, is_searched) = (run.phase, run.main_search.is_some());
        // Without PIDFile= the answer to the search says the same.
        let is_searched =
            is_searched && unit_settings::compiled(self, unit).service().pid_file.is_some();
        let last = self.units.run(unit).history.as_ref().and_then(|history| history.last_main);
        let by_group = unit_settings::compiled(self, unit).service().exit_type == ExitType::Cgroup;
        match phase {
            // It was its main process for which nobody was left to stand in.
            Start | Running | ReloadSignal | ReloadNotify if by_group && last.is_some() => {
                last.into_iter().for_each(|last| self.main_gone(unit, last));
            }
            // Whom the file names now is in another group, or nobody.
            Start | StartPost if is_searched && last.is_none() => {
                self.drop_searches(unit);
                let settings = unit_settings::compiled(self, unit);
                self.find_main(unit, settings.service(), false);
            }
            // Nobody is left whom the file could name.
            _ if is_searched => {
                self.drop_searches(unit);
                self.main_found(unit, None);
            }
            Running | ReloadSignal | ReloadNotify => self.enter_running(unit, false),
            _ => self.advance_if_stopped(unit),
        }
    }

    /// Whether a successor is looked for in a file, and nobody is left whom it could name: that was told while
    /// a command was there.
    fn is_searched_in_vain(&self, unit: UnitId) -> bool {
        let is_vain = |run: &ServiceRun| {
            let is_known = run.main.is_some() || run.control.is_some();
            run.main_search.is_some() && run.group_empty && !is_known
        };
        !self.resources.without_cgroups && self.units.service(unit).is_some_and(is_vain)
    }

    /// The kernel killed a process of the unit for want of memory (`OOMPolicy=`).
    pub(crate) fn service_out_of_memory(&mut self, unit: UnitId) {
        if self.units.known(unit).is_none() || self.units.service(unit).is_none() {
            return;
        }
        let policy = unit_settings::compiled(self, unit).service().oom_policy;
        // Its end may have been told before.
        let runs =
            self.units.active_state(unit).is_up_or_coming() && !self.units.waits_to_restart(unit);
        match policy {
            OomPolicy::Continue => {}
            OomPolicy::Stop | OomPolicy::Kill if runs => {
                self.fail_service(unit, Outcome::OomKill, Code::OomKilled);
                match policy {
                    OomPolicy::Kill => self.enter_signal(unit, ServicePhase::StopSigkill),
                    _ if self.units.active_state(unit).is_up() => self.enter_stop(unit),
                    _ => self.enter_signal(unit, ServicePhase::StopSigterm),
                }
            }
            _ => self.units.set_outcome(unit, Outcome::OomKill),
        }
    }

    // ---- the bus name of Type=dbus ----

    pub(crate) fn service_bus_name(&mut self, unit: UnitId, state: BusName) {
        if self.units.known(unit).is_none() || self.units.service(unit).is_none() {
            return;
        }
        match (self.units.service_phase(unit), state) {
            (Some(ServicePhase::Start), BusName::Owned) => {
                self.units.service_mut(unit).ready = true;
                if self.units.service(unit).is_some_and(|run| run.main_asked.is_none()) {
                    self.enter_start_post(unit);
                }
            }
            (Some(ServicePhase::Start), BusName::NoBus) => {
                let error = "there is no message bus to take BusName= on".to_owned();
                self.units.history_mut(unit).status_text = error;
                self.fail_service(unit, Outcome::Protocol, Code::Protocol);
                self.enter_signal(unit, ServicePhase::StopSigterm);
            }
            (Some(ServicePhase::Running), BusName::Free) => self.enter_stop(unit),
            // What runs now is to be over first: then it is asked for again.
            _ => {}
        }
    }

    // ---- the notify socket (sd_notify(3)) ----

    pub(crate) fn service_notify(&mut self, unit: UnitId, pid: u32, message: Notify) {
        if self.units.known(unit).is_none() || self.units.service(unit).is_none() {
            return;
        }
        let settings = unit_settings::compiled(self, unit);
        let config = settings.service();
        if !self.may_notify(unit, pid, config.notify_access) {
            return;
        }
        if let Some(main) = message.main_pid.filter(|&main| self.unit_of_pid(main).is_none()) {
            self.adopt_main(unit, main);
        }
        self.notify_texts(unit, &message);
        self.notify_watchdog(unit, &message);
        let is_clean = self.units.service(unit).is_some_and(|run| run.clean);
        if let Some(clean) = message.clean.filter(|&clean| clean != is_clean) {
            self.units.service_mut(unit).clean = clean;
        }
        if let Some(us) = message.extend_timeout_us {
            self.extend_timeout(unit, Duration::from_micros(us));
        }
        type Change = fn(&mut Core, UnitId, &ServiceConfig);
        let changes: [(bool, Change); 4] = [
            (message.watchdog_trigger, |core, unit, _| core.watchdog_triggered(unit)),
            (
                message.reloading && !self.is_of_a_reload_before(unit, message.made),
                Core::notify_reloading,
            ),
            (message.ready, Core::notify_ready),
            (message.stopping, Core::notify_stopping),
        ];
        for (_, change) in changes.into_iter().filter(|(is_said, _)| *is_said) {
            // The one before may have been the end of it.
            if self.units.service(unit).is_some() {
                change(self, unit, config);
            }
        }
    }

    pub(crate) fn service_fds_stored(&mut self, unit: UnitId, count: u32) {
        if self.units.known(unit).is_some() && self.units.service(unit).is_some() {
            self.units.service_mut(unit).fds_stored = count;
        }
    }

    /// Whether what a process of the unit says counts: `NotifyAccess=`.
    pub fn hears(&self, unit: UnitId, pid: u32, access: NotifyAccess) -> bool {
        self.units.known(unit).is_some()
            && self.units.service(unit).is_some()
            && self.may_notify(unit, pid, access)
    }

    fn may_notify(&self, unit: UnitId, pid: u32, access: NotifyAccess) -> bool {
        let main = self.units.run(unit).main_process().is_some_and(|main| main.pid == pid);
        // The reply that names the main process may still be on its way when it speaks first.
        let starting = self.units.service(unit).is_some_and(|run| run.main_asked.is_some());
        let control = self.units.run(unit).control_pid() == Some(pid);
        match access {
            NotifyAccess::None => false,
            NotifyAccess::Main => main || starting,
            NotifyAccess::Exec => main || control || starting,
            NotifyAccess::All => true,
        }
    }

    /// What is said again as it was is no change.
    fn notify_texts(&mut self, unit: UnitId, message: &Notify) {
        let history = self.units.run(unit).history.as_ref();
        let (text, errno) = history.map_or(("", 0), |h| (&*h.status_text, h.status_errno));
        let new_text = message.status.as_deref().map(shown).filter(|&new| new != text);
        let new_errno = message.errno.filter(|&new| new != errno);
        if let Some(text) = new_text {
            self.units.history_mut(unit).status_text = text.to_owned();
        }
        if let Some(errno) = new_errno {
            self.units.history_mut(unit).status_errno = errno;
        }
    }

    fn notify_watchdog(&mut self, unit: UnitId, message: &Notify) {
        if let Some(us) = message.watchdog_us {
            self.units.service_mut(unit).watchdog_override_us = Some(us);
        }
        let is_armed = self.units.service(unit).is_some_and(|run| run.watchdog_deadline.is_some());
        let begins = message.watchdog_us.is_some() && self.is_guarded(unit);
        if begins || is_armed && message.watchdog {
            self.arm_watchdog(unit);
        }
    }

    /// `EXTEND_TIMEOUT_USEC=`: the phase's deadline is moved, never brought nearer. That of a restart is
    /// no timeout.
    fn extend_timeout(&mut self, unit: UnitId, by: Duration) {
        if self.units.waits_to_restart(unit) {
            return;
        }
        let until = self.times.now.monotonic.after(by);
        let run = self.units.service_to_rearm(unit);
        let ends = [&mut run.deadline, &mut run.stop_by, &mut run.runtime_deadline];
        for deadline in ends.into_iter().flatten() {
            *deadline = (*deadline).max(until);
        }
    }

    /// Whether `RELOADING=1` was said before the signal of the reload that is under way: the service
    /// had begun another one by itself, and its `READY=1` ends that one (sd_notify(3),
    /// `MONOTONIC_USEC=`).
    fn is_of_a_reload_before(&self, unit: UnitId, made: Option<Monotonic>) -> bool {
        let is_signalled = self.units.service_phase(unit) == Some(ServicePhase::ReloadSignal);
        let since =
            self.units.run(unit).history.as_ref().map(|history| history.state_change.monotonic);
        is_signalled && made.zip(since).is_some_and(|(made, since)| made < since)
    }

    fn notify_reloading(&mut self, unit: UnitId, config: &ServiceConfig) {
        self.units.service_mut(unit).notify_reloading = true;
        self.units.service_mut(unit).ready = false;
        let phase = self.units.service_phase(unit);
        if matches!(phase, Some(ServicePhase::Running | ServicePhase::ReloadSignal)) {
            self.reloads_by_itself(unit, config);
        }
    }

    /// It says that it reloads, and will say when it has.
    pub(crate) fn reloads_by_itself(&mut self, unit: UnitId, config: &ServiceConfig) {
        self.set_service_phase(unit, ServicePhase::ReloadNotify);
        let limit = config.timeout_start.map(|limit| self.times.now.monotonic.after(limit));
        self.units.service_mut(unit).deadline = limit;
    }

    fn notify_ready(&mut self, unit: UnitId, config: &ServiceConfig) {
        let run = self.units.service_mut(unit);
        // Of `Type=dbus` it is the name that says so.
        let is_by_name = config.service_type == ServiceType::Dbus;
        run.ready |= !(is_by_name && run.phase == ServicePhase::Start);
        run.notify_reloading = false;
        let by_notify =
            matches!(config.service_type, ServiceType::Notify | ServiceType::NotifyReload);
        match run.phase {
            ServicePhase::Start if by_notify && run.main_asked.is_none() => {
                self.enter_start_post(unit);
            }
            ServicePhase::ReloadNotify => self.enter_running(unit, false),
            _ => {}
        }
    }

    fn notify_stopping(&mut self, unit: UnitId, config: &ServiceConfig) {
        let phase = self.units.service_phase(unit);
        self.units.service_mut(unit).stopping |= !phase.is_some_and(ServicePhase::is_signalled);
        if phase == Some(ServicePhase::Running) {
            self.goes_by_itself(unit, config);
        }
    }

    /// It says that it ends: nobody needs to tell it.
    pub(crate) fn goes_by_itself(&mut self, unit: UnitId, config: &ServiceConfig) {
        self.set_service_phase(unit, ServicePhase::StopSigterm);
        let deadline = self.stop_deadline(unit, config, ServicePhase::StopSigterm);
        self.units.service_mut(unit).deadline = deadline;
    }
}

/// Whether this end of the main process is a success: code 0, for daemons also the signals HUP,
/// INT, TERM and PIPE, and what `SuccessExitStatus=` adds (systemd.service(5)).
fn is_clean(status: ExitStatus, config: &ServiceConfig) -> bool {
    // Without a command there is no file any more: the type is not known then.
    let daemon = config.service_type != ServiceType::Oneshot || config.exec_start.is_empty();
    match status {
        ExitStatus::Exited(code) => code == 0 || config.success_exit_status.has_code(code),
        ExitStatus::Killed(n) => {
            let Some(signal) = Signal::new(i32::from(n)) else { return false };
            let usual = [Signal::HUP, Signal::INT, Signal::TERM, Signal::PIPE].contains(&signal);
            daemon && usual || config.success_exit_status.has_signal(signal)
        }
        ExitStatus::Dumped(_) => false,
        ExitStatus::Unknown => true,
    }
}

/// Whether a status is in a set of `SuccessExitStatus=` and its relatives.
pub(crate) fn in_set(status: ExitStatus, set: &ExitStatusSet) -> bool {
    match status {
        ExitStatus::Exited(code) => set.has_code(code),
        ExitStatus::Killed(n) | ExitStatus::Dumped(n) => {
            Signal::new(i32::from(n)).is_some_and(|signal| set.has_signal(signal))
        }
        ExitStatus::Unknown => false,
    }
}

impl History {
    /// How the processes ended that made the last run what it came to: the main process, and the first
    /// command beside it that failed, unless the main process had failed before. Of a unit whose reload
    /// failed, the command of that.
    pub fn telling_ends(&self, settings: &Compiled) -> (Option<Ended>, Option<CommandEnd>) {
        use CommandList::{Condition, Reload, Start, StartPre};
        let ends = self.account.iter().flat_map(|account| &account.commands);
        let mut failed = ends.filter(|end| self.has_failed(end, settings));
        let main = self.last_main.filter(|main| !ended_well(main.status, settings));
        let is_first = |end: &&CommandEnd| match end.list {
            Start => false,
            Reload => self.last_control == Some((end.list, end.ended)),
            // There was no main process yet in this run.
            Condition | StartPre => true,
            _ => main.is_none_or(|main| end.ended.ended < main.ended),
        };
        let command = failed.find(is_first).copied();
        let main = match command {
            None => self.last_main,
            Some(end) if matches!(end.list, Condition | StartPre) => None,
            Some(_) => main,
        };
        (main, command)
    }

    fn has_failed(&self, end: &CommandEnd, settings: &Compiled) -> bool {
        let status = end.ended.status;
        let is_success = match &settings.own {
            TypeSettings::Service(config) if !matches!(status, ExitStatus::Dumped(_)) => {
                in_set(status, &config.success_exit_status)
            }
            _ => false,
        };
        let command = settings.commands(end.list).get(usize::from(end.index));
        let may_fail = command.is_some_and(|command| {
            command.ignore_failure && !self.ran_another(end.list, end.index, command)
        });
        status != ExitStatus::Exited(0) && !is_success && !may_fail
    }
}

/// Whether a main process ended as it may.
fn ended_well(status: ExitStatus, settings: &Compiled) -> bool {
    match &settings.own {
        TypeSettings::Service(config) => is_clean(status, config),
        _ => true,
    }
}

/// Whether there is more to a start than that the process is there.
fn waits_for_a_word(service_type: ServiceType) -> bool {
    !matches!(service_type, ServiceType::Simple | ServiceType::Exec | ServiceType::Idle)
}

fn outcome_of(status: ExitStatus) -> Outcome {
    match status {
        ExitStatus::Exited(_) | ExitStatus::Unknown => Outcome::ExitCode,
        ExitStatus::Killed(_) => Outcome::Signal,
        ExitStatus::Dumped(_) => Outcome::CoreDump,
    }
}

fn signal_name(n: u8) -> String {
    Signal::new(i32::from(n)).map_or_else(|| format!("signal {n}"), |signal| signal.to_string())
}

/// As much of `STATUS=` as is kept.
fn shown(text: &str) -> &str {
    let is_end = |&i: &usize| text.is_char_boundary(i);
    &text[..(0..=text.len().min(STATUS_TEXT_MAX)).rev().find(is_end).unwrap_or(0)]
}

//! Mounts (systemd.mount(5)), and swap areas (systemd.swap(5)), which come and go in the same way but
//! are in a table of their own and are not reloaded.

use crate::features::stop_budget::{SIGNAL_WAIT_MIN, share_of};
use crate::machine::Core;
use crate::model::ids::{EffectId, UnitId};
use crate::model::part::Part;
use crate::model::process::*;
use crate::model::reason::{Cause, Code, Reason};
use crate::model::state::*;
use crate::parts::unit_settings;
use crate::protocol::event::{Done, Effect, FollowUp, KillTarget};
use crate::protocol::request::Notice;
use crate::state_change;
use warren_unit::config::KillMode;
use warren_unit::settings::{Group, Id};
use warren_unit::{Signal, UnitType};

/// Why something is not mounted, remounted or swapped to.
const NO_FILE: &str = "no unit file says how";

/// What says what to mount or to swap to.
const WHAT: [Id; 2] = [Id::of(Group::Mount, "What"), Id::of(Group::Swap, "What")];

impl Core {
    /// The state as one of the unit's type.
    fn of_type(&self, unit: UnitId, state: Mount) -> TypeState {
        match self.graph.definition(unit).unit_type() {
            UnitType::Swap => TypeState::Swap(state),
            _ => TypeState::Mount(state),
        }
    }

    fn set_mount_phase(&mut self, unit: UnitId, phase: MountPhase) {
        state_change::transit(self, unit, false, |run| {
            if let TypeState::Mount(Mount::Up(mount)) | TypeState::Swap(Mount::Up(mount)) =
                &mut run.state
            {
                mount.phase = phase;
            }
        });
    }

    // ---- mount, remount, unmount ----

    pub(crate) fn mount_start(&mut self, unit: UnitId) {
        let run = MountRun {
            phase: MountPhase::Mounting,
            asked: None,
            in_table: false,
            doubtful: false,
            deadline: None,
            outcome: Outcome::Success,
            reload_outcome: Outcome::Success,
        };
        let history = self.units.history_mut(unit);
        history.outcome = Outcome::Success;
        history.status_text = String::new();
        let state = self.of_type(unit, Mount::Up(Part::new(run)));
        state_change::transit(self, unit, false, |u| u.state = state);
        if self.is_unknown_how(unit) {
            state_change::note(self, unit, Code::MountFailed, Cause::None, NO_FILE.to_owned());
            self.units.history_mut(unit).status_text = NO_FILE.to_owned();
            return self.mount_dead(unit, Outcome::Resources);
        }
        self.ask_mount(unit, false);
    }

    /// What is mounted or swapped to is there, and no file says how that would be done: the kernel's table does not
    /// have all of it.
    fn is_unknown_how(&self, unit: UnitId) -> bool {
        let definition = self.graph.definition(unit);
        let mut by_dropins = definition.files.dropins().iter().flat_map(|file| file.entries());
        definition.is_of_kernel() && !by_dropins.any(|entry| WHAT.contains(&entry.setting))
    }

    fn ask_mount(&mut self, unit: UnitId, remount: bool) {
        let settings = unit_settings::compiled(self, unit);
        let id = self.outbox.new_effect(unit);
        let deadline = settings.mount().timeout.map(|t| self.times.now.monotonic.after(t));
        let run = self.units.mount_mut(unit);
        run.asked = Some(id);
        run.deadline = deadline;
        self.outbox.effects.push(Effect::Mount { id, unit, settings, remount });
    }

    fn ask_unmount(&mut self, unit: UnitId) {
        let settings = unit_settings::compiled(self, unit);
        let id = self.outbox.new_effect(unit);
        let deadline = settings.mount().timeout.map(|t| self.times.now.monotonic.after(t));
        let run = self.units.mount_mut(unit);
        run.doubtful = false;
        let old = run.asked.replace(id);
        run.deadline = deadline;
        old.into_iter().for_each(|id| self.outbox.forget_effect(id));
        self.outbox.effects.push(Effect::Unmount { id, unit, settings });
    }

    pub(crate) fn mount_stop(&mut self, unit: UnitId) {
        let Some(run) = self.units.mount(unit) else { return };
        match run.phase {
            MountPhase::Mounting | MountPhase::MountingDone | MountPhase::Remounting => {
                self.end_mounting(unit, MountPhase::MountingSigterm);
            }
            // It has had that signal already.
            MountPhase::RemountingSigterm => {
                self.set_mount_phase(unit, MountPhase::MountingSigterm);
            }
            MountPhase::RemountingSigkill => {
                self.set_mount_phase(unit, MountPhase::MountingSigkill);
            }
            MountPhase::Mounted => self.begin_unmount(unit),
            _ => {}
        }
    }

    fn begin_unmount(&mut self, unit: UnitId) {
        self.units.history_mut(unit).status_text = String::new();
        self.set_mount_phase(unit, MountPhase::Unmounting);
        self.ask_unmount(unit);
    }

    /// False if it cannot be reloaded: it stays as it is.
    pub(crate) fn mount_reload(&mut self, unit: UnitId) -> bool {
        if self.is_unknown_how(unit) {
            self.tell_reload_failed(unit, NO_FILE.to_owned());
            return false;
        }
        self.units.mount_mut(unit).reload_outcome = Outcome::Success;
        self.units.history_mut(unit).status_text = String::new();
        self.set_mount_phase(unit, MountPhase::Remounting);
        self.ask_mount(unit, true);
        true
    }

    pub(crate) fn mount_done(&mut self, unit: UnitId, effect: EffectId, result: Done) {
        let Some(run) = self.units.mount(unit).filter(|run| run.asked == Some(effect)) else {
            return;
        };
        let phase = run.phase;
        let is_left = result == Done::StillMounted;
        let error = match result {
            Done::Failed { error } => Some(error),
            _ => None,
        };
        let run = self.units.mount_mut(unit);
        run.asked = None;
        run.deadline = None;
        match phase {
            MountPhase::Mounting | MountPhase::MountingDone => self.mounted(unit, error),
            MountPhase::Remounting => self.remounted(unit, error),
            MountPhase::RemountingSigterm | MountPhase::RemountingSigkill => {
                self.stays_mounted(unit);
            }
            MountPhase::MountingSigterm | MountPhase::MountingSigkill => {
                self.mounting_ended(unit, error.is_none());
            }
            MountPhase::UnmountingSigterm | MountPhase::UnmountingSigkill => {
                self.unmounting_ended(unit, error.is_none() && !is_left);
            }
            // All of it is to go.
            MountPhase::Unmounting if is_left => self.ask_unmount(unit),
            _ => self.unmounted(unit, error),
        }
    }

    fn mounted(&mut self, unit: UnitId, error: Option<String>) {
        match error {
            None => {
                let run = self.units.mount_mut(unit);
                run.in_table = true;
                let doubtful = std::mem::take(&mut run.doubtful);
                self.set_mount_phase(unit, MountPhase::Mounted);
                if doubtful {
                    self.outbox.effects.push(Effect::LookAtMount { unit });
                }
            }
            Some(error) => {
                state_change::note(self, unit, Code::MountFailed, Cause::Kernel, error.clone());
                self.units.history_mut(unit).status_text = error;
                // Somebody else, or an earlier try that was given up, has mounted it meanwhile.
                match self.units.mount_mut(unit).in_table {
                    true => self.set_mount_phase(unit, MountPhase::Mounted),
                    false => self.mount_dead(unit, Outcome::ExitCode),
                }
            }
        }
    }

    fn remounted(&mut self, unit: UnitId, error: Option<String>) {
        if let Some(error) = error {
            self.tell_reload_failed(unit, error.clone());
            self.units.history_mut(unit).status_text = error;
            self.units.mount_mut(unit).reload_outcome = Outcome::ExitCode;
        }
        self.set_mount_phase(unit, MountPhase::Mounted);
    }

    /// What was asked for is over, and the mount is as it was, unless somebody has unmounted it meanwhile.
    fn stays_mounted(&mut self, unit: UnitId) {
        let run = self.units.mount_mut(unit);
        run.outcome = Outcome::Success;
        if !run.in_table {
            return self.vanish(unit);
        }
        self.set_mount_phase(unit, MountPhase::Mounted);
    }

    /// A mount or remount that was told to end is over, or its process is left to the kernel.
    fn mounting_ended(&mut self, unit: UnitId, is_mounted: bool) {
        let stops = self.units.run(unit).job.as_ref().is_some_and(|job| job.kind.is_stopping());
        let stops = stops || self.totals.stopping;
        let run = self.units.mount_mut(unit);
        run.in_table |= is_mounted;
        let took_too_long = run.outcome != Outcome::Success;
        match (run.in_table, run.outcome) {
            (true, _) if took_too_long && !stops => self.stays_mounted(unit),
            (true, _) => self.begin_unmount(unit),
            (false, outcome) => {
                self.mount_dead(unit, outcome);
                self.kill_what_mounts(unit);
            }
        }
    }

    /// mount(8) has gone when it was told to, its helper may have not: it could still mount.
    fn kill_what_mounts(&mut self, unit: UnitId) {
        let settings = unit_settings::compiled(self, unit);
        let kill = &settings.mount().kill;
        if kill.send_sigkill && kill.mode != KillMode::None {
            self.outbox.effects.push(Effect::KillGroup { unit });
        }
    }

    /// The same of an unmount.
    fn unmounting_ended(&mut self, unit: UnitId, is_unmounted: bool) {
        let run = self.units.mount_mut(unit);
        if is_unmounted {
            run.outcome = Outcome::Success;
            return self.unmounted(unit, None);
        }
        match (run.in_table, run.outcome) {
            (true, _) => self.stays_mounted(unit),
            (false, outcome) => self.mount_dead(unit, outcome),
        }
    }

    // ---- what takes too long ----

    /// Tells the processes of a mount, remount or unmount to go, or kills them, as the phase says
    /// (systemd.mount(5), `TimeoutSec=`). The unit has one budget: they are not given it again.
    pub(crate) fn end_mounting(&mut self, unit: UnitId, phase: MountPhase) {
        use MountPhase::*;
        self.set_mount_phase(unit, phase);
        let settings = unit_settings::compiled(self, unit);
        let config = settings.mount();
        let wait = config.timeout.map(|timeout| share_of(timeout).max(SIGNAL_WAIT_MIN));
        self.units.mount_mut(unit).deadline = wait.map(|wait| self.times.now.monotonic.after(wait));
        let kills = matches!(phase, MountingSigkill | RemountingSigkill | UnmountingSigkill);
        let kill = &config.kill;
        if kill.mode == KillMode::None {
            return;
        }
        if kills && kill.final_signal == Signal::KILL && !self.resources.without_cgroups {
            return self.outbox.effects.push(Effect::KillGroup { unit });
        }
        let signal = if kills { kill.final_signal } else { kill.signal };
        let id = self.outbox.new_effect(unit);
        self.outbox.forget_effect(id);
        self.outbox.effects.push(Effect::Kill {
            id,
            unit,
            target: KillTarget::Group,
            signal: signal.number(),
            then: FollowUp { hangup: kill.send_sighup && !kills, resume: !kills },
        });
    }

    /// Its processes did not go when they were told to.
    fn kill_mounting(&mut self, unit: UnitId, phase: MountPhase) {
        match unit_settings::compiled(self, unit).mount().kill.send_sigkill {
            true => self.end_mounting(unit, phase),
            false => self.leave_mounting(unit),
        }
    }

    /// Somebody is tired of waiting: its processes are killed. A server that does not answer may keep them.
    pub(crate) fn hurry_mount(&mut self, unit: UnitId) {
        use MountPhase::*;
        let Some(run) = self.units.mount(unit).filter(|run| run.asked.is_some()) else { return };
        match run.phase {
            Mounting | MountingDone | MountingSigterm => self.end_mounting(unit, MountingSigkill),
            Remounting | RemountingSigterm => self.end_mounting(unit, RemountingSigkill),
            Unmounting | UnmountingSigterm => self.end_mounting(unit, UnmountingSigkill),
            Mounted | MountingSigkill | RemountingSigkill | UnmountingSigkill => {}
        }
    }

    /// Only the kernel holds its processes: nobody waits for them any longer.
    fn leave_mounting(&mut self, unit: UnitId) {
        if let Some(id) = self.units.mount_mut(unit).asked.take() {
            self.outbox.forget_effect(id);
        }
        match self.units.mount_mut(unit).phase {
            MountPhase::MountingSigterm | MountPhase::MountingSigkill => {
                self.mounting_ended(unit, false);
            }
            MountPhase::UnmountingSigterm | MountPhase::UnmountingSigkill => {
                self.unmounting_ended(unit, false);
            }
            _ => self.stays_mounted(unit),
        }
    }

    /// The mount stays, and stays for the reason that it had: what was found is still not ours.
    fn tell_reload_failed(&mut self, unit: UnitId, detail: String) {
        let reason = Reason::new(Code::ReloadFailed, Cause::Kernel);
        self.outbox.tell(Notice::Log { unit, reason, detail });
    }

    fn unmounted(&mut self, unit: UnitId, error: Option<String>) {
        let run = self.units.mount_mut(unit);
        match error {
            None => {
                let (outcome, doubtful) = (run.outcome, run.doubtful);
                self.mount_dead(unit, outcome);
                if doubtful {
                    self.outbox.effects.push(Effect::LookAtMount { unit });
                }
            }
            Some(error) => {
                state_change::note(self, unit, Code::UnmountFailed, Cause::Kernel, error.clone());
                self.units.history_mut(unit).status_text = error;
                if self.units.mount_mut(unit).in_table {
                    self.set_mount_phase(unit, MountPhase::Mounted);
                } else {
                    self.mount_dead(unit, Outcome::ExitCode);
                }
            }
        }
    }

    fn mount_dead(&mut self, unit: UnitId, outcome: Outcome) {
        if let Some(id) = self.units.mount_mut(unit).asked.take() {
            self.outbox.forget_effect(id);
        }
        self.units.history_mut(unit).outcome = outcome;
        let state = if outcome == Outcome::Success { Mount::Dead } else { Mount::Failed(outcome) };
        let state = self.of_type(unit, state);
        state_change::transit(self, unit, false, |u| u.state = state);
    }

    pub(crate) fn mount_deadline(&mut self, unit: UnitId) {
        let now = self.times.now.monotonic;
        let Some(run) = self.units.mount(unit).filter(|r| r.deadline.is_some_and(|at| at <= now))
        else {
            return;
        };
        let phase = run.phase;
        let run = self.units.mount_mut(unit);
        run.deadline = None;
        match phase {
            MountPhase::Mounting | MountPhase::MountingDone => {
                run.outcome = Outcome::Timeout;
                state_change::note(self, unit, Code::StartTimeout, Cause::None, String::new());
                self.end_mounting(unit, MountPhase::MountingSigterm);
            }
            MountPhase::Remounting => {
                run.reload_outcome = Outcome::Timeout;
                self.tell_reload_failed(unit, "not within TimeoutSec=".to_owned());
                self.end_mounting(unit, MountPhase::RemountingSigterm);
            }
            MountPhase::Unmounting => {
                run.outcome = Outcome::Timeout;
                state_change::note(self, unit, Code::UnmountTimeout, Cause::None, String::new());
                self.end_mounting(unit, MountPhase::UnmountingSigterm);
            }
            MountPhase::MountingSigterm => self.kill_mounting(unit, MountPhase::MountingSigkill),
            MountPhase::RemountingSigterm => {
                self.kill_mounting(unit, MountPhase::RemountingSigkill);
            }
            MountPhase::UnmountingSigterm => {
                self.kill_mounting(unit, MountPhase::UnmountingSigkill);
            }
            _ => self.leave_mounting(unit),
        }
    }

    // ---- the kernel's mount table ----

    /// Something is mounted at the unit's path now, by whomever.
    pub(crate) fn mount_appeared(&mut self, unit: UnitId) {
        match self.units.known(unit).map(|run| &run.state) {
            Some(TypeState::Mount(Mount::Up(run)) | TypeState::Swap(Mount::Up(run))) => {
                let unmounts = run.phase == MountPhase::Unmounting;
                let again = unmounts && !run.in_table;
                let run = self.units.mount_mut(unit);
                run.in_table = true;
                // Before it was unmounted or again since, the words do not tell.
                run.doubtful |= unmounts && !again;
                // Mounted by somebody else after what was there had gone: that is to go too.
                if again {
                    self.ask_unmount(unit);
                }
            }
            Some(TypeState::Mount(_) | TypeState::Swap(_)) => {
                state_change::note(self, unit, Code::Discovered, Cause::Kernel, String::new());
                let state = self.of_type(unit, Mount::found());
                state_change::transit(self, unit, false, |u| u.state = state);
            }
            _ => {}
        }
    }

    /// Nothing is mounted there any more.
    pub(crate) fn mount_vanished(&mut self, unit: UnitId) {
        if self.units.known(unit).is_none() {
            return;
        }
        let Some(run) = self.units.mount(unit) else { return };
        let phase = run.phase;
        let run = self.units.mount_mut(unit);
        run.in_table = false;
        run.doubtful = phase == MountPhase::Mounting;
        if matches!(phase, MountPhase::Mounted | MountPhase::Remounting) {
            self.vanish(unit);
        }
    }

    fn vanish(&mut self, unit: UnitId) {
        state_change::note(self, unit, Code::Vanished, Cause::Kernel, String::new());
        self.mount_dead(unit, Outcome::Success);
    }
}

//! Going on after the last incarnation: state, descriptors, processes and answers are taken up, and
//! what the kernel knows better is told to the machine as events.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use warren_bus::Announcement;
use warren_core::graph::{Definition, Graph};
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::model::state::{Automount, Mount, TypeState, UnitRun};
use warren_core::model::time::Monotonic;
use warren_core::persist::run_state::{ClientSettings, Late, Restored};
use warren_core::protocol::event::{Done, Effect, Event, FollowUp, KillTarget};
use warren_core::settings::Settings;
use warren_init::protocol::control::StartReason;
use warren_unit::config::EmergencyAction;
use warren_unit::settings::{Group, Id};

use crate::base::clock::now;
use crate::base::say::say;
use crate::cgroup::tree::is_slice;
use crate::daemon::Daemon;
use crate::daemon::start::{KeptDescriptors, StartError, read};
use crate::daemon::tasks::Task;
use crate::mount::table::Reading;
use crate::socket::sockets;

const FD_NAME: Id = Id::of(Group::Socket, "FileDescriptorName");

/// Units that had something when the last incarnation ended.
struct FormerHolders {
    /// Open sockets.
    sockets: BTreeSet<UnitId>,
    /// An automount point that is set, or was to be set still: that is done again.
    traps: Vec<UnitId>,
    /// A cgroup.
    groups: Vec<UnitId>,
}

impl FormerHolders {
    fn of(restored: &Restored) -> FormerHolders {
        let has_group = |run: &UnitRun| {
            let mounts = match &run.state {
                TypeState::Mount(Mount::Up(mount)) | TypeState::Swap(Mount::Up(mount)) => {
                    mount.asked.is_some()
                }
                _ => false,
            };
            mounts || run.history.as_ref().is_some_and(|h| h.has_cgroup)
        };
        let has_trap = |unit: UnitId, run: &UnitRun| {
            let is_up = matches!(run.state, TypeState::Automount(Automount::Up(_)));
            is_up || restored.late.contains(&Late::CloseTrap(unit))
        };
        let runs = || restored.runs.iter().map(|(&unit, run)| (unit, run));
        let ids = |(unit, _)| unit;
        // Those that were being removed.
        let cleared = restored.late.iter().filter_map(|late| match late {
            Late::CleanUp(unit, _) => Some(*unit),
            _ => None,
        });
        FormerHolders {
            sockets: runs().filter(|(_, run)| run.holds_sockets()).map(ids).collect(),
            traps: runs().filter(|(unit, run)| has_trap(*unit, run)).map(ids).collect(),
            groups: runs().filter(|(_, run)| has_group(run)).map(ids).chain(cleared).collect(),
        }
    }
}

impl Daemon {
    /// After the death of the last incarnation: state, descriptors and replies are taken up, then
    /// everything that the kernel knows better is told as events. After a soft reboot too, which is
    /// the beginning of a boot.
    pub(crate) fn go_on(
        &mut self,
        graph: Arc<Graph>,
        restored: Restored,
        kept: KeptDescriptors,
        reason: StartReason,
        mounts: Reading,
    ) -> Result<(), StartError> {
        self.stages.recovery.answered =
            self.spawning.helpers.synchronise(self.stages.recovery.incarnation);
        let (births, slots) = self.spawning.helpers.take_kept(kept.helpers);
        self.stages.recovery.answered.births = births;
        slots.into_iter().for_each(|slot| self.watch_held(slot));
        self.keep_births();
        for index in 0..self.spawning.helpers.count() {
            // Who asked for a new manager gets new helpers too.
            if reason == StartReason::Asked || self.spawning.helpers.is_foreign(index) {
                self.spawning.helpers.dismiss(index);
            }
            self.watch_helper(index);
        }
        self.stages.startup.is_ready_announced =
            restored.manager.is_some_and(|m| m.startup_finished);
        // The transaction of the first unit is the first that makes jobs.
        let started = restored.manager.is_some_and(|m| m.startup_finished || m.jobs_ever > 0);
        self.stages.startup.is_first_unit_requested = started;
        self.take_up_ending(&restored);
        let client_settings = match reason {
            // Its userspace begins with what the manager does.
            StartReason::SoftReboot => ClientSettings::default(),
            _ => restored.client_settings.clone(),
        };
        self.follow_client_settings(&client_settings);
        self.recording.state.set_client_settings(client_settings);
        let late = restored.late.clone();
        let held = FormerHolders::of(&restored);
        self.take_up_devices(&graph, &restored);
        let resumed = self.core.recover(now(), graph.clone(), restored);
        self.stages.recovery.given_up = self.core.given_up().into_iter().collect();
        if reason == StartReason::SoftReboot {
            // The next manager is not to find that everything is being stopped.
            self.write_state_anew(&late);
            for mark in &kept.soft_reboots {
                let _ = self.process.init.drop_stored(mark);
            }
        }
        self.take_up_plan();
        // Questions are answered from here on, orders wait.
        self.shared.publish(Arc::new(self.core.view()));
        self.serve()?;
        // With thousands of mounts this takes as long as all that was done before.
        self.triggers.mounts = read(mounts)?;
        self.take_up_sockets(&graph, &held, &late, kept.sockets);
        held.sockets.iter().for_each(|&unit| self.look_for_lost_sockets(unit));
        self.take_up_traps(&graph, &held);
        let (connections, kept_fds): (Vec<_>, Vec<_>) = kept
            .fd_store
            .into_iter()
            .partition(|(name, _)| crate::socket::accept::parse_stored_name(name).is_some());
        for (name, fd) in kept_fds {
            if let Err(fd) = self.take_up_namespaces(&name, fd) {
                self.take_up_stored_fd(&name, fd);
            }
        }
        for &unit in held.groups.iter().filter(|&&unit| graph.get(unit).is_some()) {
            self.cgroup.groups.take_up(&graph, unit, &self.core.group_path(unit));
        }
        self.take_up_nft_sets(&held.groups);
        self.take_up_for_oomd(&held.groups);
        self.reopen_processes();
        let mut effects: Vec<Effect> =
            late.iter().filter_map(|late| self.late_effect(&graph, late)).collect();
        effects.extend(resumed);
        for (name, fd) in connections {
            self.take_up_connection(&name, fd);
        }
        if self.spawning.helpers.owe() {
            let waits = |effect: &mut Effect| effect.makes_process() && !self.is_answered(effect);
            self.stages.recovery.unsettled = effects.extract_if(.., waits).collect();
        }
        let steps = [
            Some(Task::Resume(effects)),
            Some(Task::ReadExits),
            Some(Task::FindEmptyGroups),
            Some(Task::FindMounts { vanished: true }),
            (!started).then_some(Task::StartFirstUnit),
            Some(Task::Recovered { after_soft_reboot: reason == StartReason::SoftReboot }),
        ];
        steps.into_iter().flatten().for_each(|step| self.event_loop.tasks.do_last(step));
        Ok(())
    }

    /// Everything of the last manager is taken up.
    pub(super) fn recovered(&mut self, after_soft_reboot: bool) {
        // What happened meanwhile no client was told.
        self.announce(Announcement::Reloading(false));
        if !after_soft_reboot {
            self.recording.recorder.goes_on(now().monotonic);
        }
    }

    /// What was mounted while no manager looked, and what is not mounted any more.
    pub(super) fn find_mounts(&mut self, vanished: bool) {
        let graph = self.core.graph().clone();
        let changes = self.triggers.mounts.take(&graph);
        self.take_mount_changes(changes);
        if vanished {
            self.tell_vanished_mounts(&graph);
        }
    }

    /// What followed from the last batch and may not have been done, as far as it still makes
    /// sense: each is harmless when done twice.
    fn late_effect(&self, graph: &Graph, late: &Late) -> Option<Effect> {
        let unit = late.unit();
        let definition = graph.get(unit)?;
        let run = self.core.unit_run(unit);
        let at_rest = run.active_state().is_down() || run.main_process().is_none();
        // Sockets and mounts that come up again have processes, and none that is their main process.
        let ends_only = matches!(run.state, TypeState::Service(_)) && at_rest;
        let settings = || Arc::new(self.core.settings().compile_running(definition));
        let is_for_good =
            self.stages.shutdown.under_way.as_ref().is_some_and(|ending| ending.is_for_good());
        Some(match *late {
            Late::CleanUp(_, restarting) if at_rest && !self.cgroup.groups.is_populated(unit) => {
                Effect::CleanUp { unit, settings: settings(), restarting }
            }
            Late::CloseSockets(_) if !run.holds_sockets() => {
                let settings = settings();
                let removes = settings.socket().remove_on_stop;
                Effect::CloseSockets { unit, remove: removes.then_some(settings) }
            }
            Late::CloseTrap(_) if run.active_state().is_down() => Effect::CloseTrap { unit },
            Late::Emergency(_, ref word, status) if !is_for_good => {
                let action = EmergencyAction::from_word(word)?;
                let section = settings().section.clone();
                // Which of the two it was is not written down; hardly a unit has both.
                let of_job = || section.job_timeout_reboot_argument.clone();
                let argument = section.reboot_argument.clone().or_else(of_job);
                Effect::Emergency { action, unit, status, argument }
            }
            Late::AnswerTrap(_, ref tokens, ok) => {
                Effect::AnswerTrap { unit, tokens: tokens.clone(), ok }
            }
            Late::StampTimer(_, at_us) => Effect::StampTimer { unit, at_us },
            Late::LimitGroup(_) if is_slice(graph, unit) || !run.active_state().is_down() => {
                Effect::LimitGroup { unit, before: None, settings: settings() }
            }
            Late::KillGroup(_) if ends_only || run.active_state().is_down_or_going() => {
                Effect::KillGroup { unit }
            }
            Late::Kill(_, pid, signal, hangup, resume) if self.is_in_group(unit, pid) => {
                let (target, then) = (KillTarget::Process(pid), FollowUp { hangup, resume });
                Effect::Kill { id: EffectId(0), unit, target, signal, then }
            }
            _ => return None,
        })
    }

    fn is_in_group(&self, unit: UnitId, pid: u32) -> bool {
        self.core.unit_of_pid(pid) == Some(unit)
            || self.cgroup.groups.path(unit).is_some()
                && warren_sys::process::exists(pid as i32)
                && !self.cgroup.groups.is_elsewhere(unit, pid as i32)
    }

    /// Whether a helper has answered what the last incarnation asked for this effect.
    fn is_answered(&self, effect: &Effect) -> bool {
        let replies = &self.stages.recovery.answered.replies;
        effect.id().is_some_and(|id| {
            replies.contains_key(&id)
                || replies.contains_key(&EffectId(id.0 | crate::spawn::tools::TOOL))
        })
    }

    /// Takes up what helpers have answered to the last incarnation: one may be held up by what
    /// follows from another's answer. Once all have, asks again for what they were not asked.
    pub(crate) fn settle(&mut self) {
        let owe = self.spawning.helpers.owe();
        let given_up = self.core.given_up();
        let (waits, due) = std::mem::take(&mut self.stages.recovery.unsettled)
            .into_iter()
            .partition(|effect| owe && !self.is_answered(effect));
        self.stages.recovery.unsettled = waits;
        self.stages.recovery.is_resuming = true;
        let due: Vec<Effect> = due;
        for effect in due {
            let Some(id) = effect.id() else { continue };
            if self.core.effect_unit(id).is_some() && !given_up.contains(&id) {
                self.carry_out(effect);
            } else {
                self.stages.recovery.given_up.insert(id);
            }
        }
        self.stages.recovery.is_resuming = false;
        if !owe {
            self.take_late_replies();
        }
    }

    /// All helpers have said what they did for the last manager, and the core knows it: these effects they never
    /// began.
    pub(super) fn settled(&mut self, given_up: BTreeSet<EffectId>) {
        for id in given_up {
            self.done(id, Done::NeverBegun);
        }
        self.forget_orphans();
        self.close_unneeded();
    }

    /// Answers to spawns that are not asked for again: those that were given up before this manager asked for
    /// them. What belongs to effects that wait is kept for them.
    fn take_late_replies(&mut self) {
        let mut answered = std::mem::take(&mut self.stages.recovery.answered);
        let waits: BTreeSet<EffectId> =
            self.stages.shutdown.sweep.held().filter_map(Effect::id).collect();
        let (kept, replies) = split_replies(answered.replies, &waits);
        if !waits.is_empty() {
            self.stages.recovery.answered.births = std::mem::take(&mut answered.births);
            self.stages.recovery.answered.replies = kept;
        }
        // What this manager has asked for and given up since is answered by its own helpers.
        let mut given_up = std::mem::take(&mut self.stages.recovery.given_up);
        self.stages.recovery.is_resuming = true;
        for (id, (reply, pidfd)) in replies {
            if given_up.remove(&id) {
                self.spawned(reply, pidfd);
            }
        }
        self.stages.recovery.is_resuming = false;
        self.event_loop.tasks.do_next(Task::Settle(given_up));
    }

    /// The effects that waited are carried out: what was kept for them need not be any longer.
    pub(crate) fn settle_held(&mut self) {
        let is_over =
            !self.spawning.helpers.owe() && self.stages.shutdown.sweep.held().next().is_none();
        if is_over
            && !(self.stages.recovery.answered.replies.is_empty()
                && self.stages.recovery.answered.births.is_empty())
        {
            self.settle();
        }
    }

    /// Sockets of units that listen, and of those that were to be closed: they are closed as ever. Others
    /// are of nobody.
    fn take_up_sockets(
        &mut self,
        graph: &Graph,
        held: &FormerHolders,
        late: &[Late],
        kept: Vec<(String, OwnedFd)>,
    ) {
        let closes = |unit| late.contains(&Late::CloseSockets(unit));
        let mut found: BTreeMap<(UnitId, usize), OwnedFd> = BTreeMap::new();
        for (name, fd) in kept {
            if let Some((unit, index)) = sockets::parse_stored_name(&name) {
                match lookup(graph, unit) {
                    Some(unit) => _ = found.insert((unit, index), fd),
                    None => self.let_go(fd, &name),
                }
            } else if let Some(unit) = name.strip_prefix(sockets::LEFT) {
                match lookup(graph, unit).filter(|&unit| closes(unit)) {
                    Some(unit) => self.triggers.sockets.take_up_left(unit, name),
                    None => _ = self.process.init.drop_stored(&name),
                }
            }
        }
        for ((unit, index), fd) in found {
            let definition = graph.definition(unit);
            if held.sockets.contains(&unit) || closes(unit) {
                let name = fd_name(self.core.settings(), definition);
                self.triggers.sockets.take_up(unit, fd, name);
            } else {
                self.let_go(fd, &sockets::stored_name(definition.name.as_str(), index));
            }
        }
    }

    /// Has init close a socket: what is in it may hold up who has the last of it.
    fn let_go(&self, fd: OwnedFd, name: &str) {
        drop(fd);
        let _ = self.process.init.drop_stored(name);
    }

    /// A trap that was set and is not there any more was taken away while there was no manager; one that was being
    /// set is set now.
    fn take_up_traps(&mut self, graph: &Graph, held: &FormerHolders) {
        let set = match warren_sys::autofs::points() {
            Ok(set) => set,
            Err(e) => return say!("cannot take over automount points: {e}"),
        };
        for &unit in held.traps.iter().filter(|&&unit| graph.get(unit).is_some()) {
            let settings = self.core.settings().compile_running(graph.definition(unit));
            let is_there = self.triggers.traps.take_up(unit, settings.automount(), &set);
            let is_set = matches!(
                &self.core.unit_run(unit).state,
                TypeState::Automount(Automount::Up(run)) if run.asked.is_none()
            );
            if is_set && !is_there {
                self.event_loop.events.push_back(Event::TrapGone { unit });
            }
        }
        for path in self.triggers.traps.leave_unclaimed(&set) {
            say!("removing automount point {path}: it belongs to no unit");
        }
    }

    /// Pidfds of the processes that the machine knows; the exit ring says how those ended that are
    /// gone. Init may be about to write a record: who has none is told of later.
    fn reopen_processes(&mut self) {
        for index in 0..self.core.graph().len() {
            let unit = UnitId(index as u32);
            let run = self.core.unit_run(unit);
            let (main, control) = (run.main_process(), run.control_pid());
            if let Some(main) = main {
                self.reopen_process(unit, main.pid, main.started.monotonic);
                self.watch_stranger(unit);
            }
            // When that was made is not asked: any end of its number is taken for its own.
            control.into_iter().for_each(|pid| self.reopen_process(unit, pid, Monotonic(0)));
        }
    }

    fn reopen_process(&mut self, unit: UnitId, pid: u32, known: Monotonic) {
        if !self.process.table.find(pid, known.0 * 1000) {
            self.await_record(Some(unit), pid);
        }
    }

    /// Groups that became empty while there was no manager.
    pub(super) fn find_empty_groups(&mut self) {
        for index in 0..self.core.graph().len() {
            let unit = UnitId(index as u32);
            let run = self.core.unit_run(unit);
            let has = run.history.as_ref().is_some_and(|h| h.has_cgroup);
            // Slices have no processes whose end is waited for.
            let may_end =
                has && !run.active_state().is_down() && !is_slice(self.core.graph(), unit);
            if may_end && !self.will_be_told(unit) && self.cgroup.groups.found_empty(unit) {
                self.group_emptied(unit);
            }
        }
    }

    fn tell_vanished_mounts(&mut self, graph: &Graph) {
        for definition in graph.definitions() {
            let up = matches!(
                self.core.unit_run(definition.id).state,
                TypeState::Mount(Mount::Up(ref run)) | TypeState::Swap(Mount::Up(ref run))
                    if run.in_table
            );
            let name = &definition.name;
            if self.triggers.mounts.is_mounted(name) || !self.triggers.mounts.is_followed(name) {
                continue;
            }
            if up {
                self.event_loop.events.push_back(Event::Unmounted { unit: definition.id });
            }
            if definition.is_of_kernel() {
                self.triggers.mounts.vanished(name);
            }
        }
    }
}

/// Those of effects that wait, themselves or the tools that they run, and the rest.
fn split_replies<T>(
    replies: BTreeMap<EffectId, T>,
    waits: &BTreeSet<EffectId>,
) -> (BTreeMap<EffectId, T>, BTreeMap<EffectId, T>) {
    replies
        .into_iter()
        .partition(|(id, _)| waits.contains(&EffectId(id.0 & !crate::spawn::tools::TOOL)))
}

/// `FileDescriptorName=` of a socket, or its default.
fn fd_name(settings: &Settings, definition: &Definition) -> String {
    let set = || settings.compile_running(definition).socket().fd_name.clone();
    let set = definition.files.in_use().mention(FD_NAME).then(set).flatten();
    set.as_deref().unwrap_or(definition.name.as_str()).to_owned()
}

/// Whose name this was when something was kept under it.
fn lookup(graph: &Graph, name: &str) -> Option<UnitId> {
    warren_unit::UnitName::parse(name).ok().and_then(|name| graph.lookup_own(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_effects_that_wait_are_told_from_the_rest() {
        let replies = [1, 2, 3 | crate::spawn::tools::TOOL, 4].map(|id| (EffectId(id), ()));
        let waits = BTreeSet::from([1, 3, 5].map(EffectId));
        let (kept, late) = split_replies(BTreeMap::from(replies), &waits);
        let ids =
            |some: BTreeMap<EffectId, ()>| some.into_keys().map(|id| id.0).collect::<Vec<_>>();
        assert_eq!((ids(kept), ids(late)), (vec![1, 3 | crate::spawn::tools::TOOL], vec![2, 4]));
    }
}

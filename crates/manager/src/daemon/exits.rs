//! Ends: of processes, as init tells them, and of everything in a unit's cgroup, as the kernel does.

use warren_core::model::ids::{EffectId, UnitId};
use warren_core::model::process::ExitStatus;
use warren_core::model::time::Monotonic;
use warren_core::protocol::event::{Done, Event};
use warren_sys::process::ExitKind;

use crate::base::clock::now;
use crate::cgroup::tree::{Groups, News};
use crate::daemon::{Daemon, unit_log};
use crate::process::early_exits::EarlyExit;

/// Exit records taken in one turn.
const EXITS_PER_TURN_MAX: usize = 4096;

impl Daemon {
    pub(crate) fn read_exits(&mut self) {
        const KILL: ExitKind = ExitKind::Killed(9);
        let ended = self.process.init.ended(EXITS_PER_TURN_MAX);
        if !ended.is_empty() {
            let killed = ended.iter().any(|one| one.exit.kind == KILL);
            self.cgroup.unwatched_groups.processes_ended(
                &self.cgroup.groups,
                killed,
                now().monotonic,
            );
        }
        for record in ended {
            if let Some(unborn) = self.spawning.helpers.held.ended(record.exit.pid, record.time_ns)
            {
                self.born(unborn);
            }
            let pid = record.exit.pid as u32;
            if self.process.table.is_about_another(pid, record.time_ns) {
                continue;
            }
            let status = match record.exit.kind {
                ExitKind::Exited(code) => ExitStatus::Exited(code as u8),
                ExitKind::Killed(signal) => ExitStatus::Killed(signal as u8),
                ExitKind::Dumped(signal) => ExitStatus::Dumped(signal as u8),
            };
            // A process may end before the helper that made it has said so.
            if let Some(sent) = self.spawning.helpers.last_sent()
                && !self.spawning.tools.knows(pid)
                && !self.process.table.is_fresh(pid)
                && self.core.unit_of_pid(pid).is_none()
            {
                let (record, time_ns) = (record.seq, record.time_ns);
                self.process
                    .table
                    .early_exits
                    .keep(pid, EarlyExit { status, record, time_ns, sent });
            } else {
                self.recording.recorder.reaped(pid, Monotonic(record.time_ns / 1000));
                self.process_ended(pid, status);
            }
        }
        self.process.init.all_told();
    }

    pub(crate) fn read_groups(&mut self) {
        let news = self.cgroup.groups.drain();
        self.take_news_of_groups(news);
    }

    pub(crate) fn take_news_of_groups(&mut self, news: News) {
        news.out_of_memory.into_iter().for_each(|unit| self.out_of_memory(unit));
        news.empty.into_iter().for_each(|unit| self.group_emptied(unit));
        self.look_whom_it_froze();
    }

    /// Writes the order to the kernel, which may take a moment: a process that waits for a disk stands
    /// still when it comes back.
    pub(crate) fn freeze(&mut self, id: EffectId, unit: UnitId, frozen: bool) {
        if let Err(error) = self.cgroup.groups.freeze(unit, frozen) {
            self.cgroup.freezing.remove(&unit);
            return self.done(id, Done::Failed { error });
        }
        self.cgroup.freezing.insert(unit, (id, frozen));
        self.await_groups();
        self.look_whom_it_froze();
    }

    fn look_whom_it_froze(&mut self) {
        let is_over = |groups: &Groups, unit, frozen| groups.is_frozen(unit) == frozen;
        let groups = &self.cgroup.groups;
        let over = self
            .cgroup
            .freezing
            .extract_if(.., |unit, (_, frozen)| is_over(groups, *unit, *frozen));
        let over: Vec<_> = over.collect();
        over.into_iter().for_each(|(_, (id, _))| self.done(id, Done::Ok));
    }

    /// Nobody is left in the unit's group. What they used is told with it, so that a unit that goes
    /// down by it changes once; at the end, where thousands go, nobody asks for it any more.
    pub(crate) fn group_emptied(&mut self, unit: UnitId) {
        self.look_for_kills_of_oomd(unit);
        let cpu_us = if self.stages.shutdown.under_way.is_none() {
            self.cgroup.groups.cpu_us(unit)
        } else {
            None
        };
        self.event_loop.events.push_back(Event::CgroupEmpty { unit, cpu_us });
    }

    pub(crate) fn out_of_memory(&mut self, unit: UnitId) {
        unit_log::out_of_memory(&self.core.view(), self.core.settings(), unit);
        self.event_loop.events.push_back(Event::OutOfMemory { unit });
    }

    pub(crate) fn process_ended(&mut self, pid: u32, status: ExitStatus) {
        self.process.table.forget(pid);
        // Who killed it is to be known first: its end may be heard of before the group's report.
        const SIGKILL: u8 = 9;
        let unit = self.core.unit_of_pid(pid).or_else(|| self.process.table.unit_of_fresh(pid));
        if status == ExitStatus::Killed(SIGKILL)
            && let Some(unit) = unit
        {
            if self.cgroup.groups.ran_out_of_memory(unit) {
                self.out_of_memory(unit);
            }
            self.look_for_kills_of_oomd(unit);
        }
        let unit = match self.spawning.tools.ended(pid, status) {
            Some((effect, result)) => {
                let unit = self.core.effect_unit(effect);
                if !self.own_effect_done(effect, &result) {
                    self.tool_ended(effect, result);
                }
                unit
            }
            None => return self.process_of_unit_ended(pid, status, unit),
        };
        if let Some(unit) = unit.filter(|&unit| self.is_emptied_by_end(unit)) {
            self.group_emptied(unit);
        }
    }

    /// That nobody is left is told first: who hears that a main process has ended asks what it left
    /// behind to go, or kills it (`KillMode=mixed`).
    fn process_of_unit_ended(&mut self, pid: u32, status: ExitStatus, unit: Option<UnitId>) {
        if let Some(unit) = unit {
            self.record_end(unit, pid, status);
        }
        let last_of = unit.filter(|&unit| !self.knows_another(unit, pid));
        if let Some(unit) = last_of.filter(|&unit| self.is_emptied_by_end(unit)) {
            self.group_emptied(unit);
        }
        self.event_loop.events.push_back(Event::Exited { pid, status });
    }

    /// The last process of the unit that is known has ended: whether nobody is left. At the end
    /// groups stay where they are until the tree goes.
    fn is_emptied_by_end(&mut self, unit: UnitId) -> bool {
        let may_go = self.stages.shutdown.under_way.is_none() && self.core.is_down_when_empty(unit);
        may_go && self.cgroup.groups.removed_by_end(unit) || self.cgroup.groups.emptied_by_end(unit)
    }

    /// Whether the end of a process will be told of that is of this unit, beside that of `pid`.
    fn knows_another(&self, unit: UnitId, pid: u32) -> bool {
        let run = self.core.unit_run(unit);
        let mut known =
            run.main_process().map(|main| main.pid).into_iter().chain(run.control_pid());
        known.any(|other| other != pid && !self.has_ended(other))
    }

    /// Whether the end of a process was heard of in this turn, and is not the core's yet: of two that
    /// end together the second is the last.
    fn has_ended(&self, other: u32) -> bool {
        let is_end = |event: &Event| matches!(event, Event::Exited { pid, .. } if *pid == other);
        self.event_loop.events.iter().rev().any(is_end)
    }

    /// Whether something is at the mount point of an unmount that has ended: mounts may lie on one another. Where only
    /// the whole table tells, as before Linux 6.8, it is read if there were several.
    fn is_mounted_still(&self, effect: EffectId) -> bool {
        let Some(unit) = self.core.effect_unit(effect) else { return false };
        let name = self.core.graph().name(unit);
        let may_be = warren_sys::mount::is_told_of_one() || self.triggers.mounts.is_stacked(name);
        may_be && crate::spawn::mount_commands::is_mounted(name)
    }

    fn tool_ended(&mut self, effect: EffectId, result: Done) {
        let (unmounted, mounted) =
            (self.spawning.tools.take_unmounted(effect), self.spawning.tools.take_mounted(effect));
        let is_left = unmounted.is_some() && result == Done::Ok && self.is_mounted_still(effect);
        if let Some(path) = unmounted.as_deref().filter(|_| !is_left) {
            self.spawning.tools.unmount_ended(path);
        }
        match (unmounted, mounted, result) {
            (Some(path), _, Done::Ok) if is_left => {
                let result = self.spawning.tools.unmount_again(&path);
                self.event_loop.events.push_back(Event::Done { effect, result });
            }
            (Some(path), _, Done::Failed { error }) => {
                self.event_loop
                    .workers
                    .run(effect, move || crate::spawn::mount_commands::in_use(&path, &error));
            }
            // A helper may leave before it has done its work, as with `bg` of nfs(5).
            (_, Some(unit), Done::Ok) => {
                self.event_loop
                    .workers
                    .run(effect, move || crate::spawn::mount_commands::was_mounted(&unit));
            }
            (_, _, result) => self.event_loop.events.push_back(Event::Done { effect, result }),
        }
    }
}

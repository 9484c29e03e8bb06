//! Signals to processes of units.

use crate::cgroup::tree::Listed;
use crate::daemon::Daemon;
use crate::process::signals::{
    AT_ONCE_PER_TURN_MAX, GroupSignal, LISTINGS_MAX, LOOKED_AT_PER_TURN_MAX, SIGCONT, SIGHUP,
    SIGKILL,
};
use std::collections::BTreeSet;
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::{Done, FollowUp, KillTarget};
use warren_sys::cgroup::Tree;

impl Daemon {
    /// Sends the signal of an effect, which is answered when all that are meant had it.
    pub(crate) fn signal_for(
        &mut self,
        id: EffectId,
        unit: UnitId,
        target: KillTarget,
        signal: i32,
        then: FollowUp,
    ) {
        if let KillTarget::Process(pid) = target {
            if signal == SIGKILL {
                self.tell_killed(unit, &[pid as i32]);
            }
            let processes = u32::from(self.signal_one(pid as i32, signal, then));
            if signal == SIGKILL && processes > 0 {
                self.note_killed(unit, Some(pid), 1);
            }
            return self.done(id, Done::Killed { processes });
        }
        let seen = BTreeSet::new();
        let mut asked = GroupSignal { id, unit, signal, then, main: None, seen, sent: 0 };
        let has_main = self.signal_main(&mut asked);
        // What somebody asked for by hand is not waited for by the unit, and is done with the answer.
        let is_awaited = self.core.effect_unit(id) == Some(unit);
        if has_main && is_awaited && self.process.kills.signalled_at_once == AT_ONCE_PER_TURN_MAX {
            return self.process.kills.other_processes.push_back(asked);
        }
        self.process.kills.signalled_at_once += usize::from(has_main);
        self.signal_rest(asked);
    }

    /// Answers for the signal of a group.
    fn signalled(&mut self, id: EffectId, unit: UnitId, signal: i32, processes: u32) {
        if signal == SIGKILL && processes > 0 {
            self.note_killed(unit, None, processes as usize);
        }
        self.done(id, Done::Killed { processes });
    }

    /// Signals all of a group, at once.
    pub(crate) fn signal_group(&self, unit: UnitId, signal: i32) {
        let (id, then, seen) = (EffectId(0), FollowUp::default(), BTreeSet::new());
        let mut asked = GroupSignal { id, unit, signal, then, main: None, seen, sent: 0 };
        self.signal_main(&mut asked);
        if !self.signal_listed(&mut asked) {
            self.signal_beside(asked);
        }
    }

    /// Signals the others of groups whose main process had its signal, of some of them: those of
    /// whose units nobody is left, or wants to know any more, are passed by.
    pub(crate) fn signal_others(&mut self) {
        for _ in 0..LOOKED_AT_PER_TURN_MAX {
            let Some(asked) = self.next_others() else { return };
            self.signal_rest(asked);
        }
    }

    /// Signals the others of a group, and answers for it, at once unless there are many groups below.
    fn signal_rest(&mut self, mut asked: GroupSignal) {
        match self.signal_listed(&mut asked) {
            true => self.signalled(asked.id, asked.unit, asked.signal, asked.sent),
            false => self.signal_beside(asked),
        }
    }

    /// Has a thread signal those of all groups below that of a unit, which answers for it.
    fn signal_beside(&self, asked: GroupSignal) {
        let path = self.cgroup.groups.path(asked.unit).unwrap_or_default().to_owned();
        let root = self.cgroup.groups.tree().map(|tree| tree.path().to_owned());
        let id = asked.id;
        // Whatever fails, whoever waits for the signal is answered.
        self.event_loop.workers.run(id, move || match root.map(|root| Tree::open(&root)) {
            Some(Ok(tree)) if !path.is_empty() => {
                Done::Killed { processes: asked.signal_below(&tree, &path) }
            }
            _ => Done::Killed { processes: asked.sent },
        });
    }

    fn next_others(&mut self) -> Option<GroupSignal> {
        loop {
            let asked = self.process.kills.other_processes.pop_front()?;
            if self.core.effect_unit(asked.id) == Some(asked.unit) {
                return Some(asked);
            }
        }
    }

    /// Signals the main process, if it is to be and is known for sure; whether it had the signal.
    fn signal_main(&self, asked: &mut GroupSignal) -> bool {
        let main = self.core.unit_run(asked.unit).main_process().map(|main| main.pid as i32);
        let main = main
            .filter(|main| !asked.seen.contains(main) && self.process.table.is_held(*main as u32));
        let Some(main) = main else { return false };
        let is_sent = self.signal_one(main, asked.signal, FollowUp { resume: false, ..asked.then });
        asked.sent += u32::from(is_sent);
        asked.seen.insert(main);
        asked.main = is_sent.then_some(main);
        is_sent
    }

    /// Signals all of a group who have not had the signal, each once. One that forks between the
    /// listing and its signal would leave a child that nobody asks: a fork that is under way when the
    /// signal comes fails and is begun anew by the kernel after it, so the group is listed again when
    /// all were signalled. Where nobody else is, one listing is enough.
    /// False if there are more groups below than are listed at once.
    fn signal_listed(&self, asked: &mut GroupSignal) -> bool {
        if let Some(main) = asked.main.filter(|_| asked.then.resume) {
            self.process.table.signal(main as u32, SIGCONT);
        }
        for _ in 0..LISTINGS_MAX {
            let Listed { pids, is_all } = self.group_processes(asked.unit);
            if !is_all {
                return false;
            }
            let new: Vec<i32> = pids.into_iter().filter(|&pid| asked.seen.insert(pid)).collect();
            if new.is_empty() {
                break;
            }
            let one = |&pid: &i32| self.signal_one(pid, asked.signal, asked.then);
            asked.sent += new.iter().filter(|pid| one(pid)).count() as u32;
        }
        true
    }

    fn signal_one(&self, pid: i32, signal: i32, then: FollowUp) -> bool {
        let sent = self.process.table.signal(pid as u32, signal);
        if then.hangup {
            self.process.table.signal(pid as u32, SIGHUP);
        }
        if then.resume {
            self.process.table.signal(pid as u32, SIGCONT);
        }
        sent
    }

    /// Where they cannot be listed, the processes that the core knows.
    pub(crate) fn group_processes(&self, unit: UnitId) -> Listed {
        if let Some(listed) = self.cgroup.groups.listed(unit) {
            return listed;
        }
        let run = self.core.unit_run(unit);
        let main = run.main_process().map(|p| p.pid as i32);
        let control = run.control_pid().map(|p| p as i32);
        let is_its = |effect| self.core.effect_unit(effect) == Some(unit);
        let tools = self.spawning.tools.pids().filter(|&(_, effect)| is_its(effect));
        let known = main.into_iter().chain(control).chain(tools.map(|(pid, _)| pid as i32));
        Listed { pids: known.collect(), is_all: true }
    }
}

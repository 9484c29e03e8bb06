//! SIGKILL for whole groups: one by one, off the loop where there are many processes, and at the end
//! with one write for all units of a slice that go together.

use warren_core::model::ids::{EffectId, UnitId};
use warren_core::model::state::{Service, TypeState};
use warren_core::protocol::event::Done;
use warren_sys::signal::SIGKILL;

use crate::base::clock::now;
use crate::base::say::say;
use crate::cgroup::tree::Listed;
use crate::daemon::Daemon;
use crate::shutdown::sweep::{NAMED_MAX, command};

/// Processes of a group that the loop kills by itself; for more a worker does it.
const KILLED_AT_ONCE_MAX: usize = 16;

/// Fewer units that are to be killed are killed one by one.
const TOGETHER_MIN: usize = 16;

/// Workers answer for a group that they killed under this bit and the unit's id, or that of the
/// first of the units that were killed together.
const KILLED: u64 = 1 << 60;

impl Daemon {
    /// Kills the groups that are to be killed.
    pub(crate) fn kill_groups(&mut self) {
        let dying = std::mem::take(&mut self.process.kills.dying);
        // Before the end a unit may be started in the slice while it is being killed.
        let together = self.stages.shutdown.under_way.is_some() && dying.len() >= TOGETHER_MIN;
        let (slices, single) = match together {
            true => self.cgroup.groups.whole_slices(dying),
            false => (Vec::new(), dying),
        };
        for (slice, units) in slices {
            self.kill_slice(&slice, units);
        }
        single.into_iter().for_each(|unit| self.kill_group(unit));
    }

    fn kill_slice(&mut self, slice: &str, units: Vec<UnitId>) {
        let first = units[0];
        match self.cgroup.groups.slice_kill_task(slice, &units) {
            Some(task) => {
                // To look at each group would cost more than the kill does.
                let met = units.into_iter().filter(|&unit| self.has_known_process(unit));
                let met: Vec<UnitId> = met.collect();
                met.iter().for_each(|&unit| self.note_killed(unit, None, 0));
                self.run_kill(first, task);
                // Nor where each of the units is to be looked at: one of those who have nothing to save that
                // lives elsewhere goes with the stragglers of the end.
                let asked = met.into_iter().filter(|&unit| !self.is_sudden(unit));
                let asked: Vec<UnitId> = asked.collect();
                for pid in asked.into_iter().flat_map(|unit| self.known_elsewhere(unit)) {
                    self.process.table.signal(pid as u32, SIGKILL);
                }
            }
            None => units.into_iter().for_each(|unit| self.kill_group(unit)),
        }
    }

    fn run_kill(
        &mut self,
        unit: UnitId,
        task: impl FnOnce() -> warren_sys::Result<()> + Send + 'static,
    ) {
        let id = EffectId(KILLED | u64::from(unit.0));
        self.process.kills.killers.run(id, move || match task() {
            Ok(()) => Done::Ok,
            Err(e) => Done::Failed { error: e.to_string() },
        });
    }

    fn kill_group(&mut self, unit: UnitId) {
        let Listed { mut pids, is_all } = self.group_processes(unit);
        let count = pids.len();
        let elsewhere = self.known_elsewhere(unit);
        pids.extend(&elsewhere);
        if !pids.is_empty() {
            self.tell_killed(unit, &pids);
            self.note_killed(unit, None, pids.len());
        }
        for pid in elsewhere {
            self.process.table.signal(pid as u32, SIGKILL);
        }
        if (count > KILLED_AT_ONCE_MAX || !is_all)
            && let Some(task) = self.cgroup.groups.kill_task(unit)
        {
            return self.run_kill(unit, task);
        }
        if let Err(e) = self.cgroup.groups.kill(unit) {
            self.kill_one_by_one(unit, &e.to_string());
        }
        if self.cgroup.groups.found_empty(unit) {
            self.group_emptied(unit);
        }
        self.await_groups();
    }

    /// The main and the control process of a unit, if they have moved to a group that is not the unit's: a kill of
    /// the group does not meet them, and they are killed by number (systemd.kill(5), "KillMode=": the main
    /// process is killed in each mode but one).
    fn known_elsewhere(&self, unit: UnitId) -> Vec<i32> {
        let run = self.core.unit_run(unit);
        let main = run.main_process().map(|main| main.pid);
        let known = main.into_iter().chain(run.control_pid()).map(|pid| pid as i32);
        known
            .filter(|&pid| {
                self.process.table.is_held(pid as u32) && self.cgroup.groups.is_elsewhere(unit, pid)
            })
            .collect()
    }

    fn has_known_process(&self, unit: UnitId) -> bool {
        let run = self.core.unit_run(unit);
        run.main_process().is_some() || run.control_pid().is_some()
    }

    /// SIGKILL meets processes of a unit: so many, 0 when that is not known, or one alone.
    pub(crate) fn note_killed(&mut self, unit: UnitId, pid: Option<u32>, count: usize) {
        self.recording.recorder.killed(now().monotonic, Some(unit), pid, count);
    }

    /// Names those whom SIGKILL is for, among the unit's messages; not where that is the ordinary way, as
    /// nothing is to be saved.
    pub(crate) fn tell_killed(&self, unit: UnitId, pids: &[i32]) {
        if self.is_sudden(unit) {
            return;
        }
        let one = |&pid: &i32| format!("{} (pid {pid})", command(pid));
        let named: Vec<String> = pids.iter().take(NAMED_MAX).map(one).collect();
        let more = match pids.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let name = self.core.graph().name(unit);
        let text = format!("{name}: killing by SIGKILL: {}{more}", named.join(", "));
        crate::daemon::unit_log::warn(&self.core.view(), self.core.settings(), unit, &text);
    }

    /// Whether it is killed without having been asked.
    fn is_sudden(&self, unit: UnitId) -> bool {
        let run = self.core.unit_run(unit);
        matches!(&run.state, TypeState::Service(Service::Up(run)) if run.sudden)
    }

    fn kill_one_by_one(&mut self, unit: UnitId, error: &str) {
        say!("{}: {error}", self.core.graph().name(unit));
        self.signal_group(unit, SIGKILL);
    }

    /// A worker has killed a group, or those of a slice; false if the effect is another one.
    pub(crate) fn group_killed(&mut self, effect: EffectId, result: &Done) -> bool {
        if effect.0 & KILLED == 0 {
            return false;
        }
        for unit in self.cgroup.groups.killed_with(UnitId(effect.0 as u32)) {
            if let Done::Failed { error } = result {
                self.kill_one_by_one(unit, error);
            }
            if self.cgroup.groups.killed(unit) {
                self.group_emptied(unit);
            }
        }
        true
    }
}

//! What is started and when: once for each group, the boot batch together, late ones degraded.

use super::volumes;
use super::{Decision, GroupId, GroupState, Holder, Index, Phase, Places, Scope, Start};
use crate::lvm::group::{Standing, VolumeGroup};

/// How long after a change an overdue group is looked at again, in milliseconds: members that
/// come one after another are then one look.
const RECHECK_MS: u64 = 1000;

impl Index {
    pub(super) fn decide(&mut self, now_ms: u64) -> Vec<Decision> {
        let wanted = std::mem::take(&mut self.vgs.wanted).into_iter();
        let mut out: Vec<Decision> =
            wanted.map(|(device, key)| Decision::ReadText { device, key }).collect();
        let touched = std::mem::take(&mut self.vgs.touched);
        self.touched.extend(touched.into_iter().map(GroupId::Lvm));
        match self.phase {
            Phase::Boot { told: true } if !self.vgs.is_waiting_for_text() => {
                self.phase = Phase::Running;
                let starts = self.starts(now_ms);
                out.extend((!starts.is_empty()).then_some(Decision::Activate(starts)));
            }
            Phase::Boot { .. } => {}
            Phase::Running => {
                let starts = self.starts(now_ms).into_iter();
                out.extend(starts.map(|start| Decision::Activate(vec![start])));
            }
        }
        out
    }

    fn starts(&mut self, now_ms: u64) -> Vec<Start> {
        let touched = std::mem::take(&mut self.touched);
        touched.into_iter().filter_map(|group| self.start(now_ms, group)).collect()
    }

    /// What of a group is to be started now and was not before.
    fn start(&mut self, now_ms: u64, group: GroupId) -> Option<Start> {
        self.work += 1;
        let Some(state) = self.state(group) else {
            self.forget(group);
            return None;
        };
        let scope = match state {
            GroupState::Complete if self.is_running(group) => self.was_started(group),
            GroupState::Complete => self.whole(group),
            GroupState::Waiting { .. } => {
                self.arm(now_ms, group);
                self.complete_volumes(group)
            }
            GroupState::Held(_) => None,
        };
        scope.map(|scope| Start { group, scope })
    }

    fn whole(&mut self, group: GroupId) -> Option<Scope> {
        self.disarm(group);
        let run = self.runs.entry(group).or_default();
        let first = !std::mem::replace(&mut run.begun.whole, true);
        first.then_some(Scope::Whole)
    }

    /// An array holds its members when it is put together, by this daemon, one before it, or others.
    pub(super) fn is_running(&self, group: GroupId) -> bool {
        let GroupId::Md(set) = group else { return false };
        let members = self.arrays.get(&set).into_iter().flat_map(Places::devices);
        let mut members = members.filter_map(|number| self.devices.get(&number));
        members.any(|entry| entry.device.facts.held_by == Holder::Raid)
    }

    /// Whoever started it: that this daemon was too late for it is no fault.
    fn was_started(&mut self, group: GroupId) -> Option<Scope> {
        let is_first = self.whole(group).is_some();
        let run = self.runs.entry(group).or_default();
        if is_first || matches!(run.result, Some(Err(_))) {
            run.result = Some(Ok(()));
        }
        None
    }

    /// Volumes of an incomplete group that have all they lie on; only when the policy starts them
    /// one by one.
    fn complete_volumes(&mut self, group: GroupId) -> Option<Scope> {
        let GroupId::Lvm(vg) = group else { return None };
        let found = self.vgs.get(vg)?;
        let truth = found.truth()?.clone();
        let names = startable(&truth, found.complete_volumes());
        self.new_volumes(group, names).map(Scope::Volumes)
    }

    /// Those that were not started before, as long as the group was not started as a whole.
    fn new_volumes(&mut self, group: GroupId, mut names: Vec<String>) -> Option<Vec<String>> {
        let run = self.runs.entry(group).or_default();
        names.retain(|name| !run.begun.whole && !run.begun.volumes.contains(name));
        run.begun.volumes.extend(names.iter().cloned());
        (!names.is_empty()).then_some(names)
    }

    pub(super) fn forget(&mut self, group: GroupId) {
        self.disarm(group);
        self.runs.remove(&group);
    }

    // ---- time ----

    /// When [`super::Event::Time`] is due, in milliseconds of the clock of [`Index::step`].
    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    fn arm(&mut self, now_ms: u64, group: GroupId) {
        let Some(patience) = self.policy.degraded_after_ms else { return };
        let run = self.runs.entry(group).or_default();
        if run.deadline_ms.is_some() || run.begun.whole {
            return;
        }
        let deadline = now_ms.saturating_add(if run.overdue { RECHECK_MS } else { patience });
        run.deadline_ms = Some(deadline);
        self.deadlines.insert((deadline, group));
    }

    fn disarm(&mut self, group: GroupId) {
        let Some(run) = self.runs.get_mut(&group) else { return };
        if let Some(deadline) = run.deadline_ms.take() {
            self.deadlines.remove(&(deadline, group));
        }
    }

    /// Groups whose time has come.
    pub(super) fn take_deadlines(&mut self, now_ms: u64) -> Vec<GroupId> {
        let mut late = Vec::new();
        while let Some(&(deadline, group)) = self.deadlines.first()
            && deadline <= now_ms
        {
            self.disarm(group);
            self.runs.entry(group).or_default().overdue = true;
            late.push(group);
        }
        late
    }

    /// What of an incomplete group can run without its missing members. A btrfs file system is
    /// never mounted degraded behind its owner's back: mount option `degraded`, btrfs(5).
    pub(super) fn degraded(&mut self, group: GroupId) -> Option<Start> {
        if !matches!(self.state(group)?, GroupState::Waiting { .. }) {
            return None;
        }
        let names = match group {
            GroupId::Lvm(vg) => {
                let names = self.vgs.get(vg).map(runnable_volumes)?;
                self.new_volumes(group, names)?
            }
            GroupId::Md(set) if self.arrays.get(&set)?.can_degrade() && !self.is_running(group) => {
                let run = self.runs.entry(group).or_default();
                let first = !std::mem::replace(&mut run.begun.degraded, true);
                first.then(Vec::new)?
            }
            GroupId::Md(_) | GroupId::Btrfs(_) | GroupId::Luks(_) => return None,
        };
        Some(Start { group, scope: Scope::Degraded(names) })
    }
}

/// Names of the volumes, of those with these numbers, that may be activated by themselves.
pub(super) fn startable(truth: &VolumeGroup, numbers: impl Iterator<Item = usize>) -> Vec<String> {
    let volumes = numbers.filter_map(|number| truth.volumes.get(number));
    let wanted = volumes.filter(|volume| volume.visible && volume.auto_activation);
    wanted.map(|volume| volume.name.clone()).collect()
}

/// The same for volumes that can run with the members that are there.
fn runnable_volumes(group: &volumes::Group) -> Vec<String> {
    let Some(truth) = group.truth() else { return Vec::new() };
    let standings = truth.standings(&|number| group.is_present(number));
    let runnable = standings.iter().enumerate().filter(|(_, s)| **s != Standing::Partial);
    startable(truth, runnable.map(|(number, _)| number))
}

//! Which unit a process belongs to, and the ends of processes that no unit has claimed yet.
//!
//! Owns: the main and control processes of units, by pid.
//! Must not: know what the end of a process means to its unit.

use crate::model::ids::{EffectId, UnitId};
use crate::model::process::ExitStatus;
use std::collections::BTreeMap;

/// Ends of unknown processes that are remembered; then the oldest go.
const EARLY_EXITS_MAX: usize = 4096;

/// The processes of units.
#[derive(Debug, Default)]
pub(crate) struct Pids {
    owners: BTreeMap<u32, UnitId>,
    /// Ends of processes that no unit has claimed yet: the answer to a spawn, which names the
    /// process, may come after its end. Kept only while effects are under way.
    early_exits: BTreeMap<u32, EarlyExit>,
    /// How many were ever remembered.
    remembered: u64,
}

/// The end of a process that no unit has claimed yet.
#[derive(Clone, Copy, Debug)]
struct EarlyExit {
    status: ExitStatus,
    /// The first effect that was not asked for yet: its process, and those of later ones, only have the
    /// same number.
    before: EffectId,
    /// Which one of all that were remembered.
    number: u64,
}

impl Pids {
    pub fn own(&mut self, pid: u32, unit: UnitId) {
        self.owners.insert(pid, unit);
    }

    pub fn disown(&mut self, pid: u32) {
        self.owners.remove(&pid);
    }

    /// The process has ended: the unit that it belonged to.
    pub fn take_owner(&mut self, pid: u32) -> Option<UnitId> {
        self.owners.remove(&pid)
    }

    pub fn unit_of(&self, pid: u32) -> Option<UnitId> {
        self.owners.get(&pid).copied()
    }

    /// Keeps the end of a process that no unit has claimed; `before` is the next effect.
    pub fn remember_exit(&mut self, pid: u32, status: ExitStatus, before: EffectId) {
        self.remembered += 1;
        self.early_exits.insert(pid, EarlyExit { status, before, number: self.remembered });
        let rows = || self.early_exits.iter().map(|(&pid, early)| (early.number, pid));
        if self.early_exits.len() > EARLY_EXITS_MAX
            && let Some((_, oldest)) = rows().min()
        {
            self.early_exits.remove(&oldest);
        }
    }

    /// The end of a process that this effect has made, if it was seen before the answer.
    pub fn take_early_exit(&mut self, pid: u32, effect: EffectId) -> Option<ExitStatus> {
        let early = self.early_exits.remove(&pid)?;
        (effect < early.before).then_some(early.status)
    }

    /// No effect is under way: no unit will claim what ended.
    pub fn forget_early_exits(&mut self) {
        self.early_exits.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pids come again while one effect takes for ever.
    #[test]
    fn the_end_of_an_unknown_process_is_not_that_of_one_asked_for_later() {
        let mut pids = Pids::default();
        let status = ExitStatus::Exited(3);
        let (pending, later) = (EffectId(1), EffectId(2));
        pids.remember_exit(7, status, later);
        assert_eq!(pids.take_early_exit(7, later), None);
        pids.remember_exit(7, status, EffectId(3));
        assert_eq!(pids.take_early_exit(7, pending), Some(status));
        assert_eq!(pids.take_early_exit(7, pending), None);
    }

    #[test]
    fn ends_that_no_unit_claims_are_bounded() {
        let mut pids = Pids::default();
        // Pids go down, so that the oldest is not the least.
        let oldest = EARLY_EXITS_MAX as u32;
        for pid in (0..=oldest).rev() {
            pids.remember_exit(pid, ExitStatus::Unknown, EffectId(2));
        }
        assert_eq!(pids.early_exits.len(), EARLY_EXITS_MAX);
        assert_eq!(pids.take_early_exit(oldest, EffectId(1)), None);
        assert_eq!(pids.take_early_exit(0, EffectId(1)), Some(ExitStatus::Unknown));
    }
}

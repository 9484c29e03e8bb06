//! Exits of unknown processes: a process may exit before its exec helper has reported it,
//! and orphans end all the time.
//!
//! Their records stay in init's ring for the next manager, as far as there is room
//! ([`crate::process::init_link::InitLink::release`]).

use std::collections::BTreeMap;

use warren_core::model::process::ExitStatus;

/// Ends that are kept; then those that were recorded first go.
const KEPT_MAX: usize = 4096;

/// The end of a process that nobody knows yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EarlyExit {
    pub(crate) status: ExitStatus,
    /// Which record of the ring.
    pub(crate) record: u64,
    /// When it was recorded, CLOCK_MONOTONIC, nanoseconds.
    pub(crate) time_ns: u64,
    /// The last spawn that was sent before its end was seen.
    pub(crate) sent: u64,
}

/// All of them.
#[derive(Default)]
pub(crate) struct EarlyExits {
    by_pid: BTreeMap<u32, EarlyExit>,
    /// When the newest of those was recorded for which there was no room.
    dropped_ns: Option<u64>,
}

impl EarlyExits {
    /// Keeps one.
    pub(crate) fn keep(&mut self, pid: u32, early: EarlyExit) {
        self.by_pid.insert(pid, early);
        let rows = || self.by_pid.iter().map(|(&pid, early)| (early.record, pid));
        if self.by_pid.len() > KEPT_MAX
            && let Some((_, oldest)) = rows().min()
        {
            let dropped = self.by_pid.remove(&oldest).map(|early| early.time_ns);
            self.dropped_ns = self.dropped_ns.max(dropped);
        }
    }

    /// How a process has ended that was there at `since_ns`, if it has. What was recorded before is
    /// about another one with its number (`warren_init::protocol::exec::Spawned`).
    pub(crate) fn take(&mut self, pid: u32, since_ns: u64) -> Option<ExitStatus> {
        let early = self.by_pid.remove(&pid)?;
        (early.time_ns >= since_ns).then_some(early.status)
    }

    /// Whether there was no room for what ended since then.
    pub(crate) fn has_dropped(&self, since_ns: u64) -> bool {
        self.dropped_ns.is_some_and(|dropped| dropped >= since_ns)
    }

    /// Forgets those that no spawn under way can have made; `oldest` is the number of the first of them.
    pub(crate) fn forget(&mut self, oldest: Option<u64>) {
        match oldest {
            Some(oldest) => self.by_pid.retain(|_, early| early.sent >= oldest),
            None => *self = EarlyExits::default(),
        }
    }

    /// The first record that the next manager wants to see, too.
    pub(crate) fn first_record(&self) -> Option<u64> {
        self.by_pid.values().map(|early| early.record).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn early(record: u64, sent: u64) -> EarlyExit {
        EarlyExit { status: ExitStatus::Exited(record as u8), record, time_ns: record * 10, sent }
    }

    #[test]
    fn what_was_recorded_before_a_process_was_made_is_about_another_one() {
        let mut exits = EarlyExits::default();
        exits.keep(7, early(1, 1));
        assert_eq!(exits.take(7, 11), None);
        assert_eq!(exits.first_record(), None, "it is nobody's");
        exits.keep(7, early(2, 1));
        assert_eq!(exits.take(7, 20), Some(ExitStatus::Exited(2)));
    }

    #[test]
    fn the_ends_of_orphans_have_a_bound_and_what_it_drops_is_known() {
        let mut exits = EarlyExits::default();
        let first = KEPT_MAX as u32 + 10;
        // Pids go down, so that the oldest is not the least.
        for record in 0..=KEPT_MAX as u64 {
            assert!(!exits.has_dropped(0));
            exits.keep(first - record as u32, early(record, 1));
        }
        assert_eq!((exits.by_pid.len(), exits.first_record()), (KEPT_MAX, Some(1)));
        assert_eq!(exits.take(first, 0), None);
        assert!(exits.has_dropped(0) && !exits.has_dropped(1));
    }

    #[test]
    fn what_no_spawn_under_way_can_have_made_is_forgotten() {
        let mut exits = EarlyExits::default();
        (1..=3).for_each(|n| exits.keep(n, early(u64::from(n), u64::from(n))));
        exits.forget(Some(2));
        assert_eq!(exits.first_record(), Some(2));
        exits.forget(None);
        assert_eq!(exits.first_record(), None);
    }
}

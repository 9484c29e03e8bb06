//! Groups whose members fill numbered places: an MD array, a btrfs file system.
//!
//! Each member states a place, how many places there are, and a count of changes; what the newest
//! say is true. One arrival costs a look-up, unless it is newer than all before.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::device::DeviceNumber;

/// What one member states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    /// The place it fills; `None` for a spare.
    pub place: Option<u64>,
    /// Places in all.
    pub places: u64,
    /// Count of changes.
    pub changes: u64,
    /// Places that may stay empty when the group runs degraded.
    pub spare_places: u64,
}

/// The members of one group.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    claims: BTreeMap<DeviceNumber, Claim>,
    /// Members by their count of changes, the newest last; of several the lowest number.
    ages: BTreeSet<(u64, Reverse<DeviceNumber>)>,
    /// Who fills each place, the out of date left out.
    filled: BTreeMap<u64, BTreeSet<DeviceNumber>>,
    /// How far behind the newest a member may be; `None`: any.
    tolerance: Option<u64>,
}

impl Places {
    pub(super) fn new(tolerance: Option<u64>) -> Places {
        Places { tolerance, ..Places::default() }
    }

    /// Takes a member in; returns how many claims were looked at.
    pub(super) fn insert(&mut self, device: DeviceNumber, claim: Claim) -> u64 {
        let newest = self.newest();
        self.claims.insert(device, claim);
        self.ages.insert((claim.changes, Reverse(device)));
        self.refill_unless(newest, |places| places.fill(device, claim))
    }

    /// Takes a member out; returns how many claims were looked at.
    pub(super) fn remove(&mut self, device: DeviceNumber) -> u64 {
        let newest = self.newest();
        let Some(claim) = self.claims.remove(&device) else { return 0 };
        self.ages.remove(&(claim.changes, Reverse(device)));
        self.refill_unless(newest, |places| places.empty(device, claim))
    }

    /// Does `small` when the newest count is what it was, and fills all places anew otherwise.
    fn refill_unless(&mut self, newest: Option<u64>, small: impl FnOnce(&mut Places)) -> u64 {
        if self.newest() == newest {
            small(self);
            return 1;
        }
        self.filled.clear();
        let claims: Vec<_> = self.claims.iter().map(|(device, claim)| (*device, *claim)).collect();
        claims.iter().for_each(|&(device, claim)| self.fill(device, claim));
        1 + claims.len() as u64
    }

    fn fill(&mut self, device: DeviceNumber, claim: Claim) {
        if let Some(place) = claim.place.filter(|_| self.is_current(claim.changes)) {
            self.filled.entry(place).or_default().insert(device);
        }
    }

    fn empty(&mut self, device: DeviceNumber, claim: Claim) {
        let Some(place) = claim.place else { return };
        if let Some(devices) = self.filled.get_mut(&place) {
            devices.remove(&device);
            if devices.is_empty() {
                self.filled.remove(&place);
            }
        }
    }

    fn newest(&self) -> Option<u64> {
        self.ages.last().map(|(changes, _)| *changes)
    }

    /// False for a member that missed changes.
    pub(super) fn is_current(&self, changes: u64) -> bool {
        let behind = self.newest().unwrap_or(0).saturating_sub(changes);
        self.tolerance.is_none_or(|most| behind <= most)
    }

    /// What the newest member states.
    fn truth(&self) -> Option<&Claim> {
        let (_, Reverse(device)) = self.ages.last()?;
        self.claims.get(device)
    }

    /// Places in all, and how many of them are empty.
    pub(super) fn places_and_missing(&self) -> (u64, u64) {
        let places = self.truth().map_or(0, |claim| claim.places);
        (places, places.saturating_sub(self.filled.len() as u64))
    }

    /// True when what is empty may be so.
    pub(super) fn can_degrade(&self) -> bool {
        let (_, missing) = self.places_and_missing();
        self.truth().is_some_and(|claim| missing <= claim.spare_places)
    }

    /// Places that two devices claim.
    pub(super) fn twice(&self) -> impl Iterator<Item = u64> {
        self.filled.iter().filter(|(_, devices)| devices.len() > 1).map(|(place, _)| *place)
    }

    pub(super) fn devices(&self) -> impl Iterator<Item = DeviceNumber> {
        self.claims.keys().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

/// How many devices an array runs with, and how many of those it can lose besides. Nobody waits for
/// what had been thrown out when it last ran, as mdadm(8) does not.
pub(super) fn expected(level: i32, raid_disks: u32, working: u32) -> (u64, u64) {
    let (all, spare) = (u64::from(raid_disks), spare_places(level, raid_disks));
    let lost = u64::from(raid_disks.saturating_sub(working));
    // Which of its disks a raid10 can lose is a matter of its layout: half of them at most.
    let bearable = if level == 10 { all / 2 } else { spare };
    match lost <= bearable {
        true => (all - lost, spare.saturating_sub(lost)),
        false => (all, spare),
    }
}

/// How many devices an array of a level can lose; md(4).
fn spare_places(level: i32, raid_disks: u32) -> u64 {
    match level {
        1 => u64::from(raid_disks.saturating_sub(1)),
        4 | 5 | 10 => 1,
        6 => 2,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_what_was_thrown_out() {
        for (level, of, working, wanted) in [
            (1, 2, 2, (2, 1)),
            (1, 2, 1, (1, 0)),
            (5, 3, 2, (2, 0)),
            (5, 3, 1, (3, 1)),
            (6, 4, 3, (3, 1)),
            (10, 4, 2, (2, 0)),
            (0, 2, 1, (2, 0)),
            (1, 2, 0, (2, 1)),
        ] {
            assert_eq!(expected(level, of, working), wanted, "raid{level}, {working} of {of}");
        }
    }
}

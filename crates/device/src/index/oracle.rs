//! The same question answered the slow way: from what is there now, each group looked at whole.
//!
//! Nothing is kept and nothing is counted, so there is no order to get wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::decide::startable;
use super::*;
use crate::lvm::group::Standing;

/// All metadata texts there are, by what they are known by.
pub(super) type Texts = BTreeMap<TextKey, Arc<VolumeGroup>>;

/// What is compared: state, and the volumes that have all they lie on.
pub(super) type Answer = BTreeMap<GroupId, (GroupState, Vec<String>)>;

/// Every group of these devices.
pub(super) fn evaluate(devices: &[Device], texts: &Texts, policy: &Policy) -> Answer {
    let counting: Vec<&Device> = devices.iter().filter(|d| d.refusal(policy).is_none()).collect();
    let mut ids = BTreeSet::new();
    for device in &counting {
        match &device.role {
            Role::Lvm { texts: keys, .. } => {
                ids.extend(keys.iter().map(|key| GroupId::Lvm(texts[key].id)));
            }
            Role::Md(member) => drop(ids.insert(GroupId::Md(member.array))),
            Role::Btrfs { fsid, .. } => drop(ids.insert(GroupId::Btrfs(*fsid))),
            Role::Luks(uuid) => drop(ids.insert(GroupId::Luks(*uuid))),
            _ => {}
        }
    }
    let answer = |id: &GroupId| match *id {
        GroupId::Lvm(vg) => volume_group(vg, &counting, texts, policy),
        GroupId::Luks(uuid) if policy.crypttab.iter().any(|e| e.uuid == uuid) => {
            (GroupState::Complete, Vec::new())
        }
        GroupId::Luks(_) => (GroupState::Held(Hold::NotInCrypttab), Vec::new()),
        GroupId::Md(_) | GroupId::Btrfs(_) => (places(*id, &counting), Vec::new()),
    };
    ids.iter().map(|id| (*id, answer(id))).collect()
}

fn volume_group(
    vg: LvmId,
    devices: &[&Device],
    texts: &Texts,
    policy: &Policy,
) -> (GroupState, Vec<String>) {
    let carried = |device: &Device| match &device.role {
        Role::Lvm { pv, texts: keys, .. } => {
            let own = keys.iter().filter(|key| texts[key].id == vg).copied().collect::<Vec<_>>();
            Some((*pv, own, keys.is_empty()))
        }
        _ => None,
    };
    let carried: Vec<_> = devices.iter().filter_map(|device| carried(device)).collect();
    let keys: BTreeSet<TextKey> = carried.iter().flat_map(|(_, own, _)| own.clone()).collect();
    let newest = keys.iter().map(|key| texts[key].seqno).max().expect("some device carries it");
    let truths: Vec<_> = keys.iter().filter(|key| texts[key].seqno == newest).collect();
    let truth = &texts[truths[0]];
    let is_there =
        |pv: LvmId| carried.iter().any(|(p, own, bare)| *p == pv && (*bare || !own.is_empty()));
    let there: Vec<bool> = truth.members.iter().map(|member| is_there(member.id)).collect();
    let missing = there.iter().filter(|there| !**there).count() as u64;
    let standings = truth.standings(&|number| there[number as usize]);
    let complete = (0..standings.len()).filter(|&n| standings[n] == Standing::Complete);
    let twice =
        truth.members.iter().any(|m| carried.iter().filter(|(p, ..)| *p == m.id).count() > 1);
    let state = if truth.marks.exported {
        GroupState::Held(Hold::Exported)
    } else if truth.marks.shared {
        GroupState::Held(Hold::Shared)
    } else if !truth.system_id.is_empty() && !policy.system_ids.contains(&truth.system_id) {
        GroupState::Held(Hold::Foreign(truth.system_id.clone()))
    } else if truth.marks.no_auto_activation {
        GroupState::Held(Hold::NoAutoActivation)
    } else if !policy.event_activation {
        GroupState::Held(Hold::EventActivationOff)
    } else if truths.len() > 1 {
        GroupState::Held(Hold::TwoTruths)
    } else if missing > 0 {
        GroupState::Waiting { missing, of: there.len() as u64 }
    } else if twice && policy.hold_duplicates {
        GroupState::Held(Hold::Duplicates)
    } else {
        GroupState::Complete
    };
    (state, startable(truth, complete))
}

fn places(id: GroupId, devices: &[&Device]) -> GroupState {
    // (count of changes, place, places)
    let claim = |device: &Device| match &device.role {
        Role::Md(m) if id == GroupId::Md(m.array) => {
            let place = match m.role {
                crate::md::Role::Active(place) => Some(u64::from(place)),
                _ => None,
            };
            Some((m.events, place, expected(m.level, m.raid_disks, m.working).0, 1))
        }
        Role::Btrfs { fsid, devid, num_devices, generation } if id == GroupId::Btrfs(*fsid) => {
            Some((*generation, Some(*devid), *num_devices, u64::MAX))
        }
        _ => None,
    };
    let mut sorted: Vec<_> = devices.to_vec();
    sorted.sort_by_key(|device| device.number);
    let claims: Vec<_> = sorted.iter().filter_map(|device| claim(device)).collect();
    let newest = claims.iter().map(|claim| claim.0).max().expect("some device claims");
    let of = claims.iter().find(|claim| claim.0 == newest).expect("it was found").2;
    let current = claims.iter().filter(|claim| newest - claim.0 <= claim.3);
    let filled: BTreeSet<u64> = current.filter_map(|claim| claim.1).collect();
    match of.saturating_sub(filled.len() as u64) {
        0 => GroupState::Complete,
        missing => GroupState::Waiting { missing, of },
    }
}

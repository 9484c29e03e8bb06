//! A volume group as its metadata text describes it: members, volumes, and which of the members
//! each volume needs.

use std::collections::{BTreeMap, BTreeSet};

use super::LvmId;
use super::text::{Section, TextFault, parse};
use crate::bytes::printable;

/// Physical volumes in a group, at most.
pub const MEMBERS_MAX: usize = 65_536;

/// Logical volumes in a group, at most.
pub const VOLUMES_MAX: usize = 262_144;

/// A volume group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeGroup {
    /// Identifier (VGID): the key; names are not unique.
    pub id: LvmId,
    /// Name.
    pub name: String,
    /// Counts changes of the metadata; the highest is the truth.
    pub seqno: u64,
    /// The host that owns it; empty: any.
    pub system_id: String,
    /// What keeps it from being activated here, as far as the text alone tells.
    pub marks: Marks,
    /// Its physical volumes.
    pub members: Vec<Member>,
    /// Its logical volumes, hidden ones included.
    pub volumes: Vec<Volume>,
}

/// Marks of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Exported: belongs to no host (`vgexport`).
    pub exported: bool,
    /// `lock_type` or the old `CLUSTERED`: shared between hosts.
    pub shared: bool,
    /// Not to be activated by itself (`vgchange --setautoactivation n`).
    pub no_auto_activation: bool,
}

/// A physical volume of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Identifier (PVID).
    pub id: LvmId,
    /// Path it had when the text was written: for people.
    pub device_hint: String,
    /// Size of the device in bytes when the text was written.
    pub device_bytes: u64,
    /// lvm2 has written it off (`MISSING`): it was absent when the group was changed.
    pub written_off: bool,
}

/// A logical volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Name within the group.
    pub name: String,
    /// Identifier.
    pub id: Option<LvmId>,
    /// Not a hidden part of another one.
    pub visible: bool,
    /// May be activated by itself: neither `NOAUTOACTIVATE` nor `ACTIVATION_SKIP`.
    pub auto_activation: bool,
    /// Size in extents.
    pub extents: u64,
    /// What must be there, all of it: one entry for each segment, more for raid10.
    pub needs: Vec<Quorum>,
    /// What the snapshots of it lie on: lvm2 refuses to activate an origin while the store of one of its
    /// snapshots is absent, whose copy it would spoil.
    pub snapshots: Vec<Quorum>,
}

/// Legs of a segment, of which some can be absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quorum {
    /// Each leg needs all its parts.
    pub legs: Vec<Vec<Part>>,
    /// How many of the legs must be there when the volume may run degraded.
    pub needed: usize,
}

/// What a volume lies on; numbers count in [`VolumeGroup::members`] and
/// [`VolumeGroup::volumes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// A physical volume.
    Member(u32),
    /// Another volume of the group.
    Volume(u32),
}

/// Why a text describes no group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupFault {
    /// It is no text of the format.
    Text(TextFault),
    /// What every group has is missing or no valid value: its name tells which.
    Missing(&'static str),
    /// More members or volumes than [`MEMBERS_MAX`] and [`VOLUMES_MAX`].
    TooLarge,
    /// A physical volume is listed twice.
    TwiceInGroup(LvmId),
}

/// Makes a group of a metadata text.
pub fn from_text(text: &[u8]) -> Result<VolumeGroup, GroupFault> {
    let root = parse(text).map_err(GroupFault::Text)?;
    let (name, body) = root.sections().next().ok_or(GroupFault::Missing("volume group"))?;
    let (members, member_names) = members(body)?;
    Ok(VolumeGroup {
        id: id_of(body).ok_or(GroupFault::Missing("id"))?,
        name: group_name(name).ok_or(GroupFault::Missing("valid name"))?,
        seqno: body.number("seqno").ok_or(GroupFault::Missing("seqno"))?,
        system_id: printable(body.text("system_id").unwrap_or_default()),
        marks: marks(body),
        volumes: volumes(body, &member_names)?,
        members,
    })
}

/// lvm(8), "VALID NAMES": other characters never come from lvm2, and the name becomes a file
/// name and an argument.
fn group_name(name: &str) -> Option<String> {
    let valid = |b: u8| b.is_ascii_alphanumeric() || b"+_.-".contains(&b);
    let good = !name.starts_with('-') && !matches!(name, "" | "." | "..") && name.len() <= 127;
    (good && name.bytes().all(valid)).then(|| name.to_owned())
}

fn id_of(section: &Section<'_>) -> Option<LvmId> {
    LvmId::parse(section.text("id")?)
}

fn has_mark(section: &Section<'_>, field: &str, mark: &str) -> bool {
    section.texts(field).any(|text| text == mark)
}

fn marks(body: &Section<'_>) -> Marks {
    let lock = body.text("lock_type").unwrap_or("none");
    Marks {
        exported: has_mark(body, "status", "EXPORTED"),
        shared: !matches!(lock, "none" | "") || has_mark(body, "status", "CLUSTERED"),
        no_auto_activation: has_mark(body, "flags", "NOAUTOACTIVATE"),
    }
}

type Names<'a> = BTreeMap<&'a str, u32>;

fn members<'a>(body: &'a Section<'_>) -> Result<(Vec<Member>, Names<'a>), GroupFault> {
    let (mut members, mut names) = (Vec::new(), Names::new());
    let mut ids = BTreeSet::new();
    for (name, section) in body.section("physical_volumes").iter().flat_map(|s| s.sections()) {
        if members.len() == MEMBERS_MAX {
            return Err(GroupFault::TooLarge);
        }
        names.insert(name, members.len() as u32);
        let member = member(section).ok_or(GroupFault::Missing("id of a physical volume"))?;
        if !ids.insert(member.id) {
            return Err(GroupFault::TwiceInGroup(member.id));
        }
        members.push(member);
    }
    match members.is_empty() {
        true => Err(GroupFault::Missing("physical_volumes")),
        false => Ok((members, names)),
    }
}

fn member(section: &Section<'_>) -> Option<Member> {
    Some(Member {
        id: id_of(section)?,
        device_hint: printable(section.text("device").unwrap_or_default()),
        device_bytes: section.number("dev_size").unwrap_or(0).saturating_mul(512),
        written_off: has_mark(section, "flags", "MISSING"),
    })
}

fn volumes(body: &Section<'_>, members: &Names<'_>) -> Result<Vec<Volume>, GroupFault> {
    let Some(sections) = body.section("logical_volumes") else { return Ok(Vec::new()) };
    let names: Names<'_> =
        sections.sections().zip(0u32..).map(|((name, _), number)| (name, number)).collect();
    if sections.entries.len() > VOLUMES_MAX {
        return Err(GroupFault::TooLarge);
    }
    let find = |name: &str| {
        let member = members.get(name).copied().map(Part::Member);
        member.or_else(|| names.get(name).copied().map(Part::Volume))
    };
    let mut volumes: Vec<Volume> =
        sections.sections().map(|(name, section)| volume(name, section, &find)).collect();
    // A store has one origin: damaged metadata may name it often.
    let ties = sections.sections().flat_map(|(_, section)| snapshots(section, &find));
    tie_snapshots(&mut volumes, &ties.map(|tie| (tie.store, tie)).collect());
    Ok(volumes)
}

/// What makes a volume a snapshot of another one: a volume that nobody sees ties both.
struct Snapshot {
    /// The volume that holds the differences.
    store: u32,
    origin: u32,
    /// It goes back into its origin when that is activated, and is none by itself any more.
    merges: bool,
}

fn snapshots(
    section: &Section<'_>,
    find: &dyn Fn(&str) -> Option<Part>,
) -> impl Iterator<Item = Snapshot> {
    let one = move |segment: &Section<'_>, field: &str| match segment.texts(field).find_map(find)? {
        Part::Volume(number) => Some(number),
        Part::Member(_) => None,
    };
    let segments = section.sections().map(|(_, segment)| segment);
    segments.filter_map(move |segment| {
        let merging = one(segment, "merging_store");
        let store = one(segment, "cow_store").or(merging)?;
        Some(Snapshot { store, origin: one(segment, "origin")?, merges: merging.is_some() })
    })
}

/// Lets each origin and its snapshots need each other. A snapshot is known by its store, which is
/// not marked as visible.
fn tie_snapshots(volumes: &mut [Volume], by_store: &BTreeMap<u32, Snapshot>) {
    for tie in by_store.values() {
        let lies_on = volumes.get(tie.store as usize).map(|store| store.needs.clone());
        if let Some(origin) = volumes.get_mut(tie.origin as usize) {
            origin.snapshots.extend(lies_on.unwrap_or_default());
        }
    }
    for tie in by_store.values() {
        if let Some(store) = volumes.get_mut(tie.store as usize) {
            store.needs.push(all_of(vec![Part::Volume(tie.origin)]));
            store.visible = !tie.merges;
        }
    }
}

fn volume(name: &str, section: &Section<'_>, find: &dyn Fn(&str) -> Option<Part>) -> Volume {
    let is_segment = |(name, _): &(&str, &Section<'_>)| name.starts_with("segment");
    let segments = || section.sections().filter(is_segment).map(|(_, segment)| segment);
    let skipped = ["NOAUTOACTIVATE", "ACTIVATION_SKIP"];
    Volume {
        name: printable(name),
        id: id_of(section),
        // What ties a snapshot to its origin has the mark, and lvm2 shows it to nobody.
        visible: has_mark(section, "status", "VISIBLE")
            && !segments().any(|segment| segment.text("type") == Some("snapshot")),
        auto_activation: !skipped.iter().any(|mark| has_mark(section, "flags", mark)),
        extents: segments()
            .fold(0, |sum, s| s.number("extent_count").unwrap_or(0).saturating_add(sum)),
        needs: segments().flat_map(|segment| quorums(segment, find)).collect(),
        snapshots: Vec::new(),
    }
}

/// Names under which segments refer to physical volumes and other volumes, one each.
const SINGLE_REFERENCES: &[&str] = &[
    "cache_pool",
    "cow_store",
    "data",
    "external_origin",
    "meta_dev",
    "merging_store",
    "metadata",
    "mirror_log",
    "origin",
    "pool",
    "thin_pool",
    "vdo_pool",
    "writecache",
];

fn quorums(segment: &Section<'_>, find: &dyn Fn(&str) -> Option<Part>) -> Vec<Quorum> {
    let parts = |field: &str| -> Vec<Part> { segment.texts(field).filter_map(find).collect() };
    let singles = SINGLE_REFERENCES.iter().flat_map(|field| parts(field)).collect();
    let mut out = vec![all_of(singles)];
    out.push(all_of(parts("stripes")));
    // A copy lies on each of these; one is enough.
    let copies: Vec<Vec<Part>> = parts("mirrors").into_iter().map(|part| vec![part]).collect();
    out.push(Quorum { needed: copies.len().min(1), legs: copies });
    out.push(all_of(parts("raid0_lvs")));
    let copies = segment.number("data_copies").unwrap_or(2).clamp(2, 64) as usize;
    out.extend(raid(segment.text("type").unwrap_or_default(), copies, parts("raids")));
    out.retain(|quorum| !quorum.legs.is_empty());
    out
}

/// One leg that needs every part; no leg when there is none.
fn all_of(parts: Vec<Part>) -> Quorum {
    let legs: Vec<_> = if parts.is_empty() { Vec::new() } else { vec![parts] };
    Quorum { needed: legs.len(), legs }
}

/// Legs of a raid are pairs of a metadata and an image volume. lvmraid(7) says how many of them
/// each type can lose; raid10 keeps its copies on neighbours.
fn raid(kind: &str, copies: usize, parts: Vec<Part>) -> Vec<Quorum> {
    let legs: Vec<Vec<Part>> = parts.chunks(2).map(<[Part]>::to_vec).collect();
    let count = legs.len();
    let spare = match kind {
        "raid1" => count.saturating_sub(1),
        "raid10" | "raid10_near" => {
            let sets = legs.chunks(copies).map(<[_]>::to_vec);
            return sets.map(|legs| Quorum { legs, needed: 1 }).collect();
        }
        k if k.starts_with("raid6") => 2,
        k if k.starts_with("raid4") || k.starts_with("raid5") => 1,
        _ => 0,
    };
    vec![Quorum { needed: count.saturating_sub(spare), legs }]
}

/// What a group looks like when only some of its members are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Needs a member that is absent.
    Partial,
    /// Enough is there to run without redundancy.
    Degraded,
    /// All there.
    Complete,
}

impl VolumeGroup {
    /// Whether a member was taken for lost when the group was changed ([`Member::written_off`]) and
    /// volumes lie on it: one that nothing lies on lvm2 takes back by itself. Linear in the size of the
    /// group for members that were written off.
    pub fn is_written_off(&self, number: u32) -> bool {
        let lies_on_it = |volume: &Volume| volume.parts().any(|part| part == Part::Member(number));
        self.has_mark(number) && self.volumes.iter().any(lies_on_it)
    }

    fn has_mark(&self, member: u32) -> bool {
        self.members.get(member as usize).is_some_and(|member| member.written_off)
    }

    /// How each volume stands when `present` tells which members are there; one that was written
    /// off counts as lost though it is, as lvm2 does not use it. Linear in the size of the group.
    /// Volumes that lie on each other in a circle, which damaged metadata can say,
    /// are partial.
    pub fn standings(&self, present: &dyn Fn(u32) -> bool) -> Vec<Standing> {
        let present = |number: u32| present(number) && !self.has_mark(number);
        let mut known = vec![None; self.volumes.len()];
        let mut stack = Vec::new();
        for start in 0..self.volumes.len() as u32 {
            stack.push((start, false));
            while let Some((number, seen_parts)) = stack.pop() {
                let at = number as usize;
                if seen_parts {
                    known[at] = Some(standing(&self.volumes[at], &known, &present));
                } else if known[at].is_none() {
                    known[at] = Some(Standing::Partial);
                    stack.push((number, true));
                    stack.extend(self.volumes[at].volumes_below().map(|below| (below, false)));
                }
            }
        }
        known.into_iter().map(|k| k.expect("the loop starts at every volume")).collect()
    }
}

fn standing(
    volume: &Volume,
    known: &[Option<Standing>],
    present: &dyn Fn(u32) -> bool,
) -> Standing {
    let part = |part: &Part| match *part {
        Part::Member(number) if present(number) => Standing::Complete,
        Part::Member(_) => Standing::Partial,
        Part::Volume(number) => known[number as usize].unwrap_or(Standing::Partial),
    };
    let all = |parts: &Vec<Part>| parts.iter().map(part).min().unwrap_or(Standing::Complete);
    let quorum = |quorum: &Quorum| {
        let legs: Vec<Standing> = quorum.legs.iter().map(all).collect();
        let usable = legs.iter().filter(|&&leg| leg != Standing::Partial).count();
        match legs.iter().min() {
            None | Some(Standing::Complete) => Standing::Complete,
            _ if usable >= quorum.needed => Standing::Degraded,
            _ => Standing::Partial,
        }
    };
    volume.quorums().map(quorum).min().unwrap_or(Standing::Complete)
}

impl Volume {
    fn volumes_below(&self) -> impl Iterator<Item = u32> {
        self.all_parts().filter_map(|part| match part {
            Part::Volume(number) => Some(number),
            Part::Member(_) => None,
        })
    }

    fn quorums(&self) -> impl Iterator<Item = &Quorum> {
        self.needs.iter().chain(&self.snapshots)
    }

    /// Everything that must be there to activate it: what it lies on, and its snapshots do.
    pub fn all_parts(&self) -> impl Iterator<Item = Part> {
        self.quorums().flat_map(|quorum| quorum.legs.iter().flatten().copied())
    }

    /// Everything it lies on directly.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        self.needs.iter().flat_map(|quorum| quorum.legs.iter().flatten().copied())
    }
}

#[cfg(test)]
mod tests;

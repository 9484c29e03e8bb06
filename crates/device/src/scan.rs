//! One device, read once: what is on it.
//!
//! [`scan`] reads head and tail, asks every scanner, and decides by stated precedence what the
//! device is. Signatures that lost are kept in [`Scan::also`], faults in [`Scan::faults`]: a scan
//! says all it saw and fails only when the device cannot be read.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::btrfs::{self, BtrfsFault, BtrfsMember};
use crate::filesystem::{self, Filesystem, Kind};
use crate::firmware::{self, FirmwareRaid};
use crate::luks::{self, Luks};
use crate::lvm::area::{self, AreaFault, AreaState, TextKey};
use crate::lvm::group::{self, GroupFault, VolumeGroup};
use crate::lvm::label::{self, LabelFault, PvHeader};
use crate::md::{self, MdFault, MdMember, Version};
use crate::partition::{self, PartitionTable};
use crate::read::{HEAD_BYTES, Image, ReadAt, ReadError, Scratch};

/// What one device holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// Size of the device in bytes.
    pub size_bytes: u64,
    /// What it is.
    pub content: Content,
    /// What else it looks like: signatures left behind, or of what lies inside.
    pub also: Vec<Content>,
    /// What is damaged.
    pub faults: Vec<Fault>,
    /// How many reads it took: two, those of metadata texts behind the head, and six more where
    /// nothing is found.
    pub reads: u32,
}

/// What a device is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Nothing that is known here.
    Nothing,
    /// A member of an MD array.
    Md(MdMember),
    /// A disk of a firmware RAID.
    Firmware(FirmwareRaid),
    /// A disk with partitions.
    Partitions(PartitionTable),
    /// Encrypted.
    Luks(Luks),
    /// A physical volume.
    Lvm(LvmMember),
    /// A device of a btrfs file system.
    Btrfs(BtrfsMember),
    /// A file system of one device, or swap.
    Filesystem(Filesystem),
}

/// A physical volume of LVM2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LvmMember {
    /// Its header.
    pub header: PvHeader,
    /// Texts in its metadata areas, without repetition; empty when the PV has no area in use.
    pub texts: Vec<MetadataText>,
}

/// One metadata text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataText {
    /// What it is known by.
    pub key: TextKey,
    /// The group it describes; `None` when the caller knew the key and it was not read.
    pub group: Option<Arc<VolumeGroup>>,
}

impl Scan {
    /// The metadata texts that were read.
    pub fn texts_read(&self) -> Vec<(TextKey, Arc<VolumeGroup>)> {
        let Content::Lvm(member) = &self.content else { return Vec::new() };
        let read = |text: &MetadataText| Some((text.key, text.group.clone()?));
        member.texts.iter().filter_map(read).collect()
    }
}

/// Metadata texts that need not be read again.
#[derive(Debug, Clone, Default)]
pub struct KnownTexts(BTreeSet<TextKey>);

impl KnownTexts {
    /// True when the text was read before.
    pub fn contains(&self, key: TextKey) -> bool {
        self.0.contains(&key)
    }

    /// True when somebody asked before; whoever is told false reads the text.
    pub fn claim(&mut self, key: TextKey) -> bool {
        !self.0.insert(key)
    }

    /// Remembers the texts that a scan read.
    pub fn learn(&mut self, scan: &Scan) {
        self.0.extend(scan.texts_read().into_iter().map(|(key, _)| key));
    }
}

/// Something damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An LVM label.
    Label(LabelFault),
    /// A metadata area of LVM, counted from 0.
    Area(usize, AreaFault),
    /// The text of an area.
    Group(usize, GroupFault),
    /// An MD superblock.
    Md(Version, MdFault),
    /// A btrfs superblock.
    Btrfs(BtrfsFault),
}

/// Scans a device. `known` tells whether a metadata text is known already, and its caller wants no
/// second copy of it.
pub fn scan(
    source: &dyn ReadAt,
    scratch: &mut Scratch,
    known: &mut dyn FnMut(TextKey) -> bool,
) -> Result<Scan, ReadError> {
    let mut image = Image::load(source, scratch)?;
    // While an array runs, its kernel writes superblocks that the page cache does not see.
    if !matches!(md::find(&image), Ok(None)) && Image::refresh(source) {
        image = Image::load(source, scratch)?;
    }
    let mut faults = Vec::new();
    let mut found = signatures(&image, &mut faults);
    if let Some(header) = keep(label::find(image.head()), &mut faults, Fault::Label) {
        let texts = match found.first() {
            // Inside an array, a partitioned disk or an encrypted one the label is not ours.
            Some(
                Content::Md(_) | Content::Firmware(_) | Content::Partitions(_) | Content::Luks(_),
            ) => Vec::new(),
            _ => texts(&mut image, &header, known, &mut faults),
        };
        found.push(Content::Lvm(LvmMember { header, texts }));
        found.sort_by_key(rank);
    }
    if found.is_empty() {
        found.extend(far_header(&mut image).map(Content::Luks));
    }
    let mut found = found.into_iter();
    let content = found.next().unwrap_or(Content::Nothing);
    let (size_bytes, reads) = (image.size_bytes(), image.reads());
    Ok(Scan { size_bytes, content, also: found.collect(), faults, reads })
}

/// The second header of an encrypted device whose first one is lost, behind the head. Only where
/// nothing else is: it costs a read for each place.
fn far_header(image: &mut Image<'_>) -> Option<Luks> {
    let end = image.size_bytes().saturating_sub(luks::NAMING_BYTES as u64);
    let far = |place: &u64| *place >= HEAD_BYTES as u64 && *place < end;
    luks::SECOND_OFFSETS.into_iter().filter(far).find_map(|place| {
        let mut bytes = Vec::with_capacity(luks::NAMING_BYTES);
        // What cannot be read there is no header.
        image.append(place, luks::NAMING_BYTES, &mut bytes).ok()?;
        luks::second((&bytes, place))
    })
}

/// Everything but LVM, the strongest first.
fn signatures(image: &Image<'_>, faults: &mut Vec<Fault>) -> Vec<Content> {
    let head = image.head();
    let filesystems = filesystem::find(head);
    // A boot sector of FAT ends like a partition table.
    let is_fat = filesystems.iter().any(|f| f.kind == Kind::Vfat);
    let table = partition::find(head).filter(|_| !is_fat);
    let raid = keep(md::find(image), faults, |(version, fault)| Fault::Md(version, fault));
    let volume = keep(btrfs::find(head), faults, Fault::Btrfs);
    let is_left_over = |firmware: &FirmwareRaid| table.is_some_and(|t| firmware.offset < t.end);
    let container = firmware::find(image).filter(|found| !is_left_over(found));
    let belongs_to_partition =
        table.zip(raid.as_ref()).is_some_and(|(table, raid)| within(raid, &table, image));
    let mut found: Vec<Content> = raid.map(Content::Md).into_iter().collect();
    found.extend(table.map(Content::Partitions));
    if belongs_to_partition {
        found.reverse();
    }
    // Where it is, all else is on the arrays that are made of it. Asked last, as it costs a call.
    if let Some(container) = container.filter(|_| !image.is_partition()) {
        found.insert(0, Content::Firmware(container));
    }
    found.extend(luks::find(head).map(Content::Luks));
    found.extend(volume.map(Content::Btrfs));
    found.extend(filesystems.into_iter().map(Content::Filesystem));
    found
}

/// True when the superblock at the end of a disk lies in its last partition: with 0.90, which
/// does not say where it belongs, that partition is the member and not the disk.
fn within(raid: &MdMember, table: &PartitionTable, image: &Image<'_>) -> bool {
    let at = raid.version.offset(image.size_bytes()).unwrap_or(0);
    raid.version == Version::V090 && at < table.end
}

/// Precedence of what can be at the same time as a label of LVM. lvm2 believes its label whatever
/// file system is beside it.
fn rank(content: &Content) -> u8 {
    match content {
        Content::Md(_) | Content::Firmware(_) | Content::Partitions(_) | Content::Luks(_) => 0,
        Content::Lvm(_) => 1,
        Content::Btrfs(_) | Content::Filesystem(_) | Content::Nothing => 2,
    }
}

fn keep<T, E>(
    found: Result<Option<T>, E>,
    faults: &mut Vec<Fault>,
    fault: impl FnOnce(E) -> Fault,
) -> Option<T> {
    found.unwrap_or_else(|e| {
        faults.push(fault(e));
        None
    })
}

/// The committed texts of all areas. A second area usually repeats the first; after a write that
/// was cut short it may not, so each header is looked at.
fn texts(
    image: &mut Image<'_>,
    header: &PvHeader,
    known: &mut dyn FnMut(TextKey) -> bool,
    faults: &mut Vec<Fault>,
) -> Vec<MetadataText> {
    let mut out: Vec<MetadataText> = Vec::new();
    for (number, &place) in header.metadata_areas.iter().enumerate() {
        let location = match area::state(image, place) {
            Ok(AreaState::Text(location)) => location,
            Ok(AreaState::Empty | AreaState::Ignored) => continue,
            Err(fault) => {
                faults.push(Fault::Area(number, fault));
                continue;
            }
        };
        if out.iter().any(|text| text.key == location.key) {
            continue;
        }
        match known(location.key) {
            true => out.push(MetadataText { key: location.key, group: None }),
            false => match read_group(image, location, number) {
                Ok(group) => out.push(MetadataText { key: location.key, group: Some(group) }),
                Err(fault) => faults.push(fault),
            },
        }
    }
    out
}

fn read_group(
    image: &mut Image<'_>,
    location: area::Location,
    number: usize,
) -> Result<Arc<VolumeGroup>, Fault> {
    let text = area::read_text(image, location).map_err(|fault| Fault::Area(number, fault))?;
    let group = group::from_text(&text).map_err(|fault| Fault::Group(number, fault))?;
    Ok(Arc::new(group))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Label(fault) => write!(f, "LVM label: {}", label_fault(*fault)),
            Fault::Area(number, fault) => {
                write!(f, "LVM metadata area {number}: ")?;
                match fault {
                    AreaFault::Read(error) => error.fmt(f),
                    other => f.write_str(area_fault(*other)),
                }
            }
            Fault::Group(number, fault) => {
                write!(f, "LVM metadata area {number}: ")?;
                group_fault(*fault, f)
            }
            Fault::Md(version, fault) => {
                write!(f, "MD {} superblock: {}", version.as_str(), md_fault(*fault))
            }
            Fault::Btrfs(fault) => write!(f, "btrfs superblock: {}", btrfs_fault(*fault)),
        }
    }
}

fn label_fault(fault: LabelFault) -> &'static str {
    match fault {
        LabelFault::OtherSector => "it belongs to another sector",
        LabelFault::Checksum => "its checksum is wrong",
        LabelFault::Kind => "unknown kind",
        LabelFault::Header => "the header behind it is damaged",
    }
}

fn area_fault(fault: AreaFault) -> &'static str {
    match fault {
        AreaFault::OffDevice => "it lies beyond the end of the device",
        AreaFault::Header => "its header is damaged",
        AreaFault::HeaderChecksum => "the checksum of its header is wrong",
        AreaFault::Location => "its text lies outside of it",
        AreaFault::TextChecksum => "the checksum of its text is wrong",
        AreaFault::Read(_) => "it cannot be read",
    }
}

fn group_fault(fault: GroupFault, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match fault {
        GroupFault::Text(text) => write!(f, "byte {} of its text: {}", text.at, text.what),
        GroupFault::Missing(what) => write!(f, "its text has no {what}"),
        GroupFault::TooLarge => f.write_str("its text lists more than is possible"),
        GroupFault::TwiceInGroup(id) => write!(f, "its text lists {id} twice"),
    }
}

fn md_fault(fault: MdFault) -> &'static str {
    match fault {
        MdFault::Checksum => "its checksum is wrong",
        MdFault::OtherPlace => "it was written for another position",
        MdFault::Header => "it has an impossible number",
    }
}

fn btrfs_fault(fault: BtrfsFault) -> &'static str {
    match fault {
        BtrfsFault::OtherPlace => "it was written for another position",
        BtrfsFault::Checksum => "its checksum is wrong",
        BtrfsFault::Header => "it has an impossible number",
    }
}

#[cfg(test)]
mod tests;

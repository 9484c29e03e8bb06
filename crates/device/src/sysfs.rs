//! Block devices as sysfs and udev's database show them: what is there, and the facts that decide
//! whether a device is worth reading. Roots are paths, so that tests use a tree of their own. Whose
//! disk is only a path to another device, `stacked` tells.
//!
//! It looks at a device; it never opens one.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::index::{DeviceNumber, Facts, NotReady};
use crate::udev::Record;

mod stacked;

pub use stacked::parse_wwids;

/// Where the trees are.
#[derive(Debug, Clone)]
pub struct Roots {
    /// `/sys`.
    pub sys: PathBuf,
    /// `/run/udev`; need not be there.
    pub udev: PathBuf,
    /// `/dev`.
    pub dev: PathBuf,
    /// WWIDs of multipath maps, see [`parse_wwids`]: a disk with one of them is a path, even before
    /// its map is there.
    pub wwids: BTreeSet<String>,
}

impl Default for Roots {
    fn default() -> Roots {
        let wwids = BTreeSet::new();
        Roots { sys: "/sys".into(), udev: "/run/udev".into(), dev: "/dev".into(), wwids }
    }
}

/// Largest file of sysfs or of udev's database that is read, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// Most block devices that are looked at.
pub const DEVICES_MAX: usize = 131_072;

/// Most devices below a stacked one that are looked at.
const BELOW_MAX: usize = 4096;

/// A block device that is there, not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    /// Its number.
    pub number: DeviceNumber,
    /// See [`crate::index::Device::diskseq`].
    pub diskseq: u64,
    /// Kernel name.
    pub name: String,
    /// Path below `/sys`.
    pub path: String,
    /// Its node.
    pub node: PathBuf,
    /// Links and their priority.
    pub links: Vec<String>,
    /// Priority of the links.
    pub link_priority: i32,
    /// What decides whether it counts.
    pub facts: Facts,
    /// udev has applied its rules to it.
    pub is_initialized: bool,
    /// What decides on its units.
    pub words: Words,
}

/// What the kernel and udev say of a device that concerns its units only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Words {
    /// udev gave it the tag that makes units.
    pub is_tagged: bool,
    /// `SYSTEMD_READY=0`
    pub is_held_back: bool,
    /// `SYSTEMD_WANTS=`
    pub wants: Vec<String>,
    /// `SYSTEMD_ALIAS=`, absolute paths.
    pub aliases: Vec<String>,
    /// `SYSTEMD_MOUNT_DEVICE_BOUND=`
    pub binds_mounts: bool,
    /// Identifier and name of a partition, where the kernel tells; else empty.
    pub partition: (String, String),
    /// Name that device-mapper gave it; else empty.
    pub mapper_name: String,
    /// Model and label, as udev found them.
    pub title: String,
    /// Kernel names of the devices that it lies on, in their order.
    pub lies_on: Vec<String>,
}

/// Names of all block devices, in the order of their names; none where the kernel knows no such
/// devices at all.
pub fn list(roots: &Roots) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let entries = match fs::read_dir(roots.sys.join("class/block")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(names),
        other => other?,
    };
    for entry in entries.take(DEVICES_MAX) {
        names.extend(entry?.file_name().into_string().ok());
    }
    names.sort_unstable();
    Ok(names)
}

/// Looks at one device. `None` when it went in the meantime.
pub fn look(roots: &Roots, name: &str) -> io::Result<Option<BlockDevice>> {
    let Some(path) = device_path(roots, name)? else { return Ok(None) };
    let dir = roots.sys.join(&path[1..]);
    let Some(uevent) = read_optional(&dir.join("uevent"))? else { return Ok(None) };
    let field = |key: &str| -> Option<&str> {
        uevent.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))
    };
    let part = |key: &str| field(key).and_then(|text| text.parse().ok());
    let (Some(major), Some(minor)) = (part("MAJOR"), part("MINOR")) else { return Ok(None) };
    let number = DeviceNumber { major, minor };
    let record = database(roots, number)?;
    Ok(Some(BlockDevice {
        number,
        diskseq: field("DISKSEQ").and_then(|text| text.parse().ok()).unwrap_or(0),
        name: name.to_owned(),
        path,
        node: node(roots, field("DEVNAME").unwrap_or(name)),
        facts: facts(roots, &dir, name, &record)?,
        is_initialized: record.is_initialized,
        words: words(&dir, name, &record, field)?,
        links: record.links,
        link_priority: record.link_priority,
    }))
}

/// Where a device is below `/sys`: its link goes up to the top and down again.
fn device_path(roots: &Roots, name: &str) -> io::Result<Option<String>> {
    let target = match fs::read_link(roots.sys.join("class/block").join(name)) {
        Err(error) if is_gone(&error) => return Ok(None),
        other => other?,
    };
    let target = target.to_string_lossy();
    let plain = target.trim_start_matches("../");
    let is_inside = plain.split('/').all(|part| !matches!(part, "" | "." | ".."));
    Ok(is_inside.then(|| format!("/{plain}")))
}

/// A node stays below `/dev`; the kernel writes `!` for a slash within a name.
fn node(roots: &Roots, devname: &str) -> PathBuf {
    let plain = devname.split('/').all(|part| !matches!(part, "" | "." | ".."));
    roots.dev.join(if plain { devname } else { "null" })
}

fn database(roots: &Roots, number: DeviceNumber) -> io::Result<Record> {
    let path = roots.udev.join(format!("data/b{number}"));
    Ok(read_optional(&path)?.map_or_else(Record::default, |text| Record::parse(&text)))
}

fn words<'a>(
    dir: &Path,
    name: &str,
    record: &Record,
    field: impl Fn(&str) -> Option<&'a str>,
) -> io::Result<Words> {
    let list = |key: &str| -> Vec<String> {
        record.get(key).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let kernel = |key: &str| field(key).unwrap_or_default().to_owned();
    let mapper_name = match name.starts_with("dm-") {
        true => read_optional(&dir.join("dm/name"))?.unwrap_or_default().trim().to_owned(),
        false => String::new(),
    };
    Ok(Words {
        is_tagged: record.tags.iter().any(|tag| tag == crate::others::TAG),
        is_held_back: record.get("SYSTEMD_READY") == Some("0"),
        wants: list("SYSTEMD_WANTS"),
        aliases: list("SYSTEMD_ALIAS").into_iter().filter(|a| a.starts_with('/')).collect(),
        binds_mounts: record.get("SYSTEMD_MOUNT_DEVICE_BOUND").is_some_and(is_true),
        partition: (kernel("PARTUUID"), kernel("PARTNAME")),
        mapper_name,
        title: title(record),
        lies_on: below(dir)?,
    })
}

/// A boolean as systemd.syntax(7) has it.
fn is_true(word: &str) -> bool {
    ["1", "yes", "y", "true", "t", "on"].iter().any(|yes| word.eq_ignore_ascii_case(yes))
}

/// The model, and the label of what is on it or of its place in a table of partitions.
fn title(record: &Record) -> String {
    let first = |keys: &[&str]| keys.iter().find_map(|key| record.get(key));
    let model = first(&["ID_MODEL_FROM_DATABASE", "ID_MODEL"]);
    let label = first(&["ID_FS_LABEL", "ID_PART_ENTRY_NAME", "ID_PART_ENTRY_NUMBER"]);
    model.into_iter().chain(label).collect::<Vec<_>>().join(" ")
}

/// The devices that a stacked one lies on, by name.
fn below(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(dir.join("slaves")) {
        Err(error) if is_gone(&error) => return Ok(Vec::new()),
        other => other?,
    };
    let names = entries.flatten().take(BELOW_MAX);
    let mut names: Vec<String> =
        names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}

fn facts(roots: &Roots, dir: &Path, name: &str, record: &Record) -> io::Result<Facts> {
    let is = |key: &str, value: &str| record.get(key) == Some(value);
    let dm_uuid = match name.starts_with("dm-") {
        true => read_optional(&dir.join("dm/uuid"))?.unwrap_or_default().trim().to_owned(),
        false => String::new(),
    };
    Ok(Facts {
        multipath_path: is("DM_MULTIPATH_DEVICE_PATH", "1") || stacked::is_path(roots, dir)?,
        others_disabled: is("DM_UDEV_DISABLE_OTHER_RULES_FLAG", "1"),
        held_by: stacked::holder(roots, dir)?,
        // udev holds parts of a btrfs back until all are there; which are missing is to be told.
        not_ready: not_ready(dir, name, is("SYSTEMD_READY", "0") && !is("ID_FS_TYPE", "btrfs"))?,
        dm_uuid,
    })
}

/// Whether the kernel has mounted a btrfs with this device as a part: `/sys/fs/btrfs` has a
/// directory for each file system that is mounted.
pub fn is_mounted_btrfs(roots: &Roots, uuid: &str, name: &str) -> bool {
    roots.sys.join("fs/btrfs").join(uuid).join("devices").join(name).exists()
}

/// Whether a device holds anything yet, in the way of its driver.
fn not_ready(dir: &Path, name: &str, rules_say: bool) -> io::Result<Option<NotReady>> {
    let text = |file: &str| read_optional(&dir.join(file));
    let is_partition = || dir.join("partition").exists();
    if name.starts_with("loop") && !is_partition() && text("loop/backing_file")?.is_none() {
        return Ok(Some(NotReady::LoopEmpty));
    }
    if name.starts_with("md") && !is_partition() {
        let state = text("md/array_state")?.unwrap_or_default();
        if matches!(state.trim(), "" | "clear" | "inactive") {
            return Ok(Some(NotReady::ArrayInactive));
        }
    }
    if name.starts_with("dm-") && text("dm/suspended")?.is_some_and(|s| s.trim() == "1") {
        return Ok(Some(NotReady::MapperSuspended));
    }
    if text("size")?.is_some_and(|size| size.trim() == "0") {
        return Ok(Some(NotReady::NoMedium));
    }
    Ok(rules_say.then_some(NotReady::Rules))
}

fn is_gone(error: &io::Error) -> bool {
    use warren_sys::errno::ENODEV;
    let kinds = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
    kinds.contains(&error.kind()) || error.raw_os_error() == Some(ENODEV)
}

/// A small file; `None` when it is not there or its device went. Of a longer one, the beginning.
pub(crate) fn read_optional(path: &Path) -> io::Result<Option<String>> {
    use io::Read;
    let mut text = Vec::new();
    let read =
        fs::File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut text));
    match read {
        Ok(_) => Ok(Some(String::from_utf8_lossy(&text).into_owned())),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;

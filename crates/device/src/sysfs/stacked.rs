//! Which disks are only ways to another device: legs of an array, paths of a multipath map. What
//! holds a whole disk holds its partitions, too: the kernel shows them on each path and leg.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use super::{Roots, is_gone, read_optional};
use crate::index::Holder;

/// What is stacked on a device, from the names and identifiers of its holders.
pub(super) fn holder(roots: &Roots, dir: &Path) -> io::Result<Holder> {
    let own = holder_of(roots, dir)?;
    match whole_disk(dir).filter(|_| own == Holder::None) {
        Some(disk) => holder_of(roots, disk),
        None => Ok(own),
    }
}

fn holder_of(roots: &Roots, dir: &Path) -> io::Result<Holder> {
    let entries = match fs::read_dir(dir.join("holders")) {
        Err(error) if is_gone(&error) => return Ok(Holder::None),
        other => other?,
    };
    for entry in entries {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        if name.starts_with("md") {
            return Ok(Holder::Raid);
        }
        let uuid = roots.sys.join("class/block").join(&name).join("dm/uuid");
        if name.starts_with("dm-")
            && read_optional(&uuid)?.is_some_and(|id| id.starts_with("mpath-"))
        {
            return Ok(Holder::Multipath);
        }
    }
    Ok(Holder::None)
}

/// The directory of the disk that a partition is of.
fn whole_disk(dir: &Path) -> Option<&Path> {
    dir.parent().filter(|_| dir.join("partition").exists())
}

/// Whether multipath(8) has put the disk's WWID on its list.
pub(super) fn is_path(roots: &Roots, dir: &Path) -> io::Result<bool> {
    if roots.wwids.is_empty() {
        return Ok(false);
    }
    let disk = whole_disk(dir).unwrap_or(dir);
    // Of a SCSI disk the driver knows it, of an NVMe one the disk itself.
    for file in ["device/wwid", "wwid"] {
        if let Some(text) = read_optional(&disk.join(file))? {
            return Ok(roots.wwids.contains(&*as_multipath_says(text.trim())));
        }
    }
    Ok(false)
}

/// The kernel's word for an identifier in multipath's: of SCSI the kind is a digit, and runs of
/// blanks are one line below; scsi_id(8).
fn as_multipath_says(wwid: &str) -> Cow<'_, str> {
    let kinds = [("naa.", "3"), ("eui.", "2"), ("t10.", "1")];
    let kind = kinds.iter().find_map(|(word, digit)| Some((wwid.strip_prefix(word)?, digit)));
    // An EUI of NVMe has more digits than one of SCSI, and keeps its word.
    match kind.filter(|(id, digit)| **digit != "2" || id.len() == SCSI_EUI_DIGITS) {
        Some((id, digit)) => {
            let words: Vec<&str> = id.split_whitespace().collect();
            format!("{digit}{}", words.join("_")).into()
        }
        None => wwid.into(),
    }
}

/// Hexadecimal digits of an EUI-64.
const SCSI_EUI_DIGITS: usize = 16;

/// The identifiers in `/etc/multipath/wwids`: one a line between slashes, behind remarks; multipath(8).
pub fn parse_wwids(text: &str) -> BTreeSet<String> {
    let lines = text.lines().map(str::trim);
    let ids = lines.filter_map(|line| line.strip_prefix('/')?.strip_suffix('/'));
    ids.filter(|id| !id.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_told_as_multipath_tells_them() {
        for (kernel, multipath) in [
            ("naa.600140512345", "3600140512345"),
            ("eui.0025385b71b07e2f", "20025385b71b07e2f"),
            ("eui.0025385b71b07e2f0025385b71b07e2f", "eui.0025385b71b07e2f0025385b71b07e2f"),
            ("t10.ATA     DISK  ONE      SN1", "1ATA_DISK_ONE_SN1"),
            ("nvme.8086-51-44-1", "nvme.8086-51-44-1"),
            ("", ""),
        ] {
            assert_eq!(as_multipath_says(kernel), multipath);
        }
    }
}

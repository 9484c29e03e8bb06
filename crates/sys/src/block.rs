//! Block devices by number.

use std::fs;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{Advice, fadvise};

use crate::error::{Context, Result};

/// Number of the whole disk that the node at `path` is for: a partition's is that of its disk.
/// None where there is no such block device.
pub fn disk_of(path: &str) -> Option<(u32, u32)> {
    let metadata = fs::metadata(path).ok().filter(|m| m.file_type().is_block_device())?;
    let number = metadata.rdev();
    let device = (rustix::fs::major(number), rustix::fs::minor(number));
    whole_disk(Path::new("/sys/dev/block"), device)
}

/// The kernel's name of the block device that the node at `path` is for, as in `/sys/class/block`:
/// nodes of the device-mapper are called otherwise. None where there is no such block device.
pub fn name_of(path: &str) -> Option<String> {
    let metadata = fs::metadata(path).ok().filter(|m| m.file_type().is_block_device())?;
    let number = metadata.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

/// True for what stat(2) says of a block device that is a part of a disk.
pub fn is_partition(found: &fs::Metadata) -> bool {
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    found.file_type().is_block_device()
        && Path::new(&format!("/sys/dev/block/{major}:{minor}/partition")).exists()
}

/// Lets go of what the page cache has of these bytes of a block device, unless somebody is writing
/// them: what the kernel itself writes to a disk, the superblock of an array for one, passes it by.
pub fn drop_cached(file: impl AsFd, offset: u64, bytes: u64) -> Result<()> {
    let length = NonZeroU64::new(bytes);
    fadvise(file, offset, length, Advice::DontNeed).call("posix_fadvise")
}

/// A partition's directory in sysfs lies in its disk's.
fn whole_disk(sys: &Path, (major, minor): (u32, u32)) -> Option<(u32, u32)> {
    let node = fs::canonicalize(sys.join(format!("{major}:{minor}"))).ok()?;
    if !node.join("partition").exists() {
        return Some((major, minor));
    }
    let text = fs::read_to_string(node.parent()?.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_has_the_number_of_its_disk() {
        let root = std::env::temp_dir().join(format!("warren-block-{}", std::process::id()));
        let disk = root.join("devices/sda");
        fs::create_dir_all(disk.join("sda1")).expect("a directory");
        fs::create_dir_all(root.join("block")).expect("a directory");
        fs::write(disk.join("dev"), "8:0\n").expect("a file");
        fs::write(disk.join("sda1/partition"), "1\n").expect("a file");
        for (number, to) in [("8:0", "../devices/sda"), ("8:1", "../devices/sda/sda1")] {
            std::os::unix::fs::symlink(to, root.join("block").join(number)).expect("a link");
        }
        let sys = root.join("block");
        let found = [(8, 0), (8, 1), (8, 2)].map(|device| whole_disk(&sys, device));
        fs::remove_dir_all(&root).expect("it is there");
        assert_eq!(found, [Some((8, 0)), Some((8, 0)), None]);
        let null = fs::metadata("/dev/null").expect("a node");
        assert!(!is_partition(&null));
        assert_eq!((disk_of("/dev/null"), name_of("/dev/null")), (None, None));
    }
}

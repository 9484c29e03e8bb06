//! Symbolic links below `/dev`, where no udev makes them: `disk/by-uuid/...` and its like. Names of
//! volumes are made by device-mapper's own programs and left to them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use crate::index::DeviceNumber;

/// What may be made: links in these directories and no others.
const DIRECTORIES: &str = "disk/by-";

/// The links that there are, and who claims them: of several, the lowest number has it.
#[derive(Debug, Default)]
pub(super) struct Links {
    claims: BTreeMap<String, BTreeMap<DeviceNumber, String>>,
    of: BTreeMap<DeviceNumber, BTreeSet<String>>,
}

impl Links {
    /// Makes the links of a device those of `names` (`/dev/...`); returns what went wrong.
    pub(super) fn keep<'a>(
        &mut self,
        dev: &Path,
        number: DeviceNumber,
        node: &str,
        names: impl Iterator<Item = &'a str>,
    ) -> Vec<String> {
        let wanted = names.filter_map(|name| name.strip_prefix("/dev/"));
        let wanted: BTreeSet<String> =
            wanted.filter(|link| link.starts_with(DIRECTORIES)).map(str::to_owned).collect();
        let had = self.of.insert(number, wanted.clone()).unwrap_or_default();
        let mut troubles = Vec::new();
        for link in had.difference(&wanted) {
            self.unclaim(link, number);
            troubles.extend(self.settle(dev, link));
        }
        for link in wanted.difference(&had) {
            self.claims.entry(link.clone()).or_default().insert(number, node.to_owned());
            troubles.extend(self.settle(dev, link));
        }
        troubles
    }

    /// The device went.
    pub(super) fn drop_all(&mut self, dev: &Path, number: DeviceNumber) -> Vec<String> {
        let had = self.of.remove(&number).unwrap_or_default();
        let mut troubles = Vec::new();
        for link in had {
            self.unclaim(&link, number);
            troubles.extend(self.settle(dev, &link));
        }
        troubles
    }

    fn unclaim(&mut self, link: &str, number: DeviceNumber) {
        if let Some(claims) = self.claims.get_mut(link) {
            claims.remove(&number);
        }
    }

    /// Makes one link lead where it should, or away with it.
    fn settle(&mut self, dev: &Path, link: &str) -> Option<String> {
        let owner = self.claims.get(link).and_then(|claims| claims.values().next());
        let at = dev.join(link);
        let done = match owner {
            Some(node) => point(&at, &format!("../../{node}")),
            None => {
                self.claims.remove(link);
                match fs::remove_file(&at) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                    _ => Ok(()),
                }
            }
        };
        done.err().map(|error| format!("{}: {error}", at.display()))
    }
}

/// Replaces a link in one step: nobody ever finds none.
fn point(at: &Path, target: &str) -> io::Result<()> {
    if fs::read_link(at).is_ok_and(|old| old == Path::new(target)) {
        return Ok(());
    }
    if let Some(directory) = at.parent() {
        fs::create_dir_all(directory)?;
    }
    let fresh = at.with_file_name(".warren-new");
    let _ = fs::remove_file(&fresh);
    std::os::unix::fs::symlink(target, &fresh)?;
    fs::rename(&fresh, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(minor: u32) -> DeviceNumber {
        DeviceNumber { major: 8, minor }
    }

    #[test]
    fn a_link_leads_to_the_first_that_claims_it_and_goes_with_the_last() {
        let dev = std::env::temp_dir().join(format!("warren-links-{}", std::process::id()));
        let mut links = Links::default();
        let target = || fs::read_link(dev.join("disk/by-uuid/x")).ok();
        let x = || ["/dev/disk/by-uuid/x", "/dev/sdb", "/dev/vg/lv"].into_iter();
        assert!(links.keep(&dev, number(16), "sdb", x()).is_empty());
        assert_eq!(target().as_deref(), Some(Path::new("../../sdb")));
        assert!(links.keep(&dev, number(0), "sda", x()).is_empty());
        assert_eq!(target().as_deref(), Some(Path::new("../../sda")));
        assert!(links.keep(&dev, number(0), "sda", ["/dev/sda"].into_iter()).is_empty());
        assert_eq!(target().as_deref(), Some(Path::new("../../sdb")));
        assert!(links.drop_all(&dev, number(16)).is_empty());
        assert_eq!(target(), None);
        assert!(!dev.join("vg").exists(), "only links of disk/by-* are made");
        fs::remove_dir_all(&dev).expect("it was made here");
    }
}

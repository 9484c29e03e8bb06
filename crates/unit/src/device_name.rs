//! Names of devices: the links that tags of file systems stand for, and names of device units that no
//! device can have, because a hyphen was not escaped.

use std::fmt::Write;

use crate::escape::path_unescape;
use crate::name::{UnitName, UnitType};

/// Directories of links below `/dev/disk`, by the end of their names; udev(7). There are no
/// directories within them.
const DIRECTORIES: [&str; 7] = ["diskseq", "id", "label", "partlabel", "partuuid", "path", "uuid"];

/// The link that udev makes for `UUID=` and its like (mount(8), udev(7)); `None` if it is no such tag.
/// Characters that a link cannot have are written `\x20`.
pub fn link_of_tag(what: &str) -> Option<String> {
    const TAGS: [&str; 5] = ["UUID", "LABEL", "PARTUUID", "PARTLABEL", "ID"];
    let (tag, value) = what.split_once('=').filter(|(tag, _)| TAGS.contains(tag))?;
    let mut link = format!("/dev/disk/by-{}/", tag.to_lowercase());
    for c in value.trim_matches(['"', '\'']).chars() {
        match c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c) || !c.is_ascii() {
            true => link.push(c),
            false => {
                let _ = write!(link, "\\x{:02x}", u32::from(c));
            }
        }
    }
    Some(link)
}

/// The unit that was meant by the name of a device unit that no device can have: a `-` stands for a
/// slash, and one that is part of a name is written `\x2d` (systemd.unit(5)).
pub fn meant(name: &UnitName) -> Option<UnitName> {
    if name.unit_type() != UnitType::Device {
        return None;
    }
    let path = path_unescape(name.stem()).ok()?;
    let below = path.strip_prefix("/dev/disk/by")?;
    // `by-uuid/` was written right, `by/uuid/` was not.
    let (directory, rest) = below.strip_prefix(['-', '/'])?.split_once('/')?;
    let is_fine = below.starts_with('-') && !rest.contains('/');
    if is_fine || !DIRECTORIES.contains(&directory) {
        return None;
    }
    let path = format!("/dev/disk/by-{directory}/{}", rest.replace('/', "-"));
    UnitName::for_path(&path, UnitType::Device).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: Option<&str>) {
        let name = UnitName::parse(name).expect("a name");
        assert_eq!(meant(&name).map(|meant| meant.to_string()), expected.map(str::to_owned));
    }

    #[test]
    fn a_tag_is_the_link_that_udev_makes_of_it() {
        let links = [
            ("UUID=12AB-34cd", Some("/dev/disk/by-uuid/12AB-34cd")),
            ("LABEL=my disk", Some("/dev/disk/by-label/my\\x20disk")),
            ("PARTLABEL=\"a/b\"", Some("/dev/disk/by-partlabel/a\\x2fb")),
            ("/dev/sda", None),
            ("x=y", None),
        ];
        for (what, link) in links {
            assert_eq!(link_of_tag(what).as_deref(), link, "{what}");
        }
    }

    #[test]
    fn a_hyphen_that_is_no_slash_is_escaped() {
        let right = "dev-disk-by\\x2duuid-12\\x2d34.device";
        check("dev-disk-by-uuid-12-34.device", Some(right));
        check("dev-disk-by\\x2duuid-12-34.device", Some(right));
        check("dev-disk-by-uuid-12\\x2d34.device", Some(right));
        check(right, None);
        check("dev-disk-by-label-home.device", Some("dev-disk-by\\x2dlabel-home.device"));
        for other in ["dev-sda.device", "dev-vg-lv.device", "dev-disk-by-x-y.device", "a.service"] {
            check(other, None);
        }
    }
}

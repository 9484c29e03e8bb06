//! The names below `/dev` that a device has without udev. Pure.
//!
//! They are those that fstab(5) leads to: by file system identifier and label, by partition
//! identifier and label, and the names of device-mapper. How a label becomes a name is udev's
//! documented encoding (`ID_FS_LABEL_ENC`): what is not plain is written as `\xHH`.

use crate::scan::{Content, Scan};

/// Most bytes of one name; a file name has no more.
const NAME_BYTES_MAX: usize = 255;

/// Links, without `/dev/`, that follow from what is on a device.
pub fn by_content(scan: &Scan) -> Vec<String> {
    let (uuid, label) = match &scan.content {
        Content::Filesystem(found) => (found.uuid.clone(), found.label.as_str()),
        Content::Luks(luks) => (luks.uuid.to_string(), luks.label.as_str()),
        Content::Btrfs(member) => (member.fsid.to_string(), member.label.as_str()),
        _ => return Vec::new(),
    };
    links(&[("by-uuid", &uuid), ("by-label", label)])
}

/// Links that the kernel's own words about a partition lead to.
pub fn by_partition(uuid: &str, name: &str) -> Vec<String> {
    links(&[("by-partuuid", uuid), ("by-partlabel", name)])
}

fn links(pairs: &[(&str, &str)]) -> Vec<String> {
    let link = |(directory, text): &(&str, &str)| {
        let name = encode(text)?;
        Some(format!("disk/{directory}/{name}"))
    };
    pairs.iter().filter_map(link).collect()
}

/// Names of a device-mapper device: its own, and for a logical volume its group's and its own.
pub fn by_mapper(name: &str, uuid: &str) -> Vec<String> {
    let Some(plain) = encode(name) else { return Vec::new() };
    let mut out = vec![format!("mapper/{plain}")];
    if uuid.starts_with("LVM-")
        && let Some((group, volume)) = split_mapper(name)
        && let (Some(group), Some(volume)) = (encode(&group), encode(&volume))
    {
        out.push(format!("{group}/{volume}"));
    }
    out
}

/// `vg--a-lv` is volume `lv` of group `vg-a`: lvm(8) doubles hyphens within names. A name with
/// more parts is of a volume's inner layer, which nobody mounts.
fn split_mapper(name: &str) -> Option<(String, String)> {
    let marked = name.replace("--", "\0");
    let (group, volume) = marked.split_once('-')?;
    (!volume.contains('-')).then(|| (group.replace('\0', "-"), volume.replace('\0', "-")))
}

/// A text as one file name; `None` for what can be none.
fn encode(text: &str) -> Option<String> {
    let mut out = String::new();
    for c in text.chars() {
        let is_plain = c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c) || !c.is_ascii();
        match is_plain && !c.is_control() {
            true => out.push(c),
            false => {
                let mut bytes = [0; 4];
                let bytes = c.encode_utf8(&mut bytes).bytes();
                out.extend(bytes.map(|byte| format!("\\x{byte:02x}")));
            }
        }
    }
    (!matches!(out.as_str(), "" | "." | "..") && out.len() <= NAME_BYTES_MAX).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_one_plain_name_or_none() {
        for (text, expected) in [
            ("root", Some("root")),
            ("my disk", Some("my\\x20disk")),
            ("../../etc/passwd", Some("..\\x2f..\\x2fetc\\x2fpasswd")),
            ("a\\x20b", Some("a\\x5cx20b")),
            ("größe", Some("größe")),
            ("a\nb\u{85}", Some("a\\x0ab\\xc2\\x85")),
            ("", None),
            ("..", None),
        ] {
            assert_eq!(encode(text).as_deref(), expected, "{text}");
        }
        assert_eq!(encode(&"x".repeat(256)), None);
    }

    #[test]
    fn a_volume_has_the_names_that_lvm_gives_it() {
        for (name, uuid, expected) in [
            ("vg-lv", "LVM-x", "mapper/vg-lv vg/lv"),
            ("my--vg-a--b", "LVM-x", "mapper/my--vg-a--b my-vg/a-b"),
            ("vg-pool-tpool", "LVM-x-tpool", "mapper/vg-pool-tpool"),
            ("home", "CRYPT-LUKS2-x-home", "mapper/home"),
            ("..", "LVM-x", ""),
        ] {
            assert_eq!(by_mapper(name, uuid).join(" "), expected, "{name}");
        }
    }
}

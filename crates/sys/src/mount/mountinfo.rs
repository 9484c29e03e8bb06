//! `/proc/self/mountinfo`, pure: proc_pid_mountinfo(5).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use super::{Mount, MountDelta};
use crate::text::unescape_octal;

/// The mounts of a mountinfo text, in its order. Damaged lines are skipped.
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

/// The same, each with the options of the mount and of its file system.
pub fn parse_with_options(text: &str) -> Vec<(Mount, String)> {
    let options = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let (own, super_) = (left.split(' ').nth(5)?, right.split(' ').nth(2)?);
        Some(joined(own.split(','), super_))
    };
    let line = |line: &str| Some((parse_line(line)?, options(line).unwrap_or_default()));
    text.lines().filter_map(line).collect()
}

/// Options of a mount and then those of its file system, as mount(8) shows them: that nothing can be written is said
/// once, and first, whoever says it.
pub fn joined<'o>(own: impl Iterator<Item = &'o str>, of_file_system: &str) -> String {
    let own: Vec<&str> = own.collect();
    let is_access = |option: &str| matches!(option, "ro" | "rw");
    let is_read_only = own.contains(&"ro") || of_file_system.split(',').any(|o| o == "ro");
    let access = if is_read_only { "ro" } else { "rw" };
    let all = own.iter().copied().chain(of_file_system.split(','));
    let rest = all.filter(|option| !option.is_empty() && !is_access(option));
    let options: Vec<&str> = std::iter::once(access).chain(rest).collect();
    unescape_octal(&options.join(","))
}

/// `36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw`: any number of fields may
/// stand before the hyphen.
fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ');
    let id = left.next()?.parse().ok()?;
    let parent = left.next()?.parse().ok()?;
    let mount_point = unescape_octal(left.nth(2)?);
    let mut right = right.split(' ');
    let fstype = unescape_octal(right.next()?);
    let source = right.next().map(unescape_octal).filter(|s| !s.is_empty());
    let source = source.unwrap_or_else(|| "none".to_owned());
    Some(Mount { id, parent, mount_point, source, fstype })
}

/// The mount points of a mountinfo text that are at or below one of these directories. The other lines, of which there
/// may be thousands, are not taken apart.
pub fn points_below(text: &str, directories: &[&Path]) -> Vec<String> {
    let tops = directories.iter().map(|path| path.to_string_lossy());
    let tops: Vec<String> = tops.map(|top| top.trim_end_matches('/').to_owned()).collect();
    let is_below = |point: &str| {
        let rests = tops.iter().filter_map(|top| point.strip_prefix(top.as_str()));
        rests.into_iter().any(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let points = text.lines().filter_map(|line| line.split(' ').nth(4));
    let points = points.map(|point| match point.contains('\\') {
        true => Cow::Owned(unescape_octal(point)),
        false => Cow::Borrowed(point),
    });
    points.filter(|point| is_below(point)).map(Cow::into_owned).collect()
}

/// What changed between two tables. An id in both with another content was reused or moved: it
/// is among the added only.
pub fn diff(old: &BTreeMap<u64, Mount>, new: &BTreeMap<u64, Mount>) -> MountDelta {
    let gone = old.keys().filter(|id| !new.contains_key(id));
    let fresh = new.values().filter(|mount| old.get(&mount.id) != Some(mount));
    MountDelta { added: fresh.cloned().collect(), removed: gone.copied().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let text = match parse_line(line) {
            Some(m) => format!("{} {} {} {} {}", m.id, m.parent, m.mount_point, m.source, m.fstype),
            None => "none".to_owned(),
        };
        assert_eq!(text, expected, "{line}");
    }

    #[test]
    fn lines_are_parsed() {
        check("36 35 98:0 /m /mnt rw master:1 - ext3 /dev/root rw", "36 35 /mnt /dev/root ext3");
        check("1 1 0:1 / / rw - rootfs rootfs rw", "1 1 / rootfs rootfs");
        check("5 1 0:9 / /a\\040b rw a:1 b:2 c - fuse.x s\\011t rw", "5 1 /a b s\tt fuse.x");
        check("5 1 0:9 / /x rw - tmpfs  rw", "5 1 /x none tmpfs");
        check("5 1 0:9 / /x rw tmpfs tmpfs rw", "none");
        check("x 1 0:9 / /x rw - tmpfs t rw", "none");
        check("", "none");
    }

    #[test]
    fn options_of_mount_and_file_system_are_shown_together() {
        let line =
            |own: &str, rest: &str| format!("5 1 0:9 / /x {own} shared:7 - tmpfs x {rest}\n");
        for (own, rest, shown) in [
            ("rw,relatime", "rw,size=4k", "rw,relatime,size=4k"),
            ("ro,nosuid,relatime", "rw", "ro,nosuid,relatime"),
            ("rw,noatime", "ro,a=b\\040c", "ro,noatime,a=b c"),
            ("rw", "", "rw"),
        ] {
            let parsed = parse_with_options(&line(own, rest));
            assert_eq!(parsed.first().map(|(_, options)| options.as_str()), Some(shown));
        }
    }

    #[test]
    fn points_at_and_below_directories_are_found() {
        let points = ["/", "/a", "/a/x", "/ab", "/b\\040c/x", "/b\\040cd", "/b"];
        let lines = points.map(|point| format!("1 1 0:1 / {point} rw - tmpfs none rw\n"));
        let below = |top: &str| points_below(&lines.concat(), &[Path::new(top)]).join(" ");
        assert_eq!(below("/a"), "/a /a/x");
        assert_eq!(below("/b c"), "/b c/x");
        assert_eq!(below("/c"), "");
        assert_eq!(below("/"), "/ /a /a/x /ab /b c/x /b cd /b");
    }

    /// Tables as `id:place`, the delta as `+id:place -id`.
    #[track_caller]
    fn check_diff(old: &str, new: &str, expected: &str) {
        let table = |text: &str| -> BTreeMap<u64, Mount> {
            let mount = |entry: &str| {
                let (id, place) = entry.split_once(':').expect("id:place");
                let id = id.parse().expect("a number");
                let mount_point = place.to_owned();
                let (source, fstype) = (String::new(), String::new());
                (id, Mount { id, parent: 1, mount_point, source, fstype })
            };
            text.split_whitespace().map(mount).collect()
        };
        let delta = diff(&table(old), &table(new));
        let added = delta.added.iter().map(|m| format!("+{}:{}", m.id, m.mount_point));
        let removed = delta.removed.iter().map(|id| format!("-{id}"));
        assert_eq!(added.chain(removed).collect::<Vec<_>>().join(" "), expected);
    }

    #[test]
    fn tables_are_compared_by_id() {
        check_diff("1:/ 2:/a", "1:/ 2:/a", "");
        check_diff("1:/ 2:/a", "1:/ 3:/b", "+3:/b -2");
        check_diff("1:/ 2:/a", "1:/ 2:/b", "+2:/b");
        check_diff("", "1:/", "+1:/");
    }
}

//! What was started once: a record for each group below `/run/warren/devices`, so that a daemon that
//! takes another's place starts nothing again. What an administrator took down by hand stays down
//! until the group's disks have gone and come back, or the machine has.
//!
//! lvm2 has a file of its own for that, `vgs_online/NAME`, but by name, of which there may be two,
//! and only for whole groups. The executor writes the records; they are read before the sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::Path;

use crate::index::GroupId;
use crate::orders::is_lvm_name;

/// Records that are read, at most.
const RECORDS_MAX: usize = 100_000;

/// Longest record that is believed, in bytes: some 8,000 volumes with the longest of names.
const RECORD_BYTES_MAX: u64 = 1 << 20;

/// How much of a group was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StartRecord {
    /// All of it.
    pub whole: bool,
    /// What can run without the missing members.
    pub degraded: bool,
    /// These logical volumes.
    pub volumes: BTreeSet<String>,
}

impl StartRecord {
    /// Nothing was.
    pub fn is_empty(&self) -> bool {
        *self == StartRecord::default()
    }

    /// A line for each thing.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        out.extend(self.whole.then_some("whole\n"));
        out.extend(self.degraded.then_some("degraded\n"));
        out.extend(self.volumes.iter().map(|name| format!("volume {name}\n")));
        out
    }

    /// Reads a record; `None` for what is none.
    pub fn parse(text: &str) -> Option<StartRecord> {
        let mut begun = StartRecord::default();
        for line in text.lines() {
            match line.split_once(' ').unwrap_or((line, "")) {
                ("whole", "") => begun.whole = true,
                ("degraded", "") => begun.degraded = true,
                ("volume", name) if is_lvm_name(name) => {
                    begun.volumes.insert(name.to_owned());
                }
                _ => return None,
            }
        }
        (!begun.is_empty()).then_some(begun)
    }
}

/// All records of a directory; what is none, or cannot be read, is left out.
pub fn read(directory: &Path) -> BTreeMap<GroupId, StartRecord> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let record = |entry: fs::DirEntry| {
        let group = GroupId::parse(entry.file_name().to_str()?)?;
        let mut text = String::new();
        let file = fs::File::open(entry.path()).ok()?;
        file.take(RECORD_BYTES_MAX).read_to_string(&mut text).ok()?;
        Some((group, StartRecord::parse(&text)?))
    };
    entries.take(RECORDS_MAX).filter_map(record).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_comes_back_from_its_text() {
        let volumes = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        for (whole, degraded, names) in
            [(true, false, &[][..]), (false, true, &[]), (false, false, &["home", "swap-1"])]
        {
            let begun = StartRecord { whole, degraded, volumes: volumes(names) };
            assert_eq!(StartRecord::parse(&begun.to_text()), Some(begun));
        }
        for rubbish in ["", "\n", "whole now", "volume", "volume ../x", "volume a b", "else"] {
            assert_eq!(StartRecord::parse(rubbish), None, "{rubbish:?}");
        }
    }

    #[test]
    fn records_are_read_and_rubbish_beside_them_is_not() {
        let top = std::env::temp_dir().join(format!("warren-begun-{}", std::process::id()));
        fs::create_dir_all(top.join("vg:x")).expect("a directory");
        let group = "vg:abcdef-0123-4567-89AB-CDEF-ghij-klmno!";
        let array = "md:00112233-4455-6677-8899-aabbccddeeff";
        for (name, text) in [(group, "whole\n"), (array, "rubbish\n"), ("whole", "whole\n")] {
            fs::write(top.join(name), text).expect("a file");
        }
        let records = read(&top);
        let words: Vec<String> = records.keys().map(GroupId::to_string).collect();
        assert_eq!(words, [group]);
        fs::remove_dir_all(&top).expect("it is there");
        assert!(read(&top).is_empty());
    }
}

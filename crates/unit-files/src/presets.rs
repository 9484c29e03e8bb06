//! Preset policy files of a root (systemd.preset(5)).

use std::collections::BTreeMap;

use warren_unit::install::PresetRules;

use crate::root::{Root, entries};

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Directories of preset files, highest precedence first.
const DIRECTORIES: [&str; 5] = [
    "/etc/systemd/system-preset",
    "/run/systemd/system-preset",
    "/usr/local/lib/systemd/system-preset",
    "/lib/systemd/system-preset",
    "/usr/lib/systemd/system-preset",
];

/// Reads them all: by file name, of one name the highest directory's only.
pub fn read(root: &Root) -> PresetRules {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for path in DIRECTORIES {
        let Ok(directory) = root.directory(path) else { continue };
        for (name, _) in entries(&directory).unwrap_or_default() {
            if name.ends_with(".preset") && !files.contains_key(&name) {
                let bytes = root.read(&format!("{path}/{name}"), FILE_BYTES_MAX);
                files.insert(name, String::from_utf8_lossy(&bytes.unwrap_or_default()).into());
            }
        }
    }
    PresetRules::parse(files.values().map(String::as_str)).0
}

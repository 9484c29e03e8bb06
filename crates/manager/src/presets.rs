//! Preset policy files of this host (systemd.preset(5)).

use std::collections::BTreeMap;
use std::fs;

use warren_unit::install::PresetRules;

/// Directories of preset files, highest precedence first.
const DIRECTORIES: [&str; 5] = [
    "/etc/systemd/system-preset",
    "/run/systemd/system-preset",
    "/usr/local/lib/systemd/system-preset",
    "/lib/systemd/system-preset",
    "/usr/lib/systemd/system-preset",
];

/// Reads them all: by file name, of one name the highest directory's only.
pub fn read() -> PresetRules {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for directory in DIRECTORIES {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.ends_with(".preset") && !files.contains_key(&name) {
                files.insert(name, fs::read_to_string(entry.path()).unwrap_or_default());
            }
        }
    }
    PresetRules::parse(files.values().map(String::as_str)).0
}

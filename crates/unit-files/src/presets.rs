//! Preset policy files of a root (systemd.preset(5)).

use std::collections::BTreeMap;

use warren_unit::Scope;
use warren_unit::install::PresetRules;

use crate::root::{Root, entries};

/// Largest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Directories that have one of preset files, highest precedence first.
const DIRECTORIES: [&str; 5] =
    ["/etc/systemd", "/run/systemd", "/usr/local/lib/systemd", "/lib/systemd", "/usr/lib/systemd"];

/// Reads them all for the system's units.
pub fn read(root: &Root) -> PresetRules {
    read_for(root, Scope::System)
}

/// Reads them all: by file name, of one name the highest directory's only.
pub fn read_for(root: &Root, scope: Scope) -> PresetRules {
    let kind = match scope {
        Scope::System => "system-preset",
        Scope::User => "user-preset",
    };
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for path in DIRECTORIES.map(|directory| format!("{directory}/{kind}")) {
        let Ok(directory) = root.directory(&path) else { continue };
        for (name, _) in entries(&directory).unwrap_or_default() {
            if name.ends_with(".preset") && !files.contains_key(&name) {
                let bytes = root.read(&format!("{path}/{name}"), FILE_BYTES_MAX);
                files.insert(name, String::from_utf8_lossy(&bytes.unwrap_or_default()).into());
            }
        }
    }
    PresetRules::parse(files.values().map(String::as_str)).0
}

#[cfg(test)]
mod tests {
    use warren_unit::UnitName;
    use warren_unit::install::PresetAction;

    use super::*;

    #[test]
    fn users_have_presets_of_their_own() {
        let path = std::env::temp_dir().join(format!("warren-presets-{}", std::process::id()));
        for kind in ["system", "user"] {
            let directory = path.join(format!("etc/systemd/{kind}-preset"));
            std::fs::create_dir_all(&directory).expect("mkdir");
            std::fs::write(directory.join("1.preset"), format!("disable {kind}.service\n"))
                .expect("write");
        }
        let root = Root::open(&path).expect("a root");
        let disables = |scope: Scope, name: &str| {
            let name = UnitName::parse(name).expect("a valid name");
            read_for(&root, scope).action(&name) == PresetAction::Disable
        };
        assert!(disables(Scope::User, "user.service") && !disables(Scope::User, "system.service"));
        assert!(disables(Scope::System, "system.service"));
        assert!(!disables(Scope::System, "user.service"));
        std::fs::remove_dir_all(&path).expect("what the test made can be removed");
    }
}

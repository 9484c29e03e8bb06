//! The few units that every other one builds on (systemd.special(7)), for machines whose unit
//! directory has none of its own. They are weakest in the search path.

use std::fs;
use std::io;
use std::path::Path;

/// Where they lie inside.
pub const DIRECTORY: &str = "/run/warren/base";

/// Name, description, lines of `[Unit]`.
const UNITS: &[(&str, &str, &str)] = &[
    (
        "default.target",
        "Default",
        "Requires=basic.target\nAfter=basic.target\nWants=multi-user.target\n",
    ),
    ("multi-user.target", "Multi-User System", "Requires=basic.target\nAfter=basic.target\n"),
    (
        "basic.target",
        "Basic System",
        "Requires=sysinit.target\nWants=sockets.target timers.target paths.target slices.target\nAfter=sysinit.target sockets.target paths.target slices.target\n",
    ),
    (
        "sysinit.target",
        "System Initialization",
        "Wants=local-fs.target swap.target\nAfter=local-fs.target swap.target\n",
    ),
    (
        "local-fs.target",
        "Local File Systems",
        "After=local-fs-pre.target\nDefaultDependencies=no\n",
    ),
    ("local-fs-pre.target", "Preparation for Local File Systems", ""),
    (
        "remote-fs.target",
        "Remote File Systems",
        "After=remote-fs-pre.target\nDefaultDependencies=no\n",
    ),
    ("remote-fs-pre.target", "Preparation for Remote File Systems", ""),
    ("sockets.target", "Sockets", ""),
    ("timers.target", "Timers", ""),
    ("paths.target", "Path Units", ""),
    ("slices.target", "Slice Units", ""),
    ("swap.target", "Swaps", ""),
    ("network.target", "Network", ""),
    ("network-online.target", "Network is Online", "After=network.target\n"),
    ("umount.target", "Unmount All Filesystems", "DefaultDependencies=no\n"),
    ("shutdown.target", "System Shutdown", "DefaultDependencies=no\n"),
    (
        "final.target",
        "Late Shutdown Services",
        "DefaultDependencies=no\nAfter=shutdown.target umount.target\n",
    ),
];

/// Writes them into `directory`, which is made.
pub fn write(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for (name, description, lines) in UNITS {
        let text = format!("[Unit]\nDescription={description}\n{lines}");
        fs::write(directory.join(name), text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use warren_unit::{UnitName, parse};

    #[test]
    fn they_have_no_faults() {
        for (name, description, lines) in UNITS {
            let unit = UnitName::parse(name).expect("a valid name");
            let text = format!("[Unit]\nDescription={description}\n{lines}");
            let (_, faults) = parse::parse(Arc::from(*name), text.as_bytes(), unit.unit_type());
            assert_eq!(faults, [], "{name}");
        }
    }
}

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

/// How `systemctl` has a machine end: name of the target, description, what follows.
const ENDS: [(&str, &str, &str); 4] = [
    ("poweroff", "Power Off", "poweroff-force"),
    ("reboot", "Reboot", "reboot-force"),
    ("halt", "Halt", "halt-force"),
    ("exit", "Exit", "exit-force"),
];

/// Its target, and the service that is over when all else is.
fn end_units((name, description, action): (&str, &str, &str)) -> [(String, String); 2] {
    let head = format!("[Unit]\nDescription=System {description}\nDefaultDependencies=no\n");
    let (service, after) = (format!("systemd-{name}.service"), "shutdown.target umount.target");
    let target = format!("{head}Requires={service}\nAfter={service}\nAllowIsolate=yes\n");
    let text = format!(
        "{head}Requires={after} final.target\nAfter={after} final.target\nSuccessAction={action}\n"
    );
    [(format!("{name}.target"), target), (service, text)]
}

/// The log daemon's units, which are installed for the system too.
const JOURNAL_UNITS: [(&str, &str); 6] = [
    ("systemd-journald.service", include_str!("../../../../units/systemd-journald.service")),
    ("systemd-journald.socket", include_str!("../../../../units/systemd-journald.socket")),
    (
        "systemd-journald-dev-log.socket",
        include_str!("../../../../units/systemd-journald-dev-log.socket"),
    ),
    ("systemd-journald@.service", include_str!("../../../../units/systemd-journald@.service")),
    ("systemd-journald@.socket", include_str!("../../../../units/systemd-journald@.socket")),
    (
        "systemd-journald-varlink@.socket",
        include_str!("../../../../units/systemd-journald-varlink@.socket"),
    ),
];

/// Where the log daemon is when it is installed.
const JOURNALD: &str = "/usr/lib/warren/warren-journald";

/// What holds for the log daemon of a nested machine.
const SETTINGS: &str = "--set Storage=volatile --set ReadKMsg=no --set ForwardToWall=no";

/// Writes them into `directory`, which is made. The log daemon's are among them if it is beside
/// the other programs.
pub fn write(directory: &Path, programs: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for (name, description, lines) in UNITS {
        let text = format!("[Unit]\nDescription={description}\n{lines}");
        fs::write(directory.join(name), text)?;
    }
    for (name, text) in ENDS.into_iter().flat_map(end_units) {
        fs::write(directory.join(name), text)?;
    }
    let journald = programs.join("warren-journald");
    if journald.exists() {
        write_journal_units(directory, &journald.display().to_string())?;
    }
    Ok(())
}

fn write_journal_units(directory: &Path, journald: &str) -> io::Result<()> {
    for (name, text) in JOURNAL_UNITS {
        // /dev is the host's: no link is made there, and its kernel's log is not the machine's. So is
        // /var.
        let text = text.replace(JOURNALD, &format!("{journald} {SETTINGS}"));
        let text = text.replace("Symlinks=/dev/log\n", "");
        fs::write(directory.join(name), text)?;
        if name.contains('@') {
            // Of a namespace: whoever names it wants it.
            continue;
        }
        let target = if name.ends_with(".socket") { "sockets.target" } else { "sysinit.target" };
        let wants = directory.join(format!("{target}.wants"));
        fs::create_dir_all(&wants)?;
        std::os::unix::fs::symlink(Path::new("..").join(name), wants.join(name))?;
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
        for (name, text) in ENDS.into_iter().flat_map(end_units) {
            let unit = UnitName::parse(&name).expect("a valid name");
            let (_, faults) = parse::parse(Arc::from(&*name), text.as_bytes(), unit.unit_type());
            assert_eq!(faults, [], "{name}");
        }
        for (name, text) in JOURNAL_UNITS {
            let unit = UnitName::parse(name).expect("a valid name");
            let (_, faults) = parse::parse(Arc::from(name), text.as_bytes(), unit.unit_type());
            assert_eq!(faults, [], "{name}");
            assert!(!name.ends_with(".service") || text.contains(JOURNALD), "{name}");
        }
    }
}

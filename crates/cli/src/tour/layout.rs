//! The unit files of the tour: for each set a mount, an automount, a socket, a service that the
//! socket starts, and on request a slice; one target wants all sockets and automounts.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The target that wants everything.
pub const TARGET: &str = "tour.target";

/// Where the socket of a set listens, inside.
pub fn socket_path(set: u32) -> String {
    format!("/run/tour/{set}.sock")
}

/// Where the mount of a set is, inside.
pub fn mount_path(set: u32) -> String {
    format!("/test/{set}")
}

/// The service of a set.
pub fn service(set: u32) -> String {
    format!("test-nginx-{set}.service")
}

/// How large a layout is.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    /// Sets of units.
    pub sets: u32,
    /// Of these so many, from the first on, have a socket that listens and an automount that waits once the target is up.
    pub wanted: u32,
    /// With a slice for each set.
    pub slices: bool,
}

/// Writes all files; returns how many units they make.
pub fn write(directory: &Path, extent: Extent, echo: &Path) -> io::Result<u32> {
    let Extent { sets, wanted, slices } = extent;
    let wants = directory.join(format!("{TARGET}.wants"));
    fs::create_dir_all(&wants)?;
    fs::write(directory.join(TARGET), "[Unit]\nDescription=All sockets and automounts\n")?;
    // Booted as a whole system, default.target leads here too.
    let multi_user = directory.join("multi-user.target.wants");
    fs::create_dir_all(&multi_user)?;
    symlink(format!("../{TARGET}"), multi_user.join(TARGET))?;
    for set in 1..=sets {
        for (name, text) in files(set, slices, echo) {
            fs::write(directory.join(&name), text)?;
            let is_door = name.ends_with(".socket") || name.ends_with(".automount");
            if is_door && set <= wanted {
                symlink(format!("../{name}"), wants.join(&name))?;
            }
        }
    }
    Ok(1 + sets * if slices { 5 } else { 4 })
}

/// Names and texts of one set.
fn files(set: u32, slices: bool, echo: &Path) -> Vec<(String, String)> {
    let slice = if slices { format!("Slice=test-{set}.slice\n") } else { String::new() };
    let (mount, socket) = (mount_path(set), socket_path(set));
    let unit = |what: &str| format!("[Unit]\nDescription=Set {set}: {what}\n");
    let mut out = vec![
        (
            format!("test-{set}.mount"),
            format!(
                "{}[Mount]\nWhat=tour\nType=tmpfs\nOptions=size=1m,nr_inodes=64\nWhere={mount}\n{slice}",
                unit("mount")
            ),
        ),
        (
            format!("test-{set}.automount"),
            format!("{}[Automount]\nWhere={mount}\n", unit("automount")),
        ),
        (
            format!("test-nginx-{set}.socket"),
            format!("{}[Socket]\nListenStream={socket}\n{slice}", unit("socket")),
        ),
        (
            service(set),
            format!("{}[Service]\nExecStart={} {set}\n{slice}", unit("service"), echo.display()),
        ),
    ];
    if slices {
        out.push((format!("test-{set}.slice"), unit("slice")));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use warren_unit::{UnitName, parse};

    #[test]
    fn the_files_have_no_faults() {
        for (name, text) in files(7, true, Path::new("/x/warren-echo")) {
            let unit = UnitName::parse(&name).expect("a valid name");
            let (_, faults) = parse::parse(Arc::from(&*name), text.as_bytes(), unit.unit_type());
            assert_eq!(faults, [], "{name}");
        }
    }
}

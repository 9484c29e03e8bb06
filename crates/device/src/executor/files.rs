//! lvm2's run files and links below `/dev`: each changes in one step.

use std::fs;
use std::io;
use std::path::Path;

use crate::index::DeviceNumber;

/// Writes a run file whole: lvm2 never sees half of one.
pub(super) fn write(top: &Path, path: &str, text: &str) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    let path = top.join(path);
    if let Some(dir) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    if fs::read(&path).is_ok_and(|old| old == text.as_bytes()) {
        return Ok(());
    }
    // A name that lvm2 does not take for a PVID or a group: it has a space.
    let fresh = path.with_file_name("warren new");
    fs::write(&fresh, text)?;
    fs::rename(&fresh, &path)
}

/// Writes a record, or removes it.
pub(super) fn keep(top: &Path, name: &str, text: Option<&str>) -> io::Result<()> {
    let Some(text) = text else { return remove_if_there(&top.join(name)) };
    write(top, name, text)
}

/// Removes the run file of a PV that went, unless it tells of another device by now.
pub(super) fn remove(top: &Path, path: &str, device: DeviceNumber) -> io::Result<()> {
    let path = top.join(path);
    match fs::read_to_string(&path) {
        Ok(text) if text.lines().next() == Some(device.to_string().as_str()) => {
            fs::remove_file(&path)
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Makes a link of `disk/by-*` lead to a node, or away with it: nobody ever finds none in between.
pub(super) fn link(dev: &Path, link: &str, node: Option<&str>) -> io::Result<()> {
    let at = dev.join(link);
    let Some(node) = node else { return remove_if_there(&at) };
    let target = format!("../../{node}");
    if fs::read_link(&at).is_ok_and(|old| old == Path::new(&target)) {
        return Ok(());
    }
    if let Some(directory) = at.parent() {
        fs::create_dir_all(directory)?;
    }
    let fresh = at.with_file_name(".warren-new");
    let _ = fs::remove_file(&fresh);
    std::os::unix::fs::symlink(target, &fresh)?;
    fs::rename(&fresh, at)
}

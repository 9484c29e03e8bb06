//! The manager over varlink, as systemd 262 serves it at `/run/systemd/io.systemd.Manager`: units, jobs, the manager
//! itself.
//!
//! Owns: what is described ([`interfaces`]), what of it is told ([`unit`], [`manager`]) and what is done ([`methods`]).
//! Must not: touch the state of the loop. Reading is open to all who can connect, and answered from the published view;
//! changes are for root and the manager's own user, and for whom polkit allows them. A client has one call at a time and
//! one answer, or one of several, in memory; who does not read is dropped.
//! Thread: that of the client.

mod call;
mod idl;
mod interfaces;
mod managed_oom;
mod manager;
mod methods;
mod raw;
mod shape;
mod start;
mod transient;
mod unit;

use std::path::Path;

pub(crate) use call::{Call, parse};
pub(crate) use interfaces::find as find_interface;
pub(crate) use methods::serve;
pub(crate) use transient::read as read_transient;

/// The interfaces by whose names the socket can be found, and where it lies from their directory.
const REGISTERED: [&str; 2] = ["io.systemd.Manager", "io.systemd.Unit"];
const SOCKET: &str = "../../systemd/io.systemd.Manager";

/// Puts links to the socket where clients look for an interface by its name.
pub(crate) fn register(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    REGISTERED.iter().try_for_each(|name| put_link(&directory.join(name), SOCKET))
}

/// Has systemd-oomd, which looks for a socket of its own, find that of the manager beside it.
pub(crate) fn serve_oomd_at(path: &Path) -> std::io::Result<()> {
    put_link(path, SOCKET.rsplit('/').next().unwrap_or(SOCKET))
}

/// A link that leads to `target`, and what was there before is gone.
fn put_link(path: &Path, target: &str) -> std::io::Result<()> {
    if std::fs::read_link(path).is_ok_and(|found| found == *target) {
        return Ok(());
    }
    let _ = std::fs::remove_file(path);
    std::os::unix::fs::symlink(target, path)
}

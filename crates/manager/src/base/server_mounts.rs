//! Mounts behind which there is a server, which may not answer.

use std::path::Path;
use warren_sys::mount::Mount;

/// File systems behind which there is a server, which may not answer; and all whose type begins with
/// `fuse` or `nfs`.
pub(crate) const OF_SERVERS: [&str; 8] =
    ["9p", "afs", "ceph", "cifs", "davfs", "glusterfs", "lustre", "smb3"];

/// Whether a server is behind a file system of this type.
pub(crate) fn has_server(fs_type: &str) -> bool {
    fs_type.starts_with("fuse") || fs_type.starts_with("nfs") || OF_SERVERS.contains(&fs_type)
}

/// The mount that is nearest to a path, at it or above it, if a server is behind it:
/// `/srv (nfs4 of host:/export)`.
pub(crate) fn server_of(table: &[Mount], path: &str) -> Option<String> {
    let above = table.iter().filter(|mount| {
        has_server(&mount.fstype) && Path::new(path).starts_with(&mount.mount_point)
    });
    let nearest = above.max_by_key(|mount| mount.mount_point.len())?;
    Some(format!("{} ({} of {})", nearest.mount_point, nearest.fstype, nearest.source))
}

//! Mounting.

use crate::error::{Context, Result};

pub use rustix::mount::MountFlags;

/// mount(2).
pub fn mount(
    source: &str,
    target: &str,
    fstype: &str,
    flags: MountFlags,
    data: &str,
) -> Result<()> {
    let data = std::ffi::CString::new(data)
        .map_err(|_| crate::Error::at("mount", target, libc::EINVAL))?;
    rustix::mount::mount(source, target, fstype, flags, data.as_c_str()).call_on("mount", target)
}

//! The end: reboot(2).

use std::ffi::CStr;

use crate::error::{Error, Result, check, last_errno};

/// What reboot(2) shall do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reboot {
    /// Restart the machine.
    Restart,
    /// Power off.
    PowerOff,
    /// Stop without powering off.
    Halt,
    /// Start the kernel loaded before.
    Kexec,
}

/// Does it. Returns only on failure. Nothing is synced: whoever calls has done so. In a pid
/// namespace of its own this ends the namespace; its first process is then killed by SIGHUP
/// (restart) or SIGINT (the others).
pub fn reboot(what: Reboot) -> Error {
    let command = match what {
        Reboot::Restart => libc::RB_AUTOBOOT,
        Reboot::PowerOff => libc::RB_POWER_OFF,
        Reboot::Halt => libc::RB_HALT_SYSTEM,
        Reboot::Kexec => libc::RB_KEXEC,
    };
    // SAFETY: plain integer.
    unsafe { libc::reboot(command) };
    Error::new("reboot", last_errno())
}

/// Restarts the machine with a word for its firmware (reboot(2), `LINUX_REBOOT_CMD_RESTART2`). Returns only
/// on failure.
pub fn restart_with(argument: &CStr) -> Error {
    // SAFETY: plain integers, and a string that the kernel reads up to its end.
    unsafe {
        libc::syscall(
            libc::SYS_reboot,
            libc::LINUX_REBOOT_MAGIC1,
            libc::LINUX_REBOOT_MAGIC2,
            libc::LINUX_REBOOT_CMD_RESTART2,
            argument.as_ptr(),
        )
    };
    Error::new("reboot", last_errno())
}

/// Has Ctrl-Alt-Del restart the machine at once.
pub fn let_ctrl_alt_del() -> Result<()> {
    // SAFETY: plain integer.
    check("reboot RB_ENABLE_CAD", unsafe { libc::reboot(libc::RB_ENABLE_CAD) } as _).map(|_| ())
}

/// Has Ctrl-Alt-Del send SIGINT to process 1 instead of restarting the machine at once.
pub fn catch_ctrl_alt_del() -> Result<()> {
    // SAFETY: plain integer.
    check("reboot RB_DISABLE_CAD", unsafe { libc::reboot(libc::RB_DISABLE_CAD) } as _).map(|_| ())
}

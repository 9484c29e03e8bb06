//! How it ends.

use std::ffi::CString;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use warren_sys::errno::EPERM;

use warren_init::protocol::control::{PowerAction, REBOOT_ARGUMENT};
use warren_sys::mount::{self, MountFlags, MountOptions};
use warren_sys::reboot::{Reboot, reboot, restart_with};

use crate::place::Place;
use crate::say::say;

/// So long disks are waited for.
const SYNC_WITHIN: Duration = Duration::from_secs(10);

/// The kernel takes no more.
const ARGUMENT_BYTES_MAX: usize = 255;

/// The root directory.
const ROOT: &str = "/";

/// What process 1, or the root of a nested manager, finally does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Call reboot(2), and the next if the kernel refuses.
    Reboot(Reboot),
    /// Exit with this status. The kernel ends what is left in our pid namespace, if it is ours.
    Exit(i32),
}

/// What a request means here. Only process 1 may call reboot(2): anyone else with the right to
/// do so would take the host down.
pub fn ending(action: PowerAction, is_pid_1: bool, is_host: bool) -> Ending {
    let code = match action {
        PowerAction::Exit(code) => i32::from(code),
        _ => 0,
    };
    match action {
        _ if !is_pid_1 => Ending::Exit(code),
        PowerAction::Exit(_) if !is_host => Ending::Exit(code),
        // A soft reboot comes here when it could not be done.
        PowerAction::Reboot | PowerAction::SoftReboot => Ending::Reboot(Reboot::Restart),
        PowerAction::Kexec => Ending::Reboot(Reboot::Kexec),
        PowerAction::Halt => Ending::Reboot(Reboot::Halt),
        PowerAction::PowerOff | PowerAction::Exit(_) => Ending::Reboot(Reboot::PowerOff),
    }
}

/// Does it; returns the exit status when it comes to that.
pub fn end(action: PowerAction, place: &Place) -> i32 {
    match ending(action, place.is_pid_1, place.is_host) {
        Ending::Exit(code) => code,
        Ending::Reboot(first) => {
            if let Some(argument) = argument(first, place.is_host, Path::new(REBOOT_ARGUMENT)) {
                say(&restart_with(&argument).to_string());
            }
            for what in [first, Reboot::Restart, Reboot::Halt] {
                let error = reboot(what);
                if error.errno == EPERM && !place.is_host {
                    // A container without CAP_SYS_BOOT: it ends with its process 1 all the same, and well.
                    return 0;
                }
                say(&error.to_string());
            }
            1
        }
    }
}

/// Ends a machine of which nothing but the root and process 1 is left; returns as [`end`] does.
pub fn finish(action: PowerAction, place: &Place) -> i32 {
    if place.is_host {
        make_read_only();
    }
    end(action, place)
}

/// Makes what is mounted from a disk on a host read-only, the root last: files that have been replaced kept
/// it from that as long as somebody ran them.
fn make_read_only() {
    let made = || {
        let table = mount::table().unwrap_or_default();
        let kept = table.iter().rev().filter(|mount| mount.source.starts_with("/dev/"));
        let kept = kept.map(|mount| mount.mount_point.as_str()).filter(|&path| path != ROOT);
        for path in kept.chain([ROOT]) {
            let mut options = MountOptions::parse("remount");
            options.flags |= MountFlags::RDONLY;
            if let Err(error) = mount::mount_fs("", path, "", &options) {
                say(&format!("{path} cannot be made read-only: {error}"));
            }
        }
    };
    if !within(SYNC_WITHIN, made) {
        say(&format!(
            "could not make all file systems read-only within {} s",
            SYNC_WITHIN.as_secs()
        ));
    }
}

/// What a restart of a host is to tell its firmware (systemctl(1), `--reboot-argument=`): a line in a file.
fn argument(what: Reboot, is_host: bool, file: &Path) -> Option<CString> {
    if what != Reboot::Restart || !is_host {
        return None;
    }
    let text = warren_sys::text::read(file).ok()?;
    let line =
        text.lines().next().filter(|line| !line.is_empty() && line.len() <= ARGUMENT_BYTES_MAX)?;
    CString::new(line).ok()
}

/// sync(2), as long as a disk that does not answer lets it; the last steps did it, unless they left storage out.
pub fn sync() {
    if !within(SYNC_WITHIN, warren_sys::storage::sync) {
        say(&format!("could not write all data to disk within {} s", SYNC_WITHIN.as_secs()));
    }
}

/// Whether a thread has done it in that time.
fn within(time: Duration, work: impl FnOnce() + Send + 'static) -> bool {
    let (done, is_done) = sync_channel(1);
    let work = move || {
        work();
        let _ = done.send(());
    };
    let thread = std::thread::Builder::new().name("sync".into()).spawn(work);
    thread.is_ok() && is_done.recv_timeout(time).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_end_is_not_waited_for() {
        let (held, gate) = sync_channel::<()>(0);
        assert!(!within(Duration::from_millis(1), move || _ = gate.recv()));
        drop(held);
        assert!(within(Duration::from_secs(3600), || {}));
    }

    #[test]
    fn the_firmware_of_a_host_is_told_the_argument_of_a_restart() {
        let file = std::env::temp_dir().join(format!("warren-argument-{}", std::process::id()));
        assert_eq!(argument(Reboot::Restart, true, &file), None);
        for (text, told) in
            [("recovery\n", Some("recovery")), ("a b", Some("a b")), ("\n", None), ("", None)]
        {
            std::fs::write(&file, text).expect("it can be written");
            let told = told.map(|told| CString::new(told).expect("no zero byte"));
            assert_eq!(argument(Reboot::Restart, true, &file), told, "{text:?}");
        }
        std::fs::write(&file, "recovery").expect("it can be written");
        assert_eq!(argument(Reboot::PowerOff, true, &file), None);
        assert_eq!(argument(Reboot::Restart, false, &file), None);
        std::fs::write(&file, "x".repeat(256)).expect("it can be written");
        assert_eq!(argument(Reboot::Restart, true, &file), None);
        std::fs::remove_file(&file).expect("it is there");
    }

    #[test]
    fn only_process_1_calls_reboot() {
        let off = Ending::Reboot(Reboot::PowerOff);
        for (action, is_pid_1, is_host, expected) in [
            (PowerAction::Reboot, false, false, Ending::Exit(0)),
            (PowerAction::Exit(7), false, false, Ending::Exit(7)),
            (PowerAction::Exit(7), true, false, Ending::Exit(7)),
            (PowerAction::Exit(7), true, true, off),
            (PowerAction::PowerOff, true, false, off),
            (PowerAction::Kexec, true, true, Ending::Reboot(Reboot::Kexec)),
        ] {
            assert_eq!(ending(action, is_pid_1, is_host), expected, "{action:?}");
        }
    }
}

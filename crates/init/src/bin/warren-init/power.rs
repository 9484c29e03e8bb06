//! How it ends.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use warren_init::protocol::control::PowerAction;
use warren_sys::reboot::{Reboot, reboot};

use crate::boot::Place;
use crate::say;

/// So long disks are waited for.
const SYNC_WITHIN: Duration = Duration::from_secs(10);

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
            for what in [first, Reboot::Restart, Reboot::Halt] {
                say(&reboot(what).to_string());
            }
            1
        }
    }
}

/// sync(2), as long as a disk that does not answer lets it; the last steps did it, unless they left storage out.
pub fn sync() {
    if !within(SYNC_WITHIN, warren_sys::storage::sync) {
        say(&format!("not all is written to disks within {} s", SYNC_WITHIN.as_secs()));
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

//! What is done when process 1, or this manager, has made a fault (systemd-system.conf(5), "CrashReboot=", "DumpCore=").

use warren_bus::Backend;
use warren_init::protocol::control::{CrashEnd, OnCrash};
use warren_sys::child;
use warren_unit::Scope;
use warren_unit::config::{Crash, CrashAction};

use crate::base::host::owns_machine;
use crate::base::say::say;
use crate::daemon::Daemon;

/// RLIMIT_CORE
const CORE: u8 = 4;

impl Daemon {
    /// Has process 1 of a host, and the kernel at a fault of this process, do what the manager's file says.
    pub(crate) fn follow_crash_settings(&self) {
        let stated = self.shared.facts().defaults.crash;
        if self.options.scope == Scope::System
            && let Some(dumps) = stated.dumps_core
        {
            let soft = if dumps { u64::MAX } else { 0 };
            if let Err(error) = child::set_rlimit(CORE, soft, u64::MAX) {
                say!("DumpCore= is not applied: {error}");
            }
        }
        if owns_machine(self.options.scope)
            && let Err(error) = self.process.init.on_crash(plan(stated))
        {
            say!("init does not know what to do on a crash: {error}");
        }
    }
}

/// Where nothing is said, services go on.
fn plan(stated: Crash) -> OnCrash {
    OnCrash {
        dumps_core: stated.dumps_core.unwrap_or(false),
        starts_shell: stated.starts_shell.unwrap_or(false),
        terminal: stated.terminal.flatten(),
        end: match stated.action {
            None | Some(CrashAction::Freeze) => CrashEnd::Freeze,
            Some(CrashAction::Reboot) => CrashEnd::Reboot,
            Some(CrashAction::Poweroff) => CrashEnd::PowerOff,
        },
    }
}

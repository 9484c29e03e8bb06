//! The watchdog of the machine (systemd-system.conf(5), "Hardware Watchdog").

use std::sync::Arc;
use std::time::Duration;

/// How long the device waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatchdogTime {
    /// It is not used.
    #[default]
    Off,
    /// As long as it does by itself.
    OfDevice,
    /// So long; never nothing.
    For(Duration),
}

/// What the manager's file says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watchdog {
    /// WatchdogDevice=
    pub device: Option<Arc<str>>,
    /// RuntimeWatchdogSec=
    pub runtime: WatchdogTime,
    /// RebootWatchdogSec=: while the last steps before a reboot are taken.
    pub reboot: WatchdogTime,
    /// KExecWatchdogSec=: the same before another kernel is executed.
    pub kexec: WatchdogTime,
    /// RuntimeWatchdogPreSec=: how long before its reset the device tells the kernel.
    pub pre: WatchdogTime,
    /// RuntimeWatchdogPreGovernor=: what the kernel does then.
    pub governor: Option<Arc<str>>,
}

impl Default for Watchdog {
    fn default() -> Watchdog {
        const REBOOT: Duration = Duration::from_secs(600);
        Watchdog {
            device: None,
            runtime: WatchdogTime::Off,
            reboot: WatchdogTime::For(REBOOT),
            kexec: WatchdogTime::Off,
            pre: WatchdogTime::Off,
            governor: None,
        }
    }
}

impl WatchdogTime {
    /// Microseconds as clients read them: all bits for the device's own time.
    pub fn usec(self) -> u64 {
        match self {
            WatchdogTime::Off => 0,
            WatchdogTime::OfDevice => u64::MAX,
            WatchdogTime::For(time) => u64::try_from(time.as_micros()).unwrap_or(u64::MAX),
        }
    }

    /// What [`WatchdogTime::usec`] says.
    pub fn of_usec(usec: u64) -> WatchdogTime {
        match usec {
            0 => WatchdogTime::Off,
            u64::MAX => WatchdogTime::OfDevice,
            usec => WatchdogTime::For(Duration::from_micros(usec)),
        }
    }
}

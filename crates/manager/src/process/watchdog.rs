//! The watchdog of the machine: a device that resets it unless it hears of this process in time
//! (systemd-system.conf(5), "Hardware Watchdog"). Owned and heard of by the loop alone.
//!
//! Init keeps the device open too: a manager that is killed leaves it armed, and the next goes on with it. What hangs is
//! the manager's own end, or the machine's.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use warren_core::model::time::Monotonic;
use warren_init::protocol::control::PowerAction;
use warren_sys::errno::{ENODEV, ENOENT, ENXIO};
use warren_sys::watchdog::Device;
use warren_unit::config::{Watchdog, WatchdogTime};

use crate::base::patience::Patient;
use crate::base::say::say;

/// Under which name init keeps the device.
pub(crate) const WATCHDOG_NAME: &str = "watchdog";

/// The devices of a machine that says nothing of them.
const USUAL: [&str; 2] = ["/dev/watchdog0", "/dev/watchdog"];

/// A device that is not there, as its driver is not loaded yet, is looked for again after this time.
const LOOK_APART: Duration = Duration::from_secs(10);

/// The device waits so long at least.
const TIME_MIN: Duration = Duration::from_secs(1);

/// The device, once it is open.
struct Open {
    device: Device,
    /// What it was last told to wait.
    set: WatchdogTime,
    /// It is told that we are there so often.
    every: Duration,
    due: Monotonic,
}

/// What the manager does with the device.
#[derive(Default)]
pub(crate) struct MachineWatchdog {
    open: Option<Open>,
    /// What it is to wait; it is looked for while it is not there.
    wanted: WatchdogTime,
    look: Option<Monotonic>,
    /// It was said that it cannot be had.
    is_missed: bool,
}

/// What became of the device.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It was opened: init is to keep it.
    Opened,
    /// It was disarmed and closed: init is to close it.
    Closed,
}

/// How long the device is to wait: as this is the time between startup and shutdown, or that of the last steps before
/// `ending`.
pub(crate) fn wanted(stated: &Watchdog, ending: Option<PowerAction>) -> WatchdogTime {
    match ending {
        None => stated.runtime,
        Some(PowerAction::Reboot) => stated.reboot,
        Some(PowerAction::Kexec) => stated.kexec,
        // The kernel goes on.
        Some(PowerAction::SoftReboot) => stated.runtime,
        Some(PowerAction::PowerOff | PowerAction::Halt | PowerAction::Exit(_)) => WatchdogTime::Off,
    }
}

impl MachineWatchdog {
    /// Goes on with the device that init has kept. What it waits is set anew.
    pub(crate) fn take_up(&mut self, fd: OwnedFd, now: Monotonic) {
        let device = Device::over(fd);
        self.open = Some(Open { device, set: WatchdogTime::Off, every: TIME_MIN, due: now });
    }

    /// The device's descriptor.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.open.as_ref().map(|open| open.device.fd())
    }

    /// Has the device wait so long from now on.
    pub(crate) fn set(
        &mut self,
        stated: &Watchdog,
        wanted: WatchdogTime,
        now: Monotonic,
    ) -> Option<Change> {
        self.wanted = wanted;
        if wanted == WatchdogTime::Off {
            self.look = None;
            let open = self.open.take()?;
            if let Err(e) = open.device.disarm() {
                say!("cannot disarm the watchdog: {}", e.message());
            }
            return Some(Change::Closed);
        }
        let mut change = None;
        if self.open.is_none() {
            self.open = self.find(stated, now);
            change = self.open.as_ref().map(|_| Change::Opened);
        }
        if let Some(open) = self.open.as_mut().filter(|open| open.set != wanted) {
            open.begin(stated, wanted, now);
        }
        change
    }

    /// Tells the device that we are there, if that is due, and looks for one that was not there.
    pub(crate) fn go_on(&mut self, stated: &Watchdog, now: Monotonic) -> Option<Change> {
        if let Some(open) = self.open.as_mut().filter(|open| open.due <= now) {
            open.ping(now);
        }
        let is_due = self.open.is_none() && self.look.is_some_and(|look| look <= now);
        if is_due { self.set(stated, self.wanted, now) } else { None }
    }

    fn find(&mut self, stated: &Watchdog, now: Monotonic) -> Option<Open> {
        let usual = || USUAL.map(str::to_owned).to_vec();
        let paths = stated.device.as_ref().map_or_else(usual, |path| vec![path.to_string()]);
        let mut failed = None;
        for path in paths {
            match Device::open(&path) {
                Ok(device) => {
                    say!("the watchdog of the machine is {path}");
                    self.look = None;
                    return Some(Open {
                        device,
                        set: WatchdogTime::Off,
                        every: TIME_MIN,
                        due: now,
                    });
                }
                Err(e) => failed = failed.or(Some(e)),
            }
        }
        self.look = Some(now.after(LOOK_APART));
        if let Some(e) = failed.filter(|_| !std::mem::replace(&mut self.is_missed, true)) {
            let is_missing = matches!(e.errno, ENOENT | ENODEV | ENXIO);
            // Most machines have none, and nothing asks for one.
            if !is_missing || stated.device.is_some() || stated.runtime != WatchdogTime::Off {
                say!("cannot open the watchdog: {}", e.message());
            }
        }
        None
    }
}

impl Open {
    fn begin(&mut self, stated: &Watchdog, wanted: WatchdogTime, now: Monotonic) {
        self.set = wanted;
        let asked = match wanted {
            WatchdogTime::For(time) => Some(seconds(time)),
            WatchdogTime::OfDevice | WatchdogTime::Off => None,
        };
        let waits = match asked.map(|asked| self.device.set_timeout(asked)) {
            Some(Ok(set)) => Some(set),
            Some(Err(e)) => {
                say!("the watchdog keeps its own timeout: {}", e.message());
                self.device.timeout().ok()
            }
            None => self.device.timeout().ok(),
        };
        // It is heard of twice in its time.
        let waits = waits.or(asked).map_or(TIME_MIN, |s| Duration::from_secs(s.into()));
        self.every = (waits / 2).max(TIME_MIN / 2);
        if let WatchdogTime::For(pre) = stated.pre {
            self.tell_before(stated, seconds(pre));
        }
        // One that was disarmed while it was open.
        let _ = self.device.enable();
        self.ping(now);
    }

    fn tell_before(&self, stated: &Watchdog, pre: u32) {
        let governor =
            stated.governor.as_ref().map_or(Ok(()), |name| self.device.set_governor(name));
        if let Err(e) = governor {
            say!("RuntimeWatchdogPreGovernor= is not applied: {}", e.message());
        }
        if let Err(e) = self.device.set_pretimeout(pre) {
            say!("RuntimeWatchdogPreSec= is not applied: {}", e.message());
        }
    }

    fn ping(&mut self, now: Monotonic) {
        self.due = now.after(self.every);
        if let Err(e) = self.device.ping() {
            say!("cannot ping the watchdog: {}", e.message());
        }
    }
}

/// Whole ones, and not less than asked for.
fn seconds(time: Duration) -> u32 {
    let whole = time.max(TIME_MIN).as_nanos().div_ceil(1_000_000_000);
    u32::try_from(whole).unwrap_or(u32::MAX).min(i32::MAX as u32)
}

impl Patient for MachineWatchdog {
    fn deadline(&self) -> Option<Monotonic> {
        self.open.as_ref().map(|open| open.due).or(self.look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_its_time() {
        let stated = Watchdog { runtime: WatchdogTime::OfDevice, ..Watchdog::default() };
        assert_eq!(wanted(&stated, None), WatchdogTime::OfDevice);
        let reboot = WatchdogTime::For(Duration::from_secs(600));
        assert_eq!(wanted(&stated, Some(PowerAction::Reboot)), reboot);
        assert_eq!(wanted(&stated, Some(PowerAction::Kexec)), WatchdogTime::Off);
        assert_eq!(wanted(&stated, Some(PowerAction::PowerOff)), WatchdogTime::Off);
        assert_eq!(wanted(&stated, Some(PowerAction::SoftReboot)), WatchdogTime::OfDevice);
        assert_eq!([1, 1_001, 2_000].map(|ms| seconds(Duration::from_millis(ms))), [1, 2, 2]);
    }

    /// A file stands for the device: it takes a byte for each sign of life and no time.
    #[test]
    fn a_device_is_told_twice_in_its_time_and_looked_for_while_it_is_not_there() {
        let scratch = warren_testkit::Scratch::new("machine-watchdog");
        let path = scratch.text_path("device");
        let device = Some(path.as_str().into());
        let time = WatchdogTime::For(Duration::from_secs(4));
        let stated = Watchdog { device, runtime: time, ..Watchdog::default() };
        let written = || std::fs::read(&path).unwrap_or_default();
        let second = |n: u64| Monotonic(n * 1_000_000);
        let mut own = MachineWatchdog::default();
        assert_eq!(own.set(&stated, time, second(1)), None);
        assert_eq!(own.deadline(), Some(second(11)));
        std::fs::write(&path, "").expect("made");
        assert_eq!(own.go_on(&stated, second(10)), None);
        assert_eq!(own.go_on(&stated, second(11)), Some(Change::Opened));
        assert_eq!((own.deadline(), written().len()), (Some(second(13)), 1));
        assert_eq!(own.go_on(&stated, second(12)), None);
        assert_eq!(own.go_on(&stated, second(13)), None);
        assert_eq!((own.deadline(), written().len()), (Some(second(15)), 2));
        // The next manager has it from init.
        let fd = own.fd().expect("open").try_clone_to_owned().expect("a copy");
        let mut next = MachineWatchdog::default();
        next.take_up(fd, second(14));
        assert_eq!(next.set(&stated, time, second(14)), None);
        assert_eq!((next.deadline(), written().len()), (Some(second(16)), 3));
        // What is asked for already is not asked for again.
        assert_eq!(next.set(&stated, time, second(15)), None);
        assert_eq!(written().len(), 3);
        assert_eq!(next.set(&stated, WatchdogTime::Off, second(15)), Some(Change::Closed));
        assert_eq!((next.deadline(), written()), (None, b"\0\0\0V".to_vec()));
    }
}

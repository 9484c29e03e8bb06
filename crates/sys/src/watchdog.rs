//! Devices that reset the machine unless they are heard from in time (kernel: Documentation/watchdog/watchdog-api.rst).
//!
//! A device is armed from when it is opened. It stays so when its descriptor is closed, unless it was disarmed.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use crate::error::{Context, Error, Result, last_errno};

const WDIOC_SETOPTIONS: u64 = 0x8004_5704;
const WDIOC_KEEPALIVE: u64 = 0x8004_5705;
const WDIOC_SETTIMEOUT: u64 = 0xc004_5706;
const WDIOC_GETTIMEOUT: u64 = 0x8004_5707;
const WDIOC_SETPRETIMEOUT: u64 = 0xc004_5708;
const WDIOS_DISABLECARD: i32 = 1;
const WDIOS_ENABLECARD: i32 = 2;

/// What a driver takes for a wish to be disarmed when the device is closed.
const MAGIC_CLOSE: &[u8] = b"V";

/// An open device.
#[derive(Debug)]
pub struct Device(OwnedFd);

impl Device {
    /// Opens a device: it counts from now on.
    pub fn open(path: &str) -> Result<Device> {
        use rustix::fs::{Mode, OFlags, open};
        let flags = OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        open(path, flags, Mode::empty()).call_on("open", path).map(Device)
    }

    /// One that was opened before.
    pub fn over(fd: OwnedFd) -> Device {
        Device(fd)
    }

    /// Its descriptor.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Has it wait so long; the seconds that it waits, which the hardware may round.
    ///
    /// # Errors
    /// `EOPNOTSUPP`, `ENOTTY`: its time cannot be set. `EINVAL`: it cannot wait so long.
    pub fn set_timeout(&self, seconds: u32) -> Result<u32> {
        self.control("set watchdog timeout", WDIOC_SETTIMEOUT, seconds as i32).map(|set| set as u32)
    }

    /// The seconds that it waits.
    pub fn timeout(&self) -> Result<u32> {
        self.control("get watchdog timeout", WDIOC_GETTIMEOUT, 0).map(|set| set as u32)
    }

    /// Has it tell the kernel so many seconds before it resets the machine; 0 is never.
    pub fn set_pretimeout(&self, seconds: u32) -> Result<u32> {
        let set = self.control("set watchdog pretimeout", WDIOC_SETPRETIMEOUT, seconds as i32);
        set.map(|set| set as u32)
    }

    /// Chooses what the kernel does then, as `panic`.
    pub fn set_governor(&self, name: &str) -> Result<()> {
        let number = rustix::fs::fstat(&self.0).call("stat watchdog")?.st_rdev;
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let path = format!("/sys/dev/char/{major}:{minor}/pretimeout_governor");
        std::fs::write(&path, name)
            .map_err(|e| Error::at("write", path, e.raw_os_error().unwrap_or(libc::EIO)))
    }

    /// Arms one that somebody disarmed while it was open.
    pub fn enable(&self) -> Result<()> {
        self.control("enable watchdog", WDIOC_SETOPTIONS, WDIOS_ENABLECARD).map(|_| ())
    }

    /// Has it wait anew.
    pub fn ping(&self) -> Result<()> {
        match self.control("ping watchdog", WDIOC_KEEPALIVE, 0) {
            // Every driver takes a byte.
            Err(e) if matches!(e.errno, libc::ENOTTY | libc::EOPNOTSUPP) => {
                rustix::io::write(&self.0, b"\0").call("ping watchdog").map(|_| ())
            }
            other => other.map(|_| ()),
        }
    }

    /// Closes it without a reset to follow, where the driver allows that.
    pub fn disarm(self) -> Result<()> {
        let _ = self.control("disable watchdog", WDIOC_SETOPTIONS, WDIOS_DISABLECARD);
        rustix::io::write(&self.0, MAGIC_CLOSE).call("disarm watchdog").map(|_| ())
    }

    fn control(&self, call: &'static str, request: u64, value: i32) -> Result<i32> {
        let mut value = value;
        // SAFETY: each of these requests reads or writes one int, which lives until the call returns.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), request as _, &raw mut value) };
        if result < 0 { Err(Error::new(call, last_errno())) } else { Ok(value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_whose_time_cannot_be_set_is_pinged_and_disarmed_by_bytes() {
        let scratch = warren_testkit::Scratch::new("watchdog");
        let path = scratch.write("device", "");
        let device = Device::open(&path).expect("it is there");
        assert_eq!(device.set_timeout(7).map_err(|e| e.errno), Err(libc::ENOTTY));
        assert!(device.ping().is_ok() && device.ping().is_ok());
        let again = Device::over(device.fd().try_clone_to_owned().expect("a copy"));
        assert_eq!(std::fs::read(&path).expect("there"), b"\0\0");
        again.disarm().expect("written");
        assert_eq!(std::fs::read(&path).expect("there"), b"\0\0V");
        let missing = Device::open(&scratch.text_path("none")).map(|_| ()).map_err(|e| e.errno);
        assert_eq!(missing, Err(libc::ENOENT));
    }
}

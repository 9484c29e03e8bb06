//! Device events: the kernel's datagrams and those that udev sends on, as one type.
//!
//! Formats: `ACTION@/devpath`, NUL, then `KEY=VALUE` with a NUL each (Documentation/ABI of the
//! kernel); udev's messages have a header of 40 bytes and the same properties behind it. Who may
//! be believed is decided by [`is_trusted`].

use crate::bytes::{array, has, printable};
use crate::index::DeviceNumber;

/// Most properties of one event; real ones have fewer than 100.
const PROPERTIES_MAX: usize = 1024;

/// What happened to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It appeared.
    Add,
    /// Something about it is new: its content, size, table.
    Change,
    /// It went.
    Remove,
    /// It has another path.
    Move,
    /// A driver took or left it, it was switched on or off.
    Other,
}

impl Action {
    fn parse(text: &str) -> Action {
        match text {
            "add" => Action::Add,
            "change" => Action::Change,
            "remove" => Action::Remove,
            "move" => Action::Move,
            _ => Action::Other,
        }
    }
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uevent {
    /// What happened.
    pub action: Action,
    /// Path below `/sys`.
    pub path: String,
    properties: Vec<(String, String)>,
}

/// Why a datagram is no event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UeventFault {
    /// It begins like neither kind.
    Format,
    /// `ACTION` or `DEVPATH` is missing, or the path is none.
    Incomplete,
    /// More properties than any real event has.
    TooLong,
}

impl Uevent {
    /// Parses a datagram of either kind.
    pub fn parse(datagram: &[u8]) -> Result<Uevent, UeventFault> {
        match datagram.starts_with(crate::udev::PREFIX) {
            true => Uevent::from_udev(datagram),
            false => Uevent::from_kernel(datagram),
        }
    }

    fn from_kernel(datagram: &[u8]) -> Result<Uevent, UeventFault> {
        let end = datagram.iter().position(|&b| b == 0).ok_or(UeventFault::Format)?;
        if !datagram[..end].contains(&b'@') {
            return Err(UeventFault::Format);
        }
        Uevent::from_properties(datagram.get(end + 1..).unwrap_or_default())
    }

    fn from_udev(datagram: &[u8]) -> Result<Uevent, UeventFault> {
        Uevent::from_properties(crate::udev::properties(datagram).ok_or(UeventFault::Format)?)
    }

    fn from_properties(bytes: &[u8]) -> Result<Uevent, UeventFault> {
        let mut properties = Vec::new();
        for field in bytes.split(|&b| b == 0).filter(|field| !field.is_empty()) {
            if properties.len() == PROPERTIES_MAX {
                return Err(UeventFault::TooLong);
            }
            let text = String::from_utf8_lossy(field);
            if let Some((key, value)) = text.split_once('=') {
                properties.push((key.to_owned(), printable(value)));
            }
        }
        let event = Uevent { action: Action::Other, path: String::new(), properties };
        let path = event.get("DEVPATH").filter(|path| is_path(path));
        let path = path.ok_or(UeventFault::Incomplete)?.to_owned();
        let action = event.get("ACTION").map(Action::parse).ok_or(UeventFault::Incomplete)?;
        Ok(Uevent { action, path, ..event })
    }

    /// The value of a property.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.properties.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// True for block devices.
    pub fn is_block(&self) -> bool {
        self.get("SUBSYSTEM") == Some("block")
    }

    /// Device number, when it has one.
    pub fn number(&self) -> Option<DeviceNumber> {
        let part = |key| self.get(key)?.parse().ok();
        Some(DeviceNumber { major: part("MAJOR")?, minor: part("MINOR")? })
    }

    /// The kernel's count of events; a coldplug that began later has seen it.
    pub fn sequence_number(&self) -> Option<u64> {
        self.get("SEQNUM")?.parse().ok()
    }

    /// Name of the device, the last part of its path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// A path that can be appended to `/sys` without leaving it.
fn is_path(path: &str) -> bool {
    let plain = |part: &str| !matches!(part, "" | "." | "..");
    path.strip_prefix('/').is_some_and(|rest| rest.split('/').all(plain))
}

/// Who sent a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sender {
    /// Netlink port; 0 is the kernel.
    pub port: u32,
    /// User id, as the kernel saw it.
    pub uid: Option<u32>,
}

/// True when a datagram may be believed: root's, and what looks like the kernel's must come from
/// the kernel (udev's message has a header that the kernel never sends).
pub fn is_trusted(sender: Sender, datagram: &[u8]) -> bool {
    let is_kernel = sender.port == 0;
    let from_udev = has(datagram, 0, crate::udev::PREFIX);
    sender.uid == Some(0) && is_kernel != from_udev
}

/// A little of the header, for the checks of [`crate::udev`].
pub(crate) fn native32(bytes: &[u8], at: usize) -> Option<u32> {
    array(bytes, at).map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(datagram: &[u8]) -> String {
        match Uevent::parse(datagram) {
            Err(fault) => format!("{fault:?}"),
            Ok(event) => {
                let number = event.number().map_or("-".to_owned(), |number| number.to_string());
                let (action, path, block) = (event.action, &event.path, event.is_block());
                format!(
                    "{action:?} {path} {} {number} {block} {:?}",
                    event.name(),
                    event.sequence_number()
                )
            }
        }
    }

    #[test]
    fn the_kernels_datagrams() {
        let real =
            b"add@/devices/virtual/block/loop0\0ACTION=add\0DEVPATH=/devices/virtual/block/loop0\0\
            SUBSYSTEM=block\0MAJOR=7\0MINOR=0\0DEVNAME=loop0\0DEVTYPE=disk\0DISKSEQ=9\0SEQNUM=77\0";
        assert_eq!(show(real), "Add /devices/virtual/block/loop0 loop0 7:0 true Some(77)");
        for (datagram, expected) in [
            (&b""[..], "Format"),
            (b"add@/x", "Format"),
            (b"rubbish\0ACTION=add\0DEVPATH=/x\0", "Format"),
            (b"add@/x\0", "Incomplete"),
            (b"add@/x\0ACTION=add\0", "Incomplete"),
            (b"add@/x\0ACTION=add\0DEVPATH=/a/../../etc\0", "Incomplete"),
            (b"add@/x\0ACTION=add\0DEVPATH=x\0", "Incomplete"),
            (b"add@/x\0DEVPATH=/x\0", "Incomplete"),
            (b"x@/x\0ACTION=explode\0DEVPATH=/x\0MAJOR=-1\0MINOR=0", "Other /x x - false None"),
        ] {
            assert_eq!(show(datagram), expected, "{}", String::from_utf8_lossy(datagram));
        }
        let long = [b"add@/x\0".to_vec(), b"A=b\0".repeat(PROPERTIES_MAX + 1)].concat();
        assert_eq!(show(&long), "TooLong");
        for end in 0..real.len() {
            let _ = Uevent::parse(&real[..end]);
        }
    }

    #[test]
    fn only_root_and_the_right_sender_are_believed() {
        let udev = crate::udev::PREFIX;
        for (port, uid, datagram, expected) in [
            (0, Some(0), &b"add@/x\0"[..], true),
            (0, None, b"add@/x\0", false),
            (42, Some(0), b"add@/x\0", false),
            (42, Some(0), udev, true),
            (42, Some(1000), udev, false),
            (0, Some(0), udev, false),
        ] {
            assert_eq!(is_trusted(Sender { port, uid }, datagram), expected, "{port} {uid:?}");
        }
    }
}

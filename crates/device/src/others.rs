//! Devices that are no disks and that units wait for all the same: network interfaces, terminals,
//! and what else udev gives the tag `systemd`. They are told of as they are; nothing is read.
//!
//! Without udev these are network interfaces and serial terminals.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use warren_wire::device_link::DeviceFacts;

use crate::sysfs::Roots;
use crate::udev::Record;
use crate::uevent::{Action, Uevent};

/// The tag of devices that have units; systemd.device(5).
pub const TAG: &str = "systemd";

/// Most of them that are looked at.
const OTHERS_MAX: usize = 65_536;

/// What an event tells of such a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OtherEvent {
    /// It is there, in this way.
    There(DeviceFacts),
    /// The device at this path has no unit, or not any more.
    Gone(String),
}

/// All that are there.
pub fn list(roots: &Roots, udev: bool) -> Vec<DeviceFacts> {
    let mut all = tagged(roots);
    if !udev {
        // A udev that is down now has left its word.
        let told: BTreeSet<String> = all.iter().map(|told| told.path.clone()).collect();
        let own = ["net", "tty"].iter().flat_map(|class| of_class(roots, class));
        all.extend(own.filter(|other| !told.contains(&other.path)));
    }
    all
}

/// What an event tells; nothing if it is of a disk or of what has no unit anyway.
pub fn heard(event: &Uevent, udev: bool) -> Option<OtherEvent> {
    if event.is_block() {
        return None;
    }
    let subsystem = event.get("SUBSYSTEM").unwrap_or_default();
    let path = format!("/sys{}", event.path);
    let has_unit = match udev {
        true => event.get("CURRENT_TAGS").or(event.get("TAGS")).is_some_and(is_tagged),
        false => has_unit(subsystem, event.name()),
    };
    if event.action == Action::Remove || udev && !has_unit {
        return Some(OtherEvent::Gone(path));
    }
    let get = |key: &str| event.get(key).map(str::to_owned);
    has_unit.then(|| OtherEvent::There(told(path, subsystem, event.name(), get)))
}

/// `:seat:systemd:`
fn is_tagged(tags: &str) -> bool {
    tags.split(':').any(|tag| tag == TAG)
}

/// What udev's own rules tag, as far as it matters without udev.
fn has_unit(subsystem: &str, name: &str) -> bool {
    let rest = name.strip_prefix("tty").unwrap_or_default();
    let serial = rest.starts_with(|c: char| c.is_ascii_alphabetic())
        || ["hvc", "xvc", "hvsi"].iter().any(|prefix| name.starts_with(prefix));
    subsystem == "net" || subsystem == "tty" && serial
}

fn told(
    path: String,
    subsystem: &str,
    name: &str,
    get: impl Fn(&str) -> Option<String>,
) -> DeviceFacts {
    let words = |key: &str| -> Vec<String> {
        get(key).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let node = get("DEVNAME").map(|node| match node.starts_with('/') {
        true => node,
        false => format!("/dev/{node}"),
    });
    let mut names: Vec<String> = node.into_iter().collect();
    names.extend(words("DEVLINKS"));
    names.extend(words("SYSTEMD_ALIAS").into_iter().filter(|alias| alias.starts_with('/')));
    let by_name = format!("/sys/subsystem/net/devices/{name}");
    if subsystem == "net" && !names.contains(&by_name) {
        names.push(by_name);
    }
    DeviceFacts {
        path,
        names: names.into_iter().map(|name| (name, 0)).collect(),
        ready: get("SYSTEMD_READY").as_deref() != Some("0"),
        wants: words("SYSTEMD_WANTS"),
        title: get("ID_MODEL_FROM_DATABASE").or(get("ID_MODEL")).unwrap_or_default(),
        ..DeviceFacts::default()
    }
}

fn of_class(roots: &Roots, class: &str) -> Vec<DeviceFacts> {
    let entries = fs::read_dir(roots.sys.join("class").join(class));
    let names = entries.into_iter().flatten().flatten().take(OTHERS_MAX);
    let mut names: Vec<String> =
        names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.retain(|name| has_unit(class, name));
    names.sort_unstable();
    let found = |name: String| {
        let (path, uevent) = place(roots, &roots.sys.join("class").join(class).join(&name))?;
        Some(told(path, class, &name, |key| uevent.get(key).cloned()))
    };
    names.into_iter().filter_map(found).collect()
}

/// What udev's database has under the tag, disks left out.
fn tagged(roots: &Roots) -> Vec<DeviceFacts> {
    let entries = fs::read_dir(roots.udev.join("tags").join(TAG));
    let ids = entries.into_iter().flatten().flatten().take(OTHERS_MAX);
    let mut ids: Vec<String> =
        ids.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    ids.retain(|id| !id.starts_with('b'));
    ids.sort_unstable();
    let interfaces = interfaces(roots);
    ids.iter().filter_map(|id| by_id(roots, &interfaces, id)).collect()
}

fn by_id(roots: &Roots, interfaces: &BTreeMap<String, String>, id: &str) -> Option<DeviceFacts> {
    let record = Record::parse(&read(&roots.udev.join("data").join(id))?);
    if !record.is_initialized || !record.tags.iter().any(|tag| tag == TAG) {
        return None;
    }
    let sys = &roots.sys;
    let at = match (id.split_at_checked(1)?, id.get(1..)?.split_once(':')) {
        (("c", number), _) => sys.join("dev/char").join(number),
        (("n", index), _) => sys.join("class/net").join(interfaces.get(index)?),
        (("+", _), Some((subsystem, name))) => {
            let class = sys.join("class").join(subsystem).join(name);
            let bus = || sys.join("bus").join(subsystem).join("devices").join(name);
            if class.exists() { class } else { bus() }
        }
        _ => return None,
    };
    let (path, uevent) = place(roots, &at)?;
    let subsystem = if id.starts_with('n') { "net" } else { "" };
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    let links = record.links.iter().map(|link| (format!("/dev/{link}"), record.link_priority));
    let links: Vec<(String, i32)> = links.collect();
    let get = |key: &str| record.get(key).map(str::to_owned).or(uevent.get(key).cloned());
    let mut told = told(path, subsystem, &name, get);
    told.names.extend(links);
    Some(told)
}

/// Names of network interfaces by their numbers.
fn interfaces(roots: &Roots) -> BTreeMap<String, String> {
    let entries = fs::read_dir(roots.sys.join("class/net"));
    let names = entries.into_iter().flatten().flatten().take(OTHERS_MAX);
    let numbered = names.filter_map(|entry| {
        let index = read(&entry.path().join("ifindex"))?;
        Some((index.trim().to_owned(), entry.file_name().into_string().ok()?))
    });
    numbered.collect()
}

/// Where a link of sysfs leads, as `/sys/devices/...`, and what the kernel says of the device.
fn place(roots: &Roots, link: &Path) -> Option<(String, BTreeMap<String, String>)> {
    let real: PathBuf = fs::canonicalize(link).ok()?;
    let sys = fs::canonicalize(&roots.sys).ok()?;
    let below = real.strip_prefix(sys).ok()?.to_str()?.to_owned();
    let uevent = read(&real.join("uevent"))?;
    let pairs = uevent.lines().filter_map(|line| line.split_once('='));
    Some((
        format!("/sys/{below}"),
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
    ))
}

fn read(path: &Path) -> Option<String> {
    crate::sysfs::read_optional(path).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(told: &DeviceFacts) -> String {
        let names: Vec<&str> = told.names.iter().map(|(name, _)| name.as_str()).collect();
        let wants = told.wants.join(",");
        format!("{} ready={} [{}] +{wants}", told.path, told.ready, names.join(" "))
    }

    fn check(udev: bool, text: &str, expected: &str) {
        let datagram = format!("add@/x\0{}\0", text.replace(' ', "\0").replace('~', " "));
        let event = Uevent::parse(datagram.as_bytes()).expect("an event");
        let got = match heard(&event, udev) {
            None => "-".to_owned(),
            Some(OtherEvent::Gone(path)) => format!("gone {path}"),
            Some(OtherEvent::There(told)) => show(&told),
        };
        assert_eq!(got, expected, "{text}");
    }

    #[test]
    fn events_tell_of_what_has_a_unit() {
        let tty = "ACTION=add DEVPATH=/d/ttyS0 SUBSYSTEM=tty DEVNAME=ttyS0";
        check(false, tty, "/sys/d/ttyS0 ready=true [/dev/ttyS0] +");
        check(true, tty, "gone /sys/d/ttyS0");
        check(
            true,
            &format!("{tty} TAGS=:systemd: DEVLINKS=/dev/a~/dev/b SYSTEMD_WANTS=x.service"),
            "/sys/d/ttyS0 ready=true [/dev/ttyS0 /dev/a /dev/b] +x.service",
        );
        check(true, &format!("{tty} TAGS=:systemd: CURRENT_TAGS=:seat:"), "gone /sys/d/ttyS0");
        let gone = "ACTION=remove DEVPATH=/d/eth0 SUBSYSTEM=net INTERFACE=eth0";
        check(false, gone, "gone /sys/d/eth0");
        check(
            false,
            "ACTION=add DEVPATH=/d/eth0 SUBSYSTEM=net INTERFACE=eth0",
            "/sys/d/eth0 ready=true [/sys/subsystem/net/devices/eth0] +",
        );
        check(false, "ACTION=add DEVPATH=/d/tty1 SUBSYSTEM=tty DEVNAME=tty1", "-");
        check(false, "ACTION=add DEVPATH=/d/sda SUBSYSTEM=block DEVNAME=sda", "-");
    }
}

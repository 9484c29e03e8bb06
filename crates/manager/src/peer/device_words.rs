//! What the device daemon says, as text: the other end is `warren_device::news`. Pure; a line that
//! means nothing is left out, and everything has a bound, as the daemon reads what strangers wrote
//! on disks.

use std::collections::BTreeSet;

use warren_core::model::device_table::{DeviceBatch, DeviceFacts, GroupFacts};

/// Longest value that is believed, in bytes; longer ones are left out.
const VALUE_BYTES_MAX: usize = 4096;

/// Most names, and most wanted units, of one device.
const NAMES_MAX: usize = 1024;

/// A batch, and the places of devices that the kernel told of a change of.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The batch.
    pub batch: DeviceBatch,
    /// Places in sysfs.
    pub changed: BTreeSet<String>,
}

/// What the lines so far are about.
enum About {
    Nothing,
    Device(DeviceFacts),
    Group(GroupFacts),
}

/// Reads a message.
pub fn parse(text: &str) -> Said {
    let mut said = Said::default();
    let mut about = About::Nothing;
    for line in text.lines() {
        let (word, value) = line.split_once(' ').unwrap_or((line, ""));
        if value.len() > VALUE_BYTES_MAX {
            continue;
        }
        let begins = match word {
            "device" => {
                About::Device(DeviceFacts { path: value.to_owned(), ..DeviceFacts::default() })
            }
            "group" => About::Group(GroupFacts { id: value.to_owned(), ..GroupFacts::default() }),
            "gone" => {
                said.batch.gone.push(value.to_owned());
                About::Nothing
            }
            "nogroup" => {
                said.batch.gone_groups.push(value.to_owned());
                About::Nothing
            }
            "whole" => {
                said.batch.is_whole = true;
                continue;
            }
            "changed" => {
                said.changed.insert(value.to_owned());
                continue;
            }
            _ => {
                take_word(&mut about, word, value);
                continue;
            }
        };
        said.finish(std::mem::replace(&mut about, begins));
    }
    said.finish(about);
    said
}

impl Said {
    fn finish(&mut self, about: About) {
        match about {
            About::Nothing => {}
            About::Device(facts) => self.batch.devices.push(facts),
            About::Group(facts) => self.batch.groups.push(facts),
        }
    }
}

fn take_word(about: &mut About, word: &str, value: &str) {
    match about {
        About::Nothing => {}
        About::Device(facts) => match word {
            "name" if facts.names.len() < NAMES_MAX => facts.names.extend(name(value)),
            "wants" if facts.wants.len() < NAMES_MAX => facts.wants.push(value.to_owned()),
            "ready" => facts.ready = true,
            "binds" => facts.binds_mounts = true,
            "unknown" => facts.is_unknown = true,
            "seq" => facts.diskseq = value.parse().unwrap_or(0),
            "note" => facts.note = value.to_owned(),
            "title" => facts.title = value.to_owned(),
            "part" => facts.part_of = Some(value.to_owned()),
            "made" => facts.made_of = Some(value.to_owned()),
            "size" => facts.size_bytes = value.parse().unwrap_or(0),
            _ => {}
        },
        About::Group(facts) => match word {
            "name" => facts.name = value.to_owned(),
            "ready" => facts.is_up = true,
            "starting" => facts.is_starting = true,
            "note" => facts.state = value.to_owned(),
            _ => {}
        },
    }
}

/// `PRIORITY PATH`
fn name(value: &str) -> Option<(String, i32)> {
    let (priority, path) = value.split_once(' ')?;
    Some((path.to_owned(), priority.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_device::news::{Teller, Told, ToldGroup};

    #[test]
    fn what_the_daemon_writes_is_read() {
        let mut teller = Teller::default();
        teller.open();
        teller.device(Told {
            path: "/sys/devices/a".to_owned(),
            names: vec![("/dev/a".to_owned(), 0), ("/dev/disk/by-label/a b".to_owned(), -5)],
            ready: true,
            diskseq: 9,
            is_unknown: true,
            binds_mounts: true,
            wants: vec!["x.service".to_owned()],
            note: "ext4 \"a b\"".to_owned(),
            title: "Disk a b".to_owned(),
            size_bytes: 7,
            part_of: Some("vg:1".to_owned()),
            made_of: None,
        });
        teller.group(ToldGroup {
            id: "vg:1".to_owned(),
            name: "vg data".to_owned(),
            is_up: false,
            is_starting: true,
            state: "1 of 2 there".to_owned(),
        });
        let said = parse(&teller.message().expect("it is open"));
        let facts = DeviceFacts {
            path: "/sys/devices/a".to_owned(),
            names: vec![("/dev/a".to_owned(), 0), ("/dev/disk/by-label/a b".to_owned(), -5)],
            ready: true,
            diskseq: 9,
            is_unknown: true,
            binds_mounts: true,
            wants: vec!["x.service".to_owned()],
            note: "ext4 \"a b\"".to_owned(),
            title: "Disk a b".to_owned(),
            size_bytes: 7,
            part_of: Some("vg:1".to_owned()),
            made_of: None,
        };
        assert!(said.batch.is_whole);
        assert_eq!(said.batch.devices, [facts]);
        let group = &said.batch.groups[0];
        assert!(group.is_starting && group.state == "1 of 2 there", "{group:?}");
        teller.gone("/sys/devices/a");
        teller.group_gone("vg:1");
        let said = parse(&teller.message().expect("something went"));
        assert_eq!(
            (said.batch.is_whole, said.batch.gone),
            (false, vec!["/sys/devices/a".to_owned()])
        );
        assert_eq!(said.batch.gone_groups, ["vg:1"]);
    }

    #[test]
    fn rubbish_does_no_harm() {
        let long = format!("device /x\nnote {}\nready", "x".repeat(VALUE_BYTES_MAX + 1));
        let said = parse(&long);
        assert!(said.batch.devices[0].ready && said.batch.devices[0].note.is_empty());
        for text in ["", "\n\n", "name 0 /dev/x\nready", "size -1", "device", "name x y\ngroup"] {
            let said = parse(text);
            assert!(said.batch.devices.iter().all(|facts| facts.names.is_empty()), "{text}");
        }
    }
}

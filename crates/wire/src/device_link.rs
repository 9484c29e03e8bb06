//! What warren-deviced and the manager say over their link.
//!
//! - Owns: the lines of a message about devices, what is known of a device and of a group, and the packets of the link.
//! - Must not: believe a value without a bound: the daemon reads what strangers wrote on disks.
//! - Runs on the thread of its caller.
//!
//! The manager sends [`ALL`] when it knows nothing, because it is new. The daemon sends [`NEWS`] with a sealed memfd
//! that holds one message: text, with a line for each word about a device, after a line `device PATH` that begins it;
//! `gone PATH` for one that went and `changed PATH` for one of which the kernel told a change; the same for groups.
//! `whole` says that it tells of all there is. A device that is there and of which it cannot be said yet what it is
//! has the word `unknown`. Nothing in it needs quoting: what would break a line is written as `?`.
//!
//! A reader passes over a line whose word it does not know.

use std::collections::BTreeSet;

/// Version of this language.
pub const VERSION: u32 = 1;

/// The name under which the daemon finds its end of the link; sd_listen_fds(3).
pub const LINK_FD_NAME: &str = "warren-devices";

/// A packet with news.
pub const NEWS: &[u8] = b"NEWS";

/// A packet that asks to be told everything.
pub const ALL: &[u8] = b"ALL";

/// Largest message that is believed, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Longest value that is believed, in bytes; longer ones are left out.
const VALUE_BYTES_MAX: usize = 4096;

/// Most names, and most wanted units, of one device.
const NAMES_MAX: usize = 1024;

/// One device, as the device daemon tells of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceFacts {
    /// Its place, `/sys/devices/...`.
    pub path: String,
    /// The kernel's count of disks: another disk at the same place has another one. 0 where there
    /// is none.
    pub diskseq: u64,
    /// It is there, and whoever looks cannot say yet what it is: what was told of it before holds.
    pub is_unknown: bool,
    /// Its node, links to it and aliases, each with its priority.
    pub names: Vec<(String, i32)>,
    /// Whether it counts as there (`SYSTEMD_READY=`).
    pub ready: bool,
    /// `SYSTEMD_WANTS=`: names of units and templates.
    pub wants: Vec<String>,
    /// Mounts of it that no file is for go with it (`SYSTEMD_MOUNT_DEVICE_BOUND=`).
    pub binds_mounts: bool,
    /// For people: what is on it.
    pub note: String,
    /// For people: its model and its label.
    pub title: String,
    /// Size in bytes; 0 where it is not known.
    pub size_bytes: u64,
    /// The group that it is a part of, by [`GroupFacts::id`].
    pub part_of: Option<String>,
    /// The group that it is made from: a volume of its volume group.
    pub made_of: Option<String>,
}

/// What the daemon tells at once.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceBatch {
    /// It tells of all there is: what it does not name is gone.
    pub is_whole: bool,
    /// Devices that came or changed.
    pub devices: Vec<DeviceFacts>,
    /// Places in sysfs of devices that went.
    pub gone: Vec<String>,
    /// Groups that came or changed.
    pub groups: Vec<GroupFacts>,
    /// Groups that went, by [`GroupFacts::id`].
    pub gone_groups: Vec<String>,
}

/// A group of devices: a volume group, an array, a file system of several devices.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GroupFacts {
    /// Its kind and identifier, `vg:Wm3x...`.
    pub id: String,
    /// What people call it: `vg data`.
    pub name: String,
    /// It is started, or needs no start.
    pub is_up: bool,
    /// Its start is under way.
    pub is_starting: bool,
    /// How it stands: what it waits for, why it is held, what went wrong.
    pub state: String,
}

/// A batch, and the places of devices that the kernel told of a change of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The batch.
    pub batch: DeviceBatch,
    /// Places in sysfs.
    pub changed: BTreeSet<String>,
}

/// A message that is being written.
#[derive(Debug, Default)]
pub struct Writer(String);

impl Writer {
    /// It tells of all there is.
    pub fn whole(&mut self) {
        self.0 += "whole\n";
    }

    /// The kernel told of a change of the device at this place.
    pub fn changed(&mut self, path: &str) {
        self.put("changed", path);
    }

    /// The device at this place went.
    pub fn gone(&mut self, path: &str) {
        self.put("gone", path);
    }

    /// A device came or changed.
    pub fn device(&mut self, facts: &DeviceFacts) {
        self.put("device", &facts.path);
        if facts.diskseq > 0 {
            self.put("seq", &facts.diskseq.to_string());
        }
        for (name, priority) in &facts.names {
            self.put("name", &format!("{priority} {name}"));
        }
        self.say(facts.ready, "ready");
        self.say(facts.is_unknown, "unknown");
        self.say(facts.binds_mounts, "binds");
        facts.wants.iter().for_each(|unit| self.put("wants", unit));
        for (word, text) in [("note", &facts.note), ("title", &facts.title)] {
            if !text.is_empty() {
                self.put(word, text);
            }
        }
        for (word, group) in [("part", &facts.part_of), ("made", &facts.made_of)] {
            group.iter().for_each(|group| self.put(word, group));
        }
        if facts.size_bytes > 0 {
            self.put("size", &facts.size_bytes.to_string());
        }
    }

    /// A group came or changed.
    pub fn group(&mut self, facts: &GroupFacts) {
        self.put("group", &facts.id);
        self.put("name", &facts.name);
        self.say(facts.is_up, "ready");
        self.say(facts.is_starting, "starting");
        self.put("note", &facts.state);
    }

    /// The group with this identifier went.
    pub fn group_gone(&mut self, id: &str) {
        self.put("nogroup", id);
    }

    /// The message.
    pub fn finish(self) -> String {
        self.0
    }

    fn put(&mut self, word: &str, value: &str) {
        let value = value.chars().map(|c| if c.is_control() { '?' } else { c });
        self.0.extend(word.chars().chain([' ']).chain(value).chain(['\n']));
    }

    fn say(&mut self, is_so: bool, word: &str) {
        if is_so {
            self.0 += word;
            self.0.push('\n');
        }
    }
}

/// What the lines so far are about.
enum About {
    Nothing,
    Device(DeviceFacts),
    Group(GroupFacts),
}

/// Reads a message. A line that means nothing is passed over.
pub fn read(text: &str) -> Message {
    let mut said = Message::default();
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

impl Message {
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

    #[test]
    fn rubbish_does_no_harm() {
        let long = format!("device /x\nnote {}\nready", "x".repeat(VALUE_BYTES_MAX + 1));
        let said = read(&long);
        assert!(said.batch.devices[0].ready && said.batch.devices[0].note.is_empty());
        for text in ["", "\n\n", "name 0 /dev/x\nready", "size -1", "device", "name x y\ngroup"] {
            let said = read(text);
            assert!(said.batch.devices.iter().all(|facts| facts.names.is_empty()), "{text}");
        }
    }

    #[test]
    fn a_device_has_so_many_names_and_no_more() {
        let names = |word: &str, value: &str| format!("{word} {value}\n").repeat(NAMES_MAX + 1);
        let text =
            format!("device /x\n{}{}", names("name", "0 /dev/x"), names("wants", "a.service"));
        let facts = read(&text).batch.devices.remove(0);
        assert_eq!((facts.names.len(), facts.wants.len()), (NAMES_MAX, NAMES_MAX));
    }

    #[test]
    fn a_line_of_a_newer_daemon_is_passed_over() {
        let said = read("colour blue\ndevice /a\nready\ncolour red\nsize 7\n");
        let facts = DeviceFacts { ready: true, size_bytes: 7, ..DeviceFacts::default() };
        assert_eq!(said.batch.devices, [DeviceFacts { path: "/a".to_owned(), ..facts }]);
    }
}

//! The scenario table, in a small notation, and what holds whatever the order.
//!
//! ```text
//! vg data@3 ab          a text: group data, sequence number 3, members a and b
//! + sda a data@3        a disk with PVID a that carries it
//! - sda                 it goes
//! boot                  everything that was there at boot has been told
//! ? data                how the group stands
//! ```
//! Behind `=>` stands what is decided, or answered. Words after the members of a `vg` line:
//! `exported`, `shared`, `manual`, `owner=HOST`, `id=LETTER` (otherwise the first letter of the
//! label), `name=NAME`, `root:ab` (a volume root on a and b), `r:a|b` (a mirror), `root!:a` (not
//! to be activated by itself).

use super::decide::startable;
use super::oracle::{Answer, Texts, evaluate};
use super::*;
use crate::lvm::group::{Marks, Member, Part, Quorum, Standing, Volume};

mod properties;
mod scenarios;

/// An index with what the notation names.
pub(super) struct Bench {
    pub index: Index,
    pub texts: Texts,
    labels: BTreeMap<String, TextKey>,
    now_ms: u64,
}

fn id(letter: &str) -> LvmId {
    LvmId::parse(&letter.repeat(32)).expect("a letter")
}

fn uuid(letter: &str) -> Uuid {
    Uuid([letter.as_bytes()[0]; 16])
}

/// `sda` is 8:0, `sdb` 8:1; `sda2` is another disk under the number of `sda`.
fn number(name: &str) -> DeviceNumber {
    let letter = name.as_bytes()[2];
    DeviceNumber { major: 8, minor: u32::from(letter - b'a') }
}

impl Bench {
    pub fn new(policy: Policy) -> Bench {
        let (texts, labels) = (Texts::new(), BTreeMap::new());
        Bench { index: Index::new(policy), texts, labels, now_ms: 0 }
    }

    /// One line; what it decides or answers.
    pub fn run(&mut self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let event = match words[..] {
            ["vg", label, members, ref rest @ ..] => return self.define(label, members, rest),
            ["?", label] => return self.state(label),
            ["late", seconds] => {
                self.now_ms += seconds.parse::<u64>().expect("seconds") * 1000;
                Event::Time
            }
            ["boot"] => Event::ColdplugDone,
            ["-", name] => Event::Removed(number(name)),
            ["rescan", ref disks @ ..] => return self.rescan(disks),
            ["lost", name, label] => self.answer(name, label, false),
            ["read", name, label] => self.answer(name, label, true),
            ["+", name, ref rest @ ..] => self.arrival(name, rest, true),
            ["unread", name, ref rest @ ..] => self.arrival(name, rest, false),
            _ => panic!("not in the notation: {line}"),
        };
        self.step(event)
    }

    fn step(&mut self, event: Event) -> String {
        let decisions = self.index.step(self.now_ms, event);
        decisions.iter().map(|decision| self.show(decision)).collect::<Vec<_>>().join("; ")
    }

    fn answer(&self, name: &str, label: &str, readable: bool) -> Event {
        let key = self.labels[label];
        let group = readable.then(|| self.texts[&key].clone());
        Event::Text { device: number(name), key, group }
    }

    /// `b` before a letter of the members: a blank list of texts; `-`: none.
    fn arrival(&self, name: &str, words: &[&str], read: bool) -> Event {
        let (device, labels) = device(name, words, &self.labels);
        let texts = labels.iter().filter(|_| read).map(|key| (*key, self.texts[key].clone()));
        Event::Arrived { device, texts: texts.collect() }
    }

    /// Each word is `name=words,with,commas`.
    fn rescan(&mut self, disks: &[&str]) -> String {
        let mut out = vec![self.step(Event::RescanBegun)];
        for disk in disks {
            let (name, words) = disk.split_once('=').expect("name=words");
            let words: Vec<&str> = words.split(',').collect();
            let event = self.arrival(name, &words, true);
            out.push(self.step(event));
        }
        out.push(self.step(Event::RescanDone));
        out.retain(|decided| !decided.is_empty());
        out.join("; ")
    }

    fn define(&mut self, label: &str, members: &str, words: &[&str]) -> String {
        let group = Arc::new(group(label, members, words));
        let key = TextKey { checksum: self.labels.len() as u32, bytes: 100 };
        self.texts.insert(key, group);
        self.labels.insert(label.to_owned(), key);
        String::new()
    }

    fn name(&self, group: GroupId) -> String {
        match group {
            GroupId::Lvm(vg) => {
                let name = self.index.volume_group(vg).map_or("?", |g| g.name.as_str());
                format!("{name}/{}", &vg.plain()[..1])
            }
            GroupId::Md(id) => format!("md/{}", id.0[0] as char),
            GroupId::Btrfs(id) => format!("btrfs/{}", id.0[0] as char),
            GroupId::Luks(id) => format!("luks/{}", id.0[0] as char),
        }
    }

    fn show(&self, decision: &Decision) -> String {
        match decision {
            Decision::Activate(starts) => {
                let starts = starts.iter().map(|start| self.show_start(start));
                starts.collect::<Vec<_>>().join(" + ")
            }
            Decision::ReadText { device, key } => {
                let label = self.labels.iter().find(|(_, k)| *k == key).expect("a label").0;
                let letter = char::from(b'a' + device.minor as u8);
                format!("ask sd{letter} {label}")
            }
        }
    }

    fn show_start(&self, start: &Start) -> String {
        let name = self.name(start.group);
        match &start.scope {
            Scope::Whole => format!("start {name}"),
            Scope::Volumes(names) => format!("start {name} {}", names.join(",")),
            Scope::Degraded(names) => format!("degraded {name} {}", names.join(",")).trim().into(),
        }
    }

    fn state(&self, label: &str) -> String {
        let named = |id: &GroupId| self.name(*id) == label;
        let Some(group) = self.index.groups().into_iter().find(named) else { return "gone".into() };
        let state = match self.index.state(group).expect("it was listed") {
            GroupState::Complete => "complete".to_owned(),
            GroupState::Held(hold) => hold.to_string(),
            GroupState::Waiting { missing, of } => format!("waits for {missing} of {of}"),
        };
        let GroupId::Lvm(vg) = group else { return state };
        let missing = self.index.missing(vg);
        let missing = missing.map(|m| format!(" {}({})", &m.id.plain()[..1], m.last_seen));
        format!("{state}{}", missing.collect::<String>())
    }

    /// What the index thinks of every group, as the oracle says it.
    pub fn answer_of_index(&self) -> Answer {
        let answer = |id: GroupId| {
            let state = self.index.state(id).expect("it was listed");
            let volumes = match id {
                GroupId::Lvm(vg) => {
                    let truth = self.index.volume_group(vg).expect("it was listed");
                    let standings = self.index.standings(vg);
                    let complete = (0..standings.len())
                        .filter(|&number| standings[number] == Standing::Complete);
                    startable(truth, complete)
                }
                _ => Vec::new(),
            };
            (id, (state, volumes))
        };
        self.index.groups().into_iter().map(answer).collect()
    }

    pub fn check_against_oracle(&self, context: &str) {
        let devices: Vec<Device> = self.index.devices().cloned().collect();
        let expected = evaluate(&devices, &self.texts, self.index.policy());
        assert_eq!(self.answer_of_index(), expected, "{context}");
        for id in self.index.groups() {
            let GroupId::Lvm(vg) = id else { continue };
            let group = self.index.vgs.get(vg).expect("it was listed");
            let truth = group.truth().expect("every group has one");
            let namesakes = self.index.vgs.ids().filter_map(|id| self.index.volume_group(id));
            let namesakes = namesakes.filter(|other| other.name == truth.name).count();
            assert_eq!(self.index.groups_named(&truth.name), namesakes as u32, "{context}");
            let counted = startable(truth, group.complete_volumes());
            let per_volume = self.index.policy().completeness == Completeness::Volume;
            assert_eq!(
                counted,
                if per_volume { expected[&id].1.clone() } else { vec![] },
                "{context}"
            );
        }
    }
}

/// A disk of the notation, and the texts on it.
fn device(
    name: &str,
    words: &[&str],
    labels: &BTreeMap<String, TextKey>,
) -> (Device, Vec<TextKey>) {
    let (facts, words): (Vec<&str>, Vec<&str>) = words.iter().partition(|w| w.starts_with('#'));
    let mut keys = Vec::new();
    let role = match words[..] {
        ["md", set, place, places, events] => Role::Md(MdMember {
            version: crate::md::Version::V12,
            array: uuid(set),
            name: String::new(),
            level: 5,
            raid_disks: places.rsplit("of").next().expect("a word").parse().expect("a count"),
            working: places.split("of").next().expect("a word").parse().expect("a count"),
            events: events.parse().expect("a count"),
            role: place.parse().map_or(crate::md::Role::Spare, crate::md::Role::Active),
        }),
        ["btrfs", fsid, devid, of] => Role::Btrfs {
            fsid: uuid(fsid),
            devid: devid.parse().expect("a number"),
            num_devices: of.parse().expect("a count"),
            generation: 1,
        },
        ["luks", letter] => Role::Luks(uuid(letter)),
        [pv, "unused"] => Role::Lvm { pv: id(pv), used: false, texts: Vec::new() },
        [pv, "-"] => Role::Lvm { pv: id(pv), used: true, texts: Vec::new() },
        [pv, texts] => {
            keys = texts.split('+').map(|label| labels[label]).collect();
            Role::Lvm { pv: id(pv), used: true, texts: keys.clone() }
        }
        _ => Role::Plain("nothing known"),
    };
    let device = Device {
        number: number(name),
        diskseq: name.len() as u64,
        name: name.to_owned(),
        path: format!("/devices/block/{name}"),
        links: vec![format!("disk/by-id/{name}"), "disk/by-label/same".into()],
        link_priority: 0,
        facts: facts_of(&facts),
        role,
    };
    (device, keys)
}

fn facts_of(words: &[&str]) -> Facts {
    let mut facts = Facts::default();
    for word in words {
        match *word {
            "#path" => facts.multipath_path = true,
            "#leg" => facts.held_by = Holder::Raid,
            "#mpath-held" => facts.held_by = Holder::Multipath,
            "#lv" => facts.dm_uuid = "LVM-abc".into(),
            "#inactive" => facts.not_ready = Some(NotReady::ArrayInactive),
            "#private" => facts.others_disabled = true,
            _ => panic!("not a fact: {word}"),
        }
    }
    facts
}

fn group(label: &str, members: &str, words: &[&str]) -> VolumeGroup {
    let (name, seqno) = label.split_once('@').expect("name@seqno");
    let option = |key: &str| words.iter().find_map(|word| word.strip_prefix(key));
    let has = |word: &str| words.contains(&word);
    let member = |letter: char| Member {
        id: id(&letter.to_string()),
        device_hint: "/dev/hint".into(),
        device_bytes: 1 << 20,
        written_off: option("lost=").is_some_and(|lost| lost.contains(letter)),
    };
    VolumeGroup {
        id: id(option("id=").unwrap_or(&name[..1])),
        name: option("name=").unwrap_or(name).to_owned(),
        seqno: seqno.parse().expect("a number"),
        system_id: option("owner=").unwrap_or_default().to_owned(),
        marks: Marks {
            exported: has("exported"),
            shared: has("shared"),
            no_auto_activation: has("manual"),
        },
        members: members.chars().map(member).collect(),
        volumes: words.iter().filter_map(|word| volume(word, members)).collect(),
    }
}

fn volume(word: &str, members: &str) -> Option<Volume> {
    let (name, parts) = word.split_once(':')?;
    let part =
        |letter: char| Part::Member(members.find(letter).expect("a member of the group") as u32);
    let legs: Vec<Vec<Part>> =
        parts.split('|').map(|leg| leg.chars().map(part).collect()).collect();
    Some(Volume {
        name: name.trim_end_matches('!').to_owned(),
        id: None,
        visible: true,
        auto_activation: !name.ends_with('!'),
        extents: 1,
        needs: vec![Quorum { legs, needed: 1 }],
        snapshots: Vec::new(),
    })
}

//! What the process that reads devices asks the one that has privileges to do, and what of that is
//! done. Pure.
//!
//! A hostile label may turn the reader into anything, so an order is believed only if it is one
//! that this daemon makes of honest disks: its programs with their words, its files of lvm2, its
//! links. The worst that is left is to start a group or to call a device by a wrong name.
//!
//! A message is a line of JSON for each order.

use serde_json::{Value, json};

use crate::activate::RunFile;
use crate::begun::StartRecord;
use crate::index::{DeviceNumber, GroupId};
use crate::lvm::LvmId;

/// One thing to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecutorOrder {
    /// A file of lvm2 is written.
    Write(RunFile),
    /// lvm2's file of a PV goes, if it is of this device.
    Remove(String, DeviceNumber),
    /// A link below `/dev` leads to this node from now on, or goes.
    Link(String, Option<String>),
    /// The kernel learns that this device is a member of a file system on several; told by a number
    /// when it has.
    Register(u64, String),
    /// It is kept what was started of a group, or forgotten.
    Keep(GroupId, Option<StartRecord>),
    /// A program is run.
    Run(Run),
    /// The manager learns that this daemon is well: the process that reads disks sees no socket of it.
    Alive,
}

/// A program to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// By which its end is told.
    pub id: u64,
    /// udev makes nodes and links, and is to be waited for.
    pub udev: bool,
    /// Program and arguments.
    pub words: Vec<String>,
}

/// What is said back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// What had a number came to its end, or never began.
    Ended(u64, Result<(), String>),
    /// What went wrong with anything else.
    Trouble(String),
}

/// Longest name of lvm2, in bytes.
const LVM_NAME_BYTES_MAX: usize = 127;

/// Longest name of a file, in bytes.
const FILE_NAME_BYTES_MAX: usize = 255;

/// Longest path of a node, in bytes.
const NODE_BYTES_MAX: usize = 1024;

/// Directories of links that are made.
pub const LINK_DIRECTORIES: [&str; 4] = ["by-uuid", "by-label", "by-partuuid", "by-partlabel"];

impl ExecutorOrder {
    /// Why it is not carried out.
    pub fn refusal(&self) -> Option<String> {
        let (is_fine, what) = match self {
            ExecutorOrder::Write(file) => (is_run_path(&file.path), &file.path),
            ExecutorOrder::Remove(path, _) => (is_online_path(path), path),
            ExecutorOrder::Link(link, node) => {
                (is_link(link) && node.as_deref().is_none_or(is_relative), link)
            }
            ExecutorOrder::Register(_, node) => (is_node(node), node),
            // What is none of its kind could not be read.
            ExecutorOrder::Keep(..) | ExecutorOrder::Alive => return None,
            ExecutorOrder::Run(run) => (is_program(&run.words), &run.words.join(" ")),
        };
        (!is_fine).then(|| {
            let what: String = what.chars().take(NODE_BYTES_MAX).collect();
            format!("refused: not a command of this daemon: {}", crate::bytes::printable(&what))
        })
    }

    fn to_json(&self) -> Value {
        match self {
            ExecutorOrder::Write(file) => json!(["write", file.path, file.text]),
            ExecutorOrder::Remove(path, number) => json!(["remove", path, number.to_string()]),
            ExecutorOrder::Link(link, node) => json!(["link", link, node]),
            ExecutorOrder::Register(id, node) => json!(["register", id, node]),
            ExecutorOrder::Keep(group, begun) => {
                json!(["keep", group.to_string(), begun.as_ref().map(StartRecord::to_text)])
            }
            ExecutorOrder::Run(run) => json!(["run", run.id, run.udev, run.words]),
            ExecutorOrder::Alive => json!(["alive"]),
        }
    }

    fn of_json(value: &Value) -> Option<ExecutorOrder> {
        let text = |at: usize| value.get(at)?.as_str().map(str::to_owned);
        Some(match value.get(0)?.as_str()? {
            "write" => ExecutorOrder::Write(RunFile { path: text(1)?, text: text(2)? }),
            "remove" => ExecutorOrder::Remove(text(1)?, DeviceNumber::parse(&text(2)?)?),
            "link" if value.get(2)?.is_null() => ExecutorOrder::Link(text(1)?, None),
            "link" => ExecutorOrder::Link(text(1)?, Some(text(2)?)),
            "register" => ExecutorOrder::Register(value.get(1)?.as_u64()?, text(2)?),
            "alive" => ExecutorOrder::Alive,
            "keep" if value.get(2)?.is_null() => {
                ExecutorOrder::Keep(GroupId::parse(&text(1)?)?, None)
            }
            "keep" => ExecutorOrder::Keep(
                GroupId::parse(&text(1)?)?,
                Some(StartRecord::parse(&text(2)?)?),
            ),
            "run" => {
                let words = value.get(3)?.as_array()?.iter();
                let words = words.map(|word| word.as_str().map(str::to_owned));
                ExecutorOrder::Run(Run {
                    id: value.get(1)?.as_u64()?,
                    udev: value.get(2)?.as_bool()?,
                    words: words.collect::<Option<_>>()?,
                })
            }
            _ => return None,
        })
    }
}

/// Orders as one message.
pub fn write(orders: &[ExecutorOrder]) -> String {
    orders.iter().map(|order| format!("{}\n", order.to_json())).collect()
}

/// The orders of a message; `None` for each line that is none.
pub fn read(message: &str) -> impl Iterator<Item = Option<ExecutorOrder>> + '_ {
    message.lines().map(|line| ExecutorOrder::of_json(&serde_json::from_str(line).ok()?))
}

impl Answer {
    /// As a message.
    pub fn write(&self) -> String {
        match self {
            Answer::Ended(id, result) => json!(["ended", id, result.as_ref().err()]),
            Answer::Trouble(line) => json!(["trouble", line]),
        }
        .to_string()
    }

    /// Reads a message.
    pub fn read(message: &str) -> Option<Answer> {
        let value: Value = serde_json::from_str(message).ok()?;
        let text = |at: usize| value.get(at)?.as_str().map(str::to_owned);
        match value.get(0)?.as_str()? {
            "ended" => Some(Answer::Ended(value.get(1)?.as_u64()?, text(2).map_or(Ok(()), Err))),
            "trouble" => text(1).map(Answer::Trouble),
            _ => None,
        }
    }
}

// ---- what is believed ----

/// lvm(8): letters, digits and `+_.-`, no hyphen first.
pub(crate) fn is_lvm_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"+_.-".contains(&b);
    let is_dots = matches!(name, "" | "." | "..");
    !is_dots
        && name.len() <= LVM_NAME_BYTES_MAX
        && !name.starts_with('-')
        && name.bytes().all(plain)
}

fn is_online_path(path: &str) -> bool {
    path.strip_prefix("pvs_online/").is_some_and(|pv| pv.len() == 32 && LvmId::parse(pv).is_some())
}

fn is_run_path(path: &str) -> bool {
    let group = ["pvs_lookup/", "vgs_online/"].iter().find_map(|dir| path.strip_prefix(dir));
    is_online_path(path) || group.is_some_and(is_lvm_name)
}

fn is_file_name(name: &str) -> bool {
    let odd = |c: char| c == '/' || c.is_control();
    !matches!(name, "" | "." | "..") && name.len() <= FILE_NAME_BYTES_MAX && !name.contains(odd)
}

fn is_relative(path: &str) -> bool {
    path.len() <= NODE_BYTES_MAX && path.split('/').all(is_file_name)
}

fn is_node(path: &str) -> bool {
    path.strip_prefix("/dev/").is_some_and(is_relative)
}

fn is_link(link: &str) -> bool {
    let Some((directory, name)) = link.strip_prefix("disk/").and_then(|l| l.split_once('/')) else {
        return false;
    };
    LINK_DIRECTORIES.contains(&directory) && is_file_name(name)
}

/// The command lines that [`crate::activate::plan`] makes and no others.
fn is_program(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["lvm", "vgchange", "-aay", "--autoactivation", "event", ref groups @ ..] => {
            !groups.is_empty() && groups.iter().all(|name| is_lvm_name(name))
        }
        ["lvm", verb @ ("vgchange" | "lvchange"), "-aay", ref rest @ ..] => {
            let rest = rest.strip_prefix(&["--activationmode", "degraded"]).unwrap_or(rest);
            is_selection(verb, rest)
        }
        ["mdadm", "--assemble", ref rest @ ..] => {
            let rest = rest.strip_prefix(&["--run"]).unwrap_or(rest);
            is_assembly(rest)
        }
        _ => false,
    }
}

/// `--devices NODE`, once or more, then groups or volumes.
fn is_selection(verb: &str, words: &[&str]) -> bool {
    let mut rest = words;
    while let ["--devices", node, more @ ..] = rest
        && is_node(node)
    {
        rest = more;
    }
    let is_volume = |name: &str| {
        name.split_once('/').is_some_and(|(vg, lv)| is_lvm_name(vg) && is_lvm_name(lv))
    };
    let is_target =
        |name: &&str| if verb == "vgchange" { is_lvm_name(name) } else { is_volume(name) };
    rest.len() < words.len() && !rest.is_empty() && rest.iter().all(is_target)
}

/// `--uuid=ID /dev/md/NAME NODE...`
fn is_assembly(words: &[&str]) -> bool {
    let [uuid, array, nodes @ ..] = words else { return false };
    let hex = |b: u8| b.is_ascii_hexdigit() || b == b':';
    let is_uuid =
        uuid.strip_prefix("--uuid=").is_some_and(|id| id.len() == 35 && id.bytes().all(hex));
    let is_array =
        array.strip_prefix("/dev/md/").is_some_and(|n| is_lvm_name(n) && is_file_name(n));
    is_uuid && is_array && !nodes.is_empty() && nodes.iter().all(|node| is_node(node))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> ExecutorOrder {
        let words = line.split(' ').map(str::to_owned).collect();
        ExecutorOrder::Run(Run { id: 7, udev: true, words })
    }

    #[track_caller]
    fn check(order: ExecutorOrder, is_done: bool) {
        assert_eq!(order.refusal().is_none(), is_done, "{order:?}");
        let message = write(std::slice::from_ref(&order));
        assert_eq!(read(&message).collect::<Vec<_>>(), [Some(order)], "{message}");
    }

    #[test]
    fn programs_are_those_of_the_plan() {
        for line in [
            "lvm vgchange -aay --autoactivation event data one",
            "lvm vgchange -aay --devices /dev/sda --devices /dev/mapper/a data",
            "lvm lvchange -aay --activationmode degraded --devices /dev/sda data/home data/root",
            "mdadm --assemble --run --uuid=00112233:44556677:8899aabb:ccddeeff /dev/md/arr /dev/sdc",
            "mdadm --assemble --uuid=00112233:44556677:8899aabb:ccddeeff /dev/md/0 /dev/sdc /dev/sdd",
        ] {
            check(run(line), true);
        }
        for line in [
            "",
            "sh -c id",
            "lvm",
            "lvm vgremove -aay data",
            "lvm vgchange -aay --autoactivation event",
            "lvm vgchange -aay --autoactivation event --config x",
            "lvm vgchange -aay --autoactivation event a/../b",
            "lvm vgchange -aay data",
            "lvm vgchange -aay --devices /dev/sda",
            "lvm vgchange -aay --devices /etc/passwd data",
            "lvm vgchange -aay --devices /dev/../etc/passwd data",
            "lvm vgchange -aay --devices /dev/sda --config x",
            "lvm lvchange -aay --devices /dev/sda data",
            "lvm lvchange -aay --devices /dev/sda data/-x",
            "mdadm --assemble --uuid=00112233:44556677:8899aabb:ccddeeff /dev/md/../x /dev/sdc",
            "mdadm --assemble --uuid=00112233:44556677:8899aabb:ccddeeff /dev/md/x",
            "mdadm --assemble --uuid=x /dev/md/x /dev/sdc",
            "mdadm --assemble --config=/x --uuid=00112233:44556677:8899aabb:ccddeeff /dev/md/x /dev/a",
            "/bin/mdadm --assemble --uuid=00112233:44556677:8899aabb:ccddeeff /dev/md/x /dev/a",
        ] {
            check(run(line), false);
        }
    }

    #[test]
    fn files_and_links_stay_where_they_belong() {
        let file = |path: &str| {
            ExecutorOrder::Write(RunFile { path: path.to_owned(), text: "x\n".to_owned() })
        };
        let pv = "a".repeat(32);
        check(file(&format!("pvs_online/{pv}")), true);
        check(file("pvs_lookup/data"), true);
        check(file("vgs_online/data"), true);
        for path in ["", "/etc/passwd", "pvs_online/x", "vgs_online/../x", "vgs_online/", "x/data"]
        {
            check(file(path), false);
        }
        let number = DeviceNumber { major: 8, minor: 1 };
        check(ExecutorOrder::Remove(format!("pvs_online/{pv}"), number), true);
        check(ExecutorOrder::Remove("vgs_online/data".to_owned(), number), false);
        let link = |link: &str, node: Option<&str>| {
            ExecutorOrder::Link(link.to_owned(), node.map(str::to_owned))
        };
        check(link("disk/by-uuid/x", Some("sda")), true);
        check(link("disk/by-label/a\\x20b", Some("cciss/c0d0")), true);
        check(link("disk/by-partlabel/ä", None), true);
        for (place, node) in [
            ("disk/by-path/x", None),
            ("disk/by-uuid/../x", None),
            ("disk/by-uuid/", None),
            ("disk/by-uuid/a\nb", None),
            ("sda", Some("sdb")),
            ("disk/by-uuid/x", Some("../etc/passwd")),
            ("disk/by-uuid/x", Some("/etc/passwd")),
        ] {
            check(link(place, node), false);
        }
        check(ExecutorOrder::Register(1, "/dev/sda".to_owned()), true);
        check(ExecutorOrder::Register(1, "/etc/passwd".to_owned()), false);
        let group = GroupId::parse("md:00112233-4455-6677-8899-aabbccddeeff").expect("a group");
        let volumes = ["home".to_owned()].into();
        check(
            ExecutorOrder::Keep(group, Some(StartRecord { volumes, ..StartRecord::default() })),
            true,
        );
        check(ExecutorOrder::Keep(group, None), true);
    }

    #[test]
    fn what_is_no_order_is_none() {
        let odd = ["[\"keep\",\"../x\",null]", "[\"keep\",\"vg:x\",\"whole\\n\"]"];
        for line in odd.into_iter().chain([
            "",
            "x",
            "[]",
            "[\"run\"]",
            "[\"run\",-1,true,[]]",
            "[\"link\",1,null]",
            "{}",
        ]) {
            assert_eq!(read(&format!("{line}\n")).collect::<Vec<_>>(), [None], "{line}");
        }
        let answers = [
            Answer::Ended(3, Ok(())),
            Answer::Ended(4, Err("no\n".into())),
            Answer::Trouble("x".into()),
        ];
        for answer in answers {
            assert_eq!(Answer::read(&answer.write()), Some(answer));
        }
        assert_eq!(Answer::read("[\"ended\"]"), None);
    }
}

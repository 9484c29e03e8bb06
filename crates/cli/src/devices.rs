//! `warren devices`: what the manager was told of devices, as a tree. `scan` is in
//! [`crate::devices_scan`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use warren_wire::control::{
    ActiveState, DeviceGroup, DeviceRow, DevicesAnswer, LoadState, WhyAnswer,
};

use crate::output::{Style, Tone, bytes, cleaned, tone_of_state};

/// A line of text; writing to a String cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => { writeln!($out, $($arg)*).expect("a string grows") };
}

/// The unit of whoever looks for devices.
pub const DAEMON: &str = "warren-deviced.service";

/// That nobody looks for devices, with what there is to be done; `why` is the answer of `Why` about [`DAEMON`].
pub fn nobody(why: Option<&WhyAnswer>) -> String {
    let why = why.map(cleaned);
    let daemon = why.as_ref().and_then(|why| why.units.first()?.path.first());
    let is_installed =
        |load: &LoadState| *load != LoadState::NotFound && *load != LoadState::default();
    let daemon = daemon.filter(|step| is_installed(&step.row.load));
    let unmet = daemon
        .and_then(|step| [&step.unmet, &step.unmet_then].into_iter().flatten().flatten().next());
    let more = match (daemon, unmet) {
        (None, _) => format!("{DAEMON} is not installed here."),
        (_, Some(unmet)) => {
            format!("{DAEMON} does not run here: its condition {unmet} is not met.")
        }
        (Some(step), _) if step.row.active == ActiveState::Failed => {
            "It has failed: warren why warren-deviced".to_owned()
        }
        _ => "To look for devices: warren start warren-deviced".to_owned(),
    };
    format!("warren-deviced is not running: all devices are assumed to be present.\n{more}\n")
}

/// The answer of `Devices` when somebody looks: each group with what it lies on and what is made of it, then the other
/// disks, then what is waited for.
pub fn tree(answer: &DevicesAnswer, style: Style) -> String {
    let answer = &*cleaned(answer);
    let mut out = String::new();
    let mut parts: BTreeMap<&str, Vec<&DeviceRow>> = BTreeMap::new();
    let mut made: BTreeMap<&str, Vec<&DeviceRow>> = BTreeMap::new();
    for row in &answer.devices {
        row.part_of.iter().for_each(|id| parts.entry(id).or_default().push(row));
        row.made_of.iter().for_each(|id| made.entry(id).or_default().push(row));
    }
    for group in &answer.groups {
        let id = group.id.as_str();
        group_lines(&mut out, group, parts.get(id), made.get(id), style);
    }
    // What is made of a group whose disks nobody could read is shown by itself.
    let shown: BTreeSet<&str> = answer.groups.iter().map(|group| group.id.as_str()).collect();
    let is_in_none = |group: &Option<String>| group.as_deref().is_none_or(|id| !shown.contains(id));
    let is_plain = |row: &&DeviceRow| is_in_none(&row.part_of) && is_in_none(&row.made_of);
    let is_shown = |row: &&DeviceRow| is_disk(row) || !row.users.is_empty();
    for row in answer.devices.iter().filter(is_plain).filter(is_shown) {
        put!(out, "{}", device_line(row, style));
    }
    for wait in &answer.waiting {
        let users: Vec<&str> = wait.users.iter().map(|user| user.name.as_str()).collect();
        let unit = style.paint(Tone::Warn, &wait.unit);
        let why = wait.why.as_deref().unwrap_or_default();
        put!(out, "{unit} is waited for by {}: {why}", users.join(", "));
    }
    out
}

fn group_lines(
    out: &mut String,
    group: &DeviceGroup,
    parts: Option<&Vec<&DeviceRow>>,
    made: Option<&Vec<&DeviceRow>>,
    style: Style,
) {
    let tone = if group.up { Tone::Good } else { Tone::Warn };
    put!(out, "{} {}", style.paint(tone, &group.name), group.state);
    let below = parts.into_iter().flatten().map(|row| ("on", row));
    let above = made.into_iter().flatten().map(|row| ("gives", row));
    let lines: Vec<(&str, &&DeviceRow)> = below.chain(above).collect();
    for (i, (word, row)) in lines.iter().enumerate() {
        let branch = if i + 1 == lines.len() { "└─" } else { "├─" };
        put!(out, "{branch} {word} {}", device_line(row, style));
    }
}

fn device_line(row: &DeviceRow, style: Style) -> String {
    let mut line = best_name(row).to_owned();
    if row.size > 0 {
        line += &format!("  {}", bytes(row.size));
    }
    if !row.note.is_empty() {
        line += &format!("  {}", row.note);
    }
    if !row.ready {
        line += &format!("  {}", style.paint(Tone::Warn, "not ready"));
    }
    for user in &row.users {
        let active = user.active.as_str();
        line += &format!("  → {} {}", user.name, style.paint(tone_of_state(active), active));
    }
    line
}

/// The name that people know: of a volume the one below its group, else the node.
fn best_name(row: &DeviceRow) -> &str {
    let names = || row.names.iter().map(String::as_str);
    let plain = |name: &&str| !name.starts_with("/dev/disk/") && !name.starts_with("/dev/mapper/");
    let node = names().next().unwrap_or(&row.path);
    match node.starts_with("/dev/dm-") {
        true => names().filter(plain).nth(1).or_else(|| names().nth(1)).unwrap_or(node),
        false => node,
    }
}

fn is_disk(row: &DeviceRow) -> bool {
    row.path.contains("/block/") && !row.note.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn tree(answer: &Value, style: Style) -> String {
        super::tree(&serde_json::from_value(answer.clone()).expect("an answer"), style)
    }

    fn nobody(why: &Value) -> String {
        let why: Option<WhyAnswer> = serde_json::from_value(why.clone()).expect("an answer");
        super::nobody(why.as_ref())
    }

    #[test]
    fn a_tree_shows_what_lies_on_what() {
        let mount = json!({"name": "home.mount", "active": "active"});
        let answer = json!({
            "seeing": true,
            "devices": [
                {"path": "/sys/devices/block/sda", "names": ["/dev/sda"], "ready": true,
                 "note": "pv a", "size": 2048, "part_of": "vg:1", "users": []},
                {"path": "/sys/devices/block/dm-0", "ready": true, "note": "ext4", "size": 1024,
                 "names": ["/dev/dm-0", "/dev/mapper/data-home", "/dev/data/home"],
                 "made_of": "vg:1", "users": [mount]},
                {"path": "/sys/devices/block/sdb", "names": ["/dev/sdb"], "ready": false,
                 "note": "swap", "users": []},
                {"path": "/sys/devices/block/dm-1", "names": ["/dev/dm-1", "/dev/mapper/lost-home"],
                 "ready": true, "note": "ext4", "made_of": "vg:2", "users": []},
                {"path": "/sys/devices/tty/ttyS0", "names": ["/dev/ttyS0"], "ready": true,
                 "users": []},
            ],
            "groups": [{"id": "vg:1", "name": "vg data", "up": true, "state": "complete"}],
            "waiting": [{"unit": "dev-x.device", "why": "no such device was seen",
                         "users": [{"name": "x.mount"}]}],
        });
        let expected = "\
vg data complete
├─ on /dev/sda  2.0K  pv a
└─ gives /dev/data/home  1.0K  ext4  → home.mount active
/dev/sdb  swap  not ready
/dev/mapper/lost-home  ext4
dev-x.device is waited for by x.mount: no such device was seen
";
        assert_eq!(tree(&answer, Style::default()), expected);
    }

    #[test]
    fn without_a_daemon_it_says_so() {
        let check = |daemon: Value, expected: &str| {
            let shown = nobody(&json!({"units": [{"path": [daemon]}]}));
            assert!(shown.starts_with("warren-deviced is not running"), "{shown}");
            assert!(shown.ends_with(&format!("\n{expected}\n")), "{shown}");
        };
        let row = |active: &str| json!({"load": "loaded", "active": active});
        check(row("inactive"), "To look for devices: warren start warren-deviced");
        check(row("failed"), "It has failed: warren why warren-deviced");
        let mut unmet = row("inactive");
        unmet["unmet"] = json!(["ConditionVirtualization=!container"]);
        let said = "warren-deviced.service does not run here: its condition ConditionVirtualization=!container is \
                    not met.";
        check(unmet, said);
        let absent = "warren-deviced.service is not installed here.";
        check(json!({"load": "not-found"}), absent);
        assert!(nobody(&Value::Null).ends_with(&format!("{absent}\n")));
    }
}

//! A report as text and as JSON lines.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{DiskReport, GroupReport, Report, VolumeReport, is_plain_hold, size};
use crate::lvm::group::Standing;

/// Version of the JSON lines; fields are only ever added under one version.
const JSON_VERSION: u32 = 1;

impl Report {
    /// For people: groups with disks and volumes below them, then the rest.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for group in &self.groups {
            push(&mut out, 0, &headline(group));
            group.disks.iter().for_each(|disk| push_disk(&mut out, 1, disk));
            for (id, last_seen) in &group.missing {
                let seen = match last_seen.as_str() {
                    "" => String::new(),
                    name => format!(", last seen as {name}"),
                };
                push(&mut out, 1, &format!("missing: pv {id}{seen}"));
            }
            group.volumes.iter().for_each(|volume| push(&mut out, 1, &volume_line(volume)));
        }
        self.others.iter().for_each(|disk| push_disk(&mut out, 0, disk));
        out
    }

    /// For programs: one object a line, `group` and `disk`.
    pub fn json_lines(&self) -> String {
        let groups = self.groups.iter().map(group_json);
        let others = self.others.iter().map(|disk| {
            let mut value = json!({"v": JSON_VERSION, "kind": "disk"});
            if let (Value::Object(all), Value::Object(disk)) = (&mut value, disk_json(disk)) {
                all.extend(disk);
            }
            value
        });
        groups.chain(others).map(|value| format!("{value}\n")).collect()
    }
}

fn push(out: &mut String, depth: usize, line: &str) {
    writeln!(out, "{:1$}{line}", "", 2 * depth).expect("memory takes all");
}

fn push_disk(out: &mut String, depth: usize, disk: &DiskReport) {
    let size =
        if disk.size_bytes == 0 { String::new() } else { format!(", {}", size(disk.size_bytes)) };
    push(out, depth, &format!("{}: {}{size}", disk.name, disk.what));
    disk.notes.iter().for_each(|note| push(out, depth + 1, note));
}

fn headline(group: &GroupReport) -> String {
    let name = match group.name.as_str() {
        "" => group.id.clone(),
        name => format!("{name} ({})", group.id),
    };
    let held = group.held.as_ref().filter(|held| !is_plain_hold(held));
    let held = held.map(|held| format!(", not started automatically: {held}"));
    let failed = group.failed.as_ref().map(|why| format!(", its start failed: {why}"));
    let (held, failed) = (held.unwrap_or_default(), failed.unwrap_or_default());
    format!("{} {name}: {}{held}{failed}", group.kind, completeness(group))
}

fn completeness(group: &GroupReport) -> String {
    match group.of - group.present {
        0 if group.kind == "luks" => "encrypted".to_owned(),
        0 if group.of == 1 => "complete".to_owned(),
        0 => format!("complete, {} devices", group.of),
        missing => {
            let whom = match &group.missing[..] {
                [(id, last_seen)] if !last_seen.is_empty() => {
                    format!("pv {id}, last seen as {last_seen}")
                }
                [(id, _)] => format!("pv {id}"),
                _ => format!("{missing} of {} devices", group.of),
            };
            format!("waits for {whom}")
        }
    }
}

fn volume_line(volume: &VolumeReport) -> String {
    let by_hand = if volume.auto_activation { "" } else { ", not started automatically" };
    format!("volume {}: {}{by_hand}", volume.name, standing(volume.standing))
}

fn standing(standing: Standing) -> &'static str {
    match standing {
        Standing::Complete => "complete",
        Standing::Degraded => "can run degraded",
        Standing::Partial => "partial",
    }
}

fn group_json(group: &GroupReport) -> Value {
    let missing = group.missing.iter().map(|(id, seen)| json!({"id": id, "last_seen": seen}));
    let volume = |volume: &VolumeReport| {
        let standing = match volume.standing {
            Standing::Complete => "complete",
            Standing::Degraded => "degraded",
            Standing::Partial => "partial",
        };
        json!({"name": volume.name, "standing": standing, "auto": volume.auto_activation})
    };
    json!({
        "v": JSON_VERSION,
        "kind": "group",
        "type": group.kind,
        "name": group.name,
        "id": group.id,
        "present": group.present,
        "of": group.of,
        "complete": group.present == group.of,
        "held": group.held,
        "failed": group.failed,
        "disks": group.disks.iter().map(disk_json).collect::<Vec<_>>(),
        "missing": missing.collect::<Vec<_>>(),
        "volumes": group.volumes.iter().map(volume).collect::<Vec<_>>(),
    })
}

fn disk_json(disk: &DiskReport) -> Value {
    json!({
        "name": disk.name,
        "bytes": disk.size_bytes,
        "what": disk.what,
        "notes": disk.notes,
        "read": disk.is_read,
    })
}

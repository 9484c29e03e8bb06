//! Messages of the link between warren-deviced and the manager.

use std::collections::BTreeSet;

use warren_wire::device_link::{DeviceFacts, GroupFacts, Message, VERSION, Writer, read};

use super::check_bytes;

/// Names of the golden files.
pub fn names() -> Vec<String> {
    ["whole.txt", "change.txt"].map(str::to_owned).to_vec()
}

fn disk() -> DeviceFacts {
    DeviceFacts {
        path: "/sys/devices/a".to_owned(),
        diskseq: 9,
        is_unknown: true,
        names: vec![("/dev/a".to_owned(), 0), ("/dev/disk/by-label/a b".to_owned(), -5)],
        ready: true,
        wants: vec!["x.service".to_owned()],
        binds_mounts: true,
        note: "ext4 \"a b\"".to_owned(),
        title: "Disk a b".to_owned(),
        size_bytes: 7,
        part_of: Some("vg:1".to_owned()),
        made_of: Some("md:2".to_owned()),
    }
}

fn bare() -> DeviceFacts {
    DeviceFacts { path: "/sys/devices/b".to_owned(), ..DeviceFacts::default() }
}

fn group() -> GroupFacts {
    GroupFacts {
        id: "vg:1".to_owned(),
        name: "vg data".to_owned(),
        is_up: true,
        is_starting: true,
        state: "1 of 2 there".to_owned(),
    }
}

#[test]
fn all_there_is() {
    let mut out = Writer::default();
    out.whole();
    out.device(&disk());
    out.device(&bare());
    out.group(&group());
    let text = out.finish();
    check_bytes(&format!("device-link-{VERSION}/whole.txt"), text.as_bytes());
    let mut message = Message::default();
    message.batch.is_whole = true;
    message.batch.devices = vec![disk(), bare()];
    message.batch.groups = vec![group()];
    assert_eq!(read(&text), message);
}

#[test]
fn what_has_changed() {
    let (mut out, disk) = (Writer::default(), disk());
    out.changed(&disk.path);
    out.device(&disk);
    out.gone("/sys/devices/b");
    out.group_gone("vg:1");
    out.group(&GroupFacts { state: "a\nline".to_owned(), ..group() });
    let text = out.finish();
    check_bytes(&format!("device-link-{VERSION}/change.txt"), text.as_bytes());
    let mut message =
        Message { changed: BTreeSet::from([disk.path.clone()]), ..Message::default() };
    message.batch.devices = vec![disk];
    message.batch.gone = vec!["/sys/devices/b".to_owned()];
    message.batch.gone_groups = vec!["vg:1".to_owned()];
    message.batch.groups = vec![GroupFacts { state: "a?line".to_owned(), ..group() }];
    assert_eq!(read(&text), message);
}

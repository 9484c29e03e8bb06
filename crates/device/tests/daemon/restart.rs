//! A daemon that takes another one's place.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use warren_device::begun::StartRecord;
use warren_device::daemon::{Daemon, Options};
use warren_device::index::GroupId;
use warren_device::orders::{Answer, ExecutorOrder};
use warren_device::readers::Readers;
use warren_sys::fdpass;

use crate::machine::*;

/// The machine's daemon is gone and another takes its place, with these records.
fn taken_over(mut machine: Machine, begun: BTreeMap<GroupId, StartRecord>) -> (Machine, OwnedFd) {
    let (near, far) = fdpass::seqpacket_pair(false).expect("a pair");
    let options = Options { begun, ..options(&machine.top) };
    let readers = Readers::new().expect("an eventfd can be had");
    machine.daemon = Daemon::bind(options, readers, Some(near)).expect("a socket can be had");
    machine.seen.clear();
    machine.daemon.begin();
    (machine, far)
}

/// Plays the executor until the daemon has settled: all programs succeed. Returns their command
/// lines, and changes the records as it is told.
fn carry_out(
    machine: &mut Machine,
    executor: &OwnedFd,
    records: &mut BTreeMap<GroupId, StartRecord>,
) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let was_settled = machine.daemon.is_settled();
        let limit = if was_settled { Duration::ZERO } else { Duration::from_secs(60) };
        machine.daemon.turn(Some(limit)).expect("the socket works");
        let orders = taken(executor);
        if was_settled && orders.is_empty() && machine.daemon.is_settled() {
            let told = machine.daemon.message().unwrap_or_default();
            assert!(!told.contains("\nstarting\n"), "nothing is any more: {told}");
            return lines;
        }
        for order in orders {
            match order {
                ExecutorOrder::Run(run) => {
                    let told = machine.daemon.message().expect("a start is news");
                    assert!(told.contains("\nstarting\n"), "{told}");
                    lines.push(run.words.join(" "));
                    let done = Answer::Ended(run.id, Ok(())).write();
                    fdpass::send(executor.as_fd(), done.as_bytes(), &[]).expect("it listens");
                }
                ExecutorOrder::Keep(group, Some(begun)) => drop(records.insert(group, begun)),
                ExecutorOrder::Keep(group, None) => drop(records.remove(&group)),
                _ => {}
            }
        }
    }
}

#[test]
fn what_was_started_is_not_started_again_by_another_daemon() {
    alone("what_was_started_is_not_started_again_by_another_daemon", |test| {
        const VGCHANGE: &str = "lvm vgchange -aay --autoactivation event";
        let disks = [
            ("sda", pv_disk("a", "one", &["a"])),
            ("sdb", pv_disk("b", "two", &["b"])),
            ("sdc", pv_disk("c", "gone", &["c"])),
            ("sdd", pv_disk("d", "late", &["d", "e"])),
        ];
        let mut records = BTreeMap::new();
        let machine = Machine::start(test, 1 << 20, &[], Readers::new().expect("readers"), 60_000);
        for (minor, (name, disk)) in disks.iter().enumerate() {
            make_device(&machine.top, name, minor, disk);
        }
        let (mut machine, executor) = taken_over(machine, records.clone());
        let ran = carry_out(&mut machine, &executor, &mut records);
        assert_eq!(ran, [format!("{VGCHANGE} gone one two")]);
        assert_eq!(records.len(), 3, "{records:?}");
        // While nobody looked, one disk went, and a group became complete.
        fs::remove_file(machine.top.join("sys/class/block/sdc")).expect("it was there");
        make_device(&machine.top, "sde", 4, &pv_disk("e", "late", &["d", "e"]));
        let (mut machine, executor) = taken_over(machine, records.clone());
        let ran = carry_out(&mut machine, &executor, &mut records);
        assert_eq!(ran, [format!("{VGCHANGE} late")], "and nothing again");
        assert_eq!(records.len(), 3, "what went is forgotten: {records:?}");
        assert!(records.values().all(|begun| begun.whole));
        // What comes back is started, whoever saw it go.
        make_device(&machine.top, "sdc", 2, &pv_disk("c", "gone", &["c"]));
        machine.send("add", "sdc", 2);
        let ran = carry_out(&mut machine, &executor, &mut records);
        assert_eq!(ran, [format!("{VGCHANGE} gone")]);
        machine.send("remove", "sda", 0);
        assert!(carry_out(&mut machine, &executor, &mut records).is_empty());
        assert_eq!(records.len(), 3);
        machine.send("add", "sda", 0);
        let ran = carry_out(&mut machine, &executor, &mut records);
        assert_eq!(ran, [format!("{VGCHANGE} one")]);
        assert_eq!(records.len(), 4);
    });
}

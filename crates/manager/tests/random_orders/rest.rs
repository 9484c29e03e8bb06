//! What holds when nothing is on its way any more.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::files::LEAVES_BEHIND;
use crate::lab::{Machine, pause, until};
use crate::orders::Orders;
use crate::picture::{Picture, processes};

/// Longer than all limits in time of the units together, on a machine that is far too busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks.
const LOOKS_APART: Duration = Duration::from_millis(100);

/// Properties that go on while nothing happens, and what is counted from the begin of a manager.
const MOVING: &[&str] = &[
    "CPUUsageNSec",
    "MemoryCurrent",
    "MemoryAvailable",
    "TasksCurrent",
    "WatchdogTimestamp",
    "WatchdogTimestampMonotonic",
];

/// What is left when everything is stopped.
#[derive(Clone, Debug)]
pub struct Empty {
    /// Descriptors of process 1 and of the manager.
    descriptors: [usize; 2],
    /// Files of the run-time directory.
    files: BTreeSet<String>,
}

/// Waits for the rest, and looks whether all agrees.
pub fn check_at_rest(orders: &mut Orders<'_>, has_systemctl: bool) {
    settle(orders);
    check_files(orders);
    let sockets =
        [("k0.socket", "/run/r/k0"), ("k1.socket", "/run/r/k1"), ("each.socket", "/run/r/each")];
    for (unit, path) in sockets {
        let is_open = orders.connect_to(path);
        assert!(is_open || !orders.m.state(unit).starts_with("active/"), "{unit} does not listen");
    }
    orders.check_answers();
    settle(orders);
    orders.check_answers();
    check_next_manager(orders, has_systemctl);
}

/// Lets everybody go on until what is told agrees with what is there.
fn settle(orders: &mut Orders<'_>) {
    // Until it is answered, by the manager that comes if this one was killed.
    orders.m.call("ReloadConfiguration", &json!({}));
    orders.let_go();
    let end = Instant::now() + PATIENCE;
    loop {
        let picture = Picture::of(orders.m);
        let mut faults = picture.faults(orders.m, &orders.files);
        if faults.is_empty() {
            faults.extend(orders.inexcusable(picture.bare_groups()));
        }
        if faults.is_empty() && orders.m.totals()["jobs"] == 0 {
            return orders.note_rest();
        }
        orders.end_unknown();
        assert!(Instant::now() < end, "at rest: {faults:#?}\n{}", about(orders.m, &faults));
        pause(LOOKS_APART);
    }
}

/// All that is said of the units of these faults.
fn about(m: &Machine, faults: &[String]) -> String {
    let names = faults.iter().filter_map(|fault| fault.split(' ').next());
    let units = names.filter(|name| name.contains('.')).map(|name| m.status(name).to_string());
    units.collect::<Vec<_>>().join("\n")
}

/// A full reload finds nothing that the watch has not.
fn check_files(orders: &Orders<'_>) {
    let report = orders.m.call("ReloadConfiguration", &json!({"full": true, "dry_run": true}));
    for key in ["added", "changed", "removed"] {
        assert_eq!(report[key], json!([]), "a full reload: {key}: {report}");
    }
}

/// The manager that comes next says the same.
fn check_next_manager(orders: &mut Orders<'_>, has_systemctl: bool) {
    let m = orders.m;
    let mut passing = passing(m);
    // Clients of the check itself are gone, too.
    let before = until("nothing moves", || {
        let before = said(m, &passing, has_systemctl);
        pause(LOOKS_APART);
        (before == said(m, &passing, has_systemctl)).then_some(before)
    });
    passing.extend(self::passing(m));
    orders.kill_manager();
    let end = Instant::now() + PATIENCE;
    loop {
        let after = said(m, &passing, has_systemctl);
        let differs: Vec<_> = before.iter().filter(|one| !after.contains(one)).collect();
        let news: Vec<_> = after.iter().filter(|one| !before.contains(one)).collect();
        if differs.is_empty() && news.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "another manager: was {differs:#?}, is {news:#?}");
        pause(LOOKS_APART);
    }
}

/// Units that are forgotten soon.
fn passing(m: &Machine) -> Vec<String> {
    let units = Picture::of(m).units.into_iter();
    let down = units.filter(|(name, unit)| {
        (name.contains('@') || unit["files"] == json!([])) && unit["active"] == "inactive"
    });
    down.map(|(name, _)| name).collect()
}

/// A line for each property of each unit, without a word of those that are passing.
fn said(m: &Machine, passing: &[String], has_systemctl: bool) -> Vec<String> {
    let picture = Picture::of(m);
    let stays = |name: &str| !passing.iter().any(|one| one == name);
    let units = picture.units.iter().filter(|(name, _)| stays(name));
    let mut lines: Vec<String> = units.flat_map(|(name, unit)| lines_of(name, unit)).collect();
    if has_systemctl {
        let text = until("a manager answers", || m.run(&["systemctl", "show", "*"]).ok());
        for unit in text.split("\n\n") {
            let id = unit.lines().find_map(|line| line.strip_prefix("Id=")).unwrap_or_default();
            let properties = unit.lines().filter_map(|line| line.split_once('='));
            let still = properties.filter(|(key, _)| stays(id) && !MOVING.contains(key));
            lines.extend(still.map(|(key, value)| {
                let words: Vec<&str> = value.split(' ').filter(|word| stays(word)).collect();
                format!("{id} {key}={}", words.join(" "))
            }));
        }
    }
    lines.sort_unstable();
    lines
}

fn lines_of(name: &str, unit: &Value) -> Vec<String> {
    let keys = ["load", "active", "sub", "since", "active_since", "main_pid", "result", "restarts"];
    let more = ["status_text", "cgroup", "reason", "ended", "connections"];
    // The machine's own are in the other groups.
    let processes = name.ends_with(".service").then_some("processes");
    let keys = keys.into_iter().chain(more).chain(processes);
    keys.map(|key| format!("{name} {key} {}", unit[key])).collect()
}

/// Stops what is up, until nothing is.
pub fn stop_everything(orders: &mut Orders<'_>) -> Empty {
    let m = orders.m;
    orders.hang_up();
    let end = Instant::now() + PATIENCE;
    loop {
        let picture = Picture::of(m);
        let up = picture.up();
        if up.is_empty() && picture.unrest().is_empty() {
            break;
        }
        assert!(Instant::now() < end, "never down: {up:?} {:?}", picture.unrest());
        for unit in up.into_iter().filter(|&unit| picture.units[unit]["job"].is_null()) {
            orders.stop(unit);
        }
        orders.end_unknown();
        pause(LOOKS_APART);
    }
    orders.unmount_all();
    settle(orders);
    orders.check_answers();
    m.call("ResetFailed", &json!({}));
    nothing_is_left(m);
    Empty::of(m)
}

/// No process of a unit, and none of its groups, but of the one that may leave some behind.
fn nothing_is_left(m: &Machine) {
    let is_let = |path: &str| path.ends_with(LEAVES_BEHIND);
    for (_, pids) in m.groups().into_iter().filter(|(path, _)| is_let(path)) {
        for pid in pids {
            let _ = warren_sys::process::kill(pid, 9);
        }
    }
    let left = || {
        let of_unit = |path: &str| path.ends_with(".service") && !is_let(path);
        let groups = m.groups().into_iter();
        let groups: Vec<_> = groups.filter(|(path, p)| of_unit(path) && !p.is_empty()).collect();
        let own = 2 + m.all_helpers().len();
        let others = processes(m).len().saturating_sub(own);
        (groups, others)
    };
    let end = Instant::now() + PATIENCE;
    while left() != (Vec::new(), 0) {
        assert!(Instant::now() < end, "all is down, and there is {:?}", left());
        pause(LOOKS_APART);
    }
}

impl Empty {
    fn of(m: &Machine) -> Empty {
        let pid = until("a manager is there", || m.manager_pid());
        let count = |pid| std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        let list = m.run(&["find", "/run/warren"]).expect("find(1)");
        let files = list.lines().map(str::to_owned).collect();
        Empty { descriptors: [count(m.init_pid), count(pid)], files }
    }

    /// Nothing has grown since. Some descriptors are still open a moment longer.
    pub fn check_against(&self, before: &Empty, m: &Machine) {
        let end = Instant::now() + PATIENCE;
        let mut now = self.clone();
        while !now.is_within(before) {
            let stored = || m.run(&["systemctl", "show", "*", "-p", "Id,NFileDescriptorStore"]);
            let told = || format!("was {before:#?}, is {now:#?}, {:?}", stored());
            assert!(Instant::now() < end, "all is down again: {}", told());
            pause(LOOKS_APART);
            now = Empty::of(m);
        }
    }

    fn is_within(&self, before: &Empty) -> bool {
        let mut counts = self.descriptors.iter().zip(before.descriptors);
        counts.all(|(&now, before)| now <= before) && self.files.is_subset(&before.files)
    }
}

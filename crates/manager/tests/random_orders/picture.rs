//! What the manager says of its units, and what is there: groups, processes, mounts, sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileTypeExt;

use serde_json::{Value, json};

use crate::files::{Files, LEAVES_BEHIND, MOUNTS};
use crate::lab::{Machine, ask, pid_inside, until};

/// What the machine's own processes are called; they are in no unit's group.
const OWN: &[&str] = &["systemd", "warrend", "warren-exec"];

/// All at one moment.
pub struct Picture {
    /// By name: what `Status` says.
    pub units: BTreeMap<String, Value>,
    /// By path: the processes of each group, by their numbers outside.
    groups: BTreeMap<String, Vec<i32>>,
    /// Where something is mounted, and whether it is an automount point.
    mounts: Vec<(String, bool)>,
}

impl Picture {
    /// Taken between two equal lists of units.
    pub fn of(m: &Machine) -> Picture {
        until("two lists of units are equal", || {
            let list = || m.call("List", &json!({}))["units"].clone();
            let before = list();
            let picture = Picture::of_listed(m, &before)?;
            (list() == before).then_some(picture)
        })
    }

    fn of_listed(m: &Machine, list: &Value) -> Option<Picture> {
        let stream = m.connect()?;
        let mut units = BTreeMap::new();
        for row in list.as_array()? {
            let name = row["name"].as_str()?;
            let answer = &ask(&stream, "Status", &json!({"unit": name}))?["parameters"];
            // The name of one that runs may lead to another unit by now.
            let is_own = answer["name"] == row["name"];
            units.insert(name.to_owned(), if is_own { answer } else { row }.clone());
        }
        Some(Picture { units, groups: m.groups(), mounts: mounts(m) })
    }

    /// Units that are on their way, or have a job.
    pub fn unrest(&self) -> Vec<String> {
        // It ends by itself, and what is then started again does so too.
        let is_short =
            |unit: &Value| is_up(unit) && word(unit, "description").starts_with("limited");
        let moves = ["activating", "deactivating", "reloading", "maintenance"];
        let on_its_way =
            |unit: &Value| moves.contains(&word(unit, "active")) || !unit["job"].is_null();
        let some = self.units.iter().filter(|(_, unit)| on_its_way(unit) || is_short(unit));
        some.map(|(name, unit)| {
            let pids = (&unit["main_pid"], &unit["control_pid"]);
            format!("{name} is {} with the job {} {pids:?}", state(unit), unit["job"])
        })
        .collect()
    }

    /// What does not agree.
    pub fn faults(&self, m: &Machine, files: &Files<'_>) -> Vec<String> {
        let mut faults = self.unrest();
        let is_up = |name: &str| self.units.get(name).is_some_and(is_up);
        let idles = files.says("run-r-m0.automount", "TimeoutIdleSec=1s");
        if idles && is_up("run-r-m0.automount") && is_up("run-r-m0.mount") {
            faults.push("run-r-m0.mount is up though nobody uses it".to_owned());
        }
        for (name, unit) in &self.units {
            faults.extend(
                self.faults_of(m, name, unit)
                    .into_iter()
                    .map(|fault| format!("{name} ({}) {fault}", state(unit))),
            );
        }
        faults.extend(self.faults_of_groups());
        faults.extend(self.faults_of_mounts());
        faults.extend(self.faults_of_sockets(m));
        faults.extend(strays(m));
        faults
    }

    fn faults_of(&self, m: &Machine, name: &str, unit: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        if unit["differs_on_disk"] == true {
            faults.push("is other than its files".to_owned());
        }
        let group = unit["cgroup"].as_str().unwrap_or_default();
        let main = unit["main_pid"].as_u64();
        match (is_up(unit), main) {
            (true, Some(main)) => {
                let inside = self.groups.get(group).into_iter().flatten();
                if !inside.filter_map(|&pid| pid_inside(pid)).any(|pid| pid == main) {
                    faults.push(format!("has not its main process {main} in {group}"));
                }
            }
            (true, None) if word(unit, "sub") == "running" && !unit["cgroup"].is_null() => {
                let has_one = self.groups.get(group).is_some_and(|pids| !pids.is_empty());
                if name.ends_with(".service") && !has_one {
                    faults.push("runs without a process".to_owned());
                }
            }
            (false, Some(main)) => faults.push(format!("has the main process {main}")),
            _ => {}
        }
        if !unit["control_pid"].is_null() {
            faults.push(format!("has the control process {}", unit["control_pid"]));
        }
        if name.starts_with("run-r-m") && (is_up(unit) != self.is_mounted(name)) {
            faults.push(format!("but mounted are {:?}", self.mounts));
        }
        if name.ends_with(".socket") && is_up(unit) {
            faults.extend(self.listens(m, unit).err());
        }
        faults
    }

    /// Each group with processes is that of a unit that is up.
    fn faults_of_groups(&self) -> Vec<String> {
        let peopled = self.unknown_groups().filter(|(_, pids)| !pids.is_empty());
        peopled
            .map(|(path, pids)| format!("the group {path} is there, with {:?}", names(pids)))
            .collect()
    }

    /// Groups of no unit that is up, in which nobody is.
    pub fn bare_groups(&self) -> BTreeSet<String> {
        let bare = self.unknown_groups().filter(|(_, pids)| pids.is_empty());
        bare.map(|(path, _)| path.clone()).collect()
    }

    fn unknown_groups(&self) -> impl Iterator<Item = (&String, &Vec<i32>)> {
        let up = || self.units.iter().filter(|(_, unit)| is_up(unit));
        let known: Vec<&str> = up().filter_map(|(_, u)| u["cgroup"].as_str()).collect();
        // Of one whose name leads to another unit it is not told where its group is.
        let untold = up().filter(|(_, unit)| unit["cgroup"].is_null());
        let untold: Vec<String> = untold.map(|(name, _)| format!("/{name}")).collect();
        let is_below = |path: &str, unit: &str| {
            unit.ends_with(".service") && path.starts_with(&format!("{unit}/"))
        };
        self.groups.iter().filter(move |(path, _)| {
            !(path.is_empty()
                || *path == "/"
                || *path == "/init.scope"
                || path.ends_with(LEAVES_BEHIND)
                || known.iter().any(|unit| path == unit || is_below(path, unit))
                || untold.iter().any(|name| path.ends_with(name.as_str())))
        })
    }

    fn faults_of_mounts(&self) -> Vec<String> {
        let twice = |at: &(String, bool)| self.mounts.iter().filter(|one| *one == at).count() > 1;
        let some = self.mounts.iter().filter(|at| at.1 && twice(at));
        some.map(|at| format!("several automount points: {at:?}")).collect()
    }

    /// The socket that is to be removed when it is down.
    fn faults_of_sockets(&self, m: &Machine) -> Option<String> {
        let is_down = self.units.get("k0.socket").is_none_or(|unit| !is_up(unit));
        let is_left = is_down && m.inside("/run/r/k0").exists();
        is_left.then(|| "k0.socket is down and has left its socket".to_owned())
    }

    fn is_mounted(&self, unit: &str) -> bool {
        (0..MOUNTS).any(|n| {
            let wanted = format!("/run/r/m{n}");
            let of = |kind: &str| format!("run-r-m{n}.{kind}");
            let is_here = |is_trap: bool| self.mounts.contains(&(wanted.clone(), is_trap));
            (unit == of("mount") && is_here(false)) || (unit == of("automount") && is_here(true))
        })
    }

    fn listens(&self, m: &Machine, unit: &Value) -> Result<(), String> {
        let addresses = unit["listen"].as_array().into_iter().flatten();
        for address in addresses.filter_map(|one| one["address"].as_str()) {
            let found = std::fs::metadata(m.inside(address));
            if !found.is_ok_and(|found| found.file_type().is_socket()) {
                return Err(format!("has no socket at {address}"));
            }
        }
        Ok(())
    }

    /// Names of units that are up and could be told to stop.
    pub fn up(&self) -> Vec<&str> {
        let kinds = [".service", ".socket", ".mount", ".automount"];
        let ours = |name: &str| {
            kinds.iter().any(|kind| name.ends_with(kind))
                && (!name.ends_with("mount") || name.starts_with("run-r-"))
                || name.starts_with('t') && name.ends_with(".target")
        };
        let up = self.units.iter().filter(|(name, unit)| ours(name) && is_up(unit));
        up.map(|(name, _)| name.as_str()).collect()
    }
}

/// The text of a field.
pub fn word<'a>(unit: &'a Value, key: &str) -> &'a str {
    unit[key].as_str().unwrap_or("?")
}

fn state(unit: &Value) -> String {
    format!("{}/{}", word(unit, "active"), word(unit, "sub"))
}

fn is_up(unit: &Value) -> bool {
    !["inactive", "failed"].contains(&word(unit, "active"))
}

fn mounts(m: &Machine) -> Vec<(String, bool)> {
    let table = std::fs::read_to_string(format!("/proc/{}/mountinfo", m.init_pid));
    let table = table.unwrap_or_default();
    let below = |line: &str| {
        let (front, back) = line.split_once(" - ")?;
        let point = front.split(' ').nth(4)?;
        point.starts_with("/run/r/").then(|| (point.to_owned(), back.starts_with("autofs ")))
    };
    table.lines().filter_map(below).collect()
}

/// Children of process 1 and theirs.
pub fn processes(m: &Machine) -> Vec<i32> {
    let (mut found, mut next) = (Vec::new(), vec![m.init_pid]);
    while let Some(pid) = next.pop() {
        found.push(pid);
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for task in tasks {
            let children = std::fs::read_to_string(task.path().join("children"));
            next.extend(children.unwrap_or_default().split(' ').flat_map(str::parse::<i32>));
        }
    }
    found
}

/// Processes in the group of process 1 that are nothing of ours.
fn strays(m: &Machine) -> Vec<String> {
    let group = |pid| warren_sys::process::cgroup_path(pid).ok();
    let own = group(m.init_pid);
    let strange = processes(m).into_iter().filter(|&pid| {
        group(pid) == own && name(pid).is_some_and(|name| !OWN.contains(&name.as_str()))
    });
    strange.map(|pid| format!("{:?} is in no unit's group", name(pid))).collect()
}

fn name(pid: i32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

fn names(pids: &[i32]) -> Vec<String> {
    pids.iter().filter_map(|&pid| name(pid)).collect()
}

//! What the kernel counts of slices, and of the units that use most; cgroup-v2.rst.
//!
//! Which units use most is found by a sweep: a walk over all groups that reads two files of each. It takes a fraction
//! of a second at 16,000 groups, so it runs in a thread of its own, after a scrape, and not more often than each
//! [`SWEEP_EVERY`]. What is shown of the chosen ones is read at the scrape.
//! Must not: be asked by more than one thread at a time ([`Cgroups::read`]), or go below the group of a unit.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::snapshot::{Bounds, Groups, Usage};

/// A choice is good for so long.
const SWEEP_EVERY: Duration = Duration::from_secs(30);

/// Groups that a sweep looks at, at most.
const GROUPS_MAX: usize = 200_000;

/// Slices in slices that a sweep goes down, at most.
const DEPTH_MAX: usize = 16;

/// Files of pressure, and what a line of them begins with.
const PRESSURES: [(&str, &str); 3] =
    [("cpu", "cpu.pressure"), ("io", "io.pressure"), ("memory", "memory.pressure")];

/// Suffixes of units that have groups.
const SUFFIXES: [&str; 5] = [".service", ".scope", ".socket", ".mount", ".swap"];

/// A group that a sweep saw.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    path: PathBuf,
    name: String,
    depth: usize,
    cpu_us: u64,
    memory_bytes: u64,
}

/// Who was chosen.
#[derive(Debug, Clone, Default)]
struct Choice {
    slices: Vec<(String, PathBuf)>,
    slices_total: usize,
    units: Vec<(String, PathBuf)>,
    took: Duration,
}

/// What the last sweep chose and saw, shared with the thread that sweeps.
#[derive(Debug, Default)]
struct Swept {
    choice: Choice,
    /// When it ended; none before the first one.
    at: Option<Instant>,
}

/// Reads cgroups.
#[derive(Debug)]
pub struct Cgroups {
    swept: Arc<Mutex<Swept>>,
    orders: SyncSender<PathBuf>,
}

impl Cgroups {
    /// With a thread that sweeps.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(bounds: Bounds) -> std::io::Result<Cgroups> {
        let swept = Arc::new(Mutex::new(Swept::default()));
        // One order is as good as several.
        let (orders, taken) = sync_channel(1);
        let of_thread = swept.clone();
        std::thread::Builder::new()
            .name("sweep".into())
            .spawn(move || sweep_on_order(&taken, bounds, &of_thread))?;
        Ok(Cgroups { swept, orders })
    }

    /// What the chosen groups below `root` use. None before the first sweep is over.
    pub fn read(&self, root: &Path) -> Option<Groups> {
        let (choice, at) = {
            let swept = lock(&self.swept);
            (swept.choice.clone(), swept.at)
        };
        if at.is_none_or(|at| at.elapsed() > SWEEP_EVERY) {
            // One is ordered already.
            let _ = self.orders.try_send(root.to_owned());
        }
        let read = |(name, path): &(String, PathBuf)| Some((name.clone(), usage(path)?));
        let without_pressure = |(name, usage): (String, Usage)| {
            (name, Usage { pressure_us: BTreeMap::new(), ..usage })
        };
        Some(Groups {
            slices: choice.slices.iter().filter_map(read).collect(),
            slices_total: choice.slices_total as u64,
            units: choice.units.iter().filter_map(read).map(without_pressure).collect(),
            age_us: at?.elapsed().as_micros() as u64,
            took_us: choice.took.as_micros() as u64,
        })
    }
}

fn lock(swept: &Mutex<Swept>) -> std::sync::MutexGuard<'_, Swept> {
    // Nothing that is done under it can panic half-way.
    swept.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sweep_on_order(orders: &Receiver<PathBuf>, bounds: Bounds, swept: &Mutex<Swept>) {
    let mut before = BTreeMap::new();
    for root in orders {
        let began = Instant::now();
        let seen = sweep(&root);
        let mut choice = choose(&seen, &before, bounds);
        choice.took = began.elapsed();
        before = seen.into_iter().map(|group| (group.path, group.cpu_us)).collect();
        *lock(swept) = Swept { choice, at: Some(Instant::now()) };
    }
}

/// All groups of units below `root`, breadth first: where there are too many, those nearest to the root count.
fn sweep(root: &Path) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut level = vec![root.to_owned()];
    for depth in 0..DEPTH_MAX {
        let mut next = Vec::new();
        for directory in level {
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            for entry in entries.flatten() {
                let file = entry.file_name();
                let Some(name) = unit_name(&file.to_string_lossy()) else { continue };
                let path = entry.path();
                if seen.len() >= GROUPS_MAX {
                    return seen;
                }
                // A file of the kernel's, or a group that has just gone.
                let Some(cpu_us) = read(&path, "cpu.stat").and_then(|text| cpu_us(&text)) else {
                    continue;
                };
                let memory_bytes = read(&path, "memory.current").and_then(|text| number(&text));
                if name.ends_with(".slice") {
                    next.push(path.clone());
                }
                seen.push(Seen {
                    path,
                    name,
                    depth,
                    cpu_us,
                    memory_bytes: memory_bytes.unwrap_or(0),
                });
            }
        }
        level = next;
    }
    seen
}

/// The unit that a group is called after. One that the kernel would take for a file of its own has `_` before it.
fn unit_name(group: &str) -> Option<String> {
    let name = group.strip_prefix('_').unwrap_or(group);
    let is_unit = name.ends_with(".slice") || SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
    is_unit.then(|| name.to_owned())
}

/// Those that used most CPU time since the sweep before, and those that use most memory.
fn choose(seen: &[Seen], before: &BTreeMap<PathBuf, u64>, bounds: Bounds) -> Choice {
    // What is new has used all its time since then.
    let used =
        |group: &Seen| group.cpu_us.saturating_sub(before.get(&group.path).copied().unwrap_or(0));
    let (mut slices, units): (Vec<&Seen>, Vec<&Seen>) =
        seen.iter().partition(|group| group.name.ends_with(".slice"));
    slices.sort_by_cached_key(|group| {
        (group.depth, Reverse(used(group)), Reverse(group.memory_bytes), group.name.clone())
    });
    let most = |key: &dyn Fn(&Seen) -> u64| {
        let mut ranked: Vec<(Reverse<u64>, &str, &Seen)> =
            units.iter().map(|group| (Reverse(key(group)), &*group.name, *group)).collect();
        ranked.sort_by_key(|(key, name, _)| (*key, *name));
        ranked.into_iter().take(bounds.top).map(|(_, _, group)| group).collect::<Vec<&Seen>>()
    };
    let mut chosen = most(&used);
    chosen.extend(most(&|group| group.memory_bytes));
    let named = |group: &Seen| (group.name.clone(), group.path.clone());
    // One name for one series: a scope of a user's manager may be called as one of the system's.
    let units: BTreeMap<String, PathBuf> = chosen.into_iter().map(named).collect();
    let shown: BTreeMap<String, PathBuf> =
        slices.iter().take(bounds.slices).map(|group| named(group)).collect();
    Choice {
        slices: shown.into_iter().collect(),
        slices_total: slices.len(),
        units: units.into_iter().collect(),
        took: Duration::ZERO,
    }
}

/// What a group uses; none if it is gone.
fn usage(group: &Path) -> Option<Usage> {
    let io = read(group, "io.stat");
    let mut pressure_us = BTreeMap::new();
    for (resource, file) in PRESSURES {
        let text = read(group, file).unwrap_or_default();
        let kinds = ["some", "full"].into_iter();
        let found = kinds.filter_map(|kind| Some(((resource, kind), pressure(&text, kind)?)));
        pressure_us.extend(found);
    }
    Some(Usage {
        cpu_us: Some(cpu_us(&read(group, "cpu.stat")?)?),
        memory_bytes: read(group, "memory.current").and_then(|text| number(&text)),
        tasks: read(group, "pids.current").and_then(|text| number(&text)),
        read_bytes: io.as_ref().map(|text| io_sum(text, "rbytes=")),
        written_bytes: io.as_ref().map(|text| io_sum(text, "wbytes=")),
        pressure_us,
    })
}

fn read(group: &Path, file: &str) -> Option<String> {
    fs::read_to_string(group.join(file)).ok()
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// `usage_usec` of `cpu.stat`.
fn cpu_us(text: &str) -> Option<u64> {
    text.lines().find_map(|line| number(line.strip_prefix("usage_usec ")?))
}

/// A sum over all devices of `io.stat`.
fn io_sum(text: &str, key: &str) -> u64 {
    text.split_whitespace().filter_map(|word| number(word.strip_prefix(key)?)).sum()
}

/// `total=` of a line of a pressure file.
fn pressure(text: &str, kind: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(kind))?;
    line.split_whitespace().find_map(|word| number(word.strip_prefix("total=")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_testkit::Scratch;

    const BOUNDS: Bounds = Bounds { top: 1, slices: 2, timers: 0, units: 0 };

    fn group(root: &Path, path: &str, cpu_us: u64, memory: u64) {
        let group = root.join(path);
        fs::create_dir_all(&group).expect("a scratch directory");
        let write = |file: &str, text: String| {
            fs::write(group.join(file), text).expect("it can be written")
        };
        write("cpu.stat", format!("usage_usec {cpu_us}\nuser_usec 1\n"));
        write("memory.current", format!("{memory}\n"));
        write("pids.current", "3\n".to_owned());
        write(
            "io.stat",
            "8:0 rbytes=5 wbytes=7 rios=1\n8:16 rbytes=1 wbytes=2 dios=0\n".to_owned(),
        );
        let line = |kind: &str, total: u64| {
            format!("{kind} avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n")
        };
        write("io.pressure", line("some", 9) + &line("full", 4));
    }

    fn names(chosen: &[(String, PathBuf)]) -> Vec<&str> {
        chosen.iter().map(|(name, _)| &**name).collect()
    }

    #[test]
    fn those_that_use_most_now_are_chosen_not_those_that_did() {
        let scratch = Scratch::new("exporter-choice");
        let root = &*scratch.0;
        group(root, "system.slice", 100, 100);
        group(root, "system.slice/old.service", 90, 5);
        group(root, "system.slice/busy.service", 50, 5);
        group(root, "system.slice/_large.scope", 1, 80);
        group(root, "system.slice/busy.service/inner.service", 1000, 1000);
        group(root, "system.slice/system-a.slice", 9, 9);
        group(root, "user.slice", 1, 1);
        group(root, "init.scope", 2, 2);
        let first = sweep(root);
        assert_eq!(first.len(), 7, "{first:?}");
        let before = first.into_iter().map(|seen| (seen.path, seen.cpu_us)).collect();
        group(root, "system.slice/busy.service", 70, 5);
        fs::remove_dir_all(root.join("system.slice/system-a.slice")).expect("it is there");
        group(root, "system.slice/system-a.slice", 99, 9);
        let choice = choose(&sweep(root), &before, BOUNDS);
        assert_eq!(names(&choice.units), ["busy.service", "large.scope"]);
        // Those nearest to the root count, whatever is used below.
        assert_eq!(
            (names(&choice.slices), choice.slices_total),
            (vec!["system.slice", "user.slice"], 3)
        );
    }

    #[test]
    fn what_is_used_is_read_with_what_there_is() {
        let scratch = Scratch::new("exporter-usage");
        let root = &*scratch.0;
        group(root, "a.slice", 2_500_000, 4096);
        let usage_of = |name: &str| usage(&root.join(name));
        let expected = Usage {
            cpu_us: Some(2_500_000),
            memory_bytes: Some(4096),
            tasks: Some(3),
            read_bytes: Some(6),
            written_bytes: Some(9),
            pressure_us: BTreeMap::from([(("io", "some"), 9), (("io", "full"), 4)]),
        };
        assert_eq!(usage_of("a.slice"), Some(expected));
        for file in ["memory.current", "io.stat", "io.pressure"] {
            fs::remove_file(root.join("a.slice").join(file)).expect("it is there");
        }
        let usage = usage_of("a.slice").expect("it has cpu.stat");
        assert_eq!(
            (usage.memory_bytes, usage.read_bytes, usage.pressure_us.len()),
            (None, None, 0)
        );
        assert_eq!(usage_of("gone.slice"), None);
    }
}

//! What cgroups use, read from the kernel's files (cgroup-v2.rst): the manager is not asked.
//!
//! - Owns: the counters of the last look, from which it makes rates.
//! - Must not: go below the group of a unit, or take more than its share of a processor: a look at all groups is
//!   followed by a rest of `REST_FACTOR` times what it took.
//! - Runs on a thread of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warren_sys::cgroup::Tree;

use crate::model::{Resource, Usage};

/// Groups that are looked at, at most.
const GROUPS_MAX: usize = 100_000;

/// Slices in slices that are gone down, at most.
const DEPTH_MAX: usize = 16;

/// Groups that are read whole in one go, at most.
pub const WHOLE_MAX: usize = 512;

/// Least time between two looks at all groups.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// A look at all groups is followed by a rest of so many times what it took.
const REST_FACTOR: u32 = 20;

/// Files of pressure, psi.rst.
const PRESSURES: [(Resource, &str); 3] = [
    (Resource::Cpu, "cpu.pressure"),
    (Resource::Memory, "memory.pressure"),
    (Resource::Io, "io.pressure"),
];

/// Suffixes of units that have groups.
const SUFFIXES: [&str; 6] = [".slice", ".service", ".scope", ".socket", ".mount", ".swap"];

/// A counter when it was read.
#[derive(Debug, Clone, Copy)]
struct Count {
    value: u64,
    at: Instant,
}

/// What is kept of a group between two looks.
#[derive(Debug, Clone, Default)]
struct Group {
    path: String,
    cpu: Option<Count>,
    read: Option<Count>,
    written: Option<Count>,
    usage: Usage,
}

/// Reads the groups of one manager.
#[derive(Debug, Default)]
pub struct Sampler {
    tree: Option<Tree>,
    groups: BTreeMap<Arc<str>, Group>,
    swept: Option<(Instant, Duration)>,
    /// How often all groups were looked at.
    sweeps: u64,
    /// How often all that there is was read of all of them, without a lesser look since.
    whole_sweeps: u64,
}

impl Sampler {
    /// Of the groups below this directory; none are read where it cannot be opened.
    pub fn open(&mut self, root: &Path) {
        *self = Sampler { tree: Tree::open(root).ok(), ..Sampler::default() };
    }

    /// Whether it is time to look at all groups.
    pub fn is_due(&self, is_whole: bool) -> bool {
        let rest = |took: Duration| (took * REST_FACTOR).max(SWEEP_EVERY);
        // Two looks make the first rates.
        let is_first = self.sweeps == 1 || is_whole && self.whole_sweeps < 2;
        self.swept.is_none_or(|(at, took)| is_first || at.elapsed() > rest(took))
    }

    /// Looks at all groups: processor time and memory of each; `is_whole`: all that there is, which takes several times as
    /// long. What only a whole look reads stays as it was last read.
    pub fn sweep(&mut self, is_whole: bool) -> BTreeMap<Arc<str>, Usage> {
        let began = Instant::now();
        let Some(tree) = self.tree.take() else { return BTreeMap::new() };
        let mut before = std::mem::take(&mut self.groups);
        let mut level = vec![String::new()];
        for _ in 0..DEPTH_MAX {
            let mut next = Vec::new();
            for parent in level {
                for child in tree.children(&parent).unwrap_or_default() {
                    let Some(child) = child.to_str() else { continue };
                    let Some(name) = unit_name(child).filter(|_| self.groups.len() < GROUPS_MAX)
                    else {
                        continue;
                    };
                    let path = join(&parent, child);
                    if name.ends_with(".slice") {
                        next.push(path.clone());
                    }
                    let (name, group) = match before.remove_entry(name) {
                        Some((name, group)) if group.path == path => (name, group),
                        _ => (name.into(), Group { path, ..Group::default() }),
                    };
                    let group = with_counters(&tree, group);
                    let group = if is_whole { with_rest(&tree, group) } else { group };
                    self.groups.insert(name, group);
                }
            }
            level = next;
        }
        self.tree = Some(tree);
        self.swept = Some((began, began.elapsed()));
        self.sweeps += 1;
        self.whole_sweeps = if is_whole { self.whole_sweeps + 1 } else { 0 };
        self.groups.iter().map(|(name, group)| (name.clone(), group.usage)).collect()
    }

    /// Reads all that there is of some groups, as many as [`WHOLE_MAX`].
    pub fn read(&mut self, units: &[Arc<str>]) -> BTreeMap<Arc<str>, Usage> {
        let Some(tree) = &self.tree else { return BTreeMap::new() };
        let mut out = BTreeMap::new();
        for name in units.iter().take(WHOLE_MAX) {
            let Some(group) = self.groups.get_mut(name) else { continue };
            *group = with_rest(tree, with_counters(tree, std::mem::take(group)));
            out.insert(name.clone(), group.usage);
        }
        out
    }
}

fn join(parent: &str, child: &str) -> String {
    match parent.is_empty() {
        true => child.to_owned(),
        false => format!("{parent}/{child}"),
    }
}

/// The unit that a group is called after. One that the kernel would take for a file of its own has `_` before it.
fn unit_name(group: &str) -> Option<&str> {
    let name = group.strip_prefix('_').unwrap_or(group);
    SUFFIXES.iter().any(|suffix| name.ends_with(suffix)).then_some(name)
}

fn with_counters(tree: &Tree, mut group: Group) -> Group {
    let now = Instant::now();
    let cpu = tree.cpu_usage_us(&group.path).ok();
    // µs in a second are parts of a million.
    let share = rate(&mut group.cpu, cpu, now).map(|us| us as f32 / 10_000.0);
    group.usage.cpu = share.or(group.usage.cpu.filter(|_| cpu.is_some()));
    group.usage.memory = tree.memory_current(&group.path).ok();
    group
}

fn with_rest(tree: &Tree, mut group: Group) -> Group {
    let now = Instant::now();
    let (read, written) = tree.io_bytes(&group.path).ok().unzip();
    group.usage.read =
        rate(&mut group.read, read, now).map(|each| each as u64).or(group.usage.read);
    group.usage.written =
        rate(&mut group.written, written, now).map(|each| each as u64).or(group.usage.written);
    group.usage.tasks = tree.pids_current(&group.path).ok();
    let pressures = PRESSURES.iter().filter_map(|(resource, file)| {
        Some((pressure(&tree.read(&group.path, file).ok()?)?, *resource))
    });
    group.usage.pressure = pressures.max_by(|a, b| a.0.total_cmp(&b.0));
    group
}

/// Growth in a second since the last look; none at the first, and so shortly after it that it would say nothing.
fn rate(before: &mut Option<Count>, value: Option<u64>, now: Instant) -> Option<f64> {
    const LEAST: Duration = Duration::from_millis(200);
    let Some(value) = value else {
        *before = None;
        return None;
    };
    let last = before.get_or_insert(Count { value, at: now });
    let passed = now.saturating_duration_since(last.at);
    if passed < LEAST {
        return None;
    }
    let grown = value.saturating_sub(last.value);
    *last = Count { value, at: now };
    Some(grown as f64 / passed.as_secs_f64())
}

/// Percent of the last 10 s in which some task waited.
fn pressure(text: &str) -> Option<f32> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split(' ').find_map(|word| word.strip_prefix("avg10="))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_growth_in_a_second() {
        let (mut count, begin) = (None, Instant::now());
        let after = |ms| begin + Duration::from_millis(ms);
        assert_eq!(rate(&mut count, Some(100), begin), None);
        assert_eq!(rate(&mut count, Some(110), after(10)), None, "too soon");
        assert_eq!(rate(&mut count, Some(300), after(2000)), Some(100.0));
        assert_eq!(rate(&mut count, Some(5), after(3000)), Some(0.0), "one that was set back");
        assert_eq!(rate(&mut count, None, after(4000)), None);
        assert_eq!(rate(&mut count, Some(5), after(5000)), None, "another group of that name");
    }

    #[test]
    fn pressure_is_that_of_some_task() {
        let text =
            "some avg10=12.50 avg60=1.00 avg300=0.10 total=9\nfull avg10=7.00 avg60=0 total=1\n";
        assert_eq!((pressure(text), pressure("")), (Some(12.5), None));
    }

    #[test]
    fn groups_are_called_after_units() {
        let names = ["web.service", "_cpu.service", "cgroup.procs", "a.slice", "worker"];
        let expected = [Some("web.service"), Some("cpu.service"), None, Some("a.slice"), None];
        assert_eq!(names.map(unit_name), expected);
    }

    #[test]
    fn groups_of_slices_are_found_and_those_within_units_are_not() {
        use std::fs;
        let scratch = warren_testkit::Scratch::new("console-usage");
        let group = |path: &str, cpu_us: u64| {
            let group = scratch.0.join(path);
            fs::create_dir_all(&group).expect("a directory");
            fs::write(group.join("cpu.stat"), format!("usage_usec {cpu_us}\n")).expect("written");
            fs::write(group.join("memory.current"), "4096\n").expect("written");
            fs::write(group.join("pids.current"), "3\n").expect("written");
        };
        group("a.slice", 5);
        group("a.slice/a-b.slice/web.service", 5);
        group("a.slice/a-b.slice/web.service/inner.service", 5);
        let mut sampler = Sampler::default();
        sampler.open(&scratch.0);
        assert!(sampler.is_due(false));
        let found = sampler.sweep(false);
        assert!(sampler.is_due(false), "two make the first rates");
        let names: Vec<&str> = found.keys().map(|name| &**name).collect();
        assert_eq!(names, ["a-b.slice", "a.slice", "web.service"]);
        assert_eq!(found.get("web.service").expect("it is found").tasks, None);
        sampler.sweep(false);
        assert!(!sampler.is_due(false), "then there is a rest");
        assert!(sampler.is_due(true), "more is wanted than was read");
        let all = sampler.sweep(true);
        assert_eq!(all.get("web.service").expect("it is found").tasks, Some(3));
        assert!(sampler.is_due(true), "two make the first rates");
        sampler.sweep(true);
        assert!(!sampler.is_due(true), "then there is a rest");
        let whole = sampler.read(&["web.service".into(), "gone.service".into()]);
        let usage = whole.get("web.service").expect("it is read");
        assert_eq!((whole.len(), usage.tasks, usage.memory), (1, Some(3), Some(4096)));
    }
}

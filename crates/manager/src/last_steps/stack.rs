//! What lies on what: mounts on devices, devices on devices, loop devices and swap files on mounts.
//! From that alone follows the order in which storage is taken apart.
//!
//! [`Stack::find`] reads it from the kernel, [`Stack::steps`] decides. Must not: take any step.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use warren_sys::block;
use warren_sys::mount::Mount;

use crate::last_steps::steps::Step;
use crate::mount::kernel_mounts::stays;
use crate::mount::swaps::areas;

/// Names of block devices as in `/sys/class/block`.
const SYS_BLOCK: &str = "/sys/class/block";

/// The root directory.
pub(super) const ROOT: &str = "/";

/// One block device that can be taken apart, or through which others lie on one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// `loop0`, `md127`, `dm-3`, `loop0p1`
    pub name: String,
    /// How it goes; none for what stays as it is: disks and partitions.
    pub step: Option<Step>,
    /// The devices that it is made of.
    pub parts: Vec<String>,
    /// The file that it is made of.
    pub file: Option<String>,
}

/// Storage in use.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    /// Mounts, each with the name of the device that it is of.
    pub mounts: Vec<(Mount, Option<String>)>,
    /// Devices by name.
    pub devices: BTreeMap<String, Device>,
    /// Swap areas: devices with their names, and files.
    pub swaps: Vec<(String, Option<String>)>,
}

/// A step, and those of the list that must be over before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// What is to be done.
    pub step: Step,
    /// Positions in the list.
    pub after: BTreeSet<usize>,
}

/// What a step takes away, for those that lie on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Thing {
    /// By its place in the table.
    Mount(usize),
    Device(String),
    Swap(usize),
}

impl Stack {
    /// What the kernel says is in use.
    pub fn find(mounts: Vec<Mount>) -> Stack {
        let names = fs::read_dir(SYS_BLOCK).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        let devices: BTreeMap<String, Device> =
            names.filter_map(|name| Some((name.clone(), look_at(&name)?))).collect();
        let device = |source: &str| device_name(source).filter(|name| devices.contains_key(name));
        let of_mount = |mount: Mount| {
            let device = device(&mount.source);
            (mount, device)
        };
        let of_swap = |path: String| {
            let device = device(&path);
            (path, device)
        };
        let mounts = mounts.into_iter().map(of_mount).collect();
        let swaps = swap_areas().into_iter().map(of_swap).collect();
        Stack { mounts, devices, swaps }
    }

    /// Every step, each after those that take away what lies on its object. What the last mounts
    /// need is left alone.
    pub fn steps(&self) -> Vec<Ordered> {
        let needed = self.needed_to_the_last();
        let mut out: Vec<Ordered> = Vec::new();
        let mut places: BTreeMap<Thing, usize> = BTreeMap::new();
        let mut add = |thing: Thing, step: Step| {
            places.insert(thing, out.len());
            out.push(Ordered { step, after: BTreeSet::new() });
        };
        for (at, (mount, _)) in self.mounts.iter().enumerate() {
            if !stays(&mount.mount_point) {
                add(Thing::Mount(at), Step::Unmount(mount.mount_point.clone()));
            }
        }
        for (at, (path, _)) in self.swaps.iter().enumerate() {
            add(Thing::Swap(at), Step::SwapOff(path.clone()));
        }
        for device in self.devices.values().filter(|device| !needed.contains(&device.name)) {
            if let Some(step) = &device.step {
                add(Thing::Device(device.name.clone()), step.clone());
            }
        }
        for (thing, &upper) in &places {
            for lower in self.below(thing, &places) {
                if let Some(lower) = out.get_mut(lower) {
                    lower.after.insert(upper);
                }
            }
        }
        out
    }

    /// The file systems on disks that are there to the last, but for the root: each is made read-only where
    /// it is, and before the root. What has the root's device goes with it.
    pub fn kept(&self) -> Vec<Step> {
        let of_root = |mount: &Mount| mount.mount_point == ROOT;
        let root = self.mounts.iter().rfind(|(mount, _)| of_root(mount));
        let root = root.and_then(|(_, device)| device.as_deref());
        let is_kept = |mount: &Mount| stays(&mount.mount_point) && !of_root(mount);
        let on_disk = |device: &Option<String>| device.is_some() && device.as_deref() != root;
        let kept = self.mounts.iter().filter(|(mount, device)| is_kept(mount) && on_disk(device));
        kept.map(|(mount, _)| Step::ReadOnly(mount.mount_point.clone())).collect()
    }

    /// Positions of the nearest things below that are to go, past those that stay.
    fn below(&self, thing: &Thing, places: &BTreeMap<Thing, usize>) -> BTreeSet<usize> {
        let mut found = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut next = self.lies_on(thing);
        while let Some(lower) = next.pop() {
            if !seen.insert(lower.clone()) {
                continue;
            }
            match places.get(&lower) {
                Some(&place) => _ = found.insert(place),
                None => next.extend(self.lies_on(&lower)),
            }
        }
        found
    }

    fn lies_on(&self, thing: &Thing) -> Vec<Thing> {
        let device = |name: &String| Thing::Device(name.clone());
        let on_file = |path: &str| self.mount_of(path).map(Thing::Mount);
        match thing {
            Thing::Mount(at) => {
                let Some((mount, source)) = self.mounts.get(*at) else { return Vec::new() };
                let parent =
                    |(other, _): &(Mount, _)| other.id == mount.parent && other.id != mount.id;
                let parent = self.mounts.iter().position(parent).map(Thing::Mount);
                parent.into_iter().chain(source.iter().map(device)).collect()
            }
            Thing::Swap(at) => {
                let Some((path, source)) = self.swaps.get(*at) else { return Vec::new() };
                match source {
                    Some(name) => vec![device(name)],
                    None => on_file(path).into_iter().collect(),
                }
            }
            Thing::Device(name) => {
                let Some(found) = self.devices.get(name) else { return Vec::new() };
                let file = found.file.as_deref().and_then(on_file);
                found.parts.iter().map(device).chain(file).collect()
            }
        }
    }

    /// The mount that a file lies on: the last one of the deepest mount point above it.
    fn mount_of(&self, path: &str) -> Option<usize> {
        let points = self.mounts.iter().map(|(mount, _)| mount.mount_point.as_str()).enumerate();
        let above = points.filter(|(_, point)| Path::new(path).starts_with(point));
        above.max_by_key(|(at, point)| (point.len(), *at)).map(|(at, _)| at)
    }

    /// Devices that mounts lie on which are there to the last.
    fn needed_to_the_last(&self) -> BTreeSet<String> {
        let mounts = self.mounts.iter().enumerate();
        let last = mounts.filter(|(_, (mount, _))| stays(&mount.mount_point));
        let mut next: Vec<Thing> = last.map(|(at, _)| Thing::Mount(at)).collect();
        let mut seen: BTreeSet<Thing> = BTreeSet::new();
        while let Some(thing) = next.pop() {
            let lower = self.lies_on(&thing);
            next.extend(lower.into_iter().filter(|lower| seen.insert(lower.clone())));
        }
        let name = |thing| match thing {
            Thing::Device(name) => Some(name),
            _ => None,
        };
        seen.into_iter().filter_map(name).collect()
    }
}

/// `/dev/mapper/x` → `dm-3`. Looked at only where no server is, in `/dev`.
fn device_name(source: &str) -> Option<String> {
    source.strip_prefix("/dev/").and_then(|_| block::name_of(source))
}

/// One device, by what `/sys` says of it; none if nothing is behind it.
fn look_at(name: &str) -> Option<Device> {
    let dir = Path::new(SYS_BLOCK).join(name);
    let read = |file: &str| fs::read_to_string(dir.join(file)).ok();
    let trimmed = |text: String| text.trim_end_matches('\n').to_owned();
    let node = format!("/dev/{}", name.replace('!', "/"));
    let file = read("loop/backing_file").map(trimmed);
    let step = match (&file, read("md/array_state"), read("dm/name")) {
        (Some(_), _, _) => Some(Step::Loop(node)),
        (_, Some(state), _) if matches!(state.trim(), "" | "clear" | "inactive") => return None,
        (_, Some(_), _) => Some(Step::Array(node)),
        (_, _, Some(name)) => Some(Step::Mapped(trimmed(name))),
        // An unused loop device.
        _ if name.starts_with("loop") && !dir.join("partition").exists() => return None,
        _ => None,
    };
    let slaves = fs::read_dir(dir.join("slaves")).into_iter().flatten().flatten();
    let mut parts: Vec<String> =
        slaves.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    if dir.join("partition").exists() {
        // Its directory is below that of the device that it is a part of.
        let real = fs::canonicalize(&dir).ok();
        let whole = real.as_deref().and_then(Path::parent).and_then(Path::file_name);
        parts.extend(whole.and_then(|whole| whole.to_str()).map(str::to_owned));
    }
    parts.sort();
    Some(Device { name: name.to_owned(), step, parts, file })
}

/// Swap areas in use, from proc(5), `/proc/swaps`.
pub(super) fn swap_areas() -> Vec<String> {
    let text = warren_sys::text::read("/proc/swaps").unwrap_or_default();
    areas(&text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One thing a line, what it lies on behind `on`: `mount ID PATH on PARENT-ID [DEVICE]`,
    /// `swap PATH [on DEVICE]`, `loop NAME on FILE`, `md NAME on PARTS`, `dm NAME on PARTS`,
    /// `part NAME on DISK`, `disk NAME`.
    fn stack(text: &str) -> Stack {
        let mut stack = Stack::default();
        for line in text.lines() {
            let (thing, on) = line.split_once(" on ").unwrap_or((line, ""));
            let words: Vec<&str> = thing.split(' ').collect();
            let on: Vec<String> = on.split_whitespace().map(str::to_owned).collect();
            match words[..] {
                ["mount", id, path] => {
                    let id = id.parse().expect("a number");
                    let parent = on.first().map_or(id, |id| id.parse().expect("a number"));
                    let source = on.get(1).map_or(String::new(), |name| format!("/dev/{name}"));
                    let mount_point = path.to_owned();
                    let fstype = "ext4".to_owned();
                    let mount = Mount { id, parent, mount_point, source, fstype };
                    stack.mounts.push((mount, on.get(1).cloned()));
                }
                ["swap", path] => stack.swaps.push((path.to_owned(), on.first().cloned())),
                [kind, name] => {
                    let node = format!("/dev/{name}");
                    let step = match kind {
                        "loop" => Some(Step::Loop(node)),
                        "md" => Some(Step::Array(node)),
                        "dm" => Some(Step::Mapped(name.to_owned())),
                        _ => None,
                    };
                    let is_loop = kind == "loop";
                    let file = on.first().filter(|_| is_loop).cloned();
                    let parts = if is_loop { Vec::new() } else { on };
                    let name = name.to_owned();
                    stack.devices.insert(name.clone(), Device { name, step, parts, file });
                }
                _ => panic!("what is {line}"),
            }
        }
        stack
    }

    /// The steps in rounds of what may be taken side by side.
    fn rounds(stack: &Stack) -> Vec<Vec<Step>> {
        let steps = stack.steps();
        let mut over: BTreeSet<usize> = BTreeSet::new();
        let mut rounds = Vec::new();
        while over.len() < steps.len() {
            let free = |at: &usize| !over.contains(at) && steps[*at].after.is_subset(&over);
            let round: Vec<usize> = (0..steps.len()).filter(free).collect();
            assert!(!round.is_empty(), "a circle: {steps:?}");
            rounds.push(round.iter().map(|&at| steps[at].step.clone()).collect());
            over.extend(round);
        }
        rounds
    }

    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        let said = |round: &Vec<Step>| {
            let mut words: Vec<String> = round.iter().map(Step::to_argument).collect();
            words.sort();
            words.join(" ")
        };
        assert_eq!(rounds(&stack(text)).iter().map(said).collect::<Vec<_>>(), want);
    }

    #[test]
    fn file_systems_on_disks_that_stay_are_made_read_only() {
        let kept = |text: &str| {
            let steps = stack(text).kept();
            steps.iter().map(Step::to_argument).collect::<Vec<_>>().join(" ")
        };
        let disks = "disk vda\ndisk vdb\ndisk vdc\n";
        let apart = "mount 1 / on 1 vda\nmount 2 /usr on 1 vdb\nmount 3 /run on 1\n\
                     mount 4 /home on 1 vdc\nmount 5 /proc on 1\nmount 6 /dev/x on 1 vdc\n";
        assert_eq!(kept(&format!("{apart}{disks}")), "read-only:/usr read-only:/dev/x");
        let same = "mount 1 / on 1 vda\nmount 2 /usr on 1 vda\n";
        assert_eq!(kept(&format!("{same}{disks}")), "");
    }

    #[test]
    fn a_stack_goes_from_its_top_and_trees_side_by_side() {
        check(
            "mount 1 /\nmount 2 /proc on 1\nmount 3 /a on 1 vda1\nmount 4 /a/b on 3 md0p1\n\
             mount 5 /c on 1 dm-0\nswap /a/swap\nswap /dev/dm-1 on dm-1\ndisk vda\n\
             part vda1 on vda\npart md0p1 on md0\nmd md0 on loop0 loop1\nloop loop0 on /a/0\n\
             loop loop1 on /a/1\ndm dm-0 on md0\ndm dm-1 on loop2\nloop loop2 on /c/file",
            &[
                "swapoff:/a/swap swapoff:/dev/dm-1 unmount:/a/b",
                "mapped:dm-1",
                "loop:/dev/loop2",
                "unmount:/c",
                "mapped:dm-0",
                "array:/dev/md0",
                "loop:/dev/loop0 loop:/dev/loop1",
                "unmount:/a",
            ],
        );
    }

    #[test]
    fn what_the_last_mounts_lie_on_stays() {
        check(
            "mount 1 / on 1 dm-0\nmount 2 /usr on 1 md1\nmount 3 /x on 1 dm-1\ndm dm-0 on md0\n\
             md md0 on vda vdb\nmd md1 on vdc\ndm dm-1 on md0",
            &["unmount:/x", "mapped:dm-1"],
        );
    }

    #[test]
    fn mounts_on_mounts_go_first_past_those_that_stay() {
        check(
            "mount 1 /\nmount 2 /mnt on 1\nmount 3 /run on 2\nmount 4 /run/x on 3",
            &["unmount:/run/x", "unmount:/mnt"],
        );
        check(
            "mount 1 /\nmount 2 /proc on 1\nmount 3 /a on 1\nmount 4 /a/b on 3\nmount 5 /a/c on 3\n\
             mount 6 /a/b on 4\nmount 7 /devices on 1\nmount 8 /dev on 1\nmount 9 /dev/shm on 8",
            &["unmount:/a/b unmount:/a/c unmount:/devices", "unmount:/a/b", "unmount:/a"],
        );
    }

    /// A row of numbers that is always the same for a seed (Knuth's constants).
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            ((self.0 >> 33) % bound.max(1) as u64) as usize
        }
    }

    /// One thing of a random stack: its line, its step, and all that it lies on.
    struct Thing {
        line: String,
        step: Step,
        on: Vec<usize>,
        device: Option<String>,
        mount: Option<(u64, String)>,
    }

    /// Each thing lies on some that came before it.
    fn random(seed: u64) -> Vec<Thing> {
        let mut numbers = Numbers(seed);
        let mut all: Vec<Thing> = Vec::new();
        for at in 0..2 + numbers.below(14) {
            let devices: Vec<usize> = (0..at).filter(|&i| all[i].device.is_some()).collect();
            let mounts: Vec<usize> = (0..at).filter(|&i| all[i].mount.is_some()).collect();
            let device = devices.get(numbers.below(devices.len() + 1)).copied();
            let mount = mounts.get(numbers.below(mounts.len() + 1)).copied();
            let name = |i: usize| all[i].device.clone().expect("a device");
            let kind = numbers.below(5);
            all.push(match (kind, device, mount) {
                (0, Some(part), _) => {
                    let other = devices[numbers.below(devices.len())];
                    let line = format!("md md{at} on {} {}", name(part), name(other));
                    let step = Step::Array(format!("/dev/md{at}"));
                    let device = Some(format!("md{at}"));
                    Thing { line, step, on: vec![part, other], device, mount: None }
                }
                (1, Some(part), _) => {
                    let line = format!("dm dm-{at} on {}", name(part));
                    let step = Step::Mapped(format!("dm-{at}"));
                    let device = Some(format!("dm-{at}"));
                    Thing { line, step, on: vec![part], device, mount: None }
                }
                (2, _, _) => {
                    let place = mount.and_then(|i| all[i].mount.clone());
                    let place = place.map_or("/root".to_owned(), |(_, path)| path);
                    let line = format!("loop loop{at} on {place}/{at}.img");
                    let step = Step::Loop(format!("/dev/loop{at}"));
                    let device = Some(format!("loop{at}"));
                    Thing { line, step, on: mount.into_iter().collect(), device, mount: None }
                }
                (3, Some(part), _) => {
                    let path = format!("/dev/{}", name(part));
                    let line = format!("swap {path} on {}", name(part));
                    let step = Step::SwapOff(path);
                    Thing { line, step, on: vec![part], device: None, mount: None }
                }
                _ => {
                    let parent = mount.and_then(|i| all[i].mount.clone());
                    let (parent, path) = parent.unwrap_or((1, String::new()));
                    let (id, path) = (at as u64 + 2, format!("{path}/m{at}"));
                    let source = device.map_or(String::new(), |i| format!(" {}", name(i)));
                    let line = format!("mount {id} {path} on {parent}{source}");
                    let step = Step::Unmount(path.clone());
                    let on = mount.into_iter().chain(device).collect();
                    Thing { line, step, on, device: None, mount: Some((id, path)) }
                }
            });
        }
        all
    }

    /// A kernel that knows nothing but who lies on whom: whatever nobody lies on goes, all at once.
    fn naive(all: &[Thing]) -> Vec<BTreeSet<Step>> {
        let mut left: Vec<usize> = (0..all.len()).collect();
        let mut rounds = Vec::new();
        while !left.is_empty() {
            let lain_on: BTreeSet<usize> =
                left.iter().flat_map(|&at| all[at].on.iter().copied()).collect();
            let (stay, go): (Vec<usize>, Vec<usize>) =
                left.into_iter().partition(|at| lain_on.contains(at));
            rounds.push(go.iter().map(|&at| all[at].step.clone()).collect());
            left = stay;
        }
        rounds
    }

    #[test]
    fn random_stacks_go_as_soon_as_nothing_lies_on_them() {
        for seed in 0..2_000 {
            let all = random(seed);
            let lines: Vec<&str> = all.iter().map(|thing| thing.line.as_str()).collect();
            let text = format!("mount 1 /\n{}", lines.join("\n"));
            let found: Vec<BTreeSet<Step>> =
                rounds(&stack(&text)).into_iter().map(BTreeSet::from_iter).collect();
            assert_eq!(found, naive(&all), "seed {seed}:\n{text}");
        }
    }
}

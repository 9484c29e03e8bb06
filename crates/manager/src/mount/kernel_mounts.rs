//! Units for what the kernel has mounted or swaps to and no file is for, as if
//! `/proc/self/mountinfo` and `/proc/swaps` were directories of unit files (systemd.mount(5),
//! systemd.swap(5)).
//!
//! The loop sees the mount table (`mount::table`) and tells the loader which names gained
//! or lost a mount; the loader keeps a text for each of them and makes the next generation of what
//! differs, as for a changed file. So a mount costs one definition, however many units there are;
//! mounts that come while one generation is being made go into the next together.
//!
//! What was mounted before the first manager of a container or a nested machine is somebody
//! else's: its unit has no default dependencies, so that nothing unmounts it at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use warren_core::graph::Graph;
use warren_sys::mount::{self, Mount};
use warren_unit::load::is_api_file_system;
use warren_unit::parse::{UnitFile, parse};
use warren_unit::{UnitName, UnitType};

use crate::base::say::say;
use crate::mount::utab::DEVICE_BOUND;

/// Where such units come from, by `SourcePath=`.
const SOURCE: &str = "/proc/self/mountinfo";

/// The same of swap areas.
const SWAP_SOURCE: &str = "/proc/swaps";

/// A source or a type that is longer is cut: it is only shown.
const VALUE_BYTES_MAX: usize = 4096;

/// Directories whose mounts are the kernel's own and hold nothing.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Mounts that are needed to the last.
const KEPT: [&str; 3] = ["/", "/usr", "/run"];

/// Where an initial RAM file system is that may have the last word, with all that is mounted below.
const INITRAMFS: &str = "/run/initramfs";

/// What a soft reboot makes the root: it must not be stopped before. At other ends it is unmounted
/// by the last steps.
const NEXT_ROOT: &str = "/run/nextroot";

/// A name that gained or lost a mount, or whose mount is tied otherwise to its device than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The unit.
    pub name: UnitName,
    /// Id of the mount, if there is one now.
    pub mount: Option<u64>,
    /// Whether the mount goes with its device; `None` where nothing is known of the device: as it was.
    pub is_bound: Option<bool>,
}

/// Whether the unit of a mount that no file is for goes with its device.
pub fn is_bound(file: &UnitFile) -> bool {
    file.entries()
        .filter(|entry| entry.setting.setting().name == "Options")
        .any(|entry| entry.value.split(',').any(|option| option == DEVICE_BOUND))
}

/// What was mounted when the manager began.
#[derive(Debug, Default)]
pub struct FoundMounts {
    /// No texts yet.
    pub kernel: KernelMounts,
    /// What is to get one.
    pub now: Vec<Changed>,
}

/// Whether what is mounted at this path is left alone by the end.
pub fn stays(path: &str) -> bool {
    let trees = KERNEL.into_iter().chain([INITRAMFS]);
    KEPT.contains(&path) || trees.into_iter().any(|dir| is_at_or_below(path, dir))
}

fn is_at_or_below(path: &str, dir: &str) -> bool {
    let rest = path.strip_prefix(dir);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The texts of such units.
#[derive(Debug, Default)]
pub struct KernelMounts {
    files: BTreeMap<UnitName, Arc<UnitFile>>,
    /// Mounts that were there before this machine.
    inherited: BTreeSet<u64>,
}

impl KernelMounts {
    /// Without any, for a machine that these mounts are not its own of.
    pub fn new(inherited: BTreeSet<u64>) -> KernelMounts {
        KernelMounts { files: BTreeMap::new(), inherited }
    }

    /// The texts that a generation of another incarnation was made of.
    pub fn take_up(&mut self, graph: &Graph) {
        for definition in graph.definitions().filter(|definition| definition.is_of_kernel()) {
            let file = definition.files.fragment.clone();
            self.files.extend(file.map(|file| (definition.name.clone(), file)));
        }
    }

    /// The text for a name, if it has one.
    pub fn file(&self, name: &UnitName) -> Option<&Arc<UnitFile>> {
        self.files.get(name)
    }

    /// All names with a text.
    pub fn names(&self) -> impl Iterator<Item = &UnitName> {
        self.files.keys()
    }

    /// A name gained or lost a mount, or its area. Asks the kernel what it is.
    pub fn set(&mut self, changed: Changed, table: &mut MountsNow) {
        let Changed { name, mount: id, is_bound: now_bound } = changed;
        let was_bound = self.files.get(&name).is_some_and(|file| is_bound(file));
        let text = match name.unit_type() {
            UnitType::Swap => id.and_then(|_| swap_text(&name)),
            _ => {
                let mount = id.and_then(|id| Some((id, table.look_at(id)?)));
                let mount = mount.filter(|(_, m)| !is_api_file_system(&m.mount_point));
                let mount = mount.filter(|(_, m)| !is_of_container(&m.mount_point));
                mount.map(|(id, mount)| {
                    let is_bound = now_bound.unwrap_or(was_bound);
                    let options = table.options(id);
                    text(&mount, &options, self.is_left_alone(&mount), is_bound)
                })
            }
        };
        match text {
            Some(text) => {
                // The empty path is what says that there is no file.
                let (file, _) = parse(Arc::from(""), text.as_bytes(), name.unit_type());
                // The same value says that nothing changed.
                if self.files.get(&name).is_none_or(|old| **old != file) {
                    self.files.insert(name, Arc::new(file));
                }
            }
            None => {
                self.files.remove(&name);
            }
        }
    }

    fn is_left_alone(&self, mount: &Mount) -> bool {
        let is_next_root = is_at_or_below(&mount.mount_point, NEXT_ROOT);
        is_next_root || stays(&mount.mount_point) || self.inherited.contains(&mount.id)
    }
}

/// The kernel's word on mounts, for changes that are looked at together.
#[derive(Debug, Default)]
pub struct MountsNow {
    /// Before Linux 6.8 there is only the whole table: it is read once for all of them.
    table: Option<BTreeMap<u64, (Mount, String)>>,
}

impl MountsNow {
    /// One mount; it may be gone.
    pub fn look_at(&mut self, id: u64) -> Option<Mount> {
        mount::stat(id).ok().or_else(|| Some(self.in_table(id)?.0.clone()))
    }

    /// The options with which a mount is shown; none if it is gone.
    fn options(&mut self, id: u64) -> String {
        let told = mount::options_of(id).ok().flatten();
        told.or_else(|| Some(self.in_table(id)?.1.clone())).unwrap_or_default()
    }

    fn in_table(&mut self, id: u64) -> Option<&(Mount, String)> {
        let read = || {
            let table = mount::table_with_options().unwrap_or_default();
            table.into_iter().map(|(mount, options)| (mount.id, (mount, options))).collect()
        };
        self.table.get_or_insert_with(read).get(&id)
    }
}

fn text(mount: &Mount, options: &str, left_alone: bool, is_bound: bool) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "[Unit]\nSourcePath={SOURCE}");
    if mount.mount_point != "/" {
        // The root has a title of its own.
        let _ = writeln!(out, "Description={}", value(&mount.mount_point));
    }
    if left_alone {
        let _ = writeln!(out, "DefaultDependencies=no");
    }
    // Where= follows from the name, which has no character that a file could not hold.
    let _ = writeln!(out, "[Mount]\nWhat={}\nType={}", value(&mount.source), value(&mount.fstype));
    let bound = if is_bound && !left_alone { DEVICE_BOUND } else { "" };
    let shown = shown(options);
    let options = [&*shown, bound].into_iter().filter(|option| !option.is_empty());
    let options = options.collect::<Vec<_>>().join(",");
    if !options.is_empty() {
        let _ = writeln!(out, "Options={options}");
    }
    out
}

/// The path follows from the name.
fn swap_text(name: &UnitName) -> Option<String> {
    let path = warren_unit::escape::path_unescape(name.prefix()).ok()?.replace('%', "%%");
    Some(format!("[Unit]\nSourcePath={SWAP_SOURCE}\nDescription={path}\n[Swap]\nWhat={path}\n"))
}

/// Options, which are only shown: none of them is for the loader.
fn shown(options: &str) -> String {
    let options = options.split(',').filter(|option| !option.starts_with("x-"));
    let options = options.collect::<Vec<_>>().join(",");
    if options.is_empty() { options } else { value(&options) }
}

/// As it may stand in a unit file.
fn value(text: &str) -> String {
    let cut = text.char_indices().take_while(|(at, _)| *at < VALUE_BYTES_MAX);
    let plain = |c: char| if c.is_control() || c == '\\' { '?' } else { c };
    let out: String = cut.map(|(_, c)| plain(c)).collect();
    let out = out.replace('%', "%%");
    if out.trim().is_empty() { "none".to_owned() } else { out }
}

/// The mounts that were there before the machine: found by its first manager, and written down for
/// those after it. Of a host there are none.
pub fn inherited(
    list: &Path,
    is_first: bool,
    is_host: bool,
    now: impl Iterator<Item = u64>,
) -> BTreeSet<u64> {
    if is_host {
        return BTreeSet::new();
    }
    if !is_first {
        let text = std::fs::read_to_string(list).unwrap_or_default();
        return text.lines().filter_map(|line| line.parse().ok()).collect();
    }
    let all: BTreeSet<u64> = now.collect();
    let lines: Vec<String> = all.iter().map(u64::to_string).collect();
    if let Err(e) = std::fs::write(list, lines.join("\n")) {
        say!("{}: {e}", list.display());
    }
    all
}

/// What the manager of a container mounts for itself in it: no unit is for that, as with systemd 252,
/// which was asked.
fn is_of_container(path: &str) -> bool {
    path == "/dev/console" || path.starts_with("/run/host/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_the_manager_of_a_container_is_no_unit() {
        assert!(
            ["/dev/console", "/run/host/notify", "/run/host/a/b"]
                .iter()
                .all(|p| is_of_container(p))
        );
        let units = ["/dev/consolex", "/dev/null", "/run/hostx", "/run/systemd/x", "/run/y"];
        assert!(!units.iter().any(|path| is_of_container(path)));
    }

    #[test]
    fn what_is_needed_to_the_last_stays() {
        let gone = ["/home", "/usr/local", "/run/user/7", "/processes", "/run/initramfsx"];
        assert!(gone.iter().all(|path| !stays(path)));
        let kept = [
            "/",
            "/usr",
            "/run",
            "/proc",
            "/sys/kernel/debug",
            "/run/initramfs",
            "/run/initramfs/a",
        ];
        assert!(kept.iter().all(|path| stays(path)));
    }

    #[test]
    fn no_source_leaves_its_line() {
        let mount = |source: &str| Mount {
            id: 1,
            parent: 0,
            mount_point: "/a b".to_owned(),
            source: source.to_owned(),
            fstype: "tmpfs".to_owned(),
        };
        let line = |source: &str| {
            let text = text(&mount(source), "", false, false);
            text.lines().find_map(|line| line.strip_prefix("What=").map(str::to_owned))
        };
        assert_eq!(line("a\nType=x\\").as_deref(), Some("a?Type=x?"));
        assert_eq!(line("50%").as_deref(), Some("50%%"));
        assert_eq!(line("").as_deref(), Some("none"));
        assert_eq!(line(&"ä".repeat(9000)).map(|l| l.len()), Some(VALUE_BYTES_MAX));
        assert!(text(&mount("x"), "", true, true).contains("DefaultDependencies=no"));
        let options = text(&mount("x"), "ro,x-systemd.device-bound,a=5%\nb", false, false);
        assert!(options.ends_with("\nOptions=ro,a=5%%?b\n"), "{options}");
        let is_bound = |left_alone, bound| {
            let text = text(&mount("/dev/x"), "rw", left_alone, bound);
            is_bound(&parse(Arc::from(""), text.as_bytes(), UnitType::Mount).0)
        };
        assert!(is_bound(false, true));
        assert!(!is_bound(true, true) && !is_bound(false, false));
    }
}

//! The leftover processes that the last steps wait for. The last steps run in a process of their own and report to
//! the manager by a file.
//!
//! One that is named is killed where somebody does not want to wait for it any longer; those who take the last
//! steps see it end.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use warren_sys::signal::SIGKILL;

use warren_sys::process;
use warren_unit::{UnitName, UnitType};
use warren_wire::control::ShutdownWait;

use crate::last_steps::own::OWN_GROUP;

/// What it is at, for the list of what an end waits for.
const PHASE: &str = "left over";

/// One process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOver {
    /// Its number.
    pub pid: i32,
    /// What tells it from a later one of that number; none before Linux 6.9.
    pub inode: Option<u64>,
    /// Its unit, if its cgroup says so.
    pub unit: Option<String>,
}

/// Those that are waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftoverWait {
    /// Since when, in µs of the monotonic clock.
    pub from_us: u64,
    /// When they are killed.
    pub until_us: u64,
    /// Who was there then.
    pub processes: Vec<LeftOver>,
}

/// Where it is written, for last steps with this report.
pub fn path(report: &Path) -> PathBuf {
    report.with_extension("waits")
}

impl LeftOver {
    /// What is to be known of a process.
    pub fn of(pid: i32, pidfd: &OwnedFd) -> LeftOver {
        LeftOver { pid, inode: process::pidfd_inode(pidfd.as_fd()), unit: unit_of_process(pid) }
    }

    /// The process, if it is there.
    fn open(&self) -> Option<OwnedFd> {
        let pidfd = process::pidfd_open(self.pid).ok()?;
        let is_same = process::pidfd_inode(pidfd.as_fd()) == self.inode;
        (is_same && !process::is_ending(self.pid as u32)).then_some(pidfd)
    }
}

/// The unit of a process, if its cgroup is one of this machine's: what is above those are the units of another,
/// as where this one is nested. Whoever asks is in a group of the machine's own.
pub(super) fn unit_of_process(pid: i32) -> Option<String> {
    let own = process::cgroup_path(std::process::id() as i32).ok()?;
    let group = process::cgroup_path(pid).ok()?;
    unit_of(&own, &group).map(str::to_owned)
}

/// What is below the group of a unit is the unit's own affair, and slices are none that had processes.
fn unit_of<'g>(own: &str, group: &'g str) -> Option<&'g str> {
    let root = own.strip_suffix(OWN_GROUP)?;
    let is_unit =
        |part: &&str| UnitName::parse(part).is_ok_and(|name| name.unit_type() != UnitType::Slice);
    group.strip_prefix(root)?.split('/').find(is_unit)
}

impl LeftoverWait {
    /// Writes it for who asks. Nobody waits longer if it cannot be.
    pub fn write(&self, path: &Path) {
        let mut text = format!("{} {}\n", self.from_us, self.until_us);
        for LeftOver { pid, inode, unit } in &self.processes {
            let (inode, unit) = (inode.unwrap_or(0), unit.as_deref().unwrap_or("-"));
            let _ = writeln!(text, "{pid} {inode} {unit}");
        }
        let fresh = path.with_extension("waits.new");
        let written = std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, path));
        if written.is_err() {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Reads it; nothing if nobody is waited for.
    pub fn read(path: &Path) -> Option<LeftoverWait> {
        let text = std::fs::read_to_string(path).ok()?;
        let mut lines = text.lines();
        let (from, until) = lines.next()?.split_once(' ')?;
        let one = |line: &str| {
            let mut words = line.splitn(3, ' ');
            let mut next = || words.next();
            let (pid, inode) = (next()?.parse().ok()?, next()?.parse().ok()?);
            let unit = Some(next()?.to_owned()).filter(|unit| unit != "-");
            Some(LeftOver { pid, inode: Some(inode).filter(|&inode| inode != 0), unit })
        };
        let processes = lines.map(one).collect::<Option<_>>()?;
        Some(LeftoverWait { from_us: from.parse().ok()?, until_us: until.parse().ok()?, processes })
    }

    /// Those that are still there, as clients are answered.
    pub fn answers(&self, now_us: u64) -> Vec<ShutdownWait> {
        let there = self.processes.iter().filter(|one| one.open().is_some());
        let one = |one: &LeftOver| ShutdownWait {
            unit: one.unit.clone(),
            phase: PHASE.to_owned(),
            pid: Some(one.pid as u32),
            process: Some(crate::base::process_name::process(one.pid as u32)),
            server: None,
            so_far_us: now_us.saturating_sub(self.from_us),
            left_us: Some(self.until_us.saturating_sub(now_us)),
        };
        there.map(one).collect()
    }

    /// Kills those of a unit; how many there were.
    pub fn kill(&self, unit: &str) -> usize {
        let of_unit = self.processes.iter().filter(|one| one.unit.as_deref() == Some(unit));
        let open = of_unit.filter_map(LeftOver::open);
        open.filter(|pidfd| process::pidfd_signal(pidfd.as_fd(), SIGKILL).is_ok()).count()
    }
}

/// Has who takes the last steps know that so many were killed, for the last words; `path` is as of
/// [`LeftoverWait::read`].
pub fn note_killed(path: &Path, count: usize) {
    let file = std::fs::File::options().append(true).create(true).open(killed(path));
    let _ = file.and_then(|mut file| writeln!(file, "{count}"));
}

/// How many were, since this was last asked.
pub(super) fn take_killed(path: &Path) -> usize {
    let path = killed(path);
    let counts = std::fs::read_to_string(&path).unwrap_or_default();
    let _ = std::fs::remove_file(path);
    counts.lines().filter_map(|line| line.parse::<usize>().ok()).fold(0, usize::saturating_add)
}

fn killed(path: &Path) -> PathBuf {
    path.with_extension("killed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::scratch::Scratch;

    #[test]
    fn who_is_waited_for_comes_back() {
        let scratch = Scratch::new("left-over");
        let path = path(&scratch.0.join("last-steps"));
        assert_eq!(LeftoverWait::read(&path), None);
        let one =
            |pid, inode, unit: Option<&str>| LeftOver { pid, inode, unit: unit.map(str::to_owned) };
        let processes = vec![one(7, Some(9), Some("a.service")), one(8, None, None)];
        let waited = LeftoverWait { from_us: 5, until_us: 6, processes };
        waited.write(&path);
        assert_eq!(LeftoverWait::read(&path), Some(waited));
        [2, 1].into_iter().for_each(|count| note_killed(&path, count));
        assert_eq!((take_killed(&path), take_killed(&path)), (3, 0));
    }

    #[test]
    fn the_unit_of_a_group() {
        let nested = "/user.slice/user@7.service/warren-x/init.scope";
        for (own, group, unit) in [
            ("/init.scope", "/system.slice/a.service", Some("a.service")),
            ("/init.scope", "/machine.slice/b.scope/payload/c.service", Some("b.scope")),
            (
                nested,
                "/user.slice/user@7.service/warren-x/system.slice/a.service",
                Some("a.service"),
            ),
            (nested, "/user.slice/user@7.service/other.service", None),
            ("/init.scope", "/system.slice", None),
            ("/elsewhere", "/system.slice/a.service", None),
        ] {
            assert_eq!(unit_of(own, group), unit, "{own} {group}");
        }
    }

    #[test]
    fn another_process_of_that_number_is_left_alone() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().expect("sleep(1)");
        let pid = child.id() as i32;
        let pidfd = process::pidfd_open(pid).expect("our child");
        let unit = Some("a.service".to_owned());
        let own = LeftOver { unit, ..LeftOver::of(pid, &pidfd) };
        let other =
            LeftOver { inode: own.inode.map_or(Some(1), |inode| Some(inode + 1)), ..own.clone() };
        let of = |one: &LeftOver| LeftoverWait {
            processes: vec![one.clone()],
            ..LeftoverWait::default()
        };
        assert_eq!((of(&other).kill("a.service"), of(&own).kill("b.service")), (0, 0));
        assert!(child.try_wait().expect("our child").is_none());
        assert_eq!((of(&other).answers(0).len(), of(&own).answers(0).len()), (0, 1));
        assert_eq!(of(&own).kill("a.service"), 1);
        child.wait().expect("our child");
        assert_eq!(of(&own).answers(0).len(), 0);
    }
}

//! What is measured: a manager that was booted over the layout, wherever it runs.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use warren_cli::nest::started::{Nested, Over};
use warren_cli::tour::layout::{self, Extent};
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_wire::control::{Leave, LeaveHow};

use super::Size;
use crate::lab;

/// Name of the machine in the lab.
const LAB_NAME: &str = "bench";

/// Largest layout that systemd is measured at when not told otherwise.
const PEER_SETS_MAX_DEFAULT: u32 = 1000;

/// Until a killed manager has ended.
const KILL_TAKES_MAX: Duration = Duration::from_secs(10);

/// Where and which.
#[derive(Clone, Debug)]
pub enum Place {
    /// Warrener by `warren run`.
    Nested,
    /// Whole machines by the lab's scripts: the name, the root file system, the init inside.
    Lab(&'static str, &'static str, &'static str),
}

impl Place {
    /// What can be measured here.
    pub fn available() -> Vec<Place> {
        if !lab::is_there() {
            println!("{}: only Warrener is measured, nested", lab::NO_LAB);
            return vec![Place::Nested];
        }
        let all = [
            Place::Lab("warrener", lab::ROOTFS, "/lab/bench/warren-init"),
            Place::Lab("systemd", lab::ROOTFS, lab::SYSTEMD),
            Place::Lab("systemd-newest", "rootfs-sid", lab::SYSTEMD),
        ];
        let there = |place: &Place| match place {
            Place::Lab(_, rootfs, _) => lab::directory().join(rootfs).is_dir(),
            Place::Nested => true,
        };
        all.into_iter().filter(there).collect()
    }

    /// Whether a layout of this size is measured here.
    pub fn takes(&self, size: Size) -> bool {
        let bound = std::env::var("PEER_SETS_MAX").ok().and_then(|n| n.parse().ok());
        let ours = self.name().starts_with("warrener");
        ours || size.sets <= bound.unwrap_or(PEER_SETS_MAX_DEFAULT)
    }

    /// For tables.
    pub fn name(&self) -> &'static str {
        match self {
            Place::Nested => "warrener (nested)",
            Place::Lab(name, ..) => name,
        }
    }
}

/// A booted manager.
pub struct Subject {
    /// Its process 1.
    pub pid: i32,
    /// From exec to readiness.
    pub boot: Duration,
    /// Its unit files, as seen from here.
    pub units: PathBuf,
    /// The payload, as seen from inside.
    pub echo: PathBuf,
    /// The manager's own cgroup.
    scope: PathBuf,
    runs: Runs,
}

/// What keeps it up.
enum Runs {
    Nested(Nested),
    Lab(lab::Machine),
}

impl Subject {
    /// Writes the layout and boots.
    pub fn boot(place: &Place, size: Size, programs: &Path) -> Result<Subject> {
        let scratch = std::env::temp_dir().join(format!("warren-bench-{}", std::process::id()));
        let units = scratch.join("units");
        let _ = fs::remove_dir_all(&scratch);
        fs::create_dir_all(&scratch)?;
        let echo = match place {
            Place::Nested => programs.join("warren-echo"),
            Place::Lab(..) => lab::copy_programs(LAB_NAME, programs)?.join("warren-echo"),
        };
        let Size { sets, slices } = size;
        layout::write(&units, Extent { sets, wanted: size.wanted(), slices }, &echo)?;
        let began = Instant::now();
        let runs = match place {
            Place::Nested => {
                let program = programs.join("warren");
                let (directory, target) = (&*units, layout::TARGET);
                let over = Over { flag: "--units", directory, target, sets: size.sets };
                Runs::Nested(Nested::over(&program, &scratch, &over)?)
            }
            Place::Lab(_, rootfs, init) => {
                Runs::Lab(lab::Machine::boot(LAB_NAME, rootfs, init, &units)?)
            }
        };
        let pid = match &runs {
            Runs::Nested(nested) => nested.machine.pid,
            Runs::Lab(machine) => machine.pid,
        };
        let boot = began.elapsed();
        let scope = scope_of(pid)?;
        Ok(Subject { pid, boot, units, echo, scope, runs })
    }

    /// Where the cgroups of its units lie.
    pub fn groups(&self) -> Result<&Path> {
        self.scope.parent().context("the manager is in a group of its own")
    }

    /// Runs a command inside; its output. It may fail for a peer, which is not what is measured.
    pub fn inside(&self, command: &[&str]) -> Result<String> {
        let output = lab::inside(self.pid, command).output().context("cannot start nsenter")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!self.is_ours() || output.status.success(), "{command:?}: {}", said.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A path inside, as seen from here.
    pub fn path(&self, inside: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{inside}", self.pid))
    }

    /// CPU time so far of the processes that are the manager now, by their threads. What came and
    /// went in its cgroup, such as generators, is in [`Subject::scope_cpu`] only.
    pub fn cpu(&self) -> Result<Duration> {
        let mut ns = 0;
        for pid in fs::read_to_string(self.scope.join("cgroup.procs"))?.lines() {
            let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for thread in threads.flatten() {
                // proc(5): the first number is the time on a CPU, in ns.
                let text = fs::read_to_string(thread.path().join("schedstat")).unwrap_or_default();
                ns += text.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
            }
        }
        Ok(Duration::from_nanos(ns))
    }

    /// CPU time of everything that ever ran in the manager's cgroup.
    pub fn scope_cpu(&self) -> Result<Duration> {
        let path = self.scope.join("cpu.stat");
        let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
        let us = text.lines().find_map(|l| l.strip_prefix("usage_usec ")?.parse().ok());
        us.map(Duration::from_micros).context("usage_usec")
    }

    /// Resident bytes and open descriptors of the manager's own processes.
    pub fn resources(&self) -> Result<(u64, usize)> {
        let pids = fs::read_to_string(self.scope.join("cgroup.procs"))?;
        let (mut bytes, mut fds) = (0, 0);
        for pid in pids.lines() {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let kib = status.lines().find_map(|l| {
                l.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<u64>().ok()
            });
            bytes += kib.unwrap_or(0) * 1024;
            fds += fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        }
        Ok((bytes, fds))
    }

    /// Whether it is Warrener.
    pub fn is_ours(&self) -> bool {
        self.manager_pid().is_ok()
    }

    fn manager_pid(&self) -> Result<i32> {
        let path = format!("/proc/{0}/task/{0}/children", self.pid);
        let children = fs::read_to_string(&path).context(path)?;
        let is_manager = |pid: &&str| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm == "warrend\n")
        };
        let pid = children.split(' ').find(is_manager).context("no manager runs")?;
        pid.parse().context("a pid")
    }

    /// Waits for so long; fails if the manager ends meanwhile.
    pub fn manager_lives_for(&self, time: Duration) -> Result<()> {
        let (pidfd, epoll) = (warren_sys::process::pidfd_open(self.manager_pid()?)?, Epoll::new()?);
        epoll.add(&pidfd, 0, Interest::READ)?;
        let mut events = Events::with_capacity(1);
        epoll.wait(&mut events, Some(time))?;
        ensure!(warren_sys::process::is_alive(pidfd.as_fd()), "the manager ended by itself");
        Ok(())
    }

    /// SIGKILL to the manager; returns when it has ended.
    pub fn kill_manager(&self) -> Result<()> {
        let pid = self.manager_pid()?;
        let (pidfd, epoll) = (warren_sys::process::pidfd_open(pid)?, Epoll::new()?);
        epoll.add(&pidfd, 0, Interest::READ)?;
        warren_sys::process::kill(pid, 9)?;
        Ok(epoll.wait(&mut Events::with_capacity(1), Some(KILL_TAKES_MAX))?)
    }

    /// Powers off; how long that took.
    pub fn down(self) -> Result<Duration> {
        let began = Instant::now();
        match self.runs {
            Runs::Nested(nested) => {
                nested.call(&Leave { how: Some(LeaveHow::Poweroff), ..Leave::default() })?;
                nested.wait()?;
            }
            Runs::Lab(machine) => machine.down()?,
        }
        let took = began.elapsed();
        let _ = fs::remove_dir_all(self.units.parent().unwrap_or(&self.units));
        Ok(took)
    }
}

/// The cgroup of process 1, which a manager shares with its own helpers.
pub fn scope_of(pid: i32) -> Result<PathBuf> {
    let mount = warren_sys::cgroup::mount_point()?.context("no cgroup2 file system")?;
    let group = warren_sys::process::cgroup_path(pid)?;
    Ok(mount.join(group.trim_start_matches('/')))
}

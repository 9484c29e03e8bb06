//! What clients ask of processes and of what services have stored, that changes nothing in the core.

use std::collections::BTreeSet;
use std::os::fd::AsFd as _;

use warren_bus::BusError;
use warren_bus::backend::{Answer, Outcome, StoredFd};
use warren_core::model::ids::UnitId;
use warren_core::protocol::request::KillWhom;
use warren_sys::errno::{ENOENT, ESRCH};
use warren_sys::signal::SIGKILL;
use warren_sys::{process, waits};

use crate::daemon::Daemon;
use crate::process::signals::LISTINGS_MAX;

impl Daemon {
    /// Queues a signal with a value. Of all processes only the main and the control process get it (systemctl(1),
    /// `--kill-value=`).
    pub(super) fn queue_signal(
        &mut self,
        unit: UnitId,
        whom: KillWhom,
        (signal, value): (i32, i32),
    ) -> Outcome {
        if self.core.graph().get(unit).is_none() {
            return Err(BusError::no_such_process("No matching processes to kill"));
        }
        let run = self.core.unit_run(unit);
        let main = run.main_process().map(|main| main.pid);
        let control = run.control_pid();
        let meant = match whom {
            KillWhom::Main => [main, None],
            KillWhom::Control => [control, None],
            KillWhom::All => [main, control],
        };
        for pid in meant.into_iter().flatten() {
            let sent = match self.process.table.pidfd(pid) {
                Some(pidfd) => process::pidfd_queue_signal(pidfd, signal, value),
                None => process::pidfd_open(pid.cast_signed())
                    .and_then(|pidfd| process::pidfd_queue_signal(pidfd.as_fd(), signal, value)),
            };
            match sent {
                Err(e) if e.errno != ESRCH => return Err(BusError::failed(e.message())),
                _ => {}
            }
        }
        Ok(Answer::Done)
    }

    /// Signals all processes of a cgroup below a unit's.
    pub(super) fn kill_subgroup(
        &mut self,
        unit: UnitId,
        subgroup: &str,
        (signal, must_hit): (i32, bool),
    ) -> Outcome {
        let (tree, path) = self.subgroup(unit, subgroup)?;
        let mut seen = BTreeSet::new();
        // One that forks meanwhile is met with the next listing.
        for _ in 0..LISTINGS_MAX {
            let listed = tree.procs_below(&path).map_err(|e| BusError::failed(e.message()))?;
            let new: Vec<i32> = listed.into_iter().filter(|pid| seen.insert(*pid)).collect();
            if new.is_empty() {
                break;
            }
            for pid in new {
                self.process.table.signal(pid.cast_unsigned(), signal);
            }
        }
        if signal == SIGKILL && !seen.is_empty() {
            tree.kill(&path).map_err(|e| BusError::failed(e.message()))?;
        }
        match must_hit && seen.is_empty() {
            true => Err(BusError::no_such_process("No matching processes to kill")),
            false => Ok(Answer::Done),
        }
    }

    /// Removes a cgroup below a unit's, unless there are processes in it.
    pub(super) fn remove_subgroup(&mut self, unit: UnitId, subgroup: &str) -> Outcome {
        let (tree, path) = self.subgroup(unit, subgroup)?;
        let pids = tree.procs_below(&path).map_err(|e| BusError::failed(e.message()))?;
        let busy = || BusError::failed(format!("Control group {subgroup} has processes."));
        if !pids.is_empty() {
            return Err(busy());
        }
        match tree.prune(&path) {
            Ok(_) => Ok(Answer::Done),
            Err(e) if e.is_busy() => Err(busy()),
            Err(e) => Err(BusError::failed(e.message())),
        }
    }

    /// The tree, and the path of a cgroup in it that there is.
    fn subgroup(
        &self,
        unit: UnitId,
        subgroup: &str,
    ) -> Result<(std::sync::Arc<warren_sys::cgroup::Tree>, String), BusError> {
        let groups = &self.cgroup.groups;
        let (Some(tree), Some(own)) = (groups.tree().cloned(), groups.path(unit)) else {
            return Err(BusError::unit_inactive("Unit has no control group."));
        };
        let path = format!("{own}/{subgroup}");
        match tree.exists(&path) {
            Ok(true) => Ok((tree, path)),
            Ok(false) => Err(missing(subgroup)),
            Err(e) if e.errno == ENOENT => Err(missing(subgroup)),
            Err(e) => Err(BusError::failed(e.message())),
        }
    }

    /// What is known of what a service has stored.
    pub(super) fn dump_stored(&mut self, unit: UnitId) -> Outcome {
        let stored = self.process.stored_fds.stored_by(unit);
        let facts = stored.filter_map(|(name, fd)| {
            let file = waits::open_file(fd).ok()?;
            Some(StoredFd {
                name: name.to_owned(),
                mode: file.mode,
                device: file.device,
                inode: file.inode,
                is_device: file.is_device,
                path: file.path,
                flags: file.flags,
            })
        });
        Ok(Answer::StoredFds(facts.collect()))
    }
}

fn missing(subgroup: &str) -> BusError {
    BusError::file_not_found(format!("There is no control group {subgroup} below the unit's."))
}

//! Commands that the manager runs for itself (mount(8), umount(8)), as children in the unit's
//! cgroup: their exit is the answer to the effect that asked for them.

use std::collections::{BTreeMap, BTreeSet};

use warren_core::model::ids::EffectId;
use warren_core::model::process::ExitStatus;
use warren_core::protocol::event::Done;
use warren_init::protocol::exec::{CgroupPlace, ExecSpec, StdOutput};
use warren_unit::UnitName;

use crate::last_steps::EXIT_BUSY;
use crate::spawn::mount_commands::{STACKED_MAX, too_many};

/// Spawns of tools are told from those of the machine by this bit of their id.
pub const TOOL: u64 = 1 << 63;

/// Tools under way.
#[derive(Default)]
pub struct Tools {
    running: BTreeMap<u32, EffectId>,
    /// What they unmount.
    unmounts: BTreeMap<EffectId, Box<str>>,
    /// Those that are steps of warrend's.
    steps: BTreeSet<EffectId>,
    /// What they mount.
    mounts: BTreeMap<EffectId, UnitName>,
    /// Paths at which something was mounted still when one had unmounted what was on top, and how often.
    again: BTreeMap<Box<str>, usize>,
}

impl Tools {
    /// The request for a tool that is to answer `effect`.
    pub fn spec(
        &self,
        effect: EffectId,
        argv: Vec<String>,
        cgroup: CgroupPlace,
        output: StdOutput,
    ) -> (EffectId, ExecSpec) {
        let spec = ExecSpec {
            path: argv.first().cloned().unwrap_or_default(),
            search_path: "/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            argv,
            env: vec!["PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_owned(), "LC_ALL=C".to_owned()],
            cgroup,
            stdout: output,
            // Only the manager's process group passes its own automount points.
            keep_session: true,
            ..ExecSpec::default()
        };
        (EffectId(effect.0 | TOOL), spec)
    }

    /// Takes the answer to a spawn if it was a tool's. A failure is the answer to its effect.
    #[allow(clippy::option_option)]
    pub fn spawned(&mut self, id: EffectId, result: &Done) -> Option<Option<(EffectId, Done)>> {
        if id.0 & TOOL == 0 {
            return None;
        }
        let effect = EffectId(id.0 & !TOOL);
        if !matches!(result, Done::Spawned { .. }) {
            self.forget(effect);
        }
        Some(match result {
            Done::Spawned { pid } => {
                self.running.insert(*pid, effect);
                None
            }
            Done::SpawnFailed { error, .. } => {
                Some((effect, Done::Failed { error: error.clone() }))
            }
            _ => Some((effect, Done::Failed { error: "it could not be run".to_owned() })),
        })
    }

    /// The tool for this effect will unmount what is there.
    pub fn unmounts(&mut self, effect: EffectId, mount_point: &str) {
        self.unmounts.insert(effect, mount_point.into());
    }

    /// It is a step of warrend's, whose exit status is none of umount(8)'s.
    pub fn takes_step(&mut self, effect: EffectId) {
        self.steps.insert(effect);
    }

    /// The tool has unmounted what was at a path, and something is there still: what to say of it.
    pub fn unmount_again(&mut self, mount_point: &str) -> Done {
        let times = self.again.entry(mount_point.into()).or_default();
        *times += 1;
        if *times < STACKED_MAX {
            return Done::StillMounted;
        }
        self.again.remove(mount_point);
        Done::Failed { error: too_many(mount_point) }
    }

    /// Nothing more is to be unmounted at a path, or it could not be.
    pub fn unmount_ended(&mut self, mount_point: &str) {
        self.again.remove(mount_point);
    }

    /// The tool for this effect will mount this unit's file system.
    pub fn mounts(&mut self, effect: EffectId, unit: &UnitName) {
        self.mounts.insert(effect, unit.clone());
    }

    /// What the tool for an effect was to mount, asked once when it has ended.
    pub fn take_mounted(&mut self, effect: EffectId) -> Option<UnitName> {
        self.mounts.remove(&effect)
    }

    /// There is no tool for this effect.
    pub fn forget(&mut self, effect: EffectId) {
        self.mounts.remove(&effect);
        self.unmounts.remove(&effect);
        self.steps.remove(&effect);
    }

    /// What the tool for an effect was to unmount, asked once when it has ended.
    pub fn take_unmounted(&mut self, effect: EffectId) -> Option<Box<str>> {
        self.unmounts.remove(&effect)
    }

    /// After a restart: this process is the tool of that effect.
    pub fn take_up(&mut self, pid: u32, effect: EffectId) {
        self.running.insert(pid, effect);
    }

    /// The tools under way, each with the effect that it is to answer.
    pub fn pids(&self) -> impl Iterator<Item = (u32, EffectId)> {
        self.running.iter().map(|(&pid, &effect)| (pid, effect))
    }

    /// Whether this process is a tool.
    pub fn knows(&self, pid: u32) -> bool {
        self.running.contains_key(&pid)
    }

    /// Takes the end of a process if it was a tool.
    pub fn ended(&mut self, pid: u32, status: ExitStatus) -> Option<(EffectId, Done)> {
        let effect = self.running.remove(&pid)?;
        let is_step = self.steps.remove(&effect);
        let result = match status {
            ExitStatus::Exited(0) => Done::Ok,
            ExitStatus::Exited(code) if is_step && i32::from(code) == EXIT_BUSY => {
                Done::Failed { error: "Device or resource busy".to_owned() }
            }
            ExitStatus::Exited(code) => Done::Failed { error: format!("exit code {code}") },
            ExitStatus::Killed(n) | ExitStatus::Dumped(n) => {
                Done::Failed { error: format!("killed by signal {n}") }
            }
            ExitStatus::Unknown => Done::Failed { error: "its exit status is unknown".to_owned() },
        };
        Some((effect, result))
    }
}

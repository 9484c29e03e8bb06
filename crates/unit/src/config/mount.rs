//! Mounts and automounts (systemd.mount(5), systemd.automount(5)), and slices.

use std::time::Duration;

use super::{CgroupConfig, ExecConfig, KillConfig, SandboxSetting};

/// \[Mount\]
#[derive(Clone, Debug, PartialEq)]
pub struct MountConfig {
    /// What=: device, network location or any word the file system knows.
    pub what: Box<str>,
    /// Where=, absolute and simplified.
    pub where_: Box<str>,
    /// Type=; `None` lets mount(8) find out.
    pub fs_type: Option<Box<str>>,
    /// Options=, comma separated, as written.
    pub options: Option<Box<str>>,
    /// SloppyOptions=: tolerate options that the file system does not know.
    pub sloppy_options: bool,
    /// LazyUnmount=
    pub lazy_unmount: bool,
    /// ReadWriteOnly=: fail rather than mount read-only.
    pub read_write_only: bool,
    /// ForceUnmount=
    pub force_unmount: bool,
    /// DirectoryMode= of directories made on the way.
    pub directory_mode: u32,
    /// TimeoutSec= for mount and umount each.
    pub timeout: Option<Duration>,
    /// Environment of mount.TYPE helpers.
    pub exec: Box<ExecConfig>,
    /// How helpers are stopped.
    pub kill: KillConfig,
    /// Limits of helpers.
    pub cgroup: Box<CgroupConfig>,
}

/// \[Automount\]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AutomountConfig {
    /// Where=, absolute and simplified.
    pub where_: Box<str>,
    /// ExtraOptions= of the autofs mount itself.
    pub extra_options: Option<Box<str>>,
    /// DirectoryMode=
    pub directory_mode: u32,
    /// TimeoutIdleSec=; `None` never unmounts.
    pub timeout_idle: Option<Duration>,
    /// TimeoutIdleSec=infinity.
    pub idles_for_ever: bool,
}

/// \[Slice\]: an inner node of the cgroup tree.
#[derive(Clone, Debug, PartialEq)]
pub struct SliceConfig {
    /// Its limits.
    pub cgroup: Box<CgroupConfig>,
    /// ConcurrencyHardMax=: how many units in it may be active, those that wait for their turn among them; `None` is
    /// no limit.
    pub concurrency_hard_max: Option<u32>,
    /// ConcurrencySoftMax=: how many units in it may be active before starts wait; `None` is no limit.
    pub concurrency_soft_max: Option<u32>,
    /// What protects the host and is not applied.
    pub sandbox: Vec<SandboxSetting>,
}

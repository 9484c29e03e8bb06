//! \[Unit\]: what all types share, beyond the relations (systemd.unit(5)).

use std::sync::Arc;
use std::time::Duration;

use crate::name::UnitName;
use crate::relation::Relation;

words! {
    /// OnFailureJobMode= and OnSuccessJobMode=, and the mode of any requested job
    /// (systemctl(1), `--job-mode=`).
    JobMode {
        /// Fail if a conflicting job is queued.
        Fail = "fail",
        /// Replace conflicting jobs.
        Replace = "replace",
        /// As replace, and the job cannot be replaced afterwards.
        ReplaceIrreversibly = "replace-irreversibly",
        /// Stop everything that is not needed by the unit.
        Isolate = "isolate",
        /// Cancel all queued jobs first.
        Flush = "flush",
        /// Ignore all dependencies.
        IgnoreDependencies = "ignore-dependencies",
        /// Ignore requirements, keep the ordering.
        IgnoreRequirements = "ignore-requirements",
        /// Stop or restart also what triggers the unit.
        Triggering = "triggering",
        /// Restart dependencies too.
        RestartDependencies = "restart-dependencies",
        /// Fail if a unit that is up or comes up would be stopped, or a conflicting job is queued.
        Lenient = "lenient",
    }
}

words! {
    /// FailureAction= and its relatives (systemd.unit(5)).
    EmergencyAction {
        /// Nothing.
        None = "none",
        /// An orderly reboot.
        Reboot = "reboot",
        /// Stop all processes, then reboot.
        RebootForce = "reboot-force",
        /// Reboot at once.
        RebootImmediate = "reboot-immediate",
        /// An orderly power-off.
        Poweroff = "poweroff",
        /// Stop all processes, then power off.
        PoweroffForce = "poweroff-force",
        /// Power off at once.
        PoweroffImmediate = "poweroff-immediate",
        /// An orderly exit of the manager.
        Exit = "exit",
        /// An exit of the manager that waits for nobody.
        ExitForce = "exit-force",
        /// An orderly reboot of user space.
        SoftReboot = "soft-reboot",
        /// Stop all processes, then reboot user space.
        SoftRebootForce = "soft-reboot-force",
        /// An orderly kexec.
        Kexec = "kexec",
        /// Stop all processes, then kexec.
        KexecForce = "kexec-force",
        /// An orderly halt.
        Halt = "halt",
        /// Stop all processes, then halt.
        HaltForce = "halt-force",
        /// Halt at once.
        HaltImmediate = "halt-immediate",
    }
}

impl EmergencyAction {
    /// Whether the machine starts again.
    pub const fn restarts(self) -> bool {
        matches!(self, Self::Reboot | Self::RebootForce | Self::RebootImmediate)
    }
}

words! {
    /// `[X-Warren] Maintenance=`: when a unit that failed stays so until an administrator clears it.
    GivenUp {
        /// Never: a start tries again, as with systemd.
        Never = "never",
        /// When started too often.
        StartLimit = "start-limit",
        /// Whenever it failed and nothing starts it again by itself.
        Failure = "failure",
    }
}

words! {
    /// The rule of `[X-Warren] RestartOn=`: at which ends of another unit this one stops, to start
    /// again when the other is up (smf(5), `restart_on`).
    RestartRule {
        /// At none.
        None = "none",
        /// When it failed.
        Error = "error",
        /// At every stop.
        Restart = "restart",
        /// At every stop, and when it is reloaded.
        Refresh = "refresh",
    }
}

impl RestartRule {
    /// The edge that stands for it.
    pub const fn relation(self) -> Relation {
        match self {
            RestartRule::None => Relation::RestartOnNone,
            RestartRule::Error => Relation::RestartOnError,
            RestartRule::Restart => Relation::RestartOnRestart,
            RestartRule::Refresh => Relation::RestartOnRefresh,
        }
    }
}

words! {
    /// CollectMode=: when an unused unit is forgotten.
    CollectMode {
        /// When it is inactive.
        Inactive = "inactive",
        /// When it is inactive or failed.
        InactiveOrFailed = "inactive-or-failed",
    }
}

words! {
    /// What a Condition*= or Assert*= setting looks at; the word follows `Condition`.
    ConditionKind {
        /// The machine's architecture.
        Architecture = "Architecture",
        /// The firmware.
        Firmware = "Firmware",
        /// The virtualization.
        Virtualization = "Virtualization",
        /// The host name or machine id.
        Host = "Host",
        /// A word of the kernel command line.
        KernelCommandLine = "KernelCommandLine",
        /// The kernel's version.
        KernelVersion = "KernelVersion",
        /// A credential of the manager.
        Credential = "Credential",
        /// A variable of the manager's environment.
        Environment = "Environment",
        /// A security technology.
        Security = "Security",
        /// A capability of the bounding set.
        Capability = "Capability",
        /// Whether the machine is on AC power.
        AcPower = "ACPower",
        /// Whether /etc or /var is older than /usr.
        NeedsUpdate = "NeedsUpdate",
        /// Whether this is the first boot.
        FirstBoot = "FirstBoot",
        /// A path exists.
        PathExists = "PathExists",
        /// A glob matches.
        PathExistsGlob = "PathExistsGlob",
        /// A path is a directory.
        PathIsDirectory = "PathIsDirectory",
        /// A path is a symbolic link.
        PathIsSymbolicLink = "PathIsSymbolicLink",
        /// A path is a mount point.
        PathIsMountPoint = "PathIsMountPoint",
        /// The file system of a path is writable.
        PathIsReadWrite = "PathIsReadWrite",
        /// The block device under a path is encrypted.
        PathIsEncrypted = "PathIsEncrypted",
        /// A directory has entries.
        DirectoryNotEmpty = "DirectoryNotEmpty",
        /// A regular file has content.
        FileNotEmpty = "FileNotEmpty",
        /// A regular file is executable.
        FileIsExecutable = "FileIsExecutable",
        /// The manager runs as this user.
        User = "User",
        /// The manager has this group.
        Group = "Group",
        /// A cgroup controller is available.
        ControlGroupController = "ControlGroupController",
        /// Installed memory.
        Memory = "Memory",
        /// Number of CPUs.
        Cpus = "CPUs",
        /// A feature of the CPU.
        CpuFeature = "CPUFeature",
        /// A field of os-release.
        OsRelease = "OSRelease",
        /// Memory pressure is below a limit.
        MemoryPressure = "MemoryPressure",
        /// CPU pressure is below a limit.
        CpuPressure = "CPUPressure",
        /// I/O pressure is below a limit.
        IoPressure = "IOPressure",
    }
}

/// One Condition*= or Assert*= setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What is looked at.
    pub kind: ConditionKind,
    /// `|`: at least one of these must hold; all others must hold each.
    pub trigger: bool,
    /// `!`: must not hold.
    pub negate: bool,
    /// What it is compared with; specifiers are replaced.
    pub parameter: Box<str>,
}

/// What follows when a timeout, a limit, a failure or a success happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitSection {
    /// Description=; the unit's name without one.
    pub description: Arc<str>,
    /// Documentation=, URIs.
    pub documentation: Box<[Box<str>]>,
    /// SourcePath=, what the unit was generated from.
    pub source_path: Option<Box<str>>,
    /// Condition*=: not met, the start does nothing and is no failure.
    pub conditions: Box<[Condition]>,
    /// Assert*=: not met, the start fails.
    pub asserts: Box<[Condition]>,
    /// OnSuccessJobMode=
    pub on_success_job_mode: JobMode,
    /// OnFailureJobMode=
    pub on_failure_job_mode: JobMode,
    /// CollectMode=
    pub collect_mode: CollectMode,
    /// JobTimeoutSec=: from queueing a job to its end.
    pub job_timeout: Option<Duration>,
    /// JobRunningTimeoutSec=: from the job's start to its end.
    pub job_running_timeout: Option<Duration>,
    /// JobTimeoutAction=
    pub job_timeout_action: EmergencyAction,
    /// JobTimeoutRebootArgument=
    pub job_timeout_reboot_argument: Option<Box<str>>,
    /// StartLimitIntervalSec=; zero switches the limit off.
    pub start_limit_interval: Duration,
    /// StartLimitBurst=; zero switches the limit off.
    pub start_limit_burst: u32,
    /// StartLimitAction=
    pub start_limit_action: EmergencyAction,
    /// FailureAction=
    pub failure_action: EmergencyAction,
    /// SuccessAction=
    pub success_action: EmergencyAction,
    /// FailureActionExitStatus=; `None` takes the status of the main process.
    pub failure_action_exit_status: Option<u8>,
    /// SuccessActionExitStatus=; `None` takes the status of the main process.
    pub success_action_exit_status: Option<u8>,
    /// RebootArgument=
    pub reboot_argument: Option<Box<str>>,
    /// `[X-Warren] Maintenance=`
    pub maintenance: GivenUp,
    /// `[X-Warren] RequireAny=`: of the units of each line, one is needed.
    pub require_any: Box<[Box<[UnitName]>]>,
}

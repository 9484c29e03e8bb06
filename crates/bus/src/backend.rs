//! What the bus needs of the manager: views to read, a place to send requests, and a few facts.
//!
//! Everything here may be called from the bus's thread at any time. The accessors must not wait
//! for the manager's loop; they read snapshots, or files of the kernel for one unit.

use crate::descriptors::Descriptors;
use crate::error::BusError;
use std::any::Any;
use std::sync::{Arc, Weak};
use warren_core::graph::Definition;
use warren_core::model::admin_marks::MarkersChange;
use warren_core::model::ids::{JobId, UnitId};
use warren_core::model::job::{JobKind, JobMode, JobType};
use warren_core::model::state::BootTimes;
use warren_core::model::time::Moment;
use warren_core::protocol::request::{Asker, CleanKind, KillWhom};
use warren_core::settings::Compiled;
use warren_core::view::View;
use warren_unit::config::{ShowStatus, Watchdog, WatchdogTime};
use warren_unit::escape::path_unescape;
use warren_unit::install::Remark;
use warren_unit::{Defaults, UnitName};

/// The manager as the bus sees it.
pub trait Backend: Send + Sync + 'static {
    /// The newest published view.
    fn view(&self) -> Arc<View>;

    /// Starts a request; the answer comes through `reply`, from any thread, now or later. When it
    /// comes, [`Backend::view`] shows what it tells of.
    fn call(&self, asker: Asker, call: Call, reply: ReplySender);

    /// The typed settings of a unit, compiled for this question or kept.
    fn compiled(&self, definition: &Definition) -> Arc<Compiled>;

    /// Which files the unit is made of, and what its installation state is, from an index: walks
    /// no directory.
    fn files(&self, definition: &Definition) -> UnitFiles;

    /// What `is-enabled` says of a unit file, loaded or not; nothing where there is none.
    fn unit_file_state(&self, name: &str) -> Option<&'static str>;
    /// Whether what is told of this unit's file, or of all, is what lies on the disk, as far as can be
    /// said without looking; if not, [`Call::LookAtUnitFiles`] comes first.
    fn knows_unit_files(&self, unit: Option<&UnitName>) -> bool;

    /// Shows path and state of each unit file of the search path.
    fn each_unit_file(&self, show: &mut dyn FnMut(&str, &'static str));

    /// The name of the unit that `default.target` is by what lies on the disk, if that has a file and is not
    /// masked.
    fn default_target(&self) -> Option<String>;

    /// What the preset policy says of the unit's file; empty where there is none.
    fn preset(&self, definition: &Definition) -> &'static str;

    /// Whether the unit's files are other than what is in force. Asked before each start.
    fn differs_on_disk(&self, definition: &Definition) -> bool;

    /// Counters of the unit's cgroup, read now.
    fn live(&self, unit: UnitId) -> Live;

    /// Processes of the unit's cgroup and of those below: the path of each one's group from the root
    /// of the tree, its number and its command line.
    fn processes(&self, unit: UnitId) -> Vec<(String, u32, String)>;

    /// The numbers of a user and a group that a unit names, and those of the user's group where it names none.
    /// Of whom only name services know, what the main process has counts. Nobody is waited for.
    fn identity(
        &self,
        user: Option<&str>,
        group: Option<&str>,
        main: Option<u32>,
    ) -> [Option<u32>; 2];

    /// What the kernel's mount table says of a mount unit that is mounted.
    fn mounted(&self, _unit: UnitId) -> Option<Mounted> {
        None
    }

    /// What is known of the device of a device unit.
    fn device(&self, _definition: &Definition) -> DeviceWords {
        DeviceWords::default()
    }

    /// Units of devices that are there. Lists show all, though one is made only when somebody names
    /// it.
    fn device_units(&self) -> Vec<(UnitName, DeviceWords)> {
        Vec::new()
    }

    /// The unit whose cgroup holds this process, if any.
    fn unit_of_process(&self, pid: u32) -> Option<UnitId> {
        self.view().unit_of_process(pid)
    }

    /// A client wants the unit kept in memory, or no longer does: as often as it did.
    fn refer(&self, _unit: UnitId, _on: bool) {}

    /// Something that the log should say.
    fn remark(&self, _text: &str) {}

    /// Facts about the manager.
    fn facts(&self) -> Arc<Facts>;
}

/// What is known of a device; all empty for one that was not seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceWords {
    /// The unit whose state this one follows: that of the device's place in sysfs.
    pub following: String,
    /// What people call it.
    pub title: String,
    /// Its place in sysfs.
    pub sysfs_path: String,
}

impl DeviceWords {
    /// The description of a device unit: its file's, else what people call the device, else the
    /// path that the unit is named by.
    pub fn description(&self, definition: &Definition) -> String {
        let own = &*definition.description;
        match own == definition.name.as_str() {
            false => own.to_owned(),
            true => self.described(&definition.name),
        }
    }

    /// The description of one without a file.
    pub fn described(&self, name: &UnitName) -> String {
        match self.title.as_str() {
            "" => path_unescape(name.stem()).unwrap_or_else(|_| name.as_str().to_owned()),
            title => title.to_owned(),
        }
    }
}

/// A request to the manager. Unit names are valid and no templates.
#[derive(Clone, PartialEq, Debug)]
pub enum Call {
    /// Make a job: answers [`Answer::Job`].
    Enqueue {
        /// Unit of the anchor job; loaded if it is not.
        unit: UnitName,
        /// Type of the anchor job.
        job_type: JobType,
        /// How it meets other jobs.
        mode: JobMode,
        /// The `ReloadOr...` verbs: a reload if the unit can reload, else `job_type`.
        reload_if_possible: bool,
    },
    /// Make a job for each of several units that are loaded, all or none: answers [`Answer::JobsOf`].
    EnqueueMany {
        /// Units of the anchor jobs.
        units: Vec<UnitId>,
        /// As for one.
        job_type: JobType,
        /// As for one.
        mode: JobMode,
        /// As for one.
        reload_if_possible: bool,
    },
    /// Make units of files that say what the client wants, and start the first: answers [`Answer::Job`].
    StartTransient(Box<Transient>),
    /// Change settings of a unit that is loaded, by drop-ins.
    SetProperties {
        /// The unit.
        unit: UnitName,
        /// Until the next boot.
        runtime: bool,
        /// The name of each setting, and its drop-in.
        dropins: Vec<(&'static str, String)>,
    },
    /// Note what a unit needs.
    SetMarkers {
        /// The unit.
        unit: UnitId,
        /// What is noted, or no more.
        change: MarkersChange,
    },
    /// Restart or reload the units for which that was noted: answers [`Answer::Jobs`].
    EnqueueMarked,
    /// The program that made a scope looks after it no longer.
    AbandonScope(UnitId),
    /// Move processes into a unit's cgroup, or into this one below it.
    Attach {
        /// The unit.
        unit: UnitId,
        /// Path below the unit's cgroup; empty for that itself.
        subgroup: String,
        /// The processes.
        pids: Vec<u32>,
    },
    /// Mount something for the main process of a service, where it is.
    MountInto {
        /// The service.
        unit: UnitId,
        /// What, and where.
        mount: Box<MountInto>,
    },
    /// Load a unit, found or not: answers [`Answer::Unit`].
    LoadUnit(UnitName),
    /// End a job.
    CancelJob(JobId),
    /// End all jobs.
    ClearJobs,
    /// Forget failures of one unit, or of all.
    ResetFailed(Option<UnitId>),
    /// Send a signal to processes of a unit.
    Kill {
        /// The unit.
        unit: UnitId,
        /// Which of its processes.
        whom: KillWhom,
        /// The signal's number, 1 to 64.
        signal: i32,
    },
    /// Send a real-time signal with a value to the main or control process of a unit, or to both.
    QueueSignal {
        /// The unit.
        unit: UnitId,
        /// Which of them.
        whom: KillWhom,
        /// The signal's number.
        signal: i32,
        /// What the process reads as `sival_int`.
        value: i32,
    },
    /// Send a signal to all processes of a cgroup below a unit's.
    KillSubgroup {
        /// The unit.
        unit: UnitId,
        /// Path below the unit's cgroup.
        subgroup: String,
        /// The signal's number, 1 to 64.
        signal: i32,
        /// Having none there is an error.
        must_hit: bool,
    },
    /// Remove a cgroup below a unit's, with those below it.
    RemoveSubgroup {
        /// The unit.
        unit: UnitId,
        /// Path below the unit's cgroup.
        subgroup: String,
    },
    /// Tell what a service has stored with the manager: answers [`Answer::StoredFds`].
    DumpStoredFds(UnitId),
    /// Have the processes of a unit stand still, or go on; answered when they do.
    Freeze {
        /// The unit.
        unit: UnitId,
        /// Which of both.
        frozen: bool,
    },
    /// Remove the stamp file of a timer (`systemctl clean --what=state`).
    ForgetStamp(UnitId),
    /// Remove directories of a service that is down.
    Clean {
        /// The service.
        unit: UnitId,
        /// Which kinds of them.
        kinds: Vec<CleanKind>,
    },
    /// daemon-reload; answered when the new generation is in force.
    ReloadConfiguration,
    /// daemon-reexec; the connection may close instead of an answer.
    Reexecute,
    /// Look at this unit's file, or at all, before something is told of them.
    LookAtUnitFiles(Option<UnitName>),
    /// Change the installation of unit files: answers [`Answer::Changes`].
    UnitFiles(UnitFileOp),
    /// The links that disabling this unit would remove: answers [`Answer::Texts`].
    GetUnitFileLinks {
        /// The unit file.
        file: String,
        /// Those below /run only.
        runtime: bool,
    },
    /// Change the manager's environment block: first unset, then set.
    Environment {
        /// Names, or assignments that are unset only if they stand like this.
        unset: Vec<String>,
        /// `NAME=value`.
        set: Vec<String>,
    },
    /// The end of the manager or of the machine, as clients of the bus have it: that of the machine without
    /// a stop of units (org.freedesktop.systemd1(5); systemctl(1), `--force`).
    Leave(Leave),
    /// The same behind the stop of all units.
    LeaveInOrder(Leave),
    /// The exit code for [`Leave::Exit`].
    SetExitCode(u8),
    /// A property of the manager that may be written.
    SetProperty(ManagerSetting),
}

/// What is mounted for a process that runs. Paths are absolute and normalized.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountInto {
    /// A path of the host.
    pub source: String,
    /// A path as the process sees it.
    pub destination: String,
    /// Nothing can be written to it.
    pub read_only: bool,
    /// The destination is made if nothing is there.
    pub makes: bool,
    /// The source is an image, whose parts have these options. Else it is bound as it is.
    pub image: Option<Vec<(String, String)>>,
}

/// Where a process of a unit has a file descriptor that a client sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// Standard input.
    Input,
    /// Standard output.
    Output,
    /// Standard error.
    Error,
    /// Among those of sd_listen_fds(3), under this name.
    Listed(String),
}

/// Units that a client makes while the manager runs.
#[derive(Clone, PartialEq, Debug)]
pub struct Transient {
    /// The unit that is started.
    pub unit: UnitName,
    /// How its job meets other jobs.
    pub mode: JobMode,
    /// Its file.
    pub text: String,
    /// The processes that it takes in, if it is a scope.
    pub pids: Vec<u32>,
    /// Units that are made beside it, such as the service of a timer, and their files.
    pub auxiliary: Vec<(UnitName, String)>,
    /// What its processes have of these file descriptors.
    pub places: Vec<(Place, u32)>,
    /// Those that came with the call.
    pub fds: Descriptors,
}

/// How to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Leave {
    Exit,
    Reboot,
    PowerOff,
    Halt,
    KExec,
    SoftReboot,
}

/// The words of syslog(3) for levels, by number.
pub const LOG_LEVELS: [&str; 8] =
    ["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"];

/// A change of a writable property of the manager.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ManagerSetting {
    /// A level of syslog(3), up to which the manager logs; nothing for what it began with.
    LogLevel(Option<u8>),
    /// Where the manager logs to; empty for what it began with.
    LogTarget(String),
    /// Whether service watchdogs are acted on.
    ServiceWatchdogs(bool),
    /// What the console shows of units; nothing for what the manager began with.
    ShowStatus(Option<ShowStatus>),
    /// A time of the machine's watchdog.
    WatchdogTime(WatchdogProperty, WatchdogTime),
    /// What the kernel does a while before the watchdog resets the machine; empty for nothing.
    WatchdogGovernor(String),
}

/// Which time of the machine's watchdog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum WatchdogProperty {
    Runtime,
    Pre,
    Reboot,
    Kexec,
}

impl ManagerSetting {
    /// The property's name.
    pub fn name(&self) -> &'static str {
        match self {
            ManagerSetting::LogLevel(_) => "LogLevel",
            ManagerSetting::LogTarget(_) => "LogTarget",
            ManagerSetting::ServiceWatchdogs(_) => "ServiceWatchdogs",
            ManagerSetting::ShowStatus(_) => "ShowStatus",
            ManagerSetting::WatchdogTime(WatchdogProperty::Runtime, _) => "RuntimeWatchdogUSec",
            ManagerSetting::WatchdogTime(WatchdogProperty::Pre, _) => "RuntimeWatchdogPreUSec",
            ManagerSetting::WatchdogTime(WatchdogProperty::Reboot, _) => "RebootWatchdogUSec",
            ManagerSetting::WatchdogTime(WatchdogProperty::Kexec, _) => "KExecWatchdogUSec",
            ManagerSetting::WatchdogGovernor(_) => "RuntimeWatchdogPreGovernor",
        }
    }
}

/// What is done to unit files; the meanings are those of systemctl(1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum UnitFileVerb {
    Enable,
    Disable,
    Reenable,
    Link,
    Preset(PresetMode),
    PresetAll(PresetMode),
    Mask,
    Unmask,
    Revert,
    SetDefault,
    AddWants,
    AddRequires,
}

/// Which half of a preset is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum PresetMode {
    Full,
    EnableOnly,
    DisableOnly,
}

/// One request to change unit files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnitFileOp {
    /// What to do.
    pub verb: UnitFileVerb,
    /// Names, or paths of files outside the search path.
    pub files: Vec<String>,
    /// The target of [`UnitFileVerb::AddWants`] and [`UnitFileVerb::AddRequires`].
    pub target: Option<String>,
    /// Below /run.
    pub runtime: bool,
    /// Overwrite what stands against it.
    pub force: bool,
}

/// One change to the file system, as clients are told of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileChange {
    /// `symlink` or `unlink`.
    pub kind: &'static str,
    /// The link that was made or removed.
    pub path: String,
    /// Where it leads to.
    pub source: String,
}

/// The answer to a [`Call`].
#[derive(Clone, PartialEq, Debug)]
pub enum Answer {
    /// Done; nothing to tell.
    Done,
    /// The anchor job and the others of the transaction.
    Job {
        /// The anchor job.
        job: JobId,
        /// Its unit.
        unit: UnitId,
        /// What it was when it was made; it may be over by now.
        kind: JobKind,
        /// The others.
        affected: Vec<(JobId, UnitId, JobKind)>,
    },
    /// Several jobs.
    Jobs(Vec<JobId>),
    /// Several jobs, with their units.
    JobsOf(Vec<(JobId, UnitId, JobKind)>),
    /// File descriptors that a service has stored.
    StoredFds(Vec<StoredFd>),
    /// A unit.
    Unit(UnitId),
    /// Changes that were made.
    Changes {
        /// Whether any of the files has an `[Install]` section.
        carries_install_info: bool,
        /// In order.
        changes: Vec<FileChange>,
        /// What was passed over.
        remarks: Vec<Remark>,
    },
    /// Texts.
    Texts(Vec<String>),
}

/// A file descriptor that a service has stored, as stat(2), proc(5) and fcntl(2) tell of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredFd {
    /// Its name.
    pub name: String,
    /// Type and rights.
    pub mode: u32,
    /// Major and minor number of the device that it lies on.
    pub device: (u32, u32),
    /// Inode.
    pub inode: u64,
    /// Major and minor number of the device that it is.
    pub is_device: (u32, u32),
    /// Its path, or what the kernel says in the place of one.
    pub path: String,
    /// How it was opened.
    pub flags: u32,
}

/// What comes back for a [`Call`].
pub type Outcome = Result<Answer, BusError>;

/// Where the answer to a [`Call`] goes. Dropped unused it answers that the manager did not.
pub struct ReplySender {
    deliver: Option<Box<dyn FnOnce(Outcome) + Send>>,
    /// Gone with the client; `None`: nothing tells.
    client: Option<Weak<dyn Any + Send + Sync>>,
}

impl ReplySender {
    /// Hands the answer to `deliver`, once.
    pub fn new(deliver: impl FnOnce(Outcome) + Send + 'static) -> ReplySender {
        ReplySender { deliver: Some(Box::new(deliver)), client: None }
    }

    /// The same for a client that waits as long as something is there.
    pub fn to(
        client: Weak<dyn Any + Send + Sync>,
        deliver: impl FnOnce(Outcome) + Send + 'static,
    ) -> ReplySender {
        ReplySender { deliver: Some(Box::new(deliver)), client: Some(client) }
    }

    /// Whether the client has gone.
    pub fn is_in_vain(&self) -> bool {
        self.client.as_ref().is_some_and(|client| client.strong_count() == 0)
    }

    /// Answers.
    pub fn send(mut self, outcome: Outcome) {
        if let Some(deliver) = self.deliver.take() {
            deliver(outcome);
        }
    }
}

impl Drop for ReplySender {
    fn drop(&mut self) {
        if let Some(deliver) = self.deliver.take() {
            deliver(Err(BusError::failed("The manager did not answer.")));
        }
    }
}

/// Files of a unit, and its installation state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnitFiles {
    /// `FragmentPath`
    pub fragment: Option<Box<str>>,
    /// `DropInPaths`, in the order in which they apply.
    pub drop_ins: Vec<Box<str>>,
    /// `UnitFileState`; empty where there is no file.
    pub state: &'static str,
    /// Made by a client or by the manager, not from a file that stays.
    pub transient: bool,
}

/// Counters of a unit's cgroup. None: not known, or not counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)]
pub struct Live {
    /// Path below the manager's cgroup root, of a user's manager below that of the machine, with a leading slash;
    /// empty when it has none.
    pub control_group: String,
    /// The kernel's id of it.
    pub control_group_id: Option<u64>,
    pub memory_current: Option<u64>,
    pub cpu_usage_nsec: Option<u64>,
    pub tasks_current: Option<u64>,
    /// Bytes and packets that came.
    pub ip_ingress: Option<(u64, u64)>,
    /// Bytes and packets that went.
    pub ip_egress: Option<(u64, u64)>,
    pub io_read_bytes: Option<u64>,
    pub io_read_operations: Option<u64>,
    pub io_write_bytes: Option<u64>,
    pub io_write_operations: Option<u64>,
}

/// A line of the mount table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Mounted {
    /// Source.
    pub what: String,
    /// Options of the mount and of the file system.
    pub options: String,
    /// File system.
    pub fs_type: String,
}

/// Facts about the manager. Times are microseconds, `(realtime, monotonic)`; 0 is never.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub struct Facts {
    /// What stands after `252 ` in `Version`: `(warrener 0.1.0)`.
    pub version: String,
    /// 32 hexadecimal digits of /etc/machine-id; empty where there is none.
    pub machine_id: String,
    /// `Virtualization`; empty on bare metal.
    pub virtualization: String,
    /// `Architecture` in systemd's spelling: `x86-64`, `arm64`.
    pub architecture: String,
    /// `UnitPath`
    pub unit_path: Vec<String>,
    /// `Environment`
    pub environment: Vec<String>,
    /// `LogLevel`
    pub log_level: String,
    /// `LogTarget`
    pub log_target: String,
    /// `ControlGroup` of the manager's root.
    pub control_group: String,
    /// `ExitCode`
    pub exit_code: u8,
    /// `SoftRebootsCount`
    pub soft_reboots: u32,
    pub service_watchdogs: bool,
    /// What the console shows of units, if anybody says so.
    pub show_status: Option<ShowStatus>,
    /// When the boot was at what.
    pub boot: BootTimes,
    /// When the configuration was last loaded.
    pub units_load: Moment,
    /// Memory of the host in bytes, for limits that are shares of it.
    pub memory_bytes: u64,
    /// Tasks that the host can have.
    pub tasks_ceiling: u64,
    /// Default settings.
    pub defaults: Arc<Defaults>,
    /// The machine's watchdog, as the manager's file has it, or clients.
    pub watchdog: Arc<Watchdog>,
}

impl Default for Facts {
    fn default() -> Facts {
        Facts {
            version: String::new(),
            machine_id: String::new(),
            virtualization: String::new(),
            architecture: String::new(),
            unit_path: Vec::new(),
            environment: Vec::new(),
            log_level: "info".to_owned(),
            log_target: "journal".to_owned(),
            control_group: String::new(),
            exit_code: 0,
            soft_reboots: 0,
            service_watchdogs: true,
            show_status: None,
            boot: BootTimes::default(),
            units_load: Moment::default(),
            memory_bytes: u64::MAX,
            tasks_ceiling: u64::MAX,
            defaults: Arc::default(),
            watchdog: Arc::default(),
        }
    }
}

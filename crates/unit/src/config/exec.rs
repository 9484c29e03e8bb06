//! The environment in which a process runs (systemd.exec(5)).
//!
//! Settings that protect the host and that are not applied yet are kept by name in
//! [`ExecConfig::sandbox`], so that a unit which asks for them is told, loudly.

use std::time::Duration;

use super::IndexSet;

pub use warren_sandbox::mounts::TEMPORARY;

/// One value of Environment=.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentVariable {
    /// Its name.
    pub name: Box<str>,
    /// Its value.
    pub value: Box<str>,
}

/// One EnvironmentFile=, read when the process is spawned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentFile {
    /// Absolute path; may be a glob.
    pub path: Box<str>,
    /// `-`: it need not exist.
    pub optional: bool,
}

/// One UnsetEnvironment= word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsetEnvironment {
    /// The variable.
    pub name: Box<str>,
    /// Unset only if it has this value.
    pub value: Option<Box<str>>,
}

/// WorkingDirectory=
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkingDirectory {
    /// `~`, the home of User=.
    Home,
    /// An absolute path, below RootDirectory=.
    Path(Box<str>),
}

/// StandardInput=
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// /dev/null
    Null,
    /// The terminal, taken as controlling terminal when it is free.
    Tty,
    /// As tty, by force.
    TtyForce,
    /// As tty, or fail.
    TtyFail,
    /// StandardInputText= and StandardInputData=.
    Data,
    /// A file or an AF_UNIX stream socket.
    File(Box<str>),
    /// The connection or the single socket that started the service.
    Socket,
    /// A stored or handed-over fd by name; empty is `stdin`.
    Fd(Box<str>),
}

/// StandardOutput= and StandardError=
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard input's file for output; output's for error.
    Inherit,
    /// /dev/null
    Null,
    /// The terminal.
    Tty,
    /// The log.
    Journal,
    /// The log and the kernel's log.
    Kmsg,
    /// The log and the console.
    JournalConsole,
    /// The log, the kernel's log and the console.
    KmsgConsole,
    /// A file, written from its start without truncation, or an AF_UNIX stream socket.
    File(Box<str>),
    /// A file, appended to.
    Append(Box<str>),
    /// A file, truncated first.
    Truncate(Box<str>),
    /// As [`Input::Socket`].
    Socket,
    /// As [`Input::Fd`]; empty is `stdout` or `stderr`.
    Fd(Box<str>),
}

/// Who gets the lines of a logged stream besides the log; systemd.exec(5), `StandardOutput=`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Copies {
    /// The kernel's log.
    pub kmsg: bool,
    /// The console.
    pub console: bool,
}

impl Output {
    /// Whether it is read by the log daemon.
    pub fn is_logged(&self) -> bool {
        self.copies().is_some()
    }

    /// Who gets what is logged besides the log; none if it does not go there.
    pub fn copies(&self) -> Option<Copies> {
        let (kmsg, console) = match self {
            Output::Journal => (false, false),
            Output::Kmsg => (true, false),
            Output::JournalConsole => (false, true),
            Output::KmsgConsole => (true, true),
            _ => return None,
        };
        Some(Copies { kmsg, console })
    }
}

words! {
    /// CPUSchedulingPolicy=
    CpuSchedulingPolicy {
        /// SCHED_OTHER
        Other = "other",
        /// SCHED_BATCH
        Batch = "batch",
        /// SCHED_IDLE
        Idle = "idle",
        /// SCHED_FIFO
        Fifo = "fifo",
        /// SCHED_RR
        Rr = "rr",
    }
}

words! {
    /// IOSchedulingClass=
    IoSchedulingClass {
        /// None.
        None = "none",
        /// Real-time.
        Realtime = "realtime",
        /// Best effort.
        BestEffort = "best-effort",
        /// Idle.
        Idle = "idle",
    }
}

words! {
    /// KeyringMode=
    KeyringMode {
        /// The manager's.
        Inherit = "inherit",
        /// A session keyring of its own.
        Private = "private",
        /// A session keyring with the user keyring linked in.
        Shared = "shared",
    }
}

words! {
    /// UtmpMode=
    UtmpMode {
        /// A record of a process that init has started.
        Init = "init",
        /// And of one that waits for a login.
        Login = "login",
        /// And of a user's session.
        User = "user",
    }
}

words! {
    /// NUMAPolicy=, in the order of set_mempolicy(2).
    NumaPolicy {
        /// MPOL_DEFAULT
        Default = "default",
        /// MPOL_PREFERRED
        Preferred = "preferred",
        /// MPOL_BIND
        Bind = "bind",
        /// MPOL_INTERLEAVE
        Interleave = "interleave",
        /// MPOL_LOCAL
        Local = "local",
    }
}

/// Nodes of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NumaNodes {
    /// All that there are.
    All,
    /// These.
    Listed(IndexSet),
}

/// A label of a security module for the processes of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The label.
    pub label: Box<str>,
    /// The `-` before it: the process runs without it where it cannot be set.
    pub is_optional: bool,
}

words! {
    /// RuntimeDirectoryPreserve=
    Preserve {
        /// Removed at stop.
        No = "no",
        /// Kept.
        Yes = "yes",
        /// Kept over a restart.
        Restart = "restart",
    }
}

words! {
    /// Personality=, and the architectures of ConditionArchitecture= that have one.
    Personality {
        /// 32-bit x86.
        X86 = "x86",
        /// 64-bit x86.
        X86_64 = "x86-64",
        /// 32-bit PowerPC.
        Ppc = "ppc",
        /// 32-bit PowerPC, little endian.
        PpcLe = "ppc-le",
        /// 64-bit PowerPC.
        Ppc64 = "ppc64",
        /// 64-bit PowerPC, little endian.
        Ppc64Le = "ppc64-le",
        /// 31-bit s390.
        S390 = "s390",
        /// 64-bit s390.
        S390x = "s390x",
    }
}

words! {
    /// The resources of Limit*=, in the order in which the manual lists them.
    Resource {
        /// RLIMIT_CPU, seconds.
        Cpu = "CPU",
        /// RLIMIT_FSIZE, bytes.
        Fsize = "FSIZE",
        /// RLIMIT_DATA, bytes.
        Data = "DATA",
        /// RLIMIT_STACK, bytes.
        Stack = "STACK",
        /// RLIMIT_CORE, bytes.
        Core = "CORE",
        /// RLIMIT_RSS, bytes.
        Rss = "RSS",
        /// RLIMIT_NOFILE, number.
        Nofile = "NOFILE",
        /// RLIMIT_AS, bytes.
        As = "AS",
        /// RLIMIT_NPROC, number.
        Nproc = "NPROC",
        /// RLIMIT_MEMLOCK, bytes.
        Memlock = "MEMLOCK",
        /// RLIMIT_LOCKS, number.
        Locks = "LOCKS",
        /// RLIMIT_SIGPENDING, number.
        Sigpending = "SIGPENDING",
        /// RLIMIT_MSGQUEUE, bytes.
        Msgqueue = "MSGQUEUE",
        /// RLIMIT_NICE, 1 to 40 as the kernel counts.
        Nice = "NICE",
        /// RLIMIT_RTPRIO, number.
        Rtprio = "RTPRIO",
        /// RLIMIT_RTTIME, microseconds.
        Rttime = "RTTIME",
    }
}

/// One resource limit; `u64::MAX` is infinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rlimit {
    /// Soft limit.
    pub soft: u64,
    /// Hard limit.
    pub hard: u64,
}

/// Limit*=: what is set, sorted by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rlimits(pub Vec<(Resource, Rlimit)>);

impl Rlimits {
    /// What units get where nobody says otherwise (systemd-system.conf(5)): all other limits are
    /// those that the manager found. The soft limit of open files is low, because select(2) takes
    /// no more.
    pub fn of_units() -> Rlimits {
        const MEMLOCK_BYTES: u64 = 8 << 20;
        let mut limits = Rlimits::default();
        limits.set(Resource::Nofile, Some(Rlimit { soft: 1024, hard: 524_288 }));
        limits.set(Resource::Memlock, Some(Rlimit { soft: MEMLOCK_BYTES, hard: MEMLOCK_BYTES }));
        limits
    }

    /// The limit of a resource, if it is set.
    pub fn get(&self, resource: Resource) -> Option<Rlimit> {
        self.0.iter().find(|(r, _)| *r == resource).map(|(_, limit)| *limit)
    }

    /// Sets or, with `None`, forgets a limit.
    pub fn set(&mut self, resource: Resource, limit: Option<Rlimit>) {
        self.0.retain(|(r, _)| *r != resource);
        if let Some(limit) = limit {
            self.0.push((resource, limit));
            self.0.sort_by_key(|(r, _)| *r);
        }
    }
}

/// One of RuntimeDirectory=, StateDirectory=, CacheDirectory=, LogsDirectory=,
/// ConfigurationDirectory=.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecDirectory {
    /// Paths relative to the directory of its kind, each once and in the order of their names, as
    /// services have them in `$STATE_DIRECTORY` and its like.
    pub paths: Vec<ExecDirectoryPath>,
    /// Its Mode= setting.
    pub mode: u32,
}

/// What such a setting says of one path: `path`, `path:link`, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecDirectoryPath {
    /// Relative, simplified, without `..`.
    pub path: Box<str>,
    /// Links to make to it, relative too.
    pub symlinks: Vec<Box<str>>,
}

impl Default for ExecDirectory {
    fn default() -> ExecDirectory {
        ExecDirectory { paths: Vec::new(), mode: 0o755 }
    }
}

/// A set of capabilities, a bit for each number of capabilities(7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CapabilitySet(pub u64);

impl CapabilitySet {
    /// Every capability, known or not.
    pub const ALL: CapabilitySet = CapabilitySet(u64::MAX);
}

/// A setting that protects the host, with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxSetting {
    /// Its name.
    pub setting: &'static str,
    /// Its value, specifiers replaced; one line for each assignment where the setting is a list.
    pub value: Box<str>,
}

/// Everything of systemd.exec(5) that is acted on. `None` means: as inherited.
#[derive(Clone, Debug, PartialEq)]
pub struct ExecConfig {
    /// User=, name or number.
    pub user: Option<Box<str>>,
    /// Group=, name or number.
    pub group: Option<Box<str>>,
    /// SupplementaryGroups=
    pub supplementary_groups: Vec<Box<str>>,
    /// DynamicUser=: `user` and `group` are made for the run, and named here whatever the unit states.
    pub dynamic_user: bool,
    /// RemoveIPC=
    pub remove_ipc: bool,
    /// Environment=, later ones override; DefaultEnvironment= is not in it.
    pub environment: Vec<EnvironmentVariable>,
    /// EnvironmentFile=, in order.
    pub environment_files: Vec<EnvironmentFile>,
    /// PassEnvironment=
    pub pass_environment: Vec<Box<str>>,
    /// UnsetEnvironment=
    pub unset_environment: Vec<UnsetEnvironment>,
    /// WorkingDirectory=
    pub working_directory: Option<WorkingDirectory>,
    /// The `-` of WorkingDirectory=: a missing one is no failure.
    pub working_directory_optional: bool,
    /// RootDirectory=
    pub root_directory: Option<Box<str>>,
    /// ExecSearchPath=
    pub exec_search_path: Vec<Box<str>>,
    /// StandardInput=
    pub standard_input: Input,
    /// StandardInputText= and StandardInputData=, decoded and joined.
    pub standard_input_data: Box<[u8]>,
    /// StandardOutput=
    pub standard_output: Output,
    /// StandardError=
    pub standard_error: Output,
    /// SyslogIdentifier=
    pub syslog_identifier: Option<Box<str>>,
    /// SyslogFacility=, 0 to 23.
    pub syslog_facility: u8,
    /// SyslogLevel=, 0 to 7.
    pub syslog_level: u8,
    /// SyslogLevelPrefix=
    pub syslog_level_prefix: bool,
    /// LogLevelMax=, 0 to 7.
    pub log_level_max: Option<u8>,
    /// LogNamespace=
    pub log_namespace: Option<Box<str>>,
    /// `[X-Warren] LogClass=`: how long messages are kept, by the log daemon's settings.
    pub log_class: Option<Box<str>>,
    /// LogExtraFields=, each `NAME=value`.
    pub log_extra_fields: Vec<Box<str>>,
    /// LogFilterPatterns=, regular expressions; those after a `~` say what is left out.
    pub log_filter_patterns: Vec<Box<str>>,
    /// LogRateLimitIntervalSec=; `None` leaves it to the log daemon, zero switches the
    /// limit off, [`Duration::MAX`] is `infinity`.
    pub log_rate_limit_interval: Option<Duration>,
    /// LogRateLimitBurst=; `None` leaves it to the log daemon, 0 switches limits off.
    pub log_rate_limit_burst: Option<u32>,
    /// TTYPath=
    pub tty_path: Option<Box<str>>,
    /// PAMName=
    pub pam_name: Option<Box<str>>,
    /// UtmpIdentifier=
    pub utmp_identifier: Option<Box<str>>,
    /// UtmpMode=
    pub utmp_mode: UtmpMode,
    /// TTYReset=
    pub tty_reset: bool,
    /// TTYVHangup=
    pub tty_vhangup: bool,
    /// TTYVTDisallocate=
    pub tty_vt_disallocate: bool,
    /// TTYRows= and TTYColumns=
    pub tty_size: (Option<u16>, Option<u16>),
    /// Limit*=, over the manager's defaults.
    pub rlimits: Rlimits,
    /// Nice=, -20 to 19.
    pub nice: Option<i8>,
    /// OOMScoreAdjust=, -1000 to 1000.
    pub oom_score_adjust: Option<i16>,
    /// UMask=
    pub umask: u32,
    /// IgnoreSIGPIPE=
    pub ignore_sigpipe: bool,
    /// CPUSchedulingPolicy=
    pub cpu_scheduling_policy: Option<CpuSchedulingPolicy>,
    /// CPUSchedulingPriority=, 1 to 99 for fifo and rr; there is one if there is a policy.
    pub cpu_scheduling_priority: Option<u8>,
    /// CPUSchedulingResetOnFork=
    pub cpu_scheduling_reset_on_fork: bool,
    /// CPUAffinity=; `None` inherits.
    pub cpu_affinity: Option<IndexSet>,
    /// IOSchedulingClass=
    pub io_scheduling_class: Option<IoSchedulingClass>,
    /// IOSchedulingPriority=, 0 to 7.
    pub io_scheduling_priority: Option<u8>,
    /// RuntimeDirectory=
    pub runtime_directory: ExecDirectory,
    /// RuntimeDirectoryPreserve=
    pub runtime_directory_preserve: Preserve,
    /// StateDirectory=
    pub state_directory: ExecDirectory,
    /// CacheDirectory=
    pub cache_directory: ExecDirectory,
    /// LogsDirectory=
    pub logs_directory: ExecDirectory,
    /// ConfigurationDirectory=
    pub configuration_directory: ExecDirectory,
    /// NoNewPrivileges=
    pub no_new_privileges: bool,
    /// CapabilityBoundingSet=
    pub capability_bounding_set: CapabilitySet,
    /// AmbientCapabilities=
    pub ambient_capabilities: CapabilitySet,
    /// SecureBits=, the bits of capabilities(7).
    pub secure_bits: u32,
    /// Personality=
    pub personality: Option<Personality>,
    /// KeyringMode=
    pub keyring_mode: KeyringMode,
    /// TimerSlackNSec=
    pub timer_slack_nsec: Option<u64>,
    /// CoredumpFilter=, the bits of core(5).
    pub coredump_filter: Option<u32>,
    /// MemoryKSM=
    pub memory_ksm: Option<bool>,
    /// NUMAPolicy=
    pub numa_policy: Option<NumaPolicy>,
    /// NUMAMask=
    pub numa_nodes: Option<NumaNodes>,
    /// `CPUAffinity=numa`: the processors of those nodes, too.
    pub cpu_affinity_of_nodes: bool,
    /// SELinuxContext=
    pub selinux_context: Option<Label>,
    /// AppArmorProfile=
    pub apparmor_profile: Option<Label>,
    /// SmackProcessLabel=
    pub smack_label: Option<Label>,
    /// SetLoginEnvironment=
    pub set_login_environment: Option<bool>,
    /// TimeoutCleanSec=
    pub timeout_clean: Option<Duration>,
    /// Settings that protect the host and are not applied.
    pub sandbox: Vec<SandboxSetting>,
    /// Settings that protect the host and are applied from their text.
    pub protections: Vec<SandboxSetting>,
}

/// Settings that imply NoNewPrivileges= (systemd.exec(5), there).
const IMPLY_NO_NEW_PRIVILEGES: [&str; 15] = [
    "LockPersonality",
    "MemoryDenyWriteExecute",
    "PrivateDevices",
    "ProtectClock",
    "ProtectHostname",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "RestrictAddressFamilies",
    "RestrictNamespaces",
    "RestrictRealtime",
    "RestrictSUIDSGID",
    "SystemCallArchitectures",
    "SystemCallFilter",
    "SystemCallLog",
];

impl ExecConfig {
    /// Whether the socket that the unit is started by is one of the standard streams: then it is not handed over
    /// in another way (systemd.exec(5), "StandardInput=").
    pub fn takes_socket(&self) -> bool {
        let outputs = [&self.standard_output, &self.standard_error];
        self.standard_input == Input::Socket || outputs.contains(&&Output::Socket)
    }

    /// Whether runtime directories lie where no other user gets to: they may outlive the user that they belong to.
    pub fn has_private_runtime_directories(&self) -> bool {
        self.dynamic_user && self.runtime_directory_preserve != Preserve::No
    }

    /// Where a runtime directory lies, below that of all.
    pub fn runtime_directory_place(&self, path: &str) -> String {
        match self.has_private_runtime_directories() {
            true => format!("private/{path}"),
            false => path.to_owned(),
        }
    }

    /// The terminal on standard input, if there is one.
    pub fn input_terminal(&self) -> Option<&str> {
        let has = matches!(self.standard_input, Input::Tty | Input::TtyFail | Input::TtyForce);
        has.then_some(self.tty_path.as_deref().unwrap_or("/dev/console"))
    }

    /// The terminal that standard input or an output is, or that is stated.
    pub fn terminal(&self) -> Option<&str> {
        let outputs = [&self.standard_output, &self.standard_error];
        let is_output = outputs.contains(&&Output::Tty);
        let default = is_output.then_some("/dev/console");
        self.input_terminal().or(self.tty_path.as_deref()).or(default)
    }

    /// Whether a process is to have no new privileges, which some settings imply if it is without CAP_SYS_ADMIN.
    pub fn has_no_new_privileges(&self, is_admin: bool) -> bool {
        let implies = |s: &SandboxSetting| IMPLY_NO_NEW_PRIVILEGES.contains(&s.setting);
        let mut asked = self.sandbox.iter().chain(&self.protections);
        self.no_new_privileges || !is_admin && asked.any(implies)
    }
}

impl Default for ExecConfig {
    fn default() -> ExecConfig {
        ExecConfig {
            user: None,
            group: None,
            supplementary_groups: Vec::new(),
            dynamic_user: false,
            remove_ipc: false,
            environment: Vec::new(),
            environment_files: Vec::new(),
            pass_environment: Vec::new(),
            unset_environment: Vec::new(),
            working_directory: None,
            working_directory_optional: false,
            root_directory: None,
            exec_search_path: Vec::new(),
            standard_input: Input::Null,
            standard_input_data: Box::default(),
            standard_output: Output::Journal,
            standard_error: Output::Inherit,
            syslog_identifier: None,
            syslog_facility: 3,
            syslog_level: 6,
            syslog_level_prefix: true,
            log_level_max: None,
            log_namespace: None,
            log_class: None,
            log_extra_fields: Vec::new(),
            log_filter_patterns: Vec::new(),
            log_rate_limit_interval: None,
            log_rate_limit_burst: None,
            tty_path: None,
            pam_name: None,
            utmp_identifier: None,
            utmp_mode: UtmpMode::Init,
            tty_reset: false,
            tty_vhangup: false,
            tty_vt_disallocate: false,
            tty_size: (None, None),
            rlimits: Rlimits::default(),
            nice: None,
            oom_score_adjust: None,
            umask: 0o022,
            ignore_sigpipe: true,
            cpu_scheduling_policy: None,
            cpu_scheduling_priority: None,
            cpu_scheduling_reset_on_fork: false,
            cpu_affinity: None,
            io_scheduling_class: None,
            io_scheduling_priority: None,
            runtime_directory: ExecDirectory::default(),
            runtime_directory_preserve: Preserve::No,
            state_directory: ExecDirectory::default(),
            cache_directory: ExecDirectory::default(),
            logs_directory: ExecDirectory::default(),
            configuration_directory: ExecDirectory::default(),
            no_new_privileges: false,
            capability_bounding_set: CapabilitySet::ALL,
            ambient_capabilities: CapabilitySet::default(),
            secure_bits: 0,
            personality: None,
            keyring_mode: KeyringMode::Private,
            timer_slack_nsec: None,
            coredump_filter: None,
            memory_ksm: None,
            numa_policy: None,
            numa_nodes: None,
            cpu_affinity_of_nodes: false,
            selinux_context: None,
            apparmor_profile: None,
            smack_label: None,
            set_login_environment: None,
            timeout_clean: None,
            sandbox: Vec::new(),
            protections: Vec::new(),
        }
    }
}

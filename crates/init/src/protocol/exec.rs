//! Channel 1: warrend asks a helper to make a service process.
//!
//! warrend may have several requests under way at one helper; they are answered in order. If the
//! helper dies, its socket ends after the replies it had sent, and init hands out a new one
//! ([`super::control::InitMessage::Helper`]). Whether a request without a reply has made a process
//! is said by the helper's [`super::birth::Birth`], which outlives it.
//!
//! Lists of this module are bounded by the size of a request, [`REQUEST_BYTES_MAX`].

use std::time::Duration;

use serde::{Deserialize, Serialize};
use warren_sandbox::credentials::Credential;
use warren_sandbox::mounts::Plan;

use super::{ExecStep, Packet, WireError, body, decode};

/// Largest encoded request. More than [`super::PACKET_BYTES_MAX`] needs a memfd. The kernel's
/// own bound on arguments and environment together is usually 2 MiB.
pub const REQUEST_BYTES_MAX: usize = 8 << 20;

/// A packet of this one byte says: the request is the whole content of the memfd that comes as
/// the **first** fd of this packet, in the usual encoding; the request's own fds follow it.
pub const LARGE: u8 = 0xff;

/// A packet of this one byte says: the request comes through the socket that comes with it, with its first
/// fds; behind it come packets of this byte with the others, and then the end.
pub const MANY: u8 = 0xfd;

/// Most fds of one request.
pub const REQUEST_FDS_MAX: usize = 16_384;

/// First byte of [`Sync`] and [`Synced`], which all versions have in common.
pub const SYNC: u8 = 0xfe;

/// From warrend to a helper: say the last replies again, without their pidfds; then answer
/// [`Synced`] with the same number, once everything before is done. The first thing that a helper
/// hears from a manager, which takes all replies up to the answer as its predecessor's.
///
/// [`SYNC`] and the number in eight bytes, the lowest first: this form never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sync(pub u64);

/// From a helper to warrend: answer to [`Sync`], in the same form with two bytes more, the
/// versions of what it understands and says. With it comes the memfd of its [`super::birth::Birth`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synced {
    /// That of the question.
    pub number: u64,
    /// Version of the [`SpawnRequest`] that it takes.
    pub requests: u8,
    /// Version of its [`HelperReply`].
    pub replies: u8,
}

impl Sync {
    /// In writing.
    pub fn packet(self) -> [u8; 9] {
        let mut out = [SYNC; 9];
        out[1..].copy_from_slice(&self.0.to_le_bytes());
        out
    }

    /// `None`: the packet is something else.
    pub fn parse(packet: &[u8]) -> Option<Sync> {
        let number = packet.strip_prefix(&[SYNC])?;
        Some(Sync(u64::from_le_bytes(number.try_into().ok()?)))
    }
}

impl Synced {
    /// The answer of this program.
    pub fn to(question: Sync) -> Synced {
        let (requests, replies) = (SpawnRequest::VERSION, HelperReply::VERSION);
        Synced { number: question.0, requests, replies }
    }

    /// Whether helper and manager speak the same language.
    pub fn is_ours(self) -> bool {
        self == Synced::to(Sync(self.number))
    }

    /// In writing.
    pub fn packet(self) -> [u8; 11] {
        let mut out = [SYNC; 11];
        out[..9].copy_from_slice(&Sync(self.number).packet());
        out[9..].copy_from_slice(&[self.requests, self.replies]);
        out
    }

    /// `None`: the packet is something else.
    pub fn parse(packet: &[u8]) -> Option<Synced> {
        let (question, versions) = packet.split_at_checked(9)?;
        let &[requests, replies] = versions else { return None };
        Some(Synced { number: Sync::parse(question)?.0, requests, replies })
    }
}

/// A request to spawn, from warrend to a helper. The packet carries `ExecSpec`'s fds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnRequest {
    /// Chosen by warrend, comes back in the reply.
    pub id: u64,
    /// What to run and how.
    pub exec: Box<ExecSpec>,
}

impl Packet for SpawnRequest {
    const VERSION: u8 = 14;
}

impl SpawnRequest {
    /// The id of a request that is damaged behind it.
    pub fn id_of(packet: &[u8]) -> Option<u64> {
        let body = body::<SpawnRequest>(packet).ok()?;
        postcard::take_from_bytes(body).ok().map(|(id, _)| id)
    }
}

/// From a helper to warrend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HelperReply {
    /// Answer to a [`SpawnRequest`]. Carries the pidfd as its only fd when `result` is `Ok`.
    Spawned(SpawnReply),
    /// A packet that was no request. Nothing was done.
    Refused {
        /// Why, for the log.
        message: String,
    },
}

impl Packet for HelperReply {
    const VERSION: u8 = 8;
}

/// What warrend reads from a helper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromHelper {
    /// Answer to a [`Sync`].
    Synced(Synced),
    /// Answer to anything else.
    Reply(HelperReply),
}

impl FromHelper {
    /// Understands a packet.
    pub fn parse(packet: &[u8]) -> Result<FromHelper, WireError> {
        match Synced::parse(packet) {
            Some(synced) => Ok(FromHelper::Synced(synced)),
            None => decode(packet).map(FromHelper::Reply),
        }
    }
}

/// Answer to one spawn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnReply {
    /// The request's id.
    pub id: u64,
    /// The new process, or what went wrong.
    pub result: Result<Spawned, SpawnError>,
}

/// A process that runs the program asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spawned {
    /// Its pid, in init's pid namespace. It is init's child.
    pub pid: i32,
    /// When it was made, CLOCK_MONOTONIC, nanoseconds. An exit record of the same pid with an
    /// earlier time is about another process.
    pub started_ns: u64,
    /// True when the process could not be made inside its cgroup and was moved there instead.
    pub moved_to_cgroup: bool,
    /// What it was to have and runs without.
    pub missing: Missing,
}

/// What the machine cannot give, and the unit can do without (systemd.exec(5), "SANDBOXING").
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// Mounts of its own.
    pub mounts: bool,
    /// A host name of its own.
    pub host_name: bool,
    /// A network of its own.
    pub network: bool,
    /// Objects of System V of its own.
    pub ipc: bool,
    /// Labels of security modules: the kernel has none of these modules at work.
    pub labels: bool,
    /// Process ids of its own.
    pub processes: bool,
    /// The merging of equal pages of its memory.
    pub page_merging: bool,
    /// Places in sets of nf_tables.
    pub nft_sets: bool,
}

/// A set of nf_tables that is told who a process is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NftSet {
    /// What it is told.
    pub source: NftSource,
    /// Of its table: NFPROTO_*.
    pub family: u8,
    /// The name of its table.
    pub table: String,
    /// Its own name.
    pub name: String,
}

/// What a set of nf_tables is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NftSource {
    /// This id of a cgroup.
    Cgroup(u64),
    /// The number of the user.
    User,
    /// The number of the group.
    Group,
}

/// What a process sees of the file system and of the machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    /// What is asked for.
    pub plan: Plan,
    /// The directory in /tmp and in /var/tmp that the unit's own ones lie in, with `Plan::private_tmp`.
    pub private_tmp: String,
    /// What the machine cannot give prevents the start.
    pub must_hold: bool,
    /// What the process is given of secrets.
    pub credentials: Vec<Credential>,
    /// The directory of its credentials in [`warren_sandbox::credentials::DIRECTORY`], and what those are asked for by.
    pub unit: String,
    /// Which of the request's fds are the two ends of the store of the run's namespaces, if it has any of its own
    /// (see [`Stored`]).
    pub store: Option<[u16; 2]>,
    /// The directory in which the root of the run is, as a copy of the unit's; empty for none (RootEphemeral=).
    pub ephemeral_root: String,
}

/// What is in the store of a run's namespaces: a pair of sockets with one message in it at most. Who needs a
/// namespace takes the message from the second end, makes what is missing, and puts it back at the first. Others wait
/// meanwhile; if the one who has it ends, they find nothing after [`STORE_PATIENCE`] and begin anew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stored {
    /// The message's first fd is a network.
    pub network: bool,
    /// The next one is a namespace of System V objects.
    pub ipc: bool,
}

/// How long somebody waits for the message of a store.
pub const STORE_PATIENCE: Duration = Duration::from_secs(2);

impl Stored {
    /// The message.
    pub fn packet(self) -> [u8; 1] {
        [u8::from(self.network) | u8::from(self.ipc) << 1]
    }

    /// What a message says.
    pub fn parse(packet: u8) -> Stored {
        Stored { network: packet & 1 != 0, ipc: packet & 2 != 0 }
    }
}

/// A spawn that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnError {
    /// The step that failed.
    pub step: ExecStep,
    /// Error number of errno(3); 0 when no system call failed.
    pub errno: i32,
    /// What it was about, for a log line: a path, a user's name, a setting.
    pub message: String,
    /// The process that was made and has ended with `step`'s exit code, if it came so far. Its
    /// exit record comes through the ring as for any other.
    pub pid: Option<i32>,
}

/// Everything about how a program is run; systemd.exec(5). Plain data, already expanded:
/// no specifiers, no variables. `fd` fields are indexes into the request's fds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecSpec {
    /// Settings that must be applied or the spawn must fail, by name, that this type has no
    /// field for. A helper that does not know one of them refuses (`ExecStep::Feature`).
    pub required_features: Vec<String>,
    /// The program. Without a slash it is looked up in `search_path`.
    pub path: String,
    /// Directories for a program without a slash, `:`-separated.
    pub search_path: String,
    /// Arguments, the first being what the program sees as its name. A name between two NULs stands
    /// for a login variable; an argument that is nothing else is left out if there is none.
    pub argv: Vec<String>,
    /// Environment, `NAME=value`. The helper appends LISTEN_PID, SYSTEMD_EXEC_PID, WATCHDOG_PID
    /// and the login variables as asked for below; what is already there wins over the login
    /// variables.
    pub env: Vec<String>,
    /// `NAME` or `NAME=value`: login variables that are left out (UnsetEnvironment=).
    pub unset_env: Vec<String>,
    /// `NAME=value`: what a login variable is that the login user has none of, as a home.
    pub login_defaults: Vec<String>,
    /// Where the process is placed.
    pub cgroup: CgroupPlace,
    /// Which of the request's fds is the map in which the process marks itself: it may open files that are forbidden in
    /// its group until it is the program (RestrictFileSystems=).
    pub marks: Option<u16>,
    /// Stay in the session and process group of the manager instead of starting new ones. A
    /// mount helper must: autofs lets only that group pass an automount point that is waiting.
    pub keep_session: bool,

    /// Fds that become 3, 4, 5, ... in this order.
    pub listen_fds: Vec<u16>,
    /// Files that the helper opens before it does anything else; they come behind `listen_fds` (OpenFile=).
    pub open_files: Vec<FileToOpen>,
    /// The names of `listen_fds`, of which there are as many; only with `open_files`.
    pub listen_names: Vec<String>,
    /// Add `LISTEN_FDS=` with how many fds are passed, `open_files` among them.
    pub set_listen_fds: bool,
    /// Add `LISTEN_FDNAMES=` with the names of these.
    pub set_listen_names: bool,
    /// Add `LISTEN_PID=` with the new process's pid.
    pub set_listen_pid: bool,
    /// Add `SYSTEMD_EXEC_PID=` with the new process's pid.
    pub set_exec_pid: bool,
    /// Add `WATCHDOG_PID=` with the new process's pid.
    pub set_watchdog_pid: bool,
    /// Standard input.
    pub stdin: StdInput,
    /// Standard output.
    pub stdout: StdOutput,
    /// Standard error.
    pub stderr: StdOutput,
    /// Terminal of `StdInput::Tty` and `StdOutput::Tty` (TTYPath=); empty: `/dev/console`.
    pub tty_path: String,

    /// What is done to that terminal before it is used.
    pub terminal: Option<TerminalUse>,

    /// WorkingDirectory=.
    pub working_directory: WorkingDirectory,
    /// RootDirectory=; paths below are then inside it.
    pub root_directory: Option<String>,

    /// User=, by name or number.
    pub user: Option<String>,
    /// Group=, by name or number; default the user's.
    pub group: Option<String>,
    /// SupplementaryGroups=, by name or number, in addition to those of the user database.
    pub supplementary_groups: Vec<String>,
    /// The prefixes `+` and `!`: directories and delegated groups belong to `user` and `group`, and the
    /// process has that user's groups as supplementary ones, but keeps its own user and group.
    pub keeps_ids: bool,
    /// Add HOME, LOGNAME, USER and SHELL of this user, who need not be `user`
    /// (SetLoginEnvironment=).
    pub login_user: Option<String>,

    /// PAMName=: the process becomes its program in a session of `user` by this service of PAM.
    pub session: Option<String>,

    /// UtmpIdentifier=: what is written down of it as a login.
    pub login_record: Option<LoginRecord>,

    /// LimitX=.
    pub rlimits: Vec<Rlimit>,
    /// Nice=, -20 to 19.
    pub nice: Option<i8>,
    /// OOMScoreAdjust=, -1000 to 1000.
    pub oom_score_adjust: Option<i16>,
    /// UMask=, octal mode bits; default 0022.
    pub umask: Option<u32>,
    /// IgnoreSIGPIPE=.
    pub ignore_sigpipe: bool,
    /// CPUSchedulingPolicy= and friends.
    pub scheduling: Option<Scheduling>,
    /// CPUAffinity=: the CPUs allowed. `None` leaves it as it is.
    pub cpu_affinity: Option<Vec<u16>>,
    /// IOSchedulingClass= and Priority=.
    pub io_priority: Option<IoPriority>,
    /// TimerSlackNSec=, nanoseconds.
    pub timer_slack_ns: Option<u64>,
    /// CoredumpFilter=, the bits of core(5).
    pub coredump_filter: Option<u32>,
    /// MemoryKSM=
    pub memory_ksm: Option<bool>,
    /// NFTSet=: they are told before there is a process.
    pub nft_sets: Vec<NftSet>,
    /// NUMAPolicy= and NUMAMask=.
    pub numa: Option<Numa>,
    /// CPUAffinity=numa: the processors of the nodes of `numa`, besides those of `cpu_affinity`.
    pub cpu_affinity_of_nodes: bool,
    /// SELinuxContext= and its like.
    pub labels: Vec<Label>,

    /// CapabilityBoundingSet= as a bit mask. `None` leaves it as it is.
    pub capability_bounding_set: Option<u64>,
    /// AmbientCapabilities= as a bit mask.
    pub ambient_capabilities: u64,
    /// SecureBits= as a bit mask of capabilities(7).
    pub secure_bits: Option<u32>,
    /// NoNewPrivileges=.
    pub no_new_privileges: bool,
    /// The program of seccomp(2) for the process, in instructions of `struct sock_filter`; none if empty.
    pub system_call_filter: Vec<u8>,
    /// The same for all processes, attached before the user changes: it forbids nothing but foreign architectures.
    pub architecture_filter: Vec<u8>,
    /// Personality= as the number of personality(2).
    pub personality: Option<u64>,
    /// KeyringMode=.
    pub keyring: Keyring,

    /// RuntimeDirectory= and its siblings, made before the start.
    pub directories: Vec<Directories>,

    /// What the process sees of the file system and of the machine.
    pub view: View,

    /// The group of which `user` may watch the pressure on memory (MemoryPressureWatch=), relative to the tree's root.
    pub watches_memory_of: Option<String>,

    /// Groups that are given to `user`, relative to the tree's root (Delegate=).
    pub delegated: Vec<String>,

    /// What name services said of the users and groups that the files do not have. The helper asks them
    /// only for others.
    pub served: Served,
}

impl ExecSpec {
    /// What the environment has with the number of the process in it, up to the number.
    pub fn pid_variables(&self) -> impl Iterator<Item = &'static str> + use<> {
        let all = [
            (self.set_listen_pid, "LISTEN_PID="),
            (self.set_exec_pid, "SYSTEMD_EXEC_PID="),
            (self.set_watchdog_pid, "WATCHDOG_PID="),
        ];
        all.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, prefix)| prefix)
    }
}

/// A file of OpenFile=, or a socket of AF_UNIX, which is connected to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileToOpen {
    /// Where it lies, as the helper sees the file system.
    pub path: String,
    /// The name of its fd.
    pub name: String,
    /// How it is opened.
    pub how: HowToOpen,
    /// It is left out where it cannot be opened.
    pub is_optional: bool,
    /// Reads and writes do not wait (NonBlocking=).
    pub non_blocking: bool,
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum HowToOpen {
    /// For reading and writing.
    #[default]
    ReadWrite,
    /// For reading.
    Read,
    /// For reading and writing, which goes to its end.
    Append,
    /// For reading and writing; it is emptied.
    Truncate,
}

/// What is done to a terminal before it is used (systemd.exec(5), "TTYReset=" and its like).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalUse {
    /// TTYVHangup=
    pub hangup: bool,
    /// TTYReset=
    pub reset: bool,
    /// TTYVTDisallocate=
    pub disallocate: bool,
    /// TTYRows=
    pub rows: Option<u16>,
    /// TTYColumns=
    pub columns: Option<u16>,
}

/// Answers of name services.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Served {
    /// Of users.
    pub users: Vec<ServedUser>,
    /// Of groups.
    pub groups: Vec<ServedGroup>,
}

/// A user that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedUser {
    /// The name or number that was asked for.
    pub name: String,
    /// A line of passwd(5); none if nobody knows the user.
    pub entry: Option<String>,
    /// Groups besides the primary one.
    pub groups: Vec<u32>,
}

/// A group that was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServedGroup {
    /// The name or number that was asked for.
    pub name: String,
    /// A line of group(5); none if nobody knows the group.
    pub entry: Option<String>,
}

/// Where programs find the log daemon's sockets.
pub const LOG_SOCKETS: &str = "/run/systemd/journal";

/// Where the log daemon of the machine takes streams.
pub const LOG_STREAMS: &str = "/run/systemd/journal/stdout";

/// Where a new process is placed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum CgroupPlace {
    /// The helper's own cgroup.
    #[default]
    Inherit,
    /// A group of the tree that the helper was started for, relative to its root. Must exist.
    Path(String),
    /// The group behind this directory fd.
    Fd(u16),
    /// As `Path`, for a group into which nothing can be cloned: the process is made outside and enters it.
    Enter(String),
}

/// StandardInput=.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StdInput {
    /// `/dev/null`.
    #[default]
    Null,
    /// An fd of the request: a socket, a memfd with StandardInputText=, `fd:NAME`.
    Fd(u16),
    /// A file, opened for reading; for reading and writing when stdout inherits it.
    File(String),
    /// The terminal, taken as controlling terminal: `tty`, `tty-fail`, `tty-force`. It is given to `user`.
    Tty(TtyMode),
    /// An fd of the request that a client passed; a terminal is taken as controlling terminal if no other session has
    /// it.
    Passed(u16),
}

/// How a terminal is taken that another process may have.
/// There is no waiting for it: a helper that waits would not spawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TtyMode {
    /// Fail when another session has it.
    #[default]
    Fail,
    /// Take it away from another session.
    Force,
}

/// StandardOutput= and StandardError=.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StdOutput {
    /// stdout: as stdin, or `/dev/null` when that is not open for writing; stderr: as stdout.
    #[default]
    Inherit,
    /// `/dev/null`.
    Null,
    /// An fd of the request: a log stream, a socket, `fd:NAME`.
    Fd(u16),
    /// `file:`: created if missing, written from the start.
    File(String),
    /// `append:`.
    Append(String),
    /// `truncate:`.
    Truncate(String),
    /// The terminal.
    Tty,
    /// A log file of the manager's own: as `append:`, but for all to read whatever UMask= says.
    Log(String),
    /// The log daemon of the machine, where no link of the manager's leads to it: the process connects by itself, so
    /// that it is known by its own cgroup and user.
    Journal {
        /// A socket that is not connected yet.
        fd: u16,
        /// What is said first on it.
        header: String,
        /// As `Log`, where the daemon cannot be reached.
        file: String,
    },
}

/// WorkingDirectory=.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkingDirectory {
    /// Which directory.
    pub place: DirectoryPlace,
    /// The `-` prefix: stay in `/` when it cannot be entered.
    pub ignore_missing: bool,
}

/// A directory, or a rule for one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectoryPlace {
    /// `/`.
    #[default]
    Root,
    /// `~`: the home directory of the user the process runs as.
    Home,
    /// This path.
    Path(String),
}

/// One resource limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    /// `RLIMIT_*` number of getrlimit(2).
    pub resource: u8,
    /// Soft limit, `u64::MAX` for none.
    pub soft: u64,
    /// Hard limit, `u64::MAX` for none.
    pub hard: u64,
}

/// CPU scheduling; sched_setscheduler(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheduling {
    /// `SCHED_*` number.
    pub policy: u8,
    /// 1 to 99 for the real-time policies, 0 for the others.
    pub priority: u8,
    /// CPUSchedulingResetOnFork=.
    pub reset_on_fork: bool,
}

/// I/O scheduling; ioprio_set(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoPriority {
    /// 0 none, 1 real-time, 2 best-effort, 3 idle.
    pub class: u8,
    /// 0 (highest) to 7.
    pub level: u8,
}

/// Where memory comes from; set_mempolicy(2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Numa {
    /// `MPOL_*` number; none leaves it as it is.
    pub policy: Option<u8>,
    /// Nodes as ranges; none for all that there are.
    pub nodes: Option<Vec<(u16, u16)>>,
}

/// A label of a security module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// Whose.
    pub module: SecurityModule,
    /// The label.
    pub label: String,
    /// The process runs without it where it cannot be set.
    pub is_optional: bool,
}

/// A security module with labels for processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityModule {
    /// SELinuxContext=
    Selinux,
    /// AppArmorProfile=
    Apparmor,
    /// SmackProcessLabel=
    Smack,
}

/// Records of a process in utmp(5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginRecord {
    /// UtmpIdentifier=.
    pub id: String,
    /// UtmpMode=: the last of the records that are written.
    pub until: LoginKind,
}

/// UtmpMode=.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LoginKind {
    /// `INIT_PROCESS`.
    Init,
    /// `LOGIN_PROCESS`.
    Login,
    /// `USER_PROCESS`.
    User,
}

/// KeyringMode=.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Keyring {
    /// Keep the session keyring.
    #[default]
    Inherit,
    /// A new session keyring.
    Private,
    /// A new session keyring with the user's keyring linked into it.
    Shared,
}

/// Which of the five families of directories; systemd.exec(5), "RuntimeDirectory=".
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DirectoryKind {
    /// RuntimeDirectory=.
    Runtime,
    /// StateDirectory=.
    State,
    /// CacheDirectory=.
    Cache,
    /// LogsDirectory=.
    Logs,
    /// ConfigurationDirectory=.
    Configuration,
}

/// Directories to be made before the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Directories {
    /// The family.
    pub kind: DirectoryKind,
    /// What the names are below: `/run`, `/var/lib`, ...
    pub base: String,
    /// Relative paths without `..`; parents are made with mode 0755 and root as owner.
    pub names: Vec<String>,
    /// Mode of the innermost directories. What there is of `Configuration` stays as it is.
    pub mode: u32,
    /// They lie in `base/private` and are linked to below `base` (DynamicUser=).
    pub private: bool,
    /// Links below `base` to these directories: name and link.
    pub links: Vec<(String, String)>,
}

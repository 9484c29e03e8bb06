//! From a spawn effect, and what its environment files say, to the request for an exec helper.

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use warren_core::features::{ephemeral_root, private_tmp};
use warren_core::model::dynamic_user::DynamicUser;
use warren_core::model::process::CommandList;
use warren_core::protocol::event::Spawn;
use warren_core::settings::{Compiled, TypeSettings};
use warren_init::protocol::exec::{
    CgroupPlace, Directories, DirectoryKind, DirectoryPlace, ExecSpec, FileToOpen, HowToOpen,
    IoPriority, Keyring, LOG_SOCKETS, Label, LoginKind, LoginRecord, NftSet, Numa, Rlimit,
    Scheduling, SecurityModule, Served, ServedGroup, ServedUser, StdInput, StdOutput, TerminalUse,
    TtyMode, View, WorkingDirectory,
};
use warren_sandbox::credentials;
use warren_sandbox::images::Place as ImagePlace;
use warren_sandbox::mounts::Plan;
use warren_unit::config::{
    CgroupConfig, Command, Copies, CpuSchedulingPolicy, ExecConfig, ExecDirectory,
    ExecDirectoryPath, Input, IoSchedulingClass, KeyringMode, NotifyAccess, NumaNodes, OpenOptions,
    Output, Personality, PressureWatch, Resource, SandboxSetting, ServiceConfig, UnsetEnvironment,
    UtmpMode, WorkingDirectory as Place, expand,
};
use warren_unit::{Bounds, Context, Defaults, Inherited, Scope};

use crate::base::environment::Variables;
use crate::spawn::views::{self, Own};

/// Variables that have the number of the process, which the helper knows.
const PID_VARIABLES: [&str; 3] = ["LISTEN_PID", "SYSTEMD_EXEC_PID", "WATCHDOG_PID"];

/// What stands for that number; no file can say it.
const OF_PROCESS: &str = "\0";

/// Variables that tell of the descriptors that are handed over, of which the helper knows with `OpenFile=`.
const FD_VARIABLES: [&str; 2] = ["LISTEN_FDS", "LISTEN_FDNAMES"];

/// What the helper knows of the user.
const LOGIN_VARIABLES: [&str; 4] = ["HOME", "LOGNAME", "USER", "SHELL"];

/// What a spawn needs to know besides the effect.
pub struct SpawnHost<'a> {
    /// The unit's name.
    pub unit: &'a str,
    /// Host facts, as for specifiers.
    pub context: &'a Context,
    /// The manager's environment block for its services.
    pub environment: &'a Variables,
    /// What the command's environment files say.
    pub file_variables: &'a [(String, String)],
    /// Path of the notify socket.
    pub notify_socket: &'a str,
    /// The cgroup; [`CgroupPlace::Inherit`] where there are none.
    pub cgroup: CgroupPlace,
    /// Groups that its user is to have.
    pub delegated: Vec<String>,
    /// What takes the output of this unit.
    pub log: LogOutputs,
    /// Names of the file descriptors that are handed over as 3, 4, ...
    pub fd_names: Vec<String>,
    /// Environment of the connection of an `Accept=yes` instance (`REMOTE_ADDR`, `REMOTE_PORT`).
    pub connection_environment: Vec<(&'static str, String)>,
    /// Which of the packet's fds has what is to be read, with `StandardInput=data`.
    pub input_data: Option<u16>,
    /// The program for what the unit forbids its processes to call; empty for none.
    pub system_call_filter: &'a [u8],
    /// What the unit sees of the file system.
    pub plan: &'a Plan,
    /// The unit's group, and the file in it that tells of pressure on memory, if there is one.
    pub memory_pressure: Option<(String, String)>,
    /// What the manager's own file says.
    pub defaults: &'a Defaults,
    /// The program for the architectures that it allows; empty for none.
    pub architecture_filter: &'a [u8],
    /// What the machine cannot give of it prevents the start (MissingProtection=).
    pub must_hold: bool,
    /// Which of the packet's fds a client passed as standard input, output and error, whatever the unit says of them.
    pub standard: [Option<u16>; 3],
    /// Which of the packet's fds are the store of the run's namespaces.
    pub namespace_store: Option<[u16; 2]>,
    /// Which of the packet's fds is the map in which the process marks itself (see [`ExecSpec::marks`]).
    pub marks: Option<u16>,
    /// The sets of nf_tables that are told who it is.
    pub nft_sets: Vec<NftSet>,
}

/// The kernel's log.
const KMSG: &str = "/dev/kmsg";

/// Where `StandardOutput=journal` leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogOutput {
    /// A file, while there is no log daemon.
    File(String),
    /// A stream to the log daemon.
    Stream {
        /// For `$JOURNAL_STREAM`.
        name: String,
        /// Which fd of the packet it is: they come after those that are handed over.
        fd: u16,
    },
    /// A stream that the process connects to the log daemon of the machine.
    Journal {
        /// As of a stream.
        name: String,
        /// As of a stream.
        fd: u16,
        /// What is said first on it.
        header: String,
        /// The file, where it cannot be connected.
        file: String,
    },
}

impl LogOutput {
    /// The standard output that it is.
    fn as_output(&self) -> StdOutput {
        match self {
            LogOutput::File(path) => StdOutput::Log(path.clone()),
            LogOutput::Stream { fd, .. } => StdOutput::Fd(*fd),
            LogOutput::Journal { fd, header, file, .. } => {
                StdOutput::Journal { fd: *fd, header: header.clone(), file: file.clone() }
            }
        }
    }

    fn name(&self) -> Option<&str> {
        match self {
            LogOutput::Stream { name, .. } | LogOutput::Journal { name, .. } => Some(name),
            LogOutput::File(_) => None,
        }
    }

    /// The same for what the kernel's log gets too: without a log daemon it gets it alone, if it is there, as it is
    /// not in containers.
    fn as_kmsg(&self) -> StdOutput {
        match self {
            LogOutput::File(_) if Path::new(KMSG).exists() => StdOutput::File(KMSG.to_owned()),
            _ => self.as_output(),
        }
    }
}

/// Where standard output and standard error lead if they are logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogOutputs {
    /// Standard output.
    pub out: LogOutput,
    /// Standard error.
    pub err: LogOutput,
}

impl LogOutputs {
    /// What `$JOURNAL_STREAM` says: of standard error if both are streams (systemd.exec(5)).
    fn name(&self, exec: &ExecConfig, standard: &[Option<u16>; 3]) -> Option<&str> {
        let [out, err] = logged_but(exec, [standard[1].is_some(), standard[2].is_some()]);
        let logs = [err.map(|_| &self.err), out.map(|_| &self.out)];
        logs.into_iter().flatten().find_map(LogOutput::name)
    }
}

/// Why a request could not be made; the text is for people.
pub type SpawnError = String;

/// Where a process is placed; by `enters` it is made first and put there then.
pub fn cgroup_place(path: Option<String>, enters: bool) -> CgroupPlace {
    match path {
        None => CgroupPlace::Inherit,
        Some(path) if enters => CgroupPlace::Enter(path),
        Some(path) => CgroupPlace::Path(path),
    }
}

/// The request for one spawn.
pub fn exec_spec(spawn: &Spawn, host: &SpawnHost<'_>) -> Result<ExecSpec, SpawnError> {
    let (command, exec) = command_of(&spawn.settings, spawn.list, spawn.index)
        .ok_or_else(|| "the command is not there any more".to_owned())?;
    let service = match &spawn.settings.own {
        TypeSettings::Service(config) => Some(&**config),
        _ => None,
    };
    let inherited = &host.defaults.inherited;
    let has_root = service.is_none_or(|service| {
        !service.root_directory_start_only || spawn.list == CommandList::Start
    });
    let login_user = exec.user.as_ref().filter(|_| exec.set_login_environment != Some(false));
    let open_files = open_files(spawn, service);
    let mut environment =
        environment(spawn, service, exec, (login_user.is_some(), !open_files.is_empty()), host)?;
    let [set_listen_fds, set_listen_names] =
        FD_VARIABLES.map(|name| take_of_process(&mut environment, name));
    let [set_listen_pid, set_exec_pid, set_watchdog_pid] =
        PID_VARIABLES.map(|name| take_of_process(&mut environment, name));
    let of_login = login_user.iter().flat_map(|_| LOGIN_VARIABLES);
    let of_fds = [set_listen_fds, set_listen_names].into_iter().zip(FD_VARIABLES);
    let of_fds = of_fds.filter_map(|(is_set, name)| is_set.then_some(name));
    let of_helper: Vec<&str> = of_login.chain(of_fds).collect();
    let privileged = command.full_privileges || service.is_some_and(|s| is_spared(s, spawn.list));
    let keeps_ids = privileged || command.no_setuid;
    // As with systemd 252, such a command has the groups of the user database alone.
    let groups = if keeps_ids { &[][..] } else { &exec.supplementary_groups[..] };
    let mut spec = ExecSpec {
        required_features: required_features(spawn, exec, privileged, host.must_hold),
        path: command.path.to_string(),
        search_path: search_path(exec, host.context),
        argv: expand(command, &with_variables_of_helper(&environment, &of_helper)),
        env: environment.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        cgroup: host.cgroup.clone(),
        marks: host.marks,
        delegated: host.delegated.clone(),
        open_files,
        set_listen_fds,
        set_listen_names,
        set_listen_pid,
        set_exec_pid,
        set_watchdog_pid,
        working_directory: working_directory(exec, host.context),
        root_directory: exec.root_directory.as_ref().filter(|_| has_root).map(|r| r.to_string()),
        user: exec.user.as_deref().map(|user| number_of(spawn, user)),
        group: group(spawn, exec),
        supplementary_groups: groups.iter().map(|g| g.to_string()).collect(),
        keeps_ids,
        session: session(exec, keeps_ids, host.context.scope),
        login_record: login_record(exec),
        login_user: login_user.map(|user| number_of(spawn, user)),
        unset_env: unset_words(exec),
        login_defaults: login_user.map_or_else(Vec::new, |_| login_defaults(host.environment)),
        nice: exec.nice,
        oom_score_adjust: exec.oom_score_adjust,
        umask: Some(exec.umask),
        ignore_sigpipe: exec.ignore_sigpipe,
        scheduling: scheduling(exec),
        cpu_affinity: exec
            .cpu_affinity
            .as_ref()
            .or(inherited.cpu_affinity.as_ref().filter(|_| !exec.cpu_affinity_of_nodes))
            .map(|set| set.ranges().iter().flat_map(|&(low, high)| low..=high).collect()),
        io_priority: io_priority(exec),
        timer_slack_ns: exec.timer_slack_nsec,
        coredump_filter: exec.coredump_filter,
        memory_ksm: exec.memory_ksm,
        nft_sets: host.nft_sets.clone(),
        numa: numa(exec, inherited),
        cpu_affinity_of_nodes: exec.cpu_affinity_of_nodes,
        keyring: match exec.keyring_mode {
            KeyringMode::Inherit => Keyring::Inherit,
            KeyringMode::Private => Keyring::Private,
            KeyringMode::Shared => Keyring::Shared,
        },
        directories: directories(exec, host.context),
        personality: exec.personality.map(persona),
        tty_path: exec.tty_path.as_deref().unwrap_or("").to_owned(),
        terminal: terminal(exec),
        ..ExecSpec::default()
    };
    if !privileged {
        restrict(&mut spec, exec, host.context.scope);
        spec.system_call_filter = host.system_call_filter.to_vec();
        spec.labels = labels(exec, inherited);
    }
    bound(&mut spec, host);
    let watched = service.and_then(|service| watched(&service.cgroup, host));
    spec.watches_memory_of = watched.map(|(group, _)| group.clone());
    spec.view = view(spawn, exec, host, &spec, privileged, has_root);
    // The packet's fds are the ones handed over, in order; the standard streams refer to them by index.
    if !exec.takes_socket() {
        spec.listen_fds = (0..host.fd_names.len() as u16).collect();
        if !spec.open_files.is_empty() {
            spec.listen_names.clone_from(&host.fd_names);
        }
    }
    let leaves_terminal = service.is_some() && leaves_terminal(spawn.list);
    standard_streams(&mut spec, exec, leaves_terminal, host)?;
    Ok(spec)
}

/// A name that was made for the run is known to nobody else, so its number stands for it.
fn number_of(spawn: &Spawn, name: &str) -> String {
    let names = spawn.dynamic_user.iter().flat_map(|user| user.names());
    let number = names.filter(|of| *of.name == *name).find_map(|of| of.given());
    number.map_or_else(|| name.to_owned(), |number| number.to_string())
}

/// The group of a process; that of a user who is in the user database is the primary one, unless another is stated.
fn group(spawn: &Spawn, exec: &ExecConfig) -> Option<String> {
    let is_static = |user: &DynamicUser| user.user.given().is_none();
    let is_implied = exec.dynamic_user && exec.group == exec.user;
    let group = exec.group.as_deref();
    let group =
        group.filter(|_| !is_implied || !spawn.dynamic_user.as_deref().is_some_and(is_static));
    group.map(|group| number_of(spawn, group))
}

/// What a helper is told of users that were made for the run, as name services would.
pub(crate) fn add_dynamic_user(spawn: &Spawn, served: &mut Served) {
    for of in spawn.dynamic_user.iter().flat_map(|user| user.names()) {
        let Some(number) = of.given() else { continue };
        let (name, number) = (&of.name, number.to_string());
        let user = format!("{name}:x:{number}:{number}:Dynamic User:/:/usr/sbin/nologin");
        let group = format!("{name}:x:{number}:");
        let groups = Vec::new();
        served.users.push(ServedUser { name: number.clone(), entry: Some(user), groups });
        served.groups.push(ServedGroup { name: number, entry: Some(group) });
    }
}

/// What the process sees of the file system. One with all privileges sees it as the host has it.
fn view(
    spawn: &Spawn,
    exec: &ExecConfig,
    host: &SpawnHost<'_>,
    spec: &ExecSpec,
    privileged: bool,
    has_root: bool,
) -> View {
    // Such a one has the unit's root as it is.
    let of_all = Plan { bare_root: true, ..Plan::default() };
    let mut plan = Cow::Borrowed(if privileged { &of_all } else { host.plan });
    if !has_root && plan.has_root_image() {
        plan.to_mut().images.retain(|image| image.place != ImagePlace::Root);
    }
    let plan = &*plan;
    let is_service = matches!(spawn.settings.own, TypeSettings::Service(_));
    let own = Own {
        directories: &spec.directories,
        notify_socket: is_service.then_some(host.notify_socket),
        log_sockets: exec.log_namespace.as_deref().map(log_sockets),
        private_tmp: (is_service && plan.private_tmp)
            .then(|| private_tmp::name(&host.context.boot_id, host.unit, spawn.invocation)),
        ephemeral_root: is_service
            .then(|| ephemeral_root::directory(exec, host.context, host.unit, spawn.invocation))
            .flatten(),
        must_hold: host.must_hold,
        credentials: views::credentials(exec),
        unit: host.unit,
        store: host.namespace_store,
        writable: spec
            .watches_memory_of
            .as_ref()
            .and(host.memory_pressure.as_ref())
            .map(|(_, file)| &**file),
    };
    let has_root = spec.root_directory.is_some() || plan.has_root_image();
    views::view(plan, own, has_root)
}

/// Where the sockets of a journal namespace are.
pub fn log_sockets(namespace: &str) -> String {
    format!("{LOG_SOCKETS}.{namespace}")
}

/// Whether standard output and standard error of a process of these settings are logged by themselves, and
/// who gets a copy. Standard error that inherits is standard output.
pub fn logged(exec: &ExecConfig) -> [Option<Copies>; 2] {
    let inherits = exec.standard_output == Output::Inherit && !is_written_to(&exec.standard_input);
    let out = exec.standard_output.copies().or_else(|| inherits.then(Copies::default));
    [out, exec.standard_error.copies()]
}

/// The same where a client may have passed standard output and standard error.
pub fn logged_but(exec: &ExecConfig, passed: [bool; 2]) -> [Option<Copies>; 2] {
    let [out, err] = logged(exec);
    [out.filter(|_| !passed[0]), err.filter(|_| !passed[1])]
}

/// Whether standard output can inherit it; else it goes to the log.
fn is_written_to(input: &Input) -> bool {
    !matches!(input, Input::Null | Input::File(_) | Input::Data)
}

/// A command of a unit and the environment it runs in.
pub fn command_of(
    settings: &Compiled,
    list: CommandList,
    index: u16,
) -> Option<(&Command, &ExecConfig)> {
    let exec = match &settings.own {
        TypeSettings::Service(config) => &config.exec,
        TypeSettings::Socket(config) => &config.exec,
        _ => return None,
    };
    settings.commands(list).get(usize::from(index)).map(|command| (command, &**exec))
}

/// The execution domain of personality(2): architectures of 32 bits have one of their own. One
/// that this machine cannot run is refused by the kernel, at the exec.
fn persona(personality: Personality) -> u64 {
    const PER_LINUX: u64 = 0;
    const PER_LINUX32: u64 = 8;
    match personality {
        Personality::X86 | Personality::Ppc | Personality::PpcLe | Personality::S390 => PER_LINUX32,
        Personality::X86_64 | Personality::Ppc64 | Personality::Ppc64Le | Personality::S390x => {
            PER_LINUX
        }
    }
}

/// The service of PAM by which a session is opened: for a process that becomes a user, which the manager of a user
/// cannot ask for. As with systemd 252, one with the prefix `+` or `!` has none.
fn session(exec: &ExecConfig, keeps_ids: bool, scope: Scope) -> Option<String> {
    let is_opened = !keeps_ids && exec.user.is_some() && scope == Scope::System;
    exec.pam_name.as_deref().filter(|_| is_opened).map(str::to_owned)
}

fn login_record(exec: &ExecConfig) -> Option<LoginRecord> {
    let until = match exec.utmp_mode {
        UtmpMode::Init => LoginKind::Init,
        UtmpMode::Login => LoginKind::Login,
        UtmpMode::User => LoginKind::User,
    };
    let id = exec.utmp_identifier.as_deref().filter(|id| !id.is_empty())?;
    Some(LoginRecord { id: id.to_owned(), until })
}

/// What is done to the terminal before it is used.
fn terminal(exec: &ExecConfig) -> Option<TerminalUse> {
    exec.terminal()?;
    let asked = TerminalUse {
        hangup: exec.tty_vhangup,
        reset: exec.tty_reset,
        disallocate: exec.tty_vt_disallocate,
        rows: exec.tty_size.0,
        columns: exec.tty_size.1,
    };
    (asked != TerminalUse::default()).then_some(asked)
}

/// Whether any are provided.
fn has_credentials(exec: &ExecConfig) -> bool {
    exec.protections.iter().any(|asked| credentials::concerns(asked.setting))
}

/// What must be refused rather than left out.
/// Settings without which the command is not started: those of another environment, and by `must_hold` each one that
/// is not in force.
fn required_features(
    spawn: &Spawn,
    exec: &ExecConfig,
    privileged: bool,
    must_hold: bool,
) -> Vec<String> {
    if privileged {
        return Vec::new();
    }
    // A user's manager has none to give.
    let is_lacking = exec.dynamic_user && spawn.dynamic_user.is_none();
    let dynamic = is_lacking.then(|| "DynamicUser=yes".to_owned());
    let others = exec.sandbox.iter().filter(|asked| must_hold || is_another_environment(asked));
    dynamic.into_iter().chain(others.map(|asked| format!("{}=", asked.setting))).collect()
}

/// What runs without such a setting runs in another place than it is to run in: other files, another network, other
/// rights of a session.
fn is_another_environment(asked: &SandboxSetting) -> bool {
    const REFUSED: [&str; 14] = [
        "RootImagePolicy",
        "MountImagePolicy",
        "ExtensionImagePolicy",
        "RootImage",
        "RootHash",
        "RootHashSignature",
        "RootVerity",
        "RootEphemeral",
        "MountImages",
        "ExtensionImages",
        "ExtensionDirectories",
        "UserNamespacePath",
        "LoadCredentialEncrypted",
        "SetCredentialEncrypted",
    ];
    REFUSED.contains(&asked.setting)
}

/// `PermissionsStartOnly=`: what is not for ExecStart= runs as with the prefix `+`.
fn is_spared(service: &ServiceConfig, list: CommandList) -> bool {
    service.permissions_start_only && list != CommandList::Start
}

fn restrict(spec: &mut ExecSpec, exec: &ExecConfig, scope: Scope) {
    let all = warren_unit::config::CapabilitySet::ALL;
    spec.capability_bounding_set =
        (exec.capability_bounding_set != all).then_some(exec.capability_bounding_set.0);
    spec.ambient_capabilities = exec.ambient_capabilities.0;
    spec.rlimits = rlimits(exec);
    spec.secure_bits = (exec.secure_bits != 0).then_some(exec.secure_bits);
    spec.no_new_privileges = exec.has_no_new_privileges(is_admin(spec, scope));
}

/// What holds for all processes, also for commands with the prefix `+`.
fn bound(spec: &mut ExecSpec, host: &SpawnHost<'_>) {
    let Bounds { capabilities, no_new_privileges, .. } = host.defaults.bounds;
    if capabilities != warren_unit::config::CapabilitySet::ALL {
        let own = spec.capability_bounding_set.unwrap_or(u64::MAX);
        spec.capability_bounding_set = Some(own & capabilities.0);
    }
    spec.no_new_privileges |= no_new_privileges;
    spec.architecture_filter = host.architecture_filter.to_vec();
}

/// Whether a process will have CAP_SYS_ADMIN, as far as its user and its ambient capabilities say.
fn is_admin(spec: &ExecSpec, scope: Scope) -> bool {
    const CAP_SYS_ADMIN: u64 = 1 << 21;
    let is_root = spec.keeps_ids || matches!(spec.user.as_deref(), None | Some("root" | "0"));
    scope == Scope::System && (is_root || spec.ambient_capabilities & CAP_SYS_ADMIN != 0)
}

fn numa(exec: &ExecConfig, inherited: &Inherited) -> Option<Numa> {
    let (policy, nodes) = match exec.numa_policy {
        None => (inherited.numa_policy, exec.numa_nodes.as_ref().or(inherited.numa_nodes.as_ref())),
        policy => (policy, exec.numa_nodes.as_ref()),
    };
    let policy = policy.map(|policy| policy as u8);
    let nodes = match nodes {
        None if policy.is_none() && !exec.cpu_affinity_of_nodes => return None,
        None => Some(Vec::new()),
        Some(NumaNodes::All) => None,
        Some(NumaNodes::Listed(set)) => Some(set.ranges().to_vec()),
    };
    Some(Numa { policy, nodes })
}

/// Labels of security modules; they are not set for commands that keep all privileges.
fn labels(exec: &ExecConfig, inherited: &Inherited) -> Vec<Label> {
    use warren_unit::config::Label as Asked;
    let by_default = |label| Asked { label, is_optional: false };
    let by_default = inherited.smack_label.clone().map(by_default);
    let smack = exec.smack_label.as_ref().or(by_default.as_ref());
    let all = [
        (SecurityModule::Smack, smack),
        (SecurityModule::Selinux, exec.selinux_context.as_ref()),
        (SecurityModule::Apparmor, exec.apparmor_profile.as_ref()),
    ];
    let one = |(module, asked): (SecurityModule, Option<&Asked>)| {
        let asked = asked?;
        Some(Label { module, label: asked.label.to_string(), is_optional: asked.is_optional })
    };
    all.into_iter().filter_map(one).collect()
}

fn search_path(exec: &ExecConfig, context: &Context) -> String {
    match exec.exec_search_path.is_empty() {
        true => context.exec_search_path.to_string(),
        false => exec.exec_search_path.join(":"),
    }
}

fn working_directory(exec: &ExecConfig, context: &Context) -> WorkingDirectory {
    let place = match &exec.working_directory {
        Some(Place::Home) => DirectoryPlace::Home,
        Some(Place::Path(path)) => DirectoryPlace::Path(path.to_string()),
        None if context.scope == Scope::User => DirectoryPlace::Home,
        None => DirectoryPlace::Root,
    };
    WorkingDirectory { place, ignore_missing: exec.working_directory_optional }
}

/// getrlimit(2) numbers on all architectures that Warrener knows.
fn resource_number(resource: Resource) -> u8 {
    match resource {
        Resource::Cpu => 0,
        Resource::Fsize => 1,
        Resource::Data => 2,
        Resource::Stack => 3,
        Resource::Core => 4,
        Resource::Rss => 5,
        Resource::Nproc => 6,
        Resource::Nofile => 7,
        Resource::Memlock => 8,
        Resource::As => 9,
        Resource::Locks => 10,
        Resource::Sigpending => 11,
        Resource::Msgqueue => 12,
        Resource::Nice => 13,
        Resource::Rtprio => 14,
        Resource::Rttime => 15,
    }
}

fn rlimits(exec: &ExecConfig) -> Vec<Rlimit> {
    let wire = |(resource, limit): &(Resource, warren_unit::config::Rlimit)| Rlimit {
        resource: resource_number(*resource),
        soft: limit.soft,
        hard: limit.hard,
    };
    exec.rlimits.0.iter().map(wire).collect()
}

fn scheduling(exec: &ExecConfig) -> Option<Scheduling> {
    let policy = match exec.cpu_scheduling_policy? {
        CpuSchedulingPolicy::Other => 0,
        CpuSchedulingPolicy::Fifo => 1,
        CpuSchedulingPolicy::Rr => 2,
        CpuSchedulingPolicy::Batch => 3,
        CpuSchedulingPolicy::Idle => 5,
    };
    let priority = exec.cpu_scheduling_priority.unwrap_or(0);
    Some(Scheduling { policy, priority, reset_on_fork: exec.cpu_scheduling_reset_on_fork })
}

fn io_priority(exec: &ExecConfig) -> Option<IoPriority> {
    if exec.io_scheduling_class.is_none() && exec.io_scheduling_priority.is_none() {
        return None;
    }
    let class = match exec.io_scheduling_class.unwrap_or(IoSchedulingClass::BestEffort) {
        IoSchedulingClass::Realtime => 1,
        IoSchedulingClass::None | IoSchedulingClass::BestEffort => 2,
        IoSchedulingClass::Idle => 3,
    };
    Some(IoPriority { class, level: exec.io_scheduling_priority.unwrap_or(4) })
}

/// The five kinds of directories, with where they lie.
pub fn directory_bases<'a>(
    exec: &'a ExecConfig,
    context: &'a Context,
) -> [(DirectoryKind, &'a Arc<str>, &'a ExecDirectory); 5] {
    [
        (DirectoryKind::Runtime, &context.runtime_dir, &exec.runtime_directory),
        (DirectoryKind::State, &context.state_dir, &exec.state_directory),
        (DirectoryKind::Cache, &context.cache_dir, &exec.cache_directory),
        (DirectoryKind::Logs, &context.log_dir, &exec.logs_directory),
        (DirectoryKind::Configuration, &context.config_dir, &exec.configuration_directory),
    ]
}

/// Whether directories of this family lie where only the users get to that are made for a run.
fn is_private(exec: &ExecConfig, kind: DirectoryKind) -> bool {
    match kind {
        DirectoryKind::State | DirectoryKind::Cache | DirectoryKind::Logs => exec.dynamic_user,
        DirectoryKind::Runtime => exec.has_private_runtime_directories(),
        DirectoryKind::Configuration => false,
    }
}

fn directories(exec: &ExecConfig, context: &Context) -> Vec<Directories> {
    directory_bases(exec, context)
        .into_iter()
        .filter(|(_, _, directory)| !directory.paths.is_empty())
        .map(|(kind, base, directory)| Directories {
            kind,
            base: base.to_string(),
            names: directory.paths.iter().map(|p| p.path.to_string()).collect(),
            mode: directory.mode,
            private: is_private(exec, kind),
            links: directory
                .paths
                .iter()
                .flat_map(|p| p.symlinks.iter().map(|link| (p.path.to_string(), link.to_string())))
                .collect(),
        })
        .collect()
}

// ---- environment (systemd.exec(5), "ENVIRONMENT VARIABLES") ----

fn environment(
    spawn: &Spawn,
    service: Option<&ServiceConfig>,
    exec: &ExecConfig,
    (has_login, opens_files): (bool, bool),
    host: &SpawnHost<'_>,
) -> Result<Variables, SpawnError> {
    let mut out = host.environment.clone();
    if has_login {
        // The user's come after the manager's (see `login_defaults`).
        LOGIN_VARIABLES.iter().for_each(|name| _ = out.remove(*name));
    }
    let mut set = |name: &str, value: String| {
        out.insert(name.into(), value.into());
    };
    set("SYSTEMD_EXEC_PID", OF_PROCESS.to_owned());
    if host.context.scope == Scope::User {
        set("MANAGERPID", std::os::unix::process::parent_id().to_string());
    }
    if let Some(namespace) = &exec.log_namespace {
        set("LOG_NAMESPACE", namespace.to_string());
    }
    if has_credentials(exec) {
        set("CREDENTIALS_DIRECTORY", format!("{}/{}", credentials::DIRECTORY, host.unit));
    }
    if spawn.invocation != 0 {
        set("INVOCATION_ID", format!("{:032x}", spawn.invocation));
    }
    for (name, value) in &spawn.environment {
        set(name, value.clone());
    }
    for (name, value) in &host.connection_environment {
        set(name, value.clone());
    }
    if let Some(config) = service {
        if is_heard(spawn, config.notify_access) {
            set("NOTIFY_SOCKET", host.notify_socket.to_owned());
        }
        let starts = spawn.main || spawn.list == CommandList::Start;
        if let Some(watchdog) = config.watchdog.filter(|_| starts) {
            set("WATCHDOG_USEC", watchdog.as_micros().to_string());
            set("WATCHDOG_PID", OF_PROCESS.to_owned());
        }
        for (name, value) in pressure_variables(&config.cgroup, exec, host) {
            set(name, value);
        }
        if let Some(pid_file) = &config.pid_file {
            set("PIDFILE", pid_file.to_string());
        }
    }
    if let Some(term) = terminal_type(exec) {
        set("TERM", term);
    }
    for (kind, base, directory) in directory_bases(exec, host.context) {
        if !directory.paths.is_empty() {
            let path = |path: &ExecDirectoryPath| format!("{base}/{}", path.path);
            let paths: Vec<String> = directory.paths.iter().map(path).collect();
            set(directory_variable(kind), paths.join(":"));
        }
    }
    if !exec.exec_search_path.is_empty() {
        set("PATH", exec.exec_search_path.join(":"));
    }
    if exec.working_directory == Some(Place::Home) && exec.user.is_none() {
        set("HOME", warren_sys::process::own_home());
    }
    if let Some(name) = host.log.name(exec, &host.standard) {
        set("JOURNAL_STREAM", name.to_owned());
    }
    if opens_files {
        set("LISTEN_PID", OF_PROCESS.to_owned());
        FD_VARIABLES.iter().for_each(|name| set(name, OF_PROCESS.to_owned()));
    } else if !host.fd_names.is_empty() && !exec.takes_socket() {
        set("LISTEN_PID", OF_PROCESS.to_owned());
        set("LISTEN_FDS", host.fd_names.len().to_string());
        set("LISTEN_FDNAMES", host.fd_names.join(":"));
    }
    for name in &exec.pass_environment {
        let stated =
            host.defaults.manager_environment.iter().filter_map(|text| text.split_once('='));
        let stated = stated.rev().find(|(stated, _)| *stated == &**name);
        let own = || std::env::var(&**name).ok();
        if let Some(value) = stated.map(|(_, value)| value.to_owned()).or_else(own) {
            set(name, value);
        }
    }
    for variable in &exec.environment {
        set(&variable.name, variable.value.to_string());
    }
    for (name, value) in host.file_variables {
        set(name, value.clone());
    }
    for unset in &exec.unset_environment {
        if unset.value.is_none() || out.get(&unset.name) == unset.value.as_ref() {
            out.remove(&unset.name);
        }
    }
    Ok(out)
}

/// The group and the file that a service watches for pressure on memory.
fn watched<'a>(config: &CgroupConfig, host: &'a SpawnHost<'_>) -> Option<&'a (String, String)> {
    let is_watched = match config.memory_pressure_watch? {
        PressureWatch::On => true,
        PressureWatch::Auto => config.memory_accounting,
        PressureWatch::Off | PressureWatch::Skip => false,
    };
    host.memory_pressure.as_ref().filter(|_| is_watched)
}

/// What a service is told of how to watch it (systemd.resource-control(5), "MemoryPressureWatch=").
fn pressure_variables(
    config: &CgroupConfig,
    exec: &ExecConfig,
    host: &SpawnHost<'_>,
) -> Vec<(&'static str, String)> {
    use base64::Engine as _;
    const WATCH: &str = "MEMORY_PRESSURE_WATCH";
    const THRESHOLD: Duration = Duration::from_millis(200);
    const WINDOW_US: u64 = 2_000_000;
    if matches!(config.memory_pressure_watch, None | Some(PressureWatch::Skip)) {
        return Vec::new();
    }
    let Some((_, file)) = watched(config, host) else {
        return vec![(WATCH, "/dev/null".to_owned())];
    };
    let is_private = |asked: &SandboxSetting| {
        asked.setting == "ProtectControlGroups" && matches!(&*asked.value, "private" | "strict")
    };
    // There the unit's group is the root.
    let file = match exec.protections.iter().any(is_private) {
        true => "/sys/fs/cgroup/memory.pressure",
        false => file,
    };
    let threshold = config.memory_pressure_threshold.unwrap_or(THRESHOLD).as_micros();
    let threshold = threshold.clamp(1, u128::from(WINDOW_US));
    // The kernel reads it as a text of C.
    let trigger = format!("some {threshold} {WINDOW_US}\0");
    let trigger = base64::engine::general_purpose::STANDARD.encode(trigger);
    vec![(WATCH, file.to_owned()), ("MEMORY_PRESSURE_WRITE", trigger)]
}

/// Whether this process may say something: the main process, or a command, too.
fn is_heard(spawn: &Spawn, access: NotifyAccess) -> bool {
    match access {
        NotifyAccess::None => false,
        NotifyAccess::Main => spawn.main || spawn.list == CommandList::Start,
        NotifyAccess::Exec | NotifyAccess::All => true,
    }
}

/// `$TERM` of a process that has to do with a terminal.
fn terminal_type(exec: &ExecConfig) -> Option<String> {
    let input = exec.input_terminal().is_some();
    let is_shown =
        |output: &Output| *output == Output::Tty || output.copies().is_some_and(|it| it.console);
    let outputs = [&exec.standard_output, &exec.standard_error];
    if !input && !outputs.into_iter().any(is_shown) && exec.tty_path.is_none() {
        return None;
    }
    let path = exec.tty_path.as_deref().unwrap_or("/dev/console");
    let is_virtual = path.strip_prefix("/dev/tty").is_some_and(|n| n.parse::<u8>().is_ok());
    let own = std::env::var("TERM").ok().filter(|_| path == "/dev/console");
    Some(own.unwrap_or_else(|| if is_virtual { "linux" } else { "vt220" }.to_owned()))
}

fn directory_variable(kind: DirectoryKind) -> &'static str {
    match kind {
        DirectoryKind::Runtime => "RUNTIME_DIRECTORY",
        DirectoryKind::State => "STATE_DIRECTORY",
        DirectoryKind::Cache => "CACHE_DIRECTORY",
        DirectoryKind::Logs => "LOGS_DIRECTORY",
        DirectoryKind::Configuration => "CONFIGURATION_DIRECTORY",
    }
}

/// The environment that a command line is expanded with: what the helper knows stands in it by name.
fn with_variables_of_helper<'a>(environment: &'a Variables, names: &[&str]) -> Cow<'a, Variables> {
    if names.is_empty() {
        return Cow::Borrowed(environment);
    }
    let mut all = environment.clone();
    for &name in names {
        all.entry(name.into()).or_insert_with(|| format!("\0{name}\0").into());
    }
    Cow::Owned(all)
}

/// What the manager's environment says where a user has no home or shell.
fn login_defaults(environment: &Variables) -> Vec<String> {
    let entry = |name: &&str| environment.get(*name).map(|value| format!("{name}={value}"));
    LOGIN_VARIABLES.iter().filter_map(entry).collect()
}

/// Takes a variable out if it is to have the number of the process.
fn take_of_process(environment: &mut Variables, name: &str) -> bool {
    let is_set = environment.get(name).is_some_and(|value| &**value == OF_PROCESS);
    is_set && environment.remove(name).is_some()
}

fn unset_words(exec: &ExecConfig) -> Vec<String> {
    let word = |unset: &UnsetEnvironment| match &unset.value {
        Some(value) => format!("{}={value}", unset.name),
        None => unset.name.to_string(),
    };
    // With `DynamicUser=` nobody has a home, not even who is in the user database; as systemd 252 has it.
    let of_dynamic = ["HOME", "SHELL"].into_iter().filter(|_| exec.dynamic_user);
    exec.unset_environment.iter().map(word).chain(of_dynamic.map(str::to_owned)).collect()
}

// ---- file descriptors ----

/// The files that the process is handed opened: of a service's own program, not of the commands beside it.
fn open_files(spawn: &Spawn, service: Option<&ServiceConfig>) -> Vec<FileToOpen> {
    let starts = spawn.main || spawn.list == CommandList::Start;
    let Some(service) = service.filter(|_| starts) else { return Vec::new() };
    let files = service.open_files.iter().map(|file| FileToOpen {
        path: file.path.to_string(),
        name: file.name.to_string(),
        how: match file.options {
            OpenOptions { read_only: true, .. } => HowToOpen::Read,
            OpenOptions { append: true, .. } => HowToOpen::Append,
            OpenOptions { truncate: true, .. } => HowToOpen::Truncate,
            _ => HowToOpen::ReadWrite,
        },
        is_optional: file.options.graceful,
        non_blocking: service.non_blocking,
    });
    files.collect()
}

/// Whether commands of a service leave its terminal to the main process. As with systemd 252, their output
/// may go there.
fn leaves_terminal(list: CommandList) -> bool {
    matches!(list, CommandList::StartPost | CommandList::Reload | CommandList::Stop)
}

fn standard_streams(
    spec: &mut ExecSpec,
    exec: &ExecConfig,
    leaves_terminal: bool,
    host: &SpawnHost<'_>,
) -> Result<(), SpawnError> {
    let only_fd = || match host.fd_names.len() {
        1 => Ok(0),
        0 => Err("a socket as standard stream, and there is none".to_owned()),
        more => Err(format!("a socket as standard stream, and there are {more}")),
    };
    let named = |name: &str, default: &str| {
        let wanted = if name.is_empty() { default } else { name };
        let index = host.fd_names.iter().position(|n| n == wanted);
        index.map(|i| i as u16).ok_or_else(|| format!("no file descriptor named {wanted}"))
    };
    let leaves_terminal = leaves_terminal && exec.input_terminal().is_some();
    spec.stdin = match &exec.standard_input {
        _ if leaves_terminal => StdInput::Null,
        Input::Null => StdInput::Null,
        Input::Tty | Input::TtyFail => StdInput::Tty(TtyMode::Fail),
        Input::TtyForce => StdInput::Tty(TtyMode::Force),
        Input::File(path) => StdInput::File(path.to_string()),
        Input::Socket => StdInput::Fd(only_fd()?),
        Input::Fd(name) => StdInput::Fd(named(name, "stdin")?),
        Input::Data => host.input_data.map_or(StdInput::Null, StdInput::Fd),
    };
    let output = |output: &Output, default: &str| -> Result<StdOutput, SpawnError> {
        let log = if default == "stdout" { &host.log.out } else { &host.log.err };
        Ok(match output {
            Output::Inherit if default == "stdout" && !is_written_to(&exec.standard_input) => {
                log.as_output()
            }
            Output::Inherit if default == "stdout" && leaves_terminal => StdOutput::Tty,
            Output::Inherit => StdOutput::Inherit,
            Output::Null => StdOutput::Null,
            Output::Tty => StdOutput::Tty,
            Output::Journal | Output::JournalConsole => log.as_output(),
            Output::Kmsg | Output::KmsgConsole => log.as_kmsg(),
            Output::File(path) => StdOutput::File(path.to_string()),
            Output::Append(path) => StdOutput::Append(path.to_string()),
            Output::Truncate(path) => StdOutput::Truncate(path.to_string()),
            Output::Socket => StdOutput::Fd(only_fd()?),
            Output::Fd(name) => StdOutput::Fd(named(name, default)?),
        })
    };
    spec.stdout = output(&exec.standard_output, "stdout")?;
    spec.stderr = output(&exec.standard_error, "stderr")?;
    let [stdin, stdout, stderr] = host.standard;
    if let Some(index) = stdin {
        spec.stdin = StdInput::Passed(index);
    }
    if let Some(index) = stdout {
        spec.stdout = StdOutput::Fd(index);
    }
    if let Some(index) = stderr {
        spec.stderr = StdOutput::Fd(index);
    }
    Ok(())
}

#[cfg(test)]
mod tests;

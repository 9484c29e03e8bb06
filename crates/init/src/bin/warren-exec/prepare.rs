//! Everything that can be done before there is a process: strings, users, directories, fds.

use std::borrow::Cow;
use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use warren_sys::errno::EINVAL;

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::{
    CgroupPlace, Directories, DirectoryKind, DirectoryPlace, ExecSpec, Missing, SpawnError,
    StdInput, StdOutput,
};
use warren_sys::child::{self, CpuSet, ExecStrings, SystemCallFilter};
use warren_sys::tree::{self, Existing, Owner};
use warren_sys::utmp::{self, Kind};
use warren_sys::{cgroup, file, process, terminal};

use crate::ephemeral;
use crate::fault::{c_string, failed, wrong};
use crate::fds::FdTable;
use crate::identity::{Identity, Users};
use crate::images::{self, Space};
use crate::labels::{self, OwnLabel};
use crate::namespaces::{self, Entered};
use crate::nft_sets;
use crate::numa::{self, MemoryPolicy};
use crate::open_files;
use crate::session::{self, Opening};
use crate::stdio::{self, Source};
use crate::view::{self, OwnMounts};

/// Which part of a spawn is done by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// What comes before the session, whose program is executed then.
    BeforeSession,
    /// The rest, in the session.
    InSession,
}

/// A spec made ready to be applied by system calls alone.
pub struct Prepared {
    /// The part of it that this process does.
    pub part: Part,
    /// What is applied as it is.
    pub spec: ExecSpec,
    /// The program's path, inside the root directory if there is one.
    pub program: CString,
    /// Arguments.
    pub argv: ExecStrings,
    /// Environment.
    pub env: ExecStrings,
    /// The cgroup's directory.
    pub cgroup: Option<OwnedFd>,
    /// The request's fds, all above the numbers that are installed; held open until exec.
    pub fds: FdTable,
    /// What the session's program gets of us, before the session.
    pub opening: Option<Opening>,
    /// UMask=, or what the session has made of it.
    pub umask: u32,
    /// What is written down of it as a login.
    pub records: Option<Records>,
    /// What it may open until it is the program.
    pub spared: Option<Spared>,
    /// Fds that become 3, 4, 5, ...
    pub listen: Vec<RawFd>,
    /// Standard input, output, error.
    pub stdio: [Source; 3],
    /// Who to become.
    pub identity: Identity,
    /// We are that user already and may not be allowed to set groups: a user's own manager.
    pub already_is_user: bool,
    /// The mounts that this helper goes back to, if images are mounted.
    pub _space: Option<Space>,
    /// Mounts of its own.
    pub mounts: Option<OwnMounts>,
    /// RootDirectory=, where there are no mounts of its own.
    pub root: Option<CString>,
    /// Working directory.
    pub directory: CString,
    /// CPUAffinity=.
    pub cpus: Option<CpuSet>,
    /// NUMAPolicy=.
    pub memory: Option<MemoryPolicy>,
    /// Labels of security modules.
    pub labels: Vec<OwnLabel>,
    /// Namespaces that it enters.
    pub entered: Entered,
    /// What the process may not call.
    pub filter: Option<SystemCallFilter>,
    /// The architectures of which no process may call anything.
    pub architecture_filter: Option<SystemCallFilter>,
    /// It is the first process of a pid namespace.
    pub own_processes: bool,
    /// What the machine cannot give.
    pub missing: Missing,
}

/// A process opens what is forbidden in its group until it is the program.
pub struct Spared {
    /// The map that it marks itself in.
    pub marks: OwnedFd,
    /// A directory that everybody may read, by which it says that it is done.
    pub directory: OwnedFd,
}

impl Spared {
    fn of(
        spec: &ExecSpec,
        fds: &FdTable,
        cgroup_root: Option<BorrowedFd<'_>>,
    ) -> Result<Option<Spared>, SpawnError> {
        let (Some(index), Some(root)) = (spec.marks, cgroup_root) else { return Ok(None) };
        let (marks, directory) = (fds.copy(index, ExecStep::Bpf)?, fds.out_of_the_way(root)?);
        Ok(Some(Spared { marks, directory }))
    }
}

/// Records of a process as a login (`UtmpIdentifier=`).
pub struct Records {
    /// Those of them that are written, in order.
    pub kinds: &'static [Kind],
    id: String,
    line: String,
    user: String,
}

impl Records {
    fn of(spec: &ExecSpec, identity: &Identity) -> Option<Records> {
        const ALL: &[Kind] = &[Kind::Init, Kind::Login, Kind::User];
        let record = spec.login_record.as_ref()?;
        let user = identity.user.as_ref().filter(|_| spec.user.is_some());
        Some(Records {
            kinds: &ALL[..=record.until as usize],
            id: record.id.clone(),
            line: utmp::line_of(&spec.tty_path).to_owned(),
            user: user.map_or_else(|| "root".to_owned(), |user| user.name.clone()),
        })
    }

    /// That of a process.
    pub fn entry(&self, pid: i32) -> utmp::Entry<'_> {
        let (id, line, user) = (self.id.as_bytes(), self.line.as_bytes(), self.user.as_bytes());
        utmp::Entry { pid, id, line, user }
    }
}

/// UMask= where it is not set.
const UMASK: u32 = 0o022;

/// The user without any rights.
const NOBODY: u32 = 65534;

/// Prepares a spec. Directories are made here, so a later failure may leave them behind. `socket` is what
/// this helper is asked by; `goes_on` is told of each file that is done where there may be many.
pub fn prepare(
    spec: ExecSpec,
    fds: Vec<OwnedFd>,
    socket: BorrowedFd<'_>,
    cgroup_root: Option<BorrowedFd<'_>>,
    users: &mut Users,
    goes_on: &dyn Fn(),
) -> Result<Prepared, SpawnError> {
    refuse_unknown(&spec)?;
    let (mut spec, mut fds) = (spec, fds);
    open_files::open(&mut spec, &mut fds)?;
    let fds = FdTable::new(fds, socket)?;
    let umask = spec.umask.unwrap_or(UMASK);
    if spec.session.is_some() {
        return before_session(spec, fds, cgroup_root, users, goes_on);
    }
    ephemeral::enter(&mut spec, goes_on)?;
    let space = images::enter(&mut spec)?;
    let OfHost { cgroup, identity, missing } = of_host(&spec, &fds, cgroup_root, users, goes_on)?;
    let env = block(&spec, environment(&spec, &identity))?;
    let own = own_environment(&spec, &fds, &identity)?;
    Ok(Prepared {
        part: Part::Whole,
        records: Records::of(&spec, &identity),
        opening: None,
        umask,
        program: program(&spec)?,
        argv: arguments(&spec, &identity)?,
        env,
        cgroup,
        spared: Spared::of(&spec, &fds, cgroup_root)?,
        listen: listen(&spec, &fds)?,
        stdio: stdio::plan(&spec, &fds)?,
        _space: space,
        mounts: own.mounts,
        root: own.root,
        directory: working_directory(&spec, &identity)?,
        already_is_user: is_ours(&spec, &identity),
        cpus: processors(&spec).as_deref().map(CpuSet::new),
        memory: numa::policy(&spec)?,
        labels: own.labels,
        filter: filter(&spec.system_call_filter)?,
        architecture_filter: filter(&spec.architecture_filter)?,
        own_processes: spec.view.plan.namespaces.processes,
        missing: Missing { nft_sets: missing.nft_sets, ..own.missing },
        entered: own.entered,
        identity,
        fds,
        spec,
    })
}

/// The same up to the session, whose program is made ready later ([`Opening`]).
fn before_session(
    spec: ExecSpec,
    fds: FdTable,
    cgroup_root: Option<BorrowedFd<'_>>,
    users: &mut Users,
    goes_on: &dyn Fn(),
) -> Result<Prepared, SpawnError> {
    let OfHost { cgroup, identity, missing } = of_host(&spec, &fds, cgroup_root, users, goes_on)?;
    Ok(Prepared {
        part: Part::BeforeSession,
        records: Records::of(&spec, &identity),
        opening: None,
        umask: spec.umask.unwrap_or(UMASK),
        program: c"/".to_owned(),
        argv: ExecStrings::default(),
        env: ExecStrings::default(),
        cgroup,
        spared: Spared::of(&spec, &fds, cgroup_root)?,
        listen: Vec::new(),
        stdio: stdio::plan(&spec, &fds)?,
        _space: None,
        mounts: None,
        root: None,
        directory: c"/".to_owned(),
        already_is_user: is_ours(&spec, &identity),
        cpus: processors(&spec).as_deref().map(CpuSet::new),
        memory: numa::policy(&spec)?,
        labels: Vec::new(),
        filter: None,
        architecture_filter: None,
        own_processes: false,
        missing,
        entered: Entered::default(),
        identity,
        fds,
        spec,
    })
}

/// The rest, in the session, whose environment is `env`.
pub fn in_session(
    mut spec: ExecSpec,
    fds: FdTable,
    env: Vec<String>,
    users: &mut Users,
    goes_on: &dyn Fn(),
) -> Result<Prepared, SpawnError> {
    ephemeral::enter(&mut spec, goes_on)?;
    let space = images::enter(&mut spec)?;
    let identity = users.identity(&spec)?;
    let env = block(&spec, session::environment(&spec, env))?;
    let own = own_environment(&spec, &fds, &identity)?;
    Ok(Prepared {
        part: Part::InSession,
        records: None,
        opening: None,
        umask: child::own_umask(),
        program: program(&spec)?,
        argv: arguments(&spec, &identity)?,
        env,
        cgroup: None,
        spared: None,
        listen: listen(&spec, &fds)?,
        stdio: stdio::plan(&spec, &fds)?,
        _space: space,
        mounts: own.mounts,
        root: own.root,
        directory: working_directory(&spec, &identity)?,
        already_is_user: is_ours(&spec, &identity),
        cpus: None,
        memory: None,
        labels: own.labels,
        filter: filter(&spec.system_call_filter)?,
        architecture_filter: filter(&spec.architecture_filter)?,
        own_processes: false,
        missing: own.missing,
        entered: own.entered,
        identity,
        fds,
        spec,
    })
}

/// What is the same for all processes of the host: the cgroup, users, directories, the terminal.
fn of_host(
    spec: &ExecSpec,
    fds: &FdTable,
    cgroup_root: Option<BorrowedFd<'_>>,
    users: &mut Users,
    goes_on: &dyn Fn(),
) -> Result<OfHost, SpawnError> {
    let cgroup = group(spec, fds, cgroup_root)?;
    let identity = users.identity(spec)?;
    delegate(spec, &identity, cgroup_root)?;
    for set in &spec.directories {
        make_directories(set, &identity, goes_on)?;
    }
    clear_terminal(spec);
    let missing = Missing { nft_sets: !nft_sets::tell(spec, &identity), ..Missing::default() };
    Ok(OfHost { cgroup, identity, missing })
}

/// What the host has for a process.
struct OfHost {
    cgroup: Option<OwnedFd>,
    identity: Identity,
    missing: Missing,
}

/// What a process has for itself.
struct Own {
    entered: Entered,
    labels: Vec<OwnLabel>,
    mounts: Option<OwnMounts>,
    root: Option<CString>,
    missing: Missing,
}

fn own_environment(spec: &ExecSpec, fds: &FdTable, identity: &Identity) -> Result<Own, SpawnError> {
    let entered = namespaces::prepare(spec, fds, identity)?;
    let (labels, labels_missing) = labels::prepare(spec)?;
    let mounts = view::prepare(spec, identity)?;
    let root = spec.root_directory.as_deref().filter(|_| mounts.is_none());
    let root = root.map(|r| c_string(r, ExecStep::Chroot)).transpose()?;
    let missing = Missing { labels: labels_missing, ..entered.missing };
    Ok(Own { entered, labels, mounts, root, missing })
}

fn processors(spec: &ExecSpec) -> Option<Vec<u16>> {
    let of_nodes = if spec.cpu_affinity_of_nodes { numa::processors(spec) } else { Vec::new() };
    let all: Vec<u16> = spec.cpu_affinity.iter().flatten().copied().chain(of_nodes).collect();
    (!all.is_empty()).then_some(all)
}

/// A terminal that cannot be opened is found when the process opens it.
fn clear_terminal(spec: &ExecSpec) {
    let Some(asked) = spec.terminal else { return };
    let path = if spec.tty_path.is_empty() { "/dev/console" } else { &spec.tty_path };
    let clear = terminal::Clear {
        hangup: asked.hangup,
        reset: asked.reset,
        disallocate: asked.disallocate,
        rows: asked.rows,
        columns: asked.columns,
    };
    let _ = terminal::clear(Path::new(path), clear);
}

/// Not as root, and nothing but what this process is already is asked for.
fn is_ours(spec: &ExecSpec, identity: &Identity) -> bool {
    let (uid, gid) = process::own_ids();
    let same_groups = spec.supplementary_groups.is_empty();
    let same_ids = identity.uid.is_none_or(|u| u == uid) && identity.gid.is_none_or(|g| g == gid);
    uid != 0 && (spec.keeps_ids || same_groups && same_ids)
}

/// Fails closed: what must be applied and is not known here prevents the start.
fn refuse_unknown(spec: &ExecSpec) -> Result<(), SpawnError> {
    match spec.required_features.first() {
        None => Ok(()),
        Some(name) => Err(failed(ExecStep::Feature, 0, format!("{name} is not supported"))),
    }
}

fn filter(program: &[u8]) -> Result<Option<SystemCallFilter>, SpawnError> {
    let step = ExecStep::SystemCallFilter;
    match program.is_empty() {
        true => Ok(None),
        false => SystemCallFilter::new(program).map(Some).map_err(|e| wrong(step, &e)),
    }
}

fn group(
    spec: &ExecSpec,
    fds: &FdTable,
    root: Option<BorrowedFd<'_>>,
) -> Result<Option<OwnedFd>, SpawnError> {
    match &spec.cgroup {
        CgroupPlace::Inherit => Ok(None),
        CgroupPlace::Fd(index) => fds.copy(*index, ExecStep::Cgroup).map(Some),
        CgroupPlace::Path(path) | CgroupPlace::Enter(path) => {
            let none = || failed(ExecStep::Cgroup, 0, format!("{path}: no cgroup tree is mounted"));
            let root = root.ok_or_else(none)?;
            cgroup::open_group(root, path).map(Some).map_err(|e| wrong(ExecStep::Cgroup, &e))
        }
    }
}

fn delegate(
    spec: &ExecSpec,
    identity: &Identity,
    root: Option<BorrowedFd<'_>>,
) -> Result<(), SpawnError> {
    let (Some(root), Some(uid)) = (root, identity.uid) else { return Ok(()) };
    // Group= is the user's own, if it is not set.
    let gid = identity.gid.unwrap_or(uid);
    if let Some(group) = &spec.watches_memory_of {
        cgroup::give_file(root, group, "memory.pressure", uid)
            .map_err(|e| wrong(ExecStep::Cgroup, &e))?;
    }
    for group in &spec.delegated {
        cgroup::delegate(root, group, uid, gid).map_err(|e| wrong(ExecStep::Cgroup, &e))?;
    }
    Ok(())
}

fn listen(spec: &ExecSpec, fds: &FdTable) -> Result<Vec<RawFd>, SpawnError> {
    let number = |&index: &u16| fds.number(index, ExecStep::Fds);
    if !fds.has_room_for(spec.listen_fds.len()) {
        let message = format!("{} file descriptors to pass", spec.listen_fds.len());
        return Err(failed(ExecStep::Request, 0, message));
    }
    spec.listen_fds.iter().map(number).collect()
}

/// The program itself, or the first in the search path that can be executed. What does not exist is
/// left to execve, whose error is the one to report.
fn program(spec: &ExecSpec) -> Result<CString, SpawnError> {
    if spec.path.is_empty() {
        return Err(failed(ExecStep::Request, EINVAL, "no program".into()));
    }
    if spec.path.contains('/') {
        return c_string(&spec.path, ExecStep::Exec);
    }
    let root = spec.root_directory.as_deref().unwrap_or("");
    for directory in spec.search_path.split(':').filter(|d| d.starts_with('/')) {
        let inside = format!("{directory}/{}", spec.path);
        if file::is_program(root, &inside) {
            return c_string(&inside, ExecStep::Exec);
        }
    }
    use warren_sys::errno::ENOENT;
    Err(failed(ExecStep::Exec, ENOENT, format!("{} not found in {}", spec.path, spec.search_path)))
}

fn arguments(spec: &ExecSpec, identity: &Identity) -> Result<ExecStrings, SpawnError> {
    let mut argv = ExecStrings::with_capacity(spec.argv.len() + 1);
    let words = if spec.argv.is_empty() { std::slice::from_ref(&spec.path) } else { &spec.argv };
    let mut variables = login_variables(spec, identity);
    variables.extend(fd_variables(spec));
    for word in words.iter().filter_map(|word| with_login_variables(word, &variables)) {
        argv.push(&word).map_err(|e| wrong(ExecStep::Exec, &e))?;
    }
    argv.finish();
    Ok(argv)
}

/// What is known of the fds that are passed only here ([`open_files`]).
fn fd_variables(spec: &ExecSpec) -> impl Iterator<Item = (&'static str, &str)> {
    const NAMES: [&str; 2] = ["LISTEN_FDS", "LISTEN_FDNAMES"];
    let known = spec.env.iter().filter_map(|entry| entry.split_once('='));
    known.filter_map(|(of, value)| Some((*NAMES.iter().find(|name| **name == of)?, value)))
}

/// A word in which names between NULs are login variables; nothing if it is one that is not set.
fn with_login_variables<'a>(
    word: &'a str,
    variables: &[(&'static str, &str)],
) -> Option<Cow<'a, str>> {
    if !word.contains('\0') {
        return Some(Cow::Borrowed(word));
    }
    let value = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| *value);
    let alone = word.strip_prefix('\0').and_then(|rest| rest.strip_suffix('\0'));
    if let Some(name) = alone.filter(|name| !name.contains('\0')) {
        return value(name).map(|value| Cow::Owned(value.to_owned()));
    }
    let parts = word.split('\0').enumerate();
    let part = |(at, part)| if at % 2 == 0 { part } else { value(part).unwrap_or_default() };
    Some(Cow::Owned(parts.map(part).collect()))
}

/// The environment, but for what has the number of the process in it.
pub fn environment(spec: &ExecSpec, identity: &Identity) -> Vec<String> {
    let is_given = |name: &str| {
        let given = |e: &String| e.strip_prefix(name).is_some_and(|rest| rest.starts_with('='));
        spec.env.iter().any(given)
    };
    let login = login_variables(spec, identity).into_iter().filter(|(name, _)| !is_given(name));
    let login = login.map(|(name, value)| format!("{name}={value}"));
    login.chain(spec.env.iter().cloned()).collect()
}

/// The environment as the program gets it.
fn block(spec: &ExecSpec, variables: Vec<String>) -> Result<ExecStrings, SpawnError> {
    let mut env = ExecStrings::with_capacity(variables.len() + 3);
    for variable in &variables {
        env.push(variable).map_err(|e| wrong(ExecStep::Exec, &e))?;
    }
    for prefix in spec.pid_variables() {
        env.push_with_pid(prefix).map_err(|e| wrong(ExecStep::Exec, &e))?;
    }
    env.finish();
    Ok(env)
}

/// Homes and shells that stand for having none are not told: then what the manager's environment says stands.
/// `nobody` has none, whatever its entry says (systemd.exec(5), "User=").
fn login_variables<'a>(spec: &'a ExecSpec, identity: &'a Identity) -> Vec<(&'static str, &'a str)> {
    let Some(user) = identity.user.as_ref().filter(|_| spec.login_user.is_some()) else {
        return Vec::new();
    };
    let is_home = |home: &&str| home.starts_with('/') && *home != "/" && user.uid != NOBODY;
    let is_shell = |shell: &&str| {
        let program = shell.rsplit('/').next().unwrap_or_default();
        shell.starts_with('/') && !["nologin", "false", "true"].contains(&program)
    };
    let all = [
        ("HOME", Some(&*user.home).filter(is_home)),
        ("LOGNAME", Some(&*user.name)),
        ("USER", Some(&*user.name)),
        ("SHELL", Some(&*user.shell).filter(is_shell)),
    ];
    let is_unset = |name: &str, value: &str| {
        let mut words =
            spec.unset_env.iter().map(|word| word.split_once('=').unwrap_or((word, value)));
        words.any(|unset| unset == (name, value))
    };
    let default = |name: &str| {
        let mut all = spec.login_defaults.iter().filter_map(|entry| entry.split_once('='));
        all.find(|(of, _)| *of == name).map(|(_, value)| value)
    };
    all.into_iter()
        .filter_map(|(name, value)| value.or_else(|| default(name)).map(|value| (name, value)))
        .filter(|(name, value)| !is_unset(name, value))
        .collect()
}

/// The step of a family of directories.
fn family(kind: DirectoryKind) -> ExecStep {
    match kind {
        DirectoryKind::Runtime => ExecStep::RuntimeDirectory,
        DirectoryKind::State => ExecStep::StateDirectory,
        DirectoryKind::Cache => ExecStep::CacheDirectory,
        DirectoryKind::Logs => ExecStep::LogsDirectory,
        DirectoryKind::Configuration => ExecStep::ConfigurationDirectory,
    }
}

fn make_directories(
    set: &Directories,
    identity: &Identity,
    goes_on: &dyn Fn(),
) -> Result<(), SpawnError> {
    // Who is not root can give nothing away, and has what is made.
    let owner = match (identity.uid, identity.gid) {
        (None, None) if process::own_ids().0 != 0 => None,
        (uid, gid) => Some(Owner { uid: uid.unwrap_or(0), gid: gid.unwrap_or(0) }),
    };
    // The configuration is the administrator's (systemd.exec(5), "RuntimeDirectory=").
    let existing = match set.kind {
        DirectoryKind::Configuration => Existing::Stays,
        _ => Existing::TakenOver,
    };
    for name in &set.names {
        let made = match set.private {
            true => tree::make_private_directory(&set.base, name, set.mode, owner, goes_on),
            false => tree::take_back_private_directory(&set.base, name).and_then(|()| {
                tree::make_directory(&set.base, name, set.mode, owner, existing, goes_on)
            }),
        };
        made.map_err(|e| wrong(family(set.kind), &e))?;
    }
    for (name, link) in &set.links {
        tree::link_directory(&set.base, name, link).map_err(|e| wrong(family(set.kind), &e))?;
    }
    Ok(())
}

fn working_directory(spec: &ExecSpec, identity: &Identity) -> Result<CString, SpawnError> {
    match &spec.working_directory.place {
        DirectoryPlace::Root => Ok(c"/".to_owned()),
        DirectoryPlace::Path(path) => c_string(path, ExecStep::Chdir),
        DirectoryPlace::Home => match &identity.user {
            Some(user) => c_string(&user.home, ExecStep::Chdir),
            None => c_string(&process::own_home(), ExecStep::Chdir),
        },
    }
}

impl Prepared {
    /// What the process runs without, once it does.
    pub fn missing(&self) -> Missing {
        let mounts = self.mounts.as_ref().is_some_and(|mounts| mounts.are_missing);
        Missing { mounts, ..self.missing }
    }

    /// What a failed step was about, for people.
    pub fn describe(&self, step: ExecStep, call: &str) -> String {
        let about = match step {
            ExecStep::Exec => self.program.to_string_lossy().into_owned(),
            ExecStep::Chdir => self.directory.to_string_lossy().into_owned(),
            ExecStep::Namespace => {
                self.mounts.as_ref().map(OwnMounts::describe).unwrap_or_default()
            }
            ExecStep::Chroot => self.spec.root_directory.clone().unwrap_or_default(),
            ExecStep::Pam => self.program.to_string_lossy().into_owned(),
            ExecStep::User => self.spec.user.clone().unwrap_or_default(),
            ExecStep::Stdin => match &self.spec.stdin {
                StdInput::File(path) => path.clone(),
                other => format!("{other:?}"),
            },
            ExecStep::Stdout => output_text(&self.spec.stdout),
            ExecStep::Stderr => output_text(&self.spec.stderr),
            _ => String::new(),
        };
        if about.is_empty() { call.to_owned() } else { format!("{call} {about}") }
    }
}

/// The file of an output, if it is one.
fn output_text(output: &StdOutput) -> String {
    match output {
        StdOutput::File(path)
        | StdOutput::Append(path)
        | StdOutput::Truncate(path)
        | StdOutput::Log(path)
        | StdOutput::Journal { file: path, .. } => path.clone(),
        other => format!("{other:?}"),
    }
}

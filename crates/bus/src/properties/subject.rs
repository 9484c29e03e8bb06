//! What getters read from: one object, seen through one view. What is costly to have is made
//! once, when the first property asks for it.

use super::values::{Main, micros, usec};
use crate::backend::{Backend, DeviceWords, Facts, Live, Mounted, UnitFiles};
use crate::wire::Writer;
use std::borrow::Cow;
use std::cell::OnceCell;
use std::sync::{Arc, LazyLock};
use warren_core::graph::Definition;
use warren_core::model::ids::UnitId;
use warren_core::model::job::Job;
use warren_core::model::process::*;
use warren_core::model::state::*;
use warren_core::model::time::{Moment, Monotonic};
use warren_core::settings::{Compiled, TypeSettings};
use warren_core::view::View;
use warren_unit::config::*;
use warren_unit::{LoadState, Relation, UnitFlags, UnitType};

/// One object and one view.
pub struct Subject<'a> {
    view: &'a View,
    backend: &'a dyn Backend,
    unit: Option<UnitId>,
    compiled: OnceCell<Arc<Compiled>>,
    files: OnceCell<UnitFiles>,
    live: OnceCell<Live>,
    facts: OnceCell<Arc<Facts>>,
    mounted: OnceCell<Option<Mounted>>,
    device: OnceCell<DeviceWords>,
}

static PLAIN_EXEC: LazyLock<ExecConfig> = LazyLock::new(ExecConfig::default);
static PLAIN_KILL: LazyLock<KillConfig> = LazyLock::new(KillConfig::default);
/// With the accounting that systemd-system.conf(5) has on.
static PLAIN_CGROUP: LazyLock<CgroupConfig> = LazyLock::new(|| CgroupConfig {
    cpu_accounting: true,
    memory_accounting: true,
    tasks_accounting: true,
    ..CgroupConfig::empty()
});

impl<'a> Subject<'a> {
    /// A unit.
    pub fn unit(view: &'a View, backend: &'a dyn Backend, unit: UnitId) -> Subject<'a> {
        Subject { unit: Some(unit), ..Subject::manager(view, backend) }
    }

    /// The manager.
    pub fn manager(view: &'a View, backend: &'a dyn Backend) -> Subject<'a> {
        Subject {
            view,
            backend,
            unit: None,
            compiled: OnceCell::new(),
            files: OnceCell::new(),
            live: OnceCell::new(),
            facts: OnceCell::new(),
            mounted: OnceCell::new(),
            device: OnceCell::new(),
        }
    }

    /// The view.
    pub fn view(&self) -> &'a View {
        self.view
    }

    /// Facts about the manager.
    pub fn facts(&self) -> &Facts {
        self.facts.get_or_init(|| self.backend.facts())
    }

    fn id(&self) -> UnitId {
        self.unit.expect("tables of units are read for units")
    }

    /// What the files say.
    pub fn definition(&self) -> &'a Definition {
        self.view.definition(self.id())
    }

    /// The main name.
    pub fn name(&self) -> &'a str {
        self.definition().name.as_str()
    }

    /// The main name, then the others.
    pub fn all_names(&self) -> impl Iterator<Item = &'a str> {
        let definition = self.definition();
        std::iter::once(&definition.name).chain(&definition.aliases).map(|name| name.as_str())
    }

    /// The type.
    pub fn unit_type(&self) -> UnitType {
        self.definition().unit_type()
    }

    /// Whether the files make a unit.
    pub fn is_loaded(&self) -> bool {
        self.definition().load_state == LoadState::Loaded
    }

    /// Whether there are files whose settings mean something, sound or not.
    pub fn has_settings(&self) -> bool {
        !matches!(self.definition().load_state, LoadState::NotFound | LoadState::Masked)
    }

    /// Switches of the unit.
    pub fn flags(&self) -> UnitFlags {
        self.definition().flags
    }

    /// What it is doing.
    pub fn run(&self) -> &'a UnitRun {
        self.view.run(self.id())
    }

    /// What is remembered of it.
    pub fn history(&self) -> Option<&'a History> {
        self.run().history.as_deref()
    }

    /// A time out of the history.
    pub fn moment(&self, pick: impl Fn(&History) -> Moment) -> Moment {
        self.history().map(pick).unwrap_or_default()
    }

    /// When the conditions were looked at and what came of it; never is false. `ExecCondition=` is one
    /// of them to clients.
    pub fn conditions(&self) -> (Moment, bool) {
        let tested = self.history().and_then(|h| h.conditions);
        let (at, met) = tested.unwrap_or_else(|| self.nothing_to_test());
        (at, met && self.history().is_none_or(|h| h.outcome != Outcome::ExecCondition))
    }

    /// The same of the assertions.
    pub fn asserts(&self) -> (Moment, bool) {
        self.history().and_then(|h| h.asserts).unwrap_or_else(|| self.nothing_to_test())
    }

    /// What came of each condition; none if all were met.
    pub fn conditions_tested(&self) -> &'a [Tested] {
        self.account().map_or(&[], |account| &account.conditions)
    }

    /// The same of the assertions.
    pub fn asserts_tested(&self) -> &'a [Tested] {
        self.account().map_or(&[], |account| &account.asserts)
    }

    fn account(&self) -> Option<&'a Account> {
        self.history()?.account.as_deref()
    }

    /// A unit without conditions that was started has met all of them.
    fn nothing_to_test(&self) -> (Moment, bool) {
        let started = self.moment(|h| h.inactive_exit);
        match started.is_never() || self.flags().has_conditions() || self.flags().perpetual() {
            true => Default::default(),
            false => (started, true),
        }
    }

    fn compiled(&self) -> &Compiled {
        self.compiled.get_or_init(|| self.backend.compiled(self.definition()))
    }

    /// \[Unit\]
    pub fn section(&self) -> &UnitSection {
        &self.compiled().section
    }

    /// \[Service\]
    pub fn service(&self) -> &ServiceConfig {
        self.compiled().service()
    }

    /// \[Socket\]
    pub fn socket(&self) -> &SocketConfig {
        self.compiled().socket()
    }

    /// \[Mount\]
    pub fn mount(&self) -> &MountConfig {
        self.compiled().mount()
    }

    /// `Priority` of a swap area; -1 is the kernel's choice.
    pub fn swap_priority(&self) -> i32 {
        let options = self.mount().options.as_deref().unwrap_or_default();
        let mut words = options.split(',').filter_map(|word| word.strip_prefix("pri="));
        words.next_back().and_then(|number| number.parse().ok()).unwrap_or(-1)
    }

    /// \[Automount\]
    pub fn automount(&self) -> &AutomountConfig {
        self.compiled().automount()
    }

    /// \[Timer\]
    pub fn timer(&self) -> &TimerConfig {
        self.compiled().timer()
    }

    /// What the timer waits for, if it is active.
    pub fn timer_run(&self) -> Option<&'a TimerRun> {
        match &self.run().state {
            TypeState::Timer(Timer::Up(run)) => Some(run),
            _ => None,
        }
    }

    /// When the timer last elapsed.
    pub fn timer_memory(&self) -> TimerMemory {
        self.history().and_then(|history| history.timer).unwrap_or_default()
    }

    /// \[Path\]
    pub fn path(&self) -> &PathConfig {
        self.compiled().path()
    }

    /// The execution environment; a plain one for types that have none.
    pub fn exec(&self) -> &ExecConfig {
        match &self.compiled().own {
            TypeSettings::Service(config) => &config.exec,
            TypeSettings::Socket(config) => &config.exec,
            TypeSettings::Mount(config) => &config.exec,
            _ => &PLAIN_EXEC,
        }
    }

    /// How processes are stopped.
    pub fn kill(&self) -> &KillConfig {
        match &self.compiled().own {
            TypeSettings::Service(config) => &config.kill,
            TypeSettings::Socket(config) => &config.kill,
            TypeSettings::Mount(config) => &config.kill,
            TypeSettings::Scope(config) => &config.kill,
            _ => &PLAIN_KILL,
        }
    }

    /// Limits of the cgroup.
    pub fn cgroup(&self) -> &CgroupConfig {
        match &self.compiled().own {
            TypeSettings::Service(config) => &config.cgroup,
            TypeSettings::Socket(config) => &config.cgroup,
            TypeSettings::Mount(config) => &config.cgroup,
            TypeSettings::Slice(config) => &config.cgroup,
            TypeSettings::Scope(config) => &config.cgroup,
            _ => &PLAIN_CGROUP,
        }
    }

    /// The unit's files.
    pub fn files(&self) -> &UnitFiles {
        self.files.get_or_init(|| self.backend.files(self.definition()))
    }

    /// `UnitFilePreset`
    pub fn preset(&self) -> &'static str {
        self.backend.preset(self.definition())
    }

    /// `NeedDaemonReload`
    pub fn differs_on_disk(&self) -> bool {
        self.backend.differs_on_disk(self.definition())
    }

    /// Counters of the cgroup.
    pub fn live(&self) -> &Live {
        self.live.get_or_init(|| self.backend.live(self.id()))
    }

    /// User and group of a service that runs, where its file says so and they are known; all ones otherwise.
    pub fn identity(&self) -> (u32, u32) {
        let runs = self.service_run().is_some_and(|run| run.phase != ServicePhase::AutoRestart);
        let dynamic = self.run().history.as_ref().and_then(|h| h.dynamic_user.as_deref());
        if let Some(uid) = dynamic.filter(|_| runs).and_then(|dynamic| dynamic.user.given()) {
            let group = dynamic.and_then(|dynamic| dynamic.group.as_ref());
            let gid = match group {
                None => Some(uid),
                Some(group) => group
                    .given()
                    .or_else(|| self.backend.identity(None, Some(&group.name), None)[1]),
            };
            return (uid, gid.unwrap_or(u32::MAX));
        }
        // Told with every change of a unit, of which few have an identity.
        if !runs || !self.definition().flags.names_identity() {
            return (u32::MAX, u32::MAX);
        }
        let (user, group) = (self.exec().user.as_deref(), self.exec().group.as_deref());
        if user.is_none() && group.is_none() {
            return (u32::MAX, u32::MAX);
        }
        let main = self.run().main_process().map(|main| main.pid);
        let [uid, gid] = self.backend.identity(user, group, main);
        (uid.unwrap_or(u32::MAX), gid.unwrap_or(u32::MAX))
    }

    /// The service's state while something of it is under way.
    pub fn service_run(&self) -> Option<&'a ServiceRun> {
        match &self.run().state {
            TypeState::Service(Service::Up(run)) => Some(run),
            _ => None,
        }
    }

    /// The socket's state while something of it is under way.
    pub fn socket_run(&self) -> Option<&'a SocketRun> {
        match &self.run().state {
            TypeState::Socket(Socket::Up(run)) => Some(run),
            _ => None,
        }
    }

    /// `Result`
    pub fn outcome(&self) -> Outcome {
        self.run().outcome()
    }

    /// `ReloadResult`
    pub fn reload_outcome(&self) -> Outcome {
        self.service_run().map(|run| run.reload_outcome).unwrap_or_default()
    }

    /// The main process that runs, or else the last one.
    pub fn main(&self) -> Main {
        match (self.run().main_process(), self.history().and_then(|h| h.last_main)) {
            (Some(process), _) => Main::running(process),
            (None, Some(ended)) => Main::ended(ended),
            (None, None) => Main::default(),
        }
    }

    /// What is known of command `index` of a list: the process that runs or its end, since the unit
    /// was last started. Of `ExecStart=` the main process is at the last command that was run. Of a
    /// command that an edit put in the place of another, nothing is.
    pub fn command(&self, list: CommandList, at: usize, commands: &[Command]) -> Main {
        let Ok(index) = u16::try_from(at) else { return Main::default() };
        if self.history().is_some_and(|h| h.ran_another(list, index, &commands[at])) {
            return Main::default();
        }
        if let Some(ended) = self.history().and_then(|h| h.command_end(list, index)) {
            return Main::ended(ended);
        }
        let at = self.service_run().map(|run| run.command);
        let control = match self.service_run().and_then(|run| run.control) {
            Some(Control::Running(process)) => Some(process),
            _ => None,
        };
        match (list, control) {
            (_, Some(process)) if at == Some((list, index)) => Main::running(process),
            (CommandList::Start, _) if self.main_at(index, commands.len()) => self.main(),
            _ => Main::default(),
        }
    }

    /// Whether the main process is, or was, command `index` of `of`: the first of which no end is
    /// kept, if the one before it has one.
    fn main_at(&self, index: u16, of: usize) -> bool {
        let is_asked = self.service_run().is_some_and(|run| run.main.asked().is_some());
        let is_over = |index| self.history().and_then(|h| h.command_end(CommandList::Start, index));
        of == 1 || !is_asked && (index == 0 || is_over(index - 1).is_some())
    }

    /// `WatchdogUSec`: what is in force once it was started, before that no limit.
    pub fn watchdog(&self) -> u64 {
        let configured = self.service().watchdog;
        let asked = self.service_run().and_then(|run| run.watchdog_override_us);
        match (asked, self.moment(|h| h.inactive_exit).is_never()) {
            (Some(microseconds), _) => microseconds,
            (None, true) => u64::MAX,
            (None, false) => configured.map_or(0, micros),
        }
    }

    /// When the watchdog was fed last. The clock is taken to go on as it did since the unit's last change.
    pub fn watchdog_fed(&self) -> Option<Moment> {
        let due = self.service_run()?.watchdog_deadline?;
        let fed = due.0.checked_sub(self.watchdog())?;
        let known = self.moment(|h| h.state_change);
        let since = fed.saturating_sub(known.monotonic.0);
        Some(Moment { monotonic: Monotonic(fed), realtime_us: known.realtime_us + since })
    }

    /// `TimeoutStartUSec`; the default where there is no service.
    pub fn timeout_start(&self) -> u64 {
        let default = || self.facts().defaults.timeout_start;
        usec(if self.has_settings() { self.service().timeout_start } else { default() })
    }

    /// `StandardOutput`
    pub fn standard_output(&self) -> &'static str {
        match self.has_settings() {
            true => super::values::output_word(&self.exec().standard_output),
            false => "inherit",
        }
    }

    /// `KeyringMode`: only services have one of their own.
    pub fn keyring_mode(&self) -> &'static str {
        match self.unit_type() {
            UnitType::Service => self.exec().keyring_mode.as_str(),
            _ => KeyringMode::Shared.as_str(),
        }
    }

    /// `NonBlocking`
    pub fn non_blocking(&self) -> bool {
        matches!(&self.compiled().own, TypeSettings::Service(config) if config.non_blocking)
    }

    /// Whether a client may start it.
    pub fn can_start(&self) -> bool {
        let startable = !matches!(self.unit_type(), UnitType::Device | UnitType::Scope);
        let runs = self.run().state != TypeState::Unsupported && !self.is_of_others();
        startable && runs && self.is_loaded() && !self.flags().refuse_manual_start()
    }

    /// Whether a client may stop it. A device goes when it is unplugged.
    pub fn can_stop(&self) -> bool {
        let is_stopped = self.unit_type() != UnitType::Device && !self.is_of_others();
        is_stopped && !self.flags().perpetual() && !self.flags().refuse_manual_stop()
    }

    /// Whether it is a swap area in a container.
    fn is_of_others(&self) -> bool {
        self.unit_type() == UnitType::Swap && self.view.totals.without_swaps
    }

    /// Whether it can be reloaded.
    pub fn can_reload(&self) -> bool {
        self.view.graph.can_reload(self.id()) || self.unit_type() == UnitType::Mount
    }

    /// `CanClean`: which kinds of directories there are.
    pub fn cleanable(&self) -> impl Iterator<Item = &'static str> {
        let exec = self.exec();
        let is_stamped =
            matches!(&self.compiled().own, TypeSettings::Timer(config) if config.persistent);
        [
            ("runtime", !exec.runtime_directory.paths.is_empty()),
            ("state", !exec.state_directory.paths.is_empty() || is_stamped),
            ("cache", !exec.cache_directory.paths.is_empty()),
            ("logs", !exec.logs_directory.paths.is_empty()),
            ("configuration", !exec.configuration_directory.paths.is_empty()),
        ]
        .into_iter()
        .filter_map(|(word, has)| has.then_some(word))
    }

    /// Names of the units that this one has `relation` with.
    pub fn related<'w>(&self, w: &'w mut Writer, relation: Relation) -> &'w mut Writer {
        let graph = &self.view.graph;
        w.strs(graph.related(self.id(), relation).map(|other| graph.name(other).as_str()))
    }

    /// Units that this one is ordered against, mounts of paths that it needs among them.
    pub fn ordered<'w>(
        &self,
        w: &'w mut Writer,
        relation: Relation,
        mounts: Relation,
    ) -> &'w mut Writer {
        self.with_mounts(w, relation, mounts, |mount| mount.load_state == LoadState::Loaded)
    }

    /// The same for requirements: a mount that no file describes is not required.
    pub fn required<'w>(
        &self,
        w: &'w mut Writer,
        relation: Relation,
        mounts: Relation,
    ) -> &'w mut Writer {
        self.with_mounts(w, relation, mounts, |mount| mount.files.fragment.is_some())
    }

    fn with_mounts<'w>(
        &self,
        w: &'w mut Writer,
        relation: Relation,
        mounts: Relation,
        counts: impl Fn(&Definition) -> bool,
    ) -> &'w mut Writer {
        let graph = &self.view.graph;
        let is_mount_needed = |other: &UnitId| {
            let needs = mounts == Relation::MountsFor;
            counts(graph.definition(if needs { *other } else { self.id() }))
        };
        let mut others: Vec<UnitId> = graph.related(self.id(), relation).collect();
        others.extend(graph.related(self.id(), mounts).filter(is_mount_needed));
        others.sort_unstable();
        others.dedup();
        w.strs(others.into_iter().map(|other| graph.name(other).as_str()))
    }

    /// `RequiresMountsFor`: the deepest of the paths whose mounts are asked for.
    pub fn mounts_for<'w>(&self, w: &'w mut Writer) -> &'w mut Writer {
        let graph = &self.view.graph;
        let others = graph.related(self.id(), Relation::MountsFor);
        let paths: Vec<String> = others
            .filter_map(|other| warren_unit::escape::path_unescape(graph.name(other).stem()).ok())
            .collect();
        let is_prefix = |path: &str| {
            let prefix = if path == "/" { path.to_owned() } else { format!("{path}/") };
            paths.iter().any(|other| other != path && other.starts_with(&prefix))
        };
        w.strs(paths.iter().map(|path| &**path).filter(|path| !is_prefix(path)))
    }

    /// The unit that this one triggers; empty where there is none.
    pub fn triggered(&self) -> &'a str {
        let graph = &self.view.graph;
        let first = graph.related(self.id(), Relation::Triggers).next();
        first.map_or("", |other| graph.name(other).as_str())
    }

    /// The slice's name.
    pub fn slice(&self) -> &'a str {
        self.definition().slice.map_or("", |slice| self.view.graph.name(slice).as_str())
    }

    /// `ConcurrencyHardMax` and `ConcurrencySoftMax` of a slice.
    pub fn concurrency(&self) -> [Option<u32>; 2] {
        match &self.compiled().own {
            TypeSettings::Slice(config) => {
                [config.concurrency_hard_max, config.concurrency_soft_max]
            }
            _ => [None; 2],
        }
    }

    /// `NCurrentlyActive`: units in a slice, and in slices below it, that are not down. Looks at all of them.
    pub fn active_members(&self) -> u32 {
        let members = self.view.graph.members(self.id()).into_iter();
        let active = members.filter(|&unit| !self.view.active_state(unit).is_down());
        u32::try_from(active.count()).unwrap_or(u32::MAX)
    }

    /// `Job`
    pub fn job<'w>(&self, w: &'w mut Writer) -> &'w mut Writer {
        let id = self.run().job_id().map_or(0, |id| id.0);
        w.structure().u32(id).str(&crate::path::job(id))
    }

    /// `LoadError`
    pub fn load_error<'w>(&self, w: &'w mut Writer) -> &'w mut Writer {
        match crate::refusals::of_load_state(self.definition()) {
            Some(error) => w.structure().str(&error.name).str(&error.text),
            None => w.structure().str("").str(""),
        }
    }

    /// `InvocationID`: 16 bytes, or none if it never ran.
    pub fn invocation<'w>(&self, w: &'w mut Writer) -> &'w mut Writer {
        match self.history().map_or(0, |h| h.invocation) {
            0 => w.bytes(&[]),
            id => w.bytes(&id.to_be_bytes()),
        }
    }

    fn mounted(&self) -> Option<&Mounted> {
        self.mounted.get_or_init(|| self.backend.mounted(self.id())).as_ref()
    }

    /// What is known of the unit's device; nothing for other units.
    pub fn device(&self) -> &DeviceWords {
        self.device.get_or_init(|| match self.definition().unit_type() {
            UnitType::Device => self.backend.device(self.definition()),
            _ => DeviceWords::default(),
        })
    }

    /// `Description`
    pub fn description(&self) -> Cow<'_, str> {
        match self.definition().unit_type() {
            UnitType::Device => self.device().description(self.definition()).into(),
            _ => self.definition().title(),
        }
    }

    /// What is mounted, or else would be.
    pub fn mounted_what(&self) -> &str {
        self.mounted().map_or_else(|| &*self.mount().what, |m| &m.what)
    }

    /// The options that are in force, or else would be.
    pub fn mounted_options(&self) -> &str {
        let configured = || self.mount().options.as_deref().unwrap_or_default();
        self.mounted().map_or_else(configured, |m| &m.options)
    }

    /// The file system.
    pub fn mounted_type(&self) -> &str {
        let configured = || self.mount().fs_type.as_deref().unwrap_or_default();
        self.mounted().map_or_else(configured, |m| &m.fs_type)
    }

    /// A memory limit in bytes; a share is one of the host's memory.
    pub fn memory<'w>(
        &self,
        w: &'w mut Writer,
        limit: Option<Limit>,
        unset: u64,
    ) -> &'w mut Writer {
        w.u64(match limit {
            None => unset,
            Some(Limit::Infinity) => u64::MAX,
            Some(Limit::Bytes(bytes)) => bytes,
            Some(Limit::PerMyriad(share)) => {
                let bytes = u128::from(self.facts().memory_bytes) * u128::from(share) / 10_000;
                u64::try_from(bytes).unwrap_or(u64::MAX)
            }
        })
    }

    /// `TasksMax`; slices have no default.
    pub fn tasks_max(&self) -> u64 {
        let is_slice = self.unit_type() == UnitType::Slice;
        let default = if is_slice { TasksLimit::Infinity } else { self.facts().defaults.tasks_max };
        self.tasks(self.cgroup().tasks_max.unwrap_or(default))
    }

    /// A limit of tasks as a number.
    pub fn tasks(&self, limit: TasksLimit) -> u64 {
        match limit {
            TasksLimit::Infinity => u64::MAX,
            TasksLimit::Tasks(tasks) => tasks,
            TasksLimit::Scale { numerator, denominator } => {
                let ceiling = u128::from(self.facts().tasks_ceiling);
                let tasks = ceiling * u128::from(numerator) / u128::from(denominator.max(1));
                u64::try_from(tasks).unwrap_or(u64::MAX)
            }
        }
    }

    /// A resource limit: the unit's, else the manager's default, else what the manager has.
    pub fn rlimit<'w>(&self, w: &'w mut Writer, resource: Resource, hard: bool) -> &'w mut Writer {
        let own = self.unit.and_then(|_| self.exec().rlimits.get(resource));
        let limit = own.or_else(|| self.facts().defaults.rlimits.get(resource));
        let limit = limit.unwrap_or_else(|| super::values::inherited_limit(resource));
        w.u64(if hard { limit.hard } else { limit.soft })
    }

    /// The job with this number of this view.
    pub fn installed_job(&self) -> Option<&'a Job> {
        self.run().job.as_deref()
    }
}

//! Typed settings of units that are in use, compiled from their files when they are first needed.
//!
//! A unit that does nothing keeps only its files and relations; this is what makes 40,000 of them
//! cheap. One that rests, a socket that listens, a service that runs, does without them as well:
//! they are some 2 KB, and made again in a fraction of the time that whatever needs them takes.

use crate::graph::{Definition, Files};
use crate::model::ids::UnitId;
use crate::model::process::CommandList;
use std::collections::BTreeMap;
use std::sync::Arc;
use warren_unit::compile::Compiler;
use warren_unit::config::{
    AutomountConfig, CgroupConfig, Command, MountConfig, PathConfig, SandboxSetting, ScopeConfig,
    ServiceConfig, SliceConfig, SocketConfig, TimerConfig, TriggerLimit, UnitSection,
};
use warren_unit::load::Sources;
use warren_unit::parse::UnitFile;
use warren_unit::{Context, Defaults, Diagnostic, Severity, UnitName, UnitType};

/// What all compilation needs: the host's facts and the manager's defaults.
#[derive(Clone, Debug)]
pub struct Settings {
    /// For specifiers.
    pub context: Arc<Context>,
    /// For what files leave open.
    pub defaults: Arc<Defaults>,
}

/// The part that depends on the type.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum TypeSettings {
    Service(Box<ServiceConfig>),
    Socket(Box<SocketConfig>),
    Mount(Box<MountConfig>),
    Automount(Box<AutomountConfig>),
    Slice(Box<SliceConfig>),
    Timer(Box<TimerConfig>),
    Path(Box<PathConfig>),
    Scope(Box<ScopeConfig>),
    None,
}

/// One unit's settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Compiled {
    /// `[Unit]`.
    pub section: Arc<UnitSection>,
    /// The rest.
    pub own: TypeSettings,
    /// Values that were wrong and are ignored, each once. What is wrong with relations was reported
    /// when the unit was loaded.
    pub faults: Box<[Diagnostic]>,
}

impl Settings {
    /// Compiles one unit, and says which of its values are wrong.
    pub fn compile(&self, definition: &Definition) -> Compiled {
        self.compile_of(definition, &definition.files)
    }

    /// The same of a unit that may run by files that are gone.
    pub fn compile_running(&self, definition: &Definition) -> Compiled {
        self.compile_of(definition, definition.files.in_use())
    }

    fn compile_of(&self, definition: &Definition, files: &Files) -> Compiled {
        self.compile_named(&definition.name, &files.sources())
    }

    /// Whether what runs by one file would have to be started again to run by another one; drop-ins apart.
    pub fn needs_restart(
        &self,
        name: &UnitName,
        before: &Arc<UnitFile>,
        after: &Arc<UnitFile>,
    ) -> bool {
        let own = |file: &Arc<UnitFile>| {
            let sources = Sources { fragment: Some(file), ..Sources::default() };
            self.compile_named(name, &sources).own
        };
        own(before).is_begun_otherwise(&own(after))
    }

    fn compile_named(&self, name: &UnitName, sources: &Sources<'_>) -> Compiled {
        let compiler = self.compiler(name, sources);
        let (own, of_type) = match name.unit_type() {
            UnitType::Service => boxed(compiler.service(), TypeSettings::Service),
            UnitType::Socket => boxed(compiler.socket(), TypeSettings::Socket),
            UnitType::Mount => boxed(compiler.mount(), TypeSettings::Mount),
            // Told in the words of a mount.
            UnitType::Swap => boxed(compiler.swap(), TypeSettings::Mount),
            UnitType::Automount => boxed(compiler.automount(), TypeSettings::Automount),
            UnitType::Slice => boxed(compiler.slice(), TypeSettings::Slice),
            UnitType::Timer => boxed(compiler.timer(), TypeSettings::Timer),
            UnitType::Path => boxed(compiler.path(), TypeSettings::Path),
            UnitType::Scope => boxed(compiler.scope(), TypeSettings::Scope),
            UnitType::Target | UnitType::Device => (TypeSettings::None, Vec::new()),
        };
        let (section, of_unit) = compiler.unit();
        let mut faults: Vec<Diagnostic> = Vec::new();
        for fault in of_unit.into_iter().chain(of_type) {
            // A value that is read twice is wrong twice.
            if !faults.contains(&fault) {
                faults.push(fault);
            }
        }
        // Of many the first are shown.
        faults.sort_by_key(|fault| fault.severity == Severity::Note);
        Compiled { section: Arc::new(section), own, faults: faults.into() }
    }

    /// What the traffic of a socket is counted by.
    pub fn trigger_limit(&self, definition: &Definition) -> TriggerLimit {
        self.compiler(&definition.name, &definition.files.sources()).trigger_limit()
    }

    fn compiler<'a>(&'a self, name: &'a UnitName, sources: &'a Sources<'a>) -> Compiler<'a> {
        Compiler { name, sources, context: &self.context, defaults: &self.defaults }
    }
}

fn boxed<T>(
    (config, faults): (T, Vec<Diagnostic>),
    wrap: fn(Box<T>) -> TypeSettings,
) -> (TypeSettings, Vec<Diagnostic>) {
    (wrap(Box::new(config)), faults)
}

impl Compiled {
    /// What protects the host and is not applied, of the types that can say so.
    pub fn sandbox(&self) -> &[SandboxSetting] {
        match &self.own {
            TypeSettings::Service(config) => &config.exec.sandbox,
            TypeSettings::Socket(config) => &config.exec.sandbox,
            TypeSettings::Mount(config) => &config.exec.sandbox,
            TypeSettings::Slice(config) => &config.sandbox,
            TypeSettings::Automount(_)
            | TypeSettings::Timer(_)
            | TypeSettings::Path(_)
            | TypeSettings::Scope(_)
            | TypeSettings::None => &[],
        }
    }

    /// The commands of one list, for the types that run any.
    pub fn commands(&self, list: CommandList) -> &[Command] {
        match &self.own {
            TypeSettings::Service(config) => match list {
                CommandList::Condition => &config.exec_condition,
                CommandList::StartPre => &config.exec_start_pre,
                CommandList::Start => &config.exec_start,
                CommandList::StartPost => &config.exec_start_post,
                CommandList::Reload => &config.exec_reload,
                CommandList::Stop => &config.exec_stop,
                CommandList::StopPost => &config.exec_stop_post,
            },
            TypeSettings::Socket(config) => match list {
                CommandList::StartPre => &config.exec_start_pre,
                CommandList::StartPost => &config.exec_start_post,
                CommandList::Stop => &config.exec_stop_pre,
                CommandList::StopPost => &config.exec_stop_post,
                _ => &[],
            },
            _ => &[],
        }
    }
}

impl TypeSettings {
    /// Whether what is up by these settings would be another if it were started by those. The rest is in force
    /// with a reload: what is done with the run, its limits, how it ends and what follows.
    pub fn is_begun_otherwise(&self, by: &TypeSettings) -> bool {
        match (self, by) {
            (TypeSettings::Service(own), TypeSettings::Service(by)) => {
                **own != alike_service(own, by)
            }
            (TypeSettings::Socket(own), TypeSettings::Socket(by)) => **own != alike_socket(own, by),
            (TypeSettings::Mount(own), TypeSettings::Mount(by)) => **own != alike_mount(own, by),
            // What is in them stays where it is.
            (TypeSettings::Slice(_) | TypeSettings::Scope(_) | TypeSettings::None, _) => false,
            (own, by) => own != by,
        }
    }
}

/// The group that it is begun in.
fn alike_group(own: &CgroupConfig, by: &CgroupConfig) -> Box<CgroupConfig> {
    let CgroupConfig { slice, delegate, .. } = by.clone();
    Box::new(CgroupConfig { slice, delegate, ..own.clone() })
}

/// Those settings, but for what follows a reload.
fn alike_service(own: &ServiceConfig, by: &ServiceConfig) -> ServiceConfig {
    ServiceConfig {
        exec_reload: own.exec_reload.clone(),
        exec_stop: own.exec_stop.clone(),
        exec_stop_post: own.exec_stop_post.clone(),
        exit_type: own.exit_type,
        remain_after_exit: own.remain_after_exit,
        restart: own.restart,
        restart_mode: own.restart_mode,
        restart_delay: own.restart_delay,
        restart_delay_max: own.restart_delay_max,
        restart_steps: own.restart_steps,
        timeout_start: own.timeout_start,
        timeout_stop: own.timeout_stop,
        timeout_abort: own.timeout_abort,
        timeout_start_failure_mode: own.timeout_start_failure_mode,
        timeout_stop_failure_mode: own.timeout_stop_failure_mode,
        stop_policy: own.stop_policy,
        stop_budget: own.stop_budget,
        runtime_max: own.runtime_max,
        runtime_randomized_extra: own.runtime_randomized_extra,
        success_exit_status: own.success_exit_status.clone(),
        restart_prevent_exit_status: own.restart_prevent_exit_status.clone(),
        restart_force_exit_status: own.restart_force_exit_status.clone(),
        fd_store_max: own.fd_store_max,
        fd_store_preserve: own.fd_store_preserve,
        oom_policy: own.oom_policy,
        reload_signal: own.reload_signal,
        kill: own.kill.clone(),
        cgroup: alike_group(&own.cgroup, &by.cgroup),
        ..by.clone()
    }
}

fn alike_socket(own: &SocketConfig, by: &SocketConfig) -> SocketConfig {
    SocketConfig {
        flush_pending: own.flush_pending,
        max_connections: own.max_connections,
        max_connections_per_source: own.max_connections_per_source,
        exec_stop_pre: own.exec_stop_pre.clone(),
        exec_stop_post: own.exec_stop_post.clone(),
        timeout: own.timeout,
        remove_on_stop: own.remove_on_stop,
        trigger_limit: own.trigger_limit,
        poll_limit: own.poll_limit,
        kill: own.kill.clone(),
        cgroup: alike_group(&own.cgroup, &by.cgroup),
        ..by.clone()
    }
}

fn alike_mount(own: &MountConfig, by: &MountConfig) -> MountConfig {
    MountConfig {
        lazy_unmount: own.lazy_unmount,
        force_unmount: own.force_unmount,
        directory_mode: own.directory_mode,
        timeout: own.timeout,
        exec: own.exec.clone(),
        kill: own.kill.clone(),
        cgroup: own.cgroup.clone(),
        ..by.clone()
    }
}

/// Settings of so many units at rest are kept.
const RESTING_MAX_DEFAULT: usize = 512;

/// The settings that are at hand.
#[derive(Debug)]
pub(crate) struct AtHand {
    by_unit: BTreeMap<UnitId, Arc<Compiled>>,
    /// Settings of so many units at rest are kept.
    pub resting_max: usize,
    /// Those that were in use when it was last tidied up.
    in_use: usize,
    /// That was when nothing was under way.
    is_tidy: bool,
}

impl Default for AtHand {
    fn default() -> AtHand {
        AtHand {
            by_unit: BTreeMap::new(),
            resting_max: RESTING_MAX_DEFAULT,
            in_use: 0,
            is_tidy: false,
        }
    }
}

impl AtHand {
    /// The settings of a unit, if they are at hand.
    pub fn get(&self, unit: UnitId) -> Option<&Arc<Compiled>> {
        self.by_unit.get(&unit)
    }

    /// Keeps the settings of a unit.
    pub fn insert(&mut self, unit: UnitId, settings: Arc<Compiled>) {
        self.by_unit.insert(unit, settings);
    }

    /// Throws one unit's settings away.
    pub fn remove(&mut self, unit: UnitId) {
        self.by_unit.remove(&unit);
    }

    /// Throws away the settings of all units: they are to be compiled otherwise.
    pub fn clear(&mut self) {
        self.by_unit.clear();
        self.in_use = 0;
    }

    /// Throws away what is not in use, when that has become much; `all_rest` when nothing is under
    /// way, so that more will not be needed soon. What it costs is shared by the insertions since
    /// the last time.
    pub fn tidy_up(&mut self, all_rest: bool, is_in_use: impl Fn(UnitId) -> bool) {
        let in_use_max = if all_rest { self.known_in_use() } else { 2 * self.in_use };
        if self.by_unit.len() > in_use_max + self.resting_max {
            self.by_unit.retain(|&unit, _| is_in_use(unit));
            self.in_use = self.by_unit.len();
            self.is_tidy = all_rest;
        }
    }

    /// What was in use when nothing was under way; of a busy time nothing is known.
    fn known_in_use(&self) -> usize {
        if self.is_tidy { self.in_use } else { 0 }
    }
}

macro_rules! typed {
    ($($get:ident $variant:ident $config:ty;)*) => {
        impl Compiled {$(
            /// The settings of this type; the caller knows the unit's type.
            pub fn $get(&self) -> &$config {
                match &self.own {
                    TypeSettings::$variant(config) => config,
                    _ => panic!(concat!("settings of another type asked for as ", stringify!($get))),
                }
            }
        )*}
    };
}
typed! {
    service Service ServiceConfig;
    socket Socket SocketConfig;
    mount Mount MountConfig;
    automount Automount AutomountConfig;
    slice Slice SliceConfig;
    timer Timer TimerConfig;
    path Path PathConfig;
    scope Scope ScopeConfig;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rests_is_bounded_and_what_is_in_use_stays() {
        let name = warren_unit::UnitName::parse("a.target").expect("a valid name");
        let graph = crate::graph::Graph::with_names(vec![Some(name)]);
        let settings = Settings { context: Arc::new(Context::system()), defaults: Arc::default() };
        let settings = Arc::new(settings.compile(graph.definition(UnitId(0))));
        let mut at_hand = AtHand::default();
        let is_in_use = |unit: UnitId| unit.0 < 1000;
        for unit in 0..20_000 {
            at_hand.insert(UnitId(unit), settings.clone());
            at_hand.tidy_up(false, is_in_use);
        }
        assert!((0..1000).all(|unit| at_hand.get(UnitId(unit)).is_some()));
        assert!(at_hand.by_unit.len() <= 2 * 1000 + RESTING_MAX_DEFAULT);
        // The bound goes back when nothing is in use any more.
        for unit in 20_000..30_000 {
            at_hand.insert(UnitId(unit), settings.clone());
            at_hand.tidy_up(false, |_| false);
        }
        assert!(at_hand.by_unit.len() <= RESTING_MAX_DEFAULT);
        // After a busy time nothing need come in for it to be tidied up, and it is done once.
        for unit in 0..5_000 {
            at_hand.insert(UnitId(unit), settings.clone());
            at_hand.tidy_up(false, |_| true);
        }
        at_hand.tidy_up(true, is_in_use);
        assert_eq!(at_hand.by_unit.len(), 1000);
        at_hand.tidy_up(true, |_| panic!("there is nothing to look at"));
    }
}

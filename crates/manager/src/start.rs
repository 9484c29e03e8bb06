//! From a fresh process to a running loop: the first start, and going on after the death of the
//! last incarnation.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use warren_bus::Bus;
use warren_bus::backend::Facts;
use warren_core::event::{Done, Effect, Event, FollowUp, KillTarget};
use warren_core::graph::{Definition, Graph};
use warren_core::ids::{EffectId, UnitId};
use warren_core::machine::Core;
use warren_core::record::{Late, Restored};
use warren_core::settings::Settings;
use warren_core::state::{Automount, ExitStatus, Mount, TypeState, UnitRun};
use warren_core::time::Monotonic;
use warren_init::protocol::control::{CGROUP_ROOT_ENV, SOFT_REBOOTS_ENV, STATE_NAME, StartReason};
use warren_sys::cgroup::Tree;
use warren_sys::epoll::{Epoll, Interest};
use warren_sys::eventfd::EventFd;
use warren_trace::words::Phase;
use warren_unit::LoadState;
use warren_unit::settings::{Group, Id};

use crate::daemon::{Daemon, notify_interest, now, token};
use crate::devices::{Devices, KeptDevices};
use crate::fd_store::FdStore;
use crate::first::First;
use crate::groups::{Groups, is_slice};
use crate::helpers::{Answered, Helpers};
use crate::host::{lengthen_unix_queues, owns_machine};
use crate::init_link::InitLink;
use crate::loader::is_of_kernel;
use crate::loader_thread::LoaderThread;
use crate::log_link::{KeptLog, LogLink};
use crate::mount_table::{MountTable, Reading};
use crate::notify::NotifySocket;
use crate::options::Options;
use crate::recorder::{self, Recorder};
use crate::records::Records;
use crate::say;
use crate::shared::{Places, Shared};
use crate::sockets::{self, Sockets};
use crate::state_file::StateFile;
use crate::sweep::Sweep;
use crate::tools::Tools;
use crate::traps::{PIPE_NAMES, Traps};
use crate::workers::Workers;

/// Why the manager cannot be started.
pub type StartError = String;

fn text<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> StartError {
    move |e| format!("{what}: {e}")
}

/// What init kept, sorted by what it is.
#[derive(Default)]
struct Kept {
    state: Option<OwnedFd>,
    record: Option<OwnedFd>,
    generation: Option<OwnedFd>,
    notify: Option<OwnedFd>,
    pipe: [Option<OwnedFd>; 2],
    sockets: Vec<(String, OwnedFd)>,
    fd_store: Vec<(String, OwnedFd)>,
    log: KeptLog,
    devices: KeptDevices,
}

/// A process that is gone for so long has no record to come.
const MISSING_AFTER: Duration = Duration::from_secs(2);

const NOTIFY_NAME: &str = "notify";

const GENERATION_NAME: &str = "generation";

const RECORD_NAME: &str = "record";

/// What was mounted before the first manager, below the directory of run-time files.
const MOUNTED_BEFORE: &str = "warren/mounted-before";

fn sort_kept(stored: Vec<(String, OwnedFd)>) -> Kept {
    let mut kept = Kept::default();
    for (name, fd) in stored {
        let Some((name, fd)) = kept.log.take(name, fd) else { continue };
        let Some((name, fd)) = kept.devices.take(name, fd) else { continue };
        match name.as_str() {
            STATE_NAME => kept.state = Some(fd),
            RECORD_NAME => kept.record = Some(fd),
            GENERATION_NAME => kept.generation = Some(fd),
            NOTIFY_NAME => kept.notify = Some(fd),
            n if n == PIPE_NAMES[0] => kept.pipe[0] = Some(fd),
            n if n == PIPE_NAMES[1] => kept.pipe[1] = Some(fd),
            n if n.starts_with("socket/") => kept.sockets.push((name, fd)),
            _ => kept.fd_store.push((name, fd)),
        }
    }
    kept
}

/// Makes the daemon.
pub fn start(options: Options) -> Result<Daemon, StartError> {
    let began = now();
    let (init, greeting) = InitLink::connect().map_err(text("greeting init"))?;
    if greeting.welcome.reason != StartReason::First {
        say!("going on after the last manager: {:?}", greeting.welcome.reason);
    }
    let mut kept = sort_kept(greeting.stored);
    let context =
        Arc::new(warren_unit_files::context(&warren_unit_files::Root::OWN, options.scope));
    let (defaults, faults) = options.defaults(&context);
    let settings = Settings { context, defaults: Arc::new(defaults) };
    make_runtime_directories(&options).map_err(text("making the run-time directories"))?;
    let wake = Arc::new(EventFd::new().map_err(text("making an eventfd"))?);
    let (state, restored) = open_state(kept.state.take())?;
    let is_first = restored.is_none();
    // Everything begins as on a boot, but for what outlasted the end.
    let is_soft_reboot = greeting.welcome.reason == StartReason::SoftReboot;
    let is_boot = is_first || is_soft_reboot;
    let restored = match is_soft_reboot {
        true => restored.map(Restored::after_soft_reboot),
        false => restored,
    };
    let list = options.runtime_dir.join(MOUNTED_BEFORE);
    let (found, found_mounts) = channel();
    let mounts = Reading::begin(wake.clone(), found, list, is_first, owns_machine(options.scope))
        .map_err(text("starting a thread for the mount table"))?;
    if is_first
        && owns_machine(options.scope)
        && let Err(e) = lengthen_unix_queues()
    {
        say!("datagrams of clients of the log will wait for one another: {e}");
    }
    let tree = open_tree();
    crate::log::set_up(options.log_target, options.scope, wake.clone());
    faults.iter().for_each(|fault| say!("{fault}"));
    let log_link = LogLink::open(std::mem::take(&mut kept.log), &init)?;
    let devices = Devices::open(std::mem::take(&mut kept.devices), &init)?;
    let (orders_in, orders) = channel();
    let mut facts = first_facts(&settings);

    let generators = options.generators(&settings.context.architecture);
    // After a crash what they made at the start is still there.
    if let Some(generators) = generators.as_ref().filter(|_| is_boot) {
        facts.generators_start = (began.realtime_us, began.monotonic.0);
        generators.run_apart();
        let ended = now();
        facts.generators_finish = (ended.realtime_us, ended.monotonic.0);
    }
    let load_began = now();
    facts.units_load_start = (load_began.realtime_us, load_began.monotonic.0);
    // Who asks for a new manager expects it to read the files, as `daemon-reexec` does.
    let reads_anew = greeting.welcome.reason == StartReason::Asked || is_soft_reboot;
    let written = kept.generation.take().filter(|_| !reads_anew);
    let file =
        First::open_file(restored.as_ref(), written).map_err(text("making the generation file"))?;
    let first = First::find(&options, &settings, restored.as_ref(), file, found_mounts);
    let graph = first.graph.clone();
    let loaded = now();
    facts.units_load_finish = (loaded.realtime_us, loaded.monotonic.0);
    facts.units_load = facts.units_load_finish;
    let units = graph.definitions().filter(|d| d.load_state == LoadState::Loaded).count();
    say!(
        "{units} units loaded in {:.3} s",
        loaded.monotonic.since(load_began.monotonic).as_secs_f64()
    );
    if is_boot {
        crate::log::diagnostics(&first.diagnostics);
    }

    facts.unit_path = first.paths.iter().map(|p| p.to_string_lossy().into_owned()).collect();
    let shared_tree = open_tree();
    let records = Records::open(options.record_dir());
    // Its events name units by ids of the state file.
    let left = kept.record.take().filter(|_| restored.is_some());
    let recorder = Recorder::start(records.clone(), &settings.context, left)
        .map_err(text("starting the recorder"))?;
    let places = Places {
        unit_path: first.paths_on_disk.clone(),
        log_dir: options.log_dir(),
        journal_socket: options.journal_socket(),
        rules: options.rules_directory(),
        records,
    };
    let shared = Shared::new(settings.clone(), shared_tree, facts, places, orders_in, wake.clone());
    let shared = Arc::new(shared);
    shared.publish_rules(first.applied.clone());
    init.store(GENERATION_NAME, first.file.fd()).map_err(text("storing descriptors with init"))?;
    let (loader_in, loader_orders) = channel();
    let for_loader = shared.clone();
    std::thread::Builder::new()
        .name("loader".into())
        .spawn(move || LoaderThread::new(first, generators, for_loader).run(loader_orders))
        .map_err(text("starting the loader"))?;

    let mut core = Core::new(settings, random_seed());
    core.set_without_cgroups(tree.is_none());
    let groups = Groups::new(tree).map_err(text("watching cgroups"))?;
    let traps = match std::mem::take(&mut kept.pipe) {
        [Some(reader), Some(writer)] => Traps::new(Some((reader, writer)), wake.clone()),
        _ => Traps::new(None, wake.clone()),
    };
    let notify = match kept.notify.take() {
        Some(fd) => Ok(NotifySocket::over(fd)),
        None => NotifySocket::bind(&options.notify_socket()),
    };
    let mut daemon = Daemon {
        core,
        shared: shared.clone(),
        init,
        helpers: Helpers::new(greeting.helpers),
        log_link,
        devices,
        groups,
        dying: Vec::new(),
        sweep: Sweep::new(wake.clone()),
        sockets: Sockets::default(),
        traps: traps.map_err(text("making the autofs pipe"))?,
        notify: notify.map_err(text("binding the notify socket"))?,
        workers: Workers::start(wake.clone()).map_err(text("starting workers"))?,
        mounts: MountTable::unread(),
        state,
        bus: None,
        epoll: Epoll::new().map_err(text("making an epoll instance"))?,
        loader: loader_in,
        orders,
        wake,
        events: Default::default(),
        pidfds: BTreeMap::new(),
        clients: BTreeMap::new(),
        next_client: 1,
        job_waiters: BTreeMap::new(),
        tools: Tools::default(),
        connections: BTreeMap::new(),
        handed_over: Vec::new(),
        stored_fds: FdStore::default(),
        environment: service_environment(),
        checks: Vec::new(),
        name_watcher: None,
        bus_names: BTreeMap::new(),
        loads: BTreeMap::new(),
        next_load: 1,
        leaving: None,
        ready_told: false,
        serving: false,
        first_unit_asked: false,
        resuming: false,
        look_for_missing_at: None,
        incarnation: greeting.welcome.incarnation,
        ending: None,
        planned: Default::default(),
        doors: Default::default(),
        collector: Default::default(),
        last_ping: began.monotonic,
        started: began,
        early_exits: BTreeMap::new(),
        early_notices: Vec::new(),
        fresh_pids: BTreeMap::new(),
        named_mains: Vec::new(),
        answered: Answered::default(),
        unsettled: Vec::new(),
        recorder,
        options,
    };
    daemon.keep_basics().map_err(text("storing descriptors with init"))?;
    daemon.watch_sources().map_err(text("watching event sources"))?;
    match restored {
        Some(restored) if is_soft_reboot => {
            daemon.record_beginning(units as u64);
            daemon.go_on(graph, restored, kept, greeting.welcome.reason, mounts)?;
        }
        Some(restored) => {
            daemon.recorder.came_back(began.monotonic);
            daemon.go_on(graph, restored, kept, greeting.welcome.reason, mounts)?;
            daemon.recorder.goes_on(now().monotonic);
        }
        None => {
            daemon.record_beginning(units as u64);
            daemon.mounts = read(mounts)?;
            daemon.begin(graph);
            daemon.serve()?;
        }
    }
    daemon.turn();
    daemon.note_all_idle();
    daemon.tell_readiness();
    Ok(daemon)
}

fn read(mounts: Reading) -> Result<MountTable, StartError> {
    mounts.wait().map_err(text("reading the mount table"))
}

fn random_seed() -> u128 {
    warren_sys::random::u128()
}

fn make_runtime_directories(options: &Options) -> std::io::Result<()> {
    for file in [options.private_socket(), options.notify_socket(), options.control_socket()] {
        if let Some(directory) = file.parent() {
            std::fs::create_dir_all(directory)?;
        }
    }
    // systemctl takes this directory's existence for 'the system was booted by this manager'.
    std::fs::create_dir_all(options.runtime_dir.join("systemd/system"))?;
    std::fs::create_dir_all(options.log_dir())
}

fn open_state(kept: Option<OwnedFd>) -> Result<(StateFile, Option<Restored>), StartError> {
    let Some(fd) = kept else {
        return Ok((StateFile::create().map_err(text("making the state file"))?, None));
    };
    let (file, restored) = StateFile::open(fd).map_err(text("reading the state file"))?;
    match restored {
        Ok(restored) => Ok((file, Some(restored))),
        Err(why) => {
            say!("the state file cannot be used ({why:?}): beginning anew");
            Ok((StateFile::create().map_err(text("making the state file"))?, None))
        }
    }
}

/// The cgroup tree that init told of.
fn open_tree() -> Option<Tree> {
    let path = std::env::var_os(CGROUP_ROOT_ENV).filter(|p| !p.is_empty()).map(PathBuf::from)?;
    match Tree::open(&path) {
        Ok(tree) => Some(tree),
        Err(e) => {
            say!("without cgroups: {e}");
            None
        }
    }
}

fn first_facts(settings: &Settings) -> Facts {
    let began = now();
    Facts {
        version: format!("(warrener {})", env!("CARGO_PKG_VERSION")),
        machine_id: settings.context.machine_id.to_string(),
        architecture: settings.context.architecture.to_string(),
        virtualization: match warren_sys::process::in_container() {
            true => std::env::var("container").unwrap_or_else(|_| "container-other".to_owned()),
            false => String::new(),
        },
        environment: service_environment().iter().map(|(n, v)| format!("{n}={v}")).collect(),
        control_group: String::new(),
        soft_reboots: soft_reboots(),
        userspace: (began.realtime_us, began.monotonic.0),
        defaults: settings.defaults.clone(),
        memory_bytes: crate::groups::host_memory(),
        tasks_ceiling: crate::groups::host_tasks(),
        ..Facts::default()
    }
}

/// How many soft reboots there were, by init's word.
fn soft_reboots() -> u32 {
    let told = std::env::var(SOFT_REBOOTS_ENV).unwrap_or_default();
    told.parse().unwrap_or(0)
}

/// What services inherit (systemd.exec(5), "ENVIRONMENT VARIABLES").
fn service_environment() -> BTreeMap<Box<str>, Box<str>> {
    let mut out = BTreeMap::new();
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    out.insert("PATH".into(), path.into());
    for name in ["LANG", "LANGUAGE", "LC_ALL", "XDG_RUNTIME_DIR"] {
        if let Ok(value) = std::env::var(name) {
            out.insert(name.into(), value.into());
        }
    }
    out
}

/// Units that had something when the last incarnation ended.
struct Held {
    /// Open sockets.
    sockets: BTreeSet<UnitId>,
    /// An automount point that is set, or was to be set still: that is done again.
    traps: Vec<UnitId>,
    /// A cgroup.
    groups: Vec<UnitId>,
}

impl Held {
    fn of(restored: &Restored) -> Held {
        let has_group = |run: &UnitRun| run.history.as_ref().is_some_and(|h| h.has_cgroup);
        let has_trap = |unit: UnitId, run: &UnitRun| {
            let is_up = matches!(run.state, TypeState::Automount(Automount::Up(_)));
            is_up || restored.late.contains(&Late::CloseTrap(unit))
        };
        let runs = || restored.runs.iter().map(|(&unit, run)| (unit, run));
        let ids = |(unit, _)| unit;
        Held {
            sockets: runs().filter(|(_, run)| run.holds_sockets()).map(ids).collect(),
            traps: runs().filter(|(unit, run)| has_trap(*unit, run)).map(ids).collect(),
            groups: runs().filter(|(_, run)| has_group(run)).map(ids).collect(),
        }
    }
}

const FD_NAME: Id = Id::of(Group::Socket, "FileDescriptorName");

/// `FileDescriptorName=` of a socket, or its default.
fn fd_name(settings: &Settings, definition: &Definition) -> String {
    let set = || settings.compile(definition).socket().fd_name.clone();
    let set = definition.mentions(FD_NAME).then(set).flatten();
    set.as_deref().unwrap_or(definition.name.as_str()).to_owned()
}

impl Daemon {
    /// Init keeps what must outlive this process.
    fn keep_basics(&mut self) -> Result<(), warren_init::client::ClientError> {
        self.init.store(STATE_NAME, self.state.fd())?;
        self.init.store(RECORD_NAME, self.recorder.fd())?;
        self.init.store(NOTIFY_NAME, self.notify.fd())?;
        for (name, fd) in PIPE_NAMES.into_iter().zip(self.traps.pipe()) {
            self.init.store(name, fd)?;
        }
        Ok(())
    }

    fn watch_sources(&mut self) -> warren_sys::Result<()> {
        use std::os::fd::AsFd;
        self.epoll.add(self.init.socket(), token::INIT, Interest::READ)?;
        // Each notification is reported once: the counters need not be read.
        let notified = Interest::READ | Interest::EDGE;
        self.epoll.add(self.init.wake_fd(), token::EXITS, notified)?;
        self.epoll.add(self.wake.as_fd(), token::WAKE, notified)?;
        self.epoll.add(self.notify.fd(), token::NOTIFY, notify_interest())?;
        self.epoll.add(self.log_link.fd(), token::LOG, Interest::READ)?;
        self.watch_devices()?;
        self.epoll.add(self.traps.reader(), token::TRAPS, Interest::READ)?;
        if let Some(watch) = self.groups.watch() {
            self.epoll.add(watch, token::GROUPS, Interest::READ)?;
        }
        Ok(())
    }

    /// What was done before there was a recorder.
    fn record_beginning(&mut self, units: u64) {
        use warren_bus::backend::Backend;
        self.recorder.boot_began(self.started);
        let facts = self.shared.facts();
        let phases = [
            (Phase::Generators, facts.generators_start.1, facts.generators_finish.1, 0),
            (Phase::Load, facts.units_load_start.1, facts.units_load_finish.1, units),
        ];
        for (phase, began, ended, detail) in phases {
            // 0: it was not done.
            if began > 0 {
                let (began, ended) = (Monotonic(began), Monotonic(ended));
                self.recorder.did(recorder::Done { phase, began, ended, detail });
            }
        }
    }

    /// The first start.
    fn begin(&mut self, graph: Arc<Graph>) {
        for index in 0..self.helpers.count() {
            self.helpers.ask(index);
            self.watch_helper(index);
        }
        let added = (0..graph.len()).map(|i| UnitId(i as u32)).collect();
        let delta = warren_core::graph::Delta { added, ..Default::default() };
        self.foresee_devices(&graph);
        let effects =
            self.core.step(now(), Event::Commit { graph: graph.clone(), delta: Box::new(delta) });
        self.finish_turn(effects);
        let changes = self.mounts.take(&graph);
        self.take_mount_changes(changes);
        self.turn();
        self.start_first_unit();
    }

    /// After the death of the last incarnation: state, descriptors and replies are taken up, then
    /// everything that the kernel knows better is told as events. After a soft reboot too, which is
    /// the beginning of a boot.
    fn go_on(
        &mut self,
        graph: Arc<Graph>,
        restored: Restored,
        kept: Kept,
        reason: StartReason,
        mounts: Reading,
    ) -> Result<(), StartError> {
        self.answered = self.helpers.synchronise(self.incarnation);
        for index in 0..self.helpers.count() {
            // Who asked for a new manager gets new helpers too.
            if reason == StartReason::Asked || self.helpers.is_foreign(index) {
                self.helpers.dismiss(index);
            }
            self.watch_helper(index);
        }
        self.ready_told = restored.manager.is_some_and(|m| m.startup_finished);
        // The transaction of the first unit is the first that makes jobs.
        let started = restored.manager.is_some_and(|m| m.startup_finished || m.jobs_ever > 0);
        self.first_unit_asked = started;
        let ending = restored.manager.and_then(|m| crate::ending::code::from_code(m.ending));
        let scope = self.options.scope;
        self.ending = ending.map(|action| crate::ending::Ending::new(Some(action), scope));
        if self.ending.is_some() {
            crate::log::set_ending(true);
            // Unless what the last incarnation recorded is there.
            self.recorder.shutdown_began(self.started);
            let since = self.recorder.shutdown_since();
            if let (Some(ending), Some(since)) = (&mut self.ending, since) {
                ending.go_on_since(since);
            }
        }
        let late = restored.late.clone();
        let held = Held::of(&restored);
        self.take_up_devices(&graph, &restored);
        let resumed = self.core.recover(now(), graph.clone(), restored);
        if reason == StartReason::SoftReboot {
            // The next manager is not to find that everything is being stopped.
            self.write_state_anew(&late);
        }
        // Questions are answered from here on, orders wait.
        self.shared.publish(Arc::new(self.core.view()));
        self.serve()?;
        // With thousands of mounts this takes as long as all that was done before.
        self.mounts = read(mounts)?;
        self.take_up_sockets(&graph, &held, kept.sockets);
        self.take_up_traps(&graph, &held);
        let (connections, kept_fds): (Vec<_>, Vec<_>) = kept
            .fd_store
            .into_iter()
            .partition(|(name, _)| crate::accept::parse_stored_name(name).is_some());
        for (name, fd) in kept_fds {
            if let Some((unit, rest)) = crate::fd_store::parse_stored_name(&name)
                && let Some(unit) = lookup(&graph, unit)
            {
                self.stored_fds.take_up(unit, rest, fd);
            }
        }
        for &unit in held.groups.iter().filter(|&&unit| graph.get(unit).is_some()) {
            self.groups.take_up(&graph, unit);
        }
        self.reopen_processes();
        let mut effects: Vec<Effect> =
            late.iter().filter_map(|late| self.late_effect(&graph, late)).collect();
        effects.extend(resumed);
        for (name, fd) in connections {
            self.take_up_connection(&name, fd);
        }
        if self.helpers.owe() {
            let waits = |effect: &mut Effect| effect.makes_process() && !self.is_answered(effect);
            self.unsettled = effects.extract_if(.., waits).collect();
        }
        self.resuming = true;
        self.finish_turn(effects);
        self.resuming = false;
        self.settle();
        self.turn();
        self.tell_what_is_gone();
        let changes = self.mounts.take(&graph);
        self.take_mount_changes(changes);
        self.tell_vanished_mounts(&graph);
        self.turn();
        if !started {
            self.start_first_unit();
        }
        self.take_up_plan();
        Ok(())
    }

    /// Lets clients in.
    fn serve(&mut self) -> Result<(), StartError> {
        if !self.options.no_bus {
            match Bus::start(&self.options.private_socket(), self.shared.clone()) {
                Ok(bus) => self.bus = Some(bus),
                Err(e) => say!("systemctl is not served: {e}"),
            }
        }
        crate::control::start(&self.options.control_socket(), self.shared.clone())
            .map_err(text("starting the control socket"))?;
        self.serving = true;
        Ok(())
    }

    /// What followed from the last batch and may not have been done, as far as it still makes
    /// sense: each is harmless when done twice.
    fn late_effect(&self, graph: &Graph, late: &Late) -> Option<Effect> {
        let unit = late.unit();
        let definition = graph.get(unit)?;
        let run = self.core.unit_run(unit);
        let at_rest = run.active_state().is_down() || run.main_process().is_none();
        let settings = || Arc::new(self.core.settings().compile(definition));
        Some(match *late {
            Late::CleanUp(_, restarting) if at_rest && !self.groups.is_populated(unit) => {
                Effect::CleanUp { unit, settings: settings(), restarting }
            }
            Late::CloseSockets(_) if !run.holds_sockets() => {
                Effect::CloseSockets { unit, settings: settings() }
            }
            Late::CloseTrap(_) if run.active_state().is_down() => Effect::CloseTrap { unit },
            Late::AnswerTrap(_, ref tokens, ok) => {
                Effect::AnswerTrap { unit, tokens: tokens.clone(), ok }
            }
            Late::KillGroup(_) if at_rest || run.active_state().is_down_or_going() => {
                Effect::KillGroup { unit }
            }
            Late::Kill(_, pid, signal, hangup, resume) if self.is_in_group(unit, pid) => {
                let (target, then) = (KillTarget::Process(pid), FollowUp { hangup, resume });
                Effect::Kill { id: EffectId(0), unit, target, signal, then }
            }
            _ => return None,
        })
    }

    fn is_in_group(&self, unit: UnitId, pid: u32) -> bool {
        self.core.unit_of_pid(pid) == Some(unit)
            || self.groups.processes(unit).contains(&(pid as i32))
    }

    /// Whether a helper has answered what the last incarnation asked for this effect.
    fn is_answered(&self, effect: &Effect) -> bool {
        let replies = &self.answered.replies;
        effect.id().is_some_and(|id| {
            replies.contains_key(&id) || replies.contains_key(&EffectId(id.0 | crate::tools::TOOL))
        })
    }

    /// Takes up what helpers have answered to the last incarnation: one may be held up by what
    /// follows from another's answer. Once all have, asks again for what they were not asked.
    pub(crate) fn settle(&mut self) {
        let owe = self.helpers.owe();
        let given_up = self.core.given_up();
        let (waits, due) = std::mem::take(&mut self.unsettled)
            .into_iter()
            .partition(|effect| owe && !self.is_answered(effect));
        self.unsettled = waits;
        self.resuming = true;
        let due: Vec<Effect> = due;
        for effect in due {
            let is_wanted =
                |id: &EffectId| self.core.effect_unit(*id).is_some() && !given_up.contains(id);
            if effect.id().filter(is_wanted).is_some() {
                self.carry_out(effect);
            }
        }
        self.resuming = false;
        if !owe {
            self.take_late_replies();
            self.forget_orphans();
        }
    }

    /// Answers to spawns that are not asked for again: those that were given up meanwhile.
    fn take_late_replies(&mut self) {
        let replies = std::mem::take(&mut self.answered).replies;
        let given_up = self.core.given_up();
        for (id, (reply, pidfd)) in replies {
            if given_up.contains(&id) {
                self.spawned(reply, pidfd);
            }
        }
        self.turn();
        for id in self.core.given_up() {
            let error = "it was never begun".to_owned();
            self.done(id, Done::SpawnFailed { exit_code: 0, error });
        }
    }

    fn take_up_sockets(&mut self, graph: &Graph, held: &Held, kept: Vec<(String, OwnedFd)>) {
        let mut found: BTreeMap<(UnitId, usize), OwnedFd> = BTreeMap::new();
        for (name, fd) in kept {
            if let Some((unit, index)) = sockets::parse_stored_name(&name)
                && let Some(unit) = lookup(graph, unit)
            {
                found.insert((unit, index), fd);
            }
        }
        for ((unit, index), fd) in found {
            let definition = graph.definition(unit);
            if held.sockets.contains(&unit) {
                let name = fd_name(self.core.settings(), definition);
                self.sockets.take_up(unit, fd, name);
            } else {
                let _ =
                    self.init.drop_stored(&sockets::stored_name(definition.name.as_str(), index));
            }
        }
    }

    fn take_up_traps(&mut self, graph: &Graph, held: &Held) {
        let set = warren_sys::autofs::devices().unwrap_or_default();
        for &unit in held.traps.iter().filter(|&&unit| graph.get(unit).is_some()) {
            let settings = self.core.settings().compile(graph.definition(unit));
            self.traps.take_up(unit, settings.automount(), &set);
        }
    }

    /// Pidfds of the processes that the machine knows; the exit ring says which of them ended.
    fn reopen_processes(&mut self) {
        for index in 0..self.core.graph().len() {
            let unit = UnitId(index as u32);
            let run = self.core.unit_run(unit);
            let main = run.main_process().map(|main| main.pid);
            for pid in main.into_iter().chain(run.control_pid()) {
                if let Ok(pidfd) = warren_sys::process::pidfd_open(pid as i32) {
                    self.pidfds.insert(pid, pidfd);
                }
            }
            if main.is_some() {
                self.watch_stranger(unit);
            }
        }
    }

    /// What ended while nobody looked: records in the ring, groups that are empty.
    fn tell_what_is_gone(&mut self) {
        self.read_exits();
        self.turn();
        for index in 0..self.core.graph().len() {
            let unit = UnitId(index as u32);
            let run = self.core.unit_run(unit);
            let has = run.history.as_ref().is_some_and(|h| h.has_cgroup);
            // Slices have no processes whose end is waited for.
            let may_end =
                has && !run.active_state().is_down() && !is_slice(self.core.graph(), unit);
            if may_end && !self.will_be_told(unit) && self.groups.found_empty(unit) {
                self.events.push_back(Event::CgroupEmpty { unit });
            }
        }
        // Init may be about to write a record: who is gone without one is looked at later.
        self.look_for_missing_at = Some(now().monotonic.after(MISSING_AFTER));
        self.turn();
    }

    /// Known processes that are gone and whose end nobody has told: they were no children of init.
    pub(crate) fn tell_missing(&mut self) {
        if self.look_for_missing_at.is_none_or(|at| now().monotonic < at) {
            return;
        }
        self.look_for_missing_at = None;
        for index in 0..self.core.graph().len() {
            let run = self.core.unit_run(UnitId(index as u32));
            let pids = run.main_process().map(|p| p.pid).into_iter().chain(run.control_pid());
            let gone: Vec<u32> = pids.filter(|&pid| !self.is_there(pid)).collect();
            gone.into_iter().for_each(|pid| self.process_ended(pid, ExitStatus::Unknown));
        }
    }

    fn is_there(&self, pid: u32) -> bool {
        use std::os::fd::AsFd;
        self.pidfds.get(&pid).is_some_and(|fd| warren_sys::process::is_alive(fd.as_fd()))
    }

    fn tell_vanished_mounts(&mut self, graph: &Graph) {
        for definition in graph.definitions() {
            let up = matches!(
                self.core.unit_run(definition.id).state,
                TypeState::Mount(Mount::Up(ref run)) | TypeState::Swap(Mount::Up(ref run))
                    if run.in_table
            );
            let name = &definition.name;
            if self.mounts.is_mounted(name) || !self.mounts.is_followed(name) {
                continue;
            }
            if up {
                self.events.push_back(Event::Unmounted { unit: definition.id });
            }
            if is_of_kernel(definition) {
                self.mounts.vanished(name);
            }
        }
    }
}

fn lookup(graph: &Graph, name: &str) -> Option<UnitId> {
    warren_unit::UnitName::parse(name).ok().and_then(|name| graph.lookup(&name))
}

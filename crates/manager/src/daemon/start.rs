//! From a fresh process to a running loop. What follows after the death of the last incarnation is in
//! `resume`.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;

use warren_bus::Bus;
use warren_bus::backend::Facts;
use warren_core::graph::Graph;
use warren_core::machine::Core;
use warren_core::model::ids::UnitId;
use warren_core::model::state::BootTimes;
use warren_core::model::time::{Moment, Monotonic};
use warren_core::persist::run_state::{ClientSettings, Restored};
use warren_core::protocol::event::Event;
use warren_core::settings::Settings;
use warren_init::protocol::control::{
    BEGAN_ENV, CGROUP_ROOT_ENV, SOFT_REBOOTS_ENV, STATE_NAME, StartReason,
};
use warren_sys::cgroup::Tree;
use warren_sys::epoll::{Epoll, Interest};
use warren_sys::eventfd::EventFd;
use warren_sys::virtualization;
use warren_trace::words::Phase;
use warren_unit::{LoadState, Scope};

use crate::base::clock::now;
use crate::base::environment::{BaseEnvironment, Environment};
use crate::base::heartbeat::Pings;
use crate::base::host::{lengthen_unix_queues, owns_machine};
use crate::base::say::say;
use crate::base::token;
use crate::base::worker_pool::{self, Workers};
use crate::cgroup::nft_sets::{NftSets, NftThread};
use crate::cgroup::oomd::OomdGroups;
use crate::cgroup::slices::OfSlices;
use crate::cgroup::state::CgroupState;
use crate::cgroup::tree::{Groups, root_path};
use crate::cgroup::unwatched::UnwatchedGroups;
use crate::config::first_generation::First;
use crate::config::generators::{Generators, Occasion};
use crate::control::{server, user_lookup, varlink};
use crate::daemon::clients::Clients;
use crate::daemon::event_loop::EventLoop;
use crate::daemon::loads::Loads;
use crate::daemon::presets;
use crate::daemon::recovery::Recovery;
use crate::daemon::servers::{Listeners, Servers};
use crate::daemon::stages::Stages;
use crate::daemon::startup::Startup;
use crate::daemon::tasks::{Task, Tasks};
use crate::daemon::triggers::Triggers;
use crate::daemon::{Daemon, Leaving};
use crate::mount::automounts::{PIPE_NAMES, Traps};
use crate::mount::table::{MountTable, Reading};
use crate::options::Options;
use crate::path::watcher::PathWatcher;
use crate::peer::bus_names::BusNames;
use crate::peer::devices::{Devices, KeptDevices};
use crate::peer::log_link::{KeptLog, LogLink};
use crate::peer::state::Peers;
use crate::peer::unit_log_file::{self, UnitLogFiles};
use crate::process::init_link::{Greeting, InitLink};
use crate::process::notify_messages::notify_interest;
use crate::process::notify_socket::NotifySocket;
use crate::process::pid_file::searches::Searches;
use crate::process::signals::Kills;
use crate::process::state::ProcessState;
use crate::process::stored_fds::FdStore;
use crate::process::table::Processes;
use crate::process::watchdog::{MachineWatchdog, WATCHDOG_NAME};
use crate::published::counters::Counters;
use crate::published::loader_thread::LoaderThread;
use crate::published::orders::Order;
use crate::published::shared::{Places, Shared};
use crate::recording::files::Records;
use crate::recording::recorder;
use crate::recording::recorder::Recorder;
use crate::recording::state::Recording;
use crate::recording::state_file::StateFile;
use crate::shutdown::state::Shutdown;
use crate::socket::accept::Accepting;
use crate::socket::sockets::{LEFT, Sockets};
use crate::spawn::helpers::{Helpers, KeptHelpers};
use crate::spawn::state::Spawning;
use crate::spawn::users::Names;
use crate::timer::clock::WallClock;
use crate::timer::zones;

/// Why the manager cannot be started.
pub type StartError = String;

fn text<E: std::fmt::Display>(what: &'static str) -> impl Fn(E) -> StartError {
    move |e| format!("{what}: {e}")
}

/// What init kept, sorted by what it is.
#[derive(Default)]
pub(crate) struct KeptDescriptors {
    pub(crate) state: Option<OwnedFd>,
    pub(crate) record: Option<OwnedFd>,
    pub(crate) generation: Option<OwnedFd>,
    pub(crate) notify: Option<OwnedFd>,
    pub(crate) watchdog: Option<OwnedFd>,
    pub(crate) listeners: Listeners,
    pub(crate) pipe: [Option<OwnedFd>; 2],
    pub(crate) helpers: KeptHelpers,
    pub(crate) sockets: Vec<(String, OwnedFd)>,
    pub(crate) fd_store: Vec<(String, OwnedFd)>,
    pub(crate) log: KeptLog,
    pub(crate) devices: KeptDevices,
    /// Marks of soft reboots.
    pub(crate) soft_reboots: Vec<String>,
}

const PRIVATE_NAME: &str = "listen/private";

const CONTROL_NAME: &str = "listen/control";

const USERS_NAME: &str = "listen/users";
const VARLINK_NAME: &str = "listen/varlink";

pub(crate) const NOTIFY_NAME: &str = "notify";

const GENERATION_NAME: &str = "generation";

const RECORD_NAME: &str = "record";

/// Begins the name of [`soft_reboot_mark`].
const SOFT_REBOOT: &str = "soft-reboot/";

/// What was mounted before the first manager, below the directory of run-time files.
const MOUNTED_BEFORE: &str = "warren/mounted-before";

fn sort_kept(stored: Vec<(String, OwnedFd)>) -> KeptDescriptors {
    let mut kept = KeptDescriptors::default();
    for (name, fd) in stored {
        let Some((name, fd)) = kept.log.take(name, fd) else { continue };
        let Some((name, fd)) = kept.devices.take(name, fd) else { continue };
        let Some((name, fd)) = kept.helpers.take(name, fd) else { continue };
        match name.as_str() {
            STATE_NAME => kept.state = Some(fd),
            RECORD_NAME => kept.record = Some(fd),
            GENERATION_NAME => kept.generation = Some(fd),
            NOTIFY_NAME => kept.notify = Some(fd),
            WATCHDOG_NAME => kept.watchdog = Some(fd),
            PRIVATE_NAME => kept.listeners.private = Some(fd),
            CONTROL_NAME => kept.listeners.control = Some(fd),
            USERS_NAME => kept.listeners.users = Some(fd),
            VARLINK_NAME => kept.listeners.varlink = Some(fd),
            n if n == PIPE_NAMES[0] => kept.pipe[0] = Some(fd),
            n if n == PIPE_NAMES[1] => kept.pipe[1] = Some(fd),
            n if n.starts_with("socket/") || n.starts_with(LEFT) => kept.sockets.push((name, fd)),
            n if n.starts_with(SOFT_REBOOT) => kept.soft_reboots.push(name),
            _ => kept.fd_store.push((name, fd)),
        }
    }
    kept
}

/// Under which name init keeps something over a soft reboot that comes after so many others, until the state is
/// written that follows from it: managers may end before.
pub(crate) fn soft_reboot_mark(others: u32) -> String {
    format!("{SOFT_REBOOT}{others}")
}

/// Makes the daemon, or says why that cannot be.
pub fn start(options: Options) -> Result<Daemon, StartError> {
    let began = now();
    let greeted = InitLink::connect().map_err(text("greeting init"));
    // Init kills who lets go of it: what is wrong is said before that, and the status is our own.
    let link = greeted.as_ref().ok().map(|(init, _)| init.socket().try_clone_to_owned());
    let made = greeted.and_then(|(init, greeting)| make(options, began, init, greeting));
    if let Err(error) = &made {
        crate::base::say::last_words(error);
        std::mem::forget(link);
    }
    made
}

fn make(
    options: Options,
    began: Moment,
    init: InitLink,
    greeting: Greeting,
) -> Result<Daemon, StartError> {
    if greeting.welcome.reason != StartReason::First {
        say!("taking over from the previous manager: {:?}", greeting.welcome.reason);
    }
    worker_pool::keep_for(options.scope);
    let mut kept = sort_kept(greeting.stored);
    let context =
        Arc::new(warren_unit_files::context(&warren_unit_files::Root::OWN, options.scope));
    let (defaults, faults) = options.defaults(&context);
    crate::base::say::set_style(defaults.line_style);
    crate::base::own_limits::apply(&defaults);
    let settings = Settings { context, defaults: Arc::new(defaults) };
    if greeting.welcome.reason == StartReason::First {
        presets::enable_presets(&options, &settings.context);
    }
    make_runtime_directories(&options).map_err(text("making the run-time directories"))?;
    let wake = Arc::new(EventFd::new().map_err(text("making an eventfd"))?);
    let (state, restored) = open_state(kept.state.take())?;
    let is_first = restored.is_none();
    // Everything begins as on a boot, but for what outlasted the end.
    let last = soft_reboots().checked_sub(1).map(soft_reboot_mark);
    // A manager that was the first after it may have ended before all that follows was written.
    let is_soft_reboot = greeting.welcome.reason == StartReason::SoftReboot
        || last.is_some_and(|last| kept.soft_reboots.contains(&last));
    let reason = if is_soft_reboot { StartReason::SoftReboot } else { greeting.welcome.reason };
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
        say!("cannot raise net.unix.max_dgram_qlen: {e}");
    }
    let tree = open_tree();
    let log_target = options.log_target(&settings.defaults);
    crate::base::say::set_up(log_target, options.scope, wake.clone());
    crate::base::say::restrict(options.log_level(&settings.defaults), None);
    faults.iter().for_each(|fault| say!("{fault}"));
    let log_link = LogLink::open(std::mem::take(&mut kept.log), &init)?;
    let devices = Devices::open(std::mem::take(&mut kept.devices), &init)?;
    let (orders_in, orders) = channel();
    let mut facts = first_facts(&settings);
    facts.log_target = log_target.as_str().to_owned();
    let mut boot = BootTimes { userspace: init_began().unwrap_or(began), ..BootTimes::default() };

    let sources = options.environment_sources(&settings.defaults);
    let generators = options.generators(&settings.context.architecture, sources.clone());
    // After a crash what they made at the start is still there.
    if let Some(generators) = generators.as_ref().filter(|_| is_boot) {
        if let Err(why) = generators.run_apart(Occasion::Boot) {
            say!("{why}");
        }
        boot.generators = (began, now());
    }
    let alone = || BaseEnvironment { configured: sources.read(), ..BaseEnvironment::default() };
    let begun = generators.as_ref().map_or_else(alone, Generators::environment);
    let environment = Environment::new(begun);
    facts.environment = environment.texts();
    let load_began = now();
    // Who asks for a new manager expects it to read the files, as `daemon-reexec` does.
    let reads_anew = matches!(reason, StartReason::Asked | StartReason::SoftReboot);
    let written = kept.generation.take().filter(|_| !reads_anew);
    let file =
        First::open_file(restored.as_ref(), written).map_err(text("making the generation file"))?;
    let (paths, fleet) = (options.search_path(), options.fleet());
    let first = First::find(paths, fleet, &settings, restored.as_ref(), file, found_mounts);
    let graph = first.graph.clone();
    let loaded = now();
    facts.units_load = loaded;
    let boot = match &restored {
        Some(restored) if !is_boot => restored.boot,
        _ => BootTimes { load: (load_began, loaded), ..boot },
    };
    facts.boot = boot;
    let units = graph.definitions().filter(|d| d.load_state == LoadState::Loaded).count();
    say!(
        "{units} units loaded in {:.3} s",
        loaded.monotonic.since(load_began.monotonic).as_secs_f64()
    );
    if is_boot {
        crate::daemon::unit_log::diagnostics(&first.diagnostics);
    }

    facts.unit_path = first.paths.iter().map(|p| p.to_string_lossy().into_owned()).collect();
    let shared_tree = open_tree();
    if options.scope == Scope::User {
        facts.control_group = shared_tree.as_ref().map(root_path).unwrap_or_default();
    }
    let records = Records::at(options.record_dir());
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
        locks: options.runtime_dir.join("warren/locks"),
        left_over: options.left_over(),
    };
    let shared = Shared::new(
        settings.clone(),
        shared_tree,
        facts,
        places,
        Counters::new(greeting.welcome.incarnation),
        orders_in,
        wake.clone(),
    );
    let shared = Arc::new(shared);
    shared.publish_rules(first.applied.clone());
    init.store(GENERATION_NAME, first.file.fd()).map_err(text("storing descriptors with init"))?;
    let (loader_in, loader_orders) = channel();
    let for_loader = shared.clone();
    let stated = options.states_defaults().then_some(faults);
    std::thread::Builder::new()
        .name("loader".into())
        .stack_size(crate::config::fleet::STACK_BYTES)
        .spawn(move || LoaderThread::new(first, generators, stated, for_loader).run(loader_orders))
        .map_err(text("starting the loader"))?;

    let mut core = Core::new(settings, random_seed());
    core.set_without_cgroups(tree.is_none());
    core.set_without_swaps(warren_sys::process::in_container());
    core.set_boot_times(boot);
    let in_container =
        warren_sys::process::in_container() && options.scope == warren_unit::Scope::System;
    let machine_begin = if in_container { boot.userspace.monotonic } else { Monotonic(0) };
    core.set_place_in_time(machine_begin, zones::local());
    let for_zones = shared.clone();
    zones::watch(move |zone| for_zones.order(Order::ZoneSet(zone)));
    let epoll = Epoll::new().map_err(text("making an epoll instance"))?;
    let groups = Groups::new(tree);
    let traps = match std::mem::take(&mut kept.pipe) {
        [Some(reader), Some(writer)] => Traps::new(Some((reader, writer)), wake.clone()),
        _ => Traps::new(None, wake.clone()),
    };
    let notify = match kept.notify.take() {
        Some(fd) => Ok(NotifySocket::over(fd, &options.notify_socket())),
        None => NotifySocket::bind(&options.notify_socket()),
    };
    let users = Names::new(wake.clone());
    let servers = Servers { listeners: std::mem::take(&mut kept.listeners), ..Servers::default() };
    let triggers = Triggers {
        sockets: Sockets::new(wake.clone(), &options.runtime_dir),
        accepting: Accepting::default(),
        traps: traps.map_err(text("making the autofs pipe"))?,
        mounts: MountTable::unread(),
        paths: PathWatcher::start(wake.clone()).map_err(text("starting workers"))?,
        wall_clock: WallClock::watched(&epoll),
    };
    let mut watchdog = MachineWatchdog::default();
    if let Some(fd) = kept.watchdog.take() {
        watchdog.take_up(fd, began.monotonic);
    }
    let process = ProcessState {
        table: Processes::default(),
        init,
        notify: notify.map_err(text("binding the notify socket"))?,
        pid_files: Searches::start(wake.clone()).map_err(text("starting workers"))?,
        stored_fds: FdStore::default(),
        kills: Kills::start(wake.clone()).map_err(text("starting workers"))?,
        watchdog,
    };
    let cgroup = CgroupState {
        groups,
        of_slices: OfSlices::default(),
        unwatched_groups: UnwatchedGroups::default(),
        freezing: BTreeMap::new(),
        oomd: OomdGroups::default(),
        nft_sets: NftSets::default(),
        nft_thread: NftThread::default(),
    };
    let stages = Stages {
        startup: Startup::new(began),
        recovery: Recovery::new(greeting.welcome.incarnation),
        shutdown: Shutdown::new(wake.clone()),
    };
    let log_files = UnitLogFiles::new(options.log_dir());
    let event_loop = EventLoop {
        workers: Workers::start(wake.clone()).map_err(text("starting workers"))?,
        epoll,
        wake,
        orders,
        events: VecDeque::new(),
        tasks: Tasks::default(),
        checks: Vec::new(),
        pings: Pings::new(began.monotonic),
        leaving: None,
    };
    let mut daemon = Daemon {
        core,
        options,
        shared: shared.clone(),
        event_loop,
        stages,
        recording: Recording { state, recorder },
        clients: Clients::new(servers),
        loads: Loads::new(loader_in),
        peers: Peers { log_link, log_files, devices, bus_names: BusNames::default() },
        process,
        cgroup,
        spawning: Spawning::new(Helpers::new(greeting.helpers), environment, users),
        triggers,
    };
    daemon.keep_basics().map_err(text("storing descriptors with init"))?;
    daemon.watch_sources().map_err(text("watching event sources"))?;
    match restored {
        Some(restored) if is_soft_reboot => {
            daemon.record_beginning(units as u64);
            daemon.go_on(graph, restored, kept, reason, mounts)?;
        }
        Some(restored) => {
            daemon.recording.recorder.came_back(began.monotonic);
            daemon.go_on(graph, restored, kept, reason, mounts)?;
        }
        None => {
            daemon.record_beginning(units as u64);
            daemon.triggers.mounts = read(mounts)?;
            daemon.follow_client_settings(&ClientSettings::default());
            daemon.begin(graph);
        }
    }
    daemon.event_loop.tasks.do_last(Task::Begun);
    Ok(daemon)
}

pub(crate) fn read(mounts: Reading) -> Result<MountTable, StartError> {
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
    unit_log_file::make_directory(&options.log_dir())
}

/// What the last manager wrote, or a new file for the first. One that is not understood ends this manager:
/// without it nobody would know whose the processes and sockets are that there are already.
fn open_state(kept: Option<OwnedFd>) -> Result<(StateFile, Option<Restored>), StartError> {
    let Some(fd) = kept else {
        return Ok((StateFile::create().map_err(text("making the state file"))?, None));
    };
    let (file, restored) = StateFile::open(fd).map_err(|e| e.to_string())?;
    Ok((file, Some(restored)))
}

/// The cgroup tree that init told of.
fn open_tree() -> Option<Tree> {
    let path = std::env::var_os(CGROUP_ROOT_ENV).filter(|p| !p.is_empty()).map(PathBuf::from)?;
    match Tree::open(&path) {
        Ok(tree) => Some(tree),
        Err(e) => {
            say!("running running without cgroups: {e}");
            None
        }
    }
}

fn first_facts(settings: &Settings) -> Facts {
    Facts {
        version: format!("(warrener {})", env!("CARGO_PKG_VERSION")),
        machine_id: settings.context.machine_id.to_string(),
        architecture: settings.context.architecture.to_string(),
        virtualization: virtualization::container()
            .or_else(virtualization::machine)
            .unwrap_or_default()
            .to_owned(),
        control_group: String::new(),
        soft_reboots: soft_reboots(),
        defaults: settings.defaults.clone(),
        memory_bytes: crate::cgroup::limits::host_memory(),
        tasks_ceiling: crate::cgroup::limits::host_tasks(),
        ..Facts::default()
    }
}

/// How many soft reboots there were, by init's word.
pub(crate) fn soft_reboots() -> u32 {
    let told = std::env::var(SOFT_REBOOTS_ENV).unwrap_or_default();
    told.parse().unwrap_or(0)
}

/// When init had prepared the ground, by its word.
fn init_began() -> Option<Moment> {
    let told = std::env::var(BEGAN_ENV).ok()?;
    let (realtime, monotonic) = told.split_once(' ')?;
    let monotonic = Monotonic(monotonic.parse().ok()?);
    Some(Moment { monotonic, realtime_us: realtime.parse().ok()? })
}

impl Daemon {
    /// Init keeps what must outlive this process.
    fn keep_basics(&mut self) -> Result<(), warren_init::client::ClientError> {
        self.process.init.store(STATE_NAME, self.recording.state.fd())?;
        self.process.init.store(RECORD_NAME, self.recording.recorder.fd())?;
        self.process.init.store(NOTIFY_NAME, self.process.notify.fd())?;
        for (name, fd) in PIPE_NAMES.into_iter().zip(self.triggers.traps.pipe()) {
            self.process.init.store(name, fd)?;
        }
        Ok(())
    }

    fn watch_sources(&mut self) -> warren_sys::Result<()> {
        self.event_loop.epoll.add(self.process.init.socket(), token::INIT, Interest::READ)?;
        // Each notification is reported once: the counters need not be read.
        let notified = Interest::READ | Interest::EDGE;
        self.event_loop.epoll.add(self.process.init.wake_fd(), token::EXITS, notified)?;
        self.event_loop.epoll.add(self.event_loop.wake.as_fd(), token::WAKE, notified)?;
        self.event_loop.epoll.add(self.process.notify.fd(), token::NOTIFY, notify_interest())?;
        self.event_loop.epoll.add(self.peers.log_link.fd(), token::LOG, Interest::READ)?;
        self.watch_devices()?;
        self.event_loop.epoll.add(self.triggers.traps.reader(), token::TRAPS, Interest::READ)?;
        if let Some(watch) = self.cgroup.groups.watch() {
            self.event_loop.epoll.add(watch, token::GROUPS, Interest::READ)?;
        }
        if let Some(inotify) = self.triggers.paths.inotify() {
            self.event_loop.epoll.add(inotify, token::PATHS, Interest::READ)?;
        }
        if let Some(inotify) = self.process.pid_files.inotify() {
            self.event_loop.epoll.add(inotify, token::PID_FILES, Interest::READ)?;
        }
        Ok(())
    }

    /// What was done before there was a recorder.
    fn record_beginning(&mut self, units: u64) {
        use warren_bus::backend::Backend;
        self.recording.recorder.boot_began(self.stages.startup.began);
        let boot = self.shared.facts().boot;
        let phases = [(Phase::Generators, boot.generators, 0), (Phase::Load, boot.load, units)];
        for (phase, (began, ended), detail) in phases {
            if !began.is_never() {
                let (began, ended) = (began.monotonic, ended.monotonic);
                self.recording.recorder.did(recorder::Done { phase, began, ended, detail });
            }
        }
        self.recording
            .recorder
            .loaded(boot.load.1.monotonic.max(self.stages.startup.began.monotonic));
    }

    /// The first start.
    fn begin(&mut self, graph: Arc<Graph>) {
        for index in 0..self.spawning.helpers.count() {
            self.spawning.helpers.ask(index);
            self.watch_helper(index);
        }
        let added = (0..graph.len()).map(|i| UnitId(i as u32)).collect();
        let delta = warren_core::graph::Delta { added, ..Default::default() };
        self.foresee_devices(&graph);
        self.event_loop.events.push_back(Event::Commit { graph, delta: Box::new(delta) });
        self.event_loop.tasks.do_last(Task::FindMounts { vanished: false });
        self.event_loop.tasks.do_last(Task::Serve);
        self.event_loop.tasks.do_last(Task::StartFirstUnit);
    }

    /// Lets clients in, or leaves: without its socket nobody could tell this manager anything.
    pub(super) fn serve_or_leave(&mut self) {
        if let Err(error) = self.serve() {
            crate::base::say::last_words(&error);
            self.event_loop.leaving = Some(Leaving::Failed);
        }
    }

    /// Lets clients in.
    pub(crate) fn serve(&mut self) -> Result<(), StartError> {
        if !self.options.no_bus {
            let message_bus = Some(self.options.bus_socket());
            let (path, kept) =
                (self.options.private_socket(), self.clients.servers.listeners.private.take());
            match Bus::start(&path, kept, message_bus, self.shared.clone()) {
                Ok(bus) => {
                    self.keep_listener(PRIVATE_NAME, bus.listener());
                    self.shared.publish_authority(Some(bus.authority()));
                    self.clients.servers.bus = Some(bus);
                }
                Err(e) => say!("cannot serve systemctl: {e}"),
            }
        }
        let (path, kept) =
            (self.options.control_socket(), self.clients.servers.listeners.control.take());
        let control = server::start(&path, kept, self.shared.clone(), server::serve)
            .map_err(text("starting the control socket"))?;
        self.keep_listener(CONTROL_NAME, control.listener());
        self.clients.servers.control = Some(control);
        self.stages.startup.is_serving = true;
        self.serve_user_lookups();
        self.serve_varlink();
        Ok(())
    }

    /// Lets those in who ask for users that were made for a run. Without it they have numbers and no names.
    fn serve_user_lookups(&mut self) {
        if self.options.no_bus || self.core.settings().context.scope != warren_unit::Scope::System {
            return;
        }
        let (path, kept) =
            (self.options.user_lookup_socket(), self.clients.servers.listeners.users.take());
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let service = user_lookup::serve;
        match made.and_then(|()| server::start(&path, kept, self.shared.clone(), service)) {
            Ok(users) => {
                self.keep_listener(USERS_NAME, users.listener());
                self.clients.servers.users = Some(users);
            }
            Err(e) => say!("cannot serve lookups of dynamic users: {e}"),
        }
    }

    /// Lets those in who ask for units, jobs and the manager over varlink, which newer clients of systemd do.
    fn serve_varlink(&mut self) {
        if self.options.no_bus {
            return;
        }
        let (path, kept) =
            (self.options.varlink_socket(), self.clients.servers.listeners.varlink.take());
        let made = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        match made.and_then(|()| server::start(&path, kept, self.shared.clone(), varlink::serve)) {
            Ok(served) => {
                self.keep_listener(VARLINK_NAME, served.listener());
                self.clients.servers.varlink = Some(served);
                if let Err(e) = varlink::register(&self.options.varlink_registry()) {
                    say!(
                        "clients of varlink find the manager by the path of its socket alone: {e}"
                    );
                }
                let is_system = self.core.settings().context.scope == warren_unit::Scope::System;
                for path in self.options.managed_oom_sockets().iter().filter(|_| is_system) {
                    if let Err(e) = varlink::serve_oomd_at(path) {
                        say!("systemd-oomd cannot ask which units it is to look after: {e}");
                    }
                }
            }
            Err(e) => say!("cannot serve varlink: {e}"),
        }
    }

    /// Without it clients are turned away while there is no manager.
    fn keep_listener(&mut self, name: &str, listener: BorrowedFd<'_>) {
        if let Err(e) = self.process.init.store(name, listener) {
            say!("client connections will be lost when the manager restarts: {e}");
        }
    }
}

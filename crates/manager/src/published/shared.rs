//! What other threads may see of the manager: the newest view, and facts that change rarely.

use crate::base::answers::Bell;
use crate::base::clock::now;
use crate::base::command_line;
use crate::base::conditions::Host;
use crate::base::say::say;
use crate::cgroup::tree::root_path;
use crate::config::changed_on_disk::OnDisk;
use crate::config::file_states::FileStates;
use crate::config::fleet::{Applied, Shown};
use crate::published::counters::Counters;
use crate::published::locks::Locks;
use crate::published::oomd_view::OomdView;
use crate::published::orders::Order;
use crate::published::reloads::Reloads;
use crate::published::scheduled::Scheduled;
use crate::published::watchers::{Watch, Watchers};
use crate::recording::files::Records;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use warren_bus::Authority;
use warren_bus::backend::{Backend, Call, DeviceWords, Facts, Live, ReplySender, UnitFiles};
use warren_core::graph::Definition;
use warren_core::model::device_table;
use warren_core::model::device_table::{DeviceFacts, DeviceTable};
use warren_core::model::ids::UnitId;
use warren_core::model::time::Monotonic;
use warren_core::protocol::request::Asker;
use warren_core::settings::{Compiled, Settings};
use warren_core::view::View;
use warren_sys::bpf::{self, Hook};
use warren_sys::cgroup::Tree;
use warren_sys::eventfd::EventFd;
use warren_sys::passwd;
use warren_unit::install::UnitFileState;
use warren_unit::search::is_transient;
use warren_unit::settings::{Group, Id};
use warren_unit::{Context, Defaults, Scope, UnitName, UnitType};

const SOURCE_PATH: Id = Id::of(Group::Unit, "SourcePath");

/// The manager as other threads see it.
pub struct Shared {
    view: Mutex<Arc<View>>,
    facts: Mutex<Arc<Facts>>,
    states: Mutex<Arc<FileStates>>,
    /// None until the loader has looked, after a crash that is when it has read all files.
    disk: Mutex<Option<Arc<OnDisk>>>,
    devices: Mutex<Arc<DeviceTable>>,
    rules: Mutex<Applied>,
    shown: Mutex<Shown>,
    locks: Mutex<Locks>,
    plan: Mutex<Option<Scheduled>>,
    reloads_since: Mutex<Option<Monotonic>>,
    authority: Mutex<Option<Authority>>,
    /// Who is woken by a new view.
    watchers: Watchers,
    /// What systemd-oomd is to look after.
    pub(crate) oomd: OomdView,
    settings: Mutex<Settings>,
    context: Arc<Context>,
    users: Mutex<passwd::Current>,
    tree: Option<Tree>,
    /// [`root_path`] of it.
    root: String,
    orders: Sender<Order>,
    wake: Arc<EventFd>,
    /// What the loop counts of itself.
    pub counters: Counters,
    /// The last reloads that changed units.
    pub reloads: Reloads,
    /// Threads that look at conditions for clients.
    pub(crate) looks: Arc<AtomicUsize>,
    /// The search directories.
    pub unit_path: Vec<PathBuf>,
    /// Where the output of services goes while there is no log daemon.
    pub log_dir: PathBuf,
    /// Where the log daemon is asked.
    pub journal_socket: PathBuf,
    /// Recordings that are kept.
    pub records: Records,
    /// Where the last steps of an end say whom they wait for.
    pub left_over: PathBuf,
}

/// What a cgroup uses and has used; none where its controller is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time so far, in µs.
    pub cpu_us: Option<u64>,
    /// Memory now.
    pub memory_bytes: Option<u64>,
    /// Read and written so far, on all devices.
    pub io_bytes: Option<(u64, u64)>,
    /// Tasks now.
    pub tasks: Option<u64>,
}

/// Where things lie that other threads read.
pub struct Places {
    /// The search directories.
    pub unit_path: Vec<PathBuf>,
    /// Where the output of services goes while there is no log daemon.
    pub log_dir: PathBuf,
    /// Where the log daemon is asked.
    pub journal_socket: PathBuf,
    /// Where units that rules make say they are.
    pub rules: PathBuf,
    /// Recordings that are kept.
    pub records: Records,
    /// Where the next manager finds who holds locks against an end.
    pub locks: PathBuf,
    /// Where the last steps of an end say whom they wait for.
    pub left_over: PathBuf,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks can panic half-way. `shown` is held while files are
    // written below /run; the loop never takes it. So is `locks`, for one small file, and the loop takes it only
    // when an end that was planned is due.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Over an empty view.
    pub fn new(
        settings: Settings,
        tree: Option<Tree>,
        facts: Facts,
        places: Places,
        counters: Counters,
        orders: Sender<Order>,
        wake: Arc<EventFd>,
    ) -> Shared {
        Shared {
            view: Mutex::default(),
            facts: Mutex::new(Arc::new(facts)),
            states: Mutex::default(),
            disk: Mutex::default(),
            devices: Mutex::default(),
            rules: Mutex::default(),
            shown: Mutex::new(Shown::new(places.rules)),
            locks: Mutex::new(Locks::in_file(places.locks.clone())),
            plan: Mutex::default(),
            reloads_since: Mutex::default(),
            authority: Mutex::default(),
            watchers: Watchers::default(),
            oomd: OomdView::default(),
            context: settings.context.clone(),
            settings: Mutex::new(settings),
            users: Mutex::default(),
            root: tree.as_ref().map(root_path).unwrap_or_default(),
            tree,
            orders,
            wake,
            counters,
            reloads: Reloads::new(now()),
            looks: Arc::default(),
            unit_path: places.unit_path,
            log_dir: places.log_dir,
            journal_socket: places.journal_socket,
            records: places.records,
            left_over: places.left_over,
        }
    }

    /// Whose manager this is.
    pub(crate) fn scope(&self) -> Scope {
        self.context.scope
    }

    /// A group as clients are told of it. Clients of a user's manager look for it in the tree of the machine.
    pub(crate) fn shown_path(&self, path: &str) -> String {
        match (self.context.scope, path) {
            (Scope::System, _) => format!("/{path}"),
            (Scope::User, "") if !self.root.is_empty() => self.root.clone(),
            (Scope::User, _) => format!("{}/{path}", self.root),
        }
    }

    /// Puts up a new view, and wakes who waits for one.
    pub fn publish(&self, view: Arc<View>) {
        *lock(&self.view) = view;
        self.watchers.wake();
    }

    /// Has a bell ring with each new view, for as long as the value is kept.
    pub fn watch(&self, bell: &Arc<Bell>) -> Watch<'_> {
        self.watchers.watch(bell)
    }

    /// Says that a reload is under way, or that none is any more.
    pub fn publish_reload(&self, under_way: bool, now: Monotonic) {
        let mut since = lock(&self.reloads_since);
        *since = under_way.then(|| since.unwrap_or(now));
    }

    /// Since when a reload is under way.
    pub fn reloads_since(&self) -> Option<Monotonic> {
        *lock(&self.reloads_since)
    }

    /// Puts up where polkit is asked.
    pub fn publish_authority(&self, authority: Option<Authority>) {
        *lock(&self.authority) = authority;
    }

    /// Where polkit is asked; nowhere without a bus.
    pub fn authority(&self) -> Option<Authority> {
        lock(&self.authority).clone()
    }

    /// Puts up what is known of devices.
    pub fn publish_devices(&self, devices: Arc<DeviceTable>) {
        *lock(&self.devices) = devices;
    }

    /// What is known of devices.
    pub fn devices(&self) -> Arc<DeviceTable> {
        lock(&self.devices).clone()
    }

    /// Puts up installation states, unless newer ones are up: those that go with a generation take
    /// their way through the loop.
    pub fn publish_states(&self, states: Arc<FileStates>) {
        let mut now = lock(&self.states);
        if states.number >= now.number {
            *now = states;
        }
    }

    /// Puts up what is known of the disk.
    pub fn publish_disk(&self, disk: OnDisk) {
        *lock(&self.disk) = Some(Arc::new(disk));
    }

    /// Whether the unit's files are other than what is in force, as far as that is known.
    pub fn differs_on_disk(&self, definition: &Definition) -> bool {
        let Some(disk) = lock(&self.disk).clone() else { return false };
        if definition.is_of_kernel() {
            return false;
        }
        let mut files = definition.files.iter();
        let has_source = files.any(|file| file.entries().any(|e| e.setting == SOURCE_PATH));
        let source_differs = || {
            let source = self.settings().compile(definition).section.source_path.clone();
            source.is_some_and(|path| disk.source_differs(&path))
        };
        disk.differs(definition, &self.unit_path) || has_source && source_differs()
    }

    /// Installation states of all unit files.
    pub fn states(&self) -> Arc<FileStates> {
        lock(&self.states).clone()
    }

    /// Puts up what rules made that goes with a generation.
    pub fn publish_rules(&self, rules: Applied) {
        *lock(&self.rules) = rules;
    }

    /// What rules made.
    pub fn rules(&self) -> Applied {
        lock(&self.rules).clone()
    }

    /// Puts up the end that is to come.
    pub fn publish_plan(&self, plan: Option<Scheduled>) {
        *lock(&self.plan) = plan;
    }

    /// The end that is to come.
    pub fn plan(&self) -> Option<Scheduled> {
        lock(&self.plan).clone()
    }

    /// Locks against an end.
    pub fn locks(&self) -> Vec<crate::published::locks::Lock> {
        lock(&self.locks).all()
    }

    /// When those that an earlier manager knew of and that nobody has taken again do not count any more.
    pub fn locks_awaited_until(&self) -> Option<std::time::Instant> {
        lock(&self.locks).awaited_until()
    }

    /// Changes them.
    pub fn change_locks<T>(&self, change: impl FnOnce(&mut Locks) -> T) -> T {
        change(&mut lock(&self.locks))
    }

    /// The text of a file that rules made; `Some(None)` if not every user may read the files it was made from
    /// and the asker is not `privileged`. Nothing if the path is that of another file.
    pub fn made_text(&self, path: &str, privileged: bool) -> Option<Option<String>> {
        let directory = lock(&self.shown).directory().to_owned();
        let rules = self.rules();
        let text = Shown::text(&directory, &rules, path)?;
        let may_read = privileged || Shown::is_open(&directory, &rules, path);
        Some(may_read.then_some(text))
    }

    /// Has the files of a definition on the disk that rules made: whoever asks for their paths
    /// wants to read them.
    fn show_made(&self, definition: &Definition) {
        let rules = self.rules();
        if rules.is_empty() {
            return;
        }
        let mut shown = lock(&self.shown);
        for path in definition.file_paths() {
            shown.show(&rules, &path);
        }
    }

    /// Changes the facts.
    pub fn change_facts(&self, change: impl FnOnce(&mut Facts)) {
        let mut facts = (*self.facts()).clone();
        change(&mut facts);
        *lock(&self.facts) = Arc::new(facts);
    }

    /// Hands an order to the loop. Never waits.
    pub fn order(&self, order: Order) {
        if self.orders.send(order).is_ok() {
            self.wake.notify();
        }
    }

    /// What wakes the loop.
    pub(crate) fn waker(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// What conditions are looked at on.
    pub fn host<'a>(&'a self, facts: &'a Facts) -> Host<'a> {
        Host {
            context: &self.context,
            environment: &facts.environment,
            virtualization: &facts.virtualization,
            tree: self.tree.as_ref(),
        }
    }

    /// What units are compiled with.
    pub fn settings(&self) -> Settings {
        lock(&self.settings).clone()
    }

    /// Has units compiled with other defaults.
    pub fn set_defaults(&self, defaults: Arc<Defaults>) {
        lock(&self.settings).defaults = defaults.clone();
        self.change_facts(|facts| facts.defaults = defaults);
    }

    /// The processes of a unit's cgroup.
    pub fn processes(&self, view: &View, unit: UnitId) -> Vec<i32> {
        let path = view.group_path(unit);
        self.tree.as_ref().and_then(|tree| tree.procs_below(&*path).ok()).unwrap_or_default()
    }

    /// What a cgroup uses and has used.
    pub fn usage(&self, group: &str) -> Usage {
        let Some(tree) = &self.tree else { return Usage::default() };
        Usage {
            cpu_us: tree.cpu_usage_us(group).ok(),
            memory_bytes: tree.memory_current(group).ok(),
            io_bytes: tree.io_bytes(group).ok(),
            tasks: tree.pids_current(group).ok(),
        }
    }

    /// The absolute path of the cgroup tree's root.
    pub fn tree_path(&self) -> Option<PathBuf> {
        self.tree.as_ref().map(|tree| tree.path().to_path_buf())
    }
}

/// Whether a unit has a cgroup. Those of the units that are always there are nobody's to make.
fn has_group(view: &View, unit: UnitId) -> bool {
    let definition = view.graph.definition(unit);
    let always = matches!(definition.unit_type(), UnitType::Slice | UnitType::Scope)
        && definition.flags.perpetual();
    always || view.run(unit).history.as_ref().is_some_and(|h| h.has_cgroup)
}

/// A thread of the kernel has no program (proc(5), `/proc/pid/exe`); neither has a zombie.
fn is_kernel_thread(pid: i32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe"))
        .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

impl Backend for Shared {
    fn view(&self) -> Arc<View> {
        lock(&self.view).clone()
    }

    fn call(&self, asker: Asker, call: Call, reply: ReplySender) {
        self.order(Order::Call { asker, call, reply });
    }

    fn refer(&self, unit: UnitId, on: bool) {
        self.order(Order::Refer(unit, on));
    }

    fn remark(&self, text: &str) {
        say!("{text}");
    }

    fn compiled(&self, definition: &Definition) -> Arc<Compiled> {
        Arc::new(self.settings().compile(definition))
    }

    fn identity(
        &self,
        user: Option<&str>,
        group: Option<&str>,
        main: Option<u32>,
    ) -> [Option<u32>; 2] {
        let mut users = lock(&self.users);
        // If it cannot be read now, what was there before counts.
        let _ = users.refresh();
        let files = users.database();
        let of_main = || main.and_then(warren_sys::process::real_ids);
        let found = user.and_then(|name| files.user(name));
        let of_group = group.map(|name| files.group(name).map(|group| group.gid));
        let uid = found.as_ref().map(|user| user.uid);
        let gid = of_group.unwrap_or(found.map(|user| user.gid));
        let uid = uid.or_else(|| user.and(of_main().map(|(uid, _)| uid)));
        [uid, gid.or_else(|| of_main().map(|(_, gid)| gid))]
    }

    /// Also of one that a unit's processes made.
    fn unit_of_process(&self, pid: u32) -> Option<UnitId> {
        let view = self.view();
        view.unit_of_process(pid).or_else(|| {
            let pid = i32::try_from(pid).ok()?;
            self.tree.as_ref()?;
            crate::cgroup::tree::unit_of_process(&self.root, &view.graph, pid)
        })
    }

    fn files(&self, definition: &Definition) -> UnitFiles {
        self.show_made(definition);
        let path = |file: &Arc<warren_unit::parse::UnitFile>| Box::from(&**file.path());
        let is_of_kernel = definition.is_of_kernel();
        let fragment = definition.files.fragment.as_ref().filter(|_| !is_of_kernel).map(path);
        let states = self.states();
        // A mask is a link, which nobody reads.
        let fragment = fragment.or_else(|| {
            let mask = || states.path(&definition.name).map(String::into_boxed_str);
            definition.files.masked().then(mask).flatten()
        });
        let transient = fragment.as_ref().is_some_and(|path| is_transient(path));
        UnitFiles {
            fragment,
            drop_ins: definition.files.dropins().iter().map(path).collect(),
            state: states.get(&definition.name).map_or("", UnitFileState::as_str),
            transient,
        }
    }

    fn unit_file_state(&self, name: &str) -> Option<&'static str> {
        let name = UnitName::parse(name).ok()?;
        self.states().get(&name).map(UnitFileState::as_str)
    }

    fn default_target(&self) -> Option<String> {
        self.states().default_target.as_ref().map(UnitName::to_string)
    }

    /// While a reload is under way, which may wait for a server, what was known before it is told, if anything was.
    fn knows_unit_files(&self, unit: Option<&UnitName>) -> bool {
        let disk = lock(&self.disk).clone();
        let was_known = || self.reloads_since().is_some() && self.states().number > 0;
        was_known() || disk.is_some_and(|disk| disk.knows_state(unit))
    }

    fn each_unit_file(&self, show: &mut dyn FnMut(&str, &'static str)) {
        self.states().files().for_each(|(path, state)| show(&path, state.as_str()));
    }

    fn preset(&self, definition: &Definition) -> &'static str {
        let files = &definition.files;
        let has_file = files.masked() || files.fragment.is_some() && !definition.is_of_kernel();
        if has_file { self.states().preset(&definition.name) } else { "" }
    }

    fn differs_on_disk(&self, definition: &Definition) -> bool {
        Shared::differs_on_disk(self, definition)
    }

    fn processes(&self, unit: UnitId) -> Vec<(String, u32, String)> {
        let (view, mut found) = (self.view(), Vec::new());
        let (Some(tree), true) = (&self.tree, has_group(&view, unit)) else { return found };
        let top = view.group_path(unit);
        let _ = tree.each_below(Path::new(&*top), &mut |group, pids| {
            let path = self.shown_path(&group.to_string_lossy());
            let line = |pid: i32| (path.clone(), pid.cast_unsigned(), command_line::of(pid));
            // Threads of the kernel are all in the root.
            let is_root = group == Path::new("");
            let is_told = |&pid: &i32| !(is_root && is_kernel_thread(pid));
            found.extend(pids.into_iter().filter(is_told).map(line));
        });
        found
    }

    fn live(&self, unit: UnitId) -> Live {
        let view = self.view();
        let (Some(tree), true) = (&self.tree, has_group(&view, unit)) else {
            let history = view.run(unit).history.as_deref();
            let used = history.and_then(|h| h.account.as_ref()?.cpu_us);
            return Live { cpu_usage_nsec: used.map(|us| us * 1000), ..Live::default() };
        };
        let path = view.group_path(unit);
        // Without the controller they are counted, but not those of all units of a slice.
        let is_slice = view.graph.definition(unit).unit_type() == UnitType::Slice;
        let count = || tree.procs_below(&*path).ok().map(|pids| pids.len() as u64);
        let counted = || (!is_slice).then(count).flatten();
        let io = tree.io_counts(&path).ok();
        let id = tree.id(&path).ok();
        let group = tree.open_dir(&*path).ok().zip(id);
        let counted_at = |hook| {
            let (group, id) = group.as_ref()?;
            let found = bpf::counters(group.as_fd(), *id, hook).ok().flatten()?;
            Some((found.bytes, found.packets))
        };
        let ip_ingress = counted_at(Hook::Ingress);
        let ip_egress = ip_ingress.and_then(|_| counted_at(Hook::Egress));
        Live {
            ip_ingress,
            ip_egress,
            control_group_id: id,
            memory_current: tree.memory_current(&path).ok(),
            cpu_usage_nsec: tree.cpu_usage_us(&path).ok().map(|us| us * 1000),
            tasks_current: tree.pids_current(&path).ok().or_else(counted),
            control_group: self.shown_path(&path),
            io_read_bytes: io.map(|io| io.read_bytes),
            io_read_operations: io.map(|io| io.reads),
            io_write_bytes: io.map(|io| io.written_bytes),
            io_write_operations: io.map(|io| io.writes),
        }
    }

    fn device(&self, definition: &Definition) -> DeviceWords {
        let table = self.devices();
        let facts = table.ready(&definition.name);
        facts.map_or_else(DeviceWords::default, |facts| device_words(&definition.name, facts))
    }

    fn device_units(&self) -> Vec<(UnitName, DeviceWords)> {
        let table = self.devices();
        let units = table.ready_units();
        units.map(|(name, facts)| (name.clone(), device_words(name, facts))).collect()
    }

    fn facts(&self) -> Arc<Facts> {
        lock(&self.facts).clone()
    }
}

/// What is known of the device of a unit of it.
fn device_words(name: &UnitName, facts: &DeviceFacts) -> DeviceWords {
    let main = device_table::main_unit(facts).filter(|main| main != name);
    DeviceWords {
        following: main.map_or_else(String::new, |main| main.as_str().to_owned()),
        title: facts.title.clone(),
        sysfs_path: facts.path.clone(),
    }
}

//! A manager for tests: the real core and the real loader over unit files given as text, with a
//! kernel that does at once whatever it is asked for.
//!
//! `/bin/true` and `/bin/kill` end with 0, `/bin/false` with 1, everything else runs until it is killed.

#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use warren_bus::backend::*;
use warren_bus::{Announcement, Bus, BusError};
use warren_core::graph::{Change, Definition, Files, NewDefinition};
use warren_core::machine::Core;
use warren_core::model::ids::{ClientId, UnitId};
use warren_core::model::process::ExitStatus;
use warren_core::model::time::{Moment, Monotonic};
use warren_core::protocol::event::{Done, Effect, Event, Verdict};
use warren_core::protocol::request::{Asker, Notice, Reply, Request};
use warren_core::settings::{Compiled, Settings};
use warren_core::view::View;
pub use warren_testkit::Scratch;
use warren_unit::config::Condition;
use warren_unit::install::Remark;
use warren_unit::load::{Sources, load};
use warren_unit::parse::parse;
use warren_unit::{Context, Defaults, UnitName};

pub mod client;
pub mod played;

/// The manager.
pub struct Machine {
    settings: Settings,
    inner: Mutex<Inner>,
    view: Mutex<Arc<View>>,
    bus: Mutex<Option<Bus>>,
    /// What was asked for, for tests that look at it.
    pub asked: Mutex<Vec<Call>>,
    /// Questions about links, and orders to end all jobs, for tests that leave them unanswered.
    pub unanswered: Mutex<Option<Vec<ReplySender>>>,
    /// How often the unit files were listed.
    pub listed: AtomicUsize,
    /// Whether what is told of unit files is what lies on the disk.
    pub has_looked: AtomicBool,
    /// How often properties of units were compiled.
    pub compiled: AtomicUsize,
    /// How often a view was asked for.
    pub viewed: AtomicUsize,
    /// What clients on the bus refer to: whether, in turn.
    referred: Mutex<Vec<bool>>,
}

struct Inner {
    core: Core,
    now: u64,
    next_pid: u32,
    pids: BTreeMap<u32, UnitId>,
    /// Unit files by name.
    disk: BTreeMap<String, String>,
    enabled: BTreeSet<String>,
    masked: BTreeSet<String>,
    default_target: String,
    environment: Vec<String>,
    replies: Vec<(ClientId, Reply)>,
    notices: Vec<Notice>,
}

pub fn name(text: &str) -> UnitName {
    UnitName::parse(text).expect("test units have valid names")
}

/// Splits `== a.service` headed parts into files.
pub fn split_files(text: &str) -> BTreeMap<String, String> {
    let parts = text.split("== ").skip(1).filter_map(|part| part.split_once('\n'));
    parts.map(|(name, body)| (name.trim().to_owned(), body.to_owned())).collect()
}

impl Machine {
    /// Loads the units of `files` (see [`split_files`]) and what is always there.
    pub fn new(files: &str) -> Arc<Machine> {
        let settings = Settings {
            context: Arc::new(Context::system()),
            defaults: Arc::new(Defaults::default()),
        };
        let inner = Inner {
            core: Core::new(settings.clone(), 7),
            now: 1_000_000,
            next_pid: 5000,
            pids: BTreeMap::new(),
            disk: split_files(files),
            enabled: BTreeSet::new(),
            masked: BTreeSet::from(["masked.service".to_owned()]),
            default_target: "multi-user.target".to_owned(),
            environment: vec!["LANG=C.UTF-8".to_owned()],
            replies: Vec::new(),
            notices: Vec::new(),
        };
        let machine = Machine {
            settings,
            inner: Mutex::new(inner),
            view: Mutex::default(),
            bus: Mutex::default(),
            asked: Mutex::default(),
            unanswered: Mutex::default(),
            listed: AtomicUsize::default(),
            has_looked: AtomicBool::new(true),
            compiled: AtomicUsize::default(),
            viewed: AtomicUsize::default(),
            referred: Mutex::default(),
        };
        let machine = Arc::new(machine);
        machine.load_all();
        machine
    }

    fn load_all(&self) {
        let mut inner = self.inner.lock().unwrap();
        let mut names: BTreeSet<String> = inner.disk.keys().cloned().collect();
        names.extend(
            ["-.slice", "-.mount", "system.slice", "init.scope", "masked.service"]
                .map(str::to_owned),
        );
        names.retain(|name| !name.contains("@."));
        for name in names {
            inner.load(&self.settings, &name);
        }
        inner.load_named(&self.settings);
        inner.core.set_startup_finished();
        let _ = inner.settle();
        *self.view.lock().unwrap() = Arc::new(inner.core.view());
    }

    /// Serves at `path`.
    pub fn serve(self: &Arc<Machine>, path: &Path) {
        self.serve_and_join(path, None);
    }

    /// The same, and on the message bus at `message_bus` too.
    pub fn serve_and_join(self: &Arc<Machine>, path: &Path, message_bus: Option<PathBuf>) {
        let bus = Bus::start(path, None, message_bus, self.clone()).expect("a bus can be started");
        *self.bus.lock().unwrap() = Some(bus);
    }

    /// The same by a manager that comes after one that has just ended.
    pub fn inherit(self: &Arc<Machine>, path: &Path, message_bus: Option<PathBuf>) {
        let mut served = self.bus.lock().unwrap();
        let mut earlier = served.take().expect("it serves");
        let kept = earlier.listener().try_clone_to_owned().expect("a descriptor is free");
        earlier.leave_socket();
        drop(earlier);
        let bus = Bus::start(path, Some(kept), message_bus, self.clone());
        *served = Some(bus.expect("a bus can be started"));
    }

    /// Where polkit is asked for clients of other sockets.
    pub fn authority(&self) -> warren_bus::Authority {
        self.bus.lock().unwrap().as_ref().expect("it serves").authority()
    }

    /// Ends the bus.
    pub fn stop(&self) {
        let bus = self.bus.lock().unwrap().take();
        drop(bus);
    }

    /// Whether clients on the bus refer to units, as it changed since this was last asked.
    pub fn take_referred(&self) -> String {
        let all = std::mem::take(&mut *self.referred.lock().unwrap());
        all.iter().map(bool::to_string).collect::<Vec<_>>().join(" ")
    }

    /// Does `work` while whoever asks for facts about units waits.
    pub fn while_held(&self, work: impl FnOnce()) {
        let _held = self.inner.lock().unwrap();
        work();
    }

    /// Whether the unit is active.
    pub fn is_up(&self, unit: &str) -> bool {
        let view = self.view();
        view.lookup(&name(unit)).is_some_and(|unit| view.active_state(unit).is_up())
    }

    /// Tells all subscribers.
    pub fn announce(&self, announcement: Announcement) {
        if let Some(bus) = &*self.bus.lock().unwrap() {
            bus.announce(announcement);
        }
    }

    /// Tells subscribers that these units changed.
    pub fn touch(&self, units: Vec<UnitId>) {
        if let Some(bus) = &*self.bus.lock().unwrap() {
            bus.publish(&self.view(), units, Vec::new());
        }
    }

    /// Starts a unit outside of any client's request.
    pub fn start(&self, unit: &str) {
        let call = Call::Enqueue {
            unit: name(unit),
            job_type: warren_core::model::job::JobType::Start,
            mode: warren_core::model::job::JobMode::Replace,
            reload_if_possible: false,
        };
        self.call(Asker::default(), call, ReplySender::new(|_| ()));
    }

    fn publish(&self, inner: &mut Inner) -> (Vec<UnitId>, Vec<Notice>) {
        *self.view.lock().unwrap() = Arc::new(inner.core.view());
        (inner.core.take_changed().into_iter().collect(), std::mem::take(&mut inner.notices))
    }

    fn answer(&self, inner: &mut Inner, asker: Asker, call: Call) -> Outcome {
        match call {
            Call::Enqueue { unit, job_type, mode, reload_if_possible } => {
                let unit = inner.ensure(&self.settings, &unit);
                let request = Request::Enqueue { unit, job_type, mode, reload_if_possible };
                inner.request(asker, request)
            }
            Call::LoadUnit(unit) => Ok(Answer::Unit(inner.ensure(&self.settings, &unit))),
            Call::StartTransient(made) => {
                let unit = inner.ensure(&self.settings, &made.unit);
                inner.request(
                    asker,
                    match made.pids.is_empty() {
                        true => {
                            let job_type = warren_core::model::job::JobType::Start;
                            let reload_if_possible = false;
                            Request::Enqueue { unit, job_type, mode: made.mode, reload_if_possible }
                        }
                        false => {
                            Request::StartScope { unit, mode: made.mode, pids: made.pids.into() }
                        }
                    },
                )
            }
            Call::SetMarkers { unit, change } => {
                inner.request(asker, Request::SetMarkers { unit, change })
            }
            Call::EnqueueMarked => inner.request(asker, Request::EnqueueMarked),
            Call::EnqueueMany { units, job_type, mode, reload_if_possible } => {
                let units = units.into();
                inner.request(
                    asker,
                    Request::EnqueueMany { units, job_type, mode, reload_if_possible },
                )
            }
            Call::DumpStoredFds(_) => Ok(Answer::StoredFds(Vec::new())),
            Call::QueueSignal { .. } | Call::KillSubgroup { .. } | Call::RemoveSubgroup { .. } => {
                Ok(Answer::Done)
            }
            Call::SetProperties { .. } | Call::Attach { .. } | Call::MountInto { .. } => {
                Ok(Answer::Done)
            }
            Call::AbandonScope(unit) => inner.request(asker, Request::AbandonScope(unit)),
            Call::CancelJob(job) => inner.request(asker, Request::CancelJob(job)),
            Call::ClearJobs => inner.request(asker, Request::ClearJobs),
            Call::ResetFailed(unit) => inner.request(asker, Request::ResetFailed(unit)),
            Call::Kill { unit, whom, signal } => {
                inner.request(asker, Request::Kill { unit, whom, signal })
            }
            Call::Freeze { unit, frozen } => inner.request(asker, Request::Freeze { unit, frozen }),
            Call::Clean { unit, kinds } => inner.request(asker, Request::Clean { unit, kinds }),
            Call::ForgetStamp(_) | Call::ReloadConfiguration | Call::Reexecute => Ok(Answer::Done),
            Call::Leave(_) | Call::LeaveInOrder(_) => Ok(Answer::Done),
            Call::SetExitCode(_) | Call::SetProperty(_) => Ok(Answer::Done),
            Call::UnitFiles(op) => inner.unit_files(op),
            Call::GetUnitFileLinks { .. } => Ok(Answer::Texts(Vec::new())),
            Call::LookAtUnitFiles(_) => {
                self.has_looked.store(true, Ordering::Relaxed);
                Ok(Answer::Done)
            }
            Call::Environment { unset, set } => {
                inner.environment.retain(|old| {
                    !unset.contains(old)
                        && !unset.contains(&old.split('=').next().unwrap().to_owned())
                });
                inner.environment.extend(set);
                Ok(Answer::Done)
            }
        }
    }
}

impl Backend for Machine {
    fn view(&self) -> Arc<View> {
        self.viewed.fetch_add(1, Ordering::Relaxed);
        self.view.lock().unwrap().clone()
    }

    fn call(&self, asker: Asker, call: Call, reply: ReplySender) {
        self.asked.lock().unwrap().push(call.clone());
        let is_left = matches!(call, Call::GetUnitFileLinks { .. } | Call::ClearJobs);
        if let Some(unanswered) = self.unanswered.lock().unwrap().as_mut().filter(|_| is_left) {
            return unanswered.push(reply);
        }
        let mut inner = self.inner.lock().unwrap();
        let reloads = call == Call::ReloadConfiguration;
        let files_change = matches!(call, Call::UnitFiles(_));
        let outcome = self.answer(&mut inner, asker, call);
        let (changed, notices) = self.publish(&mut inner);
        drop(inner);
        if reloads {
            self.announce(Announcement::Reloading(true));
        }
        reply.send(outcome);
        if let Some(bus) = &*self.bus.lock().unwrap() {
            bus.publish(&self.view(), changed, notices);
        }
        if reloads {
            self.announce(Announcement::Reloading(false));
        }
        if files_change {
            self.announce(Announcement::UnitFilesChanged);
        }
    }

    fn refer(&self, _: UnitId, on: bool) {
        self.referred.lock().unwrap().push(on);
    }

    fn compiled(&self, definition: &Definition) -> Arc<Compiled> {
        self.compiled.fetch_add(1, Ordering::Relaxed);
        Arc::new(self.settings.compile(definition))
    }

    fn files(&self, definition: &Definition) -> UnitFiles {
        let inner = self.inner.lock().unwrap();
        let fragment = definition.files.fragment.as_ref().map(|file| Box::from(&**file.path()));
        UnitFiles {
            state: if fragment.is_some() { inner.file_state(definition.name.as_str()) } else { "" },
            fragment,
            ..UnitFiles::default()
        }
    }

    fn unit_file_state(&self, name: &str) -> Option<&'static str> {
        Some(self.inner.lock().unwrap().file_state(name)).filter(|state| !state.is_empty())
    }

    fn knows_unit_files(&self, _: Option<&UnitName>) -> bool {
        self.has_looked.load(Ordering::Relaxed)
    }

    fn each_unit_file(&self, show: &mut dyn FnMut(&str, &'static str)) {
        self.listed.fetch_add(1, Ordering::Relaxed);
        let inner = self.inner.lock().unwrap();
        for name in inner.disk.keys() {
            show(&format!("/etc/systemd/system/{name}"), inner.file_state(name));
        }
    }

    fn default_target(&self) -> Option<String> {
        Some(self.inner.lock().unwrap().default_target.clone())
    }

    fn preset(&self, definition: &Definition) -> &'static str {
        if definition.files.fragment.is_some() { "enabled" } else { "" }
    }

    fn differs_on_disk(&self, _: &Definition) -> bool {
        false
    }

    fn processes(&self, unit: UnitId) -> Vec<(String, u32, String)> {
        let inner = self.inner.lock().unwrap();
        let own = inner.pids.iter().filter(|(_, of)| **of == unit);
        own.map(|(pid, _)| ("/".into(), *pid, "cmd".into())).collect()
    }

    fn live(&self, unit: UnitId) -> Live {
        let view = self.view();
        let up = view.active_state(unit).is_up();
        let group = format!("/system.slice/{}", view.definition(unit).name);
        Live { control_group: if up { group } else { String::new() }, ..Live::default() }
    }

    fn identity(
        &self,
        user: Option<&str>,
        group: Option<&str>,
        _: Option<u32>,
    ) -> [Option<u32>; 2] {
        [user, group.or(user)].map(|name| name.map(|_| 65534))
    }

    fn facts(&self) -> Arc<Facts> {
        Arc::new(Facts {
            version: "(warrener 0.1.0)".to_owned(),
            machine_id: "0123456789abcdef0123456789abcdef".to_owned(),
            architecture: "x86-64".to_owned(),
            unit_path: vec!["/etc/systemd/system".to_owned()],
            environment: self.inner.lock().unwrap().environment.clone(),
            tasks_ceiling: 192_686,
            memory_bytes: 1 << 34,
            ..Facts::default()
        })
    }
}

impl Inner {
    fn tick(&mut self) -> Moment {
        self.now += 10;
        Moment { monotonic: Monotonic(self.now), realtime_us: 1_795_000_000_000_000 + self.now }
    }

    /// The unit of this name, loaded if it was not.
    fn ensure(&mut self, settings: &Settings, unit: &UnitName) -> UnitId {
        if self.core.graph().lookup(unit).is_none() {
            self.load(settings, unit.as_str());
            self.load_named(settings);
            let _ = self.settle();
        }
        self.core.graph().lookup(unit).expect("it was just loaded")
    }

    /// Loads what loaded units name.
    fn load_named(&mut self, settings: &Settings) {
        let mut at = 0;
        while at < self.core.graph().len() {
            let id = UnitId(u32::try_from(at).expect("a handful"));
            let definition = self.core.graph().definition(id).clone();
            if definition.load_state == warren_unit::LoadState::NotFound {
                self.load(settings, definition.name.as_str());
            }
            at += 1;
        }
    }

    fn load(&mut self, settings: &Settings, text: &str) {
        let unit = name(text);
        let template = unit.template().map(|template| template.to_string());
        let found = self.disk.get(text).or_else(|| self.disk.get(&template.unwrap_or_default()));
        let fragment = found.map(|body| {
            let path = Arc::from(format!("/etc/systemd/system/{text}"));
            Arc::new(parse(path, body.as_bytes(), unit.unit_type()).0)
        });
        let masked = self.masked.contains(text);
        let files = Files::new(fragment, Vec::new(), Vec::new(), masked);
        let sources: Sources<'_> = files.sources();
        let (loaded, _) = load(&unit, &sources, &settings.context, &settings.defaults);
        let new = NewDefinition {
            name: unit,
            aliases: Vec::new(),
            load_state: loaded.load_state,
            description: loaded.description,
            flags: loaded.flags,
            slice: loaded.slice,
            relations: loaded.relations.into(),
            files,
        };
        let (graph, delta) = self.core.graph().apply(vec![Change::Set(Box::new(new))]);
        let now = self.tick();
        let commit = Event::Commit { graph: Arc::new(graph), delta: Box::new(delta) };
        let effects = self.core.step(now, commit);
        self.carry_out(effects);
    }

    fn request(&mut self, asker: Asker, request: Request) -> Outcome {
        let now = self.tick();
        let client = ClientId(1);
        let effects = self.core.step(now, Event::Request { client, asker, request });
        self.carry_out(effects);
        match self.replies.pop() {
            Some((_, Reply::Job { job, unit, kind, affected })) => {
                Ok(Answer::Job { job, unit, kind, affected })
            }
            Some((_, Reply::Jobs(jobs))) => Ok(Answer::Jobs(jobs)),
            Some((_, Reply::JobsOf(jobs))) => Ok(Answer::JobsOf(jobs)),
            Some((_, Reply::Refused(refusal))) => Err(refusal.into()),
            _ => Ok(Answer::Done),
        }
    }

    fn settle(&mut self) -> usize {
        let now = self.tick();
        let effects = self.core.step(now, Event::Tick);
        self.carry_out(effects)
    }

    /// Does what is asked for, and what that leads to, until nothing is left.
    fn carry_out(&mut self, effects: Vec<Effect>) -> usize {
        let mut todo: VecDeque<Effect> = effects.into();
        let mut done = 0;
        while let Some(effect) = todo.pop_front() {
            done += 1;
            assert!(done < 100_000, "the machine does not come to rest");
            for event in self.events_of(effect) {
                let now = self.tick();
                todo.extend(self.core.step(now, event));
            }
        }
        done
    }

    fn events_of(&mut self, effect: Effect) -> Vec<Event> {
        let id = effect.id();
        let result = match effect {
            Effect::CheckConditions { section, .. } => {
                let verdict = |list: &[Condition]| Verdict::of(list, |c| &*c.parameter != "/nope");
                Done::Conditions {
                    conditions: verdict(&section.conditions),
                    asserts: verdict(&section.asserts),
                }
            }
            Effect::Spawn(id, spawn) => return self.spawn(id, &spawn),
            Effect::Listen { .. } => Done::Listening { fds: 1 },
            Effect::Kill { id, unit, signal, .. } => return self.kill(id, unit, signal),
            Effect::KillGroup { unit } => return self.end_all(unit, 9),
            Effect::FindMain { .. } => Done::MainProcess { pid: None },
            Effect::Reply { client, reply } => {
                self.replies.push((client, reply));
                return Vec::new();
            }
            Effect::Tell(notice) => {
                self.notices.push(notice);
                return Vec::new();
            }
            _ => Done::Ok,
        };
        id.map(|effect| Event::Done { effect, result }).into_iter().collect()
    }

    fn spawn(
        &mut self,
        id: warren_core::model::ids::EffectId,
        spawn: &warren_core::protocol::event::Spawn,
    ) -> Vec<Event> {
        self.next_pid += 1;
        let (pid, unit) = (self.next_pid, spawn.unit);
        let program = match &spawn.settings.own {
            warren_core::settings::TypeSettings::Service(config) => {
                let list = match spawn.list {
                    warren_core::model::process::CommandList::Start => &config.exec_start,
                    warren_core::model::process::CommandList::Reload => &config.exec_reload,
                    _ => &config.exec_start_pre,
                };
                list.get(usize::from(spawn.index)).map_or("", |command| &command.path).to_owned()
            }
            _ => String::new(),
        };
        let mut events = vec![Event::Done { effect: id, result: Done::Spawned { pid } }];
        let code = match program.as_str() {
            "/bin/true" | "/bin/kill" => Some(0),
            "/bin/false" => Some(1),
            _ => None,
        };
        match code {
            None => drop(self.pids.insert(pid, unit)),
            Some(code) => {
                events.push(Event::Exited { pid, status: ExitStatus::Exited(code) });
                if !self.pids.values().any(|of| *of == unit) {
                    events.push(Event::CgroupEmpty { unit, cpu_us: None });
                }
            }
        }
        events
    }

    fn kill(
        &mut self,
        effect: warren_core::model::ids::EffectId,
        unit: UnitId,
        signal: i32,
    ) -> Vec<Event> {
        let processes = self.pids.values().filter(|of| **of == unit).count();
        let result = Done::Killed { processes: u32::try_from(processes).unwrap() };
        let mut events = vec![Event::Done { effect, result }];
        if matches!(signal, 9 | 15) {
            events.extend(self.end_all(unit, u8::try_from(signal).unwrap()));
        }
        events
    }

    fn end_all(&mut self, unit: UnitId, signal: u8) -> Vec<Event> {
        let own: Vec<u32> =
            self.pids.iter().filter(|(_, of)| **of == unit).map(|(pid, _)| *pid).collect();
        let mut events = Vec::new();
        for pid in own {
            self.pids.remove(&pid);
            events.push(Event::Exited { pid, status: ExitStatus::Killed(signal) });
        }
        if !events.is_empty() {
            events.push(Event::CgroupEmpty { unit, cpu_us: None });
        }
        events
    }

    fn file_state(&self, file: &str) -> &'static str {
        match self.disk.get(file) {
            _ if self.masked.contains(file) => "masked",
            None => "",
            Some(_) if self.enabled.contains(file) => "enabled",
            Some(text) if text.contains("[Install]") => "disabled",
            Some(_) => "static",
        }
    }

    fn unit_files(&mut self, op: UnitFileOp) -> Outcome {
        let (mut changes, mut remarks) = (Vec::new(), Vec::new());
        let mut change = |kind: &'static str, file: &str| {
            let path = format!("/etc/systemd/system/multi-user.target.wants/{file}");
            let source = if kind == "symlink" {
                format!("/etc/systemd/system/{file}")
            } else {
                String::new()
            };
            changes.push(FileChange { kind, path, source });
        };
        for file in &op.files {
            if !self.disk.contains_key(file) && op.verb != UnitFileVerb::Mask {
                let text = format!("Unit file {file} does not exist.");
                return Err(BusError::no_such_unit(text));
            }
            match op.verb {
                UnitFileVerb::Enable if self.enabled.insert(file.clone()) => {
                    change("symlink", file);
                    let path = format!("/etc/systemd/system/{file}");
                    let name = |text: &str| UnitName::parse(text).expect("a name");
                    let target = name("nosuch.target");
                    remarks.push(Remark::DestinationNotPresent { path, target });
                    remarks.push(Remark::AuxiliaryFailed { name: name("nosuch.service") });
                    let path = "/etc/systemd/system/masked.service".to_owned();
                    remarks.push(Remark::Masked { path });
                }
                UnitFileVerb::Disable if self.enabled.remove(file) => change("unlink", file),
                UnitFileVerb::Mask if self.masked.insert(file.clone()) => change("symlink", file),
                UnitFileVerb::Unmask if self.masked.remove(file) => change("unlink", file),
                UnitFileVerb::SetDefault => self.default_target = file.clone(),
                _ => {}
            }
        }
        Ok(Answer::Changes { carries_install_info: true, changes, remarks })
    }
}

//! The methods, as one table: what each answers, and who may call it.

use std::io::BufReader;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use serde_json::{Value, json};
use warren_bus::authority::{Action, Question, Verb, job_verb, unit_verb};
use warren_bus::backend::{Backend, Call as BusCall, Leave};
use warren_bus::properties::Subject;
use warren_bus::{Answer, BusError, ReplySender, is_listed, refusals};
use warren_core::model::admin_marks::MarkersChange;
use warren_core::model::ids::{JobId, UnitId};
use warren_core::model::job::Job;
use warren_core::protocol::request::Asker;
use warren_core::view::View;
use warren_unit::UnitName;
use warren_wire::frame;

use super::call::{self, Call, Refusal, answer};
use super::{interfaces, managed_oom, manager, start, unit};
use crate::base::answers::Bell;
use crate::control::answer::find_or_load;
use crate::control::authority;
use crate::control::caller::{Caller, is_privileged};
use crate::control::careful_reader::CarefulReader;
use crate::control::quota::{Place, Turns};
use crate::control::server::{has_few_values, reply};
use crate::control::user_lookup;
use crate::published::shared::Shared;
use warren_wire::control::{REQUEST_BYTES_MAX, UNPRIVILEGED_REQUEST_BYTES_MAX};

/// What comes of a call: answers were sent, or the error that is.
pub(super) type Done = Result<(), Refusal>;

/// Serves one client until it goes.
pub(crate) fn serve(stream: &UnixStream, asker: Asker, place: &Place, shared: &Arc<Shared>) {
    let bytes_max = match is_privileged(asker) {
        true => REQUEST_BYTES_MAX,
        false => UNPRIVILEGED_REQUEST_BYTES_MAX,
    };
    let Some(reader) = CarefulReader::new(stream) else { return };
    let mut reader = BufReader::new(reader);
    let caller = Caller { asker, socket: stream.as_fd(), bell: Bell::new() };
    loop {
        let Ok(message) = frame::read(&mut reader, bytes_max) else { return };
        let _answering = place.answering();
        let is_bounded = is_privileged(asker) || has_few_values(&message);
        let Some(call) = call::parse(&message).filter(|_| is_bounded) else { return };
        let mut client = Client {
            stream,
            caller: &caller,
            turns: place.turns(),
            shared,
            call: &call,
            lost: false,
        };
        if let Err(refusal) = client.check_and_serve() {
            client.send(&refusal.message());
        }
        if client.lost {
            return;
        }
    }
}

/// A client with a call.
pub(super) struct Client<'a> {
    stream: &'a UnixStream,
    pub(super) caller: &'a Caller<'a>,
    turns: &'a Turns,
    pub(super) shared: &'a Arc<Shared>,
    pub(super) call: &'a Call,
    /// It does not read any more.
    pub(super) lost: bool,
}

impl Client<'_> {
    fn check_and_serve(&mut self) -> Done {
        if self.call.interface == interfaces::USERS {
            return self.users();
        }
        self.call.check()?;
        match (&*self.call.interface, &*self.call.method) {
            (interfaces::OWN, "GetInfo") => self.say(&info()),
            (interfaces::OWN, "GetInterfaceDescription") => self.describe_interface(),
            (interfaces::SERVICE, "Ping") => self.say(&json!({})),
            (interfaces::SERVICE, "GetEnvironment") => self.environment(),
            (interfaces::JOB, "List") => self.list_jobs(),
            (interfaces::JOB, "Cancel") => self.cancel_job(),
            (interfaces::JOB, "ClearAll") => {
                self.authorize(Action::ManageUnits, None)?;
                self.ask(BusCall::ClearJobs)?;
                self.say(&json!({}))
            }
            (interfaces::UNIT, "List") => self.list_units(),
            (interfaces::UNIT, "SetProperties") => self.set_properties(),
            (interfaces::UNIT, "StartTransient") => start::start_transient(self),
            (interfaces::MANAGED_OOM, "SubscribeManagedOOMCGroups") => managed_oom::subscribe(self),
            (interfaces::MANAGER, "Describe") => self.describe_manager(),
            (interfaces::MANAGER, "Reload") => self.load_anew(BusCall::ReloadConfiguration),
            (interfaces::MANAGER, "Reexecute") => self.load_anew(BusCall::Reexecute),
            (interfaces::MANAGER, "EnqueueMarkedJobs") => self.enqueue_marked(),
            (interfaces::MANAGER, "PowerOff") => self.leave(Leave::PowerOff),
            (interfaces::MANAGER, "Reboot") => self.leave(Leave::Reboot),
            (interfaces::MANAGER, "Halt") => self.leave(Leave::Halt),
            (interfaces::MANAGER, "KExec") => self.leave(Leave::KExec),
            (interfaces::MANAGER, "SoftReboot") => self.soft_reboot(),
            // Described, as by systemd, and not there, as with it.
            _ => Err(Refusal::method(&self.call.full_name())),
        }
    }

    // ---- answers ----

    fn send(&mut self, message: &Value) {
        if self.call.oneway || self.lost {
            return;
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.lost = reply(self.stream, bytes).is_err();
    }

    /// The only answer, or the last.
    pub(super) fn say(&mut self, parameters: &Value) -> Done {
        self.send(&answer(parameters, false));
        Ok(())
    }

    /// One of several, of which more come.
    pub(super) fn say_more(&mut self, parameters: &Value) {
        self.send(&answer(parameters, true));
    }

    /// All of them, one by one as they are made; without any the refusal.
    fn say_all(
        &mut self,
        all: impl Iterator<Item = Value>,
        without_any: impl FnOnce() -> Refusal,
    ) -> Done {
        let mut before: Option<Value> = None;
        for parameters in all {
            if let Some(before) = before.replace(parameters) {
                self.say_more(&before);
            }
            if self.lost {
                return Ok(());
            }
        }
        match before {
            Some(last) => self.say(&last),
            None => Err(without_any()),
        }
    }

    /// Has the loop do it, and waits for its answer.
    pub(super) fn ask(&self, call: BusCall) -> Result<Answer, Refusal> {
        let (sender, answer) = self.caller.awaited();
        let reply = ReplySender::to(sender.waits(), move |outcome| sender.send(outcome));
        self.shared.call(self.caller.asker, call, reply);
        let answer = self.caller.wait(answer, "the manager was restarted");
        answer.map_err(|_| Refusal::plain("io.systemd", "Disconnected"))?.map_err(of_bus)
    }

    /// Goes on only if the caller may do this.
    pub(super) fn authorize(&self, action: Action, about: Option<(String, Verb)>) -> Done {
        if is_privileged(self.caller.asker) {
            return Ok(());
        }
        let question = Question { action, unit: about };
        authority::may(&question, self.caller, self.shared).map_err(|_| Refusal::denied())
    }

    fn for_root(&self) -> Done {
        is_privileged(self.caller.asker).then_some(()).ok_or_else(Refusal::denied)
    }

    // ---- the service ----

    fn describe_interface(&mut self) -> Done {
        let name = self.call.text("interface").unwrap_or_default();
        match interfaces::text(name) {
            Some(text) => self.say(&json!({"description": text})),
            None => {
                let parameters = json!({"interface": name});
                let refusal = Refusal::plain(interfaces::OWN, "InterfaceNotFound");
                Err(Refusal { parameters, ..refusal })
            }
        }
    }

    fn environment(&mut self) -> Done {
        self.for_root()?;
        let own = std::env::vars_os();
        let all: Vec<String> = own
            .map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy()))
            .collect();
        self.say(&json!({"environment": all}))
    }

    /// The interface that has a socket of its own besides.
    fn users(&mut self) -> Done {
        let numbers = self.shared.view().dynamic_users.clone();
        for message in user_lookup::answers_to(self.call, &numbers) {
            self.send(&message);
        }
        Ok(())
    }

    // ---- jobs ----

    fn list_jobs(&mut self) -> Done {
        let view = self.shared.view();
        let parameter = |name: &str| self.call.parameters.get(name).filter(|v| !v.is_null());
        let id = parameter("id").map(job_id).transpose()?;
        let unit = self.call.text("unit").map(|unit| named("unit", unit)).transpose()?;
        if id.is_none() && unit.is_none() && !self.call.more {
            return Err(Refusal::expected_more());
        }
        let is_asked_for = |job: &&Job| {
            id.is_none_or(|id| job.id == id)
                && unit.as_ref().is_none_or(|unit| view.lookup(unit) == Some(job.unit))
        };
        let jobs = view.jobs();
        let rows = jobs.into_iter().filter(is_asked_for).map(|job| job_row(&view, job));
        let missing = || match (id, &unit) {
            (Some(_), None) => Refusal::about(interfaces::JOB, "NoSuchJob", "id"),
            (None, Some(_)) => Refusal::about(interfaces::JOB, "NoSuchJob", "unit"),
            _ => Refusal::plain(interfaces::JOB, "NoSuchJob"),
        };
        self.say_all(rows, missing)
    }

    /// A job that is not there is told everybody.
    fn cancel_job(&mut self) -> Done {
        let id = job_id(&self.call.parameters["id"])?;
        let view = self.shared.view();
        let job = view.find_job(id);
        let job = job.ok_or_else(|| Refusal::about(interfaces::JOB, "NoSuchJob", "id"))?;
        // As for a stop of what it would start.
        let about = job_verb("stop").map(|verb| (view.graph.name(job.unit).to_string(), verb));
        self.authorize(Action::ManageUnits, about)?;
        self.ask(BusCall::CancelJob(id))?;
        self.say(&json!({}))
    }

    // ---- units ----

    fn list_units(&mut self) -> Done {
        let asked = Asked::of(self.call)?;
        if asked.is_for_all() && !self.call.more {
            return Err(Refusal::expected_more());
        }
        // All of them are large, and a name may have files looked for.
        let who = self.caller.asker;
        let _turn = (!is_privileged(who)).then(|| self.turns.large(who.uid));
        let view = match &asked.name {
            // What has a file and is not in memory is loaded.
            Some(name) => match find_or_load(Some(name.as_str()), None, self.caller, self.shared) {
                Ok((view, _)) => view,
                Err(_) => self.shared.view(),
            },
            None => self.shared.view(),
        };
        let units = asked.units(&view, self.shared, who.pid);
        drop(view);
        let shared = self.shared.clone();
        // Each as it is when its turn has come: who reads slowly keeps no view of before in memory.
        let rows = units.into_iter().filter_map(|unit| {
            let view = shared.view();
            let is_there = view.graph.get(unit).is_some() && is_listed(&view, unit);
            is_there.then(|| unit_row(&view, &shared, unit))
        });
        self.say_all(rows, || asked.missing())
    }

    fn set_properties(&mut self) -> Done {
        let unit = named("name", self.call.text("name").unwrap_or_default())?;
        let properties = self.call.parameters["properties"].as_object();
        let properties = properties.ok_or_else(|| Refusal::parameter("properties"))?;
        if let Some(other) = properties.keys().find(|name| *name != "Markers") {
            let parameters = json!({"property": other});
            let refusal = Refusal::plain(interfaces::UNIT, "PropertyNotSupported");
            return Err(Refusal { parameters, ..refusal });
        }
        let change = properties.get("Markers").map(markers).transpose()?;
        let about = unit_verb("SetProperties").map(|verb| (unit.to_string(), verb));
        self.authorize(Action::ManageUnits, about)?;
        let missing = || Refusal::plain(interfaces::UNIT, "NoSuchUnit");
        let found = find_or_load(Some(unit.as_str()), None, self.caller, self.shared);
        let (view, id) = found.map_err(|_| missing())?;
        if let Some(error) = refusals::of_load_state(view.definition(id)) {
            return Err(of_bus(error));
        }
        if let Some(change) = change {
            self.ask(BusCall::SetMarkers { unit: id, change })?;
        }
        self.say(&json!({}))
    }

    // ---- the manager ----

    fn describe_manager(&mut self) -> Done {
        let view = self.shared.view();
        let subject = Subject::manager(&view, &**self.shared);
        let interface = interfaces::find(interfaces::MANAGER).expect("it is in the table");
        let reloads = self.shared.reloads.count();
        self.say(&manager::Told::new(&subject, interface, reloads).describe())
    }

    fn load_anew(&mut self, call: BusCall) -> Done {
        self.authorize(Action::ReloadDaemon, None)?;
        self.ask(call)?;
        self.say(&json!({}))
    }

    fn enqueue_marked(&mut self) -> Done {
        self.authorize(Action::ManageUnits, None)?;
        let Answer::Jobs(jobs) = self.ask(BusCall::EnqueueMarked)? else {
            return self.say(&json!({}));
        };
        let view = self.shared.view();
        let row = |id: &JobId| {
            let unit = view.find_job(*id).map(|job| view.graph.name(job.unit).to_string());
            match unit {
                Some(unit) => json!({"unitID": unit, "jobID": id.0}),
                // It is over already.
                None => json!({"jobID": id.0}),
            }
        };
        match self.call.more && !jobs.is_empty() {
            true => self.say_all(jobs.iter().map(row), Refusal::expected_more),
            false => self.say(&json!({})),
        }
    }

    fn leave(&mut self, how: Leave) -> Done {
        self.for_root()?;
        self.ask(BusCall::Leave(how))?;
        self.say(&json!({}))
    }

    /// The one new root that can be is at the place that the manual names.
    fn soft_reboot(&mut self) -> Done {
        match self.call.text("root") {
            None | Some("/run/nextroot" | "/run/nextroot/") => self.leave(Leave::SoftReboot),
            Some(_) => self.for_root().and(Err(Refusal::parameter("root"))),
        }
    }
}

fn info() -> Value {
    json!({
        "vendor": "Warrener",
        "product": "warrend",
        "version": env!("CARGO_PKG_VERSION"),
        "url": env!("CARGO_PKG_REPOSITORY"),
        "interfaces": interfaces::names().collect::<Vec<_>>(),
    })
}

/// A name that a unit can have.
fn named(parameter: &str, name: &str) -> Result<UnitName, Refusal> {
    refusals::unit_name(name).map_err(|_| Refusal::parameter(parameter))
}

fn job_id(value: &Value) -> Result<JobId, Refusal> {
    let id = value.as_u64().and_then(|id| u32::try_from(id).ok()).filter(|id| *id > 0);
    id.map(JobId).ok_or_else(|| Refusal::parameter("id"))
}

/// A job that is installed.
pub(super) fn job_row(view: &View, job: &Job) -> Value {
    json!({
        "Id": job.id.0,
        "Unit": view.graph.name(job.unit).as_str(),
        "JobType": job.kind.as_str().replace('-', "_"),
        "State": if job.running { "running" } else { "waiting" },
    })
}

/// All of a unit.
pub(super) fn unit_row(view: &View, shared: &Shared, unit: UnitId) -> Value {
    let subject = Subject::unit(view, shared, unit);
    let told = unit::Told::new(&subject);
    json!({"context": told.context(), "runtime": told.runtime()})
}

/// Which units are asked for.
struct Asked {
    name: Option<UnitName>,
    /// 0 is the caller.
    pid: Option<u32>,
    cgroup: Option<String>,
    invocation: Option<u128>,
}

impl Asked {
    fn of(call: &Call) -> Result<Asked, Refusal> {
        let pid = call.parameters.get("pid").filter(|pid| !pid.is_null());
        let pid = pid.map(|pid| pid["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok()));
        let cgroup = call.text("cgroup").map(str::to_owned);
        let invocation = call.text("invocationID").map(unit::read_uuid);
        Ok(Asked {
            name: call.text("name").map(|name| named("name", name)).transpose()?,
            pid: pid.map(|pid| pid.ok_or_else(|| Refusal::parameter("pid"))).transpose()?,
            cgroup: match cgroup {
                Some(path) if !path.starts_with('/') => return Err(Refusal::parameter("cgroup")),
                cgroup => cgroup,
            },
            invocation: invocation
                .map(|id| id.ok_or_else(|| Refusal::parameter("invocationID")))
                .transpose()?,
        })
    }

    fn is_for_all(&self) -> bool {
        self.name.is_none()
            && self.pid.is_none()
            && self.cgroup.is_none()
            && self.invocation.is_none()
    }

    /// Those to which all that is stated applies, by their numbers.
    fn units(&self, view: &View, shared: &Shared, caller: u32) -> Vec<UnitId> {
        let all = || view.graph.definitions().map(|d| d.id).filter(|&unit| is_listed(view, unit));
        let of_process = |pid| shared.unit_of_process(if pid == 0 { caller } else { pid });
        let is_named =
            |unit: &UnitId| self.name.as_ref().is_none_or(|name| view.lookup(name) == Some(*unit));
        let has_process = self.pid.map(of_process);
        let has_run = |unit: &UnitId| {
            let invocation = view.run(*unit).history.as_ref().map_or(0, |h| h.invocation);
            self.invocation.is_none_or(|asked| asked != 0 && invocation == asked)
        };
        let has_group = |unit: &UnitId| {
            let group = || Backend::live(shared, *unit).control_group;
            self.cgroup.as_deref().is_none_or(|asked| asked != "/" && asked == group())
        };
        let candidates: Vec<UnitId> = match (&self.name, has_process, &self.cgroup) {
            (Some(name), _, _) => {
                view.lookup(name).filter(|&u| is_listed(view, u)).into_iter().collect()
            }
            (_, Some(unit), _) => unit.into_iter().collect(),
            // Groups are called after their units.
            (_, _, Some(group)) => {
                let names = group.rsplit('/').filter_map(|part| UnitName::parse(part).ok());
                names.filter_map(|name| view.lookup(&name)).take(1).collect()
            }
            _ => all().collect(),
        };
        let has_that_process = |unit: &UnitId| has_process.is_none_or(|found| found == Some(*unit));
        let fits = |unit: &UnitId| {
            is_named(unit) && has_that_process(unit) && has_run(unit) && has_group(unit)
        };
        candidates.into_iter().filter(fits).collect()
    }

    /// That there is none. Of one statement it is said which.
    fn missing(&self) -> Refusal {
        let stated = [
            (self.name.is_some(), ""),
            (self.pid.is_some(), "pid"),
            (self.cgroup.is_some(), "cgroup"),
            (self.invocation.is_some(), "invocationID"),
        ];
        let mut stated = stated.into_iter().filter_map(|(is, name)| is.then_some(name));
        match (stated.next(), stated.next()) {
            (Some(name), None) if !name.is_empty() => {
                Refusal::about(interfaces::UNIT, "NoSuchUnit", name)
            }
            _ => Refusal::plain(interfaces::UNIT, "NoSuchUnit"),
        }
    }
}

/// Words without a sign are all that is left; with one, that word is set or taken away.
fn markers(value: &Value) -> Result<MarkersChange, Refusal> {
    let wrong = || Refusal::parameter("properties");
    let words = value.as_array().into_iter().flatten().map(Value::as_str);
    let words: Option<Vec<&str>> = words.collect();
    warren_bus::transient::markers(&words.ok_or_else(wrong)?).map_err(|_| wrong())
}

/// An error of D-Bus in the words of varlink.
pub(super) fn of_bus(error: BusError) -> Refusal {
    let of_unit = |name: &str| Refusal::plain(interfaces::UNIT, name);
    match error.name.rsplit('.').next().unwrap_or_default() {
        "NoSuchUnit" => of_unit("NoSuchUnit"),
        "UnitMasked" => of_unit("UnitMasked"),
        "BadUnitSetting" => of_unit("BadUnitSetting"),
        "LoadFailed" => of_unit("UnitError"),
        "OnlyByDependency" => of_unit("OnlyByDependency"),
        "ShuttingDown" => of_unit("DBusShuttingDown"),
        "UnitExists" => of_unit("UnitExists"),
        "NoSuchJob" => Refusal::plain(interfaces::JOB, "NoSuchJob"),
        "AccessDenied" => Refusal::denied(),
        "LimitsExceeded" => Refusal::system(105, "ENOBUFS"),
        "TransactionIsDestructive" => Refusal::system(35, "EDEADLK"),
        "TransactionOrderIsCyclic" => Refusal::system(35, "EDEADLK"),
        "NotSupported" => Refusal::system(95, "EOPNOTSUPP"),
        _ => Refusal::system(5, "EIO"),
    }
}

//! From a message to what it comes to: which object, which interface, which member.

use crate::authority::{self, Action, Question};
use crate::backend::{Backend, Call, LOG_LEVELS, ManagerSetting, WatchdogProperty};
use crate::broker::NAME;
use crate::descriptors::Descriptors;
use crate::error::BusError;
use crate::introspect;
use crate::listed::{has_got_file, is_listed, may_have_got_file};
use crate::methods::{
    Access, Invocation, JOB_METHODS, MANAGER_METHODS, Method, Methods, Progress, Refusal, Step,
    Then, unit_of_invocation,
};
use crate::names::DBUS;
use crate::path::{self, Object};
use crate::properties::{self, Interface, Subject, job, manager};
use crate::refusals;
use crate::wire::{Header, Message, Writer};
use warren_core::model::ids::{JobId, UnitId};
use warren_core::view::View;
use warren_unit::UnitName;
use warren_unit::config::WatchdogTime;

/// Longest name of what the kernel does before a watchdog resets the machine (linux/watchdog.h), bytes.
const GOVERNOR_BYTES_MAX: usize = 20;

const PEER: &str = "org.freedesktop.DBus.Peer";
const INTROSPECTABLE: &str = "org.freedesktop.DBus.Introspectable";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";

/// What a message is looked at with.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The newest view.
    pub view: &'a View,
    /// The manager.
    pub backend: &'a dyn Backend,
    /// The caller's process.
    pub peer_pid: u32,
    /// Whether the caller may change anything.
    pub may_write: bool,
    /// Whether polkit can be asked about those who may not.
    pub may_ask: bool,
    /// The caller's connection.
    pub connection: u64,
    /// The file descriptors that came with the message.
    pub fds: &'a Descriptors,
    /// What was done for this message already.
    pub done: &'a Progress,
}

/// What a message comes to, with the types of the reply.
pub struct Dispatched {
    /// Types of the reply's body.
    pub signature: String,
    /// What follows.
    pub step: Step,
}

/// An object that exists.
#[derive(Clone, Copy)]
enum Target {
    Above(&'static str),
    Freedesktop,
    LogControl,
    Units,
    Jobs,
    Manager,
    Unit(UnitId),
    Job(JobId, UnitId),
}

enum CallTarget {
    Target(Target),
    Load(UnitName),
    Look(UnitName),
}

type Out = Result<Dispatched, Refusal>;

fn reply(signature: &str, body: Writer) -> Out {
    Ok(Dispatched { signature: signature.to_owned(), step: Step::Reply(body) })
}

fn reply_text(text: &str) -> Out {
    let mut body = Writer::new();
    body.str(text);
    reply("s", body)
}

/// Looks at one method call.
pub fn dispatch(message: &Message<'_>, context: Context<'_>) -> Out {
    let header = &message.header;
    match header.interface {
        PEER => return peer(header, context),
        DBUS => return bus(message, context),
        _ => {}
    }
    let target = match find(header.path, context)? {
        CallTarget::Target(target) => target,
        CallTarget::Load(name) => {
            return Ok(Dispatched { signature: String::new(), step: Step::Load(vec![name]) });
        }
        CallTarget::Look(name) => {
            let step = Step::LookAtFiles(Some(name));
            return Ok(Dispatched { signature: String::new(), step });
        }
    };
    match (header.interface, header.member) {
        (INTROSPECTABLE | "", "Introspect") => reply_text(&introspection(target, context.view)),
        (PROPERTIES | "", "Get") => get(target, message, context),
        (PROPERTIES | "", "GetAll") => get_all(target, message, context),
        (PROPERTIES | "", "Set") => set(target, message, context),
        _ => invoke(target, message, context),
    }
}

fn peer(header: &Header<'_>, context: Context<'_>) -> Out {
    match header.member {
        "Ping" => reply("", Writer::new()),
        "GetMachineId" => reply_text(&context.backend.facts().machine_id),
        member => Err(BusError::unknown_method(format!(
            "Unknown method '{member}' on interface '{PEER}'."
        ))
        .into()),
    }
}

/// Enough of a message bus for clients that cannot do without one (`busctl --address=`).
fn bus(message: &Message<'_>, context: Context<'_>) -> Out {
    let mut body = Writer::new();
    let own = format!(":1.{}", context.connection);
    let known = |name: &str| name == NAME || name == DBUS || name == own;
    let asked = || message.body().str().unwrap_or_default();
    match message.header.member {
        "Hello" => reply_text(&own),
        "AddMatch" | "RemoveMatch" => reply("", body),
        "ListNames" => {
            body.strs([DBUS, NAME, &own]);
            reply("as", body)
        }
        "ListActivatableNames" => {
            body.strs([DBUS]);
            reply("as", body)
        }
        "NameHasOwner" => {
            body.bool(known(asked()));
            reply("b", body)
        }
        "GetNameOwner" if known(asked()) => reply_text(asked()),
        "GetNameOwner" => Err(BusError {
            name: "org.freedesktop.DBus.Error.NameHasNoOwner".to_owned(),
            text: format!("The name {} has no owner.", asked()),
        }
        .into()),
        member => Err(unknown_method(member, DBUS).into()),
    }
}

fn unknown_method(member: &str, interface: &str) -> BusError {
    BusError::unknown_method(format!("Unknown method {member} or interface {interface}."))
}

fn unknown_object(path: &str) -> BusError {
    BusError::unknown_object(format!("Unknown object '{path}'."))
}

fn find(path: &str, context: Context<'_>) -> Result<CallTarget, BusError> {
    let target = match path::parse(path) {
        Object::Above(child) => Target::Above(child),
        Object::Freedesktop => Target::Freedesktop,
        Object::LogControl => Target::LogControl,
        Object::Units => Target::Units,
        Object::Jobs => Target::Jobs,
        Object::Manager => Target::Manager,
        Object::Unit(text) => return find_unit(&text, path, context),
        Object::Job(id) => {
            let job = context.view.find_job(JobId(id)).ok_or_else(|| unknown_object(path))?;
            Target::Job(job.id, job.unit)
        }
        Object::Unknown => return Err(unknown_object(path)),
    };
    Ok(CallTarget::Target(target))
}

/// The caller's own unit, or a unit by its name or by the hexadecimal digits of its run. One that is not in memory, or that may have
/// got a file since others named it, is loaded; if that was tried already, it cannot be.
fn find_unit(text: &str, path: &str, context: Context<'_>) -> Result<CallTarget, BusError> {
    if text == "self" {
        let own = context.backend.unit_of_process(context.peer_pid);
        let unit = own.ok_or_else(|| unknown_object(path))?;
        return Ok(CallTarget::Target(Target::Unit(unit)));
    }
    if let Ok(name) = refusals::unit_name(text) {
        let was_tried = context.done.tried.contains(&name);
        let may_have = |unit| may_have_got_file(context.view, context.backend, unit);
        let has_got = |unit| has_got_file(context.view, context.backend, unit);
        return match context.view.lookup(&name) {
            Some(unit) if !context.done.has_looked && may_have(unit) => Ok(CallTarget::Look(name)),
            Some(unit) if !was_tried && has_got(unit) => Ok(CallTarget::Load(name)),
            Some(unit) => Ok(CallTarget::Target(Target::Unit(unit))),
            None if was_tried => Err(unknown_object(path)),
            None => Ok(CallTarget::Load(name)),
        };
    }
    let run = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32);
    let Some(run) = run else {
        let text = format!("Unit name {text} is neither a valid invocation ID nor unit name.");
        return Err(BusError::invalid_args(text));
    };
    let unit = unit_of_invocation(context.view, run).ok_or_else(|| unknown_object(path))?;
    Ok(CallTarget::Target(Target::Unit(unit)))
}

fn introspection(target: Target, view: &View) -> String {
    match target {
        Target::Above(child) => introspect::parent(std::iter::once(child.to_owned())),
        Target::Freedesktop => {
            introspect::parent(["LogControl1", "systemd1"].map(str::to_owned).into_iter())
        }
        Target::LogControl => introspect::log_control(),
        Target::Units => {
            let listed = view.graph.definitions().filter(|d| is_listed(view, d.id));
            introspect::parent(listed.map(|d| path::unit_label(d.name.as_str())))
        }
        Target::Jobs => introspect::parent(view.jobs().iter().map(|job| job.id.0.to_string())),
        Target::Manager => introspect::manager().to_owned(),
        Target::Job(..) => introspect::job().to_owned(),
        Target::Unit(unit) => introspect::unit(view.definition(unit).unit_type()).to_owned(),
    }
}

fn interfaces(target: Target, view: &View) -> Vec<&'static Interface> {
    match target {
        Target::Above(_) | Target::Freedesktop | Target::Units | Target::Jobs => Vec::new(),
        Target::LogControl => vec![&manager::LOG_CONTROL_INTERFACE],
        Target::Manager => vec![&manager::MANAGER_INTERFACE],
        Target::Job(..) => vec![&job::JOB_INTERFACE],
        Target::Unit(unit) => properties::interfaces(view.definition(unit).unit_type()).collect(),
    }
}

fn subject<'a>(target: Target, context: Context<'a>) -> Subject<'a> {
    match target {
        Target::Unit(unit) | Target::Job(_, unit) => {
            Subject::unit(context.view, context.backend, unit)
        }
        _ => Subject::manager(context.view, context.backend),
    }
}

fn wants(message: &Message<'_>, signature: &str, text: &str) -> Result<(), BusError> {
    match message.header.signature == signature {
        true => Ok(()),
        false => Err(BusError::invalid_args(text)),
    }
}

fn find_property(
    target: Target,
    view: &View,
    interface: &str,
    name: &str,
) -> Result<&'static properties::Property, BusError> {
    let found = interfaces(target, view).into_iter().find(|one| one.name == interface);
    found.and_then(|one| one.find(name)).ok_or_else(|| {
        BusError::unknown_property(format!("Unknown interface {interface} or property {name}."))
    })
}

fn get(target: Target, message: &Message<'_>, context: Context<'_>) -> Out {
    wants(message, "ss", "Expected interface and member parameters")?;
    let mut body = message.body();
    let (interface, name) = (body.str()?, body.str()?);
    let property = find_property(target, context.view, interface, name)?;
    let mut out = Writer::new();
    property.write(&subject(target, context), &mut out);
    reply("v", out)
}

/// An empty interface name means all interfaces of the object at once.
fn get_all(target: Target, message: &Message<'_>, context: Context<'_>) -> Out {
    wants(message, "s", "Expected interface parameter")?;
    let asked = message.body().str()?;
    let mut wanted = interfaces(target, context.view);
    if !asked.is_empty() {
        wanted.retain(|interface| interface.name == asked);
        if wanted.is_empty() {
            let text = format!("Unknown interface '{asked}'.");
            return Err(BusError::unknown_interface(text).into());
        }
    }
    let subject = subject(target, context);
    let mut out = Writer::with_capacity(16 << 10);
    out.array(b'{', |out| {
        for property in wanted.iter().flat_map(|interface| interface.properties()) {
            property.write_entry(&subject, out);
        }
    });
    reply("a{sv}", out)
}

fn set(target: Target, message: &Message<'_>, context: Context<'_>) -> Out {
    wants(message, "ssv", "Expected interface, member and value parameters")?;
    let mut body = message.body();
    let (interface, name) = (body.str()?, body.str()?);
    let property = find_property(target, context.view, interface, name)?;
    let is_manager = matches!(target, Target::Manager | Target::LogControl);
    if !is_manager || !manager::WRITABLE.contains(&name) {
        return Err(BusError::read_only(format!("Property '{name}' is not writable.")).into());
    }
    may_write(context)?;
    let got = body.signature()?;
    if got != property.signature {
        let want = property.signature;
        let text =
            format!("Incorrect parameters for property '{name}', expected '{want}', got '{got}'.");
        return Err(BusError::invalid_args(text).into());
    }
    let setting = match name {
        "LogLevel" => ManagerSetting::LogLevel(log_level(body.str()?)?),
        "LogTarget" => ManagerSetting::LogTarget(body.str()?.to_owned()),
        "ServiceWatchdogs" => ManagerSetting::ServiceWatchdogs(body.bool()?),
        "RuntimeWatchdogUSec" => watchdog_time(WatchdogProperty::Runtime, body.u64()?),
        "RuntimeWatchdogPreUSec" => watchdog_time(WatchdogProperty::Pre, body.u64()?),
        "RebootWatchdogUSec" => watchdog_time(WatchdogProperty::Reboot, body.u64()?),
        "KExecWatchdogUSec" => watchdog_time(WatchdogProperty::Kexec, body.u64()?),
        "RuntimeWatchdogPreGovernor" => ManagerSetting::WatchdogGovernor(governor(body.str()?)?),
        _ => return Err(BusError::read_only(format!("Property '{name}' is not writable.")).into()),
    };
    let step = Step::Ask(Call::SetProperty(setting), Then::Nothing);
    Ok(Dispatched { signature: String::new(), step })
}

fn watchdog_time(property: WatchdogProperty, usec: u64) -> ManagerSetting {
    ManagerSetting::WatchdogTime(property, WatchdogTime::of_usec(usec))
}

/// A name of one of the kernel's, which goes into a file of sysfs.
fn governor(name: &str) -> Result<String, BusError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    match name.len() <= GOVERNOR_BYTES_MAX && name.chars().all(is_name) {
        true => Ok(name.to_owned()),
        false => Err(BusError::invalid_args(format!("'{name}' is not the name of a governor."))),
    }
}

fn log_level(word: &str) -> Result<Option<u8>, BusError> {
    let level = LOG_LEVELS.iter().position(|known| *known == word);
    match level.and_then(|level| u8::try_from(level).ok()) {
        None if !word.is_empty() => {
            Err(BusError::invalid_args(format!("Invalid log level '{word}'")))
        }
        level => Ok(level),
    }
}

fn may_write(context: Context<'_>) -> Result<(), BusError> {
    match context.may_write {
        true => Ok(()),
        false => Err(BusError::access_denied("Permission denied")),
    }
}

/// The tables of methods of an object, with the interface each belongs to.
fn method_tables(target: Target, view: &View) -> Vec<(&'static str, Methods)> {
    match target {
        Target::Above(_)
        | Target::Freedesktop
        | Target::LogControl
        | Target::Units
        | Target::Jobs => Vec::new(),
        Target::Manager => vec![(manager::MANAGER_INTERFACE.name, MANAGER_METHODS)],
        Target::Job(..) => vec![(job::JOB_INTERFACE.name, JOB_METHODS)],
        Target::Unit(unit) => {
            let unit_type = view.definition(unit).unit_type();
            let tables = |interface: &'static Interface| {
                let tables = introspect::unit_methods(unit_type, interface.name);
                tables.into_iter().map(|table| (interface.name, table))
            };
            properties::interfaces(unit_type).flat_map(tables).collect()
        }
    }
}

fn invoke(target: Target, message: &Message<'_>, context: Context<'_>) -> Out {
    let header = &message.header;
    let tables = method_tables(target, context.view).into_iter();
    let mut fitting =
        tables.filter(|(name, _)| header.interface.is_empty() || *name == header.interface);
    let found = fitting.find_map(|(interface, table)| {
        table.iter().find(|method| method.name == header.member).map(|method| (interface, method))
    });
    let (interface, method) =
        found.ok_or_else(|| unknown_method(header.member, header.interface))?;
    check_call(interface, method, message, context)?;
    let (unit, job) = match target {
        Target::Unit(unit) => (Some(unit), None),
        Target::Job(job, unit) => (Some(unit), Some(job)),
        _ => (None, None),
    };
    if let Some(step) = ask_first(method, unit, message, context)? {
        return Ok(Dispatched { signature: String::new(), step });
    }
    let mut invocation = Invocation {
        view: context.view,
        backend: context.backend,
        unit,
        job,
        body: message.body(),
        peer_pid: context.peer_pid,
        is_stranger: !context.may_write,
        fds: context.fds,
        done: context.done,
    };
    let step = (method.handler)(&mut invocation)?;
    Ok(Dispatched { signature: method.output_signature(), step })
}

fn check_call(
    interface: &str,
    method: &Method,
    message: &Message<'_>,
    context: Context<'_>,
) -> Result<(), BusError> {
    let (got, want) = (message.header.signature, method.input_signature());
    if got != want {
        let member = method.name;
        return Err(BusError::invalid_args(format!(
            "Invalid arguments '{got}' to call {interface}.{member}(), expecting '{want}'."
        )));
    }
    match method.access {
        Access::Read => Ok(()),
        access if context.may_ask && access.action().is_some() => Ok(()),
        _ => may_write(context),
    }
}

/// What comes before a call of somebody who may change something only if polkit says so. It is asked about the unit by
/// the name that its file has, not by another one that rules may not know: one that is not in memory is loaded first.
fn ask_first(
    method: &Method,
    unit: Option<UnitId>,
    message: &Message<'_>,
    context: Context<'_>,
) -> Result<Option<Step>, Refusal> {
    let Some(action) = method.access.action().filter(|_| !context.may_write) else {
        return Ok(None);
    };
    let question = match about(method, action, unit, message, context)? {
        About::Question(question) => question,
        About::Unloaded(name) => return Ok(Some(Step::Load(vec![name]))),
    };
    match &context.done.allowed {
        None => Ok(Some(Step::Authorize(question))),
        Some(allowed) if *allowed == question => Ok(None),
        // The name means another unit since.
        Some(_) => Err(BusError::access_denied("Permission denied").into()),
    }
}

enum About {
    Question(Question),
    Unloaded(UnitName),
}

fn about(
    method: &Method,
    action: Action,
    unit: Option<UnitId>,
    message: &Message<'_>,
    context: Context<'_>,
) -> Result<About, Refusal> {
    let plain = About::Question(Question { action, unit: None });
    if action != Action::ManageUnits {
        return Ok(plain);
    }
    let mut body = message.body();
    let named = match unit {
        None if method.input.starts_with("s:") => Some(body.str()?),
        _ => None,
    };
    let (named, verb) = match method.name {
        "EnqueueUnitJob" | "EnqueueJob" => (named, authority::job_verb(body.str()?)),
        "StartUnitReplace" => (Some(body.str()?), authority::unit_verb(method.name)),
        name => (named, authority::unit_verb(name)),
    };
    let (Some(verb), true) = (verb, unit.is_some() || named.is_some()) else { return Ok(plain) };
    let unit = match named {
        None => unit,
        // The caller's own.
        Some("") => context.backend.unit_of_process(context.peer_pid),
        Some(text) => {
            let name = refusals::unit_name(text)?;
            match context.view.lookup(&name) {
                None if !context.done.tried.contains(&name) => return Ok(About::Unloaded(name)),
                found => found,
            }
        }
    };
    let name = unit.map(|unit| context.view.definition(unit).name.to_string());
    let name = name.or(named.map(str::to_owned)).unwrap_or_default();
    Ok(About::Question(Question { action, unit: Some((name, verb)) }))
}

//! The methods of the control socket, as one table.

use std::sync::Arc;
use std::sync::mpsc::channel;

use serde_json::{Value, json};
use warren_bus::backend::{Backend, Call, Leave, PresetMode, UnitFileOp, UnitFileVerb};
use warren_bus::glob::Patterns;
use warren_bus::properties::manager::system_state;
use warren_bus::{Answer, BusError, ReplySender, is_listed, is_only_named, refusals};
use warren_core::graph::Definition;
use warren_core::model::active_state::ActiveState;
use warren_core::model::admin_marks::Marked;
use warren_core::model::ids::UnitId;
use warren_core::model::reason::{Cause, Reason};
use warren_core::model::state::History;
use warren_core::model::time::Moment;
use warren_core::protocol::request::{Asker, KillWhom, Request};
use warren_core::view::View;
use warren_fleet::made::Origin;
use warren_init::protocol::control::PowerAction;
use warren_unit::install::UnitFileState;
use warren_unit::{Diagnostic, LoadState, UnitName, UnitType};

use crate::answers::{Bell, awaited};
use crate::control::{Caller, is_privileged};
use crate::control_jobs;
use crate::daemon::Daemon;
use crate::ending::scheduled::{self, Scheduled};
use crate::ending::words::AskedBy;
use crate::fleet::RuleCause;
use crate::last::left_over::{self, Waited};
use crate::load_faults;
use crate::log_tail::Tails;
use crate::orders::{Ended, Order, Reload, Report};
use crate::say;
use crate::shared::Shared;

/// What a method answers, or the name and text of an error.
pub(crate) type Answered = Result<Value, (&'static str, String)>;

/// One method.
pub struct Method {
    /// Its name after `io.warrener.Manager.`.
    pub name: &'static str,
    /// It changes something.
    pub changes: bool,
    /// Does it.
    pub serve: fn(&Value, &Caller<'_>, &Arc<Shared>) -> Answered,
}

/// All methods.
pub const CALLS: &[Method] = &[
    Method { name: "List", changes: false, serve: list },
    Method { name: "Status", changes: false, serve: status },
    Method { name: "FileState", changes: false, serve: file_state },
    Method { name: "Why", changes: false, serve: crate::why::why },
    Method { name: "Devices", changes: false, serve: crate::device_report::devices },
    Method { name: "Cat", changes: false, serve: crate::control_files::cat },
    Method { name: "Records", changes: false, serve: crate::control_records::records },
    Method { name: "Record", changes: false, serve: crate::control_records::record },
    Method { name: "Top", changes: false, serve: top },
    Method { name: "Totals", changes: false, serve: totals },
    Method { name: "Verify", changes: false, serve: verify },
    Method { name: "Job", changes: true, serve: control_jobs::job },
    Method { name: "ReloadConfiguration", changes: true, serve: reload },
    Method { name: "UnitFiles", changes: true, serve: unit_files },
    Method { name: "Kill", changes: true, serve: kill },
    Method { name: "ResetFailed", changes: true, serve: reset_failed },
    Method { name: "Reexecute", changes: true, serve: reexecute },
    Method { name: "Leave", changes: true, serve: leave },
    Method { name: "CancelLeave", changes: true, serve: cancel_leave },
    Method { name: "Shutdown", changes: false, serve: shutdown },
    Method { name: "Hurry", changes: true, serve: hurry },
    Method { name: "Mark", changes: true, serve: mark },
    Method { name: "Clear", changes: true, serve: clear },
];

/// Name of the error for a unit that is not there.
pub(crate) const NO_SUCH_UNIT: &str = "io.warrener.NoSuchUnit";

/// What is told of what the manager did not answer before it ended.
const RESTARTED: &str = "the manager was restarted";

pub(crate) fn refused(message: impl Into<String>) -> (&'static str, String) {
    ("io.warrener.Refused", message.into())
}

pub(crate) fn invalid(message: impl Into<String>) -> (&'static str, String) {
    ("org.varlink.service.InvalidParameter", message.into())
}

pub(crate) fn unit_name(parameters: &Value) -> Result<UnitName, (&'static str, String)> {
    let text = parameters["unit"].as_str().ok_or_else(|| invalid("unit"))?;
    UnitName::parse(text).map_err(|e| invalid(format!("unit {text}: {e}")))
}

/// The unit of the parameters, if it is there or others name it.
pub(crate) fn find(view: &View, parameters: &Value) -> Result<UnitId, (&'static str, String)> {
    let name = unit_name(parameters)?;
    let unit = view.lookup(&name).filter(|&unit| is_listed(view, unit) || has_past(view, unit));
    unit.ok_or_else(|| (NO_SUCH_UNIT, refusals::not_found(name.as_str()).text))
}

/// Whether something is left of a unit that is gone, which an administrator may want to clear away.
fn has_past(view: &View, unit: UnitId) -> bool {
    !is_inactive(view, unit) || view.run(unit).notes().is_some()
}

fn is_inactive(view: &View, unit: UnitId) -> bool {
    view.active_state(unit) == ActiveState::Inactive
}

/// As [`find`], but a unit with a file that nothing has asked for yet, an instance say, or that got one since
/// others named it, is loaded first. Other names are not: who only reads makes no units. A `pid` in the place of
/// a name is one of a unit's processes.
pub(crate) fn find_or_load(
    parameters: &Value,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
) -> Result<(Arc<View>, UnitId), (&'static str, String)> {
    if let Some(pid) = parameters["pid"].as_u64() {
        return find_by_process(pid, shared);
    }
    let (view, name) = (shared.view(), unit_name(parameters)?);
    let is_there = view.lookup(&name).is_some_and(|unit| !is_only_named(&view, unit));
    if !is_there {
        look_at_file(&name, caller, shared)?;
    }
    let has_file = shared.states().get(&name).is_some();
    if has_file && name.is_template() {
        refusals::unit_name(name.as_str()).map_err(|error| invalid(error.text))?;
    }
    if is_there || !has_file {
        return find(&view, parameters).map(|unit| (view.clone(), unit));
    }
    call_and_answer(shared, caller, Call::LoadUnit(name))?;
    let view = shared.view();
    find(&view, parameters).map(|unit| (view.clone(), unit))
}

fn find_by_process(
    pid: u64,
    shared: &Arc<Shared>,
) -> Result<(Arc<View>, UnitId), (&'static str, String)> {
    let unit = u32::try_from(pid).ok().and_then(|pid| shared.unit_of_process(pid));
    let unit = unit.ok_or_else(|| (NO_SUCH_UNIT, format!("Process {pid} is not of a unit.")))?;
    Ok((shared.view(), unit))
}

/// Has what is told of a unit's file be what lies on the disk.
pub(crate) fn look_at_file(
    name: &UnitName,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
) -> Result<(), (&'static str, String)> {
    match shared.knows_unit_files(Some(name)) {
        true => Ok(()),
        false => {
            call_and_answer(shared, caller, Call::LookAtUnitFiles(Some(name.clone()))).map(drop)
        }
    }
}

// ---- reading ----

pub(crate) fn row(view: &View, definition: &Definition) -> Value {
    let unit = definition.id;
    let mut row = json!({
        "name": definition.name.as_str(),
        "load": definition.load_state.as_str(),
        "active": view.active_state(unit).as_str(),
        "sub": view.sub_state(unit),
        "description": definition.title(),
    });
    if let Some(job) = view.job(unit) {
        row["job"] = json!({"id": job.id.0, "type": job.kind.as_str(), "running": job.running});
    }
    row
}

fn list(parameters: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let view = shared.view();
    let patterns = Patterns::new(&words(&parameters["patterns"]), !is_privileged(caller.asker))
        .map_err(|why| ("io.warrener.LimitsExceeded", why))?;
    let states = words(&parameters["state"]);
    let types: Vec<UnitType> =
        words(&parameters["type"]).into_iter().map(unit_type).collect::<Result<_, _>>()?;
    let wanted = |definition: &Arc<Definition>| {
        let name = definition.name.as_str();
        let active = view.active_state(definition.id).as_str();
        let by_state = |state: &&str| {
            *state == active
                || *state == view.sub_state(definition.id)
                || *state == definition.load_state.as_str()
        };
        patterns.has(name)
            && (states.is_empty() || states.iter().any(by_state))
            && (types.is_empty() || types.contains(&definition.unit_type()))
    };
    let mut rows: Vec<&Arc<Definition>> = view
        .graph
        .definitions()
        .filter(|d| d.load_state != LoadState::NotFound || !is_inactive(&view, d.id))
        .filter(|d| wanted(d))
        .collect();
    rows.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(json!({"units": rows.into_iter().map(|d| row(&view, d)).collect::<Vec<_>>()}))
}

/// A text, or a list of them; none if it is left out.
fn words(value: &Value) -> Vec<&str> {
    let listed = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    value.as_str().into_iter().chain(listed).collect()
}

fn unit_type(word: &str) -> Result<UnitType, (&'static str, String)> {
    UnitType::from_suffix(word).ok_or_else(|| invalid(format!("Unknown unit type {word}.")))
}

pub(crate) fn moment(at: Moment) -> Value {
    match at.is_never() {
        true => Value::Null,
        false => json!(at.realtime_us),
    }
}

fn status(parameters: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let (view, unit) = find_or_load(parameters, caller, shared)?;
    let definition = view.definition(unit);
    let run = view.run(unit);
    let empty = History::default();
    let history = run.history.as_deref().unwrap_or(&empty);
    let files = crate::loader::file_paths(definition);
    let processes: Vec<Value> = shared
        .processes(&view, unit)
        .into_iter()
        .map(|pid| json!({"pid": pid, "command": crate::command_line::of(pid)}))
        .collect();
    let live = shared.live(unit);
    let mut out = row(&view, definition);
    let more = json!({
        "files": files.iter().map(|f| &**f).collect::<Vec<_>>(),
        "made_by": rules_of(shared, definition),
        "hides": hidden_rules(shared, definition),
        "file_state": shared.states().get(&definition.name).map(UnitFileState::as_str),
        "differs_on_disk": shared.differs_on_disk(definition),
        "since": moment(history.state_change),
        "active_since": moment(history.active_enter),
        "main_pid": run.main_process().map(|p| p.pid),
        "control_pid": run.control_pid(),
        "status_text": history.status_text,
        "result": history.outcome.as_str(),
        "restarts": history.restarts,
        "restart": crate::restarts::value(&view, shared, unit, crate::daemon::now()),
        "ended": history.last_main.map(crate::restarts::ended),
        "processes": processes,
        "memory": live.memory_current,
        "cpu_ns": live.cpu_usage_nsec,
        "tasks": live.tasks_current,
        "cgroup": live.control_group,
        "reason": reason(&view, view.reason(unit)),
        "load_fault": load_faults::reason(caller.asker, shared, definition).as_ref().map(diagnostic),
        "remarks": crate::remarks::value(&view, shared, unit),
        "log": log_tail(&mut log_tails(shared, caller.asker), definition.name.as_str()),
        "log_withheld": !is_privileged(caller.asker),
    });
    if let (Some(out), Value::Object(more)) = (out.as_object_mut(), more) {
        out.extend(more);
        out.extend(crate::control_detail::value(&view, shared, unit));
    }
    Ok(out)
}

/// The installation state of a unit's file, also of a template and of an instance that is not in use;
/// null if there is no file.
fn file_state(parameters: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let name = unit_name(parameters)?;
    look_at_file(&name, caller, shared)?;
    Ok(json!({"state": shared.states().get(&name).map(UnitFileState::as_str)}))
}

/// Who tells the last lines of logs; nobody for who may not read the log itself.
pub(crate) fn log_tails(shared: &Shared, asker: Asker) -> Option<Tails<'_>> {
    is_privileged(asker).then(|| Tails::new(&shared.journal_socket, &shared.log_dir))
}

/// The last lines of a unit's log.
pub(crate) fn log_tail(tails: &mut Option<Tails<'_>>, unit: &str) -> Vec<String> {
    tails.as_mut().map_or_else(Vec::new, |tails| tails.of(unit))
}

pub(crate) fn cause(view: &View, cause: Cause) -> Value {
    let name = |unit: UnitId| view.graph.get(unit).map(|d| d.name.to_string());
    match cause {
        Cause::None => Value::Null,
        Cause::Request { uid, pid } => {
            let pid = (pid != Asker::OUTSIDE).then_some(pid);
            json!({"kind": "request", "uid": uid, "pid": pid})
        }
        Cause::Dependency(unit) => json!({"kind": "dependency", "unit": name(unit)}),
        Cause::Trigger(unit) => json!({"kind": "trigger", "unit": name(unit)}),
        Cause::Outcome(unit) => json!({"kind": "outcome", "unit": name(unit)}),
        Cause::Restart => json!({"kind": "restart"}),
        Cause::Kernel => json!({"kind": "kernel"}),
        Cause::Manager => json!({"kind": "manager"}),
    }
}

pub(crate) fn reason(view: &View, reason: Reason) -> Value {
    json!({
        "code": reason.code.id(),
        "text": reason.code.text(),
        "cure": reason.code.cure(),
        "cause": cause(view, reason.cause),
    })
}

/// The rule behind a unit file, and what it made it for.
fn origin_of(origin: &Origin) -> Value {
    json!({
        "rule": &*origin.head,
        "path": &*origin.spot.path,
        "line": origin.spot.line,
        "target": origin.target.as_ref().map(|(name, spot)| {
            json!({"name": &**name, "path": &*spot.path, "line": spot.line})
        }),
    })
}

/// The rules behind a unit and its drop-ins, as far as no file hides what they make.
pub(crate) fn rules_of(shared: &Shared, definition: &Definition) -> Vec<Value> {
    rules(shared, definition, true)
}

/// The rules behind what files hide: a file by hand counts more than what rules make.
fn hidden_rules(shared: &Shared, definition: &Definition) -> Vec<Value> {
    rules(shared, definition, false)
}

fn rules(shared: &Shared, definition: &Definition, is_in_force: bool) -> Vec<Value> {
    let files = crate::loader::file_paths(definition);
    let mut products = crate::fleet::products(&shared.rules(), &definition.name);
    products.retain(|product| files.contains(product.file.path()) == is_in_force);
    products.iter().map(|product| origin_of(&product.origin)).collect()
}

fn totals(_: &Value, _: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let view = shared.view();
    let mut by_state = std::collections::BTreeMap::<&str, u64>::new();
    let mut by_type = std::collections::BTreeMap::<&str, u64>::new();
    let mut loaded = 0u64;
    let counts =
        |d: &&Arc<Definition>| d.load_state == LoadState::Loaded || !is_inactive(&view, d.id);
    for definition in view.graph.definitions().filter(counts) {
        loaded += u64::from(definition.load_state == LoadState::Loaded);
        *by_state.entry(view.active_state(definition.id).as_str()).or_default() += 1;
        *by_type.entry(definition.unit_type().suffix()).or_default() += 1;
    }
    let facts = shared.facts();
    Ok(json!({
        "version": facts.version,
        "loaded": loaded,
        "by_state": by_state,
        "by_type": by_type,
        "jobs": view.totals.jobs,
        "failed": view.totals.failed,
        "generation": view.graph.generation(),
        "state": system_state(&view),
        "started": view.totals.startup_finished,
        "stopping": view.is_going_down(),
        "load_us": micros_between(facts.boot.load.0, facts.boot.load.1),
        "startup_us": micros_between(facts.boot.userspace, facts.boot.finish),
        "resident_bytes": resident_bytes(),
        "pid": std::process::id(),
    }))
}

/// Zero where the end was not reached.
fn micros_between(began: Moment, ended: Moment) -> u64 {
    ended.monotonic.0.saturating_sub(began.monotonic.0)
}

/// What the manager does now.
fn top(_: &Value, _: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    Ok(crate::control_top::top(shared))
}

/// Resident memory of this process.
pub(crate) fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

pub(crate) fn diagnostic(d: &Diagnostic) -> Value {
    json!({
        "path": &*d.path,
        "line": d.line,
        "column": d.column,
        "severity": d.severity.to_string(),
        "code": d.code.as_str(),
        "message": d.message,
    })
}

fn verify(parameters: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let view = shared.view();
    let definition = view.definition(find(&view, parameters)?);
    let found = load_faults::all(caller.asker, shared, definition);
    Ok(json!({
        "load": definition.load_state.as_str(),
        "diagnostics": found.iter().map(diagnostic).collect::<Vec<_>>(),
    }))
}

// ---- changing ----

/// Has the machine serve a request that makes no job.
pub(crate) fn ask(shared: &Shared, asker: Asker, request: Request) -> Answered {
    let (reply, end) = awaited(&Bell::silent());
    shared.order(Order::Ask { asker, request, reply });
    match end.wait() {
        Ok(Ended::Refused { text, .. }) => Err(refused(text)),
        Ok(_) => Ok(json!({})),
        Err(_) => Err(refused(RESTARTED)),
    }
}

fn mark(parameters: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let marked = match parameters["as"].as_str() {
        Some("maintenance") => Marked::Maintenance,
        Some("degraded") => Marked::Degraded,
        _ => return Err(invalid("as")),
    };
    let unit = find(&shared.view(), parameters)?;
    let text = parameters["comment"].as_str().unwrap_or_default().to_owned();
    ask(shared, caller.asker, Request::Mark { unit, marked, text })
}

fn clear(parameters: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let unit = find(&shared.view(), parameters)?;
    ask(shared, caller.asker, Request::Clear(unit))
}

pub(crate) fn call_and_answer(
    shared: &Shared,
    caller: &Caller<'_>,
    call: Call,
) -> Result<Answer, (&'static str, String)> {
    let (sender, answer) = caller.awaited();
    let reply = ReplySender::to(sender.waits(), move |outcome| sender.send(outcome));
    shared.call(caller.asker, call, reply);
    caller.wait(answer, RESTARTED)?.map_err(|error: BusError| refused(error.text))
}

fn reload(parameters: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let flag = |key: &str| parameters[key].as_bool().unwrap_or(false);
    let unit = parameters["unit"].is_string().then(|| unit_name(parameters)).transpose()?;
    let how = Reload {
        full: flag("full"),
        dry_run: flag("dry_run"),
        rules_only: flag("rules_only"),
        unit: unit.clone(),
        rollback: parameters["rollback"].as_u64(),
    };
    let (reply, report) = caller.awaited();
    shared.order(Order::Reload { how, reply });
    let report: Report = caller.wait(report, RESTARTED)?;
    if let Some(error) = report.error {
        return Err(refused(error));
    }
    if let Some(name) = unit.filter(|name| !name.is_template()) {
        let view = shared.view();
        let is_there = view.lookup(&name).is_some_and(|unit| is_listed(&view, unit));
        let differs = [&report.added, &report.changed, &report.removed];
        if !is_there && !differs.into_iter().any(|units| units.contains(&name)) {
            return Err((NO_SUCH_UNIT, refusals::not_found(name.as_str()).text));
        }
    }
    // Of 25,000 units that takes a moment, which is this thread's and not the loop's.
    let units = report.added.iter().chain(&report.changed).chain(&report.removed);
    let causes = report.rules.as_ref().map(|rules| crate::fleet::causes(rules, units));
    let causes = causes.unwrap_or_default();
    let names = |units: &[UnitName]| units.iter().map(|u| u.to_string()).collect::<Vec<_>>();
    let texts = report.rules.as_ref().filter(|_| flag("texts")).map(crate::fleet::texts);
    let text = |(path, before, after)| json!({"path": path, "before": before, "after": after});
    Ok(json!({
        "texts": texts.unwrap_or_default().into_iter().map(text).collect::<Vec<_>>(),
        "generation": report.generation,
        "added": names(&report.added),
        "changed": names(&report.changed),
        "removed": names(&report.removed),
        "needs_restart": names(&report.changed_up.needs_restart(&shared.settings())),
        "made_by": causes.iter().map(made_by).collect::<Vec<_>>(),
        "diagnostics": report.diagnostics.iter().map(diagnostic).collect::<Vec<_>>(),
        "files_looked_at": report.work.looked_at,
        "files_parsed": report.work.parsed,
        "took_us": report.took_us,
        "loop_us": report.loop_us,
    }))
}

fn made_by(cause: &RuleCause) -> Value {
    let mut out = origin_of(&cause.origin);
    out["unit"] = json!(cause.unit.as_str());
    if let Some(through) = &cause.through {
        out["through"] = json!({"setting": through.setting, "unit": &*through.unit});
    }
    out
}

fn unit_files(parameters: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let verbs = [
        ("enable", UnitFileVerb::Enable),
        ("disable", UnitFileVerb::Disable),
        ("reenable", UnitFileVerb::Reenable),
        ("link", UnitFileVerb::Link),
        ("mask", UnitFileVerb::Mask),
        ("unmask", UnitFileVerb::Unmask),
        ("revert", UnitFileVerb::Revert),
        ("set-default", UnitFileVerb::SetDefault),
        ("preset", UnitFileVerb::Preset(preset_mode(parameters)?)),
        ("preset-all", UnitFileVerb::PresetAll(preset_mode(parameters)?)),
    ];
    let verb = parameters["verb"].as_str().unwrap_or_default();
    let verb = verbs.iter().find(|(word, _)| *word == verb).map(|(_, v)| *v);
    let files = parameters["files"].as_array().into_iter().flatten();
    let operation = UnitFileOp {
        verb: verb.ok_or_else(|| invalid("verb"))?,
        files: files.filter_map(Value::as_str).map(str::to_owned).collect(),
        target: None,
        runtime: parameters["runtime"].as_bool().unwrap_or(false),
        force: parameters["force"].as_bool().unwrap_or(false),
    };
    let files = operation.files.clone();
    let answer = call_and_answer(shared, caller, Call::UnitFiles(operation))?;
    let said = parameters["comment"].as_str();
    let runtime = parameters["runtime"].as_bool().unwrap_or(false);
    let verb = parameters["verb"].as_str();
    // The links are made: why the comment is not kept stands beside them.
    let unsaid =
        crate::remarks::unit_files(shared, caller.asker, verb, &files, said, runtime).err();
    match answer {
        Answer::Changes { changes, carries_install_info, remarks } => {
            let changes: Vec<Value> = changes
                .into_iter()
                .map(|c| json!({"kind": c.kind, "path": c.path, "source": c.source}))
                .collect();
            let remarks: Vec<String> =
                remarks.iter().map(ToString::to_string).chain(unsaid).collect();
            Ok(json!({
                "changes": changes,
                "carries_install_info": carries_install_info,
                "remarks": remarks,
            }))
        }
        _ => Ok(json!({"changes": []})),
    }
}

fn preset_mode(parameters: &Value) -> Result<PresetMode, (&'static str, String)> {
    match parameters["mode"].as_str() {
        None | Some("" | "full") => Ok(PresetMode::Full),
        Some("enable-only") => Ok(PresetMode::EnableOnly),
        Some("disable-only") => Ok(PresetMode::DisableOnly),
        Some(_) => Err(invalid("mode")),
    }
}

fn kill(parameters: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let whom = match parameters["whom"].as_str() {
        Some("main") => KillWhom::Main,
        Some("control") => KillWhom::Control,
        Some("all") | None => KillWhom::All,
        Some(_) => return Err(invalid("whom")),
    };
    let signal = parameters["signal"].as_i64().and_then(|n| i32::try_from(n).ok());
    let signal = signal.ok_or_else(|| invalid("signal"))?;
    let unit = find(&shared.view(), parameters)?;
    let call = Call::Kill { unit, whom, signal };
    let (sender, answer) = caller.awaited();
    shared.call(caller.asker, call, ReplySender::new(move |outcome| sender.send(outcome)));
    match caller.wait(answer, RESTARTED)? {
        Ok(_) => Ok(json!({})),
        Err(error) if error.name == BusError::no_such_process("").name => {
            Err(("io.warrener.NoSuchProcess", error.text))
        }
        Err(error) => Err(refused(error.text)),
    }
}

fn reset_failed(parameters: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let unit = match parameters["unit"].is_string() {
        true => Some(find(&shared.view(), parameters)?),
        false => None,
    };
    call_and_answer(shared, caller, Call::ResetFailed(unit)).map(|_| json!({}))
}

/// Answered by the end of the connection, which is that of the process: whoever comes then is served by the next.
fn reexecute(_: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    call_and_answer(shared, caller, Call::Reexecute)?;
    let (_unused, never) = caller.awaited();
    caller.wait(never, RESTARTED)
}

/// Whether everything is being stopped, and what that waits for.
fn shutdown(_: &Value, _: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let view = shared.view();
    let waits = crate::ending::waits::values(shared, &view, crate::daemon::now().monotonic);
    let follows = crate::ending::words::follows(&view);
    Ok(json!({
        "stopping": view.is_going_down(),
        "follows": follows.map(crate::ending::code::text),
        "jobs": view.totals.jobs,
        "waits": waits,
        "unwritten_bytes": crate::ending::waits::unwritten_bytes(&view),
        "planned": shared.plan().as_ref().map(planned),
        "planned_by_logind": planned_by_logind(shared),
        "inhibitors": crate::inhibit::value(&shared.locks()),
    }))
}

fn planned_by_logind(shared: &Shared) -> Option<Value> {
    if shared.settings().context.scope != warren_unit::Scope::System {
        return None;
    }
    let text = std::fs::read_to_string(scheduled::OF_LOGIND).ok()?;
    let (mode, left_us) = scheduled::of_logind(&text, crate::daemon::now().realtime_us)?;
    Some(json!({"mode": mode, "left_us": left_us}))
}

fn hurry(parameters: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let view = shared.view();
    let unit = find(&view, parameters)?;
    let name = view.graph.name(unit).as_str();
    // Units are down by then: what is left of them is waited for by those who take the last steps.
    if view.totals.stopping
        && let Some(left_over) = Waited::read(&shared.left_over)
        && let count @ 1.. = left_over.kill(name)
    {
        left_over::note_killed(&shared.left_over, count);
        let by = AskedBy::Client(caller.asker).text(&view.graph);
        say!("{name}: what is left of it is killed{by}");
        return Ok(json!({}));
    }
    ask(shared, caller.asker, Request::Hurry(unit))
}

/// Ends everything, now or when `after` or `at` says.
fn leave(parameters: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let (how, action) = match parameters["how"].as_str() {
        Some("exit") => (Leave::Exit, PowerAction::Exit(shared.facts().exit_code)),
        Some("reboot") => (Leave::Reboot, PowerAction::Reboot),
        Some("poweroff") => (Leave::PowerOff, PowerAction::PowerOff),
        Some("halt") => (Leave::Halt, PowerAction::Halt),
        Some("kexec") => (Leave::KExec, PowerAction::Kexec),
        Some("soft-reboot") => (Leave::SoftReboot, PowerAction::SoftReboot),
        Some(_) | None => return Err(invalid("how")),
    };
    let (after, at) = (parameters["after"].as_str(), parameters["at"].as_str());
    if after.is_some() || at.is_some() {
        let message = parameters["message"].as_str().unwrap_or_default();
        let scheduled = Scheduled::new(action, after, at, message).map_err(invalid)?;
        return plan(caller.asker, scheduled, shared);
    }
    let locks = shared.locks();
    if !locks.is_empty() && parameters["ignore_inhibitors"].as_bool() != Some(true) {
        return Err(refused(format!("it is inhibited by {}", crate::inhibit::line(&locks))));
    }
    call_and_answer(shared, caller, Call::LeaveInOrder(how)).map(|_| json!({}))
}

fn plan(asker: Asker, scheduled: Scheduled, shared: &Arc<Shared>) -> Answered {
    let scope = shared.settings().context.scope;
    if let Some(why) = Daemon::cannot_follow(scheduled.action, scope) {
        return Err(refused(why));
    }
    let (reply, answer) = channel();
    shared.order(Order::Plan { asker, scheduled, reply });
    match answer.recv() {
        Ok(Ok(())) => Ok(json!({})),
        Ok(Err(why)) => Err(refused(why)),
        Err(_) => Err(refused(RESTARTED)),
    }
}

fn cancel_leave(_: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let (reply, answer) = channel();
    shared.order(Order::CancelPlan(caller.asker, reply));
    match answer.recv() {
        Ok(true) => Ok(json!({})),
        Ok(false) if shared.view().totals.stopping => {
            Err(refused("units are being stopped: there is no way back"))
        }
        Ok(false) if shared.view().is_going_down() => {
            Err(refused("no shutdown is planned: one is under way"))
        }
        Ok(false) => Err(refused("no shutdown is planned")),
        Err(_) => Err(refused(RESTARTED)),
    }
}

pub(crate) fn planned(scheduled: &Scheduled) -> Value {
    json!({
        "what": crate::ending::code::text(scheduled.action),
        "left_us": scheduled.left(crate::daemon::now()).as_micros() as u64,
        "message": scheduled.message,
    })
}

//! The methods of the control socket, as one table.

use crate::base::say::say;
use crate::control::answer::{
    Answered, NO_SUCH_UNIT, RESTARTED, ask, call_and_answer, diagnostic, find, find_or_load,
    hidden_rules, invalid, is_inactive, log_tail, log_tails, look_at_file, made_by, moment,
    planned, reason, refused, resident_bytes, row, rules_of, unit_name,
};
use crate::control::caller::{Caller, is_privileged};
use crate::control::jobs;
use crate::control::load_errors;
use crate::last_steps::left_over;
use crate::last_steps::left_over::Waited;
use crate::published::orders::{Order, Reload, Report};
use crate::published::scheduled;
use crate::published::scheduled::Scheduled;
use crate::published::shared::Shared;
use crate::shutdown::words::AskedBy;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::mpsc::channel;
use warren_bus::backend::{Backend, Call, Leave, PresetMode, UnitFileOp, UnitFileVerb};
use warren_bus::glob::Patterns;
use warren_bus::properties::manager::system_state;
use warren_bus::{Answer, BusError, ReplySender, is_listed, refusals};
use warren_core::graph::Definition;
use warren_core::model::admin_marks::Marked;
use warren_core::model::state::History;
use warren_core::model::time::Moment;
use warren_core::protocol::request::{Asker, KillWhom, Request};
use warren_init::protocol::control::PowerAction;
use warren_unit::install::UnitFileState;
use warren_unit::{LoadState, UnitName, UnitType};

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
    Method { name: "Why", changes: false, serve: crate::control::why::why },
    Method { name: "Devices", changes: false, serve: crate::control::device_report::devices },
    Method { name: "Cat", changes: false, serve: crate::control::files::cat },
    Method { name: "Records", changes: false, serve: crate::control::records::records },
    Method { name: "Record", changes: false, serve: crate::control::records::record },
    Method { name: "Top", changes: false, serve: top },
    Method { name: "Totals", changes: false, serve: totals },
    Method { name: "Verify", changes: false, serve: verify },
    Method { name: "Job", changes: true, serve: jobs::job },
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

// ---- reading ----

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

pub(crate) fn status(parameters: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let (view, unit) = find_or_load(parameters, caller, shared)?;
    let definition = view.definition(unit);
    let run = view.run(unit);
    let empty = History::default();
    let history = run.history.as_deref().unwrap_or(&empty);
    let files = definition.file_paths();
    let processes: Vec<Value> = shared
        .processes(&view, unit)
        .into_iter()
        .map(|pid| json!({"pid": pid, "command": crate::base::command_line::of(pid)}))
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
        "restart": crate::control::restarts::value(&view, shared, unit, crate::base::clock::now()),
        "ended": history.last_main.map(crate::control::restarts::ended),
        "processes": processes,
        "memory": live.memory_current,
        "cpu_ns": live.cpu_usage_nsec,
        "tasks": live.tasks_current,
        "cgroup": live.control_group,
        "reason": reason(&view, view.reason(unit)),
        "load_fault": load_errors::reason(caller.asker, shared, definition).as_ref().map(diagnostic),
        "remarks": crate::control::comments::value(&view, shared, unit),
        "log": log_tail(&mut log_tails(shared, caller.asker), definition.name.as_str()),
        "log_withheld": !is_privileged(caller.asker),
    });
    if let (Some(out), Value::Object(more)) = (out.as_object_mut(), more) {
        out.extend(more);
        out.extend(crate::control::detail::value(&view, shared, unit));
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
    Ok(crate::control::top::top(shared))
}

fn verify(parameters: &Value, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered {
    let view = shared.view();
    let definition = view.definition(find(&view, parameters)?);
    let found = load_errors::all(caller.asker, shared, definition);
    Ok(json!({
        "load": definition.load_state.as_str(),
        "diagnostics": found.iter().map(diagnostic).collect::<Vec<_>>(),
    }))
}

// ---- changing ----

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
    let causes = report.rules.as_ref().map(|rules| crate::config::fleet::causes(rules, units));
    let causes = causes.unwrap_or_default();
    let names = |units: &[UnitName]| units.iter().map(|u| u.to_string()).collect::<Vec<_>>();
    let texts = report.rules.as_ref().filter(|_| flag("texts")).map(crate::config::fleet::texts);
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
        crate::control::comments::unit_files(shared, caller.asker, verb, &files, said, runtime)
            .err();
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
    let waits = crate::shutdown::waits::values(shared, &view, crate::base::clock::now().monotonic);
    let follows = crate::shutdown::words::follows(&view);
    Ok(json!({
        "stopping": view.is_going_down(),
        "follows": follows.map(crate::base::power_action::text),
        "jobs": view.totals.jobs,
        "waits": waits,
        "unwritten_bytes": crate::shutdown::waits::unwritten_bytes(&view),
        "planned": shared.plan().as_ref().map(planned),
        "planned_by_logind": planned_by_logind(shared),
        "inhibitors": crate::published::locks::value(&shared.locks()),
    }))
}

fn planned_by_logind(shared: &Shared) -> Option<Value> {
    if shared.settings().context.scope != warren_unit::Scope::System {
        return None;
    }
    let text = std::fs::read_to_string(scheduled::OF_LOGIND).ok()?;
    let (mode, left_us) = scheduled::of_logind(&text, crate::base::clock::now().realtime_us)?;
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
        say!("{name}: killing its remaining processes{by}");
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
        return Err(refused(format!(
            "it is inhibited by {}",
            crate::shutdown::inhibitors::line(&locks)
        )));
    }
    call_and_answer(shared, caller, Call::LeaveInOrder(how)).map(|_| json!({}))
}

fn plan(asker: Asker, scheduled: Scheduled, shared: &Arc<Shared>) -> Answered {
    let scope = shared.settings().context.scope;
    if let Some(why) = crate::base::power_action::cannot_follow(scheduled.action, scope) {
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

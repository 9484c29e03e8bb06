//! The methods of the control socket, as one table.

use crate::base::hidden_processes;
use crate::base::say::say;
use crate::control::answer::{
    Answered, RESTARTED, Refused, all_log_tails, ask, call_and_answer, diagnostic, find,
    find_or_load, hidden_rules, invalid, is_inactive, log_tail, look_at_file, made_by,
    micros_between, moment, planned, reason, refused, resident_bytes, row, rules_of, unit_name,
};
use crate::control::caller::{Caller, is_privileged};
use crate::control::device_report::devices;
use crate::control::files::cat;
use crate::control::jobs;
use crate::control::load_errors;
use crate::control::metrics::metrics;
use crate::control::overview::overview;
use crate::control::records::{record, records};
use crate::control::rules_user;
use crate::control::stop_plan::{stop_plan, unprotected};
use crate::control::timers::timers;
use crate::control::top::top;
use crate::control::why::why;
use crate::last_steps::left_over;
use crate::last_steps::left_over::LeftoverWait;
use crate::published::orders::{Order, Reload, Report};
use crate::published::scheduled;
use crate::published::scheduled::Scheduled;
use crate::published::shared::Shared;
use crate::shutdown::words::AskedBy;
use serde::Serialize;
use std::sync::Arc;
use std::sync::mpsc::channel;
use warren_bus::backend::{self, Backend, Call, PresetMode, UnitFileOp, UnitFileVerb};
use warren_bus::glob::Patterns;
use warren_bus::properties::manager::system_state;
use warren_bus::{Answer, BusError, ReplySender, is_listed, refusals};
use warren_core::graph::Definition;
use warren_core::model::admin_marks::Marked;
use warren_core::model::state::History;
use warren_core::protocol::request::{self, Asker};
use warren_init::protocol::control::PowerAction;
use warren_sys::process::real_ids;
use warren_unit::install::UnitFileState;
use warren_unit::{LoadState, UnitName, UnitType};
use warren_wire::control::{
    Clear, Done, ErrorName, FileChange, FileState, FileStateAnswer, FileText, Hurry, Kill,
    KillWhom, Leave, LeaveHow, List, ListAnswer, LogindPlan, Mark, MarkAs, Method, ProcessRow,
    ReloadAnswer, ReloadConfiguration, Request, ResetFailed, ShutdownAnswer, Status, StatusAnswer,
    Texts, TotalsAnswer, UnitFileVerb as Verb, UnitFiles, UnitFilesAnswer, Verify, VerifyAnswer,
    write_answer, write_error,
};

/// Serves a request with one answer; the answer as a message.
pub(crate) fn serve(request: &Request, caller: &Caller<'_>, shared: &Arc<Shared>) -> Vec<u8> {
    match request {
        Request::List(request) => message(list(request, caller, shared)),
        Request::Status(request) => message(status(request, caller, shared)),
        Request::FileState(request) => message(file_state(request, caller, shared)),
        Request::Why(request) => message(why(request, caller, shared)),
        Request::Devices(_) => message(Ok(devices(shared))),
        Request::Timers(_) => message(Ok(timers(shared))),
        Request::Cat(request) => message(cat(request, caller, shared)),
        Request::Records(_) => message(Ok(records(shared))),
        Request::Record(request) => message(record(request, shared)),
        Request::Top(_) => message(Ok(top(shared))),
        Request::Totals(_) => message(Ok(totals(shared))),
        Request::Overview(request) => message(Ok(overview(request, shared))),
        Request::Metrics(request) => message(metrics(request, caller, shared)),
        Request::Verify(request) => message(verify(request, caller, shared)),
        Request::Shutdown(_) => message(Ok(shutdown(shared))),
        Request::StopPlan(request) => message(stop_plan(request, shared)),
        Request::Reloads(_) => message(Ok(shared.reloads.answer())),
        Request::Unprotected(_) => message(Ok(unprotected(shared))),
        Request::Job(request) => message(jobs::job(request, caller, shared)),
        Request::ReloadConfiguration(request) => message(reload(request, caller, shared)),
        Request::UnitFiles(request) => message(unit_files(request, caller, shared)),
        Request::Kill(request) => message(kill(request, caller, shared)),
        Request::ResetFailed(request) => message(reset_failed(request, caller, shared)),
        Request::Reexecute(_) => message(reexecute(caller, shared)),
        Request::Leave(request) => message(leave(request, caller, shared)),
        Request::CancelLeave(_) => message(cancel_leave(caller, shared)),
        Request::Hurry(request) => message(hurry(request, caller, shared)),
        Request::Mark(request) => message(mark(request, caller, shared)),
        Request::Clear(request) => message(clear(request, caller, shared)),
        // The connection has their answers.
        Request::Jobs(_) => refusal((ErrorName::ExpectedMore, Method::Jobs.full_name())),
        Request::Inhibit(_) => refusal((ErrorName::MethodNotFound, Method::Inhibit.full_name())),
    }
}

/// What is answered, as a message.
pub(crate) fn message(answered: Answered<impl Serialize>) -> Vec<u8> {
    match answered {
        Ok(answer) => write_answer(&answer, false),
        Err(why) => refusal(why),
    }
}

/// A refusal as a message.
pub(crate) fn refusal((error, text): Refused) -> Vec<u8> {
    write_error(&error, &text)
}

// ---- reading ----

fn list(request: &List, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered<ListAnswer> {
    let view = shared.view();
    let patterns = Patterns::new(&words(&request.patterns), !is_privileged(caller.asker))
        .map_err(|why| (ErrorName::LimitsExceeded, why))?;
    let states = words(&request.state);
    let types: Vec<UnitType> =
        words(&request.unit_type).into_iter().map(unit_type).collect::<Result<_, _>>()?;
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
    Ok(ListAnswer { units: rows.into_iter().map(|d| row(&view, d)).collect() })
}

fn words(texts: &Texts) -> Vec<&str> {
    texts.0.iter().map(String::as_str).collect()
}

fn unit_type(word: &str) -> Result<UnitType, Refused> {
    UnitType::from_suffix(word).ok_or_else(|| invalid(format!("Unknown unit type {word}.")))
}

fn status(request: &Status, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered<StatusAnswer> {
    let (view, unit) = find_or_load(request.unit.as_deref(), request.pid, caller, shared)?;
    let definition = view.definition(unit);
    let run = view.run(unit);
    let empty = History::default();
    let history = run.history.as_deref().unwrap_or(&empty);
    let files = definition.file_paths();
    let processes = shared.processes(&view, unit).into_iter();
    let hides = !is_privileged(caller.asker) && hidden_processes::are_hidden();
    let processes = processes.map(|pid| {
        let is_own = || real_ids(pid as u32).is_some_and(|(uid, _)| uid == caller.asker.uid);
        let command = match !hides || is_own() {
            true => crate::base::command_line::of(pid),
            false => "[hidden by hidepid=]".to_owned(),
        };
        ProcessRow { pid: pid as u32, command }
    });
    let live = shared.live(unit);
    let made_by = rules_of(shared, definition);
    let reads_log = is_privileged(caller.asker)
        || !made_by.is_empty() && rules_user::reads_logs_of_rules(caller.asker);
    let mut out = StatusAnswer {
        row: row(&view, definition),
        files: files.iter().map(|file| file.to_string()).collect(),
        made_by,
        hides: hidden_rules(shared, definition),
        file_state: file_state_of(shared, &definition.name),
        differs_on_disk: shared.differs_on_disk(definition),
        since: moment(history.state_change),
        active_since: moment(history.active_enter),
        main_pid: run.main_process().map(|p| p.pid),
        control_pid: run.control_pid(),
        status_text: history.status_text.clone(),
        result: history.outcome.as_str().to_owned(),
        restarts: history.restarts,
        restart: crate::control::restarts::answer(&view, shared, unit, crate::base::clock::now()),
        ended: history.last_main.map(crate::control::restarts::ended),
        processes: processes.collect(),
        memory: live.memory_current,
        cpu_ns: live.cpu_usage_nsec,
        tasks: live.tasks_current,
        cgroup: live.control_group,
        reason: reason(&view, view.reason(unit)),
        load_fault: load_errors::reason(caller.asker, shared, definition).as_ref().map(diagnostic),
        remarks: crate::control::comments::answers(&view, shared, unit),
        log: log_tail(&mut reads_log.then(|| all_log_tails(shared)), definition.name.as_str()),
        log_withheld: !reads_log,
        ..StatusAnswer::default()
    };
    crate::control::detail::add(&mut out, &view, shared, unit);
    Ok(out)
}

/// The installation state of a unit's file, also of a template and of an instance that is not in use;
/// null if there is no file.
fn file_state(
    request: &FileState,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
) -> Answered<FileStateAnswer> {
    let name = unit_name(request.unit.as_deref())?;
    look_at_file(&name, caller, shared)?;
    Ok(FileStateAnswer { state: file_state_of(shared, &name) })
}

fn file_state_of(shared: &Shared, name: &UnitName) -> Option<String> {
    shared.states().get(name).map(|state| UnitFileState::as_str(state).to_owned())
}

fn totals(shared: &Arc<Shared>) -> TotalsAnswer {
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
    let owned = |counts: std::collections::BTreeMap<&str, u64>| {
        counts.into_iter().map(|(word, count)| (word.to_owned(), count)).collect()
    };
    TotalsAnswer {
        version: facts.version.clone(),
        loaded,
        by_state: owned(by_state),
        by_type: owned(by_type),
        jobs: view.totals.jobs,
        failed: view.totals.failed,
        generation: view.graph.generation(),
        state: system_state(&view).to_owned(),
        started: Some(view.totals.startup_finished),
        stopping: view.is_going_down(),
        load_us: micros_between(facts.boot.load.0, facts.boot.load.1),
        startup_us: micros_between(facts.boot.userspace, facts.boot.finish),
        resident_bytes: resident_bytes(),
        pid: std::process::id(),
    }
}

fn verify(request: &Verify, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered<VerifyAnswer> {
    let view = shared.view();
    let definition = view.definition(find(&view, request.unit.as_deref())?);
    let found = load_errors::all(caller.asker, shared, definition);
    Ok(VerifyAnswer {
        load: definition.load_state.as_str().into(),
        diagnostics: found.iter().map(diagnostic).collect(),
    })
}

// ---- changing ----

fn mark(request: &Mark, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered<Done> {
    let marked = match request.mark {
        MarkAs::Maintenance => Marked::Maintenance,
        MarkAs::Degraded => Marked::Degraded,
        MarkAs::Other(_) => return Err(invalid("as")),
    };
    let unit = find(&shared.view(), request.unit.as_deref())?;
    let text = request.comment.clone().unwrap_or_default();
    ask(shared, caller.asker, request::Request::Mark { unit, marked, text })
}

fn clear(request: &Clear, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered<Done> {
    let unit = find(&shared.view(), request.unit.as_deref())?;
    ask(shared, caller.asker, request::Request::Clear(unit))
}

fn reload(
    request: &ReloadConfiguration,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
) -> Answered<ReloadAnswer> {
    let unit = request.unit.as_deref().map(|unit| unit_name(Some(unit))).transpose()?;
    let how = Reload {
        full: request.full,
        dry_run: request.dry_run,
        rules_only: request.rules_only,
        unit: unit.clone(),
        rollback: request.rollback,
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
            return Err((ErrorName::NoSuchUnit, refusals::not_found(name.as_str()).text));
        }
    }
    // Of 25,000 units that takes a moment, which is this thread's and not the loop's.
    let units = report.added.iter().chain(&report.changed).chain(&report.removed);
    let causes = report.rules.as_ref().map(|rules| crate::config::fleet::causes(rules, units));
    let causes = causes.unwrap_or_default();
    let names = |units: &[UnitName]| units.iter().map(|u| u.to_string()).collect::<Vec<_>>();
    let texts = report.rules.as_ref().filter(|_| request.texts).map(crate::config::fleet::texts);
    let text =
        |(path, before, after): (Box<str>, _, _)| FileText { path: path.into(), before, after };
    Ok(ReloadAnswer {
        texts: texts.unwrap_or_default().into_iter().map(text).collect(),
        generation: report.generation,
        added: names(&report.added),
        changed: names(&report.changed),
        removed: names(&report.removed),
        needs_restart: names(&report.changed_up.needs_restart(&shared.settings())),
        made_by: causes.iter().map(made_by).collect(),
        diagnostics: report.diagnostics.iter().map(diagnostic).collect(),
        files_looked_at: report.work.looked_at.into(),
        files_parsed: report.work.parsed.into(),
        took_us: report.took_us,
        loop_us: report.loop_us,
    })
}

fn unit_files(
    request: &UnitFiles,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
) -> Answered<UnitFilesAnswer> {
    let operation = UnitFileOp {
        verb: verb_of(request)?,
        files: request.files.clone(),
        target: None,
        runtime: request.runtime,
        force: request.force,
    };
    let answer = call_and_answer(shared, caller, Call::UnitFiles(operation))?;
    // The links are made: why the comment is not kept stands beside them.
    let unsaid = crate::control::comments::unit_files(shared, caller.asker, request).err();
    match answer {
        Answer::Changes { changes, carries_install_info, remarks } => {
            let change = |c: backend::FileChange| FileChange {
                kind: c.kind.to_owned(),
                path: c.path,
                source: c.source,
            };
            Ok(UnitFilesAnswer {
                changes: changes.into_iter().map(change).collect(),
                carries_install_info: Some(carries_install_info),
                remarks: remarks.iter().map(ToString::to_string).chain(unsaid).collect(),
            })
        }
        _ => Ok(UnitFilesAnswer::default()),
    }
}

fn verb_of(request: &UnitFiles) -> Result<UnitFileVerb, Refused> {
    let mode = match request.mode.as_deref() {
        None | Some("" | "full") => PresetMode::Full,
        Some("enable-only") => PresetMode::EnableOnly,
        Some("disable-only") => PresetMode::DisableOnly,
        Some(_) => return Err(invalid("mode")),
    };
    Ok(match request.verb {
        Verb::Enable => UnitFileVerb::Enable,
        Verb::Disable => UnitFileVerb::Disable,
        Verb::Reenable => UnitFileVerb::Reenable,
        Verb::Link => UnitFileVerb::Link,
        Verb::Mask => UnitFileVerb::Mask,
        Verb::Unmask => UnitFileVerb::Unmask,
        Verb::Revert => UnitFileVerb::Revert,
        Verb::SetDefault => UnitFileVerb::SetDefault,
        Verb::Preset => UnitFileVerb::Preset(mode),
        Verb::PresetAll => UnitFileVerb::PresetAll(mode),
        Verb::Other(_) => return Err(invalid("verb")),
    })
}

fn kill(request: &Kill, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered<Done> {
    let whom = match request.whom {
        Some(KillWhom::Main) => request::KillWhom::Main,
        Some(KillWhom::Control) => request::KillWhom::Control,
        Some(KillWhom::All) | None => request::KillWhom::All,
        Some(KillWhom::Other(_)) => return Err(invalid("whom")),
    };
    let signal = request.signal.and_then(|n| i32::try_from(n).ok());
    let signal = signal.ok_or_else(|| invalid("signal"))?;
    let unit = find(&shared.view(), request.unit.as_deref())?;
    let call = Call::Kill { unit, whom, signal };
    let (sender, answer) = caller.awaited();
    shared.call(caller.asker, call, ReplySender::new(move |outcome| sender.send(outcome)));
    match caller.wait(answer, RESTARTED)? {
        Ok(_) => Ok(Done {}),
        Err(error) if error.name == BusError::no_such_process("").name => {
            Err((ErrorName::NoSuchProcess, error.text))
        }
        Err(error) => Err(refused(error.text)),
    }
}

fn reset_failed(
    request: &ResetFailed,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
) -> Answered<Done> {
    let unit = request.unit.as_deref();
    let unit = unit.map(|unit| find(&shared.view(), Some(unit))).transpose()?;
    call_and_answer(shared, caller, Call::ResetFailed(unit)).map(|_| Done {})
}

/// Answered by the end of the connection, which is that of the process: whoever comes then is served by the next.
fn reexecute(caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered<Done> {
    call_and_answer(shared, caller, Call::Reexecute)?;
    let (_unused, never) = caller.awaited();
    caller.wait(never, RESTARTED)
}

/// Whether everything is being stopped, and what that waits for.
fn shutdown(shared: &Arc<Shared>) -> ShutdownAnswer {
    let view = shared.view();
    let waits = crate::shutdown::waits::answers(shared, &view, crate::base::clock::now().monotonic);
    let follows = crate::shutdown::words::follows(&view);
    ShutdownAnswer {
        stopping: view.is_going_down(),
        follows: follows.map(|action| crate::base::power_action::text(action).to_owned()),
        jobs: view.totals.jobs,
        waits,
        unwritten_bytes: crate::shutdown::waits::unwritten_bytes(&view),
        planned: shared.plan().as_ref().map(planned),
        planned_by_logind: planned_by_logind(shared),
        inhibitors: crate::published::locks::answers(&shared.locks()),
    }
}

fn planned_by_logind(shared: &Shared) -> Option<LogindPlan> {
    if shared.settings().context.scope != warren_unit::Scope::System {
        return None;
    }
    let text = std::fs::read_to_string(scheduled::OF_LOGIND).ok()?;
    let (mode, left_us) = scheduled::of_logind(&text, crate::base::clock::now().realtime_us)?;
    Some(LogindPlan { mode: mode.to_owned(), left_us })
}

fn hurry(request: &Hurry, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered<Done> {
    let view = shared.view();
    let unit = find(&view, request.unit.as_deref())?;
    let name = view.graph.name(unit).as_str();
    // Units are down by then: what is left of them is waited for by those who take the last steps.
    if view.totals.stopping
        && let Some(left_over) = LeftoverWait::read(&shared.left_over)
        && let count @ 1.. = left_over.kill(name)
    {
        left_over::note_killed(&shared.left_over, count);
        let by = AskedBy::Client(caller.asker).text(&view.graph);
        say!("{name}: killing its remaining processes{by}");
        return Ok(Done {});
    }
    ask(shared, caller.asker, request::Request::Hurry(unit))
}

/// Ends everything, now or when `after` or `at` says.
fn leave(request: &Leave, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered<Done> {
    use backend::Leave as How;
    let (how, action) = match request.how {
        Some(LeaveHow::Exit) => (How::Exit, PowerAction::Exit(shared.facts().exit_code)),
        Some(LeaveHow::Reboot) => (How::Reboot, PowerAction::Reboot),
        Some(LeaveHow::Poweroff) => (How::PowerOff, PowerAction::PowerOff),
        Some(LeaveHow::Halt) => (How::Halt, PowerAction::Halt),
        Some(LeaveHow::Kexec) => (How::KExec, PowerAction::Kexec),
        Some(LeaveHow::SoftReboot) => (How::SoftReboot, PowerAction::SoftReboot),
        Some(LeaveHow::Other(_)) | None => return Err(invalid("how")),
    };
    let (after, at) = (request.after.as_deref(), request.at.as_deref());
    if after.is_some() || at.is_some() {
        let message = request.message.as_deref().unwrap_or_default();
        let scheduled = Scheduled::new(action, after, at, message).map_err(invalid)?;
        return plan(caller.asker, scheduled, shared);
    }
    let locks = shared.locks();
    if !locks.is_empty() && request.ignore_inhibitors != Some(true) {
        return Err(refused(format!("inhibited by {}", crate::shutdown::inhibitors::line(&locks))));
    }
    call_and_answer(shared, caller, Call::LeaveInOrder(how)).map(|_| Done {})
}

fn plan(asker: Asker, scheduled: Scheduled, shared: &Arc<Shared>) -> Answered<Done> {
    let scope = shared.settings().context.scope;
    if let Some(why) = crate::base::power_action::cannot_follow(scheduled.action, scope) {
        return Err(refused(why));
    }
    let (reply, answer) = channel();
    shared.order(Order::Plan { asker, scheduled, reply });
    match answer.recv() {
        Ok(Ok(())) => Ok(Done {}),
        Ok(Err(why)) => Err(refused(why)),
        Err(_) => Err(refused(RESTARTED)),
    }
}

fn cancel_leave(caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered<Done> {
    let (reply, answer) = channel();
    shared.order(Order::CancelPlan(caller.asker, reply));
    match answer.recv() {
        Ok(true) => Ok(Done {}),
        Ok(false) if shared.view().totals.stopping => {
            Err(refused("units are already being stopped: the shutdown cannot be cancelled"))
        }
        Ok(false) if shared.view().is_going_down() => {
            Err(refused("no shutdown is scheduled; one is in progress"))
        }
        Ok(false) => Err(refused("no shutdown is scheduled")),
        Err(_) => Err(refused(RESTARTED)),
    }
}

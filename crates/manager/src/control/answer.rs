//! Parts of answers that several methods of the control socket give: rows, reasons, causes, errors.

use crate::base::answers::{Bell, awaited};
use crate::config::fleet::RuleCause;
use crate::control::caller::{Caller, is_privileged};
use crate::peer::log_tail::Tails;
use crate::published::orders::{Ended, Order};
use crate::published::scheduled::Scheduled;
use crate::published::shared::Shared;
use serde_json::{Value, json};
use std::sync::Arc;
use warren_bus::backend::{Backend, Call};
use warren_bus::{Answer, BusError, ReplySender, is_listed, is_only_named, refusals};
use warren_core::graph::Definition;
use warren_core::model::active_state::ActiveState;
use warren_core::model::ids::UnitId;
use warren_core::model::reason::{Cause, Reason};
use warren_core::model::time::Moment;
use warren_core::protocol::request::{Asker, Request};
use warren_core::view::View;
use warren_fleet::made::Origin;
use warren_unit::{Diagnostic, UnitName};

/// What a method answers, or the name and text of an error.
pub(crate) type Answered = Result<Value, (&'static str, String)>;

/// Name of the error for a unit that is not there.
pub(crate) const NO_SUCH_UNIT: &str = "io.warrener.NoSuchUnit";

/// What is told of what the manager did not answer before it ended.
pub(crate) const RESTARTED: &str = "the manager was restarted";

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
pub(crate) fn has_past(view: &View, unit: UnitId) -> bool {
    !is_inactive(view, unit) || view.run(unit).notes().is_some()
}

pub(crate) fn is_inactive(view: &View, unit: UnitId) -> bool {
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

pub(crate) fn find_by_process(
    pid: u64,
    shared: &Arc<Shared>,
) -> Result<(Arc<View>, UnitId), (&'static str, String)> {
    let unit = u32::try_from(pid).ok().and_then(|pid| shared.unit_of_process(pid));
    let unit =
        unit.ok_or_else(|| (NO_SUCH_UNIT, format!("Process {pid} does not belong to a unit.")))?;
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

pub(crate) fn moment(at: Moment) -> Value {
    match at.is_never() {
        true => Value::Null,
        false => json!(at.realtime_us),
    }
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
pub(crate) fn origin_of(origin: &Origin) -> Value {
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
pub(crate) fn hidden_rules(shared: &Shared, definition: &Definition) -> Vec<Value> {
    rules(shared, definition, false)
}

pub(crate) fn rules(shared: &Shared, definition: &Definition, is_in_force: bool) -> Vec<Value> {
    let files = definition.file_paths();
    let mut products = crate::config::fleet::products(&shared.rules(), &definition.name);
    products.retain(|product| files.contains(product.file.path()) == is_in_force);
    products.iter().map(|product| origin_of(&product.origin)).collect()
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

pub(crate) fn made_by(cause: &RuleCause) -> Value {
    let mut out = origin_of(&cause.origin);
    out["unit"] = json!(cause.unit.as_str());
    if let Some(through) = &cause.through {
        out["through"] = json!({"setting": through.setting, "unit": &*through.unit});
    }
    out
}

pub(crate) fn planned(scheduled: &Scheduled) -> Value {
    json!({
        "what": crate::base::power_action::text(scheduled.action),
        "left_us": scheduled.left(crate::base::clock::now()).as_micros() as u64,
        "message": scheduled.message,
    })
}

//! Parts of answers that several methods of the control socket give: rows, reasons, causes, errors.

use crate::base::answers::{Bell, awaited};
use crate::config::fleet::RuleCause;
use crate::control::caller::{Caller, is_privileged};
use crate::peer::log_tail::Tails;
use crate::published::orders::{JobOutcome, Order};
use crate::published::scheduled::Scheduled;
use crate::published::shared::Shared;
use std::sync::Arc;
use std::time::Duration;
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
use warren_wire::control::{
    self as wire, CauseKind, Done, ErrorName, JobRow, PlannedShutdown, ReasonAnswer, RuleOrigin,
    RuleTarget, Through, UnitRow,
};

/// Name and text of an error.
pub(crate) type Refused = (ErrorName, String);

/// What a method answers.
pub(crate) type Answered<A> = Result<A, Refused>;

/// What is told of what the manager did not answer before it ended.
pub(crate) const RESTARTED: &str = "the manager was restarted";

pub(crate) fn refused(message: impl Into<String>) -> Refused {
    (ErrorName::Refused, message.into())
}

pub(crate) fn invalid(message: impl Into<String>) -> Refused {
    (ErrorName::InvalidParameter, message.into())
}

/// The name that a parameter `unit` has.
pub(crate) fn unit_name(unit: Option<&str>) -> Result<UnitName, Refused> {
    let text = unit.ok_or_else(|| invalid("unit"))?;
    UnitName::parse(text).map_err(|e| invalid(format!("unit {text}: {e}")))
}

/// The unit of this name, if it is there or others name it.
pub(crate) fn find(view: &View, unit: Option<&str>) -> Result<UnitId, Refused> {
    let name = unit_name(unit)?;
    let unit = view.lookup(&name).filter(|&unit| is_listed(view, unit) || has_past(view, unit));
    unit.ok_or_else(|| (ErrorName::NoSuchUnit, refusals::not_found(name.as_str()).text))
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
    unit: Option<&str>,
    pid: Option<u64>,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
) -> Result<(Arc<View>, UnitId), Refused> {
    if let Some(pid) = pid {
        return find_by_process(pid, shared);
    }
    let (view, name) = (shared.view(), unit_name(unit)?);
    let is_there = view.lookup(&name).is_some_and(|unit| !is_only_named(&view, unit));
    if !is_there {
        look_at_file(&name, caller, shared)?;
    }
    let has_file = shared.states().get(&name).is_some();
    if has_file && name.is_template() {
        refusals::unit_name(name.as_str()).map_err(|error| invalid(error.text))?;
    }
    if is_there || !has_file {
        return find(&view, unit).map(|unit| (view.clone(), unit));
    }
    call_and_answer(shared, caller, Call::LoadUnit(name))?;
    let view = shared.view();
    find(&view, unit).map(|unit| (view.clone(), unit))
}

pub(crate) fn find_by_process(
    pid: u64,
    shared: &Arc<Shared>,
) -> Result<(Arc<View>, UnitId), Refused> {
    let unit = u32::try_from(pid).ok().and_then(|pid| shared.unit_of_process(pid));
    let unit = unit.ok_or_else(|| {
        (ErrorName::NoSuchUnit, format!("Process {pid} does not belong to a unit."))
    })?;
    Ok((shared.view(), unit))
}

/// Has what is told of a unit's file be what lies on the disk.
pub(crate) fn look_at_file(
    name: &UnitName,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
) -> Result<(), Refused> {
    match shared.knows_unit_files(Some(name)) {
        true => Ok(()),
        false => {
            call_and_answer(shared, caller, Call::LookAtUnitFiles(Some(name.clone()))).map(drop)
        }
    }
}

pub(crate) fn row(view: &View, definition: &Definition) -> UnitRow {
    let unit = definition.id;
    UnitRow {
        name: definition.name.as_str().to_owned(),
        load: definition.load_state.as_str().into(),
        active: active(view, unit),
        sub: view.sub_state(unit).to_owned(),
        description: definition.title().into_owned(),
        job: view.job(unit).map(|job| JobRow {
            id: job.id.0,
            kind: job.kind.as_str().into(),
            running: job.running,
        }),
    }
}

pub(crate) fn active(view: &View, unit: UnitId) -> wire::ActiveState {
    view.active_state(unit).as_str().into()
}

pub(crate) fn name(view: &View, unit: UnitId) -> String {
    view.graph.name(unit).as_str().to_owned()
}

/// µs since 1970; none for what never was.
pub(crate) fn moment(at: Moment) -> Option<u64> {
    (!at.is_never()).then_some(at.realtime_us)
}

/// A span of time in µs.
pub(crate) fn micros(time: Duration) -> u64 {
    time.as_micros() as u64
}

/// Who tells the last lines of logs; nobody for who may not read the log itself.
pub(crate) fn log_tails(shared: &Shared, asker: Asker) -> Option<Tails<'_>> {
    is_privileged(asker).then(|| all_log_tails(shared))
}

/// The same without a look at who asks.
pub(crate) fn all_log_tails(shared: &Shared) -> Tails<'_> {
    Tails::new(&shared.journal_socket, &shared.log_dir)
}

/// The last lines of a unit's log.
pub(crate) fn log_tail(tails: &mut Option<Tails<'_>>, unit: &str) -> Vec<String> {
    tails.as_mut().map_or_else(Vec::new, |tails| tails.of(unit))
}

pub(crate) fn cause(view: &View, cause: Cause) -> Option<wire::Cause> {
    let plain = |kind| wire::Cause { kind, ..wire::Cause::default() };
    let of_unit = |kind, unit: UnitId| {
        let name = view.graph.get(unit).map(|d| d.name.to_string());
        wire::Cause { unit: Some(name), ..plain(kind) }
    };
    Some(match cause {
        Cause::None => return None,
        Cause::Request { uid, pid } => {
            let pid = (pid != Asker::OUTSIDE).then_some(pid);
            wire::Cause { uid: Some(uid), pid: Some(pid), ..plain(CauseKind::Request) }
        }
        Cause::Dependency(unit) => of_unit(CauseKind::Dependency, unit),
        Cause::Trigger(unit) => of_unit(CauseKind::Trigger, unit),
        Cause::Outcome(unit) => of_unit(CauseKind::Outcome, unit),
        Cause::Restart => plain(CauseKind::Restart),
        Cause::Kernel => plain(CauseKind::Kernel),
        Cause::Manager => plain(CauseKind::Manager),
    })
}

pub(crate) fn reason(view: &View, reason: Reason) -> ReasonAnswer {
    ReasonAnswer {
        code: reason.code.id().into(),
        text: reason.code.text().to_owned(),
        cure: reason.code.cure().to_owned(),
        cause: cause(view, reason.cause),
    }
}

/// The rule behind a unit file, and what it made it for.
pub(crate) fn origin_of(origin: &Origin) -> RuleOrigin {
    let target = origin.target.as_ref().map(|(name, spot)| RuleTarget {
        name: name.to_string(),
        path: spot.path.to_string(),
        line: spot.line,
    });
    RuleOrigin {
        rule: origin.head.to_string(),
        path: origin.spot.path.to_string(),
        line: origin.spot.line,
        target,
        unit: None,
        through: None,
    }
}

/// The rules behind a unit and its drop-ins, as far as no file hides what they make.
pub(crate) fn rules_of(shared: &Shared, definition: &Definition) -> Vec<RuleOrigin> {
    rules(shared, definition, true)
}

/// The rules behind what files hide: a file by hand counts more than what rules make.
pub(crate) fn hidden_rules(shared: &Shared, definition: &Definition) -> Vec<RuleOrigin> {
    rules(shared, definition, false)
}

pub(crate) fn rules(
    shared: &Shared,
    definition: &Definition,
    is_in_force: bool,
) -> Vec<RuleOrigin> {
    let files = definition.file_paths();
    let mut products = crate::config::fleet::products(&shared.rules(), &definition.name);
    products.retain(|product| files.contains(product.file.path()) == is_in_force);
    products.iter().map(|product| origin_of(&product.origin)).collect()
}

/// Resident memory of this process.
/// Zero where the end was not reached.
pub(crate) fn micros_between(began: Moment, ended: Moment) -> u64 {
    ended.monotonic.0.saturating_sub(began.monotonic.0)
}

pub(crate) fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}

pub(crate) fn diagnostic(d: &Diagnostic) -> wire::Diagnostic {
    wire::Diagnostic {
        path: d.path.to_string(),
        line: d.line,
        column: d.column,
        severity: d.severity.to_string().as_str().into(),
        code: d.code.as_str().to_owned(),
        message: d.message.to_string(),
    }
}

/// Has the machine serve a request that makes no job.
pub(crate) fn ask(shared: &Shared, asker: Asker, request: Request) -> Answered<Done> {
    let (reply, end) = awaited(&Bell::silent());
    shared.order(Order::Ask { asker, request, reply });
    match end.wait() {
        Ok(JobOutcome::Refused { text, .. }) => Err(refused(text)),
        Ok(_) => Ok(Done {}),
        Err(_) => Err(refused(RESTARTED)),
    }
}

pub(crate) fn call_and_answer(
    shared: &Shared,
    caller: &Caller<'_>,
    call: Call,
) -> Result<Answer, Refused> {
    let (sender, answer) = caller.awaited();
    let reply = ReplySender::to(sender.waits(), move |outcome| sender.send(outcome));
    shared.call(caller.asker, call, reply);
    caller.wait(answer, RESTARTED)?.map_err(|error: BusError| refused(error.text))
}

pub(crate) fn made_by(cause: &RuleCause) -> RuleOrigin {
    let through = cause.through.as_ref().map(|through| Through {
        setting: through.setting.to_string(),
        unit: through.unit.to_string(),
    });
    RuleOrigin { unit: Some(cause.unit.as_str().to_owned()), through, ..origin_of(&cause.origin) }
}

pub(crate) fn planned(scheduled: &Scheduled) -> PlannedShutdown {
    PlannedShutdown {
        what: crate::base::power_action::text(scheduled.action).to_owned(),
        left_us: micros(scheduled.left(crate::base::clock::now())),
        message: scheduled.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use warren_core::model::job::{JobKind, JobResult, JobType};
    use warren_core::model::reason::Code;
    use warren_unit::{LoadState, Severity};

    use super::*;

    /// A word that the command does not know is shown, but nothing is decided by it.
    #[test]
    fn every_word_of_the_machine_is_one_that_the_command_knows() {
        use ActiveState::{Activating, Active, Deactivating, Failed, Inactive, Reloading};
        for state in [Active, Reloading, Inactive, Failed, Activating, Deactivating] {
            assert!(wire::ActiveState::from(state.as_str()).is_known(), "{state:?}");
        }
        use LoadState::{BadSetting, Error, Loaded, Masked, NotFound, Stub};
        for state in [Loaded, NotFound, BadSetting, Error, Masked, Stub] {
            assert!(wire::LoadState::from(state.as_str()).is_known(), "{state:?}");
        }
        for (job, word) in JobType::NAMES {
            assert!(wire::JobType::from(*word).is_known(), "{job:?}");
        }
        use JobKind::{Nop, Reload, Restart, Start, Stop, VerifyActive};
        for kind in [Start, VerifyActive, Stop, Reload, Restart, Nop] {
            assert!(wire::JobKind::from(kind.as_str()).is_known(), "{kind:?}");
        }
        use JobResult::{Assert, Canceled, Collected, Dependency, Done, Invalid, Once, Skipped};
        use JobResult::{Failed as JobFailed, Timeout, Unsupported};
        let results = [Done, Canceled, Timeout, JobFailed, Dependency, Skipped, Invalid, Assert];
        for result in results.into_iter().chain([Unsupported, Collected, Once]) {
            assert!(wire::JobResult::from(result.as_str()).is_known(), "{result:?}");
        }
        for severity in [Severity::Error, Severity::Warning] {
            assert!(wire::Severity::from(&*severity.to_string()).is_known(), "{severity}");
        }
        let codes: [wire::ReasonCode; 2] =
            [Code::Finished, Code::ConditionFailed].map(|code| code.id().into());
        assert_eq!(codes, [wire::ReasonCode::FINISHED, wire::ReasonCode::CONDITION_FAILED]);
    }
}

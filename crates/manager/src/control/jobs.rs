//! Jobs asked for over the control socket, and waited for.
//!
//! All jobs of a request are taken by the loop at once: so what is started or stopped together begins at the same
//! time, and in the order of the units' relations, whichever is named first.

use std::io;
use std::sync::Arc;

use warren_bus::backend::{Backend, Call};
use warren_bus::{Answer, Outcome, ReplySender, is_only_named, refusals};
use warren_core::model::job::{JobMode, JobResult, JobType};
use warren_core::protocol::request::{Asker, Request};
use warren_core::view::View;
use warren_unit::{LoadState, UnitName};
use warren_wire::control::{ErrorName, Job, JobEnd, Jobs, JobsRow};

use crate::base::answers::Awaited;
use crate::control::answer::{Answered, Refused, ask, call_and_answer, invalid, refused};
use crate::control::caller::Caller;
use crate::published::orders::{JobOutcome, Order};
use crate::published::shared::Shared;

/// What a job does, and what becomes of others, where it is not said.
const JOB_TYPE: &str = "start";
const MODE: &str = "replace";

/// A job that was asked for.
struct JobCall {
    name: UnitName,
    job_type: JobType,
    answer: JobAnswer,
}

/// What its answer comes with.
enum JobAnswer {
    /// The end of the job.
    End(Awaited<JobOutcome>),
    /// That it is in the queue.
    Queued(Awaited<Outcome>),
}

/// One job.
pub(crate) fn job(request: &Job, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered<JobEnd> {
    let unit = request.unit.as_deref().ok_or_else(|| invalid("unit"))?;
    let (call, order) = JobCall::of(unit, request, caller, shared)?;
    shared.order(order);
    let said = comment(&call.name, request.comment.as_deref(), caller.asker, shared);
    let answer = call.answered(caller, shared)?;
    said.map(|()| answer)
}

/// A job for each unit; `tell` gets one row for each, in the same order.
pub(crate) fn jobs(
    request: &Jobs,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
    mut tell: impl FnMut(JobsRow) -> io::Result<()>,
) -> io::Result<()> {
    let Jobs { units, job_type, mode, reload_if_possible, wait, comment: said } = request.clone();
    let each = Job { unit: None, job_type, mode, reload_if_possible, wait, comment: None };
    let mut orders = Vec::with_capacity(units.len());
    let mut asked: Vec<Result<JobCall, Refused>> = Vec::with_capacity(units.len());
    for name in &units {
        let made = JobCall::of(name, &each, caller, shared);
        asked.push(made.map(|(call, order)| {
            orders.push(order);
            call
        }));
    }
    shared.order(Order::Together(orders));
    // Said while the jobs are under way; each is refused with its job.
    let comment = |call: &JobCall| comment(&call.name, said.as_deref(), caller.asker, shared);
    let said: Vec<Option<_>> = asked.iter().map(|call| call.as_ref().ok().map(comment)).collect();
    for ((name, asked), said) in units.into_iter().zip(asked).zip(said) {
        let unit = Some(name);
        let answer = asked.and_then(|asked| asked.answered(caller, shared));
        let answer = answer.and_then(|end| said.unwrap_or(Ok(())).map(|()| end));
        tell(match answer {
            Ok(JobEnd { job, result }) => JobsRow { job, result, unit, ..JobsRow::default() },
            Err((error, message)) => {
                let (error, message) = (Some(error), Some(message));
                JobsRow { error, message, unit, ..JobsRow::default() }
            }
        })?;
    }
    Ok(())
}

impl JobCall {
    /// The order that asks for the job.
    fn of(
        unit: &str,
        wanted: &Job,
        caller: &Caller<'_>,
        shared: &Arc<Shared>,
    ) -> Result<(JobCall, Order), Refused> {
        let asker = caller.asker;
        let name = UnitName::parse(unit).map_err(|e| invalid(format!("unit {unit}: {e}")))?;
        let job_type = wanted.job_type.as_ref().map_or(JOB_TYPE, |word| word.as_str());
        let job_type = JobType::from_word(job_type).ok_or_else(|| invalid("type"))?;
        refuse_at_once(&name, job_type, caller, shared)?;
        let call = Call::Enqueue {
            unit: name.clone(),
            job_type,
            mode: JobMode::from_word(wanted.mode.as_deref().unwrap_or(MODE))
                .ok_or_else(|| invalid("mode"))?,
            reload_if_possible: wanted.reload_if_possible,
        };
        let (answer, order) = match wanted.wait {
            Some(false) => {
                let (sender, outcome) = caller.awaited();
                let reply = ReplySender::new(move |outcome| sender.send(outcome));
                (JobAnswer::Queued(outcome), Order::Call { asker, call, reply })
            }
            _ => {
                let (reply, end) = caller.awaited();
                (JobAnswer::End(end), Order::CallAndWait { asker, call, reply })
            }
        };
        Ok((JobCall { name, job_type, answer }, order))
    }

    /// Waits for the answer; the job goes on without its caller.
    fn answered(self, caller: &Caller<'_>, shared: &Shared) -> Answered<JobEnd> {
        let answer = match self.answer {
            JobAnswer::End(end) => {
                let end = caller.wait(end, "the manager was restarted; the job continues")?;
                ended(&self.name, end)
            }
            JobAnswer::Queued(outcome) => {
                queued(caller.wait(outcome, "the manager was restarted")?)
            }
        };
        if matches!(self.job_type, JobType::TryRestart | JobType::TryReload | JobType::Reload) {
            refuse_what_cannot_be_up(&shared.view(), &self.name)?;
        }
        answer
    }
}

/// Refuses what makes no job, as the bus does: a template, and a stop of what is not there, which is known when it
/// was tried to load it.
fn refuse_at_once(
    name: &UnitName,
    job_type: JobType,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
) -> Result<(), Refused> {
    refusals::unit_name(name.as_str()).map_err(|error| invalid(error.text))?;
    let stoppable = || refusals::stoppable(&shared.view(), name.as_str());
    if job_type != JobType::Stop || stoppable().is_ok() {
        return Ok(());
    }
    call_and_answer(shared, caller, Call::LoadUnit(name.clone()))?;
    stoppable().map_err(|error| (ErrorName::NoSuchUnit, error.text))
}

/// What is for units that are up says nothing of one that is down, or that it is down; that it cannot be up is the
/// error to be told. Its file has been looked for by now.
fn refuse_what_cannot_be_up(view: &View, name: &UnitName) -> Result<(), Refused> {
    let not_found = || (ErrorName::NoSuchUnit, refusals::not_found(name.as_str()).text);
    let unit = view.lookup(name).ok_or_else(not_found)?;
    let definition = view.definition(unit);
    if !view.active_state(unit).is_down() || definition.load_state == LoadState::Masked {
        return Ok(());
    }
    match refusals::of_load_state(definition) {
        Some(_) if is_only_named(view, unit) => Err(not_found()),
        Some(error) => Err((ErrorName::UnitRefused, error.text)),
        None => Ok(()),
    }
}

fn queued(outcome: Outcome) -> Answered<JobEnd> {
    match outcome {
        Ok(Answer::Job { job, .. }) => Ok(JobEnd { job: Some(job.0), result: None }),
        Ok(_) => Ok(JobEnd::default()),
        Err(error) => Err(refused(error.text)),
    }
}

fn ended(name: &UnitName, ended: JobOutcome) -> Answered<JobEnd> {
    let of = |result: JobResult| JobEnd { job: None, result: Some(result.as_str().into()) };
    match ended {
        JobOutcome::Job(result) => Ok(of(result)),
        JobOutcome::Nothing => Ok(of(JobResult::Done)),
        JobOutcome::InVain(device) => {
            let error =
                if device == *name { ErrorName::UnitRefused } else { ErrorName::DependencyRefused };
            let text =
                format!("{device} is missing, and the job waits for it without a time limit");
            Err((error, text))
        }
        JobOutcome::Refused { text, about: Some(unit) } if unit != *name => {
            Err((ErrorName::DependencyRefused, text))
        }
        JobOutcome::Refused { text, about: Some(_) } => Err((ErrorName::UnitRefused, text)),
        JobOutcome::Refused { text, about: None } => Err(refused(text)),
    }
}

/// Puts down what is said with a stop.
fn comment(
    name: &UnitName,
    said: Option<&str>,
    asker: Asker,
    shared: &Arc<Shared>,
) -> Result<(), Refused> {
    let Some(text) = said else { return Ok(()) };
    let Some(unit) = shared.view().lookup(name) else { return Ok(()) };
    ask(shared, asker, Request::Comment { unit, text: text.to_owned() }).map(drop)
}

//! Jobs asked for over the control socket, and waited for.
//!
//! All jobs of a request are queued before the first is waited for, as systemctl does it: so what
//! is stopped together stops at the same time, and in the order of the units' relations.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use serde_json::{Value, json};
use warren_bus::backend::{Backend, Call};
use warren_bus::{Answer, Outcome, ReplySender};
use warren_core::job::{JobMode, JobType};
use warren_core::request::{Asker, Request};
use warren_unit::UnitName;

use crate::answers::{Awaited, Bell, Unanswered, awaited};
use crate::control_calls::{Answered, ask, invalid, refused};
use crate::orders::{Ended, Order};
use crate::shared::Shared;

/// A job cannot be, or cannot end, because of another unit; or because of its own.
const DEPENDENCY_REFUSED: &str = "io.warrener.DependencyRefused";
const UNIT_REFUSED: &str = "io.warrener.UnitRefused";

/// Name and text of an error.
type Refused = (&'static str, String);

/// Who asks, and waits for his jobs as long as he is there.
pub(crate) struct Caller<'a> {
    /// Who it is.
    pub asker: Asker,
    /// His end of the connection.
    pub socket: BorrowedFd<'a>,
    /// Rings with the answers.
    pub bell: Arc<Bell>,
}

/// A job that was asked for.
struct Asked {
    name: UnitName,
    answer: Waiting,
    /// What became of the comment.
    said: Result<(), Refused>,
}

/// What its answer comes with.
enum Waiting {
    /// The end of the job.
    End(Awaited<Ended>),
    /// That it is in the queue.
    Queued(Awaited<Outcome>),
}

/// One job, for the unit `unit` of the parameters. Fails when the caller hangs up; the job goes on.
pub(crate) fn job(
    parameters: &Value,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
) -> io::Result<Answered> {
    let unit = parameters["unit"].as_str().ok_or_else(|| invalid("unit"));
    match unit.and_then(|unit| Asked::of(unit, parameters, caller, shared)) {
        Ok(asked) => asked.answered(caller),
        Err(refused) => Ok(Err(refused)),
    }
}

/// A job for each of `units` of the parameters; `tell` gets one row for each, in the same order. Fails
/// when the caller hangs up; the jobs go on.
pub(crate) fn jobs(
    parameters: &Value,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
    mut tell: impl FnMut(Value) -> io::Result<()>,
) -> io::Result<()> {
    let names = parameters["units"].as_array().into_iter().flatten();
    let names: Vec<&str> = names.map(|name| name.as_str().unwrap_or_default()).collect();
    let asked: Vec<Result<Asked, Refused>> =
        names.iter().map(|name| Asked::of(name, parameters, caller, shared)).collect();
    for (name, asked) in names.into_iter().zip(asked) {
        let answered = match asked {
            Ok(asked) => asked.answered(caller)?,
            Err(refused) => Err(refused),
        };
        let mut row = match answered {
            Ok(row) => row,
            Err((error, message)) => json!({"error": error, "message": message}),
        };
        row["unit"] = json!(name);
        tell(row)?;
    }
    Ok(())
}

impl Asked {
    /// Puts the job into the queue of orders.
    fn of(
        unit: &str,
        parameters: &Value,
        caller: &Caller<'_>,
        shared: &Arc<Shared>,
    ) -> Result<Asked, Refused> {
        let asker = caller.asker;
        let word = |key: &str, default: &'static str| {
            parameters[key].as_str().unwrap_or(default).to_owned()
        };
        let name = UnitName::parse(unit).map_err(|e| invalid(format!("unit {unit}: {e}")))?;
        let call = Call::Enqueue {
            unit: name.clone(),
            job_type: JobType::from_word(&word("type", "start")).ok_or_else(|| invalid("type"))?,
            mode: JobMode::from_word(&word("mode", "replace")).ok_or_else(|| invalid("mode"))?,
            reload_if_possible: parameters["reload_if_possible"].as_bool().unwrap_or(false),
        };
        let answer = match parameters["wait"].as_bool() {
            Some(false) => Waiting::Queued(queue(shared, caller, call)),
            _ => {
                let (reply, end) = awaited(&caller.bell);
                shared.order(Order::CallAndWait { asker, call, reply });
                Waiting::End(end)
            }
        };
        // Said while the job is under way; it is refused with it.
        let said = comment(&name, parameters, asker, shared);
        Ok(Asked { name, answer, said })
    }

    /// Waits for the answer; fails when the caller hangs up.
    fn answered(self, caller: &Caller<'_>) -> io::Result<Answered> {
        let answer = match self.answer {
            Waiting::End(end) => ended(&self.name, beside(end, caller)?),
            Waiting::Queued(outcome) => queued(beside(outcome, caller)?),
        };
        Ok(answer.and_then(|answer| self.said.map(|()| answer)))
    }
}

/// The answer; nothing if nobody is there any more who would give one.
fn beside<T>(answer: Awaited<T>, caller: &Caller<'_>) -> io::Result<Option<T>> {
    match answer.wait_beside(caller.socket) {
        Ok(answer) => Ok(Some(answer)),
        Err(Unanswered::Dropped) => Ok(None),
        Err(Unanswered::HungUp) => Err(io::ErrorKind::ConnectionReset.into()),
    }
}

fn queue(shared: &Arc<Shared>, caller: &Caller<'_>, call: Call) -> Awaited<Outcome> {
    let (sender, outcome) = awaited(&caller.bell);
    let reply = ReplySender::new(move |outcome| sender.send(outcome));
    shared.call(caller.asker, call, reply);
    outcome
}

fn queued(outcome: Option<Outcome>) -> Answered {
    match outcome {
        Some(Ok(Answer::Job { job, .. })) => Ok(json!({"job": job.0})),
        Some(Ok(_)) => Ok(json!({})),
        Some(Err(error)) => Err(refused(error.text)),
        None => Err(refused("the manager was restarted")),
    }
}

fn ended(name: &UnitName, ended: Option<Ended>) -> Answered {
    match ended {
        Some(Ended::Job(result)) => Ok(json!({"result": result.as_str()})),
        Some(Ended::Nothing) => Ok(json!({"result": "done"})),
        Some(Ended::InVain(device)) => {
            let error = if device == *name { UNIT_REFUSED } else { DEPENDENCY_REFUSED };
            let text =
                format!("{device} is not there and is waited for without a limit; the job stays");
            Err((error, text))
        }
        Some(Ended::Refused { text, about: Some(unit) }) if unit != *name => {
            Err((DEPENDENCY_REFUSED, text))
        }
        Some(Ended::Refused { text, about: Some(_) }) => Err((UNIT_REFUSED, text)),
        Some(Ended::Refused { text, about: None }) => Err(refused(text)),
        None => Err(refused("the manager was restarted; the job goes on")),
    }
}

/// Puts down what is said with a stop.
fn comment(
    name: &UnitName,
    parameters: &Value,
    asker: Asker,
    shared: &Arc<Shared>,
) -> Result<(), Refused> {
    let Some(text) = parameters["comment"].as_str() else { return Ok(()) };
    let Some(unit) = shared.view().lookup(name) else { return Ok(()) };
    ask(shared, asker, Request::Comment { unit, text: text.to_owned() }).map(drop)
}

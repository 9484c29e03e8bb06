//! `io.systemd.Unit.StartTransient`: a unit that a client makes, and what becomes of its job.
//!
//! The answer comes when the job is installed. If it is wanted to be told what changes of the job or of the unit, which
//! takes `more`, that comes first and the answer when the job has ended. Who reads slowly is told of several changes at once, as it is
//! then.

use serde_json::{Value, json};
use warren_bus::authority::{Action, job_verb};
use warren_bus::backend::{Backend, Transient};
use warren_bus::properties::Subject;
use warren_bus::{Answer, ReplySender};
use warren_core::model::ids::{JobId, UnitId};
use warren_core::model::job::{JobKind, JobMode, JobResult};
use warren_core::view::View;

use super::call::Refusal;
use super::methods::{Client, Done, job_row, of_bus, unit_row};
use super::{transient, unit};
use crate::base::answers::{Awaited, Unanswered};
use crate::published::orders::{JobOutcome, Order};
use crate::published::shared::Shared;

/// A job that was asked for.
struct Asked {
    id: JobId,
    unit: UnitId,
    kind: JobKind,
}

/// Makes the unit, and starts it.
pub(super) fn start_transient(client: &mut Client<'_>) -> Done {
    let parameters = &client.call.parameters;
    let context = parameters["context"].as_object();
    let (name, text) = transient::read(context.ok_or_else(|| Refusal::parameter("context"))?)?;
    let word = client.call.text("mode").unwrap_or("replace").replace('_', "-");
    let mode = JobMode::from_word(&word).ok_or_else(|| Refusal::parameter("mode"))?;
    client
        .authorize(Action::ManageUnits, job_verb("start").map(|verb| (name.to_string(), verb)))?;
    let made = Transient {
        unit: name,
        mode,
        text,
        pids: Vec::new(),
        auxiliary: Vec::new(),
        places: Vec::new(),
        fds: warren_bus::descriptors::Descriptors::default(),
    };
    let is_followed = client.call.more
        && (client.call.is_set("notifyJobChanges") || client.call.is_set("notifyUnitChanges"));
    let _watch = is_followed.then(|| client.shared.watch(&client.caller.bell));
    let (asked, end) = order(client, made)?;
    match is_followed {
        true => follow(client, &asked, end),
        false => {
            let view = client.shared.view();
            let mut answer = unit_row(&view, client.shared, asked.unit);
            let job = asked.row(&view);
            answer["job"] = job.unwrap_or_else(|| asked.described(&view, "waiting"));
            client.say(&answer)
        }
    }
}

/// Has the loop do it; answered when the job is installed. What comes second is the job's end.
fn order(client: &Client<'_>, made: Transient) -> Result<(Asked, Awaited<JobOutcome>), Refusal> {
    let gone = || Refusal::plain("io.systemd", "Disconnected");
    let caller = client.caller;
    let (sender, answer) = caller.awaited();
    let reply = ReplySender::to(sender.waits(), move |outcome| sender.send(outcome));
    let (end_to, end) = caller.awaited();
    let made = Box::new(made);
    let order = Order::StartTransient { asker: caller.asker, made, reply, end: end_to };
    client.shared.order(order);
    let answer = caller.wait(answer, "the manager was restarted").map_err(|_| gone())?;
    match answer.map_err(of_bus)? {
        Answer::Job { job, unit, kind, .. } => Ok((Asked { id: job, unit, kind }, end)),
        _ => Err(gone()),
    }
}

impl Asked {
    /// The job as it is, while it is installed.
    fn row(&self, view: &View) -> Option<Value> {
        view.job(self.unit).filter(|job| job.id == self.id).map(|job| job_row(view, job))
    }

    fn described(&self, view: &View, state: &str) -> Value {
        json!({
            "Id": self.id.0,
            "Unit": view.graph.name(self.unit).as_str(),
            "JobType": self.kind.as_str().replace('-', "_"),
            "State": state,
        })
    }
}

/// Tells what changes until the job has ended.
fn follow(client: &mut Client<'_>, asked: &Asked, end: Awaited<JobOutcome>) -> Done {
    let (tells_jobs, tells_units) =
        (client.call.is_set("notifyJobChanges"), client.call.is_set("notifyUnitChanges"));
    let view = client.shared.view();
    let mut job = asked.described(&view, "waiting");
    if tells_jobs {
        client.say_more(&json!({"job": job}));
    }
    let mut state = ("inactive", "dead");
    loop {
        let view = client.shared.view();
        let run = view.run(asked.unit);
        let (now, row) = ((run.active_state().as_str(), run.sub_state()), asked.row(&view));
        if tells_units && std::mem::replace(&mut state, now) != now {
            client.say_more(&json!({"runtime": runtime(&view, client.shared, asked.unit)}));
        }
        if let Some(row) = row.filter(|row| tells_jobs && *row != job) {
            client.say_more(&json!({"job": row}));
            job = row;
        }
        if client.lost {
            return Ok(());
        }
        match end.next(client.caller.socket) {
            Ok(None) => {}
            Ok(Some(outcome)) => return tell_end(client, asked, &outcome),
            Err(Unanswered::HungUp) => {
                client.lost = true;
                return Ok(());
            }
            Err(Unanswered::Dropped) => return Err(Refusal::plain("io.systemd", "Disconnected")),
        }
    }
}

fn runtime(view: &View, shared: &Shared, unit: UnitId) -> Value {
    let subject = Subject::unit(view, shared, unit);
    unit::Told::new(&subject).runtime()
}

fn tell_end(client: &mut Client<'_>, asked: &Asked, outcome: &JobOutcome) -> Done {
    let view = client.shared.view();
    let result = match outcome {
        JobOutcome::Job(result) => *result,
        JobOutcome::Nothing => JobResult::Done,
        // It is waited for without a limit, which is no end: but nothing else comes.
        JobOutcome::InVain(_) => JobResult::Dependency,
        JobOutcome::Refused { .. } => JobResult::Canceled,
    };
    let mut job = asked.described(&view, "finished");
    job["Result"] = result.as_str().replace('-', "_").into();
    let mut answer = unit_row(&view, client.shared, asked.unit);
    answer["job"] = job;
    client.say(&answer)
}

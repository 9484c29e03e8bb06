//! Calls that wait for the manager.

use super::{Origin, ReplyTo, Server};
use crate::backend::{Answer, Call, Outcome, ReplySender};
use crate::broker::Caller;
use crate::connection::Parcel;
use crate::error::BusError;
use crate::methods::{Progress, Then, explain, render};
use crate::server::mailbox::{Hears, Mail};
use std::sync::{Arc, Weak};
use warren_core::model::ids::JobId;
use warren_core::protocol::request::Asker;
use warren_unit::UnitName;

/// A call that waits for the manager.
pub(super) struct WaitingCall {
    pub(super) origin: Origin,
    pub(super) reply_to: ReplyTo,
    pub(super) signature: String,
    /// Later calls of the same client wait for it.
    pub(super) holds: bool,
    pub(super) then: After,
}

pub(super) enum After {
    Render(Then),
    /// Look at the message again, now that what it needs was done or could not be.
    Again(Again),
}

pub(super) struct Again {
    pub(super) call: Parcel,
    pub(super) done: Progress,
    /// Units that are loaded before, the last one first.
    pub(super) to_load: Vec<UnitName>,
    /// Later calls of the same client wait for it.
    pub(super) holds: bool,
}

/// Whether what a client calls behind this one waits for its answer: it is about what this one does. Questions about
/// files may take long, and freezing processes, which the client may want to undo.
pub(super) fn holds_later(call: &Call) -> bool {
    let is_apart = matches!(
        call,
        Call::GetUnitFileLinks { .. } | Call::LookAtUnitFiles(_) | Call::Freeze { .. }
    );
    !is_apart
}

impl After {
    /// Bytes of a call that are kept for it.
    fn held_bytes(&self) -> usize {
        match self {
            After::Render(_) => 0,
            After::Again(again) => again.call.bytes.len(),
        }
    }
}

impl Server {
    pub(super) fn ask(&mut self, call: Call, waiting: WaitingCall) {
        if !self.begin_waiting(&waiting.origin, waiting.then.held_bytes(), waiting.holds) {
            let text = "Too many calls at once.";
            return self.fail(&waiting.origin, &waiting.reply_to, &BusError::limits_exceeded(text));
        }
        self.ask_on(call, waiting);
    }

    /// The same for one that waits already.
    fn ask_on(&mut self, call: Call, waiting: WaitingCall) {
        let there = self.there(&waiting.origin);
        let Caller { uid, pid } = waiting.origin.caller;
        let asker = Asker::client(uid, pid);
        let question = self.next_question;
        self.next_question += 1;
        if waiting.origin.client.is_some() {
            // It is told of a job that it asks for, also where nobody else is told anything.
            self.mailbox.hear(Hears::All);
        }
        self.waiting.insert(question, waiting);
        let mailbox = self.mailbox.clone();
        let deliver = move |answer| mailbox.put(Mail::Answer(question, answer));
        let reply = ReplySender::to(there, deliver);
        self.backend.call(asker, call, reply);
    }

    /// Clients of the private socket are not read from when they have too many calls waiting; of
    /// those on the bus each has its own bound.
    pub(super) fn begin_waiting(&mut self, origin: &Origin, bytes: usize, holds: bool) -> bool {
        match (&origin.client, self.connections.get_mut(&origin.connection)) {
            (None, Some(client)) => {
                client.waiting += 1;
                client.waiting_bytes += bytes;
                client.holding += usize::from(holds);
                true
            }
            (Some(name), Some(_)) => {
                let broker = self.broker(origin.connection);
                broker.is_some_and(|broker| broker.begin(name, bytes, holds))
            }
            (_, None) => false,
        }
    }

    /// What goes with the client.
    pub(super) fn there(&mut self, origin: &Origin) -> Weak<()> {
        let there = match &origin.client {
            Some(name) => self.broker(origin.connection).and_then(|broker| broker.there(name)),
            None => self.connections.get(&origin.connection).map(|client| &client.there),
        };
        there.map_or_else(Weak::new, Arc::downgrade)
    }

    pub(super) fn end_waiting(&mut self, origin: &Origin, bytes: usize, holds: bool) {
        match (&origin.client, self.connections.get_mut(&origin.connection)) {
            (None, Some(client)) => {
                client.waiting -= 1;
                client.waiting_bytes -= bytes;
                client.holding -= usize::from(holds);
            }
            (Some(name), Some(_)) => {
                if let Some(broker) = self.broker(origin.connection) {
                    broker.end(name, bytes, holds);
                }
            }
            (_, None) => {}
        }
    }

    /// Replies to the call that waited for this answer; gives the client that did.
    pub(super) fn answer(&mut self, question: u64, outcome: Outcome) -> Option<u64> {
        let mut waiting = self.waiting.remove(&question)?;
        if let After::Again(again) = &mut waiting.then
            && let Some(name) = again.to_load.pop()
            && self.there(&waiting.origin).strong_count() > 0
        {
            self.ask_on(Call::LoadUnit(name), waiting);
            return None;
        }
        let origin = waiting.origin;
        let id = origin.connection;
        match waiting.then {
            After::Again(again) if self.connections.contains_key(&id) => {
                let calls = self.again.entry(id).or_default();
                calls.push_back((origin, waiting.reply_to, again));
            }
            After::Again(_) => {}
            After::Render(Then::HangUp) if outcome.is_ok() => {
                self.end_waiting(&origin, 0, waiting.holds);
                self.leave_others_to_the_next();
            }
            After::Render(then) => {
                self.end_waiting(&origin, 0, waiting.holds);
                if let (Then::JobAndReference(..), Ok(Answer::Job { unit, .. })) = (&then, &outcome)
                {
                    let _ = self.refer(&origin, *unit, true);
                }
                let jobs: Vec<JobId> = match &outcome {
                    Ok(Answer::Job { job, .. }) => vec![*job],
                    Ok(Answer::Jobs(jobs)) => jobs.clone(),
                    Ok(Answer::JobsOf(jobs)) => jobs.iter().map(|(job, ..)| *job).collect(),
                    _ => Vec::new(),
                };
                if let (Some(client), ReplyTo::Call(_)) = (&origin.client, &waiting.reply_to)
                    && let Some(broker) = self.broker(id)
                {
                    jobs.iter().for_each(|job| broker.asked_for_job(*job, client));
                }
                let view = self.backend.view();
                let body = outcome
                    .map_err(|error| explain(&then, error))
                    .and_then(|answer| render(&then, answer, &view));
                match body {
                    Ok(body) => self.reply(&origin, &waiting.reply_to, &waiting.signature, body),
                    Err(error) => self.fail(&origin, &waiting.reply_to, &error),
                }
            }
        }
        Some(id)
    }
}

//! Calls about which polkit is asked over the message bus.
//!
//! Only the bus says what answers what: as everybody there, the manager relies on it to pass on no reply but of whom was
//! asked.

use super::waiting::Again;
use super::{Origin, ReplyTo, Server};
use crate::authority::{
    AUTHORITY_PATH, Authorize, CHECK, CHECK_TYPES, POLKIT, Question, Verdict, Who, refusal,
};
use crate::connection::Parcel;
use crate::error::BusError;
use crate::methods::Progress;
use crate::wire::{self, Kind};
use std::time::{Duration, Instant};

/// What waits for an answer of polkit.
pub(super) enum Waits {
    /// A call over the message bus.
    Call(Box<Asking>),
    /// A client of another socket.
    Socket(Verdict),
}

/// A call that is looked at again if polkit allows it.
pub(super) struct Asking {
    pub(super) origin: Origin,
    pub(super) reply_to: ReplyTo,
    pub(super) call: Parcel,
    pub(super) done: Progress,
    pub(super) question: Question,
}

impl Server {
    /// Asks. Nothing waits for the answer but the call.
    pub(super) fn ask_polkit(&mut self, asking: Asking) {
        let Asking { origin, reply_to, call, question, .. } = &asking;
        let uid = origin.caller.uid;
        let has_place = self.link.as_ref().is_some_and(|link| link.asking.has_room(uid));
        if !has_place || !self.begin_waiting(origin, call.bytes.len(), false) {
            let error = BusError::limits_exceeded("Too many calls at once.");
            return self.fail(origin, reply_to, &error);
        }
        let is_interactive =
            wire::parse_header(&call.bytes).is_ok_and(|header| header.allows_interaction);
        let body = question.body(origin.client.as_deref().unwrap_or_default(), is_interactive);
        let serial = self.serial();
        let check =
            wire::method_call(serial, POLKIT, AUTHORITY_PATH, CHECK, CHECK_TYPES, body.as_bytes());
        if let Some(bus) = self.connections.get_mut(&origin.connection) {
            bus.push(check);
        }
        if let Some(link) = &mut self.link {
            link.asking.add(serial, uid, Instant::now(), Waits::Call(Box::new(asking)));
        }
    }

    /// Asks for a client of another socket.
    pub(super) fn ask_polkit_for(&mut self, asked: Authorize) {
        let Authorize { who, question, verdict } = asked;
        let Who::Process { uid, .. } = who else {
            return verdict(Err(BusError::access_denied("Permission denied")));
        };
        let link = self.link.as_ref().and_then(|link| Some((link, link.connection()?)));
        let Some((link, bus)) = link else {
            let text = "the manager is on no message bus, so that it cannot ask polkit";
            return verdict(Err(BusError::failed(text)));
        };
        if !link.asking.has_room(uid) {
            return verdict(Err(BusError::limits_exceeded("too many questions to polkit at once")));
        }
        let body = question.body_about(&who, false);
        let serial = self.serial();
        let check =
            wire::method_call(serial, POLKIT, AUTHORITY_PATH, CHECK, CHECK_TYPES, body.as_bytes());
        if let Some(connection) = self.connections.get_mut(&bus) {
            connection.push(check);
        }
        if let Some(link) = &mut self.link {
            link.asking.add(serial, uid, Instant::now(), Waits::Socket(verdict));
        }
        if self.pump(bus).is_err() {
            self.end(bus);
        }
    }

    /// Whether a message of the bus is an answer of polkit, or the bus's to what it was to be asked.
    pub(super) fn hear_polkit(&mut self, id: u64, parcel: &Parcel) -> bool {
        let Ok(message) = wire::parse(&parcel.bytes) else { return false };
        let is_answer = matches!(message.header.kind, Kind::MethodReturn | Kind::Error);
        let Some(link) = self.link.as_mut().filter(|_| is_answer) else { return false };
        let Some(waits) = link.asking.take(message.header.reply_serial) else { return false };
        match (waits, refusal(&message)) {
            (Waits::Call(asking), None) => self.allow(id, *asking),
            (Waits::Call(asking), Some(error)) => self.deny(&asking, &error),
            (Waits::Socket(verdict), refusal) => verdict(refusal.map_or(Ok(()), Err)),
        }
        true
    }

    /// The call is looked at again, unless its client went.
    fn allow(&mut self, id: u64, asking: Asking) {
        let Asking { origin, reply_to, call, mut done, question } = asking;
        if self.there(&origin).strong_count() == 0 {
            return;
        }
        done.allowed = Some(question);
        let again = Again { call, done, to_load: Vec::new(), holds: false };
        self.again.entry(id).or_default().push_back((origin, reply_to, again));
    }

    fn deny(&mut self, asking: &Asking, error: &BusError) {
        self.end_waiting(&asking.origin, asking.call.bytes.len(), false);
        self.fail(&asking.origin, &asking.reply_to, error);
    }

    /// How long polkit has yet to answer.
    pub(super) fn until_asked_polkit_in_vain(&self) -> Option<Duration> {
        self.link.as_ref()?.asking.left(Instant::now())
    }

    /// Answers the calls about which polkit has said nothing in time.
    pub(super) fn end_unanswered(&mut self) {
        let Some(link) = &mut self.link else { return };
        let bus = link.connection();
        let error = BusError::timed_out("polkit has not answered in time.");
        for waits in link.asking.take_overdue(Instant::now()) {
            match waits {
                Waits::Call(asking) => self.deny(&asking, &error),
                Waits::Socket(verdict) => verdict(Err(error.clone())),
            }
        }
        if let Some(bus) = bus
            && self.pump(bus).is_err()
        {
            self.end(bus);
        }
    }
}

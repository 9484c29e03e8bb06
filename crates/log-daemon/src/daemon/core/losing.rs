//! What the daemon says of itself, and of what is not in the log: whose it was, in fields by which
//! readers find it with what the unit said.

use std::sync::Arc;

use crate::daemon::clock::Moment;
use crate::daemon::clock::now_us;
use crate::daemon::core::Core;
use crate::daemon::forward::Came;
use crate::daemon::mirrors::Mirrors;
use crate::daemon::sender::Origin;
use crate::input::loss::{Kind, name_of, unit_of};
use warren_log_store::entry::Fields;
use warren_log_store::error::Error;
use warren_log_store::store::DEFAULT_CLASS;

/// `MESSAGE_ID` of messages that were left out by a rate limit; sd-messages(3), `journalctl --catalog`.
const SUPPRESSED_ID: &str = "a596d6fe7bfa4994828e72309e95d61e";

/// The syslog level `warning`, and `notice`.
const WARNING: &str = "4";
const NOTICE: &str = "5";

impl Core {
    /// An entry of the daemon's own.
    pub fn note(&mut self, text: &str) {
        self.say(NOTICE, text, b"", &[]);
    }

    /// The same of what wants somebody to look after it.
    pub(super) fn warn(&mut self, text: &str) {
        self.say(WARNING, text, b"", &[]);
    }

    /// The same about a unit (`who` may also be a cgroup, or empty), with more fields.
    pub(super) fn say(&mut self, level: &str, text: &str, who: &[u8], more: &[(&str, &str)]) {
        let fields = [("PRIORITY", level), ("SYSLOG_IDENTIFIER", "warren-journald")];
        let fields = fields.into_iter().chain([("MESSAGE", text)]).chain(more.iter().copied());
        let mut fields: Fields = fields.collect();
        let is_unit = !who.is_empty() && !who.starts_with(b"/");
        if is_unit {
            fields.push(b"OBJECT_SYSTEMD_UNIT", who);
        }
        let now = Moment::now();
        let context = self.senders.own(&self.units, now.monotonic_us);
        self.append(DEFAULT_CLASS, &context, &fields, now);
        if is_unit {
            self.tails.put(who, now.realtime_us, &context, &fields);
        }
    }

    /// Something of a sender's is lost: so many of a kind, the first in words.
    pub fn lose(&mut self, origin: &Origin, lost: (Kind, &str, u64)) {
        self.lose_of(origin.who(), origin.context.get("_PID"), lost);
    }

    /// The same, when it is of no sender or one that is known by name alone.
    pub fn lose_of(&mut self, who: &[u8], pid: Option<&[u8]>, lost: (Kind, &str, u64)) {
        *self.tally.lost.entry(lost.0).or_default() += lost.2;
        let texts = self.losses.add(who, lost, now_us());
        let Some((last, before)) = texts.split_last() else { return };
        before.iter().for_each(|text| self.say(WARNING, text, who, &[]));
        let pid = pid.map(|pid| String::from_utf8_lossy(pid).into_owned());
        match (pid, who.is_empty()) {
            (None, true) => self.say(WARNING, last, who, &[]),
            (None, false) => {
                self.say(WARNING, &format!("{last} ({})", name_of(who)), who, &[]);
            }
            (Some(pid), _) => {
                let text = format!("{last} ({}, process {pid})", name_of(who));
                self.say(WARNING, &text, who, &[("OBJECT_PID", &pid)]);
            }
        }
    }

    /// The store does not take an entry.
    pub(super) fn lose_entry(&mut self, context: &Arc<Fields>, error: &Error) {
        let origin = Origin::new(context.clone(), None);
        self.lose(&origin, (Kind::Entry, &error.to_string(), 1));
    }

    /// Hands an entry on.
    pub(super) fn forward(&mut self, entry: (&Fields, &Fields), came: Came<'_>, realtime_us: u64) {
        if !self.forwarder.put(entry, came, realtime_us) {
            self.lose_of(b"", None, (Kind::Syslog, "", 1));
        }
    }

    /// A unit has more messages than it may have, and the interval is not over.
    pub(super) fn say_suppressing(&mut self, who: &[u8]) {
        let text =
            format!("Too many messages from {}: suppressing further ones for now", name_of(who));
        self.say(WARNING, &text, unit_of(who), &[]);
    }

    /// Messages of a unit were more than it may have.
    pub(super) fn say_suppressed(&mut self, who: &[u8], count: u64) {
        let text = format!("Suppressed {count} messages from {}", name_of(who));
        let count = count.to_string();
        let more = [("MESSAGE_ID", SUPPRESSED_ID), ("N_DROPPED", &*count)];
        self.say(WARNING, &text, unit_of(who), &more);
    }

    /// Says what was left out of intervals that are over, and how it stands with the mirror.
    pub fn tell_losses(&mut self) {
        let of_mirror = self.mirror.as_mut().map(Mirrors::take_said).unwrap_or_default();
        of_mirror.iter().for_each(|text| self.warn(text));
        if let Some(fault) = self.forwarder.take_console_fault() {
            self.warn(&format!("Cannot write messages to the console: {fault}"));
        }
        let now = now_us();
        let is_due = |due: Option<u64>| due.is_some_and(|due| due <= now);
        if is_due(self.limiter.due_us()) || is_due(self.losses.due_us()) {
            self.tell_until(now);
        }
    }

    /// Says what was left out and not said, whenever its interval is over: the daemon ends.
    pub fn tell_all_losses(&mut self) {
        self.tell_until(u64::MAX);
    }

    fn tell_until(&mut self, until_us: u64) {
        let suppressed = self.limiter.take_untold(until_us);
        suppressed.iter().for_each(|(who, count)| self.say_suppressed(who, *count));
        for (who, text) in self.losses.take_due(until_us) {
            self.say(WARNING, &text, &who, &[]);
        }
    }

    /// The disk takes what is written again.
    pub(super) fn end_trouble(&mut self) {
        let trouble = self.trouble.take();
        let unkept = std::mem::take(&mut self.unkept);
        if unkept > 0 {
            let why = trouble.unwrap_or_else(|| Error::Backlog.to_string());
            let text =
                format!("Lost {unkept} messages, because the log could not be written: {why}");
            self.say(WARNING, &text, b"", &[]);
        }
    }
}

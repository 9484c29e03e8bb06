//! What somebody sent and what is not in the log, or not whole: it is said there once for each sender
//! and kind, and how much more of it there was when a while has passed. What settings leave out is not
//! told of here, nor what comes while neither disk nor memory takes anything: that is counted as a whole,
//! whoever sent it, and said when something takes it again.

use std::collections::BTreeMap;

use crate::input::limit::{Limiter, Rate, Verdict};

/// How often a loss of one kind by one sender is told of.
const RATE: Rate = Rate { interval_us: 600_000_000, burst: 1 };

/// Why something is not in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A field for which its entry has no room.
    FieldLarge,
    /// A field beyond the number that an entry may have.
    FieldsMany,
    /// A field whose name clients may not set.
    FieldName,
    /// What follows a fault in the framing of a message.
    Framing,
    /// An entry that the store does not take.
    Entry,
    /// A datagram that is larger than there is room for.
    Datagram,
    /// A datagram with descriptors that it may not have.
    Descriptors,
    /// A message in a file that cannot be read.
    File,
    /// A stream whose header is none.
    Header,
    /// A stream that cannot be read.
    Stream,
    /// A line that is cut before it ends.
    HalfLine,
    /// A record of the kernel or of the audit system that is not understood.
    Record,
    /// Records of the audit system that came faster than they were read.
    Audit,
    /// What a syslog daemon did not take in time.
    Syslog,
}

impl Kind {
    /// All, in order.
    const ALL: [Kind; 14] = [
        Kind::FieldLarge,
        Kind::FieldsMany,
        Kind::FieldName,
        Kind::Framing,
        Kind::Entry,
        Kind::Datagram,
        Kind::Descriptors,
        Kind::File,
        Kind::Header,
        Kind::Stream,
        Kind::HalfLine,
        Kind::Record,
        Kind::Audit,
        Kind::Syslog,
    ];

    /// One word, for programs.
    pub fn word(self) -> &'static str {
        match self {
            Kind::FieldLarge => "field-large",
            Kind::FieldsMany => "fields-many",
            Kind::FieldName => "field-name",
            Kind::Framing => "framing",
            Kind::Entry => "entry",
            Kind::Datagram => "datagram",
            Kind::Descriptors => "descriptors",
            Kind::File => "file",
            Kind::Header => "header",
            Kind::Stream => "stream",
            Kind::HalfLine => "half-line",
            Kind::Record => "record",
            Kind::Audit => "audit",
            Kind::Syslog => "syslog",
        }
    }

    /// What is said of one, and of more of them.
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Kind::FieldLarge => {
                ("Dropped a field: the entry is too large", "fields too large for their entry")
            }
            Kind::FieldsMany => {
                ("Dropped a field: the entry has too many", "fields beyond the number allowed")
            }
            Kind::FieldName => {
                ("Dropped a field that clients may not set", "fields that clients may not set")
            }
            Kind::Framing => (
                "Lost the rest of a message: its framing is broken",
                "messages with broken framing",
            ),
            Kind::Entry => ("Lost a message", "messages that could not be stored"),
            Kind::Datagram => ("Lost a datagram: it is too large", "datagrams too large"),
            Kind::Descriptors => {
                ("Lost a datagram: it carried file descriptors", "datagrams with file descriptors")
            }
            Kind::File => ("Lost a message sent as a file", "messages sent as files"),
            Kind::Header => {
                ("Closed a log stream: its header is invalid", "log streams without a valid header")
            }
            Kind::Stream => ("Refused a log stream", "log streams"),
            Kind::HalfLine => ("Cut a line", "lines cut"),
            Kind::Record => ("Ignored a record: unknown format", "records of unknown format"),
            Kind::Audit => ("Missed audit records", "times audit records were missed"),
            Kind::Syslog => ("Could not forward a message to syslog", "messages for syslog"),
        }
    }
}

/// What is lost of one message: of each kind the first, in words, and how many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageLosses(BTreeMap<Kind, (String, u64)>);

impl MessageLosses {
    /// Adds one.
    pub fn add(&mut self, kind: Kind, describe: impl FnOnce() -> String) {
        self.0.entry(kind).or_insert_with(|| (describe(), 0)).1 += 1;
    }

    /// Nothing is.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Of each kind the first and how many.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &str, u64)> {
        self.0.iter().map(|(kind, (first, count))| (*kind, &**first, *count))
    }
}

/// What was told of losses, by sender.
#[derive(Debug, Default)]
pub struct Losses(Limiter);

impl Losses {
    /// Counts so many of a kind by a sender (a unit, a cgroup, or nobody who is known). What is to be
    /// said now, of the first or of those before it. `now_us` is a monotonic clock.
    pub fn add(
        &mut self,
        who: &[u8],
        (kind, first, count): (Kind, &str, u64),
        now_us: u64,
    ) -> Vec<String> {
        let key = key_of(kind, who);
        let verdict = self.0.check(&key, RATE, now_us);
        // One was counted.
        self.0.leave_out(&key, count.saturating_sub(1));
        let before = match verdict {
            Verdict::Drop | Verdict::DropFirst => return Vec::new(),
            Verdict::Keep => None,
            Verdict::KeepAfter(count) => Some(more(kind, who, count)),
        };
        let text = kind.texts().0;
        let now = if first.is_empty() { text.to_owned() } else { format!("{text}: {first}") };
        before.into_iter().chain([now]).collect()
    }

    /// When there is something to say of what was counted, on the same clock, µs.
    pub fn due_us(&self) -> Option<u64> {
        self.0.due_us()
    }

    /// What is to be said by then, and of whom.
    pub fn take_due(&mut self, now_us: u64) -> Vec<(Vec<u8>, String)> {
        let one = |(key, count): (Vec<u8>, u64)| {
            let (kind, who) = key.split_first()?;
            let kind = *Kind::ALL.get(usize::from(*kind))?;
            Some((who.to_vec(), more(kind, who, count)))
        };
        self.0.take_untold(now_us).into_iter().filter_map(one).collect()
    }
}

fn key_of(kind: Kind, who: &[u8]) -> Vec<u8> {
    [&[kind as u8], who].concat()
}

fn more(kind: Kind, who: &[u8], count: u64) -> String {
    format!("{count} more from {}: {}", name_of(who), kind.texts().1)
}

/// A sender as it is named: its unit, its cgroup, or that there is none.
pub fn name_of(who: &[u8]) -> String {
    let who = unit_of(who);
    match (who, who.strip_prefix(OF_USER)) {
        (b"", _) => "processes of no unit".to_owned(),
        (_, Some(uid)) => {
            format!("processes of user {} of no unit", String::from_utf8_lossy(uid))
        }
        _ => String::from_utf8_lossy(who).into_owned(),
    }
}

/// Begins what senders of no unit are counted as, before their user's number. No cgroup begins so, and no unit.
pub const OF_USER: &[u8] = b"//user/";

/// Begins what users other than root are counted as in a unit or cgroup, whose name follows.
pub const OF_OTHERS: &[u8] = b"//others/";

/// The unit or cgroup whose users other than root are counted by that, or itself.
pub fn unit_of(who: &[u8]) -> &[u8] {
    who.strip_prefix(OF_OTHERS).unwrap_or(who)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_have_the_names_of_their_units_or_users() {
        let of_user = [OF_USER, b"65534"].concat();
        let of_others = [OF_OTHERS, b"a.service"].concat();
        let names = [&b""[..], b"a.service", b"/a.slice", &of_user, &of_others].map(name_of);
        let user = "processes of user 65534 of no unit";
        assert_eq!(names, ["processes of no unit", "a.service", "/a.slice", user, "a.service"]);
    }

    #[test]
    fn each_kind_of_each_sender_is_told_once_and_then_counted() {
        let mut losses = Losses::default();
        let mut add = |who: &str, kind, count, now_us| {
            losses.add(who.as_bytes(), (kind, "X", count), now_us).join("; ")
        };
        let large = "Dropped a field: the entry is too large: X";
        assert_eq!(add("a.service", Kind::FieldLarge, 1, 0), large);
        assert_eq!(add("a.service", Kind::FieldLarge, 1, 1), "");
        assert_eq!(add("b.service", Kind::FieldLarge, 5, 2), large);
        assert_eq!(add("a.service", Kind::File, 1, 3), "Lost a message sent as a file: X");
        assert_eq!(add("a.service", Kind::FieldLarge, 2, 4), "");
        let end = RATE.interval_us;
        let again = add("a.service", Kind::FieldLarge, 1, end);
        assert_eq!(
            again,
            format!("3 more from a.service: fields too large for their entry; {large}")
        );
        assert_eq!(losses.due_us(), Some(end + 2));
        let due: Vec<String> = losses.take_due(end + 2).into_iter().map(|(_, text)| text).collect();
        assert_eq!(due, ["4 more from b.service: fields too large for their entry"]);
        assert_eq!(losses.due_us(), None, "one of a kind is told whole");
    }

    #[test]
    fn kinds_are_found_by_their_number() {
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }
}

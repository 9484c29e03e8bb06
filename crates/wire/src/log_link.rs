//! What the manager and the log daemon say over their link, and at the begin of a stream.
//!
//! - Owns: packets about units and streams, the manager's own messages, the daemon's words, the header of a stream.
//! - Must not: check what a setting says; that is the daemon's.
//! - Runs on the thread of its caller.
//!
//! A packet is one entry of the journal's native protocol (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>) or several,
//! each of which says by its field `KIND` what it is:
//!
//! - `stream`, alone in its packet and with one file descriptor: the reading end of a service's output.
//! - `unit`: what the settings of a unit say about its messages, whatever way they come. It replaces what was said
//!   before of the unit of that name.
//! - `entry`: a message of the manager itself.
//!
//! A reader passes over a field that it does not know, and leaves out an entry of another kind.

use std::borrow::Cow;

/// Version of this language.
pub const VERSION: u32 = 1;

/// A word of the daemon; each is a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonWord {
    /// It has begun: the manager then hands over every stream that there is.
    Hello,
    /// The stream of this number has ended and was read to its end.
    Ended(u64),
}

/// Begins the word about a stream.
const ENDED: &str = "ENDED=";

impl DaemonWord {
    /// Its packet.
    pub fn write(self) -> String {
        match self {
            DaemonWord::Hello => "HELLO".to_owned(),
            DaemonWord::Ended(key) => format!("{ENDED}{key}"),
        }
    }

    /// Reads a packet; nothing if it is no word.
    pub fn read(packet: &[u8]) -> Option<DaemonWord> {
        match std::str::from_utf8(packet).ok()? {
            "HELLO" => Some(DaemonWord::Hello),
            word => word.strip_prefix(ENDED)?.parse().ok().map(DaemonWord::Ended),
        }
    }
}

/// To whom lines are forwarded, whatever the daemon's settings forward; systemd.exec(5), `StandardOutput=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Copies {
    /// To a syslog daemon.
    pub syslog: bool,
    /// To the kernel's log.
    pub kmsg: bool,
    /// To the console.
    pub console: bool,
}

impl Copies {
    fn write(self) -> String {
        let words = [("syslog", self.syslog), ("kmsg", self.kmsg), ("console", self.console)];
        let said = words.into_iter().filter(|(_, is_said)| *is_said).map(|(word, _)| word);
        said.collect::<Vec<_>>().join(" ")
    }

    fn read(words: &[u8]) -> Copies {
        let has = |word: &str| words.split(|byte| *byte == b' ').any(|one| one == word.as_bytes());
        Copies { syslog: has("syslog"), kmsg: has("kmsg"), console: has("console") }
    }
}

/// The first seven lines of a stream, which any client may write: the journal's stream protocol.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// `SYSLOG_IDENTIFIER`; may be empty.
    pub identifier: Vec<u8>,
    /// Unit that the output belongs to; counts only from root.
    pub unit: Vec<u8>,
    /// Priority with facility of lines without their own.
    pub priority: u32,
    /// Lines may begin with `<N>`.
    pub level_prefix: bool,
    /// Who else gets its lines.
    pub copies: Copies,
}

impl Header {
    /// The seven lines.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Copies { syslog, kmsg, console } = self.copies;
        let flags =
            [self.level_prefix, syslog, kmsg, console].map(|flag| u8::from(flag).to_string());
        let numbers = format!("{}\n{}\n", self.priority, flags.join("\n"));
        [&self.identifier[..], b"\n", &self.unit, b"\n", numbers.as_bytes()].concat()
    }
}

/// What the settings of a unit say about its messages: systemd.exec(5), "LOGGING AND STANDARD INPUT/OUTPUT".
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnitSettings<'a> {
    /// Name of the unit.
    pub unit: Cow<'a, str>,
    /// Its current run, 32 hexadecimal digits.
    pub invocation: Option<Cow<'a, str>>,
    /// Its cgroup, from the root of the tree.
    pub cgroup: Option<Cow<'a, str>>,
    /// The kernel's id of that cgroup.
    pub cgroup_id: Option<u64>,
    /// Identifier of lines of its output.
    pub identifier: Cow<'a, [u8]>,
    /// Priority with facility of lines without their own.
    pub priority: Option<u64>,
    /// Lines may begin with `<N>`.
    pub level_prefix: bool,
    /// Who else gets its lines.
    pub copies: Copies,
    /// `LogLevelMax=`.
    pub level_max: Option<u64>,
    /// `LogRateLimitIntervalSec=`, µs.
    pub rate_interval_us: Option<u64>,
    /// `LogRateLimitBurst=`.
    pub rate_burst: Option<u64>,
    /// `[X-Warren] LogClass=`.
    pub class: Option<Cow<'a, str>>,
    /// `LogExtraFields=`.
    pub extra: Vec<&'a [u8]>,
    /// `LogFilterPatterns=`.
    pub filter: Vec<&'a [u8]>,
}

/// One entry of a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A stream is handed over.
    Stream {
        /// The manager's number for it.
        key: u64,
        /// What it belongs to.
        settings: UnitSettings<'a>,
    },
    /// Settings of a unit.
    Unit(UnitSettings<'a>),
    /// A message of the manager.
    Entry {
        /// When it was made, µs since 1970.
        time_us: Option<u64>,
        /// Its fields.
        fields: Vec<(&'a [u8], &'a [u8])>,
    },
}

/// Appends a field as the native protocol has it.
pub fn put_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    if value.contains(&b'\n') {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend_from_slice(value);
    out.push(b'\n');
}

/// Appends a message of the manager.
pub fn put_entry<'a>(
    out: &mut Vec<u8>,
    time_us: u64,
    fields: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    put_field(out, "KIND", b"entry");
    put_field(out, "TIME_US", time_us.to_string().as_bytes());
    fields.into_iter().for_each(|(name, value)| put_field(out, name, value.as_bytes()));
}

impl UnitSettings<'_> {
    /// The packet of a unit, or of a stream of it with this number. An extra field or a pattern with which it would
    /// have more bytes than the bound is left out; true if one was.
    pub fn write(&self, stream: Option<u64>, bytes_max: usize) -> (Vec<u8>, bool) {
        let mut out = Vec::new();
        let numbers = [
            ("STREAM", stream),
            ("PRIORITY", self.priority),
            ("LEVEL_PREFIX", Some(u64::from(self.level_prefix))),
            ("CGROUP_ID", self.cgroup_id),
            ("LEVEL_MAX", self.level_max),
            ("RATE_INTERVAL_US", self.rate_interval_us),
            ("RATE_BURST", self.rate_burst),
        ];
        for (name, number) in numbers {
            number.into_iter().for_each(|n| put_field(&mut out, name, n.to_string().as_bytes()));
        }
        let copies = Some(self.copies.write()).filter(|words| !words.is_empty());
        let kind = if stream.is_some() { "stream" } else { "unit" };
        let texts = [
            ("COPIES", copies.as_deref()),
            ("KIND", Some(kind)),
            ("UNIT", Some(&*self.unit)),
            ("INVOCATION", self.invocation.as_deref()),
            ("CGROUP", self.cgroup.as_deref()),
            ("CLASS", self.class.as_deref()),
        ];
        for (name, text) in texts {
            text.into_iter().for_each(|text| put_field(&mut out, name, text.as_bytes()));
        }
        put_field(&mut out, "IDENTIFIER", &self.identifier);
        let extra = self.extra.iter().map(|field| ("EXTRA", field));
        let filter = self.filter.iter().map(|pattern| ("FILTER", pattern));
        let mut is_long = false;
        for (name, value) in extra.chain(filter) {
            match out.len() + value.len() <= bytes_max {
                true => put_field(&mut out, name, value),
                false => is_long = true,
            }
        }
        (out, is_long)
    }
}

impl<'a> Packet<'a> {
    /// Reads an entry from its fields; nothing if it is of no kind that is known.
    pub fn read(fields: &[(&'a [u8], &'a [u8])]) -> Option<Packet<'a>> {
        let of_name = |name: &'static str| {
            let found = fields.iter().filter(move |(field, _)| *field == name.as_bytes());
            found.map(|&(_, value)| value)
        };
        let get = |name| of_name(name).next();
        let number = |name| std::str::from_utf8(get(name)?).ok()?.parse().ok();
        let text = |name| get(name).map(String::from_utf8_lossy);
        let settings = || UnitSettings {
            unit: text("UNIT").unwrap_or_default(),
            invocation: text("INVOCATION"),
            cgroup: text("CGROUP"),
            cgroup_id: number("CGROUP_ID"),
            identifier: get("IDENTIFIER").unwrap_or_default().into(),
            priority: number("PRIORITY"),
            level_prefix: number("LEVEL_PREFIX") == Some(1),
            copies: get("COPIES").map(Copies::read).unwrap_or_default(),
            level_max: number("LEVEL_MAX"),
            rate_interval_us: number("RATE_INTERVAL_US"),
            rate_burst: number("RATE_BURST"),
            class: text("CLASS"),
            extra: of_name("EXTRA").collect(),
            filter: of_name("FILTER").collect(),
        };
        match get("KIND")? {
            b"stream" => Some(Packet::Stream { key: number("STREAM")?, settings: settings() }),
            b"unit" => Some(Packet::Unit(settings())),
            b"entry" => {
                let is_own = |(name, _): &(&[u8], &[u8])| *name != b"KIND" && *name != b"TIME_US";
                let own = fields.iter().copied().filter(is_own).collect();
                Some(Packet::Entry { time_us: number("TIME_US"), fields: own })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<(&[u8], &[u8])> {
        let lines = text.lines().filter_map(|line| line.split_once('='));
        lines.map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect()
    }

    #[test]
    fn words_of_the_daemon_are_told_apart() {
        for word in [DaemonWord::Hello, DaemonWord::Ended(7)] {
            assert_eq!(DaemonWord::read(word.write().as_bytes()), Some(word));
        }
        for other in ["", "HELLO ", "ENDED=", "ENDED=x", "ENDED=-1", "LATER"] {
            assert_eq!(DaemonWord::read(other.as_bytes()), None, "{other}");
        }
        assert_eq!(DaemonWord::read(b"\xff"), None);
    }

    #[test]
    fn what_has_no_room_is_left_out_and_said() {
        let settings = UnitSettings { filter: vec![b"long pattern", b"x"], ..Default::default() };
        let (whole, is_long) = settings.write(None, 1000);
        assert!(!is_long);
        let (part, is_long) = settings.write(None, whole.len() - "FILTER=long pattern\nx\n".len());
        let part = String::from_utf8(part).expect("text");
        assert!(is_long && part.ends_with("IDENTIFIER=\nFILTER=x\n"), "{part}");
    }

    #[test]
    fn entries_of_no_kind_are_left_out_and_fields_of_no_meaning_are_passed_over() {
        for none in
            ["", "UNIT=a\n", "KIND=other\n", "KIND=stream\nUNIT=a\n", "KIND=stream\nSTREAM=x\n"]
        {
            assert_eq!(Packet::read(&fields(none)), None, "{none}");
        }
        let text = "KIND=unit\nUNIT=a.service\nLATER=1\nRATE_BURST=many\nCOPIES=wall kmsg\n";
        let read = Packet::read(&fields(text));
        let copies = Copies { kmsg: true, ..Copies::default() };
        let settings = UnitSettings { unit: "a.service".into(), copies, ..Default::default() };
        assert_eq!(read, Some(Packet::Unit(settings)));
    }
}

//! What the manager itself says: entries for the log daemon, and lines on standard error, which
//! init has connected to the console or to a file, for as long as there is no daemon.
//!
//! Any thread may say something; the loop alone sends ([`flush`], at the end of its turn), and
//! neither waits. Until a daemon takes entries they wait in `OUTBOX`, so that the log has the
//! beginning too; what does not fit is counted, and told with the next entry that does.
//!
//! [`line()`] is for everything; what concerns a unit has fields as systemd.journal-fields(7) has
//! them and, where systemd has an id for such a message (`journalctl --list-catalog`), that id.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;

use warren_core::ids::{JobId, UnitId};
use warren_core::job::{JobKind, JobResult};
use warren_core::reason::{Cause, Code};
use warren_core::request::{Asker, Notice};
use warren_core::settings::{Settings, TypeSettings};
use warren_core::state::Outcome;
use warren_core::view::View;
use warren_sys::eventfd::EventFd;
use warren_sys::fdpass;
use warren_unit::settings::{Group, Id};
use warren_unit::{Diagnostic, Scope, Severity, UnitName};

use crate::ending::words::client;
use crate::log_link::put_field;
use crate::unmet;

/// Diagnostics that are written out after one load; the rest is counted.
const DIAGNOSTICS_SHOWN_MAX: usize = 50;

/// Of one file, so that it does not hide what is wrong with others.
const DIAGNOSTICS_OF_FILE_MAX: usize = 10;

/// Entries are put together up to this size of a packet, bytes.
const PACKET_BYTES: usize = 32 << 10;

/// Room for most entries, bytes.
const ENTRY_BYTES: usize = 512;

/// Longest text of a message and value of a field, bytes: the log daemon takes packets of 128 KiB.
const TEXT_BYTES_MAX: usize = 48 << 10;

/// What waits for the log daemon at most, bytes.
const OUTBOX_BYTES_MAX: usize = 1 << 20;

/// Room in it for the message of how many were lost, bytes.
const LOST_BYTES_MAX: usize = 512;

/// syslog(3): levels of entries.
const ERR: u8 = 3;
const WARNING: u8 = 4;
const INFO: u8 = 6;

/// What is sent at once, and how many messages are lost with it.
#[derive(Debug, PartialEq, Eq)]
struct Packet {
    bytes: Vec<u8>,
    messages: u64,
}

/// What waits to be sent.
#[derive(Default)]
struct Outbox {
    packets: VecDeque<Packet>,
    bytes: usize,
    lost: u64,
}

static OUTBOX: Mutex<Outbox> = Mutex::new(Outbox { packets: VecDeque::new(), bytes: 0, lost: 0 });

/// A log daemon takes entries.
static HEARD: AtomicBool = AtomicBool::new(false);

/// Everything is being stopped, the log daemon too: who watches the console is to see it.
static ENDING: AtomicBool = AtomicBool::new(false);

static SETUP: OnceLock<Setup> = OnceLock::new();

struct Setup {
    target: Target,
    scope: Scope,
    /// Wakes the loop, which has this thread.
    wake: Arc<EventFd>,
    loop_thread: ThreadId,
}

/// Where the manager's own messages go; systemd(1), `--log-target=`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// To the log daemon; while there is none, to standard error too.
    #[default]
    Auto,
    /// To standard error only.
    Console,
    /// To the log daemon only.
    Journal,
    /// Nowhere.
    Null,
}

impl Target {
    /// A target by its name.
    pub fn parse(name: &str) -> Option<Target> {
        Some(match name {
            "auto" => Target::Auto,
            "console" => Target::Console,
            "journal" => Target::Journal,
            "null" => Target::Null,
            _ => return None,
        })
    }
}

/// Says how messages are to be sent, once, from the thread of the loop. Before that they wait.
pub fn set_up(target: Target, scope: Scope, wake: Arc<EventFd>) {
    let loop_thread = std::thread::current().id();
    // A second call would be a second loop, which does not exist.
    let _ = SETUP.set(Setup { target, scope, wake, loop_thread });
}

/// Says whether there is a log daemon.
pub fn set_heard(heard: bool) {
    HEARD.store(heard, Ordering::Relaxed);
}

/// Says whether everything is being stopped.
pub fn set_ending(ending: bool) {
    ENDING.store(ending, Ordering::Relaxed);
}

fn outbox() -> MutexGuard<'static, Outbox> {
    // Nothing that is done under this lock can panic half-way.
    OUTBOX.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something waits to be sent.
pub fn is_behind() -> bool {
    !outbox().packets.is_empty()
}

/// Sends what waits, as far as it is taken; whether all of it was. What can never be taken is counted as lost. For the
/// loop.
pub fn flush(socket: BorrowedFd<'_>) -> bool {
    loop {
        let Some(packet) = outbox().packets.pop_front() else { return true };
        let sent = fdpass::try_send(socket, &packet.bytes, &[]);
        if !outbox().sent(packet, sent) {
            return false;
        }
    }
}

/// Has a packet's part sent with the next [`flush`].
pub fn packet(part: Vec<u8>) {
    let is_first = outbox().push(part);
    if let Some(setup) = SETUP.get().filter(|_| is_first)
        && std::thread::current().id() != setup.loop_thread
    {
        setup.wake.notify();
    }
}

impl Outbox {
    /// Adds a part, behind a message of how many were lost before; true when nothing was waiting.
    fn push(&mut self, mut part: Vec<u8>) -> bool {
        let is_first = self.packets.is_empty();
        part.push(b'\n');
        if self.bytes + part.len() + LOST_BYTES_MAX > OUTBOX_BYTES_MAX {
            self.lost += 1;
            return is_first;
        }
        if self.lost > 0 {
            self.add(told_of_lost(self.lost), self.lost);
            self.lost = 0;
        }
        self.add(part, 1);
        is_first
    }

    /// Adds a part for which there is room; if nobody takes it, so many messages are lost.
    fn add(&mut self, part: Vec<u8>, messages: u64) {
        self.bytes += part.len();
        match self.packets.back_mut() {
            Some(last) if last.bytes.len() + part.len() <= PACKET_BYTES => {
                last.bytes.extend(part);
                last.messages += messages;
            }
            _ => self.packets.push_back(Packet { bytes: part, messages }),
        }
    }

    /// Takes what came of sending the first packet; false when there is no room for it now.
    fn sent(&mut self, packet: Packet, sent: warren_sys::Result<()>) -> bool {
        if sent.as_ref().is_err_and(warren_sys::Error::is_would_block) {
            self.packets.push_front(packet);
            return false;
        }
        self.bytes -= packet.bytes.len();
        self.lost += if sent.is_err() { packet.messages } else { 0 };
        true
    }
}

/// What is said of messages that were lost.
fn told_of_lost(lost: u64) -> Vec<u8> {
    let text = format!("{lost} messages of the manager were lost: nobody took them");
    let mut part = Message { level: WARNING, text: &text, fields: &[] }.encode();
    part.push(b'\n');
    part
}

/// One message.
struct Message<'a> {
    level: u8,
    text: &'a str,
    fields: &'a [(&'a str, &'a str)],
}

impl Message<'_> {
    /// Sends it, and prints it if it is of the kind that is printed and there is nobody to take it.
    fn say(&self, to_console: bool) {
        let target = SETUP.get().map_or(Target::Auto, |setup| setup.target);
        let heard = HEARD.load(Ordering::Relaxed) && !ENDING.load(Ordering::Relaxed);
        if to_console && (target == Target::Console || target == Target::Auto && !heard) {
            self.print();
        }
        if matches!(target, Target::Auto | Target::Journal) {
            packet(self.encode());
        }
    }

    /// A log that cannot be written to is no reason to stop. One write for the line: init and the
    /// services of a nested machine write there too, and this process may be killed.
    fn print(&self) {
        let now = warren_sys::time::monotonic_ns();
        let (seconds, micros) = (now / 1_000_000_000, now % 1_000_000_000 / 1_000);
        let line = format!("[{seconds:>5}.{micros:06}] warrend: {}\n", self.text);
        warren_sys::terminal::say(line.as_bytes());
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(ENTRY_BYTES);
        let time_us = warren_sys::time::realtime_ns() / 1000;
        for (name, value) in [
            ("KIND", "entry"),
            ("TIME_US", &time_us.to_string()),
            ("PRIORITY", &self.level.to_string()),
            ("SYSLOG_FACILITY", "3"),
            ("SYSLOG_IDENTIFIER", "warrend"),
            ("MESSAGE", self.text),
        ] {
            put_field(&mut out, name, beginning(value).as_bytes());
        }
        for (name, value) in self.fields {
            put_field(&mut out, name, beginning(value).as_bytes());
        }
        out
    }
}

/// As much of a text as is sent.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// Says one line.
pub fn line(text: std::fmt::Arguments<'_>) {
    Message { level: INFO, text: &text.to_string(), fields: &[] }.say(true);
}

/// Says why the manager does not come up: on standard error whatever is said where else, as this process ends
/// before it sends anything.
pub fn last_words(text: &str) {
    Message { level: ERR, text, fields: &[] }.print();
}

/// [`line()`] with format arguments.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => { $crate::log::line(format_args!($($arg)*)) };
}

/// Says what a notice has for the log.
pub fn notice(view: &View, settings: &Settings, notice: &Notice) {
    match notice {
        Notice::Log { unit, reason, .. } if reason.code == Code::Hurried => {
            let by = match reason.cause {
                Cause::Request { uid, pid } => format!(" ({})", client(Asker { uid, pid })),
                _ => String::new(),
            };
            let (name, code) = (view.graph.name(*unit), reason.code.id());
            let text = format!("{name}: {code} {}{by}", reason.code.text());
            about(view, settings, *unit, INFO, &text, &[("WARREN_REASON", &code)], true);
        }
        Notice::Log { reason, .. } if !reason.code.is_trouble() => {}
        Notice::Log { unit, reason, .. } if reason.code == Code::ConditionFailed => {
            skipped(view, settings, *unit);
        }
        Notice::Log { unit, reason, detail } => {
            let name = view.graph.name(*unit).as_str();
            let by = match reason.cause {
                Cause::Dependency(other) | Cause::Trigger(other) | Cause::Outcome(other) => {
                    format!(" ({})", view.graph.name(other))
                }
                _ => String::new(),
            };
            let asserts = match reason.code {
                Code::AssertFailed => unmet::asserts(view, settings, *unit).join(", "),
                _ => String::new(),
            };
            let detail = if detail.is_empty() { &asserts } else { detail };
            let detail = if detail.is_empty() { String::new() } else { format!(": {detail}") };
            let code = reason.code.id();
            let text = format!("{name}: {code} {}{by}{detail}", reason.code.text());
            // Of those there may be thousands, and the console tells of the end itself.
            let to_console = reason.code != Code::ManagerExit;
            about(view, settings, *unit, WARNING, &text, &[("WARREN_REASON", &code)], to_console);
        }
        Notice::RemovalGivenUp { unit, paths } => {
            let name = view.graph.name(*unit);
            let paths: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            let text = format!(
                "{name}: {} stays: the manager ended several times while it was being removed. Remove it by hand",
                paths.join(", ")
            );
            about(view, settings, *unit, WARNING, &text, &[], true);
        }
        Notice::CycleBroken { units, at, is_kept } => {
            let names: Vec<&str> = units.iter().map(|u| view.graph.name(*u).as_str()).collect();
            let name = view.graph.name(*at);
            let how = match is_kept {
                true => "does not wait",
                false => "was dropped",
            };
            let text = format!("ordering circle {}: the job of {name} {how}", names.join(" -> "));
            about(view, settings, *at, WARNING, &text, &[], true);
        }
        Notice::JobRemoved { result: JobResult::Done, changed: false, .. } => {}
        Notice::JobRemoved { job, unit, kind, result, .. } => {
            job_ended(view, settings, *unit, *job, *kind, *result);
        }
        _ => {}
    }
}

/// Says that a unit was not started, since a condition of its own was not met or `ExecCondition=` said no.
fn skipped(view: &View, settings: &Settings, unit: UnitId) {
    /// Of the second kind.
    const SKIPPED: &str = "0e4284a0caca4bfc81c0bb6786972673";
    let code = Code::ConditionFailed.id();
    let (text, more) = match unmet::why_skipped(view, settings, unit) {
        Some(why) => (format!("{} was skipped because {why}.", title(view, unit)), Vec::new()),
        None => {
            let result = Outcome::ExecCondition.as_str();
            let text = format!("{}: Skipped due to '{result}'.", view.graph.name(unit));
            (text, vec![("UNIT_RESULT", result), ("MESSAGE_ID", SKIPPED)])
        }
    };
    let fields = [vec![("WARREN_REASON", &*code)], more].concat();
    about(view, settings, unit, INFO, &text, &fields, true);
}

/// A unit's name and, if it has one, its description.
fn title(view: &View, unit: UnitId) -> String {
    let definition = view.definition(unit);
    let (name, description) = (definition.name.as_str(), definition.title());
    match description.is_empty() || description == name {
        true => name.to_owned(),
        false => format!("{name} - {description}"),
    }
}

/// Warns of a unit: among its messages, and with the console.
pub fn warn(view: &View, settings: &Settings, unit: UnitId, text: &str) {
    about(view, settings, unit, WARNING, text, &[], true);
}

/// Whether the manager says something of a unit at this level: `LogLevelMax=` is for its messages too
/// (systemd.exec(5)). Few units have it: only theirs are compiled for that.
fn is_said(view: &View, settings: &Settings, unit: UnitId, level: u8) -> bool {
    const LEVEL_MAX: Id = Id::of(Group::Exec, "LogLevelMax");
    let definition = view.definition(unit);
    if !definition.files.in_use().mention(LEVEL_MAX) {
        return true;
    }
    let level_max = match settings.compile_running(definition).own {
        TypeSettings::Service(config) => config.exec.log_level_max,
        TypeSettings::Socket(config) => config.exec.log_level_max,
        TypeSettings::Mount(config) => config.exec.log_level_max,
        TypeSettings::Automount(_) | TypeSettings::Slice(_) | TypeSettings::None => None,
    };
    level_max.is_none_or(|max| level <= max)
}

/// Says something about a unit, with the fields that name it.
fn about(
    view: &View,
    settings: &Settings,
    unit: UnitId,
    level: u8,
    text: &str,
    more: &[(&str, &str)],
    to_console: bool,
) {
    if !is_said(view, settings, unit, level) {
        return;
    }
    let invocation = view.run(unit).history.as_ref().map_or(0, |h| h.invocation);
    about_named(view.graph.name(unit), invocation, level, text, more, to_console);
}

/// Warns of what has this name, in that invocation: among its messages, and with the console.
pub fn warn_named(name: &UnitName, invocation: u128, text: &str) {
    about_named(name, invocation, WARNING, text, &[], true);
}

fn about_named(
    name: &UnitName,
    invocation: u128,
    level: u8,
    text: &str,
    more: &[(&str, &str)],
    to_console: bool,
) {
    let scope = SETUP.get().map_or(Scope::System, |setup| setup.scope);
    let (unit_field, invocation_field) = match scope {
        Scope::System => ("UNIT", "INVOCATION_ID"),
        Scope::User => ("USER_UNIT", "USER_INVOCATION_ID"),
    };
    let invocation = format!("{invocation:032x}");
    let mut fields = vec![(unit_field, name.as_str())];
    if invocation.bytes().any(|digit| digit != b'0') {
        fields.push((invocation_field, &invocation));
    }
    fields.extend(more);
    Message { level, text, fields: &fields }.say(to_console);
}

/// What is said at the end of a job.
struct Words {
    level: u8,
    /// Before and after the unit's name and description.
    before: &'static str,
    after: &'static str,
    /// The id under which systemd says the same.
    id: &'static str,
}

fn words_of(kind: JobKind, result: JobResult) -> Option<Words> {
    const START_FAILED: &str = "be02cf6855d2428ba40df7e9d022f03d";
    use JobResult::{Assert, Dependency, Done, Failed, Timeout};
    let words = |level, before, after, id| Some(Words { level, before, after, id });
    let failed = |before| words(ERR, before, ".", START_FAILED);
    match (kind, result) {
        (JobKind::Start, Done) => words(INFO, "Started ", ".", "39f53479d3a045ac8e11786248231fbf"),
        (JobKind::Stop, Done) => words(INFO, "Stopped ", ".", "9d1aaa27d60140bd96365438aad20286"),
        (JobKind::Reload, Done) => {
            words(INFO, "Reloaded ", ".", "7b05ebc668384222baa8881179cfda54")
        }
        (JobKind::Start, Failed) => failed("Failed to start "),
        (JobKind::Start, Timeout) => failed("Timed out starting "),
        (JobKind::Start, Dependency) => failed("Dependency failed for "),
        (JobKind::Start, Assert) => failed("Assertion failed for "),
        _ => None,
    }
}

/// Not on the console, where a boot of thousands of units would be told one by one: what went
/// wrong is there by its reason.
fn job_ended(
    view: &View,
    settings: &Settings,
    unit: UnitId,
    job: JobId,
    kind: JobKind,
    result: JobResult,
) {
    let Some(words) = words_of(kind, result) else { return };
    let text = format!("{}{}{}", words.before, title(view, unit), words.after);
    let more = [
        ("JOB_ID", &*job.0.to_string()),
        ("JOB_TYPE", kind.as_str()),
        ("JOB_RESULT", result.as_str()),
        ("MESSAGE_ID", words.id),
    ];
    about(view, settings, unit, words.level, &text, &more, false);
}

/// Says what was wrong with unit files.
pub fn diagnostics(all: &[Diagnostic]) {
    shown(all).for_each(|text| say!("{text}"));
}

/// The same, of a unit's own files.
pub fn diagnostics_of(view: &View, settings: &Settings, unit: UnitId, all: &[Diagnostic]) {
    shown(all).for_each(|text| warn(view, settings, unit, &text));
}

/// Errors first: they say why a unit cannot be used.
fn shown(all: &[Diagnostic]) -> impl Iterator<Item = String> {
    let line = |diagnostic: &Diagnostic| {
        let Diagnostic { path, line, column, severity, message, .. } = diagnostic;
        match column {
            0 => format!("{path}:{line}: {severity}: {message}"),
            column => format!("{path}:{line}:{column}: {severity}: {message}"),
        }
    };
    let mut of_files = BTreeMap::<&str, usize>::new();
    let (errors, others): (Vec<_>, Vec<_>) =
        all.iter().partition(|diagnostic| diagnostic.severity == Severity::Error);
    let mut shown = Vec::new();
    for diagnostic in errors.into_iter().chain(others) {
        let of_file = of_files.entry(&diagnostic.path).or_default();
        if *of_file < DIAGNOSTICS_OF_FILE_MAX && shown.len() < DIAGNOSTICS_SHOWN_MAX {
            *of_file += 1;
            shown.push(line(diagnostic));
        }
    }
    let more = all.len() - shown.len();
    let more = (more > 0).then(|| format!("and {more} more; see warren verify"));
    shown.into_iter().chain(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_put_together_and_what_is_too_much_is_counted() {
        let mut outbox = Outbox::default();
        assert!(outbox.push(b"A=1\n".to_vec()));
        assert!(!outbox.push(b"B=2\n".to_vec()));
        assert_eq!(outbox.packets, [Packet { bytes: b"A=1\n\nB=2\n\n".to_vec(), messages: 2 }]);
        while outbox.lost == 0 {
            outbox.push(vec![b'x'; 999]);
            assert!(outbox.bytes <= OUTBOX_BYTES_MAX);
        }
        assert!(outbox.packets.iter().all(|packet| packet.bytes.len() <= PACKET_BYTES));
        let bytes: usize = outbox.packets.iter().map(|packet| packet.bytes.len()).sum();
        assert_eq!(bytes, outbox.bytes);
    }

    /// One that is larger than the socket's buffer would be tried for ever, and nothing come behind it.
    #[test]
    fn what_no_socket_takes_is_counted_and_the_next_one_sent() {
        use std::os::fd::AsFd;
        let (ours, theirs) = fdpass::seqpacket_pair(true).expect("sockets");
        let mut outbox = Outbox::default();
        outbox.push(b"A=1\n".to_vec());
        outbox.push(vec![b'x'; 900 << 10]);
        outbox.push(b"B=2\n".to_vec());
        let mut goes_on = true;
        while goes_on && let Some(packet) = outbox.packets.pop_front() {
            let sent = fdpass::try_send(ours.as_fd(), &packet.bytes, &[]);
            goes_on = outbox.sent(packet, sent);
        }
        assert_eq!((goes_on, outbox.bytes, outbox.lost), (true, 0, 1));
        let (mut room, mut fds) = ([0; 16], Vec::new());
        for expected in [b"A=1\n\n", b"B=2\n\n"] {
            let got = fdpass::recv(theirs.as_fd(), &mut room, &mut fds, false).expect("it came");
            assert_eq!(&room[..got.bytes], expected);
        }
        let full = Err(warren_sys::Error::new("sendmsg", 11));
        assert!(!outbox.sent(Packet { bytes: b"C".to_vec(), messages: 1 }, full), "EAGAIN");
        assert_eq!((outbox.packets.len(), outbox.lost), (1, 1));
    }

    #[test]
    fn no_file_hides_what_is_wrong_with_another_and_errors_come_first() {
        let one = |path: &str, line, severity| {
            let (path, code, message) = (path.into(), warren_unit::Code::NotUtf8, String::new());
            Diagnostic { path, line, column: 0, severity, code, message }
        };
        let mut all: Vec<_> = (1..=256).map(|line| one("a", line, Severity::Warning)).collect();
        all.extend((1..=60).map(|n| one(&format!("b{n}"), 1, Severity::Warning)));
        all.push(one("c", 7, Severity::Error));
        let shown: Vec<String> = shown(&all).collect();
        assert!(shown[0].starts_with("c:7: "), "{}", shown[0]);
        assert_eq!(shown.iter().filter(|line| line.starts_with("a:")).count(), 10);
        assert_eq!((shown.len(), &*shown[50]), (51, "and 267 more; see warren verify"));
    }

    #[test]
    fn as_many_messages_are_told_of_as_were_lost() {
        const MORE: u64 = 5000;
        let mut outbox = Outbox::default();
        while outbox.lost <= MORE {
            outbox.push(vec![b'x'; 999]);
        }
        let first = outbox.packets.pop_front().expect("it is full");
        assert!(outbox.sent(first, Ok(())));
        outbox.push(b"A=1\n".to_vec());
        let last = outbox.packets.back().expect("there was room");
        let text = String::from_utf8_lossy(&last.bytes);
        let told = format!("MESSAGE={} messages of the manager were lost", MORE + 1);
        assert!(text.contains(&told) && text.ends_with("\n\nA=1\n\n"), "{text}");
        assert_eq!(outbox.lost, 0);
        // Nobody takes that either.
        let last = outbox.packets.pop_back().expect("there was room");
        let gone = Err(warren_sys::Error::new("sendmsg", 32));
        assert!(outbox.sent(last, gone) && outbox.lost > MORE + 1);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let long = "\u{e9}".repeat(TEXT_BYTES_MAX) + "!";
        let fields = [("UNIT", "a.service"), ("WHY", &*long)];
        let bytes = Message { level: ERR, text: &format!("x{long}"), fields: &fields }.encode();
        assert!(bytes.len() < 2 * TEXT_BYTES_MAX + ENTRY_BYTES);
        let text = String::from_utf8(bytes).expect("whole characters");
        assert!(text.contains("UNIT=a.service") && !text.contains('!'));
    }

    #[test]
    fn a_message_has_its_fields() {
        let fields = [("UNIT", "a.service")];
        let bytes = Message { level: ERR, text: "two\nlines", fields: &fields }.encode();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.starts_with("KIND=entry\nTIME_US="), "{text:?}");
        let end = "PRIORITY=3\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER=warrend\n\
                   MESSAGE\n\u{9}\0\0\0\0\0\0\0two\nlines\nUNIT=a.service\n";
        assert!(text.ends_with(end), "{text:?}");
    }
}

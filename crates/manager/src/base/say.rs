//! What the manager itself says: entries for the log daemon, and lines on standard error, which
//! init has connected to the console or to a file, for as long as there is no daemon.
//!
//! Any thread may say something; the loop alone sends ([`flush`], at the end of its turn), and
//! neither waits. Until a daemon takes entries they wait in `OUTBOX`, so that the log has the
//! beginning too; what does not fit is counted, and told with the next entry that does.
//!
//! [`line()`] is for everything; what concerns a unit has fields as systemd.journal-fields(7) has
//! them and, where systemd has an id for such a message (`journalctl --list-catalog`), that id.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::IsTerminal;
use std::os::fd::BorrowedFd;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use warren_sys::eventfd::EventFd;
use warren_sys::fdpass;
use warren_unit::Scope;
use warren_unit::UnitName;
use warren_unit::config::{LineStyle, ShowStatus};
use warren_wire::log_link::put_entry;

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
pub(crate) const ERR: u8 = 3;

pub(crate) const WARNING: u8 = 4;

const NOTICE: u8 = 5;

pub(crate) const INFO: u8 = 6;

pub(crate) const DEBUG: u8 = 7;

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

/// The least grave level that is said.
static LEVEL: AtomicU8 = AtomicU8::new(u8::MAX);

/// Where to, as a client set it: the place of its word.
static TARGET: AtomicU8 = AtomicU8::new(u8::MAX);

/// What is shown of units: the place of its word; none while nobody says.
static SHOW_STATUS: AtomicU8 = AtomicU8::new(u8::MAX);

/// How lines on standard error look: [`Style::to_bits`].
static STYLE: AtomicU8 = AtomicU8::new(Style::USUAL.to_bits());

pub(crate) static SETUP: OnceLock<Setup> = OnceLock::new();

pub(crate) struct Setup {
    target: Target,
    pub(crate) scope: Scope,
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
    const WORDS: [(&'static str, Target); 4] = [
        ("auto", Target::Auto),
        ("console", Target::Console),
        ("journal", Target::Journal),
        ("null", Target::Null),
    ];

    /// A target by its name.
    pub fn parse(name: &str) -> Option<Target> {
        Target::WORDS.iter().find(|(word, _)| *word == name).map(|(_, target)| *target)
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        let known = Target::WORDS.iter().find(|(_, target)| *target == self);
        known.expect("each has a word").0
    }

    fn in_force() -> Target {
        let set = Target::WORDS.get(usize::from(TARGET.load(Ordering::Relaxed)));
        let from_start = || SETUP.get().map_or(Target::Auto, |setup| setup.target);
        set.map_or_else(from_start, |(_, target)| *target)
    }
}

/// Says how messages are to be sent, once, from the thread of the loop. Before that they wait.
pub fn set_up(target: Target, scope: Scope, wake: Arc<EventFd>) {
    let loop_thread = std::thread::current().id();
    // A second call would be a second loop, which does not exist.
    let _ = SETUP.set(Setup { target, scope, wake, loop_thread });
}

/// Says only what is of this level of syslog(3) or graver, and where else than as it was set up.
pub fn restrict(level: Option<u8>, target: Option<Target>) {
    LEVEL.store(level.unwrap_or(u8::MAX), Ordering::Relaxed);
    let known = Target::WORDS.iter().position(|(_, known)| Some(*known) == target);
    TARGET.store(known.map_or(u8::MAX, |at| at as u8), Ordering::Relaxed);
}

/// Has the console show this of units ([`shows`]).
pub fn set_show_status(shown: Option<ShowStatus>) {
    let known = ShowStatus::ALL.iter().position(|known| Some(*known) == shown);
    SHOW_STATUS.store(known.map_or(u8::MAX, |at| at as u8), Ordering::Relaxed);
}

/// Whether the console is to show the end of a job that has failed, or not.
pub fn shows(has_failed: bool) -> bool {
    let shown = ShowStatus::ALL.get(usize::from(SHOW_STATUS.load(Ordering::Relaxed)));
    shown.is_some_and(|shown| shown.shows(has_failed))
}

/// Has lines on standard error look so.
pub fn set_style(stated: LineStyle) {
    STYLE.store(Style::of(stated).to_bits(), Ordering::Relaxed);
}

/// The arguments by which another warrend's lines look as ours.
pub fn style_arguments() -> [String; 3] {
    let Style { color, location, time } = Style::in_force();
    let argument = |name, on| format!("--log-{name}={}", if on { "yes" } else { "no" });
    [argument("color", color), argument("location", location), argument("time", time)]
}

/// How lines on standard error look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Style {
    /// On a terminal they have a colour by how grave they are.
    color: bool,
    /// They say where in the code they come from.
    location: bool,
    /// They begin with the time since the kernel started.
    time: bool,
}

impl Style {
    /// Where nothing is said.
    const USUAL: Style = Style { color: false, location: false, time: true };

    fn of(stated: LineStyle) -> Style {
        let LineStyle { color, location, time } = stated;
        Style {
            color: color.unwrap_or(Style::USUAL.color),
            location: location.unwrap_or(Style::USUAL.location),
            time: time.unwrap_or(Style::USUAL.time),
        }
    }

    const fn to_bits(self) -> u8 {
        self.color as u8 | (self.location as u8) << 1 | (self.time as u8) << 2
    }

    fn in_force() -> Style {
        let bits = STYLE.load(Ordering::Relaxed);
        Style { color: bits & 1 != 0, location: bits & 2 != 0, time: bits & 4 != 0 }
    }
}

/// What a terminal is sent before a line of this level of syslog(3), and behind it (console_codes(4)).
fn colors(level: u8) -> (&'static str, &'static str) {
    const AS_BEFORE: &str = "\x1b[0m";
    match level {
        0..=ERR => ("\x1b[1;31m", AS_BEFORE),
        WARNING => ("\x1b[1;33m", AS_BEFORE),
        NOTICE => ("\x1b[1m", AS_BEFORE),
        INFO => ("", ""),
        _ => ("\x1b[90m", AS_BEFORE),
    }
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
    let text = format!("lost {lost} messages of the manager: the log did not take them");
    let mut part = Message::new(WARNING, &text).encode();
    part.push(b'\n');
    part
}

/// One message.
pub(crate) struct Message<'a> {
    pub(crate) level: u8,
    pub(crate) text: &'a str,
    pub(crate) fields: &'a [(&'a str, &'a str)],
    /// Where in the code it is said.
    place: &'static Location<'static>,
}

impl<'a> Message<'a> {
    #[track_caller]
    fn new(level: u8, text: &'a str) -> Message<'a> {
        Message { level, text, fields: &[], place: Location::caller() }
    }
}

impl Message<'_> {
    /// Sends it, and prints it if it is of the kind that is printed and there is nobody to take it.
    pub(crate) fn say(&self, to_console: bool) {
        if self.level > LEVEL.load(Ordering::Relaxed) {
            return;
        }
        let target = Target::in_force();
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
        let style = Style::in_force();
        let color = style.color && std::io::stderr().is_terminal();
        let now = warren_sys::time::monotonic_ns();
        warren_sys::terminal::say(self.line(Style { color, ..style }, now).as_bytes());
    }

    /// The line, at so many nanoseconds since the kernel started.
    fn line(&self, style: Style, now: u64) -> String {
        let (seconds, micros) = (now / 1_000_000_000, now % 1_000_000_000 / 1_000);
        let said = |is_said: bool, text: String| if is_said { text } else { String::new() };
        let time = said(style.time, format!("[{seconds:>5}.{micros:06}] "));
        let (file, line) = (self.place.file(), self.place.line());
        let place = said(style.location, format!("{file}:{line}: "));
        let (before, after) = if style.color { colors(self.level) } else { ("", "") };
        format!("{time}warrend: {place}{before}{}{after}\n", for_terminal(self.text))
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(ENTRY_BYTES);
        let time_us = warren_sys::time::realtime_ns() / 1000;
        let level = self.level.to_string();
        let own = [
            ("PRIORITY", level.as_str()),
            ("SYSLOG_FACILITY", "3"),
            ("SYSLOG_IDENTIFIER", "warrend"),
            ("MESSAGE", self.text),
        ];
        let fields = own.iter().chain(self.fields);
        put_entry(&mut out, time_us, fields.map(|&(name, value)| (name, beginning(value))));
        out
    }
}

/// The text as a terminal may have it: names of processes and what services say of themselves are in it. What a terminal
/// acts on is a space, and a further line begins with spaces, so that it cannot be taken for one of ours.
fn for_terminal(text: &str) -> Cow<'_, str> {
    let acts =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let shown = |c: char| if c != '\n' && acts(c) { ' ' } else { c };
    Cow::Owned(text.chars().map(shown).collect::<String>().replace('\n', "\n    "))
}

/// As much of a text as is sent.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// Says one line.
#[track_caller]
pub fn line(text: std::fmt::Arguments<'_>) {
    Message::new(INFO, &text.to_string()).say(true);
}

/// Says why the manager does not come up: on standard error whatever is said where else, as this process ends
/// before it sends anything.
#[track_caller]
pub fn last_words(text: &str) {
    Message::new(ERR, text).print();
}

/// Shows a line of this level of syslog(3) on the console, whoever takes the log.
#[track_caller]
pub fn status(level: u8, text: &str) {
    if Target::in_force() != Target::Null {
        Message::new(level, text).print();
    }
}

/// Warns of what has this name, in that invocation: among its messages, and with the console.
#[track_caller]
pub fn warn_named(name: &UnitName, invocation: u128, text: &str) {
    about_named(name, invocation, WARNING, text, &[], true);
}

#[track_caller]
pub(crate) fn about_named(
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
    Message { fields: &fields, ..Message::new(level, text) }.say(to_console);
}

/// [`line()`] with format arguments.
macro_rules! say {
    ($($arg:tt)*) => { $crate::base::say::line(format_args!($($arg)*)) };
}
pub(crate) use say;

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
        let told = format!("MESSAGE=lost {} messages of the manager", MORE + 1);
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
        let text = format!("x{long}");
        let bytes = Message { fields: &fields, ..Message::new(ERR, &text) }.encode();
        assert!(bytes.len() < 2 * TEXT_BYTES_MAX + ENTRY_BYTES);
        let text = String::from_utf8(bytes).expect("whole characters");
        assert!(text.contains("UNIT=a.service") && !text.contains('!'));
    }

    #[test]
    fn lines_look_as_it_is_stated() {
        let message = Message::new(WARNING, "a.service: odd");
        let place = format!("{}:{}: ", message.place.file(), message.place.line());
        assert!(place.ends_with(&format!("say.rs:{}: ", line!() - 2)), "{place}");
        let line = |stated: LineStyle| message.line(Style::of(stated), 1_234_567_890);
        let usual = LineStyle::default();
        assert_eq!(line(usual), "[    1.234567] warrend: a.service: odd\n");
        let time = Some(false);
        assert_eq!(line(LineStyle { time, ..usual }), "warrend: a.service: odd\n");
        let color = Some(true);
        let colored = line(LineStyle { color, time, ..usual });
        assert_eq!(colored, "warrend: \x1b[1;33ma.service: odd\x1b[0m\n");
        let all = line(LineStyle { color, location: Some(true), time: Some(true) });
        let end = "\x1b[1;33ma.service: odd\x1b[0m\n";
        assert_eq!(all, format!("[    1.234567] warrend: {place}{end}"));
        let info = Message::new(INFO, "fine").line(Style { color: true, ..Style::USUAL }, 0);
        assert_eq!(info, "[    0.000000] warrend: fine\n");
    }

    /// A process had called itself so.
    #[test]
    fn what_a_terminal_acts_on_is_not_in_a_line() {
        let line = |text: &str| Message::new(INFO, text).line(Style::of(LineStyle::default()), 0);
        let name = "sweeper: pid 7 \x1b[2J\x07\u{9b}1A\u{202e}ab\nwarrend: all is well\r";
        let shown = "sweeper: pid 7  [2J  1A ab\n    warrend: all is well ";
        assert_eq!(line(name), format!("[    0.000000] warrend: {shown}\n"));
        assert_eq!(line("\u{e9}"), "[    0.000000] warrend: \u{e9}\n");
    }

    #[test]
    fn a_message_has_its_fields() {
        let fields = [("UNIT", "a.service")];
        let bytes = Message { fields: &fields, ..Message::new(ERR, "two\nlines") }.encode();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(text.starts_with("KIND=entry\nTIME_US="), "{text:?}");
        let end = "PRIORITY=3\nSYSLOG_FACILITY=3\nSYSLOG_IDENTIFIER=warrend\n\
                   MESSAGE\n\u{9}\0\0\0\0\0\0\0two\nlines\nUNIT=a.service\n";
        assert!(text.ends_with(end), "{text:?}");
    }
}

//! Forwarding of what comes in: to a syslog daemon's socket, to the kernel's log, to a terminal, to
//! everybody's terminals. journald.conf(5), `ForwardTo…=`.
//!
//! Nothing here waits: what a reader does not take at once it does not get. Messages of the kernel
//! are not forwarded, as all of these get them from the kernel. [`line`] is pure.

use std::borrow::Cow;
use std::cell::Cell;
use std::fs::File;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use rustix::fs::{Gid, OFlags, Uid};
use rustix::io::Errno;
use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, UCred, sendmsg_addr,
};
use rustix::process::Pid;

use crate::config::{Config, Forward};
use crate::daemon::clock::now_us;
use crate::input::stream::Copies;
use warren_log_store::entry::Fields;
use warren_log_store::time;

/// The socket of a syslog daemon, in the directory of ours.
const SYSLOG_NAME: &str = "syslog";

/// The kernel's log.
const KMSG: &str = "/dev/kmsg";

/// Whether the kernel prints times before its messages: `printk.time=`, kernel-parameters.txt.
const PRINTK_TIME: &str = "/sys/module/printk/parameters/time";

/// Who is logged in: utmp(5).
const UTMP: &str = "/run/utmp";

/// Longest text that is forwarded to the kernel, bytes; it takes no record of 1 KB.
const KMSG_BYTES_MAX: usize = 976;

/// Longest text that is forwarded elsewhere, bytes.
const TEXT_BYTES_MAX: usize = 8 << 10;

/// A syslog daemon that is not there is looked for so often at most: not for each message.
const LOOKS_APART_US: u64 = 10_000;

/// Most terminals that a message for everybody is written to.
const TERMINALS_MAX: usize = 256;

/// What a message without a level or a facility has: `user.info`; syslog(3).
const LEVEL_DEFAULT: u8 = 6;
const FACILITY_DEFAULT: u32 = 1;

/// To where.
pub struct Forwarder {
    to_syslog: Forward,
    to_kmsg: Forward,
    to_console: Forward,
    to_wall: Forward,
    socket: Option<UnixDatagram>,
    syslog: PathBuf,
    /// Where nobody listened: until when none is looked for, µs of the monotonic clock.
    nobody_until_us: Cell<u64>,
    tty: PathBuf,
    /// Why it could not be opened the last time, and whether it was said.
    console_fault: Cell<Option<(String, bool)>>,
    /// Lines of the console begin with a time.
    has_times: bool,
    host: String,
}

/// What the way that an entry came says of where it goes.
#[derive(Clone, Copy, Default)]
pub struct Came<'a> {
    /// How a syslog daemon gets it: it knows forms of lines that we do not.
    pub syslog: Option<&'a [u8]>,
    /// Who gets it whatever the settings say.
    pub copies: Copies,
}

/// A message as it is forwarded.
pub struct Message<'a> {
    /// 0 to 7.
    pub level: u8,
    facility: u32,
    who: &'a [u8],
    pid: &'a [u8],
    text: &'a [u8],
}

impl<'a> Message<'a> {
    /// What of an entry is forwarded; nothing without a text.
    pub fn of(fields: &'a Fields, context: &'a Fields) -> Option<Message<'a>> {
        let number = |name| std::str::from_utf8(fields.get(name)?).ok()?.parse().ok();
        let name = fields.get("SYSLOG_IDENTIFIER").or_else(|| context.get("_COMM"));
        Some(Message {
            level: level_of(fields),
            facility: number("SYSLOG_FACILITY").unwrap_or(FACILITY_DEFAULT),
            who: name.unwrap_or(b"unknown"),
            pid: fields.get("SYSLOG_PID").or_else(|| context.get("_PID")).unwrap_or_default(),
            text: fields.get("MESSAGE")?,
        })
    }

    /// `who[pid]: text`, the text cut.
    fn body(&self, bytes_max: usize) -> Vec<u8> {
        let mut out = self.who.to_vec();
        if !self.pid.is_empty() {
            out.push(b'[');
            out.extend_from_slice(self.pid);
            out.push(b']');
        }
        out.extend_from_slice(b": ");
        out.extend_from_slice(&self.text[..self.text.len().min(bytes_max)]);
        out
    }

    /// `<N>`: level and facility as one number.
    fn number(&self) -> String {
        format!("<{}>", self.facility << 3 | u32::from(self.level))
    }

    /// For a syslog daemon: as syslog(3) sends it.
    fn for_syslog(&self, realtime_us: u64, zone: &TimeZone) -> Vec<u8> {
        let time = time::print(realtime_us, zone, "%b %e %H:%M:%S ");
        [self.number().as_bytes(), time.as_bytes(), &self.body(TEXT_BYTES_MAX)].concat()
    }

    /// For the kernel: one record, without what would end it or begin another.
    fn for_kmsg(&self) -> Vec<u8> {
        let mut body = self.body(KMSG_BYTES_MAX);
        body.iter_mut().filter(|byte| byte.is_ascii_control()).for_each(|byte| *byte = b' ');
        [self.number().as_bytes(), &body, b"\n"].concat()
    }

    /// For a terminal: nothing that it would act on.
    fn for_terminal(&self) -> String {
        let text = String::from_utf8_lossy(&self.body(TEXT_BYTES_MAX)).into_owned();
        let plain = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
        text.trim_end().chars().map(plain).collect::<String>() + "\n"
    }

    /// For the console, among the kernel's own messages: with the time as those have it, if they do.
    fn for_console(&self, monotonic_us: Option<u64>) -> String {
        let time = |us: u64| format!("[{:>5}.{:06}] ", us / 1_000_000, us % 1_000_000);
        monotonic_us.map(time).unwrap_or_default() + &self.for_terminal()
    }

    /// For terminals in whatever state they are.
    fn for_wall(&self) -> String {
        self.for_terminal().replace('\n', "\r\n")
    }
}

/// The level of an entry, 0 to 7.
pub fn level_of(fields: &Fields) -> u8 {
    match fields.get("PRIORITY") {
        Some([digit @ b'0'..=b'7']) => digit - b'0',
        _ => LEVEL_DEFAULT,
    }
}

impl Forwarder {
    /// As the settings say; `sockets` is the directory of the daemon's sockets.
    pub fn new(config: &Config, sockets: &Path, host: &str) -> Forwarder {
        let socket = UnixDatagram::unbound().and_then(|socket| {
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        Forwarder {
            to_syslog: config.to_syslog,
            to_kmsg: config.to_kmsg,
            to_console: config.to_console,
            to_wall: config.to_wall,
            socket: socket.ok(),
            syslog: sockets.join(SYSLOG_NAME),
            nobody_until_us: Cell::new(0),
            tty: config.tty_path.clone(),
            console_fault: Cell::new(None),
            has_times: std::fs::read(PRINTK_TIME).is_ok_and(|text| text.starts_with(b"Y")),
            host: host.to_owned(),
        }
    }

    /// Why the console does not get what is for it, when that was not asked before.
    pub fn take_console_fault(&self) -> Option<String> {
        let (text, is_told) = self.console_fault.take()?;
        self.console_fault.set(Some((text.clone(), true)));
        (!is_told).then_some(text)
    }

    fn note_console(&self, written: std::io::Result<()>) {
        let before = self.console_fault.take();
        let fault = written.err().map(|e| format!("TTYPath={}: {e}", self.tty.display()));
        let is_told =
            |text: &String| before.as_ref().is_some_and(|(old, told)| old == text && *told);
        self.console_fault.set(fault.map(|text| {
            let told = is_told(&text);
            (text, told)
        }));
    }

    /// Forwards an entry to those that the settings or itself name, up to the level that each takes. Who does
    /// not take it does not get it; false when that is a syslog daemon with no room for it.
    pub fn put(
        &self,
        (fields, context): (&Fields, &Fields),
        came: Came<'_>,
        realtime_us: u64,
    ) -> bool {
        let Came { syslog, copies } = came;
        let level = level_of(fields);
        let wants = |to: &Forward, asked: bool| (to.on || asked) && level <= to.level_max;
        let for_syslog =
            wants(&self.to_syslog, copies.syslog) && now_us() >= self.nobody_until_us.get();
        let for_kmsg = wants(&self.to_kmsg, copies.kmsg);
        let for_console = wants(&self.to_console, copies.console);
        let for_wall = wants(&self.to_wall, false);
        if !(for_syslog || for_kmsg || for_console || for_wall) {
            return true;
        }
        let Some(message) = Message::of(fields, context) else { return true };
        let mut is_taken = true;
        if for_syslog {
            let made = || Cow::Owned(message.for_syslog(realtime_us, &time::local_zone()));
            is_taken = self.send(&syslog.map_or_else(made, Cow::Borrowed), sender_of(context));
        }
        if for_kmsg {
            write_to(Path::new(KMSG), &message.for_kmsg());
        }
        if for_console {
            let time = self.has_times.then(now_us);
            let written = try_write_to(&self.tty, message.for_console(time).as_bytes());
            self.note_console(written);
        }
        if for_wall {
            self.wall(&message, realtime_us);
        }
        is_taken
    }

    /// Sends a line in the name of its sender, or in our own if that one is gone or we may not. False
    /// when there is somebody to read it, and no room.
    fn send(&self, line: &[u8], sender: Option<UCred>) -> bool {
        let (Some(socket), Ok(address)) = (&self.socket, SocketAddrUnix::new(&self.syslog)) else {
            return true;
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(sender) = sender {
            control.push(SendAncillaryMessage::ScmCredentials(sender));
        }
        let parts = [IoSlice::new(line)];
        let mut sent = sendmsg_addr(socket, &address, &parts, &mut control, SendFlags::NOSIGNAL);
        if let Err(Errno::PERM | Errno::SRCH) = sent {
            let mut none = SendAncillaryBuffer::default();
            sent = sendmsg_addr(socket, &address, &parts, &mut none, SendFlags::NOSIGNAL);
        }
        if let Err(Errno::NOENT | Errno::CONNREFUSED) = sent {
            self.nobody_until_us.set(now_us() + LOOKS_APART_US);
        }
        !matches!(sent, Err(Errno::AGAIN | Errno::MSGSIZE | Errno::NOBUFS))
    }

    fn wall(&self, message: &Message<'_>, realtime_us: u64) {
        let time = time::print(realtime_us, &time::local_zone(), "%a %Y-%m-%d %H:%M:%S %Z");
        let head =
            format!("\r\nBroadcast message from warren-journald@{} ({time}):\r\n", self.host);
        let text = [&head, "\r\n", &message.for_wall(), "\r\n"].concat();
        let utmp = std::fs::read(UTMP).unwrap_or_default();
        for name in terminals(&utmp) {
            write_to(&Path::new("/dev").join(name), text.as_bytes());
        }
    }
}

/// Who an entry is of.
fn sender_of(context: &Fields) -> Option<UCred> {
    let number = |name| std::str::from_utf8(context.get(name)?).ok()?.parse::<u32>().ok();
    Some(UCred {
        pid: Pid::from_raw(i32::try_from(number("_PID")?).ok()?)?,
        uid: Uid::from_raw(number("_UID")?),
        gid: Gid::from_raw(number("_GID")?),
    })
}

/// One write to a device that must not make us wait; what fails is left out.
fn write_to(path: &Path, text: &[u8]) {
    // Whether it is there is somebody else's matter.
    let _ = try_write_to(path, text);
}

/// The same.
///
/// # Errors
/// When the device cannot be opened; what it does not take is left out.
fn try_write_to(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let mut file = File::options().append(true).custom_flags(flags).open(path)?;
    let _ = file.write_all(text);
    Ok(())
}

/// The terminals that somebody is logged in at: utmp(5), records of 384 bytes.
fn terminals(utmp: &[u8]) -> Vec<&str> {
    const RECORD_BYTES: usize = 384;
    const USER_PROCESS: i16 = 7;
    const LINE: std::ops::Range<usize> = 8..40;
    let line = |record: &'_ [u8]| -> Option<(usize, usize)> {
        let kind = i16::from_le_bytes([record[0], record[1]]);
        let name = &record[LINE];
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let plain = std::str::from_utf8(&name[..end]).is_ok_and(|name| {
            !name.is_empty() && !name.starts_with([':', '/']) && !name.contains("..")
        });
        (kind == USER_PROCESS && plain).then_some((LINE.start, LINE.start + end))
    };
    let records = utmp.chunks_exact(RECORD_BYTES);
    let found = records.filter_map(|record| {
        let (begin, end) = line(record)?;
        std::str::from_utf8(&record[begin..end]).ok()
    });
    found.take(TERMINALS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message as a syslog daemon, the kernel, the console and all terminals get it.
    fn check(fields: &[(&str, &str)], expected: [&str; 4]) {
        let fields: Fields = fields.iter().copied().collect();
        let context = [("_COMM", "sh"), ("_PID", "7")].into_iter().collect();
        let message = Message::of(&fields, &context).expect("it has a text");
        let syslog = message.for_syslog(1_704_447_000_000_000, &TimeZone::UTC);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let console = message.for_console(Some(12_000_345));
        let all = [text(syslog), text(message.for_kmsg()), console, message.for_wall()];
        assert_eq!(all, expected);
    }

    #[test]
    fn messages_are_written_as_their_readers_expect() {
        check(
            &[("MESSAGE", "up")],
            [
                "<14>Jan  5 09:30:00 sh[7]: up",
                "<14>sh[7]: up\n",
                "[   12.000345] sh[7]: up\n",
                "sh[7]: up\r\n",
            ],
        );
        check(
            &[
                ("PRIORITY", "2"),
                ("SYSLOG_FACILITY", "3"),
                ("SYSLOG_IDENTIFIER", "web"),
                ("SYSLOG_PID", "9"),
                ("MESSAGE", "a\nb\x1b[1m\n"),
            ],
            [
                "<26>Jan  5 09:30:00 web[9]: a\nb\x1b[1m\n",
                "<26>web[9]: a b [1m \n",
                "[   12.000345] web[9]: a\nb [1m\n",
                "web[9]: a\r\nb [1m\r\n",
            ],
        );
    }

    #[test]
    fn entries_without_a_text_are_not_forwarded() {
        let fields = [("X", "1")].into_iter().collect();
        assert!(Message::of(&fields, &Fields::new()).is_none());
        assert_eq!(level_of(&fields), LEVEL_DEFAULT);
    }

    #[test]
    fn terminals_of_users_alone() {
        let record = |kind: i16, line: &str| {
            let mut record = vec![0; 384];
            record[..2].copy_from_slice(&kind.to_le_bytes());
            record[8..8 + line.len()].copy_from_slice(line.as_bytes());
            record
        };
        let utmp = [
            record(7, "pts/0"),
            record(8, "pts/1"),
            record(7, ":0"),
            record(7, "../etc/x"),
            record(7, "tty1"),
            vec![7; 100],
        ];
        assert_eq!(terminals(&utmp.concat()), ["pts/0", "tty1"]);
    }
}

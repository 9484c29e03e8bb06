//! Terminals: keys as they are typed, termios(3); and lines on standard error, which may be one.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, Uid, fchmod, fchown, fstat};
use rustix::io::{Errno, write};
use rustix::net::{SendFlags, send};
use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, OutputModes, QueueSelector, Termios,
    isatty, tcflush, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};

use crate::error::{self, Context};
use crate::file::descriptor_path;

/// Bytes that a pipe takes as a whole (pipe(7)).
const PIPE_BUF: usize = 4096;

/// Columns and rows of a terminal; none of what is no terminal, or does not know.
pub fn size(terminal: impl AsFd) -> Option<(u16, u16)> {
    let size = tcgetwinsize(terminal).ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some((size.ws_col, size.ws_row))
}

/// What is done to a terminal that another is to use (systemd.exec(5), "TTYReset=" and its like).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clear {
    /// Who has it open is cut off.
    pub hangup: bool,
    /// Its modes become the usual ones.
    pub reset: bool,
    /// If it is a virtual console, it is given up with what is on its screen.
    pub disallocate: bool,
    /// Lines of it.
    pub rows: Option<u16>,
    /// Characters of a line.
    pub columns: Option<u16>,
}

/// Clears a terminal for whom is to use it next.
///
/// # Errors
/// It cannot be opened, or is no terminal.
pub fn clear(path: &Path, clear: Clear) -> error::Result<()> {
    if clear == Clear::default() {
        return Ok(());
    }
    let terminal = open_terminal(path)?;
    if clear.hangup {
        // SAFETY: a request without an argument, on a live descriptor.
        let done = unsafe { libc::ioctl(terminal.as_raw_fd(), TIOCVHANGUP as _, 0) };
        error::check("ioctl TIOCVHANGUP", done as _)?;
    }
    // That cut us off, too.
    let terminal = if clear.hangup { open_terminal(path)? } else { terminal };
    if clear.reset {
        reset(&terminal)?;
    }
    if clear.rows.is_some() || clear.columns.is_some() {
        set_size(&terminal, clear.rows, clear.columns)?;
    }
    if clear.disallocate {
        disallocate(path);
    }
    Ok(())
}

const TIOCVHANGUP: u32 = 0x5437;
const KDSETMODE: u32 = 0x4b3a;
const KD_TEXT: libc::c_ulong = 0;
const VT_DISALLOCATE: u32 = 0x5608;

fn open_terminal(path: &Path) -> error::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)?;
    match isatty(&terminal) {
        true => Ok(terminal),
        false => Err(error::Error::at("isatty", path, libc::ENOTTY)),
    }
}

/// The modes of a terminal that somebody types at (termios(3), "canonical mode"), and text on its screen.
fn reset(terminal: &OwnedFd) -> error::Result<()> {
    // SAFETY: requests that take no memory, on a live descriptor. What is no virtual console knows none of them.
    unsafe {
        libc::ioctl(terminal.as_raw_fd(), libc::TIOCNXCL as _, 0);
        libc::ioctl(terminal.as_raw_fd(), KDSETMODE as _, KD_TEXT);
    }
    let mut modes = tcgetattr(terminal).call("tcgetattr")?;
    modes.input_modes -= InputModes::IGNBRK
        | InputModes::BRKINT
        | InputModes::ISTRIP
        | InputModes::INLCR
        | InputModes::IGNCR
        | InputModes::IUCLC;
    modes.input_modes |= InputModes::ICRNL | InputModes::IMAXBEL | InputModes::IUTF8;
    modes.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
    modes.control_modes |= ControlModes::CREAD;
    modes.local_modes |= LocalModes::ISIG
        | LocalModes::ICANON
        | LocalModes::IEXTEN
        | LocalModes::ECHO
        | LocalModes::ECHOE
        | LocalModes::ECHOK
        | LocalModes::ECHOCTL
        | LocalModes::ECHOKE;
    modes.local_modes -= LocalModes::TOSTOP;
    tcsetattr(terminal, OptionalActions::Now, &modes).call("tcsetattr")?;
    tcflush(terminal, QueueSelector::IOFlush).call("tcflush")
}

fn set_size(terminal: &OwnedFd, rows: Option<u16>, columns: Option<u16>) -> error::Result<()> {
    let mut size = tcgetwinsize(terminal).call("ioctl TIOCGWINSZ")?;
    size.ws_row = rows.unwrap_or(size.ws_row);
    size.ws_col = columns.unwrap_or(size.ws_col);
    tcsetwinsize(terminal, size).call("ioctl TIOCSWINSZ")
}

/// Gives a virtual console up; where that is not possible, its screen and what scrolled away are cleared.
fn disallocate(path: &Path) {
    let name = path.to_string_lossy();
    let number = name.strip_prefix("/dev/tty").and_then(|n| n.parse::<libc::c_int>().ok());
    let Some(number) = number.filter(|number| (1..=63).contains(number)) else { return };
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if let Ok(console) = rustix::fs::open("/dev/tty0", flags, Mode::empty()) {
        // SAFETY: a request with a number as its argument, on a live descriptor.
        let done = unsafe { libc::ioctl(console.as_raw_fd(), VT_DISALLOCATE as _, number) };
        if done == 0 {
            return;
        }
    }
    // Somebody has it open.
    if let Ok(terminal) = rustix::fs::open(path, flags, Mode::empty()) {
        let _ = write(&terminal, b"\x1b[r\x1b[H\x1b[3J\x1b[2J");
    }
}

/// Makes a terminal root's that belongs to a user. What is no terminal stays as it is; so does what cannot be opened.
pub fn take_back(path: &Path) {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(terminal) = rustix::fs::open(path, flags, Mode::empty()) else { return };
    if isatty(&terminal) && fchown(&terminal, Some(Uid::ROOT), None).is_ok() {
        let _ = fchmod(&terminal, Mode::from_raw_mode(0o620));
    }
}

/// What standard error did not take since it last took a line as a whole.
#[derive(Debug)]
struct Missed {
    /// How many lines.
    lines: AtomicUsize,
    /// Of the last one it has the begin.
    is_cut: AtomicBool,
}

impl Missed {
    const fn new() -> Missed {
        Missed { lines: AtomicUsize::new(0), is_cut: AtomicBool::new(false) }
    }
}

static MISSED: Missed = Missed::new();

/// Writes a line to standard error, as `eprintln!` does, which ends the program if the line cannot be written: a daemon
/// whose standard error is a file on a full disk, or a pipe that nobody reads any more, goes on. For a program whose
/// only way to say something this is; it waits as any write does ([`say`] does not).
#[macro_export]
macro_rules! tell {
    ($($arg:tt)*) => { $crate::terminal::tell(format_args!($($arg)*)) };
}

/// Writes a line to standard error if it can be; `tell!` has it with format arguments.
pub fn tell(text: std::fmt::Arguments<'_>) {
    // One write: others have the same standard error.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{text}\n").as_bytes());
}

/// Writes a line to standard error. What takes nothing at once, or not all of it, as a terminal at which somebody has
/// typed Ctrl-S or a pipe that nobody reads, does not hold up who writes: it misses the line, and is told of it with the
/// next, which begins at the begin of a line.
pub fn say(line: &[u8]) {
    say_to(std::io::stderr().as_fd(), line, &MISSED);
}

fn say_to(output: BorrowedFd<'_>, line: &[u8], missed: &Missed) {
    let before = missed.lines.swap(0, Ordering::Relaxed);
    let was_cut = missed.is_cut.swap(false, Ordering::Relaxed);
    let mut told = if was_cut { b"\n".to_vec() } else { Vec::new() };
    if before > 0 {
        told.extend_from_slice(
            format!("({before} lines lost: the terminal did not take them)\n").as_bytes(),
        );
    }
    told.extend_from_slice(line);
    let taken = match write_now(output, &told) {
        Ok(taken) => taken,
        Err(Errno::AGAIN) => 0,
        // There is nobody who could take it.
        Err(_) => return,
    };
    if taken < told.len() {
        // Who was not told yet how many he missed is told later.
        let untold = if taken + line.len() < told.len() { before } else { 0 };
        missed.lines.fetch_add(untold + 1, Ordering::Relaxed);
        let is_cut = if taken == 0 { was_cut } else { told[taken - 1] != b'\n' };
        missed.is_cut.fetch_or(is_cut, Ordering::Relaxed);
    }
}

/// Writes what is taken at once, and returns how many bytes that were; `EAGAIN` if nothing is. Files take all.
fn write_now(output: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    let kind = FileType::from_raw_mode(fstat(output)?.st_mode);
    if kind == FileType::Socket {
        return send(output, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }
    if kind != FileType::Fifo && !isatty(output) {
        return write_all(output, bytes);
    }
    // Opened anew: the mode of the one that others share is theirs.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::open(descriptor_path(output), flags, Mode::empty()) {
        Ok(own) => write(own, bytes),
        // Of another user, say. A pipe that is ready takes PIPE_BUF bytes without waiting (pipe(7)).
        Err(_) if is_ready(output) => write_all(output, bytes.get(..PIPE_BUF).unwrap_or(bytes)),
        Err(_) => Err(Errno::AGAIN),
    }
}

fn is_ready(output: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&output, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

fn write_all(output: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    let mut written = 0;
    while written < bytes.len() {
        match write(output, &bytes[written..]) {
            Ok(0) => return Err(Errno::IO),
            Ok(more) => written += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(written)
}

/// Opens a terminal, or what stands in for one, to read keys without waiting. It does not become the
/// controlling terminal of the process.
pub fn open_for_keys(path: &Path) -> error::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)
}

/// What a terminal does with keys and output, to be put back later.
#[derive(Debug)]
pub struct Modes(Termios);

/// The modes of a terminal as they are now. `ENOTTY` when it is none.
pub fn modes(terminal: impl AsFd) -> error::Result<Modes> {
    tcgetattr(terminal).call("tcgetattr").map(Modes)
}

impl Modes {
    /// Puts them back. The terminal may be gone, which is fine.
    pub fn restore(&self, terminal: impl AsFd) {
        let _ = tcsetattr(terminal, OptionalActions::Now, &self.0);
    }
}

/// While this lives, the terminal hands out each key at once and shows none. Signals by key
/// still work. What was typed before is dropped: it was for somebody else.
#[derive(Debug)]
pub struct KeyByKey<T: AsFd> {
    terminal: T,
    before: Termios,
}

impl<T: AsFd> KeyByKey<T> {
    /// Changes the terminal's mode. `ENOTTY` when it is none.
    pub fn new(terminal: T) -> error::Result<KeyByKey<T>> {
        let before = tcgetattr(&terminal).call("tcgetattr")?;
        let mut mode = before.clone();
        mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // Nor does Ctrl-S hold up what is written there.
        mode.input_modes.remove(InputModes::IXON);
        tcsetattr(&terminal, OptionalActions::Now, &mode).call("tcsetattr")?;
        // Not together with the mode: that would wait until all output is taken (TCSAFLUSH, termios(3)).
        let keys = KeyByKey { terminal, before };
        tcflush(&keys.terminal, QueueSelector::IFlush).call("tcflush")?;
        Ok(keys)
    }
}

impl<T: AsFd> Drop for KeyByKey<T> {
    fn drop(&mut self) {
        // The terminal may be gone, which is fine.
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::FromRawFd;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::UnixStream;

    /// What `reader` has after more was said to `output` than it takes, once there is room again.
    fn heard(output: OwnedFd, mut reader: impl Read) -> String {
        let missed = Missed::new();
        let say = |line: &str| say_to(output.as_fd(), line.as_bytes(), &missed);
        let mut said = 0;
        while missed.lines.load(Ordering::Relaxed) < 3 {
            say("x\n");
            said += 1;
        }
        let mut room = vec![0; 2 * (said - 3)];
        reader.read_exact(&mut room).expect("it was written");
        assert!(room.chunks(2).all(|line| line == b"x\n"));
        say("next\n");
        say("last\n");
        drop(output);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("it is text");
        rest
    }

    const REST: &str = "(3 lines lost: the terminal did not take them)\nnext\nlast\n";

    #[test]
    fn a_pipe_that_nobody_reads_holds_nobody_up_and_is_told_what_it_missed() {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        assert_eq!(heard(writer.into(), reader), REST);
    }

    #[test]
    fn a_socket_that_nobody_reads_holds_nobody_up_either() {
        let (reader, writer) = UnixStream::pair().expect("a pair");
        assert_eq!(heard(writer.into(), reader), REST);
    }

    #[test]
    fn a_file_takes_all() {
        let path = std::env::temp_dir().join(format!("warren-said-{}", std::process::id()));
        let file = std::fs::File::create(&path).expect("a file");
        let missed = Missed::new();
        missed.lines.store(2, Ordering::Relaxed);
        say_to(file.as_fd(), b"line\n", &missed);
        let text = std::fs::read_to_string(&path).expect("it is there");
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(text, "(2 lines lost: the terminal did not take them)\nline\n");
    }

    #[test]
    fn a_line_that_was_taken_in_part_is_missed_and_the_next_is_a_line_of_its_own() {
        let (mut reader, writer) = std::io::pipe().expect("a pipe");
        let (writer, missed) = (OwnedFd::from(writer), Missed::new());
        let say = |line: &str| say_to(writer.as_fd(), line.as_bytes(), &missed);
        // More than a pipe has room for.
        say(&format!("{}\n", "x".repeat(1 << 20)));
        say("none\n");
        let mut room = [0; 2 * PIPE_BUF];
        reader.read_exact(&mut room).expect("it was written");
        say("next\n");
        say("last\n");
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).expect("it is text");
        let lines = rest.trim_start_matches('x');
        assert_eq!(lines, "\n(2 lines lost: the terminal did not take them)\nnext\nlast\n");
    }

    /// Both ends of a terminal: who types, and who reads (pty(7)).
    fn terminal() -> (OwnedFd, OwnedFd) {
        let (mut types, mut reads) = (-1, -1);
        let (name, mode, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
        // SAFETY: two descriptors are written where it is told, and it is told of nothing else.
        let made = unsafe { libc::openpty(&raw mut types, &raw mut reads, name, mode, size) };
        assert_eq!(made, 0, "a terminal");
        // SAFETY: both were made just now, and nobody else has them.
        unsafe { (OwnedFd::from_raw_fd(types), OwnedFd::from_raw_fd(reads)) }
    }

    #[test]
    fn a_terminal_is_cleared_for_whom_is_next() {
        let (_types, reads) = terminal();
        let path = rustix::termios::ttyname(&reads, Vec::new()).expect("it has a name");
        let path = Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()));
        let mut raw = tcgetattr(&reads).expect("a terminal");
        raw.make_raw();
        tcsetattr(&reads, OptionalActions::Now, &raw).expect("a terminal");
        let size = Clear { reset: true, rows: Some(7), columns: Some(9), ..Clear::default() };
        clear(path, size).expect("it is a terminal");
        let modes = tcgetattr(&reads).expect("a terminal");
        assert!(modes.local_modes.contains(LocalModes::ICANON | LocalModes::ECHO));
        assert_eq!(super::size(&reads), Some((9, 7)));
        clear(path, Clear { hangup: true, ..Clear::default() }).expect("it is a terminal");
        let read = rustix::io::read(&reads, &mut [0; 1]);
        assert!(matches!(read, Ok(0) | Err(Errno::IO)), "it was cut off: {read:?}");
        let none = clear(Path::new("/dev/null"), Clear { reset: true, ..Clear::default() });
        assert_eq!(none.expect_err("no terminal").errno, libc::ENOTTY);
    }

    #[test]
    fn a_terminal_goes_back_to_root() {
        if !rustix::process::geteuid().is_root() {
            return crate::test_not_run("a_terminal_goes_back_to_root", "root");
        }
        let (_types, reads) = terminal();
        let path = rustix::termios::ttyname(&reads, Vec::new()).expect("it has a name");
        let path = Path::new(std::ffi::OsStr::from_bytes(path.as_bytes()));
        fchown(&reads, Some(Uid::from_raw(12345)), None).expect("it is given away");
        fchmod(&reads, Mode::from_raw_mode(0o666)).expect("it is opened to all");
        take_back(path);
        let now = fstat(&reads).expect("it is there");
        assert_eq!((now.st_uid, now.st_mode & 0o777), (0, 0o620));
        let file =
            std::env::temp_dir().join(format!("warren-sys-no-terminal-{}", std::process::id()));
        std::fs::write(&file, "").expect("written");
        let before = std::fs::metadata(&file).expect("it").permissions();
        take_back(&file);
        assert_eq!(std::fs::metadata(&file).expect("it").permissions(), before);
        std::fs::remove_file(&file).expect("it is there");
    }

    #[test]
    fn keys_that_were_typed_before_are_dropped() {
        let (types, reads) = terminal();
        let wait = || poll(&mut [PollFd::new(&reads, PollFlags::IN)], None).expect("poll(2)");
        write(&types, b"s\n").expect("it is typed");
        wait();
        let keys = KeyByKey::new(&reads).expect("a terminal");
        write(&types, b"k").expect("it is typed");
        wait();
        let mut typed = [0; 8];
        let count = rustix::io::read(&reads, &mut typed).expect("a key");
        assert_eq!(&typed[..count], b"k");
        drop(keys);
    }
}

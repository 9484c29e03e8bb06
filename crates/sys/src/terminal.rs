//! Terminals: keys as they are typed, termios(3); and lines on standard error, which may be one.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags, fstat};
use rustix::io::{Errno, write};
use rustix::net::{SendFlags, send};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr,
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

/// Lines that standard error did not take since it last took one.
static MISSED: AtomicUsize = AtomicUsize::new(0);

/// Writes a line to standard error. What takes nothing at once, as a terminal at which somebody has typed Ctrl-S or a
/// pipe that nobody reads, does not hold up who writes: it misses the line, and is told of it with the next.
pub fn say(line: &[u8]) {
    say_to(std::io::stderr().as_fd(), line, &MISSED);
}

fn say_to(output: BorrowedFd<'_>, line: &[u8], missed: &AtomicUsize) {
    let before = missed.swap(0, Ordering::Relaxed);
    let mut told = match before {
        0 => Vec::new(),
        count => format!("(lines that nobody took: {count})\n").into_bytes(),
    };
    told.extend_from_slice(line);
    if write_now(output, &told) == Err(Errno::AGAIN) {
        missed.fetch_add(before + 1, Ordering::Relaxed);
    }
}

/// Writes what is taken at once; `EAGAIN` if nothing is. Files take all.
fn write_now(output: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    let kind = FileType::from_raw_mode(fstat(output)?.st_mode);
    if kind == FileType::Socket {
        return send(output, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map(drop);
    }
    if kind != FileType::Fifo && !isatty(output) {
        return write_all(output, bytes);
    }
    // Opened anew: the mode of the one that others share is theirs.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::open(descriptor_path(output), flags, Mode::empty()) {
        Ok(own) => write(own, bytes).map(drop),
        // Of another user, say. A pipe that is ready takes PIPE_BUF bytes without waiting (pipe(7)).
        Err(_) if is_ready(output) => write_all(output, bytes.get(..PIPE_BUF).unwrap_or(bytes)),
        Err(_) => Err(Errno::AGAIN),
    }
}

fn is_ready(output: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(&output, PollFlags::OUT)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

fn write_all(output: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match write(output, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Opens a terminal, or what stands in for one, to read keys without waiting. It does not become the
/// controlling terminal of the process.
pub fn open_for_keys(path: &Path) -> error::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).call_on("open", path)
}

/// While this lives, the terminal hands out each key at once and shows none. Signals by key
/// still work.
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
        Ok(KeyByKey { terminal, before })
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
    use std::os::unix::net::UnixStream;

    /// What `reader` has after more was said to `output` than it takes, once there is room again.
    fn heard(output: OwnedFd, mut reader: impl Read) -> String {
        let missed = AtomicUsize::new(0);
        let say = |line: &str| say_to(output.as_fd(), line.as_bytes(), &missed);
        let mut said = 0;
        while missed.load(Ordering::Relaxed) < 3 {
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

    const REST: &str = "(lines that nobody took: 3)\nnext\nlast\n";

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
        let missed = AtomicUsize::new(2);
        say_to(file.as_fd(), b"line\n", &missed);
        let text = std::fs::read_to_string(&path).expect("it is there");
        std::fs::remove_file(&path).expect("it is there");
        assert_eq!(text, "(lines that nobody took: 2)\nline\n");
    }
}

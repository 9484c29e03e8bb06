//! The last lines of a unit: from the memory of the log daemon, or from the unit's file while there
//! is no daemon. For the threads that answer clients: the loop never waits for another process.

use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use warren_sys::errno::EAGAIN;

use warren_wire::control::LogCounts;
use warren_wire::frame;
use warren_wire::log::{ANSWER_BYTES_MAX, Answer, Question};

/// Lines that are given.
const LINES: usize = 10;

/// Bytes at the end of a file that are looked at for them.
const FILE_TAIL_BYTES: u64 = 16 << 10;

/// How long the daemon may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tells the last lines of the units of one answer: of all of them the daemon is waited for once.
#[derive(Debug)]
pub struct Tails<'a> {
    socket: &'a Path,
    log_dir: &'a Path,
    is_silent: bool,
}

impl Tails<'_> {
    /// With the daemon behind `socket`, and files in `log_dir`.
    pub fn new<'a>(socket: &'a Path, log_dir: &'a Path) -> Tails<'a> {
        Tails { socket, log_dir, is_silent: false }
    }

    /// The last lines of a unit, oldest first, without what a terminal would act on; none when there
    /// are none or nobody tells.
    pub fn of(&mut self, unit: &str) -> Vec<String> {
        match self.told(unit) {
            Some(lines) if !lines.is_empty() => lines,
            _ => of_file(&self.log_dir.join(format!("{unit}.log"))).unwrap_or_default(),
        }
    }

    fn told(&mut self, unit: &str) -> Option<Vec<String>> {
        if self.is_silent {
            return None;
        }
        // Where its queue is full it has not taken anybody for long.
        let stream = match warren_sys::socket::connect_stream(self.socket.to_str()?) {
            Ok(fd) => UnixStream::from(fd),
            Err(error) => {
                self.is_silent = error.errno == EAGAIN;
                return None;
            }
        };
        let told = ask(&stream, &Question::Tail(unit.to_owned()));
        let is_late = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
        self.is_silent = told.as_ref().is_err_and(is_late);
        match Answer::read(&told.ok()?) {
            Ok(Answer::Lines(lines)) => Some(lines),
            _ => None,
        }
    }
}

/// What the log daemon has counted; none when it does not answer.
pub fn counts(socket: &Path) -> Option<LogCounts> {
    let stream = warren_sys::socket::connect_stream(socket.to_str()?).ok()?;
    match Answer::read(&ask(&stream.into(), &Question::Counts).ok()?) {
        Ok(Answer::Counts(counts)) => Some(counts),
        _ => None,
    }
}

fn ask(mut stream: &UnixStream, question: &Question) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&question.write())?;
    Ok(frame::read(&mut BufReader::new(stream), ANSWER_BYTES_MAX)?)
}

fn of_file(path: &Path) -> std::io::Result<Vec<String>> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(FILE_TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(FILE_TAIL_BYTES).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let last = &lines[lines.len().saturating_sub(LINES)..];
    // The daemon's are clean.
    Ok(last.iter().map(|line| line.chars().map(plain).collect()).collect())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::base::scratch::Scratch;

    /// Who connects to it is in its queue.
    #[test]
    fn a_daemon_that_does_not_answer_is_asked_once_for_one_answer() {
        let scratch = Scratch::new("log-tail-silent");
        let path = scratch.0.join("socket");
        let daemon = UnixListener::bind(&path).expect("it listens");
        std::fs::write(scratch.0.join("a.service.log"), "from a file\n").expect("it is written");
        let mut tails = Tails::new(&path, &scratch.0);
        for _ in 0..3 {
            assert_eq!(tails.of("a.service"), ["from a file"]);
        }
        assert!(tails.is_silent);
        daemon.set_nonblocking(true).expect("fcntl");
        let asked = std::iter::from_fn(|| daemon.accept().ok()).count();
        assert_eq!(asked, 1);
    }

    #[test]
    fn last_lines_of_a_file_have_nothing_that_a_terminal_acts_on() {
        let scratch = Scratch::new("log-tail");
        let path = scratch.0.join("a.service.log");
        std::fs::write(&path, "one\n\x1b[2Jtwo\x07\n").expect("it is written");
        assert_eq!(of_file(&path).expect("it is there"), ["one", " [2Jtwo "]);
    }
}

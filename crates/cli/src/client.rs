//! Talking to the manager: messages of [`warren_wire::control`] over a Unix socket.

use std::fmt;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use warren_sys::fdpass::wait_readable;
use warren_sys::socket::{connect_stream, connect_stream_within};
use warren_wire::control::{
    ANSWER_BYTES_MAX, Call, Done, ErrorName, Reply, ReplyError, Totals, write_request,
};
use warren_wire::frame::{self, ReadError};

use crate::output::clean_lines;

/// Why a call did not succeed.
#[derive(Debug)]
pub enum CallError {
    /// Nobody listens at the socket.
    NoManager(PathBuf, std::io::Error),
    /// The connection broke, or the answer is no JSON.
    Broken(std::io::Error),
    /// The connection was closed before an answer came.
    Ended,
    /// The manager said no: the error's name and its text, fit for a terminal.
    Refused(ErrorName, String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::NoManager(path, e) => {
                write!(f, "no manager answers at {}: {e}", path.display())
            }
            CallError::Broken(e) if e.kind() == ErrorKind::WouldBlock => {
                f.write_str("the manager does not respond")
            }
            CallError::Broken(e) => write!(f, "the manager's answer cannot be read: {e}"),
            CallError::Ended => f.write_str("the manager ended before it answered"),
            CallError::Refused(ErrorName::MethodNotFound, text) => {
                let method = text.rsplit('.').next().unwrap_or_default();
                write!(f, "the running manager is of another version and does not support {method}")
            }
            CallError::Refused(_, text) => f.write_str(text),
        }
    }
}

impl std::error::Error for CallError {}

impl CallError {
    /// Nobody listens at the socket any more.
    pub fn is_nobody(&self) -> bool {
        matches!(self, CallError::NoManager(_, e) if e.kind() != ErrorKind::WouldBlock)
    }

    /// The manager ended over the call.
    pub fn is_end(&self) -> bool {
        match self {
            CallError::Ended => true,
            CallError::Broken(e) => is_unheard(e),
            _ => false,
        }
    }

    /// The unit does not exist.
    pub fn is_no_such_unit(&self) -> bool {
        matches!(self, CallError::Refused(ErrorName::NoSuchUnit, _))
    }

    /// The unit has no process that the signal was for.
    pub fn is_no_such_process(&self) -> bool {
        matches!(self, CallError::Refused(ErrorName::NoSuchProcess, _))
    }
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
    /// How long it waits for an answer; for ever if nothing is said.
    within: Option<Duration>,
    /// While an answer takes long, the manager is asked whether it answers at all.
    is_watchful: bool,
}

/// How long an answer may take before the manager is asked for something that it has at hand, and how long that may
/// take: a user knows after 5 s that no answer will come.
const QUIET_MAX: Duration = Duration::from_secs(2);
const AT_HAND_MAX: Duration = Duration::from_secs(3);

impl Client {
    /// Connects to the control socket at `path`.
    pub fn connect(path: &Path) -> Result<Client, CallError> {
        let path = path.to_owned();
        match connect_within(&path, QUIET_MAX + AT_HAND_MAX) {
            Ok(stream) => {
                let stream = BufReader::new(stream);
                Ok(Client { path, stream, within: None, is_watchful: false })
            }
            Err(e) => Err(CallError::NoManager(path, e)),
        }
    }

    /// Connects without waiting: the queue of a stopped manager may be full.
    pub fn connect_at_once(path: &Path) -> Result<Client, CallError> {
        let path = path.to_owned();
        let stream = BufReader::new(connect_now(&path)?);
        Ok(Client { path, stream, within: None, is_watchful: false })
    }

    /// Has calls fail while the manager answers nothing at all. What takes its time, as a job, may take it.
    pub fn be_watchful(&mut self) {
        self.is_watchful = true;
        self.set_times();
    }

    /// A request that is larger than the socket's buffers waits for its reader as well. Where the kernel takes no times,
    /// it waits for ever.
    fn set_times(&self) {
        if self.is_watchful {
            let _ = self.stream.get_ref().set_write_timeout(Some(QUIET_MAX + AT_HAND_MAX));
        }
    }

    /// Has calls fail to which no answer comes in that time, also when it has connected again.
    ///
    /// # Errors
    /// As setsockopt(2).
    pub fn answers_within(&mut self, time: Duration) -> std::io::Result<()> {
        self.within = Some(time);
        self.stream.get_ref().set_read_timeout(Some(time))?;
        self.stream.get_ref().set_write_timeout(Some(time))
    }

    /// Connects anew, to a manager that came back. Waits for nobody: of one that has stopped the queue may be
    /// full.
    pub fn connect_again(&mut self) -> Result<(), CallError> {
        self.stream = BufReader::new(connect_now(&self.path)?);
        self.set_times();
        self.within.map_or(Ok(()), |time| self.answers_within(time)).map_err(CallError::Broken)
    }

    /// Calls a method that has one answer.
    pub fn call<C: Call>(&mut self, call: &C) -> Result<C::Answer, CallError> {
        self.call_as(call)
    }

    /// Reads the answer into another type than the method's: as JSON it has what a newer manager says beside that.
    pub fn call_as<C: Call, A: DeserializeOwned>(&mut self, call: &C) -> Result<A, CallError> {
        Ok(self.ask(&write_request(call, false))?.0)
    }

    /// Calls a method that has several answers: `take` gets all but the last, which is empty.
    pub fn call_more<C: Call>(
        &mut self,
        call: &C,
        mut take: impl FnMut(C::Answer),
    ) -> Result<Done, CallError> {
        let (mut answer, mut continues) = self.ask(&write_request(call, true))?;
        while continues {
            take(answer);
            (answer, continues) = self.receive()?;
        }
        Ok(Done {})
    }

    /// Sends a request and takes the first answer. A manager that ended before it read the request has done nothing
    /// for it: then the next one is asked.
    fn ask<A: DeserializeOwned>(&mut self, request: &[u8]) -> Result<(A, bool), CallError> {
        match self.send(request).and_then(|()| self.receive_first()) {
            Err(CallError::Broken(e)) if is_unheard(&e) && self.connect_again().is_ok() => {
                self.send(request)?;
                self.receive_first()
            }
            other => other,
        }
    }

    fn receive_first<A: DeserializeOwned>(&mut self) -> Result<(A, bool), CallError> {
        let comes = |time| wait_readable(self.stream.get_ref().as_fd(), time).unwrap_or(true);
        if self.is_watchful
            && !comes(QUIET_MAX)
            && !answers(&self.path, AT_HAND_MAX)
            && !comes(Duration::ZERO)
        {
            return Err(CallError::Broken(ErrorKind::WouldBlock.into()));
        }
        self.receive()
    }

    fn send(&mut self, request: &[u8]) -> Result<(), CallError> {
        self.stream.get_mut().write_all(request).map_err(CallError::Broken)
    }

    /// An answer, and whether another one follows.
    fn receive<A: DeserializeOwned>(&mut self) -> Result<(A, bool), CallError> {
        let message = frame::read(&mut self.stream, ANSWER_BYTES_MAX).map_err(unread)?;
        match Reply::read(&message) {
            Ok(Reply::Answer { answer, continues }) => Ok((answer, continues)),
            Ok(Reply::Refused { error, message }) => {
                Err(CallError::Refused(error, clean_lines(&message)))
            }
            Err(ReplyError::Malformed(error)) => Err(CallError::Broken(error.into())),
            Err(ReplyError::NoParameters) => {
                Err(CallError::Broken(std::io::Error::other("it takes no parameters")))
            }
        }
    }

    /// Returns when the manager has closed the connection.
    pub fn wait_for_end(&mut self) {
        // Nothing was asked, so nothing but the end can come.
        let _ = self.stream.read(&mut [0]);
    }
}

/// Connects, or fails at once.
fn connect_now(path: &Path) -> Result<UnixStream, CallError> {
    let no_manager = |error| CallError::NoManager(path.to_owned(), error);
    let text = path.to_str().ok_or_else(|| no_manager(ErrorKind::InvalidInput.into()))?;
    let stream = connect_stream(text).map(UnixStream::from);
    stream.map_err(|error| no_manager(std::io::Error::from_raw_os_error(error.errno)))
}

/// Connects; waits so long where the queue is full.
fn connect_within(path: &Path, time: Duration) -> std::io::Result<UnixStream> {
    let text = path.to_str().ok_or(ErrorKind::InvalidInput)?;
    let stream = connect_stream_within(text, time);
    stream.map(UnixStream::from).map_err(|error| std::io::Error::from_raw_os_error(error.errno))
}

/// Whether the manager answers in that time to what it has at hand.
fn answers(path: &Path, time: Duration) -> bool {
    let end = Instant::now() + time;
    let Ok(stream) = connect_within(path, time) else { return false };
    let sent = (&stream).write_all(&write_request(&Totals {}, false));
    let left = end.saturating_duration_since(Instant::now());
    sent.is_ok() && wait_readable(stream.as_fd(), left).unwrap_or(true)
}

/// What the kernel says of a connection whose other end was closed with something unread in it, or before that was
/// sent.
fn is_unheard(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

fn unread(error: ReadError) -> CallError {
    match error {
        ReadError::Ended => CallError::Ended,
        ReadError::Failed { error, has_begun } if !(has_begun && is_unheard(&error)) => {
            CallError::Broken(error)
        }
        _ => CallError::Broken(std::io::Error::other("it is cut short")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;

    use warren_sys::fdpass;
    use warren_wire::control::{Job, List, Texts, Totals};

    use super::*;

    #[test]
    fn who_was_not_heard_by_a_manager_that_ended_asks_the_next_one() {
        let path = std::env::temp_dir().join(format!("warren-client-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket can be made");
        let mut client = Client::connect(&path).expect("it listens");
        let managers = std::thread::spawn(move || {
            let take = || BufReader::new(listener.accept().expect("the client comes").0);
            let hear = |stream: &mut BufReader<UnixStream>| {
                let mut request = Vec::new();
                stream.read_until(0, &mut request).expect("it asks");
            };
            // The first one ends when a byte is there.
            let first = take();
            let heard = fdpass::wait_readable(first.get_ref().as_fd(), Duration::from_secs(20));
            assert_eq!(heard, Ok(true));
            drop(first);
            let mut second = take();
            hear(&mut second);
            second.get_mut().write_all(b"{\"parameters\": {\"jobs\": 2}}\0").expect("it reads");
            // What it was asked next it has heard.
            hear(&mut second);
        });
        assert_eq!(client.call(&Totals {}).expect("an answer").jobs, 2);
        assert!(matches!(client.call(&Job::default()), Err(CallError::Ended)));
        managers.join().expect("all came");
        let _ = std::fs::remove_file(&path);
    }

    fn listening(name: &str) -> (PathBuf, UnixListener) {
        let path = std::env::temp_dir().join(format!("warren-{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).expect("a socket");
        (path, listener)
    }

    /// A manager that has stopped: who asks it is not left to wait.
    #[test]
    fn a_manager_that_answers_nothing_is_said_not_to_respond() {
        let (path, listener) = listening("client-silent");
        let mut client = Client::connect(&path).expect("it listens");
        client.be_watchful();
        let error = client.call(&Totals {}).expect_err("nobody answers");
        assert_eq!(error.to_string(), "the manager does not respond");
        drop(listener);
        let _ = std::fs::remove_file(&path);
    }

    /// A request with many names is larger than what the kernel keeps of it.
    #[test]
    fn a_manager_that_reads_nothing_is_said_not_to_respond() {
        let (path, listener) = listening("client-unread");
        let mut client = Client::connect(&path).expect("it listens");
        client.be_watchful();
        let patterns = Texts(vec!["x".repeat(8 << 20)]);
        let request = List { patterns, ..List::default() };
        let error = client.call(&request).expect_err("the manager reads nothing");
        assert_eq!(error.to_string(), "the manager does not respond");
        drop(listener);
        let _ = std::fs::remove_file(&path);
    }

    /// What takes long is waited for as long as the manager answers others.
    #[test]
    fn a_manager_that_answers_others_is_waited_for() {
        let (path, listener) = listening("client-slow");
        let mut client = Client::connect(&path).expect("it listens");
        client.be_watchful();
        let manager = std::thread::spawn(move || {
            let (mut slow, _) = listener.accept().expect("the client comes");
            let (mut quick, _) = listener.accept().expect("it asks for something else");
            quick.write_all(b"{\"parameters\": {}}\0").expect("it reads");
            slow.write_all(b"{\"parameters\": {\"jobs\": 3}}\0").expect("it reads");
        });
        assert_eq!(client.call(&Totals {}).expect("an answer").jobs, 3);
        manager.join().expect("all came");
        let _ = std::fs::remove_file(&path);
    }
}

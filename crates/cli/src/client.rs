//! Talking to the manager: JSON objects over a Unix socket, each ended by a NUL byte.

use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use warren_sys::socket::connect_stream;

use crate::output::clean_lines;

/// Largest answer that is read, in bytes: 40,000 units listed are about 8 MB.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Name of the error for a unit that does not exist.
pub const NO_SUCH_UNIT: &str = "io.warrener.NoSuchUnit";

/// Name of the error for a signal to a process that a unit does not have.
const NO_SUCH_PROCESS: &str = "io.warrener.NoSuchProcess";

/// Name of the error for a method that the manager does not have.
const METHOD_NOT_FOUND: &str = "org.varlink.service.MethodNotFound";

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
    Refused(String, String),
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
            CallError::Refused(name, text) if name == METHOD_NOT_FOUND => {
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
        matches!(self, CallError::Refused(name, _) if name == NO_SUCH_UNIT)
    }

    /// The unit has no process that the signal was for.
    pub fn is_no_such_process(&self) -> bool {
        matches!(self, CallError::Refused(name, _) if name == NO_SUCH_PROCESS)
    }
}

/// One answer.
struct Received {
    parameters: Value,
    /// More follow.
    continues: bool,
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
    /// How long it waits for an answer; for ever if nothing is said.
    within: Option<Duration>,
}

impl Client {
    /// Connects to the control socket at `path`.
    pub fn connect(path: &Path) -> Result<Client, CallError> {
        let path = path.to_owned();
        match UnixStream::connect(&path) {
            Ok(stream) => Ok(Client { path, stream: BufReader::new(stream), within: None }),
            Err(e) => Err(CallError::NoManager(path, e)),
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
        let no_manager = |error| CallError::NoManager(self.path.clone(), error);
        let path = self.path.to_str().ok_or_else(|| no_manager(ErrorKind::InvalidInput.into()))?;
        let stream = connect_stream(path)
            .map_err(|error| no_manager(std::io::Error::from_raw_os_error(error.errno)))?;
        self.stream = BufReader::new(stream.into());
        self.within.map_or(Ok(()), |time| self.answers_within(time)).map_err(CallError::Broken)
    }

    /// Calls a method of `io.warrener.Manager` and returns the parameters of its answer.
    pub fn call(&mut self, method: &str, parameters: Value) -> Result<Value, CallError> {
        Ok(self.ask(&json!({"method": full_name(method), "parameters": parameters}))?.parameters)
    }

    /// The same for a method with several answers: `take` gets all but the last.
    pub fn call_more(
        &mut self,
        method: &str,
        parameters: Value,
        mut take: impl FnMut(Value),
    ) -> Result<Value, CallError> {
        let request = json!({"method": full_name(method), "parameters": parameters, "more": true});
        let mut answer = self.ask(&request)?;
        while answer.continues {
            take(answer.parameters);
            answer = self.receive()?;
        }
        Ok(answer.parameters)
    }

    /// Sends a request and takes the first answer. A manager that ended before it read the request has done nothing
    /// for it: then the next one is asked.
    fn ask(&mut self, request: &Value) -> Result<Received, CallError> {
        match self.send(request).and_then(|()| self.receive()) {
            Err(CallError::Broken(e)) if is_unheard(&e) && self.connect_again().is_ok() => {
                self.send(request)?;
                self.receive()
            }
            other => other,
        }
    }

    fn send(&mut self, request: &Value) -> Result<(), CallError> {
        let mut bytes = request.to_string().into_bytes();
        bytes.push(0);
        self.stream.get_mut().write_all(&bytes).map_err(CallError::Broken)
    }

    fn receive(&mut self) -> Result<Received, CallError> {
        let mut answer = Vec::new();
        let mut limited = self.stream.by_ref().take(ANSWER_BYTES_MAX);
        match limited.read_until(0, &mut answer) {
            Err(e) if is_unheard(&e) && !answer.is_empty() => return Err(cut_short(&answer)),
            read => read.map_err(CallError::Broken)?,
        };
        answer.pop_if(|last| *last == 0).ok_or_else(|| cut_short(&answer))?;
        let mut answer: Value =
            serde_json::from_slice(&answer).map_err(|e| CallError::Broken(e.into()))?;
        match answer["error"].as_str() {
            None if !answer["parameters"].is_object() => {
                Err(CallError::Broken(std::io::Error::other("it has no parameters")))
            }
            None => Ok(Received {
                parameters: answer["parameters"].take(),
                continues: answer["continues"].as_bool().unwrap_or(false),
            }),
            Some(name) => {
                let message = answer["parameters"]["message"].as_str().unwrap_or(name);
                Err(CallError::Refused(name.to_owned(), clean_lines(message)))
            }
        }
    }

    /// Returns when the manager has closed the connection.
    pub fn wait_for_end(&mut self) {
        // Nothing was asked, so nothing but the end can come.
        let _ = self.stream.read(&mut [0]);
    }
}

/// What the kernel says of a connection whose other end was closed with something unread in it, or before that was
/// sent.
fn is_unheard(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
}

fn full_name(method: &str) -> String {
    format!("io.warrener.Manager.{method}")
}

fn cut_short(answer: &[u8]) -> CallError {
    match answer {
        [] => CallError::Ended,
        _ => CallError::Broken(std::io::Error::other("it is cut short")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixListener;

    use warren_sys::fdpass;

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
            second.get_mut().write_all(b"{\"parameters\": {\"is\": 2}}\0").expect("it reads");
            // What it was asked next it has heard.
            hear(&mut second);
        });
        assert_eq!(client.call("Totals", json!({})).expect("an answer")["is"], 2);
        assert!(matches!(client.call("Job", json!({})), Err(CallError::Ended)));
        managers.join().expect("all came");
        let _ = std::fs::remove_file(&path);
    }
}

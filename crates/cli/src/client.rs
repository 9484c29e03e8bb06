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
                f.write_str("the manager does not answer")
            }
            CallError::Broken(e) => write!(f, "the manager's answer cannot be read: {e}"),
            CallError::Ended => f.write_str("the manager ended before it answered"),
            CallError::Refused(name, text) if name == METHOD_NOT_FOUND => {
                let method = text.rsplit('.').next().unwrap_or_default();
                write!(f, "the manager that runs does not know {method}: it is of another version")
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
            CallError::Broken(e) => {
                matches!(e.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe)
            }
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
        self.send(&json!({"method": full_name(method), "parameters": parameters}))?;
        Ok(self.receive()?.parameters)
    }

    /// The same for a method with several answers: `take` gets all but the last.
    pub fn call_more(
        &mut self,
        method: &str,
        parameters: Value,
        mut take: impl FnMut(Value),
    ) -> Result<Value, CallError> {
        self.send(&json!({"method": full_name(method), "parameters": parameters, "more": true}))?;
        loop {
            let answer = self.receive()?;
            if !answer.continues {
                return Ok(answer.parameters);
            }
            take(answer.parameters);
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
        limited.read_until(0, &mut answer).map_err(CallError::Broken)?;
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

fn full_name(method: &str) -> String {
    format!("io.warrener.Manager.{method}")
}

fn cut_short(answer: &[u8]) -> CallError {
    match answer {
        [] => CallError::Ended,
        _ => CallError::Broken(std::io::Error::other("it is cut short")),
    }
}

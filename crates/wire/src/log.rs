//! What the log daemon is asked over its control socket, by the manager, by `warren logs`, and by systemd's journalctl
//! under systemd's names.
//!
//! - Owns: questions and answers. One question for a connection.
//! - Must not: decide what a daemon does for an order.
//! - Runs on the thread of its caller.

use serde::{Deserialize, Serialize};

use crate::call::{self, Envelope, Received, Words};
use crate::control::{ErrorName, LogCounts};

/// Version of this language.
pub const VERSION: u32 = 1;

/// Longest question, bytes.
pub const QUESTION_BYTES_MAX: usize = 4096;

/// Largest answer, bytes: it has room in an empty socket.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Begins the name of every method: ours, and what `journalctl --sync` and its like say.
const INTERFACES: [&str; 2] = ["io.warrener.Journal.", "io.systemd.Journal."];

/// Name of the error for an order that could not be carried out.
const FAILED: &str = "io.warrener.Journal.Failed";

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The last lines of this unit, from memory.
    Tail(String),
    /// How much came, and how much of it is not in the log.
    Counts,
    /// Something to do, which is answered when it is done.
    Order(Order),
    /// A method that there is not.
    Unknown(String),
}

/// What the daemon can be asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Put everything into files.
    Write,
    /// Put everything on the device.
    Synchronize,
    /// Close all files and begin new ones.
    Rotate {
        /// And seal those that were closed.
        sealed: bool,
    },
    /// Go from memory to the disk.
    FlushToVar,
    /// Go from the disk to memory.
    RelinquishVar {
        /// Unless that disk is never unmounted.
        smart: bool,
    },
}

/// Parameters of all methods.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Parameters {
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sealed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    smart: Option<bool>,
}

impl Question {
    /// The question as a message, under our name.
    pub fn write(&self) -> Vec<u8> {
        let mut parameters = Parameters::default();
        let name = match self {
            Question::Tail(unit) => {
                parameters.unit = Some(unit.clone());
                "Tail"
            }
            Question::Counts => "Counts",
            Question::Order(Order::Write) => "Write",
            Question::Order(Order::Synchronize) => "Synchronize",
            Question::Order(Order::Rotate { sealed }) => {
                parameters.sealed = Some(*sealed);
                "Rotate"
            }
            Question::Order(Order::FlushToVar) => "FlushToVar",
            Question::Order(Order::RelinquishVar { smart }) => {
                parameters.smart = Some(*smart);
                "RelinquishVar"
            }
            Question::Unknown(method) => return call::write_request(method, &parameters, false),
        };
        call::write_request(&format!("{}{name}", INTERFACES[0]), &parameters, false)
    }

    /// Reads a message under either name. Parameters of another type than is meant count as left out.
    pub fn read(message: &[u8]) -> Question {
        let Ok(Received { method, parameters, .. }) = Received::read(message) else {
            return Question::Unknown(String::new());
        };
        let name = INTERFACES.into_iter().find_map(|interface| method.strip_prefix(interface));
        let parameters: Parameters = serde_json::from_value(parameters).unwrap_or_default();
        Question::Order(match name {
            Some("Tail") => return Question::Tail(parameters.unit.unwrap_or_default()),
            Some("Counts") => return Question::Counts,
            Some("Write") => Order::Write,
            Some("Synchronize") => Order::Synchronize,
            Some("Rotate") => Order::Rotate { sealed: parameters.sealed.unwrap_or(false) },
            Some("FlushToVar") => Order::FlushToVar,
            Some("RelinquishVar") => {
                Order::RelinquishVar { smart: parameters.smart.unwrap_or(false) }
            }
            _ => return Question::Unknown(method),
        })
    }
}

/// What the daemon answers.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// The last lines of a unit, the oldest first, as `journalctl` prints them.
    Lines(Vec<String>),
    /// What is counted.
    Counts(LogCounts),
    /// The order is carried out.
    Done,
    /// It is not: why, for people.
    Failed(String),
    /// There is no such method.
    Unknown(String),
}

/// Lines of a unit, or counts; neither in what answers an order.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Lines {
    #[serde(skip_serializing_if = "Option::is_none")]
    lines: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<LogCounts>,
}

impl Answer {
    /// The answer as a message.
    pub fn write(&self) -> Vec<u8> {
        let (lines, counts) = match self {
            Answer::Lines(lines) => (Some(lines.clone()), None),
            Answer::Counts(counts) => (None, Some(counts.clone())),
            Answer::Done => (None, None),
            Answer::Failed(message) => return call::write_error(FAILED, &Words::message(message)),
            Answer::Unknown(method) => {
                let words = Words { message: None, method: Some(method.clone()) };
                return call::write_error(ErrorName::MethodNotFound.as_str(), &words);
            }
        };
        call::write_answer(&Lines { lines, counts }, false)
    }

    /// Reads a message. An error of any name says that the order is not carried out.
    ///
    /// # Errors
    /// Where it is no JSON.
    pub fn read(message: &[u8]) -> Result<Answer, serde_json::Error> {
        let envelope = Envelope::read(message)?;
        let words = envelope.words();
        Ok(match (envelope.error, words.method) {
            (Some(error), Some(method)) if error == ErrorName::MethodNotFound.as_str() => {
                Answer::Unknown(method)
            }
            (Some(error), _) => Answer::Failed(words.message.unwrap_or(error)),
            (None, _) => {
                let parameters = envelope.parameters.map_or("{}", |parameters| parameters.get());
                let Lines { lines, counts } = serde_json::from_str(parameters)?;
                let lines = lines.map(Answer::Lines);
                lines.or(counts.map(Answer::Counts)).unwrap_or(Answer::Done)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_of_systemds_journalctl_are_understood() {
        let read = |message: &str| Question::read(message.as_bytes());
        let smart =
            r#"{"method": "io.systemd.Journal.RelinquishVar", "parameters": {"smart": true}}"#;
        assert_eq!(read(smart), Question::Order(Order::RelinquishVar { smart: true }));
        for parameters in ["", r#", "parameters": null"#, r#", "parameters": {"later": 1}"#] {
            let rotate = format!("{{\"method\": \"io.systemd.Journal.Rotate\"{parameters}}}");
            assert_eq!(read(&rotate), Question::Order(Order::Rotate { sealed: false }), "{rotate}");
        }
        let unknown = |method: &str| Question::Unknown(method.to_owned());
        assert_eq!(
            read(r#"{"method": "io.warrener.Journal.Sing"}"#),
            unknown("io.warrener.Journal.Sing")
        );
        for rubbish in ["", "{", "[]", "{}", r#"{"method": 5}"#] {
            assert_eq!(read(rubbish), unknown(""), "{rubbish}");
        }
    }

    #[test]
    fn errors_of_any_name_are_failures() {
        let read = |message: &str| Answer::read(message.as_bytes()).ok();
        let failed = |text: &str| Some(Answer::Failed(text.to_owned()));
        assert_eq!(read(r#"{"error": "x.Y", "parameters": {"message": "no"}}"#), failed("no"));
        assert_eq!(read(r#"{"error": "x.Y", "parameters": {}}"#), failed("x.Y"));
        assert_eq!(read(r#"{"error": "x.Y"}"#), failed("x.Y"));
        assert_eq!(read(r#"{"parameters": {"later": 1}}"#), Some(Answer::Done));
        assert_eq!(read("{}"), Some(Answer::Done));
        assert_eq!(read(r#"{"parameters": {"lines": 5}}"#), None);
        assert_eq!(read("{"), None);
    }
}

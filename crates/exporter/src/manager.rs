//! Asks the manager. It answers from its published view: nothing here waits for its loop.

use std::io::{BufReader, Error, ErrorKind, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use warren_trace::analysis::Analysis;
use warren_wire::control::{Call, Metrics, MetricsAnswer, Record, Reply, Texts, write_request};
use warren_wire::frame;

use crate::options::Options;

/// How long the manager may take for an answer. It waits for the log daemon a second at most.
const PATIENCE: Duration = Duration::from_secs(3);

/// Largest answer that is read, in bytes. 4,000 units with a row each are less than 1 MB.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Largest recording that is read, in bytes.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// Who asks, and what.
#[derive(Debug)]
pub struct Manager {
    control: PathBuf,
    question: Metrics,
    /// The last recording of a shutdown that was looked at, and how long it took, in µs: neither changes.
    shutdown: Option<(String, Option<u64>)>,
}

impl Manager {
    /// Asks for what the options say.
    pub fn new(options: &Options) -> Manager {
        let question = Metrics {
            units: Texts(options.units.clone()),
            units_max: options.units_max.into(),
            timers_max: options.timers.into(),
        };
        Manager { control: options.control.clone(), question, shutdown: None }
    }

    /// What it tells.
    ///
    /// # Errors
    /// When nobody answers, or the answer is none.
    pub fn ask(&self) -> Result<MetricsAnswer> {
        self.call(&self.question, ANSWER_BYTES_MAX)
    }

    /// How long the shutdown took of which this is the recording, in µs; none if that cannot be said.
    pub fn shutdown_us(&mut self, record: &str) -> Option<u64> {
        if self.shutdown.as_ref().is_none_or(|(known, _)| known != record) {
            self.shutdown = Some((record.to_owned(), self.read_shutdown(record)));
        }
        self.shutdown.as_ref().and_then(|(_, took_us)| *took_us)
    }

    fn read_shutdown(&self, record: &str) -> Option<u64> {
        let question = Record { name: Some(record.to_owned()), ..Record::default() };
        let answer = self.call(&question, RECORD_BYTES_MAX).ok()?;
        let bytes = STANDARD.decode(answer.data).ok()?;
        let read = warren_trace::record::read(&bytes).ok()?;
        Some(Analysis::of_file(&read).path.parts.total_us())
    }

    fn call<C: Call>(&self, question: &C, bytes_max: usize) -> Result<C::Answer> {
        let path = self.control.to_str().ok_or(ErrorKind::InvalidInput)?;
        let stream = warren_sys::socket::connect_stream_within(path, PATIENCE)
            .map_err(|error| Error::from_raw_os_error(error.errno))?;
        let mut stream = UnixStream::from(stream);
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        stream.write_all(&write_request(question, false))?;
        let message = frame::read(&mut BufReader::new(stream), bytes_max)?;
        match Reply::read(&message) {
            Ok(Reply::Answer { answer, .. }) => Ok(answer),
            Ok(Reply::Refused { message, .. }) => Err(Error::other(message)),
            Err(_) => Err(ErrorKind::InvalidData.into()),
        }
    }
}

//! The log to a receiver over HTTP: warren-journal-upload, in the protocol of
//! systemd-journal-upload(8), which systemd-journal-remote and others take, to Loki, or by OTLP.
//!
//! It reads the log's files like any reader, so the log daemon never waits for it. Entries go out in
//! batches in the Journal Export Format, each a request of its own; what the receiver has said it has
//! is kept in `state`. After a failure it ends, and goes on behind the last batch that was
//! answered when it is started again: an entry comes at least once, and twice only when an answer was
//! lost. A batch that the receiver refuses as too large or bad is sent by halves; a single entry that it refuses while it
//! takes others is left out, and that is said. Batches are compressed once the receiver says that it takes it.
//!
//! To `https:` it speaks TLS ([`crate::tls`]).
//!
//! A receiver that is not there, or that asks to be left alone for a while (429, 502, 503, 504), is tried again as often as
//! [`Options::retries`] says, later each time. Nothing of the log is read meanwhile.

mod batch;
pub mod client;
mod collector;
mod retry;
mod state;
pub mod url;

use std::io::ErrorKind;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use rustls::ClientConfig;

use crate::tls::renewed::Renewed;
use crate::upload::batch::{Batch, halves};
use crate::upload::client::{Answer, Client, Headers};
use crate::upload::collector::{Collector, Kind};
use crate::upload::retry::Retries;
use crate::upload::url::{Target, Url};
pub use warren_log_show::Failure;
use warren_log_show::ask;
use warren_log_show::format::{Mode, Printer};
use warren_log_show::reading::{Also, Go, Reading, Sink};
use warren_log_show::{Args, stores};
use warren_log_store::entry::Entry;
use warren_log_store::query::{Cursor, Direction, Query};

/// Statuses of a receiver that does not take what it was sent, whoever sends it: there is something wrong with an entry,
/// or they are too much at a time.
const BAD_REQUEST: u16 = 400;
const TOO_LARGE: u16 = 413;

/// Most entries in a row that a receiver refuses before it is the receiver that is wrong.
const REFUSED_MAX: usize = 16;

/// How hard batches are compressed: text shrinks ten times in some milliseconds.
const ZSTD_LEVEL: i32 = 3;

/// Most of a refusal's text that is said, characters.
const TEXT_CHARS_MAX: usize = 200;

/// Whether to compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Once the receiver says that it takes it.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How to run.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is read, in the options of the command.
    pub args: Args,
    /// To whom.
    pub url: Url,
    /// Where to begin, and whether with that very entry, if no state says it.
    pub cursor: Option<(Cursor, bool)>,
    /// Where the last cursor is kept.
    pub state: Option<PathBuf>,
    /// Go on with what comes.
    pub follow: bool,
    /// Whether to compress.
    pub compression: Compression,
    /// Which receivers are taken over TLS, and what is shown to them.
    pub tls: Option<Arc<Renewed<ClientConfig>>>,
    /// What the receiver takes.
    pub target: Target,
    /// The unit is a label.
    pub labels_units: bool,
    /// Fields of the head of each request, such as a token.
    pub headers: Headers,
    /// How often a request is sent again before the program gives up.
    pub retries: u32,
    /// How long the receiver may take nothing, or not answer.
    pub timeout: Duration,
}

/// Sends what there is, and what comes.
///
/// # Errors
/// When the log cannot be read, or the receiver cannot be reached or refuses.
pub fn run(options: Options) -> Result<(), Failure> {
    let Options { args, url, cursor, state, follow, compression, .. } = options;
    let collector = match options.target {
        Target::Journal => None,
        Target::Loki => Some(Collector::new(Kind::Loki, options.labels_units)),
        Target::Otlp => Some(Collector::new(Kind::Otlp, options.labels_units)),
    };
    if args.directory.is_none() && args.file.is_empty() {
        ask::write(&args);
    }
    let kept = state.as_deref().map(state::read).transpose()?.flatten();
    let begin = kept.map(|cursor| (cursor, false)).or(cursor);
    let mut reading = Reading::of(&args, stores::open(&args)?)?;
    if follow || state.is_some() {
        reading.keep_to_settled()?;
    }
    let journal = reading.journal();
    let positions = match begin {
        None => journal.anywhere(),
        Some((cursor, inclusive)) => journal.seek(&cursor, Direction::Forward, inclusive)?,
    };
    let mut client = Client::new(url, options.tls, options.headers, collector.is_some());
    client.answers_within(options.timeout);
    let retries = Retries::new(options.retries);
    let mut upload = Upload { collector, retries, ..Upload::new(client, state, compression) };
    let query = Query::default();
    _ = reading.each(&query, Direction::Forward, &positions, &mut upload)?;
    _ = upload.rest()?;
    if follow { reading.follow(&query, Also::Nothing, &mut upload) } else { Ok(()) }
}

/// Whether the receiver asks for the same at another time (OTLP/HTTP, "Retryable Response Codes").
fn is_for_later(status: u16) -> bool {
    matches!(status, 429 | 502..=504)
}

/// Says what a receiver left out of a request that it took.
fn tell_left_out(answer: &str) {
    if let Some((count, why)) = collector::left_out(answer) {
        let why: String = why.chars().take(TEXT_CHARS_MAX).collect();
        warren_sys::tell!("the receiver left out {count} entries of a request: {why}");
    }
}

struct Upload {
    client: Client,
    state: Option<PathBuf>,
    printer: Printer,
    /// Makes JSON; without one the Journal Export Format goes out.
    collector: Option<Collector>,
    retries: Retries,
    compression: Compression,
    /// The receiver unpacks zstd, by what it said.
    takes_zstd: bool,
    batch: Batch,
    /// The entry that is being printed.
    entry: Vec<u8>,
    /// What was refused of entries since the last one that was taken.
    refused: Vec<String>,
    /// The receiver has taken something.
    takes: bool,
}

impl Sink for Upload {
    fn take(&mut self, entry: Entry) -> Go {
        let mut head = Vec::new();
        self.entry.clear();
        match &mut self.collector {
            None => self.printer.put(&entry, &mut self.entry),
            Some(collector) => (head, self.entry) = collector.fragment(&entry),
        }
        if !self.batch.has_room(head.len() + self.entry.len()) {
            self.send()?;
        }
        self.batch.add(&head, &self.entry, Cursor::of(&entry));
        Ok(ControlFlow::Continue(()))
    }

    fn rest(&mut self) -> Go {
        self.send()?;
        match self.refused.pop() {
            // It may be the receiver: what was refused is sent again by the next start.
            Some(why) => Err(Failure(why)),
            None => Ok(ControlFlow::Continue(())),
        }
    }
}

impl Upload {
    fn new(client: Client, state: Option<PathBuf>, compression: Compression) -> Upload {
        let mut printer = Printer::new(Mode::Export, TimeZone::UTC);
        printer.all = true;
        Upload {
            client,
            state,
            printer,
            collector: None,
            retries: Retries::new(0),
            compression,
            takes_zstd: false,
            batch: Batch::default(),
            entry: Vec::new(),
            refused: Vec::new(),
            takes: false,
        }
    }

    /// Sends the batch and keeps how far that is. What is refused is sent by halves, down to the entry that is meant.
    fn send(&mut self) -> Result<(), Failure> {
        let batch = std::mem::take(&mut self.batch);
        let all = 0..batch.len();
        let mut parts = Vec::from([all]);
        while let Some(part) = parts.pop().filter(|part| !part.is_empty()) {
            let answer = match &self.collector {
                None => self.deliver(batch.part(&part))?,
                Some(collector) => {
                    let body = collector.body(&batch, &part);
                    self.deliver(&body)?
                }
            };
            let text: String = answer.text.chars().take(TEXT_CHARS_MAX).collect();
            let why = format!("the receiver refuses: {} {text}", answer.status);
            match answer.status {
                200..300 => {
                    self.takes_zstd = answer.takes_zstd;
                    self.takes = true;
                    if self.collector.is_some() {
                        tell_left_out(&answer.text);
                    }
                    self.keep(&batch, &part)?;
                }
                BAD_REQUEST | TOO_LARGE => match halves(&part) {
                    Some([first, second]) => parts.extend([second, first]),
                    None => self.refuse((&batch, &part), answer.status, why)?,
                },
                _ => return Err(Failure(why)),
            }
        }
        Ok(())
    }

    /// Says what was refused before, as the receiver takes others, and keeps how far it is.
    fn keep(&mut self, batch: &Batch, part: &Range<usize>) -> Result<(), Failure> {
        self.refused.drain(..).for_each(|why| warren_sys::tell!("{why}"));
        match (self.state.as_deref(), batch.last(part)) {
            (Some(path), Some(last)) => state::write(path, last),
            _ => Ok(()),
        }
    }

    /// One entry is refused. It is left out when it is too large, or when the receiver takes others.
    fn refuse(
        &mut self,
        (batch, part): (&Batch, &Range<usize>),
        status: u16,
        why: String,
    ) -> Result<(), Failure> {
        let bytes = batch.part(part).len();
        let cursor = batch.last(part).map(Cursor::to_string).unwrap_or_default();
        self.refused.push(format!("{why}; left out: an entry of {bytes} bytes, {cursor}"));
        if status == TOO_LARGE || self.takes {
            return self.keep(batch, part);
        }
        match self.refused.len() < REFUSED_MAX {
            true => Ok(()),
            false => Err(Failure(why)),
        }
    }

    /// Sends a request until there is an answer that counts, as often as the bound says.
    fn deliver(&mut self, bytes: &[u8]) -> Result<Answer, Failure> {
        self.retries.begin();
        loop {
            let (failure, wanted) = match self.post(bytes) {
                Ok(answer) if !is_for_later(answer.status) => return Ok(answer),
                // Of a receiver that says so, and gets no more tries, the text is said by who asked.
                Ok(answer) if self.retries.are_over() => return Ok(answer),
                Ok(answer) => {
                    (format!("the receiver answers {}", answer.status), answer.retry_after)
                }
                Err(failure) if self.retries.are_over() => return Err(failure),
                Err(Failure(text)) => (text, None),
            };
            self.retries.wait(&failure, wanted);
        }
    }

    fn post(&mut self, bytes: &[u8]) -> Result<Answer, Failure> {
        let failed = |e: std::io::Error| match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                Failure("the receiver does not answer in time".to_owned())
            }
            _ => Failure(format!("the receiver is not there: {e}")),
        };
        let pack = match self.compression {
            Compression::Always => true,
            Compression::Auto => self.takes_zstd,
            Compression::Never => false,
        };
        if !pack {
            return self.client.post(bytes, None).map_err(failed);
        }
        let packed = zstd::bulk::compress(bytes, ZSTD_LEVEL).map_err(failed)?;
        self.client.post(&packed, Some("zstd")).map_err(failed)
    }
}

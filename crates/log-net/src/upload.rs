//! The log to a receiver over HTTP: warren-journal-upload, in the protocol of
//! systemd-journal-upload(8), which systemd-journal-remote and others take.
//!
//! It reads the log's files like any reader, so the log daemon never waits for it. Entries go out in
//! batches in the Journal Export Format, each a request of its own; what the receiver has said it has
//! is kept in `state`. After a failure it ends, and goes on behind the last batch that was
//! answered when it is started again: an entry comes at least once, and twice only when an answer was
//! lost. Batches are compressed once the receiver says that it takes it.
//!
//! To `https:` it speaks TLS ([`crate::tls`]).

mod client;
mod state;
pub mod url;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::tz::TimeZone;
use rustls::ClientConfig;

use crate::tls::renewed::Renewed;
use crate::upload::client::{Answer, Client};
use crate::upload::url::Url;
pub use warren_log_show::Failure;
use warren_log_show::ask;
use warren_log_show::format::{Mode, Printer};
use warren_log_show::reading::{Also, Go, Reading, Sink};
use warren_log_show::{Args, stores};
use warren_log_store::entry::Entry;
use warren_log_store::query::{Cursor, Direction, Query};

/// A batch is sent when it has so many bytes.
const BATCH_BYTES: usize = 1 << 20;

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
}

/// Sends what there is, and what comes.
///
/// # Errors
/// When the log cannot be read, or the receiver cannot be reached or refuses.
pub fn run(options: Options) -> Result<(), Failure> {
    let Options { args, url, cursor, state, follow, compression, tls } = options;
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
    let mut upload = Upload::new(Client::new(url, tls), state, compression);
    let query = Query::default();
    _ = reading.each(&query, Direction::Forward, &positions, &mut upload)?;
    upload.send()?;
    if follow { reading.follow(&query, Also::Nothing, &mut upload) } else { Ok(()) }
}

/// A batch in the making.
struct Upload {
    client: Client,
    state: Option<PathBuf>,
    printer: Printer,
    compression: Compression,
    /// The receiver unpacks zstd, by what it said.
    takes_zstd: bool,
    batch: Vec<u8>,
    /// The last entry of the batch.
    last: Option<Cursor>,
}

impl Sink for Upload {
    fn take(&mut self, entry: Entry) -> Go {
        self.printer.put(&entry, &mut self.batch);
        self.last = Some(Cursor::of(&entry));
        if self.batch.len() >= BATCH_BYTES {
            self.send()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn rest(&mut self) -> Go {
        self.send().map(ControlFlow::Continue)
    }
}

impl Upload {
    fn new(client: Client, state: Option<PathBuf>, compression: Compression) -> Upload {
        let mut printer = Printer::new(Mode::Export, TimeZone::UTC);
        printer.all = true;
        let (batch, last) = (Vec::new(), None);
        Upload { client, state, printer, compression, takes_zstd: false, batch, last }
    }

    /// Sends the batch and keeps how far that is.
    fn send(&mut self) -> Result<(), Failure> {
        let Some(last) = self.last.take() else { return Ok(()) };
        let answer = self.post()?;
        if !(200..300).contains(&answer.status) {
            let text: String = answer.text.chars().take(TEXT_CHARS_MAX).collect();
            return Err(Failure(format!("the receiver refuses: {} {text}", answer.status)));
        }
        self.takes_zstd = answer.takes_zstd;
        self.batch.clear();
        self.state.as_deref().map_or(Ok(()), |path| state::write(path, &last))
    }

    fn post(&mut self) -> Result<Answer, Failure> {
        let failed = |e: std::io::Error| Failure(format!("the receiver is not there: {e}"));
        let pack = match self.compression {
            Compression::Always => true,
            Compression::Auto => self.takes_zstd,
            Compression::Never => false,
        };
        if !pack {
            return self.client.post(&self.batch, None).map_err(failed);
        }
        let packed = zstd::bulk::compress(&self.batch, ZSTD_LEVEL).map_err(failed)?;
        self.client.post(&packed, Some("zstd")).map_err(failed)
    }
}

//! A unit's log: its last lines, then each new one, as events of a stream.
//!
//! - Owns: the stores of the log, open for one client.
//! - Must not: hold a line back, or keep one that was sent.
//! - Runs on the thread of the client.

use std::io::Write;
use std::ops::ControlFlow;
use std::os::fd::AsFd;

use serde_json::json;
use warren_cli::answers::{LOG_LINES_MAX, LogOf};
use warren_http::serve::Client;
use warren_log_show::format::{Clock, Mode, Printer};
use warren_log_show::reading::{Also, Go, Reading, Sink};
use warren_log_show::walk::Walk;
use warren_log_show::{Args, Failure, ask, stores};
use warren_log_store::entry::Entry;
use warren_log_store::time;
use warren_sys::socket::is_readable;

/// Lines that are there at once.
const LINES: &str = "200";

/// Lines of one event.
const EVENT_LINES_MAX: usize = 200;

/// Longest line that is sent, bytes; the rest of one is left out.
const LINE_BYTES_MAX: usize = 8 << 10;

/// Longest text of lines that answer a question, bytes.
const TEXT_BYTES_MAX: usize = 2 << 20;

/// Lines on their way to a client.
struct Sending<'a> {
    client: &'a Client,
    to: &'a mut dyn Write,
    printer: Printer,
    lines: Vec<String>,
}

impl Sending<'_> {
    fn send(&mut self) -> std::io::Result<()> {
        if !self.lines.is_empty() {
            let lines = std::mem::take(&mut self.lines);
            self.to.write_all(format!("event: lines\ndata: {}\n\n", json!(lines)).as_bytes())?;
            self.to.flush()?;
        }
        Ok(())
    }
}

impl Sink for Sending<'_> {
    fn take(&mut self, entry: Entry) -> Go {
        let mut bytes = Vec::new();
        self.printer.put(&entry, &mut bytes);
        bytes.truncate(LINE_BYTES_MAX);
        self.lines.push(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned());
        if self.lines.len() >= EVENT_LINES_MAX {
            self.send()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn rest(&mut self) -> Go {
        self.send()?;
        // There is one question for a connection: what can be read now is its end.
        let is_gone = is_readable(self.client);
        Ok(if is_gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// Lines that are kept, as text.
struct Kept {
    printer: Printer,
    text: String,
}

impl Sink for Kept {
    fn take(&mut self, entry: Entry) -> Go {
        let mut bytes = Vec::new();
        self.printer.put(&entry, &mut bytes);
        bytes.truncate(LINE_BYTES_MAX);
        self.text += String::from_utf8_lossy(&bytes).trim_end_matches('\n');
        self.text.push('\n');
        let has_room = self.text.len() < TEXT_BYTES_MAX;
        Ok(if has_room { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    }

    fn rest(&mut self) -> Go {
        Ok(ControlFlow::Continue(()))
    }
}

/// The last lines of a part of the log.
///
/// # Errors
/// What cannot be read, or meant.
pub fn last(place: &Args, part: &LogOf) -> Result<String, Failure> {
    let LogOf { unit, since, grep } = part.clone();
    let args = Args {
        unit: vec![unit],
        since,
        grep,
        lines: Some(LOG_LINES_MAX.to_string()),
        quiet: true,
        ..place.clone()
    };
    if args.directory.is_none() && args.file.is_empty() {
        ask::write(&args);
    }
    let mut reading = Reading::of(&args, stores::open(&args)?)?;
    let walk = Walk::of(&args, reading.journal())?;
    let mut kept = Kept { printer: printer(), text: String::new() };
    let _ = walk.give(&mut reading, &mut kept)?;
    Ok(kept.text)
}

fn printer() -> Printer {
    let mut printer = Printer::new(Mode::Short(Clock::Iso), time::local_zone());
    (printer.no_hostname, printer.for_terminal) = (true, true);
    printer
}

/// Sends the log of a unit until the client goes. The head was sent.
///
/// # Errors
/// What cannot be read, or that the client has gone.
pub fn follow(
    place: &Args,
    unit: &str,
    client: &Client,
    to: &mut dyn Write,
) -> Result<(), Failure> {
    let args = Args {
        unit: vec![unit.to_owned()],
        lines: Some(LINES.to_owned()),
        follow: true,
        quiet: true,
        ..place.clone()
    };
    if args.directory.is_none() && args.file.is_empty() {
        ask::write(&args);
    }
    let mut reading = Reading::of(&args, stores::open(&args)?)?;
    reading.keep_to_settled()?;
    let walk = Walk::of(&args, reading.journal())?;
    let mut sending = Sending { client, to, printer: printer(), lines: Vec::new() };
    if walk.give(&mut reading, &mut sending)?.is_continue() && sending.rest()?.is_continue() {
        // So the page knows that it has all that there is.
        sending.to.write_all(b"event: rest\ndata: 0\n\n")?;
        sending.to.flush()?;
        reading.follow(walk.query(), Also::Input(client.as_fd()), &mut sending)?;
    }
    Ok(())
}

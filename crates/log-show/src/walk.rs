//! Which entries the options ask for, in which order, and up to how many; where they go is a
//! [`Sink`]'s matter.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::path::Path;

use crate::args::Args;
use crate::failure::Failure;
use crate::reading::{Go, Reading, Sink};
use crate::select;
use warren_log_store::entry::Entry;
use warren_log_store::files::read_small;
use warren_log_store::query::union::Positions;
use warren_log_store::query::{Cursor, Direction, Pulse, Query, Union};
use warren_log_store::time;

/// Entries that `--follow` shows first without `--lines`.
const LINES_DEFAULT: usize = 10;

/// Most entries that are held to turn them round; more are looked for, and then read again.
const TURNED_ROUND_MAX: usize = 1000;

/// Most entries, or values; `None`: all. `+` before the number means the oldest ones.
///
/// # Errors
/// When it is no number.
pub fn lines_max(args: &Args) -> Result<Option<usize>, Failure> {
    let Some(text) = args.lines.as_ref().filter(|text| *text != "all") else { return Ok(None) };
    let bad = || Failure(format!("Failed to parse lines '{text}'"));
    let digits = text.strip_prefix('+').unwrap_or(text);
    // A second sign would be taken for one of the number.
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten().map(Some).ok_or_else(bad)
}

/// More than a cursor and its line break have, bytes.
const CURSOR_BYTES_MAX: u64 = 4096;

/// What is to be given.
pub struct Walk {
    query: Query,
    direction: Direction,
    /// Where to begin; `None`: at the end that the direction begins with.
    positions: Option<Positions>,
    /// Most entries; `None`: all.
    lines: Option<usize>,
    /// It begins at a time, or the oldest are wanted, so that the first ones count, not the last.
    since: bool,
}

impl Walk {
    /// As the options say.
    ///
    /// # Errors
    /// When an option cannot be understood, or names what is not there.
    pub fn of(args: &Args, journal: &Union) -> Result<Walk, Failure> {
        let lines = match &args.lines {
            None => args.follow.then_some(LINES_DEFAULT),
            Some(_) => lines_max(args)?,
        };
        let are_oldest = args.lines.as_ref().is_some_and(|lines| lines.starts_with('+'));
        let query = select::query(args, journal, time::now_us())?;
        let direction = if args.reverse { Direction::Backward } else { Direction::Forward };
        let positions = start(args, journal, direction)?;
        let since = args.since.is_some() || are_oldest;
        Ok(Walk { query, direction, positions, lines, since })
    }

    /// Has somebody told how far the search is.
    pub fn set_pulse(&mut self, pulse: Option<Pulse>) {
        self.query.pulse = pulse;
    }

    /// What entries must be like.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Whether nothing is to be given of what there is, and what comes is to be gone on with.
    pub fn is_at_end(&self) -> bool {
        self.lines == Some(0) && self.positions.is_none() && !self.since
    }

    /// Gives the newest one alone, whatever the options say.
    pub fn give_last(&self, reading: &mut Reading, sink: &mut dyn Sink) -> Go {
        self.give_newest(reading, 1, sink)
    }

    /// Gives what there is.
    pub fn give(&self, reading: &mut Reading, sink: &mut dyn Sink) -> Go {
        let anywhere = || reading.journal().anywhere();
        let forward = self.direction == Direction::Forward;
        match self.lines {
            Some(0) => Ok(ControlFlow::Continue(())),
            // The newest ones in order: found backward, given forward.
            Some(lines) if forward && self.positions.is_none() && !self.since => {
                self.give_newest(reading, lines, sink)
            }
            lines => {
                let positions = self.positions.clone().unwrap_or_else(anywhere);
                let mut sink = Bounded { sink, left: lines.unwrap_or(usize::MAX), ended: false };
                _ = reading.each(&self.query, self.direction, &positions, &mut sink)?;
                Ok(go_on(!sink.ended))
            }
        }
    }

    fn give_newest(&self, reading: &mut Reading, lines: usize, sink: &mut dyn Sink) -> Go {
        let anywhere = reading.journal().anywhere();
        if lines > TURNED_ROUND_MAX {
            let ends = vec![Some(u64::MAX); anywhere.len()];
            let starts = reading.journal().back(&self.query, &anywhere, ends, lines as u64)?;
            return reading.each(&self.query, Direction::Forward, &starts, sink);
        }
        let mut tail = Tail { entries: VecDeque::new(), wanted: lines };
        _ = reading.each(&self.query, Direction::Backward, &anywhere, &mut tail)?;
        for entry in tail.entries {
            if sink.take(entry)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn go_on(on: bool) -> ControlFlow<()> {
    if on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}

/// Where the cursor is that the options name, if they name one.
fn start(args: &Args, journal: &Union, direction: Direction) -> Result<Option<Positions>, Failure> {
    let from_file = args.cursor_file.as_deref().map(read_cursor).transpose()?.flatten();
    let after = args.after_cursor.as_deref().or(from_file.as_deref());
    let (text, inclusive) = match (&args.cursor, after) {
        (Some(text), _) => (text.as_str(), true),
        (None, Some(text)) => (text, false),
        (None, None) => return Ok(None),
    };
    let bad = || Failure(format!("Failed to seek to cursor: {text}"));
    let cursor = Cursor::parse(text).ok_or_else(bad)?;
    Ok(Some(journal.seek(&cursor, direction, inclusive)?))
}

/// The first line of a file; `None` of one that is not there or empty: then everything is new.
fn read_cursor(path: &Path) -> Result<Option<String>, Failure> {
    let bytes = match read_small(path, CURSOR_BYTES_MAX) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => {
            return Err(Failure(format!("Failed to read cursor file {}: {e}", path.display())));
        }
        Ok(bytes) => bytes,
    };
    let text = String::from_utf8_lossy(&bytes);
    let line = text.lines().next().unwrap_or_default().trim();
    Ok((!line.is_empty()).then(|| line.to_owned()))
}

/// So many entries.
struct Bounded<'s> {
    sink: &'s mut dyn Sink,
    left: usize,
    /// The sink itself has enough.
    ended: bool,
}

impl Sink for Bounded<'_> {
    fn take(&mut self, entry: Entry) -> Go {
        self.ended = self.sink.take(entry)?.is_break();
        self.left -= 1;
        Ok(go_on(!self.ended && self.left > 0))
    }
}

/// Entries that come in the wrong order.
struct Tail {
    entries: VecDeque<Entry>,
    wanted: usize,
}

impl Sink for Tail {
    fn take(&mut self, entry: Entry) -> Go {
        self.entries.push_front(entry);
        Ok(go_on(self.entries.len() < self.wanted))
    }
}

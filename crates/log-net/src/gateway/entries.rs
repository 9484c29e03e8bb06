//! Finds the entries that are wanted, and sends them and what follows them.

use std::ops::ControlFlow;
use std::os::fd::AsFd;

use warren_log_store::time;
use warren_sys::socket::is_readable;

use crate::gateway::Failure;
use crate::gateway::route::{Range, Selection};
use crate::tls::Accepted;
use warren_http::reply::Long;
use warren_http::request::Request;
use warren_http::serve::Client;
use warren_log_show::format::{Mode, Printer};
use warren_log_show::reading::{Also, Go, Reading, Sink};
use warren_log_store::entry::Entry;
use warren_log_store::host::Host;
use warren_log_store::query::expr::BOOT_FIELD;
use warren_log_store::query::union::Positions;
use warren_log_store::query::{Cursor, Direction, Expr, Query, Union};

/// What is left to do of an answer.
struct Sending<'a> {
    client: &'a Client,
    long: Long<'a>,
    printer: Printer,
    /// Entries that are left out before the first one.
    skip: u64,
    /// Entries that may be sent.
    left: u64,
}

impl Sink for Sending<'_> {
    fn take(&mut self, entry: Entry) -> Go {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(ControlFlow::Continue(()));
        }
        self.printer.put(&entry, &mut self.long.buffer);
        self.long.send_much()?;
        self.left -= 1;
        Ok(if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn rest(&mut self) -> Go {
        self.long.send()?;
        // There is one question for a connection: what can be read now is its end.
        let gone = is_readable(self.client);
        Ok(if gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

/// An answer of which nothing was sent yet.
pub struct Answer {
    wanted: Selection,
    reading: Reading,
    query: Query,
    positions: Positions,
    /// Entries that may be sent.
    left: u64,
}

impl Answer {
    /// Finds where it begins.
    pub fn new(wanted: Selection, reading: Reading) -> Result<Answer, Failure> {
        let (journal, range) = (reading.journal(), &wanted.range);
        let (since_us, until_us) = (range.since_us, range.until_us);
        let query = Query { expr: expr(&wanted), since_us, until_us, ..Query::default() };
        let mut left = range.count.unwrap_or(u64::MAX);
        let positions = match &range.cursor {
            Some(cursor) if wanted.discrete => {
                left = u64::from(is_there(journal, cursor, &query)?);
                journal.seek(cursor, Direction::Forward, true)?
            }
            _ => start(journal, range, &query)?,
        };
        Ok(Answer { wanted, reading, query, positions, left })
    }

    /// Sends it. An error cuts it.
    pub fn send(mut self, to: &mut Accepted<'_>, request: &Request) -> Result<(), Failure> {
        let Selection { format, range, follow, discrete, .. } = self.wanted;
        let client = to.socket();
        let long = Long::begin(to, request, format.mime)?;
        if request.method == "HEAD" {
            return Ok(());
        }
        let mut printer = Printer::new(format.mode, time::local_zone());
        printer.all = format.mode == Mode::Export;
        let skip = if discrete { 0 } else { u64::try_from(range.skip).unwrap_or(0) };
        let mut sending = Sending { client, long, printer, skip, left: self.left };
        let mut go = ControlFlow::Break(());
        if self.left > 0 {
            let positions = &self.positions;
            go = self.reading.each(&self.query, Direction::Forward, positions, &mut sending)?;
        }
        if follow && !discrete && go.is_continue() {
            self.reading.follow(&self.query, Also::Input(client.as_fd()), &mut sending)?;
        }
        Ok(sending.long.end()?)
    }
}

fn expr(wanted: &Selection) -> Expr {
    let boot = || String::from_utf8_lossy(BOOT_FIELD).into_owned();
    match wanted.boot {
        true => wanted.expr.clone().and(Expr::field(&boot(), Host::read().boot.to_string())),
        false => wanted.expr.clone(),
    }
}

/// Where a range begins. A `skip` forward is left out while sending.
fn start(journal: &Union, range: &Range, query: &Query) -> Result<Positions, Failure> {
    let cursor = range.cursor.as_ref();
    if range.skip >= 0 {
        let seek = |cursor| journal.seek(cursor, Direction::Forward, true);
        return Ok(cursor.map_or_else(|| Ok(journal.anywhere()), seek)?);
    }
    // Behind everything, or behind the cursor.
    let (from, starts) = match cursor {
        None => (journal.anywhere(), vec![Some(u64::MAX); journal.anywhere().len()]),
        Some(cursor) => (
            journal.seek(cursor, Direction::Backward, true)?,
            journal.seek(cursor, Direction::Forward, false)?,
        ),
    };
    // The entry that is counted from, and those before it.
    let count = range.skip.unsigned_abs().saturating_add(1);
    Ok(journal.back(query, &from, starts, count)?)
}

/// Whether the entry of a cursor is there, and is one of those that are wanted.
fn is_there(journal: &Union, cursor: &Cursor, query: &Query) -> Result<bool, Failure> {
    let positions = journal.seek(cursor, Direction::Forward, true)?;
    let found = journal.entries(query, Direction::Forward, &positions).try_next()?;
    Ok(found.is_some_and(|(_, entry)| {
        let numbered = (cursor.sequence, cursor.seqnum) == (entry.sequence, entry.seqnum);
        numbered || (cursor.seqnum == 0 && cursor.stamp == entry.stamp)
    }))
}

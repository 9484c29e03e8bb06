//! Entries as replies. Each says that another follows, so one is held back until that is known.

use std::io::{Result, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;

use jiff::tz::TimeZone;
use rustix::net::sockopt;
use serde_json::json;
use warren_sys::socket::is_readable;

use crate::access::call::Selection;
use crate::access::{Failure, cut, say_error};
use warren_http::serve::Client;
use warren_log_show::format::{Mode, Printer};
use warren_log_show::reading::{Also, Go, Reading, Sink};
use warren_log_show::walk::Walk;
use warren_log_show::{Args, ask, stores};
use warren_log_store::entry::Entry;

/// Replies are sent when they are so many bytes together.
const SEND_BYTES: usize = 64 << 10;

/// Replies on their way.
struct Replies<'a> {
    client: &'a Client,
    printer: Printer,
    buffer: Vec<u8>,
    /// The last entry, of which it is not known yet whether another follows.
    last: Vec<u8>,
}

impl Sink for Replies<'_> {
    fn take(&mut self, entry: Entry) -> Go {
        self.put_last(true);
        self.printer.put(&entry, &mut self.last);
        if self.buffer.len() >= SEND_BYTES {
            self.send()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn rest(&mut self) -> Go {
        // What is followed goes on.
        self.put_last(true);
        self.send()?;
        // There is nothing to be said meanwhile: what can be read now is the end.
        let gone = is_readable(self.client);
        Ok(if gone { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }
}

impl Replies<'_> {
    fn put_last(&mut self, continues: bool) {
        let entry = self.last.trim_ascii_end();
        if entry.is_empty() {
            return;
        }
        let end: &[u8] = if continues { b"},\"continues\":true}\0" } else { b"}}\0" };
        self.buffer.extend_from_slice(b"{\"parameters\":{\"entry\":");
        self.buffer.extend_from_slice(entry);
        self.buffer.extend_from_slice(end);
        self.last.clear();
    }

    fn send(&mut self) -> Result<()> {
        let mut client = self.client;
        client.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Answers with entries. An error of the connection cuts it.
pub fn entries(client: &Client, wanted: Selection, place: &Args) -> Result<()> {
    let Selection { args, interface } = wanted;
    let caller = sockopt::socket_peercred(client).ok().map(|who| who.uid.as_raw());
    let args = args.over(place, caller);
    let mut printer = Printer::new(Mode::Json, TimeZone::UTC);
    (printer.all, printer.fields) = (args.all, args.output_fields.clone());
    let mut replies = Replies { client, printer, buffer: Vec::new(), last: Vec::new() };
    let found = match find(&args) {
        Ok(found) => found,
        Err(failure) => return fail(&mut replies, &failure),
    };
    let (mut reading, walk) = found;
    if let Err(failure) = walk.give(&mut reading, &mut replies) {
        return fail(&mut replies, &failure);
    }
    if args.follow {
        reading.follow(walk.query(), Also::Input(client.as_fd()), &mut replies).map_err(cut)?;
        // The client has gone, or is to: what it said meanwhile is no call.
        return Err(std::io::ErrorKind::ConnectionAborted.into());
    }
    if replies.last.is_empty() {
        return say_error(client, &(format!("{interface}.NoEntries"), json!({})));
    }
    replies.put_last(false);
    replies.send()
}

fn find(args: &Args) -> std::result::Result<(Reading, Walk), Failure> {
    if args.directory.is_none() && args.file.is_empty() {
        ask::write(args);
    }
    let mut reading = Reading::of(args, stores::open(args)?)?;
    // Clients go on from cursors.
    reading.keep_to_settled()?;
    let walk = Walk::of(args, reading.journal())?;
    Ok((reading, walk))
}

/// Says what is wrong, after what was right.
fn fail(replies: &mut Replies<'_>, failure: &Failure) -> Result<()> {
    replies.put_last(true);
    replies.send()?;
    let error = "io.warrener.JournalAccess.Failed".to_owned();
    say_error(replies.client, &(error, json!({"message": failure.0})))
}

//! Carries the options out.

use std::io::Write;
use std::ops::ControlFlow;

use jiff::tz::TimeZone;

use crate::entry::Entry;
use crate::error::Error;
use crate::query::Union;
use crate::show::args::Args;
use crate::show::catalog::Catalog;
use crate::show::format::{Mode, Printer};
use crate::show::reading::{Go, Reading, Sink, report};
use crate::show::walk::Walk;
use crate::show::{ask, foreign, import, proof, select, stores, when};

/// Output is written when so much of it has come together, bytes.
const OUTPUT_BYTES: usize = 64 << 10;

/// Why the command failed, for stderr.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure(pub String);

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure(error.to_string())
    }
}

impl From<warren_sys::Error> for Failure {
    fn from(error: warren_sys::Error) -> Failure {
        Failure(error.to_string())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure(format!("write: {error}"))
    }
}

/// Runs the command; true for exit status 0.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<bool, Failure> {
    if args.update_catalog || args.list_catalog || args.dump_catalog {
        return catalog(args, out).map(|()| true);
    }
    if args.facility.iter().any(|name| name == "help") {
        return select::list_facilities(out).map(|()| true);
    }
    if args.output == "help" {
        return Mode::names()
            .try_for_each(|name| writeln!(out, "{name}"))
            .map(|()| true)
            .map_err(Failure::from);
    }
    if args.sync || args.rotate {
        return ask::order(args, if args.rotate { "Rotate" } else { "Synchronize" }).map(|()| true);
    }
    if let Some(file) = &args.import {
        let count = import::import(file, args.directory.as_ref())?;
        if !args.quiet {
            eprintln!("{count} entries imported.");
        }
        return Ok(true);
    }
    if args.flush {
        return ask::order(args, "FlushToVar").map(|()| true);
    }
    if args.relinquish_var || args.smart_relinquish_var {
        return ask::relinquish(args, !args.relinquish_var).map(|()| true);
    }
    if args.setup_keys {
        return proof::set_up(args, out).map(|()| true);
    }
    if args.directory.is_none() {
        ask::write(args);
    }
    let stores = stores::open(args)?;
    let of_files = args.disk_usage || args.verify || args.header;
    if !args.file.is_empty() && args.vacuums() {
        return Err(Failure("--file is for reading".to_owned()));
    }
    if of_files && foreign::is_named(args)? {
        return Err(Failure(
            "--file names a file that is not ours: it can only be shown".to_owned(),
        ));
    }
    if args.vacuums() {
        return stores.iter().try_fold(true, |_, store| stores::run_vacuum(args, &store.files));
    }
    if args.disk_usage {
        return stores::disk_usage(&stores, out);
    }
    if args.verify {
        let whole = stores::verify(&stores)?;
        return proof::verify(args, &stores).map(|proved| whole && proved);
    }
    if args.header {
        return stores::header(&stores, out);
    }
    let mut reading = Reading::of(args, stores)?;
    if args.list_boots {
        return list_boots(reading.journal(), args, out);
    }
    if let Some(field) = &args.field {
        return list_values(reading.journal(), field, out);
    }
    if args.fields {
        return list_fields(reading.journal(), out);
    }
    if args.goes_on() {
        reading.keep_to_settled()?;
    }
    Show::new(args)?.run(&mut reading, out)
}

/// Catalogs are read as they are, so that an update is a check.
fn catalog(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    let catalog = Catalog::read(args.root());
    match args {
        Args { list_catalog: true, .. } => catalog.list(&args.matches, out),
        Args { dump_catalog: true, .. } => catalog.dump(&args.matches, out),
        _ => catalog.check(),
    }
}

fn zone(args: &Args) -> TimeZone {
    if args.utc { TimeZone::UTC } else { TimeZone::system() }
}

/// The wall clock, µs since 1970.
pub(super) fn now_us() -> u64 {
    warren_sys::time::realtime_ns() / 1000
}

/// One run that shows entries.
struct Show<'a> {
    args: &'a Args,
    printer: Printer,
    last: Option<Entry>,
    shown: usize,
    out: Vec<u8>,
}

impl<'a> Show<'a> {
    fn new(args: &'a Args) -> Result<Show<'a>, Failure> {
        let mode = Mode::parse(&args.output);
        let mode =
            mode.ok_or_else(|| Failure(format!("Unknown output format '{}'.", args.output)))?;
        let printer = Printer {
            mode,
            zone: zone(args),
            all: args.all,
            no_hostname: args.no_hostname,
            fields: args.output_fields.clone(),
            catalog: args.catalog.then(|| Catalog::read(args.root())),
        };
        Ok(Show { args, printer, last: None, shown: 0, out: Vec::new() })
    }

    fn run(mut self, reading: &mut Reading, out: &mut dyn Write) -> Result<bool, Failure> {
        let walk = Walk::of(self.args, reading.journal())?;
        let _ = walk.give(reading, &mut Shown { show: &mut self, out })?;
        // Of a pattern that fits nothing the exit status says so.
        let is_quiet = self.args.quiet || self.args.follow || self.args.grep.is_some();
        if self.shown == 0 && !is_quiet {
            self.out.extend_from_slice(b"-- No entries --\n");
        }
        self.write(out)?;
        if self.args.follow {
            // Until the output is closed.
            reading.follow(walk.query(), None, &mut Shown { show: &mut self, out })?;
        }
        self.finish(out)?;
        Ok(self.shown > 0 || self.args.grep.is_none())
    }

    fn put(&mut self, entry: Entry, out: &mut dyn Write) -> Result<(), Failure> {
        let boot = |entry: &Entry| entry.stamp.boot;
        let another = self.last.as_ref().is_some_and(|last| boot(last) != boot(&entry));
        if another && self.printer.mode.separates_boots() && !self.args.quiet {
            self.out.extend_from_slice(format!("-- Boot {} --\n", boot(&entry)).as_bytes());
        }
        self.printer.put(&entry, &mut self.out);
        (self.last, self.shown) = (Some(entry), self.shown + 1);
        if self.out.len() >= OUTPUT_BYTES { self.write(out) } else { Ok(()) }
    }

    fn write(&mut self, out: &mut dyn Write) -> Result<(), Failure> {
        out.write_all(&self.out)?;
        out.flush()?;
        self.out.clear();
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> Result<(), Failure> {
        let Some(last) = &self.last else { return Ok(()) };
        let cursor = self.printer.cursor(last);
        if let Some(path) = &self.args.cursor_file {
            std::fs::write(path, format!("{cursor}\n"))?;
        }
        if self.args.show_cursor {
            writeln!(out, "-- cursor: {cursor}")?;
        }
        Ok(())
    }
}

/// Entries that are printed as they come.
struct Shown<'s, 'a, 'o> {
    show: &'s mut Show<'a>,
    out: &'o mut dyn Write,
}

impl Sink for Shown<'_, '_, '_> {
    fn take(&mut self, entry: Entry) -> Go {
        self.show.put(entry, self.out).map(ControlFlow::Continue)
    }

    fn rest(&mut self) -> Go {
        self.show.write(self.out).map(ControlFlow::Continue)
    }
}

fn list_values(journal: &Union, field: &str, out: &mut dyn Write) -> Result<bool, Failure> {
    let (values, damage) = journal.values(field.as_bytes())?;
    report(&damage);
    for value in values {
        out.write_all(&value)?;
        out.write_all(b"\n")?;
    }
    Ok(true)
}

fn list_fields(journal: &Union, out: &mut dyn Write) -> Result<bool, Failure> {
    for name in journal.field_names()? {
        writeln!(out, "{}", String::from_utf8_lossy(&name))?;
    }
    Ok(true)
}

fn list_boots(journal: &Union, args: &Args, out: &mut dyn Write) -> Result<bool, Failure> {
    const PATTERN: &str = "%a %Y-%m-%d %H:%M:%S %Z";
    let (boots, zone) = (journal.boots()?, zone(args));
    let print = |us| when::print(us, &zone, PATTERN);
    let mut rows: Vec<_> = boots
        .iter()
        .enumerate()
        .map(|(at, span)| {
            let index = (at as i64 - (boots.len() as i64 - 1)).to_string();
            (index, span.boot, print(span.realtime_min_us), print(span.realtime_max_us))
        })
        .collect();
    if args.reverse {
        rows.reverse();
    }
    let width = rows.iter().map(|row| row.0.len()).max().unwrap_or(0).max(3);
    let time = rows.iter().map(|row| row.2.len()).max().unwrap_or(0);
    if !args.quiet {
        let (first, last) = ("FIRST ENTRY", "LAST ENTRY");
        writeln!(out, "{:>width$} {:<32} {first:<time$} {last}", "IDX", "BOOT ID")?;
    }
    for (index, boot, first, last) in rows {
        writeln!(out, "{index:>width$} {boot} {first:<time$} {last}")?;
    }
    Ok(true)
}

//! Carries the options out.

use std::io::{IsTerminal, Write};
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::args::Args;
use crate::catalog::Catalog;
use crate::failure::Failure;
use crate::format::{Mode, Printer};
use crate::reading::{Also, Go, Reading, Sink};
use crate::report::report;
use crate::walk::{self, Walk};
use crate::{ask, boots, foreign, import, proof, select, stores};
use warren_log_store::entry::{Entry, is_valid_name};
use warren_log_store::query::{Pulse, Union};
use warren_log_store::time;
use warren_sys::progress::Shared;

/// Output is written when so much of it has come together, bytes.
const OUTPUT_BYTES: usize = 64 << 10;

/// What is shown, until nobody reads it any more.
struct Reader<'a> {
    out: &'a mut dyn Write,
    is_gone: bool,
}

impl Reader<'_> {
    fn heed<T>(&mut self, done: std::io::Result<T>) -> std::io::Result<T> {
        let is_broken = |e: &std::io::Error| e.kind() == std::io::ErrorKind::BrokenPipe;
        self.is_gone |= done.as_ref().is_err_and(is_broken);
        done
    }
}

impl Write for Reader<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes);
        self.heed(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let flushed = self.out.flush();
        self.heed(flushed)
    }
}

/// Runs the command; true for exit status 0. Who reads what is shown may end before: `head` has enough.
pub fn run(args: &Args, out: &mut dyn Write) -> Result<bool, Failure> {
    let mut reader = Reader { out, is_gone: false };
    let done = carry_out(args, &mut reader);
    if reader.is_gone { Ok(true) } else { done }
}

fn carry_out(args: &Args, out: &mut dyn Write) -> Result<bool, Failure> {
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
    if let Some(fault) = args.contradiction() {
        return Err(Failure(fault.to_owned()));
    }
    if !args.file.is_empty() && args.vacuums() {
        return Err(Failure("--file is for reading".to_owned()));
    }
    if ask::order(args)? && !args.vacuums() {
        return Ok(true);
    }
    if let Some(file) = &args.import {
        let (count, is_whole) = import::import(file, args.directory.as_ref(), args.quiet)?;
        if !args.quiet {
            warren_sys::tell!("{count} entries imported.");
        }
        return Ok(is_whole);
    }
    if args.setup_keys {
        return proof::set_up(args, out).map(|()| true);
    }
    if args.directory.is_none() {
        ask::write(args);
    }
    let stores = stores::open(args)?;
    if args.vacuums() {
        return stores.iter().try_fold(true, |_, store| stores::run_vacuum(args, &store.files));
    }
    if args.disk_usage {
        return stores::disk_usage(&stores, foreign::bytes(args), out);
    }
    if args.verify {
        let whole = stores::verify(&stores, args.quiet)? & foreign::verify(args)?;
        return proof::verify(args, &stores).map(|proved| whole && proved);
    }
    if args.header {
        stores::header(&stores, out)?;
        return foreign::header(args, out).map(|()| true);
    }
    let is_empty = stores::are_empty(&stores);
    let mut reading = Reading::of(args, stores)?;
    if is_empty && reading.has_own_alone() && !args.quiet {
        warren_sys::tell!("No journal files were found.");
    }
    if args.list_boots {
        return boots::list(reading.journal(), args, out);
    }
    if let Some(field) = &args.field {
        return list_values(reading.journal(), (field, walk::lines_max(args)?), out);
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

/// One run that shows entries.
struct Show<'a> {
    args: &'a Args,
    printer: Printer,
    last: Option<Entry>,
    shown: usize,
    out: Vec<u8>,
    progress: Shared,
}

impl<'a> Show<'a> {
    fn new(args: &'a Args) -> Result<Show<'a>, Failure> {
        let mode = Mode::parse(&args.output);
        let mode =
            mode.ok_or_else(|| Failure(format!("Unknown output format '{}'.", args.output)))?;
        let printer = Printer {
            all: args.all,
            no_hostname: args.no_hostname,
            columns: args.columns,
            for_terminal: std::io::stdout().is_terminal(),
            fields: args.output_fields.iter().filter(|name| !name.is_empty()).cloned().collect(),
            catalog: args.catalog.then(|| Catalog::read(args.root())),
            ..Printer::new(mode, args.zone())
        };
        Ok(Show {
            args,
            printer,
            last: None,
            shown: 0,
            out: Vec::new(),
            progress: Shared::begin(args.quiet),
        })
    }

    fn run(mut self, reading: &mut Reading, out: &mut dyn Write) -> Result<bool, Failure> {
        let args = Args { reverse: self.args.newest_first(), ..self.args.clone() };
        let mut walk = Walk::of(&args, reading.journal())?;
        let (progress, zone) = (self.progress.clone(), args.zone());
        let show = move |us| format!("Searching, at {}", time::print(us, &zone, "%Y-%m-%d %H:%M"));
        let tell = move |us| progress.tell(|| show(us));
        walk.set_pulse(Some(Pulse(Arc::new(tell))));
        let _ = walk.give(reading, &mut Shown { show: &mut self, out })?;
        if walk.is_at_end() && self.args.goes_on() {
            // Its cursor is where to go on, though it is not shown.
            let _ = walk.give_last(reading, &mut Last(&mut self.last))?;
        }
        walk.set_pulse(None);
        self.progress.clear();
        let is_quiet = self.args.quiet || self.args.follow;
        if self.shown == 0 && !is_quiet && self.printer.mode.is_for_people() {
            self.out.extend_from_slice(b"-- No entries --\n");
        }
        self.write(out)?;
        if self.args.follow {
            // Until nobody reads any more: `| head -1` has enough before the next entry comes.
            let stdout = std::io::stdout();
            let also = Also::Output(stdout.as_fd());
            reading.follow(walk.query(), also, &mut Shown { show: &mut self, out })?;
        }
        self.finish(out)?;
        Ok(self.shown > 0 || self.args.grep.is_none())
    }

    fn put(&mut self, entry: Entry, out: &mut dyn Write) -> Result<(), Failure> {
        let boot = |entry: &Entry| entry.stamp.boot;
        let another = self.last.as_ref().is_some_and(|last| boot(last) != boot(&entry));
        // Boots of several machines are mixed.
        let is_told = self.printer.mode.is_for_people() && !self.args.quiet && !self.args.merge;
        if another && is_told {
            self.out.extend_from_slice(format!("-- Boot {} --\n", boot(&entry)).as_bytes());
        }
        self.printer.put(&entry, &mut self.out);
        (self.last, self.shown) = (Some(entry), self.shown + 1);
        if self.out.len() >= OUTPUT_BYTES { self.write(out) } else { Ok(()) }
    }

    fn write(&mut self, out: &mut dyn Write) -> Result<(), Failure> {
        self.progress.clear();
        out.write_all(&self.out)?;
        out.flush()?;
        self.out.clear();
        Ok(())
    }

    fn finish(&mut self, out: &mut dyn Write) -> Result<(), Failure> {
        let Some(last) = &self.last else { return Ok(()) };
        let cursor = self.printer.cursor(last);
        if let Some(path) = &self.args.cursor_file {
            let failed = |e| Failure(format!("Failed to write {}: {e}", path.display()));
            std::fs::write(path, format!("{cursor}\n")).map_err(failed)?;
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

/// An entry that is kept and not printed.
struct Last<'s>(&'s mut Option<Entry>);

impl Sink for Last<'_> {
    fn take(&mut self, entry: Entry) -> Go {
        *self.0 = Some(entry);
        Ok(ControlFlow::Break(()))
    }
}

/// So many values of a field, or all.
fn list_values(
    journal: &Union,
    (field, lines): (&str, Option<usize>),
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    if !is_valid_name(field.as_bytes()) {
        return Err(Failure(format!("'{field}' is not a valid field name")));
    }
    let (values, damage) = journal.values(field.as_bytes())?;
    report(&damage);
    for value in values.iter().take(lines.unwrap_or(usize::MAX)) {
        out.write_all(value)?;
        out.write_all(b"\n")?;
    }
    Ok(true)
}

fn list_fields(journal: &Union, out: &mut dyn Write) -> Result<bool, Failure> {
    let (names, damage) = journal.field_names()?;
    report(&damage);
    for name in names {
        writeln!(out, "{}", String::from_utf8_lossy(&name))?;
    }
    Ok(true)
}

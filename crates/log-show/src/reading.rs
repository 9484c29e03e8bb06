//! The stores that a reader looks at, and what it has seen of them: for the command and for others
//! that send entries on. While it follows, what was in memory may come to the disk; nothing is given
//! twice.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::errno::{EACCES, ENOENT, EPERM};
use warren_sys::inotify::{Inotify, WatchFor};

use crate::args::Args;
use crate::failure::Failure;
use crate::foreign::Foreign;
use crate::moved::{Moved, further};
use crate::report::say;
use crate::stores::{self, Store};
use warren_log_store::entry::Entry;
use warren_log_store::query::union::Positions;
use warren_log_store::query::{Direction, Query, Union};

/// Whether to go on.
pub type Go = Result<ControlFlow<()>, Failure>;

/// What is watched while nothing comes.
#[derive(Debug, Clone, Copy)]
pub enum Also<'a> {
    /// Nothing.
    Nothing,
    /// Somebody may say something there: the sink is asked then.
    Input(BorrowedFd<'a>),
    /// When nobody reads there any more, it is enough.
    Output(BorrowedFd<'a>),
}

/// What entries are given to.
pub trait Sink {
    /// Takes an entry.
    fn take(&mut self, entry: Entry) -> Go;
    /// There is no more for now.
    fn rest(&mut self) -> Go {
        Ok(ControlFlow::Continue(()))
    }
}

/// Open stores and a place in each.
pub struct Reading {
    journal: Union,
    /// How many stores are ours and in pairs of disk and memory; they come first.
    own: usize,
    /// Directories in which something may come.
    watched: Vec<PathBuf>,
    /// The last entry that was given of each store.
    reached: Positions,
    moved: Moved,
    /// Files of systemd's.
    foreign: Foreign,
    /// Nothing is said of what systemd's files have lost.
    is_quiet: bool,
    /// Faults that were said.
    told: BTreeSet<String>,
}

impl Reading {
    /// Takes stores of our own, and adds those of others that the options name.
    pub fn of(args: &Args, own: Vec<Store>) -> Result<Reading, Failure> {
        let watched = own.iter().map(|store| store.files.directory().to_owned()).collect();
        let (mut denied, mut is_empty) = (stores::denied(&own), stores::are_empty(&own));
        let mut journal = Union::default();
        let in_pairs = args.directory.is_none() && args.file.is_empty() && !args.in_memory;
        let count = if in_pairs { own.len() } else { 0 };
        own.into_iter().for_each(|store| journal.add(Box::new(store.journal)));
        let before = journal.anywhere().len();
        let foreign = Foreign::add(args, (&mut journal, is_empty && denied.is_any()), &mut denied)?;
        let reached = journal.anywhere();
        is_empty &= reached.len() == before;
        denied.check(!is_empty, args.quiet)?;
        Ok(Reading {
            journal,
            own: count,
            watched,
            reached,
            moved: Moved::default(),
            foreign,
            is_quiet: args.quiet,
            told: BTreeSet::new(),
        })
    }

    /// Leaves out what others may still come before: for whoever goes on later from the last entry.
    pub fn keep_to_settled(&mut self) -> Result<(), Failure> {
        Ok(self.journal.keep_to_settled()?)
    }

    /// Whether no file of another's is read.
    pub fn has_own_alone(&self) -> bool {
        self.reached.len() == self.watched.len()
    }

    /// The stores.
    pub fn journal(&self) -> &Union {
        &self.journal
    }

    /// Gives entries from positions on, until there are no more or it is enough.
    pub fn each(
        &mut self,
        query: &Query,
        direction: Direction,
        positions: &[Option<u64>],
        sink: &mut dyn Sink,
    ) -> Go {
        let mut entries = self.journal.entries(query, direction, positions);
        let mut go = ControlFlow::Continue(());
        while go.is_continue()
            && let Some((part, entry)) = entries.try_next()?
        {
            self.reached[part] = self.reached[part].max(Some(entry.seqnum));
            if !self.moved.has_seen(self.own, part, &entry) {
                go = sink.take(entry)?;
            }
        }
        // Torn entries at the end of systemd's files are what a crash of its leaves: its own reader is silent.
        let is_said = |part: usize| !self.is_quiet || part < self.watched.len();
        let damage = entries.damage().filter(|(part, _)| is_said(*part));
        let faults: Vec<String> = damage.map(|(_, error)| error.to_string()).collect();
        // Whoever follows comes by again and again.
        faults.into_iter().filter(|fault| self.told.insert(fault.clone())).for_each(say);
        Ok(go)
    }

    /// Gives what comes after what there is now and what was given, until it is enough. The sink may
    /// rest whenever there is no more for now, and when `also` has something to read.
    pub fn follow(
        &mut self,
        query: &Query,
        also: Also<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        const TOKEN_ALSO: u64 = 1;
        let (inotify, epoll) = (Inotify::new()?, Epoll::new()?);
        epoll.add(&inotify, 0, Interest::READ)?;
        match also {
            Also::Nothing => {}
            Also::Input(fd) => epoll.add(fd, TOKEN_ALSO, Interest::READ)?,
            Also::Output(fd) => match epoll.add(fd, TOKEN_ALSO, Interest::NONE) {
                // Of a regular file nobody goes away.
                Err(e) if e.errno == EPERM => {}
                added => added?,
            },
        }
        let (mut events, mut changes) = (Events::with_capacity(2), Vec::new());
        self.watch(&inotify)?;
        // Where the watch begins: what came before it and was not given was not wanted.
        self.moved = Moved::new(self.journal.newest()?);
        let mut positions = further(self.moved.positions(), &self.reached);
        loop {
            self.journal.refresh()?;
            let before = positions.clone();
            self.foreign.add_new(&mut self.journal, &mut positions)?;
            self.reached.resize(self.journal.parts(), None);
            // Another file's numbers.
            for (part, position) in before.iter().enumerate() {
                if positions.get(part) != Some(position) {
                    self.reached[part] = None;
                }
            }
            let newest = Moved::new(self.journal.newest()?);
            for part in self.moved.begun_anew(&newest) {
                (positions[part], self.reached[part]) = (None, None);
            }
            if self.each(query, Direction::Forward, &positions, sink)?.is_break() {
                return Ok(());
            }
            positions = further(further(positions, &newest.positions()), &self.reached);
            self.moved.advance(newest);
            if sink.rest()?.is_break() {
                return Ok(());
            }
            epoll.wait(&mut events, None)?;
            let is_left = matches!(also, Also::Output(_));
            if is_left && events.iter().any(|ready| ready.token == TOKEN_ALSO) {
                return Ok(());
            }
            changes.clear();
            inotify.drain(&mut changes)?;
            self.watch(&inotify)?;
        }
    }

    /// Watches the directories, or of one that is not there, what it will come in.
    fn watch(&self, inotify: &Inotify) -> Result<(), Failure> {
        for directory in self.foreign.watched() {
            heed(inotify.add(directory, WatchFor::Content))?;
        }
        for directory in &self.watched {
            let there = directory.ancestors().find(|path| path.is_dir());
            if let Some(path) = there {
                heed(inotify.add(path, WatchFor::Content))?;
            }
        }
        Ok(())
    }
}

/// What may not be read is not watched, nor what was removed a moment ago.
fn heed<T>(added: warren_sys::Result<T>) -> Result<(), Failure> {
    match added {
        Err(e) if [EACCES, ENOENT].contains(&e.errno) => Ok(()),
        added => Ok(added.map(drop)?),
    }
}

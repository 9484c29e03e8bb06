//! A directory with a writer, for tests that run programs over it.
#![allow(dead_code, reason = "each test program uses a part")]

use std::sync::Arc;

use warren_log_store::files::Disk;
use warren_log_store::store::upkeep::seal;
use warren_log_store::store::{Setup, Store};
use warren_log_store::{Fields, Id128, Stamp};
use warren_testkit::Scratch;

/// A store that goes away in the end.
pub struct Lab {
    pub directory: Scratch,
    pub store: Store,
}

impl Lab {
    pub fn new(name: &str) -> Lab {
        let directory = Scratch::new(name);
        let mut ids = 0;
        let new_id = move || {
            ids += 1;
            Id128([ids; 16])
        };
        let setup = Setup { machine: Id128::default(), new_id: Box::new(new_id) };
        let (store, _) = Store::open(Arc::new(Disk::new(&directory)), setup).expect("empty");
        Lab { directory, store }
    }

    /// Appends an entry for each word, and has them on the disk.
    pub fn append(&mut self, texts: &str) {
        for text in texts.split(' ') {
            let fields: Fields = [("MESSAGE", text)].into_iter().collect();
            let realtime_us = 1_700_000_000_000_000 + self.store.next_seqnum();
            let stamp = Stamp { realtime_us, ..Stamp::default() };
            self.store.append("system", &stamp, &Arc::default(), &fields).expect("in bounds");
        }
        self.store.sync().expect("a sync");
    }

    pub fn seal(&mut self) {
        self.store.rotate().expect("a rotation");
        for log in self.store.take_sealable() {
            let id = Id128([200; 16]);
            seal(&Disk::new(&self.directory), &log, Id128::default(), id).expect("sealed");
        }
    }
}

/// Says past the test runner's capture that a test could not run here.
pub fn not_run(why: &str) {
    warren_testkit::not_run(why);
}

/// Debian's systemd-journal-remote: where it is installed, or where `JOURNAL_REMOTE` says. `None`, and that
/// is said, without it.
pub fn journal_remote() -> Option<std::path::PathBuf> {
    let named = std::env::var_os("JOURNAL_REMOTE").map(std::path::PathBuf::from);
    let known = std::path::PathBuf::from("/lib/systemd/systemd-journal-remote");
    let found = named.into_iter().chain([known]).find(|path| path.exists());
    if found.is_none() {
        not_run("no systemd-journal-remote is installed");
    }
    found
}

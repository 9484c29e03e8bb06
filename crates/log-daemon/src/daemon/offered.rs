//! Files of strangers that are messages: those that lie in memory (tmpfs, memfds) and those of root. A thread reads and
//! closes one unless it is a sealed memfd of a size that a message may have, so many at a time for a user and in all
//! ([`MessageFiles::make_room`]).
//!
//! No other descriptor of a stranger is ever opened in this process: [`warren_sys::letting_go`] has others for them.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use warren_sys::eventfd::EventFd;

use crate::daemon::message_file;
use crate::daemon::sender::Origin;

/// Most messages of one user whose descriptors are held, and of all users; root has as many as all.
const HELD_BY_USER_MAX: usize = 4;
const HELD_MAX: usize = 16;

/// Who reads something is waited for so long.
const PATIENCE: Duration = Duration::from_millis(10);

/// At the end, files that are being read are waited for so long.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// A message in a file: whose it is, and its content or why there is none.
pub type FileMessage = (Arc<Origin>, Result<Vec<u8>, String>);

/// What threads are at.
pub struct MessageFiles {
    event: Arc<EventFd>,
    outbox: Sender<ReaderNews>,
    told: Receiver<ReaderNews>,
    /// Messages whose descriptors are held, by user.
    held: BTreeMap<u32, usize>,
    /// Files that are being read.
    reading: usize,
    ready: Vec<FileMessage>,
}

enum ReaderNews {
    Read(FileMessage),
    Closed(u32),
}

impl MessageFiles {
    /// `event` becomes readable when something was read or closed.
    pub fn new(event: Arc<EventFd>) -> MessageFiles {
        let (outbox, told) = channel();
        MessageFiles { event, outbox, told, held: BTreeMap::new(), reading: 0, ready: Vec::new() }
    }

    /// Whether descriptors of a message of this user may be held, now or in a moment.
    pub fn make_room(&mut self, uid: u32) -> bool {
        while !self.has_room(uid) {
            let Ok(told) = self.told.recv_timeout(PATIENCE) else { return false };
            self.hear(told);
        }
        true
    }

    /// Root's are beside those of others.
    fn has_room(&self, uid: u32) -> bool {
        let own = self.held.get(&uid).copied().unwrap_or(0);
        let of_users = self.held.iter().filter(|(uid, _)| **uid != 0).map(|(_, count)| count);
        match uid {
            0 => own < HELD_MAX,
            _ => own < HELD_BY_USER_MAX && of_users.sum::<usize>() < HELD_MAX,
        }
    }

    /// Has a message in a file read, which is told later.
    pub fn read(&mut self, uid: u32, file: OwnedFd, origin: Arc<Origin>) {
        let (outbox, event) = (self.outbox.clone(), self.event.clone());
        self.reading += 1;
        self.hold(uid, move || {
            let content = message_file::read(&file, origin.is_root());
            let _ = outbox.send(ReaderNews::Read((origin, content)));
            event.notify();
            drop(file);
        });
    }

    /// Has descriptors of root closed.
    pub fn close(&mut self, uid: u32, fds: Vec<OwnedFd>) {
        if !fds.is_empty() {
            self.hold(uid, move || drop(fds));
        }
    }

    fn hold(&mut self, uid: u32, work: impl FnOnce() + Send + 'static) {
        *self.held.entry(uid).or_default() += 1;
        let (outbox, event) = (self.outbox.clone(), self.event.clone());
        start(move || {
            work();
            let _ = outbox.send(ReaderNews::Closed(uid));
            event.notify();
        });
    }

    /// What was read.
    pub fn take_read(&mut self) -> Vec<FileMessage> {
        while let Ok(told) = self.told.try_recv() {
            self.hear(told);
        }
        std::mem::take(&mut self.ready)
    }

    /// The same at the end, with what is being read, unless that takes long.
    pub fn take_last(&mut self) -> Vec<FileMessage> {
        let end = Instant::now() + LAST_PATIENCE;
        while self.reading > 0
            && let Ok(told) = self.told.recv_timeout(end.saturating_duration_since(Instant::now()))
        {
            self.hear(told);
        }
        self.take_read()
    }

    fn hear(&mut self, told: ReaderNews) {
        match told {
            ReaderNews::Read(read) => {
                self.reading -= 1;
                self.ready.push(read);
            }
            ReaderNews::Closed(uid) => {
                self.held.entry(uid).and_modify(|count| *count -= 1);
                self.held.retain(|_, count| *count > 0);
            }
        }
    }
}

/// Starts a thread. Without one, what it was to close is never closed: its room is not given back.
fn start(work: impl FnOnce() + Send + 'static) {
    let name = "offered".to_owned();
    let work = std::mem::ManuallyDrop::new(work);
    let work = move || std::mem::ManuallyDrop::into_inner(work)();
    let _ = std::thread::Builder::new().name(name).spawn(work);
}

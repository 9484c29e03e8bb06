//! A directory whose device may not answer: each call waits for a bounded time.
//!
//! What is asked for is done by one thread, in order. If that does not come back in time, the asker is
//! told so (ETIMEDOUT), and so is at once everybody who comes before it has come back: nothing overtakes
//! what hangs. Syncs may be left out of that: a thread that is there to wait for them does so. Where they are
//! not, no sync is of more than a slow disk takes in that time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use warren_sys::errno::ETIMEDOUT;

use crate::error::{Error, Result};
use crate::files::{File, Files, Listed, Space};

/// After so much is synced what somebody writes who does not wait for syncs as long as they take, bytes.
const SYNC_BYTES: u64 = 4 << 20;

type Task = Box<dyn FnOnce() + Send>;

/// What somebody waits for. It is had by him or, from when he has given up on, by nobody.
struct Answer<T> {
    slot: Mutex<Slot<T>>,
    given: Condvar,
}

enum Slot<T> {
    Awaited,
    Given(T),
    GivenUp,
}

impl<T> Answer<T> {
    fn awaited() -> Arc<Answer<T>> {
        Arc::new(Answer { slot: Mutex::new(Slot::Awaited), given: Condvar::new() })
    }

    fn slot(&self) -> MutexGuard<'_, Slot<T>> {
        self.slot.lock().expect("nothing panics while it is held")
    }

    /// Gives it to who waits; back if nobody does any more.
    fn give(&self, value: T) -> Option<T> {
        let mut slot = self.slot();
        if matches!(*slot, Slot::GivenUp) {
            return Some(value);
        }
        *slot = Slot::Given(value);
        self.given.notify_one();
        None
    }

    /// Waits for so long, and then gives up.
    fn wait(&self, patience: Duration) -> Option<T> {
        let is_awaited = |slot: &mut Slot<T>| matches!(slot, Slot::Awaited);
        let waited = self.given.wait_timeout_while(self.slot(), patience, is_awaited);
        let (mut slot, _) = waited.expect("nothing panics while it is held");
        match std::mem::replace(&mut *slot, Slot::GivenUp) {
            Slot::Given(value) => Some(value),
            Slot::Awaited | Slot::GivenUp => None,
        }
    }
}

/// The thread, and how long it is waited for.
pub struct Door {
    tasks: Sender<Task>,
    patience: Duration,
    /// Something was waited for in vain and has not come back.
    hangs: Arc<AtomicBool>,
}

impl Door {
    /// Starts the thread, which ends with the last one who may ask.
    pub fn start(patience: Duration) -> Result<Arc<Door>> {
        let (tasks, inbox) = channel::<Task>();
        let work = move || inbox.into_iter().for_each(|task: Task| task());
        let thread = std::thread::Builder::new().name("disk".to_owned());
        thread.spawn(work).map_err(|e| Error::io("spawn", "disk", &e))?;
        Ok(Arc::new(Door { tasks, patience, hangs: Arc::default() }))
    }

    /// Whether something has not come back in time.
    pub fn hangs(&self) -> bool {
        self.hangs.load(Ordering::Acquire)
    }

    /// Has something done when what was asked for before is done, and waits for nothing.
    pub fn post(&self, task: impl FnOnce() + Send + 'static) {
        // The thread ends only with the process, or with a panic: then nothing is done any more.
        let _ = self.tasks.send(Box::new(task));
    }

    /// Has something done: `op` and `name` say what and to which file.
    ///
    /// # Errors
    /// Its own, or ETIMEDOUT.
    pub fn run<T: Send + 'static>(
        &self,
        (op, name): (&'static str, &str),
        task: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run_or_undo((op, name), task, drop)
    }

    /// The same; `undo` gets what comes after nobody waits for it any more.
    fn run_or_undo<T: Send + 'static>(
        &self,
        (op, name): (&'static str, &str),
        task: impl FnOnce() -> Result<T> + Send + 'static,
        undo: impl FnOnce(T) + Send + 'static,
    ) -> Result<T> {
        let late = || Err(Error::Io { op, name: name.to_owned(), errno: ETIMEDOUT });
        if self.hangs() {
            return late();
        }
        let answer = Answer::awaited();
        let answered = answer.clone();
        self.post(move || {
            if let Some(Ok(made)) = answer.give(task()) {
                undo(made);
            }
        });
        answered.wait(self.patience).unwrap_or_else(|| {
            self.hangs.store(true, Ordering::Release);
            let hangs = self.hangs.clone();
            self.post(move || hangs.store(false, Ordering::Release));
            late()
        })
    }
}

/// A directory behind a [`Door`].
pub struct Patient {
    inner: Arc<dyn Files>,
    door: Arc<Door>,
    /// Who syncs waits for it as long as it takes, in its own thread.
    waits_for_syncs: bool,
}

impl Patient {
    /// Puts a directory behind a door.
    pub fn new(inner: Arc<dyn Files>, door: Arc<Door>) -> Patient {
        Patient { inner, door, waits_for_syncs: false }
    }

    /// The same for those who have a thread to wait for syncs.
    pub fn but_for_syncs(inner: Arc<dyn Files>, door: Arc<Door>) -> Patient {
        Patient { waits_for_syncs: true, ..Patient::new(inner, door) }
    }

    fn run<T: Send + 'static>(
        &self,
        what: (&'static str, &str),
        task: impl FnOnce(&dyn Files) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = self.inner.clone();
        self.door.run(what, move || task(&*inner))
    }

    fn wrap(&self, name: &str, file: Box<dyn File>) -> Box<dyn File> {
        let (inner, door) = (Some(Arc::from(file)), self.door.clone());
        let (waits_for_syncs, unsynced) = (self.waits_for_syncs, AtomicU64::new(0));
        Box::new(PatientFile { name: name.to_owned(), inner, door, waits_for_syncs, unsynced })
    }
}

impl Files for Patient {
    fn list(&self) -> Result<Vec<Listed>> {
        self.run(("list", ""), |files| files.list())
    }

    fn open(&self, name: &str) -> Result<Box<dyn File>> {
        let named = name.to_owned();
        let file = self.run(("open", name), move |files| files.open(&named))?;
        Ok(self.wrap(name, file))
    }

    /// Asked after a sync, by who waits for that.
    fn beginning(&self, name: &str, bytes_max: usize) -> Result<(Vec<u8>, u64)> {
        let named = name.to_owned();
        match self.waits_for_syncs {
            true => self.inner.beginning(name, bytes_max),
            false => self.run(("open", name), move |files| files.beginning(&named, bytes_max)),
        }
    }

    fn create(&self, name: &str) -> Result<Box<dyn File>> {
        let (made, undone) = (name.to_owned(), name.to_owned());
        let (inner, files) = (self.inner.clone(), self.inner.clone());
        // It must not be there when it is asked for again.
        let undo = move |_| drop(files.unlink(&undone));
        let file = self.door.run_or_undo(("create", name), move || inner.create(&made), undo)?;
        Ok(self.wrap(name, file))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let names = (from.to_owned(), to.to_owned());
        self.run(("rename", from), move |files| files.rename(&names.0, &names.1))
    }

    fn unlink(&self, name: &str) -> Result<()> {
        let named = name.to_owned();
        self.run(("unlink", name), move |files| files.unlink(&named))
    }

    fn sync_directory(&self) -> Result<()> {
        match self.waits_for_syncs {
            true => self.inner.sync_directory(),
            false => self.run(("sync", ""), |files| files.sync_directory()),
        }
    }

    fn space(&self) -> Result<Space> {
        self.run(("statvfs", ""), |files| files.space())
    }
}

struct PatientFile {
    name: String,
    /// There until it is dropped.
    inner: Option<Arc<dyn File>>,
    door: Arc<Door>,
    waits_for_syncs: bool,
    /// Written since the last sync, bytes.
    unsynced: AtomicU64,
}

impl PatientFile {
    fn inner(&self) -> Arc<dyn File> {
        self.inner.clone().expect("it is there until the end")
    }
}

impl File for PatientFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let (inner, wanted) = (self.inner(), buffer.len());
        let read = self.door.run(("read", &self.name), move || {
            let mut bytes = vec![0; wanted];
            let count = inner.read_at(&mut bytes, offset)?;
            bytes.truncate(count);
            Ok(bytes)
        })?;
        buffer[..read.len()].copy_from_slice(&read);
        Ok(read.len())
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let (inner, bytes) = (self.inner(), bytes.to_vec());
        let count = bytes.len() as u64;
        self.door.run(("write", &self.name), move || inner.write_at(&bytes, offset))?;
        let unsynced = self.unsynced.fetch_add(count, Ordering::Relaxed) + count;
        if self.waits_for_syncs || unsynced < SYNC_BYTES { Ok(()) } else { self.sync() }
    }

    fn sync(&self) -> Result<()> {
        self.unsynced.store(0, Ordering::Relaxed);
        let inner = self.inner();
        match self.waits_for_syncs {
            true => inner.sync(),
            false => self.door.run(("sync", &self.name), move || inner.sync()),
        }
    }

    fn len(&self) -> Result<u64> {
        let inner = self.inner();
        self.door.run(("stat", &self.name), move || inner.len())
    }
}

impl Drop for PatientFile {
    /// Closing may hang as well.
    fn drop(&mut self) {
        let inner = self.inner.take();
        self.door.post(move || drop(inner));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::Receiver;

    use super::*;
    use crate::store::fault::Memory;

    /// A directory that does not answer before somebody says so.
    struct Hanging {
        inner: Memory,
        gate: Arc<Mutex<Receiver<()>>>,
    }

    struct HangingFile {
        inner: Box<dyn File>,
        gate: Arc<Mutex<Receiver<()>>>,
    }

    fn wait(gate: &Mutex<Receiver<()>>) {
        gate.lock().expect("one thread").recv().expect("somebody says so");
    }

    impl File for HangingFile {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
            self.inner.read_at(buffer, offset)
        }
        fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
            wait(&self.gate);
            self.inner.write_at(bytes, offset)
        }
        fn sync(&self) -> Result<()> {
            self.inner.sync()
        }
        fn len(&self) -> Result<u64> {
            self.inner.len()
        }
    }

    impl Files for Hanging {
        fn list(&self) -> Result<Vec<Listed>> {
            self.inner.list()
        }
        fn open(&self, name: &str) -> Result<Box<dyn File>> {
            self.inner.open(name)
        }
        fn create(&self, name: &str) -> Result<Box<dyn File>> {
            wait(&self.gate);
            let inner = self.inner.create(name)?;
            Ok(Box::new(HangingFile { inner, gate: self.gate.clone() }))
        }
        fn rename(&self, from: &str, to: &str) -> Result<()> {
            self.inner.rename(from, to)
        }
        fn unlink(&self, name: &str) -> Result<()> {
            self.inner.unlink(name)
        }
        fn sync_directory(&self) -> Result<()> {
            self.inner.sync_directory()
        }
        fn space(&self) -> Result<Space> {
            self.inner.space()
        }
    }

    fn directory(patience: Duration) -> (Patient, Memory, Sender<()>) {
        let (open, gate) = channel();
        let memory = Memory::new();
        let hanging = Hanging { inner: memory.clone(), gate: Arc::new(Mutex::new(gate)) };
        let door = Door::start(patience).expect("a thread");
        (Patient::new(Arc::new(hanging), door), memory, open)
    }

    fn until_it_answers(files: &Patient) {
        warren_testkit::wait_until("the directory answers", || !files.door.hangs());
    }

    #[track_caller]
    fn is_late<T>(done: Result<T>) {
        let error = done.err().expect("nothing comes back");
        assert!(matches!(error, Error::Io { errno: ETIMEDOUT, .. }) && error.is_of_device());
    }

    #[test]
    fn what_hangs_is_waited_for_once_and_nothing_overtakes_it() {
        let (files, memory, open) = directory(Duration::from_millis(1));
        is_late(files.create("a"));
        // Without waiting: nobody says anything.
        is_late(files.list());
        is_late(files.open("a"));
        open.send(()).expect("it waits");
        until_it_answers(&files);
        assert_eq!(memory.list().expect("a listing"), [], "what came too late is not there");

        open.send(()).expect("it waits");
        let (files, file) = loop {
            // The directory answers now, but not always within a millisecond.
            match files.create("a") {
                Ok(file) => break (files, file),
                Err(_) => until_it_answers(&files),
            }
            open.send(()).expect("it waits");
        };
        is_late(file.write_at(b"text", 0));
        is_late(file.len());
        open.send(()).expect("it waits");
        until_it_answers(&files);
        let written = memory.open("a").and_then(|file| file.len());
        assert_eq!(written, Ok(4), "it was under way");
    }

    /// Also at the moment at which it is given up: it is one or the other.
    #[test]
    fn an_answer_is_had_or_comes_back() {
        let answer = Answer::awaited();
        assert_eq!(answer.give(1), None);
        assert_eq!(answer.wait(Duration::ZERO), Some(1), "it was there when it was given up");
        assert_eq!(answer.give(2), Some(2));
        let answer = Answer::awaited();
        assert_eq!(answer.wait(Duration::ZERO), None);
        assert_eq!(answer.give(3), Some(3), "it is to be undone");
        assert_eq!(answer.wait(Duration::ZERO), None);
    }

    #[test]
    fn bytes_go_and_come_as_they_are() {
        let door = Door::start(Duration::from_secs(600)).expect("a thread");
        let memory = Memory::new();
        let files = Patient::new(Arc::new(memory.clone()), door);
        let file = files.create("a").expect("no faults");
        file.write_at(b"0123456789", 0).expect("no faults");
        let mut bytes = [0; 7];
        assert_eq!((file.read_at(&mut bytes, 5), &bytes), (Ok(5), b"56789\0\0"));
        assert_eq!(file.len(), Ok(10));
        files.rename("a", "b").expect("no faults");
        let names: Vec<String> =
            files.list().expect("a listing").into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["b"]);
        files.unlink("b").expect("no faults");
        assert_eq!(memory.list().expect("a listing"), []);
        assert!(files.open("b").is_err());
    }
}

//! Directories in memory for the tests of this crate and of those above it. No program uses them.
//!
//! [`Memory`] can fail or stop at any change, and forget what was not synced.
//!
//! The model of a crash: of the bytes written since a file's last sync, every 512-byte sector of
//! every write either reached the device or did not, each on its own; the file may have grown
//! without its content (zeros). Of the creations, renames and removals since the directory's
//! last sync, each happened or did not. What was synced is as it was. A failed sync drops what
//! was not synced, as Linux does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::error::{Error, Result};
use crate::files::{File, Files, Listed, Space};

const SECTOR_BYTES: usize = 512;

/// Numbers that look random, the same for the same seed.
#[derive(Debug, Clone)]
pub struct Numbers(pub u64);

impl Numbers {
    /// The next one, from 0 to below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// What happens at the `at`-th change (from 0) since the plan was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// This one change fails with the error number; half of a write may have happened.
    Once {
        /// Which change, from 0.
        at: usize,
        /// errno(3).
        errno: i32,
    },
    /// The machine stops before this change: it and all after it fail.
    Stop {
        /// Which change, from 0.
        at: usize,
    },
}

#[derive(Debug, Default, Clone)]
struct Inode {
    durable: Vec<u8>,
    now: Vec<u8>,
    /// Ranges written since the last sync.
    dirty: Vec<(usize, usize)>,
}

#[derive(Debug, Clone)]
enum Change {
    Link(String, usize),
    Rename(String, String, usize),
    Unlink(String),
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    unsynced: Vec<Change>,
    fault: Fault,
    changes: usize,
}

/// The directory. Clones are the same directory.
#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<Mutex<State>>);

impl Memory {
    /// An empty one in which nothing fails.
    pub fn new() -> Memory {
        Memory::default()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("no test thread panics with the lock held")
    }

    /// Sets what fails, counting changes from now.
    pub fn plan(&self, fault: Fault) {
        let mut state = self.state();
        (state.fault, state.changes) = (fault, 0);
    }

    /// Changes since the plan was made.
    pub fn changes(&self) -> usize {
        self.state().changes
    }

    /// What a machine finds after the power was cut.
    pub fn after_crash(&self, numbers: &mut Numbers) -> Memory {
        let state = self.state();
        let mut names = state.durable_names.clone();
        for change in &state.unsynced {
            if numbers.below(2) == 0 {
                continue;
            }
            match change {
                Change::Link(name, inode) => {
                    names.insert(name.clone(), *inode);
                }
                Change::Rename(from, to, inode) => {
                    names.remove(from);
                    names.insert(to.clone(), *inode);
                }
                Change::Unlink(name) => {
                    names.remove(name);
                }
            }
        }
        let inodes = state.inodes.iter().map(|inode| inode.after_crash(numbers)).collect();
        Memory::with(inodes, names)
    }

    /// What another process finds after the writer was killed: everything that was written.
    pub fn after_kill(&self) -> Memory {
        let state = self.state();
        let settled = |inode: &Inode| Inode {
            durable: inode.now.clone(),
            now: inode.now.clone(),
            dirty: Vec::new(),
        };
        Memory::with(state.inodes.iter().map(settled).collect(), state.names.clone())
    }

    fn with(inodes: Vec<Inode>, names: BTreeMap<String, usize>) -> Memory {
        let memory = Memory::new();
        let mut state = memory.state();
        (state.inodes, state.durable_names, state.names) = (inodes, names.clone(), names);
        drop(state);
        memory
    }

    /// The content of a file.
    pub fn content(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.inodes[state.names[name]].now.clone()
    }

    /// Replaces the content of a file, behind the writer's back.
    pub fn set_content(&self, name: &str, content: &[u8]) {
        let mut state = self.state();
        let inode = state.names[name];
        state.inodes[inode] =
            Inode { durable: content.to_vec(), now: content.to_vec(), dirty: Vec::new() };
    }
}

impl Inode {
    fn after_crash(&self, numbers: &mut Numbers) -> Inode {
        let mut content = self.durable.clone();
        let grown = match numbers.below(3) {
            0 => content.len(),
            1 => self.now.len(),
            _ => content.len() + numbers.below(self.now.len().saturating_sub(content.len()) + 1),
        };
        content.resize(grown.max(content.len()), 0);
        for &(begin, end) in &self.dirty {
            for sector in begin / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES) {
                let from = begin.max(sector * SECTOR_BYTES);
                let to = end.min((sector + 1) * SECTOR_BYTES).min(content.len());
                if numbers.below(2) == 1 && from < to {
                    content[from..to].copy_from_slice(&self.now[from..to]);
                }
            }
        }
        Inode { durable: content.clone(), now: content, dirty: Vec::new() }
    }
}

impl State {
    /// Counts a change; `Err` when it must not happen (any more).
    fn change(&mut self, op: &'static str, name: &str) -> Result<()> {
        let at = self.changes;
        self.changes += 1;
        let errno = match self.fault {
            Fault::Once { at: planned, errno } if planned == at => errno,
            Fault::Stop { at: planned } if at >= planned => 5,
            _ => return Ok(()),
        };
        Err(Error::Io { op, name: name.to_owned(), errno })
    }
}

fn gone(op: &'static str, name: &str) -> Error {
    Error::Io { op, name: name.to_owned(), errno: 2 }
}

struct MemoryFile {
    memory: Memory,
    inode: usize,
}

impl File for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let state = self.memory.state();
        let rest = state.inodes[self.inode].now.get(offset as usize..).unwrap_or(&[]);
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut state = self.memory.state();
        let result = state.change("write", "a file");
        // A write that fails has written half.
        let once = matches!(state.fault, Fault::Once { .. });
        let count = match &result {
            Ok(()) => bytes.len(),
            Err(_) if once => bytes.len() / 2,
            Err(_) => 0,
        };
        let inode = &mut state.inodes[self.inode];
        let (begin, end) = (offset as usize, offset as usize + count);
        if count > 0 {
            inode.now.resize(inode.now.len().max(end), 0);
            inode.now[begin..end].copy_from_slice(&bytes[..count]);
            inode.dirty.push((begin, end));
        }
        result
    }

    fn sync(&self) -> Result<()> {
        let mut state = self.memory.state();
        let result = state.change("sync", "a file");
        let stopped = matches!(state.fault, Fault::Stop { .. });
        let inode = &mut state.inodes[self.inode];
        match &result {
            Ok(()) => inode.durable = inode.now.clone(),
            Err(_) if stopped => return result,
            // The kernel reports the error once and takes the pages for clean; they may be
            // dropped from memory at any time.
            Err(_) => inode.now = inode.durable.clone(),
        }
        inode.dirty.clear();
        result
    }

    fn len(&self) -> Result<u64> {
        Ok(self.memory.state().inodes[self.inode].now.len() as u64)
    }
}

impl Files for Memory {
    fn list(&self) -> Result<Vec<Listed>> {
        let state = self.state();
        let listed = |(name, &inode): (&String, &usize)| Listed {
            name: name.clone(),
            bytes: state.inodes[inode].now.len() as u64,
        };
        Ok(state.names.iter().map(listed).collect())
    }

    fn open(&self, name: &str) -> Result<Box<dyn File>> {
        let inode = *self.state().names.get(name).ok_or_else(|| gone("open", name))?;
        Ok(Box::new(MemoryFile { memory: self.clone(), inode }))
    }

    fn create(&self, name: &str) -> Result<Box<dyn File>> {
        let mut state = self.state();
        state.change("create", name)?;
        assert!(!state.names.contains_key(name), "{name} is created twice");
        let inode = state.inodes.len();
        state.inodes.push(Inode::default());
        state.names.insert(name.to_owned(), inode);
        state.unsynced.push(Change::Link(name.to_owned(), inode));
        Ok(Box::new(MemoryFile { memory: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let mut state = self.state();
        state.change("rename", from)?;
        let inode = state.names.remove(from).ok_or_else(|| gone("rename", from))?;
        state.names.insert(to.to_owned(), inode);
        state.unsynced.push(Change::Rename(from.to_owned(), to.to_owned(), inode));
        Ok(())
    }

    fn unlink(&self, name: &str) -> Result<()> {
        let mut state = self.state();
        if !state.names.contains_key(name) {
            return Ok(());
        }
        state.change("unlink", name)?;
        state.names.remove(name);
        state.unsynced.push(Change::Unlink(name.to_owned()));
        Ok(())
    }

    fn sync_directory(&self) -> Result<()> {
        let mut state = self.state();
        state.change("sync", "the directory")?;
        state.durable_names = state.names.clone();
        state.unsynced.clear();
        Ok(())
    }

    fn space(&self) -> Result<Space> {
        Ok(Space { free_bytes: 1 << 30, total_bytes: 1 << 31 })
    }
}

/// A directory to be read, in which something is not as usual.
pub struct FaultyReads {
    /// The directory.
    pub inner: Memory,
    /// What is wrong with it.
    pub fault: ReadFault,
}

/// What is not as usual in a directory that is read.
pub enum ReadFault {
    /// The device does not give this file: at once, or when it is read.
    Broken {
        /// Its name.
        name: String,
        /// It can be opened, and fails when it is read.
        opens: bool,
    },
    /// It is changed while it is listed the first time: one file is in neither part.
    Changing {
        /// How often it was listed.
        lists: AtomicUsize,
    },
}

/// No byte of it can be had.
struct Bad {
    name: String,
    bytes: u64,
}

fn no_device<T>(op: &'static str, name: &str) -> Result<T> {
    Err(Error::Io { op, name: name.to_owned(), errno: 5 })
}

impl File for Bad {
    fn read_at(&self, _: &mut [u8], _: u64) -> Result<usize> {
        no_device("read", &self.name)
    }
    fn write_at(&self, _: &[u8], _: u64) -> Result<()> {
        no_device("write", &self.name)
    }
    fn sync(&self) -> Result<()> {
        no_device("sync", &self.name)
    }
    fn len(&self) -> Result<u64> {
        Ok(self.bytes)
    }
}

impl Files for FaultyReads {
    fn list(&self) -> Result<Vec<Listed>> {
        let mut all = self.inner.list()?;
        if let ReadFault::Changing { lists } = &self.fault
            && lists.fetch_add(1, Ordering::SeqCst) == 0
        {
            all.remove(0);
        }
        Ok(all)
    }
    fn open(&self, name: &str) -> Result<Box<dyn File>> {
        match &self.fault {
            ReadFault::Broken { name: bad, opens } if bad == name => match opens {
                true => Ok(Box::new(Bad { name: name.to_owned(), bytes: 1 << 20 })),
                false => no_device("open", name),
            },
            _ => self.inner.open(name),
        }
    }
    fn create(&self, name: &str) -> Result<Box<dyn File>> {
        self.inner.create(name)
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

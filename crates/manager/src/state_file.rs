//! The state file: a memfd that init keeps, to which every batch appends what changed.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_core::ids::UnitId;
use warren_core::machine::Core;
use warren_core::record::{self, Manager, Restored, Unusable};
use warren_sys::memfd;

/// Largest state file that is read back, in bytes.
const STATE_BYTES_MAX: usize = 1 << 30;

/// Compaction begins no earlier than at this size, in bytes.
const COMPACT_BYTES_MIN: u64 = 4 << 20;

/// The state file of this incarnation.
pub struct StateFile {
    fd: OwnedFd,
    end: u64,
    /// Size after the last compaction.
    base: u64,
    names_written: usize,
    manager_written: Option<Manager>,
    scratch: Vec<u8>,
}

/// A state file that cannot be written to any more.
pub type StateError = warren_sys::Error;

impl StateFile {
    /// A new, empty file.
    pub fn create() -> Result<StateFile, StateError> {
        let fd = memfd::create("warren-state")?;
        let header = record::header();
        warren_sys::file::write_at(fd.as_fd(), &header, 0)?;
        let end = header.len() as u64;
        Ok(StateFile {
            fd,
            end,
            base: end,
            names_written: 0,
            manager_written: None,
            scratch: Vec::new(),
        })
    }

    /// Goes on with the file of the last incarnation.
    pub fn open(fd: OwnedFd) -> Result<(StateFile, Result<Restored, Unusable>), StateError> {
        let bytes = memfd::read_all(fd.as_fd(), STATE_BYTES_MAX)?;
        let restored = record::read(&bytes);
        let (end, names) = match &restored {
            Ok(restored) => (restored.valid_bytes as u64, restored.names.len()),
            Err(_) => (0, 0),
        };
        let file = StateFile {
            fd,
            end,
            base: end,
            names_written: names,
            manager_written: None,
            scratch: Vec::new(),
        };
        Ok((file, restored))
    }

    /// The memfd, for init's store.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Appends the run state of `changed` units, and names and counters that are new.
    pub fn append(
        &mut self,
        core: &Core,
        changed: impl IntoIterator<Item = UnitId>,
    ) -> Result<(), StateError> {
        let mut out = std::mem::take(&mut self.scratch);
        out.clear();
        self.encode(&mut out, core, changed);
        let result = if out.is_empty() {
            Ok(())
        } else {
            warren_sys::file::write_at(self.fd.as_fd(), &out, self.end)
        };
        self.end += out.len() as u64;
        out.shrink_to(1 << 16);
        self.scratch = out;
        result
    }

    fn encode(
        &mut self,
        out: &mut Vec<u8>,
        core: &Core,
        changed: impl IntoIterator<Item = UnitId>,
    ) {
        let graph = core.graph();
        if self.names_written < graph.len() {
            record::write_names(out, graph, self.names_written);
            self.names_written = graph.len();
        }
        for unit in changed {
            record::write_unit(out, unit, core.unit_run(unit));
        }
        let manager = core.manager_record();
        if !out.is_empty() && self.manager_written != Some(manager) {
            record::write_manager(out, manager);
            self.manager_written = Some(manager);
        }
    }

    /// Whether a rewrite would make the file much smaller.
    pub fn wants_compaction(&self) -> bool {
        self.end > COMPACT_BYTES_MIN && self.end > 2 * self.base
    }

    /// A new file with only the last state of each unit that has one.
    pub fn compacted(&self, core: &Core) -> Result<StateFile, StateError> {
        let mut new = StateFile::create()?;
        let idle = |unit: &UnitId| {
            let run = core.unit_run(*unit);
            run.job.is_none() && run.history.is_none() && run.active_state().is_down()
        };
        let all = (0..core.graph().len()).map(|i| UnitId(i as u32));
        new.append(core, all.filter(|unit| !idle(unit)))?;
        new.base = new.end;
        Ok(new)
    }
}

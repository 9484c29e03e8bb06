//! The state file: a memfd that init keeps, to which every batch appends what changed.

use std::collections::BTreeSet;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use warren_core::machine::Core;
use warren_core::model::ids::UnitId;
use warren_core::model::state::BootTimes;
use warren_core::persist::run_state;
use warren_core::persist::run_state::{ClientSettings, Late, Manager, Restored, Unusable};
use warren_sys::memfd;

/// Largest state file that is read back, in bytes.
const STATE_BYTES_MAX: usize = 1 << 30;

/// Compaction begins no earlier than at this size, in bytes.
const COMPACT_BYTES_MIN: u64 = 4 << 20;

/// While everything ends, compaction begins at so many times the usual size.
const ENDING_TIMES: u64 = 4;

/// The state file of this incarnation.
pub struct StateFile {
    fd: OwnedFd,
    end: u64,
    /// Size after the last compaction.
    base: u64,
    names_written: usize,
    manager_written: Option<Manager>,
    boot_written: BootTimes,
    client_settings: ClientSettings,
    /// They are other than what is written.
    owes_settings: bool,
    /// The last batch that was written has late effects.
    late_written: bool,
    /// Units of batches that could not be written.
    owed: BTreeSet<UnitId>,
    /// Those of them whose ids mean something else now.
    owed_names: BTreeSet<UnitId>,
    scratch: Vec<u8>,
}

/// A state file that cannot be written to any more.
pub type StateError = warren_sys::Error;

/// A state file that cannot be gone on with. It is left as it is: who understands it finds all of it.
#[derive(Debug)]
pub enum OpenError {
    /// It cannot be read.
    System(StateError),
    /// It is not understood.
    Unusable(Unusable),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self {
            OpenError::System(error) => return write!(f, "reading the state file: {error}"),
            OpenError::Unusable(Unusable::NotAStateFile) => "is damaged".to_owned(),
            OpenError::Unusable(Unusable::Version(version)) => {
                let own = run_state::VERSION;
                format!("has version {version}; this warrend reads versions up to {own}")
            }
        };
        write!(
            f,
            "the run state of the previous manager {what}. Services keep running but are not managed. Install the \
             version of Warrener that wrote it, or restart the machine"
        )
    }
}

impl StateFile {
    /// A new, empty file.
    pub fn create() -> Result<StateFile, StateError> {
        let fd = memfd::create("warren-state")?;
        let header = run_state::header();
        warren_sys::file::write_at(fd.as_fd(), &header, 0)?;
        let end = header.len() as u64;
        Ok(StateFile {
            fd,
            end,
            base: end,
            names_written: 0,
            manager_written: None,
            boot_written: BootTimes::default(),
            client_settings: ClientSettings::default(),
            owes_settings: false,
            late_written: false,
            owed: BTreeSet::new(),
            owed_names: BTreeSet::new(),
            scratch: Vec::new(),
        })
    }

    /// Goes on with the file of the last incarnation.
    pub fn open(fd: OwnedFd) -> Result<(StateFile, Restored), OpenError> {
        let bytes = memfd::read_all(fd.as_fd(), STATE_BYTES_MAX).map_err(OpenError::System)?;
        let restored = run_state::read(&bytes).map_err(OpenError::Unusable)?;
        let (end, names) = (restored.valid_bytes as u64, restored.names.len());
        // What is left of a batch that was cut would be read after shorter ones to come.
        warren_sys::file::set_length(fd.as_fd(), end).map_err(OpenError::System)?;
        let file = StateFile {
            fd,
            end,
            base: end,
            names_written: names,
            manager_written: None,
            boot_written: BootTimes::default(),
            client_settings: restored.client_settings.clone(),
            owes_settings: false,
            late_written: true,
            owed: BTreeSet::new(),
            owed_names: BTreeSet::new(),
            scratch: Vec::new(),
        };
        Ok((file, restored))
    }

    /// What clients set of the manager.
    pub fn client_settings(&self) -> &ClientSettings {
        &self.client_settings
    }

    /// Has the next batch say so.
    pub fn set_client_settings(&mut self, settings: ClientSettings) {
        self.owes_settings |= self.client_settings != settings;
        self.client_settings = settings;
    }

    /// The memfd, for init's store.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Appends one batch: the run state of `changed` units, names and counters that are new, ids
    /// that mean something else now (`renamed`), and what else follows from it. A batch that cannot be
    /// written is written over by the next, which has what it had.
    pub fn append(
        &mut self,
        core: &Core,
        changed: impl IntoIterator<Item = UnitId>,
        renamed: &BTreeSet<UnitId>,
        late: Vec<Late>,
    ) -> Result<(), StateError> {
        if self.owed.is_empty() && self.owed_names.is_empty() {
            let changed: Vec<UnitId> = changed.into_iter().collect();
            return self.try_append(core, &changed, renamed, late).inspect_err(|_| {
                self.owed.extend(changed);
                self.owed_names.extend(renamed);
            });
        }
        self.owed.extend(changed);
        self.owed_names.extend(renamed);
        let changed: Vec<UnitId> = self.owed.iter().copied().collect();
        let renamed = self.owed_names.clone();
        self.try_append(core, &changed, &renamed, late)?;
        (self.owed, self.owed_names) = (BTreeSet::new(), BTreeSet::new());
        Ok(())
    }

    fn try_append(
        &mut self,
        core: &Core,
        changed: &[UnitId],
        renamed: &BTreeSet<UnitId>,
        late: Vec<Late>,
    ) -> Result<(), StateError> {
        let written = (self.names_written, self.manager_written, self.boot_written);
        let owed_settings = self.owes_settings;
        let mut frames = std::mem::take(&mut self.scratch);
        frames.clear();
        let records = self.encode(&mut frames, core, changed, renamed);
        let mut result = Ok(());
        // Without new records the last batch may still have something late to be forgotten.
        if records > 0 || !late.is_empty() || self.late_written {
            let has_late = !late.is_empty();
            let mut out = Vec::with_capacity(frames.len() + 64);
            run_state::write_batch(&mut out, &frames, records, late);
            result = warren_sys::file::write_at(self.fd.as_fd(), &out, self.end);
            match result {
                Ok(()) => {
                    self.end += out.len() as u64;
                    self.late_written = has_late;
                }
                Err(_) => {
                    (self.names_written, self.manager_written, self.boot_written) = written;
                    self.owes_settings = owed_settings;
                    // What the kernel took of it.
                    let _ = warren_sys::file::set_length(self.fd.as_fd(), self.end);
                }
            }
        }
        frames.shrink_to(1 << 16);
        self.scratch = frames;
        result
    }

    fn encode(
        &mut self,
        out: &mut Vec<u8>,
        core: &Core,
        changed: &[UnitId],
        renamed: &BTreeSet<UnitId>,
    ) -> u32 {
        let graph = core.graph();
        let mut records = 0;
        for &unit in renamed.iter().filter(|unit| unit.index() < self.names_written) {
            run_state::write_name(out, graph, unit);
            records += 1;
        }
        if self.names_written < graph.len() {
            records += run_state::write_names(out, graph, self.names_written);
            self.names_written = graph.len();
        }
        for &unit in changed {
            let group = core.placed_at(unit);
            records += run_state::write_unit(out, unit, core.unit_run(unit), group.as_deref());
        }
        let manager = core.manager_record();
        if self.manager_written != Some(manager) {
            run_state::write_manager(out, manager);
            self.manager_written = Some(manager);
            records += 1;
        }
        if self.boot_written != core.boot_times() {
            self.boot_written = core.boot_times();
            run_state::write_boot(out, self.boot_written);
            records += 1;
        }
        if std::mem::take(&mut self.owes_settings) {
            records += run_state::write_client_settings(out, &self.client_settings);
        }
        records
    }

    /// Whether a rewrite would make the file much smaller. While everything ends, which is soon over,
    /// it may become larger.
    pub fn wants_compaction(&self, ending: bool) -> bool {
        let times = if ending { ENDING_TIMES } else { 1 };
        self.end > COMPACT_BYTES_MIN * times && self.end > 2 * self.base * times
    }

    /// It could not be rewritten: that is tried again when it has grown as much once more.
    pub fn put_compaction_off(&mut self) {
        self.base = self.end;
    }

    /// A new file with only the last state of each unit that has one, and what follows from this
    /// batch.
    pub fn compacted(&self, core: &Core, late: Vec<Late>) -> Result<StateFile, StateError> {
        let mut new = StateFile::create()?;
        new.set_client_settings(self.client_settings.clone());
        let idle = |unit: &UnitId| {
            let run = core.unit_run(*unit);
            run.job.is_none() && run.history.is_none() && run.active_state().is_down()
        };
        let all = (0..core.graph().len()).map(|i| UnitId(i as u32));
        new.append(core, all.filter(|unit| !idle(unit)), &BTreeSet::new(), late)?;
        new.base = new.end;
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::sync::Arc;

    use warren_core::graph::{Delta, Graph};
    use warren_core::model::time::Moment;
    use warren_core::protocol::event::Event;
    use warren_core::settings::Settings;
    use warren_unit::{Context, Defaults, UnitName};

    use super::*;
    use warren_core::persist::run_state::{ClientLog, ClientWatchdog};
    use warren_unit::config::ShowStatus;

    fn restored(file: &StateFile) -> Restored {
        let bytes = memfd::read_all(file.fd(), STATE_BYTES_MAX).expect("it can be read");
        run_state::read(&bytes).expect("a state file")
    }

    /// The kernel may have no memory for it.
    #[test]
    fn what_could_not_be_written_is_in_the_next_batch() {
        let settings = Settings {
            context: Arc::new(Context::system()),
            defaults: Arc::new(Defaults::default()),
        };
        let mut core = Core::new(settings, 1);
        let name = UnitName::parse("a.service").expect("a name");
        let graph = Arc::new(Graph::with_names(vec![Some(name.clone())]));
        let delta = Box::new(Delta::default());
        core.step(Moment::default(), Event::Commit { graph, delta });
        let unit = core.graph().lookup(&name).expect("it has an id");
        let mut file = StateFile::create().expect("a memfd");
        let path = format!("/proc/self/fd/{}", file.fd.as_raw_fd());
        let read_only = std::fs::File::open(path).expect("it can be opened");
        let writable = std::mem::replace(&mut file.fd, read_only.into());
        let none = BTreeSet::new();
        file.append(&core, [unit], &none, Vec::new()).expect_err("it is not open for writing");
        file.fd = writable;
        assert_eq!(restored(&file).names, []);
        file.append(&core, [], &none, Vec::new()).expect("it is written");
        let now = restored(&file);
        assert_eq!(now.names, [Some(name)]);
        assert!(now.runs.contains_key(&unit) && now.manager.is_some());
        let end = file.end;
        file.append(&core, [], &none, Vec::new()).expect("there is nothing to write");
        assert_eq!(file.end, end);
    }

    #[test]
    fn what_clients_set_is_in_the_next_batch_and_in_every_file_to_come() {
        let settings = Settings {
            context: Arc::new(Context::system()),
            defaults: Arc::new(Defaults::default()),
        };
        let core = Core::new(settings, 1);
        let mut file = StateFile::create().expect("a memfd");
        let none = BTreeSet::new();
        file.append(&core, [], &none, Vec::new()).expect("it is written");
        assert_eq!(restored(&file).client_settings, ClientSettings::default());
        let environment = Some([("A".into(), "b c".into())].into());
        let log = ClientLog { level: Some(4), target: None };
        let (service_watchdogs, show_status) = (Some(false), Some(ShowStatus::Error));
        let watchdog = ClientWatchdog { pre_us: Some(u64::MAX), ..ClientWatchdog::default() };
        let set = ClientSettings {
            environment,
            exit_code: 7,
            log,
            service_watchdogs,
            show_status,
            watchdog,
        };
        file.set_client_settings(set.clone());
        let path = format!("/proc/self/fd/{}", file.fd.as_raw_fd());
        let read_only = std::fs::File::open(path).expect("it can be opened");
        let writable = std::mem::replace(&mut file.fd, read_only.into());
        file.append(&core, [], &none, Vec::new()).expect_err("it is not open for writing");
        file.fd = writable;
        file.append(&core, [], &none, Vec::new()).expect("it is written");
        assert_eq!(restored(&file).client_settings, set);
        let compacted = file.compacted(&core, Vec::new()).expect("a memfd");
        assert_eq!(restored(&compacted).client_settings, set);
        let (mut opened, _) = StateFile::open(compacted.fd).expect("it can be read");
        assert_eq!(opened.client_settings(), &set);
        opened.set_client_settings(ClientSettings::default());
        opened.append(&core, [], &none, Vec::new()).expect("it is written");
        assert_eq!(restored(&opened).client_settings, ClientSettings::default());
    }
}

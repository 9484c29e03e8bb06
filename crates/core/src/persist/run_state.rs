//! Run state in writing: what lets the next incarnation of the manager go on where this one was
//! killed.
//!
//! The state file is a header and a row of frames. After each batch the units that changed are
//! appended; the last record of each unit counts. Ids are kept over restarts because the names are
//! written down in their order. A frame that was cut or damaged ends the file: what follows it was
//! never acted on, since effects are carried out after their cause was written.
//!
//! The frames of one batch count together or not at all, and its head says what else follows from
//! it: effects that nobody answers and that must not be left out either. They are done again if
//! theirs is the last batch, which is why each of them can be done twice.
//!
//! A change of the types in [`crate::model::state`] is a new [`VERSION`]; files of old versions are kept
//! as fixtures and must load.

use crate::graph::Graph;
use crate::model::admin_marks::{Markers, Notes, Remark};
use crate::model::command_line::CommandLine;
use crate::model::dynamic_user::DynamicUser;
use crate::model::ids::Serial;
use crate::model::ids::UnitId;
use crate::model::reason::Reason;
use crate::model::state::{Account, BootTimes, Clearing, Freezer, Relapse, TimerMemory, UnitRun};
use crate::protocol::event::{Effect, KillTarget};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use warren_unit::config::ShowStatus;
use warren_unit::{LoadState, UnitName};

/// Version of the records that are written.
pub const VERSION: u32 = 14;

/// The oldest version that is read.
const VERSION_MIN: u32 = 1;

/// First bytes of every state file.
const MAGIC: &[u8; 8] = b"WARRENST";

/// Largest frame that is believed, in bytes: names go in frames of at most [`NAMES_PER_FRAME`].
const FRAME_BYTES_MAX: usize = 1 << 24;

const NAMES_PER_FRAME: usize = 4096;

#[derive(Serialize, Deserialize)]
enum Record<'r> {
    /// Names of the ids from `first` on, in order; an empty one is a unit that was forgotten. What
    /// was said of these ids before counts no more.
    Names { first: u32, names: Vec<String> },
    /// Run state of one unit.
    Unit { unit: UnitId, run: Cow<'r, UnitRun> },
    /// Counters and the state of the manager as a whole.
    Manager(Manager),
    /// Head of a batch: how many records belong to it, and what follows from it.
    Batch { records: u32, late: Vec<Late> },
    /// What administrators said of a unit; follows the unit's own record. Since version 2.
    Notes { unit: UnitId, notes: Notes },
    /// What the last restart of a service answered; follows the unit's own record. Since version 3.
    Relapse { unit: UnitId, relapse: Relapse },
    /// The last start that was refused; follows the unit's own record. Since version 4.
    Refusal { unit: UnitId, refusal: Cow<'r, Remark> },
    /// How the last start and run went; follows the unit's own record. Since version 5.
    Account { unit: UnitId, account: Cow<'r, Account> },
    /// When the boot was at what. Since version 5.
    Boot(BootTimes),
    /// The unit is frozen, or on the way; follows the unit's own record. Since version 5.
    Freezer { unit: UnitId, freezer: Freezer },
    /// A rule is to stop the unit, when jobs let it; follows the unit's own record. Since version 5.
    OwedStop { unit: UnitId, reason: Reason },
    /// What it left in the file system is being removed; follows the unit's own record. Since version 5.
    Clearing { unit: UnitId, clearing: Clearing },
    /// What clients set of the manager itself. Since version 6.
    ClientSettings(Cow<'r, ClientSettings>),
    /// The path of the unit's cgroup below the root of the tree; follows the unit's own record. Since version 7.
    Group { unit: UnitId, path: Cow<'r, str> },
    /// The commands that were run; follows the unit's own record. Since version 7.
    Lines { unit: UnitId, lines: Cow<'r, [CommandLine]> },
    /// How many managers ended during the removal that is under way; follows its record. Since version 9.
    ClearingEnds { unit: UnitId, managers: u8 },
    /// When a timer last elapsed; follows the unit's own record. Since version 10.
    Timer { unit: UnitId, timer: TimerMemory },
    /// Who the processes of the unit are; follows the unit's own record. Since version 11.
    DynamicUser { unit: UnitId, user: Cow<'r, DynamicUser> },
    /// What others have noted that the unit needs; follows the unit's own record. Since version 12.
    Markers { unit: UnitId, markers: Markers },
    /// What clients set of the manager's own messages; follows what else they set. Since version 12.
    ClientLog(Cow<'r, ClientLog>),
    /// Whether clients have service watchdogs acted on; follows what else they set. Since version 12.
    ServiceWatchdogs(bool),
    /// What clients have shown on the console, a word of ShowStatus=; follows what else they set. Since version 13.
    ShowStatus(Cow<'r, str>),
    /// What clients set of the machine's watchdog; follows what else they set. Since version 14.
    Watchdog(Cow<'r, ClientWatchdog>),
}

/// An effect without an answer, to be done again if the manager ends over it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Late {
    /// [`Effect::KillGroup`]
    KillGroup(UnitId),
    /// [`Effect::Kill`] of one process: the unit, the process, the signal, SIGHUP and SIGCONT.
    Kill(UnitId, u32, i32, bool, bool),
    /// [`Effect::CleanUp`] and whether it restarts.
    CleanUp(UnitId, bool),
    /// [`Effect::CloseSockets`]
    CloseSockets(UnitId),
    /// [`Effect::AnswerTrap`]
    AnswerTrap(UnitId, Vec<u32>, bool),
    /// [`Effect::CloseTrap`]
    CloseTrap(UnitId),
    /// [`Effect::Emergency`]: the unit, the action's word, the exit status. Since version 6.
    Emergency(UnitId, Box<str>, Option<u8>),
    /// [`Effect::LimitGroup`]: what the unit's settings of then say, not what they say no more. Since version 8.
    LimitGroup(UnitId),
    /// [`Effect::StampTimer`]: the timer, µs since 1970. Since version 10.
    StampTimer(UnitId, u64),
}

impl Late {
    /// What is to be written down of an effect; nothing if it is answered, or asked for again
    /// anyway, or of no consequence.
    pub fn of(effect: &Effect) -> Option<Late> {
        Some(match effect {
            Effect::KillGroup { unit } => Late::KillGroup(*unit),
            Effect::Kill { unit, target: KillTarget::Process(pid), signal, then, .. } => {
                Late::Kill(*unit, *pid, *signal, then.hangup, then.resume)
            }
            Effect::CleanUp { unit, restarting, .. } => Late::CleanUp(*unit, *restarting),
            Effect::CloseSockets { unit, .. } => Late::CloseSockets(*unit),
            Effect::AnswerTrap { unit, tokens, ok } => Late::AnswerTrap(*unit, tokens.clone(), *ok),
            Effect::CloseTrap { unit } => Late::CloseTrap(*unit),
            Effect::Emergency { action, unit, status, .. } => {
                Late::Emergency(*unit, action.as_str().into(), *status)
            }
            Effect::LimitGroup { unit, .. } => Late::LimitGroup(*unit),
            Effect::StampTimer { unit, at_us, .. } => Late::StampTimer(*unit, *at_us),
            _ => return None,
        })
    }

    /// The unit that it is about.
    pub fn unit(&self) -> UnitId {
        match *self {
            Late::KillGroup(unit)
            | Late::Kill(unit, ..)
            | Late::CleanUp(unit, _)
            | Late::CloseSockets(unit)
            | Late::AnswerTrap(unit, ..)
            | Late::CloseTrap(unit)
            | Late::Emergency(unit, ..)
            | Late::StampTimer(unit, _)
            | Late::LimitGroup(unit) => unit,
        }
    }
}

/// What is kept of the manager as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Manager {
    /// Counters that go on.
    pub serial: Serial,
    /// The boot transaction has been worked off.
    pub startup_finished: bool,
    /// The system is shutting down.
    pub stopping: bool,
    /// Jobs ever installed.
    pub jobs_ever: u32,
    /// Jobs ever failed.
    pub failed_jobs_ever: u32,
    /// Number of the generation in force.
    pub generation: u64,
    /// What is done when everything is stopped, in the runner's words; 0 if it is not going down.
    pub ending: u16,
}

/// What clients set of the manager itself.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClientSettings {
    /// Variables that services inherit; none if they are those that the manager begins with.
    pub environment: Option<BTreeMap<Box<str>, Box<str>>>,
    /// What the manager of a user or container exits with (org.freedesktop.systemd1(5), `SetExitCode()`).
    pub exit_code: u8,
    /// Of its own messages; a record of its own.
    #[serde(skip)]
    pub log: ClientLog,
    /// Whether service watchdogs are acted on, if they say so; a record of its own.
    #[serde(skip)]
    pub service_watchdogs: Option<bool>,
    /// What the console shows of units, if they say so; a record of its own.
    #[serde(skip)]
    pub show_status: Option<ShowStatus>,
    /// Of the machine's watchdog; a record of its own.
    #[serde(skip)]
    pub watchdog: ClientWatchdog,
}

/// What clients set of the machine's watchdog (org.freedesktop.systemd1(5)), in place of what the manager's file says.
/// Times are in µs: 0 for no use of the device, all bits for the time that it has by itself.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ClientWatchdog {
    pub runtime_us: Option<u64>,
    pub pre_us: Option<u64>,
    pub reboot_us: Option<u64>,
    pub kexec_us: Option<u64>,
    /// What the kernel does a while before the reset.
    pub governor: Option<Box<str>>,
}

/// What clients set of the manager's own messages (systemctl(1), `log-level` and `log-target`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ClientLog {
    /// Up to this level of syslog(3), if not all.
    pub level: Option<u8>,
    /// The word for where they go, if not as the manager was told at its start.
    pub target: Option<Box<str>>,
}

/// What a state file says.
#[derive(Debug, Default)]
pub struct Restored {
    /// Unit names by id; none for a unit that was forgotten.
    pub names: Vec<Option<UnitName>>,
    /// The last run state of each unit.
    pub runs: BTreeMap<UnitId, UnitRun>,
    /// Paths of cgroups below the root of the tree. Those of before version 7 are not known.
    pub groups: BTreeMap<UnitId, Box<str>>,
    /// The manager's own.
    pub manager: Option<Manager>,
    /// When the boot was at what.
    pub boot: BootTimes,
    /// What clients set of the manager.
    pub client_settings: ClientSettings,
    /// What followed from the last batch.
    pub late: Vec<Late>,
    /// Bytes up to the end of the last whole frame.
    pub valid_bytes: usize,
}

/// Why a state file cannot be used at all.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// It does not begin as a state file does.
    NotAStateFile,
    /// It was written by a version that this one does not know.
    Version(u32),
}

/// The bytes that a state file begins with.
pub fn header() -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend(VERSION.to_le_bytes());
    out
}

/// Appends the names of the ids from `first` on; returns how many records that took.
pub fn write_names(out: &mut Vec<u8>, graph: &Graph, first: usize) -> u32 {
    let mut first = first;
    let mut records = 0;
    while first < graph.len() {
        let end = graph.len().min(first + NAMES_PER_FRAME);
        let names = (first..end).map(|i| written_name(graph, UnitId(i as u32))).collect();
        write_frame(out, &Record::Names { first: first as u32, names });
        first = end;
        records += 1;
    }
    records
}

/// Appends what an id that was written before means now.
pub fn write_name(out: &mut Vec<u8>, graph: &Graph, unit: UnitId) {
    let names = vec![written_name(graph, unit)];
    write_frame(out, &Record::Names { first: unit.0, names });
}

fn written_name(graph: &Graph, unit: UnitId) -> String {
    match graph.definition(unit).load_state {
        LoadState::Stub => String::new(),
        _ => graph.name(unit).to_string(),
    }
}

/// Appends one unit's run state, with the path of its cgroup; returns how many records that took.
pub fn write_unit(out: &mut Vec<u8>, unit: UnitId, run: &UnitRun, group: Option<&str>) -> u32 {
    write_frame(out, &Record::Unit { unit, run: Cow::Borrowed(run) });
    let mut records = 1;
    if let Some(path) = group {
        write_frame(out, &Record::Group { unit, path: Cow::Borrowed(path) });
        records += 1;
    }
    if let Some(notes) = run.notes().cloned() {
        write_frame(out, &Record::Notes { unit, notes });
        records += 1;
    }
    if let Some(&relapse) = run.history.as_ref().and_then(|history| history.relapse.as_deref()) {
        write_frame(out, &Record::Relapse { unit, relapse });
        records += 1;
    }
    if let Some(refusal) = run.history.as_ref().and_then(|history| history.refusal.as_deref()) {
        write_frame(out, &Record::Refusal { unit, refusal: Cow::Borrowed(refusal) });
        records += 1;
    }
    if let Some(account) = run.history.as_ref().and_then(|history| history.account.as_deref()) {
        write_frame(out, &Record::Account { unit, account: Cow::Borrowed(account) });
        records += 1;
    }
    let lines = run.history.as_ref().map(|history| &history.lines[..]).unwrap_or_default();
    if !lines.is_empty() {
        write_frame(out, &Record::Lines { unit, lines: Cow::Borrowed(lines) });
        records += 1;
    }
    let freezer = run.history.as_ref().map(|history| history.freezer).unwrap_or_default();
    if freezer != Freezer::Running {
        write_frame(out, &Record::Freezer { unit, freezer });
        records += 1;
    }
    if let Some(reason) = run.history.as_ref().and_then(|history| history.owed_stop) {
        write_frame(out, &Record::OwedStop { unit, reason });
        records += 1;
    }
    if let Some(clearing) = run.history.as_ref().and_then(|history| history.clearing) {
        write_frame(out, &Record::Clearing { unit, clearing });
        records += 1;
        if clearing.managers_ended > 0 {
            let managers = clearing.managers_ended;
            write_frame(out, &Record::ClearingEnds { unit, managers });
            records += 1;
        }
    }
    if let Some(user) = run.history.as_ref().and_then(|history| history.dynamic_user.as_deref()) {
        write_frame(out, &Record::DynamicUser { unit, user: Cow::Borrowed(user) });
        records += 1;
    }
    let markers = run.history.as_ref().map(|history| history.markers).unwrap_or_default();
    if !markers.is_empty() {
        write_frame(out, &Record::Markers { unit, markers });
        records += 1;
    }
    if let Some(timer) = run.history.as_ref().and_then(|history| history.timer) {
        write_frame(out, &Record::Timer { unit, timer });
        records += 1;
    }
    records
}

/// Appends the manager's own state.
pub fn write_manager(out: &mut Vec<u8>, manager: Manager) {
    write_frame(out, &Record::Manager(manager));
}

/// Appends when the boot was at what.
pub fn write_boot(out: &mut Vec<u8>, boot: BootTimes) {
    write_frame(out, &Record::Boot(boot));
}

/// Appends what clients set of the manager; says how many records that is.
pub fn write_client_settings(out: &mut Vec<u8>, settings: &ClientSettings) -> u32 {
    write_frame(out, &Record::ClientSettings(Cow::Borrowed(settings)));
    let log = Some(&settings.log).filter(|log| **log != ClientLog::default());
    let (watchdogs, shown) = (settings.service_watchdogs, settings.show_status);
    log.inspect(|log| write_frame(out, &Record::ClientLog(Cow::Borrowed(log))));
    watchdogs.inspect(|on| write_frame(out, &Record::ServiceWatchdogs(*on)));
    shown.inspect(|shown| write_frame(out, &Record::ShowStatus(shown.as_str().into())));
    let watchdog = Some(&settings.watchdog).filter(|set| **set != ClientWatchdog::default());
    watchdog.inspect(|set| write_frame(out, &Record::Watchdog(Cow::Borrowed(set))));
    let more = [log.is_some(), watchdogs.is_some(), shown.is_some(), watchdog.is_some()];
    1 + more.map(u32::from).iter().sum::<u32>()
}

/// Appends the frames of a batch, of which there are `records`, under a head of their own.
pub fn write_batch(out: &mut Vec<u8>, frames: &[u8], records: u32, late: Vec<Late>) {
    write_frame(out, &Record::Batch { records, late });
    out.extend_from_slice(frames);
}

fn write_frame(out: &mut Vec<u8>, record: &Record<'_>) {
    let at = out.len();
    out.extend([0; 8]);
    *out = postcard::to_extend(record, std::mem::take(out))
        .expect("run state is plain data and a vector never refuses bytes");
    let payload = at + 8;
    let length = u32::try_from(out.len() - payload).expect("frames are small");
    let checksum = crc32fast::hash(&out[payload..]);
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
    out[at + 4..payload].copy_from_slice(&checksum.to_le_bytes());
}

/// Reads a state file up to its first frame that is not whole.
pub fn read(bytes: &[u8]) -> Result<Restored, Unusable> {
    let rest = bytes.strip_prefix(MAGIC.as_slice()).ok_or(Unusable::NotAStateFile)?;
    let version = rest.get(..4).and_then(|v| v.try_into().ok()).map(u32::from_le_bytes);
    match version {
        Some(VERSION_MIN..=VERSION) => {}
        Some(other) => return Err(Unusable::Version(other)),
        None => return Err(Unusable::NotAStateFile),
    }
    let mut restored = Restored { valid_bytes: MAGIC.len() + 4, ..Restored::default() };
    loop {
        let end = restored.valid_bytes;
        match restored.take_next(&bytes[end..]) {
            Next::Taken(length) => restored.valid_bytes += length,
            Next::Cut => return Ok(restored),
            // Some of its records were taken in before the one that makes no sense.
            Next::Senseless => return read(&bytes[..end]),
        }
    }
}

fn read_frame(bytes: &[u8]) -> Option<(Record<'static>, usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let length = word(0)? as usize;
    let payload = bytes.get(8..8usize.checked_add(length)?)?;
    if length > FRAME_BYTES_MAX || crc32fast::hash(payload) != word(4)? {
        return None;
    }
    Some((postcard::from_bytes(payload).ok()?, 8 + length))
}

/// The next records that count as a whole, what followed from them if they are a batch, and how long they are.
fn read_batch(bytes: &[u8]) -> Option<(Vec<Record<'static>>, Option<Vec<Late>>, usize)> {
    let (first, mut length) = read_frame(bytes)?;
    let Record::Batch { records, late } = first else { return Some((vec![first], None, length)) };
    let mut batch = Vec::new();
    for _ in 0..records {
        let (record, more) = read_frame(&bytes[length..])?;
        length += more;
        batch.push(record);
    }
    Some((batch, Some(late), length))
}

/// What became of the next batch.
enum Next {
    /// It was taken in, and has so many bytes.
    Taken(usize),
    /// There is none, or not all of it.
    Cut,
    /// It has a record that makes no sense there.
    Senseless,
}

impl Restored {
    /// Takes the next batch, or the next record that is in none.
    fn take_next(&mut self, bytes: &[u8]) -> Next {
        let Some((records, late, length)) = read_batch(bytes) else { return Next::Cut };
        if let Some(late) = late {
            self.late = late;
        }
        match records.into_iter().all(|record| self.take(record)) {
            true => Next::Taken(length),
            false => Next::Senseless,
        }
    }

    /// Takes one record in; false if it makes no sense here.
    fn take(&mut self, record: Record<'_>) -> bool {
        match record {
            Record::Names { first, names } => {
                for (at, name) in (first as usize..).zip(names) {
                    let name = match name.as_str() {
                        "" => None,
                        name => match UnitName::parse(name) {
                            Ok(name) => Some(name),
                            Err(_) => return false,
                        },
                    };
                    if at > self.names.len() {
                        return false;
                    }
                    match self.names.get_mut(at) {
                        Some(slot) => *slot = name,
                        None => self.names.push(name),
                    }
                    self.runs.remove(&UnitId(at as u32));
                    self.groups.remove(&UnitId(at as u32));
                }
            }
            Record::Unit { unit, run } => {
                self.runs.insert(unit, run.into_owned());
                self.groups.remove(&unit);
            }
            Record::Notes { unit, notes } => {
                let Some(run) = self.runs.get_mut(&unit) else { return false };
                run.history.get_or_insert_default().notes = Some(Box::new(notes));
            }
            Record::Relapse { unit, relapse } => {
                let Some(run) = self.runs.get_mut(&unit) else { return false };
                run.history.get_or_insert_default().relapse = Some(Box::new(relapse));
            }
            Record::Refusal { unit, refusal } => {
                let Some(run) = self.runs.get_mut(&unit) else { return false };
                let refusal = Box::new(refusal.into_owned());
                run.history.get_or_insert_default().refusal = Some(refusal);
            }
            Record::Account { unit, account } => {
                let Some(run) = self.runs.get_mut(&unit) else { return false };
                let account = Box::new(account.into_owned());
                run.history.get_or_insert_default().account = Some(account);
            }
            Record::Lines { unit, lines } => {
                let Some(run) = self.runs.get_mut(&unit) else { return false };
                run.history.get_or_insert_default().lines = lines.into_owned().into();
            }
            Record::Manager(manager) => self.manager = Some(manager),
            Record::Boot(boot) => self.boot = boot,
            Record::ClientSettings(settings) => self.client_settings = settings.into_owned(),
            Record::ClientLog(log) => self.client_settings.log = log.into_owned(),
            Record::Watchdog(set) => self.client_settings.watchdog = set.into_owned(),
            Record::ServiceWatchdogs(on) => self.client_settings.service_watchdogs = Some(on),
            Record::ShowStatus(word) => {
                let Some(shown) = ShowStatus::from_word(&word) else { return false };
                self.client_settings.show_status = Some(shown);
            }
            Record::Freezer { unit, freezer } => {
                let Some(run) = self.runs.get_mut(&unit) else { return false };
                run.history.get_or_insert_default().freezer = freezer;
            }
            Record::Clearing { unit, clearing } => {
                let Some(run) = self.runs.get_mut(&unit) else { return false };
                run.history.get_or_insert_default().clearing = Some(clearing);
            }
            Record::ClearingEnds { unit, managers } => {
                let history = self.runs.get_mut(&unit).and_then(|run| run.history.as_mut());
                let Some(clearing) = history.and_then(|history| history.clearing.as_mut()) else {
                    return false;
                };
                clearing.managers_ended = managers;
            }
            Record::OwedStop { unit, reason } => {
                let Some(run) = self.runs.get_mut(&unit) else { return false };
                run.history.get_or_insert_default().owed_stop = Some(reason);
            }
            Record::Markers { unit, markers } => {
                let Some(run) = self.runs.get_mut(&unit) else { return false };
                run.history.get_or_insert_default().markers = markers;
            }
            Record::Timer { unit, timer } => {
                let Some(run) = self.runs.get_mut(&unit) else { return false };
                run.history.get_or_insert_default().timer = Some(timer);
            }
            Record::DynamicUser { unit, user } => {
                let Some(run) = self.runs.get_mut(&unit) else { return false };
                let user = Box::new(user.into_owned());
                run.history.get_or_insert_default().dynamic_user = Some(user);
            }
            Record::Group { unit, path } => {
                if !self.runs.contains_key(&unit) {
                    return false;
                }
                self.groups.insert(unit, path.into());
            }
            Record::Batch { .. } => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::state::{Service, TypeState};

    fn sample() -> Vec<u8> {
        let mut out = header();
        for unit in 0..3 {
            let state =
                TypeState::Service(Service::Failed(crate::model::process::Outcome::Timeout));
            write_unit(&mut out, UnitId(unit), &UnitRun { state, job: None, history: None }, None);
        }
        out
    }

    #[test]
    fn a_file_cut_anywhere_gives_every_whole_record_before_the_cut() {
        let whole = sample();
        let mut seen = Vec::new();
        for cut in 12..=whole.len() {
            let restored = read(&whole[..cut]).expect("the header is whole");
            assert!(restored.valid_bytes <= cut);
            seen.push(restored.runs.len());
        }
        assert!(seen.is_sorted() && seen.last() == Some(&3), "{seen:?}");
    }

    #[test]
    fn what_a_unit_needs_is_written_beside_it() {
        for markers in [Markers::default(), Markers { reload: false, restart: true }] {
            let mut whole = sample();
            let mut run = UnitRun { state: TypeState::Target(true), job: None, history: None };
            run.history.get_or_insert_default().markers = markers;
            let records = write_unit(&mut whole, UnitId(1), &run, None);
            assert_eq!(records, 1 + u32::from(!markers.is_empty()));
            let restored = read(&whole).expect("it is whole");
            assert_eq!(restored.valid_bytes, whole.len());
            assert_eq!(restored.runs.get(&UnitId(1)), Some(&run));
        }
    }

    #[test]
    fn a_batch_counts_as_a_whole_or_not_at_all() {
        let mut whole = sample();
        let before = whole.len();
        let mut frames = Vec::new();
        for unit in 3..6 {
            let state = TypeState::Target(true);
            write_unit(
                &mut frames,
                UnitId(unit),
                &UnitRun { state, job: None, history: None },
                None,
            );
        }
        let late = vec![Late::CleanUp(UnitId(3), false), Late::LimitGroup(UnitId(4))];
        write_batch(&mut whole, &frames, 3, late.clone());
        for cut in before..whole.len() {
            let restored = read(&whole[..cut]).expect("the header is whole");
            assert_eq!((restored.runs.len(), restored.valid_bytes), (3, before), "cut at {cut}");
        }
        let restored = read(&whole).expect("the header is whole");
        assert_eq!((restored.runs.len(), restored.late), (6, late));
    }

    #[test]
    fn of_a_batch_with_a_record_that_makes_no_sense_nothing_is_taken_in() {
        let mut whole = sample();
        let before = whole.len();
        let state = TypeState::Target(true);
        let run = UnitRun { state, job: None, history: None };
        let mut frames = Vec::new();
        let records = write_unit(&mut frames, UnitId(3), &run, None);
        write_frame(&mut frames, &Record::Group { unit: UnitId(9), path: "a".into() });
        write_batch(&mut whole, &frames, records + 1, vec![Late::LimitGroup(UnitId(3))]);
        let restored = read(&whole).expect("the header is whole");
        assert_eq!((restored.runs.len(), restored.valid_bytes), (3, before));
        assert_eq!(restored.late, []);
    }

    #[test]
    fn a_flipped_bit_ends_the_file_at_its_frame() {
        let whole = sample();
        for at in 12..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            let restored = read(&bytes).expect("the header is whole");
            assert!(restored.runs.len() < 3, "byte {at}");
        }
    }

    #[test]
    fn other_files_and_other_versions_are_refused() {
        assert_eq!(read(b"something else").err(), Some(Unusable::NotAStateFile));
        assert_eq!(read(b"WARRENST").err(), Some(Unusable::NotAStateFile));
        let mut bytes = sample();
        bytes[8] = 99;
        assert_eq!(read(&bytes).err(), Some(Unusable::Version(99)));
    }
}

//! Recordings as files: made of events and names, written aside, kept within bounds, found again.
//!
//! A thread of its own writes them, so that the loop waits for no disk. What must not be here: the
//! decision when something is recorded (that is [`crate::recording::recorder`]).

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use warren_core::graph::{Definition, Graph};
use warren_core::model::ids::UnitId;
use warren_core::model::reason::Code;
use warren_trace::event::{Event, NO_UNIT};
use warren_trace::record::{self, Head, Recording, Unit, Writer};
use warren_trace::words::Subject;
use warren_unit::Relation;

use crate::base::say::say;
use crate::recording::names::{Formers, tell_apart};

/// Recordings of one subject that are kept; the oldest go first.
const KEPT_MAX: usize = 10;

/// All recordings together, in bytes; the oldest go first, but never the last of its subject.
const KEPT_BYTES_MAX: u64 = 128 << 20;

/// Recordings that wait to be written; what comes meanwhile is not kept.
const WAITING_MAX: usize = 4;

/// How long the end waits for a recording to be written.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Events that are written with one system call: 256 KB.
const PIECE_EVENTS: usize = 8 << 10;

/// What the names of recordings end with.
const SUFFIX: &str = ".record";

/// What comes behind the last dot of their names while they are written.
const ASIDE: &str = "tmp";

/// Bytes at the begin of a file in which its head is.
const HEAD_BYTES: u64 = 4 << 10;

/// A recording that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRecording {
    /// The file's name.
    pub name: String,
    /// What it is of.
    pub subject: Subject,
    /// Those that were kept later have larger ones: when it began by the wall clock, in µs, unless that
    /// was behind one that was there.
    pub number: u64,
    /// Its size.
    pub bytes: u64,
}

/// What a recording is made of.
#[derive(Clone)]
pub struct Material {
    /// What it is of.
    pub head: Head,
    /// What happened.
    pub events: Vec<Event>,
    /// Names and order of the units.
    pub graph: Arc<Graph>,
    /// Names of those that were forgotten.
    pub formers: Formers,
}

/// The directory of recordings.
#[derive(Clone, Debug)]
pub struct Records {
    directory: PathBuf,
    /// The device that it was on when it was looked at: it may have been unmounted since.
    device: Option<u64>,
    /// Where it was then, or when something was written last, without links; whoever has a copy of this sees the same.
    place: Arc<Mutex<Option<PathBuf>>>,
    /// Why the last one could not be kept; whoever has a copy of this sees the same.
    trouble: Arc<Mutex<Option<String>>>,
}

impl Records {
    /// Over a directory, which is not looked at yet.
    pub fn at(directory: PathBuf) -> Records {
        Records { directory, device: None, place: Arc::default(), trouble: Arc::default() }
    }

    /// Makes the directory; where that cannot be, nothing is kept and that is said.
    pub fn open(&mut self) {
        let looked = self.look_again();
        if looked.is_err() {
            self.tell_not_kept(&looked);
        }
        self.sweep();
    }

    fn tell_not_kept(&self, looked: &io::Result<()>) {
        if let Err(error) = looked {
            say!("cannot save recordings: {}: {error}", self.directory.display());
        }
        self.note(looked);
    }

    /// Why the last recording could not be kept; nothing when it was.
    pub fn trouble(&self) -> Option<String> {
        locked(&self.trouble).clone()
    }

    fn note(&self, result: &io::Result<()>) {
        let text = |error: &io::Error| format!("{}: {error}", self.directory.display());
        *locked(&self.trouble) = result.as_ref().err().map(text);
    }

    /// Removes what a manager that was killed had begun to write. Nobody else writes there.
    fn sweep(&self) {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        for entry in entries {
            let path = entry.path();
            let name = path.with_extension(&SUFFIX[1..]);
            let is_ours = name.file_name().and_then(|name| name.to_str()).and_then(parse_name);
            if path.extension().is_some_and(|suffix| suffix == ASIDE) && is_ours.is_some() {
                let _ = fs::remove_file(path);
            }
        }
    }

    /// Takes it as it is now: a file system may have been mounted on it since.
    pub fn look_again(&mut self) -> io::Result<()> {
        let made = fs::create_dir_all(&self.directory).and_then(|()| fs::metadata(&self.directory));
        self.device = made.as_ref().ok().map(|metadata| metadata.dev());
        self.find_place();
        made.map(drop)
    }

    fn find_place(&self) {
        *locked(&self.place) = fs::canonicalize(&self.directory).ok();
    }

    /// Whether it lies below a directory, by its name or without links.
    pub fn lie_below(&self, directory: &Path) -> bool {
        let is_below = |place: &PathBuf| place.starts_with(directory);
        is_below(&self.directory) || locked(&self.place).as_ref().is_some_and(is_below)
    }

    /// What is kept, the oldest first.
    pub fn list(&self) -> Vec<KeptRecording> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let kept = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let (subject, number) = parse_name(&name)?;
            let bytes = entry.metadata().ok()?.len();
            Some(KeptRecording { name, subject, number, bytes })
        });
        let mut kept: Vec<KeptRecording> = kept.collect();
        kept.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
        kept
    }

    /// What one that is listed begins with; none if that cannot be read.
    pub fn head(&self, kept: &KeptRecording) -> Option<Head> {
        let file = fs::File::open(self.directory.join(&kept.name)).ok()?;
        let mut bytes = Vec::new();
        file.take(HEAD_BYTES).read_to_end(&mut bytes).ok()?;
        Some(record::read(&bytes).ok()?.0.head)
    }

    /// The name for a recording: behind all that are kept, whatever the clock said when they were made.
    /// One whose part was written has the name of that.
    fn name_for(&self, head: &Head) -> String {
        let kept = self.list();
        let moment = |head: &Head| (head.anchor.monotonic_us, head.anchor.realtime_us);
        let last = kept.iter().rfind(|kept| kept.subject == head.subject);
        if let Some(last) = last
            && self.head(last).is_some_and(|part| moment(&part) == moment(head))
        {
            return last.name.clone();
        }
        let behind = kept.last().map_or(0, |last| last.number.saturating_add(1));
        name_of(head.subject, head.anchor.realtime_us.max(behind))
    }

    /// The bytes of one that is listed.
    pub fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        parse_name(name).ok_or(io::ErrorKind::NotFound)?;
        fs::read(self.directory.join(name))
    }

    /// Writes a recording and lets the oldest go.
    pub fn keep(&self, material: Material) -> io::Result<()> {
        self.write(material, true)?;
        self.prune();
        Ok(())
    }

    /// Writes what there is of a recording that will be written again when it is whole.
    pub fn keep_part(&self, material: Material) -> io::Result<()> {
        self.write(material, false)
    }

    /// Whether the directory is still on the device that it was on.
    pub fn is_there(&self) -> bool {
        let device = fs::metadata(&self.directory).ok().map(|metadata| metadata.dev());
        device.is_some() && device == self.device
    }

    fn write(&self, material: Material, whole: bool) -> io::Result<()> {
        let written = self.write_aside(&recording(material), whole);
        self.note(&written);
        written
    }

    /// Writes a file aside, piece by piece, and then in its place. Where there is no room, the oldest
    /// make some: what was last is worth more than what was long ago.
    fn write_aside(&self, recording: &Recording, whole: bool) -> io::Result<()> {
        // A file system that came later may have none.
        fs::create_dir_all(&self.directory)?;
        self.find_place();
        let path = self.directory.join(self.name_for(&recording.head));
        let aside = path.with_extension(ASIDE);
        let mut written = write_to(&aside, recording, whole);
        // Each turn removes a file.
        while written.as_ref().is_err_and(is_full) && self.make_room(recording.head.subject) {
            written = write_to(&aside, recording, whole);
        }
        let placed = written.and_then(|()| fs::rename(&aside, &path));
        if placed.is_err() {
            let _ = fs::remove_file(&aside);
        }
        placed
    }

    /// Removes the oldest that can be spared for one of `subject`; false when there is none.
    fn make_room(&self, subject: Subject) -> bool {
        let kept = self.list();
        let oldest = dispensable(&kept, subject);
        oldest.is_some_and(|oldest| fs::remove_file(self.directory.join(&oldest.name)).is_ok())
    }

    fn prune(&self) {
        for name in superfluous(&self.list()) {
            let _ = fs::remove_file(self.directory.join(name));
        }
    }
}

/// Makes a file of a recording, piece by piece.
fn write_to(path: &Path, recording: &Recording, whole: bool) -> io::Result<()> {
    let mut file = fs::File::create(path)?;
    let mut writer = Writer::new(&recording.head);
    writer.units(&recording.units);
    writer.reasons(&recording.reasons);
    writer.edges(&recording.edges);
    for events in recording.events.chunks(PIECE_EVENTS) {
        writer.events(events);
        file.write_all(writer.bytes())?;
        writer.clear();
    }
    if whole {
        writer.end();
    }
    file.write_all(writer.bytes())
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name_of(subject: Subject, number: u64) -> String {
    format!("{}-{number:020}{SUFFIX}", subject.text())
}

fn parse_name(name: &str) -> Option<(Subject, u64)> {
    let (subject, number) = name.strip_suffix(SUFFIX)?.split_once('-')?;
    if number.len() != 20 || !number.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some((Subject::from_text(subject)?, number.parse().ok()?))
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The oldest of a list with the oldest first that is not the last of its subject, unless one of that
/// subject is to come.
fn dispensable(kept: &[KeptRecording], coming: Subject) -> Option<&KeptRecording> {
    kept.iter().enumerate().find_map(|(at, one)| {
        let is_last = !kept[at + 1..].iter().any(|newer| newer.subject == one.subject);
        (one.subject == coming || !is_last).then_some(one)
    })
}

/// Names of those that are too many, from a list with the oldest first.
fn superfluous(kept: &[KeptRecording]) -> Vec<&str> {
    let mut bytes: u64 = 0;
    let mut out = Vec::new();
    let mut seen: Vec<Subject> = Vec::new();
    for one in kept.iter().rev() {
        let newer = seen.iter().filter(|subject| **subject == one.subject).count();
        bytes = bytes.saturating_add(one.bytes);
        if newer >= KEPT_MAX || (newer > 0 && bytes > KEPT_BYTES_MAX) {
            bytes -= one.bytes;
            out.push(one.name.as_str());
        } else {
            seen.push(one.subject);
        }
    }
    out
}

/// Adds names, texts and order to events. Events are put in the order of their times: what another
/// thread did is told later than it happened.
pub fn recording(material: Material) -> Recording {
    let Material { head, mut events, graph, formers } = material;
    let former = tell_apart(&mut events, &formers, graph.len() as u32);
    events.sort_by_key(|event| event.time_us);
    let named = named(&graph, &events);
    let mut gathered = Gathered::default();
    for (id, _) in named.iter().enumerate().filter(|(_, named)| **named) {
        gathered.add(&graph, UnitId(id as u32), &named);
    }
    let Gathered { mut units, mut slices, edges } = gathered;
    let is_named = |slice: &UnitId| named.get(slice.index()).copied().unwrap_or(false);
    slices.extend(former.iter().map(|unit| UnitId(unit.slice)).filter(|slice| !is_named(slice)));
    slices.sort_unstable();
    slices.dedup();
    units.extend(former);
    units.extend(slices.into_iter().filter_map(|slice| graph.get(slice)).map(|slice| unit(slice)));
    units.sort_unstable_by_key(|unit| unit.id);
    Recording { head, units, reasons: reasons(&events), edges, events }
}

/// For each unit of the graph whether events name it.
fn named(graph: &Graph, events: &[Event]) -> Vec<bool> {
    let mut named = vec![false; graph.len()];
    for unit in events.iter().flat_map(Event::units) {
        if let Some(named) = named.get_mut(unit as usize) {
            *named = true;
        }
    }
    named
}

/// What one pass over the definitions gathers: at this size each further look at them would cost
/// more than all else.
#[derive(Default)]
struct Gathered {
    units: Vec<Unit>,
    /// Slices of those that events do not name themselves; may repeat.
    slices: Vec<UnitId>,
    edges: Vec<(u32, u32)>,
}

impl Gathered {
    /// Takes one unit in, with the order that its own files state: what others state against it is
    /// taken from them.
    fn add(&mut self, graph: &Graph, id: UnitId, named: &[bool]) {
        let is_named = |other: UnitId| named.get(other.index()).copied().unwrap_or(false);
        let Some(definition) = graph.get(id) else { return };
        self.units.push(unit(definition));
        self.slices.extend(definition.slice.filter(|slice| !is_named(*slice)));
        for edge in definition.edges.iter().filter(|edge| is_named(edge.other)) {
            match edge.relation {
                Relation::After | Relation::MountsFor => self.edges.push((id.0, edge.other.0)),
                Relation::Before => self.edges.push((edge.other.0, id.0)),
                _ => {}
            }
        }
    }
}

fn unit(definition: &Definition) -> Unit {
    let slice = definition.slice.map_or(NO_UNIT, |slice| slice.0);
    Unit { id: definition.id.0, slice, name: definition.name.to_string() }
}

/// Texts of the reason codes that events carry.
fn reasons(events: &[Event]) -> Vec<(u16, String)> {
    let mut carried = vec![false; usize::from(u16::MAX) + 1];
    events.iter().for_each(|event| carried[usize::from(event.reason())] = true);
    let codes = Code::ALL.iter().filter(|code| carried[**code as usize]);
    codes.map(|code| (*code as u16, code.text().to_owned())).collect()
}

/// What became of a recording that somebody waits for.
#[derive(Debug)]
pub enum WriteResult {
    /// It is kept.
    Kept,
    /// The directory is not on the device any more that it was on; in words.
    NotThere(String),
    /// There was no directory to begin with, which was said.
    Nowhere,
    /// It is lost, for this reason.
    Lost(String),
}

/// What the thread is to do.
enum WriterCommand {
    /// Keep one that nobody waits for.
    Keep(Material),
    /// Look where the directory is.
    LookAgain,
    /// Write this, whole or so far, if the directory is where it was.
    Write { material: Material, whole: bool, tell: SyncSender<WriteResult> },
}

/// The thread that writes recordings: nobody else touches the disk that they lie on, which may be slow, or
/// a server's that does not answer.
#[derive(Debug)]
pub struct RecordsThread {
    orders: Sender<WriterCommand>,
    directory: PathBuf,
    /// Recordings that wait.
    waiting: Arc<AtomicUsize>,
    /// It did not answer in time, and is not asked any more.
    is_silent: bool,
}

impl RecordsThread {
    /// Starts it; it makes the directory first.
    pub fn start(records: Records) -> io::Result<RecordsThread> {
        let (sender, orders) = channel::<WriterCommand>();
        let waiting = Arc::<AtomicUsize>::default();
        let (directory, is_silent) = (records.directory.clone(), false);
        let thread = RecordsThread { orders: sender, directory, waiting, is_silent };
        let waiting = thread.waiting.clone();
        let serve = move || {
            let mut records = records;
            records.open();
            for order in orders {
                records.carry_out(order, &waiting);
            }
        };
        std::thread::Builder::new().name("records".into()).spawn(serve)?;
        Ok(thread)
    }

    /// Has a recording written. Never waits: when the disk is that slow, it is lost and that is
    /// said.
    pub fn keep(&self, material: Material) {
        let subject = material.head.subject.text();
        let has_room = self.waiting.fetch_add(1, Ordering::SeqCst) < WAITING_MAX;
        if !has_room {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        if !has_room || self.orders.send(WriterCommand::Keep(material)).is_err() {
            say!(
                "lost the recording of a {subject}: too many recordings are waiting to be written"
            );
        }
    }

    /// Has the directory looked at as it is now: a file system may have been mounted on it since.
    pub fn look_again(&self) {
        // A thread that is gone is heard of when something is to be written.
        let _ = self.orders.send(WriterCommand::LookAgain);
    }

    /// Has a recording written, whole or so far, and waits for that, but not for ever: the end goes on
    /// without it. What `meanwhile` does takes no time from that.
    pub fn write(
        &mut self,
        material: Material,
        whole: bool,
        meanwhile: impl FnOnce(),
    ) -> WriteResult {
        let silent = || {
            let (directory, seconds) = (self.directory.display(), ANSWERS_WITHIN.as_secs());
            WriteResult::Lost(format!("{directory} has not answered within {seconds} s"))
        };
        if self.is_silent {
            meanwhile();
            return silent();
        }
        let (tell, told) = sync_channel(1);
        let order = WriterCommand::Write { material, whole, tell };
        let sent = self.orders.send(order).is_ok();
        meanwhile();
        match told.recv_timeout(ANSWERS_WITHIN).ok().filter(|_| sent) {
            Some(written) => written,
            None => {
                let lost = silent();
                self.is_silent = true;
                lost
            }
        }
    }
}

impl Records {
    fn carry_out(&mut self, order: WriterCommand, waiting: &AtomicUsize) {
        match order {
            WriterCommand::Keep(material) => {
                let subject = material.head.subject.text();
                if let Err(error) = self.keep(material) {
                    say!("lost the recording of a {subject}: {error}");
                }
                waiting.fetch_sub(1, Ordering::SeqCst);
                // After a boot of 28,000 units 12 MB are free here.
                warren_sys::heap::trim();
            }
            WriterCommand::LookAgain => {
                let was_there = self.device.is_some();
                let looked = self.look_again();
                if was_there && looked.is_err() {
                    self.tell_not_kept(&looked);
                }
            }
            WriterCommand::Write { material, whole, tell } => {
                let write =
                    |material| if whole { self.keep(material) } else { self.keep_part(material) };
                let written = match self.is_there().then(|| write(material)) {
                    None if self.device.is_none() => WriteResult::Nowhere,
                    None => {
                        let directory = self.directory.display();
                        WriteResult::NotThere(format!(
                            "{directory} is no longer on its file system"
                        ))
                    }
                    Some(Ok(())) => WriteResult::Kept,
                    Some(Err(error)) => WriteResult::Lost(error.to_string()),
                };
                // Who does not wait any more has said so.
                let _ = tell.send(written);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use warren_trace::record::Anchor;

    use super::*;

    /// `boot 1 900` is a boot of second 1 with 900 MB/10.
    fn kept(list: &[(Subject, u64, u64)]) -> Vec<KeptRecording> {
        let one = |(subject, number, megabytes): &(Subject, u64, u64)| KeptRecording {
            name: format!("{}-{number}", subject.text()),
            subject: *subject,
            number: *number,
            bytes: megabytes << 20,
        };
        list.iter().map(one).collect()
    }

    #[test]
    fn the_oldest_beyond_the_bounds_go_but_never_the_last() {
        let (boot, reload) = (Subject::Boot, Subject::Reload);
        let few = kept(&[(boot, 1, 1), (reload, 2, 1)]);
        assert_eq!(superfluous(&few), Vec::<&str>::new());
        let many: Vec<_> = (1..=12).map(|n| (reload, n, 1)).collect();
        assert_eq!(superfluous(&kept(&many)), ["reload-2", "reload-1"]);
        let large = kept(&[(boot, 1, 100), (boot, 2, 100), (reload, 3, 60)]);
        assert_eq!(superfluous(&large), ["boot-1"], "the last boot stays, large as it is");
    }

    #[test]
    fn the_oldest_makes_room_but_not_the_last_of_another_subject() {
        let (boot, reload, shutdown) = (Subject::Boot, Subject::Reload, Subject::Shutdown);
        let list = kept(&[(boot, 1, 1), (shutdown, 2, 1), (boot, 3, 1), (reload, 4, 1)]);
        let first =
            |list: &[KeptRecording], coming| dispensable(list, coming).map(|one| one.number);
        assert_eq!(first(&list, shutdown), Some(1));
        assert_eq!(first(&list[1..], shutdown), Some(2), "one of them is to come");
        assert_eq!(first(&list[1..], boot), Some(3));
        assert_eq!(first(&list[2..], shutdown), None);
        assert_eq!(first(&[], boot), None);
    }

    fn material(subject: Subject, realtime_us: u64) -> Material {
        let anchor = Anchor { monotonic_us: realtime_us % 1000, realtime_us, boottime_us: 0 };
        let (host, kernel, version) = Default::default();
        let head = Head { subject, anchor, host, kernel, version };
        let (events, graph, formers) = Default::default();
        Material { head, events, graph, formers }
    }

    #[test]
    fn what_was_kept_last_is_the_last_whatever_the_clock_said() {
        let scratch = crate::base::scratch::Scratch::new("records-clock");
        let mut records = Records::at(scratch.0.join("records"));
        records.open();
        let (boot, shutdown) = (Subject::Boot, Subject::Shutdown);
        let ahead = 3_000_000_000_000_000;
        for (subject, realtime_us) in [(boot, 2_000), (boot, ahead), (shutdown, 5_001), (boot, 7)] {
            records.keep_part(material(subject, realtime_us)).expect("a part is written");
            records.keep(material(subject, realtime_us)).expect("it takes the part's place");
        }
        let began = |kept: &KeptRecording| records.head(kept).expect("a head").anchor.realtime_us;
        let list = records.list();
        let shown = list.iter().map(|kept| (kept.subject, kept.number, began(kept)));
        let expect = [
            (boot, 2_000, 2_000),
            (boot, ahead, ahead),
            (shutdown, ahead + 1, 5_001),
            (boot, ahead + 2, 7),
        ];
        assert_eq!(shown.collect::<Vec<_>>(), expect);
    }

    #[test]
    fn where_recordings_lie_is_known_by_name_and_without_links() {
        let scratch = crate::base::scratch::Scratch::new("records-link");
        let (data, link) = (scratch.0.join("data"), scratch.0.join("log"));
        fs::create_dir(&data).expect("it is made");
        std::os::unix::fs::symlink(&data, &link).expect("it is made");
        let mut records = Records::at(link.join("records"));
        let copy = records.clone();
        let lie_below = |place: &Path| copy.lie_below(place);
        assert!(lie_below(&link) && !lie_below(&data));
        records.open();
        assert!(lie_below(&link) && lie_below(&data) && !lie_below(&scratch.0.join("other")));
    }

    #[test]
    fn what_was_begun_and_never_ended_is_swept_away() {
        let scratch = crate::base::scratch::Scratch::new("records-swept");
        let directory = scratch.0.join("records");
        fs::create_dir(&directory).expect("it is made");
        let whole = "boot-00001795305600000123.record";
        let names = ["boot-00001795305600000124.tmp", whole, "notes.tmp", "boot-1.tmp"];
        names.iter().for_each(|name| fs::write(directory.join(name), "x").expect("written"));
        let mut records = Records::at(directory.clone());
        records.open();
        let left = names.map(|name| directory.join(name).exists());
        assert_eq!(left, [false, true, true, true]);
        assert_eq!(records.trouble(), None);
    }

    #[test]
    fn why_nothing_is_kept_is_known_to_all_copies() {
        let scratch = crate::base::scratch::Scratch::new("records-trouble");
        let file = scratch.0.join("file");
        fs::write(&file, "x").expect("written");
        let mut records = Records::at(file.join("records"));
        records.open();
        let trouble = records.clone().trouble().expect("a file has nothing below it");
        assert!(trouble.contains("/file/records: Not a directory"), "{trouble}");
    }

    #[test]
    fn what_is_mounted_later_is_written_to_and_what_is_gone_is_not() {
        let scratch = crate::base::scratch::Scratch::new("records");
        let directory = scratch.0.join("log/records");
        let mut records = Records::at(directory.clone());
        records.open();
        assert!(records.is_there());
        // A file system that has no such directory, and one that has gone.
        fs::remove_dir(&directory).expect("it is empty");
        assert!(!records.is_there());
        records.look_again().expect("it is made");
        assert!(records.is_there());
        records.device = records.device.map(|device| device + 1);
        assert!(!records.is_there(), "it is on another device");
    }

    #[test]
    fn names_lead_back_and_other_files_are_left_alone() {
        let name = "shutdown-00001795305600000123.record";
        assert_eq!(parse_name(name), Some((Subject::Shutdown, 1_795_305_600_000_123)));
        for other in ["shutdown-1.record", "boot-00001795305600000123", "../x.record", "a-b.record"]
        {
            assert_eq!(parse_name(other), None, "{other}");
        }
    }
}

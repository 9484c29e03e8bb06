//! Readers over disks that answer, fail, or wait for the test.

use super::*;
use crate::image::{self, Disk};
use crate::lvm::LvmId;
use crate::lvm::group::{Marks, Member, VolumeGroup};
use crate::lvm::label::{Area, PvHeader};
use crate::read::HEAD_BYTES;

/// A disk whose first read waits until the test lets go.
struct Stuck(Arc<Mutex<Receiver<()>>>);

impl ReadAt for Stuck {
    fn size_bytes(&self) -> u64 {
        1 << 20
    }

    fn read_at(&self, _: u64, buffer: &mut [u8]) -> Result<usize, crate::read::ReadError> {
        // Both a word and the end of the test let go.
        let _ = self.0.lock().expect("no reader panicked").recv();
        Ok(buffer.len())
    }
}

fn number(minor: u32) -> DeviceNumber {
    DeviceNumber { major: 8, minor }
}

/// Paths `dead...` wait, `bad...` fail, others are empty disks. Dropping the senders lets go.
fn readers(timeout_ms: u64) -> (Readers, Sender<()>) {
    let (sender, receiver) = channel();
    let gate = Arc::new(Mutex::new(receiver));
    let open = move |path: &Path| -> io::Result<Box<dyn ReadAt>> {
        let name = path.to_str().unwrap_or_default();
        match () {
            () if name.starts_with("bad") => Err(io::Error::from_raw_os_error(5)),
            () if name.starts_with("dead") => Ok(Box::new(Stuck(gate.clone()))),
            () => Ok(Box::new(Disk::new(1 << 20))),
        }
    };
    (Readers::with(Box::new(open), timeout_ms).expect("an eventfd can be had"), sender)
}

/// Waits for so many answers, as `minor:word`, sorted.
fn collect(readers: &Readers, count: usize) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    while out.len() < count {
        let answer = readers.answers.recv_timeout(Duration::from_secs(60)).expect("an answer");
        out.push(show(&answer));
    }
    out.sort();
    out
}

fn show(answer: &Answer) -> String {
    let word = match &answer.outcome {
        Outcome::Scanned(_) => "scanned".to_owned(),
        Outcome::Failed(error) => format!("error {}", error.raw_os_error().unwrap_or(0)),
        Outcome::TimedOut => "timeout".to_owned(),
    };
    format!("{}:{word}", answer.device.minor)
}

#[test]
fn many_devices_are_read_by_few_threads() {
    let (readers, _gate) = readers(READ_TIMEOUT_MS);
    (0..100).for_each(|minor| readers.submit(number(minor), Path::new("disk"), false));
    readers.submit(number(100), Path::new("bad"), false);
    let answers = collect(&readers, 101);
    assert_eq!(answers.iter().filter(|answer| answer.ends_with("scanned")).count(), 100);
    assert!(answers.contains(&"100:error 5".to_owned()));
    assert!(readers.shared.lock().next_thread <= READERS as u64);
}

#[test]
fn a_dead_disk_holds_up_nobody() {
    let (readers, gate) = readers(1000);
    readers.submit(number(0), Path::new("dead"), false);
    let began = warren_testkit::wait_for("a thread takes the dead disk", || {
        assert!(readers.next_deadline_ms(7).is_some(), "taken or not, it has a deadline");
        readers.shared.lock().busy.values().next().map(|reading| reading.since_ms)
    });
    (1..20).for_each(|minor| readers.submit(number(minor), Path::new("disk"), false));
    assert_eq!(collect(&readers, 19).len(), 19, "all others are read meanwhile");
    assert!(readers.give_up(began + 999).is_empty());
    let late: Vec<String> = readers.give_up(began + 1000).iter().map(show).collect();
    assert_eq!(late, ["0:timeout"]);
    assert!(readers.give_up(began + 9000).is_empty(), "it is told once");
    assert_eq!(readers.next_deadline_ms(0), None);
    assert_eq!(readers.shared.lock().held, 1);
    drop(gate);
    assert_eq!(collect(&readers, 1), ["0:scanned"], "a late answer is an answer");
    assert_eq!(readers.shared.lock().held, 0);
}

/// Half a hundred dead disks before a good one: it is read before any of them is given up.
#[test]
fn nobody_waits_behind_dead_disks() {
    let (readers, gate) = readers(READ_TIMEOUT_MS);
    (0..50).for_each(|minor| readers.submit(number(minor), Path::new("dead"), false));
    readers.submit(number(50), Path::new("disk"), false);
    let mut answers = Vec::new();
    warren_testkit::wait_until("the good disk is read", || {
        let began = readers.shared.lock().busy.values().map(|reading| reading.since_ms).max();
        assert_eq!(readers.give_up(began.map_or(0, |ms| ms + SLOW_MS)).len(), 0, "none is late");
        answers = readers.answers();
        !answers.is_empty()
    });
    assert_eq!(answers.iter().map(show).collect::<Vec<_>>(), ["50:scanned"]);
    assert_eq!(readers.shared.lock().held, 50);
    drop(gate);
    assert_eq!(collect(&readers, 50).len(), 50, "a late answer is an answer");
    let state = readers.shared.lock();
    assert!(state.held == 0 && state.threads <= READERS, "{}", state.threads);
}

/// When no more threads may be stuck, what waits behind them is given up, too.
#[test]
fn what_nobody_can_read_is_given_up() {
    let (readers, _gate) = readers(SLOW_MS);
    let count = STUCK_THREADS_MAX as u32 + 20;
    (0..count).for_each(|minor| readers.submit(number(minor), Path::new("dead"), false));
    let mut late = Vec::new();
    warren_testkit::wait_until("all dead disks are given up", || {
        let began = readers.shared.lock().busy.values().map(|reading| reading.since_ms).max();
        late.extend(readers.give_up(began.map_or(0, |ms| ms + SLOW_MS)).iter().map(show));
        late.len() >= count as usize
    });
    assert!(late.iter().all(|answer| answer.ends_with(":timeout")));
    assert!(readers.shared.lock().jobs.is_empty() && readers.next_deadline_ms(0).is_none());
}

#[test]
fn all_are_read_and_one_that_does_not_answer_is_an_error() {
    let (readers, _gate) = readers(SLOW_MS);
    let nodes = ["disk", "dead", "bad", "disk"].map(PathBuf::from);
    let shown = |scan: &io::Result<Scan>| match scan {
        Ok(scan) => format!("{} bytes", scan.size_bytes),
        Err(error) => format!("{:?}", error.kind()),
    };
    let scans = readers.read_all(&nodes).expect("they can be waited for");
    let shown: Vec<String> = scans.iter().map(shown).collect();
    assert_eq!(shown[..2], ["1048576 bytes", "TimedOut"]);
    assert_eq!(scans[2].as_ref().err().and_then(io::Error::raw_os_error), Some(5));
    assert_eq!(shown[3], shown[0]);
    assert!(readers.read_all(&[]).expect("nothing is waited for").is_empty());
}

/// A disk that fails behind this byte.
struct Torn(Disk, u64);

impl ReadAt for Torn {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, crate::read::ReadError> {
        match (HEAD_BYTES as u64..TAIL_AT).contains(&offset) && self.1 <= offset {
            true => Err(crate::read::ReadError { offset, errno: 5 }),
            false => self.0.read_at(offset, buffer),
        }
    }
}

/// Where the tail of these disks begins, and the area of metadata before it.
const TAIL_AT: u64 = (8 << 20) - (64 << 10);
const AREA: Area = Area { offset: 1 << 20, bytes: 1 << 20 };

/// Both disks of a group carry its text; whoever reads it for both fails.
#[test]
fn a_text_that_one_disk_lost_is_read_from_another() {
    let member = |letter: &str| Member {
        id: LvmId::parse(&letter.repeat(32)).expect("an id"),
        device_hint: String::new(),
        device_bytes: 8 << 20,
        written_off: false,
    };
    let group = VolumeGroup {
        id: LvmId::parse(&"g".repeat(32)).expect("an id"),
        name: "data".into(),
        seqno: 1,
        system_id: String::new(),
        marks: Marks::default(),
        members: vec![member("a"), member("b")],
        volumes: Vec::new(),
    };
    let disk = |member: &Member| {
        let mut disk = Disk::new(8 << 20);
        let header = PvHeader {
            id: member.id,
            device_bytes: 8 << 20,
            data_areas: Vec::new(),
            metadata_areas: vec![AREA],
            extension_version: 2,
            flags: 1,
        };
        image::put_label(&mut disk, 1, &header);
        image::put_area(&mut disk, AREA, 512, &image::group_text(&group));
        disk
    };
    let disks = group.members.iter().map(disk).collect::<Vec<_>>();
    let good_was_asked = Arc::new((Mutex::new(false), Condvar::new()));
    let open = move |path: &Path| -> io::Result<Box<dyn ReadAt>> {
        let is_torn = path == Path::new("torn");
        let (asked, told) = &*good_was_asked;
        if is_torn {
            *asked.lock().expect("no reader panicked") = true;
            told.notify_all();
            return Ok(Box::new(Torn(disks[0].clone(), AREA.offset + 512)));
        }
        // The torn one claims the text first, or there would be nothing to see.
        let mut is_asked = asked.lock().expect("no reader panicked");
        while !*is_asked {
            is_asked = told.wait(is_asked).expect("no reader panicked");
        }
        Ok(Box::new(disks[1].clone()))
    };
    let readers = Readers::with(Box::new(open), READ_TIMEOUT_MS).expect("an eventfd can be had");
    for _ in 0..50 {
        let nodes = ["torn", "good"].map(PathBuf::from);
        let scans = readers.read_all(&nodes).expect("they can be waited for");
        let texts = |at: usize| scans[at].as_ref().expect("it can be read").texts_read().len();
        assert_eq!([texts(0), texts(1)], [0, 1]);
        // As in another process.
        readers.shared.lock().known = KnownTexts::default();
    }
}

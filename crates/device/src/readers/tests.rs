//! Readers over disks that answer, fail, or wait for the test.

use super::*;
use crate::image::Disk;

/// A disk whose first read waits until the test lets go.
struct Stuck(Mutex<Receiver<()>>);

impl ReadAt for Stuck {
    fn size_bytes(&self) -> u64 {
        1 << 20
    }

    fn read_at(&self, _: u64, buffer: &mut [u8]) -> Result<usize, crate::read::ReadError> {
        // Both a word and the end of the test let go.
        let _ = self.0.lock().expect("one reader").recv();
        Ok(buffer.len())
    }
}

fn number(minor: u32) -> DeviceNumber {
    DeviceNumber { major: 8, minor }
}

/// Paths `dead...` wait, `bad...` fail, others are empty disks. Dropping the senders lets go.
fn readers(timeout_ms: u64) -> (Readers, Sender<()>) {
    let (sender, receiver) = channel();
    let gate = Mutex::new(Some(receiver));
    let open = move |path: &Path| -> io::Result<Box<dyn ReadAt>> {
        let name = path.to_str().unwrap_or_default();
        match () {
            () if name.starts_with("bad") => Err(io::Error::from_raw_os_error(5)),
            () if name.starts_with("dead") => {
                let gate = gate.lock().expect("no reader panicked").take().expect("one dead disk");
                Ok(Box::new(Stuck(Mutex::new(gate))))
            }
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
    let began = loop {
        assert!(readers.next_deadline_ms(7).is_some(), "taken or not, it has a deadline");
        match readers.shared.lock().busy.values().next() {
            Some((since, _)) => break *since,
            None => std::thread::yield_now(),
        }
    };
    (1..20).for_each(|minor| readers.submit(number(minor), Path::new("disk"), false));
    assert_eq!(collect(&readers, 19).len(), 19, "all others are read meanwhile");
    assert!(readers.give_up(began + 999).is_empty());
    let late: Vec<String> = readers.give_up(began + 1000).iter().map(show).collect();
    assert_eq!(late, ["0:timeout"]);
    assert!(readers.give_up(began + 9000).is_empty(), "it is told once");
    assert_eq!(readers.next_deadline_ms(0), None);
    assert_eq!(readers.shared.lock().stuck, 1);
    drop(gate);
    assert_eq!(collect(&readers, 1), ["0:scanned"], "a late answer is an answer");
    assert_eq!(readers.shared.lock().stuck, 0);
}

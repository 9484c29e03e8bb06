//! Command lines of processes. What `/proc/PID/cmdline` says is in the memory of the process: that may be a
//! file which its user serves himself, and then the read waits for as long as he likes (proc_pid_cmdline(5)).
//! So root's processes are read at once, and others by threads that may be held up for ever.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::process;

/// So long a command line is waited for.
const PATIENCE: Duration = Duration::from_millis(20);

/// So long no command line is read of the processes of a user of whom one did not come.
const PENALTY: Duration = Duration::from_secs(60);

/// Threads at most, those included that are held up.
const THREADS_MAX: usize = 16;

/// Users that are remembered for being slow.
const SLOW_MAX: usize = 256;

/// A thread that reads, and what it is asked by.
struct Reader {
    asks: SyncSender<(PathBuf, u64)>,
    answers: Receiver<Option<Vec<u8>>>,
}

static IDLE: Mutex<Vec<Reader>> = Mutex::new(Vec::new());
static THREADS: AtomicUsize = AtomicUsize::new(0);
static SLOW: Mutex<BTreeMap<u32, Instant>> = Mutex::new(BTreeMap::new());

/// What is under these locks is whole between any two of its changes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The beginning of a process's command line, each argument ended by a zero byte; nothing if it is gone, or if its
/// memory does not answer.
pub fn of(pid: i32, bytes_max: u64) -> Option<Vec<u8>> {
    let path = PathBuf::from(format!("/proc/{pid}/cmdline"));
    let owner = owner(pid)?;
    if owner == 0 { read(&path, bytes_max) } else { of_user(owner, path, bytes_max) }
}

/// The user as whom a process runs: the owner of its directory. Its files are root's while it must not be dumped
/// (prctl(2), `PR_SET_DUMPABLE`), whoever it is.
fn owner(pid: i32) -> Option<u32> {
    Some(std::fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

fn read(path: &Path, bytes_max: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn of_user(owner: u32, path: PathBuf, bytes_max: u64) -> Option<Vec<u8>> {
    let is_slow = |until: &Instant| *until > Instant::now();
    if lock(&SLOW).get(&owner).is_some_and(is_slow) {
        return None;
    }
    let idle = lock(&IDLE).pop();
    let reader = match idle {
        Some(reader) => reader,
        None => Reader::start()?,
    };
    reader.asks.send((path, bytes_max)).ok()?;
    match reader.answers.recv_timeout(PATIENCE) {
        Ok(bytes) => {
            lock(&IDLE).push(reader);
            bytes
        }
        Err(_) => {
            let mut slow = lock(&SLOW);
            slow.retain(|_, until| is_slow(until));
            if slow.len() < SLOW_MAX {
                slow.insert(owner, Instant::now() + PENALTY);
            }
            None
        }
    }
}

impl Reader {
    /// Nothing when there are too many, or none is to be had.
    fn start() -> Option<Reader> {
        let count = |threads: usize| (threads < THREADS_MAX).then_some(threads + 1);
        THREADS.fetch_update(Ordering::SeqCst, Ordering::SeqCst, count).ok()?;
        let (asks, asked) = sync_channel::<(PathBuf, u64)>(1);
        let (answer, answers) = sync_channel(1);
        let serve = move || {
            // It may be held for ever; without, it holds open what the process has.
            let _ = process::keep_only_descriptors(&[]);
            for (path, bytes_max) in asked {
                // Nobody waits for it any more.
                if answer.send(read(&path, bytes_max)).is_err() {
                    break;
                }
            }
            THREADS.fetch_sub(1, Ordering::SeqCst);
        };
        let started = std::thread::Builder::new().name("arguments".into()).spawn(serve);
        if started.is_err() {
            THREADS.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        Some(Reader { asks, answers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_whose_process_must_not_be_dumped_is_not_taken_for_root() {
        use std::os::unix::process::CommandExt;
        const USER: u32 = 65534;
        if !rustix::process::geteuid().is_root() {
            return crate::test_not_run("the user of a process that must not be dumped", "root");
        }
        // A program that its user may not read has processes that must not be dumped.
        let program = PathBuf::from(format!("/tmp/warren-unread-{}", std::process::id()));
        // Written by another process: a child of another test must not hold it open for writing.
        let mut install = std::process::Command::new("install");
        let written = install.args(["-m", "711", "/bin/sleep"]).arg(&program).status();
        assert!(written.expect("coreutils are there").success());
        let mut process = std::process::Command::new(&program)
            .arg("60")
            .current_dir("/")
            .uid(USER)
            .spawn()
            .expect("it can be executed");
        let pid = process.id() as i32;
        let file = std::fs::metadata(format!("/proc/{pid}/cmdline")).expect("it runs");
        let found = owner(pid);
        process.kill().expect("our child");
        process.wait().expect("our child");
        std::fs::remove_file(&program).expect("it is there");
        assert_eq!((file.uid(), found), (0, Some(USER)));
        assert_eq!(owner(std::process::id() as i32), Some(0));
    }

    #[test]
    fn what_does_not_answer_is_waited_for_once() {
        let own = of(std::process::id() as i32, 4096).expect("it is there");
        let first = own.split(|&byte| byte == 0).next().expect("there is one");
        let name = std::env::args().next().expect("there is one");
        assert_eq!(String::from_utf8_lossy(first), name);
        assert_eq!(of(i32::MAX, 4096), None);

        let directory =
            std::env::temp_dir().join(format!("warren-arguments-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("a directory");
        let (fifo, file) = (directory.join("fifo"), directory.join("file"));
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)
            .expect("a FIFO");
        std::fs::write(&file, "x\0").expect("a file");
        const SLOW_USER: u32 = 4_000_000_001;
        const OTHER: u32 = 4_000_000_002;
        assert_eq!(of_user(OTHER, file.clone(), 9).as_deref(), Some(&b"x\0"[..]));
        // Nobody opens it for writing.
        assert_eq!(of_user(SLOW_USER, fifo.clone(), 9), None);
        assert_eq!(of_user(SLOW_USER, file.clone(), 9), None, "he is not asked again so soon");
        assert_eq!(of_user(OTHER, file, 9).as_deref(), Some(&b"x\0"[..]));
        drop(File::options().write(true).open(&fifo).expect("somebody reads"));
        warren_testkit::wait_until("all threads are idle", || {
            THREADS.load(Ordering::SeqCst) <= lock(&IDLE).len()
        });
        std::fs::remove_dir_all(&directory).expect("it is there");
    }
}

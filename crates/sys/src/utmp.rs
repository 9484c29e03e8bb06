//! Records of logins: `/run/utmp`, which says what is on which line now, and `/var/log/wtmp`, which keeps all of it
//! (utmp(5)).
//!
//! Nothing here allocates, so that a process on the way to its program can use it, and nothing waits: any user can
//! lock these files, since all may read them. Who holds the lock for longer than other programs do, which update one
//! record, is not waited for.

use std::ffi::CStr;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::slice;

use crate::error::{Error, Result, last_errno};

/// Records looked through at most.
const RECORDS_MAX: usize = 1 << 16;

/// Records read at once.
const RECORDS_PER_READ: usize = 8;

/// Times that the lock is asked for, the processor given away in between.
const LOCK_TRIES: usize = 100;

/// Where the records are.
#[derive(Debug, Clone, Copy)]
pub struct Files<'a> {
    /// One record for each line; written over.
    pub current: &'a CStr,
    /// All records there ever were.
    pub history: &'a CStr,
}

impl Files<'static> {
    /// Those of the machine.
    pub const OWN: Files<'static> = Files { current: c"/run/utmp", history: c"/var/log/wtmp" };
}

/// What a process says that it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Started by init (`INIT_PROCESS`).
    Init,
    /// Waits for somebody to log in (`LOGIN_PROCESS`).
    Login,
    /// A session of a user (`USER_PROCESS`).
    User,
}

/// A process that begins.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Its number.
    pub pid: i32,
    /// By which its record is found again: the last four bytes.
    pub id: &'a [u8],
    /// Its terminal; cut where it is too long.
    pub line: &'a [u8],
    /// Whose session it is; only [`Kind::User`] has one.
    pub user: &'a [u8],
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// `CLD_EXITED`, `CLD_KILLED` or `CLD_DUMPED` of sigaction(2).
    pub code: i16,
    /// Its exit status, or the signal.
    pub status: i16,
}

impl End {
    /// Nobody knows how.
    pub const UNKNOWN: End = End { code: 0, status: 0 };

    /// It ended by itself.
    pub fn exited(status: u8) -> End {
        End { code: libc::CLD_EXITED as i16, status: status.into() }
    }

    /// A signal ended it, and may have left a core dump.
    pub fn killed(signal: u8, dumped: bool) -> End {
        let code = if dumped { libc::CLD_DUMPED } else { libc::CLD_KILLED };
        End { code: code as i16, status: signal.into() }
    }
}

/// The terminal as records have it.
pub fn line_of(terminal: &str) -> &str {
    terminal.strip_prefix("/dev/").unwrap_or(terminal)
}

/// Writes down that a process begins.
pub fn begin(files: Files<'_>, kind: Kind, entry: &Entry<'_>) -> Result<()> {
    let record = record_of(kind, entry);
    let current = open(files.current).and_then(|file| {
        let _lock = Lock::of(&file);
        match find(&file, &record.ut_id)? {
            Some((at, _)) => write_at(&file, at, &record),
            None => append(&file, &record),
        }
    });
    // Each of them is of use without the other.
    let history = open(files.history).and_then(|file| append(&file, &record));
    current.and(history)
}

/// Writes down that one has ended, if the record is still about it.
pub fn end(files: Files<'_>, entry: &Entry<'_>, end: End) -> Result<()> {
    let mut record = record_of(Kind::Init, entry);
    record.ut_type = libc::DEAD_PROCESS;
    (record.ut_exit.e_termination, record.ut_exit.e_exit) = (end.code, end.status);
    let current = open(files.current).and_then(|file| {
        let _lock = Lock::of(&file);
        match find(&file, &record.ut_id)? {
            Some((at, found)) if found.ut_pid == entry.pid => {
                // As with systemd: who looks for the time of the end finds it in the other file.
                let mut dead = record;
                dead.ut_line = found.ut_line;
                // SAFETY: plain numbers.
                dead.ut_tv = unsafe { zeroed() };
                write_at(&file, at, &dead)
            }
            _ => Ok(()),
        }
    });
    let history = open(files.history).and_then(|file| append(&file, &record));
    current.and(history)
}

fn record_of(kind: Kind, entry: &Entry<'_>) -> libc::utmpx {
    // SAFETY: numbers and arrays of them.
    let mut record: libc::utmpx = unsafe { zeroed() };
    record.ut_type = match kind {
        Kind::Init => libc::INIT_PROCESS,
        Kind::Login => libc::LOGIN_PROCESS,
        Kind::User => libc::USER_PROCESS,
    };
    record.ut_pid = entry.pid;
    record.ut_session = entry.pid as _;
    let from = entry.id.len().saturating_sub(record.ut_id.len());
    fill(&mut record.ut_id, entry.id.get(from..).unwrap_or_default());
    fill(&mut record.ut_line, entry.line);
    if kind == Kind::User {
        fill(&mut record.ut_user, entry.user);
    }
    let now_us = crate::time::realtime_ns() / 1000;
    record.ut_tv.tv_sec = (now_us / 1_000_000) as _;
    record.ut_tv.tv_usec = (now_us % 1_000_000) as _;
    record
}

fn fill(to: &mut [libc::c_char], from: &[u8]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to = *from as libc::c_char);
}

fn open(path: &CStr) -> Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    // SAFETY: a terminated path; the fd is new.
    match unsafe { libc::open(path.as_ptr(), flags) } {
        -1 => Err(Error::new("open", last_errno())),
        // SAFETY: it is this process's own.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// The lock that programs take while they write; or none.
struct Lock<'a>(&'a OwnedFd);

impl Lock<'_> {
    fn of(file: &OwnedFd) -> Option<Lock<'_>> {
        let is_locked = (0..LOCK_TRIES).any(|_| {
            let locked = set_lock(file, libc::F_WRLCK);
            if !locked {
                // SAFETY: no arguments.
                unsafe { libc::sched_yield() };
            }
            locked
        });
        is_locked.then_some(Lock(file))
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        set_lock(self.0, libc::F_UNLCK);
    }
}

fn set_lock(file: &OwnedFd, kind: libc::c_int) -> bool {
    // SAFETY: numbers.
    let mut lock: libc::flock = unsafe { zeroed() };
    lock.l_type = kind as _;
    lock.l_whence = libc::SEEK_SET as _;
    // SAFETY: a lock of the whole file.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) == 0 }
}

/// The record of an id, and where it is.
fn find(file: &OwnedFd, id: &[libc::c_char]) -> Result<Option<(usize, libc::utmpx)>> {
    const RECORD_BYTES: usize = size_of::<libc::utmpx>();
    let mut first = 0;
    while first < RECORDS_MAX {
        // SAFETY: numbers and arrays of them.
        let mut some: [libc::utmpx; RECORDS_PER_READ] = unsafe { zeroed() };
        let at = first * RECORD_BYTES;
        let bytes = RECORDS_PER_READ * RECORD_BYTES;
        // SAFETY: room for so many bytes, any of which make records.
        let read = unsafe {
            libc::pread(file.as_raw_fd(), some.as_mut_ptr().cast(), bytes, at as libc::off_t)
        };
        let read = usize::try_from(read).map_err(|_| Error::new("pread", last_errno()))?;
        let whole = some.iter().take(read / RECORD_BYTES);
        let is_process = |record: &libc::utmpx| {
            (libc::INIT_PROCESS..=libc::DEAD_PROCESS).contains(&record.ut_type)
        };
        let is_it = |record: &libc::utmpx| is_process(record) && record.ut_id == *id;
        if let Some((number, record)) = whole.enumerate().find(|(_, record)| is_it(record)) {
            return Ok(Some(((first + number) * RECORD_BYTES, *record)));
        }
        if read < bytes {
            break;
        }
        first += RECORDS_PER_READ;
    }
    Ok(None)
}

fn bytes_of(record: &libc::utmpx) -> &[u8] {
    // SAFETY: it has no padding but what was zeroed.
    unsafe { slice::from_raw_parts(std::ptr::from_ref(record).cast(), size_of::<libc::utmpx>()) }
}

fn write_at(file: &OwnedFd, at: usize, record: &libc::utmpx) -> Result<()> {
    let bytes = bytes_of(record);
    // SAFETY: readable bytes.
    let written = unsafe {
        libc::pwrite(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), at as libc::off_t)
    };
    whole(written, bytes.len())
}

/// At the end, wherever that is then: two that append at once overwrite nothing of each other.
fn append(file: &OwnedFd, record: &libc::utmpx) -> Result<()> {
    let bytes = bytes_of(record);
    // SAFETY: a flag.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_APPEND) } < 0 {
        return Err(Error::new("fcntl", last_errno()));
    }
    // SAFETY: readable bytes.
    let written = unsafe { libc::write(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
    whole(written, bytes.len())
}

fn whole(written: isize, bytes: usize) -> Result<()> {
    match usize::try_from(written) {
        Ok(all) if all == bytes => Ok(()),
        Ok(_) => Err(Error::new("write", libc::ENOSPC)),
        Err(_) => Err(Error::new("write", last_errno())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::path::PathBuf;

    /// Two files, which are there and empty.
    struct Lab {
        paths: [PathBuf; 2],
        names: [CString; 2],
    }

    impl Lab {
        fn new(name: &str) -> Lab {
            let path = |what: &str| {
                let name = format!("warren-utmp-{}-{name}-{what}", std::process::id());
                let path = std::env::temp_dir().join(name);
                std::fs::write(&path, b"").expect("it can be written");
                path
            };
            let paths = ["current", "history"].map(path);
            let names = paths
                .clone()
                .map(|path| CString::new(path.to_str().expect("text")).expect("no NUL"));
            Lab { paths, names }
        }

        fn files(&self) -> Files<'_> {
            Files { current: &self.names[0], history: &self.names[1] }
        }

        /// Type, pid, id, line, user, exit, and whether there is a time, of each record.
        fn read(&self, which: usize) -> Vec<String> {
            let bytes = std::fs::read(&self.paths[which]).expect("it is there");
            let text = |chars: &[libc::c_char]| -> String {
                let bytes = chars.iter().take_while(|c| **c != 0).map(|c| *c as u8);
                String::from_utf8(bytes.collect()).expect("text")
            };
            bytes
                .chunks(size_of::<libc::utmpx>())
                .map(|chunk| {
                    // SAFETY: whole records of plain numbers.
                    let r: libc::utmpx = unsafe { std::ptr::read_unaligned(chunk.as_ptr().cast()) };
                    assert_eq!(r.ut_session as i32, r.ut_pid);
                    let (id, line, user) = (text(&r.ut_id), text(&r.ut_line), text(&r.ut_user));
                    let (code, status) = (r.ut_exit.e_termination, r.ut_exit.e_exit);
                    let time = if r.ut_tv.tv_sec == 0 { "no time" } else { "time" };
                    format!(
                        "{} {} [{id}] [{line}] [{user}] {code}/{status} {time}",
                        r.ut_type, r.ut_pid
                    )
                })
                .collect()
        }
    }

    impl Drop for Lab {
        fn drop(&mut self) {
            self.paths.iter().for_each(|path| _ = std::fs::remove_file(path));
        }
    }

    fn entry<'a>(pid: i32, id: &'a str, line: &'a str, user: &'a str) -> Entry<'a> {
        Entry { pid, id: id.as_bytes(), line: line.as_bytes(), user: user.as_bytes() }
    }

    #[test]
    fn a_line_has_one_record_and_the_history_all() {
        let lab = Lab::new("life");
        let (other, one) = (entry(4, "other", "", ""), entry(7, "abcdef", "tty1", "u"));
        begin(lab.files(), Kind::Init, &other).expect("written");
        for kind in [Kind::Init, Kind::Login, Kind::User] {
            begin(lab.files(), kind, &one).expect("written");
        }
        let begun = "5 4 [ther] [] [] 0/0 time";
        assert_eq!(lab.read(0), [begun, "7 7 [cdef] [tty1] [u] 0/0 time"]);
        end(lab.files(), &one, End::killed(9, false)).expect("written");
        assert_eq!(lab.read(0), [begun, "8 7 [cdef] [tty1] [] 2/9 no time"]);
        let history = [
            begun,
            "5 7 [cdef] [tty1] [] 0/0 time",
            "6 7 [cdef] [tty1] [] 0/0 time",
            "7 7 [cdef] [tty1] [u] 0/0 time",
            "8 7 [cdef] [tty1] [] 2/9 time",
        ];
        assert_eq!(lab.read(1), history);
        begin(lab.files(), Kind::Init, &entry(8, "cdef", "tty2", "u")).expect("written");
        assert_eq!(lab.read(0), [begun, "5 8 [cdef] [tty2] [] 0/0 time"]);
        // The place has another by now.
        end(lab.files(), &one, End::exited(3)).expect("written");
        assert_eq!(lab.read(0), [begun, "5 8 [cdef] [tty2] [] 0/0 time"]);
        assert_eq!(lab.read(1).last().map(String::as_str), Some("8 7 [cdef] [tty1] [] 1/3 time"));
    }

    #[test]
    fn a_record_is_found_among_many_and_what_is_too_long_is_cut() {
        let lab = Lab::new("many");
        let long = "x".repeat(40);
        for pid in 1..=30 {
            begin(lab.files(), Kind::User, &entry(pid, &format!("n{pid}"), &long, &long))
                .expect("written");
        }
        end(lab.files(), &entry(29, "n29", &long, ""), End::killed(6, true)).expect("written");
        let all = lab.read(0);
        let cut = "x".repeat(32);
        assert_eq!(all.len(), 30);
        assert_eq!(all[28], format!("8 29 [n29] [{cut}] [] 3/6 no time"));
        assert_eq!(all[29], format!("7 30 [n30] [{cut}] [{cut}] 0/0 time"));
    }

    #[test]
    fn who_holds_the_lock_holds_nobody_up() {
        let lab = Lab::new("lock");
        let holder = open(&lab.names[0]).expect("it is there");
        let _lock = Lock::of(&holder).expect("it is free");
        begin(lab.files(), Kind::Init, &entry(1, "a", "", "")).expect("written");
        assert_eq!(lab.read(0), ["5 1 [a] [] [] 0/0 time"]);
    }

    #[test]
    fn files_that_are_not_there_are_not_made() {
        let lab = Lab::new("none");
        std::fs::remove_file(&lab.paths[0]).expect("it is there");
        let one = entry(1, "a", "", "");
        assert!(begin(lab.files(), Kind::Init, &one).is_err());
        assert!(end(lab.files(), &one, End::exited(0)).is_err());
        assert!(!lab.paths[0].exists());
        assert_eq!(lab.read(1).len(), 2, "the other has them all the same");
        assert_eq!((line_of("/dev/pts/3"), line_of("/run/x")), ("pts/3", "/run/x"));
    }
}

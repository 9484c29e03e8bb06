//! Processes that let go of what strangers sent over Unix sockets: to close it may wait for its owner for ever, and
//! SIGKILL ends no such wait (a file on FUSE whose server is silent). Each shares the caller's memory and nothing
//! else, so it costs no copy of it, and whoever ends the caller does not wait for it.
//!
//! What must not be here: how many there may be ([`crate::letting_go`]).

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::clone::{Stack, start_beside};
use crate::error::{Error, Result};
use crate::fdpass::{self, FDS_PER_MESSAGE_MAX};
use crate::process::{self, Wait};
use crate::signal::{SignalSet, set_blocked};

const CLOSE_RANGE_UNSHARE: usize = 2;

/// How long the caller waits before it looks whether the process was killed.
const LOOKS_APART: Duration = Duration::from_millis(100);

/// Room for the sender, and for all file descriptors and the pidfd of a message.
const CONTROL_WORDS: usize = 144;

/// Most bytes of a stream that a process takes with the descriptors at its front.
pub const PIECE_BYTES_MAX: usize = 16 << 10;

/// What a process is to let go of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Task {
    /// The message at the front of a datagram socket.
    Front,
    /// The same, unless it is one file in memory.
    FrontUnlessMemory,
    /// So many bytes at the front of a stream, with the descriptors that came with them.
    Piece(usize),
    /// All messages of a datagram socket, one after the other, and the socket.
    Queue,
    /// A socket with what is in it.
    Socket,
    /// Sockets that come over this one, when it ends.
    Keep,
}

/// How far a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
enum Step {
    /// It has the caller's table of descriptors.
    Begun,
    /// It has a table of its own.
    Apart,
    /// The caller has no descriptor of the socket any more.
    Alone,
    /// The message at the front is one file in memory, and still there.
    Memory,
    /// The message is out of the socket.
    Taken,
    /// There was no message, or it could not be taken.
    Nothing,
}

/// What became of the message at the front of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    /// It is out of the socket.
    Taken,
    /// It is one file in memory, which nobody waits for, and still in the socket.
    Memory,
    /// There was none, or it is still there.
    Nothing,
}

/// What caller and process see of each other.
#[repr(C, align(8))]
struct Shared {
    step: AtomicU32,
    number: RawFd,
    task: Task,
    /// Its parent.
    caller: i32,
}

/// A process that lets go of something.
#[derive(Debug)]
pub struct Disposal {
    pid: i32,
    pidfd: OwnedFd,
    /// Both are given back when the process has ended, and never if it has not.
    shared: std::mem::ManuallyDrop<Box<SharedCell>>,
    stack: std::mem::ManuallyDrop<Stack>,
    has_ended: bool,
}

#[derive(Debug)]
struct SharedCell(std::cell::UnsafeCell<std::mem::MaybeUninit<Shared>>);

// SAFETY: the step is atomic, and the rest is not written after the process was made.
unsafe impl Sync for SharedCell {}

impl SharedCell {
    fn get(&self) -> &Shared {
        // SAFETY: it is written when it is made.
        unsafe { (*self.0.get()).assume_init_ref() }
    }
}

impl Disposal {
    /// Has the message at the front of a datagram socket thrown away.
    ///
    /// # Errors
    /// When no process can be had.
    pub fn of_front(socket: BorrowedFd<'_>) -> Result<Disposal> {
        Disposal::begin(socket, Task::Front)
    }

    /// The same, unless it is one file in memory.
    ///
    /// # Errors
    /// When no process can be had.
    pub fn of_front_unless_memory(socket: BorrowedFd<'_>) -> Result<Disposal> {
        Disposal::begin(socket, Task::FrontUnlessMemory)
    }

    /// Has so many bytes at the front of a stream thrown away, [`PIECE_BYTES_MAX`] at most, with the descriptors that
    /// came with them. Who looked at them knows what they are.
    ///
    /// # Errors
    /// When no process can be had.
    pub fn of_piece(socket: BorrowedFd<'_>, bytes: usize) -> Result<Disposal> {
        debug_assert!(bytes <= PIECE_BYTES_MAX, "no more was looked at");
        Disposal::begin(socket, Task::Piece(bytes.min(PIECE_BYTES_MAX)))
    }

    /// Gives a datagram socket away: each message is taken when the one before it has been let go of, so what is
    /// still in it counts as in flight for who sent it (getrlimit(2), `RLIMIT_NOFILE`).
    ///
    /// # Errors
    /// The socket, when no process can be had.
    pub fn of_queue(socket: OwnedFd) -> std::result::Result<Disposal, OwnedFd> {
        Disposal::begin_alone(socket, Task::Queue)
    }

    /// Gives a socket away with what is in it.
    ///
    /// # Errors
    /// The socket, when no process can be had.
    pub fn of_socket(socket: OwnedFd) -> std::result::Result<Disposal, OwnedFd> {
        Disposal::begin_alone(socket, Task::Socket)
    }

    /// A process that has what is sent to it over the socket that is returned, and lets go of all of it when that is
    /// closed: its sender has it no more.
    ///
    /// # Errors
    /// When no process can be had.
    pub fn keeper() -> Result<(Disposal, OwnedFd)> {
        let (near, far) = fdpass::seqpacket_pair(false)?;
        let keeper = Disposal::begin_alone(far, Task::Keep);
        keeper.map(|keeper| (keeper, near)).map_err(|_| Error::new("clone", libc::EAGAIN))
    }

    fn begin_alone(socket: OwnedFd, task: Task) -> std::result::Result<Disposal, OwnedFd> {
        let Ok(mut disposal) = Disposal::begin(socket.as_fd(), task) else { return Err(socket) };
        if disposal.has_ended() {
            return Err(socket);
        }
        drop(socket);
        disposal.step_to(Step::Alone);
        Ok(disposal)
    }

    fn begin(socket: BorrowedFd<'_>, task: Task) -> Result<Disposal> {
        let step = AtomicU32::new(Step::Begun as u32);
        let shared =
            Shared { step, number: socket.as_raw_fd(), task, caller: std::process::id() as i32 };
        let shared = std::mem::MaybeUninit::new(shared);
        let shared = Box::new(SharedCell(std::cell::UnsafeCell::new(shared)));
        let stack = Stack::new()?;
        let mut pidfd: RawFd = -1;
        let entry = shared.0.get().cast::<libc::c_void>();
        // The process has blocked what this thread has now.
        let blocked = set_blocked(SignalSet::ALL)?;
        // SAFETY: the process runs on a stack of its own; that and `shared` are given back when it has ended only
        // (`drop`). `run` makes raw system calls alone, and no signal reaches it.
        let made =
            unsafe { start_beside(libc::CLONE_FILES as u64, &stack, &mut pidfd, run, entry) };
        let _ = set_blocked(blocked);
        if made < 0 {
            return Err(Error::new("clone", -made as i32));
        }
        // SAFETY: on success the kernel stored a new fd that nobody else owns.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let (shared, stack) =
            (std::mem::ManuallyDrop::new(shared), std::mem::ManuallyDrop::new(stack));
        let mut made = Disposal { pid: made as i32, pidfd, shared, stack, has_ended: false };
        // Two system calls away.
        while !made.is_at(Step::Apart, LOOKS_APART) && !made.has_ended() {}
        Ok(made)
    }

    /// To be waited for: readable when the process has ended.
    pub fn pidfd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Whether it has let go. It is reaped then.
    pub fn has_ended(&mut self) -> bool {
        if !self.has_ended {
            // An error: somebody else has reaped it.
            let waited = process::wait(Wait::Pid(self.pid), false);
            self.has_ended = waited.map_or(true, |exit| exit.is_some());
        }
        self.has_ended
    }

    /// What became of the message, for which it is waited so long.
    pub fn front(&self, patience: Duration) -> Front {
        self.is_at(Step::Memory, patience);
        match self.step() {
            step if step == Step::Taken as u32 => Front::Taken,
            step if step == Step::Memory as u32 => Front::Memory,
            _ => Front::Nothing,
        }
    }

    fn step(&self) -> u32 {
        self.shared.get().step.load(Ordering::Acquire)
    }

    fn step_to(&self, step: Step) {
        enter(&self.shared.get().step, step);
    }

    /// Whether it comes that far in this time.
    fn is_at(&self, step: Step, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        loop {
            let now = self.step();
            let left = end.saturating_duration_since(Instant::now());
            if now >= step as u32 || left.is_zero() {
                return now >= step as u32;
            }
            let time = libc::timespec { tv_sec: 0, tv_nsec: left.subsec_nanos() as _ };
            let word = self.shared.get().step.as_ptr();
            // SAFETY: the word and the time live over the call, which writes to neither.
            unsafe { libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, now, &raw const time) };
        }
    }
}

impl Drop for Disposal {
    fn drop(&mut self) {
        if self.has_ended() {
            // SAFETY: nobody runs on the stack or looks at what is shared any more, and neither is used again.
            unsafe {
                std::mem::ManuallyDrop::drop(&mut self.shared);
                std::mem::ManuallyDrop::drop(&mut self.stack);
            }
        }
    }
}

fn enter(word: &AtomicU32, step: Step) {
    word.store(step as u32, Ordering::Release);
    // SAFETY: the word lives over the call.
    unsafe {
        raw::call(libc::SYS_futex, [word.as_ptr() as usize, libc::FUTEX_WAKE as usize, 8, 0])
    };
}

/// The new process. It ends with what it has, and sockets that linger are not waited for then.
extern "C" fn run(shared: *mut libc::c_void) -> ! {
    // SAFETY: `begin` passes a `Shared` that lives as long as this process.
    let shared = unsafe { &*shared.cast::<Shared>() };
    // SAFETY: plain integers, and pointers to what lives over each call.
    unsafe {
        if is_apart(shared.number as usize) {
            let name = c"letting-go".as_ptr() as usize;
            raw::call(libc::SYS_prctl, [libc::PR_SET_NAME as usize, name, 0, 0]);
            enter(&shared.step, Step::Apart);
            match shared.task {
                Task::Front => take(shared),
                Task::Piece(bytes) => take_piece(shared, bytes),
                Task::FrontUnlessMemory => sort(shared),
                Task::Queue => {
                    wait_until_alone(shared);
                    while receive(libc::MSG_DONTWAIT) >= 0 {
                        close_others();
                    }
                }
                Task::Socket => wait_until_alone(shared),
                Task::Keep => {
                    wait_until_alone(shared);
                    // Of a packet it says how long it was.
                    while receive(libc::MSG_TRUNC) > 0 {}
                }
            }
        } else {
            enter(&shared.step, Step::Nothing);
        }
        raw::call(libc::SYS_exit_group, [0; 4]);
    }
    std::process::abort()
}

/// Who closes a socket last is the one that waits, so the caller must have closed its own, or be gone.
fn wait_until_alone(shared: &Shared) {
    let time = libc::timespec { tv_sec: 1, tv_nsec: 0 };
    while shared.step.load(Ordering::Acquire) < Step::Alone as u32 {
        let word = shared.step.as_ptr() as usize;
        let time = (&raw const time) as usize;
        let wait = [word, libc::FUTEX_WAIT as usize, Step::Apart as usize, time];
        // SAFETY: the word and the time live over the call.
        let parent = unsafe {
            raw::call(libc::SYS_futex, wait);
            raw::call(libc::SYS_getppid, [0; 4])
        };
        if parent != shared.caller as isize {
            return;
        }
    }
}

/// Has a table of descriptors with this one alone, as number 0.
///
/// # Safety
/// To be called in the new process only.
unsafe fn is_apart(number: usize) -> bool {
    let behind = [number.wrapping_add(1), u32::MAX as usize, CLOSE_RANGE_UNSHARE, 0];
    // SAFETY: plain integers.
    unsafe {
        let apart = raw::call(libc::SYS_close_range, behind) >= 0
            // Before Linux 5.9 the others stay, too.
            || raw::call(libc::SYS_unshare, [libc::CLONE_FILES as usize, 0, 0, 0]) >= 0;
        if apart {
            // It fails of number 0, which it is then.
            raw::call(libc::SYS_dup3, [number, 0, 0, 0]);
            close_others();
        }
        apart
    }
}

/// Closes all but the socket, as what came with a message: that may never come back.
///
/// # Safety
/// To be called in the new process only.
unsafe fn close_others() {
    // SAFETY: plain integers.
    unsafe { raw::call(libc::SYS_close_range, [1, u32::MAX as usize, 0, 0]) };
}

/// Leaves a message that is one file in memory, and takes any other.
///
/// # Safety
/// To be called in the new process only.
unsafe fn sort(shared: &Shared) {
    // SAFETY: plain integers.
    unsafe {
        let looked = receive(libc::MSG_DONTWAIT | libc::MSG_PEEK);
        // What has seals lies in memory. They have the lowest numbers that are free.
        let has_seals = raw::call(libc::SYS_fcntl, [1, libc::F_GET_SEALS as usize, 0, 0]) >= 0;
        let is_alone = raw::call(libc::SYS_fcntl, [2, libc::F_GETFD as usize, 0, 0]) < 0;
        if looked >= 0 && has_seals && is_alone {
            return enter(&shared.step, Step::Memory);
        }
        take(shared);
    }
}

/// Takes the message at the front, and says so before anything that came with it is closed.
///
/// # Safety
/// To be called in the new process only.
unsafe fn take(shared: &Shared) {
    // SAFETY: promised by the caller.
    let was_there = unsafe { receive(libc::MSG_DONTWAIT) >= 0 };
    enter(&shared.step, if was_there { Step::Taken } else { Step::Nothing });
}

/// Takes so many bytes at the front of a stream, and says so before anything that came with them is closed.
///
/// # Safety
/// To be called in the new process only.
unsafe fn take_piece(shared: &Shared, bytes: usize) {
    let mut room = std::mem::MaybeUninit::<[u8; PIECE_BYTES_MAX]>::uninit();
    let bytes = bytes.min(PIECE_BYTES_MAX);
    let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: bytes };
    // SAFETY: promised by the caller; the room is as large as is said, and lives over the call.
    let taken = unsafe { receive_into(&mut part, libc::MSG_DONTWAIT) };
    enter(&shared.step, if taken == bytes as isize { Step::Taken } else { Step::Nothing });
}

/// Receives a message with all its file descriptors, so that the kernel has none to close; its bytes are cut.
///
/// # Safety
/// To be called in the new process only.
unsafe fn receive(flags: i32) -> isize {
    // SAFETY: promised by the caller.
    unsafe { receive_into(std::ptr::null_mut(), flags) }
}

/// The same with room for bytes, if there is some.
///
/// # Safety
/// To be called in the new process only, with nothing or one part that is valid over the call.
unsafe fn receive_into(part: *mut libc::iovec, flags: i32) -> isize {
    const _: () = assert!(CONTROL_WORDS * 8 >= 16 + FDS_PER_MESSAGE_MAX * 4 + 32 + 24);
    let mut control = [0u64; CONTROL_WORDS];
    // SAFETY: an all-zero msghdr is valid; the control buffer lives over the call.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = part;
        message.msg_iovlen = usize::from(!part.is_null()) as _;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        raw::call(libc::SYS_recvmsg, [0, (&raw mut message) as usize, flags as usize, 0])
    }
}

/// System calls without the C library, which writes to the caller's `errno`.
mod raw {
    use std::arch::asm;

    /// A negative error number, or what the call returns.
    ///
    /// # Safety
    /// As the call asks for.
    #[cfg(target_arch = "x86_64")]
    pub unsafe fn call(number: libc::c_long, args: [usize; 4]) -> isize {
        let ret: isize;
        // SAFETY: promised by the caller.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") number as isize => ret,
                in("rdi") args[0], in("rsi") args[1], in("rdx") args[2], in("r10") args[3],
                out("rcx") _, out("r11") _,
                options(nostack),
            );
        }
        ret
    }

    /// A negative error number, or what the call returns.
    ///
    /// # Safety
    /// As the call asks for.
    #[cfg(target_arch = "aarch64")]
    pub unsafe fn call(number: libc::c_long, args: [usize; 4]) -> isize {
        let ret: isize;
        // SAFETY: promised by the caller.
        unsafe {
            asm!(
                "svc #0",
                in("x8") number, inlateout("x0") args[0] => ret,
                in("x1") args[1], in("x2") args[2], in("x3") args[3],
                options(nostack),
            );
        }
        ret
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn wait_for_end(disposal: &mut Disposal) {
        warren_testkit::wait_until("the process ends", || disposal.has_ended());
    }

    fn pair() -> (UnixDatagram, UnixDatagram) {
        UnixDatagram::pair().expect("a pair")
    }

    fn number(fd: BorrowedFd<'_>) -> String {
        let target = std::fs::read_link(crate::file::descriptor_path(fd)).expect("it is open");
        target.display().to_string()
    }

    #[test]
    fn one_file_in_memory_stays_and_all_else_is_taken() {
        let (far, near) = pair();
        let memory = crate::memfd::sealed("warren-sys", b"x").expect("a memfd");
        let (file, number_before) =
            (std::fs::File::open("/proc/self/exe").expect("it is there"), number(near.as_fd()));
        let check = |text: &str, fds: &[BorrowedFd<'_>], expected: Front| {
            fdpass::send(far.as_fd(), text.as_bytes(), fds).expect("room");
            let mut disposal = Disposal::of_front_unless_memory(near.as_fd()).expect("a process");
            assert_eq!(disposal.front(PATIENCE), expected, "{text} {}", fds.len());
            wait_for_end(&mut disposal);
            let left = fdpass::peek_plain(near.as_fd(), &mut [0; 8]).is_ok();
            assert_eq!(left, expected == Front::Memory, "{text} {}", fds.len());
            fdpass::discard(near.as_fd());
        };
        check("", &[memory.as_fd()], Front::Memory);
        check("", &[file.as_fd()], Front::Taken);
        check("", &[memory.as_fd(), memory.as_fd()], Front::Taken);
        check("", &[memory.as_fd(), file.as_fd()], Front::Taken);
        check("plain", &[], Front::Taken);
        let many = vec![memory.as_fd(); FDS_PER_MESSAGE_MAX];
        check("many", &many, Front::Taken);
        assert_eq!(number(near.as_fd()), number_before, "the caller's table is its own");
        let mut empty = Disposal::of_front(near.as_fd()).expect("a process");
        assert_eq!(empty.front(PATIENCE), Front::Nothing);
        wait_for_end(&mut empty);
    }

    #[test]
    fn a_piece_of_a_stream_goes_with_its_descriptors_and_what_is_behind_it_stays() {
        let (far, near) = UnixStream::pair().expect("a pair");
        fdpass::send(far.as_fd(), b"with", &[far.as_fd(), far.as_fd()]).expect("room");
        fdpass::send(far.as_fd(), b"behind", &[]).expect("room");
        let mut piece = Disposal::of_piece(near.as_fd(), 4).expect("a process");
        assert_eq!(piece.front(PATIENCE), Front::Taken);
        wait_for_end(&mut piece);
        let mut room = [0; 16];
        let seen = fdpass::recv_plain(near.as_fd(), &mut room).expect("there is more");
        assert_eq!(&room[..seen.bytes], b"behind");
        let mut empty = Disposal::of_piece(near.as_fd(), 4).expect("a process");
        assert_eq!(empty.front(PATIENCE), Front::Nothing);
        wait_for_end(&mut empty);
    }

    #[test]
    fn a_queue_is_emptied_and_a_stream_is_closed() {
        let (far, near) = pair();
        for _ in 0..3 {
            fdpass::send(far.as_fd(), b"x", &[far.as_fd()]).expect("room");
        }
        wait_for_end(&mut Disposal::of_queue(near.into()).expect("a process"));
        assert!(far.send(b"x").is_err(), "it is closed");
        let (far, near) = UnixStream::pair().expect("a pair");
        wait_for_end(&mut Disposal::of_socket(near.into()).expect("a process"));
        assert!(fdpass::send(far.as_fd(), b"x", &[]).is_err_and(|e| e.is_closed()));
    }

    /// A process that ends does not wait at sockets that linger.
    #[test]
    fn sockets_that_linger_hold_nothing_up() {
        let (listener, sockets) = crate::test_lingering::<2>();
        let (far, near) = pair();
        let [one, other] = sockets;
        fdpass::send(far.as_fd(), b"", &[one.as_fd()]).expect("room");
        drop(one);
        let mut front = Disposal::of_front(near.as_fd()).expect("a process");
        assert_eq!(front.front(PATIENCE), Front::Taken);
        wait_for_end(&mut front);
        wait_for_end(&mut Disposal::of_socket(other.into()).expect("a process"));
        drop(listener);
    }

    #[test]
    fn a_keeper_has_what_is_sent_to_it_until_it_is_dismissed() {
        let (mut keeper, to) = Disposal::keeper().expect("a process");
        let (far, near) = UnixStream::pair().expect("a pair");
        fdpass::send(to.as_fd(), b"x", &[near.as_fd()]).expect("room");
        drop(near);
        let is_open = || fdpass::try_send(far.as_fd(), b"x", &[]).is_ok();
        assert!(is_open() && !keeper.has_ended());
        drop(to);
        wait_for_end(&mut keeper);
        assert!(!is_open());
    }
}

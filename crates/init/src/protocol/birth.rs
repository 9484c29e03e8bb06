//! Beside channel 1: how far a helper is with a process, in memory that outlives the helper.
//!
//! A helper that ends before it has answered leaves the question whether it made the process, and
//! whether that one has become its program: made again it would be run twice, not made again not at
//! all. So each helper has a sealed memfd, sent with its answer to [`super::exec::Sync`], in which it
//! writes the spawn that it is at and the new process writes how far it is. The step before execve(2)
//! and the manager's order not to take it are one compare-and-swap each: one of them is first.
//!
//! Two words for each of the last [`REMEMBERED`] spawns: its id, and the pid with the [`Phase`]. Then a word that
//! counts what the helper has done on the way there, which helpers of older versions do not have.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize};

use warren_sys::Result;
use warren_sys::memfd::{self, SharedWords};

/// Spawns that are remembered; more than a manager takes answers before it writes down what they
/// led to.
pub const REMEMBERED: usize = 256;

const WORDS: usize = 2 * REMEMBERED;

/// How far the process of a spawn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// There is none, or it has not said anything yet.
    Begun,
    /// It prepares itself: pid.
    Made(i32),
    /// It is its program, or is about to be, or has been: pid.
    Executes(i32),
    /// It may not become its program.
    Revoked,
}

const BEGUN: u64 = 0;
const MADE: u64 = 1;
const EXECUTES: u64 = 2;
const REVOKED: u64 = 3;
const PHASE_BITS: u32 = 2;

impl Phase {
    fn word(self) -> u64 {
        let with = |pid: i32, phase| u64::from(pid as u32) << PHASE_BITS | phase;
        match self {
            Phase::Begun => BEGUN,
            Phase::Made(pid) => with(pid, MADE),
            Phase::Executes(pid) => with(pid, EXECUTES),
            Phase::Revoked => REVOKED,
        }
    }

    fn of(word: u64) -> Phase {
        let pid = (word >> PHASE_BITS) as u32 as i32;
        match word & ((1 << PHASE_BITS) - 1) {
            BEGUN => Phase::Begun,
            MADE => Phase::Made(pid),
            EXECUTES => Phase::Executes(pid),
            _ => Phase::Revoked,
        }
    }
}

/// What a helper and its manager share.
#[derive(Debug)]
pub struct Birth {
    words: SharedWords,
    /// Helper: which is the next.
    next: AtomicUsize,
}

impl Birth {
    /// A new one, and the memfd to be sent.
    pub fn create() -> Result<(Birth, OwnedFd)> {
        let fd = memfd::fixed_size("warren-birth", (WORDS as u64 + 1) * 8)?;
        let words = SharedWords::map(std::os::fd::AsFd::as_fd(&fd))?;
        Ok((Birth { words, next: AtomicUsize::new(0) }, fd))
    }

    /// That of a helper; an error if the memory is too small or not sealed.
    pub fn attach(fd: BorrowedFd<'_>) -> Result<Birth> {
        use warren_sys::errno::EINVAL;
        let words = SharedWords::map(fd)?;
        match words.as_slice().len() >= WORDS {
            true => Ok(Birth { words, next: AtomicUsize::new(0) }),
            false => Err(warren_sys::Error::new("map birth", EINVAL)),
        }
    }

    /// That of a helper, for a process that it made and that runs another program on the way to its own.
    pub fn attach_at(fd: BorrowedFd<'_>, place: u64) -> Result<Birth> {
        let birth = Birth::attach(fd)?;
        birth.next.store(place as usize, Relaxed);
        Ok(birth)
    }

    /// Helper: where the process that it makes says how far it is ([`Birth::attach_at`]).
    pub fn place(&self) -> u64 {
        (self.next.load(Relaxed) % REMEMBERED) as u64
    }

    /// Helper: it has done a part of what may take long without waiting for anybody.
    pub fn goes_on(&self) {
        self.words.as_slice().get(WORDS).inspect(|done| _ = done.fetch_add(1, Relaxed));
    }

    /// Manager: how many parts it has ever done.
    pub fn done(&self) -> u64 {
        self.words.as_slice().get(WORDS).map_or(0, |done| done.load(Relaxed))
    }

    /// Helper: it makes the process of a spawn now. A helper gets no id twice, and never 0.
    pub fn begin(&self, spawn: u64) {
        let next = self.next.fetch_add(1, Relaxed) + 1;
        let [id, process] = self.entry(next);
        id.store(0, Release);
        process.store(Phase::Begun.word(), Release);
        id.store(spawn, Release);
    }

    /// New process: it is there. False: it is not wanted any more.
    #[must_use = "when false, the process must end"]
    pub fn made(&self, pid: i32) -> bool {
        step(self.newest(), Phase::Begun, Phase::Made(pid))
    }

    /// New process: execve(2) follows. False: it is not wanted any more.
    #[must_use = "when false, the process must end"]
    pub fn executes(&self, pid: i32) -> bool {
        step(self.newest(), Phase::Made(pid), Phase::Executes(pid))
    }

    /// New process: execve(2) has failed.
    pub fn failed(&self, pid: i32) {
        let _ = step(self.newest(), Phase::Executes(pid), Phase::Made(pid));
    }

    /// Manager: how far the process of a spawn is; `None`: the helper had not begun with it.
    pub fn phase(&self, spawn: u64) -> Option<Phase> {
        self.process(spawn).map(|word| Phase::of(word.load(SeqCst)))
    }

    /// Manager, of a helper that has ended: the process may not become its program. False: it has,
    /// or has gone on from `phase`.
    #[must_use = "when false, the process may be its program"]
    pub fn revoke(&self, spawn: u64, phase: Phase) -> bool {
        let may = |word: &&AtomicU64| step(word, phase, Phase::Revoked);
        !matches!(phase, Phase::Executes(_)) && self.process(spawn).filter(may).is_some()
    }

    /// Manager: the process, which may have been its program, was killed by the manager for good: nobody is to take
    /// its end for that of the spawn, which is done again.
    pub fn killed(&self, spawn: u64) {
        let process = self.process(spawn);
        process.inspect(|word| word.store(Phase::Revoked.word(), SeqCst));
    }

    fn process(&self, spawn: u64) -> Option<&AtomicU64> {
        let entries = (0..REMEMBERED).map(|at| self.entry(at));
        entries.into_iter().find(|[id, _]| id.load(Acquire) == spawn).map(|[_, process]| process)
    }

    fn newest(&self) -> &AtomicU64 {
        let [_, process] = self.entry(self.next.load(Relaxed));
        process
    }

    fn entry(&self, at: usize) -> [&AtomicU64; 2] {
        let at = at % REMEMBERED * 2;
        [&self.words.as_slice()[at], &self.words.as_slice()[at + 1]]
    }
}

fn step(word: &AtomicU64, from: Phase, to: Phase) -> bool {
    word.compare_exchange(from.word(), to.word(), SeqCst, SeqCst).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    /// Runs `b` (begin spawn 7), `m` (made), `x` (executes), `f` (failed), `r` (revoke what is seen)
    /// and says what the manager sees of spawn 7 after each; `!` where a step was refused.
    #[track_caller]
    fn check(script: &str, expected: &str) {
        let (helper, fd) = Birth::create().expect("memfd");
        let manager = Birth::attach(fd.as_fd()).expect("it is one");
        let mut out = String::new();
        for op in script.chars() {
            let done = match op {
                'b' => {
                    helper.begin(7);
                    true
                }
                'm' => helper.made(i32::MAX),
                'x' => helper.executes(i32::MAX),
                'f' => {
                    helper.failed(i32::MAX);
                    true
                }
                _ => manager.phase(7).is_some_and(|phase| manager.revoke(7, phase)),
            };
            out.push_str(if done { "" } else { "!" });
            out.push(match manager.phase(7) {
                None => '-',
                Some(Phase::Begun) => 'b',
                Some(Phase::Made(i32::MAX)) => 'm',
                Some(Phase::Executes(i32::MAX)) => 'x',
                Some(Phase::Revoked) => 'r',
                Some(other) => panic!("{other:?}"),
            });
        }
        assert_eq!(out, expected, "{script}");
    }

    #[test]
    fn one_of_execution_and_revocation_is_first() {
        check("r", "!-");
        check("bmx", "bmx");
        check("bmxr", "bmx!x");
        check("bmrx", "bmr!r");
        check("brmx", "br!r!r");
        check("bmxfr", "bmxmr");
    }

    #[test]
    fn what_has_gone_on_is_not_revoked() {
        let (birth, _fd) = Birth::create().expect("memfd");
        birth.begin(7);
        let seen = birth.phase(7).expect("it is at it");
        assert!(birth.made(3));
        assert!(!birth.revoke(7, seen));
        assert!(birth.executes(3));
        assert_eq!((birth.phase(7), birth.phase(8)), (Some(Phase::Executes(3)), None));
    }

    #[test]
    fn what_was_killed_is_not_taken_for_the_program() {
        let (birth, _fd) = Birth::create().expect("memfd");
        birth.begin(7);
        assert!(birth.made(3) && birth.executes(3));
        birth.killed(7);
        birth.killed(8);
        assert_eq!((birth.phase(7), birth.phase(8)), (Some(Phase::Revoked), None));
        assert!(!birth.executes(3));
    }

    #[test]
    fn a_process_says_how_far_it_is_from_another_program() {
        let (helper, fd) = Birth::create().expect("memfd");
        for spawn in 1..=REMEMBERED as u64 + 9 {
            helper.begin(spawn);
        }
        assert!(helper.made(3));
        let process = Birth::attach_at(fd.as_fd(), helper.place()).expect("it is one");
        assert!(process.executes(3));
        assert_eq!(helper.phase(REMEMBERED as u64 + 9), Some(Phase::Executes(3)));
        assert_eq!(helper.phase(REMEMBERED as u64 + 8), Some(Phase::Begun));
    }

    #[test]
    fn what_is_done_on_the_way_is_counted_where_there_is_room_for_it() {
        let (helper, fd) = Birth::create().expect("memfd");
        let manager = Birth::attach(fd.as_fd()).expect("it is one");
        (0..3).for_each(|_| helper.goes_on());
        assert_eq!(manager.done(), 3);
        let older = memfd::fixed_size("older", WORDS as u64 * 8).expect("memfd");
        let older = Birth::attach(older.as_fd()).expect("it is one");
        older.goes_on();
        assert_eq!(older.done(), 0);
    }

    #[test]
    fn the_last_ones_are_remembered() {
        let (birth, _fd) = Birth::create().expect("memfd");
        for spawn in 1..=REMEMBERED as u64 + 1 {
            birth.begin(spawn);
            assert!(birth.made(spawn as i32) && birth.executes(spawn as i32));
        }
        let phase = |spawn| birth.phase(spawn);
        let last = REMEMBERED as i32 + 1;
        assert_eq!((phase(1), phase(2)), (None, Some(Phase::Executes(2))));
        assert_eq!(phase(last as u64), Some(Phase::Executes(last)));
    }

    #[test]
    fn other_memory_is_refused() {
        let small = memfd::fixed_size("small", 8).expect("memfd");
        assert!(Birth::attach(small.as_fd()).is_err());
        let open = memfd::create("open").expect("memfd");
        assert!(Birth::attach(open.as_fd()).is_err());
    }
}

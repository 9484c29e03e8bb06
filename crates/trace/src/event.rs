//! One thing that happened: 32 bytes, the same in memory and in a file.
//!
//! [`Event`] is the bytes with names; [`What`] is what they mean. The recorder makes events with
//! [`Event::new`], readers ask [`Event::what`], which gives `None` for kinds and words of a newer
//! version: such events are kept and not understood.

use crate::words::{
    Active, Asked, Command, Counter, Ending, Exit, Phase, Reading, Release, Sub, Work,
};

/// Size of an event in files.
pub const EVENT_BYTES: usize = 32;

/// In place of a unit: none.
pub const NO_UNIT: u32 = u32::MAX;

/// One thing that happened. Which of `flags`, `code`, `a` and `b` mean what is told by
/// [`Event::what`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// `CLOCK_MONOTONIC`, in µs.
    pub time_us: u64,
    /// The unit it happened to, or [`NO_UNIT`].
    pub unit: u32,
    /// The unit that brought it about, or [`NO_UNIT`].
    pub cause: u32,
    kind: u8,
    flags: u8,
    code: u16,
    a: u32,
    b: u64,
}

/// What an event means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A job was installed; the cause is the unit that pulled it in.
    JobQueued {
        /// The job's id.
        job: u32,
        /// What it does.
        work: Work,
        /// Who asked for it.
        asked: Asked,
        /// The client's user, where a client asked.
        uid: u32,
        /// The client's process; 0 when it is not known.
        pid: u32,
    },
    /// A job may run; the cause is the unit whose edge was the last one that held it.
    JobReleased {
        /// The job's id.
        job: u32,
        /// What it waited for last.
        by: Release,
    },
    /// A job ended; the cause is the unit that brought that about.
    JobEnded {
        /// The job's id.
        job: u32,
        /// How.
        ending: Ending,
        /// Reason code, `WR-nnnn`.
        reason: u16,
    },
    /// A unit changed its state.
    State {
        /// The state that all types share.
        active: Active,
        /// The state in the words of the type.
        sub: Sub,
        /// Reason code, `WR-nnnn`.
        reason: u16,
    },
    /// A process of a unit was started.
    Exec {
        /// The process.
        pid: u32,
        /// Which command it runs.
        command: Command,
        /// It is the main process.
        main: bool,
    },
    /// A process of a unit ended.
    Exit {
        /// The process.
        pid: u32,
        /// How.
        exit: Exit,
        /// Exit code or signal number.
        status: u16,
        /// It was the main process.
        main: bool,
    },
    /// A unit was sent a signal.
    Signal {
        /// The signal's number.
        signal: u8,
        /// The process; 0 for every process of the unit.
        pid: u32,
        /// How many processes got it, when that is known.
        count: u64,
    },
    /// The unit's cgroup has no process left.
    GroupEmpty {
        /// The last process that was seen there; 0 when it is not known.
        last_pid: u32,
    },
    /// A counter of the unit's cgroup.
    Counter {
        /// Which.
        counter: Counter,
        /// When it was read.
        reading: Reading,
        /// Its value.
        value: u64,
    },
    /// The manager began with something; `detail` counts what it is about to look at.
    PhaseBegin {
        /// With what.
        phase: Phase,
        /// A count whose meaning depends on the phase.
        detail: u64,
    },
    /// The manager is done with it; `detail` counts what came of it.
    PhaseEnd {
        /// With what.
        phase: Phase,
        /// A count whose meaning depends on the phase.
        detail: u64,
    },
    /// The manager did not come to the end of it, because something else came first.
    PhaseGivenUp {
        /// Of what.
        phase: Phase,
    },
    /// Clients of the bus and the control socket that wait for the manager's loop.
    BusQueue {
        /// How many.
        depth: u64,
    },
    /// CPU time that the manager itself has used since it started.
    OwnCpu {
        /// In µs.
        cpu_us: u64,
    },
    /// Here events are missing.
    Lost {
        /// How many.
        count: u64,
    },
    /// The unit is forgotten: its number means another one from here on. In the manager's memory only:
    /// within a file each unit has a number of its own.
    Renamed,
}

const JOB_QUEUED: u8 = 1;
const JOB_RELEASED: u8 = 2;
const JOB_ENDED: u8 = 3;
const STATE: u8 = 4;
const EXEC: u8 = 5;
const EXIT: u8 = 6;
const SIGNAL: u8 = 7;
const GROUP_EMPTY: u8 = 8;
const COUNTER: u8 = 9;
const PHASE_BEGIN: u8 = 10;
const PHASE_END: u8 = 11;
const BUS_QUEUE: u8 = 12;
const OWN_CPU: u8 = 13;
const LOST: u8 = 14;
const RENAMED: u8 = 15;
const PHASE_GIVEN_UP: u8 = 16;

/// The parts of an event whose meaning its kind decides: kind, flags, code, a, b.
type Parts = (u8, u8, u16, u32, u64);

impl What {
    fn parts(self) -> Parts {
        match self {
            What::JobQueued { job, work, asked, uid, pid } => (
                JOB_QUEUED,
                work.number(),
                u16::from(asked.number()),
                job,
                u64::from(uid) << 32 | u64::from(pid),
            ),
            What::JobReleased { job, by } => (JOB_RELEASED, by.number(), 0, job, 0),
            What::JobEnded { job, ending, reason } => (JOB_ENDED, ending.number(), reason, job, 0),
            What::State { active, sub, reason } => {
                (STATE, active.number(), reason, u32::from(sub.number()), 0)
            }
            What::Exec { pid, command, main } => (EXEC, command.number(), u16::from(main), pid, 0),
            What::Exit { pid, exit, status, main } => {
                (EXIT, exit.number(), status, pid, u64::from(main))
            }
            What::Signal { signal, pid, count } => (SIGNAL, signal, 0, pid, count),
            What::GroupEmpty { last_pid } => (GROUP_EMPTY, 0, 0, last_pid, 0),
            What::Counter { counter, reading, value } => {
                (COUNTER, counter.number(), u16::from(reading.number()), 0, value)
            }
            What::PhaseBegin { phase, detail } => (PHASE_BEGIN, phase.number(), 0, 0, detail),
            What::PhaseEnd { phase, detail } => (PHASE_END, phase.number(), 0, 0, detail),
            What::PhaseGivenUp { phase } => (PHASE_GIVEN_UP, phase.number(), 0, 0, 0),
            What::BusQueue { depth } => (BUS_QUEUE, 0, 0, 0, depth),
            What::OwnCpu { cpu_us } => (OWN_CPU, 0, 0, 0, cpu_us),
            What::Lost { count } => (LOST, 0, 0, 0, count),
            What::Renamed => (RENAMED, 0, 0, 0, 0),
        }
    }

    fn of_parts((kind, flags, code, a, b): Parts) -> Option<What> {
        let small = |number: u64| u8::try_from(number).ok();
        Some(match kind {
            JOB_QUEUED => What::JobQueued {
                job: a,
                work: Work::from_number(flags)?,
                asked: Asked::from_number(small(code.into())?)?,
                uid: (b >> 32) as u32,
                pid: b as u32,
            },
            JOB_RELEASED => What::JobReleased { job: a, by: Release::from_number(flags)? },
            JOB_ENDED => {
                What::JobEnded { job: a, ending: Ending::from_number(flags)?, reason: code }
            }
            STATE => What::State {
                active: Active::from_number(flags)?,
                sub: Sub::from_number(small(a.into())?)?,
                reason: code,
            },
            EXEC => {
                What::Exec { pid: a, command: Command::from_number(flags)?, main: code & 1 == 1 }
            }
            EXIT => What::Exit {
                pid: a,
                exit: Exit::from_number(flags)?,
                status: code,
                main: b & 1 == 1,
            },
            SIGNAL => What::Signal { signal: flags, pid: a, count: b },
            GROUP_EMPTY => What::GroupEmpty { last_pid: a },
            COUNTER => What::Counter {
                counter: Counter::from_number(flags)?,
                reading: Reading::from_number(small(code.into())?)?,
                value: b,
            },
            PHASE_BEGIN => What::PhaseBegin { phase: Phase::from_number(flags)?, detail: b },
            PHASE_END => What::PhaseEnd { phase: Phase::from_number(flags)?, detail: b },
            PHASE_GIVEN_UP => What::PhaseGivenUp { phase: Phase::from_number(flags)? },
            BUS_QUEUE => What::BusQueue { depth: b },
            OWN_CPU => What::OwnCpu { cpu_us: b },
            LOST => What::Lost { count: b },
            RENAMED => What::Renamed,
            _ => return None,
        })
    }
}

impl Event {
    /// An event; `unit` and `cause` may be [`NO_UNIT`].
    pub fn new(time_us: u64, unit: u32, cause: u32, what: What) -> Event {
        let (kind, flags, code, a, b) = what.parts();
        Event { time_us, unit, cause, kind, flags, code, a, b }
    }

    /// What it means; `None` for what a newer version wrote.
    pub fn what(&self) -> Option<What> {
        What::of_parts((self.kind, self.flags, self.code, self.a, self.b))
    }

    /// The bytes in a file: all numbers little-endian.
    pub fn to_bytes(&self) -> [u8; EVENT_BYTES] {
        let mut out = [0; EVENT_BYTES];
        out[0..8].copy_from_slice(&self.time_us.to_le_bytes());
        out[8..12].copy_from_slice(&self.unit.to_le_bytes());
        out[12..16].copy_from_slice(&self.cause.to_le_bytes());
        out[16] = self.kind;
        out[17] = self.flags;
        out[18..20].copy_from_slice(&self.code.to_le_bytes());
        out[20..24].copy_from_slice(&self.a.to_le_bytes());
        out[24..32].copy_from_slice(&self.b.to_le_bytes());
        out
    }

    /// The event of these bytes. Any 32 bytes are an event; not all are understood.
    pub fn from_bytes(bytes: &[u8; EVENT_BYTES]) -> Event {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let half = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        Event {
            time_us: word(0),
            unit: half(8),
            cause: half(12),
            kind: bytes[16],
            flags: bytes[17],
            code: u16::from_le_bytes([bytes[18], bytes[19]]),
            a: half(20),
            b: word(24),
        }
    }

    /// The units that it names.
    pub fn units(&self) -> impl Iterator<Item = u32> {
        [self.unit, self.cause].into_iter().filter(|unit| *unit != NO_UNIT)
    }

    /// The reason code that it carries; 0 for none.
    pub fn reason(&self) -> u16 {
        if matches!(self.kind, JOB_ENDED | STATE) { self.code } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(what: What) {
        let event = Event::new(1_000_000_007, 5, NO_UNIT, what);
        assert_eq!(event.what(), Some(what));
        assert_eq!(Event::from_bytes(&event.to_bytes()), event);
    }

    #[test]
    fn every_kind_survives_a_file() {
        let (job, pid) = (u32::MAX, 4_194_304);
        let asked = Asked::Request;
        check(What::JobQueued { job, work: Work::Restart, asked, uid: 4_294_967_294, pid });
        check(What::JobReleased { job, by: Release::Unit });
        check(What::JobEnded { job, ending: Ending::Dependency, reason: 60 });
        check(What::State { active: Active::Failed, sub: Sub::AutoRestart, reason: 9_999 });
        check(What::Exec { pid, command: Command::StartPre, main: true });
        check(What::Exit { pid, exit: Exit::Dumped, status: 11, main: false });
        check(What::Signal { signal: 64, pid: 0, count: 1 << 40 });
        check(What::GroupEmpty { last_pid: pid });
        let counter = Counter::IoWriteBytes;
        check(What::Counter { counter, reading: Reading::Stop, value: u64::MAX });
        check(What::PhaseBegin { phase: Phase::Parse, detail: 40_000 });
        check(What::PhaseEnd { phase: Phase::Storage, detail: 0 });
        check(What::PhaseGivenUp { phase: Phase::Boot });
        check(What::BusQueue { depth: 3 });
        check(What::OwnCpu { cpu_us: 77 });
        check(What::Lost { count: 1 });
        check(What::Renamed);
    }

    proptest! {
        #[test]
        fn any_bytes_are_kept(bytes in any::<[u8; EVENT_BYTES]>()) {
            let event = Event::from_bytes(&bytes);
            prop_assert_eq!(event.to_bytes(), bytes);
            if let Some(what) = event.what() {
                let again = Event::new(event.time_us, event.unit, event.cause, what);
                prop_assert_eq!(again.what(), Some(what));
            }
        }
    }
}

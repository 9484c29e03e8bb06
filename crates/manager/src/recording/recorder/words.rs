//! What the core tells, in the words of recordings.

use warren_core::model::active_state::ActiveState;
use warren_core::model::ids::UnitId;
use warren_core::model::job::{JobKind, JobResult};
use warren_core::model::process::{CommandList, ExitStatus};
use warren_core::model::reason::{Cause, Reason};
use warren_core::protocol::event::KillTarget;
use warren_core::protocol::request::Asker;
use warren_core::protocol::trace_event::{Happening, What as Happened};
use warren_trace::event::{Event, NO_UNIT, What};
use warren_trace::words::{Active, Asked, Command, Ending, Exit, Release, Sub, Work};

/// The event of a happening.
pub(crate) fn event(happening: &Happening) -> Event {
    let event = |cause: Option<UnitId>, what| {
        let cause = cause.map_or(NO_UNIT, |unit| unit.0);
        Event::new(happening.at.0, happening.unit.0, cause, what)
    };
    match happening.what {
        Happened::JobQueued { job, kind, reason } => {
            let (asked, cause, uid, pid) = asked(reason.cause);
            event(cause, What::JobQueued { job: job.0, work: work(kind), asked, uid, pid })
        }
        Happened::JobBegan { job, released_by, .. } => {
            let by = if released_by.is_some() { Release::Unit } else { Release::AtOnce };
            event(released_by, What::JobReleased { job: job.0, by })
        }
        Happened::JobEnded { job, result, reason, .. } => {
            let (ending, code) = (ending(result), reason.code as u16);
            event(cause_unit(reason), What::JobEnded { job: job.0, ending, reason: code })
        }
        Happened::State { active, sub, reason } => {
            let sub = Sub::from_text(sub).unwrap_or(Sub::Unknown);
            let (active, code) = (self::active(active), reason.code as u16);
            event(cause_unit(reason), What::State { active, sub, reason: code })
        }
        Happened::ProcessStarted { pid, list, main } => {
            event(None, What::Exec { pid, command: command(list), main })
        }
        Happened::ProcessEnded { pid, status } => {
            let (exit, status) = exit(status);
            event(None, What::Exit { pid, exit, status, main: false })
        }
        Happened::Signal { target, signal } => {
            let pid = match target {
                KillTarget::Process(pid) => pid,
                KillTarget::Group => 0,
            };
            let signal = u8::try_from(signal).unwrap_or(0);
            event(None, What::Signal { signal, pid, count: 0 })
        }
        Happened::GroupEmpty => event(None, What::GroupEmpty { last_pid: 0 }),
    }
}

/// Who asked: the kind, the unit, the user and the process, as far as they are known.
fn asked(cause: Cause) -> (Asked, Option<UnitId>, u32, u32) {
    match cause {
        Cause::None => (Asked::Unknown, None, 0, 0),
        Cause::Request { uid, pid: Asker::OUTSIDE } => (Asked::Request, None, uid, 0),
        Cause::Request { uid, pid } => (Asked::Request, None, uid, pid),
        Cause::Dependency(unit) => (Asked::Dependency, Some(unit), 0, 0),
        Cause::Trigger(unit) => (Asked::Trigger, Some(unit), 0, 0),
        Cause::Restart => (Asked::Restart, None, 0, 0),
        Cause::Outcome(unit) => (Asked::Outcome, Some(unit), 0, 0),
        Cause::Kernel => (Asked::Kernel, None, 0, 0),
        Cause::Manager => (Asked::Manager, None, 0, 0),
    }
}

fn cause_unit(reason: Reason) -> Option<UnitId> {
    asked(reason.cause).1
}

fn work(kind: JobKind) -> Work {
    match kind {
        JobKind::Start => Work::Start,
        JobKind::VerifyActive => Work::VerifyActive,
        JobKind::Stop => Work::Stop,
        JobKind::Reload => Work::Reload,
        JobKind::Restart => Work::Restart,
        JobKind::Nop => Work::Nop,
    }
}

fn ending(result: JobResult) -> Ending {
    match result {
        JobResult::Done => Ending::Done,
        JobResult::Canceled => Ending::Canceled,
        JobResult::Timeout => Ending::Timeout,
        JobResult::Failed => Ending::Failed,
        JobResult::Dependency => Ending::Dependency,
        JobResult::Skipped => Ending::Skipped,
        JobResult::Invalid => Ending::Invalid,
        JobResult::Assert => Ending::Assert,
        JobResult::Unsupported => Ending::Unsupported,
        JobResult::Collected => Ending::Collected,
        JobResult::Once => Ending::Once,
    }
}

fn active(state: ActiveState) -> Active {
    match state {
        ActiveState::Active => Active::Active,
        ActiveState::Reloading => Active::Reloading,
        ActiveState::Inactive => Active::Inactive,
        ActiveState::Failed => Active::Failed,
        ActiveState::Activating => Active::Activating,
        ActiveState::Deactivating => Active::Deactivating,
        ActiveState::Maintenance => Active::Maintenance,
    }
}

fn command(list: CommandList) -> Command {
    match list {
        CommandList::Condition => Command::Condition,
        CommandList::StartPre => Command::StartPre,
        CommandList::Start => Command::Start,
        CommandList::StartPost => Command::StartPost,
        CommandList::Reload => Command::Reload,
        CommandList::Stop => Command::Stop,
        CommandList::StopPost => Command::StopPost,
    }
}

fn exit(status: ExitStatus) -> (Exit, u16) {
    match status {
        ExitStatus::Exited(code) => (Exit::Exited, code.into()),
        ExitStatus::Killed(signal) => (Exit::Killed, signal.into()),
        ExitStatus::Dumped(signal) => (Exit::Dumped, signal.into()),
        ExitStatus::Unknown => (Exit::Unknown, 0),
    }
}

//! The end: every unit is stopped, then the last steps are taken, then init ends the machine.
//!
//! Units are stopped by jobs like any other. While that goes on, what is waited for is told once a
//! second, and file systems are written out by a process of their own. Nothing here waits: each
//! stage ends with an event. Start at [`Daemon::begin_end`].

use crate::base::console::Console;
use crate::base::host::{ends_container, owns_machine};
use crate::base::patience::Patient;
use crate::base::say::say;
use crate::last_steps::report::Done as LastDone;
use std::time::Duration;
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::model::job::JobKind;
use warren_core::model::time::{Moment, Monotonic};
use warren_core::protocol::trace_event::{Happening, What};
use warren_init::protocol::control::PowerAction;
use warren_trace::event as trace;
use warren_trace::words::Phase;
use warren_unit::Scope;

/// What is waited for is told from this time on.
const QUIET: Duration = Duration::from_secs(2);

/// And again after each of these.
pub(crate) const TOLD_APART: Duration = Duration::from_secs(1);

/// The last steps are over in this time, or go on as long as less and less is to be written: each of them
/// has a bound of its own, and this is for the process that takes them.
const LAST_STEPS_MAX: Duration = Duration::from_secs(10 * 60);

/// How long processes that outlived their units have to end when they were asked to, at least: where the time
/// for everything is over, and where whoever has a session stopped gives it some time of his own.
pub(crate) const GRACE_MIN: Duration = Duration::from_secs(5);

/// Units whose counters are read one by one when they go down at the end. Each reading has the kernel
/// sum up what all processors counted, which for thousands would cost more than all other recording;
/// the others are in the counters of their slices, which are always read.
const COUNTED_MAX: usize = 128;

/// Where keys are read on a host.
pub(crate) const CONSOLE: &str = "/dev/console";

/// Effects that only this room asks for: their numbers are beyond those of the machine.
pub(crate) const LAST_STEPS_EFFECT: EffectId = EffectId(1 << 61);

pub(crate) const SYNC_EFFECT: EffectId = EffectId((1 << 61) + 1);

pub(crate) const WALL_EFFECT: EffectId = EffectId((1 << 61) + 2);

pub(crate) const LAST_SYNC_EFFECT: EffectId = EffectId((1 << 61) + 3);

/// Where the cgroups are listed that the last steps leave alone, below the manager's directory of run-time files.
pub(crate) const SPARED: &str = "warren/spared";

/// The end, once it has begun.
#[derive(Debug)]
pub struct Ending {
    /// What follows; none while units are stopped by a `shutdown.target` of files, which name what
    /// follows by an action of theirs when that is over.
    pub(crate) action: Option<PowerAction>,
    /// What people were told that follows.
    pub(crate) told: Option<PowerAction>,
    pub(crate) began: Moment,
    /// When units were last told to go, since which they have their time.
    pub(crate) asked: Monotonic,
    pub(crate) stage: Stage,
    pub(crate) told_at: Monotonic,
    pub(crate) console: Option<Console>,
    /// The unit that the last line named first: it is the one that the key is for.
    pub(crate) named: Option<UnitId>,
    /// Units whose counters were read.
    counted: usize,
    /// The groups of units go with the machine. Those of a container are somebody else's to remove:
    /// left to him they would cost him what they cost here.
    leaves_groups: bool,
    /// A container's process 1 is ours.
    is_container: bool,
    /// The last steps of this manager are being taken. They go on though another end has overtaken the
    /// one that they are of.
    pub(crate) takes_last_steps: bool,
    /// Storage is taken apart once those that are being taken, which look for processes, are over: what is
    /// recorded of them is written in between.
    pub(crate) storage_is_next: bool,
    /// What is recorded of the last steps so far.
    pub(crate) told_last: LastDone,
    /// No soft reboot can follow any more: units are not asked to go, or the last steps of another end are
    /// taken, which leave nothing that it could go on with.
    pub(crate) is_past_soft_reboot: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Jobs stop all units.
    Units,
    /// A process takes the last steps.
    LastSteps {
        /// Until then, unless it goes on.
        until: Monotonic,
        /// What was to be written when that was set.
        unwritten_bytes: u64,
    },
}

impl Stage {
    /// The last steps, which have all their time from now on.
    pub(crate) fn last_steps(now: Monotonic, unwritten_bytes: u64) -> Stage {
        Stage::with_grace(Duration::ZERO, now, unwritten_bytes)
    }

    /// The same, with the time that processes are given to end.
    pub(crate) fn with_grace(grace: Duration, now: Monotonic, unwritten_bytes: u64) -> Stage {
        Stage::LastSteps { until: now.after(LAST_STEPS_MAX + grace), unwritten_bytes }
    }

    /// Whether the last steps take too long; they get their time again when less is left to write.
    pub(crate) fn is_over(&mut self, now: Monotonic, unwritten_now: u64) -> bool {
        match *self {
            Stage::LastSteps { until, unwritten_bytes } if now >= until => {
                let goes_on = unwritten_now < unwritten_bytes;
                if goes_on {
                    *self = Stage::last_steps(now, unwritten_now);
                }
                !goes_on
            }
            _ => false,
        }
    }
}

pub(crate) fn say_dated(text: &str) {
    say!("{} {text}", jiff::Zoned::now().strftime("%Y-%m-%d %H:%M:%S %Z"));
}

pub(crate) fn is_start(happening: &Happening) -> bool {
    matches!(happening.what, What::JobQueued { kind: JobKind::Start, .. })
}

impl Ending {
    /// An end that begins then, or that an earlier manager had begun.
    pub fn new(action: Option<PowerAction>, scope: Scope, began: Moment) -> Ending {
        let leaves_groups = owns_machine(scope);
        let told_at = began.monotonic.after(QUIET);
        Ending {
            action,
            told: action,
            began,
            asked: began.monotonic,
            stage: Stage::Units,
            told_at,
            console: None,
            named: None,
            counted: 0,
            leaves_groups,
            is_container: ends_container(scope),
            takes_last_steps: false,
            storage_is_next: false,
            told_last: LastDone::default(),
            is_past_soft_reboot: false,
        }
    }

    /// Whether groups in which nobody is may be left where they are; and whether it is known what
    /// follows, so that there is no way back.
    pub fn leaves_groups(&self) -> Option<bool> {
        // After a soft reboot it would be somebody else who finds them.
        let goes = self.action != Some(PowerAction::SoftReboot);
        (self.leaves_groups && goes).then_some(self.action.is_some())
    }

    /// An earlier manager began it at this moment, and recorded this.
    pub fn go_on_since(&mut self, began: Moment, recorded: &[trace::Event]) {
        let takes_apart = |event: &trace::Event| {
            matches!(event.what(), Some(trace::What::PhaseBegin { phase: Phase::Storage, .. }))
        };
        self.is_past_soft_reboot = recorded.iter().any(takes_apart);
        (self.began, self.asked) = (began, began.monotonic);
        self.told_at = began.monotonic.after(QUIET);
    }

    /// Whether it is known what follows, so that there is no way back.
    pub fn is_for_good(&self) -> bool {
        self.action.is_some()
    }

    /// What the manager exits with, where somebody has named that.
    pub fn exit_status(&self) -> Option<u8> {
        match self.action {
            Some(PowerAction::Exit(status)) if status != 0 => Some(status),
            _ => None,
        }
    }

    /// Whether init ends, and with it all that it keeps.
    pub fn takes_init(&self) -> bool {
        self.is_for_good() && self.action != Some(PowerAction::SoftReboot)
    }

    /// Whether what is mounted goes with the last process: in a container that ends.
    pub fn takes_mounts(&self) -> bool {
        self.takes_init() && self.is_container
    }

    /// Whether the counters of one more unit are to be read.
    pub fn counts(&mut self, is_slice: bool) -> bool {
        let counts = is_slice || self.counted < COUNTED_MAX;
        self.counted += usize::from(counts && !is_slice);
        counts
    }
}

impl Patient for Ending {
    // When to look again though nothing happens.
    fn deadline(&self) -> Option<Monotonic> {
        Some(match self.stage {
            Stage::Units => self.told_at,
            Stage::LastSteps { until, .. } => until,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_steps_go_on_as_long_as_less_and_less_is_to_be_written() {
        let at = |times: u64| Monotonic(times * LAST_STEPS_MAX.as_micros() as u64);
        let mut stage = Stage::last_steps(at(0), 9);
        assert!(!stage.is_over(Monotonic(at(1).0 - 1), 9), "not before its time");
        assert!(!stage.is_over(at(1), 8), "a slow disk");
        assert_eq!(stage, Stage::last_steps(at(1), 8));
        assert!(!stage.is_over(Monotonic(at(2).0 - 1), 8));
        assert!(stage.is_over(at(2), 8), "one that does not go on");
        assert!(!Stage::Units.is_over(at(9), 0));
    }
}

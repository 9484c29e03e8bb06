//! Jobs: what is asked of a unit, and the tables of job types and modes.

use crate::model::active_state::ActiveState;
use crate::model::ids::{JobId, UnitId};
use crate::model::reason::Reason;
use crate::model::time::Monotonic;
use serde::{Deserialize, Serialize};

/// What a client may ask for (systemctl(1), and `EnqueueUnitJob` of the bus).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum JobType {
    Start,
    VerifyActive,
    Stop,
    Reload,
    Restart,
    TryRestart,
    TryReload,
    ReloadOrStart,
    Nop,
}

/// What is installed on a unit: the types above once its state was looked at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum JobKind {
    Start,
    VerifyActive,
    Stop,
    Reload,
    /// The stop half of a restart; becomes a start job when the unit is down.
    Restart,
    Nop,
}

impl JobType {
    /// All types with the words that clients use.
    pub const NAMES: &[(JobType, &str)] = &[
        (JobType::Start, "start"),
        (JobType::VerifyActive, "verify-active"),
        (JobType::Stop, "stop"),
        (JobType::Reload, "reload"),
        (JobType::Restart, "restart"),
        (JobType::TryRestart, "try-restart"),
        (JobType::TryReload, "try-reload"),
        (JobType::ReloadOrStart, "reload-or-start"),
        (JobType::Nop, "nop"),
    ];

    /// The type that a client's word means.
    pub fn from_word(word: &str) -> Option<JobType> {
        JobType::NAMES.iter().find(|(_, name)| *name == word).map(|(t, _)| *t)
    }

    /// The word that clients see.
    pub fn as_str(self) -> &'static str {
        JobType::NAMES.iter().find(|(t, _)| *t == self).map_or("", |(_, name)| name)
    }

    /// What this type comes to for a unit in `state`.
    pub fn collapse(self, state: ActiveState) -> JobKind {
        let up = state.is_up_or_coming();
        match self {
            JobType::Start => JobKind::Start,
            JobType::VerifyActive => JobKind::VerifyActive,
            JobType::Stop => JobKind::Stop,
            JobType::Reload => JobKind::Reload,
            JobType::Restart => JobKind::Restart,
            JobType::TryRestart if up => JobKind::Restart,
            JobType::TryReload if up => JobKind::Reload,
            JobType::ReloadOrStart if up => JobKind::Reload,
            JobType::ReloadOrStart => JobKind::Start,
            JobType::TryRestart | JobType::TryReload | JobType::Nop => JobKind::Nop,
        }
    }
}

impl JobKind {
    /// The word that clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            JobKind::Start => "start",
            JobKind::VerifyActive => "verify-active",
            JobKind::Stop => "stop",
            JobKind::Reload => "reload",
            JobKind::Restart => "restart",
            JobKind::Nop => "nop",
        }
    }

    /// The one job that does what both ask, if there is one. A nop gives way to anything.
    ///
    /// Start with reload is reload-or-start, which for a unit that is up is the reload and for one
    /// that is down the start (see [`JobType::collapse`]): `up` decides.
    pub fn merge(self, other: JobKind, up: bool) -> Option<JobKind> {
        use JobKind::*;
        Some(match if self <= other { (self, other) } else { (other, self) } {
            (a, b) if a == b => a,
            (a, Nop) => a,
            (Start, VerifyActive) => Start,
            (Start, Reload) if up => Reload,
            (Start, Reload) => Start,
            (Start, Restart) => Restart,
            (VerifyActive, Reload) => Reload,
            (VerifyActive, Restart) => Restart,
            (Reload, Restart) => Restart,
            _ => return None,
        })
    }

    /// Whether the job takes its unit down first: such jobs go before start jobs.
    pub fn is_stopping(self) -> bool {
        matches!(self, JobKind::Stop | JobKind::Restart)
    }

    /// Whether nothing is left to do for a unit in `state`.
    pub fn is_redundant(self, state: ActiveState) -> bool {
        match self {
            JobKind::Start | JobKind::VerifyActive => state.is_up(),
            JobKind::Stop => state.is_down(),
            JobKind::Reload => state == ActiveState::Reloading,
            JobKind::Restart => state == ActiveState::Activating,
            JobKind::Nop => true,
        }
    }
}

/// How a new transaction meets the jobs that are installed (systemctl(1), `--job-mode=`).
pub use warren_unit::config::JobMode;

/// How a job ended, in the words of the `JobRemoved` signal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum JobResult {
    Done,
    Canceled,
    Timeout,
    Failed,
    Dependency,
    Skipped,
    Invalid,
    Assert,
    Unsupported,
    Collected,
    Once,
}

impl JobResult {
    /// The word that clients see.
    pub fn as_str(self) -> &'static str {
        match self {
            JobResult::Done => "done",
            JobResult::Canceled => "canceled",
            JobResult::Timeout => "timeout",
            JobResult::Failed => "failed",
            JobResult::Dependency => "dependency",
            JobResult::Skipped => "skipped",
            JobResult::Invalid => "invalid",
            JobResult::Assert => "assert",
            JobResult::Unsupported => "unsupported",
            JobResult::Collected => "collected",
            JobResult::Once => "once",
        }
    }

    /// Whether the goal of the job was not reached.
    pub fn is_failure(self) -> bool {
        !matches!(self, JobResult::Done | JobResult::Skipped)
    }
}

/// What does not count for a job of what its unit has with others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Ignores(u8);

impl Ignores {
    /// It does not wait for jobs of units that it is ordered against.
    pub const ORDER: Ignores = Ignores(1);
    /// It begins without what `Requisite=` names.
    pub const REQUIREMENTS: Ignores = Ignores(2);

    /// What a job asked for in this mode ignores (systemctl(1), `--job-mode=`).
    pub fn of(mode: JobMode) -> Ignores {
        match mode {
            JobMode::IgnoreDependencies => Ignores(Ignores::ORDER.0 | Ignores::REQUIREMENTS.0),
            JobMode::IgnoreRequirements => Ignores::REQUIREMENTS,
            _ => Ignores::default(),
        }
    }

    /// Adds what another ignores; whether that is more.
    pub fn add(&mut self, other: Ignores) -> bool {
        let before = std::mem::replace(self, Ignores(self.0 | other.0));
        *self != before
    }

    fn has(self, other: Ignores) -> bool {
        self.0 & other.0 != 0
    }
}

/// A job that is installed on a unit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Its number.
    pub id: JobId,
    /// The unit it is for.
    pub unit: UnitId,
    /// What it does.
    pub kind: JobKind,
    /// Whether the unit was told; until then it waits for others.
    pub running: bool,
    /// Cannot be replaced by a conflicting job (`replace-irreversibly`).
    pub irreversible: bool,
    /// What does not count for it.
    pub ignores: Ignores,
    /// How many jobs of other units it waits for.
    pub blockers: u32,
    /// The unit whose job was the last that it waited for, once it waits for none.
    pub released_by: Option<UnitId>,
    /// When it was installed, or was made another one while it was under way.
    pub since: Monotonic,
    /// `JobTimeoutSec=`: when it is given up, waiting or running.
    pub deadline: Option<Monotonic>,
    /// Why it exists.
    pub reason: Reason,
}

impl Job {
    /// See [`Ignores::ORDER`].
    pub fn ignores_order(&self) -> bool {
        self.ignores.has(Ignores::ORDER)
    }

    /// See [`Ignores::REQUIREMENTS`].
    pub fn ignores_requirements(&self) -> bool {
        self.ignores.has(Ignores::REQUIREMENTS)
    }
}

/// Whether `job` of a unit must wait for `other` of a unit that it is ordered against.
/// `other_is_first` says that the other unit comes before this one in start order.
///
/// systemd.unit(5), `Before=`/`After=`: starts in order, stops in reverse order, and a stop always
/// before a start, whichever way the two are ordered. A restart counts as a stop until the unit is
/// down.
pub fn must_wait(job: JobKind, other: JobKind, other_is_first: bool) -> bool {
    if job == JobKind::Nop || other == JobKind::Nop {
        return false;
    }
    match (job.is_stopping(), other.is_stopping()) {
        (false, false) => other_is_first,
        (false, true) => true,
        (true, false) => false,
        (true, true) => !other_is_first,
    }
}

/// Whether a unit with this job and in this state is on its way up, or has a job that leads there.
pub(crate) fn comes_up(job: Option<JobKind>, state: ActiveState) -> bool {
    match job {
        Some(JobKind::Stop) => false,
        Some(JobKind::Start | JobKind::Restart) => true,
        _ => state == ActiveState::Activating,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use JobKind::*;

    const KINDS: [JobKind; 6] = [Start, VerifyActive, Stop, Reload, Restart, Nop];

    #[test]
    fn merging_is_symmetric_associative_and_keeps_equal_jobs() {
        for (up, a, b, c) in itertools(&KINDS) {
            assert_eq!(a.merge(b, up), b.merge(a, up));
            assert_eq!(a.merge(a, up), Some(a));
            let left = a.merge(b, up).and_then(|ab| ab.merge(c, up));
            let right = b.merge(c, up).and_then(|bc| a.merge(bc, up));
            assert_eq!(left, right, "{a:?} {b:?} {c:?} up={up}");
        }
    }

    fn itertools(kinds: &[JobKind]) -> Vec<(bool, JobKind, JobKind, JobKind)> {
        let mut all = Vec::new();
        for up in [false, true] {
            for &a in kinds {
                for &b in kinds {
                    all.extend(kinds.iter().map(|&c| (up, a, b, c)));
                }
            }
        }
        all
    }

    #[test]
    fn a_stop_goes_with_nothing_but_a_stop() {
        for kind in [Start, VerifyActive, Reload, Restart] {
            assert_eq!(Stop.merge(kind, true), None);
        }
        assert_eq!(Stop.merge(Nop, true), Some(Stop));
    }

    #[test]
    fn of_two_ordered_jobs_exactly_one_waits() {
        for a in [Start, VerifyActive, Stop, Reload, Restart] {
            for b in [Start, VerifyActive, Stop, Reload, Restart] {
                for first in [false, true] {
                    assert_ne!(must_wait(a, b, first), must_wait(b, a, !first), "{a:?} {b:?}");
                }
            }
        }
    }
}

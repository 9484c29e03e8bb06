//! What a host does about what the store says: goes on with what it has, fetches and applies another revision, or
//! refuses.
//!
//! - Nothing is stopped because the store is away or says nothing.
//! - The number of releases never goes down on a host, whatever the store says.
//! - What was begun is remembered before it is done, so an agent that is killed at any step goes on with it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
pub use crate::host::Assignment;
use crate::release::{self, Release};

/// What a host remembers over restarts of its agent, its manager and itself.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Memory {
    /// The highest number of a release that it has taken.
    #[serde(default)]
    pub highest: u64,
    /// What is being applied; it may be in force already.
    #[serde(default)]
    pub begun: Option<Applied>,
    /// What is in force.
    #[serde(default)]
    pub applied: Option<Applied>,
    /// What was tried and did not do; it is not tried again until something else is assigned.
    #[serde(default)]
    pub failed: Option<(Assignment, String)>,
}

/// An assignment that was carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Applied {
    /// What was assigned.
    pub assignment: Assignment,
    /// The revision that it meant.
    pub revision: Digest,
}

/// Why a host does not do what it is assigned to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The number is lower than what the host has followed: the store went back.
    WentBack {
        /// What the store says.
        assigned: u64,
        /// What the host has followed.
        followed: u64,
    },
    /// The store assigns nothing, though the host has followed a release of this number: it lost what it had.
    Nothing(u64),
    /// The store has no release of this number.
    NoRelease(u64),
    /// The release is not to be trusted.
    Release(release::Fault),
    /// The release names no revision to go back to.
    NoWayBack(u64),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::WentBack { assigned, followed } => write!(
                f,
                "the store assigns release {assigned}, but this host has followed release {followed}: the store \
                 went back, as one does that was restored from a backup. Make a release with a higher number"
            ),
            Refusal::Nothing(followed) => write!(
                f,
                "the store assigns no release, but this host has followed release {followed}: the store lost what it \
                 had. This host keeps what it has until there is a new release"
            ),
            Refusal::NoRelease(number) => write!(f, "release {number} is not in the store"),
            Refusal::Release(fault) => write!(f, "{fault}"),
            Refusal::NoWayBack(number) => {
                write!(f, "release {number} names no revision to go back to")
            }
        }
    }
}

/// What a host is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Nothing: what is assigned is in force.
    Rest,
    /// Nothing is assigned, and never was.
    Unassigned,
    /// It failed before.
    Failed(String),
    /// Fetch this revision and apply it.
    Apply(Applied),
    /// Stay as it is, and say why.
    Refuse(Refusal),
}

/// What a host is to have: what it is assigned itself, or what hosts are that nobody has assigned, if that is newer.
pub fn effective(own: Option<Assignment>, current: Option<Assignment>) -> Option<Assignment> {
    match (own, current) {
        (Some(own), Some(current)) if current.release > own.release => Some(current),
        (own, current) => own.or(current),
    }
}

/// Whether the release itself is needed to decide: only what is new has to be looked at.
pub fn needs_release(memory: &Memory, assigned: Option<Assignment>) -> Option<u64> {
    let assigned = assigned.filter(|a| a.release >= memory.highest)?;
    let is_applied = memory.applied.is_some_and(|applied| applied.assignment == assigned);
    let has_failed = memory.failed.as_ref().is_some_and(|(failed, _)| *failed == assigned);
    (!is_applied && !has_failed).then_some(assigned.release)
}

/// Decides. `release` is what the store has of the assigned number, looked at with the keys of this host.
pub fn decide(
    memory: &Memory,
    assigned: Option<Assignment>,
    release: Option<Result<Release, release::Fault>>,
) -> Decision {
    let Some(assigned) = assigned else {
        return match memory.highest {
            0 => Decision::Unassigned,
            followed => Decision::Refuse(Refusal::Nothing(followed)),
        };
    };
    if assigned.release < memory.highest {
        let followed = memory.highest;
        return Decision::Refuse(Refusal::WentBack { assigned: assigned.release, followed });
    }
    if memory.applied.is_some_and(|applied| applied.assignment == assigned) {
        return Decision::Rest;
    }
    if let Some((_, why)) = memory.failed.as_ref().filter(|(failed, _)| *failed == assigned) {
        return Decision::Failed(why.clone());
    }
    let release = match release {
        None => return Decision::Refuse(Refusal::NoRelease(assigned.release)),
        Some(Err(fault)) => return Decision::Refuse(Refusal::Release(fault)),
        Some(Ok(release)) => release,
    };
    match release.meant(assigned.back) {
        Some(revision) => Decision::Apply(Applied { assignment: assigned, revision }),
        None => Decision::Refuse(Refusal::NoWayBack(assigned.release)),
    }
}

impl Memory {
    /// To be written down before anything is applied.
    pub fn begin(&mut self, what: Applied) {
        self.highest = self.highest.max(what.assignment.release);
        self.begun = Some(what);
        self.failed = None;
    }

    /// To be written down when it is in force.
    pub fn applied(&mut self, what: Applied) {
        self.applied = Some(what);
        self.begun = None;
    }

    /// It did not do; what was in force before is so still.
    pub fn failed(&mut self, what: Applied, why: String) {
        self.failed = Some((what.assignment, why));
        self.begun = None;
    }

    /// Tries again what failed.
    pub fn try_again(&mut self) {
        self.failed = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;

    fn release(number: u64) -> Option<Result<Release, release::Fault>> {
        let revisions = (Digest::of(b"new"), Some(Digest::of(b"old")));
        Some(Ok(Release::new(number, revisions, ("", ""), 0, Policy::default())))
    }

    fn to(release: u64, back: bool) -> Option<Assignment> {
        Some(Assignment { release, back })
    }

    fn apply(release: u64, back: bool, of: &[u8]) -> Decision {
        let assignment = Assignment { release, back };
        Decision::Apply(Applied { assignment, revision: Digest::of(of) })
    }

    #[test]
    fn a_host_follows_forward_back_and_forward_again() {
        let mut memory = Memory::default();
        assert_eq!(decide(&memory, None, None), Decision::Unassigned);
        for (number, back, of) in [(3, false, &b"new"[..]), (3, true, b"old"), (4, false, b"new")] {
            let decision = decide(&memory, to(number, back), release(number));
            assert_eq!(decision, apply(number, back, of));
            let Decision::Apply(what) = decision else { return };
            memory.begin(what);
            // Killed here, it does the same again.
            assert_eq!(decide(&memory, to(number, back), release(number)), apply(number, back, of));
            memory.applied(what);
            assert_eq!(decide(&memory, to(number, back), None), Decision::Rest);
            assert_eq!(needs_release(&memory, to(number, back)), None);
        }
    }

    #[test]
    fn a_store_that_went_back_is_not_followed() {
        let what = Applied {
            assignment: Assignment { release: 7, back: false },
            revision: Digest::of(b"new"),
        };
        let mut memory = Memory::default();
        memory.begin(what);
        let decision = decide(&memory, to(6, false), release(6));
        assert_eq!(decision, Decision::Refuse(Refusal::WentBack { assigned: 6, followed: 7 }));
        assert_eq!(needs_release(&memory, to(6, false)), None);
        let nothing = decide(&memory, None, None);
        assert_eq!(nothing, Decision::Refuse(Refusal::Nothing(7)));
        assert_eq!(decide(&memory, to(8, false), release(8)), apply(8, false, b"new"));
    }

    #[test]
    fn what_failed_is_not_tried_over_and_over() {
        let what = Applied {
            assignment: Assignment { release: 7, back: false },
            revision: Digest::of(b"new"),
        };
        let mut memory = Memory::default();
        memory.begin(what);
        memory.failed(what, "a fault".to_owned());
        assert_eq!(decide(&memory, to(7, false), release(7)), Decision::Failed("a fault".into()));
        assert_eq!(needs_release(&memory, to(7, false)), None);
        assert_eq!(decide(&memory, to(7, true), release(7)), apply(7, true, b"old"));
        memory.try_again();
        assert_eq!(decide(&memory, to(7, false), release(7)), apply(7, false, b"new"));
    }

    #[test]
    fn a_release_that_is_missing_or_forged_is_refused() {
        let memory = Memory::default();
        let refuse = |refusal| Decision::Refuse(refusal);
        assert_eq!(decide(&memory, to(1, false), None), refuse(Refusal::NoRelease(1)));
        let fault = release::Fault::UnknownKey(Digest::of(b"k"));
        let decision = decide(&memory, to(1, false), Some(Err(fault.clone())));
        assert_eq!(decision, refuse(Refusal::Release(fault)));
        let first = Release::new(1, (Digest::of(b"new"), None), ("", ""), 0, Policy::default());
        assert_eq!(decide(&memory, to(1, true), Some(Ok(first))), refuse(Refusal::NoWayBack(1)));
    }
}

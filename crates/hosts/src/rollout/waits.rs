//! Whom a wave waits for, and for what. Decides nothing: a rollout goes on by its own rules.

use std::collections::BTreeMap;

use crate::host::{Host, Outcome};
use crate::names::HostId;
use crate::rollout::{Phase, Progress, Rollout, brief};

/// What is still to happen on a host. Times are seconds, as of when the rollout was written last: 10 s ago at most while
/// somebody drives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wait {
    /// It is at work on what it is assigned to, for so long.
    Work(u64),
    /// Something there keeps it from that.
    Held(String),
    /// It was assigned so long ago, and has not reported that it is at it.
    Report(u64),
    /// It is away, for so long.
    Away(u64),
    /// As many are unavailable as may be: its turn has not come.
    Turn,
    /// It is healthy, and has to be so for as long as the policy says.
    Soak {
        /// For how long it is.
        so_far: u64,
        /// For how long it has to be.
        of: u64,
    },
}

impl Wait {
    /// For people.
    pub fn words(&self) -> String {
        match self {
            Wait::Work(seconds) => format!("at work for at least {seconds} s"),
            Wait::Held(why) => format!("held up: {why}"),
            Wait::Report(seconds) => {
                format!("assigned at least {seconds} s ago, and has not reported")
            }
            Wait::Away(seconds) => format!("away for at least {seconds} s"),
            Wait::Turn => "its turn has not come".to_owned(),
            Wait::Soak { so_far, of } => format!("healthy for at least {so_far} of {of} s"),
        }
    }

    /// The word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Wait::Work(_) => "work",
            Wait::Held(_) => "held",
            Wait::Report(_) => "report",
            Wait::Away(_) => "away",
            Wait::Turn => "turn",
            Wait::Soak { .. } => "soak",
        }
    }

    /// Those that take most of an operator's care first.
    fn rank(&self) -> u8 {
        match self {
            Wait::Held(_) => 0,
            Wait::Away(_) => 1,
            Wait::Report(_) => 2,
            Wait::Work(_) => 3,
            Wait::Turn => 4,
            Wait::Soak { .. } => 5,
        }
    }
}

impl Rollout {
    /// Hosts for which the wave that is at work waits, or the way back; none if nothing is under way.
    pub fn waits(&self, hosts: &BTreeMap<HostId, Host>) -> Vec<(HostId, Wait)> {
        let wave = self.waves.get(self.wave).filter(|_| !self.is_over());
        let of = |id: &HostId| Some((id.clone(), self.wait(id, hosts.get(id))?));
        let mut all: Vec<(HostId, Wait)> = wave.into_iter().flatten().filter_map(of).collect();
        all.sort_by_key(|(_, wait)| wait.rank());
        all
    }

    fn wait(&self, id: &HostId, host: Option<&Host>) -> Option<Wait> {
        let is_back = self.phase == Phase::Back;
        let is_borne = self.sick.contains_key(id) && !is_back;
        if self.is_left_out(id) || is_borne {
            return None;
        }
        let Some(progress) = self.progress.get(id) else { return Some(Wait::Turn) };
        let since = |time: u64| self.at.saturating_sub(time);
        match progress {
            // On the way back nobody waits for a soak, nor for one that is away.
            Progress { healthy_since: Some(_), .. } | Progress { away_since: Some(_), .. }
                if is_back =>
            {
                None
            }
            Progress { healthy_since: Some(healthy), .. } => {
                let (so_far, of) = (since(*healthy), self.policy.soak);
                (so_far < of).then_some(Wait::Soak { so_far, of })
            }
            Progress { away_since: Some(away), .. } => Some(Wait::Away(since(*away))),
            Progress { since: assigned, .. } => {
                let report = host.and_then(|host| host.report.as_ref());
                let report = report.filter(|r| (r.release, r.back) == (self.release, is_back));
                Some(match report.map(|report| &report.outcome) {
                    None => Wait::Report(since(*assigned)),
                    Some(Outcome::Held(why)) => Wait::Held(brief(why)),
                    Some(_) => Wait::Work(since(*assigned)),
                })
            }
        }
    }
}

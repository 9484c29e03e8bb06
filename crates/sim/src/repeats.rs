//! `again`: what cannot be done is not tried again and again by the manager itself.
//!
//! A client may ask as often as it likes, and so may traffic, which has a limit of its own. What the
//! manager tries again by itself is bounded by the start limit (systemd.unit(5),
//! `StartLimitIntervalSec=`): 5 starts in 10 s, and twice as many where two intervals meet, each of
//! which may lead to a few tries.

use std::collections::BTreeMap;

use warren_core::model::ids::EffectId;
use warren_core::protocol::event::{Done, Event};

/// How long a failure counts, µs.
const COUNTED_US: u64 = 10_000_000;

/// Failures in that time, after which the next try is one too many.
const FAILURES_MAX: usize = 40;

/// Tries that failed.
#[derive(Clone, Debug, Default)]
pub struct Repeats {
    /// What was asked for, in words.
    asked: BTreeMap<EffectId, String>,
    /// When it failed, µs.
    failed: BTreeMap<String, Vec<u64>>,
}

impl Repeats {
    /// Somebody else has asked for something, or brought it about: counts from 0.
    pub fn forget(&mut self) {
        self.failed.clear();
    }

    /// An event comes in.
    pub fn hear(&mut self, now: u64, event: &Event) {
        match event {
            Event::Request { .. }
            | Event::Incoming { .. }
            | Event::Connection { .. }
            | Event::TrapHit { .. }
            | Event::TrapIdle { .. }
            | Event::Devices(_)
            | Event::StopEverything { .. } => self.forget(),
            Event::Done { effect, result } => {
                let fails = matches!(result, Done::Failed { .. } | Done::SpawnFailed { .. });
                if let Some(what) = self.asked.remove(effect).filter(|_| fails) {
                    self.failed.entry(what).or_default().push(now);
                }
            }
            _ => {}
        }
    }

    /// The manager asks for an effect.
    pub fn ask(&mut self, now: u64, id: EffectId, what: String) -> Option<String> {
        let failures = self.failed.entry(what.clone()).or_default();
        failures.retain(|at| at + COUNTED_US > now);
        let wrong = (failures.len() >= FAILURES_MAX)
            .then(|| format!("again: {what}, which failed {} times in 10 s", failures.len()));
        self.asked.insert(id, what);
        wrong
    }
}

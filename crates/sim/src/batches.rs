//! Batches: a manager takes several events before it writes down what they changed and carries out what
//! they ask for. Killed in between, it has neither written nor done anything; whoever told of the events
//! keeps them until they are written, and tells the next manager.

use warren_core::protocol::event::{Effect, Event};

use crate::jobs::Jobs;
use crate::kernel::{Happening, Kernel, MS};
use crate::repeats::Repeats;
use crate::restarts::Restarts;
use crate::slices::Places;
use crate::states::Owed;
use crate::told::Told;
use crate::watchdogs::Watchdogs;

/// What the checks have heard of the manager.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// What it told.
    pub told: Told,
    /// Its jobs.
    pub jobs: Jobs,
    /// Who is to stay down.
    pub restarts: Restarts,
    /// What it tried.
    pub repeats: Repeats,
    /// What services have promised.
    pub watchdogs: Watchdogs,
    /// Who has a place in a slice already.
    pub places: Places,
    /// Units that a rule is to stop when jobs let it.
    pub owed: Vec<Owed>,
}

/// What the manager has taken and not written down.
#[derive(Debug, Default)]
pub struct Batch {
    events: Vec<Event>,
    effects: Vec<Effect>,
    before: Option<Box<Heard>>,
}

impl Batch {
    /// Nothing was taken.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// An event is about to be taken; `heard` is what the checks know before it.
    pub fn begin(&mut self, event: &Event, heard: &Heard) {
        if self.before.is_none() {
            self.before = Some(Box::new(heard.clone()));
        }
        self.events.push(event.clone());
    }

    /// What a step is to have done.
    pub fn add(&mut self, effects: Vec<Effect>) {
        self.effects.extend(effects);
    }

    /// It is written down: what is to be carried out now.
    pub fn written(&mut self) -> Vec<Effect> {
        std::mem::take(self).effects
    }

    /// It is lost with the manager: what the checks had heard before it, and the events.
    pub fn lost(&mut self) -> (Heard, Vec<Event>) {
        let lost = std::mem::take(self);
        (lost.before.map(|heard| *heard).unwrap_or_default(), lost.events)
    }
}

/// Answers that were not written down are kept for the next manager, which asks for them.
pub fn keep_answers(kernel: &mut Kernel, events: &[Event]) {
    for event in events {
        if let Event::Done { effect, result } = event {
            kernel.keep_answer(*effect, result.clone());
        }
    }
}

/// Has the next manager hear of what its predecessor took and never wrote down. Who asked for something
/// has lost his connection, and what can be looked at is looked at by every manager that begins.
pub fn tell_again(kernel: &mut Kernel, events: Vec<Event>) {
    for event in events {
        match event {
            Event::Connection { socket, instance, .. } => {
                kernel.connections.remove(&instance);
                kernel.traffic(socket);
            }
            Event::CgroupEmpty { unit, .. } => kernel.later(MS, Happening::LookAtGroup(unit)),
            Event::OutOfMemory { unit } => {
                let run = kernel.run_of(unit);
                kernel.later(MS, Happening::LookAtMemory(unit, run));
            }
            // Who ended the machine does so until it ends.
            Event::GiveUp | Event::StopEverything { .. } => {
                kernel.later(MS, Happening::Tell(event));
            }
            Event::Notify { .. } | Event::TrapHit { .. } | Event::TrapIdle { .. } => {
                kernel.later(MS, Happening::Tell(event));
            }
            _ => {}
        }
    }
}

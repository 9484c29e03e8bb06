//! What the loop does once every event that was pushed before is stepped through.

use crate::published::orders::{LoaderAnswer, Order};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use warren_bus::backend::Call;
use warren_bus::{Outcome, ReplySender};
use warren_core::graph::Graph;
use warren_core::model::ids::EffectId;
use warren_core::model::time::Monotonic;
use warren_core::protocol::event::Effect;
use warren_unit::UnitName;

/// One thing to do.
pub(crate) enum Task {
    /// Take an order that came after one that waits.
    Order(Order),
    /// Put what the loader made in force.
    Install(Box<LoaderAnswer>),
    /// It is in force: do what was to be done then.
    AfterInstall(Box<Installed>),
    /// Tell a client which unit it asked for.
    AnswerUnit {
        /// Its name.
        name: UnitName,
        /// Where the answer goes.
        reply: ReplySender,
    },
    /// Answer what was promised, now that it is written down.
    Reply(ReplySender, Outcome),
    /// Change what clients set of the manager itself, and answer.
    ChangeSettings(Call, ReplySender),
    /// All helpers have said what they did for the last manager: these effects they never began.
    Settle(BTreeSet<EffectId>),
    /// Carry out what the last manager may not have carried out.
    Resume(Vec<Effect>),
    /// Read the exits that init recorded.
    ReadExits,
    /// Find the groups that became empty while there was no manager.
    FindEmptyGroups,
    /// Find what was mounted and, if asked for, what is not mounted any more.
    FindMounts {
        /// Whether to look for the latter.
        vanished: bool,
    },
    /// Start what the manager is started for.
    StartFirstUnit,
    /// Let clients in.
    Serve,
    /// Everything of the last manager is taken up.
    Recovered {
        /// It is the beginning of a boot.
        after_soft_reboot: bool,
    },
    /// The manager has begun.
    Begun,
}

impl Task {
    /// An order that has to wait for its turn.
    pub(crate) fn of(order: Order) -> Task {
        match order {
            Order::Loaded(answer) => Task::Install(answer),
            other => Task::Order(other),
        }
    }
}

/// A generation that was just put in force.
pub(crate) struct Installed {
    /// When that began.
    pub(crate) began: Instant,
    pub(crate) commit_began: Monotonic,
    /// Whether the core has another graph by it.
    pub(crate) is_committed: bool,
    /// The graph that was in force before.
    pub(crate) before: Arc<Graph>,
    pub(crate) answer: Box<LoaderAnswer>,
}

/// The tasks that wait.
#[derive(Default)]
pub(crate) struct Tasks(VecDeque<Task>);

impl Tasks {
    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next task to do.
    pub(crate) fn next(&mut self) -> Option<Task> {
        self.0.pop_front()
    }

    /// Does this next: what follows from the task or the order at hand.
    pub(crate) fn do_next(&mut self, task: Task) {
        self.0.push_front(task);
    }

    /// Does this after all others.
    pub(crate) fn do_last(&mut self, task: Task) {
        self.0.push_back(task);
    }
}

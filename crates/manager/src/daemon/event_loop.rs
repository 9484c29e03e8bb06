//! What the loop waits for, and what it has taken in and not done yet.

use crate::base::heartbeat::Pings;
use crate::base::worker_pool::Workers;
use crate::daemon::tasks::Tasks;
use crate::published::orders::Order;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use warren_core::model::ids::EffectId;
use warren_core::protocol::event::Event;
use warren_init::protocol::control::PowerAction;
use warren_sys::epoll::Epoll;
use warren_sys::eventfd::EventFd;
use warren_unit::config::UnitSection;

/// How the process is to end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaving {
    /// A new manager takes over.
    Restart,
    /// Everything ends.
    Power(PowerAction),
    /// This manager cannot serve.
    Failed,
}

/// The loop.
pub(crate) struct EventLoop {
    pub(crate) epoll: Epoll,
    /// Other threads wake the loop with it.
    pub(crate) wake: Arc<EventFd>,
    pub(crate) orders: Receiver<Order>,
    /// Events that have happened and that the core has not taken yet.
    pub(crate) events: VecDeque<Event>,
    /// What is done when those are stepped through.
    pub(crate) tasks: Tasks,
    /// Conditions to be checked at the end of the turn.
    pub(crate) checks: Vec<(EffectId, Arc<UnitSection>)>,
    /// Threads for what may block.
    pub(crate) workers: Workers,
    pub(crate) pings: Pings,
    /// How this process is to end, once that is decided.
    pub(crate) leaving: Option<Leaving>,
}

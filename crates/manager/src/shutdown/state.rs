//! What the loop knows of shutdowns: one that is planned, one that is under way, and what is cleaned up.

use crate::shutdown::ctrl_alt_del::CtrlAltDels;
use crate::shutdown::plan::Planned;
use crate::shutdown::stages::Ending;
use crate::shutdown::sweep::Sweep;
use std::sync::Arc;
use warren_sys::eventfd::EventFd;

/// The part of the manager's state that is about shutdowns.
pub(crate) struct Shutdown {
    /// The shutdown that is under way.
    pub(crate) under_way: Option<Ending>,
    /// The shutdown that was scheduled.
    pub(crate) planned: Planned,
    pub(crate) ctrl_alt_dels: CtrlAltDels,
    /// What is cleaned up off the loop, and what waits for it.
    pub(crate) sweep: Sweep,
}

impl Shutdown {
    /// None is planned or under way.
    pub(crate) fn new(wake: Arc<EventFd>) -> Shutdown {
        Shutdown {
            under_way: None,
            planned: Planned::default(),
            ctrl_alt_dels: CtrlAltDels::default(),
            sweep: Sweep::new(wake),
        }
    }
}

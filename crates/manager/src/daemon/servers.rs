//! Where clients connect: the private bus socket, the control socket and those of varlink.

use std::os::fd::OwnedFd;
use warren_bus::Bus;

use crate::control::server::Control;

/// The servers, each on threads of its own.
#[derive(Default)]
pub(crate) struct Servers {
    pub(crate) bus: Option<Bus>,
    pub(crate) control: Option<Control>,
    /// Lookups of users that were made for a run.
    pub(crate) users: Option<Control>,
    /// Units, jobs and the manager over varlink.
    pub(crate) varlink: Option<Control>,
    /// What the last manager listened at, until these servers take it.
    pub(crate) listeners: Listeners,
}

/// The listening sockets of all: init keeps them, so that a client that connects while there is no manager is
/// served by the next one.
#[derive(Default)]
pub(crate) struct Listeners {
    pub(crate) private: Option<OwnedFd>,
    pub(crate) control: Option<OwnedFd>,
    pub(crate) users: Option<OwnedFd>,
    pub(crate) varlink: Option<OwnedFd>,
}

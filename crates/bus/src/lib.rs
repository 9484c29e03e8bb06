//! org.freedesktop.systemd1 for stock clients: systemctl and busctl, over the private socket and
//! over a message bus.
//!
//! This room reads published views and sends requests; it decides nothing about units, reads no
//! unit file and never waits for the manager's loop, nor the loop for it, but for a second when it
//! ends the bus.
//!
//! Where to start: [`wire`] (bytes), [`sasl`] (the greeting), [`path`] (object paths),
//! [`properties`] (the one table of properties), [`backend`] (what the manager provides),
//! [`Bus`] (the thread).

pub mod authority;
pub mod backend;
mod broker;
mod bus;
mod connection;
pub mod descriptors;
mod dispatch;
pub mod error;
pub mod fuzz;
pub mod glob;
mod introspect;
mod listed;
mod methods;
pub mod names;
pub mod path;
pub mod properties;
pub mod refusals;
pub mod sasl;
mod server;
mod signals;
pub mod transient;
pub mod wire;

pub use backend::{Answer, Backend, Call, Outcome, ReplySender};
pub use bus::{Authority, Bus, Hold, StartError};
pub use error::BusError;
pub use listed::{is_listed, is_only_named};
pub use signals::Announcement;

//! warren-exporter: metrics of a manager, in the formats of Prometheus and OpenMetrics, over HTTP.
//!
//! `manager` asks the manager over its control socket, which answers from its published view; `cgroups` reads what the
//! kernel counts of slices and of the units that use most. Both fill a [`snapshot::Snapshot`]; `metrics` makes
//! metrics of it, [`family`] is the one table of them, and `exposition` writes them down. `server` answers clients.
//!
//! The number of series is bounded however many units there are ([`snapshot::Bounds`]). Must not be here: anything that
//! changes a unit, TLS, or a walk over all units of a manager but for the cgroups of those that are up.

// They panic when nothing can be written, which ends a daemon: `warren_sys::tell!` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod cgroups;
pub mod exposition;
pub mod family;
mod manager;
pub mod metrics;
pub mod options;
pub mod server;
pub mod snapshot;

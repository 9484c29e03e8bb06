//! Shutdowns: their stages, plans, inhibitor locks and what they wait for.
//!
//! Owns: the state of a shutdown that is planned or under way.
//! Must not: block the loop.
//! Thread: the loop; `waits` and `words` are read by client threads.

pub(crate) mod critical_path;
pub(crate) mod ctrl_alt_del;
pub(crate) mod inhibitors;
pub(crate) mod plan;
pub(crate) mod stages;
pub(crate) mod state;
pub(crate) mod sweep;
pub(crate) mod waits;
pub(crate) mod words;

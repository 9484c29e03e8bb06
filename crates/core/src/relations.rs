//! What units that have relations with one another do when one of them changes.
//!
//! Owns: one file a kind of relation: rules of `[X-Warren]`, standing relations (`Upholds=`, `BindsTo=`,
//! `StopWhenUnneeded=`), triggers, and what follows a start or stop without a job.
//! Must not: know how a unit of one type starts or stops; that is in `types`.

pub(crate) mod held_stops;
pub(crate) mod neighbours;
pub(crate) mod rules;
pub(crate) mod standing;
pub(crate) mod triggers;
pub(crate) mod unit_gc;

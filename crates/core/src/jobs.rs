//! Installed jobs: how they come, what they wait for, and how they end.
//!
//! Owns: `install`, which makes a plan's jobs installed ones; `waits`, which counts for each how many it waits for;
//! `halves`, which is what a change of the unit does to its job; and `ends`. Start at [`install`].
//! Must not: know how a unit of one type starts or stops; `machine::perform` has units do their jobs.

pub(crate) mod circles;
pub(crate) mod dependency_groups;
pub(crate) mod ends;
pub(crate) mod halves;
pub(crate) mod install;
pub(crate) mod outcomes;
pub(crate) mod waits;

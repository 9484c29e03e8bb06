//! The simulator: the real core over a kernel that exists in memory only, driven by a seed.
//!
//! A run is a `run::Plan` (unit files, actions, faults) and nothing else: the same plan gives the
//! same timeline on every machine. Where to start: [`world`] (its `turn` is the loop), [`kernel`] (what carries
//! out effects), [`program`] (what processes do), [`workload`] (random units and requests),
//! [`checks`] (what must hold; more of it is in [`jobs`], [`restarts`], [`reloads`], [`repeats`], [`watchdogs`],
//! [`groups`], [`slices`], [`devices`] and [`told`]), [`batches`] (what is lost when the manager is killed before it
//! writes), [`run`] (one seed from start to verdict), [`shrink`] (the
//! smallest plan that still fails), [`oracle`] (transactions as the manual tells them), [`script`]
//! (the notation of the tests).
//!
//! Nothing here reads a clock, opens a file or starts a thread; the binary and the tests do.

pub mod batches;
pub mod checks;
pub mod devices;
pub mod differential;
pub mod exhaustive;
pub mod faults;
pub mod groups;
pub mod jobs;
pub mod kernel;
pub mod oracle;
pub mod program;
pub mod random;
pub mod reloads;
pub mod repeats;
pub mod restarts;
pub mod run;
pub mod script;
pub mod shrink;
pub mod slice_plans;
pub mod slices;
pub mod states;
pub mod timers;
pub mod told;
pub mod units;
pub mod watchdogs;
mod words;
pub mod workload;
pub mod world;

//! warrend: the manager around the pure core. Loop, loader, effect runner, and the glue to bus,
//! control socket and init.
//!
//! Where to start: [`daemon`] (one turn of the loop), `daemon::start` (first start and going on after
//! a crash), `daemon::effects` (what is done to the system), `config::loader` (what files mean),
//! `daemon::requests` (what clients want). Nothing here decides what is to become of a unit: that is
//! the core.
//!
//! The rooms, from the ground up; each uses only those above it in this list.

mod base;

mod cgroup;

pub mod mount;

pub mod last_steps;

mod recording;

mod process;

mod socket;

mod timer;

mod path;

pub mod spawn;

pub mod peer;

pub mod config;

mod published;

mod shutdown;

mod control;

pub mod options;

pub mod daemon;

pub mod fuzz;

//! What tests of all crates share: scratch directories, dice, waits with a bound, tests that do not run.
//! Must not: be used by a program that is installed, or use another crate of ours.
//! Runs on the threads of tests.

mod dice;
mod not_run;
mod port;
mod scratch;
mod stranger;
mod wait;

pub use dice::{Dice, seed, variable};
pub use not_run::{NOT_RUN_VARIABLE, not_run, not_run_of};
pub use port::free_address;
pub use scratch::Scratch;
pub use stranger::{STRANGER, Sent, Stranger};
pub use wait::{WAIT_MAX, wait_for, wait_for_or, wait_until};

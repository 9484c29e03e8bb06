//! What happened when: events, recordings of them, and what can be learned from a recording.
//!
//! The manager writes an [`event::Event`] for everything that happens into a ring; a
//! boot, a reload or a shutdown is cut out of it as a [`record::Recording`], which is a file.
//!
//! This crate is pure. What must not be here: a clock, a file, a thread, a type of the manager's.
//!
//! Start reading at [`event`], then [`record`], then [`analysis`]; [`export`]
//! draws.

pub mod analysis;
pub mod base64;
pub mod event;
pub mod export;
pub mod record;
pub mod sample;
pub mod words;

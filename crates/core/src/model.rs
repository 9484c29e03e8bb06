//! The words of the machine: ids, times, jobs, reasons, processes, and the run state of units.
//!
//! Owns: types that everything else is made of. They are data with small questions about themselves.
//! Must not: change a unit, look at another unit, or use any other room.

pub mod active_state;
pub mod admin_marks;
pub mod chunked;
pub mod command_line;
pub mod device_news;
pub mod device_table;
pub mod dynamic_user;
pub mod ids;
pub mod job;
pub mod leftover;
pub mod part;
pub mod process;
pub mod reason;
pub mod state;
pub mod time;

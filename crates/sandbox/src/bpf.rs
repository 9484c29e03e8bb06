//! Programs of bpf(2) that are attached to the control group of a unit.
//!
//! Owns: what settings allow, as programs.
//! Must not: load or attach a program; that is `warren_sys::bpf`.
//! [`device`] is about devices, [`address`] and [`interface`] about traffic, [`bind`] about ports, [`file_system`] about
//! files, [`account`] counts, [`instruction`] writes, [`kernel_types`] reads where the kernel keeps what they look at;
//! [`pinned`] are those of others.

pub mod account;
pub mod address;
pub mod bind;
pub mod device;
pub mod file_system;
pub mod instruction;
pub mod interface;
pub mod kernel_types;
pub mod pinned;

pub use instruction::Instruction;

/// What a program says of what it does not forbid.
const ALLOW: i32 = 1;

/// And of what it forbids.
const DENY: i32 = 0;

#[cfg(test)]
mod tests;

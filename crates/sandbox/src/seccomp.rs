//! Filters of system calls: from settings to one program for seccomp(2).
//!
//! Owns: the groups of system calls, what each setting forbids, and the program.
//! Must not: attach a program; that is `warren_sys::seccomp`.
//! [`settings`] reads the values of settings, [`rules`] says which calls they forbid, [`program`] writes the program.

pub mod arch;
pub mod groups;
pub mod program;
pub mod rules;
pub mod settings;

pub use arch::Arch;
pub use program::{Instruction, TooLarge};
pub use settings::{Filter, Problem};

/// The program for what is asked for; none if nothing is.
///
/// # Errors
/// The program would be larger than the kernel takes.
pub fn compile(filter: &Filter, native: Arch) -> Result<Option<Vec<Instruction>>, TooLarge> {
    if filter.is_empty() {
        return Ok(None);
    }
    program::assemble(&rules::rules(filter, native)).map(Some)
}

#[cfg(test)]
mod tests;

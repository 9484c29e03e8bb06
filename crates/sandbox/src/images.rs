//! Images of disks: which settings ask for them, and what lies where in one.
//!
//! Owns: what settings say of images, and partition tables.
//! Must not: open an image; who carries a plan out gives it the first bytes. They may be anybody's: everything in them
//! is bounded, and what does not add up is refused.
//! `table` reads partition tables, `settings` the words of settings.

mod settings;
mod table;

pub(crate) use settings::parts;
pub use settings::{Image, Place, Splits, concerns, parse_options};
pub use table::{HEAD_BYTES, Layout, Part, Role, SECTOR_SIZES, file_system, layout};

#[cfg(test)]
mod tests;

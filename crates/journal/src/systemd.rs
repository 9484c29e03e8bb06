//! Reading systemd's `.journal` files, so that history survives a change of managers:
//! <https://systemd.io/JOURNAL_FILE_FORMAT/>.
//!
//! [`mod@file`] reads one file from its documented layout, [`reader`] gives its entries like those of our
//! own store. Files are only read, with positioned reads; nothing in them is trusted. Values
//! compressed with zstd are unpacked; of those with xz or lz4, which older versions wrote, it is said
//! that they cannot be read, and the entry is shown without them.

pub mod file;
pub mod reader;

pub use reader::SystemdFile;

#[cfg(test)]
mod tests;

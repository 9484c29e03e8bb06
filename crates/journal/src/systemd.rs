//! Reading systemd's `.journal` files, so that history survives a change of managers:
//! <https://systemd.io/JOURNAL_FILE_FORMAT/>.
//!
//! [`mod@file`] reads one file from its documented layout, [`reader`] gives its entries like those of our
//! own store. Files are only read, with positioned reads; nothing in them is trusted. Compressed
//! values are unpacked within bounds (`unpack`); one that cannot be is left out and said.

pub mod file;
pub mod reader;
mod unpack;

pub use reader::SystemdFile;

#[cfg(test)]
mod tests;

//! Systemd's `.journal` files, read so that history survives a change of managers:
//! <https://systemd.io/JOURNAL_FILE_FORMAT/>.
//!
//! `file` reads one file from its documented layout, `index` its hash tables, `reader` gives its entries like those of our
//! own store. They are read with positioned reads; nothing in them is trusted. Compressed
//! values are unpacked within bounds (`unpack`); one that cannot be is left out and said.
//! [`mod@write`] makes such files, for programs that read no others.

mod file;
mod index;
mod jenkins;
mod reader;
mod unpack;
pub mod write;

pub use reader::SystemdFile;

#[cfg(test)]
mod tests;

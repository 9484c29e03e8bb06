//! A segment: a sealed row of blocks with an index behind it. Never written to again.
//!
//! ```text
//! file header | block | block | … | index chunks | text filters | directory | trailer
//! ```
//!
//! The trailer at the very end finds the directory; the directory finds everything else. When
//! either is gone the blocks are found by walking, so an index is a help and never the only way.
//! Every query begins with one read at the end of the file, sized so that it usually brings
//! trailer and directory together.
//!
//! Start at `layout`; `write` makes a segment, `read` opens one, `scan` walks blocks.

pub mod directory;
pub mod index;
pub mod layout;
pub mod read;
pub mod scan;
pub mod trigram;
pub mod write;

pub use read::Segment;

//! Files parsed by several threads, which meet in `share` only: what they read is the texts.

use crate::ast::Module;
use crate::diagnostic::Diagnostic;
use crate::share;
use crate::source::{FileId, Source};

/// A parsed file and what is wrong with it.
pub type Parsed = (Module, Vec<Diagnostic>);

/// A thread is worth starting for so many bytes.
const BYTES_PER_THREAD: usize = 64 << 10;

/// Parses files, which are numbered from `first` on. What comes of it is in their order and the
/// same with any number of threads.
pub fn many(first: FileId, sources: &[Source], threads: usize) -> Vec<Parsed> {
    let bytes: usize = sources.iter().map(|source| source.text.len()).sum();
    share::out(sources.len(), threads.min(bytes / BYTES_PER_THREAD), |claims| {
        let parse =
            |at: usize| (at, super::parse(FileId(first.0 + at as u32), sources[at].clone()));
        std::iter::from_fn(|| claims.take()).map(parse).collect()
    })
}

//! Files parsed by several threads: each takes the next file that nobody has taken.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::ast::Module;
use crate::diagnostic::Diagnostic;
use crate::source::{FileId, Source};

/// A parsed file and what is wrong with it.
pub type Parsed = (Module, Vec<Diagnostic>);

/// A thread is worth starting for so many bytes.
const BYTES_PER_THREAD: usize = 64 << 10;

/// The stack of a thread, in bytes: trees are parsed by recursion, to a bounded depth.
const STACK_BYTES: usize = 16 << 20;

/// Parses files, which are numbered from `first` on. What comes of it is in their order and the
/// same with any number of threads.
pub fn many(first: FileId, sources: &[Source], threads: usize) -> Vec<Parsed> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut parsed = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(source) = sources.get(at) else { return parsed };
            parsed.push((at, super::parse(FileId(first.0 + at as u32), source.clone())));
        }
    };
    let bytes: usize = sources.iter().map(|source| source.text.len()).sum();
    let threads = threads.min(sources.len()).min(bytes / BYTES_PER_THREAD);
    let mut all: Vec<(usize, Parsed)> = if threads <= 1 {
        work()
    } else {
        std::thread::scope(|scope| {
            let start = |_| {
                let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
                thread.spawn_scoped(scope, work)
            };
            let started: Vec<_> = (1..threads).map(start).collect();
            // A thread that could not be started leaves its share to the others.
            let mut all = work();
            for thread in started.into_iter().flatten() {
                let parsed = thread.join();
                all.extend(parsed.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
            all
        })
    };
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, parsed)| parsed).collect()
}

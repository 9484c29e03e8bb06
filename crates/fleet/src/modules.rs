//! The parsed files of a run: a list that grows while it is read, without locks in the way of
//! readers.
//!
//! Evaluation holds on to a file while that file includes others; a plain vector could not grow
//! meanwhile. Files are never removed. One thread adds; others read what was there before they were
//! started (and a `OnceLock` is read while it is set elsewhere as if it were not set yet).

use std::sync::OnceLock;

use crate::ast::Module;
use crate::source::{FileId, Source};

/// How many files one run can have.
pub const FILES_MAX: usize = BLOCK * BLOCK;

const BLOCK: usize = 1024;

type Block = Box<[OnceLock<Module>]>;

/// The files of a run, by number.
#[derive(Debug)]
pub struct Modules {
    blocks: Box<[OnceLock<Block>]>,
}

impl Default for Modules {
    fn default() -> Modules {
        Modules { blocks: (0..BLOCK).map(|_| OnceLock::new()).collect() }
    }
}

impl Modules {
    /// Adds a file under its own number; nothing happens if there is one already or the number is
    /// not below [`FILES_MAX`].
    pub fn add(&self, module: Module) -> Option<&Module> {
        let index = module.file.0 as usize;
        let block = self.blocks.get(index / BLOCK)?;
        let block = block.get_or_init(|| (0..BLOCK).map(|_| OnceLock::new()).collect());
        Some(block[index % BLOCK].get_or_init(|| module))
    }

    /// A file.
    pub fn get(&self, file: FileId) -> Option<&Module> {
        let index = file.0 as usize;
        self.blocks.get(index / BLOCK)?.get()?[index % BLOCK].get()
    }

    /// All files, in the order of their numbers.
    pub fn all(&self) -> impl Iterator<Item = &Module> {
        let blocks = self.blocks.iter().filter_map(OnceLock::get);
        blocks.flatten().filter_map(OnceLock::get)
    }

    /// A file's name and text, for messages.
    pub fn source(&self, file: u32) -> Option<Source> {
        self.get(FileId(file)).map(|module| module.source.clone())
    }
}

//! The generation file: a memfd that init keeps, with the generation in force in writing.
//!
//! It saves the next incarnation from reading all unit files again, and keeps edits that nobody
//! reloaded out of force after a crash. The loader's thread writes what a generation changes before
//! the loop puts it in force, and the whole behind the loop; the state file says which generation
//! was in force, and when this file does not lead to that one, all is read as at the first start.
//! See `warren_core::persist::generation` for what is in it.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use warren_core::graph::Graph;
use warren_core::persist::generation;
use warren_core::persist::generation::{Reader, Taken};
use warren_sys::memfd;
use warren_unit::UnitName;

use crate::base::file_identity::Identity;

/// First bytes; what follows is the identity of the program that wrote the rest.
const MAGIC: &[u8; 8] = b"WARRENGN";

const HEADER_BYTES: usize = 16;

/// Largest file that is read back, in bytes.
const FILE_BYTES_MAX: usize = 1 << 30;

/// Largest piece that is believed, in bytes after unpacking.
const PIECE_BYTES_MAX: usize = 64 << 20;

/// Definitions repeat each other: the lowest level takes nine parts of ten.
const ZSTD_LEVEL: i32 = 1;

/// Appended to so often in place of being written anew.
const GROWTH_BYTES_MIN: u64 = 1 << 20;

/// The generation file of this incarnation.
pub struct GenerationFile {
    fd: OwnedFd,
    end: u64,
    /// Size when it was last written as a whole.
    base: u64,
    /// What it leads to.
    written: Option<Arc<Graph>>,
}

impl GenerationFile {
    /// A new, empty file.
    ///
    /// # Errors
    /// There is no room for it.
    pub fn create() -> Result<GenerationFile, warren_sys::Error> {
        let fd = memfd::create("warren-generation")?;
        Ok(GenerationFile { fd, end: 0, base: 0, written: None })
    }

    /// Goes on with the file of the last incarnation. If it leads to generation `wanted` of units
    /// with these names by id, that is there.
    pub fn open(fd: OwnedFd, names: Vec<Option<UnitName>>, wanted: u64) -> GenerationFile {
        let found = read(fd.as_fd(), names, wanted);
        let (end, written) = found.map_or((0, None), |(graph, end)| (end, Some(Arc::new(graph))));
        GenerationFile { fd, end, base: end, written }
    }

    /// The memfd, for init's store.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// What it leads to.
    pub fn graph(&self) -> Option<&Arc<Graph>> {
        self.written.as_ref()
    }

    /// Makes it lead to `graph` too, where that is a small thing to add: a generation that is never
    /// put in force does no harm.
    pub fn write_ahead(&mut self, graph: &Arc<Graph>) {
        if self.written.is_some() && !self.is_grown() {
            self.write(graph);
        }
    }

    fn is_grown(&self) -> bool {
        self.end > 2 * self.base + GROWTH_BYTES_MIN
    }

    /// Makes it lead to `graph`. If that cannot be, it leads nowhere until the next time.
    pub fn write(&mut self, graph: &Arc<Graph>) {
        if self.written.as_ref().is_some_and(|written| Arc::ptr_eq(written, graph)) {
            return;
        }
        if self.is_grown() {
            self.written = None;
        }
        let begins = self.written.is_none();
        self.end = if begins { 0 } else { self.end };
        match self.append(graph) {
            Ok(()) => self.written = Some(graph.clone()),
            Err(text) => {
                crate::base::say::say!(
                    "cannot save the generation for a restart of the manager: {text}"
                );
                self.written = None;
            }
        }
        if begins {
            self.base = self.end;
        }
    }

    fn append(&mut self, graph: &Graph) -> Result<(), String> {
        let mut out = Vec::new();
        if self.end == 0 {
            out.extend(own_header());
        }
        for piece in generation::write_batch(self.written.as_deref(), graph) {
            write_frame(&mut out, &piece).map_err(|e| e.to_string())?;
        }
        let fd = self.fd.as_fd();
        // What lies beyond must not be taken for what follows, even if this is cut off.
        warren_sys::file::set_length(fd, self.end)
            .and_then(|()| warren_sys::file::write_at(fd, &out, self.end))
            .map_err(|e| e.to_string())?;
        self.end += out.len() as u64;
        Ok(())
    }
}

/// What a file of this program begins with.
pub(crate) fn own_header() -> Vec<u8> {
    [MAGIC.as_slice(), &own_identity().to_le_bytes()].concat()
}

/// Pieces as they are written.
pub(crate) fn frames<'p>(pieces: impl Iterator<Item = &'p [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    pieces.for_each(|piece| write_frame(&mut out, piece).expect("memory takes all"));
    out
}

/// Lengths packed and unpacked, checksum, bytes.
fn write_frame(out: &mut Vec<u8>, piece: &[u8]) -> std::io::Result<()> {
    let packed = zstd::bulk::compress(piece, ZSTD_LEVEL)?;
    for length in [packed.len(), piece.len()] {
        let length = u32::try_from(length).map_err(|_| std::io::ErrorKind::FileTooLarge)?;
        out.extend(length.to_le_bytes());
    }
    out.extend(crc32fast::hash(&packed).to_le_bytes());
    out.extend(packed);
    Ok(())
}

/// The next piece and the bytes after it.
fn read_frame(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<12>()?;
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (packed, rest) = rest.split_at_checked(word(0) as usize)?;
    let size = word(4) as usize;
    if size > PIECE_BYTES_MAX || crc32fast::hash(packed) != word(8) {
        return None;
    }
    Some((zstd::bulk::decompress(packed, size).ok()?, rest))
}

/// The generation, and where the next one is to be written.
fn read(fd: BorrowedFd<'_>, names: Vec<Option<UnitName>>, wanted: u64) -> Option<(Graph, u64)> {
    read_bytes(&memfd::read_all(fd, FILE_BYTES_MAX).ok()?, names, wanted)
}

/// The same of its bytes.
pub(crate) fn read_bytes(
    bytes: &[u8],
    names: Vec<Option<UnitName>>,
    wanted: u64,
) -> Option<(Graph, u64)> {
    let (header, mut rest) = bytes.split_at_checked(HEADER_BYTES)?;
    if !header.starts_with(MAGIC) || !header.ends_with(&own_identity().to_le_bytes()) {
        return None;
    }
    let mut reader = Reader::new(names, wanted);
    let mut end = HEADER_BYTES;
    while let Some((piece, after)) = read_frame(rest) {
        match reader.take(&piece).ok()? {
            Taken::Part => {}
            Taken::Batch => end = bytes.len() - after.len(),
            Taken::Beyond => break,
        }
        rest = after;
    }
    Some((reader.finish().ok()?, end as u64))
}

/// What tells this program from another build of it: which file it is, and when it was written.
fn own_identity() -> u64 {
    fs::metadata("/proc/self/exe").map_or(0, |metadata| Identity::of(&metadata).0)
}

//! How bytes come from a device: few, large reads, each counted.
//!
//! A scan looks at the head (everything up to the btrfs superblock at 64 KiB) and at the tail
//! (where MD 0.90 and 1.0 keep theirs); both are read once. Whatever lies elsewhere, which is only
//! the text of a volume group, is asked for by place.

use std::fmt;

/// Bytes at the start of a device that the scanners look at: the btrfs superblock is the last.
pub const HEAD_BYTES: usize = (64 << 10) + 4096;

/// Bytes at the end of a device that the scanners look at, at most: MD 0.90 is the first there
/// (64 KiB aligned, at least 64 KiB before the end).
pub const TAIL_BYTES_MAX: usize = 128 << 10;

/// Something with bytes that can be read at an offset.
pub trait ReadAt {
    /// Size in bytes.
    fn size_bytes(&self) -> u64;

    /// Fills `buffer` from `offset` on and says how many bytes there were; fewer than asked for
    /// only at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, ReadError>;

    /// True for a part of a disk: what belongs at the end of a disk is not looked for on it.
    fn is_partition(&self) -> bool {
        false
    }

    /// Makes the next read of these bytes one of the disk itself; false where every read is.
    fn refresh(&self, _offset: u64, _bytes: u64) -> bool {
        false
    }
}

/// A read that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadError {
    /// Where, in bytes.
    pub offset: u64,
    /// Error number of errno(3).
    pub errno: i32,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = std::io::Error::from_raw_os_error(self.errno);
        write!(f, "read at byte {}: {message}", self.offset)
    }
}

impl std::error::Error for ReadError {}

impl ReadAt for &[u8] {
    fn size_bytes(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, ReadError> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.len());
        let count = buffer.len().min(self.len() - from);
        buffer[..count].copy_from_slice(&self[from..from + count]);
        Ok(count)
    }
}

/// Room for head and tail, made once per reader and used for one device after another: fresh
/// memory for each would cost more page faults than the scan costs calls.
#[derive(Default)]
pub struct Scratch {
    head: Vec<u8>,
    tail: Vec<u8>,
}

/// A device with its head and tail in memory.
pub struct Image<'a> {
    source: &'a (dyn ReadAt + 'a),
    head: &'a [u8],
    tail: &'a [u8],
    tail_at: u64,
    reads: u32,
}

impl<'a> Image<'a> {
    /// Reads head and tail: two reads, or one when the device is so small that they touch.
    pub fn load(
        source: &'a (dyn ReadAt + 'a),
        scratch: &'a mut Scratch,
    ) -> Result<Image<'a>, ReadError> {
        let size = source.size_bytes();
        let tail_at = tail_start(size);
        let whole = tail_at <= HEAD_BYTES as u64;
        let head_bytes = if whole { size } else { HEAD_BYTES as u64 };
        fill(source, 0, head_bytes as usize, &mut scratch.head)?;
        let head = scratch.head.as_slice();
        let tail = if whole {
            head.get(tail_at as usize..).unwrap_or_default()
        } else {
            fill(source, tail_at, (size - tail_at) as usize, &mut scratch.tail)?;
            scratch.tail.as_slice()
        };
        Ok(Image { source, head, tail, tail_at, reads: if whole { 1 } else { 2 } })
    }

    /// The same from the disk itself; false where it was read from there.
    pub fn refresh(source: &dyn ReadAt) -> bool {
        let (size, head) = (source.size_bytes(), HEAD_BYTES as u64);
        let tail_at = tail_start(size);
        let is_old = source.refresh(0, head.min(size));
        source.refresh(tail_at, size - tail_at) || is_old
    }

    /// Size of the device in bytes.
    pub fn size_bytes(&self) -> u64 {
        self.source.size_bytes()
    }

    /// See [`ReadAt::is_partition`].
    pub fn is_partition(&self) -> bool {
        self.source.is_partition()
    }

    /// The first bytes, [`HEAD_BYTES`] or all there are.
    pub fn head(&self) -> &'a [u8] {
        self.head
    }

    /// `length` bytes at `offset` when they were read with head or tail.
    pub fn get(&self, offset: u64, length: usize) -> Option<&'a [u8]> {
        let within = |window: &'a [u8], start: u64| {
            let from = usize::try_from(offset.checked_sub(start)?).ok()?;
            window.get(from..from.checked_add(length)?)
        };
        within(self.head, 0).or_else(|| within(self.tail, self.tail_at))
    }

    /// Puts `length` bytes at `offset` behind what `out` has; reads them unless they are in
    /// memory. The caller bounds `length`.
    pub fn append(
        &mut self,
        offset: u64,
        length: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        if let Some(bytes) = self.get(offset, length) {
            out.extend_from_slice(bytes);
            return Ok(());
        }
        let start = out.len();
        out.resize(start + length, 0);
        self.reads += 1;
        let count = self.source.read_at(offset, &mut out[start..])?;
        out.truncate(start + count);
        Ok(())
    }

    /// How many reads there were so far.
    pub fn reads(&self) -> u32 {
        self.reads
    }
}

/// Where the tail begins: at MD 0.90's place, the last 64 KiB aligned block of 64 KiB.
fn tail_start(size: u64) -> u64 {
    const STEP: u64 = 64 << 10;
    (size / STEP * STEP).saturating_sub(STEP)
}

/// Reads exactly what is there of the range; cuts `buffer` when the device turns out shorter.
fn fill(
    source: &(dyn ReadAt + '_),
    offset: u64,
    length: usize,
    buffer: &mut Vec<u8>,
) -> Result<(), ReadError> {
    buffer.resize(length, 0);
    let count = source.read_at(offset, buffer)?;
    buffer.truncate(count);
    Ok(())
}

//! What a fuzzer calls: everything that reads bytes, with the properties that must hold.
//!
//! `fuzz_target!(|data: &[u8]| warren_log_store::fuzz::block(data));` is a whole target.

use std::sync::Arc;
use warren_sys::errno::EROFS;

use crate::block::{BLOCK_HEADER_BYTES, Block, Builder, Header, Identity, Section};
use crate::entry::{Entry, Id128};
use crate::error::{Error, Result};
use crate::files::memory::InMemory;
use crate::files::{File, Files, Listed, Space};
use crate::query::union::Reader;
use crate::query::{Cursor, Direction, Expr, Grep, Journal, Query};
use crate::segment::layout::{
    FILE_HEADER_BYTES, FileHeader, FileKind, Place, TRAILER_BYTES, Trailer,
};
use crate::systemd::SystemdFile;

/// Reads bytes as a block; what can be read can be written and read again.
///
/// # Panics
/// If it comes back different.
pub fn block(data: &[u8]) {
    let Ok(block) = Block::parse(data, 0) else { return };
    if block.check().is_err() {
        return;
    }
    let read = |block: &Block| -> Vec<Entry> {
        let row = |row| block.entry(row).expect("a checked block can be read");
        (0..block.rows().len()).map(row).collect()
    };
    let (entries, mut builder) = (read(&block), Builder::default());
    entries.iter().for_each(|e| builder.push(e.seqnum, &e.stamp, &e.context, &e.fields));
    let mut bytes = Vec::new();
    builder.finish(&mut bytes, block.header().identity, 0, (0, 0));
    let again = Block::parse(&bytes, 0).expect("what we write is whole");
    assert_eq!(read(&again), entries);
}

/// Reads bytes as a log and as a segment, in every way there is.
///
/// # Panics
/// If backward is not the reverse of forward, or a query finds what is not there.
pub fn file(data: &[u8]) {
    for name in ["a-0000000000000001.log", "a-0000000000000001-ffffffffffffffff.seg"] {
        let files = Arc::new(OneFile { name, bytes: data.into() });
        let journal = Journal::open(files).expect("one file is listed and opened");
        let all = Query::default();
        let Some(forward) = read(&journal, &all, Direction::Forward) else { continue };
        let mut backward = read(&journal, &all, Direction::Backward).unwrap_or_default();
        backward.reverse();
        assert_eq!(forward, backward);
        let grep = Grep::new("a", None).ok();
        let some = Query { expr: Expr::field("PRIORITY", "6"), grep, ..Query::default() };
        let found = read(&journal, &some, Direction::Forward).unwrap_or_default();
        assert!(found.iter().all(|entry| forward.contains(entry)));
        let _ = (journal.values(b"PRIORITY"), journal.values(b"MESSAGE"), journal.boots());
        for source in journal.sources() {
            let _ = source.segment().map(|segment| segment.map(|segment| segment.verify()));
        }
    }
}

/// The same as [`block`], with checksums made right.
pub fn mended_block(data: &[u8]) {
    block(data);
    let mut bytes = data.to_vec();
    mend_block(&mut bytes, 0);
    block(&bytes);
}

/// The same as [`file()`], with checksums of all that is found made right.
pub fn mended_file(data: &[u8]) {
    file(data);
    let mut bytes = data.to_vec();
    let mut at = FILE_HEADER_BYTES as usize;
    bytes.get_mut(..at).map(seal_with_checksum);
    while let Some(end) = mend_block(&mut bytes, at).filter(|end| *end > at) {
        at = end;
    }
    mend_trailer(&mut bytes);
    file(&bytes);
}

/// Reads bytes as the directory of a segment that has no blocks.
pub fn directory(data: &[u8]) {
    let identity = Identity { file: Id128([7; 16]), sequence: Id128([8; 16]) };
    let header = FileHeader::new(FileKind::Segment, identity, Id128::default(), "a");
    let mut bytes = header.to_bytes();
    let place = Place::pack(data, bytes.len() as u64, &mut bytes);
    let file_bytes = (bytes.len() + TRAILER_BYTES) as u64;
    let trailer = Trailer { identity, directory: place, file_bytes, raw_bytes: data.len() as u64 };
    bytes.extend_from_slice(&trailer.to_bytes());
    file(&bytes);
}

/// Makes a trailer right, and what it says of the directory.
fn mend_trailer(bytes: &mut [u8]) -> Option<()> {
    let begin = bytes.len().checked_sub(TRAILER_BYTES)?;
    seal_with_checksum(&mut bytes[begin..]);
    let (mut trailer, _) = Trailer::parse(bytes, bytes.len() as u64).ok()?;
    let offset = usize::try_from(trailer.directory.offset).ok()?;
    let end = offset.checked_add(trailer.directory.stored as usize)?;
    trailer.directory.crc = crc32fast::hash(bytes.get(offset..end)?);
    bytes[begin..].copy_from_slice(&trailer.to_bytes());
    Some(())
}

/// The last four bytes are the checksum of those before.
fn seal_with_checksum(bytes: &mut [u8]) {
    let (body, crc) = bytes.split_at_mut(bytes.len() - 4);
    crc.copy_from_slice(&crc32fast::hash(body).to_le_bytes());
}

/// Makes a block right that lies there, with its sections; gives its end.
fn mend_block(bytes: &mut [u8], at: usize) -> Option<usize> {
    let body = at + BLOCK_HEADER_BYTES;
    seal_with_checksum(bytes.get_mut(at..body)?);
    let mut header = Header::parse(&bytes[at..], at as u64).ok()?;
    for section in [Section::Rows, Section::Fields, Section::Text] {
        let range = header.section_range(section);
        let stored = bytes.get(body + range.start..body + range.end)?;
        header.sections[section as usize].crc = crc32fast::hash(stored);
    }
    bytes[at..body].copy_from_slice(&header.to_bytes());
    usize::try_from(header.end()).ok()
}

/// Reads bytes as a `.journal` file, in every way there is.
///
/// # Panics
/// If backward is not the reverse of forward.
pub fn journal_file(data: &[u8]) {
    let file = InMemory::new("system.journal", Arc::<[u8]>::from(data));
    let Ok(mut file) = SystemdFile::of("system.journal", Box::new(file)) else { return };
    // What an entry is known by: a file of some bytes may have the same large one a thousand times.
    let walk = |file: &SystemdFile, query: &Query, direction| -> Option<Vec<(u64, u64, usize)>> {
        let (mut stream, mut all) = (file.entries(query, direction, None), Vec::new());
        while let Some(entry) = stream.try_next().ok()? {
            all.push((entry.seqnum, entry.stamp.realtime_us, entry.fields.bytes_len()));
        }
        Some(all)
    };
    let all = Query::default();
    let forward = walk(&file, &all, Direction::Forward);
    let backward = walk(&file, &all, Direction::Backward);
    if let (Some(forward), Some(mut backward)) = (forward, backward) {
        backward.reverse();
        assert_eq!(forward, backward);
    }
    let some = Query { expr: Expr::field("PRIORITY", "6"), ..Query::default() };
    let _ = walk(&file, &some, Direction::Forward);
    let _ = (file.values(b"PRIORITY", VALUES_BYTES_MAX).is_ok(), file.field_names().is_ok());
    let _ = (file.span_us(), file.verify().is_ok(), file.refresh().is_ok());
}

/// Bytes of distinct values that are asked for.
const VALUES_BYTES_MAX: usize = 1 << 20;

/// Reads text as a cursor and as a pattern.
///
/// # Panics
/// If a cursor that was read prints as another.
pub fn text(text: &str) {
    if let Some(cursor) = Cursor::parse(text) {
        assert_eq!(Cursor::parse(&cursor.to_string()), Some(cursor));
    }
    let _ = Grep::new(text, None).map(|grep| grep.matches(b"some text"));
}

fn read(journal: &Journal, query: &Query, direction: Direction) -> Option<Vec<Entry>> {
    journal.entries(query, direction, None).collect::<Result<_>>().ok()
}

/// A directory of one file that cannot be changed.
struct OneFile {
    name: &'static str,
    bytes: Arc<[u8]>,
}

fn refuse<T>(op: &'static str) -> Result<T> {
    Err(Error::Io { op, name: String::new(), errno: EROFS })
}

impl Files for OneFile {
    fn list(&self) -> Result<Vec<Listed>> {
        Ok(vec![Listed { name: self.name.to_owned(), bytes: self.bytes.len() as u64 }])
    }

    fn open(&self, _name: &str) -> Result<Box<dyn File>> {
        Ok(Box::new(InMemory::new(self.name, self.bytes.clone())))
    }

    fn create(&self, _name: &str) -> Result<Box<dyn File>> {
        refuse("create")
    }

    fn rename(&self, _from: &str, _to: &str) -> Result<()> {
        refuse("rename")
    }

    fn unlink(&self, _name: &str) -> Result<()> {
        refuse("unlink")
    }

    fn sync_directory(&self) -> Result<()> {
        refuse("sync")
    }

    fn space(&self) -> Result<Space> {
        refuse("statvfs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::SECTIONS;
    use crate::segment::write::SegmentWriter;
    use crate::store::fault::{Memory, Numbers};
    use crate::{Fields, Stamp};

    /// How many inputs a test makes.
    const INPUTS: usize = 2_000;

    fn sample() -> Vec<u8> {
        let (memory, identity) =
            (Memory::new(), Identity { file: Id128([7; 16]), sequence: Id128([8; 16]) });
        let header = FileHeader::new(FileKind::Segment, identity, Id128::default(), "a");
        let mut writer = SegmentWriter::create(&memory, "x", &header).expect("no faults");
        let context = Arc::new([("_PID", "1"), ("_COMM", "a")].into_iter().collect());
        for seqnum in 1..60 {
            let fields: Fields =
                [("MESSAGE", "a text"), ("PRIORITY", "6"), ("T", "1700000000000000")]
                    .into_iter()
                    .collect();
            let stamp = Stamp { realtime_us: 1_700_000_000_000_000 + seqnum, ..Stamp::default() };
            writer.push(seqnum, &stamp, &context, &fields).expect("no faults");
        }
        writer.finish().expect("no faults");
        memory.content("x")
    }

    /// Changes bytes of a section and mends the checksums, so that the reader gets to see them.
    fn mutate_block(bytes: &mut [u8], at: usize, numbers: &mut Numbers) {
        let Ok(mut header) = Header::parse(&bytes[at..], at as u64) else { return };
        let body = at + BLOCK_HEADER_BYTES;
        let sections: [Section; SECTIONS] = [Section::Rows, Section::Fields, Section::Text];
        for _ in 0..1 + numbers.below(3) {
            let section = sections[numbers.below(SECTIONS)];
            let range = header.section_range(section);
            if !range.is_empty() {
                let byte = body + range.start + numbers.below(range.len());
                bytes[byte] = [0, 1, 0x7f, 0x80, 0xff, numbers.below(256) as u8][numbers.below(6)];
            }
            let stored = &bytes[body + range.start..body + range.end];
            header.sections[section as usize].crc = crc32fast::hash(stored);
            if numbers.below(8) == 0 {
                header.count = numbers.below(70) as u32;
            }
        }
        bytes[at..body].copy_from_slice(&header.to_bytes());
    }

    /// Changes the unpacked directory and packs it again.
    fn mutate_directory(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
        let length = bytes.len() as u64;
        let Ok((trailer, _)) = Trailer::parse(bytes, length) else { return };
        let place = trailer.directory;
        let begin = place.offset as usize;
        let Ok(mut raw) = place.unpack(&bytes[begin..begin + place.stored as usize]) else {
            return;
        };
        for _ in 0..1 + numbers.below(3) {
            let at = numbers.below(raw.len());
            raw[at] = numbers.below(256) as u8;
        }
        bytes.truncate(begin);
        let directory = Place::pack(&raw, place.offset, bytes);
        let file_bytes = (bytes.len() + TRAILER_BYTES) as u64;
        let trailer = Trailer { directory, file_bytes, ..trailer };
        bytes.extend_from_slice(&trailer.to_bytes());
    }

    #[test]
    fn changed_blocks_do_no_harm() {
        let (whole, mut numbers) = (sample(), Numbers(11));
        let at = FILE_HEADER_BYTES as usize;
        // A block alone lies at the start.
        let header = Header::parse(&whole[at..], FILE_HEADER_BYTES).expect("a block");
        let mut alone = whole[at..header.end() as usize].to_vec();
        alone[..BLOCK_HEADER_BYTES].copy_from_slice(&Header { offset: 0, ..header }.to_bytes());
        for _ in 0..INPUTS {
            let mut bytes = alone.clone();
            mutate_block(&mut bytes, 0, &mut numbers);
            block(&bytes);
        }
    }

    #[test]
    fn changed_files_do_no_harm() {
        let (whole, mut numbers) = (sample(), Numbers(12));
        for input in 0..INPUTS {
            let mut bytes = whole.clone();
            match input % 4 {
                0 => mutate_directory(&mut bytes, &mut numbers),
                1 => mutate_block(&mut bytes, FILE_HEADER_BYTES as usize, &mut numbers),
                2 => bytes.truncate(numbers.below(whole.len())),
                _ => {
                    let at = numbers.below(whole.len());
                    bytes[at] ^= 1 << numbers.below(8);
                }
            }
            file(&bytes);
        }
    }

    #[test]
    fn changed_texts_do_no_harm() {
        let mut numbers = Numbers(13);
        let pieces = [
            "s=",
            "i=1",
            ";",
            "x=ff",
            "b=",
            "00000000000000000000000000000001",
            "(",
            "a*",
            "\\",
            "[",
            "é",
        ];
        for _ in 0..INPUTS {
            let made: String =
                (0..numbers.below(9)).map(|_| pieces[numbers.below(pieces.len())]).collect();
            text(&made);
        }
    }
}

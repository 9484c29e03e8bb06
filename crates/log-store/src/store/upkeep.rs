//! Turns closed logs into segments, and small segments into larger ones.
//!
//! Both publish in the same way: write under a temporary name, sync the file, rename, sync the
//! directory, and only then remove what was replaced. A crash anywhere leaves either the old
//! files or old and new ones, and [`crate::store::names`] knows which count.

use std::collections::{BTreeMap, BTreeSet};

use crate::block::{Header, Identity, Kind};
use crate::entry::Id128;
use crate::error::{Error, Result};
use crate::files::{File, Files};
use crate::segment::layout::{FileHeader, FileKind};
use crate::segment::read::{Health, Segment, read_header};
use crate::segment::scan::{Walk, read_block};
use crate::segment::write::{Finished, SegmentWriter};
use crate::store::names::{Catalogue, FileName, SegmentName, TEMPORARY};

/// So many neighbours of a size become one.
pub const MERGE_FAN_IN: usize = 4;

/// No merge makes a segment of more bytes, unless it is told another bound; it is also the grain of
/// what vacuum can remove.
pub const MERGE_BYTES_MAX: u64 = 64 << 20;

/// Segments below this are of the smallest size, bytes; each further size is four times that.
const SMALLEST_BYTES: u64 = 1 << 20;

/// What sealing a log gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sealed {
    /// The segment; `None` when the log had no entries.
    pub segment: Option<SegmentName>,
    /// Damaged parts of the log, bytes.
    pub lost: Vec<std::ops::Range<u64>>,
}

/// Makes a segment of a closed log and removes the log.
pub fn seal(files: &dyn Files, log: &FileName, machine: Id128, id: Id128) -> Result<Sealed> {
    let name = log.to_string();
    let (found, file) = read_log(files, &name)?;
    let Some((last, sequence)) = found.entries.last().map(|h| (h.last_seqnum, h.identity.sequence))
    else {
        files.unlink(&name)?;
        return Ok(Sealed { segment: None, lost: found.lost });
    };
    let segment = SegmentName { class: log.class().to_owned(), first: log.first(), last };
    let mut writer = create(files, &segment, machine, Identity { file: id, sequence })?;
    let lost = found.copy(&*file, &name, &mut writer, 0)?;
    publish(files, writer, &segment, &[name])?;
    Ok(Sealed { segment: Some(segment), lost })
}

/// The blocks of entries that count in a log, or in what is left of a segment.
struct LogBlocks {
    entries: Vec<Header>,
    lost: Vec<std::ops::Range<u64>>,
}

fn read_log(files: &dyn Files, name: &str) -> Result<(LogBlocks, Box<dyn File>)> {
    let file = files.open(name)?;
    let mut walk = Walk::new(read_header(&*file, name)?.map(|header| header.identity));
    walk.advance(&*file)?;
    let salvage = walk.salvage();
    let blocks = walk.blocks.into_iter().take(salvage.count);
    let entries = blocks.filter(|block| block.kind == Kind::Entries).collect();
    Ok((LogBlocks { entries, lost: salvage.lost }, file))
}

impl LogBlocks {
    /// Adds all entries to a segment, their numbers moved by `shift`; gives what is damaged.
    fn copy(
        self,
        file: &dyn File,
        name: &str,
        writer: &mut SegmentWriter,
        shift: u64,
    ) -> Result<Vec<std::ops::Range<u64>>> {
        let mut lost = self.lost;
        for header in &self.entries {
            let block = read_block(file, name, header);
            match block.and_then(|block| writer.push_block(&block, name, shift)) {
                Ok(()) => {}
                Err(Error::Damaged { name: of, .. }) if of == name => {
                    lost.push(header.offset..header.end());
                }
                Err(e) => return Err(e),
            }
        }
        Ok(lost)
    }
}

/// Adds all entries of a file to a segment, their numbers moved by `shift`. Gives the damaged parts
/// of the file.
pub(super) fn copy_blocks(
    files: &dyn Files,
    name: &FileName,
    writer: &mut SegmentWriter,
    shift: u64,
) -> Result<Vec<std::ops::Range<u64>>> {
    let name = name.to_string();
    let (found, file) = read_log(files, &name)?;
    found.copy(&*file, &name, writer, shift)
}

/// Makes one segment of neighbours, oldest first, and removes them. Their blocks are copied as
/// they are. A damaged one is an error: it stays for whoever wants to look at it.
pub fn merge(
    files: &dyn Files,
    sources: &[SegmentName],
    machine: Id128,
    id: Id128,
) -> Result<SegmentName> {
    let segments = sources
        .iter()
        .map(|name| Segment::open(files, &name.to_string()))
        .collect::<Result<Vec<_>>>()?;
    if let Some(damaged) = segments.iter().find(|segment| *segment.health() != Health::Whole) {
        let (name, what) = (damaged.name().to_owned(), "its index is lost");
        return Err(Error::Damaged { name, offset: 0, what });
    }
    let (first, last) = match sources {
        [first, .., last] => (first, last),
        _ => return Err(Error::TooLarge { what: "a merge of fewer segments than two", max: 2 }),
    };
    let merged = SegmentName { class: first.class.clone(), first: first.first, last: last.last };
    let sequence = segments[0].stored_block(0)?.0.identity.sequence;
    let mut writer = create(files, &merged, machine, Identity { file: id, sequence })?;
    segments.iter().try_for_each(|segment| writer.append_segment(segment, 0))?;
    let old: Vec<String> = sources.iter().map(ToString::to_string).collect();
    publish(files, writer, &merged, &old)?;
    Ok(merged)
}

/// What merging keeps to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MergeBounds {
    /// No file becomes larger, bytes.
    pub bytes_max: u64,
    /// The times between the first and the last entry of a file of a class, µs: what is merged can
    /// only be removed together. Classes that are not here have no bound.
    pub span_max_us: BTreeMap<String, u64>,
}

impl MergeBounds {
    /// A bound of bytes alone.
    pub fn bytes(bytes_max: u64) -> MergeBounds {
        MergeBounds { bytes_max, span_max_us: BTreeMap::new() }
    }
}

/// When the first and the last entry of segments came, µs since 1970; only of those that it is asked
/// of.
type Times = BTreeMap<SegmentName, (u64, u64)>;

fn read_times(files: &dyn Files, catalogue: &Catalogue, bounds: &MergeBounds) -> Result<Times> {
    let mut times = Times::new();
    let bounded = catalogue.segments().map(|segment| segment.0);
    for name in bounded.filter(|name| bounds.span_max_us.contains_key(&name.class)) {
        let segment = match Segment::open(files, &name.to_string()) {
            // Its merge would say so.
            Err(e) if e.is_of_device() => continue,
            segment => segment?,
        };
        let blocks = &segment.directory().blocks;
        let first = blocks.iter().map(|block| block.realtime_min_us).min();
        let last = blocks.iter().map(|block| block.realtime_max_us).max();
        times.extend(first.zip(last).map(|both| (name.clone(), both)));
    }
    Ok(times)
}

/// Merges as long as there is something to merge. A segment that turns out to be damaged is added
/// to `skip` and given back with what is wrong; the others go on.
pub fn merge_all(
    files: &dyn Files,
    machine: Id128,
    bounds: &MergeBounds,
    new_id: &mut dyn FnMut() -> Id128,
    skip: &mut BTreeSet<SegmentName>,
) -> Result<Vec<Error>> {
    let mut damaged = Vec::new();
    loop {
        let catalogue = Catalogue::of(files.list()?);
        let times = read_times(files, &catalogue, bounds)?;
        let plan = plan_merge(&catalogue, bounds, &times, skip);
        if plan.is_empty() {
            return Ok(damaged);
        }
        match merge(files, &plan, machine, new_id()) {
            Ok(_) => {}
            Err(e) => match plan.into_iter().find(|name| e.is_about(&name.to_string())) {
                Some(name) => {
                    skip.insert(name);
                    damaged.push(e);
                }
                None => return Err(e),
            },
        }
    }
}

pub(super) fn create(
    files: &dyn Files,
    segment: &SegmentName,
    machine: Id128,
    identity: Identity,
) -> Result<SegmentWriter> {
    let temporary = format!("{segment}{TEMPORARY}");
    files.unlink(&temporary)?;
    let header = FileHeader::new(FileKind::Segment, identity, machine, &segment.class);
    SegmentWriter::create(files, &temporary, &header)
}

pub(super) fn publish(
    files: &dyn Files,
    writer: SegmentWriter,
    segment: &SegmentName,
    old: &[String],
) -> Result<Finished> {
    let finished = writer.finish()?;
    files.rename(&format!("{segment}{TEMPORARY}"), &segment.to_string())?;
    files.sync_directory()?;
    old.iter().try_for_each(|name| files.unlink(name))?;
    Ok(finished)
}

/// Which neighbours to merge next, oldest first; empty when there is nothing to gain.
///
/// `skip` are segments that cannot be merged, being damaged; they part their neighbours, and so does
/// a log that could not be sealed yet, whose number would lie within the merged range. From the
/// newest segment of a class backwards: as long as the neighbours are no larger than
/// its size, they belong together; four or more of them are merged. So each entry is copied
/// once for each size, and a class has at most a few segments of each.
pub fn plan_merge(
    catalogue: &Catalogue,
    bounds: &MergeBounds,
    times: &BTreeMap<SegmentName, (u64, u64)>,
    skip: &BTreeSet<SegmentName>,
) -> Vec<SegmentName> {
    let segments: Vec<_> = catalogue.segments().collect();
    let by_class = segments.chunk_by(|a, b| a.0.class == b.0.class);
    let mut plans = by_class.map(|class| {
        let of_class = |log: &&FileName| log.class() == class[0].0.class;
        let logs: Vec<u64> = catalogue.logs().filter(of_class).map(FileName::first).collect();
        plan_class(class, &logs, bounds, times, skip)
    });
    plans.find(|plan| !plan.is_empty()).unwrap_or_default()
}

fn plan_class(
    segments: &[(&SegmentName, u64)],
    logs: &[u64],
    bounds: &MergeBounds,
    times: &BTreeMap<SegmentName, (u64, u64)>,
    skip: &BTreeSet<SegmentName>,
) -> Vec<SegmentName> {
    let Some(last) = segments.last() else { return Vec::new() };
    let (newest, ends_us) = (size(last.1), times.get(last.0).map(|time| time.1));
    let is_long = |name: &SegmentName| {
        let span = ends_us.zip(times.get(name)).map(|(end, (begin, _))| end.saturating_sub(*begin));
        let max = bounds.span_max_us.get(&name.class);
        max.zip(span).is_some_and(|(max, span)| span > *max)
    };
    let (mut run, mut bytes) = (Vec::new(), 0);
    for (name, file_bytes) in segments.iter().rev() {
        bytes += file_bytes;
        let next = run.last().map_or(name.last, |next: &SegmentName| next.first);
        let is_parted = logs.iter().any(|log| (name.last..next).contains(log));
        let is_large = size(*file_bytes) > newest || bytes > bounds.bytes_max;
        if is_parted || is_large || is_long(name) || skip.contains(name) {
            break;
        }
        run.push((*name).clone());
    }
    if run.len() < MERGE_FAN_IN {
        return Vec::new();
    }
    run.reverse();
    run
}

fn size(file_bytes: u64) -> u32 {
    (file_bytes / SMALLEST_BYTES).checked_ilog(MERGE_FAN_IN as u64).map_or(0, |power| power + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Listed;

    const BYTES: MergeBounds =
        MergeBounds { bytes_max: MERGE_BYTES_MAX, span_max_us: BTreeMap::new() };

    /// Sizes in MiB, oldest first, and how many of the newest are merged.
    fn check(sizes: &[u64], merged: usize) {
        let listed = |(at, size): (usize, &u64)| {
            let (first, last) = (at as u64 * 10, at as u64 * 10 + 9);
            let name = SegmentName { class: "a".into(), first, last }.to_string();
            Listed { name, bytes: size << 20 }
        };
        let catalogue = Catalogue::of(sizes.iter().enumerate().map(listed).collect());
        let plan = plan_merge(&catalogue, &BYTES, &Times::new(), &BTreeSet::new());
        let all: Vec<_> = catalogue.segments().map(|(name, _)| name.clone()).collect();
        assert_eq!(plan, all[all.len() - merged..], "{sizes:?}");
    }

    #[test]
    fn a_damaged_segment_parts_its_neighbours() {
        let name = |at: u64| SegmentName { class: "a".into(), first: at * 10, last: at * 10 + 9 };
        let listed = |at: u64| Listed { name: name(at).to_string(), bytes: 1 << 20 };
        let catalogue = Catalogue::of((0..9).map(listed).collect());
        let plan = |skip: &[u64]| {
            let skip = skip.iter().map(|&at| name(at)).collect();
            plan_merge(&catalogue, &BYTES, &Times::new(), &skip).len()
        };
        assert_eq!([plan(&[]), plan(&[2]), plan(&[6]), plan(&[8])], [9, 6, 0, 0]);
    }

    #[test]
    fn what_would_hold_too_long_a_time_is_left() {
        let name = |at: u64| SegmentName { class: "a".into(), first: at * 10, last: at * 10 + 9 };
        let listed = |at: u64| Listed { name: name(at).to_string(), bytes: 1 << 20 };
        let catalogue = Catalogue::of((0..9).map(listed).collect());
        let times: Times = (0..9).map(|at| (name(at), (at * 100, at * 100 + 50))).collect();
        let plan = |class: &str, max: u64| {
            let span_max_us = [(class.to_owned(), max)].into();
            let bounds = MergeBounds { bytes_max: MERGE_BYTES_MAX, span_max_us };
            plan_merge(&catalogue, &bounds, &times, &BTreeSet::new()).len()
        };
        assert_eq!([plan("a", 349), plan("a", 350), plan("a", 450), plan("b", 1)], [0, 4, 5, 9]);
    }

    #[test]
    fn a_log_parts_its_neighbours() {
        let name = |at: u64| SegmentName { class: "a".into(), first: at * 10, last: at * 10 + 8 };
        let plan = |log: u64| {
            let mut listing: Vec<Listed> =
                (0..9).map(|at| Listed { name: name(at).to_string(), bytes: 1 << 20 }).collect();
            let log = FileName::Log { class: "a".into(), first: log };
            listing.push(Listed { name: log.to_string(), bytes: 1 });
            plan_merge(&Catalogue::of(listing), &BYTES, &Times::new(), &BTreeSet::new()).len()
        };
        assert_eq!([plan(1000), plan(39), plan(59), plan(9)], [9, 5, 0, 8]);
    }

    #[test]
    fn neighbours_of_a_size_are_merged() {
        check(&[], 0);
        check(&[1, 1, 1], 0);
        check(&[1, 1, 1, 1], 4);
        check(&[4, 1, 1, 1, 1], 4);
        check(&[4, 4, 4, 1, 1, 1], 0);
        check(&[4, 4, 4, 4], 4);
        check(&[4, 4, 1, 4, 4], 5);
        check(&[40, 40, 40, 40], 0);
        check(&[16, 16, 16, 16], 4);
    }
}

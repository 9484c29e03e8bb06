//! Removes old segments, whole files at a time. Deciding is pure, removing is a row of unlinks.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::files::{Files, Space};
use crate::segment::read::Segment;
use crate::store::age::{Clock, last_entry, last_of_boot};
use crate::store::names::{Catalogue, SegmentName};

/// What a class may keep. `None`: no such limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassLimits {
    /// Bytes of files.
    pub bytes_max: Option<u64>,
    /// Bytes of its segments that are left to it when all files together are too much, as long as
    /// other classes have more than theirs.
    pub bytes_min: u64,
    /// Age of the newest entry of a segment, µs.
    pub age_max_us: Option<u64>,
}

/// What the store may keep.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// Bytes of all files together.
    pub bytes_max: Option<u64>,
    /// Bytes to leave free in the file system.
    pub keep_free_bytes: Option<u64>,
    /// Bytes of the newest segments that stay however little is free, and the newest one whatever the limits say;
    /// 0: nothing has to stay.
    pub floor_bytes: u64,
    /// Number of files.
    pub files_max: Option<usize>,
    /// For classes that are not in `classes`.
    pub other: ClassLimits,
    /// By class.
    pub classes: BTreeMap<String, ClassLimits>,
}

impl Limits {
    fn of(&self, class: &str) -> &ClassLimits {
        self.classes.get(class).unwrap_or(&self.other)
    }
}

/// A segment as vacuum sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: SegmentName,
    /// Its size, bytes.
    pub bytes: u64,
    /// Wall clock of its newest entry, µs; `None` when it cannot be read.
    pub realtime_max_us: Option<u64>,
}

/// What is to be removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Which segments go.
    pub gone: Vec<SegmentName>,
    /// How many of them, the last ones, go because too little is free.
    pub for_space: usize,
    /// So much more would have to be free than all that may go could give: then nothing goes for it, bytes.
    pub short_by: u64,
}

/// Which segments go. `log_bytes` is what the logs take, which are never removed.
pub fn plan(
    mut kept: Vec<Candidate>,
    log_bytes: u64,
    limits: &Limits,
    space: Option<Space>,
    now_us: u64,
) -> Plan {
    let (mut gone, mut freed) = (Vec::new(), 0);
    kept.sort_by_key(|segment| segment.name.last);
    let mut remove = |kept: &mut Vec<Candidate>, at: usize| {
        let segment = kept.remove(at);
        gone.push(segment.name);
        freed += segment.bytes;
    };
    let is_old = |segment: &Candidate| {
        let limits = limits.of(&segment.name.class);
        segment.realtime_max_us.is_some_and(|newest_us| is_too_old(limits, newest_us, now_us))
    };
    while let Some(at) = kept.iter().position(is_old) {
        remove(&mut kept, at);
    }
    while let Some(at) = first_of_large_class(&kept, limits) {
        remove(&mut kept, at);
    }
    let stay = usize::from(limits.floor_bytes > 0);
    while kept.len() > stay {
        let over = limits.bytes_max.is_some_and(|max| log_bytes + bytes(&kept) > max)
            || limits.files_max.is_some_and(|max| kept.len() > max);
        if !over {
            break;
        }
        let others = &kept[..kept.len() - stay];
        let at = others.iter().position(|segment| is_free_to_go(segment, &kept, limits));
        remove(&mut kept, at.unwrap_or(0));
    }
    let short_by = match (limits.keep_free_bytes, space) {
        (Some(keep), Some(space)) => keep.saturating_sub(space.free_bytes.saturating_add(freed)),
        _ => 0,
    };
    match free(kept, short_by, limits) {
        Ok(more) => {
            let for_space = more.len();
            gone.extend(more);
            Plan { gone, for_space, short_by: 0 }
        }
        Err(short_by) => Plan { gone, for_space: 0, short_by },
    }
}

/// Which of these go so that so many bytes more are free; else how many are missing without those that have to stay:
/// the log is not given away for what does not help, as where somebody else's file fills the disk.
fn free(
    mut kept: Vec<Candidate>,
    bytes_min: u64,
    limits: &Limits,
) -> std::result::Result<Vec<SegmentName>, u64> {
    let (mut gone, mut freed) = (Vec::new(), 0);
    while freed < bytes_min {
        let stays = |segment: &Candidate| bytes(&kept) - segment.bytes < limits.floor_bytes;
        let may_go = |segment: &Candidate| is_free_to_go(segment, &kept, limits) && !stays(segment);
        let at = kept.iter().position(may_go).ok_or(bytes_min - freed)?;
        let segment = kept.remove(at);
        freed += segment.bytes;
        gone.push(segment.name);
    }
    Ok(gone)
}

fn bytes(kept: &[Candidate]) -> u64 {
    kept.iter().map(|segment| segment.bytes).sum()
}

fn is_too_old(limits: &ClassLimits, newest_us: u64, now_us: u64) -> bool {
    limits.age_max_us.is_some_and(|max| now_us.saturating_sub(newest_us) > max)
}

/// Whether its class keeps what it is to keep without it.
fn is_free_to_go(segment: &Candidate, kept: &[Candidate], limits: &Limits) -> bool {
    let class = &segment.name.class;
    bytes_of(class, kept) - segment.bytes >= limits.of(class).bytes_min
}

fn bytes_of(class: &str, kept: &[Candidate]) -> u64 {
    let of_class = kept.iter().filter(|segment| segment.name.class == class);
    of_class.map(|segment| segment.bytes).sum()
}

fn first_of_large_class(kept: &[Candidate], limits: &Limits) -> Option<usize> {
    kept.iter().position(|oldest| {
        let class = &oldest.name.class;
        limits.of(class).bytes_max.is_some_and(|max| bytes_of(class, kept) > max)
    })
}

/// What was removed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Vacuumed {
    /// Their names.
    pub gone: Vec<SegmentName>,
    /// What they took, bytes.
    pub bytes: u64,
    /// How many of them were removed because too little is free.
    pub for_space: usize,
    /// So much more should be free, and what may be removed does not reach that, bytes.
    pub short_by: u64,
    /// Why the age of others is not known: their device does not give them.
    pub unreadable: Vec<Error>,
}

/// Removes what the limits say. A segment that its device does not give has no age; it goes when there
/// is too much.
pub fn vacuum(files: &dyn Files, limits: &Limits, clock: &Clock) -> Result<Vacuumed> {
    let catalogue = Catalogue::of(files.list()?);
    let by_age = limits.other.age_max_us.is_some()
        || limits.classes.values().any(|class| class.age_max_us.is_some());
    let (mut opened, mut unreadable) = (Vec::new(), Vec::new());
    for (name, bytes) in catalogue.segments() {
        let segment = match by_age.then(|| open(files, name)) {
            None => None,
            Some(Err(e)) if e.is_of_device() => {
                unreadable.push(e);
                None
            }
            Some(segment) => segment?,
        };
        opened.push((name, bytes, segment));
    }
    let segments = || opened.iter().filter_map(|(_, _, segment)| segment.as_ref());
    let mut candidates = Vec::new();
    for (name, bytes, segment) in &opened {
        let is_old = |newest_us| is_too_old(limits.of(&name.class), newest_us, clock.realtime_us);
        let realtime_max_us = match segment {
            Some(segment) => newest(segment, segments(), clock, is_old),
            None => None,
        };
        candidates.push(Candidate { name: (*name).clone(), bytes: *bytes, realtime_max_us });
    }
    let logs = catalogue.files.iter().filter(|file| file.name.is_log());
    let log_bytes = logs.map(|file| file.bytes).sum();
    let space = limits.keep_free_bytes.map(|_| files.space()).transpose()?;
    let Plan { gone, for_space, short_by } =
        plan(candidates, log_bytes, limits, space, clock.realtime_us);
    if !gone.is_empty() {
        // What these segments replaced must be gone for good before they are.
        catalogue
            .leftovers
            .iter()
            .filter(|n| n.ends_with(".seg") || n.ends_with(".log"))
            .try_for_each(|n| files.unlink(n))?;
        files.sync_directory()?;
    }
    let bytes_of =
        |name: &SegmentName| catalogue.segments().find(|s| s.0 == name).map_or(0, |s| s.1);
    let bytes = gone.iter().map(bytes_of).sum();
    gone.iter().try_for_each(|name| files.unlink(&name.to_string()))?;
    Ok(Vacuumed { gone, bytes, for_space, short_by, unreadable })
}

/// `None` for one that is gone or of a later version.
fn open(files: &dyn Files, name: &SegmentName) -> Result<Option<Segment>> {
    match Segment::open(files, &name.to_string()) {
        Ok(segment) => Ok(Some(segment)),
        Err(e) if e.is_gone() => Ok(None),
        Err(Error::Unsupported { .. }) => Ok(None),
        Err(e) => Err(e),
    }
}

/// When the newest entry of a segment came; `None` while that is not known. The wall clocks in its directory are enough
/// where they are no reason to remove it, and not later than now.
fn newest<'s>(
    segment: &Segment,
    all: impl Iterator<Item = &'s Segment>,
    clock: &Clock,
    is_old: impl Fn(u64) -> bool,
) -> Option<u64> {
    let said = segment.directory().blocks.iter().map(|block| block.realtime_max_us).max()?;
    if !is_old(said) && said <= clock.realtime_us {
        return Some(said);
    }
    // What is damaged has the age that its directory says.
    let Ok(Some(entry)) = last_entry(segment) else { return Some(said) };
    let last = last_of_boot(all, entry.boot).ok().flatten().unwrap_or(entry);
    clock.reckon(&entry, &last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments as `class last bytes newest`; limits as `key=value`; what goes, by last number.
    fn check(segments: &str, limits: &str, expected: &[u64]) {
        let candidate = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words[at].parse::<u64>().expect("a number");
            Candidate {
                name: SegmentName { class: words[0].into(), first: number(1), last: number(1) },
                bytes: number(2),
                realtime_max_us: Some(number(3)),
            }
        };
        let segments = segments.split(',').map(candidate).collect();
        let gone = plan(
            segments,
            5,
            &parse_limits(limits),
            Some(Space { free_bytes: 10, total_bytes: 100 }),
            1000,
        );
        let gone = gone.gone;
        assert_eq!(gone.iter().map(|name| name.last).collect::<Vec<_>>(), expected, "{limits}");
    }

    fn parse_limits(text: &str) -> Limits {
        let mut limits = Limits::default();
        for word in text.split_whitespace() {
            let (key, value) = word.split_once('=').expect("key=value");
            let value: u64 = value.parse().expect("a number");
            match key.split_once('.') {
                None if key == "bytes" => limits.bytes_max = Some(value),
                None if key == "free" => limits.keep_free_bytes = Some(value),
                None if key == "floor" => limits.floor_bytes = value,
                None if key == "files" => limits.files_max = Some(value as usize),
                None if key == "age" => limits.other.age_max_us = Some(value),
                Some((class, "bytes")) => {
                    limits.classes.entry(class.into()).or_default().bytes_max = Some(value)
                }
                Some((class, "min")) => {
                    limits.classes.entry(class.into()).or_default().bytes_min = value
                }
                Some((class, "age")) => {
                    limits.classes.entry(class.into()).or_default().age_max_us = Some(value)
                }
                _ => panic!("no limit: {key}"),
            }
        }
        limits
    }

    #[test]
    fn the_oldest_go_first() {
        const THREE: &str = "a 1 10 100,b 2 10 200,a 3 10 300";
        check(THREE, "", &[]);
        check(THREE, "bytes=35", &[]);
        check(THREE, "bytes=34", &[1]);
        check(THREE, "bytes=5", &[1, 2, 3]);
        check(THREE, "files=1", &[1, 2]);
        check(THREE, "free=10", &[]);
        check(THREE, "free=11", &[1]);
        check(THREE, "free=25", &[1, 2]);
        check(THREE, "free=40", &[1, 2, 3]);
        check(THREE, "age=750 free=30", &[1, 2]);
        check(THREE, "age=750", &[1, 2]);
        check(THREE, "a.bytes=15", &[1]);
        check(THREE, "b.age=1", &[2]);
        check(THREE, "b.age=1 bytes=20", &[2, 1]);
        check(THREE, "bytes=25 a.min=20", &[2]);
        check(THREE, "bytes=25 a.min=11", &[2]);
        check(THREE, "bytes=25 a.min=10", &[1]);
        check(THREE, "bytes=15 a.min=20 b.min=10", &[1, 2]);
        check(THREE, "bytes=5 a.min=99", &[2, 1, 3]);
    }

    /// A disk that others fill takes no more of the log than helps, and never all of it.
    #[test]
    fn too_little_free_space_leaves_the_newest() {
        const THREE: &str = "a 1 10 100,b 2 10 200,a 3 10 300";
        check(THREE, "free=41", &[]);
        check(THREE, "free=1000000", &[]);
        check(THREE, "free=30 floor=10", &[1, 2]);
        check(THREE, "free=31 floor=10", &[]);
        check(THREE, "free=20 floor=20", &[1]);
        check(THREE, "free=21 floor=11", &[]);
        check(THREE, "free=20 a.min=20", &[2]);
        check(THREE, "free=30 a.min=20", &[]);
        check(THREE, "bytes=5 floor=1", &[1, 2]);
        check(THREE, "bytes=5 floor=1 a.min=99 b.min=99", &[1, 2]);
        check(THREE, "files=1 floor=99", &[1, 2]);
        check("a 1 142 100", "bytes=100 floor=16", &[]);
    }
}

//! Moves all that one directory holds into another, exactly once: what was kept in memory goes to
//! the disk when `/var` is there.
//!
//! The entries become one segment of each class, whose file id is the sequence id of the directory
//! that they come from. It is done in two steps, and between them the caller remembers, where it
//! outlives him, that everything is copied ([`Since`]):
//! - [`copy`] publishes the segments. Who fails in it, or is killed, may go on writing to the old directory:
//!   the next copy takes the place of what the first one left.
//! - [`Copied::remove`] removes the old files. Who is killed in it finds out from the ids, when he does
//!   both again, what is there already.
//!
//! Nothing else may write to either directory meanwhile, merging in particular.

use crate::block::Identity;
use crate::entry::Id128;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::segment::read::{Health, Segment, read_header};
use crate::segment::write::SegmentWriter;
use crate::store::names::{Catalogue, FileName, SegmentName, TEMPORARY};
use crate::store::upkeep::{copy_blocks, create, publish};
use crate::store::{Store, find_sequence, walk_log};

/// What is known of copies that were made before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// No file was removed since, and some may have been written: a copy that is there is an old one.
    Nothing,
    /// Everything was copied, or nothing was written since: a copy that is there is whole, and files of
    /// it may have been removed.
    Copied,
}

/// What [`copy`] did.
#[derive(Debug, Default)]
pub struct Copied {
    /// The segments that were made.
    pub made: Vec<SegmentName>,
    /// Damaged parts of the old files, bytes.
    pub lost: Vec<(String, std::ops::Range<u64>)>,
    /// Where it all comes from.
    old: Catalogue,
}

impl Copied {
    /// Removes the old files, which nobody has open. Each file says whose it is, so those that are left by a
    /// crash are recognised.
    ///
    /// # Errors
    /// Some are left; they are there twice until they are removed.
    pub fn remove(&self, from: &dyn Files) -> Result<()> {
        self.old.leftovers.iter().try_for_each(|name| from.unlink(name))?;
        self.old.files.iter().try_for_each(|file| from.unlink(&file.name.to_string()))
    }
}

/// Copies everything of `from`, which nobody has open, behind what `store` has in `to`.
///
/// # Errors
/// All is still in `from`, and `to` has copies of some classes, or of none.
pub fn copy(
    from: &dyn Files,
    (to, store): (&dyn Files, &mut Store),
    machine: Id128,
    since: Since,
) -> Result<Copied> {
    let catalogue = Catalogue::of(from.list()?);
    let mut copied = Copied::default();
    let Some(origin) = find_sequence(from, &catalogue)? else {
        // Files of which nothing can be read are left for whoever wants to look at them.
        return Ok(copied);
    };
    let there = Catalogue::of(to.list()?);
    let numbers = Numbers::of(from, &catalogue)?;
    let first = store.reserve(numbers.last - numbers.first + 1);
    for class in classes(&catalogue) {
        let copies = copies_of(to, &there, class, origin)?;
        if since == Since::Copied && !copies.is_empty() {
            continue;
        }
        let files: Vec<&FileName> =
            catalogue.files.iter().map(|file| &file.name).filter(|n| n.class() == class).collect();
        let identity = Identity { file: origin, sequence: store.sequence() };
        let shift = first.wrapping_sub(numbers.first);
        let job = Job { from, to, identity, machine, shift };
        copied.made.extend(job.class((class, &files), &copies, &mut copied.lost)?);
    }
    copied.old = catalogue;
    Ok(copied)
}

/// The lowest and the highest sequence number.
struct Numbers {
    first: u64,
    last: u64,
}

impl Numbers {
    fn of(from: &dyn Files, catalogue: &Catalogue) -> Result<Numbers> {
        let first = catalogue.files.iter().map(|file| file.name.first()).min().unwrap_or(0);
        let mut last = catalogue.last_seqnum();
        for log in catalogue.logs() {
            last = last.max(walk_log(from, &log.to_string())?.1);
        }
        Ok(Numbers { first, last: last.max(first) })
    }
}

fn classes(catalogue: &Catalogue) -> Vec<&str> {
    let mut classes: Vec<&str> = catalogue.files.iter().map(|file| file.name.class()).collect();
    classes.dedup();
    classes
}

/// Copies of a class that somebody made before: the names of their files.
fn copies_of(to: &dyn Files, there: &Catalogue, class: &str, origin: Id128) -> Result<Vec<String>> {
    let mut copies = Vec::new();
    for (name, _) in there.segments().filter(|(name, _)| name.class == class) {
        let name = name.to_string();
        let header = read_header(&*to.open(&name)?, &name)?;
        if header.is_some_and(|header| header.identity.file == origin) {
            copies.push(name);
        }
    }
    Ok(copies)
}

struct Job<'a> {
    from: &'a dyn Files,
    to: &'a dyn Files,
    identity: Identity,
    machine: Id128,
    /// What is added to every sequence number.
    shift: u64,
}

impl Job<'_> {
    /// Copies a class, in the place of old copies.
    fn class(
        &self,
        (class, files): (&str, &[&FileName]),
        old: &[String],
        lost: &mut Vec<(String, std::ops::Range<u64>)>,
    ) -> Result<Option<SegmentName>> {
        let (Some(first), Some(last)) = (files.first(), self.last(files)?) else {
            return Ok(None);
        };
        let first = first.first().wrapping_add(self.shift);
        let last = last.wrapping_add(self.shift);
        let name = SegmentName { class: class.to_owned(), first, last };
        let made = self.segment(&name, files, old, lost);
        if !matches!(made, Ok(true)) {
            // A disk that is full has no room for it. What cannot be removed now is removed by the next start.
            let _ = self.to.unlink(&format!("{name}{TEMPORARY}"));
        }
        Ok(made?.then_some(name))
    }

    /// Makes one segment of files of a class, in the place of old copies; false when there is no entry in them.
    fn segment(
        &self,
        name: &SegmentName,
        files: &[&FileName],
        old: &[String],
        lost: &mut Vec<(String, std::ops::Range<u64>)>,
    ) -> Result<bool> {
        let mut writer = create(self.to, name, self.machine, self.identity)?;
        for file in files {
            self.file(file, &mut writer, lost)?;
        }
        if writer.is_empty() {
            return Ok(false);
        }
        publish(self.to, writer, name, old)?;
        Ok(true)
    }

    /// The highest number in files of a class; `None` when there is no entry.
    fn last(&self, files: &[&FileName]) -> Result<Option<u64>> {
        let mut last = None;
        for file in files {
            last = last.max(match file {
                FileName::Segment(segment) => Some(segment.last),
                FileName::Log { .. } => {
                    let number = walk_log(self.from, &file.to_string())?.1;
                    (number > 0).then_some(number)
                }
            });
        }
        Ok(last)
    }

    fn file(
        &self,
        name: &FileName,
        writer: &mut SegmentWriter,
        lost: &mut Vec<(String, std::ops::Range<u64>)>,
    ) -> Result<()> {
        if !name.is_log() {
            let segment = Segment::open(self.from, &name.to_string())?;
            return match is_whole(&segment)? {
                true => writer.append_segment(&segment, self.shift),
                false => self.what_is_left(&segment, writer, lost),
            };
        }
        let damaged = copy_blocks(self.from, name, writer, self.shift)?;
        lost.extend(damaged.into_iter().map(|bytes| (name.to_string(), bytes)));
        Ok(())
    }

    /// Adds the blocks of a damaged segment that are whole.
    fn what_is_left(
        &self,
        segment: &Segment,
        writer: &mut SegmentWriter,
        lost: &mut Vec<(String, std::ops::Range<u64>)>,
    ) -> Result<()> {
        let name = segment.name();
        for (number, place) in segment.directory().blocks.iter().enumerate() {
            let block = segment.block(number);
            match block.and_then(|block| writer.push_block(&block, name, self.shift)) {
                Ok(()) => {}
                Err(Error::Damaged { .. }) => {
                    lost.push((name.to_owned(), place.offset..place.offset + place.bytes));
                }
                Err(e) => return Err(e),
            }
        }
        if let Health::Rebuilt { gaps, .. } = segment.health() {
            lost.extend(gaps.iter().map(|gap| (name.to_owned(), gap.clone())));
        }
        Ok(())
    }
}

fn is_whole(segment: &Segment) -> Result<bool> {
    match segment.verify() {
        Ok(faults) => Ok(*segment.health() == Health::Whole && faults.is_empty()),
        Err(Error::Damaged { .. }) => Ok(false),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::entry::{Fields, Stamp};
    use crate::store::Setup;
    use crate::store::fault::{Fault, Memory, Numbers};
    use crate::store::tests::read_all;
    use crate::store::upkeep::{MergeBounds, merge_all, seal};

    fn open(files: &Memory, id: u8) -> Result<Store> {
        let mut next = id;
        let new_id = Box::new(move || {
            next += 1;
            Id128([next; 16])
        });
        let setup = Setup { machine: Id128::default(), new_id };
        Store::open(Arc::new(files.clone()), setup).map(|(store, _)| store)
    }

    fn append(store: &mut Store, texts: std::ops::Range<u32>) {
        for number in texts {
            let class = if number % 5 == 0 { "noisy" } else { "system" };
            let text = number.to_string();
            let fields: Fields = [("MESSAGE", &*text)].into_iter().collect();
            store.append(class, &Stamp::default(), &Arc::default(), &fields).expect("in bounds");
        }
    }

    /// A directory with segments and a log of what was appended.
    fn directory(id: u8, texts: std::ops::Range<u32>) -> Memory {
        let memory = Memory::new();
        let mut store = open(&memory, id).expect("empty");
        append(&mut store, texts.start..texts.end - 10);
        store.rotate().expect("no faults");
        for (log, id) in store.take_sealable().iter().zip(id + 100..) {
            seal(&memory, log, Id128::default(), Id128([id; 16])).expect("sealed");
        }
        append(&mut store, texts.end - 10..texts.end);
        store.sync().expect("no faults");
        memory
    }

    /// All texts in the order of their numbers, which must rise.
    fn texts(files: &Memory) -> Vec<String> {
        let mut all: Vec<(u64, String)> = read_all(files).into_values().flatten().collect();
        all.sort();
        assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0), "each number once");
        all.into_iter().map(|(_, text)| text).collect()
    }

    /// As the daemon does it; `since` outlives it.
    fn move_on(from: &Memory, to: &Memory, since: &mut Since) -> Result<Copied> {
        let mut store = open(to, 77)?;
        let copied = copy(from, (to, &mut store), Id128::default(), *since)?;
        *since = Since::Copied;
        copied.remove(from)?;
        Ok(copied)
    }

    fn move_all(from: &Memory, to: &Memory) -> Result<Copied> {
        move_on(from, to, &mut Since::Nothing)
    }

    fn expected(ranges: &[std::ops::Range<u32>]) -> Vec<String> {
        ranges.iter().cloned().flatten().map(|number| number.to_string()).collect()
    }

    #[test]
    fn everything_is_moved_behind_what_is_there() {
        let (from, to) = (directory(1, 0..50), directory(40, 100..130));
        let copied = move_all(&from, &to).expect("no faults");
        assert_eq!((copied.made.len(), copied.lost), (2, Vec::new()));
        assert_eq!(texts(&to), expected(&[100..130, 0..50]));
        assert_eq!(from.list().expect("a listing"), []);
        let again = move_all(&from, &to).expect("no faults");
        assert_eq!(again.made, [], "there is nothing more to move");
        let mut store = open(&to, 90).expect("no faults");
        append(&mut store, 200..203);
        store.sync().expect("no faults");
        assert_eq!(texts(&to), expected(&[100..130, 0..50, 200..203]));
    }

    #[test]
    fn whoever_is_killed_at_whatever_step_moves_each_entry_once() {
        let mut stops = 0;
        for (of_from, at) in (0..40).flat_map(|at| [(false, at), (true, at)]) {
            let (from, to) = (directory(1, 0..50), directory(40, 100..130));
            if of_from { &from } else { &to }.plan(Fault::Stop { at });
            let mut since = Since::Nothing;
            let stopped = move_on(&from, &to, &mut since).is_err();
            stops += usize::from(stopped);
            // What is in memory outlives the daemon, and so does what is on its way to the disk.
            let (from, to) = (from.after_kill(), to.after_kill());
            move_on(&from, &to, &mut since).expect("no faults any more");
            let mut both = texts(&to);
            both.sort();
            let mut all = expected(&[100..130, 0..50]);
            all.sort();
            assert_eq!(both, all, "stopped at {at} of {}", if of_from { "old" } else { "new" });
            assert_eq!(from.list().expect("a listing"), []);
        }
        assert!(stops > 10, "{stops} stops are too few to tell");
    }

    #[test]
    fn after_a_power_cut_all_or_nothing_of_each_class_is_on_the_disk() {
        for at in 0..40 {
            for survival in 0..4 {
                let (from, to) = (directory(1, 0..50), directory(40, 100..130));
                to.sync_directory().expect("no faults");
                to.plan(Fault::Stop { at });
                let whole = move_all(&from, &to).is_ok();
                let found = read_all(&to.after_crash(&mut Numbers(at as u64 * 7 + survival)));
                for (class, [old, new]) in [("system", [24, 40]), ("noisy", [6, 10])] {
                    let count = found[class].len();
                    let wanted = if whole { count == old + new } else { true };
                    assert!(wanted && [old, old + new].contains(&count), "{class} {count} {at}");
                }
            }
        }
    }

    #[test]
    fn a_fault_that_passes_has_no_effect() {
        for at in 0..30 {
            let (from, to) = (directory(1, 0..50), directory(40, 100..130));
            to.plan(Fault::Once { at, errno: 28 });
            let mut since = Since::Nothing;
            let first = move_on(&from, &to, &mut since);
            if first.is_err() {
                let leftovers = Catalogue::of(to.list().expect("a listing")).leftovers;
                let of_copy = leftovers.iter().filter(|name| name.ends_with(TEMPORARY));
                assert_eq!(of_copy.count(), 0, "they take room: {leftovers:?}");
            }
            let again = move_on(&from, &to, &mut since).expect("it has passed");
            assert!(first.is_ok() || !again.made.is_empty() || texts(&from).is_empty(), "{at}");
            let mut both = texts(&to);
            both.sort();
            assert_eq!(both.len(), 80, "{at}");
        }
    }

    /// Who could not move it, or was killed before it was known to be moved, goes on in memory.
    #[test]
    fn what_comes_after_one_that_failed_is_moved_with_the_next() {
        let faults = |at| [Fault::Once { at, errno: 110 }, Fault::Stop { at }];
        for fault in (0..40).flat_map(faults) {
            let (from, to) = (directory(1, 0..50), directory(40, 100..130));
            to.plan(fault);
            if move_all(&from, &to).is_ok() {
                continue;
            }
            let (from, to) = (from.after_kill(), to.after_kill());
            let mut store = open(&from, 20).expect("no faults");
            append(&mut store, 50..60);
            store.sync().expect("no faults");
            drop(store);
            move_all(&from, &to).expect("no faults any more");
            let mut both = texts(&to);
            both.sort();
            let mut all = expected(&[100..130, 0..60]);
            all.sort();
            assert_eq!(both, all, "{fault:?}");
        }
    }

    #[test]
    fn damage_costs_a_block_and_stops_nothing() {
        let (from, to) = (directory(1, 0..50), directory(40, 100..130));
        let catalogue = Catalogue::of(from.list().expect("a listing"));
        let name = catalogue.segments().next().expect("a segment").0.to_string();
        let mut content = from.content(&name);
        content[300] ^= 1;
        from.set_content(&name, &content);
        let copied = move_all(&from, &to).expect("no faults");
        assert_eq!(copied.lost.len(), 1);
        assert!(texts(&to).len() < 80 && texts(&to).len() >= 30);
        assert_eq!(from.list().expect("a listing"), []);
    }

    #[test]
    fn what_was_moved_is_merged_like_everything_else() {
        let (from, to) = (directory(1, 0..50), directory(40, 100..130));
        move_all(&from, &to).expect("no faults");
        for round in 0..4 {
            move_all(&directory(10 + 20 * round, 200..220), &to).expect("no faults");
        }
        let (mut id, mut skip) = (200, Default::default());
        let mut new_id = || {
            id += 1;
            Id128([id; 16])
        };
        let before = texts(&to);
        merge_all(&to, Id128::default(), &MergeBounds::bytes(1 << 30), &mut new_id, &mut skip)
            .expect("no faults");
        assert!(skip.is_empty());
        assert_eq!(texts(&to), before);
        assert!(Catalogue::of(to.list().expect("a listing")).segments().count() < 9);
    }
}

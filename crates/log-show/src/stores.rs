//! The directories of our own stores, and what is asked of their files rather than of entries.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::args::Args;
use crate::denied::Denied;
use crate::failure::Failure;
use crate::foreign;
use crate::format::print_bytes;
use crate::report::{put_verdict, report};
use warren_log_store::error::Error;
use warren_log_store::files::{Disk, Files};
use warren_log_store::query::Journal;
use warren_log_store::query::source::Source;
use warren_log_store::size;
use warren_log_store::store::DEFAULT_CLASS;
use warren_log_store::store::age::Clock;
use warren_log_store::store::names::Catalogue;
use warren_log_store::store::vacuum::{ClassLimits, Limits, Vacuumed, vacuum};
use warren_log_store::time;
use warren_sys::progress::Progress;

/// A directory and what is in it.
pub struct Store {
    /// The directory.
    pub files: Arc<Disk>,
    /// What is in it.
    pub journal: Journal,
}

/// Opens the directories that the options name; a usual one may not be there yet.
pub fn open(args: &Args) -> Result<Vec<Store>, Failure> {
    let mut stores = Vec::new();
    for (directory, names) in own_files(args)? {
        let files = Arc::new(Disk::of_files(directory, names));
        stores.push(Store { journal: Journal::open(files.clone())?, files });
    }
    for directory in args.stores() {
        if args.directory.is_some() && !directory.is_dir() {
            return Err(Failure(format!("{}: no such directory", directory.display())));
        }
        let files = Arc::new(Disk::new(directory));
        let journal = Journal::open(files.clone())?;
        stores.push(Store { files, journal });
    }
    Ok(stores)
}

/// The files among those that are named which are ours, by directory.
fn own_files(args: &Args) -> Result<BTreeMap<PathBuf, BTreeSet<String>>, Failure> {
    let mut all: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for path in foreign::named(args)? {
        if let (true, Some(name)) =
            (foreign::is_own(&path), path.file_name().and_then(OsStr::to_str))
        {
            let directory = path.parent().filter(|path| !path.as_os_str().is_empty());
            let directory = directory.unwrap_or(Path::new(".")).to_owned();
            all.entry(directory).or_default().insert(name.to_owned());
        }
    }
    Ok(all)
}

/// Whether there is no file in any.
pub fn are_empty(stores: &[Store]) -> bool {
    stores.iter().all(|store| store.journal.sources().next().is_none())
}

/// What all files take, bytes.
pub fn bytes(stores: &[Store]) -> Result<u64, Failure> {
    let mut bytes = 0;
    for store in stores {
        let listing = Catalogue::of(store.files.list()?);
        bytes += listing.files.iter().map(|file| file.bytes).sum::<u64>();
    }
    Ok(bytes)
}

/// Says what all files take, those of others too, and each class where there are several.
pub fn disk_usage(
    stores: &[Store],
    foreign_bytes: u64,
    out: &mut dyn Write,
) -> Result<bool, Failure> {
    let mut classes: BTreeMap<String, u64> = BTreeMap::new();
    for store in stores {
        for file in Catalogue::of(store.files.list()?).files {
            *classes.entry(file.name.class().to_owned()).or_default() += file.bytes;
        }
    }
    let bytes = print_bytes(classes.values().sum::<u64>() + foreign_bytes);
    writeln!(out, "Archived and active journals take up {bytes} in the file system.")?;
    if classes.keys().any(|class| class != DEFAULT_CLASS) {
        for (class, bytes) in classes {
            writeln!(out, "Of these, class {class}: {}.", print_bytes(bytes))?;
        }
    }
    Ok(true)
}

/// Every file, with its path.
fn sources(stores: &[Store]) -> impl Iterator<Item = (PathBuf, &Source)> {
    stores.iter().flat_map(|store| {
        let path = |source: &Source| store.files.directory().join(source.name().to_string());
        store.journal.sources().map(move |source| (path(source), &**source))
    })
}

/// What the caller may not read of these.
pub fn denied(stores: &[Store]) -> Denied {
    let mut denied = Denied::default();
    for store in stores {
        let directory = store.files.directory();
        for error in store.journal.denied() {
            denied.add(match error {
                // Of the directory there is the path.
                Error::Io { op: "list", .. } => directory.to_owned(),
                Error::Io { name, .. } => directory.join(name),
                _ => directory.to_owned(),
            });
        }
    }
    denied
}

/// What the device did not give when a store was opened, or the caller may not read, with its path.
fn unreadable(stores: &[Store]) -> impl Iterator<Item = (PathBuf, &Error)> {
    stores.iter().flat_map(|store| {
        let path = |error: &Error| match error {
            Error::Io { name, .. } => store.files.directory().join(name),
            _ => store.files.directory().to_owned(),
        };
        let journal = &store.journal;
        journal.unreadable().iter().chain(journal.denied()).map(move |error| (path(error), error))
    })
}

/// Says on stderr of every file whether it is whole, like journalctl.
pub fn verify(stores: &[Store], quiet: bool) -> Result<bool, Failure> {
    let mut whole = true;
    for (path, error) in unreadable(stores) {
        whole = false;
        put_verdict(&path, std::slice::from_ref(error), quiet);
    }
    let mut progress = Progress::begin(quiet);
    let count = sources(stores).count();
    for (at, (path, source)) in sources(stores).enumerate() {
        progress.tell(|| format!("Checked {at} of {count} files, at {}", source.name()));
        let (faults, torn_at) = match source.verify() {
            Err(e) if e.is_of_device() => (vec![e], None),
            faults => (faults?, source.torn_at()?),
        };
        progress.clear();
        if let Some(at) = torn_at.filter(|_| !quiet) {
            let what = "what follows is not whole: torn off by a crash, or the file was cut";
            warren_sys::tell!("{}: ends at byte {at}; {what}", source.name());
        }
        whole &= faults.is_empty();
        put_verdict(&path, &faults, quiet);
    }
    Ok(whole)
}

/// Says what each file holds, and on stderr which the device does not give.
pub fn header(stores: &[Store], out: &mut dyn Write) -> Result<(), Failure> {
    report(unreadable(stores).map(|(_, error)| error));
    for (path, source) in sources(stores) {
        match describe(&path, source) {
            Err(e) if e.is_of_device() => report([&e]),
            text => writeln!(out, "{}", text?)?,
        }
    }
    Ok(())
}

fn describe(path: &Path, source: &Source) -> warren_log_store::error::Result<String> {
    let places = source.places()?;
    let entries: u64 = places.iter().map(|place| u64::from(place.count)).sum();
    let numbers = places.first().zip(places.last());
    let (first, last) = numbers.map_or((0, 0), |(a, b)| (a.first_seqnum, b.last_seqnum));
    let sequence = source.sequence()?.unwrap_or_default();
    let state = if source.name().is_log() { "LOG" } else { "SEALED" };
    let mut text = format!(
        "File path: {}\nSequential number ID: {sequence}\nState: {state}\nBlocks: {}\n\
         Entries: {entries}\nSequential numbers: {first} to {last}\n",
        path.display(),
        places.len(),
    );
    if let Some(segment) = source.segment()? {
        let (bytes, raw) = (segment.file_bytes(), segment.raw_bytes());
        text += &format!("Size: {} of {}\n", print_bytes(bytes), print_bytes(raw));
    }
    Ok(text)
}

/// Removes what the options name from a directory. Zero is no limit; journalctl(1).
pub fn run_vacuum(args: &Args, files: &Disk) -> Result<bool, Failure> {
    let bad = |text: &String| Failure(format!("Failed to parse '{text}'"));
    let size = |text: &String| size::parse(text).ok_or_else(|| bad(text));
    let span = |text: &String| time::parse_span(text).ok_or_else(|| bad(text));
    let is_limit = |number: &u64| *number > 0;
    let limits = Limits {
        bytes_max: args.vacuum_size.as_ref().map(size).transpose()?.filter(is_limit),
        files_max: args.vacuum_files.filter(|&count| count > 0),
        other: ClassLimits {
            age_max_us: args.vacuum_time.as_ref().map(span).transpose()?.filter(is_limit),
            ..ClassLimits::default()
        },
        ..Limits::default()
    };
    let Vacuumed { gone, bytes, unreadable, .. } =
        vacuum(files, &limits, &Clock::of_wall(time::now_us()))?;
    report(&unreadable);
    if !args.quiet {
        let directory = files.directory().display();
        gone.iter()
            .for_each(|name| warren_sys::tell!("Deleted archived journal {directory}/{name}."));
        let bytes = print_bytes(bytes);
        warren_sys::tell!("Vacuuming done, freed {bytes} of archived journals from {directory}.");
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_log_store::entry::{Fields, Id128, Stamp};
    use warren_log_store::store::Setup;
    use warren_log_store::store::fault::{FaultyReads, Memory, ReadFault};
    use warren_log_store::store::upkeep::seal;

    /// A directory with two segments, and their names.
    fn two_segments() -> (Memory, [String; 2]) {
        let (memory, mut ids) = (Memory::new(), 0);
        let new_id = move || {
            ids += 1;
            Id128([ids; 16])
        };
        let setup = Setup { machine: Id128::default(), new_id: Box::new(new_id) };
        let files = Arc::new(memory.clone());
        let (mut store, _) = warren_log_store::store::Store::open(files, setup).expect("empty");
        for _ in 0..2 {
            let fields: Fields = [("MESSAGE", "a text")].into_iter().collect();
            let stamp = Stamp { realtime_us: 1_700_000_000_000_000, ..Stamp::default() };
            store.append("system", &stamp, &Arc::default(), &fields).expect("in bounds");
            store.sync().expect("no faults");
            store.rotate().expect("no faults");
        }
        for log in store.take_sealable() {
            seal(&memory, &log, Id128::default(), Id128([200; 16])).expect("sealed");
        }
        let catalogue = Catalogue::of(memory.list().expect("a listing"));
        let names: Vec<String> =
            catalogue.segments().map(|segment| segment.0.to_string()).collect();
        (memory, names.try_into().expect("two"))
    }

    fn over(files: impl Files + 'static) -> [Store; 1] {
        let journal = Journal::open(Arc::new(files)).expect("readable");
        [Store { files: Arc::new(Disk::new("/nowhere")), journal }]
    }

    #[test]
    fn verify_and_header_pass_by_what_the_device_does_not_give() {
        for opens in [false, true] {
            let (memory, [broken, whole]) = two_segments();
            assert_eq!(verify(&over(memory.clone()), true), Ok(true), "both are whole");
            let fault = ReadFault::Broken { name: broken.clone(), opens };
            let stores = over(FaultyReads { inner: memory, fault });
            assert_eq!(verify(&stores, true), Ok(false), "not whole");
            let mut out = Vec::new();
            header(&stores, &mut out).expect("the other");
            let text = String::from_utf8(out).expect("UTF-8");
            assert!(text.contains("State: SEALED") && text.contains(&whole), "{text}");
            assert!(!text.contains(&broken), "{text}");
        }
    }

    #[test]
    fn a_segment_under_the_name_of_another_is_not_whole() {
        let (memory, [from, to]) = two_segments();
        let bytes = memory.content(&from);
        memory.unlink(&to).expect("no faults");
        memory.create(&to).and_then(|file| file.write_at(&bytes, 0)).expect("no faults");
        assert_eq!(verify(&over(memory), true), Ok(false));
    }
}

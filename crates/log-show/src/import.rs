//! `--import`: a stream in the Journal Export Format, from `journalctl -o export` or our own, becomes
//! entries of a store that no daemon writes to.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::export::{Exported, LeftOut, Parser};
use crate::failure::Failure;
use warren_log_store::entry::{Fields, Id128};
use warren_log_store::error::Error;
use warren_log_store::files::Disk;
use warren_log_store::store::upkeep::{MERGE_BYTES_MAX, MergeBounds, merge_all, seal};
use warren_log_store::store::{DEFAULT_CLASS, Setup, Store};
use warren_sys::progress::Progress;

/// Bytes read at once.
const READ_BYTES: usize = 1 << 20;

/// Fields of a process, which its entries have in common: kept once for all of them.
const SHARED: &[u8] = b"_";

/// Of trusted fields, those that are another with each entry.
const OWN: [&[u8]; 2] = [b"_SOURCE_REALTIME_TIMESTAMP", b"_SOURCE_MONOTONIC_TIMESTAMP"];

struct Import {
    files: Arc<Disk>,
    store: Store,
    context: Arc<Fields>,
    count: u64,
    progress: Progress,
}

/// Imports a file, or standard input for `-`, into a directory. Gives the number of entries, and whether nothing was broken.
pub fn import(
    from: &Path,
    directory: Option<&PathBuf>,
    quiet: bool,
) -> Result<(u64, bool), Failure> {
    let directory = directory.ok_or_else(|| Failure("--import needs --directory".to_owned()))?;
    let shown = |e| Failure(Error::io("open", &from.display().to_string(), &e).to_string());
    match from.to_str() {
        Some("-") => Import::run(&mut std::io::stdin().lock(), directory, quiet),
        _ => Import::run(&mut std::fs::File::open(from).map_err(shown)?, directory, quiet),
    }
}

impl Import {
    fn run(input: &mut dyn Read, directory: &Path, quiet: bool) -> Result<(u64, bool), Failure> {
        std::fs::create_dir_all(directory)?;
        let files = Arc::new(Disk::new(directory));
        let _lock = files.lock()?;
        let setup = Setup { machine: Id128::default(), new_id: Box::new(new_id) };
        let (store, _) = Store::open(files.clone(), setup)?;
        let mut import = Import {
            files,
            store,
            context: Arc::default(),
            count: 0,
            progress: Progress::begin(quiet),
        };
        let read = import.read(input);
        import.progress.clear();
        // What was read before a fault is kept.
        import.finish()?;
        let left_out = read?;
        tell_left_out(&left_out);
        Ok((import.count, left_out.parts == 0))
    }

    /// Takes the whole stream. Gives what was left out.
    fn read(&mut self, input: &mut dyn Read) -> Result<LeftOut, Failure> {
        let (mut parser, mut buffer) = (Parser::default(), vec![0; READ_BYTES]);
        loop {
            let count = input.read(&mut buffer)?;
            if count == 0 {
                break;
            }
            let mut entries = Vec::new();
            parser.push(&buffer[..count], |entry| entries.push(entry));
            entries.into_iter().try_for_each(|entry| self.take(entry))?;
            self.progress.tell(|| format!("Imported {} entries", self.count));
        }
        let (last, left_out) = parser.finish();
        last.into_iter().try_for_each(|entry| self.take(entry))?;
        Ok(left_out)
    }

    fn take(&mut self, entry: Exported) -> Result<(), Failure> {
        let (mut own, mut shared) = (Fields::new(), Fields::new());
        for (name, value) in entry.fields.iter() {
            let is_shared = name.starts_with(SHARED) && !OWN.contains(&name);
            if is_shared { &mut shared } else { &mut own }.push(name, value);
        }
        if *self.context != shared {
            self.context = Arc::new(shared);
        }
        self.store.append(DEFAULT_CLASS, &entry.stamp, &self.context, &own)?;
        self.count += 1;
        if self.store.wants_flush() {
            self.store.flush()?;
            let closed = self.store.has_ended();
            if closed {
                self.store.sync()?;
                self.seal()?;
            }
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<(), Failure> {
        for log in self.store.take_sealable() {
            seal(&*self.files, &log, Id128::default(), new_id())?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Failure> {
        self.store.rotate()?;
        self.seal()?;
        let (machine, mut skip) = (Id128::default(), Default::default());
        merge_all(
            &*self.files,
            machine,
            &MergeBounds::bytes(MERGE_BYTES_MAX),
            &mut new_id,
            &mut skip,
        )?;
        Ok(())
    }
}

/// Says on stderr what of the stream is not in the store.
fn tell_left_out(left_out: &LeftOut) {
    let LeftOut { fields, lines, parts, first } = left_out;
    if *fields > 0 {
        warren_sys::tell!("{fields} fields were left out");
    }
    if *lines > 0 {
        warren_sys::tell!("{lines} lines that are not fields were skipped");
    }
    if let Some((at, what)) = first {
        warren_sys::tell!(
            "{parts} broken parts were left out, each up to the next empty line; the first begins at byte {at}: {what}"
        );
    }
}

fn new_id() -> Id128 {
    Id128(warren_sys::random::u128().to_le_bytes())
}

//! The texts of the rules in force, for a manager that comes after this one and finds that the
//! rules are broken meanwhile.
//!
//! One file: for each text its path and length in a line, then its bytes.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use warren_fleet::Source;
use warren_fleet::outside::{Data, Include, Outside};
use warren_fleet_files::{ALL_BYTES_MAX, IncludeRequest};

/// Writes them, all or nothing.
pub(super) fn write<'s>(path: &Path, sources: impl Iterator<Item = &'s Source>) -> io::Result<()> {
    let fresh = path.with_extension("rules.new");
    let mut out = io::BufWriter::new(fs::File::create(&fresh)?);
    for source in sources {
        writeln!(out, "{} {}", source.text.len(), source.path)?;
        out.write_all(&source.text)?;
        out.write_all(b"\n")?;
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?;
    fs::rename(&fresh, path)
}

/// Reads them; nothing if there are none, or the file is not as it was written.
pub(super) fn read(path: &Path) -> Option<Vec<Source>> {
    let size = fs::metadata(path).ok()?.len();
    if size > 2 * ALL_BYTES_MAX {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let (mut rest, mut out) = (&bytes[..], Vec::new());
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let (length, path) = std::str::from_utf8(&rest[..end]).ok()?.split_once(' ')?;
        let length: usize = length.parse().ok()?;
        let text = rest.get(end + 1..)?.get(..length)?;
        out.push(Source::new(path, text));
        rest = rest.get(end + 1 + length..)?.strip_prefix(b"\n")?;
    }
    Some(out)
}

/// Answers from the kept texts.
pub(super) struct KeptSources(pub Vec<Source>);

impl Outside for KeptSources {
    fn include(&mut self, include: &Include) -> Result<Vec<Source>, String> {
        let asked = IncludeRequest::of(include)?;
        let found = |source: &&Source| asked.covers(&PathBuf::from(&*source.path));
        let mut sources: Vec<Source> = self.0.iter().filter(found).cloned().collect();
        sources.sort_by(|a, b| asked.order((*a.path).as_ref(), (*b.path).as_ref()));
        Ok(sources)
    }

    fn data(&mut self, include: &Include) -> Result<Data, String> {
        let asked = IncludeRequest::of(include)?;
        let known = self.0.iter().find(|source| asked.covers(&PathBuf::from(&*source.path)));
        let missing = || format!("the file '{}' is not among those that are kept", include.path);
        warren_fleet_files::parse_data(known.ok_or_else(missing)?)
    }

    fn now(&self) -> f64 {
        (warren_sys::time::realtime_ns() / 1_000_000_000) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let path = std::env::temp_dir().join(format!("warren-kept-{}", std::process::id()));
        let sources = [Source::new("/a b.conf", b"x\n\xff"), Source::new("/c", b"")];
        write(&path, sources.iter()).expect("written");
        let back = read(&path).expect("read");
        let plain = |s: &Source| (s.path.to_string(), s.text.to_vec());
        assert!(back.iter().map(plain).eq(sources.iter().map(plain)));
        let whole = fs::read(&path).expect("read");
        for length in 1..whole.len() {
            fs::write(&path, &whole[..length]).expect("written");
            assert!(read(&path).is_none_or(|some| some.len() < 2), "{length} bytes");
        }
        fs::remove_file(&path).expect("removed");
        assert!(read(&path).is_none());
    }
}

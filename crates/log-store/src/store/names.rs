//! File names, and which files of a directory count.
//!
//! `CLASS-FIRST.log` and `CLASS-FIRST-LAST.seg`, numbers as 16 hexadecimal digits. Within a
//! class no sequence number is in two files that count: a segment whose range lies within that
//! of another was merged into it, and a log whose first number lies within a segment was sealed
//! into it. So publishing is one rename, and a crash before the old files are removed does no
//! harm.

use std::collections::BTreeMap;
use std::fmt;

use crate::files::Listed;
use crate::segment::layout::CLASS_BYTES_MAX;

/// Ending of files that are being written and count for nothing.
pub const TEMPORARY: &str = ".tmp";

/// The name of a file that counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileName {
    /// A log.
    Log {
        /// Class.
        class: String,
        /// No entry has a lower sequence number.
        first: u64,
    },
    /// A segment.
    Segment(SegmentName),
}

/// The name of a segment.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentName {
    /// Class.
    pub class: String,
    /// No entry has a lower sequence number.
    pub first: u64,
    /// No entry has a higher one.
    pub last: u64,
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}-{:016x}.seg", self.class, self.first, self.last)
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileName::Log { class, first } => write!(f, "{class}-{first:016x}.log"),
            FileName::Segment(segment) => segment.fmt(f),
        }
    }
}

impl FileName {
    /// Reads a name; `None` for anything else that lies in the directory.
    pub fn parse(name: &str) -> Option<FileName> {
        let (class, rest) = name.split_once('-')?;
        if !is_valid_class(class) {
            return None;
        }
        let class = class.to_owned();
        if let Some(first) = rest.strip_suffix(".log") {
            return Some(FileName::Log { class, first: number(first)? });
        }
        let (first, last) = rest.strip_suffix(".seg")?.split_once('-')?;
        let (first, last) = (number(first)?, number(last)?);
        (first <= last).then_some(FileName::Segment(SegmentName { class, first, last }))
    }

    /// Log or segment.
    pub fn is_log(&self) -> bool {
        matches!(self, FileName::Log { .. })
    }

    /// Its class.
    pub fn class(&self) -> &str {
        match self {
            FileName::Log { class, .. } | FileName::Segment(SegmentName { class, .. }) => class,
        }
    }

    /// No entry in it has a lower sequence number.
    pub fn first(&self) -> u64 {
        match self {
            FileName::Log { first, .. } | FileName::Segment(SegmentName { first, .. }) => *first,
        }
    }
}

fn number(text: &str) -> Option<u64> {
    let digits = text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    digits.then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

/// A class is 1 to 32 of `a-z0-9_`.
pub fn is_valid_class(class: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    (1..=CLASS_BYTES_MAX).contains(&class.len()) && class.bytes().all(allowed)
}

/// A file that counts, and its size.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountedFile {
    /// Its name.
    pub name: FileName,
    /// Its size, bytes.
    pub bytes: u64,
}

/// The files of a directory, sorted out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalogue {
    /// Files that count, by class and first sequence number.
    pub files: Vec<CountedFile>,
    /// Files of the store that count for nothing.
    pub leftovers: Vec<String>,
}

impl Catalogue {
    /// Sorts a listing out. Names that are not ours are left alone.
    pub fn of(listing: Vec<Listed>) -> Catalogue {
        let mut all = Vec::new();
        let mut leftovers = Vec::new();
        for Listed { name, bytes } in listing {
            match FileName::parse(&name) {
                Some(name) => all.push(CountedFile { name, bytes }),
                None if is_temporary(&name) => leftovers.push(name),
                None => {}
            }
        }
        let (replaced, mut files): (Vec<CountedFile>, Vec<CountedFile>) =
            all.iter().cloned().partition(|file| is_replaced(&file.name, &all));
        leftovers.extend(replaced.into_iter().map(|file| file.name.to_string()));
        files.sort_by(|a, b| {
            (a.name.class(), a.name.first()).cmp(&(b.name.class(), b.name.first()))
        });
        Catalogue { files, leftovers }
    }

    /// The logs that count.
    pub fn logs(&self) -> impl Iterator<Item = &FileName> {
        self.files.iter().map(|file| &file.name).filter(|name| name.is_log())
    }

    /// The segments that count, with their sizes.
    pub fn segments(&self) -> impl Iterator<Item = (&SegmentName, u64)> {
        self.files.iter().filter_map(|file| match &file.name {
            FileName::Segment(segment) => Some((segment, file.bytes)),
            FileName::Log { .. } => None,
        })
    }

    /// The highest sequence number that the names tell of; logs may have higher ones.
    pub fn last_seqnum(&self) -> u64 {
        self.last_seqnums().into_values().max().unwrap_or(0)
    }

    /// The same, of each class.
    pub fn last_seqnums(&self) -> BTreeMap<String, u64> {
        let mut last = BTreeMap::new();
        for CountedFile { name, .. } in &self.files {
            let number = match name {
                FileName::Log { first, .. } => first.saturating_sub(1),
                FileName::Segment(segment) => segment.last,
            };
            let last = last.entry(name.class().to_owned()).or_default();
            *last = number.max(*last);
        }
        last
    }

    /// All files, the highest numbers first.
    pub fn newest_first(&self) -> Vec<&FileName> {
        let mut names: Vec<_> = self.files.iter().map(|file| &file.name).collect();
        names.sort_by_key(|name| std::cmp::Reverse(name.first()));
        names
    }
}

fn is_temporary(name: &str) -> bool {
    let end = name.strip_suffix(TEMPORARY).and_then(FileName::parse);
    end.is_some()
}

/// Whether another file has all that this one has.
fn is_replaced(name: &FileName, all: &[CountedFile]) -> bool {
    let segments = all.iter().filter_map(|file| match &file.name {
        FileName::Segment(segment) if segment.class == name.class() => Some(segment),
        _ => None,
    });
    let inside = |outer: &SegmentName, at: u64| (outer.first..=outer.last).contains(&at);
    match name {
        FileName::Log { first, .. } => segments.into_iter().any(|outer| inside(outer, *first)),
        FileName::Segment(own) => segments
            .into_iter()
            .any(|outer| outer != own && inside(outer, own.first) && inside(outer, own.last)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names in short: `a3` is a log, `a3-7` a segment, `a3-7.tmp` a temporary file.
    fn long(short: &str) -> String {
        let (short, temporary) = match short.strip_suffix(TEMPORARY) {
            Some(short) => (short, TEMPORARY),
            None => (short, ""),
        };
        let (class, numbers) = short.split_at(1);
        let mut name = class.to_owned();
        let numbers: Vec<u64> = numbers.split('-').map(|n| n.parse().expect("a number")).collect();
        numbers.iter().for_each(|n| name.push_str(&format!("-{n:016x}")));
        format!("{name}.{}{temporary}", if numbers.len() == 1 { "log" } else { "seg" })
    }

    fn check(listing: &str, counted: &str, leftovers: &str) {
        let listed = |s: &str| Listed { name: long(s), bytes: 1 };
        let catalogue = Catalogue::of(listing.split_whitespace().map(listed).collect());
        let names: Vec<_> = catalogue.files.iter().map(|f| f.name.to_string()).collect();
        let expected = |text: &str| text.split_whitespace().map(long).collect::<Vec<_>>();
        assert_eq!(names, expected(counted), "{listing}");
        assert_eq!(catalogue.leftovers, expected(leftovers), "{listing}");
    }

    #[test]
    fn names_come_back() {
        for name in ["a3", "a3-7"].map(long) {
            assert_eq!(FileName::parse(&name).map(|n| n.to_string()), Some(name));
        }
        for name in [
            "",
            "a-3.log",
            "A-0000000000000003.log",
            "lock",
            "a-0000000000000007-0000000000000003.seg",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn what_was_replaced_does_not_count() {
        check("a1 a5", "a1 a5", "");
        check("a1-4 a1 a5", "a1-4 a5", "a1");
        check("a1-4 a5-8 a1-8 a9", "a1-8 a9", "a1-4 a5-8");
        check("a1-8 b2-3 b4", "a1-8 b2-3 b4", "");
        check("a1-4.tmp a1", "a1", "a1-4.tmp");
        check("a1-4 a5-8", "a1-4 a5-8", "");
    }
}

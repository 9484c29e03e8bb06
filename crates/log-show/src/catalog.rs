//! Texts that explain messages: catalogs as systemd's "Message Catalogs" page has them, which lie in
//! files of their own and are found by `MESSAGE_ID=`. They are read as they are; there is no database
//! to be updated.
//!
//! `parse` reads a file. A text is a head (`Subject:` and the like) and a body. Where several files
//! have a text for a message, the heads of later ones come first, and their bodies count if they have
//! one. Files come in the order of their names; one hides those of its name in later directories.

mod parse;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::cut::has_controls;
use crate::failure::Failure;
use warren_log_store::entry::{Entry, Id128};

/// Where catalogs are, below the root, the first one counting most.
const DIRECTORIES: [&str; 4] = [
    "etc/systemd/catalog",
    "run/systemd/catalog",
    "usr/local/lib/systemd/catalog",
    "usr/lib/systemd/catalog",
];

/// Largest catalog that is read, bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Most files that are read.
const FILES_MAX: usize = 4096;

/// A text that explains a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Text {
    head: Vec<String>,
    body: Vec<String>,
}

impl Text {
    /// Puts one of a later file over this one.
    fn cover(&mut self, later: Text) {
        self.head.splice(0..0, later.head);
        if !later.body.is_empty() {
            self.body = later.body;
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        let value = |line| str::strip_prefix(line, name)?.strip_prefix(':').map(str::trim);
        self.head.iter().find_map(|line| value(line.as_str()))
    }

    fn lines(&self) -> impl Iterator<Item = &str> {
        let blank = (!self.body.is_empty()).then_some("");
        let body = self.body.iter().map(String::as_str);
        self.head.iter().map(String::as_str).chain(blank).chain(body)
    }
}

/// All texts.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// By message and language; the language of no name is the one for everybody.
    texts: BTreeMap<(Id128, String), Text>,
    /// Languages that are looked for, the best one first.
    languages: Vec<String>,
    /// What begins a line of a text.
    prefix: &'static str,
    faults: Vec<String>,
}

impl Catalog {
    /// Reads the catalogs of the system below a root. What is wrong with one leaves it out; see
    /// [`Catalog::check`].
    pub fn read(root: &Path) -> Catalog {
        let locale = |names: [&str; 3]| {
            let values = names.into_iter().filter_map(|name| std::env::var(name).ok());
            values.into_iter().find(|value| !value.is_empty()).unwrap_or_default()
        };
        let characters = locale(["LC_ALL", "LC_CTYPE", "LANG"]).to_ascii_lowercase();
        let is_utf8 = ["utf-8", "utf8"].iter().any(|name| characters.contains(name));
        let mut catalog = Catalog {
            languages: languages(&locale(["LC_ALL", "LC_MESSAGES", "LANG"])),
            prefix: if is_utf8 { "░░ " } else { "-- " },
            ..Catalog::default()
        };
        for path in files(root) {
            if let Err(text) = catalog.add(&path) {
                catalog.faults.push(text);
            }
        }
        catalog
    }

    fn add(&mut self, path: &Path) -> Result<(), String> {
        let said = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let mut text = String::new();
        let file = File::open(path).map_err(|e| said(&e))?;
        file.take(FILE_BYTES_MAX).read_to_string(&mut text).map_err(|e| said(&e))?;
        let texts = parse::parse(&text, &parse::language_of_file(path));
        let texts = texts.map_err(|(line, what)| format!("{}:{line}: {what}", path.display()))?;
        for (key, text) in texts {
            match self.texts.get_mut(&key) {
                Some(known) => known.cover(text),
                None => _ = self.texts.insert(key, text),
            }
        }
        Ok(())
    }

    /// Says which files cannot be used, and why.
    ///
    /// # Errors
    /// When there is one.
    pub fn check(&self) -> Result<(), Failure> {
        match self.faults.is_empty() {
            true => Ok(()),
            false => Err(Failure(self.faults.join("\n"))),
        }
    }

    fn find(&self, id: Id128) -> Option<&Text> {
        let of = |language: &String| self.texts.get(&(id, language.clone()));
        self.languages.iter().find_map(of)
    }

    /// Appends the text that explains an entry, with the entry's fields in it, if there is one.
    pub fn put(&self, entry: &Entry, out: &mut Vec<u8>) {
        let id = entry.get("MESSAGE_ID").and_then(|id| Id128::parse(std::str::from_utf8(id).ok()?));
        let Some(text) = id.and_then(|id| self.find(id)) else { return };
        let text = text.lines().collect::<Vec<_>>().join("\n");
        for line in substitute(&text, entry).split(|&byte| byte == b'\n') {
            out.extend_from_slice(self.prefix.as_bytes());
            out.extend_from_slice(line);
            out.push(b'\n');
        }
    }

    /// Lists all messages, or those of the ids, with who defines them and their subjects.
    ///
    /// # Errors
    /// For what is no id, and an id without a text.
    pub fn list(&self, ids: &[String], out: &mut dyn Write) -> Result<(), Failure> {
        for (id, text) in self.chosen(ids)? {
            let who = text.header("Defined-By").unwrap_or("n/a");
            writeln!(out, "{id} {who}: {}", text.header("Subject").unwrap_or("n/a"))?;
        }
        Ok(())
    }

    /// Writes the same as a catalog.
    ///
    /// # Errors
    /// The same.
    pub fn dump(&self, ids: &[String], out: &mut dyn Write) -> Result<(), Failure> {
        for (id, text) in self.chosen(ids)? {
            writeln!(out, "-- {id}")?;
            text.lines().try_for_each(|line| writeln!(out, "{line}"))?;
            writeln!(out)?;
        }
        Ok(())
    }

    fn chosen(&self, ids: &[String]) -> Result<Vec<(Id128, &Text)>, Failure> {
        if ids.is_empty() {
            let mut all: Vec<Id128> = self.texts.keys().map(|key| key.0).collect();
            all.dedup();
            return Ok(all.into_iter().filter_map(|id| Some((id, self.find(id)?))).collect());
        }
        let bad = |id: &str| Failure(format!("Failed to parse id128 '{id}': Invalid argument"));
        let gone = |id: &str| {
            let what = "Failed to retrieve catalog entry for";
            Failure(format!("{what} '{id}': No such file or directory"))
        };
        let one = |text: &String| {
            let id = Id128::parse(text).ok_or_else(|| bad(text))?;
            Ok((id, self.find(id).ok_or_else(|| gone(text))?))
        };
        ids.iter().map(one).collect()
    }
}

/// Reads a catalog, writes it and reads it again; see [`crate::fuzz`].
///
/// # Panics
/// If that is another one.
pub(crate) fn check_round_trip(text: &str) {
    let Ok(texts) = parse::parse(text, "") else { return };
    let mut written = String::new();
    for ((id, language), text) in &texts {
        let lines: Vec<&str> = text.lines().collect();
        let heading = format!("-- {id} {language}");
        written += &format!("{}\n{}\n\n", heading.trim_end(), lines.join("\n"));
    }
    assert_eq!(parse::parse(&written, ""), Ok(texts), "{written}");
}

/// All catalogs, those that count more later.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut files = BTreeMap::new();
    for directory in DIRECTORIES {
        let entries = std::fs::read_dir(root.join(directory)).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()).take(FILES_MAX) {
            if let (Some("catalog"), Some(name)) =
                (path.extension().and_then(|it| it.to_str()), path.file_name())
            {
                files.entry(name.to_owned()).or_insert(path);
            }
        }
    }
    files.into_values().collect()
}

/// `sr_RS.UTF-8@latin` is looked for as `sr_RS@latin`, `sr@latin`, `sr_RS`, `sr`, and then for everybody.
fn languages(locale: &str) -> Vec<String> {
    let (rest, modifier) = locale.split_once('@').unwrap_or((locale, ""));
    let name = rest.split('.').next().unwrap_or_default();
    let language = name.split('_').next().unwrap_or_default();
    let mut all = Vec::new();
    if !modifier.is_empty() {
        all.extend([format!("{name}@{modifier}"), format!("{language}@{modifier}")]);
    }
    all.extend([name.to_owned(), language.to_owned(), String::new()]);
    all.dedup();
    all
}

/// Puts the values of fields for `@FIELD@`; the name, where an entry has no such field, or a terminal would act on it.
fn substitute(text: &str, entry: &Entry) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('@') {
        out.extend_from_slice(before.as_bytes());
        let end = after.find(|c: char| !c.is_ascii_uppercase() && c != '_').unwrap_or(after.len());
        let (name, behind) = after.split_at(end);
        rest = match behind.strip_prefix('@').filter(|_| !name.is_empty()) {
            Some(behind) => {
                let value = entry.get(name).filter(|value| !has_controls(value));
                out.extend_from_slice(value.unwrap_or(name.as_bytes()));
                behind
            }
            None => {
                out.push(b'@');
                after
            }
        };
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_of_a_locale() {
        let check = |locale: &str, expected: &str| {
            assert_eq!(languages(locale).join(" "), expected, "{locale}");
        };
        check("", "");
        check("de_DE.UTF-8", "de_DE de ");
        check("de", "de ");
        check("sr_RS.UTF-8@latin", "sr_RS@latin sr@latin sr_RS sr ");
    }

    #[test]
    fn fields_in_a_text() {
        let fields = [("A", "va"), ("_PID", "7"), ("ESC", "\x1b[2J")].into_iter().collect();
        let (sequence, stamp, context) = Default::default();
        let entry = Entry { sequence, seqnum: 1, stamp, context, fields };
        let check = |text: &str, expected: &str| {
            assert_eq!(String::from_utf8_lossy(&substitute(text, &entry)), expected, "{text}");
        };
        check("a @A@ b", "a va b");
        check("@@ @b @lower@ @A_1@", "@@ @b @lower@ @A_1@");
        check("x@A@A@A@", "xvaAva");
        check("@_PID@ @NOSUCH@ @AB\nend@", "7 NOSUCH @AB\nend@");
        check("@", "@");
        check("@ESC@ nothing", "ESC nothing");
    }
}

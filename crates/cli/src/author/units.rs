//! Units by their names: which there are, where their files are, who names them, and another name for one.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use warren_unit::UnitName;
use warren_unit::parse::FILE_BYTES_MAX;
use warren_unit::settings::Kind;

use super::Author;
use super::scan::{self, Part, Place};
use crate::lsp::text::{path_of, range, uri_of};

/// Files that are looked at for the uses of a name; a host of 40,000 units has them all looked at.
const FILES_MAX: usize = 100_000;

/// Directories within one another that are looked into.
const DEPTH_MAX: usize = 8;

/// Units that a search by name shows.
const FOUND_MAX: usize = 500;

/// LSP's kinds of symbols: a namespace, a property, an object.
const NAMESPACE: u8 = 3;
const PROPERTY: u8 = 7;
const OBJECT: u8 = 19;

/// A file in which a name is used, and where.
struct Used {
    path: PathBuf,
    text: String,
    at: Vec<Range<usize>>,
}

/// Whether a setting takes names of units.
pub(super) fn takes_units(kind: Kind) -> bool {
    matches!(kind, Kind::Units(_) | Kind::Names | Kind::RestartOn)
}

/// Whether a name is that of a unit file or of a drop-in.
fn is_of_units(path: &Path) -> bool {
    scan::type_of(path).is_some()
}

/// Files of units below a directory, with links that stand for units if they are asked for.
fn below(directory: &Path, depth: usize, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(directory).into_iter().flatten().flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let Ok(kind) = entry.file_type() else { continue };
        if out.len() >= FILES_MAX {
            return;
        }
        if kind.is_dir() && depth > 0 && !entry.file_name().as_encoded_bytes().starts_with(b".") {
            below(&entry.path(), depth - 1, out);
        } else if !kind.is_dir() && is_of_units(&entry.path()) {
            out.push(entry.path());
        }
    }
}

impl Author {
    /// Directories in which units are searched for this document: its own before those of the host.
    fn directories(&self, own: &Path) -> Vec<PathBuf> {
        let parent = own.parent().map(Path::to_path_buf).unwrap_or_default();
        let is_dropin = parent.extension().is_some_and(|extension| extension == "d");
        let beside = if is_dropin { parent.parent().map(Path::to_path_buf) } else { Some(parent) };
        let searched = self.verifier.directories().iter().cloned();
        let mut all: Vec<PathBuf> =
            beside.into_iter().chain(self.root.clone()).chain(searched).collect();
        let mut seen = BTreeSet::new();
        all.retain(|path| seen.insert(path.clone()));
        all
    }

    /// Names of units of which there are files, links among them.
    pub(super) fn unit_names(&self, own: &Path) -> BTreeSet<String> {
        let entries = |directory: PathBuf| fs::read_dir(directory).into_iter().flatten().flatten();
        let names = self.directories(own).into_iter().flat_map(entries);
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| UnitName::parse(name).is_ok()).collect()
    }

    /// The files of a unit: its own, or that of its template, then its drop-ins.
    pub(super) fn files_of(&self, own: &Path, name: &str) -> Vec<PathBuf> {
        let Ok(unit) = UnitName::parse(name) else { return Vec::new() };
        let names: Vec<String> = [Some(unit.clone()), unit.template()]
            .into_iter()
            .flatten()
            .map(|n| n.to_string())
            .collect();
        let directories = self.directories(own);
        let candidates =
            names.iter().flat_map(|name| directories.iter().map(move |d| d.join(name)));
        let fragment = candidates.into_iter().find(|path| self.is_open(path) || path.is_file());
        let dropins =
            directories.iter().flat_map(|d| names.iter().map(move |n| d.join(format!("{n}.d"))));
        let mut all: Vec<PathBuf> = fragment.into_iter().collect();
        for directory in dropins {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            found.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
            found.sort();
            all.extend(found);
        }
        all
    }

    /// A text as the editor has it, else as it is on the disk.
    pub(super) fn text_of(&self, path: &Path) -> Option<String> {
        let open = self.open.iter().find(|(uri, _)| path_of(uri).as_deref() == Some(path));
        if let Some((_, text)) = open {
            return Some(text.clone());
        }
        let metadata = fs::metadata(path).ok().filter(|m| m.is_file())?;
        let is_small = metadata.len() <= FILE_BYTES_MAX as u64;
        is_small
            .then(|| fs::read(path).ok())
            .flatten()
            .and_then(|bytes| String::from_utf8(bytes).ok())
    }

    fn is_open(&self, path: &Path) -> bool {
        self.open.keys().any(|uri| path_of(uri).as_deref() == Some(path))
    }

    /// The name of a unit at a place.
    fn unit_at(&self, parameters: &Value) -> Option<(PathBuf, String)> {
        let (path, text, at) = self.place(parameters)?;
        let Place::Value { section, name, word, .. } = scan::place(text, at) else { return None };
        let setting = scan::setting(section, name, scan::type_of(&path)?)?;
        let unit = &text[word];
        (takes_units(setting.kind) && UnitName::parse(unit).is_ok())
            .then(|| (path, unit.to_owned()))
    }

    /// Where the files of the unit at a place are.
    pub(super) fn definition(&self, parameters: &Value) -> Value {
        let Some((path, unit)) = self.unit_at(parameters) else { return Value::Null };
        let begin = json!({"line": 0, "character": 0});
        let files = self.files_of(&path, &unit).into_iter();
        files
            .map(|path| {
                let uri = uri_of(&path.to_string_lossy());
                json!({"uri": uri, "range": {"start": begin, "end": begin}})
            })
            .collect()
    }

    /// Where a name is used in these files.
    fn uses(&self, name: &str, files: &[PathBuf]) -> Vec<Used> {
        let in_file = |path: &PathBuf| {
            let of = scan::type_of(path)?;
            // A link says the same as the file that it leads to.
            let text = (!path.is_symlink()).then(|| self.text_of(path)).flatten()?;
            if !text.contains(name) {
                return None;
            }
            let (mut at, mut section) = (Vec::new(), "");
            for part in scan::parts(&text) {
                match part {
                    Part::Header(header) => section = &text[header],
                    Part::Assignment { name: key, value } => {
                        let setting = scan::setting(section, &text[key], of);
                        if setting.is_some_and(|setting| takes_units(setting.kind)) {
                            let words = scan::words(&text, &value).into_iter();
                            at.extend(words.filter(|word| &text[word.clone()] == name));
                        }
                    }
                    Part::Other(_) => {}
                }
            }
            (!at.is_empty()).then_some(Used { path: path.clone(), text, at })
        };
        files.iter().filter_map(in_file).collect()
    }

    /// Where other units name the unit at a place, in all directories.
    pub(super) fn references(&self, parameters: &Value) -> Value {
        let Some((path, unit)) = self.unit_at(parameters) else { return Value::Null };
        let mut files = Vec::new();
        for directory in self.directories(&path) {
            below(&directory, 1, &mut files);
        }
        files.sort();
        files.dedup();
        let locations = self.uses(&unit, &files).into_iter().flat_map(|used| {
            let uri = self.uri(&used.path);
            let text = used.text;
            used.at.into_iter().map(move |at| json!({"uri": uri, "range": range(&text, &at)}))
        });
        locations.collect()
    }

    /// Another name for the unit at a place: in all files of the editor's directory, and of its own files there, of its
    /// drop-in directory and of links to it. What is elsewhere on the host stays.
    ///
    /// # Errors
    /// In words: there is no unit, the new name is none of this type or is taken, the editor cannot rename files.
    pub(super) fn rename(&self, parameters: &Value) -> Result<Value, String> {
        let new = parameters["newName"].as_str().unwrap_or_default();
        let (path, old) = self.unit_at(parameters).ok_or("there is no unit at this position")?;
        let new_name = UnitName::parse(new).map_err(|e| format!("{new}: {e}"))?;
        let old_name = UnitName::parse(&old).map_err(|e| format!("{old}: {e}"))?;
        if new_name.unit_type() != old_name.unit_type()
            || new_name.is_template() != old_name.is_template()
        {
            return Err(format!("{new} is of another type than {old}"));
        }
        let root = self.root.clone().or_else(|| path.parent().map(Path::to_path_buf));
        let root = root.ok_or("the document has no directory")?;
        let mut files = Vec::new();
        below(&root, DEPTH_MAX, &mut files);
        if files.iter().any(|path| path.file_name().is_some_and(|name| name == new)) {
            return Err(format!("there is a unit {new}"));
        }
        let mut changes: Vec<Value> = Vec::new();
        for used in self.uses(&old, &files) {
            let edit = |at: &Range<usize>| json!({"range": range(&used.text, at), "newText": new});
            let edits: Vec<Value> = used.at.iter().map(edit).collect();
            let document = json!({"uri": self.uri(&used.path), "version": null});
            changes.push(json!({"textDocument": document, "edits": edits}));
        }
        // Files go last: the edits above name them as they are.
        let moved = |from: &Path, name: &str| {
            let to = from.with_file_name(name);
            let uris = [from, &to].map(|path| uri_of(&path.to_string_lossy()));
            json!({"kind": "rename", "oldUri": uris[0], "newUri": uris[1]})
        };
        let own = files.iter().filter(|path| path.file_name().is_some_and(|name| name == &*old));
        let mut renames: Vec<Value> = own.map(|path| moved(path, new)).collect();
        let dropins: BTreeSet<&Path> = files
            .iter()
            .filter_map(|path| path.parent())
            .filter(|parent| parent.file_name().is_some_and(|name| name == &*format!("{old}.d")))
            .collect();
        renames.extend(dropins.into_iter().map(|path| moved(path, &format!("{new}.d"))));
        if !renames.is_empty() && !self.renames_files {
            return Err("the editor cannot rename files".to_owned());
        }
        changes.extend(renames);
        Ok(json!({"documentChanges": changes}))
    }

    /// Sections and settings of a document.
    pub(super) fn symbols(&self, parameters: &Value) -> Value {
        let uri = parameters["textDocument"]["uri"].as_str().unwrap_or_default();
        let Some(text) = self.open.get(uri) else { return Value::Null };
        let mut sections: Vec<(Range<usize>, Range<usize>, Vec<Value>)> = Vec::new();
        for part in scan::parts(text) {
            match part {
                Part::Header(name) => sections.push((name.clone(), name, Vec::new())),
                Part::Assignment { name, value } => {
                    let Some((_, whole, settings)) = sections.last_mut() else { continue };
                    let end = value.end.max(name.end);
                    whole.end = end;
                    settings.push(json!({
                        "name": text[name.clone()], "detail": text[value].lines().next().unwrap_or_default(),
                        "kind": PROPERTY, "range": range(text, &(name.start..end)),
                        "selectionRange": range(text, &name),
                    }));
                }
                Part::Other(_) => {}
            }
        }
        // An empty name is none.
        let named = sections.into_iter().filter(|(name, ..)| !name.is_empty());
        let one = |(name, whole, settings): (Range<usize>, Range<usize>, Vec<Value>)| {
            json!({"name": text[name.clone()], "kind": NAMESPACE, "range": range(text, &whole),
                "selectionRange": range(text, &name), "children": settings})
        };
        named.map(one).collect()
    }

    /// Units whose names have a text in them.
    pub(super) fn all_symbols(&self, parameters: &Value) -> Value {
        let wanted = parameters["query"].as_str().unwrap_or_default().to_lowercase();
        let own = self.open.keys().next().and_then(|uri| path_of(uri)).unwrap_or_default();
        let names = self.unit_names(&own).into_iter();
        let found = names.filter(|name| name.to_lowercase().contains(&wanted)).take(FOUND_MAX);
        let begin = json!({"line": 0, "character": 0});
        let one = |name: String| {
            let path = self.files_of(&own, &name).into_iter().next()?;
            let uri = uri_of(&path.to_string_lossy());
            let range = json!({"start": begin, "end": begin});
            Some(json!({"name": name, "kind": OBJECT, "location": {"uri": uri, "range": range}}))
        };
        found.filter_map(one).collect()
    }
}

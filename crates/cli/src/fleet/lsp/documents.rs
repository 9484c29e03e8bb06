//! What is open in the editor, and the files beside it; and what is wrong with them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use warren_fleet::ast::Module;
use warren_fleet::engine::Options;
use warren_fleet::outside::{Data, Include, Outside};
use warren_fleet::session::{Message, Session};
use warren_fleet::{Diagnostic, FileId, Severity, Source, parse};
use warren_fleet_files::{Files, Reading};

use super::super::rules;
use crate::lsp::Published;
use crate::lsp::text::{change, path_of, uri_of};

/// Texts by URI, and the directory of the rules.
pub(super) struct Documents {
    /// Where the rules are; else the directory of what is edited.
    root: Option<PathBuf>,
    open: BTreeMap<String, String>,
    /// What diagnostics were told of at the last evaluation.
    told: BTreeSet<String>,
}

/// The place of a byte: lines from 0, columns in UTF-16 units.
pub(super) fn position(source: &Source, at: u32) -> Value {
    let (line, column) = source.line_column(at);
    let text = String::from_utf8_lossy(source.line(line)).into_owned();
    let before: usize = text
        .char_indices()
        .take_while(|(index, _)| *index < column as usize - 1)
        .map(|(_, c)| c.len_utf16())
        .sum();
    json!({"line": line - 1, "character": before})
}

/// A column that no line reaches: its end.
const LINE_END: u32 = 1 << 16;

/// The texts in the editor before those on the disk.
struct Overlaid<'r, 'o> {
    files: Reading<'r>,
    open: &'o BTreeMap<PathBuf, &'o String>,
}

impl Outside for Overlaid<'_, '_> {
    fn include(&mut self, include: &Include) -> Result<Vec<Source>, String> {
        let mut sources = self.files.include(include)?;
        for source in &mut sources {
            if let Some(text) = self.open.get(Path::new(&*source.path)) {
                *source = Source::new(&source.path, text.as_bytes());
            }
        }
        Ok(sources)
    }

    fn data(&mut self, include: &Include) -> Result<Data, String> {
        self.files.data(include)
    }

    fn now(&self) -> f64 {
        self.files.now()
    }
}

impl Documents {
    pub(super) fn new(root: Option<PathBuf>) -> Documents {
        // Editors name files by their whole paths.
        let root = root.map(|root| std::fs::canonicalize(&root).unwrap_or(root));
        Documents { root, open: BTreeMap::new(), told: BTreeSet::new() }
    }

    /// Takes a notification; returns the diagnostics that it leads to.
    pub(super) fn notified(&mut self, method: &str, parameters: &Value) -> Published {
        let document = &parameters["textDocument"];
        let Some(uri) = document["uri"].as_str().map(str::to_owned) else { return Vec::new() };
        match method {
            "textDocument/didOpen" => {
                let text = document["text"].as_str().unwrap_or_default();
                self.open.insert(uri.clone(), text.to_owned());
                self.evaluate(&uri)
            }
            "textDocument/didChange" => {
                let text = self.open.entry(uri.clone()).or_default();
                let changes = parameters["contentChanges"].as_array().into_iter().flatten();
                changes.for_each(|one| change(text, one));
                vec![(uri.clone(), self.syntax(&uri))]
            }
            "textDocument/didSave" => self.evaluate(&uri),
            "textDocument/didClose" => {
                self.open.remove(&uri);
                vec![(uri, Vec::new())]
            }
            _ => Vec::new(),
        }
    }

    /// The text of an open document.
    pub(super) fn text(&self, uri: &str) -> Option<&String> {
        self.open.get(uri)
    }

    /// A document parsed; it has a tree whatever is wrong with it.
    pub(super) fn module(&self, uri: &str) -> Option<Module> {
        let source = Source::new(&path_of(uri)?.to_string_lossy(), self.open.get(uri)?.as_bytes());
        Some(parse(FileId(0), source).0)
    }

    /// All rules of the directory, and all documents without one, parsed.
    pub(super) fn all_modules(&self) -> Vec<Module> {
        match self.open.keys().next() {
            Some(uri) => self.modules(uri),
            None => Vec::new(),
        }
    }

    /// The document, then all other rules of its directory and below, parsed.
    pub(super) fn modules(&self, uri: &str) -> Vec<Module> {
        let own = self.module(uri);
        let directory = self.directory(uri);
        let found = directory.map(|d| warren_fleet_files::rules_below(&d)).unwrap_or_default();
        let open = self.open_paths();
        let others = found.into_iter().filter(|path| Some(path) != path_of(uri).as_ref());
        let parsed = others.filter_map(|path| {
            let text = match open.get(&path) {
                Some(text) => text.as_bytes().to_vec(),
                None => warren_fleet_files::read_text(&path).ok()?,
            };
            Some(parse(FileId(0), Source::new(&path.to_string_lossy(), &text)).0)
        });
        own.into_iter().chain(parsed).collect()
    }

    fn directory(&self, uri: &str) -> Option<PathBuf> {
        let own = || path_of(uri).and_then(|path| path.parent().map(Path::to_path_buf));
        self.root.clone().or_else(own)
    }

    fn open_paths(&self) -> BTreeMap<PathBuf, &String> {
        self.open.iter().filter_map(|(uri, text)| Some((path_of(uri)?, text))).collect()
    }

    /// The URI of a path as the editor writes it, which may escape other letters than we do.
    pub(super) fn uri(&self, path: &str) -> String {
        let own = |uri: &&String| path_of(uri).is_some_and(|own| own == Path::new(path));
        self.open.keys().find(own).cloned().unwrap_or_else(|| uri_of(path))
    }

    fn syntax(&self, uri: &str) -> Vec<Value> {
        let Some(text) = self.open.get(uri) else { return Vec::new() };
        let source = Source::new(uri, text.as_bytes());
        let (_, faults) = parse(FileId(0), source.clone());
        faults.iter().map(|fault| fault_of_syntax(fault, &source)).collect()
    }

    /// A fault with what belongs to it: in words, not as it is drawn in a terminal.
    fn fault_of_rules(&self, message: &Message) -> Value {
        let uri = self.uri(&message.path);
        let text = self.open.get(&uri);
        // A fault of more than one line is marked in its first: that is where to look.
        let (line, column) = message.end;
        let is_one_line = line == message.line && column > message.column;
        let end = if is_one_line { column } else { LINE_END };
        let help = message.help.as_ref().map(|help| format!("\n{help}")).unwrap_or_default();
        let related = message.notes.iter().map(|(path, line, note)| {
            let uri = self.uri(path);
            let place = |column| in_line(self.open.get(&uri), *line, column);
            let range = json!({"start": place(1), "end": place(LINE_END)});
            json!({"location": {"uri": uri, "range": range}, "message": note})
        });
        json!({
            "range": {
                "start": in_line(text, message.line, message.column),
                "end": in_line(text, message.line, end),
            },
            "severity": severity(message.severity),
            "source": "warren",
            "message": format!("{}{help}", message.message),
            "relatedInformation": related.collect::<Value>(),
        })
    }

    /// Evaluates all rules of a directory, beside faults of syntax too. Files that were told of and
    /// are sound now are told so.
    fn evaluate(&mut self, uri: &str) -> Published {
        let own = (uri.to_owned(), self.syntax(uri));
        let directory = self.directory(uri).filter(|directory| directory.is_dir());
        let Some(directory) = directory else { return vec![own] };
        let mut files = Files::new(directory, false);
        let (root, open) = (files.root(), self.open_paths());
        let options = Options { goes_on: true, ..rules::options() };
        let mut log = |_: &str| {};
        let loaded = files.read(&mut log, |reading| {
            let outside = Box::new(Overlaid { files: reading, open: &open });
            rules::deep(|| Session::load(root, outside, &options, rules::LAYER))
        });
        let syntax: BTreeSet<(u64, String)> = own.1.iter().map(line_and_text).collect();
        let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::from([own]);
        for uri in std::mem::take(&mut self.told) {
            all.entry(uri).or_default();
        }
        for message in &loaded.messages {
            let (of, fault) = (self.uri(&message.path), self.fault_of_rules(message));
            let line = u64::from(message.line.saturating_sub(1));
            // The exact place of this one is known.
            let is_told = of == uri && syntax.contains(&(line, message.message.clone()));
            if !is_told {
                all.entry(of).or_default().push(fault);
            }
        }
        let told = all.iter().filter(|(_, faults)| !faults.is_empty()).map(|(uri, _)| uri.clone());
        self.told = told.collect();
        all.into_iter().collect()
    }
}

fn severity(severity: Severity) -> u8 {
    match severity {
        Severity::Error => 1,
        Severity::Warning => 2,
        Severity::Note => 3,
    }
}

fn fault_of_syntax(fault: &Diagnostic, source: &Source) -> Value {
    let span = fault.place.span;
    let help = fault.help.as_ref().map(|help| format!("\n{help}")).unwrap_or_default();
    json!({
        "range": {"start": position(source, span.start), "end": position(source, span.end)},
        "severity": severity(fault.severity),
        "source": "warren",
        "message": format!("{}{help}", fault.message),
    })
}

/// What tells a fault of syntax from others: its line, from 0, and what it says.
fn line_and_text(fault: &Value) -> (u64, String) {
    let text = fault["message"].as_str().unwrap_or_default();
    let line = fault["range"]["start"]["line"].as_u64().unwrap_or(0);
    (line, text.lines().next().unwrap_or_default().to_owned())
}

/// A place of a text that may be another one by now: columns are bytes of this line.
fn in_line(text: Option<&String>, line: u32, column: u32) -> Value {
    let found = text.and_then(|text| text.lines().nth(line.saturating_sub(1) as usize));
    let bytes = column.saturating_sub(1) as usize;
    let character = match found {
        Some(found) => {
            let before = found.char_indices().take_while(|(at, _)| *at < bytes);
            before.map(|(_, c)| c.len_utf16()).sum()
        }
        None => bytes,
    };
    json!({"line": line.saturating_sub(1), "character": character})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsp::text::offset;

    #[test]
    fn places_count_what_editors_count() {
        let text = "a = 1\nb = \"ä𝄞\" + c\n";
        let source = Source::new("t", text.as_bytes());
        for at in text.char_indices().map(|(at, _)| at as u32) {
            assert_eq!(offset(text, &position(&source, at)), at);
        }
        let c = text.find('c').expect("it is there") as u32;
        assert_eq!(position(&source, c), json!({"line": 1, "character": 12}));
        assert_eq!(offset(text, &json!({"line": 0, "character": 99})), 5);
        assert_eq!(offset(text, &json!({"line": 99, "character": 0})), text.len() as u32);
    }
}

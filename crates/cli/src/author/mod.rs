//! For who writes unit files: `warren new` writes one, `warren lsp` is a language server for them and their drop-ins.
//!
//! `new` runs a command, `observe` looks at what it does, `needs` makes a unit of that, `trial` runs the unit and `verdict`
//! says what is different then and why. Of the language server, texts that are open in the editor are checked as `warren verify` checks files; with each change the document itself,
//! when one is opened, saved or closed all that are open, because a drop-in is checked with its unit. `scan` says what
//! a place of a text is, `values` what a value can be, `units` where units are and who names them.

mod listening;
mod needs;
pub(crate) mod new;
mod observe;
mod scan;
mod trial;
mod units;
mod values;
mod verdict;

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};
use warren_fleet::diagnostic::nearest;
use warren_unit::settings::{Kind, Section, Setting, Status};
use warren_unit::{Diagnostic, Severity, UnitType};

use crate::lsp::text::{change, offset, path_of, range, uri_of};
use crate::lsp::{Answer, Published, REQUEST_FAILED, Server, serve};
use crate::verify::Verifier;
use scan::{Part, Place};

/// LSP's kinds of completions: a module, a property, a value, a unit's file.
const MODULE: u8 = 9;
const PROPERTY: u8 = 10;
const VALUE: u8 = 12;
const FILE: u8 = 17;

/// Words that are offered at once; of more the editor asks again as letters come.
const ITEMS_MAX: usize = 1_000;

/// Serves until the client says `exit`.
pub(crate) fn run(user: bool) -> Result<i32> {
    serve(&mut Author {
        verifier: Verifier::new(user, &[]),
        root: None,
        open: BTreeMap::new(),
        renames_files: false,
    })
}

/// What is open, and what the rest is looked up in.
struct Author {
    verifier: Verifier,
    /// The editor's directory.
    root: Option<PathBuf>,
    /// Texts by URI.
    open: BTreeMap<String, String>,
    /// The editor can rename files when it renames what is in them.
    renames_files: bool,
}

impl Server for Author {
    fn initialize(&mut self, parameters: &Value) -> Value {
        let folders = parameters["workspaceFolders"].as_array().into_iter().flatten();
        let root = folders.map(|folder| &folder["uri"]).next().unwrap_or(&parameters["rootUri"]);
        self.root = root.as_str().and_then(path_of);
        let operations =
            &parameters["capabilities"]["workspace"]["workspaceEdit"]["resourceOperations"];
        self.renames_files =
            operations.as_array().into_iter().flatten().any(|operation| operation == "rename");
        json!({
            "textDocumentSync": {"openClose": true, "change": 2, "save": {}},
            "hoverProvider": true,
            "definitionProvider": true,
            "completionProvider": {"triggerCharacters": ["=", "[", "/", "@", "%"]},
            "referencesProvider": true,
            "renameProvider": true,
            "documentSymbolProvider": true,
            "workspaceSymbolProvider": true,
            "codeActionProvider": {"codeActionKinds": ["quickfix"]},
        })
    }

    fn take(&mut self, method: &str, parameters: &Value) -> Published {
        let document = &parameters["textDocument"];
        let Some(uri) = document["uri"].as_str().map(str::to_owned) else { return Vec::new() };
        match method {
            "textDocument/didOpen" => {
                let text = document["text"].as_str().unwrap_or_default();
                self.open.insert(uri.clone(), text.to_owned());
                self.overlay(&uri);
                self.check_all()
            }
            "textDocument/didChange" => {
                let text = self.open.entry(uri.clone()).or_default();
                let changes = parameters["contentChanges"].as_array().into_iter().flatten();
                changes.for_each(|one| change(text, one));
                self.overlay(&uri);
                vec![(uri.clone(), self.check(&uri))]
            }
            "textDocument/didSave" => self.check_all(),
            "textDocument/didClose" => {
                self.open.remove(&uri);
                self.overlay(&uri);
                let mut all = self.check_all();
                all.push((uri, Vec::new()));
                all
            }
            _ => Vec::new(),
        }
    }

    fn answer(&self, method: &str, parameters: &Value) -> Option<Answer> {
        Some(match method {
            "textDocument/hover" => Ok(self.hover(parameters)),
            "textDocument/definition" => Ok(self.definition(parameters)),
            "textDocument/completion" => Ok(self.completion(parameters)),
            "textDocument/references" => Ok(self.references(parameters)),
            "textDocument/rename" => self.rename(parameters).map_err(|what| (REQUEST_FAILED, what)),
            "textDocument/documentSymbol" => Ok(self.symbols(parameters)),
            "workspace/symbol" => Ok(self.all_symbols(parameters)),
            "textDocument/codeAction" => Ok(self.actions(parameters)),
            _ => return None,
        })
    }
}

/// What a setting takes, in words that an editor shows beside its name.
fn takes(setting: &Setting) -> String {
    warren_unit::doc::kind(setting.kind)
}

/// A setting as a few lines of Markdown.
fn described(setting: &Setting) -> String {
    let status = match setting.status {
        Status::Acted | Status::Applied => String::new(),
        status => format!("\n\nIn Warrener: {}", status.as_str()),
    };
    let meaning = setting.meaning().unwrap_or_default();
    format!(
        "`{}=` {}\n\n{meaning}\n\n{}{status}",
        setting.name,
        takes(setting),
        setting.group.manual()
    )
}

/// The sections of a unit file.
fn sections(of: UnitType) -> Vec<Section> {
    let own = match of {
        UnitType::Target | UnitType::Device => None,
        of => Some(Section::Type(of)),
    };
    [Some(Section::Unit), own, Some(Section::Install), Some(Section::Warren)]
        .into_iter()
        .flatten()
        .collect()
}

fn severity(severity: Severity) -> u8 {
    match severity {
        Severity::Error => 1,
        Severity::Warning => 2,
        Severity::Note => 3,
    }
}

/// The part of a text that a fault is about: from its column to the end of its line.
fn marked(text: &str, fault: &Diagnostic) -> Range<usize> {
    let before = fault.line.saturating_sub(1) as usize;
    let start: usize = text.split_inclusive('\n').take(before).map(str::len).sum();
    let line = text[start..].lines().next().unwrap_or_default();
    let mut from = (fault.column.saturating_sub(1) as usize).min(line.len());
    while !line.is_char_boundary(from) {
        from -= 1;
    }
    let end = line.trim_end().len().max(from);
    start + from..start + end
}

impl Author {
    /// Tells the checks what the text of a file is now.
    fn overlay(&mut self, uri: &str) {
        if let Some(path) = path_of(uri) {
            self.verifier.overlay(path, self.open.get(uri).map(String::as_str));
        }
    }

    fn check_all(&self) -> Published {
        self.open.keys().map(|uri| (uri.clone(), self.check(uri))).collect()
    }

    /// What is wrong with an open document.
    fn check(&self, uri: &str) -> Vec<Value> {
        let (Some(path), Some(text)) = (path_of(uri), self.open.get(uri)) else {
            return Vec::new();
        };
        // An editor may take any file for a unit.
        if scan::type_of(&path).is_none() {
            return Vec::new();
        }
        let own = path.to_string_lossy();
        let one = |fault: &Diagnostic| {
            json!({
                "range": range(text, &marked(text, fault)), "severity": severity(fault.severity),
                "source": "warren", "code": fault.code.as_str(), "message": fault.message,
            })
        };
        match self.verifier.verify(&own) {
            Ok(verdict) => {
                let faults = verdict.diagnostics.iter();
                faults.filter(|fault| *fault.path == *own || fault.line == 0).map(one).collect()
            }
            Err(what) => {
                let start = json!({"line": 0, "character": 0});
                vec![json!({"range": {"start": start, "end": start}, "severity": 1,
                    "source": "warren", "message": what})]
            }
        }
    }

    /// The URI of a path as the editor writes it.
    fn uri(&self, path: &std::path::Path) -> String {
        let own = |uri: &&String| path_of(uri).is_some_and(|own| own == path);
        self.open.keys().find(own).cloned().unwrap_or_else(|| uri_of(&path.to_string_lossy()))
    }

    /// The document and the byte that a question is about.
    fn place(&self, parameters: &Value) -> Option<(PathBuf, &str, usize)> {
        let uri = parameters["textDocument"]["uri"].as_str()?;
        let text = self.open.get(uri)?;
        Some((path_of(uri)?, text, offset(text, &parameters["position"]) as usize))
    }

    fn hover(&self, parameters: &Value) -> Value {
        let found = || {
            let (path, text, at) = self.place(parameters)?;
            let of = scan::type_of(&path)?;
            match scan::place(text, at) {
                Place::Name { section, name } => {
                    scan::setting(section, &text[name], of).map(described)
                }
                Place::Value { section, name, value, word } => {
                    let setting = scan::setting(section, name, of)?;
                    let (value, word) = (&text[value], &text[word]);
                    let unit =
                        units::takes_units(setting.kind).then(|| self.unit_text(&path, word));
                    unit.flatten()
                        .or_else(|| values::known(setting, value, word))
                        .or_else(|| Some(described(setting)))
                }
                Place::Header(_) | Place::Nothing => None,
            }
        };
        match found() {
            Some(text) => json!({"contents": {"kind": "markdown", "value": text}}),
            None => Value::Null,
        }
    }

    /// A unit's description and files.
    fn unit_text(&self, own: &std::path::Path, name: &str) -> Option<String> {
        let files = self.files_of(own, name);
        let text = self.text_of(files.first()?)?;
        let description = scan::parts(&text).into_iter().find_map(|part| match part {
            Part::Assignment { name, value } if &text[name.clone()] == "Description" => {
                Some(text[value].to_owned())
            }
            _ => None,
        });
        let mut lines = vec![format!("`{name}` {}", description.unwrap_or_default())];
        lines.extend(files.iter().map(|path| path.to_string_lossy().into_owned()));
        Some(lines.join("\n\n"))
    }

    fn completion(&self, parameters: &Value) -> Value {
        let found = || {
            let (path, text, at) = self.place(parameters)?;
            let of = scan::type_of(&path)?;
            Some(match scan::place(text, at) {
                Place::Header(name) => headers(of, text, &name),
                Place::Name { section, name } => settings(of, section, text, &name),
                Place::Value { section, name, word, .. } => {
                    let setting = scan::setting(section, name, of)?;
                    self.value_items(&path, setting, text, word.start..at.max(word.start))
                }
                // Where no section has begun, one can.
                Place::Nothing if text[..at].trim().is_empty() => headers(of, text, &(at..at)),
                Place::Nothing => return None,
            })
        };
        found().unwrap_or(Value::Null)
    }

    /// What the value can have at this place, of which the word is written.
    fn value_items(
        &self,
        path: &std::path::Path,
        setting: &Setting,
        text: &str,
        word: Range<usize>,
    ) -> Value {
        let written = &text[word.clone()];
        let place = range(text, &word);
        let item = |label: String, kind: u8| json!({"label": label, "kind": kind, "textEdit": {"range": place, "newText": label}});
        let mut items: Vec<Value> =
            values::words(setting, written).into_iter().map(|word| item(word, VALUE)).collect();
        if matches!(setting.kind, Kind::RestartOn) {
            items.extend(
                ["none", "error", "restart", "refresh"].map(|word| item(word.to_owned(), VALUE)),
            );
        }
        if units::takes_units(setting.kind) && !written.contains('%') {
            let names = self.unit_names(path).into_iter();
            let fitting = names
                .filter(|name| name.starts_with(written))
                .filter(|name| setting.name != "Slice" || name.ends_with(".slice"));
            items.extend(fitting.take(ITEMS_MAX + 1).map(|name| item(name, FILE)));
        }
        let is_incomplete = items.len() > ITEMS_MAX;
        items.truncate(ITEMS_MAX);
        json!({"isIncomplete": is_incomplete, "items": items})
    }

    /// For each name that there is none of: to write the one that was meant.
    fn actions(&self, parameters: &Value) -> Value {
        let uri = parameters["textDocument"]["uri"].as_str().unwrap_or_default();
        let (Some(text), Some(path)) = (self.open.get(uri), path_of(uri)) else {
            return Value::Null;
        };
        let Some(of) = scan::type_of(&path) else { return Value::Null };
        let faults = parameters["context"]["diagnostics"].as_array().into_iter().flatten();
        let action = |fault: &Value| {
            let at = offset(text, &fault["range"]["start"]) as usize;
            let (wrong, meant) = meant(text, at, of)?;
            let edit = json!({"range": range(text, &wrong), "newText": meant});
            Some(json!({
                "title": format!("Write `{meant}`"), "kind": "quickfix", "isPreferred": true,
                "diagnostics": [fault], "edit": {"changes": {uri: [edit]}},
            }))
        };
        faults.filter_map(action).collect()
    }
}

/// The name of a section or setting that begins on the line of `at` and is none, and the one that was meant.
fn meant(text: &str, at: usize, of: UnitType) -> Option<(Range<usize>, String)> {
    let line = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = line..line + text[line..].lines().next().unwrap_or_default().len();
    let mut section = "";
    for part in scan::parts(text) {
        match part {
            Part::Header(name) if line.contains(&name.start) => {
                let known = sections(of);
                let meant =
                    nearest(&text[name.clone()], known.iter().map(|section| section.name()))?;
                return Some((name, meant.to_owned()));
            }
            Part::Header(name) => section = &text[name],
            Part::Assignment { name, .. } | Part::Other(name) if line.contains(&name.start) => {
                let wrong = &text[name.clone()];
                if scan::setting(section, wrong, of).is_some() {
                    return None;
                }
                let known = Section::find(section, of)?.settings().map(|setting| setting.name);
                let meant = nearest(wrong, known)?;
                return Some((name, meant.to_owned()));
            }
            Part::Assignment { .. } | Part::Other(_) => {}
        }
    }
    None
}

/// The names of sections that can stand here; `[` and `]` where they are not written.
fn headers(of: UnitType, text: &str, name: &Range<usize>) -> Value {
    let begins = text[..name.start].ends_with('[');
    let ends = text[name.end..].starts_with(']');
    let (open, close) = (if begins { "" } else { "[" }, if ends { "" } else { "]\n" });
    let one = |section: Section| {
        let new = format!("{open}{}{close}", section.name());
        json!({"label": format!("[{}]", section.name()), "kind": MODULE, "filterText": new,
            "textEdit": {"range": range(text, name), "newText": new}})
    };
    sections(of).into_iter().map(one).collect()
}

/// The settings of a section, and other sections where nothing is written yet.
fn settings(of: UnitType, section: &str, text: &str, name: &Range<usize>) -> Value {
    let known = Section::find(section, of);
    let is_assigned = text[name.end..].trim_start_matches([' ', '\t']).starts_with('=');
    let equals = if is_assigned { "" } else { "=" };
    let one = |setting: &Setting| {
        json!({
            "label": setting.name, "kind": PROPERTY, "detail": takes(setting),
            "documentation": {"kind": "markdown", "value": described(setting)},
            "textEdit": {"range": range(text, name), "newText": format!("{}{equals}", setting.name)},
        })
    };
    let in_use = known.into_iter().flat_map(Section::settings);
    let mut items: Vec<Value> =
        in_use.filter(|setting| setting.status != Status::Obsolete).map(one).collect();
    if name.is_empty() {
        items.extend(headers(of, text, name).as_array().into_iter().flatten().cloned());
    }
    json!(items)
}

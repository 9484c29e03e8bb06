//! Files: included at the top level, where they are read, and in bodies, for which they are read
//! when the body is defined, since objects are made by several threads that open nothing.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Fault, Flow, Frame, Interpreter, Outcome, end_of_body, fail};
use crate::ast::{IncludeKind, Kind, Module, NodeId};
use crate::outside::Include;
use crate::parse::Parsed;
use crate::source::{FileId, Place, Source};
use crate::text;
use crate::value::{Dictionary, DictionaryId, Value};

/// How deep files may include each other.
pub const INCLUDES_MAX: usize = 64;

/// What a file sees besides what it makes itself: `this` and `locals`.
type Variables = (Value, DictionaryId);

/// Files that are evaluated after a configuration though nothing includes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addition {
    /// A file, or a directory of which every `*.conf` is one.
    pub path: String,
    /// The directory is that of a zone's files; it is passed over if there is no such zone.
    pub zone: Option<String>,
    /// They were copied from another host: what this one has of the zone counts instead.
    pub is_copy: bool,
    /// The package that their objects are in; none for what an administrator keeps.
    pub package: Option<String>,
}

impl<'p> Interpreter<'p> {
    /// Evaluates additions to the configuration. Directories of zones are evaluated once their zone is
    /// defined, which another one may do: those that are known, then those that are known by then.
    ///
    /// # Errors
    /// The first fault of their files.
    pub(crate) fn add(&mut self, additions: &[Addition]) -> Result<(), Box<Fault>> {
        for alike in additions
            .chunk_by(|a, b| a.zone.is_some() && b.zone.is_some() && a.is_copy == b.is_copy)
        {
            let mut waiting: Vec<&Addition> = alike.iter().collect();
            loop {
                let is_known = |addition: &&mut &Addition| {
                    let zone = addition.zone.as_ref();
                    zone.is_none_or(|zone| self.defines_object("Zone", zone.as_bytes()))
                };
                let known: Vec<&Addition> = waiting.extract_if(.., |a| is_known(&a)).collect();
                if known.is_empty() {
                    break;
                }
                known.into_iter().try_for_each(|addition| self.add_one(addition))?;
            }
            for Addition { path, zone, .. } in waiting {
                let zone = zone.as_deref().unwrap_or_default();
                let message = format!("Ignoring directory '{path}' for unknown zone '{zone}'.");
                self.warnings.push(crate::Diagnostic::warning(Place::NOWHERE, message));
            }
        }
        Ok(())
    }

    fn add_one(&mut self, addition: &Addition) -> Result<(), Box<Fault>> {
        let zone = addition.zone.as_ref().map(|zone| self.heap.intern(zone.as_bytes()));
        if addition.is_copy && zone.is_some_and(|zone| self.zones.contains(&zone)) {
            return Ok(());
        }
        self.zones.extend(zone);
        let kind = if zone.is_some() { IncludeKind::Recursive } else { IncludeKind::Relative };
        let (path, from, place) = (addition.path.clone(), String::new(), Place::NOWHERE);
        let include = Include { kind, from, path, pattern: None };
        let sources =
            self.outside.include(&include).map_err(|message| Fault::at(place, message))?;
        let package = addition.package.as_ref().map(|name| self.heap.intern(name.as_bytes()));
        (self.zone, self.package) = (zone, package);
        let locals = self.heap.make_dictionary(Dictionary::default());
        let held = self.held();
        self.hold(Value::Dictionary(locals));
        let this = Value::Namespace(self.roots.globals);
        let outcome = self.run_files(&sources, place, Some((this, locals)));
        self.let_go(held);
        (self.zone, self.package) = (None, None);
        outcome
    }

    /// Evaluates the files of types of which there is no object.
    ///
    /// # Errors
    /// The first fault.
    pub(crate) fn define_the_rest(&mut self, files: &[(&str, &Source)]) -> Result<(), Box<Fault>> {
        for (of_type, source) in files {
            let id = self.types.find(of_type.as_bytes());
            let mut defined = self.definitions.objects.iter().map(|made| Some(made.of_type));
            if !defined.any(|of_type| of_type == id) {
                // It is of no package: the program's own.
                self.package = Some(self.heap.intern(b""));
                let outcome = self.run_files(&[(*source).clone()], Place::default(), None);
                self.package = None;
                outcome?;
            }
        }
        Ok(())
    }

    pub(super) fn include(
        &mut self,
        frame: &Frame<'p>,
        id: NodeId,
        kind: IncludeKind,
        arguments: &[NodeId],
    ) -> Outcome {
        if !self.defines {
            return self.include_in_body(frame, id);
        }
        let place = frame.module.place(id);
        let include = self.include_of(frame, kind, arguments)?;
        let sources = self.outside.include(&include).map_err(|message| fail(place, message))?;
        match kind {
            IncludeKind::Zones => self.run_zones(frame, &include, sources, place),
            _ => self.run_files(&sources, place, Some((frame.this, frame.locals))),
        }
        .map_err(Flow::Fail)?;
        Ok(Value::Empty)
    }

    /// What an `include` asks for. The tag of `include_zones` says which files of a cluster these
    /// are; nothing is sent here.
    fn include_of(
        &mut self,
        frame: &Frame<'p>,
        kind: IncludeKind,
        arguments: &[NodeId],
    ) -> Result<Include, Flow> {
        let mut words = Vec::new();
        for argument in arguments {
            let value = self.evaluate(frame, *argument)?;
            let bytes = text::string(&self.heap, self.types, value);
            words.push(String::from_utf8_lossy(&bytes).into_owned());
        }
        let mut words = words.into_iter().skip(usize::from(kind == IncludeKind::Zones));
        let path = words.next().unwrap_or_default();
        let from = frame.module.source.path.to_string();
        Ok(Include { kind, from, path, pattern: words.next() })
    }

    /// Evaluates the files of zones, each with those that it includes: a directory has the name of
    /// the zone that its objects are in. A file beside these directories is none of any zone's.
    fn run_zones(
        &mut self,
        frame: &Frame<'p>,
        include: &Include,
        sources: Vec<Source>,
        place: Place,
    ) -> Result<(), Box<Fault>> {
        let from = Path::new(&include.from).parent().unwrap_or(Path::new(""));
        let all = from.join(&include.path);
        let mut zones: BTreeMap<String, Vec<Source>> = BTreeMap::new();
        for source in sources {
            let below = Path::new(&*source.path).strip_prefix(&all).unwrap_or(Path::new(""));
            let mut parts = below.components();
            if let (Some(zone), Some(_)) = (parts.next(), parts.next()) {
                let zone = zone.as_os_str().to_string_lossy().into_owned();
                zones.entry(zone).or_default().push(source);
            }
        }
        for (zone, sources) in zones {
            let zone = self.heap.intern(zone.as_bytes());
            self.zones.insert(zone);
            let outer = self.zone.replace(zone);
            let outcome = self.run_files(&sources, place, Some((frame.this, frame.locals)));
            self.zone = outer;
            outcome?;
        }
        Ok(())
    }

    /// Parses files, by several threads, and evaluates one after another, with the variables of what
    /// includes them. Faults of syntax are reported with those of evaluation.
    pub(crate) fn run_files(
        &mut self,
        sources: &[Source],
        place: Place,
        scope: Option<Variables>,
    ) -> Result<(), Box<Fault>> {
        sources.iter().try_for_each(|source| self.check_include(source, place))?;
        let first = self.next_files(sources.len());
        for parsed in crate::parse::many(first, sources, self.threads) {
            self.run_file(parsed, place, scope)?;
        }
        Ok(())
    }

    /// Parses and evaluates a file; its value is that of its last statement.
    pub(crate) fn run_source(&mut self, source: Source) -> Result<Value, Box<Fault>> {
        let parsed = crate::parse(self.next_files(1), source);
        self.run_file(parsed, Place::default(), None)
    }

    fn run_file(
        &mut self,
        parsed: Parsed,
        place: Place,
        scope: Option<Variables>,
    ) -> Result<Value, Box<Fault>> {
        let module = self.take_file(parsed, place)?;
        let frame = match scope {
            Some((this, locals)) => Frame { module, this, locals },
            None => self.frame(module, Value::Namespace(self.roots.globals)),
        };
        self.run_included(&frame)
    }

    fn run_included(&mut self, frame: &Frame<'p>) -> Result<Value, Box<Fault>> {
        self.including.push(frame.module.file);
        let held = self.held();
        self.hold_frame(frame);
        let outcome = self.file_body(frame);
        self.let_go(held);
        self.including.pop();
        outcome
    }

    /// Parses and evaluates a text whose variables are these.
    pub(crate) fn run_text(
        &mut self,
        source: Source,
        this: Value,
        locals: DictionaryId,
    ) -> Result<Value, Box<Fault>> {
        let parsed = crate::parse(self.next_files(1), source);
        let module = self.take_file(parsed, Place::default())?;
        let frame = Frame { module, this, locals };
        let held = self.held();
        self.hold_frame(&frame);
        let outcome = self.file_body(&frame);
        self.let_go(held);
        outcome
    }

    /// Makes a parsed file one of the run's.
    fn take_file(
        &mut self,
        (module, faults): Parsed,
        place: Place,
    ) -> Result<&'p Module, Box<Fault>> {
        let is_error = |fault: &&crate::Diagnostic| fault.severity == crate::Severity::Error;
        let fatal = faults.iter().find(is_error).filter(|_| !self.goes_on).cloned();
        let module: &'p Module = match self.modules.add(module) {
            Some(module) => module,
            None => return Err(Fault::at(place, "too many files")),
        };
        if let Some(first) = fatal {
            // The first fault ends the run, all are reported.
            self.warnings.extend(faults.into_iter().skip(1));
            return Err(Fault::at(first.place, first.message).help(first.help));
        }
        self.warnings.extend(faults);
        self.link(module);
        Ok(module)
    }

    /// At the top level there is nothing to return from.
    fn file_body(&mut self, frame: &Frame<'p>) -> Result<Value, Box<Fault>> {
        if self.goes_on {
            for statement in &frame.module.root {
                if let Err(fault) = end_of_body(self.block(frame, &[*statement])) {
                    self.warnings.push(fault.diagnostic());
                }
            }
            return Ok(Value::Empty);
        }
        match self.block(frame, &frame.module.root) {
            Err(Flow::Return(_, place)) => end_of_body(Err(Flow::Break(place))),
            outcome => end_of_body(outcome),
        }
    }

    fn check_include(&self, source: &Source, place: Place) -> Result<(), Box<Fault>> {
        let is_open = |file: &crate::FileId| {
            self.modules.get(*file).is_some_and(|module| module.source.path == source.path)
        };
        if self.including.iter().any(is_open) {
            return Err(Fault::at(place, format!("'{}' includes itself", source.path)));
        }
        if self.including.len() >= INCLUDES_MAX {
            return Err(Fault::at(place, format!("includes are more than {INCLUDES_MAX} deep")));
        }
        Ok(())
    }

    // In bodies.

    /// Reads the files that the body of a definition includes; what fails is a fault where the body
    /// is run.
    pub(super) fn read_snippets(&mut self, frame: &Frame<'p>, definition: NodeId) {
        let module = frame.module;
        module
            .includes_in(module.node(definition).span)
            .for_each(|id| self.read_snippet(frame, id));
    }

    fn read_snippet(&mut self, frame: &Frame<'p>, id: NodeId) {
        let key = (frame.module.file, id);
        if self.snippets.found.contains_key(&key) {
            return;
        }
        let found = match self.find_snippet(frame, id) {
            Ok(found) => Ok(found),
            Err(Flow::Fail(fault)) => Err(fault),
            Err(_) => Err(Fault::at(frame.module.place(id), "Invalid flow control statement.")),
        };
        self.snippets.to_mut().found.insert(key, found);
    }

    fn find_snippet(&mut self, frame: &Frame<'p>, id: NodeId) -> Result<Vec<FileId>, Flow> {
        let place = frame.module.place(id);
        let Kind::Include(kind, arguments) = &frame.module.node(id).kind else {
            return Ok(Vec::new());
        };
        let include = self.include_of(frame, *kind, arguments)?;
        let sources = self.outside.include(&include).map_err(|message| fail(place, message))?;
        sources.into_iter().map(|source| self.read_body_file(frame, source, place)).collect()
    }

    /// A file for bodies, and those that it includes itself; each is read once.
    fn read_body_file(
        &mut self,
        frame: &Frame<'p>,
        source: Source,
        place: Place,
    ) -> Result<FileId, Flow> {
        if let Some(known) = self.snippets.files.get(&*source.path) {
            return Ok(*known);
        }
        let (module, faults) = crate::parse(self.next_files(1), source);
        let is_error = |fault: &crate::Diagnostic| fault.severity == crate::Severity::Error;
        if let Some(first) = faults.into_iter().find(is_error) {
            self.modules.add(module);
            return Err(Fault::at(first.place, first.message).help(first.help).into());
        }
        let Some(module) = self.modules.add(module) else {
            return Err(fail(place, "too many files"));
        };
        self.link(module);
        self.snippets.to_mut().files.insert(module.source.path.to_string(), module.file);
        let inner = Frame { module, ..*frame };
        module.includes.iter().for_each(|id| self.read_snippet(&inner, *id));
        Ok(module.file)
    }

    /// Runs the statements of files as if they stood in the body.
    fn include_in_body(&mut self, frame: &Frame<'p>, id: NodeId) -> Outcome {
        let place = frame.module.place(id);
        let found = self.snippets.found.get(&(frame.module.file, id)).cloned();
        let Some(found) = found else {
            return Err(Fault::at(
                place,
                "a function cannot include a file while objects are made",
            )
            .help(Some("`include` it in the body of the object, or at the top level".to_owned()))
            .into());
        };
        for file in found? {
            let module = self.modules.get(file).expect("files for bodies are kept");
            self.check_include(&module.source, place)?;
            self.run_included(&Frame { module, ..*frame })?;
        }
        Ok(Value::Empty)
    }
}

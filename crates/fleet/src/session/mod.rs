//! A fleet configuration that stays loaded: what its rules made, and what became of a change.
//!
//! A session is what the manager and `warren fleet` hold: it owns the types, the files and the
//! world, and hands out unit files that are free of them. Start at [`Session::load`]; `change` is
//! what becomes of an edit.

mod change;
pub mod test;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::diagnostic::{self, Diagnostic, Severity};
use crate::dump::Only;
use crate::engine::change::Products as MadeFor;
use crate::engine::copies::{self, Replicated};
use crate::engine::membership::{self, Membership};
use crate::engine::{self, Fleet, Options};
use crate::eval::{Bounds, Interpreter, Scope, World};
use crate::heap::{Heap, UNREACHED_BYTES};
use crate::made::{Product, Shared, Weaver};
use crate::modules::Modules;
use crate::outside::Outside;
use crate::schema::warrener;
use crate::source::{FileId, Source};
use crate::types::Types;
use crate::units::Units;
use crate::value::ObjectId;

/// What rules made, by path below the directory of all.
pub type Products = BTreeMap<Box<str>, Product>;

pub use change::Delta;

/// How much a load may do whose rules may be wrong: 100,000 units take a tenth of it. What never
/// ends is given up after some seconds, before it has taken the memory of the machine.
pub const BOUNDS: Bounds = Bounds {
    steps: 50_000_000,
    items: 1 << 22,
    string_bytes: 256 << 20,
    unreached_bytes: UNREACHED_BYTES,
};

/// Functions that may say something else each time.
const LUCKY: [&[u8]; 7] =
    [b"random", b"get_time", b"getenv", b"path_exists", b"glob", b"glob_recursive", b"inventory"];

/// A fault or a warning, without a tie to the files that it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// How bad it is.
    pub severity: Severity,
    /// The file, and line and column from 1.
    pub path: Arc<str>,
    /// The line.
    pub line: u32,
    /// The column, in bytes.
    pub column: u32,
    /// Where it ends, in the same file: the line and the column behind it.
    pub end: (u32, u32),
    /// What it is, in one line.
    pub message: String,
    /// What may have been meant.
    pub help: Option<String>,
    /// Other places that belong to it: the file, the line and what it has to do with it.
    pub notes: Vec<(Arc<str>, u32, String)>,
    /// The same for people: with the lines it is about, what belongs to it, and advice.
    pub rendered: String,
}

impl Message {
    /// A fault for others than this run's files.
    pub fn of(diagnostic: &Diagnostic, modules: &Modules) -> Message {
        let place = diagnostic.place;
        let source = modules.source(place.file.0);
        let (line, column) =
            source.as_ref().map_or((0, 0), |source| source.line_column(place.span.start));
        let end = source.as_ref().map_or((0, 0), |source| source.line_column(place.span.end));
        let note = |(place, text): &(crate::Place, String)| {
            let source = modules.source(place.file.0)?;
            let line = source.line_column(place.span.start).0;
            Some((source.path, line, text.clone()))
        };
        Message {
            severity: diagnostic.severity,
            end,
            help: diagnostic.help.clone(),
            notes: diagnostic.notes.iter().filter_map(note).collect(),
            path: source.map_or_else(|| "".into(), |source| source.path),
            line,
            column,
            message: diagnostic.message.clone(),
            rendered: diagnostic::render(diagnostic, &|file| modules.source(file)),
        }
    }
}

/// A loaded configuration.
#[derive(Debug)]
pub struct Session {
    pub(crate) types: Types,
    pub(crate) modules: Modules,
    pub(crate) world: World,
    pub(crate) directory: String,
    pub(crate) shared: Shared,
    pub(crate) products: Products,
    /// The unit file of each object that is one.
    paths: BTreeMap<ObjectId, Box<str>>,
    /// Objects that are unit files are emptied once the files are made.
    is_slim: bool,
    /// What rules made for each target.
    made_for: MadeFor,
    /// The newest file of each path; none if a load reads two of it.
    files: BTreeMap<Arc<str>, Option<FileId>>,
    /// A file calls what may say something else each time: by the order of calls, by the clock, by
    /// what there is on the host.
    has_luck: bool,
    /// How many objects were made since the load: each leaves an old one behind.
    remade: usize,
}

/// What came of a load: the session unless there are faults, and what there is to tell.
#[derive(Debug)]
pub struct Loaded {
    /// What was loaded; nothing if one of the messages is an error.
    pub session: Option<Session>,
    /// Faults and warnings.
    pub messages: Vec<Message>,
}

impl Session {
    /// Loads a file and all it includes. `directory` is where the unit files say they are.
    pub fn load(
        root: Source,
        outside: Box<dyn Outside + '_>,
        options: &Options<'_>,
        directory: &str,
    ) -> Loaded {
        let (session, loaded) = Session::load_whole(root, outside, options, directory);
        let is_sound = loaded.messages.iter().all(|fault| fault.severity != Severity::Error);
        Loaded { session: is_sound.then_some(session), ..loaded }
    }

    /// The session whether or not there are faults, and what there is to tell.
    fn load_whole(
        root: Source,
        outside: Box<dyn Outside + '_>,
        options: &Options<'_>,
        directory: &str,
    ) -> (Session, Loaded) {
        let (types, modules) = (Types::new(warrener::types()), Modules::default());
        let Fleet { world, faults, warnings } =
            engine::load(root, &types, &modules, outside, options);
        let is_sound = faults.is_empty();
        let mut all: Vec<Diagnostic> = faults.into_iter().chain(warnings).collect();
        let mut session = Session {
            types,
            modules,
            world,
            directory: directory.to_owned(),
            shared: Shared::default(),
            products: Products::new(),
            paths: BTreeMap::new(),
            is_slim: false,
            made_for: MadeFor::new(),
            files: BTreeMap::new(),
            has_luck: false,
            remade: 0,
        };
        session.note_files();
        if is_sound || options.goes_on {
            all.extend(session.make_all(options.threads));
            session.note_products(
                &session.world.by_type.values().flatten().copied().collect::<Vec<_>>(),
            );
        }
        let messages = all.iter().map(|fault| Message::of(fault, &session.modules)).collect();
        (session, Loaded { session: None, messages })
    }

    /// Unit files of all objects that are units.
    fn make_all(&mut self, threads: usize) -> Vec<Diagnostic> {
        let units = Units { world: &self.world, types: &self.types, directory: &self.directory };
        let (units, faults) = units.all(threads);
        let mut weaver = Weaver {
            world: &self.world,
            types: &self.types,
            modules: &self.modules,
            shared: &mut self.shared,
        };
        for (path, unit) in units {
            self.products.insert(path.clone(), weaver.product(&unit));
            self.paths.insert(unit.object, path);
        }
        faults
    }

    /// Forgets the attributes of objects that are unit files: nobody can look those up, and the
    /// files say the same. Half of the memory of a session is theirs.
    pub fn slim(mut self) -> Session {
        self.is_slim = true;
        let all: Vec<ObjectId> = self.paths.keys().copied().collect();
        self.empty(&all);
        self
    }

    fn empty(&mut self, objects: &[ObjectId]) {
        let mut heap = Heap::from_layer(std::mem::take(&mut self.world.layer));
        objects.iter().for_each(|id| heap.empty_object(*id));
        self.world.layer = heap.into_layer();
    }

    /// Notes all files of a load.
    fn note_files(&mut self) {
        let mut paths = BTreeSet::new();
        for file in (0..self.world.links.len() as u32).map(FileId) {
            self.note_file(file);
            let path = self.modules.get(file).map(|module| module.source.path.clone());
            if let Some(path) = path.filter(|path| !paths.insert(path.clone())) {
                self.files.insert(path, None);
            }
        }
    }

    fn note_file(&mut self, file: FileId) {
        let Some(module) = self.modules.get(file) else { return };
        self.files.insert(module.source.path.clone(), Some(file));
        self.has_luck |= module.atoms.iter().any(|atom| LUCKY.contains(&&**atom));
    }

    fn note_products(&mut self, objects: &[ObjectId]) {
        let heap = Heap::over(&self.world.layer);
        for id in objects {
            if let Some(target) = heap.object(*id).target {
                self.made_for.entry(target).or_default().push(*id);
            }
        }
    }

    /// An interpreter over the world, which stays as it is.
    pub(crate) fn interpreter<'s>(&'s self, outside: Box<dyn Outside + 's>) -> Interpreter<'s> {
        let scope =
            Scope { types: &self.types, modules: &self.modules, bounds: BOUNDS, stage: None };
        Interpreter::over(&self.world, &scope, outside)
    }

    /// All objects as text; see [`crate::dump`].
    pub fn objects(&self) -> String {
        let describe = |place: crate::Place| {
            let source = self.modules.source(place.file.0);
            source.map_or("?".to_owned(), |source| source.describe(place.span.start))
        };
        crate::dump::objects(&self.world, &self.types, Only::default(), &describe)
    }

    /// Whether a file of this path was read for the rules.
    pub fn reads(&self, path: &str) -> bool {
        self.files.contains_key(path)
    }

    /// Containers of which so many copies run on all hosts together.
    pub fn replicated(&self) -> Vec<Replicated> {
        copies::replicated(&self.world, &self.types)
    }

    /// Which groups each container, machine and group is in; those that are in none are left out.
    pub fn membership(&self) -> Membership {
        membership::membership(&self.world, &self.types)
    }

    /// What the rules made.
    pub fn products(&self) -> &Products {
        &self.products
    }
}

#[cfg(test)]
mod tests;

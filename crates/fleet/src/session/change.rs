//! An edit of a loaded configuration: what reads the edited objects is made again.

use std::collections::BTreeSet;

use super::{Message, Session};
use crate::diagnostic::Severity;
use crate::engine::Options;
use crate::engine::change::{self, Remade};
use crate::eval::Scope;
use crate::heap::Heap;
use crate::made::Weaver;
use crate::source::{FileId, Source};
use crate::units::{self, Units};
use crate::value::ObjectId;

/// What a change made otherwise.
#[derive(Debug, Default)]
pub struct Delta {
    /// Paths of unit files that are new, gone or made again.
    pub paths: BTreeSet<Box<str>>,
    /// What there is to tell of them.
    pub warnings: Vec<Message>,
}

impl Session {
    /// Takes over new texts of files that do nothing but define objects (a new file was empty
    /// before, one that is gone is empty now), making again what reads
    /// those and nothing else. Nothing if that is not possible, or if there are faults: a load
    /// from scratch says which.
    pub fn change(
        mut self,
        modified: &[Source],
        options: &Options<'_>,
    ) -> Option<(Session, Delta)> {
        let mut delta = Delta::default();
        for source in modified {
            let old = match self.files.get(&source.path) {
                Some(file) => (*file)?,
                None => self.read(&Source::new(&source.path, b""))?,
            };
            let new = self.read(source)?;
            if self.world.in_sequence || self.has_luck || self.remade > self.products.len() {
                return None;
            }
            let scope = Scope {
                types: &self.types,
                modules: &self.modules,
                bounds: options.bounds,
                stage: None,
            };
            let Remade { world, gone, made } =
                change::remake(self.world, scope, *options, (old, new), &self.made_for)?;
            self.world = world;
            gone.iter().for_each(|id| {
                self.made_for.remove(id);
            });
            self.note_products(&made);
            self.remade += made.len();
            self.take(&gone, &made, &mut delta)?;
        }
        Some((self, delta))
    }

    /// Parses a text and makes its names known; nothing if it has faults.
    fn read(&mut self, source: &Source) -> Option<FileId> {
        let file = FileId(self.world.links.len() as u32);
        let (module, faults) = crate::parse(file, source.clone());
        if !faults.is_empty() {
            return None;
        }
        let module = self.modules.add(module)?;
        let mut heap = Heap::from_layer(std::mem::take(&mut self.world.layer));
        self.world.links.push(module.atoms.iter().map(|atom| heap.intern(atom)).collect());
        self.world.layer = heap.into_layer();
        self.note_file(file);
        Some(file)
    }

    /// The unit files of what was made, in the place of those of what is gone.
    fn take(&mut self, gone: &[ObjectId], made: &[ObjectId], delta: &mut Delta) -> Option<()> {
        for path in gone.iter().filter_map(|id| self.paths.remove(id)) {
            self.products.remove(&path);
            delta.paths.insert(path);
        }
        let units = Units { world: &self.world, types: &self.types, directory: &self.directory };
        let (made, faults) = units.some(made);
        for (unit, fault) in faults {
            if fault.severity == Severity::Error {
                return None;
            }
            delta.warnings.push(Message::of(&units::named(unit, fault), &self.modules));
        }
        let mut weaver = Weaver {
            world: &self.world,
            types: &self.types,
            modules: &self.modules,
            shared: &mut self.shared,
        };
        let mut written = Vec::new();
        for unit in made {
            let product = weaver.product(&unit);
            // Something else makes this unit too.
            if self.products.insert(unit.path.clone(), product).is_some() {
                return None;
            }
            self.paths.insert(unit.object, unit.path.clone());
            written.push(unit.object);
            delta.paths.insert(unit.path);
        }
        if self.is_slim {
            self.empty(&written);
        }
        Some(())
    }
}

//! Which assignments set what of an object, by the keys that lead there.

use std::collections::BTreeMap;

use super::Dump;
use crate::ast::{Kind, Module, NodeId};
use crate::heap::Heap;
use crate::modules::Modules;
use crate::source::Place;
use crate::value::{Hint, Object, Trail};

/// The places that set a value, and those that set what is in it.
#[derive(Default)]
pub(super) struct Hints {
    pub(super) messages: Vec<Place>,
    pub(super) below: BTreeMap<Vec<u8>, Hints>,
}

impl Hints {
    /// The places of an object's attributes.
    pub(super) fn of(
        dump: &Dump<'_>,
        heap: &Heap<'_>,
        written: &SourceHints<'_>,
        object: &Object,
    ) -> Hints {
        let mut all = Hints::default();
        let trail = heap.trail(object);
        all.templates(dump, written, (object, trail));
        all.rule(dump, heap, object, written.extent(object.origin));
        for hint in &trail.hints {
            let names = [Some(hint.attribute), hint.key];
            let names = names.into_iter().flatten().map(|name| heap.bytes(name));
            let below = hint.key.map(|_| written.below(hint)).unwrap_or_default();
            all.at(names.chain(below)).messages.push(written.extent(hint.place));
        }
        all
    }

    fn at<'n>(&mut self, names: impl Iterator<Item = &'n [u8]>) -> &mut Hints {
        names.fold(self, |at, name| at.below.entry(name.to_vec()).or_default())
    }

    fn set(&mut self, attribute: &str, place: Place) {
        self.at([attribute.as_bytes()].into_iter()).messages.push(place);
    }

    /// An object is its own first template; the others are where they are defined.
    fn templates(
        &mut self,
        dump: &Dump<'_>,
        written: &SourceHints<'_>,
        (object, trail): (&Object, &Trail),
    ) {
        self.set("templates", written.extent(object.origin));
        for name in trail.templates.iter().skip(1) {
            if let Some(template) = dump.world.definitions.importable(object.of_type, *name) {
                self.set("templates", written.extent(template.place));
            }
        }
    }

    /// What a rule sets itself: the names of what its product belongs to, the product's own name
    /// when that is a service, and the package.
    fn rule(&mut self, dump: &Dump<'_>, heap: &Heap<'_>, object: &Object, rule: Place) {
        let (Some(target), of_type) = (object.target, dump.types.get(object.of_type)) else {
            return;
        };
        let Some(rules) = &of_type.rules else { return };
        let target = dump.types.get(heap.object(target).of_type);
        let owners = target.rules.iter().flat_map(|rules| &rules.target_names);
        let owners = owners.map(|(owner, _)| *owner).chain([target.name.as_str()]);
        let owners: Vec<&str> = owners.collect();
        let names = rules.target_names.iter().chain(&rules.preset_names);
        let names = names.filter(|(owner, _)| owners.contains(owner)).map(|(_, name)| *name);
        let own = (of_type.name == "Service").then_some("name");
        for attribute in names.chain(own).chain(["package"]) {
            self.set(attribute, rule);
        }
    }
}

/// What the files say at a place, beyond what objects remember of it.
#[derive(Default)]
pub(super) struct SourceHints<'m> {
    /// What is assigned to: an object's hints have two keys, an assignment's text has all.
    targets: BTreeMap<Place, (&'m Module, NodeId)>,
    /// All that stands before the body of a definition, by its head.
    extents: BTreeMap<Place, Place>,
}

impl<'m> SourceHints<'m> {
    pub(super) fn of(modules: &'m Modules) -> SourceHints<'m> {
        let mut all = SourceHints::default();
        for module in modules.all() {
            let targets = module.assignments().map(|(id, to)| (module.place(id), (module, to)));
            all.targets.extend(targets);
            let place = |span| Place { file: module.file, span };
            let extents = module.definitions().map(|it| (place(it.head), place(it.extent)));
            all.extents.extend(extents);
        }
        all
    }

    /// A place; of a definition, all that stands before its body.
    pub(super) fn extent(&self, place: Place) -> Place {
        self.extents.get(&place).copied().unwrap_or(place)
    }

    /// The literal keys after the first two: `c` and `d` of `vars.b.c.d = 1`.
    fn below(&self, hint: &Hint) -> Vec<&'m [u8]> {
        let Some((module, target)) = self.targets.get(&hint.place).copied() else {
            return Vec::new();
        };
        let (mut at, mut keys) = (module.bare(target), Vec::new());
        while let Kind::Index(base, key) = module.node(at).kind {
            at = module.bare(base);
            keys.push(match module.node(module.bare(key)).kind {
                Kind::String(atom) => Some(module.atom(atom)),
                _ => None,
            });
        }
        keys.reverse();
        // `this` is followed by the attribute's name.
        let known = if matches!(module.node(at).kind, Kind::This) { 2 } else { 1 };
        keys.into_iter().skip(known).map_while(|key| key).collect()
    }
}

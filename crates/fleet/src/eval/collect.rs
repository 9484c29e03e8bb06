//! Which values are in use while something is evaluated: see `heap::collect`.
//!
//! What is evaluated is held until what it is part of is evaluated too, so that between two statements
//! nothing is in use but what variables, objects and definitions reach, and what is held.

use super::{Frame, Interpreter};
use crate::value::{StringId, Value};

impl<'p> Interpreter<'p> {
    /// Keeps a value in use until what is being evaluated is done.
    pub(crate) fn hold(&mut self, value: Value) {
        use Value::{Array, Dictionary, Function, Namespace, Reference, String};
        if let String(_) | Array(_) | Dictionary(_) | Namespace(_) | Function(_) | Reference(_) =
            value
        {
            self.held.push(value);
        }
    }

    /// The same with what a body sees.
    pub(crate) fn hold_frame(&mut self, frame: &Frame<'p>) {
        self.hold(frame.this);
        self.hold(Value::Dictionary(frame.locals));
    }

    /// How much is held: what to let go to.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }

    /// Lets go what was held since.
    pub(crate) fn let_go(&mut self, held: usize) {
        self.held.truncate(held);
    }

    /// Between two statements: gives back what nobody reaches, if there is much.
    pub(super) fn collect_if_due(&mut self) {
        if self.busy == 0 && self.heap.is_due(self.bounds.unreached_bytes) {
            let (values, names) = (self.values_in_use(), self.names_in_use());
            self.heap.collect(values, &names);
        }
    }

    fn values_in_use(&self) -> Vec<Value> {
        let mut all = self.held.clone();
        let roots = &self.roots;
        let spaces = roots.imports.iter().chain([&roots.globals]).chain(&roots.prototypes);
        all.extend(spaces.map(|space| Value::Namespace(*space)));
        all.extend(&roots.type_names);
        all.extend(roots.attributes.iter().flatten().map(|attribute| attribute.unset));
        all.extend(self.expected.iter().flatten().filter_map(|expected| expected.check));
        let captured = self.definitions.all().flat_map(|definition| &definition.captured);
        all.extend(captured.map(|(_, value)| *value));
        all
    }

    fn names_in_use(&self) -> Vec<StringId> {
        let roots = &self.roots;
        let mut all = vec![roots.name, roots.kind];
        all.extend(roots.attributes.iter().flatten().map(|attribute| attribute.name));
        all.extend(self.links.iter().flatten());
        all.extend(self.zone.into_iter().chain(self.package).chain(self.zones.iter().copied()));
        for definition in self.definitions.all() {
            all.push(definition.name);
            all.extend(definition.zone.into_iter().chain(definition.package));
            all.extend(definition.captured.iter().map(|(name, _)| *name));
        }
        let rules = self.types.of_objects().filter_map(|id| self.types.get(id).rules.as_ref());
        all.extend(rules.filter_map(|rules| self.heap.find(rules.variable.as_bytes())));
        all
    }
}

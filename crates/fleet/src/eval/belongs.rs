//! What objects belong to, and the full names that follow from that: `host!service!notification`.

use super::Interpreter;
use crate::types::Naming;
use crate::value::{Object, ObjectId, StringId, Value};

impl Interpreter<'_> {
    /// Gives an object whose body ran its full name; `given` is the name that it was made with.
    pub(crate) fn set_full_name(&mut self, id: ObjectId, given: StringId) {
        let object = self.heap.object(id);
        let (name, target) = (object.name, object.target);
        let rules = self.types.get(object.of_type).rules.as_ref();
        let full = match rules.map(|rules| rules.naming).unwrap_or_default() {
            Naming::Plain => return,
            Naming::Prefixed if name != given => return,
            Naming::Prefixed => match target.map(|target| self.heap.object(target).name) {
                Some(target) => [self.heap.bytes(target), b"-", self.heap.bytes(name)].concat(),
                None => return,
            },
            Naming::Composite => self.composite_name(object),
        };
        let full = self.heap.intern(&full);
        if let Ok(object) = self.heap.object_mut(id) {
            object.name = full;
        }
    }

    /// What the attributes say that an object belongs to stands before its name, whatever a rule
    /// made it for.
    fn composite_name(&self, object: &Object) -> Vec<u8> {
        let rules = self.types.get(object.of_type).rules.as_ref();
        let mut full = Vec::new();
        // The host, which is last there, is part of every name.
        let names = rules.into_iter().flat_map(|rules| rules.target_names.iter().rev());
        for (at, (_, attribute)) in names.enumerate() {
            let part = self.text_attribute(object, attribute).unwrap_or_default();
            if at == 0 || !part.is_empty() {
                full.extend_from_slice(part);
                full.push(b'!');
            }
        }
        full.extend_from_slice(self.heap.bytes(object.name));
        full
    }

    fn text_attribute(&self, object: &Object, attribute: &str) -> Option<&[u8]> {
        match object.attributes.get(self.heap.find(attribute.as_bytes())?)? {
            Value::String(text) => Some(self.heap.bytes(text)),
            _ => None,
        }
    }

    /// What an object belongs to: what its attributes name, where they are part of its name; else
    /// what a rule made it for.
    pub(crate) fn owner(&self, id: ObjectId) -> Option<ObjectId> {
        let object = self.heap.object(id);
        let rules = self.types.get(object.of_type).rules.as_ref()?;
        if rules.naming != Naming::Composite && object.target.is_some() {
            return object.target;
        }
        rules.target_names.iter().enumerate().find_map(|(at, (of_type, attribute))| {
            let of_type = self.types.find(of_type.as_bytes())?;
            let name = self.text_attribute(object, attribute).filter(|name| !name.is_empty())?;
            let owner = self.types.get(of_type).rules.as_ref();
            let full = match owner.is_some_and(|owner| owner.naming == Naming::Composite) {
                // The service's host is named beside it.
                true => {
                    let host = self.text_attribute(object, rules.target_names.get(at + 1)?.1)?;
                    [host, b"!", name].concat()
                }
                false => name.to_vec(),
            };
            self.find_object(of_type, self.heap.find(&full)?)
        })
    }
}

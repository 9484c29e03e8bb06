//! Assignments: what is written to, and the dictionaries that come into being on the way.

use super::{Flow, Frame, Interpreter, Outcome, fail};
use crate::ast::{Binary, Kind, NodeId, Unary};
use crate::source::Place;
use crate::types::Types;
use crate::value::{Hint, ObjectId, Reference, StringId, Table, Value};

impl<'p> Interpreter<'p> {
    /// `target = value` or `target += value`.
    pub(super) fn assign(
        &mut self,
        frame: &Frame<'p>,
        id: NodeId,
        (operator, target, value): (Option<Binary>, NodeId, NodeId),
    ) -> Outcome {
        let place = frame.module.place(id);
        let (base, key) = self.target(frame, target)?;
        [base, key].into_iter().for_each(|value| self.hold(value));
        let mut value = self.evaluate(frame, value)?;
        if let Some(operator) = operator {
            let before = self.field_to_change(base, key, place)?;
            value = self.binary(place, operator, before, value)?;
        }
        self.set_field(base, key, value, place)?;
        self.warn_of_implicit_global(frame, (target, base), operator, place);
        if let Value::Object(object) = frame.this {
            self.hint(frame, object, (target, key), place);
        }
        Ok(Value::Empty)
    }

    /// What is there before a change: methods do not count as members here.
    fn field_to_change(&mut self, base: Value, key: Value, place: Place) -> Outcome {
        match base {
            Value::Dictionary(id) | Value::Namespace(id) => {
                let key = crate::ops::to_key(&mut self.heap, self.types, key);
                Ok(self.heap.dictionary(id).items.get(key).unwrap_or(Value::Empty))
            }
            base => self.field(base, key, place),
        }
    }

    /// A name that is set and declared nowhere is a global variable, often by mistake.
    fn warn_of_implicit_global(
        &mut self,
        frame: &Frame<'p>,
        (target, base): (NodeId, Value),
        operator: Option<Binary>,
        place: Place,
    ) {
        let Kind::Name(atom) = frame.module.node(target).kind else { return };
        let globals = self.roots.globals;
        let is_global = matches!(base, Value::Namespace(id) if id == globals);
        if !self.defines || !is_global || !self.warned.insert(place) {
            return;
        }
        let name = self.heap.text(self.atom(frame.module, atom));
        let sign = operator.map_or("", Binary::text);
        let message =
            format!("Global variable '{name}' has been set implicitly via '{name} {sign}= ...'");
        let help = format!("set it explicitly: `globals.{name} {sign}= ...`");
        self.warnings.push(crate::Diagnostic::warning(place, message).help(Some(help)));
    }

    /// The container and key of something that can be assigned to.
    pub(super) fn target(&mut self, frame: &Frame<'p>, id: NodeId) -> Result<(Value, Value), Flow> {
        let place = frame.module.place(id);
        match &frame.module.node(id).kind {
            Kind::Parenthesis(_) => self.target(frame, frame.module.bare(id)),
            Kind::Name(atom) => {
                let name = self.atom(frame.module, *atom);
                let found = self.find_variable(frame, id, name)?;
                let base = found.map_or(frame.this, |(base, _)| base);
                Ok((base, Value::String(name)))
            }
            Kind::Index(base, key) => {
                let base = self.container(frame, *base)?;
                Ok((base, self.evaluate(frame, *key)?))
            }
            Kind::Unary(Unary::Dereference, inner) => {
                let value = self.evaluate(frame, *inner)?;
                let Value::Reference(id) = value else {
                    return Err(self.no_object(value, place));
                };
                let reference = *self.heap.reference(id);
                Ok((reference.base, reference.key))
            }
            _ => Err(fail(place, "Expression cannot be assigned to.")),
        }
    }

    /// The value of an expression that is written into: where there is nothing, a dictionary is
    /// made.
    fn container(&mut self, frame: &Frame<'p>, id: NodeId) -> Outcome {
        let bare = frame.module.bare(id);
        let is_target = match &frame.module.node(bare).kind {
            Kind::Name(_) | Kind::Index(..) => true,
            Kind::Unary(operator, _) => *operator == Unary::Dereference,
            _ => false,
        };
        if !is_target {
            return self.evaluate(frame, bare);
        }
        let place = frame.module.place(bare);
        let (base, key) = self.target(frame, bare)?;
        let value = self.field_to_change(base, key, place)?;
        if !matches!(value, Value::Empty) {
            return Ok(value);
        }
        let made = self.heap.dictionary_of(Table::default(), place);
        self.set_field(base, key, made, place)?;
        Ok(made)
    }

    /// Notes where an attribute of an object was set.
    fn hint(
        &mut self,
        frame: &Frame<'p>,
        id: ObjectId,
        (target, key): (NodeId, Value),
        place: Place,
    ) {
        let last = crate::ops::to_key(&mut self.heap, self.types, key);
        let Some((attribute, key)) = self.attribute_path(frame, target, last) else { return };
        if let Some(trail) = self.heap.trail_mut(id) {
            trail.hints.push(Hint { attribute, key, place });
        }
    }

    /// `vars.role` or `vars` of an assignment's target, without `this.` before it. The target's last
    /// key is known, also where it was computed.
    fn attribute_path(
        &self,
        frame: &Frame<'p>,
        target: NodeId,
        last: StringId,
    ) -> Option<(StringId, Option<StringId>)> {
        let module = frame.module;
        let target = module.bare(target);
        // Of the keys so far the one nearest the name, and that before it.
        let (mut at, mut key, mut below) = (target, None, None);
        loop {
            match &module.node(at).kind {
                Kind::Name(atom) => {
                    let name = self.atom(module, *atom);
                    let is_local = self.heap.dictionary(frame.locals).items.get(name).is_some();
                    return (!is_local).then_some((name, key));
                }
                Kind::Index(base, next) => {
                    let literal = match module.node(module.bare(*next)).kind {
                        Kind::String(atom) => Some(self.atom(module, atom)),
                        _ => None,
                    };
                    let next = if at == target { Some(last) } else { literal };
                    (below, key) = (key, next);
                    at = module.bare(*base);
                }
                Kind::This => return Some((key?, below)),
                _ => return None,
            }
        }
    }

    /// `&target`: a variable, or a member of something that has members. Nothing is made on the way.
    pub(super) fn reference(&mut self, frame: &Frame<'p>, target: NodeId) -> Outcome {
        let target = frame.module.bare(target);
        let (base, key) = match &frame.module.node(target).kind {
            Kind::Index(base, key) => {
                let base = self.evaluate(frame, *base)?;
                (base, self.evaluate(frame, *key)?)
            }
            _ => self.target(frame, target)?,
        };
        match base {
            Value::Empty | Value::Boolean(_) | Value::Number(_) | Value::String(_) => {
                Err(self.no_object(base, frame.module.place(target)))
            }
            base => Ok(Value::Reference(self.heap.make_reference(Reference { base, key }))),
        }
    }

    /// `*reference`.
    pub(super) fn dereference(&mut self, value: Value, place: Place) -> Outcome {
        let Value::Reference(id) = value else { return Err(self.no_object(value, place)) };
        let reference = *self.heap.reference(id);
        self.field(reference.base, reference.key, place)
    }

    pub(super) fn no_object(&self, value: Value, place: Place) -> Flow {
        let types: &Types = self.types;
        let of_type = types.name_of(&self.heap, value);
        fail(place, format!("Cannot convert value of type '{of_type}' to an object."))
    }
}

//! Statements: blocks, loops, declarations.

use super::{Flow, Frame, Interpreter, Outcome, fail};
use crate::ast::{Kind, Loop, NodeId};
use crate::source::Place;
use crate::text;
use crate::value::{Dictionary, DictionaryId, Rare, StringId, Value, Writes};

impl<'p> Interpreter<'p> {
    /// Statements one after another; the value of the last.
    pub(super) fn block(&mut self, frame: &Frame<'p>, statements: &[NodeId]) -> Outcome {
        let (mut value, held) = (Value::Empty, self.held());
        for statement in statements {
            self.let_go(held);
            self.collect_if_due();
            value = self.evaluate(frame, *statement)?;
        }
        Ok(value)
    }

    pub(super) fn statement(&mut self, frame: &Frame<'p>, id: NodeId) -> Outcome {
        let place = frame.module.place(id);
        match &frame.module.node(id).kind {
            Kind::Assign(operator, target, value) => {
                self.assign(frame, id, (*operator, *target, *value))
            }
            Kind::Var(name, value) => {
                let value = value.map_or(Ok(Value::Empty), |value| self.evaluate(frame, value))?;
                let name = self.atom(frame.module, *name);
                self.set_local(frame, name, value, place)
            }
            Kind::Const(name, value) => {
                let value = self.evaluate(frame, *value)?;
                self.constant(self.atom(frame.module, *name), value, place)
            }
            Kind::While(condition, body) => self.while_loop(frame, *condition, body),
            Kind::For(each) => self.for_loop(frame, id, each),
            Kind::Try(body, except) => self.try_block(frame, body, except),
            Kind::Throw(value) => {
                let value = self.evaluate(frame, *value)?;
                let text = text::string(&self.heap, self.types, value);
                Err(fail(place, String::from_utf8_lossy(&text)))
            }
            Kind::Return(value) => {
                let value = value.map_or(Ok(Value::Empty), |value| self.evaluate(frame, value))?;
                Err(Flow::Return(value, place))
            }
            Kind::Break => Err(Flow::Break(place)),
            Kind::Continue => Err(Flow::Continue(place)),
            Kind::Definition(definition) => self.define(frame, id, definition),
            Kind::Import(name) => self.import(frame, id, *name),
            Kind::Include(kind, arguments) => self.include(frame, id, *kind, arguments),
            Kind::Namespace(target, body) => self.namespace(frame, id, *target, body),
            Kind::Library(name) => self.evaluate(frame, *name).map(|_| Value::Empty),
            Kind::Error => Err(fail(place, "this statement has a syntax error")),
            _ => Ok(Value::Empty),
        }
    }

    pub(crate) fn set_local(
        &mut self,
        frame: &Frame<'p>,
        name: StringId,
        value: Value,
        place: Place,
    ) -> Outcome {
        let locals = Value::Dictionary(frame.locals);
        self.set_field(locals, Value::String(name), value, place)?;
        Ok(Value::Empty)
    }

    fn constant(&mut self, name: StringId, value: Value, place: Place) -> Outcome {
        let globals = self.roots.globals;
        if self.defined_constant(globals, name) {
            let text = self.heap.text(name);
            let message = format!("the constant `{text}` is already set");
            self.warnings.push(crate::Diagnostic::warning(place, message));
        }
        let frozen = self.heap.dictionary_mut(globals).err();
        if let Some(frozen) = frozen {
            return Err(self.frozen("namespace", frozen, place));
        }
        self.set_constant(globals, name, value);
        Ok(Value::Empty)
    }

    fn defined_constant(&self, scope: DictionaryId, name: StringId) -> bool {
        let rare = self.heap.dictionary(scope).rare.as_ref();
        rare.is_some_and(|rare| rare.constants.binary_search(&name).is_ok())
    }

    /// Sets a member that cannot be changed from then on. Nothing happens in a frozen one.
    pub(crate) fn set_constant(&mut self, scope: DictionaryId, name: StringId, value: Value) {
        if let Ok(dictionary) = self.heap.dictionary_mut(scope) {
            dictionary.items.set(name, value);
            let rare = dictionary.rare.get_or_insert_with(Box::<Rare>::default);
            if let Err(at) = rare.constants.binary_search(&name) {
                rare.constants.insert(at, name);
            }
        }
    }

    fn while_loop(&mut self, frame: &Frame<'p>, condition: NodeId, body: &[NodeId]) -> Outcome {
        while self.is_true(frame, condition)? {
            if self.turn(frame, body)?.is_break() {
                break;
            }
        }
        Ok(Value::Empty)
    }

    /// One turn of a loop; whether it goes on.
    fn turn(
        &mut self,
        frame: &Frame<'p>,
        body: &[NodeId],
    ) -> Result<std::ops::ControlFlow<()>, Flow> {
        match self.block(frame, body) {
            Ok(_) | Err(Flow::Continue(_)) => Ok(std::ops::ControlFlow::Continue(())),
            Err(Flow::Break(_)) => Ok(std::ops::ControlFlow::Break(())),
            Err(flow) => Err(flow),
        }
    }

    fn for_loop(&mut self, frame: &Frame<'p>, id: NodeId, each: &Loop) -> Outcome {
        let place = frame.module.place(id);
        let collection = self.evaluate(frame, each.collection)?;
        let value_name = self.atom(frame.module, each.value);
        match (collection, each.key) {
            (Value::Array(array), None) => {
                let mut at = 0;
                // The array may grow or shrink meanwhile.
                while let Some(item) = self.heap.array(array).items.get(at).copied() {
                    self.set_local(frame, value_name, item, place)?;
                    if self.turn(frame, &each.body)?.is_break() {
                        break;
                    }
                    at += 1;
                }
                Ok(Value::Empty)
            }
            (Value::Dictionary(dictionary) | Value::Namespace(dictionary), Some(key)) => {
                let key_name = self.atom(frame.module, key);
                let entries = self.heap.sorted(dictionary);
                entries.iter().for_each(|(key, _)| self.hold(Value::String(*key)));
                for (key, _) in entries {
                    // It may have been removed meanwhile.
                    let Some(value) = self.heap.dictionary(dictionary).items.get(key) else {
                        continue;
                    };
                    self.set_local(frame, key_name, Value::String(key), place)?;
                    self.set_local(frame, value_name, value, place)?;
                    if self.turn(frame, &each.body)?.is_break() {
                        break;
                    }
                }
                Ok(Value::Empty)
            }
            (other, key) => Err(fail(place, self.no_loop(other, key.is_some()))),
        }
    }

    fn no_loop(&self, collection: Value, has_key: bool) -> String {
        match collection {
            Value::Array(_) => "Cannot use dictionary iterator for array.".to_owned(),
            Value::Dictionary(_) => "Cannot use array iterator for dictionary.".to_owned(),
            Value::Namespace(_) if !has_key => {
                "Cannot use array iterator for namespace.".to_owned()
            }
            other => format!("Invalid type in for expression: {}", self.type_of(other)),
        }
    }

    /// `except` runs after any fault but a bound that was reached.
    fn try_block(&mut self, frame: &Frame<'p>, body: &[NodeId], except: &[NodeId]) -> Outcome {
        let depth = self.depth;
        match self.block(frame, body) {
            Ok(_) => Ok(Value::Empty),
            Err(Flow::Fail(fault)) if fault.is_caught => {
                self.depth = depth;
                self.block(frame, except).map(|_| Value::Empty)
            }
            Err(flow) => Err(flow),
        }
    }

    /// A namespace's statements set its members, each once, and see no variables around them.
    fn namespace(
        &mut self,
        frame: &Frame<'p>,
        id: NodeId,
        target: NodeId,
        body: &[NodeId],
    ) -> Outcome {
        let place = frame.module.place(id);
        // What it is a member of is made first, if it has to be: its statements see that.
        let (base, key) = self.target(frame, target)?;
        let rare = Some(Box::new(Rare { writes: Writes::Once, ..Rare::default() }));
        let made = Dictionary { origin: place, rare, ..Dictionary::default() };
        let space = Value::Namespace(self.heap.make_dictionary(made));
        let inner = self.frame(frame.module, space);
        [base, key].into_iter().for_each(|value| self.hold(value));
        self.hold_frame(&inner);
        self.block(&inner, body)?;
        self.set_field(base, key, space, place)?;
        Ok(Value::Empty)
    }
}

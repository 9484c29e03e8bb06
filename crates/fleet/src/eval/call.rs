//! Functions: making them and calling them.

use super::{Flow, Frame, Interpreter, Outcome, end_of_body, fail};
use crate::ast::{Function, Kind, NodeId, Unary};
use crate::library::{BUILTINS, Call};
use crate::source::Place;
use crate::value::{BuiltinId, Closure, FunctionId, StringId, Table, TypeId, Value};

impl<'p> Interpreter<'p> {
    /// A function expression, or a `function` statement, which also sets its name.
    pub(super) fn function(
        &mut self,
        frame: &Frame<'p>,
        id: NodeId,
        function: &Function,
    ) -> Outcome {
        let captured = self.capture(frame, id, &function.captured)?;
        let name = function.name.map(|atom| self.atom(frame.module, atom));
        let closure = Closure { file: frame.module.file, node: id, name, captured };
        let value = Value::Function(self.heap.make_function(closure));
        let Some(name) = name else { return Ok(value) };
        self.set_field(frame.this, Value::String(name), value, frame.module.place(id))?;
        Ok(Value::Empty)
    }

    /// The variables that `use` takes along; of one that it names twice the first.
    pub(super) fn capture(
        &mut self,
        frame: &Frame<'p>,
        id: NodeId,
        captured: &[crate::ast::Captured],
    ) -> Result<Box<[(StringId, Value)]>, Flow> {
        let mut out: Vec<(StringId, Value)> = Vec::with_capacity(captured.len());
        for (atom, value) in captured {
            let name = self.atom(frame.module, *atom);
            if out.iter().any(|(other, _)| *other == name) {
                continue;
            }
            let value = match value {
                Some(value) => self.evaluate(frame, *value)?,
                None => self.variable(frame, id, *atom)?,
            };
            out.push((name, value));
        }
        Ok(out.into())
    }

    /// `callee(arguments)`. The function's `this` is what its name was found in.
    pub(super) fn call_node(
        &mut self,
        frame: &Frame<'p>,
        id: NodeId,
        callee: NodeId,
        arguments: &[NodeId],
    ) -> Outcome {
        let place = frame.module.place(id);
        let (this, function) = self.callee(frame, callee)?;
        let mut values = Vec::with_capacity(arguments.len());
        for argument in arguments {
            values.push(self.evaluate(frame, *argument)?);
        }
        self.call(function, this, &values, place)
    }

    fn callee(&mut self, frame: &Frame<'p>, id: NodeId) -> Result<(Value, Value), Flow> {
        let id = frame.module.bare(id);
        match &frame.module.node(id).kind {
            Kind::Unary(Unary::Dereference, _) => {
                let (base, key) = self.target(frame, id)?;
                Ok((base, self.field(base, key, frame.module.place(id))?))
            }
            Kind::Index(base, key) => {
                let base = self.evaluate(frame, *base)?;
                let key = self.evaluate(frame, *key)?;
                let function = self.field(base, key, frame.module.place(id))?;
                Ok((base, function))
            }
            Kind::Name(atom) => {
                let name = self.atom(frame.module, *atom);
                if let Some(found) = self.find_variable(frame, id, name)? {
                    return Ok(found);
                }
                // A method of `this`, which only a call finds by its bare name.
                match self.field(frame.this, Value::String(name), frame.module.place(id)) {
                    Ok(Value::Empty) | Err(_) => Err(self.undefined(frame, id, name)),
                    Ok(method) => Ok((frame.this, method)),
                }
            }
            _ => {
                let function = self.evaluate(frame, id)?;
                Ok((Value::Namespace(self.roots.globals), function))
            }
        }
    }

    /// Calls a function, a function of the library, or a type's constructor.
    pub(crate) fn call(
        &mut self,
        function: Value,
        this: Value,
        arguments: &[Value],
        place: Place,
    ) -> Outcome {
        match function {
            Value::Function(id) => self.call_closure(id, this, arguments, place),
            Value::Builtin(id) => self.call_builtin(id, this, arguments, place),
            Value::Type(id) => self.construct(id, arguments, place),
            _ => Err(fail(place, "Argument is not a callable object.")),
        }
    }

    fn call_builtin(
        &mut self,
        id: BuiltinId,
        this: Value,
        arguments: &[Value],
        place: Place,
    ) -> Outcome {
        let builtin = &BUILTINS[id.0 as usize];
        if arguments.len() < builtin.least {
            return Err(fail(place, "Too few arguments for function."));
        }
        if arguments.len() > builtin.most {
            return Err(fail(place, "Too many arguments for function."));
        }
        self.busy += 1;
        let outcome = (builtin.run)(self, &Call { this, arguments, place });
        self.busy -= 1;
        outcome
    }

    fn call_closure(
        &mut self,
        id: FunctionId,
        this: Value,
        arguments: &[Value],
        place: Place,
    ) -> Outcome {
        let closure = self.heap.function(id);
        let (file, node) = (closure.file, closure.node);
        let Some(module) = self.modules.get(file) else {
            return Err(fail(place, "the function's file is gone"));
        };
        let Kind::Function(function) = &module.node(node).kind else {
            return Err(fail(place, "Argument is not a callable object."));
        };
        if arguments.len() < function.parameters.len() {
            return Err(fail(place, "Too few arguments for function"));
        }
        let mut locals: Table = closure.captured.iter().copied().collect();
        for (atom, value) in function.parameters.iter().zip(arguments) {
            locals.set(self.atom(module, *atom), *value);
        }
        let Value::Dictionary(locals) = self.heap.dictionary_of(locals, place) else {
            return Err(fail(place, "a function has variables"));
        };
        let frame = Frame { module, this, locals };
        self.hold_frame(&frame);
        let outcome = self.block(&frame, &function.body);
        end_of_body(outcome).map_err(Flow::Fail)
    }

    /// `String(3)`.
    fn construct(&mut self, id: TypeId, arguments: &[Value], place: Place) -> Outcome {
        crate::library::construct(self, id, &Call { this: Value::Empty, arguments, place })
    }
}

//! The evaluator: a walk over the tree.
//!
//! One [`Interpreter`] belongs to one thread and writes only its own heap's upper layer. Depth,
//! steps and memory are bounded. Start at [`Interpreter::evaluate`].

mod access;
mod assign;
mod belongs;
mod call;
mod collect;
mod define;
mod definitions;
mod fault;
mod include;
mod statement;
mod world;

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use define::Importing;
pub use define::Instance;
pub use definitions::{Definition, DefinitionIndex, ObjectIndex, Rule};
pub use fault::Fault;
pub use include::Addition;
pub use world::{Attribute, Expectation, Reads, Roots, Snippets, World};

use crate::ast::{Binary, Kind, Module, NodeId, Unary};
use crate::diagnostic::Diagnostic;
pub use crate::heap::Bounds;
use crate::heap::{Frozen, Heap};
use crate::modules::Modules;
use crate::ops::{self, Ops};
use crate::outside::{Facts, NoFacts, Outside};
use crate::source::{FileId, Place};
use crate::types::Types;
use crate::value::{DictionaryId, ObjectId, StringId, Table, Value};

/// How deep expressions and calls may be nested while they are evaluated; the installed program
/// has the same bound.
pub const DEPTH_MAX: usize = 300;

/// So many items are copied or looked at in a step.
const ITEMS_PER_STEP: u64 = 16;

/// After how many steps it is looked whether there is room for more values.
const ROOM_STEPS: u64 = 64;

/// Why evaluation did not come to the next expression.
#[derive(Debug)]
pub enum Flow {
    /// `break`.
    Break(Place),
    /// `continue`.
    Continue(Place),
    /// `return`.
    Return(Value, Place),
    /// A fault.
    Fail(Box<Fault>),
}

impl From<Box<Fault>> for Flow {
    fn from(fault: Box<Fault>) -> Flow {
        Flow::Fail(fault)
    }
}

/// What an expression comes to.
pub type Outcome = Result<Value, Flow>;

/// What a body of statements sees.
#[derive(Clone, Copy)]
pub struct Frame<'p> {
    /// The file.
    pub module: &'p Module,
    /// `this`.
    pub this: Value,
    /// `locals`.
    pub locals: DictionaryId,
}

/// The numbers of a file's names and strings in the heap, by file.
pub type Links<'p> = Cow<'p, [Box<[StringId]>]>;

/// What all interpreters of a run share and none changes.
#[derive(Clone, Copy)]
pub struct Scope<'p> {
    /// The types.
    pub types: &'p Types,
    /// The files.
    pub modules: &'p Modules,
    /// How much each interpreter may do.
    pub bounds: Bounds,
    /// The stage whose objects are being made; none where all are there.
    pub(crate) stage: Option<u8>,
}

/// Evaluates.
pub struct Interpreter<'p> {
    /// The values.
    pub heap: Heap<'p>,
    /// The types.
    pub types: &'p Types,
    /// The files.
    pub modules: &'p Modules,
    pub(crate) links: Links<'p>,
    pub(crate) roots: Cow<'p, Roots>,
    pub(crate) outside: Box<dyn Outside + 'p>,
    /// What functions say of the host.
    pub(crate) facts: &'p dyn Facts,
    /// Templates, objects and rules that were met.
    pub(crate) definitions: Cow<'p, DefinitionIndex>,
    /// The stage whose objects are being made.
    pub(crate) stage: Option<u8>,
    /// The objects of earlier stages.
    pub(crate) objects: Cow<'p, ObjectIndex>,
    /// Whether `object`, `template` and `apply` may be met.
    pub(crate) defines: bool,
    /// Values that are in use though no variable has them: what was evaluated and is part of something
    /// that is being evaluated, and what is being run.
    held: Vec<Value>,
    /// How many functions of the library are being run that may have values of their own.
    busy: usize,
    /// What is expected of what is made; none where nothing may be expected.
    pub(crate) expected: Option<Vec<Expectation>>,
    /// What was worth a warning.
    pub warnings: Vec<Diagnostic>,
    /// Assignments that there was a warning of.
    warned: BTreeSet<Place>,
    /// A fault of syntax or of the top level is noted, and what else there is evaluated.
    pub(crate) goes_on: bool,
    /// What was looked up; noted by readers too, which change nothing else.
    pub(crate) reads: RefCell<Reads>,
    /// The state of `random()`.
    pub(crate) random: u64,
    /// The zone whose files are being evaluated: objects are in it that do not say otherwise.
    pub(crate) zone: Option<StringId>,
    /// The package whose files are being evaluated.
    package: Option<StringId>,
    /// Zones of which there were files.
    zones: BTreeSet<StringId>,
    /// Files that are being included, to find circles.
    pub(crate) including: Vec<FileId>,
    /// Templates whose statements are being run, to name circles.
    importing: Vec<Importing>,
    /// What the includes in bodies find.
    pub(crate) snippets: Cow<'p, Snippets>,
    /// The object whose body is being run: what it belongs to is not known before the end of that.
    making: Option<ObjectId>,
    files: u32,
    depth: usize,
    steps: u64,
    /// How much may be done.
    pub bounds: Bounds,
    /// How many threads parse files that are included together.
    pub threads: usize,
}

impl<'p> Interpreter<'p> {
    /// An interpreter of a heap's values.
    pub fn new(
        heap: Heap<'p>,
        types: &'p Types,
        modules: &'p Modules,
        roots: Cow<'p, Roots>,
        outside: Box<dyn Outside + 'p>,
    ) -> Interpreter<'p> {
        Interpreter {
            heap,
            types,
            modules,
            links: Cow::Owned(Vec::new()),
            roots,
            outside,
            facts: &NoFacts,
            stage: None,
            definitions: Cow::Owned(DefinitionIndex::default()),
            objects: Cow::Owned(ObjectIndex::new()),
            defines: true,
            held: Vec::new(),
            busy: 0,
            expected: None,
            warnings: Vec::new(),
            warned: BTreeSet::new(),
            goes_on: false,
            reads: RefCell::default(),
            random: 0,
            zone: None,
            package: None,
            zones: BTreeSet::new(),
            including: Vec::new(),
            importing: Vec::new(),
            snippets: Cow::Owned(Snippets::default()),
            making: None,
            files: 0,
            depth: 0,
            steps: 0,
            bounds: Bounds::default(),
            threads: 1,
        }
    }

    /// An interpreter of what another one left behind, with a heap of its own above it.
    pub fn over(world: &'p World, scope: &Scope<'p>, outside: Box<dyn Outside + 'p>) -> Self {
        let heap = Heap::over(&world.layer);
        let roots = Cow::Borrowed(&world.roots);
        let mut interpreter = Interpreter::new(heap, scope.types, scope.modules, roots, outside);
        interpreter.links = Cow::Borrowed(&world.links);
        interpreter.definitions = Cow::Borrowed(&world.definitions);
        interpreter.objects = Cow::Borrowed(&world.objects);
        interpreter.snippets = Cow::Borrowed(&world.snippets);
        (interpreter.bounds, interpreter.stage) = (scope.bounds, scope.stage);
        interpreter.defines = false;
        // Files that it reads itself come after those of the world.
        interpreter.files = world.links.len() as u32;
        interpreter
    }

    /// What is left behind once the top level is evaluated: frozen, to be shared.
    ///
    /// # Panics
    /// If the interpreter is itself above a world.
    pub fn into_world(self) -> World {
        World {
            layer: self.heap.into_layer(),
            links: self.links.into_owned(),
            roots: self.roots.into_owned(),
            definitions: self.definitions.into_owned(),
            objects: self.objects.into_owned(),
            by_type: BTreeMap::new(),
            members: BTreeMap::new(),
            reads: Reads::new(),
            in_sequence: false,
            snippets: self.snippets.into_owned(),
            expected: self.expected.unwrap_or_default(),
        }
    }

    /// Whether a global variable is true.
    pub(crate) fn is_set(&self, global: &str) -> bool {
        let name = self.heap.find(global.as_bytes());
        let found = name.and_then(|name| self.find_global(name));
        found.is_some_and(|(_, value)| ops::is_true(&self.heap, value))
    }

    /// A frame for a file's statements or a body that belongs to nothing else.
    pub fn frame(&mut self, module: &'p Module, this: Value) -> Frame<'p> {
        let locals = self.heap.make_dictionary(crate::value::Dictionary::default());
        Frame { module, this, locals }
    }

    /// The value of a node.
    ///
    /// # Errors
    /// A fault, or the control flow that leaves the node.
    pub fn evaluate(&mut self, frame: &Frame<'p>, id: NodeId) -> Outcome {
        self.depth += 1;
        self.steps += 1;
        let kept = self.held.len();
        let out = match self.check_bounds(frame, id) {
            Ok(()) => self.node(frame, id),
            Err(flow) => Err(flow),
        };
        self.depth -= 1;
        self.held.truncate(kept);
        if let Ok(value) = &out {
            self.hold(*value);
        }
        out
    }

    /// Counts the steps of looking at so many items.
    pub(crate) fn charge(&mut self, items: usize) {
        self.steps += items as u64 / ITEMS_PER_STEP;
    }

    /// Forgets what was counted: what comes next may make as many steps again.
    pub(crate) fn count_anew(&mut self) {
        self.steps = 0;
        self.heap.count_anew();
    }

    fn check_bounds(&self, frame: &Frame<'p>, id: NodeId) -> Result<(), Flow> {
        let message = if self.depth > DEPTH_MAX {
            format!("Stack overflow while evaluating expression: more than {DEPTH_MAX} levels deep")
        } else if self.steps + self.heap.cells_made() / ITEMS_PER_STEP > self.bounds.steps {
            format!(
                "evaluation stopped after {} steps, the most that are allowed",
                self.bounds.steps
            )
        } else if self.steps.is_multiple_of(ROOM_STEPS) && !self.heap.has_room(&self.bounds) {
            "the rules need more memory than is allowed for values".to_owned()
        } else {
            return Ok(());
        };
        if let (true, Some(circle)) = (self.depth > DEPTH_MAX, self.circle_of_imports()) {
            return Err(circle.into());
        }
        let mut fault = Fault::at(frame.module.place(id), message);
        fault.is_caught = self.depth > DEPTH_MAX;
        Err(fault.into())
    }

    fn node(&mut self, frame: &Frame<'p>, id: NodeId) -> Outcome {
        match &frame.module.node(id).kind {
            Kind::Null => Ok(Value::Empty),
            Kind::Bool(value) => Ok(Value::Boolean(*value)),
            Kind::Number(value) => Ok(Value::Number(*value)),
            Kind::String(atom) => Ok(Value::String(self.atom(frame.module, *atom))),
            Kind::Name(atom) => self.variable(frame, id, *atom),
            Kind::This => Ok(frame.this),
            Kind::Globals => Ok(Value::Namespace(self.roots.globals)),
            Kind::Locals => Ok(Value::Dictionary(frame.locals)),
            Kind::CurrentFilename => Ok(self.heap.string(frame.module.source.path.as_bytes())),
            Kind::CurrentLine => Ok(Value::Number(f64::from(self.line(frame, id)))),
            Kind::Array(items) => self.array(frame, id, items),
            Kind::Dictionary(items) => self.dictionary(frame, id, items),
            // Parentheses are no level of depth.
            Kind::Parenthesis(_) => self.node(frame, frame.module.bare(id)),
            Kind::Unary(operator, operand) => self.unary(frame, id, *operator, *operand),
            Kind::Binary(operator @ (Binary::In | Binary::NotIn), a, b) => {
                // The right side comes first: in nothing there is nothing, whatever the left is.
                let b = self.evaluate(frame, *b)?;
                if ops::is_empty(&self.heap, b) {
                    return Ok(Value::Boolean(*operator == Binary::NotIn));
                }
                let a = self.evaluate(frame, *a)?;
                self.binary(frame.module.place(id), *operator, a, b)
            }
            Kind::Binary(operator, a, b) => {
                let (a, b) = (self.evaluate(frame, *a)?, self.evaluate(frame, *b)?);
                self.binary(frame.module.place(id), *operator, a, b)
            }
            Kind::And(parts) => self.until(frame, parts, false),
            Kind::Or(parts) => self.until(frame, parts, true),
            Kind::Conditional(condition, then, other) => {
                let chosen = if self.is_true(frame, *condition)? { then } else { other };
                self.evaluate(frame, *chosen)
            }
            Kind::Index(base, key) => {
                let base = self.evaluate(frame, *base)?;
                let key = self.evaluate(frame, *key)?;
                self.field(base, key, frame.module.place(id))
            }
            Kind::Call(callee, arguments) => self.call_node(frame, id, *callee, arguments),
            Kind::Function(function) => self.function(frame, id, function),
            Kind::If(condition, then, other) => match self.is_true(frame, *condition)? {
                true => self.block(frame, then),
                false => self.block(frame, other.as_deref().unwrap_or_default()),
            },
            Kind::Block(body) => self.block(frame, body),
            _ => self.statement(frame, id),
        }
    }

    /// The first part that decides `&&` or `||`, or the last one.
    fn until(&mut self, frame: &Frame<'p>, parts: &[NodeId], deciding: bool) -> Outcome {
        let mut value = Value::Empty;
        for part in parts {
            value = self.evaluate(frame, *part)?;
            if ops::is_true(&self.heap, value) == deciding {
                break;
            }
        }
        Ok(value)
    }

    pub(crate) fn is_true(&mut self, frame: &Frame<'p>, id: NodeId) -> Result<bool, Flow> {
        let value = self.evaluate(frame, id)?;
        Ok(ops::is_true(&self.heap, value))
    }

    /// Whether a filter holds. `return` in it says so as well.
    pub(crate) fn holds(&mut self, frame: &Frame<'p>, id: NodeId) -> Result<bool, Box<Fault>> {
        // Whoever asks has values that are not held.
        self.busy += 1;
        let value = end_of_body(self.evaluate(frame, id));
        self.busy -= 1;
        Ok(ops::is_true(&self.heap, value?))
    }

    fn line(&self, frame: &Frame<'p>, id: NodeId) -> u32 {
        frame.module.source.line_column(frame.module.node(id).span.start).0
    }

    fn array(&mut self, frame: &Frame<'p>, id: NodeId, items: &[NodeId]) -> Outcome {
        let values: Result<Vec<Value>, Flow> =
            items.iter().map(|item| self.evaluate(frame, *item)).collect();
        Ok(self.heap.array_of(values?, frame.module.place(id)))
    }

    /// A dictionary's items are statements whose `this` is the dictionary.
    fn dictionary(&mut self, frame: &Frame<'p>, id: NodeId, items: &[NodeId]) -> Outcome {
        let this = self.heap.dictionary_of(Table::default(), frame.module.place(id));
        self.hold(this);
        let inner = Frame { this, ..*frame };
        for item in items {
            self.evaluate(&inner, *item)?;
        }
        Ok(this)
    }

    fn unary(
        &mut self,
        frame: &Frame<'p>,
        id: NodeId,
        operator: Unary,
        operand: NodeId,
    ) -> Outcome {
        let place = frame.module.place(id);
        if operator == Unary::Reference {
            return self.reference(frame, operand);
        }
        let value = self.evaluate(frame, operand)?;
        match operator {
            Unary::Not => Ok(Value::Boolean(!ops::is_true(&self.heap, value))),
            Unary::Minus => match value {
                Value::Empty => Ok(Value::Number(0.0)),
                value => self.binary(place, Binary::Subtract, Value::Number(0.0), value),
            },
            Unary::Complement => {
                let number = ops::to_number(&self.heap, self.types, value);
                let number = number.map_err(|message| fail(place, message))?;
                Ok(Value::Number(!(number as i64) as f64))
            }
            Unary::Dereference => self.dereference(value, place),
            Unary::Plus | Unary::Reference => Ok(value),
        }
    }

    pub(crate) fn binary(&mut self, place: Place, operator: Binary, a: Value, b: Value) -> Outcome {
        let mut ops = Ops { heap: &mut self.heap, types: self.types, place };
        ops::binary(&mut ops, operator, a, b).map_err(|message| fail(place, message))
    }

    /// The heap's number of a name or string of a file.
    pub(crate) fn atom(&self, module: &Module, atom: crate::ast::AtomId) -> StringId {
        self.links[module.file.0 as usize][atom.0 as usize]
    }

    /// Makes a file's names known to the heap.
    pub(crate) fn link(&mut self, module: &Module) {
        let ids = module.atoms.iter().map(|atom| self.heap.intern(atom)).collect();
        let links = self.links.to_mut();
        let index = module.file.0 as usize;
        links.resize_with(links.len().max(index + 1), Box::default);
        links[index] = ids;
    }

    /// The first number of so many further files.
    pub(crate) fn next_files(&mut self, count: usize) -> FileId {
        let first = FileId(self.files);
        self.files = self.files.saturating_add(count as u32);
        first
    }

    /// A fault for a write to something frozen.
    pub(crate) fn frozen(&self, what: &str, frozen: Frozen, place: Place) -> Flow {
        let note = "it was made here; what the top level or another object made is frozen while \
                    objects are made";
        Fault::at(place, format!("this {what} is frozen and cannot be changed"))
            .note(frozen.origin, note)
            .help(Some(FROZEN_HELP.to_owned()))
            .into()
    }
}

/// What can be done about a write to something frozen.
const FROZEN_HELP: &str = "change a copy: `x.clone()` or `x + { ... }`; or, slower, make objects one \
                           after another: `const MakeInSequence = true`";

/// A fault.
pub(crate) fn fail(place: Place, message: impl Into<String>) -> Flow {
    Fault::at(place, message).into()
}

/// What leaves a body: a fault stays one, `break` and `continue` lead nowhere.
pub(crate) fn end_of_body(outcome: Outcome) -> Result<Value, Box<Fault>> {
    match outcome {
        Ok(value) | Err(Flow::Return(value, _)) => Ok(value),
        Err(Flow::Fail(fault)) => Err(fault),
        Err(Flow::Break(place) | Flow::Continue(place)) => {
            Err(Fault::at(place, "Invalid flow control statement."))
        }
    }
}

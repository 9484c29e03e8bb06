//! Filters compiled to tests of columns.
//!
//! A column is a path from the rule's target (`host.vars.role`). A test is one column against
//! constants, or against another column. What is none of this is kept as the expression it was
//! and evaluated row by row. Tests are shared: equal ones of different rules are one.

use std::collections::BTreeMap;

use crate::ast::{Binary, Kind, Module, NodeId, Unary};
use crate::eval::{Frame, Interpreter};
use crate::library::{BUILTINS, glob::Needed};
use crate::ops;
use crate::text;
use crate::value::{StringId, Value};

/// A value that can be compared and sorted by what it is, not by what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u8, u64);

impl Key {
    /// The key of a value.
    pub fn of(value: Value) -> Key {
        match value {
            Value::Empty => Key(0, 0),
            Value::Boolean(value) => Key(1, value.into()),
            Value::Number(value) => Key(2, value.to_bits()),
            Value::String(id) => Key(3, id.0.into()),
            Value::Array(id) => Key(4, id.0.into()),
            Value::Dictionary(id) => Key(5, id.0.into()),
            Value::Namespace(id) => Key(6, id.0.into()),
            Value::Function(id) => Key(7, id.0.into()),
            Value::Builtin(id) => Key(8, id.0.into()),
            Value::Type(id) => Key(9, id.0.into()),
            Value::Reference(id) => Key(10, id.0.into()),
            Value::Object(id) => Key(11, id.0.into()),
            Value::DateTime(value) => Key(12, value.to_bits()),
        }
    }
}

/// A path from a variable of the target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path {
    /// The variable: `host`.
    pub variable: StringId,
    /// The members: `vars`, `role`.
    pub members: Vec<StringId>,
}

/// A column of the matcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ColumnId(pub usize);

/// A test of the matcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestId(pub usize);

/// What is asked of a column's value.
#[derive(Clone, Debug)]
pub enum Question {
    /// Whether it counts as true: existence.
    IsTrue,
    /// Whether it equals a constant.
    Equal(Value),
    /// Whether it is one of several constants.
    OneOf(Vec<Value>),
    /// Whether a constant is in it.
    Has(Value),
    /// How it compares with a constant on the right.
    Compare(Binary, Value),
    /// How a constant on the left compares with it.
    Compared(Value, Binary),
    /// `match`: the pattern, what each match needs, and whether one of several texts is enough.
    Glob(Vec<u8>, Needed, bool),
    /// `regex`.
    Regex(crate::library::regex::Regex, bool),
    /// `cidr_match`.
    Cidr(crate::library::cidr::Network, bool),
    /// An operator with another column on the right.
    With(Binary, ColumnId),
}

/// One test.
#[derive(Clone, Debug)]
pub struct Test {
    /// The column.
    pub column: ColumnId,
    /// What is asked.
    pub question: Question,
}

/// Equal tests have equal identities.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity(ColumnId, &'static str, Vec<Key>, Vec<u8>);

/// A filter.
#[derive(Clone, Debug)]
pub enum Filter {
    /// The same for all.
    Constant(bool),
    /// All of them, from left to right.
    And(Vec<Filter>),
    /// One of them, from left to right.
    Or(Vec<Filter>),
    /// Not.
    Not(Box<Filter>),
    /// A test of a column.
    Test(TestId),
    /// An expression of a file to be evaluated row by row.
    Residual(NodeId),
}

/// The columns and tests of all rules of one target type.
#[derive(Debug, Default)]
pub struct Tests {
    columns: BTreeMap<Path, ColumnId>,
    /// The paths, by number.
    pub paths: Vec<Path>,
    identities: BTreeMap<Identity, TestId>,
    /// The tests, by number.
    pub tests: Vec<Test>,
}

impl Tests {
    fn column(&mut self, path: Path) -> ColumnId {
        let next = ColumnId(self.paths.len());
        let id = *self.columns.entry(path.clone()).or_insert(next);
        if id == next {
            self.paths.push(path);
        }
        id
    }

    fn test(&mut self, identity: Identity, question: Question) -> Filter {
        let next = TestId(self.tests.len());
        let column = identity.0;
        let id = *self.identities.entry(identity).or_insert(next);
        if id == next {
            self.tests.push(Test { column, question });
        }
        Filter::Test(id)
    }
}

/// How deep a filter may be nested to be compiled; deeper ones are evaluated as they are.
const DEPTH_MAX: usize = 100;

/// What filters of one rule are compiled with.
pub struct Compiler<'c, 'p> {
    /// Evaluates constants. Nothing that it makes outlives the matching.
    pub run: &'c mut Interpreter<'p>,
    /// Where columns and tests are collected.
    pub tests: &'c mut Tests,
    /// The rule's file, with what `use` took along as variables.
    pub frame: Frame<'p>,
    /// Variables of the target.
    pub variables: &'c [StringId],
    /// Variables that differ from product to product: those of a `for`.
    pub loop_variables: &'c [StringId],
}

/// An operand.
enum Operand {
    Constant(Value),
    Column(ColumnId),
}

impl<'p> Compiler<'_, 'p> {
    fn module(&self) -> &'p Module {
        self.frame.module
    }

    /// Compiles a filter.
    pub fn filter(&mut self, id: NodeId, depth: usize) -> Filter {
        if depth > DEPTH_MAX || (depth == 0 && self.depends_on_luck(id)) {
            return Filter::Residual(id);
        }
        let id = self.module().bare(id);
        match &self.module().node(id).kind {
            Kind::And(parts) => Filter::And(self.filters(parts, depth)),
            Kind::Or(parts) => Filter::Or(self.filters(parts, depth)),
            Kind::Unary(Unary::Not, inner) => Filter::Not(Box::new(self.filter(*inner, depth + 1))),
            Kind::Binary(operator, a, b) => {
                self.comparison(*operator, *a, *b).unwrap_or(Filter::Residual(id))
            }
            Kind::Call(callee, arguments) if arguments.len() > 1 => self
                .matching(*callee, arguments)
                .or_else(|| self.truth(id))
                .unwrap_or(Filter::Residual(id)),
            _ => self.truth(id).unwrap_or(Filter::Residual(id)),
        }
    }

    /// A filter with `random` in it is evaluated as a whole, so that its calls come in order.
    fn depends_on_luck(&self, id: NodeId) -> bool {
        let (module, span) = (self.module(), self.module().node(id).span);
        let from = module.tokens.partition_point(|token| token.span.start < span.start);
        let inside = module.tokens[from..].iter().take_while(|token| token.span.end <= span.end);
        let text = &module.source.text;
        inside
            .into_iter()
            .any(|token| &text[token.span.start as usize..token.span.end as usize] == b"random")
    }

    fn filters(&mut self, parts: &[NodeId], depth: usize) -> Vec<Filter> {
        parts.iter().map(|part| self.filter(*part, depth + 1)).collect()
    }

    /// A value used as a truth.
    fn truth(&mut self, id: NodeId) -> Option<Filter> {
        Some(match self.operand(id)? {
            Operand::Constant(value) => Filter::Constant(ops::is_true(&self.run.heap, value)),
            Operand::Column(column) => {
                let identity = Identity(column, "true", Vec::new(), Vec::new());
                self.tests.test(identity, Question::IsTrue)
            }
        })
    }

    fn operand(&mut self, id: NodeId) -> Option<Operand> {
        match self.path(id) {
            Some(path) => Some(Operand::Column(self.tests.column(path))),
            None => self.constant(id).map(Operand::Constant),
        }
    }

    /// The path that an expression is, if it is one.
    fn path(&mut self, id: NodeId) -> Option<Path> {
        let (mut at, mut members) = (self.module().bare(id), Vec::new());
        loop {
            match &self.module().node(at).kind {
                Kind::Name(atom) => {
                    let variable = self.run.atom(self.module(), *atom);
                    members.reverse();
                    let is_target = self.variables.contains(&variable)
                        && !self.loop_variables.contains(&variable);
                    return is_target.then_some(Path { variable, members });
                }
                Kind::Index(base, key) => {
                    let key = self.constant(*key)?;
                    members.push(ops::to_key(&mut self.run.heap, self.run.types, key));
                    at = self.module().bare(*base);
                }
                _ => return None,
            }
        }
    }

    /// The value of an expression that is the same for every row and cannot fail.
    fn constant(&mut self, id: NodeId) -> Option<Value> {
        self.is_constant(id, 0).then(|| self.run.evaluate(&self.frame, id).ok())?
    }

    fn is_constant(&mut self, id: NodeId, depth: usize) -> bool {
        let module = self.module();
        let mut all = |ids: &[NodeId]| ids.iter().all(|id| self.is_constant(*id, depth + 1));
        match &module.node(id).kind {
            _ if depth > DEPTH_MAX => false,
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::String(_) => true,
            Kind::Globals | Kind::CurrentFilename | Kind::CurrentLine => true,
            Kind::Name(atom) => {
                let name = self.run.atom(module, *atom);
                !self.variables.contains(&name) && !self.loop_variables.contains(&name)
            }
            Kind::Parenthesis(inner) => all(&[*inner]),
            Kind::Unary(operator, inner) => {
                !matches!(operator, Unary::Reference | Unary::Dereference) && all(&[*inner])
            }
            Kind::Binary(_, a, b) | Kind::Index(a, b) => all(&[*a, *b]),
            Kind::And(parts) | Kind::Or(parts) | Kind::Array(parts) => all(parts),
            Kind::Conditional(a, b, c) => all(&[*a, *b, *c]),
            Kind::Call(callee, arguments) => all(arguments) && self.is_pure(*callee, depth),
            _ => false,
        }
    }

    /// Whether a callee is a function of the library that only computes.
    fn is_pure(&mut self, callee: NodeId, depth: usize) -> bool {
        self.is_constant(callee, depth + 1)
            && self.builtin(callee).is_some_and(|builtin| builtin.pure)
    }

    fn builtin(&mut self, callee: NodeId) -> Option<&'static crate::library::Builtin> {
        match self.run.evaluate(&self.frame, callee) {
            Ok(Value::Builtin(id)) => Some(&BUILTINS[id.0 as usize]),
            _ => None,
        }
    }

    fn comparison(&mut self, operator: Binary, a: NodeId, b: NodeId) -> Option<Filter> {
        use Binary::{Equal, Greater, GreaterEqual, In, Less, LessEqual, NotEqual, NotIn};
        let (positive, negated) = match operator {
            NotEqual => (Equal, true),
            NotIn => (In, true),
            Equal | In | Less | Greater | LessEqual | GreaterEqual => (operator, false),
            _ => return None,
        };
        let (a, b) = (self.operand(a)?, self.operand(b)?);
        let filter = match (a, b) {
            (Operand::Column(a), Operand::Column(b)) => {
                let other = vec![Key(0, b.0 as u64)];
                let identity = Identity(a, positive.text(), other, b"columns".to_vec());
                self.tests.test(identity, Question::With(positive, b))
            }
            (Operand::Column(column), Operand::Constant(value)) => {
                self.column_first(positive, column, value)?
            }
            (Operand::Constant(value), Operand::Column(column)) => {
                self.constant_first(positive, column, value)?
            }
            // Two constants were one, had they not failed.
            (Operand::Constant(_), Operand::Constant(_)) => return None,
        };
        Some(if negated { Filter::Not(Box::new(filter)) } else { filter })
    }

    fn column_first(&mut self, operator: Binary, column: ColumnId, value: Value) -> Option<Filter> {
        let one = |name: &'static str| Identity(column, name, vec![Key::of(value)], Vec::new());
        Some(match operator {
            Binary::Equal => self.tests.test(one("=="), Question::Equal(value)),
            Binary::In => match value {
                Value::Array(id) => {
                    let items = self.run.heap.array(id).items.clone();
                    let keys = items.iter().map(|item| Key::of(*item)).collect();
                    let identity = Identity(column, "in", keys, Vec::new());
                    self.tests.test(identity, Question::OneOf(items))
                }
                Value::Empty => Filter::Constant(false),
                _ => return None,
            },
            operator => {
                let identity = one(operator.text());
                self.tests.test(identity, Question::Compare(operator, value))
            }
        })
    }

    fn constant_first(
        &mut self,
        operator: Binary,
        column: ColumnId,
        value: Value,
    ) -> Option<Filter> {
        let name = match operator {
            Binary::Equal => return self.column_first(operator, column, value),
            Binary::In => "has",
            Binary::Less => "<of",
            Binary::Greater => ">of",
            Binary::LessEqual => "<=of",
            _ => ">=of",
        };
        let question = match operator {
            Binary::In => Question::Has(value),
            operator => Question::Compared(value, operator),
        };
        let identity = Identity(column, name, vec![Key::of(value)], Vec::new());
        Some(self.tests.test(identity, question))
    }

    /// `match`, `regex` and `cidr_match` with a constant pattern and a column.
    fn matching(&mut self, callee: NodeId, arguments: &[NodeId]) -> Option<Filter> {
        let name = self.is_constant(callee, 0).then(|| self.builtin(callee))??.name;
        let pattern = self.constant(arguments[0])?;
        let Operand::Column(column) = self.operand(arguments[1])? else { return None };
        let any = match arguments.get(2) {
            Some(mode) => {
                let mode = self.constant(*mode)?;
                match ops::to_number(&self.run.heap, self.run.types, mode).ok()? {
                    0.0 => false,
                    1.0 => true,
                    _ => return None,
                }
            }
            None => false,
        };
        let pattern = text::string(&self.run.heap, self.run.types, pattern);
        let question = match name {
            "System#match" => {
                let needed = crate::library::glob::needed(&pattern);
                Question::Glob(pattern.clone(), needed, any)
            }
            // A pattern that is wrong fails where it is evaluated.
            "System#regex" => {
                Question::Regex(crate::library::regex::Regex::new(&pattern).ok()?, any)
            }
            "System#cidr_match" => {
                Question::Cidr(crate::library::cidr::Network::parse(&pattern).ok()?, any)
            }
            _ => return None,
        };
        let mode = vec![Key::of(Value::Boolean(any))];
        Some(self.tests.test(Identity(column, name, mode, pattern), question))
    }
}

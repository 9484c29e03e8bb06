//! The tree of a file: nodes in one table, each with its place in the text.
//!
//! The tree says what was written, not what it means: `a.b` and `a["b"]` differ here. Nodes refer
//! to each other by number.

use crate::source::{FileId, Place, Source, Span};
use crate::token::Token;

/// A node of a [`Module`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

/// A name or string of a [`Module`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AtomId(pub(crate) u32);

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named by what they do")]
pub enum Unary {
    Not,
    Complement,
    Plus,
    Minus,
    Reference,
    Dereference,
}

/// Operators with two operands that are both evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "named by what they do")]
pub enum Binary {
    Multiply,
    Divide,
    Modulo,
    Add,
    Subtract,
    ShiftLeft,
    ShiftRight,
    Less,
    Greater,
    LessEqual,
    GreaterEqual,
    In,
    NotIn,
    Equal,
    NotEqual,
    BitAnd,
    BitXor,
    BitOr,
}

impl Binary {
    /// How it is written.
    pub const fn text(self) -> &'static str {
        match self {
            Binary::Multiply => "*",
            Binary::Divide => "/",
            Binary::Modulo => "%",
            Binary::Add => "+",
            Binary::Subtract => "-",
            Binary::ShiftLeft => "<<",
            Binary::ShiftRight => ">>",
            Binary::Less => "<",
            Binary::Greater => ">",
            Binary::LessEqual => "<=",
            Binary::GreaterEqual => ">=",
            Binary::In => "in",
            Binary::NotIn => "!in",
            Binary::Equal => "==",
            Binary::NotEqual => "!=",
            Binary::BitAnd => "&",
            Binary::BitXor => "^",
            Binary::BitOr => "|",
        }
    }
}

/// How a function was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `function (a) { ... }`, with or without a name.
    Function,
    /// `(a) => expression`.
    Lambda,
    /// `(a) => { ... }`.
    LambdaBlock,
    /// `{{ ... }}`.
    Nullary,
}

/// A variable taken along by `use`: its name, and its value if that is not the variable itself.
pub type Captured = (AtomId, Option<NodeId>);

/// A function.
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// Its name; the statement assigns it.
    pub name: Option<AtomId>,
    /// How it was written.
    pub form: Form,
    /// The names of its arguments.
    pub parameters: Vec<AtomId>,
    /// What `use` takes along.
    pub captured: Vec<Captured>,
    /// Its statements; one expression for [`Form::Lambda`].
    pub body: Vec<NodeId>,
}

/// `for (key => value in collection) { ... }`; no key for arrays.
#[derive(Clone, Debug, PartialEq)]
pub struct Loop {
    /// The variable of the key.
    pub key: Option<AtomId>,
    /// The variable of the value.
    pub value: AtomId,
    /// What is gone through.
    pub collection: NodeId,
    /// What is done each time; empty for `apply`.
    pub body: Vec<NodeId>,
}

/// `object`, `template` or `apply`.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// Which of the three, and what only an `apply` has.
    pub kind: DefinitionKind,
    /// The type, an expression.
    pub of_type: NodeId,
    /// The name, an expression.
    pub name: Option<NodeId>,
    /// What `use` takes along.
    pub captured: Vec<Captured>,
    /// Whether a failing object is dropped silently.
    pub ignore_on_error: bool,
    /// The `assign where` expressions of the body.
    pub assign: Vec<NodeId>,
    /// The `ignore where` expressions of the body.
    pub ignore: Vec<NodeId>,
    /// The statements.
    pub body: Vec<NodeId>,
    /// From the keyword to the name: what messages call the definition's place.
    pub head: Span,
    /// From the keyword to the last word before the body: what the installed Icinga 2 calls so.
    pub extent: Span,
}

/// What kind of definition.
#[derive(Clone, Debug, PartialEq)]
pub enum DefinitionKind {
    /// `object`.
    Object,
    /// `template`; with `default`, imported by every object of the type.
    Template {
        /// Whether `default` was given.
        default: bool,
    },
    /// `apply`.
    Apply {
        /// The type after `to`.
        target: Option<AtomId>,
        /// What is between `for` and the body.
        each: Option<Loop>,
    },
}

/// Which `include`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncludeKind {
    /// `include "path"`.
    Relative,
    /// `include <path>`.
    Search,
    /// `include_recursive`.
    Recursive,
    /// `include_zones`.
    Zones,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "named by the construct they are")]
pub enum Kind {
    /// Where something was expected and not found; already reported.
    Error,
    Null,
    Bool(bool),
    Number(f64),
    String(AtomId),
    Name(AtomId),
    This,
    Globals,
    Locals,
    CurrentFilename,
    CurrentLine,
    Array(Vec<NodeId>),
    Dictionary(Vec<NodeId>),
    Parenthesis(NodeId),
    Unary(Unary, NodeId),
    Binary(Binary, NodeId, NodeId),
    /// `a && b && c`, in one node however long.
    And(Vec<NodeId>),
    /// `a || b || c`, in one node however long.
    Or(Vec<NodeId>),
    Conditional(NodeId, NodeId, NodeId),
    /// `base.name` (the key is a string) or `base[key]`.
    Index(NodeId, NodeId),
    Call(NodeId, Vec<NodeId>),
    Function(Box<Function>),
    If(NodeId, Vec<NodeId>, Option<Vec<NodeId>>),
    /// `{ statements }` as a filter: the last one says.
    Block(Vec<NodeId>),
    While(NodeId, Vec<NodeId>),
    For(Box<Loop>),
    Try(Vec<NodeId>, Vec<NodeId>),
    Throw(NodeId),
    Return(Option<NodeId>),
    Break,
    Continue,
    Debugger,
    /// `target = value`, or with an operator `target += value`.
    Assign(Option<Binary>, NodeId, NodeId),
    Var(AtomId, Option<NodeId>),
    Const(AtomId, NodeId),
    Definition(Box<Definition>),
    Import(NodeId),
    /// `assign where`; the expression is also in the definition.
    AssignWhere(NodeId),
    /// `ignore where`; the expression is also in the definition.
    IgnoreWhere(NodeId),
    Include(IncludeKind, Vec<NodeId>),
    Library(NodeId),
    Using(NodeId),
    Namespace(NodeId, Vec<NodeId>),
}

/// A node and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Where it is written.
    pub span: Span,
}

/// A parsed file.
#[derive(Clone, Debug)]
pub struct Module {
    /// Its number in the run.
    pub file: FileId,
    /// Its name and text.
    pub source: Source,
    /// Its tokens, comments and line ends among them.
    pub tokens: Vec<Token>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) atoms: Vec<Box<[u8]>>,
    /// Its statements.
    pub root: Vec<NodeId>,
    /// The `using` expressions, in order; each counts for what follows it.
    pub usings: Vec<(Span, NodeId)>,
    /// The `include`s of all kinds, in order.
    pub includes: Vec<NodeId>,
}

impl Module {
    /// A node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// A name's or string's bytes.
    pub fn atom(&self, id: AtomId) -> &[u8] {
        &self.atoms[id.0 as usize]
    }

    /// Where a node is.
    pub fn place(&self, id: NodeId) -> Place {
        Place { file: self.file, span: self.node(id).span }
    }

    /// The assignments, each with what it assigns to.
    pub fn assignments(&self) -> impl Iterator<Item = (NodeId, NodeId)> {
        self.nodes.iter().enumerate().filter_map(|(at, node)| match node.kind {
            Kind::Assign(_, target, _) => Some((NodeId(at as u32), target)),
            _ => None,
        })
    }

    /// The `include`s in a range.
    pub fn includes_in(&self, span: Span) -> impl Iterator<Item = NodeId> + '_ {
        let start = |id: &NodeId| self.node(*id).span.start;
        let from = self.includes.partition_point(|id| start(id) < span.start);
        self.includes[from..].iter().copied().take_while(move |id| start(id) < span.end)
    }

    /// The definitions of objects, templates and rules.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.nodes.iter().filter_map(|node| match &node.kind {
            Kind::Definition(definition) => Some(&**definition),
            _ => None,
        })
    }

    /// The node without parentheses around it.
    pub fn bare(&self, mut id: NodeId) -> NodeId {
        while let Kind::Parenthesis(inner) = self.node(id).kind {
            id = inner;
        }
        id
    }
}

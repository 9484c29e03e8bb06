//! Which targets a rule is for: the join of rules with columns.
//!
//! Three ways lead to the same answer, byte for byte, faults included: indexes, a test of every
//! row, and evaluating the filter as it is written.

use std::cell::OnceCell;

use super::bits::{Bits, Verdict, Verdicts};
use super::column::{Column, Eyes, answer, answer_pair};
use super::filter::{ColumnId, Compiler, Filter, Path, Question, TestId, Tests};
use crate::ast::{Binary, NodeId};
use crate::eval::{Fault, Frame, Interpreter};
use crate::ops::is_empty;
use crate::source::{FileId, Place};
use crate::value::{Dictionary, ObjectId, StringId, Table, Value};

/// How rules are matched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Matching {
    /// Columns with indexes; equal tests once for all rules.
    #[default]
    Indexed,
    /// Compiled filters, each tested on every row.
    Scan,
    /// Every filter evaluated for every row.
    Naive,
}

/// The targets of one type: rows.
pub struct Targets {
    /// The objects.
    pub rows: Vec<ObjectId>,
    /// The variables of each row: its own and those of what it was made for.
    pub variables: Vec<(StringId, Vec<Option<ObjectId>>)>,
}

/// A rule's filter as written.
pub struct RuleFilter<'w> {
    /// The rule's file.
    pub file: FileId,
    /// The rule.
    pub place: Place,
    /// What `use` took along.
    pub captured: &'w [(StringId, Value)],
    /// `assign where`, one of which must hold; none means always.
    pub assign: &'w [NodeId],
    /// `ignore where`, none of which may hold.
    pub ignore: &'w [NodeId],
    /// Variables of a `for`.
    pub loop_variables: &'w [StringId],
}

/// A filter ready to be asked.
pub struct Compiled<'p> {
    assign: Filter,
    ignore: Filter,
    frame: Frame<'p>,
}

/// Matches rules with targets.
pub struct Matcher<'m, 'p> {
    run: &'m mut Interpreter<'p>,
    targets: &'m Targets,
    tests: Tests,
    columns: Vec<OnceCell<Column>>,
    answers: Vec<OnceCell<Verdicts>>,
    matching: Matching,
}

impl<'m, 'p> Matcher<'m, 'p> {
    /// A matcher of these targets. The interpreter must be above the frozen world: what it makes
    /// is forgotten.
    pub fn new(run: &'m mut Interpreter<'p>, targets: &'m Targets, matching: Matching) -> Self {
        let tests = Tests::default();
        Matcher { run, targets, tests, columns: Vec::new(), answers: Vec::new(), matching }
    }

    /// The rows a rule is for.
    ///
    /// # Errors
    /// The fault of the first row whose evaluation fails, and the row.
    pub fn rows(&mut self, written: &RuleFilter<'_>) -> Result<Bits, (usize, Box<Fault>)> {
        let compiled = self.compile(written);
        let verdicts = match self.matching {
            Matching::Naive => self.naive(&compiled, written),
            Matching::Scan => self.scan(&compiled, written),
            Matching::Indexed => self.indexed(&compiled, written),
        };
        match verdicts.fault.rows().next() {
            None => Ok(verdicts.yes),
            Some(row) => match self.evaluate(&compiled.frame, written, row) {
                Err(fault) => Err((row, fault)),
                // Only what depends on luck could end otherwise the second time.
                Ok(_) => Err((row, Fault::at(written.place, "evaluating the filter failed"))),
            },
        }
    }

    fn compile(&mut self, written: &RuleFilter<'_>) -> Compiled<'p> {
        let items: Table = written.captured.iter().copied().collect();
        let locals = self.run.heap.make_dictionary(Dictionary { items, ..Dictionary::default() });
        let module = self.run.modules.get(written.file).expect("a rule's file is kept");
        let this = Value::Namespace(self.run.roots.globals);
        let frame = Frame { module, this, locals };
        let variables: Vec<StringId> =
            self.targets.variables.iter().map(|(name, _)| *name).collect();
        let loop_variables = written.loop_variables;
        let (run, tests) = (&mut *self.run, &mut self.tests);
        let mut compiler = Compiler { run, tests, frame, variables: &variables, loop_variables };
        let mut any = |nodes: &[NodeId]| {
            Filter::Or(nodes.iter().map(|node| compiler.filter(*node, 0)).collect())
        };
        let (assign, ignore) = (any(written.assign), any(written.ignore));
        let assign = if written.assign.is_empty() { Filter::Constant(true) } else { assign };
        self.columns.resize_with(self.tests.paths.len(), OnceCell::new);
        self.answers.resize_with(self.tests.tests.len(), OnceCell::new);
        Compiled { assign, ignore, frame }
    }

    // As written.

    fn naive(&mut self, compiled: &Compiled<'p>, written: &RuleFilter<'_>) -> Verdicts {
        let rows = self.targets.rows.len();
        let mut out = Verdicts::none(rows);
        for row in 0..rows {
            let verdict = self.evaluate(&compiled.frame, written, row);
            out.set(row, verdict.map_or(Verdict::Fault, Verdict::from));
        }
        out
    }

    /// One of `assign`, and if so none of `ignore`.
    fn evaluate(
        &mut self,
        frame: &Frame<'p>,
        written: &RuleFilter<'_>,
        row: usize,
    ) -> Result<bool, Box<Fault>> {
        let assigned = written.assign.is_empty() || self.any(frame, written.assign, row)?;
        Ok(assigned && !self.any(frame, written.ignore, row)?)
    }

    fn any(&mut self, frame: &Frame<'p>, nodes: &[NodeId], row: usize) -> Result<bool, Box<Fault>> {
        for node in nodes {
            if self.one(frame, *node, row)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A node's truth for a row. What it makes is forgotten.
    fn one(&mut self, frame: &Frame<'p>, node: NodeId, row: usize) -> Result<bool, Box<Fault>> {
        let mark = self.run.heap.mark();
        for (name, objects) in &self.targets.variables {
            let value = objects[row].map_or(Value::Empty, Value::Object);
            if let Ok(locals) = self.run.heap.dictionary_mut(frame.locals) {
                locals.items.set(*name, value);
            }
        }
        // What `random()` says must not depend on what was asked before; nor must variables.
        self.run.random = row as u64;
        let locals = self.run.heap.dictionary(frame.locals).items.clone();
        let holds = self.run.holds(frame, node);
        if let Ok(dictionary) = self.run.heap.dictionary_mut(frame.locals) {
            dictionary.items = locals;
        }
        self.run.heap.cut(mark);
        holds
    }

    // Row by row, compiled.

    fn scan(&mut self, compiled: &Compiled<'p>, written: &RuleFilter<'_>) -> Verdicts {
        let rows = self.targets.rows.len();
        let mut out = Verdicts::none(rows);
        (0..self.columns.len()).for_each(|column| self.column(ColumnId(column)));
        for row in 0..rows {
            let verdict = match self.test_row(&compiled.frame, &compiled.assign, row) {
                Verdict::Yes if !written.ignore.is_empty() => {
                    not(self.test_row(&compiled.frame, &compiled.ignore, row))
                }
                verdict => verdict,
            };
            out.set(row, verdict);
        }
        out
    }

    fn test_row(&mut self, frame: &Frame<'p>, filter: &Filter, row: usize) -> Verdict {
        match filter {
            Filter::Constant(value) => (*value).into(),
            Filter::Not(inner) => not(self.test_row(frame, inner, row)),
            Filter::Test(id) => self.test_value(*id, row),
            Filter::Residual(node) => {
                self.one(frame, *node, row).map_or(Verdict::Fault, Verdict::from)
            }
            Filter::And(parts) => self.test_parts(frame, parts, row, Verdict::Yes),
            Filter::Or(parts) => self.test_parts(frame, parts, row, Verdict::No),
        }
    }

    /// The first verdict that is not the one that goes on.
    fn test_parts(
        &mut self,
        frame: &Frame<'p>,
        parts: &[Filter],
        row: usize,
        going_on: Verdict,
    ) -> Verdict {
        for part in parts {
            let verdict = self.test_row(frame, part, row);
            if verdict != going_on {
                return verdict;
            }
        }
        going_on
    }

    fn test_value(&self, id: TestId, row: usize) -> Verdict {
        let test = &self.tests.tests[id.0];
        let eyes = Eyes { heap: &self.run.heap, types: self.run.types };
        let value = |column: ColumnId| self.columns[column.0].get().and_then(|c| c.value(row));
        match (&test.question, value(test.column)) {
            (Question::With(operator, other), left) => match (left, value(*other)) {
                // In nothing there is nothing, even if what is looked for cannot be found out.
                (_, Some(right)) if *operator == Binary::In && is_empty(eyes.heap, right) => {
                    Verdict::No
                }
                (Some(left), Some(right)) => answer_pair(eyes, *operator, left, right),
                _ => Verdict::Fault,
            },
            (question, Some(left)) => answer(eyes, question, left),
            (_, None) => Verdict::Fault,
        }
    }

    // All rows at once.

    fn indexed(&mut self, compiled: &Compiled<'p>, written: &RuleFilter<'_>) -> Verdicts {
        let rows = self.targets.rows.len();
        let mut out = self.filter(&compiled.frame, &compiled.assign, &Bits::all(rows));
        if !written.ignore.is_empty() && !out.yes.is_empty() {
            let ignored = self.filter(&compiled.frame, &compiled.ignore, &out.yes);
            out.yes.remove(&ignored.yes);
            out.yes.remove(&ignored.fault);
            out.fault.unite(&ignored.fault);
        }
        out
    }

    /// What a filter says of the rows that are asked about.
    fn filter(&mut self, frame: &Frame<'p>, filter: &Filter, asked: &Bits) -> Verdicts {
        let rows = self.targets.rows.len();
        let mut out = Verdicts::none(rows);
        match filter {
            Filter::Constant(true) => out.yes = asked.clone(),
            Filter::Constant(false) => {}
            Filter::Not(inner) => {
                let inner = self.filter(frame, inner, asked);
                out.yes = asked.clone();
                out.yes.remove(&inner.yes);
                out.yes.remove(&inner.fault);
                out.fault = inner.fault;
            }
            Filter::And(parts) => {
                // A part is asked about the rows for which all before it hold.
                out.yes = asked.clone();
                for part in parts {
                    let found = self.filter(frame, part, &out.yes);
                    out.yes = found.yes;
                    out.fault.unite(&found.fault);
                    if out.yes.is_empty() {
                        break;
                    }
                }
            }
            Filter::Or(parts) => {
                let mut rest = asked.clone();
                for part in parts {
                    let found = self.filter(frame, part, &rest);
                    rest.remove(&found.yes);
                    rest.remove(&found.fault);
                    out.yes.unite(&found.yes);
                    out.fault.unite(&found.fault);
                }
            }
            Filter::Test(id) => {
                let answers = self.answers(*id);
                out = answers.clone();
                out.yes.keep(asked);
                out.fault.keep(asked);
            }
            Filter::Residual(node) => {
                for row in asked.rows() {
                    let verdict = self.one(frame, *node, row);
                    out.set(row, verdict.map_or(Verdict::Fault, Verdict::from));
                }
            }
        }
        out
    }

    fn answers(&mut self, id: TestId) -> &Verdicts {
        if self.answers[id.0].get().is_none() {
            let made = self.ask(id);
            self.answers[id.0].get_or_init(|| made);
        }
        self.answers[id.0].get().expect("it was just made")
    }

    fn ask(&mut self, id: TestId) -> Verdicts {
        let column = self.tests.tests[id.0].column;
        self.column(column);
        if let Question::With(_, other) = self.tests.tests[id.0].question {
            self.column(other);
            let mut out = Verdicts::none(self.targets.rows.len());
            (0..self.targets.rows.len()).for_each(|row| out.set(row, self.test_value(id, row)));
            return out;
        }
        let eyes = Eyes { heap: &self.run.heap, types: self.run.types };
        let column = self.columns[column.0].get().expect("it was just made");
        column.ask(eyes, &self.tests.tests[id.0].question)
    }

    fn column(&mut self, id: ColumnId) {
        if self.columns[id.0].get().is_none() {
            let path = self.tests.paths[id.0].clone();
            let rows = self.targets.rows.len();
            let values: Vec<Option<Value>> = (0..rows).map(|row| self.follow(&path, row)).collect();
            self.columns[id.0].get_or_init(|| Column::new(values.into_iter()));
        }
    }

    fn follow(&mut self, path: &Path, row: usize) -> Option<Value> {
        let variable = self.targets.variables.iter().find(|(name, _)| *name == path.variable)?;
        let mut value = variable.1[row].map_or(Value::Empty, Value::Object);
        for member in &path.members {
            value = self.run.field(value, Value::String(*member), Default::default()).ok()?;
        }
        Some(value)
    }
}

fn not(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Yes => Verdict::No,
        Verdict::No => Verdict::Yes,
        Verdict::Fault => Verdict::Fault,
    }
}

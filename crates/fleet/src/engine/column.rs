//! Columns: what all targets have at one path, each distinct value once, and the indexes that
//! find the values a test is about.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::bits::{Bits, Verdict, Verdicts};
use super::filter::{Key, Question};
use crate::ast::Binary;
use crate::heap::Heap;
use crate::library::{cidr, glob, glob::Needed};
use crate::ops;
use crate::text;
use crate::types::Types;
use crate::value::Value;

/// How many bytes of a text one entry of the index of parts covers.
const GRAM_BYTES: usize = 3;

/// A column.
#[derive(Debug)]
pub struct Column {
    /// The distinct values.
    values: Vec<Value>,
    /// Each row's value as a number into `values`; `FAULT` where the path cannot be followed.
    codes: Vec<u32>,
    /// The rows of each value, one value after another, and where each begins.
    rows: Vec<u32>,
    starts: Vec<u32>,
    by_key: BTreeMap<Key, u32>,
    faults: Bits,
    indexes: Indexes,
}

const FAULT: u32 = u32::MAX;

/// Indexes, each made when the first test wants it.
#[derive(Debug, Default)]
struct Indexes {
    /// Texts in lower case with their codes, sorted.
    prefixes: OnceCell<Vec<(Vec<u8>, u32)>>,
    /// The same from back to front.
    suffixes: OnceCell<Vec<(Vec<u8>, u32)>>,
    /// Codes of the texts that have three bytes somewhere.
    grams: OnceCell<BTreeMap<[u8; GRAM_BYTES], Vec<u32>>>,
    /// Codes of the arrays that have an item.
    items: OnceCell<BTreeMap<Key, Vec<u32>>>,
    /// Addresses with their codes, sorted.
    addresses: OnceCell<Vec<(u128, u32)>>,
    /// Codes of values that are no texts.
    odd: OnceCell<Vec<u32>>,
}

/// What tests are evaluated with.
#[derive(Clone, Copy)]
pub struct Eyes<'e, 'b> {
    /// The values.
    pub heap: &'e Heap<'b>,
    /// The types.
    pub types: &'e Types,
}

impl Column {
    /// A column of the rows' values; `None` is a path that cannot be followed.
    pub fn new(row_values: impl Iterator<Item = Option<Value>>) -> Column {
        let (mut values, mut codes, mut by_key) = (Vec::new(), Vec::new(), BTreeMap::new());
        for value in row_values {
            codes.push(match value {
                None => FAULT,
                Some(value) => *by_key.entry(Key::of(value)).or_insert_with(|| {
                    values.push(value);
                    values.len() as u32 - 1
                }),
            });
        }
        let mut faults = Bits::none(codes.len());
        let failing = codes.iter().enumerate().filter(|(_, code)| **code == FAULT);
        failing.for_each(|(row, _)| faults.add(row));
        let (rows, starts) = rows_by_code(&codes, values.len());
        Column { values, codes, rows, starts, by_key, faults, indexes: Indexes::default() }
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.codes.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.codes.is_empty()
    }

    /// A row's value.
    pub fn value(&self, row: usize) -> Option<Value> {
        self.values.get(self.codes[row] as usize).copied()
    }

    fn rows_of(&self, code: u32) -> &[u32] {
        let code = code as usize;
        &self.rows[self.starts[code] as usize..self.starts[code + 1] as usize]
    }

    /// What a question's answers are for all rows, by the indexes.
    pub fn ask(&self, eyes: Eyes<'_, '_>, question: &Question) -> Verdicts {
        let mut out = Verdicts::none(self.len());
        out.fault.unite(&self.faults);
        for code in self.candidates(eyes, question) {
            let verdict = answer(eyes, question, self.values[code as usize]);
            if verdict != Verdict::No {
                self.rows_of(code).iter().for_each(|row| out.set(*row as usize, verdict));
            }
        }
        out
    }

    /// The values for which the answer may be other than no, each once.
    fn candidates(&self, eyes: Eyes<'_, '_>, question: &Question) -> Vec<u32> {
        let found = match question {
            Question::Equal(value) => self.equal_to(eyes, *value),
            Question::OneOf(values) => {
                let found: Option<Vec<Vec<u32>>> =
                    values.iter().map(|value| self.equal_to(eyes, *value)).collect();
                found.map(|lists| lists.concat())
            }
            Question::Has(value) => self.having(eyes, *value),
            Question::Glob(_, needed, _) => self.matching(eyes, needed),
            Question::Cidr(network, _) => {
                Some([self.in_network(eyes, network), self.odd().to_vec()].concat())
            }
            _ => None,
        };
        let mut codes = found.unwrap_or_else(|| (0..self.values.len() as u32).collect());
        codes.sort_unstable();
        codes.dedup();
        codes
    }

    /// Values that may equal a constant; none if all must be looked at.
    fn equal_to(&self, eyes: Eyes<'_, '_>, value: Value) -> Option<Vec<u32>> {
        let one = |value: Value| self.by_key.get(&Key::of(value)).copied();
        match value {
            Value::String(id) if !eyes.heap.bytes(id).is_empty() => {
                Some(one(value).into_iter().collect())
            }
            Value::Number(number) if number != 0.0 && number != 1.0 => {
                Some(one(value).into_iter().collect())
            }
            _ => None,
        }
    }

    /// Arrays that may have an item, and what no item can be looked for in.
    fn having(&self, eyes: Eyes<'_, '_>, value: Value) -> Option<Vec<u32>> {
        let Value::String(id) = value else { return None };
        if eyes.heap.bytes(id).is_empty() {
            return None;
        }
        let items = self.indexes.items.get_or_init(|| self.items(eyes));
        let mut found = items.get(&Key::of(value)).cloned().unwrap_or_default();
        let no_array = |code: &u32| !matches!(self.values[*code as usize], Value::Array(_));
        found.extend((0..self.values.len() as u32).filter(no_array));
        Some(found)
    }

    fn items(&self, eyes: Eyes<'_, '_>) -> BTreeMap<Key, Vec<u32>> {
        let mut out: BTreeMap<Key, Vec<u32>> = BTreeMap::new();
        for (code, value) in self.values.iter().enumerate() {
            let Value::Array(id) = value else { continue };
            for item in &eyes.heap.array(*id).items {
                out.entry(Key::of(*item)).or_default().push(code as u32);
            }
        }
        out
    }

    /// Values that are no texts: few, and always looked at.
    fn odd(&self) -> &[u32] {
        self.indexes.odd.get_or_init(|| {
            let odd = |code: &u32| !matches!(self.values[*code as usize], Value::String(_));
            (0..self.values.len() as u32).filter(odd).collect()
        })
    }

    fn texts<'c>(&'c self, eyes: Eyes<'c, '_>) -> impl Iterator<Item = (Vec<u8>, u32)> + 'c {
        let text = move |(code, value): (usize, &Value)| match value {
            Value::String(id) => Some((eyes.heap.bytes(*id).to_ascii_lowercase(), code as u32)),
            _ => None,
        };
        self.values.iter().enumerate().filter_map(text)
    }

    /// Texts that may match a pattern: the fewest of those that begin as it does, end as it does,
    /// or have a part of it.
    fn matching(&self, eyes: Eyes<'_, '_>, needed: &Needed) -> Option<Vec<u32>> {
        let mut lists = Vec::new();
        if !needed.prefix.is_empty() {
            let sorted = self.indexes.prefixes.get_or_init(|| sorted(self.texts(eyes)));
            lists.push(beginning(sorted, &needed.prefix));
        }
        if !needed.suffix.is_empty() {
            let backwards = |(mut text, code): (Vec<u8>, u32)| {
                text.reverse();
                (text, code)
            };
            let sorted =
                self.indexes.suffixes.get_or_init(|| sorted(self.texts(eyes).map(backwards)));
            let suffix: Vec<u8> = needed.suffix.iter().rev().copied().collect();
            lists.push(beginning(sorted, &suffix));
        }
        let fewest = lists.into_iter().min_by_key(|list| list.len());
        let found: Option<Vec<u32>> =
            fewest.map(|list| list.iter().map(|(_, code)| *code).collect());
        let found = match (self.with_part(eyes, &needed.part), found) {
            (Some(part), Some(found)) if part.len() < found.len() => part.to_vec(),
            (Some(part), None) => part.to_vec(),
            (_, found) => found?,
        };
        Some([found, self.odd().to_vec()].concat())
    }

    /// Texts that have the rarest three bytes of a part.
    fn with_part(&self, eyes: Eyes<'_, '_>, part: &[u8]) -> Option<&[u32]> {
        let grams = part.array_windows::<GRAM_BYTES>();
        let index = self.indexes.grams.get_or_init(|| self.grams(eyes));
        grams.map(|gram| index.get(gram).map_or(&[][..], Vec::as_slice)).min_by_key(|l| l.len())
    }

    fn grams(&self, eyes: Eyes<'_, '_>) -> BTreeMap<[u8; GRAM_BYTES], Vec<u32>> {
        let mut out: BTreeMap<[u8; GRAM_BYTES], Vec<u32>> = BTreeMap::new();
        for (text, code) in self.texts(eyes) {
            for gram in text.array_windows::<GRAM_BYTES>() {
                let codes = out.entry(*gram).or_default();
                if codes.last() != Some(&code) {
                    codes.push(code);
                }
            }
        }
        out
    }

    fn in_network(&self, eyes: Eyes<'_, '_>, network: &cidr::Network) -> Vec<u32> {
        let addresses = self.indexes.addresses.get_or_init(|| {
            let text = |(text, code): (Vec<u8>, u32)| Some((cidr::address(&text)?.0, code));
            let mut found: Vec<(u128, u32)> = self.texts(eyes).filter_map(text).collect();
            found.sort_unstable();
            found
        });
        let (first, last) = network.range();
        let start = addresses.partition_point(|(address, _)| *address < first);
        let end = addresses.partition_point(|(address, _)| *address <= last);
        addresses[start..end].iter().map(|(_, code)| *code).collect()
    }
}

fn rows_by_code(codes: &[u32], count: usize) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0_u32; count + 1];
    for code in codes.iter().filter(|code| **code != FAULT) {
        starts[*code as usize + 1] += 1;
    }
    for at in 0..count {
        starts[at + 1] += starts[at];
    }
    let (mut next, mut rows) = (starts.clone(), vec![0; starts[count] as usize]);
    for (row, code) in codes.iter().enumerate().filter(|(_, code)| **code != FAULT) {
        let at = &mut next[*code as usize];
        rows[*at as usize] = row as u32;
        *at += 1;
    }
    (rows, starts)
}

fn sorted(texts: impl Iterator<Item = (Vec<u8>, u32)>) -> Vec<(Vec<u8>, u32)> {
    let mut texts: Vec<_> = texts.collect();
    texts.sort_unstable();
    texts
}

/// The entries that begin so.
fn beginning<'t>(sorted: &'t [(Vec<u8>, u32)], prefix: &[u8]) -> &'t [(Vec<u8>, u32)] {
    let start = sorted.partition_point(|(text, _)| text.as_slice() < prefix);
    let length = sorted[start..].partition_point(|(text, _)| text.starts_with(prefix));
    &sorted[start..start + length]
}

/// What a question's answer is for one value.
pub fn answer(eyes: Eyes<'_, '_>, question: &Question, value: Value) -> Verdict {
    let Eyes { heap, types } = eyes;
    let verdict = |result: Result<bool, ops::Refused>| result.map_or(Verdict::Fault, Verdict::from);
    match question {
        Question::IsTrue => ops::is_true(heap, value).into(),
        Question::Equal(other) => ops::equal(heap, value, *other).into(),
        Question::OneOf(all) => all.iter().any(|other| ops::equal(heap, value, *other)).into(),
        Question::Has(item) => verdict(ops::contains(heap, types, *item, value)),
        Question::Compare(operator, other) => {
            verdict(ops::compare(heap, types, *operator, value, *other))
        }
        Question::Compared(other, operator) => {
            verdict(ops::compare(heap, types, *operator, *other, value))
        }
        Question::Glob(pattern, _, any) => {
            over_texts(eyes, value, *any, |text| Ok(glob::matches(pattern, text)))
        }
        Question::Regex(regex, any) => {
            over_texts(eyes, value, *any, |text| regex.find(text).map_err(|_| ()))
        }
        Question::Cidr(network, any) => {
            over_texts(eyes, value, *any, |text| Ok(network.contains(text)))
        }
        Question::With(..) => Verdict::Fault,
    }
}

/// What an operator says of two columns' values.
pub fn answer_pair(eyes: Eyes<'_, '_>, operator: Binary, a: Value, b: Value) -> Verdict {
    let Eyes { heap, types } = eyes;
    match operator {
        Binary::Equal => ops::equal(heap, a, b).into(),
        Binary::In => ops::contains(heap, types, a, b).map_or(Verdict::Fault, Verdict::from),
        operator => ops::compare(heap, types, operator, a, b).map_or(Verdict::Fault, Verdict::from),
    }
}

/// As `match()` and its likes treat texts, arrays of texts and everything else.
fn over_texts(
    eyes: Eyes<'_, '_>,
    value: Value,
    any: bool,
    test: impl Fn(&[u8]) -> Result<bool, ()>,
) -> Verdict {
    let test = |value: Value| match value {
        Value::String(id) => test(eyes.heap.bytes(id)),
        other => test(&text::string(eyes.heap, eyes.types, other)),
    };
    match value {
        Value::Array(id) => {
            let items = &eyes.heap.array(id).items;
            for item in items {
                match test(*item) {
                    Err(()) => return Verdict::Fault,
                    Ok(found) if found == any => return any.into(),
                    Ok(_) => {}
                }
            }
            (!any && !items.is_empty()).into()
        }
        Value::Empty | Value::Boolean(_) | Value::Number(_) | Value::String(_) => {
            test(value).map_or(Verdict::Fault, Verdict::from)
        }
        _ => Verdict::Fault,
    }
}

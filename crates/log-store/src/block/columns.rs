//! A column: the values that the entries of a block have for one field name.
//!
//! Three ways to store it, the first byte says which: plain, by dictionary when values repeat,
//! and as differences to the entry's wall clock when every value is a time in µs.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use crate::bytes::{Input, put_bytes, put_delta, put_varint};
use crate::error::Damage;

const PLAIN: u8 = 0;
const DICTIONARY: u8 = 1;
const TIMES: u8 = 2;

/// Most different values for which a dictionary is tried.
const DICTIONARY_VALUES_MAX: usize = 256;

/// Digits of a wall clock in µs: from the year 2001 to 2286.
const TIME_DIGITS: usize = 16;

/// The values of one name, as they are collected.
#[derive(Debug, Default)]
pub struct Values {
    pub bytes: Vec<u8>,
    /// Of each value: where it ends in `bytes`.
    pub ends: Vec<u32>,
    /// Of each value: the row of its entry.
    pub rows: Vec<u32>,
}

impl Values {
    pub fn push(&mut self, value: &[u8], row: u32) {
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len() as u32);
        self.rows.push(row);
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        slices(&self.bytes, &self.ends)
    }

    pub fn put_lengths(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|value| put_varint(out, value.len() as u64));
    }

    /// Appends the column in its shortest form. `realtime` is the wall clock of each row.
    pub fn put(&self, out: &mut Vec<u8>, realtime: &[u64]) {
        if let Some(times) = self.times() {
            out.push(TIMES);
            for (time, &row) in times.iter().zip(&self.rows) {
                put_delta(out, *time, realtime[row as usize]);
            }
        } else if let Some((values, codes)) = self.dictionary() {
            out.push(DICTIONARY);
            put_varint(out, values.len() as u64);
            values.iter().for_each(|value| put_bytes(out, value));
            codes.iter().for_each(|&code| put_varint(out, u64::from(code)));
        } else {
            out.push(PLAIN);
            self.put_lengths(out);
            out.extend_from_slice(&self.bytes);
        }
    }

    fn times(&self) -> Option<Vec<u64>> {
        self.iter().map(parse_time).collect()
    }

    /// Every different value, once each.
    pub fn distinct(&self) -> Vec<&[u8]> {
        match self.dictionary() {
            Some((values, _)) => values,
            None => self.iter().collect::<BTreeSet<_>>().into_iter().collect(),
        }
    }

    /// Different values in order of appearance, and which one each value is; `None` when there
    /// are too many for this to pay.
    fn dictionary(&self) -> Option<(Vec<&[u8]>, Vec<u32>)> {
        let (mut known, mut values) = (BTreeMap::new(), Vec::new());
        let mut codes: Vec<u32> = Vec::with_capacity(self.ends.len());
        for value in self.iter() {
            if let Some(&last) = codes.last()
                && values[last as usize] == value
            {
                codes.push(last);
                continue;
            }
            let code = *known.entry(value).or_insert_with(|| {
                values.push(value);
                values.len() as u32 - 1
            });
            codes.push(code);
            if values.len() > DICTIONARY_VALUES_MAX {
                return None;
            }
        }
        (values.len() * 2 <= codes.len()).then_some((values, codes))
    }
}

/// A number of exactly sixteen digits, not beginning with 0: it prints as it was.
fn parse_time(value: &[u8]) -> Option<u64> {
    if value.len() != TIME_DIGITS || value[0] == b'0' || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

fn slices<'a>(bytes: &'a [u8], ends: &'a [u32]) -> impl Iterator<Item = &'a [u8]> {
    let mut begin = 0;
    ends.iter().map(move |&end| {
        let value = &bytes[begin..end as usize];
        begin = end as usize;
        value
    })
}

/// A column read back.
#[derive(Debug)]
pub enum Column {
    /// As they come.
    Plain(Stored),
    /// Different values, and which of them each value is.
    Dictionary(Stored, Vec<u32>),
    /// Numbers, printed when they are asked for.
    Times(Vec<u64>),
}

impl Column {
    /// How many values, doubles counted.
    pub fn len(&self) -> usize {
        match self {
            Column::Plain(values) => values.ends.len(),
            Column::Dictionary(_, codes) => codes.len(),
            Column::Times(times) => times.len(),
        }
    }

    /// True without values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A value by its place.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn get(&self, place: usize) -> Cow<'_, [u8]> {
        match self {
            Column::Plain(values) => Cow::Borrowed(values.get(place)),
            Column::Dictionary(values, codes) => Cow::Borrowed(values.get(codes[place] as usize)),
            Column::Times(times) => Cow::Owned(times[place].to_string().into_bytes()),
        }
    }

    /// For each value, whether it is the one that is wanted; compares each different value once.
    pub fn equal_to(&self, wanted: &[u8]) -> Vec<bool> {
        let equal =
            |values: &Stored| values.iter().map(|value| value == wanted).collect::<Vec<_>>();
        match self {
            Column::Plain(values) => equal(values),
            Column::Dictionary(values, codes) => {
                let different = equal(values);
                codes.iter().map(|&code| different[code as usize]).collect()
            }
            Column::Times(_) => (0..self.len()).map(|place| *self.get(place) == *wanted).collect(),
        }
    }

    /// Reads a column; `rows` says for each value which row it belongs to.
    pub(super) fn read(
        input: &mut Input<'_>,
        rows: &[u32],
        realtime: &dyn Fn(u32) -> u64,
    ) -> Result<Column, Damage> {
        match input.take(1)?[0] {
            PLAIN => {
                let (ends, total) = read_ends(input, rows.len())?;
                Ok(Column::Plain(Stored { bytes: input.take(total)?.to_vec(), ends }))
            }
            DICTIONARY => Column::read_dictionary(input, rows.len()),
            TIMES => {
                let times = rows.iter().map(|&row| input.delta(realtime(row)));
                Ok(Column::Times(times.collect::<Result<_, _>>()?))
            }
            _ => Err(Damage("unknown kind of column")),
        }
    }

    fn read_dictionary(input: &mut Input<'_>, count: usize) -> Result<Column, Damage> {
        let mut values = Stored::default();
        for _ in 0..input.count()? {
            values.bytes.extend_from_slice(input.bytes()?);
            values.ends.push(values.bytes.len() as u32);
        }
        let Some(code_max) = values.ends.len().checked_sub(1) else {
            return Err(Damage("empty dictionary"));
        };
        let codes = (0..count).map(|_| Ok(input.bounded(code_max)? as u32));
        Ok(Column::Dictionary(values, codes.collect::<Result<_, Damage>>()?))
    }
}

/// Values end to end.
#[derive(Debug, Default)]
pub struct Stored {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Stored {
    fn get(&self, at: usize) -> &[u8] {
        let begin = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.bytes[begin..self.ends[at] as usize]
    }

    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        slices(&self.bytes, &self.ends)
    }
}

/// Reads so many lengths; gives where each value ends, and the sum.
pub fn read_ends(input: &mut Input<'_>, count: usize) -> Result<(Vec<u32>, usize), Damage> {
    let (mut ends, mut total) = (Vec::with_capacity(count.min(input.rest().len())), 0usize);
    for _ in 0..count {
        total += input.bounded(crate::block::SECTION_RAW_BYTES_MAX)?;
        if total > crate::block::SECTION_RAW_BYTES_MAX {
            return Err(Damage("column longer than allowed"));
        }
        ends.push(total as u32);
    }
    Ok((ends, total))
}

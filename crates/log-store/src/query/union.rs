//! Several stores as one: what is in memory, what is on the disk, what others wrote. Entries are
//! merged by their wall clock; those of one store keep their order, whatever the clock did.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::entry::{Entry, Id128};
use crate::error::{Error, Result};
use crate::query::{Cursor, Direction, DistinctValues, Entries, Journal, Query};
use crate::segment::directory::BootSpan;

/// The entries of a query, one after the other.
pub trait Stream {
    /// The next entry, or `None` at the end.
    ///
    /// # Errors
    /// Failed reads. Damage is no error.
    fn try_next(&mut self) -> Result<Option<Entry>>;
    /// What could not be read so far.
    fn damage(&self) -> &[Error];
}

/// Values of a field, and the damage met on the way.
pub type Values = (BTreeSet<Vec<u8>>, Vec<Error>);

/// Boots, and the damage met on the way.
pub type Boots = (Vec<BootSpan>, Vec<Error>);

/// A store that can be asked. Positions are sequence numbers.
pub trait Reader {
    /// Between what times its entries are about, µs, when that is known without reading them.
    fn span_us(&self) -> Option<(u64, u64)> {
        None
    }
    /// Takes a new picture of the files.
    fn refresh(&mut self) -> Result<()>;
    /// See [`Journal::keep_to_settled`].
    fn keep_to_settled(&mut self) -> Result<()> {
        Ok(())
    }
    /// The entries that are wanted, from a position on, which is not among them.
    fn entries<'a>(
        &'a self,
        query: &'a Query,
        direction: Direction,
        position: Option<u64>,
    ) -> Box<dyn Stream + 'a>;
    /// Every different value of a field, of at most so many bytes; [`Error::TooLarge`] when there are more.
    fn values(&self, field: &[u8], bytes_max: usize) -> Result<Values>;
    /// Every field name that occurs.
    fn field_names(&self) -> Result<Values>;
    /// All boots.
    fn boots(&self) -> Result<Boots>;
    /// Whether sequence numbers of that sequence are positions here.
    fn has_sequence(&self, sequence: Id128) -> Result<bool>;
}

impl Stream for Entries<'_> {
    fn try_next(&mut self) -> Result<Option<Entry>> {
        Entries::try_next(self)
    }

    fn damage(&self) -> &[Error] {
        Entries::damage(self)
    }
}

impl Reader for Journal {
    fn keep_to_settled(&mut self) -> Result<()> {
        Journal::keep_to_settled(self)
    }

    fn refresh(&mut self) -> Result<()> {
        Journal::refresh(self)
    }

    fn entries<'a>(
        &'a self,
        query: &'a Query,
        direction: Direction,
        position: Option<u64>,
    ) -> Box<dyn Stream + 'a> {
        Box::new(Journal::entries(self, query, direction, position))
    }

    fn values(&self, field: &[u8], bytes_max: usize) -> Result<Values> {
        self.values_within(field, bytes_max)
    }

    fn field_names(&self) -> Result<Values> {
        Journal::field_names(self)
    }

    fn boots(&self) -> Result<Boots> {
        Journal::boots(self)
    }

    fn has_sequence(&self, sequence: Id128) -> Result<bool> {
        Ok(self.sequence()? == Some(sequence))
    }
}

/// The stores.
#[derive(Default)]
pub struct Union {
    parts: Vec<Box<dyn Reader>>,
}

/// A position in each store.
pub type Positions = Vec<Option<u64>>;

impl Union {
    /// Adds a store. Of entries of the same time, those of earlier stores come first.
    pub fn add(&mut self, part: Box<dyn Reader>) {
        self.parts.push(part);
    }

    /// Puts a store in the place of another.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn replace(&mut self, number: usize, part: Box<dyn Reader>) {
        self.parts[number] = part;
    }

    /// How many stores there are.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The furthest of positions in stores whose numbers are of a sequence.
    pub fn furthest(&self, sequence: Id128, positions: &[Option<u64>]) -> Result<Option<u64>> {
        let mut furthest = None;
        for (part, position) in self.parts.iter().zip(positions) {
            if part.has_sequence(sequence)? {
                furthest = furthest.max(*position);
            }
        }
        Ok(furthest)
    }

    /// Before the first entry of every store, or behind the last.
    pub fn anywhere(&self) -> Positions {
        vec![None; self.parts.len()]
    }

    /// Where the last `count` entries before a place begin: positions to go on forward from. `starts`
    /// is what they are of a store that has none of them.
    ///
    /// # Errors
    /// Failed reads.
    pub fn back(
        &self,
        query: &Query,
        from: &[Option<u64>],
        mut starts: Positions,
        count: u64,
    ) -> Result<Positions> {
        let mut entries = self.entries(query, Direction::Backward, from);
        for _ in 0..count {
            let Some((part, entry)) = entries.try_next()? else { break };
            starts[part] = Some(entry.seqnum - 1);
        }
        Ok(starts)
    }

    /// Takes a new picture of all files.
    pub fn refresh(&mut self) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.refresh())
    }

    /// See [`Journal::keep_to_settled`].
    pub fn keep_to_settled(&mut self) -> Result<()> {
        self.parts.iter_mut().try_for_each(|part| part.keep_to_settled())
    }

    /// The entries that are wanted, from positions on.
    pub fn entries<'a>(
        &'a self,
        query: &'a Query,
        direction: Direction,
        positions: &[Option<u64>],
    ) -> Merged<'a> {
        let heads = self.parts.iter().zip(positions).map(|(part, position)| Head {
            next: None,
            // What begins later than all others need not be read yet.
            bound: part.span_us().map(|(first, last)| match direction {
                Direction::Forward => first,
                Direction::Backward => last,
            }),
            stream: part.entries(query, direction, *position),
            ended: false,
        });
        let heads = heads.collect();
        Merged { heads, direction }
    }

    /// Every different value of a field, and the damage met on the way.
    pub fn values(&self, field: &[u8]) -> Result<Values> {
        self.values_within(field, usize::MAX)
    }

    /// The same, of at most so many bytes.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when there are more.
    pub fn values_within(&self, field: &[u8], bytes_max: usize) -> Result<Values> {
        let (mut values, mut damage) = (DistinctValues::new(bytes_max), Vec::new());
        for part in &self.parts {
            let (more, faults) = part.values(field, bytes_max)?;
            more.iter().for_each(|value| values.insert(value));
            values.check()?;
            damage.extend(faults);
        }
        Ok((values.into_set()?, damage))
    }

    /// Every field name that occurs, and the damage met on the way.
    pub fn field_names(&self) -> Result<Values> {
        let (mut names, mut damage) = Values::default();
        for part in &self.parts {
            let (more, faults) = part.field_names()?;
            names.extend(more);
            damage.extend(faults);
        }
        Ok((names, damage))
    }

    /// All boots in their order, and the damage met on the way: as each store has them, and of several stores the one
    /// first that ended first. When a boot begins, a machine without a clock of its own does not know the time.
    pub fn boots(&self) -> Result<Boots> {
        let (mut orders, mut damage) = (Vec::new(), Vec::new());
        for part in &self.parts {
            let (of_part, faults) = part.boots()?;
            orders.push(of_part);
            damage.extend(faults);
        }
        Ok((in_order(orders), damage))
    }

    /// The newest entry of each store.
    pub fn newest(&self) -> Result<Vec<Option<Entry>>> {
        let query = Query::default();
        let parts = self.parts.iter();
        parts.map(|part| part.entries(&query, Direction::Backward, None).try_next()).collect()
    }

    /// The positions that a cursor stands for: its entry is left out, unless it is `inclusive`. Where
    /// its numbers say nothing, its time counts, and what has that time is not left out.
    pub fn seek(
        &self,
        cursor: &Cursor,
        direction: Direction,
        inclusive: bool,
    ) -> Result<Positions> {
        self.parts.iter().map(|part| seek(&**part, cursor, direction, inclusive)).collect()
    }
}

/// Boots of several lists as one. Where lists contradict one another the times alone count.
fn in_order(orders: Vec<Vec<BootSpan>>) -> Vec<BootSpan> {
    let (mut spans, mut places) = (Vec::new(), BTreeMap::<[u8; 16], usize>::new());
    for span in orders.iter().flatten() {
        BootSpan::join(&mut spans, *span);
        *places.entry(span.boot.0).or_default() += 1;
    }
    let span_of: BTreeMap<[u8; 16], BootSpan> =
        spans.into_iter().map(|span| (span.boot.0, span)).collect();
    let mut orders: Vec<VecDeque<[u8; 16]>> = orders
        .into_iter()
        .map(|order| order.into_iter().map(|span| span.boot.0).collect())
        .collect();
    let mut sorted = Vec::new();
    while sorted.len() < span_of.len() {
        let mut heads = BTreeMap::<[u8; 16], usize>::new();
        orders.iter().filter_map(|order| order.front()).for_each(|boot| {
            *heads.entry(*boot).or_default() += 1;
        });
        let is_due = |boot: &[u8; 16], count: usize| places.get(boot) == Some(&count);
        let ended = |boot: &[u8; 16]| (span_of.get(boot).map(|span| span.realtime_max_us), *boot);
        let due = heads.iter().filter(|(boot, count)| is_due(boot, **count)).map(|(boot, _)| boot);
        let next = due
            .min_by_key(|boot| ended(boot))
            .or_else(|| heads.keys().min_by_key(|boot| ended(boot)));
        let Some(next) = next.copied() else { break };
        orders.iter_mut().for_each(|order| order.retain(|boot| *boot != next));
        sorted.extend(span_of.get(&next));
    }
    sorted
}

fn seek(
    part: &dyn Reader,
    cursor: &Cursor,
    direction: Direction,
    inclusive: bool,
) -> Result<Option<u64>> {
    let at = |seqnum: u64| match direction {
        // Position 0 is before the first entry: there is no number 0.
        Direction::Forward => Some(seqnum.saturating_sub(1)),
        Direction::Backward => Some(seqnum.saturating_add(1)),
    };
    if cursor.seqnum > 0 && part.has_sequence(cursor.sequence)? {
        return Ok(if inclusive { at(cursor.seqnum) } else { Some(cursor.seqnum) });
    }
    let (query, from) = match direction {
        Direction::Forward => {
            (Query { since_us: Some(cursor.stamp.realtime_us), ..Query::default() }, u64::MAX)
        }
        Direction::Backward => {
            (Query { until_us: Some(cursor.stamp.realtime_us), ..Query::default() }, 0)
        }
    };
    let first = part.entries(&query, direction, None).try_next()?;
    Ok(first.map_or(Some(from), |entry| at(entry.seqnum)))
}

/// The entries of all stores, merged.
pub struct Merged<'a> {
    heads: Vec<Head<'a>>,
    direction: Direction,
}

struct Head<'a> {
    next: Option<Entry>,
    /// No entry comes before this time, µs; it need not be read before its turn.
    bound: Option<u64>,
    stream: Box<dyn Stream + 'a>,
    ended: bool,
}

impl Head<'_> {
    fn fill(&mut self) -> Result<()> {
        if self.next.is_none() && !self.ended {
            self.next = self.stream.try_next()?;
            self.ended = self.next.is_none();
        }
        Ok(())
    }

    /// The time of the next entry, or the bound of one that was not read.
    fn time(&self) -> Option<u64> {
        self.next.as_ref().map(|entry| entry.stamp.realtime_us).or(self.bound)
    }
}

impl Merged<'_> {
    /// The next entry and the number of its store, or `None` at the end.
    pub fn try_next(&mut self) -> Result<Option<(usize, Entry)>> {
        let unbound = self.heads.iter_mut().filter(|head| head.bound.is_none());
        unbound.into_iter().try_for_each(Head::fill)?;
        loop {
            let heads = self.heads.iter().enumerate();
            let times = heads.filter_map(|(at, head)| head.time().map(|time| (time, at)));
            let best = match self.direction {
                Direction::Forward => times.min(),
                Direction::Backward => times.max(),
            };
            let Some((_, at)) = best else { return Ok(None) };
            let head = &mut self.heads[at];
            if let Some(entry) = head.next.take() {
                return Ok(Some((at, entry)));
            }
            head.bound = None;
            head.fill()?;
        }
    }

    /// What could not be read so far, with the number of its store.
    pub fn damage(&self) -> impl Iterator<Item = (usize, &Error)> {
        let heads = self.heads.iter().enumerate();
        heads.flat_map(|(part, head)| head.stream.damage().iter().map(move |error| (part, error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists as `BOOT:FIRST-LAST` in their order.
    fn check(lists: &[&str], expected: &str) {
        let span = |word: &str| {
            let (boot, times) = word.split_once(':').expect("a boot");
            let (first, last) = times.split_once('-').expect("two times");
            let number = |text: &str| text.parse::<u64>().expect("a number");
            BootSpan {
                boot: Id128([number(boot) as u8; 16]),
                realtime_min_us: number(first),
                realtime_max_us: number(last),
                first_seqnum: 1,
            }
        };
        let orders = lists.iter().map(|list| list.split_whitespace().map(span).collect()).collect();
        let found: Vec<String> =
            in_order(orders).iter().map(|span| span.boot.0[0].to_string()).collect();
        assert_eq!(found.join(" "), expected, "{lists:?}");
    }

    #[test]
    fn boots_are_in_the_order_in_which_they_ended() {
        check(&["1:10-20 2:30-40", "3:50-60"], "1 2 3");
        // The second one of two began with an earlier wrong clock.
        check(&["1:5-100", "2:4-200"], "1 2");
        check(&["2:4-200", "1:5-100"], "1 2");
        // Within a store the order is known, whatever the clock did.
        check(&["1:900-990 2:10-20", "3:30-40"], "3 1 2");
        check(&["1:10-20 2:5-30", "2:25-50 3:55-60"], "1 2 3");
        check(&["1:10-900 2:5-30", "2:25-50 3:55-60"], "1 2 3");
        check(&["1:10-20 2:30-40", "2:30-40 1:10-20"], "1 2");
        check(&["", "1:1-1"], "1");
    }
}

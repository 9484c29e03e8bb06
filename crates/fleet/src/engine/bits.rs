//! Sets of rows, one bit each.

/// A set of numbers below a fixed bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// None of so many rows.
    pub fn none(rows: usize) -> Bits {
        Bits { words: vec![0; rows.div_ceil(64)] }
    }

    /// All of so many rows.
    pub fn all(rows: usize) -> Bits {
        let mut out = Bits { words: vec![u64::MAX; rows.div_ceil(64)] };
        if let (Some(last), true) = (out.words.last_mut(), !rows.is_multiple_of(64)) {
            *last = (1 << (rows % 64)) - 1;
        }
        out
    }

    /// Adds a row.
    pub fn add(&mut self, row: usize) {
        self.words[row / 64] |= 1 << (row % 64);
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Adds the rows of another set.
    pub fn unite(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, more)| *word |= more);
    }

    /// Keeps the rows of another set only.
    pub fn keep(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, kept)| *word &= kept);
    }

    /// Takes the rows of another set away.
    pub fn remove(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, gone)| *word &= !gone);
    }

    /// The rows, in order.
    pub fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                (rest != 0).then(|| {
                    rest &= rest - 1;
                    at * 64 + bit
                })
            })
        })
    }
}

/// What a test says of rows: those for which it is true, and those for which it fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdicts {
    /// True.
    pub yes: Bits,
    /// A fault.
    pub fault: Bits,
}

impl Verdicts {
    /// False for all.
    pub fn none(rows: usize) -> Verdicts {
        Verdicts { yes: Bits::none(rows), fault: Bits::none(rows) }
    }

    /// Notes what a test says of a row.
    pub fn set(&mut self, row: usize, verdict: Verdict) {
        match verdict {
            Verdict::Yes => self.yes.add(row),
            Verdict::Fault => self.fault.add(row),
            Verdict::No => {}
        }
    }
}

/// What a test says of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// True.
    Yes,
    /// False.
    No,
    /// A fault; evaluating the filter for the row says which.
    Fault,
}

impl From<bool> for Verdict {
    fn from(yes: bool) -> Verdict {
        if yes { Verdict::Yes } else { Verdict::No }
    }
}

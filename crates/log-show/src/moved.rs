//! Following over a move: what was in memory comes to the disk, and memory begins anew.

use warren_log_store::entry::Entry;
use warren_log_store::query::union::Positions;

/// What was seen of each store while following. What was in memory may come to the disk, where it
/// has other numbers: it is known by its time in the boot.
#[derive(Default)]
pub struct Moved {
    newest: Vec<Option<Entry>>,
}

impl Moved {
    /// The newest entry of each store.
    pub fn new(newest: Vec<Option<Entry>>) -> Moved {
        Moved { newest }
    }

    /// Behind the newest entries.
    pub fn positions(&self) -> Positions {
        self.newest.iter().map(|entry| entry.as_ref().map(|entry| entry.seqnum)).collect()
    }

    /// The stores that are others than before: emptied, and maybe begun anew with other numbers.
    pub fn begun_anew(&self, newer: &Moved) -> Vec<usize> {
        let sequence = |entry: &Option<Entry>| entry.as_ref().map(|entry| entry.sequence);
        let pairs = self.newest.iter().zip(&newer.newest).enumerate();
        let others = pairs.filter(|(_, (old, new))| sequence(old) != sequence(new));
        others.map(|(part, _)| part).collect()
    }

    /// Takes what is newest now; a store that was emptied keeps what it had.
    pub fn advance(&mut self, newer: Moved) {
        for (old, new) in self.newest.iter_mut().zip(newer.newest) {
            *old = new.or(old.take());
        }
    }

    /// Whether an entry of a store was in the next one, the one in memory, and seen there; the first
    /// `own` stores are ours.
    pub fn has_seen(&self, own: usize, part: usize, entry: &Entry) -> bool {
        let newest = self.newest.get(part + 1).and_then(Option::as_ref);
        newest.is_some_and(|newest| {
            newest.stamp.boot == entry.stamp.boot
                && entry.stamp.monotonic_us <= newest.stamp.monotonic_us
                && part.is_multiple_of(STORES_OF_NAMESPACE)
                && part + 1 < own
        })
    }
}

/// Of each namespace there are two stores: on the disk, and in memory.
const STORES_OF_NAMESPACE: usize = 2;

/// The further one of two positions in each store.
pub fn further(mut positions: Positions, others: &[Option<u64>]) -> Positions {
    positions
        .iter_mut()
        .zip(others)
        .for_each(|(position, other)| *position = (*position).max(*other));
    positions
}

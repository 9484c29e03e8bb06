//! A vector whose snapshots are cheap: parts of it are shared until one side writes.
//!
//! The machine's state lives in one of these. Publishing it to readers clones one pointer per 1,024
//! elements; the next write copies only the way to what it touches, so that elements should be cheap
//! to clone: pointers themselves.

use std::sync::Arc;

/// Elements of a chunk.
const CHUNK: usize = 32;

/// Elements of a group, which is as many chunks as a chunk has elements.
const GROUP: usize = CHUNK * CHUNK;

/// A growing table with O(len / 1024) snapshots and copy-on-write of 32 elements at a time.
#[derive(Debug)]
pub struct Chunked<T> {
    groups: Vec<Group<T>>,
    len: usize,
}

/// Chunks that follow each other.
type Group<T> = Arc<Vec<Arc<Vec<T>>>>;

impl<T> Clone for Chunked<T> {
    fn clone(&self) -> Self {
        Chunked { groups: self.groups.clone(), len: self.len }
    }
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Chunked { groups: Vec::new(), len: 0 }
    }
}

impl<T: Clone> Chunked<T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The element at `index`, or nothing beyond the end.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.groups.get(index / GROUP)?.get(index % GROUP / CHUNK)?.get(index % CHUNK)
    }

    /// The element at `index` for writing. Copies its chunk first if a snapshot shares it.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        let group = Arc::make_mut(self.groups.get_mut(index / GROUP)?);
        Arc::make_mut(group.get_mut(index % GROUP / CHUNK)?).get_mut(index % CHUNK)
    }

    /// Adds an element at the end.
    pub fn push(&mut self, value: T) {
        if self.len.is_multiple_of(GROUP) {
            self.groups.push(Arc::default());
        }
        let group = self.groups.last_mut().expect("a group was pushed if none had room");
        let group = Arc::make_mut(group);
        if self.len.is_multiple_of(CHUNK) {
            group.push(Arc::new(Vec::with_capacity(CHUNK)));
        }
        let last = group.last_mut().expect("a chunk was pushed if none had room");
        Arc::make_mut(last).push(value);
        self.len += 1;
    }

    /// The elements of the chunks that `before` does not share; all without it.
    pub fn differing<'a>(&'a self, before: Option<&'a Chunked<T>>) -> impl Iterator<Item = &'a T> {
        let groups = self.groups.iter().enumerate().filter_map(move |(index, group)| {
            let old = before.and_then(|before| before.groups.get(index));
            old.is_none_or(|old| !Arc::ptr_eq(old, group)).then_some((group, old))
        });
        let chunks = groups.flat_map(|(group, old)| {
            group.iter().enumerate().filter(move |(index, chunk)| {
                let old = old.and_then(|old| old.get(*index));
                old.is_none_or(|old| !Arc::ptr_eq(old, chunk))
            })
        });
        chunks.flat_map(|(_, chunk)| chunk.iter())
    }

    /// All elements in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.groups.iter().flat_map(|group| group.iter()).flat_map(|chunk| chunk.iter())
    }
}

impl<T: Clone> std::ops::Index<usize> for Chunked<T> {
    type Output = T;
    fn index(&self, index: usize) -> &T {
        self.get(index).expect("the index was given by this table")
    }
}

impl<T: Clone> FromIterator<T> for Chunked<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut out = Chunked::default();
        items.into_iter().for_each(|item| out.push(item));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_keeps_its_values() {
        let mut table: Chunked<u32> = (0..3000).collect();
        let before = table.clone();
        *table.get_mut(1130).expect("in range") = 7;
        table.push(3000);
        assert_eq!((before[1130], before.len()), (1130, 3000));
        assert_eq!((table[1130], table.len(), table[3000]), (7, 3001, 3000));
        assert!(before.iter().copied().eq(0..3000));
    }

    #[test]
    fn only_the_touched_chunk_is_copied() {
        let mut table: Chunked<u32> = (0..3000).collect();
        let before = table.clone();
        *table.get_mut(1130).expect("in range") = 7;
        let differing: Vec<u32> = table.differing(Some(&before)).copied().collect();
        assert_eq!((differing.len(), differing.contains(&7)), (CHUNK, true));
        assert_eq!(table.differing(None).count(), 3000);
        table.push(3000);
        let last = 3000 % CHUNK + 1;
        assert_eq!(table.differing(Some(&before)).count(), CHUNK + last);
    }

    #[test]
    fn beyond_the_end_is_nothing() {
        for len in [0, CHUNK, GROUP, GROUP + 1] {
            let mut table: Chunked<usize> = (0..len).collect();
            assert!(table.get(len).is_none() && table.get_mut(len).is_none());
            assert!(table.iter().copied().eq(0..len));
        }
    }
}

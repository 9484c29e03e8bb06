//! A vector whose snapshots are cheap: chunks are shared until one side writes.
//!
//! The machine's state lives in one of these. Publishing it to readers clones one pointer per
//! chunk; the next write copies only the chunk it touches, so that elements should be cheap to
//! clone: pointers themselves.

use std::sync::Arc;

const CHUNK: usize = 64;

/// A growing table with O(len / 64) snapshots and copy-on-write of 64 elements at a time.
#[derive(Debug)]
pub struct Chunked<T> {
    chunks: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T> Clone for Chunked<T> {
    fn clone(&self) -> Self {
        Chunked { chunks: self.chunks.clone(), len: self.len }
    }
}

impl<T> Default for Chunked<T> {
    fn default() -> Self {
        Chunked { chunks: Vec::new(), len: 0 }
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
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    /// The element at `index` for writing. Copies its chunk first if a snapshot shares it.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        Arc::make_mut(self.chunks.get_mut(index / CHUNK)?).get_mut(index % CHUNK)
    }

    /// Adds an element at the end.
    pub fn push(&mut self, value: T) {
        if self.len.is_multiple_of(CHUNK) {
            self.chunks.push(Arc::new(Vec::with_capacity(CHUNK)));
        }
        let last = self.chunks.last_mut().expect("a chunk was pushed if none had room");
        Arc::make_mut(last).push(value);
        self.len += 1;
    }

    /// The elements of the chunks that `before` does not share; all without it.
    pub fn differing<'a>(&'a self, before: Option<&'a Chunked<T>>) -> impl Iterator<Item = &'a T> {
        let is_shared = move |(index, chunk): &(usize, &Arc<Vec<T>>)| {
            let old = before.and_then(|before| before.chunks.get(*index));
            old.is_some_and(|old| Arc::ptr_eq(old, chunk))
        };
        let own = self.chunks.iter().enumerate().filter(move |both| !is_shared(both));
        own.flat_map(|(_, chunk)| chunk.iter())
    }

    /// All elements in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
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
        let mut table: Chunked<u32> = (0..1000).collect();
        let before = table.clone();
        *table.get_mut(130).expect("in range") = 7;
        table.push(1000);
        assert_eq!((before[130], before.len()), (130, 1000));
        assert_eq!((table[130], table.len(), table[1000]), (7, 1001, 1000));
    }

    #[test]
    fn only_the_touched_chunk_is_copied() {
        let mut table: Chunked<u32> = (0..1000).collect();
        let before = table.clone();
        *table.get_mut(130).expect("in range") = 7;
        let shared = (0..table.chunks.len())
            .filter(|&i| Arc::ptr_eq(&table.chunks[i], &before.chunks[i]))
            .count();
        assert_eq!(shared, table.chunks.len() - 1);
        let differing: Vec<u32> = table.differing(Some(&before)).copied().collect();
        assert_eq!((differing.len(), differing.contains(&7)), (CHUNK, true));
        assert_eq!(table.differing(None).count(), 1000);
    }

    #[test]
    fn beyond_the_end_is_nothing() {
        let mut table: Chunked<u32> = (0..64).collect();
        assert!(table.get(64).is_none() && table.get_mut(64).is_none());
        assert!(table.iter().copied().eq(0..64));
    }
}

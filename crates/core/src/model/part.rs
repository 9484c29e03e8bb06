//! A part of a unit's run state that costs nothing to copy until one side writes.
//!
//! Readers have a snapshot of all units, so that the first write to one after each snapshot copies
//! it ([`crate::model::chunked`]). Most writes touch one part of several: the others stay shared.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A value that its copies share until it is written to. It is written down as the value is.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Part<T>(Arc<T>);

impl<T> Part<T> {
    /// A value of its own.
    pub fn new(value: T) -> Part<T> {
        Part(Arc::new(value))
    }
}

impl<T> Deref for Part<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Part<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_its_value_and_is_the_same_until_one_is_written_to() {
        let mut part = Part::new(vec![1]);
        let copy = part.clone();
        assert!(std::ptr::eq(&*part, &*copy));
        part.push(2);
        assert_eq!((&*part, &*copy), (&vec![1, 2], &vec![1]));
    }
}

//! The different values of a field, of no more than so many bytes: a field may have as many values as there are
//! entries, and who asks over the network decides which field.

use std::collections::BTreeSet;

use crate::error::{Error, Result};

/// What a value costs beside its bytes, about.
const VALUE_BYTES: usize = 64;

/// Different values.
pub struct DistinctValues {
    values: BTreeSet<Vec<u8>>,
    bytes: usize,
    bytes_max: usize,
}

impl DistinctValues {
    /// None yet, and no more than so many bytes of them.
    pub fn new(bytes_max: usize) -> DistinctValues {
        DistinctValues { values: BTreeSet::new(), bytes: 0, bytes_max }
    }

    /// Adds one; nothing once there are too many.
    pub fn insert(&mut self, value: &[u8]) {
        if self.bytes <= self.bytes_max && !self.values.contains(value) {
            self.values.insert(value.to_vec());
            self.bytes = self.bytes.saturating_add(value.len() + VALUE_BYTES);
        }
    }

    /// Whether all that were added are here.
    ///
    /// # Errors
    /// [`Error::TooLarge`] when there were too many.
    pub fn check(&self) -> Result<()> {
        match self.bytes <= self.bytes_max {
            true => Ok(()),
            false => Err(Error::TooLarge { what: "all values of the field", max: self.bytes_max }),
        }
    }

    /// All of them.
    ///
    /// # Errors
    /// As [`DistinctValues::check`].
    pub fn into_set(self) -> Result<BTreeSet<Vec<u8>>> {
        self.check()?;
        Ok(self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_count_once_and_too_many_are_an_error() {
        let mut values = DistinctValues::new(3 * (VALUE_BYTES + 1));
        (0..100).for_each(|number| values.insert(&[number % 3]));
        assert_eq!(values.check(), Ok(()));
        (0..100).for_each(|number| values.insert(&[number]));
        assert!(matches!(values.check(), Err(Error::TooLarge { .. })));
        assert_eq!(values.values.len(), 4, "no more are kept");
        assert!(values.into_set().is_err());
    }
}

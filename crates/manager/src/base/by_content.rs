//! Things that are made once for each content and shared by all that have it.

use std::collections::BTreeMap;

/// What was made, by its content. When there are too many all are made anew: who has one keeps it.
pub(crate) struct ByContent<K, V> {
    kept: BTreeMap<K, V>,
    kept_max: usize,
}

impl<K: Ord + Clone, V: Clone> ByContent<K, V> {
    /// Nothing was made; so many are kept.
    pub(crate) fn new(kept_max: usize) -> ByContent<K, V> {
        ByContent { kept: BTreeMap::new(), kept_max }
    }

    /// What there is for the content, or what `make` makes of it now.
    pub(crate) fn get<E>(
        &mut self,
        content: K,
        make: impl FnOnce(&K) -> Result<V, E>,
    ) -> Result<V, E> {
        if let Some(made) = self.kept.get(&content) {
            return Ok(made.clone());
        }
        let made = make(&content)?;
        if self.kept.len() >= self.kept_max {
            self.kept.clear();
        }
        self.kept.insert(content, made.clone());
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_the_same_content_is_made_once_until_there_are_too_many() {
        let mut made = 0;
        let mut all = ByContent::new(2);
        let mut get = |content: u8| {
            all.get(content, |content| {
                made += 1;
                if *content == 9 { Err(()) } else { Ok(made) }
            })
        };
        let got = [1, 2, 1, 9, 3, 1].map(|content| get(content).ok());
        assert_eq!(got, [Some(1), Some(2), Some(1), None, Some(4), Some(5)]);
    }
}

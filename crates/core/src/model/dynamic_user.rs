//! Users and groups that are made for a run and are in no file (systemd.exec(5), "DynamicUser=").

use imbl::OrdMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use warren_unit::config::dynamic_user::name_hash;

/// The first number that is given; the manual has the range.
pub const FIRST: u32 = 61184;

/// The last one.
pub const LAST: u32 = 65519;

/// Who the processes of a run are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DynamicUser {
    /// The user, and the group of the same name.
    pub user: DynamicName,
    /// `Group=`, if it is another.
    pub group: Option<DynamicName>,
    /// Why it cannot be had: no command of the run is begun.
    pub refused: Option<Box<str>>,
}

/// A name and what number it has.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DynamicName {
    /// The name.
    pub name: Box<str>,
    /// Its number.
    pub number: Number,
}

/// The number of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Number {
    /// The user database has one for the name.
    Static,
    /// It is given for as long as somebody runs by the name.
    Given(u32),
}

impl DynamicUser {
    /// Its names.
    pub fn names(&self) -> impl Iterator<Item = &DynamicName> {
        [&self.user].into_iter().chain(&self.group)
    }
}

impl DynamicName {
    /// The number, if it was given.
    pub fn given(&self) -> Option<u32> {
        match self.number {
            Number::Given(number) => Some(number),
            Number::Static => None,
        }
    }
}

/// Names and numbers in use. A copy costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    by_name: OrdMap<Arc<str>, u32>,
    by_number: OrdMap<u32, Arc<str>>,
}

impl Numbers {
    /// The number of a name.
    pub fn number(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// The name of a number.
    pub fn name(&self, number: u32) -> Option<&str> {
        self.by_number.get(&number).map(|name| &**name)
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, u32)> {
        self.by_name.iter().map(|(name, &number)| (&**name, number))
    }

    pub(crate) fn insert(&mut self, name: &str, number: u32) {
        let name: Arc<str> = name.into();
        self.by_number.insert(number, name.clone());
        self.by_name.insert(name, number);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(number) = self.by_name.remove(name) {
            self.by_number.remove(&number);
        }
    }
}

impl<'a> FromIterator<(&'a str, u32)> for Numbers {
    fn from_iter<I: IntoIterator<Item = (&'a str, u32)>>(all: I) -> Numbers {
        let mut numbers = Numbers::default();
        all.into_iter().for_each(|(name, number)| numbers.insert(name, number));
        numbers
    }
}

/// The number that a name has if it is free, and the order of the others: the same each time, so that the files below
/// /var/lib/private seldom change hands.
pub fn candidates(name: &str) -> impl Iterator<Item = u32> + use<> {
    let count = LAST - FIRST + 1;
    let first = u32::try_from(name_hash(name) % u64::from(count)).expect("less than the count");
    (0..count).map(move |at| FIRST + (first + at) % count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_of_the_range_comes_once_and_the_first_is_of_the_name() {
        let mut all: Vec<u32> = candidates("web").collect();
        assert_eq!(all.first(), candidates("web").next().as_ref());
        assert_eq!((all[0], candidates("db").next()), (FIRST_OF_WEB, Some(FIRST_OF_DB)));
        all.sort_unstable();
        assert!(all.into_iter().eq(FIRST..=LAST));
    }

    /// What the hash has given since there is one.
    const FIRST_OF_WEB: u32 = 63715;
    const FIRST_OF_DB: u32 = 65152;
}

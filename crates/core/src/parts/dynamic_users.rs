//! Numbers that are given to users and groups for as long as units run by their names.

use crate::model::dynamic_user::{Numbers, candidates};
use crate::model::ids::UnitId;
use std::collections::{BTreeMap, BTreeSet};

/// Who has which number. Units that run by the same name share it.
#[derive(Debug, Default)]
pub(crate) struct DynamicUsers {
    numbers: Numbers,
    units: BTreeMap<Box<str>, BTreeSet<UnitId>>,
    /// Numbers that the user database has: at most the range.
    refused: BTreeSet<u32>,
}

impl DynamicUsers {
    /// Gives the name a number, the one that it has if a unit runs by it; nothing if all are in use, or if that one turned
    /// out to be another's.
    pub fn take(&mut self, name: &str, unit: UnitId) -> Option<u32> {
        let is_good = |n: &u32| !self.refused.contains(n);
        let is_free = |n: &u32| self.numbers.name(*n).is_none() && is_good(n);
        let number = match self.numbers.number(name) {
            Some(number) => Some(number).filter(is_good),
            None => candidates(name).find(is_free),
        }?;
        self.hold(name, number, unit);
        Some(number)
    }

    /// Notes that a unit runs by the name with this number.
    pub fn hold(&mut self, name: &str, number: u32, unit: UnitId) {
        self.numbers.insert(name, number);
        self.units.entry(name.into()).or_default().insert(unit);
    }

    /// The unit no longer runs by the name.
    pub fn release(&mut self, name: &str, unit: UnitId) {
        let Some(units) = self.units.get_mut(name) else { return };
        units.remove(&unit);
        if units.is_empty() {
            self.numbers.remove(name);
            self.units.remove(name);
        }
    }

    /// The number belongs to somebody else, and is not given.
    pub fn refuse(&mut self, number: u32) {
        self.refused.insert(number);
    }

    /// Whether the unit runs by the name with this number.
    pub fn holds(&self, name: &str, number: u32, unit: UnitId) -> bool {
        let runs_by_it = self.units.get(name).is_some_and(|units| units.contains(&unit));
        runs_by_it && self.numbers.number(name) == Some(number)
    }

    /// Units that hold a number, each once for each.
    pub fn holders(&self) -> impl Iterator<Item = UnitId> + '_ {
        self.units.values().flatten().copied()
    }

    /// Names and numbers in use.
    pub fn numbers(&self) -> &Numbers {
        &self.numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::dynamic_user::{FIRST, LAST};

    #[test]
    fn a_name_keeps_its_number_while_a_unit_runs_by_it() {
        let mut users = DynamicUsers::default();
        let (a, b) = (UnitId(1), UnitId(2));
        let first = users.take("web", a);
        assert_eq!((first, users.take("web", b)), (candidates("web").next(), first));
        users.refuse(first.expect("given"));
        assert_eq!(users.take("web", UnitId(3)), None);
        users.release("web", a);
        assert!(users.holds("web", first.expect("given"), b));
        users.release("web", b);
        assert_eq!((users.numbers().all().count(), users.holders().count()), (0, 0));
        assert_eq!(users.take("web", a), candidates("web").nth(1));
    }

    #[test]
    fn a_number_is_given_to_one_name_and_none_is_left_after_the_last() {
        let mut users = DynamicUsers::default();
        let first = candidates("a").next().expect("a number");
        users.refuse(first);
        let next = candidates("a").nth(1);
        assert_eq!(users.take("a", UnitId(0)), next);
        let count = LAST - FIRST + 1;
        let mut seen: BTreeSet<u32> = next.into_iter().collect();
        for at in 1..count - 1 {
            let number = users.take(&format!("u{at}"), UnitId(at)).expect("one is free");
            assert!((FIRST..=LAST).contains(&number) && seen.insert(number));
        }
        assert_eq!(users.take("more", UnitId(1)), None);
    }
}

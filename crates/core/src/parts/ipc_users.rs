//! Which units run as which user, for those whose objects of interprocess communication are removed at the end of the
//! last (systemd.exec(5), "RemoveIPC=").

use crate::model::ids::UnitId;
use std::collections::{BTreeMap, BTreeSet};

/// The users of units that are up, as their settings name them.
#[derive(Debug, Default)]
pub(crate) struct IpcUsers {
    units: BTreeMap<Box<str>, BTreeSet<UnitId>>,
    of_unit: BTreeMap<UnitId, Box<str>>,
    /// Users of units that ended and whose objects go when the last of their units does.
    owed: BTreeSet<Box<str>>,
}

impl IpcUsers {
    /// The unit runs as this user.
    pub fn begin(&mut self, unit: UnitId, user: &str) {
        if self.of_unit.get(&unit).is_some_and(|of| **of != *user) {
            self.end(unit, false);
        }
        self.of_unit.insert(unit, user.into());
        self.units.entry(user.into()).or_default().insert(unit);
    }

    /// The unit's run is over. Returns its user if objects of the user are to be removed now.
    pub fn end(&mut self, unit: UnitId, removes: bool) -> Option<Box<str>> {
        let user = self.of_unit.remove(&unit)?;
        if removes {
            self.owed.insert(user.clone());
        }
        let units = self.units.get_mut(&user)?;
        units.remove(&unit);
        if !units.is_empty() {
            return None;
        }
        self.units.remove(&user);
        self.owed.remove(&user).then_some(user)
    }

    /// Whether a unit runs as this user.
    pub fn is_in_use(&self, user: &str) -> bool {
        self.units.contains_key(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_of_a_user_go_with_the_last_unit_if_one_of_them_asks_for_it() {
        let (a, b, c) = (UnitId(1), UnitId(2), UnitId(3));
        let mut users = IpcUsers::default();
        users.begin(a, "web");
        users.begin(b, "web");
        users.begin(c, "db");
        assert_eq!(users.end(a, true), None);
        assert!(users.is_in_use("web"));
        assert_eq!(users.end(b, false), Some("web".into()));
        assert_eq!(users.end(b, true), None);
        assert_eq!(users.end(c, false), None);
        assert!(!users.is_in_use("db") && users.owed.is_empty());
    }
}

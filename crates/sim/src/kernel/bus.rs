//! The message bus: who has which name.

use warren_core::model::ids::UnitId;
use warren_core::protocol::event::{BusName, Event};

use super::{Happening, Kernel, MS};

impl Kernel {
    /// The name of a unit's service is watched from now on, or is not any more. Who begins to watch is
    /// told how it is.
    pub(super) fn watch_name(&mut self, unit: UnitId, name: &str, on: bool) {
        self.watched_names.remove(&unit);
        if on {
            self.watched_names.insert(unit, name.to_owned());
            let state = self.name_state(name);
            self.later(MS, Happening::Tell(Event::BusName { unit, state }));
        }
    }

    fn name_state(&self, name: &str) -> BusName {
        if self.names.contains_key(name) { BusName::Owned } else { BusName::Free }
    }

    /// A process takes a name, or gives it up.
    pub(super) fn own(&mut self, pid: u32, name: &str, on: bool) {
        match on {
            true => _ = self.names.entry(name.to_owned()).or_insert(pid),
            false if self.names.get(name) == Some(&pid) => _ = self.names.remove(name),
            false => return,
        }
        self.tell_watchers(name);
    }

    /// A process is gone, and with it its names.
    pub(super) fn leave_names(&mut self, pid: u32) {
        let own = self.names.iter().filter(|(_, owner)| **owner == pid);
        let own: Vec<String> = own.map(|(name, _)| name.clone()).collect();
        own.iter().for_each(|name| self.own(pid, name, false));
    }

    fn tell_watchers(&mut self, name: &str) {
        let watchers = self.watched_names.iter().filter(|(_, watched)| *watched == name);
        let watchers: Vec<UnitId> = watchers.map(|(unit, _)| *unit).collect();
        let state = self.name_state(name);
        watchers.into_iter().for_each(|unit| self.say(Event::BusName { unit, state }));
    }

    /// Whether anybody has the name.
    pub fn is_owned(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }
}

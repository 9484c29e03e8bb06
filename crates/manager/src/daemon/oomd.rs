//! What systemd-oomd is to look after, and what it has killed.

use crate::daemon::{Daemon, unit_log};
use warren_core::model::ids::UnitId;
use warren_core::protocol::event::Event;
use warren_core::settings::Compiled;
use warren_unit::UnitName;
use warren_unit::settings::{Group, Id};

/// Settings that have systemd-oomd look after a group.
const SETTINGS: [Id; 2] =
    [Id::of(Group::Cgroup, "ManagedOOMSwap"), Id::of(Group::Cgroup, "ManagedOOMMemoryPressure")];

/// Slices that are there without a start.
const PERPETUAL: [&str; 2] = ["-.slice", "system.slice"];

impl Daemon {
    /// Has systemd-oomd look after the unit's group as its settings say.
    pub(crate) fn note_for_oomd(&mut self, unit: UnitId, settings: &Compiled) {
        if self.cgroup.groups.exist() {
            self.cgroup.oomd.note(unit, &self.core.group_path(unit), settings);
        }
    }

    /// After a restart of the manager: the same for units with these groups, and for slices that are always there.
    pub(crate) fn take_up_for_oomd(&mut self, with_groups: &[UnitId]) {
        let graph = self.core.graph().clone();
        let names = PERPETUAL.iter().filter_map(|name| UnitName::parse(name).ok());
        let perpetual = names.filter_map(|name| graph.lookup(&name));
        let there = perpetual.chain(with_groups.iter().copied());
        for definition in there.filter_map(|unit| graph.get(unit)) {
            if SETTINGS.iter().any(|&setting| definition.mentions(setting)) {
                let settings = self.core.settings().compile_running(definition);
                self.note_for_oomd(definition.id, &settings);
            }
        }
        self.publish_for_oomd();
    }

    /// Tells the threads that tell systemd-oomd, if something has changed.
    pub(crate) fn publish_for_oomd(&mut self) {
        if let Some(table) = self.cgroup.oomd.take_changed() {
            self.shared.oomd.publish(table);
        }
    }

    /// Before the end of a process, or of all, is told: whether systemd-oomd has killed them. Where it looks after no
    /// group it kills none.
    pub(crate) fn look_for_kills_of_oomd(&mut self, unit: UnitId) {
        if !self.cgroup.oomd.is_empty() && self.cgroup.groups.was_killed_by_oomd(unit) {
            unit_log::killed_by_oomd(&self.core.view(), self.core.settings(), unit);
            self.event_loop.events.push_back(Event::OutOfMemory { unit });
        }
    }
}

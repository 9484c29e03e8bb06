//! Sets of nf_tables that are told of units (`NFTSet=`): when, and by whom.

use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::{Done, Spawn};
use warren_core::settings::Compiled;
use warren_init::protocol::exec::{NftSet, NftSource as ToldBy};
use warren_unit::config::{NftSet as Asked, NftSource};
use warren_unit::settings::{Group, Id};

use crate::cgroup::limits::cgroup_config;
use crate::cgroup::nft_sets::{self, Element};
use crate::daemon::Daemon;
use crate::peer::log_link::exec_of;

const SETTING: Id = Id::of(Group::Cgroup, "NFTSet");

impl Daemon {
    /// What the helper tells sets of a process before it makes it.
    pub(crate) fn tell_nft_sets(&mut self, spawn: &Spawn) -> Vec<NftSet> {
        let asked = asked(&spawn.settings);
        if asked.is_empty() && self.cgroup.nft_sets.of(spawn.unit).is_empty() {
            return Vec::new();
        }
        let elements = self.nft_elements(spawn.unit, &spawn.settings);
        self.change_nft_sets(spawn.unit, elements);
        let group = self.cgroup.groups.path_and_id(spawn.unit).and_then(|(_, id)| id);
        let told = asked.iter().filter_map(|set| {
            let source = match set.source {
                NftSource::Cgroup => ToldBy::Cgroup(group?),
                NftSource::User => ToldBy::User,
                NftSource::Group => ToldBy::Group,
            };
            let (table, name) = (set.table.to_string(), set.name.to_string());
            Some(NftSet { source, family: set.family.number(), table, name })
        });
        told.collect()
    }

    /// Tells sets of a unit that has no process of ours, or other settings now; `then` is done when they know.
    pub(crate) fn tell_nft_sets_beside(
        &mut self,
        unit: UnitId,
        settings: &Compiled,
        then: Option<EffectId>,
    ) {
        let elements = self.nft_elements(unit, settings);
        self.change_nft_sets(unit, elements.clone());
        let is_done = self.cgroup.nft_thread.add(elements);
        if let Some(effect) = then {
            self.event_loop.workers.run(effect, move || {
                // The thread answers, or is over.
                let _ = is_done.recv();
                Done::Ok
            });
        }
    }

    /// Whether sets are to be told of a unit, or were.
    pub(crate) fn has_nft_sets(&self, unit: UnitId, settings: &Compiled) -> bool {
        !asked(settings).is_empty() || !self.cgroup.nft_sets.of(unit).is_empty()
    }

    /// Has sets forget a unit. What another manager told of it may be known by its settings alone.
    pub(crate) fn leave_nft_sets(&mut self, unit: UnitId, settings: &Compiled) {
        if !self.has_nft_sets(unit, settings) {
            return;
        }
        if self.cgroup.nft_sets.of(unit).is_empty() {
            let elements = self.nft_elements(unit, settings);
            self.change_nft_sets(unit, elements);
        }
        self.change_nft_sets(unit, Vec::new());
    }

    /// Tells sets all again that they were told: somebody may have made them anew.
    pub(crate) fn refill_nft_sets(&mut self) {
        let all = self.cgroup.nft_sets.all();
        if !all.is_empty() {
            self.cgroup.nft_thread.add(all);
        }
    }

    /// After a restart of the manager: what sets were told of units with these groups is known again, and told again.
    pub(crate) fn take_up_nft_sets(&mut self, with_groups: &[UnitId]) {
        let graph = self.core.graph().clone();
        let there = with_groups.iter().filter_map(|&unit| graph.get(unit));
        for definition in there.filter(|definition| definition.mentions(SETTING)) {
            let settings = self.core.settings().compile_running(definition);
            let elements = self.nft_elements(definition.id, &settings);
            self.change_nft_sets(definition.id, elements);
        }
        self.refill_nft_sets();
    }

    fn nft_elements(&self, unit: UnitId, settings: &Compiled) -> Vec<Element> {
        let asked = asked(settings);
        let group = self.cgroup.groups.path_and_id(unit).and_then(|(_, id)| id);
        let history = self.core.unit_run(unit).history.as_ref();
        let made = history.and_then(|history| history.dynamic_user.as_deref());
        let number_of = |name: &str| {
            let mut names = made.into_iter().flat_map(|user| user.names());
            let number = names.find(|of| *of.name == *name).and_then(|of| of.given());
            number.map_or_else(|| name.to_owned(), |number| number.to_string())
        };
        let exec = exec_of(settings);
        let user = exec.and_then(|exec| exec.user.as_deref()).map(number_of);
        let users_group = exec.and_then(|exec| exec.group.as_deref()).map(number_of);
        nft_sets::elements(asked, group, user.as_deref(), users_group.as_deref())
    }

    fn change_nft_sets(&mut self, unit: UnitId, elements: Vec<Element>) {
        if let Some(leaving) = self.cgroup.nft_sets.tell(unit, elements) {
            self.cgroup.nft_thread.remove(leaving);
        }
    }
}

fn asked(settings: &Compiled) -> &[Asked] {
    cgroup_config(settings).map_or(&[], |config| &config.nft_sets)
}

//! What the slices above a unit say for the units in them (systemd.resource-control(5), "DefaultMemoryMin=" and
//! "DisableControllers="), kept for each slice until there is another generation of definitions.

use std::collections::BTreeMap;
use std::rc::Rc;

use warren_core::graph::Graph;
use warren_core::model::ids::UnitId;
use warren_core::settings::{Compiled, TypeSettings};
use warren_unit::config::{CgroupConfig, Controller, Limit};

use super::limits::cgroup_config;

/// What is said for units in a slice that say nothing of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FromSlices {
    memory_min: Option<Limit>,
    memory_low: Option<Limit>,
    startup_memory_low: Option<Limit>,
    /// Controllers that are not turned on; sorted.
    disabled: Box<[Controller]>,
}

impl FromSlices {
    /// With what a slice further in says.
    pub fn within(&self, slice: &CgroupConfig) -> FromSlices {
        let mut disabled = self.disabled.to_vec();
        disabled.extend(&slice.disable_controllers);
        disabled.sort_unstable();
        disabled.dedup();
        FromSlices {
            memory_min: slice.default_memory_min.or(self.memory_min),
            memory_low: slice.default_memory_low.or(self.memory_low),
            startup_memory_low: slice.default_startup_memory_low.or(self.startup_memory_low),
            disabled: disabled.into(),
        }
    }

    /// The settings of a unit with all that; none where nothing is said for it.
    pub fn completed(&self, settings: &Compiled) -> Option<Compiled> {
        if *self == FromSlices::default() {
            return None;
        }
        let mut settings = settings.clone();
        let config = config_of(&mut settings.own)?;
        config.memory_min = config.memory_min.or(self.memory_min);
        config.memory_low = config.memory_low.or(self.memory_low);
        config.startup_memory_low = config.startup_memory_low.or(self.startup_memory_low);
        config.disabled_above.clone_from(&self.disabled);
        Some(settings)
    }
}

fn config_of(own: &mut TypeSettings) -> Option<&mut CgroupConfig> {
    match own {
        TypeSettings::Service(c) => Some(&mut c.cgroup),
        TypeSettings::Socket(c) => Some(&mut c.cgroup),
        TypeSettings::Mount(c) => Some(&mut c.cgroup),
        TypeSettings::Slice(c) => Some(&mut c.cgroup),
        TypeSettings::Scope(c) => Some(&mut c.cgroup),
        _ => None,
    }
}

/// The slices above a unit.
#[derive(Debug)]
pub struct Above {
    /// Their settings, innermost first.
    pub slices: Vec<Compiled>,
    /// What they say for the units in them.
    pub said: FromSlices,
}

impl Above {
    /// Those above `unit`; `compile` gives a slice's settings.
    pub fn of(graph: &Graph, unit: UnitId, compile: &dyn Fn(UnitId) -> Compiled) -> Above {
        let slices: Vec<Compiled> = graph.slices_above(unit).map(compile).collect();
        let configs = slices.iter().rev().filter_map(cgroup_config);
        let said = configs.fold(FromSlices::default(), |found, config| found.within(config));
        Above { slices, said }
    }
}

/// What is said for the units in each slice.
#[derive(Default)]
pub struct OfSlices {
    generation: u64,
    kept: BTreeMap<UnitId, Rc<FromSlices>>,
}

impl OfSlices {
    /// For a unit. `compile` is asked for the settings of slices that were not looked at yet.
    pub fn above(
        &mut self,
        graph: &Graph,
        unit: UnitId,
        compile: &dyn Fn(UnitId) -> Compiled,
    ) -> Rc<FromSlices> {
        if self.generation != graph.generation() {
            self.generation = graph.generation();
            self.kept.clear();
        }
        let mut unknown = Vec::new();
        let mut found = Rc::default();
        for slice in graph.slices_above(unit) {
            if let Some(known) = self.kept.get(&slice) {
                found = known.clone();
                break;
            }
            unknown.push(slice);
        }
        for slice in unknown.into_iter().rev() {
            let settings = compile(slice);
            let config = cgroup_config(&settings);
            let with = config.map_or_else(|| (*found).clone(), |config| found.within(config));
            // Most slices say nothing: they share what is above them.
            found = if with == *found { found } else { Rc::new(with) };
            self.kept.insert(slice, found.clone());
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_slice_that_says_something_counts_and_controllers_add_up() {
        let outer = CgroupConfig {
            default_memory_min: Some(Limit::Bytes(1)),
            default_memory_low: Some(Limit::Bytes(2)),
            disable_controllers: [Controller::Pids].into(),
            ..CgroupConfig::empty()
        };
        let inner = CgroupConfig {
            default_memory_low: Some(Limit::Infinity),
            disable_controllers: [Controller::Cpu].into(),
            ..CgroupConfig::empty()
        };
        let found = FromSlices::default().within(&outer).within(&inner);
        let want = FromSlices {
            memory_min: Some(Limit::Bytes(1)),
            memory_low: Some(Limit::Infinity),
            startup_memory_low: None,
            disabled: [Controller::Cpu, Controller::Pids].into(),
        };
        assert_eq!(found, want);
        assert_eq!(FromSlices::default().within(&CgroupConfig::empty()), FromSlices::default());
    }
}

//! Typed settings of units: what they are compiled with, and those that are at hand.
//!
//! Must not: hold the settings of units that nothing is done with; [`AtHand::tidy_up`] throws them away.

use crate::model::active_state::ActiveState;
use crate::model::ids::UnitId;
use crate::parts::Core;
use crate::parts::units::Units;
use crate::settings::{AtHand, Compiled, Settings};
use std::sync::Arc;
use warren_unit::config::UnitSection;

/// The settings of units.
#[derive(Debug)]
pub(crate) struct UnitSettings {
    /// What all units are compiled with.
    pub common: Settings,
    /// Those of units that something is done with.
    pub compiled: AtHand,
}

impl UnitSettings {
    pub fn new(common: Settings) -> UnitSettings {
        UnitSettings { common, compiled: AtHand::default() }
    }

    /// The settings of a unit as far as something was done with it just now.
    pub fn at_hand(&self, unit: UnitId) -> Option<&Compiled> {
        self.compiled.get(unit).map(|settings| &**settings)
    }

    /// Throws away what a unit that does nothing does not need.
    pub fn forget(&mut self, unit: UnitId) {
        self.compiled.remove(unit);
    }

    /// See [`AtHand::tidy_up`].
    pub fn tidy_up(&mut self, units: &Units, all_rest: bool) {
        self.compiled.tidy_up(all_rest, |unit| {
            let run = units.run(unit);
            let is_moving = matches!(
                run.active_state(),
                ActiveState::Activating | ActiveState::Deactivating | ActiveState::Reloading
            );
            run.job.is_some() || is_moving
        });
    }
}

/// The unit's typed settings, compiled once while something is done with it.
pub(crate) fn compiled(core: &mut Core, unit: UnitId) -> Arc<Compiled> {
    if let Some(settings) = core.settings.compiled.get(unit) {
        return settings.clone();
    }
    let settings = Arc::new(compile(core, unit));
    core.settings.compiled.insert(unit, settings.clone());
    core.settings.tidy_up(&core.units, false);
    settings
}

/// `[Unit]` and what all types share of `[X-Warren]`, whether it is at hand or not.
pub(crate) fn section(core: &Core, unit: UnitId) -> Arc<UnitSection> {
    match core.settings.compiled.get(unit) {
        Some(settings) => settings.section.clone(),
        None => compile(core, unit).section,
    }
}

/// What runs without a file any more is ended by the settings that it was started with.
fn compile(core: &Core, unit: UnitId) -> Compiled {
    let definition = core.graph.definition(unit);
    match core.units.active_state(unit).is_down() {
        true => core.settings.common.compile(definition),
        false => core.settings.common.compile_running(definition),
    }
}

//! What is wrong with the values of a unit's files, and what protects the host and is not applied:
//! said when the unit is used, because its settings are compiled then and not when it is loaded.

use crate::spawn::views::missing_settings;
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::Effect;
use warren_core::settings::{Compiled, TypeSettings};
use warren_init::protocol::exec::Missing;
use warren_unit::load::load;
use warren_unit::settings::is_of_credentials;

use crate::daemon::Daemon;

impl Daemon {
    /// Says what is to be said of the settings that an effect uses.
    pub(crate) fn tell_of_settings(&mut self, effect: &Effect) {
        let (unit, settings, is_start) = match effect {
            // A service's main process says the rest itself, also when it is tried again.
            Effect::Spawn(_, spawn) => (spawn.unit, &spawn.settings, false),
            Effect::MakeCgroup { unit, settings, .. }
            | Effect::Listen { unit, settings, .. }
            | Effect::SetTrap { unit, settings, .. } => (*unit, settings, true),
            Effect::Mount { unit, settings, remount, .. } => (*unit, settings, !remount),
            _ => return,
        };
        self.say_faults(unit, settings);
        if is_start {
            self.warn_of_sandbox(unit, settings);
        }
    }

    /// Says once which values of a unit are wrong, and again when others are.
    fn say_faults(&mut self, unit: UnitId, settings: &Compiled) {
        if settings.faults.is_empty() {
            self.loads.faults_said.remove(&unit);
            return;
        }
        if self.loads.faults_said.get(&unit) == Some(&settings.faults) {
            return;
        }
        let definition = self.core.graph().definition(unit);
        let known = self.core.settings();
        let sources = definition.files.sources();
        let (_, said) = load(&definition.name, &sources, &known.context, &known.defaults);
        let mut faults = settings.faults.to_vec();
        faults.retain(|fault| !said.contains(fault));
        crate::daemon::unit_log::diagnostics_of(
            &self.core.view(),
            self.core.settings(),
            unit,
            &faults,
        );
        self.loads.faults_said.insert(unit, settings.faults.clone());
    }

    /// What the machine could not give to a main process is said, unless it was said of the settings already.
    pub(crate) fn warn_of_missing(&self, id: EffectId, missing: Missing) {
        if missing == Missing::default() {
            return;
        }
        let Some(unit) = self.core.effect_unit(id).filter(|u| self.core.is_main_asked(*u, id))
        else {
            return;
        };
        let settings = self.core.settings().compile_running(self.core.graph().definition(unit));
        let TypeSettings::Service(config) = &settings.own else { return };
        let names = missing_settings(&config.exec, missing).join(" ");
        let name = self.core.graph().name(unit);
        let text = format!(
            "{name}: started WITHOUT the protection of {names}: this machine cannot give it"
        );
        crate::daemon::unit_log::warn(&self.core.view(), self.core.settings(), unit, &text);
    }

    /// A setting that protects the host, or hands over secrets, and is not applied is said so at every start.
    pub(crate) fn warn_of_sandbox(&self, unit: UnitId, settings: &Compiled) {
        let names = settings.sandbox().iter().map(|asked| asked.setting);
        let (secrets, protections): (Vec<_>, Vec<_>) =
            names.partition(|name| is_of_credentials(name));
        let name = self.core.graph().name(unit);
        for (what, names) in [("protection", protections), ("credentials", secrets)] {
            if !names.is_empty() {
                let text = format!("{name}: started WITHOUT the {what} of {}", names.join(" "));
                crate::daemon::unit_log::warn(&self.core.view(), self.core.settings(), unit, &text);
            }
        }
    }
}

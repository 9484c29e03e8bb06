//! From files to what is kept of every unit: its load state, switches and relations.
//!
//! Pure, and cheap enough to do for 40,000 units in one go. What a unit needs only when it is
//! used is compiled by [`crate::compile`]. Start reading at [`load`]; the rules of each type are
//! in `types`, those of execution and slices in `implicit`.

mod implicit;
mod known;
mod types;

pub use types::{is_api_file_system, is_network_file_system};

use std::sync::Arc;

use crate::config::RestartRule;
use crate::context::{Context, Defaults, Scope};
use crate::diagnostic::{Code, Diagnostic, Severity};
use crate::loaded::{LoadState, Loaded, UnitFlags};
use crate::merged::Merged;
use crate::name::{UnitName, UnitType};
use crate::parse::{Entry, UnitFile};
use crate::relation::Relation;
use crate::settings::{Kind, id};
use crate::value::{self, Fault};

/// Everything that was found about one unit in the search directories.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    /// The unit's own file; for an instance, its own or its template's.
    pub fragment: Option<&'a Arc<UnitFile>>,
    /// Drop-ins in the order in which they apply.
    pub dropins: &'a [Arc<UnitFile>],
    /// What the unit's `.wants`, `.requires` and `.upholds` directories link to, as Wants,
    /// Requires and Upholds. Templates get the unit's instance or prefix.
    pub links: &'a [(Relation, UnitName)],
    /// A link to /dev/null was found first.
    pub masked: bool,
}

/// How many relations one unit can state.
pub const RELATIONS_MAX: usize = 65_536;

/// Loads one unit. Never fails: what is wrong is in the load state and the diagnostics.
pub fn load(
    name: &UnitName,
    sources: &Sources<'_>,
    context: &Context,
    defaults: &Defaults,
) -> (Loaded, Vec<Diagnostic>) {
    if let Some(state) = state_without_reading(name, sources) {
        return (Loaded::unusable(name, state), Vec::new());
    }
    let merged = Merged::new(name, sources, context);
    let mut loader = Loader::new(&merged, defaults);
    loader.general();
    loader.links(sources.links);
    let state = match loader.by_type() {
        Ok(()) => LoadState::Loaded,
        Err(reason) => {
            merged.report(Severity::Error, Code::MissingSetting, format!("{name}: {reason}"));
            LoadState::BadSetting
        }
    };
    let loaded = loader.finish(state);
    (loaded, merged.into_diagnostics())
}

/// Load states that do not depend on what the files say.
fn state_without_reading(name: &UnitName, sources: &Sources<'_>) -> Option<LoadState> {
    use UnitType::{Automount, Device, Mount, Scope, Slice, Swap};
    let unit_type = name.unit_type();
    let never_instance = matches!(unit_type, Mount | Automount | Swap | Slice | Scope);
    let bad_slice = unit_type == Slice && !name.is_valid_slice();
    if name.is_template() || bad_slice || (never_instance && name.is_instance()) {
        return Some(LoadState::Error);
    }
    if sources.masked || sources.fragment.is_some_and(|f| f.is_empty()) {
        return Some(LoadState::Masked);
    }
    if sources.fragment.is_some_and(|f| f.is_broken()) {
        return Some(LoadState::Error);
    }
    let needs_none = matches!(unit_type, Slice | Device) || is_perpetual(name);
    (sources.fragment.is_none() && !needs_none).then_some(LoadState::NotFound)
}

/// Units that exist for ever (systemd.unit(5), "UNIT GARBAGE COLLECTION").
fn is_perpetual(name: &UnitName) -> bool {
    matches!(name.as_str(), "-.slice" | "init.scope" | "-.mount" | "system.slice")
}

/// Collects what [`load`] returns.
struct Loader<'m, 'a> {
    merged: &'m Merged<'a>,
    defaults: &'m Defaults,
    relations: Vec<(Relation, UnitName)>,
    flags: UnitFlags,
    slice: Option<UnitName>,
}

impl<'m, 'a> Loader<'m, 'a> {
    fn new(merged: &'m Merged<'a>, defaults: &'m Defaults) -> Loader<'m, 'a> {
        let relations = Vec::with_capacity(16);
        Loader { merged, defaults, relations, flags: UnitFlags::NONE, slice: None }
    }

    fn finish(mut self, load_state: LoadState) -> Loaded {
        let name = self.merged.name();
        let description = self.merged.text(id!(Unit "Description"));
        let description =
            description.map_or_else(|| Arc::from(name.as_str()), |text| Arc::from(&*text));
        self.relations.sort_unstable();
        self.relations.dedup();
        if self.relations.len() > RELATIONS_MAX {
            let message = format!("more than {RELATIONS_MAX} relations: the others are ignored");
            self.merged.report(Severity::Error, Code::TooManyValues, message);
            self.relations.truncate(RELATIONS_MAX);
        }
        let usable = load_state == LoadState::Loaded;
        Loaded {
            load_state,
            description,
            relations: if usable { self.relations.into() } else { Box::default() },
            flags: self.flags,
            slice: self.slice.filter(|_| usable),
        }
    }

    fn is_system(&self) -> bool {
        self.merged.context().scope == Scope::System
    }

    fn add(&mut self, relation: Relation, to: UnitName) {
        self.relations.push((relation, to));
    }

    /// Two edges to one unit.
    fn add_two(&mut self, first: Relation, second: Relation, to: UnitName) {
        self.add(first, to.clone());
        self.add(second, to);
    }

    /// What \[Unit\] says, for every type.
    fn general(&mut self) {
        self.flags();
        let merged = self.merged;
        for entry in merged.entries() {
            match entry.setting.setting().kind {
                Kind::Units(relation) => self.written(entry, relation),
                Kind::RestartOn => self.written_rule(entry),
                Kind::MountsFor => self.written_paths(entry),
                _ => {}
            }
        }
    }

    /// One line of RestartOn=: the rule, then the units that it is for.
    fn written_rule(&mut self, entry: &Entry<'a>) {
        let value = entry.value.trim_start();
        let (word, units) =
            value.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((value, ""));
        let from = units.as_ptr().addr().saturating_sub(entry.value.as_ptr().addr());
        match RestartRule::from_word(word) {
            _ if value.is_empty() => {}
            Some(_) if units.trim().is_empty() => {
                let fault = Fault::new(0, "unit names are missing after the action".to_owned());
                self.merged.fault(entry, Code::BadValue, &fault);
            }
            Some(rule) => self.written_units(entry, from, units, rule.relation()),
            None => {
                let words = RestartRule::WORDS.join(", ");
                let fault = Fault::new(0, format!("'{word}' is not one of {words}"));
                self.merged.fault(entry, Code::BadValue, &fault);
            }
        }
    }

    fn flags(&mut self) {
        use UnitType::{Automount, Device, Mount, Scope, Slice, Swap};
        let unit_type = self.merged.name().unit_type();
        let stays = matches!(unit_type, Slice | Scope | Device | Swap | Mount | Automount);
        let switches = [
            (UnitFlags::STOP_WHEN_UNNEEDED, id!(Unit "StopWhenUnneeded"), false),
            (UnitFlags::REFUSE_MANUAL_START, id!(Unit "RefuseManualStart"), false),
            (UnitFlags::REFUSE_MANUAL_STOP, id!(Unit "RefuseManualStop"), false),
            (UnitFlags::ALLOW_ISOLATE, id!(Unit "AllowIsolate"), false),
            (UnitFlags::IGNORE_ON_ISOLATE, id!(Unit "IgnoreOnIsolate"), stays),
            (UnitFlags::DEFAULT_DEPENDENCIES, id!(Unit "DefaultDependencies"), true),
            (UnitFlags::SURVIVE_FINAL_KILL_SIGNAL, id!(Unit "SurviveFinalKillSignal"), false),
        ];
        for (flag, setting, default) in switches {
            let on = self.merged.flag(setting, default);
            self.flags.set(flag, on);
        }
        let collect = self.merged.text(id!(Unit "CollectMode"));
        self.flags.set(UnitFlags::COLLECT_FAILED, collect.as_deref() == Some("inactive-or-failed"));
        let name = self.merged.name();
        let is_there = is_perpetual(name) && (self.is_system() || *name != known::system_slice());
        self.flags.set(UnitFlags::PERPETUAL, is_there);
        // They have a timeout without stating one: DefaultDeviceTimeoutSec=.
        self.flags.set(UnitFlags::HAS_JOB_SETTINGS, unit_type == Device);
        for entry in self.merged.entries() {
            let setting = entry.setting.setting();
            match setting.kind {
                Kind::Condition(_) | Kind::Assert(_) => {
                    self.flags.set(UnitFlags::HAS_CONDITIONS, true);
                }
                Kind::Units(Relation::OnSuccess | Relation::OnFailure) => {
                    self.flags.set(UnitFlags::HAS_ON_RESULT, true);
                }
                Kind::Units(
                    Relation::RequireAny | Relation::OptionalAll | Relation::ExcludeAll,
                ) => {
                    self.flags.set(UnitFlags::HAS_GROUPS, true);
                }
                _ if [id!(Exec "User"), id!(Exec "Group")].contains(&entry.setting) => {
                    self.flags.set(UnitFlags::NAMES_IDENTITY, true);
                }
                _ if is_job_setting(setting.name) => {
                    self.flags.set(UnitFlags::HAS_JOB_SETTINGS, true);
                }
                _ => {}
            }
        }
    }

    /// One line of Requires= and its relatives.
    fn written(&mut self, entry: &Entry<'a>, relation: Relation) {
        self.written_units(entry, 0, entry.value, relation);
    }

    /// The units of a line, or of the part of it that begins at byte `from`.
    fn written_units(&mut self, entry: &Entry<'a>, from: usize, units: &str, relation: Relation) {
        // Quotes mean nothing here; no unit has a blank in its name.
        for word in units.split_ascii_whitespace() {
            let at = from + word.as_ptr().addr() - units.as_ptr().addr();
            match self.unit_name(word).map_err(|message| Fault::new(at, message)) {
                Ok(name) if &name == self.merged.name() => {
                    let message = format!("{relation}= on itself, ignored");
                    let code = Code::SelfDependency;
                    self.merged.report_at(entry, Severity::Note, code, message);
                }
                Ok(name) => {
                    if let Some(meant) = crate::device_name::meant(&name) {
                        let message =
                            format!("no device has the name '{name}'; did you mean '{meant}'?");
                        let code = Code::BadUnitName;
                        self.merged.report_at(entry, Severity::Warning, code, message);
                    }
                    self.add(relation, name);
                }
                Err(fault) => self.merged.fault(entry, Code::BadUnitName, &fault),
            }
        }
    }

    /// A unit's name as settings write it; a template gets this unit's instance
    /// or prefix.
    fn unit_name(&self, word: &str) -> Result<UnitName, String> {
        let text = self.merged.expand_word(word).map_err(|f| f.message)?;
        let name = UnitName::parse(&text).map_err(|e| format!("'{text}': {e}"))?;
        instantiate(name, self.merged.name())
    }

    fn written_paths(&mut self, entry: &Entry<'a>) {
        for word in value::split(entry.value) {
            let path = word.and_then(|(at, word)| {
                let path = self.merged.expand_word(&word).and_then(|text| value::path(&text));
                path.map_err(|f| Fault::new(at, f.message))
            });
            match path {
                Ok(path) if entry.setting == id!(Unit "WantsMountsFor") => {
                    self.mounts_wanted_for(&path);
                }
                Ok(path) => self.mounts_for(&path),
                Err(fault) => self.merged.fault(entry, Code::BadValue, &fault),
            }
        }
    }

    fn links(&mut self, links: &[(Relation, UnitName)]) {
        for (relation, name) in links {
            if let Ok(name) = instantiate(name.clone(), self.merged.name())
                && &name != self.merged.name()
            {
                self.add(*relation, name);
            }
        }
    }
}

/// Gives a template the instance of the unit that names it, or that unit's prefix if it is no
/// instance (as systemd 252 does it).
pub(crate) fn instantiate(name: UnitName, owner: &UnitName) -> Result<UnitName, String> {
    if !name.is_template() {
        return Ok(name);
    }
    let instance = owner.instance().unwrap_or(owner.prefix());
    name.with_instance(instance).map_err(|e| e.to_string())
}

fn is_job_setting(name: &str) -> bool {
    ["Job", "StartLimit", "FailureAction", "SuccessAction", "RebootArgument"]
        .iter()
        .any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests;

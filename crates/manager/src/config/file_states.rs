//! The enablement states of unit files.

use std::sync::Arc;
use warren_unit::UnitName;
use warren_unit::install::{PresetAction, PresetRules, UnitFileState};

/// What is known of a unit file.
#[derive(Clone, Copy, Debug)]
pub struct FileState {
    /// Its state.
    pub state: UnitFileState,
    /// That of an instance that no link is for; other units have none but their own.
    pub of_instances: UnitFileState,
    /// Index of the file's directory; an instance has none.
    pub directory: Option<u16>,
}

/// Installation states of all unit files and of instances in use, by name, and the policy for them.
#[derive(Clone, Debug, Default)]
pub struct FileStates {
    directories: Arc<[String]>,
    by_name: imbl::OrdMap<UnitName, FileState>,
    presets: Arc<PresetRules>,
    /// The unit that `default.target` is.
    pub default_target: Option<UnitName>,
    /// Grows with each that the loader makes.
    pub number: u64,
}

impl FileStates {
    /// States of units whose files are in these directories.
    pub fn new(
        directories: Vec<String>,
        states: impl Iterator<Item = (UnitName, FileState)>,
        presets: PresetRules,
    ) -> FileStates {
        let (directories, presets) = (directories.into(), Arc::new(presets));
        let by_name = states.collect();
        FileStates { directories, by_name, presets, default_target: None, number: 0 }
    }

    /// The state of a unit's file, or of the instance.
    pub fn get(&self, name: &UnitName) -> Option<UnitFileState> {
        if let Some(own) = self.by_name.get(name) {
            return Some(own.state);
        }
        self.by_name.get(&name.template()?).map(|template| template.of_instances)
    }

    /// Changes the state of a unit's file that no link is for, if there is one.
    pub fn change(&mut self, name: &UnitName, state: UnitFileState) {
        if let Some(known) = self.by_name.get_mut(name) {
            (known.state, known.of_instances) = (state, state);
        }
    }

    /// What is known of a unit's file now; nothing if there is none. An instance that no link is for is
    /// not kept: anybody may ask for any.
    pub fn set(&mut self, name: &UnitName, now: Option<FileState>) {
        let of_template = || Some(self.by_name.get(&name.template()?)?.of_instances);
        match now {
            Some(now) if name.is_instance() && of_template() == Some(now.state) => {
                self.by_name.remove(name);
            }
            Some(now) => drop(self.by_name.insert(name.clone(), now)),
            None => drop(self.by_name.remove(name)),
        }
    }

    /// What the policy says of a unit (systemd.preset(5)).
    pub fn preset(&self, name: &UnitName) -> &'static str {
        match self.presets.action(name) {
            PresetAction::Enable(_) => "enabled",
            PresetAction::Disable => "disabled",
            PresetAction::Ignore => "ignored",
        }
    }

    /// Where the file, or the link, of a unit or of its template is.
    pub fn path(&self, unit: &UnitName) -> Option<String> {
        let of = |unit: &UnitName| {
            let directory = self.by_name.get(unit)?.directory?;
            let directory = self.directories.get(usize::from(directory))?;
            Some(format!("{directory}/{unit}"))
        };
        of(unit).or_else(|| of(&unit.template()?))
    }

    /// All files by path, and their states.
    pub fn files(&self) -> impl Iterator<Item = (String, UnitFileState)> {
        self.by_name.iter().filter_map(|(name, known)| {
            let directory = self.directories.get(usize::from(known.directory?))?;
            Some((format!("{directory}/{name}"), known.state))
        })
    }
}

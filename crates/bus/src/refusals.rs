//! Refusals that need no question to the manager: they follow from names, words and views.

use crate::error::BusError;
use crate::listed::is_listed;
use warren_core::graph::Definition;
use warren_core::model::active_state::ActiveState;
use warren_core::model::ids::UnitId;
use warren_core::model::job::{JobMode, JobType};
use warren_core::protocol::request::KillWhom;
use warren_core::view::View;
use warren_unit::{LoadState, UnitName};

/// What the `LoadError` property of a unit says, if it could not be loaded.
pub fn of_load_state(definition: &Definition) -> Option<BusError> {
    let name = &definition.name;
    match definition.load_state {
        LoadState::Loaded => None,
        LoadState::NotFound | LoadState::Stub => Some(not_found(name.as_str())),
        LoadState::Masked => Some(BusError::masked(format!("Unit {name} is masked."))),
        LoadState::BadSetting => {
            Some(BusError::bad_setting(format!("Unit {name} has a bad unit file setting.")))
        }
        LoadState::Error => {
            Some(BusError::load_failed(format!("Unit {name} failed to load properly.")))
        }
    }
}

/// The unit has no unit file.
pub fn not_found(name: &str) -> BusError {
    BusError::no_such_unit(format!("Unit {name} not found."))
}

/// The unit is not in memory.
pub fn not_loaded(name: &str) -> BusError {
    BusError::no_such_unit(format!("Unit {name} not loaded."))
}

/// The unit of this name, if clients see it in memory.
pub fn loaded(view: &View, name: &str) -> Result<UnitId, BusError> {
    let unit = UnitName::parse(name).ok().and_then(|name| view.lookup(&name));
    unit.filter(|unit| is_listed(view, *unit)).ok_or_else(|| not_loaded(name))
}

/// A stop has something to do: the unit is in memory, and runs or has a file that can be used, or something runs
/// still of a unit whose name leads to it by now.
pub fn stoppable(view: &View, name: &str) -> Result<(), BusError> {
    let unit = loaded(view, name)?;
    let usable = matches!(view.definition(unit).load_state, LoadState::Loaded | LoadState::Masked);
    let runs = |unit| view.run(unit).active_state() != ActiveState::Inactive;
    match usable || runs(unit) || view.graph.displaced_by(unit).any(runs) {
        true => Ok(()),
        false => Err(not_loaded(name)),
    }
}

/// A name that a unit can have.
pub fn unit_name(name: &str) -> Result<UnitName, BusError> {
    let parsed = UnitName::parse(name)
        .map_err(|_| BusError::invalid_args(format!("Unit name {name} is not valid.")))?;
    if parsed.is_template() {
        let text = format!("Unit name {name} is missing the instance name.");
        return Err(BusError::invalid_args(text));
    }
    Ok(parsed)
}

/// The job mode that a client's word means.
pub fn job_mode(word: &str) -> Result<JobMode, BusError> {
    JobMode::from_word(word)
        .ok_or_else(|| BusError::invalid_args(format!("Job mode {word} invalid")))
}

/// The job type that a client's word means.
pub fn job_type(word: &str) -> Result<JobType, BusError> {
    JobType::from_word(word)
        .ok_or_else(|| BusError::invalid_args(format!("Job type {word} invalid")))
}

/// The processes that a client's word means, and whether having none is an error.
pub fn kill_whom(word: &str) -> Result<(KillWhom, bool), BusError> {
    Ok(match word {
        "" | "all" => (KillWhom::All, false),
        "main" => (KillWhom::Main, true),
        "control" => (KillWhom::Control, true),
        "all-fail" => (KillWhom::All, true),
        "main-fail" => (KillWhom::Main, true),
        "control-fail" => (KillWhom::Control, true),
        _ => return Err(BusError::invalid_args(format!("Invalid who argument {word}"))),
    })
}

/// A signal that can be sent.
pub fn signal(number: i32) -> Result<i32, BusError> {
    match (1..=64).contains(&number) {
        true => Ok(number),
        false => Err(BusError::invalid_args("Signal number out of range.")),
    }
}

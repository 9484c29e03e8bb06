//! Values on the command line that are checked as they are read.

use clap::builder::PossibleValuesParser;
use warren_unit::{UnitName, UnitType};

use crate::names::with_suffix;

/// hostname(7)
const MACHINE_NAME_BYTES_MAX: usize = 64;

/// Words for the types of units.
pub fn unit_types() -> PossibleValuesParser {
    UnitType::ALL.map(UnitType::suffix).into()
}

/// The name of a unit, with its suffix.
///
/// # Errors
/// In words, if no unit can be called so or it lacks its instance.
pub fn unit_name(text: &str) -> Result<String, String> {
    let name = UnitName::parse(&with_suffix(text)).map_err(|error| error.to_string())?;
    match name.is_template() {
        true => Err("the instance is missing".to_owned()),
        false => Ok(name.to_string()),
    }
}

/// A name by which `--machine` finds a machine, and which can be its host name.
///
/// # Errors
/// In words.
pub fn machine_name(text: &str) -> Result<String, String> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let refused = match text {
        "" => "it is empty",
        _ if text.len() > MACHINE_NAME_BYTES_MAX => "it has more than 64 bytes",
        _ if !text.chars().all(is_fit) => "letters, digits, '-', '_' and '.' are allowed",
        _ if text.parse::<i32>().is_ok() => "a number means a process id",
        _ => return Ok(text.to_owned()),
    };
    Err(refused.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_units_have_their_suffix_and_those_of_machines_are_no_numbers() {
        assert_eq!(unit_name("web"), Ok("web.service".to_owned()));
        assert_eq!(unit_name("a@b.socket"), Ok("a@b.socket".to_owned()));
        assert!(unit_name("a@.service").is_err() && unit_name("a b").is_err());
        assert_eq!(machine_name("blue-1"), Ok("blue-1".to_owned()));
        assert!(["", "17", "a/b", "a b"].into_iter().all(|name| machine_name(name).is_err()));
        assert!(machine_name(&"x".repeat(65)).is_err());
    }
}

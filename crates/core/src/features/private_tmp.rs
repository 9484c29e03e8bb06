//! Where the temporary files of a unit's own are (systemd.exec(5), "PrivateTmp=").

use warren_unit::config::ExecConfig;

/// Bytes of a file's name, NAME_MAX of limits.h.
const NAME_BYTES_MAX: usize = 255;

/// What names begin with.
pub(crate) const PREFIX: &str = "systemd-private-";

/// The name of the unit's directory in each of [`TEMPORARY`](warren_unit::config::TEMPORARY).
///
/// systemd-tmpfiles spares names with this prefix. The invocation id cannot be guessed, so no other user can create
/// the directory first.
pub fn name(boot_id: &str, unit: &str, invocation: u128) -> String {
    let (begin, end) = (format!("{PREFIX}{boot_id}-"), format!("-{invocation:032x}"));
    let room = NAME_BYTES_MAX.saturating_sub(begin.len() + end.len());
    // Names of units are ASCII.
    format!("{begin}{}{end}", unit.get(..room.min(unit.len())).unwrap_or_default())
}

/// Whether a unit has such directories.
pub(crate) fn is_asked_for(exec: &ExecConfig) -> bool {
    let mut asked = exec.protections.iter();
    asked.any(|asked| asked.setting == "PrivateTmp" && &*asked.value != "disconnected")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_of_a_file() {
        let short = name("b0", "a.service", 0xab);
        assert_eq!(short, "systemd-private-b0-a.service-000000000000000000000000000000ab");
        let long = name("b0", &"x".repeat(255), 1);
        assert_eq!(long.len(), NAME_BYTES_MAX);
        assert!(long.ends_with("01"));
    }
}

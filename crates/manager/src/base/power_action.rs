//! What is done when everything is stopped, as a number for the state file.

use warren_init::protocol::control::{PowerAction, SOFT_REBOOTS_ENV};
use warren_unit::Scope;

/// The number of an action; never 0.
pub fn code(action: PowerAction) -> u16 {
    match action {
        PowerAction::Reboot => 1,
        PowerAction::PowerOff => 2,
        PowerAction::Halt => 3,
        PowerAction::Kexec => 4,
        PowerAction::SoftReboot => 5,
        PowerAction::Exit(status) => 0x100 | u16::from(status),
    }
}

/// The action of a number; none for 0 and for numbers that mean nothing.
pub fn from_code(code: u16) -> Option<PowerAction> {
    Some(match code {
        1 => PowerAction::Reboot,
        2 => PowerAction::PowerOff,
        3 => PowerAction::Halt,
        4 => PowerAction::Kexec,
        5 => PowerAction::SoftReboot,
        code if code & 0xff00 == 0x100 => PowerAction::Exit((code & 0xff) as u8),
        _ => return None,
    })
}

/// The target by which files describe an end by this action (systemd.special(7)). None for a soft reboot: who
/// outlasts it is decided by the manager's own stops.
pub fn target(action: PowerAction) -> Option<&'static str> {
    Some(match action {
        PowerAction::Reboot => "reboot.target",
        PowerAction::PowerOff => "poweroff.target",
        PowerAction::Halt => "halt.target",
        PowerAction::Kexec => "kexec.target",
        PowerAction::Exit(_) => "exit.target",
        PowerAction::SoftReboot => return None,
    })
}

/// What an end by this action is called.
pub fn name(action: PowerAction) -> &'static str {
    match action {
        PowerAction::Reboot => "reboot",
        PowerAction::PowerOff => "poweroff",
        PowerAction::Halt => "halt",
        PowerAction::Kexec => "kexec",
        PowerAction::SoftReboot => "soft reboot",
        PowerAction::Exit(_) => "exit",
    }
}

/// What is going to happen, for people.
pub fn text(action: PowerAction) -> &'static str {
    match action {
        PowerAction::Reboot if crate::base::host::is_nested() => "nested manager exits",
        PowerAction::Reboot => "reboot",
        PowerAction::PowerOff => "power off",
        PowerAction::Halt => "halt",
        PowerAction::Kexec => "kexec",
        PowerAction::SoftReboot => "soft reboot",
        PowerAction::Exit(_) => "exit of the manager",
    }
}

/// Why this cannot follow an end; none if it can.
pub(crate) fn cannot_follow(action: PowerAction, scope: Scope) -> Option<&'static str> {
    if action == PowerAction::SoftReboot && scope == Scope::User {
        return Some("Only the system manager can do a soft reboot.");
    }
    // One of a version without it would never answer.
    if action == PowerAction::SoftReboot && std::env::var_os(SOFT_REBOOTS_ENV).is_none() {
        return Some("The running version of init does not support it: reboot once.");
    }
    let loaded = std::fs::read_to_string("/sys/kernel/kexec_loaded").unwrap_or_default();
    let is_missing = action == PowerAction::Kexec && loaded.trim() != "1";
    is_missing.then_some("No kernel is loaded for kexec; see kexec(8), --load.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_action_comes_back() {
        let plain = [PowerAction::Reboot, PowerAction::PowerOff, PowerAction::Halt];
        let others = [PowerAction::Kexec, PowerAction::SoftReboot, PowerAction::Exit(0)];
        for action in plain.into_iter().chain(others).chain([PowerAction::Exit(255)]) {
            assert_eq!(from_code(code(action)), Some(action));
        }
        assert_eq!((from_code(0), from_code(9)), (None, None));
    }
}

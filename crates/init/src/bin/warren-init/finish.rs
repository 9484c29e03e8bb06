//! How a process 1 that has executed itself is told to end the machine.

use warren_init::protocol::control::PowerAction;

/// The argument with which process 1 executes itself to do no more than that.
pub const FINISH: &str = "--finish";

/// The words behind [`FINISH`].
const FINISHES: [(&str, PowerAction); 4] = [
    ("reboot", PowerAction::Reboot),
    ("poweroff", PowerAction::PowerOff),
    ("halt", PowerAction::Halt),
    ("kexec", PowerAction::Kexec),
];

/// What an action is called: an exit of a host is the end of its power.
pub fn word(action: PowerAction) -> &'static str {
    FINISHES.iter().find(|(_, one)| *one == action).map_or("poweroff", |(word, _)| word)
}

/// The argument for an action.
pub fn finish_argument(action: PowerAction) -> String {
    format!("{FINISH}={}", word(action))
}

/// Reads a word.
pub fn parse_finish(word: &str) -> Option<PowerAction> {
    FINISHES.iter().find(|(one, _)| *one == word).map(|(_, action)| *action)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_finished_comes_back() {
        for (_, action) in FINISHES {
            let argument = finish_argument(action);
            let word = argument.strip_prefix(FINISH).and_then(|rest| rest.strip_prefix('='));
            assert_eq!(word.and_then(parse_finish), Some(action));
        }
        assert_eq!(finish_argument(PowerAction::Exit(3)), "--finish=poweroff");
    }
}

//! Where the copy of a run's root is (systemd.exec(5), "RootEphemeral=").

use warren_unit::Context;
use warren_unit::config::ExecConfig;

use crate::features::private_tmp;

/// The directory of all of them, below that of states.
pub const DIRECTORY: &str = "systemd/ephemeral-trees";

/// The directory of one run's, whose name says the boot; none for a unit that asks for none.
pub fn directory(
    exec: &ExecConfig,
    context: &Context,
    unit: &str,
    invocation: u128,
) -> Option<String> {
    let is_asked_for = exec.protections.iter().any(|asked| asked.setting == "RootEphemeral");
    let name = || private_tmp::name(&context.boot_id, unit, invocation);
    is_asked_for.then(|| format!("{}/{DIRECTORY}/{}", context.state_dir, name()))
}

/// Whether a name in [`DIRECTORY`] is that of another boot's run.
pub fn is_of_another_boot(name: &str, boot_id: &str) -> bool {
    let rest = name.strip_prefix(private_tmp::PREFIX);
    rest.is_some_and(|rest| !rest.strip_prefix(boot_id).is_some_and(|rest| rest.starts_with('-')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_the_boot() {
        let name = private_tmp::name("b0", "a.service", 1);
        assert!(!is_of_another_boot(&name, "b0"));
        assert!(is_of_another_boot(&name, "b"));
        assert!(is_of_another_boot(&name, "b1"));
        assert!(!is_of_another_boot("lost+found", "b1"));
    }
}

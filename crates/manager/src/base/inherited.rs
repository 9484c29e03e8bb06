//! What services have of the manager's own environment (systemd.exec(5), "ENVIRONMENT VARIABLES IN SPAWNED
//! PROCESSES").

use std::collections::BTreeMap;
use std::ffi::OsString;

use warren_unit::Scope;
use warren_unit::config::is_variable_name;

/// Variables of the manager that services of the system have too, with `PATH`.
const OF_SYSTEM: [&str; 4] = ["LANG", "LANGUAGE", "LC_ALL", "XDG_RUNTIME_DIR"];

/// Those that are for the manager alone, as it is a service itself and a child of init.
const OWN: [&str; 12] = [
    "NOTIFY_SOCKET",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "SYSTEMD_EXEC_PID",
    "CREDENTIALS_DIRECTORY",
    "MAINPID",
    "GLIBC_TUNABLES",
];

/// Whether services have a variable of the manager. Those of a user have all that he logged in with, and
/// none that init has for the manager.
pub fn is_inherited(scope: Scope, name: &str) -> bool {
    match scope {
        Scope::System => OF_SYSTEM.contains(&name),
        Scope::User => !OWN.contains(&name) && !name.starts_with("WARREN_"),
    }
}

/// What services begin with, of these variables.
pub fn environment(
    scope: Scope,
    own: impl Iterator<Item = (OsString, OsString)>,
) -> BTreeMap<Box<str>, Box<str>> {
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let mut out = BTreeMap::from([("PATH".into(), path.into())]);
    let texts =
        own.filter_map(|(name, value)| name.into_string().ok().zip(value.into_string().ok()));
    for (name, value) in texts {
        if is_variable_name(&name) && is_inherited(scope, &name) {
            out.insert(name.into(), value.into());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(scope: Scope) -> Vec<String> {
        let own =
            ["HOME=/home/a", "LANG=C", "PATH=/own", "NOTIFY_SOCKET=/n", "WARREN_BEGAN=1", "a b=c"];
        let own = own.iter().filter_map(|text| text.split_once('='));
        let environment = environment(scope, own.map(|(name, value)| (name.into(), value.into())));
        environment.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    #[test]
    fn services_of_a_user_have_what_he_logged_in_with() {
        assert_eq!(names(Scope::User), ["HOME=/home/a", "LANG=C", "PATH=/own"]);
    }

    #[test]
    fn services_of_the_system_have_little_of_the_managers() {
        let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        assert_eq!(names(Scope::System), ["LANG=C", path]);
    }
}

//! The interfaces that are served, and what they are described as.
//!
//! Names and types are those that systemd 262 shows when it is asked (`varlinkctl introspect`).

use std::sync::LazyLock;

use super::idl::Interface;

/// Name and description of each, in the order of names.
const TEXTS: [(&str, &str); 8] = [
    ("io.systemd", include_str!("interfaces/io.systemd.varlink")),
    (JOB, include_str!("interfaces/io.systemd.Job.varlink")),
    (MANAGED_OOM, include_str!("interfaces/io.systemd.ManagedOOM.varlink")),
    (MANAGER, include_str!("interfaces/io.systemd.Manager.varlink")),
    (UNIT, include_str!("interfaces/io.systemd.Unit.varlink")),
    (USERS, include_str!("interfaces/io.systemd.UserDatabase.varlink")),
    (SERVICE, include_str!("interfaces/io.systemd.service.varlink")),
    (OWN, include_str!("interfaces/org.varlink.service.varlink")),
];

/// What systemd-oomd asks for.
pub(crate) const MANAGED_OOM: &str = "io.systemd.ManagedOOM";

/// Jobs.
pub(crate) const JOB: &str = "io.systemd.Job";
/// The manager.
pub(crate) const MANAGER: &str = "io.systemd.Manager";
/// Units.
pub(crate) const UNIT: &str = "io.systemd.Unit";
/// Users that were made for runs.
pub(crate) const USERS: &str = "io.systemd.UserDatabase";
/// What services of systemd have in common.
pub(crate) const SERVICE: &str = "io.systemd.service";
/// What every service answers.
pub(crate) const OWN: &str = "org.varlink.service";

static PARSED: LazyLock<Vec<Interface>> = LazyLock::new(|| {
    let parsed = TEXTS.iter().map(|(name, text)| match Interface::parse(text) {
        Ok(interface) => interface,
        Err(why) => unreachable!("the description of {name}: {why}"),
    });
    parsed.collect()
});

/// The description of an interface, read.
pub(crate) fn find(name: &str) -> Option<&'static Interface> {
    PARSED.iter().find(|interface| interface.name == name)
}

/// That of units.
pub(crate) fn unit() -> &'static Interface {
    find(UNIT).expect("it is in the table")
}

/// The description of an interface, as it is told.
pub(crate) fn text(name: &str) -> Option<&'static str> {
    TEXTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The names of all.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    TEXTS.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_description_is_of_the_interface_that_it_is_kept_for() {
        for (name, _) in TEXTS {
            assert_eq!(find(name).map(|interface| &*interface.name), Some(name));
        }
        assert!(names().is_sorted());
        assert!(find("io.systemd.Other").is_none() && text("io.systemd.Other").is_none());
    }
}

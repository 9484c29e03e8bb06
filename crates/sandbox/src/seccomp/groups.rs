//! The named groups of system calls (systemd.exec(5), "SystemCallFilter=").

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// What is let through by every list of what is allowed.
pub const DEFAULT: &str = "@default";

static GROUPS: LazyLock<BTreeMap<&str, Vec<&str>>> = LazyLock::new(|| {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut group = "";
    for line in include_str!("groups.txt").lines().filter(|line| !line.starts_with('#')) {
        match line.strip_prefix("    ") {
            Some(names) => groups.entry(group).or_default().extend(names.split(' ')),
            None => group = line,
        }
    }
    groups
});

/// The names of all groups.
pub fn names() -> impl Iterator<Item = &'static str> {
    GROUPS.keys().copied()
}

/// The system calls of a group, with those of the groups in it; `None` if there is no such group.
pub fn members(group: &str) -> Option<BTreeSet<&'static str>> {
    GROUPS.get(group)?;
    let (mut found, mut open) = (BTreeSet::new(), vec![group]);
    while let Some(name) = open.pop() {
        for &member in GROUPS.get(name).into_iter().flatten() {
            match member.starts_with('@') {
                true => open.push(member),
                false => _ = found.insert(member),
            }
        }
    }
    Some(found)
}

/// Whether a group names this system call, or an architecture that this kernel may have.
pub fn is_known(name: &str) -> bool {
    GROUPS.values().any(|names| names.contains(&name))
        || super::Arch::X86_64.locals().iter().any(|arch| arch.number(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_hold_groups() {
        let service = members("@system-service").expect("it is a group");
        assert!(
            service.contains("read") && service.contains("socket") && service.contains("io_submit")
        );
        assert!(!service.contains("mount") && !service.contains("@aio"));
        assert_eq!(members("@nothing"), None);
        for group in GROUPS.keys() {
            assert!(!members(group).expect("it is listed").is_empty(), "{group}");
        }
    }

    #[test]
    fn every_call_of_a_group_is_known() {
        let unknown: Vec<_> = GROUPS
            .keys()
            .flat_map(|g| members(g).expect("listed"))
            .filter(|n| !is_known(n))
            .collect();
        assert!(unknown.is_empty(), "{unknown:?}");
        assert!(!is_known("no_such_call"));
    }
}

//! What settings mean, in a sentence each: for people who read or write a unit file.

use std::borrow::Cow;

use super::{Group, Kind, Setting};

/// Sections in brackets, then a line for each setting.
const MEANINGS: &str = include_str!("meanings.txt");

/// The line of a name in a section of [`MEANINGS`].
fn line(section: &str, name: &str) -> Option<&'static str> {
    let of_section = |line: &&str| line.trim_matches(['[', ']']) != section;
    let mut lines = MEANINGS.lines().skip_while(of_section).skip(1);
    lines
        .by_ref()
        .take_while(|line| !line.starts_with('['))
        .find_map(|line| line.split_once(": ").filter(|(known, _)| *known == name))
        .map(|(_, text)| text)
}

impl Setting {
    /// What it means, in a sentence or two; nothing for a setting that nobody has described.
    pub fn meaning(&self) -> Option<Cow<'static, str>> {
        let word = |prefix: &str| self.name.strip_prefix(prefix).unwrap_or(self.name);
        match self.kind {
            Kind::Condition(_) => {
                let what = line("Condition", word("Condition"))?;
                Some(format!("{what} If not, the start is skipped.").into())
            }
            Kind::Assert(_) => {
                let what = line("Condition", word("Assert"))?;
                Some(format!("{what} If not, the start fails.").into())
            }
            Kind::Rlimit(_) if self.group == Group::Manager => {
                Some(format!("{}= of units that say nothing.", word("Default")).into())
            }
            Kind::Rlimit(_) => line("Limit", word("Limit")).map(Cow::Borrowed),
            _ => line(&format!("{:?}", self.group), self.name).map(Cow::Borrowed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SETTINGS;

    #[test]
    fn every_setting_has_a_meaning_and_every_meaning_a_setting() {
        let without = SETTINGS.iter().filter(|row| row.meaning().is_none());
        let without: Vec<_> = without.map(|row| (row.group, row.name)).collect();
        assert!(without.is_empty(), "no meaning in meanings.txt: {without:?}");
        let used: Vec<Cow<'_, str>> = SETTINGS.iter().filter_map(Setting::meaning).collect();
        let lines = MEANINGS.lines().filter(|line| !line.starts_with('#'));
        for (name, text) in lines.filter_map(|line| line.split_once(": ")) {
            assert!(
                used.iter().any(|used| used.starts_with(text)),
                "no setting has {name}: {text}"
            );
        }
    }

    #[test]
    fn meanings_are_sentences() {
        for row in SETTINGS {
            let text = row.meaning().unwrap_or_default();
            assert!(text.ends_with('.') && text.len() < 160, "{}: {text}", row.name);
            assert!(!text.contains('|'), "{}: no place in a table: {text}", row.name);
        }
    }

    #[track_caller]
    fn check(group: Group, name: &str, expected: &str) {
        let row = SETTINGS.iter().find(|row| (row.group, row.name) == (group, name));
        assert_eq!(row.expect("it is there").meaning().as_deref(), Some(expected));
    }

    #[test]
    fn one_name_has_a_meaning_in_each_section() {
        check(Group::Swap, "Priority", "Areas of higher priority are used first.");
        check(Group::Socket, "Priority", "The priority of packets that are sent (SO_PRIORITY).");
        check(
            Group::Unit,
            "AssertUser",
            "The manager runs as this user; `@system` is any system user. If not, the start fails.",
        );
        check(Group::Manager, "DefaultLimitNOFILE", "LimitNOFILE= of units that say nothing.");
    }
}

//! Preset policy (systemd.preset(5)).

use crate::glob::matches;
use crate::name::UnitName;

/// What the policy says of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PresetAction {
    /// Enable it; for a template, these instances.
    Enable(Vec<String>),
    /// Disable it.
    Disable,
    /// Leave it as it is.
    Ignore,
}

/// The lines of all preset files, the strongest first; the first that matches counts.
#[derive(Clone, Debug, Default)]
pub struct PresetRules {
    rules: Vec<(PresetAction, String)>,
}

impl PresetRules {
    /// Reads preset files in their order (by file name; of one name the strongest directory's
    /// only). Lines that are no rule are returned.
    pub fn parse<'a>(files: impl IntoIterator<Item = &'a str>) -> (PresetRules, Vec<String>) {
        let (mut rules, mut bad) = (Vec::new(), Vec::new());
        for line in files.into_iter().flat_map(str::lines).map(str::trim) {
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            let mut words = line.split_ascii_whitespace();
            match (words.next(), words.next()) {
                (Some("enable"), Some(pattern)) => {
                    let instances: Vec<String> = words.map(str::to_owned).collect();
                    let is_template =
                        || UnitName::parse(pattern).is_ok_and(|name| name.is_template());
                    match instances.is_empty() || is_template() {
                        true => rules.push((PresetAction::Enable(instances), pattern.to_owned())),
                        false => bad.push(line.to_owned()),
                    }
                }
                (Some("disable"), Some(pattern)) => {
                    rules.push((PresetAction::Disable, pattern.to_owned()));
                }
                (Some("ignore"), Some(pattern)) => {
                    rules.push((PresetAction::Ignore, pattern.to_owned()));
                }
                _ => bad.push(line.to_owned()),
            }
        }
        (PresetRules { rules }, bad)
    }

    /// What to do with a unit; without a rule it is enabled. A rule with instances of a template is for
    /// those too.
    pub fn action(&self, name: &UnitName) -> PresetAction {
        let template = name.template();
        let lists = |instances: &[String], pattern: &str| {
            template.as_ref().is_some_and(|template| template.as_str() == pattern)
                && instances.iter().any(|instance| Some(instance.as_str()) == name.instance())
        };
        let matching = self.rules.iter().find(|(action, pattern)| {
            matches(pattern, name.as_str())
                || matches!(action, PresetAction::Enable(instances) if lists(instances, pattern))
        });
        match matching {
            None => PresetAction::Enable(Vec::new()),
            Some((PresetAction::Enable(instances), _)) if name.is_template() => {
                let units = instances.iter().filter_map(|i| name.with_instance(i).ok());
                PresetAction::Enable(units.map(|u| u.to_string()).collect())
            }
            Some((PresetAction::Enable(_), _)) => PresetAction::Enable(Vec::new()),
            Some((action, _)) => action.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        for (pattern, text, want) in [
            ("*", "a", true),
            ("a*.service", "abc.service", true),
            ("a*.service", "abc.socket", false),
            ("?b", "ab", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("*a*b*", "xaxbx", true),
            ("", "", true),
            ("[", "[", true),
            (r"a\x2db.service", r"a\x2db.service", true),
            (r"a\*", "a*", false),
            ("a[", "a", false),
        ] {
            assert_eq!(matches(pattern, text), want, "{pattern} {text}");
        }
    }

    #[test]
    fn the_first_rule_counts() {
        let (rules, bad) = PresetRules::parse([
            "# c\nenable a.service\nenable t@.service x y\nfoo\nenable u*@.service x\n",
            "disable *\n",
        ]);
        let action = |name: &str| rules.action(&UnitName::parse(name).expect("a valid name"));
        assert_eq!(bad, ["foo", "enable u*@.service x"]);
        assert_eq!(action("a.service"), PresetAction::Enable(vec![]));
        assert_eq!(action("b.service"), PresetAction::Disable);
        let instances = ["t@x.service", "t@y.service"].map(str::to_owned).to_vec();
        assert_eq!(action("t@.service"), PresetAction::Enable(instances));
        assert_eq!(action("t@y.service"), PresetAction::Enable(vec![]));
        assert_eq!(action("t@z.service"), PresetAction::Disable);
    }
}

//! Preset policy (systemd.preset(5)).

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

/// glob(7) without braces: `*`, `?` and `[...]`. A backslash matches itself: names of units have some.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p, t));
            p += 1;
            continue;
        }
        if let Some(next) = one(&pattern, p, text[t]) {
            (p, t) = (next, t + 1);
            continue;
        }
        match star {
            Some((at, from)) => {
                star = Some((at, from + 1));
                (p, t) = (at + 1, from + 1);
            }
            None => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Matches one character; returns where the pattern goes on.
fn one(pattern: &[char], at: usize, c: char) -> Option<usize> {
    match *pattern.get(at)? {
        '?' => Some(at + 1),
        '[' => set(pattern, at + 1, c),
        plain => (plain == c).then_some(at + 1),
    }
}

fn set(pattern: &[char], from: usize, c: char) -> Option<usize> {
    let negated = matches!(pattern.get(from), Some('!' | '^'));
    let from = from + usize::from(negated);
    let length = pattern.get(from + 1..)?.iter().position(|c| *c == ']')? + 1;
    let members = &pattern[from..from + length];
    let mut found = false;
    let mut i = 0;
    while let Some(&low) = members.get(i) {
        match (members.get(i + 1), members.get(i + 2)) {
            (Some('-'), Some(&high)) => {
                found |= (low..=high).contains(&c);
                i += 3;
            }
            _ => {
                found |= low == c;
                i += 1;
            }
        }
    }
    (found != negated).then_some(from + length + 1)
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
            ("[", "[", false),
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

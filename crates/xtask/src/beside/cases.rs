//! Groups of cases as text.
//!
//! ```text
//! == name-of-the-case
//! unheld                      (optional: nothing keeps its units in memory)
//! # CASE.service
//! [Service]
//! ExecStart=/bin/sleep 1000
//! > start CASE.service
//! > show CASE.service
//! ```
//!
//! `CASE` stands for the case's name everywhere. Lines that begin with `>` are its script, in the
//! words of `words.sh`; without any, its service is started, shown, stopped and shown. Lines before
//! the first case, and empty ones, are for people; but where one is `one at a time`, no two cases run
//! side by side: for those that reload the manager and look at what it knew before. Where one is `beside the newest`,
//! both machines have the newest systemd's files, and it is compared with in the place of 252.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// What the script of a case is that has none.
const SCRIPT_DEFAULT: &str = "start CASE.service\nshow CASE.service\ntold\n\
                              stop CASE.service\nshow CASE.service\ntold\n";

/// Keeps units in memory: systemd forgets those that nothing names, with all that happened to them.
const HOLDER: &str = "beside-holder.target";

/// Cases of one machine that run at a time.
const AT_A_TIME: usize = 4;

/// Cases that run on one machine.
pub struct Group {
    /// The file's name without its extension.
    pub name: String,
    /// How many of its cases run side by side.
    pub at_a_time: usize,
    /// It is compared with the newest systemd, not with 252.
    pub is_beside_newest: bool,
    /// In the order of the file.
    pub cases: Vec<Case>,
}

/// A few units and what is done with them.
#[derive(Clone, Default)]
pub struct Case {
    /// Unique within the group; names of its units contain it.
    pub name: String,
    units: Vec<(String, String)>,
    script: String,
    unheld: bool,
}

impl Group {
    /// Reads a file of cases.
    pub fn read(path: &Path) -> Result<Group> {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        let cases = parse(&text).with_context(|| format!("{}", path.display()))?;
        let head = text.split("\n== ").next().unwrap_or_default();
        let says = |word: &str| head.lines().any(|line| line == word);
        let at_a_time = if says("one at a time") { 1 } else { AT_A_TIME };
        Ok(Group { name, at_a_time, is_beside_newest: says("beside the newest"), cases })
    }

    /// A group of cases by name and text, each without its first line.
    pub fn of_texts(name: &str, cases: &[(String, String)]) -> Result<Group> {
        let text: String = cases.iter().map(|(name, text)| format!("== {name}\n{text}")).collect();
        let (name, at_a_time, cases) = (name.to_owned(), AT_A_TIME, parse(&text)?);
        Ok(Group { name, at_a_time, is_beside_newest: false, cases })
    }

    /// This group with one case only; all if that is empty. None if there is no such case.
    pub fn only(&self, case: &str) -> Option<Group> {
        let is_it = |c: &&Case| case.is_empty() || c.name == case;
        let cases: Vec<Case> = self.cases.iter().filter(is_it).cloned().collect();
        (!cases.is_empty()).then(|| Group { name: self.name.clone(), cases, ..*self })
    }

    /// Writes unit files, and scripts to where machines see them.
    pub fn write(&self, units: &Path, shared: &Path) -> Result<()> {
        fs::create_dir_all(units)?;
        let mut held = String::from("[Unit]\nDefaultDependencies=no\n");
        for case in &self.cases {
            for (name, text) in &case.units {
                let path = units.join(name);
                fs::create_dir_all(path.parent().unwrap_or(units))?;
                fs::write(path, text)?;
                if !case.unheld && !name.contains(['/', '@']) {
                    held += &format!("After={name}\n");
                }
            }
            fs::write(shared.join(format!("{}.sh", case.name)), &case.script)?;
        }
        Ok(fs::write(units.join(HOLDER), held)?)
    }
}

fn parse(text: &str) -> Result<Vec<Case>> {
    let mut cases: Vec<Case> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if let Some(name) = line.strip_prefix("== ") {
            ensure!(cases.iter().all(|c| c.name != name), "{name} is there twice");
            cases.push(Case { name: name.to_owned(), ..Case::default() });
            continue;
        }
        let Some(case) = cases.last_mut() else { continue };
        let line = line.replace("CASE", &case.name);
        if let Some(command) = line.strip_prefix("> ") {
            case.script += &format!("{command}\n");
        } else if let Some(unit) = line.strip_prefix("# ") {
            case.units.push((unit.to_owned(), String::new()));
        } else if let Some((_, text)) = case.units.last_mut() {
            *text += &format!("{line}\n");
        } else {
            case.unheld |= line == "unheld";
            ensure!(matches!(&*line, "" | "unheld"), "line {}: means nothing", number + 1);
        }
    }
    for case in &mut cases {
        let named = |(unit, _): &(String, String)| unit.contains(&case.name);
        ensure!(case.units.iter().all(named), "{}: a unit without the case's name", case.name);
        if case.script.is_empty() {
            case.script = SCRIPT_DEFAULT.replace("CASE", &case.name);
        }
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_units_and_a_script() {
        let text = "for people\n\n== a\n# CASE.service\n[Service]\nExecStart=/bin/true CASE\n\n\
                    # CASE.socket\n[Socket]\n> start CASE.socket\n== b\nunheld\n# CASE.service\n";
        let cases = parse(text).expect("they mean something");
        let [a, b] = &cases[..] else { panic!("{} cases", cases.len()) };
        assert_eq!(a.units[0], ("a.service".into(), "[Service]\nExecStart=/bin/true a\n\n".into()));
        assert_eq!((a.units[1].0.as_str(), a.script.as_str()), ("a.socket", "start a.socket\n"));
        assert!(b.unheld && !a.unheld && b.script.starts_with("start b.service\n"));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        assert!(parse("== a\nExecStart=/bin/true\n").is_err());
        assert!(parse("== a\n# b.service\n").is_err());
        assert!(parse("== a\n== a\n").is_err());
    }
}

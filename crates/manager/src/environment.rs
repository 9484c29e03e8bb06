//! What services inherit of the manager (systemctl(1), "Environment Commands"): what the manager began with,
//! over that what generators say, and over that what clients set. Clients take away only what they set.

use std::collections::BTreeMap;

use warren_unit::Scope;
use warren_unit::config::is_variable_name;

use crate::inherited;

/// Values by name.
pub type Variables = BTreeMap<Box<str>, Box<str>>;

/// As many as this, names and values, clients and generators may set; the kernel takes some more
/// (execve(2)).
pub const ENVIRONMENT_BYTES_MAX: usize = 1 << 20;

/// The three, and what is made of them.
pub(crate) struct Environment {
    own: Variables,
    generated: Variables,
    clients: Variables,
    all: Variables,
}

impl Environment {
    /// What services have of a manager that has this in its own environment, and generators that said this.
    pub(crate) fn new(scope: Scope, generated: Variables) -> Environment {
        let own = inherited::environment(scope, std::env::vars_os());
        let mut new = Environment { all: own.clone(), own, generated, clients: Variables::new() };
        new.combine();
        new
    }

    /// What services inherit.
    pub(crate) fn all(&self) -> &Variables {
        &self.all
    }

    /// The same, `NAME=value`.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.all.iter().map(|(name, value)| format!("{name}={value}")).collect()
    }

    pub(crate) fn set_generated(&mut self, generated: Variables) {
        self.generated = generated;
        self.combine();
    }

    pub(crate) fn set_clients(&mut self, clients: Variables) {
        self.clients = clients;
        self.combine();
    }

    /// What clients would have set with a change: without these names, or assignments of just that value,
    /// and with these assignments.
    ///
    /// # Errors
    /// What is no assignment, or that it would be too much.
    pub(crate) fn changed(&self, unset: &[String], set: &[String]) -> Result<Variables, String> {
        let mut clients = self.clients.clone();
        for word in unset {
            match word.split_once('=') {
                Some((name, value)) if clients.get(name).is_some_and(|v| **v == *value) => {
                    clients.remove(name);
                }
                Some(_) => {}
                None => {
                    clients.remove(word.as_str());
                }
            }
        }
        for assignment in set {
            let pair = assignment.split_once('=').filter(|(name, _)| is_variable_name(name));
            let Some((name, value)) = pair else {
                return Err(format!("Invalid environment assignment {assignment}"));
            };
            clients.insert(name.into(), value.into());
        }
        match bytes(&clients) {
            0..=ENVIRONMENT_BYTES_MAX => Ok(clients),
            _ => Err(format!("The environment may have {ENVIRONMENT_BYTES_MAX} bytes.")),
        }
    }

    fn combine(&mut self) {
        let Environment { own, generated, clients, .. } = self;
        let pairs = own.iter().chain(&*generated).chain(&*clients);
        self.all = pairs.map(|(name, value)| (name.clone(), value.clone())).collect();
    }
}

/// Of names and values.
pub(crate) fn bytes(variables: &Variables) -> usize {
    variables.iter().map(|(name, value)| name.len() + value.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Variables {
        pairs.iter().map(|&(name, value)| (name.into(), value.into())).collect()
    }

    fn strings(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn clients_take_away_only_what_they_set() {
        let mut environment = Environment::new(Scope::System, of(&[("A", "made"), ("B", "made")]));
        let path = environment.all()["PATH"].clone();
        let mut change = |unset: &[&str], set: &[&str]| {
            let clients = environment.changed(&strings(unset), &strings(set)).expect("valid");
            environment.set_clients(clients);
            let value = |name| environment.all().get(name).map_or("", |value| &**value).to_owned();
            ["A", "B", "C", "PATH"].map(value)
        };
        assert_eq!(change(&[], &["A=set", "C=set", "PATH=set"]), ["set", "made", "set", "set"]);
        assert_eq!(change(&["A", "B", "PATH"], &[]), ["made", "made", "set", &*path]);
        assert_eq!(change(&["C=other"], &[]), ["made", "made", "set", &*path]);
        assert_eq!(change(&["C=set"], &["C=again"]), ["made", "made", "again", &*path]);
        environment.set_generated(of(&[("C", "made")]));
        assert!(!environment.all().contains_key("A"));
        assert_eq!(&*environment.all()["C"], "again");
    }

    #[test]
    fn what_is_no_assignment_or_too_much_changes_nothing() {
        let environment = Environment::new(Scope::System, Variables::new());
        for wrong in ["A", "1=x", "=x"] {
            let error = environment.changed(&[], &strings(&[wrong])).expect_err("refused");
            assert_eq!(error, format!("Invalid environment assignment {wrong}"));
        }
        let long = format!("A={}", "x".repeat(ENVIRONMENT_BYTES_MAX));
        assert!(environment.changed(&[], &[long]).is_err());
    }
}

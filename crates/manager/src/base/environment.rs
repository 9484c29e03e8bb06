//! What services inherit of the manager (systemctl(1), "Environment Commands"): what it has itself and by
//! its configuration, over that what generators say, and over that what clients set. Clients take away only
//! what they set.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use warren_unit::Scope;
use warren_unit::config::is_variable_name;

use crate::base::{boot_options, inherited, locale};

/// Values by name.
pub type Variables = BTreeMap<Box<str>, Box<str>>;

/// As many as this, names and values, clients and generators may set; the kernel takes some more
/// (execve(2)).
pub const ENVIRONMENT_BYTES_MAX: usize = 1 << 20;

/// Where the configured part comes from.
#[derive(Clone, Debug)]
pub struct Sources {
    /// System or user manager.
    pub scope: Scope,
    /// Units are those of the host, and so are its language and what the kernel was started with.
    pub is_host: bool,
    /// `ManagerEnvironment=`, `NAME=value`.
    pub own: Arc<[Box<str>]>,
    /// `DefaultEnvironment=`, `NAME=value`.
    pub defaults: Arc<[Box<str>]>,
}

impl Sources {
    /// The manager's own variables, beneath `DefaultEnvironment=` and `systemd.setenv=` (systemd(1)); the language
    /// of the host is beneath these too.
    pub fn read(&self) -> Variables {
        let mut out = inherited::environment(self.scope, std::env::vars_os());
        let options = match self.is_host {
            true => boot_options::words(&boot_options::command_line()),
            false => Vec::new(),
        };
        if self.is_host {
            out.extend(locale::variables(&options, &locale::FILES.map(Path::new)));
        }
        let set_at_boot = options.iter().filter_map(|word| word.strip_prefix("systemd.setenv="));
        // What a manager of a user has, its services inherit.
        let own = self.own.iter().filter(|_| self.scope == Scope::User);
        let assignments = own.chain(self.defaults.iter()).map(|text| &**text).chain(set_at_boot);
        let pairs = assignments.filter_map(|assignment| assignment.split_once('='));
        let pairs = pairs.filter(|(name, _)| is_variable_name(name));
        out.extend(pairs.map(|(name, value)| (name.into(), value.into())));
        out
    }
}

/// All but what clients set.
#[derive(Clone, Debug, Default)]
pub struct BaseEnvironment {
    /// What [`Sources::read`] found.
    pub configured: Variables,
    /// What generators said over it.
    pub generated: Variables,
}

/// The three, and what is made of them.
pub(crate) struct Environment {
    begun: BaseEnvironment,
    clients: Variables,
    all: Variables,
}

impl Environment {
    /// Before a client has set anything.
    pub(crate) fn new(begun: BaseEnvironment) -> Environment {
        let (clients, all) = (Variables::new(), Variables::new());
        let mut new = Environment { begun, clients, all };
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

    pub(crate) fn set_begun(&mut self, begun: BaseEnvironment) {
        self.begun = begun;
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
        let BaseEnvironment { configured, generated } = &self.begun;
        let pairs = configured.iter().chain(generated).chain(&self.clients);
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
        let configured = of(&[("A", "own"), ("PATH", "own")]);
        let begun = BaseEnvironment { configured, generated: of(&[("A", "made"), ("B", "made")]) };
        let mut environment = Environment::new(begun);
        let mut change = |unset: &[&str], set: &[&str]| {
            let clients = environment.changed(&strings(unset), &strings(set)).expect("valid");
            environment.set_clients(clients);
            let value = |name| environment.all().get(name).map_or("", |value| &**value).to_owned();
            ["A", "B", "C", "PATH"].map(value)
        };
        assert_eq!(change(&[], &["A=set", "C=set", "PATH=set"]), ["set", "made", "set", "set"]);
        assert_eq!(change(&["A", "B", "PATH"], &[]), ["made", "made", "set", "own"]);
        assert_eq!(change(&["C=other"], &[]), ["made", "made", "set", "own"]);
        assert_eq!(change(&["C=set"], &["C=again"]), ["made", "made", "again", "own"]);
        environment.set_begun(BaseEnvironment {
            generated: of(&[("C", "made")]),
            ..BaseEnvironment::default()
        });
        assert!(!environment.all().contains_key("A"));
        assert_eq!(&*environment.all()["C"], "again");
    }

    #[test]
    fn defaults_are_above_what_the_manager_has() {
        let defaults = ["PATH=/defaults", "A=b=c", "1=x", "B"].map(Box::from);
        let own = || Arc::from(["PATH=/own", "C=own"].map(Box::from));
        let sources = |scope, defaults| Sources { scope, is_host: false, own: own(), defaults };
        let read = sources(Scope::System, Arc::new(defaults)).read();
        assert_eq!((&*read["PATH"], &*read["A"]), ("/defaults", "b=c"));
        assert!(!read.contains_key("1") && !read.contains_key("B"));
        assert!(!read.contains_key("C"));
        assert_ne!(&*sources(Scope::System, Arc::new([])).read()["PATH"], "/defaults");
        let of_user = sources(Scope::User, Arc::new(["A=b".into()])).read();
        assert_eq!([&*of_user["PATH"], &*of_user["C"], &*of_user["A"]], ["/own", "own", "b"]);
    }

    #[test]
    fn what_is_no_assignment_or_too_much_changes_nothing() {
        let environment = Environment::new(BaseEnvironment::default());
        for wrong in ["A", "1=x", "=x"] {
            let error = environment.changed(&[], &strings(&[wrong])).expect_err("refused");
            assert_eq!(error, format!("Invalid environment assignment {wrong}"));
        }
        let long = format!("A={}", "x".repeat(ENVIRONMENT_BYTES_MAX));
        assert!(environment.changed(&[], &[long]).is_err());
    }
}

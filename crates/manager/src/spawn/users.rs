//! Users and groups of commands (systemd.exec(5), `User=`, `Group=`, `SupplementaryGroups=`). Those of the
//! files are found by the helper that makes the process. For others, and for groups of theirs that are not in the
//! files, name services are asked beside the loop,
//! once for all commands that wait for the same name: a helper that waited for a slow one would start nobody.
//!
//! How long is waited is up to the unit: what nobody wants any more is not begun.

use crate::base::patience::Patient;
use crate::base::worker_pool::Workers;
use crate::spawn::environment_files::Variables;
use crate::spawn::request::command_of;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use warren_core::model::ids::{EffectId, UnitId};
use warren_core::protocol::event::{Done, Spawn};
use warren_init::protocol::exec::{Served, ServedGroup, ServedUser};
use warren_sys::eventfd::EventFd;
use warren_sys::passwd::{self, Current, parse_id};

/// What a command names.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Name {
    User(Box<str>),
    Group(Box<str>),
}

/// What a name service said of one.
#[derive(Clone)]
enum Answer {
    User(ServedUser),
    Group(ServedGroup),
}

/// A name that name services are asked for.
struct Asked {
    answer: Arc<OnceLock<Answer>>,
    /// Who waits for it.
    commands: Vec<EffectId>,
}

/// A command that waits for names.
pub(crate) struct Waiting {
    pub(crate) spawn: Box<Spawn>,
    pub(crate) variables: Variables,
    /// Answers that have not come.
    pub(crate) left: usize,
    pub(crate) served: Served,
}

/// Names and numbers of a file.
#[derive(Default)]
struct Listed {
    names: BTreeSet<String>,
    numbers: BTreeSet<u32>,
}

impl Listed {
    fn of(entries: impl Iterator<Item = (String, u32)>) -> Listed {
        let (names, numbers) = entries.unzip();
        Listed { names, numbers }
    }

    fn has(&self, name: &str) -> bool {
        match parse_id(name) {
            Some(number) => self.numbers.contains(&number),
            None => self.names.contains(name),
        }
    }
}

/// The names that the files have, and commands that wait for others.
pub struct Names {
    files: Current,
    users: Listed,
    groups: Listed,
    pub(crate) waiting: BTreeMap<EffectId, Waiting>,
    /// The same by their units.
    pub(crate) of_units: BTreeSet<(UnitId, EffectId)>,
    asked: BTreeMap<Name, Asked>,
    /// The same by the number of the question.
    questions: BTreeMap<u64, Name>,
    /// Questions that ever were.
    ever: u64,
    wake: Arc<EventFd>,
    /// There are none before there is something to ask.
    workers: Option<Workers>,
}

impl Names {
    /// Nobody waits. The loop is woken through `wake`.
    pub fn new(wake: Arc<EventFd>) -> Names {
        Names {
            files: Current::default(),
            users: Listed::default(),
            groups: Listed::default(),
            waiting: BTreeMap::new(),
            of_units: BTreeSet::new(),
            asked: BTreeMap::new(),
            questions: BTreeMap::new(),
            ever: 0,
            wake,
            workers: None,
        }
    }

    /// What a command names that name services are asked for.
    pub(crate) fn unlisted(&mut self, spawn: &Spawn) -> BTreeSet<Name> {
        let Some((_, exec)) = command_of(&spawn.settings, spawn.list, spawn.index) else {
            return BTreeSet::new();
        };
        let groups = exec.group.iter().chain(&exec.supplementary_groups);
        let groups = groups.cloned().map(Name::Group);
        let mut names: BTreeSet<Name> =
            exec.user.iter().cloned().map(Name::User).chain(groups).collect();
        let made = spawn.dynamic_user.iter().flat_map(|user| user.names());
        for of in made.filter(|of| of.given().is_some()) {
            names.remove(&Name::User(of.name.clone()));
            names.remove(&Name::Group(of.name.clone()));
        }
        if names.is_empty() {
            return names;
        }
        match self.files.refresh() {
            Ok(false) => {}
            Ok(true) => {
                let files = self.files.database();
                self.users = Listed::of(passwd::users(&files.passwd).map(|u| (u.name, u.uid)));
                self.groups = Listed::of(passwd::groups(&files.group).map(|g| (g.name, g.gid)));
            }
            // The helper says what is wrong.
            Err(_) => return BTreeSet::new(),
        }
        names.retain(|name| match name {
            Name::User(name) => !self.users.has(name) || self.files.asks_for_groups_of(name),
            Name::Group(name) => !self.groups.has(name),
        });
        names
    }

    /// Has a command wait for these; false if nobody can be asked.
    pub(crate) fn wait(
        &mut self,
        id: EffectId,
        spawn: &Spawn,
        variables: &[(String, String)],
        names: BTreeSet<Name>,
    ) -> bool {
        if self.workers.is_none() {
            self.workers = Workers::start(self.wake.clone()).ok();
        }
        if self.workers.is_none() {
            return false;
        }
        let (left, variables) = (names.len(), variables.to_vec());
        let spawn = Box::new(spawn.clone());
        self.of_units.insert((spawn.unit, id));
        self.waiting.insert(id, Waiting { spawn, variables, left, served: Served::default() });
        for name in names {
            match self.asked.get_mut(&name) {
                Some(asked) => asked.commands.push(id),
                None => self.ask(name, id),
            }
        }
        true
    }

    fn ask(&mut self, name: Name, id: EffectId) {
        let answer = Arc::new(OnceLock::new());
        let (key, told) = (name.clone(), answer.clone());
        let look_up = move || {
            let _ = told.set(look_up(&key));
            Done::Ok
        };
        self.ever += 1;
        self.asked.insert(name.clone(), Asked { answer, commands: vec![id] });
        self.questions.insert(self.ever, name);
        if let Some(workers) = &self.workers {
            workers.run(EffectId(self.ever), look_up);
        }
    }

    pub(crate) fn take(&mut self, id: EffectId) -> Option<Waiting> {
        let waiting = self.waiting.remove(&id)?;
        self.of_units.remove(&(waiting.spawn.unit, id));
        Some(waiting)
    }

    /// Commands whose last answer has come.
    pub(crate) fn hear(&mut self) -> Vec<(EffectId, Waiting)> {
        let Some(workers) = &self.workers else { return Vec::new() };
        let numbers: Vec<u64> = workers.results().map(|(EffectId(number), _)| number).collect();
        let mut answered = Vec::new();
        for number in numbers {
            let name = self.questions.remove(&number);
            let Some(asked) = name.and_then(|name| self.asked.remove(&name)) else { continue };
            for id in asked.commands {
                // Without an answer, as after a panic, the helper asks itself.
                let Some(waiting) = self.waiting.get_mut(&id) else { continue };
                match asked.answer.get().cloned() {
                    Some(Answer::User(user)) => waiting.served.users.push(user),
                    Some(Answer::Group(group)) => waiting.served.groups.push(group),
                    None => {}
                }
                waiting.left -= 1;
                if waiting.left == 0 {
                    answered.extend(self.take(id).map(|waiting| (id, waiting)));
                }
            }
        }
        answered
    }
}

impl Patient for Names {
    // Has others asked behind one that does not answer.
    fn relieve(&self, now: Instant) {
        self.workers.iter().for_each(|workers| workers.relieve(now));
    }

    // How long nobody is taken for held up, if somebody may be.
    fn patience_left(&self, now: Instant) -> Option<Duration> {
        self.workers.as_ref()?.patience_left(now)
    }
}

/// Waits for the name services.
fn look_up(name: &Name) -> Answer {
    match name {
        Name::User(name) => {
            let entry = passwd::served_user(name);
            let user = entry.as_deref().and_then(|line| passwd::users(line).next());
            let groups = user.map(|user| passwd::served_groups_of(&user.name)).unwrap_or_default();
            Answer::User(ServedUser { name: name.to_string(), entry, groups })
        }
        Name::Group(name) => {
            let entry = passwd::served_group(name);
            Answer::Group(ServedGroup { name: name.to_string(), entry })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_names_and_numbers() {
        let listed = Listed::of([("web".to_owned(), 33), ("4711".to_owned(), 5)].into_iter());
        let has = ["web", "33", "033", "5", "wwww", "34", "4711", "", "-1"].map(|n| listed.has(n));
        assert_eq!(has, [true, true, false, true, false, false, false, false, false]);
    }

    #[test]
    fn whom_nobody_knows_has_no_entry() {
        let Answer::User(user) = look_up(&Name::User("no-such-user".into())) else {
            panic!("a user")
        };
        let name = "no-such-user".to_owned();
        assert_eq!(user, ServedUser { name, entry: None, groups: Vec::new() });
        let Answer::Group(group) = look_up(&Name::Group("-g".into())) else { panic!("a group") };
        assert_eq!(group, ServedGroup { name: "-g".to_owned(), entry: None });
    }
}

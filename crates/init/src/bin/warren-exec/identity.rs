//! Who the process runs as: names to numbers.

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::{ExecSpec, Served, ServedUser, SpawnError};
use warren_sys::passwd::{Current, Group, User, groups, unlisted_group, unlisted_user, users};

use crate::fault::{failed, wrong};

/// The user database, read again when its files changed.
#[derive(Default)]
pub struct Users {
    files: Current,
}

/// Numbers to switch to, or of whom directories are (`ExecSpec::keeps_ids`), and what the environment
/// says about the user.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// User id, when one is set.
    pub uid: Option<u32>,
    /// Group id, when one is set.
    pub gid: Option<u32>,
    /// Supplementary groups, when they are set.
    pub groups: Option<Vec<u32>>,
    /// The user whose login variables are set, or who it runs as.
    pub user: Option<User>,
}

impl Users {
    /// Finds everything that the spec names.
    pub fn identity(&mut self, spec: &ExecSpec) -> Result<Identity, SpawnError> {
        let groups = spec.group.iter().chain(&spec.supplementary_groups);
        if spec.user.is_none() && spec.login_user.is_none() && groups.count() == 0 {
            return Ok(Identity::default());
        }
        self.files.refresh().map_err(|e| wrong(ExecStep::User, &e))?;
        let login = spec.login_user.as_ref().filter(|name| spec.user.as_ref() != Some(*name));
        let login = login.map(|name| self.user(name, &spec.served)).transpose()?;
        let user = spec.user.as_deref().map(|name| self.user(name, &spec.served)).transpose()?;
        let group = spec.group.as_deref().map(|name| self.group(name, &spec.served)).transpose()?;
        let gid = group.map(|g| g.gid).or(user.as_ref().map(|u| u.gid));
        let mut groups = match (&user, gid) {
            // As systemd has it.
            (Some(user), _) if user.uid == 0 => Vec::new(),
            (Some(user), Some(gid)) => self.groups_of(spec, user, gid),
            _ => Vec::new(),
        };
        for name in &spec.supplementary_groups {
            groups.push(self.group(name, &spec.served)?.gid);
        }
        groups.sort_unstable();
        groups.dedup();
        let switches = user.is_some() || group_is_set(spec);
        Ok(Identity {
            uid: user.as_ref().map(|u| u.uid),
            gid,
            groups: switches.then_some(groups),
            user: user.or(login),
        })
    }

    fn groups_of(&self, spec: &ExecSpec, user: &User, primary: u32) -> Vec<u32> {
        let files = self.files.database();
        let is_asked = |served: &&ServedUser| Some(&served.name) == spec.user.as_ref();
        match spec.served.users.iter().find(is_asked) {
            Some(served) => {
                let of_files = files.groups_of(&user.name, primary);
                served.groups.iter().copied().chain(of_files).collect()
            }
            None => files.find_groups_of(user, primary),
        }
    }

    /// Of the files, of what name services said, or else of what they say now.
    fn user(&self, name: &str, served: &Served) -> Result<User, SpawnError> {
        let files = self.files.database();
        let user = files.user(name).or_else(|| {
            match served.users.iter().find(|served| served.name == name) {
                None => files.find_user(name),
                Some(served) => {
                    let entry = served.entry.as_deref().and_then(|line| users(line).next());
                    entry.or_else(|| unlisted_user(name))
                }
            }
        });
        user.ok_or_else(|| failed(ExecStep::User, 0, format!("no such user: {name}")))
    }

    /// As [`Users::user`] has users.
    fn group(&self, name: &str, served: &Served) -> Result<Group, SpawnError> {
        let files = self.files.database();
        let group = files.group(name).or_else(|| {
            match served.groups.iter().find(|served| served.name == name) {
                None => files.find_group(name),
                Some(served) => {
                    let entry = served.entry.as_deref().and_then(|line| groups(line).next());
                    entry.or_else(|| unlisted_group(name))
                }
            }
        });
        group.ok_or_else(|| failed(ExecStep::Group, 0, format!("no such group: {name}")))
    }
}

fn group_is_set(spec: &ExecSpec) -> bool {
    spec.group.is_some() || !spec.supplementary_groups.is_empty()
}

#[cfg(test)]
mod tests {
    use warren_init::protocol::exec::ServedGroup;

    use super::*;

    fn check(user: &str, group: &str, extra: &str, expected: &str) {
        check_served(Served::default(), user, group, extra, expected);
    }

    #[track_caller]
    fn check_served(served: Served, user: &str, group: &str, extra: &str, expected: &str) {
        let some = |s: &str| (!s.is_empty()).then(|| s.to_owned());
        let spec = ExecSpec {
            user: some(user),
            group: some(group),
            supplementary_groups: some(extra).into_iter().collect(),
            served,
            ..ExecSpec::default()
        };
        let text = match Users::default().identity(&spec) {
            Ok(i) => format!("{:?} {:?} {:?}", i.uid, i.gid, i.groups),
            Err(e) => format!("{:?}: {}", e.step, e.message),
        };
        assert_eq!(text, expected);
    }

    #[test]
    fn what_name_services_said_counts_for_whom_the_files_do_not_have() {
        let user = |name: &str, entry: Option<&str>| {
            let (name, entry) = (name.to_owned(), entry.map(str::to_owned));
            ServedUser { name, entry, groups: vec![70001, 70002] }
        };
        let group = |name: &str, entry: Option<&str>| {
            let (name, entry) = (name.to_owned(), entry.map(str::to_owned));
            ServedGroup { name, entry }
        };
        let served = || Served {
            users: vec![
                user("served-x", Some("served-x:x:70000:70003::/home/x:/bin/sh")),
                user("no-such-user", None),
                user("54321", None),
                user("root", Some("root:x:1:1::/:")),
            ],
            groups: vec![
                group("served-g", Some("served-g:x:70004:a")),
                group("no-such-group", None),
            ],
        };
        let check = |user: &str, group: &str, extra: &str, expected: &str| {
            check_served(served(), user, group, extra, expected);
        };
        check("served-x", "", "", "Some(70000) Some(70003) Some([70001, 70002, 70003])");
        check("served-x", "served-g", "", "Some(70000) Some(70004) Some([70001, 70002, 70004])");
        check("", "", "served-g", "None None Some([70004])");
        check("root", "", "", "Some(0) Some(0) Some([])");
        check("54321", "", "", "Some(54321) Some(54321) Some([54321, 70001, 70002])");
        check("no-such-user", "", "", "User: no such user: no-such-user");
        check("root", "no-such-group", "", "Group: no such group: no-such-group");
    }

    #[test]
    fn groups_of_name_services_count_for_users_of_the_files_too() {
        let files = warren_sys::passwd::Database::read().expect("the files can be read");
        let user = users(&files.passwd).find(|user| user.uid != 0);
        let user = user.expect("a machine for tests has a user beside root");
        let name = user.name.clone();
        let served = ServedUser { name: name.clone(), entry: None, groups: vec![70001] };
        let served = Served { users: vec![served], groups: Vec::new() };
        let spec = ExecSpec { user: Some(name.clone()), served, ..ExecSpec::default() };
        let found = Users::default().identity(&spec).expect("the user is known");
        let mut expected = files.groups_of(&name, user.gid);
        expected.push(70001);
        assert_eq!(found.groups, Some(expected));
    }

    #[test]
    fn names_become_numbers_or_errors() {
        check("", "", "", "None None None");
        check("root", "", "", "Some(0) Some(0) Some([])");
        check("54321", "", "", "Some(54321) Some(54321) Some([54321])");
        check("54321", "root", "4242", "Some(54321) Some(0) Some([0, 4242])");
        check("", "root", "", "None Some(0) Some([])");
        check("no-such-user", "", "", "User: no such user: no-such-user");
        check("root", "no-such-group", "", "Group: no such group: no-such-group");
    }
}

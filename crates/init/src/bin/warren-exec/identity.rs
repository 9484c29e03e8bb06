//! Who the process runs as: names to numbers.

use std::fs;
use std::os::unix::fs::MetadataExt;

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::{ExecSpec, SpawnError};
use warren_sys::Error;
use warren_sys::passwd::{Database, Group, User};

use crate::prepare::{failed, wrong};

const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// The user database, read again when its files changed.
#[derive(Default)]
pub struct Users {
    database: Database,
    seen: Option<[FileId; 2]>,
}

/// Device, inode, size, change time: another value means another content.
type FileId = (u64, u64, u64, i64, i64);

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
        self.refresh().map_err(|e| wrong(ExecStep::User, &e))?;
        let login = spec.login_user.as_ref().filter(|name| spec.user.as_ref() != Some(*name));
        let login = login.map(|name| self.user(name)).transpose()?;
        let user = spec.user.as_deref().map(|name| self.user(name)).transpose()?;
        let group = spec.group.as_deref().map(|name| self.group(name)).transpose()?;
        let gid = group.map(|g| g.gid).or(user.as_ref().map(|u| u.gid));
        let mut groups = match (&user, gid) {
            // As systemd has it.
            (Some(user), _) if user.uid == 0 => Vec::new(),
            (Some(user), Some(gid)) => self.database.find_groups_of(user, gid),
            _ => Vec::new(),
        };
        for name in &spec.supplementary_groups {
            groups.push(self.group(name)?.gid);
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

    fn refresh(&mut self) -> Result<(), Error> {
        let now = [file_id("/etc/passwd"), file_id("/etc/group")];
        if self.seen != Some(now) {
            self.database = match Database::read() {
                // It is there, and can be read later: nobody is unknown for want of it.
                Err(e) if [ENOMEM, ENFILE, EMFILE].contains(&e.errno) => return Err(e),
                // Another one that cannot be read has no names.
                read => read.unwrap_or_default(),
            };
            self.seen = Some(now);
        }
        Ok(())
    }

    fn user(&self, name: &str) -> Result<User, SpawnError> {
        let user = self.database.find_user(name);
        user.ok_or_else(|| failed(ExecStep::User, 0, format!("no such user: {name}")))
    }

    fn group(&self, name: &str) -> Result<Group, SpawnError> {
        let group = self.database.find_group(name);
        group.ok_or_else(|| failed(ExecStep::Group, 0, format!("no such group: {name}")))
    }
}

fn group_is_set(spec: &ExecSpec) -> bool {
    spec.group.is_some() || !spec.supplementary_groups.is_empty()
}

fn file_id(path: &str) -> FileId {
    let id = |m: fs::Metadata| (m.dev(), m.ino(), m.size(), m.ctime(), m.ctime_nsec());
    fs::metadata(path).map(id).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(user: &str, group: &str, extra: &str, expected: &str) {
        let some = |s: &str| (!s.is_empty()).then(|| s.to_owned());
        let spec = ExecSpec {
            user: some(user),
            group: some(group),
            supplementary_groups: some(extra).into_iter().collect(),
            ..ExecSpec::default()
        };
        let text = match Users::default().identity(&spec) {
            Ok(i) => format!("{:?} {:?} {:?}", i.uid, i.gid, i.groups),
            Err(e) => format!("{:?}: {}", e.step, e.message),
        };
        assert_eq!(text, expected);
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

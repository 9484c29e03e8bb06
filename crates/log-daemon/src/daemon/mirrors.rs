//! The mirror of the system, and one for each user of what his own processes said, which he may read: so who is in no group
//! that reads the log sees what he logged himself, with our reader and with systemd's, whose daemon splits its files so.
//!
//! Users are those who log in; what others say is the system's. A few users have a mirror at a time: the files of one who
//! has said nothing for long go when another comes. Must not: touch the store. Runs on the receiving thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::daemon::mirror::{Bounds, FILE_BYTES_MIN, Kind, Mirror};
use crate::daemon::readers::Readers;
use warren_log_store::entry::{Fields, Id128, Stamp};
use warren_log_store::error::Result;
use warren_log_store::files::{Disk, Files};
use warren_log_store::places::{MIRROR_ENDING, MIRROR_OF_USER};

/// Most users who have a mirror; what further ones say is in that of the system.
const USERS_MAX: usize = 16;

/// Who has said nothing for so long makes room for another, µs.
const IDLE_US: u64 = 3_600_000_000;

/// Most files of each.
const FILES_OF_USER: usize = 2;

/// Users who log in; systemd's "Users, Groups, UIDs and GIDs" page: below are those of the system, and of those above some
/// are of services and containers.
const USERS: std::ops::RangeInclusive<u32> = 1000..=60_000;

/// The mirror of a user.
struct OfUser {
    uid: u32,
    /// When he said something the last time, monotonic µs.
    last_us: u64,
    mirror: Mirror,
}

/// The mirrors.
pub struct Mirrors {
    system: Mirror,
    directory: PathBuf,
    machine: Id128,
    readers: Readers,
    keep_free_bytes: Option<u64>,
    /// Those of users, who said something last first.
    users: Vec<OfUser>,
    /// A user's could not be made, which was said.
    is_told: bool,
    said: Vec<String>,
}

impl Mirrors {
    /// Over a directory, with the bounds of the one of everything.
    ///
    /// # Errors
    /// When the directory cannot be made.
    pub fn open(
        directory: &Path,
        bounds: Bounds,
        machine: Id128,
        readers: &Readers,
    ) -> Result<Mirrors> {
        let system = Mirror::open(directory, bounds, (machine, Kind::of_system()), readers)?;
        let mut mirrors = Mirrors {
            system,
            directory: directory.to_owned(),
            machine,
            readers: readers.clone(),
            keep_free_bytes: bounds.keep_free_bytes,
            users: Vec::new(),
            is_told: false,
            said: Vec::new(),
        };
        mirrors.take_up()?;
        Ok(mirrors)
    }

    /// Goes on with what the last daemon left.
    fn take_up(&mut self) -> Result<()> {
        let listing = Disk::new(&self.directory).list()?;
        let mut uids: Vec<u32> = listing.iter().filter_map(|file| owner_of(&file.name)).collect();
        uids.dedup();
        for uid in uids {
            let mirror = self.make(uid)?;
            match self.users.len() < USERS_MAX {
                true => self.users.push(OfUser { uid, last_us: 0, mirror }),
                false => mirror.remove()?,
            }
        }
        Ok(())
    }

    fn make(&self, uid: u32) -> Result<Mirror> {
        let stem = format!("{MIRROR_OF_USER}{uid}{MIRROR_ENDING}");
        let kind = Kind { stem, files: FILES_OF_USER, owner: Some(uid) };
        // The smallest files that there are.
        let bounds = Bounds { bytes_max: FILE_BYTES_MIN, keep_free_bytes: self.keep_free_bytes };
        Mirror::open(&self.directory, bounds, (self.machine, kind), &self.readers)
    }

    /// Takes an entry.
    pub fn append(&mut self, stamp: &Stamp, context: &Arc<Fields>, fields: &Fields) {
        let mirror = match user_of(context).map(|uid| self.of_user(uid, stamp.monotonic_us)) {
            Some(Ok(true)) => self.users.first_mut().map(|user| &mut user.mirror),
            Some(Err(e)) => {
                if !self.is_told {
                    self.is_told = true;
                    self.said.push(format!("Users cannot read their own messages: {e}"));
                }
                None
            }
            Some(Ok(false)) | None => None,
        };
        mirror.unwrap_or(&mut self.system).append(stamp, context, fields);
    }

    /// Puts the mirror of a user first, which is made if there is none; false when there is no place for another.
    fn of_user(&mut self, uid: u32, now_us: u64) -> Result<bool> {
        if let Some(at) = self.users.iter().position(|user| user.uid == uid) {
            self.users[..=at].rotate_right(1);
            self.users[0].last_us = now_us;
            return Ok(true);
        }
        let is_full = self.users.len() >= USERS_MAX;
        let is_idle = |user: &OfUser| now_us.saturating_sub(user.last_us) >= IDLE_US;
        if is_full && !self.users.last().is_some_and(is_idle) {
            return Ok(false);
        }
        let mirror = self.make(uid)?;
        if let Some(oldest) = is_full.then(|| self.users.pop()).flatten() {
            oldest.mirror.remove()?;
        }
        self.users.insert(0, OfUser { uid, last_us: now_us, mirror });
        Ok(true)
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Mirror> {
        std::iter::once(&mut self.system).chain(self.users.iter_mut().map(|user| &mut user.mirror))
    }

    /// Removes what is older than messages are kept, µs.
    pub fn forget(&mut self, retention_us: u64, now_us: u64) {
        self.all().for_each(|mirror| mirror.forget(retention_us, now_us));
    }

    /// Puts what was taken into the files.
    pub fn flush(&mut self) {
        self.all().for_each(Mirror::flush);
    }

    /// Writes everything and says that nobody writes any more.
    pub fn finish(&mut self) {
        self.all().for_each(Mirror::finish);
    }

    /// What is to be said in the log, each once.
    pub fn take_said(&mut self) -> Vec<String> {
        let mut said = std::mem::take(&mut self.said);
        said.extend(self.all().flat_map(Mirror::take_said));
        said.dedup();
        said
    }
}

/// The user who logs in and said it, if one did.
fn user_of(context: &Fields) -> Option<u32> {
    let uid = std::str::from_utf8(context.get("_UID")?).ok()?.parse().ok()?;
    USERS.contains(&uid).then_some(uid)
}

/// Whose mirror a file is a part of.
fn owner_of(name: &str) -> Option<u32> {
    let (uid, _) = name.strip_prefix(MIRROR_OF_USER)?.split_once(MIRROR_ENDING)?;
    uid.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_testkit::Scratch;

    const BOOT: Id128 = Id128([1; 16]);

    /// Which users have files after these said something, as `UID@SECONDS`.
    fn check(said: &[(u32, u64)], expected: &[u32]) {
        let scratch = Scratch::new("mirrors");
        let directory = scratch.path("journal");
        let bounds = Bounds { bytes_max: 4 * FILE_BYTES_MIN, keep_free_bytes: Some(0) };
        let mut mirrors =
            Mirrors::open(&directory, bounds, BOOT, &Readers::default()).expect("a directory");
        for (uid, seconds) in said {
            let context: Fields = [("_UID", &*uid.to_string())].into_iter().collect();
            let stamp = Stamp {
                realtime_us: 1_700_000_000_000_000 + seconds * 1_000_000,
                monotonic_us: seconds * 1_000_000,
                boot: BOOT,
            };
            let fields = [("MESSAGE", "x")].into_iter().collect();
            mirrors.append(&stamp, &Arc::new(context), &fields);
        }
        mirrors.finish();
        assert_eq!(mirrors.take_said(), Vec::<String>::new());
        let listing = Disk::new(&directory).list().expect("a listing");
        let mut uids: Vec<u32> = listing.iter().filter_map(|file| owner_of(&file.name)).collect();
        uids.sort_unstable();
        assert_eq!(uids, expected);
    }

    #[test]
    fn a_few_users_who_log_in_have_a_mirror() {
        check(
            &[(0, 1), (999, 1), (1000, 1), (65_534, 1), (60_000, 2), (61_184, 2)],
            &[1000, 60_000],
        );
        let many: Vec<(u32, u64)> = (1001..1040).map(|uid| (uid, u64::from(uid))).collect();
        check(&many, &(1001..1017).collect::<Vec<u32>>());
        // One who has said nothing for an hour makes room.
        let later: Vec<(u32, u64)> = many.into_iter().chain([(1001, 4000), (1050, 4700)]).collect();
        let left: Vec<u32> = [1001].into_iter().chain(1003..1017).chain([1050]).collect();
        check(&later, &left);
    }

    #[test]
    fn files_of_users_are_known_by_their_names() {
        assert_eq!(owner_of("user-1000@warren.journal"), Some(1000));
        assert_eq!(owner_of("user-1000@warren-0000000000000001.journal"), Some(1000));
        for other in ["user-1000.journal", "user-x@warren.journal", "system@warren.journal"] {
            assert_eq!(owner_of(other), None, "{other}");
        }
    }
}

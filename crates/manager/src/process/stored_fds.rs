//! File descriptors that services keep with the manager (`FDSTORE=1`, sd_notify(3)); init keeps
//! them too, so that they outlive the manager.

use crate::base::say::say;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use warren_bus::backend::Place;
use warren_core::model::ids::UnitId;
use warren_sys::waits;

/// Stands behind the key of one that is not dropped when it hangs up, in the name that init keeps.
const UNPOLLED: &str = "!";

/// A file descriptor that a service sent. Whatever it is of, that it is dropped holds nobody up.
pub struct ReceivedFd(pub(crate) Option<OwnedFd>);

impl ReceivedFd {
    /// Takes it.
    pub fn new(fd: OwnedFd) -> ReceivedFd {
        ReceivedFd(Some(fd))
    }
}

impl AsFd for ReceivedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_ref().expect("it goes with the value").as_fd()
    }
}

impl Drop for ReceivedFd {
    fn drop(&mut self) {
        let_go(self.0.take());
    }
}

/// Closes what services sent, by as few processes as may be: the loop waits until each is made, a copy of the manager.
pub fn let_go(fds: impl IntoIterator<Item = OwnedFd>) {
    if let Err(e) = waits::close_all(fds, true) {
        say!("cannot close a stored file descriptor: {e}");
    }
}

/// All stored file descriptors.
#[derive(Default)]
pub struct FdStore {
    pub(crate) stored: BTreeMap<UnitId, Vec<Stored>>,
    pub(crate) next: u32,
}

pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) key: u32,
    pub(crate) polls: bool,
    /// Spawns that are under way have it too.
    pub(crate) fd: Rc<ReceivedFd>,
    /// Device and inode: of those that differ none are the same open file.
    pub(crate) file: (u64, u64),
}

impl Stored {
    pub(crate) fn new(name: &str, key: u32, polls: bool, fd: OwnedFd) -> Stored {
        // One that cannot be asked is compared with all that cannot.
        let file = waits::identity(fd.as_fd()).unwrap_or_default();
        Stored { name: name.to_owned(), key, polls, fd: Rc::new(ReceivedFd::new(fd)), file }
    }

    /// Whether a client passed it.
    pub(crate) fn is_passed(&self) -> bool {
        is_passed(&self.name)
    }

    /// The name under which init keeps it.
    pub(crate) fn kept_as(&self, unit: &str) -> String {
        let unpolled = if self.polls { "" } else { UNPOLLED };
        format!("fdstore/{unit}/{}{unpolled}/{}", self.key, self.name)
    }

    /// Key, whether it is polled, and name of one that init kept; nothing if it is none of these.
    pub(crate) fn parse(rest: &str) -> Option<(u32, bool, &str)> {
        let (key, name) = rest.split_once('/')?;
        let polls = !key.ends_with(UNPOLLED);
        Some((key.trim_end_matches(UNPOLLED).parse().ok()?, polls, name))
    }
}

impl FdStore {
    /// Whether the unit has stored any.
    pub fn has(&self, unit: UnitId) -> bool {
        self.count(unit) > 0
    }

    /// How many the unit has stored.
    pub fn count(&self, unit: UnitId) -> usize {
        let stored = self.stored.get(&unit).into_iter().flatten();
        stored.filter(|stored| !stored.is_passed()).count()
    }

    /// Those that the unit has stored, with their names.
    pub fn stored_by(&self, unit: UnitId) -> impl Iterator<Item = (&str, BorrowedFd<'_>)> {
        let stored = self.stored.get(&unit).into_iter().flatten();
        let own = stored.filter(|stored| !stored.is_passed());
        own.map(|stored| (stored.name.as_str(), stored.fd.as_fd()))
    }

    /// For a new run of the unit, with their names: those that it has stored, and those that a client passed to be
    /// among them.
    pub fn for_unit(&self, unit: UnitId) -> impl Iterator<Item = (String, Rc<ReceivedFd>)> {
        let stored = self.stored.get(&unit).into_iter().flatten();
        stored.filter_map(|stored| {
            let name = match stored.name.strip_prefix(PASSED) {
                None => Some(&*stored.name),
                Some(passed) => passed.strip_prefix('3'),
            };
            Some((name?.to_owned(), stored.fd.clone()))
        })
    }

    /// What a client passed as standard input, output and error of the unit's processes.
    pub fn standard_streams(&self, unit: UnitId) -> [Option<Rc<ReceivedFd>>; 3] {
        [Place::Input, Place::Output, Place::Error].map(|place| {
            let name = passed_name(&place);
            let mut stored = self.stored.get(&unit).into_iter().flatten();
            stored.find(|stored| stored.name == name).map(|stored| stored.fd.clone())
        })
    }

    pub(crate) fn of(&mut self, unit: UnitId) -> &mut Vec<Stored> {
        self.stored.entry(unit).or_default()
    }
}

/// What stands before the name of one that a client passed for the unit's processes, with its place: no service can
/// name one so.
const PASSED: &str = ":";

/// The name of one that a client passed for this place.
pub(crate) fn passed_name(place: &Place) -> String {
    match place {
        Place::Input => format!("{PASSED}0"),
        Place::Output => format!("{PASSED}1"),
        Place::Error => format!("{PASSED}2"),
        Place::Listed(name) => format!("{PASSED}3{name}"),
    }
}

/// Whether that is the name of one that a client passed.
pub(crate) fn is_passed(name: &str) -> bool {
    name.starts_with(PASSED)
}

/// The unit and the rest of a name that init keeps a stored file descriptor under.
pub fn parse_stored_name(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("fdstore/")?.split_once('/')
}

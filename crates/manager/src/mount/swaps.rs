//! What the kernel swaps to, by proc(5)'s `/proc/swaps`, as events of swap units (systemd.swap(5)).
//!
//! A thread waits for the file to change and sends what is in it. The unit of a file stands for
//! the area that its path leads to, whatever link that is; an area that no file's unit stands for
//! has a unit of the name that the kernel knows it by, as mounts have ([`crate::mount::kernel_mounts`]).
//!
//! There is one such table for all of a host, so only its own manager looks at it: in a container
//! and in a nested machine these areas are somebody else's.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::eventfd::EventFd;
use warren_sys::text::unescape_octal;
use warren_unit::escape::path_unescape;
use warren_unit::{UnitName, UnitType};

use crate::base::backoff::Retries;

/// The kernel's table.
const TABLE: &str = "/proc/swaps";

/// Largest table that is read, in bytes: the kernel knows at most 32 areas, of which each has a
/// line with a path.
const TABLE_BYTES_MAX: usize = 256 << 10;

/// Where paths lead to devices by links, and where to follow one waits for nobody.
const DEVICES: &str = "/dev/";

/// What the kernel writes behind the path of a file that has none any more.
const DELETED: &str = " (deleted)";

/// The manager's side.
#[derive(Debug, Default)]
pub struct SwapTable {
    /// None where nobody looks.
    news: Option<Receiver<Vec<String>>>,
    areas: BTreeSet<String>,
    /// Units of files, and the area that each stands for.
    files: BTreeMap<UnitName, String>,
    /// Units whose area is swapped to.
    on: BTreeSet<UnitName>,
    /// Units of files came or went.
    is_doubtful: bool,
}

impl SwapTable {
    /// Reads the table and starts the thread that follows it. Where the kernel has none, or no
    /// thread is to be had, areas that others swap to are not noticed.
    pub fn follow(wake: Arc<EventFd>) -> SwapTable {
        let (sender, news) = channel();
        let Ok(source) = Source::open() else { return SwapTable::default() };
        let Ok(first) = source.read() else { return SwapTable::default() };
        let _ = sender.send(first);
        let follow = move || source.follow(&sender, &wake);
        let _ = std::thread::Builder::new().name("swaps".into()).spawn(follow);
        SwapTable { news: Some(news), ..SwapTable::default() }
    }

    /// Whether it is known what the kernel swaps to.
    pub fn is_followed(&self) -> bool {
        self.news.is_some()
    }

    /// Whether the unit's area is swapped to, and the unit is the one that stands for it.
    pub fn is_on(&self, name: &UnitName) -> bool {
        self.on.contains(name)
    }

    /// Whether an area of this unit's name is swapped to, and the unit of a file stands for it.
    pub fn is_given_away(&self, name: &UnitName) -> bool {
        let is_area = |path: &String| self.areas.contains(path);
        crate::mount::kind::is_swap(name)
            && !self.is_on(name)
            && path_unescape(name.prefix()).is_ok_and(|path| is_area(&path))
    }

    /// These units are new, changed or gone: those whose area is swapped to are returned.
    pub fn look_again<'a>(
        &mut self,
        names: impl Iterator<Item = &'a UnitName>,
    ) -> BTreeSet<UnitName> {
        let swaps = names.filter(|name| name.unit_type() == UnitType::Swap);
        let swaps: BTreeSet<UnitName> = swaps.cloned().collect();
        self.is_doubtful |= !swaps.is_empty();
        swaps.into_iter().filter(|name| self.is_on(name)).collect()
    }

    /// The units that an area was given to or taken from since this was last asked. `files`: the swap
    /// units that have a file; asked only when something changed.
    pub fn take(&mut self, files: impl FnOnce() -> Vec<UnitName>) -> Vec<UnitName> {
        let news = self.news.iter().flat_map(Receiver::try_iter).last();
        if news.is_none() && !std::mem::take(&mut self.is_doubtful) {
            return Vec::new();
        }
        if let Some(areas) = news {
            self.areas = areas.into_iter().collect();
        }
        self.files = match self.areas.is_empty() {
            true => BTreeMap::new(),
            false => files().into_iter().filter_map(|name| self.with_area(name)).collect(),
        };
        let taken: BTreeSet<&String> = self.files.values().collect();
        let free = self.areas.iter().filter(|area| !taken.contains(area));
        let own = free.filter_map(|area| unit_of(area));
        let on: BTreeSet<UnitName> = self.files.keys().cloned().chain(own).collect();
        let before = std::mem::replace(&mut self.on, on);
        before.symmetric_difference(&self.on).cloned().collect()
    }

    /// The area that a file's unit stands for, if it is swapped to. A link that went while its area
    /// is in use changes nothing.
    fn with_area(&self, name: UnitName) -> Option<(UnitName, String)> {
        let now = path_unescape(name.prefix()).ok().map(|path| lead(&path));
        let is_there = |area: &String| self.areas.contains(area);
        let area = now.filter(is_there).or_else(|| self.files.get(&name).cloned())?;
        is_there(&area).then_some((name, area))
    }
}

/// Where a path leads: only links to devices are followed, since a path elsewhere may be that of a
/// server that does not answer.
pub fn lead(path: &str) -> String {
    let followed = path.starts_with(DEVICES).then(|| Path::new(path).canonicalize().ok()).flatten();
    followed.and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| path.to_owned())
}

/// The unit of an area by its own name; none for what swapoff(8) could not be told by that name.
fn unit_of(area: &str) -> Option<UnitName> {
    let is_plain = !area.ends_with(DELETED) && !area.contains(char::is_control);
    let name = UnitName::for_path(area, UnitType::Swap).ok().filter(|_| is_plain)?;
    (path_unescape(name.prefix()).as_deref() == Ok(area)).then_some(name)
}

/// The areas in the kernel's table: behind a line of titles, the first word of each line, in which
/// blanks and backslashes are octal.
pub fn areas(table: &str) -> impl Iterator<Item = String> + '_ {
    let paths = table.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    paths.map(unescape_octal)
}

/// The table itself.
struct Source {
    file: File,
    epoll: Epoll,
}

impl Source {
    /// It tells each change only to who waits by then, so that comes before the first look.
    fn open() -> Result<Source, String> {
        let file = File::open(TABLE).map_err(|e| e.to_string())?;
        let epoll = Epoll::new().map_err(|e| e.to_string())?;
        epoll.add(file.as_fd(), 0, Interest::PRIORITY).map_err(|e| e.to_string())?;
        Ok(Source { file, epoll })
    }

    fn read(&self) -> std::io::Result<Vec<String>> {
        let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
        while bytes.len() < TABLE_BYTES_MAX {
            match self.file.read_at(&mut chunk, bytes.len() as u64)? {
                0 => break,
                count => bytes.extend_from_slice(chunk.get(..count).unwrap_or_default()),
            }
        }
        Ok(areas(&String::from_utf8_lossy(&bytes)).collect())
    }

    fn follow(&self, sender: &Sender<Vec<String>>, wake: &EventFd) {
        let mut events = Events::with_capacity(1);
        let Ok(mut retries) = Retries::new() else { return };
        loop {
            // What an error hid is told by nobody again.
            let waited = match retries.are_going_on() {
                true => Ok(()),
                false => self.epoll.wait(&mut events, None).map_err(|e| e.to_string()),
            };
            match waited.and_then(|()| self.read().map_err(|e| e.to_string())) {
                Ok(areas) => {
                    retries.succeeded();
                    if sender.send(areas).is_err() {
                        return;
                    }
                    wake.notify();
                }
                Err(e) => {
                    retries.failed("changes of swap areas by other programs are not seen", &e)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table that is told of `areas` by hand.
    struct Bench(Sender<Vec<String>>, SwapTable);

    impl Bench {
        fn new() -> Bench {
            let (sender, news) = channel();
            Bench(sender, SwapTable { news: Some(news), ..SwapTable::default() })
        }

        /// What an update comes to: `+unit` and `-unit`. `areas`: none when only units changed.
        fn take(&mut self, areas: Option<&str>, files: &str) -> String {
            let words = |text: &str| -> Vec<String> {
                text.split_whitespace().map(str::to_owned).collect()
            };
            if let Some(areas) = areas {
                self.0.send(words(areas)).expect("the table is there");
            }
            let files = words(files).iter().filter_map(|name| UnitName::parse(name).ok()).collect();
            let changed = self.1.take(|| files);
            let sign = |name: &UnitName| if self.1.is_on(name) { '+' } else { '-' };
            let words: Vec<String> =
                changed.iter().map(|name| format!("{}{name}", sign(name))).collect();
            words.join(" ")
        }
    }

    #[test]
    fn an_area_has_the_unit_of_a_file_or_one_of_its_own() {
        let mut bench = Bench::new();
        assert_eq!(bench.take(Some(""), "a.swap"), "");
        assert_eq!(bench.take(Some("/a /b"), "a.swap c.swap"), "+a.swap +b.swap");
        assert_eq!(bench.take(None, "a.swap b.swap"), "", "nobody said that units changed");
        assert_eq!(bench.take(Some("/b"), "a.swap c.swap"), "-a.swap");
        assert_eq!(bench.take(Some("/b /c"), "a.swap c.swap"), "+c.swap");
        assert_eq!(bench.take(Some(""), "a.swap c.swap"), "-b.swap -c.swap");
    }

    #[test]
    fn a_link_stands_for_what_it_leads_to() {
        // A link that every system has.
        let area = std::fs::canonicalize("/dev/fd");
        let Ok(area) = area.map(|path| path.to_string_lossy().into_owned()) else {
            return warren_testkit::not_run("no /dev/fd");
        };
        let mut bench = Bench::new();
        assert_eq!(bench.take(Some(&area), "dev-fd.swap"), "+dev-fd.swap");
        // The unit's file goes: the area has its own unit.
        let name = UnitName::parse("dev-fd.swap").expect("a name");
        assert_eq!(bench.1.look_again([&name].into_iter()).len(), 1);
        let own = unit_of(&area).expect("a plain path");
        assert_eq!(bench.take(None, ""), format!("-dev-fd.swap +{own}"));
    }

    #[test]
    fn what_cannot_be_named_has_no_unit() {
        for area in ["/swap\\040(deleted)", "/a\\012b", "relative", ""] {
            assert_eq!(unit_of(&unescape_octal(area)), None, "{area}");
        }
        let name = unit_of("/var/swap file").map(|name| name.to_string());
        assert_eq!(name.as_deref(), Some("var-swap\\x20file.swap"));
    }

    #[test]
    fn the_table_is_read() {
        let table = "Filename\t\t\tType\t\tSize\tUsed\tPriority\n\
                     /dev/sda2  partition\t1\t0\t-2\n\
                     /a\\040b\\134 file\t\t1\t0\t5\n";
        assert_eq!(areas(table).collect::<Vec<_>>(), ["/dev/sda2", "/a b\\"]);
        assert_eq!(areas("").count(), 0);
    }
}

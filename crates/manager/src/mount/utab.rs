//! What mount(8) was told of mounts and the kernel does not know: `/run/mount/utab`, where it keeps
//! options that begin with `x-`. Of these only `x-systemd.device-bound` matters here
//! (systemd.mount(5)). A thread follows the file; without it such options of mounts by hand are not
//! heard of, and everything else works.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use warren_sys::Error;
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::eventfd::EventFd;
use warren_sys::inotify::{Inotify, WatchFor};
use warren_unit::{UnitName, UnitType, value};

use crate::base::backoff::Retries;

/// Where the directory of the file appears, with the first mount that has such options.
const PARENT: &str = "/run";
const DIRECTORY: &str = "/run/mount";
const FILE: &str = "/run/mount/utab";

/// More of the file is not read.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The option, systemd.mount(5).
pub const DEVICE_BOUND: &str = "x-systemd.device-bound";

/// Of units of mounts, whether they go with their devices; only those of which it was said.
pub type Bound = BTreeMap<UnitName, bool>;

/// The manager's side.
#[derive(Default)]
pub struct MountOptions {
    told: Option<Receiver<Bound>>,
    bound: Bound,
}

impl MountOptions {
    /// Begins to follow the file; tells `wake` of changes.
    pub fn follow(wake: Arc<EventFd>) -> MountOptions {
        let (sender, told) = channel();
        let follow = move || {
            let Ok(mut retries) = Retries::new() else { return };
            let mut last = Bound::new();
            while let Err(e) = follow(&sender, &wake, &mut last, &mut retries) {
                retries.failed("changes of mount options kept by mount(8) are not seen", &e);
            }
        };
        let thread = std::thread::Builder::new().name("utab".into()).spawn(follow);
        MountOptions { told: thread.is_ok().then_some(told), bound: Bound::new() }
    }

    /// Takes what is new; returns the units it says something else of.
    pub fn take(&mut self) -> Vec<UnitName> {
        let Some(now) = self.told.iter().flat_map(Receiver::try_iter).last() else {
            return Vec::new();
        };
        let before = std::mem::replace(&mut self.bound, now);
        let all = before.keys().chain(self.bound.keys());
        let others = all.filter(|unit| before.get(*unit) != self.bound.get(*unit));
        others.cloned().collect()
    }

    /// What was said of a mount.
    pub fn is_bound(&self, unit: &UnitName) -> Option<bool> {
        self.bound.get(unit).copied()
    }
}

/// Ends well when nobody listens any more. `last` is what was told last.
fn follow(
    sender: &Sender<Bound>,
    wake: &EventFd,
    last: &mut Bound,
    retries: &mut Retries,
) -> warren_sys::Result<()> {
    let (inotify, epoll) = (Inotify::new()?, Epoll::new()?);
    epoll.add(&inotify, 0, Interest::READ)?;
    let mut above = Some(inotify.add(PARENT, WatchFor::Names)?);
    let mut events = Events::with_capacity(1);
    loop {
        if above.is_some() && inotify.add(DIRECTORY, WatchFor::Entries).is_ok() {
            above.take().into_iter().for_each(|watch| inotify.remove(watch));
        }
        let now = parse(&read(Path::new(FILE))?);
        retries.succeeded();
        if now != *last {
            last.clone_from(&now);
            if sender.send(now).is_err() {
                return Ok(());
            }
            wake.notify();
        }
        epoll.wait(&mut events, None)?;
        inotify.drain(&mut Vec::new())?;
    }
}

/// Nothing where there is no such file.
fn read(path: &Path) -> warren_sys::Result<String> {
    use std::io::Read;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path);
    match file.and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::at("read", FILE, e.raw_os_error().unwrap_or(0)));
        }
        _ => {}
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A line has words `KEY=VALUE`, with blanks and backslashes in octal.
pub(crate) fn parse(text: &str) -> Bound {
    let entry = |line: &str| {
        let field =
            |key: &str| line.split(' ').find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        let target = plain(field("TARGET")?);
        let unit = UnitName::for_path(target.starts_with('/').then_some(&target)?, UnitType::Mount);
        Some((unit.ok()?, of_options(&plain(field("OPTS")?))?))
    };
    text.lines().filter_map(entry).collect()
}

/// The last such option counts.
fn of_options(options: &str) -> Option<bool> {
    options.rsplit(',').find_map(|option| match option.strip_prefix(DEVICE_BOUND)? {
        "" => Some(true),
        value => value::boolean(value.strip_prefix('=')?).ok(),
    })
}

/// With `\040` and its like as the characters they stand for.
fn plain(word: &str) -> String {
    let mut out = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) if byte == b'\\' => {
                out.push(code);
                rest = &after[3..];
            }
            _ => {
                out.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<(&str, bool)>) {
        let bound = parse(line);
        let found = bound.iter().next().map(|(unit, bound)| (unit.as_str(), *bound));
        assert_eq!(found, expected, "{line}");
    }

    /// As mount(8) of util-linux 2.38 writes it.
    #[test]
    fn the_option_is_found() {
        let on = "SRC=/dev/sda TARGET=/run/x ROOT=/ OPTS=x-systemd.device-bound";
        check(on, Some(("run-x.mount", true)));
        check(&format!("{on},x-systemd.device-bound=no"), Some(("run-x.mount", false)));
        check("ID=7 TARGET=/a\\040b OPTS=x-a,x-systemd.device-bound=yes,x-b", {
            Some(("a\\x20b.mount", true))
        });
        for nothing in [
            "",
            "TARGET=/run/x OPTS=x-systemd.automount",
            "TARGET=/run/x OPTS=x-systemd.device-bounded",
            "TARGET=/run/x OPTS=x-systemd.device-bound=perhaps",
            "TARGET=relative\\04 OPTS=x-systemd.device-bound",
            "OPTS=x-systemd.device-bound",
        ] {
            check(nothing, None);
        }
    }
}

//! Time zones: their files read, and that of the host watched.

use std::path::Path;

use warren_calendar::{Zone, is_zone_name};
use warren_sys::epoll::{Epoll, Events, Interest};
use warren_sys::inotify::{Inotify, WatchFor};

use crate::base::say::say;

/// Where zones are (tzfile(5)).
const ZONES: &str = "/usr/share/zoneinfo";

/// The zone of the host (localtime(5)), and where it lies.
const LOCAL: &str = "/etc/localtime";
const LOCAL_DIRECTORY: &str = "/etc";
const LOCAL_NAME: &str = "localtime";

/// Bytes of a zone file at most; the largest has some thousands.
const ZONE_BYTES_MAX: usize = 1 << 20;

/// The stack of the thread that watches.
const STACK_BYTES: usize = 128 << 10;

fn read(path: &Path, name: &str) -> Option<Zone> {
    let (bytes, _) = warren_sys::file::read_owned(path, ZONE_BYTES_MAX).ok()?;
    Zone::from_tzfile(name, &bytes)
}

/// The zone of this name; none if there is none.
pub(crate) fn named(name: &str) -> Option<Zone> {
    is_zone_name(name).then(|| read(&Path::new(ZONES).join(name), name)).flatten()
}

/// The zone of the host. Without one it is UTC.
pub(crate) fn local() -> Zone {
    let stated = std::env::var("TZ").ok().filter(|text| !text.is_empty());
    let stated = stated.as_deref().map(|text| text.strip_prefix(':').unwrap_or(text));
    let zone = match stated {
        Some(text) => named(text).or_else(|| Zone::from_rule(text)),
        None => read(Path::new(LOCAL), ""),
    };
    zone.unwrap_or_else(Zone::utc)
}

/// Watches the zone of the host in a thread of its own; `tell` is called with each that comes.
pub(crate) fn watch(tell: impl Fn(Zone) + Send + 'static) {
    // What the environment states does not change.
    if std::env::var_os("TZ").is_some_and(|text| !text.is_empty()) {
        return;
    }
    let thread = std::thread::Builder::new().name("time-zone".into()).stack_size(STACK_BYTES);
    let watch = move || {
        if let Err(e) = tell_changes(&tell) {
            say!("cannot watch {LOCAL}, so timers do not follow its changes: {e}");
        }
    };
    if let Err(e) = thread.spawn(watch) {
        say!("cannot watch {LOCAL}, so timers do not follow its changes: {e}");
    }
}

fn tell_changes(tell: &impl Fn(Zone)) -> warren_sys::Result<()> {
    let inotify = Inotify::new()?;
    inotify.add(LOCAL_DIRECTORY, WatchFor::Entries)?;
    let epoll = Epoll::new()?;
    epoll.add(&inotify, 0, Interest::READ)?;
    let mut ready = Events::with_capacity(1);
    loop {
        epoll.wait(&mut ready, None)?;
        let mut changes = Vec::new();
        let is_lost = inotify.drain(&mut changes)?;
        if is_lost || changes.iter().any(|change| change.name == LOCAL_NAME) {
            tell(local());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_zones_are_looked_for() {
        for name in
            ["../../../etc/localtime", "/etc/localtime", "", "Europe", "zone.tab", "No/Where"]
        {
            assert!(named(name).is_none(), "{name}");
        }
    }
}

//! Stamp files: when timers with `Persistent=` last elapsed, as the time of change of a file that is empty.
//!
//! Names and places are those of systemd, so a host that changes its manager misses and repeats nothing.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The stamp file of a timer.
pub(crate) fn path(directory: &Path, timer: &str) -> PathBuf {
    directory.join(format!("stamp-{timer}"))
}

/// When the timer last elapsed, in µs since 1970. If there is no file one is made for `now_us`, and none is returned.
pub(crate) fn look_up(path: &Path, now_us: u64) -> io::Result<Option<u64>> {
    match path.symlink_metadata() {
        Ok(found) => {
            let since = found.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            Ok(Some(u64::try_from(since.as_micros()).unwrap_or(u64::MAX)))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => write(path, now_us).map(|()| None),
        Err(e) => Err(e),
    }
}

/// Notes that the timer elapsed.
pub(crate) fn write(path: &Path, at_us: u64) -> io::Result<()> {
    const MODE: u32 = 0o644;
    let is_missing = |e: &warren_sys::Error| e.is_gone();
    let touch = || warren_sys::file::touch(path, MODE, time(at_us));
    match touch() {
        Err(e) if is_missing(&e) => {
            let directory = path.parent().unwrap_or(path);
            DirBuilder::new().recursive(true).mode(0o755).create(directory)?;
            touch().map_err(|e| io::Error::from_raw_os_error(e.errno))
        }
        other => other.map_err(|e| io::Error::from_raw_os_error(e.errno)),
    }
}

fn time(us: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(us)
}

/// Removes it (`systemctl clean --what=state`).
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_testkit::Scratch;

    #[test]
    fn a_stamp_is_made_and_read_and_made_anew() {
        let scratch = Scratch::new("stamps");
        let path = path(&scratch.path("a/timers"), "a.timer");
        assert!(path.ends_with("stamp-a.timer"));
        let [first, second] = [1_774_612_800_000_001, 1_774_616_400_123_456];
        assert_eq!(look_up(&path, first).ok(), Some(None));
        assert_eq!(look_up(&path, second).ok(), Some(Some(first)));
        write(&path, second).expect("written");
        assert_eq!(look_up(&path, 0).ok(), Some(Some(second)));
        remove(&path).expect("removed");
        remove(&path).expect("nothing to remove");
        assert!(!path.exists());
    }

    #[test]
    fn what_is_no_file_of_ours_is_left_alone() {
        let scratch = Scratch::new("stamps-of-others");
        let target = scratch.write("target", "text");
        let link = scratch.path("stamp-a.timer");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        assert!(write(&link, 5_000_000).is_err());
        assert!(
            std::fs::metadata(&target).expect("there").modified().expect("known") > time(5_000_000)
        );
        assert!(look_up(Path::new("/proc/none/stamp-a.timer"), 5).is_err());
    }
}
